"""Calibration from labelled requests: how often each stage was right beside how sure it was."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jazz_select.errors import ConfigError, ModelError
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.cascade.budget import NONE, together
from jazz_select.selector.cascade.calibration import Calibration, Line, fitted
from jazz_select.selector.cascade.deciding import Deciding, Said
from jazz_select.selector.choice import problem_in
from jazz_select.selector.retrieval import CandidateSet, CandidateSource, Request, side_by_side
from jazz_select.stages import likely
from jazz_select.text import in_log
from jazz_select.threads import Deadline

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A request, what was recalled for it, and the id of the flow that is right; "none" where none is."""

    request: Request
    narrowed: CandidateSet
    right: str


async def labelled(
    cases: Iterable[tuple[str, str | None]], flows: Mapping[str, BaseFlow], narrower: CandidateSource
) -> list[Labelled]:
    """Requests, each with the name of its flow or None, and what is recalled for them.

    Raises:
        ConfigError: One is no such pair, names a flow that there is not, or nothing is recalled for any of them.
        StoreError: The memory failed.
        EmbeddingError: Likewise.
    """
    pairs = [_pair(each) for each in cases]
    names = {flow.name: flow.id for flow in flows.values()}
    if unknown := sorted({name for _, name in pairs if name is not None and name not in names}):
        msg = f"cases name flows that the registry does not have: {', '.join(unknown[:5])}"
        raise ConfigError(msg)
    requests = [Request.of(text, None) for text, _ in pairs]
    narrowed = await narrower.recalled(requests, {}) if requests else []
    if not any(each.candidates for each in narrowed):
        notes = dict.fromkeys(note for each in narrowed for note in each.notes)
        msg = f"nothing is recalled for {len(pairs)} cases, so there is nothing to learn from: {'; '.join(notes)}"
        raise ConfigError(msg.removesuffix(": "))
    return [
        Labelled(request=request, narrowed=found, right=NONE if name is None else names[name])
        for request, found, (_, name) in zip(requests, narrowed, pairs, strict=True)
    ]


def _pair(case: object) -> tuple[str, str | None]:
    match case:
        case (str() as text, str() | None as name):
            return text, name
        case _:
            msg = f"a case is a request with the name of its flow, or with None, not {case!r:.80}"
            raise ConfigError(msg)


async def calibrated(cases: Sequence[Labelled], decider: Deciding | None, *, timeout_s: float | None) -> Calibration:
    """What these requests say of recall, and of it together with the decision model, which is asked about each.

    It is asked about as many at once as it takes, and the time for each counts from when its turn comes.

    Raises:
        ModelError: The decision model answered none of them.
    """
    asked: list[tuple[Labelled, Said]] = []
    lost = 0
    if decider is not None:
        some = [each for each in cases if each.narrowed.candidates]
        calls = [partial(_said, each, decider, timeout_s) for each in some]
        answers = await side_by_side(calls, at_once=decider.client.max_concurrency)
        asked = [(each, said) for each, said in zip(some, answers, strict=True) if isinstance(said, Said)]
        lost = len(some) - len(asked)
        if some and not asked:
            raise ModelError(decider.client.name, f"it answered none of {lost} cases: {answers[0]}", retryable=True)
        if lost:
            _log.warning("lost=<%d>, cases=<%d> | the decision model gave no answer about some cases", lost, len(some))
    recall = {scoped: [_by_recall(each, scoped=scoped) for each in cases] for scoped in (False, True)}
    both = {scoped: [_by_both(*each, scoped=scoped) for each in asked] for scoped in (False, True)}
    return Calibration(
        recall=_fitted(recall[False]),
        decider=_fitted(both[False]),
        recall_scoped=_fitted(recall[True]),
        decider_scoped=_fitted(both[True]),
        lost=lost,
    )


def _fitted(answers: Iterable[tuple[float, bool] | None]) -> Line:
    return fitted([each for each in answers if each is not None])


def _by_recall(case: Labelled, *, scoped: bool) -> tuple[float, bool] | None:
    """How sure recall is, and whether it is right; None where it says nothing of that, or "none" is no answer."""
    if not case.narrowed.candidates or (case.right == NONE and not scoped):
        return None
    first = case.narrowed.candidates[0]
    if first.confidence is None:
        return None
    sure = likely(first.confidence, case.narrowed.in_scope) if scoped else first.confidence
    return sure, first.flow_id == case.right


async def _said(case: Labelled, decider: Deciding, timeout_s: float | None) -> Said | str:
    """What the decision model says of a case, or in words why it says nothing."""
    try:
        return await decider.ask(case.request, case.narrowed.candidates, Deadline.after(timeout_s))
    except Exception as error:  # noqa: BLE001 - whatever a model fails with
        why = problem_in(error)
        _log.debug("error=<%s> | a case says nothing of the decision model", in_log(why))
        return why


def _by_both(case: Labelled, said: Said, *, scoped: bool) -> tuple[float, bool] | None:
    """How sure both are together, and whether they are right; None where "none" is right, and no answer."""
    if case.right == NONE and not scoped:
        return None
    chances = together(case.narrowed.candidates, said.chances, in_scope=case.narrowed.in_scope, scoped=scoped)
    best = max((each for each in chances if scoped or each != NONE), key=chances.__getitem__)
    return chances[best], best == case.right
