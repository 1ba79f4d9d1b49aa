"""The options of an agent that belong together: approvals, prompts, calls of tools, and tracing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jazz_select.agent.chain.output_schema import SchemaLike
from jazz_select.agent.chain.tool_calls import AfterCall, BeforeCall
from jazz_select.agent.flows.open_prompts import SYSTEM
from jazz_select.arguments import checked
from jazz_select.chat.decisions import SURE
from jazz_select.routing.approval import ApprovalPolicy, Approve, Claims
from jazz_select.routing.executor import OpenRouter
from jazz_select.routing.tools.showing import OpenTools
from jazz_select.telemetry import Redact, TraceHook

Narrowing = Literal["fresh", "growing"]
"""How what was narrowed is put to models: each time afresh, or behind what was shown before in the conversation."""
Facts = Mapping[str, object | Callable[[], object]]
"""What holds in every conversation, by name; a function, async or plain, is called in each turn."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Which calls of tools somebody is asked about first, and where those that destroy something are claimed.

    Attributes:
        policy: Which calls the user is asked to confirm, where there is no `approve`: of tools that destroy something,
            "always", or "never". A turn that asks ends as `confirming`.
        approve: Asked before each call of a tool, whoever chose it and whatever the policy: `Allow()`, `Deny(reason)`,
            or `Ask(reason)` for the user's yes.
        claims: Where calls that destroy something are claimed before they are made, such as `SqliteClaims(path)`: then
            of two processes that go on with one conversation, one makes a call, and the other hears what became of it.
            Without it nobody keeps them apart.
    """

    policy: ApprovalPolicy = "destructive"
    approve: Approve | None = None
    claims: Claims | None = None


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """What an agent's models are told, which tools they see, and what answers look like.

    Attributes:
        system: Who the model is told to be; what it has to do follows.
        open_tools: Which tools the model gets where no flow fits: those that change nothing ("read"), "all", or "none".
        narrowing: How what was narrowed is put to models. "fresh": each prompt holds what it needs and no more.
            "growing": within a conversation prompts only grow, at their end, so that providers can serve their
            beginnings from a cache; they are longer. What may be chosen and called is the same.
        schema: A JSON Schema or a pydantic class that answers are to have.
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
        chain_limit: How often the model may be asked in one chain of tool calls.
        before_call: Asked before each call that a model makes; may say no.
        after_call: Told after each call that a model makes.
        open_router: Who chooses among all tools where nothing narrows them.
        model_timeout_s: The most that one call of the model may take, retries included; None for no limit.
        decider_above: How likely a decision model has to say that its answer is, for that to count.
    """

    chain_limit: int = 8
    before_call: BeforeCall | None = None
    after_call: AfterCall | None = None
    open_router: OpenRouter | None = None
    model_timeout_s: float | None = 30.0
    decider_above: float = SURE


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """Who hears of an agent's spans.

    Attributes:
        name: What the agent is called in them.
        hooks: Who hears of them, beside the log.
        redact: Applied to what is said in each span, before anyone gets it.
    """

    name: str = "agent"
    hooks: Sequence[TraceHook] = ()
    redact: Redact | None = None
