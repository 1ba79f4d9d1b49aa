"""What came of conversation cases, as values: for people, for programs, and for a file of results."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Final, Literal

from jazz_select.evaluation.tables import dataframe
from jazz_select.evaluation.talks.expectations import Check, Seen
from jazz_select.json_values import json_or_same
from jazz_select.text import beginning

Outcome = Literal["passed", "failed", "xfailed", "xpassed"]
"""As pytest tells it: `xfailed` failed as it is known to, and `xpassed` is known to fail and did not."""
_SHOWN: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlayed:
    """A turn, as it came out.

    Attributes:
        number: Which, from 1.
        say: What the user said.
        seen: What came of it.
        replies: What a model answered in it, in order: what a script would hold.
        checks: What was expected of it.
        notes: What was degraded.
        error: What went wrong in it, if anything did.
        took_s: How long it took, in seconds.
    """

    number: int
    say: str
    seen: Seen
    replies: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every check did."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        plain: dict[str, Any] = json_or_same(asdict(self))  # pyright: ignore[reportAssignmentType]
        return {**plain, "passed": self.passed}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationResult:
    """A conversation, as it came out.

    Attributes:
        id: What the case is known by.
        title: What it shows.
        tags: Its tags.
        file: Where it stands.
        turns: Its turns, as far as they were played.
        checks: What was expected of the whole.
        xfail: Why it is known to fail, where it is.
        error: What the agent, or whoever makes it, raised: then the rest was not played.
        took_s: How long it took, in seconds.
    """

    id: str
    title: str
    tags: tuple[str, ...] = ()
    file: str = ""
    turns: tuple[TurnPlayed, ...] = ()
    checks: tuple[Check, ...] = ()
    xfail: str = ""
    error: str = ""
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it was played to its end and every check passed."""
        return not self.error and all(check.passed for _, check in self.all_checks)

    @property
    def outcome(self) -> Outcome:
        """How it counts."""
        if self.xfail:
            return "xpassed" if self.passed else "xfailed"
        return "passed" if self.passed else "failed"

    @property
    def all_checks(self) -> Iterator[tuple[int, Check]]:
        """Every check with the number of its turn; 0 for those of the whole."""
        yield from ((turn.number, check) for turn in self.turns for check in turn.checks)
        yield from ((0, check) for check in self.checks)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line each; none where it passed."""
        failed = [(number, check) for number, check in self.all_checks if not check.passed]
        told = tuple(f"{f'turn {number}' if number else 'the whole'}: {check}" for number, check in failed)
        return (*told, f"turn {len(self.turns) + 1}: it broke off: {self.error}") if self.error else told

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, with `outcome` and `problems`."""
        return {
            "id": self.id,
            "title": self.title,
            "tags": list(self.tags),
            "file": self.file,
            "outcome": self.outcome,
            "passed": self.passed,
            "problems": list(self.problems),
            "xfail": self.xfail,
            "error": self.error,
            "turns": [turn.to_dict() for turn in self.turns],
            "checks": [check.to_dict() for check in self.checks],
            "took_s": self.took_s,
        }

    def __str__(self) -> str:
        """For the message of a test that fails: what was said, and what is wrong."""
        lines = [f"{self.id} ({self.title}): {self.outcome}"]
        for turn in self.turns:
            lines += [f"  user:  {beginning(turn.say, _SHOWN)}"]
            lines += [f"  agent: {beginning(turn.seen.text or turn.seen.reason, _SHOWN)} [{_how(turn.seen)}]"]
        return "\n".join([*lines, *(f"  - {problem}" for problem in self.problems)])

    def html(self) -> str:
        """As HTML; whatever anybody said in it is only text."""
        rows = "".join(_row(turn) for turn in self.turns)
        whole = "".join(f"<li>{escape(problem)}</li>" for problem in self.problems)
        return (
            f"<details{'' if self.passed else ' open'}><summary><b>{escape(self.outcome)}</b> "
            f"{escape(self.title)}</summary><table>"
            "<tr><th>user</th><th>agent</th><th>what came of it</th><th>checks</th></tr>"
            f"{rows}</table>{f'<ul>{whole}</ul>' if whole else ''}</details>"
        )

    def _repr_html_(self) -> str:
        return self.html()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationReport:
    """Several conversations, as they came out.

    Attributes:
        results: One for each, in their order.
        took_s: How long all of them took, in seconds.
    """

    results: tuple[ConversationResult, ...]
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether none failed; one that is known to fail may."""
        return not self.count("failed")

    def count(self, outcome: Outcome) -> int:
        """How many came out so."""
        return sum(result.outcome == outcome for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values: how many there are of each outcome, and all results."""
        turns = sum(len(result.turns) for result in self.results)
        checks = sum(1 for result in self.results for _ in result.all_checks)
        return {
            "passed": self.passed,
            "conversations": len(self.results),
            "turns": turns,
            "checks": checks,
            "model_calls": sum(turn.seen.model_calls for result in self.results for turn in result.turns),
            "outcomes": {each: self.count(each) for each in ("passed", "failed", "xfailed", "xpassed")},
            "took_s": self.took_s,
            "results": [result.to_dict() for result in self.results],
        }

    def to_dataframe(self) -> Any:
        """A pandas DataFrame with a row for each check.

        Raises:
            ConfigError: pandas is not installed.
        """
        rows: Sequence[dict[str, Any]] = [
            {"conversation": result.id, "turn": turn, **check.to_dict()}
            for result in self.results
            for turn, check in result.all_checks
        ]
        return dataframe(rows)

    def _repr_html_(self) -> str:
        counts = ", ".join(f"{self.count(each)} {each}" for each in ("passed", "failed", "xfailed", "xpassed"))
        return f"<p>{counts}</p>" + "".join(result.html() for result in self.results)


def _row(turn: TurnPlayed) -> str:
    checks = "<br>".join(escape(f"{'✓' if check.passed else '✗'} {check}") for check in turn.checks)
    cells = [beginning(turn.say, _SHOWN), beginning(turn.seen.text or turn.seen.reason, _SHOWN), _how(turn.seen)]
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}<td>{checks}</td></tr>"


def _how(seen: Seen) -> str:
    """What came of a turn, in one line."""
    calls = "; ".join(map(str, seen.tools))
    waits = f", waits for {', '.join(seen.waits_for)}" if seen.waits_for else ""
    return f"{seen.status}: {', '.join(seen.flows) or 'no flow'}{f'; {calls}' if calls else ''}{waits}"
