"""The model that reads a message begins its flow in the same reply; look-ups with known arguments need no model."""

import json
from typing import Any

import pytest

from jazz_select import BaseFlow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent
from jazz_select.agent.reading.small_talk import asks_to_repeat, is_only_thanks
from jazz_select.errors import ToolError
from jazz_select.flow.base import GuidedDecisionPoint
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import make_agent
from tests.unit.agent.talks import takes

pytestmark = pytest.mark.spec("018.7")


class Desk:
    """An agent with one flow that a model runs, its model, and the calls of its tools."""

    def __init__(self, *replies: str, **options: Any) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.model = ScriptedModel(*replies)
        registry = FlowRegistry(min_examples=0)
        flow = BaseFlow(
            name="close_account",
            description="Close an account.",
            condition="The user wants the account closed.",
            tools=["find_account", "find_notes", "close_it"],
            steps=["Find the account with find_account.", "Call close_it."],
            registry=registry,
        )
        told = [{"flow_id": flow.id, "flow_name": flow.name, "condition": flow.condition}]
        selector = FlowSelector(self.model, registry, ListMemory(told), "support")
        self.agent: Agent = make_agent(selector, self._tools(), self.model, **options)

    def _tools(self) -> list[Tool]:
        def made(name: str, output: Any, schema: dict[str, Any], **effect: Any) -> Tool:
            def call(**arguments: Any) -> Any:
                self.log.append((name, arguments))
                return output

            return Tool(name=name, description=f"{name}.", function=call, input_schema=schema, **effect)

        maybe = {"type": "object", "properties": {"email": {"type": "string"}, "about": {"type": "string"}}}
        closed = {"closed_on": "2025-06-16", "back_cents": 1290}
        return [
            made("find_account", {"points": 5}, takes("email"), read_only=True),
            made("find_notes", {"notes": []}, {**maybe, "required": ["email"]}, read_only=True),
            made("close_it", closed, takes("email"), destructive=True),
        ]

    @property
    def called(self) -> list[str]:
        return [name for name, _ in self.log]


def read(**parts: Any) -> str:
    return json.dumps({"flows": ["1"], **parts})


def call(tool: str, call_id: str = "s1", **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "tool": tool, "arguments": arguments}


ADA = {"email": "ada@shop.example"}
FIND = call("find_account", email="ada@shop.example")


async def test_the_reader_looks_up_and_the_next_reply_tells() -> None:
    end = json.dumps({"text": "You have 5 points.", "tool_calls": [call("finish_procedure")]})
    desk = Desk(read(begin={"tool_calls": [FIND]}), end)
    result = await desk.agent.turn("close my account")
    assert (result.text, result.status, desk.called, len(desk.model.calls)) == (
        "You have 5 points.",
        "done",
        ["find_account"],
        2,
    )
    assert "TOOL RESULTS" in desk.model.calls[1][-1].content


async def test_the_reader_asks_for_what_is_missing_with_no_further_call() -> None:
    desk = Desk(read(begin={"text": "Which address?"}))
    result = await desk.agent.turn("close my account")
    assert (result.text, result.status, len(desk.model.calls)) == ("Which address?", "active", 1)


async def test_what_cannot_be_undone_is_asked_about_whoever_begins_it() -> None:
    desk = Desk(read(begin={"text": "It would be closed.", "tool_calls": [call("close_it", email="a@shop.example")]}))
    result = await desk.agent.turn("close my account")
    assert (result.status, desk.called) == ("confirming", [])


@pytest.mark.parametrize(
    "begin",
    [5, [], {}, {"tool_calls": []}, {"text": " "}, {"tool_calls": "close_it"}, {"text": "a" * 20_000}],
    ids=str,
)
async def test_what_begins_nothing_leaves_the_flow_to_its_model(begin: Any) -> None:
    desk = Desk(read(begin=begin), "Which address?")
    result = await desk.agent.turn("close my account")
    assert (result.text, len(desk.model.calls)) == ("Which address?", 2)


async def test_a_tool_of_no_such_flow_is_not_run() -> None:
    desk = Desk(read(begin={"tool_calls": [call("wipe_disk")]}), "I cannot do that.")
    result = await desk.agent.turn("close my account")
    assert (result.text, desk.called) == ("I cannot do that.", [])


@pytest.mark.spec("017.1")
async def test_steps_and_tools_are_shown_without_what_the_context_fills() -> None:
    desk = Desk(read(begin={"text": "Well."}))
    await desk.agent.turn("close my account", context=ADA)
    prompt = desk.model.calls[0][-1].content
    assert "- Find the account with find_account." in prompt
    assert "find_account(): find_account." in prompt
    assert "ada@shop.example" not in prompt


async def test_look_ups_whose_inputs_are_all_known_are_made_before_the_model_is_asked() -> None:
    desk = Desk(read(), "You have 5 points. Shall I?")
    result = await desk.agent.turn("close my account", context=ADA)
    assert desk.called == ["find_account"], "an optional input that nobody gave is not guessed to be unwanted"
    assert (result.text, len(desk.model.calls)) == ("You have 5 points. Shall I?", 2)
    assert [each.tool for each in result.conversation.calls] == ["find_account"]


CLOSING = "Closed on {s7#/closed_on}; {s7#/back_cents} EUR go back."


async def test_what_is_told_after_a_yes_is_said_before_it() -> None:
    both = [call("close_it", "s7", email="a@shop.example"), call("finish_procedure", "s8", text=CLOSING)]
    desk = Desk(read(begin={"text": "It would be closed.", "tool_calls": both}))
    asks = await desk.agent.turn("close my account")
    assert (asks.status, "go back" in asks.text) == ("confirming", False)
    result = await desk.agent.turn("yes", asks.conversation)
    assert (result.text, result.status, desk.called) == (
        "Closed on 16 June 2025; 12.90 EUR go back.",
        "done",
        ["close_it"],
    )
    assert len(desk.model.calls) == 1


async def test_a_yes_with_more_is_heard_by_the_model() -> None:
    both = [call("close_it", "s7", email="a@shop.example"), call("finish_procedure", "s8", text=CLOSING)]
    desk = Desk(read(begin={"tool_calls": both}), "{}", "Closed. No fees.")
    asks = await desk.agent.turn("close my account")
    result = await desk.agent.turn("yes please. Are there any fees?", asks.conversation)
    assert (desk.called, "No fees" in result.text) == (["close_it"], True)


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ("thanks, bye", True),
        ("perfekt, danke!", True),
        ("Merci beaucoup, bonne journée", True),
        ("muchas gracias, hasta luego", True),
        ("grazie mille", True),
        ("спасибо, до свидания", True),
        ("ありがとうございます", True),
        ("thanks, and my lamp?", False),
        ("thanks for nothing", False),
        ("thanks, 60112 too", False),
        ("no thanks", False),
        ("ok", False),
        ("", False),
    ],
)
def test_thanks_alone_want_no_model(message: str, *, counts: bool) -> None:
    assert is_only_thanks(message) is counts


@pytest.mark.parametrize(
    ("message", "counts"),
    [
        ("sorry, can you repeat that?", True),
        ("Wie bitte?", True),
        ("¿puede repetirlo?", True),
        ("pouvez-vous répéter, svp ?", True),
        ("può ripetere?", True),
        ("повторите, пожалуйста", True),
        ("もう一度お願いします", True),
        ("can you repeat the order?", False),
        ("repeat that for 60112", False),
        ("yes", False),
    ],
)
def test_who_asks_to_hear_it_again_gets_the_question_again(message: str, *, counts: bool) -> None:
    assert asks_to_repeat(message) is counts


async def test_the_question_is_repeated_and_thanks_are_answered_without_a_model() -> None:
    both = [call("close_it", "s7", email="a@shop.example"), call("finish_procedure", "s8", text=CLOSING)]
    desk = Desk(read(begin={"tool_calls": both}))
    asks = await desk.agent.turn("close my account")
    again = await desk.agent.turn("can you repeat that?", asks.conversation)
    assert (again.status, again.text) == ("confirming", asks.text)
    done = await desk.agent.turn("yes", again.conversation)
    thanked = await desk.agent.turn("thanks a lot!", done.conversation)
    assert (thanked.text, thanked.status, len(desk.model.calls)) == ("You are welcome.", "done", 1)


class Nobody:
    """One who must not be asked."""

    def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str | None:
        raise AssertionError(prompt)


@pytest.mark.parametrize(("state", "chosen"), [("paid", "send_it"), ("open", "remind")])
async def test_a_field_that_decides_needs_nobody(state: str, chosen: str) -> None:
    def look(order: str) -> dict[str, str]:
        return {"state": state, "order": order}

    def change(order: str) -> dict[str, str]:
        return {}

    tools = [
        Tool(name="look", function=look, input_schema=takes("order"), read_only=True),
        Tool(name="send_it", function=change, input_schema=takes("order")),
        Tool(name="remind", function=change, input_schema=takes("order")),
    ]
    point = GuidedDecisionPoint(
        after_step="look",
        candidate_tools=["send_it", "remind"],
        when={"send_it": {"state": "paid"}, "remind": {"state": "open"}},
    )
    run = await FlowExecutor(tools, Nobody()).run(["look", point], {"order": "A-1"})
    assert [(each.tool, each.reason) for each in run.records] == [("look", "planned"), (chosen, "field")]


@pytest.mark.parametrize(
    "when", [5, {"other": {"state": "paid"}}, {"send_it": {}}, {"send_it": "paid"}, {"send_it": {"": 1}}], ids=str
)
def test_a_condition_that_cannot_decide_is_refused(when: Any) -> None:
    with pytest.raises(ToolError, match="when"):
        GuidedDecisionPoint(after_step="look", candidate_tools=["send_it", "remind"], when=when)
