"""Values as people write them: the table of expressions, and what holds of any text."""

import subprocess
import sys
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.agent.reading.expressions.reader import (
    ReadingContext,
    find_values,
    has_denial,
    json_form,
    kind_of,
    read_expression,
    says_nothing,
)
from tests.tables import read_table

TABLE: list[dict[str, Any]] = read_table(Path(__file__).with_name("expressions.yaml"))
CASES = [
    pytest.param(
        section["language"],
        section["kind"],
        section["input"],
        text,
        wanted,
        id=f"{section['language']} {section['input']}: {text}",
    )
    for section in TABLE
    for text, wanted in section["cases"].items()
]
ENGLISH = ReadingContext(language="en", today=date(2026, 5, 13), zone=ZoneInfo("Europe/Berlin"))
FOUND: list[Any] = [
    ("I want 50k for Friday", "number", {50_000}),
    ("I want 50k for Friday", "date", {"2026-05-15"}),
    ("two and a half, or 3 of them", "integer", {2.5, 3}),
    ("from 2pm, on the 20th", "time", {"14:00:00"}),
    ("twenty zero", "number", set()),
    ("A-17", "number", set()),
    ("it takes two hours and 15 minutes", "duration", {"PT2H15M"}),
]
KINDS: Any = ["number", "integer", "date", "time", "datetime", "duration", "boolean"]


def in_table(value: Any) -> Any:
    """Write a value as the table does."""
    if isinstance(value, datetime):
        return value.isoformat(timespec="minutes")
    if isinstance(value, time):
        return value.isoformat(timespec="seconds" if value.second else "minutes")
    return json_form(value)


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(("language", "kind", "name", "text", "wanted"), CASES)
def test_an_expression_gives_what_the_table_says(language: str, kind: Any, name: str, text: str, wanted: Any) -> None:
    context = ReadingContext(language=language, today=ENGLISH.today, zone=ENGLISH.zone)
    read = read_expression(text, kind, context, name)
    if isinstance(wanted, list):
        assert (read.value, {*map(in_table, read.understood)}) == (None, {*cast("list[Any]", wanted)})
    else:
        assert (in_table(read.value), read.understood) == (wanted, ())
        assert isinstance(read.value, bool) is isinstance(wanted, bool)


@pytest.mark.spec("019.1")
def test_the_table_has_seven_languages_and_hundreds_of_expressions() -> None:
    assert len(CASES) >= 400
    assert {section["language"] for section in TABLE} == {"en", "de", "es", "fr", "it", "ru", "ja"}


@pytest.mark.spec("019.1")
@pytest.mark.parametrize("text", ["tomorrow", "Friday", "the 13th", "12 May", "in 3 days", "next week Friday", "5/15"])
def test_without_today_a_relative_day_is_none(text: str) -> None:
    read = read_expression(text, "date", ReadingContext(language="en"))
    assert (read.value, read.understood) == (None, ())


def test_a_day_with_its_year_needs_no_today() -> None:
    assert read_expression("Friday, 15 May 2026", "date", ReadingContext(language="en")).value == date(2026, 5, 15)


@pytest.mark.parametrize(
    ("text", "value"), [("drei", 3), ("fünfzig", 50), ("trois", 3), ("五十", 50), ("пятьдесят", 50), ("once", 11)]
)
def test_an_answer_in_another_language_is_read_if_it_says_nothing_in_this_one(text: str, value: int) -> None:
    assert read_expression(text, "number", ENGLISH).value == value


@pytest.mark.spec("019.1")
@pytest.mark.parametrize(
    "text", ["nicht 50", "nicht fünfzig", "pas cinquante", "не пятьдесят", "niemals drei", "50ではない"]
)
def test_a_denial_in_another_language_denies(text: str) -> None:
    read = read_expression(text, "number", ENGLISH)
    assert (read.value, read.understood) == (None, ())


@pytest.mark.parametrize(("text", "value"), [("3 Tage", 3), ("trois jours", 3), ("3 Wochen", None)])
def test_a_unit_in_another_language_is_that_of_the_input(text: str, value: int | None) -> None:
    assert read_expression(text, "integer", ENGLISH, "days").value == value


def test_where_the_language_is_unknown_a_mark_before_three_digits_may_be_either() -> None:
    unknown = ReadingContext()
    assert read_expression("1,500", "number", unknown).understood == (1.5, 1500)
    assert read_expression("1,500", "integer", unknown).value == 1500


@pytest.mark.parametrize(("text", "kind", "found"), FOUND)
def test_values_are_found_in_a_text(text: str, kind: Any, found: set[Any]) -> None:
    assert find_values(text, kind, ENGLISH) == found


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (date(2026, 5, 15), "2026-05-15"),
        (time(14, 30), "14:30:00"),
        (timedelta(hours=1, minutes=30), "PT1H30M"),
        (timedelta(days=3), "P3D"),
        (timedelta(0), "PT0S"),
        (timedelta(hours=-2), "-PT2H"),
        (50, 50),
    ],
)
def test_values_have_a_form_in_json(value: Any, form: Any) -> None:
    assert json_form(value) == form


@pytest.mark.parametrize(
    ("type_", "schema", "kind"),
    [
        ("integer", {}, "integer"),
        ("string", {"format": "date-time"}, "datetime"),
        ("string", {}, None),
        ("integer", {"enum": [1]}, None),
    ],
)
def test_a_schema_has_a_kind(type_: str, schema: Any, kind: Any) -> None:
    assert kind_of(type_, schema) == kind


def test_denials_and_empty_words_are_known_by_language() -> None:
    german = ReadingContext(language="de")
    assert has_denial("nicht am Freitag", german)
    assert not has_denial("am Freitag", german)
    assert says_nothing("bitte", german)
    assert not says_nothing("Hund", german)


@given(text=st.text(max_size=60), kind=st.sampled_from(KINDS), language=st.sampled_from(["", "en", "de", "ja", "ru"]))
def test_any_text_is_read_or_asked_about(text: str, kind: Any, language: str) -> None:
    read = read_expression(text, kind, ReadingContext(language=language, today=ENGLISH.today, zone=ENGLISH.zone))
    assert read.value is None or read.understood == ()


@given(number=st.integers(-(10**9), 10**9), language=st.sampled_from(["en", "de", "es", "fr", "it", "ru", "ja"]))
def test_digits_are_their_number_in_every_language(number: int, language: str) -> None:
    assert read_expression(str(number), "integer", ReadingContext(language=language)).value == number


@given(day=st.dates(date(2026, 1, 1), date(2027, 12, 31)))
def test_a_day_reads_back_from_iso_and_from_words(day: date) -> None:
    assert read_expression(day.isoformat(), "date", ENGLISH).value == day
    assert read_expression(f"{day:%A}, {day.day} {day:%B %Y}", "date", ENGLISH).value == day


def test_the_import_of_the_package_loads_no_library_of_values() -> None:
    code = (
        "import sys, jazz_select, jazz_select.agent; print([n for n in sys.modules if n in ('babel', 'text_to_num')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
