"""`jazz-select select`: the flows for a request; the candidates as a table, the choice marked, and below it why."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from jazz_select.build import open_selector
from jazz_select.cli import wire
from jazz_select.cli.options import encodable
from jazz_select.cli.session import catalogue, changes_note, opened_for_reading, require_flows, sync_command
from jazz_select.cli.terminal import (
    emit,
    facts_grid,
    hint,
    mark,
    milliseconds,
    printable,
    stdout,
    styled,
    waiting,
)
from jazz_select.selector.result import why_of
from jazz_select.telemetry import Trace, line_of
from jazz_select.values import Candidate, Decision

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
        console.print(_everything(console, result, request=request, episodes=episodes, settings=settings))
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


def _everything(
    console: Console, result: "FlowSelectionResult", *, request: str, episodes: Sequence[str], settings: "Settings"
) -> Group:
    """All of it."""
    asked = facts_grid()
    asked.add_row("request", styled(request, "bold") if request.strip() else Text("(blank)", style="yellow"))
    for episode in episodes:
        asked.add_row("earlier", styled(episode))
    candidates = result.decision.candidates
    offered = _table(console, result.decision) if candidates else Text("\nno candidates\n", style="yellow")
    return Group(asked, offered, _reasons(result, settings))


def arms(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The arms that found any of them, in the order in which they first occur."""
    return tuple(dict.fromkeys(arm for candidate in candidates for arm in candidate.ranks))


def _table(console: Console, decision: Decision) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("", justify="right", style="dim")
    table.add_column("flow", overflow="fold")
    table.add_column("fused", justify="right", no_wrap=True)
    for arm in arms(decision.candidates):
        table.add_column(Text(f"{printable(arm)}\nrank"), justify="right", no_wrap=True)
        table.add_column(Text("\nscore"), justify="right", style="dim", no_wrap=True)
    sure = any(candidate.confidence is not None for candidate in decision.candidates)
    if sure:
        table.add_column("p", justify="right", no_wrap=True)
    for position, candidate in enumerate(decision.candidates, 1):
        chosen = candidate.flow_id in decision.chosen_ids
        confidence = "" if candidate.confidence is None else f"{candidate.confidence:.2f}"
        table.add_row(
            mark(console, good=True) if chosen else "",
            str(position),
            styled(candidate.flow_name or candidate.flow_id, "bold green" if chosen else ""),
            f"{candidate.score:.4f}",
            *_per_arm(candidate, arms(decision.candidates)),
            *([confidence] if sure else []),
        )
    return table


def _per_arm(candidate: Candidate, names: Sequence[str]) -> list[str]:
    cells: list[str] = []
    for arm in names:
        rank, score = candidate.ranks.get(arm), candidate.scores.get(arm)
        cells += ["-" if rank is None else str(rank), "" if score is None else f"{score:.3f}"]
    return cells


def _reasons(result: "FlowSelectionResult", settings: "Settings") -> Table:
    decision, took = result.decision, result.decision.latency
    facts = facts_grid()
    facts.add_row("chosen", styled(", ".join(result.names) or "nothing", "bold green" if result.names else "yellow"))
    facts.add_row("why", styled(_why(result)))
    facts.add_row("tier", styled(f"{decision.tier.value}, reason {decision.reason.value}"))
    if decision.model or (settings.llm and decision.raw_reply is not None):
        used = decision.usage
        tokens = f", {used.input_tokens} tokens in, {used.output_tokens} out" if used else ""
        facts.add_row("model", styled(f"{decision.model or settings.llm}{tokens}"))
    if decision.raw_reply is not None:
        facts.add_row("reply", styled(decision.raw_reply))
    if decision.error:
        facts.add_row("error", styled(decision.error, "red"))
    names = {candidate.flow_id: candidate.flow_name for candidate in decision.candidates}
    for flow_id in result.unresolved_ids:
        facts.add_row("unresolved", styled(_unresolved(flow_id, names, settings), "yellow"))
    if decision.sized:
        facts.add_row("candidates", styled(decision.sized))
    if decision.in_scope is not None:
        facts.add_row("in scope", styled(f"{decision.in_scope:.2f}, P(any flow is right)"))
    if decision.recalled_by:
        facts.add_row("recalled by", styled(decision.recalled_by))
    _add_stages(facts, decision)
    for note in decision.notes:
        facts.add_row("note", styled(note, "yellow"))
    parts = f"recall {milliseconds(took.recall_s)}, choice {milliseconds(took.choose_s)}"
    facts.add_row("took", styled(f"{milliseconds(took.total_s)} ({parts})"))
    return facts


def _add_stages(facts: Table, decision: Decision) -> None:
    if decision.question:
        facts.add_row("asks", styled(decision.question.text))
    for stage in decision.stages:
        facts.add_row("stage", styled(str(stage)))


def _why(result: "FlowSelectionResult") -> str:
    passed_over, why = result.passed_over, why_of(result.decision)
    if not passed_over:
        return why
    which = "which is not among the flows" if len(passed_over) == 1 else "which are not among the flows"
    return f"{why}, passing over {' and '.join(passed_over)}, {which}"


def _unresolved(flow_id: str, names: dict[str, str], settings: "Settings") -> str:
    if flow_id in names:
        return f"{names[flow_id] or flow_id} is in the index, but not among the flows: run {sync_command(settings)}"
    return f"{flow_id} was not offered"
