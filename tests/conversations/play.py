"""Playing a conversation: the customer's turns one after another, and what was there before and after each."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from jazz_select.agent import Conversation, TurnResult
from jazz_select.agent.conversation import OpenFlow
from jazz_select.text import describe_error
from tests.conversations.desk import Desk
from tests.conversations.effects import Tables
from tests.conversations.script import Script, Turn
from tests.conversations.tape import Tape


@dataclass(slots=True, kw_only=True)
class PlayedTurn:
    """A turn, as it came out."""

    number: int
    turn: Turn
    result: TurnResult
    before: Tables
    after: Tables
    kinds: list[str]
    """What a model was asked for in it, in order."""
    asked: OpenFlow | None = None
    """The flow that asked for values in the turn before."""

    @property
    def reads_only_what_was_asked(self) -> bool:
        """Whether a model read the message, and all that came of it was an answer to what a flow had asked for."""
        if self.asked is None or "read" not in self.kinds:
            return False
        names = {each.flow for each in self.result.runs} | {each.name for each in self.result.conversation.flows}
        own = next((each for each in self.result.conversation.flows if each.name == self.asked.name), None)
        is_answered = own is None or own.answers != self.asked.answers
        return names == {self.asked.name} and is_answered

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The tools that were called, with their arguments."""
        return [(span.name, span.content.get("arguments", {})) for span in self.result.trace if span.kind == "tool"]


@dataclass(slots=True, kw_only=True)
class Played:
    """A conversation, as it came out."""

    script: Script
    tape: Tape
    names: frozenset[str]
    before: Tables
    turns: list[PlayedTurn] = field(default_factory=list[PlayedTurn])
    crash: str = ""
    """What the agent raised, which it never should."""

    @property
    def after(self) -> Tables:
        """The shop's tables after the last turn."""
        return self.turns[-1].after if self.turns else self.before


async def play(script: Script, tape: Tape, desk: Desk) -> Played:
    """Play a conversation from its start, as far as the tape has replies; the desk is closed at the end."""
    played = Played(script=script, tape=tape, names=desk.names, before=desk.tables())
    agent, conversation, context = desk.agent, None, dict(script.context)
    for number, turn in enumerate(script.turns, 1):
        context |= turn.context
        tape.turn, asked = number, len(tape.asked)
        if turn.restarted and conversation is not None:
            conversation = Conversation.from_json(conversation.to_json())
            agent = desk.again() if desk.again is not None else agent
        talking = agent.turn(
            turn.customer, conversation or Conversation(id=script.name), context=context, conversation_id=script.name
        )
        try:
            result = await _unless_stopped(talking, tape)
        except Exception as error:  # noqa: BLE001 - a turn tells what fails on the way as data
            played.crash = describe_error(error)
            break
        if result is None:
            break
        asked_by = _asking(conversation)
        conversation = result.conversation
        played.turns.append(
            PlayedTurn(
                number=number,
                turn=turn,
                result=result,
                before=played.after,
                after=desk.tables(),
                kinds=[each.kind for each in tape.asked[asked:]],
                asked=asked_by,
            )
        )
    desk.close()
    return played


def _asking(conversation: Conversation | None) -> OpenFlow | None:
    """The flow whose question for values ends a conversation."""
    if conversation is None or conversation.pending is not None or not conversation.flows:
        return None
    top = conversation.flows[-1]
    return top if top.status == "waiting" and top.asks else None


async def _unless_stopped(talking: Any, tape: Tape) -> TurnResult | None:
    """The result of a turn; None where the tape had no reply, and the turn was cancelled."""
    task, stopping = asyncio.ensure_future(talking), asyncio.ensure_future(tape.stopping.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return await task if task.done() else None
    finally:
        for each in (task, stopping):
            each.cancel()
        await asyncio.gather(task, stopping, return_exceptions=True)
