"""What a service keeps beside its index does not grow without end."""

import sqlite3
from pathlib import Path

import pytest

from jazz_select.routing.claims import SqliteClaims
from jazz_select.service.agents import AgentSource
from jazz_select.service.opened import open_service
from jazz_select.settings import Settings
from tests.clock import until

DAY_S = 86_400


@pytest.mark.spec("008.2")
async def test_claims_are_kept_for_thirty_days(tmp_path: Path) -> None:
    file = tmp_path / "claims.db"
    claims = SqliteClaims(file)
    for name in ("old", "young"):
        assert await claims.claim(name, "x") is None
    with sqlite3.connect(file) as database:
        database.execute("UPDATE claims SET claimed_at = claimed_at - ? WHERE call_id = 'old'", (31 * DAY_S,))
        database.execute("UPDATE claims SET claimed_at = claimed_at - ? WHERE call_id = 'young'", (29 * DAY_S,))
    database.close()

    def kept() -> list[str]:
        with sqlite3.connect(file) as database:
            found = [row[0] for row in database.execute("SELECT call_id FROM claims")]
        database.close()
        return found

    flows = tmp_path / "kept_flows.py"
    flows.write_text(
        'from jazz_select import Flow\nFlow(name="a", description="b", condition="c", desired_effects=["d"],'
        ' examples=list("vwxyz"))\n',
        "utf-8",
    )
    base = Settings(index=tmp_path / "index", embedder="static", serve_state=tmp_path, flows=str(flows))
    async with open_service(base, [AgentSource(settings=base)]):
        await until(lambda: "old" not in kept())
    assert kept() == ["young"]
