"""The two translators and the one call, on pydantic-ai's own doubles."""

import asyncio
import gc
import weakref

import httpx
import pytest
from pydantic_ai.exceptions import (
    ContentFilterError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelHTTPError,
    ModelRequestRejectedError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from jazz_select.chat.pydantic_ai_model import PydanticAIModel, to_model_error, to_model_messages, to_reply
from jazz_select.errors import ConfigError, ModelError, ModelTimeoutError
from jazz_select.values import Message, Reply, Usage

ASK = [Message(role="system", content="s"), Message(role="user", content="ping")]


def raising(error: BaseException) -> FunctionModel:
    async def respond(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0)
        raise error

    return FunctionModel(respond)


def shape(messages: list[ModelMessage]) -> list[list[tuple[type, object]]]:
    return [[(type(part), getattr(part, "content", None)) for part in message.parts] for message in messages]


SYSTEM, USER, ANSWER = SystemPromptPart, UserPromptPart, TextPart


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("u", [[(USER, "0")]], id="one question"),
        pytest.param("su", [[(SYSTEM, "0"), (USER, "1")]], id="system and user are one request"),
        pytest.param(
            "suau", [[(SYSTEM, "0"), (USER, "1")], [(ANSWER, "2")], [(USER, "3")]], id="an answer divides requests"
        ),
        pytest.param("uu", [[(USER, "0"), (USER, "1")]], id="two questions"),
        pytest.param("a", [[(ANSWER, "0")]], id="an answer alone"),
    ],
)
def test_messages_to_theirs(roles: str, expected: list[list[tuple[type, object]]]) -> None:
    long = {"s": "system", "u": "user", "a": "assistant"}
    messages = [Message(role=long[role], content=str(n)) for n, role in enumerate(roles)]  # pyright: ignore[reportArgumentType]
    theirs = to_model_messages(messages)
    assert shape(theirs) == expected
    assert all(isinstance(m, ModelResponse if m.kind == "response" else ModelRequest) for m in theirs)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        pytest.param(
            ModelResponse(
                parts=[ThinkingPart("hm"), TextPart("po"), TextPart("ng")],
                usage=RequestUsage(input_tokens=5, output_tokens=2, cache_read_tokens=4),
                model_name="served",
                finish_reason="stop",
            ),
            Reply(
                text="pong",
                usage=Usage(input_tokens=5, output_tokens=2, cached_tokens=4),
                model="served",
                finish_reason="stop",
            ),
            id="text, usage, name and reason; no thoughts",
        ),
        pytest.param(ModelResponse(parts=[]), Reply(text="", model="asked"), id="nothing said"),
        pytest.param(ModelResponse(parts=[ThinkingPart("hm")]), Reply(text="", model="asked"), id="only thoughts"),
    ],
)
def test_response_to_ours(response: ModelResponse, expected: Reply) -> None:
    assert to_reply(response, model="asked") == expected


async def test_one_call_carries_messages_and_settings() -> None:
    seen: list[tuple[list[ModelMessage], object]] = []

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(0)
        seen.append((messages, info.model_settings))
        return ModelResponse(parts=[TextPart("pong")], model_name="fn")

    model = PydanticAIModel(FunctionModel(respond, model_name="fn"), settings={"temperature": 0.0})
    reply = await model.complete(ASK)
    assert (reply.text, reply.model, model.name) == ("pong", "fn", "fn")
    ((messages, settings),) = seen
    assert shape(messages) == [[(SYSTEM, "s"), (USER, "ping")]]
    assert settings == {"temperature": 0.0}


HTTP_500 = ModelHTTPError(500, "m", body={"error": "oops"})
HTTP_401 = ModelHTTPError(401, "m", body={"error": "key"})


@pytest.mark.parametrize(
    ("model", "retryable"),
    [
        pytest.param(raising(HTTP_500), True, id="500"),
        pytest.param(raising(ModelHTTPError(529, "m")), True, id="529"),
        pytest.param(raising(ModelHTTPError(429, "m")), True, id="429"),
        pytest.param(raising(HTTP_401), False, id="401"),
        pytest.param(raising(ModelHTTPError(422, "m")), False, id="422"),
        pytest.param(raising(ModelAPIError("m", "connection lost")), True, id="connection"),
        pytest.param(raising(ModelRequestRejectedError("m", "no")), False, id="rejected without a status"),
        pytest.param(raising(httpx.ReadTimeout("slow")), True, id="raw httpx timeout"),
        pytest.param(raising(httpx.ConnectError("refused")), True, id="raw httpx connect"),
        pytest.param(raising(TimeoutError()), True, id="plain timeout"),
        pytest.param(raising(ConnectionResetError("gone")), True, id="reset"),
        pytest.param(raising(UnexpectedModelBehavior("nonsense")), False, id="nonsense"),
        pytest.param(raising(ContentFilterError("refused")), False, id="content filter"),
        pytest.param(raising(KeyError("x")), False, id="anything else"),
        pytest.param(FallbackModel(raising(HTTP_401), raising(HTTP_500)), True, id="fallback, one may recover"),
        pytest.param(FallbackModel(raising(HTTP_401), raising(HTTP_401)), False, id="fallback, none may"),
    ],
)
async def test_a_failed_call_is_a_model_error(model: Model, *, retryable: bool) -> None:
    with pytest.raises(ModelError) as caught:
        await PydanticAIModel(model).complete(ASK)
    assert caught.value.retryable is retryable
    assert caught.value.__cause__ is not None
    assert type(caught.value.__cause__).__name__ in str(caught.value)


def caused_by_the_vendors() -> ModelHTTPError:
    error = ModelHTTPError(429, "m")
    response = httpx.Response(429, headers={"Retry-After": "9"}, request=httpx.Request("POST", "http://127.0.0.1"))
    error.__cause__ = httpx.HTTPStatusError("slow down", request=response.request, response=response)
    return error


def busy(retry_after: float | None, status: int = 429) -> FunctionModel:
    return raising(ModelHTTPError(status, "m", retry_after=retry_after))


@pytest.mark.parametrize(
    ("model", "seconds"),
    [
        pytest.param(busy(7.0), 7.0, id="said"),
        pytest.param(busy(None), None, id="not said"),
        pytest.param(busy(7.0, 400), None, id="waiting would not help"),
        pytest.param(raising(ModelHTTPError(503, "m", headers={"Retry-After": "1.5"})), 1.5, id="a fraction"),
        pytest.param(raising(caused_by_the_vendors()), 9.0, id="said to the vendor's client alone"),
        pytest.param(FallbackModel(busy(7.0), busy(3.0)), 3.0, id="the first of two"),
        pytest.param(FallbackModel(busy(7.0), busy(None)), None, id="one may be asked at once"),
        pytest.param(FallbackModel(busy(7.0), busy(None, 401)), 7.0, id="the only one that may recover"),
        pytest.param(raising(TimeoutError()), None, id="no answer"),
    ],
)
async def test_how_long_to_wait(model: Model, seconds: float | None) -> None:
    with pytest.raises(ModelError) as caught:
        await PydanticAIModel(model).complete(ASK)
    assert caught.value.retry_after == seconds


async def test_a_misuse_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="not like this") as caught:
        await PydanticAIModel(raising(UserError("not like this"))).complete(ASK)
    assert isinstance(caught.value.__cause__, UserError)


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        pytest.param(UserError("Native structured output is not supported by this model."), True, id="pydantic-ai"),
        pytest.param(ModelHTTPError(400, "m", body="Unknown parameter: response_format"), True, id="400"),
        pytest.param(ModelHTTPError(422, "m", body="json_schema: not permitted"), True, id="422"),
        pytest.param(FallbackExceptionGroup("", [HTTP_401, ModelHTTPError(400, "m", body="schema")]), True, id="group"),
        pytest.param(ModelHTTPError(500, "m", body="schema"), False, id="500"),
        pytest.param(ModelHTTPError(400, "m", body="max_tokens"), False, id="400 about something else"),
        pytest.param(UserError("not like this"), False, id="a misuse"),
        pytest.param(ValueError("schema"), False, id="anything else"),
    ],
)
async def test_a_refused_schema_is_not_sent_again(*, error: Exception, refuses: bool) -> None:
    model = PydanticAIModel(raising(error))
    with pytest.raises((ModelError, ConfigError)) as caught:
        await model.complete(ASK, schema={"type": "object"})
    assert model.takes_schema is not refuses
    if refuses:
        assert isinstance(caught.value, ModelError)
        assert caught.value.retryable


async def test_cancelling_passes() -> None:
    with pytest.raises(asyncio.CancelledError):
        await PydanticAIModel(raising(asyncio.CancelledError())).complete(ASK)


async def slow(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
    await asyncio.sleep(10)
    return ModelResponse(parts=[])


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(PydanticAIModel(FunctionModel(slow), settings={"request_timeout": 0.01}), id="in the settings"),
        pytest.param(
            PydanticAIModel(FunctionModel(slow, settings={"request_timeout": 0.01})), id="in the model's settings"
        ),
        pytest.param(PydanticAIModel(FunctionModel(slow), timeout_s=0.01), id="ours"),
    ],
)
async def test_a_deadline_is_a_timeout(model: PydanticAIModel) -> None:
    with pytest.raises(ModelTimeoutError) as caught:
        await model.complete(ASK)
    assert caught.value.timeout_s == pytest.approx(0.01)


def test_a_long_message_is_cut_and_kept_on_one_line() -> None:
    error = to_model_error(ValueError("a\n" * 5000), model="m")
    assert len(str(error)) < 600
    assert "\n" not in str(error)


async def test_a_ready_model_is_not_closed() -> None:
    model = PydanticAIModel(TestModel())
    await model.aclose()
    assert (await model.complete(ASK)).text


def test_event_loops_that_ended_are_not_kept() -> None:
    model = PydanticAIModel("test")
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def once() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await model.complete(ASK)

    for _ in range(4):
        asyncio.run(once())
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1
