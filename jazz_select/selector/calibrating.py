"""Fitting the calibration of recall and of the decision model to labelled requests."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from jazz_select.chat.decisions import DecisionClient
from jazz_select.errors import ConfigError, ModelError
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.calibration import Calibration, fit_line
from jazz_select.selector.candidates_stage import CandidateSet, CandidateSource, Request, side_by_side
from jazz_select.selector.decision_stage import NONE, DeciderAnswer, ask_decider, posteriors
from jazz_select.text import describe_error, in_log
from jazz_select.threads import Deadline

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A labelled request, its recalled candidates, and the id of the right flow, or "none"."""

    request: Request
    narrowed: CandidateSet
    right: str


async def recall_cases(
    cases: Iterable[tuple[str, str | None]], flows: Mapping[str, BaseFlow], narrower: CandidateSource
) -> list[Sample]:
    """Recall candidates for labelled cases: pairs of a request and the name of its flow, or None.

    Raises:
        ConfigError: A case is not such a pair or names an unknown flow, or nothing is recalled for any case.
    """
    pairs = [_pair(case) for case in cases]
    names = {flow.name: flow.id for flow in flows.values()}
    unknown = sorted({name for _, name in pairs if name is not None and name not in names})
    if unknown:
        raise ConfigError(f"cases name flows that the registry does not have: {', '.join(unknown[:5])}")
    requests = [Request.from_query(text, None) for text, _ in pairs]
    narrowed = await narrower.recall_each(requests, {}) if requests else []
    if not any(found.candidates for found in narrowed):
        notes: dict[str, None] = {}
        for found in narrowed:
            notes.update(dict.fromkeys(found.notes))
        msg = f"nothing is recalled for {len(pairs)} cases, so there is nothing to learn from: {'; '.join(notes)}"
        raise ConfigError(msg.removesuffix(": "))
    samples: list[Sample] = []
    for request, found, (_, name) in zip(requests, narrowed, pairs, strict=True):
        right = NONE if name is None else names[name]
        samples.append(Sample(request=request, narrowed=found, right=right))
    return samples


def _pair(case: object) -> tuple[str, str | None]:
    match case:
        case (str() as text, str() | None as name):
            return text, name
        case _:
            raise ConfigError(f"a case must be a request with the name of its flow, or with None, got {case!r:.80}")


async def calibrate(cases: Sequence[Sample], decider: DecisionClient | None, *, timeout_s: float | None) -> Calibration:
    """Calibrate recall, and recall together with the decision model, on labelled requests.

    The decision model is asked about each request, up to its `max_concurrency` at once, each with its own timeout.

    Raises:
        ModelError: The decision model answered none of the requests.
    """
    recall = fit_line(_by_recall(cases))
    cases = [replace(each, narrowed=each.narrowed.calibrate(recall)) for each in cases]
    answered: list[tuple[Sample, DeciderAnswer]] = []
    lost = 0
    if decider is not None:
        asked = [each for each in cases if each.narrowed.candidates]
        calls = [partial(_ask_decider, each, decider, timeout_s) for each in asked]
        answers = await side_by_side(calls, at_once=decider.max_concurrency)
        for each, answer in zip(asked, answers, strict=True):
            if isinstance(answer, DeciderAnswer):
                answered.append((each, answer))
        lost = len(asked) - len(answered)
        if asked and not answered:
            raise ModelError(decider.name, f"it answered none of {lost} cases: {answers[0]}", retryable=True)
        if lost:
            _log.warning("lost=<%d>, cases=<%d> | the decision model gave no answer about some cases", lost, len(asked))
    return Calibration(recall=recall, decider=fit_line(_by_both(answered)), lost=lost)


def _by_recall(cases: Sequence[Sample]) -> Iterator[tuple[float, bool]]:
    """Yield recall's confidence in its first candidate, and whether that is right."""
    for case in cases:
        first = next(iter(case.narrowed.candidates), None)
        if first is not None and first.confidence is not None:
            yield first.confidence, first.flow_id == case.right


async def _ask_decider(case: Sample, decider: DecisionClient, timeout_s: float | None) -> DeciderAnswer | str:
    """Return the decision model's answer about a case, or the text of its error."""
    try:
        return await ask_decider(decider, case.request, case.narrowed.candidates, Deadline.after(timeout_s))
    except Exception as error:  # noqa: BLE001 - whatever a model fails with
        why = describe_error(error)
        _log.debug("error=<%s> | a case says nothing of the decision model", in_log(why))
        return why


def _by_both(asked: Sequence[tuple[Sample, DeciderAnswer]]) -> Iterator[tuple[float, bool]]:
    """Yield the confidence of recall and decision model together, and whether their choice is right."""
    for case, answer in asked:
        chances = posteriors(case.narrowed.candidates, answer.chances)
        best = max(chances, key=chances.__getitem__)
        yield chances[best], best == case.right
