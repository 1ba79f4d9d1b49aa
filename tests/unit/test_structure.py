"""The shape of the house: no circle of imports, few modules, and few of them entered by one call."""

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import FrameType

import pytest

from benchmarks import house
from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, ProceduralMemory, sync_registry, tool_from_function
from jazz_select.testing import HashEmbedder, ScriptedModel

PACKAGE = house.PACKAGE
MOST_ENTERED = {"select": 32, "turn": 62}
"""Files of the package that one minimal call may pass through: three are the border to a provider, seven the stages."""


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = house.graph()
    assert sum(map(len, graph.values())) > len(graph), "the imports were not read"
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_readers_need_no_module_that_runs_flows() -> None:
    graph = house.graph()
    left = [name for name in graph if name.startswith("jazz_select.agent.reading.")]
    assert left, "the readers were not found"
    needed: set[str] = set()
    while left:
        name = left.pop()
        if name not in needed:
            needed.add(name)
            left += graph.get(name, ())
    assert "jazz_select.agent.turn" in needed
    assert [name for name in sorted(needed) if name.startswith("jazz_select.agent.flows.")] == []


@dataclass
class Entered:
    """What was passed through while calls were watched."""

    files: set[str] = field(default_factory=set[str])
    hops: int = 0
    """How often a call led from one file into another."""


@contextmanager
def watched() -> Generator[Entered]:
    """Note every call of the package's functions, in this thread and in those that begin meanwhile."""
    entered = Entered()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(PACKAGE)) and "testing" not in Path(file).parts:
            entered.files.add(file)
            entered.hops += frame.f_back is None or frame.f_back.f_code.co_filename != file

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(before)
        threading.setprofile(None)


def refund(email: str) -> str:
    """Refund the last order."""
    return f"refunded {email}"


@asynccontextmanager
async def minimal(call: str) -> AsyncGenerator[Callable[[], Awaitable[object]]]:
    """One call of a selector, or of an agent, with a model that chooses between two flows."""
    registry = FlowRegistry(min_examples=0)
    for name in ("refund_order", "track_order"):
        flow = Flow(name=name, tools=["refund"], registry=registry)
        vars(flow)["chain"] = ["refund"]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        await sync_registry(memory, "support", registry)
        model = ScriptedModel('["refund_order"]', '["refund_order"]') if call == "select" else None
        selector = FlowSelector(model, registry, memory, "support")
        agent = Agent(selector, [tool_from_function(refund)])
        if call == "select":
            yield lambda: selector.select("refund my order")
        else:
            yield lambda: agent.turn("refund order", context={"email": "ada@example.org"})


@pytest.mark.parametrize("call", MOST_ENTERED)
def test_a_call_passes_through_few_files(call: str, record_property: Callable[[str, object], None]) -> None:
    async def one() -> Entered:
        async with minimal(call) as made:
            await made()  # what is loaded once is no part of a call
            with watched() as entered:
                await made()
        return entered

    entered = asyncio.run(one())
    record_property("files", len(entered.files))
    record_property("hops", entered.hops)
    print(f"one {call}: {len(entered.files)} files, {entered.hops} hops between them")  # noqa: T201 - shown by pytest -s
    listed = sorted(str(Path(file).relative_to(PACKAGE)) for file in entered.files)
    assert 5 < len(listed) <= MOST_ENTERED[call], " ".join(listed)
