"""Wherever a turn is paused, written to JSON and resumed: it ends as it would have without."""

import asyncio
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from jazz_select.agent import Action, ActionDecision, Route, Router, Run, Snapshot, TurnState, guard, iteration_cap
from tests.depth import examples


class Walk(TurnState):
    """Goes as far as its seed says."""

    seed: int
    steps: tuple[int, ...] = ()
    seen: dict[str, float] = Field(default_factory=dict[str, float])
    word: str = ""


def next_of(state: Walk) -> int:
    """A number that follows from all that happened."""
    return (state.seed * 31 + sum((place + 3) * step for place, step in enumerate(state.steps)) + len(state.word)) % 97


@guard("enough", "look")
def directs(state: Walk) -> Route | None:
    if next_of(state) % 11 == 0:
        return Route("enough")
    if next_of(state) % 7 == 0:
        return Route("look", {"word": f"{state.word}é"}, ActionDecision(action="look", arguments={"at": state.seed}))
    return None


def acquire(state: Walk) -> ActionDecision | None:
    return ActionDecision(action="step", reason="certain") if next_of(state) % 3 == 0 else None


async def plan(state: Walk) -> ActionDecision:
    if next_of(state) % 13 == 0:
        raise ValueError(state.word)
    action = ("step", "look", "rest", "fly", "finish")[next_of(state) % 5]
    return ActionDecision(action=action, arguments={"deep": {"list": [1, None, 0.5, "ü"]}}, reason=state.word)


def no_rest(state: Walk, decision: ActionDecision) -> ActionDecision:
    return decision.model_copy(update={"action": "step"}) if decision.action == "rest" and state.steps else decision


def checked(_: Walk, decision: ActionDecision) -> ActionDecision:
    return decision.model_copy(update={"action": "look"}) if decision.action == "rest" else decision


def step(state: Walk) -> Mapping[str, Any]:
    return {"steps": (*state.steps, next_of(state)), "seen": {**state.seen, str(next_of(state)): next_of(state) / 7}}


def look(state: Walk) -> Route:
    return Route("twice" if next_of(state) % 2 else "once", {"word": f"{state.word}x"})


ROUTER = Router(
    Walk,
    guards=(iteration_cap(8), directs),
    routes={"finish_iteration_cap": "finish", "enough": "finish", "look": "look"},
    actions={
        "step": Action(run=step),
        "look": Action(run=look, then={"once": "pre_check", "twice": "note"}),
        "note": Action(run=lambda state: {"word": f"{state.word}n"}, planned=False),
        "rest": Action(run=step),
    },
    acquire=acquire,
    plan=plan,
    rewrites=(no_rest,),
    validators={"validate": checked},
)
"""What it does follows from the state alone, so two turns differ only if a pause changed something."""


async def in_pieces(start: Walk, pauses: list[int]) -> Run[Walk]:
    """Paused after so many nodes, and again; once there are no more pauses, to the end."""
    first, *more = [*pauses, None]
    run = await ROUTER.run(start, most_nodes=first)
    for most_nodes in more:
        if run.status == "finished":
            break
        run = await ROUTER.resume(Snapshot.from_json(run.snapshot().to_json()), most_nodes=most_nodes)
    return run


@settings(max_examples=examples(1_000), deadline=None)
@given(seed=st.integers(0, 10_000), pauses=st.lists(st.integers(0, 6), min_size=1, max_size=12))
def test_pausing_changes_nothing(seed: int, pauses: list[int]) -> None:
    async def both() -> tuple[Run[Walk], Run[Walk]]:
        return await ROUTER.run(Walk(seed=seed)), await in_pieces(Walk(seed=seed), pauses)

    through, pieces = asyncio.run(both())
    assert through.status == "finished"
    assert pieces == through
