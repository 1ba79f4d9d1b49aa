"""The support pack, indexed once; each test opens the index anew."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from flows.shop import Shop
from flows.tools import ReturnPolicy, shop_tools
from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.agent.agent import Agent
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing import Tool
from tests.agents import make_agent
from tests.unit.agent.turns import Made, all_named
from tests.vectors import EMBEDDER

PACK = Path(__file__).parents[3] / "flows"


@pytest.fixture(scope="session")
def pack() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(PACK, registry)
    return registry


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory, pack: FlowRegistry) -> Path:
    folder = tmp_path_factory.mktemp("index")

    async def fill() -> None:
        async with await ProceduralMemory.open(folder, embedder=EMBEDDER) as memory:
            await sync_registry(memory, "support", pack)

    asyncio.run(fill())
    return folder


@pytest.fixture
async def memory(indexed: Path) -> AsyncIterator[ProceduralMemory]:
    async with await ProceduralMemory.open(indexed, embedder=EMBEDDER) as memory:
        yield memory


@pytest.fixture(scope="session")
def shops(pack: FlowRegistry) -> Iterator[Callable[[int], list[Tool]]]:
    """The tools of shops where nobody has been yet, by number; made once, since that takes longer than most tests."""
    kept: list[tuple[Shop, list[Tool]]] = []

    def fresh(number: int) -> list[Tool]:
        if number == len(kept):
            shop = Shop()
            kept.append((shop, all_named(pack, shop_tools(shop))))
        shop, tools = kept[number]
        shop.reload()
        return tools

    yield fresh
    for shop, _ in kept:
        shop.close()


@pytest.fixture
def made(memory: ProceduralMemory, pack: FlowRegistry, shops: Callable[[int], list[Tool]]) -> Made:
    numbers = count()  # whoever makes two agents in one test has two shops

    def make(model: Any = None, *, llm: Any = None, **options: Any) -> Agent:
        options = {"decision_callback": ReturnPolicy(), "approval": "never"} | options
        tools = shops(next(numbers))
        return make_agent(FlowSelector(llm, pack, memory, "support"), tools, model, **options)

    return make
