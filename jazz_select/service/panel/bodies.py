"""What the panel sends, as it is read: bounded, and of the right kind, or refused in words."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from jazz_select.errors import ConfigError
from jazz_select.evaluation.lessons.corrections import LONGEST as LONGEST_EXAMPLE
from jazz_select.values import LEAST_COVERAGE, MOST_COVERAGE

LARGEST = 4 << 20
"""Bytes of a body: a conversation that travels is most of it."""
LONGEST_REQUEST = 8_000
_Text = Annotated[str, Field(max_length=LONGEST_REQUEST)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]
B = TypeVar("B", bound=BaseModel)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TryBody(_Body):
    """A request, and how it is to be selected. What is None is as the service does it."""

    request: _Text
    episodes: Annotated[tuple[_Text, ...], Field(max_length=20)] = ()
    context: dict[str, Any] = Field(default_factory=dict[str, Any])
    top_k: Annotated[int, Field(ge=1, le=20)] | Literal["auto"] | None = None
    coverage: Annotated[float, Field(ge=LEAST_COVERAGE, le=MOST_COVERAGE)] | None = None
    skip_llm_above: Annotated[float, Field(ge=0, le=1)] | None = None
    abstain_below: Annotated[float, Field(ge=0, le=1)] | None = None
    ask: bool = False
    """Whether the model is asked where it would be: that costs a call."""


class TurnBody(_Body):
    """A message to the agent, and the conversation that it belongs to as the last turn gave it."""

    message: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    conversation: str = ""
    context: dict[str, Any] = Field(default_factory=dict[str, Any])


class RunBody(_Body):
    """What is to be judged now."""

    kind: Literal["eval", "diff"] = "eval"
    cases: Annotated[str, Field(max_length=500)] = ""
    """The file of cases, by the name that the panel was told."""
    ask: bool = False
    base: Annotated[str, Field(max_length=100)] = ""
    """For `diff`: a commit that the panel was told of."""


class CorrectionBody(_Body):
    """What was right for a request, and what is to be made of it."""

    request: Annotated[str, Field(min_length=1, max_length=LONGEST_REQUEST)]
    right: Annotated[tuple[_Name, ...], Field(max_length=10)] = ()
    """Names of flows; none where nothing fits."""
    make: Literal["case", "example"] = "case"
    episodes: Annotated[tuple[_Text, ...], Field(max_length=20)] = ()
    note: Annotated[str, Field(max_length=LONGEST_EXAMPLE)] = ""
    logged: Annotated[str, Field(max_length=100)] = ""
    """The entry of the log that it is about; one is made where there is none."""


async def read_body(request: Request, kind: type[B]) -> B:
    """The body of a request.

    Raises:
        ConfigError: It is too large, no JSON, or not what is asked for.
    """
    read = bytearray()
    async for piece in request.stream():
        read += piece
        if len(read) > LARGEST:
            msg = f"the body is larger than {LARGEST >> 20} MiB: begin a new conversation, or send less"
            raise ConfigError(msg)
    try:
        return kind.model_validate_json(bytes(read))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        msg = f"{where:.80}: {first['msg']:.300}"
        raise ConfigError(msg) from error
