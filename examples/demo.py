"""A demonstration: the flows of the repository indexed, requests routed, flows run, and an agent in conversation.

`python -m examples.demo` needs no key and no model; `--help` tells what else it can be run with.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.build import open_selector, sync_registry
from jazz_select.chat.models import as_chat_model
from jazz_select.cli.session import catalogue, index_place, open_index
from jazz_select.cli.shared_options import (
    EmbedderOption,
    FlowsOption,
    LlmOption,
    RrfKOption,
    TopKOption,
    settings_with,
)
from jazz_select.cli.terminal import mark, milliseconds, printable, progress, report_errors, stdout, styled
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, load_cases, read_entries
from jazz_select.evaluation.conversations import TurnCase
from jazz_select.evaluation.playing import Script
from jazz_select.flow.base import FlowRegistry, chain_of
from jazz_select.memory.procedural import ProceduralMemory
from jazz_select.memory.sync import SyncReport
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.records import RunResult, StepRecord
from jazz_select.routing.tools.tool_loading import load_policy, load_tools
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import RECOMMENDED
from jazz_select.settings import Settings
from jazz_select.text import wrong_fields
from jazz_select.values import Candidate, Tier

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


@app.command()
def main(  # noqa: PLR0913 - one per option
    *,
    requests: Annotated[
        Path, typer.Option("--requests", metavar="FILE", help="The requests, as YAML.", show_default=True)
    ] = Path("examples/requests.yaml"),
    runs: Annotated[
        Path | None,
        typer.Option("--runs", metavar="FILE", help="Requests whose flows are run. (default: runs.yaml beside them)"),
    ] = None,
    flows: FlowsOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    llm: LlmOption = None,
    index: Annotated[
        Path, typer.Option("--index", metavar="DIR", help="Folder of the demo's own index.", show_default=True)
    ] = Path(".jazz/demo"),
    embedder: EmbedderOption = None,
) -> None:
    """Index the flows, route requests, run flows, and let an agent answer."""
    with report_errors():
        settings = settings_with(
            {
                "flows": flows,
                "agent_id": "demo",
                "top_k": top_k,
                "rrf_k": rrf_k,
                "llm": llm,
                "index": index,
                "embedder": embedder,
            }
        )
        run(settings, requests, runs or requests.with_name("runs.yaml"), requests.with_name("conversation.yaml"))


_INDENT = (0, 0, 0, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A request and what became of it."""

    case: Case
    result: FlowSelectionResult

    @property
    def as_expected(self) -> bool:
        """Exactly the expected flows were chosen, in any order."""
        return set(self.result.names) == set(self.case.expect)

    @property
    def within_reach(self) -> bool:
        """A model could have chosen all that was expected."""
        return set(self.case.expect) <= {candidate.flow_name for candidate in self.result.decision.candidates}


def run(settings: Settings, requests: Path, runs: Path, conversation: Path) -> None:
    """Sync, route, sum up; run the flows that the requests of `runs` choose; and let an agent hold a conversation."""
    if not requests.is_file():
        msg = f"there is no {requests} here: run the demo in a clone of the repository, or pass --requests FILE"
        raise ConfigError(msg)
    asyncio.run(_demo(settings, requests, *(file if file.is_file() else None for file in (runs, conversation))))


async def _demo(settings: Settings, requests: Path, runs: Path | None, conversation: Path | None) -> None:
    as_chat_model(settings.llm)  # one that cannot be used is told before anything is done
    console = stdout()
    registry = catalogue(settings)
    cases = load_cases(requests, registry, flows=settings.flows)
    async with open_index(settings) as memory:
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
                console.print(_entry(number, routed[-1]))
            _sum_up(console, routed, settings, synced_s)
            if runs is not None:
                await run_flows(console, load_cases(runs, registry, flows=settings.flows), selector, settings)
        if conversation is not None:
            await talk(console, load_lines(conversation), memory, registry, settings)


def _announce(console: Console, report: SyncReport, settings: Settings, how: str) -> None:
    console.print(styled(f"{report} {how}", "bold"), styled(f"({index_place(settings)})", "dim"))
    if settings.llm:
        many = "nearest flows" if settings.top_k == "auto" else f"{settings.top_k} nearest flows"
        console.print(styled(f"{settings.llm} chooses among the {many}.\n"))
    else:
        console.print("No model is configured, so the nearest flow is taken (semantic choice).\n")


def _entry(number: int, routed: Routed) -> Group:
    case, decision = routed.case, routed.result.decision
    title = Table.grid(padding=(0, 1))
    title.add_column(justify="right", width=2, style="dim")
    title.add_column(overflow="fold")
    title.add_row(str(number), styled(case.request, "bold"))
    before = [styled(f"earlier: {episode}", "italic") for episode in case.episodes]
    if case.context:
        known = " ".join(f"{key}={_plain(value)}" for key, value in case.context.items())
        before.append(styled(f"context: {known}", "italic"))
    lines = [*before, _candidates(decision.candidates, decision.chosen_ids), _outcome(routed)]
    return Group(title, *(Padding(line, _INDENT, expand=False) for line in lines), "")


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arms(candidates: Sequence[Candidate]) -> Sequence[str]:
    """The arms that found any of them, in the order in which they first occur."""
    return tuple(dict.fromkeys(arm for candidate in candidates for arm in candidate.ranks))


def _candidates(candidates: Sequence[Candidate], chosen_ids: Sequence[str]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True, min_width=24)
    for _ in _arms(candidates):
        grid.add_column(no_wrap=True, min_width=9)
        grid.add_column(justify="right", no_wrap=True, min_width=5)
    for candidate in candidates:
        chosen = candidate.flow_id in chosen_ids
        cells: list[Text] = []
        for arm in _arms(candidates):
            rank, score = candidate.ranks.get(arm), candidate.scores.get(arm)
            cells += [
                Text(f"{printable(arm)} {'-' if rank is None else f'#{rank}'}"),
                Text("" if score is None else f"{score:.2f}", style="dim"),
            ]
        name = styled(candidate.flow_name, "bold green" if chosen else "")
        pointer = Text("> " if chosen else "  ", style="bold green")
        grid.add_row(pointer + name, *cells, Text(f"fused {candidate.score:.3f}", style="dim"))
    return grid


def _outcome(routed: Routed) -> Text:
    decision = routed.result.decision
    how = f" {decision.reason.value}, {decision.tier.value}, {milliseconds(decision.latency.total_s)}"
    line = mark(good=routed.as_expected) + Text(how, style="dim")
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


def _sum_up(console: Console, routed: Sequence[Routed], settings: Settings, synced_s: float) -> None:
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
    how = " Try: python -m examples.demo --llm openai:gpt-5-mini (needs the extra llm and a key), or set JAZZ_LLM."
    return styled(f"{reads}{here}{how}", limit=2_000)


_STYLES = {Tier.DETERMINISTIC: "green", Tier.GUIDED: "yellow", Tier.OPEN: "magenta"}


async def run_flows(console: Console, cases: Sequence[Case], selector: FlowSelector, settings: Settings) -> None:
    """Choose a flow for each request, run its chain, and print what became of each step.

    Whoever runs an executor has decided on its steps: nobody is asked here, as an agent would.
    """
    tools = load_tools(settings.flows)
    model = as_chat_model(settings.llm)
    executor = FlowExecutor(tools.values(), ModelDecision(model) if model else load_policy(settings.flows))
    chooser = f"{settings.llm} chooses" if model else "the flows' own policy chooses, without a model,"
    console.print()
    console.print(styled(f"Running flows: {len(tools)} tools are connected; {chooser} at guided steps.", "bold"))
    right = 0
    for case in cases:
        selection = await selector.select(case.request, episode_summaries=case.episodes, context=case.context)
        console.print()
        console.print(styled(case.request, "bold"))
        if not selection.chosen_flows:
            console.print(styled("    no flow fits", "magenta"))
            continue
        flow = selection.chosen_flows[0]
        result = await executor.run(chain_of(flow), case.inputs)
        ran = tuple(record.tool for record in result.records if record.status == "ok")
        good = flow.name in case.expect and ran == case.tools
        right += good
        given = ", ".join(f"{name}={value}" for name, value in case.inputs.items())
        console.print(Text("  ") + mark(good=good) + styled(f" {flow.name}({given})"))
        console.print(_steps(result))
    console.print()
    console.print(styled(f"{right} of {len(cases)} flows ran as expected.", "bold"))


def _steps(result: RunResult) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", width=5, style="dim")
    grid.add_column(no_wrap=True, width=13)
    grid.add_column(no_wrap=True, width=19)
    grid.add_column(overflow="fold")
    for record in result.records:
        tier = Text(record.tier.value, style=_STYLES[record.tier])
        grid.add_row(str(record.step), tier, styled(record.tool or "-"), _became(record, len(result.pending)))
    return grid


def _became(record: StepRecord, pending: int) -> Text:
    told = f"{record.reason}, {milliseconds(record.duration_s)}"
    if record.status == "open":
        return styled(f"{told}: nothing fits, so all {pending} tools are handed back", "dim")
    if record.error:
        return styled(f"{told}: {record.error}", "red")
    offered = ", ".join(f"{each.name} {each.compatibility_score:.2f}" for each in record.candidates)
    return styled(f"{told}: of {offered}" if len(record.candidates) > 1 else told, "dim")


_LINES = TypeAdapter(tuple[TurnCase, ...])


def load_lines(file: Path) -> tuple[TurnCase, ...]:
    """The conversation of a file.

    Raises:
        ConfigError: It cannot be read, or is none.
    """
    try:
        return _LINES.validate_python(read_entries(file, "conversation"))
    except ValidationError as error:
        msg = f"{file}: {wrong_fields(error, 'the file')[0]}"
        raise ConfigError(msg) from error


async def talk(
    console: Console,
    lines: Sequence[TurnCase],
    memory: ProceduralMemory,
    registry: FlowRegistry,
    settings: Settings,
) -> None:
    """Let an agent answer, line by line; the conversation goes through JSON between any two."""
    scripted = Script() if not settings.llm else None
    model = scripted or as_chat_model(settings.llm)
    tools = load_tools(settings.flows)
    able = {key: flow for key, flow in registry.items() if not flow.lacks(tools)}  # an agent takes no others
    selector = FlowSelector(model, able, memory, settings.agent_id, **RECOMMENDED)
    policy = None if settings.llm or scripted else load_policy(settings.flows)
    agent = Agent(selector, tools.values(), model, decision_callback=policy)
    who = settings.llm or "a scripted model, whose replies are in the file,"
    console.print()
    console.print(styled(f"An agent in conversation: {who} speaks where there is something to decide.", "bold"))
    if left := len(registry) - len(able):
        console.print(styled(f"Left out are {left} flows, which name tools that are not connected.", "dim"))
    conversation = Conversation()
    for line in lines:
        if scripted is not None:
            scripted.begin(line)
        began = perf_counter()
        result = await agent.turn(line.say, conversation, context=line.context, schema=line.schema_)
        took = perf_counter() - began
        conversation = Conversation.from_json(result.conversation.to_json())
        grid = Table.grid(padding=(0, 2))
        grid.add_column(width=8, style="dim")
        grid.add_column(overflow="fold")
        grid.add_row("customer", styled(line.say, "bold", limit=1_000))
        grid.add_row("agent", styled(result.text or result.reason, "cyan", limit=2_000))
        grid.add_row("", styled(_how(result, took), "dim", limit=500))
        console.print()
        console.print(grid)


def _how(result: TurnResult, took: float) -> str:
    flows = ", ".join(result.flows) or "no flow"
    steps = [f"{step.tool or '-'} {step.tier.value}" for run in result.runs for step in run.steps]
    calls = "1 call of the model" if result.model_calls == 1 else f"{result.model_calls} calls of the model"
    chain = f"; steps: {', '.join(steps)}" if steps else ""
    return f"{result.status}: {flows}, {calls}, {milliseconds(took)}{chain}"


if __name__ == "__main__":
    app()
