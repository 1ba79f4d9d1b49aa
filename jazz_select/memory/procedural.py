"""ProceduralMemory: what an agent knows how to do, recalled by meaning and by words at once."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from jazz_select.errors import ConfigError, EmbedderMismatchError, EmbeddingError, UnknownFlowError
from jazz_select.memory import documents
from jazz_select.memory.candidates import to_candidates
from jazz_select.memory.encode import Encoder
from jazz_select.memory.sync import SyncPlan, SyncReport, plan_sync
from jazz_select.ports import Embedder, FlowStore, HybridQuery
from jazz_select.values import FlowCard, RecallResult

_log = logging.getLogger(__name__)
_BATCH = 256
_DEPTH = 50
"""Hits that each arm brings to the fusion; deeper ones hardly score, fewer leave candidates without a rank."""
_SLACK = 5
"""More fused hits are asked for than returned, so that ties at the end are broken by priority, not by chance."""

Progress = Callable[[int, int], None]


class Indexable(Protocol):
    """Anything that can say what memory needs to know of it: every flow."""

    def card(self) -> FlowCard:
        """The flow as data."""
        ...


class ProceduralMemory:
    """Flows of many agents in one index; every call is scoped to one agent.

    Open it with `ProceduralMemory.open`. One object may be used by many tasks at once.
    """

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        """Join a store with an encoder of the same layout; most callers want `open`."""
        self._store = store
        self._encoder = encoder
        self._writing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @classmethod
    async def open(  # noqa: PLR0913 - all but the first are options with a name
        cls,
        path_or_memory: str | Path | None = None,
        *,
        url: str | None = None,
        api_key: str | None = None,
        embedder: str | Embedder = "static",
        language: str = "english",
        shards: int | None = None,
        replicas: int | None = None,
    ) -> "ProceduralMemory":
        """Open an index.

        Args:
            path_or_memory: A folder for the embedded engine, or ":memory:" for one that is gone on close.
            url: A Qdrant server instead; nothing is sent to it before the first use.
            api_key: Key for that server.
            embedder: `static`, `fastembed:<model>`, `fastembed:<name>@<folder>`, or an object of your own.
            language: Stop words and stemming of the lexical arm; `none` for neither.
            shards: Shards of a collection that is made on the server; the server decides where None.
            replicas: Copies of each shard, likewise.

        Raises:
            ConfigError: Neither or both of path and url, an unknown embedder or language.
            MissingExtraError: The embedder needs an optional dependency.
            IndexLockedError: The folder is open in another process.
            IndexUnusableError: The folder is corrupt, not writable, or no index.
        """
        if (path_or_memory is None) == (url is None):
            msg = 'pass either a folder (or ":memory:") or url=…, so that it is clear where the flows are kept'
            raise ConfigError(msg)
        encoder = await asyncio.to_thread(_open_encoder, embedder, language)
        if path_or_memory is None or str(path_or_memory) == ":memory:":
            from jazz_select.memory.remote import IN_MEMORY, RemoteStore, connect

            client = connect(url, api_key)
            store: FlowStore = RemoteStore(
                client, encoder.layout, where=url or IN_MEMORY, shards=shards, replicas=replicas
            )
        else:
            from jazz_select.memory.edge import EdgeStore

            store = await asyncio.to_thread(EdgeStore, Path(path_or_memory), encoder.layout)
        return cls(store, encoder)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the index, so that others can open it; a second call does nothing."""
        await self._store.close()

    @property
    def layout(self) -> str:
        """Embedder and lexical settings, in words."""
        return str(self._encoder.layout)

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        """The flows of this agent that are nearest to the request.

        Args:
            query: The request, with whatever context widens it.
            agent_id: Whose flows.
            top_k: How many at most.
            rrf_k: Constant of reciprocal rank fusion; the lower, the more the very top ranks weigh.
            exclude: Flow ids that must not come back and take no place among the `top_k`.

        Returns:
            Metadata dicts, best first: flow_id, flow_name, flow_type, description, condition, desired_effects,
            `score` (fused), `ranks` and `scores` per arm, `confidence`. `.notes` says what was degraded.

        Raises:
            EmbedderMismatchError: The agent's flows were indexed with another embedder or other settings.
            StoreUnavailableError: The server did not answer.
        """
        if top_k < 1 or rrf_k < 1:
            msg = f"top_k and rrf_k must be at least 1, not {top_k} and {rrf_k}"
            raise ConfigError(msg)
        notes: list[str] = []
        text = documents.clean(query[: documents.MAX_QUERY_CHARS])
        if len(query) > documents.MAX_QUERY_CHARS:
            notes.append(f"recall read the first {documents.MAX_QUERY_CHARS} of {len(query)} characters")
        hybrid = HybridQuery(
            agent_id=agent_id,
            dense=await self._dense(text, notes) if text else None,
            sparse=self._encoder.lexical.query(text),
            limit=top_k + _SLACK,
            depth=max(_DEPTH, top_k + _SLACK),
            rrf_k=rrf_k,
            exclude=tuple(exclude),
        )
        hits = await self._store.search(hybrid) if hybrid.arms else ()
        if not hits:
            await self._check_layout(agent_id)
        candidates = to_candidates(hits)[:top_k]
        return RecallResult([each.as_metadata() for each in candidates], notes=tuple(notes))

    async def memorize(self, flow: Indexable | FlowCard, agent_id: str) -> str:
        """Index this flow, replacing one of the same name; returns its id.

        Raises:
            EmbeddingError: The embedder failed.
            StoreUnavailableError: The server did not answer.
        """
        card = _card(flow)
        async with self._writing[agent_id]:
            await self._write(agent_id, [card])
        return card.id

    async def update_memory(self, flow: Indexable | FlowCard, agent_id: str) -> bool:
        """Index again a flow that has changed; returns False where nothing had.

        Raises:
            UnknownFlowError: No flow of this name is indexed for this agent.
            EmbeddingError: The embedder failed.
        """
        card = _card(flow)
        async with self._writing[agent_id]:
            stored = await self._store.fingerprints(agent_id)
            if card.id not in stored:
                raise UnknownFlowError(agent_id, card.name)
            if stored[card.id] == self._encoder.fingerprint(card):
                return False
            await self._write(agent_id, [card])
            return True

    async def delete_flow(self, flow_id: str, agent_id: str) -> bool:
        """Forget a flow; returns False where there was none of this id."""
        async with self._writing[agent_id]:
            known = flow_id in await self._store.fingerprints(agent_id)
            await self._store.delete(agent_id, [flow_id])
            return known

    async def list_flows(self, agent_id: str) -> list[dict[str, Any]]:
        """Metadata of all flows of this agent, by name."""
        payloads = await self._store.payloads(agent_id)
        flows = [{key: value for key, value in payload.items() if key in _LISTED} for payload in payloads]
        return sorted(flows, key=lambda flow: flow["flow_name"])

    async def sync(
        self,
        agent_id: str,
        flows: Iterable[Indexable | FlowCard],
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring the index to these flows, and no others, for this agent.

        Safe to interrupt: each batch is whole, flows that stay are never absent, and
        the next sync does what is left.
        """
        cards = {card.id: card for card in map(_card, flows)}
        async with self._writing[agent_id]:
            payloads = {payload["flow_id"]: payload for payload in await self._store.payloads(agent_id)}
            wanted = {each: self._encoder.fingerprint(card) for each, card in cards.items()}
            plan = plan_sync(wanted, {each: payload["fingerprint"] for each, payload in payloads.items()})
            if not dry_run:
                await self._apply(agent_id, plan, cards, progress)
        names = {each: payload["flow_name"] for each, payload in payloads.items()}
        names |= {each: card.name for each, card in cards.items()}
        return _report(plan, names, dry_run=dry_run)

    async def _apply(
        self, agent_id: str, plan: SyncPlan, cards: dict[str, FlowCard], progress: Progress | None
    ) -> None:
        total = len(plan.write)
        for start in range(0, total, _BATCH):
            batch = [cards[each] for each in plan.write[start : start + _BATCH]]
            await self._write(agent_id, batch)
            if progress:
                progress(start + len(batch), total)
        await self._store.delete(agent_id, plan.delete)
        await self._store.forget_other_layouts(agent_id)

    async def _write(self, agent_id: str, cards: Sequence[FlowCard]) -> None:
        await self._store.upsert(await asyncio.to_thread(self._encoder.points, agent_id, cards))

    async def _dense(self, text: str, notes: list[str]) -> list[float] | None:
        try:
            if self._encoder.embedder.offload:
                return await asyncio.to_thread(self._encoder.request, text)
            return self._encoder.request(text)
        except EmbeddingError as error:
            _log.warning("embedder=<%s>, error=<%s> | recall goes on by BM25 alone", error.embedder, error.problem)
            notes.append(f"recall by BM25 alone: {error}")
            return None

    async def _check_layout(self, agent_id: str) -> None:
        """Nothing found may mean that the flows lie in another layout; said, never guessed over."""
        if await self._store.fingerprints(agent_id):
            return
        elsewhere = await self._store.other_layouts(agent_id)
        if elsewhere:
            raise EmbedderMismatchError(agent_id, indexed=tuple(elsewhere), current=self.layout)


_LISTED = frozenset({"flow_id", "flow_name", "flow_type", "description", "condition", "desired_effects", "priority"})


def _card(flow: Indexable | FlowCard) -> FlowCard:
    return flow if isinstance(flow, FlowCard) else flow.card()


def _open_encoder(embedder: str | Embedder, language: str) -> Encoder:
    from jazz_select.memory.embedders import open_embedder
    from jazz_select.memory.lexical import Lexical

    return Encoder(open_embedder(embedder), Lexical(language))


def _report(plan: SyncPlan, names: dict[str, str], *, dry_run: bool) -> SyncReport:
    def named(ids: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names[each] for each in ids)

    return SyncReport(
        created=named(plan.create),
        updated=named(plan.update),
        deleted=named(plan.delete),
        skipped=named(plan.skip),
        dry_run=dry_run,
    )
