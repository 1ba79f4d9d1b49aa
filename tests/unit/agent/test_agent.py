"""Whole turns on the support pack and its shop."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.shop import Shop
from flows.tools import ReturnPolicy, shop_tools
from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Conversation, Route, guard, iteration_cap
from jazz_select.agent.agent import Agent
from jazz_select.agent.turn import TurnInput
from jazz_select.errors import ConfigError, FormatError, ModelError, StoreError
from jazz_select.routing import GuidedDecisionPoint
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import flow_id
from tests.agents import TAKE_FIRST
from tests.unit.agent.turns import ADA, BEN, REFUND, Made, agent_of, all_named, destroyer, shop_of
from tests.unit.selector.shop import metadata, shop
from tests.vectors import NEEDS_STATIC


class Refund(BaseModel):
    refunded_cents: int
    account: str


async def test_a_turn_of_certain_decisions_asks_no_model(made: Made) -> None:
    model = ScriptedModel()
    result = await made(model).turn(REFUND, context=ADA, schema=Refund)
    assert (result.status, result.flows, result.model_calls, model.calls) == ("done", ["refund_order"], 0, [])
    assert result.value == Refund(refunded_cents=12_900, account="Visa ending in 4242")
    assert result.text == '{"refunded_cents":12900,"account":"Visa ending in 4242"}'
    assert [step.tool for step in result.runs[0].steps][-1] == "issue_refund"
    assert result.conversation.flows == ()


async def test_without_a_schema_the_flow_has_its_own_words(made: Made) -> None:
    result = await made().turn(REFUND, context=ADA)
    assert result.text.startswith("The return R-40002 is registered")
    assert "129.00 EUR will be back on Visa ending in 4242 by 2025-06-16." in result.text


async def test_the_trace_has_every_node_narrowing_decision_and_tool(made: Made) -> None:
    result = await made().turn(REFUND, context=ADA)
    spans = [(span.kind, span.name) for span in result.trace]
    assert spans[0] == ("turn", "agent")
    assert [name for kind, name in spans if kind == "node"] == [
        "pre_check", "select", "run_flows", "refund_order", "answer", "finish",
    ]  # fmt: skip
    assert ("recall", "recall") in spans
    assert [span.attributes["tier"] for span in result.trace if span.name == "step"] == [
        "deterministic", "deterministic", "deterministic", "guided",
    ]  # fmt: skip
    assert all(span.duration_s is not None for span in result.trace)


async def test_a_flow_asks_for_what_its_first_tool_wants_and_goes_on_with_it(made: Made) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    assert (first.status, first.text) == ("waiting", "To go on, I need: email.")
    stored = first.conversation.to_json()
    second = await agent.turn("ada@example.org", Conversation.from_json(stored))
    assert (second.status, second.flows, second.selection) == ("done", ["refund_order"], None)
    assert second.runs[0].facts["refunded_cents"] == 12_900


async def test_a_change_of_subject_parks_a_flow_and_brings_it_back(made: Made) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn("what about my other order, has it been shipped?", first.conversation, context=BEN)
    assert second.flows == ["track_order"]
    assert (second.status, second.resumed) == ("waiting", "refund_order")
    assert second.text.endswith("Back to: Refund of an order. Shall I go on with: Refund of an order?")
    active = second.conversation.active
    assert active is not None
    assert (active.name, active.status, active.asks) == ("refund_order", "waiting", ("email",))


async def test_a_parked_flow_stays_parked_for_as_long_as_the_other_waits(made: Made) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn("what about my other order, has it been shipped?", first.conversation)
    assert [each.name for each in second.conversation.flows] == ["refund_order", "track_order"]
    assert [each.name for each in second.conversation.flows[:-1]] == ["refund_order"]
    assert second.prompt.index("track_order") < second.prompt.index("refund_order")
    third = await agent.turn("ben@example.org", second.conversation)
    assert (third.flows, third.resumed) == (["track_order"], "refund_order")


async def test_what_is_not_sure_is_not_run(made: Made) -> None:
    result = await made().turn("thanks")
    assert (result.status, result.flows) == ("open", [])
    assert "not sure enough" in result.reason


async def test_a_flow_without_a_chain_is_open_with_its_prompt(made: Made) -> None:
    result = await made().turn("The parcel is marked as delivered but it is not here, nobody has it")
    assert (result.status, result.flows) == ("open", ["lost_parcel"])
    assert result.prompt.startswith("<flow")
    assert "lost_parcel" in result.prompt


CALL = '{"tool_call": {"tool": "lookup_order", "arguments": {"email": "ben@example.org"}}}'


async def test_a_model_goes_on_where_a_flow_is_open_and_keeps_its_prompt(made: Made) -> None:
    model = ScriptedModel(CALL, "It was handed over on Monday. Shall I open a case?", "The case is open.")
    agent = made(model)
    first = await agent.turn("The parcel is marked as delivered but it is not here, nobody has it", context=BEN)
    assert (first.status, first.text) == ("active", "It was handed over on Monday. Shall I open a case?")
    assert "lost_parcel" in model.calls[0][0].content
    assert first.model_calls == 2
    assert first.chain is not None
    second = await agent.turn("yes please", first.conversation)
    assert (second.status, second.flows, second.text) == ("active", ["lost_parcel"], "The case is open.")
    asked = model.calls[2]
    assert "lost_parcel" in asked[0].content
    assert [each.content for each in asked if each.role == "assistant"][-1].startswith("It was handed over")


async def test_a_model_gets_the_tools_of_the_flow_alone(made: Made) -> None:
    model = ScriptedModel("Sorry.")
    await made(model).turn("The parcel is marked as delivered but it is not here, nobody has it")
    shown = "\n".join(each.content for each in model.calls[0])
    assert "\nlookup_order {" in shown
    assert "\ncancel_order {" not in shown


async def test_where_no_flow_fits_a_model_has_every_tool_if_so_wished(made: Made) -> None:
    model = ScriptedModel("[]", '{"natural_language_response": "Lima."}')
    result = await made(model, open_tools="all").turn("what is the capital of Peru")
    assert (result.status, result.text, result.flows) == ("done", "Lima.", [])
    assert "\ncancel_order {" in "\n".join(each.content for each in model.calls[1])


async def test_a_model_finds_what_was_said_and_may_make_nothing_up(made: Made) -> None:
    said = ScriptedModel('{"flows": ["refund_order"], "values": {"email": "ada@example.org"}}')
    found = await made(said).turn("Process a refund for my last order, I am ada@example.org")
    assert (found.status, found.model_calls) == ("done", 1)
    made_up = ScriptedModel('{"flows": ["refund_order"], "values": {"email": "eve@example.org"}}')
    asked = await made(made_up).turn(REFUND)
    assert (asked.status, asked.runs[0].asks) == ("waiting", ("email",))


@NEEDS_STATIC
async def test_several_chosen_flows_run_in_order(made: Made) -> None:
    chosen = f'["{flow_id("track_order")}", "{flow_id("refund_order")}"]'
    agent = made(llm=ScriptedModel(chosen))
    result = await agent.turn("where is my order, and I want a refund for it", context=ADA)
    assert result.flows == ["track_order", "refund_order"]
    assert result.text.index("It was expected on") < result.text.index("is registered")


@NEEDS_STATIC
async def test_the_second_of_several_waits_until_the_first_has_what_it_needs(made: Made) -> None:
    chosen = f'["{flow_id("track_order")}", "{flow_id("refund_order")}"]'
    agent = made(llm=ScriptedModel(chosen))
    first = await agent.turn("where is my order, and I want a refund for it")
    assert (first.flows, first.status) == (["track_order"], "waiting")
    assert [(each.name, each.status) for each in first.conversation.flows] == [
        ("refund_order", "queued"),
        ("track_order", "waiting"),
    ]
    asked = await agent.turn("hm", first.conversation, context=ADA)
    assert (asked.status, asked.flows) == ("waiting", [])
    assert asked.text.startswith("I cannot answer right now")  # the model that reads has nothing more to say
    assert asked.text.endswith("Shall I go on with: Tracking of an order?")
    second = await agent.turn("ok", asked.conversation, context=ADA)
    assert second.flows == ["track_order", "refund_order"]


@guard("closed")
def closed(state: TurnInput) -> Route | None:
    return Route("closed") if state.context.get("closed") else None


@guard("broken")
def broken(state: TurnInput) -> Route | None:
    raise ValueError(state.message)


@pytest.mark.parametrize(
    ("each", "context", "reason"),
    [(closed, {"closed": True}, "closed"), (broken, {}, "guard broken failed: ValueError: " + REFUND)],
    ids=["blocked", "raises"],
)
async def test_a_guard_ends_a_turn_before_anything_else(
    made: Made, each: Any, context: dict[str, Any], reason: str
) -> None:
    result = await made(guards=[each]).turn(REFUND, context={**ADA, **context})
    assert (result.status, result.reason, result.runs, result.selection) == ("blocked", reason, (), None)
    assert [span.name for span in result.trace] == ["agent", "pre_check", "finish"]


@pytest.mark.parametrize("each", [closed, iteration_cap(0)], ids=["closed", "a cap on rounds, of which there are none"])
async def test_a_guard_that_has_nothing_to_say_lets_it_through(made: Made, each: Any) -> None:
    assert (await made(guards=[each]).turn(REFUND, context=ADA)).status == "done"


async def test_guards_see_what_is_asked_and_what_those_before_them_changed(made: Made) -> None:
    seen: list[TurnInput] = []

    @guard("never")
    def marks(state: TurnInput) -> Route:
        return Route(updates={"context": {**state.context, "marked": True}})

    @guard("never")
    def sees(state: TurnInput) -> None:
        seen.append(state)

    await made(guards=[marks, sees]).turn(REFUND, context=ADA, conversation_id="c")
    assert [vars(each) for each in seen] == [
        {"message": REFUND, "conversation": Conversation(id="c"), "context": {**ADA, "marked": True}}
    ]


async def test_what_cannot_be_done_is_told_in_the_shops_words_and_the_flow_is_over(made: Made) -> None:
    result = await made().turn("please cancel the order I placed", context=ADA)
    assert (result.status, result.flows) == ("blocked", ["cancel_order"])
    assert re.fullmatch(r"Order \d+ is delivered and can no longer be cancelled\.", result.text)
    assert result.text in result.reason
    assert result.conversation.flows == ()


async def test_a_memory_that_fails_is_told_and_the_flow_under_way_goes_on(pack: FlowRegistry) -> None:
    selector = FlowSelector(None, pack, ListMemory(error=StoreError("gone")), "support")
    result = await Agent(selector, all_named(pack, shop_tools(Shop()))).turn(REFUND)
    assert (result.status, result.flows) == ("open", [])
    assert isinstance(result.error, StoreError)


async def test_a_model_that_fails_is_told_as_data(made: Made) -> None:
    result = await made(ScriptedModel(ModelError("m", "gone", retryable=False), repeat=True)).turn(
        "what is the capital of Peru"
    )
    assert result.status == "failed"
    assert "gone" in str(result.error)
    assert result.conversation.turns == 1


async def test_what_is_known_does_not_fill_the_schema_and_a_model_does(made: Made) -> None:
    class Answer(BaseModel):
        mood: str

    model = ScriptedModel('{"mood": "good"}')
    result = await made(model).turn(REFUND, context=ADA, schema=Answer)
    assert (result.value, result.model_calls) == (Answer(mood="good"), 1)
    assert "issue_refund" in model.calls[0][-1].content


async def test_a_format_that_fails_loses_nothing(made: Made) -> None:
    from jazz_select.agent.chain.finalizer import finalize

    schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}
    result = await made(ScriptedModel("no", "no")).turn(REFUND, context=ADA, schema=schema)
    assert result.status == "done"
    assert result.value is None
    assert result.text.startswith("The return R-40002 is registered")
    assert isinstance(result.error, FormatError)
    again = await finalize(ScriptedModel('{"mood": "fine"}'), result.error.chain, schema)
    assert again.value == {"mood": "fine"}
    without = await made().turn(REFUND, context=ADA, schema=schema)
    assert isinstance(without.error, FormatError)
    assert str(without.error).startswith("no answer fits the schema: what tools returned does not fill the schema")


async def test_tools_called_for_ever_end_at_the_limit_with_a_flagged_answer(made: Made) -> None:
    schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}

    def forever(messages: Any) -> str:
        if messages[0].content.startswith("You read"):
            return "{}"
        return '{"mood": "tired"}' if "mood" in str(messages[-1].content) + str(messages[0].content) else CALL

    result = await made(ScriptedModel(forever, repeat=True), chain_limit=3).turn(
        "what is the capital of Peru", schema=schema
    )
    assert (result.incomplete, result.value, result.model_calls) == (True, {"mood": "tired"}, 5)


@pytest.mark.parametrize("wrong", [{"type": 7}, {"$ref": "#/nowhere"}, 3], ids=["type", "reference", "no schema"])
async def test_a_schema_that_cannot_be_used_is_an_error_before_anything(made: Made, wrong: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ConfigError, match="schema"):
        await made(model).turn(REFUND, context=ADA, schema=wrong)
    with pytest.raises(ConfigError, match="schema"):
        made(model, schema=wrong)
    with pytest.raises(ConfigError, match="message must be a text"):
        await made(model).turn(3)  # pyright: ignore[reportArgumentType] - a caller without a type checker


async def test_cancellation_passes(made: Made) -> None:
    agent = made(ScriptedModel("x", delay_s=30))
    task = asyncio.create_task(agent.turn("what is the capital of Peru"))
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_turns_at_the_same_time_do_not_mix(made: Made) -> None:
    agent = made()
    results = await asyncio.gather(*(agent.turn(REFUND, context=each) for each in (ADA, BEN) * 5))
    accounts = [result.runs[0].facts.get("title") for result in results]
    assert accounts == ["Headphones Aria 200", "Electric toothbrush"] * 5


async def test_a_part_that_cancels_itself_fails_and_the_turn_goes_on() -> None:
    registry = shop_of(("first", ("look", "one", "two")))
    found = registry.by_name("first")
    assert found is not None
    vars(found)["chain"] = ("look", GuidedDecisionPoint(after_step="look", candidate_tools=["one", "two"]))

    class Policy:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            raise asyncio.CancelledError

    def look() -> dict[str, str]:
        return {"a": "x"}

    def one(a: str) -> None: ...

    def two(a: str) -> None: ...

    result = await agent_of(registry, [look, one, two], "first", decision_callback=Policy()).turn("first")
    assert result.status == "failed"


def test_a_tool_of_the_name_that_ends_a_procedure_is_refused() -> None:
    with pytest.raises(ConfigError, match="rename it"):
        Agent(FlowSelector(None, shop()), [destroyer("finishProcedure", [])])


@pytest.mark.parametrize("reply", ["{order[number]}", "{x.__class__.__mro__}", "{", "{0}", "{order:%%%}"])
async def test_a_template_that_fails_loses_nothing(reply: str) -> None:
    registry = shop_of(("both", ("look",)))
    found = registry.by_name("both")
    assert found is not None
    vars(found).update(reply=reply)

    def look() -> dict[str, Any]:
        return {"order": {"number": 7}, "x": "y"}

    result = await agent_of(registry, [look]).turn("both")
    assert result.status == "done"
    assert result.text.startswith("Both is done.")


@pytest.mark.parametrize("error", [RuntimeError("x"), ValueError("y"), StoreError("z")])
async def test_whatever_a_memory_fails_with_is_told(pack: FlowRegistry, error: Exception) -> None:
    result = await Agent(FlowSelector(None, pack, ListMemory(error=error), "support")).turn("hello")
    assert (result.status, str(error) in result.reason) == ("open", True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"context": "abc"}, "context must be a mapping"),
        ({"context": {1: "x"}}, "context must be a mapping"),
        ({"context": {"rows": [0] * 10_000}}, "context holds more than 10000 values"),
        ({"context": {"text": "x" * 4_000_001}}, "context holds more than 4000000 characters"),
        ({"history": [{"role": "user"}]}, "history must be a Conversation"),
        ({"history": "{}"}, "Conversation.from_json"),
    ],
)
async def test_arguments_of_the_wrong_kind_are_refused(made: Made, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await made().turn("hello", **arguments)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"guards": ["closed"]}, "@guard"),
        ({"decision_callback": ReturnPolicy}, "decide"),
        ({"decision_callback": lambda: None}, "decide"),
        ({"chain_limit": 0}, "chain_limit must be a whole number from 1, got 0"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(made: Made, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(**options)
    with pytest.raises(ConfigError, match="Tools or functions"):
        Agent(FlowSelector(None, shop()), [3])  # pyright: ignore[reportArgumentType]


async def test_a_small_catalogue_runs_nothing_for_small_talk() -> None:
    registry = shop_of(("both", ("look",)))

    def look() -> None: ...

    agent = agent_of(registry, [look])
    result = await agent.turn("hello")
    assert (result.status, result.flows) == ("open", [])
    assert "too small to tell" in result.reason
    assert (await agent_of(registry, [look], policy=TAKE_FIRST).turn("hello")).flows == ["both"]
    missing = Agent(FlowSelector(None, registry, ListMemory(), "support"), [look])
    assert "sync_registry" in (await missing.turn("hello")).reason


def test_the_picture_in_the_documentation_is_the_current_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agent.md").read_text("utf-8")
    assert f"```mermaid\n{Agent(FlowSelector(None, shop())).mermaid()}```" in page


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param("[]", "no flow fits", id="none"),
        pytest.param('["burn_it_all"]', "names no flow that it was offered", id="one that was not offered"),
    ],
)
async def test_an_open_turn_says_what_the_model_chose(reply: str, reason: str) -> None:
    registry = shop_of(("first", ("look",)), ("second", ("look",)))
    model = ScriptedModel(reply, reply, "Good day.")
    memory = ListMemory(metadata("first", "second"))

    def look() -> None: ...

    result = await Agent(FlowSelector(model, registry, memory, "support"), [look]).turn("something else")
    assert (result.status, result.flows) == ("open", [])
    assert reason in result.reason
