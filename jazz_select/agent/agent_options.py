"""Options of an agent by subject: approval, prompts, tool calls and tracing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jazz_select.agent.chain.output_schema import SchemaLike
from jazz_select.agent.chain.prompts import SYSTEM
from jazz_select.agent.chain.transcript import AfterCall, BeforeCall
from jazz_select.arguments import checked
from jazz_select.chat.decisions import SURE
from jazz_select.routing.approval import ApprovalPolicy, Approve, Claims
from jazz_select.routing.executor import OpenRouter
from jazz_select.routing.tools.showing import OpenTools
from jazz_select.telemetry import Redact, TraceHook

Narrowing = Literal["fresh", "growing"]
"""How prompts show what was narrowed: anew each time, or appended to what the conversation showed before."""
Facts = Mapping[str, object | Callable[[], object]]
"""Facts by name; a function, async or plain, is called in each turn."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Which calls need approval, and where destructive calls are claimed.

    Attributes:
        policy: Which calls the user has to confirm if there is no `approve`: "destructive", "always" or "never". A
            turn that asks ends as `confirming`. With "never" destructive calls run as they come, and without a chat
            model a flow is begun without "Shall I go on?" as well, unless the message denies it.
        approve: A hook that decides before each call of a tool, in place of the policy: `Allow()`, `Deny(reason)`, or
            `Ask(reason)` to ask the user.
        claims: A store that destructive calls are claimed in, such as `SqliteClaims(path)`. Of two processes with one
            conversation, one then makes a call, and the other gets its outcome. Without it both may make the call.
    """

    policy: ApprovalPolicy = "destructive"
    approve: Approve | None = None
    claims: Claims | None = None


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """What an agent's models see, and the form of answers.

    Attributes:
        system: The role of the model; its instructions follow.
        open_tools: Tools of the model where no flow fits: those that change nothing ("read"), "all", or "none".
        narrowing: How prompts show what was narrowed. "fresh": each prompt holds only what it needs. "growing":
            prompts of a conversation are append-only, so that providers can cache their prefix; they are longer.
            Recommended where a cached token costs less than a quarter. Both offer the same flows and tools.
        schema: JSON Schema or pydantic class of the answers.
    """

    system: str = SYSTEM
    open_tools: OpenTools = "read"
    narrowing: Narrowing = "fresh"
    schema: SchemaLike | None = None


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """How an agent's models call tools.

    Attributes:
        chain_limit: Most calls of the model in one chain of tool calls.
        before_call: Hook before each call that a model makes; it may refuse the call.
        after_call: Hook after each call that a model makes.
        open_router: Chooses among all tools if nothing narrows them.
        model_timeout_s: The longest that one call of the model may take, retries included; None for no limit.
        decider_above: Lowest confidence at which an answer of a decision model counts.
    """

    chain_limit: int = 8
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None
    open_router: OpenRouter | None = None
    model_timeout_s: float | None = 30.0
    decider_above: float = SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Tracing of an agent.

    Attributes:
        name: The agent's name in spans.
        hooks: Receivers of spans beside the log.
        redact: Applied to the content of each span before any receiver gets it.
    """

    name: str = "agent"
    hooks: Sequence[TraceHook] = ()
    redact: Redact | None = None
