"""The commands and their options. What a command needs is imported when it runs, so that `--help` is quick."""

from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from jazz_select import __version__
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
    cases_option,
    context_of,
    settings_with,
    tools_option,
)
from jazz_select.errors import ConfigError
from jazz_select.service.options import ServeOptions


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
    settings = settings_with(locals())
    from jazz_select.cli.catalogue import run_sync as run

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
    settings = settings_with(locals())
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
    settings = settings_with(locals())
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


_LogOption = Annotated[
    Path | None,
    typer.Option(
        "--log", metavar="FILE", help="A log of outcomes, as FlowSelector(…, log=PATH) writes it; that of --agent."
    ),
]
_SHOWN = 30
"""Changes that a diff shows unless told otherwise."""
_GOOD, _REPORT, _CHOICE = "What is good enough", "What is told", "How a flow is chosen"
_POLICY = ("max_error", "skip_llm_above", "abstain_below", "on_empty", "language")
"""What is read without an option where routes are judged."""


def _print_schema(asked: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if asked:
        from jazz_select.cli.terminal import emit
        from jazz_select.evaluation.cases import case_schema

        emit(case_schema())
        raise typer.Exit


@app.command(epilog=also_read("learned", "language"))
def check(  # noqa: PLR0913 - one per option
    source: Annotated[
        str | None, typer.Argument(metavar="PATH|PACKAGE", help="The flows, as for --flows.", show_default=False)
    ] = None,
    *,
    flows: FlowsOption = None,
    tools: Annotated[str | None, tools_option("The tools that there are: flows may name no others.")] = None,
    cases: Annotated[
        list[Path] | None, cases_option("Labelled requests, which no example may repeat; repeatable.")
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
    chosen = {**locals(), "flows": source if source is not None else flows}
    settings = settings_with(chosen)
    from jazz_select.cli.checking import run_check as run

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


@app.command(name="eval", epilog=also_read("decider", "max_error", "timeout_s", "language"))
def eval_(  # noqa: PLR0913 - one per option
    file: Annotated[
        Path, typer.Argument(help="Labelled requests, as YAML, JSON, JSON Lines or CSV; examples/eval.yaml is one.")
    ],
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    learned: LearnedOption = None,
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
    schema: Annotated[
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
    settings = settings_with(locals())
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


@app.command(epilog=also_read("learned", "timeout_s", "rrf_k", *_POLICY))
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
        tools_option("The tools, as for graph, loaded anew for each conversation. (default: those beside the flows)"),
    ] = None,
    factory: Annotated[
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
    settings = settings_with(locals())
    from jazz_select.cli.conversing import Wanted, run

    wanted = Wanted(source=source, only=only or (), agent=factory, tools=tools, at_once=at_once, shown=verbose)
    run(settings, wanted, as_json=json)


@app.command(epilog=also_read(*_POLICY))
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
        list[Path] | None, cases_option("Labelled requests; repeatable. (default: examples/eval.yaml)")
    ] = None,
    requests: Annotated[
        list[Path] | None,
        typer.Option("--requests", metavar="FILE", help="What users asked, one request a line; repeatable."),
    ] = None,
    log: _LogOption = None,
    agent: AgentOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    embedder: EmbedderOption = None,
    learned: LearnedOption = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Write a comment for a pull request as well.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show every change; without, the 30 most harmful.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Judge all anew, and keep nothing.")] = False,
    json: JsonFlag = False,
) -> None:
    r"""Show which requests a change of the flows leads elsewhere, and stop it where a gate is not passed.

    Every case, logged request and example is asked of both versions; no model is. The gates are those of
    \[tool.jazz-select.gates] in pyproject.toml; where one is not passed the exit code is 1.
    """
    settings = settings_with(locals())
    from jazz_select.cli.comparing import Wishes, default_cases, run

    wishes = Wishes(
        base=base,
        head=head,
        base_flows=base_flows,
        cases=cases or default_cases(),
        requests=requests or (),
        log=log,
        markdown=markdown,
        shown=0 if every else _SHOWN,
        cached=not no_cache,
        as_json=json,
    )
    run(settings, wishes)


@app.command(epilog=also_read("learned", "language"))
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
    log: _LogOption = None,
    agent: AgentOption = None,
    cases: Annotated[
        list[Path] | None, cases_option("Labelled requests that must not become examples; repeatable.")
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
    settings = settings_with(locals())
    from jazz_select.cli.checking import run_suggest as run

    run(
        settings,
        labelled=labelled or [],
        log=log,
        cases=cases or [],
        flows=flow or [],
        most=most,
        output=output,
        as_json=json,
    )


@app.command(epilog=also_read(*_POLICY))
def learn(  # noqa: PLR0913 - one per option
    log: Annotated[
        Path | None,
        typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it."),
    ] = None,
    *,
    flows: FlowsOption = None,
    agent: AgentOption = None,
    cases: Annotated[
        Path | None, cases_option("Labelled requests that nothing learned may lower, as for eval.")
    ] = None,
    learned: Annotated[
        Path | None,
        typer.Option(
            "--learned",
            metavar="FILE",
            help="Where it is kept what was learned: learned.yaml, unless another is named. (JAZZ_LEARNED)",
            show_default=False,
        ),
    ] = None,
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
    settings = settings_with(locals())
    from jazz_select.cli.learning import Step
    from jazz_select.cli.learning import run_learn as run

    step = Step.of(shadow=shadow, promote=promote, roll_back=roll_back)
    run(settings, log, step=step, cases=cases, most=most, dry_run=dry_run, as_json=json)


@app.command(epilog=also_read("learned"))
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
    settings = settings_with(locals())
    from jazz_select.cli.learning import run_drift as run

    run(settings, log, days=days, fail_on_alarm=fail_on_alarm, as_json=json)


_WHERE, _WHO, _LIMITS, _PARTS, _MCP = "Where it listens", "Who is served", "Limits", "What is served", "MCP"
_USUAL: Final = ServeOptions()


@app.command(epilog=also_read(*SELECTING, "serve_secret", "serve_state"))
def serve(  # noqa: PLR0913 - one per option
    *,
    flows: FlowsOption = None,
    tools: Annotated[
        str | None, tools_option("Its tools; without it those in the folder, package or .py file of the flows.")
    ] = None,
    agent: AgentOption = None,
    learned: LearnedOption = None,
    log: Annotated[
        Path | None,
        typer.Option("--log", metavar="FILE", help="Keep each selection, and what was right, in a log of outcomes."),
    ] = None,
    cases: Annotated[list[Path] | None, cases_option("Labelled requests that the panel judges by; repeatable.")] = None,
    index: IndexOption = None,
    url: UrlOption = None,
    embedder: EmbedderOption = None,
    llm: LlmOption = None,
    top_k: TopKOption = None,
    rrf_k: RrfKOption = None,
    on_empty: OnEmptyOption = None,
    host: Annotated[
        str,
        typer.Option(
            "--host", metavar="ADDRESS", help="Another than this machine's own needs a key.", rich_help_panel=_WHERE
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65_535, metavar="N", help="0: one that is free; it is printed.", rich_help_panel=_WHERE
        ),
    ] = 8420,
    uds: Annotated[
        Path | None,
        typer.Option(
            "--uds", metavar="FILE", help="A Unix socket instead, for its owner and group.", rich_help_panel=_WHERE
        ),
    ] = None,
    key_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            help="Whoever asks has to send the key in it; repeatable. (JAZZ_SERVE_KEY holds one itself)",
            rich_help_panel=_WHO,
        ),
    ] = None,
    agents: Annotated[
        Path | None,
        typer.Option(
            "--agents",
            metavar="FILE",
            help="Several agents, each with flows and keys of its own.",
            rich_help_panel=_WHO,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", metavar="N", help="Requests a second of each key. (default: no limit)", rich_help_panel=_LIMITS
        ),
    ] = _USUAL.rate,
    max_in_flight: Annotated[
        int, typer.Option("--max-in-flight", min=1, metavar="N", help="Requests at once.", rich_help_panel=_LIMITS)
    ] = _USUAL.max_in_flight,
    max_body: Annotated[
        int, typer.Option("--max-body", min=1, metavar="BYTES", help="Of a request.", rich_help_panel=_LIMITS)
    ] = _USUAL.max_body,
    stop_s: Annotated[
        float,
        typer.Option(
            "--stop-s",
            min=0.1,
            metavar="S",
            help="For what is in flight, when it stops.",
            rich_help_panel=_LIMITS,
        ),
    ] = _USUAL.stop_s,
    drain_s: Annotated[
        float,
        typer.Option(
            "--drain-s",
            min=0,
            metavar="S",
            help="Before that, while /readyz says that it will.",
            rich_help_panel=_LIMITS,
        ),
    ] = _USUAL.drain_s,
    panel: Annotated[
        bool, typer.Option("--panel/--no-panel", help="The panel, at /panel/.", rich_help_panel=_PARTS)
    ] = _USUAL.panel,
    mcp: Annotated[
        Literal["http", "stdio", "none"],
        typer.Option(
            "--mcp",
            help="MCP: at /mcp beside the rest; on standard in- and output, and nothing else; or not at all.",
            rich_help_panel=_MCP,
        ),
    ] = "http",
    no_mcp: Annotated[bool, typer.Option("--no-mcp", help="As --mcp none.", rich_help_panel=_MCP)] = False,
    mcp_servers: Annotated[
        Path | None,
        typer.Option(
            "--mcp-servers",
            metavar="FILE",
            help='Be a gateway for these servers: {"mcpServers": {"NAME": {"command": …} or {"url": …}}}.',
            rich_help_panel=_MCP,
        ),
    ] = None,
    mcp_listed: Annotated[
        Literal["none", "found", "all"],
        typer.Option(
            "--mcp-listed",
            help="Which tools are listed beside the four: none, those that a search has found, or all.",
            rich_help_panel=_MCP,
        ),
    ] = "none",
    reload: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Changed files are live at once.", rich_help_panel=_PARTS)
    ] = True,
    reload_every: Annotated[
        float | None,
        typer.Option(
            "--reload-every",
            min=0.05,
            metavar="S",
            help="Look for them so often, where a network file system does not tell.",
            rich_help_panel=_PARTS,
        ),
    ] = None,
    access_log: Annotated[
        bool,
        typer.Option(
            "--access-log/--no-access-log", help="A line of JSON on stderr for each request.", rich_help_panel=_PARTS
        ),
    ] = True,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Delete from the index also where that is most of an agent's flows."),
    ] = False,
) -> None:
    """Serve the flows over HTTP, MCP and a panel in the browser: one process that owns the index, for many that ask.

    The flows are synced first. SIGTERM lets what is in flight end.
    """
    settings = settings_with(locals())
    from jazz_select.cli.service import Wanted, require_extra, run

    require_extra()
    way = "none" if no_mcp else mcp
    options = ServeOptions(
        max_body=max_body,
        max_in_flight=max_in_flight,
        rate=rate,
        stop_s=stop_s,
        drain_s=drain_s,
        panel=panel,
        mcp=way == "http",
    )
    wanted = Wanted(
        options=options,
        tools=tools,
        log=log,
        cases=tuple(cases or ()),
        host=host,
        port=port,
        uds=uds,
        key_files=tuple(key_file or ()),
        agents=agents,
        mcp=way,
        mcp_servers=mcp_servers,
        mcp_listed=mcp_listed,
        reload=reload,
        reload_every=reload_every,
        access_log=access_log,
        yes=yes,
    )
    run(settings, wanted)
