"""What became of all conversations, as a table of numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.conversations.judge import Problem, problems
from tests.conversations.play import Played
from tests.conversations.script import ProblemKind

_TOLD: Final[dict[ProblemKind, str]] = {
    "effect": "effects not wished",
    "entity": "wrong entities",
    "claim": "claims not true",
    "wish": "wishes not served",
    "calls": "model asked too often",
    "cassette": "prompts without a record, records without a prompt",
    "crash": "crashes",
}


@dataclass(slots=True)
class Tally:
    """The numbers of many conversations."""

    conversations: int = 0
    turns: int = 0
    asked: int = 0
    """The turns behind one that asked for values."""
    read_for_value: int = 0
    """Those of them in which a model was asked only to read the value."""
    tokens: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Kind of prompt to the tokens of each."""
    found: dict[str, list[Problem]] = field(default_factory=dict[str, list[Problem]])
    """Conversation to what is wrong with it."""

    def add(self, played: Played) -> list[Problem]:
        """One more conversation, and what is wrong with it."""
        self.conversations += 1
        self.turns += len(played.turns)
        self.asked += sum(each.asked is not None for each in played.turns)
        self.read_for_value += sum(each.reads_only_what_was_asked for each in played.turns)
        for record in played.tape.asked:
            self.tokens.setdefault(record.kind, []).append(record.tokens)
        wrong = problems(played)
        if wrong:
            self.found[played.script.name] = wrong
        return wrong

    @property
    def counts(self) -> Counter[ProblemKind]:
        """How many problems there are of each kind."""
        return Counter(problem.kind for wrong in self.found.values() for problem in wrong)

    def lines(self) -> list[str]:
        """The tables, as text."""
        total = sum(map(len, self.tokens.values()))
        rows = [["prompt", "calls", "per turn", "tokens p50", "p90", "max"]]
        for kind, tokens in sorted(self.tokens.items()):
            share = f"{len(tokens) / max(self.turns, 1):.2f}"
            rows.append([kind, str(len(tokens)), share, *(str(percentile(tokens, each)) for each in (50, 90, 100))])
        good = self.conversations - len(self.found)
        wrong = [["wrong", ""], *([told, str(self.counts[kind])] for kind, told in _TOLD.items())]
        return [
            f"{self.conversations} conversations, {self.turns} turns, {total} model calls; {good} as they should be",
            "",
            *table(rows),
            "",
            self._value_line(),
            "",
            *table(wrong),
        ]

    def _value_line(self) -> str:
        share = f"{self.read_for_value / max(self.turns, 1):.1%}"
        turns = f"in {self.read_for_value} of {self.turns} turns ({share})"
        return f"a model is asked only to read the value asked for {turns}; {self.asked} turns answer such a question"


def percentile(values: Iterable[int], percent: int) -> int:
    """The smallest value that so many percent are not above; 0 of nothing."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else 0


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of columns: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip() for row in rows]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]
