"""Store what a message says of the inputs of a waiting flow, and ask again for what it leaves open. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazz_select.agent.actions import Fill
from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.reading.grounding import Grounded, same
from jazz_select.agent.titles import Titles, shown_value
from jazz_select.agent.turn import ASK, RUN, TurnState
from jazz_select.json_values import storable_fields
from jazz_select.text import in_words
from jazz_select.texts import say


def fill(state: TurnState, action: Fill, titles: Titles) -> TurnState:
    """Return the state after what was said of the inputs of the flow on top: it goes on, or asks again."""
    top = state.agenda.top
    if top is None:
        return state
    said = action.said
    if said.unclear:
        filled = _with_unclear(state, top, said, titles)
    else:
        gives = bool(said.values or said.taken_back)
        goes_on = gives or (action.goes_on and not said.wrong)
        filled = _with_values(state, top, said, titles, goes_on=goes_on)
    if filled.way.to != "ask":
        return filled
    if not filled.text and not action.is_understood and filled.agenda == state.agenda:
        filled = replace(filled, text=say("not_understood"))
    return asked_again(filled)


def asked_again(state: TurnState) -> TurnState:
    """Repeat the question with the reason. If another input must be asked for first, drop the pending call."""
    waiting, pending = state.agenda.top, state.pending
    if pending is not None and waiting is not None:
        known = pending.arguments
        stale = any(known.get(name, value) != value for name, value in waiting.answers.items())
        stale = stale or any(name in known and name not in waiting.answers for name in waiting.asks)
        pending = None if any(waiting.choices.values()) or waiting.anew or stale else pending
    wanted = ", ".join(waiting.asks) if waiting is not None else ""
    if pending is not None:
        why = f"the message says neither yes nor no to {pending.tool}"
    else:
        why = f"the message does not plainly give {wanted}" if wanted else "the message is no yes to going on"
    return replace(state, pending=pending, reason=state.reason or f"the question was asked again: {why}")


def _with_values(state: TurnState, top: OpenFlow, said: Grounded, titles: Titles, *, goes_on: bool) -> TurnState:
    """Store values, and ask again for those that are wrong. Corrections are said back.

    Values that were withdrawn are removed. A correction invalidates results found with the old value. If steps that
    used it had effects, the user is asked first whether to restart.
    """
    answers, back, refused = storable_fields(said.values)[0], said.taken_back, said.wrong
    # The steps that ran did not use a value that is new and was not asked for.
    is_correction = any(name in top.answers or name not in top.asks for name in answers) or bool(back)
    is_correction = is_correction and not top.is_final
    kept = {name: value for name, value in top.answers.items() if name not in {*back, *refused}}
    still = {name: text for name, text in top.wrong.items() if name not in {**answers, **said.unclear}}
    known: dict[str, Any] = {"answers": {**kept, **answers}, "wrong": {**still, **refused}, "refusal": said.refusal}
    gone = [name for name in back if name not in answers]
    if said.every:
        known["every"] = True
    if refused or gone:
        known["asks"] = tuple(dict.fromkeys((*refused, *gone, *top.asks)))
    if answers.keys() & top.choices.keys():
        known["choices"] = {name: each for name, each in top.choices.items() if name not in answers}
    goes_on = goes_on and not gone
    if is_correction and titles.effects(top.past_calls):
        known |= {"anew": True, "status": "waiting", "pending": None}
        goes_on = False
    elif is_correction:
        known |= {"parts": {}, "pending": None}
    told = [state.text, *_corrections_in_words(top, answers, back)]
    agenda = state.agenda.with_top(top.model_copy(update=known)).without_same_wish()
    way = RUN if goes_on or said.refusal else ASK
    return replace(state, way=way, agenda=agenda, text="\n".join(filter(None, told)))


def _with_unclear(state: TurnState, top: OpenFlow, said: Grounded, titles: Titles) -> TurnState:
    """Ask for the inputs with ambiguous answers, and drop results found with an earlier answer."""
    filled = _with_values(state, top, said._replace(taken_back=(), wrong={}), titles, goes_on=False)
    flow = filled.agenda.top or top
    known = {name: value for name, value in flow.answers.items() if name not in said.unclear}
    asks = tuple(dict.fromkeys((*said.unclear, *top.asks)))
    waits: dict[str, Any] = {"answers": known, "asks": asks, "choices": said.unclear}
    if len(known) < len(flow.answers) and not flow.is_final:
        waits |= {"parts": {}, "pending": None}
    reason = f"which is meant is not clear: {', '.join(said.unclear)}"
    return replace(filled, agenda=filled.agenda.with_top(flow.model_copy(update=waits)), reason=reason)


def _corrections_in_words(top: OpenFlow, answers: Mapping[str, Any], back: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each value that replaces another one, or is taken back."""
    for name, value in answers.items():
        if name in top.answers and not same(top.answers[name], value):
            old, new = (shown_value(each) for each in (top.answers[name], value))
            yield say("corrected", input=in_words(name), new=new, old=old)
    for name in back:
        yield say("taken_back", input=in_words(name), old=shown_value(top.answers[name]))
