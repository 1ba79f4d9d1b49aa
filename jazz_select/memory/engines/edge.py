"""Flows in Qdrant Edge: the engine in this process, its data in a folder, nothing else to run."""

import asyncio
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import qdrant_edge as qe

from jazz_select.memory.engines.folder import ROOM_TO_OPEN, ROOM_TO_WRITE, IndexFolder
from jazz_select.memory.engines.points import (
    FINGERPRINT,
    LAYOUT,
    NOTE,
    NOTE_OF,
    Layout,
    Payloads,
    fault_at,
    note_in,
    note_key,
    note_keys,
    point_key,
)
from jazz_select.memory.engines.shard import Door, Shard, agent_filter, create_shard, to_point
from jazz_select.ports import FlowPoint, HybridQuery, Key, Legs
from jazz_select.threads import in_thread

_THREAD_FROM = 20_000
"""From this many flows on a search takes long enough (about 2 ms) to be worth a thread."""
_COPIES = 4
"""What is written takes so many times its size on disk, at most: in the log, in its place, and what indexes it."""
_KEPT_AGENTS = 1_024


class EdgeStore:
    """A `FlowStore` on embedded shards: one folder per layout, one writer."""

    shared = False

    def __init__(self, path: Path, layout: Layout) -> None:
        """Open the folder; the shard itself is made by the first write.

        Raises:
            IndexLockedError: The folder is open elsewhere.
            IndexUnusableError: It is corrupt, not writable, or no index.
            DiskFullError: There is no room to open it.
        """
        self._folder = IndexFolder(path.expanduser())
        self._layout = layout
        self._door = Door(str(path))
        self._making = Lock()
        self._moving = Lock()
        self._elsewhere: dict[str, dict[str, int]] = {}
        self._payloads = Payloads()
        home = self._folder.layout(layout.key)
        try:
            self._shard = self._load(home, layout.dense) if home.is_dir() else None
        except BaseException:
            self._folder.close()
            raise

    def key(self, agent_id: str, flow_id: str) -> Key:
        """A number that follows from both."""
        return point_key(agent_id, flow_id)

    async def fingerprints(self, agent_id: str) -> dict[str, str]:
        """Flow id to fingerprint."""
        found = (await self.payloads(agent_id)).items()
        readable = (each for key, each in found if not fault_at(self, agent_id, key, each))
        return {each["flow_id"]: str(each.get(FINGERPRINT)) for each in readable}

    async def payloads(self, agent_id: str) -> dict[Key, dict[str, Any]]:
        """All payloads of this agent."""
        with self._door:
            return {} if self._shard is None else await in_thread(self._shard.scroll, agent_id)

    async def count(self, agent_id: str) -> int:
        """How many flows there are."""
        with self._door:
            return 0 if self._shard is None else self._shard.count(agent_id)

    async def terms(self, agent_id: str, limit: int) -> list[tuple[int, ...]]:
        """The token ids of each flow."""
        with self._door:
            return [] if self._shard is None else await in_thread(self._shard.terms, agent_id, limit)

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and flush."""
        if points:
            await in_thread(self._upsert, points)

    async def delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        """Remove and flush."""
        await self.discard(agent_id, [point_key(agent_id, each) for each in flow_ids])

    async def discard(self, agent_id: str, keys: Collection[Key]) -> None:  # noqa: ARG002 - keys say whose they are
        """Remove and flush."""
        with self._door:
            if keys and self._shard is not None:
                points: list[qe.PointId] = [*keys]
                await in_thread(self._write, qe.UpdateOperation.delete_points(points))

    async def search(self, queries: Sequence[HybridQuery]) -> list[Legs]:
        """Both arms of all queries in one batch."""
        with self._door:
            if self._shard is None:
                return [Legs(dense={}, bm25={}, payloads={}) for _ in queries]
            if self._shard.size < _THREAD_FROM:
                return self._shard.search(queries)
            return await in_thread(self._shard.search, queries)

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Payloads by key, from what was read before where nothing was written since."""
        with self._door:
            if self._shard is None:
                return {}
            kept = self._payloads.kept()
            found = kept.of(keys)
            if missing := [key for key in keys if key not in found]:
                fetched = self._shard.retrieve(missing)
                found |= fetched
                kept.add(fetched)
            return found

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """The agent's note, where there is one."""
        with self._door:
            found = {} if self._shard is None else self._shard.retrieve([note_key(agent_id)])
        return next((note_in(payload, agent_id) for payload in found.values()), None)

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Write and flush."""
        point = qe.Point(note_key(agent_id), {}, {NOTE_OF: agent_id, NOTE: dict(note)})
        await in_thread(self._write, qe.UpdateOperation.upsert_points([point]), size=len(repr(note)))

    async def other_layouts(self, agent_id: str) -> dict[str, int]:
        """Layouts in the same folder that hold flows of this agent."""
        return await in_thread(self._other_layouts, agent_id)

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        """What they hold."""
        if not await self.other_layouts(agent_id):
            return []
        return await in_thread(self._elsewhere_of, agent_id)

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from them, and those that are empty then."""
        await in_thread(self._forget_other_layouts, agent_id)

    async def close(self) -> None:
        """Wait for calls that are under way, release the shard and unlock the folder; a second call does nothing."""
        await in_thread(self.release)

    def _upsert(self, points: Sequence[FlowPoint]) -> None:
        structs = [to_point(point, str(self._layout)) for point in points]
        operation = qe.UpdateOperation.upsert_points(structs)
        self._write(operation, agents={point.agent_id for point in points}, size=sum(map(self._size_of, points)))

    def _size_of(self, point: FlowPoint) -> int:
        return 4 * sum(self._layout.dense.values()) + 8 * len(point.sparse.indices) + 2 * len(repr(point.payload))

    def _load(self, home: Path, dense: Mapping[str, int] | None = None) -> Shard:
        self._folder.require_room(ROOM_TO_OPEN)
        return Shard(home, dense)

    def _write(self, operation: qe.UpdateOperation, *, agents: Collection[str] = (), size: int = 0) -> None:
        with self._door:
            self._folder.require_room(ROOM_TO_WRITE + _COPIES * size)
            with self._making:
                if self._shard is None:
                    home = self._folder.layout(self._layout.key)
                    create_shard(home, self._layout.dense)
                    self._shard = Shard(home, self._layout.dense)
            try:
                self._shard.write(operation, agents=agents)
            finally:
                self._payloads.forget()

    def _other_layouts(self, agent_id: str) -> dict[str, int]:
        """Nobody else writes here, so what was found once stays true until this object moves it."""
        with self._door, self._moving:
            known = self._elsewhere.get(agent_id)
            if known is None:
                known = dict[str, int]()
                for payloads in self._scrolled_elsewhere(agent_id):
                    if payloads:
                        name = str(next(iter(payloads)).get(LAYOUT, "an unknown embedder"))
                        known[name] = known.get(name, 0) + len(payloads)
                self._remember(agent_id, known)
            return dict(known)

    def _elsewhere_of(self, agent_id: str) -> list[dict[str, Any]]:
        with self._door, self._moving:
            return [payload for payloads in self._scrolled_elsewhere(agent_id) for payload in payloads]

    def _scrolled_elsewhere(self, agent_id: str) -> Iterator[list[dict[str, Any]]]:
        for key in self._other_keys():
            shard = self._load(self._folder.layout(key))
            try:
                yield list(shard.scroll(agent_id).values())
            finally:
                shard.close()

    def _remember(self, agent_id: str, found: dict[str, int]) -> None:
        if len(self._elsewhere) >= _KEPT_AGENTS:
            self._elsewhere.clear()
        self._elsewhere[agent_id] = found

    def _forget_other_layouts(self, agent_id: str) -> None:
        with self._door, self._moving:
            if self._elsewhere.get(agent_id) == {}:
                return
            for key in self._other_keys():
                self._folder.require_room(ROOM_TO_WRITE)
                shard = self._load(self._folder.layout(key))
                shard.write(qe.UpdateOperation.delete_points_by_filter(agent_filter(agent_id)))
                notes = shard.retrieve(note_keys(agent_id))
                own: list[qe.PointId] = [at for at, each in notes.items() if note_in(each, agent_id) is not None]
                shard.write(qe.UpdateOperation.delete_points(own))
                is_empty = not shard.has_flows
                shard.close()
                if is_empty:
                    shutil.rmtree(self._folder.layout(key), ignore_errors=True)
            self._remember(agent_id, {})

    def _other_keys(self) -> list[str]:
        return [key for key in self._folder.layouts() if key != self._layout.key]

    def release(self) -> None:
        """`close`, for callers without a loop."""
        if not self._door.is_mine or not self._door.shut():
            return
        try:
            if self._shard is not None:
                self._shard.close()
        finally:
            self._folder.close()


async def open_edge_store(path: Path, layout: Layout) -> EdgeStore:
    """Open one without blocking the loop; a cancelled caller leaves nothing open."""
    opening = asyncio.ensure_future(asyncio.to_thread(EdgeStore, path, layout))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(opening: "asyncio.Future[EdgeStore]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().release()
