"""The loop of a chain: calls are run and told, faults become results, and it ends when it should."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.responder import run_chain_sync
from jazz_select.agent.chain.tool_calls import AfterCall, BeforeCall
from jazz_select.agent.chain.transcript import (
    AssistantText,
    Chain,
    ChainText,
    Event,
    ModelCalled,
    ToolCalled,
    ToolRequest,
    ToolResult,
    ToolReturned,
)
from jazz_select.errors import ChainError, ConfigError, DuplicateToolError, ModelError
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, Usage
from tests.unit.agent.support import ASK, FIND, SAID, SCHEMA, VALID, Cost, counted, tools


def call(tool: str, **arguments: Any) -> str:
    return json.dumps({"tool_call": {"id": "s1", "tool": tool, "arguments": arguments}})


def results(chain: Chain) -> list[ToolResult]:
    return [entry for entry in chain.entries if isinstance(entry, ToolResult)]


async def test_a_chain_holds_all_that_happened_in_order() -> None:
    model = ScriptedModel(counted(f"Let me look.\n{FIND}", 3), counted(SAID, 4))
    chain = await run_chain(model, ASK, tools(), conversation_id="c1")
    assert chain.entries == (
        AssistantText(text="Let me look."),
        ToolRequest(id="s1", round=1, tool="find_order", requested="find_order", arguments={"order_id": "A1"}),
        ToolResult(
            id="s1",
            round=1,
            tool="find_order",
            ok=True,
            output={"order_id": "A1", "amount": 20, "email": "a@example.org"},
        ),
        AssistantText(text=SAID),
    )
    assert (chain.answer, chain.status, chain.incomplete) == (SAID, "answered", False)
    assert (chain.messages, chain.conversation_id, chain.model_calls) == (ASK, "c1", 2)
    assert chain.usage == Usage(input_tokens=7, output_tokens=7)
    assert [(record.purpose, record.conversation_id) for record in chain.records] == [("chain", "c1")] * 2


async def test_the_model_sees_the_tools_and_then_their_results() -> None:
    model = ScriptedModel(FIND, SAID)
    await run_chain(model, ASK, tools())
    system, user = model.calls[0]
    assert system.content.startswith("You work in a shop.\n\n")
    assert all(f'"name":"{tool.name}"' in system.content for tool in tools())
    assert user == ASK[1]
    reply, told = model.calls[1][2:]
    assert reply == Message(role="assistant", content=FIND)
    label, line = told.content.splitlines()
    assert label == "TOOL RESULTS:"
    assert json.loads(line)["result"]["amount"] == 20


@pytest.mark.spec("001.1")
@pytest.mark.parametrize("schema", [SCHEMA, Cost])
async def test_no_schema_on_tool_turns(schema: Any) -> None:
    model = ScriptedModel(FIND, SAID, takes_schema=True)
    chain = await run_chain(model, ASK, tools(), schema=schema)
    assert model.schemas == [None, None]
    assert not any('"amount"' in message.content for message in model.calls[0][1:])
    assert chain.answer == SAID


@pytest.mark.spec("001.3")
async def test_without_tools_the_loop_is_one_call_and_nothing_is_added() -> None:
    model = ScriptedModel(FIND)
    chain = await run_chain(model, ASK)
    assert model.calls == [ASK]
    assert (chain.answer, chain.status) == (FIND, "answered")


# --- how it ends ---------------------------------------------------------------


@pytest.mark.spec("001.4")
@pytest.mark.parametrize(
    ("replies", "limit", "status", "ran"),
    [
        pytest.param([SAID], 1, "answered", 0, id="prose at once"),
        pytest.param([FIND, SAID], 2, "answered", 1, id="prose at the limit"),
        pytest.param([FIND, FIND], 2, "limit", 1, id="a call at the limit is not run"),
        pytest.param([FIND], 1, "limit", 0, id="a limit of one"),
        pytest.param([FIND, FIND, SAID], 8, "answered", 2, id="prose before it"),
        pytest.param(["", "", ""], 3, "limit", 0, id="nothing at all"),
        pytest.param(['{"tool_call": {"to', SAID], 2, "answered", 0, id="one broken reply"),
        pytest.param(['{"a": 1}', '{"a": 1}'], 3, "answered", 0, id="insists on JSON of its own"),
    ],
)
async def test_the_loop_ends_with_prose_or_at_its_limit(replies: list[str], limit: int, status: str, ran: int) -> None:
    model, runs = ScriptedModel(*replies), [0]

    def find_order(order_id: str) -> str:
        runs[0] += 1
        return order_id

    chain = await run_chain(model, ASK, tools(find_order=find_order), chain_limit=limit)
    assert (chain.status, runs[0], chain.model_calls) == (status, ran, len(replies))
    assert chain.incomplete == (status == "limit")
    if status == "limit":
        assert chain.notes[-1] == f"the chain was cut short by its limit of {limit} model calls"


@pytest.mark.spec("001.4")
async def test_the_model_is_told_before_its_last_turn() -> None:
    model = ScriptedModel(FIND, FIND, SAID)
    await run_chain(model, ASK, tools(), chain_limit=3)
    assert ["No further call" in messages[-1].content for messages in model.calls] == [False, False, True]


@pytest.mark.spec("001.11")
async def test_a_failing_model_leaves_the_chain_so_far() -> None:
    failure = ModelError("m", "no credit", retryable=False)
    with pytest.raises(ChainError, match="no credit") as caught:
        await run_chain(ScriptedModel(FIND, failure), ASK, tools())
    assert caught.value.__cause__ is failure
    assert (caught.value.chain.status, len(results(caught.value.chain))) == ("failed", 1)


async def test_a_passing_failure_is_tried_again() -> None:
    busy = ModelError("m", "busy", retryable=True, retry_after=0.0)
    assert (await run_chain(ScriptedModel(busy, SAID), ASK, tools())).answer == SAID


async def test_a_late_model_is_a_chain_error() -> None:
    with pytest.raises(ChainError, match="no answer within"):
        await run_chain(ScriptedModel(SAID, delay_s=5), ASK, tools(), model_timeout_s=0.01)


# --- calls that cannot be made, or go wrong ------------------------------------


class Unprintable(Exception):  # noqa: N818 - a name for a test
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError


def explode(**_: Any) -> None:
    raise Unprintable


def giving(output: Any) -> Callable[..., Any]:
    """A tool that returns this."""

    def give(**_: Any) -> Any:
        return output

    return give


@pytest.mark.parametrize(
    ("reply", "function", "problem"),
    [
        pytest.param(call("fly_to_moon"), None, "no connected tool is like it", id="unknown"),
        pytest.param(call("find_order"), None, "'order_id' is a required property", id="missing argument"),
        pytest.param(call("find_order", order_id=5), None, "order_id: 5 is not of type 'string'", id="wrong type"),
        pytest.param('{"tool_call": {"tool": "find_order", "arguments": [1]}}', None, "no JSON object", id="no object"),
        pytest.param('{"tool_call": {"arguments": {}}}', None, "names no tool", id="nameless"),
        pytest.param(call("find_order", order_id={"$ref": "s9#/x"}), None, "no step of this plan", id="lost reference"),
        pytest.param(call("find_order", order_id="A1"), explode, "failed: Unprintable", id="raises"),
        pytest.param(call("find_order", order_id="A1"), giving({1, 2}), "no JSON", id="a set"),
        pytest.param(call("find_order", order_id="A1"), giving(10**30), "it ran, but", id="a large number"),
    ],
)
async def test_what_goes_wrong_with_a_call_is_its_result(reply: str, function: Any, problem: str) -> None:
    model = ScriptedModel(reply, SAID)
    changes = {"find_order": function} if function else {}
    chain = await run_chain(model, ASK, tools(**changes))
    [result] = results(chain)
    assert (result.ok, chain.status) == (False, "answered")
    assert problem in result.error
    assert json.dumps(result.error)[1:40] in model.calls[1][-1].content


async def test_a_hanging_tool_is_left_behind() -> None:
    released = threading.Event()

    def wait(order_id: str) -> bool:
        return released.wait(10)

    hang = tools(find_order=wait)
    try:
        chain = await run_chain(ScriptedModel(FIND, SAID), ASK, hang, tool_timeout_s=0.05)
    finally:
        released.set()
    assert results(chain)[0].error == "find_order gave no answer within 0.05 s"


async def test_a_misspelt_name_is_never_a_guess_at_what_destroys() -> None:
    ran: list[str] = []

    def wiped() -> None:
        ran.append("wiped")

    wipe = Tool(name="delete_all_orders", destructive=True, function=wiped)
    guess, exact = call("delete_orders"), call("delete_all_orders")
    chain = await run_chain(ScriptedModel(guess, SAID), ASK, [wipe])
    assert (ran, results(chain)[0].ok) == ([], False)
    await run_chain(ScriptedModel(exact, SAID), ASK, [wipe])
    assert ran == ["wiped"]


async def test_a_call_uses_the_output_of_another_of_the_same_reply() -> None:
    reply = json.dumps(
        {
            "tool_calls": [
                {"id": "b", "tool": "send_mail", "arguments": {"email": {"$ref": "a#/email"}}},
                {"id": "a", "tool": "find_order", "arguments": {"order_id": "A1"}},
            ]
        }
    )
    chain = await run_chain(ScriptedModel(reply, SAID), ASK, tools())
    assert results(chain)[0].output == "sent to a@example.org"
    broken = tools(find_order=explode)
    chain = await run_chain(ScriptedModel(reply, SAID), ASK, broken)
    assert "uses the output of a, which failed" in results(chain)[0].error


async def test_calls_run_side_by_side_but_what_destroys_runs_alone_and_in_its_place() -> None:
    running: set[str] = set()
    seen: list[tuple[str, ...]] = []

    def made(name: str, *, destructive: bool = False) -> Tool:
        async def work() -> None:
            running.add(name)
            await asyncio.sleep(0.01)
            seen.append(tuple(sorted(running)))
            running.discard(name)

        return Tool(name=name, function=work, destructive=destructive)

    shop = [made("a"), made("b"), made("wipe", destructive=True), made("c")]
    reply = json.dumps({"tool_calls": [{"tool": tool.name} for tool in shop]})
    chain = await run_chain(ScriptedModel(reply, SAID), ASK, shop, at_once=4)
    assert seen == [("a", "b"), ("b",), ("wipe",), ("c",)]
    assert [result.tool for result in results(chain)] == ["a", "b", "wipe", "c"]


# --- hooks ---------------------------------------------------------------------


async def no(_: ToolRequest) -> bool:
    return False


def crash(*_: object) -> Any:
    msg = "hook down"
    raise RuntimeError(msg)


BEFORE: list[tuple[BeforeCall, str]] = [
    (lambda request: None, ""),
    (lambda request: True, ""),
    (lambda request: False, "not run: the call was cancelled"),
    (no, "not run: the call was cancelled"),
    (lambda request: f"no {request.tool} today", "not run: no find_order today"),
    (crash, "not run: before_call failed: RuntimeError: hook down"),
]


@pytest.mark.parametrize(
    ("hook", "error"),
    BEFORE,
    ids=["none", "true", "false", "async", "reason", "crash"],
)
async def test_a_hook_may_cancel_a_call(hook: Any, error: str) -> None:
    model = ScriptedModel(FIND, SAID)
    chain = await run_chain(model, ASK, tools(), before_call=hook)
    assert results(chain)[0].error == error
    assert error in model.calls[1][-1].content


AFTER: list[tuple[AfterCall, bool, str]] = [
    (lambda request, result: None, True, "a@example.org"),
    (lambda request, result: {"amount": result.output["amount"]}, True, '"amount": 20'),
    (crash, False, "withheld"),
    (lambda request, result: object(), False, "withheld"),
]


@pytest.mark.parametrize(
    ("hook", "ok", "shown"),
    AFTER,
    ids=["observes", "replaces", "crash", "no JSON"],
)
async def test_a_hook_may_replace_a_result(hook: Any, ok: bool, shown: str) -> None:
    model = ScriptedModel(FIND, SAID)
    chain = await run_chain(model, ASK, tools(), after_call=hook)
    assert results(chain)[0].ok is ok
    told = model.calls[1][-1].content
    assert shown in told
    assert ("a@example.org" in told) is (shown == "a@example.org")


@pytest.mark.spec("001.10")
async def test_events_come_as_it_happens_and_a_failing_listener_disturbs_nothing() -> None:
    events: list[Event] = []

    async def hear(event: Event) -> None:
        events.append(event)
        raise RuntimeError

    chain = await run_chain(ScriptedModel(f"Looking.\n{FIND}", SAID), ASK, tools(), on_event=hear)
    request, result = chain.entries[1:3]
    assert isinstance(request, ToolRequest)
    assert isinstance(result, ToolResult)
    assert events == [
        ModelCalled(purpose="chain", number=1),
        ChainText(text="Looking."),
        ToolCalled(call=request),
        ToolReturned(result=result),
        ModelCalled(purpose="chain", number=2),
        ChainText(text=SAID, closing=True),
    ]


# --- bounds, state, arguments --------------------------------------------------


async def test_long_results_are_cut_so_that_one_can_see_it() -> None:
    model = ScriptedModel(FIND, SAID)
    chain = await run_chain(model, ASK, tools(find_order=giving("x" * 1_000_000)))
    assert len(results(chain)[0].output) == 1_000_000
    told = model.calls[1][-1].content
    assert len(told) < 50_000
    assert "characters cut" in told


async def test_deep_and_odd_values_can_be_stored() -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    odd = '{"tool_call": {"tool": "find_order", "arguments": {"order_id": "\\ud800", "n": 1e999}}}'
    open_tools = [Tool(name="find_order", function=giving(deep))]
    chain = await run_chain(ScriptedModel(odd, f"\ud800{FIND}", f"{SAID}\ud800"), ASK, open_tools)
    refused, elided = results(chain)
    assert "surrogates not allowed" in refused.error
    assert "nested deeper" in json.dumps(elided.output, ensure_ascii=False)
    assert chain.answer == f"{SAID}?"
    assert Chain.from_json(json.loads(json.dumps(chain.as_json()))) == chain


async def test_a_chain_survives_a_restart() -> None:
    reply = f"Let me look.\n{FIND}\n" + '{"tool_call": {"tool": "unheard_of"}}'
    chain = await run_chain(ScriptedModel(counted(reply, 2), SAID), ASK, tools(), conversation_id="c")
    assert Chain.from_json(json.loads(json.dumps(chain.as_json()))) == chain


@pytest.mark.parametrize("junk", [{"entries": 5}, {"entries": [{"kind": "odd"}]}, {"status": "fine"}, []])
def test_what_is_no_chain_is_told(junk: Any) -> None:
    with pytest.raises(ConfigError, match="no chain"):
        Chain.from_json(junk)


async def test_calls_are_traced() -> None:
    with Trace() as trace:
        await run_chain(ScriptedModel(FIND, SAID), ASK, tools())
    assert [(span.name, span.kind) for span in trace] == [
        ("chain", "node"),
        ("ScriptedModel", "chat"),
        ("find_order", "tool"),
        ("ScriptedModel", "chat"),
    ]


async def test_cancelling_ends_the_tool() -> None:
    ended = asyncio.Event()
    started = asyncio.Event()

    async def wait(order_id: str) -> None:
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(run_chain(ScriptedModel(FIND), ASK, tools(find_order=wait)))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


@pytest.mark.spec("001.16")
@pytest.mark.parametrize(
    "schema",
    [{"type": "odd"}, {"$ref": "#/$defs/missing"}, {"properties": {"a": {"$ref": "#/x"}}}, int, "text", [1]],
    ids=repr,
)
async def test_a_schema_that_cannot_work_is_told_before_the_first_call(schema: Any) -> None:
    model = ScriptedModel(VALID)
    with pytest.raises(ConfigError):
        await run_chain(model, ASK, tools(), schema=schema)
    assert model.calls == []


@pytest.mark.parametrize(
    "options",
    [
        {"chain_limit": 0},
        {"chain_limit": True},
        {"at_once": 0},
        {"tool_timeout_s": 0},
        {"strategy": "odd"},
        {"model_timeout_s": -1},
        {"max_retries": -1},
    ],
    ids=repr,
)
async def test_options_that_cannot_work_are_told(options: Any) -> None:
    model = ScriptedModel(SAID)
    with pytest.raises(ConfigError):
        await run_chain(model, ASK, tools(), **options)
    assert model.calls == []


async def test_no_messages_or_two_tools_of_one_name_cannot_work() -> None:
    with pytest.raises(ConfigError, match="begins with a request"):
        await run_chain(ScriptedModel(SAID), ())
    with pytest.raises(DuplicateToolError):
        await run_chain(ScriptedModel(SAID), ASK, [*tools(), *tools()])


async def test_a_tool_with_a_broken_schema_takes_nothing_else_with_it() -> None:
    odd = Tool(name="odd", input_schema={"type": "nonsense"}, function=lambda: 1)
    far = Tool(name="far", input_schema={"$ref": "http://192.0.2.1/schema.json"}, function=lambda: 1)
    reply = (
        '{"tool_calls": [{"tool": "odd"}, {"tool": "far"}, {"tool": "find_order", "arguments": {"order_id": "A1"}}]}'
    )
    chain = await run_chain(ScriptedModel(reply, SAID), ASK, [odd, far, *tools()])
    assert [result.ok for result in results(chain)] == [False, False, True]


async def test_a_tool_that_cannot_be_listed_whole_is_listed_by_name() -> None:
    odd = Tool(name="odd", description="\ud800", input_schema={"title": "\ud800"}, function=giving(1))
    model = ScriptedModel(SAID)
    await run_chain(model, ASK, [odd, *tools()])
    assert '"name": "odd"' in model.calls[0][0].content
    assert '"name":"find_order"' in model.calls[0][0].content


async def test_a_chain_of_one_call_is_told_so() -> None:
    model = ScriptedModel(SAID)
    await run_chain(model, ASK, tools(), chain_limit=1)
    assert "No further call will be run: answer now, in plain text" in model.calls[0][0].content


@pytest.mark.parametrize(
    ("schema", "arguments", "ok"),
    [
        ({"properties": {"q": {"type": "string", "pattern": "^(a+)+$"}}}, {"q": "a" * 60 + "!"}, True),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}, True),
        ({"properties": {"q": {}}, "additionalProperties": False}, {"q": 1}, True),
        ({"properties": {"q": {}}, "additionalProperties": False}, {"r": 1}, False),
        ({"additionalProperties": {"type": "string"}}, {"r": 1}, False),
    ],
    ids=["pattern", "patterns of names", "as declared", "not declared", "of the wrong type"],
)
@pytest.mark.timeout(10)
async def test_expressions_of_others_are_left_to_their_tools(schema: Any, arguments: Any, ok: bool) -> None:
    look = Tool(name="look", input_schema={"type": "object", **schema}, function=giving("seen"))
    chain = await run_chain(ScriptedModel(call("look", **arguments), SAID), ASK, [look])
    assert results(chain)[0].ok is ok


@pytest.mark.spec("001.15")
def test_sync_and_async_agree() -> None:
    there = asyncio.run(run_chain(ScriptedModel(FIND, SAID), ASK, tools()))
    assert run_chain_sync(ScriptedModel(FIND, SAID), ASK, tools()) == there


@pytest.mark.spec("001.15")
async def test_sync_says_so_where_a_loop_runs() -> None:
    with pytest.raises(ConfigError, match=r"await run_chain\("):
        run_chain_sync(ScriptedModel(SAID), ASK)
