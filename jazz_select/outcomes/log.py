"""`OutcomeLog`: selections, and corrections that say which flows were right, in a file or another store.

Several processes may write and read it at once. A selection only queues a row, so a failure of the store, such as a
full disk, never reaches the selection. Rows are only added: a correction is a row of its own, joined on reading.
"""

import logging
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from math import isfinite
from pathlib import Path
from time import time
from typing import Annotated, Final, Self

from jazz_select.arguments import Constraint, Positive, checked
from jazz_select.errors import ConfigError, OutcomeLogError, OutcomeQuotaError
from jazz_select.json_values import json_text
from jazz_select.outcomes.callers import current_caller, current_conversation
from jazz_select.outcomes.entries import MOVE_COLUMNS, TAKEN_BACK, Feedback, Logged, RecallAnswer
from jazz_select.outcomes.file_store import FileLogStore, log_path
from jazz_select.outcomes.store import EntryFilter, LogStore, Retention
from jazz_select.outcomes.writer import LogWriter
from jazz_select.stages import Move
from jazz_select.text import as_text, describe_error
from jazz_select.values import Decision, Reason, Source, SourceKind

_log = logging.getLogger(__name__)
_DAY_S: Final = 86_400.0
LONGEST: Final = 8_000
"""Maximum length of a stored request or note, in characters."""
MOST_RIGHT: Final = 100
"""Maximum number of flows that a correction names."""
_MOST_CANDIDATES, _LONGEST_NAME = 10, 200
Redact = Callable[[str], str]
"""Returns what may be stored of a text. Where it raises, nothing is stored."""


class OutcomeLog:
    """A log of outcomes in a file; a context manager that writes what is queued when it ends.

    Rows are written within `0.2` seconds; a killed process loses only the rows of that time, and the file stays whole.
    The file holds what users said: store it where you store conversations.
    """

    @checked
    def __init__(
        self,
        path: Annotated[str | os.PathLike[str], Constraint("a file: name one, such as outcomes.db")],
        *,
        keep_days: Annotated[float, Constraint("a number of days above 0", gt=0)] | None = 90,
        max_entries: Positive | None = 1_000_000,
        redact: Redact | None = None,
        hourly_bytes: Positive | None = None,
    ) -> None:
        """Open the file, or create it.

        Args:
            path: A file on a local disk (no network drive). SQLite keeps two files beside it while it is open.
            keep_days: Age at which entries are deleted, in days; None: never.
            max_entries: The number of entries to keep, the newest; None: all.
            redact: Applied to each request and note before it is queued.
            hourly_bytes: How much each key of a service may add within an hour; what is more is not kept. None: no
                limit.

        Raises:
            ConfigError: An argument is invalid.
            OutcomeLogError: The file is another program's, damaged, of another version, or cannot be written.
        """
        retention = Retention(keep_s=_seconds(keep_days), max_entries=max_entries)
        self._begin(FileLogStore(log_path(path)), redact, retention, hourly_bytes)

    def _begin(self, store: LogStore, redact: Redact | None, retention: Retention, hourly_bytes: int | None) -> None:
        self._store = store
        self._redact = redact
        self._writer = LogWriter(store, retention, hourly_bytes)
        self._end = weakref.finalize(self, self._writer.close)

    @classmethod
    def existing(cls, path: str | os.PathLike[str]) -> Self:
        """Open a log that exists, for reading; it may be on a read-only disk.

        Raises:
            ConfigError: The path names no file.
            OutcomeLogError: The file is missing or cannot be used.
        """
        log = cls.__new__(cls)
        store = FileLogStore(log_path(path), must_exist=True)
        log._begin(store, None, Retention(), None)  # noqa: SLF001 - one of this class
        return log

    @classmethod
    def of_store(
        cls,
        store: LogStore,
        *,
        keep_days: float | None = 90,
        max_entries: int | None = 1_000_000,
        redact: Redact | None = None,
        hourly_bytes: int | None = None,
    ) -> Self:
        """Open the log that a store keeps, such as one in PostgreSQL; the options are those of a file."""
        log = cls.__new__(cls)
        retention = Retention(keep_s=_seconds(keep_days), max_entries=max_entries)
        log._begin(store, redact, retention, hourly_bytes)  # noqa: SLF001 - likewise
        return log

    @property
    def name(self) -> str:
        """What messages call it: the path of its file, or where else it is kept."""
        return self._store.name

    @property
    def path(self) -> Path:
        """Path of the file.

        Raises:
            ConfigError: It is kept in another store.
        """
        if isinstance(self._store, FileLogStore):
            return self._store.path
        raise ConfigError(f"the log {self.name} is no file: it has a name, and no path")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dropped(self) -> int:
        """How many rows were lost since this object was made."""
        return self._writer.dropped

    def record(  # noqa: PLR0913 - options with a name
        self,
        request: str,
        decision: Decision,
        *,
        agent_id: str = "",
        chosen: Sequence[str] = (),
        alone: bool = True,
        source: Source | None = None,
        sure: bool = False,
        entry: str = "",
    ) -> str:
        """Add what was selected for a request; return the entry's id. It never raises: "" where the entry is lost.

        Args:
            request: The text of the request.
            decision: What was decided.
            agent_id: The agent whose flows were selected from.
            chosen: Names of the chosen flows.
            alone: Whether the request opens the conversation.
            source: Who chose; by default as the decision says, in the current conversation, with the caller's key.
            sure: Whether recall was sure enough to decide alone.
            entry: The entry's id, from `new_id`; by default a new one.
        """
        try:
            source = source_of(decision) if source is None else source
            offered, usage = decision.candidates[:_MOST_CANDIDATES], decision.usage
            took_s = float(decision.latency.total_s)
            entry = entry or self.new_id()
            row = (
                entry,
                time(),
                as_text(agent_id),
                self._redact_text(request),
                alone,
                _names(chosen),
                _names([each.flow_name or each.flow_id for each in offered]),
                json_text([_round(each.confidence) for each in offered]),
                _round(decision.p_none),
                decision.reason.value,
                decision.tier.value,
                _asks_model(decision),
                sure,
                as_text(decision.model)[:_LONGEST_NAME],
                usage.input_tokens if usage else 0,
                usage.output_tokens if usage else 0,
                took_s if isfinite(took_s) else 0.0,
                *_columns_of(source),
            )
            return entry if self._writer.put("entry", row) else ""
        except Exception as error:  # noqa: BLE001 - a log must not cost a selection
            self._writer.lost(1, describe_error(error))
            return ""

    def correct(self, entry: str, right: Sequence[str] | None, *, note: str = "", source: Source | None = None) -> None:
        """Add what was right for an entry, and wait until it is written.

        `FlowSelector.feedback` is the async form. Of each source the last correction counts; a reviewer's is never
        overridden by a user's, nor a user's by an agent's.

        Args:
            entry: The entry's id.
            right: Names of the right flows; empty where none fits. None takes back what was said: the entry has no
                correction then, until a source that weighs as much makes one.
            note: A remark.
            source: Who says it; by default a user, in the current conversation, with the caller's key.

        Raises:
            ConfigError: There are too many names.
            OutcomeQuotaError: Its key has written what it may in this hour.
            OutcomeLogError: It could not be written.
        """
        if right is not None and len(right) > MOST_RIGHT:
            raise ConfigError(f"right must have at most {MOST_RIGHT} names of flows, got {len(right)}")
        source = current_source("user") if source is None else source
        wait_s = self._writer.seconds_until_room(source.key)
        if wait_s:
            raise OutcomeQuotaError(self.name, source.key, retry_after=wait_s)
        before = self.dropped
        self.hint(entry, right, note=note, source=source)
        if not self.flush() or self.dropped > before:
            advice = "see the log of the program for the cause, then say it again"
            raise OutcomeLogError(self.name, "the correction could not be written", advice=advice)

    def hint(self, entry: str, right: Sequence[str] | None, *, note: str = "", source: Source | None = None) -> None:
        """Like `correct`, without waiting or raising: for what an agent infers, which is also the default source."""
        if not is_id(entry):
            self._writer.lost(1, f"{as_text(entry)[:_LONGEST_NAME]!r} is no entry's id")
            return
        try:
            source = current_source("agent") if source is None else source
            names = TAKEN_BACK if right is None else _names(right[:MOST_RIGHT])
            row = (entry, time(), names, self._redact_text(note), *_columns_of(source))
            self._writer.put("feedback", row)
        except Exception as error:  # noqa: BLE001 - likewise
            self._writer.lost(1, describe_error(error))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything recorded is written or lost; return False after `timeout_s`."""
        return self._writer.flush(timeout_s)

    def close(self) -> None:
        """Write what is queued. Later rows are lost; a second call does nothing."""
        self._end()

    @staticmethod
    def new_id() -> str:
        """Return an id for an entry that is recorded later."""
        return LogWriter.new_id()

    def keep_move(self, agent_id: str, move: Move, *, following: Sequence[Move] | None = None) -> None:
        """Add a move of a threshold, after all entries so far. It never raises.

        Args:
            agent_id: The agent.
            move: The move.
            following: All moves of the agent that it follows from: nothing is added if there are others of its flow, or
                of all flows, by the time that it is written. None: it is added whatever is there.
        """
        values = [getattr(move, each.name) for each in fields(Move)]
        known = None if following is None else sum(each.flow in {"", move.flow} for each in following)
        self._writer.put("move", (as_text(agent_id), known, *values[: len(MOVE_COLUMNS)]))

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        """Return all moves of an agent's thresholds, the oldest first.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        return self._store.moves(agent_id)

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        """Return what became of recall's answers, the oldest first.

        Args:
            agent_id: The agent.
            last: How many of the entries in which recall was sure, the newest.
            least: The least confidence of other entries: those that begin a conversation, and of which a model was
                asked.
            among: The number of the log's newest entries that these others are looked for in.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        return self._store.recall_answers(agent_id, last=last, least=least, among=among)

    def has(self, entry: str) -> bool:
        """Whether there is an entry of this id.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        return self.get(entry) is not None

    def get(self, entry: str) -> Logged | None:
        """Return the entry of this id, or None.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        if not is_id(entry):
            return None
        self.flush()
        return self._store.entry(entry)

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        """Return all that was said about an entry, the oldest first: the last word of each source.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        if not is_id(entry):
            return ()
        self.flush()
        return self._store.feedback(entry)

    def agents(self, *, corrected: bool = False) -> dict[str, int]:
        """Return the number of entries of each agent, or of those with a correction.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        return dict(self._store.agents(corrected=corrected))

    def count(self, *, agent_id: str, since: float | None = None) -> Counter[tuple[str, bool]]:
        """Return the number of an agent's entries by reason, and by whether a model was asked.

        Args:
            agent_id: The agent.
            since: The earliest time, in seconds since 1970.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        return self._store.count(agent_id, 0.0 if since is None else since)

    def chosen(self, *, agent_id: str, since: float) -> Counter[str]:
        """Return how often each flow of an agent was chosen since a time, in seconds since 1970.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        return self._store.chosen(agent_id, since)

    def read(
        self,
        *,
        agent_id: str | None = None,
        corrected: bool | None = None,
        since: float | None = None,
        last: int | None = None,
        key: str | None = None,
    ) -> Iterator[Logged]:
        """Yield the entries, oldest first; others may write meanwhile. Few of them are in memory at once.

        Args:
            agent_id: The agent; None: all agents.
            corrected: Whether entries have a correction; None: both.
            since: The earliest time, in seconds since 1970.
            last: How many of the newest; None: all.
            key: The name of the key whose requests they were; None: all.

        Raises:
            OutcomeLogError: The log cannot be read.
        """
        self.flush()
        which = EntryFilter(agent_id=agent_id, corrected=corrected, since=since, last=last, key=key)
        yield from self._store.entries(which)

    def _redact_text(self, text: str) -> str:
        """Return the redacted text to store."""
        if self._redact is not None:
            try:
                text = self._redact(text)[:LONGEST]
            except Exception:  # noqa: BLE001 - whatever it trips over, nothing may get out that it should have taken out
                _log.warning("redact failed, so the text is left out of the log of outcomes")
                return ""
        return as_text(text[:LONGEST])


def _seconds(days: float | None) -> float | None:
    return None if days is None else days * _DAY_S


def is_id(entry: object) -> bool:
    """Whether this may be the id of an entry."""
    return isinstance(entry, str) and bool(entry) and as_text(entry) == entry


def current_source(kind: SourceKind, name: str = "") -> Source:
    """Return the source of what is said now: with the current caller's key, and by default in its conversation."""
    return Source(kind=kind, name=name or current_conversation(), key=current_caller().key)


def source_of(decision: Decision) -> Source:
    """Return who chose: a model, the user who answered a question, or recall where nobody was asked or answered."""
    reason = decision.reason
    if reason is Reason.USER:
        return current_source("user")
    # Recall may also find that nothing fits: count it as the model's word only if one answered.
    is_models_none = reason is Reason.NONE and _asks_model(decision) and not decision.error
    if reason in {Reason.LLM, Reason.DECIDER} or is_models_none:
        return Source(kind="model", name=decision.model, key=current_caller().key)
    return Source(kind="recall", key=current_caller().key)


def _columns_of(source: Source) -> tuple[str, str, str]:
    return source.kind, as_text(source.name)[:_LONGEST_NAME], as_text(source.key)[:_LONGEST_NAME]


def _asks_model(decision: Decision) -> bool:
    """Whether a chat model or a decision model was asked, even if it failed."""
    if decision.raw_reply is not None or decision.attempts > 0 or decision.error:
        return True
    return any(each.calls or each.outcome == "failed" for each in decision.stages)


def _names(names: Sequence[str]) -> str:
    return json_text([as_text(name)[:_LONGEST_NAME] for name in names])


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 4)
