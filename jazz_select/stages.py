"""The stages of a decision: thresholds, what each stage decided and cost, and questions to the user."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import neg
from typing import Annotated, Final, Literal, TypeAlias

from jazz_select.arguments import Constraint, Probability

StageName = Literal["recall", "transformer", "decider", "chat", "user"]
"""The stages in order: the index, its second embedder, a decision model, a chat model, the user."""
StageOutcome = Literal["decided", "handed_on", "none", "failed", "skipped"]
"""It chose, handed the choice on to the next stage, found that nothing fits, failed, or was skipped because an earlier
stage decided."""
OUTSIDE: Final = 0.1
"""The assumed share of requests that no flow is for: P(none) before a request is read."""
MARGIN: Final = 0.8
"""The share of the error budget that recall may spend by its own estimate. The estimate comes from few examples, and
users' requests differ from them."""
SHARED: Final = 0.5
"""Recall's share of that if a decision model follows. Together they answer more within the same budget."""
_NEVER: Final = 1.0
_ROUNDED: Final = 1e-12
_Chances = Annotated[tuple[Probability, ...], Constraint("probabilities", max_length=1 << 20)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a call, as counted by the provider."""

    input_tokens: int = 0
    """All input, cached or not."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """The part of the input that the provider read from its cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """The result of one stage for a request.

    Attributes:
        name: The stage.
        outcome: What it decided.
        why: In words: its confidence and threshold, or its error.
        confidence: P(its choice is right), "none" included, given the stages before it; None if unknown.
        expected_error: Of recall, if its confidence is what decides: the expected share of wrong ones among answers
            that are at least as sure. It decides if that is within the error budget.
        took_s: In seconds; of a skipped stage, its average so far.
        usage: Its tokens, if counted; of a skipped stage, the average.
        calls: Answered model calls.
    """

    name: StageName
    outcome: StageOutcome
    why: str = ""
    confidence: float | None = None
    expected_error: float | None = None
    took_s: float = 0.0
    usage: Usage | None = None
    calls: int = 0

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        took = f", {self.took_s * 1e3:.1f} ms" if self.took_s else ""
        tokens = f", {self.usage.input_tokens} tokens in, {self.usage.output_tokens} out" if self.usage else ""
        average = " on average" if self.outcome == "skipped" and took else ""
        return f"{self.name} {self.outcome.replace('_', ' ')}{why}{took}{tokens}{average}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOption:
    """A flow that the user may choose: its name and what distinguishes it."""

    flow_id: str
    flow_name: str
    title: str
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """A question to the user if no stage may decide; `select(answer, asked=…)` takes the answer.

    Attributes:
        text: The question with its numbered options, one a line, in the flows' own words.
        options: The options, in that order.
        request: The original request, used to read an answer that names no option.
        again: Whether it is repeated because the answer did not name one option: an unknown number, two options, or a
            refusal.
        more: Whether something other than the options may be meant.
    """

    text: str
    options: tuple[UserOption, ...]
    request: str = ""
    again: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """How sure recall must be to decide alone within an error budget.

    Attributes:
        confidences: P(the first candidate is right) of known requests, descending.
        errors: The expected share of wrong answers among those at least as sure, of the widest such group; ascending.
        requests: The number of labelled requests of a log that they were learned from.
        ask_again: The confidence from which on a model that differs is asked once more before its choice counts.
    """

    confidences: _Chances
    errors: _Chances
    requests: int = 0
    ask_again: float = _NEVER

    def threshold(self, max_error: float) -> float:
        """Return the least confidence whose `expected_error` is at most `max_error`; 1 if there is none."""
        within = bisect_right(self.errors, max_error + _ROUNDED)
        if not within:
            return _NEVER
        return self.confidences[within - 1]

    def expected_error(self, confidence: float) -> float:
        """Return the expected share of wrong answers among those at least as confident.

        It is 1 for an answer that is less confident than all, and 0 at a confidence of 1, which only the name of a
        flow has.
        """
        if confidence >= _NEVER:
            return 0.0
        first = bisect_left(self.confidences, -confidence, key=neg)
        if first >= len(self.errors):
            return 1.0
        return min(1.0, self.errors[first])

    def share_alone(self, max_error: float) -> float:
        """Return the share of the known requests that are decided within an error budget."""
        limit = self.threshold(max_error)
        if not self.confidences or limit >= _NEVER:
            return 0.0
        return bisect_right(self.confidences, -limit, key=neg) / len(self.confidences)


@dataclass(frozen=True, slots=True)
class LeaveOneOutConfidence:
    """Recall's confidences on the catalogue's own examples, each asked as if it were none of them.

    Attributes:
        confidences: P(the first candidate is right), "none" included, per example, descending.
        errors: P(the answer is wrong) in the same order, with the example left out of its flow.
    """

    confidences: _Chances
    errors: _Chances
    _found: dict[object, Thresholds] = field(
        default_factory=dict[object, Thresholds], init=False, compare=False, repr=False
    )

    def thresholds(self, calibrated: Callable[[float], float] | None = None) -> Thresholds:
        """Return how sure recall must be; `calibrated` corrects each confidence.

        The expected errors use `errors`: errors counted among so few examples would say less.
        """
        if calibrated not in self._found:
            sure, errors = self.confidences, self.errors
            if calibrated is not None:
                sure = tuple(map(calibrated, sure))
                errors = tuple(1 - calibrated(1 - each) for each in errors)
            shares = [total / count / MARGIN for count, total in enumerate(accumulate(errors), start=1)]
            # A wider group with a lower share counts instead, so take the running minimum from the end.
            least = [*accumulate(reversed(shares), min)][::-1]
            self._found[calibrated] = Thresholds(confidences=sure, errors=tuple(least))
        return self._found[calibrated]


def leave_one_out_confidence(answers: Iterable[tuple[float, float]]) -> LeaveOneOutConfidence:
    """Return the record of answers from (confidence, its value with the example left out) pairs."""
    rounded = [(round(confidence, 6), round(1 - left_out, 6)) for confidence, left_out in answers]
    order = sorted(rounded, key=lambda each: (-each[0], each[1]))
    confidences = tuple(confidence for confidence, _ in order)
    return LeaveOneOutConfidence(confidences=confidences, errors=tuple(error for _, error in order))


def is_none_suspected(p_none: float | None) -> bool:
    """Whether a request looks less like one for a flow than requests do on average; an unknown P(none) does not."""
    return p_none is not None and p_none > OUTSIDE + _ROUNDED


def confidence_if_some(confidence: float, p_none: float | None) -> float:
    """Return P(a flow is right, if some flow is) from its confidence; an unknown P(none) counts as 0."""
    some = 1 - (p_none or 0.0)
    return confidence / some if some else confidence


def listed_confidences(chances: Sequence[float], *, p_none: float | None) -> list[float]:
    """Return the confidences of candidates, best first: in descending order, with a sum of at most 1 - `p_none`.

    Args:
        chances: P(right) of each candidate if some flow is right, estimated for each by itself. The first is kept; the
            others are cut to the one before, and together to what the first leaves.
        p_none: P(no flow is right); None if unknown.
    """
    if not chances:
        return []
    first, *others = accumulate(chances, min)
    remaining, total = 1 - first, sum(others)
    share = remaining / total if total > remaining else 1.0
    some = 1.0 if p_none is None else 1 - p_none
    return [some * first, *(some * share * each for each in others)]


LEAST_AUDITED: Final = 0.01
"""The least share that is asked all the same: with less, a broken promise is noticed too late."""
AUDITED: Final = 0.02
AuditShare: TypeAlias = Annotated[float, Constraint("a share from 0.01 to 1", ge=LEAST_AUDITED, le=1)]
"""The share of what recall could decide alone that a model is asked about all the same."""
MoveKind = Literal["fitted", "raised", "lowered"]
"""A sync fitted the thresholds; an audit raised one; evidence lowered it again to the fitted one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A move of the threshold from which on recall decides alone.

    Attributes:
        at: When, in seconds since 1970.
        kind: What moved it.
        flow: The name of the only flow that it is about; empty for all.
        threshold: The least confidence from now on.
        promise: The share of answers that may differ from what a model would choose.
        measured: The share that did; None if it was not measured.
        requests: The number of requests that it was measured on.
        why: In words.
        after: The place in the log of the last entry before it.
    """

    at: float
    kind: MoveKind
    flow: str = ""
    threshold: float
    promise: float
    measured: float | None = None
    requests: int = 0
    why: str = ""
    after: int = 0
