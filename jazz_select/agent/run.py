"""Carry out the actions of a turn, one after the other: each gives the state for the next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Final

from jazz_select.agent.actions import (
    Action,
    Agree,
    Answer,
    AskAgain,
    AskWhich,
    AskWhichWish,
    Begin,
    CallOff,
    Continue,
    Fill,
    Grant,
    KeptWish,
    LeaveOver,
    Refuse,
    Reject,
    Tell,
)
from jazz_select.agent.agenda import Agenda, flows_without
from jazz_select.agent.answer import called_off_text, left_open_text, not_done_text, too_late_text, with_objects
from jazz_select.agent.conversation import OpenFlow, PendingCall
from jazz_select.agent.gate import AgentApproval, DestructionGate
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.reading.reading import Reading, Wish
from jazz_select.agent.stored_values import fill, with_question_again
from jazz_select.agent.titles import Titles, shown_value
from jazz_select.agent.turn import ASK, OPEN, RUN, TurnState, Way
from jazz_select.selector.select import FlowSelector
from jazz_select.text import join_paragraphs
from jazz_select.texts import say

_WHICH: Final = "two or three flows are left, and the user is asked which"
_UNREAD: Final = "no model has read the message, so the flow begins only after a yes"


def with_reading(state: TurnState, reading: Reading) -> TurnState:
    """Return the state with what the reading of its message leaves for later: how it was selected, and what failed."""
    return replace(
        state,
        selection=reading.selection or state.selection,
        notes=(*state.notes, *reading.notes),
        no_yes=reading.no_yes,
        error=reading.error or state.error,
        reason=state.reason or reading.problem,
    )


@dataclass(frozen=True, kw_only=True)
class ActionRunner:
    """Carries out what was decided about a message: the state then says how the turn goes on.

    Attributes:
        flows: The flows of the agent.
        titles: Their titles.
        gate: Keeps flows that stop after an effect.
        approval: Withdraws calls that were called off.
        selector: Logs which of its choices were probably wrong.
    """

    flows: KnownFlows
    titles: Titles
    gate: DestructionGate
    approval: AgentApproval
    selector: FlowSelector

    async def carry_out(self, state: TurnState, actions: Sequence[Action]) -> TurnState:
        """Return the state after all actions; its `way` says what the turn does next."""
        for action in actions:
            state = await self._perform(action, state)
        return state

    @singledispatchmethod
    async def _perform(self, action: Action, state: TurnState) -> TurnState:  # noqa: ARG002
        """Perform one action."""
        msg = f"no such action: {action!r:.80}"
        raise TypeError(msg)

    @_perform.register
    async def _grant(self, _: Grant, state: TurnState) -> TurnState:
        pending = state.pending
        # A call without a flow is made by the model that answers.
        way = RUN if pending is not None and pending.flow else OPEN
        return replace(state, way=way, granted=pending, pending=None)

    @_perform.register
    async def _refuse(self, action: Refuse, state: TurnState) -> TurnState:
        pending, top = state.pending, state.agenda.top
        if pending is None:
            return state
        listed = state.agenda.all_listed(pending)
        # Withdraw first: afterwards no other process can make the calls, and it is known which ones were begun.
        too_late = too_late_text(pending, await self.approval.withdraw(pending))
        state = _with_call_withdrawn(state)
        if action.kept and not too_late:
            return self._with_kept(state, action.kept, listed)
        if action.is_for_model and top is not None:
            agenda = state.agenda.with_top(top.model_copy(update={"status": "active"}))
            text = join_paragraphs(state.text, too_late)
            return replace(state, way=RUN, agenda=agenda, text=text)
        if top is not None and pending.flow:
            return self._cancel_flows(state, listed, text=too_late, covered=len(listed))
        return replace(state, way=ASK, text=too_late or not_done_text(pending))

    @_perform.register
    async def _agree(self, _: Agree, state: TurnState) -> TurnState:
        top = state.agenda.top
        if top is None:
            return state
        return replace(state, way=RUN, agenda=state.agenda.with_top(self.gate.release(top)), pending=None)

    @_perform.register
    async def _fill(self, action: Fill, state: TurnState) -> TurnState:
        top = state.agenda.top
        filled = fill(state, action, self.titles)
        if top is None or action.grounded.times < 2:  # noqa: PLR2004 - more than once
            return filled
        once = say("only_once", title=with_objects(filled.agenda.top or top, self.titles))
        return replace(filled, text=join_paragraphs(filled.text, once))

    @_perform.register
    async def _reject(self, _: Reject, state: TurnState) -> TurnState:
        top = state.agenda.top
        if top is None or not top.asks:
            return state
        choices = dict(top.choices)
        for name in top.asks:
            if len(choices.get(name, ())) == 1:
                choices[name] = ()  # an empty entry says that nothing is to be proposed again
        agenda = state.agenda.with_top(top.model_copy(update={"choices": choices}))
        return replace(state, way=ASK, agenda=agenda, pending=None, reason=f"{top.asks[0]} is another one")

    @_perform.register
    async def _begin(self, action: Begin, state: TurnState) -> TurnState:
        wishes = action.wishes
        if action.after:
            wishes = (Wish(action.after), *wishes)
        wishes, too_many = state.agenda.split_by_room(wishes)
        if too_many:
            unmet = ", ".join(map(self._in_words, too_many))
            state = replace(state, text=join_paragraphs(state.text, left_open_text(unmet)))
        if not wishes:
            if state.granted is not None:
                return state
            return with_question_again(replace(state, way=ASK))
        for wish in wishes:
            if wish.grounded.times > 1:
                once = say("only_once", title=self._in_words(wish))
                state = replace(state, text=join_paragraphs(state.text, once))
        state = _with_wishes(state, wishes, wanted=action.wanted or state.request.message)
        if action.is_held:
            return _ask_to_begin(state)
        # A granted call without a flow is made by the model that answers; the flows wait for it.
        is_answered_first = state.granted is not None and not action.after
        way = Way("open" if is_answered_first else "run", is_first=action.is_first)
        return replace(state, way=way, resumed="")

    @_perform.register
    async def _call_off(self, action: CallOff, state: TurnState) -> TurnState:
        agenda = state.agenda
        flows = [flow for flow in reversed(agenda.flows) if flow.key in action.flows]
        if not action.flows and agenda.top is not None:
            flows = [agenda.top]
        flows += self._called_for(agenda, flows)
        keys = {flow.key for flow in flows}
        pending, too_late = state.pending, ""
        listed = [flow.key for flow in agenda.all_listed(pending)]
        if pending is not None and not keys.isdisjoint(listed):
            too_late = too_late_text(pending, await self.approval.withdraw(pending))
            state, pending = _with_call_withdrawn(state), None
        if too_late:
            # Another process has begun some of them: drop the others too, rather than ask again.
            keys.update(listed)
        # Read the flows again, since the withdrawal has changed them.
        flows = [flow for flow in reversed(state.agenda.flows) if flow.key in keys]
        for flow in flows:
            if flow.pending is not None:
                # Its question may also hold calls of other flows; withdraw only its own call.
                await self.approval.withdraw(flow.pending.model_copy(update={"more": ()}))
        canceled = self._cancel_flows(state, flows, text=too_late, covered=max(len(listed), 1), targets=action.targets)
        canceled = replace(canceled, pending=canceled.agenda.call_of_top(pending))
        if state.granted is not None:
            return replace(canceled, way=state.way, resumed="")
        following = canceled.agenda.top
        if pending is None and following is not None and following.key in listed:
            # Ask again about those that remain.
            return replace(canceled, way=RUN, resumed="")
        return canceled

    @_perform.register
    async def _ask_which_wish(self, action: AskWhichWish, state: TurnState) -> TurnState:
        options: list[str] = []
        for flow in reversed(state.agenda.flows):
            if flow.name in action.flows:
                options.append(with_objects(flow, self.titles))
        question = f"{say('which')} {'; '.join(options)}"
        text = join_paragraphs(state.text, question)
        # A call that was just approved is made all the same.
        way = ASK if state.granted is None else state.way
        return replace(state, way=way, text=text, reason=f"which is called off is not clear: {', '.join(action.flows)}")

    @_perform.register
    async def _leave_over(self, action: LeaveOver, state: TurnState) -> TurnState:
        if state.way.to == "ask":
            return replace(state, text=f"{state.text}\n\n{left_open_text(action.rest)}")
        return replace(state, rest=action.rest)

    @_perform.register
    async def _ask_which(self, action: AskWhich, state: TurnState) -> TurnState:
        why = f"{_WHICH}: {state.reason}".removesuffix(": ")
        return replace(state, way=ASK, text=action.question.text, question=action.question, reason=why)

    @_perform.register
    async def _ask_again(self, _: AskAgain, state: TurnState) -> TurnState:
        return with_question_again(replace(state, way=ASK))

    @_perform.register
    async def _continue(self, action: Continue, state: TurnState) -> TurnState:
        return replace(state, way=Way("run", is_first=action.is_first), reason=state.reason or action.why)

    @_perform.register
    async def _answer(self, action: Answer, state: TurnState) -> TurnState:
        return replace(state, way=Way("open", about=action.about), reason=state.reason or action.why)

    @_perform.register
    async def _tell(self, action: Tell, state: TurnState) -> TurnState:
        reason = state.reason or action.why
        return replace(state, way=Way("ask", pauses=action.pauses), text=say(action.text), reason=reason)

    def _with_kept(self, state: TurnState, kept: Sequence[KeptWish], listed: Sequence[OpenFlow]) -> TurnState:
        """Call off all listed wishes except those kept, and ask about these again with their corrections."""
        refused_keys = {flow.key for flow in listed} - {wish.key for wish in kept}
        refused = [flow for flow in state.agenda.flows if flow.key in refused_keys]
        if refused:
            state = replace(self._cancel_flows(state, refused), resumed="")
        # In reverse, so that the first one ends up on top.
        for wish in reversed(kept):
            agenda = state.agenda.move_to_top(wish.key)
            if agenda.top is not None:
                agenda = agenda.with_top(agenda.top.model_copy(update={"status": "queued"}))
            state = fill(replace(state, agenda=agenda), Fill(wish.grounded, goes_on=True), self.titles)
        return state

    def _in_words(self, wish: Wish) -> str:
        values = ", ".join(map(shown_value, wish.grounded.values.values()))
        title = self.titles.flow(wish.flow)
        return f"{title} ({values})" if values else title

    def _cancel_flows(
        self,
        state: TurnState,
        flows: Sequence[OpenFlow],
        *,
        text: str = "",
        covered: int = 1,
        targets: Sequence[str] = (),
    ) -> TurnState:
        """Cancel these flows, the latest first. A flow that destroyed something is kept, to resume if asked for again.

        `text` replaces the usual sentences about the first `covered` flows. A flow canceled right after it was chosen
        is logged as possibly wrong, with the `targets` as the flows that were probably wanted.
        """
        for flow in flows:
            if flow.turn + 1 >= state.request.conversation.turns:
                note = "called off in the turn after it was chosen"
                self.selector.hint(flow.logged, right=targets, note=note)
        canceled = [*flows, *self._callers(state.agenda, flows)]
        canceled += self._called_for(state.agenda, canceled)
        texts: list[str] = []
        unmentioned = canceled
        if text:
            texts.append(text)
            unmentioned = canceled[covered:]
        for flow in unmentioned:
            if not self._is_part_of(flow, canceled):
                texts.append(called_off_text(flow, self.titles))
        kept: list[OpenFlow] = []
        for flow in canceled:
            kept.extend(self.gate.flow_to_keep(flow))
        agenda = Agenda(_flows_left(state.agenda.flows, canceled), (*state.agenda.failed, *kept))
        resumed = agenda.top.name if agenda.top is not None else ""
        return replace(state, way=ASK, agenda=agenda, text="\n\n".join(texts), resumed=resumed)

    def _callers(self, agenda: Agenda, canceled: Sequence[OpenFlow]) -> Iterator[OpenFlow]:
        names = {each.name for each in canceled}
        # A caller lies below what it calls, so that one pass finds the callers of callers too.
        for open_flow in reversed(agenda.flows):
            if open_flow.name in names or open_flow.status != "queued":
                continue
            flow = self.flows.find(open_flow.name)
            if flow is not None and not names.isdisjoint(flow.calls):
                names.add(open_flow.name)
                yield open_flow

    def _called_for(self, agenda: Agenda, canceled: Sequence[OpenFlow]) -> list[OpenFlow]:
        """Return the flows that run only because those that are called off called them, the latest first."""
        gone = list(canceled)
        # Each pass may free flows that only the last ones called.
        while True:
            remaining = flows_without(agenda.flows, gone)
            needed: set[str] = set()
            for open_flow in remaining:
                flow = self.flows.find(open_flow.name)
                if flow is not None:
                    needed.update(flow.calls)
            callers = {open_flow.name for open_flow in gone}
            called: list[OpenFlow] = []
            for open_flow in reversed(remaining):
                if open_flow.caller in callers and open_flow.name not in needed:
                    called.append(open_flow)
            if not called:
                return gone[len(canceled) :]
            gone += called

    def _is_part_of(self, called: OpenFlow, canceled: Sequence[OpenFlow]) -> bool:
        """Whether a flow ran only for another one that is called off too, whose text covers both."""
        if self.titles.effects(called.past_calls):
            return False
        return bool(called.caller) and any(each.name == called.caller for each in canceled)


def _flows_left(flows: Sequence[OpenFlow], canceled: Sequence[OpenFlow]) -> tuple[OpenFlow, ...]:
    """Return the flows that are not called off, with the calls of the others removed from their questions."""
    gone = {flow.key for flow in canceled}
    calls = [flow.pending for flow in canceled if flow.pending is not None]
    return tuple(_without_calls(flow, calls) for flow in flows if flow.key not in gone)


def _without_calls(flow: OpenFlow, calls: Sequence[PendingCall]) -> OpenFlow:
    """Return a parked flow whose question lists none of these calls of other wishes any more."""
    pending = flow.pending
    if pending is None:
        return flow
    remaining: list[PendingCall] = []
    for own in pending.more:
        if not any(own.is_same(call) for call in calls):
            remaining.append(own)
    changed = pending.model_copy(update={"more": tuple(remaining)})
    return flow.model_copy(update={"pending": changed})


def _with_call_withdrawn(state: TurnState) -> TurnState:
    """Forget the call that waited: models see no old question, and the same call is a new one, with its own id.

    So do the other wishes that its question lists.
    """
    conversation = state.request.conversation.model_copy(update={"pending": None})
    request = replace(state.request, conversation=conversation)
    listed = {id(flow) for flow in state.agenda.listed_in(state.pending)}
    flows: list[OpenFlow] = []
    for flow in state.agenda.flows:
        kept = flow.model_copy(update={"pending": None}) if id(flow) in listed else flow
        flows.append(kept)
    agenda = replace(state.agenda, flows=tuple(flows))
    return replace(state, request=request, agenda=agenda, pending=None)


def _with_wishes(state: TurnState, wishes: Sequence[Wish], *, wanted: str) -> TurnState:
    """Put the wished flows on top. A flow parked below keeps its pending call."""
    logged = state.selection.logged if state.selection is not None else ""
    agenda = state.with_call_parked().agenda.with_wishes(
        wishes, request=wanted, turn=state.request.conversation.turns, logged=logged
    )
    return replace(state, agenda=agenda, pending=None)


def _ask_to_begin(state: TurnState) -> TurnState:
    """Ask for a yes before the flow on top begins, unless a check refused it: then there is nothing to ask."""
    top = state.agenda.top
    if top is not None and top.refusal:
        return replace(state, way=RUN, reason=_UNREAD)
    if top is not None and top.status == "queued":
        waiting = top.model_copy(update={"status": "waiting"})
        state = replace(state, agenda=state.agenda.with_top(waiting))
    return replace(state, way=ASK, reason=_UNREAD)
