"""What readers of models' replies have in common."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.chat.json_reader import (
    BROKEN,
    MOST_FAILURES,
    MOST_MARKS,
    MOST_VALUES,
    OPENERS,
    ends_as_json,
    find_embedded,
    locate_values,
    parse_whole,
    repair_value,
    unquote_reply,
    values_in,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[1]", ("[1]", [1]), id="a value"),
        pytest.param('" [1] "', ("[1]", [1]), id="in quotes"),
        pytest.param('"hello"', ("hello", BROKEN), id="a word in quotes"),
        pytest.param("hello", ("hello", BROKEN), id="a word"),
        pytest.param("null", ("null", None), id="null"),
    ],
)
def test_an_answer_in_quotes_is_the_answer(text: str, expected: tuple[str, Any]) -> None:
    assert unquote_reply(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(" [1] ", [[1]], id="the whole"),
        pytest.param('"a"', ["a"], id="a string"),
        pytest.param('First [1], then {"a": [2]}.', [[1], {"a": [2]}], id="in prose"),
        pytest.param("```json\n[1]\n```", [[1]], id="in a fence"),
        pytest.param("nothing", [], id="none"),
    ],
)
def test_the_values_in_a_text(text: str, expected: list[Any]) -> None:
    assert values_in(text) == expected


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ('{"a": 1}', True),
        ("[1]\n```\n", True),
        ("`[1]`", True),
        ('{"a": "b', False),
        ("[1] and", False),
        ("[1]?", False),
        ("", False),
    ],
    ids=str,
)
def test_what_was_cut_off_does_not_end_as_json(text: str, *, whole: bool) -> None:
    assert ends_as_json(text) is whole


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("[1] " * (MOST_VALUES + 1), MOST_VALUES, id="so many values are found, and no more"),
        pytest.param("[x " * (MOST_FAILURES - 1) + "[1]", 1, id="one fewer fails than ends the search"),
        pytest.param("[x " * MOST_FAILURES + "[1]", 0, id="as many fail as end the search"),
        pytest.param('["' + "x" * 140_000 + " [1]", 0, id="an open quote wastes all that is behind it"),
        pytest.param("[x" + "-" * 140_000 + " [1]", 1, id="what fails at once wastes nothing"),
        pytest.param("[1]" + "," * (MOST_MARKS - 1), 1, id="as many marks as are read"),
        pytest.param("[1]" + "," * MOST_MARKS, 0, id="one mark too many"),
    ],
)
def test_a_search_for_values_ends(text: str, found: int) -> None:
    assert len(find_embedded(text)) == found


def test_what_is_too_large_or_opens_nothing_is_no_json() -> None:
    assert parse_whole("[1" + ",1" * MOST_MARKS + "]") is BROKEN
    assert repair_value("nothing") is BROKEN


@pytest.mark.parametrize(("more", "broken"), [(0, False), (1, True)], ids=["as many", "one too many"])
@pytest.mark.parametrize("opener", ["[", '{"a": '], ids=["lists", "objects"])
def test_what_opens_too_many_brackets_is_not_repaired(opener: str, more: int, *, broken: bool) -> None:
    assert (repair_value(opener * (OPENERS + more)) is BROKEN) is broken


MARKS = st.sampled_from([*'{}[]",:\\`', "```json\n", "a", "1", "'", "\ud800"])


@given(st.lists(MARKS, max_size=60).map("".join) | st.text())
def test_no_text_raises(text: str) -> None:
    for read in (parse_whole, find_embedded, repair_value, unquote_reply, values_in, ends_as_json):
        read(text)
    assert all(find_embedded(text[each.start : each.end]) == [each.value] for each in locate_values(text))
