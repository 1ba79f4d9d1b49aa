"""What a turn that ran out of time keeps and says, whom its deadline binds, and what hooks do in their threads."""

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow
from jazz_select.agent import Agent, Conversation, run_chain
from jazz_select.agent.chain.transcript import ToolReturned
from jazz_select.agent.graph.guards import Guard
from jazz_select.errors import ConfigError, FormatError
from jazz_select.routing import GuidedDecisionPoint, Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.threads import time_budget
from jazz_select.values import Message
from tests.agents import make_agent
from tests.unit.agent.hanging import Hang, timed
from tests.unit.agent.support import call, results
from tests.unit.agent.turns import agent_of, composed, shop_of, tools_for
from tests.unit.selector.shop import metadata

LIMIT_S, MOST_S = 10.0, 10.1
pytestmark = pytest.mark.spec("005.5")
MOOD = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}


def slow(name: str, hang: Hang, *, destructive: bool = False) -> Tool:
    return Tool(name=name, function=hang.hangs, destructive=destructive)


def without_flows(tools: list[Any], model: Any, **options: Any) -> Agent:
    return make_agent(
        FlowSelector(None, FlowRegistry(), ListMemory([]), "a"),
        tools,
        model,
        approval="never",
        open_tools="all",
        **options,
    )


def both_of(log: list[str], **options: Any) -> Agent:
    return agent_of(shop_of(("both", ("first", "second"))), tools_for("first", "second", log=log), **options)


def ended_in_time(hang: Hang, agent: Agent, message: str = "both", *given: Any, **options: Any) -> Any:
    result, took_s = timed(hang, lambda: agent.turn(message, *given, timeout_s=LIMIT_S, **options))
    assert LIMIT_S <= took_s < MOST_S
    return result


# --- what is kept --------------------------------------------------------------


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
def test_parts_that_are_done_are_not_done_again(kind: type[SequentialFlow | ParallelFlow]) -> None:
    log: list[str] = []
    hang = Hang({})
    selector, _ = composed(kind)
    agent = Agent(selector, [*tools_for("do_first", log=log), slow("do_second", hang)])
    first = ended_in_time(hang, agent)
    assert [(run.flow, run.status) for run in first.runs[0].all] == [
        ("both", "failed"),
        ("first", "done"),
        ("second", "failed"),
    ]
    assert first.runs[0].known["do_first_done"] is True
    assert "Done so far: Do first." in first.text
    assert first.text.endswith("Shall I go on with: Both?")
    second, _ = timed(hang, lambda: agent.turn("yes", Conversation.from_json(first.conversation.to_json())))
    assert (second.status, log, hang.begun) == ("done", ["do_first"], 2)


def test_a_call_that_destroys_is_told_to_be_unknown_and_not_made_again_unasked() -> None:
    hang, log = Hang({}), list[str]()
    registry = shop_of(("both", ("first", "cancel_order")))
    agent = agent_of(registry, [*tools_for("first", log=log), slow("cancel_order", hang, destructive=True)])
    first = ended_in_time(hang, agent)
    record = first.runs[0].records[-1]
    assert (first.status, record.fault, record.unknown) == ("failed", "timeout", True)
    assert "Cancel order was started, and its outcome is unknown: it may have been done." in first.text
    assert record.error == "cancel_order was started but did not end within 10 s: it may have been done"
    second, _ = timed(hang, lambda: agent.turn("both", first.conversation))
    assert (second.status, hang.begun) == ("confirming", 1)
    assert "may have been done all the same, and would be tried again: Cancel order" in second.text


def test_once_the_time_is_over_no_tool_is_begun_not_even_a_fallback() -> None:
    hang = Hang("third")

    class Callback:
        decide = staticmethod(hang.ignores)

    registry, log = shop_of(("both", ("first", "second", "third"))), list[str]()
    flow = registry.by_name("both")
    assert flow is not None
    point = GuidedDecisionPoint(after_step="first", candidate_tools=["second", "third"], fallback_tool="second")
    vars(flow).update(chain=("first", point))
    tools = tools_for("first", "second", "third", log=log)
    first = ended_in_time(hang, agent_of(registry, tools, decision_callback=Callback()))
    record = first.runs[0].records[-1]
    assert (log, record.fault, record.attempts, record.unknown) == (["first"], "timeout", 0, False)
    assert record.error.endswith("second was not run: of 10 s for the whole turn none were left")


@pytest.mark.parametrize("how", ["hangs", "ignores"])
def test_of_a_chain_without_a_flow_its_calls_are_kept_and_told(how: str) -> None:
    hang, log = Hang("Done."), list[str]()
    said = ScriptedModel(call("first"))

    async def model(messages: Any) -> str:
        return await getattr(hang, how)() if said.calls else (await said.complete(messages)).text

    first = ended_in_time(hang, without_flows(tools_for("first", log=log), model), "first, please")
    assert (first.status, first.chain is not None and [each.ok for each in results(first.chain)]) == ("failed", [True])
    assert first.text == "The time for this ran out before all of it was done. Done so far: First."


def test_an_answer_that_does_not_get_into_its_schema_in_time_is_told_in_prose() -> None:
    hang, log = Hang('{"mood": "fine"}'), list[str]()
    agent = both_of(log, model=hang.hangs)
    first = ended_in_time(hang, agent, schema=MOOD)
    assert (first.status, first.value, type(first.error)) == ("done", None, FormatError)
    assert first.text == "Both is done.\n\nThe time for this ran out before all of it was done."
    assert first.conversation.flows == ()
    assert log == ["first", "second"]


def test_flows_that_were_chosen_and_not_begun_wait() -> None:
    hang, log = Hang({}), list[str]()
    registry = shop_of(("one", ("slow",)), ("two", ("first",)))
    selector = FlowSelector(ScriptedModel('["one", "two"]'), registry, ListMemory(metadata("one", "two")), "support")
    agent = Agent(selector, [slow("slow", hang), *tools_for("first", log=log)], approval="never")
    first = ended_in_time(hang, agent, "both")
    assert [flow.name for flow in first.conversation.flows] == ["two", "one"]
    second, _ = timed(hang, lambda: agent.turn("yes", first.conversation))
    assert (second.flows, log) == (["one", "two"], ["first"])


def test_a_flow_that_is_queued_behind_one_that_took_all_the_time_is_not_begun() -> None:
    hang, log = Hang({}), list[str]()

    def takes_all_of_it() -> dict[str, str]:
        hang.pass_time(LIMIT_S)
        return {}

    registry = shop_of(("one", ("slow",)), ("two", ("first",)))
    selector = FlowSelector(ScriptedModel('["one", "two"]'), registry, ListMemory(metadata("one", "two")), "support")
    tools = [Tool(name="slow", function=takes_all_of_it), *tools_for("first", log=log)]
    first = ended_in_time(hang, Agent(selector, tools, approval="never"), "both")
    assert (first.status, first.flows, log) == ("failed", ["one"], [])
    assert first.reason == "the 10 s of the turn were over before two was started"
    assert first.text == "One is done.\n\nThe time for this ran out before all of it was done."
    assert [(flow.name, flow.status) for flow in first.conversation.flows] == [("two", "queued")]


# --- whom it binds -------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "turn", "took_s"),
    [
        pytest.param({}, {}, 60, id="by default"),
        pytest.param({"timeout_s": 5.0}, {}, 5, id="the agent's"),
        pytest.param({"timeout_s": 5.0}, {"timeout_s": 7.0}, 7, id="the turn's"),
        pytest.param({"timeout_s": 5.0}, {"timeout_s": None}, 90, id="none for this turn"),
        pytest.param({"timeout_s": None}, {}, 90, id="none"),
    ],
)
def test_the_limit_is_the_agents_or_the_turns(own: dict[str, Any], turn: dict[str, Any], took_s: int) -> None:
    hang = Hang("Done.")
    agent = without_flows([], hang.hangs, model_timeout_s=90.0, **own)
    result, waited_s = timed(hang, lambda: agent.turn("hello", **turn))
    assert (result.status, round(waited_s)) == ("failed", took_s)


@pytest.mark.parametrize("limit", [0, -1, "60", True, float("nan")])
async def test_a_limit_that_is_none_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigError, match="timeout_s must be a number of seconds above 0, or None"):
        without_flows([], None, timeout_s=limit)
    with pytest.raises(ConfigError, match="timeout_s must be a number of seconds above 0, or None"):
        await without_flows([], None).turn("hello", timeout_s=limit)


@pytest.mark.parametrize("how", ["hangs", "ignores", "blocks"])
def test_a_caller_who_leaves_is_let_go(how: str) -> None:
    hang = Hang()
    agent = agent_of(shop_of(("both", ("slow",))), [Tool(name="slow", function=getattr(hang, how))])

    async def left() -> bool:
        task = asyncio.ensure_future(agent.turn("both"))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    was_cancelled, took_s = timed(hang, left)
    assert was_cancelled
    assert 1 <= took_s < 1.5


def test_a_turn_within_a_turn_ends_with_that_one() -> None:
    hang, heard = Hang("Done."), list[Any]()
    inner = without_flows([], hang.hangs, model_timeout_s=None)

    async def ask_another() -> str:
        heard.append(await inner.turn("hello", timeout_s=1_000))
        return heard[-1].text

    outer = agent_of(shop_of(("both", ("ask_another",))), [Tool(name="ask_another", function=ask_another)])
    result = ended_in_time(hang, outer)
    assert result.status == "failed"
    assert heard == []  # the inner one is left with its tool


@pytest.mark.parametrize(("tool_s", "status"), [(0, "done"), (1_000, "failed")], ids=["in time", "too late"])
def test_what_a_tool_leaves_running_is_not_bound_once_the_turn_has_ended(tool_s: int, status: str) -> None:
    inner = without_flows([], ScriptedModel("Done.", delay_s=100), model_timeout_s=None)
    begun: list[asyncio.Task[Any]] = []

    async def begin() -> None:
        async def later() -> Any:
            await asyncio.sleep(2 * LIMIT_S)
            return await inner.turn("hello", timeout_s=None)

        begun.append(asyncio.ensure_future(later()))
        await asyncio.sleep(tool_s)

    outer = agent_of(shop_of(("both", ("begin",))), [Tool(name="begin", function=begin)])

    async def both() -> tuple[str, str]:
        return (await outer.turn("both", timeout_s=LIMIT_S)).status, (await begun[0]).status

    statuses, took_s = timed(Hang(), both)
    assert (statuses, took_s) == ((status, "done"), 120)


# --- hooks in threads ----------------------------------------------------------

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


def sets_plain(*_: Any) -> None:
    TENANT.set("ada")


async def sets_async(*_: Any) -> None:
    TENANT.set("ada")


@pytest.mark.spec("005.6")
@pytest.mark.parametrize("limit_s", [None, 60.0], ids=["without a limit", "with one"])
@pytest.mark.parametrize(
    ("options", "model"),
    [
        pytest.param({"guards": [Guard("tenant", sets_plain, ())]}, False, id="a guard"),
        pytest.param({"before_call": sets_plain}, True, id="plain before_call"),
        pytest.param({"before_call": sets_async}, True, id="async before_call"),
    ],
)
async def test_what_a_hook_sets_in_context_variables_tools_find(
    options: dict[str, Any], model: bool, limit_s: float | None
) -> None:
    seen: list[str] = []
    tool = Tool(name="look", function=lambda: seen.append(TENANT.get()))
    script = ScriptedModel(call("look"), "Done.")
    agent = (
        without_flows([tool], script, **options) if model else agent_of(shop_of(("both", ("look",))), [tool], **options)
    )
    assert (await agent.turn("both", timeout_s=limit_s)).status == "done"
    assert seen == ["ada"]


@pytest.mark.spec("005.6")
@pytest.mark.parametrize("how", ["hangs", "ignores", "blocks"])
def test_a_listener_that_hangs_holds_nobody_beyond_the_time(how: str) -> None:
    hang, log = Hang(), list[str]()

    async def within() -> Any:
        with time_budget(LIMIT_S):
            ask = [Message(role="user", content="first")]
            model = ScriptedModel(call("first"), "Done.")
            try:
                return await run_chain(model, ask, tools_for("first", log=log), on_event=getattr(hang, how))
            except Exception as error:  # noqa: BLE001 - looked at below
                return error

    error, took_s = timed(hang, within)
    assert ("no time was left" in str(error), log) == (True, [])
    assert LIMIT_S <= took_s < MOST_S


@pytest.mark.spec("005.6")
@pytest.mark.parametrize("is_method", [True, False])
async def test_a_listener_hears_all_in_order(is_method: bool) -> None:
    heard: list[Any] = []

    def hear(event: Any) -> None:
        heard.append(event)

    model = ScriptedModel(call("first"), call("second"), "Done.")
    tools = tools_for("first", "second", log=[])
    await run_chain(model, [Message(role="user", content="go")], tools, on_event=heard.append if is_method else hear)
    assert [each.result.tool for each in heard if isinstance(each, ToolReturned)] == ["first", "second"]


@pytest.mark.spec("005.6")
async def test_a_listener_may_be_a_method_of_the_loops_own_queue() -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue()
    asyncio.get_running_loop().set_debug(True)
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    await run_chain(ScriptedModel("Hi."), [Message(role="user", content="go")], on_event=queue.put_nowait)
    assert (await waiting).purpose == "chain"


@pytest.mark.spec("005.6")
def test_a_guard_that_exits_ends_the_turn_and_nothing_else() -> None:
    def leaves(_: Any) -> None:
        raise SystemExit(3)

    agent = both_of([], guards=[Guard("fine", sets_plain, ()), Guard("leaver", leaves, ())])
    result, _ = timed(Hang(), lambda: agent.turn("both"))
    assert (result.status, result.reason) == ("blocked", "guard leaver failed: RuntimeError: SystemExit: 3")
