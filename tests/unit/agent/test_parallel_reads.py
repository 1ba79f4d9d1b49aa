"""Calls that only read run side by side, in the chain and in a parallel plan; what may change something runs alone."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.transcript import Event, ToolCalled, ToolRequest, ToolResult, ToolReturned
from jazz_select.errors import ChainError
from jazz_select.routing import Allow, Ask, Deny, Tool, ToolCall, run_plan, tool_from_function
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from jazz_select.threads import time_budget
from jazz_select.values import NativeCall, Reply
from tests.unit.agent.support import ASK, SAID, results

Calls = Sequence[tuple[str, dict[str, Any]]]
Ended = list[tuple[str, object]]
"""The tool of each call, and its output or what was wrong, in the order of the calls."""
Door = Callable[..., Awaitable[Ended]]


def ended(chain_results: Sequence[ToolResult]) -> Ended:
    return [(each.tool, each.output if each.ok else each.error) for each in chain_results]


def wanted(calls: Calls) -> dict[str, Any]:
    return {"tool_calls": [{"id": f"c{n}", "tool": tool, "arguments": given} for n, (tool, given) in enumerate(calls)]}


async def by_text(calls: Calls, tools: Sequence[Tool], *, limit_s: float = 5.0, **options: Any) -> Ended:
    model = ScriptedModel(json.dumps(wanted(calls)), SAID)
    return ended(results(await run_chain(model, ASK, tools, tool_timeout_s=limit_s, **options)))


async def natively(calls: Calls, tools: Sequence[Tool], *, limit_s: float = 5.0, **options: Any) -> Ended:
    made = tuple(NativeCall(name=tool, arguments=given, id=f"c{n}") for n, (tool, given) in enumerate(calls))
    model = ScriptedModel(Reply(text="", tool_calls=made), SAID, takes_tools=True)
    chain = await run_chain(model, ASK, tools, tool_timeout_s=limit_s, **options)
    assert [each.call_id for each in model.calls[1] if each.role == "tool"] == [each.id for each in made]
    return ended(results(chain))


async def by_plan(calls: Calls, tools: Sequence[Tool], *, limit_s: float = 5.0, **options: Any) -> Ended:
    ran = await run_plan(wanted(calls), tools, parallel=True, timeout_s=limit_s, **options)
    return [(each.tool, each.output if each.error is None else each.error.message) for each in ran.steps]


DOORS: dict[str, Door] = {"text": by_text, "native": natively, "plan": by_plan}
everywhere = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}}


class Desk:
    """Look-ups that return when `count` of them have begun, and whatever else counts who runs at one time."""

    def __init__(self, count: int = 3) -> None:
        self.met = asyncio.Barrier(count)
        self.running: set[str] = set()
        self.seen: list[tuple[str, ...]] = []

    async def find(self, title: str = "") -> str:
        await self.met.wait()
        return f"{title} is there"

    def counted(self, name: str, **more: Any) -> Tool:
        async def work() -> None:
            self.running.add(name)
            for _ in range(5):
                await asyncio.sleep(0)
            self.seen.append(tuple(sorted(self.running)))
            self.running.discard(name)

        return Tool(name=name, function=work, **more)

    @property
    def tools(self) -> list[Tool]:
        return [Tool(name="find_book", function=self.find, input_schema=TITLE)]


THREE: Calls = [("find_book", {"title": title}) for title in ("Dune", "Emma", "Ubik")]


@everywhere
async def test_three_look_ups_run_at_one_time_and_their_results_are_in_order(door: Door) -> None:
    found = [("find_book", f"{title} is there") for title in ("Dune", "Emma", "Ubik")]
    assert await door(THREE, Desk().tools) == found


KINDS: list[tuple[str, dict[str, Any]]] = [
    ("wipe", {"destructive": True}),
    ("find_and_wipe", {}),
    ("reserve", {}),
    ("save_note", {}),
    ("look_up", {"read_only": False}),
    ("shelf", {}),
]


@everywhere
@pytest.mark.parametrize(("name", "more"), KINDS, ids=[f"{name}-{len(more)}" for name, more in KINDS])
async def test_what_may_change_something_runs_alone_and_in_its_place(door: Door, name: str, more: Any) -> None:
    desk = Desk()
    names = ["get_a", "get_b", name, "get_c", "get_d"]
    tools = [desk.counted(each, **(more if each == name else {})) for each in names]
    await door([(each, {}) for each in names], tools, approval="never")
    assert desk.seen == [("get_a", "get_b"), ("get_b",), (name,), ("get_c", "get_d"), ("get_d",)]


@everywhere
async def test_what_is_declared_to_read_only_does_so_whatever_it_is_called(door: Door) -> None:
    desk = Desk(2)
    tools = [Tool(name=name, function=desk.find, read_only=True) for name in ("shelf", "reserve")]
    assert [said for _, said in await door([("shelf", {}), ("reserve", {})], tools)] == [" is there"] * 2


@everywhere
async def test_a_plain_function_runs_beside_others(door: Door) -> None:
    met = asyncio.Barrier(2)
    loop = asyncio.get_running_loop()

    def get_plain() -> str:
        asyncio.run_coroutine_threadsafe(met.wait(), loop).result(5)
        return "plain"

    async def get_async() -> str:
        await met.wait()
        return "async"

    tools = [tool_from_function(get_plain), tool_from_function(get_async)]
    assert [said for _, said in await door([("get_plain", {}), ("get_async", {})], tools)] == ["plain", "async"]


@everywhere
async def test_one_that_fails_loses_none_of_the_others(door: Door) -> None:
    desk = Desk()

    async def get_nothing() -> None:
        await desk.met.wait()
        raise LookupError("no such shelf")

    tools = [*desk.tools, tool_from_function(get_nothing)]
    calls: Calls = [THREE[0], ("get_nothing", {}), THREE[1], ("find_moon", {}), ("find_book", {"title": 5})]
    found = await door(calls, tools)
    assert (found[0][1], found[2][1]) == ("Dune is there", "Emma is there")
    assert "LookupError: no such shelf" in str(found[1][1])
    assert "no connected tool" in str(found[3][1])
    assert "not of type 'string'" in str(found[4][1])


@everywhere
async def test_one_that_hangs_is_left_at_its_own_limit(door: Door) -> None:
    async def get_never() -> None:
        await asyncio.Event().wait()

    tools = [*Desk(2).tools, tool_from_function(get_never)]
    found = await door([THREE[0], ("get_never", {}), THREE[1]], tools, limit_s=0.2)
    assert [str(said)[:14] for _, said in found] == ["Dune is there", "get_never was ", "Emma is there"]


@everywhere
async def test_a_cancellation_takes_all_of_them(door: Door) -> None:
    began, left = asyncio.Barrier(4), list[str]()

    async def get_page(title: str) -> None:
        try:
            await began.wait()
            await asyncio.Event().wait()
        finally:
            left.append(title)

    calls: Calls = [("get_page", {"title": title}) for title in "abc"]
    running = asyncio.ensure_future(door(calls, [tool_from_function(get_page)]))
    async with asyncio.timeout(5):
        await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(left) == ["a", "b", "c"]


@everywhere
async def test_one_that_uses_the_output_of_another_waits_for_that_one_alone(door: Door) -> None:
    desk = Desk(2)

    async def get_shelf(of: str) -> str:
        return f"shelf of {of}"

    calls: Calls = [THREE[0], ("get_shelf", {"of": {"$ref": "c0"}}), THREE[1]]
    found = await door(calls, [*desk.tools, tool_from_function(get_shelf)])
    assert [said for _, said in found] == ["Dune is there", "shelf of Dune is there", "Emma is there"]


@everywhere
@pytest.mark.parametrize(("at_once", "most"), [(1, 1), (3, 3), (20, 10)])
async def test_no_more_run_at_one_time_than_are_allowed(door: Door, at_once: int, most: int) -> None:
    now = highest = 0

    async def get_page(number: int) -> int:
        nonlocal now, highest
        now += 1
        highest = max(highest, now)
        while highest < most:
            await asyncio.sleep(0)
        now -= 1
        return number

    calls: Calls = [("get_page", {"number": number}) for number in range(10)]
    found = await door(calls, [tool_from_function(get_page)], at_once=at_once)
    assert [said for _, said in found] == list(range(10))
    assert highest == most


@everywhere
async def test_each_call_is_asked_about_in_order_and_one_at_a_time(door: Door) -> None:
    asked: list[str] = []
    asking = 0

    async def approve(call: ToolCall) -> Allow | Deny:
        nonlocal asking
        asking += 1
        assert asking == 1
        asked.append(str(call.arguments["title"]))
        for _ in range(20):
            await asyncio.sleep(0)
        asking -= 1
        return Deny("not that one") if call.arguments["title"] == "Emma" else Allow()

    found = await door(THREE, Desk(2).tools, approve=approve)
    assert asked == ["Dune", "Emma", "Ubik"]
    assert [str(said).rpartition(": ")[2] for _, said in found] == ["Dune is there", "not that one", "Ubik is there"]


@everywhere
async def test_a_time_limit_of_the_whole_is_one_for_all_of_them(door: Door) -> None:
    with time_budget(0.2):
        try:
            found = await door(THREE, Desk(4).tools)
        except ChainError as error:  # no time is left for the model either
            found = ended(results(error.chain))
    assert ["did not end within 0.2 s" in str(said) for _, said in found] == [True] * 3


@everywhere
async def test_spans_stand_below_whoever_asked(door: Door) -> None:
    with Trace() as trace:
        await door(THREE, Desk().tools)
    above = next(each for each in trace if each.kind == "node")
    assert [(each.name, each.parent is above) for each in trace if each.kind == "tool"] == [("find_book", True)] * 3


# --- in a chain alone ----------------------------------------------------------------


async def test_hooks_and_events_come_one_at_a_time_and_begin_in_the_order_of_the_calls() -> None:
    busy: set[str] = set()
    told: list[str] = []

    async def alone(kind: str, said: str) -> None:
        assert kind not in busy
        busy.add(kind)
        for _ in range(3):
            await asyncio.sleep(0)
        busy.discard(kind)
        told.append(said)

    async def before(request: ToolRequest) -> None:
        await alone("before", f"? {request.arguments['title']}")

    async def after(request: ToolRequest, result: ToolResult) -> str:
        await alone("after", f"= {request.arguments['title']}")
        return f"{result.output}!"

    async def listen(event: Event) -> None:
        if isinstance(event, ToolCalled):
            await alone("event", f"> {event.call.arguments['title']}")
        elif isinstance(event, ToolReturned):
            await alone("event", f"< {event.result.id}")

    found = await by_text(THREE, Desk().tools, before_call=before, after_call=after, on_event=listen)
    assert [said for _, said in found] == ["Dune is there!", "Emma is there!", "Ubik is there!"]
    assert [each for each in told if each[0] == "?"] == ["? Dune", "? Emma", "? Ubik"]
    assert [each for each in told if each[0] == ">"] == ["> Dune", "> Emma", "> Ubik"]
    assert sorted(each for each in told if each[0] in "=<") == ["< c0", "< c1", "< c2", "= Dune", "= Emma", "= Ubik"]


async def test_one_that_has_to_be_approved_waits_and_the_others_are_kept() -> None:
    desk = Desk(2)

    def approve(call: ToolCall) -> Allow | Ask:
        return Ask() if call.arguments["title"] == "Emma" else Allow()

    model = ScriptedModel(json.dumps(wanted(THREE)), SAID)
    asked = await run_chain(model, ASK, desk.tools, approve=approve, until_asked=True, tool_timeout_s=5)
    assert (asked.status, [each.arguments["title"] for each in asked.asked]) == ("asked", ["Emma"])
    assert [each.ok for each in results(asked)] == [True, False, True]
    desk.met = asyncio.Barrier(1)
    done = await run_chain(
        model, ASK, desk.tools, approve=approve, until_asked=True, after=asked, answer=Allow(), tool_timeout_s=5
    )
    assert sorted(str(each.output) for each in results(done)) == ["Dune is there", "Emma is there", "Ubik is there"]
