"""What `--json` prints: one document of these shapes, to stdout, keys in this order and always all of them.

| Command | Prints |
|---|---|
| `sync --json` | `Sync` |
| `select --json` | `Selection` |
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
from jazz_select.values import Candidate, Decision

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
class Chosen:
    """A chosen flow, with its prompt."""

    flow_id: str
    flow_name: str
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A candidate: its metadata, how near it came in each arm (`dense`, `bm25`), and whether it was chosen."""

    flow_id: str
    flow_name: str
    flow_type: str
    description: str
    condition: str
    desired_effects: tuple[str, ...]
    score: float
    ranks: Mapping[str, int]
    scores: Mapping[str, float]
    confidence: float | None
    chosen: bool

    @classmethod
    def of(cls, candidate: Candidate, chosen_ids: Sequence[str]) -> "Offer":
        """From the candidate."""
        return cls(
            flow_id=candidate.flow_id,
            flow_name=candidate.flow_name,
            flow_type=candidate.flow_type,
            description=candidate.description,
            condition=candidate.condition,
            desired_effects=candidate.desired_effects,
            score=candidate.score,
            ranks=candidate.ranks,
            scores=candidate.scores,
            confidence=candidate.confidence,
            chosen=candidate.flow_id in chosen_ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Where the time went."""

    recall_s: float
    choose_s: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """What the model call took."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How it was decided."""

    tier: str
    reason: str
    chosen_ids: tuple[str, ...]
    raw_reply: str | None
    parsed_ids: tuple[str, ...]
    confidence: float | None
    model: str
    error: str
    sized: str
    notes: tuple[str, ...]
    latency: Times
    usage: Tokens | None

    @classmethod
    def of(cls, decision: Decision) -> "Verdict":
        """From the decision."""
        took, usage = decision.latency, decision.usage
        return cls(
            tier=decision.tier.value,
            reason=decision.reason.value,
            chosen_ids=decision.chosen_ids,
            raw_reply=None if decision.raw_reply is None else encodable(decision.raw_reply),
            parsed_ids=tuple(map(encodable, decision.parsed_ids)),
            confidence=decision.confidence,
            model=decision.model,
            error=encodable(decision.error),
            sized=decision.sized,
            notes=tuple(map(encodable, decision.notes)),
            latency=Times(recall_s=took.recall_s, choose_s=took.choose_s, total_s=took.total_s),
            usage=Tokens(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens) if usage else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """A request and what was selected for it. An empty `chosen` is an answer, no error."""

    request: str
    episodes: tuple[str, ...]
    context: Mapping[str, Any]
    agent_id: str
    chosen: tuple[Chosen, ...]
    combined_prompt: str
    unresolved_ids: tuple[str, ...]
    candidates: tuple[Offer, ...]
    decision: Verdict
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
        """From the result."""
        flows = zip(result.chosen_flows, result.chosen_prompts, strict=True)
        decision = result.decision
        return cls(
            request=request,
            episodes=tuple(episodes),
            context=context,
            agent_id=agent_id,
            chosen=tuple(Chosen(flow_id=flow.id, flow_name=flow.name, prompt=prompt) for flow, prompt in flows),
            combined_prompt=result.combined_prompt,
            unresolved_ids=tuple(map(encodable, result.unresolved_ids)),
            candidates=tuple(Offer.of(candidate, decision.chosen_ids) for candidate in decision.candidates),
            decision=Verdict.of(decision),
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
