"""Conversations that were changed while a call waits for a yes, or a composite is half done: what runs all the same."""

import hmac
import json
import random
from functools import partial
from typing import Any

import pytest

from jazz_select import ParallelFlow, SequentialFlow
from jazz_select.agent import Agent, Conversation
from jazz_select.errors import ConfigError, JazzSelectError, SnapshotError
from jazz_select.routing import Tool
from jazz_select.testing import MemoryClaims, ScriptedModel
from tests.agents import make_agent
from tests.depth import walks
from tests.unit.agent.mutations import changed, is_changed
from tests.unit.agent.turns import obj, selector_of, shop_of

SECRET = b"a secret of some length"
KNOWN = {"order": "A-1", "amount": 5}
Called = list[tuple[str, tuple[tuple[str, Any], ...]]]


def called(log: Called, name: str, **given: Any) -> dict[str, Any]:
    log.append((name, tuple(sorted(given.items()))))
    return {f"{name}_id": f"{name}-7"}


def destroys(log: Called, name: str, **wanted: str) -> Tool:
    return Tool(name=name, input_schema=obj(**wanted), function=partial(called, log, name), destructive=True)


def bank(log: Called, kind: type[SequentialFlow | ParallelFlow] | None, *, claims: Any = None) -> Agent:
    """A flow that pays and then refunds, or one of two parts that do; what erases is in another flow."""
    registry = shop_of(("pays", ("pay",)), ("refunds", ("refund", "thank")), ("other", ("erase_all",)))
    name = "pays"
    if kind is not None:
        name = "both"
        kind(name=name, description="d", condition="c", flows=["pays", "refunds"], examples=[], registry=registry)
    tools = [
        destroys(log, "pay", amount="integer"),
        destroys(log, "refund", order="string"),
        destroys(log, "erase_all"),
        destroys(log, "erase_more", order="string"),
        Tool(name="thank", input_schema=obj(address="string"), function=partial(called, log, "thank")),
    ]
    return make_agent(selector_of(registry, name), tools, claims=claims)


STATES: dict[str, tuple[type[SequentialFlow | ParallelFlow] | None, tuple[str, ...]]] = {
    "a call waits": (None, ("pays",)),
    "a first part waits": (SequentialFlow, ("both",)),
    "a first part is done": (SequentialFlow, ("both", "yes")),
    "both parts are done but for an address": (SequentialFlow, ("both", "yes", "yes")),
    "two parts wait side by side": (ParallelFlow, ("both",)),
    "one of two is done": (ParallelFlow, ("both", "yes")),
}


CONFIRMING = tuple(name for name in STATES if "but for" not in name)


async def saved(kind: type[SequentialFlow | ParallelFlow] | None, said: tuple[str, ...]) -> str:
    """Where a conversation stands after this was said, with claims."""
    agent, kept = bank([], kind, claims=MemoryClaims()), Conversation()
    for message in said:
        kept = (await agent.turn(message, kept, context=KNOWN)).conversation
    return kept.to_json()


@pytest.mark.spec("005.2")
@pytest.mark.spec("005.4")
@pytest.mark.parametrize("state", STATES)
async def test_of_many_changes_none_destroys_without_a_yes_or_what_the_flow_does_not_name(state: str) -> None:
    kind, said = STATES[state]
    text = await saved(kind, said)
    chance = random.Random(f"2 {state}")
    read = destroyed = 0
    for _ in range(walks(100)):
        value = changed(text, chance)
        try:
            kept = Conversation.from_json(json.dumps(value))
        except SnapshotError:
            continue
        read += 1
        log: Called = []
        agent = bank(log, kind, claims=MemoryClaims())
        for message in ("why?", "yes", "a street 1", "yes", "both", "no"):
            before = len(log)
            try:
                result = await agent.turn(message, kept, context=KNOWN)
            except JazzSelectError:
                break
            new = [name for name, _ in log[before:] if name != "thank"]
            assert len(new) <= (message == "yes"), (message, new, value)
            kept = Conversation.from_json(result.conversation.to_json())
        made = [each for each in log if each[0] != "thank"]
        assert set(made) <= {("pay", (("amount", 5),)), ("refund", (("order", "A-1"),))}, value
        destroyed += bool(made)
    assert read > walks(10)
    assert destroyed > walks(5) or state not in CONFIRMING


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("state", STATES)
async def test_with_a_secret_each_change_is_refused(state: str) -> None:
    kind, said = STATES[state]
    text = Conversation.from_json(await saved(kind, said)).to_json(secret=SECRET)
    chance = random.Random(f"3 {state}")
    for _ in range(100):
        value = changed(text, chance)
        if is_changed(value, text):
            with pytest.raises(SnapshotError):
                Conversation.from_json(json.dumps(value), secret=SECRET)


@pytest.mark.spec("005.4")
async def test_a_call_without_an_id_is_asked_about_anew_and_made_once() -> None:
    text = await saved(None, ("pays",))
    value = json.loads(text)
    value["pending"]["id"] = ""
    log: Called = []
    agent = bank(log, None, claims=MemoryClaims())
    again = await agent.turn("yes", Conversation.from_json(json.dumps(value)), context=KNOWN)
    assert (again.status, log) == ("confirming", [])
    assert again.conversation.pending is not None
    assert again.conversation.pending.id
    for _ in range(2):
        assert (await agent.turn("yes", again.conversation, context=KNOWN)).status == "done"
    assert log == [("pay", (("amount", 5),))], "who says yes to an older state hears what became of the call"


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("claims", [MemoryClaims(), None], ids=["claims", "no claims"])
async def test_a_signed_state_that_is_sent_again_is_made_again_only_where_nobody_keeps_claims(claims: Any) -> None:
    log: Called = []
    text = Conversation.from_json(await saved(None, ("pays",))).to_json(secret=SECRET)
    told: list[tuple[str, ...]] = []
    for _ in range(2):
        kept = Conversation.from_json(text, secret=SECRET)
        result = await bank(log, None, claims=claims).turn("yes", kept, context=KNOWN)
        assert result.status == "done"
        told.append(result.notes)
    if claims is not None:
        assert (len(log), told) == (1, [(), ()])
        return
    assert len(log) == 2
    assert all("if another process continues this conversation too, both make this call" in each[0] for each in told)


@pytest.mark.spec("005.4")
async def test_a_signed_conversation_is_that_of_its_id_and_runs_nothing_at_an_agent_without_its_flow() -> None:
    log: Called = []
    signed = Conversation.from_json(await saved(None, ("pays",))).to_json(secret=SECRET)
    kept = Conversation.from_json(signed, secret=SECRET)
    with pytest.raises(ConfigError, match="leave conversation_id out"):
        await bank(log, None).turn("yes", kept, context=KNOWN, conversation_id="ben")
    registry = shop_of(("refunds", ("refund",)))
    tools = [destroys(log, "pay", amount="integer"), destroys(log, "refund", order="string")]
    other = Agent(selector_of(registry, "refunds"), tools)
    for message in ("yes", "yes"):
        result = await other.turn(message, kept, context=KNOWN)
        kept = result.conversation
        assert "pay" not in [name for name, _ in log]
    with pytest.raises(SnapshotError, match="not signed with this secret"):
        Conversation.from_json(signed, secret=hmac.digest(SECRET, b"ben", "sha256"))


PART: dict[str, Any] = {"branch": "", "tool": "", "own": {}, "ran": [], "final": False}
FIRST: dict[str, Any] = PART | {
    "status": "done",
    "done": ["pay"],
    "left": [],
    "last": "pay",
    "own": {"pay_id": "pay-7"},
    "final": True,
}
FLOW: dict[str, Any] = {
    "name": "both",
    "status": "waiting",
    "asks": [],
    "answers": {},
    "request": "both",
}
SAID: dict[str, Any] = {
    "messages": [{"role": "user", "content": "both"}],
    "episodes": [],
    "done": [],
    "turns": 1,
    "version": 2,
}
EARLIER: list[Any] = [
    pytest.param(
        {}, FLOW | {"parts": {"0": PART | {"status": "waiting"}, "0/pays": FIRST}}, "", id="progress of a part"
    ),
    pytest.param({"version": 1}, FLOW, "it is of version 1, and this is version 2", id="an earlier version"),
    pytest.param(
        {},
        FLOW | {"parts": {"0": PART | {"status": "waiting", "steps": 0}}},
        "flows.0.parts.0.steps: Unexpected",
        id="steps",
    ),
    pytest.param(
        {}, {"name": "both", "facts": {"a": 1}, "done": ["pays"]}, "flows.0.facts: Extra", id="facts of a flow"
    ),
]


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(("more", "flow", "message"), EARLIER)
async def test_what_an_earlier_version_saved_goes_on_or_is_refused_and_nothing_is_done_twice(
    more: dict[str, Any], flow: dict[str, Any], message: str
) -> None:
    text = json.dumps(SAID | {"flows": [flow]} | more)
    if message:
        with pytest.raises(SnapshotError, match=message):
            Conversation.from_json(text)
        return
    log: Called = []
    agent, kept = bank(log, SequentialFlow), Conversation.from_json(text)
    for message_ in ("yes", "yes", "a street 1", "yes"):
        kept = (await agent.turn(message_, kept, context=KNOWN | {"address": "a street 1"})).conversation
    assert [name for name, _ in log] == ["refund", "thank"]


CALL = '{"tool_call": {"tool": "pay", "arguments": {"amount": 5}}}'


def open_bank(log: Called) -> Agent:
    """A flow without steps, of which a model calls the one tool."""
    registry = shop_of(("pays", ()))
    flow = registry.by_name("pays")
    assert flow is not None
    vars(flow).update(tools=("pay",))
    tools = [destroys(log, "pay", amount="integer"), destroys(log, "erase_all")]
    return Agent(selector_of(registry, "pays"), tools, ScriptedModel(CALL, *["Paid."] * 9))


@pytest.mark.spec("005.2")
async def test_a_changed_call_of_a_model_runs_no_tool_that_the_flow_does_not_name() -> None:
    text = (await open_bank([]).turn("pays", Conversation(), context=KNOWN)).conversation.to_json()
    assert json.loads(text)["pending"]["door"] == "chain"
    chance = random.Random(4)
    read = paid = 0
    for _ in range(100):
        value = changed(text, chance)
        if chance.random() < 0.3:
            value = json.loads(text)
            value["pending"] |= {"tool": "erase_all", "arguments": {}, "destructive": chance.random() < 0.5}
        try:
            kept = Conversation.from_json(json.dumps(value))
        except SnapshotError:
            continue
        read += 1
        log: Called = []
        await open_bank(log).turn("yes", kept, context=KNOWN)
        assert "erase_all" not in [name for name, _ in log], value
        paid += bool(log)
    assert read > 20
    assert paid > 5
