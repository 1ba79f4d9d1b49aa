"""`jazz-select eval`: how often the right flow is among the first, on labelled requests."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from jazz_select.build import open_selector
from jazz_select.cli import wire
from jazz_select.cli.session import catalogue, opened_for_reading, place, require_flows
from jazz_select.cli.show import milliseconds
from jazz_select.cli.terminal import emit, progress, stdout, styled
from jazz_select.evaluation.cases import Case, load_cases

if TYPE_CHECKING:
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.selector.result import FlowSelectionResult
    from jazz_select.settings import Settings

_DEPTH = 10
"""How far down the list a right flow is looked for."""


def run(settings: "Settings", file: Path, *, as_json: bool) -> None:
    """Measure, and report."""
    evaluation = asyncio.run(_evaluate(settings, file))
    if as_json:
        emit(evaluation)
    else:
        _show(evaluation, settings)


async def _evaluate(settings: "Settings", file: Path) -> wire.Evaluation:
    registry = catalogue(settings)
    cases = load_cases(file, registry, flows=settings.flows)
    ranking = settings.model_copy(update={"llm": None, "top_k": _DEPTH})
    async with opened_for_reading(settings) as memory:
        await require_flows(memory, settings)
        with progress("recalling") as update:
            recalled = await _select_all(cases, ranking, memory, registry, update)
        choices: wire.Choices | None = None
        if settings.llm:
            with progress(f"asking {settings.llm}") as update:
                chosen = await _select_all(cases, settings, memory, registry, update)
            choices = wire.Choices(
                model=settings.llm,
                exact=sum(set(case.expect) == set(each.names) for case, each in zip(cases, chosen, strict=True)),
                failed=sum(bool(each.decision.error) for each in chosen),
            )
        return measure(settings.agent_id, memory.embedder, cases, recalled, choices)


async def _select_all(
    cases: Sequence[Case],
    settings: "Settings",
    memory: "ProceduralMemory",
    registry: "FlowRegistry",
    update: Callable[[int, int], None],
) -> list["FlowSelectionResult"]:
    results: list[FlowSelectionResult] = []
    async with open_selector(settings, memory, registry) as selector:
        for case in cases:
            found = await selector.select(case.request, episode_summaries=case.episodes, context=case.context)
            results.append(found)
            update(len(results), len(cases))
    return results


def measure(
    agent_id: str,
    embedder: str,
    cases: Sequence[Case],
    recalled: Sequence["FlowSelectionResult"],
    choices: wire.Choices | None,
) -> wire.Evaluation:
    """The numbers, from what was recalled for each case. Pure."""
    labelled = [
        (case, [candidate.flow_name for candidate in found.decision.candidates])
        for case, found in zip(cases, recalled, strict=True)
        if case.expect
    ]
    misses = [
        wire.Miss(request=case.request, expect=case.expect, first=names[0] if names else "", rank=_rank(case, names))
        for case, names in labelled
        if _rank(case, names) != 1
    ]
    return wire.Evaluation(
        agent_id=agent_id,
        embedder=embedder,
        requests=len(cases),
        unlabelled=len(cases) - len(labelled),
        recall_at_1=_mean([_found(case, names, 1) for case, names in labelled]),
        recall_at_3=_mean([_found(case, names, 3) for case, names in labelled]),
        mrr=_mean([1 / (_rank(case, names) or float("inf")) for case, names in labelled]),
        p50_s=median(found.decision.latency.total_s for found in recalled),
        misses=tuple(sorted(misses, key=lambda miss: -(miss.rank or _DEPTH + 1))),
        choices=choices,
    )


def _rank(case: Case, names: Sequence[str]) -> int | None:
    """Of the first right flow, from 1."""
    return next((rank for rank, name in enumerate(names, 1) if name in case.expect), None)


def _found(case: Case, names: Sequence[str], depth: int) -> float:
    """The share of the right flows among the first `depth`."""
    return len(set(case.expect) & set(names[:depth])) / len(set(case.expect))


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _show(evaluation: wire.Evaluation, settings: "Settings") -> None:
    console = stdout()
    numbers = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("requests", "R@1", "R@3", f"MRR@{_DEPTH}", "p50"):
        numbers.add_column(name, justify="right")
    numbers.add_row(
        str(evaluation.requests - evaluation.unlabelled),
        f"{evaluation.recall_at_1:.1%}",
        f"{evaluation.recall_at_3:.1%}",
        f"{evaluation.mrr:.3f}",
        milliseconds(evaluation.p50_s),
    )
    console.print(numbers)
    if evaluation.choices:
        chosen = evaluation.choices
        failed = f", {chosen.failed} calls failed" if chosen.failed else ""
        exact = f"{chosen.model} chose exactly the expected flows for {chosen.exact} of {evaluation.requests}{failed}"
        console.print(styled(exact, "bold"))
    if evaluation.unlabelled:
        console.print(styled(f"{evaluation.unlabelled} more requests expect no flow; recall does not count them."))
    if evaluation.misses:
        console.print(_misses(evaluation.misses))
        console.print()
    where = (
        f"flows {settings.flows}, agent {settings.agent_id}, index {place(settings)}, embedder {evaluation.embedder}"
    )
    console.print(styled(where, "dim"), soft_wrap=True)


def _misses(misses: Sequence[wire.Miss]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("rank", Text("1 miss" if len(misses) == 1 else f"{len(misses)} misses"), style="dim")
    for miss in misses:
        rank = str(miss.rank) if miss.rank else f">{_DEPTH}"
        outcome = Text.assemble(
            styled(", ".join(miss.expect), "green"),
            Text(" after ", style="dim"),
            styled(miss.first or "nothing", "red"),
        )
        table.add_row(rank, Group(styled(miss.request), outcome))
    return table
