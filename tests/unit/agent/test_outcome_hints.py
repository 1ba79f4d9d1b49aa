"""What an agent tells a log of outcomes: a flow that is called off as soon as it was chosen was perhaps not meant."""

from pathlib import Path

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory
from tests.unit.agent.turns import obj, shop_of
from tests.unit.selector.shop import metadata


def refund(iban: str) -> dict[str, str]:
    return {"refunded": iban}


def agent_with(log: OutcomeLog | None) -> Agent:
    registry = shop_of(("refund_order", ("refund",)))
    selector = FlowSelector(None, registry, ListMemory(metadata("refund_order")), "support", log=log)
    return Agent(selector, [Tool(name="refund", input_schema=obj(iban="string"), function=refund)], approval="never")


@pytest.mark.spec("007.5")
@pytest.mark.parametrize(
    ("messages", "right"),
    [
        pytest.param(["refund_order"], None, id="nothing is called off"),
        pytest.param(["refund_order", "no, forget it"], (), id="called off at once"),
        pytest.param(["refund_order", "hm", "hm", "no, forget it"], None, id="called off later"),
    ],
)
async def test_what_is_called_off_at_once_is_hinted_at(
    tmp_path: Path, messages: list[str], right: tuple[str, ...] | None
) -> None:
    with OutcomeLog(tmp_path / "outcomes.db") as log:
        agent, conversation = agent_with(log), Conversation()
        for message in messages:
            conversation = (await agent.turn(message, conversation)).conversation
        first = next(log.read())
    by = None if right is None else Source(kind="agent", name=conversation.id)
    assert (first.right, first.corrected_by) == (right, by)


async def test_without_a_log_a_conversation_is_what_it_was() -> None:
    agent, conversation = agent_with(None), Conversation()
    for message in ("refund_order", "no, forget it"):
        result = await agent.turn(message, conversation)
        conversation = result.conversation
        assert all(flow.logged == "" for flow in conversation.flows)
