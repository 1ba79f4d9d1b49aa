"""`jazz-select converse`: plays conversation cases against an agent, and shows where one comes out otherwise."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jazz_select.agent import Agent
from jazz_select.cli.session import catalogue, look_here
from jazz_select.cli.terminal import emit, hint, mark, milliseconds, progress, stdout, styled
from jazz_select.errors import ConfigError
from jazz_select.evaluation.conversations import ConversationCase, load_conversations
from jazz_select.evaluation.index import AGENT, CACHE, indexed
from jazz_select.evaluation.playing import play_all
from jazz_select.evaluation.route import Policy
from jazz_select.routing.tools.loading import load_policy, load_tools, no_tools
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.selector.select import FlowSelector
from jazz_select.text import counted, describe_error

if TYPE_CHECKING:
    from jazz_select.evaluation.playing import ConversationReport, ConversationResult, MakeAgent, Outcome, TurnPlayed
    from jazz_select.flow.base import FlowRegistry
    from jazz_select.ports import ChatModel
    from jazz_select.settings import Settings

_STYLES: "dict[Outcome, str]" = {"passed": "green", "failed": "bold red", "xfailed": "yellow", "xpassed": "yellow"}
_NOT_GOOD_ENOUGH = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is played and how.

    Attributes:
        source: The file or folder of conversations.
        only: Ids or tags of those that are played; all where empty.
        agent: `package.module:factory`, which makes the agent; empty where the settings do.
        tools: Where the tools are; beside the flows where None.
        at_once: How many are played at the same time.
        shown: Whether those that pass are shown turn by turn as well.
    """

    source: Path
    only: Sequence[str] = ()
    agent: str = ""
    tools: str | None = None
    at_once: int = 1
    shown: bool = False


def run(settings: "Settings", wanted: Wanted, *, as_json: bool) -> None:
    """Play, report, and leave with 1 where a conversation failed."""
    report = asyncio.run(_played(settings, wanted, quiet=as_json))
    if as_json:
        emit(report.to_dict())
    else:
        _show(report, settings, shown=wanted.shown)
    if not report.passed:
        raise typer.Exit(_NOT_GOOD_ENOUGH)


async def _played(settings: "Settings", wanted: Wanted, *, quiet: bool) -> "ConversationReport":
    if wanted.agent:
        cases = _chosen(load_conversations(wanted.source), wanted.only)
        return await _all(cases, _factory(wanted.agent), settings, wanted)
    registry = catalogue(settings, learned=True)
    tools = _tools_of(settings.flows, wanted.tools, quiet=quiet)
    cases = _chosen(load_conversations(wanted.source, registry, tools=tools()), wanted.only)
    async with _made_of(settings, registry, tools, wanted.tools or settings.flows) as make_agent:
        return await _all(cases, make_agent, settings, wanted)


async def _all(
    cases: Sequence[ConversationCase], make_agent: "MakeAgent", settings: "Settings", wanted: Wanted
) -> "ConversationReport":
    with progress("playing") as update:
        return await play_all(cases, make_agent, model=settings.llm, at_once=wanted.at_once, progress=update)


def _tools_of(flows: str, named: str | None, *, quiet: bool) -> Callable[[], Toolbox]:
    """What gives tools anew, each time it is asked; those of the flows where none are named, if there are any."""
    if named is not None:
        return partial(load_tools, named)
    if not load_tools(flows, may_be_none=True) and not quiet:
        hint(no_tools(flows, named_by="--tools"))
    return partial(load_tools, flows, may_be_none=True)


@asynccontextmanager
async def _made_of(
    settings: "Settings", registry: "FlowRegistry", tools: Callable[[], Toolbox], source: str
) -> AsyncGenerator["MakeAgent"]:
    """Agents over one index of the flows, each with tools that were loaded for it alone."""
    async with indexed(registry, embedder=settings.embedder, language=settings.language, cache=CACHE) as memory:

        def make(model: "ChatModel | None") -> Agent:
            own = tools()
            # An agent takes no flow whose tools are not there, but where it has none at all.
            able = registry if not own else {key: flow for key, flow in registry.items() if not flow.lacks(own)}
            selector = FlowSelector(
                model,
                able,
                memory,
                AGENT,
                timeout_s=settings.timeout_s,
                **Policy.of(settings).options(),
            )
            return Agent(selector, own, model, decision_callback=None if model or not own else load_policy(source))

        yield make


def _factory(named: str) -> "MakeAgent":
    """What `package.module:factory` names.

    Raises:
        ConfigError: There is no such thing, or it cannot be called.
    """
    module, colon, name = named.partition(":")
    if not module or not colon or not name:
        msg = f"--agent {named!r:.80} is told as package.module:factory, such as shop.agents:make_agent"
        raise ConfigError(msg)
    look_here()
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        msg = f"--agent {named}: {describe_error(error)}"
        raise ConfigError(msg) from error
    if not callable(found):
        msg = f"--agent {named} is no function: it takes the model to ask, and returns an agent of its own each time"
        raise ConfigError(msg)
    return cast("MakeAgent", found)


def _chosen(cases: Sequence[ConversationCase], only: Sequence[str]) -> Sequence[ConversationCase]:
    if not only:
        return cases
    known = {case.name for case in cases} | {tag for case in cases for tag in case.tags}
    if unknown := [each for each in only if each not in known]:
        ids = ", ".join(case.name for case in cases[:20])
        msg = f"--only {unknown[0]!r:.80}: no conversation has this id or tag; there are {ids}"
        raise ConfigError(msg)
    return [case for case in cases if {case.name, *case.tags} & set(only)]


# --- how it looks ------------------------------------------------------------------


def _show(report: "ConversationReport", settings: "Settings", *, shown: bool) -> None:
    console = stdout()
    for result in report.results:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        title = Text.assemble(styled(result.title, "bold"), "  ", styled(counted(len(result.turns), "turn"), "dim"))
        grid.add_row(mark(console, good=result.outcome != "failed"), title)
        if result.xfail:
            grid.add_row("", styled(f"{result.outcome}: {result.xfail}", _STYLES[result.outcome]))
        console.print(grid)
        if shown or result.outcome == "failed":
            console.print(styled(f"  {result.file} --only {result.id}", "dim"), soft_wrap=True)
            console.print(_turns(console, result))
    checks = sum(1 for result in report.results for _ in result.all_checks)
    turns = sum(len(result.turns) for result in report.results)
    parts = [f"{report.count(each)} {each}" for each in _STYLES if report.count(each)]
    who = settings.llm or "the scripts answered"
    console.print()
    console.print(styled(f"{counted(len(report.results), 'conversation')}: {', '.join(parts)}", "bold"))
    told = f"{counted(turns, 'turn')}, {counted(checks, 'check')}, {milliseconds(report.took_s)}; {who}"
    console.print(styled(told, "dim"))


def _turns(console: Console, result: "ConversationResult") -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=7, justify="right", style="dim")
    grid.add_column(overflow="fold")
    for turn in result.turns:
        grid.add_row(f"{turn.number} user", styled(turn.say, limit=500))
        grid.add_row("agent", styled(turn.seen.text or turn.seen.reason, "cyan", limit=1_000))
        grid.add_row("", styled(_how(turn), "dim", limit=1_000))
        for check in turn.checks:
            if not check.passed:
                grid.add_row("", Text.assemble(mark(console, good=False), " ", styled(str(check), "red", limit=1_500)))
    for check in result.checks:
        if not check.passed:
            cross = mark(console, good=False)
            grid.add_row("whole", Text.assemble(cross, " ", styled(str(check), "red", limit=1_500)))
    if result.error:
        grid.add_row("", styled(f"it broke off: {result.error}", "red", limit=1_500))
    grid.add_row("", "")
    return grid


def _how(turn: "TurnPlayed") -> str:
    seen = turn.seen
    waits = f", waits for {', '.join(seen.waits_for)}" if seen.waits_for else ""
    calls = "".join(f"; {call}" for call in seen.tools)
    asked = "" if not seen.model_calls else f", {counted(seen.model_calls, 'question')} to the model"
    return f"{seen.status}: {', '.join(seen.flows) or 'no flow'}{waits}{asked}{calls}"
