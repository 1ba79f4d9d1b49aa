"""A message that is for no flow, answered by the model that reads it: one call for thanks, small talk and questions."""

import json
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Agent
from jazz_select.agent.chain.transcript import ChainText
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import make_agent
from tests.unit.agent.talks import shop_tools
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("011.11")


def at_once(*replies: str, **options: Any) -> tuple[Agent, ScriptedModel, list[Any]]:
    log: list[Any] = []
    model = ScriptedModel(*replies)
    registry = shop_of(("send_back", ("open_return",)), ("cancel_it", ("cancel_order",)))
    selector = FlowSelector(model, registry, ListMemory(metadata("send_back", "cancel_it")), "support")
    return make_agent(selector, shop_tools(log), model, **options), model, log


def read(**parts: Any) -> str:
    return json.dumps(parts)


async def test_one_call_reads_and_answers() -> None:
    agent, model, _ = at_once(read(answer="Gern geschehen!"), system="You work in a shop. Be brief.")
    heard: list[Any] = []
    result = await agent.turn("danke", on_event=heard.append)
    assert (result.status, result.text, result.flows, len(model.calls)) == ("done", "Gern geschehen!", [], 1)
    assert [(each.text, each.closing) for each in heard if isinstance(each, ChainText)] == [("Gern geschehen!", True)]
    assert "You work in a shop. Be brief." in model.calls[0][0].content, "who answers knows who it is"
    assert [each.content for each in result.conversation.messages] == ["danke", "Gern geschehen!"]


@pytest.mark.parametrize(
    "reply", [read(flows=["1"], answer="I have sent it back!"), read(answer="send_back"), read(answer="1")]
)
async def test_what_is_for_a_flow_is_not_answered_at_once(reply: str) -> None:
    agent, *_ = at_once(reply)
    result = await agent.turn("send it back")
    assert (result.flows, result.text) == (["send_back"], "To go on, I need: order id, reason.")


@pytest.mark.parametrize("answer", ["", " ", 5, None, ["Hello"], {"text": "Hello"}, True])
async def test_what_is_no_text_is_no_answer(answer: Any) -> None:
    agent, model, _ = at_once(read(answer=answer), *(["{}"] if answer and not isinstance(answer, str) else []), "Well.")
    assert (await agent.turn("hm")).text == "Well.", [each[-1].content for each in model.calls]


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("Your order 60112 is what you told me.", True),
        ("Write to help@shop.example, please.", True),
        ("It comes on 12 June.", False),
        ("Your order 60113 is on its way.", False),
        ("Write to boss@shop.example.", False),
        ("See https://shop.example/60112.", False),
    ],
)
async def test_an_answer_with_a_number_or_an_address_that_nobody_told_is_not_used(answer: str, *, counts: bool) -> None:
    agent, model, _ = at_once(read(answer=answer), "I look it up.", facts={"support": "help@shop.example"})
    result = await agent.turn("what did I say about order 60112?")
    assert (result.text, len(model.calls)) == ((answer, 1) if counts else ("I look it up.", 2))


@pytest.mark.parametrize(
    ("answer", "counts"),
    [
        ("It comes on 13 June.", True),
        ("Es kommt am 13. Juni 2025.", True),
        ("Elle arrive le 13 juin.", True),
        ("It comes on June 13th.", True),
        ("It comes on 13.06.2025.", True),
        ("It comes on 14 June.", False),
        ("It comes on 13 July.", False),
        ("It comes on 13 June, or on 14 June.", False),
        ("It comes on 13 June 2026.", False),
        ("It comes on 113 June.", False),
    ],
)
async def test_a_day_that_was_told_may_be_written_otherwise(answer: str, *, counts: bool) -> None:
    agent, model, _ = at_once(read(answer=answer), "I look it up.", facts={"delivery": "2025-06-13", "year": 2026})
    result = await agent.turn("thanks, when was that again?")
    assert (result.text, len(model.calls)) == ((answer, 1) if counts else ("I look it up.", 2))


async def test_an_endless_answer_is_cut() -> None:
    agent, *_ = at_once(read(answer="a" * 100_000))
    assert len((await agent.turn("hm")).text) <= 8_000


async def test_a_question_beside_what_waits_is_answered_and_the_question_comes_back() -> None:
    agent, model, log = at_once(
        read(flows=["2"], values={"order_number": "60112"}), read(answer="We are open until eight."), approval="always"
    )
    asks = await agent.turn("cancel 60112")
    assert (asks.status, log) == ("confirming", [])
    result = await agent.turn("until when are you open?", asks.conversation)
    assert (result.status, len(model.calls), log) == ("confirming", 2, [])
    assert result.text == f"We are open until eight.\n\n{asks.text}"
    done = await agent.turn("yes", result.conversation)
    assert (done.status, [name for name, _ in log]) == ("done", ["cancel_order"])


async def test_a_question_beside_a_yes_is_answered_at_once_too() -> None:
    agent, model, log = at_once(
        read(flows=["2"], values={"order_number": "60112"}), read(answer="There are no fees."), approval="always"
    )
    asks = await agent.turn("cancel 60112")
    result = await agent.turn("yes please. Are there any fees?", asks.conversation)
    assert ([name for name, _ in log], len(model.calls)) == (["cancel_order"], 2)
    assert result.text == "There are no fees.\n\nCancel it is done."


async def test_a_selectors_model_alone_answers_nothing() -> None:
    model = ScriptedModel(read(answer="I am the selector."))
    registry = shop_of(("send_back", ("open_return",)), ("cancel_it", ("cancel_order",)))
    selector = FlowSelector(model, registry, ListMemory(metadata("send_back", "cancel_it")), "support")
    result = await Agent(selector, shop_tools([])).turn("hello")
    assert (result.status, result.text) == ("open", "I can help with: Send back, Cancel it.")
    assert "- answer:" not in model.calls[0][0].content
