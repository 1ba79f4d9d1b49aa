"""`jazz-select sync`, `list`, `select` and `graph`: what there is, what of it is indexed, and what is found in it."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
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

if TYPE_CHECKING:
    from jazz_select.cli.main import GraphCommand, ListCommand, SelectCommand, SyncCommand
    from jazz_select.evaluation.overlay import Overlay
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.outcomes import OutcomeLog
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
    would = "would delete" if given.dry_run else "deleted"
    only = f"{would} what is not in {printable(settings.flows)}: an index holds the flows of one sync and no others"
    tell(synced, _changes(synced), (*([only] if synced["deleted"] else ()), *synced["notes"]), json=given.json)


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
    allowed = settings.allowed_modules
    tools = None if given.tools is None else list(load_tools(given.tools, allow_modules=allowed).values())
    with TemporaryDirectory() as passing:
        # A dry run leaves no trace, so it does not make an index either.
        empty = {"index": Path(passing)} if given.dry_run and not is_there(settings) else {}
        async with (
            _open_publication(settings, registry, dry_run=given.dry_run) as (learned, evidence),
            open_index(settings.model_copy(update=empty)) as memory,
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
            answers, caveat = (None, "") if report.dry_run else await memory.leave_one_out_confidence(settings.agent_id)
            thresholds = None if report.dry_run else await memory.thresholds(settings.agent_id)
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
    names = {what: "" if what == "unchanged" else ", ".join(map(printable, synced[what])) for what in _CHANGES}
    yield facts(
        {
            what: styled(f"{len(synced[what]):>4}  {names[what]}", style if synced[what] else "dim", limit=20_000)
            for what, style in _CHANGES.items()
        }
    )
    done = "Nothing was written (dry run)" if synced["dry_run"] else "Synced"
    where = f"agent {synced['agent_id']}, index {synced['index']}, embedder {synced['embedder']}"
    yield line(f"{done}: {where}, {synced['took_s']:.2f} s", style="dim")
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
        told = result.to_dict()
        kept = ("chosen", "combined_prompt", "unresolved_ids", "candidates", "decision")
        spans = trace.as_json() if given.trace else None
        emit({**asked, "agent_id": settings.agent_id, **{name: told[name] for name in kept}, "trace": spans})
    elif given.prompt:
        # Plain: it is meant for a file or a pipe, and has to arrive as it is.
        sys.stdout.write(f"{result.combined_prompt}\n" if result.combined_prompt else "")
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
    heard = styled(request, "bold") if request.strip() else Text("(blank)", style="yellow")
    yield facts({"request": heard, "earlier": asked["episodes"]}, limit=300)
    yield _candidates_table(result) if decision.candidates else Text("\nno candidates\n", style="yellow")
    told = [
        ("chosen", styled(", ".join(result.names) or "nothing", "bold green" if result.names else "yellow")),
        ("why", _why(result)),
        *decision.facts,
        *(("unresolved", styled(each, "yellow")) for each in _unresolved_notes(result, settings)),
    ]
    yield facts(told, limit=300)


def _candidates_table(result: FlowSelectionResult) -> RenderableType:
    candidates, chosen = result.decision.candidates, result.decision.chosen_ids
    columns: dict[str, Column] = {
        "": lambda each: mark(good=True) if each.flow_id in chosen else "",
        ">": lambda each: styled(str(candidates.index(each) + 1), "dim"),
        "flow": lambda each: styled(each.flow_name or each.flow_id, "bold green" if each.flow_id in chosen else ""),
        ">fused": "{score:.4f}",
    }
    for arm in dict.fromkeys(arm for each in candidates for arm in each.ranks):
        columns[f">{printable(arm)}\nrank (score)"] = lambda each, arm=arm: _rank_text(
            each.ranks.get(arm), each.scores.get(arm)
        )
    if any(each.confidence is not None for each in candidates):
        columns[">p"] = "{confidence:.2f}"
    return table(candidates, columns)


def _rank_text(rank: int | None, score: float | None) -> str:
    return "–" if rank is None else f"{rank}" if score is None else f"{rank} ({score:.3f})"


def _why(result: FlowSelectionResult) -> str:
    passed_over, why = result.passed_over, why_of(result.decision)
    if not passed_over:
        return why
    which = "which is not among the flows" if len(passed_over) == 1 else "which are not among the flows"
    return f"{why}, passing over {' and '.join(passed_over)}, {which}"


def _unresolved_notes(result: FlowSelectionResult, settings: "Settings") -> Sequence[str]:
    names = {each.flow_id: each.flow_name or each.flow_id for each in result.decision.candidates}
    stale = f"is in the index, but not among the flows: run {sync_command(settings)}"
    return [f"{names[each]} {stale}" if each in names else f"{each} was not offered" for each in result.unresolved_ids]


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
        ends = ("producer", "consumer", "compatibility")
        told = {
            "source": source,
            "min_compatibility": least,
            "tools": [*analyzer.toolbox],
            "edges": [dict(zip(ends, edge, strict=True)) for edge in edges],
            "unreachable": unreachable,
            "collisions": collisions,
        }
        emit(told)
    else:
        sys.stdout.write(analyzer.mermaid(min_compatibility=least))
    count = len(analyzer.toolbox)
    hint(f"{count_of(count, 'tool')}, {len(edges)} of {count_of(count * (count - 1), 'pair')} fit")
    if unreachable:
        hint(f"no other tool gives what these want: {', '.join(unreachable[:20])}")
    for names in collisions:
        hint(f"these differ in case and separators alone: {', '.join(names)}")
