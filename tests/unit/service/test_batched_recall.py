"""Recalls that wait at one moment are looked up together, and each is answered as if it were alone."""

import asyncio
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.build import sync_registry
from jazz_select.errors import ConfigError, StoreError, StoreUnavailableError
from jazz_select.service.batched_recall import BatchedRecall
from tests.unit.service.served import REFUND, Shop, memory

pytestmark = pytest.mark.spec("008.1")
ASKED = [f"{what} {number}" for number in range(20) for what in (REFUND, "track my order", "stop the order")]


class Counted:
    """A memory that notes how it is asked."""

    def __init__(self, inner: ProceduralMemory) -> None:
        self.inner = inner
        self.sizes: list[int] = []

    async def recall(self, query: str, *given: Any, **options: Any) -> Any:
        self.sizes.append(1)
        return await self.inner.recall(query, *given, **options)

    async def recall_many(self, queries: list[str], *given: Any, **options: Any) -> Any:
        self.sizes.append(len(queries))
        return await self.inner.recall_many(queries, *given, **options)


async def filled(inner: ProceduralMemory) -> tuple[Counted, BatchedRecall]:
    await sync_registry(inner, "shop", Shop().sources().registry)
    counted = Counted(inner)
    return counted, BatchedRecall(counted)  # pyright: ignore[reportArgumentType] - asked as the memory is


async def test_the_answers_are_those_of_each_alone() -> None:
    async with memory() as inner:
        counted, together = await filled(inner)
        options: list[dict[str, Any]] = [{"top_k": 2}, {"top_k": "auto"}, {"focus": "track it"}, {}]
        asked = [(text, options[number % len(options)]) for number, text in enumerate(ASKED)]
        alone = [await inner.recall(text, "shop", **more) for text, more in asked]
        found = await asyncio.gather(*(together.recall(text, "shop", **more) for text, more in asked))
        assert [each.to_dict() for each in found] == [each.to_dict() for each in alone]
        assert (sum(counted.sizes), len(counted.sizes) < len(ASKED) / 3) == (len(ASKED), True)


async def test_one_that_cannot_be_answered_spoils_no_other() -> None:
    async with memory() as inner:
        _, together = await filled(inner)
        wrong: Any = 7
        asked = [together.recall(wrong if number == 3 else REFUND, "shop") for number in range(6)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(each, ConfigError) for each in found] == [False, False, False, True, False, False]


async def test_who_is_cancelled_takes_nobody_along() -> None:
    async with memory() as inner:
        _, together = await filled(inner)
        tasks = [asyncio.create_task(together.recall(REFUND, "shop")) for _ in range(6)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[4].cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, asyncio.CancelledError) for each in found] == [True, False, False, False, True, False]
        assert (await together.recall(REFUND, "shop"))[0]["flow_name"] == "refund_order"


@pytest.mark.parametrize("alone", [False, True], ids=["together", "one by one"])
async def test_a_lookup_that_is_cancelled_from_within_is_an_error_to_those_who_wait(*, alone: bool) -> None:
    class Cancelling(Counted):
        async def recall_many(self, queries: list[str], *given: Any, **options: Any) -> Any:
            raise OSError if alone else asyncio.CancelledError

        async def recall(self, query: str, *given: Any, **options: Any) -> Any:
            if alone and len(self.sizes) == 1:
                self.sizes.append(0)
                raise asyncio.CancelledError
            return await super().recall(query, *given, **options)

    async with memory() as inner:
        await filled(inner)
        together = BatchedRecall(Cancelling(inner))  # pyright: ignore[reportArgumentType] - asked as the memory is
        tasks = [asyncio.create_task(together.recall(REFUND, "shop")) for _ in range(5)]
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(each, StoreError) for each in found] == [False, True, True, True, True]
        assert (await together.recall(REFUND, "shop"))[0]["flow_name"] == "refund_order"


def test_another_event_loop_asks_by_itself() -> None:
    async def two() -> None:
        async with memory() as inner:
            _, together = await filled(inner)
            here = await together.recall(REFUND, "shop")
            there = await asyncio.to_thread(lambda: asyncio.run(together.recall(REFUND, "shop")))
            assert there == here

    asyncio.run(two())


@pytest.mark.spec("021.3")
async def test_a_server_that_hangs_costs_all_who_wait_one_limit_each_and_never_one_after_the_other() -> None:
    class Hanging:
        async def recall(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(3_600)

        recall_many = recall

    failed: list[StoreError] = []
    limits = [10.0, 3.0]
    together = BatchedRecall(
        Hanging(),  # pyright: ignore[reportArgumentType] - asked as the memory is
        failed=failed.append,
        limit_s=lambda: limits[min(len(failed), 1)],
        place="http://index.example",
    )
    began = asyncio.get_running_loop().time()
    tasks = [asyncio.create_task(together.recall(REFUND, "shop")) for _ in range(30)]
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert asyncio.get_running_loop().time() - began == pytest.approx(13)
    assert {str(each).partition(". ")[0] for each in found} == {
        "the Qdrant server at http://index.example cannot be used: it did not answer within 10 s",
        "the Qdrant server at http://index.example cannot be used: it did not answer within 3 s",
    }
    assert all(isinstance(each, StoreUnavailableError) for each in found)
    assert len(failed) == 2
