"""The composition root: where flows, memory, models and settings meet."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow, FlowRegistry, check_connected
from jazz_select.text import counted, describe_error
from jazz_select.values import flow_id

if TYPE_CHECKING:
    from jazz_select.evaluation.overlay import Overlay
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.memory.sync import SyncReport
    from jazz_select.routing.tools.sources import ToolsLike
    from jazz_select.selector.select import FlowSelector
    from jazz_select.selector.selector_options import SelectorOptions
    from jazz_select.settings import Settings


AgentFactory: TypeAlias = Callable[..., Any]
"""Takes the opened selector, and where it has a parameter `model` that one, too; returns an `Agent`, or awaits one."""


def load_factory(named: str, *, named_by: str) -> AgentFactory:
    """The factory of an agent that `package.module:factory` names.

    Raises:
        ConfigError: There is none; `named_by` says who named it.
    """
    module, colon, name = named.partition(":")
    if not module or not colon or not name:
        raise ConfigError(f"{named_by} {named!r:.80} is told as package.module:factory, such as shop.agents:make_agent")
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ConfigError(f"{named_by} {named}: {describe_error(error)}") from error
    if not callable(found):
        raise ConfigError(f"{named_by} {named} is no function: it takes a selector, and returns an agent")
    return cast("AgentFactory", found)


def takes(function: Callable[..., object], name: str) -> bool:
    """Whether a function has a parameter of this name; one that is built in tells nothing of what it takes."""
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def made_by(factory: AgentFactory, selector: "FlowSelector", model: object, **more: object) -> Any:
    """What a factory gives for a selector: an agent, or what gives one when it is awaited.

    Raises:
        ConfigError: It has no parameter for something `more` that it is to take.
    """
    if lacking := next((name for name in more if not takes(factory, name)), None):
        raise ConfigError(f"a conversation has a {lacking}: give the factory of the agent a parameter {lacking!r}")
    return factory(selector, **({"model": model} if takes(factory, "model") else {}), **more)


async def sync_registry(  # noqa: PLR0913 - a published signature, and options with a name
    memory: "ProceduralMemory",
    agent_id: str,
    registry: Mapping[str, BaseFlow] | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002
    progress: Callable[[int, int], None] | None = None,
    *,
    cases: Sequence[tuple[str, str | None]] = (),
    tools: "ToolsLike | None" = None,
    learned: "Overlay | str | Path | None" = None,
    allow_empty: bool = False,
    allow_delete: bool = False,
) -> "SyncReport":
    """Bring the index to the flows of a registry: create, update, delete or skip each, by checksum.

    Idempotent, and safe to interrupt at any point: run it again. It never touches
    another agent's flows.

    Args:
        memory: The index.
        agent_id: Whose flows these are.
        registry: The flows; the default scope, `BaseFlow.registry`, where None.
        dry_run: Only say what would happen.
        progress: Called with (flows written, flows to write) after each batch.
        cases: Labelled requests, (text, flow name); they make confidence better, and it does without. One that no flow
            answers, (text, None), is left out with a note. Give them to each sync: what was learned from them is
            dropped by one without, and the report notes it.
        tools: The tools that there are, as an agent takes them: a flow that names another is an error, as it is where
            an agent is made. Where they are not given, the report notes that nobody looked.
        learned: What was learned from corrections, or its file: the examples of the live version are indexed beside
            those of the flows, which stay as they are. A later sync without it takes them out again.
        allow_empty: Delete all flows of the agent where the registry has none. Mostly an empty registry means that
            the flow modules were not imported, or that `registry=` was forgotten, so it must be said.
        allow_delete: Delete flows that the registry does not have also where they are more than 5, and more than half
            of the agent's. Mostly that means that it is another agent's catalogue, so it must be said.

    Raises:
        SyncDeletesError: That many would be deleted, and nothing was said; the error names them, and nothing was
            written.
        ConfigError: The registry is empty or no registry at all, a case names a flow that it does not have, or the
            file of what was learned cannot be read.
        FlowValidationError: A flow has a chain that cannot run; nothing was written.
        UnconnectedToolsError: A flow names a tool that does not exist, which is not among its `optional_tools`, and is
            not `manual`; nothing was written.
        EmbeddingError: The embedder failed; what was written before stays.
        StoreUnavailableError: The server did not answer.
    """
    flows = BaseFlow.registry if registry is None else registry
    if not isinstance(flows, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        msg = f"registry is a FlowRegistry or another mapping of flow id to flow, not {type(flows).__name__}"
        raise ConfigError(msg)
    if not flows and not allow_empty and not dry_run and (indexed := await memory.list_flows(agent_id)):
        raise ConfigError(
            f"the registry is empty, and syncing it would delete all {len(indexed)} flows of agent {agent_id!r}: "
            "import the flow modules first, pass registry=…, or say allow_empty=True"
        )
    answered = [(text, name) for text, name in cases if name is not None]
    labelled = [(text, flow_id(name)) for text, name in answered]
    unknown = sorted(name for _, name in answered if flow_id(name) not in flows)
    if unknown:
        raise ConfigError(f"cases name flows that the registry does not have: {', '.join(unknown[:5])}")
    notes = check_tools(flows.values(), tools)
    if left_out := len(cases) - len(answered):
        were = "were" if left_out > 1 else "was"
        dropped = f"{counted(left_out, 'case')} that no flow answers {were} left out"
        learns = "a sync learns from requests whose flow is known, FlowSelector.calibrate from both"
        notes = (*notes, f"{dropped}: {learns}")
    if learned is not None:
        flows, untaught = with_learned(flows, learned)
        notes = (*notes, *untaught)
    may_delete = allow_delete or (allow_empty and not flows)
    report = await memory.sync(
        agent_id, flows.values(), dry_run=dry_run, progress=progress, cases=labelled, allow_delete=may_delete
    )
    return replace(report, notes=(*report.notes, *notes))


def with_learned(
    registry: Mapping[str, BaseFlow], learned: "Overlay | str | Path"
) -> tuple[FlowRegistry, tuple[str, ...]]:
    """The flows with the examples of the live version of what was learned, and notes of what could not be used."""
    from jazz_select.evaluation.overlay import Overlay, load_overlay, taught

    overlay = learned if isinstance(learned, Overlay) else load_overlay(Path(learned), must_exist=True)
    made = taught(registry, overlay.version("live"))
    return made.registry, made.notes


def check_tools(flows: Iterable[BaseFlow], tools: "ToolsLike | None") -> tuple[str, ...]:
    """See that all chains can run, and that there is every tool that a flow cannot do without.

    Returns:
        A note where flows name tools and `tools` is None, so that nobody can tell.

    Raises:
        FlowValidationError: One cannot.
        UnconnectedToolsError: One is not there.
    """
    given = list(flows)
    for flow in given:
        if getattr(flow, "chain", ()):
            from jazz_select.routing.executor import chain_of

            chain_of(flow)
    named = [flow for flow in given if getattr(flow, "tools", ())]
    if tools is None:
        which = "a flow names" if len(named) == 1 else f"{len(named)} flows name"
        note = f"whether the tools that {which} exist was not checked: pass tools=… (jazz-select sync --tools)"
        return (note,) if named else ()
    from jazz_select.routing.tools.sources import toolbox_of

    check_connected(named, toolbox_of(tools))
    return ()


async def open_memory(settings: "Settings") -> "ProceduralMemory":
    """The memory that the settings name: a server where `url` is set, the embedded index otherwise."""
    from jazz_select.memory.procedural import ProceduralMemory

    key = settings.api_key.get_secret_value() if settings.api_key else None
    return await ProceduralMemory.open(
        None if settings.url else settings.index,
        url=settings.url or None,
        api_key=key,
        grpc_port=settings.grpc_port,
        embedder=settings.embedder,
        language=settings.language,
    )


def load_registry(source: str | Path) -> FlowRegistry:
    """The flows of a package, folder or file, in a registry of their own.

    Raises:
        FlowLoadError: They cannot be read, or there are none.
        FlowValidationError: A field of one is missing or wrong.
        DuplicateFlowError: Two have one name.
    """
    from jazz_select.flow.flow_loading import load_flows

    registry = FlowRegistry()
    load_flows(source, registry)
    return registry


def selector_options(settings: "Settings") -> "SelectorOptions":
    """How the settings have a selector select. Whom it asks, and what it keeps, is for whoever makes it to say."""
    from jazz_select.selector.calibration import Cascade
    from jazz_select.selector.selector_options import SelectorOptions, budget_of

    options = SelectorOptions(**settings.model_dump(include={*SelectorOptions.__annotations__}))
    options["cascade"] = Cascade(skip_llm_above=settings.skip_llm_above, abstain_below=settings.abstain_below)
    if settings.llm or settings.decider:
        options["max_error"] = budget_of(settings.max_error, settings.skip_llm_above)
    return options


def open_selector(settings: "Settings", memory: "ProceduralMemory", registry: Mapping[str, BaseFlow]) -> "FlowSelector":
    """The selector that the settings describe; to be closed, as it has the connections of its models."""
    from jazz_select.selector.select import FlowSelector

    options = selector_options(settings)
    return FlowSelector(settings.llm, registry, memory, settings.agent_id, decider=settings.decider, **options)
