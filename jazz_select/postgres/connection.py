"""Connections to one PostgreSQL database: bounded pools, limits on every statement, retries, errors with advice."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from threading import Timer
from time import monotonic, sleep
from typing import Any, Final, LiteralString, Self, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from jazz_select.errors import ConfigError, DatabaseError, DatabaseUnavailableError
from jazz_select.postgres.schema import migrate, require_current

T = TypeVar("T")
AsyncRow: TypeAlias = AsyncConnection[tuple[Any, ...]]
"""A connection of the event loop."""
Row: TypeAlias = Connection[tuple[Any, ...]]
"""A connection of a thread."""
_SCHEMES: Final = ("postgresql://", "postgres://")
_MOST_CONNECTIONS: Final = 10
"""Connections of the event loop: claims and conversations take one for a millisecond each."""
_MOST_BLOCKING: Final = 4
"""Connections of threads: the writer of the log, and whoever reads it."""
_CONNECT_S: Final = 2
_WAIT_S: Final = 1.5
"""How long a free connection is waited for."""
_PATIENCE_S: Final = 4.0
"""How long work is tried again. A claim has fifteen seconds, of which a first connection may take two."""
_ATTEMPT_S: Final = 6.0
"""How long one attempt may take: a second more than the server allows a statement."""
_PING_S: Final = 1.5
_STARTS: Final = 3
"""How often a start asks for a connection, and begins anew where the server ends that."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.5
_LIMITS: Final = {
    "connect_timeout": _CONNECT_S,
    "tcp_user_timeout": 3_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "application_name": "jazz-select",
}
"""How soon a network that loses all packets is noticed. What the address says itself takes precedence."""
_SESSION: Final[tuple[LiteralString, ...]] = (
    "SET statement_timeout = '5s'",
    "SET lock_timeout = '3s'",
    "SET idle_in_transaction_session_timeout = '30s'",
)
"""A replica that hangs within a transaction holds its locks for no longer than the last of these."""
_PASSING: Final = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.ReadOnlySqlTransaction)
"""Errors of a connection, of a server that stops or starts, of a lock or a limit: the same work may succeed later."""
_LASTING: Final = psycopg.errors.ProgramLimitExceeded
"""An error among these that is the work's own: a value that is too long for an index is so at the next attempt too."""
_READ_ONLY: Final = "Name the primary: of several hosts in the address, target_session_attrs=read-write takes that one"
_POOLED: Final = {"prepare_threshold": None}
"""A pooler that gives each transaction another connection knows nothing of statements that were prepared before."""
_POOL: Final = logging.getLogger("psycopg.pool")
_log = logging.getLogger(__name__)


class Database:
    """One PostgreSQL database, for one event loop and any number of threads.

    No message and no attribute that is printed has the user or the password.

    Attributes:
        place: Host, port and name of the database, for messages.
    """

    def __init__(self, url: str) -> None:
        """Read the address; nothing is connected before `open`.

        Raises:
            ConfigError: It is no address of a PostgreSQL database.
        """
        self._address, self.place = read_address(url)
        self._pool: AsyncConnectionPool[AsyncRow] | None = None
        self._blocking: ConnectionPool[Row] | None = None

    def __repr__(self) -> str:
        return f"Database({self.place!r})"

    async def open(self) -> Self:
        """Connect, and bring the schema to this version.

        Raises:
            DatabaseUnavailableError: The server does not answer, or refuses.
            DatabaseError: The schema is of a later version.
        """
        _quiet_pools()
        self._pool = AsyncConnectionPool(
            self._address,
            kwargs=_POOLED,
            min_size=1,
            max_size=_MOST_CONNECTIONS,
            open=False,
            timeout=_WAIT_S,
            reconnect_timeout=0.0,
            configure=_configure,
            name="jazz-select",
        )
        self._blocking = self._blocking_pool()
        try:
            await self._migrate()
            await self._pool.open()
            self._blocking.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def _migrate(self) -> None:
        """Bring the schema to this version; a connection that breaks meanwhile is replaced."""
        for _ in range(_STARTS - 1):
            try:
                return await self._migrate_once()
            except DatabaseUnavailableError as error:
                _log.debug("error=<%s> | the database is asked again", error)
            await asyncio.sleep(_FIRST_PAUSE_S)
        return await self._migrate_once()

    async def _migrate_once(self) -> None:
        async with self.connected() as connection:
            await migrate(connection, self.place)

    def open_blocking(self) -> Self:
        """Connect for threads alone, such as those of a command, which has no loop. Nothing is created.

        Raises:
            DatabaseUnavailableError: The server does not answer, or refuses.
            DatabaseError: The schema is of another version, or there is none.
        """
        _quiet_pools()
        self._blocking = self._blocking_pool()
        self._blocking.open()
        try:
            self.run_blocking(lambda connection: require_current(connection, self.place))
        except BaseException:
            self.close_blocking()
            raise
        return self

    def _blocking_pool(self) -> ConnectionPool[Row]:
        return ConnectionPool(
            self._address,
            kwargs=_POOLED,
            min_size=0,
            max_size=_MOST_BLOCKING,
            open=False,
            timeout=_WAIT_S,
            reconnect_timeout=0.0,
            configure=_configure_blocking,
            name="jazz-select-threads",
        )

    def close_blocking(self) -> None:
        """Close the connections of threads; a second call does nothing."""
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close(timeout=_CONNECT_S)

    async def close(self) -> None:
        """Close all connections; a second call does nothing."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close(timeout=_CONNECT_S)
        if self._blocking is not None:
            await asyncio.to_thread(self.close_blocking)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, work: Callable[[AsyncRow], Awaitable[T]]) -> T:
        """Run work in one transaction, and again where its connection failed.

        The work has to be repeatable: whether a transaction was committed is not known where its connection broke.

        Raises:
            DatabaseUnavailableError: It failed again and again.
            DatabaseError: The server refused a statement.
        """
        pool = self._pool
        if pool is None:
            raise self.unavailable("it is not open")
        loop = asyncio.get_running_loop()
        until, pause_s = monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
        while True:
            connection, timer = None, None
            try:
                async with pool.connection() as connection:
                    timer = loop.call_later(_ATTEMPT_S, _hang_up, connection)
                    return await work(connection)
            except _LASTING as error:
                raise self.refused(error) from None
            except _PASSING as error:
                if monotonic() + pause_s >= until:
                    raise self.unavailable(error) from None
                if _is_left_behind(connection, error):
                    await pool.drain()  # a server that was restarted has left a pool of broken connections
            except (psycopg.Error, UnicodeEncodeError) as error:
                raise self.refused(error) from None
            finally:
                if timer is not None:
                    timer.cancel()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def run_blocking(self, work: Callable[[Row], T]) -> T:
        """Run work like `run`, in the current thread.

        Raises:
            DatabaseUnavailableError: It failed again and again.
            DatabaseError: The server refused a statement.
        """
        pool = self._blocking
        if pool is None:
            raise self.unavailable("it is not open")
        until, pause_s = monotonic() + _PATIENCE_S, _FIRST_PAUSE_S
        while True:
            connection, timer = None, None
            try:
                with pool.connection() as connection:
                    timer = Timer(_ATTEMPT_S, _hang_up, (connection,))
                    timer.daemon = True
                    timer.start()
                    return work(connection)
            except _LASTING as error:
                raise self.refused(error) from None
            except _PASSING as error:
                if monotonic() + pause_s >= until:
                    raise self.unavailable(error) from None
                if _is_left_behind(connection, error):
                    pool.drain()
            except (psycopg.Error, UnicodeEncodeError) as error:
                raise self.refused(error) from None
            finally:
                if timer is not None:
                    timer.cancel()
            sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @asynccontextmanager
    async def connected(self, limit_s: float | None = None) -> AsyncGenerator[AsyncRow]:
        """Open a connection of its own, which commits each statement: for locks of a session and for notifications.

        After `limit_s` it is closed, whatever it waits for.

        Raises:
            DatabaseUnavailableError: The server does not answer, or went away within the block.
        """
        try:
            connection = await AsyncConnection.connect(self._address, autocommit=True)
            loop, timer = asyncio.get_running_loop(), None
            if limit_s is not None:
                timer = loop.call_later(limit_s, _hang_up, connection)
            try:
                for each in _SESSION:
                    await connection.execute(each)
                yield connection
            finally:
                if timer is not None:
                    timer.cancel()
                with suppress(psycopg.Error):
                    await connection.close()
        except _PASSING as error:
            raise self.unavailable(error) from None
        except psycopg.Error as error:
            raise self.refused(error) from None

    async def ping(self) -> str:
        """Return why the database cannot be used now, or an empty text.

        It asks on a new connection: those of a pool may be broken, and are mended where the answer is good. A standby
        answers, and keeps no claim.
        """
        try:
            async with self.connected(_PING_S) as connection:
                found = await connection.execute("SHOW transaction_read_only")
                is_read_only = await found.fetchone() == ("on",)
        except DatabaseError as error:
            return str(error)
        return str(DatabaseUnavailableError(self.place, "it is read-only", advice=_READ_ONLY)) if is_read_only else ""

    def unavailable(self, error: Exception | str) -> DatabaseUnavailableError:
        """Return the error for a database that does not answer, or takes no writes."""
        problem = error if isinstance(error, str) else explain(error)
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            return DatabaseUnavailableError(self.place, problem, advice=_READ_ONLY)
        return DatabaseUnavailableError(self.place, problem)

    def refused(self, error: Exception) -> DatabaseError:
        """Return the error for a statement that the server refused."""
        return DatabaseError(
            self.place,
            explain(error),
            advice="Was its schema changed by hand? May this user create and change tables in it?",
        )


def _quiet_pools() -> None:
    """Leave out what a pool logs of each attempt, several times a second, unless a program asks for it.

    What is wrong is said once by whoever watches the database, and by the error of each attempt that failed.
    """
    if _POOL.level == logging.NOTSET:
        _POOL.setLevel(logging.ERROR)


def _is_left_behind(connection: AsyncRow | Row | None, error: Exception) -> bool:
    """Whether the other connections of a pool are of no more use: of a server that is gone, or a standby now."""
    if connection is None:
        return False
    return connection.closed or isinstance(error, psycopg.errors.ReadOnlySqlTransaction)


def _hang_up(connection: AsyncRow | Row) -> None:
    """Shut the socket of a connection down, so that whoever waits for an answer has an error instead.

    A limit of the server ends no wait for a server that hangs, and one of the network none for a proxy that does.
    """
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def read_address(url: str) -> tuple[str, str]:
    """Return the address with limits as libpq takes it, and what may be shown of it.

    Raises:
        ConfigError: It is no address of a PostgreSQL database; the message does not repeat it, since it has a password.
    """
    advice = "write postgresql://USER:PASSWORD@HOST:5432/NAME, or leave the password to a file of libpq (PGPASSFILE)"
    if not url.startswith(_SCHEMES):
        raise ConfigError(
            f"the database (--database, JAZZ_DATABASE) must be the address of a PostgreSQL server: {advice}"
        )
    try:
        given = conninfo_to_dict(url)
        address = make_conninfo("", **{**_LIMITS, **given})
    except psycopg.Error:
        # The parser's message quotes what it could not read.
        raise ConfigError(f"the address of the database (--database, JAZZ_DATABASE) cannot be read: {advice}") from None
    host = given.get("host") or given.get("hostaddr") or "localhost"
    port = given.get("port") or 5432
    name = given.get("dbname") or given.get("user") or ""
    place = f"{host}:{port}/{name}"
    if "@" in place:
        # A part of the password was taken for the host, the port or the name, and messages would show it.
        raise ConfigError(
            "the address of the database (--database, JAZZ_DATABASE) cannot be read: in a user and a password write "
            f"@ as %40, / as %2F and : as %3A; {advice}"
        )
    return address, place


def explain(error: BaseException) -> str:
    """Return an error in one line, without what a server repeats of a statement."""
    diag = getattr(error, "diag", None)
    primary = getattr(diag, "message_primary", None)
    if primary:
        return " ".join(str(primary).split())
    lines = str(error).strip().splitlines()
    return " ".join(lines[0].split()) if lines else type(error).__name__


async def _configure(connection: AsyncRow) -> None:
    for each in _SESSION:
        await connection.execute(each)
    await connection.commit()


def _configure_blocking(connection: Row) -> None:
    for each in _SESSION:
        connection.execute(each)
    connection.commit()
