"""Approval at an agent: what waits for the user's yes, how that is asked, and what a yes lets pass."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

from jazz_select.json_values import plain, storable
from jazz_select.routing.approval import ApprovalPolicy, checked_policy, needs_yes
from jazz_select.routing.tool_call import Allow, Approve, Ask, Deny, Door, ToolCall, Verdict, verdict_of
from jazz_select.text import as_text, cut

_LONGEST_VALUE: Final = 300
_LONGEST_REASON: Final = 1_000


class PendingCall(BaseModel):
    """A call that is made when the user says yes, and not before.

    Attributes:
        tool: The tool.
        arguments: What it would get, as JSON values: all of them, as the user was shown them.
        flow: The flow that wants it; empty where a model does, without one.
        path: Which part of that flow: "0" is the flow itself.
        door: Whether the flow's steps or a model's chain made it.
        reason: Why it has to be asked for, in the words of whoever said so: for logs, not for users.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: str
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    flow: str = ""
    path: str = ""
    door: Door = "executor"
    reason: str = ""

    @classmethod
    def of(cls, call: ToolCall, *, flow: str, path: str, reason: str = "") -> "PendingCall":
        """What is kept of a call that was asked for."""
        return cls(
            tool=call.tool,
            arguments=_kept(call.arguments),
            flow=flow,
            path=path,
            door=call.door,
            reason=cut(reason, _LONGEST_REASON),
        )

    def question(self) -> str:
        """What the user is asked: what would be done, and with which arguments."""
        given = ", ".join(f"{_spaced(name)}: {_shown(value)}" for name, value in self.arguments.items())
        return (
            f"This would be done next: {_spaced(self.tool)}{f' ({given})' if given else ''}. Shall I go on, yes or no?"
        )

    def is_same(self, other: "PendingCall") -> bool:
        """Whether the other is this call: the same tool with the same arguments, at the same place."""
        return (self.tool, self.flow, self.path, self.door, _sorted(self.arguments)) == (
            other.tool,
            other.flow,
            other.path,
            other.door,
            _sorted(other.arguments),
        )


class AgentApproval:
    """What an agent asks for: by its hook where it has one, else by its policy."""

    def __init__(self, policy: object, hook: Approve | None) -> None:
        """Take both.

        Raises:
            ConfigError: There is no such policy.
        """
        self.policy: ApprovalPolicy = checked_policy(policy)
        self.hook = hook

    def turn(self, granted: PendingCall | None) -> "TurnApproval":
        """The approval of one turn, in which the user has said yes to this, if to anything."""
        return TurnApproval(self, granted)

    async def verdict(self, call: ToolCall) -> Verdict:
        """What is said of a call before the user is asked."""
        if self.hook is not None:
            return await verdict_of(self.hook, call)
        return Ask() if needs_yes(self.policy, call) else Allow()


class TurnApproval:
    """What may be called in one turn. Parts of a flow may run side by side, and all of them ask here.

    Attributes:
        pending: The first call that has to be asked for.
    """

    def __init__(self, approval: AgentApproval, granted: PendingCall | None) -> None:
        """Take who decides, and the one call that the user has said yes to: once, and just as it was shown."""
        self._approval = approval
        self._granted = granted
        self.pending: PendingCall | None = None

    def granted_to(self, flow: str, path: str) -> PendingCall | None:
        """The call of a model's chain at this place that the user has said yes to."""
        granted = self._granted
        here = granted is not None and (granted.door, granted.flow, granted.path) == ("chain", flow, path)
        return granted if here else None

    def at(self, flow: str, path: str) -> Callable[[ToolCall], Awaitable[Verdict]]:
        """Who is asked before each call of a flow's part."""

        async def approve(call: ToolCall) -> Verdict:
            return await self._verdict(call, flow, path)

        return approve

    async def _verdict(self, call: ToolCall, flow: str, path: str) -> Verdict:
        verdict = await self._approval.verdict(call)
        if isinstance(verdict, Allow | Deny):
            return verdict
        wanted = PendingCall.of(call, flow=flow, path=path, reason=verdict.reason)
        if self._granted is not None and self._granted.is_same(wanted):
            self._granted = None
            return Allow()
        if self.pending is None:
            self.pending = wanted
        return verdict


def _sorted(arguments: Mapping[str, Any]) -> bytes:
    return orjson.dumps(_kept(arguments), option=orjson.OPT_SORT_KEYS)


def _kept(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {as_text(name): storable(plain(value)) for name, value in arguments.items()}


def _spaced(name: str) -> str:
    return " ".join(name.replace("_", " ").replace("-", " ").split())


def _shown(value: object) -> str:
    """A value in one line, cut where one can see it."""
    text = value if isinstance(value, str) else orjson.dumps(plain(value)).decode()
    return cut(" ".join(text.split()), _LONGEST_VALUE)
