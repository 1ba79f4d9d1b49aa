"""The stages of a decision: how sure is sure enough, what each of them said and cost, and what a user is asked."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, Literal

StageName = Literal["recall", "transformer", "decider", "chat", "user"]
"""What a request may be asked of, in this order: the index, its second embedder, a decision model, a chat model, the
user."""
StageOutcome = Literal["decided", "passed", "none", "failed", "spared"]
"""What came of it: it chose, it left the choice to the next one, it said that nothing fits, it could not answer; it was
not asked, since an earlier one decided."""
OUTSIDE: Final = 0.1
"""The share of requests that are taken to ask for what no flow does: P(in scope) alone is even between both."""
MARGIN: Final = 0.8
"""How much of an error budget is spent by what recall expects of itself: a catalogue's own examples are few, and what
users ask for differs from them."""
SHARED: Final = 0.5
"""How much of that is recall's where a decision model comes after it: what recall leaves, both decide together, and of
the same budget that answers more."""
_NEVER: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that a call took, as the provider counts them."""

    input_tokens: int = 0
    """All that was sent, cached or not."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """Those of the input that the provider read from its cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """What one stage made of a request.

    Attributes:
        name: Which one.
        outcome: What came of it.
        why: In words: how sure it was, and how sure it had to be; what it failed with.
        confidence: P(its choice is right), with what the stages before it knew; None where it said nothing of that.
        took_s: How long it took, in seconds; of a stage that was spared, how long it took on average so far.
        usage: The tokens that it took, where they were counted; likewise.
        calls: Calls of a model that were answered.
    """

    name: StageName
    outcome: StageOutcome
    why: str = ""
    confidence: float | None = None
    took_s: float = 0.0
    usage: Usage | None = None
    calls: int = 0

    def __str__(self) -> str:
        """In one line."""
        return f"{self.name} {self.outcome}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOption:
    """One of the flows that a user is asked to choose from: what it is called, and what tells it from the others."""

    flow_id: str
    flow_name: str
    title: str
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserQuestion:
    """What a user is to be asked, since nobody else may decide; `select(answer, asked=…)` takes the answer.

    Attributes:
        text: The question with its options, numbered, one a line; made of the flows' own words.
        options: The options, in that order.
        request: What was asked for, which an answer that names none of them is read with.
        again: Whether it is asked once more, since what was said to it names no one option: a number that none has,
            two of them, what is not meant.
        more: Whether something else than these may be meant as well.
    """

    text: str
    options: tuple[UserOption, ...]
    request: str = ""
    again: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class OwnAnswers:
    """How sure recall was of its answers to the examples of its catalogue, each asked as if it were none.

    Attributes:
        first: P(the first candidate is right), one for each example, from the surest down.
        scoped: Likewise, that it is right and that the request is one for a flow at all (`joint_probability`).
        errors: P(the answer is wrong) of each of both, as long as its flow is without the example that was asked; None
            where that is what is left to 1, as in what an earlier version noted.
    """

    first: tuple[float, ...]
    scoped: tuple[float, ...]
    errors: tuple[tuple[float, ...], tuple[float, ...]] | None = None
    _found: dict[tuple[float, bool], float] = field(
        default_factory=dict[tuple[float, bool], float], init=False, compare=False, repr=False
    )

    def threshold(self, max_error: float, *, scoped: bool) -> float:
        """How sure an answer has to be, so that so small a share of those that are as sure is expected to be wrong.

        The expected errors are those that `errors` or confidence own to: errors counted among so few examples would
        say less. 1 where no answer is sure enough: then only a request that is the name of a flow is.
        """
        known = self._found.get((max_error, scoped))
        if known is not None:
            return known
        sure = self.scoped if scoped else self.first
        allowed = MARGIN * max_error
        errors = accumulate(self.errors[scoped] if self.errors else (1 - each for each in sure))
        within = [each for count, (each, own) in enumerate(zip(sure, errors, strict=True), 1) if own <= allowed * count]
        found = self._found[max_error, scoped] = within[-1] if within else _NEVER
        return found


def own_answers(pairs: Iterable[tuple[float, float]], asked: Iterable[float] | None = None) -> OwnAnswers:
    """What is kept of answers, from the confidence in each and P(in scope).

    `asked` is what the confidence in each was as it was asked, where that differs.
    """
    known = list(pairs)
    before = [first for first, _ in known] if asked is None else list(asked)
    first, doubts = _surest_first((sure, each) for (sure, _), each in zip(known, before, strict=True))
    scoped, scoped_doubts = _surest_first(
        (joint_probability(*each), joint_probability(own, each[1])) for each, own in zip(known, before, strict=True)
    )
    return OwnAnswers(first=first, scoped=scoped, errors=None if asked is None else (doubts, scoped_doubts))


def _surest_first(pairs: Iterable[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """How sure each is now, from the surest down, and how unsure each was."""
    order = sorted(
        ((round(now, 6), round(1 - before, 6)) for now, before in pairs), key=lambda each: (-each[0], each[1])
    )
    return tuple(now for now, _ in order), tuple(doubt for _, doubt in order)


def joint_probability(confidence: float, in_scope: float | None) -> float:
    """P(the first candidate is right, and the request is one for a flow): what confidence is where "none" may be said.

    P(in scope) weighs requests for a flow and others as equally many; here one in ten (`OUTSIDE`) is of the others.
    """
    if in_scope is None:
        return confidence
    odds = (1 - OUTSIDE) / OUTSIDE * in_scope
    return confidence * odds / (odds + 1 - in_scope) if odds else 0.0
