"""Carry out the actions of a turn, one after the other: each gives the state for the next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Any, Final

from jazz_select.agent.actions import (
    Action,
    Agree,
    Answer,
    AskAgain,
    AskWhich,
    Begin,
    CallOff,
    Continue,
    Fill,
    Grant,
    LeaveOver,
    Refuse,
    Reject,
    Tell,
)
from jazz_select.agent.answer import called_off, left_open, left_undone, shown_value, too_late_text
from jazz_select.agent.conversation import MOST_FLOWS, OpenFlow, PendingCall, after_selection, listed_in, resumed_flows
from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.reading.grounding import Grounded, same
from jazz_select.agent.reading.reading import Reading, Wish
from jazz_select.agent.turn import FlowStack, TurnWork
from jazz_select.json_values import storable_fields
from jazz_select.text import in_words
from jazz_select.texts import say

_WHICH: Final = "two or three flows are left, and the user is asked which"
_UNREAD: Final = "nobody has read whether this is to be begun"


@dataclass(frozen=True, kw_only=True)
class ActionRunner:
    """Carries out what was decided about a message; `running` then runs the flows."""

    running: TurnFlows

    async def carry_out(self, state: TurnWork, reading: Reading, actions: Sequence[Action]) -> TurnWork:
        """Return the state after all actions; its `way` says what the turn does next."""
        state = replace(
            state,
            selection=reading.selection or state.selection,
            notes=(*state.notes, *reading.notes),
            no_yes=reading.no_yes,
            error=reading.error or state.error,
            reason=state.reason or reading.problem,
        )
        for action in actions:
            state = await self._perform(action, state, reading)
        return state

    @singledispatchmethod
    async def _perform(self, action: Action, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        """Perform one action."""
        msg = f"no such action: {action!r:.80}"
        raise TypeError(msg)

    @_perform.register
    async def _grant(self, action: Grant, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        pending = state.pending
        way = "run" if pending is not None and pending.flow else "open"
        return replace(state, way=way, granted=pending, pending=None)

    @_perform.register
    async def _refuse(self, action: Refuse, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        pending, top = state.pending, state.stack.top
        if pending is None:
            return state
        became = too_late_text(pending, await self.running.approval.withdraw(pending))
        state = _with_call_withdrawn(state)
        if action.is_heard and top is not None:
            stack = state.stack.with_top(top.model_copy(update={"status": "active"}))
            text = "\n\n".join(filter(None, (state.text, became)))
            return replace(state, way="run", stack=stack, text=text)
        if top is not None and pending.flow:
            refused = [top, *reversed(listed_in(pending, state.stack.flows[:-1]))]
            return self._without(state, refused, told=became, of=len(refused))
        return replace(state, way="ask", text=became or left_undone(pending))

    @_perform.register
    async def _agree(self, action: Agree, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        top = state.stack.top
        if top is None:
            return state
        return replace(state, way="run", stack=state.stack.with_top(self.running.gate.agreed(top)), pending=None)

    @_perform.register
    async def _fill(self, action: Fill, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        top = state.stack.top
        if top is None:
            return state
        said = action.said
        gives = bool(said.values or said.taken_back)
        if said.unclear:
            filled = self._with_unclear(state, top, said)
        else:
            goes_on = gives or (action.goes_on and not said.wrong)
            filled = self._with_values(state, top, said, goes_on=goes_on)
        if filled.way != "ask":
            return filled
        if not filled.text and not action.is_understood and filled.stack == state.stack:
            filled = replace(filled, text=say("not_understood"))
        return _asked_again(filled)

    @_perform.register
    async def _reject(self, action: Reject, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        top = state.stack.top
        name = next(iter(top.asks), "") if top is not None else ""
        if top is None or not name:
            return state
        choices = {each: values for each, values in top.choices.items() if each != name}
        stack = state.stack.with_top(top.model_copy(update={"choices": choices}))
        return replace(state, way="ask", stack=stack, pending=None, reason=f"{name} is another one")

    @_perform.register
    async def _begin(self, action: Begin, state: TurnWork, reading: Reading) -> TurnWork:
        wishes = (Wish(action.after), *action.wishes) if action.after else action.wishes
        wishes, too_many = _split_by_room(state.stack, wishes)
        wanted = reading.wanted or state.request.message
        begun = _with_wishes(state, wishes, wanted=wanted)
        if too_many:
            left = left_open(", ".join(map(self._in_words, too_many)))
            begun = replace(begun, text="\n\n".join(filter(None, (begun.text, left))))
        if action.is_held:
            top = begun.stack.top
            if top is not None and top.status == "queued" and not top.refusal:
                held = top.model_copy(update={"status": "waiting"})
                begun = replace(begun, stack=begun.stack.with_top(held))
            # Nobody is asked whether to begin what a check refused.
            return replace(begun, way="run" if top is not None and top.refusal else "ask", reason=_UNREAD)
        # A granted call of no flow is made by the model that answers; the flows wait for it.
        way = "open" if state.granted is not None and not action.after else "run"
        return replace(begun, way=way, resumed="", hears_first=action.is_first)

    @_perform.register
    async def _call_off(self, action: CallOff, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        top = [state.stack.top] if state.stack.top is not None else []
        named = [each for each in reversed(state.stack.flows) if each.name in action.flows]
        off = named if action.flows else top
        pending, became = state.pending, ""
        if pending is not None and any(each.name == pending.flow for each in off):
            became = too_late_text(pending, await self.running.approval.withdraw(pending))
            state, pending = _with_call_withdrawn(state), None
        left = self._without(state, off, told=became, meant=action.meant)
        left = replace(left, pending=pending_of_top(pending, left.stack.top))
        return left if state.granted is None else replace(left, way=state.way, resumed="")

    @_perform.register
    async def _leave_over(self, action: LeaveOver, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        if state.way == "ask":
            return replace(state, text=f"{state.text}\n\n{left_open(action.rest)}")
        return replace(state, rest=action.rest)

    @_perform.register
    async def _ask_which(self, action: AskWhich, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        why = f"{_WHICH}: {state.reason}".removesuffix(": ")
        return replace(state, way="ask", text=action.question.text, question=action.question, reason=why)

    @_perform.register
    async def _ask_again(self, action: AskAgain, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        return _asked_again(replace(state, way="ask"))

    @_perform.register
    async def _continue(self, action: Continue, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        return replace(state, way="run", hears_first=action.is_first, reason=state.reason or action.why)

    @_perform.register
    async def _answer(self, action: Answer, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        return replace(state, way="open", about=action.about, reason=state.reason or action.why)

    @_perform.register
    async def _tell(self, action: Tell, state: TurnWork, reading: Reading) -> TurnWork:  # noqa: ARG002
        reason = state.reason or action.why
        return replace(state, way="ask", text=say(action.text), reason=reason, paused=action.pauses)

    def _in_words(self, wish: Wish) -> str:
        values = ", ".join(map(shown_value, wish.said.values.values()))
        title = self.running.titles.flow(wish.flow)
        return f"{title} ({values})" if values else title

    # --- values of a waiting flow ------------------------------------------

    def _with_values(self, state: TurnWork, top: OpenFlow, said: Grounded, *, goes_on: bool) -> TurnWork:
        """Store values, and ask again for those that are wrong. Corrections are said back.

        Values that were withdrawn are removed. A correction invalidates results found with the old value. If steps that
        used it had effects, the user is asked first whether to restart.
        """
        answers, back, refused = storable_fields(said.values)[0], said.taken_back, said.wrong
        # The steps that ran did not use a value that is new and was not asked for.
        is_correction = any(name in top.answers or name not in top.asks for name in answers) or bool(back)
        is_correction = is_correction and not top.is_final
        kept = {name: value for name, value in top.answers.items() if name not in {*back, *refused}}
        still = {name: text for name, text in top.wrong.items() if name not in answers}
        known: dict[str, Any] = {"answers": {**kept, **answers}, "wrong": {**still, **refused}, "refusal": said.refusal}
        gone = [name for name in back if name not in answers]
        if said.every:
            known["every"] = True
        if refused or gone:
            known["asks"] = tuple(dict.fromkeys((*refused, *gone, *top.asks)))
        if answers.keys() & top.choices.keys():
            known["choices"] = {name: each for name, each in top.choices.items() if name not in answers}
        goes_on = goes_on and not gone
        if is_correction and self.running.titles.effects(top.ran):
            known |= {"anew": True, "status": "waiting", "pending": None}
            goes_on = False
        elif is_correction:
            known |= {"parts": {}, "pending": None}
        told = [state.text, *_corrections_in_words(top, answers, back)]
        stack = _without_the_same(state.stack.with_top(top.model_copy(update=known)))
        way = "run" if goes_on or said.refusal else "ask"
        return replace(state, way=way, stack=stack, text="\n".join(filter(None, told)))

    def _with_unclear(self, state: TurnWork, top: OpenFlow, said: Grounded) -> TurnWork:
        """Ask for the inputs with ambiguous answers, and drop results found with an earlier answer."""
        filled = self._with_values(state, top, said._replace(taken_back=(), wrong={}), goes_on=False)
        flow = filled.stack.top or top
        known = {name: value for name, value in flow.answers.items() if name not in said.unclear}
        asks = tuple(dict.fromkeys((*said.unclear, *top.asks)))
        waits: dict[str, Any] = {"answers": known, "asks": asks, "choices": said.unclear}
        if len(known) < len(flow.answers) and not flow.is_final:
            waits |= {"parts": {}, "pending": None}
        reason = f"which is meant is not clear: {', '.join(said.unclear)}"
        return replace(filled, stack=filled.stack.with_top(flow.model_copy(update=waits)), reason=reason)

    # --- calling off ---------------------------------------------------------

    def _without(
        self, state: TurnWork, off: Sequence[OpenFlow], *, told: str = "", of: int = 1, meant: Sequence[str] = ()
    ) -> TurnWork:
        """Cancel these flows, the latest first. A flow that destroyed something is kept, to resume if asked for again.

        `told` replaces the usual sentences about the first `of` them. A flow cancelled right after it was chosen is
        recorded in the log of outcomes as possibly wrong, with the `meant` flows as the probable targets.
        """
        for each in off:
            if each.turn + 1 >= state.request.conversation.turns:
                note = "called off in the turn after it was chosen"
                self.running.selector.hint(each.logged, right=meant, note=note)
        off = [*off, *self._callers(state.stack, off)]
        texts = [called_off(each, self.running.titles) for each in off]
        if told:
            texts[:of] = [told]
        kept = tuple(flow for each in off for flow in self.running.gate.kept(each))
        flows = tuple(each for each in state.stack.flows if not any(each is gone for gone in off))
        stack = FlowStack(flows, (*state.stack.failed, *kept))
        resumed = stack.top.name if stack.top is not None else ""
        return replace(state, way="ask", stack=stack, text="\n\n".join(texts), resumed=resumed)

    def _callers(self, stack: FlowStack, off: Sequence[OpenFlow]) -> Iterator[OpenFlow]:
        names = {each.name for each in off}
        for each in reversed(stack.flows):
            flow = self.running.flow(each.name)
            if each.name not in names and each.status == "queued" and flow is not None and names & {*flow.calls}:
                names.add(each.name)
                yield each


def _without_the_same(stack: FlowStack) -> FlowStack:
    """Drop the queued wishes for the same flow with the same values as the one on top: "no, only the other"."""
    top = stack.top
    if top is None or not top.answers:
        return stack
    alike = [
        each for each in stack.flows[:-1] if (each.name, each.status, each.answers) == (top.name, "queued", top.answers)
    ]
    left = tuple(each for each in stack.flows if not any(each is one for one in alike if not one.ran))
    return replace(stack, flows=left)


def _with_call_withdrawn(state: TurnWork) -> TurnWork:
    """Forget the call that waited: models see no old question, and the same call is a new one, with its own id."""
    settled = state.request.conversation.model_copy(update={"pending": None})
    return replace(state, request=replace(state.request, conversation=settled), pending=None)


def pending_of_top(pending: PendingCall | None, top: OpenFlow | None) -> PendingCall | None:
    """Return the pending call if it belongs to the flow on top or to none.

    A call that was saved without an id needs a new approval, because it cannot be claimed.
    """
    theirs = {"", top.name} if top is not None else {""}
    return pending if pending is not None and pending.id and pending.flow in theirs else None


def _corrections_in_words(top: OpenFlow, answers: Mapping[str, Any], back: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each value that replaces another one, or is taken back."""
    for name, value in answers.items():
        if name in top.answers and not same(top.answers[name], value):
            old, new = (shown_value(each) for each in (top.answers[name], value))
            yield say("corrected", input=in_words(name), new=new, old=old)
    for name in back:
        yield say("taken_back", input=in_words(name), old=shown_value(top.answers[name]))


def _asked_again(state: TurnWork) -> TurnWork:
    """Repeat the question with the reason. If another input must be asked for first, drop the pending call."""
    waiting, pending = state.stack.top, state.pending
    if pending is not None and waiting is not None:
        known = pending.arguments
        stale = any(known.get(name, value) != value for name, value in waiting.answers.items())
        stale = stale or any(name in known and name not in waiting.answers for name in waiting.asks)
        pending = None if waiting.choices or waiting.anew or stale else pending
    wanted = ", ".join(waiting.asks) if waiting is not None else ""
    if pending is not None:
        why = f"the message says neither yes nor no to {pending.tool}"
    else:
        why = f"the message does not plainly give {wanted}" if wanted else "the message is no yes to going on"
    return replace(state, pending=pending, reason=state.reason or f"the question was asked again: {why}")


def _split_by_room(stack: FlowStack, wishes: Sequence[Wish]) -> tuple[tuple[Wish, ...], tuple[Wish, ...]]:
    """Return the wishes for which a conversation has room beside its open flows, and the others."""
    room = MOST_FLOWS - sum(not each.is_final for each in stack.flows)  # what destroyed something is kept
    taken: list[Wish] = []
    left: list[Wish] = []
    wanted = [(each.flow, _stored(each.said)) for each in wishes]
    for wish, own in zip(wishes, resumed_flows(stack.flows, stack.failed, wanted), strict=True):
        needs = 0 if own is not None and (own.is_final or any(each is own for each in stack.flows)) else 1
        if taken and needs > room:
            left.append(wish)
            continue
        room -= needs
        taken.append(wish)
    return tuple(taken), tuple(left)


def _with_wishes(state: TurnWork, wishes: Sequence[Wish], *, wanted: str) -> TurnWork:
    """Put the wished flows on top. A flow parked below keeps its pending call."""
    top, stack, request = state.stack.top, state.with_call_parked().stack, state.request
    ordered = list(wishes)
    first = next((each for each in ordered if top is not None and each.flow == top.name), None)
    if first is not None:  # the active flow stays on top
        ordered.remove(first)
        ordered.insert(0, first)
    after = after_selection(
        stack.flows,
        stack.failed,
        [each.flow for each in ordered],
        values=[_stored(each.said) for each in ordered],
        request=wanted,
        turn=request.conversation.turns,
        logged=state.selection.logged if state.selection is not None else "",
    )
    # The wishes lie on top in reverse order, so that the first runs first.
    placed = list(reversed(after[len(after) - len(ordered) :]))
    chosen = [_with_said(each, wish.said) for each, wish in zip(placed, ordered, strict=True)]
    flows = (*after[: len(after) - len(ordered)], *reversed(chosen))
    failed = tuple(each for each in stack.failed if not any(each.key == flow.key for flow in placed))
    return replace(state, stack=FlowStack(flows, failed), pending=None)


def _stored(said: Grounded) -> dict[str, Any]:
    return storable_fields(said.values)[0]


def _with_said(flow: OpenFlow, said: Grounded) -> OpenFlow:
    """Return a chosen flow with the values in the message. Its pending call needs a new approval."""
    if flow.status != "queued":
        asked = {name: each for name, each in _stored(said).items() if name in flow.asks and flow.status == "waiting"}
        return flow.model_copy(update={"pending": None, "answers": {**asked, **flow.answers}})
    known: dict[str, Any] = {"answers": {**flow.answers, **_stored(said)}, "wrong": dict(said.wrong)}
    known["refusal"] = said.refusal
    meant = {name: tuple(each) for name, each in storable_fields(said.unclear)[0].items()}
    return flow.model_copy(update={**known, "choices": meant, "pending": None, "every": said.every})
