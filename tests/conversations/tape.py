"""The model of a conversation: a cassette that knows prompts by what their replies rest on, and stops without one."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

from jazz_select.agent.chain.prompts import calls_text
from jazz_select.routing.plans.plan import Plan, PlanStep
from jazz_select.routing.plans.replies import ToolReply, read_tool_reply
from jazz_select.telemetry import Span
from jazz_select.testing import Cassette, Recorded
from jazz_select.text import json_line
from jazz_select.values import Message, NativeCall, OfferedTool, Reply
from tests.conversations.facts import facts_of

KINDS: Final = {
    "select": "read",
    "step": "decide",
    "consent": "consent",
    "format": "finalize",
    "answer": "finalize",
    "chain": "call",
}
"""A prompt's kind, by the name of the nearest span around it that is here."""
_OFFERED: Final = re.compile(r'<flow id="([^"]*)" name="([^"]*)"')
"""A flow in a prompt that asks which one fits; in what people said there are no such brackets."""
_OF_AN_EARLIER_TURN = re.compile(r"(?<=\d)_\d+$")
"""What makes an id the only one of a conversation, as providers want it; in text each reply counts anew."""


def kind_of(span: Span | None) -> str:
    """What a model is asked for, by where it is asked: read, decide, call, finalize, consent, or a span's name.

    A node of the turn says nothing of it, since a node may ask for several things; so a part that asks has a span of
    its own, and a new one is known by that name until it is in `KINDS`.
    """
    nearest = ""
    while span is not None:
        is_stage = span.kind == "node" and span.name in {"select", "answer"}  # of the turn: not what asks
        if span.name in KINDS and not is_stage:
            return KINDS[span.name]
        if span.kind != "chat":
            nearest = nearest or span.name
        span = span.parent
    return nearest or "prompt"


class Mode(Enum):
    """What becomes of a prompt without a record."""

    STOP = "stop"
    """The conversation stops."""
    REKEY = "rekey"
    """It gets the reply of the next record of its turn and kind, in which flows are meant by name."""
    ASK = "ask"
    """The model is asked, whatever was recorded."""


class Tape(Cassette):
    """A cassette for one conversation, and the hook that tells it what is asked for.

    Attributes:
        stopped: The prompt that nobody answered.
        rekeyed: The records whose prompts have changed, each with the prompt as it is now.
        replies: To give to the next prompts without a record; each is recorded.
    """

    def __init__(self, path: Path, *, mode: Mode = Mode.STOP, model: Any = None, replies: Sequence[str] = ()) -> None:
        super().__init__(
            path,
            model,
            kind=lambda _: kind_of(self._span),
            takes_schema=None if model else False,
            known_by=facts_of,
        )
        self.mode = mode
        self.replies = list(replies)
        self.recorded: list[Recorded] = []
        self.rekeyed: list[tuple[Recorded, Recorded]] = []
        self.stopped: Recorded | None = None
        self.stopping = asyncio.Event()
        self._span: Span | None = None
        if mode is Mode.ASK:
            self.left = []

    def reply_to(self, question: Recorded, known: Recorded) -> str:
        """The recorded reply, with flows by the numbers that they have now."""
        return renumbered(known, question) or known.reply

    def on_start(self, span: Span) -> None:
        """A call of the model begins in its span, before the model is asked."""
        if span.kind == "chat":
            self._span = span

    def on_end(self, span: Span) -> None:
        """Nothing is left to be done."""

    async def unrecorded(self, question: Recorded) -> Reply:
        """Give the next reply, one that was kept for another prompt, or none: then whoever plays stops the turn.

        Nothing is raised: an agent makes do without a model that fails, and would go on.
        """
        if self.mode is Mode.ASK:
            return await super().unrecorded(question)
        stale = self.stale(question) if self.mode is Mode.REKEY else None
        moved = renumbered(stale, question) if stale is not None else None
        if self.replies:
            reply = self.replies.pop(0)
            self.recorded.append(question)
        elif stale is not None and moved is not None:
            reply = moved
            self.rekeyed.append((replace(stale, reply=reply), question))
        else:
            self.stopped = self.stopped or question  # of several at once the first, as replies are given
            self.stopping.set()
            await asyncio.Event().wait()
            raise AssertionError  # nobody sets it: the turn is cancelled
        self.keep(question, reply)
        return Reply(text=reply, model="cassette")


def renumbered(was: Recorded, now: Recorded) -> str | None:
    """The reply of a record, for a prompt that numbers flows otherwise; None where one of them is not offered now.

    What names no flow by number means the same wherever it is said, and stays as it is.
    """
    called = dict(_OFFERED.findall(was.text))
    numbers = {name: number for number, name in _OFFERED.findall(now.text)}
    try:
        said: object = json.loads(was.reply)
    except ValueError:
        return was.reply
    if not called or not isinstance(said, list | dict):
        return was.reply
    ids: dict[str, Any] = {number: numbers.get(name) for number, name in called.items()}

    def moved(given: Any) -> Any:
        """Numbers in lists, and as names of what is said for one flow."""
        if isinstance(given, list):
            return [ids.get(str(each), each) for each in cast("list[Any]", given)]
        if isinstance(given, dict):
            told = cast("dict[str, Any]", given)
            return {ids.get(name, name): each for name, each in told.items()}
        return given

    read = cast("dict[str, object]", said) if isinstance(said, dict) else {}
    whole = moved(said) if isinstance(said, list) else {part: moved(each) for part, each in read.items()}
    if "null" in json.dumps(whole) and "null" not in was.reply:
        return None
    return was.reply if whole == said else json.dumps(whole, ensure_ascii=False)


class NativeTape(Tape):
    """The same model, that calls tools in its provider's own form: what it says is what it said in the text form."""

    takes_tools = True

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        schema: Mapping[str, Any] | None = None,
        tools: Sequence[OfferedTool] = (),
    ) -> Reply:
        """The recorded reply, with its calls in the other form."""
        asked = _in_text(messages, tools) if tools else messages
        return as_native(await super().complete(asked, schema=schema), tools)


def as_native(reply: Reply, tools: Sequence[OfferedTool]) -> Reply:
    """The reply with what it calls as calls, where tools are offered."""
    read = read_tool_reply(reply.text) if tools else ToolReply()
    if not read.calls:
        return reply
    calls = [
        NativeCall(name=each.tool, arguments=each.arguments, id=each.id) for each in Plan.from_steps(read.calls).steps
    ]
    return replace(reply, text=read.text, tool_calls=tuple(calls), origin=reply.text)


def _in_text(messages: Sequence[Message], tools: Sequence[OfferedTool]) -> list[Message]:
    """Messages of the provider's own form as those of the text form, as far as an answer rests on them."""
    (system, *rest), told = messages, list[Message]()
    lines: list[str] = []
    for each in [*rest, Message(role="user", content="")]:
        if each.role == "tool":
            own = _OF_AN_EARLIER_TURN.sub("", each.call_id)
            lines.append(json_line({"id": own, "tool": each.tool, **json.loads(each.content)}))
            continue
        if lines:
            more = f"\n\n{each.content}" if each.content.startswith("No further call") else ""
            told.append(Message(role="user", content="TOOL RESULTS:\n" + "\n".join(lines) + more))
            lines = []
            if more:
                continue
        if each.tool_calls:
            steps = [PlanStep(tool=call.name, arguments=cast("Any", call.arguments)) for call in each.tool_calls]
            told.append(Message(role="assistant", content=each.origin or calls_text(steps)))
        else:
            told.append(each)
    offers = "\n".join(f'{each.name} {{}}: ""' for each in tools)
    return [replace(system, content=f"{system.content}\n\nAVAILABLE TOOLS:\n{offers}"), *told[:-1]]
