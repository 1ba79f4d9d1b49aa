"""Every store of claims that this library has keeps the port's contract; stores that break it are found out."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from jazz_select.errors import ConfigError
from jazz_select.ports import ClaimStore
from jazz_select.routing import SqliteClaims
from jazz_select.testing import MemoryClaims, check_claim_store
from jazz_select.values import Claim


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_contract(kind: str, tmp_path: Path) -> None:
    await check_claim_store(MemoryClaims() if kind == "memory" else SqliteClaims(tmp_path / "claims"))


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
