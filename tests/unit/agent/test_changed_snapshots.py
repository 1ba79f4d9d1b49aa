"""Snapshots that were changed: signed, they are refused; unsigned, they go on only where the graph leads."""

import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select.agent import Action, ActionDecision, Route, Router, Snapshot, TurnState, guard
from jazz_select.errors import JazzSelectError, SnapshotError
from tests.unit.agent.mutations import changed, is_changed

SECRET = b"a secret of some length"


class Orders(TurnState):
    """What a turn about orders knows."""

    wanted: str = "look"
    confirmed: bool = False
    frozen: bool = False
    amount: int = 1
    reply: str = ""
    seen: tuple[str, ...] = ()


@guard("ask")
def needs_a_yes(state: Orders) -> Route | None:
    if state.wanted == "delete" and not state.confirmed:
        return Route("ask", {}, ActionDecision(action="ask", arguments={"what": "delete"}))
    return None


@guard("finish_enough")
def enough(state: Orders) -> Route | None:
    return Route("finish_enough") if len(state.seen) >= 2 else None


def careful(state: Orders, given: ActionDecision) -> ActionDecision:
    return given.model_copy(update={"action": "look"}) if state.frozen and given.action == "delete" else given


async def plan(state: Orders) -> ActionDecision:
    return ActionDecision(action=state.wanted, arguments={"id": 7})


def look(state: Orders) -> Mapping[str, Any]:
    return {"seen": (*state.seen, "look"), "wanted": "look" if state.confirmed else "delete"}


def hear(state: Orders) -> Mapping[str, Any]:
    return {"confirmed": state.reply == "yes", "wanted": "delete" if state.reply == "yes" else "look"}


def orders(log: list[tuple[str, Orders]], **changes: Any) -> Router[Orders]:
    """A turn in which something is deleted after a yes, and all is erased only after that."""

    def delete(state: Orders) -> Route:
        log.append(("delete", state))
        return Route("all" if state.amount > 1_000 else "one", {"seen": (*state.seen, "delete"), "wanted": "look"})

    def erase_all(state: Orders) -> None:
        log.append(("erase_all", state))

    made: dict[str, Any] = {
        "guards": (enough, needs_a_yes),
        "routes": {"ask": "ask", "finish_enough": "finish"},
        "actions": {
            "ask": Action(run=lambda _: {}, then="hear", pauses=True),
            "hear": Action(run=hear, planned=False),
            "look": Action(run=look),
            "delete": Action(run=delete, then={"one": "pre_check", "all": "erase_all"}),
            "erase_all": Action(run=erase_all, planned=False),
        },
        "plan": plan,
        "validators": {"careful": careful},
        "max_iterations": 8,
    }
    return Router(Orders, **made | changes)


STARTS = [
    Orders(),
    Orders(wanted="delete"),
    Orders(wanted="delete", confirmed=True),
    Orders(wanted="delete", confirmed=True, frozen=True),
    Orders(wanted="delete", confirmed=True, amount=2_000),
]


async def snapshots() -> list[str]:
    """What a turn may be paused as, at each of its nodes."""
    found: dict[str, None] = {}
    for start in STARTS:
        for most_nodes in range(12):
            run = await orders([]).run(start, most_nodes=most_nodes)
            if run.status == "paused":
                found[run.snapshot().to_json()] = None
    return list(found)


def led_to(log: list[tuple[str, Orders]], stood: str) -> bool:
    """Whether guards, decision and validator let pass what was destroyed, where a snapshot stood at this node before.

    One that stood before the very action had passed the validator, and only the guards look again.
    """
    for place, (name, state) in enumerate(log):
        first = place == 0 and stood == name
        if name == "delete":
            decided = state.decision is not None and state.decision.action == "delete"
            right = state.confirmed and decided and (first or not state.frozen)
        else:
            before = log[place - 1] if place else ("", state)
            right = first or (before[0] == "delete" and before[1].amount > 1_000)
        if not right:
            return False
    return True


@pytest.mark.spec("005.1")
@pytest.mark.spec("005.16")
async def test_of_a_thousand_changes_none_destroys_what_guards_and_graph_do_not_lead_to() -> None:
    chance = random.Random(7)
    texts = await snapshots()
    assert len(texts) > 20
    nodes = orders([]).nodes
    went_on = destroyed = 0
    for _ in range(1_000):
        value = changed(text := chance.choice(texts), chance)
        if chance.random() < 0.25:
            value = json.loads(text) | {"node": chance.choice(nodes)}
        log: list[tuple[str, Orders]] = []
        try:
            run = await orders(log).resume(Snapshot.from_json(json.dumps(value)))
            again = 0
            while run.status == "paused" and again < 5:
                run = await orders(log).resume(Snapshot.from_json(run.snapshot().to_json()))
                again += 1
        except JazzSelectError:
            assert not log, value
            continue
        went_on += 1
        destroyed += bool(log)
        assert led_to(log, json.loads(text)["node"]), value
    assert went_on > 100
    assert destroyed > 20


@pytest.mark.spec("005.16")
async def test_of_a_thousand_changes_of_what_was_signed_each_is_refused() -> None:
    chance = random.Random(8)
    texts = [Snapshot.from_json(text).to_json(secret=SECRET) for text in await snapshots()]
    refused = 0
    for _ in range(1_000):
        text = chance.choice(texts)
        value = changed(text, chance)
        if not is_changed(value, text):
            continue
        with pytest.raises(SnapshotError):
            Snapshot.from_json(json.dumps(value), secret=SECRET)
        refused += 1
    assert refused > 800


async def paused_at(node: str, start: Orders) -> dict[str, Any]:
    for most_nodes in range(12):
        run = await orders([]).run(start, most_nodes=most_nodes)
        if run.node == node:
            return json.loads(run.snapshot().to_json())
    raise AssertionError(node)


LOOKS, DELETES = Orders(), Orders(wanted="delete", confirmed=True)
PUT: list[Any] = [
    pytest.param(
        "look",
        LOOKS,
        {"node": "delete"},
        "'careful' leads to 'look' in this graph, not to 'delete'",
        id="not decided on",
    ),
    pytest.param("careful", DELETES, {"node": "delete"}, None, id="the validator is passed all the same"),
    pytest.param("acquire_or_plan", LOOKS, {"node": "delete"}, None, id="what was not decided on is decided on"),
    pytest.param("look", LOOKS, {"node": "erase_all"}, "not to 'erase_all'", id="what only comes after another"),
    pytest.param("hear", Orders(wanted="delete"), {"node": "delete"}, "'ask' leads to 'hear'", id="instead of a yes"),
    pytest.param("look", LOOKS, {"node": "delete", "trace": []}, "nothing was passed before 'delete'", id="no trace"),
]


@pytest.mark.spec("005.1")
@pytest.mark.parametrize(("at", "start", "put", "message"), PUT)
async def test_another_node_is_refused_or_goes_on_as_the_graph_leads(
    at: str, start: Orders, put: dict[str, Any], message: str | None
) -> None:
    log: list[tuple[str, Orders]] = []
    snapshot = Snapshot.from_json(json.dumps(await paused_at(at, start) | put))
    if message is None:
        run = await orders(log).resume(snapshot, most_nodes=3)
        assert led_to(log, at)
        assert "careful" in [each.node for each in run.trace]
        return
    with pytest.raises(SnapshotError, match=message):
        await orders(log).resume(snapshot)
    assert not log


STATES: list[Any] = [
    pytest.param(
        {"iterations": -2}, "iterations: Input should be greater than or equal to 0", id="rounds below nought"
    ),
    pytest.param({"iterations": 0}, "was left with iterations 1, and its state has 0", id="fewer rounds"),
    pytest.param({"route": "ask"}, "was left with route", id="another way"),
    pytest.param({"decision": {"action": "delete"}}, "decision 'look', and its state has 'delete'", id="a decision"),
    pytest.param({"decision": None}, "decision 'look', and its state has ''", id="no decision"),
]


@pytest.mark.parametrize(("put", "message"), STATES)
async def test_a_state_that_is_not_what_the_last_node_left_is_refused(put: dict[str, Any], message: str) -> None:
    saved = await paused_at("look", LOOKS)
    saved["state"] |= put
    with pytest.raises(SnapshotError, match=message):
        await orders([]).resume(Snapshot.from_json(json.dumps(saved)))


@pytest.mark.spec("005.1")
async def test_guards_are_asked_again_where_the_state_is_another() -> None:
    log: list[tuple[str, Orders]] = []
    saved = await paused_at("delete", DELETES)
    saved["state"]["confirmed"] = False
    run = await orders(log).resume(Snapshot.from_json(json.dumps(saved)))
    assert not log
    assert (run.status, run.node, run.state.route, run.state.iterations) == ("paused", "hear", "", 2)
    whole = Snapshot.from_json(json.dumps(await paused_at("delete", DELETES)))
    run = await orders(log).resume(whole, {"confirmed": False})
    assert not log, "what is known beside is seen by guards, too"
    assert run.node == "hear"


@pytest.mark.spec("002.21")
async def test_a_validator_that_was_put_in_meanwhile_is_passed() -> None:
    log: list[tuple[str, Orders]] = []
    run = await orders(log, validators={}).run(DELETES.model_copy(update={"frozen": True}), most_nodes=2)
    assert run.node == "delete"
    done = await orders(log).resume(Snapshot.from_json(run.snapshot().to_json()))
    assert not log, "it turns the decision into another"
    assert [each.node for each in done.trace][:4] == ["pre_check", "acquire_or_plan", "careful", "look"]
