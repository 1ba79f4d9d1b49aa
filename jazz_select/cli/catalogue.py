"""`jazz-select sync`, `list` and `graph`: what there is, and what of it is in the index."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from jazz_select.build import sync_registry
from jazz_select.cli import wire
from jazz_select.cli.session import (
    catalogue,
    count_flows,
    is_there,
    look_here,
    nothing_synced,
    opened,
    opened_for_reading,
    place,
    require_folder,
)
from jazz_select.cli.terminal import agreed, emit, hint, printable, progress, stdout, styled
from jazz_select.errors import ConfigError, SyncDeletesError
from jazz_select.routing.decisions.analyzer import ChainAnalyzer
from jazz_select.routing.tools.loading import load_tools
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.memory.sync import SyncReport
    from jazz_select.routing.tools.tool import Tool
    from jazz_select.settings import Settings

_USUAL = Path("learned.yaml")
"""Where `learn` keeps what it learned, unless a file is named."""


def run_sync(settings: "Settings", *, tools: str | None, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Sync, and report; ask before most of the flows are deleted, where there is somebody to ask.

    Raises:
        SyncDeletesError: There is nobody, or the answer was no.
    """
    began = perf_counter()
    try:
        report, embedder = asyncio.run(_sync(settings, tools, dry_run=dry_run, allow_delete=yes))
    except SyncDeletesError as error:
        if as_json or not agreed(f"{error}", "Delete them?"):
            raise
        began = perf_counter()
        report, embedder = asyncio.run(_sync(settings, tools, dry_run=dry_run, allow_delete=True))
    took = perf_counter() - began
    if as_json:
        index = place(settings)
        emit(wire.Sync.of(report, agent_id=settings.agent_id, index=index, embedder=embedder, took_s=took))
    else:
        _show_changes(report, settings, f"embedder {embedder}, {took:.2f} s")


async def _sync(
    settings: "Settings", tools: str | None, *, dry_run: bool, allow_delete: bool
) -> "tuple[SyncReport, str]":
    registry = catalogue(settings)
    connected = None if tools is None else _tools(tools)
    with TemporaryDirectory() as passing:
        # A dry run leaves no trace, so it does not make an index either.
        empty = {"index": Path(passing)} if dry_run and not is_there(settings) else {}
        async with opened(settings.model_copy(update=empty)) as memory:
            with progress("indexing flows") as update:
                report = await sync_registry(
                    memory,
                    settings.agent_id,
                    registry,
                    dry_run=dry_run,
                    progress=update,
                    tools=connected,
                    learned=settings.learned,
                    allow_delete=allow_delete,
                )
            return replace(report, notes=(*report.notes, *_unlearned(settings))), memory.embedder


def _unlearned(settings: "Settings") -> tuple[str, ...]:
    """What a sync that is told of no file of learned examples leaves out, where there is one in its usual place."""
    if settings.learned is not None or not _USUAL.is_file():
        return ()
    from jazz_select.evaluation.overlay import load_overlay

    use = f"pass --learned {_USUAL}, or set JAZZ_LEARNED, to index what was learned"
    try:
        version = load_overlay(_USUAL).version("live")
    except ConfigError as error:
        return (f"{_USUAL} was not looked at, and cannot be: {error}",)
    if version is None:
        return ()
    return (f"{_USUAL} has {version.count} learned examples live, and this sync indexes the flows without them: {use}",)


def _tools(source: str) -> "list[Tool]":
    from jazz_select.routing.tools.loading import load_tools

    look_here()
    return list(load_tools(source).values())


def _show_changes(report: "SyncReport", settings: "Settings", how: str) -> None:
    console = stdout()
    changes = Table.grid(padding=(0, 2))
    changes.add_column(no_wrap=True)
    changes.add_column(justify="right", no_wrap=True)
    changes.add_column(overflow="fold")
    rows = (
        ("created", report.created, "green"),
        ("updated", report.updated, "yellow"),
        ("deleted", report.deleted, "red"),
        ("unchanged", report.skipped, "dim"),
    )
    for what, names, style in rows:
        listed = "" if what == "unchanged" else ", ".join(printable(name) for name in names)
        changes.add_row(styled(what, style if names else "dim"), str(len(names)), styled(listed, limit=20_000))
    console.print(changes)
    done = "Nothing was written (dry run)" if report.dry_run else "Synced"
    where = f"agent {settings.agent_id}, index {place(settings)}, {how}"
    console.print(styled(f"{done}: {where}", "dim"), soft_wrap=True)
    if report.deleted:
        would = "would delete" if report.dry_run else "deleted"
        hint(f"{would} what is not in {printable(settings.flows)}: an index holds the flows of one sync and no others")
    for note in report.notes:
        hint(note)


def run_list(settings: "Settings", *, as_json: bool) -> None:
    """Show what is in the index for the agent."""
    flows = asyncio.run(_list(settings))
    if as_json:
        emit(wire.Listing(agent_id=settings.agent_id, index=place(settings), flows=tuple(flows)))
    elif flows:
        _show_flows(flows, settings)
    if not flows:
        hint(str(nothing_synced(settings)))


async def _list(settings: "Settings") -> list[dict[str, Any]]:
    async with opened_for_reading(settings) as memory:
        return await memory.list_flows(settings.agent_id) if await count_flows(memory, settings) else []


def _show_flows(flows: Sequence[Mapping[str, Any]], settings: "Settings") -> None:
    console = stdout()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("flow", overflow="fold")
    table.add_column("type", style="dim", no_wrap=True)
    table.add_column("description", ratio=1)
    for flow in flows:
        table.add_row(
            styled(flow["flow_name"], "bold"), styled(flow["flow_type"]), styled(flow["description"], limit=500)
        )
    console.print(table)
    console.print(
        styled(f"{counted(len(flows), 'flow')}: agent {settings.agent_id}, index {place(settings)}", "dim"),
        soft_wrap=True,
    )


_DEFAULT = "flows"


def run_graph(source: str | None, *, min_compatibility: float, as_json: bool) -> None:
    """Print which tool can follow which; in the folder `flows` where no source is given.

    Raises:
        ConfigError: None is, and there is no such folder.
    """
    if source is None:
        source = _DEFAULT
        require_folder(source, advice="name a folder, package or file with TOOLS, as docs/tools.md describes")
    look_here()
    analyzer = ChainAnalyzer(load_tools(source).values())
    graph = wire.Graph.of(analyzer, source=source, min_compatibility=min_compatibility)
    if as_json:
        emit(graph)
    else:
        sys.stdout.write(analyzer.mermaid(min_compatibility=min_compatibility))
    pairs = len(graph.tools) * (len(graph.tools) - 1)
    hint(f"{counted(len(graph.tools), 'tool')}, {len(graph.edges)} of {counted(pairs, 'pair')} fit")
    if graph.unreachable:
        hint(f"no other tool gives what these want: {', '.join(graph.unreachable[:20])}")
    for names in graph.collisions:
        hint(f"these differ in case and separators alone: {', '.join(names)}")
