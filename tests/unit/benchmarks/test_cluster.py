"""What replicas and tenants cost: the tables, and that a flow of another tenant would be seen."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import report
from benchmarks.beside import row_of
from benchmarks.report_cluster import beside_table, cluster_table, tenants_table
from benchmarks.tenants import CopiedStore, is_foreign, registry_of, tenant_id
from jazz_select import ProceduralMemory, sync_registry
from jazz_select.memory.encoder import Encoder, Lexical
from jazz_select.testing import HashEmbedder

ASKED = {"requests": 1_200, "failures": 0, "clients": 16, "rate": 120.4, "p50_ms": 12.34, "p99_ms": 45.67}
COST = {
    "written_s": 3.21,
    "written_ms_of_a_flow": 0.321,
    "first_p50_ms": 2.0,
    "first_p99_ms": 9.0,
    "p50_ms": 1.0,
    "p99_ms": 3.0,
    "foreign": 0,
    "index_mb": 1_234.0,
}
ROWS: list[dict[str, Any]] = [
    {"question": "simulated", "replicas": 0, "tenants": 10, "flows": 1_000, "index": "Edge", "disk_mb": 40, **COST},
    {"question": "synced", "replicas": 0, "tenants": 10, "flows": 100, "index": "stand-in", "memory_mb": 7, **COST},
    {"question": "turns", "replicas": 1, **ASKED},
    {"question": "selects", "replicas": 3, **ASKED},
    {"question": "selects", "replicas": 1, **ASKED},
]


def test_tables() -> None:
    assert cluster_table(ROWS).splitlines()[2:] == [
        "| selects | 1 | 16 | 1,200 | 0 | 120 | 12.3 | 45.7 |",
        "| selects | 3 | 16 | 1,200 | 0 | 120 | 12.3 | 45.7 |",
        "| turns | 1 | 16 | 1,200 | 0 | 120 | 12.3 | 45.7 |",
    ]
    assert tenants_table(ROWS).splitlines()[2:] == [
        "| synced, stand-in | 10 × 100 | 3.2 | 0.32 | 2.0 / 9.0 | 1.0 / 3.0 | 0 | 1,234 | 7 | – |",
        "| simulated, Edge | 10 × 1,000 | 3.2 | 0.32 | 2.0 / 9.0 | 1.0 / 3.0 | 0 | 1,234 | – | 40 |",
    ]
    markers = {marker for marker, (asked, _) in report.TABLES.items() if asked == "cluster"}
    assert markers == {"cluster", "tenants", "cluster-provenance"}


def test_a_service_beside_an_earlier_one_is_told_by_the_ratios_of_the_rounds() -> None:
    row = row_of("selects", "abc", [{"selects": [1.0, 1.0, 2.0, 2.0]}, {"selects": [2.0, 2.0, 2.0, 2.0]}], size=2)
    assert (row["least_ratio"], row["ratio"], row["most_ratio"]) == (1.0, 1.5, 2.0)
    assert beside_table([row]).splitlines()[2:] == [
        "| selects | `abc` | 4 | 1.50 / 2.00 | 2.00 / 2.00 | 1.500 | 1.00 – 2.00 |"
    ]


@pytest.mark.spec("021.4")
async def test_each_copied_tenant_finds_its_own_flows_and_one_of_another_would_be_seen(tmp_path: Path) -> None:
    encoder = Encoder(HashEmbedder(), Lexical("english"))
    store = CopiedStore(tmp_path, encoder)
    async with ProceduralMemory(store, encoder) as memory:
        await sync_registry(memory, tenant_id(0), registry_of(0, 5))
        await store.copy(3)
        for tenant in range(3):
            recalled = await memory.recall("my order 1", tenant_id(tenant))
            assert recalled
            assert not any(is_foreign(each, tenant) for each in recalled)
            assert all(is_foreign(each, tenant + 1) for each in recalled)
            assert await memory.count_flows(tenant_id(tenant)) == 5
