"""Running plans: what passes from step to step, what fails alone, and what nothing can stop."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from jazz_select.errors import ConfigError
from jazz_select.routing.plans.plan import Plan, PlanStep
from jazz_select.routing.plans.plan_runner import run_plan
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.routing.records import PlanResult
from jazz_select.routing.tools.tool import Tool
from tests.unit.routing.listed import needing


def tool(name: str, function: Callable[..., object] | None, *required: str, destructive: bool = False) -> Tool:
    return Tool(name=name, function=function, input_schema=needing(*required), destructive=destructive)


def plan(*steps: tuple[str, str, dict[str, Any]]) -> Plan:
    return Plan.from_steps(PlanStep(id=own, tool=name, arguments=arguments) for own, name, arguments in steps)


def ref(text: str) -> dict[str, str]:
    return {"$ref": text}


def statuses(result: PlanResult) -> dict[str, str]:
    return {step.id: step.status for step in result.steps}


def fail(**_: object) -> None:
    msg = "no such order"
    raise ValueError(msg)


async def echo(value: Any) -> Any:
    return value


def search(query: str) -> str:
    return f"results for {query}"


def pair(value: Any, given: Any) -> list[Any]:
    return [value, given]


ECHO = tool("echo", echo, "value")
FAIL = tool("fail", fail)


@pytest.mark.spec("004.12")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["search first", "calendar first"])
async def test_who_is_gibby(order: tuple[int, int]) -> None:
    tools = [
        tool("web_search", search, "query"),
        tool("calendar.list_events", echo, "start"),
    ]
    reply = read_tool_reply('{"tool_call": {"tool": "web_search", "arguments": {"query": "Gibby from iCarly"}}}')
    result = await run_plan(reply.plan, [tools[place] for place in order])
    assert [(step.tool, step.output) for step in result.steps] == [("web_search", "results for Gibby from iCarly")]
    assert result.ok


@pytest.mark.spec("004.8")
async def test_outputs_are_passed_on_as_what_they_are() -> None:
    items = [{"id": 7, "tags": ["a"]}, {"id": 8.5, "tags": None}]
    result = await run_plan(
        plan(
            ("s1", "echo", {"value": {"items": items}}),
            ("s2", "echo", {"value": ref("s1#/items/0/id")}),
            ("s3", "echo", {"value": [{"deep": ref("s1#/items/1")}, 's1#/items and {"$ref": "s1"}', ref("s2")]}),
        ),
        [ECHO],
    )
    assert result.outputs["s2"] == 7
    assert result.outputs["s3"] == [{"deep": items[1]}, 's1#/items and {"$ref": "s1"}', 7]
    assert result.steps[1].arguments == {"value": 7}


STRING: dict[str, Any] = {"type": "string"}
LIST: dict[str, Any] = {"type": "array", "items": {"type": "object", "properties": {"sku": STRING}}}
ORDER: dict[str, Any] = {"type": "object", "properties": {"sku": STRING}, "additionalProperties": False}
OWN: dict[str, Any] = {"type": "object", "properties": {"result": STRING}, "additionalProperties": False}
WHOLE: list[Any] = [
    pytest.param("A1", STRING, "a#/result", "A1", id="a text"),
    pytest.param("A1", None, "a#/result", "A1", id="a text that no schema declares"),
    pytest.param([{"sku": "L"}], LIST, "a#/result", [{"sku": "L"}], id="a list"),
    pytest.param([{"sku": "L"}], LIST, "a#/result/0/sku", "L", id="a part of a list"),
    pytest.param({"sku": "L"}, ORDER, "a#/result", {"sku": "L"}, id="an object"),
    pytest.param({"sku": "L"}, ORDER, "a#/result/sku", "L", id="a field of an object"),
    pytest.param('{"sku": "L"}', None, "a#/sku", "L", id="a field of an object in a text"),
    pytest.param('[{"sku": "L"}]', None, "a#/result/0/sku", "L", id="a part of a list in a text"),
    pytest.param('{"sku": "L"}', None, "a#/result", '{"sku": "L"}', id="a whole text"),
    pytest.param('{"result": "own"}', None, "a#/result", "own", id="the field of that name in a text"),
    pytest.param({"result": "own"}, OWN, "a#/result", "own", id="its own field of that name"),
]


@pytest.mark.spec("018.7")
@pytest.mark.parametrize(("output", "declared", "pointer", "passed"), WHOLE)
async def test_an_output_may_be_referred_to_by_the_name_that_models_are_told(
    output: object, declared: dict[str, Any] | None, pointer: str, passed: object
) -> None:
    heard: list[object] = []

    def hear(x: object) -> None:
        heard.append(x)

    gives, hears = Tool(name="gives", function=lambda: output, output_schema=declared), tool("hears", hear, "x")
    result = await run_plan(plan(("a", "gives", {}), ("b", "hears", {"x": ref(pointer)})), [gives, hears])
    assert (statuses(result), heard) == ({"a": "ok", "b": "ok"}, [passed])


async def test_another_field_than_an_output_has_is_still_refused() -> None:
    gives = Tool(name="gives", function=dict, output_schema=ORDER)
    result = await run_plan(plan(("a", "gives", {}), ("b", "gives", {"x": ref("a#/result/code")})), [gives])
    assert result.problems == ("b: a#/result/code: the output of gives has no 'code'; it has sku",)


async def test_what_a_tool_returns_never_becomes_a_reference() -> None:
    result = await run_plan(
        plan(("a", "echo", {"value": 1}), ("b", "trick", {}), ("c", "echo", {"value": ref("b")})),
        [ECHO, tool("trick", lambda: ref("a"))],
    )
    assert result.outputs["c"] == ref("a")


async def test_a_tool_that_changes_its_arguments_changes_nobody_elses() -> None:
    def spoil(value: dict[str, Any]) -> int:
        value.clear()
        return 1

    result = await run_plan(
        plan(
            ("a", "echo", {"value": {"x": 1}}), ("b", "spoil", {"value": ref("a")}), ("c", "echo", {"value": ref("a")})
        ),
        [ECHO, tool("spoil", spoil)],
        at_once=1,
    )
    assert result.outputs == {"a": {"x": 1}, "b": 1, "c": {"x": 1}}
    assert result.steps[1].arguments == {"value": {"x": 1}}


@pytest.mark.spec("004.5")
async def test_steps_run_in_planned_order_and_are_told_in_it() -> None:
    ran: list[int] = []
    steps = [(f"n{number}", "note", {"number": number}) for number in range(5)]

    def note(number: int) -> None:
        ran.append(number)

    result = await run_plan(plan(*steps), [tool("note", note)], at_once=1)
    assert ran == [0, 1, 2, 3, 4]
    assert [step.id for step in result.steps] == ["n0", "n1", "n2", "n3", "n4"]


@pytest.mark.spec("004.5")
async def test_a_step_may_refer_to_one_that_was_planned_later_and_stands_in_its_place() -> None:
    result = await run_plan(plan(("b", "echo", {"value": ref("a")}), ("a", "echo", {"value": 3})), [ECHO])
    assert [(step.id, step.output) for step in result.steps] == [("b", 3), ("a", 3)]


@pytest.mark.spec("004.10")
async def test_a_bad_call_among_good_ones() -> None:
    reply: dict[str, list[object]] = {
        "tool_calls": [
            {"tool": "book_flight", "arguments": {}},
            {"tool": "ECHO", "arguments": {"value": 1}},
            {"tool": "echo", "arguments": [1]},
            {"tool": "echo", "arguments": {}},
            {"tool": "described"},
            7,
        ]
    }
    result = await run_plan(read_tool_reply(reply).plan, [ECHO, tool("described", None)])
    assert list(statuses(result).values()) == ["failed", "ok", "failed", "failed", "failed", "failed"]
    assert [step.error and (step.error.fault, step.error.message) for step in result.steps] == [
        ("name", "'book_flight': no connected tool is like it"),
        None,
        ("arguments", "echo: the arguments are no JSON object"),
        ("arguments", "echo needs 'value'"),
        ("tool", "described is only described; connect it with a function that runs it"),
        ("arguments", "a call: a call must be an object with a tool and arguments, got int"),
    ]
    assert result.steps[1].stage == "normalised"
    error = result.errors["s1"]
    assert list(error.details)[:2] == ["error", "connected_tools"]


@pytest.mark.spec("004.13")
async def test_a_wrong_argument_fails_its_step_and_the_tool_is_not_called() -> None:
    called: list[object] = []

    def count(n: object) -> None:
        called.append(n)

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    counts = Tool(name="count", input_schema=schema, function=count)
    steps = (("a", "count", {"n": "3"}), ("b", "echo", {"value": "x"}), ("c", "count", {"n": ref("b#")}))
    result = await run_plan(plan(*steps, ("d", "count", {"n": 3})), [counts, ECHO])
    assert statuses(result) == {"a": "failed", "b": "ok", "c": "failed", "d": "ok"}
    assert called == [3]
    assert result.errors["a"].fault == "arguments"
    assert result.errors["a"].message == "count: the arguments are not valid: n: '3' is not of type 'integer'"
    assert "n: 'x' is not of type 'integer'" in result.errors["c"].message


async def test_dependants_are_skipped_with_a_reason_and_the_others_run() -> None:
    result = await run_plan(
        plan(
            ("a", "fail", {}),
            ("b", "echo", {"value": ref("a#/x")}),
            ("c", "echo", {"value": ref("b")}),
            ("d", "echo", {"value": "free"}),
        ),
        [ECHO, FAIL],
    )
    assert statuses(result) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "ok"}
    assert {own: error.message for own, error in result.errors.items()} == {
        "a": "fail failed: ValueError: no such order",
        "b": "echo was not run: it uses the output of a, which failed",
        "c": "echo was not run: it uses the output of b, which was skipped",
    }
    assert isinstance(result.errors["a"].cause, ValueError)
    assert result.outputs == {"d": "free"}


@pytest.mark.spec("004.13")
async def test_a_missing_pointer_fails_the_step_that_needs_it_and_skips_those_after() -> None:
    result = await run_plan(
        plan(
            ("a", "echo", {"value": {"items": []}}),
            ("b", "echo", {"value": ref("a#/items/0/id"), "other": ref("a#/total")}),
            ("c", "echo", {"value": ref("b")}),
        ),
        [ECHO],
    )
    assert statuses(result) == {"a": "ok", "b": "failed", "c": "skipped"}
    assert result.errors["b"].message == (
        "echo: a#/items/0/id: /items has 0 items, so none at 0; a#/total: the output has no 'total'; it has 'items'"
    )


async def test_a_plan_with_problems_is_not_run_in_parts() -> None:
    ran: list[int] = []
    broken = plan(("a", "note", {}), ("b", "note", {"x": ref("ghost")}))
    for each in (broken, Plan(steps=broken.steps)):
        result = await run_plan(each, [tool("note", lambda: ran.append(1))])
        assert result.problems == ("b: refers to 'ghost', which is no step of this plan",)
        assert (result.steps, result.ok, ran) == ((), False, [])


@dataclass
class Point:
    x: int


class Model(BaseModel):
    day: date


@dataclass
class Named:
    name: str
    amount: Decimal


class Cased(BaseModel):
    name: Any


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def raise_unspeakable() -> None:
    raise UnspeakableError


def leave() -> None:
    raise SystemExit(3)


def stop_iteration() -> None:
    raise StopIteration


async def cancel_itself() -> None:
    raise asyncio.CancelledError


def circle() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


NO_JSON = "t: it ran, but returned what is no JSON: "


class AsyncObject:
    async def __call__(self) -> str:
        return threading.current_thread().name


@pytest.mark.parametrize(
    ("function", "output"),
    [
        pytest.param(lambda: Point(1), {"x": 1}, id="dataclass"),
        pytest.param(lambda: [Model(day=date(2030, 1, 2))], [{"day": "2030-01-02"}], id="pydantic"),
        pytest.param(lambda: {1: (2, None)}, {"1": [2, None]}, id="keys and tuples"),
        pytest.param(lambda: None, None, id="nothing"),
        pytest.param(lambda: [Decimal("20.00"), Decimal("-0.25"), Decimal("1E+3")], [20, -0.25, 1000], id="decimals"),
        pytest.param(lambda: [Decimal("1E+30"), Decimal("1E+999999")], [1e30, None], id="large decimals"),
        pytest.param(lambda: [Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")], [None] * 3, id="no numbers"),
        pytest.param(lambda: {"n": [10**30]}, {"n": [10**30]}, id="a large number"),
        pytest.param(lambda: "a\ud800", "a\ufffd", id="half a character"),
        pytest.param(lambda: {"\ud800": [("\udc00", 1)]}, {"\ufffd": [["\ufffd", 1]]}, id="half characters within"),
        pytest.param(lambda: Named("\ud800", Decimal(2)), {"name": "\ufffd", "amount": 2}, id="in a dataclass"),
        pytest.param(lambda: [Cased(name="\ud800")], [{"name": "\ufffd"}], id="in a model"),
        pytest.param(lambda: echo(5), 5, id="a plain function that returns a coroutine"),
        pytest.param(AsyncObject(), "MainThread", id="an object whose call is async"),
    ],
)
async def test_what_tools_return_becomes_json(function: Callable[..., object], output: object) -> None:
    found = (await run_plan(plan(("a", "t", {})), [tool("t", function)])).outputs
    assert repr(found) == repr({"a": output})


@pytest.mark.parametrize(
    ("function", "fault", "message"),
    [
        pytest.param(object, "output", NO_JSON, id="an object"),
        pytest.param(lambda: {1, 2}, "output", NO_JSON, id="a set"),
        pytest.param(circle, "output", NO_JSON, id="a circle"),
        pytest.param(lambda: (n for n in iter(int, 1)), "output", NO_JSON, id="without end"),
        pytest.param(raise_unspeakable, "tool", "t failed: UnspeakableError", id="an error without words"),
        pytest.param(leave, "tool", "t failed: RuntimeError: SystemExit: 3", id="exit"),
        pytest.param(stop_iteration, "tool", "t failed: RuntimeError: StopIteration", id="stop iteration"),
        pytest.param(cancel_itself, "tool", "t was cancelled from within", id="cancels itself"),
        pytest.param(search, "tool", "t failed: TypeError", id="other arguments"),
    ],
)
async def test_whatever_a_tool_does_is_an_error_of_its_step(
    function: Callable[..., object], fault: str, message: str
) -> None:
    result = await run_plan(plan(("a", "t", {}), ("b", "echo", {"value": 1})), [tool("t", function), ECHO])
    assert statuses(result) == {"a": "failed", "b": "ok"}
    assert result.errors["a"].fault == fault
    assert result.errors["a"].message.startswith(message)


async def never_ends() -> None:
    await asyncio.Event().wait()


async def will_not_be_cancelled() -> None:
    for _ in range(2):
        try:
            await asyncio.sleep(0.5)
        except asyncio.CancelledError:
            continue


@pytest.mark.parametrize("how", ["async", "async and stubborn", "in a thread"])
async def test_a_tool_that_hangs_fails_alone(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazz_select.routing.plans.plan_runner.perf_counter", asyncio.get_running_loop().time)
    over = threading.Event()

    async def stubborn() -> None:
        while not over.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    function = {"async": never_ends, "async and stubborn": stubborn, "in a thread": lambda: over.wait(30)}[how]
    result = await run_plan(
        plan(("a", "hang", {}), ("b", "echo", {"value": ref("a")}), ("c", "echo", {"value": 1})),
        [tool("hang", function), ECHO],
        timeout_s=0.125,
    )
    over.set()
    assert statuses(result) == {"a": "failed", "b": "skipped", "c": "ok"}
    assert (result.errors["a"].fault, result.errors["a"].message) == (
        "timeout",
        "hang was started but did not end within 0.125 s: it may have been done",
    )
    assert result.steps[0].duration_s >= 0.125
    assert result.duration_s >= result.steps[0].duration_s


async def test_a_timeout_of_its_own_is_the_tools_error() -> None:
    async def own() -> None:
        raise TimeoutError("upstream")

    result = await run_plan(plan(("a", "t", {})), [tool("t", own)], timeout_s=5)
    assert result.errors["a"].message == "t failed: TimeoutError: upstream"


class Meter:
    """Counts how many of its calls run at one time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.began: list[str] = []

    async def __call__(self, name: str) -> None:
        self.began.append(name)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1


@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (3, 3), (20, 10)])
async def test_independent_steps_run_side_by_side_within_bounds(at_once: int, most: int) -> None:
    meter = Meter()
    steps = [(f"n{number}", "measure", {"name": f"n{number}"}) for number in range(10)]
    await run_plan(plan(*steps), [tool("measure", meter)], parallel=True, at_once=at_once)
    assert meter.most == most
    assert meter.began == [f"n{number}" for number in range(10)]


async def test_what_destroys_runs_alone_and_in_its_place() -> None:
    meter = Meter()
    steps = [(f"n{number}", "wipe" if number == 2 else "measure", {"name": f"n{number}"}) for number in range(5)]
    seen: list[int] = []

    async def wipe(name: str) -> None:
        seen.extend((meter.now, len(meter.began)))
        await meter(name)

    await run_plan(plan(*steps), [tool("measure", meter), tool("wipe", wipe, destructive=True)], parallel=True)
    assert seen == [0, 2]
    assert meter.began == ["n0", "n1", "n2", "n3", "n4"]
    assert meter.most == 2


async def test_what_destroys_and_is_referred_to_from_before_does_not_wait_for_itself() -> None:
    wipe = tool("wipe", lambda: 1, destructive=True)
    result = await run_plan(plan(("a", "echo", {"value": ref("b")}), ("b", "wipe", {})), [ECHO, wipe], timeout_s=1)
    assert result.outputs == {"a": 1, "b": 1}


@pytest.mark.spec("004.5")
async def test_a_read_that_is_planned_after_a_write_sees_it() -> None:
    told: list[str] = []

    async def write(name: str) -> None:
        await asyncio.sleep(0.01)
        told.append(f"{name} is written")

    async def read(name: str) -> str:
        return told[-1] if told else "nothing"

    steps = [("w", "write", {"name": "ada"}), ("r", "read", {"name": "ada"})]
    result = await run_plan(plan(*steps), [tool("write", write), tool("read", read)])
    assert result.outputs["r"] == "ada is written"
    told.clear()
    result = await run_plan(plan(*steps), [tool("write", write), tool("read", read)], parallel=True)
    assert result.outputs["r"] == "ada is written", "what may change something is waited for"


@pytest.mark.parametrize("stubborn", [False, True], ids=["tools that end", "a tool that will not"])
async def test_a_cancellation_passes_and_takes_the_running_steps_with_it(*, stubborn: bool) -> None:
    ended: list[str] = []
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")

    hang = will_not_be_cancelled if stubborn else never_ends
    steps = plan(("a", "wait", {}), ("b", "hang", {}), ("c", "echo", {"value": ref("a")}))
    task = asyncio.create_task(run_plan(steps, [tool("wait", wait), tool("hang", hang), ECHO]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 0.45)
    assert ended == ["wait"]


@pytest.mark.spec("004.8")
async def test_missing_inputs_are_filled_by_the_hook_from_earlier_outputs() -> None:
    asked: list[tuple[str, tuple[str, ...], dict[str, Any]]] = []

    def fill(found: Tool, missing: tuple[str, ...], outputs: Mapping[str, Any]) -> dict[str, Any]:
        asked.append((found.name, missing, dict(outputs)))
        return {"value": outputs["a"]["order"], "given": "not asked for"}

    result = await run_plan(
        plan(
            ("a", "echo", {"value": {"order": 7}}),
            ("b", "fail", {}),
            ("c", "pair", {"given": 1}),
            ("d", "pair", {"given": ref("a#/order")}),
        ),
        [ECHO, FAIL, tool("pair", pair, "value", "given")],
        fill=fill,
    )
    assert asked == [("pair", ("value",), {"a": {"order": 7}})]
    assert result.outputs["c"] == [7, 1]
    assert result.errors["d"].message == "pair needs 'value'"


async def test_a_hook_that_fails_fails_its_step_alone() -> None:
    def fill(found: Tool, missing: tuple[str, ...], outputs: Mapping[str, Any]) -> dict[str, Any]:
        raise KeyError("x")

    result = await run_plan(plan(("a", "echo", {}), ("b", "echo", {"value": 1})), [ECHO], fill=fill)
    assert statuses(result) == {"a": "failed", "b": "ok"}
    assert result.errors["a"].message == "echo: the missing inputs could not be filled: KeyError: 'x'"


async def test_an_empty_plan_is_done() -> None:
    result = await run_plan(Plan.from_steps([]), [ECHO])
    assert (result.ok, result.steps) == (True, ())


@pytest.mark.parametrize(
    ("timeout_s", "at_once", "problem"),
    [
        (0, 1, "timeout_s must be a number of seconds above 0, or None"),
        (-1, 1, "timeout_s must be a number of seconds above 0, or None"),
        (float("nan"), 1, "timeout_s must be a number of seconds above 0, or None"),
        (1, 0, "at_once must be a whole number from 1"),
    ],
)
async def test_options_that_cannot_work(timeout_s: float, at_once: int, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await run_plan(Plan.from_steps([]), [ECHO], timeout_s=timeout_s, at_once=at_once)
