"""The command `serve`: one process for many. It imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from jazz_select.cli.options import (
    SELECTING,
    AgentOption,
    EmbedderOption,
    FlowsOption,
    IndexOption,
    LearnedOption,
    LlmOption,
    OnEmptyOption,
    RrfKOption,
    TopKOption,
    UrlOption,
    also_read,
    cases_option,
    settings_with,
    tools_option,
)
from jazz_select.service.options import ServeOptions

serving = typer.Typer()
"""Joins the other commands; a group without a name adds no level."""
_WHERE, _WHO, _LIMITS, _PARTS, _MCP = "Where it listens", "Who is served", "Limits", "What is served", "MCP"
_USUAL: Final = ServeOptions()


@serving.command(epilog=also_read(*SELECTING, "serve_secret", "serve_state"))
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
    settings = settings_with(
        {
            "flows": flows,
            "agent_id": agent,
            "learned": learned,
            "index": index,
            "url": url,
            "embedder": embedder,
            "llm": llm,
            "top_k": top_k,
            "rrf_k": rrf_k,
            "on_empty": on_empty,
        }
    )
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
