"""What all adapters stand on: what is shown, who is asked, and what becomes of calls."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jazz_select import FlowSelector, SequentialFlow, Tool
from jazz_select.errors import CannotDo, ConfigError, UnconnectedToolsError
from jazz_select.integrations.langgraph import FlowNodes
from jazz_select.integrations.openai_agents import FlowAgentParts
from jazz_select.integrations.pydantic_ai import FlowToolset
from jazz_select.integrations.pydantic_ai_capability import FlowCapability
from jazz_select.integrations.toolkit import FlowToolkit, outcome_text
from jazz_select.routing import Allow, Ask, Deny, ToolCall
from jazz_select.routing.approval import Verdict
from jazz_select.telemetry import Trace
from jazz_select.values import flow_id
from tests.unit.integrations.desk import MOVE, ORDER, REFUND, TRACK, UNCLEAR, Desk, saying
from tests.unit.test_bounds import steps

pytestmark = pytest.mark.spec("009.4")
GIVEN = {"order_id": "A1"}


async def test_tools_are_shown_by_names_that_every_provider_takes() -> None:
    shown = await Desk(REFUND).toolkit().select(["money back"])
    assert list(shown.tools) == ["look_up", "shop_pay_back"]
    assert shown.tools["shop_pay_back"].name == "shop.pay_back"


async def test_a_name_stands_for_one_tool_whatever_was_selected() -> None:
    """What was asked about under a name is what is called under it, though less is shown by then."""
    desk = Desk(REFUND)
    twin = Tool(name="shop_pay_back", input_schema=ORDER, function=dict)
    toolkit = FlowToolkit(FlowSelector(None, desk.registry, desk.memory, "desk"), [twin, *desk.tools()])
    shown = await toolkit.select(["money back"])
    assert {name: tool.name for name, tool in shown.tools.items()} == {
        "look_up": "look_up",
        "shop_pay_back_2": "shop.pay_back",
    }


async def test_a_composite_shows_the_tools_of_its_parts() -> None:
    desk = Desk("both")
    SequentialFlow(name="both", description="d", examples=[], flows=[MOVE, REFUND], registry=desk.registry)
    assert list((await desk.toolkit().select(["both"])).tools) == ["look_up", "redirect", "shop_pay_back"]


OPEN = {"read": ["look_up"], "all": ["look_up", "shop_pay_back", "redirect"], "none": []}


@pytest.mark.parametrize(("open_tools", "names"), OPEN.items(), ids=OPEN)
@pytest.mark.spec("010.7")
async def test_where_no_flow_fits(open_tools: Any, names: list[str]) -> None:
    desk = Desk()
    desk.memory.candidates = []
    shown = await desk.toolkit(open_tools=open_tools).select(["hello"])
    assert (list(shown.tools), shown.prompt) == (names, "")


async def test_nothing_said_selects_nothing() -> None:
    shown = await Desk(REFUND).toolkit().select([])
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])


async def test_only_the_last_of_what_was_said_before_counts() -> None:
    desk = Desk(REFUND)
    await desk.toolkit().select([*(f"said {number}" for number in range(9)), "now"])
    query = desk.memory.calls[-1].query
    assert [number for number in range(9) if f"said {number}" in query] == [6, 7, 8]


def by_name(call: ToolCall) -> Verdict:
    return Deny(call.tool)


def failing(_: ToolCall) -> Verdict:
    raise ZeroDivisionError


def strange(_: ToolCall) -> Any:
    return True


async def test_where_only_the_user_can_decide_the_model_is_told_to_ask() -> None:
    toolkit = Desk().asking().toolkit()
    shown = await toolkit.select(["something with A1"])
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])
    assert "Ask this, and do nothing before the answer:" in shown.prompt
    assert "1. Refund order" in shown.prompt
    answered = await toolkit.select(["something with A1", "the first"], asked=shown.result.decision)
    assert (answered.result.names, list(answered.tools)) == ([REFUND], ["look_up", "shop_pay_back"])


async def kept_after(toolkit: FlowToolkit, *said: str) -> tuple[list[str], Any]:
    """What was selected last, and what is kept, where each was said in a process of its own."""
    kept: Any = None
    names: list[str] = []
    for number in range(len(said)):
        shown = await toolkit.select(said[: number + 1], asked=kept)
        names, kept = shown.result.names, json.loads(json.dumps(shown.kept))
    return names, kept


ANSWERS = {
    "the first": [REFUND],
    "2": [TRACK],
    "track order": [TRACK],
    "neither": [],
    UNCLEAR: [],  # the same once more is no answer
    "": [],
}


@pytest.mark.parametrize(("answer", "names"), ANSWERS.items(), ids=[each or "nothing" for each in ANSWERS])
async def test_what_is_said_next_answers_what_was_kept(answer: str, names: list[str]) -> None:
    assert (await kept_after(Desk().asking().toolkit(), UNCLEAR, answer))[0] == names


async def test_a_question_waits_for_one_answer_alone() -> None:
    desk = Desk().asking()
    toolkit = desk.toolkit()
    names, kept = await kept_after(toolkit, UNCLEAR, "1")
    assert names == [REFUND]
    desk.memory.candidates = Desk(MOVE).memory.candidates
    later = await toolkit.select([UNCLEAR, "1", "2"], asked=kept)
    assert (later.result.names, later.kept) == ([MOVE], None), "what is said after the answer is a request of its own"


@pytest.mark.parametrize(
    "said", ["2", "A1", "card L-9", "ada@example.org", "thanks!", "Yes, please.", "vielen Dank", " "]
)
async def test_a_value_alone_and_thanks_leave_it_at_what_was_picked(said: str) -> None:
    desk = Desk().asking()
    names, kept = await kept_after(desk.toolkit(), UNCLEAR, "1", said, said, "thank you very much")
    assert (names, kept["picked"]) == ([REFUND], flow_id(REFUND))
    desk.memory.candidates = []
    assert (await desk.toolkit().select([UNCLEAR, "1", said], asked=kept)).result.names == [REFUND]
    names, _ = await kept_after(Desk().asking().toolkit(), UNCLEAR, "neither", said)
    assert names == [], "nothing was picked"


async def test_what_was_picked_is_read_with_what_is_said_until_another_flow_is_found() -> None:
    desk = Desk().asking()
    toolkit = desk.toolkit()
    _, kept = await kept_after(toolkit, UNCLEAR, "1")
    later = await toolkit.select([UNCLEAR, "1", "it is the blue one"], asked=kept)
    assert "Refund order" in desk.memory.calls[-1].query
    assert later.result.decision.question, "what is no value alone may be about anything"
    desk.memory.candidates = Desk(MOVE).memory.candidates
    other = await toolkit.select([UNCLEAR, "1", "to my office please"], asked=kept)
    assert (other.result.names, other.kept) == ([MOVE], None)
    await toolkit.select([UNCLEAR, "1", "to my office please", "thanks"], asked=other.kept)
    assert "Refund order" not in desk.memory.calls[-1].query


async def test_a_run_that_goes_on_with_thanks_finds_what_it_found() -> None:
    toolkit = Desk().asking().toolkit()
    names, kept = await kept_after(toolkit, UNCLEAR, "1", "thanks")
    again = await toolkit.select([UNCLEAR, "1", "thanks"], asked=kept)
    assert (again.result.names, again.kept) == (names, kept)


FORGED: dict[str, Any] = {
    "a flow that is not offered": flow_id(MOVE),
    "none": "x",
    "a list": [flow_id(REFUND)],
    "a number": 1,
}


@pytest.mark.parametrize("picked", FORGED.values(), ids=FORGED)
async def test_what_was_picked_may_be_forged_and_opens_nothing(picked: Any) -> None:
    toolkit = Desk().asking().toolkit()
    _, kept = await kept_after(toolkit, UNCLEAR, "1")
    shown = await toolkit.select([UNCLEAR, "1", "thanks"], asked={**kept, "picked": picked})
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])


async def test_the_guard_of_what_was_picked_is_asked_each_time() -> None:
    desk = Desk().asking()
    seen = desk.guarded(REFUND)
    toolkit = desk.toolkit()
    _, kept = await kept_after(toolkit, UNCLEAR, "1")
    await toolkit.select([UNCLEAR, "1", "thanks"], {"who": "ada"}, asked=kept)
    assert seen[-1] == {"who": "ada"}

    def closed(_: dict[str, Any]) -> bool:
        return False

    vars(desk.registry.by_name(REFUND))["available"] = closed
    assert (await toolkit.select([UNCLEAR, "1", "thanks"], asked=kept)).result.names != [REFUND]


async def test_a_run_that_goes_on_finds_what_it_found() -> None:
    toolkit = Desk().asking().toolkit()
    _, kept = await kept_after(toolkit, UNCLEAR)
    assert (await toolkit.select([UNCLEAR], asked=kept)).result.decision.question, "a request is no answer to itself"
    _, kept = await kept_after(toolkit, UNCLEAR, "1")
    again = await toolkit.select([UNCLEAR, "1"], asked=kept)
    assert (again.result.names, again.kept) == ([REFUND], kept)


async def test_nothing_said_leaves_a_question_open() -> None:
    toolkit = Desk().asking().toolkit()
    names, _ = await kept_after(toolkit, UNCLEAR, " ", "1")
    assert names == [REFUND]


HOSTILE: dict[str, Any] = {
    "nothing": {},
    "no question": {"question": "which?", "after": "x"},
    "options of another kind": {"question": {"text": "?", "options": [1, None], "request": ""}},
    "deep": {"question": {"text": "?", "options": [[[]]] * 99}},
    "a flow that is none": {
        "question": {"text": "?", "options": [{"flow_id": "rm", "flow_name": "rm", "title": "1", "says": ""}] * 2}
    },
    "more options than anybody asks about": {
        "question": {"text": "?", "options": [{"flow_id": "x", "flow_name": "x", "title": "1", "says": ""}] * 101}
    },
    "marks of another kind": {"question": None, "after": [], "by": {}},
}


@pytest.mark.parametrize("kept", HOSTILE.values(), ids=HOSTILE)
async def test_what_was_kept_where_anyone_may_write_opens_nothing(kept: Any) -> None:
    shown = await Desk().asking().toolkit().select([UNCLEAR, "1"], asked=kept)
    assert (shown.result.names, list(shown.tools)) == ([], ["look_up"])


async def test_a_call_that_comes_again_is_told_what_became_of_it() -> None:
    """Without a store, in one object; by its id, and nothing else."""
    desk = Desk(REFUND)
    toolkit = desk.toolkit(approval="never")
    tool = toolkit.tools["shop_pay_back"]
    made = [await toolkit.call(tool, GIVEN, call_id=each) for each in ("c1", "c1", "c2", "")]
    assert [each.replayed for each in made] == [False, True, False, False]
    assert {outcome_text(each) for each in made} == {'{"refunded":20}'}
    other = await toolkit.call(tool, {"order_id": "B2"}, call_id="c1")
    assert other.error is not None
    assert other.error.fault == "claim"
    assert desk.done == ["pay_back A1"] * 3


async def test_what_only_reads_is_called_again() -> None:
    desk = Desk(REFUND)
    toolkit = desk.toolkit()
    for _ in range(2):
        await toolkit.call(toolkit.tools["look_up"], GIVEN, call_id="c1")
    assert desk.done == ["look_up A1"] * 2


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
    toolkit = desk.toolkit(**options)
    for name, expected in (("shop_pay_back", destroying), ("look_up", reading)):
        tool = toolkit.tools[name]
        verdict = (await toolkit.ask(tool, GIVEN)).verdict
        made = await toolkit.call(tool, GIVEN)
        if expected is None:
            assert isinstance(verdict, Deny)
        else:
            assert verdict == expected
        assert made.status == {Allow: "ok", Deny: "denied", Ask: "asked"}[type(verdict)]
        assert bool(desk.done) is (made.status == "ok")
        desk.done.clear()


@pytest.mark.spec("018.8")
async def test_nobody_is_asked_for_a_yes_to_what_cannot_be_done_and_a_model_reads_why() -> None:
    done: list[str] = []

    def say_no(order_id: str) -> str:
        raise CannotDo(f"Order {order_id} was paid back already.")

    tool = Tool(name="pay_back", input_schema=ORDER, function=done.append, confirm=say_no, destructive=True)
    toolkit = FlowToolkit(FlowSelector(None, Desk().registry, Desk().memory, "desk"), [*Desk().tools(), tool])
    asked = await toolkit.ask(tool, GIVEN, "c1")
    made = await toolkit.call(tool, GIVEN, call_id="c1", agreed=True)
    assert isinstance(asked.verdict, Deny)
    assert (made.status, outcome_text(made)) == ("refused", "cannot be done: Order A1 was paid back already.")
    assert done == []


async def test_a_yes_answers_a_question_and_nothing_else() -> None:
    desk = Desk(REFUND)
    asking, denying = desk.toolkit(), desk.toolkit(approve=saying([Deny("no")]))
    assert (await asking.call(asking.tools["shop_pay_back"], GIVEN, agreed=True)).status == "ok"
    assert (await denying.call(denying.tools["shop_pay_back"], GIVEN, agreed=True)).status == "denied"
    assert desk.done == ["pay_back A1"]


async def test_a_hook_sees_the_call_and_a_trace_has_it() -> None:
    desk, seen = Desk(REFUND), list[ToolCall]()

    def approve(call: ToolCall) -> Allow:
        seen.append(call)
        return Allow()

    toolkit = desk.toolkit(approve=approve)
    with Trace() as trace:
        await toolkit.call(toolkit.tools["shop_pay_back"], GIVEN, call_id="t:c1")
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
    toolkit = FlowToolkit(selector, [*tools, slow_tool], timeout_s=0.05)
    made = await toolkit.call(slow_tool, GIVEN)
    assert made.status == "unknown"
    assert "it may have been done" in outcome_text(made)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a policy": ({"approval": "sometimes"}, 'approval must be "destructive", "always" or "never"'),
    "open tools": ({"open_tools": "some"}, 'open_tools must be "read", "all" or "none"'),
    "a hook": ({"approve": True}, "approve must be a function"),
    "claims": ({"claims": "a.db"}, "claims must be a store"),
    "a limit": ({"timeout_s": -1}, "timeout_s"),
}


@pytest.mark.parametrize(("options", "told_of"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], told_of: str) -> None:
    with pytest.raises(ConfigError, match=told_of):
        Desk().toolkit(**options)


@pytest.mark.spec("010.6")
def test_a_tool_that_a_flow_names_has_to_be_connected() -> None:
    desk = Desk()
    selector = FlowSelector(None, desk.registry, desk.memory, "desk")
    with pytest.raises(UnconnectedToolsError) as raised:
        FlowToolkit(selector, [])
    assert raised.value.missing[REFUND] == ("look_up", "shop.pay_back")
    with pytest.raises(ConfigError, match="selector must be a FlowSelector"):
        FlowToolkit("selector", desk.tools())  # pyright: ignore[reportArgumentType]


async def test_a_request_alone_is_one_text() -> None:
    """Not its letters, the last of them the request."""
    desk = Desk(REFUND)
    shown = await desk.toolkit().select("money back")
    assert shown.result.names == [REFUND]
    assert desk.memory.calls[-1].query == "money back"


WRITTEN = {"": "failed", "{": "failed", "[1]": "failed", '{"order_id": "A1"}': "ok"}


@pytest.mark.parametrize(("arguments", "status"), WRITTEN.items(), ids=[each or "nothing" for each in WRITTEN])
async def test_arguments_as_a_model_writes_them(arguments: str, status: str) -> None:
    toolkit = Desk(REFUND).toolkit()
    made = await toolkit.call(toolkit.tools["look_up"], arguments)
    assert made.status == status
    assert made.error is None or made.error.fault == "arguments"


@pytest.mark.parametrize(
    "part", [FlowToolset, FlowCapability, FlowNodes, FlowAgentParts], ids=lambda part: part.__name__
)
def test_each_part_says_what_it_stands_on(part: Any) -> None:
    with pytest.raises(ConfigError, match=r"toolkit must be a FlowToolkit\(selector, tools\)"):
        part(Desk(REFUND).tools())


MISTAKEN: dict[str, tuple[Callable[[FlowToolkit], Awaitable[object]], str]] = {
    "nothing said": (lambda toolkit: toolkit.select(None), "said must be the request, or a list"),  # pyright: ignore[reportArgumentType]
    "bytes said": (lambda toolkit: toolkit.select(b"money back"), "said must be the request, or a list"),  # pyright: ignore[reportArgumentType]
    "a number said": (lambda toolkit: toolkit.select(7), "said must be the request, or a list"),  # pyright: ignore[reportArgumentType]
    "a question in words": (lambda toolkit: toolkit.select("2", asked="which?"), "asked must be the decision"),  # pyright: ignore[reportArgumentType]
    "a context in words": (lambda toolkit: toolkit.select("x", "me"), "context must be a mapping"),  # pyright: ignore[reportArgumentType]
    "a tool's name": (lambda toolkit: toolkit.call("look_up", GIVEN), "as one of shown.tools, got 'look_up'"),  # pyright: ignore[reportArgumentType]
    "a name of none": (lambda toolkit: toolkit.call("x", GIVEN), "such as one of shown.tools, got 'x'"),  # pyright: ignore[reportArgumentType]
    "no tool": (lambda toolkit: toolkit.call(None, GIVEN), "tool must be a Tool"),  # pyright: ignore[reportArgumentType]
    "a no in words": (
        lambda toolkit: toolkit.call(toolkit.tools["shop_pay_back"], GIVEN, agreed="no"),  # pyright: ignore[reportArgumentType]
        "agreed must be True where somebody said yes",
    ),
    "an id that is a number": (
        lambda toolkit: toolkit.call(toolkit.tools["look_up"], GIVEN, call_id=7),  # pyright: ignore[reportArgumentType]
        "call_id must be a string",
    ),
    "a verdict of no tool": (lambda toolkit: toolkit.ask("look_up", GIVEN), "tool must be a Tool"),  # pyright: ignore[reportArgumentType]
    "a verdict of a list": (lambda toolkit: toolkit.ask(toolkit.tools["look_up"], []), "arguments must be a Mapping"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize(("mistake", "told_of"), MISTAKEN.values(), ids=MISTAKEN)
async def test_what_is_of_the_wrong_kind_is_refused_with_what_to_pass(
    mistake: Callable[[FlowToolkit], Awaitable[object]], told_of: str
) -> None:
    desk = Desk(REFUND)
    with pytest.raises(ConfigError, match=told_of):
        await mistake(desk.toolkit())
    assert desk.done == []


@pytest.mark.parametrize("arguments", [None, 7, [], ["A1"], b"{}"], ids=repr)
async def test_arguments_of_no_kind_are_a_call_that_failed(arguments: Any) -> None:
    desk = Desk(REFUND)
    made = await desk.toolkit().call(desk.toolkit().tools["look_up"], arguments)
    assert (made.status, desk.done) == ("failed", [])


LARGE = {
    "a text of many letters": '{"order_id": "' + "x" * 300_000 + '"}',
    "a text of many values": '{"order_id": [' + "1," * 40_000 + "1]}",
    "an object of many letters": {"order_id": "x" * 300_000},
    "an object of many values": {"order_id": [{"n": 1}] * 10_000},
    "an object of long names": {"x" * 300_000: 1},
}


@pytest.mark.spec("013.1")
@pytest.mark.parametrize("arguments", LARGE.values(), ids=LARGE)
async def test_arguments_hold_no_more_than_a_reply_in_text(arguments: Any) -> None:
    desk = Desk(REFUND)
    toolkit = desk.toolkit()
    with steps() as called:
        made = await toolkit.call(toolkit.tools["look_up"], arguments)
        if isinstance(arguments, str):
            verdict = Allow()
        else:
            verdict = (await toolkit.ask(toolkit.tools["look_up"], arguments)).verdict
    assert (made.status, desk.done) == ("failed", [])
    assert made.error is not None
    assert "its arguments" in made.error.message
    assert isinstance(arguments, str) or (isinstance(verdict, Deny) and "hold more than" in verdict.reason)
    assert called["_copy"] < 100
