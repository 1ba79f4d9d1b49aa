"""Whatever a user writes and a model claims: what counts as said stands in a message."""

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.agent.reading.bare_answer import Wanted, bare_answer, plain_answer
from jazz_select.agent.reading.grounding import EDGES, dates, normalized, numbers, was_said
from jazz_select.consent import read_consent
from jazz_select.phrases import Asked
from tests.depth import examples

CASES = settings(max_examples=examples(300), deadline=None)
letters = st.text(alphabet="aA1-.@_ ,'e\u0301ßは", max_size=12)
messages = st.text(max_size=40) | letters | st.sampled_from(["nan", "sNaN", "-inf", "1e5", "1_0", "٣", "½", "१२"])
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | letters | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(letters, inner, max_size=3),
    max_leaves=6,
)


@CASES
@given(value=letters, message=messages)
def test_a_text_that_was_said_stands_in_the_message(value: str, message: str) -> None:
    if was_said(value, {"type": "string"}, {}, [message]):
        spelt = value.isdecimal() and int(value) in set(numbers(message))
        assert spelt or normalized(value).strip(EDGES + " ") in normalized(message)


@CASES
@given(before=messages, value=st.from_regex(r"[a-z][a-z0-9]{2,8}@[a-z]{3,8}\.org", fullmatch=True), after=messages)
def test_a_word_between_blanks_was_said(before: str, value: str, after: str) -> None:
    assert was_said(value, {"type": "string"}, {}, [f"{before} {value.upper()} {after}"])


@CASES
@given(number=st.integers(-10_000, 10_000), message=messages)
def test_a_number_that_was_said_is_one_of_the_numbers(number: int, message: str) -> None:
    assert was_said(number, {"type": "integer"}, {}, [message]) == (Decimal(number) in set(numbers(message)))
    assert was_said(number, {"type": "integer"}, {}, [f"it is {number} or so"])


@CASES
@given(day=st.dates(), before=letters)
def test_a_date_in_full_is_found_whatever_stands_before_it(day: object, before: str) -> None:
    assert str(day) in {found for _, found in dates(f"{before} on {day}")}


@CASES
@given(value=json, message=messages)
def test_nothing_breaks_it(value: object, message: str) -> None:
    assert was_said(value, {}, {}, [message]) in {True, False}
    assert was_said(value, {}, {}, []) is False
    assert read_consent(message, Asked(words="cancel_it", arguments={"what": message})).answer in {
        "yes",
        "no",
        "neither",
    }
    for kind in ("string", "integer", "number", "boolean"):
        wanted = {"fact": Wanted({"type": kind}, {})}
        assert bare_answer(wanted, message).keys() | plain_answer(wanted, message).keys() <= {"fact"}


def test_many_values_are_each_looked_for_in_all_that_was_said() -> None:
    numbered = [100_000 + place for place in range(4_000)]
    message, schema = " ".join(map(str, numbered)), {"type": "array", "items": {"type": "integer"}}
    assert was_said(numbered[-200:], schema, {}, ["hello", message])
    assert not was_said([*numbered[-199:], 1], schema, {}, ["hello", message])
    assert was_said([str(each) for each in numbered[-200:]], {}, {}, ["hello", message])


def test_places_of_a_value_may_overlap() -> None:
    assert was_said("x. x", {}, {}, ["yx. x. x"])
    assert was_said("1234567", {}, {}, ["call 91 23 45 67, or 1 23 45 67"])
