"""At most once: what several processes make of one saved conversation, with a store of claims and without one."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowSelector, Policy
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.turn import TurnResult
from jazz_select.errors import ConfigError
from jazz_select.routing import SqliteClaims, Tool
from jazz_select.testing import ListMemory, MemoryClaims, ScriptedModel
from jazz_select.values import Claim, Message
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import obj, selector_of, shop_of
from tests.unit.selector.shop import metadata

KNOWN = {"amount": 5}
CALL = '{"tool_call": {"tool": "pay", "arguments": {"amount": 5}}}'
OTHER = CALL.replace("5", "6")


class Till:
    """Where money goes: it keeps what was paid, and by which call."""

    def __init__(self, *, wait: asyncio.Event | None = None, fail: BaseException | None = None) -> None:
        self.paid: list[int] = []
        self.ids: list[str] = []
        self.began = asyncio.Event()
        self._wait = wait
        self._fail = fail

    async def pay(self, amount: int, call_id: str) -> dict[str, Any]:
        self.paid.append(amount)
        self.ids.append(call_id)
        self.began.set()
        if self._wait is not None:
            await self._wait.wait()
        if self._fail is not None:
            raise self._fail
        return {"receipt": len(self.paid)}

    def tool(self, *, idempotent: bool = False) -> Tool:
        return Tool(
            name="pay", input_schema=obj(amount="integer"), function=self.pay, destructive=True, idempotent=idempotent
        )


def worker(
    tool: Tool, claims: Any, *, steps: bool = True, replies: tuple[str, ...] = (CALL, "Paid."), **more: Any
) -> Agent:
    """A process: an agent of its own."""
    registry = shop_of(("pays", ("pay",) if steps else ()))
    if not steps:
        flow = registry.by_name("pays")
        assert flow is not None
        vars(flow).update(tools=("pay",))
    model = None if steps else ScriptedModel(*replies)
    policy = more.pop("policy", Policy())
    return make_agent(selector_of(registry, "pays", policy=policy), [tool], model, claims=claims, **more)


def loaded(result: TurnResult) -> Conversation:
    return Conversation.from_json(result.conversation.to_json())


def ran(result: TurnResult) -> Any:
    """What the tool returned, as the turn has it."""
    if result.runs and result.runs[-1].records:
        return result.runs[-1].records[-1].output
    return result.chain.entries[1].output if result.chain else None  # type: ignore[union-attr]


@pytest.fixture
def shared(tmp_path: Path) -> Callable[[], SqliteClaims]:
    """The store as each process opens it."""
    return lambda: SqliteClaims(tmp_path / "claims")


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("steps", [True, False], ids=["a flow's steps", "a model"])
@pytest.mark.parametrize("approval", ["destructive", "never"])
async def test_two_that_go_on_with_one_conversation_call_once_and_hear_the_same(
    shared: Callable[[], SqliteClaims], approval: Any, *, steps: bool
) -> None:
    till = Till()
    saved = Conversation(id="c", turns=3)
    if approval == "destructive":
        asked = await worker(till.tool(), shared(), steps=steps).turn("pays", saved, context=KNOWN)
        assert asked.status == "confirming"
        saved = loaded(asked)
        replies, message = ("Paid.",), "yes"
    else:
        replies, message = (CALL, "Paid."), "pays"
    results = [
        await worker(till.tool(), shared(), steps=steps, replies=replies, approval=approval).turn(
            message, saved, context=KNOWN
        )
        for _ in range(3)
    ]
    assert (till.paid, [ran(each) for each in results]) == ([5], [{"receipt": 1}] * 3)
    assert len({(each.status, each.text) for each in results}) == 1
    if saved.pending is not None:
        assert till.ids == [saved.pending.id]


@pytest.mark.spec("005.4")
async def test_who_comes_while_the_call_is_under_way_hears_that_nobody_knows(
    shared: Callable[[], SqliteClaims],
) -> None:
    gate = asyncio.Event()
    till = Till(wait=gate)
    asked = await worker(till.tool(), shared()).turn("pays", context=KNOWN)
    first = asyncio.create_task(worker(till.tool(), shared()).turn("yes", loaded(asked), context=KNOWN))
    await till.began.wait()
    second = await worker(till.tool(), shared()).turn("yes", loaded(asked), context=KNOWN)
    gate.set()
    assert (await first).status == "done"
    assert (second.status, second.runs[0].records[-1].unknown, till.paid) == ("failed", True, [5])
    assert second.text == "Pay was started, and its outcome is unknown: it may have been done."
    (kept,) = second.conversation.failed
    assert kept.uncertain_tools == ("pay",)


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("steps", [True, False], ids=["a flow's steps", "a model"])
async def test_without_a_store_each_calls_and_the_turn_says_so(*, steps: bool) -> None:
    till = Till()
    asked = await worker(till.tool(), None, steps=steps).turn("pays", context=KNOWN)
    results = [
        await worker(till.tool(), None, steps=steps, replies=("Paid.",)).turn("yes", loaded(asked), context=KNOWN)
        for _ in range(2)
    ]
    assert till.paid == [5, 5]
    note = (
        "pay: if another process continues this conversation too, both make this call; give the agent a store of"
        " claims, such as SqliteClaims(path)"
    )
    assert [each.notes for each in results] == [(note,)] * 2
    assert asked.notes == ()


@pytest.mark.spec("005.4")
async def test_a_turn_in_which_the_call_was_not_made_says_nothing_of_other_processes() -> None:
    till = Till()
    asked = await worker(till.tool(), None, steps=True).turn("pays", context=KNOWN)
    again = await worker(till.tool(), None, steps=True).turn("yes", loaded(asked), context={**KNOWN, "amount": 6})
    assert (again.status, again.notes, till.paid) == ("confirming", (), [])


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("steps", [True, False], ids=["a flow's steps", "a model"])
async def test_in_the_place_of_a_call_no_other_one_is_made(shared: Callable[[], SqliteClaims], *, steps: bool) -> None:
    till = Till()
    saved = Conversation(id="c")
    for amount, reply in ((5, CALL), (6, OTHER)):
        agent = worker(till.tool(), shared(), steps=steps, replies=(reply, "Well."), approval="never")
        last = await agent.turn("pays", saved, context={"amount": amount})
    assert till.paid == [5]
    told = last.reason if steps else last.chain.entries[1].error  # type: ignore[union-attr]
    assert "in its place another call was made before, in another process" in told


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("history", ["a conversation", "nothing"])
async def test_what_is_said_later_is_another_turn(shared: Callable[[], SqliteClaims], history: str) -> None:
    """Whatever a caller keeps of a conversation: two wishes are two calls."""
    till = Till()
    agent = worker(till.tool(), shared(), approval="never", policy=TAKE_FIRST)
    first = await agent.turn("pays", context=KNOWN, conversation_id="c")
    said = [Message(role="user", content="pays"), Message(role="assistant", content=first.text)]
    with pytest.raises(ConfigError, match="conversation_id is for what begins"):
        await agent.turn("pays", said, context=KNOWN, conversation_id="c")
    kept: Any = {"a conversation": first.conversation, "nothing": None}[history]
    message = "pays please" if history == "nothing" else "pays"
    second = await agent.turn(message, kept, context=KNOWN, conversation_id="c")
    assert (second.status, till.paid) == ("done", [5, 5])
    assert len(set(till.ids)) == 2


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("fail", "idempotent", "status", "paid"),
    [
        pytest.param(ValueError("no line"), False, "failed", [5], id="it raised"),
        pytest.param(asyncio.CancelledError(), False, "failed", [5], id="its outcome is unknown"),
        pytest.param(asyncio.CancelledError(), True, "failed", [5, 5], id="it may be called twice"),
    ],
)
async def test_what_did_not_return_is_not_tried_by_another(
    shared: Callable[[], SqliteClaims], fail: BaseException, status: str, paid: list[int], *, idempotent: bool
) -> None:
    till = Till(fail=fail)
    saved = Conversation(id="c")
    tool = till.tool(idempotent=idempotent)
    first, second = [
        await worker(tool, shared(), approval="never").turn("pays", saved, context=KNOWN) for _ in range(2)
    ]
    assert (till.paid, first.status, second.status) == (paid, status, status)
    assert (
        first.runs[0].records[-1].unknown
        == second.runs[0].records[-1].unknown
        == isinstance(fail, asyncio.CancelledError)
    )
    assert first.conversation.failed[0].uncertain_tools == second.conversation.failed[0].uncertain_tools == ("pay",)


class Broken(MemoryClaims):
    def __init__(self, *, claims: bool) -> None:
        super().__init__()
        self._claims = claims

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        if self._claims:
            return await super().claim(call_id, fingerprint)
        msg = "database is locked"
        raise OSError(msg)

    async def settle(self, call_id: str, outcome: str) -> None:
        msg = "disk full"
        raise OSError(msg)


@pytest.mark.spec("005.4")
async def test_what_cannot_be_claimed_is_not_called_and_what_cannot_be_settled_stands() -> None:
    till = Till()
    refused = await worker(till.tool(), Broken(claims=False), approval="never").turn("pays", context=KNOWN)
    assert (refused.status, till.paid) == ("failed", [])
    assert "pay was not run: it could not be claimed: OSError: database is locked" in refused.reason
    done = await worker(till.tool(), Broken(claims=True), approval="never").turn("pays", context=KNOWN)
    assert (done.status, till.paid) == ("done", [5])


class Settling(MemoryClaims):
    """Keeps what was settled, claimed or not."""

    def __init__(self) -> None:
        super().__init__()
        self.settled: list[str] = []

    async def settle(self, call_id: str, outcome: str) -> None:
        self.settled.append(outcome)
        await super().settle(call_id, outcome)


async def test_what_destroys_nothing_is_claimed_by_nobody() -> None:
    claims, till = Settling(), Till()
    harmless = Tool(name="pay", input_schema=obj(amount="integer"), function=till.pay)
    assert (await worker(harmless, claims).turn("pays", context=KNOWN)).status == "done"
    agent = worker(harmless, claims, approval="always")
    asked = await agent.turn("pays", context=KNOWN)
    off = await agent.turn("no", loaded(asked), context=KNOWN)
    assert (asked.status, off.text) == ("confirming", "All right, nothing more will be done about: Pays.")
    assert (till.paid, claims.claims, claims.settled) == ([5], {}, [])


async def test_a_conversation_keeps_its_id() -> None:
    agent = worker(Till().tool(), None)
    first = await agent.turn("pays", conversation_id="c-1")
    second = await agent.turn("5", loaded(first))
    fresh = await agent.turn("pays")
    assert (first.conversation.id, second.conversation.id, len(fresh.conversation.id)) == ("c-1", "c-1", 32)
    with pytest.raises(ConfigError, match="the conversation is 'c-1', not 'c-2': leave conversation_id out"):
        await agent.turn("5", loaded(first), conversation_id="c-2")


@pytest.mark.spec("005.4")
async def test_an_agent_of_somebody_else_shares_no_calls(shared: Callable[[], SqliteClaims]) -> None:
    """One store for all tenants, who name their conversations alike."""
    till = Till()
    for tenant in ("a", "b"):
        registry = shop_of(("pays", ("pay",)))
        selector = FlowSelector(None, registry, ListMemory(metadata("pays")), tenant)
        agent = make_agent(selector, [till.tool()], claims=shared(), approval="never")
        assert (await agent.turn("pays", context=KNOWN, conversation_id="1")).status == "done"
    assert till.paid == [5, 5]


@pytest.mark.spec("005.4")
async def test_arguments_that_are_no_json_are_the_same_ones_in_each_process(shared: Callable[[], SqliteClaims]) -> None:
    class Account: ...

    paid: list[str] = []

    def pay(**given: Any) -> None:
        paid.append(type(given["account"]).__name__)

    tool = Tool(name="pay", input_schema={"properties": {"account": {}, "tags": {}}}, function=pay, destructive=True)
    results = [
        await worker(tool, shared(), approval="never").turn(
            "pays", Conversation(id="c"), context={"account": Account(), "tags": {"b", "a", "c"}}
        )
        for _ in range(2)
    ]
    assert (paid, [each.status for each in results]) == (["Account"], ["done"] * 2)


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("steps", [True, False], ids=["a flow's steps", "a model"])
async def test_a_no_comes_too_late_or_keeps_the_call_from_being_made(
    shared: Callable[[], SqliteClaims], *, steps: bool
) -> None:
    till = Till()

    def fresh() -> Agent:
        return worker(till.tool(), shared(), steps=steps, replies=("Paid.",))

    for first, last in (("yes", "no"), ("no", "yes")):
        asked = await worker(till.tool(), shared(), steps=steps, replies=(CALL,)).turn("pays", context=KNOWN)
        results = [await fresh().turn(said, loaded(asked), context=KNOWN) for said in (first, last)]
        if first == "yes":
            assert results[1].text == "It is too late for that: Pay has already been done. Nothing more will be done."
        else:
            assert results[0].text.startswith("All right, nothing more will be done")
            told = results[1].reason if steps else results[1].chain.entries[1].error  # type: ignore[union-attr]
            assert "pay was not run: it was called off" in told
            assert not any(each.uncertain_tools for each in results[1].conversation.failed), "nobody made it"
            if not steps:
                assert not results[1].chain.entries[1].called  # type: ignore[union-attr]
    assert till.paid == [5]


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("settled", "says"),
    [
        pytest.param(
            "no", "All right, nothing more will be done about: Pays.", id="called off elsewhere: nobody made it"
        ),
        pytest.param("yes", "may have been done", id="begun elsewhere, and it failed"),
    ],
)
async def test_a_second_no_hears_what_became_of_the_call(
    shared: Callable[[], SqliteClaims], settled: str, says: str
) -> None:
    agent = worker(Till(fail=ValueError("no line")).tool(), shared())
    asked = loaded(await agent.turn("pays", context=KNOWN))
    await worker(Till(fail=ValueError("no line")).tool(), shared()).turn(settled, asked, context=KNOWN)
    off = await worker(Till().tool(), shared()).turn("no", asked, context=KNOWN)
    assert says in off.text


async def test_a_no_is_a_no_where_the_store_fails() -> None:
    till = Till()
    agent = worker(till.tool(), Broken(claims=False))
    asked = await agent.turn("pays", context=KNOWN)
    off = await agent.turn("no", loaded(asked), context=KNOWN)
    assert (off.text, till.paid) == ("All right, nothing more will be done about: Pays.", [])


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("claims", [None, MemoryClaims()], ids=["without a store", "with a store"])
@pytest.mark.parametrize(
    ("idempotent", "context", "same"),
    [
        pytest.param(True, KNOWN, True, id="it may be called twice"),
        pytest.param(True, {"amount": 6}, False, id="with other arguments it is another call"),
        pytest.param(False, KNOWN, False, id="it may not"),
    ],
)
async def test_a_call_that_nobody_heard_of_is_tried_again_by_the_same_id_where_the_tool_takes_that(
    claims: Any, context: dict[str, int], *, idempotent: bool, same: bool
) -> None:
    gone, till = Till(fail=asyncio.CancelledError()), Till()
    tool = gone.tool(idempotent=idempotent)
    asked = await worker(tool, claims).turn("pays", context=KNOWN)
    unheard = await worker(tool, claims).turn("yes", loaded(asked), context=KNOWN)
    assert (unheard.status, unheard.runs[0].records[-1].unknown) == ("failed", True)
    later = worker(till.tool(idempotent=idempotent), claims)
    again = await later.turn("pays", loaded(unheard), context=context)
    assert again.text.startswith("This failed before, may have been done all the same")
    done = await later.turn("yes", loaded(again), context=context)
    assert (done.status, till.paid) == ("done", [context["amount"]])
    assert (till.ids == gone.ids) is same


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("idempotent", [True, False], ids=["it may be called twice", "it may not"])
async def test_a_model_that_tries_again_what_nobody_heard_of_does_so_by_the_same_id(*, idempotent: bool) -> None:
    ids: list[str] = []

    async def pay(amount: int, call_id: str) -> int:
        ids.append(call_id)
        if len(ids) == 1:
            raise asyncio.CancelledError
        return amount

    schema = obj(amount="integer")
    tool = Tool(name="pay", input_schema=schema, function=pay, destructive=True, idempotent=idempotent)
    agent = worker(tool, None, steps=False, replies=(CALL, CALL, OTHER, "Paid."), approval="never")
    await agent.turn("pays")  # what a context fills would be the same in every call
    assert (len(ids), len(set(ids))) == ((3, 2) if idempotent else (2, 2))


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("steps", [True, False], ids=["a flow's steps", "a model"])
async def test_what_is_asked_for_again_from_an_earlier_state_is_the_same_call(
    shared: Callable[[], SqliteClaims], *, steps: bool
) -> None:
    """Another window still shows the question after it was answered in the first, and the user asks anew there."""
    till = Till()
    stale = loaded(await worker(till.tool(), shared(), steps=steps).turn("pays", context=KNOWN))
    await worker(till.tool(), shared(), steps=steps, replies=("Paid.",)).turn("yes", stale, context=KNOWN)
    again = await worker(till.tool(), shared(), steps=steps).turn("pays", stale, context=KNOWN)
    assert again.status == "confirming"
    done = await worker(till.tool(), shared(), steps=steps, replies=("Paid.",)).turn(
        "yes", loaded(again), context=KNOWN
    )
    assert (ran(done), till.paid) == ({"receipt": 1}, [5])
