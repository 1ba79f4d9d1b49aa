"""The policy of a selection: how sure is sure enough without a chat model, and what follows if nothing is."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from jazz_select.arguments import Constraint, Probability, checked
from jazz_select.flow.base import BaseFlow
from jazz_select.serialization import JsonData

if TYPE_CHECKING:
    from jazz_select.settings import Settings

OnEmpty: TypeAlias = Literal["top1", "none"]
"""The result if a model finds no fit: the first candidate, or nothing."""
OnError: TypeAlias = Literal["top1", "likely", "none", "ask"]
"""The result if the chat model fails: the first candidate; the likeliest one, unless it is likelier that no flow fits;
nothing; or a question to the user."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Policy(JsonData):
    """How sure an answer must be to be given without a chat model, and what follows if no answer is.

    Attributes:
        max_error: The largest share of wrong answers among those given without the chat model, such as .01; a flow's
            own `max_error` takes precedence. None: recall and decision model decide only what needs no decision, such
            as a single candidate or a known request.
        on_empty: The result if a model finds no fit: "top1" for the first candidate, "none" for nothing.
        on_error: The result if the chat model fails: "top1" for the first candidate; "likely" for the likeliest one,
            or nothing if it is likelier that no flow fits; "none" for nothing; "ask" for a question to the user.
        ask_user: If two or three flows are left and no model may decide, choose none (reason `ask`) and return the
            question to the user as `decision.question`.
    """

    max_error: Probability | None = None
    on_empty: Annotated[OnEmpty, Constraint("'top1' or 'none'")] = "top1"
    on_error: Annotated[OnError, Constraint("'top1', 'likely', 'none' or 'ask'")] = "top1"
    ask_user: bool = False

    def allowed_error(self, flow: BaseFlow | None) -> float | None:
        """Return the share of answers with this flow that may be wrong; None if there is no budget."""
        if flow is None or flow.max_error is None:
            return self.max_error
        return flow.max_error


PresetName: TypeAlias = Literal["default", "recommended", "cautious"]
PRESETS: Final[Mapping[PresetName, Policy]] = {
    "default": Policy(),
    "recommended": Policy(max_error=0.01, on_empty="none", on_error="likely"),
    "cautious": Policy(max_error=0.002, on_empty="none", on_error="ask", ask_user=True),
}
"""The named policies.

`default`: a chat model decides whatever is not decided by itself, and the first candidate is the answer if it finds
nothing or fails. `recommended`: one in a hundred answers without the chat model may be wrong, and "no flow fits" is an
answer. `cautious`: two in a thousand, and the user is asked where no model is sure.
"""
PolicyLike: TypeAlias = Annotated[
    Policy | PresetName, Constraint("a Policy, or the name of one: 'default', 'recommended' or 'cautious'")
]


def policy_of_settings(settings: "Settings") -> Policy:
    """Return the policy of a deployment: the named one, with the fields that are set otherwise."""
    own: dict[str, Any] = {}
    for field in fields(Policy):
        value = getattr(settings, field.name)
        if value is not None:
            own[field.name] = value
    return replace(PRESETS[settings.policy], **own)


def policy_of(given: PolicyLike) -> Policy:
    """Return a policy, or the one of this name."""
    return given if isinstance(given, Policy) else PRESETS[given]
