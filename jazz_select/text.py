"""Text helpers: describe values and errors safely, suggest misspelt names, shorten texts, and estimate tokens."""

import json
import re
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice
from string import Formatter
from typing import TYPE_CHECKING, TypeVar, cast
from unicodedata import category, combining, normalize

if TYPE_CHECKING:
    from pydantic import ValidationError

T = TypeVar("T")
_LONGEST_ERROR = 500
LONGEST_PROBLEM = 300
"""The most characters of one problem with a value."""
_LONGEST_VALUE = 120
_LONGEST_NAME = 80
_MOST_NAMES = 2_000
"""The most names to compare with, since comparing takes time in proportion to both lengths."""
_MORE_COMPARED = 12
_READ_TIMES = 16
"""How many times its own length of a foreign text is read for a line: blanks and control characters leave few."""
_FORBIDDEN = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
_NEWLINE = re.compile("\r\n?")
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Line breaks and direction controls of any reader, invisible characters, and lone surrogates."""
_SURROGATES = re.compile("[\ud800-\udfff]+")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_EACH_HALF = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
_PIECE = 100_000
LONGEST_NORMALIZED = 50_000
"""A longer text keeps its spelling: to bring one of a million characters into NFKC takes seconds."""
_MOST_MARKS, _SHORT = 30, 1_000
_EXPANDED, _GROWTH = 2, 32
"""A character becomes up to 18 in NFKC. Those that become more than `_EXPANDED` stay as they are in a text that would
grow to more than twice its length and `_GROWTH` characters."""
_MARKED = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1},}}")
"""Possibly more marks on one letter than Unicode allows in a stream. Sorting n of them takes n² steps."""
_PARAMETERS, _BETWEEN = "Parameters: ", "; "
_PARAMETER = re.compile(r"(?:^|(?<=; ))([\w.$-]{1,200})(?=: |; |$)")
_MOST_CAUSES = 3
_LEAST_DESCRIPTION = 12
"""The least characters of a parameter's description that carry information."""
_JOINING = re.compile("[-_]")
_PLAIN_NAME = re.compile(r"\w[\w./:-]{0,199}")
_FORMAT_OF_A_TEXT = re.compile(r"(.?[<>^])?0?\d{0,3}(\.\d{1,3})?s?", re.DOTALL)
_WIDTH = re.compile(r"\d+")
_MOST_PADDED = 10_000
_TOKEN = re.compile(
    r"[A-Za-z]{1,7}(?![A-Za-z])|[A-Za-z]{5}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\sA-Za-z0-9!-/:-@\[-`{-~]"
)
"""A short word, five letters of a long one, three digits, two punctuation marks, or a character of another script."""


def describe_error(error: BaseException) -> str:
    """Return an exception as one line of visible characters, for logs and readers; its type if it has no text.

    Of a group it is what is in it, since a group says only how many it holds.
    """
    if isinstance(error, BaseExceptionGroup):
        causes = _causes(cast("BaseExceptionGroup[BaseException]", error))
        described = "; ".join(dict.fromkeys(map(describe_error, causes[:_MOST_CAUSES])))
        if len(causes) > _MOST_CAUSES:
            described += f"; and {len(causes) - _MOST_CAUSES} more"
        return described
    try:
        message = _visible_line(str(error), _LONGEST_ERROR)
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        message = ""
    return f"{type(error).__name__}: {message}".removesuffix(": ")


def _visible_line(text: str, limit: int) -> str:
    """Return the beginning of a text as one line without control characters. Cut it first: it may have any length."""

    def in_one(read: str) -> str:
        return " ".join(_BREAKING.sub("", " ".join(read.split())).split())

    return _cleaned_beginning(text, limit, in_one)


def _cleaned_beginning(text: str, limit: int, clean_text: Callable[[str], str]) -> str:
    """Return the beginning of a cleaned text and a mark where it goes on; what is far behind is not even cleaned."""
    read = text[: _READ_TIMES * limit]
    cleaned = clean_text(read)
    is_whole = len(read) == len(text)
    if is_whole or len(cleaned) > limit:
        return beginning(cleaned, limit)
    return f"{cleaned}…"


def _causes(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """Return what is in a group that is no group itself, in order."""
    found: list[BaseException] = []
    waiting: list[BaseException] = [group]
    while waiting:
        each = waiting.pop()
        if isinstance(each, BaseExceptionGroup):
            waiting += reversed(cast("BaseExceptionGroup[BaseException]", each).exceptions)
        else:
            found.append(each)
    return found


def problem_of(error: BaseException) -> str:
    """Return an exception as one problem with a value."""
    return beginning(describe_error(error), LONGEST_PROBLEM)


def one_line(value: object) -> str:
    """Return a value as one line of at most 120 characters."""
    text = f"{value:.3g}" if isinstance(value, float) else as_text(value, _READ_TIMES * _LONGEST_VALUE)
    return beginning(" ".join(text.split()), _LONGEST_VALUE)


def in_log(value: object) -> str:
    """Return an external value for a log line: bounded, without line breaks and control characters."""
    return in_one_line(beginning(as_text(value, _LONGEST_ERROR + 1), _LONGEST_ERROR))


def as_text(value: object, limit: int | None = None) -> str:
    """Return any value as Unicode text, U+FFFD for each lone surrogate; of a long one, the first `limit` characters."""
    try:
        return whole_characters(str(value)[:limit])
    except Exception:  # noqa: BLE001 - too deep, too large, or its own text fails
        return type(value).__name__


def whole_characters(text: str) -> str:
    """Return `text` with both halves of a surrogate pair joined, and each lone half replaced by U+FFFD.

    A client that cuts a string at so many UTF-16 units leaves half of an emoji at its end, which no encoding can hold.
    """
    return text if text.isascii() else _SURROGATES.sub(_join_surrogates, text)


def _join_surrogates(found: re.Match[str]) -> str:
    halves = found[0]
    if not _PAIR.search(halves):  # a codec that replaces each by itself takes several times as long
        return halves.translate(_EACH_HALF)
    return halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def describe_value(value: object) -> str:
    """Return a value in a few words, with its type, for a message."""
    if value is None:
        return "nothing (None)"
    try:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    except Exception:  # noqa: BLE001 - a number of a million digits, an object whose text fails
        return f"{type(value).__name__} that cannot be written"


def wrong_fields(error: "ValidationError", whole: str) -> list[str]:
    """Return pydantic's errors field by field, without the input."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in found]


def in_one_line(text: str) -> str:
    """Escape line breaks, control characters and lone surrogates as JSON does.

    All foreign text passes this on its way into a prompt, so that it cannot begin a new line for any reader. JSON stays
    valid, since these characters occur only within its strings.
    """
    if not _BREAKING.search(text):
        return text
    # In pieces, between which other threads may run.
    return "".join(text[at : at + _PIECE].translate(_escapes()) for at in range(0, len(text), _PIECE))


@cache
def _escapes() -> dict[int, str]:
    """The JSON escape of each of them, made once because a text may consist of nothing else."""
    every = (*range(0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF, *range(0xD800, 0xE000))
    return {code: json.dumps(chr(code))[1:-1] for code in every if _BREAKING.match(chr(code))}


def json_line(value: object) -> str:
    """Return a value as one line of JSON with other scripts unescaped, in quotes that it cannot close."""
    return in_one_line(json.dumps(value, ensure_ascii=False, default=str))


def name_shown(name: str) -> str:
    """Return a one-word name as it is, and any other as JSON text, so that it cannot pass for its surroundings."""
    return name if _PLAIN_NAME.fullmatch(name) else json_line(name)


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the known names that an unknown one may be a misspelling of, nearest first.

    Args:
        name: The unknown name, of any length.
        known: The known names; only the first 2,000 count, and none longer than 80 characters.
        most: The most names to return.
        cutoff: The least similarity, from 0 to 1.
    """
    from rapidfuzz import fuzz, process

    short = [each for each in islice(known, _MOST_NAMES) if len(each) <= _LONGEST_NAME]
    asked, likeness = name[:_LONGEST_NAME], 100 * cutoff
    # difflib finds what people mean, and takes a millisecond a name; no name that it likes is unlike to rapidfuzz.
    found = process.extract(asked, short, scorer=fuzz.ratio, score_cutoff=likeness, limit=most + _MORE_COMPARED)
    return get_close_matches(asked, [each for each, _, _ in found], n=most, cutoff=cutoff)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean" with the nearest known name, or ""."""
    found = near(name, known)
    if not found:
        return ""
    return f"did you mean {found[0]!r}?"


def misspelt(name: str, known: Iterable[str]) -> str:
    """Return an unknown name, cut, with the known name it may be a misspelling of."""
    shown, suggestion = beginning(name, _LONGEST_NAME), did_you_mean(name, known)
    return f"{shown} ({suggestion})" if suggestion else shown


def unknown_field(name: str, known: Sequence[str], *, of: str) -> str:
    """Return the message for an unknown field."""
    advice = did_you_mean(name, known) or f"there are {', '.join(known)}"
    return f"is no field of a {of}; {advice}"


def in_words(name: str) -> str:
    """Return a name as people write it: `next_day` is "next day"."""
    return " ".join(_JOINING.sub(" ", name).split())


def number_text(value: object) -> str:
    """Return a value as people write it: 50.0 is "50"."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def titled(name: str) -> str:
    """Return a title made of a name: `refund_order` is "Refund order"."""
    words = in_words(name) or name
    return words[:1].upper() + words[1:]


def clean(text: str) -> str:
    """Return `text` with Unix line ends and without the characters that XML 1.0 forbids."""
    return _FORBIDDEN.sub("", _NEWLINE.sub("\n", text))


def clean_beginning(text: str, limit: int) -> str:
    """Return the first `limit` characters of a `clean` text and a mark; cut it before, as it may have any length."""
    return _cleaned_beginning(text, limit, clean)


def word_list(listed: str) -> frozenset[str]:
    """Return the words of a list, casefolded."""
    return frozenset(normalize("NFKC", listed).split())


def nfkc(text: str) -> str:
    """Return `text` in NFKC form, in time that its length bounds.

    In a long text, drop marks beyond the thirtieth on one letter. Characters stay as they are where so many of them
    become several that the text would more than double, and all do in a text of more than `LONGEST_NORMALIZED`.
    """
    if text.isascii():
        return text
    if len(text) > _SHORT:
        text = _MARKED.sub(_fewer_marks, text)
    if len(text) > LONGEST_NORMALIZED:
        return text
    longer: list[str] = []
    growth = 0
    for char in set(text):
        length = len(normalize("NFKC", char))
        if length > _EXPANDED:
            longer.append(char)
            growth += (length - 1) * text.count(char)
    if growth <= len(text) + _GROWTH:
        return normalize("NFKC", text)
    pieces = re.split(f"([{re.escape(''.join(longer))}]+)", text)
    pieces[::2] = [normalize("NFKC", piece) for piece in pieces[::2]]
    return "".join(pieces)


def nfc(text: str) -> str:
    """Return `text` in NFC form, in which one name has one spelling; marks beyond the thirtieth as in `nfkc`."""
    if text.isascii():
        return text
    if len(text) > _SHORT:
        text = _MARKED.sub(_fewer_marks, text)
    return normalize("NFC", text)


def is_of_word(letter: str) -> bool:
    """Whether a character belongs to a word: a letter, a number, or a mark on one, as the vowels of many scripts are.

    Neither `re` nor `isalnum` knows marks. Those that only choose how a symbol is drawn belong to no word.
    """
    return letter.isalnum() or (category(letter)[0] == "M" and not _DRAWN_FIRST <= letter <= _DRAWN_LAST)


_DRAWN_FIRST, _DRAWN_LAST = "\ufe00", "\ufe0f"


def _fewer_marks(found: re.Match[str]) -> str:
    if not any(map(combining, set(found[0]))):
        return found[0]
    kept: list[str] = []
    marks = 0
    for char in found[0]:
        marks = marks + 1 if combining(char) else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return "".join(kept)


def template_fields(template: str, of: str = "value") -> list[str]:
    """Return the names in braces of a template filled with texts (of what kind, `of` says), in order.

    Raises:
        ValueError: The braces do not match, a field has no plain name, or it formats its value by more than a width: a
            width of a billion in a line of YAML is a gigabyte at the call.
    """
    names: list[str] = []
    widths = 0
    for _, name, spec, conversion in Formatter().parse(template):
        if name is None:
            continue
        shown = beginning(name, _LONGEST_NAME)
        if not name or name.isdecimal():
            problem = f"has braces without the name of a {of} in them"
            raise ValueError(f"{problem}; name one, or write the braces twice: {{{{}}}}")
        if any(mark in name for mark in ".[]{"):
            raise ValueError(f"asks for a part of a {of}, {{{shown}}}; {of}s are texts: name one by itself")
        if conversion not in {None, "s", "r", "a"} or not _FORMAT_OF_A_TEXT.fullmatch(spec or ""):
            raise ValueError(f"formats {{{shown}}} in a way that texts do not have; write the name alone")
        names.append(name)
        widths += max(map(int, _WIDTH.findall(spec or "")), default=0)
    if widths > _MOST_PADDED:
        raise ValueError(f"must widen its fields to at most {_MOST_PADDED} characters together, got {widths}")
    return names


def fill_fields(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its fields replaced by texts.

    Raises:
        ValueError: As of `template_fields`.
        KeyError: A field has no value.
    """
    template_fields(template)
    return template.format_map(values)


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens, rather too high than too low."""
    return len(_TOKEN.findall(text))


def tokens_in(text: str) -> tuple[str, ...]:
    """Return the pieces that `estimate_tokens` counts."""
    return tuple(_TOKEN.findall(text))


def count_of(count: int, what: str) -> str:
    """Return a count with its noun: "1 flow", "2 flows"."""
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def some_of(names: Collection[T], most: int, shown: Callable[[T], str] = str) -> str:
    """Return the first `most` names, each as it is `shown`, and how many more there are."""
    listed = ", ".join(map(shown, islice(names, most)))
    more = len(names) - most
    return f"{listed} and {more} more" if more > 0 else listed


def beginning(text: str, limit: int) -> str:
    """Return `text`, or its first `limit` characters and a mark."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def join_sentences(*texts: str) -> str:
    """Return the texts that are not empty, a space between two."""
    return " ".join(text for text in texts if text)


def join_paragraphs(*texts: str) -> str:
    """Return the texts that are not empty, a blank line between two."""
    return "\n\n".join(text for text in texts if text)


def cut(text: str, limit: int) -> str:
    """Return `text`, or `limit` characters of its beginning and end around a mark that says how many were left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} [… {len(text) - limit} characters cut …] {text[len(text) - tail :]}"


def at_word(text: str, limit: int) -> str:
    """Return `text`, or its first words within `limit` characters and a mark; cut a single long word."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    words, space, _ = head.rpartition(" ")
    return f"{(words if space else head[:limit]).rstrip(' ,;:.')} […]"


def with_parameters(about: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return a tool's description with its parameters and their descriptions."""
    if not parameters:
        return about
    listed = "; ".join(f"{name}: {description}" if description else name for name, description in parameters)
    return join_sentences(about, f"{_PARAMETERS}{listed}" if listed else "")


def at_word_with_parameters(text: str, limit: int) -> str:
    """Like `at_word`, but keep the parameter names of a text made by `with_parameters`, since they may decide.

    Shorten the parameters' descriptions first, the longest of all first, then the tool's.
    """
    if len(text) <= limit:
        return text
    about, mark, listed = text.rpartition(_PARAMETERS)
    spans = [each.span(1) for each in islice(_PARAMETER.finditer(listed), limit)] if mark else []
    if not spans or spans[0][0]:
        return at_word(text, limit)
    names = [listed[start:end] for start, end in spans]
    ends = [*(start - len(_BETWEEN) for start, _ in spans[1:]), len(listed)]
    descriptions: list[str] = []
    for (_, name_end), end in zip(spans, ends, strict=True):
        descriptions.append(listed[name_end:end].removeprefix(":").strip())
    bare = with_parameters("", [(name, "") for name in names])
    room = limit - len(about) - len(bare)
    if room <= 0:
        return f"{at_word(about.strip(), max(limit - len(bare), limit // 4))} {at_word(bare, limit)}"
    each = room // len(names) - len(": […] ")
    kept = [at_word(text, each) if each >= _LEAST_DESCRIPTION else "" for text in descriptions]
    return with_parameters(about.strip(), list(zip(names, kept, strict=True)))


def shortened(
    text: str, limit: int, what: str, notes: list[str], *, by: Callable[[str, int], str] | None = None
) -> str:
    """Return `cut`, or the text shortened `by` another function, and add a note if it changed."""
    if len(text) > limit:
        notes.append(f"{what} was cut from {len(text)} to {limit} characters in the prompt")
    return (by or cut)(text, limit)


def at_most(texts: Sequence[str], limit: int, what: str, notes: list[str]) -> Sequence[str]:
    """Return the first `limit` texts and a mark for the rest, and add a note if there is a rest."""
    if len(texts) <= limit:
        return texts
    notes.append(f"{what}: {len(texts) - limit} of {len(texts)} entries were left out of the prompt")
    return [*texts[:limit], f"[… {len(texts) - limit} more …]"]
