"""The adapter and the vendors' own clients against a real HTTP server: what a provider may do, and what comes of it."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from pydantic_ai.models import infer_model
from pydantic_ai.models.fallback import FallbackModel

from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ModelError, ModelTimeoutError
from jazz_select.ports import takes_schema
from jazz_select.testing import ProviderCase, check_cancelling, check_chat_model, check_provider_case
from jazz_select.values import Message, Reply, Usage
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import (
    CHAT,
    INPUT_TOKENS,
    MESSAGES,
    OUTPUT_TOKENS,
    PROTOCOLS,
    RESPONSES,
    SERVED,
    Protocol,
)

ASK = [Message(role="system", content="Be brief."), Message(role="user", content="ping <b>")]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ids": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}},
    "required": ["ids"],
    "additionalProperties": False,
}
REFUSED = ProviderCase(name="refuses the schema", status=400)
SILENT = ProviderCase(name="silent", act="silence")
DOWN = ProviderCase(name="down", status=500)
CASES = [
    pytest.param(protocol, case, id=f"{protocol}: {case}")
    for protocol in PROTOCOLS
    for case in protocol.cases
    if case.act != "trickle"
]
TRICKLES = [case for protocol in PROTOCOLS[:1] for case in protocol.cases if case.act == "trickle"]
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)


@pytest.mark.parametrize(("protocol", "case"), CASES)
async def test_what_a_provider_may_do(protocol: Protocol, case: ProviderCase, provider: Provider) -> None:
    await may_do(protocol, case, provider)


@pytest.mark.real_clock
@pytest.mark.parametrize("case", TRICKLES, ids=str)
@each_protocol
async def test_what_goes_on_arriving_is_given_up(protocol: Protocol, case: ProviderCase, provider: Provider) -> None:
    """It never lets a still clock go on."""
    await may_do(protocol, case, provider)


async def may_do(protocol: Protocol, case: ProviderCase, provider: Provider) -> None:
    provider.case = case
    limit = 0.1 if case.act in {"silence", "trickle"} else 10.0
    async with aclosing(PydanticAIModel(protocol.model, timeout_s=limit)) as model:
        await check_provider_case(model, case)
    assert provider.paths == [protocol.path], "one complete() is one request"


@each_protocol
async def test_contract(protocol: Protocol, provider: Provider) -> None:
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        await check_chat_model(model)


@each_protocol
async def test_cancelling_in_mid_request(protocol: Protocol, provider: Provider) -> None:
    provider.case = SILENT
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        await check_cancelling(
            model,
            arrived=lambda: asyncio.to_thread(provider.arrived.wait, 5),
            left=lambda: asyncio.to_thread(provider.left.wait, 5),
        )
        provider.case = ProviderCase(name="well again")
        assert (await model.complete(ASK)).text == "pong"


@each_protocol
async def test_a_reply_with_its_usage(protocol: Protocol, provider: Provider) -> None:
    provider.cached = 5
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        reply = await model.complete(ASK)
    usage = Usage(input_tokens=INPUT_TOKENS, output_tokens=OUTPUT_TOKENS, cached_tokens=5)
    assert reply == Reply(text="pong", usage=usage, model=SERVED, finish_reason="stop")
    assert not reply.truncated


@each_protocol
async def test_a_request_is_plain(protocol: Protocol, provider: Provider) -> None:
    async with aclosing(PydanticAIModel(protocol.model, settings={"timeout": 5.0})) as model:
        await model.complete(ASK)
    (request,) = provider.requests
    assert request["model"] == protocol.model.partition(":")[2]
    assert not request.get("stream")
    assert "Be brief." in str(request)
    assert "ping <b>" in str(request)
    assert protocol.schema(request) is None


async def test_a_provider_that_counts_nothing_leaves_no_usage(provider: Provider) -> None:
    provider.body = {key: value for key, value in CHAT.answer("pong", "stop", 0).items() if key != "usage"}
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        assert (await model.complete(ASK)).usage is None


@each_protocol
async def test_a_reply_that_was_cut_off_says_so(protocol: Protocol, provider: Provider) -> None:
    provider.case = ProviderCase(name="cut off", text='["a', finish_reason="length")
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        assert (await model.complete(ASK)).truncated


@pytest.mark.parametrize(
    ("protocol", "body", "expected"),
    [
        pytest.param(CHAT, CHAT.empty, "cannot be read", id="chat completions, no choice"),
        pytest.param(CHAT, {"hello": 1}, "nvalid", id="chat completions, something else"),
        pytest.param(CHAT, [], "nvalid", id="chat completions, a list"),
        pytest.param(RESPONSES, RESPONSES.empty, None, id="responses, no output"),
        pytest.param(RESPONSES, {"hello": 1}, "cannot be read", id="responses, something else"),
        pytest.param(MESSAGES, MESSAGES.empty, None, id="messages, no content"),
        pytest.param(MESSAGES, {"hello": 1}, "cannot be read", id="messages, something else"),
    ],
)
async def test_an_answer_that_is_none(
    protocol: Protocol, body: object, expected: str | None, provider: Provider
) -> None:
    """Where a protocol has a way to say nothing, it is a blank text; another shape would come again."""
    provider.body = body
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        if expected is None:
            assert not (await model.complete(ASK)).text
        else:
            with pytest.raises(ModelError, match=expected) as caught:
                await model.complete(ASK)
            assert not caught.value.retryable


# --- a schema ---


@each_protocol
async def test_a_schema_is_sent(protocol: Protocol, provider: Provider) -> None:
    provider.case = ProviderCase(name="structured", text='{"ids": ["b"]}')
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        assert takes_schema(model)
        assert (await model.complete(ASK, schema=SCHEMA)).text == '{"ids": ["b"]}'
    (request,) = provider.requests
    sent = protocol.schema(request)
    sent["properties"]["ids"]["items"].setdefault("type", "string")  # Anthropic's own rules drop it beside an enum
    assert sent == SCHEMA


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("openai:gpt-5-mini", True),
        ("openai-chat:gpt-4o-mini", True),
        ("anthropic:claude-haiku-4-5", True),
        ("anthropic:claude-3-haiku-20240307", False),
    ],
)
async def test_a_model_that_cannot_be_held_to_a_schema_is_asked_without(
    name: str, takes: bool, provider: Provider
) -> None:
    async with aclosing(PydanticAIModel(name)) as model:
        assert takes_schema(model) is takes
        await model.complete(ASK, schema=SCHEMA)
    assert ("enum" in str(provider.requests[0])) is takes


@pytest.mark.parametrize(
    ("names", "takes"),
    [
        (("openai-chat:gpt-4o-mini", "anthropic:claude-haiku-4-5"), True),
        (("openai-chat:gpt-4o-mini", "anthropic:claude-3-haiku-20240307"), False),
    ],
    ids=["both", "one of two"],
)
async def test_a_router_takes_a_schema_where_all_its_models_do(
    names: tuple[str, str], takes: bool, provider: Provider
) -> None:
    first, second = map(infer_model, names)
    async with first, second:
        assert takes_schema(PydanticAIModel(FallbackModel(first, second))) is takes


@pytest.mark.parametrize(
    ("protocol", "message", "learns"),
    [
        (CHAT, "'response_format' of type 'json_schema' is not supported with this model.", True),
        (RESPONSES, "Invalid parameter: 'text.format' of type 'json_schema' is not supported.", True),
        (MESSAGES, "output_config.format: Extra inputs are not permitted", True),
        (CHAT, "the messages are empty", False),
        (MESSAGES, "max_tokens: too large", False),
    ],
)
async def test_a_provider_that_refuses_schemas_is_asked_without_from_then_on(
    protocol: Protocol, message: str, learns: bool, provider: Provider
) -> None:
    provider.case, provider.body = REFUSED, protocol.failure("invalid_request_error", message)
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK, schema=SCHEMA)
        assert caught.value.retryable is learns
        assert takes_schema(model) is not learns
        provider.case, provider.body = ProviderCase(name="well again"), None
        await model.complete(ASK, schema=SCHEMA)
    assert (protocol.schema(provider.requests[1]) is None) is learns


async def test_the_same_words_about_a_plain_request_teach_nothing(provider: Provider) -> None:
    provider.case, provider.body = REFUSED, CHAT.failure("", "response_format is not supported")
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK)
        assert not caught.value.retryable
        assert takes_schema(model)


# --- repeating, time limits, connections ---


@each_protocol
async def test_the_client_of_a_ready_model_repeats_nothing(protocol: Protocol, provider: Provider) -> None:
    provider.case = DOWN
    async with infer_model(protocol.model) as ready:
        with pytest.raises(ModelError):
            await PydanticAIModel(ready).complete(ASK)
    assert len(provider.requests) == 1


@pytest.mark.parametrize("options", [{"settings": {"timeout": 0.2}}, {"timeout_s": 0.2}], ids=["a read", "in all"])
async def test_a_silent_provider_times_out(options: dict[str, Any], provider: Provider) -> None:
    provider.case = SILENT
    async with aclosing(PydanticAIModel(CHAT.model, **options)) as model:
        with pytest.raises(ModelTimeoutError, match=r"0\.2 s") as caught:
            await model.complete(ASK)
    assert caught.value.retryable
    assert caught.value.timeout_s == pytest.approx(0.2)
    assert await asyncio.to_thread(provider.left.wait, 5)


async def test_a_caller_that_is_late_is_no_timeout_of_the_model(provider: Provider) -> None:
    provider.case = SILENT
    async with aclosing(PydanticAIModel(CHAT.model, timeout_s=5)) as model:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(model.complete(ASK), 0.1)


async def test_nobody_listens(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK)
    assert caught.value.retryable
    assert not provider.requests


async def test_a_closed_model_opens_again(provider: Provider) -> None:
    model = PydanticAIModel(CHAT.model)
    await model.complete(ASK)
    await model.aclose()
    await model.aclose()
    assert (await model.complete(ASK)).text == "pong"
    await model.aclose()
    assert len(provider.requests) == 2


def test_one_model_on_several_event_loops(provider: Provider) -> None:
    model = PydanticAIModel(CHAT.model)

    async def once() -> str:
        return (await model.complete(ASK)).text

    with asyncio.Runner() as first, asyncio.Runner() as second:
        runs = [runner.run(once()) for runner in (first, second, first, second)]
        for runner in (first, second):
            runner.run(model.aclose())
    assert runs == ["pong"] * 4
    assert len(provider.requests) == 4
