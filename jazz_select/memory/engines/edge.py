"""Flows in Qdrant Edge: the engine in this process, its data in a folder, nothing else to run."""

import asyncio
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import qdrant_edge as qe

from jazz_select.memory.engines.folder import IndexFolder
from jazz_select.memory.engines.points import FINGERPRINT, LAYOUT, NOTE, NOTE_OF, Layout, note_key, point_key
from jazz_select.memory.engines.shard import Door, Shard, agent_filter, create_shard, to_point
from jazz_select.ports import FlowPoint, HybridQuery, Key, Legs
from jazz_select.threads import in_thread

_THREAD_FROM = 20_000
"""From this many flows on a search takes long enough (about 2 ms) to be worth a thread."""
_MOST_PAYLOADS, _MOST_AGENTS = 4_096, 1_024
"""Payloads that are kept, and agents of which it is kept where else their flows lie."""


class EdgeStore:
    """A `FlowStore` on embedded shards: one folder per layout, one writer."""

    shared = False

    def __init__(self, path: Path, layout: Layout) -> None:
        """Open the folder; the shard itself is made by the first write.

        Raises:
            IndexLockedError: The folder is open elsewhere.
            IndexUnusableError: It is corrupt, not writable, or no index.
        """
        self._folder = IndexFolder(path.expanduser())
        self._layout = layout
        self._door = Door(str(path))
        self._making = Lock()
        self._moving = Lock()
        self._elsewhere: dict[str, dict[str, int]] = {}
        self._payloads: dict[Key, dict[str, Any]] = {}
        home = self._folder.layout(layout.key)
        try:
            self._shard = Shard(home) if home.is_dir() else None
        except BaseException:
            self._folder.close()
            raise

    def key(self, agent_id: str, flow_id: str) -> Key:
        """A number that follows from both."""
        return point_key(agent_id, flow_id)

    async def fingerprints(self, agent_id: str) -> dict[str, str]:
        """Flow id to fingerprint."""
        return {payload["flow_id"]: payload[FINGERPRINT] for payload in await self.payloads(agent_id)}

    async def payloads(self, agent_id: str) -> list[dict[str, Any]]:
        """All payloads of this agent."""
        with self._door:
            return [] if self._shard is None else await in_thread(self._shard.scroll, agent_id)

    async def upsert(self, points: Sequence[FlowPoint]) -> None:
        """Write and flush."""
        if points:
            await in_thread(self._upsert, points)

    async def delete(self, agent_id: str, flow_ids: Collection[str]) -> None:
        """Remove and flush."""
        with self._door:
            if flow_ids and self._shard is not None:
                keys: list[qe.PointId] = [point_key(agent_id, each) for each in flow_ids]
                await in_thread(self._write, qe.UpdateOperation.delete_points(keys))

    async def search(self, queries: Sequence[HybridQuery]) -> list[Legs]:
        """Both arms of all queries in one batch."""
        with self._door:
            if self._shard is None:
                return [Legs(dense={}, bm25={}, payloads={}) for _ in queries]
            if self._shard.size < _THREAD_FROM:
                return self._shard.search(queries)
            return await in_thread(self._shard.search, queries)

    async def retrieve(self, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
        """Payloads by key, kept until the next write: the same few flows are asked for again and again."""
        with self._door:
            if self._shard is None:
                return {}
            known = self._payloads  # a write meanwhile puts another in its place, and this one is forgotten
            missing = [key for key in keys if key not in known]
            if not missing:
                return {key: known[key] for key in keys}
            if len(known) + len(missing) > _MOST_PAYLOADS:
                known = self._payloads = {}
                missing = list(keys)
            known.update(self._shard.retrieve(missing))
            return {key: known[key] for key in keys if key in known}

    async def read_note(self, agent_id: str) -> dict[str, Any] | None:
        """The agent's note, where there is one; it is large, and whoever reads it keeps what it says."""
        with self._door:
            found = {} if self._shard is None else self._shard.retrieve([note_key(agent_id)])
        return next((payload[NOTE] for payload in found.values()), None)

    async def write_note(self, agent_id: str, note: Mapping[str, Any]) -> None:
        """Write and flush."""
        point = qe.Point(note_key(agent_id), {}, {NOTE_OF: agent_id, NOTE: dict(note)})
        await in_thread(self._write, qe.UpdateOperation.upsert_points([point]))

    async def other_layouts(self, agent_id: str) -> dict[str, int]:
        """Layouts in the same folder that hold flows of this agent."""
        return await in_thread(self._other_layouts, agent_id)

    async def forget_other_layouts(self, agent_id: str) -> None:
        """Remove this agent's flows from them, and those that are empty then."""
        await in_thread(self._forget_other_layouts, agent_id)

    async def close(self) -> None:
        """Wait for calls that are under way, release the shard and unlock the folder; a second call does nothing."""
        await in_thread(self.release)

    def _upsert(self, points: Sequence[FlowPoint]) -> None:
        structs = [to_point(point, str(self._layout)) for point in points]
        self._write(qe.UpdateOperation.upsert_points(structs), agents={point.agent_id for point in points})

    def _write(self, operation: qe.UpdateOperation, *, agents: Collection[str] = ()) -> None:
        with self._door:
            with self._making:
                if self._shard is None:
                    home = self._folder.layout(self._layout.key)
                    create_shard(home, self._layout.dim)
                    self._shard = Shard(home)
            try:
                self._shard.write(operation, agents=agents)
            finally:
                self._payloads = {}

    def _other_layouts(self, agent_id: str) -> dict[str, int]:
        """Nobody else writes here, so what was found once stays true until this object moves it."""
        with self._door, self._moving:
            if agent_id not in self._elsewhere:
                if len(self._elsewhere) >= _MOST_AGENTS:
                    self._elsewhere.clear()
                found: dict[str, int] = {}
                for key in self._other_keys():
                    shard = Shard(self._folder.layout(key))
                    payloads = shard.scroll(agent_id)
                    shard.close()
                    if payloads:
                        found[str(payloads[0].get(LAYOUT, "an unknown embedder"))] = len(payloads)
                self._elsewhere[agent_id] = found
            return dict(self._elsewhere[agent_id])

    def _forget_other_layouts(self, agent_id: str) -> None:
        with self._door, self._moving:
            if self._elsewhere.get(agent_id) == {}:
                return
            for key in self._other_keys():
                shard = Shard(self._folder.layout(key))
                shard.write(qe.UpdateOperation.delete_points_by_filter(agent_filter(agent_id)))
                shard.write(qe.UpdateOperation.delete_points([note_key(agent_id)]))
                is_empty = not shard.has_flows
                shard.close()
                if is_empty:
                    shutil.rmtree(self._folder.layout(key), ignore_errors=True)
            self._elsewhere[agent_id] = {}

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
