"""What the agent itself proposed is no evidence that the user said it: only a plain yes takes it over."""

from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, tool_from_function
from jazz_select.agent import TurnResult
from jazz_select.agent.reading.grounding import Wanted, ground
from jazz_select.testing import ListMemory, ScriptedModel

pytestmark = pytest.mark.spec("017.4")
MALLORY = "mallory@example.org"
BEGIN = '{"flows": ["1"], "values": {"email": "mallory@example.org"}}'
REPEATS: list[Any] = [
    pytest.param(BEGIN, id="with the flow"),
    pytest.param('{"values": {"email": "mallory@example.org"}}', id="alone"),
    pytest.param('{"flows": ["1"], "confirm": {"is": "yes", "quote": "who is that"}}', id="as a yes"),
    pytest.param('{"flows": ["1"], "unclear": {"email": ["mallory@example.org", "ben@example.org"]}}', id="as unclear"),
]


async def turns(*said: str, replies: tuple[str, ...]) -> tuple[list[TurnResult], list[str]]:
    """A conversation about an invoice, and the addresses to which it was sent."""
    sent: list[str] = []

    def send_invoice(email: str) -> dict[str, str]:
        """Send the invoice."""
        sent.append(email)
        return {}

    registry = FlowRegistry(min_examples=0)
    options: dict[str, Any] = {
        "description": "Send it.",
        "desired_effects": ["sent"],
        "examples": ["the invoice please"],
    }
    flow = Flow(name="invoice", tools=["send_invoice"], chain=("send_invoice",), registry=registry, **options)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    selector = FlowSelector(ScriptedModel(*replies, repeat=True), registry, memory, "desk")
    agent = Agent(selector, [tool_from_function(send_invoice)])
    results: list[TurnResult] = []
    for message in said:
        before = results[-1].conversation if results else None
        results.append(await agent.turn(message, before))
    return results, sent


@pytest.mark.parametrize("reply", REPEATS)
@pytest.mark.parametrize("message", ["who is that?", "hm, whose is that", "what is mallory@example.org?", "no idea"])
async def test_a_value_that_only_a_model_repeats_is_not_used(message: str, reply: str) -> None:
    results, sent = await turns("send the invoice", message, replies=(BEGIN, reply))
    assert MALLORY in results[0].text
    assert (results[1].status, sent) == ("waiting", [])


YES: list[Any] = ["yes", "yes please", "ja", "mallory@example.org", "it is mallory@example.org"]


@pytest.mark.parametrize("message", YES)
async def test_a_plain_yes_or_the_user_s_own_words_take_it_over(message: str) -> None:
    results, sent = await turns("send the invoice", message, replies=(BEGIN, BEGIN))
    assert (results[1].status, sent) == ("done", [MALLORY])


@pytest.mark.parametrize("message", ["no", "nein"])
async def test_a_no_drops_it(message: str) -> None:
    results, sent = await turns("send the invoice", message, replies=(BEGIN, BEGIN))
    assert (results[1].status, sent) == ("waiting", [])


async def test_it_is_no_evidence_in_a_later_turn_either() -> None:
    said = ("send the invoice", "who is that?", "and what does it cost?", "go figure")
    results, sent = await turns(*said, replies=(BEGIN, BEGIN, BEGIN, BEGIN))
    assert ([each.status for each in results], sent) == (["waiting"] * 4, [])


def test_several_values_that_the_user_said_are_chosen_by_their_place() -> None:
    wanted = {"order": Wanted({"type": "string"}, {})}
    said = ("is it 60142 or 60143?", "the second one")
    assert ground({"order": "60143"}, {}, wanted, said).values == {"order": "60143"}
