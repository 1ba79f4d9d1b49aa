"""The adapter against a real HTTP server: what a provider may do, and what the caller sees of it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import pytest

from jazz_select.errors import ModelError, ModelTimeoutError
from jazz_select.llm.pydantic_ai import PydanticAIModel
from jazz_select.values import Message, Reply, Usage
from tests.unit.llm.loopback import HANG_UP, MODEL, Provider, completion, failure, messages_api, responses_api, serving

NAME = f"openai-chat:{MODEL}"
ASK = [Message(role="system", content="Be brief."), Message(role="user", content="ping <b>")]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with serving() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield provider


@pytest.fixture
async def model(provider: Provider) -> AsyncIterator[PydanticAIModel]:
    async with aclosing(PydanticAIModel(NAME, settings={"timeout": 0.3})) as model:
        yield model


async def test_a_reply_with_its_usage(provider: Provider, model: PydanticAIModel) -> None:
    reply = await model.complete(ASK)
    assert reply == Reply(text="pong", usage=Usage(input_tokens=11, output_tokens=3), model=f"{MODEL}-2024-07-18")
    (request,) = provider.requests
    assert request["model"] == MODEL
    assert [(m["role"], m["content"]) for m in request["messages"]] == [("system", "Be brief."), ("user", "ping <b>")]


async def test_a_provider_that_counts_nothing_leaves_no_usage(provider: Provider, model: PydanticAIModel) -> None:
    provider.body = completion("pong", usage=False)
    assert (await model.complete(ASK)).usage is None


@pytest.mark.parametrize(
    ("name", "body"),
    [
        pytest.param("openai:gpt-5-mini", responses_api("pong"), id="OpenAI responses"),
        pytest.param("anthropic:claude-haiku-4-5", messages_api("pong"), id="Anthropic messages"),
    ],
)
async def test_other_protocols(name: str, body: object, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", provider.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")
    provider.body = body
    expected = Reply(text="pong", usage=Usage(input_tokens=11, output_tokens=3), model=MODEL)
    async with aclosing(PydanticAIModel(name)) as model:
        assert await model.complete(ASK) == expected
        provider.status, provider.body = 500, failure("oops")
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK)
    assert caught.value.retryable
    assert len(provider.requests) == 2, "one complete() is one request"


@dataclass(frozen=True)
class Case:
    id: str
    status: int
    body: Any
    retryable: bool
    says: str


CASES = [
    Case("bad request", 400, failure("too many tokens"), retryable=False, says="too many tokens"),
    Case("wrong key", 401, failure("wrong key", code="invalid_api_key"), retryable=False, says="401"),
    Case("not allowed", 403, failure("not allowed"), retryable=False, says="403"),
    Case("no such model", 404, failure("none", code="model_not_found"), retryable=False, says="404"),
    Case("request timeout", 408, failure("slow"), retryable=True, says="408"),
    Case("rate limit", 429, failure("slow down", code="rate_limit_exceeded"), retryable=True, says="slow down"),
    Case("quota used up", 429, failure("pay first", code="insufficient_quota"), retryable=False, says="pay first"),
    Case("server error", 500, failure("oops"), retryable=True, says="500"),
    Case("bad gateway, not JSON", 502, b"<html>bad gateway</html>", retryable=True, says="502"),
    Case("overloaded", 503, failure("later"), retryable=True, says="503"),
    Case("hung up", HANG_UP, None, retryable=True, says="onnection"),
    Case("an answer that is none", 200, {"hello": 1}, retryable=False, says="nvalid"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_a_failure_says_whether_to_try_again(case: Case, provider: Provider, model: PydanticAIModel) -> None:
    provider.status, provider.body = case.status, case.body
    with pytest.raises(ModelError, match=case.says) as caught:
        await model.complete(ASK)
    assert caught.value.retryable is case.retryable
    assert caught.value.model == NAME
    assert caught.value.__cause__ is not None
    assert len(provider.requests) == 1, "one complete() is one request"


async def test_the_vendor_client_repeats_where_it_is_told_to(provider: Provider) -> None:
    provider.status, provider.body = 500, failure("oops")
    async with aclosing(PydanticAIModel(NAME, max_retries=1)) as model:
        with pytest.raises(ModelError):
            await model.complete(ASK)
    assert len(provider.requests) == 2


async def test_a_silent_provider_times_out(provider: Provider, model: PydanticAIModel) -> None:
    provider.silent = threading.Event()
    with pytest.raises(ModelTimeoutError, match=r"0\.3 s") as caught:
        await model.complete(ASK)
    assert caught.value.retryable
    assert caught.value.__cause__ is not None


async def test_nobody_listens(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    async with aclosing(PydanticAIModel(NAME)) as model:
        with pytest.raises(ModelError) as caught:
            await model.complete(ASK)
    assert caught.value.retryable
    assert not provider.requests


async def test_cancelling_passes(provider: Provider) -> None:
    provider.silent = threading.Event()
    async with aclosing(PydanticAIModel(NAME)) as model:
        task = asyncio.create_task(model.complete(ASK))
        assert await asyncio.to_thread(provider.arrived.wait, 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_closed_model_opens_again(provider: Provider, model: PydanticAIModel) -> None:
    await model.complete(ASK)
    await model.aclose()
    await model.aclose()
    assert (await model.complete(ASK)).text == "pong"
    assert len(provider.requests) == 2


def test_one_model_on_several_event_loops(provider: Provider) -> None:
    model = PydanticAIModel(NAME)

    async def once() -> str:
        return (await model.complete(ASK)).text

    with asyncio.Runner() as first, asyncio.Runner() as second:
        runs = [runner.run(once()) for runner in (first, second, first, second)]
        for runner in (first, second):
            runner.run(model.aclose())
    assert runs == ["pong"] * 4
    assert len(provider.requests) == 4
