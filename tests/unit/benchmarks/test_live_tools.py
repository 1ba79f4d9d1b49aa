"""The benchmark of tools of many servers: what it counts, and how it is shown."""

import pytest

from benchmarks import live_tools, report_live_tools
from benchmarks.datasets.base import Dataset, Entry, Request
from tests.vectors import EMBEDDER, NEEDS_STATIC

SERVERS = ("github", "spotify", "jira")


@NEEDS_STATIC
@pytest.mark.spec("020.6")
async def test_what_is_asked_and_counted() -> None:
    flows = tuple(Entry(name=f"t{place}", description="List all.", provider=each) for place, each in enumerate(SERVERS))
    requests = tuple(
        Request(text=f"list all of {each}", gold=frozenset({f"t{place}"})) for place, each in enumerate(SERVERS)
    )
    dataset = Dataset(name="livemcpbench-steps", flows=flows, requests=requests, sha256="ab")
    row = await live_tools.measured(dataset, EMBEDDER)
    assert (row["tools"], row["requests"], row["data"]) == (3, 3, "ab")
    assert (row["shares"]["first is right"], row["shares"]["R@1"]) == (1.0, 1.0)


def test_each_data_set_stands_above_the_same_with_owners() -> None:
    shares = dict.fromkeys(("first is right", "R@1", "R@5", "R@10", "nDCG@10"), 0.5)
    rows = [
        {"dataset": name, "embedder": "static", "requests": 7, "shares": shares}
        for name in reversed(live_tools.DATASETS)
    ]
    table = report_live_tools.live_table(rows).splitlines()
    assert [line.split(" | ")[:2] for line in table[2:]] == [
        ["| 7 tasks", "what it does"],
        ["| 7 tasks", "and whose it is"],
        ["| 7 steps", "what it does"],
        ["| 7 steps", "and whose it is"],
    ]
