"""The policy of approval: which calls of tools need somebody's yes where no hook decides about each.

It has one name and the same three values at every door: `FlowExecutor`, `run_plan`, `run_chain`, `respond`, `Agent`.
"""

from typing import Final, Literal

from jazz_select.errors import ConfigError
from jazz_select.routing.tool_call import Approve, Ask, ToolCall, Verdict

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


def engine_approver(approval: object, approve: Approve | None) -> Approve | None:
    """Who is asked before each call of an engine that its caller runs directly; None where nobody is.

    A hook decides about every call, whatever the policy. Without one nobody can be asked here: whoever lists steps by
    name has decided about them, so `destructive` lets them pass as `never` does, and `always` lets nothing pass.

    Raises:
        ConfigError: There is no such policy.
    """
    policy = checked_policy(approval)
    if approve is not None:
        return approve
    return _asks if policy == "always" else None


def _asks(_: ToolCall) -> Verdict:
    return Ask()
