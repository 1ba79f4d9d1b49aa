"""A router without a planner: guards and actions alone. And rounds that are counted, whoever says otherwise."""

from typing import Any

import pytest

from jazz_select.agent import Action, ActionDecision, Guard, Route, Router, guard
from jazz_select.errors import ConfigError, RouterError
from jazz_select.values import Tier
from tests.unit.agent.counting import FINISH, START, Count, answering, guarded, router, work


@guard("go_on")
def under_two(state: Count) -> Route | None:
    return Route("go_on") if state.done < 2 else None


UNPLANNED: dict[str, Any] = {"guards": [under_two], "routes": {"go_on": "work"}, "actions": {"work": Action(run=work)}}
UNDECIDED = "no guard decides what is to be done, acquire neither, and there is no planner"


async def test_guards_and_actions_are_enough() -> None:
    run = await Router(Count, **UNPLANNED).run(START)
    assert (run.status, run.state.done, run.state.route) == ("finished", 2, "finish")
    assert run.state.decision == ActionDecision(action="finish", reason=UNDECIDED, tier=Tier.OPEN)


async def test_what_acquire_decides_needs_no_planner() -> None:
    def acquire(state: Count) -> ActionDecision | None:
        return ActionDecision(action="work") if state.done < 5 else None

    run = await Router(Count, **UNPLANNED, acquire=acquire).run(START)
    assert (run.state.done, run.state.decision and run.state.decision.reason) == (5, UNDECIDED)


async def test_a_router_of_nothing_but_an_action_ends_open() -> None:
    run = await Router(Count, guards=[], routes={}, actions={"work": Action(run=work)}).run(START)
    assert run.state.decision is not None
    assert (run.state.done, run.state.decision.tier) == (0, Tier.OPEN)


def same(state: Count) -> Route:
    return Route(updates={"iterations": state.iterations})


def works(state: Count) -> dict[str, int]:
    return {"iterations": state.iterations, "done": state.done + 1}


RESETS: list[Any] = [
    pytest.param(
        {"guards": [Guard("again", answering(Route(updates={"iterations": 0})), ())]},
        "guard again failed: it changes iterations, which the router counts",
        1,
        id="a guard",
    ),
    pytest.param(
        guarded(answering(Route("ask", {"iterations": 0}))),
        "guard keeper failed: it changes iterations, which the router counts",
        1,
        id="a guard that leads to an action",
    ),
    pytest.param(
        {"actions": {"work": Action(run=answering({"iterations": 0}))}},
        "it changes iterations, which the router counts",
        1,
        id="an action",
    ),
    pytest.param(
        {"guards": [Guard("same", same, ())]},
        "enough",
        4,
        id="a guard that gives back what there is",
    ),
    pytest.param(
        {"actions": {"work": Action(run=works)}},
        "enough",
        4,
        id="an action that gives back what there is",
    ),
]


@pytest.mark.parametrize(("changes", "reason", "rounds"), RESETS)
async def test_nobody_sets_the_count_of_rounds_back(changes: dict[str, Any], reason: str, rounds: int) -> None:
    run = await router(**changes, max_iterations=9).run(START)
    assert run.state.decision is not None
    assert reason in run.state.decision.reason
    assert run.state.iterations == rounds


async def test_the_most_rounds_hold_whatever_guards_say() -> None:
    endless = {"guards": [Guard("on", answering(Route("on")), ("on",))], "routes": {"on": "work"}}
    run = await router(**endless, max_iterations=5).run(START)
    assert (run.state.done, run.state.route, run.state.iterations) == (5, "finish_too_many_iterations", 6)


def bare(state: Count) -> Route | None:
    return None


WRONG: list[Any] = [
    pytest.param({"guards": [bare]}, "make one of a function with @guard", id="a function"),
    pytest.param({"guards": under_two}, "guards must be a list of Guards", id="one guard"),
    pytest.param({"routes": ["finish"]}, "routes must be a mapping of tags to nodes", id="a list of routes"),
    pytest.param({"actions": {"ask": work}}, r"Action\(run=…\) makes one of a function", id="an action's function"),
    pytest.param(
        {"actions": [Action(run=work)]}, "actions must be a mapping of names to Actions", id="a list of actions"
    ),
    pytest.param({"plan": FINISH}, "plan must be a function of the state", id="a plan that is a decision"),
    pytest.param({"acquire": "work"}, "acquire must be a function of the state", id="a text that acquires"),
]


@pytest.mark.parametrize(("changes", "problem"), WRONG)
def test_parts_of_the_wrong_kind_are_refused_when_it_is_built(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(RouterError, match=problem):
        router(**changes)


def test_a_guard_is_made_with_and_without_parentheses() -> None:
    made = [guard(bare), guard()(bare), guard("a", "b")(bare)]
    assert [(each.name, each.tags) for each in made] == [("bare", ()), ("bare", ()), ("bare", ("a", "b"))]
    with pytest.raises(ConfigError, match="must be given the tags that the guard may answer with"):
        guard(3)  # pyright: ignore[reportArgumentType, reportCallIssue]


async def test_a_guard_without_tags_that_answers_with_one_is_told_how_it_is_made() -> None:
    @guard
    def blocks(_: Count) -> Route | None:
        return Route("rude")

    run = await router(guards=[blocks]).run(START)
    assert run.state.decision is not None
    assert "make it with @guard('rude')" in run.state.decision.reason
