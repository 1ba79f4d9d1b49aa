"""Texts: of values, errors and names misspelt, safe to write; made shorter so that one sees it; counted in tokens."""

import json
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING
from unicodedata import combining, normalize

if TYPE_CHECKING:
    from pydantic import ValidationError

_LONGEST_ERROR = 500
LONGEST_PROBLEM = 300
"""Characters of one thing that is wrong with a value."""
_LONGEST_VALUE = 120
_LONGEST_NAME = 80
_MOST_NAMES = 2_000
"""With how many names one is compared, and how long they may be: comparing takes the time of both lengths."""
_FORBIDDEN = re.compile("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NEWLINE = re.compile("\r\n?")
_BREAKING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""What ends a line for some reader or turns its direction, what cannot be seen, and halves of surrogate pairs."""
_PIECE = 100_000
_MOST_MARKS, _SHORT = 30, 1_000
_MARKED = re.compile(rf"[^\w\s\x00-\x7f]{{{_MOST_MARKS + 1},}}")
"""Where there may be more marks on one letter than Unicode allows in a stream: bringing n of them into order takes
n times n steps."""
_PARAMETERS, _BETWEEN = "Parameters: ", "; "
_PARAMETER = re.compile(r"(?:^|(?<=; ))([\w.$-]{1,200})(?=: |; |$)")
_LEAST_SAID = 12
"""Characters below which what is said of a parameter says nothing."""
_JOINING = re.compile("[-_]")
_PLAIN_NAME = re.compile(r"\w[\w./:-]{0,199}")
_TOKEN = re.compile(
    r"[A-Za-z]{1,7}(?![A-Za-z])|[A-Za-z]{5}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\sA-Za-z0-9!-/:-@\[-`{-~]"
)
"""A short word, five letters of a long one, three digits, two punctuation marks, or a character of another script."""


def describe_error(error: BaseException) -> str:
    """An exception in one line that can go to a log and a reader: without what no reader sees, even without a text."""
    try:
        said = " ".join(_BREAKING.sub("", " ".join(str(error).split())).split())
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        said = ""
    return f"{type(error).__name__}: {beginning(said, _LONGEST_ERROR)}".removesuffix(": ")


def problem_of(error: BaseException) -> str:
    """An exception as one thing that is wrong with a value."""
    return beginning(describe_error(error), LONGEST_PROBLEM)


def one_line(value: object) -> str:
    """A value as at most 120 characters in one line."""
    text = f"{value:.3g}" if isinstance(value, float) else " ".join(as_text(value).split())
    return beginning(text, _LONGEST_VALUE)


def in_log(value: object) -> str:
    """A value from outside as a part of a log's line: bounded, and nothing in it ends the line or moves a cursor."""
    return in_one_line(beginning(as_text(value), _LONGEST_ERROR))


def as_text(value: object) -> str:
    """A value as text in Unicode, without halves of surrogate pairs, whatever it is."""
    try:
        return str(value).encode(errors="replace").decode()
    except Exception:  # noqa: BLE001 - too deep, too large, or its own text fails
        return type(value).__name__


def describe_value(value: object) -> str:
    """A value in a few words, with its type, for a message."""
    if value is None:
        return "nothing (None)"
    try:
        return f"{type(value).__name__} {reprlib.repr(value)}"
    except Exception:  # noqa: BLE001 - a number of a million digits, an object whose text fails
        return f"{type(value).__name__} that cannot be written"


def wrong_fields(error: "ValidationError", whole: str) -> list[str]:
    """What pydantic found, field by field: where, and what is wrong there; nothing of what stood there."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{'.'.join(map(str, each['loc'])) or whole}: {each['msg']}" for each in found]


def in_one_line(text: str) -> str:
    """`text` with every line break, control character and half of a surrogate pair escaped as JSON escapes it.

    All foreign text goes through this on its way into a prompt: no line of it can begin another, whatever a reader
    takes for the end of a line. JSON stays JSON, since such characters can only stand within its texts.
    """
    if not _BREAKING.search(text):
        return text
    # In pieces, between which other threads may run.
    return "".join(text[at : at + _PIECE].translate(_escapes()) for at in range(0, len(text), _PIECE))


@cache
def _escapes() -> dict[int, str]:
    """What each of them is in JSON: a text may be made of nothing else."""
    every = (*range(0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF, *range(0xD800, 0xE000))
    return {code: json.dumps(chr(code))[1:-1] for code in every if _BREAKING.match(chr(code))}


def json_line(value: object) -> str:
    """A value as JSON in one line, other scripts as they are: a text comes out in quotes that it cannot close."""
    return in_one_line(json.dumps(value, ensure_ascii=False, default=str))


def name_shown(name: str) -> str:
    """A name as it is where it is one word; else as a JSON text, so that it cannot pass for what stands around it."""
    return name if _PLAIN_NAME.fullmatch(name) else json_line(name)


def near(name: str, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that one which is not among them may be misspelt from, nearest first.

    Args:
        name: What somebody wrote, of any length.
        known: What there is; of many the first 2,000 are looked at, and none that is longer than 80 characters.
        most: How many at most.
        cutoff: How alike they have to be, from 0 to 1.
    """
    short = [each for each in islice(known, _MOST_NAMES) if len(each) <= _LONGEST_NAME]
    return get_close_matches(name[:_LONGEST_NAME], short, n=most, cutoff=cutoff)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether the nearest of the names that are known was meant; empty where none is near."""
    found = near(name, known)
    return f"did you mean {found[0]!r}?" if found else ""


def misspelt(name: str, known: Iterable[str]) -> str:
    """A name that is not among those that are known, cut, with the one that it may be misspelt from."""
    asked = did_you_mean(name, known)
    return f"{beginning(name, _LONGEST_NAME)}{f' ({asked})' if asked else ''}"


def unknown_field(name: str, known: Sequence[str], *, of: str) -> str:
    """What to say of a field that nothing of this kind has."""
    return f"is no field of a {of}; {did_you_mean(name, known) or 'there are ' + ', '.join(known)}"


def in_words(name: str) -> str:
    """A name as people write it: `next_day` is "next day"."""
    return " ".join(_JOINING.sub(" ", name).split())


def written(value: object) -> str:
    """A value as people write it: 50.0 is "50"."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def titled(name: str) -> str:
    """The title of what has none but its name: `refund_order` is "Refund order"."""
    words = in_words(name) or name
    return words[:1].upper() + words[1:]


def clean(text: str) -> str:
    """`text` with Unix line ends and without the characters that XML 1.0 forbids."""
    return _FORBIDDEN.sub("", _NEWLINE.sub("\n", text))


def word_list(listed: str) -> frozenset[str]:
    """The words of a list, in one form of each letter."""
    return frozenset(normalize("NFKC", listed).split())


def nfkc(text: str) -> str:
    """`text` in Unicode's form NFKC; in a long one, marks beyond the thirtieth on one letter are left out."""
    if text.isascii():
        return text
    return normalize("NFKC", text if len(text) <= _SHORT else _MARKED.sub(_fewer_marks, text))


def _fewer_marks(found: re.Match[str]) -> str:
    kept: list[str] = []
    marks = 0
    for char in found[0]:
        marks = marks + 1 if combining(char) else 0
        if marks <= _MOST_MARKS:
            kept.append(char)
    return "".join(kept)


def estimate_tokens(text: str) -> int:
    """About how many tokens, rather a few too many than too few."""
    return len(_TOKEN.findall(text))


def tokens_in(text: str) -> tuple[str, ...]:
    """The pieces that `estimate_tokens` counts."""
    return tuple(_TOKEN.findall(text))


def counted(count: int, what: str) -> str:
    """So many of them, in words: "1 flow", "2 flows"."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def beginning(text: str, limit: int) -> str:
    """`text`, or its first `limit` characters and a mark."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def cut(text: str, limit: int) -> str:
    """`text`, or `limit` characters of its beginning and end around a mark that says how many were left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} [… {len(text) - limit} characters cut …] {text[len(text) - tail :]}"


def at_word(text: str, limit: int) -> str:
    """`text`, or its first words within `limit` characters and a mark; a single long word is cut where it must be."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    words, space, _ = head.rpartition(" ")
    return f"{(words if space else head[:limit]).rstrip(' ,;:.')} […]"


def with_parameters(about: str, parameters: Sequence[tuple[str, str]]) -> str:
    """What a tool does, and what it takes: names with what is said of them."""
    told = "; ".join(f"{name}: {said}" if said else name for name, said in parameters)
    return " ".join(part for part in (about, f"{_PARAMETERS}{told}" if told else "") if part)


def at_word_with_parameters(text: str, limit: int) -> str:
    """`at_word`, of a text that may be made `with_parameters`: their names stay, since one of them may decide.

    What is said of the parameters gives way first, the longest of it, then what stands before them.
    """
    if len(text) <= limit:
        return text
    about, mark, told = text.rpartition(_PARAMETERS)
    starts = [(each.start(1), each.end(1)) for each in islice(_PARAMETER.finditer(told), limit)] if mark else []
    if not starts or starts[0][0]:
        return at_word(text, limit)
    ends = [*(start - len(_BETWEEN) for start, _ in starts[1:]), len(told)]
    names = [told[start:end] for start, end in starts]
    said = [told[name_end:end].removeprefix(":").strip() for (_, name_end), end in zip(starts, ends, strict=True)]
    bare = with_parameters("", [(name, "") for name in names])
    room = limit - len(about) - len(bare)
    if room <= 0:
        return f"{at_word(about.strip(), max(limit - len(bare), limit // 4))} {at_word(bare, limit)}"
    each = room // len(names) - len(": […] ")
    kept = [at_word(text, each) if each >= _LEAST_SAID else "" for text in said]
    return with_parameters(about.strip(), list(zip(names, kept, strict=True)))


def shortened(
    text: str, limit: int, what: str, notes: list[str], *, by: Callable[[str, int], str] | None = None
) -> str:
    """`cut`, or shortened `by` another way, with a note where something was."""
    if len(text) > limit:
        notes.append(f"{what} was cut from {len(text)} to {limit} characters in the prompt")
    return (by or cut)(text, limit)


def at_most(texts: Sequence[str], limit: int, what: str, notes: list[str]) -> Sequence[str]:
    """The first `limit` texts and a mark for the others, with a note where there are any."""
    if len(texts) <= limit:
        return texts
    notes.append(f"{what}: {len(texts) - limit} of {len(texts)} entries were left out of the prompt")
    return [*texts[:limit], f"[… {len(texts) - limit} more …]"]
