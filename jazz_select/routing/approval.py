"""Whether a call of a tool may be made: what is said of one, and the policy, with the same values at every door."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from jazz_select.errors import ConfigError
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
Approve = Callable[[ToolCall], Verdict | Awaitable[Verdict]]
"""Says whether a call may be made. One that fails, or says anything else, lets nothing pass. It may take its time,
but no longer than the turn in which it is asked: to wait for a person, `Ask` ends the turn."""


ApprovalPolicy = Literal["destructive", "always", "never"]
"""Which calls need a yes: of those tools that destroy something, each one, or none."""
APPROVAL_POLICIES: Final = ("destructive", "always", "never")


def checked_policy(approval: object) -> ApprovalPolicy:
    """The policy that a caller names.

    Raises:
        ConfigError: There is none of this name.
    """
    for policy in APPROVAL_POLICIES:
        if approval == policy:
            return policy
    msg = f"approval is one of {', '.join(APPROVAL_POLICIES)}, not {approval!r:.80}"
    raise ConfigError(msg)


def needs_yes(policy: ApprovalPolicy, *, destructive: bool) -> bool:
    """Whether calls of tools that destroy something, or of the others, need somebody's yes where no hook decides."""
    return policy == "always" or (policy == "destructive" and destructive)


def check_approve(hook: object) -> None:
    """See that a hook can be asked.

    Raises:
        ConfigError: It is no function.
    """
    if hook is not None and (isinstance(hook, type) or not callable(hook)):
        msg = f"approve is a function of a call that gives Allow(), Deny(reason) or Ask(reason), not {hook!r:.80}"
        raise ConfigError(msg)


def check_claims(claims: object) -> None:
    """See that calls can be claimed there: a store that is none would be found when something is to be destroyed.

    Raises:
        ConfigError: It is no store.
    """
    can = all(callable(getattr(claims, method, None)) for method in ("claim", "settle"))
    if claims is not None and (isinstance(claims, type) or not can):
        msg = f"claims is a store of claims, such as SqliteClaims(path), not {claims!r:.80}"
        raise ConfigError(msg)


def engine_approver(approval: object, approve: Approve | None, *, by_model: bool = False) -> Approve | None:
    """Who is asked before each call of an engine that its caller runs directly; None where nobody is.

    A hook decides about every call, whatever the policy. Without one nobody can be asked here: whoever lists steps by
    name has decided about them, so `destructive` lets them pass as `never` does, and `always` lets nothing pass. Where
    calls are made `by_model`, nobody has decided, so what destroys is asked for.

    Raises:
        ConfigError: There is no such policy.
    """
    policy = checked_policy(approval)
    check_approve(approve)
    if approve is not None:
        return approve
    if policy == "destructive" and by_model:
        return _asks_before_it_destroys
    return _asks if policy == "always" else None


def _asks(_: ToolCall) -> Verdict:
    return Ask()


def _asks_before_it_destroys(call: ToolCall) -> Verdict:
    return Ask() if call.destructive else Allow()
