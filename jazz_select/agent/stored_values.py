"""Store what a message says of the inputs of a waiting flow, and ask again for what it leaves open. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazz_select.agent.actions import Fill
from jazz_select.agent.conversation import OpenFlow, PendingCall
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
    grounded = action.grounded
    if grounded.unclear:
        filled = _with_unclear(state, top, grounded, titles)
    else:
        gives = bool(grounded.values or grounded.taken_back)
        goes_on = gives or (action.goes_on and not grounded.wrong)
        filled = _with_values(state, top, grounded, titles, goes_on=goes_on)
    if filled.way.to != "ask":
        return filled
    if not filled.text and not action.is_understood and filled.agenda == state.agenda:
        filled = replace(filled, text=say("not_understood"))
    return with_question_again(filled)


def with_question_again(state: TurnState) -> TurnState:
    """Repeat the question with the reason. If another input must be asked for first, drop the pending call."""
    waiting, pending = state.agenda.top, state.pending
    if pending is not None and waiting is not None:
        is_unclear = any(waiting.choices.values())
        if is_unclear or waiting.anew or _is_stale(pending, waiting):
            pending = None
    if pending is not None:
        why = f"the message says neither yes nor no to {pending.tool}"
    elif waiting is not None and waiting.asks:
        why = f"the message does not plainly give {', '.join(waiting.asks)}"
    else:
        why = "the message is no yes to going on"
    return replace(state, pending=pending, reason=state.reason or f"the question was asked again: {why}")


def _is_stale(pending: PendingCall, waiting: OpenFlow) -> bool:
    """Whether a call was shown with other values than its flow has now, or with one that is asked for again."""
    shown = pending.arguments
    for name, value in waiting.answers.items():
        if shown.get(name, value) != value:
            return True
    return any(name in shown and name not in waiting.answers for name in waiting.asks)


def _with_values(state: TurnState, top: OpenFlow, grounded: Grounded, titles: Titles, *, goes_on: bool) -> TurnState:
    """Store values, and ask again for those that are wrong. Corrections are said back.

    Values that were withdrawn are removed. A correction invalidates results found with the old value. If steps that
    used it had effects, the user is asked first whether to restart.
    """
    answers, withdrawn, refused = storable_fields(grounded.values)[0], grounded.taken_back, grounded.wrong
    # Steps ran with the earlier value, or without one that nobody had asked for: their results are out of date.
    is_correction = bool(withdrawn) or any(name in top.answers or name not in top.asks for name in answers)
    # After a destructive step nothing is begun again.
    is_correction = is_correction and not top.is_final
    still_known = {name: value for name, value in top.answers.items() if name not in {*withdrawn, *refused}}
    still_wrong = {name: text for name, text in top.wrong.items() if name not in {**answers, **grounded.unclear}}
    changes: dict[str, Any] = {
        "answers": {**still_known, **answers},
        "wrong": {**still_wrong, **refused},
        "refusal": grounded.refusal,
    }
    missing = [name for name in withdrawn if name not in answers]
    if grounded.every:
        changes["every"] = True
    if refused or missing:
        changes["asks"] = tuple(dict.fromkeys((*refused, *missing, *top.asks)))
    if answers.keys() & top.choices.keys():
        changes["choices"] = {name: values for name, values in top.choices.items() if name not in answers}
    goes_on = goes_on and not missing
    if is_correction and titles.effects(top.past_calls):
        changes |= {"anew": True, "status": "waiting", "pending": None}
        goes_on = False
    elif is_correction:
        changes |= {"parts": {}, "pending": None}
    texts = [state.text, *_corrections_in_words(top, answers, withdrawn)]
    agenda = state.agenda.with_top(top.model_copy(update=changes)).without_same_wish()
    way = RUN if goes_on or grounded.refusal else ASK
    return replace(state, way=way, agenda=agenda, text="\n".join(text for text in texts if text))


def _with_unclear(state: TurnState, top: OpenFlow, grounded: Grounded, titles: Titles) -> TurnState:
    """Ask for the inputs with ambiguous answers, and drop results found with an earlier answer."""
    filled = _with_values(state, top, grounded._replace(taken_back=(), wrong={}), titles, goes_on=False)
    flow = filled.agenda.top or top
    clear = {name: value for name, value in flow.answers.items() if name not in grounded.unclear}
    asks = tuple(dict.fromkeys((*grounded.unclear, *top.asks)))
    changes: dict[str, Any] = {"answers": clear, "asks": asks, "choices": grounded.unclear}
    if len(clear) < len(flow.answers) and not flow.is_final:
        changes |= {"parts": {}, "pending": None}
    reason = f"which is meant is not clear: {', '.join(grounded.unclear)}"
    return replace(filled, agenda=filled.agenda.with_top(flow.model_copy(update=changes)), reason=reason)


def _corrections_in_words(top: OpenFlow, answers: Mapping[str, Any], withdrawn: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each value that replaces another one, or is taken back."""
    for name, value in answers.items():
        if name in top.answers and not same(top.answers[name], value):
            yield say("corrected", input=in_words(name), new=shown_value(value), old=shown_value(top.answers[name]))
    for name in withdrawn:
        yield say("taken_back", input=in_words(name), old=shown_value(top.answers[name]))
