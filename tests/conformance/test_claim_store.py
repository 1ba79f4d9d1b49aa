"""Every store of claims that this library has keeps the port's contract; stores that break it are found out."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from jazz_select.errors import ConfigError
from jazz_select.ports import ClaimStore
from jazz_select.postgres.claims import PostgresClaims
from jazz_select.postgres.connection import Database
from jazz_select.routing import SqliteClaims
from jazz_select.routing.claims import RecentClaims
from jazz_select.testing import MemoryClaims, check_claim_store
from jazz_select.values import Claim


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("kind", ["memory", "recent", "sqlite"])
async def test_contract(kind: str, tmp_path: Path) -> None:
    stores: dict[str, Callable[[], ClaimStore]] = {"memory": MemoryClaims, "recent": RecentClaims}
    await check_claim_store(stores[kind]() if kind in stores else SqliteClaims(tmp_path / "claims"))


@pytest.mark.spec("021.1")
@pytest.mark.programs
async def test_contract_in_postgresql(database_url: str) -> None:
    async with Database(database_url) as database:
        await check_claim_store(PostgresClaims(database, "shop"))
        await check_claim_store(PostgresClaims(database, "clinic"))  # to another agent it is an empty store


@pytest.mark.spec("009.4")
async def test_of_recent_claims_the_oldest_goes() -> None:
    store = RecentClaims(most=2)
    for call_id in "abc":
        assert await store.claim(call_id, "x") is None
        await store.settle(call_id, "{}")
    assert await store.claim("b", "x") == await store.claim("c", "x") == Claim(fingerprint="x", outcome="{}")
    assert await store.claim("a", "x") is None


@pytest.mark.spec("009.4")
async def test_of_recent_claims_one_that_is_under_way_stays() -> None:
    store = RecentClaims(most=2)
    await store.claim("slow", "x")
    for number in range(30):
        await store.claim(str(number), "x")
        await store.settle(str(number), "{}")
    assert await store.claim("slow", "x") == Claim(fingerprint="x")
    await store.settle("slow", "done")
    assert await store.claim("slow", "x") == Claim(fingerprint="x", outcome="done")


@pytest.mark.spec("009.4")
async def test_of_recent_claims_without_an_outcome_there_are_ten_times_as_many_at_most() -> None:
    store = RecentClaims(most=2)
    for number in range(21):
        await store.claim(str(number), "x")
    assert await store.claim("1", "x") == Claim(fingerprint="x")
    assert await store.claim("0", "x") is None


@pytest.mark.spec("009.4")
async def test_of_recent_claims_the_oldest_goes_where_tools_returned_much() -> None:
    store = RecentClaims(most_letters=10)
    for call_id in "abc":
        await store.claim(call_id, "x")
        await store.settle(call_id, "12345")
    assert await store.claim("c", "x") == await store.claim("b", "x") == Claim(fingerprint="x", outcome="12345")
    assert await store.claim("a", "x") is None


class Forgetful(MemoryClaims):
    async def settle(self, call_id: str, outcome: str) -> None: ...


class Generous(MemoryClaims):
    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        await super().claim(call_id, fingerprint)
        return None


class Rewriting(MemoryClaims):
    async def settle(self, call_id: str, outcome: str) -> None:
        known = self.claims.get(call_id)
        if known is not None:
            self.claims[call_id] = Claim(fingerprint=known.fingerprint, outcome=outcome)


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Forgetful, "the first outcome of the call did not stay"),
        (Generous, "20 of 20 callers were told that the call is theirs"),
        (Rewriting, "the first outcome of the call did not stay"),
    ],
    ids=["forgets", "lets everybody have it", "rewrites"],
)
async def test_a_store_that_breaks_the_contract_is_found_out(store: Callable[[], ClaimStore], problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        await check_claim_store(store())


@pytest.mark.spec("005.4")
async def test_claims_outlive_the_object_until_they_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "claims"
    assert await SqliteClaims(path).claim("a", "x") is None
    later = SqliteClaims(str(path))
    assert await later.claim("a", "x") == Claim(fingerprint="x")
    assert (await later.forget(older_than_s=60), await later.forget(older_than_s=-1)) == (0, 1)
    assert await later.claim("a", "y") is None


@pytest.mark.parametrize("kind", ["a folder", "no folder", "another file", "another database"])
def test_a_file_that_cannot_be_used_is_refused_when_it_is_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "claims"
    if kind == "a folder":
        path.mkdir()
    elif kind == "no folder":
        path = path / "in" / "it"
    elif kind == "another file":
        path.write_text("no database at all, but a text that is long enough to be taken for one" * 20)
    else:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE claims (name TEXT)")
        other.close()
    with pytest.raises(ConfigError, match=r"claims cannot be kept in .*; name a file"):
        SqliteClaims(path)
