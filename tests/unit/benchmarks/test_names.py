"""The list of tool names, and how it is counted."""

from collections import Counter

import pytest

from benchmarks import names, report_names
from benchmarks.names import Case
from jazz_select.routing.tools.tool import Tool

TOOLS, CASES = names.read()


def test_the_list_is_what_the_page_says() -> None:
    assert len(CASES) >= 150
    known = {tool.name for tool in TOOLS}
    assert all({*case.want, *case.without} <= known and (not case.suggest or case.suggest in known) for case in CASES)
    halves = Counter((case.kind, case.held) for case in CASES)
    assert all(abs(halves[kind, True] - halves[kind, False]) <= 1 for kind in {case.kind for case in CASES})
    assert all(tool.destructive for tool in TOOLS if tool.name in {case.suggest for case in CASES if case.suggest})


def test_what_runs_is_counted_as_found_or_wrong() -> None:
    cases = [
        Case(ask="lock_door", want=("lock_door",), kind="case", held=False),
        Case(ask="unlock_door", want=(), kind="opposite", held=False),
        Case(ask="lock_door", want=(), kind="opposite", held=False, without=frozenset({"lock_door"})),
        Case(ask="zzz", want=("lock_door",), kind="typo", held=False),
        Case(ask="lock_door", want=("lock_door",), kind="case", held=True),
    ]
    row = names.row_of("rapidfuzz ratio", [Tool(name="lock_door"), Tool(name="play_song")], cases, held=False)
    assert (row["names"], row["meant"], row["found"], row["missed"]) == (4, 2, 1, ["zzz"])
    assert (row["wrong"], row["wrong_by_kind"], row["ran"]) == (1, {"opposite": 1}, ["unlock_door -> lock_door"])


@pytest.mark.parametrize("method", names.METHODS)
def test_every_method_finds_what_is_there(method: str) -> None:
    assert names.METHODS[method]([Tool(name="lock_door"), Tool(name="play_song")])("play_song") == "play_song"


def test_the_safest_stands_first_in_the_table() -> None:
    rows = [
        {"method": method, "half": half, "meant": 10, "found": found, "names": 20, "us": 5.0}
        | {"wrong": wrong, "wrong_by_kind": {"opposite": wrong}}
        for method, found, wrong in (("a", 10, 3), ("b", 9, 0))
        for half in ("tuned", "held out")
    ]
    first, second = report_names.names_table(rows).splitlines()[2:]
    assert first == "| b | 20 | 90.0 / 90.0 | 40 | 0 | 0 | 0 | 0 | 0 | 5 |"
    assert second == "| a | 20 | 100.0 / 100.0 | 40 | 6 | 6 | 0 | 0 | 0 | 5 |"
