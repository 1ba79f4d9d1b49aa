"""What cannot be done is said in the tool's own words, before any yes, and takes nothing else with it."""

import json
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tenacity import AsyncRetrying, stop_after_attempt

from jazz_select import ConditionalFlow, Flow, FlowRegistry, FlowSelector, Input, ParallelFlow, Policy, SequentialFlow
from jazz_select.agent import Agent, Conversation, TurnResult, run_chain
from jazz_select.agent.graph.guards import guard
from jazz_select.errors import CannotDo, ModelError, WrongValue
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.routing import FlowExecutor, GuidedDecisionPoint, SqliteClaims, Tool, run_plan
from jazz_select.routing.approval import Allow, Verdict
from jazz_select.routing.records import ToolCall
from jazz_select.routing.tool_call import call_tool
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel, likely
from jazz_select.texts import default_texts
from jazz_select.values import flow_id
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("018.8")
SHIPPED = "Order B-2 is shipped. It can be refused at the door."
B2 = {"order": "B-2"}


def refuse_shipped(order: str) -> None:
    """Refuse the order that has left."""
    if order == "B-2":
        raise CannotDo(SHIPPED)


class Desk:
    """A desk where B-2 has left; `says_no` is the place where that is noticed."""

    def __init__(self, says_no: str = "") -> None:
        self.log: list[str] = []
        self.says_no = says_no

    def _noted(self, place: str, order: str) -> None:
        self.log.append(f"{place} {order}")
        if self.says_no == place:
            refuse_shipped(order)

    def find(self, order: str) -> dict[str, Any]:
        self._noted("find", order)
        return {"total": 5}

    def confirm(self, order: str, total: int) -> str:
        self._noted("confirm", order)
        return f"{order} will not be sent"

    def cancel(self, order: str, total: int) -> dict[str, Any]:
        self._noted("cancel", order)
        return {"cancelled": order}

    def track(self, order: str) -> None:
        """Say nothing new."""

    def pay(self, order: str) -> None:
        self.log.append("pay")

    def check(self, order: str) -> bool:
        self._noted("check", order)
        return True

    def approve(self, call: ToolCall) -> Verdict:
        self._noted("approve", str(call.arguments.get("order")))
        return Allow()

    def tools(self) -> list[Tool]:
        wants = {**obj(order="string", total="integer")}
        return [
            Tool(
                name="find",
                input_schema=obj(order="string"),
                output_schema=obj(total="integer"),
                function=self.find,
                read_only=True,
            ),
            Tool(
                name="cancel",
                input_schema=wants,
                function=self.cancel,
                confirm=self.confirm,
                destructive=True,
                title="Cancelling an order",
            ),
            Tool(name="may_cancel", input_schema=obj(order="string"), function=self.check, read_only=True),
            Tool(name="track", input_schema=obj(order="string"), function=self.track, read_only=True),
            Tool(name="close", function=lambda: self.log.append("close"), destructive=True),
            Tool(name="pay", input_schema=obj(order="string"), function=self.pay),
        ]


def chained(registry: FlowRegistry, name: str, *chain: str, **fields: Any) -> Flow:
    return Flow(name=name, tools=list(chain), chain=list(chain), registry=registry, **fields)


def desk_flows(**cancelling: Any) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    chained(registry, "cancel_order", "find", "cancel", title="Cancelling", **cancelling)
    chained(registry, "track_order", "track", title="Tracking", reply="{order} is on its way.")
    chained(registry, "close_account", "close", title="Closing the account")
    return registry


def agent_of(registry: FlowRegistry, desk: Desk, *found: str, model: Any = None, **options: Any) -> Agent:
    names = found or ("cancel_order", "track_order", "close_account")
    policy = options.pop("policy", TAKE_FIRST)
    selector = FlowSelector(model, registry, ListMemory(metadata(*names)), "desk", policy=policy)
    return make_agent(selector, desk.tools(), **options)


def chosen(*names: str, **more: Any) -> str:
    return json.dumps({"flows": [flow_id(name) for name in names], **more})


async def talk(
    made: Agent, *messages: str, context: Mapping[str, Any] | None = None, kept: Conversation | None = None
) -> list[TurnResult]:
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


# --- wherever it is noticed -------------------------------------------------------

PLACES = [
    pytest.param("find", {}, ["find B-2"], id="a look-up before it"),
    pytest.param("confirm", {}, ["find B-2", "confirm B-2"], id="its own confirm"),
    pytest.param("approve", {}, ["find B-2", "approve B-2"], id="approve, for the look-up"),
    pytest.param("cancel", {"approval": "never"}, ["find B-2", "confirm B-2", "cancel B-2"], id="the tool itself"),
]


@pytest.mark.parametrize(("place", "options", "log"), PLACES)
async def test_what_cannot_be_done_ends_in_its_own_words_and_before_any_yes(
    place: str, options: dict[str, Any], log: list[str]
) -> None:
    desk = Desk(place)
    if place == "approve":
        options, log = {"approve": desk.approve}, ["approve B-2"]
    model = ScriptedModel(chosen("cancel_order"), repeat=True)
    made = agent_of(desk_flows(), desk, model=model, handover_after=1, **options)
    (result,) = await talk(made, "please stop it", context=B2)
    assert (result.status, result.text, desk.log) == ("blocked", SHIPPED, log)
    (run,) = result.runs
    assert (run.status, run.refusal) == ("blocked", SHIPPED)
    assert f"cannot be done: {SHIPPED}" in result.reason
    after = result.conversation
    assert (after.pending, after.flows, after.failed, after.not_understood) == (None, (), (), 0)
    failed = [(span.name, span.error) for span in result.trace if span.error]
    assert failed == []


def checks() -> list[Any]:
    def by_function(desk: Desk) -> Any:
        return desk.check

    def by_tool(_: Desk) -> Any:
        return "may_cancel"

    return [pytest.param(by_function, id="a function"), pytest.param(by_tool, id="a tool")]


@pytest.mark.parametrize("check", checks())
@pytest.mark.parametrize("in_request", [True, False], ids=["said at once", "asked for"])
async def test_the_check_of_an_input_may_say_so_before_anything_runs(
    check: Callable[[Desk], Any], in_request: bool
) -> None:
    desk = Desk("check")
    asked = Input("order", "Which order?", example="A-1", check=check(desk))
    made = agent_of(desk_flows(inputs=[asked]), desk, "cancel_order")
    said = ["cancel_order B-2"] if in_request else ["cancel_order", "B-2"]
    *_, result = await talk(made, *said)
    assert (result.status, result.text, desk.log) == ("blocked", SHIPPED, ["check B-2"])
    assert (result.conversation.flows, result.conversation.pending) == ((), None)


async def test_of_several_objects_only_the_one_that_a_check_refuses_ends() -> None:
    desk = Desk("check")
    asked = Input("order", "Which order?", example="A-1", check=desk.check)
    objects = {"cancel_order": [{"order": "B-2"}, {"order": "A-1"}]}
    both = json.dumps({"flows": ["cancel_order"], "values": objects})
    made = agent_of(desk_flows(inputs=[asked]), desk, model=ScriptedModel(both), policy=Policy())
    (result,) = await talk(made, "stop B-2 and A-1")
    assert result.status == "confirming"
    assert result.text.startswith(f"{SHIPPED}\n\nThis would be done next: Cancelling an order: A-1 will not be sent")


async def test_what_refuses_a_part_is_told_once_while_the_others_wait() -> None:
    made: list[str] = []

    def refuse() -> None:
        made.append("refuse")
        raise CannotDo(SHIPPED)

    def close(case: str) -> None:
        made.append(case)

    tools = [
        Tool(name="refuse", input_schema=obj(), function=refuse),
        Tool(name="close", input_schema=obj(case="string"), function=close, destructive=True),
    ]
    registry = FlowRegistry(min_examples=0)
    for name, tool in (("stop", "refuse"), ("close_case", "close")):
        Flow(name=name, description="d", condition="c", examples=[], tools=[tool], chain=[tool], registry=registry)
    ParallelFlow(
        name="both", description="d", condition="c", flows=["stop", "close_case"], examples=[], registry=registry
    )
    model = ScriptedModel('{"flows": ["both"]}', '{"flows": ["both"], "values": {"case": "A-7"}}')
    agent = make_agent(FlowSelector(model, registry, ListMemory(metadata("both")), "desk"), tools)
    first, second, last = await talk(agent, "both", "A-7", "yes")
    assert first.text == f"{SHIPPED} To go on, I need: case."
    assert (second.status, second.text.startswith("This would be done next: Close (case: A-7)")) == ("confirming", True)
    assert (last.status, last.text, made) == ("blocked", "Close case is done.", ["refuse", "A-7"])


async def test_a_guard_may_say_so_too() -> None:
    @guard
    def closed(_: Any) -> None:
        raise CannotDo("The desk is closed on Sundays.")

    result = await agent_of(desk_flows(), Desk(), guards=[closed]).turn("cancel_order", context=B2)
    assert (result.status, result.text, result.runs) == ("blocked", "The desk is closed on Sundays.", ())
    assert result.reason == "guard closed: cannot be done: The desk is closed on Sundays."


async def test_without_words_it_is_said_in_ours() -> None:
    desk = Desk()
    silent = Tool(name="cancel", function=refuse_without_words, destructive=True)
    registry = FlowRegistry(min_examples=0)
    chained(registry, "cancel_order", "cancel", title="Cancelling")
    selector = FlowSelector(None, registry, ListMemory(metadata("cancel_order")), "desk", policy=TAKE_FIRST)
    result = await make_agent(selector, [silent], approval="never").turn("cancel_order")
    assert (result.status, result.text, desk.log) == ("blocked", "Cancelling cannot be done here.", [])


def refuse_without_words() -> None:
    raise CannotDo(" ")


# --- what else was wished -------------------------------------------------------

WISHES = [
    pytest.param(
        ("cancel_order", "track_order"), "done", f"{SHIPPED}\n\nB-2 is on its way.", id="another wish is done"
    ),
    pytest.param(
        ("track_order", "cancel_order"), "blocked", f"B-2 is on its way.\n\n{SHIPPED}", id="another one was done before"
    ),
    pytest.param(
        ("cancel_order", "close_account"),
        "confirming",
        f"{SHIPPED}\n\nThis would be done next: Close. Shall I go on, yes or no?",
        id="another one is asked about",
    ),
]


@pytest.mark.parametrize(("wished", "status", "text"), WISHES)
async def test_what_else_was_wished_goes_on_in_the_same_turn(wished: Sequence[str], status: str, text: str) -> None:
    desk = Desk("confirm")
    made = agent_of(desk_flows(), desk, model=ScriptedModel(chosen(*wished), repeat=True))
    (result,) = await talk(made, "two things", context=B2)
    assert (result.status, result.text) == (status, text)
    assert "cancel B-2" not in desk.log


async def test_a_flow_that_waits_below_is_named() -> None:
    desk = Desk("confirm")
    registry = desk_flows()
    chained(registry, "book", "find", "pay", inputs=[Input("day", "On which day?")], title="Booking")
    model = ScriptedModel(chosen("book"), chosen("cancel_order"))
    made = agent_of(registry, desk, "book", "cancel_order", model=model)
    asked, refused = await talk(made, "book it", "and stop the other one", context=B2)
    assert asked.text == "On which day?"
    assert refused.text == f"{SHIPPED}\n\nBack to: Booking. On which day?"


async def test_those_that_call_what_was_refused_are_named_and_not_begun() -> None:
    desk = Desk("cancel")
    registry = desk_flows()
    chained(registry, "reorder", "pay", calls=["cancel_order"], title="Ordering anew")
    made = agent_of(registry, desk, "reorder", approval="never", handover_after=1)
    (result,) = await talk(made, "reorder", context=B2)
    assert (result.status, desk.log[-1]) == ("blocked", "cancel B-2")
    assert result.text == f"{SHIPPED}\n\nThis will not be done either: Ordering anew."
    assert [run.status for run in result.runs] == ["blocked", "blocked"]


Compose = Callable[[FlowRegistry], Any]


def in_sequence(*parts: str) -> Compose:
    return lambda registry: composed(registry, SequentialFlow, flows=list(parts))


def side_by_side(*parts: str) -> Compose:
    return lambda registry: composed(registry, ParallelFlow, flows=list(parts))


def as_the_branch(registry: FlowRegistry) -> None:
    composed(registry, ConditionalFlow, branches=[("it may be stopped", "cancel_order")], otherwise="close_account")


def composed(registry: FlowRegistry, kind: Any, **parts: Any) -> None:
    kind(name="all", description="d", condition="c", title="All of it", examples=[], registry=registry, **parts)


PARTS = [
    pytest.param(
        in_sequence("cancel_order", "track_order", "close_account"),
        "blocked",
        f"{SHIPPED} This will not be done either: Tracking, Closing the account.",
        id="a sequence ends there",
    ),
    pytest.param(
        in_sequence("track_order", "cancel_order"),
        "blocked",
        f"{SHIPPED} B-2 is on its way.",
        id="what was done in it is told",
    ),
    pytest.param(
        side_by_side("cancel_order", "track_order"),
        "blocked",
        f"{SHIPPED} B-2 is on its way.",
        id="parts side by side go on",
    ),
    pytest.param(
        side_by_side("cancel_order", "book"),
        "waiting",
        f"{SHIPPED} On which day?",
        id="or ask what they need",
    ),
    pytest.param(as_the_branch, "blocked", SHIPPED, id="a branch"),
]


@pytest.mark.parametrize(("compose", "status", "text"), PARTS)
async def test_of_several_parts_the_others_go_on_or_are_named(compose: Compose, status: str, text: str) -> None:
    desk, registry = Desk("find"), desk_flows()
    chained(registry, "book", "pay", inputs=[Input("day", "On which day?")], title="Booking")
    compose(registry)
    memory = ListMemory([*metadata("all", confidence=0.9), *metadata("cancel_order", confidence=0.9)])
    selector = FlowSelector(None, registry, memory, "desk", policy=TAKE_FIRST)
    (result,) = await talk(make_agent(selector, desk.tools(), approval="never"), "all", context=B2)
    assert (result.status, result.text) == (status, text)
    assert "close" not in desk.log


# --- what was done before it, and nothing twice -----------------------------------


async def test_what_was_done_before_is_told_and_nothing_is_in_doubt() -> None:
    desk = Desk("cancel")
    registry = FlowRegistry(min_examples=0)
    chained(registry, "settle", "find", "pay", "cancel", title="Settling")
    made = agent_of(registry, desk, "settle", approval="never")
    refused, again = await talk(made, "settle", "settle", context=B2)
    assert (refused.status, refused.text) == ("blocked", f"{SHIPPED} Already done: Pay.")
    (kept,) = refused.conversation.failed
    assert (kept.uncertain_tools, kept.is_final, kept.parts["0"].done) == ((), False, ("find", "pay"))
    desk.says_no = ""
    (done,) = await talk(made, "settle", context=B2, kept=again.conversation)
    assert (done.status, desk.log.count("pay"), desk.log[-1]) == ("done", 1, "cancel B-2")


async def test_a_tool_that_refuses_after_a_yes_changes_nothing_and_is_asked_about_anew() -> None:
    desk = Desk()
    made = agent_of(desk_flows(), desk, "cancel_order")
    (asked,) = await talk(made, "cancel_order", context=B2)
    assert asked.status == "confirming"
    desk.says_no = "cancel"
    (refused,) = await talk(made, "yes", context=B2, kept=asked.conversation)
    assert (refused.status, refused.text) == ("blocked", SHIPPED)
    desk.says_no = ""
    (anew,) = await talk(made, "cancel_order", context=B2, kept=refused.conversation)
    assert anew.text == asked.text
    assert anew.status == "confirming"


async def test_a_value_that_is_wrong_is_still_asked_for_again() -> None:
    registry, log = FlowRegistry(min_examples=0), list[str]()

    def cancel(order: str) -> None:
        log.append(order)
        if order == "X-0":
            raise WrongValue("order", "There is no X-0.")
        refuse_shipped(order)

    tool = Tool(name="cancel", input_schema=obj(order="string"), function=cancel)
    chained(registry, "stop", "cancel", inputs=[Input("order", "Which order?", example="A-1")])
    selector = FlowSelector(None, registry, ListMemory(metadata("stop")), "desk", policy=TAKE_FIRST)
    _, wrong, refused = await talk(make_agent(selector, [tool], approval="never"), "stop", "X-0", "B-2")
    assert wrong.text == "There is no X-0. Which order? (for example A-1)"
    assert (refused.text, log) == (SHIPPED, ["X-0", "B-2"])


async def test_it_is_not_retried() -> None:
    desk = Desk("find")
    executor = FlowExecutor(desk.tools(), retry=AsyncRetrying(stop=stop_after_attempt(3)))
    result = await executor.run(["find", "cancel"], B2)
    assert (result.status, desk.log) == ("refused", ["find B-2"])
    (record,) = result.records
    assert (record.status, record.fault, record.unknown) == ("refused", "cannot", False)
    assert record.error == f"cannot be done: {SHIPPED}"


async def test_who_claimed_a_call_and_was_refused_tells_the_others_the_same(tmp_path: Any) -> None:
    desk = Desk("cancel")
    cancel = next(tool for tool in desk.tools() if tool.name == "cancel")
    arguments = {"order": "B-2", "total": 5}
    claims = SqliteClaims(tmp_path / "claims.db")
    first, second = [
        await call_tool(cancel, arguments, door="executor", timeout_s=None, call_id="c-1", claims=claims)
        for _ in range(2)
    ]
    assert [each.status for each in (first, second)] == ["refused", "refused"]
    assert isinstance(second.error and second.error.cause, CannotDo)
    assert (second.error and second.error.message, second.replayed) == (f"cannot be done: {SHIPPED}", True)
    assert desk.log.count("cancel B-2") == 1


# --- models are told as data ------------------------------------------------------

CANCEL_B2 = '{"tool_call": {"id": "s1", "tool": "cancel", "arguments": {"order": "B-2", "total": 5}}}'


async def test_a_model_is_told_and_may_try_again_once_it_is_possible() -> None:
    desk = Desk("cancel")

    def possible_now(_: Any) -> str:
        desk.says_no = ""
        return CANCEL_B2

    model = ScriptedModel(CANCEL_B2, possible_now, "It is cancelled now.")
    chain = await run_chain(model, "cancel B-2", desk.tools(), approval="never")
    assert f"cannot be done: {SHIPPED}" in model.calls[1][-1].content
    assert "cancelled" in model.calls[2][-1].content
    assert (chain.answer, desk.log.count("cancel B-2")) == ("It is cancelled now.", 2)


async def test_before_a_model_has_its_call_approved_it_is_told_that_it_cannot_be_made() -> None:
    desk = Desk("confirm")
    model = ScriptedModel(CANCEL_B2, "It has left.")
    chain = await run_chain(model, "cancel B-2", desk.tools(), until_asked=True)
    assert (chain.status, chain.answer, chain.asked) == ("answered", "It has left.", ())


async def test_a_step_of_a_plan_is_refused_and_what_needs_it_is_skipped() -> None:
    desk = Desk("find")
    calls = [
        {"id": "s1", "tool": "find", "arguments": B2},
        {"id": "s2", "tool": "cancel", "arguments": {"order": "B-2", "total": {"$ref": "s1#/total"}}},
        {"id": "s3", "tool": "track", "arguments": B2},
    ]
    result = await run_plan({"tool_calls": calls}, desk.tools())
    assert [step.status for step in result.steps] == ["refused", "skipped", "ok"]
    assert result.errors["s1"].message == f"cannot be done: {SHIPPED}"
    assert result.errors["s2"].message == "cancel was not run: it uses the output of s1, which cannot be done"


# --- a model that is down at a choice ----------------------------------------------

DOWN = "I cannot go on right now because something that I need does not answer. Shall I try again?"


def either(registry: FlowRegistry) -> None:
    composed(
        registry,
        ConditionalFlow,
        branches=[("it is to be stopped", "cancel_order"), ("it is to be closed", "close_account")],
        otherwise="track_order",
        inputs=[Input("order", "Which order?", example="A-1")],
    )


@pytest.mark.parametrize("again", ["yes", "please try it once more"])
async def test_a_model_that_is_down_at_a_branch_leaves_the_wish_where_it_was(again: str) -> None:
    desk, registry = Desk(), desk_flows()
    either(registry)
    later = [] if again == "yes" else [chosen("all")]
    begun = json.dumps({"flows": [flow_id("all")], "values": {"order": "A-1"}})
    model = ScriptedModel(begun, ModelError("m", "gone", retryable=False), *later, chosen("track_order"))
    found = ("all", "cancel_order", "track_order")
    made = agent_of(registry, desk, *found, model=model, handover_after=1, policy=Policy())
    down, done = await talk(made, "something with A-1", again)
    assert (down.status, down.text, desk.log) == ("waiting", DOWN, [])
    (kept,) = down.conversation.flows
    assert (kept.name, kept.answers, down.conversation.not_understood) == ("all", {"order": "A-1"}, 0)
    assert (done.status, done.text) == ("done", "A-1 is on its way.")


def with_a_choice(registry: FlowRegistry) -> None:
    point = GuidedDecisionPoint(after_step="find", candidate_tools=["pay", "track"])
    Flow(name="settle", tools=["find", "pay", "track"], chain=["find", point], title="Settling", registry=registry)


def chat_down(replies: Sequence[str]) -> dict[str, Any]:
    return {"model": ScriptedModel(ModelError("m", "gone", retryable=False), *replies)}


def decider_down(replies: Sequence[str]) -> dict[str, Any]:
    def sure(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        return {asked: likely(question, "pay", 0.999)}

    return {"decider": ScriptedDecider(ModelError("d", "gone", retryable=False), *(sure for _ in replies))}


def callback_down(replies: Sequence[str]) -> dict[str, Any]:
    left: list[Any] = [TimeoutError("gone"), *replies]

    def choose(*_: object) -> str:
        found = left.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    return {"decision_callback": SimpleNamespace(decide=choose)}


@pytest.mark.parametrize("down", [chat_down, decider_down, callback_down])
async def test_a_model_that_is_down_at_a_choice_of_tools_leaves_the_wish_where_it_was(
    down: Callable[[Sequence[str]], dict[str, Any]],
) -> None:
    desk, registry = Desk(), FlowRegistry(min_examples=0)
    with_a_choice(registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("settle")), "desk", policy=TAKE_FIRST)
    options = {"approval": "never", "handover_after": 1, **down(["pay"])}
    waits, done = await talk(make_agent(selector, desk.tools(), **options), "settle", "yes", context=B2)
    assert (waits.status, waits.text, desk.log[:1]) == ("waiting", DOWN, ["find B-2"])
    assert waits.conversation.flows[-1].parts["0"].done == ("find",)
    assert "gone" in waits.reason
    assert (done.status, desk.log) == ("done", ["find B-2", "pay"])


async def test_a_no_calls_it_off() -> None:
    desk, registry = Desk(), FlowRegistry(min_examples=0)
    with_a_choice(registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("settle")), "desk", policy=TAKE_FIRST)
    made = make_agent(selector, desk.tools(), approval="never", **callback_down(["pay"]))
    _, off = await talk(made, "settle", "no", context=B2)
    assert (off.text, off.conversation.flows) == ("All right, nothing more will be done about: Settling.", ())


async def test_a_choice_that_is_answered_and_cannot_be_used_fails_as_ever() -> None:
    registry = FlowRegistry(min_examples=0)
    with_a_choice(registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("settle")), "desk", policy=TAKE_FIRST)
    made = make_agent(selector, Desk().tools(), approval="never", **callback_raises(ValueError("a mistake")))
    (failed,) = await talk(made, "settle", context=B2)
    assert (failed.status, failed.text) == ("failed", "Settling could not be done.")


def callback_raises(error: Exception) -> dict[str, Any]:
    def choose(*_: object) -> str:
        raise error

    return {"decision_callback": SimpleNamespace(decide=choose)}


NO_ANSWER = "I cannot answer right now because something that I need does not answer. Please ask again in a moment."


async def test_a_model_that_is_down_within_a_flow_leaves_it_open_for_the_next_message() -> None:
    registry, desk = FlowRegistry(min_examples=0), Desk()
    Flow(name="advise", tools=["track"], steps=["Look it up.", "Tell it."], title="Advice", registry=registry)
    model = ScriptedModel(ModelError("m", "gone", retryable=False), "It comes tomorrow.")
    made = agent_of(registry, desk, "advise", handover_after=1)
    made = make_agent(made.selector, desk.tools(), model, handover_after=1)
    down, later = await talk(made, "advise", "and now?", context=B2)
    assert (down.status, down.text) == ("failed", NO_ANSWER)
    assert [flow.name for flow in down.conversation.flows] == ["advise"]
    assert later.text == "It comes tomorrow."


async def test_a_model_of_a_flow_is_told_what_a_tool_refuses() -> None:
    registry, desk = FlowRegistry(min_examples=0), Desk("confirm")
    Flow(name="advise", tools=["cancel"], steps=["Cancel it, or say why not."], title="Advice", registry=registry)
    left = {"id": "s1", "tool": "cannot_finish", "arguments": {"reason": "it has left"}}
    blocked = json.dumps({"text": "It has left.", "tool_calls": [left]})
    model = ScriptedModel(CANCEL_B2, blocked)
    made = make_agent(agent_of(registry, desk, "advise").selector, desk.tools(), model)
    (result,) = await talk(made, "advise")
    assert (result.status, result.text, result.conversation.pending) == ("blocked", "It has left.", None)
    assert f"cannot be done: {SHIPPED}" in model.calls[1][-1].content


LANGUAGES = ["en", "de", "fr", "es", "it", "ru", "ja"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("key", ["try_again", "no_answer", "not_done_either", "handed_over_now"])
def test_it_is_said_in_every_language(language: str, key: str) -> None:
    said = default_texts()[language][key]
    others = [default_texts()[each][key] for each in LANGUAGES if each != language]
    assert said
    assert said not in others
