"""The options of a selector: what each may be, and those that are handed on as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, TypedDict

from jazz_select.arguments import Constraint, Count, Positive, Seconds, checked
from jazz_select.selector.candidates_stage import AUTO, TopK
from jazz_select.values import COVERAGE, LEAST_COVERAGE, MOST_COVERAGE, PROMPT_TOKENS

if TYPE_CHECKING:
    from jazz_select.selector.calibration import Cascade

OnEmpty: TypeAlias = Literal["top1", "none"]
"""What "none fits" leads to."""
Coverage: TypeAlias = Annotated[
    float,
    Constraint(f"a probability from {LEAST_COVERAGE:g} to {MOST_COVERAGE:g}", ge=LEAST_COVERAGE, le=MOST_COVERAGE),
]
Context: TypeAlias = Annotated[
    Mapping[str, object] | None, Constraint("a mapping such as {'authenticated': True}, or None")
]
"""What guards look at."""
TimeLimit: TypeAlias = Annotated[Seconds | None, Constraint("a number of seconds above 0, or None for no limit")]


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How a `FlowSelector` asks its models.

    Attributes:
        prompt_tokens: How many tokens the candidates may take in the prompt, by estimate. Longer texts are shortened,
            conditions never.
        max_reasks: How often the model is told that its reply could not be used.
        max_retries: How often a call that failed for a passing reason is made again.
        max_concurrency: How many calls to each model may be in flight at once; more wait in order of arrival.
    """

    prompt_tokens: Positive = PROMPT_TOKENS
    max_reasks: Count = 1
    max_retries: Count = 2
    max_concurrency: Positive = 64


class SelectorOptions(TypedDict, total=False):
    """Options of a `FlowSelector` that can be handed on as a whole: `FlowSelector(…, **RECOMMENDED)`."""

    top_k: TopK
    rrf_k: int
    coverage: float
    on_empty: OnEmpty
    timeout_s: float | None
    cascade: "Cascade"
    max_error: float | None
    ask_user: bool


RECOMMENDED: Final[SelectorOptions] = {"top_k": AUTO, "coverage": COVERAGE, "on_empty": "none", "max_error": 0.01}
"""What a new selector with a model should have; the figures behind it are in docs/concepts.md.

As few candidates as hold the right flow in 98 of 100 requests, a model that is believed when it says that none fits,
and that is not asked what recall is sure of: of such answers one in a hundred may be wrong. The command
line has it by default. The bare signature of `FlowSelector` keeps the three candidates, and the top one where nothing
fits, that it was published with.
"""


def budget_of(max_error: float | None, skip_llm_above: float | None) -> float | None:
    """The error budget of a deployment with a model: the recommended one where it says nothing of its own.

    A threshold is something of its own, and would count for nothing beside a budget.
    """
    return RECOMMENDED["max_error"] if max_error is None and skip_llm_above is None else max_error
