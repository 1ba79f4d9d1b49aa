"""A flow that others call hands over what its tools found: to their tools, guards and approval, in the same turn."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.routing import Allow, Ask, FromContext, Tool, ToolCall, tool_from_function
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("018.12")


def calls(*given: tuple[str, dict[str, Any]], text: str = "") -> str:
    return json.dumps({"text": text, "tool_calls": [{"tool": tool, "arguments": each} for tool, each in given]})


CHECKS = calls(("check_code", {"code": "1717"}))
ENDS = calls(("finish_procedure", {}), text="You are signed in.")


def opens_for_ada(context: Mapping[str, Any]) -> bool:
    """Open before it is known who is signed in, and for Ada."""
    return context.get("customer", "ada") == "ada"


class Desk:
    """Who is signed in, and what is booked for whom."""

    def __init__(self, *, guard: Any = None, customer: str = "ada", by_model: bool = True) -> None:
        self.log: list[str] = []
        self.seen: list[dict[str, Any]] = []
        self.customer = customer
        self.registry = FlowRegistry(min_examples=0)
        chain = [] if by_model else ["check_code"]
        Flow(name="log_in", tools=["check_code", "fail"], chain=chain, registry=self.registry)
        book = Flow(name="book", calls=["log_in"], tools=["book_visit"], chain=["book_visit"], registry=self.registry)
        if guard is not None:
            vars(book)["available"] = guard

    def tools(self, *, declared: Any = None) -> list[Tool]:
        def check_code(code: str) -> dict[str, Any]:
            return {"customer": self.customer, "inside": "not declared"}

        def fail() -> dict[str, Any]:
            msg = "out of order"
            raise OSError(msg)

        def book_visit(customer: Annotated[str, FromContext]) -> dict[str, str]:
            self.log.append(customer)
            return {"visit": "V-1"}

        return [
            Tool(name="check_code", input_schema=obj(code="string"), output_schema=declared, function=check_code),
            Tool(name="fail", function=fail),
            tool_from_function(book_visit, destructive=True),
        ]

    def agent(self, *replies: str, declared: Any = None, **options: Any) -> Agent:
        memory = ListMemory(metadata("book"))
        selector = FlowSelector(None, self.registry, memory, "desk", policy=TAKE_FIRST)
        given: dict[str, Any] = {"approval": "never", **options}
        return make_agent(
            selector, self.tools(declared=declared), ScriptedModel(*replies) if replies else None, **given
        )

    def approve(self, call: ToolCall) -> Allow | Ask:
        self.seen.append(dict(call.found))
        return Allow()


async def talk(agent: Agent, *messages: str, context: Any = None) -> list[Any]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[Any] = []
    kept = Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


async def test_who_is_signed_in_is_known_to_the_callers_tools_in_the_same_turn() -> None:
    desk = Desk()
    (done,) = await talk(desk.agent(CHECKS, ENDS), "book")
    assert (done.status, done.flows, desk.log) == ("done", ["log_in", "book"], ["ada"])


async def test_what_was_found_in_an_earlier_turn_of_a_called_flow_is_handed_over() -> None:
    desk = Desk()
    replies = ("Your code, please?", calls(("check_code", {"code": "1717"}), text="One moment."), "All well?", ENDS)
    *_, done = await talk(desk.agent(*replies), "book", "1717", "yes, all is well")
    assert (done.status, desk.log) == ("done", ["ada"])


async def test_what_steps_of_a_called_flow_returned_is_handed_over() -> None:
    desk = Desk(by_model=False)
    *_, done = await talk(desk.agent(), "book", "code 1717")
    assert (done.status, desk.log) == ("done", ["ada"])


async def test_a_model_at_work_on_the_caller_cannot_say_who_is_signed_in() -> None:
    desk = Desk()
    book = desk.registry.by_name("book")
    assert book is not None
    vars(book)["chain"] = ()
    lies = calls(("book_visit", {"customer": "eve"}))
    (done,) = await talk(desk.agent(CHECKS, ENDS, lies, calls(("finish_procedure", {}), text="Booked.")), "book")
    assert (done.status, desk.log) == ("done", ["ada"])


@pytest.mark.parametrize(("customer", "log"), [("ada", ["ada"]), ("ben", [])])
async def test_a_guard_of_the_caller_reads_it(customer: str, log: list[str]) -> None:
    desk = Desk(guard=opens_for_ada, customer=customer)
    (result,) = await talk(desk.agent(CHECKS, ENDS), "book")
    assert desk.log == log
    assert result.status == ("done" if log else "failed")


async def test_an_approval_hook_reads_it() -> None:
    desk = Desk()
    (done,) = await talk(desk.agent(CHECKS, ENDS, approve=desk.approve), "book")
    assert done.status == "done"
    assert desk.seen == [{}, {"customer": "ada", "inside": "not declared"}]


async def test_of_an_output_that_declares_its_fields_only_those_are_handed_over() -> None:
    desk = Desk()
    declared = {**obj(customer="string"), "additionalProperties": True}
    await talk(desk.agent(CHECKS, ENDS, approve=desk.approve, declared=declared), "book")
    assert desk.seen[-1] == {"customer": "ada"}


async def test_the_callers_context_wins() -> None:
    desk = Desk()
    (done,) = await talk(desk.agent(CHECKS, ENDS, approve=desk.approve), "book", context={"customer": "cleo"})
    assert (done.status, desk.log) == ("done", ["cleo"])
    assert "customer" not in desk.seen[-1]


async def test_a_flow_that_is_not_done_hands_nothing_over() -> None:
    desk = Desk()
    gives_up = calls(("cannot_finish", {"reason": "the code is wrong"}), text="That code is wrong.")
    (failed,) = await talk(desk.agent(CHECKS, gives_up), "book")
    assert (failed.status, desk.log, failed.conversation.called) == ("blocked", [], {})


async def test_what_a_call_that_failed_said_is_nothing_found() -> None:
    desk = Desk()
    (failed,) = await talk(desk.agent(calls(("fail", {})), ENDS), "book")
    assert (failed.status, desk.log) == ("failed", [])


async def test_what_the_user_gave_a_called_flow_says_nothing_of_who_is_signed_in() -> None:
    desk = Desk(by_model=False)

    def check_code(customer: str) -> dict[str, bool]:
        return {"ok": True}

    log_in = desk.registry.by_name("log_in")
    assert log_in is not None
    tools = [Tool(name="check_code", input_schema=obj(customer="string"), function=check_code), *desk.tools()[1:]]
    memory = ListMemory(metadata("book"))
    selector = FlowSelector(None, desk.registry, memory, "desk", policy=TAKE_FIRST)
    *_, failed = await talk(make_agent(selector, tools, None, approval="never"), "book", "eve@example.org")
    assert (failed.status, desk.log) == ("failed", [])


async def test_a_conversation_saved_before_hands_over_to_nobody_who_is_signed_in() -> None:
    desk = Desk()
    (first,) = await talk(desk.agent(CHECKS, ENDS), "book")
    kept = json.loads(first.conversation.to_json())
    assert kept.pop("returned") == {"log_in": ["customer", "inside"]}
    again = await desk.agent("{}").turn("book", Conversation.from_json(json.dumps(kept)))
    assert (again.status, desk.log) == ("failed", ["ada"])
