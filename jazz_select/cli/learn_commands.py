"""`jazz-select learn` and `drift`: what a log of outcomes teaches, and how selection changes in it."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import RenderableType
from rich.text import Text

from jazz_select.cli.session import (
    LogSource,
    catalogue,
    existing_log,
    logged_entries,
    opened_learning,
    sync_command,
    tools_beside,
    writable_log,
)
from jazz_select.cli.terminal import Column, fill_template, line, mark, spinner, styled, table, tell
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.evaluation.corrections import SHORT_ID, Correction, review, tell_unlearned
from jazz_select.evaluation.drifting import Drift, Share, Window, drift
from jazz_select.evaluation.learner import Learned, learn
from jazz_select.evaluation.overlay import Overlay, OverlayFile, OverlayStore, examples_of, load_overlay
from jazz_select.evaluation.route import RouteOptions
from jazz_select.evaluation.trial import Change, Trial, compared
from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.outcomes.audit import audit_of
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.selector.policy import policy_of_settings
from jazz_select.text import count_of, some_of

if TYPE_CHECKING:
    from jazz_select.cli.main import DriftCommand, LearnCommand
    from jazz_select.settings import Settings

_SHOWN, _MOST, _MOST_SOURCES = 20, 15, 3
"""How much of each is shown of what was learned, of what changed, and of who said so; `--json` has all of it."""


def learn_from(settings: "Settings", given: "LearnCommand") -> None:
    """Do the step that was asked for, and report."""
    asked = (given.shadow, given.promote, given.roll_back, bool(given.accept or given.undo))
    if sum(asked) > 1:
        raise ConfigError(
            "pass one of --shadow, --promote and --roll-back, or --accept and --undo: they are done one after the other"
        )
    with opened_learning(settings, given.log) as (log, store):
        if given.promote or given.roll_back:
            _move(store, log, settings, given)
        elif log is None:
            raise ConfigError("name the log to learn from: jazz-select learn outcomes.db")
        else:
            _learn(store, log, settings, given)


def _learn(store: OverlayStore, log: "LogSource", settings: "Settings", given: "LearnCommand") -> None:
    if given.shadow:
        _require_begun(store)
    overlay = store.load()
    if given.shadow and overlay.version("shadow") is None:
        _say_nothing_on_trial(store, overlay, given)
        return
    registry = catalogue(settings)
    how: Any = {
        "embedder": settings.embedder,
        "language": settings.language,
        "routing": RouteOptions.from_settings(settings),
    }
    if given.shadow:
        logged = logged_entries(log, settings)
        with spinner("asking both versions"):
            trial = asyncio.run(compared(registry, logged, overlay, **how))
        tell(trial.to_dict(), _trial(trial), trial.notes, json=given.json)
        return
    cases: Sequence[Case] = ()
    if given.cases is not None:
        cases = load_cases(given.cases, registry, flows=settings.flows)
    _review(log, given, settings.agent_id, overlay)
    entries = logged_entries(log, settings, corrected=True)
    tools = tools_beside(settings.flows, given.tools)
    if isinstance(tools, str):
        tools = load_tools(tools, allow_modules=settings.allowed_modules)
    how["tools"] = tools
    with spinner(f"learning from {len(entries)} corrections"):
        undo = given.undo or ()
        learned = asyncio.run(learn(registry, entries, gate_cases=cases, overlay=overlay, undo=undo, **how))
    kept = _put_on_trial(store, learned, overlay)
    next_step = () if kept.version is None else (_NEXT,)
    tell(kept.to_dict(), _lesson(kept, store), (*kept.notes, *next_step), json=given.json)


def _require_begun(store: OverlayStore) -> None:
    if isinstance(store, OverlayFile):
        load_overlay(store.file, must_exist=True)
    elif not store.is_begun:
        raise ConfigError(f"nothing was learned for this agent yet in {store.name}: jazz-select learn does")


def _review(source: "LogSource", given: "LearnCommand", agent_id: str, overlay: Overlay) -> None:
    """Write a person's word on what was said into the log."""
    if not given.accept and not given.undo:
        return
    learned: list[str] = []
    for texts in examples_of(overlay.version("live")).values():
        for ids in texts.values():
            learned += ids.split()
    with writable_log(source) as log:
        review(
            log,
            agent_id=agent_id,
            accept=given.accept or (),
            undo=given.undo or (),
            learned=learned,
            source=Source(kind="person", name=given.by),
        )


_NEXT = "--shadow shows what it would have changed, --promote makes it live"


def _put_on_trial(store: OverlayStore, learned: Learned, overlay: Overlay) -> Learned:
    """Put what was learned on trial, unless it was judged beside a version that is no longer live.

    The file is there afterwards, whatever was learned, since the commands that follow read it.
    """
    version = learned.version
    if version is None:
        _ = store.change(lambda now: now if store.is_begun else Overlay())
        return learned

    def try_version(now: Overlay) -> Overlay:
        if now.version("live") != overlay.version("live"):
            raise ConfigError(f"another version in {store.name} became live meanwhile: learn again, from there")
        return now.start_trial(version)

    return learned.numbered(store.change(try_version).shadow)


def _say_nothing_on_trial(store: OverlayStore, overlay: Overlay, given: "LearnCommand") -> None:
    """Say that the last `learn` put nothing on trial, which is no error: what is live stays."""
    text = (
        f"no version is on trial in {store.name}, so nothing changes: {_version_label(overlay.live, overlay)} is live"
    )
    tell({"live": overlay.live, "shadow": overlay.shadow}, [line(text)], json=given.json)


def _move(store: OverlayStore, source: "LogSource | None", settings: "Settings", given: "LearnCommand") -> None:
    change = Overlay.promote if given.promote else Overlay.roll_back
    _require_begun(store)
    known = store.load()
    if given.promote and known.version("shadow") is None:
        _say_nothing_on_trial(store, known, given)
        return
    before = known.live
    with nullcontext() if source is None or given.promote else writable_log(source) as log:
        overlay = store.change(change)
        report = _tell_rolled_back(log, given, known, overlay)
    now, earlier = _version_label(overlay.live, overlay), _version_label(before, overlay)
    moved = f"{now} is live; before: {earlier}. Your flows are unchanged."
    after = "replicas that run sync the index by themselves; else jazz-select sync does"
    if isinstance(store, OverlayFile):
        after = f"the index has it after: {sync_command(settings.model_copy(update={'learned': store.file}))}"
    tell({"live": overlay.live, "shadow": overlay.shadow}, [line(moved)], [*report, after], json=given.json)


def _tell_rolled_back(log: OutcomeLog | None, given: "LearnCommand", before: Overlay, after: Overlay) -> list[str]:
    """Write into the log what is learned no more, so that the next `learn` keeps to it; return notes for people."""
    if given.promote:
        return []
    if log is None:
        return ["the log was not updated, so the next learn learns this again: jazz-select learn LOG --roll-back does"]
    person = Source(kind="person", name=given.by)
    count = tell_unlearned(log, examples_of(before.version("live")), examples_of(after.version("live")), source=person)
    return [f"{count_of(count, 'request')} marked in the log: none is learned again until a person corrects it"]


def _version_label(number: int, overlay: Overlay) -> str:
    version = overlay.version(number)
    if version is None:
        return f"version {number}" if number else "what the authors wrote"
    return f"version {number} ({count_of(version.count, 'example')})"


def _lesson(learned: Learned, store: OverlayStore) -> Iterator[RenderableType]:
    version = learned.version
    yield line(mark(good=version is not None), str(learned), style="bold", limit=300)
    for name, columns in _OF_LESSON.items():
        rows: Sequence[Correction] = getattr(learned, name)
        if rows:
            yield table(rows, columns, most=_SHOWN)
    if learned.cost is not None and learned.cost.moved:
        yield table(learned.cost.moved, _OF_COST, most=_SHOWN)
    if version is not None:
        text = f"version {version.number} is on trial in {store.name}; {learned.took_s:.1f} s"
        yield line(text, style="dim")


def _sources(each: Correction) -> Text:
    return styled(some_of(each.sources, _MOST_SOURCES), "dim")


def _ids(each: Correction) -> Text:
    if not each.ids:
        return Text()
    first, *others = each.ids
    more = f" +{len(others)}" if others else ""
    return styled(f"{first[:SHORT_ID]}{more}", "dim")


def _list_columns(name: str) -> Mapping[str, Column]:
    return {name: "{request}", "for": "{right|no flow}", "why": "[yellow]{why}[/]", "said by": _sources, "id": _ids}


_OF_LESSON: Final[Mapping[str, Mapping[str, Column]]] = {
    "added": {
        "learned": "{request}",
        "for": "[green]{flow}[/]",
        "led to": "[dim]{first}[/]",
        "said by": _sources,
        "id": _ids,
    },
    "waiting": _list_columns("waits (--accept ID)"),
    "overruled": _list_columns("overruled"),
    "taken_back": {"taken back": "{request}", "why": "[yellow]{why}[/]", "id": _ids},
    "unlearnable": _list_columns("can be no example"),
}


def _trial(trial: Trial) -> Iterator[RenderableType]:
    yield line(str(trial), style="bold", limit=300)
    columns: dict[str, Column] = {
        "request": "{request}",
        "live": "{before}",
        "on trial": _style_after,
        "said to be right": lambda each: "" if each.right is None else fill_template("{right|no flow}", each),
    }
    if trial.changes:
        yield table(trial.changes, columns, most=_SHOWN, count=trial.changed)


def _style_after(change: Change) -> Text:
    if change.right is None:
        return styled(change.after)
    is_right = change.after in (change.right or ("",))  # where no flow is right, no flow may come first
    return styled(change.after, "green" if is_right else "red")


def watch(settings: "Settings", given: "DriftCommand") -> None:
    """Compare, and report; exit code 1 where there is an alarm and that was asked for."""
    registry = catalogue(settings, learned=settings.learned_by_now)
    policy = policy_of_settings(settings)
    flows = {flow.name: flow for flow in registry.values()}
    with opened_learning(settings, given.log) as (source, _), spinner("reading the log"):
        if source is None:
            raise ConfigError("name the log to look at: jazz-select drift outcomes.db")
        log = existing_log(source, settings)
        audit, _ = audit_of(log, settings.agent_id, lambda name: policy.allowed_error(flows.get(name)))
        entries = log.read(agent_id=settings.agent_id)
        known = audit if audit.moves else None
        found = asyncio.run(drift(entries, registry, days=given.days, embedder=settings.embedder, audit=known))
    tell(found.to_dict(), _show_drift(found), found.notes, json=given.json)
    if given.fail_on_alarm and found.alarms:
        raise typer.Exit(1)


def _show_drift(found: Drift) -> Iterator[RenderableType]:
    for each in found.alarms:
        what = "[bold]{subject}: {message}[/]" if each.subject else "[bold]{message}[/]"
        yield line(mark(good=False), fill_template(what, each, limit=500))
    if not found.alarms:
        yield line(mark(good=True), "nothing to look at", style="bold")
    sides = [{"what": what, "now": of(found.now), "before": of(found.before)} for what, of in _OF_WINDOW.items()]
    yield table(sides, {"": "{what}", f">{_days(found.now)}": "{now}", f">{_days(found.before)}": "{before}"})
    requested = [each for each in found.flows if each.now.requests]
    if requested:
        yield table(requested, _OF_FLOW, most=_MOST)
    if found.audit is not None:
        yield line(str(found.audit))
        yield table(found.audit.moves[-_MOST:], _OF_MOVE, most=_MOST)
    if found.clusters:
        yield table(found.clusters, _OF_CLUSTER, most=_MOST)
    if found.silent:
        names = some_of(found.silent, _MOST)
        yield line(f"first for no request in {found.days:g} days: {names}", style="dim", limit=4_000)


_OF_COST: Final[Mapping[str, Column]] = {
    "would move": "{request}",
    "from": "{before|nothing}",
    "to": _style_after,
    "right": "{right|no flow}",
}
_OF_WINDOW: Final[Mapping[str, Callable[[Window], str]]] = {
    "requests": lambda window: f"{window.requests}",
    "a model was asked": lambda window: _share(window.asked),
    "nothing was chosen": lambda window: _share(window.none),
    "expected to be right": lambda window: fill_template("{accuracy.expected:.0%}", window).plain,
    "right, as people said": lambda window: _share(window.accuracy.observed),
}
_OF_FLOW: Final[Mapping[str, Column]] = {
    "flow, least sure first": "{flow}",
    ">requests (before)": "{now.requests} ({before.requests})",
    ">expected (before)": "{now.expected:.0%} ({before.expected:.0%})",
    ">right, as people said": lambda each: _share(each.now.observed),
}
_OF_MOVE: Final[Mapping[str, Column]] = {
    "threshold of": "{flow|all flows}",
    "moved": lambda each: styled(datetime.fromtimestamp(each.at, UTC).strftime("%d %b %H:%M")),
    "how": "{kind}",
    ">to": "{threshold:.4f}",
    ">promised": "{promise:.1%}",
    "why": "{why}",
}
_OF_CLUSTER: Final[Mapping[str, Column]] = {
    "requests without a flow": lambda each: styled(" · ".join(each.texts)),
    ">now": "{size}",
    ">before": "{before}",
    "nearest flow": "{nearest}",
}


def _share(share: Share) -> str:
    if share.share is None or share.low is None or share.high is None:
        return "–"
    return f"{share.share:.0%} of {share.of} ({share.low:.0%}–{share.high:.0%})"


def _days(window: Window) -> str:
    since, until = (datetime.fromtimestamp(each, UTC).strftime("%d %b %H:%M") for each in (window.since, window.until))
    return f"{since} – {until}"
