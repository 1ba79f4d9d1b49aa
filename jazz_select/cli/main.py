"""The commands and their options. What a command needs is imported when it runs, so that `--help` is quick."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, dataclass_transform

import typer
from typer.core import TyperGroup

from jazz_select import __version__
from jazz_select.cli.shared_options import (
    CHOICE,
    AgentOption,
    ChoiceOptions,
    DatabaseOption,
    EvidenceOption,
    FlowOptions,
    IndexOptions,
    JsonOption,
    LearnedOption,
    LlmOption,
    LogOption,
    Options,
    RecallOptions,
    flag,
    option,
    settings_with,
)
from jazz_select.errors import ConfigError
from jazz_select.service.service_options import ServeOptions

_Given = TypeVar("_Given", bound=Options)
_GOOD, _REPORT = "What is good enough", "What is told"
_WHERE, _WHO, _LIMITS, _PARTS, _MCP = "Where it listens", "Who is served", "Limits", "What is served", "MCP"
_USUAL: Final = ServeOptions()
_RUNS: Final[dict[type[Options], str]] = {}
"""Who runs a command with its options: a module beside this one, and a function of it."""


class _Commands(TyperGroup):
    """The command group: an error in any command becomes one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        from jazz_select.cli.terminal import reporting

        with reporting(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)


def _run(given: Options, **_: object) -> None:
    module, function = _RUNS[type(given)].split(":")
    getattr(import_module(f"jazz_select.cli.{module}"), function)(given.settings(), given)


app = typer.Typer(
    name="jazz-select",
    cls=_Commands,
    result_callback=_run,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass_transform(kw_only_default=True, frozen_default=True)
def _command(name: str, run: str) -> Callable[[type[_Given]], type[_Given]]:
    """Add a command: its options are the fields of a class, its help is the class's docstring."""

    def added(given: type[_Given]) -> type[_Given]:
        made = dataclass(frozen=True, kw_only=True)(given)
        _RUNS[made] = run
        return app.command(name)(made)

    return added


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
    debug: Annotated[bool, flag("--debug", "Show tracebacks and the log.")] = False,
) -> None:
    """Find the right flow for a request.

    Options win over the JAZZ_ variables of the environment.
    """


@_command("sync", "catalogue_commands:sync")
class SyncCommand(JsonOption, IndexOptions, DatabaseOption, LearnedOption, EvidenceOption, FlowOptions):
    """Bring the index to the flows: create, update and delete what changed, leave the rest.

    Where that would delete more than 5 flows, and more than half of the agent's, it asks first; where nobody can be
    asked, it stops.
    """

    tools: Annotated[
        str | None,
        option("The tools that there are, as for graph: a flow that names another is an error.", "PATH|PACKAGE"),
    ] = None
    log: LogOption = None
    dry_run: Annotated[bool, flag("--dry-run", "Only say what would change.")] = False
    yes: Annotated[
        bool, flag("--yes", "Delete also where that is most of the agent's flows, and do not ask.", "-y")
    ] = False


@_command("select", "catalogue_commands:select")
class SelectCommand(JsonOption, IndexOptions, ChoiceOptions, FlowOptions):
    """Find the flows for a request, and show what there was to choose from and why it came out like this."""

    request: Annotated[str, typer.Argument(help='What the user wants; "-" reads it from stdin.')]
    episode: Annotated[list[str] | None, option("Summary of what was said before; may be repeated.", "TEXT")] = None
    context: Annotated[
        list[str] | None,
        option(
            "What guards look at; may be repeated. true/false, yes/no and on/off in any case are booleans, JSON is "
            "read as such, all else is text; 'KEY=\"yes\"' is text too.",
            "KEY=VALUE",
        ),
    ] = None
    prompt: Annotated[bool, flag("--prompt", "Print the prompt of the chosen flows instead.")] = False
    trace: Annotated[bool, flag("--trace", "Print every narrowing, decision and call as well.")] = False


@_command("list", "catalogue_commands:list_flows")
class ListCommand(JsonOption, IndexOptions):
    """Show which flows of an agent are in the index."""


@_command("graph", "catalogue_commands:graph")
class GraphCommand(JsonOption):
    """Show which tool can follow which, as a mermaid flowchart."""

    source: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH|PACKAGE",
            help="A folder, package or .py file with TOOLS, or a JSON listing. (default: flows, the folder here)",
        ),
    ] = None
    min_compatibility: Annotated[float, option("How well two tools must fit to be joined.", least=0, most=1)] = 0.5


@_command("check", "check_commands:check_flows")
class CheckCommand(JsonOption, AgentOption, FlowOptions):
    """Find everything that is wrong with a catalogue, the worst first, and tell what it decides without a model.

    No index and no model is needed.
    """

    source: Annotated[str | None, typer.Argument(metavar="PATH|PACKAGE", help="The flows, as for --flows.")] = None
    tools: Annotated[
        str | None,
        option("The tools that there are: flows may name no others. (default: those beside the flows)", "PATH|PACKAGE"),
    ] = None
    cases: Annotated[
        list[Path] | None, option("Labelled requests, which no example may repeat; repeatable.", "FILE")
    ] = None
    only: Annotated[list[str] | None, option("Look for these kinds alone; repeatable.", "CODE,…")] = None
    ignore: Annotated[
        list[str] | None,
        option(
            "Accept a kind, or one finding of it; beside `ignore` in pyproject.toml (tool.jazz-select.check).",
            "CODE[:FLOW,…]",
        ),
    ] = None
    fail_on: Annotated[
        Literal["error", "warning", "note", "never"] | None,
        option("Exit with 1 from findings of this level on. (default: error)"),
    ] = None
    log: LogOption = None
    sarif: Annotated[Path | None, option("Write SARIF 2.1.0 as well, for GitHub and editors.", "FILE")] = None

    def settings(self) -> Any:
        """The settings, with the flows that were named in either way."""
        if self.source is not None and self.flows is not None:
            raise ConfigError("name the flows once: as the argument, or with --flows")
        return settings_with({**vars(self), "flows": self.flows if self.source is None else self.source})


def _print_schema(asked: bool) -> None:  # noqa: FBT001 - the signature of an option's callback
    if asked:
        from jazz_select.cli.terminal import emit
        from jazz_select.evaluation.cases import case_schema

        emit(case_schema())
        raise typer.Exit


@_command("eval", "evaluation:judge")
class EvalCommand(JsonOption, IndexOptions, LearnedOption, ChoiceOptions, FlowOptions):
    """Measure on labelled requests how well the flows are found, and with a model how well it chooses.

    The flows are judged as they are written, without a sync; with --index or --url the index that is there is judged.
    Exit code 1: a --fail-under is not reached, or a case was left out, which is said; all others were judged.
    """

    file: Annotated[
        Path, typer.Argument(help="Labelled requests, as YAML, JSON, JSON Lines or CSV; examples/eval.yaml is one.")
    ]
    factory: Annotated[
        str,
        option(
            "Judge the selector of the agent that this function makes, as for converse, with the models it gives it.",
            "MODULE:FACTORY",
            "--agent",
            panel=CHOICE,
        ),
    ] = ""
    log: LogOption = None
    tag: Annotated[list[str] | None, option("Only cases with this tag; may be repeated.", "TAG")] = None
    at: Annotated[
        float,
        option(
            "Find the error budget that saves most calls while this share of what is decided without a model is right.",
            "SHARE",
            panel=_GOOD,
        ),
    ] = 0.99
    k: Annotated[
        list[int] | None, option("Show R@N as well; may be repeated.", "N", "--k", panel=_REPORT, least=1, most=10)
    ] = None
    fail_under: Annotated[
        list[str] | None,
        option(
            "Exit with 1 where a measure is below, such as R@1=.8, several:R@3=.7 or none-F1=.5; may be repeated. "
            "A misspelt one lists all there are.",
            "MEASURE=VALUE",
            panel=_GOOD,
        ),
    ] = None
    by_flow: Annotated[bool, flag("--by-flow", "Show every flow, not the worst alone.", panel=_REPORT)] = False
    format: Annotated[
        Literal["table", "json", "junit", "markdown"] | None,
        option("How it is told. (default: by the name of --output, else a table)", panel=_REPORT),
    ] = None
    output: Annotated[
        Path | None, option("Write it there, and show the table as well.", "FILE", "--output", "-o", panel=_REPORT)
    ] = None
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            is_eager=True,
            callback=_print_schema,
            help="Print the JSON Schema of such a file, for editors.",
            rich_help_panel=_REPORT,
        ),
    ] = False


@_command("converse", "conversing:converse")
class ConverseCommand(JsonOption, RecallOptions, FlowOptions):
    """Play conversations against an agent, and check flows, tools, arguments, texts and how each turn ends.

    Where no model is configured, the scripts in the file answer. It leaves with 1 where a conversation fails.
    """

    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", help="Conversations, as YAML; examples/clinic/conversations.yaml is such a file."
        ),
    ]
    tools: Annotated[
        str | None,
        option(
            "The tools, as for graph, loaded anew for each conversation. (default: those beside the flows)",
            "PATH|PACKAGE",
        ),
    ] = None
    factory: Annotated[
        str,
        option(
            "Makes the agent: a function that takes the selector, and the model where it has a parameter `model`, and "
            "returns an Agent, anew each time; instead of one made of --tools.",
            "MODULE:FACTORY",
            "--agent",
        ),
    ] = ""
    only: Annotated[list[str] | None, option("Play these alone; may be repeated.", "ID|TAG")] = None
    at_once: Annotated[int, option("How many are played at the same time.", least=1)] = 1
    llm: LlmOption = None
    verbose: Annotated[bool, flag("--verbose", "Show every turn, also of those that pass.", "-v")] = False


@_command("diff", "evaluation:compare")
class DiffCommand(JsonOption, AgentOption, LearnedOption, RecallOptions, FlowOptions):
    r"""Show which requests a change of the flows leads elsewhere, and stop it where a gate is not passed.

    Every case, logged request and example is asked of both versions; no model is. The gates are those of
    \[tool.jazz-select.gates] in pyproject.toml; where one is not passed the exit code is 1.
    """

    base: Annotated[str, typer.Argument(help="Before: a commit, A...B (what both share), a folder, index:FOLDER.")] = (
        "HEAD"
    )
    head: Annotated[str, typer.Argument(help='After, likewise; "." is the working tree as it is.')] = "."
    base_flows: Annotated[str | None, option("Where the flows are in BASE, if elsewhere.", "PATH")] = None
    cases: Annotated[
        list[Path] | None, option("Labelled requests; repeatable. (default: examples/eval.yaml)", "FILE")
    ] = None
    requests: Annotated[list[Path] | None, option("What users asked, one request a line; repeatable.", "FILE")] = None
    log: LogOption = None
    markdown: Annotated[Path | None, option("Write a comment for a pull request as well.", "FILE")] = None
    all: Annotated[bool, flag("--all", "Show every change; without, the 30 most harmful.")] = False
    no_cache: Annotated[bool, flag("--no-cache", "Judge all anew, and keep nothing.")] = False


@_command("suggest", "check_commands:suggest_texts")
class SuggestCommand(JsonOption, AgentOption, FlowOptions):
    """Suggest examples, negatives and sharper conditions for thin or colliding flows. No flow is changed."""

    flow: Annotated[
        list[str] | None, option("Look at this flow, not at those that check finds; repeatable.", "NAME")
    ] = None
    log: LogOption = None
    cases: Annotated[
        list[Path] | None, option("Labelled requests that must not become examples; repeatable.", "FILE")
    ] = None
    most: Annotated[int, option("Examples and negatives for each flow.", "N", least=1)] = 5
    llm: LlmOption = None
    output: Annotated[Path | None, option("Write a YAML file for review, a new one.", "FILE")] = None


@_command("learn", "learn_commands:learn_from")
class LearnCommand(JsonOption, AgentOption, RecallOptions, FlowOptions):
    """Learn examples from the corrections in a log, into a file beside the flows, and tell what that costs.

    What people said is learned; what users said waits for witnesses, or for --accept. It is on trial first: --shadow
    shows what it would change, --promote makes it live at the next sync.
    """

    log: Annotated[Path | None, typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it.")] = (
        None
    )
    accept: Annotated[
        list[str] | None,
        option("Say yourself what was said of this entry, so that it is learned; repeatable.", "ID"),
    ] = None
    undo: Annotated[
        list[str] | None,
        option("Take back what was said of this entry, so that it is unlearned; repeatable.", "ID"),
    ] = None
    by: Annotated[str, option("Who says so, for the log.", "NAME")] = "command line"
    cases: Annotated[Path | None, option("Labelled requests to tell the costs by, as for eval.", "FILE")] = None
    tools: Annotated[
        str | None,
        option(
            "The tools, which tell the flows that may change something. (default: those beside the flows)",
            "PATH|PACKAGE",
        ),
    ] = None
    learned: Annotated[
        Path | None,
        option("Where it is kept what was learned: learned.yaml, unless another is named. (JAZZ_LEARNED)", "FILE"),
    ] = None
    shadow: Annotated[bool, flag("--shadow", "Learn nothing: show what the version on trial would have changed.")] = (
        False
    )
    promote: Annotated[bool, flag("--promote", "Make the version on trial the live one.")] = False
    roll_back: Annotated[bool, flag("--roll-back", "Make the version live that was so before; LOG is told of it.")] = (
        False
    )


@_command("drift", "learn_commands:watch")
class DriftCommand(JsonOption, AgentOption, FlowOptions):
    """Show how selection changes: how sure it is, who is asked, flows that nobody gets, requests without a flow."""

    log: Annotated[Path, typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it.")]
    days: Annotated[float, option("The last N days against the N before.", "N")] = 7
    fail_on_alarm: Annotated[bool, flag("--fail-on-alarm", "Exit code 1 where something is to be looked at.")] = False


@_command("serve", "service:serve_agents")
class ServeCommand(IndexOptions, DatabaseOption, LearnedOption, EvidenceOption, ChoiceOptions, FlowOptions):
    """Serve the flows over HTTP, MCP and a panel in the browser: one process, or replicas that share a database.

    The flows are synced first. SIGTERM lets what is in flight end.
    """

    tools: Annotated[
        str | None,
        option("Its tools; without it those in the folder, package or .py file of the flows.", "PATH|PACKAGE"),
    ] = None
    factory: Annotated[
        str | None,
        option(
            "Makes the agent: a function that takes the selector and returns an Agent, with guards, facts and texts of "
            "its own; instead of one made of --tools.",
            "MODULE:FACTORY",
            "--agent",
        ),
    ] = None
    log: Annotated[Path | None, option("Keep each selection, and what was right, in a log of outcomes.", "FILE")] = None
    cases: Annotated[list[Path] | None, option("Labelled requests that the panel judges by; repeatable.", "FILE")] = (
        None
    )
    host: Annotated[str, option("Another than this machine's own needs a key.", "ADDRESS", panel=_WHERE)] = "127.0.0.1"
    port: Annotated[int, option("0: one that is free; it is printed.", "N", panel=_WHERE, least=0, most=65_535)] = 8420
    uds: Annotated[Path | None, option("A Unix socket instead, for its owner and group.", "FILE", panel=_WHERE)] = None
    key_file: Annotated[
        list[Path] | None,
        option(
            "Whoever asks has to send the key in it; repeatable. (JAZZ_SERVE_KEY holds one itself)",
            "FILE",
            panel=_WHO,
        ),
    ] = None
    teach_key_file: Annotated[
        list[Path] | None,
        option(
            "Likewise, of somebody who may teach, and correct what was asked with other keys. A key that is the only "
            "one may. Repeatable.",
            "FILE",
            panel=_WHO,
        ),
    ] = None
    agents: Annotated[
        Path | None, option("Several agents, each with flows and keys of its own.", "FILE", panel=_WHO)
    ] = None
    rate: Annotated[float | None, option("Requests a second of each key. (default: no limit)", "N", panel=_LIMITS)] = (
        _USUAL.rate
    )
    max_in_flight: Annotated[int, option("Requests at once.", "N", panel=_LIMITS, least=1)] = _USUAL.max_in_flight
    max_body: Annotated[int, option("Of a request.", "BYTES", panel=_LIMITS, least=1)] = _USUAL.max_body
    max_values: Annotated[int, option("Values of JSON in a body.", "N", panel=_LIMITS, least=1)] = _USUAL.max_values
    max_connections: Annotated[int, option("Open at once.", "N", panel=_LIMITS, least=1)] = _USUAL.max_connections
    max_connections_of_one: Annotated[int, option("Likewise, of one address.", "N", panel=_LIMITS, least=1)] = (
        _USUAL.max_connections_of_one
    )
    stop_s: Annotated[float, option("For what is in flight, when it stops.", "S", panel=_LIMITS, least=0.1)] = (
        _USUAL.stop_s
    )
    drain_s: Annotated[float, option("Before that, while /readyz says that it will.", "S", panel=_LIMITS, least=0)] = (
        _USUAL.drain_s
    )
    conversations: Annotated[
        float | None,
        option(
            "Keep conversations in the database for so long after their last turn: clients send their id alone.",
            "S",
            panel=_PARTS,
            least=1,
        ),
    ] = _USUAL.conversations
    panel: Annotated[bool, flag("--panel/--no-panel", "The panel, at /panel/.", panel=_PARTS)] = _USUAL.panel
    mcp: Annotated[
        Literal["http", "stdio", "none"],
        option(
            "MCP: at /mcp beside the rest; on standard in- and output, and nothing else; or not at all.", panel=_MCP
        ),
    ] = "http"
    mcp_servers: Annotated[
        Path | None,
        option(
            'Be a gateway for these servers: {"mcpServers": {"NAME": {"command": …} or {"url": …}}}.',
            "FILE",
            panel=_MCP,
        ),
    ] = None
    tool_examples: Annotated[
        Path | None,
        option(
            "Requests that each connected tool is for; with a model (--llm), those that it lacks are written into it.",
            "FILE",
            panel=_MCP,
        ),
    ] = None
    mcp_listed: Annotated[
        Literal["none", "found", "all"],
        option("Which tools are listed beside the four: none, those that a search has found, or all.", panel=_MCP),
    ] = "none"
    reload: Annotated[bool, flag("--reload/--no-reload", "Changed files are live at once.", panel=_PARTS)] = True
    reload_every: Annotated[
        float | None,
        option("Look for them so often, such as on a slow network file system.", "S", panel=_PARTS, least=0.05),
    ] = None
    access_log: Annotated[
        bool, flag("--access-log/--no-access-log", "A line of JSON on stderr for each request.", panel=_PARTS)
    ] = True
    yes: Annotated[bool, flag("--yes", "Delete from the index also where that is most of an agent's flows.", "-y")] = (
        False
    )

    @property
    def options(self) -> ServeOptions:
        """The limits and parts of the service."""
        own = {each.name: vars(self)[each.name] for each in fields(ServeOptions) if each.name in vars(self)}
        return ServeOptions(**{**own, "mcp": self.mcp == "http"})


@_command("guard", "guarding:guard_servers")
class GuardCommand(Options):
    """Guard MCP servers: their own tools, and a yes of the person at the client before something may change.

    No flows, no model and no index are needed. It is an MCP server itself, on standard in- and output, or over HTTP.
    """

    mcp_servers: Annotated[
        Path | None, option('The servers: {"mcpServers": {"NAME": {"command": …} or {"url": …}}}.', "FILE")
    ] = None
    approval: Annotated[
        Literal["destructive", "always"],
        option("Which calls wait for a yes: those that may destroy something, or all."),
    ] = "destructive"
    trust_hints: Annotated[
        bool, flag("--trust-hints", "Believe the servers that a tool is harmless, as `trusted` in their entries does.")
    ] = False
    claims: Annotated[
        Path | None, option("Keep in it which calls were made, also for the next start. (default: in memory)", "FILE")
    ] = None
    log: Annotated[Path | None, option("Add a line of JSON for each call.", "FILE")] = None
    log_arguments: Annotated[bool, flag("--log-arguments", "With the arguments, which may be private.")] = False
    changes_per_hour: Annotated[
        int, option("Calls of each client that wait for a yes; 0: no limit.", "N", panel=_LIMITS, least=0)
    ] = 100
    at_once: Annotated[int, option("Calls of each client at one time.", "N", panel=_LIMITS, least=1)] = 16
    http: Annotated[bool, flag("--http", "Answer at http://HOST:PORT/mcp, many clients.", panel=_WHERE)] = False
    host: Annotated[str, option("Another than this machine's own needs a key.", "ADDRESS", panel=_WHERE)] = "127.0.0.1"
    port: Annotated[int, option("0: one that is free; it is printed.", "N", panel=_WHERE, least=0, most=65_535)] = 8421
    key_file: Annotated[
        list[Path] | None,
        option("Whoever asks has to send the key in it; repeatable. (JAZZ_SERVE_KEY holds one)", "FILE", panel=_WHERE),
    ] = None
    rate: Annotated[float | None, option("Requests a second of each key. (default: no limit)", "N", panel=_LIMITS)] = (
        None
    )
