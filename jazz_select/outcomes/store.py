"""The port of a log of outcomes: where its lines are kept, and what is asked of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from jazz_select.outcomes.entries import Feedback, Logged, RecallAnswer
from jazz_select.stages import Move

LineKind: TypeAlias = Literal["entry", "feedback", "move"]


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line to be written.

    Attributes:
        kind: An entry, with the values of `COLUMNS`; feedback, with those of `FEEDBACK_COLUMNS`; or a move, with its
            agent, the number of moves that it follows from or None, and the values of `MOVE_COLUMNS`.
        values: In this order.
    """

    kind: LineKind
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is deleted: entries older than `keep_s` seconds, and of more than `max_entries` the oldest."""

    keep_s: float | None = None
    max_entries: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which entries are read. None is no condition.

    Attributes:
        agent_id: Those of this agent.
        corrected: Those with a correction, or those without.
        since: From this time on, in seconds since 1970.
        last: So many, the newest.
        key: Those whose requests came with the key of this name.
    """

    agent_id: str | None = None
    corrected: bool | None = None
    since: float | None = None
    last: int | None = None
    key: str | None = None


class LogStore(Protocol):
    """Keeps one log. Methods block; one thread writes, any number read."""

    @property
    def name(self) -> str:
        """What messages call it, such as the path of its file."""
        ...

    def write(self, lines: Sequence[LogLine], retention: Retention | None) -> Sequence[str]:
        """Write lines in one transaction, and delete what `retention` no longer allows.

        The same lines may come again after an error, since a transaction whose connection broke may have been made.
        A move that follows from others is written only if there are as many as it was given: two processes that
        measure at once would move a threshold twice.

        Returns:
            Why lines could not be written, one text for each: the others are.

        Raises:
            DatabaseUnavailableError: The server is away; the same may succeed later.
        """
        ...

    def entries(self, which: EntryFilter) -> Iterator[Logged]:
        """Yield entries, the oldest first, few of them in memory at once.

        Raises:
            OutcomeLogError: They cannot be read.
        """
        ...

    def entry(self, entry: str) -> Logged | None:
        """Return the entry of this id; errors as for `entries`."""
        ...

    def feedback(self, entry: str) -> tuple[Feedback, ...]:
        """Return the last word of each source about an entry, the oldest first; errors as for `entries`."""
        ...

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        """Return all moves of an agent's thresholds, the oldest first; errors as for `entries`."""
        ...

    def recall_answers(self, agent_id: str, *, last: int, least: float, among: int) -> tuple[RecallAnswer, ...]:
        """Return what `OutcomeLog.recall_answers` does; errors as for `entries`."""
        ...

    def agents(self, *, corrected: bool) -> Mapping[str, int]:
        """Return the number of entries of each agent, or of those with a correction; errors as for `entries`."""
        ...

    def count(self, agent_id: str, since: float) -> Counter[tuple[str, bool]]:
        """Return the number of an agent's entries by reason and `asked`; errors as for `entries`."""
        ...

    def chosen(self, agent_id: str, since: float) -> Counter[str]:
        """Return how often each flow of an agent was chosen; errors as for `entries`."""
        ...

    def reset(self) -> None:
        """Forget connections of the parent process, in a fork."""
        ...

    def close(self) -> None:
        """Release what writing holds; a later write opens it again."""
        ...
