"""`FlowSelector`: narrow the flows, decide among the rest, and record how."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import partial
from os import PathLike
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from jazz_select import outcomes
from jazz_select.arguments import Constraint, Methods, Positive, check_argument, checked
from jazz_select.chat.client import ChatClient
from jazz_select.chat.decisions import DeciderLike, decision_client_for
from jazz_select.chat.models import ModelLike, as_chat_model
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.ports import Capability, FlowMemory
from jazz_select.selector.asking import open_question
from jazz_select.selector.calibration import Calibration
from jazz_select.selector.candidates_stage import (
    Availability,
    CandidateSet,
    CandidateSource,
    Request,
    SelectRequest,
    Unavailable,
    candidate_sets,
    fuse,
    side_by_side,
)
from jazz_select.selector.known_requests import KnownRequests
from jazz_select.selector.pipeline import Pipeline, warn_of
from jazz_select.selector.policy import Policy, PolicyLike, policy_of
from jazz_select.selector.prompt import ConversationContext
from jazz_select.selector.recall_stage import BLANK
from jazz_select.selector.result import FlowSelectionResult, note_selection, nothing_found, prompt_of
from jazz_select.selector.selector_options import Context, ModelOptions, TimeLimit
from jazz_select.selector.stage import AuditedEntry, Choice
from jazz_select.selector.user_stage import ReadRequest
from jazz_select.stages import UserQuestion
from jazz_select.telemetry import span
from jazz_select.values import COVERAGE, Decision, Latency, Reason, Source, Tier, TopK

if TYPE_CHECKING:
    from jazz_select.outcomes.audit import Audit
    from jazz_select.selector.feedback import Outcomes

_WITHOUT_A_FLOW = (Reason.UNASKED, Reason.ASK)


class PromptCache:
    """A cache of compact prompts by flow id; a changed checksum renders a prompt again, a deleted flow drops it."""

    def __init__(self, registry: Mapping[str, BaseFlow]) -> None:
        self._registry = registry
        self._built: dict[str, tuple[str, str]] = {}

    async def prompt(self, flow: BaseFlow) -> str:
        """Return `flow.build_prompt(verbose=False)`, rendered once per definition."""
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
    """Selects flows for a request: recall narrows, and a model decides if more than one flow is left.

    One selector may be used by many tasks at once.

    Attributes:
        agent_id: The agent whose flows it selects.
        capabilities: "situation": `select` takes the situation of a conversation.
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
        policy: PolicyLike = Policy(),  # noqa: B008 - it is frozen
        timeout_s: TimeLimit = 20.0,
        model_options: ModelOptions = ModelOptions(),  # noqa: B008 - it is frozen
        calibration: Annotated[Calibration, Constraint("what `await selector.calibrate(cases)` gave")] = Calibration(),  # noqa: B008
        log: "outcomes.OutcomeLog | str | PathLike[str] | None" = None,
        decider: DeciderLike | None = None,
    ) -> None:
        """Create a selector.

        Args:
            llm: A chat model, an async function `(messages) -> str`, a model string or a pydantic-ai `Model`. With
                None, the first candidate is chosen.
            flow_registry: Live flows by id, read at each selection.
            proc_mem: The memory that candidates are recalled from; without one, pass candidates to `select`.
            agent_id: The agent whose flows are recalled.
            top_k: Number of candidates; "auto" for the fewest, from 1 to 10, that hold the right flow in 98 of 100
                requests. `decision.sized` explains an automatic number.
            rrf_k: Constant of reciprocal rank fusion; the lower, the more the first ranks weigh.
            policy: How sure an answer must be to be given without the chat model, and what follows if none is: a
                `Policy`, or "default", "recommended" or "cautious".
            timeout_s: Seconds that the model may take for one selection, with queueing and retries; None for no limit.
            model_options: Limits of prompts, retries and concurrency.
            calibration: What `calibrate` learned from labelled requests, here or in another process.
            log: An `OutcomeLog`, or a path, that keeps each selection and its feedback, with what users asked. None
                keeps nothing.
            decider: A decision model that is asked before `llm` if recall is not sure: an object with `async
                decide(state, questions)`, a pydantic-ai `DecisionModel` or a model string; a `DecisionClient` has
                limits of its own. Without `policy.max_error` it decides at a confidence of .98.

        Raises:
            ConfigError: An argument is invalid.
            OutcomeLogError: The file of the log cannot be used.
        """
        self.agent_id = agent_id
        self._registry = flow_registry
        self._at_once = model_options.max_concurrency
        self._timeout_s = timeout_s
        self._guards = Availability(flow_registry)
        self._prompts = PromptCache(flow_registry)
        self._narrower = CandidateSource(
            memory=proc_mem,
            agent_id=agent_id,
            top_k=top_k,
            coverage=COVERAGE,
            rrf_k=rrf_k,
            guards=self._guards,
        )
        model = as_chat_model(llm)
        retries, at_once = model_options.max_retries, model_options.max_concurrency
        self._decider = decision_client_for(decider, max_retries=retries, max_concurrency=at_once)
        self._made_decider = self._decider is not decider
        self._client: ChatClient | None = None
        if model is not None:
            owned = isinstance(llm, str)
            self._client = ChatClient(model, max_retries=retries, max_concurrency=at_once, owned=owned)
        self._known = KnownRequests(flow_registry)
        self._pipeline = Pipeline(
            flows=flow_registry,
            policy=policy_of(policy),
            calibration=calibration,
            chat=self._client,
            decider=self._decider,
            options=model_options,
            timeout_s=timeout_s,
        )
        self._outcomes: Outcomes | None = None
        if log is not None:
            from jazz_select.selector import feedback

            self._outcomes = feedback.Outcomes(
                log,
                agent_id,
                flow_registry,
                promise=self.policy.allowed_error,
                audit_share=model_options.audit_share,
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close a model that was given as a string, and a log that was given as a path.

        Other models and logs, and the memory, are the caller's to close.
        """
        if self._client is not None:
            await self._client.aclose()
        if self._decider is not None and self._made_decider:
            await self._decider.aclose()
        if self._outcomes is not None:
            await self._outcomes.close()

    @property
    def flow_registry(self) -> Mapping[str, BaseFlow]:
        """Live flows by id."""
        return self._registry

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._pipeline.policy

    @property
    def audit(self) -> "Audit | None":
        """What was measured of the promise (`policy.max_error`); None without a log, or before it taught recall."""
        return None if self._outcomes is None else self._outcomes.audit

    async def measure(self) -> "Audit | None":
        """Measure the promise in the log now, and raise or lower thresholds accordingly; None without a log."""
        if self._outcomes is not None:
            await self._outcomes.measure()
        return self.audit

    @property
    def has_model(self) -> bool:
        """Whether there is a chat model."""
        return self._client is not None

    @property
    def has_decider(self) -> bool:
        """Whether there is a decision model, which takes a part of the error budget."""
        return self._decider is not None

    async def select(  # noqa: PLR0913 - options with a name
        self,
        enhanced_query: str,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        episode_summaries: Sequence[str] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        only: Collection[str] | None = None,
        situation: ConversationContext | None = None,
        asked: Decision | UserQuestion | None = None,
    ) -> FlowSelectionResult:
        """Select the flows for a request.

        Args:
            enhanced_query: The request.
            candidates: Metadata dicts to choose from, best first, in place of recall; missing keys count as empty.
            episode_summaries: Summaries of earlier turns, which help with vague requests.
            context: Data for guards (`BaseFlow.available`).
            only: Ids of the flows to recall among, such as the branches of a conditional flow.
            situation: The conversation of the request: what was said, and the flows that were begun. These are offered
                too, and may be continued or called off. A model's "none" then means none, whatever `on_empty` is, and
                recall also has to be sure that the request is for some flow. With `growing`, the prompt is
                append-only. Without a model, a situation only says that there is a conversation.
            asked: The question that `enhanced_query` answers, or the decision with it. If the answer names one of the
                flows, by number, title or words, that flow is chosen (reason `user`). A number out of range is asked
                about once more. Any other answer is a new request, read with the earlier one; or alone, with a note,
                if the decision has no question.

        Returns:
            The chosen flows, or none with the reason `none`. If the model fails, the first candidate is chosen, and
            the decision says so.

        Raises:
            ConfigError: An argument is invalid.
            StoreError: The memory failed.
            EmbeddingError: The embedder failed.
            FlowValidationError: A chosen flow has a part that cannot be found.
        """
        one = SelectRequest(enhanced_query, candidates, episode_summaries, only, asked)
        read = self._read_request(one, context, situation)
        request, surroundings = read.request, context or {}
        if read.answers is not None:
            return await self._result_of_answer(request.query, *read.answers, surroundings)
        if request.blank and candidates is None and not request.under_way:
            return nothing_found(*read.notes, BLANK)

        began = perf_counter()
        with span("select", "decision") as traced:
            if candidates is None:
                narrowed = fuse(await self._narrower.recall_each(request.ways, surroundings, only=only))
            else:
                narrowed = await self._narrower.from_caller(candidates, surroundings)
            of_conversation = await self._flows_of_conversation(request, narrowed, surroundings)
            narrowed = narrowed.with_flows(of_conversation, read.notes)
            known = await self._find_known(request, narrowed, surroundings, only=only, given=candidates)
            result = await self._run_stages(request, narrowed, surroundings, began, known=known)
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
        """Select the flows for several requests; the results are in their order.

        The requests are embedded and recalled together. The model is asked about each one, for at most
        `model_options.max_concurrency` requests at a time; the time of each counts from its start.

        Args:
            requests: Requests as texts, or with the other arguments of `select`.
            context: Data for guards, for all requests.
            ask: Whether to ask the model. If False, requests for the model have no chosen flow (reason `unasked`), and
                the others are answered as usual: a free preview of a catalogue.

        Raises:
            ConfigError: An argument is invalid.
            StoreError: The memory failed.
            EmbeddingError: The embedder failed.
        """
        asked = [each if isinstance(each, SelectRequest) else SelectRequest(each) for each in requests]
        reads = [self._read_request(each, context) for each in asked]
        surroundings = context or {}
        # An answer to a question is not searched.
        searched = [None if each.answers else each.request for each in reads]
        narrowed = await candidate_sets(asked, searched, self._narrower, surroundings)

        async def select(one: SelectRequest, read: ReadRequest, found: CandidateSet | None) -> FlowSelectionResult:
            if read.answers is not None:
                return await self._result_of_answer(read.request.query, *read.answers, surroundings)
            if found is None:
                return nothing_found(*read.notes, BLANK)
            offered = found.with_flows((), read.notes)
            known = await self._find_known(read.request, offered, surroundings, only=one.only, given=one.candidates)
            return await self._run_stages(read.request, offered, surroundings, perf_counter(), known=known, ask=ask)

        calls = [partial(select, *each) for each in zip(asked, reads, narrowed, strict=True)]
        return await side_by_side(calls, at_once=self._at_once)

    async def feedback(
        self,
        result: FlowSelectionResult | str,
        *,
        right: Sequence[str] | str,
        note: str = "",
        source: Source | None = None,
    ) -> None:
        """Log the right flows of a selection, for `jazz-select learn`; the last feedback of a source counts.

        Args:
            result: The selection, or its `logged`.
            right: Names of the right flows, or one name; empty if no flow fits.
            note: A comment.
            source: Who says it, such as `Source(kind="person", name="ada")` for a reviewer, whose word stands against
                that of users; by default a user.

        Raises:
            ConfigError: There is no log, no such entry of this agent, or no such flow.
            OutcomeLogError: It could not be written.
        """
        if self._outcomes is None:
            msg = "this selector keeps no log, so nothing is known of earlier selections: FlowSelector(…, log=PATH)"
            raise ConfigError(msg)
        await self._outcomes.keep_right(result, right, note, source)

    async def calibrate(self, cases: Sequence[tuple[str, str | None]]) -> Calibration:
        """Calibrate the confidence of the stages on labelled requests, and use it from now on.

        The decision model is asked about each request. A hundred requests are useful, ten hardly are.

        Args:
            cases: Requests with the name of the right flow, or None if no flow is right. Use requests as users write
                them, and not the examples.

        Returns:
            The calibration; another process takes it as `FlowSelector(…, calibration=…)`.

        Raises:
            ConfigError: A case names a flow that there is not, or nothing is recalled.
            StoreError: The memory failed.
            EmbeddingError: The embedder failed.
            ModelError: The decision model answered none of them.
        """
        from jazz_select.selector import calibrating

        samples = await calibrating.recall_cases(cases, self._registry, self._narrower)
        learned = await calibrating.calibrate(samples, self._decider, timeout_s=self._timeout_s)
        self._pipeline.recalibrate(learned)
        return learned

    def hint(self, entry: str, *, right: Sequence[str], note: str = "") -> None:
        """Log what the rest of a conversation implies about a selection: weaker than `feedback`, in the background.

        Args:
            entry: The `logged` of the selection; nothing happens if it is empty.
            right: Names of the flows that seem right; empty if the chosen flow was called off.
            note: What happened.
        """
        if self._outcomes is not None and entry:
            self._outcomes.log.hint(entry, right, note=note)

    def _read_request(
        self, asked: SelectRequest, context: Mapping[str, Any] | None, situation: ConversationContext | None = None
    ) -> ReadRequest:
        check_argument("context", context, Context)
        self._guards.check_selectable(asked.only)
        has_model = self.has_model or (situation is not None and situation.reader is not None)
        request = Request.from_query(asked.enhanced_query, asked.episode_summaries, situation, has_model=has_model)
        if asked.asked is None:
            return ReadRequest(request=request)
        return self._pipeline.user.read_request(asked, request)

    async def _flows_of_conversation(
        self, request: Request, narrowed: CandidateSet, context: Mapping[str, Any]
    ) -> list[BaseFlow]:
        """Return the flows under way, and beside candidates those done last, as far as they are available."""
        offered = [self._registry[each] for each in request.under_way if each in self._registry]
        if not narrowed.candidates:
            return offered
        done_last = [self._registry[each] for each in request.done if each in self._registry]
        selectable = [flow for flow in done_last if not flow.only_called]
        closed = await self._guards.closed_among(selectable, context)
        return offered + [flow for flow in selectable if flow.id not in closed.ids]

    async def _find_known(
        self,
        request: Request,
        narrowed: CandidateSet,
        context: Mapping[str, Any],
        *,
        only: Collection[str] | None,
        given: Sequence[Mapping[str, Any]] | None,
    ) -> str:
        """Return the id of the flow that is known for this request, word for word; empty if it may not be chosen.

        A flow that recall did not find may be, unless the caller chose the candidates or its guard is closed.
        """
        known = self._known.flow_of(request.own_words)
        if not known or any(each.flow_id == known for each in narrowed.candidates):
            return known
        if given is not None or not narrowed.candidates or (only is not None and known not in only):
            return ""
        closed = await self._guards.closed_among([self._registry[known]], context)
        # The flow may have left the registry while its guard ran.
        if known in closed.ids or known not in self._registry:
            return ""
        return known

    async def _run_stages(
        self,
        request: Request,
        narrowed: CandidateSet,
        context: Mapping[str, Any],
        began: float,
        *,
        known: str = "",
        ask: bool = True,
    ) -> FlowSelectionResult:
        """Run the stages after recall, up to the chat model or to the end, and record them."""
        if known:
            narrowed = narrowed.with_flows([self._registry[known]])
        narrowed = self._pipeline.calibrate(narrowed)
        narrowed_at = perf_counter()
        outcomes = self._outcomes if ask else None
        audited = AuditedEntry() if outcomes is None else await outcomes.begin(request, narrowed)
        recall_s = narrowed_at - began
        choice = await self._pipeline.run(request, narrowed, recall_s=recall_s, known=known, ask=ask, audited=audited)
        decided_at = perf_counter()
        latency = Latency(recall_s=recall_s, choose_s=decided_at - narrowed_at, total_s=decided_at - began)
        result = await self._record(narrowed, choice, context, latency)
        if outcomes is None:
            return result
        is_free = not narrowed.limits or (narrowed.limits == "guards" and bool(result.names))
        result = outcomes.record(
            request, result, alone=request.opens and is_free, is_sure=choice.is_sure, entry=audited.id
        )
        await outcomes.end(result, is_sure=choice.is_sure)
        return result

    async def _result_of_answer(
        self, answer: str, choice: Choice, question: UserQuestion, context: Mapping[str, Any]
    ) -> FlowSelectionResult:
        """Return the selection by the user's answer to a question; only the guards run again."""
        began = perf_counter()
        with span("select", "decision") as traced:
            offered = {each.flow_id: self._registry.get(each.flow_id) for each in question.options}
            live = [flow for flow in offered.values() if flow is not None]
            closed = await self._guards.closed_among(live, context)
            narrowed = CandidateSet().with_flows(flow for flow in live if flow.id not in closed.ids)
            latency = Latency(total_s=perf_counter() - began)
            result = await self._record(narrowed, choice, context, latency, closed=closed)
            if traced is not None:
                note_selection(traced, answer, result)
        if self._outcomes is None:
            return result
        request = Request.from_query(question.request or answer, None)
        return self._outcomes.record(request, result, alone=request.opens)

    async def _record(
        self,
        narrowed: CandidateSet,
        choice: Choice,
        context: Mapping[str, Any],
        latency: Latency,
        *,
        closed: Unavailable | None = None,
    ) -> FlowSelectionResult:
        """Return the result without flows whose guards refuse; guards that have not run yet run here."""
        warn_of(choice.unresolved, narrowed.candidates, self._registry)
        chosen = [self._registry[flow_id] for flow_id in choice.chosen_ids]
        if closed is None:
            closed = await self._guards.closed_among(chosen, context)
        flows = [flow for flow in chosen if flow.id not in closed.closed_by_guard]
        refused = {each: closed.closed_by_guard[each] for each in choice.chosen_ids if each in closed.closed_by_guard}
        prompts = [await self._prompts.prompt(flow) for flow in flows]
        instructs = choice.called_off or choice.confirmed or choice.values or choice.unclear
        is_settled = flows or instructs or choice.reason in _WITHOUT_A_FLOW
        late_notes = [f"after the choice: {note}" for note in Unavailable(refused).notes]
        known: dict[str, Any] = {each.name: getattr(choice, each.name) for each in fields(Decision)}
        known.update(
            tier=choice.tier if is_settled else Tier.OPEN,
            reason=choice.reason if is_settled else Reason.NONE,
            chosen_ids=tuple(flow.id for flow in flows),
            candidates=narrowed.candidates,
            confidence=narrowed.confidence,
            p_none=narrowed.p_none,
            sized=narrowed.sized,
            recalled_by=narrowed.recalled_by,
            latency=latency,
            notes=(*narrowed.notes, *choice.notes, *late_notes),
            question=choice.question and open_question(choice.question, narrowed.candidates),
        )
        return FlowSelectionResult(
            chosen_flows=flows,
            chosen_prompts=prompts,
            combined_prompt="\n\n".join(prompts),
            unresolved_ids=list(choice.unresolved),
            candidates=list(narrowed.metadata),
            decision=Decision(**known),
        )
