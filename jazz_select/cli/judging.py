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
_SHOWN = 30
"""Changes that a diff shows unless told otherwise."""


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
def diff(  # noqa: PLR0913 - one per option
    base: Annotated[
        str, typer.Argument(help="Before: a commit, COMMIT:FLOWS, A...B (what both share), a folder, index:FOLDER.")
    ] = "HEAD",
    head: Annotated[str, typer.Argument(help='After, likewise; "." is the working tree as it is.')] = ".",
    *,
    flows: FlowsOption = None,
    base_flows: Annotated[
        str | None, typer.Option("--base-flows", metavar="PATH", help="Where the flows are in BASE, if elsewhere.")
    ] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option("--cases", metavar="FILE", help="Labelled requests; repeatable. (default: examples/eval.yaml)"),
    ] = None,
    requests: Annotated[
        list[Path] | None,
        typer.Option("--requests", metavar="FILE", help="What users asked, one request a line; repeatable."),
    ] = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    embedder: EmbedderOption = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a comment for a pull request as well.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every change; without, the 30 most harmful.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Judge all anew, and keep nothing.")] = False,
    json: JsonFlag = False,
) -> None:
    """Show which requests a change of the flows leads elsewhere, and stop it where a gate is not passed.

    Every case, logged request and example is asked of both versions; no model is. The gates are those of
    [tool.jazz-select.gates] in pyproject.toml; where one is not passed the exit code is 1.
    """
    settings = settings_with({"flows": flows, "agent_id": agent, "top_k": top_k, "rrf_k": rrf_k, "embedder": embedder})
    from jazz_select.cli.comparing import Wishes, default_cases, run

    wishes = Wishes(
        base=base,
        head=head,
        base_flows=base_flows,
        cases=cases or default_cases(),
        requests=requests or (),
        markdown=markdown,
        shown=0 if every else _SHOWN,
        cached=not no_cache,
        as_json=json,
    )
    run(settings, wishes)


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
