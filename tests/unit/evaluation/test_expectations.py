"""What is expected of a turn against what came: each check alone, and values that agree as far as they are told."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.evaluation import Called, Expected, ExpectedCall, Seen
from jazz_select.evaluation.conversations import agrees, is_said, judged

SEEN = Seen(
    flows=("refund", "track"),
    under_way=("refund",),
    waits_for=("email", "order"),
    status="waiting",
    tools=(Called(tool="look_up", arguments={"order": "60112", "with": {"lines": [1, 2], "note": "gift wrap"}}),),
    text="It comes\n back to your CARD tomorrow.",
    reason="two facts are missing",
    value={"amount": 12.5, "to": "card"},
    model_calls=3,
)


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        pytest.param("flows", ["refund", "track"], ["track", "refund"], id="flows in order"),
        pytest.param("flows", ["refund", "track"], "none", id="no flow"),
        pytest.param("under_way", "refund", [], id="under way, one alone"),
        pytest.param("waits_for", ["order", "email"], ["order"], id="what it waits for, in any order"),
        pytest.param("status", "waiting", "done", id="status"),
        pytest.param("tools", ["look_up"], [], id="a call by its name"),
        pytest.param("tools", [{"look_up": {"order": "60112"}}], [{"look_up": {"order": "1"}}], id="an argument"),
        pytest.param("tools", [{"look_up": {"order": "/^6/"}}], [{"look_up": {"order": "/^7/"}}], id="a pattern"),
        pytest.param("tools", {"look_up": {"with": {"lines": [1, 2]}}}, {"look_up": {"with": {"lines": 1}}}, id="in"),
        pytest.param("tools", [{"look_up": None}], ["look_up", "look_up"], id="each call"),
        pytest.param("tools", {"tool": "look_up", "arguments": {"order": "60112"}}, {"tool": "look"}, id="long form"),
        pytest.param("never_tools", "pay", ["look_up"], id="never called"),
        pytest.param("says", "it comes back to your card", "to my card", id="words, whatever case and lines"),
        pytest.param("says", "/card TOMORROW\\.$/", "/^card/", id="a pattern in the text"),
        pytest.param("never_says", ["cash", "/\\d/"], ["cash", "/to\\s+your/"], id="never said"),
        pytest.param("reason", "facts are missing", "a guard", id="why"),
        pytest.param("value", {"amount": 12.5}, {"amount": "12.5"}, id="the answer in the schema"),
        pytest.param("model_calls", 3, 2, id="calls of the model"),
    ],
)  # fmt: skip
def test_each_thing_that_is_expected_is_a_check(field: str, right: object, wrong: object) -> None:
    fine, bad = (judged(Expected.model_validate({field: value}), SEEN) for value in (right, wrong))
    assert fine
    assert {check.name for check in (*fine, *bad)} == {field}
    assert all(check.passed for check in fine)
    assert not all(check.passed for check in bad)
    failed = next(check for check in bad if not check.passed)
    assert str(failed) == f"{field}: expected {failed.expected}, got {failed.seen}"
    assert (failed.name, failed.passed) == (field, False)


def test_what_is_not_said_is_not_looked_at() -> None:
    assert judged(Expected(), SEEN) == ()


def test_a_call_that_failed_says_so() -> None:
    check = judged(
        Expected(tools=(ExpectedCall(tool="pay"),)),
        Seen(tools=(Called(tool="pay", arguments={"cents": 5}, status="failed"), Called(tool="pay", arguments={}))),
    )[0]
    assert (check.passed, check.seen) == (False, "pay(cents=5) (failed), pay()")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("abc ", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
)


@given(JSON)
def test_a_value_agrees_with_itself(value: Any) -> None:
    assert agrees(value, value)


@given(st.dictionaries(st.text("abc", max_size=2), JSON), st.data())
def test_less_that_is_told_still_agrees(value: dict[str, Any], data: st.DataObject) -> None:
    told = data.draw(st.sets(st.sampled_from(sorted(value)))) if value else set[str]()
    assert agrees({name: value[name] for name in told}, value)
    assert agrees(value, {**value, "one more": 1})
    assert not agrees({**value, "one more": 1}, value)


@pytest.mark.parametrize(
    ("wanted", "given", "same"),
    [
        pytest.param(1, True, False, id="a number is no yes"),
        pytest.param(1, 1.0, True, id="one is one"),
        pytest.param("1", 1, False, id="a text is no number"),
        pytest.param(date(2026, 3, 5), "2026-03-05", True, id="YAML reads dates"),
        pytest.param("/a+/", "caab", True, id="pattern"),
        pytest.param("//", "//", True, id="too short for a pattern"),
        pytest.param("/a/", 1, False, id="a pattern is for texts"),
        pytest.param([], {}, False, id="kinds"),
    ],
)
def test_values_that_agree(wanted: object, given: object, same: bool) -> None:
    assert agrees(wanted, given) is same


def test_words_and_patterns() -> None:
    assert is_said("Straße", "in der STRASSE")
    assert not is_said("/^b/", "a\nb")
