"""The router: what it refuses, what becomes of what fails in it, and how it is resumed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from pydantic import BaseModel, Field

from jazz_select.agent import (
    Action,
    ActionDecision,
    Guard,
    Route,
    Router,
    Run,
    Snapshot,
    TurnState,
    changed,
    guard,
    iteration_cap,
)
from jazz_select.errors import JazzSelectError, RouterError, SnapshotError
from jazz_select.telemetry import Trace
from jazz_select.values import Tier


class Count(TurnState):
    """Counts."""

    name: str
    done: int = 0
    anything: Any = None


FINISH = ActionDecision(action="finish", reason="enough")


async def finishing(_: Count) -> ActionDecision:
    return FINISH


async def working(state: Count) -> ActionDecision:
    return FINISH if state.done >= 3 else ActionDecision(action="work")


def work(state: Count) -> Mapping[str, Any]:
    return {"done": state.done + 1}


def router(**changes: Any) -> Router[Count]:
    """A router that works three times."""
    made: dict[str, Any] = {"guards": (), "routes": {}, "actions": {"work": Action(run=work)}, "plan": working}
    return Router(Count, **{**made, **changes})


def unchanged(_: Count, given: ActionDecision) -> ActionDecision:
    return given


START = Count(name="a")


@guard("ask")
def asks(_: Count) -> Route | None:
    return None


@guard("continue")
def goes_on(_: Count) -> Route | None:
    return None


def to(then: str | Mapping[str, str]) -> Action[Count]:
    return Action(run=work, then=then)


async def never(*_: Any) -> Any:
    return None


waits: Any = never


# --- what is refused when it is built ------------------------------------------

REFUSED: list[Any] = [
    pytest.param(
        {"guards": [asks]},
        "the tag 'ask' of guard asks has no edge",
        id="a tag without an edge",
        marks=pytest.mark.spec("002.18"),
    ),
    pytest.param(
        {"guards": [asks], "routes": {"ask": "nobody"}},
        "the edge 'ask' of pre_check leads to 'nobody'",
        id="an edge to nowhere",
        marks=pytest.mark.spec("002.18"),
    ),
    pytest.param({"routes": {"ask": "finish"}}, "no guard answers 'ask'", id="an edge that nothing takes"),
    pytest.param(
        {"guards": [goes_on], "routes": {"continue": "finish"}},
        "'continue' of guard goes_on has a meaning",
        id="a tag that is taken",
    ),
    pytest.param(
        {"actions": {"work": to("rest")}},
        r"the edge '\(always\)' of work leads to 'rest'",
        id="an action that leads nowhere",
    ),
    pytest.param(
        {"actions": {"work": to({"well": "finish", "ill": "rest"})}},
        "the edge 'ill' of work leads to 'rest'",
        id="a way that leads nowhere",
    ),
    pytest.param({"actions": {"work": to({})}}, "work has no way out", id="no way out"),
    pytest.param(
        {"actions": {"work": to({"failed": "finish"})}},
        "the tag 'failed' of work has a meaning",
        id="a way that is taken",
    ),
    pytest.param(
        {"actions": {"work": to("work")}},
        "work → work is a loop that no guard sees",
        id="a loop of one",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"work": to("acquire_or_plan")}},
        "loop that no guard sees; lead it back to pre_check",
        id="a loop to the plan",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"a": to("b"), "b": to({"x": "pre_check", "y": "a"})}},
        "loop that no guard sees",
        id="a loop of two",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"pre_check": Action(run=work)}}, "two nodes have one name: pre_check", id="the guards' name"
    ),
    pytest.param({"actions": {"finish": Action(run=work)}}, "two nodes have one name: finish", id="the end's name"),
    pytest.param({"validators": {"work": unchanged}}, "two nodes have one name: work", id="a validator like an action"),
    pytest.param(
        {"actions": {"work": Action(run=work), "rest": Action(run=work, planned=False)}},
        "nothing leads to rest",
        id="out of reach",
    ),
    pytest.param({"actions": {"": Action(run=work)}}, "'' is no name of a node", id="no name"),
    pytest.param(
        {"actions": {"after pre_check": Action(run=work)}}, "'after pre_check' is no name", id="a name with a space"
    ),
    pytest.param(
        {"actions": {"work": to({'a"|b': "finish"})}}, "is no name of a node or tag", id="a tag that breaks a picture"
    ),
    pytest.param({"actions": {"__end__": Action(run=work)}}, "'__end__' is no name", id="a name that is kept"),
    pytest.param({"guards": [Guard("keeper", waits, ())]}, "guard keeper is async", id="a guard that waits"),
    pytest.param({"acquire": waits}, "acquire is async", id="an acquisition that waits"),
    pytest.param({"rewrites": [waits]}, "rewrite never is async", id="a rewrite that waits"),
    pytest.param({"validators": {"check": waits}}, "validator check is async", id="a validator that waits"),
    pytest.param({"max_iterations": 0}, "max_iterations must be at least 1", id="no round"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_cannot_work_is_refused_when_it_is_built(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RouterError, match=message):
        router(**changes)


@pytest.mark.parametrize("kind", [int, BaseModel, "Count"], ids=str)
def test_a_state_is_a_turn_state(kind: Any) -> None:
    with pytest.raises(RouterError, match="derive it from TurnState"):
        Router(kind, guards=(), routes={}, actions={}, plan=finishing)


def test_many_ways_are_checked_in_no_time() -> None:
    layers = {
        f"{side}{number}": to({"a": f"a{number + 1}", "b": f"b{number + 1}"}) for number in range(60) for side in "ab"
    }
    assert len(router(actions={**layers, "a60": to("finish"), "b60": to("pre_check")}).nodes) == 125


# --- what fails while it runs --------------------------------------------------


def raises(*_: Any) -> Any:
    msg = "it fell"
    raise ValueError(msg)


def answering(given: Any) -> Callable[..., Any]:
    return lambda *_: given


def planning(given: Any) -> Callable[[Count], Awaitable[Any]]:
    async def plan(_: Count) -> Any:
        return given

    return plan


def guarded(check: Callable[[Count], Any]) -> dict[str, Any]:
    return {"guards": [Guard("keeper", check, ("ask",))], "routes": {"ask": "work"}}


def acting(run: Callable[[Count], Any], **changes: Any) -> dict[str, Any]:
    return {"actions": {"work": Action(run=run, **changes)}}


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


# --- guards, rewrites, actions -------------------------------------------------


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


# --- pausing -------------------------------------------------------------------


async def paused(**changes: Any) -> Run[Count]:
    return await router(**changes).run(START, most_nodes=3)


@pytest.mark.spec("002.21")
async def test_paused_and_resumed_the_trace_is_the_same() -> None:
    through = await router().run(START)
    run = await paused()
    assert (run.status, run.node, len(run.trace)) == ("paused", "pre_check", 3)
    again = await router().resume(Snapshot.from_json(run.snapshot().to_json()))
    assert again == through


async def test_what_was_answered_comes_in_when_it_is_resumed() -> None:
    made = router(**acting(work, pauses=True))
    run = await made.run(START)
    assert (run.status, run.node) == ("paused", "pre_check")
    run = await made.resume(run.snapshot(), {"done": 3})
    assert (run.status, run.state.done) == ("finished", 3)
    wrongs: list[Any] = [{"nothing": 1}, {"done": "x"}, {"done": []}, {1: 2}, {"decision": 3}, [("done", 3)], "done"]
    for wrong in wrongs:
        with pytest.raises(RouterError, match="the updates are no state"):
            await made.resume((await made.run(START)).snapshot(), wrong)


@pytest.mark.spec("002.21")
async def test_an_action_of_another_name_is_found_by_its_alias() -> None:
    run = await router().run(START, most_nodes=2)
    renamed = router(actions={"toil": Action(run=work)}, plan=finishing, validators={"check": unchanged})
    with pytest.raises(SnapshotError, match="there is no node 'work'") as caught:
        await renamed.resume(run.snapshot())
    assert caught.value.missing == ("work",)
    assert (await renamed.resume(run.snapshot(), aliases={"work": "toil"})).state.done == 1
    before = run.snapshot().model_copy(update={"node": "check"})
    assert (await renamed.resume(before, aliases={"work": "toil"})).state.done == 1


SNAPSHOT: dict[str, Any] = {"node": "work", "state": {"name": "a"}, "trace": [], "version": 1}
BROKEN: list[Any] = [
    pytest.param("nonsense", "the text: Invalid JSON", (), id="nonsense"),
    pytest.param(b"\xff\xfe", "the text: Invalid JSON", (), id="no text"),
    pytest.param("[]", "the text: Input should be an object", (), id="a list"),
    pytest.param(
        json.dumps({**SNAPSHOT, "version": 2, "node": {}}),
        "it is of version 2, and this is version 1",
        (),
        id="another version",
    ),
    pytest.param("{}", "version: Field required", ("version",), id="no version"),
    pytest.param('{"version": 1}', "node: Field required", ("node", "state"), id="nothing but a version"),
    pytest.param(
        json.dumps({**SNAPSHOT, "state": {}}),
        "its state is no Count: name: Field required",
        ("name",),
        id="a field is missing",
    ),
    pytest.param(
        json.dumps({**SNAPSHOT, "state": {"name": "a", "old": 1}}), "old: Extra inputs", (), id="a field that is gone"
    ),
    pytest.param(
        json.dumps({**SNAPSHOT, "state": {"name": "a", "done": "x"}}),
        "done: Input should be a valid integer",
        (),
        id="a wrong value",
    ),
    pytest.param(
        json.dumps({**SNAPSHOT, "node": "fly"}), "there is no node 'fly'; pass aliases=", ("fly",), id="an unknown node"
    ),
    pytest.param(json.dumps({**SNAPSHOT, "node": ""}), "there is no node ''", ("",), id="no node"),
]


@pytest.mark.spec("002.21")
@pytest.mark.parametrize(("text", "message", "missing"), BROKEN)
async def test_a_snapshot_that_does_not_fit_says_what_is_wrong(
    text: str, message: str, missing: tuple[str, ...]
) -> None:
    with pytest.raises(SnapshotError, match="cannot be resumed") as caught:
        await router().resume(Snapshot.from_json(text))
    assert message in caught.value.problem
    assert caught.value.missing == missing


async def test_a_snapshot_of_another_version_is_refused_however_it_was_made() -> None:
    snapshot = (await paused()).snapshot().model_copy(update={"version": 7})
    with pytest.raises(SnapshotError, match="it is of version 7"):
        await router().resume(snapshot)


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else 0


ODD: list[Any] = [
    pytest.param(object(), id="an object"),
    pytest.param("\ud800", id="half a character"),
    pytest.param(b"\xff", id="bytes that are no text"),
    pytest.param({"a": [raises]}, id="a function inside"),
    pytest.param(deep(400), id="too deep"),
]


@pytest.mark.parametrize("value", ODD)
async def test_a_state_that_does_not_go_to_json_says_which_field(value: Any) -> None:
    run = await router(**acting(answering({"anything": value}))).run(START, most_nodes=3)
    with pytest.raises(SnapshotError, match="the field anything does not go to JSON"):
        run.snapshot()


async def test_a_state_that_would_not_come_back_is_refused_before_it_is_lost() -> None:
    class Share(TurnState):
        share: float = 0.0

    async def plan(_: Share) -> ActionDecision:
        return ActionDecision(action="work")

    def divide(_: Share) -> Mapping[str, Any]:
        return {"share": float("nan")}

    made = Router(Share, guards=(), routes={}, actions={"work": Action(run=divide)}, plan=plan)
    run = await made.run(Share(), most_nodes=3)
    with pytest.raises(SnapshotError, match="share"):
        run.snapshot()


async def test_a_number_of_nodes_is_none_below_nought() -> None:
    assert (await router().run(START, most_nodes=0)).trace == ()
    with pytest.raises(RouterError, match="most_nodes must be at least 0, not -1"):
        await router().run(START, most_nodes=-1)


async def test_a_turn_that_has_ended_has_no_snapshot() -> None:
    run = await router().run(START)
    with pytest.raises(SnapshotError, match="the turn has ended"):
        run.snapshot()


def test_all_errors_are_of_one_root() -> None:
    assert issubclass(RouterError, JazzSelectError)
    assert issubclass(SnapshotError, JazzSelectError)


@pytest.mark.spec("002.21")
async def test_a_decision_on_an_action_that_is_gone_is_told_and_not_dropped() -> None:
    paused = await router(validators={"check": unchanged}).run(START, most_nodes=2)
    assert paused.node == "check"
    renamed = router(actions={"toil": Action(run=work)}, validators={"check": unchanged}, plan=finishing)
    with pytest.raises(SnapshotError, match="no action 'work' any more") as caught:
        await renamed.resume(paused.snapshot())
    assert caught.value.missing == ("work",)
    resumed = await renamed.resume(paused.snapshot(), aliases={"work": "toil"})
    assert resumed.state.done == 1
