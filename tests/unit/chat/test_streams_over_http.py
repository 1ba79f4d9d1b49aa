"""Replies that are read while they are written, over HTTP, by the vendors' own clients."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from jazz_select.chat.client import ChatClient, Inquiry
from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ModelError
from jazz_select.testing import ProviderCase
from jazz_select.threads import Deadline
from jazz_select.values import Message, Reply
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import CALLING, INPUT_TOKENS, OUTPUT_TOKENS, Protocol
from tests.unit.chat.test_tools_over_http import TOOLS

ASK = [Message(role="user", content="Say ping.")]
each_protocol = pytest.mark.parametrize("protocol", CALLING, ids=str)


@each_protocol
@pytest.mark.spec("011.10")
async def test_a_text_comes_in_pieces_and_then_whole(protocol: Protocol, provider: Provider) -> None:
    provider.says("ping and pong")
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        *pieces, whole = [each async for each in model.stream(ASK)]
        once = await model.complete(ASK)
    assert pieces == ["ping a", "nd pong"]
    assert isinstance(whole, Reply)
    assert whole == once
    assert whole.usage is not None
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)


@each_protocol
async def test_what_fails_before_the_first_piece_is_asked_for_again(protocol: Protocol, provider: Provider) -> None:
    provider.says("ping and pong")
    provider.refuses_once = (503, protocol.failure("", "busy"))
    heard: list[str] = []

    async def hear(piece: str) -> None:
        heard.append(piece)

    async with aclosing(PydanticAIModel(protocol.model)) as model:
        reply = await ChatClient(model).stream(Inquiry(tuple(ASK)), Deadline.after(30), hear)
    assert heard == ["ping and pong"]
    assert reply.text == "ping and pong"
    assert reply.attempts == 2
    assert reply.usage is not None


@each_protocol
async def test_what_fails_later_is_an_error_and_no_piece_is_told_twice(protocol: Protocol, provider: Provider) -> None:
    provider.case = ProviderCase(name="cut", text="ping and pong", act="cut")
    heard: list[str] = []

    async def hear(piece: str) -> None:
        heard.append(piece)

    async with aclosing(PydanticAIModel(protocol.model)) as model:
        with pytest.raises(ModelError):
            await ChatClient(model).stream(Inquiry(tuple(ASK)), Deadline.after(30), hear)
    assert len(provider.requests) == 1
    assert heard == ["ping a"]


class Whole(FunctionModel):
    request_stream = Model.request_stream  # as every model has it that says nothing of its own


@pytest.mark.parametrize("kind", [Whole, FunctionModel])
async def test_a_model_of_ones_own_that_gives_whole_replies_gives_one_piece(kind: type[FunctionModel]) -> None:
    model = PydanticAIModel(kind(lambda messages, info: ModelResponse(parts=[TextPart("pong")])))
    piece, whole = [each async for each in model.stream(ASK)]
    assert piece == "pong"
    assert isinstance(whole, Reply)
    assert whole.text == "pong"


@each_protocol
@pytest.mark.spec("011.10")
async def test_tools_go_along_and_plainer_where_they_are_refused(protocol: Protocol, provider: Provider) -> None:
    """The second request is the call without a stream, the third one of it with plainer schemas."""
    provider.says("ping and pong")
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        *pieces, whole = [each async for each in model.stream(ASK, tools=TOOLS)]
        (sent,) = provider.requests
        assert [each["name"] for each in protocol.tools(sent)] == ["look_up", "cancel"]
        assert pieces == ["ping a", "nd pong"]
        provider.refuses_once = (400, protocol.failure("", "look_up: no pattern"))
        *pieces, whole = [each async for each in model.stream(ASK, tools=TOOLS)]
    assert pieces == ["ping and pong"]
    assert isinstance(whole, Reply)
    assert whole.text == "ping and pong"


async def test_calls_come_in_the_whole() -> None:
    async def write(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        yield "I look."
        yield {0: DeltaToolCall(name="look_up", json_args='{"order": "7"}', tool_call_id="c1")}

    model = PydanticAIModel(FunctionModel(stream_function=write))
    piece, whole = [each async for each in model.stream(ASK, tools=TOOLS)]
    assert piece == "I look."
    assert isinstance(whole, Reply)
    assert (whole.text, [each.name for each in whole.tool_calls]) == ("I look.", ["look_up"])
