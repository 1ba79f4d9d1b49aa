"""What is answered: JSON, described by models of as much of it as a program may count on. It may have more keys."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import SkipJsonSchema
from starlette.responses import Response

from jazz_select.agent.turn import TurnStatus
from jazz_select.json_values import json_bytes
from jazz_select.values import Candidate, Decision


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
    in_scope: float | None
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

    status: Literal["ok", "ready", "starting", "stopping"]
    not_served: int = 0


def json_answer(value: Any, status: int = 200) -> Response:
    """A value as JSON; a text is JSON already."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(value if isinstance(value, str) else json_bytes(value), status, headers, "application/json")
