"""`jazz-select demo`: the flows of the repository, indexed, and its example requests, routed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jazz_select.build import open_selector, sync_registry
from jazz_select.chat.models import as_chat_model
from jazz_select.cli.session import catalogue, opened, place
from jazz_select.cli.show import arms, milliseconds
from jazz_select.cli.terminal import mark, printable, progress, stdout, styled
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.values import Candidate

if TYPE_CHECKING:
    from jazz_select.memory.sync import SyncReport
    from jazz_select.selector.result import FlowSelectionResult
    from jazz_select.settings import Settings

_INDENT = (0, 0, 0, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A request and what became of it."""

    case: Case
    result: "FlowSelectionResult"

    @property
    def as_expected(self) -> bool:
        """Exactly the expected flows were chosen, in any order."""
        return set(self.result.names) == set(self.case.expect)

    @property
    def within_reach(self) -> bool:
        """A model could have chosen all that was expected."""
        return set(self.case.expect) <= {candidate.flow_name for candidate in self.result.decision.candidates}


def run(settings: "Settings", requests: Path, runs: Path, conversation: Path) -> None:
    """Sync, route, sum up; run the flows that the requests of `runs` choose; and let an agent hold a conversation."""
    if not requests.is_file():
        msg = f"there is no {requests} here: run the demo in a clone of the repository, or pass --requests FILE"
        raise ConfigError(msg)
    asyncio.run(_demo(settings, requests, *(file if file.is_file() else None for file in (runs, conversation))))


async def _demo(settings: "Settings", requests: Path, runs: Path | None, conversation: Path | None) -> None:
    as_chat_model(settings.llm)  # one that cannot be used is told before anything is done
    console = stdout()
    registry = catalogue(settings)
    cases = load_cases(requests, registry, flows=settings.flows)
    async with opened(settings) as memory:
        began = perf_counter()
        with progress("indexing flows") as update:
            report = await sync_registry(memory, settings.agent_id, registry, progress=update)
        synced_s = perf_counter() - began
        _announce(console, report, settings, f"in {milliseconds(synced_s)}, embedder {memory.embedder}")
        routed: list[Routed] = []
        async with open_selector(settings, memory, registry) as selector:
            for number, case in enumerate(cases, 1):
                result = await selector.select(case.request, episode_summaries=case.episodes, context=case.context)
                routed.append(Routed(case=case, result=result))
                console.print(_entry(console, number, routed[-1]))
            _sum_up(console, routed, settings, synced_s)
            if runs is not None:
                from jazz_select.cli.demo_runs import run_flows

                await run_flows(console, load_cases(runs, registry, flows=settings.flows), selector, settings)
        if conversation is not None:
            from jazz_select.cli.demo_runs import load_lines, talk

            await talk(console, load_lines(conversation), memory, registry, settings)


def _announce(console: Console, report: "SyncReport", settings: "Settings", how: str) -> None:
    console.print(styled(f"{report} {how}", "bold"), styled(f"({place(settings)})", "dim"))
    if settings.llm:
        many = "nearest flows" if settings.top_k == "auto" else f"{settings.top_k} nearest flows"
        console.print(styled(f"{settings.llm} chooses among the {many}.\n"))
    else:
        console.print("No model is configured, so the nearest flow is taken (semantic choice).\n")


def _entry(console: Console, number: int, routed: Routed) -> Group:
    case, decision = routed.case, routed.result.decision
    title = Table.grid(padding=(0, 1))
    title.add_column(justify="right", width=2, style="dim")
    title.add_column(overflow="fold")
    title.add_row(str(number), styled(case.request, "bold"))
    before = [styled(f"earlier: {episode}", "italic") for episode in case.episodes]
    if case.context:
        known = " ".join(f"{key}={_plain(value)}" for key, value in case.context.items())
        before.append(styled(f"context: {known}", "italic"))
    lines = [*before, _candidates(decision.candidates, decision.chosen_ids), _outcome(console, routed)]
    return Group(title, *(Padding(line, _INDENT, expand=False) for line in lines), "")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _candidates(candidates: Sequence[Candidate], chosen_ids: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=24)
    for _ in arms(candidates):
        grid.add_column(no_wrap=True, min_width=9)
        grid.add_column(justify="right", no_wrap=True, min_width=5)
    for candidate in candidates:
        chosen = candidate.flow_id in chosen_ids
        cells: list[Text] = []
        for arm in arms(candidates):
            rank, score = candidate.ranks.get(arm), candidate.scores.get(arm)
            cells += [
                Text(f"{printable(arm)} {'-' if rank is None else f'#{rank}'}"),
                Text("" if score is None else f"{score:.2f}", style="dim"),
            ]
        name = styled(candidate.flow_name, "bold green" if chosen else "")
        pointer = Text("> " if chosen else "  ", style="bold green")
        grid.add_row(pointer + name, *cells, Text(f"fused {candidate.score:.3f}", style="dim"))
    return grid


def _outcome(console: Console, routed: Routed) -> Text:
    decision = routed.result.decision
    how = f" {decision.reason.value}, {decision.tier.value}, {milliseconds(decision.latency.total_s)}"
    line = mark(console, good=routed.as_expected) + Text(how, style="dim")
    if not routed.as_expected:
        line += Text("  ") + styled(_shortfall(routed), "yellow")
    if decision.error:
        line += Text("  ") + styled(decision.error, "red")
    return line


def _shortfall(routed: Routed) -> str:
    expect, chosen = routed.case.expect, routed.result.names
    if not expect:
        return "nothing fits, and one was taken all the same" if chosen else ""
    wanted = " and ".join(expect)
    if len(expect) > 1 and set(chosen) < set(expect):
        return f"expected {wanted}: one intent of {len(expect)} was served"
    return f"expected {wanted}{'' if routed.within_reach else ', not among the candidates'}"


def _sum_up(console: Console, routed: Sequence[Routed], settings: "Settings", synced_s: float) -> None:
    right = sum(each.as_expected for each in routed)
    typical = median(each.result.decision.latency.total_s for each in routed)
    console.print(
        styled(
            f"{right} of {len(routed)} as expected, sync {milliseconds(synced_s)}, p50 of a selection "
            f"{milliseconds(typical)}",
            "bold",
        )
    )
    if not settings.llm:
        console.print(_what_a_model_adds(routed))


def _what_a_model_adds(routed: Sequence[Routed]) -> Text:
    missed = [each for each in routed if not each.as_expected]
    in_reach = [each for each in missed if each.within_reach]
    kinds = (
        (sum(not each.case.expect for each in in_reach), "where nothing fits (it can say so)"),
        (sum(len(each.case.expect) > 1 for each in in_reach), "with two intents (it can choose both)"),
        (sum(len(each.case.expect) == 1 for each in in_reach), "where the right flow is offered, but not the nearest"),
    )
    gains = "; ".join(f"{count} {kind}" for count, kind in kinds if count)
    reads = "A model reads the conditions of the candidates and chooses among them."
    here = f" Here it could help with: {gains}." if gains else ""
    beyond = len(missed) - len(in_reach)
    if beyond:
        here += (
            f" {beyond} it cannot correct, as the right flow is not offered: try a larger --top-k, or another embedder."
        )
    how = " Try: jazz-select demo --llm openai:gpt-5-mini (needs the extra llm and a key), or set JAZZ_LLM."
    return styled(f"{reads}{here}{how}", limit=2_000)
