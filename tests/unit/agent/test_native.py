"""Tools called in the provider's own form: the same core makes the calls, and each call gets its result."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation, respond, run_chain
from jazz_select.agent.chain.transcript import Chain, ChainText, Event, FormatRestarted, OutputText, ToolResult
from jazz_select.errors import ChainError, ModelError
from jazz_select.routing import Tool
from jazz_select.routing.approval import Allow
from jazz_select.routing.plans.plan import MOST_STEPS
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, NativeCall, Reply
from tests.unit.agent.support import StreamingModel
from tests.unit.agent.turns import obj, selector_of, shop_of
from tests.unit.test_bounds import steps

pytestmark = pytest.mark.spec("011.10")


class Desk:
    """Orders that are found and paid back, and what was done."""

    def __init__(self) -> None:
        self.done: list[tuple[str, dict[str, Any]]] = []

    def tools(self) -> list[Tool]:
        def tool(name: str, result: dict[str, Any], **options: Any) -> Tool:
            def call(**given: Any) -> dict[str, Any]:
                self.done.append((name, given))
                return result

            return Tool(name=name, description=f"To {name}.", function=call, **options)

        order = obj(order="string")
        return [
            tool("shop.find", {"state": "sent"}, input_schema=order, read_only=True),
            tool("pay_back", {"paid": 20}, input_schema=obj(order="string", amount="integer"), destructive=True),
        ]


def calls(*given: tuple[str, Any, str], text: str = "", **more: Any) -> Reply:
    made = tuple(NativeCall(name=tool, arguments=arguments, id=own) for tool, arguments, own in given)
    return Reply(text=text, model="m", tool_calls=made, origin={"signed": len(made)}, **more)


def model_of(*replies: Any) -> ScriptedModel:
    return ScriptedModel(*replies, takes_tools=True)


async def chain_of(desk: Desk, *replies: Any, **options: Any) -> tuple[Chain, ScriptedModel]:
    model = model_of(*replies)
    return await run_chain(model, "Where is A-7?", desk.tools(), approval="never", **options), model


def results(chain: Chain) -> list[ToolResult]:
    return [each for each in chain.entries if isinstance(each, ToolResult)]


def well_formed(messages: Sequence[Message]) -> bool:
    """Whether each call is followed by its result, as every provider wants it."""
    waiting: list[str] = []
    for each in messages:
        if each.role == "tool":
            if not waiting or waiting.pop(0) != each.call_id:
                return False
        elif waiting:
            return False
        if each.tool_calls:
            waiting = [call.id for call in each.tool_calls]
    return not waiting


async def test_a_call_is_made_and_its_result_goes_back() -> None:
    desk = Desk()
    asked = calls(("shop_find", '{"order": "A-7"}', "call-1"), text="I look it up.")
    chain, model = await chain_of(desk, asked, "It was sent.")
    assert (chain.status, chain.answer, desk.done) == ("answered", "It was sent.", [("shop.find", {"order": "A-7"})])
    assert [[each.name for each in offered] for offered in model.tools] == [["shop_find", "pay_back"]] * 2
    assert "AVAILABLE TOOLS" not in model.calls[0][0].content
    _, _, called, told = model.calls[1]
    assert (called.tool_calls, called.origin, called.content) == (asked.tool_calls, asked.origin, "I look it up.")
    assert (told.tool, told.call_id, json.loads(told.content)) == (
        "shop_find",
        "call-1",
        {"ok": True, "result": {"state": "sent"}},
    )
    assert chain.records[0].reply.startswith('{"text":"I look it up.","tool_calls":[')


FIND: tuple[str, Any, str] = ("shop_find", {"order": "A-7"}, "c1")
PAY: tuple[str, Any, str] = ("pay_back", {"order": "A-7", "amount": 20}, "c2")
HOSTILE: list[Any] = [
    pytest.param(calls(("shop_find", "{", "c1")), ["arguments"], 0, id="arguments that are no JSON"),
    pytest.param(calls(("shop_find", "[1]", "c1")), ["arguments"], 0, id="arguments that are no object"),
    pytest.param(calls(("shop_find", {"order": 7}, "c1")), ["arguments"], 0, id="arguments of another type"),
    pytest.param(calls(("shop_find", "", "c1")), ["arguments"], 0, id="no arguments"),
    pytest.param(calls(("close_account", {}, "c1")), ["name"], 0, id="a tool that there is not"),
    pytest.param(calls(("", {}, "c1")), ["name"], 0, id="no name"),
    pytest.param(calls(FIND, PAY), ["", ""], 2, id="two at once"),
    pytest.param(calls(FIND, ("pay_back", PAY[1], "c1")), ["", ""], 2, id="one id twice"),
    pytest.param(calls(("shop_find", {"order": "A-7"}, ""), PAY), ["", ""], 2, id="no id"),
    pytest.param(calls(PAY, ("pay_back", PAY[1], "c3")), ["", "arguments"], 1, id="a payment twice"),
    pytest.param(calls(FIND, PAY, finish_reason="length"), ["arguments"] * 2, 0, id="a reply that was cut off"),
    pytest.param(calls(*[FIND] * (MOST_STEPS + 3)), [""] * (MOST_STEPS + 1), 0, id="too many"),
]


@pytest.mark.parametrize(("reply", "faults", "done"), HOSTILE)
async def test_what_a_model_calls_is_hostile(reply: Reply, faults: list[str], done: int) -> None:
    desk = Desk()
    chain, model = await chain_of(desk, reply, "Sorry.")
    assert chain.answer == "Sorry."
    assert well_formed(model.calls[1])
    assert [each.fault for each in results(chain)] == faults
    assert len(desk.done) == done


async def test_a_reply_of_nothing_is_told_and_text_calls_count_likewise() -> None:
    desk = Desk()
    written = '{"tool_calls": [{"tool": "shop.find", "arguments": {"order": "A-7"}}]}'
    chain, model = await chain_of(desk, Reply(text=""), written, "It was sent.")
    assert (chain.answer, len(desk.done)) == ("It was sent.", 1)
    assert "could not be read" in model.calls[1][-1].content


async def test_at_its_limit_each_call_is_answered_still() -> None:
    chain, model = await chain_of(Desk(), calls(FIND), calls(PAY), chain_limit=2)
    assert chain.status == "limit"
    assert model.calls[1][-1].content.startswith("No further call will be run")
    assert well_formed(model.calls[1])


@pytest.mark.parametrize("goes_on", [False, True], ids=["a new chain", "a chain that is gone on with"])
async def test_a_provider_that_refuses_tools_is_told_of_them_in_the_text(goes_on: bool) -> None:
    desk = Desk()

    def refuse(_: Sequence[Message]) -> str:
        model.takes_tools = False
        raise ModelError("m", "tools are not supported", retryable=False)

    after, answer = None, None
    if goes_on:
        asks = model_of(calls(FIND), calls(PAY))
        after = await run_chain(asks, "Where is A-7?", desk.tools(), until_asked=True)
        assert (after.status, len(desk.done)) == ("asked", 1)
        answer = Allow()
    written = '{"tool_calls": [{"tool": "shop.find", "arguments": {"order": "A-7"}}]}'
    model = model_of(refuse, written, "It was sent.")
    approval = "destructive" if goes_on else "never"
    chain = await run_chain(model, "Where is A-7?", desk.tools(), approval=approval, after=after, answer=answer)
    paid = [PAY[0]] if goes_on else []
    assert chain.answer == "It was sent."
    assert [name for name, _ in desk.done] == [*(["shop.find"] if goes_on else []), *paid, "shop.find"]
    assert "AVAILABLE TOOLS" in model.calls[1][0].content
    assert not any(each.tool_calls for each in model.calls[1])
    assert "the provider refuses these tools" in chain.notes[0]


async def test_a_model_that_fails_otherwise_fails_the_chain() -> None:
    with pytest.raises(ChainError):
        await chain_of(Desk(), ModelError("m", "no credit", retryable=False))


@pytest.mark.spec("005.2")
async def test_a_call_waits_for_the_users_yes_and_goes_on_in_another_process() -> None:
    desk, registry = Desk(), shop_of(("refund", ()))
    flow = registry.by_name("refund")
    assert flow is not None
    vars(flow).update(tools=("shop.find", "pay_back"))
    first = model_of(calls(FIND), calls(PAY, text="I would pay 20 EUR back."))
    asked = await Agent(selector_of(registry, "refund"), desk.tools(), first).turn("refund")
    assert (asked.status, [name for name, _ in desk.done]) == ("confirming", ["shop.find"])
    assert "I would pay 20 EUR back." in asked.text
    kept = Conversation.from_json(asked.conversation.to_json())
    second = model_of(calls(("finish_procedure", {}, "c9"), text="20 EUR are on their way."))
    done = await Agent(selector_of(registry, "refund"), desk.tools(), second).turn("yes", kept)
    assert (done.status, done.text) == ("done", "20 EUR are on their way.")
    assert desk.done[1:] == [("pay_back", {"order": "A-7", "amount": 20})]
    assert all(map(well_formed, (*first.calls, *second.calls)))
    assert '"tool_calls"' not in second.calls[0][0].content


async def test_an_answer_in_a_schema_may_be_a_tool() -> None:
    desk = Desk()
    schema = {"type": "object", "properties": {"state": {"type": "string"}}, "required": ["state"]}
    model = model_of(calls(FIND), calls(("final_answer", {"state": "sent"}, "c2")))
    given = await respond(model, "Where is A-7?", desk.tools(), schema=schema, strategy="tool")
    assert given.value == {"state": "sent"}
    assert [each.name for each in model.tools[0]] == ["shop_find", "pay_back", "final_answer"]


async def test_the_last_text_may_be_the_answer_in_the_schema() -> None:
    """The provider holds it to the schema in the calls that carry the tools, and no call is made for it alone."""
    schema = {"type": "object", "properties": {"state": {"type": "string"}}, "required": ["state"]}
    for last, more in (('{"state": "sent"}', ()), ("It was sent.", ('{"state": "sent"}',))):
        model = ScriptedModel(calls(FIND), last, *more, takes_tools=True, takes_schema=True)
        given = await respond(model, "Where is A-7?", Desk().tools(), schema=schema, strategy="native")
        assert given.value == {"state": "sent"}
        assert model.schemas == [schema] * (2 + len(more))
        assert [len(each) for each in model.tools] == [2, 2, *[0] * len(more)]


def told(events: Sequence[Event]) -> list[str]:
    """What a reader of the answer sees: the pieces, and when all of it is void."""
    seen: list[str] = []
    for each in events:
        if isinstance(each, OutputText):
            seen.append(each.delta)
        elif isinstance(each, FormatRestarted):
            seen.append("VOID")
    return seen


async def test_an_answer_is_told_as_it_is_written_and_what_stands_beside_a_call_is_void() -> None:
    events: list[Event] = []
    model = StreamingModel(calls(FIND, text="I look."), "It went.", takes_tools=True)
    given = await respond(model, "Where is A-7?", Desk().tools(), approval="never", on_event=events.append)
    assert (given.text, model.streamed) == ("It went.", 2)
    assert told(events) == ["I l", "ook", ".", "VOID", "It ", "wen", "t."]
    assert [each.text for each in events if isinstance(each, ChainText)] == ["I look."]


SPOKEN: list[Any] = [
    pytest.param(["It is sent."], ["It ", "is ", "sen", "t."], id="an answer"),
    pytest.param([calls(("finish_procedure", {}, "c1"), text="Done.")], ["Don", "e."], id="beside its end"),
    pytest.param(
        [calls(FIND, ("finish_procedure", {}, "c2"), text="Sent.")],
        ["Sen", "t."],
        id="beside the last call and its end",
    ),
    pytest.param(
        [calls(PAY, text="I pay."), calls(("finish_procedure", {}, "c2"), text="Paid.")],
        ["I p", "ay.", "VOID"],
        id="beside a call that waits for a yes",
    ),
]


@pytest.mark.parametrize(("replies", "expected"), SPOKEN)
async def test_an_agent_says_what_it_writes_where_no_tool_follows(replies: list[Any], expected: list[str]) -> None:
    registry = shop_of(("refund", ()))
    (flow,) = registry.values()
    vars(flow).update(tools=("shop.find", "pay_back"))
    model = StreamingModel(*replies, takes_tools=True)
    events = [each async for each in Agent(selector_of(registry, "refund"), Desk().tools(), model).stream("refund")]
    assert told(events) == expected


# --- bounds ------------------------------------------------------------------------

TOO_LARGE = {
    "an object of many values": {"order": "A-7", "more": [{"n": 1}] * 10_000},
    "an object of many letters": {"order": "x" * 300_000},
    "a long name in it": {"order": "A-7", "x" * 300_000: 1},
    "a text": '{"order": "' + "x" * 300_000 + '"}',
}


@pytest.mark.spec("013.1")
@pytest.mark.parametrize("arguments", TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("many", [False, True], ids=["in one call", "in all calls together"])
async def test_native_calls_hold_no_more_than_a_reply_in_text(arguments: Any, many: bool) -> None:
    desk, part = Desk(), {"order": "x" * 30_000}
    given = [("find", part, f"c{number}") for number in range(10)] if many else [("find", arguments, "c1")]
    with steps() as called:
        chain, model = await chain_of(desk, calls(*given), "It is on its way.")
    assert (chain.status, chain.answer, desk.done) == ("answered", "It is on its way.", [])
    assert "calls that hold more than" in "; ".join(chain.notes)
    assert "calls that hold more than" in model.calls[1][-1].content
    assert sum(len(message.content) for message in model.calls[1]) < 10_000
    assert called["storable"] < 1_000


async def test_native_calls_within_the_bounds_are_made_whole() -> None:
    desk, order = Desk(), "x" * 200_000
    chain, _ = await chain_of(desk, calls(("shop_find", {"order": order}, "c1")), "Done.")
    assert (chain.answer, desk.done) == ("Done.", [("shop.find", {"order": order})])


@pytest.mark.parametrize("id_", ["x" * 300_000], ids=len)
async def test_the_id_of_a_call_counts(id_: str) -> None:
    desk = Desk()
    chain, _ = await chain_of(desk, calls(("shop_find", {"order": "A-7"}, id_)), "Done.")
    assert (chain.answer, desk.done) == ("Done.", [])
