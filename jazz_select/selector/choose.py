"""The second stage: who is chosen, and why. Pure."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal

from jazz_select.selector.reply import Reading
from jazz_select.values import Candidate, Reason, Tier

OnEmpty = Literal["top1", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Who is chosen.

    Attributes:
        tier: How free the choice was. A fallback is deterministic: no model made it.
        reason: Why it came out like this.
        ids: Live flows, in order.
        unresolved: What was chosen, or would have been, and cannot be run: stale, not offered, or unknown.
    """

    tier: Tier
    reason: Reason
    ids: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()


def top(
    candidates: Sequence[Candidate], live: Container[str], reason: Reason, *, unresolved: tuple[str, ...] = ()
) -> Verdict:
    """The best candidate that is live, for `reason`; better ones that are stale stay unresolved."""
    stale: list[str] = []
    for candidate in candidates:
        if candidate.flow_id in live:
            missed = _once(*unresolved, *stale)
            return Verdict(tier=Tier.DETERMINISTIC, reason=reason, ids=(candidate.flow_id,), unresolved=missed)
        stale.append(candidate.flow_id)
    return Verdict(tier=Tier.OPEN, reason=Reason.NONE, unresolved=_once(*unresolved, *stale))


def judge(reading: Reading, candidates: Sequence[Candidate], live: Container[str], *, on_empty: OnEmpty) -> Verdict:
    """What a model's reply leads to: only candidates that were offered and are live are ever chosen."""
    if reading.status == "empty":
        if on_empty == "none":
            return Verdict(tier=Tier.OPEN, reason=Reason.NONE)
        return top(candidates, live, Reason.FALLBACK_EMPTY)
    offered = {candidate.flow_id for candidate in candidates}
    runnable = tuple(flow_id for flow_id in reading.ids if flow_id in offered and flow_id in live)
    unresolved = tuple(flow_id for flow_id in reading.ids if flow_id not in runnable)
    if runnable:
        return Verdict(tier=Tier.GUIDED, reason=Reason.LLM, ids=runnable, unresolved=unresolved)
    return top(candidates, live, Reason.FALLBACK_INVALID, unresolved=unresolved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From where on recall's own sureness decides; None leaves the decision to what comes next."""

    skip_llm_above: float | None = None
    abstain_below: float | None = None
    ambiguous_within: float | None = None

    def abstains(self, in_scope: float | None) -> bool:
        """Is it too unlikely that anything fits?"""
        return self.abstain_below is not None and in_scope is not None and in_scope < self.abstain_below

    def is_sure(self, candidates: Sequence[Candidate], live: Container[str]) -> bool:
        """Is the top candidate so likely right that no model need be asked? Never of one that cannot run."""
        if self.skip_llm_above is None or not candidates or candidates[0].flow_id not in live:
            return False
        confidence = candidates[0].confidence
        return confidence is not None and confidence >= self.skip_llm_above

    def ambiguous(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates about as likely as the top one, where there are at least two."""
        top = candidates[0].confidence if candidates else None
        if self.ambiguous_within is None or top is None:
            return ()
        floor = top - self.ambiguous_within
        near = tuple(each for each in candidates if each.confidence is not None and each.confidence >= floor)
        return near if len(near) > 1 else ()

    @property
    def need_confidence(self) -> bool:
        """Is any of them set?"""
        return (self.skip_llm_above, self.abstain_below, self.ambiguous_within) != (None, None, None)


def _once(*ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
