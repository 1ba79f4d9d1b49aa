"""The second half of `jazz-select demo`: flows that are chosen for a request, and run to their end with their tools."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazz_select.cli.cases import Case
from jazz_select.cli.show import milliseconds
from jazz_select.cli.terminal import mark, styled
from jazz_select.llm.adapt import as_chat_model
from jazz_select.routing.chains import chain_of
from jazz_select.routing.execute import FlowExecutor
from jazz_select.routing.loading import load_policy, load_tools
from jazz_select.routing.model_decision import ModelDecision
from jazz_select.values import Tier

if TYPE_CHECKING:
    from jazz_select.routing.steps import RunResult, StepRecord
    from jazz_select.selector.select import FlowSelector
    from jazz_select.settings import Settings

_STYLES = {Tier.DETERMINISTIC: "green", Tier.GUIDED: "yellow", Tier.OPEN: "magenta"}


async def run_flows(console: Console, cases: Sequence[Case], selector: "FlowSelector", settings: "Settings") -> None:
    """Choose a flow for each request, run its chain, and print what became of each step."""
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
