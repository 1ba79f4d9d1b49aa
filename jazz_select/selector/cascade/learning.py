"""Calibration from labelled requests: how often each stage was right beside how sure it was."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.cascade.budget import NONE, together
from jazz_select.selector.cascade.calibration import Calibration, fitted
from jazz_select.selector.cascade.deciding import Deciding
from jazz_select.selector.choice import problem_in
from jazz_select.selector.retrieval import CandidateSet, CandidateSource, Request
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
    cases: Sequence[tuple[str, str | None]], flows: Mapping[str, BaseFlow], narrower: CandidateSource
) -> list[Labelled]:
    """Requests, each with the name of its flow or None, and what is recalled for them.

    Raises:
        ConfigError: A case names a flow that there is not.
        StoreError: The memory failed.
        EmbeddingError: Likewise.
    """
    names = {flow.name: flow.id for flow in flows.values()}
    if unknown := sorted({name for _, name in cases if name is not None and name not in names}):
        msg = f"cases name flows that the registry does not have: {', '.join(unknown[:5])}"
        raise ConfigError(msg)
    requests = [Request.of(text, None) for text, _ in cases]
    narrowed = await narrower.recalled(requests, {}) if requests else []
    return [
        Labelled(request=request, narrowed=found, right=NONE if name is None else names[name])
        for request, found, (_, name) in zip(requests, narrowed, cases, strict=True)
    ]


async def calibrated(
    cases: Sequence[Labelled], decider: Deciding | None, *, scoped: bool, timeout_s: float | None
) -> Calibration:
    """What these requests say of recall, and of it together with the decision model, which is asked about each."""
    recall = [
        (likely(first, each.narrowed.in_scope) if scoped else first, each.narrowed.candidates[0].flow_id == each.right)
        for each in cases
        if each.narrowed.candidates
        and (first := each.narrowed.candidates[0].confidence) is not None
        and (scoped or each.right != NONE)
    ]
    answers: list[tuple[float, bool]] = []
    if decider is not None:
        asked = await asyncio.gather(*(_answer(each, decider, scoped=scoped, timeout_s=timeout_s) for each in cases))
        answers = [each for each in asked if each is not None]
    return Calibration(recall=fitted(recall), decider=fitted(answers))


async def _answer(
    case: Labelled, decider: Deciding, *, scoped: bool, timeout_s: float | None
) -> tuple[float, bool] | None:
    """How sure both are together, and whether they are right; None where the model was not to be had."""
    candidates = case.narrowed.candidates
    if not candidates:
        return None
    try:
        said = await decider.ask(case.request, candidates, Deadline.after(timeout_s))
    except Exception as error:  # noqa: BLE001 - whatever a model fails with
        _log.warning("error=<%s> | a case says nothing of the decision model", in_log(problem_in(error)))
        return None
    chances = together(candidates, said.chances, in_scope=case.narrowed.in_scope, scoped=scoped)
    best = max(chances, key=chances.__getitem__)
    if best == NONE and not scoped:
        return None
    return chances[best], best == case.right
