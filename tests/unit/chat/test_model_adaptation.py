"""Whatever a caller has becomes a chat model, or an error that says what would."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from pydantic_ai.models.test import TestModel

from jazz_select.chat.models import as_chat_model
from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ConfigError, MissingExtraError, ModelError
from jazz_select.ports import ChatModel
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, Reply, Usage

ASK = (Message(role="user", content="ping"),)
FULL = Reply(text="pong", usage=Usage(input_tokens=1, output_tokens=2), model="mine")


async def pong(messages: Sequence[Message]) -> str:
    return messages[-1].content.replace("i", "o")


async def pong_with(prefix: str, messages: Sequence[Message]) -> str:
    return prefix + await pong(messages)


class Pong:
    async def __call__(self, messages: Sequence[Message]) -> str:
        return await pong(messages)


def through_a_lambda(messages: Sequence[Message]) -> Awaitable[str]:
    return pong(messages)


def in_a_thread(messages: Sequence[Message]) -> Awaitable[str]:
    return asyncio.to_thread(blocking, messages)


def blocking(messages: Sequence[Message]) -> str:
    return messages[0].content


async def full(_: Sequence[Message]) -> Reply:
    return FULL


def adapted(llm: Any) -> ChatModel:
    model = as_chat_model(llm)
    assert model is not None
    return model


def test_no_model_stays_none() -> None:
    assert as_chat_model(None) is None


def test_a_chat_model_is_itself() -> None:
    model = ScriptedModel("x")
    assert as_chat_model(model) is model


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        pytest.param(pong, Reply(text="pong", model="pong"), id="async function"),
        pytest.param(through_a_lambda, Reply(text="pong", model="through_a_lambda"), id="plain def of an awaitable"),
        pytest.param(partial(pong_with, "> "), Reply(text="> pong", model="partial"), id="partial"),
        pytest.param(Pong(), Reply(text="pong", model="Pong"), id="object with async __call__"),
        pytest.param(full, FULL, id="async function with a Reply"),
        pytest.param(in_a_thread, Reply(text="ping", model="in_a_thread"), id="blocking function in a thread"),
    ],
)
async def test_an_async_callable_is_asked(function: Callable[[Sequence[Message]], Any], expected: Reply) -> None:
    assert await adapted(function).complete(ASK) == expected


async def test_a_lambda_may_return_an_awaitable() -> None:
    model = as_chat_model(lambda messages: pong(messages))  # noqa: PLW0108  (the point)
    assert model is not None
    assert await model.complete(ASK) == Reply(text="pong", model="<lambda>")


async def test_a_blocking_function_is_refused_with_the_way_out() -> None:
    model = adapted(blocking)
    with pytest.raises(ConfigError, match=r"'blocking' returned str.*async def.*asyncio\.to_thread"):
        await model.complete(ASK)


async def nothing() -> str:
    return "pong"


async def two(messages: Sequence[Message], model: str) -> str:
    return model + await pong(messages)


async def named(*, messages: Sequence[Message]) -> str:
    return await pong(messages)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        pytest.param(nothing, "nothing() -> str", id="takes nothing"),
        pytest.param(two, "'model'", id="takes more"),
        pytest.param(named, "named(*, messages", id="by name only"),
        pytest.param(partial(two, model="m", messages=ASK), "partial", id="filled in already"),
    ],
)
def test_a_function_that_cannot_take_the_messages_is_refused_at_construction(function: Any, names: str) -> None:
    with pytest.raises(ConfigError, match="cannot be called with the messages alone") as caught:
        as_chat_model(function)
    assert names in str(caught.value)


async def optional(messages: Sequence[Message], temperature: float = 0.0) -> str:
    return f"{temperature} {await pong(messages)}"


async def any_number(*messages: Sequence[Message]) -> str:
    return await pong(*messages)


@pytest.mark.parametrize("function", [optional, partial(two, model="m"), any_number])
async def test_what_else_a_function_takes_is_its_own_business(function: Any) -> None:
    assert (await adapted(function).complete(ASK)).text.endswith("pong")


@pytest.mark.parametrize("answer", [None, 3, ["pong"], {"text": "pong"}, b"pong"], ids=repr)
async def test_an_answer_that_is_no_text_is_a_model_error(answer: object) -> None:
    async def odd(_: Sequence[Message]) -> object:
        return answer

    with pytest.raises(ModelError, match=f"odd failed: it returned {type(answer).__name__}") as caught:
        await adapted(odd).complete(ASK)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "error",
    [ValueError("mine"), ModelError("m", "busy", retryable=True), asyncio.CancelledError(), TimeoutError()],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_callable_raises_passes_as_it_is(error: BaseException) -> None:
    async def broken(_: Sequence[Message]) -> str:
        raise error

    with pytest.raises(type(error)) as caught:
        await adapted(broken).complete(ASK)
    assert caught.value is error


@pytest.mark.parametrize(
    ("llm", "names"),
    [
        pytest.param(3, "3", id="number"),
        pytest.param({"model": "x"}, r"\{'model'", id="dict"),
        pytest.param(object(), "object object", id="object"),
        pytest.param(ScriptedModel, r"class ScriptedModel itself \(pass an instance\)", id="class"),
    ],
)
def test_anything_else_is_refused_and_told_what_is_accepted(llm: Any, names: str) -> None:
    with pytest.raises(ConfigError, match=names) as caught:
        as_chat_model(llm)
    for accepted in ("None", "async complete(messages)", "async function", '"openai:gpt-5-mini"', "pydantic-ai Model"):
        assert accepted in str(caught.value)


@pytest.mark.parametrize("llm", ["test", TestModel()], ids=["model string", "pydantic-ai Model"])
async def test_a_model_string_or_a_pydantic_ai_model_is_adapted(llm: Any) -> None:
    model = adapted(llm)
    assert isinstance(model, PydanticAIModel)
    assert (await model.complete(ASK)).text


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        pytest.param("openai:gpt-5-mini", "used: set the environment variable OPENAI_API_KEY$", id="no OpenAI key"),
        pytest.param("anthropic:claude-haiku-4-5", "environment variable ANTHROPIC_API_KEY$", id="no Anthropic key"),
        pytest.param("vercel:a/b", "variable VERCEL_AI_GATEWAY_API_KEY or VERCEL_OIDC_TOKEN$", id="either of two keys"),
        pytest.param("nobody:gpt-5-mini", r'Unknown model.*"provider:model"', id="unknown provider"),
        pytest.param("gpt-5-mini", r'names no provider.*"provider:model"', id="no provider"),
        pytest.param("", r'names no provider.*"provider:model"', id="empty"),
        pytest.param("groq:llama", "pip install", id="the provider's package is missing"),
    ],
)
def test_a_model_string_that_cannot_work_is_told_at_construction(
    name: str, fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "VERCEL_AI_GATEWAY_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setitem(sys.modules, "groq", None)
    with pytest.raises(ConfigError, match=fix) as caught:
        as_chat_model(name)
    assert repr(name) in str(caught.value)


def test_without_pydantic_ai_the_error_holds_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    assert importlib.util.find_spec("pydantic_ai") is None
    with pytest.raises(MissingExtraError, match=r"pip install .*\[llm\]'") as caught:
        as_chat_model("openai:gpt-5-mini")
    assert caught.value.extra == "llm"


def test_the_form_of_a_model_string_is_told_before_anything_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ConfigError, match='"provider:model"') as caught:
        as_chat_model("gpt-5")
    assert not isinstance(caught.value, MissingExtraError)


def test_importing_the_adapters_imports_no_vendor() -> None:
    program = (
        "import sys, jazz_select.chat.models as a;"
        "a.as_chat_model(None);"
        "print([m for m in ('pydantic_ai', 'openai', 'anthropic', 'httpx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
