"""The error budget: how sure an answer is, how sure it has to be, and what two stages know together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.cascade.calibration import Calibration, Line
from jazz_select.selector.retrieval import CandidateSet
from jazz_select.stages import SHARED, OwnAnswers, likely
from jazz_select.values import Candidate

NONE = "none"
"""The option beside the candidates."""
LAPSE, TRUST = 0.15, 0.6
"""How often a decision model is taken to answer without looking, and how much of its log odds is believed otherwise:
such models are surer than they are right (of those answered at .95 or more, some nine in ten are)."""
SPREAD = 1.25
"""How many errors of its budget an answer of recall and decision model may be worth: those that are at least so sure
are far surer on average, and the budget is about all of them."""
_SOMETHING_ELSE = 0.02
"""P(the right flow is not among the candidates), where nobody says more of it."""
_LEAST = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How many of the answers of a stage may be wrong, for each flow.

    Attributes:
        max_error: The share, for flows that say nothing of their own; None where nobody says.
        flows: The live flows, whose own `max_error` comes first.
        calibration: What labelled requests show.
    """

    max_error: float | None
    flows: Mapping[str, BaseFlow]
    calibration: Calibration = field(default_factory=Calibration)
    _corrected: list[tuple[OwnAnswers, OwnAnswers]] = field(
        default_factory=list[tuple[OwnAnswers, OwnAnswers]], init=False, compare=False, repr=False
    )

    def allowed(self, flow_id: str) -> float | None:
        """The share of wrong answers where it is this flow that is answered; None where nobody says."""
        flow = self.flows.get(flow_id)
        own = None if flow is None else flow.max_error
        return self.max_error if own is None else own

    def sureness(self, narrowed: CandidateSet, *, scoped: bool) -> float | None:
        """P(the first candidate is right), None where that is not known.

        Args:
            narrowed: What was recalled.
            scoped: Whether "none" is an answer: then it has to be a request for a flow as well.
        """
        first = narrowed.candidates[0].confidence if narrowed.candidates else None
        if first is None:
            return None
        return self.calibration.of_recall(scoped=scoped)(likely(first, narrowed.in_scope) if scoped else first)

    def wanted(self, narrowed: CandidateSet, allowed: float, *, scoped: bool, shared: bool = False) -> float:
        """How sure recall has to be; one less the share where it does not know how sure it usually is.

        Args:
            narrowed: What was recalled.
            allowed: The share of wrong answers.
            scoped: Whether "none" is an answer.
            shared: Whether a decision model is asked about what recall leaves.
        """
        if narrowed.answers is None:
            return 1 - allowed
        return self._known(narrowed.answers).threshold(allowed * SHARED if shared else allowed, scoped=scoped)

    def _known(self, answers: OwnAnswers) -> OwnAnswers:
        """As they are once corrected, made anew where it is another catalogue's."""
        line, scoped = self.calibration.recall, self.calibration.recall_scoped
        if not (line.cases or scoped.cases):
            return answers
        if not self._corrected or self._corrected[0][0] is not answers:
            known = answers.errors
            corrected = OwnAnswers(
                tuple(map(line, answers.first)),
                tuple(map(scoped, answers.scoped)),
                None if known is None else (_errors(line, known[0]), _errors(scoped, known[1])),
            )
            self._corrected[:] = [(answers, corrected)]
        return self._corrected[0][1]


def _errors(line: Line, errors: Sequence[float]) -> tuple[float, ...]:
    return tuple(1 - line(1 - each) for each in errors)


def together(
    candidates: Sequence[Candidate], said: Mapping[str, float], *, in_scope: float | None, scoped: bool
) -> dict[str, float]:
    """What recall and a decision model know together: P(each is right), those of all options sum to one.

    Args:
        candidates: What there was to choose from.
        said: The model's probability of each, by flow id, and of `NONE`.
        in_scope: P(some flow is right), where recall knows it.
        scoped: Whether "none" is an answer.

    Their log odds are added, as if each erred for itself. Since they do not, what the model says counts for less:
    a part of it is taken to be said without looking (`LAPSE`), and of the rest not all is believed (`TRUST`).
    """
    before = _before(candidates, in_scope=in_scope, scoped=scoped)
    options = len(before)
    score = {
        each: log(max(known, _LEAST)) + TRUST * log((1 - LAPSE) * said.get(each, 0.0) + LAPSE / options)
        for each, known in before.items()
    }
    most = max(score.values())
    weight = {each: exp(own - most) for each, own in score.items()}
    total = sum(weight.values())
    return {each: own / total for each, own in weight.items()}


def at_most(candidates: Sequence[Candidate], *, in_scope: float | None, scoped: bool) -> dict[str, float]:
    """What P(it is right) of each option would be if the decision model were wholly sure of it: it is never more.

    As `together` has it, with 1 for the option and 0 for each of the others.
    """
    before = {each: max(known, _LEAST) for each, known in _before(candidates, in_scope=in_scope, scoped=scoped).items()}
    floor = LAPSE / len(before)
    more = ((1 - LAPSE + floor) / floor) ** TRUST
    total = sum(before.values())
    return {each: more * own / (total + (more - 1) * own) for each, own in before.items()}


def _before(candidates: Sequence[Candidate], *, in_scope: float | None, scoped: bool) -> dict[str, float]:
    """What recall knows, of each candidate and of none of them."""
    if not any(each.confidence for each in candidates):
        even = 1 / (len(candidates) + 1)
        return {**{each.flow_id: even for each in candidates}, NONE: even}
    # What recall did not find, such as the flow that was done last, is about as likely as something else altogether.
    sure = [_SOMETHING_ELSE if each.confidence is None else max(each.confidence, _LEAST) for each in candidates]
    none = max(1 - sum(sure), _SOMETHING_ELSE)
    if scoped and in_scope is not None:
        none = max(none, 1 - likely(1.0, in_scope))
    share = (1 - none) / sum(sure)
    return {**{each.flow_id: share * own for each, own in zip(candidates, sure, strict=True)}, NONE: none}
