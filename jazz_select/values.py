"""The values that pass between the parts: frozen, comparable, without I/O or a clock.

One vocabulary for every decision: `Candidate`s are narrowed, then a `Decision`
with a `Tier` and a `Reason` is made.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from math import isfinite
from typing import Any, ClassVar, Literal, TypeGuard, cast
from uuid import NAMESPACE_DNS, uuid5

from jazz_select.json_values import json_bytes, plain
from jazz_select.notebook import NotebookRepr, facts_html, page_html, rows_html
from jazz_select.stages import OwnAnswers, StageRecord, Usage, UserQuestion
from jazz_select.travel import JsonData, read_json, value_of, whole_of

Role = Literal["system", "user", "assistant", "tool"]


_LONGEST_CACHED = 120
"""A longer name is no name: it would only take memory."""


def flow_id(name: str) -> str:
    """The id of the flow of this name: `uuid5(name)`, the same in every process and after every restart."""
    return _flow_id(name) if len(name) <= _LONGEST_CACHED else str(uuid5(NAMESPACE_DNS, name))


@lru_cache(1 << 15)
def _flow_id(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


PROMPT_TOKENS = 700
"""What the candidates of a prompt may take, by estimate; what is over it is shortened where it can be."""
LEAST_COVERAGE, MOST_COVERAGE = 0.5, 0.999
"""What `coverage` may be, with which `top_k="auto"` chooses how many candidates there are."""
COVERAGE = 0.98
"""What it is where nobody says: the right flow is among the candidates in 98 of 100 requests."""
UNSIZED = 8
"""How many there are where recall cannot tell how many are needed."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number, which True and False are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Tier(StrEnum):
    """How free a decision was."""

    DETERMINISTIC = "deterministic"
    """Nothing was left to choose; no model was asked."""
    GUIDED = "guided"
    """A choice among a narrowed set."""
    OPEN = "open"
    """Nothing fits; the caller goes on with everything it has."""


class Reason(StrEnum):
    """Why a selection came out as it did."""

    SINGLE = "single"
    """One candidate was left."""
    CONFIDENT = "confident"
    """Recall was sure enough to do without the model."""
    LLM = "llm"
    """The model chose."""
    SEMANTIC = "semantic"
    """No model is configured: the top candidate."""
    FALLBACK_EMPTY = "fallback_empty"
    """The model said that none fits; the top candidate, as `on_empty="top1"` asks."""
    FALLBACK_INVALID = "fallback_invalid"
    """The model's reply could not be used; the top candidate."""
    FALLBACK_ERROR = "fallback_error"
    """The model failed or was too late; the top candidate."""
    NONE = "none"
    """Nothing fits, or there was nothing to choose from."""
    DECIDER = "decider"
    """The decision model chose, and was sure enough with what recall knew."""
    ASK = "ask"
    """Two or three flows are left, and nobody may decide but the user: `decision.question` is what to ask."""
    USER = "user"
    """The user said which flow was meant, or that none was."""
    UNASKED = "unasked"
    """A model would have to choose, and was not to be asked: what is seen ahead of a selection (`ask=False`)."""


class AgentScope(str):
    """What of an agent is indexed beside its flows, such as its tools, under a name that no agent can have."""

    __slots__ = ()
    MARK: ClassVar[str] = "\x1f"
    """Stands in no agent's name."""

    @classmethod
    def of(cls, agent_id: str, kind: str) -> "AgentScope":
        """That of an agent, of a kind such as "tools"."""
        return cls(f"{agent_id}{cls.MARK}{kind}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowCard:
    """What memory needs to know of a flow: its definition as data, and nothing that runs."""

    id: str
    name: str
    type: str = "flow"
    description: str = ""
    condition: str = ""
    desired_effects: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    priority: tuple[int, int] = (0, 0)
    text: str = ""
    """All of it as one text: what the lexical arm indexes."""
    checksum: str = ""
    """Changes when the definition, or that of a subflow, changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(JsonData):
    """A flow that recall found, and how near it came."""

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
    """Raw score per arm: cosine for "dense", BM25 for "bm25"."""
    confidence: float | None = None
    """P(this flow is the right one), or None where the catalogue is too small to tell."""

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> "Candidate":
        """Read a metadata dict; missing keys count as empty, and where only a name is given the id follows from it."""
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
        """The metadata dict that `recall` returns and `select` takes: plain JSON types."""
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
    """What travels of a recall beside its candidates."""

    notes: tuple[str, ...] = ()
    in_scope: float | None = None
    caveat: str = ""
    sized: str = ""
    stage: str = ""
    why: str = ""
    beyond: tuple[str, ...] = ()


class RecallResult(list[dict[str, Any]]):
    """Candidates as metadata dicts, best first, and what is known of them together.

    Attributes:
        notes: What was degraded on the way.
        in_scope: P(some flow of the catalogue is right), or None where that is not known.
        caveat: Why confidence is not known; empty where it is.
        indexed: The ids of all flows that the index has for this agent, or None where that is not known.
        sized: How many candidates were returned and why, where recall was to find that out; else empty.
        stage: The embedder of a cascade whose answer this is; empty where there is one embedder alone.
        why: Why it was that one; empty likewise.
        reread: Whether that was the second embedder of it.
        beyond: The names of those that come next in order, where `sized` left them out.
        read: The candidates as values, where the dicts were made of such: what is unchanged need not be read again.
        answers: How sure recall was of its answers to the catalogue's own examples; None where that is not known.
    """

    def __init__(
        self,
        candidates: Iterable[dict[str, Any]] = (),
        *,
        notes: tuple[str, ...] = (),
        in_scope: float | None = None,
        caveat: str = "",
        indexed: frozenset[str] | None = None,
        sized: str = "",
    ) -> None:
        super().__init__(candidates)
        self.notes = notes
        self.in_scope = in_scope
        self.caveat = caveat
        self.indexed = indexed
        self.sized = sized
        self.stage = ""
        self.why = ""
        self.reread = False
        self.beyond: tuple[str, ...] = ()
        self.read: tuple[Candidate, ...] = ()
        self.answers: OwnAnswers | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values, without `indexed` and `answers`, which may be as long as the catalogue."""
        known = {each.name: getattr(self, each.name) for each in fields(_Recalled)}
        return cast("dict[str, Any]", plain({"candidates": [*self], **known}))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "RecallResult":
        """What `to_dict` told, with `indexed` and `answers` unknown.

        Raises:
            ConfigError: It is none.
        """
        known = whole_of(data, cls.__name__)
        found = cls(value_of(list[dict[str, Any]], known.get("candidates"), cls.__name__))
        for each in found:
            Candidate.from_dict(each)
        beside = value_of(_Recalled, known, sparse=True)
        vars(found).update({each.name: getattr(beside, each.name) for each in fields(beside)})
        return found

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json_bytes(self.to_dict()).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "RecallResult":
        """What `to_json` told.

        Raises:
            ConfigError: It is none.
        """
        return cls.from_dict(read_json(text, cls.__name__))

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        facts = [("candidates", self.sized or len(self)), ("in scope", self.in_scope), ("notes", "; ".join(self.notes))]
        found = [Candidate.from_metadata(each) for each in self]
        return page_html(facts_html("recall", facts), candidates_html(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as a model that takes tools is told of it.

    Attributes:
        name: Letters, digits, `_` and `-`, 64 of them at most.
        description: What it does.
        schema: The JSON Schema of its arguments, an object at its root.
    """

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeCall:
    """A call in a provider's own form, as the model wrote it: nothing of it is checked yet.

    Attributes:
        id: What its result names it by.
        name: The tool, by the name that was offered; a model may write any other.
        arguments: An object, or the JSON text that the model wrote.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to a chat model.

    Attributes:
        role: Who says it; `tool` is the result of a call, and only for a model that takes tools.
        content: The text.
        tool_calls: What the assistant called in it.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a chat model answered."""

    text: str
    usage: Usage | None = None
    model: str = ""
    finish_reason: str = ""
    """Why it ended: `stop`, `length`, `content_filter`, or what else the provider says; empty where it says nothing."""
    tool_calls: tuple[NativeCall, ...] = ()
    """What it calls, in order; only of a model that was given tools."""
    notes: tuple[str, ...] = ()
    """What was degraded on the way, one sentence each."""
    origin: Any = field(default=None, compare=False, repr=False)
    """The reply as its adapter keeps it, with opaque parts that a provider wants back; None where there are none."""

    @property
    def truncated(self) -> bool:
        """Whether the text was cut off by a limit on its length."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Where the time went, in seconds."""

    recall_s: float = 0.0
    choose_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(JsonData):
    """What was decided, why, and everything that led there.

    The first twelve fields are published in this order by `jazz-select select --json`.
    """

    tier: Tier
    reason: Reason
    chosen_ids: tuple[str, ...] = ()
    raw_reply: str | None = None
    """The model's reply, byte for byte; None where no model answered."""
    parsed_ids: tuple[str, ...] = ()
    """The ids read from the reply, before they were checked against the offered set."""
    confidence: float | None = None
    """P(the top candidate is the right one), where known."""
    model: str = ""
    error: str = ""
    """What the model call failed with, for `fallback_error`."""
    sized: str = ""
    """How many candidates there are and why, where their number was left to recall (`top_k="auto"`)."""
    notes: tuple[str, ...] = ()
    """What was degraded, dropped or cut on the way, one sentence each."""
    latency: Latency = Latency()
    usage: Usage | None = None
    called_off: tuple[str, ...] = ()
    """The ids of flows of the conversation that the user calls off, where the choice was told of a conversation."""
    confirmed: Literal["", "yes", "no"] = ""
    """The user's answer to the question that waited for a yes or a no, where the conversation has one."""
    in_scope: float | None = None
    """P(some flow of the catalogue is right), where known."""
    recalled_by: str = ""
    """Which embedder of a cascade found the candidates, and why that one; empty where there is one alone."""
    attempts: int = 0
    """Calls to the model that got an answer, with those that were made again before it."""
    stages: tuple[StageRecord, ...] = ()
    """What each stage of a cascade made of it, in the order in which they were asked; empty without a cascade."""
    question: UserQuestion | None = None
    """What the user is to be asked, where the reason is `ask`."""
    quote: str = ""
    """The sentence by which the user gave it, as the model says."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """What the message gives for the inputs of flows, by flow id, as the model says; None for what is taken back."""
    unclear: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Likewise, several values for one input, of which nothing tells which is meant."""
    answer: str = ""
    """What to tell the user, where the message of a conversation is for no flow and the model that read it knows."""
    candidates: tuple[Candidate, ...] = ()
    """All that was offered, best first."""

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        return page_html(self.facts_html(), candidates_html(self.candidates, self.chosen_ids))

    def facts_html(self, chosen: str = "") -> NotebookRepr:
        """How it came out and what it took, as HTML, with what was chosen, where that is known by name."""
        took, usage = self.latency, self.usage
        facts = [
            ("chosen", chosen),
            ("decided", f"{self.tier}, {self.reason}"),
            ("P(in scope)", self.in_scope),
            ("candidates", self.sized),
            ("recalled by", self.recalled_by),
            ("model", self.model),
            ("reply", self.raw_reply),
            ("error", self.error),
            ("asks", self.question.text if self.question else ""),
            ("stages", "; ".join(map(str, self.stages))),
            ("tokens", f"{usage.input_tokens} in, {usage.output_tokens} out" if usage else ""),
            (
                "took",
                f"{took.total_s * 1e3:.1f} ms: recall {took.recall_s * 1e3:.1f}, choice {took.choose_s * 1e3:.1f}",
            ),
            *(("note", note) for note in self.notes),
        ]
        return facts_html("", facts)


def candidates_html(candidates: Sequence[Candidate], chosen_ids: Collection[str] = ()) -> NotebookRepr:
    """Candidates, best first, with their ranks and scores, as HTML."""
    names = ("", "", "flow", "description", "score", "confidence", "ranks")
    rows = [
        (
            place,
            "✓" if each.flow_id in chosen_ids else "",
            each.flow_name or each.flow_id,
            each.description,
            each.score,
            each.confidence,
            ", ".join(f"{arm} {rank}" for arm, rank in each.ranks.items()),
        )
        for place, each in enumerate(candidates, start=1)
    ]
    return rows_html(names, rows)


_NUMBERS = (int, float)
"""A tuple is looked through in half the time in which a union is made."""


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,) if value else ()
    if type(value) is list or isinstance(value, Iterable):  # recall gives lists, and to ask what is iterable takes long
        return tuple(_text(item) for item in cast("Iterable[object]", value))
    return ()


def _number(value: object) -> float:
    if not isinstance(value, _NUMBERS):
        return 0.0
    number = float(value)  # a whole number beyond all floats raises: it comes from nobody who means well
    return number if isfinite(number) else 0.0


def chance_in(value: object) -> float | None:
    """A probability that anyone may have sent; None where it is none: what is not known is never sure enough."""
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
    """What is known of a call that somebody has claimed before.

    Attributes:
        fingerprint: Of the tool and its arguments, as it was claimed.
        outcome: What became of it, as it was settled; None where nobody has told: it is under way, or its process is
            gone, and it may have had its effect.
    """

    fingerprint: str
    outcome: str | None = None
