"""The version of a catalogue that the index holds, and which replica has which files, in PostgreSQL."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from jazz_select.postgres.connection import AsyncRow, Database
from jazz_select.postgres.notices import Notice, notify

_ALIVE_S: Final = 3.0
"""For so long a replica counts after it was last heard of: a killed one keeps a change waiting no longer."""
_CURRENT: Final = "SELECT number, digest, flows, synced_by FROM jazz_select.catalogues WHERE scope = %s"
_PUBLISH: Final = (
    "INSERT INTO jazz_select.catalogues AS c (scope, number, digest, flows, synced_by) VALUES (%s, 1, %s, %s, %s)"
    " ON CONFLICT (scope) DO UPDATE SET number = c.number + 1, digest = excluded.digest, flows = excluded.flows,"
    " synced_by = excluded.synced_by, synced_at = now() RETURNING number"
)
_REPORT: Final = (
    "INSERT INTO jazz_select.replicas AS r (scope, replica, digest) VALUES (%s, %s, %s)"
    " ON CONFLICT (scope, replica) DO UPDATE SET digest = excluded.digest, seen_at = now()"
)
_OTHERS: Final = (
    "SELECT replica, digest FROM jazz_select.replicas WHERE scope = %s AND replica <> %s"
    " AND seen_at > now() - make_interval(secs => %s) ORDER BY replica"
)


@dataclass(frozen=True, slots=True)
class CatalogueVersion:
    """What the index holds.

    Attributes:
        number: Counts from 1.
        digest: Of the files and of what was learned.
        flows: How many there are.
        synced_by: The replica or the command that wrote it.
    """

    number: int
    digest: str
    flows: int
    synced_by: str


class SharedCatalogue:
    """The catalogue of one agent, as one replica sees it."""

    def __init__(self, database: Database, scope: str, replica: str) -> None:
        """Use an open database; `replica` names this one, and no other."""
        self._database, self._scope, self.replica = database, scope, replica

    @property
    def scope(self) -> str:
        """The agent."""
        return self._scope

    async def current(self) -> CatalogueVersion | None:
        """Return what the index holds; None before the first sync.

        Raises:
            DatabaseError: It cannot be read.
        """
        return await self._database.run(self._current)

    async def _current(self, connection: AsyncRow) -> CatalogueVersion | None:
        row = await (await connection.execute(_CURRENT, (self._scope,))).fetchone()
        return None if row is None else CatalogueVersion(*row)

    async def report(self, digest: str, *, is_news: bool) -> None:
        """Say which files this replica has, and that it lives; news are told to the others.

        Raises:
            DatabaseError: It cannot be written.
        """

        async def work(connection: AsyncRow) -> None:
            await connection.execute(_REPORT, (self._scope, self.replica, digest))
            if is_news:
                await connection.execute(*notify(Notice(kind="replica", scope=self._scope)))

        await self._database.run(work)

    async def others(self) -> dict[str, str]:
        """Return the digests of the other replicas that live, by their names.

        Raises:
            DatabaseError: They cannot be read.
        """

        async def work(connection: AsyncRow) -> dict[str, str]:
            found = await connection.execute(_OTHERS, (self._scope, self.replica, _ALIVE_S))
            return dict(await found.fetchall())

        return await self._database.run(work)

    async def leave(self) -> None:
        """Say that this replica is no more.

        Raises:
            DatabaseError: It cannot be written.
        """

        async def work(connection: AsyncRow) -> None:
            gone = "DELETE FROM jazz_select.replicas WHERE scope = %s AND replica = %s"
            await connection.execute(gone, (self._scope, self.replica))
            await connection.execute(*notify(Notice(kind="replica", scope=self._scope)))

        await self._database.run(work)

    @asynccontextmanager
    async def syncing(self) -> AsyncGenerator[CatalogueVersion | None]:
        """Be the only one who writes this agent's index, and get what it holds then.

        The lock belongs to a transaction of a connection of its own: who is killed holds it no longer, and a pooler
        that gives each transaction another connection keeps it where it is.

        Raises:
            DatabaseUnavailableError: The database is away, or went away meanwhile.
        """
        async with self._database.connected() as connection:
            await connection.execute("BEGIN")
            # Another one's sync may take minutes, and so may this one.
            await connection.execute("SET LOCAL lock_timeout = 0")
            await connection.execute("SET LOCAL statement_timeout = 0")
            await connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            locked = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
            await connection.execute(locked, (f"jazz_select sync {self._scope}",))
            yield await self._current(connection)  # closing the connection ends the transaction, and frees the lock

    async def publish(self, digest: str, flows: int) -> int:
        """Say that the index holds another version now, and tell all replicas; return its number.

        Raises:
            DatabaseError: It cannot be written.
        """

        async def work(connection: AsyncRow) -> int:
            row = await (await connection.execute(_CURRENT, (self._scope,))).fetchone()
            if row is not None and (row[1], row[3]) == (digest, self.replica):
                return int(row[0])  # written by an attempt whose connection broke
            found = await connection.execute(_PUBLISH, (self._scope, digest, flows, self.replica))
            made = await found.fetchone()
            await connection.execute(*notify(Notice(kind="catalogue", scope=self._scope)))
            return 0 if made is None else int(made[0])

        return await self._database.run(work)
