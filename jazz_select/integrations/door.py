"""What each framework's adapter stands on: a selection, the tools that go with it, calls by the rules of the house.

A call is checked against the tool's schema, approved, kept to a time limit, claimed and traced like one of an agent's
own. Where somebody has to say yes first, the framework's own way of asking is used, and its answer is told here.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from jazz_select.errors import ConfigError
from jazz_select.flow.checks import check_connected
from jazz_select.json_values import storable_text
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import (
    Allow,
    ApprovalPolicy,
    Approve,
    Ask,
    Verdict,
    check_approve,
    check_claims,
    checked_policy,
    needs_yes,
)
from jazz_select.routing.records import StepError, ToolCall
from jazz_select.routing.tool_call import CallOutcome, call_tool, copied, verdict_of
from jazz_select.routing.tools.showing import OpenTools, check_open_tools, selected_tools, shown_names
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.options import check_timeout
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.select import FlowSelector
from jazz_select.stages import UserQuestion
from jazz_select.text import as_text, beginning
from jazz_select.threads import ends_by_itself
from jazz_select.values import Decision

_MOST_SUMMARIES: Final = 3
_LONGEST: Final = 1_000
_ASK: Final = "Only the user can say which of these is meant. Ask this, and do nothing before the answer:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a model is shown for a request.

    Attributes:
        result: What was selected.
        tools: The tools that go with it, by the names that models are shown.
    """

    result: FlowSelectionResult
    tools: Mapping[str, Tool]

    @property
    def prompt(self) -> str:
        """The selected flows, for the model's instructions; or what the user is to be asked, where nobody else decides.

        Empty where nothing fits.
        """
        question = self.result.decision.question
        return self.result.combined_prompt or (f"{_ASK}\n{question.text}" if question else "")


class FlowDoor:
    """Flows and their tools, for a loop that is not ours. It keeps nothing between requests, and many may use it.

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
            claims: Where calls that destroy something are claimed before they are made.
            open_tools: Which tools there are where no flow fits.
            timeout_s: The most that one call of a tool may take; None for no limit.

        Raises:
            ConfigError: An argument cannot work.
            UnconnectedToolsError: A flow names a tool that is not connected, and cannot do without it.
            DuplicateToolError: Two tools have one name.
        """
        if not isinstance(selector, FlowSelector):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
            msg = f"selector is a FlowSelector, not {selector!r:.80}"
            raise ConfigError(msg)
        check_timeout(timeout_s)
        check_approve(approve)
        check_claims(claims)
        check_open_tools(open_tools)
        self._selector, self._connected = selector, toolbox_of(tools)
        check_connected(selector.flow_registry.values(), self._connected)
        self._policy: ApprovalPolicy = checked_policy(approval)
        self._approve, self._claims = approve, claims
        self._open_tools: OpenTools = open_tools
        self._timeout_s = timeout_s
        self.tools: Mapping[str, Tool] = shown_names(self._connected.values())
        self._names = {tool.name: name for name, tool in self.tools.items()}

    async def select(
        self,
        said: str | Sequence[str],
        context: Mapping[str, Any] | None = None,
        *,
        asked: Decision | UserQuestion | None = None,
    ) -> Shown:
        """Find the flows for what the user said last, and the tools that go with them.

        Args:
            said: The request; or all that the user said, the request last, of which the three before it count.
            context: What guards look at.
            asked: The decision with the question that what was said last answers, where the selector asks the user.

        Raises:
            StoreError: The memory failed, and there are no fallback candidates.
            EmbeddingError: Likewise.
        """
        every = [said] if isinstance(said, str) else said
        *before, request = [as_text(each) for each in every] or [""]
        recent = before[-_MOST_SUMMARIES:]
        result = await self._selector.select(request, episode_summaries=recent, context=context, asked=asked)
        tools = selected_tools(result.chosen_flows, self._connected, open_tools=self._open_tools)
        return Shown(result=result, tools={self._names[tool.name]: tool for tool in tools})

    async def waiting(self, calls: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, Tool]:
        """The tools of those calls that somebody has to be asked about: they were shown when they were called.

        Others are not among them: what a history claims to have been called is no reason to show it.
        """
        known = [(name, self.tools[name], arguments) for name, arguments in calls if name in self.tools]
        return {name: tool for name, tool, given in known if isinstance(await self.verdict(tool, given), Ask)}

    def may_ask(self, tool: Tool) -> bool:
        """Whether somebody may have to be asked before a call of this tool."""
        return self._approve is not None or needs_yes(self._policy, destructive=tool.destructive)

    async def verdict(self, tool: Tool, arguments: Mapping[str, Any], call_id: str = "") -> Verdict:
        """Whether a call may be made, and whether somebody is to be asked first."""
        known = {"id": call_id} if call_id else {}
        call = ToolCall(
            tool=tool.name,
            arguments=copied(arguments),
            destructive=tool.destructive,
            door="framework",
            title=tool.display_name,
            **known,
        )
        return await self._said_of(call)

    async def call(
        self, tool: Tool, arguments: Mapping[str, Any] | str, *, call_id: str = "", agreed: bool = False
    ) -> CallOutcome:
        """Call a tool, if that may be. One with the status `asked` was not called: somebody has to say yes first.

        Args:
            tool: What to call.
            arguments: By name; or the JSON text that a model wrote, and where that is no object nothing is called.
            call_id: What the call is known by, the same wherever the same call may be made again.
            agreed: Whether somebody was asked about this very call, and said yes.
        """
        given = arguments if isinstance(arguments, Mapping) else _object_in(arguments)
        if given is None:
            call = ToolCall(tool=tool.name, arguments={}, destructive=tool.destructive, door="framework")
            message = f"{tool.name} was not run: its arguments are no JSON object"
            return CallOutcome(call=call, status="failed", error=StepError(fault="arguments", message=message))

        @ends_by_itself
        async def approve(call: ToolCall) -> Verdict:
            verdict = await self._said_of(call)
            return Allow() if agreed and isinstance(verdict, Ask) else verdict

        return await call_tool(
            tool,
            given,
            door="framework",
            timeout_s=self._timeout_s,
            approve=approve,
            call_id=call_id,
            claims=self._claims,
        )

    async def _said_of(self, call: ToolCall) -> Verdict:
        if self._approve is not None:
            return await verdict_of(self._approve, call)
        return Ask() if needs_yes(self._policy, destructive=call.destructive) else Allow()


def _object_in(arguments: object) -> dict[str, Any] | None:
    """What a model wrote as arguments; None where it is no JSON object."""
    try:
        found: object = json.loads((arguments or "{}") if isinstance(arguments, str) else "null")
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def check_door(given: object) -> None:
    """See that it is a door, for the parts that stand on one.

    Raises:
        ConfigError: It is none.
    """
    if not isinstance(given, FlowDoor):
        msg = f"door is a FlowDoor(selector, tools) from jazz_select.integrations.door, not {given!r:.80}"
        raise ConfigError(msg)


def told(outcome: CallOutcome) -> str:
    """What became of a call, as a model is told: what the tool gave as JSON, or why there is nothing."""
    if outcome.error is None:
        return storable_text(outcome.output)
    return as_text(beginning(f"not run: {outcome.reason}" if outcome.reason else outcome.error.message, _LONGEST))
