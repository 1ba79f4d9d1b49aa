"""A database as others leave it, and texts as attackers send them: none is a statement, and none holds others up."""

import asyncio
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from urllib.parse import quote

import psycopg
import pytest

from jazz_select.errors import DatabaseError, DatabaseUnavailableError
from jazz_select.outcomes.store import EntryFilter, LogLine, Retention
from jazz_select.postgres.catalogues import SharedCatalogue
from jazz_select.postgres.claims import PostgresClaims
from jazz_select.postgres.connection import AsyncRow, Database
from jazz_select.postgres.conversations import Conversations
from jazz_select.postgres.documents import Documents
from jazz_select.postgres.log_store import PostgresLogStore
from jazz_select.postgres.notices import Notice, listen
from jazz_select.testing import check_claim_store, check_log_store
from jazz_select.testing.log_contract import entry_line
from jazz_select.threads import beside, in_thread
from tests.postgres_server import PASSWORD

pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]
_HOSTILE = "'; DROP TABLE jazz_select.claims; --"
_ROLE_PASSWORD = "of-a-role"  # noqa: S105


def administer(url: str, *statements: str) -> None:
    """Run statements as the owner of the server."""
    with psycopg.connect(url, autocommit=True) as connection:
        for each in statements:
            connection.execute(each.encode())


def as_role(url: str, role: str) -> str:
    """The address of a database for another user."""
    return url.replace(f"jazz:{quote(PASSWORD, safe='')}@", f"{role}:{_ROLE_PASSWORD}@")


@pytest.fixture
def role(database_url: str) -> str:
    """The name of a new user without rights."""
    name = f"role_{token_hex(4)}"
    administer(database_url, f"CREATE ROLE {name} LOGIN PASSWORD '{_ROLE_PASSWORD}'")
    return name


async def seven(connection: AsyncRow) -> int:
    found = await connection.execute("SELECT 7")
    row = await found.fetchone()
    assert row is not None
    return row[0]


def requests_in(store: PostgresLogStore) -> list[str]:
    """The requests in a log."""
    return [each.request for each in store.entries(EntryFilter())]


# --- rights and versions -------------------------------------------------------------


@pytest.mark.spec("021.1")
async def test_a_role_that_may_create_nothing_is_told_so(database_url: str, role: str) -> None:
    with pytest.raises(DatabaseError, match=r"permission denied for database.*May this user create") as caught:
        await Database(as_role(database_url, role)).open()
    assert not isinstance(caught.value, DatabaseUnavailableError)
    assert _ROLE_PASSWORD not in repr(caught.value)


@pytest.mark.spec("021.1")
@pytest.mark.parametrize(
    "made_by",
    ["its owner before", "an administrator, empty"],
)
async def test_a_role_without_the_right_to_create_a_schema_uses_the_one_that_is_there(
    database_url: str, role: str, made_by: str
) -> None:
    if made_by == "its owner before":
        async with Database(database_url):
            pass
        administer(
            database_url,
            f"GRANT USAGE ON SCHEMA jazz_select TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA jazz_select TO {role}",
        )
    else:
        administer(database_url, f"CREATE SCHEMA jazz_select AUTHORIZATION {role}")
    async with Database(as_role(database_url, role)) as database:
        await check_claim_store(PostgresClaims(database, "shop"))


@pytest.mark.spec("021.3")
async def test_a_standby_is_not_ready_and_its_successor_is(database_url: str) -> None:
    name = database_url.rpartition("/")[2]
    async with Database(database_url) as database:
        assert not await database.ping()
        administer(
            database_url,
            f"ALTER DATABASE {name} SET default_transaction_read_only = on",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        assert "is read-only" in await database.ping()
        with pytest.raises(DatabaseUnavailableError, match=r"read-only transaction.*target_session_attrs"):
            await PostgresClaims(database).claim("call", "x")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only".encode())
        begun = monotonic()
        assert not await database.ping()
        assert await PostgresClaims(database).claim("call", "x") is None, "connections of the pool are not kept"
        assert monotonic() - begun < 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("sslmode=require", "SSL"),
        ("sslmode=verify-full&sslrootcert=/no/such/file", "SSL was required"),
        ("sslmode=of-nobody", "sslmode"),
        ("target_session_attrs=standby", "standby"),
    ],
)
@pytest.mark.spec("021.1")
async def test_what_an_address_asks_for_is_not_given_up_and_its_password_not_shown(
    database_url: str, more: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DatabaseError, match=says) as caught:
        await Database(f"{database_url}?{more}").open()
    assert PASSWORD not in repr(caught.value) + caplog.text
    assert quote(PASSWORD, safe="") not in repr(caught.value) + caplog.text


# --- connections ---------------------------------------------------------------------


@pytest.mark.spec("021.1")
async def test_whoever_is_cancelled_gives_its_connection_back(database_url: str) -> None:
    async def slow(connection: AsyncRow) -> None:
        await connection.execute("SELECT pg_sleep(3)")

    async with Database(database_url) as database:
        for _ in range(3):
            waiting = [asyncio.create_task(database.run(slow)) for _ in range(10)]
            await asyncio.sleep(0.3)
            for each in waiting:
                each.cancel()
            answers = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in answers)
        begun = monotonic()
        assert await asyncio.gather(*(database.run(seven) for _ in range(10))) == [7] * 10
        assert monotonic() - begun < 2


@pytest.mark.spec("021.1")
async def test_no_statement_is_prepared_so_that_a_pooler_may_pool_transactions(database_url: str) -> None:
    async def prepared(connection: AsyncRow) -> int:
        for _ in range(20):
            await connection.execute("SELECT %s::text", ("x",))
        found = await connection.execute("SELECT count(*) FROM pg_prepared_statements")
        row = await found.fetchone()
        assert row is not None
        return row[0]

    async with Database(database_url) as database:
        assert await database.run(prepared) == 0


@pytest.mark.spec("021.2")
async def test_the_lock_of_a_sync_goes_with_its_connection(database_url: str) -> None:
    """And belongs to a transaction, which a pooler keeps on one connection."""
    async with Database(database_url) as database:
        one, other = (SharedCatalogue(database, "shop", name) for name in ("one", "other"))
        entered = asyncio.Event()

        async def sync_second() -> None:
            async with other.syncing():
                entered.set()

        async with one.syncing():
            second = asyncio.create_task(sync_second())
            await asyncio.sleep(0.3)
            assert not entered.is_set()
            with psycopg.connect(database_url, autocommit=True) as connection:
                holding = "SELECT pid, state FROM pg_stat_activity JOIN pg_locks USING (pid)"
                holding += " WHERE locktype = 'advisory' AND granted"
                ((holder, state),) = connection.execute(holding.encode()).fetchall()
                assert state == "idle in transaction"
                connection.execute("SELECT pg_terminate_backend(%s)", (holder,))
            async with asyncio.timeout(2):
                await entered.wait()
        await second


@pytest.mark.spec("021.2")
async def test_who_listens_does_so_again_once_its_connection_is_dropped(database_url: str) -> None:
    heard: list[Notice | None] = []

    async def hear(notice: Notice | None) -> None:
        heard.append(notice)

    async def until_heard(count: int) -> None:
        async with asyncio.timeout(5):
            while len(heard) < count:
                await asyncio.sleep(0.02)

    async with Database(database_url) as database, beside(listen(database, hear)):
        await until_heard(1)
        administer(database_url, "SELECT pg_notify('jazz_select', 'no notice of ours')")
        administer(
            database_url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'",
        )
        await until_heard(2)
        await SharedCatalogue(database, "shop", "one").publish("digest", 2)
        await until_heard(3)
    assert heard == [None, None, Notice(kind="catalogue", scope="shop")]


# --- texts ---------------------------------------------------------------------------


@pytest.mark.spec("021.1")
async def test_a_name_is_no_statement_and_opens_nothing_of_another(database_url: str) -> None:
    names = (_HOSTILE, "shop", "shop' OR '1'='1", "%", "shop\\", '"shop"')
    async with Database(database_url) as database:
        for each in names:
            assert await PostgresClaims(database, each).claim(_HOSTILE, "x") is None
            assert await Documents(database, each).first(_HOSTILE, each) == each
            assert await Conversations(database, each, kept_s=60).keep(_HOSTILE, each, after=None)
            assert await SharedCatalogue(database, each, _HOSTILE).publish(each, 1) == 1
            store = PostgresLogStore(database, each)
            assert not await in_thread(store.write, [entry_line("one", 1.0, agent=each, request=each)], None)
        for each in names:
            assert await PostgresClaims(database, each).forget(0) == 1
            kept = await Conversations(database, each, kept_s=60).read(_HOSTILE)
            assert kept is not None
            assert kept.content == each
            assert await in_thread(requests_in, PostgresLogStore(database, each)) == [each]


@pytest.mark.spec("021.1")
async def test_ids_of_conversations_may_be_anything_that_a_client_sends(database_url: str) -> None:
    long = token_hex(50_000)
    ids = ("a\0b", "a\ufffdb", "ab", "\ud800", "\udfff", " ", long, f"{long}.")
    async with Database(database_url) as database:
        conversations = Conversations(database, "shop", kept_s=60)
        for each in ids:
            assert await conversations.keep(each, repr(each), after=None)
        for each in ids:
            kept = await conversations.read(each)
            assert kept is not None
            assert kept.content == repr(each)


@pytest.mark.spec("021.3")
async def test_a_line_that_can_never_be_written_does_not_hold_up_those_behind_it(database_url: str) -> None:
    long = token_hex(10_000)
    poison = LogLine("feedback", ("one", 1.0, '["refund"]', "", "person", long, long))
    nul = LogLine("feedback", ("one", 1.0, '["re\\u0000fund","\\\\u0000"]', "a\0b", "user", "", "key\0"))
    async with Database(database_url) as database:
        store = PostgresLogStore(database, "shop")
        begun = monotonic()
        problems = await in_thread(store.write, [entry_line("one", 1.0), poison, nul, entry_line("two", 2.0)], None)
        assert monotonic() - begun < 3
        assert len(problems) == 1, problems
        assert [each.right for each in await in_thread(store.feedback, "one")] == [("re\ufffdfund", "\\u0000")]
        assert await in_thread(store.agents, corrected=False) == {"shop": 2}


@pytest.mark.parametrize(
    "scope", ["a\0b", "\ud800", token_hex(10_000)], ids=["a NUL", "half a character", "too long for an index"]
)
async def test_a_name_that_cannot_be_stored_is_a_typed_error_at_once(database_url: str, scope: str) -> None:
    async with Database(database_url) as database:
        begun = monotonic()
        with pytest.raises(DatabaseError) as caught:
            await PostgresClaims(database, scope).claim("call", "x")
        assert not isinstance(caught.value, DatabaseUnavailableError)
        assert monotonic() - begun < 2


# --- clocks --------------------------------------------------------------------------


@pytest.mark.spec("021.1")
async def test_contracts_hold_in_any_time_zone(database_url: str) -> None:
    name = database_url.rpartition("/")[2]
    administer(
        database_url,
        f"ALTER DATABASE {name} SET timezone = 'Pacific/Kiritimati'",
        f"ALTER DATABASE {name} SET datestyle = 'SQL, DMY'",
    )
    async with Database(database_url) as database:
        await check_claim_store(PostgresClaims(database, "shop"))
        await in_thread(check_log_store, PostgresLogStore(database, "shop"), PostgresLogStore(database, "clinic"))
        short = Conversations(database, "shop", kept_s=60)
        assert await short.keep("c", "first", after=None)
        assert await short.read("c") is not None


@pytest.mark.spec("021.3")
async def test_a_replica_whose_clock_is_a_year_ahead_deletes_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT extract(epoch FROM now())::double precision").fetchone()
    assert row is not None
    now: float = row[0]
    with suppress(AttributeError):
        monkeypatch.setattr("jazz_select.postgres.log_store.time", lambda: now + 365 * 86_400)
    async with Database(database_url) as database:
        store = PostgresLogStore(database, "shop")
        lines = [entry_line("1", now - 172_800, request="old"), entry_line("2", now - 60, request="new")]
        assert not await in_thread(store.write, lines, Retention(keep_s=86_400))
        assert await in_thread(requests_in, store) == ["new"]
