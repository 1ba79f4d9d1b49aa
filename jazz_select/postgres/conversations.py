"""Conversations that a service keeps for its clients in PostgreSQL, each for a time after its last turn."""

from dataclasses import dataclass
from hashlib import sha256

from jazz_select.postgres.connection import AsyncRow, Database

_SAVE_NEW = (
    "INSERT INTO jazz_select.conversations AS c (scope, id, version, content, expires_at)"
    " VALUES (%(scope)s, %(id)s, 1, %(content)s, now() + make_interval(secs => %(kept_s)s))"
    " ON CONFLICT (scope, id) DO UPDATE SET version = c.version + 1, content = excluded.content,"
    " expires_at = excluded.expires_at WHERE c.expires_at <= now() RETURNING version"
)
_SAVE_NEXT = (
    "UPDATE jazz_select.conversations SET version = version + 1, content = %(content)s,"
    " expires_at = now() + make_interval(secs => %(kept_s)s)"
    " WHERE scope = %(scope)s AND id = %(id)s AND version = %(version)s RETURNING version"
)


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """A conversation as it was kept, and the number of times that it was."""

    content: str
    version: int


class Conversations:
    """The conversations of one scope, such as one key of one agent: no other can read them or go on with them."""

    def __init__(self, database: Database, scope: str, *, kept_s: float) -> None:
        """Use an open database; a conversation is kept for `kept_s` seconds after its last turn."""
        self._database, self._scope, self._kept_s = database, scope, kept_s

    async def read(self, conversation_id: str) -> KeptConversation | None:
        """Return the conversation of this id, or None where there is none, or none any more.

        Raises:
            DatabaseError: It cannot be read.
        """

        async def work(connection: AsyncRow) -> KeptConversation | None:
            found = await connection.execute(
                "SELECT content, version FROM jazz_select.conversations"
                " WHERE scope = %s AND id = %s AND expires_at > now()",
                (self._scope, _key(conversation_id)),
            )
            row = await found.fetchone()
            return None if row is None else KeptConversation(row[0], row[1])

        return await self._database.run(work)

    async def keep(self, conversation_id: str, content: str, *, after: KeptConversation | None) -> bool:
        """Keep a conversation in place of the one that its turn began with.

        Return False, and keep the other, where another turn of the same conversation was kept meanwhile.

        Raises:
            DatabaseError: It cannot be written.
        """
        values = {
            "scope": self._scope,
            "id": _key(conversation_id),
            "content": content,
            "kept_s": self._kept_s,
            "version": 0 if after is None else after.version,
        }

        async def work(connection: AsyncRow) -> bool:
            found = await connection.execute(_SAVE_NEW if after is None else _SAVE_NEXT, values)
            if await found.fetchone() is not None:
                return True
            same = "SELECT content FROM jazz_select.conversations WHERE scope = %(scope)s AND id = %(id)s"
            row = await (await connection.execute(same, values)).fetchone()
            return row is not None and row[0] == content  # written by an attempt whose connection broke

        return await self._database.run(work)


def _key(conversation_id: str) -> str:
    """Return what stands for an id of a client's, of any length and any characters: PostgreSQL indexes neither."""
    return sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()


async def forget_expired(database: Database) -> int:
    """Delete conversations that nobody can go on with any more, and return their number."""

    async def work(connection: AsyncRow) -> int:
        return (await connection.execute("DELETE FROM jazz_select.conversations WHERE expires_at <= now()")).rowcount

    return await database.run(work)
