"""A turn while it happens, and a turn without async: the same turn, whoever looks at it."""

import asyncio
import gc
import threading
from collections.abc import Sequence
from contextlib import aclosing
from inspect import iscoroutinefunction, signature
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Agent, TurnResult, respond
from jazz_select.agent.chain.transcript import (
    ChainText,
    Event,
    Finished,
    FlowChosen,
    FormatStarted,
    OutputText,
    ToolCalled,
    ToolReturned,
)
from jazz_select.errors import ConfigError
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, Reply
from tests.unit.agent.support import SAID, StreamingModel, call
from tests.unit.agent.turns import agent_of, obj, shop_of


def find(order: str) -> dict[str, str]:
    """Find an order."""
    return {"found": order}


def fails(found: str) -> None:
    """Fail."""
    msg = "no such thing"
    raise LookupError(msg)


def an_agent(*chain: str, model: Any = None, **options: Any) -> Agent:
    return agent_of(shop_of(("do_it", chain)), [find, fails], "do_it", model=model, **options)


def shown(event: Event) -> str:
    """An event in short."""
    if isinstance(event, FlowChosen):
        return f"flow {event.flow}"
    if isinstance(event, ToolCalled):
        return f"call {event.call.tool} {dict(event.call.arguments)}"
    if isinstance(event, ToolReturned):
        return f"returned {event.result.tool} {event.result.output if event.result.ok else event.result.fault}"
    if isinstance(event, OutputText):
        return f"output {event.delta}"
    return f"text {event.text}" if isinstance(event, ChainText) else type(event).__name__


async def heard(agent: Agent, message: str = "do it", **options: Any) -> list[Event]:
    async with aclosing(agent.stream(message, **options)) as events:
        return [event async for event in events]


KNOWN = {"order": "A1"}
FIND = call("find", order="A1")
CALLED = "call find {'order': 'A1'}"
RETURNED = "returned find {'found': 'A1'}"
STREAMED: list[Any] = [
    pytest.param(("find",), None, {}, ["flow do_it", CALLED, RETURNED], id="a chain"),
    pytest.param(
        ("find", "fails"),
        None,
        {},
        ["flow do_it", CALLED, RETURNED, "call fails {'found': 'A1'}", "returned fails tool"],
        id="a tool that fails",
    ),
    pytest.param(
        (),
        ScriptedModel(FIND, SAID),
        {},
        ["flow do_it", "ModelCalled", CALLED, RETURNED, "ModelCalled", f"text {SAID}"],
        id="a model goes on",
    ),
    pytest.param(
        ("find",),
        StreamingModel('{"n": 12}'),
        {"schema": obj(n="integer")},
        ["flow do_it", CALLED, RETURNED, "FormatStarted", "ModelCalled", 'output {"n', 'output ": ', "output 12}"],
        id="a schema, from a model that streams",
    ),
]


@pytest.mark.parametrize(("chain", "model", "options", "expected"), STREAMED)
async def test_a_turn_tells_what_happens_and_its_result_last(
    chain: tuple[str, ...], model: Any, options: dict[str, Any], expected: list[str]
) -> None:
    *events, last = await heard(an_agent(*chain, model=model), context=KNOWN, **options)
    assert list(map(shown, events)) == expected
    assert isinstance(last, Finished)
    assert isinstance(last.answer, TurnResult)
    assert [event.call.id for event in events if isinstance(event, ToolCalled)] == [
        event.result.id for event in events if isinstance(event, ToolReturned)
    ]


@pytest.mark.parametrize(
    ("texts", "text"), [(None, "One moment: Find."), ({"at_work": "{tool} …"}, "Find …")], ids=["ours", "their own"]
)
@pytest.mark.spec("011.9")
async def test_a_call_is_told_in_words_before_it_is_made(texts: Any, text: str) -> None:
    events = await heard(an_agent("find", texts=texts), context=KNOWN)
    assert [event.text for event in events if isinstance(event, ToolCalled)] == [text]


async def test_what_a_model_says_without_flow_and_tools_comes_as_it_writes() -> None:
    agent = Agent(FlowSelector(None, shop_of(("do_it", ()))), [], StreamingModel("Hello!"))
    assert [shown(event) for event in await heard(agent, "hello")][1:-1] == ["output Hel", "output lo!"]


async def test_a_turn_that_no_flow_is_for_has_its_result_alone() -> None:
    (last,) = await heard(an_agent("find"), "thanks")
    assert isinstance(last, Finished)
    assert last.answer.status == "open"


async def test_a_turn_within_a_tool_of_a_turn_is_not_told_as_part_of_it() -> None:
    inner = an_agent("find")

    async def ask(order: str) -> str:
        """Ask another agent."""
        answer = await respond(ScriptedModel("Fine."), "hello")
        return (await inner.turn("do it", context={"order": order})).status + answer.text

    outer = agent_of(shop_of(("ask_it", ("ask",))), [ask], "ask_it")
    told = [shown(event) for event in await heard(outer, "ask it", context=KNOWN)]
    assert told[:-1] == ["flow ask_it", "call ask {'order': 'A1'}", "returned ask doneFine."]


async def test_whoever_leaves_early_ends_the_turn() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    agent = agent_of(shop_of(("do_it", ("hangs",))), [hangs], "do_it")
    async with aclosing(agent.stream("do it")) as events:
        async for event in events:
            if isinstance(event, ToolCalled):
                await began.wait()
                break
    assert ended.is_set()


@pytest.mark.parametrize("wrong", [{"context": 3}, {"history": "x"}, {"schema": 3}], ids=str)
async def test_what_cannot_work_is_refused_as_in_a_turn(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        await heard(an_agent("find"), **wrong)


async def test_a_listener_hears_the_same() -> None:
    own: list[Event] = []
    events = await heard(an_agent("find"), context=KNOWN, on_event=own.append)
    assert own == events
    own.clear()
    await an_agent("find").turn("do it", context=KNOWN, on_event=own.append)
    assert list(map(shown, own)) == list(map(shown, events))
    assert not any(isinstance(event, FormatStarted) for event in own)


# --- without async -----------------------------------------------------------------


class BoundToItsLoop:
    """A model whose connections belong to the loop in which it was first asked, as those of most clients do."""

    name = "bound"

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Fail in any other loop."""
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop(), "Event loop is closed"
        return Reply(text="Hello.")


def test_turns_without_async_share_a_loop_that_ends_with_the_agent() -> None:
    model = BoundToItsLoop()
    agent = an_agent(model=model)
    first = agent.turn_sync("hello")
    second = agent.turn_sync("hello again", first.conversation)
    assert (first.text, second.conversation.turns) == ("Hello.", 2)
    assert model.loop is not None
    assert not model.loop.is_closed()
    del agent
    gc.collect()
    assert model.loop.is_closed()


def test_threads_may_share_an_agent_without_async() -> None:
    meeting = asyncio.Event()
    arrived: list[str] = []

    async def meet(order: str) -> str:
        """Wait for the other turn: both run at one time, or neither ends."""
        arrived.append(order)
        if len(arrived) == 2:
            meeting.set()
        await asyncio.wait_for(meeting.wait(), 20)
        return order

    agent = agent_of(shop_of(("do_it", ("meet",))), [meet], "do_it")
    found: list[str] = []

    def turn(order: str) -> None:
        found.append(agent.turn_sync("do it", context={"order": order}).status)

    threads = [threading.Thread(target=turn, args=(order,)) for order in ("A1", "B2")]
    for each in threads:
        each.start()
    for each in threads:
        each.join(30)
    assert found == ["done", "done"]


async def test_in_a_running_loop_it_says_what_to_do_instead() -> None:
    with pytest.raises(ConfigError, match=r"turn_sync cannot run where an event loop runs already: use 'await turn"):
        an_agent("find").turn_sync("do it")


def test_what_fails_passes_as_it_is() -> None:
    with pytest.raises(ConfigError, match="message must be a text"):
        an_agent("find").turn_sync(3)  # pyright: ignore[reportArgumentType]


def test_each_form_says_what_it_takes_and_is() -> None:
    wanted = list(signature(Agent.turn).parameters)
    assert list(signature(Agent.turn_sync).parameters) == list(signature(Agent.stream).parameters) == wanted
    assert (Agent.turn_sync.__name__, Agent.stream.__qualname__) == ("turn_sync", "Agent.stream")
    assert Agent.stream.__module__ == Agent.turn_sync.__module__ == Agent.turn.__module__
    assert not iscoroutinefunction(Agent.turn_sync)
