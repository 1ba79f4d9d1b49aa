"""The model's part of a choice: asked, read, and asked again where the reply could not be used."""

import logging
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import nlargest
from typing import Protocol

from jazz_select.selector.again import asked_again, why_unusable
from jazz_select.selector.answer import Answer, total
from jazz_select.selector.calling import Caller, Deadline, Question
from jazz_select.selector.choose import OnEmpty, Verdict, judge, top
from jazz_select.selector.narrow import Request
from jazz_select.selector.ordering import CandidateOrder, ordered
from jazz_select.selector.prompt import PROMPT_TOKENS, Prompt, build_prompt
from jazz_select.selector.reply import read_reply
from jazz_select.text import cut
from jazz_select.values import Candidate, Reason

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")
_ERROR_LIMIT = 500
"""Characters kept of a model's error, which may quote a whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a model is asked."""

    on_empty: OnEmpty = "top1"
    timeout_s: float | None = 20.0
    max_reasks: int = 1
    examples_shown: int = 0
    candidate_order: CandidateOrder = "rank"
    prompt_tokens: int = PROMPT_TOKENS
    second_read: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A verdict, and what the model had to do with it."""

    verdict: Verdict
    answer: Answer = field(default_factory=Answer)
    parsed_ids: tuple[str, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()


class HasExamples(Protocol):
    """A flow, as far as a prompt needs it."""

    @property
    def examples(self) -> Sequence[str]:
        """Requests that mean this flow."""
        ...


class ModelChoice:
    """Lets one model choose among candidates."""

    def __init__(self, caller: Caller, manner: Manner, flows: Mapping[str, HasExamples]) -> None:
        """Take whom to ask, how, and the live flows."""
        self._caller = caller
        self._manner = manner
        self._flows = flows

    async def choose(self, request: Request, candidates: Sequence[Candidate]) -> Choice:
        """Ask within the deadline. Whatever the model fails with, the top candidate is taken: the talk goes on."""
        deadline = Deadline.after(self._manner.timeout_s)
        shown = ordered(candidates, self._manner.candidate_order, request.query)
        first = await self._read(request, shown, candidates, deadline)
        if not self._manner.second_read or not _departs(first.verdict, candidates, self._flows):
            return first
        second = await self._read(request, shown[::-1], candidates, deadline)
        return _agreed(first, second, candidates)

    async def _read(
        self, request: Request, shown: Sequence[Candidate], candidates: Sequence[Candidate], deadline: Deadline
    ) -> Choice:
        """One question, asked again where the reply cannot be used and there is time."""
        built = cache(lambda: self._prompt(request, shown))
        try:
            answer = await self._caller.ask(lambda: Question(built().messages, built().schema), deadline)
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            problem = _problem(error)
            _log.warning("error=<%s> | the model failed, falling back to the top candidate", problem)
            fallback = top(candidates, self._flows, Reason.FALLBACK_ERROR)
            return Choice(verdict=fallback, error=problem, notes=built().notes)
        prompt = built()
        choice = self._judged(answer, shown, candidates, prompt)
        for _ in range(self._manner.max_reasks):
            if choice.verdict.reason is not Reason.FALLBACK_INVALID:
                break
            choice = await self._asked_again(choice, prompt, shown, candidates, deadline)
        return choice

    def _prompt(self, request: Request, shown: Sequence[Candidate]) -> Prompt:
        return build_prompt(
            request.query,
            request.summaries,
            shown,
            examples=self._examples(request, shown),
            tokens=self._manner.prompt_tokens,
            structured=self._caller.takes_schema,
        )

    async def _asked_again(
        self,
        choice: Choice,
        prompt: Prompt,
        shown: Sequence[Candidate],
        candidates: Sequence[Candidate],
        deadline: Deadline,
    ) -> Choice:
        """The reply could not be used: the model is told so. If that fails too, what was there before stands."""
        before, why = choice.answer, why_unusable(choice.answer, choice.parsed_ids, {each.flow_id for each in shown})
        wanted = f"a JSON array of ids from <candidates>: {', '.join(prompt.ids[:20])}; or [] if none fits"
        try:
            question = Question(asked_again(prompt.messages, before.text, why, wanted=wanted), prompt.schema)
            answer = await self._caller.ask(lambda: question, deadline)
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            return replace(
                choice, notes=(*choice.notes, f"asked again ({why}), and the model failed: {_problem(error)}")
            )
        attempts, notes = before.attempts + answer.attempts, (*before.notes, f"asked again: {why}", *answer.notes)
        whole = replace(answer, usage=total(before.usage, answer.usage), attempts=attempts, notes=notes)
        return self._judged(whole, shown, candidates, prompt)

    def _judged(
        self, answer: Answer, shown: Sequence[Candidate], candidates: Sequence[Candidate], prompt: Prompt
    ) -> Choice:
        reading = read_reply(answer.text, shown)
        verdict = judge(reading, candidates, self._flows, on_empty=self._manner.on_empty)
        return Choice(verdict=verdict, answer=answer, parsed_ids=reading.ids, notes=(*prompt.notes, *answer.notes))

    def _examples(self, request: Request, shown: Sequence[Candidate]) -> Mapping[str, Sequence[str]]:
        """Of each flow the examples that share most words with the request."""
        count = self._manner.examples_shown
        if not count:
            return {}
        wanted = _words(request.text)
        return {
            each.flow_id: nlargest(count, flow.examples, key=lambda example: _overlap(wanted, example))
            for each in shown
            if (flow := self._flows.get(each.flow_id)) is not None
        }


def _departs(verdict: Verdict, candidates: Sequence[Candidate], live: Container[str]) -> bool:
    """Whether the model chose, and not what recall would have."""
    best = top(candidates, live, Reason.SEMANTIC).ids
    return verdict.reason is Reason.LLM and verdict.ids[:1] != best[:1]


def _agreed(first: Choice, second: Choice, candidates: Sequence[Candidate]) -> Choice:
    """What two readings in opposite orders come to: their common choice, else the one that recall ranks higher.

    A model that goes by position contradicts itself when the order is turned round; one that has a reason does not.
    """
    answer = replace(
        first.answer,
        usage=total(first.answer.usage, second.answer.usage),
        attempts=first.answer.attempts + second.answer.attempts,
    )
    if second.verdict.reason is not Reason.LLM:
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


def _problem(error: Exception) -> str:
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
