"""The options of a selector: what each may be, and those that are handed on as a whole."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias, TypedDict

from jazz_select.arguments import Constraint, Positive, Seconds
from jazz_select.values import COVERAGE, LEAST_COVERAGE, MOST_COVERAGE

AUTO: Final = "auto"
TopK: TypeAlias = Positive | Literal["auto"]
"""How many candidates are recalled: so many, or as few as hold the right one with a wished probability."""
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


class SelectorOptions(TypedDict, total=False):
    """Options of a `FlowSelector` that can be handed on as a whole: `FlowSelector(…, **RECOMMENDED)`."""

    top_k: TopK
    rrf_k: int
    coverage: float
    on_empty: OnEmpty
    timeout_s: float | None
    skip_llm_above: float | None
    abstain_below: float | None
    max_error: float | None
    ask_user: bool


RECOMMENDED: Final[SelectorOptions] = {"top_k": AUTO, "coverage": COVERAGE, "on_empty": "none"}
"""What a new selector with a model should have; the figures behind it are in docs/concepts.md.

As few candidates as hold the right flow in 98 of 100 requests, and a model that is believed when it says that none
fits. The command line has it by default. The bare signature of `FlowSelector` keeps the three candidates, and the top
one where nothing fits, that it was published with.
"""
