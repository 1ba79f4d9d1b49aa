"""Spans as OpenTelemetry gets them."""

import orjson
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import StatusCode

from jazz_select.chat.client import ChatClient, Inquiry
from jazz_select.errors import ModelError
from jazz_select.routing import FlowExecutor
from jazz_select.telemetry import Trace, span
from jazz_select.testing import ScriptedModel
from jazz_select.threads import Deadline
from jazz_select.values import Message
from tests.unit.routing.shop import tools
from tests.unit.spans import CHOICE, SAID, VALUES, everything_fails, exported, known, selector


async def test_opentelemetry_has_no_text_of_an_error_without_content() -> None:
    hook, exporter = exported(with_content=False)
    with Trace([hook]):
        await everything_fails()
    found = exporter.get_finished_spans()
    assert [each.name for each in found if SAID in each.to_json()] == []
    errors = [each for each in found if each.status.status_code is StatusCode.ERROR]
    assert {known(each)["error.type"] for each in errors} == {
        *("ValueError", "tool", "DecisionCallbackError", "open", "ModelError")
    }
    assert {each.status.description for each in errors} == {None}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_is_noted_its_opentelemetry_span_ends(value: object, caplog: pytest.LogCaptureFixture) -> None:
    hook, exporter = exported(with_content=True)
    with Trace([hook]), span("outer", "node"):
        with span("x", "node") as noted:
            assert noted is not None
            noted.note({"value": value, "finish_reason": value})
            noted.hold({"reply": value, "error": value})
            noted.error = "tool"
        with span("y", "node"):
            pass
    ended = {each.name: each for each in exporter.get_finished_spans()}
    assert set(ended) == {"node outer", "node x", "node y"}
    inner = [ended[f"node {name}"].parent for name in "xy"]
    assert [each and each.span_id for each in inner] == [_id(ended["node outer"])] * 2
    assert known(ended["node x"]).keys() >= {"jazz_select.value", "gen_ai.output.messages", "error.type"}
    assert str(known(ended["node x"])).encode()
    assert "it failed" not in caplog.text


async def test_opentelemetry_gets_spans_by_its_conventions() -> None:
    hook, exporter = exported(with_content=False)
    with Trace([hook]), span("support", "turn") as turn:
        assert turn is not None
        turn.note({"conversation_id": "c1"})
        await selector(ScriptedModel(CHOICE)).select("my secret")
        await FlowExecutor(tools()).run(["find_order"], {"order_id": "A1"})
    spans = {each.name: each for each in exporter.get_finished_spans()}
    assert set(spans) == {
        "invoke_agent support",
        "decision select",
        "retrieval support",
        "chat ScriptedModel",
        "decision step",
        "execute_tool find_order",
    }
    assert known(spans["invoke_agent support"]) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "support",
        "gen_ai.conversation.id": "c1",
    }
    assert known(spans["chat ScriptedModel"]) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "ScriptedModel",
        "gen_ai.response.model": "small",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 310,
        "gen_ai.usage.output_tokens": 12,
    }
    assert known(spans["execute_tool find_order"])["gen_ai.tool.name"] == "find_order"
    assert known(spans["decision select"])["jazz_select.tier"] == "guided"
    parents = {each.name: each.parent.span_id if each.parent else None for each in spans.values()}
    assert parents["invoke_agent support"] is None
    assert parents["chat ScriptedModel"] == _id(spans["decision select"])
    assert parents["decision select"] == _id(spans["invoke_agent support"])
    assert "secret" not in str([known(each) for each in spans.values()])


def _id(found: ReadableSpan) -> int:
    context = found.get_span_context()
    assert context is not None
    return context.span_id


async def asked(model: ScriptedModel, *messages: Message) -> None:
    await ChatClient(model).ask(lambda: Inquiry(messages), Deadline.after(None))


async def test_opentelemetry_gets_content_where_it_is_wanted_and_errors_always() -> None:
    hook, exporter = exported(with_content=True)
    with Trace([hook]):
        await asked(ScriptedModel(CHOICE), Message(role="user", content="hello"))
    with Trace([hook]), pytest.raises(ModelError):
        await asked(ScriptedModel(ModelError("m", "gone", retryable=False)))
    first, second = exporter.get_finished_spans()
    assert orjson.loads(known(first)["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    ]
    assert orjson.loads(known(first)["gen_ai.output.messages"]) == [
        {"role": "assistant", "parts": [{"type": "text", "content": CHOICE.text}]}
    ]
    assert known(second)["error.type"] == "ModelError"
    assert second.status.status_code is StatusCode.ERROR
    assert "gone" in str(second.status.description)
