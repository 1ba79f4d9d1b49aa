"""The calls of a chain: what goes wrong with one is its result, what runs side by side, and the hooks around it."""

import json
import threading
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.transcript import (
    AfterCall,
    BeforeCall,
    ChainText,
    Event,
    ModelCalled,
    ToolCalled,
    ToolRequest,
    ToolResult,
    ToolReturned,
)
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel
from tests.unit.agent.support import ASK, FIND, SAID, call, giving, results, tools


class Unprintable(Exception):  # noqa: N818 - a name for a test
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError


def explode(**_: Any) -> None:
    raise Unprintable


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
    assert results(chain)[0].error == "find_order was started but did not end within 0.05 s: it may have been done"


async def test_a_misspelt_name_is_never_a_guess_at_what_destroys() -> None:
    ran: list[str] = []

    def wiped() -> None:
        ran.append("wiped")

    wipe = Tool(name="delete_all_orders", destructive=True, function=wiped)
    guess, exact = call("delete_orders"), call("delete_all_orders")
    chain = await run_chain(ScriptedModel(guess, SAID), ASK, [wipe])
    assert (ran, results(chain)[0].ok) == ([], False)
    await run_chain(ScriptedModel(exact, SAID), ASK, [wipe], approval="never")
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
