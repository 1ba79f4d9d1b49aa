"""A model's text that refers to results of the calls beside it, as "The code is {s1#/code}.": filled once they ran."""

import re
from collections.abc import Iterable
from typing import Any, Final

from jazz_select.agent.chain.transcript import ToolResult
from jazz_select.routing.plans.plan import look_up, malformed
from jazz_select.text import as_text, written

_REFERENCE: Final = re.compile(r"\{([^{}#\s]{1,100})#((?:/[^{}\s]{0,200})?)\}")
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
    outputs = {each.id: each.output for each in results if each.ok}
    parts: list[str] = []
    end = 0
    for found in _REFERENCE.finditer(text):
        step, pointer = found.groups()
        value = _value_in_words(look_up(outputs[step], pointer)) if step in outputs and not malformed(pointer) else ""
        if not value:
            return ""
        parts += [text[end : found.start()], value]
        end = found.end()
    return "".join((*parts, text[end:]))


def _value_in_words(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    shown = as_text(written(value)).strip()
    return shown if len(shown) <= _LONGEST else ""
