"""What replicas of a service share in PostgreSQL, for each agent: claims, its log, what was learned, conversations."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from os import getpid
from secrets import token_hex
from socket import gethostname
from typing import Final

from pydantic import ValidationError

from jazz_select.errors import ConfigError, DatabaseError
from jazz_select.evaluation.overlay import Overlay
from jazz_select.flow.base import BaseFlow
from jazz_select.outcomes import OutcomeLog
from jazz_select.postgres.catalogues import SharedCatalogue
from jazz_select.postgres.claims import PostgresClaims
from jazz_select.postgres.connection import Database
from jazz_select.postgres.conversations import Conversations, forget_expired
from jazz_select.postgres.documents import Documents
from jazz_select.postgres.log_store import PostgresLogStore
from jazz_select.postgres.notices import Notice, concerns, listen
from jazz_select.service.agreement import Agreement, catalogue_digest
from jazz_select.settings import IN_DATABASE, Settings
from jazz_select.threads import in_thread

_LEARNED: Final = "learned"
_SECRET: Final = "secret"  # noqa: S105 - the name of a document
_SERVICE: Final = ""
"""The scope of what belongs to no agent: no agent has an empty name."""
_SECRET_BYTES: Final = 32
_DAY_S: Final = 86_400.0
_log = logging.getLogger(__name__)


class OverlayDocument:
    """An `OverlayStore` in the database: a change is live in all replicas, which are told of it."""

    def __init__(self, documents: Documents) -> None:
        """Use the documents of one agent."""
        self._documents = documents

    @property
    def name(self) -> str:
        """The place of the database."""
        return self._documents.place

    @property
    def is_begun(self) -> bool:
        """Whether anything was ever learned there."""
        return self._documents.read(_LEARNED) is not None

    def load(self) -> Overlay:
        """Return what is there now.

        Raises:
            ConfigError: It is something else.
            DatabaseError: It cannot be read.
        """
        return self._parse_overlay(self._documents.read(_LEARNED))

    def change(self, change: Callable[[Overlay], Overlay]) -> Overlay:
        """Change what is there.

        Raises:
            ConfigError: It is something else.
            DatabaseError: It cannot be read or written. Errors of `change` pass through.
        """
        made: list[Overlay] = []

        def change_content(content: str | None) -> str | None:
            before = self._parse_overlay(content)
            after = change(before)
            made[:] = [after]
            return None if after is before else after.model_dump_json()

        self._documents.change(_LEARNED, change_content)
        return made[0]

    def _parse_overlay(self, content: str | None) -> Overlay:
        if content is None:
            return Overlay()
        try:
            return Overlay.model_validate_json(content)
        except ValidationError as error:
            msg = f"what was learned in {self.name} cannot be read: somebody changed it by hand, so restore a backup"
            raise ConfigError(msg) from error


class SharedState:
    """All that the replicas of a service share beside their index."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self.database = database
        self.replica = f"{gethostname()}-{getpid()}-{token_hex(2)}"
        self._agreements: dict[str, Agreement] = {}

    def claims(self, agent_id: str) -> PostgresClaims:
        """Return the claims of an agent."""
        return PostgresClaims(self.database, agent_id)

    def log(self, agent_id: str, *, hourly_bytes: int | None = None) -> OutcomeLog:
        """Open the log of an agent; close it, so that what is queued is written."""
        return OutcomeLog.of_store(PostgresLogStore(self.database, agent_id), hourly_bytes=hourly_bytes)

    def learned_examples(self, agent_id: str) -> OverlayDocument:
        """Return what was learned for an agent."""
        return OverlayDocument(Documents(self.database, agent_id))

    def conversations(self, agent_id: str, key: str, *, kept_s: float) -> Conversations:
        """Return the conversations of one key of an agent."""
        return Conversations(self.database, f"{agent_id}\x1f{key}", kept_s=kept_s)

    def catalogue(self, agent_id: str) -> SharedCatalogue:
        """Return what the database says of an agent's catalogue."""
        return SharedCatalogue(self.database, agent_id, self.replica)

    def agreement(self, agent_id: str, flows: str | None) -> Agreement:
        """Return what makes this replica agree with the others on an agent's catalogue."""
        made = self._agreements[agent_id] = Agreement(self.catalogue(agent_id), flows)
        return made

    async def listen(self) -> None:
        """Pass the notices of other replicas on, until cancelled."""

        async def forward(notice: Notice | None) -> None:
            for agent_id, each in self._agreements.items():
                if notice is None or concerns(notice, agent_id):
                    each.notify()

        await listen(self.database, forward)

    async def secret(self) -> bytes:
        """Return the key that conversations are signed with, which the first replica made."""
        return bytes.fromhex(await Documents(self.database, _SERVICE).first(_SECRET, token_hex(_SECRET_BYTES)))


@asynccontextmanager
async def open_shared_state(settings: Settings) -> AsyncGenerator[SharedState]:
    """Open the database of the settings.

    Raises:
        ConfigError: There is none, or its address is none, or the index is a folder of one process.
        DatabaseError: The database cannot be used.
    """
    if settings.database is None:
        raise ConfigError("no database is named: --database, or JAZZ_DATABASE")
    if settings.url is None:
        raise ConfigError(
            "a database (--database, JAZZ_DATABASE) is for several replicas, and so is their index: "
            "name a Qdrant server with --url (JAZZ_URL)"
        )
    async with Database(settings.database.get_secret_value()) as database:
        yield SharedState(database)


@dataclass(frozen=True, slots=True)
class Publication:
    """What a sync from outside of the service learns from."""

    learned: Overlay | None
    evidence: OutcomeLog | None


@asynccontextmanager
async def publishing(
    settings: Settings, registry: Mapping[str, BaseFlow], *, dry_run: bool
) -> AsyncGenerator[Publication]:
    """Keep other replicas from writing the agent's index while the block runs; then announce the next version.

    Raises:
        ConfigError: What was learned is somewhere else, or as of `open_shared_state`.
        DatabaseError: The database cannot be used.
    """
    if settings.learned is not None or settings.evidence not in {None, IN_DATABASE}:
        raise ConfigError(
            "with --database what was learned is kept there, and so is the log: leave `learned` out, "
            f"and write --config evidence={IN_DATABASE}"
        )
    agent_id = settings.agent_id
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(open_shared_state(settings))
        catalogue, store = shared.catalogue(agent_id), shared.learned_examples(agent_id)
        if not dry_run:
            await stack.enter_async_context(catalogue.syncing())
        learned = await in_thread(store.load)
        log = None
        if settings.evidence is not None:
            log = shared.log(agent_id)
            stack.push_async_callback(partial(in_thread, log.close))
        yield Publication(learned, log)
        if not dry_run:
            digest = await in_thread(catalogue_digest, settings.flows, registry, learned)
            await catalogue.publish(digest, len(registry))


async def prune(shared: SharedState, agents: Sequence[str], claims_kept_s: float) -> None:
    """Delete expired claims and conversations, at the start and once a day, until cancelled."""
    while True:
        try:
            for each in agents:
                await shared.claims(each).forget(claims_kept_s)
            await forget_expired(shared.database)
        except DatabaseError as error:
            _log.warning("error=<%s> | old claims and conversations could not be dropped", error)
        await asyncio.sleep(_DAY_S)
