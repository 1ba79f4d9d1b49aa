"""Several selections at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, ProceduralMemory, SelectRequest, sync_registry
from jazz_select.build import load_registry
from jazz_select.errors import ConfigError, StoreUnavailableError
from jazz_select.selector.policy import Policy
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Decision, Message, Reason, Reply, Tier
from tests.unit.selector.shop import CANCEL, metadata, shop
from tests.vectors import EMBEDDER, NEEDS_STATIC

ROOT = Path(__file__).parents[3]
REQUESTS = ("where is my parcel", "I forgot my password", "cancel my subscription", "Process a refund")


@pytest.fixture(scope="module")
def catalogue() -> FlowRegistry:
    """The repository's own flows."""
    return load_registry(ROOT / "flows")


@pytest.fixture
async def memory(catalogue: FlowRegistry, tmp_path: Path) -> AsyncIterator[ProceduralMemory]:
    """They, indexed."""
    async with await ProceduralMemory.open(tmp_path / "index", embedder=EMBEDDER) as opened:
        await sync_registry(opened, "a", catalogue)
        yield opened


async def test_each_is_what_it_would_be_alone(catalogue: FlowRegistry, memory: ProceduralMemory) -> None:
    selector = FlowSelector(None, catalogue, memory, "a")
    requests = [*REQUESTS, SelectRequest("help me with that", episode_summaries=["The user lost a parcel."])]
    together = await selector.select_many(requests)
    alone = [await selector.select(text) for text in REQUESTS]
    alone.append(await selector.select("help me with that", episode_summaries=["The user lost a parcel."]))
    assert [result.names for result in together] == [result.names for result in alone]
    assert [result.candidates for result in together] == [result.candidates for result in alone]
    assert all(result.decision.latency.total_s > 0 for result in together)


async def test_recall_is_one_call_for_all(memory: ProceduralMemory) -> None:
    results = await memory.recall_many(REQUESTS, "a", top_k=2)
    assert [list(result) for result in results] == [list(await memory.recall(text, "a", top_k=2)) for text in REQUESTS]
    assert await memory.recall_many((), "a") == []
    with pytest.raises(ConfigError, match="2 queries and 1 focuses"):
        await memory.recall_many(("a", "b"), "a", focuses=("a",))


@NEEDS_STATIC
async def test_more_than_one_round_trip_holds(memory: ProceduralMemory) -> None:
    results = await memory.recall_many([f"where is parcel {n}" for n in range(150)], "a", top_k=1)
    assert len(results) == 150
    assert {result[0]["flow_name"] for result in results} <= {"track_order", "lost_parcel"}


async def test_given_blank_and_recalled_ones_side_by_side() -> None:
    memory = ListMemory(metadata())
    selector = FlowSelector(ScriptedModel(f'["{CANCEL}"]', repeat=True), shop(), memory, "a")
    results = await selector.select_many(["x", SelectRequest("y", metadata("refund_order")), "", "z"])
    assert [result.decision.reason for result in results] == [Reason.LLM, Reason.SINGLE, Reason.NONE, Reason.LLM]
    assert await selector.select_many([]) == []


@pytest.mark.spec("009.2")
async def test_one_of_several_may_answer_a_question_or_be_looked_for_among_some() -> None:
    memory = ListMemory(metadata())
    selector = FlowSelector(None, shop(), memory, "a", policy=Policy(ask_user=True))
    (asked,) = await selector.select_many(["my order"])
    question = asked.decision.question
    assert question is not None
    memory.calls.clear()
    answered, other, among, alone, blank = await selector.select_many(
        [
            SelectRequest("the second one", asked=asked.decision),
            SelectRequest("the blue one", asked=question),
            SelectRequest("my order", only=[CANCEL]),
            SelectRequest("my order", asked=answered_by(selector)),
            SelectRequest("", asked=answered_by(selector)),
        ]
    )
    assert (answered.names, answered.decision.reason) == ([question.options[1].flow_name], Reason.USER)
    assert among.names == ["cancel_order"]
    assert other.decision.question is not None
    assert other.decision.question.request == "the blue one"
    assert "carries no question" in alone.decision.notes[0]
    assert "carries no question" in blank.decision.notes[0]
    assert len(memory.calls) == 3, "an answer that names one is looked for nowhere"
    assert any("the blue one my order" in str(call) for call in memory.calls)


def answered_by(selector: FlowSelector) -> Decision:
    """A decision without a question."""
    return Decision(tier=Tier.DETERMINISTIC, reason=Reason.SINGLE, chosen_ids=tuple(selector.flow_registry)[:1])


async def test_its_time_begins_when_its_turn_comes_and_the_limit_holds() -> None:
    most = now = 0

    async def model(messages: Sequence[Message]) -> Reply:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.2)
        now -= 1
        return Reply(text=f'["{CANCEL}"]')

    selector = FlowSelector(
        model, shop(), model_options=ModelOptions(max_concurrency=3), timeout_s=1.0
    )  # six rounds take longer
    results = await selector.select_many([SelectRequest(f"x{n}", metadata()) for n in range(18)])
    assert {result.decision.reason for result in results} == {Reason.LLM}
    assert most == 3


@pytest.mark.parametrize("requests", [[1], ["x", None]], ids=str)
async def test_what_is_no_request_is_refused(requests: Any) -> None:
    with pytest.raises(ConfigError):
        await FlowSelector(None, shop()).select_many(requests)
    with pytest.raises(ConfigError, match="episode_summaries must be a list of strings, or None"):
        SelectRequest("x", episode_summaries=[2])  # pyright: ignore[reportArgumentType]


async def test_a_memory_that_is_down_is_told() -> None:
    down = StoreUnavailableError("http://nowhere", "connection refused")
    with pytest.raises(StoreUnavailableError):
        await FlowSelector(None, shop(), ListMemory(error=down), "a").select_many(["x", "y"])


async def test_cancelled_it_leaves_nothing_behind() -> None:
    running = asyncio.Event()

    async def model(messages: Sequence[Message]) -> Reply:
        running.set()
        await asyncio.sleep(30)
        return Reply(text="[]")

    selector = FlowSelector(model, shop())
    batch = asyncio.ensure_future(selector.select_many([SelectRequest("x", metadata())] * 5))
    await running.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others
