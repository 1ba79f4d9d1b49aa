"""What may be asked: the bodies of requests, as the OpenAPI page shows them and as they are checked."""

from typing import Annotated, Any, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.requests import Request

from jazz_select.json_values import has_more_values
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.service.problems import refused
from jazz_select.stages import UserQuestion
from jazz_select.travel import value_of

MOST_REQUESTS = 500
_LONGEST = 200_000
_Text = Annotated[str, Field(max_length=_LONGEST)]
_Name = Annotated[str, Field(max_length=1_000)]
_Facts = Annotated[dict[str, Any], Field(max_length=1_000)]
_Texts = Annotated[list[_Text], Field(max_length=1_000)]
_Candidates = Annotated[list[dict[str, Any]], Field(max_length=1_000)]
_Body = TypeVar("_Body", bound="RequestBody")


class RequestBody(BaseModel):
    """A body: nothing in it is converted, and nothing that is not known is passed over."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Option(RequestBody):
    """One of the flows that a question offers, as `decision.question` told it."""

    flow_id: _Name
    flow_name: _Name = ""
    title: _Name = ""
    says: _Text = ""


class UserQuestionBody(RequestBody):
    """A question that a decision came with (`decision.question`)."""

    text: _Text
    options: Annotated[list[Option], Field(max_length=100)]
    request: _Text = ""
    again: bool = False
    more: bool = False

    def as_question(self) -> UserQuestion:
        """The value that `FlowSelector.select` takes."""
        return value_of(UserQuestion, self.model_dump())


def _question_of(given: object) -> object:
    """Return the question of a decision, if it is one; any other value as it is."""
    if not isinstance(given, dict):
        return given
    known = cast("dict[str, object]", given)
    return known["question"] if "question" in known and "options" not in known else known


_Question = Annotated[UserQuestionBody | None, BeforeValidator(_question_of)]
_ANSWERS = "The question that the request answers: `decision.question` of an earlier answer, or that `decision` itself."


class OneOfMany(RequestBody):
    """One request among several."""

    request: _Text = Field(description="What the user wants.")
    episode_summaries: _Texts | None = Field(default=None, description="What was said before.")
    candidates: _Candidates | None = Field(
        default=None, description="Metadata to choose from, best first, instead of recall."
    )
    only: Annotated[list[_Name], Field(max_length=10_000)] | None = Field(
        default=None, description="Recall among the flows of these ids alone."
    )
    asked: _Question = Field(default=None, description=_ANSWERS)

    def as_request(self) -> SelectRequest:
        """What `FlowSelector.select_many` takes."""
        asked = None if self.asked is None else self.asked.as_question()
        return SelectRequest(self.request, self.candidates, self.episode_summaries, self.only, asked)


class SelectBody(OneOfMany):
    """`FlowSelector.select`, asked from elsewhere."""

    context: _Facts | None = Field(default=None, description="What guards look at.")


class SelectManyBody(RequestBody):
    """`FlowSelector.select_many`."""

    requests: Annotated[list[_Text | OneOfMany], Field(max_length=MOST_REQUESTS)] = Field(
        description="What the users want, each by itself."
    )
    context: _Facts | None = Field(default=None, description="What guards look at, for all of them.")
    ask: bool = Field(default=True, description="Whether a model is asked where there is something to choose.")


class RecallBody(RequestBody):
    """Candidates alone: nobody chooses among them."""

    request: _Text = Field(description="What the user wants.")
    episode_summaries: _Texts | None = Field(default=None, description="What was said before.")
    top_k: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] | None = Field(
        default=None, description="How many; as the service was told where it is left out."
    )
    rrf_k: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="The constant of the rank fusion; likewise."
    )
    coverage: Annotated[float, Field(ge=0.5, le=0.999)] | None = Field(
        default=None, description='What `top_k="auto"` promises; likewise.'
    )
    exclude: Annotated[list[_Name], Field(max_length=10_000)] = Field(
        default=[], description="Ids of flows that must not come back."
    )


class MessageBody(RequestBody):
    """One message of a conversation that this service did not keep."""

    role: Literal["user", "assistant"]
    content: _Text


_Kept = Annotated[str, Field(max_length=2_000_000)]
_Said = Annotated[list[MessageBody], Field(max_length=1_000)]


class TurnBody(RequestBody):
    """`Agent.turn`."""

    message: _Text = Field(description="What the user says.")
    history: _Kept | _Said | None = Field(
        default=None,
        description="The `conversation` of the last answer, as it was given; or what was said before, as messages.",
    )
    context: _Facts | None = Field(default=None, description="What guards and tools see, in this turn.")
    facts: _Facts | None = Field(default=None, description="What holds in this conversation: models are told of it.")
    schema_: dict[str, Any] | None = Field(
        default=None, alias="schema", description="A JSON Schema that the answer is to have."
    )
    conversation_id: _Name = Field(default="", description="What a new conversation is to be known by.")
    timeout_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="The most that this turn may take, in seconds; else what the agent was given."
    )


class FeedbackBody(RequestBody):
    """`FlowSelector.feedback`."""

    selection: _Name = Field(description="The `logged` of the selection.")
    right: _Name | Annotated[list[_Name], Field(max_length=1_000)] = Field(
        description="The names of the flows that were right, or of the one; none where nothing fits."
    )
    note: _Text = Field(default="", description="What there is to say of it.")


class ReloadBody(RequestBody):
    """What a reload may do; it needs no body."""

    allow_delete: bool = Field(
        default=False, description="Whether more than half of the flows may be deleted, where those are more than 5."
    )


async def read_body(request: Request, kind: type[_Body]) -> _Body:
    """The body of a request."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise refused(415, "the body is JSON: say so, with the header `Content-Type: application/json`")
    body = await request.body()
    most: int = request.app.state.options.max_values
    if has_more_values(body, most):
        raise refused(413, f"the body holds more than {most} values: send fewer, or in several requests")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise refused(400, f"the body is no JSON: {str(error)[:200]}", code="not_json") from error
    return kind.model_validate(value)
