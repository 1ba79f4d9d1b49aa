"""A plain function that blocks holds up nobody: not the event loop, and not its caller beyond the limit."""

import asyncio
import threading
from typing import Any

import pytest

from jazz_select.errors import DecisionCallbackError
from jazz_select.routing import CHOOSE, Allow, FlowExecutor
from tests.clock import until
from tests.unit.routing.shop import tools


class Blocks:
    """A function that blocks its thread until it is let go of."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.begun, self.over, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self, *_: object) -> Any:
        self.begun.set()
        freed = self.over.wait(30)
        self.ended.set()
        return self.value if freed else None


@pytest.mark.spec("005.6")
async def test_a_callback_that_blocks_is_a_failed_choice() -> None:
    blocks = Blocks("refund_order")

    class Callback:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str | None:
            return str(blocks())

    executor = FlowExecutor(tools(), Callback(), decision_timeout_s=0.1)
    result = await executor.run(["find_order", CHOOSE], {"order_id": "A1"})
    assert not blocks.ended.is_set(), "neither the loop nor the caller waited for it"
    assert result.status == "failed"
    assert isinstance(result.records[-1].cause, DecisionCallbackError)
    blocks.over.set()
    await until(blocks.ended.is_set)
    assert [record.tool for record in result.records if record.status == "ok"] == ["find_order"], "late, and unheard"


@pytest.mark.spec("005.6")
async def test_a_callback_that_exits_is_a_failed_choice() -> None:
    class Exits:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str | None:
            raise SystemExit(3)

    result = await FlowExecutor(tools(), Exits()).run(["find_order", CHOOSE], {"order_id": "A1"})
    assert result.status == "failed"
    assert isinstance(result.records[-1].cause, DecisionCallbackError)
    assert [record.tool for record in result.records if record.status == "ok"] == ["find_order"]


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
    result = await executor.run(["find_order", CHOOSE], {"order_id": "A1"})
    assert (result.status, asyncio.get_running_loop().time() < 2) == ("failed", True)
    over.set()


@pytest.mark.spec("005.6")
async def test_a_hook_that_blocks_holds_up_nobody_else() -> None:
    slow = Blocks(Allow())
    running = asyncio.ensure_future(FlowExecutor(tools(), approve=slow).run(["find_order"], {"order_id": "A1"}))
    await until(slow.begun.is_set)
    assert not slow.ended.is_set(), "the loop goes on meanwhile"
    slow.over.set()
    assert (await running).status == "ok"


async def test_an_open_router_that_blocks_is_given_up_and_the_run_handed_back() -> None:
    slow = Blocks("find_order")
    result = await FlowExecutor(tools(), None, slow, decision_timeout_s=0.1).run([CHOOSE], {})
    assert not slow.ended.is_set()
    slow.over.set()
    assert result.status == "open"
