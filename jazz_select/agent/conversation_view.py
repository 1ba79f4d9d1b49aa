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
_MOST_HEARD: Final = 8
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
        return (
            self.earlier_messages[-1].content
            if self.earlier_messages and self.earlier_messages[-1].role == "assistant"
            else ""
        )

    @property
    def user_messages(self) -> tuple[str, ...]:
        """All user messages, the current one last."""
        return (*(each.content for each in self.earlier_messages if each.role == "user"), self.request.message)

    def situation(self) -> ConversationContext:
        """Return the view as whoever chooses a flow is shown it."""
        growing, done = None, list(dict.fromkeys(reversed(self.request.conversation.done)))
        if self.ledger is None:
            recent, left_out = self.recent(CHOOSING_CHARS, each=_LONGEST_EARLIER)
        else:
            steady = self.steady(CHOOSING_CHARS, each=_LONGEST_EARLIER)
            recent, left_out = [message for _, message in steady], 0
            growing = PromptHistory(
                turn=self.ledger.turn,
                shown=self.ledger.flows,
                message_turns=[turn for turn, _ in steady],
                left_out=max(steady[0][0] - 1, 0) if steady else 0,
                keep=self.ledger.keep_flows,
            )
        return ConversationContext(
            said=tuple(recent),
            left_out=left_out,
            under_way=self.flows,
            facts=self.render_facts(),
            confirms=self.waits_for,
            done=tuple(map(flow_id, done[:_MOST_DONE])),
            growing=growing,
        )

    def recent(self, chars: int = EARLIER_CHARS, *, each: int | None = None) -> tuple[list[Message], int]:
        """Return the last messages within a bound, and the number of those before them."""
        said = self._messages(each)
        first, room = len(said), chars
        while first and (room := room - len(said[first - 1].content)) >= 0:
            first -= 1
        while 0 < first < len(said) and said[first].role == "assistant":
            first += 1  # an answer without its question says little, and some providers reject it as a first message
        return said[first:], first

    def steady(self, chars: int = EARLIER_CHARS, *, each: int | None = None) -> list[tuple[int, Message]]:
        """Return the last messages within a bound, each with its turn, for prompts that only grow.

        Old turns are dropped several at once, so that the prompt's beginning stays the same for longer.
        """
        said = list(zip(self.request.conversation.message_turns, self._messages(each), strict=True))
        while said and said[0][1].role == "assistant":
            said.pop(0)  # an answer without its question says little
        start = first_kept_turn(
            [(turn, len(message.content)) for turn, message in said], chars, whole_from=said[0][0] if said else 1
        )
        return [(turn, message) for turn, message in said if turn >= start]

    def _messages(self, each: int | None) -> list[Message]:
        return [
            Message(role=said.role, content=cut(said.content, each) if each else said.content)
            for said in self.earlier_messages
        ]

    def render_heard(self) -> str:
        """Return the user's messages, a line each, the current one last; long ones are cut."""
        if self.ledger is not None:
            steady = self.steady(_MOST_HEARD * _LONGEST_EARLIER, each=_LONGEST_EARLIER)
            heard = [message.content for _, message in steady if message.role == "user"]
            return "\n".join(f"- {json_line(each)}" for each in (*heard, cut(self.request.message, _LONGEST_EARLIER)))
        return "\n".join(f"- {json_line(cut(each, _LONGEST_EARLIER))}" for each in self.user_messages[-_MOST_HEARD:])

    def render_facts(self) -> str:
        """Return the facts, a line each."""
        return "\n".join(f"{name_shown(name)}: {_value(value)}" for name, value in self.request.facts.items())

    def call_lines(self) -> list[CallLine]:
        """Return the calls, a line each, for prompts that only grow."""
        return growing_lines(self.calls, self.ledger.turn if self.ledger is not None else 0)

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
        lines = fresh_lines(self.calls) if self.ledger is None else [each.text for each in self.call_lines()]
        return "\n".join(lines)

    def render_flows(self, but: str = "") -> str:
        """Return the other open flows and what they wait for, a line each."""
        lines: list[str] = []
        for each in self.flows:
            if each.name != but:
                wanted = json_line(beginning(each.wanted, _LONGEST_FACT))
                waits_for = f"; it waits for: {json_line(each.waits_for)}" if each.waits_for else ""
                lines.append(f"- {json_line(each.title)} ({each.state}), asked for with: {wanted}{waits_for}")
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
    pending = flow.pending or (waiting if is_top and waiting is not None and waiting.flow == flow.name else None)
    return FlowInView(
        flow_id=flow_id(flow.name),
        name=flow.name,
        title=title(flow.name),
        state="under way" if is_top else "parked",
        wanted=flow.request,
        waits_for=", ".join(map(in_words, flow.asks)) if pending is None else pending.question_for_models(),
        objects=objects,
    )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else storable_text(value)
    return json_line(beginning(text, _LONGEST_FACT))


async def forget_closed(
    ledger: PromptHistoryRecorder, find: Callable[[str], BaseFlow | None], context: Mapping[str, Any]
) -> None:
    """Clear the ledger if a guard has closed a flow in it; users may have written that ledger."""
    flows = [flow for name in ledger.named if (flow := find(name)) is not None]
    if (await Availability.closed_among(flows, context)).ids:
        ledger.forget()
