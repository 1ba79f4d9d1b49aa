"""One stage of a selection: the case that it is given, and its verdict."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, Protocol

from jazz_select.chat.client import ChatClient, total_usage
from jazz_select.selector.candidates_stage import CandidateSet, Request
from jazz_select.stages import StageName, StageOutcome, StageRecord, Usage, is_none_suspected
from jazz_select.threads import Deadline
from jazz_select.values import Candidate, Decision, Reason, Tier

LIKELY: Final = 0.5
"""The least probability at which a flow is taken, or asked about, although no stage is sure of it."""


def is_likely(confidence: float | None, p_none: float | None) -> bool:
    """Whether a flow is likely to be right, and nothing speaks against a request for a flow; False if unknown."""
    return confidence is not None and confidence >= LIKELY and not is_none_suspected(p_none)


def first_may_begin(request: Request, narrowed: CandidateSet, *, allowed: float | None) -> bool:
    """Whether the first candidate may begin without the chat model, although no stage is sure of it.

    `allowed` is the share of such answers that may be wrong: with 0, a likely one is not enough.
    """
    first = next(iter(narrowed.candidates), None)
    if first is None:
        return False
    likely = allowed != 0 and is_likely(first.confidence, narrowed.p_none)
    return request.may_begin(first.flow_id, is_likely=likely)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Decision):
    """A decision before the guards of the chosen flows are checked again."""

    tier: Tier = Tier.OPEN
    reason: Reason = Reason.NONE
    unresolved: tuple[str, ...] = ()
    """Ids that were chosen but cannot run: stale, not offered, or unknown."""
    is_sure: bool = False
    """Whether recall was sure enough to decide alone, by what was learned from a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """What recall and a decision model together believe.

    Attributes:
        chances: Confidence by flow id, and P(none of the candidates is right) by `NONE`; they sum to 1.
        vote: What the decision model alone finds likeliest, a flow id or `NONE`, and its probability.
        model: The decision model's name.
        best: The likeliest choice and its confidence, if that is too low to decide.
    """

    chances: Mapping[str, float]
    vote: tuple[str, float]
    model: str = ""
    best: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a stage makes of a case.

    Attributes:
        stage: The stage.
        outcome: `decided` and `none` are final, unless the user may be asked; with the others the case goes on.
        choice: The choice; of a stage that hands the case on, the best one so far.
        why: In words: its confidence and threshold, or its error.
        confidence: P(the choice is right), "none" included; None if unknown.
        expected_error: Of recall: the expected share of wrong ones among answers that are at least as sure.
        took_s: In seconds.
        usage: Tokens, if counted.
        calls: Answered model calls.
        beliefs: Of a decision model; of a chat model that failed, those of a decision model that was asked then.
        is_open: Whether the user may still be asked, although the stage decided.
        is_in_vain: Whether a decision model was not asked, since no answer of it could have decided.
        is_sure: Of recall: whether it is sure enough to decide alone, by what was learned from a log. If it hands the
            case on all the same, a model is asked to audit it.
        before: Records of stages that this one includes, such as the first of two embedders.
    """

    stage: StageName
    outcome: StageOutcome
    choice: Choice | None = None
    why: str = ""
    confidence: float | None = None
    expected_error: float | None = None
    took_s: float = 0.0
    usage: Usage | None = None
    calls: int = 0
    beliefs: Beliefs | None = None
    is_open: bool = False
    is_in_vain: bool = False
    is_sure: bool = False
    before: tuple[StageRecord, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether no later stage is asked."""
        return self.outcome in {"decided", "none"} and not self.is_open

    @property
    def record(self) -> StageRecord:
        """The verdict for the log, without the choice."""
        return StageRecord(
            name=self.stage,
            outcome=self.outcome,
            why=self.why,
            confidence=self.confidence,
            expected_error=self.expected_error,
            took_s=self.took_s,
            usage=self.usage,
            calls=self.calls,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedEntry:
    """What the audit of recall demands for a request.

    Attributes:
        id: The entry that it will have in the log.
        is_sampled: Whether it is of the share that a model is asked about even if recall could decide alone.
        is_suspected: Whether models differed about the first candidate of late, so that one is asked likewise.
        raised: The least confidence that is demanded of the first candidate; 0 if no promise was broken.
    """

    id: str = ""
    is_sampled: bool = False
    is_suspected: bool = False
    raised: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A request on its way through the stages.

    Attributes:
        request: The request.
        narrowed: Its candidates.
        may_be_none: Whether "no flow fits" is an answer.
        deadline: For all stages together.
        recall_s: What recall took, in seconds.
        known: The id of the flow whose example, title or alias the request is, word for word; empty if there is none.
        has_several: Whether the request may hold several wishes.
        chat: The chat model that is asked: the selector's own, or one that the conversation lends; None without one.
        has_more: Whether a model or the user may decide after recall.
        audited: What the audit of recall demands.
        verdicts: Those of earlier stages, in order.
    """

    request: Request
    narrowed: CandidateSet
    may_be_none: bool
    deadline: Deadline
    recall_s: float = 0.0
    known: str = ""
    has_several: bool = False
    chat: ChatClient | None = None
    has_more: bool = False
    audited: AuditedEntry = AuditedEntry()
    verdicts: tuple[Verdict, ...] = ()

    @property
    def is_for_chat(self) -> bool:
        """Whether several wishes may be in it, which only a chat model can tell apart."""
        return self.has_several and self.chat is not None and len(self.narrowed.candidates) > 1

    @property
    def is_audit(self) -> bool:
        """Whether recall could have decided alone, and a model is asked all the same."""
        return any(each.is_sure and not each.is_final for each in self.verdicts)

    @property
    def choice(self) -> Choice | None:
        """The best choice so far."""
        for verdict in reversed(self.verdicts):
            if verdict.choice is not None:
                return verdict.choice
        return None

    @property
    def beliefs(self) -> Beliefs | None:
        """The beliefs of recall and decision model, if one was asked."""
        for verdict in reversed(self.verdicts):
            if verdict.beliefs is not None:
                return verdict.beliefs
        return None

    def with_verdict(self, verdict: Verdict) -> "Case":
        """Return the case with one more verdict, which replaces an earlier one of the same stage."""
        others = (each for each in self.verdicts if each.stage != verdict.stage)
        return replace(self, verdicts=(*others, verdict))


class Stage(Protocol):
    """Decides a case, or hands it on: recall, a decision model, a chat model, the user."""

    costs: "StageCosts"

    def takes(self, case: Case) -> bool:
        """Whether there is somebody to ask."""
        ...

    async def run(self, case: Case) -> Verdict:
        """Return the verdict; a model that fails is a verdict too."""
        ...


@dataclass(slots=True)
class StageCosts:
    """The calls of one stage so far, whoever's model it asked."""

    name: StageName
    calls: int = 0
    took_s: float = 0.0
    usage: Usage | None = None
    counted: int = field(default=0, repr=False)
    """Calls whose tokens were counted."""

    def add(self, verdict: Verdict) -> None:
        """Count the calls of a verdict."""
        if verdict.calls:
            self.calls += 1
            self.took_s += verdict.took_s
            self.usage = total_usage(self.usage, verdict.usage)
            self.counted += verdict.usage is not None

    def skipped(self) -> StageRecord:
        """Return the record of a stage that was not needed, with its mean time and usage."""
        took_s = self.took_s / max(self.calls, 1)
        usage: Usage | None = None
        if self.usage is not None:
            usage = Usage(**{name: round(count / self.counted) for name, count in asdict(self.usage).items()})
        return StageRecord(name=self.name, outcome="skipped", took_s=took_s, usage=usage)


def first_live(
    candidates: Sequence[Candidate],
    live: Container[str],
    reason: Reason,
    *,
    unresolved: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Choice:
    """Return the best live candidate, chosen for `reason`. Stale candidates ranked above it are unresolved."""
    stale: list[str] = []
    for candidate in candidates:
        if candidate.flow_id in live:
            return Choice(
                tier=Tier.DETERMINISTIC,
                reason=reason,
                chosen_ids=(candidate.flow_id,),
                unresolved=tuple(dict.fromkeys((*unresolved, *stale))),
                notes=notes,
            )
        stale.append(candidate.flow_id)
    return Choice(unresolved=tuple(dict.fromkeys((*unresolved, *stale))), notes=notes)


def likely_fits(narrowed: CandidateSet) -> bool:
    """Whether it is likelier that some flow fits than that none does; an unknown probability counts as likely."""
    return narrowed.p_none is None or narrowed.p_none <= 1 - LIKELY
