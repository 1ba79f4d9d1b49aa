"""The prompts of a conversation as whole texts, pinned; and how much of a long one is shown."""

from typing import Any

import pytest

from jazz_select.agent.conversation import Conversation, PastCall, Said
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.turn import TurnRequest
from tests.unit.agent.small_view import FOLDER, prompts_of, small_view, written

KINDS = ("choose", "decide", "call", "talk")
GROWING = ("choose_growing", "decide_growing", "call_growing", "talk_growing")


@pytest.mark.spec("010.1")
@pytest.mark.parametrize("kind", [*KINDS, *GROWING])
def test_the_whole_of_it(kind: str) -> None:
    pinned = (FOLDER / f"{kind}.txt").read_text("utf-8")
    assert written(prompts_of(small_view())[kind]) == pinned, "run python -m tests.unit.agent.small_view"


def test_each_kind_of_prompt_is_pinned() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(prompts_of(small_view())) == {*KINDS, *GROWING}


@pytest.mark.spec("010.1")
@pytest.mark.parametrize("kind", KINDS)
def test_of_an_empty_conversation_no_part_is_told(kind: str) -> None:
    request = TurnRequest(message="hello", conversation=Conversation(), context={})
    told = written(prompts_of(ConversationView(request=request))[kind])
    headings = ("KNOWN:", "CALLS MADE SO FAR", "OTHER WISHES", "<facts>", "<conversation>\n", "<confirm>\n", "\nknown:")
    assert not [each for each in headings if each in told]
    assert "hello" in told


LONG = 200
MANY: dict[str, Any] = {
    "said": tuple(
        Said(role="user" if number % 2 else "assistant", content=f"message {number} {'x' * 500}")
        for number in range(1, LONG)
    ),
    "calls": tuple(
        PastCall(tool="look_up", output=f"result {number} {'y' * 500}", turn=number) for number in range(LONG)
    ),
}
BOUNDS: list[Any] = [
    pytest.param("choose", 9_000, 'left_out="', id="choosing"),
    pytest.param("decide", 54_000, "earlier calls are left out", id="choosing between tools"),
    pytest.param("call", 72_000, "earlier messages of this conversation are left out", id="going on with a flow"),
    pytest.param("talk", 72_000, "earlier calls are left out", id="without a flow"),
    pytest.param("choose_growing", 10_000, 'left_out="', id="choosing, grown"),
    pytest.param("decide_growing", 54_000, "earlier calls are left out", id="choosing between tools, grown"),
    pytest.param("call_growing", 74_000, "earlier turns of this conversation are left out", id="going on, grown"),
    pytest.param("talk_growing", 74_000, "earlier turns of this conversation are left out", id="without one, grown"),
]


@pytest.mark.spec("010.1")
@pytest.mark.parametrize(("kind", "most", "mark"), BOUNDS)
def test_a_long_conversation_is_bounded_where_one_can_see_it_and_the_latest_stays(
    kind: str, most: int, mark: str
) -> None:
    told = written(prompts_of(small_view(**MANY))[kind])
    assert len(told) < most
    assert mark in told
    assert (f"message {LONG - 1} " in told) or (f"message {LONG - 2} " in told)
    assert "no, 60105, and it is too small" in told
    assert f"result {LONG - 1} " in told or kind in {"choose", "choose_growing"}
