"""Tool search beside others: the measurement on a handful of tools, and its table."""

import pytest

from benchmarks import __main__ as everything
from benchmarks import report, tool_search
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.report_tool_search import tool_search_table
from jazz_select import Tool

pytestmark = pytest.mark.spec("020.2")
NAMES = [f"{verb}_{thing}" for verb in ("find", "drop", "send") for thing in ("letter", "parcel", "photo", "ticket")]


def about(name: str) -> str:
    return f"To {name.replace('_', ' a ')}."


async def test_each_way_is_asked_for_the_same() -> None:
    dataset = Dataset(
        name="few",
        flows=tuple(Entry(name=name, description=about(name)) for name in NAMES),
        requests=(
            Request(text="send a photo", gold=frozenset({"send_photo"})),
            Request(text="lose it", gold=frozenset({"drop_ticket"})),
        ),
        outside=("a", "photo"),
        sha256="x",
    )
    tools = [Tool(name=name, description=about(name)) for name in NAMES]
    found = {row["way"]: row async for row in tool_search.rows_of(dataset, tools, 9, ["static"])}
    assert list(found) == ["regex", "BM25", "jazz_select, static"]
    for row in found.values():
        assert (row["tools"], row["requests"], row["outside"]) == (12, 2, 2)
        assert row["found"] + row["lost"] == 2
        assert row["tokens"] < row["all tokens"]
    assert found["BM25"]["found"] == 1
    assert found["regex"]["nothing shown"] == 1  # of "a", which has no long word
    assert found["jazz_select, static"]["found"] >= 1


def test_the_table_says_what_was_found_and_lost() -> None:
    row = {"dataset": "one", "way": "BM25", "tools": 1_200, "requests": 1_000, "outside": 50, "found": 900, "lost": 100}
    tasks = {"dataset": "two", "outside": 0}
    row |= {"nothing shown": 9, "all tokens": 50_000, "tokens": 1_243.0, "numbers": {"R@5": 0.9, "p50": 1, "p99": 2}}
    assert tool_search_table([row, {**row, **tasks}]).splitlines()[2:] == [
        "| one | BM25 | 1,200 | 1,000 | 900 (90.0 %) | 100 | 9 of 50 | 50,000 | 1,243 | 1.0 / 2.0 |",
        "| two | BM25 | 1,200 | 1,000 | 900 (90.0 %) | 100 | – | 50,000 | 1,243 | 1.0 / 2.0 |",
    ]


def test_it_is_measured_with_all_others_and_has_a_table() -> None:
    assert everything.tool_search is tool_search
    assert {marker for marker, (asked, _) in report.TABLES.items() if asked == "tool_search"} == {
        "tool-search",
        "tool-search-provenance",
    }
