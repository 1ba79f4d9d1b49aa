"""What the panel sends beside what the API takes: bounded, and of the right kind, as every body that is asked."""

from typing import Annotated, Any, Literal

from pydantic import Field

from jazz_select.evaluation.lessons.corrections import LONGEST as LONGEST_EXAMPLE
from jazz_select.service.api.bodies import Asked
from jazz_select.values import LEAST_COVERAGE, MOST_COVERAGE

LONGEST_REQUEST = 8_000
_Text = Annotated[str, Field(max_length=LONGEST_REQUEST)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class TryBody(Asked):
    """A request, and how it is to be selected. What is None is as the service does it."""

    request: _Text
    episodes: list[_Text] = Field(default=[], max_length=20)
    context: dict[str, Any] = Field(default_factory=dict[str, Any])
    top_k: Annotated[int, Field(ge=1, le=20)] | Literal["auto"] | None = None
    coverage: Annotated[float, Field(ge=LEAST_COVERAGE, le=MOST_COVERAGE)] | None = None
    skip_llm_above: Annotated[float, Field(ge=0, le=1)] | None = None
    abstain_below: Annotated[float, Field(ge=0, le=1)] | None = None
    ask: bool = False
    """Whether the model is asked where it would be: that costs a call."""


class RunBody(Asked):
    """What is to be judged now."""

    kind: Literal["eval", "diff"] = "eval"
    cases: Annotated[str, Field(max_length=500)] = ""
    """The file of cases, by the name that the panel was told."""
    ask: bool = False
    base: Annotated[str, Field(max_length=100)] = ""
    """For `diff`: a commit that the panel was told of."""


class CorrectionBody(Asked):
    """What was right for a request, and what is to be made of it."""

    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    right: list[_Name] = Field(default=[], max_length=10)
    """Names of flows; none where nothing fits."""
    make: Literal["case", "example"] = "case"
    episodes: list[_Text] = Field(default=[], max_length=20)
    note: Annotated[str, Field(max_length=LONGEST_EXAMPLE)] = ""
    logged: Annotated[str, Field(max_length=100)] = ""
    """The entry of the log that it is about; one is made where there is none."""
