"""Entries of a log of outcomes as values: what was selected, what was said about it, and how both come out of rows.

A row may come from a file that anyone has written, so each value is checked against the kind of its column.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, cast, get_args

import orjson

from jazz_select.json_values import is_array
from jazz_select.serialization import JsonData
from jazz_select.stages import Move, MoveKind
from jazz_select.values import Source, SourceKind

BY_RECALL: Final = Source(kind="recall")


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(JsonData):
    """A request, what was selected for it, and what was right. See `Decision` for `reason` and `tier`.

    Attributes:
        id: Unique, and not to be guessed: whoever knows it may correct the entry, with the key that made it.
        at: Seconds since 1970.
        agent_id: The agent whose flows were selected.
        request: The redacted text.
        alone: Whether the request opened the conversation, so that its text is all that was asked.
        chosen: Names of the chosen flows.
        candidates: Names of the first ten candidates, best first.
        confidences: P(right) of each candidate, "none" included; None where unknown.
        p_none: P(no flow is right); None where unknown.
        asked: Whether a chat model or a decision model was asked.
        sure: Whether recall was sure enough to decide alone, by what a sync learned from a log. If a model was `asked`
            all the same, the entry is an audit.
        model: The model that answered.
        tokens_in: Tokens of its input.
        tokens_out: Tokens of its output.
        took_s: Duration of the selection, in seconds.
        chosen_by: Who chose; its `key` is the one whose request it was.
        right: Names of the right flows, by the correction that counts; None without one, and where it was taken back.
        corrected_by: Who made the correction, or took it back; None without one.
        note: Redacted note of the correction.
        corrected_at: When it was made, in seconds since 1970; None without one.
    """

    id: str
    at: float
    agent_id: str = ""
    request: str = ""
    alone: bool = True
    chosen: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    confidences: tuple[float | None, ...] = ()
    p_none: float | None = None
    reason: str = ""
    tier: str = ""
    asked: bool = False
    sure: bool = False
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    took_s: float = 0.0
    chosen_by: Source = BY_RECALL
    right: tuple[str, ...] | None = None
    corrected_by: Source | None = None
    note: str = ""
    corrected_at: float | None = None

    @property
    def is_corrected_by_human(self) -> bool:
        """Whether there is a correction that counts, and it is a human's."""
        return self.right is not None and self.corrected_by is not None and self.corrected_by.is_human

    @property
    def is_taken_back(self) -> bool:
        """Whether what was said of it was taken back, by the source whose word counts."""
        return self.right is None and self.corrected_by is not None

    @property
    def last_word_at(self) -> float:
        """When it was corrected, else when it was recorded, in seconds since 1970."""
        return self.at if self.corrected_at is None else self.corrected_at

    @property
    def first(self) -> str:
        """The name of the first candidate; empty without candidates."""
        return self.candidates[0] if self.candidates else ""

    @property
    def confidence(self) -> float | None:
        """P(the first candidate is right), "none" included, where it is known."""
        return self.confidences[0] if self.confidences else None


def labels(entries: Iterable[Logged]) -> Iterator[tuple[Logged, str, float]]:
    """Yield (entry, flow name, probability): 1 where a person corrected it, else the confidence of the chosen flow.

    Leave out requests without text, those that are not `alone`, those for no flow or several, and choices of unknown
    confidence.
    """
    for entry in entries:
        if not entry.request or not entry.alone:
            continue
        if entry.right is not None and entry.is_corrected_by_human:
            if len(entry.right) == 1:
                yield entry, entry.right[0], 1.0
        elif entry.right is None and len(entry.chosen) == 1:
            known = dict(zip(entry.candidates, entry.confidences, strict=False))
            sure = known.get(entry.chosen[0])
            if sure is not None:
                yield entry, entry.chosen[0], sure


COLUMNS: Final[Mapping[str, str]] = {
    "id": "TEXT NOT NULL UNIQUE",
    "at": "REAL NOT NULL",
    "agent": "TEXT NOT NULL",
    "request": "TEXT NOT NULL",
    "alone": "INTEGER NOT NULL",
    "chosen": "TEXT NOT NULL",
    "candidates": "TEXT NOT NULL",
    "confidences": "TEXT NOT NULL",
    "p_none": "REAL",
    "reason": "TEXT NOT NULL",
    "tier": "TEXT NOT NULL",
    "asked": "INTEGER NOT NULL",
    "sure": "INTEGER NOT NULL",
    "model": "TEXT NOT NULL",
    "tokens_in": "INTEGER NOT NULL",
    "tokens_out": "INTEGER NOT NULL",
    "took_s": "REAL NOT NULL",
    "source_kind": "TEXT NOT NULL",
    "source_name": "TEXT NOT NULL",
    "key": "TEXT NOT NULL",
}
"""Columns of an entry, in the order of the fields of `Logged`; the last three are its source."""
_KINDS: Final = {"TEXT": str, "REAL": (int, float), "INTEGER": int}
OF_SOURCE: Final = 3
_FIELDS: Final = tuple(each.name for each in fields(Logged))[: len(COLUMNS) - OF_SOURCE]
MOVE_COLUMNS: Final[Mapping[str, str]] = {
    "at": "REAL NOT NULL",
    "kind": "TEXT NOT NULL",
    "flow": "TEXT NOT NULL",
    "threshold": "REAL NOT NULL",
    "promise": "REAL NOT NULL",
    "measured": "REAL",
    "requests": "INTEGER NOT NULL",
    "why": "TEXT NOT NULL",
}
"""Columns of a move of a threshold, in the order of the fields of `Move`."""
FEEDBACK_COLUMNS: Final = ("entry", "at", "right", "note", "source_kind", "source_name", "key")
"""Columns of what one source said about an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback(JsonData):
    """What one source said about an entry: names of the right flows (None: it took that back), and a redacted note."""

    at: float
    source: Source
    right: tuple[str, ...] | None = None
    note: str = ""


TAKEN_BACK: Final = "null"
"""In the place of names: this source takes back what it, or one that weighs less, said."""


def feedback_of_row(row: Sequence[Any]) -> tuple[str, Feedback]:
    """Return the id of an entry, and what a row of `FEEDBACK_COLUMNS` says about it.

    Raises:
        ValueError: Its values are of other kinds than its columns.
    """
    entry, at, right, note, *source = row
    if not isinstance(at, float) or not isinstance(note, str):
        raise ValueError("a row of feedback has values of other kinds than its columns")  # noqa: TRY004 - it is data
    names = None if right == TAKEN_BACK else _read_list(right, str)
    return str(entry), Feedback(at=at, right=names, source=_source(*source), note=note)


def feedback_by_entry(rows: Iterable[Sequence[Any]]) -> dict[str, list[Feedback]]:
    """Return what rows of feedback say, by entry and in their order.

    Raises:
        ValueError: Values of one are of other kinds than its columns.
    """
    found: dict[str, list[Feedback]] = {}
    for row in rows:
        entry, feedback = feedback_of_row(row)
        found.setdefault(entry, []).append(feedback)
    return found


def correction_of(entry: Sequence[Feedback]) -> Feedback | None:
    """Return the feedback that counts: the last one of the source that weighs most."""
    return max(reversed(entry), key=lambda each: each.source.weight, default=None)


def _source(kind: object, name: object, key: object) -> Source:
    if kind not in get_args(SourceKind):
        raise ValueError(f"{kind!r:.80} is no kind of source")
    return Source(kind=cast("SourceKind", kind), name=str(name), key=str(key))


def _check_row(row: tuple[Any, ...]) -> None:
    """Raise ValueError unless the values are of the kinds of their columns."""
    for (name, declared), value in zip(COLUMNS.items(), row, strict=True):
        kind, *constraints = declared.split()
        if not isinstance(value, _KINDS[kind]) and not (value is None and not constraints):
            raise ValueError(f"{name} of an entry must be {kind}, got {type(value).__name__}")


def _read_list(text: object, kind: Any) -> tuple[Any, ...]:
    """Read a list in JSON; raise ValueError unless all in it are of a kind."""
    found = orjson.loads(cast("str", text))
    if not is_array(found) or not all(isinstance(each, kind) for each in found):
        raise ValueError(f"a list of an entry holds something else: {found!r:.80}")
    return tuple(found)


def entry_from_row(row: tuple[Any, ...], feedback: Sequence[Feedback] = ()) -> Logged:
    """Build an entry from a row of `COLUMNS` and what was said about it."""
    _check_row(row)
    values = dict(zip(_FIELDS, row, strict=False))  # the columns of the source come behind them
    for name in ("chosen", "candidates"):
        values[name] = _read_list(values[name], str)
    values["confidences"] = _read_list(values["confidences"], int | float | None)
    for name in ("alone", "asked", "sure"):  # SQLite has no booleans
        values[name] = bool(values[name])
    values["chosen_by"] = _source(*row[-OF_SOURCE:])
    correction = correction_of(feedback)
    if correction is not None:
        values |= {"right": correction.right, "corrected_by": correction.source, "note": correction.note}
        values["corrected_at"] = correction.at
    return Logged(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallAnswer:
    """An entry in which recall had a flow first, and what became of it.

    Attributes:
        n: Its place in the log.
        flow: The name of the flow that recall had first.
        confidence: P(it is right).
        sure: Whether recall was sure enough to decide alone.
        asked: Whether a model was asked.
        differs: Whether a person, or else the model that was asked, said that something else is right; None if nobody
            said anything. Where recall was not sure, further flows beside this one are no difference.
    """

    n: int
    flow: str
    confidence: float
    sure: bool = True
    asked: bool
    differs: bool | None


def recall_answer(row: tuple[Any, ...], feedback: Sequence[Feedback], *, sure: bool) -> RecallAnswer:
    """Build an answer from a row of place, id, first candidate, its confidence, chosen flows, `asked` and kind."""
    n, _, flow, confidence, chosen, asked, kind = row
    if type(n) is not int or not isinstance(flow, str) or not isinstance(confidence, int | float):
        raise ValueError("an entry in which recall was sure has no first candidate")
    correction = correction_of(feedback)
    right: Sequence[str] | None = None
    if correction is not None and correction.source.kind == "person" and correction.right is not None:
        right = correction.right
    elif asked and kind == "model":
        right = _read_list(chosen, str)
    differs: bool | None = None
    if right is not None and sure:
        differs = tuple(right) != (flow,)
    elif right is not None:
        differs = flow not in right
    return RecallAnswer(n=n, flow=flow, confidence=float(confidence), sure=sure, asked=bool(asked), differs=differs)


def move_of_row(row: tuple[Any, ...]) -> Move:
    """Build a move from a row of `MOVE_COLUMNS` and its place, `after`."""
    at, kind, flow, threshold, promise, measured, requests, why, after = row
    numbers = (at, threshold, promise, 0.0 if measured is None else measured)
    is_read = all(isinstance(each, int | float) for each in numbers) and type(after) is type(requests) is int
    if not is_read or kind not in get_args(MoveKind):
        raise ValueError("a row of moves has values of other kinds than its columns")
    return Move(
        at=at,
        kind=kind,
        flow=str(flow),
        threshold=threshold,
        promise=promise,
        measured=measured,
        requests=requests,
        why=str(why),
        after=after,
    )
