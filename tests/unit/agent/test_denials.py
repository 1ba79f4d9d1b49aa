"""What a message says is not to be done is not begun, where no model reads it and no call needs a yes."""

from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, tool_from_function
from jazz_select.agent import Approval, TurnResult
from jazz_select.consent import is_denied
from jazz_select.testing import ListMemory
from tests.agents import TAKE_FIRST

pytestmark = pytest.mark.spec("017.5")
CANCEL, REFUND = ("cancel_order", "Cancelling an order"), ("refund_payment", "Refund")
DENIED: list[Any] = [
    "don't cancel my order",
    "please do not cancel my order",
    "Hi, please don't cancel my order, I still want it",
    "don\u2019t cancel my order!",
    "dont cancel it",
    "never cancel my order",
    "no cancel",
    "no cancellation please",
    "I don't want to cancel my order",
    "I never asked you to cancel my order",
    "you should not cancel my order",
    "don't cancel it, refund it",
    "do not refund or cancel my order",
    "don't cancel my order and my subscription",
    "nevermind cancelling my order",
    "storniere meine Bestellung nicht",
    "bitte nicht stornieren",
    "keine Stornierung bitte",
    "ich will nicht stornieren",
    "no canceles mi pedido",
    "por favor no cancele mi pedido",
    "no quiero cancelar",
    "n'annule pas ma commande",
    "n'annulez surtout pas",
    "je ne veux pas annuler",
    "non annullare il mio ordine",
    "non voglio annullare",
    "не отменяйте мой заказ",
    "注文をキャンセルしないでください",
    "キャンセル不要です",
    "don t cancel my order",
    "don`t cancel my order",
    "don\u00b4t cancel my order",
    "donot cancel my order",
    "pls dnt cancel my order",
    "DO NOT CANCEL MY ORDER",
    "leave my order alone, do not cancel",
    "please stop the cancellation of my order",
    "stop cancelling my order",
    "cancel the cancellation",
    "I do not want my order cancelled",
    "could you please not cancel my order",
    "don't cancel it! Why would you cancel my order?",
]
WANTED: list[Any] = [
    "cancel my order",
    "I don't want my order any more, cancel it",
    "I don't want it. Please cancel my order.",
    "my order has not arrived, cancel it",
    "I haven't got it yet and want to cancel my order",
    "I can't wait any longer, please cancel",
    "no, cancel it",
    "cancel order no 60112",
    "cancel order no. 60112 please",
    "don't wait, cancel my order now",
    "cancel my order, not my subscription",
    "Cancel my order and don't charge me",
    "not the blue one, cancel my order of the red one",
    "storniere meine Bestellung",
    "cancela mi pedido",
    "annule ma commande",
    "annulla il mio ordine",
    "отмените мой заказ",
    "注文をキャンセルしてください",
]
OTHERS: list[Any] = [
    ("never mind the refund", True),
    ("forget the refund", True),
    ("no refund", True),
    ("don't refund me", True),
    ("no refunds please", True),
    ("cancel my refund", True),
    ("I don't need refunding", True),
    ("the lamp doesn't work, refund me", False),
    ("refund my payment", False),
]


@pytest.mark.parametrize("message", DENIED)
def test_a_denied_wish_is_read_as_one(message: str) -> None:
    assert is_denied(message, CANCEL)


@pytest.mark.parametrize("message", WANTED)
def test_a_wish_beside_a_denial_is_one(message: str) -> None:
    assert not is_denied(message, CANCEL)


@pytest.mark.parametrize(("message", "denied"), OTHERS)
def test_another_wish_is_read_alike(message: str, denied: bool) -> None:
    assert is_denied(message, REFUND) is denied


async def turns(*said: str, **options: Any) -> tuple[list[TurnResult], list[str]]:
    """A conversation without a model with an agent that finds one flow for each message, and what was called."""
    done: list[str] = []

    def cancel_order() -> dict[str, str]:
        """Cancel the order."""
        done.append("cancel_order")
        return {}

    registry = FlowRegistry(min_examples=0)
    fields: dict[str, Any] = {
        "description": "Cancel it.",
        "desired_effects": ["cancelled"],
        "examples": ["call it off"],
    }
    flow = Flow(name="cancel_order", tools=["cancel_order"], chain=("cancel_order",), registry=registry, **fields)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    selector = FlowSelector(None, registry, memory, "desk", policy=TAKE_FIRST)
    agent = Agent(selector, [tool_from_function(cancel_order, destructive=True)], **options)
    results: list[TurnResult] = []
    for message in said:
        results.append(await agent.turn(message, results[-1].conversation if results else None))
    return results, done


NEVER: list[Any] = [
    pytest.param({"approval": "never"}, id="never"),
    pytest.param({"approval": Approval(policy="never")}, id="as an option"),
]


@pytest.mark.parametrize("options", NEVER)
@pytest.mark.parametrize("message", DENIED)
async def test_a_denied_wish_is_not_begun(message: str, options: Any) -> None:
    results, done = await turns(message, **options)
    assert (results[0].status, results[0].flows, done) == ("waiting", [], [])


@pytest.mark.parametrize("message", WANTED)
async def test_any_other_wish_is_begun_without_a_question(message: str) -> None:
    results, done = await turns(message, approval="never")
    assert (results[0].status, done) == ("done", ["cancel_order"])


async def test_the_question_takes_a_yes_and_a_no() -> None:
    asked = "don't cancel my order"
    for answer, done in (("yes", ["cancel_order"]), ("no", []), ("don't cancel it", [])):
        assert (await turns(asked, answer, approval="never"))[1] == done


async def test_a_denied_wish_beside_an_answer_is_not_begun() -> None:
    results, done = await turns("don't cancel my order", "no. And please don't cancel my order", approval="never")
    assert (done, results[1].flows) == ([], [])
