"""The parts for the OpenAI Agents SDK, with its own runner and a model of its own interface."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from agents import Agent, RunConfig, RunContextWrapper, Runner, SQLiteSession
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse
from agents.models.interface import Model
from agents.run import RunState
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from jazz_select.integrations.openai_agents import FlowAgentParts
from jazz_select.routing import Allow, Deny, Tool, ToolCall
from jazz_select.routing.approval import Verdict
from jazz_select.testing import ListMemory, MemoryClaims
from tests.unit.integrations.desk import ASKS, MOVE, ORDER, QUESTION, REFUND, TRACK, UNCLEAR, VERDICTS, Desk, saying

pytestmark = pytest.mark.spec("009.4")
ASKED = "I want my money back for A1"
QUIET = RunConfig(tracing_disabled=True)


class Script(Model):
    """A model that replies with these items, one list after the other; what it was sent is in `seen`."""

    def __init__(self, *replies: list[Any]) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[str, list[str], Any]] = []

    async def get_response(self, *given: Any, **named: Any) -> ModelResponse:
        known = {**dict(zip(("system_instructions", "input", "settings", "tools"), given, strict=False)), **named}
        tools = [tool.name for tool in known["tools"]]
        self.seen.append((known["system_instructions"], tools, known["input"]))
        output: list[Any] = self.replies.pop(0) if self.replies else [said("Done.")]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError

    def answers(self) -> list[Any]:
        """What the last request said of calls."""
        return [each["output"] for each in self.seen[-1][2] if each.get("type") == "function_call_output"]


def said(text: str) -> ResponseOutputMessage:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", content=[content], role="assistant", status="completed", type="message")


def call(tool: str, arguments: Any, call_id: str = "c1") -> ResponseFunctionToolCall:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ResponseFunctionToolCall(arguments=given, call_id=call_id, name=tool, type="function_call")


def agent_of(desk: Desk, script: Script, *, context: Any = None, **options: Any) -> Agent[Any]:
    parts = FlowAgentParts(desk.toolkit(**options), context=context)
    return Agent(
        name="desk", model=script, instructions=parts.instructions("You work at a desk."), tools=[*parts.tools]
    )


async def run(agent: Agent[Any], given: Any = ASKED, **options: Any) -> Any:
    return await Runner.run(agent, given, run_config=QUIET, **options)


async def test_a_run_shows_what_was_selected() -> None:
    desk, script = Desk(TRACK), Script()
    result = await run(agent_of(desk, script), "Where is A1?")
    instructions, tools, _ = script.seen[0]
    assert (result.final_output, tools) == ("Done.", ["look_up"])
    assert instructions.startswith("You work at a desk.\n\n<flow")
    assert 'name="track_order"' in instructions


async def test_a_run_selects_once_however_long_it_is() -> None:
    desk = Desk(REFUND)
    script = Script([call("look_up", {"order_id": "A1"})], [call("look_up", {"order_id": "B2"}, "c2")])
    await run(agent_of(desk, script))
    assert desk.done == ["look_up A1", "look_up B2"]
    assert len(desk.memory.calls) == 1
    assert {tuple(tools) for _, tools, _ in script.seen} == {("look_up", "shop_pay_back")}


async def test_a_tool_is_called_and_its_answer_goes_back() -> None:
    desk, script = Desk(REFUND), Script([call("look_up", {"order_id": "A1"})])
    await run(agent_of(desk, script))
    assert script.answers() == ['{"order_id":"A1","state":"delivered"}']


PARTS = [{"type": "input_text", "text": "where is it?"}]


@pytest.mark.parametrize("last", ["where is it?", PARTS], ids=["a text", "parts"])
async def test_what_was_said_before_helps_to_find_the_flow(last: Any) -> None:
    desk, script = Desk(TRACK), Script()
    given = [
        {"role": "user", "content": "It is about A1"},
        {"role": "assistant", "content": "Yes?"},
        {"role": "user", "content": last},
    ]
    await run(agent_of(desk, script), given)
    assert "It is about A1" in desk.memory.calls[-1].query
    assert "where is it?" in desk.memory.calls[-1].query


@pytest.mark.spec("005.3")
async def test_what_destroys_waits_for_a_yes_and_is_done_once() -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})], [said("Refunded.")])
    agent = agent_of(desk, script)
    asked = await run(agent)
    (waiting,) = asked.interruptions
    assert (waiting.name, waiting.arguments) == ("shop_pay_back", '{"order_id": "A1"}')
    assert desk.done == []
    state = asked.to_state()
    state.approve(waiting)
    done = await run(agent, state)
    assert (done.final_output, desk.done) == ("Refunded.", ["pay_back A1"])


async def test_a_run_goes_on_in_another_process() -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})], [said("Refunded.")])
    asked = await run(agent_of(desk, script))
    kept = asked.to_state().to_string()
    other = agent_of(desk, script)
    desk.memory.candidates = Desk(TRACK).memory.candidates
    state = await RunState.from_string(other, kept)
    state.approve(state.get_interruptions()[0])
    done = await run(other, state)
    assert (done.final_output, desk.done) == ("Refunded.", ["pay_back A1"])
    assert script.seen[-1][1] == ["look_up", "shop_pay_back"], "with what is found now, what needs a yes"


@pytest.mark.spec("012.2")
async def test_another_tool_of_the_name_is_not_called_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})], [said("Refunded.")])
    asked = await run(agent_of(desk, script), context={})
    kept = asked.to_state().to_string()
    look_up, pay_back, redirect = desk.tools()
    closes = Tool(
        name=pay_back.name,
        description="Closes the account.",
        input_schema=ORDER,
        function=pay_back.function,
        destructive=True,
    )
    monkeypatch.setattr(desk, "tools", lambda: [look_up, closes, redirect])
    other = agent_of(desk, script)
    state = await RunState.from_string(other, kept)
    state.approve(state.get_interruptions()[0])
    await run(other, state)
    assert desk.done == []


async def test_in_a_run_that_is_taken_up_what_goes_with_no_flow_asks_whatever_a_hook_says() -> None:
    def approve(call: ToolCall) -> Verdict:
        return ASKS if call.tool == "shop.pay_back" else Allow()

    desk = Desk(REFUND)
    script = Script([call("shop_pay_back", {"order_id": "A1"})], [call("redirect", {"order_id": "B2"}, "c2")])
    kept = (await run(agent_of(desk, script, approve=approve))).to_state().to_string()
    other = agent_of(desk, script, approve=approve)
    state = await RunState.from_string(other, kept)
    state.approve(state.get_interruptions()[0])
    done = await run(other, state)
    assert desk.done == ["pay_back A1"]
    assert [each.name for each in done.interruptions] == ["redirect"]


async def test_a_no_is_a_no() -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})])
    agent = agent_of(desk, script)
    asked = await run(agent)
    state = asked.to_state()
    state.reject(asked.interruptions[0])
    await run(agent, state)
    assert desk.done == []


@pytest.mark.parametrize(("verdict", "done"), VERDICTS.values(), ids=VERDICTS)
async def test_a_hook_is_heard(verdict: Verdict, done: list[str]) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})])
    await run(agent_of(desk, script, approve=saying([verdict])))
    assert desk.done == done
    if not done:
        assert script.answers() == ["not run: closed on Sundays"]


async def test_a_hook_that_asks_only_when_it_comes_to_it_is_not_passed_over() -> None:
    """The SDK asks first whether a call needs a yes; what is said when it is made counts."""
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})])
    await run(agent_of(desk, script, approve=saying([Allow(), ASKS])))
    assert desk.done == []
    assert script.answers() == ["not run: really?"]


async def test_a_yes_does_not_overrule_a_hook_that_has_come_to_say_no() -> None:
    desk, said_of = Desk(REFUND), list[Verdict]([ASKS])
    script = Script([call("shop_pay_back", {"order_id": "A1"})])
    agent = agent_of(desk, script, approve=saying(said_of))
    asked = await run(agent)
    state = asked.to_state()
    state.approve(asked.interruptions[0])
    said_of[:] = [Deny("the day is over")]
    await run(agent, state)
    assert desk.done == []


async def test_what_is_not_shown_cannot_be_called() -> None:
    desk, script = Desk(TRACK), Script([call("shop_pay_back", {"order_id": "A1"})])
    with pytest.raises(ModelBehaviorError):
        await run(agent_of(desk, script, approval="never"), "Where is A1?")
    assert desk.done == []


BAD: dict[str, Any] = {
    "none": {},
    "another": {"order_id": "A1", "amount": 900},
    "of the wrong kind": {"order_id": 7},
    "a list": "[1, 2]",
    "no JSON": "{order",
    "no number": '{"order_id": NaN}',
    "deep": "[" * 40 + "]" * 40,
}


@pytest.mark.parametrize("tool", ["look_up", "shop_pay_back"])
@pytest.mark.parametrize("arguments", BAD.values(), ids=BAD)
async def test_arguments_that_are_wrong_call_nothing(arguments: Any, tool: str) -> None:
    desk, script = Desk(REFUND), Script([call(tool, arguments)])
    agent = agent_of(desk, script)
    result = await run(agent)
    if result.interruptions:
        state = result.to_state()
        state.approve(result.interruptions[0])
        await run(agent, state)
    assert desk.done == []
    assert "argument" in script.answers()[0]


@pytest.mark.parametrize("depth", [1_000, 100_000])
async def test_a_reply_that_the_sdk_cannot_read_does_nothing(depth: int) -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", "[" * depth + "]" * depth)])
    with pytest.raises(RecursionError):
        await run(agent_of(desk, script))
    assert desk.done == []


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model() -> None:
    desk, script = Desk(MOVE), Script([call("redirect", {"order_id": "A1"})])
    await run(agent_of(desk, script))
    assert script.answers() == ["redirect failed: LookupError: the parcel has left"]


async def test_two_that_go_on_with_one_call_make_it_once() -> None:
    desk, claims = Desk(REFUND), MemoryClaims()
    script = Script([call("shop_pay_back", {"order_id": "A1"})])
    agent = agent_of(desk, script, claims=claims)
    kept = (await run(agent, context={})).to_state().to_string()
    for _ in range(2):
        state = await RunState.from_string(agent, kept)
        state.approve(state.get_interruptions()[0])
        await run(agent, state)
    assert desk.done == ["pay_back A1"]
    assert script.answers() == ['{"refunded":20}']


async def test_without_a_store_a_state_that_is_taken_up_twice_makes_its_call_once() -> None:
    desk, script = Desk(REFUND), Script([call("shop_pay_back", {"order_id": "A1"})])
    agent = agent_of(desk, script)
    kept = (await run(agent, context={})).to_state().to_string()
    for _ in range(2):
        state = await RunState.from_string(agent, kept)
        state.approve(state.get_interruptions()[0])
        await run(agent, state)
        assert script.answers() == ['{"refunded":20}']
    assert desk.done == ["pay_back A1"]


async def test_two_conversations_that_number_their_calls_alike_are_two() -> None:
    desk = Desk(REFUND)
    script = Script(*([call("shop_pay_back", {"order_id": each})] for each in ("A1", "B2")))
    agent = agent_of(desk, script, approval="never")
    script.replies.insert(1, [said("Done.")])
    await run(agent, "money back for A1")
    await run(agent, "money back for B2")
    assert desk.done == ["pay_back A1", "pay_back B2"]


@dataclass
class Own:
    """A context with a place for the question."""

    who: str
    flow_question: dict[str, Any] | None = None


def of_dict(kept: str) -> Any:
    return json.loads(kept)


def of_own(kept: str) -> Any:
    return Own(**json.loads(kept))


@pytest.mark.parametrize(("context", "read"), [({"who": "ada"}, of_dict), (Own("ada"), of_own)], ids=["dict", "object"])
async def test_the_answer_in_the_next_run_decides_in_whatever_process(context: Any, read: Any) -> None:
    script = Script()
    asked = await run(agent_of(Desk().asking(), script), UNCLEAR, context=context)
    assert QUESTION in script.seen[-1][0]
    assert script.seen[-1][1] == ["look_up"]
    for answer, flow, tools in (
        ("the first", 'name="refund_order"', ["look_up", "shop_pay_back"]),
        ("the last", None, ["look_up"]),
    ):
        context = read(json.dumps(context if isinstance(context, dict) else asdict(context)))
        given = [*asked.to_input_list(), {"role": "user", "content": answer}]
        asked = await run(agent_of(Desk().asking(), script), given, context=context)
        instructions, shown, _ = script.seen[-1]
        assert (flow or QUESTION) in instructions, "once it is answered, what is unclear is asked about anew"
        assert shown == tools


async def test_a_session_has_what_was_said_and_a_context_what_was_asked() -> None:
    script, context = Script(), dict[str, Any]()
    with closing(SQLiteSession("ada")) as session:
        for request in (UNCLEAR, "the second"):
            await run(agent_of(Desk().asking(), script), request, context=context, session=session)
    assert 'name="track_order"' in script.seen[-1][0]


async def test_a_state_that_is_taken_up_keeps_to_what_was_answered() -> None:
    desk = Desk().asking()
    script = Script([said("Which?")], [call("shop_pay_back", {"order_id": "A1"})])
    first = await run(agent_of(desk, script), UNCLEAR, context=(context := dict[str, Any]()))
    given = [*first.to_input_list(), {"role": "user", "content": "1"}]
    kept = (await run(agent_of(desk, script), given, context=context)).to_state().to_string()
    other = agent_of(desk, script)
    state = await RunState.from_string(other, kept)
    state.approve(state.get_interruptions()[0])
    await run(other, state)
    assert desk.done == ["pay_back A1"]
    assert 'name="refund_order"' in script.seen[-1][0]


async def test_a_context_stays_as_it_is_where_nothing_is_asked() -> None:
    context = {"who": "ada"}
    await run(agent_of(Desk(TRACK), Script()), "Where is A1?", context=context)
    assert context == {"who": "ada"}


@pytest.mark.parametrize("context", [None, (), "ada"], ids=["none", "a tuple", "a text"])
async def test_where_no_question_can_be_kept_it_is_said(context: Any, caplog: pytest.LogCaptureFixture) -> None:
    await run(agent_of(Desk().asking(), Script()), UNCLEAR, context=context)
    assert "no question is kept there: give a dict" in caplog.text


async def test_guards_see_what_the_caller_makes_of_a_run() -> None:
    desk = Desk(TRACK)
    seen = desk.guarded(TRACK)

    def context(ctx: RunContextWrapper[Any]) -> dict[str, Any]:
        return {"who": ctx.context}

    agent = agent_of(desk, Script(), context=context)
    await run(agent, "Where is A1?", context="ada")
    assert seen[0] == {"who": "ada"}


class Held(ListMemory):
    """Its recalls begin, and end when they may."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.begun, self.may_end, self.cancelled = asyncio.Event(), asyncio.Event(), 0
        self.ends_with: BaseException = asyncio.CancelledError()

    async def recall(self, *given: Any, **named: Any) -> Any:
        found = await super().recall(*given, **named)
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise self.ends_with from None
        if not found:
            msg = "the store is gone"
            raise OSError(msg)
        return found


def held(desk: Desk) -> Held:
    desk.memory = Held(desk.memory.candidates)
    return desk.memory


def asking_context() -> RunContextWrapper[Any]:
    ctx = RunContextWrapper[Any](None)
    ctx.turn_input = [{"role": "user", "content": ASKED}]
    return ctx


async def waiting(agent: Agent[Any], ctx: RunContextWrapper[Any], memory: Held) -> list[asyncio.Task[Any]]:
    """Two who wait for one selection: the SDK asks for the prompt, and for the tools."""
    tasks = [asyncio.ensure_future(agent.get_system_prompt(ctx)), asyncio.ensure_future(agent.get_all_tools(ctx))]
    await memory.begun.wait()
    return tasks


@pytest.mark.parametrize("gone", [0, 1], ids=["who waits for the prompt", "who waits for the tools"])
async def test_the_end_of_one_who_waits_is_no_others(gone: int) -> None:
    memory = held(desk := Desk(REFUND))
    agent, ctx = agent_of(desk, Script()), asking_context()
    tasks = await waiting(agent, ctx, memory)
    tasks[gone].cancel()
    await asyncio.wait({tasks[gone]})
    memory.may_end.set()
    await tasks[1 - gone]
    assert tasks[gone].cancelled()
    assert [tool.name for tool in await agent.get_all_tools(ctx)] == ["look_up", "shop_pay_back"]
    assert (len(memory.calls), memory.cancelled) == (1, 0)


@pytest.fixture
async def unheard() -> AsyncIterator[None]:
    """Whatever asyncio finds to complain of by itself fails the test, as an exception that nobody looked at."""
    told = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    yield
    gc.collect()
    assert told == []


@pytest.mark.usefixtures("unheard")
@pytest.mark.parametrize("error", [asyncio.CancelledError(), OSError("gone")], ids=["at once", "with an error"])
async def test_when_all_who_wait_have_gone_the_selection_ends_and_another_can_be_made(error: BaseException) -> None:
    memory = held(desk := Desk(REFUND))
    memory.ends_with, before = error, asyncio.all_tasks()
    agent, ctx = agent_of(desk, Script()), asking_context()
    tasks = await waiting(agent, ctx, memory)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    left = asyncio.all_tasks() - before
    await asyncio.wait_for(asyncio.gather(*left, return_exceptions=True), 5)
    assert memory.cancelled == 1
    memory.may_end.set()
    assert 'name="refund_order"' in str(await agent.get_system_prompt(ctx))
    assert len(memory.calls) == 2


@pytest.mark.usefixtures("unheard")
async def test_a_selection_that_failed_is_told_to_all_and_made_anew() -> None:
    memory = held(desk := Desk(REFUND))
    found, memory.candidates = memory.candidates, []
    agent, ctx = agent_of(desk, Script()), asking_context()
    tasks = await waiting(agent, ctx, memory)
    memory.may_end.set()
    failed = await asyncio.gather(*tasks, return_exceptions=True)
    assert all("the store is gone" in str(each) for each in failed)
    memory.candidates = found
    assert 'name="refund_order"' in str(await agent.get_system_prompt(ctx))


def test_what_was_selected_is_known_in_another_loop() -> None:
    """A run in one loop can be taken up in the next one, with the same context."""
    desk = Desk(REFUND)
    agent, ctx = agent_of(desk, Script()), asking_context()
    prompts = [asyncio.run(agent.get_system_prompt(ctx)) for _ in range(2)]
    assert prompts[0] == prompts[1] != "You work at a desk."
    assert len(desk.memory.calls) == 1
