"""A paused turn: its snapshot, what it refuses, and how it is resumed."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select.agent import Action, ActionDecision, Router, Run, Snapshot, TurnState
from jazz_select.errors import RouterError, SnapshotError
from tests.unit.agent.counting import START, Count, acting, answering, finishing, raises, router, unchanged, work


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
    with pytest.raises(RouterError, match="most_nodes must be at least 0, got -1"):
        await router().run(START, most_nodes=-1)


async def test_a_turn_that_has_ended_has_no_snapshot() -> None:
    run = await router().run(START)
    with pytest.raises(SnapshotError, match="the turn has ended"):
        run.snapshot()


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
