"""The stages of a decision: thresholds, what each stage decided and cost, and questions to the user."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Final, Literal

from jazz_select.arguments import Constraint, Probability

StageName = Literal["recall", "transformer", "decider", "chat", "user"]
"""The stages in order: the index, its second embedder, a decision model, a chat model, the user."""
StageOutcome = Literal["decided", "passed", "none", "failed", "spared"]
"""It chose, left the choice to the next stage, found that nothing fits, failed, or was skipped because an earlier stage
decided."""
OUTSIDE: Final = 0.1
"""The assumed share of requests that no flow is for. P(in scope) alone assumes one half."""
MARGIN: Final = 0.8
"""The share of the error budget that recall may spend by its own estimate. The estimate comes from few examples, and
users' requests differ from them."""
SHARED: Final = 0.5
"""Recall's share of that if a decision model follows. Together they answer more within the same budget."""
_NEVER: Final = 1.0
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
        confidence: P(its choice is right), given the stages before it; None if unknown.
        took_s: In seconds; of a skipped stage, its average so far.
        usage: Its tokens, if counted; of a skipped stage, the average.
        calls: Answered model calls.
    """

    name: StageName
    outcome: StageOutcome
    why: str = ""
    confidence: float | None = None
    took_s: float = 0.0
    usage: Usage | None = None
    calls: int = 0

    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        took = f", {self.took_s * 1e3:.1f} ms" if self.took_s else ""
        tokens = f", {self.usage.input_tokens} tokens in, {self.usage.output_tokens} out" if self.usage else ""
        return (
            f"{self.name} {self.outcome}{why}{took}{tokens}{' on average' if self.outcome == 'spared' and took else ''}"
        )


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


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """Recall's confidences on the catalogue's own examples, each asked as if it were none of them.

    Attributes:
        first: P(the first candidate is right) per example, descending.
        scoped: P(it is right and the request is for a flow) per example, descending (`joint_probability`).
        errors: P(the answer is wrong) in the same two orders, with the example left out of its flow.
    """

    first: _Chances
    scoped: _Chances
    errors: tuple[_Chances, _Chances]
    _found: dict[tuple[object, ...], float] = field(
        default_factory=dict[tuple[object, ...], float], init=False, compare=False, repr=False
    )

    def threshold(self, max_error: float, *, scoped: bool, calibrated: Callable[[float], float] | None = None) -> float:
        """Return the least confidence at which the expected error of answers that confident is at most `max_error`.

        The expectation uses `errors`: errors counted among so few examples would say less. Returns 1 if no answer is
        confident enough: then only a request that is the name of a flow is. `calibrated` corrects each confidence.
        """
        asked = (max_error, scoped, calibrated)
        if asked not in self._found:
            sure, errors = self.scoped if scoped else self.first, self.errors[scoped]
            if calibrated is not None:
                sure, errors = tuple(map(calibrated, sure)), tuple(1 - calibrated(1 - each) for each in errors)
            allowed, so_far = MARGIN * max_error, enumerate(zip(sure, accumulate(errors), strict=True), 1)
            within = [each for count, (each, own) in so_far if own <= allowed * count]
            self._found[asked] = within[-1] if within else _NEVER
        return self._found[asked]


def own_answers(pairs: Iterable[tuple[float, float]], asked: Iterable[float] | None = None) -> OwnAnswers:
    """Return the record of answers from (confidence, P(in scope)) pairs.

    `asked` has the confidences at the time of asking, if they differ.
    """
    known = list(pairs)
    before = [first for first, _ in known] if asked is None else list(asked)
    first, doubts = _surest_first((sure, each) for (sure, _), each in zip(known, before, strict=True))
    scoped, scoped_doubts = _surest_first(
        (joint_probability(*each), joint_probability(own, each[1])) for each, own in zip(known, before, strict=True)
    )
    return OwnAnswers(first=first, scoped=scoped, errors=(doubts, scoped_doubts))


def _surest_first(pairs: Iterable[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the confidences, descending, and the error probabilities in that order."""
    order = sorted(
        ((round(now, 6), round(1 - before, 6)) for now, before in pairs), key=lambda each: (-each[0], each[1])
    )
    return tuple(now for now, _ in order), tuple(doubt for _, doubt in order)


def joint_probability(confidence: float, in_scope: float | None) -> float:
    """Return P(the first candidate is right, and the request is for a flow), for choices that include "none".

    P(in scope) assumes as many requests outside as inside the catalogue; this corrects it to `OUTSIDE`.
    """
    if in_scope is None:
        return confidence
    odds = (1 - OUTSIDE) / OUTSIDE * in_scope
    return confidence * odds / (odds + 1 - in_scope) if odds else 0.0
