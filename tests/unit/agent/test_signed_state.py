"""What was saved and comes back changed: signed, it is refused; unsigned, nothing runs that the flow does not name."""

import asyncio
import hmac
import json
import random
from functools import partial
from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation, Snapshot
from jazz_select.errors import ConfigError, JazzSelectError, SnapshotError
from jazz_select.routing import GuidedDecisionPoint, Tool
from tests.depth import walks
from tests.unit.agent.mutations import changed
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


@pytest.mark.parametrize("secret", [SECRET, "a text of sixteen letters or more"], ids=["bytes", "text"])
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
        json.loads(conversation.to_json(secret=b"another of sixteen")),
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
    with pytest.raises(ConfigError, match="must have at least 16 bytes"):
        conversation.to_json(secret="")


def test_a_new_secret_takes_the_place_of_an_old_one() -> None:
    conversation = Conversation(id="1")
    before, after, others = "the old one of these two", "the new one of these two", "that of somebody else"
    old, both = conversation.to_json(secret=before), (after, before.encode())
    assert Conversation.from_json(old, secret=both) == conversation
    new = Conversation.from_json(old, secret=both).to_json(secret=both)
    assert new == conversation.to_json(secret=after), "the first signs"
    for text, secret in ((old, after), (new, [before]), (conversation.to_json(secret=others), both)):
        with pytest.raises(SnapshotError, match="not signed with this secret"):
            Conversation.from_json(text, secret=secret)


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        ("", "must have at least 16 bytes"),
        (b"", "must have at least 16 bytes"),
        ([], "must have at least 16 bytes"),
        (["sixteen letters and more", "fifteen letters"], "must have at least 16 bytes"),
        (7, "got int"),
        ([None], "got NoneType"),
    ],
    ids=["no text", "no bytes", "no list", "one of them", "a number", "a list of nothing"],
)
def test_what_nobody_can_sign_with_is_refused(secret: Any, message: str) -> None:
    for each in (Conversation(), Snapshot(node="ask", state={})):
        with pytest.raises(ConfigError, match=message):
            each.to_json(secret=secret)
        with pytest.raises(ConfigError, match=message):
            type(each).from_json(each.to_json(), secret=secret)


def test_a_conversation_can_be_kept_for_a_time() -> None:
    kept, longer = (Conversation(id="1").to_json(secret=SECRET, valid_s=valid_s) for valid_s in (3_600, 7_200))
    read = Conversation.from_json(kept, secret=SECRET)
    assert read.id == "1"
    assert 3_590 < Conversation.from_json(longer, secret=SECRET).expires - read.expires < 3_700
    late = Conversation(id="1", expires=1.0).to_json(secret=SECRET)
    with pytest.raises(SnapshotError, match="it has expired: begin a new conversation"):
        Conversation.from_json(late, secret=SECRET)
    for wrong in (0, -1, "soon"):
        with pytest.raises(ConfigError, match="valid_s must be a number of seconds above 0"):
            Conversation().to_json(valid_s=wrong)  # type: ignore[arg-type]


def test_what_one_kind_is_signed_with_signs_no_other() -> None:
    snapshot = json.loads(Snapshot(node="ask", state={}).to_json(secret=SECRET))
    both = json.loads(Conversation().to_json()) | snapshot
    for kind in (Conversation, Snapshot):
        with pytest.raises(SnapshotError, match="not signed with this secret"):
            kind.from_json(json.dumps(both), secret=SECRET)
    own = json.dumps({"version": 1}, separators=(",", ":"))
    signature = hmac.digest(SECRET, own.encode(), "sha256").hex()
    with pytest.raises(SnapshotError, match="not signed with this secret"):
        Conversation.from_json(json.dumps({"version": 1, "signature": signature}), secret=SECRET)


@pytest.mark.spec("005.16")
def test_numbers_of_any_size_are_signed_as_they_are() -> None:
    snapshot = Snapshot(node="ask", state={"n": 2**70, "share": 1e22, "word": "signature"})
    text = snapshot.to_json(secret=SECRET)
    for secret in (SECRET, None):
        assert Snapshot.from_json(text, secret=secret) == snapshot
    for other in (str(2**70 + 1), "1.1805916207174113e+21"):
        with pytest.raises(SnapshotError, match="not signed"):
            Snapshot.from_json(text.replace(str(2**70), other), secret=SECRET)


HOSTILE: list[Any] = [
    pytest.param(None, id="nothing"),
    pytest.param(7, id="a number"),
    pytest.param("", id="an empty text"),
    pytest.param(b"\xff", id="bytes that are no text"),
    pytest.param('{"signature": "\ud800"}', id="half a character"),
    pytest.param('{"signature": "\\ud800"}', id="half a character, escaped"),
    pytest.param('{"signature": "x", "turns": NaN}', id="no number"),
    pytest.param('{"signature": "x", "turns": 1e999}', id="endless"),
    pytest.param('{"signature": "x", "turns": %s}' % ("9" * 10_000), id="ten thousand digits"),
    *(
        pytest.param(f'{{"signature": "x", "state": {"[" * levels}{"]" * levels}}}', id=f"{levels} levels")
        for levels in (150, 260, 1_010, 100_000)
    ),
    pytest.param('{"signature": "x", "id": "%s"}' % ("x" * 50_000_000), id="50 MB"),
]


@pytest.mark.parametrize("secret", [None, SECRET], ids=["unsigned", "signed"])
@pytest.mark.parametrize("text", HOSTILE)
def test_whatever_is_no_saved_state_is_refused_by_its_type(text: Any, secret: bytes | None) -> None:
    for kind in (Conversation, Snapshot):
        with pytest.raises(SnapshotError):
            kind.from_json(text, secret=secret)


def test_of_two_fields_of_one_name_the_last_counts_and_is_what_was_signed() -> None:
    text = Conversation(turns=3).to_json(secret=SECRET)
    twice = text.replace('"turns":3', '"turns":7,"turns":3')
    assert Conversation.from_json(twice, secret=SECRET).turns == 3
    with pytest.raises(SnapshotError, match="not signed"):
        Conversation.from_json(text.replace('"turns":3', '"turns":3,"turns":7'), secret=SECRET)


def test_a_snapshot_is_signed_in_the_same_way() -> None:
    snapshot = Snapshot(node="ask", state={"message": "hi"})
    text = snapshot.to_json(secret=SECRET)
    assert Snapshot.from_json(text, secret=SECRET) == Snapshot.from_json(text) == snapshot
    with pytest.raises(SnapshotError, match="not signed"):
        Snapshot.from_json(text.replace('"ask"', '"delete"'), secret=SECRET)


async def test_of_many_changes_none_runs_what_the_flow_does_not_name() -> None:
    chance = random.Random(1)
    text = (await saved()).to_json()
    read = 0
    for _ in range(walks(500)):
        value = changed(text, chance)
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
    assert read > walks(50)
