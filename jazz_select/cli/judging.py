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
from jazz_select.errors import ConfigError

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
def check(  # noqa: PLR0913 - one per option
    source: Annotated[
        str | None, typer.Argument(metavar="PATH|PACKAGE", help="The flows, as for --flows.", show_default=False)
    ] = None,
    *,
    flows: FlowsOption = None,
    tools: Annotated[
        str | None,
        typer.Option("--tools", metavar="PATH|PACKAGE", help="The tools that there are: flows may name no others."),
    ] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option("--cases", metavar="FILE", help="Labelled requests, which no example may repeat; repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CODE,…", help="Look for these kinds alone; repeatable.")
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="CODE[:FLOW,…]",
            help="Accept a kind, or one finding of it; beside `ignore` in pyproject.toml (tool.jazz-select.check).",
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            "--fail-on", metavar="LEVEL", help="Exit with 1 from error, warning or note on, or never. (default: error)"
        ),
    ] = None,
    sarif: Annotated[
        Path | None, typer.Option("--sarif", metavar="FILE", help="Write SARIF 2.1.0 as well, for GitHub and editors.")
    ] = None,
    embedder: EmbedderOption = None,
    json: JsonFlag = False,
) -> None:
    """Find everything that is wrong with a catalogue, the worst first. No index and no model is needed."""
    if source is not None and flows is not None:
        msg = "name the flows once: as the argument, or with --flows"
        raise ConfigError(msg)
    settings = settings_with({"flows": source if source is not None else flows, "embedder": embedder})
    from jazz_select.cli.checking import run

    code = run(
        settings,
        tools=tools,
        cases=cases or [],
        only=only or [],
        ignore=ignore or [],
        fail_on=fail_on,
        sarif_file=sarif,
        as_json=json,
    )
    raise typer.Exit(code)


@judging.command()
def suggest(  # noqa: PLR0913 - one per option
    *,
    flows: FlowsOption = None,
    flow: Annotated[
        list[str] | None,
        typer.Option("--flow", metavar="NAME", help="Look at this flow, not at those that check finds; repeatable."),
    ] = None,
    labelled: Annotated[
        list[Path] | None,
        typer.Option(
            "--labelled", metavar="FILE", help="Requests with the flow that was right, as eval reads them; repeatable."
        ),
    ] = None,
    cases: Annotated[
        list[Path] | None,
        typer.Option("--cases", metavar="FILE", help="Labelled requests that must not become examples; repeatable."),
    ] = None,
    most: Annotated[int, typer.Option("--most", min=1, metavar="N", help="Examples and negatives for each flow.")] = 5,
    llm: LlmOption = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="Write a YAML file for review, a new one."),
    ] = None,
    embedder: EmbedderOption = None,
    json: JsonFlag = False,
) -> None:
    """Suggest examples, negatives and sharper conditions for thin or colliding flows. No flow is changed."""
    settings = settings_with({"flows": flows, "llm": llm, "embedder": embedder})
    from jazz_select.cli.suggesting import run

    run(
        settings,
        labelled=labelled or [],
        cases=cases or [],
        flows=flow or [],
        most=most,
        output=output,
        as_json=json,
    )
