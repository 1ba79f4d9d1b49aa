"""`jazz-select list` and `jazz-select graph`: what there is."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from jazz_select.cli import wire
from jazz_select.cli.session import count_flows, look_here, nothing_synced, opened_for_reading, place, require_folder
from jazz_select.cli.terminal import emit, hint, stdout, styled
from jazz_select.routing.decisions.analyzer import ChainAnalyzer
from jazz_select.routing.tools.loading import load_tools
from jazz_select.text import counted

if TYPE_CHECKING:
    from jazz_select.settings import Settings


def run_list(settings: "Settings", *, as_json: bool) -> None:
    """Show what is in the index for the agent."""
    flows = asyncio.run(_list(settings))
    if as_json:
        emit(wire.Listing(agent_id=settings.agent_id, index=place(settings), flows=tuple(flows)))
    elif flows:
        _show(flows, settings)
    if not flows:
        hint(str(nothing_synced(settings)))


async def _list(settings: "Settings") -> list[dict[str, Any]]:
    async with opened_for_reading(settings) as memory:
        return await memory.list_flows(settings.agent_id) if await count_flows(memory, settings) else []


def _show(flows: Sequence[Mapping[str, Any]], settings: "Settings") -> None:
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
