"""What all adapters stand on: what is shown, who is asked, and what becomes of calls."""

import asyncio
from typing import Any

import pytest

from jazz_select import FlowSelector, SequentialFlow, Tool
from jazz_select.errors import ConfigError, UnconnectedToolsError
from jazz_select.integrations.door import FlowDoor, told
from jazz_select.integrations.langgraph import FlowNodes
from jazz_select.integrations.openai_agents import FlowAgentParts
from jazz_select.integrations.pydantic_ai import FlowToolset
from jazz_select.integrations.pydantic_ai_capability import FlowCapability
from jazz_select.routing import Allow, Ask, Deny, ToolCall
from jazz_select.routing.approval import Verdict
from jazz_select.telemetry import Trace
from jazz_select.values import flow_id
from tests.unit.integrations.desk import MOVE, ORDER, REFUND, TRACK, Desk, saying

pytestmark = pytest.mark.spec("009.4")
GIVEN = {"order_id": "A1"}


async def test_tools_are_shown_by_names_that_every_provider_takes() -> None:
    shown = await Desk(REFUND).door().select(["money back"])
    assert list(shown.tools) == ["look_up", "shop_pay_back"]
    assert shown.tools["shop_pay_back"].name == "shop.pay_back"


async def test_a_name_stands_for_one_tool_whatever_was_selected() -> None:
    """What was asked about under a name is what is called under it, though less is shown by then."""
    desk = Desk(REFUND)
    twin = Tool(name="shop_pay_back", input_schema=ORDER, function=dict)
    door = FlowDoor(FlowSelector(None, desk.registry, desk.memory, "desk"), [twin, *desk.tools()])
    shown = await door.select(["money back"])
    assert {name: tool.name for name, tool in shown.tools.items()} == {
        "look_up": "look_up",
        "shop_pay_back_2": "shop.pay_back",
    }


async def test_a_composite_shows_the_tools_of_its_parts() -> None:
    desk = Desk("both")
    SequentialFlow(name="both", description="d", examples=[], flows=[MOVE, REFUND], registry=desk.registry)
    assert list((await desk.door().select(["both"])).tools) == ["look_up", "redirect", "shop_pay_back"]


OPEN = {"read": ["look_up"], "all": ["look_up", "shop_pay_back", "redirect"], "none": []}


@pytest.mark.parametrize(("open_tools", "names"), OPEN.items(), ids=OPEN)
@pytest.mark.spec("010.7")
async def test_where_no_flow_fits(open_tools: Any, names: list[str]) -> None:
    desk = Desk()
    desk.memory.candidates = []
    shown = await desk.door(open_tools=open_tools).select(["hello"])
    assert (list(shown.tools), shown.prompt) == (names, "")


async def test_nothing_said_selects_nothing() -> None:
    shown = await Desk(REFUND).door().select([])
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])


async def test_only_the_last_of_what_was_said_before_counts() -> None:
    desk = Desk(REFUND)
    await desk.door().select([*(f"said {number}" for number in range(9)), "now"])
    query = desk.memory.calls[-1].query
    assert [number for number in range(9) if f"said {number}" in query] == [6, 7, 8]


def by_name(call: ToolCall) -> Verdict:
    return Deny(call.tool)


def failing(_: ToolCall) -> Verdict:
    raise ZeroDivisionError


def strange(_: ToolCall) -> Any:
    return True


async def test_where_only_the_user_can_decide_the_model_is_told_to_ask() -> None:
    desk = Desk()
    desk.memory.candidates = [
        {"flow_id": flow_id(name), "flow_name": name, "score": 1.0, "confidence": sure}
        for name, sure in ((REFUND, 0.5), (TRACK, 0.45))
    ]
    selector = FlowSelector(None, desk.registry, desk.memory, "desk", max_error=0.01, ask_user=True)
    door = FlowDoor(selector, desk.tools())
    shown = await door.select(["something with A1"])
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])
    assert "Ask this, and do nothing before the answer:" in shown.prompt
    assert "1. Refund order" in shown.prompt
    answered = await door.select(["something with A1", "the first"], asked=shown.result.decision)
    assert (answered.result.names, list(answered.tools)) == ([REFUND], ["look_up", "shop_pay_back"])


POLICIES: dict[str, tuple[dict[str, Any], Verdict | None, Verdict | None]] = {
    "by default": ({}, Ask(), Allow()),
    "always": ({"approval": "always"}, Ask(), Ask()),
    "never": ({"approval": "never"}, Allow(), Allow()),
    "a hook": ({"approval": "never", "approve": by_name}, Deny("shop.pay_back"), Deny("look_up")),
    "a hook that fails": ({"approve": failing}, None, None),
    "a hook that says nothing": ({"approve": strange}, None, None),
}


@pytest.mark.parametrize(("options", "destroying", "reading"), POLICIES.values(), ids=POLICIES)
async def test_who_is_asked(options: dict[str, Any], destroying: Any, reading: Any) -> None:
    desk = Desk(REFUND)
    door = desk.door(**options)
    for name, expected in (("shop_pay_back", destroying), ("look_up", reading)):
        tool = door.tools[name]
        verdict = await door.verdict(tool, GIVEN)
        made = await door.call(tool, GIVEN)
        if expected is None:
            assert isinstance(verdict, Deny)
        else:
            assert verdict == expected
        assert made.status == {Allow: "ok", Deny: "denied", Ask: "asked"}[type(verdict)]
        assert bool(desk.done) is (made.status == "ok")
        desk.done.clear()


async def test_a_yes_answers_a_question_and_nothing_else() -> None:
    desk = Desk(REFUND)
    asking, denying = desk.door(), desk.door(approve=saying([Deny("no")]))
    assert (await asking.call(asking.tools["shop_pay_back"], GIVEN, agreed=True)).status == "ok"
    assert (await denying.call(denying.tools["shop_pay_back"], GIVEN, agreed=True)).status == "denied"
    assert desk.done == ["pay_back A1"]


async def test_a_hook_sees_the_call_and_a_trace_has_it() -> None:
    desk, seen = Desk(REFUND), list[ToolCall]()

    def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    door = desk.door(approve=approve)
    with Trace() as trace:
        await door.call(door.tools["shop_pay_back"], GIVEN, call_id="t:c1")
    assert [(call.id, call.tool, call.door, call.destructive, call.title) for call in seen] == [
        ("t:c1", "shop.pay_back", "framework", True, "Refund of an order")
    ]
    assert [(span.kind, span.attributes["door"]) for span in trace] == [("tool", "framework")]


async def test_a_call_that_takes_too_long_may_have_been_done() -> None:
    async def slow(order_id: str) -> str:
        await asyncio.sleep(60)
        return order_id

    desk = Desk(TRACK)
    tools = [tool for tool in desk.tools() if tool.name != "look_up"]
    slow_tool = Tool(name="look_up", input_schema=ORDER, function=slow)
    selector = FlowSelector(None, desk.registry, desk.memory, "desk")
    door = FlowDoor(selector, [*tools, slow_tool], timeout_s=0.05)
    made = await door.call(slow_tool, GIVEN)
    assert made.status == "unknown"
    assert "it may have been done" in told(made)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a policy": ({"approval": "sometimes"}, "approval is one of"),
    "open tools": ({"open_tools": "some"}, "open_tools is one of"),
    "a hook": ({"approve": True}, "approve is a function"),
    "claims": ({"claims": "a.db"}, "claims is a store"),
    "a limit": ({"timeout_s": -1}, "timeout_s"),
}


@pytest.mark.parametrize(("options", "told_of"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], told_of: str) -> None:
    with pytest.raises(ConfigError, match=told_of):
        Desk().door(**options)


@pytest.mark.spec("010.6")
def test_a_tool_that_a_flow_names_has_to_be_connected() -> None:
    desk = Desk()
    selector = FlowSelector(None, desk.registry, desk.memory, "desk")
    with pytest.raises(UnconnectedToolsError) as raised:
        FlowDoor(selector, [])
    assert raised.value.lacking[REFUND] == ("look_up", "shop.pay_back")
    with pytest.raises(ConfigError, match="selector is a FlowSelector"):
        FlowDoor("selector", desk.tools())  # pyright: ignore[reportArgumentType]


async def test_a_request_alone_is_one_text() -> None:
    """Not its letters, the last of them the request."""
    desk = Desk(REFUND)
    shown = await desk.door().select("money back")
    assert shown.result.names == [REFUND]
    assert desk.memory.calls[-1].query == "money back"


WRITTEN = {"": "failed", "{": "failed", "[1]": "failed", '{"order_id": "A1"}': "ok"}


@pytest.mark.parametrize(("arguments", "status"), WRITTEN.items(), ids=[each or "nothing" for each in WRITTEN])
async def test_arguments_as_a_model_writes_them(arguments: str, status: str) -> None:
    door = Desk(REFUND).door()
    made = await door.call(door.tools["look_up"], arguments)
    assert made.status == status
    assert made.error is None or made.error.fault == "arguments"


@pytest.mark.parametrize(
    "part", [FlowToolset, FlowCapability, FlowNodes, FlowAgentParts], ids=lambda part: part.__name__
)
def test_each_part_says_what_it_stands_on(part: Any) -> None:
    with pytest.raises(ConfigError, match=r"door is a FlowDoor\(selector, tools\)"):
        part(Desk(REFUND).tools())
