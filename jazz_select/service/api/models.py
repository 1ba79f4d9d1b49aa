"""What may be asked, and what is answered, as models: checked, and shown by the OpenAPI page.

Nothing in a body is converted, and nothing passed over. An answer is described as far as a program may count on it: it
may have more keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, cast

import orjson
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from jazz_select.agent.turn import TurnStatus
from jazz_select.json_values import has_more_values, json_bytes
from jazz_select.outcomes.log import MOST_RIGHT
from jazz_select.selector.candidates_stage import SelectRequest
from jazz_select.serialization import value_of
from jazz_select.service.problems import refusal
from jazz_select.stages import UserQuestion
from jazz_select.values import Candidate, Decision

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


def _question_of(given: object) -> object:
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
        """Return the request as `FlowSelector.select_many` takes it."""
        asked = None if self.asked is None else value_of(UserQuestion, self.asked.model_dump())
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
    conversation_id: _Name = Field(
        default="",
        description="What a new conversation is to be known by. Where the service keeps conversations: which one to go "
        "on with, without `history`.",
    )
    timeout_s: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="The most that this turn may take, in seconds; else what the agent was given."
    )


class SourceBody(RequestBody):
    """Who says what was right."""

    kind: Literal["user", "person", "agent"] = Field(
        description="A user, a reviewer (only with a key that may teach), or an agent that infers it."
    )
    name: Annotated[str, Field(max_length=200)] = Field(
        default="", description="The id of the conversation, or the reviewer."
    )


class FeedbackBody(RequestBody):
    """`FlowSelector.feedback`."""

    selection: _Name = Field(description="The `logged` of the selection.")
    right: _Name | Annotated[list[_Name], Field(max_length=MOST_RIGHT)] = Field(
        description="The names of the flows that were right, or of the one; none where nothing fits."
    )
    note: _Text = Field(default="", description="What there is to say of it.")
    source: SourceBody | None = Field(default=None, description="Who says so; a user where it is left out.")


class ReloadBody(RequestBody):
    """What a reload may do; it needs no body."""

    allow_delete: bool = Field(
        default=False, description="Whether more than half of the flows may be deleted, where those are more than 5."
    )


async def read_body(request: Request, kind: type[_Body]) -> _Body:
    """Read the body of a request, as JSON of the shape of `kind`."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json":
        raise refusal(415, "the body is JSON: say so, with the header `Content-Type: application/json`")
    body = await request.body()
    most: int = request.app.state.options.max_values
    if has_more_values(body, most):
        raise refusal(413, f"the body holds more than {most} values: send fewer, or in several requests")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise refusal(400, f"the body is no JSON: {str(error)[:200]}", code="not_json") from error
    return kind.model_validate(value)


# --- answers ----------------------------------------------------------------------


class ProblemAnswer(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedCandidate(Candidate):
    """A flow that there was to choose from."""

    chosen: bool


class FlowAnswer(BaseModel):
    """A flow with its prompt."""

    flow_id: str
    flow_name: str
    prompt: str
    type: str
    description: str
    checksum: str
    examples: list[str] = []
    tools: list[str] = []
    chain: list[str | Mapping[str, Any]] = []
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionAnswer(Decision):
    """Why a selection came out like this; its candidates stand beside it."""

    candidates: SkipJsonSchema[tuple[Candidate, ...]] = ()


class SelectionAnswer(BaseModel):
    """The flows for a request, and why these."""

    chosen: list[FlowAnswer]
    combined_prompt: str
    unresolved_ids: list[str]
    candidates: list[OfferedCandidate]
    decision: DecisionAnswer
    logged: str


class SelectionsAnswer(BaseModel):
    """The flows for several requests, in their order."""

    results: list[SelectionAnswer]


class RecallAnswer(BaseModel):
    """Candidates alone."""

    candidates: list[Candidate]
    p_none: float | None
    sized: str
    caveat: str
    notes: list[str]


class TurnAnswer(BaseModel):
    """What became of a message."""

    status: TurnStatus
    text: str
    conversation: str
    value: Any
    runs: list[Mapping[str, Any]]
    selection: SelectionAnswer | None
    prompt: str
    incomplete: bool
    reason: str
    notes: list[str]
    error: Mapping[str, Any] | None
    trace: list[Mapping[str, Any]]


class FeedbackAnswer(BaseModel):
    """That it is in the log."""

    kept: bool


class _Catalogue(BaseModel):
    agent_id: str
    generation: int
    loaded_at: float
    took_s: float
    problem: str


class AgentAnswer(_Catalogue):
    """An agent, and how many flows it has."""

    flows: int


class FlowInShort(BaseModel):
    """A flow without its prompt."""

    flow_id: str
    flow_name: str
    flow_type: str
    description: str
    condition: str
    desired_effects: list[str]
    tools: list[str]
    priority: list[int]
    checksum: str


class FlowsAnswer(_Catalogue):
    """An agent, and its flows."""

    flows: list[FlowInShort]


class ReloadAnswer(_Catalogue):
    """What reading the flows anew came to."""

    created: list[str]
    updated: list[str]
    deleted: list[str]
    unchanged: list[str]
    notes: list[str]


class HealthAnswer(BaseModel):
    """How the service is."""

    status: Literal["ok", "ready", "starting", "no_index", "no_database", "stopping"]
    not_served: int = 0


def json_answer(value: Any, status: int = 200) -> Response:
    """Answer with a value as JSON; a string is taken to be JSON already."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(value if isinstance(value, str) else json_bytes(value), status, headers, "application/json")
