"""A plain function that blocks holds up nobody: not the event loop, and not its caller beyond the limit."""

import asyncio
import time
from typing import Any

import pytest

from jazz_select.errors import DecisionCallbackError
from jazz_select.routing import CHOOSE, Allow, FlowExecutor, ToolCall
from tests.unit.routing.shop import tools


class Blocks:
    """Chooses too late, or exits."""

    def __init__(self, *, exits: bool = False) -> None:
        self.exits = exits
        self.answered = False

    def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str | None:
        if self.exits:
            raise SystemExit(3)
        time.sleep(0.5)
        self.answered = True
        return candidates[0].name


async def beats(work: Any) -> tuple[list[Any], float]:
    """What comes of it, and the longest that the loop was held meanwhile."""
    longest, last = 0.0, time.perf_counter()
    task: asyncio.Future[Any] = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
    await asyncio.wait({task})
    return [task.result()], longest


@pytest.mark.spec("005.6")
@pytest.mark.parametrize("exits", [False, True], ids=["blocks", "exits"])
async def test_a_callback_that_blocks_or_exits_is_a_failed_choice(exits: bool) -> None:
    callback = Blocks(exits=exits)
    executor = FlowExecutor(tools(), callback, decision_timeout_s=0.1)
    [result], held_s = await beats(executor.run(["find_order", CHOOSE], {"order_id": "A1"}))
    assert result.status == "failed"
    assert isinstance(result.records[-1].cause, DecisionCallbackError)
    assert held_s < 0.3
    await asyncio.sleep(0 if exits else 0.6)
    assert callback.answered is not exits
    assert [record.tool for record in result.records if record.status == "ok"] == ["find_order"], "late, and unheard"


@pytest.mark.spec("005.6")
async def test_a_callback_that_swallows_its_cancellation_is_left_behind() -> None:
    over = asyncio.Event()

    class Stubborn:
        async def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str | None:
            while not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue
            return None

    executor = FlowExecutor(tools(), Stubborn(), decision_timeout_s=0.1)
    began = time.perf_counter()
    result = await executor.run(["find_order", CHOOSE], {"order_id": "A1"})
    assert (result.status, time.perf_counter() - began < 2) == ("failed", True)
    over.set()


@pytest.mark.spec("005.6")
async def test_a_hook_that_blocks_holds_up_nobody_else() -> None:
    def slow(_: ToolCall) -> Allow:
        time.sleep(0.4)
        return Allow()

    executor = FlowExecutor(tools(), approve=slow)
    [result], held_s = await beats(executor.run(["find_order"], {"order_id": "A1"}))
    assert result.status == "ok"
    assert held_s < 0.3


async def test_an_open_router_that_blocks_is_given_up_and_the_run_handed_back() -> None:
    def slow(*_: object) -> str:
        time.sleep(0.5)
        return "find_order"

    executor = FlowExecutor(tools(), None, slow, decision_timeout_s=0.1)
    [result], held_s = await beats(executor.run([CHOOSE], {}))
    assert result.status == "open"
    assert held_s < 0.3
