"""Corrections as a log of outcomes has them, sorted out: what can be learned from, and what cannot and why."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from jazz_select.evaluation.lessons.overlay import spelled, storable
from jazz_select.outcomes.file import Logged

LONGEST: Final = 500
"""Characters of a request that can be an example: a longer one says many things."""
_SHARES: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a person said was right for a request; it may be what was chosen.

    Attributes:
        request: The text.
        right: Names of flows, in their order; none where nothing fits.
        first: The flow that recall put first at the time; empty where there was none.
        ids: Of the log's entries that say so.
    """

    request: str
    right: tuple[str, ...]
    first: str = ""
    ids: tuple[str, ...] = ()

    @property
    def is_held(self) -> bool:
        """Whether no example can be made of it: it is for several flows, for none, or too long."""
        has_words = any(letter.isalpha() for letter in self.request)
        return len(self.right) != 1 or len(self.request) > LONGEST or not has_words

    @property
    def flow(self) -> str:
        """The flow that was right, where it is one."""
        return self.right[0] if len(self.right) == 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A correction, or a part of what would have been learned, that was left out, and why."""

    request: str
    right: tuple[str, ...]
    why: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The corrections of a log.

    Attributes:
        corrections: One for each text: what was said last.
        refused: Those that cannot be used, and earlier ones that a later one contradicts.
        suggested: What an agent gathered of requests that no person corrected: for a person to look at.
    """

    corrections: tuple[Correction, ...] = ()
    refused: tuple[Refused, ...] = ()
    suggested: tuple[Correction, ...] = ()


def gathered(entries: Iterable[Logged], names: Collection[str]) -> Gathered:
    """Sort out what a log says was right.

    Args:
        entries: As `OutcomeLog.read` gives them, the oldest first.
        names: Of the flows that there are.
    """
    found: dict[str, Correction] = {}
    hints: dict[str, Correction] = {}
    refused: list[Refused] = []
    known = frozenset(names)
    for entry in entries:
        if entry.right is None:
            continue
        one = Correction(request=storable(entry.request), right=entry.right, first=entry.first, ids=(entry.id,))
        why = _why_not(entry, known)
        if why:
            refused.append(Refused(request=one.request, right=one.right, why=why, ids=one.ids))
            continue
        text = spelled(one.request)
        kept = found if entry.source == "user" else hints
        earlier = kept.get(text)
        if earlier is not None and set(earlier.right) == set(one.right):
            kept[text] = replace(earlier, ids=(*earlier.ids, entry.id))
            continue
        if earlier is not None and kept is found:
            why = f"a later one says {' and '.join(one.right) or 'that nothing fits'}"
            refused.append(Refused(request=earlier.request, right=earlier.right, why=why, ids=earlier.ids))
        kept[text] = one
    suggested = tuple(each for text, each in hints.items() if text not in found)
    return Gathered(corrections=tuple(found.values()), refused=tuple(refused), suggested=suggested)


def is_kept_apart(text: str, share: float) -> bool:
    """Whether a request is judged by and not learned from: the same answer for the same words, always."""
    digest = hashlib.sha256(spelled(text).encode(errors="replace")).digest()
    return int.from_bytes(digest[:4], "big") < share * _SHARES


def _why_not(entry: Logged, known: Collection[str]) -> str:
    gone = [name for name in entry.right or () if name not in known]
    if gone:
        return f"there is no flow {gone[0]!r}"
    if not entry.request.strip():
        return "its text was not kept"
    if not entry.alone:
        return "it needs what was said before"
    return ""
