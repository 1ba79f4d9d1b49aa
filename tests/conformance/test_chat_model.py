"""Every chat model this library makes keeps the port's contract; models that break it are found out."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest
from pydantic_ai.models.test import TestModel

from jazz_select.errors import ModelError
from jazz_select.llm.callable import CallableModel
from jazz_select.llm.pydantic_ai import PydanticAIModel
from jazz_select.ports import ChatModel
from jazz_select.testing import ScriptedModel, check_chat_model
from jazz_select.values import Message, Reply, Usage
from tests.unit.llm.loopback import MODEL, serving


async def echo(messages: Sequence[Message]) -> str:
    await asyncio.sleep(0.001)
    return messages[-1].content


@asynccontextmanager
async def over_http(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[ChatModel]:
    with serving() as provider:
        monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
        monkeypatch.setenv("OPENAI_API_KEY", "a-key")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        async with aclosing(PydanticAIModel(f"openai-chat:{MODEL}")) as model:
            yield model


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(ScriptedModel("a", repeat=True), id="scripted"),
        pytest.param(ScriptedModel("a", repeat=True, delay_s=0.001), id="scripted, slow"),
        pytest.param(CallableModel(echo), id="callable"),
        pytest.param(PydanticAIModel(TestModel()), id="pydantic-ai"),
    ],
)
async def test_contract(model: ChatModel) -> None:
    await check_chat_model(model)


async def test_contract_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    async with over_http(monkeypatch) as model:
        await check_chat_model(model)


class Broken:
    def __init__(self, answer: Callable[[Sequence[Message]], Awaitable[object]]) -> None:
        self._answer = answer

    async def complete(self, messages: Sequence[Message]) -> Any:
        return await self._answer(messages)


class Blocking:
    def complete(self, messages: Sequence[Message]) -> Reply:
        return Reply(text="x")


def answering(reply: object) -> Broken:
    async def answer(_: Sequence[Message]) -> object:
        await asyncio.sleep(0)
        return reply

    return Broken(answer)


async def meddle(messages: Sequence[Message]) -> Reply:
    cast("list[Message]", messages).pop()
    return Reply(text="x")


async def translate_cancelling(_: Sequence[Message]) -> Reply:
    try:
        await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        raise ModelError("m", "cancelled", retryable=True) from None
    return Reply(text="x")


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        pytest.param(Blocking(), "must be async; it returned Reply", id="not async"),
        pytest.param(answering("text"), "must return a Reply, not str", id="a bare text"),
        pytest.param(answering(Reply(text=cast("str", None))), "text must be a str", id="no text"),
        pytest.param(answering(Reply(text="", model=cast("str", None))), "model must be a str", id="no model name"),
        pytest.param(answering(Reply(text="", usage=cast("Usage", {}))), "usage must be a Usage", id="usage as a dict"),
        pytest.param(answering(Reply(text="", usage=Usage(input_tokens=-1))), "negative", id="negative usage"),
        pytest.param(Broken(meddle), "leave the messages", id="changes the messages"),
        pytest.param(Broken(translate_cancelling), "cancelled, complete", id="translates cancelling"),
    ],
)
async def test_a_model_that_breaks_the_contract_is_found_out(model: Any, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        await check_chat_model(model)
