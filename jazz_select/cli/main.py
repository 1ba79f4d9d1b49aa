"""The commands and their options. What a command needs is imported when it runs, so that `--help` is quick."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar, dataclass_transform

import typer
from typer.core import TyperGroup

from jazz_select import __version__
from jazz_select.cli.shared_options import (
    CHOICE,
    AgentOption,
    ChoiceOptions,
    ConfigOption,
    DatabaseOption,
    EvidenceOption,
    FlowOptions,
    FlowsOption,
    IndexOption,
    IndexOptions,
    IndexPlaceOptions,
    JsonOption,
    LearnedOption,
    LlmOption,
    LogOption,
    Options,
    PolicyOption,
    RecallOptions,
    TopKOption,
    flag,
    option,
    settings_with,
)
from jazz_select.errors import ConfigError

if TYPE_CHECKING:
    from jazz_select.cli.config import CommandConfig, EvalConfig, ServeConfig

_Given = TypeVar("_Given", bound=Options)
_WHERE, _LIMITS = "Where it listens", "Limits"
_RUNS: Final[dict[type[Options], str]] = {}
"""Who runs a command with its options: a module beside this one, and a function of it."""


class _Commands(TyperGroup):
    """The command group: an error in any command becomes one line and exit code 2."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        from jazz_select.cli.terminal import report_errors

        with report_errors(debug=bool(ctx.params.get("debug"))):
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

    def add_command(given: type[_Given]) -> type[_Given]:
        made = dataclass(frozen=True, kw_only=True)(given)
        _RUNS[made] = run
        return app.command(name)(made)

    return add_command


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
        """Return the settings; the flows may be named by the argument or by `--flows`, but not by both."""
        if self.source is not None and self.flows is not None:
            raise ConfigError("name the flows once: as the argument, or with --flows")
        return settings_with({**vars(self), "flows": self.flows if self.source is None else self.source})


@_command("eval", "evaluation:judge")
class EvalCommand(JsonOption, IndexOption, LearnedOption, FlowOptions, ConfigOption):
    """Measure on labelled requests how well the flows are found, and with a model how well it chooses.

    The flows are judged as they are written, without a sync; with --index, or --config url=…, the index that is there
    is judged. The exit code is 1 where a --fail-under is not reached, or a case was left out, which is said.
    """

    file: Annotated[
        Path, typer.Argument(help="Labelled requests, as YAML, JSON, JSON Lines or CSV; examples/eval.yaml is one.")
    ]
    top_k: TopKOption = None
    llm: LlmOption = None
    policy: PolicyOption = None
    factory: Annotated[
        str | None,
        option(
            "Judge the selector of the agent that this function makes, as for converse, with the models it gives it.",
            "MODULE:FACTORY",
            "--agent",
            panel=CHOICE,
        ),
    ] = None
    log: LogOption = None
    tag: Annotated[list[str] | None, option("Only cases with this tag; may be repeated.", "TAG")] = None
    fail_under: Annotated[
        list[str] | None,
        option(
            "Exit with 1 where a measure is below, such as R@1=.8, several:R@3=.7 or none-F1=.5; may be repeated. "
            "A misspelt one lists all there are.",
            "MEASURE=VALUE",
        ),
    ] = None
    output: Annotated[
        Path | None,
        option(
            "Write it there as well: .json has all, .xml is JUnit, .md a comment, anything else a table.",
            "FILE",
            "--output",
            "-o",
        ),
    ] = None

    @property
    def config_kind(self) -> "type[CommandConfig]":
        """What the files of `--config` may hold beside `Settings`."""
        from jazz_select.cli.config import EvalConfig

        return EvalConfig

    @property
    def is_deployed(self) -> bool:
        """Whether the index that is there is judged, in place of the flows as written."""
        return self.index is not None or not self.entries.values.keys().isdisjoint({"index", "url"})

    def merge_config(self) -> "EvalConfig":
        """Return what to evaluate, from the options and from `--config`."""
        from jazz_select.cli.config import EvalConfig, config_of

        return config_of(EvalConfig, self.entries, vars(self))


@_command("schema", "schemas:print_schema")
class SchemaCommand(Options):
    """Print the JSON Schema of a file, for editors."""

    of: Annotated[
        Literal["cases", "serve", "eval"],
        typer.Argument(
            help="Labelled requests, or a file for --config of serve or of eval.", metavar="cases|serve|eval"
        ),
    ] = "cases"


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
class LearnCommand(JsonOption, AgentOption, DatabaseOption, RecallOptions, FlowOptions):
    """Learn examples from the corrections in a log, into a file beside the flows, and tell what that costs.

    With a database the log is there, and so is what was learned: replicas switch to what is promoted.

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
class DriftCommand(JsonOption, AgentOption, DatabaseOption, FlowOptions):
    """Show how selection changes: how sure it is, who is asked, flows that nobody gets, requests without a flow."""

    log: Annotated[Path | None, typer.Argument(help="A log of outcomes, as FlowSelector(…, log=PATH) writes it.")] = (
        None
    )
    days: Annotated[float, option("The last N days against the N before.", "N")] = 7
    fail_on_alarm: Annotated[bool, flag("--fail-on-alarm", "Exit code 1 where something is to be looked at.")] = False


@_command("serve", "service:serve_agents")
class ServeCommand(IndexPlaceOptions, DatabaseOption, ConfigOption):
    """Serve the flows over HTTP, MCP and a panel in the browser: one process, or replicas that share a database.

    The flows are synced first. SIGTERM lets what is in flight end. Limits, a gateway's servers and all else that is set
    once stand in a file for --config.
    """

    flows: FlowsOption = None
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
    agents: Annotated[Path | None, option("Several agents, each with flows and keys of its own.", "FILE")] = None
    llm: LlmOption = None
    log: Annotated[Path | None, option("Keep each selection, and what was right, in a log of outcomes.", "FILE")] = None
    host: Annotated[
        str | None,
        option("Another than this machine's own needs a key. (default: 127.0.0.1)", "ADDRESS", panel=_WHERE),
    ] = None
    port: Annotated[
        int | None,
        option("0: one that is free; it is printed. (default: 8420)", "N", panel=_WHERE, least=0, most=65_535),
    ] = None
    key_file: Annotated[
        list[Path] | None,
        option(
            "Whoever asks has to send the key in it; repeatable. (JAZZ_SERVE_KEY holds one itself)",
            "FILE",
            panel=_WHERE,
        ),
    ] = None
    mcp: Annotated[
        Literal["http", "stdio", "none"] | None,
        option(
            "MCP: at /mcp beside the rest; on standard in- and output, and nothing else; or not at all. "
            "(default: http)",
            panel=_WHERE,
        ),
    ] = None

    @property
    def config_kind(self) -> "type[CommandConfig]":
        """What the files of `--config` may hold beside `Settings`."""
        from jazz_select.cli.config import ServeConfig

        return ServeConfig

    def merge_config(self) -> "ServeConfig":
        """Return what to serve, from the options and from `--config`."""
        from jazz_select.cli.config import ServeConfig, config_of

        return config_of(ServeConfig, self.entries, vars(self))


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
