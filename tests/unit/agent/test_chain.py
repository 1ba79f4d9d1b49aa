"""The loop of a chain: what it tells the model, how it ends, its bounds and its arguments."""

import asyncio
import json
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.responder import run_chain_sync
from jazz_select.agent.chain.transcript import AssistantText, Chain, ToolRequest, ToolResult
from jazz_select.errors import ChainError, ConfigError, DuplicateToolError, ModelError
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message, Usage
from tests.unit.agent.support import ASK, FIND, SAID, SCHEMA, VALID, Cost, call, counted, giving, results, tools


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
            called=True,
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
    assert all(f"\n{tool.name} {{" in system.content for tool in tools())
    assert user == ASK[1]
    reply, told = model.calls[1][2:]
    assert reply == Message(role="assistant", content=FIND)
    label, line = told.content.splitlines()
    assert label == "TOOL RESULTS:"
    assert json.loads(line)["result"]["amount"] == 20


@pytest.mark.spec("018.11")
async def test_what_a_tool_returns_as_text_of_json_is_told_as_json() -> None:
    tool = Tool(name="find", function=lambda: '{"items": [{"sku": "L"}]}')
    model = ScriptedModel(call("find"), SAID)
    chain = await run_chain(model, ASK, [tool])
    line = model.calls[1][-1].content.splitlines()[1]
    assert json.loads(line)["result"] == {"items": [{"sku": "L"}]}
    assert [each.output for each in chain.entries if isinstance(each, ToolResult)] == ['{"items": [{"sku": "L"}]}']


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
        pytest.param(['{"find_order": 1}', '{"find_order": 1}'], 3, "answered", 0, id="insists on JSON"),
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
    halved, elided = results(chain)
    assert halved.ok
    assert "nested deeper" in json.dumps(elided.output, ensure_ascii=False)
    assert chain.answer == f"{SAID}\ufffd"
    assert Chain.from_dict(json.loads(json.dumps(chain.to_dict()))) == chain


async def test_a_chain_survives_a_restart() -> None:
    reply = f"Let me look.\n{FIND}\n" + '{"tool_call": {"tool": "unheard_of"}}'
    chain = await run_chain(ScriptedModel(counted(reply, 2), SAID), ASK, tools(), conversation_id="c")
    assert Chain.from_dict(json.loads(json.dumps(chain.to_dict()))) == chain


@pytest.mark.parametrize("junk", [{"entries": 5}, {"entries": [{"kind": "odd"}]}, {"status": "fine"}, []])
def test_what_is_no_chain_is_told(junk: Any) -> None:
    with pytest.raises(ConfigError, match="no Chain"):
        Chain.from_dict(junk)


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
    with pytest.raises(ConfigError, match="there is no request"):
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
    assert "\nodd {" in model.calls[0][0].content
    assert "\nfind_order {" in model.calls[0][0].content


async def test_a_chain_of_one_call_is_told_so() -> None:
    model = ScriptedModel(SAID)
    await run_chain(model, ASK, tools(), chain_limit=1)
    assert "No further call will be run: answer now, in plain text" in model.calls[0][0].content


@pytest.mark.parametrize(
    ("schema", "arguments", "ok"),
    [
        ({"properties": {"q": {"type": "string", "pattern": "^(a+)+$"}}}, {"q": "a" * 60 + "!"}, False),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 60 + "!": 1}, False),
        ({"properties": {"q": {}}, "additionalProperties": False}, {"q": 1}, True),
        ({"properties": {"q": {}}, "additionalProperties": False}, {"r": 1}, False),
        ({"additionalProperties": {"type": "string"}}, {"r": 1}, False),
    ],
    ids=["pattern", "patterns of names", "as declared", "not declared", "of the wrong type"],
)
@pytest.mark.timeout(10)
async def test_expressions_of_others_are_checked_in_linear_time(schema: Any, arguments: Any, ok: bool) -> None:
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
