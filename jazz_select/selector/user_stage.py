"""The last stage: the user is asked which flow is meant, and the answer is read."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from jazz_select.consent import is_courtesy
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.asking import (
    FEWEST,
    MOST,
    NO_QUESTION,
    flow_question,
    in_question,
    named_in,
    question_in,
    repeat_question,
)
from jazz_select.selector.candidates_stage import Request, SelectRequest
from jazz_select.selector.chat_stage import FALLBACKS
from jazz_select.selector.decision_stage import NONE
from jazz_select.selector.policy import Policy
from jazz_select.selector.prompt import candidate_of
from jazz_select.selector.stage import LIKELY, Case, Choice, StageCosts, Verdict, likely_fits
from jazz_select.stages import StageRecord, UserQuestion
from jazz_select.values import Candidate, Reason, Tier

_UNLIKELY: Final = "it is unlikely that any flow fits, so the user is not asked which, and nothing is taken"
_COURTESY: Final = "it is thanks or a greeting, so the user is not asked which, and nothing is taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request once it is known whether it answers a question: then with the choice and the question."""

    request: Request
    answers: tuple[Choice, UserQuestion] | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class UserStage:
    """The user. A question is returned to the caller; the answer comes with a later request."""

    flows: Mapping[str, BaseFlow]
    policy: Policy
    costs: StageCosts = field(default_factory=lambda: StageCosts("user"))

    def takes(self, case: Case) -> bool:
        """Whether the policy lets the user be asked about this case."""
        if case.request.goes_on or case.request.blank:
            return False
        if self.policy.ask_user:
            return True
        if self.policy.on_error != "ask" or not case.verdicts:
            return False
        last = case.verdicts[-1]
        return last.stage == "chat" and last.outcome == "failed"

    async def run(self, case: Case) -> Verdict:
        """Replace a choice that no stage is sure of by a question, or by none if no flow is likely."""
        choice = case.choice
        if choice is None:
            return Verdict(stage="user", outcome="handed_on", why="there is nothing to choose from")
        if self._is_last(case) and not self._may_fit(case):
            why = _COURTESY if is_courtesy(case.request.query) else _UNLIKELY
            nothing = _without_flows(choice, Tier.OPEN, Reason.NONE, notes=(*_model_notes(case), why))
            return Verdict(stage="user", outcome="handed_on", choice=nothing, why=why)
        candidates, more = self._in_question(case, choice)
        question = flow_question(candidates, self.flows, case.request.query, more=more)
        if question is None:
            return Verdict(stage="user", outcome="handed_on", why="")
        beside = ", and it may be something else" if more else ""
        why = f"{len(question.options)} flows are left{beside}, and nobody else may decide"
        asking = _without_flows(choice, Tier.GUIDED, Reason.ASK, notes=_model_notes(case))
        return Verdict(stage="user", outcome="handed_on", choice=replace(asking, question=question), why=why)

    @staticmethod
    def _is_last(case: Case) -> bool:
        """Whether no model decided, and none is left."""
        return case.chat is None and case.verdicts[-1].outcome in {"handed_on", "failed"}

    def _may_fit(self, case: Case) -> bool:
        """Whether some flow is likely enough to ask the user which.

        A decision model that names a flow outweighs recall's doubt: it has read the request.
        """
        if is_courtesy(case.request.query):
            return False
        if case.beliefs is not None:
            named, chance = case.beliefs.vote
            if named != NONE and chance >= LIKELY:
                return True
            if case.may_be_none and case.beliefs.best is not None:
                return case.beliefs.best[0] != NONE
        return likely_fits(case.narrowed)

    def _in_question(self, case: Case, choice: Choice) -> tuple[list[Candidate], bool]:
        """Return the flows to ask about, empty if there is no question, and whether it may be something else."""
        candidates, chosen = case.narrowed.candidates, choice.chosen_ids
        if choice.called_off or choice.confirmed:
            return [], False
        is_by_chat = case.verdicts[-1].stage == "chat"
        if is_by_chat and choice.reason is Reason.LLM:
            is_settled = len(chosen) < FEWEST or case.is_for_chat  # several wishes may each have their flow
            return [] if is_settled else [each for each in candidates if each.flow_id in chosen], False
        is_open = choice.reason in {Reason.NONE, *FALLBACKS} if is_by_chat else self._is_last(case)
        if not is_open:
            return [], False
        none = is_by_chat and case.verdicts[-1].outcome == "none"
        if not self._may_fit(case) or (none and not likely_fits(case.narrowed)):
            return [], False
        chances: Mapping[str, float]
        if case.beliefs is None:
            chances = {each.flow_id: each.confidence for each in candidates if each.confidence is not None}
        else:
            chances = case.beliefs.chances
        live = [each for each in candidates if each.flow_id in self.flows]
        # If the decision model says "none" without being sure, the user is asked even about one flow.
        best = None if case.beliefs is None else case.beliefs.best
        torn = best is not None and best[0] == NONE
        asked = in_question(live, chances, at_least=FEWEST if torn else 0)
        # If a chat model read the request and found none, a long list has no likely flow.
        return (asked, False) if none else (asked[:MOST], torn or len(asked) > MOST)

    # --- the answer --------------------------------------------------------------

    def read_request(self, asked: SelectRequest, request: Request) -> ReadRequest:
        """Read a request that may answer the question of an earlier decision."""
        question = question_in(asked.asked)
        if question is None:
            return ReadRequest(request=request, notes=(NO_QUESTION,))
        choice = self.choice_of_answer(request.query, question, only=asked.only)
        if choice is not None:
            return ReadRequest(request=request, answers=(choice, question))
        return ReadRequest(request=request.with_earlier(question.request))

    def choice_of_answer(
        self, answer: str, question: UserQuestion, *, only: Collection[str] | None = None
    ) -> Choice | None:
        """Return the choice that a user's answer makes; None if it does not answer the question.

        Only flows among `only` are chosen. An answer that names no single option gets the question once more.
        """
        option = named_in(answer, question.options)
        if option is None:
            repeated = self._repeat_question(question, answer)
            if repeated is None:
                return None
            record = StageRecord(name="user", outcome="handed_on", why="the answer names no one of them")
            return Choice(tier=Tier.GUIDED, reason=Reason.ASK, stages=(record,), question=repeated)
        if option is False:
            return Choice(stages=(StageRecord(name="user", outcome="none", why="none of them is meant"),))
        stages = (StageRecord(name="user", outcome="decided", why="named by the answer"),)
        own = (option.flow_id,)
        if option.flow_id not in self.flows or (only is not None and option.flow_id not in only):
            return Choice(unresolved=own, stages=stages)
        return Choice(tier=Tier.DETERMINISTIC, reason=Reason.USER, chosen_ids=own, stages=stages)

    def _repeat_question(self, question: UserQuestion, answer: str) -> UserQuestion | None:
        """Return the question once more, with the registry's texts: the one sent back is not trusted."""
        live = [candidate_of(self.flows[each.flow_id]) for each in question.options if each.flow_id in self.flows]
        whole = flow_question(live, self.flows, question.request, more=question.more)
        if whole is None or len(live) < len(question.options):
            return None
        return repeat_question(replace(whole, again=question.again), answer)


def _model_notes(case: Case) -> tuple[str, ...]:
    """Return the notes of a chat model's choice; those of an unsure choice are moot once the user is asked."""
    last = case.verdicts[-1]
    if last.stage != "chat" or last.choice is None:
        return ()
    return last.choice.notes


def _without_flows(choice: Choice, tier: Tier, reason: Reason, *, notes: tuple[str, ...]) -> Choice:
    nothing: dict[str, Mapping[str, Any]] = {}
    emptied = replace(choice, chosen_ids=(), unresolved=(), values=nothing, unclear=nothing)
    return replace(emptied, tier=tier, reason=reason, notes=notes)
