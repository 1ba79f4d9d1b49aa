"""The audit: a share of what recall could decide alone is asked all the same, and a broken promise raises a threshold.

The promise is an error budget: of the answers given without a model, at most `max_error` differ from what the model,
asked, would have chosen; persons' words count as the truth. All processes that share a log measure together, since
nothing but the log is counted.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import exp, fsum, inf, lgamma, log, log1p
from time import time
from typing import Final

from jazz_select.outcomes.log import OutcomeLog, SureAnswer
from jazz_select.stages import Move
from jazz_select.travel import JsonData

_LAST: Final = 20_000
"""Entries that are measured, the newest: more say what was, not what is."""
_BY_CHANCE, _BY_CHANCE_OF_ONE = 0.05, 0.01
"""P-values below which a promise counts as broken, over all flows and for one of many."""
_FEWEST_WRONG: Final = 2
_FEWEST_TO_LOWER: Final = 50
_STEP: Final = 1e-4
"""Confidences in a log have four decimals."""
_CLOSED: Final = 1.0


def is_audited(request: str, entry: str, share: float) -> bool:
    """Whether a request is of the share that is asked all the same: by a hash with its entry, which nobody foresees."""
    digest = sha256(f"{request}\x1f{entry}".encode(errors="replace")).digest()
    return int.from_bytes(digest[:8], "big") < share * (1 << 64)


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
    """

    promise: float | None = None
    whole: Measured = Measured()
    flows: tuple[Measured, ...] = ()
    moves: tuple[Move, ...] = ()

    def threshold(self, flow: str) -> float:
        """Return the least confidence for an answer with this flow; 0 where nothing was raised."""
        own = next((each.threshold for each in self.flows if each.flow == flow), 0.0)
        return max(own, self.whole.threshold)

    def __str__(self) -> str:
        """Return one sentence."""
        if self.promise is None:
            return "no error budget is set (max_error), so nothing is promised"
        promised = f"promised: at most {self.promise:.1%} differ"
        whole = self.whole
        if whole.share is None:
            return f"{promised}; no answer was audited yet ({whole.alone} were given without a model)"
        measured = f"{whole.differed} of {whole.audited} audited answers did ({whole.share:.1%})"
        raised = [each.flow for each in self.flows if each.threshold]
        closed = f"; the threshold was raised for {', '.join(raised)}" if raised else ""
        return f"{promised}; {measured}{closed}{'; it was raised for all flows' if whole.threshold else ''}"


def audit_of(
    kept: OutcomeLog, agent_id: str, promise: Callable[[str], float | None], *, keeps: bool = False
) -> tuple[Audit, tuple[Move, ...]]:
    """Measure the promise in a log, and return the audit with the moves of thresholds that follow from it. Blocking.

    Of those who measure the same log at once, one writes a move, and the others are answered with it.

    Args:
        kept: The log.
        agent_id: Whose entries.
        promise: The error budget of a flow, by its name; empty for that of all others.
        keeps: Whether the moves are written into the log.

    Raises:
        OutcomeLogError: The log cannot be read.
    """
    answers, moves = kept.sure_answers(agent_id, last=_LAST), kept.moves(agent_id)
    due = tuple(_due(answers, moves, promise))
    if keeps and due:
        for each in due:
            kept.keep_move(agent_id, each, following=moves)
        stored = kept.moves(agent_id)
        due = tuple(_own_moves(due, stored[len(moves) :]))
        moves = (*stored, *(each for each in due if not _is_stored(each, stored)))
    else:
        moves = (*moves, *due)
    return _measured(answers, moves, promise("")), due


def _own_moves(due: Iterable[Move], added: Sequence[Move]) -> Iterator[Move]:
    """Yield the moves that were not forestalled by another one; one that could not be written counts here alone."""
    changed = {each.flow for each in added}
    for each in due:
        if _is_stored(each, added) or not changed & {"", each.flow}:
            yield each


def _is_stored(move: Move, stored: Iterable[Move]) -> bool:
    return any(replace(each, after=move.after) == move for each in stored)


def _measured(answers: Sequence[SureAnswer], moves: Sequence[Move], promise: float | None) -> Audit:
    recent = _since(answers, _last_fit(moves))
    by_flow = _by_flow(recent)
    raised = {each.flow for each in moves if each.flow and _raised(moves, each.flow)}
    flows = [_tally(name, by_flow.get(name, ()), _raised(moves, name)) for name in {*by_flow, *raised}]
    told = [each for each in flows if each.threshold or each.differed or each.corrected]
    return Audit(
        promise=promise,
        whole=_tally("", recent, _raised(moves, "")),
        flows=tuple(sorted(told, key=lambda each: (-each.differed - each.corrected, each.flow))),
        moves=tuple(moves),
    )


def _due(
    answers: Sequence[SureAnswer], moves: Sequence[Move], promise: Callable[[str], float | None]
) -> Iterator[Move]:
    """Yield the moves that follow from the answers: of single flows first, then of all others together."""
    raised: set[str] = set()
    for flow, own in sorted(_by_flow(answers).items()):
        move = _move_of(flow, own, moves, promise(flow), by_chance=_BY_CHANCE_OF_ONE)
        if move is not None:
            yield move
        if _raised(moves if move is None else (*moves, move), flow):
            raised.add(flow)
    rest = [each for each in answers if each.flow not in raised]
    move = _move_of("", rest, moves, promise(""), by_chance=_BY_CHANCE)
    if move is not None:
        yield move


def _move_of(
    flow: str, answers: Sequence[SureAnswer], moves: Sequence[Move], promise: float | None, *, by_chance: float
) -> Move | None:
    if promise is None:
        return None
    threshold = _raised(moves, flow)
    changed = _last_change(moves, flow)
    heard = [
        each for each in _since(answers, max(changed, _last_fit(moves))) if each.differs is not None or not each.asked
    ]
    in_force = [each for each in heard if each.confidence >= threshold]
    audited = [each for each in in_force if each.asked]
    alone = [each for each in in_force if not each.asked]
    for group in (audited, alone):
        wrong = [each.confidence for each in group if each.differs]
        if _is_broken(len(wrong), len(group), promise, by_chance):
            return Move(
                at=time(),
                kind="raised",
                flow=flow,
                threshold=min(max(wrong) + _STEP, _CLOSED),
                promise=promise,
                measured=len(wrong) / len(group),
                requests=len(group),
                why=f"{len(wrong)} of {len(group)} {_AUDITED if group is audited else _CORRECTED}",
            )
    since = _since(answers, changed)  # a fit is no reason to wait longer
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
    fewer = (
        exp(lgamma(of + 1) - lgamma(k + 1) - lgamma(of - k + 1) + k * log(promise) + (of - k) * log1p(-promise))
        for k in range(wrong)
    )
    return 1 - fsum(fewer) < by_chance


def _inverse(promise: float) -> float:
    return 1 / promise if promise > 0 else inf


def _since(answers: Iterable[SureAnswer], after: int) -> list[SureAnswer]:
    return [each for each in answers if each.n > after]


def _last_fit(moves: Iterable[Move]) -> int:
    return max((each.after for each in moves if each.kind == "fitted"), default=0)


def _last_change(moves: Iterable[Move], flow: str) -> int:
    return max((each.after for each in moves if each.flow == flow and each.kind != "fitted"), default=0)


def _by_flow(answers: Iterable[SureAnswer]) -> Mapping[str, list[SureAnswer]]:
    found: defaultdict[str, list[SureAnswer]] = defaultdict(list)
    for each in answers:
        found[each.flow].append(each)
    return found


def _tally(flow: str, answers: Iterable[SureAnswer], threshold: float) -> Measured:
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


def _raised(moves: Sequence[Move], flow: str) -> float:
    """Return the threshold to which the last move of a flow, or of all, raised it; 0 where it was lowered again."""
    last = next((each for each in reversed(moves) if each.flow == flow and each.kind != "fitted"), None)
    return last.threshold if last is not None and last.kind == "raised" else 0.0
