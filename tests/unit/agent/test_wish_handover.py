"""A model at work on a flow hands over what the message says for another one, whoever has read the message before."""

import json
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import flow_id
from tests.agents import make_agent
from tests.unit.agent.turns import obj, shop_of
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("018.12")
WISH = "mail me the invoice"
MESSAGE = f"pay Sam 50, and {WISH}"
PAY = {"tool": "pay", "arguments": {"to": "Sam"}}
QUESTION = "This would be done next: Pay (to: Sam). Shall I go on, yes or no?"
PAYS, MAILS = json.dumps([flow_id("pays")]), json.dumps([flow_id("mails")])


def calls(*given: dict[str, Any], text: str = "") -> str:
    return json.dumps({"text": text, "tool_calls": list(given)})


def wish(words: str = WISH) -> dict[str, Any]:
    return {"tool": "another_wish", "arguments": {"wish": words}}


DONE: dict[str, Any] = {"tool": "finish_procedure", "arguments": {}}


def agent_of(log: list[str], model: Any, *, asks: bool = True) -> Agent:
    def pay(to: str) -> dict[str, str]:
        log.append(f"pay {to}")
        return {"receipt": "R-1"}

    def mail() -> dict[str, str]:
        log.append("mail")
        return {"mailed": "yes"}

    registry = shop_of(("pays", ()), ("mails", ("mail",)))
    pays = registry.by_name("pays")
    assert pays is not None
    vars(pays).update(tools=("pay",))
    tools = [
        Tool(name="pay", input_schema=obj(to="string"), function=pay, destructive=asks),
        Tool(name="mail", function=mail),
    ]
    selector = FlowSelector(None, registry, ListMemory(metadata("pays", "mails")), "support")
    return make_agent(selector, tools, model)


async def talk(agent: Agent, *messages: str) -> list[Any]:
    """The results of these turns; between any two the conversation is a text, as if in another process."""
    results: list[Any] = []
    kept = Conversation()
    for message in messages:
        results.append(await agent.turn(message, kept))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


async def test_the_flow_goes_on_with_its_own_and_the_wish_runs_after_it() -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, calls(wish(), PAY), calls(DONE, text="Sam has 50."), MAILS)
    (result,) = await talk(agent_of(log, model, asks=False), MESSAGE)
    assert log == ["pay Sam", "mail"]
    assert (result.status, result.text) == ("done", "Sam has 50.\n\nMails is done.")


@pytest.mark.parametrize(
    "replies",
    [
        pytest.param((calls(wish(), PAY),), id="the wish first"),
        pytest.param((calls(PAY, wish()),), id="the wish last"),
        pytest.param((calls(wish()), calls(PAY)), id="one after the other"),
    ],
)
async def test_a_call_that_waits_for_a_yes_keeps_no_wish_from_being_done(replies: tuple[str, ...]) -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, *replies, MAILS, calls(DONE, text="Sam has 50."))
    asked, done = await talk(agent_of(log, model), MESSAGE, "yes")
    assert (asked.status, asked.text) == ("confirming", f"Mails is done.\n\nBack to: Pays. {QUESTION}")
    assert (done.status, done.text, log) == ("done", "Sam has 50.", ["mail", "pay Sam"])


async def test_a_yes_in_the_message_that_came_before_the_question_is_none_to_it() -> None:
    log: list[str] = []
    said = "yes, do it"
    read = json.dumps({"flows": [], "off": [], "values": {}, "confirm": {"is": "yes", "quote": said}})
    model = ScriptedModel(PAYS, calls(wish(said), PAY), read, "{}", "What do you mean?")
    (asked,) = await talk(agent_of(log, model), f"pay Sam 50. {said}")
    assert (asked.status, log) == ("confirming", [])
    assert asked.text.endswith(QUESTION)


async def test_a_wish_that_no_flow_fits_is_answered_and_the_question_stands() -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, calls(wish(), PAY), "[]", "Invoices are mailed on Fridays.", "It is paid.")
    asked, _ = await talk(agent_of(log, model), MESSAGE, "yes")
    assert (asked.status, asked.text) == ("confirming", f"Invoices are mailed on Fridays.\n\n{QUESTION}")
    assert log == ["pay Sam"]


async def test_a_model_that_is_down_at_the_wish_leaves_the_question() -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, calls(wish(), PAY), OSError("gone"), OSError("gone"), "It is paid.")
    asked, done = await talk(agent_of(log, model), MESSAGE, "yes")
    assert (asked.status, asked.text.endswith(QUESTION)) == ("confirming", True)
    assert (done.text, log) == ("It is paid.", ["pay Sam"])


async def test_what_the_user_did_not_say_is_no_wish_and_is_told() -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, calls(wish("close the account"), PAY), calls(DONE, text="Sam has 50."))
    (result,) = await talk(agent_of(log, model, asks=False), MESSAGE)
    assert log == ["pay Sam"]
    assert result.text == 'This part is left open: "close the account"\n\nSam has 50.'


async def test_a_model_that_hands_over_again_and_again_ends() -> None:
    log: list[str] = []
    model = ScriptedModel(PAYS, calls(wish(MESSAGE)), "Hm.", PAYS, calls(wish(MESSAGE)), "Which one?", repeat=True)
    (result,) = await talk(agent_of(log, model), MESSAGE)
    assert result.status == "active"
    assert len(model.calls) <= 7


async def test_the_flow_that_reads_first_hands_back_the_whole_message() -> None:
    log: list[str] = []
    model = ScriptedModel(calls(PAY), "It is paid. What else?", calls(wish()), MAILS)
    *_, result = await talk(agent_of(log, model, asks=False), "pays", WISH)
    assert (log, result.flows) == (["pay Sam", "mail"], ["mails"])
