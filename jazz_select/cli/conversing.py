"""`jazz-select converse`: plays conversation cases against an agent, and shows where one comes out otherwise."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from jazz_select.agent import Agent
from jazz_select.build import AgentFactory, load_factory, made_by
from jazz_select.cli.session import catalogue, look_here
from jazz_select.cli.terminal import facts, fill_template, hint, line, mark, milliseconds, progress, styled, tell
from jazz_select.errors import ConfigError
from jazz_select.evaluation.conversations import ConversationCase, load_conversations
from jazz_select.evaluation.index import AGENT, CACHE, indexed
from jazz_select.evaluation.playing import play_all
from jazz_select.evaluation.route import RouteOptions
from jazz_select.routing.tools.skill_tools import with_skill_tools
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.routing.tools.tool_loading import load_policy, load_tools, no_tools
from jazz_select.selector.select import FlowSelector
from jazz_select.text import count_of

if TYPE_CHECKING:
    from jazz_select.cli.main import ConverseCommand
    from jazz_select.evaluation.conversations import Check
    from jazz_select.evaluation.playing import ConversationReport, ConversationResult, MakeAgent
    from jazz_select.flow.base import BaseFlow, FlowRegistry
    from jazz_select.ports import ChatModel
    from jazz_select.settings import Settings


def converse(settings: "Settings", given: "ConverseCommand") -> None:
    """Play, report, and leave with 1 where a conversation failed."""
    report = asyncio.run(_play_conversations(settings, given))
    tell(report.to_dict(), _report(report, settings, every=given.verbose), json=given.json)
    if not report.passed:
        raise typer.Exit(1)


async def _play_conversations(settings: "Settings", given: "ConverseCommand") -> "ConversationReport":
    async with AsyncExitStack() as stack:
        registry = catalogue(settings, learned=settings.learned_by_now)
        if given.factory:
            look_here()
            factory = load_factory(given.factory, named_by="--agent")
            cases = load_conversations(given.source, registry)
            agents = _made_of(settings, registry, factory)
        else:
            tools = _with_skills(_tools_of(settings, given.tools, quiet=given.json), settings, registry)
            cases = load_conversations(given.source, registry, tools=tools())
            agents = _made_of(settings, registry, _of_tools(tools, given.tools or settings.flows), tools)
        make_agent = await stack.enter_async_context(agents)
        cases = _select_cases(cases, given.only or ())
        update = stack.enter_context(progress("playing"))
        return await play_all(cases, make_agent, model=settings.llm, at_once=given.at_once, progress=update)


def _tools_of(settings: "Settings", named: str | None, *, quiet: bool) -> Callable[..., Toolbox]:
    """Return a function that makes the tools anew for each conversation: the named ones, else those of the flows."""
    flows = settings.flows
    if named is not None:
        return partial(load_tools, named, allow_modules=settings.allowed_modules)
    if not load_tools(flows, may_be_none=True) and not quiet:
        hint(no_tools(flows, named_by="--tools"))
    return partial(load_tools, flows, may_be_none=True)


def _with_skills(
    tools: Callable[..., Toolbox], settings: "Settings", registry: "FlowRegistry"
) -> Callable[..., Toolbox]:
    def make(**state: Any) -> Toolbox:
        return with_skill_tools(tools(**state), registry.values(), scripts=settings.skill_scripts)

    return make


def _of_tools(tools: Callable[..., Toolbox], source: str) -> AgentFactory:
    def make(selector: FlowSelector, model: "ChatModel | None", state: Mapping[str, Any] | None = None) -> Agent:
        own = tools(state=state)
        # Without a model, the next tool is chosen by the policy that lies beside the tools.
        decide = None if model or not own else load_policy(source)
        return Agent(selector, own, model, decision_callback=decide)

    return make


@asynccontextmanager
async def _made_of(
    settings: "Settings", registry: "FlowRegistry", factory: AgentFactory, tools: Callable[[], Toolbox] | None = None
) -> AsyncGenerator["MakeAgent"]:
    async with indexed(registry, embedder=settings.embedder, language=settings.language, cache=CACHE) as memory:

        def make(model: "ChatModel | None", **state: Any) -> Any:
            own = tools() if tools is not None else Toolbox()
            flows: Mapping[str, BaseFlow] = registry
            if own:  # an agent takes no flow whose tools are not there, but where it has none at all
                flows = {key: flow for key, flow in registry.items() if not flow.lacks(own)}
            selector = FlowSelector(
                model,
                flows,
                memory,
                AGENT,
                timeout_s=settings.timeout_s,
                **RouteOptions.from_settings(settings).for_selector(),
            )
            return made_by(factory, selector, model, **state)

        yield make


def _select_cases(cases: Sequence[ConversationCase], only: Sequence[str]) -> Sequence[ConversationCase]:
    if not only:
        return cases
    known: set[str] = set()
    for case in cases:
        known.update((case.name, *case.tags))
    for name in only:
        if name not in known:
            ids = ", ".join(case.name for case in cases[:20])
            raise ConfigError(f"--only {name!r:.80}: no conversation has this id or tag; there are {ids}")
    return [case for case in cases if not set(only).isdisjoint((case.name, *case.tags))]


def _report(report: "ConversationReport", settings: "Settings", *, every: bool) -> Iterator[RenderableType]:
    for result in report.results:
        turns = Text(f" {count_of(len(result.turns), 'turn')}", style="dim")
        yield line(mark(good=result.passed), styled(result.title, "bold"), turns)
        if every or not result.passed:
            yield line(fill_template("  [dim]{file} --only {id}[/]", result))
            yield Padding.indent(facts(_turns(result)), 2)
            yield ""
    counts = report.to_dict()
    parts = [f"{count} {outcome}" for outcome, count in report.outcomes.items() if count]
    turns, checks = count_of(counts["turns"], "turn"), count_of(counts["checks"], "check")
    played = f"{turns}, {checks}, {milliseconds(report.took_s)}"
    yield ""
    yield line(f"{count_of(counts['conversations'], 'conversation')}: {', '.join(parts)}", style="bold")
    yield line(f"{played}; {settings.llm or 'the scripts answered'}", style="dim")


def _turns(result: "ConversationResult") -> Iterator[tuple[str, RenderableType]]:
    for turn in result.turns:
        yield f"{turn.number} user", styled(turn.say, limit=500)
        yield "agent", styled(turn.seen.text or turn.seen.reason, "cyan", limit=1_000)
        yield "", styled(str(turn.seen), "dim", limit=1_000)
        for check in turn.checks:
            if not check.passed:
                yield "", _show_failed_check(check)
    for check in result.checks:
        if not check.passed:
            yield "whole", _show_failed_check(check)
    if result.error:
        yield "", styled(f"it broke off: {result.error}", "red", limit=1_500)


def _show_failed_check(check: "Check") -> Text:
    return mark(good=False) + Text(" ") + styled(str(check), "red", limit=1_500)
