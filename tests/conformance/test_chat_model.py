"""Every chat model this library makes keeps the port's contract; models that break it are found out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from jazz_select.chat.models import CallableModel
from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ModelError
from jazz_select.ports import ChatModel
from jazz_select.testing import (
    PROVIDER_CASES,
    ProviderCase,
    ScriptedModel,
    check_cancelling,
    check_chat_model,
    check_provider_case,
)
from jazz_select.values import Message, Reply, Usage


async def answer_theirs(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    await asyncio.sleep(0)
    return ModelResponse(parts=[TextPart("a")])


async def echo(messages: Sequence[Message]) -> str:
    await asyncio.sleep(0.001)
    return messages[-1].content


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(ScriptedModel("a", repeat=True), id="scripted"),
        pytest.param(ScriptedModel("a", repeat=True, delay_s=0.001), id="scripted, slow"),
        pytest.param(ScriptedModel("a", repeat=True, takes_schema=True), id="scripted, with schemas"),
        pytest.param(CallableModel(echo), id="callable"),
        pytest.param(PydanticAIModel(TestModel()), id="pydantic-ai"),
        pytest.param(PydanticAIModel(FunctionModel(answer_theirs)), id="pydantic-ai, with schemas"),
    ],
)
async def test_contract(model: ChatModel) -> None:
    await check_chat_model(model)


class Broken:
    def __init__(self, answer: Callable[[Sequence[Message]], Awaitable[object]]) -> None:
        self._answer = answer

    async def complete(self, messages: Sequence[Message]) -> Any:
        return await self._answer(messages)


class Structured:
    """Takes schemas, and does this when it gets one."""

    takes_schema: Any = True

    def __init__(self, does: Callable[[dict[str, Any]], object]) -> None:
        self._does = does

    async def complete(self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None) -> Any:
        await asyncio.sleep(0)
        return Reply(text="x") if schema is None else self._does(cast("dict[str, Any]", schema))


class Undecided(Structured):
    takes_schema = "yes"


class Blocking:
    def complete(self, messages: Sequence[Message]) -> Reply:
        return Reply(text="x")


def answering(reply: object) -> Broken:
    async def answer(_: Sequence[Message]) -> object:
        await asyncio.sleep(0)
        return reply

    return Broken(answer)


def strip(schema: dict[str, Any]) -> Reply:
    schema.clear()
    return Reply(text="x")


class Streaming(Structured):
    """Writes this."""

    takes_schema = False

    def __init__(self, *pieces: object) -> None:
        super().__init__(strip)
        self._pieces = pieces

    async def stream(self, messages: Sequence[Message], *, schema: object = None) -> AsyncIterator[Any]:
        for piece in self._pieces:
            yield piece


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
        pytest.param(answering("text"), "must return a Reply, got str", id="a bare text"),
        pytest.param(answering(Reply(text=cast("str", None))), "text must be a str", id="no text"),
        pytest.param(answering(Reply(text="", model=cast("str", None))), "model must be a str", id="no model name"),
        pytest.param(answering(Reply(text="", usage=cast("Usage", {}))), "usage must be a Usage", id="usage as a dict"),
        pytest.param(answering(Reply(text="", usage=Usage(input_tokens=-1))), "negative", id="negative usage"),
        pytest.param(
            answering(Reply(text="", finish_reason=cast("str", None))), "finish_reason must be a str", id="no reason"
        ),
        pytest.param(
            answering(Reply(text="", usage=Usage(input_tokens=1, cached_tokens=2))), "some of the input", id="cached"
        ),
        pytest.param(Structured(lambda _: "{}"), "must return a Reply", id="a bare text to a schema"),
        pytest.param(Structured(strip), "leave the schema", id="changes the schema"),
        pytest.param(Undecided(strip), "takes_schema must be a bool", id="a schema perhaps"),
        pytest.param(Broken(meddle), "leave the messages", id="changes the messages"),
        pytest.param(Streaming("a", 1), "pieces of text", id="writes a number"),
        pytest.param(Streaming(Reply(text="a"), "a"), "pieces of text", id="writes on after the whole"),
        pytest.param(Broken(translate_cancelling), "cancelled, complete", id="translates cancelling"),
    ],
)
async def test_a_model_that_breaks_the_contract_is_found_out(model: Any, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        await check_chat_model(model)


# --- what a provider may do ---


def provider_case(name: str) -> ProviderCase:
    (case,) = (case for case in PROVIDER_CASES if case.name == name)
    return case


def failing(cause: Exception | None = None, **options: Any) -> ScriptedModel:
    error = ModelError("m", "failed", **{"retryable": True, **options})
    error.__cause__ = cause
    return ScriptedModel(error)


OSERROR = OSError("gone")


@pytest.mark.parametrize(
    ("name", "model", "problem"),
    [
        pytest.param("normal", ScriptedModel("pong"), None, id="an answer"),
        pytest.param("normal", ScriptedModel("ping"), "come as it was sent", id="another answer"),
        pytest.param("normal", failing(OSERROR), "must answer, not raise", id="no answer"),
        pytest.param("normal", answering("pong"), "must return a Reply", id="a bare text"),
        pytest.param("unicode", ScriptedModel("?"), "come as it was sent", id="another encoding"),
        pytest.param(
            "cut off by max tokens",
            ScriptedModel(Reply(text='["refund', finish_reason="stop")),
            "finish_reason must be 'length' or empty, got 'stop'",
            id="a truncated reply as a whole one",
        ),
        pytest.param("cut off by max tokens", ScriptedModel('["refund'), None, id="no reason given"),
        pytest.param("500", failing(OSERROR), None, id="a retryable error"),
        pytest.param("500", ScriptedModel("pong"), "must raise ModelError", id="an error page as an answer"),
        pytest.param("500", ScriptedModel(OSERROR), "must raise ModelError", id="the vendor's error as it is"),
        pytest.param("500", failing(OSERROR, retryable=False), "retryable must be True", id="not retryable"),
        pytest.param("401", failing(OSERROR), "retryable must be False", id="retryable"),
        pytest.param("500", failing(), "must be the cause", id="no cause"),
        pytest.param("silent", failing(OSERROR), "must raise ModelTimeoutError", id="no timeout"),
        pytest.param("429", failing(OSERROR, retry_after=1.0), "must be None, got 1.0", id="a wait of its own"),
        pytest.param("429, wait 7 s", failing(OSERROR, retry_after=7.0), None, id="a wait"),
        pytest.param("429, wait 7 s", failing(OSERROR), "retry_after must be the 7 s", id="no wait"),
        pytest.param("429, wait until", failing(OSERROR, retry_after=7.0), "must be the 30 s", id="another wait"),
    ],
)
async def test_what_an_adapter_makes_of_a_provider_is_checked(name: str, model: Any, problem: str | None) -> None:
    case = provider_case(name)
    if problem is None:
        await check_provider_case(model, case)
        return
    with pytest.raises(AssertionError, match=problem) as caught:
        await check_provider_case(model, case)
    assert problem.startswith("must return") or str(caught.value).startswith(name)


async def soon() -> None:
    await asyncio.sleep(0.01)


async def never() -> None:
    raise TimeoutError


@pytest.mark.parametrize(
    ("model", "left", "problem"),
    [
        pytest.param(ScriptedModel("x", delay_s=5), soon, None, id="passes it on"),
        pytest.param(ScriptedModel("x", delay_s=5), never, "close its connection", id="leaves the connection open"),
        pytest.param(Broken(translate_cancelling), soon, "must not end with ModelError", id="translates it"),
        pytest.param(ScriptedModel("x"), soon, "must not end with Reply", id="answers before"),
    ],
)
async def test_what_an_adapter_makes_of_cancelling_is_checked(
    model: Any, left: Callable[[], Awaitable[None]], problem: str | None
) -> None:
    arrived = partial(asyncio.sleep, 0)
    if problem is None:
        await check_cancelling(model, arrived=arrived, left=left)
        return
    with pytest.raises(AssertionError, match=problem):
        await check_cancelling(model, arrived=arrived, left=left)


def test_each_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in PROVIDER_CASES]
    assert len(names) == len(set(names))
