"""What `--json` prints: one document of these shapes, to stdout, keys in this order and always all of them.

| Command | Prints |
|---|---|
| `sync --json` | `Sync` |
| `select --json` | `Selection`, out of `FlowSelectionResult.to_dict()` |
| `list --json` | `Listing` |
| `eval --json` | `Evaluation` of `jazz_select.evaluation`, as its `to_dict` gives it |
| `graph --json` | `Graph` |
| `diff --json` | `Difference.to_dict()` of `jazz_select.evaluation` |
| `converse --json` | `jazz_select.evaluation.ConversationReport.to_dict()` |
| `check --json` | `jazz_select.evaluation.Findings.to_dict()` |
| `learn --json` | `evaluation.Learned`; with `--shadow` `Trial`, else the numbers of the versions `live` and `shadow` |
| `drift --json` | `evaluation.Drift` |
| `suggest --json` | `jazz_select.evaluation.Suggestions.to_dict()` |

Keys may be added; none is renamed or removed without a major version. Times are
seconds. `null` stands for what is not known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jazz_select.cli.options import encodable

if TYPE_CHECKING:
    from jazz_select.memory.sync import SyncReport
    from jazz_select.routing.decisions.analyzer import ChainAnalyzer
    from jazz_select.selector.result import FlowSelectionResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """What a sync did, or would do; names of flows."""

    agent_id: str
    index: str
    embedder: str
    dry_run: bool
    created: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    unchanged: tuple[str, ...]
    took_s: float
    notes: tuple[str, ...]

    @classmethod
    def of(cls, report: "SyncReport", *, agent_id: str, index: str, embedder: str, took_s: float) -> "Sync":
        """From the report."""
        return cls(
            agent_id=agent_id,
            index=index,
            embedder=embedder,
            dry_run=report.dry_run,
            created=report.created,
            updated=report.updated,
            deleted=report.deleted,
            unchanged=report.skipped,
            took_s=took_s,
            notes=report.notes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A request and what was selected for it, as `FlowSelectionResult.to_dict` tells it.

    An empty `chosen` is an answer, no error.
    """

    request: str
    episodes: tuple[str, ...]
    context: Mapping[str, Any]
    agent_id: str
    chosen: tuple[Mapping[str, Any], ...]
    combined_prompt: str
    unresolved_ids: tuple[str, ...]
    candidates: tuple[Mapping[str, Any], ...]
    decision: Mapping[str, Any]
    trace: tuple[Mapping[str, Any], ...] | None = None
    """Every narrowing, decision and call, with `--trace`: the spans of `jazz_select.telemetry`."""

    @classmethod
    def of(
        cls,
        result: "FlowSelectionResult",
        *,
        request: str,
        episodes: Sequence[str],
        context: Mapping[str, Any],
        agent_id: str,
    ) -> "Selection":
        """From the result: what of it is not told here are the fields of the same names of its `to_dict`."""
        told = result.to_dict()
        return cls(
            request=request,
            episodes=tuple(episodes),
            context=context,
            agent_id=agent_id,
            chosen=tuple(told["chosen"]),
            combined_prompt=told["combined_prompt"],
            unresolved_ids=tuple(told["unresolved_ids"]),
            candidates=tuple(told["candidates"]),
            decision=told["decision"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is in the index for an agent; each flow as the metadata dict that recall returns, without scores."""

    agent_id: str
    index: str
    flows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The second tool can run on what the first gives; a score below 1 may fail at run time."""

    producer: str
    consumer: str
    compatibility: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Which tool can follow which."""

    source: str
    min_compatibility: float
    tools: tuple[str, ...]
    edges: tuple[Edge, ...]
    unreachable: tuple[str, ...]
    """Tools that want something which no other tool gives."""
    collisions: tuple[tuple[str, ...], ...]
    """Names that differ in case and separators alone."""

    @classmethod
    def of(cls, analyzer: "ChainAnalyzer", *, source: str, min_compatibility: float) -> "Graph":
        """From the analysis."""
        edges = analyzer.edges(min_compatibility=min_compatibility)
        return cls(
            source=encodable(source),
            min_compatibility=min_compatibility,
            tools=tuple(encodable(name) for name in analyzer.toolbox),
            edges=tuple(Edge(producer=encodable(a), consumer=encodable(b), compatibility=c) for a, b, c in edges),
            unreachable=tuple(map(encodable, analyzer.unreachable(min_compatibility=min_compatibility))),
            collisions=tuple(tuple(map(encodable, names)) for names in analyzer.collisions()),
        )
