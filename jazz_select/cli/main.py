"""The commands and their options. What a command needs is imported when it runs, so that `--help` is quick."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jazz_select import __version__
from jazz_select.cli.judging import judging
from jazz_select.cli.options import (
    SELECTING,
    AgentOption,
    ContextOption,
    EmbedderOption,
    FlowsOption,
    IndexOption,
    JsonFlag,
    LearnedOption,
    LlmOption,
    OnEmptyOption,
    RrfKOption,
    TopKOption,
    UrlOption,
    also_read,
    context_of,
    settings_with,
    tools_option,
)
from jazz_select.cli.serving import serving
from jazz_select.errors import ConfigError


class _Commands(TyperGroup):
    """The group of commands: what goes wrong in any of them becomes one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        from jazz_select.cli.terminal import reporting

        with reporting(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


app = typer.Typer(
    name="jazz-select",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if asked:
        typer.echo(f"jazz-select {__version__}")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and the log.")] = False,
) -> None:
    """Find the right flow for a request.

    Options win over the JAZZ_ variables of the environment, which the help of each command names.
    """


@app.command(epilog=also_read("language"))
def sync(  # noqa: PLR0913 - one per option
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    tools: Annotated[
        str | None, tools_option("The tools that there are, as for graph: a flow that names another is an error.")
    ] = None,
    learned: LearnedOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete also where that is most of the agent's flows, and do not ask.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Bring the index to the flows: create, update and delete what changed, leave the rest.

    Where that would delete more than 5 flows, and more than half of the agent's, it asks first; where nobody can be
    asked, it stops.
    """
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "index": index,
            "url": url,
            "embedder": embedder,
            "learned": learned,
        }
    )
    from jazz_select.cli.syncing import run

    run(settings, tools=tools, dry_run=dry_run, yes=yes, as_json=json)


@app.command(epilog=also_read(*SELECTING))
def select(  # noqa: PLR0913 - one per option
    request: Annotated[str, typer.Argument(help='What the user wants; "-" reads it from stdin.')],
    *,
    episode: Annotated[
        list[str] | None,
        typer.Option("--episode", metavar="TEXT", help="Summary of what was said before; may be repeated."),
    ] = None,
    context: ContextOption = None,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    llm: LlmOption = None,
    on_empty: OnEmptyOption = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    prompt: Annotated[bool, typer.Option("--prompt", help="Print the prompt of the chosen flows instead.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print every narrowing, decision and call as well.")] = False,
    json: JsonFlag = False,
) -> None:
    """Find the flows for a request, and show what there was to choose from and why it came out like this."""
    if json and prompt:
        msg = "pass either --json or --prompt: the JSON holds the prompt as combined_prompt"
        raise ConfigError(msg)
    facts = context_of(context or [])
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "top_k": top_k,
            "rrf_k": rrf_k,
            "llm": llm,
            "on_empty": on_empty,
            "index": index,
            "url": url,
            "embedder": embedder,
        }
    )
    from jazz_select.cli.selecting import Output, run

    output = Output.JSON if json else Output.PROMPT if prompt else Output.TABLE
    run(settings, request, episodes=episode or [], context=facts, output=output, traced=trace)


@app.command(name="list", epilog=also_read("language"))
def list_(
    *,
    agent: AgentOption = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    json: JsonFlag = False,
) -> None:
    """Show which flows of an agent are in the index."""
    settings = settings_with({"agent_id": agent, "index": index, "url": url, "embedder": embedder})
    from jazz_select.cli.catalogue import run_list as run

    run(settings, as_json=json)


@app.command()
def graph(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH|PACKAGE",
            help="A folder, package or .py file with TOOLS, or a JSON listing. (default: flows, the folder here)",
        ),
    ] = None,
    *,
    min_compatibility: Annotated[
        float, typer.Option("--min-compatibility", min=0, max=1, help="How well two tools must fit to be joined.")
    ] = 0.5,
    json: JsonFlag = False,
) -> None:
    """Show which tool can follow which, as a mermaid flowchart."""
    from jazz_select.cli.catalogue import run_graph as run

    run(source, min_compatibility=min_compatibility, as_json=json)


app.add_typer(judging)
app.add_typer(serving)
