"""The second stage of a selection: who is chosen among the candidates, by a model or without one, and why."""

import hashlib
import logging
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import nlargest
from typing import Final, Literal, Protocol

from jazz_select.chat.client import ChatClient
from jazz_select.chat.exchange import ChatReply, Question, total_usage, why_unusable
from jazz_select.selector.growing import growing_prompt
from jazz_select.selector.options import MOST_EXAMPLES
from jazz_select.selector.prompt import OFF, PROMPT_TOKENS, REQUEST_LIMIT, Prompt, build_prompt
from jazz_select.selector.reply import Reading, read_reply
from jazz_select.selector.retrieval import CandidateSet, LiveFlow, Request
from jazz_select.stages import StageRecord, UserQuestion
from jazz_select.text import cut, in_log
from jazz_select.threads import Deadline, in_daemon_thread
from jazz_select.values import Candidate, Reason, Tier

OnEmpty = Literal["top1", "none"]
CandidateOrder = Literal["rank", "stable", "shuffled"]
_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")
BLANK = "nothing was asked: request and summaries are blank"
_MANY = 100
"""Candidates from which on the prompt is written in a thread: each takes some 50 µs."""
_ERROR_LIMIT = 500
"""Characters kept of a model's error, which may quote a whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Who is chosen.

    Attributes:
        tier: How free the choice was. A fallback is deterministic: no model made it.
        reason: Why it came out like this.
        ids: Live flows, in order.
        unresolved: What was chosen, or would have been, and cannot be run: stale, not offered, or unknown.
        called_off: The flows of the conversation that are called off.
        confirmed: Whether the question that waited for a yes or a no was answered by one.
    """

    tier: Tier
    reason: Reason
    ids: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()
    called_off: tuple[str, ...] = ()
    confirmed: Literal["", "yes", "no"] = ""


def top(
    candidates: Sequence[Candidate], live: Container[str], reason: Reason, *, unresolved: tuple[str, ...] = ()
) -> Verdict:
    """The best candidate that is live, for `reason`; better ones that are stale stay unresolved."""
    stale: list[str] = []
    for candidate in candidates:
        if candidate.flow_id in live:
            missed = _once(*unresolved, *stale)
            return Verdict(tier=Tier.DETERMINISTIC, reason=reason, ids=(candidate.flow_id,), unresolved=missed)
        stale.append(candidate.flow_id)
    return Verdict(tier=Tier.OPEN, reason=Reason.NONE, unresolved=_once(*unresolved, *stale))


def judge(
    reading: Reading,
    candidates: Sequence[Candidate],
    live: Container[str],
    *,
    on_empty: OnEmpty,
    beside: Mapping[str, str] | None = None,
) -> Verdict:
    """What a model's reply leads to: only candidates that were offered and are live are ever chosen.

    Args:
        reading: The reply.
        candidates: What was offered.
        live: The flows that there are.
        on_empty: What "none fits" leads to.
        beside: What else could be said, as `Prompt.beside`.
    """
    if reading.status == "empty":
        if on_empty == "none":
            return Verdict(tier=Tier.OPEN, reason=Reason.NONE)
        return top(candidates, live, Reason.FALLBACK_EMPTY)
    said = [beside[each] for each in reading.ids if each in beside] if beside else []
    ids = [each for each in reading.ids if not beside or each not in beside]
    offered = {candidate.flow_id for candidate in candidates}
    runnable = tuple(flow_id for flow_id in ids if flow_id in offered and flow_id in live)
    unresolved = tuple(flow_id for flow_id in ids if flow_id not in runnable)
    off = tuple(each.removeprefix(OFF) for each in said if each.startswith(OFF))
    if set(off) & set(runnable):  # neither called off nor gone on with: it contradicts itself
        return top(candidates, live, Reason.FALLBACK_INVALID, unresolved=unresolved)
    confirmed: list[Literal["yes", "no"]] = [each for each in said if each == "yes" or each == "no"]  # noqa: PLR1714 - narrows
    if runnable or off or len(confirmed) == 1:
        return Verdict(
            tier=Tier.GUIDED,
            reason=Reason.LLM,
            ids=runnable,
            unresolved=unresolved,
            called_off=off,
            confirmed=confirmed[0] if len(confirmed) == 1 else "",
        )
    return top(candidates, live, Reason.FALLBACK_INVALID, unresolved=unresolved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a request once candidates are recalled.

    Attributes:
        candidates: How many there are.
        confidence: P(the first of them is right), where that is known.
        in_scope: P(some flow is right), likewise.
        sized: Whether recall chose how many there are.
        runs: Whether the first is live.
        blank: Whether nothing was asked.
    """

    candidates: int = 0
    confidence: float | None = None
    in_scope: float | None = None
    sized: bool = False
    runs: bool = True
    blank: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """When nobody need be asked; the options of `FlowSelector` of these names. None leaves it to what comes next."""

    asks: bool = True
    """Whether there is a model of either kind."""
    on_empty: OnEmpty = "top1"
    coverage: float = 0.98
    skip_llm_above: float | None = None
    abstain_below: float | None = None
    ambiguous_within: float | None = None

    def reason(self, known: Known) -> Reason | None:
        """Why it is settled: `none`, `single`, `semantic` or `confident`; None where a model is to be asked."""
        if self.abstains(known.in_scope) or (known.blank and known.candidates > 1):
            return Reason.NONE
        if not self.asks or (known.candidates <= 1 and not self.doubts(known)):
            return Reason.SEMANTIC if known.candidates > 1 else Reason.SINGLE
        sure = self.sureness(known)
        if sure is not None and self.skip_llm_above is not None and sure >= self.skip_llm_above:
            return Reason.CONFIDENT
        return None

    def abstains(self, in_scope: float | None) -> bool:
        """Is it too unlikely that anything fits?"""
        return self.abstain_below is not None and in_scope is not None and in_scope < self.abstain_below

    def sureness(self, known: Known) -> float | None:
        """What `skip_llm_above` is compared with; None where nothing is known, or where the first cannot run.

        Confidence says which flow is right if any is. A model that is believed when it says "none" is left out only
        where recall knows as well that some flow is right.
        """
        if known.confidence is None or not known.candidates or not known.runs:
            return None
        if self.on_empty == "none" and known.in_scope is not None:
            return min(known.confidence, known.in_scope)
        return known.confidence

    def doubts(self, known: Known) -> bool:
        """Whether a model has to say if the only candidate fits.

        Recall that chooses how many there are leaves one where it is sure which, and that says little of whether any
        flow fits at all: a model that may say "none" is asked unless recall is as sure of that.
        """
        if self.on_empty != "none" or not (known.sized and known.candidates):
            return False
        return known.in_scope is None or known.in_scope < self.coverage

    def ambiguous(self, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
        """The candidates about as likely as the top one, where there are at least two."""
        top = candidates[0].confidence if candidates else None
        if self.ambiguous_within is None or top is None:
            return ()
        floor = top - self.ambiguous_within
        near = tuple(each for each in candidates if each.confidence is not None and each.confidence >= floor)
        return near if len(near) > 1 else ()

    @property
    def need_confidence(self) -> bool:
        """Is any threshold set?"""
        return (self.skip_llm_above, self.abstain_below, self.ambiguous_within) != (None, None, None)


def _once(*ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


def ordered(candidates: Sequence[Candidate], order: CandidateOrder, request: str) -> tuple[Candidate, ...]:
    """The candidates as a model is to see them.

    - `rank`: as recall ranked them. A model that favours the first then errs towards recall's own choice.
    - `stable`: by id, so that the same candidates make the same text whatever their ranks, for providers that
      cache what prompts begin with.
    - `shuffled`: by a hash of the request, so that no flow stands first more often than others.
    """
    match order:
        case "rank":
            return tuple(candidates)
        case "stable":
            return tuple(sorted(candidates, key=lambda each: each.flow_id))
        case "shuffled":
            return tuple(sorted(candidates, key=lambda each: _mixed(request[:REQUEST_LIMIT], each.flow_id)))


def _mixed(request: str, flow_id: str) -> bytes:
    return hashlib.sha256(f"{request}\x1f{flow_id}".encode(errors="replace")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOptions:
    """How a model is asked."""

    on_empty: OnEmpty = "top1"
    timeout_s: float | None = 20.0
    max_reasks: int = 1
    examples_shown: int | None = None
    candidate_order: CandidateOrder = "rank"
    prompt_tokens: int = PROMPT_TOKENS
    second_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A verdict, and what the model had to do with it."""

    verdict: Verdict
    answer: ChatReply = field(default_factory=ChatReply)
    parsed_ids: tuple[str, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()
    stages: tuple[StageRecord, ...] = ()
    question: UserQuestion | None = None


UNASKED: Final = Choice(verdict=Verdict(tier=Tier.GUIDED, reason=Reason.UNASKED))
"""What comes of a request that a model would have to be asked about, where none is to be."""


class HasBudget(Protocol):
    """A flow, as far as a choice without a cascade needs it."""

    @property
    def max_error(self) -> float | None:
        """Its own error budget, if it has one."""
        ...


@dataclass(frozen=True, slots=True)
class PlainChoice:
    """Chooses without a cascade: what recall settles, and else the model.

    Attributes:
        flows: The live flows.
        settling: When nobody need be asked.
        model: Who is asked; None takes the top candidate.
    """

    flows: Mapping[str, HasBudget]
    settling: Settling
    model: "ModelChoice | None"

    def budgeted(self, candidates: Sequence[Candidate]) -> bool:
        """Whether one of these flows has an error budget of its own."""
        live = (self.flows.get(each.flow_id) for each in candidates)
        return any(flow is not None and flow.max_error is not None for flow in live)

    async def choose(self, request: Request, narrowed: CandidateSet, *, ask: bool = True) -> Choice:
        """Who is chosen; where nobody is to be asked (`ask=False`), no model is (reason `unasked`)."""
        settled = self.settled(request, narrowed)
        if settled is not None or not ask or self.model is None:
            return settled or UNASKED
        choice = await self.model.choose(request, narrowed.candidates)
        return replace(choice, notes=(*self._caveat(narrowed), *choice.notes))

    def settled(self, request: Request, narrowed: CandidateSet) -> Choice | None:
        """Who is chosen where the model has nothing to decide; None where it is to be asked."""
        if request.goes_on and self.model is not None and not request.blank:
            return None
        reason = self.settling.reason(self.known(request, narrowed))
        if reason is Reason.NONE:
            below = f"is below {self.settling.abstain_below:g}" if self.settling.abstains(narrowed.in_scope) else ""
            note = f"abstained: P(in scope) {narrowed.in_scope:.2f} {below}" if below else BLANK
            return Choice(verdict=Verdict(tier=Tier.OPEN, reason=reason), notes=(note,))
        if reason is None or (reason is Reason.CONFIDENT and not self.may_begin(request, narrowed)):
            return None
        return Choice(verdict=top(narrowed.candidates, self.flows, reason), notes=self._caveat(narrowed))

    @staticmethod
    def may_begin(request: Request, narrowed: CandidateSet) -> bool:
        """Whether the first candidate may be begun without the chat model's word."""
        first = narrowed.candidates[0]
        return request.may_begin(first.flow_id, first.confidence, narrowed.in_scope)

    def known(self, request: Request, narrowed: CandidateSet) -> Known:
        """What is known of a request once these are recalled."""
        candidates = narrowed.candidates
        return Known(
            candidates=len(candidates),
            confidence=candidates[0].confidence if candidates else None,
            in_scope=narrowed.in_scope,
            sized=bool(narrowed.sized),
            runs=bool(candidates) and candidates[0].flow_id in self.flows,
            blank=request.blank,
        )

    def _caveat(self, narrowed: CandidateSet) -> tuple[str, ...]:
        """Why a threshold that is set has nothing to go by."""
        return (narrowed.caveat,) if narrowed.caveat and self.settling.need_confidence else ()


class ModelChoice:
    """Lets one model choose among candidates."""

    def __init__(self, client: ChatClient, options: ChoiceOptions, flows: Mapping[str, LiveFlow]) -> None:
        """Take whom to ask, how, and the live flows."""
        self._client = client
        self._options = options
        self._flows = flows

    async def choose(
        self, request: Request, candidates: Sequence[Candidate], deadline: Deadline | None = None
    ) -> Choice:
        """Ask within the deadline, by default its own. Whatever the model fails with, the top candidate is taken."""
        deadline = Deadline.after(self._options.timeout_s) if deadline is None else deadline
        begun = request.under_way
        rest = [each for each in candidates if each.flow_id not in begun]
        known = {each.flow_id: each for each in candidates}
        shown = (
            *(known[each] for each in begun if each in known),
            *ordered(rest, self._options.candidate_order, request.query),
        )
        first = await self._read(request, shown, candidates, deadline)
        if not self._options.second_read or not _departs(first.verdict, candidates, self._flows):
            return first
        if request.situation is not None:  # what was shown before cannot be turned round, so that is left out
            request = replace(request, situation=replace(request.situation, growing=None))
        second = await self._read(request, shown[::-1], candidates, deadline)
        return _agreed(first, second, candidates)

    async def _read(
        self, request: Request, shown: Sequence[Candidate], candidates: Sequence[Candidate], deadline: Deadline
    ) -> Choice:
        """One question, asked again where the reply cannot be used and there is time."""
        built = cache(lambda: self._prompt(request, shown))
        # In a conversation "none" is an answer of its own: nothing is begun for it.
        on_empty = self._options.on_empty if request.situation is None else "none"

        def read(answer: ChatReply) -> tuple[Reading, Verdict]:
            beside = built().beside
            reading = read_reply(answer.text, built().order, beside)
            return reading, judge(reading, candidates, self._flows, on_empty=on_empty, beside=beside)

        offered = {each.flow_id for each in shown}

        def problem(answer: ChatReply, said: tuple[Reading, Verdict]) -> str:
            reading, verdict = said
            if verdict.reason is not Reason.FALLBACK_INVALID:
                return ""
            names = {each.flow_id: each.flow_name for each in built().order if each.flow_id not in offered}
            return why_unusable(answer, [names.get(each, each) for each in reading.ids], offered)

        try:
            if len(shown) > _MANY:
                await in_daemon_thread(built, name="jazz-select-prompt")
            if request.situation is not None and request.situation.growing is not None:
                request.situation.growing.keep(built().shown or ())
            answer, (reading, verdict) = await self._client.ask_until_usable(
                lambda: _question(built()), deadline, read=read, problem=problem, max_reasks=self._options.max_reasks
            )
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            told = problem_in(error)
            _log.warning("error=<%s> | the model failed, falling back to the top candidate", in_log(told))
            fallback = top(candidates, self._flows, Reason.FALLBACK_ERROR)
            return Choice(verdict=fallback, error=told, notes=built().notes)
        notes = (*built().notes, *answer.notes)
        return Choice(verdict=verdict, answer=answer, parsed_ids=reading.ids, notes=notes)

    def _prompt(self, request: Request, shown: Sequence[Candidate]) -> Prompt:
        if request.situation is not None and request.situation.growing is not None:
            return growing_prompt(
                request.query,
                shown,
                request.situation,
                flows=self._flows,
                examples=self._examples(request, shown),
                with_examples=self._options.examples_shown != 0,
                tokens=self._options.prompt_tokens,
                structured=self._client.takes_schema,
            )
        return build_prompt(
            request.query,
            request.summaries,
            shown,
            examples=self._examples(request, shown),
            all_examples=self._options.examples_shown is not None,
            tokens=self._options.prompt_tokens,
            structured=self._client.takes_schema,
            situation=request.situation,
        )

    def _examples(self, request: Request, shown: Sequence[Candidate]) -> Mapping[str, Sequence[str]]:
        """Of each flow the examples that share most words with the request."""
        asked = self._options.examples_shown
        count = MOST_EXAMPLES if asked is None else asked
        if not count:
            return {}
        wanted = _words(request.text)
        return {
            each.flow_id: nlargest(count, flow.examples, key=lambda example: _overlap(wanted, example))
            for each in shown
            if (flow := self._flows.get(each.flow_id)) is not None
        }


def _departs(verdict: Verdict, candidates: Sequence[Candidate], live: Container[str]) -> bool:
    """Whether the model chose, and not what recall would have: calling off, a yes or a no is no choice of a flow."""
    if verdict.reason is not Reason.LLM or not verdict.ids or verdict.called_off or verdict.confirmed:
        return False
    return verdict.ids[:1] != top(candidates, live, Reason.SEMANTIC).ids[:1]


def _agreed(first: Choice, second: Choice, candidates: Sequence[Candidate]) -> Choice:
    """What two readings in opposite orders come to: their common choice, else the one that recall ranks higher.

    A model that goes by position contradicts itself when the order is turned round; one that has a reason does not.
    """
    answer = replace(
        first.answer,
        usage=total_usage(first.answer.usage, second.answer.usage),
        attempts=first.answer.attempts + second.answer.attempts,
    )
    if second.verdict.reason is not Reason.LLM or not second.verdict.ids:
        return replace(first, answer=answer, notes=(*first.notes, "a second reading gave no choice"))
    if set(first.verdict.ids) == set(second.verdict.ids):
        return replace(first, answer=answer, notes=(*first.notes, "a second reading agreed"))
    ranks = {each.flow_id: rank for rank, each in enumerate(candidates)}
    better = min(first, second, key=lambda choice: ranks[choice.verdict.ids[0]])
    return replace(
        better,
        answer=replace(answer, text=better.answer.text),
        notes=(*better.notes, "a second reading disagreed; the choice that recall ranks higher was taken"),
    )


def _question(prompt: Prompt) -> Question:
    where = "<candidates>" if prompt.shown is None else "<offered>"
    wanted = f"a JSON array of ids from {where}: {', '.join(prompt.ids[:20])}; or [] if none fits"
    return Question(prompt.messages, prompt.schema, wanted)


def problem_in(error: Exception) -> str:
    """What went wrong, of an error that may not even be able to say so."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        said = ""
    return cut(f"{type(error).__name__}: {said}".removesuffix(": "), _ERROR_LIMIT)


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _overlap(wanted: frozenset[str], example: str) -> float:
    """The share of words in common (Jaccard); the first examples win ties."""
    words = _words(example)
    return len(wanted & words) / len(wanted | words) if words else 0.0


def warn_of(unresolved: Sequence[str], candidates: Sequence[Candidate], live: Container[str]) -> None:
    """Log what was chosen, or would have been, and is not run."""
    offered = {candidate.flow_id for candidate in candidates}
    for flow_id in unresolved:
        if flow_id in offered:
            why = "in the index but not in the registry; run sync_registry"
        else:
            why = "registered but not offered" if flow_id in live else "unknown"
        _log.warning("flow_id=<%s> | flow is not run: %s", in_log(flow_id), why)
