"""What `--json` prints where no result has a `to_dict` of its own: keys always all of them, and no others."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What was decided alone of some requests."""

    requests: int
    alone: int
    known: int
    judged: int
    wrong: int
    days: int | None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What recall is expected to decide alone."""

    max_error: float | None
    share_alone: float | None
    expected_error: float | None
    wider_budget: float | None
    wider_share: float | None
    thin_flows: list[str]
    labelled: int
    calibrated_share: float | None
    measured: Counted | None
    logged: Counted | None
    learned_from: int
    caveat: str
    says: str


@dataclass(frozen=True, kw_only=True)
class Sync:
    """What a sync did, or would do; names of flows."""

    agent_id: str
    index: str
    embedder: str
    dry_run: bool
    created: list[str]
    updated: list[str]
    deleted: list[str]
    unchanged: list[str]
    took_s: float
    notes: list[str]
    forecast: Expected | None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """A request and what was selected for it, as `FlowSelectionResult.to_dict` tells it."""

    request: str
    episodes: list[str]
    context: dict[str, Any]
    agent_id: str
    chosen: list[dict[str, Any]]
    combined_prompt: str
    unresolved_ids: list[str]
    candidates: list[dict[str, Any]]
    decision: dict[str, Any]
    trace: list[dict[str, Any]] | None


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What is in the index for an agent."""

    agent_id: str
    index: str
    flows: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The second tool can run on what the first gives."""

    producer: str
    consumer: str
    compatibility: float


@dataclass(frozen=True, kw_only=True)
class Graph:
    """Which tool can follow which."""

    source: str
    min_compatibility: float
    tools: list[str]
    edges: list[Edge]
    unreachable: list[str]
    collisions: list[list[str]]
