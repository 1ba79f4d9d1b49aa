"""Rows into Markdown tables."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks import rows
from benchmarks.metrics import mean


def by(found: Iterable[rows.Row], *fields: str) -> list[tuple[tuple[str, ...], list[rows.Row]]]:
    """Rows that agree in these fields, together."""
    groups: dict[tuple[str, ...], list[rows.Row]] = defaultdict(list)
    for row in found:
        groups[tuple(str(row[field]) for field in fields)].append(row)
    return sorted(groups.items(), key=lambda group: [_natural(part) for part in group[0]])


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts "clinc150-5" before "clinc150-10", and the default embedder first."""
    parts = re.split(r"(\d+)", "" if text == "static" else text)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def mean_of(runs: Sequence[Mapping[str, Any]], part: str, name: str) -> float:
    """The mean over runs."""
    return mean([run[part][name] for run in runs])


def percent(share: float) -> str:
    """With one digit; what lies half way between two goes to the even one, as Python's own formatting has it."""
    return f"{100 * share:.1f}"


def markdown(header: Sequence[str], body: Iterable[Sequence[str]], *, words: Sequence[int]) -> str:
    """A Markdown table; numbers stand right, columns in `words` left."""
    rules = ["---" if column in words else "---:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *body))
