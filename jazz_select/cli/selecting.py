"""`jazz-select select`."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from jazz_select.build import open_selector
from jazz_select.cli import show, wire
from jazz_select.cli.options import encodable
from jazz_select.cli.session import catalogue, changes_note, opened_for_reading, require_flows
from jazz_select.cli.terminal import emit, hint, stdout, styled, waiting
from jazz_select.telemetry import Trace, line_of

if TYPE_CHECKING:
    from jazz_select.selector.result import FlowSelectionResult
    from jazz_select.settings import Settings


class Output(Enum):
    """What is printed."""

    TABLE = auto()
    PROMPT = auto()
    JSON = auto()


def run(
    settings: "Settings",
    request: str,
    *,
    episodes: Sequence[str],
    context: Mapping[str, Any],
    output: Output,
    traced: bool = False,
) -> None:
    """Select, and show how it came out; with every step of it, where it is traced."""
    request = encodable(sys.stdin.read() if request == "-" else request)
    episodes = [encodable(episode) for episode in episodes]
    trace = Trace()
    result, note = asyncio.run(_select(settings, request, episodes, context, trace if traced else nullcontext()))
    if note:
        result = replace(result, decision=replace(result.decision, notes=(*result.decision.notes, note)))
        if output is not Output.TABLE:
            hint(note)
    if output is Output.JSON:
        found = wire.Selection.of(
            result, request=request, episodes=episodes, context=context, agent_id=settings.agent_id
        )
        emit(replace(found, trace=tuple(trace.as_json())) if traced else found)
    elif output is Output.PROMPT:
        # Plain: it is meant for a file or a pipe, and has to arrive as it is.
        sys.stdout.write(f"{result.combined_prompt}\n" if result.combined_prompt else "")
        for span in trace:
            hint(line_of(span))
    else:
        console = stdout()
        console.print(show.selection(console, result, request=request, episodes=episodes, settings=settings))
        for span in trace:
            console.print(" " * 2 * span.depth, styled(line_of(span), "dim", limit=1_000), sep="", soft_wrap=True)


async def _select(
    settings: "Settings",
    request: str,
    episodes: Sequence[str],
    context: Mapping[str, Any],
    traced: AbstractContextManager[object],
) -> tuple["FlowSelectionResult", str]:
    registry = catalogue(settings)
    async with opened_for_reading(settings) as memory, open_selector(settings, memory, registry) as selector:
        with waiting("selecting"), traced:
            result = await selector.select(request, episode_summaries=episodes, context=context)
        if not result.decision.candidates:
            await require_flows(memory, settings)
        return result, await changes_note(memory, registry, settings)
