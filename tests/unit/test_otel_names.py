"""What spans say in the words of OpenTelemetry's conventions for generative AI is in their registry.

`genai_registry.json` holds the names of the attributes, operations (each with the kind of its span in one process) and
providers, as `model/gen-ai/registry.yaml` and `spans.yaml` of the repository that it names had them at that commit.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from jazz_select import otel
from jazz_select.chat.client import ChatClient, Inquiry
from jazz_select.routing import FlowExecutor
from jazz_select.telemetry import Trace, span
from jazz_select.testing import ScriptedModel
from jazz_select.threads import Deadline
from jazz_select.values import Message, Reply, Usage
from tests.unit.routing.shop import tools
from tests.unit.spans import CHOICE, everything_fails, exported, known, selector

pytestmark = pytest.mark.spec("004.11")
REGISTRY: dict[str, Any] = json.loads(Path(__file__).with_name("genai_registry.json").read_text("utf-8"))
GENERAL = {"error.type"}
"""What the conventions take from those of all of OpenTelemetry."""
NOT_THERE = {"decide"}
"""The call of a decision model: nobody has named it there yet."""


async def a_turn(*, with_content: bool) -> list[ReadableSpan]:
    """Spans of every kind."""
    hook, exporter = exported(with_content=with_content)
    with Trace([hook]), span("support", "turn") as turn:
        assert turn is not None
        turn.note({"conversation_id": "c1", "status": "done"})
        turn.hold({"message": "my secret", "text": "Done."})
        await selector(ScriptedModel(CHOICE)).select("my secret")
        await FlowExecutor(tools()).run(["find_order"], {"order_id": "A1"})
    with Trace([hook]):
        await everything_fails()
    return list(exporter.get_finished_spans())


@pytest.mark.parametrize("with_content", [False, True], ids=["without content", "with content"])
async def test_every_name_of_the_conventions_is_in_their_registry(with_content: bool) -> None:
    spans = await a_turn(with_content=with_content)
    said = {name for each in spans for name in known(each)}
    ours = {name for name in said if name.startswith("jazz_select.")}
    assert said - ours - GENERAL <= set(REGISTRY["attributes"])
    assert {name for name in said if name.startswith("gen_ai.")} != set()


async def test_operations_and_their_kinds_are_those_of_the_registry() -> None:
    spans = await a_turn(with_content=False)
    done = {known(each).get("gen_ai.operation.name"): each.kind.name.lower() for each in spans}
    done.pop(None)
    assert done == {name: REGISTRY["operations"][name] for name in done}
    assert set(done) == {"chat", "execute_tool", "invoke_agent", "retrieval"}


def test_whatever_can_be_said_is_in_the_registry() -> None:
    named = {name for keys in otel.KEYS.values() for name in keys.values()}
    assert named | {*otel.CONTENT.values(), *otel.TURN_CONTENT.values()} <= set(REGISTRY["attributes"])
    assert set(otel.PROVIDERS.values()) <= set(REGISTRY["providers"])
    assert set(otel.OPERATIONS.values()) - set(REGISTRY["operations"]) == NOT_THERE


MODELS = {
    "openai:gpt-5-mini": ("openai", "gpt-5-mini"),
    "google-vertex:gemini-3": ("gcp.vertex_ai", "gemini-3"),
    "openai-decisions:gpt-6-luna": ("openai", "gpt-6-luna"),
    "google-decisions:gemini-3": ("gcp.gemini", "gemini-3"),
    "system-one:clm-latest": (None, "system-one:clm-latest"),
    "llama3:8b": (None, "llama3:8b"),
    "openai:": (None, "openai:"),
    "my_function": (None, "my_function"),
}


@pytest.mark.parametrize(("name", "expected"), MODELS.items(), ids=MODELS)
async def test_a_model_by_name_says_its_provider(name: str, expected: tuple[str | None, str]) -> None:
    hook, exporter = exported(with_content=False)
    with Trace([hook]), span(name, "chat"):
        pass
    (found,) = exporter.get_finished_spans()
    provider, model = expected
    assert known(found).get("gen_ai.provider.name") == provider
    assert (known(found)["gen_ai.request.model"], found.name) == (model, f"chat {model}")


async def test_a_call_of_a_decision_model_is_a_clients_by_its_own_name() -> None:
    hook, exporter = exported(with_content=False)
    with Trace([hook]), span("openai:decider", "decide") as decide:
        assert decide is not None
        decide.note({"model": "decider-2", "input_tokens": 9, "output_tokens": 1, "sure": {"flow": 0.9}})
    (found,) = exporter.get_finished_spans()
    assert (found.name, found.kind.name) == ("decide decider", "CLIENT")
    assert known(found) == {
        "gen_ai.operation.name": "decide",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "decider",
        "gen_ai.response.model": "decider-2",
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 1,
        "jazz_select.sure": '{"flow":0.9}',
    }


async def test_tokens_are_counted_once_in_a_trace() -> None:
    spans = await a_turn(with_content=False)
    counted = [each.name for each in spans if "gen_ai.usage.input_tokens" in known(each)]
    assert counted == ["chat ScriptedModel"]
    (decision,) = [each for each in spans if "jazz_select.input_tokens" in known(each)]
    assert decision.name == "decision select"


async def test_tokens_out_of_a_cache_are_told() -> None:
    hook, exporter = exported(with_content=False)
    usage = Usage(input_tokens=100, output_tokens=5, cached_tokens=64)
    with Trace([hook]):
        question = Inquiry((Message(role="user", content="hello"),))
        await ChatClient(ScriptedModel(Reply(text="hi", usage=usage))).ask(lambda: question, Deadline.after(None))
    (found,) = exporter.get_finished_spans()
    assert known(found)["gen_ai.usage.cache_read.input_tokens"] == 64


async def test_content_has_the_form_of_the_conventions_and_goes_along_only_where_it_is_wanted() -> None:
    spans = {each.name: known(each) for each in await a_turn(with_content=True) if each.status.is_unset}
    turn, tool, retrieval = (
        spans[name] for name in ("invoke_agent support", "execute_tool find_order", "retrieval support")
    )
    assert json.loads(turn["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "my secret"}]}
    ]
    assert json.loads(turn["gen_ai.output.messages"])[0]["role"] == "assistant"
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"order_id": "A1"}
    assert json.loads(tool["gen_ai.tool.call.result"])["amount"] == 20
    assert [each["id"] for each in json.loads(retrieval["gen_ai.retrieval.documents"])][:1] == ["refund_order"]
    assert (retrieval["gen_ai.data_source.id"], retrieval["gen_ai.request.top_k"]) == ("support", 3)
    opt_in = {"gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents"}
    opt_in |= {"gen_ai.tool.call.arguments", "gen_ai.tool.call.result"}
    without = await a_turn(with_content=False)
    assert [name for each in without for name in known(each) if name in opt_in] == []
