"""An answer while it is made: output text comes once, from the last call alone, and the work ends with its reader."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from inspect import signature
from typing import Any

import pytest

from jazz_select.agent.chain.finalizer import finalize
from jazz_select.agent.chain.responder import respond, stream_respond
from jazz_select.agent.chain.transcript import (
    Chain,
    ChainText,
    Event,
    Finished,
    FormatRestarted,
    FormatStarted,
    OutputText,
    ToolCalled,
)
from jazz_select.errors import ChainError, ConfigError, FormatError, ModelError
from jazz_select.ports import streams
from jazz_select.testing import ScriptedModel
from tests.unit.agent.support import ASK, FIND, INVALID, SAID, SCHEMA, VALID, VALUE, StreamingModel, tools


async def heard(model: ScriptedModel, **options: Any) -> list[Event]:
    return [event async for event in stream_respond(model, ASK, **options)]


def output(events: list[Event]) -> str:
    """What a reader shows who heeds restarts."""
    text = ""
    for event in events:
        if isinstance(event, FormatRestarted):
            text = ""
        elif isinstance(event, OutputText):
            text += event.delta
    return text


CASES: list[Any] = [
    pytest.param([f"Looking.\n{FIND}", SAID, VALID], {"tools": tools(), "schema": SCHEMA}, VALID, id="deferred"),
    pytest.param([f"Looking.\n{FIND}", SAID], {"tools": tools()}, SAID, id="no schema"),
    pytest.param([VALID], {"schema": SCHEMA}, VALID, id="no tools"),
    pytest.param([SAID], {}, SAID, id="neither"),
    pytest.param([FIND, SAID, INVALID, VALID], {"tools": tools(), "schema": SCHEMA}, VALID, id="asked again"),
    pytest.param(
        [FIND, '{"tool_call": {"tool": "final_answer", "arguments": ' + VALID + "}}"],
        {"tools": tools(), "schema": SCHEMA, "strategy": "tool"},
        VALID,
        id="the loop gives it",
    ),
]


@pytest.mark.spec("001.9")
@pytest.mark.spec("001.10")
@pytest.mark.parametrize("kind", [ScriptedModel, StreamingModel])
@pytest.mark.parametrize(("replies", "options", "text"), CASES)
async def test_output_text_comes_once_and_from_the_last_call_alone(
    kind: type[ScriptedModel], replies: list[str], options: dict[str, Any], text: str
) -> None:
    events = await heard(kind(*replies), **options)
    assert output(events) == text
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.answer.text == text
    if kind is ScriptedModel:
        assert last.answer == await respond(ScriptedModel(*replies), ASK, **options)
    chain_texts = [event.text for event in events if isinstance(event, ChainText)]
    assert not any(each in text for each in chain_texts)


@pytest.mark.spec("001.9")
async def test_a_model_that_streams_is_read_while_it_writes() -> None:
    model = StreamingModel(FIND, SAID, VALID)
    events = await heard(model, tools=tools(), schema=SCHEMA)
    deltas = [event.delta for event in events if isinstance(event, OutputText)]
    assert deltas == [VALID[start : start + 3] for start in range(0, len(VALID), 3)]
    assert model.streamed == model.closed == 1
    assert streams(model)
    assert not streams(ScriptedModel(""))


@pytest.mark.spec("001.9")
async def test_a_plain_prompt_is_answered_piece_by_piece() -> None:
    model = StreamingModel(SAID)
    events = await heard(model)
    deltas = [event.delta for event in events if isinstance(event, OutputText)]
    assert deltas == [SAID[start : start + 3] for start in range(0, len(SAID), 3)]
    assert model.streamed == model.closed == 1
    assert not any(isinstance(event, ChainText) for event in events)
    assert (await respond(StreamingModel(SAID), ASK)).text == SAID, "nobody listens, so nothing is streamed"


@pytest.mark.spec("001.9")
async def test_a_plain_stream_that_breaks_off_is_an_error_with_its_chain() -> None:
    with pytest.raises(ChainError, match="the line went dead"):
        await heard(StreamingModel(SAID, fail_after=2))


@pytest.mark.spec("001.9")
async def test_an_invalid_stream_is_taken_back_before_the_next() -> None:
    events = await heard(StreamingModel(INVALID, VALID), schema=SCHEMA)
    places = [number for number, event in enumerate(events) if isinstance(event, FormatRestarted)]
    assert len(places) == 1
    before = "".join(event.delta for event in events[: places[0]] if isinstance(event, OutputText))
    after = "".join(event.delta for event in events[places[0] :] if isinstance(event, OutputText))
    assert (before, after) == (INVALID, VALID)


@pytest.mark.spec("001.9")
async def test_without_a_stream_no_invalid_text_is_ever_told() -> None:
    events = await heard(ScriptedModel(INVALID, VALID), schema=SCHEMA)
    assert [event for event in events if isinstance(event, OutputText | FormatRestarted)] == [OutputText(delta=VALID)]


@pytest.mark.spec("001.10")
async def test_the_chains_own_answer_is_chain_text_where_a_schema_was_asked_for() -> None:
    events = await heard(ScriptedModel(f"Looking.\n{FIND}", SAID, VALID), tools=tools(), schema=SCHEMA)
    assert [event for event in events if isinstance(event, ChainText | OutputText | FormatStarted)] == [
        ChainText(text="Looking."),
        ChainText(text=SAID, closing=True),
        FormatStarted(incomplete=False),
        OutputText(delta=VALID),
    ]


@pytest.mark.parametrize(
    ("model", "options", "error"),
    [
        (ScriptedModel(ModelError("m", "down", retryable=False)), {"tools": tools()}, ChainError),
        (StreamingModel(VALID, fail_after=2), {"schema": SCHEMA}, FormatError),
        (ScriptedModel("", ""), {"schema": SCHEMA}, FormatError),
        (ScriptedModel(), {"schema": {"type": 5}}, ConfigError),
    ],
    ids=["chain", "stream", "format", "config"],
)
async def test_errors_reach_the_reader(model: ScriptedModel, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await heard(model, **options)


@pytest.mark.spec("001.11")
async def test_what_a_broken_stream_said_is_kept() -> None:
    told: list[Event] = []
    with pytest.raises(FormatError, match="the line went dead") as caught:
        await finalize(StreamingModel(VALID, fail_after=2), Chain(messages=ASK), SCHEMA, on_event=told.append)
    assert (caught.value.phase, caught.value.last_text) == ("call", VALID[:6])
    assert output(told) == VALID[:6]
    assert (await finalize(ScriptedModel(VALID), caught.value.chain, SCHEMA)).value == VALUE


async def test_a_stream_that_hangs_is_left() -> None:
    model = StreamingModel(VALID, delay_s=60)
    with pytest.raises(FormatError, match="no answer within"):
        await finalize(model, Chain(messages=ASK), SCHEMA, on_event=lambda _: None, model_timeout_s=0.02)
    assert model.streamed == model.closed == 1


async def test_a_stream_without_end_is_bounded() -> None:
    async def hear(_: Event) -> None: ...

    with pytest.raises(FormatError, match="longer than"):
        await finalize(StreamingModel("x" * 3_200_000), Chain(messages=ASK), SCHEMA, on_event=hear, max_reasks=0)


async def test_a_reader_who_leaves_ends_the_work() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(order_id: str) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    async with aclosing(stream_respond(ScriptedModel(FIND), ASK, tools(find_order=wait))) as events:
        async for event in events:
            if isinstance(event, ToolCalled):
                await started.wait()
                break
    assert ended.is_set()


async def test_a_listener_of_the_callers_own_hears_the_same() -> None:
    told: list[Event] = []
    events = await heard(ScriptedModel(FIND, SAID, VALID), tools=tools(), schema=SCHEMA, on_event=told.append)
    assert told == events


def test_it_is_known_by_its_own_name_and_says_what_it_gives() -> None:
    assert stream_respond.__name__ == "stream_respond"
    assert signature(stream_respond).return_annotation == AsyncGenerator[Event, None]
    assert signature(stream_respond).parameters == signature(respond).parameters


@pytest.mark.parametrize("options", [{"chain_limit": 0}, {"strategy": "odd"}, {"max_reasks": -1}], ids=repr)
async def test_options_that_cannot_work_are_told(options: Any) -> None:
    model = ScriptedModel(SAID)
    with pytest.raises(ConfigError):
        await heard(model, **options)
    assert model.calls == []


async def test_cancelling_the_reader_ends_the_work() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def wait(order_id: str) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(heard(ScriptedModel(FIND), tools=tools(find_order=wait)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
