"""What becomes of what fails in a router while it runs."""

import asyncio
from typing import Any

import pytest
from pydantic import Field

from jazz_select.agent import Action, ActionDecision, Guard, Route, Router
from jazz_select.errors import JazzSelectError, RouterError, SnapshotError
from jazz_select.values import Tier
from tests.unit.agent.counting import (
    FINISH,
    START,
    Count,
    acting,
    answering,
    finishing,
    guarded,
    planning,
    raises,
    router,
    work,
)

WORD: Any = "work"
TWO = {"well": "pre_check", "ill": "finish"}
FAILING: list[Any] = [
    pytest.param(guarded(raises), "guard keeper failed: ValueError: it fell", id="a guard raises"),
    pytest.param(
        guarded(answering(Route("other"))),
        "guard keeper failed: it answered 'other', which is not among its tags",
        id="a foreign tag",
    ),
    pytest.param(
        guarded(answering("ask")), "guard keeper failed: it answered with str, not with a Route", id="a guard's text"
    ),
    pytest.param(
        guarded(answering(Route("ask", {"nothing": 1}))),
        "guard keeper failed: LookupError: Count has no field nothing",
        id="a guard's strange field",
    ),
    pytest.param(
        guarded(answering(Route("ask", {"done": "x"}))),
        "guard keeper failed: ValidationError",
        id="a guard's wrong value",
    ),
    pytest.param(
        guarded(answering(Route("ask", {}, WORD))),
        "guard keeper failed: its decision is str",
        id="a guard's wrong decision",
    ),
    pytest.param({"acquire": raises}, "acquisition failed: ValueError: it fell", id="the acquisition raises"),
    pytest.param(
        {"acquire": answering("work")},
        "acquisition failed: TypeError: it gave str, not an ActionDecision",
        id="the acquisition's text",
    ),
    pytest.param(
        {"plan": raises},
        "planning failed: ValueError: it fell",
        id="the planner raises",
        marks=pytest.mark.spec("002.15"),
    ),
    pytest.param(
        {"plan": planning("work")},
        "planning failed: TypeError: it gave str",
        id="the planner's text",
        marks=pytest.mark.spec("002.15"),
    ),
    pytest.param(
        {"plan": planning(ActionDecision(action="fly"))},
        "there is no action 'fly'",
        id="an unknown action",
        marks=pytest.mark.spec("002.15"),
    ),
    pytest.param({"rewrites": [raises]}, "raises failed: ValueError: it fell", id="a rewrite raises"),
    pytest.param(
        {"rewrites": [answering(None)]},
        "<lambda> failed: TypeError: it gave NoneType, not an ActionDecision",
        id="a rewrite's nothing",
    ),
    pytest.param({"validators": {"check": raises}}, "check failed: ValueError: it fell", id="a validator raises"),
    pytest.param(
        {"validators": {"check": answering(ActionDecision(action="fly"))}},
        "there is no action 'fly'",
        id="a validator's unknown action",
    ),
    pytest.param(acting(raises), "work failed: ValueError: it fell", id="an action raises"),
    pytest.param(
        acting(answering([1])), "work answered with list, not with fields of the state", id="an action's list"
    ),
    pytest.param(acting(answering(0)), "work answered with int, not with fields of the state", id="an action's nought"),
    pytest.param(
        acting(answering({"nothing": 1})),
        "work answered what is no state: LookupError: Count has no field nothing",
        id="an action's strange field",
    ),
    pytest.param(
        acting(answering({"done": "x"})),
        "work answered what is no state: ValidationError",
        id="an action's wrong value",
    ),
    pytest.param(
        acting(answering(Route("other"))),
        "work answered 'other', for which there is no edge",
        id="an action's foreign tag",
    ),
    pytest.param(
        acting(answering(Route("other")), then=TWO),
        "work answered 'other', for which there is no edge",
        id="one of two foreign tags",
    ),
    pytest.param(
        acting(answering({}), then=TWO), "work answered '', for which there is no edge", id="which of two ways"
    ),
    pytest.param(
        {"acquire": answering("work")},
        "acquisition failed: TypeError: it gave str, not an ActionDecision",
        id="acquisition's text",
    ),
    pytest.param({"finish": answering("x")}, "finish answered with str", id="the end's text"),
    pytest.param({"finish": answering({"done": "x"})}, "finish answered what is no state", id="the end's wrong value"),
    pytest.param({"finish": raises}, "finish failed: ValueError: it fell", id="the end raises"),
]


@pytest.mark.parametrize(("changes", "reason"), FAILING)
async def test_what_fails_ends_the_turn_and_says_why(changes: dict[str, Any], reason: str) -> None:
    run = await router(**changes).run(START)
    assert run.status == "finished"
    assert run.trace[-1].node == "finish"
    assert run.state.decision is not None
    assert run.state.decision.action == "finish"
    assert reason in run.state.decision.reason


@pytest.mark.parametrize("where", ["work", "guard", "plan", "acquire"])
async def test_a_state_that_was_spoilt_in_place_ends_the_turn(where: str) -> None:
    class Spoilt(Count):
        names: dict[str, int] = Field(default_factory=dict[str, int])

    def spoil(state: Any) -> Any:
        state.names[1] = "x"

    async def plan(state: Any) -> ActionDecision:
        if where == "plan":
            spoil(state)
        return ActionDecision(action="work")

    changes: dict[str, Any] = {
        "guards": [Guard("keeper", spoil, ())] if where == "guard" else (),
        "acquire": spoil if where == "acquire" else None,
    }
    action: Action[Spoilt] = Action(run=spoil if where == "work" else work)
    made = Router(Spoilt, routes={}, actions={"work": action}, plan=plan, max_iterations=3, **changes)
    run = await made.run(Spoilt(name="a"))
    assert run.trace[-1].node == "finish"
    assert run.state.decision is not None
    assert "answered what is no state: ValidationError" in run.state.decision.reason


async def test_a_guard_that_fails_lets_nothing_through_to_the_model() -> None:
    asked: list[Count] = []

    async def plan(state: Count) -> ActionDecision:
        asked.append(state)
        return FINISH

    run = await router(**guarded(raises), plan=plan).run(START)
    assert (run.state.route, asked) == ("finish_guard_failed", [])


@pytest.mark.spec("002.4")
async def test_a_turn_without_a_cap_of_its_own_ends_all_the_same() -> None:
    run = await router(plan=planning(ActionDecision(action="work")), max_iterations=5).run(START)
    assert (run.state.iterations, run.state.done, run.state.route) == (6, 5, "finish_too_many_iterations")
    assert run.state.decision is not None
    assert run.state.decision.reason == "more than 5 rounds"


async def test_a_failing_end_is_told_and_a_good_one_keeps_the_reason() -> None:
    run = await router(plan=finishing, finish=answering({"done": 9})).run(START)
    assert (run.state.done, run.state.route, run.state.decision) == (
        9,
        "finish",
        FINISH.model_copy(update={"tier": Tier.GUIDED}),
    )


@pytest.mark.parametrize("where", ["plan", "work"])
async def test_a_cancelled_turn_is_cancelled(where: str) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def hangs(_: Count) -> Any:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(where)

    turn = router(plan=hangs) if where == "plan" else router(**acting(hangs))
    task = asyncio.create_task(turn.run(START))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == [where]


async def sleeping(_: Count) -> ActionDecision:
    await asyncio.sleep(30)
    return FINISH


async def test_a_deadline_around_a_turn_holds() -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(router(plan=sleeping).run(START), 0.02)


async def test_what_is_no_exception_of_a_turn_passes_as_it_is() -> None:
    class Stop(BaseException):
        pass

    def stops(_: Count) -> Any:
        raise Stop

    with pytest.raises(Stop):
        await router(**acting(stops)).run(START)


def test_all_errors_are_of_one_root() -> None:
    assert issubclass(RouterError, JazzSelectError)
    assert issubclass(SnapshotError, JazzSelectError)
