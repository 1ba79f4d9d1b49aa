"""How sure a stage is and has to be: its error budget, and what labelled requests show of it."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import exp, log
from typing import Annotated

from jazz_select.arguments import Constraint, Count, Probability, checked
from jazz_select.errors import ConfigError, ModelError
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.candidates_stage import CandidateSet, CandidateSource, Request, side_by_side
from jazz_select.selector.decider import NONE, DeciderAnswer, Deciding, posteriors
from jazz_select.stages import SHARED, OwnAnswers, joint_probability
from jazz_select.text import describe_error, in_log
from jazz_select.threads import Deadline
from jazz_select.travel import JsonData

_log = logging.getLogger(__name__)

_PRECISION = (1_000.0, 4.0)
"""How firmly the slope and the shift are held to 1 and 0. A hundred requests say how often all is right, and nothing of
those few that are surest: a slope learned from them would put a budget into the hands of chance."""
_EDGE = 1e-6
SPREAD = 1.25
"""How many errors of its budget an answer of recall and decision model may be worth: those that are at least so sure
are far surer on average, and the budget is about all of them."""


def log_odds(chance: float) -> float:
    """Of a probability; those of one that is all but 0 or 1 have an end."""
    inside = min(max(chance, _EDGE), 1 - _EDGE)
    return log(inside / (1 - inside))


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """P = 1 / (1 + exp(-(shift + slope · log odds))): as it is said to be, where nothing was learned.

    It rises: a line that falls would make the surest the least sure.
    """

    slope: Annotated[float, Constraint("a number above 0 and below 1,000", gt=0, lt=1_000)] = 1.0
    shift: Annotated[float, Constraint("a number between -1,000 and 1,000", gt=-1_000, lt=1_000)] = 0.0
    cases: Count = 0
    """Labelled requests that it was learned from."""

    def __call__(self, chance: float) -> float:
        """What a probability is worth; 0 and 1, which are known and not estimated, stay."""
        if not 0 < chance < 1 or (self.slope, self.shift) == (1.0, 0.0):
            return chance
        return 1 / (1 + exp(-max(-_SUREST, min(_SUREST, self.shift + self.slope * log_odds(chance)))))


_SUREST = 30.0
"""Log odds that no line goes beyond: what was estimated is never certain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(JsonData):
    """What labelled requests say of how sure the stages are; without any, they are taken at their word.

    "Scoped" is how sure they are where "none" is an answer, with `on_empty="none"` and within a conversation.

    Attributes:
        recall: Of recall's confidence.
        decider: Of the confidence of recall and decision model together.
        recall_scoped: As `recall`, and that the request is one for a flow at all.
        decider_scoped: As `decider`, where it may also be that nothing fits.
        lost: Labelled requests that the decision model gave no answer about.
    """

    recall: Line = field(default_factory=Line)
    decider: Line = field(default_factory=Line)
    recall_scoped: Line = field(default_factory=Line)
    decider_scoped: Line = field(default_factory=Line)
    lost: int = 0

    def of_recall(self, *, scoped: bool) -> Line:
        """How sure recall is; `scoped` where "none" is an answer."""
        return self.recall_scoped if scoped else self.recall

    def of_decider(self, *, scoped: bool) -> Line:
        """Likewise of recall and decision model together."""
        return self.decider_scoped if scoped else self.decider


def fit_line(told: Iterable[tuple[float, bool]]) -> Line:
    """The line under which what was claimed, and whether it was right, is likeliest; drawn towards what is claimed.

    A line that would not rise stays as steep as it was.
    """
    answers = list(told)
    if not answers:
        return Line()
    import numpy as np

    from jazz_select.memory.fit.sureness import newton

    claimed = np.array([[log_odds(chance)] for chance, _ in answers])
    right = np.array([float(right) for _, right in answers])
    counts = np.ones(len(answers))
    slope, shift = newton(claimed, right, counts=counts, expected=(1.0, 0.0), held=_PRECISION).tolist()
    return Line(slope=max(slope, 0.05), shift=shift, cases=len(answers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A request, what was recalled for it, and the id of the flow that is right; "none" where none is."""

    request: Request
    narrowed: CandidateSet
    right: str


async def labelled(
    cases: Iterable[tuple[str, str | None]], flows: Mapping[str, BaseFlow], narrower: CandidateSource
) -> list[Sample]:
    """Requests, each with the name of its flow or None, and what is recalled for them.

    Raises:
        ConfigError: One is no such pair, names a flow that there is not, or nothing is recalled for any of them.
        StoreError: The memory failed.
        EmbeddingError: Likewise.
    """
    pairs = [_pair(each) for each in cases]
    names = {flow.name: flow.id for flow in flows.values()}
    if unknown := sorted({name for _, name in pairs if name is not None and name not in names}):
        raise ConfigError(f"cases name flows that the registry does not have: {', '.join(unknown[:5])}")
    requests = [Request.of(text, None) for text, _ in pairs]
    narrowed = await narrower.recalled(requests, {}) if requests else []
    if not any(each.candidates for each in narrowed):
        notes = dict.fromkeys(note for each in narrowed for note in each.notes)
        msg = f"nothing is recalled for {len(pairs)} cases, so there is nothing to learn from: {'; '.join(notes)}"
        raise ConfigError(msg.removesuffix(": "))
    return [
        Sample(request=request, narrowed=found, right=NONE if name is None else names[name])
        for request, found, (_, name) in zip(requests, narrowed, pairs, strict=True)
    ]


def _pair(case: object) -> tuple[str, str | None]:
    match case:
        case (str() as text, str() | None as name):
            return text, name
        case _:
            raise ConfigError(f"a case is a request with the name of its flow, or with None, not {case!r:.80}")


async def calibrated(cases: Sequence[Sample], decider: Deciding | None, *, timeout_s: float | None) -> Calibration:
    """What these requests say of recall, and of it together with the decision model, which is asked about each.

    It is asked about as many at once as it takes, and the time for each counts from when its turn comes.
    """
    asked: list[tuple[Sample, DeciderAnswer]] = []
    lost = 0
    if decider is not None:
        some = [each for each in cases if each.narrowed.candidates]
        calls = [partial(_said, each, decider, timeout_s) for each in some]
        answers = await side_by_side(calls, at_once=decider.client.max_concurrency)
        asked = [(each, said) for each, said in zip(some, answers, strict=True) if isinstance(said, DeciderAnswer)]
        lost = len(some) - len(asked)
        if some and not asked:
            raise ModelError(decider.client.name, f"it answered none of {lost} cases: {answers[0]}", retryable=True)
        if lost:
            _log.warning("lost=<%d>, cases=<%d> | the decision model gave no answer about some cases", lost, len(some))
    return Calibration(
        recall=fit_line(_by_recall(cases, scoped=False)),
        decider=fit_line(_by_both(asked, scoped=False)),
        recall_scoped=fit_line(_by_recall(cases, scoped=True)),
        decider_scoped=fit_line(_by_both(asked, scoped=True)),
        lost=lost,
    )


def _by_recall(cases: Sequence[Sample], *, scoped: bool) -> Iterator[tuple[float, bool]]:
    """How sure recall is, and whether it is right, where it says that and, unless `scoped`, some flow is right."""
    for case in cases:
        sure = _claimed(case.narrowed, scoped=scoped)
        if sure is not None and (scoped or case.right != NONE):
            yield sure, case.narrowed.candidates[0].flow_id == case.right


def _claimed(narrowed: CandidateSet, *, scoped: bool) -> float | None:
    """P(the first candidate is right), as recall has it; None where it does not say."""
    first = narrowed.candidates[0].confidence if narrowed.candidates else None
    return first if first is None or not scoped else joint_probability(first, narrowed.in_scope)


async def _said(case: Sample, decider: Deciding, timeout_s: float | None) -> DeciderAnswer | str:
    """What the decision model says of a case, or in words why it says nothing."""
    try:
        return await decider.ask(case.request, case.narrowed.candidates, Deadline.after(timeout_s))
    except Exception as error:  # noqa: BLE001 - whatever a model fails with
        why = describe_error(error)
        _log.debug("error=<%s> | a case says nothing of the decision model", in_log(why))
        return why


def _by_both(asked: Sequence[tuple[Sample, DeciderAnswer]], *, scoped: bool) -> Iterator[tuple[float, bool]]:
    """How sure both are together, and whether they are right, where, unless `scoped`, some flow is right."""
    for case, said in asked:
        if scoped or case.right != NONE:
            narrowed = case.narrowed
            chances = posteriors(narrowed.candidates, said.chances, in_scope=narrowed.in_scope, scoped=scoped)
            best = max((each for each in chances if scoped or each != NONE), key=chances.__getitem__)
            yield chances[best], best == case.right


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """From which confidence on recall decides for a `FlowSelector`, without a model.

    Attributes:
        skip_llm_above: Do without the model where recall's confidence in its top candidate is at least this, such as
            .98 (reason `confident`); with `on_empty="none"` P(some flow is right) has to be as high.
        abstain_below: Choose nothing where P(some flow is right) is below this, such as .3 (reason `none`).
        calibration: What `calibrate` learned from labelled requests, here or in another process.
    """

    skip_llm_above: Probability | None = None
    abstain_below: Probability | None = None
    calibration: Annotated[Calibration, Constraint("what `await selector.calibrate(cases)` gave")] = field(
        default_factory=Calibration
    )


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
        """P(the first candidate is right), None where that is not known."""
        sure = _claimed(narrowed, scoped=scoped)
        return None if sure is None else self.calibration.of_recall(scoped=scoped)(sure)

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
