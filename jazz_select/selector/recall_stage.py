"""The first stage: recall decides what is known, what leaves nothing to decide, and what it is sure enough of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.calibration import Calibration
from jazz_select.selector.policy import Policy
from jazz_select.selector.stage import Case, Choice, StageCosts, Verdict, first_live, first_may_begin, likely_fits
from jazz_select.stages import SHARED, StageOutcome, StageRecord
from jazz_select.text import in_one_line
from jazz_select.values import COVERAGE, Reason

BLANK: Final = "nothing was asked: request and summaries are blank"
SEVERAL: Final = "several wishes may be in it, and one flow would answer one of them"
NOT_ITS: Final = "and what is said is the chat model's to read: it may be no request for this"
OVER_BUDGET: Final = "no stage was sure enough, and none is left: the likeliest is taken, outside of the error budget"
NO_BUDGET: Final = (
    "no stage was sure enough, and none is left: the likeliest is taken; no error budget is set (max_error)"
)
NOTHING: Final = "no stage was sure enough, and none is left: nothing is taken, since it is likelier that no flow fits"
NO_ERROR: Final = "no stage was sure, and none is left: nothing is taken, since no answer may be wrong (max_error is 0)"
_ROUNDING: Final = 1e-9
_GOES_ON: Final = "the conversation has flows under way, or a question that waits"


@dataclass(slots=True, kw_only=True)
class RecallStage:
    """Recall, with the confidence that a sync fitted to the catalogue's own examples."""

    flows: Mapping[str, BaseFlow]
    policy: Policy
    calibration: Calibration = field(default_factory=Calibration)
    shares_budget: bool = False
    """Whether a decision model, asked if recall is unsure, takes a part of the error budget."""
    costs: StageCosts = field(default_factory=lambda: StageCosts("recall"))

    def takes(self, case: Case) -> bool:  # noqa: ARG002 - as every stage has it
        """Recall always has a verdict."""
        return True

    async def run(self, case: Case) -> Verdict:
        """Decide what is known or sure; else hand the case on with the best candidate."""
        request, candidates = case.request, case.narrowed.candidates
        if request.goes_on and case.chat is not None and not request.blank:
            return self._verdict(case, "handed_on", None, _GOES_ON)
        if not candidates or (request.blank and len(candidates) > 1):
            why = "nothing is asked" if candidates else "there is nothing to choose from"
            verdict = self._verdict(case, "none", Choice(notes=(BLANK,) if candidates else ()), why)
            return replace(verdict, confidence=None)
        settled = self._needs_no_decision(case)
        if settled is not None:
            choice, why = settled
            return self._verdict(case, "decided" if choice.chosen_ids else "none", choice, why)
        if case.is_for_chat:
            return self._verdict(case, "handed_on", self.best(case), SEVERAL)
        expected, budget = self._expected_error(case), self._budget(case)
        why = self._why_unsure(case, expected, budget)
        if why:
            return self._verdict(case, "handed_on", self.best(case), why, expected)
        comparison = _compare_confidence(case, expected, budget)
        why = self._why_audited(case, comparison)
        if why:
            verdict = self._verdict(case, "handed_on", self.best(case), why, expected)
        else:
            choice = first_live(candidates, self.flows, Reason.CONFIDENT)
            verdict = self._verdict(case, "decided", choice, comparison, expected)
        return replace(verdict, is_sure=case.narrowed.thresholds is not None)

    @staticmethod
    def _verdict(
        case: Case, outcome: StageOutcome, choice: Choice | None, why: str, expected: float | None = None
    ) -> Verdict:
        narrowed = case.narrowed
        verdict = Verdict(
            stage="recall",
            outcome=outcome,
            choice=choice,
            why=why,
            confidence=narrowed.confidence,
            expected_error=expected,
            took_s=case.recall_s,
        )
        if not narrowed.reread:
            return verdict
        first = StageRecord(name="recall", outcome="handed_on", why=narrowed.why_reread)
        return replace(verdict, stage="transformer", before=(first,))

    def _expected_error(self, case: Case) -> float | None:
        """Return the expected share of wrong answers among those as sure as this one; None if it is unknown."""
        confidence = case.narrowed.confidence
        if confidence is None:
            return None
        if case.narrowed.thresholds is not None:
            return case.narrowed.thresholds.expected_error(confidence)
        if case.narrowed.answers is None:
            return 1 - confidence
        line = self.calibration.recall
        thresholds = case.narrowed.answers.thresholds(line if line.cases else None)
        return thresholds.expected_error(confidence)

    def _needs_no_decision(self, case: Case) -> tuple[Choice, str] | None:
        """Return what is taken as it is, or None.

        That is a known request, the only candidate, the first if any will do, and the best if nobody can decide.
        """
        request, candidates = case.request, case.narrowed.candidates
        if case.known and request.may_begin(case.known, is_likely=True):
            known = [each for each in candidates if each.flow_id == case.known]
            name = in_one_line(self.flows[case.known].name)
            return first_live(known, self.flows, Reason.EXAMPLE), f"it is known as a request for {name}"
        first = candidates[0].flow_id
        if self._allowed_error(case) == 1 and not case.is_for_chat and request.may_begin(first, is_likely=True):
            return first_live(candidates, self.flows, Reason.CONFIDENT), "any answer will do, as max_error is 1"
        if len(candidates) == 1 and self._needs_no_check(case):
            return first_live(candidates, self.flows, Reason.SINGLE), "one candidate is left"
        if not case.has_more and self._allowed_error(case) is None:
            return self.best(case), "no model is configured"
        return None

    def _needs_no_check(self, case: Case) -> bool:
        """Whether the only candidate is taken as it is.

        Recall that keeps one candidate is sure which flow is best, not that any fits. A model that may answer "none"
        is asked, unless recall is as sure of that.
        """
        if not case.has_more:
            return self.policy.on_empty == "top1" or likely_fits(case.narrowed)
        if self._allowed_error(case) is not None or not first_may_begin(case.request, case.narrowed, allowed=None):
            return False
        if self.policy.ask_user and case.narrowed.confidence is not None:
            return False
        p_none = case.narrowed.p_none
        is_doubtful = self.policy.on_empty == "none" and bool(case.narrowed.sized)
        return not is_doubtful or (p_none is not None and p_none <= 1 - COVERAGE)

    def _why_unsure(self, case: Case, expected: float | None, budget: float | None) -> str:
        """Return why recall may not decide; empty if it may."""
        first = case.narrowed.candidates[0]
        if first.flow_id not in self.flows:
            return "its first candidate is not in the registry"
        if budget is None:
            return "no error budget is set (max_error)"
        if expected is None:
            return case.narrowed.caveat or "its confidence is not known"
        if expected > budget * (1 + _ROUNDING):
            return _compare_confidence(case, expected, budget)
        if case.request.may_begin(first.flow_id, is_likely=True):
            return ""
        return f"{_compare_confidence(case, expected, budget)}, {NOT_ITS}"

    def _why_audited(self, case: Case, comparison: str) -> str:
        """Return why a model is asked although recall is sure; empty if recall decides."""
        confidence = case.narrowed.confidence
        if case.narrowed.thresholds is None or confidence is None:
            return ""
        if confidence < case.audited.raised:
            return f"{comparison}; the audit found the promise broken, and demands {case.audited.raised:.3f}"
        if case.chat is None and not self.shares_budget:
            return ""
        if case.audited.is_suspected:
            return f"{comparison}; models differed about this flow of late, so it is asked all the same (audit)"
        if case.audited.is_sampled:
            return f"{comparison}; it is of the share that is asked all the same (audit)"
        return ""

    def _budget(self, case: Case) -> float | None:
        """Return the share of recall's answers that may be wrong; None if none is set."""
        allowed = self._allowed_error(case)
        if allowed is None:
            return None
        if self.shares_budget and not case.request.goes_on:
            return allowed * SHARED
        return allowed

    def _allowed_error(self, case: Case) -> float | None:
        return self.policy.allowed_error(self.flows.get(case.narrowed.candidates[0].flow_id))

    def best(self, case: Case) -> Choice:
        """Return what is taken if nobody else decides: the likeliest flow, or nothing if that is likelier."""
        candidates = case.narrowed.candidates
        reason = Reason.SINGLE if len(candidates) == 1 else Reason.SEMANTIC
        if self.policy.on_empty == "none" and not likely_fits(case.narrowed):
            return Choice(notes=(NOTHING,))
        if case.request.within and self._allowed_error(case) == 0:
            return Choice(notes=(NO_ERROR,))
        if self._allowed_error(case) is None:
            notes = (NO_BUDGET,) if case.has_more else ()
            return first_live(candidates, self.flows, reason, notes=notes)
        likeliest = sorted(candidates, key=lambda each: -(each.confidence or 0.0))
        return first_live(likeliest, self.flows, reason, notes=(OVER_BUDGET,))


def _compare_confidence(case: Case, expected: float | None, budget: float | None) -> str:
    confidence = case.narrowed.confidence
    if confidence is None or expected is None or budget is None:
        return "its confidence is not known"
    return (
        f"confidence {confidence:.3f}; of answers this sure, {expected:.1%} are expected to be wrong, "
        f"and the budget is {budget:.1%}"
    )
