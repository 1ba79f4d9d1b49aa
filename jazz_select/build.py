"""The composition root: makes memories, registries and selectors from settings."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from jazz_select.arguments import takes
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow, FlowRegistry, chain_of, check_connected
from jazz_select.text import count_of, describe_error, did_you_mean
from jazz_select.threads import in_thread
from jazz_select.values import flow_id

if TYPE_CHECKING:
    from jazz_select.evaluation.overlay import Overlay
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.memory.sync import SyncReport
    from jazz_select.outcomes.evidence import LogEvidence
    from jazz_select.outcomes.log import OutcomeLog
    from jazz_select.routing.tools.sources import ToolsLike
    from jazz_select.selector.select import FlowSelector
    from jazz_select.selector.selector_options import SelectorOptions
    from jazz_select.settings import Settings
    from jazz_select.stages import Move, Thresholds


AgentFactory: TypeAlias = Callable[..., Any]
"""Takes the opened selector, and `model` if it has such a parameter; returns an `Agent` or an awaitable of one."""


def load_factory(named: str, *, named_by: str) -> AgentFactory:
    """Return the agent factory that `package.module:factory` names.

    Raises:
        ConfigError: There is none; `named_by` says who named it.
    """
    module, colon, name = named.partition(":")
    if not module or not colon or not name:
        msg = f"{named_by} must be package.module:factory, such as shop.agents:make_agent, got {named!r:.80}"
        raise ConfigError(msg)
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        msg = f"{named_by} {named}: {describe_error(error)}"
        if isinstance(error, AttributeError) and error.name is not None:
            nearest = did_you_mean(error.name, dir(error.obj))
            msg = f"{msg}; {nearest}" if nearest else msg
        raise ConfigError(msg) from error
    if not callable(found):
        raise ConfigError(f"{named_by} {named} must be a function that takes a selector and returns an agent")
    return cast("AgentFactory", found)


def made_by(factory: AgentFactory, selector: "FlowSelector", model: object, **more: object) -> Any:
    """Call a factory with a selector; return its agent, or an awaitable of one.

    Raises:
        ConfigError: It lacks a parameter for something in `more`.
    """
    for name in more:
        if not takes(factory, name):
            raise ConfigError(f"a conversation has a {name}: give the factory of the agent a parameter {name!r}")
    if takes(factory, "model"):
        more["model"] = model
    return factory(selector, **more)


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
    evidence: "OutcomeLog | str | Path | None" = None,
    allow_empty: bool = False,
    allow_delete: bool = False,
) -> "SyncReport":
    """Synchronise the index with a registry: create, update, delete or skip each flow, by checksum.

    Idempotent and safe to interrupt: run it again. It never touches another agent's flows.

    Args:
        memory: The index.
        agent_id: The owner of the flows.
        registry: The flows; None for the default scope, `BaseFlow.registry`.
        dry_run: Only report what would happen.
        progress: Called with (flows written, flows to write) after each batch.
        cases: Labelled requests, (text, flow name), which improve confidence. Those that no flow answers, (text, None),
            are left out with a note. Pass them to each sync: a sync without them drops what was learned from them, with
            a note in the report.
        tools: The available tools, as an agent takes them. A flow that requires another is an error, as for an agent.
            Without them, the report notes that tools were not checked.
        learned: What was learned from corrections, or its file. The examples of the live version are indexed beside
            those of the flows. A later sync without it removes them.
        evidence: A log of outcomes, or its file: recall learns from the requests in it whose right flow is known, by
            who said so, once there are 50. Texts stay in the log; vectors and fitted numbers go to the index. Pass it
            to each sync: a sync without it drops what was learned, with a note in the report.
        allow_empty: Delete all flows of the agent if the registry is empty. Must be explicit, since an empty registry
            usually means that the flow modules were not imported, or that `registry=` was forgotten.
        allow_delete: Delete flows missing from the registry even if they are more than 5 and more than half of the
            agent's. Must be explicit, since it usually is another agent's catalogue.

    Raises:
        SyncDeletesError: So many flows would be deleted without `allow_delete`; the error names them, and nothing was
            written.
        ConfigError: The registry is empty or not a registry, a case names an unknown flow, or the file of what was
            learned cannot be read.
        OutcomeLogError: The log is missing or cannot be read.
        FlowValidationError: A flow has a chain that cannot run; nothing was written.
        UnconnectedToolsError: A required tool of a flow is not available; nothing was written.
        EmbeddingError: The embedder failed; earlier batches stay.
        StoreUnavailableError: The server did not answer.
    """
    flows = BaseFlow.registry if registry is None else registry
    if not isinstance(flows, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
        msg = f"registry must be a FlowRegistry or another mapping of flow id to flow, got {type(flows).__name__}"
        raise ConfigError(msg)
    if not flows and not allow_empty and not dry_run:
        indexed = await memory.list_flows(agent_id)
        if indexed:
            raise ConfigError(
                f"the registry is empty, and syncing it would delete all {len(indexed)} flows of agent {agent_id!r}: "
                "import the flow modules first, pass registry=…, or pass allow_empty=True"
            )
    answered = [(text, name) for text, name in cases if name is not None]
    labelled = [(text, flow_id(name)) for text, name in answered]
    unknown = sorted(name for _, name in answered if flow_id(name) not in flows)
    if unknown:
        raise ConfigError(f"cases name flows that the registry does not have: {', '.join(unknown[:5])}")
    notes = check_tools(flows.values(), tools)
    left_out = len(cases) - len(answered)
    if left_out:
        were = "were" if left_out > 1 else "was"
        dropped = f"{count_of(left_out, 'case')} that no flow answers {were} left out"
        learns = "a sync learns from requests whose flow is known, FlowSelector.calibrate from both"
        notes = (*notes, f"{dropped}: {learns}")
    if learned is not None:
        flows, untaught = with_learned(flows, learned)
        notes = (*notes, *untaught)
    may_delete = allow_delete or (allow_empty and not flows)
    sync = partial(
        memory.sync,
        agent_id,
        flows.values(),
        dry_run=dry_run,
        progress=progress,
        cases=labelled,
        allow_delete=may_delete,
    )
    if evidence is None:
        report = await sync()
    else:
        report = await _sync_with_evidence(sync, memory, agent_id, evidence, (flows, tools))
    return replace(report, notes=(*report.notes, *notes))


async def _sync_with_evidence(
    sync: "Callable[..., Awaitable[SyncReport]]",
    memory: "ProceduralMemory",
    agent_id: str,
    evidence: "OutcomeLog | str | Path",
    catalogue: "tuple[Mapping[str, BaseFlow], ToolsLike | None]",
) -> "SyncReport":
    """Sync with what a log is evidence for, and tell the log which threshold that led to."""
    from jazz_select.outcomes.log import OutcomeLog

    flows, tools = catalogue
    log = evidence if isinstance(evidence, OutcomeLog) else await in_thread(OutcomeLog.existing, evidence)
    try:
        before = await memory.thresholds(agent_id)
        seen = await in_thread(_evidence_in, log, agent_id, flows.values(), tools)
        report = await sync(evidence=seen)
        after = await memory.thresholds(agent_id)
        if not report.dry_run and after is not None and after != before:
            log.keep_move(agent_id, _fitted_threshold(after))
    finally:
        if log is not evidence:
            await in_thread(log.close)
    return report


_TOLD_BUDGET = 0.01
"""The error budget whose threshold is told when a sync fits all of them: that of the recommended policy."""


def _fitted_threshold(thresholds: "Thresholds") -> "Move":
    from jazz_select.stages import Move

    threshold = thresholds.threshold(_TOLD_BUDGET)
    share = thresholds.share_alone(_TOLD_BUDGET)
    return Move(
        at=time(),
        kind="fitted",
        threshold=threshold,
        promise=_TOLD_BUDGET,
        measured=thresholds.expected_error(threshold) if share else None,
        requests=thresholds.requests,
        why=f"a sync learned from {count_of(thresholds.requests, 'request')}: {share:.0%} are sure enough",
    )


_MOST_READ = 30_000
"""Entries of a log that a sync reads, the newest; of those that somebody corrected, all."""


def _evidence_in(
    log: "OutcomeLog", agent_id: str, flows: Iterable[BaseFlow], tools: "ToolsLike | None"
) -> "LogEvidence":
    """Return what the log of an agent is evidence for. Blocking."""
    from jazz_select.evaluation.corrections import flows_that_may_change, why_unfit
    from jazz_select.outcomes.evidence import read_evidence
    from jazz_select.routing.tools.sources import toolbox_of

    known = list(flows)
    entries = {each.id: each for each in log.read(agent_id=agent_id, last=_MOST_READ)}
    entries |= {each.id: each for each in log.read(agent_id=agent_id, corrected=True)}
    return read_evidence(
        sorted(entries.values(), key=lambda each: each.at),
        flows={flow.name for flow in known},
        may_change=flows_that_may_change(known, None if tools is None else toolbox_of(tools)),
        why_unfit=why_unfit,
    )


def with_learned(
    registry: Mapping[str, BaseFlow], learned: "Overlay | str | Path"
) -> tuple[FlowRegistry, tuple[str, ...]]:
    """Return the flows with the learned examples of the live version, and notes on what could not be used."""
    from jazz_select.evaluation.overlay import Overlay, load_overlay, taught

    overlay = learned if isinstance(learned, Overlay) else load_overlay(Path(learned), must_exist=True)
    made = taught(registry, overlay.version("live"))
    return made.registry, made.notes


def check_tools(flows: Iterable[BaseFlow], tools: "ToolsLike | None") -> tuple[str, ...]:
    """Check that all chains can run and that all required tools are available.

    Returns:
        A note if flows name tools and `tools` is None, so that they could not be checked.

    Raises:
        FlowValidationError: A chain cannot run.
        UnconnectedToolsError: A required tool is not available.
    """
    given = list(flows)
    for flow in given:
        if getattr(flow, "chain", ()):
            chain_of(flow)
    named = [flow for flow in given if set(getattr(flow, "tools", ())) - set(getattr(flow, "optional_tools", ()))]
    if tools is None and not named:
        return ()
    if tools is None:
        which = "a flow names" if len(named) == 1 else f"{len(named)} flows name"
        return (f"whether the tools that {which} exist was not checked: pass tools=… (jazz-select sync --tools)",)
    from jazz_select.routing.tools.sources import toolbox_of

    check_connected(named, toolbox_of(tools))
    return ()


async def open_memory(settings: "Settings") -> "ProceduralMemory":
    """Open the memory of the settings: a server if `url` is set, else the embedded index."""
    from jazz_select.memory.procedural import ProceduralMemory

    key = settings.api_key.get_secret_value() if settings.api_key else None
    return await ProceduralMemory.open(
        None if settings.url else settings.index,
        url=settings.url or None,
        api_key=key,
        grpc_port=settings.grpc_port,
        embedder=settings.embedder,
        language=settings.language,
        shards=settings.index_shards,
        replicas=settings.index_replicas,
    )


def load_registry(source: str | Path) -> FlowRegistry:
    """Load the flows of a package, folder or file into a new registry.

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
    """Return the selection options of the settings, without models and stores."""
    from jazz_select.selector.policy import policy_of_settings
    from jazz_select.selector.selector_options import SelectorOptions

    return SelectorOptions(
        top_k=settings.top_k,
        rrf_k=settings.rrf_k,
        policy=policy_of_settings(settings),
        timeout_s=settings.timeout_s,
    )


def open_selector(settings: "Settings", memory: "ProceduralMemory", registry: Mapping[str, BaseFlow]) -> "FlowSelector":
    """Return the selector of the settings. Close it, since it owns the connections of its models."""
    from jazz_select.selector.select import FlowSelector

    options = selector_options(settings)
    return FlowSelector(settings.llm, registry, memory, settings.agent_id, decider=settings.decider, **options)
