"""What a gateway spares and finds: the measurement on a handful of tools, and its table."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as everything
from benchmarks import gateway, report
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.report_gateway import gateway_table

SEARCH = {"recall": 0.9, "tokens": 400.0, "p50": 3.26, "p99": 9.14}


def test_the_table_says_what_is_left_of_the_list() -> None:
    row: dict[str, Any] = {"dataset": "one", "embedder": "static", "tools": 1_200, "requests": 900}
    row |= {"before": 50_000, "after": 600, "searches": dict.fromkeys(("3", "5", "10"), SEARCH)}
    assert gateway_table([row]).splitlines()[2:] == [
        "| one | 1,200 | 900 | static | 50,000 | 600 | 1,000 | 2.0 % | 90.0 | 90.0 | 90.0 | 3.3 / 9.1 |"
    ]


def test_it_is_asked_with_all_others_and_has_a_table() -> None:
    assert everything.gateway is gateway
    assert {marker for marker, (asked, _) in report.TABLES.items() if asked == "gateway"} == {
        "gateway",
        "gateway-provenance",
    }


@pytest.mark.programs
@pytest.mark.spec("008.3")
async def test_a_real_server_is_asked_through_a_real_gateway() -> None:
    flows = [
        Entry(name=f"{verb}_{thing}", description=f"To {verb} a {thing}.")
        for verb in ("find", "drop", "send")
        for thing in ("letter", "parcel", "photo", "ticket")
    ]
    requests = [Request(text="send a photo", gold=frozenset({"send_photo"}))]
    dataset = Dataset(name="few", flows=tuple(flows), requests=tuple(requests), seed=1, sha256="x")
    row = await gateway.measured(dataset, Path(), "static", 5)
    assert (row["tools"], row["listed"], row["requests"]) == (12, 4, 1)
    assert row["searches"]["3"]["recall"] == 1.0
    assert row["searches"]["3"]["tokens"] < row["searches"]["10"]["tokens"]
    assert row["after"] > 0
    assert row["before"] > 0
