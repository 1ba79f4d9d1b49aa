"""What comes from outside is read in so many steps and no more, and what is remembered of it takes so much room.

Steps are counted, not timed: what a reader calls, whatever the machine.
"""

import asyncio
import gc
import os
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from benchmarks.hostile import documents
from jazz_select import Flow, FlowRegistry, FlowSelector, ProceduralMemory, SequentialFlow, sync_registry
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.conversation import LONGEST_REQUEST, LONGEST_STORED
from jazz_select.agent.graph.guards import Guard
from jazz_select.agent.graph.snapshot import Snapshot
from jazz_select.chat.json_reader import (
    LONGEST,
    MOST_FAILURES,
    MOST_MARKS,
    MOST_VALUES,
    find_embedded,
    parse_whole,
    values_in,
)
from jazz_select.errors import FlowLoadError, FlowValidationError, SnapshotError, ToolError
from jazz_select.flow.base import DEEPEST, MOST_PARTS
from jazz_select.flow.flow_loading import load_flows
from jazz_select.json_values import MOST_LETTERS
from jazz_select.json_values import MOST_VALUES as MOST_RETURNED
from jazz_select.memory.fit.model import RecallModel
from jazz_select.memory.procedural import Agents
from jazz_select.memory.requests import clauses
from jazz_select.routing import CHOOSE, FlowExecutor, Tool
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.routing.tools.sources import tools_from_mcp, tools_from_openai
from jazz_select.routing.tools.tool_loading import LARGEST as LARGEST_LISTING
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.selector.policy import Policy
from jazz_select.testing import HashEmbedder, ListMemory
from jazz_select.text import nfkc
from jazz_select.threads import MOST_HUNG
from jazz_select.values import Message
from tests.agents import make_agent
from tests.clock import until

pytestmark = pytest.mark.spec("005.18")
MIB = 1 << 20


@contextmanager
def steps() -> Generator[Counter[str]]:
    """How often each function is called in the block, those in C among them."""
    called: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            called[frame.f_code.co_name] += 1
        elif event == "c_call":
            called[getattr(argument, "__name__", "")] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield called
    finally:
        sys.setprofile(before)


def grown(work: Callable[[], object]) -> int:
    """Bytes that are there after it, and were not before."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


# --- replies -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "most"),
    [
        pytest.param("[" * 63 + "1," * 30_000, 5, id="lists around one without an end"),
        pytest.param('["a ' * 30_000 + "b", MOST_FAILURES, id="texts that open nothing"),
        pytest.param("[" * 30_000, 5, id="brackets"),
        pytest.param("[a " * 30_000, MOST_FAILURES, id="brackets that open nothing"),
        pytest.param("[] " * 30_000, MOST_VALUES, id="empty lists"),
    ],
)
def test_a_search_for_json_ends(text: str, most: int) -> None:
    with steps() as called:
        find_embedded(text)
    assert 0 < called["raw_decode"] <= most


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" + "1," * 500_000 + "1]", id="values"),
        pytest.param('{"a": "' + "b" * LONGEST + '"}', id="letters"),
        pytest.param("[" + "1," * MOST_MARKS + "1]", id="marks"),
        pytest.param("<think>" * (MOST_MARKS + 1), id="tags"),
    ],
)
def test_a_reply_that_is_too_large_is_read_by_nobody(text: str) -> None:
    with steps() as called:
        assert parse_whole(text) is parse_whole("no JSON")
        assert values_in(text) == []
        said = read_tool_reply(text)
    assert (said.kind, said.calls) == ("unreadable", ())
    assert "longer than" in said.note or "more than" in said.note
    assert called["raw_decode"] <= 1


def test_a_call_with_a_thousand_fields_is_read_by_the_first_of_them() -> None:
    fields = ", ".join(f'"k{number}": 1' for number in range(5_000))
    with steps() as called:
        said = read_tool_reply(f'{{"tool_call": {{"tool": "find", "arguments": {{}}, {fields}}}}}')
    assert [call.tool for call in said.calls] == ["find"]
    assert called["folded_key"] < 4_000


# --- requests ------------------------------------------------------------------


@pytest.mark.parametrize("blank", [" ", "\t", "\n", "\u00a0", " ,"], ids=repr)
def test_blanks_between_words_are_as_good_as_one(blank: str) -> None:
    few, many = (f"refund my order{blank * count} and then cancel my account now" for count in (1, 7_900))
    assert [part.replace(" ,", "").replace(",", "") for part in clauses(many)] == list(clauses(few.replace(",", "")))


def test_marks_come_into_order_and_the_thirty_first_is_left_out() -> None:
    ordered = nfkc("a" + "\u0315\u0300" * 500_000)
    assert len(ordered) == 30
    assert nfkc("e\u0301" * 1_000 + "é") == "é" * 1_001
    assert nfkc("a" + "\u0315\u0300" * 40) == "à" + "\u0300" * 39 + "\u0315" * 40, "a name is read whole"


async def test_an_agent_hears_so_much_and_shows_the_cut() -> None:
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="refund", description="d", condition="c", registry=registry)
    memory = ListMemory([{"flow_id": flow.id, "flow_name": flow.name}])
    result = await Agent(FlowSelector(None, registry, memory, "shop")).turn("word " * 1_000_000)
    assert result.status in {"open", "done"}
    assert len(memory.calls[0].query) <= LONGEST_REQUEST + 100
    assert "characters cut" in memory.calls[0].query


async def test_a_history_is_read_no_further_than_it_is_kept() -> None:
    history = [Message(role="user", content="word " * 4_000) for _ in range(5_000)]
    with steps() as called:
        conversation = Conversation.from_history(history)
    assert (len(conversation.messages), conversation.turns) == (40, 5_000)
    assert called["bounded"] < 50
    assert all("characters cut" in each.content for each in conversation.messages)


async def test_summaries_are_read_as_far_as_recall_reads() -> None:
    registry = FlowRegistry(min_examples=0)
    memory = ListMemory([])
    selector = FlowSelector(None, registry, memory, "shop")
    with steps() as called:
        await selector.select("that one", episode_summaries=["word " * 50_000] * 100_000)
    assert called["_blank"] < 1_100
    assert len(memory.calls[0].query) < 20_000


@pytest.mark.parametrize("field", ["trace", "state"])
def test_a_snapshot_that_is_none_is_told_in_a_line(field: str) -> None:
    text = f'{{"version": 1, "node": "a", "state": {{}}, "{field}": [{"1," * 50_000}1]}}'
    with pytest.raises(SnapshotError) as raised:
        Snapshot.from_json(text)
    assert len(str(raised.value)) < 500
    assert len(str(raised.value.__cause__)) < 1_000


# --- files and flows -----------------------------------------------------------


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in documents()])
def test_a_file_that_means_more_than_it_says_is_refused_or_read_in_a_moment(tmp_path: Path, text: str) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises((FlowLoadError, FlowValidationError)) as raised:
        load_flows(file, FlowRegistry())
    assert len(str(raised.value)) < 1_000


@pytest.mark.parametrize("suffix", ["yaml", "json", "py"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, suffix: str) -> None:
    if not hasattr(os, "mkfifo"):
        pytest.skip("there are no pipes in folders here")
    os.mkfifo(tmp_path / f"flows.{suffix}")
    with pytest.raises(FlowLoadError, match="no plain file"):
        load_flows(tmp_path, FlowRegistry())
    if suffix == "py":
        with pytest.raises(ToolError, match="no plain file"):
            load_tools(tmp_path)


def test_a_file_has_a_largest_size_and_a_folder_that_lies_in_itself_is_read_once(tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text("name: n\n" + "#" * 5 * MIB)
    with pytest.raises(FlowLoadError, match="larger than"):
        load_flows(tmp_path, FlowRegistry())
    listing = tmp_path / "tools.json"
    with listing.open("wb") as file:
        file.truncate(LARGEST_LISTING + 1)
    with pytest.raises(ToolError, match="larger than"):
        load_tools(listing)
    listing.unlink()
    (tmp_path / "flows.yaml").write_text("name: n\n")
    (tmp_path / "again").symlink_to(tmp_path)
    assert len(load_flows(tmp_path, FlowRegistry(min_examples=0))) == 1


class _Counting(SequentialFlow):
    """Counts how often its parts are looked through."""

    looked = 0

    def links(self) -> Any:
        type(self).looked += 1
        return super().links()


@pytest.mark.parametrize(
    ("parts", "depth", "fits"),
    [
        pytest.param(1, DEEPEST, True, id="deep"),
        pytest.param(1, DEEPEST + 1, False, id="too deep"),
        pytest.param(1, 400, False, id="far too deep"),
        pytest.param(2, 7, True, id="doubled"),
        pytest.param(2, 22, False, id="doubled far too often"),
    ],
)
def test_parts_of_parts_are_counted_wherever_they_stand(parts: int, depth: int, fits: bool) -> None:
    registry = FlowRegistry(min_examples=0)
    flow: Any = Flow(name="leaf", registry=registry)
    for level in range(depth):
        flow = _Counting(name=f"level {level}", description="d", flows=[flow] * parts, registry=registry)
    _Counting.looked = 0
    for read in (flow.definition, flow.compute_checksum, flow.build_prompt, flow.card):
        if fits:
            read()
        else:
            with pytest.raises(FlowValidationError, match=r"levels|of them"):
                read()
    assert flow.has_guard is not fits
    assert _Counting.looked <= 6 * 2 * MOST_PARTS * (DEEPEST if fits else 1)


# --- tools ---------------------------------------------------------------------


def _tool(function: Callable[..., object], **options: Any) -> Tool:
    takes = {"type": "object", "properties": {"query": {"type": "string"}}}
    return Tool(name="find", input_schema=takes, function=function, **options)


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        pytest.param(["a"] * MOST_RETURNED, "values", id="values"),
        pytest.param({"a": {"b": ["c" * MOST_LETTERS]}}, "characters", id="letters"),
    ],
)
async def test_a_tool_returns_so_much_and_no_more(returned: object, told: str) -> None:
    def give(**_: object) -> object:
        return returned

    result = await FlowExecutor([_tool(give)]).run(["find"], {})
    record = result.records[-1]
    assert (result.status, record.fault, record.output) == ("failed", "output", None)
    assert "it ran, but returned more than" in record.error
    assert told in record.error


@pytest.mark.spec("005.10")
@pytest.mark.parametrize("read", [tools_from_mcp, tools_from_openai], ids=lambda read: read.__name__)
@pytest.mark.parametrize("wrapped", [False, True], ids=["a list", "an answer"])
def test_a_listing_holds_as_many_tools_as_that_of_a_session(read: Any, wrapped: bool) -> None:
    entries = [{"name": f"tool_{number}"} for number in range(10_001)]
    with pytest.raises(ToolError, match="more than 10000 tools"):
        read({"tools": entries} if wrapped else entries)
    assert len(read(entries[:10_000])) == 10_000


async def test_what_hangs_may_hang_so_often_and_is_called_again_when_it_came_back() -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def hang(**_: object) -> dict[str, int]:
        begun.append(1)
        go_on.wait()
        return {"found": 1}

    before = threading.active_count()
    executor = FlowExecutor([_tool(hang)], step_timeout_s=0.01)
    try:
        results = [await executor.run(["find"], {}) for _ in range(MOST_HUNG + 20)]
        assert threading.active_count() - before <= MOST_HUNG
        assert len(begun) == MOST_HUNG
        assert [result.records[-1].unknown for result in results] == [True] * MOST_HUNG + [False] * 20
        assert "earlier calls of it hang" in results[-1].records[-1].error
    finally:
        go_on.set()
    await until(lambda: all(thread.name != "jazz-select-tool" for thread in threading.enumerate()))
    assert (await FlowExecutor([_tool(hang)]).run(["find"], {})).status == "ok"


async def test_only_so_many_calls_of_a_plain_tool_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazz_select.routing.tool_call.MOST_RUNNING", 4)
    go_on = threading.Event()

    def slow(**_: object) -> dict[str, int]:
        go_on.wait()
        return {}

    executor = FlowExecutor([_tool(slow)])
    running = asyncio.gather(*(executor.run(["find"], {}) for _ in range(20)))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, go_on.set)
    statuses = Counter(result.status for result in await running)
    assert statuses == {"ok": 4, "failed": 16}
    assert (await executor.run(["find"], {})).status == "ok"


def _hooked(hook: str, hang: Callable[..., Any]) -> Callable[[], Awaitable[object]]:
    """Something that calls the hook each time, and has .01 seconds."""
    registry = FlowRegistry(min_examples=0)
    flow = Flow(name="find_it", description="Find it", examples=["find it"], tools=["find"], registry=registry)
    vars(flow)["chain"] = ("find",)
    if hook in ("available", "build_prompt"):
        vars(flow)[hook] = hang
    tool = _tool(hang if hook == "function" else dict[str, Any], confirm=hang if hook == "confirm" else None)
    asked = replace(tool, destructive=hook == "confirm")
    options: dict[str, Any] = {hook: hang} if hook == "approve" else {}
    if hook == "guards":
        options[hook] = [Guard("looks", hang, tags=("out",))]
    selector = FlowSelector(
        None, registry, ListMemory([{"flow_id": flow.id, "flow_name": flow.name}]), "a", policy=Policy(on_empty="top1")
    )
    agent = make_agent(selector, [asked], timeout_s=0.01, **options)
    return lambda: agent.turn("find it", context={"query": "x"})


@pytest.mark.spec("013.4")
@pytest.mark.parametrize("hook", ["function", "approve", "confirm", "guards", "available", "build_prompt"])
async def test_a_hook_that_hangs_may_hang_as_often_as_a_tool(hook: str) -> None:
    go_on = threading.Event()
    begun: list[int] = []

    def hang(*_: object, **__: object) -> Any:
        begun.append(1)
        go_on.wait()

    turn = _hooked(hook, hang)
    before = threading.active_count()
    try:
        for _ in range(MOST_HUNG + 5):
            await turn()
        assert len(begun) == MOST_HUNG
        assert threading.active_count() - before <= MOST_HUNG
    finally:
        go_on.set()


# --- what is kept --------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["{" * 1_000, "[" * 1_001, "x" * (LONGEST_STORED + 1), '{"messages":[' + "1," * 100_000 + "1]}"], ids=len
)
def test_what_is_no_conversation_is_told_in_a_line(text: str) -> None:
    with pytest.raises(SnapshotError) as raised:
        Conversation.from_json(text)
    assert len(str(raised.value)) < 500


async def test_no_run_leaves_its_input_behind() -> None:
    def find(query: str) -> dict[str, str]:
        return {"found": query}

    executor = FlowExecutor([_tool(find), Tool(name="idle")])

    async def runs(count: int) -> None:
        for number in range(count):
            await executor.run([CHOOSE], {"query": f"{number} " + "lost parcel " * 500})

    await runs(100)
    gc.collect()
    tracemalloc.start()
    try:
        await runs(500)  # 3 MB of text, were it kept
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MIB / 4
    finally:
        tracemalloc.stop()


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[tuple[ProceduralMemory, FlowRegistry]]:
    """A small catalogue, indexed."""
    registry = FlowRegistry(min_examples=0)
    for name in ("refund_order", "cancel_order", "track_parcel"):
        Flow(name=name, description=name.replace("_", " "), condition="c", registry=registry)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(32)) as memory:
        await sync_registry(memory, agent_id="shop", registry=registry)
        yield memory, registry


async def test_no_request_stays_where_it_was_read(shop: tuple[ProceduralMemory, FlowRegistry]) -> None:
    memory, registry = shop
    selector = FlowSelector(None, registry, memory, "shop")

    async def asked(begin: int, count: int) -> None:
        for number in range(begin, begin + count):
            words = " ".join(f"{'w' * 60}{number}x{place}" for place in range(50))
            await selector.select(f"refund {words}")

    await asked(0, 20)
    gc.collect()
    tracemalloc.start()
    try:
        await asked(20, 100)  # 5,000 words of more than 60 letters
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < MIB / 4
    finally:
        tracemalloc.stop()


class _Notes:
    """A store of which only the notes are read: each agent has a large one."""

    shared = False

    def __init__(self) -> None:
        matrix = np.eye(512, dtype=np.float32)
        self.note = RecallModel(transform=matrix).as_note()
        self.read: Counter[str] = Counter()

    async def read_note(self, agent_id: str) -> dict[str, Any]:
        self.read[agent_id] += 1
        return self.note

    async def count(self, agent_id: str) -> int:
        return 0

    async def elsewhere(self, agent_id: str) -> list[dict[str, Any]]:
        return []


async def test_the_agents_asked_for_longest_ago_are_let_go() -> None:
    store = _Notes()
    agents = Agents(store, 512)  # pyright: ignore[reportArgumentType] - as much of a store as it asks
    for number in range(80):  # a MiB each
        await agents.state(f"agent {number}")
        await agents.state("agent 0")
    assert len(agents) <= 64
    assert (store.read["agent 0"], store.read["agent 1"]) == (1, 1), "what is asked for again stays"
    await agents.state("agent 1")
    assert store.read["agent 1"] == 2


async def test_a_lock_is_kept_while_somebody_holds_it() -> None:
    agents = Agents(_Notes(), 512)  # pyright: ignore[reportArgumentType]
    async with agents.writing("shop"):
        assert agents.writing("shop").locked()
    size = grown(lambda: [agents.writing(f"agent {number}") for number in range(5_000)] and None)
    assert size < MIB / 4
