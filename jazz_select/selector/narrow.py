"""The first stage: from what was found to what is left to choose from. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jazz_select.text import clean
from jazz_select.values import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a user wants, and what was said before."""

    query: str
    summaries: tuple[str, ...] = ()

    @classmethod
    def of(cls, query: str, summaries: Sequence[str] | None) -> "Request":
        """The request with the summaries that say something; a lone string is one summary."""
        given = (summaries,) if isinstance(summaries, str) else summaries or ()
        return cls(query=query, summaries=tuple(summary for summary in given if not _blank(summary)))

    @property
    def blank(self) -> bool:
        """True where nothing is asked, now or before."""
        return _blank(self.query) and not self.summaries

    @property
    def text(self) -> str:
        """What recall looks for: the query, with the summaries appended so that "help with that" finds its "that"."""
        return f"{self.query} {' '.join(self.summaries)}" if self.summaries else self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrowed:
    """What is left to choose from, best first: as it was received, and as values."""

    metadata: tuple[Mapping[str, Any], ...] = ()
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    in_scope: float | None = None
    """P(some flow is right), where recall knows it."""
    caveat: str = ""
    """Why recall does not know how sure it is."""


def narrow(
    found: Iterable[Mapping[str, Any]], *, closed: Collection[str] = (), notes: tuple[str, ...] = ()
) -> Narrowed:
    """The candidates among `found` that can be chosen: once each, with an id or a name, and not `closed`."""
    kept: dict[str, tuple[Mapping[str, Any], Candidate]] = {}
    unusable = 0
    for metadata in found:
        candidate = _candidate(metadata)
        if candidate is None:
            unusable += 1
        elif candidate.flow_id not in closed:
            kept.setdefault(candidate.flow_id, (metadata, candidate))
    if unusable:
        notes = (*notes, f"{unusable} candidates without a usable id or name were left out")
    return Narrowed(
        metadata=tuple(metadata for metadata, _ in kept.values()),
        candidates=tuple(candidate for _, candidate in kept.values()),
        notes=notes,
        in_scope=getattr(found, "in_scope", None),
        caveat=getattr(found, "caveat", ""),
    )


def _candidate(metadata: object) -> Candidate | None:
    """Metadata may come from anywhere; what cannot be read cannot be offered."""
    if not isinstance(metadata, Mapping):
        return None
    try:
        candidate = Candidate.from_metadata(metadata)  # pyright: ignore[reportUnknownArgumentType]
    except (ArithmeticError, ValueError):  # numbers that are none
        return None
    return candidate if not _blank(candidate.flow_id) else None


def _blank(text: str) -> bool:
    return not clean(text).strip()
