"""`jazz-select diff`: which requests a change of the flows leads elsewhere."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from jazz_select.cli.terminal import emit, facts_grid, hint, mark, ruled, stdout, styled, waiting, write_file
from jazz_select.evaluation.cases import read_requests
from jazz_select.evaluation.changes.comparison import diff
from jazz_select.evaluation.changes.difference import (
    ChangeKind,
    Difference,
    Effect,
    Gates,
    Leading,
    RouteChange,
    Totals,
    confidence_class,
)
from jazz_select.evaluation.changes.markdown_comment import comment
from jazz_select.evaluation.route import Policy
from jazz_select.outcomes.log import OutcomeLog

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_FAILED = 1
_MOST_LOGGED = 20_000
_CASES = Path("examples/eval.yaml")
_ALL = 100_000
_TOLD = (ChangeKind.FIRST, ChangeKind.OUTCOME, ChangeKind.CONFIDENCE, ChangeKind.CANDIDATES)
"""Which of its kinds a change is called by: the first of these."""
_EFFECTS = {
    Effect.BROKEN: "bold red",
    Effect.GONE: "bold red",
    Effect.LOST: "red",
    Effect.SURER: "red",
    Effect.FOUND: "green",
    Effect.FIXED: "bold green",
    Effect.NONE: "yellow",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the options of the command say, beside the settings."""

    base: str
    head: str
    base_flows: str | None
    cases: Sequence[Path]
    requests: Sequence[Path]
    log: Path | None
    markdown: Path | None
    shown: int
    cached: bool
    as_json: bool


def run(settings: "Settings", wishes: Wishes) -> None:
    """Compare, and report; the exit code is 1 where a gate is not passed."""
    gates = Gates.load(Path.cwd())
    requests = [*read_requests(wishes.requests), *(() if wishes.log is None else _logged(wishes.log, settings))]
    with waiting("comparing"):
        found = asyncio.run(_found(settings, wishes, gates, requests))
    if wishes.markdown is not None:
        write_file(wishes.markdown, comment(found), option="--markdown")
    if wishes.as_json:
        emit(found.to_dict())
    else:
        _show(found, gates, shown=wishes.shown or _ALL)
    if not found.passed:
        raise typer.Exit(_FAILED)


def _logged(log: Path, settings: "Settings") -> list[str]:
    """What was asked by itself, the newest first."""
    entries = OutcomeLog.existing(log).read(agent_id=settings.agent_id)
    asked = dict.fromkeys(each.request for each in reversed(list(entries)) if each.request and each.alone)
    if not asked:
        hint(f"{log} has no request of agent {settings.agent_id!r} that can be asked again (--agent names another)")
    if len(asked) > _MOST_LOGGED:
        hint(f"of the {len(asked):,} requests in {log} the newest {_MOST_LOGGED:,} are asked")
    return list(asked)[:_MOST_LOGGED]


async def _found(settings: "Settings", wishes: Wishes, gates: Gates, requests: Sequence[str]) -> Difference:
    policy = Policy.of(settings)
    options = {} if wishes.cached else {"cache": None}
    return await diff(
        wishes.base,
        wishes.head,
        flows=settings.flows,
        base_flows=wishes.base_flows,
        cases=wishes.cases,
        requests=requests,
        policy=policy,
        embedder=settings.embedder,
        language=settings.language,
        agent_id=settings.agent_id,
        gates=gates,
        learned=settings.learned,
        **options,
    )


def _show(found: Difference, gates: Gates, *, shown: int) -> None:
    console = stdout()
    console.print(Text.assemble(styled(found.base, "bold"), " → ", styled(found.head, "bold")), soft_wrap=True)
    if flows := _flows(found):
        console.print(flows)
    console.print(_totals(found.before, found.after))
    console.print(styled(found.summary, "bold"), soft_wrap=True)
    if found.changes:
        telling = [
            each for each in found.changes if shown == _ALL or each.kinds != (ChangeKind.CANDIDATES,) or each.effect
        ]
        console.print(_changes(console, telling[:shown]))
        if more := len(found.changes) - len(telling[:shown]):
            alone = len(found.changes) - len(telling)
            what = f", {alone:,} of them in nothing but the other candidates" if alone else ""
            console.print(styled(f"… and {more:,} more{what} (--all, --json or --markdown)", "dim"), soft_wrap=True)
    if found.confusions:
        console.print(_confusions(found, shown))
    for note in found.notes:
        console.print(styled(f"note: {note}", "yellow"), soft_wrap=True)
    for failure in found.failures:
        line = Text.assemble(mark(console, good=False), " ", styled(failure.message, "red", limit=600))
        console.print(line, soft_wrap=True)
    if gates.any and found.passed:
        console.print(Text.assemble(mark(console, good=True), " every gate is passed"))
    console.print(styled(f"took {found.took_s:.1f} s, no model was asked", "dim"))


def _flows(found: Difference) -> Group | None:
    flows = found.flows
    told = [
        ("added", ", ".join(flows.added), "green"),
        ("removed", ", ".join(flows.removed), "red"),
        ("renamed", ", ".join(f"{old} → {new}" for old, new in flows.renamed.items()), "yellow"),
        ("changed", ", ".join(f"{name} ({', '.join(fields)})" for name, fields in flows.changed.items()), "yellow"),
    ]
    grid = facts_grid()
    for what, names, style in told:
        if names:
            grid.add_row(f"flows {what}", styled(names, style, limit=1_000))
    return Group(grid) if flows.any else None


def _totals(before: Totals, after: Totals) -> Table:
    table = ruled("", "before", "after")
    for what, cell in _CELLS.items():
        table.add_row(what, cell(before), cell(after))
    return table


_CELLS: Mapping[str, Callable[[Totals], str]] = {
    "flows": lambda totals: f"{totals.flows:,}",
    "R@1": lambda totals: "–" if totals.recall_at_1 is None else f"{totals.recall_at_1:.1%} of {totals.labelled:,}",
    "requests": lambda totals: f"{totals.requests:,}",
    "would ask a model": lambda totals: f"{totals.asked:,} ({totals.asked_share:.1%})",
    "decided without": lambda totals: f"{totals.taken:,}",
    "lead nowhere": lambda totals: f"{totals.none:,}",
    "tokens of prompts": lambda totals: f"{totals.prompt_tokens:,} in {totals.counted:,}" if totals.counted else "–",
}


def _changes(console: Console, changes: Sequence[RouteChange]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for each in changes:
        style = _EFFECTS[each.effect]
        what = each.effect.value or next(kind.value for kind in _TOLD if kind in each.kinds)
        table.add_row(styled(what, style), each.source.value, Group(styled(each.request), *_lines(console, each)))
    return table


def _lines(console: Console, change: RouteChange) -> list[Text]:
    """What is different, one thing a line."""
    arrow = " → " if console.encoding.lower().startswith("utf") else " -> "
    before, after = change.before, change.after
    lines: list[Text] = []
    if ChangeKind.FIRST in change.kinds:
        first = Text.assemble("first ", styled(before.first or "nothing"), arrow, styled(after.first or "nothing"))
        if change.expect and not {before.first, after.first} & set(change.expect):
            first.append_text(Text.assemble(", right is ", styled(", ".join(change.expect), "green")))
        lines.append(first)
    if ChangeKind.CANDIDATES in change.kinds:
        moves = [f"+{name}" for name in change.entered] + [f"-{name}" for name in change.left]
        lines.append(styled(f"candidates {' '.join(moves)}"))
    if ChangeKind.OUTCOME in change.kinds:
        lines.append(Text.assemble(before.outcome.value, arrow, after.outcome.value))
    if ChangeKind.CONFIDENCE in change.kinds:
        sure = Text.assemble(_sure(before), arrow, _sure(after))
        if change.effect is Effect.SURER:
            right = ", ".join(change.expect or ()) or "no flow"
            sure.append_text(Text.assemble(" of ", styled(after.first), ", right is ", styled(right, "green")))
        lines.append(sure)
    if change.why:
        lines.append(styled(change.why))
    for line in lines:
        line.stylize("dim")
    return lines


def _sure(leading: Leading) -> str:
    return sure_in_words(leading.confidence, leading.confidence_class)


def sure_in_words(sure: float | None, name: str) -> str:
    """The class, and the number with as many digits as it takes to be of that class."""
    if sure is None:
        return name
    spellings = [f"{sure:.{digits}f}" for digits in range(2, 7)]
    told = next((each for each in spellings if confidence_class(float(each)) == name), str(sure))
    return f"{name} ({told})"


def _confusions(found: Difference, shown: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="confused more often", title_justify="left")
    for name in ("right", "first", "before", "after"):
        table.add_column(name, justify="left" if name in {"right", "first"} else "right", overflow="fold")
    for each in found.confusions[:shown]:
        table.add_row(styled(each.expected), styled(each.first), f"{each.before:,}", f"{each.after:,}")
    return table


def default_cases() -> tuple[Path, ...]:
    """`examples/eval.yaml`, where it is here and no file is named."""
    if not _CASES.is_file():
        return ()
    hint(f"the cases are those of {_CASES}; --cases names others")
    return (_CASES,)
