"""Requests that ask for several things are taken apart; others are left whole."""

import pytest

from jazz_select import ProceduralMemory
from jazz_select.memory.requests import MAX_CLAUSES, clauses
from tests.unit.memory.cards import CARDS

CASES = {
    "Check my balance and then pay my bill": ("Check my balance", "pay my bill"),
    "Please end my membership, and send me the invoice for March.": (
        "Please end my membership",
        "send me the invoice for March.",
    ),
    "Where is my parcel? Also I want a new password.": ("Where is my parcel?", "Also I want a new password."),
    "我要退款。查一下我的包裹": ("我要退款。", "查一下我的包裹"),
    "Refund my order": (),
    "I like rock and roll": (),
    "": (),
    "Yes. No. Maybe.": (),
}


@pytest.mark.parametrize(("text", "parts"), CASES.items(), ids=CASES)
def test_clauses(text: str, parts: tuple[str, ...]) -> None:
    assert clauses(text) == parts


def test_a_long_story_is_left_whole() -> None:
    assert clauses("And then we went on. " * (MAX_CLAUSES + 1)) == ()


async def test_both_things_asked_for_are_found(memory: ProceduralMemory) -> None:
    await memory.sync("a", CARDS)
    found = await memory.recall("tell me where my parcel is now, and let me choose a new password", "a", top_k=2)
    assert {each["flow_name"] for each in found} == {"track_parcel", "reset_password"}
