"""What the demo runs: flows to their end, and an agent in conversation."""

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazz_select.agent import Agent, Conversation
from jazz_select.chat.models import as_chat_model
from jazz_select.cli.show import milliseconds
from jazz_select.cli.terminal import mark, styled
from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, read_entries
from jazz_select.evaluation.talks.conversations import TurnCase
from jazz_select.evaluation.talks.playing import Script
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.run_context import chain_of
from jazz_select.routing.tools.loading import load_policy, load_tools
from jazz_select.selector.options import RECOMMENDED
from jazz_select.selector.select import FlowSelector
from jazz_select.text import wrong_fields
from jazz_select.values import Tier

if TYPE_CHECKING:
    from jazz_select.agent import TurnResult
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.routing.records import RunResult, StepRecord
    from jazz_select.settings import Settings

_STYLES = {Tier.DETERMINISTIC: "green", Tier.GUIDED: "yellow", Tier.OPEN: "magenta"}


async def run_flows(console: Console, cases: Sequence[Case], selector: "FlowSelector", settings: "Settings") -> None:
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
        console.print(Text("  ") + mark(console, good=good) + styled(f" {flow.name}({given})"))
        console.print(_steps(result))
    console.print()
    console.print(styled(f"{right} of {len(cases)} flows ran as expected.", "bold"))


def _steps(result: "RunResult") -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(justify="right", width=5, style="dim")
    grid.add_column(no_wrap=True, width=13)
    grid.add_column(no_wrap=True, width=19)
    grid.add_column(overflow="fold")
    for record in result.records:
        tier = Text(record.tier.value, style=_STYLES[record.tier])
        grid.add_row(str(record.step), tier, styled(record.tool or "-"), _became(record, len(result.pending)))
    return grid


def _became(record: "StepRecord", pending: int) -> Text:
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
    memory: "ProceduralMemory",
    registry: "FlowRegistry",
    settings: "Settings",
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


def _how(result: "TurnResult", took: float) -> str:
    flows = ", ".join(result.flows) or "no flow"
    steps = [f"{step.tool or '-'} {step.tier.value}" for run in result.runs for step in run.steps]
    calls = "1 call of the model" if result.model_calls == 1 else f"{result.model_calls} calls of the model"
    chain = f"; steps: {', '.join(steps)}" if steps else ""
    return f"{result.status}: {flows}, {calls}, {milliseconds(took)}{chain}"
