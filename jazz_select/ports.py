"""The ports: what the core asks of the outside. Adapters implement them; no adapter is imported here."""

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
            ModelError: The call failed; `.retryable` says whether the same call may go through later.
        """
        ...


@runtime_checkable
class StructuredChatModel(ChatModel, Protocol):
    """A chat model that can be held to a JSON schema. Every `ChatModel` may be one; none has to be."""

    @property
    def takes_schema(self) -> bool:
        """Whether a schema holds the reply, or the prompt alone has to; a provider's refusal may change it."""
        ...

    async def complete(self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None) -> Reply:
        """Answer `messages` with the JSON text of an object of this schema, where one is given and `takes_schema`.

        A schema has an object at its root, as providers want it. It is a help, not a promise: a reply may still be cut
        off, refused or wrong, so whoever reads it checks it like any other.

        Raises:
            ModelError: As without a schema.
        """
        ...


def takes_schema(model: ChatModel) -> TypeGuard[StructuredChatModel]:
    """Whether this model may be sent a schema; False for all that never heard of one."""
    return getattr(model, "takes_schema", False) is True


@runtime_checkable
class ToolCallingModel(ChatModel, Protocol):
    """A chat model that calls tools in its provider's own form. Every `ChatModel` may be one; none has to be."""

    @property
    def takes_tools(self) -> bool:
        """Whether it may be given tools."""
        ...

    async def complete(self, messages: Sequence[Message], *, tools: Sequence[OfferedTool] = ()) -> Reply:
        """Answer `messages` with a text, calls of these tools, or both.

        What the calls say is as the model wrote it: names and arguments may be anything, ids may be missing or stand
        twice. After a message with `tool_calls` follows one of role `tool` for each of them.

        Raises:
            ModelError: As without tools. A schema that a provider refuses is sent again in a plainer form; the reply
                then has a note.
        """
        ...


def takes_tools(model: ChatModel) -> TypeGuard[ToolCallingModel]:
    """Whether this model may be given tools; False for all that never heard of them."""
    return getattr(model, "takes_tools", False) is True


@runtime_checkable
class StreamingChatModel(ChatModel, Protocol):
    """A chat model whose reply can be had while it is written. Every `ChatModel` may be one; none has to be."""

    def stream(
        self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str] | AsyncIterator[str | Reply]:
        """The text of the reply, piece by piece; the schema as for `complete`, and only where `takes_schema`.

        After the last piece it may give the whole as a `Reply`, with what only that knows, such as tokens. One of a
        model that `takes_tools` is given `tools`, too, as `complete` is: calls are in the whole.

        Raises:
            ModelError: While it is read, as `complete` does.
        """
        ...


def streams(model: ChatModel) -> TypeGuard[StreamingChatModel]:
    """Whether this model's reply can be had while it is written."""
    return callable(getattr(model, "stream", None))


@runtime_checkable
class DecisionModel(Protocol):
    """A decision model: a text and typed questions in, a probability for each option out; it writes no text."""

    @property
    def most_options(self) -> int | None:
        """How many options a question may have; None where there is no limit, or none is known."""
        ...

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        """Answer all `questions`, by their names, about `state`, the text to judge.

        The reply has each question and each of its options once; a yes/no question has `yes` and `no`.

        Raises:
            ModelError: The call failed; `.retryable` says whether the same call may go through later.
        """
        ...


class FlowMemory(Protocol):
    """Procedural memory, as a selector sees it."""

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> Sequence[Mapping[str, Any]]:
        """At most `top_k` candidates of this agent as metadata dicts, best first, without the flow ids in `exclude`."""
        ...


Capability = Literal["focus", "auto_size", "situation"]
"""What a memory or a selector takes beside its port: `recall` a `focus`, or `top_k="auto"` with a `coverage`; `select`
the `situation` that it is asked in. It says so in `capabilities`; one that says nothing is never given them."""


def has_capability(part: object, capability: Capability) -> bool:
    """Whether a memory or a selector says that it takes this."""
    return capability in getattr(part, "capabilities", ())


class Embedder(Protocol):
    """Text to unit vectors."""

    @property
    def identity(self) -> str:
        """Names model and version; two embedders of one identity give the same vectors."""
        ...

    @property
    def dim(self) -> int:
        """Length of each vector."""
        ...

    @property
    def offload(self) -> bool:
        """True where a call takes long enough (about a millisecond) to be worth a thread of its own."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text, shape (len(texts), dim), float32; a text without a known token is a zero row."""
        ...

    def embed_query(self, text: str) -> Vectors:
        """The vector of a request, shape (dim,); some models embed requests and documents differently."""
        ...


@runtime_checkable
class BatchEmbedder(Embedder, Protocol):
    """An embedder that reads many requests sooner than one after the other. Every `Embedder` may be one."""

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """One row per request, each as `embed_query` gives it."""
        ...


@runtime_checkable
class StagedEmbedder(Embedder, Protocol):
    """Two embedders in one: the second is asked where the first is not sure. Every `Embedder` may be one."""

    @property
    def stages(self) -> tuple[Embedder, Embedder]:
        """The fast one, and the better one."""
        ...


def stages_of(embedder: Embedder) -> tuple[Embedder, ...]:
    """The embedders that a request may be read by, in their order: one, or two."""
    return embedder.stages if isinstance(embedder, StagedEmbedder) else (embedder,)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector:
    """Token ids and their weights, of one length."""

    indices: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPoint:
    """One flow as the engine stores it."""

    agent_id: str
    flow_id: str
    fingerprint: str
    """Changes when anything that is stored would change."""
    dense: Sequence[float] | None
    """None for a flow whose texts hold no token that the embedder knows."""
    sparse: SparseVector
    payload: Mapping[str, Any]
    second: Sequence[float] | None = None
    """Of another embedder, where the layout has one; None as for `dense`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridQuery:
    """Both arms of one request; None for an arm that has nothing to ask."""

    agent_id: str
    dense: Sequence[float] | None
    sparse: SparseVector | None
    depth: int
    """How many hits each arm returns."""
    exclude: tuple[str, ...] = ()
    of_second: bool = False
    """Whether `dense` is compared with the flows' `second` vectors."""

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms that have something to ask, dense first."""
        if self.dense is not None:
            return ("dense", "bm25") if self.sparse is not None else ("dense",)
        return ("bm25",) if self.sparse is not None else ()


Key = int
"""How a store names a flow of an agent; means nothing elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Legs:
    """What each arm found: key to raw score, best first."""

    dense: Mapping[Key, float]
    bm25: Mapping[Key, float]
    payloads: Mapping[Key, Mapping[str, Any]]
    """Those that came along; `FlowStore.retrieve` fetches the others."""


class FlowStore(Protocol):
    """Where flows are kept and searched: one index of one vector layout, many agents.

    Every call is scoped to an agent; nothing of another agent is read or touched.
    """

    @property
    def shared(self) -> bool:
        """True where other processes may write too."""
        ...

    def key(self, agent_id: str, flow_id: str) -> Key:
        """The key of this flow, whether it is stored or not."""
        ...

    async def payloads(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """The payloads of all flows of this agent in this layout by key, in no particular order, as they are stored."""
        ...

    async def count(self, agent_id: str) -> int:
        """How many flows of this agent there are in this layout."""
        ...

    async def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """The token ids of each flow of this agent in this layout; of more than `limit`, those of the lowest keys."""
        ...

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write the points, replacing those of the same agent and flow id; durable on return."""
        ...

    async def delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        """Remove these flows; ids that are not there are ignored. Durable on return."""
        ...

    async def discard(self, agent_id: str, keys: Collection[Key]) -> None:
        """Remove what lies at these keys, which `payloads` gave for this agent. Durable on return."""
        ...

    async def search(self, queries: Sequence[HybridQuery]) -> list[Legs]:
        """What both arms find for each query, in one round trip for all of them."""
        ...

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """The payloads of these flows; keys that are not there are left out."""
        ...

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """What `write_note` left for this agent in this layout; None where nothing is, empty where it is no mapping."""
        ...

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Keep a JSON value for this agent beside its flows; it is never found by a search or listed."""
        ...

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        """The payloads of this agent's flows in all other layouts; each says which, as its `layout`."""
        ...

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows, and its note, from every layout but this one."""
        ...

    async def close(self) -> None:
        """Release the index; a second call does nothing."""
        ...


class ClaimStore(Protocol):
    """Who may make a call that several processes might make: the first that claims it. It outlives all of them."""

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Claim a call before it is made: None where nobody has before, for the first of any number of callers alone.

        What it gave is on disk, or wherever it survives this process, before it returns.
        """
        ...

    async def settle(self, call_id: str, outcome: str) -> None:
        """Keep what became of a call that was claimed; the first outcome stays."""
        ...
