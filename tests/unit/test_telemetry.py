"""The trace: which spans there are, where they lie, and who hears of them."""

import asyncio
import logging
from typing import Any

import orjson
import pytest

from jazz_select.errors import ConfigError, ModelError
from jazz_select.routing import FlowExecutor, GuidedDecisionPoint, Plan, run_plan
from jazz_select.routing.plans.plan import PlanStep
from jazz_select.telemetry import Redact, Span, Trace, span
from jazz_select.testing import ScriptedModel
from tests.unit.routing.shop import tools
from tests.unit.spans import CHOICE, VALUES, selector, shape


async def test_a_selection_is_one_decision_with_what_led_there() -> None:
    with Trace() as trace:
        await selector(ScriptedModel(CHOICE)).select("another size please")
    assert shape(trace) == [(0, "decision", "select"), (1, "recall", "recall"), (1, "chat", "ScriptedModel")]
    select, recall, chat = trace.spans
    assert select.attributes | {"candidates": None} == {
        "tier": "guided",
        "reason": "llm",
        "chosen": ["exchange_order"],
        "candidates": None,
        "attempts": 1,
        "stages": {"recall": "handed_on", "chat": "decided"},
        "input_tokens": 310,
        "output_tokens": 12,
    }
    assert list(select.attributes["candidates"]) == list(recall.attributes["candidates"])
    assert select.content["request"] == "another size please"
    assert chat.attributes == {"model": "small", "finish_reason": "stop", "input_tokens": 310, "output_tokens": 12}
    assert chat.content["reply"] == CHOICE.text
    assert all(each.duration_s is not None and each.duration_s >= 0 for each in trace)
    assert select.duration_s is not None
    assert chat.duration_s is not None
    assert select.duration_s >= chat.duration_s


async def test_a_model_that_fails_is_in_the_trace() -> None:
    with Trace() as trace:
        await selector(ScriptedModel(ModelError("m", "gone", retryable=False))).select("money")
    select, _, chat = trace.spans
    assert chat.error == "ModelError"
    assert "gone" in chat.content["error"]
    assert (select.error, select.attributes["reason"]) == ("", "fallback_error")
    assert "gone" in select.content["problem"]


async def test_steps_and_their_tools_are_in_the_trace() -> None:
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["send_mail", "check_refund"])

    class First:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            return candidates[0].name

    with Trace() as trace:
        await FlowExecutor(tools(), First()).run(["find_order", point], {"order_id": "A1"})
    assert shape(trace) == [
        (0, "decision", "step"),
        (1, "tool", "find_order"),
        (0, "decision", "step"),
        (1, "tool", "send_mail"),
    ]
    assert [each.attributes["tier"] for each in trace if each.name == "step"] == ["deterministic", "guided"]
    assert trace.spans[1].content == {
        "arguments": {"order_id": "A1"},
        "output": {"order_id": "A1", "amount": 20, "email": "a@example.org"},
    }


@pytest.mark.spec("004.11")
async def test_a_plan_is_in_the_trace_in_planned_order_and_failures_with_it() -> None:
    def fails(email: str) -> str:
        raise ValueError(email)

    plan = Plan.from_steps(
        [
            PlanStep(id="s1", tool="find_order", arguments={"order_id": "A1"}),
            PlanStep(id="s2", tool="send_mail", arguments={"email": {"$ref": "s1#/email"}}),
        ]
    )
    with Trace() as trace:
        await run_plan(plan, tools(send_mail=fails))
    assert shape(trace) == [(0, "node", "run_plan"), (1, "tool", "find_order"), (1, "tool", "send_mail")]
    assert trace.spans[0].attributes["steps"] == {"s1": "find_order", "s2": "send_mail"}
    assert trace.spans[0].attributes["status"] == {"s1": "ok", "s2": "failed"}
    assert trace.spans[2].error == "tool"
    assert "a@example.org" in trace.spans[2].content["error"]


async def test_spans_of_tasks_lie_in_the_span_that_started_them() -> None:
    async def work(name: str) -> None:
        with span(name, "node"):
            await asyncio.sleep(0)

    with Trace() as trace:
        with span("outer", "turn"):
            await asyncio.gather(work("a"), work("b"))
        await work("after")
    parents = {each.name: each.parent.name if each.parent else None for each in trace}
    assert parents == {"outer": None, "a": "outer", "b": "outer", "after": None}


async def test_cancellation_passes_and_ends_the_span() -> None:
    with Trace() as trace, pytest.raises(asyncio.CancelledError), span("x", "node"):
        raise asyncio.CancelledError
    assert trace.spans[0].error == "CancelledError"
    assert trace.spans[0].duration_s is not None


def test_where_nobody_listens_there_is_no_span() -> None:
    with span("x", "node") as nothing:
        assert nothing is None
    with Trace() as trace:
        pass
    with span("x", "node") as nothing:
        assert nothing is None
    assert trace.spans == []


def test_a_trace_is_opened_once() -> None:
    with Trace() as trace:
        with span("a", "node"):
            with pytest.raises(ConfigError, match="a Trace is opened once"), trace:
                pass
            with span("b", "node"):
                pass
        with span("c", "node"):
            pass
    with span("after", "node") as nothing:
        assert nothing is None
    with pytest.raises(ConfigError, match="a Trace is opened once"), trace:
        pass
    with span("after", "node") as nothing:
        assert nothing is None
    assert [(each.depth, each.name) for each in trace] == [(0, "a"), (1, "b"), (0, "c")]


async def test_of_two_tasks_one_opens_a_trace() -> None:
    trace = Trace()
    both_began = asyncio.Barrier(2)

    async def work() -> str:
        try:
            with trace, span("x", "node"):
                await both_began.wait()
        except ConfigError:
            with span("y", "node") as nothing:
                assert nothing is None
            await both_began.wait()
            return "refused"
        return "opened"

    assert sorted(await asyncio.gather(work(), work())) == ["opened", "refused"]
    assert [each.name for each in trace] == ["x"]


class Heard:
    """A hook that keeps what it heard."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.contents: dict[str, dict[str, Any]] = {}

    def on_start(self, span: Span) -> None:
        self.began.append(span.name)

    def on_end(self, span: Span) -> None:
        self.contents[span.name] = span.content


def without(field: str) -> Redact:
    return lambda _, content: {name: value for name, value in content.items() if name != field}


def test_a_trace_within_another_passes_its_spans_on(caplog: pytest.LogCaptureFixture) -> None:
    inside, outside = Heard(), Heard()
    with caplog.at_level(logging.DEBUG, logger="jazz_select.trace"), Trace([outside], redact=without("b")) as outer:
        with span("before", "node"):
            with Trace([inside], redact=without("a")) as inner, span("turn", "turn"), span("tool", "tool") as tool:
                assert tool is not None
                tool.hold({"a": 1, "b": 2, "c": 3})
                tool.note({"known": 4})
                tool.error = "timeout"
            with span("between", "node"):
                pass
        with span("after", "node"):
            pass
    assert [(each.depth, each.name) for each in inner] == [(0, "turn"), (1, "tool")]
    assert [(each.depth, each.name) for each in outer] == [
        *((0, "before"), (1, "turn"), (2, "tool"), (1, "between")),
        (0, "after"),
    ]
    assert inside.began == ["turn", "tool"]
    assert outside.began == ["before", "turn", "tool", "between", "after"]
    assert (inside.contents["tool"], outside.contents["tool"]) == ({"b": 2, "c": 3}, {"c": 3})
    assert inner.spans[1].content == {"b": 2, "c": 3}
    found = outer.spans[2]
    assert (found.content, found.attributes, found.error) == ({"c": 3}, {"known": 4}, "timeout")
    assert found.parent is outer.spans[1]
    assert found.duration_s is not None
    lines = [record.getMessage() for record in caplog.records if record.name == "jazz_select.trace"]
    assert [line.split()[1] for line in lines] == ["tool", "turn", "between", "before", "after"]
    assert '"content":{"c":3}' in lines[0]


async def test_what_outlives_a_trace_passes_nothing_on_to_it() -> None:
    closed = asyncio.Event()

    async def work() -> list[str]:
        await closed.wait()
        with Trace() as inner, span("late", "node"):
            pass
        return [each.name for each in inner]

    with Trace() as outer:
        task = asyncio.create_task(work())
    closed.set()
    assert await task == ["late"]
    assert outer.spans == []


async def test_a_hook_that_fails_disturbs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_start(self, span: Span) -> None:
            raise ValueError

        def on_end(self, span: Span) -> None:
            raise ValueError

    with Trace([Broken()]):
        result = await selector(ScriptedModel(CHOICE)).select("another size")
    assert result.names == ["exchange_order"]
    assert "hook=<Broken>" in caplog.text


async def test_the_log_has_every_span_even_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="jazz_select.trace"):
        await selector(ScriptedModel(CHOICE)).select("another size")
    lines = [record.message for record in caplog.records if record.name == "jazz_select.trace"]
    logged = [orjson.loads(line.partition(" | ")[2]) for line in lines]
    assert [each["name"] for each in logged] == ["recall", "ScriptedModel", "select"]
    assert logged[2]["content"]["request"] == "another size"


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_whatever_is_noted_can_be_written(value: object) -> None:
    with Trace() as trace, span("x", "node") as noted:
        assert noted is not None
        noted.note({"value": value})
    assert orjson.dumps(trace.as_json())
    assert str(trace)


async def test_a_trace_prints_as_a_tree_without_content() -> None:
    with Trace() as trace:
        await selector(ScriptedModel(CHOICE)).select("my secret")
    lines = str(trace).splitlines()
    assert lines[0].startswith("decision select ")
    assert "tier=guided" in lines[0]
    assert lines[2].startswith("  chat ScriptedModel ")
    assert "secret" not in str(trace)
