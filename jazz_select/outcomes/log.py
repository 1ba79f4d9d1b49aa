"""`OutcomeLog`: a file of what was selected for each request, and of what was right where somebody said so.

Several processes may write to it and read it at once. A selection only puts a line into a queue, so nothing that
happens to the file, such as a full disk, reaches the selection. Lines are only ever added; a correction is a line of
its own, joined to what it corrects when it is read.
"""

import hashlib
import logging
import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from time import time
from typing import Annotated, Final, Self

import orjson

from jazz_select.arguments import Constraint, Positive, checked
from jazz_select.errors import OutcomeLogError
from jazz_select.outcomes.file import (
    ENTRY,
    FEEDBACK,
    READ,
    Logged,
    Source,
    corrections_in,
    logged,
    made,
    named,
    reading,
    unusable,
)
from jazz_select.outcomes.writer import Writer
from jazz_select.text import as_text, describe_error
from jazz_select.values import Decision

LONGEST: Final = 8_000
"""Characters of a request, or of a note, that are kept."""
_MOST_CANDIDATES, _LONGEST_NAME = 10, 200
_CORRECTED, _UNCORRECTED = "id IN (SELECT entry FROM feedback)", "id NOT IN (SELECT entry FROM feedback)"
_log = logging.getLogger(__name__)
Redact = Callable[[str], str]
"""A text that somebody said, to the text that may be kept. Where it fails, none is."""


class OutcomeLog:
    """A log of outcomes in a file; a context manager that writes what is left when it ends.

    What is recorded is written within a moment. A process that is killed loses what it recorded in the last `0.2`
    seconds, and nothing else; the file stays whole. The file holds what users said, unless `text=False`: keep it where
    you keep conversations.

    Attributes:
        path: Of the file.
    """

    @checked
    def __init__(
        self,
        path: Annotated[str | os.PathLike[str], Constraint("a file: name one, such as outcomes.db")],
        *,
        keep_days: Annotated[float, Constraint("a number of days above 0", gt=0)] | None = 90,
        max_entries: Positive | None = 1_000_000,
        redact: Redact | None = None,
        text: bool = True,
    ) -> None:
        """Open the file, or make it.

        Args:
            path: Of the file; beside it SQLite keeps two of its own while it is open. A network's disk will not do.
            keep_days: How long entries are kept, in days; None: as long as there is room.
            max_entries: How many are kept, the last ones; None: all.
            redact: Applied to each request and note before anything is queued.
            text: Whether requests and notes are kept. Without, a request is a digest and a length, which says how often
                and how surely flows are chosen, and teaches nothing.

        Raises:
            ConfigError: An argument cannot work.
            OutcomeLogError: The file cannot be used: it is another program's, damaged, of another version, or cannot
                be written.
        """
        file = named(path)
        made(file)
        self._begin(file, keep_days, max_entries, redact, text=text)

    def _begin(
        self, path: Path, keep_days: float | None, max_entries: int | None, redact: Redact | None, *, text: bool
    ) -> None:
        self.path = path
        self._redact = redact
        self._text = text
        self._writer = Writer(path, keep_days, max_entries)
        self._end = weakref.finalize(self, self._writer.close)

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Self:
        """A log that is there already, to read it; its disk need not be one that can be written.

        Raises:
            ConfigError: The path names no file.
            OutcomeLogError: It is not there, or cannot be used.
        """
        file = named(path)
        if not file.is_file():
            raise OutcomeLogError(str(file), "it is not there", advice="FlowSelector(…, log=PATH) writes one")
        with reading(file):
            pass
        log = cls.__new__(cls)
        log._begin(file, None, None, None, text=True)  # noqa: SLF001 - one of this class
        return log

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """How many lines could not be kept since this object was made."""
        return self._writer.dropped

    def record(
        self,
        request: str,
        decision: Decision,
        *,
        agent_id: str = "",
        chosen: Sequence[str] = (),
        alone: bool = True,
        catalogue: str = "",
    ) -> str:
        """Add what was selected for a request, and return the entry's id; whatever goes wrong, it never raises.

        Args:
            request: What was asked.
            decision: What was decided.
            agent_id: Whose flows.
            chosen: Names of those that were chosen.
            alone: Whether nothing was said before.
            catalogue: What is equal where the flows say the same.
        """
        try:
            said, digest = self._kept(request)
            offered, usage = decision.candidates[:_MOST_CANDIDATES], decision.usage
            took_s = float(decision.latency.total_s)
            entry = self._writer.new_id()
            row = (
                entry,
                time(),
                as_text(agent_id),
                said,
                digest,
                len(request),
                alone,
                _names(chosen),
                _names([each.flow_name or each.flow_id for each in offered]),
                orjson.dumps([_rounded(each.confidence) for each in offered]).decode(),
                _rounded(decision.in_scope),
                decision.reason.value,
                decision.tier.value,
                _asked(decision),
                as_text(decision.model)[:_LONGEST_NAME],
                usage.input_tokens if usage else 0,
                usage.output_tokens if usage else 0,
                took_s if isfinite(took_s) else 0.0,
                as_text(catalogue),
            )
            return entry if self._writer.put(ENTRY, row) else ""
        except Exception as error:  # noqa: BLE001 - a log must not cost a selection
            self._writer.lost(1, describe_error(error))
            return ""

    def correct(self, entry: str, right: Sequence[str], *, note: str = "", source: Source = "user") -> None:
        """Add what was right for an entry, and wait until it is written; the last of several counts.

        What an agent gathered does not count where a person has said something. For an event loop it is
        `FlowSelector.feedback`.

        Args:
            entry: Its id.
            right: Names of flows; none where nothing fits.
            note: What there is to say of it.
            source: Who says so.

        Raises:
            OutcomeLogError: It could not be written.
        """
        before = self.dropped
        self.hint(entry, right, note=note, source=source)
        if not self.flush() or self.dropped > before:
            advice = "see the log of the program for the cause, then say it again"
            raise OutcomeLogError(str(self.path), "the correction could not be written", advice=advice)

    def hint(self, entry: str, right: Sequence[str], *, note: str = "", source: Source = "agent") -> None:
        """As `correct`, without waiting, and without raising: for what is gathered on the way."""
        if not is_id(entry):
            self._writer.lost(1, f"{as_text(entry)[:_LONGEST_NAME]!r} is no entry's id")
            return
        try:
            self._writer.put(FEEDBACK, (entry, time(), _names(right), self._kept(note)[0], source))
        except Exception as error:  # noqa: BLE001 - likewise
            self._writer.lost(1, describe_error(error))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all that was recorded is written or dropped; False where that took longer."""
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        """Write what is left; a second call does nothing. What is recorded afterwards is dropped."""
        self._end()

    def has(self, entry: str) -> bool:
        """Whether there is an entry of this id.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        if not is_id(entry):
            return False
        self.flush()
        with reading(self.path) as database:
            return database.execute("SELECT 1 FROM entries WHERE id = ?", (entry,)).fetchone() is not None

    def read(
        self,
        *,
        agent_id: str | None = None,
        since: float | None = None,
        until: float | None = None,
        corrected: bool | None = None,
    ) -> Iterator[Logged]:
        """The entries, oldest first, while others may go on writing.

        Args:
            agent_id: Those of one agent; all where None.
            since: Not older than this, in seconds since 1970.
            until: Older than this.
            corrected: Those of which somebody said what was right, or those of which nobody did; both where None.

        Raises:
            OutcomeLogError: The file cannot be read.
        """
        self.flush()
        wanted: list[tuple[str, object]] = []
        wanted += [("agent = ?", agent_id)] if agent_id is not None else []
        wanted += [("at >= ?", since)] if since is not None else []
        wanted += [("at < ?", until)] if until is not None else []
        conditions = [sql for sql, _ in wanted]
        if corrected is not None:
            conditions.append(_CORRECTED if corrected else _UNCORRECTED)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        try:
            with reading(self.path) as database:
                said = corrections_in(database)
                for row in database.execute(f"{READ}{where} ORDER BY n", [value for _, value in wanted]):
                    yield logged(row, said.get(row[0]))
        except (sqlite3.Error, ValueError, TypeError) as error:
            raise unusable(self.path, error) from error

    def _kept(self, text: str) -> tuple[str, str]:
        """What is kept of a text, and its digest where the text itself is not."""
        if self._redact is not None:
            try:
                text = self._redact(text)[:LONGEST]
            except Exception:  # noqa: BLE001 - whatever it trips over, nothing may get out that it should have taken out
                _log.warning("redact failed, so the text is left out of the log of outcomes")
                return "", ""
        text = as_text(text[:LONGEST])
        if self._text:
            return text, ""
        return "", hashlib.sha256(text.encode()).hexdigest()[:16] if text else ""


def is_id(entry: object) -> bool:
    """Whether it can be the id of an entry at all."""
    return isinstance(entry, str) and bool(entry) and as_text(entry) == entry


def _asked(decision: Decision) -> bool:
    """Whether a chat model or a decision model was asked, also where that failed."""
    said = decision.raw_reply is not None or decision.attempts > 0 or bool(decision.error)
    return said or any(each.calls or each.outcome == "failed" for each in decision.stages)


def _names(names: Sequence[str]) -> str:
    return orjson.dumps([as_text(name)[:_LONGEST_NAME] for name in names]).decode()


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
