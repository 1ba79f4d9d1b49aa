"""The memory that recalls what it was given."""

from typing import Any

import pytest

from jazz_select.errors import StoreUnavailableError
from jazz_select.ports import FlowMemory
from jazz_select.testing import ListMemory

CANDIDATES: list[dict[str, Any]] = [{"flow_id": name, "flow_name": name.upper()} for name in "abcd"]


@pytest.mark.parametrize(
    ("top_k", "exclude", "expected"),
    [
        pytest.param(3, (), "abc", id="the first three"),
        pytest.param(9, (), "abcd", id="no more than there are"),
        pytest.param(2, {"a", "c"}, "bd", id="an excluded one takes no place"),
    ],
)
async def test_recall(top_k: int, exclude: set[str], expected: str) -> None:
    memory: FlowMemory = ListMemory(CANDIDATES)
    found = await memory.recall("q", "agent", top_k, exclude=exclude)
    assert [candidate["flow_id"] for candidate in found] == list(expected)


async def test_what_was_asked_is_recorded() -> None:
    memory = ListMemory(CANDIDATES, notes=("dense arm down",))
    found = await memory.recall("money back", "support", top_k=2, rrf_k=5, exclude=["d"])
    assert found.notes == ("dense arm down",)
    (call,) = memory.calls
    assert (call.query, call.agent_id, call.top_k, call.rrf_k, call.exclude) == ("money back", "support", 2, 5, {"d"})


async def test_changing_a_result_leaves_the_memory_alone() -> None:
    memory = ListMemory(CANDIDATES)
    (await memory.recall("q", "a"))[0]["flow_name"] = "changed"
    assert (await memory.recall("q", "a"))[0]["flow_name"] == "A"


async def test_it_fails_as_told() -> None:
    memory = ListMemory(CANDIDATES, error=StoreUnavailableError("http://x", "down"))
    with pytest.raises(StoreUnavailableError):
        await memory.recall("q", "a")
    assert len(memory.calls) == 1
