"""`jazz-select eval`: how well the flows are found on labelled requests, as tables, JSON, JUnit or Markdown."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from jazz_select.build import with_learned
from jazz_select.cli.session import catalogue, opened_for_reading, place, require_flows
from jazz_select.cli.terminal import facts_grid, hint, milliseconds, progress, ruled, stderr, stdout, styled, write_file
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import NONE, Cases, read_cases
from jazz_select.evaluation.evaluating import evaluate
from jazz_select.evaluation.index import CACHE
from jazz_select.evaluation.judged import Judged, failures, floors_of
from jazz_select.evaluation.reports import choice_line, junit, markdown_report, none_line, percent
from jazz_select.evaluation.route import DEPTH, Policy, Route
from jazz_select.evaluation.scores import DEPTHS, Confusion, Evaluation, FlowScore, Miss, StageMeasures

if TYPE_CHECKING:
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.settings import Settings

_NOT_GOOD_ENOUGH = 1
_FLOWS, _PAIRS, _MISSES, _PROBLEMS = 5, 8, 30, 20
"""How much of each is shown; `--json` has all of it."""


class Format(StrEnum):
    """How it is written."""

    TABLE = "table"
    JSON = "json"
    JUNIT = "junit"
    MARKDOWN = "markdown"


_SUFFIXES = {".json": Format.JSON, ".xml": Format.JUNIT, ".md": Format.MARKDOWN, ".markdown": Format.MARKDOWN}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is to be judged and how it is told.

    Attributes:
        deployed: Whether the index that is there is judged, instead of the flows as they are written.
        at: The accuracy that thresholds are to keep.
        depths: Places beside the usual ones within which right flows are looked for.
        floors: What has to be reached, as it was written.
        form: How it is written; None for what the output's name says, or a table.
        output: Where to, beside the table.
        by_flow: Whether every flow is shown.
        tags: Only cases with one of these; all where there are none.
    """

    deployed: bool
    at: float
    depths: tuple[int, ...] = ()
    floors: tuple[str, ...] = ()
    form: Format | None = None
    output: Path | None = None
    by_flow: bool = False
    tags: tuple[str, ...] = ()

    @property
    def written(self) -> Format:
        """The format, given or guessed."""
        guessed = Format.TABLE if self.output is None else _SUFFIXES.get(self.output.suffix.lower(), Format.TABLE)
        return self.form or guessed


def format_of(name: str | None, *, as_json: bool) -> Format | None:
    """The format of that name.

    Raises:
        ConfigError: There is none, or `--json` asks for another.
    """
    if name is None:
        return Format.JSON if as_json else None
    if name not in set(Format) or (as_json and name != Format.JSON):
        asked = f"--format {name[:60]!r}{' beside --json' if as_json else ''}"
        msg = f"{asked}: pass one of {', '.join(Format)}; --json is --format json"
        raise ConfigError(msg)
    return Format(name)


def run(settings: "Settings", file: Path, wishes: Wishes) -> None:
    """Measure, report, and end with 1 where something was left out or a floor is not reached."""
    registry, untaught = catalogue(settings), tuple[str, ...]()
    if settings.learned is not None:
        registry, untaught = with_learned(registry, settings.learned)
    for note in untaught:
        hint(f"note: {note}")
    cases = _picked(read_cases(file, registry, flows=settings.flows), wishes.tags)
    depths = tuple(sorted({*DEPTHS, *wishes.depths}))
    floors = floors_of(wishes.floors, _foreseen(cases, depths).measures)  # before anything costs time or calls
    found = asyncio.run(_evaluate(settings, registry, cases, depths, wishes))
    failed = failures(floors, found.measures)
    _write(found, settings, wishes, file, failed)
    for problem in found.problems[:_PROBLEMS]:
        hint(f"{'note' if problem.is_note else 'left out'}: {problem}")
    if len(found.problems) > _PROBLEMS:
        hint(f"… and {len(found.problems) - _PROBLEMS:,} more; --json has all")
    for line in failed:
        stderr().print(styled(line, "bold red"), soft_wrap=True)
    if failed or cases.errors:
        raise typer.Exit(_NOT_GOOD_ENOUGH)


def _picked(cases: Cases, tags: Sequence[str]) -> Cases:
    kept = tuple(case for case in cases if not tags or set(tags) & set(case.tags))
    if not kept:
        known = sorted({tag for case in cases for tag in case.tags})
        there = f"there are {', '.join(known[:20])}" if known else "none of its cases has a tag"
        msg = f"{cases.file} has no case with the tag {', '.join(tags)}: {there}"
        raise ConfigError(msg)
    return Cases(cases=kept, problems=cases.problems, file=cases.file)


def _foreseen(cases: Cases, depths: tuple[int, ...]) -> Evaluation:
    """With every measure that there will be, and no value."""
    judged = tuple(Judged(case=case, route=Route(request=case.request)) for case in cases)
    return Evaluation(judged=judged, policy=Policy(), agent_id="", embedder="", flows=0, depths=depths)


async def _evaluate(
    settings: "Settings", registry: "FlowRegistry", cases: Cases, depths: tuple[int, ...], wishes: Wishes
) -> Evaluation:
    policy = Policy.of(settings)
    who = " and ".join(each for each in (settings.decider, settings.llm) if each)
    title = f"asking {who}" if who else "recalling"
    if wishes.deployed:
        async with opened_for_reading(settings) as memory:
            await require_flows(memory, settings)
            with progress(title) as update:
                return await evaluate(
                    cases,
                    registry,
                    policy=policy,
                    model=settings.llm,
                    decider=settings.decider,
                    memory=memory,
                    agent_id=settings.agent_id,
                    at=wishes.at,
                    depths=depths,
                    timeout_s=settings.timeout_s,
                    progress=update,
                )
    with progress(title) as update:
        return await evaluate(
            cases,
            registry,
            policy=policy,
            model=settings.llm,
            decider=settings.decider,
            embedder=settings.embedder,
            language=settings.language,
            cache=CACHE,
            at=wishes.at,
            depths=depths,
            timeout_s=settings.timeout_s,
            progress=update,
        )


def _write(found: Evaluation, settings: "Settings", wishes: Wishes, file: Path, failed: Sequence[str]) -> None:
    form = wishes.written
    if form is Format.TABLE and wishes.output is None:
        _show(stdout(), found, settings, wishes)
        return
    match form:
        case Format.JSON:
            text = orjson.dumps(found.to_dict(), option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()
        case Format.JUNIT:
            text = junit(found, name=file.stem)
        case Format.MARKDOWN:
            text = markdown_report(found, failed=failed)
        case Format.TABLE:
            plain = Console(width=100, record=True, quiet=True, highlight=False)
            _show(plain, found, settings, wishes)
            text = plain.export_text()
    if wishes.output is None:
        typer.echo(text.rstrip("\n"))
        return
    write_file(wishes.output, text, option="--output")
    _show(stdout(), found, settings, wishes)


def _show(console: Console, found: Evaluation, settings: "Settings", wishes: Wishes) -> None:
    console.print(_numbers(found))
    facts = facts_grid()
    if found.choices is not None:
        facts.add_row("model", styled(choice_line(found), "bold", limit=1_000))
    facts.add_row("none", styled(none_line(found), limit=1_000))
    facts.add_row("asked", styled(_asked_line(found), limit=1_000))
    facts.add_row("sureness", styled(_sureness_line(found), limit=1_000))
    facts.add_row("thresholds", styled(f"for {found.at:.4g}: {found.sweep}", limit=2_000))
    console.print(facts)
    if found.stages:
        console.print(_stages(found.stages))
    worst = [each for each in found.by_flow if wishes.by_flow or each.recall_at_1 < 1]
    if worst:
        console.print(_flows(worst if wishes.by_flow else worst[:_FLOWS], more=not wishes.by_flow, total=len(worst)))
    pairs = [each for each in found.confusions if each.count > 1]
    if pairs:
        console.print(_confusions(pairs[:_PAIRS]))
    if found.misses:
        console.print()
        console.print(_misses(found.misses))
    console.print()
    console.print(styled(_where(found, settings, wishes), "dim", limit=1_000), soft_wrap=True)


def _numbers(found: Evaluation) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1))  # ten columns in eighty letters
    table.add_column("", no_wrap=True)
    shares = [*(f"R@{depth}" for depth in found.depths), "R@k"]
    for name in ("cases", *shares, f"MRR@{DEPTH}", "cover", "size", "exact"):
        table.add_column(name, justify="right", no_wrap=True)
    names = {"one": "one flow", "several": "several"}
    for group in found.groups:
        measures = group.measures
        rank, size = measures["MRR"].value, measures["size"].value
        table.add_row(
            styled(names.get(group.name, group.name), limit=30),
            f"{group.cases:,}",
            *(percent(measures[name]) for name in shares),
            "–" if rank is None else f"{rank:.3f}",
            percent(measures["coverage"]),
            "–" if size is None else f"{size:.1f}",
            percent(measures["exact"]),
        )
    return table


def _asked_line(found: Evaluation) -> str:
    total, unasked, right = len(found.judged), found.measures["unasked"], found.measures["unasked-right"]
    count = round((unasked.value or 0) * total)
    if not count:
        return f"a model would be asked for all {total:,}, as the policy is"
    correct = round((right.value or 0) * right.cases)
    low, high = right.low or 0.0, right.high or 0.0
    between = f"{correct:,} of them right ({percent(right)}, between {low:.1%} and {high:.1%})"
    return f"nothing to ask a model for {count:,} of {total:,} ({percent(unasked)}), {between}"


def _sureness_line(found: Evaluation) -> str:
    error, tells = found.measures["ECE"], found.measures["AUROC"]
    if error.value is None:
        return "recall does not know how sure it is: the catalogue has too few examples"
    apart = "" if tells.value is None else f", AUROC {tells.value:.3f}"
    return f"ECE {error.value:.3f}{apart}, of the first over {error.cases:,} cases"


def _stages(stages: Sequence[StageMeasures]) -> Table:
    table = ruled("stage", "asked", "decided", "share", "right", "passed over", "tokens in / out", "each")
    for each in stages:
        table.add_row(
            each.name,
            f"{each.asked:,}",
            f"{each.decided:,}",
            f"{each.share:.1%}",
            "–" if each.accuracy is None else f"{each.accuracy:.1%}",
            f"{each.failed:,}",
            f"{each.input_tokens:,} / {each.output_tokens:,}" if each.input_tokens else "–",
            milliseconds(each.took_s / each.asked),
        )
    return table


def _flows(worst: Sequence[FlowScore], *, more: bool, total: int) -> Table:
    title = f"worst of {total} flows with misses" if more and total > len(worst) else "flow"
    table = ruled(title, "cases", "R@1", "cover", "takes")
    table.add_column("taken by", overflow="fold")
    for each in worst:
        by = ", ".join(f"{name or 'nothing'}{f' ({count})' if count > 1 else ''}" for name, count in each.taken_by)
        numbers = (str(each.cases), f"{each.recall_at_1:.1%}", f"{each.coverage:.1%}", str(each.takes))
        table.add_row(styled(each.name), *numbers, styled(by))
    return table


def _confusions(pairs: Sequence[Confusion]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("confused more than once", overflow="fold")
    for each in pairs:
        outcome = Text.assemble(
            styled(each.expected or NONE, "green"), Text(" taken for ", style="dim"), styled(each.first or NONE, "red")
        )
        table.add_row(str(each.count), Group(outcome, *(styled(request, "dim") for request in each.requests)))
    return table


def _misses(misses: Sequence[Miss]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("rank", Text("1 miss" if len(misses) == 1 else f"{len(misses)} misses"), style="dim")
    for miss in misses[:_MISSES]:
        rank = str(miss.rank) if miss.rank else f">{DEPTH}"
        outcome = Text.assemble(
            styled(", ".join(miss.expect), "green"),
            Text(" after ", style="dim"),
            styled(miss.first or "nothing", "red"),
        )
        label = styled(f"{miss.id}: {miss.request}" if miss.id else miss.request)
        table.add_row(rank, Group(label, outcome))
    if len(misses) > _MISSES:
        table.add_row("", Text(f"… and {len(misses) - _MISSES:,} more; --json has all", style="dim"))
    return table


def _where(found: Evaluation, settings: "Settings", wishes: Wishes) -> str:
    index = f"agent {settings.agent_id}, index {place(settings)}" if wishes.deployed else "as they are written"
    took = "" if found.p50_s is None else f", {milliseconds(found.p50_s)} a request"
    return f"flows {settings.flows}, {index}, embedder {found.embedder}, top-k {settings.top_k}{took}"
