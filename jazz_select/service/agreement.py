"""How replicas of a service agree on a catalogue: all switch to another version together, or none does.

A replica that has read changed files reports it and waits. Once all live replicas have read the same files, one of them
syncs the index and records its version, and all of them switch. A replica that starts with other files than those in
the index writes nothing: `jazz-select sync` publishes files that no running replica has.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from jazz_select.errors import DatabaseError, JazzSelectError, OtherFilesError
from jazz_select.evaluation.overlay import Overlay, examples_of
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import canonical_bytes
from jazz_select.postgres.catalogues import CatalogueVersion, SharedCatalogue
from jazz_select.service.source_files import look, source_location
from jazz_select.text import describe_error
from jazz_select.threads import in_thread

if TYPE_CHECKING:
    from jazz_select.memory.sync import SyncReport

_AGREE_S: Final = 10.0
"""How long a change waits for the replicas that do not have it yet; after that it is tried again."""
_LOOK_S: Final = 0.2
"""How often it checks meanwhile if no notice comes."""
_BEAT_S: Final = 1.0
_AGAIN_S: Final = 5.0
"""Between two attempts to load the same files for the same version."""
_log = logging.getLogger(__name__)


def catalogue_digest(flows: str | None, registry: Mapping[str, BaseFlow], learned: Overlay | None) -> str:
    """Return a digest of a catalogue: of its files, of the flows as they were read, of what was learned. Blocking.

    It is the same wherever the files lie. The flows count too, since a file may change while it is read.

    Args:
        flows: Where they are; None where they are in no file.
        registry: The flows as they were read.
        learned: What was learned for them.
    """
    place = None if flows is None else source_location(flows)
    found: list[tuple[str, str]] = []
    if place is not None and flows is not None:
        for path, *_ in look([flows]):
            name = os.path.relpath(path, place) if Path(place).is_dir() else Path(path).name
            found.append((Path(name).as_posix(), sha256(Path(path).read_bytes()).hexdigest()))
    checksums = sorted((each.id, each.compute_checksum()) for each in registry.values())
    live = None if learned is None else learned.version("live")
    texts = {flow: sorted(texts) for flow, texts in sorted(examples_of(live).items()) if texts}
    return sha256(canonical_bytes([sorted(found), checksums, texts])).hexdigest()


class LiveFlows(Protocol):
    """The flows that answer now."""

    @property
    def registry(self) -> Mapping[str, BaseFlow]:
        """The flows, by id."""
        ...


class SwitchingCatalogue(Protocol):
    """The catalogue of a replica: what answers now, and how it reads what is new.

    Attributes:
        problem: Why the newest files do not answer; empty if they do.
    """

    problem: str

    @property
    def live(self) -> LiveFlows:
        """What answers now."""
        ...

    def learned_now(self) -> Overlay | None:
        """Return what was learned, as it is stored now. Blocking."""
        ...

    async def reload(self) -> Any:
        """Read the files again, and answer with them."""
        ...


class Agreement:
    """What one replica does to agree with the others on the catalogue of one agent.

    Attributes:
        live: The digest of what this replica answers with; empty before it answers.
    """

    def __init__(self, catalogue: SharedCatalogue, flows: str | None = None) -> None:
        """Agree by what the database says of a catalogue; `flows` is where its files are, if in any."""
        self.live = ""
        self._catalogue, self._flows = catalogue, flows
        self._prepared = ""
        self._notified = asyncio.Event()

    def digest(self, registry: Mapping[str, BaseFlow], learned: Overlay | None) -> str:
        """Return the digest of what this replica has read. Blocking."""
        return catalogue_digest(self._flows, registry, learned)

    async def reach(self, digest: str, flows: int, sync: Callable[[], Awaitable["SyncReport"]]) -> "SyncReport | None":
        """Return once the index holds this version: what the sync did, or None where another replica's did.

        Args:
            digest: Of what this replica has read, and is ready to answer with.
            flows: How many there are.
            sync: Brings the index to it; called by one replica, while no other writes.

        Raises:
            OtherFilesError: The index holds something else, and other replicas do not have these files.
            DatabaseError: The database cannot be used.
        """
        self._prepared = digest
        try:
            return await self._reach(digest, flows, sync)
        except BaseException:
            self._prepared = ""
            raise

    async def _reach(self, digest: str, flows: int, sync: Callable[[], Awaitable["SyncReport"]]) -> "SyncReport | None":
        if self.live:  # one that does not answer yet, and may never, keeps no change waiting
            await self._catalogue.report(digest, is_news=True)
        until = asyncio.get_running_loop().time() + _AGREE_S
        while True:
            self._notified.clear()
            current = await self._catalogue.current()
            if current is not None and current.digest == digest:
                return None
            self._check_may_write(current)
            differing = [name for name, theirs in (await self._catalogue.others()).items() if theirs != digest]
            if current is None or not differing:
                return await self._write_index(digest, flows, sync)
            if asyncio.get_running_loop().time() >= until:
                raise OtherFilesError(self._catalogue.scope, version=current.number, replicas=differing)
            await self._wait(_LOOK_S)

    async def _write_index(
        self, digest: str, flows: int, sync: Callable[[], Awaitable["SyncReport"]]
    ) -> "SyncReport | None":
        async with self._catalogue.syncing() as current:
            if current is not None and current.digest == digest:
                return None
            self._check_may_write(current)
            report = await sync()
            number = await self._catalogue.publish(digest, flows)
        _log.info("agent %s: this replica wrote version %d of the catalogue", self._catalogue.scope, number)
        return report

    def _check_may_write(self, current: CatalogueVersion | None) -> None:
        """Raise unless this replica answers with what the index holds, so that its files are a change of that."""
        if current is not None and current.digest != self.live:
            raise OtherFilesError(self._catalogue.scope, version=current.number, synced_by=current.synced_by)

    async def restore_index(
        self, restore: Callable[[], Awaitable[None]], is_there: Callable[[], Awaitable[bool]]
    ) -> None:
        """Have one replica restore an index that was lost, if this one answers with the version that it held.

        Raises:
            OtherFilesError: This replica answers with something else.
            DatabaseError: The database cannot be used.
        """
        async with self._catalogue.syncing() as current:
            self._check_may_write(current)
            if not await is_there():
                await restore()

    def switch(self, digest: str) -> None:
        """Note that this replica answers with this version from now on."""
        self.live, self._prepared = digest, ""

    def notify(self) -> None:
        """Check for a new version now: something changed."""
        self._notified.set()

    async def follow(self, running: "SwitchingCatalogue") -> None:
        """Report that this replica is alive, and follow the others to another version, until cancelled."""
        tried: tuple[int, float] = (0, 0.0)
        while True:
            is_notified = self._notified.is_set()
            self._notified.clear()
            try:
                if self.live:
                    await self._catalogue.report(self._prepared or self.live, is_news=False)
                    current = await self._catalogue.current()
                    number = 0 if current is None else current.number
                    is_behind = current is not None and current.digest != self.live
                    now = asyncio.get_running_loop().time()
                    is_untried = number != tried[0] or now - tried[1] >= _AGAIN_S
                    if not self._prepared and (is_notified or is_behind) and is_untried:
                        tried = (number, now)
                        await self._follow(running, current if is_behind else None)
            except Exception as error:  # noqa: BLE001 - an author's code may raise anything, and the replica lives on
                problem = str(error) if isinstance(error, JazzSelectError) else describe_error(error)
                _log.warning("agent %s: what was before still answers: %s", self._catalogue.scope, problem)
            await self._wait(_BEAT_S)

    async def _follow(self, running: "SwitchingCatalogue", ahead: CatalogueVersion | None) -> None:
        """Reload the catalogue if its files, or what was learned, differ from what answers.

        If they do not, but the index holds another version, `ahead`, report it: somebody published other files.
        """
        learned = await in_thread(running.learned_now)
        if await in_thread(self.digest, running.live.registry, learned) != self.live:
            await running.reload()
        elif ahead is not None:
            problem = OtherFilesError(self._catalogue.scope, version=ahead.number, synced_by=ahead.synced_by)
            if running.problem != str(problem):
                running.problem = str(problem)
                _log.warning("agent %s: %s", self._catalogue.scope, problem)

    async def leave(self) -> None:
        """Report that this replica has stopped."""
        try:
            await self._catalogue.leave()
        except DatabaseError as error:
            _log.debug("error=<%s> | the others will notice by themselves", error)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._notified.wait()
        except TimeoutError:
            return
