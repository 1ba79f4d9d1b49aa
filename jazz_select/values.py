"""The values that pass between the parts: frozen, comparable, without I/O or a clock.

A `Decision` with a `Tier` and a `Reason` is made among `Candidate`s.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypeGuard, cast
from uuid import NAMESPACE_DNS, uuid5

from jazz_select.arguments import Constraint, Positive
from jazz_select.json_values import json_text, plain
from jazz_select.notebook import NotebookRepr, facts_html, page_html, rows_html
from jazz_select.serialization import JsonData, read_json, value_of, whole_of
from jazz_select.stages import LeaveOneOutConfidence, StageRecord, Thresholds, Usage, UserQuestion
from jazz_select.text import nfc

Role = Literal["system", "user", "assistant", "tool"]


_LONGEST_CACHED = 120
"""Longer names are not cached, to bound memory."""


def flow_id(name: str) -> str:
    """Return the id of the flow of this name: `uuid5` of its NFC form, the same in every process."""
    name = nfc(name)
    return _flow_id(name) if len(name) <= _LONGEST_CACHED else str(uuid5(NAMESPACE_DNS, name))


@lru_cache(1 << 15)
def _flow_id(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


PROMPT_TOKENS = 700
"""The estimated tokens that candidates may take in a prompt; what exceeds it is shortened where possible."""
LEAST_COVERAGE, MOST_COVERAGE = 0.5, 0.999
"""The bounds of `coverage`, which sets the number of candidates with `top_k="auto"`."""
COVERAGE = 0.98
"""The default: the right flow is among the candidates in 98 of 100 requests."""
Coverage: TypeAlias = Annotated[
    float,
    Constraint(f"a probability from {LEAST_COVERAGE:g} to {MOST_COVERAGE:g}", ge=LEAST_COVERAGE, le=MOST_COVERAGE),
]
AUTO: Final = "auto"
TopK: TypeAlias = Positive | Literal["auto"]
"""The number of candidates to recall; `auto`: as few as hold the right one with probability `coverage`."""
UNSIZED = 8
"""The number of candidates if recall cannot tell how many are needed."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a number; True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Tier(StrEnum):
    """How much choice a decision left."""

    DETERMINISTIC = "deterministic"
    """Nothing was left to choose; no model was asked."""
    GUIDED = "guided"
    """A choice among a narrowed set."""
    OPEN = "open"
    """Nothing fits; the caller continues with everything it has."""


class Reason(StrEnum):
    """Why a selection came out as it did."""

    SINGLE = "single"
    """One candidate was left."""
    CONFIDENT = "confident"
    """Recall was confident enough to skip the model."""
    LLM = "llm"
    """The model chose."""
    SEMANTIC = "semantic"
    """No model is configured: the top candidate."""
    FALLBACK_EMPTY = "fallback_empty"
    """The model answered that none fits; the top candidate, as `on_empty="top1"` requests."""
    FALLBACK_INVALID = "fallback_invalid"
    """The model's reply could not be used; the top candidate."""
    FALLBACK_ERROR = "fallback_error"
    """The model failed or timed out; the top candidate."""
    NONE = "none"
    """Nothing fits, or there was nothing to choose from."""
    DECIDER = "decider"
    """The decision model chose, and was confident enough given recall's scores."""
    ASK = "ask"
    """Two or three flows are left and the user has to choose: `decision.question` is the question."""
    USER = "user"
    """The user picked the flow, or rejected all."""
    EXAMPLE = "example"
    """The request is an example, a title or an alias of exactly one flow, word for word."""
    UNASKED = "unasked"
    """A model would have to choose, and `ask=False` forbids asking it."""


SourceKind = Literal["recall", "model", "user", "person", "agent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(JsonData):
    """Who said which flow is right for a request. What learns from a log weighs each entry and correction by it.

    Attributes:
        kind: `recall`: nobody was asked; `model`: a chat or decision model chose; `user`: whoever talks to the agent;
            `person`: a reviewer, who may correct what others asked; `agent`: inferred from the rest of a conversation.
        name: The model, the conversation's id, or the reviewer; empty if unknown.
        key: The name of the service's key that it came with, never the key itself; empty in the same process.
    """

    kind: SourceKind
    name: str = ""
    key: str = ""

    @property
    def is_human(self) -> bool:
        """Whether a human said it."""
        return self.kind in _HUMANS

    @property
    def weight(self) -> int:
        """The order in which corrections of one entry count: a reviewer before a user, a user before an agent."""
        return _WEIGHTS[self.kind]

    def __str__(self) -> str:
        """Return it in words, such as `person ada (key office)`."""
        named = f"{self.kind} {self.name}" if self.name else self.kind
        return f"{named} (key {self.key})" if self.key else named


_WEIGHTS: Final[Mapping[SourceKind, int]] = {"recall": 0, "model": 0, "agent": 1, "user": 2, "person": 3}
_HUMANS: Final = frozenset({"user", "person"})


class AgentScope(str):
    """The index scope of an agent's other entries, such as its tools. No agent can have such an id."""

    __slots__ = ()
    MARK: ClassVar[str] = "\x1f"
    """A separator that no agent id contains."""

    @classmethod
    def for_kind(cls, agent_id: str, kind: str) -> "AgentScope":
        """Return the scope of an agent and a kind such as "tools"."""
        return cls(f"{agent_id}{cls.MARK}{kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCard:
    """A flow's definition as data, for memory."""

    id: str
    name: str
    type: str = "flow"
    description: str = ""
    condition: str = ""
    desired_effects: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    title: str = ""
    tools: tuple[str, ...] = ()
    priority: tuple[int, int] = (0, 0)
    text: str = ""
    """The whole definition as one text, for the lexical arm."""
    checksum: str = ""
    """Changes with the definition of the flow or of a subflow."""
    owner: str = ""
    """Whose it is, such as the server of a tool: recall reads it beside the description."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(JsonData):
    """A flow that recall found, with its scores."""

    flow_id: str
    flow_name: str = ""
    flow_type: str = ""
    description: str = ""
    condition: str = ""
    desired_effects: tuple[str, ...] = ()
    score: float = 0.0
    """The fused score; higher is better. Comparable within one recall only."""
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])
    """Rank per arm ("dense", "bm25"), from 1. An arm that did not find the flow has no entry."""
    scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Score per arm: BM25 for "bm25"; for "dense" the cosine, comparable between flows of few and of many examples."""
    confidence: float | None = None
    """P(this flow is right, and not another or none), or None if the catalogue is too small to tell.

    The confidences of one recall descend, and with `p_none` their sum is at most 1."""

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> "Candidate":
        """Read a metadata dict. Missing keys count as empty; without an id, the id is derived from the name."""
        name = _text(metadata.get("flow_name"))
        return cls(
            flow_id=_text(metadata.get("flow_id")) or (flow_id(name) if name else ""),
            flow_name=name,
            flow_type=_text(metadata.get("flow_type")),
            description=_text(metadata.get("description")),
            condition=_text(metadata.get("condition")),
            desired_effects=_texts(metadata.get("desired_effects")),
            score=_number(metadata.get("score")),
            ranks={arm: int(rank) for arm, rank in _numbers(metadata.get("ranks")).items()},
            scores=_numbers(metadata.get("scores")),
            confidence=chance_in(metadata.get("confidence")),
        )

    def as_metadata(self) -> dict[str, Any]:
        """Return the metadata dict that `recall` returns and `select` takes: plain JSON types."""
        return {
            "flow_id": self.flow_id,
            "flow_name": self.flow_name,
            "flow_type": self.flow_type,
            "description": self.description,
            "condition": self.condition,
            "desired_effects": list(self.desired_effects),
            "score": self.score,
            "ranks": dict(self.ranks),
            "scores": dict(self.scores),
            "confidence": self.confidence,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recalled:
    """The fields of a `RecallResult` that `to_dict` includes beside the candidates."""

    notes: tuple[str, ...] = ()
    p_none: float | None = None
    caveat: str = ""
    sized: str = ""
    stage: str = ""
    why: str = ""
    beyond: tuple[str, ...] = ()


class RecallResult(list[dict[str, Any]]):
    """Candidates as metadata dicts, best first, and what is known of them together.

    Attributes:
        notes: What was degraded on the way.
        p_none: P(no flow of the catalogue is right), or None if unknown.
        caveat: Why confidence is unknown; empty if it is known.
        indexed: The ids of all indexed flows of this agent, or None if unknown.
        sized: How many candidates were returned and why, if recall chose the number; else empty.
        stage: The embedder of a cascade that gave this answer; empty without a cascade.
        why: Why that embedder; empty without a cascade.
        reread: Whether it was the second embedder.
        beyond: The names of the next candidates in order, if `sized` left them out.
        read: The candidates as values if the dicts were made from them, to save reading unchanged ones again.
        answers: Recall's confidences on the catalogue's own examples; None if unknown.
        thresholds: How sure recall must be to decide alone, by what was learned from a log; None without one.
    """

    def __init__(
        self,
        candidates: Iterable[dict[str, Any]] = (),
        *,
        notes: tuple[str, ...] = (),
        p_none: float | None = None,
        caveat: str = "",
        indexed: frozenset[str] | None = None,
        sized: str = "",
    ) -> None:
        super().__init__(candidates)
        self.notes, self.p_none, self.caveat = notes, p_none, caveat
        self.indexed, self.sized = indexed, sized
        self.stage = self.why = ""
        self.reread = False
        self.beyond: tuple[str, ...] = ()
        self.read: tuple[Candidate, ...] = ()
        self.answers: LeaveOneOutConfidence | None = None
        self.thresholds: Thresholds | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, without `indexed` and `answers`, which may be as long as the catalogue."""
        known = {each.name: getattr(self, each.name) for each in fields(_Recalled)}
        return cast("dict[str, Any]", plain({"candidates": [*self], **known}))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RecallResult":
        """Read the output of `to_dict`; `indexed` and `answers` stay unknown.

        Raises:
            ConfigError: The data is not valid.
        """
        known = whole_of(data, cls.__name__)
        found = cls(value_of(list[dict[str, Any]], known.get("candidates"), cls.__name__))
        for each in found:
            Candidate.from_dict(each)
        beside = value_of(_Recalled, known, sparse=True)
        vars(found).update({each.name: getattr(beside, each.name) for each in fields(beside)})
        return found

    def to_json(self) -> str:
        """Return `to_dict` as JSON text."""
        return json_text(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> "RecallResult":
        """Read the output of `to_json`.

        Raises:
            ConfigError: The text is not valid.
        """
        return cls.from_dict(read_json(text, cls.__name__))

    def _repr_html_(self) -> str:
        facts = [("candidates", self.sized or len(self)), ("P(none)", self.p_none), ("notes", "; ".join(self.notes))]
        found = [Candidate.from_metadata(each) for each in self]
        return page_html(facts_html("recall", facts), candidates_html(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as it is described to a model with native tool calling.

    Attributes:
        name: At most 64 letters, digits, `_` and `-`.
        description: What it does.
        schema: The JSON Schema of its arguments, an object at its root.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A tool call as the model wrote it in the provider's own form, unchecked.

    Attributes:
        id: The id that its result refers to.
        name: The tool's offered name; a model may write any other.
        arguments: An object, or the JSON text that the model wrote.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to a chat model.

    Attributes:
        role: The author; `tool` is the result of a call, only for a model that takes tools.
        content: The text.
        tool_calls: The assistant's calls in it.
        call_id: Of role `tool`, the id of the call.
        tool: Of role `tool`, the name that was called.
        origin: Of the assistant, `Reply.origin` of the reply that it repeats.
    """

    role: Role
    content: str
    tool_calls: tuple[NativeCall, ...] = ()
    call_id: str = ""
    tool: str = ""
    origin: Any = field(default=None, compare=False, repr=False)


INCOMPLETE: Final = "incomplete"
"""The finish reason of a reply whose stream ended without one."""
_CUT_OFF: Final = frozenset({"length", INCOMPLETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A chat model's answer."""

    text: str
    usage: Usage | None = None
    model: str = ""
    finish_reason: str = ""
    """Why it ended: `stop`, `length`, `content_filter`, or another word of the provider; `incomplete` if its stream had
    no such word; empty if unknown."""
    tool_calls: tuple[NativeCall, ...] = ()
    """Its tool calls, in order; only of a model that was given tools."""
    notes: tuple[str, ...] = ()
    """What was degraded on the way, one sentence each."""
    origin: Any = field(default=None, compare=False, repr=False)
    """The adapter's form of the reply, with opaque parts that the provider wants back; None if there are none."""

    @property
    def truncated(self) -> bool:
        """Whether it was cut off, by a limit on its length or by the end of its stream."""
        return self.finish_reason in _CUT_OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Where the time went, in seconds."""

    recall_s: float = 0.0
    choose_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(JsonData):
    """What was decided, why, and on what grounds.

    `jazz-select select --json` publishes the first twelve fields in this order.
    """

    tier: Tier
    reason: Reason
    chosen_ids: tuple[str, ...] = ()
    raw_reply: str | None = None
    """The model's reply, byte for byte; None if no model answered."""
    parsed_ids: tuple[str, ...] = ()
    """The ids in the reply, before they were checked against the offered set."""
    confidence: float | None = None
    """P(the first candidate is right, and not another or none), where known."""
    model: str = ""
    error: str = ""
    """The model call's error, for `fallback_error`."""
    sized: str = ""
    """The number of candidates and why, if recall chose it (`top_k="auto"`)."""
    notes: tuple[str, ...] = ()
    """What was degraded, dropped or cut on the way, one sentence each."""
    latency: Latency = Latency()
    usage: Usage | None = None
    called_off: tuple[str, ...] = ()
    """The ids of the conversation's flows that the user calls off, if the choice saw a conversation."""
    confirmed: Literal["", "yes", "no"] = ""
    """The user's answer to the conversation's pending yes-or-no question."""
    p_none: float | None = None
    """P(no flow of the catalogue is right), where known."""
    recalled_by: str = ""
    """The embedder of a cascade that found the candidates, and why; empty without a cascade."""
    attempts: int = 0
    """The number of model calls, repeated ones included, up to the one that was answered."""
    stages: tuple[StageRecord, ...] = ()
    """The result of each stage, in order; empty if none was run."""
    question: UserQuestion | None = None
    """The question for the user, if the reason is `ask`."""
    quote: str = ""
    """The sentence in which the user answered the pending question, according to the model."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """The values that the message gives for inputs, by flow id, according to the model; None for one taken back."""
    repeated: Mapping[str, tuple[Mapping[str, Any], ...]] = field(
        default_factory=dict[str, tuple[Mapping[str, Any], ...]]
    )
    """The values of further wishes for the same flow, by flow id: "cancel 60142 and 60143" wants it twice."""
    every: tuple[str, ...] = ()
    """The ids of the flows that are wanted for all that there are: "cancel all my orders"."""
    unclear: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """As `values`, several values for one input if it is unclear which is meant."""
    answer: str = ""
    """A reply to the user, if the message is for no flow, or only asks about one that waits, and the model that read it
    can answer."""
    opening: str = ""
    """The first reply of the model that runs the first chosen flow, if it read the message: text and calls as JSON."""
    candidates: tuple[Candidate, ...] = ()
    """All that was offered, best first."""

    def _repr_html_(self) -> str:
        return page_html(self.facts_html(), candidates_html(self.candidates, self.chosen_ids))

    def facts_html(self, chosen: str = "") -> NotebookRepr:
        """Return the outcome and its cost as HTML, with the names of the chosen flows if given."""
        return facts_html("", [("chosen", chosen), *self.facts])

    @property
    def facts(self) -> list[tuple[str, object]]:
        """The outcome and its cost, each fact by what it is called; what there is nothing of is empty or None."""
        took, usage = self.latency, self.usage
        seconds = f"{took.total_s * 1e3:.1f} ms: recall {took.recall_s * 1e3:.1f}, choice {took.choose_s * 1e3:.1f}"
        return [
            ("decided", f"{self.tier}, {self.reason}"),
            ("confidence", self.confidence),
            ("P(none)", self.p_none),
            ("candidates", self.sized),
            ("recalled by", self.recalled_by),
            ("model", self.model),
            ("reply", self.raw_reply),
            ("error", self.error),
            ("asks", self.question.text if self.question else ""),
            *(("stage", str(stage)) for stage in self.stages),
            ("tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
            ("took", seconds),
            *(("note", note) for note in self.notes),
        ]


def candidates_html(candidates: Sequence[Candidate], chosen_ids: Collection[str] = ()) -> NotebookRepr:
    """Return candidates with their ranks and scores as HTML."""
    names = ("", "", "flow", "description", "score", "confidence", "ranks")
    rows: list[tuple[object, ...]] = []
    for place, each in enumerate(candidates, start=1):
        mark = "✓" if each.flow_id in chosen_ids else ""
        name = each.flow_name or each.flow_id
        ranks = ", ".join(f"{arm} {rank}" for arm, rank in each.ranks.items())
        rows.append((place, mark, name, each.description, each.score, each.confidence, ranks))
    return rows_html(names, rows)


_NUMBERS = (int, float)
"""`isinstance` with a tuple takes half the time of building a union."""


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if type(value) is list or isinstance(value, Iterable):  # lists first: the check for Iterable is slow
        return tuple(_text(item) for item in cast("Iterable[object]", value))
    return ()


def _number(value: object) -> float:
    if not isinstance(value, _NUMBERS):
        return 0.0
    number = float(value)  # raises for an integer beyond all floats, as only hostile input has
    return number if isfinite(number) else 0.0


def chance_in(value: object) -> float | None:
    """Return a probability from untrusted data; None if it is not one, since an unknown is never confident enough."""
    if not isinstance(value, _NUMBERS):
        return None
    number = float(value)
    return min(number, 1.0) if 0 <= number <= 1 + _ROUNDED else None


_ROUNDED = 1e-6


def _numbers(value: object) -> dict[str, float]:
    if type(value) is not dict and not isinstance(value, Mapping):
        return {}
    items = cast("Mapping[object, object]", value).items()
    return {str(key): float(number) for key, number in items if isinstance(number, _NUMBERS) and isfinite(number)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What is known of a call that was claimed before.

    Attributes:
        fingerprint: Of the tool and its arguments.
        outcome: The settled outcome. None if it is still running or its process is gone; it may have had its effect.
    """

    fingerprint: str
    outcome: str | None = None
