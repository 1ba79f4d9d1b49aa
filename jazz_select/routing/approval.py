"""Whether a call of a tool may be made: what is said of one, and the policy, with the same values at every door."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from jazz_select.arguments import Methods, check_argument
from jazz_select.errors import CannotDo, ConfigError
from jazz_select.ports import ClaimStore
from jazz_select.routing.question import display_problem
from jazz_select.routing.records import ToolCall
from jazz_select.text import describe_error
from jazz_select.threads import run_with_timeout


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
"""Says whether a call may be made. One that fails, or says anything else, lets nothing pass. One that raises `CannotDo`
tells the user why. It may take its time, but no longer than the turn in which it is asked: to wait for a person, `Ask`
ends the turn."""


ApprovalPolicy = Literal["destructive", "always", "never"]
"""Which calls need a yes: of those tools that destroy something, each one, or none.

"never" does without any yes: destructive calls run as they come, whoever chose them. An agent without a chat model then
begins whatever flow recall is sure of, except one that the message denies.
"""
Claims: TypeAlias = Annotated[ClaimStore, Methods("a store of claims, such as SqliteClaims(path)", "claim", "settle")]
"""Where calls that destroy something are claimed: a store that is none would be found when one is to be made."""


def needs_yes(policy: ApprovalPolicy, *, destructive: bool) -> bool:
    """Tell whether a call needs a person's yes where no hook decides."""
    return policy == "always" or (policy == "destructive" and destructive)


async def verdict_of(approve: Approve | None, call: ToolCall, policy: ApprovalPolicy = "never") -> Verdict:
    """Return whether a call may be made, by the hook or else the policy; the only place that decides this.

    If the hook fails, the call is denied. A call that cannot be shown to a person cannot be asked about, and is denied.

    Raises:
        CannotDo: The hook says that the call cannot be made.
    """
    if approve is None:
        verdict: object = Ask() if needs_yes(policy, destructive=call.destructive) else Allow()
    else:
        try:
            verdict = await run_with_timeout(approve, call, limit_s=None, name="jazz-select-approve")
        except CannotDo:
            raise
        except Exception as error:  # noqa: BLE001 - the caller's own code
            return Deny(f"approve failed: {describe_error(error)}")
    if isinstance(verdict, Ask):
        # A person cannot agree to what was left out, so nothing is cut to make it fit.
        problem = call.unshown or display_problem(call.words, call.arguments)
        return Deny(f"it has to be approved, and cannot be shown: {problem}") if problem else verdict
    if isinstance(verdict, Allow | Deny):
        return verdict
    return Deny(f"approve must return Allow, Deny or Ask, got {type(verdict).__name__}")


def answered_approver(asked: Sequence[ToolCall], answer: Answer, approve: Approve | None) -> Approve:
    """Return an approver that lets each call that was asked about pass once, unchanged.

    Raises:
        ConfigError: The answer is neither Allow nor Deny, or there is nothing to answer.
    """
    if not isinstance(answer, Allow | Deny):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without types
        raise ConfigError(f"the answer must be Allow() or Deny(reason), got {answer!r:.80}")
    if not asked:
        raise ConfigError("`after` must be a result that waits for an answer, got one whose `asked` is empty")
    unanswered = Counter(each.identity for each in asked if each.identity)

    async def decide(call: ToolCall) -> Verdict:
        if unanswered[call.identity]:  # counted: a yes to one call is none to the same call once more
            unanswered[call.identity] -= 1
            return answer
        return await verdict_of(approve, call)

    return decide


def engine_approver(approval: ApprovalPolicy, approve: Approve | None, *, by_model: bool = False) -> Approve | None:
    """Return who is asked before each call of an engine that its caller runs directly; None for nobody.

    A hook decides about every call, whatever the policy. Without one, a caller who lists steps by name has decided
    about them: `destructive` lets them pass like `never`, and `always` denies all. Calls made `by_model` were decided
    by nobody, so destructive ones need approval.

    Raises:
        ConfigError: The policy is unknown, or the hook is no function.
    """
    check_argument("approval", approval, ApprovalPolicy)
    check_argument("approve", approve, Approve | None)
    if approve is None and (approval == "always" or (by_model and approval == "destructive")):
        return lambda call: verdict_of(None, call, approval)
    return approve
