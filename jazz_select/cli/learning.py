"""`jazz-select learn` and `drift`: what a log of outcomes teaches, and how selection changes in it."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazz_select.cli.session import catalogue
from jazz_select.cli.terminal import emit, hint, listing, mark, stdout, styled, waiting
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.evaluation.drifting import DAY_S, Accuracy, Drift, Share, Window, drift
from jazz_select.evaluation.learning import Learned, learn, told
from jazz_select.evaluation.overlay import Overlay, changed_overlay, load_overlay
from jazz_select.evaluation.route import Policy
from jazz_select.evaluation.trial import Trial, compared
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.settings import Settings

_SHOWN = 20
FILE = Path("learned.yaml")
"""Where it is kept, unless a file is named."""


class Step(StrEnum):
    """What is to be done."""

    LEARN = "learn"
    SHADOW = "shadow"
    PROMOTE = "promote"
    ROLL_BACK = "roll-back"

    @classmethod
    def of(cls, *, shadow: bool, promote: bool, roll_back: bool) -> Self:
        """The one that was asked for.

        Raises:
            ConfigError: More than one was.
        """
        if shadow + promote + roll_back > 1:
            msg = "pass one of --shadow, --promote and --roll-back: they are done one after the other"
            raise ConfigError(msg)
        return cls("shadow" if shadow else "promote" if promote else "roll-back" if roll_back else "learn")


def run_learn(  # noqa: PLR0913 - the options of the command
    settings: "Settings",
    log: Path | None,
    *,
    step: Step,
    cases: Path | None,
    most: int,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Do the step, and report; exit code 1 where the gate let nothing pass.

    Raises:
        ConfigError: The log is missing, or a file cannot be used.
    """
    file = settings.learned or FILE
    if step in {Step.PROMOTE, Step.ROLL_BACK}:
        _move(file, step, dry_run=dry_run, as_json=as_json)
        return
    if log is None:
        msg = "name the log to learn from: jazz-select learn outcomes.db"
        raise ConfigError(msg)
    overlay = load_overlay(file, must_exist=step is Step.SHADOW)
    if step is Step.SHADOW:
        trial = asyncio.run(_compare(settings, log, overlay))
        if as_json:
            emit(trial.to_dict())
        else:
            _show_trial(trial, stdout())
        return
    learned = asyncio.run(_learn(settings, log, overlay, cases, most))
    kept = learned if dry_run else _kept(file, learned, overlay)
    while kept is None:  # what is learned has to go on from the version that is live by now, and be judged so
        overlay = load_overlay(file)
        hint(f"another version in {file} became live meanwhile: learning again from there")
        learned = asyncio.run(_learn(settings, log, overlay, cases, most))
        kept = _kept(file, learned, overlay)
    learned = kept
    if as_json:
        emit(learned.to_dict())
    else:
        _show(learned, file, stdout(), dry_run=dry_run)
    if learned.version is None and learned.gain is not None:
        raise typer.Exit(1)


def _kept(file: Path, learned: Learned, overlay: Overlay) -> Learned | None:
    """What was learned, on trial in the file; None where the live version is not the one that it goes on from."""
    version = learned.version
    if version is None:
        return learned

    def tried(now: Overlay) -> Overlay:
        return now.tried(version) if now.version("live") == overlay.version("live") else now

    now = changed_overlay(file, tried)
    return learned.numbered(now.shadow) if now.version("live") == overlay.version("live") else None


def _move(file: Path, step: Step, *, dry_run: bool, as_json: bool) -> None:
    change = Overlay.promoted if step is Step.PROMOTE else Overlay.rolled_back
    before = load_overlay(file, must_exist=True).live
    overlay = change(load_overlay(file)) if dry_run else changed_overlay(file, change, must_exist=True)
    if as_json:
        emit({"live": overlay.live, "shadow": overlay.shadow})
        return
    would = "would be" if dry_run else "is"
    now, was = (_called(each, overlay) for each in (overlay.live, before))
    stdout().print(styled(f"{now} {would} live; before: {was}. Your flows are unchanged."), soft_wrap=True)
    if not dry_run:
        hint(f"the index has it after: jazz-select sync --learned {file}")


def _called(number: int, overlay: Overlay) -> str:
    version = overlay.version(number)
    if version is None:
        return f"version {number}" if number else "what the authors wrote"
    return f"version {number} ({counted(version.count, 'example')})"


async def _learn(settings: "Settings", log: Path, overlay: Overlay, cases: Path | None, most: int) -> Learned:
    registry = catalogue(settings)
    given: Sequence[Case] = () if cases is None else load_cases(cases, registry, flows=settings.flows)
    entries = list(OutcomeLog.existing(log).read(agent_id=settings.agent_id, corrected=True))
    with waiting(f"learning from {len(entries)} corrections"):
        return await learn(
            registry,
            entries,
            gate_cases=given,
            overlay=overlay,
            embedder=settings.embedder,
            language=settings.language,
            policy=Policy.of(settings),
            most=most,
        )


async def _compare(settings: "Settings", log: Path, overlay: Overlay) -> Trial:
    registry = catalogue(settings)
    entries = OutcomeLog.existing(log).read(agent_id=settings.agent_id)
    with waiting("asking both versions"):
        return await compared(
            registry,
            entries,
            overlay,
            embedder=settings.embedder,
            language=settings.language,
            policy=Policy.of(settings),
        )


def _show(learned: Learned, file: Path, console: Console, *, dry_run: bool) -> None:
    headline = styled(_headline(learned), "bold", limit=500)
    console.print(Text.assemble(mark(console, good=learned.version is not None), " ", headline), soft_wrap=True)
    if learned.gain is not None:
        console.print(styled(told(learned.gain)), soft_wrap=True)
    rows = [(styled(each.text), styled(each.flow, "green"), styled(each.before, "dim")) for each in learned.added]
    _show_table(console, ("learned", "for", "leads to now"), rows)
    left = [(styled(each.request), _named(each.right), styled(each.why, "yellow")) for each in learned.refused]
    _show_table(console, ("left out", "for", "why"), left)
    found = [(styled(each.request), _named(each.right)) for each in learned.suggested]
    _show_table(console, ("gathered by an agent, for you to look at", "maybe for"), found)
    for note in learned.notes:
        hint(note)
    if learned.version is None:
        return
    where = "nothing was written (dry run)" if dry_run else f"version {learned.version.number} is on trial in {file}"
    took = f"{learned.held} corrections are kept to judge by; {learned.refits} indexes, {learned.took_s:.1f} s"
    console.print(styled(f"{where}; {took}", "dim"), soft_wrap=True)
    if not dry_run:
        hint("--shadow shows what it would have changed, --promote makes it live")


def _named(names: Sequence[str]) -> Text:
    return styled(", ".join(names) or "no flow")


def _headline(learned: Learned) -> str:
    if learned.version is None:
        return f"nothing was learned: {learned.nothing}"
    flows = len({each.flow for each in learned.added})
    what = f"{counted(len(learned.added), 'example')} learned for {counted(flows, 'flow')}"
    return f"{what}, from {counted(learned.corrections, 'correction')}"


def _show_trial(trial: Trial, console: Console) -> None:
    console.print(styled(str(trial), "bold"), soft_wrap=True)
    rows: list[tuple[Text, ...]] = []
    for each in trial.changes:
        good = each.right is None or each.after in each.right
        after = styled(each.after, "" if each.right is None else "green" if good else "red")
        right = Text() if each.right is None else _named(each.right)
        rows.append((styled(each.request), styled(each.before), after, right))
    _show_table(console, ("request", "live", "on trial", "said to be right"), rows, count=trial.changed)
    for note in trial.notes:
        hint(note)


def _show_table(
    console: Console, names: tuple[str, *tuple[str, ...]], rows: Sequence[Sequence[Text]], *, count: int | None = None
) -> None:
    if not rows:
        return
    table = listing(*names)
    for row in rows[:_SHOWN]:
        table.add_row(*row)
    console.print()
    console.print(table)
    left = (len(rows) if count is None else count) - _SHOWN
    if left > 0:
        console.print(styled(f"and {left} more: --json has them", "dim"))


_MOST = 15


def run_drift(settings: "Settings", log: Path, *, days: float, fail_on_alarm: bool, as_json: bool) -> None:
    """Compare, and report; exit code 1 where there is an alarm and that was asked for."""
    found = asyncio.run(_drift(settings, log, days))
    if as_json:
        emit(found.to_dict())
    else:
        _show_drift(found, stdout())
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


def _show_drift(found: Drift, console: Console) -> None:
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
        names = ", ".join(found.silent[:_MOST])
        more = f" and {len(found.silent) - _MOST} more" if len(found.silent) > _MOST else ""
        text = f"first for no request in {found.days:g} days: {names}{more}"
        console.print(styled(text, "dim", limit=4_000), soft_wrap=True)
    for note in found.notes:
        hint(note)


def _windows(found: Drift) -> Table:
    table = listing("", _days(found.now), _days(found.before), numbers=True)
    sides = (found.now, found.before)
    table.add_row("requests", *(Text(str(each.requests)) for each in sides))
    table.add_row("a model was asked", *(_share(each.asked) for each in sides))
    table.add_row("nothing was chosen", *(_share(each.none) for each in sides))
    table.add_row("expected to be right", *(_expected(each.accuracy) for each in sides))
    table.add_row("right, as people said", *(_share(each.accuracy.observed) for each in sides))
    return table


def _flows(found: Drift) -> Table:
    table = listing(
        "flow, least sure first", "requests", "before", "expected", "before", "right, as people said", numbers=True
    )
    for each in [each for each in found.flows if each.now.requests][:_MOST]:
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
    table = listing("requests without a flow", "now", "before", "nearest flow", numbers=True)
    for each in found.clusters[:_MOST]:
        table.add_row(styled(" · ".join(each.texts)), str(each.size), str(each.before), styled(each.nearest))
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
