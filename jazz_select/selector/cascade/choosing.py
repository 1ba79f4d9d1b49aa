"""Who chooses among candidates: stage after stage, until one is sure enough; what each of them made of it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from time import perf_counter

from jazz_select.chat.exchange import ChatReply, total_usage
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.asked import is_several
from jazz_select.selector.cascade.asking import (
    BESIDE,
    FEWEST,
    MOST,
    NO_QUESTION,
    again,
    in_question,
    is_courtesy,
    named_in,
    question_in,
    question_of,
)
from jazz_select.selector.cascade.budget import NONE, SPREAD, Budget, at_most, together
from jazz_select.selector.cascade.calibration import Calibration
from jazz_select.selector.cascade.deciding import Deciding, Said, share_of
from jazz_select.selector.cascade.learning import Labelled, calibrated
from jazz_select.selector.cascade.spared import Costs
from jazz_select.selector.choice import UNASKED, Choice, ModelChoice, PlainChoice, Verdict, problem_in, top
from jazz_select.selector.retrieval import CandidateSet, Request, SelectRequest, candidate_of
from jazz_select.stages import StageName, StageOutcome, StageRecord, UserQuestion, likely
from jazz_select.text import in_log, in_one_line
from jazz_select.threads import Deadline
from jazz_select.values import Candidate, Reason, Tier

_log = logging.getLogger(__name__)
_USUAL_ERROR = 0.02
"""How many answers of a decision model may be wrong where a chat model comes after it, and nobody says."""
_ROUNDING = 1e-9
"""By how much what is computed in two ways may differ."""
_LIKELY = 0.5
"""P(the request is one for a flow) from which on it is asked about what a model finds nothing for."""
_OVER = "no stage was sure enough, and none is left: the likeliest is taken, outside of the error budget"
_UNBOUND = "no stage was sure enough, and none is left: the likeliest is taken; no error budget is set (max_error)"
_NOTHING = "no stage was sure enough, and none is left: nothing is taken, since it is likelier that no flow fits"
_NOT_ASKED = "it is unlikely that any flow fits, so the user is not asked which, and nothing is taken"
_COURTESY = "it is thanks or a greeting, so the user is not asked which, and nothing is taken"
_ONE_OF_THEM = "several wishes may be in it, and one flow is chosen: what else is wanted is not answered"
_NOT_ITS = "and what is said is the chat model's to read: it may be no request for this"
_MANY = "several wishes may be in it, and one flow would answer one of them"
_LATE = "asked once the chat model had failed, for what is likeliest"
_LIKELIEST = "taken is what recall and the decision model together find likeliest"
_FALLBACKS = (Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """A request on its way through the stages: what each made of it so far, and what is known by now."""

    request: Request
    narrowed: CandidateSet
    scoped: bool
    """Whether "none" is an answer."""
    many: bool = False
    """Whether several wishes may be in it, and there is a chat model to hear them all."""
    in_vain: bool = False
    """Whether the decision model was not asked, since it could not have decided."""
    records: tuple[StageRecord, ...] = ()
    chances: Mapping[str, float] | None = None
    """P(each is right), by flow id, once a decision model was asked."""
    best: tuple[str, float] | None = None
    """What the decision model would choose, and P(that is right), where it is not sure enough."""
    said: Said | None = None

    def told(self, record: StageRecord) -> "_Left":
        return replace(self, records=(*self.records, record))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A request as it is read once it is known what it answers.

    Attributes:
        request: With what was asked for before.
        answers: What it decides, and the question to which it is the answer; None of a request like any other.
        notes: What there is to say of it.
    """

    request: Request
    answers: tuple[Choice, UserQuestion] | None = None
    notes: tuple[str, ...] = ()


class Choosing:
    """Chooses for one selector."""

    def __init__(
        self,
        flows: Mapping[str, BaseFlow],
        plain: PlainChoice,
        budget: Budget,
        *,
        decider: Deciding | None,
        ask_user: bool,
        timeout_s: float | None,
    ) -> None:
        """Take whom to ask, and when nobody need be."""
        self.budget = budget
        self._flows = flows
        self._plain = plain
        self._settling = plain.settling
        self._model = plain.model
        self._decider = decider
        self._ask_user = ask_user
        self._timeout_s = timeout_s
        self._costs = Costs()

    async def choose(self, request: Request, narrowed: CandidateSet, *, recall_s: float, ask: bool = True) -> Choice:
        """Who is chosen; where nobody is to be asked (`ask=False`), no model is (reason `unasked`)."""
        scoped = self._settling.on_empty == "none" or request.within
        many = self._model is not None and len(narrowed.candidates) > 1 and is_several(request.query)
        left = _Left(request=request, narrowed=narrowed, scoped=scoped, many=many)
        choice, left = self._by_recall(left, recall_s)
        if choice is None and not ask and (self._decider is not None or self._model is not None):
            choice = UNASKED
        deadline = Deadline.after(self._timeout_s)
        if choice is None and self._decider is not None:
            choice, left = await self._by_decider(self._decider, left, deadline)
        if choice is None and self._model is not None:
            choice, left = await self._by_chat(self._model, left, deadline)
        elif choice is None:
            choice = self._last(left)
        choice, left = self._by_user(choice, left)
        if self._model is None and len(choice.verdict.ids) == 1 and is_several(request.query):
            choice = replace(choice, notes=(*choice.notes, _ONE_OF_THEM))
        spared = () if choice is UNASKED else self._never_asked(left.records)
        answer = replace(choice.answer, usage=reduce(total_usage, (each.usage for each in left.records), None))
        return replace(choice, answer=answer, stages=self._costs.recorded(left.records, spared=spared))

    async def calibrate(self, cases: Sequence[Labelled]) -> Calibration:
        """Learn from labelled requests how sure the stages are, and go by it from now on."""
        learned = await calibrated(cases, self._decider, timeout_s=self._timeout_s)
        self.budget = replace(self.budget, calibration=learned)
        return learned

    def heard(self, asked: SelectRequest, request: Request) -> Heard:
        """What is said in answer to the question of an earlier decision."""
        question = question_in(asked.asked)
        if question is None:
            return Heard(request=request, notes=(NO_QUESTION,))
        choice = self.answered(request.query, question, only=asked.only)
        if choice is not None:
            return Heard(request=request, answers=(choice, question))
        return Heard(request=request.after(question.request))

    def answered(self, answer: str, question: UserQuestion, *, only: Collection[str] | None = None) -> Choice | None:
        """What a user's answer decides, `only` among these ids; None where it names none of those asked about.

        What is to the question, and names no one of them, is asked about once more.
        """
        option = named_in(answer, question.options)
        if option is None:
            if (repeated := self._repeated(question, answer)) is None:
                return None
            record = StageRecord(name="user", outcome="passed", why="the answer names no one of them")
            return Choice(verdict=Verdict(tier=Tier.GUIDED, reason=Reason.ASK), stages=(record,), question=repeated)
        if option is False:
            record = StageRecord(name="user", outcome="none", why="none of them is meant")
            return Choice(verdict=Verdict(tier=Tier.OPEN, reason=Reason.NONE), stages=(record,))
        record = StageRecord(name="user", outcome="decided", why="named by the answer")
        if option.flow_id not in self._flows or (only is not None and option.flow_id not in only):
            verdict = Verdict(tier=Tier.OPEN, reason=Reason.NONE, unresolved=(option.flow_id,))
        else:
            verdict = Verdict(tier=Tier.DETERMINISTIC, reason=Reason.USER, ids=(option.flow_id,))
        return Choice(verdict=verdict, stages=(record,))

    def _repeated(self, question: UserQuestion, answer: str) -> UserQuestion | None:
        """The question once more, in the words of the flows as they are: what came back may say anything."""
        live = [candidate_of(self._flows[each.flow_id]) for each in question.options if each.flow_id in self._flows]
        more = question.text.endswith(BESIDE)
        whole = question_of(live, self._flows, question.request, more=more)
        if whole is None or len(live) < len(question.options):
            return None
        return again(replace(whole, again=question.again), answer)

    def _never_asked(self, records: Sequence[StageRecord]) -> list[StageName]:
        """The models that come after the last stage that was asked."""
        there: list[tuple[StageName, object]] = [("decider", self._decider), ("chat", self._model)]
        asked = {each.name for each in records}
        return [name for name, stage in there if stage is not None and name not in asked]

    # --- recall ----------------------------------------------------------------

    def _by_recall(self, left: _Left, took_s: float) -> tuple[Choice | None, _Left]:
        """What recall is sure enough of, or says that nothing fits."""
        request, narrowed = left.request, left.narrowed
        if narrowed.reread:
            left = left.told(StageRecord(name="recall", outcome="passed", why=narrowed.recalled_by.partition(": ")[2]))
        name: StageName = "transformer" if narrowed.reread else "recall"
        confidence = self.budget.sureness(narrowed, scoped=left.scoped)

        def told(outcome: StageOutcome, why: str) -> _Left:
            return left.told(StageRecord(name=name, outcome=outcome, why=why, confidence=confidence, took_s=took_s))

        if request.goes_on and self._model is not None and not request.blank:
            return None, told("passed", "the conversation has flows under way, or a question that waits")
        known = self._plain.known(request, narrowed)
        if not known.candidates or self._settling.abstains(known.in_scope) or (request.blank and known.candidates > 1):
            choice = self._plain.settled(request, narrowed)
            return choice, told("none", "there is nothing to choose from" if not known.candidates else "nothing fits")
        if left.many:
            return None, told("passed", _MANY)
        first = narrowed.candidates[0]
        allowed = self.budget.allowed(first.flow_id)
        lone = known.candidates == 1 and (not self._others or (allowed is None and confidence is None))
        if allowed is None or lone:
            choice = self._plain.settled(request, narrowed)
            if choice is not None and choice.verdict.reason is Reason.SEMANTIC and self._others:
                choice = None
            why = "one candidate is left" if lone else "" if choice else "it has no error budget"
            return choice, told("decided" if choice else "passed", why)
        shared = self._decider is not None and not request.goes_on
        wanted = self.budget.wanted(narrowed, allowed, scoped=left.scoped, shared=shared)
        if why := self._why_passed(request, narrowed, confidence, wanted):
            return None, told("passed", why)
        verdict = top(narrowed.candidates, self._flows, Reason.CONFIDENT)
        return Choice(verdict=verdict), told("decided", f"{confidence:.3f} sure, and {wanted:.3f} is enough")

    def _why_passed(self, request: Request, narrowed: CandidateSet, confidence: float | None, wanted: float) -> str:
        """Why recall leaves the choice to others, where so sure an answer is wanted; empty where it need not."""
        if narrowed.candidates[0].flow_id not in self._flows:
            return "its first candidate is not in the registry"
        if confidence is None:
            return narrowed.caveat or "how sure it is is not known"
        if confidence < wanted:
            return f"{confidence:.3f} sure, and {wanted:.3f} is wanted"
        return "" if self._plain.may_begin(request, narrowed) else f"{confidence:.3f} sure, {_NOT_ITS}"

    def _live(self, narrowed: CandidateSet) -> list[Candidate]:
        """The candidates whose flow is in the registry."""
        return [each for each in narrowed.candidates if each.flow_id in self._flows]

    @property
    def _others(self) -> bool:
        """Whether anybody comes after recall."""
        return self._model is not None or self._decider is not None or self._ask_user

    # --- a decision model ------------------------------------------------------

    async def _by_decider(self, decider: Deciding, left: _Left, deadline: Deadline) -> tuple[Choice | None, _Left]:
        """What it is sure enough of, together with recall; passed over where it cannot be asked or believed."""
        request, narrowed = left.request, left.narrowed
        candidates = self._live(narrowed)
        if request.goes_on or request.blank or not candidates or left.many:
            why = _MANY if left.many else "there is nothing to decide"
            why = "a conversation is gone on with" if request.goes_on else why
            return None, left.told(StageRecord(name="decider", outcome="passed", why=why))
        if not any(request.may_begin(each.flow_id, None, narrowed.in_scope) for each in candidates):
            return None, left.told(StageRecord(name="decider", outcome="passed", why=_NOT_ITS))
        if self._model is not None and not self._ask_user and not self._may_decide(left, candidates):
            record = StageRecord(name="decider", outcome="passed", why="even a sure answer would not be enough")
            return None, replace(left.told(record), in_vain=True)
        left, record = await self._heard(decider, left, deadline)
        if left.chances is None or left.said is None:
            return None, left.told(record)
        return self._weighed(left, left.chances, left.said, record)

    async def _heard(self, decider: Deciding, left: _Left, deadline: Deadline) -> tuple[_Left, StageRecord]:
        """What it says, and what that comes to together with recall, where it can be asked and believed."""
        request, narrowed = left.request, left.narrowed
        candidates = self._live(narrowed)
        began = perf_counter()
        try:
            said = await decider.ask(request, candidates, share_of(deadline))
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            why = problem_in(error)
            _log.warning("error=<%s> | the decision model is passed over", in_log(why))
            return left, StageRecord(name="decider", outcome="failed", why=why, took_s=perf_counter() - began)
        took_s = perf_counter() - began
        chances = together(candidates, said.chances, in_scope=narrowed.in_scope, scoped=left.scoped)
        named = self._named(said)
        record = StageRecord(name="decider", outcome="passed", why=named, took_s=took_s, usage=said.usage, calls=1)
        return replace(left, chances=chances, said=said), record

    async def _heard_late(self, decider: Deciding, left: _Left, deadline: Deadline) -> _Left:
        """What it says all the same, where the chat model failed and there is time; told in the place of before."""
        left_s = share_of(deadline).left_s
        if left_s is not None and left_s <= 0:
            return left
        left, record = await self._heard(decider, left, deadline)
        record = replace(record, why=f"{_LATE}{': ' if record.why else ''}{record.why}")
        return replace(left, records=tuple(record if each.name == record.name else each for each in left.records))

    def _named(self, said: Said) -> str:
        """What it would choose if it were asked alone, and how sure it says it is."""
        name, chance = _vote(said)
        named = "says that none fits" if name == NONE else "names a flow that has left the registry"
        if name in self._flows:
            named = f"names {in_one_line(self._flows[name].name)}"
        return f"it {named}, {chance:.3f} sure by itself"

    def _may_decide(self, left: _Left, candidates: Sequence[Candidate]) -> bool:
        """Whether there is an answer with which recall and decision model together would be sure enough."""
        line = self.budget.calibration.of_decider(scoped=left.scoped)
        most = at_most(candidates, in_scope=left.narrowed.in_scope, scoped=left.scoped)
        options = ((each, own) for each, own in most.items() if left.scoped or each != NONE)
        return any(line(own) >= self._wanted(each) - _ROUNDING for each, own in options)

    def _weighed(
        self, left: _Left, chances: Mapping[str, float], said: Said, record: StageRecord
    ) -> tuple[Choice | None, _Left]:
        """Whether what is likeliest now is sure enough."""
        best = max((each for each in chances if left.scoped or each != NONE), key=chances.__getitem__)
        confidence = self.budget.calibration.of_decider(scoped=left.scoped)(chances[best])
        wanted, named = self._wanted(best), record.why
        record = replace(record, confidence=confidence)
        sure = f"{confidence:.3f} sure{' that none fits' if best == NONE else ''}"
        if best != NONE and best not in self._flows:
            return None, left.told(replace(record, why="what it would choose left the registry meanwhile"))
        if confidence < wanted:
            left = replace(left, best=(best, confidence))
            of = "" if best == NONE else f" of {in_one_line(self._flows[best].name)}"
            return None, left.told(replace(record, why=f"{named}; with recall {sure}{of}, and {wanted:.3f} is wanted"))
        if best != NONE and not left.request.may_begin(best, None, left.narrowed.in_scope):
            return None, left.told(replace(record, why=f"{sure}, {_NOT_ITS}"))
        outcome: StageOutcome = "none" if best == NONE else "decided"
        against = "" if _vote(said)[0] == best else f"{named}; with recall "
        record = replace(record, outcome=outcome, why=f"{against}{sure}, and {wanted:.3f} is enough")
        return self._decided(best, said), left.told(record)

    @staticmethod
    def _decided(best: str, said: Said, *notes: str) -> Choice:
        """What a decision model says is likeliest, as a choice: a flow, or `NONE` of them."""
        verdict = Verdict(tier=Tier.OPEN, reason=Reason.NONE)
        if best != NONE:
            verdict = Verdict(tier=Tier.GUIDED, reason=Reason.DECIDER, ids=(best,))
        return Choice(verdict=verdict, answer=ChatReply(model=said.model), notes=notes)

    # --- a chat model ----------------------------------------------------------

    async def _by_chat(self, model: ModelChoice, left: _Left, deadline: Deadline) -> tuple[Choice, _Left]:
        began = perf_counter()
        choice = await model.choose(left.request, left.narrowed.candidates, deadline)
        reason, answer = choice.verdict.reason, choice.answer
        record = StageRecord(
            name="chat", outcome="decided", took_s=perf_counter() - began, usage=answer.usage, calls=answer.attempts
        )
        if reason is Reason.FALLBACK_ERROR:
            record = replace(record, outcome="failed", why=choice.error)
        elif reason is Reason.FALLBACK_INVALID:
            record = replace(record, outcome="failed", why="its reply could not be used")
        elif reason in {Reason.NONE, Reason.FALLBACK_EMPTY}:
            record = replace(record, outcome="none")
        if left.in_vain and self._decider is not None and record.outcome == "failed":
            left = await self._heard_late(self._decider, left, deadline)
        if reason in _FALLBACKS and left.chances is not None:
            verdict = self._likeliest(left, choice.verdict)
            if verdict.ids != choice.verdict.ids:
                record = replace(record, why=f"{record.why}{'; ' if record.why else ''}{_LIKELIEST}")
            choice = replace(choice, verdict=verdict)
        return choice, left.told(record)

    def _likeliest(self, left: _Left, fallback: Verdict) -> Verdict:
        """The flow that recall and decision model together find likeliest, for the reason of what recall put first."""
        chances = left.chances or {}
        ranked = sorted(left.narrowed.candidates, key=lambda each: -chances.get(each.flow_id, 0.0))
        return top(ranked, self._flows, fallback.reason, unresolved=fallback.unresolved)

    def _last(self, left: _Left) -> Choice:
        """Where no stage may decide and there is no chat model: what is likeliest by all that is known.

        The rank is for what a model is to see first; how likely each is, its confidence says, where that is known.
        """
        if left.best is not None and left.said is not None:
            best, _ = left.best
            return self._decided(best, left.said, _NOTHING if best == NONE else self._beyond(best))
        single = len(left.narrowed.candidates) == 1
        reason = Reason.SINGLE if single else Reason.SEMANTIC
        likeliest = sorted(left.narrowed.candidates, key=lambda each: -(each.confidence or 0.0))
        verdict = top(likeliest, self._flows, reason)
        return Choice(verdict=verdict, notes=(self._beyond(*verdict.ids),))

    def _beyond(self, best: str = NONE) -> str:
        """What there is to note of taking this one all the same."""
        return _UNBOUND if self._allowed(best) is None else _OVER

    def _allowed(self, best: str) -> float | None:
        """How many such answers may be wrong; `NONE` is no flow, and has no budget of its own."""
        return self.budget.max_error if best == NONE else self.budget.allowed(best)

    def _wanted(self, best: str) -> float:
        """How sure recall and decision model together have to be of this."""
        allowed = self._allowed(best)
        return max(0.0, 1 - (_USUAL_ERROR if allowed is None else SPREAD * allowed))

    # --- the user --------------------------------------------------------------

    def _by_user(self, choice: Choice, left: _Left) -> tuple[Choice, _Left]:
        """A question in the place of a choice that nobody might make; nothing, where it is for no flow."""
        if not self._ask_user or left.request.goes_on or left.request.blank:
            return choice, left
        notes = tuple(each for each in choice.notes if each not in {_OVER, _UNBOUND, _NOTHING})
        if self._is_last(choice, left) and not self._may_fit(left):
            why = _COURTESY if is_courtesy(left.request.query) else _NOT_ASKED
            nothing = replace(choice, verdict=Verdict(tier=Tier.OPEN, reason=Reason.NONE), notes=(*notes, why))
            return nothing, left.told(StageRecord(name="user", outcome="passed", why=why))
        asked, more = self._in_question(choice, left)
        question = question_of(asked, self._flows, left.request.query, more=more)
        if question is None:
            return choice, left
        verdict = Verdict(tier=Tier.GUIDED, reason=Reason.ASK)
        beside = ", and it may be something else" if more else ""
        why = f"{len(question.options)} flows are left{beside}, and nobody else may decide"
        asking = replace(choice, verdict=verdict, question=question, notes=notes)
        return asking, left.told(StageRecord(name="user", outcome="passed", why=why))

    def _is_last(self, choice: Choice, left: _Left) -> bool:
        """Whether no stage decided, and there is no chat model that might have."""
        last = left.records[-1] if left.records else None
        unasked = choice.verdict.reason is Reason.UNASKED
        return last is not None and last.outcome in {"passed", "failed"} and self._model is None and not unasked

    def _may_fit(self, left: _Left) -> bool:
        """Whether one of the flows may be meant at all: else it is not asked which.

        A decision model that names a flow has read the request; recall, which doubts that any fits, has not.
        """
        if is_courtesy(left.request.query):
            return False
        if left.said is not None:
            named, chance = _vote(left.said)
            if named != NONE and chance >= _LIKELY:
                return True
            if left.scoped and left.best is not None:
                return left.best[0] != NONE
        return self._is_in_scope(left)

    @staticmethod
    def _is_in_scope(left: _Left) -> bool:
        scope = left.narrowed.in_scope
        return scope is None or likely(1.0, scope) >= _LIKELY

    def _in_question(self, choice: Choice, left: _Left) -> tuple[list[Candidate], bool]:
        """The flows to ask about, none where it is no question, and whether something else may as well be meant."""
        last = left.records[-1] if left.records else None
        verdict, candidates = choice.verdict, left.narrowed.candidates
        if last is None or verdict.called_off or verdict.confirmed:
            return [], False
        by_chat = last.name == "chat"
        if by_chat and verdict.reason is Reason.LLM:
            # of several wishes each may have its flow
            several = len(verdict.ids) < FEWEST or left.many
            return [] if several else [each for each in candidates if each.flow_id in verdict.ids], False
        if not (verdict.reason in {Reason.NONE, *_FALLBACKS} if by_chat else self._is_last(choice, left)):
            return [], False
        none = by_chat and last.outcome == "none"
        if not self._may_fit(left) or (none and not self._is_in_scope(left)):
            return [], False
        chances = left.chances
        if chances is None:
            chances = {each.flow_id: each.confidence for each in candidates if each.confidence is not None}
        live = self._live(left.narrowed)
        # Where one is named, and no flow is likelier still, there is something to ask though nothing comes near it.
        torn = left.best is not None and left.best[0] == NONE
        asked = in_question(live, chances, at_least=FEWEST if torn else 0)
        # Of many that are left where a chat model has read the request and found none, none is likely enough.
        return (asked, False) if none else (asked[:MOST], torn or len(asked) > MOST)


def _vote(said: Said) -> tuple[str, float]:
    """What a decision model names by itself, and how sure it says it is."""
    name = max(said.chances, key=said.chances.__getitem__)
    return name, said.chances[name]
