"""Ask the user which flow is meant, and read the answer in the next turn."""

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
"""How a message answers the question: "one" of the flows, "none" of them, "off" to cancel, "beyond" for a number that
no option has, or "" for anything else."""


def read_answer(request: TurnRequest, *, beside: bool = False) -> Heard:
    """Read the answer to the last turn's question, if there was one, without a model.

    Args:
        request: The turn's request.
        beside: Whether a flow is open as well, which a number in the message may be meant for.
    """
    question, message = request.conversation.question, request.message
    if question is None:
        return ""
    if ends(message, question.options):
        return "off"
    option = named_in(message, question.options)
    if option:  # a flow may be called "Cancel"
        return "one"
    if option is None and not beside and again(question, message) is not None:
        return "beyond"
    return "off" if read_consent(message) == ("no", "") else "" if option is None else "none"


def left(begun: SelectedFlows, pending: PendingCall | None) -> SelectedFlows:
    """Drop the question; open flows stay unchanged."""
    why = "which flow is meant was asked, and the user called it off"
    return replace(begun, way="ask", pending=pending, text=say("none_of_these"), reason=begun.reason or why)


def why_not(request: TurnRequest, question: UserQuestion) -> str:
    """Return why a selector's question must not be asked, or "".

    The same question is not asked in two successive turns, except for one repeat after a number that no option has.
    """
    before = request.conversation.question
    names = [each.flow_name for each in question.options]
    repeated = question.again and before is not None and not before.again
    if before is not None and not repeated and {each.flow_name for each in before.options} == {*names}:
        return f"which of {', '.join(names)} is meant was asked before, and is still not clear"
    return "it is thanks or a greeting" if is_courtesy(request.message) else ""


def asked(begun: SelectedFlows, question: UserQuestion) -> SelectedFlows:
    """Ask the question in this turn; what else waits for the user keeps waiting."""
    why = f"two or three flows are left, and the user is asked which: {begun.reason}".removesuffix(": ")
    return replace(begun, way="ask", text=question.text, question=question, reason=why)


def is_elsewhere(begun: SelectedFlows, question: UserQuestion, active: OpenFlow, *, above: float) -> bool:
    """Whether the message is about other flows than the active one; else it goes to the active flow.

    P(some flow is meant) must reach the threshold `above`, as for a new flow. A number that no option has is about the
    question if the active flow waits, because its inputs did not accept the number.
    """
    if question.again and active.status != "active":
        return True
    scope = begun.selection.decision.in_scope if begun.selection is not None else None
    return active.name not in {each.flow_name for each in question.options} and scope is not None and scope >= above


def chosen_anyway(decision: Decision) -> tuple[Reason, tuple[str, ...]]:
    """Return the chat model's reason and chosen ids, even if the selector wants to ask the user.

    Users are never asked about the branches of a flow, because they do not know them.
    """
    if decision.question is None:
        return decision.reason, decision.chosen_ids
    came = {"decided": Reason.LLM, "none": Reason.NONE}
    reasons = [came[each.outcome] for each in decision.stages if each.name == "chat" and each.outcome in came]
    return (reasons or [decision.reason])[0], decision.parsed_ids
