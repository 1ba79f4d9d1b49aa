"""`jazz-select sync`, `list`, `select` and `graph`: what there is, what of it is indexed, and what is found in it."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from jazz_select.build import open_selector, sync_registry
from jazz_select.cli.session import (
    catalogue,
    changes_notes,
    existing_log,
    flows_in,
    index_place,
    is_there,
    look_here,
    nothing_synced,
    open_for_reading,
    open_index,
    overlay_notes,
    require_flows,
    require_folder,
    sync_command,
)
from jazz_select.cli.shared_options import context_of, encodable
from jazz_select.cli.terminal import (
    Column,
    ask_yes_no,
    emit,
    facts,
    hint,
    line,
    mark,
    printable,
    progress,
    show,
    spinner,
    styled,
    table,
    tell,
)
from jazz_select.errors import ConfigError, SyncDeletesError
from jazz_select.selector.forecast import forecast, logged_alone
from jazz_select.selector.policy import policy_of_settings
from jazz_select.selector.result import FlowSelectionResult, why_of
from jazz_select.telemetry import Trace, line_of
from jazz_select.text import count_of
from jazz_select.values import Candidate

if TYPE_CHECKING:
    from jazz_select.cli.main import GraphCommand, ListCommand, SelectCommand, SyncCommand
    from jazz_select.evaluation.overlay import Overlay
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.outcomes import OutcomeLog
    from jazz_select.routing.tools.tool import Tool
    from jazz_select.settings import Settings

_CHANGES = {"created": "green", "updated": "yellow", "deleted": "red", "unchanged": "dim"}


def sync(settings: "Settings", given: "SyncCommand") -> None:
    """Sync, and report; ask before most of the flows are deleted, where there is somebody to ask."""
    try:
        synced = asyncio.run(_run_sync(settings, given, allow_delete=given.yes))
    except SyncDeletesError as error:
        if given.json or not ask_yes_no(f"{error}", "Delete them?"):
            raise
        synced = asyncio.run(_run_sync(settings, given, allow_delete=True))
    notes = list(synced["notes"])
    if synced["deleted"]:
        verb = "would delete" if given.dry_run else "deleted"
        flows = printable(settings.flows)
        notes.insert(0, f"{verb} what is not in {flows}: an index holds the flows of one sync and no others")
    tell(synced, _changes(synced), notes, json=given.json)


@asynccontextmanager
async def _open_publication(
    settings: "Settings", registry: "FlowRegistry", *, dry_run: bool
) -> "AsyncGenerator[tuple[Overlay | Path | None, OutcomeLog | Path | None]]":
    """Give what a sync learns from; with a database, be the only one who writes, and tell the replicas after it."""
    if settings.database is None:
        yield settings.learned, settings.evidence
        return
    from jazz_select.service.opened import require_driver

    require_driver()
    from jazz_select.service.shared_state import publishing

    async with publishing(settings, registry, dry_run=dry_run) as publication:
        yield publication.learned, publication.evidence


async def _run_sync(settings: "Settings", given: "SyncCommand", *, allow_delete: bool) -> dict[str, Any]:
    from jazz_select.routing.tools.tool_loading import load_tools

    began = perf_counter()
    registry = catalogue(settings)
    log = None if given.log is None else existing_log(given.log, settings)
    tools: list[Tool] | None = None
    if given.tools is not None:
        tools = list(load_tools(given.tools, allow_modules=settings.allowed_modules).values())
    with TemporaryDirectory() as temporary:
        place = settings
        if given.dry_run and not is_there(settings):  # a dry run leaves no trace, so it does not make an index either
            place = settings.model_copy(update={"index": Path(temporary)})
        async with (
            _open_publication(settings, registry, dry_run=given.dry_run) as (learned, evidence),
            open_index(place) as memory,
        ):
            with progress("indexing flows") as update:
                report = await sync_registry(
                    memory,
                    settings.agent_id,
                    registry,
                    dry_run=given.dry_run,
                    progress=update,
                    tools=tools,
                    learned=learned,
                    evidence=evidence,
                    allow_delete=allow_delete,
                )
            answers, caveat, thresholds = None, "", None
            if not report.dry_run:  # an index that was not written knows nothing yet
                answers, caveat = await memory.leave_one_out_confidence(settings.agent_id)
                thresholds = await memory.thresholds(settings.agent_id)
    expected = forecast(
        answers,
        policy_of_settings(settings),
        list(registry.values()),
        caveat=caveat,
        thresholds=thresholds,
        shares_budget=settings.decider is not None,
        logged=None if log is None else logged_alone(log, settings.agent_id),
    )
    return {
        "agent_id": settings.agent_id,
        "index": index_place(settings),
        "embedder": memory.embedder,
        "dry_run": report.dry_run,
        "created": report.created,
        "updated": report.updated,
        "deleted": report.deleted,
        "unchanged": report.skipped,
        "took_s": perf_counter() - began,
        "notes": (*report.notes, *overlay_notes(settings)),
        "forecast": None if report.dry_run else expected.as_data(),
    }


def _changes(synced: dict[str, Any]) -> Iterator[RenderableType]:
    lines: dict[str, Text] = {}
    for what, style in _CHANGES.items():
        # Most flows are unchanged, so they are only counted.
        names = "" if what == "unchanged" else ", ".join(map(printable, synced[what]))
        lines[what] = styled(f"{len(synced[what]):>4}  {names}", style if synced[what] else "dim", limit=20_000)
    yield facts(lines)
    result = "Nothing was written (dry run)" if synced["dry_run"] else "Synced"
    where = f"agent {synced['agent_id']}, index {synced['index']}, embedder {synced['embedder']}"
    yield line(f"{result}: {where}, {synced['took_s']:.2f} s", style="dim")
    if synced["forecast"] is not None:
        yield line(synced["forecast"]["says"], limit=2_000)


def list_flows(settings: "Settings", given: "ListCommand") -> None:
    """Show what is in the index for the agent."""
    flows = asyncio.run(_list_flows(settings))
    if given.json:
        emit({"agent_id": settings.agent_id, "index": index_place(settings), "flows": flows})
    elif flows:
        columns = {"flow": "[bold]{flow_name}[/]", "type": "[dim]{flow_type}[/]", "description": "{description}"}
        count = f"{count_of(len(flows), 'flow')}: agent {settings.agent_id}, index {index_place(settings)}"
        show([table(flows, columns), line(count, style="dim")])
    if not flows:
        hint(str(nothing_synced(settings)))


async def _list_flows(settings: "Settings") -> list[dict[str, Any]]:
    async with open_for_reading(settings) as memory:
        return await flows_in(memory, settings)


def select(settings: "Settings", given: "SelectCommand") -> None:
    """Select, and show how it came out; with every step of it, where it is traced."""
    if given.json and given.prompt:
        raise ConfigError("pass either --json or --prompt: the JSON holds the prompt as combined_prompt")
    asked = {
        "request": encodable(sys.stdin.read() if given.request == "-" else given.request),
        "episodes": [encodable(each) for each in given.episode or ()],
        "context": context_of(given.context or []),
    }
    trace = Trace()
    result, notes = asyncio.run(_run_select(settings, asked, trace if given.trace else None))
    result = replace(result, decision=replace(result.decision, notes=(*result.decision.notes, *notes)))
    if given.json or given.prompt:
        for note in notes:
            hint(note)
    if given.json:
        values = result.to_dict()
        shown = ("chosen", "combined_prompt", "unresolved_ids", "candidates", "decision")
        spans = trace.as_json() if given.trace else None
        emit({**asked, "agent_id": settings.agent_id, **{name: values[name] for name in shown}, "trace": spans})
    elif given.prompt:
        if result.combined_prompt:
            # Print without formatting: the output is meant for a file or a pipe.
            sys.stdout.write(f"{result.combined_prompt}\n")
        for span in trace:
            hint(line_of(span))
    else:
        show(_result_lines(result, asked, settings))
        show(line(Text("  " * span.depth), styled(line_of(span), "dim", limit=1_000), sep="") for span in trace)


async def _run_select(
    settings: "Settings", asked: dict[str, Any], trace: Trace | None
) -> tuple[FlowSelectionResult, tuple[str, ...]]:
    registry = catalogue(settings)
    async with open_for_reading(settings) as memory, open_selector(settings, memory, registry) as selector:
        with spinner("selecting"), trace or nullcontext():
            result = await selector.select(
                asked["request"], episode_summaries=asked["episodes"], context=asked["context"]
            )
        if not result.decision.candidates:
            await require_flows(memory, settings)
        return result, await changes_notes(memory, registry, settings)


def _result_lines(result: FlowSelectionResult, asked: dict[str, Any], settings: "Settings") -> Iterator[RenderableType]:
    decision, request = result.decision, str(asked["request"])
    shown = styled(request, "bold") if request.strip() else Text("(blank)", style="yellow")
    yield facts({"request": shown, "earlier": asked["episodes"]}, limit=300)
    if decision.candidates:
        yield _candidates_table(result)
    else:
        yield Text("\nno candidates\n", style="yellow")
    chosen = styled("nothing", "yellow")
    if result.names:
        chosen = styled(", ".join(result.names), "bold green")
    lines: list[tuple[str, object]] = [("chosen", chosen), ("why", _why(result)), *decision.facts]
    for note in _unresolved_notes(result, settings):
        lines.append(("unresolved", styled(note, "yellow")))
    yield facts(lines, limit=300)


def _candidates_table(result: FlowSelectionResult) -> RenderableType:
    candidates, chosen = result.decision.candidates, result.decision.chosen_ids
    columns: dict[str, Column] = {
        "": lambda each: mark(good=True) if each.flow_id in chosen else "",
        ">": lambda each: styled(str(candidates.index(each) + 1), "dim"),
        "flow": lambda each: styled(each.flow_name or each.flow_id, "bold green" if each.flow_id in chosen else ""),
        ">fused": "{score:.4f}",
    }
    arms: dict[str, None] = {}
    for each in candidates:
        arms |= dict.fromkeys(each.ranks)
    for arm in arms:
        columns[f">{printable(arm)}\nrank (score)"] = partial(_rank_text, arm)
    if any(each.confidence is not None for each in candidates):
        columns[">p"] = "{confidence:.2f}"
    return table(candidates, columns)


def _rank_text(arm: str, candidate: Candidate) -> str:
    """Return the place of a candidate in one arm of recall, and its score there."""
    rank, score = candidate.ranks.get(arm), candidate.scores.get(arm)
    if rank is None:
        return "–"
    if score is None:
        return f"{rank}"
    return f"{rank} ({score:.3f})"


def _why(result: FlowSelectionResult) -> str:
    passed_over, why = result.passed_over, why_of(result.decision)
    if not passed_over:
        return why
    verb = "is" if len(passed_over) == 1 else "are"
    return f"{why}, passing over {' and '.join(passed_over)}, which {verb} not among the flows"


def _unresolved_notes(result: FlowSelectionResult, settings: "Settings") -> Sequence[str]:
    names = {each.flow_id: each.flow_name or each.flow_id for each in result.decision.candidates}
    notes: list[str] = []
    for flow_id in result.unresolved_ids:
        if flow_id in names:
            name = names[flow_id]
            notes.append(f"{name} is in the index, but not among the flows: run {sync_command(settings)}")
        else:
            notes.append(f"{flow_id} was not offered")
    return notes


def graph(_: "Settings", given: "GraphCommand") -> None:
    """Print which tool can follow which; in the folder `flows` where no source is given."""
    from jazz_select.routing.decisions.decision_points import ChainAnalyzer
    from jazz_select.routing.tools.tool_loading import load_tools

    source = "flows" if given.source is None else given.source
    if given.source is None:
        require_folder(source, advice="name a folder, package or file with TOOLS, as docs/tools.md describes")
    look_here()
    tools = load_tools(source, allow_modules=given.settings().allowed_modules)
    analyzer, least = ChainAnalyzer(tools.values()), given.min_compatibility
    edges = list(analyzer.edges(min_compatibility=least))
    unreachable, collisions = analyzer.unreachable(min_compatibility=least), analyzer.collisions()
    if given.json:
        names = ("producer", "consumer", "compatibility")
        values = {
            "source": source,
            "min_compatibility": least,
            "tools": [*analyzer.toolbox],
            "edges": [dict(zip(names, edge, strict=True)) for edge in edges],
            "unreachable": unreachable,
            "collisions": collisions,
        }
        emit(values)
    else:
        sys.stdout.write(analyzer.mermaid(min_compatibility=least))
    count = len(analyzer.toolbox)
    hint(f"{count_of(count, 'tool')}, {len(edges)} of {count_of(count * (count - 1), 'pair')} fit")
    if unreachable:
        hint(f"no other tool gives what these want: {', '.join(unreachable[:20])}")
    for names in collisions:
        hint(f"these differ in case and separators alone: {', '.join(names)}")
