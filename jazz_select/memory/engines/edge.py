"""Flows in Qdrant Edge: a vector engine in this process, with its data in a folder."""

import asyncio
import errno
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from threading import Condition, Lock, RLock
from typing import Any, cast
from uuid import uuid4

import orjson
import portalocker
import qdrant_edge as qe

from jazz_select.errors import DiskFullError, IndexLockedError, IndexUnusableError
from jazz_select.memory.engines.stored_points import (
    AGENT,
    NOTE,
    NOTE_OF,
    SPARSE,
    Kept,
    Layout,
    arms_of,
    dense_vectors,
    is_layout_key,
    is_of_layout,
    note_in,
    note_key,
    point_key,
    sparse_terms,
    stored_payload,
)
from jazz_select.memory.engines.temporary import TemporaryFolder, shared_memory
from jazz_select.memory.text_vectors import FILE_NAME
from jazz_select.ports import ArmHits, FlowPoint, HybridQuery, Key, SparseVector
from jazz_select.threads import in_thread

IN_MEMORY = ":memory:"
_MARKER = "jazz_index.json"
_LOCK = "lock"
_LAYOUTS = "layouts"
_FORMAT = 1
_DRAFT = "jazz_index.json.new"
_DRAFT_SHARD = re.compile(r"[0-9a-f]{12}\.[0-9a-f]{8}")
"""A shard that is being created. Other folders with a dot in their name, such as `….bak`, are somebody's."""
ROOM_TO_WRITE = 16_000_000
"""Bytes that must be free on the disk, in addition to what is written. The engine writes sparse files through a memory
map: where the disk has no block left for one, the operating system kills the process (SIGBUS) without an error."""
ROOM_TO_OPEN = 8_000_000
_NO_ROOM = frozenset({errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)})
_OURS = frozenset({_MARKER, _LOCK, _LAYOUTS, _DRAFT, FILE_NAME})


class _IndexFolder:
    """An index folder, locked by this object until `close`.

    The operating system releases the lock when the process ends, so a crash leaves nothing to clean up.
    """

    def __init__(self, path: Path) -> None:
        """Create the folder if it is missing, check it, and lock it."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            _check_contents(path)
            with ExitStack() as stack:
                self._lock = _lock(path)
                stack.callback(self.close)
                _write_marker(path)
                stack.pop_all()
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise _disk_full(path, ROOM_TO_OPEN) from error
            raise IndexUnusableError(
                str(path), f"it is not a folder that can be written ({error})", advice="Pass another path."
            ) from error

    def require_room(self, wanted: int) -> None:
        """Raise `DiskFullError` unless this many bytes are free."""
        if _free(self.path) < wanted:
            raise _disk_full(self.path, wanted)

    def layout(self, key: str) -> Path:
        return self.path / _LAYOUTS / key

    def layouts(self) -> list[str]:
        """Return the keys of the layouts here. Folders of other names, such as copies, are not this index's."""
        found = self.path.glob(f"{_LAYOUTS}/*")
        return sorted(entry.name for entry in found if is_layout_key(entry.name) and entry.is_dir())

    def close(self) -> None:
        self._lock.release()


def _disk_full(path: Path, wanted: int) -> DiskFullError:
    return DiskFullError(str(path), wanted=wanted, free=_free(path))


def _free(path: Path) -> int:
    try:
        return shutil.disk_usage(path).free
    except OSError:  # the file system does not report it
        return ROOM_TO_WRITE * 1_000


def _check_contents(path: Path) -> None:
    marker = path / _MARKER
    if marker.is_file():
        try:
            found = orjson.loads(marker.read_bytes()).get("format")
        except (ValueError, AttributeError) as error:
            raise IndexUnusableError(
                str(path), f"{_MARKER} is corrupt", advice="Delete the folder and sync again."
            ) from error
        if found != _FORMAT:
            raise IndexUnusableError(
                str(path), f"its format is {found!r}, this version reads {_FORMAT}", advice="Delete it and sync again."
            )
        return
    strangers = sorted(entry.name for entry in path.iterdir() if entry.name not in _OURS)
    if strangers:
        raise IndexUnusableError(
            str(path),
            f"it holds other things ({', '.join(strangers[:3])}) and no {_MARKER}",
            advice="Pass an empty folder or a new path.",
        )


def _lock(path: Path) -> portalocker.Lock:
    lock = portalocker.Lock(
        path / _LOCK, mode="a+", timeout=0, flags=portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
    )
    try:
        handle = lock.acquire()
    except portalocker.exceptions.LockException as error:
        raise IndexLockedError(str(path), holder=_holder(path)) from error
    handle.seek(0)
    handle.truncate()
    handle.write(str(os.getpid()))
    handle.flush()
    return lock


def _holder(path: Path) -> str:
    try:
        pid = int((path / _LOCK).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ""
    return "this process" if pid == os.getpid() else f"process {pid}"


def _write_marker(path: Path) -> None:
    marker = path / _MARKER
    if not marker.exists():
        draft = path / _DRAFT
        draft.write_bytes(orjson.dumps({"format": _FORMAT, "made_by": "jazz-select"}))
        draft.replace(marker)


_THREAD_FROM = 20_000
"""Number of flows from which a search takes long enough (about 2 ms) for a thread."""
_COPIES = 4
"""Maximum size on disk of a write, as a multiple of its data: in the log, in the segment, and in its indexes."""
_KEPT_AGENTS = 1_024
_PAGE = 1_000
_FULL = ("No space left", "os error 28", "Disk quota exceeded")
_LINKS = "mutable_id_tracker.mappings"
_SPARSE, _SPARE = 16, 100_000
"""Points get consecutive offsets. An offset up to `_SPARSE` times their number plus `_SPARE` costs little memory."""
_REBUILD = "Flows live in your code: delete the folder, then run sync_registry (jazz-select sync)."


_RECORDS = {1: (13, True), 2: (21, True), 3: (9, False), 4: (17, False)}
"""The engine's record types: the bytes that follow the type, and whether the record links a point to an offset. Linked
and unlinked, by number and by UUID."""


class _Gate:
    """Guards a resource: `with gate:` around each use, `shut()` before it is released.

    Entering raises `IndexUnusableError` once it is shut, and in a forked child: an engine's threads and locks do not
    survive a fork.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._lock = RLock()  # entered directly: half the cost of entering through the condition
        self._changed = Condition(self._lock)
        self._inside = 0
        self._shut = False
        self._owner = os.getpid()

    def __enter__(self) -> None:
        if os.getpid() != self._owner:
            raise IndexUnusableError(
                self._what,
                "it was opened before this process was forked",
                advice="Open it in the process that uses it.",
            )
        with self._lock:
            if self._shut:
                raise IndexUnusableError(self._what, "it is closed", advice="Open the memory again.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._shut:
                self._changed.notify_all()

    def shut(self) -> bool:
        """Refuse new entries and wait until all users have left; return False in a fork, or if it was shut before."""
        if os.getpid() != self._owner:
            return False
        with self._lock:
            first = not self._shut
            self._shut = True
            self._changed.wait_for(lambda: self._inside == 0)
            return first


def _shard_config(dense: Mapping[str, int]) -> qe.EdgeConfig:
    """Return the configuration of a shard: these dense vectors (length by name), and one sparse vector per flow.

    It searches in the calling thread. A shard is never optimised, so it is one segment, which threads cannot share;
    and waking another thread takes as long as searching a hundred flows, or milliseconds where all cores are busy.
    """
    return qe.EdgeConfig(
        vectors={name: qe.EdgeVectorParams(size=dim, distance=qe.Distance.Cosine) for name, dim in dense.items()},
        sparse_vectors={SPARSE: qe.EdgeSparseVectorParams()},
        max_search_threads=1,
    )


def _to_point(point: FlowPoint, layout: str) -> qe.Point:
    """Return the point of a flow: its vectors, and the payload that comes back with a hit."""
    vectors: dict[str, Any] = {SPARSE: _to_sparse(point.sparse), **dense_vectors(point)}
    return qe.Point(point_key(point.agent_id, point.flow_id), vectors, stored_payload(point, layout))


def _edge_requests(query: HybridQuery, *, filtered: bool) -> Iterator[qe.QueryRequest]:
    mine = _edge_filter(query.agent_id, query.exclude) if filtered or query.exclude else None
    for using, vector in arms_of(query):
        asked = _to_sparse(vector) if isinstance(vector, SparseVector) else list(vector)
        yield qe.QueryRequest(limit=query.depth, query=qe.Query.Nearest(asked, using=using), filter=mine)


def _edge_filter(agent_id: str, exclude: Sequence[str] = ()) -> qe.Filter:
    mine = qe.FieldCondition(key=AGENT, match=qe.MatchValue(agent_id))
    excluded: set[qe.PointId] = {point_key(agent_id, flow_id) for flow_id in exclude}
    return qe.Filter(must=[mine], must_not=[qe.HasIdCondition(excluded)] if excluded else None)


def _to_sparse(vector: SparseVector) -> qe.SparseVector:
    return qe.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _scores(found: Iterable[Any]) -> dict[Key, float]:
    return {point.id: point.score for point in found}


class Shard:
    """A shard on disk with one writer at a time; readers never wait for it."""

    def __init__(self, path: Path, dense: Mapping[str, int] | None = None) -> None:
        """Load the shard. `dense` (length by name) configures it like a new one, where it is known."""
        self._errors = _EngineErrors(path)
        self._writing = Lock()
        self._generation = 0
        _check_links(path)
        with self._errors:
            self._shard = qe.EdgeShard.load(str(path), None if dense is None else _shard_config(dense))
            self._take_stock()

    def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        """Search the vectors of all queries in one batch.

        With one agent in the shard no query needs a filter, which halves the time. If another agent writes meanwhile,
        the answer may hold that agent's flows: discard it, and search again with filters.
        """
        generation, only = self._generation, self._only_agent
        legs = self._search(queries, only=only)
        if self._generation != generation:
            return self._search(queries, only=None)
        return legs

    def scroll(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return all payloads of this agent, by key."""
        found = self._records(agent_id, with_payload=True)
        return {cast("Key", record.id): record.payload or {} for record in found}

    def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """Return the token ids of each of this agent's first `limit` flows."""
        found = self._records(agent_id, with_payload=False, with_vector=[SPARSE])
        return [sparse_terms(record.vector) for record in islice(found, limit)]

    def _records(self, agent_id: str, **held: Any) -> Iterator[qe.Record]:
        """Yield this agent's flows by ascending key, with the requested parts."""
        mine, offset = _edge_filter(agent_id), None
        with self._errors:
            while True:
                request = qe.ScrollRequest(offset=offset, limit=_PAGE, filter=mine, **held)
                records, offset = self._shard.scroll(request)
                yield from records
                if offset is None:
                    return

    def count(self, agent_id: str) -> int:
        """Return the number of this agent's flows."""
        with self._errors:
            return self._shard.count(qe.CountRequest(filter=_edge_filter(agent_id), exact=True))

    def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return payloads by key."""
        with self._errors:
            found = self._shard.retrieve(list(keys), with_payload=True, with_vector=False)
            return {cast("Key", record.id): record.payload or {} for record in found}

    @property
    def has_only_notes(self) -> bool:
        """Whether nothing is left but what was noted of agents."""
        with self._errors:
            others = qe.Filter(must=[qe.IsEmptyCondition(NOTE_OF)])
            return self._shard.count(qe.CountRequest(filter=others, exact=True)) == 0

    def write(self, operation: qe.UpdateOperation, *, agents: Collection[str] = ()) -> None:
        """Apply an operation and flush; `agents` are those whose flows it writes."""
        with self._writing, self._errors:
            if any(agent != self._only_agent for agent in agents):
                self._only_agent = None
                self._generation += 1
            self._shard.update(operation)
            self._shard.flush()
            self._take_stock()

    def close(self) -> None:
        """Release the shard."""
        with self._errors:
            self._shard.close()

    def _search(self, queries: Sequence[HybridQuery], *, only: str | None) -> list[ArmHits]:
        requests: list[qe.QueryRequest] = []
        for query in queries:
            # A shard with one agent needs no filter for it.
            requests.extend(_edge_requests(query, filtered=query.agent_id != only))
        with self._errors:
            results = iter(self._shard.query_batch(qe.QueryBatchRequest(requests)))
        found: list[ArmHits] = []
        for query in queries:
            # The results come in the order of the requests: the dense one before the sparse one.
            dense = {} if query.dense is None else _scores(next(results))
            bm25 = {} if query.sparse is None else _scores(next(results))
            found.append(ArmHits(dense=dense, bm25=bm25, payloads={}))
        return found

    def _take_stock(self) -> None:
        self.size = self._shard.count(qe.CountRequest(exact=True))
        agents = self._shard.facet(qe.FacetRequest(key=AGENT, limit=2, exact=True)).hits
        self._only_agent: str | None = str(agents[0].value) if len(agents) == 1 else None


def _create_shard(path: Path, dense: Mapping[str, int]) -> None:
    """Create an empty shard in a temporary folder and rename it, so that no crash leaves half a shard."""
    draft = path.with_name(f"{path.name}.{uuid4().hex[:8]}")
    with _EngineErrors(path):
        shard = qe.EdgeShard.create(str(draft), _shard_config(dense))
        shard.update(qe.UpdateOperation.create_field_index(AGENT, qe.PayloadSchemaType.Keyword))
        shard.flush()
        shard.close()
    draft.rename(path)
    for leftover in path.parent.glob("*.*"):
        if _DRAFT_SHARD.fullmatch(leftover.name):
            shutil.rmtree(leftover, ignore_errors=True)


def _check_links(path: Path) -> None:
    """Refuse damaged files that would have the engine reserve memory for points that were never written.

    A corrupt offset makes the engine allocate that much memory, and the process ends where the allocation fails.
    """
    for file in path.glob(f"segments/*/{_LINKS}"):
        try:
            data = file.read_bytes()
        except OSError:
            continue  # the engine reports it on load
        written, farthest, at = 0, 0, 0
        while at < len(data) and data[at] in _RECORDS:
            size, links = _RECORDS[data[at]]
            end = at + size
            if links and end <= len(data):
                written += 1
                farthest = max(farthest, int.from_bytes(data[end - 4 : end], "little"))
            at = end
        if farthest > _SPARSE * written + _SPARE:
            problem = f"{file.name} names place {farthest} and has {written} flows"
            raise IndexUnusableError(str(path.parent.parent), problem, advice=_REBUILD)


class _EngineErrors:
    """`with _EngineErrors(path):` around each use of the engine, on the shard at this path.

    The engine raises bare `Exception`s, and panics as `BaseException`s: both mean that it cannot use its files. Other
    types are mistakes of the caller, and pass.
    """

    def __init__(self, path: Path) -> None:
        self._folder = path.parent.parent

    def __enter__(self) -> None:
        """Do nothing. A class, not a generator, since each search passes here."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None or (kind is not Exception and kind.__name__ != "PanicException"):
            return
        if any(sign in str(error) for sign in _FULL):
            raise _disk_full(self._folder, ROOM_TO_WRITE) from error
        raise IndexUnusableError(str(self._folder), f"the engine says: {error}", advice=_REBUILD) from error


class EdgeStore:
    """A `FlowStore` on embedded shards: a folder per layout, one writer."""

    shared = False

    def __init__(self, path: Path | None, layout: Layout) -> None:
        """Open the folder, or a temporary one for None; the first write creates the shard.

        Raises:
            IndexLockedError: The folder is open elsewhere.
            IndexUnusableError: It is corrupt, not writable, or no index.
            DiskFullError: There is no room to open it.
        """
        if path is None:
            self._temporary = TemporaryFolder(shared_memory())
            self._folder = _IndexFolder(self._temporary.path)
        else:
            self._temporary = None
            self._folder = _IndexFolder(path.expanduser())
        self._layout = layout
        self._door = _Gate(str(path or IN_MEMORY))
        self._making = Lock()
        self._moving = Lock()
        self._settled = set[str]()  # agents without flows in other layouts
        self._kept = Kept()
        home = self._folder.layout(layout.key)
        try:
            self._shard = self._load(home, layout.dense) if home.is_dir() else None
        except BaseException:
            self._folder.close()
            raise

    def key(self, agent_id: str, flow_id: str) -> Key:
        """Return the key of a flow."""
        return point_key(agent_id, flow_id)

    async def payloads(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """Return all payloads of this agent."""
        with self._door:
            return {} if self._shard is None else await in_thread(self._shard.scroll, agent_id)

    async def count(self, agent_id: str) -> int:
        """Return the number of this agent's flows."""
        with self._door:
            return 0 if self._shard is None else self._shard.count(agent_id)

    async def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """Return the token ids of each flow."""
        with self._door:
            return [] if self._shard is None else await in_thread(self._shard.terms, agent_id, limit)

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and flush."""
        if points:
            await in_thread(self._upsert, points)

    async def delete(self, agent_id: str, keys: Collection[Key]) -> None:  # noqa: ARG002 - keys say whose they are
        """Remove and flush."""
        with self._door:
            if keys and self._shard is not None:
                points: list[qe.PointId] = [*keys]
                await in_thread(self._write, qe.UpdateOperation.delete_points(points))

    async def search(self, queries: Sequence[HybridQuery]) -> list[ArmHits]:
        """Search the vectors of all queries in one batch."""
        with self._door:
            if self._shard is None:
                return [ArmHits(dense={}, bm25={}, payloads={}) for _ in queries]
            if self._shard.size < _THREAD_FROM:
                return self._shard.search(queries)
            return await in_thread(self._shard.search, queries)

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Return payloads by key, from the cache where nothing was written since."""
        with self._door:
            if self._shard is None:
                return {}
            kept = self._kept = self._kept.current()
            found = kept.cached_payloads(keys)
            missing = [key for key in keys if key not in found]
            if missing:
                fetched = self._shard.retrieve(missing)
                found |= fetched
                kept.known.update(fetched)
            return found

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """Return the agent's note, if any."""
        with self._door:
            found = {} if self._shard is None else self._shard.retrieve([note_key(agent_id)])
        return next((note_in(payload, agent_id) for payload in found.values()), None)

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Write and flush."""
        point = qe.Point(note_key(agent_id), {}, {NOTE_OF: agent_id, NOTE: dict(note)})
        await in_thread(self._write, qe.UpdateOperation.upsert_points([point]), size=len(repr(note)))

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the agent's payloads in other layouts of the folder."""
        return await in_thread(self._read_other_layouts, agent_id)

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from other layouts, and layouts that are empty then."""
        await in_thread(self._forget_other_layouts, agent_id)

    async def close(self) -> None:
        """Wait for running calls, release the shard and unlock the folder; a second call does nothing."""
        await in_thread(self.release)

    def _upsert(self, points: Sequence[FlowPoint]) -> None:
        structs = [_to_point(point, str(self._layout)) for point in points]
        operation = qe.UpdateOperation.upsert_points(structs)
        size = 4 * sum(self._layout.dense.values()) * len(points)
        size += sum(8 * len(point.sparse.indices) + 2 * len(repr(point.payload)) for point in points)
        self._write(operation, agents={point.agent_id for point in points}, size=size)

    def _load(self, home: Path, dense: Mapping[str, int] | None = None) -> Shard:
        self._folder.require_room(ROOM_TO_OPEN)
        return Shard(home, dense)

    def _write(self, operation: qe.UpdateOperation, *, agents: Collection[str] = (), size: int = 0) -> None:
        with self._door:
            self._folder.require_room(ROOM_TO_WRITE + _COPIES * size)
            with self._making:
                if self._shard is None:
                    home = self._folder.layout(self._layout.key)
                    _create_shard(home, self._layout.dense)
                    self._shard = Shard(home, self._layout.dense)
            try:
                self._shard.write(operation, agents=agents)
            finally:
                self._kept = Kept()

    def _read_other_layouts(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the agent's payloads elsewhere; remember agents without any, since nobody else writes here."""
        found: list[dict[str, Any]] = []
        with self._door, self._moving:
            if agent_id in self._settled:
                return found
            for key in self._other_keys():
                shard = self._load(self._folder.layout(key))
                try:
                    found += _own_points(shard, agent_id, key).values()
                finally:
                    shard.close()
            if not found:
                self._settle(agent_id)
        return found

    def _settle(self, agent_id: str) -> None:
        if len(self._settled) >= _KEPT_AGENTS:
            self._settled.clear()
        self._settled.add(agent_id)

    def _forget_other_layouts(self, agent_id: str) -> None:
        with self._door, self._moving:
            if agent_id in self._settled:
                return
            for key in self._other_keys():
                self._folder.require_room(ROOM_TO_WRITE)
                shard = self._load(self._folder.layout(key))
                try:
                    own = list(_own_points(shard, agent_id, key))
                    if own:
                        noted = shard.retrieve([note_key(agent_id)])
                        own += [at for at, payload in noted.items() if note_in(payload, agent_id) is not None]
                        points: list[qe.PointId] = [*own]
                        shard.write(qe.UpdateOperation.delete_points(points))
                    is_empty = bool(own) and shard.has_only_notes
                finally:
                    shard.close()
                if is_empty:
                    shutil.rmtree(self._folder.layout(key), ignore_errors=True)
            self._settle(agent_id)

    def _other_keys(self) -> list[str]:
        return [key for key in self._folder.layouts() if key != self._layout.key]

    def release(self) -> None:
        """Do what `close` does, without a loop."""
        if not self._door.shut():
            return
        try:
            if self._shard is not None:
                self._shard.close()
        finally:
            self._folder.close()
            if self._temporary is not None:
                self._temporary.remove()


def _own_points(shard: Shard, agent_id: str, key: str) -> dict[Key, dict[str, Any]]:
    """Return the points of an agent in another layout that are this index's, by their own word."""
    return {at: payload for at, payload in shard.scroll(agent_id).items() if is_of_layout(payload, key)}


async def open_edge_store(path: Path | None, layout: Layout) -> EdgeStore:
    """Open a store without blocking the loop; a cancelled caller leaves nothing open."""
    opening = asyncio.ensure_future(asyncio.to_thread(EdgeStore, path, layout))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(opening: "asyncio.Future[EdgeStore]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().release()
