"""What was saved and comes back changed: signed, it is refused; unsigned, nothing runs that the flow does not name."""

import asyncio
import json
import random
from functools import partial
from typing import Any, cast

import pytest

from jazz_select.agent import Agent, Conversation, Snapshot
from jazz_select.errors import ConfigError, JazzSelectError, SnapshotError
from jazz_select.routing import GuidedDecisionPoint, Tool
from tests.unit.agent.turns import agent_of, destroyer, obj, shop_of

SECRET = b"a secret of some length"


async def saved() -> Conversation:
    """A flow that has refunded, and whose chosen tool waits for an address."""
    agent = shop_agent([])
    result = await agent.turn("both", context={"order": "A-1"})
    assert result.status == "waiting", result.reason
    return result.conversation


def note(log: list[str], name: str, **_: object) -> None:
    log.append(name)


def shop_agent(log: list[str], *, approval: Any = "never") -> Agent:
    registry = shop_of(("both", ()), ("other", ("erase_all",)))
    flow = registry.by_name("both")
    assert flow is not None
    point = GuidedDecisionPoint(after_step="refund", candidate_tools=["notify", "thank"])
    vars(flow).update(tools=("refund", "notify", "thank"), chain=("refund", point))

    def refund() -> dict[str, str]:
        log.append("refund")
        return {"receipt": "R"}

    class Notifies:
        def decide(self, context: Any, candidates: Any, prompt: Any) -> str:
            return "notify"

    tools = [
        Tool(name="refund", function=refund, destructive=True),
        Tool(name="thank", input_schema=obj(receipt="string"), function=partial(note, log, "thank")),
        Tool(
            name="notify",
            input_schema=obj(receipt="string", address="string"),
            function=partial(note, log, "notify"),
        ),
        destroyer("erase_all", log),
        destroyer("erase_more", log, receipt="string"),
    ]
    return agent_of(registry, tools, decision_callback=Notifies(), approval=approval)


@pytest.mark.parametrize("secret", [SECRET, "a text"], ids=["bytes", "text"])
async def test_what_was_signed_comes_back_through_any_store_of_json(secret: str | bytes) -> None:
    conversation = await saved()
    text = conversation.to_json(secret=secret)
    assert Conversation.from_json(text, secret=secret) == conversation
    stored = json.dumps(json.loads(text), indent=2, sort_keys=True).encode()
    assert Conversation.from_json(stored, secret=secret) == conversation
    assert Conversation.from_json(text) == conversation, "without a secret nobody asks for the signature"


async def test_what_is_not_signed_with_this_secret_is_refused() -> None:
    conversation = await saved()
    signed = json.loads(conversation.to_json(secret=SECRET))
    others = [
        json.loads(conversation.to_json()),
        json.loads(conversation.to_json(secret=b"another")),
        signed | {"turns": 7},
        signed | {"signature": signed["signature"][:-1]},
        signed | {"signature": None},
        {key: value for key, value in signed.items() if key != "pending"},
    ]
    for each in others:
        with pytest.raises(SnapshotError, match="it is not signed with this secret, or was changed since"):
            Conversation.from_json(json.dumps(each), secret=SECRET)
    for text in ("[]", "3", "{", '"signature"'):
        with pytest.raises(SnapshotError):
            Conversation.from_json(text, secret=SECRET)
    with pytest.raises(ConfigError, match="secret is empty"):
        conversation.to_json(secret="")


def test_a_snapshot_is_signed_in_the_same_way() -> None:
    snapshot = Snapshot(node="ask", state={"message": "hi"})
    text = snapshot.to_json(secret=SECRET)
    assert Snapshot.from_json(text, secret=SECRET) == Snapshot.from_json(text) == snapshot
    with pytest.raises(SnapshotError, match="not signed"):
        Snapshot.from_json(text.replace('"ask"', '"delete"'), secret=SECRET)


def inside(value: Any) -> list[tuple[Any, Any, Any]]:
    """Every place in JSON values: what it is in, where there, and what it is."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        found = list(cast("dict[str, Any]", value).items())
    elif isinstance(value, list):
        found = list(enumerate(cast("list[Any]", value)))
    return [*((value, key, part) for key, part in found), *(each for _, part in found for each in inside(part))]


HARM: list[Any] = ["", "erase_all", "erase_more", "delete", "0.1", ["refund"], -2, 10**30, 1e308, None, True, [], {}]


def changed(value: Any, chance: random.Random) -> Any:
    """One place of it changed into what might do harm."""
    owner, key, was = chance.choice(inside(value))
    owner[key] = chance.choice([*HARM, was * 2 if isinstance(was, str) else -1])
    return value


async def test_of_five_hundred_changes_none_runs_what_the_flow_does_not_name() -> None:
    chance = random.Random(1)
    text = (await saved()).to_json()
    read = 0
    for _ in range(500):
        value = changed(json.loads(text), chance)
        log: list[str] = []
        try:
            conversation = Conversation.from_json(json.dumps(value))
        except JazzSelectError:
            continue
        read += 1
        agent = shop_agent(log)
        for message in ("yes", "a street 1", "both"):
            result = await asyncio.wait_for(agent.turn(message, conversation, context={"address": "a"}), 10)
            conversation = result.conversation
        assert {"erase_all", "erase_more"}.isdisjoint(each.split()[0] for each in log), value
    assert read > 50
