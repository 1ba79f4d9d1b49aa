"""Routes: the flows that recall ranks for each request, and whether a model would be asked.

A `FlowSelector` over the real memory makes them, so this module has no ranking and no decision of its own.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from jazz_select.evaluation.index import AGENT, indexed
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import plain_bytes
from jazz_select.selector.calibration import Cascade
from jazz_select.selector.candidates_stage import Request, SelectRequest
from jazz_select.selector.choice import Recalled, Settling
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import budget_of
from jazz_select.values import COVERAGE, Message, Reason, RecallResult, Reply

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
class Policy:
    """The options of a deployment's `FlowSelector`, with the recommended defaults."""

    top_k: int | Literal["auto"] = "auto"
    coverage: float = COVERAGE
    rrf_k: int = 10
    on_empty: Literal["top1", "none"] = "none"
    skip_llm_above: float | None = None
    abstain_below: float | None = None
    max_error: float | None = None

    @classmethod
    def of(cls, settings: "Settings") -> "Policy":
        """Return the policy of the settings."""
        return cls(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    def options(self) -> dict[str, Any]:
        """Return the keyword arguments for `FlowSelector`."""
        return {
            **{name: value for name, value in asdict(self).items() if name not in {"skip_llm_above", "abstain_below"}},
            "max_error": budget_of(self.max_error, self.skip_llm_above),
            "cascade": self.cascade,
        }

    @property
    def cascade(self) -> Cascade:
        """The thresholds of recall."""
        return Cascade(skip_llm_above=self.skip_llm_above, abstain_below=self.abstain_below)

    @property
    def settling(self) -> Settling:
        """The rules that decide before a model is asked."""
        return Settling(on_empty=self.on_empty, coverage=self.coverage, cascade=self.cascade)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request as a selector gets it."""

    request: str
    episodes: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @classmethod
    def of(cls, case: "Case") -> "Query":
        """Return the query of a labelled request."""
        return cls(request=case.request, episodes=case.episodes, context=case.context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The route of a request.

    Attributes:
        ranking: Names of flows, best first, down to `DEPTH` or to the last candidate.
        offered: Number of candidates, from the first of the ranking.
        confidences: P(each candidate is right); None if unknown.
        in_scope: P(some flow is right); None if unknown.
        outcome: Whether a model would be asked.
        took_s: Its share of the batch's duration, in seconds.
        sized: Whether recall chose the number of candidates.
        runs: Whether the first candidate is live.
    """

    request: str
    ranking: tuple[str, ...] = ()
    offered: int = 0
    confidences: tuple[float | None, ...] = ()
    in_scope: float | None = None
    outcome: Outcome = Outcome.NONE
    notes: tuple[str, ...] = ()
    took_s: float = field(default=0.0, compare=False)
    sized: bool = False
    runs: bool = True

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
        """P(the first candidate is right); None if unknown."""
        return self.confidences[0] if self.confidences else None

    @property
    def known(self) -> Recalled:
        """The values that thresholds are compared with."""
        return Recalled(
            candidates=self.offered,
            confidence=self.confidence,
            in_scope=self.in_scope,
            sized=self.sized,
            runs=self.runs,
        )

    def outcome_under(self, settling: Settling) -> Outcome:
        """Return the outcome with other thresholds, which change neither ranking nor candidates."""
        if not self.offered:
            return Outcome.NONE
        reason = settling.reason(self.known)
        if reason is None:
            return Outcome.ASKED
        return Outcome.TAKEN if reason is not Reason.NONE and self.runs else Outcome.NONE

    def is_right(self, outcome: Outcome, expect: Collection[str]) -> bool:
        """Whether exactly the expected flows are taken, if no model is asked."""
        return not expect if outcome is Outcome.NONE else {*expect} == {self.first}


async def routes(
    registry: Mapping[str, BaseFlow],
    memory: "ProceduralMemory",
    agent_id: str,
    asked: Sequence[Query],
    policy: Policy | None = None,
) -> list[Routed]:
    """Return the route of each request, in order. No model is asked.

    Args:
        registry: The live flows; their guards see the context of each request.
        memory: The memory that they are synced to.
        agent_id: Their agent in the memory.
        asked: The requests.
        policy: How the deployment selects; the recommended options by default.

    Raises:
        StoreError: The memory failed.
        EmbeddingError: The embedder failed.
    """
    policy = policy or Policy()
    watched = _Watched(memory)
    selector = FlowSelector(_Unasked(), registry, watched, agent_id, **policy.options())
    groups: defaultdict[bytes, list[int]] = defaultdict(list)  # one call of select_many has one context
    for place, each in enumerate(asked):
        groups[plain_bytes(each.context)].append(place)
    found: dict[int, Routed] = {}
    batches = (group[at : at + _AT_ONCE] for group in groups.values() for at in range(0, len(group), _AT_ONCE))
    for places in batches:
        requests = [SelectRequest(asked[each].request, episode_summaries=asked[each].episodes) for each in places]
        watched.rankings.clear()
        began = perf_counter()
        results = await selector.select_many(requests, context=asked[places[0]].context, ask=False)
        took_s = (perf_counter() - began) / len(places)
        rankings = iter(watched.rankings)
        for place, result in zip(places, results, strict=True):
            each = asked[place]
            ranking = () if Request.of(each.request, each.episodes).blank else next(rankings)
            found[place] = _route(each.request, result, ranking, registry, took_s)
    return [found[place] for place in range(len(asked))]


async def led(
    registry: Mapping[str, BaseFlow], asked: Sequence[Query], policy: Policy | None = None, **index: Any
) -> list[Routed]:
    """Return `routes` over a temporary index of these flows; `index` holds the options of `indexed`."""
    async with indexed(registry, **index) as memory:
        return await routes(registry, memory, AGENT, asked, policy)


def _route(
    request: str,
    result: FlowSelectionResult,
    ranking: tuple[str, ...],
    registry: Mapping[str, BaseFlow],
    took_s: float,
) -> Routed:
    decision = result.decision
    candidates = tuple(each.flow_name for each in decision.candidates)
    return Routed(
        request=request,
        ranking=tuple(dict.fromkeys((*candidates, *ranking)))[: max(DEPTH, len(candidates))],
        offered=len(candidates),
        confidences=tuple(each.confidence for each in decision.candidates),
        in_scope=decision.in_scope,
        outcome=_OUTCOMES.get(decision.reason, Outcome.TAKEN),
        notes=decision.notes,
        took_s=took_s,
        sized=bool(decision.sized),
        runs=bool(decision.candidates) and decision.candidates[0].flow_id in registry,
    )


_OUTCOMES = {Reason.UNASKED: Outcome.ASKED, Reason.NONE: Outcome.NONE}


class _Unasked:
    """A model that is never called: with it, the selector decides as a deployment with a model does."""

    async def complete(self, messages: Sequence[Message]) -> Reply:
        raise AssertionError(f"no model is asked for a route, and {len(messages)} messages came")


class _Watched:
    """A memory that records the ranking of each request down to `DEPTH`."""

    def __init__(self, memory: "ProceduralMemory") -> None:
        self.capabilities = memory.capabilities
        self._memory = memory
        self.rankings: list[tuple[str, ...]] = []

    async def recall(self, query: str, *given: Any, focus: str = "", **options: Any) -> RecallResult:
        return (await self.recall_many([query], *given, focuses=[focus] if focus else (), **options))[0]

    async def recall_many(
        self, queries: Sequence[str], agent_id: str, top_k: int | Literal["auto"] = 3, *given: Any, **options: Any
    ) -> list[RecallResult]:
        """Recall down to `DEPTH`, record the rankings, and return the first `top_k`."""
        deep = top_k if top_k == "auto" else max(top_k, DEPTH)
        found = await self._memory.recall_many(queries, agent_id, deep, *given, **options)
        for result in found:
            self.rankings.append((*(str(each["flow_name"]) for each in result), *result.beyond))
            if top_k != "auto":
                del result[top_k:]
        return found
