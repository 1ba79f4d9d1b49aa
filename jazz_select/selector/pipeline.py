"""The pipeline of a selection: recall, decision model, chat model, user, in this order, until one decides.

request ─► recall ──────────► decision model ─► chat model ───► user
           known, sure enough  sure enough       one fits, or    which of
           or only one left    with recall       none            two or three?
                │                   │                │               │
                └───────────────────┴── decided ─────┴───────────────┘
                                    │
             nobody decided: the best so far, or nothing if that is likelier
"""

import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from jazz_select.chat.client import ChatClient, total_usage
from jazz_select.chat.decisions import DecisionClient
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.requests import is_several
from jazz_select.selector.calibration import Calibration
from jazz_select.selector.candidates_stage import CandidateSet, Request
from jazz_select.selector.chat_stage import ChatStage
from jazz_select.selector.decision_stage import DecisionStage
from jazz_select.selector.policy import Policy
from jazz_select.selector.recall_stage import RecallStage
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.selector.stage import AuditedEntry, Case, Choice, Stage, Verdict, first_may_begin
from jazz_select.selector.user_stage import UserStage
from jazz_select.stages import StageName, StageRecord
from jazz_select.text import in_log
from jazz_select.threads import Deadline
from jazz_select.values import Candidate, Reason, Tier

_log = logging.getLogger(__name__)
UNASKED: Final = Choice(tier=Tier.GUIDED, reason=Reason.UNASKED)
"""The choice for a request that needs a model, if models may not be asked."""
_ONE_OF_THEM: Final = "several wishes may be in it, and one flow is chosen: what else is wanted is not answered"


class Pipeline:
    """The stages of one selector, and the loop that runs them."""

    def __init__(  # noqa: PLR0913 - the parts of a selector, by name
        self,
        *,
        flows: Mapping[str, BaseFlow],
        policy: Policy,
        calibration: Calibration,
        chat: ChatClient | None,
        decider: DecisionClient | None,
        options: ModelOptions,
        timeout_s: float | None,
    ) -> None:
        """Make the stages; those without a model take no case."""
        self.policy = policy
        self._flows = flows
        self._chat = chat
        self._timeout_s = timeout_s
        self._recall = RecallStage(
            flows=flows, policy=policy, calibration=calibration, shares_budget=decider is not None
        )
        self._decision: DecisionStage | None = None
        if decider is not None:
            self._decision = DecisionStage(client=decider, flows=flows, policy=policy, calibration=calibration)
        self.user = UserStage(flows=flows, policy=policy)
        chat_stage = self._chat_stage = ChatStage(flows=flows, policy=policy, options=options, decider=self._decision)
        models = [self._decision] if self._decision is not None else []
        self._stages: Sequence[Stage] = (self._recall, *models, chat_stage, self.user)
        self._models: Sequence[Stage] = (*models, chat_stage)

    def calibrate(self, narrowed: CandidateSet) -> CandidateSet:
        """Return the candidates with calibrated confidences; what was learned from a log is calibrated already."""
        if narrowed.thresholds is not None:
            return narrowed
        return narrowed.calibrate(self._recall.calibration.recall)

    def recalibrate(self, calibration: Calibration) -> None:
        """Use this calibration from now on."""
        self._recall.calibration = calibration
        if self._decision is not None:
            self._decision.calibration = calibration

    async def run(
        self,
        request: Request,
        narrowed: CandidateSet,
        *,
        recall_s: float,
        known: str = "",
        ask: bool = True,
        audited: AuditedEntry = AuditedEntry(),  # noqa: B008 - it is frozen
    ) -> Choice:
        """Return the choice of the first stage that decides; else the best so far.

        Args:
            request: The request.
            narrowed: Its candidates, with calibrated confidences.
            recall_s: What recall took, in seconds.
            known: The id of the flow whose example, title or alias the request is, word for word.
            ask: Whether models are asked; if not, a request that needs one has the reason `unasked`.
            audited: What the audit of recall demands.
        """
        case = self._case(request, narrowed, recall_s=recall_s, known=known)
        case = replace(case, audited=audited)
        for stage in self._stages:
            if not stage.takes(case):
                continue
            if not ask and any(stage is model for model in self._models):
                return replace(UNASKED, stages=_records(case))
            verdict = await stage.run(case)
            if audited.id and stage is self._chat_stage and _differs(case, verdict):
                verdict = await self._ask_again(case, verdict)
            stage.costs.add(verdict)
            case = case.with_verdict(verdict)
            if verdict.is_final:
                break
        return self._final_choice(case)

    def _case(self, request: Request, narrowed: CandidateSet, *, recall_s: float, known: str) -> Case:
        situation = request.situation
        chat = self._chat
        # Use the conversation's model only if recall may not begin the flow by itself.
        if chat is None and situation is not None and (request.goes_on or not self._may_begin(request, narrowed)):
            chat = situation.reader
        has_more = self._decision is not None or chat is not None or self.policy.ask_user
        return Case(
            request=request,
            narrowed=narrowed,
            may_be_none=self.policy.on_empty == "none" or request.within,
            deadline=Deadline.after(self._timeout_s),
            recall_s=recall_s,
            known=known,
            has_several=is_several(request.own_words),
            chat=chat,
            has_more=has_more,
        )

    def _may_begin(self, request: Request, narrowed: CandidateSet) -> bool:
        first = next(iter(narrowed.candidates), None)
        flow = None if first is None else self._flows.get(first.flow_id)
        return first_may_begin(request, narrowed, allowed=self.policy.allowed_error(flow))

    async def _ask_again(self, case: Case, first: Verdict) -> Verdict:
        """Ask the chat model once more, with the candidates in reverse order, before its difference counts.

        If it then agrees with recall, that is its answer; if not, the first one is.
        """
        request, narrowed = case.request, case.narrowed
        if request.situation is not None and request.situation.growing is not None:
            # An append-only prompt shows its flows in the order in which they came.
            request = replace(request, situation=replace(request.situation, growing=None))
        reverse = replace(narrowed, candidates=narrowed.candidates[::-1], metadata=narrowed.metadata[::-1])
        again = await self._chat_stage.run(replace(case, request=request, narrowed=reverse))
        verdict = first
        result = "differs again"
        if again.outcome == "failed":
            result = "did not answer"
        elif again.outcome == "decided" and not _differs(case, again):
            verdict = again
            result = "agrees with recall"
        why = f"asked once more, with the candidates in another order, it {result}"
        return replace(
            verdict,
            why=f"{verdict.why}; {why}" if verdict.why else why,
            took_s=first.took_s + again.took_s,
            usage=total_usage(first.usage, again.usage),
            calls=first.calls + again.calls,
        )

    def _final_choice(self, case: Case) -> Choice:
        """Return the choice with its records; those of models that were not needed have their mean cost."""
        choice = case.choice or Choice()
        if case.narrowed.candidates and any(each not in self._flows for each in choice.chosen_ids):
            choice = self._recall.best(case)  # the flow left the registry while a model thought
        records = _records(case)
        counted = [each.usage for each in records if each.usage is not None]
        usage = reduce(total_usage, counted, None)
        asked = {each.name for each in records}
        skipped: list[StageRecord] = []
        for stage in self._models:
            if stage.costs.name not in asked and (stage.takes(case) or stage.costs.calls):
                skipped.append(stage.costs.skipped())
        notes = choice.notes
        caveat = case.narrowed.caveat
        if caveat and self.policy.max_error is not None:  # without a budget, confidence decides nothing
            notes = (caveat, *notes)
        if case.has_several and case.chat is None and len(choice.chosen_ids) == 1 and not case.known:
            notes = (*notes, _ONE_OF_THEM)
        is_sure = any(each.is_sure for each in case.verdicts)
        return replace(choice, usage=usage, notes=notes, stages=(*records, *skipped), is_sure=is_sure)


def _differs(case: Case, verdict: Verdict) -> bool:
    """Whether a model chose something else than what recall, taught by a log, is sure of."""
    first = next(iter(case.narrowed.candidates), None)
    thresholds = case.narrowed.thresholds
    if first is None or thresholds is None or case.is_for_chat or case.request.goes_on:
        return False
    if first.confidence is None or first.confidence < thresholds.ask_again:
        return False
    if verdict.choice is None or verdict.outcome not in {"decided", "none"}:
        return False
    return verdict.choice.chosen_ids != (first.flow_id,)


def _records(case: Case) -> tuple[StageRecord, ...]:
    """Return one record a stage, in order; a later one of the same stage replaces the earlier."""
    records: dict[StageName, StageRecord] = {}
    for verdict in case.verdicts:
        for record in (*verdict.before, verdict.record):
            if record.name != "user" or record.why:
                records[record.name] = record
    return tuple(records.values())


def warn_of(unresolved: Sequence[str], candidates: Sequence[Candidate], live: Container[str]) -> None:
    """Log each id that was chosen, or ranked first, and cannot run."""
    offered = {candidate.flow_id for candidate in candidates}
    for flow_id in unresolved:
        if flow_id in offered:
            why = "in the index but not in the registry; run sync_registry"
        else:
            why = "registered but not offered" if flow_id in live else "unknown"
        _log.warning("flow_id=<%s> | flow is not run: %s", in_log(flow_id), why)
