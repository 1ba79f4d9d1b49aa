"""The nodes for LangGraph, in its own graph, with a fake chat model of LangChain."""

from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import EmptyInputError
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from jazz_select.integrations.langgraph import FlowNodes, FlowState
from jazz_select.integrations.toolkit import FlowToolkit
from jazz_select.routing import Allow, Deny, ToolCall
from jazz_select.routing.approval import Verdict
from jazz_select.testing import MemoryClaims
from tests.unit.integrations.desk import ASKS, MOVE, QUESTION, REFUND, TRACK, UNCLEAR, VERDICTS, Desk, saying

pytestmark = pytest.mark.spec("009.4")
ASKED = "I want my money back for A1"
THREAD: RunnableConfig = {"configurable": {"thread_id": "t1"}}


class Fake(GenericFakeChatModel):
    """LangChain's fake model; it writes down what is bound to it and what it is sent."""

    bound: list[list[dict[str, Any]]]
    sent: list[list[AnyMessage]]

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        self.bound.append(list(tools))
        return self


def fake(*replies: AIMessage) -> Fake:
    return Fake(messages=iter([*replies, AIMessage("Done."), AIMessage("Done.")]), bound=[], sent=[])


def calls(*named: tuple[str, dict[str, Any]], ids: Sequence[str] = ("c1", "c2", "c3")) -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": given, "id": own} for (name, given), own in zip(named, ids, strict=False)],
    )


def graph(desk: Desk, model: Fake, *, context: Any = None, saver: InMemorySaver | None = None, **options: Any) -> Any:
    nodes = FlowNodes(desk.toolkit(**options), context=context)

    async def reply(state: FlowState) -> dict[str, Any]:
        messages = [SystemMessage(state["prompt"]), *state["messages"]]
        model.sent.append(messages)
        return {"messages": [await model.bind_tools(nodes.schemas(state)).ainvoke(messages)]}

    def more(state: FlowState) -> str:
        last = state["messages"][-1]
        return "call" if isinstance(last, AIMessage) and (last.tool_calls or last.invalid_tool_calls) else END

    made: Any = StateGraph(FlowState)
    made.add_node("select", nodes.select)
    made.add_node("reply", reply)
    made.add_node("call", nodes.call)
    made.add_edge(START, "select")
    made.add_edge("select", "reply")
    made.add_conditional_edges("reply", more)
    made.add_edge("call", "reply")
    return made.compile(checkpointer=saver or InMemorySaver())


async def asked(made: Any, text: str = ASKED) -> dict[str, Any]:
    return await made.ainvoke({"messages": [HumanMessage(text)]}, THREAD)


def answers(state: dict[str, Any]) -> list[tuple[str, str]]:
    return [(str(each.content), each.status) for each in state["messages"] if isinstance(each, ToolMessage)]


async def test_the_node_puts_into_the_state_what_was_selected() -> None:
    desk, model = Desk(TRACK), fake()
    state = await asked(graph(desk, model), "Where is A1?")
    assert (state["flows"], state["tools"]) == (["track_order"], ["look_up"])
    assert '<flow name="track_order"' in state["prompt"]
    assert [each["function"]["name"] for each in model.bound[0]] == ["look_up"]
    assert "track_order" in str(model.sent[0][0].content)


async def test_a_tool_is_called_and_its_answer_is_a_message() -> None:
    desk, model = Desk(REFUND), fake(calls(("look_up", {"order_id": "A1"})))
    state = await asked(graph(desk, model))
    assert desk.done == ["look_up A1"]
    assert answers(state) == [('{"order_id":"A1","state":"delivered"}', "success")]
    assert state["messages"][-1].content == "Done."


async def test_a_conversation_goes_on_with_what_was_said_before() -> None:
    desk, model = Desk(TRACK), fake()
    made = graph(desk, model)
    await asked(made, "It is about A1")
    await asked(made, "where is it?")
    assert "It is about A1" in desk.memory.calls[-1].query


@pytest.mark.spec("005.3")
async def test_what_destroys_interrupts_and_is_done_once_agreed() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(("look_up", {"order_id": "A1"}), ("shop_pay_back", {"order_id": "A1"}))))
    state = await asked(made)
    (interrupted,) = state["__interrupt__"]
    (call,) = interrupted.value["calls"]
    assert call.pop("identity")
    assert call == {
        "id": "c2",
        "tool": "shop_pay_back",
        "title": "Refund of an order",
        "question": "This would be done next: Refund of an order (order id: A1). Shall I go on, yes or no?",
        "arguments": {"order_id": "A1"},
        "reason": "",
    }
    assert desk.done == [], "nothing of the reply is done before the answer, so that nothing is done twice"
    await made.ainvoke(Command(resume=["c2"]), THREAD)
    assert desk.done == ["look_up A1", "pay_back A1"]


@pytest.mark.spec("012.1")
async def test_a_call_whose_arguments_the_state_has_otherwise_meanwhile_is_not_made() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(("shop_pay_back", {"order_id": "A1"}))))
    await asked(made)
    last = (await made.aget_state(THREAD)).values["messages"][-1]
    other = last.model_copy(update={"tool_calls": [{**last.tool_calls[0], "args": {"order_id": "EVERYTHING"}}]})
    await made.aupdate_state(THREAD, {"messages": [other]}, as_node="reply")
    state = await made.ainvoke(Command(resume=["c1"]), THREAD)
    if state.get("__interrupt__"):  # asked about anew, with what it would do now
        (again,) = state["__interrupt__"][0].value["calls"]
        assert again["arguments"] == {"order_id": "EVERYTHING"}
    assert desk.done == []


NO: dict[str, Any] = {
    "no": False,
    "nothing": [],
    "another id": ["c9"],
    "a text that holds it": "c1 and c2",
    "a mapping": {"c1": False},
    "1": 1,
    "deep": [["c1"]],
}


@pytest.mark.parametrize("answer", NO.values(), ids=NO)
async def test_anything_but_a_yes_is_a_no(answer: Any) -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(("shop_pay_back", {"order_id": "A1"}))))
    await asked(made)
    state = await made.ainvoke(Command(resume=answer), THREAD)
    assert desk.done == []
    assert answers(state) == [("not run: it was asked about, and not agreed to", "error")]


TWO = [("shop_pay_back", {"order_id": each}) for each in ("A1", "B2")]
NAMED: dict[str, tuple[list[str], list[str]]] = {
    "both": (["c1", "c2"], ["pay_back A1", "pay_back B2"]),
    "one": (["c2"], ["pay_back B2"]),
    "none": ([], []),
}


@pytest.mark.parametrize(("ids", "done"), NAMED.values(), ids=NAMED)
async def test_a_yes_to_one_of_several_names_it(ids: list[str], done: list[str]) -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(*TWO)))
    await asked(made)
    await made.ainvoke(Command(resume=ids), THREAD)
    assert desk.done == done


@pytest.mark.parametrize(("ids", "done"), NAMED.values(), ids=NAMED)
async def test_a_yes_that_names_none_of_several_is_asked_about(ids: list[str], done: list[str]) -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(*TWO)))
    first = (await asked(made))["__interrupt__"][0].value
    for _ in range(2):
        (again,) = (await made.ainvoke(Command(resume=True), THREAD))["__interrupt__"]
        assert again.value["calls"] == first["calls"]
        assert again.value["problem"].startswith("True says not which of 2 calls is meant")
    assert desk.done == []
    await made.ainvoke(Command(resume=ids), THREAD)
    assert desk.done == done


async def test_a_yes_to_the_only_one_needs_no_name() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(("look_up", {"order_id": "A1"}), TWO[0])))
    await asked(made)
    await made.ainvoke(Command(resume=True), THREAD)
    assert desk.done == ["look_up A1", "pay_back A1"]


async def test_no_answer_at_all_does_nothing_and_can_be_given_later() -> None:
    """LangGraph takes `None` for no answer before a node hears of it, and says so in its own way."""
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(*TWO)))
    await asked(made)
    with pytest.raises((UnboundLocalError, EmptyInputError)):
        await made.ainvoke(Command(resume=None), THREAD)
    assert "__interrupt__" in await made.ainvoke(Command(resume={}), THREAD)
    assert desk.done == []
    await made.ainvoke(Command(resume=["c1"]), THREAD)
    assert desk.done == ["pay_back A1"]


async def test_a_yes_to_one_of_two_with_the_same_id_is_a_yes_to_neither() -> None:
    desk = Desk(REFUND)
    both = calls(*[("shop_pay_back", {"order_id": each}) for each in ("A1", "B2")], ids=("c1", "c1"))
    state = await asked(graph(desk, fake(both)))
    assert desk.done == []
    assert {status for _, status in answers(state)} == {"error"}


async def test_without_a_checkpointer_nothing_is_destroyed() -> None:
    desk = Desk(REFUND)
    nodes = FlowNodes(desk.toolkit())
    made: Any = StateGraph(FlowState)
    made.add_node("call", nodes.call)
    made.add_edge(START, "call")
    messages = [calls(("shop_pay_back", {"order_id": "A1"}))]
    state = await made.compile().ainvoke({"messages": messages, "tools": ["shop_pay_back"]})
    assert "__interrupt__" in state
    assert desk.done == []


@pytest.mark.parametrize(("verdict", "done"), VERDICTS.values(), ids=VERDICTS)
async def test_a_hook_is_heard(verdict: Verdict, done: list[str]) -> None:
    desk, model = Desk(REFUND), fake(calls(("shop_pay_back", {"order_id": "A1"})))
    state = await asked(graph(desk, model, approve=saying([verdict])))
    assert desk.done == done
    if not done:
        assert answers(state) == [("not run: closed on Sundays", "error")]


async def test_a_yes_does_not_overrule_a_hook_that_has_come_to_say_no() -> None:
    desk, said = Desk(REFUND), list[Verdict]([ASKS])
    made = graph(desk, fake(calls(("shop_pay_back", {"order_id": "A1"}))), approve=saying(said))
    await asked(made)
    said[:] = [Deny("the day is over")]
    await made.ainvoke(Command(resume=True), THREAD)
    assert desk.done == []


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("then", [{"approve": saying([Allow()])}, {"approval": "never"}], ids=["allows", "never asks"])
async def test_a_no_is_heard_though_nothing_is_asked_about_any_more(durability: str, then: dict[str, Any]) -> None:
    desk, saver = Desk(REFUND), InMemorySaver()
    asks = graph(desk, fake(calls(*TWO)), approve=saying([ASKS]), saver=saver)
    await asks.ainvoke({"messages": [HumanMessage(ASKED)]}, THREAD, durability=durability)
    state = await graph(desk, fake(), saver=saver, **then).ainvoke(
        Command(resume=["c2"]), THREAD, durability=durability
    )
    assert desk.done == ["pay_back B2"]
    assert answers(state)[0] == ("not run: it was asked about, and not agreed to", "error")


async def test_a_reply_that_needs_no_yes_is_not_kept_as_asked_about() -> None:
    made = graph(Desk(REFUND), fake(calls(("look_up", {"order_id": "A1"}))))
    given = {"messages": [HumanMessage(ASKED)]}
    seen = [name async for each in made.astream(given, THREAD, stream_mode="updates") for name in each]
    assert seen == ["select", "reply", "call", "reply"]


class Minds:
    """A hook that asks about the calls of these orders, and allows the others."""

    def __init__(self, *orders: str) -> None:
        self.orders = orders

    def __call__(self, call: ToolCall) -> Verdict:
        return ASKS if call.arguments["order_id"] in self.orders else Allow()


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("left", ["A1", "B2"])
async def test_a_yes_that_was_given_while_several_asked_is_none_for_the_one_that_is_left(
    left: str, durability: str
) -> None:
    """In whatever process it is resumed: what was asked about is in the checkpoint."""
    desk, saver = Desk(REFUND), InMemorySaver()
    first = graph(desk, fake(calls(*TWO)), approve=Minds("A1", "B2"), saver=saver)
    await first.ainvoke({"messages": [HumanMessage(ASKED)]}, THREAD, durability=durability)
    then = graph(desk, fake(), approve=Minds(left), saver=saver)
    state = await then.ainvoke(Command(resume=True), THREAD, durability=durability)
    (again,) = state["__interrupt__"]
    assert [each["id"] for each in again.value["calls"]] == ["c1", "c2"]
    assert again.value["problem"].startswith("True says not which of 2 calls is meant")
    assert desk.done == []
    await then.ainvoke(Command(resume=["c2"]), THREAD, durability=durability)
    assert desk.done == ["pay_back B2"]


@pytest.mark.parametrize("answer", [True, ["c1"], ["c1", "c2"]], ids=["true", "its id", "both ids"])
async def test_a_yes_is_none_for_what_a_hook_has_come_to_ask_about(answer: Any) -> None:
    desk, hook = Desk(REFUND), Minds("A1")
    made = graph(desk, fake(calls(*TWO)), approve=hook)
    await asked(made)
    hook.orders = ("A1", "B2")
    state = await made.ainvoke(Command(resume=answer), THREAD)
    assert desk.done == ["pay_back A1"]
    assert answers(state) == [('{"refunded":20}', "success"), ("not run: really?", "error")]


async def test_two_replies_that_ask_are_asked_about_each_by_itself() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(TWO[0]), calls(TWO[1])))
    await asked(made)
    state = await made.ainvoke(Command(resume=True), THREAD)
    assert state["__interrupt__"][0].value["calls"][0]["arguments"] == {"order_id": "B2"}
    await made.ainvoke(Command(resume=True), THREAD)
    assert desk.done == ["pay_back A1", "pay_back B2"]


STRANGE: dict[str, tuple[str, dict[str, Any], str]] = {
    "a tool of another flow": ("redirect", {"order_id": "A1"}, "not run: there is no such tool here"),
    "a tool that is none": ("rm", {"path": "/"}, "not run: there is no such tool here"),
    "its own name": ("shop.pay_back", {"order_id": "A1"}, "not run: there is no such tool here"),
    "nothing given": ("look_up", {}, "look_up: the arguments are not valid"),
    "too much given": ("look_up", {"order_id": "A1", "sql": "x"}, "look_up: the arguments are not valid"),
}


@pytest.mark.parametrize(("tool", "given", "told"), STRANGE.values(), ids=STRANGE)
async def test_what_a_model_makes_up_is_told_to_it(tool: str, given: dict[str, Any], told: str) -> None:
    desk = Desk(REFUND)
    state = await asked(graph(desk, fake(calls((tool, given))), approval="never"))
    assert desk.done == []
    assert [(text.startswith(told), status) for text, status in answers(state)] == [(True, "error")]


def as_openai_sends(*named: tuple[str, str]) -> AIMessage:
    """A reply whose calls have these ids and arguments; LangChain reads them, or says that it could not."""
    sent = [
        {"id": own, "type": "function", "function": {"name": "shop_pay_back", "arguments": given}}
        for own, given in named
    ]
    return AIMessage("", additional_kwargs={"tool_calls": sent})


GOOD = '{"order_id": "A1"}'
UNREAD = ("not run: the call could not be read: make it again, with arguments that are one JSON object", "error")


@pytest.mark.parametrize("given", ["", "{order", GOOD[:-1], f"{GOOD} {GOOD}"], ids=["none", "no JSON", "cut", "two"])
async def test_a_call_that_langchain_cannot_read_is_told_so_and_can_be_made_again(given: str) -> None:
    desk = Desk(REFUND)
    model = fake(as_openai_sends(("c1", given)), as_openai_sends(("c2", GOOD)))
    state = await asked(graph(desk, model, approval="never"))
    assert answers(state) == [UNREAD, ('{"refunded":20}', "success")]
    assert [each.tool_call_id for each in state["messages"] if isinstance(each, ToolMessage)] == ["c1", "c2"]
    assert desk.done == ["pay_back A1"]


async def test_each_call_is_answered_where_only_some_can_be_read() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(as_openai_sends(("c1", "{order"), ("c2", GOOD))))
    state = await asked(made)
    assert [each["id"] for each in state["__interrupt__"][0].value["calls"]] == ["c2"]
    state = await made.ainvoke(Command(resume=True), THREAD)
    assert answers(state) == [('{"refunded":20}', "success"), UNREAD]
    assert desk.done == ["pay_back A1"]


async def test_a_call_that_has_the_id_of_one_that_cannot_be_read_is_not_made() -> None:
    desk = Desk(REFUND)
    state = await asked(graph(desk, fake(as_openai_sends(("c1", "{order"), ("c1", GOOD))), approval="never"))
    assert desk.done == []
    assert {status for _, status in answers(state)} == {"error"}


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model() -> None:
    desk = Desk(MOVE)
    state = await asked(graph(desk, fake(calls(("redirect", {"order_id": "A1"})))))
    assert answers(state) == [("redirect failed: LookupError: the parcel has left", "error")]


async def test_a_call_that_was_made_is_not_made_again_where_the_graph_is_resumed_twice() -> None:
    desk, claims, saver = Desk(REFUND), MemoryClaims(), InMemorySaver()
    made = graph(desk, fake(calls(("shop_pay_back", {"order_id": "A1"}))), claims=claims, saver=saver)
    await asked(made)
    before = (await made.aget_state(THREAD)).config
    first = await made.ainvoke(Command(resume=True), before)
    again = await made.ainvoke(Command(resume=True), before)
    assert desk.done == ["pay_back A1"]
    assert answers(first) == answers(again) == [('{"refunded":20}', "success")]


async def test_without_a_store_a_graph_that_is_resumed_twice_makes_its_call_once() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(TWO[0])))
    await asked(made)
    before = (await made.aget_state(THREAD)).config
    first, again = [await made.ainvoke(Command(resume=True), before) for _ in range(2)]
    assert desk.done == ["pay_back A1"]
    assert answers(first) == answers(again) == [('{"refunded":20}', "success")]


async def test_two_replies_that_number_their_calls_alike_are_two() -> None:
    desk = Desk(REFUND)
    made = graph(desk, fake(calls(TWO[0]), calls(TWO[1])), approval="never")
    await asked(made)
    assert desk.done == ["pay_back A1", "pay_back B2"]


def with_toolkit(toolkit: FlowToolkit, saver: Any) -> Any:
    """A graph that selects and replies."""
    nodes = FlowNodes(toolkit)
    made: Any = StateGraph(FlowState)
    made.add_node("select", nodes.select)
    made.add_edge(START, "select")
    return made.compile(checkpointer=saver)


async def test_the_answer_in_the_next_turn_decides_in_whatever_process() -> None:
    """The question is in the checkpoint, which is read as it was written: as bytes."""
    saver = InMemorySaver()
    first = await with_toolkit(Desk().asking().toolkit(), saver).ainvoke({"messages": [HumanMessage(UNCLEAR)]}, THREAD)
    assert (first["flows"], first["tools"]) == ([], ["look_up"])
    assert QUESTION in first["prompt"]
    second = await with_toolkit(Desk().asking().toolkit(), saver).ainvoke(
        {"messages": [HumanMessage("the first")]}, THREAD
    )
    assert (second["flows"], second["tools"]) == ([REFUND], ["look_up", "shop_pay_back"])
    third = await with_toolkit(Desk().asking().toolkit(), saver).ainvoke(
        {"messages": [HumanMessage("the last")]}, THREAD
    )
    assert third["flows"] == [], "the question was answered"


async def test_guards_see_what_the_caller_makes_of_a_state() -> None:
    desk = Desk(TRACK)
    seen = desk.guarded(TRACK)

    def context(state: FlowState) -> dict[str, Any]:
        return {"turns": len(state["messages"])}

    await asked(graph(desk, fake(), context=context))
    assert seen[0] == {"turns": 1}
