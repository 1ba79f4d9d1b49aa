"""Whole turns on the support pack and its shop."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from flows.shop import Shop
from flows.tools import ReturnPolicy, shop_tools
from jazz_select import (
    ConditionalFlow,
    Flow,
    FlowRegistry,
    FlowSelector,
    ParallelFlow,
    ProceduralMemory,
    SequentialFlow,
)
from jazz_select.agent import Conversation, Route, guard, iteration_cap
from jazz_select.agent.agent import Agent
from jazz_select.agent.turn import TurnInput
from jazz_select.errors import ConfigError, FormatError, ModelError, SnapshotError, StoreError
from jazz_select.routing import CHOOSE, GuidedDecisionPoint, Tool
from jazz_select.routing.tools.sources import tool_from_function
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, flow_id
from tests.unit.selector.shop import metadata, shop
from tests.vectors import NEEDS_STATIC

ADA, BEN = {"email": "ada@example.org"}, {"email": "ben@example.org"}
REFUND = "Process a refund for my last order"
Made = Callable[..., Agent]


@pytest.fixture
def made(memory: ProceduralMemory, pack: FlowRegistry) -> Made:
    def make(model: Any = None, *, llm: Any = None, **options: Any) -> Agent:
        options = {"decision_callback": ReturnPolicy()} | options
        return Agent(FlowSelector(llm, pack, memory, "support"), shop_tools(Shop()), model, **options)

    return make


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
        "deterministic", "deterministic", "guided", "deterministic",
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
    assert (second.status, second.resumed) == ("done", "refund_order")
    assert second.text.endswith("Back to: refund order.")
    active = second.conversation.active
    assert active is not None
    assert (active.name, active.status, active.asks) == ("refund_order", "waiting", ("email",))


async def test_a_parked_flow_stays_parked_for_as_long_as_the_other_waits(made: Made) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn("what about my other order, has it been shipped?", first.conversation)
    assert [each.name for each in second.conversation.flows] == ["refund_order", "track_order"]
    assert [each.name for each in second.conversation.parked] == ["refund_order"]
    assert second.prompt.index("track_order") < second.prompt.index("refund_order")
    third = await agent.turn("ben@example.org", second.conversation)
    assert (third.flows, third.resumed) == (["track_order"], "refund_order")


@pytest.mark.parametrize("message", ["thanks", "yes please", "great!"])
async def test_what_is_done_is_not_done_again_for_a_thank_you(made: Made, message: str) -> None:
    agent = made()
    first = await agent.turn(REFUND, context=ADA)
    second = await agent.turn(message, first.conversation)
    assert (second.status, second.flows) == ("open", [])


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
    assert '"lookup_order"' in shown
    assert '"cancel_order"' not in shown


async def test_where_no_flow_fits_a_model_has_every_tool(made: Made) -> None:
    model = ScriptedModel('{"natural_language_response": "Lima."}')
    result = await made(model).turn("what is the capital of Peru")
    assert (result.status, result.text, result.flows) == ("done", "Lima.", [])
    assert '"cancel_order"' in "\n".join(each.content for each in model.calls[0])


async def test_a_model_finds_what_was_said_and_may_make_nothing_up(made: Made) -> None:
    said = ScriptedModel('{"email": "ada@example.org"}')
    found = await made(said).turn("Process a refund for my last order, I am ada@example.org")
    assert (found.status, found.model_calls) == ("done", 1)
    made_up = ScriptedModel('{"email": "eve@example.org"}')
    asked = await made(made_up).turn(REFUND)
    assert (asked.status, asked.runs[0].asks) == ("waiting", ("email",))


@NEEDS_STATIC
async def test_several_chosen_flows_run_in_order(made: Made) -> None:
    chosen = f'["{flow_id("track_order")}", "{flow_id("refund_order")}"]'
    agent = made(llm=ScriptedModel(chosen))
    result = await agent.turn("where is my order, and I want a refund for it", context=ADA)
    assert result.flows == ["track_order", "refund_order"]
    assert result.text.index("We expect it on") < result.text.index("is registered")


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
    assert (asked.status, asked.flows, asked.text) == ("waiting", [], "Shall I go on with: track order?")
    second = await agent.turn("ok", asked.conversation, context=ADA)
    assert second.flows == ["track_order", "refund_order"]


async def test_a_chain_that_ended_open_is_not_run_again(made: Made) -> None:
    agent = made()
    first = await agent.turn("Process a refund for my last order", context={**BEN, "order_number": "60127"})
    assert first.status == "open"
    assert "credit code: C-40001" in first.text
    second = await agent.turn("Process a refund for my last order", first.conversation)
    assert (second.flows, second.runs[0].records) == (["refund_order"], ())


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

    await made(guards=[marks, sees]).turn(REFUND, context=ADA)
    assert [vars(each) for each in seen] == [
        {"message": REFUND, "conversation": Conversation(), "context": {**ADA, "marked": True}}
    ]


async def test_what_fails_in_a_flow_is_told_and_the_flow_is_over(made: Made) -> None:
    result = await made().turn("please cancel the order I placed", context=ADA)
    assert (result.status, result.flows) == ("failed", ["cancel_order"])
    assert result.text == "cancel order could not be done."
    assert "is delivered and can no longer be cancelled" in result.reason
    assert result.conversation.flows == ()


async def test_a_memory_that_fails_is_told_and_the_flow_under_way_goes_on(pack: FlowRegistry) -> None:
    selector = FlowSelector(None, pack, ListMemory(error=StoreError("gone")), "support")
    result = await Agent(selector, shop_tools(Shop())).turn(REFUND)
    assert (result.status, result.flows) == ("open", [])
    assert isinstance(result.error, StoreError)


async def test_a_model_that_fails_is_told_as_data(made: Made) -> None:
    result = await made(ScriptedModel(ModelError("m", "gone", retryable=False))).turn("what is the capital of Peru")
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


async def test_tools_called_for_ever_end_at_the_limit_with_a_flagged_answer(made: Made) -> None:
    schema = {"type": "object", "properties": {"mood": {"type": "string"}}, "required": ["mood"]}

    def forever(messages: Any) -> str:
        return '{"mood": "tired"}' if "mood" in str(messages[-1].content) + str(messages[0].content) else CALL

    result = await made(ScriptedModel(forever, repeat=True), chain_limit=3).turn(
        "what is the capital of Peru", schema=schema
    )
    assert (result.incomplete, result.value, result.model_calls) == (True, {"mood": "tired"}, 4)


@pytest.mark.parametrize("wrong", [{"type": 7}, {"$ref": "#/nowhere"}, 3], ids=["type", "reference", "no schema"])
async def test_a_schema_that_cannot_be_used_is_an_error_before_anything(made: Made, wrong: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ConfigError, match="schema"):
        await made(model).turn(REFUND, context=ADA, schema=wrong)
    with pytest.raises(ConfigError, match="schema"):
        made(model, schema=wrong)
    with pytest.raises(ConfigError, match="message is a text"):
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


# --- composites -------------------------------------------------------------------------------------------------


def tools_for(*names: str, log: list[str], wants: str = "") -> list[Tool]:
    def tool(name: str) -> Tool:
        def run(**given: Any) -> dict[str, Any]:
            log.append(name)
            return {f"{name}_done": True, **given}

        wanted = {"properties": {wants: {"type": "string"}}, "required": [wants]} if wants and name == names[-1] else {}
        return Tool(name=name, input_schema={"type": "object", **wanted}, function=run)

    return [tool(name) for name in names]


def composed(kind: type[SequentialFlow | ParallelFlow]) -> tuple[FlowSelector, FlowRegistry]:
    registry = shop("first", "second")
    for name in ("first", "second"):
        part = registry.by_name(name)
        assert part is not None
        vars(part).update(tools=(f"do_{name}",), chain=(f"do_{name}",))
    kind(name="both", description="d", condition="c", flows=["first", "second"], examples=[], registry=registry)
    return FlowSelector(None, registry, ListMemory(metadata("both")), "support"), registry


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_composites_run_their_parts(kind: type[SequentialFlow | ParallelFlow]) -> None:
    selector, _ = composed(kind)
    log: list[str] = []
    result = await Agent(selector, tools_for("do_first", "do_second", log=log)).turn("both")
    assert (result.status, sorted(log)) == ("done", ["do_first", "do_second"])
    assert [part.flow for part in result.runs[0].parts] == ["first", "second"]
    assert {"do_first_done", "do_second_done"} <= set(result.runs[0].facts)


async def test_a_sequence_stops_where_a_part_waits_and_goes_on_there() -> None:
    selector, _ = composed(SequentialFlow)
    log: list[str] = []
    agent = Agent(selector, tools_for("do_first", "do_second", log=log, wants="number"))
    first = await agent.turn("both")
    assert (first.status, log, first.text) == ("waiting", ["do_first"], "To go on, I need: number.")
    second = await agent.turn("A-17", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["do_first", "do_second"])
    assert second.runs[0].facts["number"] == "A-17"


async def test_a_sequence_stops_where_a_part_fails() -> None:
    selector, _ = composed(SequentialFlow)
    log: list[str] = []

    def fails() -> None:
        raise ValueError("no")

    failing = [Tool(name="do_first", function=fails), *tools_for("do_second", log=log)]
    result = await Agent(selector, failing).turn("both")
    assert (result.status, log, result.text) == ("failed", [], "both could not be done.")
    assert "ValueError: no" in result.reason


@pytest.mark.parametrize(
    ("replies", "confidence", "otherwise", "branch"),
    [
        ((), 0.9, "second", "first"),
        ((), 0.2, "second", "second"),
        ((), 0.2, None, ""),
        ((f'["{flow_id("first")}"]',), 0.2, "second", "first"),
        (("[]",), 0.9, "second", "second"),
        (("[]",), 0.9, None, ""),
    ],
    ids=["recall is sure", "otherwise", "nothing", "a model", "a model: otherwise", "a model: nothing"],
)
async def test_a_conditional_flow_runs_the_branch_that_fits(
    replies: tuple[str, ...], confidence: float, otherwise: str | None, branch: str
) -> None:
    registry = shop("first", "second", "third")
    ConditionalFlow(
        name="either",
        description="d",
        condition="c",
        branches=[("it is the first", "first"), ("it is the third", "third")],
        otherwise=otherwise,
        examples=[],
        registry=registry,
    )
    model = ScriptedModel(f'["{flow_id("either")}"]', *replies) if replies else None
    memory = ListMemory([*metadata("either", confidence=0.9), *metadata("first", "third", confidence=confidence)])
    result = await Agent(FlowSelector(model, registry, memory, "support")).turn("either")
    assert result.flows == ["either"]
    assert [part.flow for part in result.runs[0].parts] == ([branch] if branch else [])
    assert result.status == "open"
    if model is not None:
        assert "it is the first" in model.calls[1][-1].content


# --- what must not happen twice, or to the wrong thing ------------------------------------------------------------


async def test_a_refund_of_one_order_is_no_refund_of_another(made: Made) -> None:
    named = "Process a refund for my order 60105"
    without = await made().turn(named, context=ADA)
    assert (without.status, without.runs[0].records, without.text) == (
        "waiting",
        (),
        "60105 will not be used. Shall I go on with: refund order?",
    )
    assert "60105" in without.reason
    thanks = await made().turn("thanks", without.conversation, context=ADA)
    assert (thanks.status, thanks.flows) == ("waiting", [])
    found = await made(ScriptedModel('{"order_number": "60105"}')).turn(named, context=ADA)
    assert found.runs[0].facts["order_number"] == "60105"
    assert found.runs[0].facts["eligibility"] == "too_late"


@pytest.mark.parametrize("message", ["thanks", "hm, wait", "no wait, do not do anything!", "well", "what a nice day"])
async def test_a_flow_that_waits_goes_on_only_where_it_was_answered(made: Made, message: str) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn(message, first.conversation, context=ADA)
    assert "refund_order" not in second.flows
    assert "refund_order" in {each.name for each in second.conversation.flows}


async def test_a_flow_that_waits_and_has_all_it_needs_asks_whether_to_go_on(made: Made) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn("thanks", first.conversation, context=ADA)
    assert (second.status, second.flows, second.text) == ("waiting", [], "Shall I go on with: refund order?")
    third = await agent.turn("yes please", second.conversation, context=ADA)
    assert (third.status, third.flows) == ("done", ["refund_order"])


@pytest.mark.parametrize("message", ["never mind", "Cancel.", "no"])
async def test_what_waits_can_be_called_off(made: Made, message: str) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn(message, first.conversation)
    assert (second.flows, second.conversation.flows) == ([], ())
    assert second.text == "All right, nothing more is done about: refund order."


def shop_of(*flows: tuple[str, tuple[str, ...]]) -> FlowRegistry:
    """A registry of flows with these chains."""
    registry = shop(*(name for name, _ in flows))
    for name, chain in flows:
        found = registry.by_name(name)
        assert found is not None
        vars(found).update(tools=chain, chain=chain)
    return registry


def agent_of(registry: FlowRegistry, tools: list[Any], *names: str, model: Any = None, **options: Any) -> Agent:
    selector = FlowSelector(None, registry, ListMemory(metadata(*(names or ("both",)))), "support")
    return Agent(selector, tools, model, **options)


def obj(**wanted: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in wanted.items()},
        "required": list(wanted),
    }


async def test_parts_side_by_side_do_not_see_what_the_others_found() -> None:
    registry = shop_of(("look", ("look",)), ("drop", ("drop",)))
    ParallelFlow(name="both", description="d", condition="c", flows=["look", "drop"], examples=[], registry=registry)
    dropped: list[str] = []

    def look() -> dict[str, str]:
        return {"number": "LATEST-1"}

    def drop(number: str) -> None:
        dropped.append(number)

    agent = agent_of(registry, [look, drop])
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", ("number",))
    second = await agent.turn("wait, which ones do I have?", first.conversation)
    assert (second.status, dropped) == ("waiting", [])
    third = await agent.turn("OLD-7", second.conversation)
    assert (third.status, dropped) == ("done", ["OLD-7"])


async def test_what_has_run_is_not_run_again_whatever_waits_beside_it() -> None:
    registry = shop_of(("pay", ("charge", "nothing_here")), ("ask", ("note",)))
    found = registry.by_name("pay")
    assert found is not None
    vars(found).update(chain=("charge", CHOOSE))
    ParallelFlow(
        name="both", description="d", condition="c", flows=["pay", "ask"], examples=[], registry=registry, tools=["fee"]
    )
    both = registry.by_name("both")
    assert both is not None
    vars(both).update(chain=("fee",))
    ran: list[str] = []

    def tool(name: str, **wanted: str) -> Tool:
        def run(**given: Any) -> None:
            ran.append(name)

        return Tool(name=name, input_schema=obj(**wanted), function=run)

    agent = agent_of(registry, [tool("charge"), tool("fee"), tool("note", number="string")])
    result = await agent.turn("both")
    for message in ("hm", "well", "N-1"):
        result = await agent.turn(message, Conversation.from_json(result.conversation.to_json()))
    assert sorted(ran) == ["charge", "fee", "note"]


async def test_a_part_that_is_listed_twice_runs_twice() -> None:
    registry = shop_of(("verify", ("verify",)), ("change", ("change",)))
    SequentialFlow(
        name="both",
        description="d",
        condition="c",
        flows=["verify", "change", "verify"],
        examples=[],
        registry=registry,
    )
    ran: list[str] = []

    def verify() -> None:
        ran.append("verify")

    def change(number: str) -> None:
        ran.append(number)

    agent = agent_of(registry, [verify, change])
    first = await agent.turn("both")
    second = await agent.turn("A-1", first.conversation)
    assert (second.status, ran) == ("done", ["verify", "A-1", "verify"])


async def test_a_conditional_flow_keeps_its_branch(made: Made) -> None:
    registry = shop_of(("first", ("do_first",)), ("second", ("do_second",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("x", "first"), ("y", "second")],
        examples=[],
        registry=registry,
    )
    ran: list[str] = []

    def do_first(email: str) -> None:
        ran.append(f"first {email}")

    def do_second(email: str) -> None:
        ran.append(f"second {email}")

    replies = [f'["{flow_id("both")}"]', f'["{flow_id("first")}"]']
    selector = FlowSelector(ScriptedModel(*replies), registry, ListMemory(metadata("both", "first", "second")), "s")
    agent = Agent(selector, [do_first, do_second])
    first = await agent.turn("both")
    assert first.status == "waiting"
    second = await agent.turn("ada@example.org", first.conversation)
    assert (second.status, ran) == ("done", ["first ada@example.org"])


async def test_a_model_that_fails_after_a_charge_does_not_charge_again() -> None:
    registry = shop_of(("both", ("charge",)))
    found = registry.by_name("both")
    assert found is not None
    vars(found).update(tools=("charge",), chain=("charge", CHOOSE))
    ran: list[str] = []

    def charge() -> dict[str, str]:
        ran.append("charge")
        return {"receipt": "R-1"}

    model = ScriptedModel(ModelError("m", "gone", retryable=False), "All done.")
    agent = agent_of(registry, [charge], model=model)
    first = await agent.turn("both")
    assert (first.status, ran) == ("failed", ["charge"])
    second = await agent.turn("please try again", first.conversation)
    assert (second.status, second.text, ran) == ("active", "All done.", ["charge"])
    assert "R-1" in model.calls[-1][0].content
    assert "not to be run again" in model.calls[-1][0].content


async def test_what_failed_after_something_was_destroyed_goes_on_where_it_failed() -> None:
    registry = shop_of(("both", ("charge", "ship")))
    ran: list[str] = []
    shipping: list[Exception] = [ValueError("no van")]

    def charge() -> None:
        ran.append("charge")

    def ship() -> None:
        if shipping:
            raise shipping.pop()
        ran.append("ship")

    agent = agent_of(registry, [tool_from_function(charge, destructive=True), ship])
    first = await agent.turn("both")
    assert (first.status, ran, first.conversation.flows) == ("failed", ["charge"], ())
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, ran) == ("done", ["charge", "ship"])
    third = await agent.turn("both", second.conversation)
    assert ran == ["charge", "ship", "charge", "ship"], third.reason


async def test_a_model_says_that_a_procedure_is_complete_and_the_next_part_follows() -> None:
    registry = shop_of(("talk", ("pay",)), ("pay", ("pay",)))
    talk = registry.by_name("talk")
    assert talk is not None
    vars(talk).update(chain=())
    SequentialFlow(name="both", description="d", condition="c", flows=["talk", "pay"], examples=[], registry=registry)
    ran: list[str] = []

    def pay() -> None:
        ran.append("pay")

    model = ScriptedModel(
        "What is it about?", '{"tool_call": {"tool": "finish_procedure"}}', "Then I'll take the money."
    )
    agent = agent_of(registry, [pay], model=model)
    first = await agent.turn("both")
    assert (first.status, ran) == ("active", [])
    second = await agent.turn("the chairs", first.conversation)
    assert (second.status, ran) == ("done", ["pay"])
    assert "Then I'll take the money." in second.text


async def test_what_the_caller_knows_is_for_one_turn(made: Made) -> None:
    agent = made()
    first = await agent.turn("Process a refund for my last order", context={"authenticated": True, **ADA})
    assert "authenticated" not in first.conversation.to_json()
    assert "ada@example.org" not in first.conversation.to_json()


async def test_a_flow_that_is_withheld_meanwhile_does_not_go_on() -> None:
    registry = shop()
    flow = Members(
        name="members_only", tools=["drop"], registry=registry, description="d", condition="c", desired_effects=["e"]
    )
    ran: list[str] = []

    def drop(number: str) -> None:
        ran.append(number)

    agent = agent_of(registry, [drop], flow.name)
    first = await agent.turn("members only", context={"member": True})
    assert first.status == "waiting"
    second = await agent.turn("A-1", first.conversation, context={"member": False})
    assert (second.status, ran, second.conversation.flows) == ("failed", [], ())
    assert "not available in this context" in second.reason


class Members(Flow):
    """For members."""

    chain = ("drop",)

    def available(self, context: Mapping[str, Any]) -> bool:
        return context.get("member") is True


@pytest.mark.parametrize(
    ("kind", "word", "value"),
    [
        ("integer", "50", 50),
        ("integer", "x50", None),
        ("string", "Nein", None),
        ("string", "A-5", "A-5"),
        ("number", "1.5", 1.5),
    ],
)
async def test_a_word_is_an_answer_where_it_looks_like_one(kind: str, word: str, value: object) -> None:
    registry = shop_of(("both", ("count",)))
    ran: list[object] = []

    def count(amount: object) -> None:
        ran.append(amount)

    tool = Tool(name="count", input_schema=obj(amount=kind), function=count)
    agent = agent_of(registry, [tool])
    first = await agent.turn("both")
    await agent.turn(word, first.conversation)
    assert ran == ([] if value is None else [value])


async def test_what_the_middle_of_a_chain_lacks_is_asked_for_first() -> None:
    registry = shop_of(("both", ("find", "book")))
    ran: list[str] = []

    def find() -> dict[str, str]:
        ran.append("find")
        return {"class_id": "C1"}

    def book(class_id: str, member_id: str) -> None:
        ran.append(f"{class_id} {member_id}")

    known = Tool(name="find", function=find, output_schema=obj(class_id="string"))
    first = await agent_of(registry, [known, book]).turn("both")
    assert (first.status, first.text, ran) == ("waiting", "To go on, I need: member id.", [])
    unknown = Tool(name="find", function=find)
    agent = agent_of(registry, [unknown, book])
    second = await agent.turn("both")
    assert (second.status, second.runs[0].asks, ran) == ("waiting", ("member_id",), ["find"])
    third = await agent.turn("M-12", Conversation.from_json(second.conversation.to_json()))
    assert (third.status, ran) == ("done", ["find", "C1 M-12"])


def destroyer(name: str, log: list[str], **wanted: str) -> Tool:
    """A tool that destroys, and says of what it was called with."""

    def run(**given: Any) -> None:
        log.append(" ".join([name, *map(str, given.values())]))

    return Tool(name=name, input_schema=obj(**wanted), function=run, destructive=True)


async def test_what_was_found_in_the_first_message_is_known_in_the_second(made: Made) -> None:
    model = ScriptedModel('{"order_number": "60105"}', '{"email": null}', '{"email": null}')
    agent = made(model)
    first = await agent.turn("Process a refund for my order 60105")
    assert first.status == "waiting"
    second = await agent.turn("ada@example.org", first.conversation)
    assert second.runs[0].facts["order_number"] == "60105"


@pytest.mark.parametrize("message", ["thanks", "ok then, wait", "never mind"])
async def test_what_is_queued_goes_on_only_where_it_is_agreed_to(message: str) -> None:
    log: list[str] = []
    registry = shop_of(("look", ("look",)), ("pay", ("pay",)))

    def look(number: str) -> None: ...

    chosen = f'["{flow_id("look")}", "{flow_id("pay")}"]'
    selector = FlowSelector(
        ScriptedModel(chosen, "[]", repeat=True), registry, ListMemory(metadata("look", "pay")), "s", on_empty="none"
    )
    agent = Agent(selector, [look, destroyer("pay", log)])
    first = await agent.turn("look it up and pay")
    off = await agent.turn("never mind", first.conversation)
    assert (off.resumed, log) == ("pay", [])
    after = await agent.turn(message, off.conversation)
    assert log == []
    if message == "thanks":
        await agent.turn("yes", after.conversation)
        assert log == ["pay"]


@pytest.mark.parametrize(
    ("message", "context", "named"),
    [
        ("both for order 601055", {}, "601055"),
        ("both for order 601", {"customer": "c-96012"}, "601"),
        ("both for bob@example.org", {"email": "ada@example.org"}, "bob@example.org"),
    ],
)
async def test_what_was_named_and_is_not_taken_is_asked_about(
    message: str, context: dict[str, Any], named: str
) -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log)], shift_above=0)
    first = await agent.turn(message, context=context)
    assert (first.status, first.text, log) == ("waiting", f"{named} will not be used. Shall I go on with: both?", [])
    second = await agent.turn("yes", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["drop"])


@pytest.mark.parametrize(
    "message", ["both, it is 129.00", "both since 2025-06-02", "both with my iPhone14", "both within 24h"]
)
async def test_dates_prices_and_amounts_name_nothing(message: str) -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log)], shift_above=0)
    assert (await agent.turn(message)).status == "done"


async def test_an_answer_that_takes_itself_back_is_no_go_ahead() -> None:
    log: list[str] = []
    model = ScriptedModel('{"number": null}', '{"number": "A-17"}')
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, number="string")], model=model)
    first = await agent.turn("both")
    second = await agent.turn("no, stop, do not do it for A-17!", first.conversation)
    assert (second.status, log, second.text) == ("waiting", [], "Shall I go on with: both?")
    third = await agent.turn("yes", second.conversation)
    assert (third.status, log) == ("done", ["drop A-17"])


async def test_what_failed_twice_is_still_not_paid_twice() -> None:
    log: list[str] = []

    def ship() -> None:
        raise ValueError

    agent = agent_of(shop_of(("both", ("charge", "ship"))), [destroyer("charge", log), ship])
    conversation = Conversation()
    for _ in range(4):
        conversation = (await agent.turn("both", conversation)).conversation
    assert log == ["charge"]


async def test_a_choice_is_not_made_again_while_what_was_chosen_waits() -> None:
    registry = shop_of(("both", ("charge", "mail", "ship")))
    found = registry.by_name("both")
    assert found is not None
    point = GuidedDecisionPoint(after_step="charge", candidate_tools=["mail", "ship"])
    vars(found).update(chain=("charge", point))
    log: list[str] = []
    asked: list[str] = []

    class Once:
        def decide(self, context: dict[str, Any], candidates: list[Any], prompt: str) -> str:
            asked.append(prompt)
            return "ship"

    def charge() -> dict[str, str]:
        log.append("charge")
        return {"receipt": "R-1"}

    tools = [
        charge,
        destroyer("mail", log, receipt="string"),
        destroyer("ship", log, receipt="string", address="string"),
    ]
    agent = agent_of(registry, tools, decision_callback=Once())
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", ("address",))
    second = await agent.turn("A-5", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log, len(asked)) == ("done", ["charge", "ship R-1 A-5"], 1)


async def test_a_sole_branch_has_to_hold() -> None:
    log: list[str] = []
    registry = shop_of(("drop", ("drop",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("it was said twice", "drop")],
        examples=[],
        registry=registry,
    )
    without = await agent_of(registry, [destroyer("drop", log)]).turn("both")
    assert (without.status, log) == ("open", [])
    model = ScriptedModel("[]")
    selector = FlowSelector(model, registry, ListMemory(metadata("both")), "s", on_empty="none")
    asked = await Agent(selector, [destroyer("drop", log)]).turn("both")
    assert (asked.status, log) == ("open", [])
    assert "it was said twice" in model.calls[0][-1].content


async def test_nothing_is_no_fact() -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, email="string")])
    first = await agent.turn("both", context={"email": None})
    assert (first.status, first.runs[0].asks) == ("waiting", ("email",))
    second = await agent.turn("ada@example.org", first.conversation, context={"email": None})
    assert (second.status, log) == ("done", ["drop ada@example.org"])


async def test_two_things_are_asked_for_and_given_one_by_one() -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, number="string", sure="boolean")])
    first = await agent.turn("both")
    assert first.text == "To go on, I need: number, sure."
    second = await agent.turn("A-1", first.conversation)
    assert (second.status, second.text) == ("waiting", "To go on, I need: sure.")
    third = await agent.turn("yes", second.conversation)
    assert (third.status, log) == ("done", ["drop A-1 True"])


@pytest.mark.parametrize(
    ("said", "value", "taken"),
    [
        ("129.00", 129.0, True),
        ("it is 1,500", 1500, True),
        ("12,90 please", 12.9, True),
        ("it is 5", -5, False),
        ("-5", -5, True),
    ],
)
async def test_numbers_are_compared_as_numbers(said: str, value: float, *, taken: bool) -> None:
    log: list[str] = []
    model = ScriptedModel('{"amount": null}', f'{{"amount": {value}}}')
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, amount="number")], model=model)
    first = await agent.turn("both")
    second = await agent.turn(f"well, {said}", first.conversation)
    assert bool(log) is taken, second.reason


async def test_a_flow_that_nobody_goes_on_with_can_be_left(made: Made) -> None:
    agent = made()
    first = await agent.turn("The parcel is marked as delivered but it is not here, nobody has it")
    assert [each.name for each in first.conversation.flows] == ["lost_parcel"]
    second = await agent.turn("never mind", first.conversation)
    assert second.conversation.flows == ()


async def test_a_part_that_is_gone_fails_its_flow_alone() -> None:
    selector, registry = composed(SequentialFlow)
    log: list[str] = []
    agent = Agent(selector, tools_for("do_first", "do_second", log=log, wants="number"))
    first = await agent.turn("both")
    registry.unregister(flow_id("second"))
    second = await agent.turn("A-1", first.conversation)
    assert second.status in {"failed", "waiting"}
    assert log == ["do_first"]


async def test_a_yes_is_for_what_was_asked_about() -> None:
    log: list[str] = []
    model = ScriptedModel("{}", "{}", '{"email": "ada@example.org"}', repeat=True)
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, email="string")], model=model, shift_above=0)
    first = await agent.turn("both, with the tablet A-17")
    second = await agent.turn("yes", first.conversation)
    third = await agent.turn("ada@example.org, and it is order 60105", second.conversation)
    assert (third.status, log) == ("waiting", [])
    assert third.text.startswith("60105 will not be used.")


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_what_inner_parts_have_found_is_known_after_a_pause(kind: type[SequentialFlow | ParallelFlow]) -> None:
    registry = shop_of(("find", ("find",)), ("drop", ("drop",)))
    kind(name="inner", description="d", condition="c", flows=["find"], examples=[], registry=registry)
    SequentialFlow(name="both", description="d", condition="c", flows=["inner", "drop"], examples=[], registry=registry)
    log: list[str] = []

    def find() -> dict[str, str]:
        return {"order": "A-17"}

    def drop(email: str, order: str = "LATEST") -> None:
        log.append(f"{email} {order}")

    agent = agent_of(registry, [find, drop])
    first = await agent.turn("both")
    assert first.runs[0].asks == ("email",)
    second = await agent.turn("ada@example.org", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["ada@example.org A-17"])


async def test_a_tool_that_ran_and_gave_nonsense_has_run() -> None:
    log: list[str] = []

    def charge() -> object:
        log.append("charge")
        return print

    tool = Tool(name="charge", function=charge, destructive=True)
    agent = agent_of(shop_of(("both", ("charge",))), [tool])
    first = await agent.turn("both")
    assert (first.status, log) == ("failed", ["charge"])
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["charge"])


async def test_what_destroys_and_failed_is_only_done_again_where_that_is_agreed_to() -> None:
    log: list[str] = []

    def charge() -> None:
        log.append("charge")
        if len(log) == 1:
            raise TimeoutError

    agent = agent_of(shop_of(("both", ("charge",))), [tool_from_function(charge, destructive=True)])
    first = await agent.turn("both")
    second = await agent.turn("both", Conversation.from_json(first.conversation.to_json()))
    asked = "charge may have been done already. Shall I go on with: both?"
    assert (second.status, second.text, log) == ("waiting", asked, ["charge"])
    third = await agent.turn("yes", second.conversation)
    assert (third.status, log) == ("done", ["charge", "charge"])


async def test_what_was_done_before_it_was_called_off_is_told_and_not_done_again() -> None:
    log: list[str] = []
    registry = shop_of(("both", ("charge", "ship")))
    found = registry.by_name("both")
    assert found is not None
    vars(found)["chain"] = ("charge", CHOOSE)
    agent = agent_of(registry, [destroyer("charge", log)])
    first = await agent.turn("both")
    assert (first.status, log) == ("open", ["charge"])
    second = await agent.turn("never mind", first.conversation)
    assert second.text.endswith("Done already: charge.")
    await agent.turn("both", Conversation.from_json(second.conversation.to_json()))
    assert log == ["charge"]


async def test_flows_in_which_something_was_destroyed_are_never_dropped() -> None:
    names = [f"flow_{number}" for number in range(12)]
    registry = shop_of(*((name, ("charge",)) for name in names))
    for name in names:
        found = registry.by_name(name)
        assert found is not None
        vars(found)["chain"] = ("charge", CHOOSE)
    log: list[str] = []
    conversation = Conversation()
    for name in [*names, *names]:
        agent = agent_of(registry, [destroyer("charge", log)], name)
        conversation = (await agent.turn(name.replace("_", " "), conversation)).conversation
    assert len(log) == 12


@pytest.mark.parametrize(
    "message", ["don’t do it for A-17", "I changed my mind about A-17", "cancelled? A-17?", "keep A-17"]
)
async def test_whatever_takes_back_is_no_go_ahead(message: str) -> None:
    log: list[str] = []
    model = ScriptedModel("{}", '{"number": "A-17"}')
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, number="string")], model=model)
    first = await agent.turn("both")
    second = await agent.turn(message, first.conversation)
    assert (second.status, log) == ("waiting", [])


async def test_an_open_choice_of_branches_is_gone_on_with_by_a_model() -> None:
    registry = shop_of(("first", ("look",)), ("second", ("look",)))
    branches = [("x", "first"), ("y", "second")]
    ConditionalFlow(name="both", description="d", condition="c", branches=branches, examples=[], registry=registry)
    model = ScriptedModel("Which of the two?", "I see.")
    agent = agent_of(registry, [destroyer("look", [])], model=model)
    first = await agent.turn("both")
    assert (first.status, first.text) == ("active", "Which of the two?")
    second = await agent.turn("hm", first.conversation)
    assert (second.status, second.text) == ("active", "I see.")


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


async def test_names_in_other_forms_of_the_same_letters_are_the_same() -> None:
    log: list[str] = []
    model = ScriptedModel("{}", '{"customer": "M\\u00fcller7"}')
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, customer="string")], model=model)
    first = await agent.turn("both")
    second = await agent.turn("it is Mu\u0308ller7", first.conversation)
    assert (second.status, log) == ("done", ["drop M\u00fcller7"])


# --- what must not leak out of a turn -----------------------------------------------------------------------------


def bad_chain(registry: FlowRegistry) -> None:
    found = registry.by_name("second")
    assert found is not None
    vars(found).update(chain=("no_such_tool",))


@pytest.mark.parametrize("kind", [SequentialFlow, ParallelFlow])
async def test_a_chain_that_cannot_run_is_found_before_any_does(kind: type[SequentialFlow | ParallelFlow]) -> None:
    selector, registry = composed(kind)
    bad_chain(registry)
    log: list[str] = []
    result = await Agent(selector, tools_for("do_first", log=log)).turn("both")
    assert (result.status, log) == ("failed", [])
    assert "no_such_tool" in result.reason


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
    assert result.text.startswith("both is done.")


@pytest.mark.parametrize(
    "reply",
    [
        '{"amount": 100000000000000000000}',
        '{"amount": ' + "[" * 400 + "]" * 400 + "}",
        "\ud800",
        '{"amount": "\ud800"}',
    ],
)
async def test_what_a_model_makes_of_a_question_stays_in_bounds(reply: str) -> None:
    registry = shop_of(("both", ("count",)))
    tool = Tool(name="count", input_schema=obj(amount="integer"), function=print)
    result = await agent_of(registry, [tool], model=ScriptedModel(reply)).turn("both")
    assert result.status == "waiting"


async def test_half_a_character_is_no_end_of_a_conversation(made: Made) -> None:
    result = await made().turn("hello \ud800", [Message(role="user", content="x\ud800")])
    assert Conversation.from_json(result.conversation.to_json()) == result.conversation


@pytest.mark.parametrize("error", [RuntimeError("x"), ValueError("y"), StoreError("z")])
async def test_whatever_a_memory_fails_with_is_told(pack: FlowRegistry, error: Exception) -> None:
    result = await Agent(FlowSelector(None, pack, ListMemory(error=error), "support")).turn("hello")
    assert (result.status, str(error) in result.reason) == ("open", True)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"context": "abc"}, "context is a mapping"),
        ({"context": {1: "x"}}, "context is a mapping"),
        ({"history": [{"role": "user"}]}, "history is a Conversation"),
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
        ({"chain_limit": 0}, "chain_limit is a whole number of at least 1, not 0"),
    ],
)
def test_parts_of_the_wrong_kind_are_refused(made: Made, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(**options)
    with pytest.raises(ConfigError, match="Tools or functions"):
        Agent(FlowSelector(None, shop()), [3])  # pyright: ignore[reportArgumentType]


async def test_a_large_output_and_a_long_message_do_not_stay() -> None:
    registry = shop_of(("both", ("look", "ask")))

    def look() -> dict[str, str]:
        return {"book": "x" * 3_000_000, "title": "y"}

    def ask(number: str) -> None: ...

    result = await agent_of(registry, [look, ask]).turn("both")
    assert result.status == "waiting"
    conversation = (await agent_of(registry, [look, ask]).turn("z" * 1_000_000, result.conversation)).conversation
    assert len(conversation.to_json()) < 40_000


async def test_a_small_catalogue_runs_nothing_for_small_talk() -> None:
    registry = shop_of(("both", ("look",)))

    def look() -> None: ...

    agent = agent_of(registry, [look])
    result = await agent.turn("hello")
    assert (result.status, result.flows) == ("open", [])
    assert "too small to tell" in result.reason
    assert (await agent_of(registry, [look], shift_above=0).turn("hello")).flows == ["both"]
    missing = Agent(FlowSelector(None, registry, ListMemory(), "support"), [look])
    assert "sync_registry" in (await missing.turn("hello")).reason


async def test_a_composite_speaks_with_the_words_of_its_parts() -> None:
    selector, registry = composed(SequentialFlow)
    for name in ("first", "second"):
        found = registry.by_name(name)
        assert found is not None
        vars(found).update(reply=f"{name} {{do_{name}_done}}.")
    result = await Agent(selector, tools_for("do_first", "do_second", log=[])).turn("both")
    assert result.text == "first True. second True."


# --- conversations ----------------------------------------------------------------------------------------------


def test_a_conversation_goes_to_json_and_back() -> None:
    history = [
        Message(role="user", content="hi"),
        Message(role="assistant", content="hello"),
        Message(role="system", content="x"),
    ]
    conversation = Conversation.of(history)
    assert [each.role for each in conversation.messages] == ["user", "assistant"]
    assert conversation.episodes == ("The user said: hi",)
    assert Conversation.from_json(conversation.to_json()) == conversation


@pytest.mark.parametrize(
    ("text", "problem"),
    [("{", "the text"), ('{"version": 9}', "version 9"), ('{"flows": [{}]}', "flows.0.name"), ("[]", "the text")],
)
def test_what_is_no_conversation_is_said(text: str, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        Conversation.from_json(text)


async def test_a_conversation_stays_bounded(pack: FlowRegistry) -> None:
    agent = Agent(FlowSelector(None, pack))
    conversation = Conversation()
    for number in range(30):
        conversation = (await agent.turn(f"message {number} " + "x" * 500, conversation)).conversation
    assert (len(conversation.messages), len(conversation.episodes), conversation.turns) == (30, 5, 30)
    assert max(map(len, conversation.episodes)) < 400


async def test_a_flow_that_is_gone_is_passed_over(made: Made) -> None:
    history = Conversation.model_validate({"flows": [{"name": "no_such_flow", "status": "waiting", "asks": ["a b"]}]})
    result = await made().turn("thanks", history)
    assert (result.flows, result.conversation.flows) == ([], ())
    assert "no_such_flow" in result.reason


def test_the_picture_in_the_documentation_is_the_current_one() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agent.md").read_text("utf-8")
    assert f"```mermaid\n{Agent(FlowSelector(None, shop())).mermaid()}```" in page
