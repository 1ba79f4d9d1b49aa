"""What takes longer than an event loop may wait is done beside it, and comes to the same as if it were not.

Where something is done is seen by the thread that does it, never by a clock.
"""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory
from jazz_select.agent import finalize
from jazz_select.agent.chain.finalizer import as_chain
from jazz_select.agent.chain.formatting import formatting_messages
from jazz_select.agent.reading.grounding import Wanted, ground, numbers
from jazz_select.routing import CHOOSE, ChainAnalyzer, FlowExecutor, Tool
from jazz_select.testing import HashEmbedder, ScriptedModel
from jazz_select.text import in_one_line
from jazz_select.threads import beside, in_daemon_thread
from tests.unit.memory.cards import card
from tests.unit.test_bounds import steps

pytestmark = [pytest.mark.spec("005.18"), pytest.mark.spec("005.6")]
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
MAIN = "MainThread"


class Watched(dict[str, Any]):
    """Properties that note which thread goes through them."""

    def __init__(self, count: int) -> None:
        super().__init__({f"f{number}": {"type": "string"} for number in range(count)})
        self.threads: set[str] = set()

    def items(self) -> Any:
        self.threads.add(threading.current_thread().name)
        return super().items()

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": self, "required": ["f0"]}


@pytest.mark.parametrize(
    ("fields", "more", "beside"),
    [
        pytest.param(20, 0, False, id="small"),
        pytest.param(12_000, 0, True, id="a large schema"),
        pytest.param(20, 600, True, id="many tools"),
    ],
)
async def test_an_executor_reads_what_is_large_in_a_thread(fields: int, more: int, beside: bool) -> None:
    given, wanted = Watched(fields), Watched(fields)

    def give(**_: object) -> dict[str, str]:
        return {"f0": "here"}

    tools = [
        Tool(name="gives", output_schema=given.schema, function=give),
        Tool(name="takes", input_schema=wanted.schema, function=give),
        *(Tool(name=f"other_{number}", input_schema={"type": "integer"}) for number in range(more)),
    ]
    executor = FlowExecutor(tools)
    assert given.threads == wanted.threads == set()
    result = await executor.run(["gives", CHOOSE])
    assert (result.status, [each.tool for each in result.records]) == ("ok", ["gives", "takes"])
    scores = [each.compatibility_score for each in result.records[-1].candidates]
    assert scores == [each.compatibility_score for each in ChainAnalyzer(tools[:2]).successors("gives")] == [1.0]
    given.threads.clear()
    wanted.threads.clear()
    assert (await executor.run(["gives", CHOOSE])).status == "ok"
    assert (MAIN not in wanted.threads) is beside
    assert wanted.threads


def test_ten_thousand_tools_are_not_compared_before_somebody_has_to_choose() -> None:
    tools = [Tool(name=f"tool_{number}", input_schema=SCHEMA) for number in range(10_000)]
    with steps() as called:
        FlowExecutor(tools)
    assert called["shape"] == 0
    assert sum(called.values()) < 50 * len(tools)


WATCH = """
import asyncio, sys, threading
class Finder:
    def find_spec(self, name, *_):
        if name.startswith("jsonschema"):
            print(name)
from jazz_select import *
from jazz_select.agent import *
from jazz_select.routing import *
from jazz_select.testing import *
SCHEMA = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
def find(**_): return {}
sys.meta_path.insert(0, Finder())
tool = Tool(name="find", input_schema=SCHEMA, function=find)
model = ScriptedModel('{"answer": "yes"}', repeat=True)
selector = FlowSelector(model, FlowRegistry(), ListMemory([]))
"""
FIRST = {
    "a wrong call": 'r = await FlowExecutor([tool]).run(["find"], {"answer": 1}); assert r.status == "failed"',
    "a right call": 'r = await FlowExecutor([tool]).run(["find"], {"answer": "x"}); assert r.status == "ok"',
    "an answer": 'r = await respond(model, "x", schema=SCHEMA); assert r.value == {"answer": "yes"}',
    "an answer after calls": 'r = await respond(model, "x", [tool], schema=SCHEMA); assert r.value',
    "a chain put into a schema": 'r = await finalize(model, "x", SCHEMA); assert r.value',
    "a turn": 'r = await Agent(selector, model=model).turn("x", schema=SCHEMA); assert r.status',
}


@pytest.mark.programs
@pytest.mark.parametrize("door", FIRST.values(), ids=FIRST)
def test_what_holds_values_against_a_schema_is_loaded_before_there_is_a_loop(door: str) -> None:
    program = f"{WATCH}\nasync def main():\n    {door}\nasyncio.run(main())\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.parametrize("char", ["\n", "\u202e", "\x00", "\ud800", "a", '"', "\u00e9"], ids=ascii)
@pytest.mark.parametrize("length", [1, 99_999, 100_000, 100_001, 250_000])
def test_a_long_text_is_escaped_as_a_short_one(char: str, length: int) -> None:
    assert in_one_line(f"{char}b" * length) == in_one_line(f"{char}b") * length


@pytest.mark.parametrize(
    ("length", "beside"), [pytest.param(1_000, False, id="short"), pytest.param(300_000, True, id="long")]
)
@pytest.mark.parametrize("char", ["\n", "\u202e", "a", "\u00e9"], ids=ascii)
async def test_a_long_transcript_is_written_in_a_thread(char: str, length: int, beside: bool) -> None:
    model = ScriptedModel('{"answer": "yes"}', repeat=True)
    with steps() as called:  # in this thread
        usual = await finalize(model, f"x{char * length}", SCHEMA)
    assert (called["formatting_messages"] == 0) is beside
    assert usual.value == {"answer": "yes"}
    assert usual.context == formatting_messages(as_chain(f"x{char * length}"), SCHEMA)


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        pytest.param("1 " * 16_000, 1, True, id="one number"),
        pytest.param("1,500 " * 5_000, 1_500, True, id="thousands"),
        pytest.param("3-5 " * 8_000, 5, True, id="ranges"),
        pytest.param("1 " * 16_000, 2, False, id="another"),
    ],
)
def test_a_number_that_is_said_over_and_over_is_read_once(text: str, value: int, found: bool) -> None:
    with steps() as called:
        read = set(numbers(text))
    assert called["decimals"] + called["_plain"] < 10
    assert (value in read) is found
    part = {"type": "integer"}
    wanted = {"count": Wanted(part, {"type": "object", "properties": {"count": part}})}
    assert ground({"count": value}, {}, wanted, [text]).values == ({"count": value} if found else {})


@pytest.mark.parametrize("count", [100, 101, 400])
async def test_candidates_are_all_shown_however_many_are_handed_in(count: int) -> None:
    registry = FlowRegistry(min_examples=0)
    flows = [Flow(name=f"flow {each}", description="d", condition="c", registry=registry) for each in range(count)]
    given = [{"flow_id": flow.id, "flow_name": flow.name, "condition": "c"} for flow in flows]
    model = ScriptedModel(json.dumps([flows[-1].id]))
    result = await FlowSelector(model, registry).select("x", given)
    assert result.names == [f"flow {count - 1}"]
    assert model.calls[0][-1].content.count("<flow ") == count


async def test_a_guard_that_hangs_holds_up_no_other_request() -> None:
    over, hanging = threading.Event(), threading.Event()
    registry = FlowRegistry(min_examples=0)

    class Guarded(Flow):
        def available(self, context: Mapping[str, Any]) -> bool:
            if "hangs" in context:
                hanging.set()
                over.wait()
            return context["number"] % 2 == 0

    flow = Guarded(name="refund", description="Give it back", examples=["give it back"], registry=registry)
    offered = [{"flow_id": flow.id, "flow_name": flow.name}]
    selector = FlowSelector(None, registry)

    async def names(number: int, **more: bool) -> list[str]:
        return (await selector.select("give it back", offered, context={"number": number, **more})).names

    held = asyncio.create_task(names(0, hangs=True))
    try:
        many = asyncio.gather(*(names(number) for number in range(200)))
        assert await many == [["refund"] if number % 2 == 0 else [] for number in range(200)]
        assert await asyncio.to_thread(hanging.wait, 20)
        assert not held.done()
        assert await names(2) == ["refund"]
    finally:
        over.set()
    assert await held == ["refund"]


class NotingEmbedder(HashEmbedder):
    """Notes which thread a request is read in."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[str] = []

    def embed_query(self, text: str) -> Any:
        self.threads.append(threading.current_thread().name)
        return super().embed_query(text)


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        pytest.param("give it back", False, id="Latin"),
        pytest.param("退货退款", True, id="Han"),
        pytest.param("注文をキャンセル", True, id="kana"),
        pytest.param("주문을 취소", False, id="Hangul"),
    ],
)
async def test_a_text_that_needs_a_dictionary_is_read_beside_the_loop(text: str, beside: bool) -> None:
    embedder = NotingEmbedder()
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await memory.memorize(card("refund", "give it back"), "shop")
        await memory.recall(text, "shop")
        assert (MAIN not in embedder.threads) is beside


async def test_a_thread_that_has_come_back_is_given_more_and_one_that_hangs_is_not() -> None:
    go_on = threading.Event()
    hanging = asyncio.create_task(in_daemon_thread(go_on.wait, name="hangs"))
    done = [await in_daemon_thread(threading.current_thread, name="works") for _ in range(50)]
    assert len(set(done)) < len(done)
    assert not hanging.done()
    go_on.set()
    assert await asyncio.wait_for(hanging, 5)


async def test_a_thread_has_the_name_of_what_it_does() -> None:
    def name() -> str:
        return threading.current_thread().name

    asked = [f"call-{number}" for number in range(20)]
    assert [await in_daemon_thread(name, name=each) for each in asked] == asked


async def test_what_fails_beside_a_block_is_logged_by_its_name_and_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[str] = []

    async def fails() -> None:
        raise OSError("gone")

    async def goes_on() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async with beside(fails(), goes_on()):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert ended == []
    assert ended == ["cancelled"]
    (record,) = caplog.records
    assert "fails>" in record.getMessage()
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "gone"
