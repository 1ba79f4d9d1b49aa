"""Playing conversation cases with an agent, and their results."""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from html import unescape
from inspect import isawaitable
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

from jazz_select.agent.agent import Agent
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.flows.open_flows import ANOTHER_WISH, BLOCKED, FINISHED
from jazz_select.agent.turn_events import first_reader
from jazz_select.chat.models import as_chat_model
from jazz_select.errors import ModelError, ToolError
from jazz_select.evaluation.conversations import ANSWERS, OFF, Called, Check, ConversationCase, Seen, TurnCase, judged
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.json_values import is_object, json_or_same, json_text, plain
from jazz_select.routing.tool_call import stub_tools
from jazz_select.selector.candidates_stage import side_by_side
from jazz_select.text import beginning, count_of, describe_error, one_line
from jazz_select.values import Message, Reply

if TYPE_CHECKING:
    from jazz_select.agent.turn import TurnResult
    from jazz_select.chat.models import ModelLike
    from jazz_select.ports import ChatModel

_SHOWN_TEXT: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPlayed:
    """The result of one turn, numbered from 1, with the model's replies as a script would hold them."""

    number: int
    say: str
    seen: Seen
    replies: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    error: str = ""
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        values: dict[str, Any] = json_or_same(asdict(self))  # pyright: ignore[reportAssignmentType]
        return {**values, "passed": self.passed}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationResult(Framed):
    """The result of one conversation, with the checks over all turns.

    `error` is that of the agent or its factory, which ended the conversation.
    """

    id: str
    title: str
    tags: tuple[str, ...] = ()
    file: str = ""
    turns: tuple[TurnPlayed, ...] = ()
    checks: tuple[Check, ...] = ()
    error: str = ""
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether it was played to its end and every check passed."""
        return not self.error and all(check.passed for _, check in self.all_checks)

    @property
    def outcome(self) -> Literal["passed", "failed"]:
        """Whether it passed, in a word."""
        return "passed" if self.passed else "failed"

    @property
    def all_checks(self) -> Iterator[tuple[int, Check]]:
        """Every check with the number of its turn; 0 for those over all turns."""
        for turn in self.turns:
            for check in turn.checks:
                yield turn.number, check
        for check in self.checks:
            yield 0, check

    @property
    def problems(self) -> tuple[str, ...]:
        """A line for each problem; none if it passed."""
        lines: list[str] = []
        for number, check in self.all_checks:
            if not check.passed:
                place = f"turn {number}" if number else "the whole"
                lines.append(f"{place}: {check}")
        if self.error:
            lines.append(f"turn {len(self.turns) + 1}: it broke off: {self.error}")
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, with `outcome` and `problems`."""
        return {
            **asdict(self),
            "tags": list(self.tags),
            "checks": list(map(asdict, self.checks)),
            "outcome": self.outcome,
            "passed": self.passed,
            "problems": list(self.problems),
            "turns": [turn.to_dict() for turn in self.turns],
        }

    def __str__(self) -> str:
        """Return the messages and the problems, for the message of a failing test."""
        lines = [f"{self.id} ({self.title}): {self.outcome}"]
        for turn in self.turns:
            lines += [f"  user:  {beginning(turn.say, _SHOWN_TEXT)}"]
            lines += [f"  agent: {beginning(turn.seen.text or turn.seen.reason, _SHOWN_TEXT)} [{turn.seen}]"]
        return "\n".join([*lines, *(f"  - {problem}" for problem in self.problems)])

    def _frame(self) -> Frame:
        return _checks_of([self])


def _checks_of(results: Sequence[ConversationResult]) -> Frame:
    rows: list[dict[str, Any]] = []
    for result in results:
        for turn, check in result.all_checks:
            rows.append({"conversation": result.id, "turn": turn, **asdict(check)})
    return rows, ("conversation", "turn", *(each.name for each in fields(Check)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationReport(Framed):
    """The results of several conversations."""

    results: tuple[ConversationResult, ...]
    took_s: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every conversation passed."""
        return all(result.passed for result in self.results)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: the counts by outcome, and all results."""
        turns = checks = model_calls = 0
        for result in self.results:
            turns += len(result.turns)
            checks += sum(1 for _ in result.all_checks)
            model_calls += sum(turn.seen.model_calls for turn in result.turns)
        return {
            "passed": self.passed,
            "conversations": len(self.results),
            "turns": turns,
            "checks": checks,
            "model_calls": model_calls,
            "outcomes": self.outcomes,
            "took_s": self.took_s,
            "results": [result.to_dict() for result in self.results],
        }

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of conversations by outcome."""
        passed = sum(result.passed for result in self.results)
        return {"passed": passed, "failed": len(self.results) - passed}

    def __str__(self) -> str:
        """Return the counts, and what failed."""
        lines = [", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())]
        for result in self.results:
            if not result.passed:
                lines.append(str(result))
        return "\n".join(lines)

    def _frame(self) -> Frame:
        return _checks_of(self.results)


_SHOWN: Final = 240
_CHOOSING: Final = "<selection>"
"""The beginning of a prompt that asks which flow is meant."""
_CANDIDATE: Final = re.compile(r'<flow id="([^"]+)" name="([^"]*)"')

MadeAgent: TypeAlias = Agent | Awaitable[Agent] | AbstractAsyncContextManager[Agent]
MakeAgent: TypeAlias = "Callable[[ChatModel | None], MadeAgent] | MakeAgentOf"
"""Makes a new agent, with new state behind its tools, for the given model. A context manager is exited at the end. The
`state` of a conversation is passed by keyword if it has one."""


class MakeAgentOf(Protocol):
    """A `MakeAgent` that takes the state of a conversation."""

    def __call__(self, model: "ChatModel | None", *, state: Any) -> MadeAgent:
        """Make an agent with this state behind its tools."""
        ...


async def play(
    case: ConversationCase, make_agent: "MakeAgent", *, model: "ModelLike | None" = None
) -> ConversationResult:
    """Play one conversation, as `play_all` does."""
    return (await play_all([case], make_agent, model=model)).results[0]


async def play_all(
    cases: Sequence[ConversationCase],
    make_agent: "MakeAgent",
    *,
    model: "ModelLike | None" = None,
    at_once: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> ConversationReport:
    """Play conversations, each with a new agent.

    Between two turns a conversation is converted to JSON and back, as a stored one is. A failed turn has a failed
    check. An exception of the agent ends its conversation, and is in the result.

    Args:
        cases: The conversations.
        make_agent: Makes the agent; called once for each conversation, with the model.
        model: A real model, as for `FlowSelector`, which replaces the scripts. By default a script answers; without a
            script there is no model.
        at_once: How many are played at the same time; their agents must share nothing.
        progress: Called with (played, all) after each.

    Raises:
        ConfigError: The model cannot be used.
        CancelledError: The caller was cancelled.
    """
    began = perf_counter()
    chat = as_chat_model(model, argument="model")
    try:
        calls = [partial(_play_case, case, make_agent, chat) for case in cases]
        results = await side_by_side(calls, at_once=max(1, at_once), progress=progress)
    finally:
        close = None if chat is model else getattr(chat, "aclose", None)
        if close is not None:  # it was made from a name
            await close()
    return ConversationReport(results=tuple(results), took_s=perf_counter() - began)


async def _play_case(case: ConversationCase, make_agent: "MakeAgent", chat: "ChatModel | None") -> ConversationResult:
    began = perf_counter()
    script = Script() if chat is None and case.scripted else None
    result = ConversationResult(id=case.name, title=case.title, tags=case.tags, file=case.file)
    turns: list[TurnPlayed] = []
    error = ""
    model = chat if script is None else script
    options: dict[str, Any] = {}
    if case.state:  # a factory without a `state` can be used for conversations without one
        options["state"] = case.state
    try:
        made = cast("Any", make_agent)(model, **options)
        if isawaitable(made):
            made = await made
        async with made as agent:
            with stub_tools({name: partial(_stub, reply) for name, reply in case.stubs.items()}):
                await _turns(case, agent, script, turns)
    except Exception as failure:  # noqa: BLE001 - a failing conversation does not stop the others
        error = describe_error(failure)
    checks = () if error else judged(case.expect, _whole(turns))
    return replace(result, turns=tuple(turns), checks=checks, error=error, took_s=perf_counter() - began)


def _stub(reply: Any, /, **_: Any) -> Any:
    if is_object(reply) and set(reply) == {"raises"}:
        raise ToolError("stub", str(reply["raises"]))
    return reply


async def _turns(case: ConversationCase, agent: Agent, script: "Script | None", turns: list[TurnPlayed]) -> None:
    conversation = Conversation()
    context = dict(case.context)
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
        # Do as a store does between two requests: what JSON cannot hold is lost.
        conversation = Conversation.from_json(result.conversation.to_json())


def _turn(number: int, turn: TurnCase, result: "TurnResult", checks: Sequence[Check], took_s: float) -> TurnPlayed:
    seen = seen_in(result)
    error = "" if result.error is None else describe_error(result.error)
    # A script without a reply raises the error itself, and has a check of its own.
    is_of_script = any(check.name == "script" for check in checks)
    if error and turn.expect.status != "failed" and not is_of_script:
        checks = (*checks, Check(name="error", passed=False, expected="none", seen=beginning(error, _SHOWN)))
    replies: list[str] = []
    for span in result.trace:
        if "reply" in span.content:
            replies.append(str(span.content["reply"]))
    return TurnPlayed(
        number=number,
        say=turn.say,
        seen=seen,
        replies=tuple(replies),
        checks=(*judged(turn.expect, seen), *checks),
        notes=result.notes,
        error=error,
        took_s=took_s,
    )


def seen_in(result: "TurnResult") -> Seen:
    """Return the result of a turn in the form that checks compare."""
    pending, active = result.conversation.pending, result.conversation.active
    waits_for: tuple[str, ...] = ()
    if pending is not None:
        waits_for = (pending.tool,)
    elif active is not None:
        waits_for = active.asks
    tools: list[Called] = []
    for span in result.trace:
        # Some names end a flow, and are no real tools.
        if span.kind != "tool" or span.name in {BLOCKED, FINISHED, ANOTHER_WISH}:
            continue
        arguments = plain(span.content.get("arguments", {}))
        status = str(span.attributes.get("status", "unknown"))
        tools.append(Called(tool=span.name, arguments=arguments, status=status))
    return Seen(
        flows=tuple(result.flows),
        under_way=tuple(flow.name for flow in result.conversation.flows),
        waits_for=waits_for,
        inputs={} if active is None else plain(active.answers),
        status=result.status,
        tools=tuple(tools),
        text=result.text,
        reason=result.reason,
        value=plain(result.value),
        model_calls=result.model_calls,
    )


def _whole(turns: Sequence[TurnPlayed]) -> Seen:
    """Merge all turns: the texts, calls and flows of every turn, and the status of the last one."""
    if not turns:
        return Seen()
    seen = [turn.seen for turn in turns]
    flows: list[str] = []
    tools: list[Called] = []
    for each in seen:
        flows.extend(each.flows)
        tools.extend(each.tools)
    return replace(
        seen[-1],
        flows=tuple(flows),
        tools=tuple(tools),
        text="\n\n".join(each.text for each in seen),
        reason="\n".join(each.reason for each in seen if each.reason),
        model_calls=sum(each.model_calls for each in seen),
    )


class Script:
    """A `ChatModel` that answers from the script of the current turn, and records calls without a reply.

    It answers which flow is meant by name, in any prompt that asks so. The candidates, and whether a model is asked at
    all, depend on the embedder, so that a script by name outlives a change of it.
    """

    def __init__(self) -> None:
        self.begin(TurnCase(say="-"))

    def begin(self, turn: TurnCase) -> None:
        """Start the next turn."""
        self._turn = turn
        self._chooses = turn.chooses
        self._unused_replies = list(turn.script)
        self._used_replies = 0
        self._unanswered: list[str] = []
        self._not_offered: list[str] = []

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Return the next reply."""
        asked = messages[-1].content if messages else ""
        if self._chooses is not None and asked.startswith(_CHOOSING):
            return Reply(text=self._choice(self._chooses, asked), model="script")
        # A flow at work reads the message before any selection; what is chosen is another one, so it hands it back.
        flow_at_work = first_reader()
        if flow_at_work and self._chooses is not None and [*self._chooses] != [flow_at_work]:
            wish = {"id": "s0", "tool": ANOTHER_WISH, "arguments": {"wish": self._turn.say}}
            return Reply(text=json_text({"tool_calls": [wish]}), model="script")
        if not self._unused_replies:
            self._unanswered.append(one_line(asked))
            raise ModelError("script", "the script of the turn has no reply to this", retryable=False)
        self._used_replies += 1
        return Reply(text=self._unused_replies.pop(0), model="script")

    def _choice(self, chooses: Sequence[str], asked: str) -> str:
        """Return the scripted choice as JSON, with the ids of the flows in the prompt."""
        ids = {unescape(name): number for number, name in _CANDIDATE.findall(asked)}
        reply: dict[str, Any] = {"flows": [], "off": [], "values": dict(self._turn.values)}
        for choice in chooses:
            if choice in ANSWERS:
                reply["confirm"] = {"is": choice, "quote": self._turn.say}
                continue
            name = choice.removeprefix(OFF)
            if name not in ids:
                self._not_offered.append(f"{name} is not among {', '.join(ids) or 'the candidates: there are none'}")
            field_name = "off" if choice.startswith(OFF) else "flows"
            reply[field_name].append(ids.get(name, name))
        return json_text(reply)

    def checks(self) -> tuple[Check, ...]:
        """Return failed checks for the problems of the script in the last turn."""
        failed: list[Check] = []
        if self._not_offered:
            seen = beginning("; ".join(self._not_offered), _SHOWN)
            failed.append(Check(name="chooses", passed=False, expected=", ".join(self._chooses or ()), seen=seen))
        if self._unanswered:
            rest = f"nothing answers {self._unanswered[0]!r}"
        elif self._unused_replies:
            rest = f"nobody asked for {self._unused_replies[0]!r}"
        else:
            return tuple(failed)
        replies = self._used_replies + len(self._unused_replies)
        expected = f"{replies} {'reply' if replies == 1 else 'replies'}"
        asked = count_of(self._used_replies + len(self._unanswered), "question")
        seen = beginning(f"{asked}: {rest}", _SHOWN)
        failed.append(Check(name="script", passed=False, expected=expected, seen=seen))
        return tuple(failed)
