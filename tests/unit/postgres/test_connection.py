"""A database that is away, comes back, is of another version or is asked for nonsense, and what is said of it."""

import asyncio
import logging
from collections.abc import Iterator
from time import monotonic

import psycopg
import pytest

from jazz_select.errors import ConfigError, DatabaseError, DatabaseUnavailableError
from jazz_select.postgres.claims import PostgresClaims
from jazz_select.postgres.connection import AsyncRow, Database, Row, read_address
from jazz_select.postgres.log_store import PostgresLogStore
from jazz_select.postgres.schema import VERSIONS
from jazz_select.testing.log_contract import entry_line
from jazz_select.threads import in_thread
from tests.postgres_server import PASSWORD, PostgresServer, why_not
from tests.tcp_proxy import TcpProxy

pytestmark = pytest.mark.programs
_SECRET = "s3cret-of-nobody"  # noqa: S105


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that tests may stop."""
    if reason := why_not():
        pytest.skip(reason)
    with PostgresServer() as server:
        yield server


@pytest.fixture
def network(postgres: PostgresServer) -> Iterator[TcpProxy]:
    with TcpProxy(postgres.port) as proxy:
        yield proxy


async def seven(connection: AsyncRow) -> int:
    found = await connection.execute("SELECT 7")
    row = await found.fetchone()
    assert row is not None
    return row[0]


def seven_blocking(connection: Row) -> int:
    row = connection.execute("SELECT 7").fetchone()
    assert row is not None
    return row[0]


@pytest.mark.spec("021.1")
@pytest.mark.parametrize(
    "url",
    [
        "",
        f"mysql://jazz:{_SECRET}@127.0.0.1/x",
        f"postgresqll://jazz:{_SECRET}@127.0.0.1/x",
        f"postgresql://jazz:{_SECRET}@127.0.0.1/x?no_such_option=1",
        f"postgresql://jazz:{_SECRET}@[::1/x",
        f"host=127.0.0.1 password={_SECRET}",
        f"postgresql://jazz:{_SECRET}@{_SECRET}@127.0.0.1/x",
        f"postgresql://jazz:1/{_SECRET}@127.0.0.1/x",
    ],
    ids=[
        "empty",
        "another scheme",
        "a misspelt scheme",
        "an unknown option",
        "half an address",
        "words of libpq",
        "an @ in the password",
        "a / in the password",
    ],
)
def test_what_is_no_address_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigError, match="write postgresql://USER:PASSWORD@HOST") as caught:
        Database(url)
    assert _SECRET not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_what_the_address_says_itself_takes_precedence() -> None:
    address, place = read_address("postgresql://jazz@db.example/shop?connect_timeout=9&application_name=mine")
    assert {"connect_timeout=9", "application_name=mine", "keepalives_idle=5"} <= set(address.split())
    assert place == "db.example:5432/shop"


@pytest.mark.spec("021.1")
async def test_a_server_that_is_not_there_is_a_typed_error_soon() -> None:
    database = Database(f"postgresql://jazz:{_SECRET}@127.0.0.1:1/shop")
    begun = monotonic()
    with pytest.raises(
        DatabaseUnavailableError, match=r"the database 127.0.0.1:1/shop cannot be used: .*Is it running"
    ) as caught:
        await database.open()
    assert monotonic() - begun < 5
    assert _SECRET not in f"{caught.value!r} {database!r}"
    assert await database.ping() == str(caught.value)
    with pytest.raises(DatabaseUnavailableError, match="is not open"):
        await database.run(seven)
    with pytest.raises(DatabaseUnavailableError, match="is not open"):
        database.run_blocking(seven_blocking)


@pytest.mark.spec("021.1")
async def test_a_wrong_password_is_said_and_not_shown(
    postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = postgres.url("postgres").replace("p%40ss", _SECRET)
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(DatabaseUnavailableError, match="password authentication failed") as caught,
    ):
        await Database(wrong).open()
    assert _SECRET not in repr(caught.value) + caplog.text
    assert PASSWORD not in repr(caught.value) + caplog.text


@pytest.mark.spec("021.1")
async def test_of_many_that_start_at_once_one_migrates(database_url: str) -> None:
    databases = [Database(database_url) for _ in range(6)]
    await asyncio.gather(*(each.open() for each in databases))
    try:
        with psycopg.connect(database_url) as connection:
            rows = connection.execute("SELECT number FROM jazz_select.versions ORDER BY number").fetchall()
        assert [number for (number,) in rows] == list(range(1, len(VERSIONS) + 1))
        assert await asyncio.gather(*(each.run(seven) for each in databases)) == [7] * 6
    finally:
        await asyncio.gather(*(each.close() for each in databases))


@pytest.mark.spec("021.1")
async def test_a_later_schema_is_left_alone(database_url: str) -> None:
    async with Database(database_url):
        pass
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO jazz_select.versions VALUES (900)")
    with pytest.raises(DatabaseError, match="its schema is of version 900, and this jazz-select knows versions up to"):
        await Database(database_url).open()


async def test_a_statement_that_the_server_refuses_is_not_tried_again(database_url: str) -> None:
    tried: list[int] = []

    async def nonsense(connection: AsyncRow) -> None:
        tried.append(1)
        await connection.execute("SELECT no_such_column")

    async with Database(database_url) as database:
        with pytest.raises(DatabaseError, match="no_such_column"):
            await database.run(nonsense)
    assert len(tried) == 1


async def test_no_statement_runs_for_ever(database_url: str) -> None:
    async def slow(connection: AsyncRow) -> None:
        await connection.execute("SELECT pg_sleep(60)")

    async with Database(database_url) as database:
        begun = monotonic()
        with pytest.raises(DatabaseUnavailableError, match="statement timeout"):
            await database.run(slow)
        assert monotonic() - begun < 12


@pytest.mark.spec("021.3")
async def test_connections_of_a_server_that_was_restarted_are_replaced(own_server: PostgresServer) -> None:
    async with Database(own_server.new_database()) as database:
        assert await asyncio.gather(*(database.run(seven) for _ in range(20))) == [7] * 20
        assert await in_thread(database.run_blocking, seven_blocking) == 7
        await in_thread(own_server.stop)
        assert "cannot be used" in await database.ping()
        with pytest.raises(DatabaseUnavailableError):
            await database.run(seven)
        await in_thread(own_server.start)
        begun = monotonic()
        assert not await database.ping()
        assert await asyncio.gather(*(database.run(seven) for _ in range(20))) == [7] * 20
        assert await in_thread(database.run_blocking, seven_blocking) == 7
        assert monotonic() - begun < 2


@pytest.mark.spec("021.3")
async def test_whoever_claims_while_the_answer_is_lost_has_the_claim(network: TcpProxy, database_url: str) -> None:
    """The claim was committed, and its connection broke: the same caller may make the call, and no other."""
    async with Database(network.through(database_url)) as near, Database(database_url) as far:
        network.cut_after(b"COMMIT")
        assert await PostgresClaims(near).claim("call", "x") is None
        claim = await PostgresClaims(far).claim("call", "x")
        assert claim is not None
        assert claim.outcome is None


@pytest.mark.spec("021.3")
async def test_a_network_that_loses_everything_is_noticed(network: TcpProxy, database_url: str) -> None:
    async with Database(network.through(database_url)) as database:
        assert await database.run(seven) == 7
        network.stall()
        begun = monotonic()
        with pytest.raises(DatabaseUnavailableError):
            await database.run(seven)
        assert monotonic() - begun < 15, "a claim may take no longer"
        network.cut()
        network.restore()
        assert await database.run(seven) == 7


@pytest.mark.spec("021.3")
async def test_lines_of_a_log_are_written_once_where_the_answer_is_lost(network: TcpProxy, database_url: str) -> None:
    async with Database(network.through(database_url)) as database:
        store = PostgresLogStore(database, "shop")
        network.cut_after(b"COMMIT")
        assert not await in_thread(store.write, [entry_line("one", 1.0)], None)
        assert await in_thread(store.agents, corrected=False) == {"shop": 1}


@pytest.mark.spec("021.3")
async def test_a_start_whose_connection_breaks_goes_on(network: TcpProxy, database_url: str) -> None:
    network.cut_after(b"pg_advisory_xact_lock")
    async with Database(network.through(database_url)) as database:
        assert await database.run(seven) == 7
