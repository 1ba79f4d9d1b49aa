"""ProceduralMemory: the flows of agents in an index, recalled by meaning (dense) and by words (BM25)."""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Protocol, Self
from weakref import WeakKeyDictionary, WeakValueDictionary

from jazz_select.errors import ConfigError, EmbedderMismatchError, FlowsMissingError, UnknownFlowError
from jazz_select.memory.encoder import Encoder, Lexical, TermCounts
from jazz_select.memory.engines.stored_points import FINGERPRINT, LAYOUT, SYNCED, fault_at
from jazz_select.memory.fit.model import UNREAD, RecallModel
from jazz_select.memory.recall import Retriever, nothing_indexed
from jazz_select.memory.requests import RecallScope, check_texts
from jazz_select.memory.sync import IndexWriter, SyncReport
from jazz_select.memory.text_vectors import VectorFile
from jazz_select.outcomes.evidence import LogEvidence
from jazz_select.ports import Capability, Embedder, FlowStore
from jazz_select.stages import LeaveOneOutConfidence, Thresholds
from jazz_select.threads import in_thread
from jazz_select.values import COVERAGE, AgentScope, FlowCard, RecallResult, TopK

_log = logging.getLogger(__name__)
_HALF = re.compile("[\ud800-\udfff]")
"""A lone surrogate, which cannot be stored."""
ProgressCallback = Callable[[int, int], None]
_FRESH_S = 60.0
"""Seconds that a model from a shared store is cached."""
_MOST_AGENTS, _MOST_BYTES = 1_024, 64 << 20
"""Most agents whose models are cached, and most bytes of these models."""
_SMALL, _NAME = 2_000, 200
"""Approximate bytes of a model without its matrix, and of each name in it."""
_MOST_CHECKED = 5_000
"""Most flows of an agent that are checked before its first recall; that takes about ten milliseconds."""
_MOST_COUNTED = 5_000
"""Most flows whose terms are counted after a flow was written; of more, those with the lowest keys, a random sample
that is the same everywhere."""
_LISTED: dict[str, Any] = {
    "flow_id": "",
    "flow_name": "",
    "flow_type": "",
    "description": "",
    "condition": "",
    "desired_effects": [],
    "priority": [0, 0],
}


def check_agent(agent_id: object) -> None:
    """Raise unless this is the name of an agent.

    Raises:
        ConfigError: It is empty, no text, text that cannot be stored, or the name of another kind of scope.
    """
    is_free = isinstance(agent_id, AgentScope) or (isinstance(agent_id, str) and AgentScope.MARK not in agent_id)
    if not is_free or not str(agent_id).strip() or _HALF.search(str(agent_id)):
        raise ConfigError(f"agent_id must be a name such as 'support', got {agent_id!r:.80}")


class Indexable(Protocol):
    """Anything with a card for the index, such as a flow."""

    def card(self) -> FlowCard:
        """Return the flow as data."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentState:
    """An agent's model and index state; `elsewhere` are the layouts of an unfinished move to this one."""

    model: RecallModel
    elsewhere: tuple[str, ...] = ()
    read_at: float = 0.0
    flows: int = 0
    notes: tuple[str, ...] = ()
    """Problems of the index, for people."""

    @property
    def size(self) -> int:
        """Approximate bytes in memory."""
        model = self.model
        names = len(model.names) + len(model.usual.examples) + len(model.persons) + len(model.ids)
        arrays = 0 if model.terms is None else model.terms.nbytes
        for each in (model, model.second):
            if each is None:
                continue
            names += len(each.usual.flows)
            if each.transform is not None:
                arrays += each.transform.nbytes
            if each.evidence is not None:
                arrays += each.evidence.head.weights.nbytes
        return _SMALL + _NAME * names + arrays


class Agents:
    """A cache of agents' states: each is read at first use, and the least recently used are dropped."""

    def __init__(self, store: FlowStore, *dims: int) -> None:
        self._store = store
        self._dims = dims
        self._states: OrderedDict[str, AgentState] = OrderedDict()
        self._checked: set[str] = set()
        self._synced: OrderedDict[str, int] = OrderedDict()
        """Numbers of flows that a sync had written, as they were last seen in a store that others write to as well."""
        # A lock belongs to an event loop, and a memory may be used from several. Who holds one or waits keeps it.
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[tuple[str, str], asyncio.Lock]]
        self._locks = WeakKeyDictionary()

    def writing(self, agent_id: str) -> asyncio.Lock:
        """Return the lock for writing this agent's flows."""
        return self._lock("writing", agent_id)

    def _lock(self, purpose: str, agent_id: str) -> asyncio.Lock:
        locks = self._locks.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
        lock = locks.get((purpose, agent_id))
        if lock is None:
            lock = locks[purpose, agent_id] = asyncio.Lock()
        return lock

    def __len__(self) -> int:
        return len(self._states)

    def forget(self, agent_id: str) -> None:
        """Drop an agent's state."""
        self._states.pop(agent_id, None)

    async def state(self, agent_id: str) -> AgentState:
        """Return an agent's state, from the store unless the cached one is fresh; many at once read it once."""
        state = self._fresh(agent_id)
        if state is None:
            async with self._lock("reading", agent_id):
                state = self._fresh(agent_id)
                if state is None:
                    state = self._states[agent_id] = await self._read_state(agent_id)
                    if state.model.flows is not None:
                        self.remember(agent_id, state.flows)
                    self._make_room()
        return state

    def _fresh(self, agent_id: str) -> AgentState | None:
        state = self._states.get(agent_id)
        if state is None or (self._store.shared and monotonic() - state.read_at > _FRESH_S):
            return None
        self._states.move_to_end(agent_id)
        return state

    def _make_room(self) -> None:
        """Drop the least recently used states: each holds a matrix."""
        held = sum(state.size for state in self._states.values())
        while len(self._states) > 1 and (len(self._states) > _MOST_AGENTS or held > _MOST_BYTES):
            held -= self._states.popitem(last=False)[1].size

    def missing(self, agent_id: str, state: AgentState) -> int:
        """Return how many flows were synced and are gone without a trace; 0 if none.

        A sync to an empty catalogue leaves a note, and so does the deletion of the last flow.
        """
        if state.flows or state.model.flows is not None:
            return 0
        return self._synced.get(agent_id, 0)

    def remember(self, agent_id: str, synced: int) -> None:
        """Note how many flows of an agent are in the index, as a sync wrote them."""
        if self._store.shared:
            self._synced[agent_id] = synced
            self._synced.move_to_end(agent_id)
            if len(self._synced) > _MOST_AGENTS:
                self._synced.popitem(last=False)

    async def _read_state(self, agent_id: str) -> AgentState:
        """Read a state; without a note, which a sync writes last, a move to this layout may be unfinished."""
        note = await self._store.read_note(agent_id)
        moving = [] if note is not None else await self._store.elsewhere(agent_id)
        elsewhere = tuple(dict.fromkeys(str(each.get(LAYOUT, "an unknown embedder")) for each in moving))
        model = RecallModel.from_note(note, dims=self._dims).by_key(lambda flow: self._store.key(agent_id, flow))
        flows = await self._store.count(agent_id)
        notes = [UNREAD] if model.caveat == UNREAD else []
        if note is None and flows:
            payloads = await self._store.payloads(agent_id)
            if any(each.get(SYNCED) for each in payloads.values()):
                notes.append(
                    f"the last sync of agent {agent_id!r} was cut short, or the index has lost what was noted of its "
                    "flows: there may be more of them; run sync_registry (jazz-select sync)"
                )
        elif model.flows is not None and flows < len(model.flows):
            notes.append(
                f"the index has {flows} of the {len(model.flows)} flows that were last written for agent {agent_id!r}: "
                "run sync_registry (jazz-select sync), which writes the others anew"
            )
        elif model.flows is not None and flows > len(model.flows):
            notes.append(
                f"the index has {flows} flows of agent {agent_id!r}, and {len(model.flows)} were last written: a sync "
                "was cut short, or two wrote at once; run sync_registry (jazz-select sync), which leaves those of its "
                "catalogue"
            )
        faults = await self._count_unreadable(agent_id, flows) if flows else 0
        if faults:
            notes.append(
                f"{faults} of the {flows} entries of agent {agent_id!r} cannot be read: run sync_registry "
                "(jazz-select sync), which writes them anew or removes them"
            )
        if model.terms is None or (model.flows is not None and flows != len(model.flows)):
            terms = await self._store.terms(agent_id, _MOST_COUNTED) if flows else []
            model = replace(model, terms=await in_thread(TermCounts.from_documents, terms))
        return AgentState(model=model, elsewhere=elsewhere, read_at=monotonic(), flows=flows, notes=tuple(notes))

    async def _count_unreadable(self, agent_id: str, flows: int) -> int:
        """Return the number of unreadable entries, once per opened index.

        A shared or large index is not checked; there recall reports the unreadable entries that it finds.
        """
        if self._store.shared or agent_id in self._checked or flows > _MOST_CHECKED:
            return 0
        payloads = await self._store.payloads(agent_id)

        def count_faults() -> int:
            return sum(bool(fault_at(self._store, agent_id, key, each)) for key, each in payloads.items())

        faults = await in_thread(count_faults)
        if not faults:
            if len(self._checked) >= _MOST_AGENTS:
                self._checked.clear()
            self._checked.add(agent_id)
        return faults


class ProceduralMemory:
    """Flows of many agents in one index; every call is scoped to one agent.

    Open it with `ProceduralMemory.open`. One object may be used by many tasks at once.
    """

    capabilities: ClassVar[tuple[Capability, ...]] = ("focus", "auto_size")

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        """Use a store and an encoder of the same layout; most callers want `open`."""
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
            path_or_memory: A folder for the embedded engine, or ":memory:" for an index that lasts until `close`.
            url: A Qdrant server instead; it is contacted at first use.
            api_key: Key of that server.
            grpc_port: The server's port for gRPC, which recall prefers; 0 for REST alone, None for the port after the
                one in `url`. Recall uses REST if gRPC does not answer; `asked_over` says which.
            embedder: `auto` (the best that is installed: `minilm`, else `static`), `minilm`, `static`, `cascade`
                (`static`, then `minilm` if that is not sure), `multilingual`, `fastembed:<model>`,
                `fastembed:<name>@<folder>`, or an object of your own.
            language: Stop words and stemming of BM25; `none` for neither.
            shards: Shards of a new collection on the server; the server's default if None.
            replicas: Copies of each shard; the server's default if None.

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

        folder: Path | None = None
        if path_or_memory and str(path_or_memory) != ":memory:":
            folder = Path(path_or_memory)
        vectors = VectorFile(folder) if folder else None
        encoder = await asyncio.to_thread(lambda: Encoder(open_embedder(embedder), Lexical(language), vectors))
        if url:
            from jazz_select.memory.engines.qdrant_server import RemoteStore
            from jazz_select.memory.engines.qdrant_wire import Wire
            from jazz_select.memory.engines.server_address import ServerAddress
            from jazz_select.memory.engines.server_client import connect

            address = ServerAddress.parse(url, api_key)
            store: FlowStore = RemoteStore(
                connect(url, api_key),
                encoder.layout,
                where=address,
                shards=shards,
                replicas=replicas,
                wire=Wire(url, port=grpc_port, api_key=api_key),
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

    def refresh(self, agent_id: str) -> None:
        """Read anew, at the next recall, what is known of an agent's flows: another process has synced them."""
        self._agents.forget(agent_id)

    @property
    def embedder(self) -> str:
        """The identity of the embedder, with its version; also the one that `auto` chose."""
        return self._encoder.embedder.identity

    @property
    def asked_over(self) -> str:
        """The protocol to the server, gRPC or REST, with its cost; empty before the first recall and without a server.

        A store of your own may have a property of this name.
        """
        return getattr(self._store, "asked_over", "")

    @property
    def encoder(self) -> Encoder:
        """The encoder, for code that compares texts as recall does."""
        return self._encoder

    @property
    def layout(self) -> str:
        """The embedder and the lexical settings, in words."""
        return str(self._encoder.layout)

    async def recall(  # noqa: PLR0913 - all but the first are options with a name
        self,
        query: str,
        agent_id: str,
        top_k: TopK = 3,
        rrf_k: int = 10,
        *,
        exclude: Collection[str] = (),
        focus: str = "",
        coverage: float = COVERAGE,
    ) -> RecallResult:
        """Return the flows of an agent that match a request best.

        Args:
            query: The request, with any context.
            agent_id: Whose flows.
            top_k: The most candidates; "auto" for the fewest, from 1 to 10, that hold the right flow with probability
                `coverage`, or 8 if the catalogue is too small to calibrate.
            rrf_k: Constant of reciprocal rank fusion; the lower, the more the top ranks weigh.
            exclude: Flow ids that are not returned and not counted.
            focus: The part of the query that was said last, if the rest is context. The clearer it is by itself, the
                less the context counts.
            coverage: From .5 to .999, for `top_k="auto"`: the share of requests like the examples and the labelled
                cases whose right flow is among the candidates. A higher coverage only adds candidates.

        Returns:
            Metadata dicts, best first: flow_id, flow_name, flow_type, description, condition, desired_effects,
            `score` (fused), `ranks` and `scores` per arm, `confidence`. `.notes` are degradations, `.p_none` is
            P(no flow is right), `.sized` explains an automatic number, `.stage` and `.why` name the embedder of a
            cascade that answered.

        Raises:
            ConfigError: An argument is invalid.
            EmbedderMismatchError: The agent's flows were indexed with another embedder or other settings.
            StoreUnavailableError: The server did not answer.
            FlowsMissingError: The flows were there before, and the collection was deleted since.
        """
        found = await self.recall_many(
            (query,), agent_id, top_k, rrf_k, exclude=exclude, focuses=(focus,), coverage=coverage
        )
        return found[0]

    async def recall_many(  # noqa: PLR0913 - likewise
        self,
        queries: Sequence[str],
        agent_id: str,
        top_k: TopK = 3,
        rrf_k: int = 10,
        *,
        exclude: Collection[str] = (),
        focuses: Sequence[str] = (),
        coverage: float = COVERAGE,
    ) -> list[RecallResult]:
        """Recall for several requests together; the results are in their order. An error ends the whole call.

        The options are those of `recall`, for each request. `focuses` has one per query, "" for none, or is empty.
        """
        check_agent(agent_id)
        without = tuple(exclude)
        check_texts(without, "an id in exclude")
        scope = RecallScope(agent_id=agent_id, top_k=top_k, rrf_k=rrf_k, exclude=without, coverage=coverage)
        if focuses and len(focuses) != len(queries):
            msg = f"there are {len(queries)} queries and {len(focuses)} focuses; give one for each, or none"
            raise ConfigError(msg)
        check_texts((*queries, *focuses))
        state = await self._existing_state(agent_id)
        results = await self._recaller.recall(queries, focuses or [""] * len(queries), scope, state.model)
        if state.flows and self._store.shared and queries and not any(results):  # is what was read of it still there?
            self._agents.forget(agent_id)
            state = await self._existing_state(agent_id)
            if state.flows:
                results = await self._recaller.recall(queries, focuses or [""] * len(queries), scope, state.model)
        for result in results:
            result.notes = (*result.notes, *state.notes)
            # If nothing is excluded, recall itself reports that nothing is indexed.
            if not result and not state.flows and scope.exclude:
                result.notes = (*result.notes, nothing_indexed(scope.agent_id))
            result.indexed = state.model.flows
        return results

    async def memorize(self, flow: Indexable | FlowCard, agent_id: str) -> str:
        """Index a flow, in place of one of the same name; return its id.

        The fitted model (confidence, weights) stays as it is until the next sync.

        Raises:
            EmbeddingError: The embedder failed.
            StoreUnavailableError: The server did not answer.
        """
        check_agent(agent_id)
        card = _card(flow)
        async with self._agents.writing(agent_id):
            await self._writer.write_one(agent_id, card)
            self._agents.forget(agent_id)
        return card.id

    async def update_memory(self, flow: Indexable | FlowCard, agent_id: str) -> bool:
        """Index a changed flow again; return False if nothing has changed.

        Raises:
            UnknownFlowError: No flow of this name is indexed for this agent.
            EmbeddingError: The embedder failed.
        """
        await self._state(agent_id)
        card = _card(flow)
        async with self._agents.writing(agent_id):
            stored = await self._stored_payload(agent_id, card.id)
            if stored is None:
                raise UnknownFlowError(agent_id, card.name)
            if stored.get(FINGERPRINT) == self._encoder.fingerprint(card):
                return False
            await self._writer.write_one(agent_id, card)
            self._agents.forget(agent_id)
            return True

    async def delete_flow(self, flow_id: str, agent_id: str) -> bool:
        """Delete a flow; return False if there is none of this id."""
        await self._state(agent_id)
        async with self._agents.writing(agent_id):
            known = await self._stored_payload(agent_id, flow_id) is not None
            await self._store.delete(agent_id, [self._store.key(agent_id, flow_id)])
            await self._writer.outdate(agent_id, without=flow_id)
            self._agents.forget(agent_id)
            return known

    @property
    def is_shared(self) -> bool:
        """Whether others may write to the index, and delete it: it is on a server."""
        return self._store.shared

    async def count_flows(self, agent_id: str) -> int:
        """Return the number of an agent's flows in the index as it is now; nothing remembered is used.

        Raises:
            StoreUnavailableError: The server did not answer.
        """
        check_agent(agent_id)
        return await self._store.count(agent_id)

    async def list_flows(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the metadata of an agent's flows, by name.

        Raises:
            EmbedderMismatchError: They were indexed with another embedder or other settings.
        """
        await self._state(agent_id)
        payloads = await self._store.payloads(agent_id)
        readable = [each for key, each in payloads.items() if not fault_at(self._store, agent_id, key, each)]
        if len(readable) < len(payloads):
            _log.warning("agent_id=<%s>, flows=<%d> | flows cannot be read", agent_id, len(payloads) - len(readable))
        flows: list[dict[str, Any]] = []
        for payload in readable:
            flows.append({field: payload.get(field, copy(empty)) for field, empty in _LISTED.items()})
        return sorted(flows, key=lambda flow: flow["flow_name"])

    async def sync(  # noqa: PLR0913 - options with a name
        self,
        agent_id: str,
        flows: Iterable[Indexable | FlowCard],
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        cases: Sequence[tuple[str, str]] = (),
        evidence: LogEvidence | None = None,
        allow_delete: bool = False,
    ) -> SyncReport:
        """Make these the agent's flows in the index, and fit recall to them.

        A sync may be interrupted: each batch is atomic, flows that stay are never absent, and the next sync finishes.
        Unreadable entries of the agent are replaced or removed. Flows that are `only_called` are left out.

        Options and errors are those of `jazz_select.sync_registry`, but `cases` name flows by id, and `evidence` is
        what `read_evidence` made of a log. For `allow_delete`,
        unreadable entries count as flows, unless they are replaced. A `DiskFullError` says that there is no room.
        """
        check_agent(agent_id)
        given = [each for each in flows if not getattr(each, "only_called", False)]
        cards = await in_thread(lambda: {card.id: card for card in map(_card, given)})
        async with self._agents.writing(agent_id):
            try:
                report = await self._writer.sync(
                    agent_id,
                    cards,
                    dry_run=dry_run,
                    progress=progress,
                    cases=cases,
                    evidence=evidence,
                    allow_delete=allow_delete,
                )
            finally:
                self._agents.forget(agent_id)
        if not dry_run:
            self._agents.remember(agent_id, len(cards))
        caveat: str = getattr(self._store, "caveat", "")
        if not caveat:
            return report
        return replace(report, notes=(*report.notes, caveat))

    async def _stored_payload(self, agent_id: str, flow_id: str) -> dict[str, Any] | None:
        key = self._store.key(agent_id, flow_id)
        found = (await self._store.retrieve([key])).get(key)
        if found is None or fault_at(self._store, agent_id, key, found):
            return None
        return found

    async def leave_one_out_confidence(self, agent_id: str) -> tuple[LeaveOneOutConfidence | None, str]:
        """Return recall's confidence in its answers to the agent's own examples; or None, and why it is not known.

        Raises:
            ConfigError: `agent_id` is not a name.
            StoreError: The index cannot be read.
        """
        check_agent(agent_id)
        model = (await self._state(agent_id)).model
        return model.answers, model.caveat

    async def thresholds(self, agent_id: str) -> Thresholds | None:
        """Return how sure recall must be to decide alone, by what a sync learned from a log; None without one.

        Raises:
            ConfigError: `agent_id` is not a name.
            StoreError: The index cannot be read.
        """
        check_agent(agent_id)
        return (await self._state(agent_id)).model.thresholds

    async def _state(self, agent_id: str) -> AgentState:
        check_agent(agent_id)
        state = await self._agents.state(agent_id)
        if state.elsewhere:
            raise EmbedderMismatchError(agent_id, indexed=state.elsewhere, current=self.layout)
        return state

    async def _existing_state(self, agent_id: str) -> AgentState:
        """Return the state of an agent for a recall; an error if its flows were deleted behind this process."""
        state = await self._state(agent_id)
        known = self._agents.missing(agent_id, state)
        if known:
            self._agents.forget(agent_id)  # the next recall looks again
            raise FlowsMissingError(agent_id, known=known)
        return state


def _card(flow: Indexable | FlowCard) -> FlowCard:
    return flow if isinstance(flow, FlowCard) else flow.card()
