"""The types of a selector's options, and the recommended ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias, TypedDict

from jazz_select.arguments import Constraint, Count, Positive, Seconds, checked
from jazz_select.selector.policy import PolicyLike
from jazz_select.stages import AUDITED, AuditShare
from jazz_select.values import AUTO, PROMPT_TOKENS, TopK

Context: TypeAlias = Annotated[
    Mapping[str, object] | None, Constraint("a mapping such as {'authenticated': True}, or None")
]
TimeLimit: TypeAlias = Annotated[Seconds | None, Constraint("a number of seconds above 0, or None for no limit")]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a `FlowSelector` asks its models.

    Attributes:
        prompt_tokens: Token limit (estimated) of the candidates in a prompt. Texts are shortened, conditions never.
        max_reasks: Maximum number of times that the model is asked again after an unusable reply.
        max_retries: Maximum number of retries of a call after a transient error.
        max_concurrency: Maximum number of concurrent calls to each model; others wait in order of arrival.
        audit_share: The share of requests that a model is asked about although recall is sure enough to decide them
            alone, by what was learned from a log: at least one in a hundred. Half of it is by chance, the other by
            flow: of .02, the twenty-fifth answer in a row without a model. It needs a log.
    """

    prompt_tokens: Positive = PROMPT_TOKENS
    max_reasks: Count = 1
    max_retries: Count = 2
    max_concurrency: Positive = 64
    audit_share: AuditShare = AUDITED


class SelectorOptions(TypedDict, total=False):
    """Options of a `FlowSelector` to pass together: `FlowSelector(…, **RECOMMENDED)`."""

    top_k: TopK
    rrf_k: int
    policy: PolicyLike
    timeout_s: float | None


RECOMMENDED: Final[SelectorOptions] = {"top_k": AUTO, "policy": "recommended"}
"""Recommended options of a selector with a model; docs/policy.md has the figures.

They offer as few candidates as hold the right flow in 98 of 100 requests, accept the model's "none fits", and skip the
model if recall is sure: one in a hundred of those answers may be wrong. They are the command line's defaults.
`FlowSelector` itself defaults to three candidates, and to the first one if none fits.
"""
