"""A model's text that refers to results of the calls beside it, as "The code is {s1#/code}.": filled once they ran.

An amount in a field like `total_cents` is told as people write it: 12.90. So is a date: 16 June 2025.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Final

from jazz_select.agent.chain.transcript import ToolResult
from jazz_select.days import month_in_words
from jazz_select.routing.plans.plan import look_up, pointer_problem
from jazz_select.text import as_text, number_text
from jazz_select.texts import current_language, say

_REFERENCE: Final = re.compile(r"\{([^{}#\s]{1,100})#((?:/[^{}\s]{0,200})?)\}")
_CENTS: Final = re.compile(r"[/_]cents$")
_SAYS_CENTS: Final = re.compile(r"\s*(?:¢|c[eé]nt)", re.IGNORECASE)
"""What follows a number of cents that is told as one."""
_ISO_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_LONGEST: Final = 300
"""Most characters of a value in a text; what is longer is for the model to put into words."""


def refers_to_results(text: str) -> bool:
    """Whether a text has a reference in it."""
    return _REFERENCE.search(text) is not None


def text_with_results(text: str, results: Iterable[ToolResult]) -> str:
    """Return the text with the values that its references lead to, or "" if one leads to none that can be told.

    A text or a number can be told. What is empty, a list, an object or very long is not, nor what a failed call was to
    return.
    """
    outputs = {result.id: result.output for result in results if result.ok}
    parts: list[str] = []
    end = 0
    for reference in _REFERENCE.finditer(text):
        step, pointer = reference.groups()
        if step not in outputs or pointer_problem(pointer):
            return ""
        value = look_up(outputs[step], pointer)
        in_words = _in_words(value, pointer, is_amount=not _SAYS_CENTS.match(text, reference.end()))
        if not in_words:
            return ""
        parts += [text[end : reference.start()], in_words]
        end = reference.end()
    return "".join((*parts, text[end:]))


def with_calls_named(text: str, names: Mapping[str, str]) -> str:
    """Return the text with other ids for these calls in its references, or "" if it refers to any other call."""
    ids = {found.group(1) for found in _REFERENCE.finditer(text)}
    if ids - names.keys():
        return ""
    return _REFERENCE.sub(lambda found: f"{{{names[found.group(1)]}#{found.group(2)}}}", text)


def _in_words(value: Any, pointer: str, *, is_amount: bool) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    if is_amount and isinstance(value, int) and value >= 0 and _CENTS.search(pointer):
        return f"{value // 100}.{value % 100:02}"
    shown = as_text(number_text(value)).strip()
    if _ISO_DAY.fullmatch(shown):
        return _day_in_words(shown)
    if len(shown) > _LONGEST:
        return ""
    return shown


def _day_in_words(text: str) -> str:
    """Return a date of ISO 8601 in the language of the conversation; as it is if the calendar has no such day."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return text
    month = month_in_words(day.month, current_language())
    return say("a_day", day=day.day, month=month, year=day.year)
