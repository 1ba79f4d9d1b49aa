"""An agent of another process: turns, conversations that it signs, events as they happen."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

import pytest
from pydantic import BaseModel

from jazz_select.agent import Conversation
from jazz_select.agent.chain.transcript import Finished, FlowChosen, ToolCalled, ToolReturned
from jazz_select.agent.turn import TurnResult
from jazz_select.client import RemoteAgent, ServiceKeyError
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message
from tests.clock import until
from tests.unit.client.serving import KEY, acting, catalogue, says, serving, shop_flows

ADA = {"email": "ada@example.org"}


class Refunded(BaseModel):
    """What was refunded."""

    refunded: str


@pytest.fixture
async def remote() -> AsyncGenerator[RemoteAgent]:
    """Of the shop."""
    async with catalogue() as made, serving(made) as url, RemoteAgent(url, key=KEY) as agent:
        yield agent


def steady(result: TurnResult) -> dict[str, Any]:
    """What does not depend on when it was."""
    told = result.to_dict()
    for run in told["runs"]:
        for record in run["records"]:
            del record["duration_s"]
    return {name: told[name] for name in ("status", "text", "value", "runs", "prompt", "reason", "notes", "error")}


@pytest.mark.spec("008.2")
async def test_a_turn_is_that_of_the_agent_there() -> None:
    async with catalogue() as made, serving(made) as url, RemoteAgent(url, key=KEY, agent_id="shop") as agent:
        here = await made.live.agent.turn("refund my order", context=ADA, conversation_id="c1")
        there = await agent.turn("refund my order", context=ADA, conversation_id="c1")
        assert steady(there) == steady(here)
        assert there.conversation == here.conversation
        assert there.selection is not None
        assert there.selection.names == ["refund_order"]
        assert [span.name for span in there.trace] == [span.name for span in here.trace]
        live = RemoteAgent(url, key=KEY, registry=(registry := shop_flows()))
        async with live:
            result = await live.turn("refund my order", context=ADA)
        assert result.selection is not None
        assert result.selection.chosen_flows[0] is registry.by_name("refund_order")


async def test_a_call_that_waits_for_a_yes_is_made_after_it(remote: RemoteAgent) -> None:
    asked = await remote.turn("delete my account", context=ADA)
    assert asked.status == "confirming"
    assert asked.conversation.pending is not None
    kept = Conversation.from_json(asked.conversation.to_json())
    done = await remote.turn("yes", kept, context=ADA)
    assert (done.status, done.flows) == ("done", ["close_account"])
    assert done.conversation.turns == 2


@pytest.mark.spec("008.2")
async def test_a_conversation_that_was_changed_is_not_gone_on_with(remote: RemoteAgent) -> None:
    asked = await remote.turn("delete my account", context=ADA)
    pending = asked.conversation.pending
    assert pending is not None
    forged = asked.conversation.model_copy(
        update={"pending": pending.model_copy(update={"arguments": {"email": "ben@example.org"}})}
    )
    assert not forged.signed_text
    with pytest.raises(SnapshotError, match="not signed"):
        await remote.turn("yes", forged, context=ADA)
    text = asked.conversation.to_json().replace("ada@", "ben@")
    with pytest.raises(SnapshotError, match="not signed"):
        await remote.turn("yes", Conversation.from_json(text), context=ADA)


async def test_what_was_said_elsewhere_goes_as_messages(remote: RemoteAgent) -> None:
    said = [Message(role="user", content="hello"), Message(role="assistant", content="Good day.")]
    for history in (said, Conversation.from_history(said)):
        result = await remote.turn("refund my order", history, context=ADA)
        assert [each.content for each in result.conversation.messages][:2] == ["hello", "Good day."]
    begun = await remote.turn("refund my order", Conversation(id="mine"), context=ADA)
    assert begun.conversation.id == "mine"


async def test_the_events_of_a_turn_come_as_they_do_there(remote: RemoteAgent) -> None:
    heard: list[object] = []
    events = [event async for event in remote.stream("refund my order", context=ADA, on_event=heard.append)]
    assert heard == events
    assert [type(event) for event in events] == [FlowChosen, ToolCalled, ToolReturned, Finished]
    chosen, called, returned, finished = events
    assert isinstance(chosen, FlowChosen)
    assert chosen.flow == "refund_order"
    assert isinstance(called, ToolCalled)
    assert isinstance(returned, ToolReturned)
    assert (called.call.arguments, returned.result.output) == (ADA, {"refunded": "ada@example.org"})
    assert called.call.id == returned.result.id
    assert isinstance(finished, Finished)
    assert isinstance(finished.answer, TurnResult)
    assert finished.answer.conversation.signed_text
    async with aclosing(remote.stream("refund my order", context=ADA)) as some:
        async for _ in some:
            break


async def test_a_schema_may_be_a_class_here() -> None:
    model = ScriptedModel('{"refunded": "ada@example.org"}', repeat=True)
    async with catalogue(model) as made, serving(made) as url, RemoteAgent(url, key=KEY) as agent:
        for schema in (Refunded, Refunded.model_json_schema()):
            here = await made.live.agent.turn("refund my order", context=ADA, schema=schema)
            there = await agent.turn("refund my order", context=ADA, schema=schema)
            assert (there.status, there.value) == (here.status, here.value)
            assert type(there.value) is type(here.value)


def test_without_async() -> None:
    ready, over = threading.Event(), threading.Event()
    address: list[str] = []

    async def serve() -> None:
        async with catalogue() as made, serving(made) as url:
            address.append(url)
            ready.set()
            await until(over.is_set)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(30)
    try:
        agent = RemoteAgent(address[0], key=KEY)
        for _ in range(2):
            assert agent.turn_sync("refund my order", context=ADA).flows == ["refund_order"]
        agent.own_loop.run("aclose", agent.aclose)
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"context": {"db": object()}}, r"context\['db'\] is no JSON"),
        ({"facts": {"today": object()}}, r"facts\['today'\] is no JSON"),
        ({"facts": 3}, "facts must be"),
        ({"timeout_s": None}, "lets no turn take for ever"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"schema": 7}, "schema must be"),
        ({"history": "text"}, "history must be"),
        ({"message": 7}, "message must be a text"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_what_cannot_be_sent_is_not_sent(arguments: dict[str, Any], told: str) -> None:
    async with acting(says(200, {})) as script, RemoteAgent(script.url) as agent:
        with pytest.raises(ConfigError, match=told):
            await agent.turn(**cast("Any", {"message": "x", **arguments}))
        assert not script.requests


async def test_facts_that_are_functions_are_called_here(remote: RemoteAgent) -> None:
    called: list[str] = []

    def today() -> str:
        called.append("today")
        return "2026-02-01"

    result = await remote.turn("refund my order", context=ADA, facts={"today": today, "nobody": None})
    assert (result.status, called) == ("done", ["today"])


async def test_a_key_is_needed() -> None:
    async with catalogue() as made, serving(made) as url, RemoteAgent(url) as agent:
        with pytest.raises(ServiceKeyError):
            await agent.turn("x")
        with pytest.raises(ServiceKeyError):
            _ = [event async for event in agent.stream("x")]
