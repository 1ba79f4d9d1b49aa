"""What a person is asked before a call is made, the same at every door. What cannot be shown is not asked."""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, cast
from unicodedata import category

from jazz_select.days import in_full
from jazz_select.json_values import DEEPEST, exactly, is_object
from jazz_select.text import describe_error, in_one_line, in_words, json_line
from jazz_select.texts import current_language, say

Before = Literal["", "done", "unknown"]
"""What became of the same call before: nothing, or it was done, or it failed and may have been."""
LONGEST_ARGUMENT: Final = 2_000
LONGEST_WORDS: Final = 2_000
LONGEST_TOGETHER: Final = 6_000
"""Characters of an argument, of what a tool says by itself, and of all arguments, that a person is shown."""
_SENTENCES: Final = {"": "next", "done": "once_more", "unknown": "tried_again"}
"""The sentence by which a call is asked about, by what became of the same call before."""
_WORD: Final = re.compile(r"[\w@.+:/-]{1,100}")
_NAME: Final = re.compile(r"[\w ./@$-]{1,100}")
_UNSEEN: Final = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are no format characters by their category and show nothing all the same."""
_SELECTORS: Final = frozenset((*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)))
"""Variants of a character: a text may be hidden in a row of them."""
JOINERS: Final = "\u200c\u200d"
"""Scripts need them between letters."""


def question(title: str, words: str, arguments: Mapping[str, Any], *, before: Before = "", about: str = "") -> str:
    """Return the question for the user: what a call would do, and what is known of it.

    `words` say what the call would do (`Tool.confirm`), if anything does; `about` are further sentences, safe to show.
    """
    sentences = [say(_SENTENCES[before], call=describe_call(title, words, arguments)), about, say("yes_or_no")]
    return in_one_line(" ".join(filter(None, sentences)))


def question_together(calls: Sequence[tuple[Before, str]], *, about: str = "") -> str:
    """Return the question about several calls at once, to which a yes is one to all of them.

    Each call comes with what became of the same call before, and as `described`; `about` is as of `question`.
    """
    numbered = [(before, f"{number}. {call}") for number, (before, call) in enumerate(calls, 1)]
    sentences: list[str] = []
    # One sentence for all neighbours with the same past; the calls keep their order, which is that of the numbers.
    for before, group in groupby(numbered, key=itemgetter(0)):
        sentences.append(say(_SENTENCES[before], call="; ".join(call for _, call in group)))
    sentences += [about, say("yes_to_all")]
    return in_one_line(" ".join(filter(None, sentences)))


def describe_call(title: str, words: str, arguments: Mapping[str, Any]) -> str:
    """Describe a call: its title, what it would do in the tool's words, and its arguments if there is room."""
    described = escape_invisible(title)
    if words:
        described += f": {escape_invisible(' '.join(words.split()))}"
        if _too_long(arguments):  # the tool's own words say what would happen
            return described
    shown = ", ".join(f"{_name_in_words(name)}: {_show_value(value)}" for name, value in arguments.items())
    return f"{described} ({shown})" if shown else described


def display_problem(words: str, arguments: Mapping[str, Any]) -> str:
    """Say why a call cannot be shown to a person in full, and so cannot be asked about; empty if it can."""
    if len(words) > LONGEST_WORDS:
        return f"what its `confirm` says has {len(words)} characters, and at most {LONGEST_WORDS} can be shown"
    if _is_too_deep(arguments):
        return f"its arguments are nested deeper than {DEEPEST} levels"
    try:
        problem = _too_long(arguments)
    except (ValueError, RecursionError, TypeError) as error:
        return f"its arguments are no JSON: {describe_error(error)}"
    if problem and not words:
        return f"{problem}; a `confirm` of the tool can say in words what it would do"
    return ""


def escape_invisible(text: str) -> str:
    """Put a text on one line, and escape invisible characters as JSON does."""
    text = in_one_line(text)
    if text.isascii():
        return text
    escaped: list[str] = []
    for place, char in enumerate(text):
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        escaped.append(char if _is_seen(char, before, after) else _escape(char))
    return "".join(escaped)


def _is_seen(char: str, before: str, after: str) -> bool:
    if char.isascii():
        return True
    if char in JOINERS:
        return bool(before and after) and not (before.isascii() or after.isascii())
    return is_visible(char)


def is_visible(char: str) -> bool:
    """Tell whether a reader sees a character, or its place."""
    return category(char) not in _UNSEEN and char not in _BLANK and ord(char) not in _SELECTORS


def _escape(char: str) -> str:
    if ord(char) < 0x10000:  # noqa: PLR2004 - the first plane
        return f"\\u{ord(char):04x}"
    return f"\\U{ord(char):08x}"


def _too_long(arguments: Mapping[str, Any]) -> str:
    together = 0
    for name, value in arguments.items():
        length = len(_name_in_words(name)) + len(_show_value(value))
        together += length
        if length > LONGEST_ARGUMENT:
            return f"its argument {name!r:.80} takes {length} characters, and at most {LONGEST_ARGUMENT} can be shown"
    if together > LONGEST_TOGETHER:
        return f"its arguments take {together} characters, and at most {LONGEST_TOGETHER} can be shown"
    return ""


def _is_too_deep(value: object) -> bool:
    level: list[object] = [value]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for each in level:
            if is_object(each):
                inner += each.values()
            elif isinstance(each, list | tuple):
                inner += cast("Sequence[object]", each)
        if not inner:
            return False
        level = inner
    return True


def _name_in_words(name: str) -> str:
    """Return the name of an argument in words, quoted if it could be mistaken for the surrounding text."""
    words = in_words(name)
    return words if _NAME.fullmatch(words) else escape_invisible(json_line(words))


def _show_value(value: object) -> str:
    if isinstance(value, str) and _WORD.fullmatch(value):
        return escape_invisible(in_full(value, current_language()))
    return escape_invisible(json.dumps(value, ensure_ascii=False, allow_nan=False, default=exactly))
