"""Playing conversation cases: an agent of its own for each, its turns one after another, and a check of each."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from html import unescape
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Final, TypeAlias

from jazz_select.agent.agent import Agent
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.flows.open_prompts import BLOCKED, FINISHED
from jazz_select.chat.models import as_chat_model
from jazz_select.errors import ModelError
from jazz_select.evaluation.talks.conversations import ANSWERS, ConversationCase, TurnCase
from jazz_select.evaluation.talks.expectations import Called, Check, Seen, judged
from jazz_select.evaluation.talks.played import ConversationReport, ConversationResult, TurnPlayed
from jazz_select.json_values import plain
from jazz_select.selector.prompt import OFF
from jazz_select.text import beginning, describe_error, one_line
from jazz_select.values import Message, Reply

if TYPE_CHECKING:
    from jazz_select.agent.turn_result import TurnResult
    from jazz_select.chat.models import ModelLike
    from jazz_select.ports import ChatModel

_SHOWN: Final = 240
_CHOOSING: Final = "<selection>"
"""What a prompt begins with that asks which flow is meant."""
_CANDIDATE: Final = re.compile(r'<flow id="([^"]+)" name="([^"]*)"')

MadeAgent: TypeAlias = Agent | Awaitable[Agent] | AbstractAsyncContextManager[Agent]
MakeAgent: TypeAlias = "Callable[[ChatModel | None], MadeAgent]"
"""Makes a fresh agent, with fresh state behind its tools, that asks this model; a context is left at the end."""


async def play(
    case: ConversationCase, make_agent: "MakeAgent", *, model: "ModelLike | None" = None
) -> ConversationResult:
    """Play one conversation from its start, with an agent of its own.

    Between two turns the conversation goes through JSON, as where it is kept. A turn that fails says so in its checks;
    what the agent raises ends the conversation, and is in the result.

    Args:
        case: The conversation.
        make_agent: Makes the agent; called once, with the model to ask.
        model: A real model, as `FlowSelector` takes it: the script is not looked at then. Without one the script
            answers; where no turn has any, there is no model.

    Raises:
        ConfigError: The model cannot be used.
        CancelledError: The caller was cancelled.
    """
    chat = as_chat_model(model, argument="model")
    try:
        return await _played(case, make_agent, chat)
    finally:
        if chat is not None and chat is not model:
            await _closed(chat)


async def play_all(
    cases: Sequence[ConversationCase],
    make_agent: "MakeAgent",
    *,
    model: "ModelLike | None" = None,
    at_once: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ConversationReport:
    """Play conversations, each with an agent of its own.

    Args:
        cases: The conversations.
        make_agent: As for `play`.
        model: As for `play`; one for all of them.
        at_once: How many are played at the same time: for a real model, where agents share nothing.
        progress: Called with (played, all) after each.

    Raises:
        ConfigError: The model cannot be used.
        CancelledError: The caller was cancelled.
    """
    began = perf_counter()
    places, done = asyncio.Semaphore(max(1, at_once)), 0
    chat = as_chat_model(model, argument="model")

    async def one(case: ConversationCase) -> ConversationResult:
        nonlocal done
        async with places:
            result = await _played(case, make_agent, chat)
        done += 1
        if progress is not None:
            progress(done, len(cases))
        return result

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(case)) for case in cases]
    finally:
        if chat is not None and chat is not model:
            await _closed(chat)
    return ConversationReport(results=tuple(task.result() for task in tasks), took_s=perf_counter() - began)


async def _played(case: ConversationCase, make_agent: "MakeAgent", chat: "ChatModel | None") -> ConversationResult:
    began = perf_counter()
    script = Script() if chat is None and case.scripted else None
    result = ConversationResult(id=case.name, title=case.title, tags=case.tags, file=case.file, xfail=case.xfail)
    turns: list[TurnPlayed] = []
    error = ""
    try:
        made = make_agent(chat if script is None else script)
        if isawaitable(made):
            made = await made
        async with made as agent:
            await _turns(case, agent, script, turns)
    except Exception as failure:  # noqa: BLE001 - one conversation that cannot be played is no reason to stop the others
        error = describe_error(failure)
    checks = () if error else judged(case.expect, _whole(turns))
    return replace(result, turns=tuple(turns), checks=checks, error=error, took_s=perf_counter() - began)


async def _turns(case: ConversationCase, agent: Agent, script: "Script | None", turns: list[TurnPlayed]) -> None:
    conversation, context = Conversation(), dict(case.context)
    for number, turn in enumerate(case.turns, 1):
        context |= turn.context
        if script is not None:
            script.begin(turn)
        began = perf_counter()
        result = await agent.turn(
            turn.say, conversation, context=context, facts=case.facts or None, schema=turn.schema_
        )
        took_s = perf_counter() - began
        checks = () if script is None else script.checks()
        turns.append(_turn(number, turn, result, checks, took_s))
        conversation = Conversation.from_json(result.conversation.to_json())


def _turn(number: int, turn: TurnCase, result: "TurnResult", checks: Sequence[Check], took_s: float) -> TurnPlayed:
    seen = seen_in(result)
    error = "" if result.error is None else describe_error(result.error)
    if error and turn.expect.status != "failed" and not any(check.name == "script" for check in checks):
        checks = (*checks, Check(name="error", passed=False, expected="none", seen=beginning(error, _SHOWN)))
    return TurnPlayed(
        number=number,
        say=turn.say,
        seen=seen,
        replies=tuple(str(each.content["reply"]) for each in result.trace if "reply" in each.content),
        checks=(*judged(turn.expect, seen), *checks),
        notes=result.notes,
        error=error,
        took_s=took_s,
    )


def seen_in(result: "TurnResult") -> Seen:
    """What came of a turn, as it is judged."""
    pending, active = result.conversation.pending, result.conversation.active
    waits_for = (pending.tool,) if pending is not None else active.asks if active is not None else ()
    return Seen(
        flows=tuple(result.flows),
        under_way=tuple(flow.name for flow in result.conversation.flows),
        waits_for=waits_for,
        status=result.status,
        tools=tuple(
            Called(
                tool=span.name,
                arguments=plain(span.content.get("arguments", {})),
                status=str(span.attributes.get("status", "unknown")),
            )
            for span in result.trace
            if span.kind == "tool" and span.name not in {BLOCKED, FINISHED}  # they end a flow, and are nobody's tools
        ),
        text=result.text,
        reason=result.reason,
        value=plain(result.value),
        model_calls=result.model_calls,
    )


def _whole(turns: Sequence[TurnPlayed]) -> Seen:
    """All turns as one: what was said, called and run in any, and how the last one ended."""
    if not turns:
        return Seen()
    return replace(
        turns[-1].seen,
        flows=tuple(flow for turn in turns for flow in turn.seen.flows),
        tools=tuple(call for turn in turns for call in turn.seen.tools),
        text="\n\n".join(turn.seen.text for turn in turns),
        reason="\n".join(turn.seen.reason for turn in turns if turn.seen.reason),
        model_calls=sum(turn.seen.model_calls for turn in turns),
    )


class Script:
    """A `ChatModel` that answers what the turn under way has in its script, and knows what was asked in vain.

    Which flow is meant it answers by name, wherever that is asked: how many candidates there are, and whether a model
    is asked at all, is the embedder's, and another one is no reason to write the script anew.
    """

    def __init__(self) -> None:
        """No turn has begun."""
        self.begin(TurnCase(say="-"))

    def begin(self, turn: TurnCase) -> None:
        """The next turn begins."""
        self._chooses, self._left = turn.chooses, list(turn.script)
        self._given: int = 0
        self._in_vain: list[str] = []
        self._not_offered: list[str] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Give the next reply.

        Raises:
            ModelError: The turn has none left.
        """
        asked = messages[-1].content if messages else ""
        if self._chooses is not None and asked.startswith(_CHOOSING):
            return Reply(text=self._choice(self._chooses, asked), model="script")
        if not self._left:
            self._in_vain.append(one_line(asked))
            msg = "the script of the turn has no reply to this"
            raise ModelError("script", msg, retryable=False)
        self._given += 1
        return Reply(text=self._left.pop(0), model="script")

    def _choice(self, chooses: Sequence[str], asked: str) -> str:
        """The ids that these flows have in the prompt; `off-` and the like stay before them."""
        ids = {unescape(name): number for number, name in _CANDIDATE.findall(asked)}
        told: list[str] = []
        for each in chooses:
            name = each.removeprefix(OFF)
            if each not in ANSWERS and name not in ids:
                self._not_offered.append(f"{name} is not among {', '.join(ids) or 'the candidates: there are none'}")
            told.append(each if each in ANSWERS else each.removesuffix(name) + ids.get(name, name))
        return json.dumps(told)

    def checks(self) -> tuple[Check, ...]:
        """What is wrong with the script of the turn that ended, if anything is."""
        found: list[Check] = []
        if self._not_offered:
            told = ", ".join(self._chooses or ())
            seen = beginning("; ".join(self._not_offered), _SHOWN)
            found.append(Check(name="chooses", passed=False, expected=told, seen=seen))
        if self._in_vain or self._left:
            told = _counted(self._given + len(self._left), "reply", "replies")
            asked = _counted(self._given + len(self._in_vain), "question", "questions")
            rest = f"nothing answers {self._in_vain[0]!r}" if self._in_vain else f"nobody asked for {self._left[0]!r}"
            seen = beginning(f"{asked}: {rest}", _SHOWN)
            found.append(Check(name="script", passed=False, expected=told, seen=seen))
        return tuple(found)


def _counted(number: int, one: str, several: str) -> str:
    return f"1 {one}" if number == 1 else f"{number} {several}"


async def _closed(chat: "ChatModel") -> None:
    close = getattr(chat, "aclose", None)
    if close is not None:
        await close()
