"""Tools in the providers' own forms, asked for by the vendors' own clients over real connections."""

import json
from contextlib import aclosing
from typing import Any

import pytest

from jazz_select.chat.pydantic_ai_model import PydanticAIModel
from jazz_select.errors import ModelError
from jazz_select.testing import check_chat_model
from jazz_select.values import Message, NativeCall, OfferedTool, Reply
from tests.unit.chat.loopback import Provider
from tests.unit.chat.protocols import CALLING, CHAT, GENERATE, Protocol

ASK = (Message(role="system", content="Be brief."), Message(role="user", content="Where is order 7?"))
LOOK_UP = OfferedTool(
    name="look_up",
    description="Looks up an order.",
    schema={
        "type": "object",
        "properties": {
            "order": {"type": "string", "description": "Its number.", "pattern": "^[0-9]+$"},
            "kinds": {"type": "array", "items": {"enum": ["a", 1]}},
            "sum": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["order"],
    },
)
CANCEL = OfferedTool(name="cancel", description="Cancels an order.", schema={"type": "object", "properties": {}})
TOOLS = (LOOK_UP, CANCEL)
CALLS = (("c1", "look_up", '{"order": "7"}'), ("c2", "cancel", "{}"))
each_protocol = pytest.mark.parametrize("protocol", CALLING, ids=str)


def _arguments(call: NativeCall) -> Any:
    return json.loads(call.arguments or "{}") if isinstance(call.arguments, str) else dict(call.arguments)


@each_protocol
async def test_contract(protocol: Protocol, provider: Provider) -> None:
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        assert model.takes_tools
        await check_chat_model(model)


@pytest.mark.spec("011.10")
@pytest.mark.parametrize("text", ["", "I look it up."], ids=["calls alone", "text and calls"])
@each_protocol
async def test_calls_and_what_came_of_them(protocol: Protocol, text: str, provider: Provider) -> None:
    """Tools go out in their order, calls come in, and go out again with their results and all that is opaque."""
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        provider.body = protocol.calling(text, CALLS)
        reply = await model.complete(ASK, tools=TOOLS)
        provider.body = None
        said = Message(role="assistant", content=reply.text, tool_calls=reply.tool_calls, origin=reply.origin)
        results = [
            Message(role="tool", content=f"result of {each.name}", call_id=each.id, tool=each.name)
            for each in reply.tool_calls
        ]
        after = await model.complete([*ASK, said, *results], tools=TOOLS)
    assert reply.text == text
    assert [(each.id, each.name, _arguments(each)) for each in reply.tool_calls] == [
        (own, name, json.loads(arguments)) for own, name, arguments in CALLS
    ]
    first, second = provider.requests
    assert [each["name"] for each in protocol.tools(first)] == ["look_up", "cancel"]
    assert protocol.tools(second) == protocol.tools(first)
    assert [own for own, _ in protocol.heard(second)] == ["c1", "c2"]
    assert [result for _, result in protocol.heard(second)] == [
        each if protocol is not GENERATE else str({"return_value": each})
        for each in ("result of look_up", "result of cancel")
    ]
    if protocol is not CHAT:  # which has no such parts
        assert protocol.opaque in json.dumps(second)
    assert after == Reply(text="pong", usage=after.usage, model=after.model, finish_reason="stop")


@each_protocol
async def test_calls_of_another_model_are_told_without_its_parts(protocol: Protocol, provider: Provider) -> None:
    said = Message(role="assistant", content="", tool_calls=(NativeCall(id="x1", name="look_up", arguments={"a": 1}),))
    result = Message(role="tool", content="none", call_id="x1", tool="look_up")
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        await model.complete([*ASK, said, result], tools=TOOLS)
    assert [own for own, _ in protocol.heard(provider.requests[0])] == ["x1"]


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for function 'look_up': In context=(), 'pattern' is not permitted.",
        "tools.0.custom.input_schema: JSON schema is invalid",
        "GenerateContentRequest.tools[0].function_declarations[0].parameters: unknown field",
    ],
    ids=["openai", "anthropic", "google"],
)
@each_protocol
async def test_a_refused_schema_is_sent_plainer(protocol: Protocol, message: str, provider: Provider) -> None:
    provider.refuses_once = (400, protocol.failure("", message))
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        reply = await model.complete(ASK, tools=TOOLS)
        later = await model.complete(ASK, tools=TOOLS)
    assert (reply.text, later.text) == ("pong", "pong")
    assert reply.notes == later.notes == ("the provider refuses the schema of a tool, so tools are told plainer",)
    refused, plain, again = provider.requests
    assert "pattern" in json.dumps(protocol.tools(refused))
    assert "pattern" not in json.dumps(protocol.tools(plain))
    assert "Its number." in json.dumps(protocol.tools(plain))
    assert protocol.tools(again) == protocol.tools(plain)


async def test_what_was_not_refused_for_a_schema_teaches_nothing(provider: Provider) -> None:
    provider.fails(400)
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(ModelError, match="as told"):
            await model.complete(ASK, tools=TOOLS)
        provider.says("pong")
        reply = await model.complete(ASK, tools=TOOLS)
    assert not reply.notes
    first, plainer, later = provider.requests
    assert "pattern" not in json.dumps(CHAT.tools(plainer))
    assert CHAT.tools(later) == CHAT.tools(first)


async def test_a_schema_that_is_refused_plain_too_is_an_error(provider: Provider) -> None:
    provider.fails(400)
    provider.body = CHAT.failure("", "Invalid schema for function 'look_up'")
    async with aclosing(PydanticAIModel(CHAT.model)) as model:
        with pytest.raises(ModelError, match="look_up"):
            await model.complete(ASK, tools=TOOLS)
    assert len(provider.requests) == 2


@pytest.mark.spec("011.10")
@each_protocol
async def test_a_schema_goes_along_with_tools_where_the_provider_takes_both(
    protocol: Protocol, provider: Provider
) -> None:
    schema = {"type": "object", "properties": {"state": {"type": "string"}}, "required": ["state"]}
    async with aclosing(PydanticAIModel(protocol.model)) as model:
        await model.complete(ASK, tools=TOOLS, schema=schema)
        await model.complete(ASK, schema=schema)
    both, alone = provider.requests
    assert [each["name"] for each in protocol.tools(both)] == ["look_up", "cancel"]
    assert protocol.schema(alone) is not None
    assert protocol.schema(both) == (None if protocol is GENERATE else protocol.schema(alone))  # an older Gemini
