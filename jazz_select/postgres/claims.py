"""Claims of calls in PostgreSQL: of all replicas that would make one call, one does."""

from hashlib import sha256
from uuid import uuid4

from jazz_select.postgres.connection import AsyncRow, Database
from jazz_select.values import Claim


class PostgresClaims:
    """A `ClaimStore` for the replicas of a service; each agent has a scope of its own.

    A claim is committed before it is answered. Where the connection broke while it was written, the same caller asks
    again, and finds its own claim: it is neither lost nor taken for that of another one.
    """

    def __init__(self, database: Database, scope: str = "") -> None:
        """Use an open database; claims of another scope are neither seen nor changed."""
        self._database, self._scope = database, scope

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """Claim a call before it is made: None where nobody has before.

        Raises:
            DatabaseError: It could not be written; the call must not be made.
        """
        claimant, call = uuid4(), _key(call_id)

        async def work(connection: AsyncRow) -> Claim | None:
            await connection.execute(
                "INSERT INTO jazz_select.claims (scope, call, fingerprint, claimant) VALUES (%s, %s, %s, %s)"
                " ON CONFLICT DO NOTHING",
                (self._scope, call, fingerprint, claimant),
            )
            found = await connection.execute(
                "SELECT claimant, fingerprint, outcome FROM jazz_select.claims WHERE scope = %s AND call = %s",
                (self._scope, call),
            )
            row = await found.fetchone()
            if row is None or row[0] == claimant:
                return None
            return Claim(fingerprint=row[1], outcome=row[2])

        return await self._database.run(work)

    async def settle(self, call_id: str, outcome: str) -> None:
        """Store the outcome of a claimed call; the first outcome stays.

        Raises:
            DatabaseError: It could not be written.
        """

        async def work(connection: AsyncRow) -> None:
            await connection.execute(
                "UPDATE jazz_select.claims SET outcome = %s WHERE scope = %s AND call = %s AND outcome IS NULL",
                (outcome, self._scope, _key(call_id)),
            )

        await self._database.run(work)

    async def forget(self, older_than_s: float) -> int:
        """Delete claims of this scope older than this many seconds and return their number."""

        async def work(connection: AsyncRow) -> int:
            gone = await connection.execute(
                "DELETE FROM jazz_select.claims WHERE scope = %s AND claimed_at < now() - make_interval(secs => %s)",
                (self._scope, older_than_s),
            )
            return gone.rowcount

        return await self._database.run(work)


def _key(call_id: str) -> bytes:
    """Return what stands for an id of any length and any characters."""
    return sha256(call_id.encode("utf-8", "surrogatepass")).digest()
