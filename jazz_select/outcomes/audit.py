"""The audit: a share of what recall could decide alone is asked all the same, and a broken promise raises a threshold.

Half of the share is left to chance. The other half is for flows of which recall decides one request after the other:
the drift of a flow that nobody is asked about is noticed by nobody. Of suspected flows every answer is asked: where
models differ from recall more often than its confidence explains, also about requests that it was not sure of, until
they agree again.

The promise is an error budget: of the answers given without a model, at most `max_error` differ from what the model,
asked, would have chosen; persons' words count as the truth. All processes that share a log measure together, since
nothing but the log is counted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import exp, fsum, inf, lgamma, log, log1p
from time import time
from typing import Final

from jazz_select.outcomes.entries import RecallAnswer
from jazz_select.outcomes.evidence import ASK_AGAIN
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.serialization import JsonData
from jazz_select.stages import LEAST_AUDITED, Move

_LAST: Final = 20_000
"""Entries that are measured, the newest: more say what was, not what is."""
_BY_CHANCE, _BY_CHANCE_OF_ONE = 0.05, 0.01
"""P-values below which a promise counts as broken, over all flows and for one of many."""
_FEWEST_WRONG: Final = 2
_FEWEST_TO_LOWER: Final = 50
_STEP: Final = 1e-4
"""Confidences in a log have four decimals."""
_CLOSED: Final = 1.0
_NEWEST: Final = 5_000
"""Entries among which those are looked for that recall was not sure of: the flow of today is suspected."""
_DRIFTED: Final = 0.9
"""P(a model differs from recall) of a request for a flow that means something else now."""
_LEAST_DOUBT: Final = 0.01
"""The least P(a model differs) otherwise, however sure recall is."""
_SUSPICION: Final = 3.0
"""The log likelihood ratio from which on a flow is suspected: about twenty to one. One model that differs where recall
is .96 sure is as much, or two where it is .8."""
_MOST_SUSPICION: Final = 5.0
"""Its most: without a bound, a flow that was long suspected would be acquitted late."""


def is_audited(request: str, entry: str, share: float) -> bool:
    """Whether a request is of the share that is asked all the same: by a hash with its entry, which nobody foresees."""
    digest = sha256(f"{request}\x1f{entry}".encode(errors="replace")).digest()
    return int.from_bytes(digest[:8], "big") < share * (1 << 64)


def chance_share(share: float) -> float:
    """Return the part of the audited share that is left to chance: half of it, and no less than one in a hundred."""
    return min(share, max(share / 2, LEAST_AUDITED))


def is_overdue(silent: int, share: float) -> bool:
    """Whether the next answer with a flow is to be asked, after so many in a row that were given without a model."""
    return silent + 1 >= 1 / (2 * share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured(JsonData):
    """What became of the answers that recall was sure of, for one flow or all.

    Attributes:
        flow: The flow that recall had first; empty for all together.
        audited: How many were asked all the same, and answered.
        differed: In how many of those the model, asked twice, or a person chose something else.
        alone: How many were decided without a model.
        corrected: How many of those a person corrected.
        threshold: The least confidence by this measure, above what a sync fitted; 0 where nothing was raised.
    """

    flow: str = ""
    audited: int = 0
    differed: int = 0
    alone: int = 0
    corrected: int = 0
    threshold: float = 0.0

    @property
    def share(self) -> float | None:
        """The share of audited answers that differed; None before the first audit."""
        return self.differed / self.audited if self.audited else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(JsonData):
    """The promise, and what was measured of it since the last fit.

    Attributes:
        promise: The share of answers without a model that may differ; None if no budget is set.
        whole: What was measured over all flows.
        flows: Likewise of each flow whose threshold was raised or of whose answers some differed, the worst first.
        moves: When which threshold moved, and why, the oldest first.
        suspected: Names of flows whose every answer is asked now, since models differed from recall of late.
        silent: How many answers with a flow were given without a model since one was last asked; without the zeros.
    """

    promise: float | None = None
    whole: Measured = Measured()
    flows: tuple[Measured, ...] = ()
    moves: tuple[Move, ...] = ()
    suspected: tuple[str, ...] = ()
    silent: Mapping[str, int] = field(default_factory=dict[str, int])

    def threshold(self, flow: str) -> float:
        """Return the least confidence for an answer with this flow; 0 where nothing was raised."""
        own = next((each.threshold for each in self.flows if each.flow == flow), 0.0)
        return max(own, self.whole.threshold)

    def __str__(self) -> str:
        """Return one sentence."""
        if self.promise is None:
            return "no error budget is set (max_error), so nothing is promised"
        parts = [f"promised: at most {self.promise:.1%} differ"]
        whole = self.whole
        if whole.share is None:
            parts.append(f"no answer was audited yet ({whole.alone} were given without a model)")
        else:
            parts.append(f"{whole.differed} of {whole.audited} audited answers did ({whole.share:.1%})")
            raised = [each.flow for each in self.flows if each.threshold]
            if raised:
                parts.append(f"the threshold was raised for {', '.join(raised)}")
            if whole.threshold:
                parts.append("it was raised for all flows")
        if self.suspected:
            parts.append(f"models differ about {', '.join(self.suspected)}, so all is asked")
        return "; ".join(parts)


def audit_of(
    outcome_log: OutcomeLog, agent_id: str, promise: Callable[[str], float | None], *, keeps: bool = False
) -> tuple[Audit, tuple[Move, ...]]:
    """Measure the promise in a log, and return the audit with the moves of thresholds that follow from it. Blocking.

    Of those who measure the same log at once, one writes a move, and the others are answered with it.

    Args:
        outcome_log: The log.
        agent_id: Whose entries.
        promise: The error budget of a flow, by its name; empty for that of all others.
        keeps: Whether the moves are written into the log.

    Raises:
        OutcomeLogError: The log cannot be read.
    """
    answers = outcome_log.recall_answers(agent_id, last=_LAST, least=ASK_AGAIN, among=_NEWEST)
    moves = outcome_log.moves(agent_id)
    audit, due = measure_promise(answers, moves, promise)
    if not keeps or not due:
        return audit, due
    for move in due:
        outcome_log.keep_move(agent_id, move, following=moves)
    # Read again: another process may have been first, and a full disk may have refused a move.
    stored = outcome_log.moves(agent_id)
    due = tuple(_own_moves(due, stored[len(moves) :]))
    unstored = [move for move in due if not _is_stored(move, stored)]
    return _measure_audit(answers, (*stored, *unstored), promise("")), due


def _own_moves(due: Iterable[Move], added: Sequence[Move]) -> Iterator[Move]:
    """Yield the moves that were not forestalled by another one; one that could not be written counts here alone."""
    changed = {each.flow for each in added}
    for each in due:
        if _is_stored(each, added) or not changed & {"", each.flow}:
            yield each


def _is_stored(move: Move, stored: Iterable[Move]) -> bool:
    return any(replace(each, after=move.after) == move for each in stored)


def measure_promise(
    answers: Sequence[RecallAnswer], moves: Sequence[Move], promise: Callable[[str], float | None]
) -> tuple[Audit, tuple[Move, ...]]:
    """Return the audit of these answers, and the moves of thresholds that follow from it. Pure.

    Args:
        answers: What became of recall's answers, the oldest first.
        moves: The moves of thresholds so far, the oldest first.
        promise: The error budget of a flow, by its name; empty for that of all others.
    """
    sure = [each for each in answers if each.sure]
    due = tuple(_due_moves(sure, moves, promise))
    return _measure_audit(answers, (*moves, *due), promise("")), due


def _silent(answers: Iterable[RecallAnswer]) -> dict[str, int]:
    counts = Counter[str]()
    for each in answers:
        counts[each.flow] = 0 if each.asked else counts[each.flow] + 1
    return {flow: count for flow, count in counts.items() if count}


def suspected_flows(answers: Iterable[RecallAnswer]) -> tuple[str, ...]:
    """Return the names of flows of which models now differ more often than recall's confidence explains, in order.

    Page's cumulative sum (1954): each answer that was spoken of adds the logarithm of how much likelier it is if the
    flow means something else now. It never falls below 0, so that a long good time before a drift does not hide it. A
    flow is suspected from `_SUSPICION` on until the sum is 0 again.

    What came before the first sure answer does not count: there recall may not have learned from a log yet.
    """
    scores: defaultdict[str, float] = defaultdict(float)
    suspected: set[str] = set()
    has_learned = False
    for each in answers:
        has_learned = has_learned or each.sure
        if each.differs is None or not has_learned:
            continue
        doubt = min(max(1 - each.confidence, _LEAST_DOUBT), _DRIFTED)
        drifted, usual = (_DRIFTED, doubt) if each.differs else (1 - _DRIFTED, 1 - doubt)
        score = min(max(scores[each.flow] + log(drifted / usual), 0.0), _MOST_SUSPICION)
        scores[each.flow] = score
        if score >= _SUSPICION:
            suspected.add(each.flow)
        elif score == 0:
            suspected.discard(each.flow)
    return tuple(sorted(suspected))


def _measure_audit(answers: Sequence[RecallAnswer], moves: Sequence[Move], promise: float | None) -> Audit:
    recent = _answers_since((each for each in answers if each.sure), _last_fit(moves))
    by_flow = _by_flow(recent)
    raised = {each.flow for each in moves if each.flow and _raised_threshold(moves, each.flow)}
    notable: list[Measured] = []
    for name in {*by_flow, *raised}:
        measured = _tally(name, by_flow.get(name, ()), _raised_threshold(moves, name))
        if measured.threshold or measured.differed or measured.corrected:
            notable.append(measured)
    return Audit(
        promise=promise,
        whole=_tally("", recent, _raised_threshold(moves, "")),
        flows=tuple(sorted(notable, key=lambda each: (-each.differed - each.corrected, each.flow))),
        moves=tuple(moves),
        suspected=suspected_flows(answers),
        silent=_silent(answers),
    )


def _due_moves(
    answers: Sequence[RecallAnswer], moves: Sequence[Move], promise: Callable[[str], float | None]
) -> Iterator[Move]:
    """Yield the moves that follow from the answers: of single flows first, then of all others together."""
    raised: set[str] = set()
    for flow, own in sorted(_by_flow(answers).items()):
        move = _move_of(flow, own, moves, promise(flow), by_chance=_BY_CHANCE_OF_ONE)
        if move is not None:
            yield move
        if _raised_threshold(moves if move is None else (*moves, move), flow):
            raised.add(flow)
    rest = [each for each in answers if each.flow not in raised]
    move = _move_of("", rest, moves, promise(""), by_chance=_BY_CHANCE)
    if move is not None:
        yield move


def _move_of(
    flow: str, answers: Sequence[RecallAnswer], moves: Sequence[Move], promise: float | None, *, by_chance: float
) -> Move | None:
    if promise is None:
        return None
    threshold = _raised_threshold(moves, flow)
    changed = _last_change(moves, flow)
    audited: list[RecallAnswer] = []
    alone: list[RecallAnswer] = []
    for each in _answers_since(answers, max(changed, _last_fit(moves))):
        if each.confidence < threshold:
            continue
        if not each.asked:
            alone.append(each)
        elif each.differs is not None:  # else the model that was asked did not answer
            audited.append(each)
    for group, what in ((audited, _AUDITED), (alone, _CORRECTED)):
        wrong = [each.confidence for each in group if each.differs]
        if _is_broken(len(wrong), len(group), promise, by_chance):
            return Move(
                at=time(),
                kind="raised",
                flow=flow,
                threshold=min(max(wrong) + _STEP, _CLOSED),  # just above the surest of those that were wrong
                promise=promise,
                measured=len(wrong) / len(group),
                requests=len(group),
                why=f"{len(wrong)} of {len(group)} {what}",
            )
    since = _answers_since(answers, changed)  # a fit is no reason to wait longer
    below = [each for each in since if each.asked and each.differs is not None and each.confidence < threshold]
    wrong = sum(each.differs is True for each in below)
    if len(below) >= max(_FEWEST_TO_LOWER, _inverse(promise)) and wrong <= promise * len(below):
        return Move(
            at=time(),
            kind="lowered",
            flow=flow,
            threshold=0.0,
            promise=promise,
            measured=wrong / len(below),
            requests=len(below),
            why=f"of {len(below)} requests that were asked since, {wrong} came out otherwise",
        )
    return None


_AUDITED: Final = "answers that were asked all the same came out otherwise"
_CORRECTED: Final = "answers that were given without a model were corrected by persons"


def _is_broken(wrong: int, of: int, promise: float, by_chance: float) -> bool:
    """Whether so many wrong ones would be rare if the promise were kept (one-sided binomial test)."""
    if wrong < _FEWEST_WRONG or wrong <= promise * of:
        return False
    if promise <= 0:
        return True
    # The probability of fewer wrong ones; by logarithms, since factorials of thousands overflow a float.
    fewer = [
        exp(lgamma(of + 1) - lgamma(k + 1) - lgamma(of - k + 1) + k * log(promise) + (of - k) * log1p(-promise))
        for k in range(wrong)
    ]
    return 1 - fsum(fewer) < by_chance


def _inverse(promise: float) -> float:
    return 1 / promise if promise > 0 else inf


def _answers_since(answers: Iterable[RecallAnswer], after: int) -> list[RecallAnswer]:
    return [each for each in answers if each.n > after]


def _last_fit(moves: Iterable[Move]) -> int:
    return max((each.after for each in moves if each.kind == "fitted"), default=0)


def _last_change(moves: Iterable[Move], flow: str) -> int:
    return max((each.after for each in moves if each.flow == flow and each.kind != "fitted"), default=0)


def _by_flow(answers: Iterable[RecallAnswer]) -> Mapping[str, list[RecallAnswer]]:
    found: defaultdict[str, list[RecallAnswer]] = defaultdict(list)
    for each in answers:
        found[each.flow].append(each)
    return found


def _tally(flow: str, answers: Iterable[RecallAnswer], threshold: float) -> Measured:
    audited = differed = alone = corrected = 0
    for each in answers:
        if not each.asked:
            alone += 1
            corrected += each.differs is True
        elif each.differs is not None:
            audited += 1
            differed += each.differs
    return Measured(
        flow=flow, audited=audited, differed=differed, alone=alone, corrected=corrected, threshold=threshold
    )


def _raised_threshold(moves: Sequence[Move], flow: str) -> float:
    """Return the threshold to which the last move of a flow, or of all, raised it; 0 where it was lowered again."""
    for move in reversed(moves):
        if move.flow == flow and move.kind != "fitted":
            return move.threshold if move.kind == "raised" else 0.0
    return 0.0
