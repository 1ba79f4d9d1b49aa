"""How long a provider asks to wait."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.chat.pydantic_ai_errors import seconds_to_wait


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("", None),
        ("-1", None),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun Nov  6 08:49:37 1994", 0.0),
        ("Sun, 99 Nov 1994 08:49:37 GMT", None),
    ],
)
def test_what_is_said(said: str, seconds: float | None) -> None:
    assert seconds_to_wait({"retry-after": said}) == seconds


def test_nothing_is_said() -> None:
    assert seconds_to_wait({}) is None


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
def test_the_forms_of_a_date(form: str) -> None:
    then = datetime.now(UTC) + timedelta(seconds=60)
    waited = seconds_to_wait({"retry-after": then.strftime(form)})
    assert waited == pytest.approx(60, abs=5)


@given(st.text() | st.datetimes(timezones=st.just(UTC)).map(format_datetime))
def test_whatever_is_said_is_no_error(said: str) -> None:
    seconds = seconds_to_wait({"retry-after": said})
    assert seconds is None or 0 <= seconds < float("inf")
