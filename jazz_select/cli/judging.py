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
    OnEmptyOption,
    RrfKOption,
    TopKOption,
    UrlOption,
    settings_with,
)

judging = typer.Typer()
"""Joins the other commands; a group without a name adds no level."""

_GOOD, _REPORT, _CHOICE = "What is good enough", "What is told", "How a flow is chosen"


def _print_schema(asked: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if asked:
        from jazz_select.cli.terminal import emit
        from jazz_select.evaluation.cases import case_schema

        emit(case_schema())
        raise typer.Exit


@judging.command(name="eval")
def eval_(  # noqa: PLR0913 - one per option
    file: Annotated[
        Path, typer.Argument(help="Labelled requests, as YAML, JSON, JSON Lines or CSV; examples/eval.yaml is one.")
    ],
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    llm: LlmOption = None,
    on_empty: OnEmptyOption = None,
    skip_llm_above: Annotated[
        float | None,
        typer.Option(
            "--skip-llm-above",
            metavar="P",
            help="Do without the model where recall is at least this sure. (JAZZ_SKIP_LLM_ABOVE)",
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            "--abstain-below",
            metavar="P",
            help="Choose nothing where P(some flow is right) is below this. (JAZZ_ABSTAIN_BELOW)",
            rich_help_panel=_CHOICE,
        ),
    ] = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only cases with this tag; may be repeated.")
    ] = None,
    at: Annotated[
        float,
        typer.Option(
            "--at",
            metavar="SHARE",
            help="Find the thresholds that save most calls while this share of what is decided without a model is "
            "right.",
            rich_help_panel=_GOOD,
        ),
    ] = 0.99,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-under",
            metavar="MEASURE=VALUE",
            help="Exit with 1 where a measure is below, such as R@1=.8, several:R@3=.7 or none-F1=.5; may be repeated. "
            "A misspelt one lists all there are.",
            rich_help_panel=_GOOD,
        ),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option(
            "--k", min=1, max=10, metavar="N", help="Show R@N as well; may be repeated.", rich_help_panel=_REPORT
        ),
    ] = None,
    by_flow: Annotated[
        bool, typer.Option("--by-flow", help="Show every flow, not the worst alone.", rich_help_panel=_REPORT)
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="table|json|junit|markdown",
            help="How it is told. (default: by the name of --output, else a table)",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write it there, and show the table as well.",
            rich_help_panel=_REPORT,
        ),
    ] = None,
    schema: Annotated[  # noqa: ARG001 - its callback has printed it and left
        bool,
        typer.Option(
            "--schema",
            is_eager=True,
            callback=_print_schema,
            help="Print the JSON Schema of such a file, for editors.",
            rich_help_panel=_REPORT,
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Measure on labelled requests how well the flows are found, and with a model how well it chooses.

    The flows are judged as they are written, without a sync; with --index or --url the index that is there is judged.
    Exit code 1: a --fail-under is not reached, or a case was left out, which is said; all others were judged.
    """
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "top_k": top_k,
            "rrf_k": rrf_k,
            "llm": llm,
            "on_empty": on_empty,
            "skip_llm_above": skip_llm_above,
            "abstain_below": abstain_below,
            "index": index,
            "url": url,
            "embedder": embedder,
        }
    )
    from jazz_select.cli.evaluation import Wishes, format_of, run

    wishes = Wishes(
        deployed=index is not None or url is not None,
        at=at,
        depths=tuple(k or ()),
        floors=tuple(fail_under or ()),
        form=format_of(form, as_json=json),
        output=output,
        by_flow=by_flow,
        tags=tuple(tag or ()),
    )
    run(settings, file, wishes)
