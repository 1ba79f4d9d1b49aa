"""Who chooses among candidates: stage after stage, until one is sure enough; what each of them made of it."""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from jazz_select.chat.exchange import total_usage
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.asked import clauses
from jazz_select.selector.cascade.asking import FEWEST, in_question, named_in, question_of
from jazz_select.selector.cascade.budget import NONE, Budget, together
from jazz_select.selector.cascade.calibration import Calibration
from jazz_select.selector.cascade.deciding import Deciding, Said
from jazz_select.selector.cascade.learning import Labelled, calibrated
from jazz_select.selector.cascade.spared import Costs
from jazz_select.selector.choice import UNASKED, Choice, ModelChoice, PlainChoice, Verdict, problem_in, top
from jazz_select.selector.retrieval import CandidateSet, Request
from jazz_select.stages import StageName, StageOutcome, StageRecord, UserQuestion, likely
from jazz_select.text import in_log
from jazz_select.threads import Deadline
from jazz_select.values import Candidate, Reason, Tier

_log = logging.getLogger(__name__)
_USUAL_ERROR = 0.02
"""How many answers of a decision model may be wrong where a chat model comes after it, and nobody says."""
_LIKELY = 0.5
"""P(the request is one for a flow) from which on it is asked about what a model finds nothing for."""
_OVER = "no stage was sure enough, and none is left: the likeliest is taken, outside of the error budget"
_FALLBACKS = (Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Left:
    """A request on its way through the stages: what each made of it so far, and what is known by now."""

    request: Request
    narrowed: CandidateSet
    scoped: bool
    records: tuple[StageRecord, ...] = ()
    chances: Mapping[str, float] | None = None
    """P(each is right), by flow id, once a decision model was asked."""
    best: tuple[str, float] | None = None
    """What the decision model would choose, and P(that is right), where it is not sure enough."""
    said: Said | None = None

    def told(self, record: StageRecord) -> "_Left":
        return replace(self, records=(*self.records, record))


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
        scoped = self._settling.on_empty == "none" or request.situation is not None
        left = _Left(request=request, narrowed=narrowed, scoped=scoped)
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
        spared = () if choice is UNASKED else self._never_asked(left.records)
        return replace(choice, stages=self._costs.recorded(left.records, spared=spared))

    async def calibrate(self, cases: Sequence[Labelled]) -> Calibration:
        """Learn from labelled requests how sure the stages are, and go by it from now on."""
        scoped = self._settling.on_empty == "none"
        learned = await calibrated(cases, self._decider, scoped=scoped, timeout_s=self._timeout_s)
        self.budget = replace(self.budget, calibration=learned)
        return learned

    def answered(self, answer: str, question: UserQuestion, *, only: Collection[str] | None = None) -> Choice | None:
        """What a user's answer decides, `only` among these ids; None where it names none of those asked about."""
        option = named_in(answer, question.options)
        if option is None:
            return None
        if option is False:
            record = StageRecord(name="user", outcome="none", why="none of them is meant")
            return Choice(verdict=Verdict(tier=Tier.OPEN, reason=Reason.NONE), stages=(record,))
        record = StageRecord(name="user", outcome="decided", why="named by the answer")
        if option.flow_id not in self._flows or (only is not None and option.flow_id not in only):
            verdict = Verdict(tier=Tier.OPEN, reason=Reason.NONE, unresolved=(option.flow_id,))
        else:
            verdict = Verdict(tier=Tier.DETERMINISTIC, reason=Reason.USER, ids=(option.flow_id,))
        return Choice(verdict=verdict, stages=(record,))

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
        first = narrowed.candidates[0]
        allowed = self.budget.allowed(first.flow_id)
        lone = known.candidates == 1 and (confidence is None or not self._others)
        if allowed is None or lone:
            choice = self._plain.settled(request, narrowed)
            if choice is not None and choice.verdict.reason is Reason.SEMANTIC and self._others:
                choice = None
            why = "one candidate is left" if lone else "" if choice else "it has no error budget"
            return choice, told("decided" if choice else "passed", why)
        wanted = self.budget.wanted(narrowed, allowed, scoped=left.scoped)
        if confidence is None or not known.runs or confidence < wanted:
            unknown = narrowed.caveat or "how sure it is is not known"
            why = unknown if confidence is None else f"{confidence:.3f} sure, and {wanted:.3f} is wanted"
            return None, told("passed", why if known.runs else "its first candidate is not in the registry")
        verdict = top(narrowed.candidates, self._flows, Reason.CONFIDENT)
        return Choice(verdict=verdict), told("decided", f"{confidence:.3f} sure, and {wanted:.3f} is enough")

    @property
    def _others(self) -> bool:
        """Whether anybody comes after recall."""
        return self._model is not None or self._decider is not None or self._ask_user

    # --- a decision model ------------------------------------------------------

    async def _by_decider(self, decider: Deciding, left: _Left, deadline: Deadline) -> tuple[Choice | None, _Left]:
        """What it is sure enough of, together with recall; passed over where it cannot be asked or believed."""
        request, narrowed = left.request, left.narrowed
        candidates = [each for each in narrowed.candidates if each.flow_id in self._flows]
        if request.goes_on or request.blank or not candidates:
            why = "a conversation is gone on with" if request.goes_on else "there is nothing to decide"
            return None, left.told(StageRecord(name="decider", outcome="passed", why=why))
        began = perf_counter()
        try:
            said = await decider.ask(request, candidates, deadline)
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            why = problem_in(error)
            _log.warning("error=<%s> | the decision model is passed over", in_log(why))
            took_s = perf_counter() - began
            return None, left.told(StageRecord(name="decider", outcome="failed", why=why, took_s=took_s))
        took_s = perf_counter() - began
        record = StageRecord(name="decider", outcome="passed", took_s=took_s, usage=said.usage, calls=1)
        chances = together(candidates, said.chances, in_scope=narrowed.in_scope, scoped=left.scoped)
        return self._weighed(replace(left, chances=chances, said=said), chances, said, record)

    def _weighed(
        self, left: _Left, chances: Mapping[str, float], said: Said, record: StageRecord
    ) -> tuple[Choice | None, _Left]:
        """Whether what is likeliest now is sure enough."""
        best = max(chances, key=chances.__getitem__)
        confidence = self.budget.calibration.decider(chances[best])
        record = replace(record, confidence=confidence)
        allowed = self.budget.max_error if best == NONE else self.budget.allowed(best)
        wanted = 1 - (_USUAL_ERROR if allowed is None else allowed)
        sure = f"{confidence:.3f} sure{' that none fits' if best == NONE else ''}"
        if best == NONE and not left.scoped:
            return None, left.told(replace(record, why=f'{sure}, and on_empty="top1" has no none'))
        if best != NONE and best not in self._flows:
            return None, left.told(replace(record, why="what it would choose left the registry meanwhile"))
        if confidence < wanted:
            left = replace(left, best=(best, confidence))
            return None, left.told(replace(record, why=f"{sure}, and {wanted:.3f} is wanted"))
        why = f"{sure}, and {wanted:.3f} is enough"
        if best == NONE:
            verdict = Verdict(tier=Tier.OPEN, reason=Reason.NONE)
            return self._decided(verdict, said), left.told(replace(record, outcome="none", why=why))
        verdict = Verdict(tier=Tier.GUIDED, reason=Reason.DECIDER, ids=(best,))
        return self._decided(verdict, said), left.told(replace(record, outcome="decided", why=why))

    @staticmethod
    def _decided(verdict: Verdict, said: Said, *notes: str) -> Choice:
        choice = Choice(verdict=verdict, notes=notes)
        return replace(choice, answer=replace(choice.answer, usage=said.usage, model=said.model))

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
        if left.said is not None:
            answer = replace(answer, usage=total_usage(left.said.usage, answer.usage))
        return replace(choice, answer=answer), left.told(record)

    def _last(self, left: _Left) -> Choice:
        """Where no stage may decide and there is no chat model: what is likeliest by all that is known."""
        if left.best is not None and left.said is not None:
            best, _ = left.best
            if best == NONE:
                verdict = Verdict(tier=Tier.OPEN, reason=Reason.NONE)
            else:
                verdict = Verdict(tier=Tier.GUIDED, reason=Reason.DECIDER, ids=(best,))
            return self._decided(verdict, left.said, _OVER)
        single = len(left.narrowed.candidates) == 1
        reason = Reason.SINGLE if single else Reason.SEMANTIC
        return Choice(verdict=top(left.narrowed.candidates, self._flows, reason), notes=(_OVER,))

    # --- the user --------------------------------------------------------------

    def _by_user(self, choice: Choice, left: _Left) -> tuple[Choice, _Left]:
        """A question in the place of a choice that nobody might make, where two or three flows are left."""
        if not self._ask_user or left.request.goes_on or left.request.blank:
            return choice, left
        question = self._question(choice, left)
        if question is None:
            return choice, left
        verdict = Verdict(tier=Tier.GUIDED, reason=Reason.ASK)
        why = f"{len(question.options)} flows are left, and nobody else may decide"
        notes = tuple(each for each in choice.notes if each != _OVER)
        asked = replace(choice, verdict=verdict, question=question, notes=notes)
        return asked, left.told(StageRecord(name="user", outcome="passed", why=why))

    def _question(self, choice: Choice, left: _Left) -> UserQuestion | None:
        last = left.records[-1] if left.records else None
        verdict, candidates = choice.verdict, left.narrowed.candidates
        if last is None or verdict.called_off or verdict.confirmed:
            return None
        chances = left.chances
        if chances is None:
            chances = {each.flow_id: each.confidence for each in candidates if each.confidence is not None}
        asked: Sequence[Candidate]
        if last.name == "chat" and verdict.reason is Reason.LLM:
            if len(verdict.ids) < FEWEST or clauses(left.request.query):
                return None  # of several wishes each may have its flow
            asked = [each for each in candidates if each.flow_id in verdict.ids]
        elif last.name == "chat" and verdict.reason in {Reason.NONE, *_FALLBACKS}:
            scope = left.narrowed.in_scope
            if last.outcome == "none" and scope is not None and likely(1.0, scope) < _LIKELY:
                return None
            asked = in_question(candidates, chances)
        elif last.outcome in {"passed", "failed"} and self._model is None and verdict.reason is not Reason.UNASKED:
            if left.best is not None and left.best[0] == NONE:
                return None
            asked = in_question(candidates, chances)
        else:
            return None
        return question_of(asked, self._flows, left.request.query)
