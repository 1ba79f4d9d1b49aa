"""An hour at a desk that lets meeting rooms: twenty dialogues without a model."""

from pathlib import Path

import pytest

from jazz_select import Conversation
from jazz_select.evaluation import ConversationCase, load_conversations, play
from tests.conversations.booking.desk import Desk, make_agent
from tests.vectors import NEEDS_STATIC

CASES = load_conversations(Path(__file__).parent / "booking" / "conversations.yaml")

pytestmark = NEEDS_STATIC


@pytest.mark.spec("019.1", "019.6", "019.7", "019.8")
@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
async def test_an_hour_at_the_desk(case: ConversationCase) -> None:
    result = await play(case, make_agent)
    assert result.passed, str(result)


def test_there_are_twenty_dialogues_and_none_has_a_model() -> None:
    assert len(CASES) >= 20
    assert {case.scripted for case in CASES} == {False}


@pytest.mark.spec("019.6")
async def test_a_list_that_cannot_be_read_is_asked_for_without_it() -> None:
    async with make_agent(None, Desk(is_down=True)) as agent:
        first = await agent.turn("report a fault")
        kept = Conversation.from_json(first.conversation.to_json())
        second = await agent.turn("the cellar", kept)
        third = await agent.turn("it is flooded", second.conversation)
    assert (first.text, third.text) == (
        "In which room?",
        "Thank you, the house service knows: it is flooded in the cellar.",
    )
    assert [note for note in first.notes if "list_places failed" in note] == list(first.notes)
    assert first.notes
