"""Answer a message, or a part of one, that no flow fits: from what the model that read it said, or by a chain."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from jazz_select.agent.answer import left_open_text
from jazz_select.agent.chain.transcript import ChainText
from jazz_select.agent.conversation_view import ConversationView
from jazz_select.agent.flows.after_run import with_dropped
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.gate import AgentApproval, TurnApproval
from jazz_select.agent.known_flows import KnownFlows, tools_named
from jazz_select.agent.reading.grounding import names_only_what_was_told
from jazz_select.agent.titles import Titles
from jazz_select.agent.turn import FlowRun, TurnState, TurnStatus
from jazz_select.agent.turn_events import tell_turn
from jazz_select.text import join_paragraphs


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeAnswer:
    """Answers without a flow.

    Attributes:
        flows: The flows of the agent.
        titles: Their titles.
        loops: Lets a model look things up and answer; None without one.
        approval: The approval of calls that it wants.
    """

    flows: KnownFlows
    titles: Titles
    loops: OpenFlows | None
    approval: AgentApproval

    async def answer(self, state: TurnState) -> TurnState:
        """Answer a message that no flow fits with a model, if there is one. Open flows stay unchanged."""
        state = state.with_status_before()
        if self.loops is None:
            return replace(state, status="open", reason=state.reason or "no flow fits")
        answer = self._answer_read(state)
        # A granted call has to be made, whatever the reader answered.
        if answer and state.granted is None:
            await _tell(answer)
            return replace(state, status=_status_beside(state), text=join_paragraphs(state.text, answer))
        approval = TurnApproval(self.approval, state.request.key, state.granted, state.request.conversation.pending)
        flow, within = None, ""
        if state.way.about and state.agenda.top is not None:
            within = state.agenda.top.name
            flow = self.flows.find(within)
        reply = await self.loops.bound_to(state.request.context).talk(
            ConversationView.from_turn(state, self.titles.flow),
            within,
            flow,
            FlowRun(flow=within, path=""),
            approval,
            only_about=flow is not None,
            near=() if flow is not None else tuple(self._relevant_tools(state)),
            opening=state.opening_of(within),
        )
        state = replace(
            state,
            notes=(*with_dropped(state.notes, [reply.chain]), *approval.notes),
            calls=(*state.calls, *reply.ran),
            look_ups=reply.look_ups,
            chain=reply.chain,
            text=reply.text,
        )
        if reply.asked:
            return replace(state, status="confirming", pending=approval.pending)
        state = replace(state, incomplete=reply.chain.incomplete)
        if reply.error is None:
            return replace(state, status=_status_beside(state))
        status = "failed" if state.pending is None else _status_beside(state)
        return replace(state, status=status, reason=str(reply.error), error=reply.error)

    async def answer_rest(self, state: TurnState, approval: TurnApproval) -> TurnState:
        """Answer what was said beside a yes and no flow fits. Without a model, say that it is left open."""
        if self.loops is None:
            return replace(state, text=left_open_text(state.rest))
        answer = self._answer_read(state)
        if answer:
            await _tell(answer)
            return replace(state, text=answer)
        rest = replace(state, request=replace(state.request, message=state.rest))
        reply = await self.loops.bound_to(state.request.context).talk(
            ConversationView.from_turn(rest, self.titles.flow, agreed=True),
            "",
            None,
            FlowRun(flow="", path=""),
            approval,
            near=tuple(self._relevant_tools(state)),
        )
        notes = with_dropped(state.notes, [reply.chain])
        calls = (*state.calls, *reply.ran)
        state = replace(state, text=reply.text, calls=calls, notes=notes, error=state.error or reply.error)
        if reply.asked and state.pending is None:
            return replace(state, status="confirming", pending=approval.pending)
        return state

    def _answer_read(self, state: TurnState) -> str:
        """Return the answer of the model that read the message, if it states no number, address or code of its own."""
        answer = state.selection.decision.answer if state.selection is not None else ""
        if not answer:
            return ""
        view = ConversationView.from_turn(state, self.titles.flow)
        sources = [view.render_facts(), view.request.message, view.render_calls()]
        sources += [stored.content for stored in view.earlier_messages]
        if not names_only_what_was_told(answer, sources):
            return ""
        return answer

    def _relevant_tools(self, state: TurnState) -> Iterator[str]:
        """Yield the tools that may be relevant to a message: of earlier calls and of recalled flows."""
        for call in reversed(state.request.conversation.calls):
            yield call.tool
        if state.selection is None:
            return
        for candidate in state.selection.decision.candidates:
            flow = self.flows.find(candidate.flow_name)
            if flow is not None:
                yield from tools_named(flow)


async def _tell(answer: str) -> None:
    await tell_turn(ChainText(text=answer, closing=True))


def _status_beside(state: TurnState) -> TurnStatus:
    """Return the status of a turn after a message that no flow fits was answered: that of what is open beside it."""
    top = state.agenda.top
    if state.pending is not None or top is None:
        return state.status
    return "active" if top.status == "active" else "waiting"
