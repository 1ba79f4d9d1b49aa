"""`FlowSelector`: narrow what there is, decide among what is left, record how."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from jazz_select import outcomes
from jazz_select.arguments import Constraint, Methods, Positive, Probability, check_argument, checked
from jazz_select.chat.client import ChatClient
from jazz_select.chat.decisions import DeciderLike, decision_client_for
from jazz_select.chat.models import ModelLike, as_chat_model
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.ports import Capability, FlowMemory
from jazz_select.selector.asking import open_question
from jazz_select.selector.calibration import Budget, Calibration, Cascade, labelled
from jazz_select.selector.candidates_stage import (
    Availability,
    CandidateSet,
    CandidateSource,
    Request,
    SelectRequest,
    Unavailable,
    candidate_sets,
    fused,
    side_by_side,
)
from jazz_select.selector.choice import (
    BLANK,
    Choice,
    Choosing,
    Heard,
    ModelChoice,
    Settling,
    warn_of,
)
from jazz_select.selector.decider import Deciding
from jazz_select.selector.prompt import Situation
from jazz_select.selector.result import FlowSelectionResult, note_selection, nothing_found, prompt_of
from jazz_select.selector.selector_options import Context, Coverage, ModelOptions, OnEmpty, TimeLimit, TopK
from jazz_select.stages import UserQuestion
from jazz_select.telemetry import span
from jazz_select.values import COVERAGE, Decision, Latency, Reason, Tier

if TYPE_CHECKING:
    from jazz_select.selector.feedback import Outcomes

_WITHOUT_A_FLOW = (Reason.UNASKED, Reason.ASK)


class PromptCache:
    """The compact prompts of flows by id; a flow whose checksum changed is built anew, one that is gone is dropped."""

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._built: dict[str, tuple[str, str]] = {}

    async def prompt(self, flow: BaseFlow) -> str:
        """`flow.build_prompt(verbose=False)`, built only if this definition was not built before."""
        checksum = flow.compute_checksum()
        known = self._built.get(flow.id)
        if known is not None and known[0] == checksum:
            return known[1]
        prompt = await prompt_of(flow)
        self._built[flow.id] = (checksum, prompt)
        if len(self._built) > len(self._registry):
            self._built = {flow_id: built for flow_id, built in self._built.items() if flow_id in self._registry}
        return prompt

    def __len__(self) -> int:
        return len(self._built)


class FlowSelector:
    """Finds the flows for a request: recall narrows, a model decides where there is something to decide.

    One selector may be used by many tasks at once.

    Attributes:
        agent_id: Whose flows it finds.
        capabilities: That `select` may be told where in a conversation it is asked.
    """

    capabilities: ClassVar[tuple[Capability, ...]] = ("situation",)

    @checked
    def __init__(  # noqa: PLR0913 - the published signature
        self,
        llm: ModelLike | None,
        flow_registry: Annotated[
            Mapping[str, BaseFlow], Constraint("a mapping of flow id to flow, such as BaseFlow.registry")
        ],
        proc_mem: Annotated[
            FlowMemory, Methods("a memory with `async recall(query, agent_id, top_k, rrf_k)`", "recall")
        ]
        | None = None,
        agent_id: str = "",
        top_k: TopK = 3,
        rrf_k: Positive = 10,
        *,
        coverage: Coverage = COVERAGE,
        on_empty: OnEmpty = "top1",
        timeout_s: TimeLimit = 20.0,
        model_options: ModelOptions = ModelOptions(),  # noqa: B008 - it is frozen
        cascade: Cascade = Cascade(),  # noqa: B008 - likewise
        log: "outcomes.OutcomeLog | str | PathLike[str] | None" = None,
        decider: DeciderLike | None = None,
        max_error: Probability | None = None,
        ask_user: bool = False,
    ) -> None:
        """Put a selector together.

        Args:
            llm: A chat model, an async function `(messages) -> str`, a model string, a pydantic-ai `Model`, or None to
                take the top candidate without asking.
            flow_registry: Flow id to live flow, read anew at each selection.
            proc_mem: Where candidates are recalled from; without it they are given to `select`.
            agent_id: Whose flows to recall.
            top_k: How many candidates to recall; "auto" for as few, from 1 to 10, as hold the right one with
                probability `coverage`. `decision.sized` says how many those are, and why.
            rrf_k: The constant of the rank fusion; the lower, the more the first ranks weigh.
            coverage: What "auto" promises, from .5 to .999.
            on_empty: What the model's "none fits" leads to: the top candidate, or nothing.
            timeout_s: How long the model may take for one selection, in seconds, queueing, retries and asking again
                included; None for as long as it likes.
            model_options: How long a prompt may be, and how often and how many at once the models are asked.
            cascade: From which confidence on recall decides without the model, and what labelled requests taught of it.
            log: Where each selection is kept, and what was right where somebody says so: an `OutcomeLog`, or a path.
                It holds what users asked; nothing is kept where None.
            decider: A decision model, asked before `llm` where recall is not sure enough: an object with `async
                decide(state, questions)`, a pydantic-ai `DecisionModel`, or a model string; a `DecisionClient` has
                bounds of its own. Without `max_error` it decides from .98 on.
            max_error: The share of answers that may be wrong of those that are given without `llm`, such as .01; the
                `max_error` of a flow comes before it. It replaces `cascade.skip_llm_above`. See `decision.stages`.
            ask_user: Where two or three flows are left and no model may decide, choose none (reason `ask`) and say
                what the user is to be asked, as `decision.question`.

        Raises:
            ConfigError: An argument cannot work.
            OutcomeLogError: The file of the log cannot be used.
        """
        self.agent_id = agent_id
        self._registry = flow_registry
        self._at_once = model_options.max_concurrency
        self._guards = Availability(flow_registry)
        self._prompts = PromptCache(flow_registry)
        self._narrower = CandidateSource(
            memory=proc_mem,
            agent_id=agent_id,
            top_k=top_k,
            coverage=coverage,
            rrf_k=rrf_k,
            guards=self._guards,
        )
        model = as_chat_model(llm)
        retries, at_once = model_options.max_retries, model_options.max_concurrency
        self._decider = decision_client_for(decider, max_retries=retries, max_concurrency=at_once)
        settling = Settling(
            asks=model is not None or self._decider is not None,
            on_empty=on_empty,
            coverage=coverage,
            cascade=cascade,
        )
        self._made_decider = self._decider is not decider
        self._client: ChatClient | None = None
        if model is not None:
            owned = isinstance(llm, str)
            self._client = ChatClient(model, max_retries=retries, max_concurrency=at_once, owned=owned)
        asked: ModelChoice | None = None
        if self._client is not None:
            asked = ModelChoice(client=self._client, flows=flow_registry, on_empty=on_empty, options=model_options)
        self._choosing = Choosing(
            flows=flow_registry,
            settling=settling,
            budget=Budget(max_error=max_error, flows=flow_registry, calibration=cascade.calibration),
            model=asked,
            decider=None if self._decider is None else Deciding(self._decider),
            ask_user=ask_user,
            timeout_s=timeout_s,
        )
        self._outcomes: Outcomes | None = None
        if log is not None:
            from jazz_select.selector import feedback

            self._outcomes = feedback.Outcomes(log, agent_id, flow_registry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of a model that was given as a string, and a log that was given as a path.

        Any other, and the memory, are their makers'.
        """
        if self._client is not None:
            await self._client.aclose()
        if self._decider is not None and self._made_decider:
            await self._decider.aclose()
        if self._outcomes is not None:
            await self._outcomes.close()

    @property
    def flow_registry(self) -> Mapping[str, BaseFlow]:
        """Flow id to live flow."""
        return self._registry

    @property
    def has_model(self) -> bool:
        """Whether a model chooses where there is a choice."""
        return self._client is not None

    async def select(  # noqa: PLR0913 - options with a name
        self,
        enhanced_query: str,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        episode_summaries: Sequence[str] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        only: Collection[str] | None = None,
        situation: Situation | None = None,
        asked: Decision | UserQuestion | None = None,
    ) -> FlowSelectionResult:
        """Find the flows for a request.

        Args:
            enhanced_query: What the user wants.
            candidates: Metadata dicts to choose from, best first, instead of recall; missing keys count as empty.
            episode_summaries: What was said before; helps to find what a vague request is about.
            context: What guards (`BaseFlow.available`) look at.
            only: Recall among the flows of these ids alone, such as the branches of a conditional flow.
            situation: Where in a conversation it is asked: what was said, and the flows that were begun, which are
                offered as well, can be gone on with and called off. Then a model's "none" means none, whatever
                `on_empty` says, and recall has to be as sure that it is a request for a flow at all. Where its
                `growing` says what was shown before, the prompt grows from there. Without a model it says no more than
                that it is asked in a conversation.
            asked: The decision with the question that `enhanced_query` answers, or the question. Where the answer
                names one of its flows, by number, title or words, that one is taken (reason `user`); a number that
                none has is asked about once more. Anything else is a request like any other, read with what was
                asked for before; and alone, with a note, where the decision carries no question.

        Returns:
            The chosen flows, or none with the reason `none`. A failing model is no exception: the top candidate
            is taken, and the decision says so.

        Raises:
            ConfigError: An argument is of the wrong kind.
            StoreError: The memory failed.
            EmbeddingError: Likewise.
            FlowValidationError: A chosen flow has a part that cannot be found.
        """
        one = SelectRequest(enhanced_query, candidates, episode_summaries, only, asked)
        heard = self._heard(one, context, situation)
        request, surroundings = heard.request, context or {}
        if heard.answers is not None:
            return await self._answered(request.query, *heard.answers, surroundings)
        if request.blank and candidates is None and not request.under_way:
            return nothing_found(*heard.notes, BLANK)

        began = perf_counter()
        with span("select", "decision") as traced:
            if candidates is None:
                narrowed = fused(await self._narrower.recalled(request.ways, surroundings, only=only))
            else:
                narrowed = await self._narrower.given(candidates, surroundings)
            done = [self._registry[each] for each in request.done if each in self._registry and narrowed.candidates]
            closed = (await self._guards.closed_among(done, surroundings)).ids
            begun = [self._registry[each] for each in request.under_way if each in self._registry]
            narrowed = narrowed.joined_by((*begun, *(flow for flow in done if flow.id not in closed)), heard.notes)
            result = await self._chosen(request, narrowed, surroundings, began)
            if traced is not None:
                note_selection(traced, enhanced_query, result)
            return result

    async def select_many(
        self,
        requests: Sequence[str | SelectRequest],
        *,
        context: Mapping[str, Any] | None = None,
        ask: bool = True,
    ) -> list[FlowSelectionResult]:
        """Find the flows for several requests, each by itself, in their order.

        They are embedded and recalled together; the model is asked about each as `select` asks it, at most
        `model_options.max_concurrency` at a time, and `timeout_s` counts from when its turn comes.

        Args:
            requests: What the users want, as texts or with what `select` takes beside.
            context: What guards look at, for all of them.
            ask: Ask the model where there is something to choose. Without, nothing is chosen there (reason
                `unasked`), and all else is as it would be: what a catalogue leads to, seen ahead and for nothing.

        Raises:
            ConfigError: An argument is of the wrong kind.
            StoreError: The memory failed.
            EmbeddingError: Likewise.
        """
        asked = [each if isinstance(each, SelectRequest) else SelectRequest(each) for each in requests]
        heard, surroundings = [self._heard(each, context) for each in asked], context or {}
        looked_for = [None if each.answers else each.request for each in heard]
        narrowed = await candidate_sets(asked, looked_for, self._narrower, surroundings)

        async def one(said: Heard, left: CandidateSet | None) -> FlowSelectionResult:
            if said.answers is not None:
                return await self._answered(said.request.query, *said.answers, surroundings)
            if left is None:
                return nothing_found(*said.notes, BLANK)
            told = left.joined_by((), said.notes)
            return await self._chosen(said.request, told, surroundings, perf_counter(), ask=ask)

        calls = [partial(one, *each) for each in zip(heard, narrowed, strict=True)]
        return await side_by_side(calls, at_once=self._at_once)

    async def feedback(self, result: FlowSelectionResult | str, *, right: Sequence[str] | str, note: str = "") -> None:
        """Keep what was right for a selection, in the selector's log: `jazz-select learn` makes use of it.

        Said again, the last counts.

        Args:
            result: What was selected, or its `logged`.
            right: The names of the flows that were right, or of the one; none where nothing fits.
            note: What there is to say of it.

        Raises:
            ConfigError: There is no log, no such entry, or no such flow.
            OutcomeLogError: It could not be written.
        """
        if self._outcomes is None:
            msg = "this selector keeps no log, so nothing is known of earlier selections: FlowSelector(…, log=PATH)"
            raise ConfigError(msg)
        await self._outcomes.keep_right(result, right, note)

    async def calibrate(self, cases: Sequence[tuple[str, str | None]]) -> Calibration:
        """Learn how sure the stages are from labelled requests, and go by it from now on.

        The decision model is asked about each; a hundred requests say something, ten hardly do.

        Args:
            cases: Requests, each with the name of the flow that is right; None where none is. Others than the
                examples, and such as users write.

        Returns:
            What was learned: for another process, `FlowSelector(…, cascade=Cascade(calibration=…))`.

        Raises:
            ConfigError: A case names a flow that there is not, or nothing is recalled.
            StoreError: The memory failed.
            EmbeddingError: Likewise.
            ModelError: The decision model answered none of them.
        """
        return await self._choosing.calibrate(await labelled(cases, self._registry, self._narrower))

    def hint(self, entry: str, *, right: Sequence[str], note: str = "") -> None:
        """Keep what the way a conversation went on says of a selection: weaker than `feedback`, and never waited for.

        Args:
            entry: The `logged` of its result; where that is empty, nothing is kept.
            right: Names of flows that seem to have been meant; none where what was chosen was called off.
            note: What happened.
        """
        if self._outcomes is not None:
            self._outcomes.hinted(entry, right, note)

    def _heard(
        self, asked: SelectRequest, context: Mapping[str, Any] | None, situation: Situation | None = None
    ) -> Heard:
        check_argument("context", context, Context)
        read = self.has_model or (situation is not None and situation.reader is not None)
        request = Request.of(asked.enhanced_query, asked.episode_summaries, situation, has_model=read)
        return Heard(request=request) if asked.asked is None else self._choosing.heard(asked, request)

    async def _chosen(
        self, request: Request, narrowed: CandidateSet, context: Mapping[str, Any], began: float, *, ask: bool = True
    ) -> FlowSelectionResult:
        """The stages after recall, up to where a model would be asked or to the end, and the record of all."""
        narrowed_at = perf_counter()
        choice = await self._choosing.choose(request, narrowed, recall_s=narrowed_at - began, ask=ask)
        decided_at = perf_counter()
        latency = Latency(recall_s=narrowed_at - began, choose_s=decided_at - narrowed_at, total_s=decided_at - began)
        result = await self._record(narrowed, choice, context, latency)
        return self._outcomes.noted(request, result) if ask and self._outcomes is not None else result

    async def _answered(
        self, answer: str, choice: Choice, question: UserQuestion, context: Mapping[str, Any]
    ) -> FlowSelectionResult:
        """What a user said in answer to a question decides; only the guards are asked once more."""
        began = perf_counter()
        with span("select", "decision") as traced:
            offered = {each.flow_id: self._registry.get(each.flow_id) for each in question.options}
            live = [flow for flow in offered.values() if flow is not None]
            closed = await self._guards.closed_among(live, context)
            narrowed = CandidateSet().joined_by(flow for flow in live if flow.id not in closed.ids)
            latency = Latency(total_s=perf_counter() - began)
            result = await self._record(narrowed, choice, context, latency, closed=closed)
            if traced is not None:
                note_selection(traced, answer, result)
        request = Request.of(question.request or answer, None)
        return result if self._outcomes is None else self._outcomes.noted(request, result)

    async def _record(
        self,
        narrowed: CandidateSet,
        choice: Choice,
        context: Mapping[str, Any],
        latency: Latency,
        *,
        closed: Unavailable | None = None,
    ) -> FlowSelectionResult:
        """The result, without the flows whose guards no longer agree; they are asked here, where nobody asked them."""
        warn_of(choice.unresolved, narrowed.candidates, self._registry)
        chosen = [self._registry[flow_id] for flow_id in choice.chosen_ids]
        closed = await self._guards.closed_among(chosen, context) if closed is None else closed
        flows = [flow for flow in chosen if flow.id not in closed.shut]
        gone = Unavailable({each: closed.shut[each] for each in choice.chosen_ids if each in closed.shut})
        prompts = [await self._prompts.prompt(flow) for flow in flows]
        told = choice.called_off or choice.confirmed or choice.values or choice.unclear
        settled = flows or told or choice.reason in _WITHOUT_A_FLOW
        known: dict[str, Any] = {each.name: getattr(choice, each.name) for each in fields(Decision)}
        decision = replace(
            Decision(**known),
            tier=choice.tier if settled else Tier.OPEN,
            reason=choice.reason if settled else Reason.NONE,
            chosen_ids=tuple(flow.id for flow in flows),
            candidates=narrowed.candidates,
            confidence=narrowed.candidates[0].confidence if narrowed.candidates else None,
            in_scope=narrowed.in_scope,
            sized=narrowed.sized,
            recalled_by=narrowed.recalled_by,
            latency=latency,
            notes=(*narrowed.notes, *choice.notes, *(f"after the choice: {note}" for note in gone.notes)),
            question=choice.question and open_question(choice.question, narrowed.candidates),
        )
        return FlowSelectionResult(
            chosen_flows=flows,
            chosen_prompts=prompts,
            combined_prompt="\n\n".join(prompts),
            unresolved_ids=list(choice.unresolved),
            candidates=list(narrowed.metadata),
            decision=decision,
        )
