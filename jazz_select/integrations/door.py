"""What each framework's adapter stands on: a selection, the tools that go with it, calls by the rules of the house.

A call is checked against the tool's schema, approved, kept to a time limit, claimed and traced like one of an agent's
own. Where somebody has to say yes first, the framework's own way of asking is used, and its answer is told here.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, cast
from uuid import uuid4

from jazz_select.arguments import check_argument
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow, check_connected
from jazz_select.json_values import plain, storable_text
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import (
    Allow,
    ApprovalPolicy,
    Approve,
    Ask,
    Claims,
    Verdict,
    needs_yes,
    verdict_of,
)
from jazz_select.routing.claims import RecentClaims
from jazz_select.routing.question import question
from jazz_select.routing.records import StepError, ToolCall
from jazz_select.routing.tool_call import CallOutcome, call_of, call_tool, made_once
from jazz_select.routing.tools.showing import OpenTools, selected_tools, shown_names
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.asking import adds_nothing, question_in
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.stages import UserQuestion
from jazz_select.text import as_text, beginning
from jazz_select.threads import self_bounded
from jazz_select.travel import value_of
from jazz_select.values import Decision, Reason

_MOST_SUMMARIES: Final = 3
_MOST_KNOWN: Final = 1_000
"""Calls that somebody was asked about, of which is known what was asked."""
_LONGEST: Final = 1_000
OPEN: Final = "flow_question"
"""By which name an adapter keeps the question that is open, wherever its framework keeps things."""
RUN: Final = "flow_run"
"""By which name it keeps there what tells a run, or the conversation it is of, from others."""
ASKED: Final = "flow_asked"
"""By which name it keeps there what somebody is asked about, by call."""
_BEGUN: Final = "{} was not run: a call with this id was begun before, and this one may have been done"
_PICKED: Final = "picked"
"""Under which, in what is kept, the flow stands that the answer named."""
_SURE: Final = frozenset({Reason.SINGLE, Reason.CONFIDENT, Reason.DECIDER, Reason.LLM})
"""Whatever else a value alone or thanks lead to, they name no other flow than the one that the user picked."""
_log = logging.getLogger(__name__)
_PAIR: Final = 2
_ASK: Final = "Only the user can say which of these is meant. Ask this, and do nothing before the answer:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown for a request.

    Attributes:
        result: What was selected.
        tools: The tools that go with it, by the names that models are shown.
        kept: What to keep until the user says more, and to give to `select` then, as plain JSON values: the question
            that is open, or the flow that its answer named, which helps to find what is meant next until another one
            is found. None where there is neither.
    """

    result: FlowSelectionResult
    tools: Mapping[str, Tool]
    kept: Mapping[str, Any] | None = None

    @property
    def prompt(self) -> str:
        """The selected flows, for the model's instructions; or what the user is to be asked, where nobody else decides.

        Empty where nothing fits.
        """
        question = self.result.decision.question
        return self.result.combined_prompt or (f"{_ASK}\n{question.text}" if question else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCall:
    """A call as somebody may be asked about it.

    Attributes:
        call: The call, with its identity: what a yes is for.
        verdict: Whether somebody has to be asked first.
    """

    call: ToolCall
    verdict: Verdict

    @property
    def about(self) -> dict[str, str]:
        """What to keep of it and to show: its title, the question to ask, the reason, and what a yes is for."""
        return approval_request(self.call, self.verdict.reason if isinstance(self.verdict, Ask) else "")


class FlowDoor:
    """Flows and their tools, for a loop that is not ours. Many may use it.

    It keeps nothing of what was said: a question that is open, and what was picked, are the caller's to keep
    (`Shown.kept`).

    Attributes:
        tools: Everything that is connected, by the names that models are shown, the same for each selection.
    """

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        selector: FlowSelector,
        tools: ToolsLike,
        *,
        approval: ApprovalPolicy = "destructive",
        approve: Approve | None = None,
        claims: ClaimStore | None = None,
        open_tools: OpenTools = "read",
        timeout_s: float | None = 30.0,
    ) -> None:
        """Put it together; the options are an `Agent`'s.

        Args:
            selector: Finds flows.
            tools: What is connected: every tool that a flow cannot do without has to be among them.
            approval: Which calls somebody is asked about, where there is no `approve`: of tools that destroy
                something, "always", or "never".
            approve: Asked before each call, whatever the policy: `Allow()`, `Deny(reason)`, or `Ask(reason)`.
            claims: Where calls that destroy something are claimed before they are made, so that one that comes again
                by its id is told what became of it. By default the last thousand are known, in this object alone.
            open_tools: Which tools there are where no flow fits.
            timeout_s: The most that one call of a tool may take; None for no limit.

        Raises:
            ConfigError: An argument cannot work.
            UnconnectedToolsError: A flow names a tool that is not connected, and cannot do without it.
            DuplicateToolError: Two tools have one name.
        """
        if not isinstance(selector, FlowSelector):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            raise ConfigError(f"selector is a FlowSelector, not {selector!r:.80}")
        check_argument("timeout_s", timeout_s, TimeLimit)
        check_argument("approval", approval, ApprovalPolicy)
        check_argument("approve", approve, Approve | None)
        check_argument("claims", claims, Claims | None)
        check_argument("open_tools", open_tools, OpenTools)
        self._selector, self._connected = selector, toolbox_of(tools)
        check_connected(selector.flow_registry.values(), self._connected)
        self._policy: ApprovalPolicy = approval
        self._approve = approve
        self._claims: ClaimStore = RecentClaims() if claims is None else claims
        self._open_tools: OpenTools = open_tools
        self._timeout_s = timeout_s
        self._shown: dict[str, str] = {}
        self.tools: Mapping[str, Tool] = shown_names(self._connected.values())
        self._names = {tool.name: name for name, tool in self.tools.items()}

    async def select(
        self,
        said: str | Sequence[str],
        context: Mapping[str, Any] | None = None,
        *,
        asked: Mapping[str, Any] | Decision | UserQuestion | None = None,
    ) -> Shown:
        """Find the flows for what the user said last, and the tools that go with them.

        Args:
            said: The request; or all that the user said, the request last, of which the three before it count.
            context: What guards look at.
            asked: Where the selector asks the user, what was kept (`Shown.kept`) since the request before: whoever kept
                it need not know whether it is answered now. Once it is, the title of the flow that was picked helps to
                find the next, and a value alone or thanks leave it at that flow. Or the decision with the question,
                which then is answered.

        Raises:
            ConfigError: An argument is of the wrong kind.
            StoreError: The memory failed.
            EmbeddingError: Likewise.
        """
        every = [said] if isinstance(said, str) else said
        if not isinstance(every, Sequence) or isinstance(every, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            msg = f"said is the request, or a list of all that the user said, the request last, not {said!r:.80}"
            raise ConfigError(msg)
        *before, request = [as_text(each) for each in every] or [""]
        kept: Mapping[str, Any] = asked if isinstance(asked, Mapping) else {}
        question = _answered(kept, request) if isinstance(asked, Mapping) else asked
        known = _picked(kept, self._selector.flow_registry) if question is None else None
        recent = [*([known[0].display_name] if known else []), *before[-_MOST_SUMMARIES:]]
        result = await self._selector.select(request, episode_summaries=recent, context=context, asked=question)
        if known is not None and adds_nothing(request) and result.decision.reason not in _SURE:
            result = await self._selector.select(known[1], context=context, asked=known[2])
        tools = selected_tools(result.chosen_flows, self._connected, open_tools=self._open_tools)
        shown = {self._names[tool.name]: tool for tool in tools}
        before_it = None if known is None else known[0]
        keeps = _to_keep(result, kept, request, answer=question is not None, before=before_it)
        return Shown(result=result, tools=shown, kept=keeps)

    async def waiting(self, calls: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Tool]:
        """The tools of those calls that somebody has to be asked about: they were shown when they were called.

        Others are not among them: what a history claims to have been called is no reason to show it.

        Raises:
            ConfigError: A call is no pair of a name and its arguments.
        """
        known = [(name, self.tools[name], arguments) for name, arguments in map(_as_call, calls) if name in self.tools]
        return {name: tool for name, tool, given in known if isinstance(await self.verdict(tool, given), Ask)}

    def may_ask(self, tool: Tool) -> bool:
        """Whether somebody may have to be asked before a call of this tool.

        Raises:
            ConfigError: It is no tool.
        """
        self._check_tool(tool)
        return self._approve is not None or needs_yes(self._policy, destructive=tool.destructive)

    async def verdict(self, tool: Tool, arguments: Mapping[str, Any], call_id: str = "") -> Verdict:
        """Whether a call may be made, and whether somebody is to be asked first.

        Raises:
            ConfigError: An argument is of the wrong kind.
        """
        self._check_tool(tool, call_id)
        if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            msg = f"arguments are a mapping of names to values, not {arguments!r:.80}; call() takes JSON too"
            raise ConfigError(msg)
        return (await self.asked(tool, arguments, call_id)).verdict

    async def asked(
        self, tool: Tool, arguments: Mapping[str, Any], call_id: str = "", *, keeps: object = None
    ) -> AskedCall:
        """A call as somebody may be asked about it: whether that has to be, in which words, and what a yes is for.

        A mapping `keeps` the last by the call's id, for whoever goes on in another process.
        """
        call = await call_of(tool, arguments, door="framework", call_id=call_id)
        if call_id not in self._shown:  # one that was asked about before stays what it was
            self.is_agreed(call_id, call, agreed=False)
        asked = AskedCall(call=call, verdict=await verdict_of(self._approve, call, self._policy))
        if isinstance(asked.verdict, Ask) and isinstance(keeps, MutableMapping):
            kept = cast("MutableMapping[str, object]", keeps)
            kept[ASKED] = {call_id: call.identity, **_identities(kept)}
        return asked

    def is_agreed(self, call_id: str, call: ToolCall, *, agreed: bool, identity: str = "") -> bool:
        """Whether a yes is one to this very call, as far as is known what was asked by this id.

        Args:
            call_id: What the framework knows the call by.
            call: The call as it would be made now.
            agreed: Whether the framework says that somebody agreed.
            identity: What was agreed to, where the framework has kept it.
        """
        asked_for = {self._shown.get(call_id, call.identity), identity or call.identity}
        if call_id:
            self._shown[call_id] = call.identity
            while len(self._shown) > _MOST_KNOWN:
                self._shown.pop(next(iter(self._shown)))
        return agreed and asked_for == {call.identity}

    async def call(
        self,
        tool: Tool,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str = "",
        agreed: bool = False,
        identity: str = "",
        keeps: object = None,
    ) -> CallOutcome:
        """Call a tool, if that may be. One with the status `asked` was not called: somebody has to say yes first.

        Args:
            tool: What to call.
            arguments: By name; or the JSON text that a model wrote, and where that is no object nothing is called.
            call_id: What the call is known by, the same wherever the same call may be made again: one that destroys
                something is made once by it.
            agreed: Whether somebody was asked about this very call, and said yes.
            identity: What was agreed to (`asked`), where the framework has kept it: another call is asked about anew.
            keeps: Where `asked` has had it kept, instead.

        Raises:
            ConfigError: Tool, id or `agreed` is of the wrong kind. What a model may have written as arguments is no
                error: then the outcome is `failed`.
        """
        self._check_tool(tool, call_id)
        if not isinstance(agreed, bool):  # pyright: ignore[reportUnnecessaryIsInstance] - "no" must not be a yes
            raise ConfigError(f"agreed is True where somebody said yes to this very call, or False, not {agreed!r:.80}")
        identity = identity or _identities(keeps).get(call_id, "")
        given = arguments if isinstance(arguments, Mapping) else _object_in(arguments)
        if given is None:
            call = ToolCall(tool=tool.name, arguments={}, destructive=tool.destructive, door="framework")
            message = f"{tool.name} was not run: its arguments are no JSON object"
            return CallOutcome(call=call, status="failed", error=StepError(fault="arguments", message=message))

        @self_bounded
        async def approve(call: ToolCall) -> Verdict:
            verdict = await verdict_of(self._approve, call, self._policy)
            passes = isinstance(verdict, Ask) and self.is_agreed(call_id, call, agreed=agreed, identity=identity)
            return Allow() if passes else verdict

        return await call_tool(
            tool,
            given,
            door="framework",
            timeout_s=self._timeout_s,
            approve=approve,
            call_id=call_id,
            claims=self._claims if call_id else None,
        )

    async def once(
        self, tool: Tool, arguments: Mapping[str, Any], call_id: str, make: Callable[[], Awaitable[Any]]
    ) -> CallOutcome:
        """A call that others make: made, unless it destroys something and was made before, by this id.

        Args:
            tool: What is called.
            arguments: By name.
            call_id: What the call is known by.
            make: Makes it. What it returns is the output, as it is; what it raises is raised.
        """
        call = await call_of(tool, arguments, door="framework", call_id=call_id)
        return await made_once(tool, call, make, self._claims)

    def _check_tool(self, tool: object, call_id: object = "") -> None:
        if not isinstance(tool, Tool):
            known = isinstance(tool, str) and tool in self.tools
            which = f"door.tools[{tool!r:.80}]" if known else "one of shown.tools"
            raise ConfigError(f"tool is a Tool: pass {which}, not {tool!r:.80}")
        if not isinstance(call_id, str):
            msg = f"call_id is a string, the same wherever the same call may be made again, not {call_id!r:.80}"
            raise ConfigError(msg)


def approval_request(call: ToolCall, reason: str) -> dict[str, str]:
    """What to keep of a call that has to be approved, and to show: in the words of every other door."""
    asked = question(call.display_name, call.words, call.arguments)
    return {"title": call.title, "question": asked, "reason": reason, "identity": call.identity}


def _answered(kept: Mapping[str, Any], request: str) -> UserQuestion | None:
    """The question that a request answers; None where it is what was asked about, or another one was the answer.

    A run may be gone on with, and then selects for the same request once more.
    """
    own = mark_of(request.strip())
    if not request.strip() or own == kept.get("after") or kept.get("by", own) != own:
        return None
    return _question_in(kept)


def _picked(kept: Mapping[str, Any], flows: Mapping[str, BaseFlow]) -> tuple[BaseFlow, str, UserQuestion] | None:
    """The flow that an earlier answer named, the number that it had, and the question; None where none was, or is."""
    named, question = kept.get(_PICKED), _question_in(kept) if kept.get(_PICKED) else None
    if question is None:
        return None
    offered = [each.flow_id for each in question.options]
    if named not in offered or named not in flows:
        return None
    return flows[named], str(offered.index(named) + 1), question


def _to_keep(
    result: FlowSelectionResult, kept: Mapping[str, Any], request: str, *, answer: bool, before: BaseFlow | None
) -> dict[str, Any] | None:
    """What to keep after a request.

    Args:
        result: What it led to: a question is kept.
        kept: What was kept before.
        request: What the user said.
        answer: Whether it answers the question that was kept, which then is marked as answered by it.
        before: The flow that an earlier answer named: it is kept until another one is found.
    """
    if result.decision.question is not None:
        return {"question": plain(result.decision.question), "after": mark_of(request.strip())}
    if kept and not request.strip():
        return dict(kept)
    if answer and kept:
        known = {name: kept[name] for name in ("question", "after") if name in kept}
        named = result.decision.chosen_ids if result.decision.reason is Reason.USER else ()
        return {**known, "by": mark_of(request.strip()), **({_PICKED: named[0]} if named else {})}
    if before is not None and (not result.names or before.name in result.names):
        return dict(kept)
    return None


def _question_in(kept: Mapping[str, Any]) -> UserQuestion | None:
    try:
        return question_in(value_of(UserQuestion, kept.get("question")))
    except ConfigError as error:
        _log.warning("error=<%s> | what was kept is no question: what was said is selected for anew", error)
        return None


def _as_call(given: object) -> tuple[str, Mapping[str, Any]]:
    """A call as a pair."""
    pair = cast("tuple[object, ...]", given) if isinstance(given, tuple) else ()
    if len(pair) != _PAIR or not isinstance(pair[0], str) or not isinstance(pair[1], Mapping):
        raise ConfigError(f"calls are pairs of a tool's name and its arguments by name, not {given!r:.80}")
    return pair[0], cast("Mapping[str, Any]", pair[1])


def _object_in(arguments: object) -> dict[str, Any] | None:
    """What a model wrote as arguments; None where it is no JSON object."""
    try:
        found: object = json.loads((arguments or "{}") if isinstance(arguments, str) else "null")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def check_door(given: object) -> None:
    """Refuse what is no door, for the parts that stand on one."""
    if not isinstance(given, FlowDoor):
        raise ConfigError(f"door is a FlowDoor(selector, tools) from jazz_select.integrations.door, not {given!r:.80}")


def kept_in(*places: object) -> Mapping[str, Any] | None:
    """What the last of these keeps that keeps anything: a mapping by its name, else as its attribute."""
    for each in reversed(places):
        found = getattr(each, OPEN, None)
        if isinstance(each, Mapping):
            found = cast("Mapping[str, object]", each).get(OPEN)
        if found and isinstance(found, Mapping):
            return cast("Mapping[str, Any]", found)
    return None


def keep_in(place: object, kept: Mapping[str, Any] | None) -> None:
    """Have it keep the question that is open, or that none is."""
    if isinstance(place, MutableMapping):
        if kept or OPEN in place:
            cast("MutableMapping[str, object]", place)[OPEN] = kept
    elif hasattr(place, OPEN):
        setattr(place, OPEN, kept)
    elif kept:
        _log.warning("place=<%s> | no question is kept there: give a dict, or what has %s", type(place).__name__, OPEN)


def run_in(place: object, *, begins: bool = False) -> str:
    """What tells a run from others, where this keeps it: made in one that begins. Empty where nothing is kept."""
    own: Any = place
    keeps = cast("MutableMapping[str, object]", place) if isinstance(place, MutableMapping) else None
    found = getattr(own, RUN, None) if keeps is None else keeps.get(RUN)
    if isinstance(found, str) and found:
        return found
    if not begins or (keeps is None and not hasattr(own, RUN)):
        return ""
    made = uuid4().hex
    try:
        if keeps is None:
            setattr(own, RUN, made)
        else:
            keeps[RUN] = made
    except (AttributeError, TypeError, ValueError) as error:
        _log.warning("error=<%s> | nothing can be kept of a run: give a dict, or what %s can be set of", error, RUN)
        return ""
    return made


def _identities(place: object) -> dict[str, str]:
    """What somebody was asked about, by the id of the call, where a mapping keeps it."""
    found: object = cast("Mapping[str, object]", place).get(ASKED) if isinstance(place, Mapping) else None
    known: Mapping[object, object] = cast("Mapping[object, object]", found) if isinstance(found, Mapping) else {}
    return {name: each for name, each in known.items() if isinstance(name, str) and isinstance(each, str)}


def mark_of(*texts: str) -> str:
    """What texts are told from others by, without being kept."""
    return sha256(json.dumps(texts).encode()).hexdigest()[:16]


def text_in(content: object) -> str:
    """What a message says: a text, or the texts among its parts, whatever they are in."""
    parts = cast("Sequence[object]", content) if isinstance(content, list | tuple) else [content]
    said = (_said_by(each) for each in parts)
    return "\n".join(text for text in said if isinstance(text, str))


def _said_by(part: object) -> object:
    if isinstance(part, Mapping):
        return cast("Mapping[str, object]", part).get("text")
    return part if isinstance(part, str) else getattr(part, "content", None)


def outcome_text(outcome: CallOutcome, *, own: bool = True) -> str:
    """What became of a call, as a model is told: what the tool gave as JSON, or why there is nothing.

    Where a call that was made before may be another's (`own` is false), nothing of what it came to is said.
    """
    if outcome.replayed and not own:
        return as_text(beginning(_BEGUN.format(outcome.call.tool), _LONGEST))
    if outcome.error is None:
        return storable_text(outcome.output)
    return as_text(beginning(f"not run: {outcome.reason}" if outcome.reason else outcome.error.message, _LONGEST))
