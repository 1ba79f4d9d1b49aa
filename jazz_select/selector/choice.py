"""The choice among candidates and its reason: by recall, a decision model, a chat model or the user, in this order."""

import logging
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, reduce
from heapq import nlargest
from time import perf_counter
from typing import Any, Final

from jazz_select.chat.client import ChatClient, ChatReply, Inquiry, total_usage, why_unusable
from jazz_select.chat.decisions import DecisionClient
from jazz_select.consent import is_courtesy
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.requests import is_several
from jazz_select.selector.asking import (
    FEWEST,
    MOST,
    NO_QUESTION,
    again,
    flow_question,
    in_question,
    named_in,
    question_in,
)
from jazz_select.selector.calibration import (
    NONE,
    SPREAD,
    Budget,
    Calibration,
    Cascade,
    DeciderAnswer,
    Sample,
    ask_decider,
    calibrated,
    decider_deadline,
    posterior_bounds,
    posteriors,
)
from jazz_select.selector.candidates_stage import CandidateSet, Request, SelectRequest
from jazz_select.selector.prompt import Prompt, build_prompt, candidate_of, growing_prompt
from jazz_select.selector.reply import Reading, read_reply
from jazz_select.selector.selector_options import ModelOptions, OnEmpty
from jazz_select.stages import StageName, StageOutcome, StageRecord, Usage, UserQuestion, joint_probability
from jazz_select.text import describe_error, in_log, in_one_line
from jazz_select.threads import Deadline, in_daemon_thread
from jazz_select.values import Candidate, Decision, Reason, Tier

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")
BLANK = "nothing was asked: request and summaries are blank"
_MOST_EXAMPLES = 3
"""Maximum number of examples of each candidate in a prompt. More than three helped a model little."""
_LONG_LIST = 100
"""Number of candidates above which the prompt is built in a thread: each takes about 50 µs."""
_USUAL_ERROR = 0.02
"""Default share of wrong answers of a decision model that a chat model follows."""
_ROUNDING = 1e-9
_LIKELY = 0.5
"""Smallest P(some flow fits) at which the user is asked although a model found no flow."""
_OVER = "no stage was sure enough, and none is left: the likeliest is taken, outside of the error budget"
_UNBOUND = "no stage was sure enough, and none is left: the likeliest is taken; no error budget is set (max_error)"
_NOTHING = "no stage was sure enough, and none is left: nothing is taken, since it is likelier that no flow fits"
_NOT_ASKED = "it is unlikely that any flow fits, so the user is not asked which, and nothing is taken"
_COURTESY = "it is thanks or a greeting, so the user is not asked which, and nothing is taken"
_ONE_OF_THEM = "several wishes may be in it, and one flow is chosen: what else is wanted is not answered"
_UNREAD: Final = (Reason.SINGLE, Reason.CONFIDENT)
"""Reasons without a model. In a conversation, the chat model reads the request before a flow begins."""
_NOT_ITS = "and what is said is the chat model's to read: it may be no request for this"
_MANY = "several wishes may be in it, and one flow would answer one of them"
_LATE = "asked once the chat model had failed, for what is likeliest"
_LIKELIEST = "taken is what recall and the decision model together find likeliest"
_FALLBACKS = (Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Decision):
    """A decision before the guards of the chosen flows are checked again."""

    tier: Tier = Tier.OPEN
    reason: Reason = Reason.NONE
    unresolved: tuple[str, ...] = ()
    """Ids that were chosen but cannot run: stale, not offered, or unknown."""


UNASKED: Final = Choice(tier=Tier.GUIDED, reason=Reason.UNASKED)
"""The choice for a request that needs a model, where models may not be asked."""


def top(
    candidates: Sequence[Candidate], live: Container[str], reason: Reason, *, unresolved: tuple[str, ...] = ()
) -> Choice:
    """Return the best live candidate, chosen for `reason`. Stale candidates ranked above it are unresolved."""
    stale: list[str] = []
    for candidate in candidates:
        if candidate.flow_id in live:
            missed = _once(*unresolved, *stale)
            return Choice(tier=Tier.DETERMINISTIC, reason=reason, chosen_ids=(candidate.flow_id,), unresolved=missed)
        stale.append(candidate.flow_id)
    return Choice(unresolved=_once(*unresolved, *stale))


def _without_flows(choice: Choice, tier: Tier, reason: Reason, *, notes: tuple[str, ...]) -> Choice:
    nothing: dict[str, Mapping[str, Any]] = {}
    emptied = replace(choice, chosen_ids=(), unresolved=(), values=nothing, unclear=nothing)
    return replace(emptied, tier=tier, reason=reason, notes=notes)


def judge_reply(
    reading: Reading,
    candidates: Sequence[Candidate],
    live: Container[str],
    *,
    on_empty: OnEmpty,
    begun: Collection[str] = (),
    confirms: bool = False,
) -> Choice:
    """Return the choice that a model's reply leads to. Only candidates that are offered and live are chosen.

    Only flows that have `begun` can be called off. `confirms`: a question waits for a yes or a no.
    """
    if reading.status == "empty":
        return Choice(answer=reading.answer) if on_empty == "none" else top(candidates, live, Reason.FALLBACK_EMPTY)
    offered = {candidate.flow_id for candidate in candidates}
    runnable = tuple(each for each in reading.ids if each in offered and each in live)
    off = tuple(each for each in reading.off if each in begun)
    unresolved = _once(
        *(each for each in reading.ids if each not in runnable), *(each for each in reading.off if each not in off)
    )
    confirmed = reading.confirm if confirms else ""
    if not set(off) & set(runnable):  # a reply that cancels and continues one flow contradicts itself
        values, unclear = (_by_flow(each, offered, runnable or begun) for each in (reading.values, reading.unclear))
        if runnable or off or confirmed or values or unclear:
            return Choice(
                tier=Tier.GUIDED,
                reason=Reason.LLM,
                chosen_ids=runnable,
                unresolved=unresolved,
                called_off=off,
                confirmed=confirmed,
                quote=reading.quote if confirmed else "",
                values=values,
                unclear=unclear,
            )
    return top(candidates, live, Reason.FALLBACK_INVALID, unresolved=unresolved)


def _by_flow(
    inputs: Mapping[str, Any], offered: Container[str], meant: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the inputs of each flow. Inputs without a flow belong to every flow of `meant`."""
    shared = {name: value for name, value in inputs.items() if name not in offered}
    own = {flow_id: values for flow_id, values in inputs.items() if flow_id in offered}
    merged = {flow_id: {**shared, **own.get(flow_id, {})} for flow_id in _once(*meant, *own)}
    return {flow_id: values for flow_id, values in merged.items() if values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """The facts of a recalled request that decide whether a model is needed.

    `confidence` is P(the first candidate is right), `in_scope` P(some flow is right), where they are known; `sized`:
    recall chose the number of candidates; `runs`: the first one is live; `blank`: request and summaries are.
    """

    candidates: int = 0
    confidence: float | None = None
    in_scope: float | None = None
    sized: bool = False
    runs: bool = True
    blank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """The rules for settling a request without a model; the options of `FlowSelector` of the same names."""

    asks: bool = True
    """Whether there is a chat model or a decision model."""
    on_empty: OnEmpty = "top1"
    coverage: float = 0.98
    cascade: Cascade = field(default_factory=Cascade)

    def reason(self, known: Recalled) -> Reason | None:
        """Return the reason to settle without a model: `none`, `single`, `semantic` or `confident`; else None."""
        if self.abstains(known.in_scope) or (known.blank and known.candidates > 1):
            return Reason.NONE
        if not self.asks or (known.candidates <= 1 and not self.doubts(known)):
            return Reason.SEMANTIC if known.candidates > 1 else Reason.SINGLE
        sure = self.sureness(known)
        skip_above = self.cascade.skip_llm_above
        if sure is not None and skip_above is not None and sure >= skip_above:
            return Reason.CONFIDENT
        return None

    def abstains(self, in_scope: float | None) -> bool:
        """Whether P(some flow fits) is below `abstain_below`."""
        below = self.cascade.abstain_below
        return below is not None and in_scope is not None and in_scope < below

    def sureness(self, known: Recalled) -> float | None:
        """Return the value compared with `skip_llm_above`; None if unknown, or if the first candidate cannot run.

        Confidence assumes that some flow fits. A model that may answer "none" is skipped only if that is as sure.
        """
        if known.confidence is None or not known.candidates or not known.runs:
            return None
        if self.on_empty == "none" and known.in_scope is not None:
            return min(known.confidence, known.in_scope)
        return known.confidence

    def doubts(self, known: Recalled) -> bool:
        """Whether a model must check that the only candidate fits.

        Recall that keeps one candidate is sure which flow is best, not that any fits. A model that may answer "none"
        is asked unless P(some flow fits) reaches `coverage`.
        """
        if self.on_empty != "none" or not (known.sized and known.candidates):
            return False
        return known.in_scope is None or known.in_scope < self.coverage


def _once(*ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """The choice of one chat model among the candidates."""

    client: ChatClient
    flows: Mapping[str, BaseFlow]
    on_empty: OnEmpty = "top1"
    options: ModelOptions = field(default_factory=ModelOptions)

    async def choose(self, request: Request, candidates: Sequence[Candidate], deadline: Deadline) -> Choice:
        """Ask the model within the deadline. If the model fails, choose the top candidate."""
        begun = request.under_way
        known = {each.flow_id: each for each in candidates}
        rest = (each for each in candidates if each.flow_id not in begun)
        shown = (*(known[each] for each in begun if each in known), *rest)
        built = cache(lambda: self._prompt(request, shown))
        # In a conversation "none" is a valid answer: no flow begins.
        on_empty = self.on_empty if request.situation is None else "none"

        situation = request.situation
        confirms = situation is not None and bool(situation.confirms)

        def read(answer: ChatReply) -> tuple[Reading, Choice]:
            reading = read_reply(answer.text, built().order, of_message=built().reads)
            return reading, judge_reply(
                reading, candidates, self.flows, on_empty=on_empty, begun=begun, confirms=confirms
            )

        offered = {each.flow_id for each in shown}

        def problem(answer: ChatReply, parsed: tuple[Reading, Choice]) -> str:
            reading, choice = parsed
            if choice.reason is not Reason.FALLBACK_INVALID:
                return ""
            names = {each.flow_id: each.flow_name for each in built().order if each.flow_id not in offered}
            return why_unusable(answer, [names.get(each, each) for each in reading.ids], offered)

        try:
            if len(shown) > _LONG_LIST:
                await in_daemon_thread(built, name="jazz-select-prompt")
            if situation is not None and situation.growing is not None:
                situation.growing.keep(built().shown or ())
            answer, (reading, choice) = await self.client.ask_until_usable(
                lambda: Inquiry(built().messages, built().schema, built().wanted),
                deadline,
                read=read,
                problem=problem,
                max_reasks=self.options.max_reasks,
            )
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            message = describe_error(error)
            _log.warning("error=<%s> | the model failed, falling back to the top candidate", in_log(message))
            fallback = top(candidates, self.flows, Reason.FALLBACK_ERROR)
            return replace(fallback, error=message, notes=built().notes)
        return replace(
            choice,
            raw_reply=answer.raw,
            parsed_ids=reading.ids,
            usage=answer.usage,
            model=answer.model,
            attempts=answer.attempts,
            notes=(*built().notes, *answer.notes),
        )

    def _prompt(self, request: Request, shown: Sequence[Candidate]) -> Prompt:
        query, situation, tokens = request.query, request.situation, self.options.prompt_tokens
        examples = self._examples(request, shown)
        if situation is not None and situation.growing is not None:
            return growing_prompt(query, shown, situation, flows=self.flows, examples=examples, tokens=tokens)
        return build_prompt(
            query,
            request.summaries,
            shown,
            examples=examples,
            tokens=tokens,
            structured=self.client.takes_schema,
            situation=situation,
        )

    def _examples(self, request: Request, shown: Sequence[Candidate]) -> Mapping[str, Sequence[str]]:
        """Return the examples of each flow that share the most words with the request."""
        wanted = _words(request.text)
        return {
            each.flow_id: nlargest(_MOST_EXAMPLES, flow.examples, key=lambda example: _overlap(wanted, example))
            for each in shown
            if (flow := self.flows.get(each.flow_id)) is not None
        }


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _overlap(wanted: frozenset[str], example: str) -> float:
    """Return the share of words in common (Jaccard)."""
    words = _words(example)
    return len(wanted & words) / len(wanted | words) if words else 0.0


def warn_of(unresolved: Sequence[str], candidates: Sequence[Candidate], live: Container[str]) -> None:
    """Log each id that was chosen, or ranked first, and cannot run."""
    offered = {candidate.flow_id for candidate in candidates}
    for flow_id in unresolved:
        if flow_id in offered:
            why = "in the index but not in the registry; run sync_registry"
        else:
            why = "registered but not offered" if flow_id in live else "unknown"
        _log.warning("flow_id=<%s> | flow is not run: %s", in_log(flow_id), why)


@dataclass(slots=True)
class _Spent:
    """Totals of one stage over its answered calls."""

    calls: int = 0
    took_s: float = 0.0
    usage: Usage | None = None
    counted: int = 0
    """Calls whose tokens were counted."""

    def add(self, record: StageRecord) -> None:
        self.calls += 1
        self.took_s += record.took_s
        self.usage = total_usage(self.usage, record.usage)
        self.counted += record.usage is not None

    def spared(self, name: StageName) -> StageRecord:
        """Return the record of a stage that was not needed, with its mean time and usage."""
        tokens = asdict(self.usage) if self.usage else {}
        mean = {each: round(count / self.counted) for each, count in tokens.items()}
        took_s = self.took_s / max(self.calls, 1)
        return StageRecord(name=name, outcome="spared", took_s=took_s, usage=Usage(**mean) if mean else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """A request on its way through the stages, with what is known so far."""

    request: Request
    narrowed: CandidateSet
    scoped: bool
    """Whether "none" is an answer."""
    many: bool = False
    """Whether it may hold several wishes, and there is a chat model to read them."""
    in_vain: bool = False
    """Whether the decision model was skipped since no answer of it could have decided."""
    records: tuple[StageRecord, ...] = ()
    chances: Mapping[str, float] | None = None
    """P(right) by flow id, once a decision model answered."""
    best: tuple[str, float] | None = None
    """The decision model's choice and P(it is right), where that is too low."""
    answer: DeciderAnswer | None = None

    def with_record(self, record: StageRecord) -> "_State":
        return replace(self, records=(*self.records, record))

    def passed(self, name: StageName, why: str) -> "_State":
        return self.with_record(StageRecord(name=name, outcome="passed", why=why))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A request once it is known whether it answers a question: then with the choice and the question."""

    request: Request
    answers: tuple[Choice, UserQuestion] | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Choosing:
    """Chooses for one selector, stage after stage, until one is sure enough."""

    flows: Mapping[str, BaseFlow]
    settling: Settling
    budget: Budget
    decider: DecisionClient | None
    model: ModelChoice | None
    ask_user: bool
    timeout_s: float | None
    _spent: dict[StageName, _Spent] = field(default_factory=dict[StageName, _Spent], init=False)

    async def choose(self, request: Request, narrowed: CandidateSet, *, recall_s: float, ask: bool = True) -> Choice:
        """Return the choice. With `ask=False` no model is asked: where one is needed, the reason is `unasked`."""
        reader = request.situation.reader if self.model is None and request.situation is not None else None
        sure = not request.goes_on and bool(narrowed.candidates) and self._may_begin(request, narrowed)
        if reader is not None and not sure:
            lent = ModelChoice(client=reader, flows=self.flows)
            lending = replace(self, model=lent, settling=replace(self.settling, asks=True))
            return await lending.choose(request, narrowed, recall_s=recall_s, ask=ask)
        cascades = self._cascades(narrowed.candidates)
        scoped = self.settling.on_empty == "none" or request.within
        several = is_several(request.query) if cascades or self.model is None else False
        many = several and self.model is not None and len(narrowed.candidates) > 1
        state = _State(request=request, narrowed=narrowed, scoped=scoped, many=many)
        choice, state = self._by_recall(state, recall_s) if cascades else (self._settled(request, narrowed), state)
        if choice is None and not ask and (self.decider is not None or self.model is not None):
            choice = UNASKED
        deadline = Deadline.after(self.timeout_s)
        if choice is None and self.decider is not None:
            choice, state = await self._by_decider(self.decider, state, deadline)
        if choice is None and self.model is not None:
            choice, state = await self._by_chat(self.model, state, deadline)
            if not cascades:
                return replace(choice, notes=(*self._caveat(narrowed), *choice.notes))
        elif choice is None:
            choice = self._last(state)
        if cascades:
            choice, state = self._by_user(choice, state)
        if several and self.model is None and len(choice.chosen_ids) == 1:
            choice = replace(choice, notes=(*choice.notes, _ONE_OF_THEM))
        if not cascades:
            return choice
        usage = reduce(total_usage, (each.usage for each in state.records), None)
        spared = () if choice is UNASKED else self._spared(state.records)
        return replace(choice, usage=usage, stages=(*state.records, *spared))

    def _cascades(self, candidates: Sequence[Candidate]) -> bool:
        if self.budget.max_error is not None or self.decider is not None or self.ask_user:
            return True
        flows = (self.flows.get(each.flow_id) for each in candidates)
        return any(flow is not None and flow.max_error is not None for flow in flows)

    async def calibrate(self, cases: Sequence[Sample]) -> Calibration:
        """Calibrate the stages by labelled requests, and use that from now on."""
        learned = await calibrated(cases, self.decider, timeout_s=self.timeout_s)
        self.budget = replace(self.budget, calibration=learned)
        return learned

    def read_request(self, asked: SelectRequest, request: Request) -> ReadRequest:
        """Read a request that may answer the question of an earlier decision."""
        question = question_in(asked.asked)
        if question is None:
            return ReadRequest(request=request, notes=(NO_QUESTION,))
        choice = self.answered(request.query, question, only=asked.only)
        if choice is not None:
            return ReadRequest(request=request, answers=(choice, question))
        return ReadRequest(request=request.after(question.request))

    def answered(self, answer: str, question: UserQuestion, *, only: Collection[str] | None = None) -> Choice | None:
        """Return the choice that a user's answer makes; None where it does not answer the question.

        Only flows among `only` are chosen. An answer that names no single option gets the question once more.
        """
        option = named_in(answer, question.options)
        if option is None:
            if (repeated := self._repeated(question, answer)) is None:
                return None
            record = StageRecord(name="user", outcome="passed", why="the answer names no one of them")
            return Choice(tier=Tier.GUIDED, reason=Reason.ASK, stages=(record,), question=repeated)
        if option is False:
            return Choice(stages=(StageRecord(name="user", outcome="none", why="none of them is meant"),))
        stages, own = (StageRecord(name="user", outcome="decided", why="named by the answer"),), (option.flow_id,)
        if option.flow_id not in self.flows or (only is not None and option.flow_id not in only):
            return Choice(unresolved=own, stages=stages)
        return Choice(tier=Tier.DETERMINISTIC, reason=Reason.USER, chosen_ids=own, stages=stages)

    def _repeated(self, question: UserQuestion, answer: str) -> UserQuestion | None:
        """Return the question once more, with the registry's texts: the one sent back is not trusted."""
        live = [candidate_of(self.flows[each.flow_id]) for each in question.options if each.flow_id in self.flows]
        whole = flow_question(live, self.flows, question.request, more=question.more)
        if whole is None or len(live) < len(question.options):
            return None
        return again(replace(whole, again=question.again), answer)

    def _spared(self, records: Sequence[StageRecord]) -> list[StageRecord]:
        """Return a record for each model that was not needed, with its mean cost."""
        for each in records:
            if each.calls:
                self._spent.setdefault(each.name, _Spent()).add(each)
        there: list[tuple[StageName, object]] = [("decider", self.decider), ("chat", self.model)]
        asked = {each.name for each in records}
        return [
            self._spent.get(name, _Spent()).spared(name)
            for name, stage in there
            if stage is not None and name not in asked
        ]

    # --- recall ----------------------------------------------------------------

    def _by_recall(self, state: _State, took_s: float) -> tuple[Choice | None, _State]:
        """Return recall's choice where it is sure enough, or sure that nothing fits; else None."""
        request, narrowed = state.request, state.narrowed
        if narrowed.reread:
            state = state.passed("recall", narrowed.recalled_by.partition(": ")[2])
        name: StageName = "transformer" if narrowed.reread else "recall"
        confidence = self.budget.sureness(narrowed, scoped=state.scoped)

        def recorded(outcome: StageOutcome, why: str) -> _State:
            return state.with_record(
                StageRecord(name=name, outcome=outcome, why=why, confidence=confidence, took_s=took_s)
            )

        if request.goes_on and self.model is not None and not request.blank:
            return None, recorded("passed", "the conversation has flows under way, or a question that waits")
        count = len(narrowed.candidates)
        if not count or self.settling.abstains(narrowed.in_scope) or (request.blank and count > 1):
            choice = self._settled(request, narrowed)
            return choice, recorded("none", "nothing fits" if count else "there is nothing to choose from")
        if state.many:
            return None, recorded("passed", _MANY)
        first = narrowed.candidates[0]
        allowed = self.budget.allowed(first.flow_id)
        lone = count == 1 and (not self._more_stages or (allowed is None and confidence is None))
        if allowed is None or lone:
            choice = self._settled(request, narrowed)
            if choice is not None and choice.reason is Reason.SEMANTIC and self._more_stages:
                choice = None
            why = "one candidate is left" if lone else "" if choice else "it has no error budget"
            return choice, recorded("decided" if choice else "passed", why)
        shared = self.decider is not None and not request.goes_on
        wanted = self.budget.wanted(narrowed, allowed, scoped=state.scoped, shared=shared)
        if why := self._why_passed(request, narrowed, confidence, wanted):
            return None, recorded("passed", why)
        choice = top(narrowed.candidates, self.flows, Reason.CONFIDENT)
        return choice, recorded("decided", f"{confidence:.3f} sure, and {wanted:.3f} is enough")

    def _why_passed(self, request: Request, narrowed: CandidateSet, confidence: float | None, wanted: float) -> str:
        """Return why recall may not decide; empty where it may."""
        if narrowed.candidates[0].flow_id not in self.flows:
            return "its first candidate is not in the registry"
        if confidence is None:
            return narrowed.caveat or "how sure it is is not known"
        if confidence < wanted:
            return f"{confidence:.3f} sure, and {wanted:.3f} is wanted"
        return "" if self._may_begin(request, narrowed) else f"{confidence:.3f} sure, {_NOT_ITS}"

    def _settled(self, request: Request, narrowed: CandidateSet) -> Choice | None:
        """Return the choice where the model has nothing to decide; else None."""
        if request.goes_on and self.model is not None and not request.blank:
            return None
        candidates, below = narrowed.candidates, self.settling.cascade.abstain_below
        recalled = Recalled(
            candidates=len(candidates),
            confidence=candidates[0].confidence if candidates else None,
            in_scope=narrowed.in_scope,
            sized=bool(narrowed.sized),
            runs=bool(candidates) and candidates[0].flow_id in self.flows,
            blank=request.blank,
        )
        reason = self.settling.reason(recalled)
        if reason is Reason.NONE:
            abstains = self.settling.abstains(narrowed.in_scope)
            note = f"abstained: P(in scope) {narrowed.in_scope:.2f} is below {below:g}" if abstains else BLANK
            return Choice(notes=(note,))
        if reason is None or (reason in _UNREAD and not self._may_begin(request, narrowed)):
            return None
        return replace(top(candidates, self.flows, reason), notes=self._caveat(narrowed))

    @staticmethod
    def _may_begin(request: Request, narrowed: CandidateSet) -> bool:
        """Whether the first candidate may begin on recall alone; an unknown probability counts as 0."""
        first = next(iter(narrowed.candidates), None)
        return first is None or request.may_begin(first.flow_id, first.confidence or 0.0, narrowed.in_scope or 0.0)

    def _caveat(self, narrowed: CandidateSet) -> tuple[str, ...]:
        """Return why a threshold that is set cannot be applied."""
        cascade = self.settling.cascade
        is_set = (cascade.skip_llm_above, cascade.abstain_below) != (None, None)
        return (narrowed.caveat,) if narrowed.caveat and is_set else ()

    def _live(self, narrowed: CandidateSet) -> list[Candidate]:
        return [each for each in narrowed.candidates if each.flow_id in self.flows]

    @property
    def _more_stages(self) -> bool:
        return self.model is not None or self.decider is not None or self.ask_user

    # --- a decision model ------------------------------------------------------

    async def _by_decider(
        self, decider: DecisionClient, state: _State, deadline: Deadline
    ) -> tuple[Choice | None, _State]:
        """Return the choice of the decision model and recall together; None where that is skipped or not sure."""
        request, narrowed = state.request, state.narrowed
        candidates = self._live(narrowed)
        if request.goes_on or request.blank or not candidates or state.many:
            why = _MANY if state.many else "there is nothing to decide"
            why = "a conversation is gone on with" if request.goes_on else why
            return None, state.passed("decider", why)
        if not any(request.may_begin(each.flow_id, None, narrowed.in_scope) for each in candidates):
            return None, state.passed("decider", _NOT_ITS)
        if self.model is not None and not self.ask_user and not self._may_decide(state, candidates):
            return None, replace(state.passed("decider", "even a sure answer would not be enough"), in_vain=True)
        state, record = await self._ask_decider(decider, state, deadline)
        if state.chances is None or state.answer is None:
            return None, state.with_record(record)
        return self._by_both(state, state.chances, state.answer, record)

    async def _ask_decider(
        self, decider: DecisionClient, state: _State, deadline: Deadline
    ) -> tuple[_State, StageRecord]:
        """Ask the decision model, and combine its answer with recall's; log a failure and go on."""
        request, narrowed = state.request, state.narrowed
        candidates = self._live(narrowed)
        began = perf_counter()
        try:
            answer = await ask_decider(decider, request, candidates, decider_deadline(deadline))
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            why = describe_error(error)
            _log.warning("error=<%s> | the decision model is passed over", in_log(why))
            return state, StageRecord(name="decider", outcome="failed", why=why, took_s=perf_counter() - began)
        took_s = perf_counter() - began
        chances = posteriors(candidates, answer.chances, in_scope=narrowed.in_scope, scoped=state.scoped)
        named = self._described(answer)
        record = StageRecord(name="decider", outcome="passed", why=named, took_s=took_s, usage=answer.usage, calls=1)
        return replace(state, chances=chances, answer=answer), record

    async def _ask_decider_late(self, decider: DecisionClient, state: _State, deadline: Deadline) -> _State:
        """Ask the decision model after the chat model failed, if there is time; replace its earlier record."""
        left_s = decider_deadline(deadline).left_s
        if left_s is not None and left_s <= 0:
            return state
        state, record = await self._ask_decider(decider, state, deadline)
        record = replace(record, why=f"{_LATE}{': ' if record.why else ''}{record.why}")
        return replace(state, records=tuple(record if each.name == record.name else each for each in state.records))

    def _described(self, answer: DeciderAnswer) -> str:
        name, chance = _vote(answer)
        named = "says that none fits" if name == NONE else "names a flow that has left the registry"
        if name in self.flows:
            named = f"names {in_one_line(self.flows[name].name)}"
        return f"it {named}, {chance:.3f} sure by itself"

    def _may_decide(self, state: _State, candidates: Sequence[Candidate]) -> bool:
        """Whether any answer of the decision model would make both together sure enough."""
        line = self.budget.calibration.of_decider(scoped=state.scoped)
        most = posterior_bounds(candidates, in_scope=state.narrowed.in_scope, scoped=state.scoped)
        options = ((each, own) for each, own in most.items() if state.scoped or each != NONE)
        return any(line(own) >= self._required(each) - _ROUNDING for each, own in options)

    def _by_both(
        self, state: _State, chances: Mapping[str, float], answer: DeciderAnswer, record: StageRecord
    ) -> tuple[Choice | None, _State]:
        """Decide for the likeliest flow, or none, where that is sure enough."""
        best = max((each for each in chances if state.scoped or each != NONE), key=chances.__getitem__)
        confidence = self.budget.calibration.of_decider(scoped=state.scoped)(chances[best])
        wanted, named = self._required(best), record.why
        record = replace(record, confidence=confidence)
        sure = f"{confidence:.3f} sure{' that none fits' if best == NONE else ''}"
        if best != NONE and best not in self.flows:
            return None, state.with_record(replace(record, why="what it would choose left the registry meanwhile"))
        if confidence < wanted:
            state = replace(state, best=(best, confidence))
            of = "" if best == NONE else f" of {in_one_line(self.flows[best].name)}"
            return None, state.with_record(
                replace(record, why=f"{named}; with recall {sure}{of}, and {wanted:.3f} is wanted")
            )
        if best != NONE and not state.request.may_begin(best, None, state.narrowed.in_scope):
            return None, state.with_record(replace(record, why=f"{sure}, {_NOT_ITS}"))
        outcome: StageOutcome = "none" if best == NONE else "decided"
        against = "" if _vote(answer)[0] == best else f"{named}; with recall "
        record = replace(record, outcome=outcome, why=f"{against}{sure}, and {wanted:.3f} is enough")
        return self._decider_choice(best, answer), state.with_record(record)

    @staticmethod
    def _decider_choice(best: str, answer: DeciderAnswer, *notes: str) -> Choice:
        """Return the choice of a flow, or of none (`NONE`), by the decision model."""
        if best == NONE:
            return Choice(model=answer.model, notes=notes)
        return Choice(tier=Tier.GUIDED, reason=Reason.DECIDER, chosen_ids=(best,), model=answer.model, notes=notes)

    # --- a chat model ----------------------------------------------------------

    async def _by_chat(self, model: ModelChoice, state: _State, deadline: Deadline) -> tuple[Choice, _State]:
        began = perf_counter()
        choice = await model.choose(state.request, state.narrowed.candidates, deadline)
        reason, took_s = choice.reason, perf_counter() - began
        record = StageRecord(name="chat", outcome="decided", took_s=took_s, usage=choice.usage, calls=choice.attempts)
        if reason is Reason.FALLBACK_ERROR:
            record = replace(record, outcome="failed", why=choice.error)
        elif reason is Reason.FALLBACK_INVALID:
            record = replace(record, outcome="failed", why="its reply could not be used")
        elif reason in {Reason.NONE, Reason.FALLBACK_EMPTY}:
            record = replace(record, outcome="none")
        if state.in_vain and self.decider is not None and record.outcome == "failed":
            state = await self._ask_decider_late(self.decider, state, deadline)
        if reason in _FALLBACKS and state.chances is not None:
            likeliest = self._likeliest(state.narrowed, state.chances, choice)
            if likeliest.chosen_ids != choice.chosen_ids:
                record = replace(record, why=f"{record.why}{'; ' if record.why else ''}{_LIKELIEST}")
            choice = likeliest
        return choice, state.with_record(record)

    def _likeliest(self, narrowed: CandidateSet, chances: Mapping[str, float], fallback: Choice) -> Choice:
        """Return the fallback, with the flow that recall and decision model find likeliest."""
        ranked = sorted(narrowed.candidates, key=lambda each: -chances.get(each.flow_id, 0.0))
        found = top(ranked, self.flows, fallback.reason, unresolved=fallback.unresolved)
        return replace(
            fallback, tier=found.tier, reason=found.reason, chosen_ids=found.chosen_ids, unresolved=found.unresolved
        )

    def _last(self, state: _State) -> Choice:
        """Return the likeliest flow, where no stage is sure and there is no chat model.

        Candidates are ordered by confidence: their rank is the order for a prompt.
        """
        if state.best is not None and state.answer is not None:
            best, _ = state.best
            return self._decider_choice(best, state.answer, _NOTHING if best == NONE else self._unsure_note(best))
        single = len(state.narrowed.candidates) == 1
        reason = Reason.SINGLE if single else Reason.SEMANTIC
        likeliest = sorted(state.narrowed.candidates, key=lambda each: -(each.confidence or 0.0))
        choice = top(likeliest, self.flows, reason)
        return replace(choice, notes=(self._unsure_note(*choice.chosen_ids),))

    def _unsure_note(self, best: str = NONE) -> str:
        return _UNBOUND if self._allowed(best) is None else _OVER

    def _allowed(self, best: str) -> float | None:
        """Return the share of such choices that may be wrong; None without a budget."""
        return self.budget.max_error if best == NONE else self.budget.allowed(best)

    def _required(self, best: str) -> float:
        """Return the confidence that recall and decision model together must reach."""
        allowed = self._allowed(best)
        return max(0.0, 1 - (_USUAL_ERROR if allowed is None else SPREAD * allowed))

    # --- the user --------------------------------------------------------------

    def _by_user(self, choice: Choice, state: _State) -> tuple[Choice, _State]:
        """Replace a choice that no stage was sure of by a question to the user, or by none if no flow is likely."""
        if not self.ask_user or state.request.goes_on or state.request.blank:
            return choice, state
        notes = tuple(each for each in choice.notes if each not in {_OVER, _UNBOUND, _NOTHING})
        if self._is_last(choice, state) and not self._may_fit(state):
            why = _COURTESY if is_courtesy(state.request.query) else _NOT_ASKED
            nothing = _without_flows(choice, Tier.OPEN, Reason.NONE, notes=(*notes, why))
            return nothing, state.passed("user", why)
        asked, more = self._in_question(choice, state)
        question = flow_question(asked, self.flows, state.request.query, more=more)
        if question is None:
            return choice, state
        beside = ", and it may be something else" if more else ""
        why = f"{len(question.options)} flows are left{beside}, and nobody else may decide"
        asking = _without_flows(choice, Tier.GUIDED, Reason.ASK, notes=notes)
        return replace(asking, question=question), state.passed("user", why)

    def _is_last(self, choice: Choice, state: _State) -> bool:
        last = state.records[-1] if state.records else None
        unasked = choice.reason is Reason.UNASKED
        return last is not None and last.outcome in {"passed", "failed"} and self.model is None and not unasked

    def _may_fit(self, state: _State) -> bool:
        """Whether some flow is likely enough to ask the user which.

        A decision model that names a flow outweighs recall's doubt: it has read the request.
        """
        if is_courtesy(state.request.query):
            return False
        if state.answer is not None:
            named, chance = _vote(state.answer)
            if named != NONE and chance >= _LIKELY:
                return True
            if state.scoped and state.best is not None:
                return state.best[0] != NONE
        return self._is_in_scope(state)

    @staticmethod
    def _is_in_scope(state: _State) -> bool:
        scope = state.narrowed.in_scope
        return scope is None or joint_probability(1.0, scope) >= _LIKELY

    def _in_question(self, choice: Choice, state: _State) -> tuple[list[Candidate], bool]:
        """Return the flows to ask about, empty where there is no question, and whether it may be something else."""
        last = state.records[-1] if state.records else None
        candidates, chosen = state.narrowed.candidates, choice.chosen_ids
        if last is None or choice.called_off or choice.confirmed:
            return [], False
        by_chat = last.name == "chat"
        if by_chat and choice.reason is Reason.LLM:
            # several wishes may each have their flow
            several = len(chosen) < FEWEST or state.many
            return [] if several else [each for each in candidates if each.flow_id in chosen], False
        if not (choice.reason in {Reason.NONE, *_FALLBACKS} if by_chat else self._is_last(choice, state)):
            return [], False
        none = by_chat and last.outcome == "none"
        if not self._may_fit(state) or (none and not self._is_in_scope(state)):
            return [], False
        chances = state.chances
        if chances is None:
            chances = {each.flow_id: each.confidence for each in candidates if each.confidence is not None}
        live = self._live(state.narrowed)
        # Where the decision model says "none" without being sure, the user is asked even about one flow.
        torn = state.best is not None and state.best[0] == NONE
        asked = in_question(live, chances, at_least=FEWEST if torn else 0)
        # Where a chat model read the request and found none, a long list has no likely flow.
        return (asked, False) if none else (asked[:MOST], torn or len(asked) > MOST)


def _vote(answer: DeciderAnswer) -> tuple[str, float]:
    name = max(answer.chances, key=answer.chances.__getitem__)
    return name, answer.chances[name]
