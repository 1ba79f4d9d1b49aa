"""What calls return is told without another call of the model: a text beside them refers to it."""

import json
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.transcript import AssistantText, ChainText, ToolReturned
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel
from tests.unit.agent.support import ASK
from tests.unit.agent.talks import Mind, chooses, shop_agent, takes, talk

CREDIT = {"credit_code": "C-17", "cents": 1250, "valid": True, "parts": ["a"], "note": "", "of": {"name": "Ada"}}


def give_credit(order: str) -> dict[str, Any]:
    return CREDIT


def state_of(order: str) -> str:
    return f"{order} is shipped"


def fails(order: str) -> dict[str, Any]:
    raise ValueError(order)


TOOLS = [
    Tool(name="give_credit", function=give_credit, input_schema=takes("order")),
    Tool(name="state_of", function=state_of, input_schema=takes("order"), output_schema={"type": "string"}),
    Tool(name="fails", function=fails, input_schema=takes("order")),
]


def reply(text: str, *tools: str) -> str:
    """A reply with these calls, s1 and on, and a text beside them."""
    calls = [
        {"id": f"s{number}", "tool": tool, "arguments": {"order": "A-1"}} for number, tool in enumerate(tools, start=1)
    ]
    return json.dumps({"tool_calls": calls, "text": text})


FILLED: list[Any] = [
    pytest.param("The code is {s1#/credit_code}.", ["give_credit"], "The code is C-17.", id="a field"),
    pytest.param("It is {s1#/cents} cents, {s1#/of/name}.", ["give_credit"], "It is 1250 cents, Ada.", id="several"),
    pytest.param("A-1: {s1#/result}.", ["state_of"], "A-1: A-1 is shipped.", id="a whole output, as it is told of"),
    pytest.param("A-1: {s1#}.", ["state_of"], "A-1: A-1 is shipped.", id="a whole output"),
    pytest.param(
        "{s2#/credit_code}: {s1#/result}", ["state_of", "give_credit"], "C-17: A-1 is shipped", id="of several calls"
    ),
]


@pytest.mark.spec("018.7")
@pytest.mark.parametrize(("text", "called", "told"), FILLED)
async def test_a_text_beside_calls_is_filled_from_what_they_return(text: str, called: list[str], told: str) -> None:
    events: list[Any] = []
    model = ScriptedModel(reply(text, *called))
    chain = await run_chain(model, ASK, TOOLS, on_event=events.append)
    assert (chain.answer, chain.status, chain.model_calls) == (told, "answered", 1)
    said = [place for place, each in enumerate(events) if each == ChainText(text=told)]
    assert said == [len(events) - 1], "it is told once all is there"
    assert [each.result.ok for each in events if isinstance(each, ToolReturned)] == [True] * len(called)
    assert chain.entries[0] == AssistantText(text=told)


UNFILLED: list[Any] = [
    pytest.param("The code is {s1#/code}.", ["give_credit"], id="no such field"),
    pytest.param("It is {s1#/parts}.", ["give_credit"], id="a list"),
    pytest.param("It is {s1#/of}.", ["give_credit"], id="an object"),
    pytest.param("It is {s1#/valid}.", ["give_credit"], id="a yes or no"),
    pytest.param("It is {s1#/note}.", ["give_credit"], id="an empty text"),
    pytest.param("It is {s7#/credit_code}.", ["give_credit"], id="no such call"),
    pytest.param("It is {s1#/~7}.", ["give_credit"], id="no pointer"),
    pytest.param("It is {s1#/credit_code}.", ["fails"], id="of a call that failed"),
    pytest.param("It is {s2#/result}.", ["fails", "state_of"], id="beside a call that failed"),
]


@pytest.mark.spec("018.7")
@pytest.mark.parametrize(("text", "called"), UNFILLED)
async def test_where_a_value_is_missing_the_model_is_asked_with_the_results(text: str, called: list[str]) -> None:
    events: list[Any] = []
    model = ScriptedModel(reply(text, *called), "I have looked.")
    chain = await run_chain(model, ASK, TOOLS, on_event=events.append)
    assert (chain.answer, chain.model_calls) == ("I have looked.", 2)
    assert "TOOL RESULTS:" in model.calls[1][-1].content
    assert not any("{s" in each.text or "C-17" in each.text for each in events if isinstance(each, ChainText))


@pytest.mark.spec("018.7")
async def test_a_text_without_references_is_said_before_the_calls_as_ever() -> None:
    events: list[Any] = []
    model = ScriptedModel(reply("Let me look: {this}.", "state_of"), "Shipped.")
    chain = await run_chain(model, ASK, TOOLS, on_event=events.append)
    assert (chain.answer, chain.model_calls) == ("Shipped.", 2)
    assert [type(each).__name__ for each in events][:3] == ["ModelCalled", "ChainText", "ToolCalled"]


@pytest.mark.spec("018.7")
async def test_a_flow_ends_with_a_text_that_tells_what_was_found() -> None:
    looks: dict[str, Any] = {"id": "s1", "tool": "look_up", "arguments": {"order_number": "60112"}}
    ends: dict[str, Any] = {"id": "s2", "tool": "finish_procedure", "arguments": {}}
    text = "Your order 60112 is {s1#/state}."
    mind = Mind(choose=[chooses("track_it")], call=[json.dumps({"tool_calls": [looks, ends], "text": text})])
    (result,) = await talk(shop_agent(mind), "where is 60112?")
    assert (result.text, result.status) == ("Your order 60112 is shipped.", "done")
    assert len(mind.prompts("call")) == 1


@pytest.mark.spec("018.7")
async def test_a_text_that_refers_to_a_call_that_waits_for_a_yes_is_not_told() -> None:
    cancels = {"id": "s1", "tool": "cancel_order", "arguments": {"order_number": "60112"}}
    text = "It is cancelled: {s1#/order_id}."
    mind = Mind(choose=[chooses("track_it")], call=[json.dumps({"tool_calls": [cancels], "text": text}), "Cancelled."])
    asked, done = await talk(shop_agent(mind), "cancel 60112", "yes")
    assert asked.status == "confirming"
    assert "It is cancelled" not in asked.text
    assert "{s1" not in asked.text
    assert done.text.startswith("Cancelled.")


RESULTS: list[Any] = [
    pytest.param("s1#/result", "A-1 is shipped", id="the whole of an output that is no object"),
    pytest.param("s1#", "A-1 is shipped", id="the whole of it"),
]


@pytest.mark.spec("018.7")
@pytest.mark.parametrize(("pointer", "order"), RESULTS)
async def test_an_argument_refers_to_an_output_as_it_is_told_of(pointer: str, order: str) -> None:
    calls = [
        {"id": "s1", "tool": "state_of", "arguments": {"order": "A-1"}},
        {"id": "s2", "tool": "state_of", "arguments": {"order": {"$ref": pointer}}},
    ]
    model = ScriptedModel(json.dumps({"tool_calls": calls}), "Well.")
    chain = await run_chain(model, ASK, TOOLS)
    assert "returns result)" in model.calls[0][0].content
    results = [each.output for each in chain.entries if each.kind == "result"]
    assert results == ["A-1 is shipped", f"{order} is shipped"]
