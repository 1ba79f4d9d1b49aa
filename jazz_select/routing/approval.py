"""Whether a call of a tool may be made: what is said of one, and the policy, with the same values at every door."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from jazz_select.arguments import Methods, check_argument
from jazz_select.ports import ClaimStore
from jazz_select.routing.records import ToolCall


@dataclass(frozen=True, slots=True)
class Allow:
    """The call may be made."""


@dataclass(frozen=True, slots=True)
class Deny:
    """The call may not be made, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ask:
    """The call may be made when somebody has said yes, and not before."""

    reason: str = ""


Verdict = Allow | Deny | Ask
Answer = Allow | Deny
"""What somebody says who was asked."""
Approve: TypeAlias = Annotated[
    Callable[[ToolCall], Verdict | Awaitable[Verdict]],
    Methods("a function of a call that gives Allow(), Deny(reason) or Ask(reason)", "__call__"),
]
"""Says whether a call may be made. One that fails, or says anything else, lets nothing pass. It may take its time,
but no longer than the turn in which it is asked: to wait for a person, `Ask` ends the turn."""


ApprovalPolicy = Literal["destructive", "always", "never"]
"""Which calls need a yes: of those tools that destroy something, each one, or none."""
Claims: TypeAlias = Annotated[ClaimStore, Methods("a store of claims, such as SqliteClaims(path)", "claim", "settle")]
"""Where calls that destroy something are claimed: a store that is none would be found when one is to be made."""


def needs_yes(policy: ApprovalPolicy, *, destructive: bool) -> bool:
    """Whether calls of tools that destroy something, or of the others, need somebody's yes where no hook decides."""
    return policy == "always" or (policy == "destructive" and destructive)


def engine_approver(approval: ApprovalPolicy, approve: Approve | None, *, by_model: bool = False) -> Approve | None:
    """Who is asked before each call of an engine that its caller runs directly; None where nobody is.

    A hook decides about every call, whatever the policy. Without one nobody can be asked here: whoever lists steps by
    name has decided about them, so `destructive` lets them pass as `never` does, and `always` lets nothing pass. Where
    calls are made `by_model`, nobody has decided, so what destroys is asked for.

    Raises:
        ConfigError: There is no such policy, or the hook is no function.
    """
    check_argument("approval", approval, ApprovalPolicy)
    check_argument("approve", approve, Approve | None)
    if approve is None and (approval == "always" or (by_model and approval == "destructive")):
        return lambda call: Ask() if needs_yes(approval, destructive=call.destructive) else Allow()
    return approve
