"""ProceduralMemory: what an agent knows how to do, recalled by meaning and by words at once."""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Literal, Protocol, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from jazz_select.errors import ConfigError, EmbedderMismatchError, UnknownFlowError
from jazz_select.memory.encoder import Encoder, Lexical, TermCounts
from jazz_select.memory.engines.stored_points import FINGERPRINT, LAYOUT, SYNCED, fault_at
from jazz_select.memory.fit.model import UNREAD, RecallModel
from jazz_select.memory.recall import Retriever, nothing_indexed
from jazz_select.memory.requests import RecallScope, check_texts
from jazz_select.memory.sync import IndexWriter, SyncReport
from jazz_select.memory.text_vectors import VectorFile
from jazz_select.ports import Capability, Embedder, FlowStore
from jazz_select.threads import in_thread
from jazz_select.values import COVERAGE, AgentScope, FlowCard, RecallResult

_log = logging.getLogger(__name__)
_HALF = re.compile("[\ud800-\udfff]")
"""Half of a surrogate pair, which is no text that can be stored."""
ProgressCallback = Callable[[int, int], None]
_FRESH_S = 60.0
"""How long a model read from a store that others write to is trusted."""
_MOST_AGENTS, _MOST_BYTES = 1_024, 64 << 20
"""Agents whose models are kept, and the memory that these take together."""
_SMALL, _NAME = 2_000, 200
"""Bytes, about, of a model without its matrix, and of each name in it."""
_MOST_LOOKED_THROUGH = 5_000
"""Flows of an agent that are each looked at before its first recall: some ten milliseconds, in a thread."""
_MOST_COUNTED = 5_000
"""Flows whose words are counted where a flow was written since the last sync; of more, those of the lowest keys, which
are numbers as good as drawn by lot, and the same ones everywhere."""
_LISTED: dict[str, Any] = {
    "flow_id": "",
    "flow_name": "",
    "flow_type": "",
    "description": "",
    "condition": "",
    "desired_effects": [],
    "priority": [0, 0],
}
"""What a list says of a flow, with what it says where the index has nothing."""


def checked_agent(agent_id: object) -> None:
    """Agents are told apart by name, so the name must be one.

    Raises:
        ConfigError: It is empty, no text, text that cannot be stored, or the name of another kind of scope.
    """
    is_free = isinstance(agent_id, AgentScope) or (isinstance(agent_id, str) and AgentScope.MARK not in agent_id)
    if not is_free or not str(agent_id).strip() or _HALF.search(str(agent_id)):
        raise ConfigError(f"agent_id must be a name such as 'support', not {agent_id!r:.80}")


class Indexable(Protocol):
    """Anything that can say what memory needs to know of it: every flow."""

    def card(self) -> FlowCard:
        """The flow as data."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """An agent's model, and the other layouts its flows lie in while its move to this one is not finished."""

    model: RecallModel
    elsewhere: tuple[str, ...] = ()
    read_at: float = 0.0
    flows: int = 0
    """How many there were in the index."""
    notes: tuple[str, ...] = ()
    """What is wrong with what was read."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        second = None if self.model.second is None else self.model.second.transform
        arrays = (self.model.transform, second, self.model.terms)
        named = len(self.model.names) + len(self.model.usual.flows)
        return _SMALL + _NAME * named + sum(each.nbytes for each in arrays if each is not None)


class Agents:
    """The state of each agent, read when first needed, and kept of those that were asked for last."""

    def __init__(self, store: FlowStore, *dims: int) -> None:
        """Read from this store, of vectors of these lengths."""
        self._store = store
        self._dims = dims
        self._states: OrderedDict[str, AgentState] = OrderedDict()
        self._looked_through: set[str] = set()
        # A lock belongs to an event loop, and a memory may be used from several. Who holds one or waits keeps it.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, asyncio.Lock]]
        self._locks = WeakKeyDictionary()

    def writing(self, agent_id: str) -> asyncio.Lock:
        """Held by whoever writes this agent's flows."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        lock = locks.get(agent_id)
        if lock is None:
            lock = locks[agent_id] = asyncio.Lock()
        return lock

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._states)

    def forget(self, agent_id: str) -> None:
        """Read it again next time."""
        self._states.pop(agent_id, None)

    async def state(self, agent_id: str) -> AgentState:
        """From memory where it is fresh, else from the store."""
        state = self._states.get(agent_id)
        if state is None or (self._store.shared and monotonic() - state.read_at > _FRESH_S):
            state = self._states[agent_id] = await self._read(agent_id)
            self._make_room()
        elif agent_id in self._states:
            self._states.move_to_end(agent_id)
        return state

    def _make_room(self) -> None:
        """Let go of those that were asked for longest ago: each is a matrix, and agents may come and go."""
        held = sum(state.size for state in self._states.values())
        while len(self._states) > 1 and (len(self._states) > _MOST_AGENTS or held > _MOST_BYTES):
            held -= self._states.popitem(last=False)[1].size

    async def _read(self, agent_id: str) -> AgentState:
        """The note is the last thing that a sync writes, so without one a move to this layout may be under way."""
        note = await self._store.read_note(agent_id)
        moving = [] if note is not None else await self._store.elsewhere(agent_id)
        elsewhere = tuple(dict.fromkeys(str(each.get(LAYOUT, "an unknown embedder")) for each in moving))
        model = RecallModel.from_note(note, dims=self._dims).by_key(lambda flow: self._store.key(agent_id, flow))
        flows = await self._store.count(agent_id)
        notes = [UNREAD] if model.caveat == UNREAD else []
        if note is None and flows:
            payloads = await self._store.payloads(agent_id)
            notes += [_cut_short(agent_id)] if any(each.get(SYNCED) for each in payloads.values()) else []
        elif model.flows is not None and flows < len(model.flows):
            notes.append(
                f"the index has {flows} of the {len(model.flows)} flows that were last written for agent {agent_id!r}: "
                "run sync_registry (jazz-select sync), which writes the others anew"
            )
        elif model.flows is not None and flows > len(model.flows):
            notes.append(_too_many(agent_id, flows, len(model.flows)))
        if flows and (faults := await self._unreadable(agent_id, flows)):
            notes.append(
                f"{faults} of the {flows} entries of agent {agent_id!r} cannot be read: run sync_registry "
                "(jazz-select sync), which writes them anew or removes them"
            )
        if model.terms is None or (model.flows is not None and flows != len(model.flows)):
            terms = await self._store.terms(agent_id, _MOST_COUNTED) if flows else []
            model = replace(model, terms=await in_thread(TermCounts.of, terms))
        return AgentState(model=model, elsewhere=elsewhere, read_at=monotonic(), flows=flows, notes=tuple(notes))

    async def _unreadable(self, agent_id: str, flows: int) -> int:
        """How many cannot be read in an index that nobody else writes to, looked at once after it was opened.

        Of a shared or a large one that would take too long; there recall tells of those that it comes upon.
        """
        if self._store.shared or agent_id in self._looked_through or flows > _MOST_LOOKED_THROUGH:
            return 0
        payloads = await self._store.payloads(agent_id)
        faults = await in_thread(
            lambda: sum(bool(fault_at(self._store, agent_id, key, each)) for key, each in payloads.items())
        )
        if not faults:
            if len(self._looked_through) >= _MOST_AGENTS:
                self._looked_through.clear()
            self._looked_through.add(agent_id)
        return faults


def _too_many(agent_id: str, flows: int, noted: int) -> str:
    return (
        f"the index has {flows} flows of agent {agent_id!r}, and {noted} were last written: a sync was cut short, or "
        "two wrote at once; run sync_registry (jazz-select sync), which leaves those of its catalogue"
    )


def _cut_short(agent_id: str) -> str:
    return (
        f"the last sync of agent {agent_id!r} was cut short, or the index has lost what was noted of its flows: "
        "there may be more of them; run sync_registry (jazz-select sync)"
    )


class ProceduralMemory:
    """Flows of many agents in one index; every call is scoped to one agent.

    Open it with `ProceduralMemory.open`. One object may be used by many tasks at once.
    """

    capabilities: ClassVar[tuple[Capability, ...]] = ("focus", "auto_size")

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        """Join a store with an encoder of the same layout; most callers want `open`."""
        self._store = store
        self._encoder = encoder
        self._agents = Agents(store, *encoder.dims)
        self._writer = IndexWriter(store, encoder)
        self._recaller = Retriever(store, encoder)

    @classmethod
    async def open(  # noqa: PLR0913 - all but the first are options with a name
        cls,
        path_or_memory: str | Path | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        grpc_port: int | None = None,
        embedder: str | Embedder = "auto",
        language: str = "english",
        shards: int | None = None,
        replicas: int | None = None,
    ) -> "ProceduralMemory":
        """Open an index.

        Args:
            path_or_memory: A folder for the embedded engine, or ":memory:" for one that is gone on close.
            url: A Qdrant server instead; nothing is sent to it before the first use.
            api_key: Key for that server.
            grpc_port: Where that server speaks gRPC, by which recall asks it; 0 for REST alone. Where None, the
                port after that of the url. What does not answer there is asked over REST, as `asked_over` says.
            embedder: `auto` (the best that is installed: `minilm`, else `static`), `minilm`, `static`, `cascade`
                (`static`, and `minilm` where that is not sure), `multilingual`, `fastembed:<model>`,
                `fastembed:<name>@<folder>`, or an object of your own.
            language: Stop words and stemming of the lexical arm; `none` for neither.
            shards: Shards of a collection that is made on the server; the server decides where None.
            replicas: Copies of each shard, likewise.

        Raises:
            ConfigError: Neither or both of path and url, an unknown embedder or language.
            MissingExtraError: The embedder needs an optional dependency.
            IndexLockedError: The folder is open in another process.
            IndexUnusableError: The folder is corrupt, not writable, or no index.
        """
        if bool(path_or_memory) == bool(url):
            msg = 'pass either a folder (or ":memory:") or url=…, so that it is clear where the flows are kept'
            raise ConfigError(msg)
        from jazz_select.memory.embedders.known_embedders import open_embedder

        folder = Path(path_or_memory) if path_or_memory and str(path_or_memory) != ":memory:" else None
        vectors = None if folder is None else VectorFile(folder)
        encoder = await asyncio.to_thread(lambda: Encoder(open_embedder(embedder), Lexical(language), vectors))
        if folder is None:
            from jazz_select.memory.engines.qdrant_server import IN_MEMORY, RemoteStore, connect, wired

            client = connect(url or None, api_key)
            wire = wired(url, grpc_port, api_key) if url else None
            store: FlowStore = RemoteStore(
                client, encoder.layout, where=url or IN_MEMORY, shards=shards, replicas=replicas, wire=wire
            )
        else:
            from jazz_select.memory.engines.edge import open_edge_store

            store = await open_edge_store(folder, encoder.layout)
        return cls(store, encoder)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the index, so that others can open it; a second call does nothing."""
        await self._store.close()

    @property
    def embedder(self) -> str:
        """Which embedder this is, with its version: what `auto` has taken, too."""
        return self._encoder.embedder.identity

    @property
    def asked_over(self) -> str:
        """Over what a server is asked, gRPC or REST, and what that costs; empty before the first recall, and of files.

        A store of your own says it with a property of this name.
        """
        return getattr(self._store, "asked_over", "")

    @property
    def encoder(self) -> Encoder:
        """What reads texts for it: whoever compares texts as recall does takes it from here."""
        return self._encoder

    @property
    def layout(self) -> str:
        """Embedder and lexical settings, in words."""
        return str(self._encoder.layout)

    async def recall(  # noqa: PLR0913 - all but the first are options with a name
        self,
        query: str,
        agent_id: str,
        top_k: int | Literal["auto"] = 3,
        rrf_k: int = 10,
        *,
        exclude: Collection[str] = (),
        focus: str = "",
        coverage: float = COVERAGE,
    ) -> RecallResult:
        """The flows of this agent that are nearest to the request.

        Args:
            query: The request, with whatever context widens it.
            agent_id: Whose flows.
            top_k: How many at most; "auto" for as few as hold the right flow with the probability `coverage`, from 1
                to 10. Where the catalogue is too small to tell, 8.
            rrf_k: Constant of reciprocal rank fusion; the lower, the more the very top ranks weigh.
            exclude: Flow ids that must not come back and take no place among the `top_k`.
            focus: The part of the query that the user has just said, where the rest is context. The clearer it is by
                itself, the less the context counts.
            coverage: From .5 to .999, where `top_k` is "auto": in so large a share of requests like the examples, and
                the labelled cases of the sync, the right flow is among the candidates. It leaves nothing out that is
                among those of a lower one.

        Returns:
            Metadata dicts, best first: flow_id, flow_name, flow_type, description, condition, desired_effects,
            `score` (fused), `ranks` and `scores` per arm, `confidence`. `.notes` says what was degraded,
            `.in_scope` is P(some flow is right), `.sized` says how many there are and why where `top_k` is "auto",
            `.stage` and `.why` say which embedder of a cascade answered.

        Raises:
            ConfigError: An argument cannot work.
            EmbedderMismatchError: The agent's flows were indexed with another embedder or other settings.
            StoreUnavailableError: The server did not answer.
        """
        checked_agent(agent_id)
        scope = RecallScope.of(agent_id, top_k, rrf_k, exclude, coverage)
        return (await self._recalled((query,), (focus,), scope))[0]

    async def recall_many(  # noqa: PLR0913 - likewise
        self,
        queries: Sequence[str],
        agent_id: str,
        top_k: int | Literal["auto"] = 3,
        rrf_k: int = 10,
        *,
        exclude: Collection[str] = (),
        focuses: Sequence[str] = (),
        coverage: float = COVERAGE,
    ) -> list[RecallResult]:
        """`recall` for several requests, in their order, embedded and looked up together.

        Args:
            queries: The requests.
            agent_id: As for `recall`, and so on.
            top_k: For each request.
            rrf_k: For each request.
            exclude: For all of them.
            focuses: One for each query (empty where there is none), or none at all.
            coverage: For all of them.

        What it raises, it raises for all of them.
        """
        checked_agent(agent_id)
        scope = RecallScope.of(agent_id, top_k, rrf_k, exclude, coverage)
        if focuses and len(focuses) != len(queries):
            msg = f"there are {len(queries)} queries and {len(focuses)} focuses; give one for each, or none"
            raise ConfigError(msg)
        return await self._recalled(queries, focuses or [""] * len(queries), scope)

    async def _recalled(self, queries: Sequence[str], focuses: Sequence[str], scope: RecallScope) -> list[RecallResult]:
        """What is found, with what there is to say of the index."""
        check_texts((*queries, *focuses))
        state = await self._state(scope.agent_id)
        results = await self._recaller.recall(queries, focuses, scope, state.model)
        unknown = () if state.flows or not scope.exclude else (nothing_indexed(scope.agent_id),)
        for result in results:
            result.notes = (*result.notes, *state.notes, *(() if result else unknown))
            result.indexed = state.model.flows
        return results

    async def memorize(self, flow: Indexable | FlowCard, agent_id: str) -> str:
        """Index this flow, replacing one of the same name; returns its id.

        What recall has learned of the catalogue as a whole (confidence, weights) stays as it is until the next sync.

        Raises:
            EmbeddingError: The embedder failed.
            StoreUnavailableError: The server did not answer.
        """
        checked_agent(agent_id)
        card = _card(flow)
        async with self._agents.writing(agent_id):
            await self._writer.write_one(agent_id, card)
            self._agents.forget(agent_id)
        return card.id

    async def update_memory(self, flow: Indexable | FlowCard, agent_id: str) -> bool:
        """Index again a flow that has changed; returns False where nothing had.

        Raises:
            UnknownFlowError: No flow of this name is indexed for this agent.
            EmbeddingError: The embedder failed.
        """
        await self._state(agent_id)
        card = _card(flow)
        async with self._agents.writing(agent_id):
            stored = await self._stored(agent_id, card.id)
            if stored is None:
                raise UnknownFlowError(agent_id, card.name)
            if stored.get(FINGERPRINT) == self._encoder.fingerprint(card):
                return False
            await self._writer.write_one(agent_id, card)
            self._agents.forget(agent_id)
            return True

    async def delete_flow(self, flow_id: str, agent_id: str) -> bool:
        """Forget a flow; returns False where there was none of this id."""
        await self._state(agent_id)
        async with self._agents.writing(agent_id):
            known = await self._stored(agent_id, flow_id) is not None
            await self._store.delete(agent_id, [flow_id])
            await self._writer.outdate(agent_id, without=flow_id)
            self._agents.forget(agent_id)
            return known

    async def list_flows(self, agent_id: str) -> list[dict[str, Any]]:
        """Metadata of all flows of this agent, by name.

        Raises:
            EmbedderMismatchError: They were indexed with another embedder or other settings.
        """
        await self._state(agent_id)
        payloads = await self._store.payloads(agent_id)
        readable = [each for key, each in payloads.items() if not fault_at(self._store, agent_id, key, each)]
        if len(readable) < len(payloads):
            _log.warning("agent_id=<%s>, flows=<%d> | flows cannot be read", agent_id, len(payloads) - len(readable))
        flows = [{field: each.get(field, copy(empty)) for field, empty in _LISTED.items()} for each in readable]
        return sorted(flows, key=lambda flow: flow["flow_name"])

    async def sync(
        self,
        agent_id: str,
        flows: Iterable[Indexable | FlowCard],
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        cases: Sequence[tuple[str, str]] = (),
        allow_delete: bool = False,
    ) -> SyncReport:
        """Bring the index to these flows, and no others, for this agent; then fit recall to them.

        Safe to interrupt: each batch is whole, flows that stay are never absent, and
        the next sync does what is left. Entries of the agent that cannot be read are written anew or removed.

        Args:
            agent_id: Whose flows.
            flows: All of them.
            dry_run: Only say what would happen.
            progress: Called with (flows written, flows to write) after each batch.
            cases: Labelled requests, (text, flow id): they make confidence better, and it does without.
            allow_delete: Also where that deletes more than 5 flows, and more than half of the agent's. Entries that
                cannot be read count as flows, but for those that are written anew.

        Raises:
            SyncDeletesError: It would, and may not; nothing was written.
            EmbeddingError: The embedder failed; what was written before stays.
            StoreUnavailableError: The server did not answer.
            DiskFullError: There is no room for what is to be written.
        """
        checked_agent(agent_id)
        given = list(flows)
        cards = await in_thread(lambda: {card.id: card for card in map(_card, given)})
        async with self._agents.writing(agent_id):
            try:
                return await self._writer.sync(
                    agent_id, cards, dry_run=dry_run, progress=progress, cases=cases, allow_delete=allow_delete
                )
            finally:
                self._agents.forget(agent_id)

    async def _stored(self, agent_id: str, flow_id: str) -> dict[str, Any] | None:
        """What the index has of a flow that can be read."""
        key = self._store.key(agent_id, flow_id)
        found = (await self._store.retrieve([key])).get(key)
        return None if found is None or fault_at(self._store, agent_id, key, found) else found

    async def _state(self, agent_id: str) -> AgentState:
        checked_agent(agent_id)
        state = await self._agents.state(agent_id)
        if state.elsewhere:
            raise EmbedderMismatchError(agent_id, indexed=state.elsewhere, current=self.layout)
        return state


def _card(flow: Indexable | FlowCard) -> FlowCard:
    return flow if isinstance(flow, FlowCard) else flow.card()
