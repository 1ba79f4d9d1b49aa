"""One shard of Qdrant Edge, with its life and its errors put in order. Synchronous; safe to use from many threads."""

import shutil
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, cast
from uuid import uuid4

import qdrant_edge as qe

from jazz_select.errors import IndexUnusableError, JazzSelectError
from jazz_select.memory.door import Door
from jazz_select.memory.edge_requests import agent_filter, shard_config, to_requests
from jazz_select.memory.points import AGENT, leg
from jazz_select.ports import HybridQuery, Key, Legs

_PAGE = 1_000
_REBUILD = "Flows live in your code: delete the folder, then run sync_registry (jazz-select sync)."


class Shard:
    """A shard on disk. One writer at a time; readers never wait for it."""

    def __init__(self, path: Path) -> None:
        """Load it.

        Raises:
            IndexUnusableError: The files are not those of a shard.
        """
        self._path = path
        self._door = Door(str(path))
        self._writing = Lock()
        self._generation = 0
        with engine_errors(path):
            self._shard = qe.EdgeShard.load(str(path))
            self._take_stock()

    def search(self, queries: Sequence[HybridQuery]) -> list[Legs]:
        """Both arms of all queries, planned by the engine as one batch.

        With one agent in the shard no query needs a filter, which halves the time. If another agent writes
        meanwhile, the answer may hold its flows, so it is thrown away and asked for again, filtered.
        """
        generation, only = self._generation, self._only_agent
        legs = self._search(queries, only=only)
        return legs if self._generation == generation else self._search(queries, only=None)

    def scroll(self, agent_id: str) -> list[dict[str, Any]]:
        """All payloads of this agent."""
        payloads: list[dict[str, Any]] = []
        offset: Any = None
        with self._door, engine_errors(self._path):
            while True:
                request = qe.ScrollRequest(offset=offset, limit=_PAGE, filter=agent_filter(agent_id), with_payload=True)
                records, offset = self._shard.scroll(request)
                payloads += [record.payload or {} for record in records]
                if offset is None:
                    return payloads

    def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Payloads by key."""
        with self._door, engine_errors(self._path):
            found = self._shard.retrieve(list(keys), with_payload=True, with_vector=False)
            return {cast("Key", record.id): record.payload or {} for record in found}

    def write(self, operation: qe.UpdateOperation, *, agents: Collection[str] = ()) -> None:
        """Apply and flush; `agents` are those whose flows it writes."""
        with self._door, self._writing, engine_errors(self._path):
            if any(agent != self._only_agent for agent in agents):
                self._only_agent = None
                self._generation += 1
            self._shard.update(operation)
            self._shard.flush()
            self._take_stock()

    @property
    def size(self) -> int:
        """How many points it holds."""
        return self._size

    @property
    def has_flows(self) -> bool:
        """False where nothing is left that belongs to any agent."""
        return self._has_flows

    def close(self) -> None:
        """Wait for calls that are under way, then release it; a second call does nothing."""
        if self._door.is_mine and self._door.shut():
            with engine_errors(self._path):
                self._shard.close()

    def _search(self, queries: Sequence[HybridQuery], *, only: str | None) -> list[Legs]:
        requests = [request for query in queries for request in to_requests(query, filtered=query.agent_id != only)]
        with self._door, engine_errors(self._path):
            results = iter(self._shard.query_batch(qe.QueryBatchRequest(requests)))
        found = [{arm: leg(next(results)) for arm in query.arms} for query in queries]
        return [Legs(dense=each.get("dense", {}), bm25=each.get("bm25", {}), payloads={}) for each in found]

    def _take_stock(self) -> None:
        self._size = self._shard.count(qe.CountRequest(exact=True))
        agents = self._shard.facet(qe.FacetRequest(key=AGENT, limit=2, exact=True)).hits
        self._has_flows = bool(agents)
        self._only_agent: str | None = str(agents[0].value) if len(agents) == 1 else None


def create_shard(path: Path, dim: int) -> None:
    """Make an empty shard beside its place and move it there whole, so that no crash leaves half a shard."""
    draft = path.with_name(f"{path.name}.{uuid4().hex[:8]}")
    with engine_errors(path):
        shard = qe.EdgeShard.create(str(draft), shard_config(dim))
        shard.update(qe.UpdateOperation.create_field_index(AGENT, qe.PayloadSchemaType.Keyword))
        shard.flush()
        shard.close()
    draft.rename(path)
    for leftover in path.parent.glob("*.*"):
        shutil.rmtree(leftover, ignore_errors=True)


@contextmanager
def engine_errors(path: Path) -> Generator[None]:
    """The engine raises bare `Exception`s, and panics as `BaseException`s: both say that it cannot use its files.

    Anything of another type is a mistake in how it was called, and passes as it is.
    """
    try:
        yield
    except JazzSelectError:
        raise
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        folder = path.parent.parent
        raise IndexUnusableError(str(folder), f"the engine says: {error}", advice=_REBUILD) from error
