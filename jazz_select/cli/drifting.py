"""`jazz-select drift`: the last days of a log against those before."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazz_select.cli.session import catalogue
from jazz_select.cli.terminal import emit, hint, mark, stdout, styled, waiting
from jazz_select.evaluation.drifting import DAY_S, Accuracy, Drift, Share, Window, drift
from jazz_select.outcomes.log import OutcomeLog

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_SHOWN = 15


def run(settings: "Settings", log: Path, *, days: float, fail_on_alarm: bool, as_json: bool) -> None:
    """Compare, and report; exit code 1 where there is an alarm and that was asked for."""
    found = asyncio.run(_drift(settings, log, days))
    if as_json:
        emit(found.to_dict())
    else:
        _show(found, stdout())
    if fail_on_alarm and found.alarms:
        raise typer.Exit(1)


async def _drift(settings: "Settings", log: Path, days: float) -> Drift:
    registry = catalogue(settings, learned=True)
    kept = OutcomeLog.existing(log)
    last = max((each.at for each in kept.read(agent_id=settings.agent_id)), default=None)
    since = None if last is None else last - 2 * days * DAY_S
    entries = kept.read(agent_id=settings.agent_id, since=since)
    with waiting("reading the log"):
        return await drift(entries, registry, days=days, embedder=settings.embedder)


def _show(found: Drift, console: Console) -> None:
    for each in found.alarms:
        subject = f"{each.subject}: " if each.subject else ""
        console.print(
            Text.assemble(mark(console, good=False), " ", styled(f"{subject}{each.message}", "bold", limit=500))
        )
    if not found.alarms:
        console.print(Text.assemble(mark(console, good=True), " ", styled("nothing to look at", "bold")))
    console.print(_windows(found))
    if any(each.now.requests for each in found.flows):
        console.print(_flows(found))
    if found.clusters:
        console.print(_clusters(found))
    if found.silent:
        names = ", ".join(found.silent[:_SHOWN])
        more = f" and {len(found.silent) - _SHOWN} more" if len(found.silent) > _SHOWN else ""
        text = f"first for no request in {found.days:g} days: {names}{more}"
        console.print(styled(text, "dim", limit=4_000), soft_wrap=True)
    for note in found.notes:
        hint(note)


def _windows(found: Drift) -> Table:
    table = _table("", _days(found.now), _days(found.before))
    sides = (found.now, found.before)
    table.add_row("requests", *(Text(str(each.requests)) for each in sides))
    table.add_row("a model was asked", *(_share(each.asked) for each in sides))
    table.add_row("nothing was chosen", *(_share(each.none) for each in sides))
    table.add_row("expected to be right", *(_expected(each.accuracy) for each in sides))
    table.add_row("right, as people said", *(_share(each.accuracy.observed) for each in sides))
    return table


def _flows(found: Drift) -> Table:
    table = _table("flow, least sure first", "requests", "before", "expected", "before", "right, as people said")
    for each in [each for each in found.flows if each.now.requests][:_SHOWN]:
        table.add_row(
            styled(each.flow),
            str(each.now.requests),
            str(each.before.requests),
            _expected(each.now),
            _expected(each.before),
            _share(each.now.observed),
        )
    return table


def _clusters(found: Drift) -> Table:
    table = _table("requests without a flow", "now", "before", "nearest flow")
    for each in found.clusters[:_SHOWN]:
        table.add_row(styled(" · ".join(each.texts)), str(each.size), str(each.before), styled(each.nearest))
    return table


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for place, name in enumerate(names):
        table.add_column(name, overflow="fold", justify="left" if not place else "right")
    return table


def _share(share: Share) -> Text:
    if share.share is None or share.low is None or share.high is None:
        return Text("–", style="dim")
    return Text(f"{share.share:.0%} of {share.of} ({share.low:.0%}–{share.high:.0%})")


def _expected(accuracy: Accuracy) -> Text:
    return Text("–", style="dim") if accuracy.expected is None else Text(f"{accuracy.expected:.0%}")


def _days(window: Window) -> str:
    since, until = (datetime.fromtimestamp(each, UTC).strftime("%d %b %H:%M") for each in (window.since, window.until))
    return f"{since} – {until}"
