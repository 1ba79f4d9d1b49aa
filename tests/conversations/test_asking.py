"""Conversations of a bank that asks for what it needs, without a model and with one."""

from pathlib import Path

import pytest

from jazz_select.evaluation import ConversationCase, load_conversations, play
from tests.conversations.asking.bank import make_agent
from tests.vectors import NEEDS_STATIC

CASES = load_conversations(Path(__file__).parent / "asking" / "conversations.yaml")

pytestmark = NEEDS_STATIC


@pytest.mark.spec("011.6", "011.8", "011.9")
@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
async def test_what_is_missing_is_asked_for(case: ConversationCase) -> None:
    result = await play(case, make_agent)
    assert result.passed, str(result)


def test_they_are_played_without_a_model_and_with_one() -> None:
    assert {case.scripted for case in CASES} == {True, False}
