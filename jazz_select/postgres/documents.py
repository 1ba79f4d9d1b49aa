"""Small documents in PostgreSQL, such as what was learned: one text for each scope and name, changed under a lock."""

from collections.abc import Callable

from jazz_select.postgres.connection import AsyncRow, Database, Row
from jazz_select.postgres.notices import Notice, notify

_READ = "SELECT content FROM jazz_select.documents WHERE scope = %s AND name = %s"
_WRITE = (
    "INSERT INTO jazz_select.documents AS d (scope, name, version, content) VALUES (%s, %s, 1, %s)"
    " ON CONFLICT (scope, name) DO UPDATE SET content = excluded.content, version = d.version + 1, changed_at = now()"
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


class Documents:
    """The documents of one scope, such as an agent."""

    def __init__(self, database: Database, scope: str) -> None:
        """Use an open database."""
        self._database, self._scope = database, scope

    @property
    def place(self) -> str:
        """The place of the database, for messages."""
        return self._database.place

    def read(self, name: str) -> str | None:
        """Return a document, or None. Blocking.

        Raises:
            DatabaseError: It cannot be read.
        """

        def work(connection: Row) -> str | None:
            row = connection.execute(_READ, (self._scope, name)).fetchone()
            return None if row is None else str(row[0])

        return self._database.run_blocking(work)

    def change(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Put what `change` makes of a document in its place, and tell the replicas; None leaves it. Blocking.

        Of several replicas one changes it at a time. `change` may be called again, after a connection broke.

        Raises:
            DatabaseError: It cannot be read or written. Errors of `change` pass through.
        """

        def work(connection: Row) -> None:
            connection.execute(_LOCK, (f"jazz_select document {self._scope}\x1f{name}",))
            row = connection.execute(_READ, (self._scope, name)).fetchone()
            content = change(None if row is None else str(row[0]))
            if content is not None:
                connection.execute(_WRITE, (self._scope, name, content))
                connection.execute(*notify(Notice(kind="document", scope=self._scope)))

        self._database.run_blocking(work)

    async def first(self, name: str, content: str) -> str:
        """Return a document; where there is none, this content becomes it. Of several replicas one wins.

        Raises:
            DatabaseError: It cannot be read or written.
        """

        async def work(connection: AsyncRow) -> str:
            insert = (
                "INSERT INTO jazz_select.documents (scope, name, version, content) VALUES (%s, %s, 1, %s)"
                " ON CONFLICT DO NOTHING"
            )
            await connection.execute(insert, (self._scope, name, content))
            row = await (await connection.execute(_READ, (self._scope, name))).fetchone()
            return content if row is None else str(row[0])

        return await self._database.run(work)
