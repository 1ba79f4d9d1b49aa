"""A wish is a flow and its object: the same flow several times, lists, all of a kind, and what does not wait."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.agent.conversation import MOST_FLOWS
from jazz_select.errors import ModelError
from jazz_select.flow.base import GuidedDecisionPoint
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import make_agent
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

NAMES = ("send_money", "cancel_order", "send_invoice", "show_balance", "send_card")


class Bank:
    """A bank with a shop: money that is sent and orders that are cancelled wait for a yes, the rest does not."""

    def __init__(self, *, by_model: Sequence[str] = ()) -> None:
        self.log: list[str] = []
        self.by_model = by_model

    def tool(self, name: str, inputs: dict[str, str], choices: Any = (), **options: Any) -> Tool:
        def call(**given: Any) -> dict[str, Any]:
            self.log.append(" ".join([name, *map(str, given.values())]))
            return {f"{name}_done": True}

        schema = obj(**inputs)
        for each in choices:
            schema["properties"][each]["enum"] = choices[each]
        return Tool(name=name, input_schema=schema, function=call, **options)

    def agent(self, *readings: Any) -> Agent:
        registry = FlowRegistry(min_examples=0)
        chains = {
            "send_money": self.tool("pay", {"to": "string", "amount": "integer"}, destructive=True),
            "cancel_order": self.tool("cancel", {"order": "string"}, destructive=True),
            "send_invoice": self.tool("mail", {"order": "string"}),
            "show_balance": self.tool("balance", {}, read_only=True),
            "send_card": self.tool("card", {"colour": "string"}, choices={"colour": ["red", "blue"]}),
        }
        for name, tool in chains.items():
            Flow(
                name=name,
                description=f"What {name} does.",
                condition=f"The user wants {name}.",
                examples=[],
                tools=[tool.name],
                chain=[] if name in self.by_model else [tool.name],
                registry=registry,
            )
        model = ScriptedModel(*(json.dumps(each) if isinstance(each, dict) else each for each in readings))
        selector = FlowSelector(model, registry, ListMemory(metadata(*NAMES)), "support", top_k=len(NAMES))
        return make_agent(selector, [*chains.values()], model if self.by_model else None)

    async def talk(self, readings: Sequence[Any], *messages: str) -> list[TurnResult]:
        agent, kept, results = self.agent(*readings), Conversation(), list[TurnResult]()
        for message in messages:
            results.append(await agent.turn(message, kept))
            kept = Conversation.from_json(results[-1].conversation.to_json())
        return results


def reads(*flows: str, **parts: Any) -> dict[str, Any]:
    return {"flows": [*flows], **parts}


def calls(text: str, *named: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    steps = [{"id": f"s{number}", "tool": tool, "arguments": given} for number, (tool, given) in enumerate(named, 1)]
    return {"text": text, "tool_calls": steps}


SAM = {"to": "Sam", "amount": 50}
KIM = {"to": "Kim", "amount": 20}
BOTH = [
    pytest.param({"send_money": [SAM, KIM]}, id="an object for each"),
    pytest.param({"to": ["Sam", "Kim"], "amount": [50, 20]}, id="a list for each input"),
]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize("values", BOTH)
async def test_the_same_flow_is_wished_for_twice(values: Any) -> None:
    bank = Bank()
    readings = [reads("send_money", values=values)]
    first, second = await bank.talk(readings, "50 to Sam and 20 to Kim", "yes")
    assert (first.status, second.status) == ("confirming", "done")
    assert "Sam" in first.text
    assert "Kim" in first.text
    assert bank.log == ["pay Sam 50", "pay Kim 20"]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize("values", BOTH)
async def test_a_no_to_both_begins_neither(values: Any) -> None:
    bank = Bank()
    _, second = await bank.talk([reads("send_money", values=values)], "50 to Sam and 20 to Kim", "no")
    assert (second.status, second.conversation.flows, bank.log) == ("done", (), [])


@pytest.mark.spec("018.2")
async def test_a_yes_to_one_of_both_is_none() -> None:
    bank = Bank()
    readings = [reads("send_money", values={"send_money": [SAM, KIM]}), {}]
    _, second = await bank.talk(readings, "50 to Sam and 20 to Kim", "yes, to Sam")
    assert (second.status, bank.log) == ("confirming", [])


@pytest.mark.spec("018.2")
async def test_what_one_of_both_needs_without_a_yes_is_done_once() -> None:
    """Of two orders one is cancelled, after a yes; the other has left, so that it gets a label, which needs none."""
    log: list[str] = []

    def look(order: str) -> dict[str, str]:
        return {"state": "sent" if order == "60143" else "packed"}

    def cancel(order: str) -> None:
        log.append(f"cancel {order}")

    def label(order: str) -> None:
        log.append(f"label {order}")

    class ByState:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            return "label" if context["state"] == "sent" else "cancel"

    order = obj(order="string")
    tools = [
        Tool(name="look", input_schema=order, function=look, read_only=True),
        Tool(name="cancel", input_schema=order, function=cancel, destructive=True),
        Tool(name="label", input_schema=order, function=label),
    ]
    registry = FlowRegistry(min_examples=0)
    Flow(
        name="give_back",
        description="Give an order back.",
        condition="The user wants to give an order back.",
        examples=[],
        tools=["look", "cancel", "label"],
        chain=["look", GuidedDecisionPoint(after_step="look", candidate_tools=["cancel", "label"])],
        registry=registry,
    )
    model = ScriptedModel(
        json.dumps(reads("give_back", values={"give_back": [{"order": "60142"}, {"order": "60143"}]}))
    )
    selector = FlowSelector(model, registry, ListMemory(metadata("give_back")), "support", top_k=1)
    agent = make_agent(selector, tools, None, decision_callback=ByState())
    first = await agent.turn("give back 60142 and 60143")
    assert (first.status, log) == ("confirming", ["label 60143"])
    assert "Done: Label." in first.text
    assert "60142" in first.text
    second = await agent.turn("yes", first.conversation)
    assert (second.status, log) == ("done", ["label 60143", "cancel 60142"])


@pytest.mark.spec("018.3")
async def test_a_yes_confirms_and_begins_the_same_flow_for_somebody_else() -> None:
    bank = Bank()
    agreed = {"is": "yes", "quote": "yes please"}
    readings = [reads("send_money", values=SAM), reads("send_money", values=KIM, confirm=agreed)]
    _, second, third = await bank.talk(readings, "50 to Sam", "yes please, and also 20 to Kim", "yes")
    assert (second.status, bank.log[0]) == ("confirming", "pay Sam 50")
    assert "Kim" in second.text
    assert (third.status, bank.log) == ("done", ["pay Sam 50", "pay Kim 20"])


@pytest.mark.spec("018.3")
@pytest.mark.parametrize(
    "again",
    [
        pytest.param({}, id="without values"),
        pytest.param(SAM, id="with the values that it has"),
    ],
)
async def test_a_yes_that_names_its_own_flow_begins_nothing_again(again: Any) -> None:
    bank = Bank()
    agreed = {"is": "yes", "quote": "yes please"}
    readings = [reads("send_money", values=SAM), reads("send_money", values=again, confirm=agreed)]
    *_, last = await bank.talk(readings, "50 to Sam", "yes please, and that is all for today")
    assert bank.log == ["pay Sam 50"]
    assert last.conversation.flows == ()


@pytest.mark.spec("018.2")
async def test_a_wish_for_somebody_else_does_not_take_the_place_of_the_one_that_waits() -> None:
    bank = Bank()
    readings = [reads("send_money", values=SAM), reads("send_money", values={"send_money": [SAM, KIM]})]
    _, second, third = await bank.talk(readings, "50 to Sam", "also send 20 to Kim", "yes")
    assert "Sam" in second.text
    assert "Kim" in second.text
    assert (third.status, bank.log) == ("done", ["pay Sam 50", "pay Kim 20"])


LISTS = [
    pytest.param("60142 and 60143", id="two"),
    pytest.param("60142, 60143", id="with a comma"),
    pytest.param("it's 60142 and 60143, please", id="in a sentence"),
]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize("answer", LISTS)
async def test_a_list_as_an_answer_is_as_many_wishes(answer: str) -> None:
    bank = Bank()
    results = await bank.talk([reads("cancel_order")], "cancel my orders", answer, "yes")
    assert "order" in results[0].text
    assert "60142" in results[1].text
    assert "60143" in results[1].text
    assert [each.status for each in results] == ["waiting", "confirming", "done"]
    assert bank.log == ["cancel 60142", "cancel 60143"]


@pytest.mark.spec("018.2")
@pytest.mark.parametrize("answer", ["both", "both of them!", "all of them, please", "beide", "les deux"])
async def test_all_of_the_choices_are_as_many_wishes(answer: str) -> None:
    bank = Bank()
    readings = [reads("cancel_order", unclear={"order": ["60142", "60143"]})]
    results = await bank.talk(readings, "60142 or 60143, cancel it", answer, "yes", "yes")
    assert "60142 or 60143" in results[0].text
    assert bank.log == ["cancel 60142", "cancel 60143"]


ALL_ORDERS = reads("cancel_order", values={"cancel_order": "all"})


@pytest.mark.spec("018.2")
async def test_what_is_wanted_for_all_there_are_is_run_by_a_model_and_not_by_the_chain_for_one() -> None:
    bank = Bank(by_model=["send_invoice"])  # so that there is a model
    cancels = calls("Both would be cancelled.", ("cancel", {"order": "60142"}))
    replies = [
        ALL_ORDERS,
        cancels,
        calls("And the other.", ("cancel", {"order": "60143"})),
        calls("Both are cancelled.", ("finish_procedure", {})),
    ]
    first, second, third = await bank.talk(replies, "cancel all my orders", "yes", "yes")
    assert first.text.startswith("Both would be cancelled.")
    assert [each.status for each in (first, second, third)] == ["confirming", "confirming", "done"]
    assert (third.text, bank.log) == ("Both are cancelled.", ["cancel 60142", "cancel 60143"])


@pytest.mark.spec("018.2")
async def test_what_is_wanted_for_all_there_are_is_asked_for_if_no_model_can_run_it() -> None:
    bank = Bank()
    first, second = await bank.talk([ALL_ORDERS], "cancel all my orders", "60142 and 60143")
    assert (first.status, first.text) == ("waiting", "To go on, I need: order.")
    assert (second.status, bank.log) == ("confirming", [])


@pytest.mark.spec("018.2")
async def test_all_as_an_answer_to_what_a_flow_waits_for_is_run_by_a_model() -> None:
    bank = Bank(by_model=["send_invoice"])
    replies = [reads("cancel_order"), ALL_ORDERS, calls("It would go.", ("cancel", {"order": "60142"}))]
    first, second = await bank.talk(replies, "cancel something", "just everything that I have with you")
    assert first.text == "To go on, I need: order."
    assert (second.status, second.text.partition("\n")[0]) == ("confirming", "It would go.")


@pytest.mark.spec("018.2")
async def test_what_there_is_no_room_for_is_said() -> None:
    bank = Bank()
    orders = [str(60_100 + number) for number in range(MOST_FLOWS + 2)]
    readings = [reads("cancel_order", values={"order": orders})]
    results = await bank.talk(readings, f"cancel {', '.join(orders)}", *["yes"] * MOST_FLOWS)
    assert "This part is left open: " in results[0].text
    assert all(each in results[0].text for each in orders[MOST_FLOWS:])
    assert bank.log == [f"cancel {each}" for each in orders[:MOST_FLOWS]]


@pytest.mark.spec("018.6")
async def test_what_needs_no_yes_does_not_wait_for_what_does() -> None:
    bank = Bank()
    wishes = reads("cancel_order", "send_invoice", "show_balance", values={"order": "60142"})
    first, second = await bank.talk([wishes], "cancel 60142, mail its invoice and show my balance", "yes")
    assert (first.status, bank.log[:2]) == ("confirming", ["mail 60142", "balance"])
    assert first.text.endswith("yes or no?")
    assert (second.status, bank.log[2:]) == ("done", ["cancel 60142"])


CANCEL_AND_MAIL = reads("cancel_order", "send_invoice", values={"order": "60142"})
MAILED = calls("The invoice is on its way.", ("mail", {"order": "60142"}), ("finish_procedure", {}))


@pytest.mark.spec("018.6")
async def test_what_a_model_runs_does_not_wait_for_a_yes_either() -> None:
    bank = Bank(by_model=["send_invoice"])
    first, second = await bank.talk([CANCEL_AND_MAIL, MAILED], "cancel 60142 and mail its invoice", "yes")
    assert (first.status, bank.log[:1]) == ("confirming", ["mail 60142"])
    assert first.text.startswith("The invoice is on its way.")
    assert "Done: " not in first.text  # its model has said so
    assert first.text.endswith("yes or no?")
    assert (second.status, bank.log[1:]) == ("done", ["cancel 60142"])


@pytest.mark.spec("018.6")
async def test_a_question_of_what_does_not_wait_is_told_with_the_one_that_does() -> None:
    bank = Bank(by_model=["send_invoice"])
    first, second = await bank.talk([CANCEL_AND_MAIL, "To which address?"], "cancel 60142 and mail its invoice", "yes")
    assert first.text.startswith("To which address?")
    assert first.text.endswith("yes or no?")
    assert (bank.log, [each.name for each in second.conversation.flows]) == (["cancel 60142"], ["send_invoice"])


@pytest.mark.spec("018.6")
async def test_what_does_not_wait_is_kept_if_its_model_is_down() -> None:
    bank = Bank(by_model=["send_invoice"])
    down = [CANCEL_AND_MAIL, ModelError("scripted", "down", retryable=False), MAILED]
    first, second = await bank.talk(down, "cancel 60142 and mail its invoice", "yes")
    assert "To come: Send invoice." in first.text
    assert (second.status, bank.log) == ("done", ["cancel 60142", "mail 60142"])


@pytest.mark.spec("018.6")
async def test_what_a_model_runs_comes_after_what_another_model_tells_of() -> None:
    bank = Bank(by_model=["cancel_order", "send_invoice"])
    cancels = calls("The invoice comes after that.", ("cancel", {"order": "60142"}))
    readings = [CANCEL_AND_MAIL, cancels, calls("It is cancelled.", ("finish_procedure", {})), MAILED]
    first, second = await bank.talk(readings, "cancel 60142 and mail its invoice", "yes")
    assert "The invoice comes after that." in first.text
    assert (second.status, bank.log) == ("done", ["cancel 60142", "mail 60142"])


@pytest.mark.spec("018.6")
async def test_what_waits_is_mentioned() -> None:
    bank = Bank()
    wishes = reads("cancel_order", "send_money", values={"cancel_order": {"order": "60142"}})
    first, second = await bank.talk([wishes], "cancel 60142 and send money", "yes")
    assert "To come: send money." in first.text.replace("Send money", "send money")
    assert first.text.index("To come") < first.text.index("yes or no?")
    assert (second.status, bank.log) == ("waiting", ["cancel 60142"])


@pytest.mark.spec("018.3")
async def test_a_no_with_a_value_corrects() -> None:
    bank = Bank()
    _, second, third = await bank.talk([reads("send_money", values=SAM)], "50 to Sam", "no, 60", "yes")
    assert second.status == "confirming"
    assert "60" in second.text
    assert (third.status, bank.log) == ("done", ["pay Sam 60"])


@pytest.mark.spec("018.3")
async def test_a_value_that_is_none_of_the_choices_is_asked_for_again_by_itself() -> None:
    bank = Bank()
    refused = reads("send_card", values={"colour": "purple"})
    first, second, third = await bank.talk([reads("send_card"), refused], "send me a card", "a purple one", "blue")
    assert first.status == second.status == "waiting"
    assert second.text.startswith("purple cannot be used for colour.")
    assert second.model_calls == 1
    assert (third.status, bank.log) == ("done", ["card blue"])
