"""A model that never answers: whoever asks it goes on within a limit. The clock jumps, so nobody waits for it."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Agent
from jazz_select.errors import ModelError, ModelTimeoutError, ModelUnavailableError
from jazz_select.routing import ToolAsker
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, Reply
from tests.agents import make_agent
from tests.unit.agent.hanging import timed_alone as timed
from tests.unit.routing.shop import tools

# From 3.12 on a loop gives its threads 300 s to end, which pass at once on a clock that jumps.
pytestmark = pytest.mark.filterwarnings("ignore:The executor did not finish")

FOUND = '{"flows": ["find_order"], "values": {"order_id": "A1"}}'


async def hangs(messages: Sequence[Message]) -> str:
    await asyncio.sleep(1_000_000)
    return FOUND


async def ignores_being_cancelled(messages: Sequence[Message]) -> str:
    for _ in range(3):
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            continue
    return FOUND


HUNG = [pytest.param(hangs, id="hangs"), pytest.param(ignores_being_cancelled, id="ignores being cancelled")]


def agent(model: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="find_order", description="Finds an order.", registry=registry)
    vars(flow).update(tools=("find_order",), chain=("find_order",))
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name, "confidence": 0.99}])
    return Agent(FlowSelector(None, registry, memory, "a"), tools(), model)


@pytest.mark.parametrize("model", HUNG)
def test_a_turn_asks_the_user_where_a_hung_model_finds_no_facts(model: Any) -> None:
    result, took_s = timed(agent(model).turn("where is my order?"))
    assert (result.status, result.conversation.flows[0].asks) == ("waiting", ("order_id",))
    assert 20 <= took_s < 25


@pytest.mark.parametrize("model", HUNG)
def test_a_turn_in_which_no_flow_fits_is_given_up_in_time(model: Any) -> None:
    lost = make_agent(FlowSelector(None, FlowRegistry(), ListMemory([]), "a"), tools(), model, model_timeout_s=5.0)
    result, took_s = timed(lost.turn("what is the weather like?"))
    assert (result.status, type(result.error).__name__) == ("failed", "ChainError")
    assert 5 <= took_s < 6


@pytest.mark.parametrize("model", HUNG)
def test_an_answer_that_a_hung_model_does_not_put_into_its_schema_is_given_up_in_time(model: Any) -> None:
    made = agent(model)
    schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
    result, took_s = timed(made.turn("where is my order?", context={"order_id": "A1"}, schema=schema))
    assert (result.status, type(result.error).__name__) == ("done", "FormatError")
    assert 30 <= took_s < 50


def test_a_turn_goes_on_with_what_a_model_finds_that_failed_for_a_moment() -> None:
    model = ScriptedModel(ModelError("m", "busy", retryable=True), FOUND)
    result, _ = timed(agent(model).turn("where is my order A1?"))
    assert (result.status, len(model.calls)) == ("done", 2)


@pytest.mark.parametrize("model", HUNG)
def test_a_hung_model_is_given_up_when_asked_for_tools(model: Any) -> None:
    async def caught() -> BaseException | None:
        try:
            await ToolAsker(model, tools()).ask("hi")
        except ModelTimeoutError as error:
            return error
        return None

    error, took_s = timed(caught())
    assert "no answer within 30 s" in str(error)
    assert 30 <= took_s < 32


async def test_after_a_lost_deadline_tools_are_not_asked_for_at_once() -> None:
    asker = ToolAsker(ScriptedModel("x", delay_s=5, repeat=True), tools(), timeout_s=0.02)
    with pytest.raises(ModelTimeoutError):
        await asker.ask("hi")
    with pytest.raises(ModelUnavailableError):
        await asker.ask("hi")


async def test_a_passing_fault_is_met_by_asking_for_tools_again() -> None:
    model = ScriptedModel(ModelError("m", "busy", retryable=True, retry_after=0), '{"natural_language_response": "Hi"}')
    assert (await ToolAsker(model, tools()).ask("hi")).text == "Hi"
    with pytest.raises(ModelError, match="busy"):
        await ToolAsker(ScriptedModel(ModelError("m", "busy", retryable=True)), tools(), max_retries=0).ask("hi")


async def test_what_is_no_text_calls_no_tools() -> None:
    class Odd(ScriptedModel):
        async def complete(self, messages: Sequence[Message], *, schema: object = None, tools: object = ()) -> Reply:
            return Reply(text=None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]

    record = await ToolAsker(Odd(), tools()).ask("hi")
    assert (record.raw_reply, record.reply.kind) == ("", "unreadable")
