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
def converse(  # noqa: PLR0913 - one per option
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", help="Conversations, as YAML; examples/clinic/conversations.yaml is such a file."
        ),
    ],
    *,
    flows: FlowsOption = None,
    tools: Annotated[
        str | None,
        typer.Option(
            "--tools",
            metavar="PATH|PACKAGE",
            help="The tools, as for graph, loaded anew for each conversation. (default: those beside the flows)",
        ),
    ] = None,
    agent: Annotated[
        str,
        typer.Option(
            "--agent",
            metavar="MODULE:FACTORY",
            help="A function that takes a model, or None, and returns an agent of its own each time; instead of one "
            "made of --flows and --tools.",
        ),
    ] = "",
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="ID|TAG", help="Play these alone; may be repeated.")
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", min=1, help="How many are played at the same time.", show_default=True)
    ] = 1,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    llm: LlmOption = None,
    embedder: EmbedderOption = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every turn, also of those that pass.")] = False,
    json: JsonFlag = False,
) -> None:
    """Play conversations against an agent, and check flows, tools, arguments, texts and how each turn ends.

    Where no model is configured, the scripts in the file answer. It leaves with 1 where a conversation fails.
    """
    settings = settings_with({"flows": flows, "top_k": top_k, "rrf_k": rrf_k, "llm": llm, "embedder": embedder})
    from jazz_select.cli.conversing import Wanted, run

    wanted = Wanted(source=source, only=only or (), agent=agent, tools=tools, at_once=at_once, shown=verbose)
    run(settings, wanted, as_json=json)
