"""Routes: the flows that recall ranks for each request, and whether a model would be asked.

A `FlowSelector` over the real memory makes them, so this module has no ranking and no decision of its own.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import canonical_bytes
from jazz_select.selector.candidates_stage import Request, SelectRequest
from jazz_select.selector.policy import PRESETS, Policy, policy_of_settings
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.values import AUTO, Message, Reason, RecallResult, Reply, TopK

if TYPE_CHECKING:
    from jazz_select.evaluation.cases import Case
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.settings import Settings

DEPTH = 10
"""Least depth of a ranking."""
_AT_ONCE = 256
"""Requests of one batch, whose results are all in memory at once."""


class Outcome(StrEnum):
    """The decision on a request before a model is asked."""

    TAKEN = "taken"
    """Recall's first is taken, because it is sure enough or the only one."""
    ASKED = "asked"
    """A model chooses among the candidates."""
    NONE = "none"
    """Nothing is chosen, because there is no candidate, or no flow is likely to fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOptions:
    """The options of a deployment's `FlowSelector`, with the recommended defaults."""

    top_k: TopK = AUTO
    rrf_k: int = 10
    policy: Policy = PRESETS["recommended"]

    @classmethod
    def from_settings(cls, settings: "Settings") -> "RouteOptions":
        """Return the options of the settings."""
        return cls(top_k=settings.top_k, rrf_k=settings.rrf_k, policy=policy_of_settings(settings))

    def for_selector(self) -> dict[str, Any]:
        """Return the keyword arguments for `FlowSelector`."""
        return {"top_k": self.top_k, "rrf_k": self.rrf_k, "policy": self.policy}


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request as a selector gets it."""

    request: str
    episodes: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def from_case(cls, case: "Case") -> "Query":
        """Return the query of a labelled request."""
        return cls(request=case.request, episodes=case.episodes, context=case.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The route of a request.

    Attributes:
        ranking: Names of flows, best first, down to `DEPTH` or to the last candidate.
        offered: Number of candidates, from the first of the ranking.
        confidences: P(each candidate is right), "none" included; None if unknown.
        p_none: P(no flow is right); None if unknown.
        outcome: Whether a model would be asked.
        is_known: Whether it is decided as an example, title or alias, word for word; None if examples are not known.
        took_s: Its share of the batch's duration, in seconds.
        least_error: The least error budget at which recall decides alone; 0 if it needs none, None if it never does.
    """

    request: str
    ranking: tuple[str, ...] = ()
    offered: int = 0
    confidences: tuple[float | None, ...] = ()
    p_none: float | None = None
    outcome: Outcome = Outcome.NONE
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)
    least_error: float | None = None
    is_known: bool | None = False

    @property
    def first(self) -> str:
        """The name of the first candidate; empty without one."""
        return self.ranking[0] if self.ranking else ""

    @property
    def candidates(self) -> tuple[str, ...]:
        """The names of the candidates, best first."""
        return self.ranking[: self.offered]

    @property
    def confidence(self) -> float | None:
        """P(the first candidate is right), "none" included; None if unknown."""
        return self.confidences[0] if self.confidences else None

    def outcome_at(self, max_error: float) -> Outcome:
        """Return the outcome with another error budget, which changes neither ranking nor candidates."""
        if not self.offered or self.outcome is Outcome.NONE:
            return Outcome.NONE
        decides = self.least_error is not None and self.least_error <= max_error
        return Outcome.TAKEN if decides else Outcome.ASKED

    def is_right(self, outcome: Outcome, expect: Collection[str]) -> bool:
        """Whether exactly the expected flows are taken, if no model is asked."""
        if outcome is Outcome.NONE:
            return not expect
        return {*expect} == {self.first}


async def routes(
    registry: Mapping[str, BaseFlow],
    memory: "ProceduralMemory",
    agent_id: str,
    asked: Sequence[Query],
    options: RouteOptions | None = None,
) -> list[Routed]:
    """Return the route of each request, in order. No model is asked.

    Args:
        registry: The live flows; their guards see the context of each request.
        memory: The memory that they are synced to.
        agent_id: Their agent in the memory.
        asked: The requests.
        options: How the deployment selects; the recommended options by default.

    Raises:
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
    """
    options = options or RouteOptions()
    recorder = _RankingRecorder(memory)
    selector = FlowSelector(_UncalledModel(), registry, recorder, agent_id, **options.for_selector())
    groups: defaultdict[bytes, list[int]] = defaultdict(list)  # one call of select_many has one context
    for place, each in enumerate(asked):
        groups[canonical_bytes(each.context)].append(place)
    batches: list[list[int]] = []
    for group in groups.values():
        for start in range(0, len(group), _AT_ONCE):
            batches.append(group[start : start + _AT_ONCE])
    found: dict[int, Routed] = {}
    for places in batches:
        requests = [SelectRequest(asked[each].request, episode_summaries=asked[each].episodes) for each in places]
        recorder.rankings.clear()
        began = perf_counter()
        results = await selector.select_many(requests, context=asked[places[0]].context, ask=False)
        took_s = (perf_counter() - began) / len(places)
        rankings = iter(recorder.rankings)
        for place, result in zip(places, results, strict=True):
            each = asked[place]
            ranking: tuple[str, ...] = ()
            if not Request.from_query(each.request, each.episodes).blank:  # a blank one is not recalled
                ranking = next(rankings)
            found[place] = _route(each.request, result, ranking, took_s, registry)
    return [found[place] for place in range(len(asked))]


async def route_with_temp_index(
    registry: Mapping[str, BaseFlow], asked: Sequence[Query], options: RouteOptions | None = None, **index: Any
) -> list[Routed]:
    """Return `routes` over a temporary index of these flows; `index` holds the options of `indexed`."""
    async with indexed(registry, **index) as memory:
        return await routes(registry, memory, AGENT, asked, options)


def _route(
    request: str,
    result: FlowSelectionResult,
    ranking: tuple[str, ...],
    took_s: float,
    registry: Mapping[str, BaseFlow],
) -> Routed:
    decision = result.decision
    candidates = tuple(each.flow_name for each in decision.candidates)
    return Routed(
        request=request,
        ranking=tuple(dict.fromkeys((*candidates, *ranking)))[: max(DEPTH, len(candidates))],
        offered=len(candidates),
        confidences=tuple(each.confidence for each in decision.candidates),
        p_none=decision.p_none,
        outcome=_OUTCOMES.get(decision.reason, Outcome.TAKEN),
        notes=decision.notes,
        took_s=took_s,
        least_error=_least_error(result, registry),
        is_known=decision.reason is Reason.EXAMPLE,
    )


def _least_error(result: FlowSelectionResult, registry: Mapping[str, BaseFlow]) -> float | None:
    """Return the least error budget at which recall decides; 0 if it decides at any, None if at none."""
    decision = result.decision
    if decision.reason in {Reason.SINGLE, Reason.EXAMPLE, Reason.SEMANTIC}:
        return 0.0
    first = registry.get(decision.candidates[0].flow_id) if decision.candidates else None
    if first is not None and first.max_error is not None:  # its own budget takes precedence over any other
        return 0.0 if decision.reason is Reason.CONFIDENT else None
    for stage in decision.stages:
        if stage.expected_error is not None:
            return stage.expected_error
    return None


_OUTCOMES = {Reason.UNASKED: Outcome.ASKED, Reason.NONE: Outcome.NONE}


class _UncalledModel:
    """A model that is never called: with it, the selector decides as a deployment with a model does."""

    async def complete(self, messages: Sequence[Message]) -> Reply:
        raise AssertionError(f"no model is asked for a route, and {len(messages)} messages came")


class _RankingRecorder:
    """A memory that records the ranking of each request down to `DEPTH`."""

    def __init__(self, memory: "ProceduralMemory") -> None:
        self.capabilities = memory.capabilities
        self._memory = memory
        self.rankings: list[tuple[str, ...]] = []

    async def recall(self, query: str, *given: Any, focus: str = "", **options: Any) -> RecallResult:
        focuses = [focus] if focus else ()
        return (await self.recall_many([query], *given, focuses=focuses, **options))[0]

    async def recall_many(
        self, queries: Sequence[str], agent_id: str, top_k: int | Literal["auto"] = 3, *given: Any, **options: Any
    ) -> list[RecallResult]:
        """Recall down to `DEPTH`, record the rankings, and return the first `top_k`."""
        deep = top_k if top_k == "auto" else max(top_k, DEPTH)
        found = await self._memory.recall_many(queries, agent_id, deep, *given, **options)
        for result in found:
            names = [str(each["flow_name"]) for each in result]
            self.rankings.append((*names, *result.beyond))
            if top_k != "auto":
                del result[top_k:]  # the selector sees what it asked for
        return found
