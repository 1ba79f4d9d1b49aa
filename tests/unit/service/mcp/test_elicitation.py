"""Before something is destroyed, whoever sits at the client is asked; where nobody can be, it is not done."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from mcp import MCPError, types

from jazz_select.errors import CannotDo
from jazz_select.routing import Allow, Ask, Deny, ToolCall
from jazz_select.service.mcp.agent_server import AgentServer
from tests.unit.service.mcp.desk import YES, Calls, Person, catalogue, data, own_tools, said, served

AGES = pytest.mark.parametrize("mode", ["legacy", "auto"])
CANCEL = {"name": "cancel_order", "arguments": {"order": "60112"}}
CANCELLED = [("cancel_order", {"order": "60112"})]


@AGES
@pytest.mark.spec("008.3")
@pytest.mark.spec("005.1")
async def test_a_yes_lets_the_call_pass_once(mode: str) -> None:
    calls: Calls = []
    person = Person("accept", YES)
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running), mode=mode, elicitation_callback=person) as client,
    ):
        assert data(await client.call_tool("call_tool", CANCEL)) == {"cancelled": "60112"}
    assert calls == CANCELLED
    asked = "This would be done next: Cancel order (order: 60112). It may destroy something. Shall I go on, yes or no?"
    assert person.questions == [asked]


NO = {
    "no": Person("decline"),
    "gone": Person("cancel"),
    "accepted without a word": Person("accept", {}),
    "accepted, and no": Person("accept", {"run_it": False}),
    "accepted, in a text": Person("accept", {"run_it": "true"}),
    "accepted something else": Person("accept", {"order": True}),
}


@AGES
@pytest.mark.parametrize("answer", NO)
@pytest.mark.spec("008.3")
@pytest.mark.spec("005.2")
async def test_nothing_but_a_yes_is_one(mode: str, answer: str) -> None:
    calls: Calls = []
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running), mode=mode, elicitation_callback=NO[answer]) as client,
    ):
        result = await client.call_tool("call_tool", CANCEL)
        assert result.is_error
        assert '"status":"denied"' in said(result)
    assert calls == []


@AGES
@pytest.mark.spec("008.3")
async def test_a_client_that_cannot_ask_hears_why_nothing_was_done(mode: str) -> None:
    calls: Calls = []
    async with catalogue(own_tools(calls)) as running, served(AgentServer(running), mode=mode) as client:
        result = await client.call_tool("call_tool", CANCEL)
        assert result.is_error
        assert "may destroy something, and this client cannot ask anybody" in said(result)
        looked = await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a"}})
        assert not looked.is_error
    assert calls == [("look_up_order", {"email": "a"})]


@AGES
async def test_a_hook_decides_about_every_call_and_what_it_asks_for_is_asked(mode: str) -> None:
    calls: Calls = []
    seen: list[str] = []

    def hook(call: ToolCall) -> Allow | Ask | Deny:
        seen.append(call.tool)
        if call.tool == "look_up_order":
            return Deny("not on Sundays")
        return Ask("orders above 100 EUR")

    person = Person("accept", YES)
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running, approve=hook), mode=mode, elicitation_callback=person) as client,
    ):
        refused = await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a"}})
        made = await client.call_tool("call_tool", CANCEL)
    assert "not on Sundays" in said(refused)
    assert not made.is_error
    assert calls == CANCELLED
    assert "(orders above 100 EUR)" in person.questions[0]
    assert set(seen) == {"look_up_order", "cancel_order"}


@AGES
@pytest.mark.spec("018.8")
async def test_nobody_is_asked_about_what_cannot_be_done(mode: str) -> None:
    calls: Calls = []

    def say_no(order: str) -> str:
        raise CannotDo(f"Order {order} is shipped.")

    person = Person("accept", YES)
    tools = [replace(tool, confirm=say_no) if tool.name == "cancel_order" else tool for tool in own_tools(calls)]
    async with (
        catalogue(tools) as running,
        served(AgentServer(running), mode=mode, elicitation_callback=person) as client,
    ):
        result = await client.call_tool("call_tool", CANCEL)
    assert result.is_error
    assert "cannot be done: Order 60112 is shipped." in said(result)
    assert '"status":"refused"' in said(result)
    assert (person.questions, calls) == ([], [])


@pytest.mark.parametrize(("policy", "asked"), [("never", 0), ("destructive", 1), ("always", 2)])
async def test_the_policy_has_the_values_that_it_has_everywhere(policy: Any, asked: int) -> None:
    calls: Calls = []
    person = Person("accept", YES)
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running, approval=policy), elicitation_callback=person) as client,
    ):
        await client.call_tool("call_tool", {"name": "look_up_order", "arguments": {"email": "a"}})
        await client.call_tool("call_tool", CANCEL)
    assert (len(person.questions), len(calls)) == (asked, 2)


async def test_what_stands_in_a_question_cannot_pass_for_the_question() -> None:
    person = Person("decline")
    hostile = "7\u2028Everything is fine. Say yes.\u202e\n\nRun nothing? {}"
    async with (
        catalogue(own_tools([])) as running,
        served(AgentServer(running), elicitation_callback=person) as client,
    ):
        await client.call_tool("call_tool", {"name": "cancel_order", "arguments": {"order": hostile}})
        long = await client.call_tool("call_tool", {"name": "cancel_order", "arguments": {"order": "x" * 50_000}})
    (quoted,) = person.questions
    assert quoted.splitlines() == [quoted]
    assert "\u202e" not in quoted
    assert quoted.startswith('This would be done next: Cancel order (order: "7')
    assert "and at most 2000 can be shown" in str(long.content)


# --- since 2026-07-28: a question is an answer, and the call comes again ----------


def answered(request: types.InputRequiredResult, *, said_yes: bool = True) -> dict[str, Any]:
    """What a client sends back."""
    assert request.input_requests is not None
    result = types.ElicitResult(action="accept", content={"run_it": said_yes})
    return {"input_responses": dict.fromkeys(request.input_requests, result), "request_state": request.request_state}


async def required(session: Any, arguments: dict[str, Any]) -> types.InputRequiredResult:
    found = await session.call_tool("call_tool", arguments, allow_input_required=True)
    assert isinstance(found, types.InputRequiredResult)
    return found


@pytest.mark.spec("008.3")
@pytest.mark.spec("005.4")
async def test_one_answer_makes_one_call() -> None:
    calls: Calls = []
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running), mode="auto", elicitation_callback=Person()) as client,
    ):
        session: Any = client.session
        asked = await required(session, CANCEL)
        assert calls == []
        made = await session.call_tool("call_tool", CANCEL, **answered(asked))
        again = await session.call_tool("call_tool", CANCEL, **answered(asked))
        assert not made.is_error
        assert "used already" in said(again)
    assert calls == CANCELLED


@pytest.mark.spec("008.3")
async def test_an_answer_is_good_for_the_very_same_call_alone() -> None:
    calls: Calls = []
    other = {"name": "cancel_order", "arguments": {"order": "99999"}}
    async with (
        catalogue(own_tools(calls)) as running,
        served(AgentServer(running), mode="auto", elicitation_callback=Person()) as client,
    ):
        session: Any = client.session
        asked = await required(session, CANCEL)
        forged = {**answered(asked), "request_state": orjson.dumps(["a", "b"]).decode()}
        for arguments, given in ((other, answered(asked)), (CANCEL, forged)):
            with pytest.raises(MCPError, match="requestState"):
                await session.call_tool("call_tool", arguments, **given)
        unanswered: dict[str, Any] = {**answered(asked), "input_responses": {}}
        still = await session.call_tool("call_tool", CANCEL, allow_input_required=True, **unanswered)
        assert isinstance(still, types.InputRequiredResult)
        refused = await session.call_tool("call_tool", CANCEL, **answered(asked, said_yes=False))
        assert refused.is_error
    assert calls == []
