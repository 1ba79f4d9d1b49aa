"""Run the flows of a turn in order, until one waits or all are done."""

from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

from jazz_select.agent.answer import Titles, left_open
from jazz_select.agent.chain.transcript import Chain, ChainText, FlowChosen, ToolRequest
from jazz_select.agent.conversation import OpenFlow, PendingCall, Ran, listed_in
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.flows.flow_runner import FlowRun, FlowRunner, progress_of, refused_run, tools_named, whole
from jazz_select.agent.flows.open_flows import OpenFlowReply, OpenFlows
from jazz_select.agent.gate import AgentApproval, DestructionGate, TurnApproval
from jazz_select.agent.part_checks import Checked, check_inputs
from jazz_select.agent.reading.grounding import Wanted, names_only_what_was_told, normalized, refined, wanted_of
from jazz_select.agent.stuck import understanding_of
from jazz_select.agent.turn import FlowStack, TurnRequest, TurnStatus, TurnWork
from jazz_select.agent.turn_events import tell_turn
from jazz_select.chat.decisions import Decider
from jazz_select.errors import CannotDo, FlowError, ModelError
from jazz_select.flow.base import BaseFlow, chain_of
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.json_values import storable_fields
from jazz_select.ports import has_capability
from jazz_select.routing.decisions.decision_points import Chosen, DecisionCallback, ToolCandidate
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.schemas.compatibility import outputs
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.context_inputs import declared_inputs
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.candidates_stage import Availability
from jazz_select.selector.prompt import WITHIN, candidate_of
from jazz_select.selector.result import prompt_of
from jazz_select.selector.select import FlowSelector
from jazz_select.text import describe_error, name_shown, one_line
from jazz_select.texts import say
from jazz_select.threads import run_within_budget, spent_budget
from jazz_select.values import Decision, Reason
from jazz_select.words import folded_name

_SURE: Final = 0.5
"""The lowest probability at which recall or a decision model chooses a branch, if no chat model does."""
_NONE: Final = "none-of-the-branches"


async def branch_of(selector: FlowSelector, flow: ConditionalFlow, asked: TurnRequest, first: str) -> int | None:
    """Return the index of the branch for a message, or of `otherwise` if none fits, or None without `otherwise`.

    The condition of a single branch is checked, too. The choice of a decision model that is sure is final.

    Raises:
        ModelError: The chat model failed, so that nobody chose.
    """
    links = [(when, flow.resolve(part)) for when, part in flow.links()]
    branches = {place: (when, part) for place, (when, part) in enumerate(links) if when != ""}
    otherwise = next((place for place, (when, _) in enumerate(links) if when == ""), None)
    places = {part.id: place for place, (_, part) in branches.items()}
    episodes = [*asked.conversation.episodes, f"The user said: {first}"]
    if selector.has_model:
        parts = [replace(candidate_of(part), condition=when or part.condition) for when, part in branches.values()]
        offered = [each.as_metadata() for each in parts]
        if len(offered) == 1:  # a selector asks no model about one candidate, so its negation is offered as well
            offered.append({"flow_id": _NONE, "flow_name": "none of them", "condition": "No other condition is met."})
        decision = (await selector.select(asked.message, offered, episodes, context=asked.context)).decision
        if decision.error:  # recall would guess, and the branch would be kept
            raise ModelError(decision.model or "of the branches", decision.error, retryable=True)
        if (sure := _decided(decision)) is not None:
            return places.get(sure, otherwise)
        reason, named = _chosen_anyway(decision)
        if reason is Reason.LLM:
            return places.get(named[0], otherwise)
        if reason in {Reason.NONE, Reason.FALLBACK_EMPTY} or _NONE in decision.parsed_ids:
            return otherwise
    within = WITHIN if has_capability(selector, "situation") else None
    found = await selector.select(
        asked.message, None, episodes, context=asked.context, only=list(places), situation=within
    )
    decision = found.decision
    if (sure := _decided(decision)) is not None:
        return places.get(sure, otherwise)
    likely = decision.confidence is not None and decision.confidence >= _SURE and decision.candidates
    return places.get(decision.candidates[0].flow_id, otherwise) if likely else otherwise


def _decided(decision: Decision) -> str | None:
    """Return the id of the branch that a decision model is sure of, "" for none of them, or None if it is unsure."""
    said = next((each for each in decision.stages if each.name == "decider" and each.calls), None)
    if said is None or decision.reason not in {Reason.DECIDER, Reason.NONE} or (said.confidence or 0.0) < _SURE:
        return None
    return next(iter(decision.chosen_ids), "")


def _chosen_anyway(decision: Decision) -> tuple[Reason, tuple[str, ...]]:
    """Return the chat model's reason and chosen ids, even if the selector wants to ask the user.

    Users are never asked about the branches of a flow, because they do not know them.
    """
    if decision.question is None:
        return decision.reason, decision.chosen_ids
    came = {"decided": Reason.LLM, "none": Reason.NONE}
    reasons = [came[each.outcome] for each in decision.stages if each.name == "chat" and each.outcome in came]
    return (reasons or [decision.reason])[0], decision.parsed_ids


_ENDED: Final = frozenset({"failed", "blocked"})
"""Final statuses other than `done`."""
_PAUSED: Final = frozenset({"waiting", "active"})
"""Statuses of a flow that goes on after the user's next message."""
_LONGEST_NAME: Final = 60
"""The most characters in which a user names something; longer texts describe it."""
_CLAIMS: Final = "give the agent a store of claims, such as SqliteClaims(path)"


@dataclass(slots=True, kw_only=True)
class FlowAttempt:
    """One flow of a turn while it runs. Its parts may run concurrently, and collect their results here.

    Attributes:
        work: The work of the turn before it; it is on top of the flows.
        open_flow: Its progress before this turn.
        approval: Approves calls in this turn.
        replies: Replies of models, in order of completion.
        made: Its calls.
        hears_first: Whether its model reads the message before any other, and may hand it back.
        hands_over: Whether its model may hand over another wish.
        found: What tools of the flows that it calls returned.
        context: The caller's context, with what of `found` fills inputs that its tools take from there.
    """

    work: TurnWork
    open_flow: OpenFlow
    approval: TurnApproval
    replies: list[OpenFlowReply] = field(default_factory=list[OpenFlowReply])
    made: list[Ran] = field(default_factory=list[Ran])
    hears_first: bool = False
    hands_over: bool = False
    found: Mapping[str, Any] = field(default_factory=dict[str, Any])
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])


def decision_situation(view: ConversationView, flow: BaseFlow, tools: Sequence[Tool]) -> str:
    """Return the situation of a model that chooses the next tool: goal, progress, and the effect of each tool."""
    parts = {
        "said by the user, in turn": view.render_heard(),
        "procedure": one_line(f"{flow.display_name}: {flow.description}"),
        "its steps": "\n".join(f"- {one_line(step)}" for step in flow.steps),
        "calls made so far": view.render_calls(),
        "known": view.render_facts(),
        "effects": "\n".join(f"{name_shown(each.name)} {each.effect}" for each in tools),
    }
    if view.ledger is not None:  # stable parts first, for the provider's prompt cache
        parts = {name: parts[name] for name in ("known", "procedure", "its steps", *parts)}
    return "\n".join(f"{name}:\n{text}" for name, text in parts.items() if text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFlows:
    """Runs the flows of turns.

    After `handover_after` turns in a row that were not understood, or a failed flow, a turn is handed over to a person.
    """

    selector: FlowSelector
    executor: FlowExecutor
    gate: DestructionGate
    loops: OpenFlows | None
    approval: AgentApproval
    titles: Titles
    decision: ModelDecision | None
    decider: Decider | None
    handover_after: int | None

    def flow(self, name: str) -> BaseFlow | None:
        """Return the live flow of this name, or None."""
        return self.titles.find(name)

    async def prompts(self, flows: Sequence[OpenFlow]) -> str:
        """Return the prompts of the open flows, the active one first, without those that fail to render."""
        return "\n\n".join(filter(None, [await _prompt(self.flow(each.name)) for each in reversed(flows)]))

    def wanted(self, open_flow: OpenFlow) -> dict[str, Wanted]:
        """Return the schemas of the inputs that a flow waits for, in the order of asking."""
        flow = self.flow(open_flow.name)
        try:
            tools = [] if flow is None else list(self._tools_of(flow))
        except FlowError:
            tools = []
        declared = flow.all_inputs() if flow is not None else {}
        asks = [name for name in open_flow.asks if name not in open_flow.answers]
        found = wanted_of([*tools, *self.executor.tools.values()], asks)
        wanted = {name: refined(found.get(name), declared.get(name)) for name in asks if name in {*found, *declared}}
        return dict([*wanted.items()][:1]) if flow is not None and flow.asks_one else wanted

    async def checked(self, name: str, values: Mapping[str, Any]) -> Checked:
        """Apply the author's checks to these values for a flow."""
        return await run_within_budget(check_inputs(self.flow(name), values, self.executor.tools), what="a check")

    def inputs(
        self,
        name: str,
        context: Mapping[str, Any],
        waiting: OpenFlow | None = None,
        called: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Wanted]:
        """Return the inputs that the user may give for a flow: those no tool provides, and those it asks for.

        They include the inputs of flows that it calls, but not the results of those that already ran.

        Args:
            name: Name of the flow.
            context: The caller's context. The user cannot give a value that it has under any spelling of the name.
            waiting: The flow while it waits. After a final call, only the inputs that it asks for are accepted.
            called: Results of called flows, by flow.
        """
        flow = self.flow(name)
        found: dict[str, Wanted] = {}
        if flow is not None and not flow.manual and (waiting is None or not waiting.is_final):
            declared = flow.all_inputs()
            taken = _unset(self._chained(flow), context)
            found = {each: refined(taken.get(each), declared.get(each)) for each in dict.fromkeys((*declared, *taken))}
        fixed = set(map(folded_name, context))
        fixed |= declared_inputs(self._chained(flow)) if flow is not None else frozenset()
        for each in flow.calls if flow is not None else ():
            if called and each in called:
                fixed |= set(map(folded_name, called[each]))
            else:
                found = {**self.inputs(each, context, called=called), **found}
        asked = {} if waiting is None else self.wanted(waiting)
        return {each: want for each, want in {**found, **asked}.items() if folded_name(each) not in fixed}

    def lacks(self, flow: BaseFlow, context: Mapping[str, Any], *, optional: bool) -> bool:
        """Whether its chains have inputs that nothing provides; `optional` says whether optional inputs count."""
        if flow.manual:
            return False
        alike = set(map(folded_name, context)) | declared_inputs(self._chained(flow))
        declared = any(folded_name(name) not in alike for name in flow.all_inputs())
        return declared or bool(_unset(self._chained(flow), context, optional=optional))

    def _chained(self, flow: BaseFlow) -> list[Tool]:
        try:
            return list(self.gate.chained(flow))
        except FlowError:
            return []

    async def run(self, selected: TurnWork) -> TurnWork:
        """Run the flow on top, then the flows queued below it."""
        request = selected.request
        approval = TurnApproval(self.approval, request.key, selected.granted, request.conversation.pending)
        work = self._standing_by(await self._run(selected.begun(), approval, hears_first=selected.hears_first))
        if selected.rest and (selected.granted is None or selected.granted.door == "executor"):
            work = await self._answer_rest(work, selected.rest, approval)
        return replace(work, notes=(*work.notes, *_unclaimed(approval)))

    async def _answer_rest(self, work: TurnWork, rest: str, approval: TurnApproval) -> TurnWork:
        """Answer what was said beside a yes and no flow fits. Without a model, say that it is left open."""
        if self.loops is None:
            return replace(work, text=left_open(rest))
        if answer := self._answer_read(work):
            return replace(work, text=await _said(answer))
        alone = replace(work, request=replace(work.request, message=rest))
        view = ConversationView.of(alone, self.titles.flow, agreed=True)
        talked = await self.loops.bound_to(view.request.context).talk(
            view, "", None, FlowRun(flow="", path=""), approval, near=(*self._near(work),)
        )
        notes = _with_dropped(work.notes, [talked.chain])
        calls = (*work.calls, *talked.ran)
        work = replace(work, text=talked.text, calls=calls, notes=notes, error=work.error or talked.error)
        if talked.asked and work.pending is None:
            return replace(work, status="confirming", pending=approval.pending)
        return work

    async def handed_over(self, work: TurnWork) -> TurnWork:
        """Hand the turn over to a person if the user is stuck or a flow failed, by the author's handover flow if any.

        The flow that failed or waits keeps its state, and so does the call that it waits for.
        """
        work = replace(work, not_understood=_turns_not_understood(work))
        flow = next((each for each in self.selector.flow_registry.values() if each.handover), None)
        why = self._why_handed_over(work)
        own_name = flow.name if flow is not None else ""
        is_stuck, top = work.status != "failed", work.stack.top
        if not why or (not is_stuck and work.runs[-1].flow == own_name):
            return work
        # A yes to the person who takes over is none to the call that waits.
        work = replace(work, not_understood=0).with_call_parked()
        if flow is None or (top is not None and top.name == own_name):
            return replace(work, status="handed_over", reason=why)
        turn, request = work.request.conversation.turns, work.request
        begun = OpenFlow(name=flow.name, status="queued", request=request.message, turn=turn)
        left = (each for each in work.stack.flows if each.name != flow.name)
        stack = replace(work.stack, flows=(*left, begun))
        approval = TurnApproval(self.approval, request.key, None, None)
        # What was asked of a user who is stuck leads nowhere; what was answered beside a flow that failed is told.
        text = "" if is_stuck else work.text
        work = await self._run(replace(work, stack=stack, text=text, hands_over=False), approval)
        return replace(self._standing_by(work), reason=why, resumed="")  # what waits is not asked again beside it

    def _why_handed_over(self, work: TurnWork) -> str:
        """Return why a person has to take over; empty if nobody has to."""
        limit, count = self.handover_after, work.not_understood or 0
        if limit is None:
            return ""
        if work.status == "failed" and spent_budget() is None and work.runs:
            return f"{work.runs[-1].flow} failed: {work.runs[-1].problem}"
        if count < limit or understanding_of(work) != "stuck":
            return ""
        top = work.stack.top
        if top is None:
            return f"{count} messages in a row were not understood"
        return f"{count} questions for {', '.join(top.asks) or 'a yes'} led nowhere"

    def _standing_by(self, work: TurnWork) -> TurnWork:
        done = (self.flow(run.flow) for run in work.runs if run.status == "done")
        over = any(flow is not None and flow.handover for flow in done)
        return replace(work, status="handed_over") if over and work.pending is None else work

    async def _run(self, work: TurnWork, approval: TurnApproval, *, hears_first: bool = False) -> TurnWork:
        wishes: list[str] = []
        while (top := work.stack.top) is not None:
            if (called := self._to_call(work, top)) is not None:
                work = replace(work, stack=called)
                continue
            top = self._with_called(work, top)
            work = replace(work, stack=work.stack.with_top(top))
            await tell_turn(FlowChosen(flow=top.name))
            first = hears_first and not work.runs
            work, attempt, run = await self._attempted(work, top, approval, hears_first=first)
            spent, following = spent_budget(), work.stack.top
            new = [wish for each in attempt.replies for wish in each.wishes]
            if new and first and work.pending is None:
                begun = any(each.ran for each in attempt.replies)
                runs = work.runs if begun else work.runs[:-1]
                return replace(work, runs=runs, handed_back=_own_words(new[-1], work.request.message))
            wishes += new
            if run.status in {"done", "blocked"} and following is not None and following.status == "queued":
                if spent is None:
                    continue
                spent.stopped(f"before {following.name} was begun")
                return replace(work, status="failed")
            over = len(work.stack.flows) < len(attempt.work.stack.flows)
            if run.status in _PAUSED and not over and spent is None:
                work = await self._asked_together(work, approval)
                work, more = await self._run_ready(work, approval)
                wishes += more
            work = replace(work, resumed=following.name if over and following is not None else "")
            return _with_wishes(work, wishes)
        return _with_wishes(work, wishes)

    async def _run_ready(self, work: TurnWork, approval: TurnApproval) -> tuple[TurnWork, list[str]]:
        """Run the queued flows that need nothing from the user, while the one on top waits for an answer.

        Their runs come before that of the one on top, so that its question is the last thing said. Return the wishes
        that their models hand over, too.
        """
        top, wishes = work.stack.top, list[str]()
        if top is None or not work.runs:
            return work, wishes
        paused = work
        for queued in reversed(work.stack.flows[:-1]):
            if not self._is_ready(work, queued, top):
                continue
            rest = tuple(each for each in work.stack.flows if each.key not in {queued.key, top.key})
            # Its model sees the flow that waits among the other wishes.
            parked = top.model_copy(update={"pending": paused.pending})
            alone = replace(
                work,
                stack=replace(work.stack, flows=(*rest, parked, queued)),
                status="done",
                pending=None,
                runs=work.runs[:-1],
            )
            await tell_turn(FlowChosen(flow=queued.name))
            with approval.apart():
                done, attempt, run = await self._attempted(alone, queued, approval)
            failed = run.status == "failed" or any(each.error for each in attempt.replies)
            if failed and not attempt.made:
                continue  # nothing came of it, so it stays queued
            wishes += [wish for each in attempt.replies for wish in each.wishes]
            work = _placed_below(paused, top, queued, done)
        return work, wishes

    async def _asked_together(self, work: TurnWork, approval: TurnApproval) -> TurnWork:
        """Ask in one question about the same call for each object that was wished for.

        The other wishes for the flow on top run as far as to their calls. Those that the question lists stay queued
        directly below it, so that they come next after the yes. What another one came to is kept, and nothing is made
        twice; its own question comes when it is its turn.
        """
        top = work.stack.top
        if top is None or work.pending is None or work.pending.door != "executor" or not work.runs:
            return work
        for queued in reversed(work.stack.flows[:-1]):
            is_other = queued.name != top.name or queued.status != "queued" or queued.every
            if is_other or queued.choices or queued.wrong:
                continue
            left = tuple(each for each in work.stack.flows if each.key != queued.key)
            alone = replace(work, stack=replace(work.stack, flows=(*left, queued)), pending=None, runs=())
            with approval.apart():
                tried, attempt, run = await self._attempted(alone, queued, approval)
            work = replace(work, calls=tried.calls, notes=tried.notes)
            reached = next((each for each in tried.stack.flows if each.key == queued.key), None)
            if reached is None:
                if run.status != "failed" or self.titles.effects(attempt.made):
                    work = _with_ended(work, tried)
                continue  # what failed without an effect stays queued
            asked = tried.pending if run.status == "waiting" else None
            is_listed = asked is not None and approval.ask_besides(asked)
            reached = reached.model_copy(update={"status": "queued", "pending": asked if is_listed else None})
            work = replace(work, stack=_with_queued(work.stack, reached, approval.pending), pending=approval.pending)
        return work

    def _is_ready(self, work: TurnWork, queued: OpenFlow, top: OpenFlow) -> bool:
        """Whether a queued flow needs no yes, asks for no input, and does not depend on the one on top.

        It runs by its chain alone, or a model runs it that has no tool which needs a yes. The latter waits if a model
        runs the one on top, too, whose text may say that the other wishes come later.
        """
        flow, above = self.flow(queued.name), self.flow(top.name)
        if flow is None or above is None or queued.status != "queued" or queued.choices or queued.wrong:
            return False
        if flow.manual or flow.calls or flow.name in above.calls or flow.name == above.name:
            return False
        is_free = self.loops is not None and not flow.composite and not work.runs[-1].text
        by_model = is_free and (queued.every or not chain_of(flow))
        if not by_model and (queued.every or not all(self.gate.is_chained(part) for part in whole(flow))):
            return False
        tools = list(self._tools_of(flow)) if by_model else self._chained(flow)
        if not tools:
            return False
        known = {**queued.answers, **work.request.context}
        is_held = any(tool.destructive or self.approval.asks_user(tool) for tool in tools)
        return not is_held and not self.lacks(flow, known, optional=False)

    async def _attempted(
        self, work: TurnWork, top: OpenFlow, approval: TurnApproval, *, hears_first: bool = False
    ) -> tuple[TurnWork, FlowAttempt, FlowRun]:
        """Run the flow on top as far as it comes."""
        found = self._returned_to(work, top.name)
        approval.found[top.name] = found
        approval.named[top.name] = self._named(work, top)
        attempt = FlowAttempt(
            work=work,
            open_flow=top,
            approval=approval,
            hears_first=hears_first,
            hands_over=work.hands_over,
            found=found,
            context={**self._declared(top.name, found), **work.request.context},
        )
        try:
            run = await self._one(attempt)
        except Exception as error:  # noqa: BLE001 - an author's part may raise anything; the turn continues
            run = FlowRun(flow=top.name, status="failed", problem=describe_error(error), begun=False)
        work = self._after(work, attempt, run, cut=spent_budget() is not None)
        return self._without_callers(work, run), attempt, run

    def _to_call(self, work: TurnWork, top: OpenFlow) -> FlowStack | None:
        """Put a flow on top that this one calls and that has not run in this conversation; None if there is none."""
        flow = self.flow(top.name)
        if flow is None or top.status != "queued":
            return None
        known = {**work.request.conversation.called, **work.called}
        name = next((each for each in flow.calls if each not in known), None)
        if name is None:
            return None
        own = next((each for each in work.stack.flows if each.name == name), None)
        takes = self.inputs(name, work.request.context, called=known)
        given = {each: value for each, value in top.answers.items() if each in takes}
        own = own or OpenFlow(name=name, status="queued", request=top.request, turn=top.turn, answers=given)
        rest = tuple(each for each in work.stack.flows if each.name != name)
        return replace(work.stack, flows=(*rest, own))

    def _with_called(self, work: TurnWork, top: OpenFlow) -> OpenFlow:
        """Return a flow with the results of the flows that it calls as answers."""
        flow = self.flow(top.name)
        known = {**work.request.conversation.called, **work.called}
        found = {name: value for each in (flow.calls if flow else ()) for name, value in known.get(each, {}).items()}
        # Results of called flows override what the user says, such as the identity from a login.
        update: dict[str, Any] = {"answers": {**top.answers, **found}}
        if any(name in top.answers and top.answers[name] != value for name, value in found.items()):
            update |= {} if top.is_final or self.titles.effects(top.ran) else {"parts": {}, "pending": None}
        return top.model_copy(update=update) if found else top

    def _returned_to(self, work: TurnWork, name: str) -> dict[str, Any]:
        """Return what tools of the flows that a flow calls returned, without what the caller's context holds.

        What a user gave a called flow is left out: only tools say who somebody is.
        """
        flow = self.flow(name)
        called = {**work.request.conversation.called, **work.called}
        returned = {**work.request.conversation.returned, **work.returned}
        known = set(map(folded_name, work.request.context))
        return {
            own: value
            for each in (flow.calls if flow is not None else ())
            for own, value in called.get(each, {}).items()
            if own in returned.get(each, ()) and folded_name(own) not in known
        }

    def _declared(self, name: str, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of these values that tools of a flow take from the context, as their authors declare."""
        flow = self.flow(name)
        if flow is None or not found:
            return {}
        try:
            tools = [*self._tools_of(flow), *self._chained(flow)]
        except FlowError:
            return {}
        keys = {folded_name(key) for tool in tools for key in cast("Mapping[str, str]", tool.from_context).values()}
        return {own: value for own, value in found.items() if folded_name(own) in keys}

    def _named(self, work: TurnWork, top: OpenFlow) -> list[str]:
        """Return the user's words for what a flow is about: what only look-ups take, and is no number or address."""
        flow = self.flow(top.name)
        if flow is None or not top.answers:
            return []
        try:
            tools = [*self._tools_of(flow)]
        except FlowError:
            return []
        looked_up, acted_on = set[str](), set[str]()
        for tool in tools:
            (looked_up if tool.reads else acted_on).update(map(folded_name, fields(tool.input_schema)))
        called = {**work.request.conversation.called, **work.called}
        found = {name for each in flow.calls for name in called.get(each, {})}
        own = {name: value for name, value in top.answers.items() if name not in found}
        named = [value for name, value in own.items() if folded_name(name) in looked_up - acted_on]
        return [value for value in named if isinstance(value, str) and _is_in_words(value)]

    def _callers(self, name: str) -> set[str]:
        """Return the names of the flows that call a flow."""
        return {each.name for each in self.selector.flow_registry.values() if name in each.calls}

    def _without_callers(self, work: TurnWork, run: FlowRun) -> TurnWork:
        """Store the results of a called flow for its callers. If it was not done, fail the callers unbegun."""
        callers = self._callers(run.flow)
        if not callers:
            return work
        if run.status == "done":
            found = storable_fields({**run.facts, **run.known})[0]
            given = {name for name in run.facts if name in work.request.context}
            kept = {name: value for name, value in found.items() if name not in given}
            returned = tuple(name for name in kept if name in run.known)
            called, names = {**work.called, run.flow: kept}, {**work.returned, run.flow: returned}
            return replace(work, called=called, returned=names)
        while run.status in _ENDED and (top := work.stack.top) is not None and top.name in callers:
            undone = FlowRun(flow=top.name, status="failed", begun=False, problem=f"{run.flow} was not done")
            if run.refusal:  # nothing failed: what was wished beside it is named, and that is all
                text = say("not_done_either", titles=self.titles.flow(top.name))
                undone = replace(undone, status="blocked", text=text)
            work = replace(work, stack=work.stack.without_top(), runs=(*work.runs, undone))
            callers = self._callers(undone.flow)
        return work

    async def converse(self, selected: TurnWork) -> TurnWork:
        """Answer a message that no flow fits with a model, if there is one. Open flows stay unchanged."""
        work = selected.begun()
        if self.loops is None:
            return replace(work, status="open", reason=work.reason or "no flow fits")
        if (answer := self._answer_read(selected)) and selected.granted is None and not selected.about:
            said = "\n\n".join(filter(None, (work.text, await _said(answer))))
            return replace(work, status=_standing(work), text=said)
        approval = TurnApproval(self.approval, work.request.key, selected.granted, work.request.conversation.pending)
        view = ConversationView.of(work, self.titles.flow)
        top = work.stack.top if selected.about else None
        flow, within = (self.flow(top.name), top.name) if top is not None else (None, "")
        only_about = flow is not None
        run = FlowRun(flow=within, path="")
        near = () if flow is not None else tuple(self._near(work))
        talked = await self.loops.bound_to(view.request.context).talk(
            view, within, flow, run, approval, only_about=only_about, near=near
        )
        notes = (*_with_dropped(work.notes, [talked.chain]), *_unclaimed(approval))
        work = replace(work, notes=notes, calls=(*work.calls, *talked.ran))
        work = replace(work, look_ups=talked.look_ups)
        if talked.asked:
            return replace(work, status="confirming", pending=approval.pending, chain=talked.chain, text=talked.text)
        return replace(
            work,
            status="failed" if talked.error and work.pending is None else _standing(work),
            chain=talked.chain,
            text=talked.text,
            incomplete=talked.chain.incomplete,
            reason=str(talked.error) if talked.error else work.reason,
            error=talked.error or work.error,
        )

    def _answer_read(self, selected: TurnWork) -> str:
        """Return the answer of the model that read the message, if it states no number, address or code of its own."""
        answer = selected.selection.decision.answer if selected.selection is not None else ""
        if not answer:
            return ""
        view = ConversationView.of(selected, self.titles.flow)
        told = (view.render_facts(), view.request.message, *(each.content for each in view.said))
        return answer if names_only_what_was_told(answer, told) else ""

    def _near(self, work: TurnWork) -> Iterator[str]:
        """Yield the tools that may be relevant to a message: of earlier calls and of recalled flows."""
        yield from (call.tool for call in reversed(work.request.conversation.calls))
        selection = work.selection
        for candidate in selection.decision.candidates if selection is not None else ():
            flow = self.flow(candidate.flow_name)
            yield from tools_named(flow) if flow is not None else ()

    def _after(self, work: TurnWork, attempt: FlowAttempt, run: FlowRun, *, cut: bool) -> TurnWork:
        """Add the run of a flow to the work. A flow that was `cut` by the turn's time limit waits to resume later."""
        top = attempt.open_flow
        answers = {name: value for name, value in top.answers.items() if name not in run.wrong}
        progress = top.model_copy(update={"asks": run.asks, "answers": answers, "wrong": {**top.wrong, **run.wrong}})
        choices = {name: tuple(each) for name, each in storable_fields(run.choices)[0].items()}
        progress = progress.model_copy(update={"changed": run.changed, "choices": choices})
        if progress.pending is not None and any(map(progress.pending.is_same, attempt.approval.taken)):
            progress = progress.model_copy(update={"pending": None})
        if run.begun:
            progress = progress.model_copy(update={"parts": progress_of(run, top.parts)})
        stack = FlowStack(work.stack.flows, tuple(each for each in work.stack.failed if each.key != top.key))
        kept = self.gate.kept(progress, run, attempt.approval) if run.status in _ENDED else ()
        if run.status == "failed" and cut and not any(each.doubt for each in kept):
            stack = stack.with_top(progress.model_copy(update={"status": "waiting" if run.begun else top.status}))
        elif run.status == "done" or run.status in _ENDED:
            if run.status == "failed" and not kept and run.begun and self.handover_after is not None:
                kept = (progress.model_copy(update={"status": "failed"}),)  # a person takes over what was answered
            stack = stack.without_top(kept)
        else:
            status = "waiting" if run.status == "waiting" else "active"
            stack = stack.with_top(progress.model_copy(update={"status": status}))
        replies = attempt.replies
        pending = None if run.status == "done" or run.status in _ENDED else attempt.approval.pending
        if pending is None and run.status == "active" and self._still_waits(attempt):
            pending = work.request.conversation.pending
        return replace(
            work,
            stack=stack,
            status=run.status if pending is None else "confirming",
            pending=pending,
            runs=(*work.runs, run),
            chain=replies[-1].chain if replies else work.chain,
            incomplete=work.incomplete or any(each.chain.incomplete for each in replies),
            calls=(*work.calls, *attempt.made),
            notes=_with_dropped(work.notes, [each.chain for each in replies]),
            error=next((each.error for each in reversed(replies) if each.error), work.error),
        )

    def _still_waits(self, attempt: FlowAttempt) -> bool:
        """Whether a call of this flow still waits for a yes, and only look-ups were called since."""
        waiting, approval, tools = attempt.work.request.conversation.pending, attempt.approval, self.executor.tools
        if waiting is None or waiting.flow != attempt.open_flow.name or approval.granted is not None:
            return False
        entries = [each for reply in attempt.replies for each in reply.chain.entries]
        called = [tools.get(each.tool) for each in entries if isinstance(each, ToolRequest)]
        return bool(attempt.replies) and all(each is not None and each.reads for each in called)

    async def _one(self, attempt: FlowAttempt) -> FlowRun:
        top, context = attempt.open_flow, attempt.context
        flow = self.flow(top.name)
        begun = FlowRun(flow=top.name, status="failed", begun=False)
        if flow is None:
            return replace(begun, problem=f"there is no flow {top.name!r} any more")
        begun = replace(begun, type=flow.type)
        closed = await Availability.closed_among([flow], {**attempt.found, **context})
        if closed.ids:
            return replace(begun, problem="; ".join(closed.notes))
        _ = [chain_of(part) for part in whole(flow)]  # an invalid one raises before anything runs
        is_new = top.status == "queued" and not flow.manual
        if top.refusal:
            return refused_run(begun, CannotDo(top.refusal), f"a check of {top.name}: cannot be done: {top.refusal}")
        if top.wrong:
            begun = replace(begun, wrong=top.wrong)
        if is_new and (unclear := top.choices):
            which = f"which is meant is not clear: {', '.join(unclear)}"
            return replace(begun, status="waiting", asks=tuple(unclear), choices=unclear, problem=which)
        if not flow.manual and (changed := self.gate.held_by_change(top, flow)):
            why = "its steps have changed since it was begun"
            return replace(begun, status="waiting", problem=why, changed=changed)

        async def go_on(part: BaseFlow, run: FlowRun) -> FlowRun:
            return await self._gone_on(attempt, part, run)

        async def choose(conditional: ConditionalFlow) -> int | None:
            finding = branch_of(self.selector, conditional, attempt.work.request, top.request)
            return await _in_time(finding, conditional.name)

        runner = FlowRunner(
            executor=self.executor,
            before=top.parts,
            choose=choose,
            go_on=go_on if self.loops else None,
            fixed=context,
            approve=lambda path, later: attempt.approval.at(top.name, path, doubt=top.doubt, later=later),
            call_id=lambda path: attempt.approval.names_at(top.name, path, "executor", top.unheard),
            returned=attempt.approval.returned,
            made=attempt.made.append,
            deciding=partial(self._deciding, attempt, self.decision) if self.decision else None,
            every=top.every,
        )
        run = await runner.run(flow, {**top.answers, **context})
        wrong = {**top.wrong, **run.wrong}
        return replace(run, wrong={name: text for name, text in wrong.items() if name in run.asks})

    def _deciding(
        self, attempt: FlowAttempt, decision: ModelDecision, flow: BaseFlow, made: Sequence[Ran]
    ) -> DecisionCallback:
        view, tools = self._view(attempt, made), self.executor.tools

        async def decide(context: dict[str, Any], candidates: list[ToolCandidate], prompt: str) -> Chosen:
            situation = decision_situation(view, flow, [tools[each.name] for each in candidates])
            return await decision.decide(context, candidates, prompt, situation=situation)

        return cast("DecisionCallback", SimpleNamespace(decide=decide))

    async def _gone_on(self, attempt: FlowAttempt, flow: BaseFlow, run: FlowRun) -> FlowRun:
        """Let a model continue an open flow. If the model fails, the flow keeps its state and repeats nothing."""
        if self.loops is None:
            return run
        view = self._view(attempt)
        talked = await self.loops.bound_to(attempt.context).talk(
            view,
            attempt.open_flow.name,
            flow,
            run,
            attempt.approval,
            hears_first=attempt.hears_first,
            hands_over=attempt.hands_over,
        )
        attempt.replies.append(talked)
        attempt.made.extend(talked.ran)
        run = replace(run, final=run.final or any(each.final for each in talked.ran))
        if self._callers(attempt.open_flow.name):
            run = replace(run, own={**run.own, **storable_fields(talked.found)[0]})
        ran = (*run.ran, *talked.ran)
        if talked.error is not None:
            return replace(run, status="active", ran=ran, problem=str(talked.error))
        status = "blocked" if talked.blocked else "done" if talked.finished else "active"
        return replace(run, status=status, ran=ran, text=talked.text, problem=talked.blocked)

    def _view(self, attempt: FlowAttempt, made: Sequence[Ran] = ()) -> ConversationView:
        agreed = attempt.approval.granted is not None
        return ConversationView.of(attempt.work, self.titles.flow, (*attempt.made, *made), agreed=agreed)

    def _tools_of(self, flow: BaseFlow) -> Iterator[Tool]:
        tools = self.executor.tools
        yield from (tools[name] for name in tools_named(flow) if name in tools)


def _with_dropped(notes: tuple[str, ...], chains: Iterable[Chain]) -> tuple[str, ...]:
    """Append what was dropped of the arguments of a model."""
    return tuple(dict.fromkeys((*notes, *(note for chain in chains for note in chain.dropped))))


async def _said(answer: str) -> str:
    await tell_turn(ChainText(text=answer, closing=True))
    return answer


def _with_ended(work: TurnWork, tried: TurnWork) -> TurnWork:
    """Return the work with a flow that ended while the one on top waits: its run is told before that one's question."""
    return replace(
        work,
        stack=tried.stack,
        runs=(*work.runs[:-1], *tried.runs, work.runs[-1]),
        incomplete=tried.incomplete,
        called=tried.called,
        returned=tried.returned,
        error=tried.error,
    )


def _with_queued(stack: FlowStack, reached: OpenFlow, question: PendingCall | None) -> FlowStack:
    """Store how far a queued flow came. Those that the question lists lie below the top, in its order."""
    flows = [reached if each.key == reached.key else each for each in stack.flows[:-1]]
    listed = listed_in(question, flows)
    others = (each for each in flows if not any(each is one for one in listed))
    return replace(stack, flows=(*others, *listed, *stack.flows[-1:]))


def _turns_not_understood(work: TurnWork) -> int:
    """Return how many turns in a row were not understood, this one included."""
    before = work.request.conversation.not_understood
    return {"understood": 0, "stuck": before + 1, "neither": before}[understanding_of(work)]


def _placed_below(paused: TurnWork, top: OpenFlow, queued: OpenFlow, done: TurnWork) -> TurnWork:
    """Return the work in which the flow on top waits, with what has been done of a queued one below it.

    The run of the flow on top stays the last one, so that its question is the last thing said.
    """
    flows = tuple(each for each in done.stack.flows if each.key != top.key)
    if done.pending is not None and flows and flows[-1].key == queued.key:
        flows = (*flows[:-1], flows[-1].model_copy(update={"pending": done.pending}))
    return replace(
        done,
        stack=replace(done.stack, flows=(*flows, top)),
        status=paused.status,
        pending=paused.pending,
        runs=(*done.runs, paused.runs[-1]),
        chain=paused.chain or done.chain,
    )


def _own_words(wish: str, message: str) -> str:
    return wish if normalized(wish) and normalized(wish) in normalized(message) else message


def _with_wishes(work: TurnWork, wishes: Sequence[str]) -> TurnWork:
    """Hand over what models said is for other flows. What are not the user's own words is told as left open.

    A call that waits for a yes is parked with its flow, so that the question is asked behind what comes of the wishes.
    """
    said = normalized(work.request.message)
    own = [wish for wish in dict.fromkeys(wishes) if normalized(wish) and normalized(wish) in said]
    if spent_budget() is not None:
        own = []
    left = [left_open(wish) for wish in dict.fromkeys(wishes) if wish.strip() and wish not in own]
    work = replace(work, text="\n\n".join(filter(None, (work.text, *left))))
    if not own:
        return work
    return replace(work.with_call_parked(), resumed="", handed_back=". ".join(own))


def _is_in_words(value: str) -> bool:
    """Whether a value names something in words: not by a number, a code or an address."""
    return 0 < len(value.strip()) <= _LONGEST_NAME and "@" not in value and not any(map(str.isdigit, value))


def _standing(work: TurnWork) -> TurnStatus:
    """Return the status of a turn after a message that no flow fits was answered."""
    top = work.stack.top
    if work.pending is not None or top is None:
        return work.status
    return "active" if top.status == "active" else "waiting"


def _unclaimed(approval: TurnApproval) -> tuple[str, ...]:
    """Return a note if an approved destructive call was made without a store of claims."""
    made = dict.fromkeys(each.tool for each in approval.taken if each.destructive)
    if approval.claims is not None or not made:
        return ()
    names = ", ".join(made)
    return (f"{names}: where another process goes on with this conversation too, both call it: {_CLAIMS}",)


def _unset(tools: Sequence[Tool], known: Mapping[str, Any], *, optional: bool = True) -> dict[str, Wanted]:
    """Return the inputs of a chain that no earlier tool returns; `optional` says whether optional inputs count."""
    found: dict[str, Wanted] = {}
    given = set(map(folded_name, known))
    for tool in tools:
        asked = [name for name, (_, needed) in fields(tool.input_schema).items() if needed or optional]
        found |= wanted_of([tool], [name for name in asked if folded_name(name) not in given])
        given |= {folded_name(name) for name in (*found, *(each.name for each in outputs(tool)))}
    return found


async def _in_time(finding: Coroutine[Any, Any, int | None], name: str) -> int | None:
    """Return the branch of this flow that is found, unless the time of the turn is over.

    Raises:
        ModelError: The model of the choice failed.
        TimeoutError: No time is left: a branch that is chosen without its model must not be stored.
    """
    try:
        place = await run_within_budget(finding, what="a branch")
    except ModelError:
        if spent_budget() is None:
            raise
        place = None
    spent = spent_budget()
    if spent is not None:
        spent.stopped(f"before a branch of {name} was chosen")
        raise TimeoutError("no time was left to choose a branch")
    return place


async def _prompt(flow: BaseFlow | None) -> str:
    try:
        return await prompt_of(flow) if flow is not None else ""
    except Exception:  # noqa: BLE001 - an author's prompt may raise anything; the turn's result must not be lost
        return ""
