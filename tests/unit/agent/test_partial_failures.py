"""What was done stays done, and told, whatever fails after it: a branch, a prompt, a listener, a store."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from jazz_select import ConditionalFlow, FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow
from jazz_select.agent import Agent, Conversation, Guard, Route
from jazz_select.agent.conversation import OpenFlow, Part
from jazz_select.agent.turn import TurnResult
from jazz_select.routing import CHOOSE, Tool
from jazz_select.testing import ListMemory, MemoryClaims, ScriptedModel
from jazz_select.values import Claim
from tests.unit.agent.test_hanging_model import timed
from tests.unit.agent.turns import agent_of, destroyer, obj, selector_of, shop_of
from tests.unit.selector.shop import metadata

POLICIES = pytest.mark.parametrize("approval", ["never", "destructive"])


async def said(agent: Agent, before: TurnResult | None, *messages: str, **given: Any) -> TurnResult:
    """The last of some turns, each from the conversation as it was saved."""
    for message in messages:
        saved = None if before is None else Conversation.from_json(before.conversation.to_json())
        before = await agent.turn(message, saved, **given)
    assert before is not None
    return before


class Forgetful(FlowSelector):
    """Finds flows, and no branch of one."""

    async def select(self, *given: Any, **options: Any) -> Any:
        if options.get("only") is not None:
            msg = "the memory is gone"
            raise RuntimeError(msg)
        return await super().select(*given, **options)


def with_branches(log: list[str], approval: Any) -> Agent:
    registry = shop_of(("first", ("one",)), ("second", ("two",)))
    branches = [("it is the first", "first"), ("it is the second", "second")]
    flow = ConditionalFlow(
        name="both", description="d", condition="c", branches=branches, tools=["charge"], examples=[], registry=registry
    )
    vars(flow).update(chain=("charge",))
    tools = [destroyer(name, log) for name in ("charge", "one", "two")]
    return Agent(Forgetful(None, registry, ListMemory(metadata("both")), "support"), tools, approval=approval)


def falling_after(log: list[str]) -> Callable[..., str]:
    """An author's prompt that fails as soon as something is done."""

    def build(**_: Any) -> str:
        if log:
            msg = "the prompt falls"
            raise ValueError(msg)
        return "Charge."

    return build


def with_a_model(log: list[str], approval: Any) -> Agent:
    registry = shop_of(("both", ("charge",)))
    flow = registry.by_name("both")
    assert flow is not None

    vars(flow).update(tools=("charge",), chain=("charge", CHOOSE), build_prompt=falling_after(log))
    model = ScriptedModel("both", repeat=True)
    return Agent(selector_of(registry, "both"), [destroyer("charge", log)], model, approval=approval)


@pytest.mark.spec("005.4")
@POLICIES
@pytest.mark.parametrize(
    "made", [pytest.param(with_branches, id="no branch is found"), pytest.param(with_a_model, id="a prompt falls")]
)
async def test_what_a_chain_did_stays_done_where_the_rest_fails(
    made: Callable[[list[str], Any], Agent], approval: str
) -> None:
    log: list[str] = []
    agent = made(log, approval)
    result = await said(agent, None, *(["both"] if approval == "never" else ["both", "yes"]))
    assert (result.status, result.runs[0].done, log) == ("failed", ("charge",), ["charge"])
    assert result.text == "Both was started but could not be finished. Already done: Charge."
    again = await said(agent, result, "both", "yes", "both")
    assert [each.final for each in again.conversation.failed] == [("charge",)]
    assert log == ["charge"]


@pytest.mark.spec("005.5")
async def test_a_prompt_that_falls_after_a_call_loses_no_result() -> None:
    log: list[str] = []
    registry = shop_of(("both", ("charge", "mail")))
    flow = registry.by_name("both")
    assert flow is not None

    vars(flow).update(build_prompt=falling_after(log))
    agent = agent_of(registry, [destroyer("charge", log), destroyer("mail", log, to="string")])
    result = await said(agent, None, "both")
    assert (result.status, result.prompt, result.conversation.flows[-1].final) == ("waiting", "", ("charge",))


class Unsteady(MemoryClaims):
    """A store that fails where it is told to."""

    broken = False

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        if self.broken:
            msg = "the file is locked"
            raise OSError(msg)
        return await super().claim(call_id, fingerprint)


@pytest.mark.spec("005.4")
@POLICIES
@pytest.mark.parametrize("how", ["closed", "store"])
async def test_a_doubt_stays_until_the_tool_has_run(how: str, approval: str) -> None:
    """A refund that may have been made is not made again unasked since the turn in between came to nothing."""
    log: list[str] = []
    claims = Unsteady()
    registry = shop_of(("both", ("refund",)))
    flow = registry.by_name("both")
    assert flow is not None
    closed: list[bool] = []

    def is_open(_: Any) -> bool:
        return not closed

    vars(flow).update(available=is_open, has_guard=True)

    def refund() -> None:
        log.append("refund")
        if len(log) == 1:
            msg = "502"
            raise RuntimeError(msg)

    tool = Tool(name="refund", input_schema=obj(), function=refund, destructive=True)
    agent = agent_of(registry, [tool], approval=approval, claims=claims)
    failed = await said(agent, None, *(["both"] if approval == "never" else ["both", "yes"]))
    asked = await said(agent, failed, "both")
    assert (failed.status, asked.status, log) == ("failed", "confirming", ["refund"])
    closed[:], claims.broken = [True] * (how == "closed"), how == "store"
    nothing = await said(agent, asked, "yes")
    closed[:], claims.broken = [], False
    asked = await said(agent, nothing, "both")
    assert (nothing.status, asked.status, log) == ("failed", "confirming", ["refund"])
    assert asked.text.startswith("This failed before, may have been done all the same")
    done = await said(agent, asked, "yes")
    assert (done.status, log) == ("done", ["refund", "refund"])


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("event", ["FlowChosen", "ToolCalled", "ToolReturned", "Finished"])
@pytest.mark.parametrize("timeout_s", [60.0, None], ids=["a limit", "no limit"])
async def test_a_listener_that_is_cancelled_cancels_nobody(event: str, timeout_s: float | None) -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)])

    async def listens(heard: Any) -> None:
        if type(heard).__name__ == event:
            raise asyncio.CancelledError

    result = await agent.turn("both", on_event=listens, timeout_s=timeout_s)
    assert (result.status, result.runs[0].done, log) == ("done", ("charge",), ["charge"])


@pytest.mark.spec("005.5")
def test_a_listener_that_hangs_at_the_end_holds_up_no_turn() -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)])

    async def listens(heard: Any) -> None:
        if type(heard).__name__ == "Finished":
            await asyncio.sleep(1_000)

    result, took_s = timed(agent.turn("both", on_event=listens, timeout_s=10.0))
    assert (result.status, log) == ("done", ["charge"])
    assert took_s <= 10.1


def of_parts(kind: type[SequentialFlow | ParallelFlow], *names: str) -> FlowRegistry:
    registry = shop_of(("pays", ("refund",)), ("writes", ("mail",)), ("notes", ("note",)))
    kind(name="both", description="d", condition="c", flows=list(names), examples=[], registry=registry)
    return registry


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
@pytest.mark.parametrize(
    ("parts", "ran"),
    [
        pytest.param(("writes", "pays"), ["mail X"], id="the other way round"),
        pytest.param(("notes", "pays", "writes"), ["note", "mail X"], id="one put before"),
        pytest.param(("pays", "notes", "writes"), ["note", "mail X"], id="one put between"),
        pytest.param(("writes",), ["mail X"], id="the one that was done is gone"),
        pytest.param(("pays",), [], id="the one to come is gone"),
    ],
)
async def test_parts_in_another_order_are_known_by_their_names(
    kind: Any, parts: tuple[str, ...], ran: list[str]
) -> None:
    log: list[str] = []
    tools = [destroyer("refund", log), destroyer("mail", log, address="string"), destroyer("note", log)]
    waits = await said(agent_of(of_parts(kind, "pays", "writes"), tools), None, "both")
    assert (waits.status, log) == ("waiting", ["refund"])
    done = await said(agent_of(of_parts(kind, *parts), tools), waits, "yes", context={"address": "X"})
    then = sorted(log[1:], key=ran.index) if kind is ParallelFlow else log[1:]  # side by side, in whatever order
    assert (done.status, log[0], then) == ("done", "refund", ran)


@pytest.mark.spec("005.4")
async def test_a_part_that_is_gone_and_comes_back_is_as_far_as_it_was() -> None:
    log: list[str] = []
    tools = [destroyer("refund", log), destroyer("mail", log, address="string"), destroyer("note", log, why="string")]
    waits = await said(agent_of(of_parts(SequentialFlow, "pays", "writes"), tools), None, "both")
    waits = await said(agent_of(of_parts(SequentialFlow, "notes", "writes"), tools), waits, "yes")
    assert waits.conversation.flows[-1].final == ("refund",)
    known = {"address": "X", "why": "Y"}
    last = agent_of(of_parts(SequentialFlow, "writes", "notes", "pays"), tools)
    done = await said(last, waits, "yes", context=known)
    assert (done.status, log) == ("done", ["refund", "mail X", "note Y"])


@pytest.mark.spec("005.4")
@pytest.mark.parametrize("order", [("leaves", "writes"), ("writes", "leaves")], ids=["as it was", "turned round"])
async def test_a_branch_that_was_taken_is_known_by_its_name(order: tuple[str, str]) -> None:
    """Branches that change places do not make a letter that was asked for the end of an account."""
    log: list[str] = []
    registry = shop_of(("leaves", ("close_account",)), ("writes", ("mail",)))
    branches = [(f"it {name}", name) for name in order]
    ConditionalFlow(name="both", description="d", condition="c", branches=branches, examples=[], registry=registry)
    tools = [destroyer("close_account", log, address="string"), destroyer("mail", log, address="string")]
    taken = {
        "0": Part(status="waiting", branch="0/writes"),
        "0/writes": Part(status="waiting", left=("mail",), tool="mail"),
    }
    waits = OpenFlow(name="both", status="waiting", asks=("address",), parts=taken)
    saved = Conversation(id="c", flows=(waits,), turns=1)
    done = await agent_of(registry, tools).turn("yes", saved, context={"address": "X"})
    assert (done.status, log) == ("done", ["mail X"])


@pytest.mark.spec("005.4")
async def test_a_call_that_nobody_knows_of_is_told_as_that() -> None:
    log: list[str] = []
    claims = MemoryClaims()
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)], claims=claims)
    first = await agent.turn("both", conversation_id="c")
    for call_id, claim in claims.claims.items():  # as if its process had been killed before it noted the end
        claims.claims[call_id] = Claim(fingerprint=claim.fingerprint)
    again = await agent.turn("both", conversation_id="c")
    assert (first.status, again.status, log) == ("done", "failed", ["charge"])
    told = "Charge was started, and its outcome is unknown: it may have been done."
    assert again.text == told


@pytest.mark.spec("005.4")
async def test_what_was_called_off_elsewhere_is_in_no_doubt() -> None:
    log: list[str] = []
    claims = MemoryClaims()
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)], claims=claims, approval="destructive")
    asked = await said(agent, None, "both")
    await said(agent, asked, "no")
    late = await said(agent, asked, "yes")
    again = await said(agent, late, "both")
    assert (late.status, late.conversation.failed, log) == ("failed", (), [])
    assert again.text == "This would be done next: Charge. Shall I go on, yes or no?"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes can be forked")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_a_loop_of_its_own() -> None:
    """A worker of a server that loaded the agent, and used it once, before it forked."""
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)])
    assert agent.turn_sync("both").status == "done"
    child = os.fork()
    if not child:
        signal.alarm(30)  # where it hangs, it ends by that
        os._exit(0 if agent.turn_sync("both").status == "done" else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (agent.turn_sync("both").status, log) == ("done", ["charge", "charge"])


async def test_a_guard_that_begins_a_conversation_anew_makes_no_two_turns_one() -> None:
    """Turns are told apart by their number, so that a call of one is never taken for that of another."""
    log: list[str] = []

    def forgets(_: Any) -> Route:
        return Route(updates={"conversation": Conversation()})

    guards = [Guard("forgets", forgets, ())]
    agent = agent_of(shop_of(("both", ("charge",))), [destroyer("charge", log)], claims=MemoryClaims(), guards=guards)
    result = await said(agent, None, *["both"] * 5)
    assert (result.status, len(log), result.conversation.turns) == ("done", 5, 5)
