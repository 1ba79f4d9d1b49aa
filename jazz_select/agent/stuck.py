"""Whether a turn understood its user: what counts towards handing a conversation over to a person."""

from typing import Final, Literal

from jazz_select.agent.turn import TurnWork
from jazz_select.consent import is_courtesy
from jazz_select.phrases import QUESTION_MARKS, phrases
from jazz_select.text import nfkc
from jazz_select.threads import spent_budget
from jazz_select.words import ASKING

Understanding = Literal["understood", "stuck", "neither"]
_ASKS_IN_JAPANESE: Final = "か"
_EDGES: Final = " \t\r\n.,;:!…。、'\"()"


def understanding_of(work: TurnWork) -> Understanding:
    """Return what a turn made of its message, before its answer is written.

    It is stuck if nothing was understood or a value was refused: the same is asked as before, or no flow fits and
    nobody answered. A question that was answered is understood. A greeting, and a turn in which a model, the memory or
    the time failed, say nothing about the user.
    """
    message = work.request.message
    if spent_budget() is not None or _failed(work):
        return "neither"
    if _went_on(work) or (_is_answered(work) and is_question(message)):
        return "understood"
    if is_courtesy(message) or not message.strip():
        return "neither"
    return "stuck" if _asks_the_same(work) or _found_no_flow(work) else "understood"


def is_question(message: str) -> bool:
    """Whether a message asks something: it has a question mark, or begins with a word of asking."""
    if QUESTION_MARKS & set(message):
        return True
    text = nfkc(message).casefold().strip(_EDGES)
    words = text.split()
    while words and words[0].strip(_EDGES) in phrases()["courtesy"]:
        words.pop(0)
    return text.endswith(_ASKS_IN_JAPANESE) or (bool(words) and words[0].strip(_EDGES) in ASKING)


def _asks_the_same(work: TurnWork) -> bool:
    """Whether a flow waits for the same as before, or a call for the yes that this message did not give."""
    top, before = work.stack.top, work.request.conversation.active
    if work.pending is not None:
        return True
    if top is None or before is None or top.status != "waiting":
        return False
    asked = (before.name, before.asks, before.answers, before.status)
    return asked == (top.name, top.asks, top.answers, top.status)


def _found_no_flow(work: TurnWork) -> bool:
    """Whether no flow fits and nobody knew what was meant: no model answers, or it asks back and looks nothing up."""
    if work.stack.top is not None or work.way != "open":
        return False
    return bool(QUESTION_MARKS & set(work.text)) or not _is_answered(work)


def _failed(work: TurnWork) -> bool:
    selection = work.selection
    return work.error is not None or (selection is not None and bool(selection.decision.error))


def _is_answered(work: TurnWork) -> bool:
    """Whether a model answered the message in words; the question that is repeated behind it is no answer."""
    by_reader = work.selection is not None and bool(work.selection.decision.answer)
    return bool(work.text.strip()) and (work.chain is not None or by_reader)


def _went_on(work: TurnWork) -> bool:
    """Whether something was done, begun, called off, asked anew or answered for a flow."""
    before = work.request.conversation
    if work.granted is not None or work.calls or work.question is not None:
        return True
    flows = sorted(each.name for each in work.stack.flows)
    if flows != sorted(each.name for each in before.flows):
        return True
    if work.pending is not None and (before.pending is None or before.pending.id != work.pending.id):
        return True
    return any(run.status != "waiting" for run in work.runs)
