"""`jazz-select eval` and `diff`: how well the flows are found on labelled requests, and what a change of them moves."""

import asyncio
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from jazz_select.agent import Agent
from jazz_select.build import load_factory, made_by, open_selector
from jazz_select.cli.session import (
    catalogue,
    existing_log,
    index_place,
    logged_entries,
    look_here,
    open_for_reading,
    require_flows,
)
from jazz_select.cli.terminal import (
    Column,
    facts,
    fill_template,
    hint,
    line,
    mark,
    milliseconds,
    progress,
    show,
    spinner,
    stderr,
    styled,
    table,
    tell,
    write_file,
)
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import NONE, Case, Cases, read_cases, read_requests
from jazz_select.evaluation.changes.comparison import diff
from jazz_select.evaluation.changes.difference import (
    ChangeKind,
    Difference,
    Effect,
    Gates,
    RouteChange,
)
from jazz_select.evaluation.changes.markdown_comment import comment
from jazz_select.evaluation.evaluating import evaluate
from jazz_select.evaluation.index import AGENT, CACHE, indexed
from jazz_select.evaluation.judged import Judged, failures, floors_of
from jazz_select.evaluation.reports import choice_line, junit, markdown_report, none_line, percent
from jazz_select.evaluation.route import DEPTH, Routed, RouteOptions
from jazz_select.evaluation.scores import DEPTHS, Evaluation
from jazz_select.json_values import indented_json
from jazz_select.selector.select import FlowSelector
from jazz_select.text import count_of

if TYPE_CHECKING:
    from jazz_select.cli.config import EvalConfig
    from jazz_select.cli.main import DiffCommand, EvalCommand
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.settings import Settings

_NOT_GOOD_ENOUGH = 1
_FLOWS, _PAIRS, _MISSES, _PROBLEMS, _CHANGES = 5, 8, 30, 20, 30
"""How much of each is shown; `--json` has all of it."""
_SUFFIXES = {".json": "json", ".xml": "junit", ".md": "markdown", ".markdown": "markdown"}


_COMPARED = "recall decides alone what it expects to be wrong no more often than max_error"
"""What an error budget is compared with."""


def judge(settings: "Settings", given: "EvalCommand") -> None:
    """Measure, report, and end with 1 where something was left out or a floor is not reached."""
    config = given.merge_config()
    if given.json and config.output is None and config.format not in {None, "json"}:
        raise ConfigError(f"the format is {config.format}, and --json is another: pass one of them")
    registry = catalogue(settings, learned=settings.learned)
    cases = _filter_by_tags(read_cases(given.file, registry, flows=settings.flows), config.tag)
    depths = tuple(sorted({*DEPTHS, *config.k}))
    # Check the floors before anything costs time or calls: a name may be misspelt.
    floors = floors_of(config.fail_under, _empty_evaluation(cases, depths).measures)
    found = asyncio.run(_run_evaluation(settings, registry, cases, depths, config, is_deployed=given.is_deployed))
    failed = failures(floors, found.measures)
    _write(found, settings, given, config, failed)
    for problem in found.problems[:_PROBLEMS]:
        hint(f"{'note' if problem.is_note else 'left out'}: {problem}")
    if len(found.problems) > _PROBLEMS:
        hint(f"… and {len(found.problems) - _PROBLEMS:,} more; --json has all")
    show((line(each, style="bold red", limit=300) for each in failed), stderr())
    if failed or cases.errors:
        raise typer.Exit(_NOT_GOOD_ENOUGH)


def _filter_by_tags(cases: Cases, tags: Sequence[str]) -> Cases:
    if not tags:
        return cases
    kept: list[Case] = []
    known: set[str] = set()
    for case in cases:
        known.update(case.tags)
        if not set(tags).isdisjoint(case.tags):
            kept.append(case)
    if not kept:
        listed = "none of its cases has a tag"
        if known:
            listed = f"there are {', '.join(sorted(known)[:20])}"
        raise ConfigError(f"{cases.file} has no case with the tag {', '.join(tags)}: {listed}")
    return Cases(cases=tuple(kept), problems=cases.problems, file=cases.file)


def _empty_evaluation(cases: Cases, depths: tuple[int, ...]) -> Evaluation:
    """Return every measure of a run, without values."""
    judged = tuple(Judged(case=case, route=Routed(request=case.request)) for case in cases)
    return Evaluation(judged=judged, routing=RouteOptions(), agent_id="", embedder="", flows=0, depths=depths)


async def _run_evaluation(
    settings: "Settings",
    registry: "FlowRegistry",
    cases: Cases,
    depths: tuple[int, ...],
    config: "EvalConfig",
    *,
    is_deployed: bool,
) -> Evaluation:
    who = " and ".join(each for each in (settings.decider, settings.llm) if each)
    async with AsyncExitStack() as stack:
        where: dict[str, Any] = {"embedder": settings.embedder, "language": settings.language, "cache": CACHE}
        if is_deployed:
            memory = await stack.enter_async_context(open_for_reading(settings))
            await require_flows(memory, settings)
            where = {"memory": memory, "agent_id": settings.agent_id}
        elif config.factory:
            where = {"memory": await stack.enter_async_context(indexed(registry, **where)), "agent_id": AGENT}
        judged: dict[str, Any] = {"model": settings.llm, "decider": settings.decider}
        if config.factory:
            own = settings.model_copy(update={"agent_id": where["agent_id"]})
            selector = await stack.enter_async_context(open_selector(own, where["memory"], registry))
            judged = {"selector": await _selector_of(config.factory, selector, settings.llm)}
        update = stack.enter_context(progress(f"asking {who}" if who else "recalling"))
        return await evaluate(
            cases,
            registry,
            routing=RouteOptions.from_settings(settings),
            **judged,
            at=config.at,
            depths=depths,
            timeout_s=settings.timeout_s,
            log=None if config.log is None else existing_log(config.log, settings),
            log_agent_id=settings.agent_id,
            progress=update,
            **where,
        )


async def _selector_of(named: str, selector: FlowSelector, model: str | None) -> FlowSelector:
    """Return the selector of the agent that a factory makes: teams judge what they serve."""
    look_here()
    agent = made_by(load_factory(named, named_by="--agent"), selector, model)
    if inspect.isawaitable(agent):
        agent = await agent
    if not isinstance(agent, Agent):
        raise ConfigError(f"--agent {named} must give an Agent, got {agent!r:.80}")
    return agent.selector


def _write(
    found: Evaluation, settings: "Settings", given: "EvalCommand", config: "EvalConfig", failed: Sequence[str]
) -> None:
    """Write the report to its file, in the form that is named or that its suffix says, and show it."""
    guessed = "" if config.output is None else _SUFFIXES.get(config.output.suffix.lower(), "")
    form = config.format or guessed or "table"
    shown = _measure_lines(found, settings, by_flow=config.by_flow, is_deployed=given.is_deployed)
    if config.output is None and form != "table" and not given.json:
        typer.echo(_text(form, found, given, shown, failed).rstrip("\n"))
        return
    if config.output is not None:
        shown = list(shown)  # used twice: in the file, and on the terminal
        write_file(config.output, _text(form, found, given, shown, failed), option="--output")
    tell(found.to_dict(), shown, json=given.json)


def _text(
    form: str, found: Evaluation, given: "EvalCommand", shown: Iterable[RenderableType], failed: Sequence[str]
) -> str:
    if form == "json":
        return indented_json(found.to_dict())
    if form == "junit":
        return junit(found, name=given.file.stem)
    if form == "markdown":
        return markdown_report(found, failed=failed)
    console = Console(file=StringIO(), record=True, width=100, highlight=False)
    show(shown, console)
    return console.export_text()


def _measure_lines(
    found: Evaluation, settings: "Settings", *, by_flow: bool, is_deployed: bool
) -> Iterator[RenderableType]:
    values = found.to_dict()
    names = [*(f"R@{depth}" for depth in found.depths), "R@k"]
    shares = {f">{name}": f"{{measures.{name}.value:.1%}}" for name in names}
    of_group: dict[str, Column] = {
        "": lambda group: "one flow" if group["name"] == "one" else styled(group["name"], limit=30),
        ">cases": "{cases:,}",
        **shares,
        f">MRR@{DEPTH}": "{measures.MRR.value:.3f}",
        ">cover": "{measures.coverage.value:.1%}",
        ">size": "{measures.size.value:.1f}",
        ">exact": "{measures.exact.value:.1%}",
    }
    yield table(values["groups"], of_group)
    known = {
        "model": styled(choice_line(found), "bold", limit=1_000) if found.choices is not None else "",
        "none": none_line(found),
        "asked": _asked_line(found),
        "sureness": _sureness_line(found),
        "alone": "" if found.forecast is None else styled(str(found.forecast), limit=2_000),
        "budget": styled(f"for {found.at:.4g}: {found.sweep}. {_COMPARED}", limit=2_000),
    }
    yield facts(known)
    if found.stages:
        yield table(values["stages"], _OF_STAGE)
    worst = [each for each in values["by_flow"] if by_flow or each["recall_at_1"] < 1]
    if worst:
        title = "flow" if by_flow else f"worst of {count_of(len(worst), 'flow')} with misses"
        yield table(worst, {title: "{name}", **_OF_FLOW}, most=None if by_flow else _FLOWS)
    pairs = [each for each in values["confusions"] if each["count"] > 1]
    if pairs:
        yield table(pairs, _OF_CONFUSION, most=_PAIRS)
    if found.misses:
        title = "1 miss" if len(found.misses) == 1 else f"{len(found.misses)} misses"
        yield table(values["misses"], {">rank": f"{{rank|>{DEPTH}}}", title: _show_miss}, most=_MISSES)
    index = "as they are written"
    if is_deployed:
        index = f"agent {settings.agent_id}, index {index_place(settings)}"
    took = "" if found.p50_s is None else f", {milliseconds(found.p50_s)} a request"
    where = f"flows {settings.flows}, {index}, embedder {found.embedder}, top-k {settings.top_k}{took}"
    yield line(where, style="dim")


_OF_STAGE: Final[Mapping[str, Column]] = {
    "stage": "{name}",
    ">asked": "{asked:,}",
    ">decided": "{decided:,}",
    ">share": "{share:.1%}",
    ">right": "{accuracy:.1%}",
    ">passed over": "{failed:,}",
    ">tokens in / out": "{input_tokens:,} / {output_tokens:,}",
    ">each": lambda stage: milliseconds(stage["took_s"] / stage["asked"]),
}
_OF_FLOW: Final[Mapping[str, Column]] = {
    ">cases": "{cases}",
    ">R@1": "{recall_at_1:.1%}",
    ">cover": "{coverage:.1%}",
    ">takes": "{takes}",
    "taken by": lambda flow: styled(", ".join(map(_flow_with_count, flow["taken_by"]))),
}
_OF_CONFUSION: Final[Mapping[str, Column]] = {
    ">cases": "{count}",
    "confused more than once": lambda pair: Group(
        fill_template(f"[green]{{expected|{NONE}}}[/] [dim]taken for[/] [red]{{first|{NONE}}}[/]", pair),
        *(styled(request, "dim") for request in pair["requests"]),
    ),
}


def _show_miss(miss: Mapping[str, Any]) -> Group:
    asked = fill_template("{id}: {request}" if miss["id"] else "{request}", miss)
    return Group(asked, fill_template("[green]{expect}[/] [dim]after[/] [red]{first|nothing}[/]", miss))


def _flow_with_count(by: Mapping[str, Any]) -> str:
    name = by["flow"] or "nothing"
    if by["count"] > 1:
        return f"{name} ({by['count']})"
    return name


def _asked_line(found: Evaluation) -> str:
    total, unasked, right = len(found.judged), found.measures["unasked"], found.measures["unasked-right"]
    count = round((unasked.value or 0) * total)
    if not count:
        return f"with this policy a model would be asked about all {total:,}"
    correct = round((right.value or 0) * right.cases)
    low, high = right.low or 0.0, right.high or 0.0
    between = f"{correct:,} of them right ({percent(right)}, between {low:.1%} and {high:.1%})"
    return f"{count:,} of {total:,} are decided without a model ({percent(unasked)}), {between}"


def _sureness_line(found: Evaluation) -> str:
    error, tells = found.measures["ECE"], found.measures["AUROC"]
    if error.value is None:
        return "the confidence of recall is not known: the catalogue has too few examples"
    apart = "" if tells.value is None else f", AUROC {tells.value:.3f}"
    return f"ECE {error.value:.3f}{apart}, of the first over {error.cases:,} cases"


_MOST_LOGGED = 20_000
_CASES = Path("examples/eval.yaml")
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


def compare(settings: "Settings", given: "DiffCommand") -> None:
    """Compare, and report; the exit code is 1 where a gate is not passed."""
    gates = Gates.load(Path.cwd())
    requests = list(read_requests(given.requests or ()))
    if given.log is not None:
        requests += _logged_requests(given.log, settings)
    cases = given.cases or []
    if not cases and _CASES.is_file():
        cases = [_CASES]
        hint(f"the cases are those of {_CASES}; --cases names others")
    # The default is a folder of each side, never a package of that name from elsewhere.
    flows = settings.flows if "flows" in settings.model_fields_set else f"./{settings.flows}"
    with spinner("comparing"):
        found = asyncio.run(
            diff(
                given.base,
                given.head,
                flows=flows,
                base_flows=given.base_flows,
                cases=cases,
                requests=requests,
                routing=RouteOptions.from_settings(settings),
                embedder=settings.embedder,
                language=settings.language,
                agent_id=settings.agent_id,
                gates=gates,
                learned=settings.learned,
                **({"cache": None} if given.no_cache else {}),
            )
        )
    if given.markdown is not None:
        write_file(given.markdown, comment(found), option="--markdown")
    tell(found.to_dict(), _difference(found, gates, most=None if given.all else _CHANGES), json=given.json)
    if not found.passed:
        raise typer.Exit(_NOT_GOOD_ENOUGH)


def _logged_requests(log: Path, settings: "Settings") -> list[str]:
    """Return the logged requests without earlier turns, the newest first."""
    entries = logged_entries(log, settings)
    asked = dict.fromkeys(each.request for each in reversed(entries) if each.request and each.alone)
    if entries and not asked:
        hint(f"{log} has no request of agent {settings.agent_id!r} that can be asked again")
    if len(asked) > _MOST_LOGGED:
        hint(f"of the {len(asked):,} requests in {log} the newest {_MOST_LOGGED:,} are asked")
    return list(asked)[:_MOST_LOGGED]


def _difference(found: Difference, gates: Gates, *, most: int | None) -> Iterator[RenderableType]:
    yield line(fill_template("[bold]{base}[/] → [bold]{head}[/]", found))
    if found.flows.any:
        names = found.flows.in_words
        yield facts({f"flows {what}": styled(", ".join(names[what]), style, limit=1_000) for what, style in _FLOWS_ARE})
    before, after = found.before.figures, found.after.figures
    sides = [{"what": what, "before": before[what], "after": after[what]} for what in before]
    yield table(sides, {"": "{what}", ">before": "{before}", ">after": "{after}"})
    yield line(found.summary, style="bold")
    if found.changes:
        telling: Sequence[RouteChange] = found.changes
        if most is not None:  # what changes behind the first candidate only is counted, not shown
            telling = [each for each in found.changes if not each.is_shuffle]
        if telling:
            yield table(telling[:most], _OF_CHANGE)
        more = len(found.changes) - len(telling[:most])
        if more:
            alone = len(found.changes) - len(telling)
            what = f", {alone:,} of them in nothing but the other candidates" if alone else ""
            yield line(f"… and {more:,} more{what} (--all, --json or --markdown)", style="dim")
    if found.confusions:
        yield table(found.confusions, _OF_CONFUSIONS, most=most)
    for note in found.notes:
        yield line(f"note: {note}", style="yellow", limit=300)
    for failure in found.failures:
        yield line(mark(good=False), styled(failure.message, "red", limit=600))
    if gates.any and found.passed:
        yield line(mark(good=True), "every gate is passed")
    yield line(f"took {found.took_s:.1f} s, no model was asked", style="dim")


_FLOWS_ARE: Final = (("added", "green"), ("removed", "red"), ("renamed", "yellow"), ("changed", "yellow"))
_OF_CONFUSIONS: Final[Mapping[str, Column]] = {
    "confused more often: right": "{expected}",
    "first": "{first}",
    ">before": "{before:,}",
    ">after": "{after:,}",
}


def _change_label(change: RouteChange) -> Text:
    what = change.effect.value or next(kind.value for kind in _TOLD if kind in change.kinds)
    return styled(what, _EFFECTS[change.effect])


def _change_lines(change: RouteChange) -> Group:
    lines = [styled(each, "dim") for each in change.details]
    if ChangeKind.FIRST in change.kinds:
        lines.insert(0, fill_template("[dim]first {before.first|nothing} → {after.first|nothing}[/]", change))
    return Group(styled(change.request), *lines)


_OF_CHANGE: Final[Mapping[str, Column]] = {"": _change_label, "from": "[dim]{source}[/]", "request": _change_lines}
