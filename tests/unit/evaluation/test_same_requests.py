"""When two requests are the same, and what it leaves apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.evaluation.checks.wording import DuplicateIndex, request_key


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("Where is my order?", "where is my order", True, id="case and marks"),
        pytest.param("Hi, where is my order please", "Where is my order?!", True, id="politeness"),
        pytest.param("where is my parcel now", "where is my parcle now", True, id="letters turned round"),
        pytest.param("where is my delivery", "where is my delivry", True, id="a letter left out"),
        pytest.param("where is order 12", "where is order 99", True, id="numbers"),
        pytest.param("cancel my order", "change my order", False, id="another word"),
        pytest.param("turn it on", "turn it off", False, id="a short word"),
        pytest.param("please", "thanks", False, id="nothing but politeness"),
        pytest.param("hello", "hello", True, id="itself"),
        pytest.param("退款", "退款！", True, id="no blanks"),
        pytest.param("退款", "换货", False, id="another wish, no blanks"),
        pytest.param("...", "???", False, id="no words"),
    ],
)
def test_the_same_request(one: str, other: str, same: bool) -> None:
    assert bool(DuplicateIndex([one], numbers=False).find(other)) is same


def test_numbers_count_where_they_are_to() -> None:
    assert DuplicateIndex(["what is 5 times 7"], numbers=True).find("what is 6 times 7") == []
    assert DuplicateIndex(["what is 5 times 7"], numbers=False).find("what is 6 times 7") == [0]


TEXTS = st.lists(st.text(max_size=40), max_size=12)


@given(TEXTS, st.booleans())
def test_every_text_is_the_same_as_itself_and_likeness_goes_both_ways(texts: list[str], numbers: bool) -> None:
    sames = DuplicateIndex(texts, numbers=numbers)
    found = [sames.find(text) for text in texts]
    for place in range(len(texts)):
        assert place in found[place]
        assert all(place in found[other] for other in found[place])


@given(st.text(max_size=60))
def test_folding_twice_changes_nothing(text: str) -> None:
    assert request_key(request_key(text)) == request_key(text)
