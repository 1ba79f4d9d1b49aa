"""Decide what follows from a message: the state before it and its reading give the actions of the turn. Pure.

The answer to what waits comes first: the call that wants a yes, the value that was proposed, the question for inputs.
What a message says beside it is never dropped: it begins, is answered, or is said to be left open.
"""

from collections.abc import Sequence
from typing import Any

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
from jazz_select.agent.agenda import flows_without
from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.reading.grounding import NO_VALUES, Grounded
from jazz_select.agent.reading.reading import Able, Reading, Wish
from jazz_select.agent.turn import TurnState
from jazz_select.json_values import storable_fields
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.values import Reason


def decide(  # noqa: C901, PLR0911, PLR0912 - a line for each kind of message
    state: TurnState, reading: Reading, able: Able
) -> tuple[Action, ...]:
    """Return the actions of a turn, in order. The last one says how the turn goes on.

    Args:
        state: The flows, and the call that waits for a yes, before the message.
        reading: What the message says.
        able: What the agent can do with it.
    """
    top = state.agenda.top
    # The first reading that fits decides. What answers the question that was asked comes before any new wish.
    if reading.problem:
        return _follow_failure(state)
    if reading.waits:
        return (Tell("paused", "the user asked for time", pauses=True),)
    if reading.thanks:
        return (Tell("welcome", "the user thanks"),)
    if reading.repeats:
        return (AskAgain(),)
    if reading.source == "model":
        return _follow_model(state, reading, able)
    if reading.answer in {"yes", "no"} and state.pending is not None:
        return _follow_answer(state.pending.flow, reading)
    if reading.proposal == "no":
        return (Reject(),)
    if reading.answer == "yes" and top is not None:
        return (Agree(), *_follow_rest(reading, after=top.name))
    if reading.called_off:
        return (CallOff(),)
    if reading.for_model:
        return (Continue(is_first=reading.is_first),)
    if reading.picked == "off":
        return (Tell("none_of_these", "which flow is meant was asked, and the user called it off"),)
    if reading.source == "rule" and reading.says_values and top is not None:
        return _fill(top, reading, goes_on=False)
    if reading.source == "rule" and reading.wishes:
        return (Begin(reading.wishes, wanted=reading.wanted),)
    if reading.question is not None:
        return _ask_which(state, reading)
    return _follow_recall(state, reading, able)


def why_open(found: FlowSelectionResult | None) -> str:
    """Return the reason why nothing of a selection runs."""
    if found is None:
        return "no flow fits"
    if found.names and found.decision.reason is Reason.FALLBACK_INVALID:
        return "the model's choice could not be read, or names no flow that it was offered"
    if found.names and found.decision.raw_reply is not None:
        return "no flow fits, as the model says"
    if found.names:
        unsure = f"it is not sure enough that {found.names[0]} is meant"
        if found.decision.confidence is None:
            unsure += ": the catalogue is too small to tell how sure recall is, and no model chooses"
        return unsure
    if not found.candidates:
        return "nothing was recalled: has sync_registry run for this agent, with this memory?"
    return "no flow fits"


def _follow_failure(state: TurnState) -> tuple[Action, ...]:
    """Go on without a selection: nobody could say which flow is meant."""
    if state.agenda.waiting is not None:
        return (AskAgain(),)
    if state.agenda.top is None:
        return (Answer(),)
    return (Continue(),)


def _follow_answer(flow: str, reading: Reading) -> tuple[Action, ...]:
    """Follow a rule's yes or no to the call that waits."""
    if reading.answer == "yes":
        return (Grant(), *_follow_rest(reading, after=flow))
    return (Refuse(), *_follow_rest(reading))


def _follow_rest(reading: Reading, *, after: str = "") -> tuple[Action, ...]:
    """Follow what was said beside an answer: wishes begin, and anything else is not passed over."""
    if reading.wishes:
        return (Begin(reading.wishes, after=after, wanted=reading.wanted),)
    if reading.rest:
        return (LeaveOver(reading.rest),)
    return ()


def _follow_model(state: TurnState, reading: Reading, able: Able) -> tuple[Action, ...]:  # noqa: PLR0911 - likewise
    """Follow what a chat model read."""
    if answered := _follow_reply(state, reading):
        return answered
    waiting = state.agenda.waiting
    instructs = bool(reading.wishes or reading.called_off or reading.off_unclear)
    # Values alone are for the flow that asked for them.
    if not instructs and waiting is not None and reading.says_values:
        return _go_on(state, waiting, reading, able)
    off = _call_off(reading)
    if off and not reading.wishes:
        return off
    if not reading.wishes:
        if state.agenda.top is None or able.answers:
            return (Answer(why_open(reading.selection)),)
        if waiting is not None:
            return (AskAgain(),)
        return (Continue(),)
    # What this message calls off is gone before its wishes are placed.
    remaining = [flow for flow in state.agenda.flows if flow.key not in reading.called_off]
    top = remaining[-1] if remaining else None
    if waiting is None or top is None or top.name not in reading.names:
        return (*off, Begin(reading.wishes, wanted=reading.wanted))
    if reading.names == [top.name]:
        return (*off, *_go_on(state, top, reading, able))
    # The flow on top takes its values where it stands; named first, it stays on top of the others.
    first = Wish(top.name)
    others = _other_wishes(top.name, reading.wishes)
    return (*off, Fill(reading.grounded, goes_on=True), Begin((first, *others), wanted=reading.wanted))


def _follow_reply(state: TurnState, reading: Reading) -> tuple[Action, ...]:
    """Follow what a model read of the answer to the call that waits; nothing if there is none, or it says no more."""
    pending = state.pending
    listed = [flow.key for flow in state.agenda.all_listed(pending)]
    listed_off = [key for key in listed if key in reading.called_off]
    is_some_off = 0 < len(listed_off) < len(listed)
    # A no that calls off only some of the listed wishes refuses these, and not the whole question.
    if pending is not None and reading.answer == "no" and not is_some_off:
        return _refuse(state, reading)
    if pending is not None and reading.answer == "yes":
        return (Grant(), *_call_off(reading), *_follow_rest(reading, after=pending.flow))
    kept = _kept_wishes(state, reading)
    is_corrected = not reading.is_more and any(each.grounded != NO_VALUES for each in kept)
    if kept and (reading.is_only or is_corrected) and not reading.called_off:
        return (Refuse(kept=kept), *_begin_others(state, reading))
    if reading.answer != "unclear":
        return ()
    instructs = bool(reading.wishes or reading.called_off or reading.off_unclear or reading.says_values)
    is_off = bool(listed) and listed[0] in reading.called_off and not is_some_off
    if is_off or not instructs:
        return (AskAgain(),)
    return ()


def _call_off(reading: Reading) -> tuple[Action, ...]:
    """Call off what a message calls off, and ask which of several wishes is meant where it does not say."""
    actions: list[Action] = []
    if reading.called_off:
        actions.append(CallOff(reading.called_off, targets=tuple(reading.names)))
    if reading.off_unclear:
        actions.append(AskWhichWish(reading.off_unclear))
    return tuple(actions)


def _kept_wishes(state: TurnState, reading: Reading) -> tuple[KeptWish, ...]:
    """Return which of several wishes that a question lists stay wanted by a message that refuses it: those it names.

    A message that corrects one of them, and does not say that it means only that, leaves the others as they were. They
    are in the order of the question.
    """
    listed = state.agenda.all_listed(state.pending)
    if len(listed) < 2:  # noqa: PLR2004 - several
        return ()
    named: list[OpenFlow] = []
    kept: list[KeptWish] = []
    for own, wish in _listed_wishes(listed, reading.wishes):
        if own is not None:
            named.append(own)
            kept.append(KeptWish(own.key, _new_in(wish.grounded, own)))
    is_corrected = any(wish.grounded.values for wish in kept)
    if is_corrected and not reading.is_only:
        kept += [KeptWish(flow.key) for flow in flows_without(listed, named)]
    order = [flow.key for flow in listed]
    return tuple(sorted(kept, key=lambda wish: order.index(wish.key)))


def _begin_others(state: TurnState, reading: Reading) -> tuple[Action, ...]:
    """Begin the wishes that are none of those that a question lists."""
    listed = state.agenda.all_listed(state.pending)
    wishes = [wish for own, wish in _listed_wishes(listed, reading.wishes) if own is None]
    if not wishes:
        return ()
    # What is kept of the same flow is named first, so that another object takes no place of it.
    if listed and any(wish.flow == listed[0].name for wish in wishes):
        wishes.insert(0, Wish(listed[0].name))
    return (Begin(tuple(wishes), wanted=reading.wanted),)


def _listed_wishes(listed: Sequence[OpenFlow], wishes: Sequence[Wish]) -> list[tuple[OpenFlow | None, Wish]]:
    """Return the wishes, each with the listed one that has its values, or shares most of them; None without one."""
    unmatched = list(listed)
    pairs: list[tuple[OpenFlow | None, Wish]] = []
    for wish in wishes:
        values = storable_fields(wish.grounded.values)[0]
        own: OpenFlow | None = None
        most_shared = 0
        for flow in unmatched:
            shared = flow.count_shared(values)
            if flow.name == wish.flow and shared > most_shared:
                own, most_shared = flow, shared
        if own is not None:
            unmatched.remove(own)
        pairs.append((own, wish))
    return pairs


def _new_in(stated: Grounded, own: OpenFlow) -> Grounded:
    """Return what is new to a wish of what was said for it."""
    stored = storable_fields(stated.values)[0]
    new: dict[str, Any] = {}
    for name, value in stated.values.items():
        if own.answers.get(name) != stored.get(name):
            new[name] = value
    if new or stated.unclear or stated.wrong:
        return stated._replace(values=new)
    return NO_VALUES


def _refuse(state: TurnState, reading: Reading) -> tuple[Action, ...]:
    """Drop the call that waits. If the message goes on with its flow, the model at work there hears it.

    Of several calls that were asked about together, those that the message names are asked about again.
    """
    kept = _kept_wishes(state, reading)
    if kept:
        return (Refuse(kept=kept), *_begin_others(state, reading))
    pending, top = state.pending, state.agenda.top
    own = "" if pending is None else pending.flow
    if own not in reading.names:
        return (Refuse(), *_begin_any(reading.wishes, reading))
    others = _other_wishes(own, reading.wishes)
    # A model at work on the flow asked for the call: it reads the message and may ask for another.
    if top is not None and pending is not None and pending.door == "chain":
        return (Refuse(is_for_model=True), *_begin_any(others, reading, after=own))
    if top is not None and reading.says_values:
        wishes = (Wish(own), *others) if others else ()
        return (Fill(reading.grounded, goes_on=True), *_begin_any(wishes, reading))
    return (Refuse(), *_begin_any(others, reading))


def _begin_any(wishes: tuple[Wish, ...], reading: Reading, *, after: str = "") -> tuple[Action, ...]:
    """Begin these wishes, if there are any."""
    if not wishes:
        return ()
    return (Begin(wishes, after=after, wanted=reading.wanted),)


def _go_on(state: TurnState, waiting: OpenFlow, reading: Reading, able: Able) -> tuple[Action, ...]:
    """Go on with the waiting flow, or answer a question about it if the message gives it nothing."""
    known = {**waiting.answers, **state.request.context}
    waits = state.pending is not None or any(name not in known for name in waiting.asks)
    is_repeated = sum(each.flow == waiting.name for each in reading.wishes) > 1
    if waits and able.answers and not reading.says_values and not is_repeated:
        return (Answer(about=True),)
    return _fill(waiting, reading, goes_on=True)


def _fill(waiting: OpenFlow, reading: Reading, *, goes_on: bool) -> tuple[Action, ...]:
    """Fill the waiting flow with the first object, and begin it again for each of the others."""
    fill = Fill(reading.grounded, goes_on=goes_on, is_understood=reading.is_understood)
    others = [wish for wish in _other_wishes(waiting.name, reading.wishes) if wish.flow == waiting.name]
    if not others:
        return (fill,)
    return (fill, Begin((Wish(waiting.name), *others), wanted=reading.wanted))


def _other_wishes(own: str, wishes: Sequence[Wish]) -> tuple[Wish, ...]:
    """Return the wishes without the first one for a flow that is open already."""
    for place, wish in enumerate(wishes):
        if wish.flow == own:
            return (*wishes[:place], *wishes[place + 1 :])
    return tuple(wishes)


def _ask_which(state: TurnState, reading: Reading) -> tuple[Action, ...]:
    """Ask which flow is meant, as the selector suggests, unless the message is for the flow under way."""
    top, waiting, question = state.agenda.top, state.agenda.waiting, reading.question
    why = reading.not_asked
    if top is not None and not reading.is_elsewhere:
        why = why or f"the message is taken to be for {top.name}"
    asks: tuple[Action, ...] = ()
    if question is not None and not why:
        asks = (AskWhich(question),)
    if waiting is not None:
        fill = Fill(reading.grounded, is_understood=True)
        if reading.says_values:
            return (fill,)
        return (fill, *asks)
    if asks:
        return asks
    if top is None:
        return (Answer(why),)
    return (Continue(why=why),)


def _follow_recall(state: TurnState, reading: Reading, able: Able) -> tuple[Action, ...]:
    """Follow what recall found, or the user chose."""
    top, waiting = state.agenda.top, state.agenda.waiting
    if waiting is not None and (not reading.is_sure or reading.names == [waiting.name]):
        return _fill(waiting, reading, goes_on=reading.is_sure)
    if reading.is_sure:
        wishes = reading.wishes[:1] if reading.is_held else reading.wishes
        is_first = able.answers and not reading.is_held
        return (Begin(wishes, is_held=reading.is_held, is_first=is_first, wanted=reading.wanted),)
    if top is None:
        return (Answer(why_open(reading.selection)),)
    return (Continue(),)
