"""The view of a conversation during a turn, from which its prompts are made."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from jazz_select.agent.conversation import OpenFlow, PastCall, PendingCall, Said
from jazz_select.agent.earlier_calls import CallLine, fresh_lines, growing_lines
from jazz_select.agent.turn import TurnRequest, TurnState
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import storable_text
from jazz_select.selector.candidates_stage import Availability
from jazz_select.selector.prompt import (
    ConversationContext,
    PromptHistory,
    PromptHistoryRecorder,
    UnderWay,
    first_kept_turn,
)
from jazz_select.text import beginning, cut, in_words, json_line, name_shown
from jazz_select.values import Message, flow_id

EARLIER_CHARS: Final = 24_000
"""Most characters of earlier messages in the prompt of a model that calls tools."""
CHOOSING_CHARS: Final = 3_000
"""Most characters of earlier messages in the prompt of a model that chooses a flow."""
_LONGEST_EARLIER: Final = 800
_MOST_USER_MESSAGES: Final = 8
_MOST_DONE: Final = 2
_LONGEST_FACT: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowInView(UnderWay):
    """An open flow of the conversation, with its name, and its title for users."""

    name: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationView:
    """A conversation during a turn.

    Attributes:
        request: The message of the turn, with its surroundings.
        flows: The open flows, the one under way first.
        calls: Tool calls with arguments and results, earliest first.
        waits_for: The open yes-or-no question, of a flow or of none.
        waiting: Name of the flow that asks `waits_for`; empty if none.
        no_yes: Why a yes to it in this message does not count.
    """

    request: TurnRequest
    flows: tuple[FlowInView, ...] = ()
    calls: tuple[PastCall, ...] = ()
    waits_for: str = ""
    waiting: str = ""
    no_yes: str = ""

    @classmethod
    def from_turn(
        cls,
        state: TurnState,
        title: Callable[[str], str],
        made: Sequence[PastCall] = (),
        *,
        agreed: bool = False,
    ) -> "ConversationView":
        """Return the view of a turn after its calls, and those `made` since; an `agreed` call no longer waits."""
        conversation, top = state.request.conversation, state.agenda.top
        waiting = None if agreed else conversation.pending
        open_flows = list(reversed(state.agenda.flows))
        objects: dict[str, list[str]] = defaultdict(list)
        for flow in open_flows:
            objects[flow.name].append(_object_of(flow))
        flows: list[FlowInView] = []
        for flow in open_flows:
            # Only wishes for the same flow have to be told apart by their objects.
            several = objects[flow.name] if len(objects[flow.name]) > 1 else ()
            flows.append(_in_view(flow, title, waiting, is_top=flow is top, objects=several))
        view = cls(request=state.request, flows=tuple(flows), calls=(*conversation.calls, *state.calls, *made))
        if waiting is None:
            return view
        return replace(view, waits_for=waiting.question_for_models(), waiting=waiting.flow, no_yes=state.no_yes)

    @property
    def ledger(self) -> PromptHistoryRecorder | None:
        """What models were shown, for prompts that only grow; None if each prompt is made afresh."""
        return self.request.ledger

    @property
    def earlier_messages(self) -> tuple[Said, ...]:
        """Earlier messages of both sides."""
        return self.request.conversation.messages

    @property
    def last_answer(self) -> str:
        """The last message, if the assistant wrote it."""
        if not self.earlier_messages or self.earlier_messages[-1].role != "assistant":
            return ""
        return self.earlier_messages[-1].content

    @property
    def user_messages(self) -> tuple[str, ...]:
        """All user messages, the current one last."""
        earlier = [stored.content for stored in self.earlier_messages if stored.role == "user"]
        return (*earlier, self.request.message)

    def situation(self) -> ConversationContext:
        """Return the view as whoever chooses a flow is shown it."""
        done = list(dict.fromkeys(reversed(self.request.conversation.done)))
        growing = None
        if self.ledger is None:
            recent, left_out = self.recent(CHOOSING_CHARS, each=_LONGEST_EARLIER)
        else:
            steady = self.steady(CHOOSING_CHARS, each=_LONGEST_EARLIER)
            recent, left_out = [message for _, message in steady], 0
            turns = [turn for turn, _ in steady]
            growing = PromptHistory(
                turn=self.ledger.turn,
                shown=self.ledger.flows,
                message_turns=turns,
                left_out=max(turns[0] - 1, 0) if turns else 0,
                keep=self.ledger.keep_flows,
            )
        return ConversationContext(
            messages=tuple(recent),
            left_out=left_out,
            under_way=self.flows,
            facts=self.render_facts(),
            confirms=self.waits_for,
            done=tuple(map(flow_id, done[:_MOST_DONE])),
            growing=growing,
        )

    def recent(self, chars: int = EARLIER_CHARS, *, each: int | None = None) -> tuple[list[Message], int]:
        """Return the last messages within a bound, and the number of those before them."""
        messages = self._messages(each)
        first, room = len(messages), chars
        while first:
            room -= len(messages[first - 1].content)
            if room < 0:
                break
            first -= 1
        # An answer without its question says little, and some providers reject it as a first message.
        while 0 < first < len(messages) and messages[first].role == "assistant":
            first += 1
        return messages[first:], first

    def steady(self, chars: int = EARLIER_CHARS, *, each: int | None = None) -> list[tuple[int, Message]]:
        """Return the last messages within a bound, each with its turn, for prompts that only grow.

        Old turns are dropped several at once, so that the prompt's beginning stays the same for longer.
        """
        messages = list(zip(self.request.conversation.message_turns, self._messages(each), strict=True))
        # An answer without its question says little.
        while messages and messages[0][1].role == "assistant":
            messages.pop(0)
        first_turn = messages[0][0] if messages else 1
        sizes = [(turn, len(message.content)) for turn, message in messages]
        start = first_kept_turn(sizes, chars, whole_from=first_turn)
        return [(turn, message) for turn, message in messages if turn >= start]

    def _messages(self, each: int | None) -> list[Message]:
        messages: list[Message] = []
        for stored in self.earlier_messages:
            content = cut(stored.content, each) if each else stored.content
            messages.append(Message(role=stored.role, content=content))
        return messages

    def render_user_messages(self) -> str:
        """Return the user's messages, a line each, the current one last; long ones are cut."""
        if self.ledger is None:
            messages = [cut(message, _LONGEST_EARLIER) for message in self.user_messages[-_MOST_USER_MESSAGES:]]
        else:
            steady = self.steady(_MOST_USER_MESSAGES * _LONGEST_EARLIER, each=_LONGEST_EARLIER)
            messages = [message.content for _, message in steady if message.role == "user"]
            messages.append(cut(self.request.message, _LONGEST_EARLIER))
        return "\n".join(f"- {json_line(message)}" for message in messages)

    def render_facts(self) -> str:
        """Return the facts, a line each."""
        return "\n".join(f"{name_shown(name)}: {_value(value)}" for name, value in self.request.facts.items())

    def call_lines(self) -> list[CallLine]:
        """Return the calls, a line each, for prompts that only grow."""
        turn = self.ledger.turn if self.ledger is not None else 0
        return growing_lines(self.calls, turn)

    def calls_by_turn(self) -> tuple[tuple[int, str], ...]:
        """Return the calls as data, a text for each turn for prompts that only grow, and else one for all."""
        if self.ledger is None:
            calls = self.render_calls()
            return ((0, calls),) if calls else ()
        texts: list[tuple[int, str]] = []
        for turn, lines in groupby(self.call_lines(), key=lambda line: line.turn):
            texts.append((turn, "\n".join(line.text for line in lines)))
        return tuple(texts)

    def render_calls(self) -> str:
        """Return the calls as data, a line each; what is left out says so."""
        if self.ledger is None:
            return "\n".join(fresh_lines(self.calls))
        return "\n".join(line.text for line in self.call_lines())

    def render_flows(self, but: str = "") -> str:
        """Return the other open flows and what they wait for, a line each."""
        lines: list[str] = []
        for flow in self.flows:
            if flow.name == but:
                continue
            wanted = json_line(beginning(flow.wanted, _LONGEST_FACT))
            line = f"- {json_line(flow.title)} ({flow.state}), asked for with: {wanted}"
            if flow.waits_for:
                line += f"; it waits for: {json_line(flow.waits_for)}"
            lines.append(line)
        return "\n".join(lines)


def _object_of(flow: OpenFlow) -> str:
    """Return what a wish is for, by the values that it has."""
    values = (f"{in_words(name)}: {_value(value)}" for name, value in flow.answers.items())
    return ", ".join(values) or "nothing said yet"


def _in_view(
    flow: OpenFlow,
    title: Callable[[str], str],
    waiting: PendingCall | None,
    *,
    is_top: bool,
    objects: Sequence[str],
) -> FlowInView:
    pending = flow.pending
    if pending is None and is_top and waiting is not None and waiting.flow == flow.name:
        pending = waiting
    if pending is not None:
        waits_for = pending.question_for_models()
    else:
        waits_for = ", ".join(map(in_words, flow.asks))
    return FlowInView(
        flow_id=flow_id(flow.name),
        name=flow.name,
        title=title(flow.name),
        state="under way" if is_top else "parked",
        wanted=flow.request,
        waits_for=waits_for,
        objects=objects,
    )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else storable_text(value)
    return json_line(beginning(text, _LONGEST_FACT))


async def forget_closed(
    ledger: PromptHistoryRecorder, find: Callable[[str], BaseFlow | None], context: Mapping[str, Any]
) -> None:
    """Clear the ledger if a guard has closed a flow in it; users may have written that ledger."""
    flows: list[BaseFlow] = []
    for name in ledger.named:
        flow = find(name)
        if flow is not None:
            flows.append(flow)
    closed = await Availability.closed_among(flows, context)
    if closed.ids:
        ledger.forget()
