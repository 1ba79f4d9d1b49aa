"""What is asked of recall: a request taken apart into what is looked up for it, and whose flows it is asked of."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from jazz_select.errors import ConfigError
from jazz_select.memory.denials import DENYING, meant
from jazz_select.memory.encoder import MAX_QUERY_CHARS, Lexical, printable
from jazz_select.memory.fit.model import MOST_SIZED
from jazz_select.values import COVERAGE, LEAST_COVERAGE, MOST_COVERAGE, is_number

_JOINT = re.compile(
    r"(?<=[.!?;。！？；]) ?(?=\S)"
    r"|,? (?:and then|and also|and|then|also|as well as|plus|additionally|after that) "
    r"|(?:，|、)?(?:然后|并且|而且|另外|还有)",
    re.IGNORECASE,
)
"""Of text in which no two blanks stand together: `\\s+` before a word would be tried from each of a thousand blanks."""
_MIN_WORDS = 3
_MIN_LETTERS = 4
"""Where no spaces stand between words, letters are counted instead."""
MAX_CLAUSES = 6
_MAX_COUNT = 1 << 31
_AT_ONCE = 4_000
"""Bytes of UTF-8 that are read where the caller waits: a letter of several takes as many times as long to read."""
_DICTIONARIES = {
    "han": re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"),
    "kana": re.compile("[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d]"),
}
"""The scripts whose words are found with a dictionary, which is loaded for the first letter of it."""


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each ask for something of its own; none where it is all of one piece.

    Cut at the ends of sentences and at words such as "and" or "then". A part that is too short to ask for anything
    joins the next.
    """
    parts = _parts(text)
    return parts if 1 < len(parts) <= MAX_CLAUSES else ()


def is_several(text: str) -> bool:
    """Whether a request has parts that may each ask for something of its own, however many."""
    return len(_parts(text[:MAX_QUERY_CHARS])) > 1


def _parts(text: str) -> tuple[str, ...]:
    parts: list[str] = []
    pending = ""
    for piece in _JOINT.split(" ".join(text.split())):
        pending = f"{pending} {piece.strip()}".strip()
        if _says_something(pending):
            parts.append(pending)
            pending = ""
    if pending and parts:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts)


def _says_something(text: str) -> bool:
    words = text.split()
    return len(words) >= _MIN_WORDS or (not text.isascii() and len(text) >= _MIN_LETTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A query, and the part of it that the user has just said, where the rest is context."""

    query: str
    focus: str = ""
    notes: tuple[str, ...] = ()
    """What of it is not looked for."""

    @property
    def own(self) -> str:
        """What the user has just said."""
        return self.focus or self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedRequest:
    """A request as it is looked up: whole, with what widens it, and in clauses."""

    request: str = ""
    widened: str = ""
    """The request with its context, where there is any."""
    clauses: tuple[str, ...] = ()
    meant: str = ""
    """What is wanted of a request that also says what is not."""
    content_words: int = 0
    hollow: float = 0.0
    """How near a request that has a context lies to what means nothing without one."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: Said, *, lexical: Lexical) -> "EncodedRequest":
        """Cleaned, cut where it is endless, taken apart where it asks for several things."""
        query, focus, notes = said.query, said.focus, said.notes
        if len(query) > MAX_QUERY_CHARS:
            notes = (*notes, f"recall read the first {MAX_QUERY_CHARS} of {len(query)} characters")
        widened = printable(query[:MAX_QUERY_CHARS])
        request = printable(focus[:MAX_QUERY_CHARS]) or widened
        return cls(
            request=request,
            widened=widened if widened != request else "",
            clauses=clauses(request) if request else (),
            meant=meant(request) if DENYING.search(request) else "",
            content_words=lexical.content_words(request) if widened != request else 0,
            notes=notes,
        )

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is looked up: the request, its clauses, what is meant of it, and last the widened request."""
        if not self.request:
            return ()
        return (self.request, *self.clauses, *(each for each in (self.meant, self.widened) if each))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallScope:
    """Whose flows, and how many."""

    agent_id: str
    top_k: int
    rrf_k: int
    exclude: tuple[str, ...]
    coverage: float | None = None
    """Of the `top_k` no more than hold the right flow with this probability; None: all of them."""

    @classmethod
    def of(
        cls,
        agent_id: str,
        top_k: int | Literal["auto"],
        rrf_k: int,
        exclude: Collection[str],
        coverage: float = COVERAGE,
    ) -> "RecallScope":
        """These, where they can work.

        Raises:
            ConfigError: A count is no whole number of at least 1, or `coverage` is no probability that can be held.
        """
        check_texts(tuple(exclude), "an id in exclude")
        auto = isinstance(top_k, str) and top_k == "auto"
        count: Any = MOST_SIZED if auto else top_k
        for name, value, other in (("top_k", count, ', or "auto"'), ("rrf_k", rrf_k, "")):
            if not (is_number(value) and 1 <= value < _MAX_COUNT and value == int(value)):
                msg = f"{name} must be a whole number of at least 1{other}, not {value!r:.80}"
                raise ConfigError(msg)
        if not is_number(coverage) or not LEAST_COVERAGE <= coverage <= MOST_COVERAGE:
            bounds = f"{LEAST_COVERAGE:g} to {MOST_COVERAGE:g}"
            msg = f"coverage must be a number from {bounds}, such as .98, not {coverage!r:.80}"
            raise ConfigError(msg)
        return cls(
            agent_id=agent_id,
            top_k=int(count),
            rrf_k=int(rrf_k),
            exclude=tuple(exclude),
            coverage=float(coverage) if auto else None,
        )


def check_texts(texts: Sequence[object], what: str = "a query, and the focus of one,") -> None:
    """Refuse what is no text.

    Raises:
        ConfigError: One of them is something else.
    """
    wrong = [each for each in texts if not isinstance(each, str)]
    if wrong:
        msg = f"{what} is a string, not {wrong[0]!r:.80}"
        raise ConfigError(msg)


class Pace:
    """Tells what would hold up others: much to read, or the first text that a dictionary has to be loaded for."""

    def __init__(self) -> None:
        self._unread = dict(_DICTIONARIES)

    def ahead(self, texts: Iterable[str]) -> "Ahead":
        """What there is to read in these; say so with `read` once they were."""
        size, scripts = 0, set[str]()
        for text in texts:
            read = text[:MAX_QUERY_CHARS]
            if read.isascii():
                size += len(read)
                continue
            size += len(read.encode(errors="surrogatepass"))
            scripts.update(script for script, letter in self._unread.items() if letter.search(read))
        return Ahead(bool(scripts) or size > _AT_ONCE, scripts)

    def read(self, done: "Ahead") -> None:
        """Dictionaries that were needed for it are loaded now."""
        for script in done.scripts:
            self._unread.pop(script, None)


class Ahead(NamedTuple):
    """What there is to read in some texts."""

    takes_long: bool
    scripts: set[str]
    """Those that a dictionary has to be loaded for."""
