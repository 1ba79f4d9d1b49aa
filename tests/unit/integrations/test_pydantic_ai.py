"""The parts for pydantic-ai, with its own agent and a scripted model of its own."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied, ToolFailed
from pydantic_ai.exceptions import UnexpectedModelBehavior, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from jazz_select.integrations.pydantic_ai import FlowToolset
from jazz_select.integrations.pydantic_ai_capability import FlowCapability
from jazz_select.routing import Deny
from jazz_select.routing.approval import Verdict
from jazz_select.testing import MemoryClaims
from tests.unit.integrations.desk import ASKS, MOVE, QUESTION, REFUND, TRACK, UNCLEAR, VERDICTS, Desk, saying

pytestmark = pytest.mark.spec("009.4")
OUTPUT = [str, DeferredToolRequests]
ASKED = "I want my money back for A1"


class Script:
    """A model that replies with these parts, one list after the other; `seen` is what it was given each time."""

    def __init__(self, *replies: list[Any]) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[list[ModelMessage], AgentInfo]] = []
        self.model = FunctionModel(self.reply)

    def reply(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append((messages, info))
        parts = self.replies.pop(0) if self.replies else [TextPart("Done.")]
        return ModelResponse(parts=parts)

    @property
    def tools(self) -> list[str]:
        return [tool.name for tool in self.seen[0][1].function_tools]

    @property
    def instructions(self) -> str:
        request = self.seen[0][0][-1]
        assert isinstance(request, ModelRequest)
        return request.instructions or ""

    def answers(self) -> list[Any]:
        """What the last request said of calls."""
        message = self.seen[-1][0][-1]
        return [each for each in message.parts if isinstance(each, ToolReturnPart)]


def call(tool: str, call_id: str = "c1", **arguments: Any) -> ToolCallPart:
    return ToolCallPart(tool, arguments, tool_call_id=call_id)


def with_toolset(desk: Desk, script: Script, **options: Any) -> Agent[None, Any]:
    return Agent(
        script.model, output_type=OUTPUT, toolsets=[FlowToolset(desk.toolkit(**options))], deps_type=type(None)
    )


def with_capability(desk: Desk, script: Script, **options: Any) -> Agent[None, Any]:
    """The agent's own tools, by the names that the house knows them by, and one that no flow knows."""
    agent = Agent(
        script.model, output_type=OUTPUT, capabilities=[FlowCapability(desk.toolkit(**options))], deps_type=type(None)
    )
    functions = {tool.name.replace(".", "_"): tool.function for tool in desk.tools()}

    @agent.tool_plain
    def look_up(order_id: str) -> Any:
        return functions["look_up"](order_id=order_id)  # type: ignore[misc] # pyright: ignore[reportOptionalCall]

    @agent.tool_plain
    def shop_pay_back(order_id: str) -> Any:
        return functions["shop_pay_back"](order_id=order_id)  # pyright: ignore[reportOptionalCall]

    @agent.tool_plain
    def redirect(order_id: str) -> Any:
        return functions["redirect"](order_id=order_id)  # pyright: ignore[reportOptionalCall]

    @agent.tool_plain
    def weather() -> str:
        return "fine"

    return agent


Made = Callable[..., Agent[None, Any]]
BOTH = pytest.mark.parametrize("made", [with_toolset, with_capability])


@BOTH
async def test_a_run_shows_what_was_selected(made: Made) -> None:
    desk, script = Desk(TRACK), Script()
    await made(desk, script).run("Where is A1?")
    assert [name for name in script.tools if name != "weather"] == ["look_up"]
    assert '<flow name="track_order"' in script.instructions
    assert desk.memory.calls[-1].query.startswith("Where is A1?")


async def test_a_tool_that_no_flow_knows_stays_with_an_agent_of_its_own() -> None:
    script = Script()
    await with_capability(Desk(TRACK), script).run("Where is A1?")
    assert script.tools == ["look_up", "weather"]


@BOTH
async def test_what_was_said_before_helps_to_find_the_flow(made: Made) -> None:
    desk, script = Desk(REFUND), Script()
    agent = made(desk, script)
    first = await agent.run("It is about A1")
    await agent.run("money back please", message_history=first.all_messages())
    assert "It is about A1" in desk.memory.calls[-1].query


@BOTH
async def test_a_tool_is_called_and_its_answer_goes_back(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("look_up", order_id="A1")], [TextPart("It has arrived.")])
    result = await made(desk, script).run(ASKED)
    assert (result.output, desk.done) == ("It has arrived.", ["look_up A1"])
    assert [each.content for each in script.answers()] == [{"order_id": "A1", "state": "delivered"}]


@BOTH
@pytest.mark.spec("005.3")
async def test_what_destroys_waits_for_a_yes_and_is_done_once(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")], [TextPart("Refunded.")])
    agent = made(desk, script)
    asked = await agent.run(ASKED)
    assert isinstance(asked.output, DeferredToolRequests)
    assert [each.tool_name for each in asked.output.approvals] == ["shop_pay_back"]
    about = asked.output.metadata["c1"]
    assert about["title"] == "Refund of an order"
    assert about["question"] == (
        "This would be done next: Refund of an order (order id: A1). Shall I go on, yes or no?"
    ), "the words of every other door"
    assert desk.done == []
    done = await agent.run(
        message_history=asked.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"c1": True})
    )
    assert (done.output, desk.done) == ("Refunded.", ["pay_back A1"])


@BOTH
@pytest.mark.spec("012.1")
async def test_a_tool_that_is_another_one_since_the_question_is_asked_about_anew(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    toolkit = desk.toolkit()

    def same(**_: Any) -> Any:
        return toolkit

    vars(desk)["toolkit"] = same
    agent = made(desk, script)
    asked = await agent.run(ASKED)
    object.__setattr__(toolkit.tools["shop_pay_back"], "description", "Closes the account.")
    again = await agent.run(
        message_history=asked.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"c1": True})
    )
    assert isinstance(again.output, DeferredToolRequests)
    assert desk.done == []


@BOTH
async def test_what_was_asked_about_is_there_again_though_another_flow_is_found(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    agent = made(desk, script)
    asked = await agent.run(ASKED)
    desk.memory.candidates = Desk(TRACK).memory.candidates
    await agent.run(
        message_history=asked.all_messages(), deferred_tool_results=DeferredToolResults(approvals={"c1": True})
    )
    assert desk.done == ["pay_back A1"]


@BOTH
async def test_a_no_is_a_no(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    agent = made(desk, script)
    asked = await agent.run(ASKED)
    denied = DeferredToolResults(approvals={"c1": ToolDenied("not today")})
    await agent.run(message_history=asked.all_messages(), deferred_tool_results=denied)
    assert desk.done == []
    assert [each.content for each in script.answers()] == ["not today"]


@BOTH
async def test_an_agent_that_cannot_ask_does_not_destroy(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    with pytest.raises(UserError, match="DeferredToolRequests"):
        await made(desk, script).run(ASKED, output_type=str)
    assert desk.done == []


@BOTH
@pytest.mark.parametrize(("verdict", "done"), VERDICTS.values(), ids=VERDICTS)
async def test_a_hook_is_heard_whatever_the_framework_asks(made: Made, verdict: Verdict, done: list[str]) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    await made(desk, script, approve=saying([verdict])).run(ASKED)
    assert desk.done == done
    if not done:
        assert [each.content for each in script.answers()] == ["not run: closed on Sundays"]


@BOTH
async def test_a_yes_does_not_overrule_a_hook_that_has_come_to_say_no(made: Made) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    said: list[Verdict] = [ASKS]
    agent = made(desk, script, approve=saying(said))
    asked = await agent.run(ASKED)
    assert asked.output.metadata["c1"]["reason"] == "really?"
    said[:] = [Deny("the day is over")]
    yes = DeferredToolResults(approvals={"c1": True})
    with suppress(UserError, UnexpectedModelBehavior):  # where nobody is asked any more, it may not even be there
        await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
    assert desk.done == []


@BOTH
async def test_what_is_not_shown_cannot_be_called(made: Made) -> None:
    desk, script = Desk(TRACK), Script([call("shop_pay_back", order_id="A1")], [call("redirect", order_id="A1")])
    await made(desk, script, approval="never").run("Where is A1?")
    assert desk.done == []


@BOTH
async def test_a_history_that_claims_calls_opens_no_other_tool(made: Made) -> None:
    """Whoever may write the history may not call what was not selected."""
    desk, script = Desk(TRACK), Script()
    history: list[ModelMessage] = [
        ModelRequest.user_text_prompt("Where is A1?"),
        ModelResponse(parts=[call("redirect", order_id="A1"), call("shop_pay_back", "c2", order_id="A1")]),
    ]
    with suppress(UserError, UnexpectedModelBehavior):
        await made(desk, script).run(message_history=history)
    assert desk.done == []


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model() -> None:
    desk, script = Desk(MOVE), Script([call("redirect", order_id="A1")])
    await with_toolset(desk, script).run("Another address for A1")
    assert [each.content for each in script.answers()] == ["redirect failed: LookupError: the parcel has left"]


BAD: dict[str, Any] = {
    "none": {},
    "another": {"order_id": "A1", "amount": 900},
    "of the wrong kind": {"order_id": 7},
    "a list": "[1, 2]",
    "no JSON": "{order",
    "deep": "[" * 5_000,
}


@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
async def test_arguments_that_are_wrong_are_told_to_the_model(arguments: Any) -> None:
    desk, script = Desk(REFUND), Script([ToolCallPart("look_up", arguments, tool_call_id="c1")])
    result = await with_toolset(desk, script).run(ASKED)
    assert (result.output, desk.done) == ("Done.", [])
    assert script.answers()[0].outcome == "retried"


async def test_two_calls_with_one_id_are_not_made() -> None:
    desk = Desk(REFUND)
    agent = with_toolset(desk, Script([call("shop_pay_back", order_id="A1"), call("shop_pay_back", order_id="B2")]))
    with pytest.raises(UnexpectedModelBehavior, match="unique"):
        await agent.run(ASKED)
    assert desk.done == []


async def test_two_processes_that_go_on_with_one_call_make_it_once() -> None:
    desk, claims = Desk(REFUND), MemoryClaims()
    script = Script([call("shop_pay_back", order_id="A1")])
    agent = with_toolset(desk, script, claims=claims)
    asked = await agent.run(ASKED)
    yes = DeferredToolResults(approvals={"c1": True})
    for _ in range(2):
        await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
    assert desk.done == ["pay_back A1"]
    assert [each.content for each in script.answers()] == [{"refunded": 20}]


@BOTH
async def test_an_answer_that_is_given_twice_makes_its_call_once(made: Made) -> None:
    """Without a store, by one agent: the second is told what the first was."""
    desk, script = Desk(REFUND), Script([call("shop_pay_back", order_id="A1")])
    agent = made(desk, script)
    asked = await agent.run(ASKED)
    yes = DeferredToolResults(approvals={"c1": True})
    for _ in range(2):
        await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
        assert [each.content for each in script.answers()] == [{"refunded": 20}]
    assert desk.done == ["pay_back A1"]


@BOTH
@pytest.mark.parametrize("texts", [(ASKED, "now once more"), (ASKED, ASKED)], ids=["other words", "the same words"])
async def test_a_call_that_is_agreed_to_in_a_later_turn_is_another_though_its_id_comes_again(
    made: Made, texts: tuple[str, str]
) -> None:
    desk, refund = Desk(REFUND), [call("shop_pay_back", "call_0", order_id="last")]
    agent = made(desk, Script(*([*refund], [TextPart("ok")], [TextPart("ok")]) * 2))
    yes, history = DeferredToolResults(approvals={"call_0": True}), list[ModelMessage]()
    for text in texts:
        asked = (await agent.run(text, message_history=history)).all_messages()
        kept = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(asked))
        history = (await agent.run(message_history=asked, deferred_tool_results=yes)).all_messages()
        await agent.run(message_history=kept, deferred_tool_results=yes)
    assert desk.done == ["pay_back last", "pay_back last"], "each once, however often its answer comes"


async def test_an_answer_that_is_given_twice_is_told_what_went_wrong_with_tools_of_an_agent() -> None:
    desk, done = Desk(REFUND), list[str]()
    script = Script([call("shop_pay_back", order_id="A1")])
    agent = Agent(script.model, output_type=OUTPUT, capabilities=[FlowCapability(desk.toolkit())], deps_type=type(None))

    @agent.tool_plain
    def shop_pay_back(order_id: str) -> str:
        done.append(order_id)
        problem = "the bank is closed"
        raise ToolFailed(problem)

    asked = await agent.run(ASKED)
    yes = DeferredToolResults(approvals={"c1": True})
    for _ in range(2):
        await agent.run(message_history=asked.all_messages(), deferred_tool_results=yes)
        assert [("the bank is closed" in each.content, each.outcome) for each in script.answers()] == [(True, "failed")]
    assert done == ["A1"]


@BOTH
async def test_the_answer_in_the_next_run_decides_in_whatever_process(made: Made) -> None:
    first, second, third = Script(), Script(), Script([call("look_up", order_id="A1")])
    asked = await made(Desk().asking(), first).run(UNCLEAR)
    assert QUESTION in first.instructions
    assert "shop_pay_back" not in first.tools
    history = ModelMessagesTypeAdapter.validate_json(asked.all_messages_json())
    answered = await made(Desk().asking(), second).run("the first", message_history=history)
    assert '<flow name="refund_order"' in second.instructions
    assert [name for name in second.tools if name != "weather"] == ["look_up", "shop_pay_back"]
    history = ModelMessagesTypeAdapter.validate_json(answered.all_messages_json())
    await made(Desk().asking(), third).run("the last", message_history=history)
    assert "<flow" not in third.instructions, "the question was answered"


@BOTH
async def test_a_run_that_goes_on_keeps_to_what_was_answered(made: Made) -> None:
    desk, script = Desk().asking(), Script([TextPart("Which?")], [call("shop_pay_back", order_id="A1")])
    agent = made(desk, script)
    asked = await agent.run(UNCLEAR)
    answered = await agent.run("1", message_history=asked.all_messages())
    history = ModelMessagesTypeAdapter.validate_json(answered.all_messages_json())
    yes = DeferredToolResults(approvals={"c1": True})
    script.seen.clear()
    await agent.run(message_history=history, deferred_tool_results=yes)
    assert '<flow name="refund_order"' in script.instructions
    assert desk.done == ["pay_back A1"]


@BOTH
async def test_an_answer_that_comes_with_the_history_is_one(made: Made) -> None:
    """As the protocols of user interfaces give it: no prompt, and the request as the last message."""
    script = Script([TextPart("Which?")])
    agent = made(Desk().asking(), script)
    asked = await agent.run(UNCLEAR)
    script.seen.clear()
    await agent.run(message_history=[*asked.all_messages(), ModelRequest.user_text_prompt("the second")])
    assert '<flow name="track_order"' in script.instructions


@BOTH
async def test_what_is_kept_is_not_sent(made: Made) -> None:
    agent = made(Desk().asking(), Script())
    asked = await agent.run(UNCLEAR)
    kept = [each.metadata for each in asked.all_messages() if each.metadata]
    assert [list(each) for each in kept] == [["flow_question"]]
    assert QUESTION not in str([part for each in asked.all_messages() for part in each.parts])


async def test_where_nothing_fits_there_are_the_tools_that_change_nothing() -> None:
    desk, script = Desk(TRACK), Script()
    desk.memory.candidates = []
    await with_toolset(desk, script).run("What is the weather?")
    assert (script.tools, script.instructions) == (["look_up"], "")


async def test_guards_see_what_the_caller_makes_of_a_run() -> None:
    desk = Desk(TRACK)
    seen = desk.guarded(TRACK)

    def context(ctx: RunContext[str]) -> dict[str, Any]:
        return {"who": ctx.deps}

    toolset = FlowToolset[str](desk.toolkit(), context=context)
    agent = Agent(TestModel(call_tools=[]), deps_type=str, toolsets=[toolset])
    await agent.run("Where is A1?", deps="ada")
    assert seen[0] == {"who": "ada"}


async def test_runs_side_by_side_see_each_its_own() -> None:
    desk, script = Desk(TRACK), Script()
    agent = with_toolset(desk, script)
    await asyncio.gather(*(agent.run(f"Where is A{number}?") for number in range(8)))
    assert {tuple(tool.name for tool in info.function_tools) for _, info in script.seen} == {("look_up",)}
    assert len(desk.memory.calls) == 8
