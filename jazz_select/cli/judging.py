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
