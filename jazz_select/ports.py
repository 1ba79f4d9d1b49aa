"""The ports: protocols of what the core needs from outside. Adapters implement them; none is imported here."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt

from jazz_select.questions import DecisionReply, Question
from jazz_select.values import Claim, Message, OfferedTool, Reply

Vectors = npt.NDArray[np.float32]


@runtime_checkable
class ChatModel(Protocol):
    """A chat model: messages in, one reply out."""

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Answer `messages`, oldest first.

        Raises:
            ModelError: The call failed; `.retryable` says whether the same call may succeed later.
        """
        ...


@runtime_checkable
class StructuredChatModel(ChatModel, Protocol):
    """A chat model that can constrain its reply to a JSON schema. Optional for a `ChatModel`."""

    @property
    def takes_schema(self) -> bool:
        """Whether a schema constrains the reply, rather than the prompt alone; a provider's refusal may change it."""
        ...

    async def complete(self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None) -> Reply:
        """Answer `messages` with the JSON text of an object of this schema, if one is given and `takes_schema`.

        The schema has an object at its root, as providers require. Callers validate the reply all the same: it may be
        cut off, refused or wrong.

        Raises:
            ModelError: As without a schema.
        """
        ...


def takes_schema(model: ChatModel) -> TypeGuard[StructuredChatModel]:
    """Whether this model accepts a schema; False if it does not say."""
    return getattr(model, "takes_schema", False) is True


@runtime_checkable
class ToolCallingModel(ChatModel, Protocol):
    """A chat model with native tool calling. Optional for a `ChatModel`."""

    @property
    def takes_tools(self) -> bool:
        """Whether it accepts tools."""
        ...

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[OfferedTool] = ()) -> Reply:
        """Answer `messages` with a text, calls of these tools, or both.

        Calls are as the model wrote them: names and arguments may be anything, ids may be missing or repeated. A
        message with `tool_calls` is followed by one of role `tool` for each call.

        Raises:
            ModelError: As without tools. A schema that a provider refuses is sent again in a simpler form; the reply
                then has a note.
        """
        ...


def takes_tools(model: ChatModel) -> TypeGuard[ToolCallingModel]:
    """Whether this model accepts tools; False if it does not say."""
    return getattr(model, "takes_tools", False) is True


@runtime_checkable
class StreamingChatModel(ChatModel, Protocol):
    """A chat model that can stream its reply. Optional for a `ChatModel`."""

    def stream(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str] | AsyncIterator[str | Reply]:
        """Yield the text of the reply piece by piece; pass a schema as for `complete`, only if `takes_schema`.

        It may end with the whole `Reply`, which adds details such as tokens. A model that `takes_tools` gets `tools` as
        in `complete`; calls are in the whole.

        Raises:
            ModelError: During iteration, as `complete` does.
        """
        ...


def streams(model: ChatModel) -> TypeGuard[StreamingChatModel]:
    """Whether this model can stream."""
    return callable(getattr(model, "stream", None))


@runtime_checkable
class DecisionModel(Protocol):
    """A decision model: a text and typed questions in, a probability for each option out."""

    @property
    def most_options(self) -> int | None:
        """The most options of a question; None if unlimited or unknown."""
        ...

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Answer all `questions`, by name, about `state`, the text to judge.

        The reply has each question and each of its options once; a yes/no question has `yes` and `no`.

        Raises:
            ModelError: The call failed; `.retryable` says whether the same call may succeed later.
        """
        ...


class FlowMemory(Protocol):
    """Procedural memory, as a selector uses it."""

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> Sequence[Mapping[str, Any]]:
        """Return at most `top_k` candidates as metadata dicts, best first, without the flow ids in `exclude`."""
        ...


Capability = Literal["focus", "auto_size", "situation"]
"""Optional arguments beyond the port: `focus`, or `top_k="auto"` with `coverage`, of `recall`; `situation` of `select`.
A memory or selector lists those it accepts in `capabilities`; only these are passed."""


def has_capability(part: object, capability: Capability) -> bool:
    """Whether a memory or selector lists this capability."""
    return capability in getattr(part, "capabilities", ())


class Embedder(Protocol):
    """Text to unit vectors."""

    @property
    def identity(self) -> str:
        """Model and version; embedders of one identity give the same vectors."""
        ...

    @property
    def dim(self) -> int:
        """The length of each vector."""
        ...

    @property
    def offload(self) -> bool:
        """Whether a call takes long enough (about a millisecond) to run in a thread of its own."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one unit row per text, shape (len(texts), dim), float32; a text without known tokens is a zero row."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a request, shape (dim,); some models embed requests and documents differently."""
        ...


@runtime_checkable
class BatchEmbedder(Embedder, Protocol):
    """An embedder with fast batches of requests. Optional for an `Embedder`."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one row per request, equal to its `embed_query`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Token ids and their weights, of equal length."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPoint:
    """A flow as the engine stores it."""

    agent_id: str
    flow_id: str
    fingerprint: str
    """Changes with anything that is stored."""
    dense: Sequence[float] | None
    """None for a flow whose texts have no token that the embedder knows."""
    sparse: SparseVector
    payload: Mapping[str, Any]
    second: Sequence[float] | None = None
    """The second embedder's vector, if the layout has one; None as for `dense`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridQuery:
    """Both arms of one request; None for an arm with nothing to search for."""

    agent_id: str
    dense: Sequence[float] | None
    sparse: SparseVector | None
    depth: int
    """The number of hits per arm."""
    exclude: tuple[str, ...] = ()
    of_second: bool = False
    """Whether to compare `dense` with the flows' `second` vectors."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms with something to search for, dense first."""
        if self.dense is not None:
            return ("dense", "bm25") if self.sparse is not None else ("dense",)
        return ("bm25",) if self.sparse is not None else ()


Key = int
"""A store's name for a flow of an agent; meaningless elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmHits:
    """The hits of each arm: key to raw score, best first."""

    dense: Mapping[Key, float]
    bm25: Mapping[Key, float]
    payloads: Mapping[Key, Mapping[str, Any]]
    """The payloads returned with the hits; `FlowStore.retrieve` fetches the rest."""


class FlowStore(Protocol):
    """A searchable store of flows: one index of one vector layout, many agents.

    Every call is scoped to one agent and neither reads nor changes another's flows.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes may write too."""
        ...

    def key(self, agent_id: str, flow_id: str) -> Key:
        """Return the key of this flow, stored or not."""
        ...

    async def payloads(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return the stored payloads of all flows of this agent in this layout by key, in any order."""
        ...

    async def count(self, agent_id: str) -> int:
        """Return the number of this agent's flows in this layout."""
        ...

    async def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """Return the token ids of this agent's flows in this layout; of more than `limit`, those of the lowest keys."""
        ...

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write the points, replacing those of the same agent and flow id; durable on return."""
        ...

    async def delete(self, agent_id: str, keys: Collection[Key]) -> None:
        """Remove what this agent has at these keys, ignoring unknown ones; durable on return."""
        ...

    async def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        """Search both arms for each query, in one round trip for all."""
        ...

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return the payloads of these flows, without unknown keys."""
        ...

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """Return the note of this agent in this layout; None if there is none, empty if it is not a mapping."""
        ...

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Store a JSON value for this agent beside its flows; searches and listings skip it."""
        ...

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the payloads of this agent's flows in all other layouts, each with its `layout`."""
        ...

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows and note from every other layout."""
        ...

    async def close(self) -> None:
        """Release the index. May be called twice."""
        ...


class ClaimStore(Protocol):
    """Grants a call that several processes might make to the first that claims it. Outlives all of them."""

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Claim a call before it is made: None for the first of any number of callers, the claim for the others.

        The claim is durable on return.
        """
        ...

    async def settle(self, call_id: str, outcome: str) -> None:
        """Store the outcome of a claimed call; the first outcome stays."""
        ...
