"""The third stage: a chat model chooses among the candidates, by their conditions and effects."""

import logging
import re
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from heapq import nlargest
from time import perf_counter
from typing import Any, Final

from jazz_select.chat.client import ChatClient, ChatReply, Inquiry, why_unusable
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.candidates_stage import Request
from jazz_select.selector.decision_stage import NONE, DecisionStage
from jazz_select.selector.policy import OnEmpty, Policy
from jazz_select.selector.prompt import Prompt, build_prompt, growing_prompt
from jazz_select.selector.reply import ParsedReply, read_reply
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.selector.stage import LIKELY, Beliefs, Case, Choice, StageCosts, Verdict, first_live, likely_fits
from jazz_select.stages import StageOutcome
from jazz_select.text import describe_error, in_log
from jazz_select.threads import Deadline, in_daemon_thread
from jazz_select.values import Candidate, Reason, Tier

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w+")
_MOST_EXAMPLES: Final = 3
"""Maximum number of examples of each candidate in a prompt. More than three helped a model little."""
_LONG_LIST: Final = 100
"""Number of candidates above which the prompt is built in a thread: each takes about 50 µs."""
_LIKELIEST: Final = "taken is what recall and the decision model together find likeliest"
_UNLIKELY: Final = "the chat model failed, and it is likelier that no flow fits, so nothing is taken"
_NOT_TAKEN: Final = "the chat model failed, and the policy takes nothing then (on_error)"
FALLBACKS: Final = (Reason.FALLBACK_EMPTY, Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR)
_FAILED: Final = (Reason.FALLBACK_INVALID, Reason.FALLBACK_ERROR)


def judge_reply(
    reply: ParsedReply,
    candidates: Sequence[Candidate],
    live: Container[str],
    *,
    on_empty: OnEmpty,
    under_way: Collection[str] = (),
    confirms: bool = False,
) -> Choice:
    """Return the choice that a model's reply leads to. Only candidates that are offered and live are chosen.

    Only flows `under_way` can be called off. `confirms`: a question waits for a yes or a no.
    """
    if reply.status == "empty":
        if on_empty == "none":
            return Choice(answer=reply.answer, opening=reply.opening)
        return first_live(candidates, live, Reason.FALLBACK_EMPTY)
    offered = {candidate.flow_id for candidate in candidates}
    runnable = tuple(each for each in reply.ids if each in offered and each in live)
    off = tuple(each for each in reply.off if each in under_way)
    refused = [each for each in reply.ids if each not in runnable]
    refused += [each for each in reply.off if each not in off]
    unresolved = _distinct_ids(*refused)
    confirmed = reply.confirm if confirms else ""
    values = _by_flow(reply.values, offered, runnable or under_way)
    unclear = _by_flow(reply.unclear, offered, runnable or under_way)
    # A reply that cancels and continues one flow contradicts itself.
    contradicts = bool(set(off) & set(runnable))
    if contradicts or not (runnable or off or confirmed or values or unclear):
        return first_live(candidates, live, Reason.FALLBACK_INVALID, unresolved=unresolved)
    return Choice(
        tier=Tier.GUIDED,
        reason=Reason.LLM,
        chosen_ids=runnable,
        unresolved=unresolved,
        called_off=off,
        confirmed=confirmed,
        quote=reply.quote if confirmed else "",
        values=values,
        repeated={each: more for each, more in reply.repeated.items() if each in {*values, *runnable}},
        every=tuple(each for each in reply.every if each in runnable),
        unclear=unclear,
        answer=reply.answer if set(runnable) <= set(under_way) else "",
        # What is begun is begun for the first flow that was read, and for no other.
        opening=reply.opening if reply.ids[:1] == runnable[:1] else "",
    )


def _by_flow(
    inputs: Mapping[str, Any], offered: Container[str], meant: Collection[str]
) -> dict[str, Mapping[str, Any]]:
    """Return the inputs of each flow. Inputs without a flow belong to every flow of `meant`."""
    shared: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in inputs.items():
        if name in offered:
            own[name] = value
        else:
            shared[name] = value
    merged: dict[str, Mapping[str, Any]] = {}
    for flow_id in _distinct_ids(*meant, *own):
        values = {**shared, **own.get(flow_id, {})}
        if values:
            merged[flow_id] = values
    return merged


def _distinct_ids(*ids: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))


@dataclass(slots=True, kw_only=True)
class ChatStage:
    """A chat model: the selector's own, or one that a conversation lends for a case."""

    flows: Mapping[str, BaseFlow]
    policy: Policy
    options: ModelOptions = field(default_factory=ModelOptions)
    decider: DecisionStage | None = None
    """Asked for what is likeliest if the chat model fails."""
    costs: StageCosts = field(default_factory=lambda: StageCosts("chat"))

    def takes(self, case: Case) -> bool:
        """Whether there is a chat model for this case."""
        return case.chat is not None

    async def run(self, case: Case) -> Verdict:
        """Ask the model. If it fails, follow the policy's `on_error`."""
        if case.chat is None:
            return Verdict(stage="chat", outcome="handed_on", why="there is no chat model")
        began = perf_counter()
        choice = await self._ask(case.chat, case.request, case.narrowed.candidates, case.deadline)
        took_s = perf_counter() - began
        outcome: StageOutcome = "decided"
        why = ""
        if choice.reason in _FAILED:
            outcome = "failed"
            why = choice.error or "its reply could not be used"
        elif choice.reason in {Reason.NONE, Reason.FALLBACK_EMPTY}:
            outcome = "none"
        beliefs, calls_before = case.beliefs, ()
        if outcome == "failed" and self.decider is not None and any(each.is_in_vain for each in case.verdicts):
            late = await self.decider.ask_late(case)
            if late is not None:
                self.decider.costs.add(late)
                beliefs, calls_before = late.beliefs, (late.record,)
        if choice.reason in FALLBACKS and beliefs is not None:
            likeliest = self._likeliest(case.narrowed.candidates, beliefs, choice)
            if likeliest.chosen_ids != choice.chosen_ids:
                why = f"{why}; {_LIKELIEST}" if why else _LIKELIEST
            choice = likeliest
        if outcome == "failed":
            choice = self._after_failure(case, choice, beliefs)
        return Verdict(
            stage="chat",
            outcome=outcome,
            choice=choice,
            why=why,
            took_s=took_s,
            usage=choice.usage,
            calls=choice.attempts,
            beliefs=beliefs,
            is_open=self.policy.ask_user,
            before=calls_before,
        )

    def _after_failure(self, case: Case, choice: Choice, beliefs: Beliefs | None) -> Choice:
        """Return the fallback, or nothing if the policy takes none."""
        rule = self.policy.on_error
        if rule == "top1" or not choice.chosen_ids:
            return choice
        if rule == "none":
            return replace(choice, tier=Tier.OPEN, chosen_ids=(), notes=(*choice.notes, _NOT_TAKEN))
        if beliefs is None:
            fits = likely_fits(case.narrowed)
        else:
            fits = beliefs.chances.get(NONE, 0.0) < LIKELY
        if fits:
            return choice
        return replace(choice, tier=Tier.OPEN, chosen_ids=(), notes=(*choice.notes, _UNLIKELY))

    def _likeliest(self, candidates: Sequence[Candidate], beliefs: Beliefs, fallback: Choice) -> Choice:
        """Return the fallback, with the flow that recall and decision model find likeliest."""
        ranked = sorted(candidates, key=lambda each: -beliefs.chances.get(each.flow_id, 0.0))
        found = first_live(ranked, self.flows, fallback.reason, unresolved=fallback.unresolved)
        return replace(
            fallback, tier=found.tier, reason=found.reason, chosen_ids=found.chosen_ids, unresolved=found.unresolved
        )

    async def _ask(
        self, client: ChatClient, request: Request, candidates: Sequence[Candidate], deadline: Deadline
    ) -> Choice:
        """Ask the model within the deadline. If the model fails, choose the first candidate."""
        under_way = request.under_way
        by_id = {each.flow_id: each for each in candidates}
        shown = [by_id[each] for each in under_way if each in by_id]
        shown += [each for each in candidates if each.flow_id not in under_way]
        prompt = cache(lambda: self._prompt(client, request, shown))
        # In a conversation "none" is a valid answer: no flow begins.
        on_empty = self.policy.on_empty if request.situation is None else "none"

        situation = request.situation
        confirms = situation is not None and bool(situation.confirms)

        def read_answer(answer: ChatReply) -> tuple[ParsedReply, Choice]:
            reply = read_reply(answer.text, prompt().order, of_message=prompt().reads)
            choice = judge_reply(
                reply, candidates, self.flows, on_empty=on_empty, under_way=under_way, confirms=confirms
            )
            return reply, choice

        offered = {each.flow_id for each in shown}

        def problem(answer: ChatReply, parsed: tuple[ParsedReply, Choice]) -> str:
            reply, choice = parsed
            if choice.reason is not Reason.FALLBACK_INVALID:
                return ""
            # A flow that was shown earlier and may not be chosen now is called by its name.
            names = {each.flow_id: each.flow_name for each in prompt().order if each.flow_id not in offered}
            return why_unusable(answer, [names.get(each, each) for each in reply.ids], offered)

        try:
            if len(shown) > _LONG_LIST:
                await in_daemon_thread(prompt, name="jazz-select-prompt")
            if situation is not None and situation.growing is not None:
                situation.growing.keep(prompt().shown or ())
            answer, (reply, choice) = await client.ask_until_usable(
                lambda: Inquiry(prompt().messages, prompt().schema, prompt().reply_form),
                deadline,
                read=read_answer,
                problem=problem,
                max_reasks=self.options.max_reasks,
            )
        except Exception as error:  # noqa: BLE001 - whatever a model fails with
            message = describe_error(error)
            _log.warning("error=<%s> | the model failed, falling back to the top candidate", in_log(message))
            fallback = first_live(candidates, self.flows, Reason.FALLBACK_ERROR)
            return replace(fallback, error=message, notes=prompt().notes)
        return replace(
            choice,
            raw_reply=answer.raw,
            parsed_ids=reply.ids,
            usage=answer.usage,
            model=answer.model,
            attempts=answer.attempts,
            notes=(*prompt().notes, *answer.notes),
        )

    def _prompt(self, client: ChatClient, request: Request, shown: Sequence[Candidate]) -> Prompt:
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
            structured=client.takes_schema,
            situation=situation,
        )

    def _examples(self, request: Request, shown: Sequence[Candidate]) -> Mapping[str, Sequence[str]]:
        """Return the examples of each flow that share the most words with the request."""
        wanted = _words(request.text)
        examples: dict[str, Sequence[str]] = {}
        for candidate in shown:
            flow = self.flows.get(candidate.flow_id)
            if flow is not None:
                nearest = nlargest(_MOST_EXAMPLES, flow.examples, key=lambda example: _overlap(wanted, example))
                examples[candidate.flow_id] = nearest
        return examples


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.casefold()))


def _overlap(wanted: frozenset[str], example: str) -> float:
    """Return the share of words in common (Jaccard)."""
    words = _words(example)
    if not words:
        return 0.0
    return len(wanted & words) / len(wanted | words)
