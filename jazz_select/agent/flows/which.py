"""Which flow is meant, where that is left to the user: asked about in one turn, heard in the next."""

from dataclasses import replace
from typing import Literal

from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.pending_call import PendingCall
from jazz_select.agent.turn import SelectedFlows, TurnRequest
from jazz_select.consent import is_courtesy, read_consent
from jazz_select.selector.asking import again, ends, named_in
from jazz_select.stages import UserQuestion
from jazz_select.texts import say
from jazz_select.values import Decision, Reason

Heard = Literal["", "one", "none", "off", "beyond"]
"""What a message says to the question: one of the flows, none of them, nothing at all any more, what names no one of
them, such as a number that none has, or something else."""


def read_answer(request: TurnRequest, *, beside: bool = False) -> Heard:
    """What the message says to the question of the turn before, if that asked one; no model reads it.

    Args:
        request: The turn.
        beside: Whether a flow goes on beside the question, to which a number may be said as well.
    """
    asked = request.conversation.question
    if asked is None:
        return ""
    question, message = asked.as_question(), request.message
    if ends(message, question.options):
        return "off"
    option = named_in(message, question.options)
    if option:  # a flow may be called "Cancel"
        return "one"
    if option is None and not beside and again(question, message) is not None:
        return "beyond"
    return "off" if read_consent(message) == ("no", "") else "" if option is None else "none"


def left(begun: SelectedFlows, pending: PendingCall | None) -> SelectedFlows:
    """The question is dropped, and what is under way stays as it is."""
    why = "which flow is meant was asked, and the user called it off"
    return replace(begun, way="ask", pending=pending, text=say("none_of_these"), reason=begun.reason or why)


def why_not(request: TurnRequest, question: UserQuestion) -> str:
    """Why a selector's question is not asked; empty where it is.

    It is never the same in two turns that follow each other, but once, where the answer names no one of them.
    """
    before = request.conversation.question
    names = [each.flow_name for each in question.options]
    repeated = question.again and before is not None and not before.again
    if before is not None and not repeated and {each.name for each in before.options} == {*names}:
        return f"which of {', '.join(names)} is meant was asked before, and is still not clear"
    return "it is thanks or a greeting" if is_courtesy(request.message) else ""


def asked(begun: SelectedFlows, question: UserQuestion) -> SelectedFlows:
    """The turn asks; what waits for the user beside it goes on waiting."""
    why = f"two or three flows are left, and the user is asked which: {begun.reason}".removesuffix(": ")
    return replace(begun, way="ask", text=question.text, question=question, reason=why)


def is_elsewhere(begun: SelectedFlows, question: UserQuestion, active: OpenFlow, *, above: float) -> bool:
    """Whether it is about something else than the flow under way: else the message is for that one, as ever.

    Recall has to be as sure that some flow is meant as it has to be to begin one. A number that no option has is about
    the question, where the flow waits: what it waits for took no such number.
    """
    if question.again and active.status != "active":
        return True
    scope = begun.selection.decision.in_scope if begun.selection is not None else None
    return active.name not in {each.flow_name for each in question.options} and scope is not None and scope >= above


def chosen_anyway(decision: Decision) -> tuple[Reason, tuple[str, ...]]:
    """What a chat model made of a choice, and the ids it named, also where its selector would have the user asked.

    Between the branches of a flow nobody is: these are its author's, and no user knows them by name.
    """
    if decision.question is None:
        return decision.reason, decision.chosen_ids
    came = {"decided": Reason.LLM, "none": Reason.NONE}
    reasons = [came[each.outcome] for each in decision.stages if each.name == "chat" and each.outcome in came]
    return (reasons or [decision.reason])[0], decision.parsed_ids
