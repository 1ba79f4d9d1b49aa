"""`FlowSelector`: narrow what there is, decide among what is left, record how."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from jazz_select.errors import EmbeddingError, StoreError
from jazz_select.flow.base import BaseFlow
from jazz_select.llm.adapt import as_chat_model
from jazz_select.llm.callable import ChatCallable
from jazz_select.ports import ChatModel, FlowMemory
from jazz_select.selector.ask import Answer, ask
from jazz_select.selector.cache import PromptCache
from jazz_select.selector.checks import check_options, check_parts, check_probabilities, check_request
from jazz_select.selector.choose import OnEmpty, Thresholds, Verdict, judge, top
from jazz_select.selector.guards import Guards
from jazz_select.selector.narrow import Narrowed, Request, narrow
from jazz_select.selector.prompt import build_prompt, cut
from jazz_select.selector.reply import read_reply
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Candidate, Decision, Latency, Reason, Tier

_log = logging.getLogger(__name__)
_BLANK = "nothing was asked: request and summaries are blank"
_ERROR_LIMIT = 500
"""Characters kept of a model's error, which may quote a whole page."""


class FlowSelector:
    """Finds the flows for a request: recall narrows, a model decides where there is something to decide.

    One selector may be used by many tasks at once.
    """

    def __init__(  # noqa: PLR0913 - the published signature
        self,
        llm: ChatModel | ChatCallable | str | None,
        flow_registry: Mapping[str, BaseFlow],
        proc_mem: FlowMemory | None = None,
        agent_id: str = "",
        top_k: int = 3,
        rrf_k: int = 10,
        *,
        on_empty: OnEmpty = "top1",
        timeout_s: float | None = 20.0,
        fallback_candidates: Sequence[Mapping[str, Any]] = (),
        skip_llm_above: float | None = None,
        abstain_below: float | None = None,
        ambiguous_within: float | None = None,
    ) -> None:
        """Put a selector together.

        Args:
            llm: A chat model, an async function `(messages) -> str`, a model string, or None to take the
                top candidate without asking.
            flow_registry: Flow id to live flow, read anew at each selection.
            proc_mem: Where candidates are recalled from; without it they are given to `select`.
            agent_id: Whose flows to recall.
            top_k: How many candidates to recall.
            rrf_k: The constant of the rank fusion; the lower, the more the first ranks weigh.
            on_empty: What the model's "none fits" leads to: the top candidate, or nothing.
            timeout_s: How long the model may take, in seconds; None for as long as it likes.
            fallback_candidates: Metadata dicts to choose from while the memory cannot answer.
            skip_llm_above: Do without the model where recall's confidence in its top candidate is at least this, such
                as .98 (reason `confident`).
            abstain_below: Choose nothing where P(some flow is right) is below this, such as .3 (reason `none`).
            ambiguous_within: Report candidates whose confidence is this close to the top one's as
                `decision.ambiguous`, so that an agent can ask which is meant.

        Raises:
            ConfigError: An argument cannot work.
        """
        check_parts(flow_registry=flow_registry, proc_mem=proc_mem, agent_id=agent_id)
        check_options(top_k=top_k, rrf_k=rrf_k, timeout_s=timeout_s, on_empty=on_empty)
        self._llm = as_chat_model(llm)
        self._registry = flow_registry
        self._memory = proc_mem
        self._agent_id = agent_id
        self._top_k = top_k
        self._rrf_k = rrf_k
        self._on_empty: OnEmpty = on_empty
        self._timeout_s = timeout_s
        self._fallback = tuple(fallback_candidates)
        check_probabilities(
            skip_llm_above=skip_llm_above, abstain_below=abstain_below, ambiguous_within=ambiguous_within
        )
        self._thresholds = Thresholds(
            skip_llm_above=skip_llm_above, abstain_below=abstain_below, ambiguous_within=ambiguous_within
        )
        self._guards = Guards(flow_registry)
        self._prompts = PromptCache(flow_registry)

    async def select(
        self,
        enhanced_query: str,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        episode_summaries: Sequence[str] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
    ) -> FlowSelectionResult:
        """Find the flows for a request.

        Args:
            enhanced_query: What the user wants.
            candidates: Metadata dicts to choose from, best first, instead of recall; missing keys count as empty.
            episode_summaries: What was said before; helps to find what a vague request is about.
            context: What guards (`BaseFlow.available`) look at.

        Returns:
            The chosen flows, or none with the reason `none`. A failing model is no exception: the top candidate
            is taken, and the decision says so.

        Raises:
            ConfigError: An argument is of the wrong kind.
            StoreError: The memory failed, and there are no fallback candidates.
            EmbeddingError: Likewise.
            FlowValidationError: A chosen flow has a part that cannot be found.
        """
        check_request(enhanced_query=enhanced_query, episode_summaries=episode_summaries, context=context)
        request = Request.of(enhanced_query, episode_summaries)
        if request.blank and candidates is None:
            return _nothing_asked()
        surroundings: Mapping[str, Any] = {} if context is None else context

        began = perf_counter()
        narrowed = await self._narrow(request, candidates, surroundings)
        narrowed_at = perf_counter()
        choice = await self._decide(request, narrowed)
        decided_at = perf_counter()
        latency = Latency(recall_s=narrowed_at - began, choose_s=decided_at - narrowed_at, total_s=decided_at - began)
        return self._record(narrowed, choice, surroundings, latency)

    async def _narrow(
        self, request: Request, given: Sequence[Mapping[str, Any]] | None, context: Mapping[str, Any]
    ) -> Narrowed:
        """The candidates, given or recalled, without those whose guards say no."""
        closed = self._guards.closed(context)
        if given is not None:
            return narrow(given, closed=closed.ids, notes=closed.notes)
        if self._memory is None or not self._agent_id:
            return Narrowed(
                notes=(
                    *closed.notes,
                    "no candidates were given, and without a memory and an agent_id none are recalled",
                )
            )
        try:
            found = await self._recall(self._memory, request, closed.ids)
        except (StoreError, EmbeddingError) as error:
            if not self._fallback:
                raise
            _log.warning(
                "agent_id=<%s>, error=<%s> | recall failed, using the fallback candidates", self._agent_id, error
            )
            note = f"recall failed, so the choice is among the fallback candidates: {error}"
            return narrow(self._fallback, closed=closed.ids, notes=(*closed.notes, note))
        return narrow(found, closed=closed.ids, notes=(*closed.notes, *getattr(found, "notes", ())))

    async def _recall(
        self, memory: FlowMemory, request: Request, closed: frozenset[str]
    ) -> Sequence[Mapping[str, Any]]:
        """Options are passed only where they say something: a memory without them serves all other requests as well."""
        options: dict[str, Any] = {"top_k": self._top_k, "rrf_k": self._rrf_k}
        if closed:
            options["exclude"] = closed
        if request.summaries and getattr(memory, "weighs_context", False):
            options["focus"] = request.query
        return await memory.recall(request.text, self._agent_id, **options)

    async def _decide(self, request: Request, narrowed: Narrowed) -> "_Choice":
        """Who is chosen: without the model where it has nothing to decide, else by one call to it."""
        candidates, known = narrowed.candidates, self._thresholds
        if known.abstains(narrowed.in_scope):
            note = f"abstained: P(in scope) {narrowed.in_scope:.2f} is below {known.abstain_below:g}"
            return _Choice(verdict=Verdict(tier=Tier.OPEN, reason=Reason.NONE), notes=(note,))
        notes = (narrowed.caveat,) if narrowed.caveat and known.need_confidence else ()
        if request.blank and len(candidates) > 1:
            return _Choice(verdict=Verdict(tier=Tier.OPEN, reason=Reason.NONE), notes=(_BLANK,))
        if self._llm is None or len(candidates) <= 1:
            reason = Reason.SEMANTIC if len(candidates) > 1 else Reason.SINGLE
            return _Choice(verdict=top(candidates, self._registry, reason), notes=notes)
        if known.is_sure(candidates, self._registry):
            return _Choice(verdict=top(candidates, self._registry, Reason.CONFIDENT), notes=notes)
        choice = await self._ask_model(self._llm, request, candidates)
        return replace(choice, notes=(*notes, *choice.notes))

    async def _ask_model(self, model: ChatModel, request: Request, candidates: Sequence[Candidate]) -> "_Choice":
        prompt = build_prompt(request.query, request.summaries, candidates)
        try:
            answer = await ask(model, prompt.messages, timeout_s=self._timeout_s)
        except Exception as error:  # noqa: BLE001 - whatever a model fails with, the conversation goes on
            problem = _problem(error)
            _log.warning("error=<%s> | the model failed, falling back to the top candidate", problem)
            fallback = top(candidates, self._registry, Reason.FALLBACK_ERROR)
            return _Choice(verdict=fallback, error=problem, notes=prompt.notes)
        reading = read_reply(answer.text, candidates)
        verdict = judge(reading, candidates, self._registry, on_empty=self._on_empty)
        return _Choice(verdict=verdict, answer=answer, parsed_ids=reading.ids, notes=(*prompt.notes, *answer.notes))

    def _record(
        self, narrowed: Narrowed, choice: "_Choice", context: Mapping[str, Any], latency: Latency
    ) -> FlowSelectionResult:
        """The result, without the flows whose guards no longer agree."""
        verdict = choice.verdict
        self._warn_of(verdict.unresolved, narrowed.candidates)
        chosen = [self._registry[flow_id] for flow_id in verdict.ids]
        closed = self._guards.closed_among(chosen, context)
        flows = [flow for flow in chosen if flow.id not in closed.ids]
        prompts = [self._prompts.prompt(flow) for flow in flows]
        decision = Decision(
            tier=verdict.tier if flows else Tier.OPEN,
            reason=verdict.reason if flows else Reason.NONE,
            chosen_ids=tuple(flow.id for flow in flows),
            candidates=narrowed.candidates,
            raw_reply=choice.answer.text,
            parsed_ids=choice.parsed_ids,
            confidence=narrowed.candidates[0].confidence if narrowed.candidates else None,
            in_scope=narrowed.in_scope,
            ambiguous=self._thresholds.ambiguous(narrowed.candidates),
            latency=latency,
            usage=choice.answer.usage,
            model=choice.answer.model,
            error=choice.error,
            notes=(*narrowed.notes, *choice.notes, *(f"after the choice: {note}" for note in closed.notes)),
        )
        return FlowSelectionResult(
            chosen_flows=flows,
            chosen_prompts=prompts,
            combined_prompt="\n\n".join(prompts),
            unresolved_ids=list(verdict.unresolved),
            candidates=list(narrowed.metadata),
            decision=decision,
        )

    def _warn_of(self, unresolved: Sequence[str], candidates: Sequence[Candidate]) -> None:
        offered = {candidate.flow_id for candidate in candidates}
        for flow_id in unresolved:
            if flow_id in offered:
                why = "in the index but not in the registry; run sync_registry"
            else:
                why = "registered but not offered" if flow_id in self._registry else "unknown"
            _log.warning("flow_id=<%s> | flow is not run: %s", flow_id, why)


def _problem(error: Exception) -> str:
    """What went wrong, of an error that may not even be able to say so."""
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        said = ""
    return cut(f"{type(error).__name__}: {said}".removesuffix(": "), _ERROR_LIMIT)


def _nothing_asked() -> FlowSelectionResult:
    return FlowSelectionResult(decision=Decision(tier=Tier.OPEN, reason=Reason.NONE, notes=(_BLANK,)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """A verdict, and what the model had to do with it."""

    verdict: Verdict
    answer: Answer = field(default_factory=Answer)
    parsed_ids: tuple[str, ...] = ()
    error: str = ""
    notes: tuple[str, ...] = ()
