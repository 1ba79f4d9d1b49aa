"""The commands that judge a catalogue: `eval` and what stands beside it. They import what they need when they run."""

from pathlib import Path
from typing import Annotated

import typer

from jazz_select.cli.options import (
    AgentOption,
    EmbedderOption,
    FlowsOption,
    IndexOption,
    JsonFlag,
    LearnedOption,
    LlmOption,
    RrfKOption,
    TopKOption,
    UrlOption,
    settings_with,
)

judging = typer.Typer()
"""Joins the other commands; a group without a name adds no level."""


@judging.command(name="eval")
def eval_(  # noqa: PLR0913 - one per option
    file: Annotated[Path, typer.Argument(help="Labelled requests, as YAML; examples/eval.yaml is one.")],
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    llm: LlmOption = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    json: JsonFlag = False,
) -> None:
    """Measure recall on labelled requests, list the misses, and with a model also count its right choices."""
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "top_k": top_k,
            "rrf_k": rrf_k,
            "llm": llm,
            "index": index,
            "url": url,
            "embedder": embedder,
        }
    )
    from jazz_select.cli.evaluation import run

    run(settings, file, as_json=json)


@judging.command()
def learn(  # noqa: PLR0913 - one per option
    log: Annotated[
        Path | None,
        typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it."),
    ] = None,
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    cases: Annotated[
        Path | None,
        typer.Option("--cases", metavar="FILE", help="Labelled requests that nothing learned may lower, as for eval."),
    ] = None,
    learned: LearnedOption = None,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Learn nothing: show what the version on trial would have changed.")
    ] = False,
    promote: Annotated[bool, typer.Option("--promote", help="Make the version on trial the live one.")] = False,
    roll_back: Annotated[bool, typer.Option("--roll-back", help="Make the version live that was so before.")] = False,
    most: Annotated[int, typer.Option("--most", min=1, metavar="N", help="Texts that one flow learns at most.")] = 20,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    embedder: EmbedderOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing.")] = False,
    json: JsonFlag = False,
) -> None:
    """Learn examples from the corrections in a log, as far as they lower nothing, into a file beside the flows.

    What is learned is on trial first: --shadow shows what it would change, --promote makes it live at the next sync.
    """
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "learned": learned,
            "top_k": top_k,
            "rrf_k": rrf_k,
            "embedder": embedder,
        }
    )
    from jazz_select.cli.learning import Step, run

    step = Step.of(shadow=shadow, promote=promote, roll_back=roll_back)
    run(settings, log, step=step, cases=cases, most=most, dry_run=dry_run, as_json=json)


@judging.command()
def drift(  # noqa: PLR0913 - one per option
    log: Annotated[Path, typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it.")],
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    days: Annotated[float, typer.Option("--days", metavar="N", help="The last N days against the N before.")] = 7,
    fail_on_alarm: Annotated[
        bool, typer.Option("--fail-on-alarm", help="Exit code 1 where something is to be looked at.")
    ] = False,
    embedder: EmbedderOption = None,
    json: JsonFlag = False,
) -> None:
    """Show how selection changes: how sure it is, who is asked, flows that nobody gets, requests without a flow."""
    settings = settings_with({"flows": flows, "agent_id": agent, "embedder": embedder})
    from jazz_select.cli.drifting import run

    run(settings, log, days=days, fail_on_alarm=fail_on_alarm, as_json=json)
