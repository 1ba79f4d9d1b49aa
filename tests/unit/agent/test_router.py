"""The router: guards, rewrites and actions of a turn, and how many turns at once do not mix."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select.agent import ActionDecision, Route, TurnState, changed, guard, iteration_cap
from jazz_select.errors import RouterError
from jazz_select.telemetry import Trace
from jazz_select.values import Tier
from tests.unit.agent.counting import START, Count, acting, finishing, planning, router


@pytest.mark.spec("002.10", "002.22")
def test_guards_see_the_updates_of_those_before_them() -> None:
    @guard()
    def first(state: Count) -> Route:
        return Route(updates={"done": state.done + 1})

    @guard("ask")
    def second(state: Count) -> Route | None:
        decision = ActionDecision(action="work", reason=f"{state.done} done")
        return Route("ask", {"name": "b"}, decision) if state.done else None

    made = router(guards=[first, second], routes={"ask": "work"})
    assert made.pre_check(START) == Route(
        "ask", {"iterations": 1, "done": 1, "name": "b"}, ActionDecision(action="work", reason="1 done")
    )


@pytest.mark.spec("002.20")
def test_of_what_is_wanted_only_what_differs_is_changed() -> None:
    assert changed(START, {"name": "a", "done": 0}) == {}
    assert changed(START, {"name": "a", "done": 1}) == {"done": 1}

    @guard()
    def there_and_back(state: Count) -> Route:
        return Route(updates={"done": state.done})

    assert router(guards=[there_and_back]).pre_check(START).updates == {"iterations": 1}


@pytest.mark.spec("002.11")
async def test_how_a_node_was_left_has_a_field_of_its_own() -> None:
    run = await router(guards=[iteration_cap(2)], routes={"finish_iteration_cap": "finish"}).run(START)
    assert run.state.route == "finish_iteration_cap"
    assert run.state.decision is not None
    assert run.state.decision.action == "work"


@pytest.mark.spec("002.16")
async def test_notes_of_a_decision_stay_whatever_a_rewrite_makes() -> None:
    def anew(_: Count, given: ActionDecision) -> ActionDecision:
        return ActionDecision(action="work", reason=given.action, notes=("mine",))

    def same(_: Count, given: ActionDecision) -> ActionDecision:
        return given.model_copy()

    planned = ActionDecision(action="finish", notes=("the model's",))
    run = await router(plan=planning(planned), rewrites=[same, anew, same]).run(START, most_nodes=2)
    assert run.state.decision == ActionDecision(
        action="work", reason="finish", tier=Tier.GUIDED, notes=("the model's", "mine", "anew: finish → work")
    )


async def test_an_action_says_which_way_it_goes_sync_or_async() -> None:
    async def twice(state: Count) -> Route:
        return Route("again" if state.done < 1 else "over", {"done": state.done + 1})

    run = await router(**acting(twice, then={"again": "pre_check", "over": "finish"})).run(START)
    assert [each.node for each in run.trace].count("work") == 2
    assert [each.route for each in run.trace if each.node == "work"] == ["again", "over"]


async def test_many_turns_at_once_do_not_mix() -> None:
    async def slow(state: Count) -> Mapping[str, Any]:
        await asyncio.sleep(0.001 * (len(state.name) % 3))
        return {"done": state.done + 1, "anything": [*(state.anything or []), state.name]}

    made = router(**acting(slow))
    runs = await asyncio.gather(*(made.run(Count(name="x" * size)) for size in range(100)))
    assert [run.state.anything for run in runs] == [["x" * size] * 3 for size in range(100)]
    assert all(run.trace == runs[0].trace for run in runs)


async def test_a_turn_and_its_nodes_are_traced() -> None:
    with Trace() as trace:
        await router(plan=finishing).run(START)
    assert [(span.kind, span.name, span.depth) for span in trace] == [
        ("turn", "turn", 0),
        ("node", "pre_check", 1),
        ("node", "acquire_or_plan", 1),
        ("node", "finish", 1),
    ]
    assert trace.spans[0].attributes == {"status": "finished", "iterations": 1}
    assert trace.spans[2].attributes["tier"] == "guided"
    assert trace.spans[2].content["reason"] == "enough"


async def test_a_turn_runs_on_its_own_state_only() -> None:
    with pytest.raises(RouterError, match="turn runs on Count, not on TurnState"):
        await router().run(TurnState())  # pyright: ignore[reportArgumentType] - what is tested
