"""What settles a selection before a model is asked: from where on recall's own sureness decides.

Pure, so that it can be asked beforehand what other thresholds would have led to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jazz_select.selector.choice import OnEmpty
from jazz_select.values import Candidate, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a request once candidates are recalled.

    Attributes:
        candidates: How many there are.
        confidence: P(the first of them is right), where that is known.
        in_scope: P(some flow is right), likewise.
        sized: Whether recall chose how many there are.
        runs: Whether the first is live.
        blank: Whether nothing was asked.
    """

    candidates: int = 0
    confidence: float | None = None
    in_scope: float | None = None
    sized: bool = False
    runs: bool = True
    blank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """When nobody need be asked; the options of `FlowSelector` of these names. None leaves it to what comes next."""

    asks: bool = True
    """Whether there is a model."""
    on_empty: OnEmpty = "top1"
    coverage: float = 0.98
    skip_llm_above: float | None = None
    abstain_below: float | None = None
    ambiguous_within: float | None = None

    def reason(self, known: Known) -> Reason | None:
        """Why it is settled: `none`, `single`, `semantic` or `confident`; None where a model is to be asked."""
        if self.abstains(known.in_scope) or (known.blank and known.candidates > 1):
            return Reason.NONE
        if not self.asks or (known.candidates <= 1 and not self.doubts(known)):
            return Reason.SEMANTIC if known.candidates > 1 else Reason.SINGLE
        sure = self.sureness(known)
        if sure is not None and self.skip_llm_above is not None and sure >= self.skip_llm_above:
            return Reason.CONFIDENT
        return None

    def abstains(self, in_scope: float | None) -> bool:
        """Is it too unlikely that anything fits?"""
        return self.abstain_below is not None and in_scope is not None and in_scope < self.abstain_below

    def sureness(self, known: Known) -> float | None:
        """What `skip_llm_above` is compared with; None where nothing is known, or where the first cannot run.

        Confidence says which flow is right if any is. A model that is believed when it says "none" is left out only
        where recall knows as well that some flow is right.
        """
        if known.confidence is None or not known.candidates or not known.runs:
            return None
        if self.on_empty == "none" and known.in_scope is not None:
            return min(known.confidence, known.in_scope)
        return known.confidence

    def doubts(self, known: Known) -> bool:
        """Whether a model has to say if the only candidate fits.

        Recall that chooses how many there are leaves one where it is sure which, and that says little of whether any
        flow fits at all: a model that may say "none" is asked unless recall is as sure of that.
        """
        if self.on_empty != "none" or not (known.sized and known.candidates):
            return False
        return known.in_scope is None or known.in_scope < self.coverage

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
        """Is any threshold set?"""
        return (self.skip_llm_above, self.abstain_below, self.ambiguous_within) != (None, None, None)
