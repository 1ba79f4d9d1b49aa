"""`jazz-select list`."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from jazz_select.cli import wire
from jazz_select.cli.session import count_flows, nothing_synced, opened_for_reading, place
from jazz_select.cli.terminal import emit, hint, stdout, styled

if TYPE_CHECKING:
    from jazz_select.settings import Settings


def run(settings: "Settings", *, as_json: bool) -> None:
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
        styled(f"{len(flows)} flows: agent {settings.agent_id}, index {place(settings)}", "dim"), soft_wrap=True
    )
