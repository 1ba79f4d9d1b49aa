"""Hand a turn over to a person: if its user is not understood turn after turn, or a flow failed."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from jazz_select.agent.flows.turn_flows import TurnFlows
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.turn import TurnState
from jazz_select.consent import is_courtesy
from jazz_select.phrases import QUESTION_MARKS, phrases
from jazz_select.text import nfkc
from jazz_select.threads import spent_budget
from jazz_select.words import ASKING

Understanding = Literal["understood", "stuck", "neither"]
_ASKS_IN_JAPANESE: Final = "か"
_EDGES: Final = " \t\r\n.,;:!…。、'\"()"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """Hands turns over to a person.

    Attributes:
        flows: The flows of the agent; one of them may be the author's own for that.
        running: Runs that flow.
        after: The number of turns in a row that were not understood after which a turn is handed over; failed flows
            are then handed over as well. None for never.
    """

    flows: KnownFlows
    running: TurnFlows
    after: int | None

    async def hand_over(self, state: TurnState) -> TurnState:
        """Hand the turn over to a person if the user is stuck or a flow failed, by the author's handover flow if any.

        The flow that failed or waits keeps its state, and so does the call that it waits for.
        """
        understanding = understanding_of(state)
        if understanding == "stuck":
            state = replace(state, not_understood=state.not_understood + 1)
        elif understanding == "understood":
            state = replace(state, not_understood=0)
        why = self._why(state, understanding)
        if not why:
            return state
        flow = next((each for each in self.flows.registry.values() if each.handover), None)
        own_name = flow.name if flow is not None else ""
        is_stuck, top = state.status != "failed", state.agenda.top
        if not is_stuck and state.runs[-1].flow == own_name:
            return state
        # A yes to the person who takes over is none to the call that waits.
        state = replace(state, not_understood=0).with_call_parked()
        if flow is None or (top is not None and top.name == own_name):
            return replace(state, status="handed_over", reason=why)
        if is_stuck:
            # What was asked of a user who is stuck leads nowhere; what was answered beside a flow that failed stays.
            state = replace(state, text="")
        state = await self.running.run_handover(state, flow.name)
        if state.status in {"open", "blocked"}:
            # The flow cannot run without a model, or a tool refused it. A person takes over all the same.
            state = replace(state, status="handed_over")
        # What waits is not asked again beside it.
        return replace(state, reason=why, resumed="")

    def _why(self, state: TurnState, understanding: Understanding) -> str:
        """Return why a person has to take over; empty if nobody has to."""
        if self.after is None:
            return ""
        if state.status == "failed" and spent_budget() is None and state.runs:
            return f"{state.runs[-1].flow} failed: {state.runs[-1].problem}"
        if state.not_understood < self.after or understanding != "stuck":
            return ""
        count, top = state.not_understood, state.agenda.top
        if top is None:
            return f"{count} messages in a row were not understood"
        return f"{count} questions for {', '.join(top.asks) or 'a yes'} led nowhere"


def understanding_of(state: TurnState) -> Understanding:
    """Return what a turn made of its message, before its answer is written.

    It is stuck if nothing was understood or a value was refused: the same is asked as before, or no flow fits and
    nobody answered. A question that was answered is understood. A greeting, and a turn in which a model, the memory or
    the time failed, say nothing about the user.
    """
    message = state.request.message
    if spent_budget() is not None or _has_failed(state):
        return "neither"
    if _went_on(state) or (_is_answered(state) and is_question(message)):
        return "understood"
    if is_courtesy(message) or not message.strip():
        return "neither"
    if _asks_the_same(state) or _found_no_flow(state):
        return "stuck"
    return "understood"


def is_question(message: str) -> bool:
    """Whether a message asks something: it has a question mark, or begins with a word of asking."""
    if QUESTION_MARKS & set(message):
        return True
    text = nfkc(message).casefold().strip(_EDGES)
    words = text.split()
    while words and words[0].strip(_EDGES) in phrases()["courtesy"]:
        words.pop(0)
    return text.endswith(_ASKS_IN_JAPANESE) or (bool(words) and words[0].strip(_EDGES) in ASKING)


def _asks_the_same(state: TurnState) -> bool:
    """Whether a flow waits for the same as before, or a call for the yes that this message did not give."""
    top, before = state.agenda.top, state.request.conversation.active
    if state.pending is not None:
        return True
    if top is None or before is None or top.status != "waiting":
        return False
    earlier = (before.name, before.asks, before.answers, before.status)
    return earlier == (top.name, top.asks, top.answers, top.status)


def _found_no_flow(state: TurnState) -> bool:
    """Whether no flow fits and nobody knew what was meant: no model answers, or it asks back and looks nothing up."""
    if state.agenda.top is not None or state.way.to != "open":
        return False
    return bool(QUESTION_MARKS & set(state.text)) or not _is_answered(state)


def _has_failed(state: TurnState) -> bool:
    selection = state.selection
    return state.error is not None or (selection is not None and bool(selection.decision.error))


def _is_answered(state: TurnState) -> bool:
    """Whether a model answered the message in words; the question that is repeated behind it is no answer."""
    by_reader = state.selection is not None and bool(state.selection.decision.answer)
    return bool(state.text.strip()) and (state.chain is not None or by_reader)


def _went_on(state: TurnState) -> bool:
    """Whether something was done, begun, called off, asked anew or answered for a flow."""
    before = state.request.conversation
    if state.granted is not None or state.calls or state.question is not None:
        return True
    flows = sorted(each.name for each in state.agenda.flows)
    if flows != sorted(each.name for each in before.flows):
        return True
    if state.pending is not None and (before.pending is None or before.pending.id != state.pending.id):
        return True
    return any(run.status != "waiting" for run in state.runs)
