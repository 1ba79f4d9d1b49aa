"""Signed in as ben: whatever a model writes, no tool works on anybody else, and no model is shown the name."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from jazz_select import (
    Agent,
    Flow,
    FlowRegistry,
    FlowSelector,
    FromContext,
    Input,
    Policy,
    Tool,
    respond,
    tool_from_function,
)
from jazz_select.agent import run_chain
from jazz_select.agent.agent_options import PromptOptions
from jazz_select.errors import ConfigError, WrongValue
from jazz_select.flow.base import GuidedDecisionPoint
from jazz_select.routing.approval import Allow
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import NativeCall, Reply
from tests.agents import TAKE_FIRST

QUESTION = "Does ada have Dune at home?"
BEN = {"member": "ben"}
ADA = {"title": "Dune", "member": "ada"}
NOTE = "find_loan: the value given for 'member' was dropped, since only the context may give it"
Log = list[tuple[str, ...]]


def desk_tools(log: Log, *, declared: bool = False, hint: type = str) -> list[Tool]:
    """The tools of the tutorial's desk, which write down for whom they were called."""
    member_type = Annotated[hint, FromContext] if declared else hint

    def find_loan(title: str, member: str) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append(("find_loan", title, str(member)))
        return {"due": "2026-06-01"}

    def drop_hold(title: str, member: str) -> None:
        """Take somebody off the waiting list for a book."""
        log.append(("drop_hold", title, str(member)))

    def tell_hours() -> dict[str, str]:
        """Say when the library is open."""
        return {"hours": "9 to 5"}

    for function in (find_loan, drop_hold):
        function.__annotations__["member"] = member_type
    return [
        tool_from_function(find_loan, read_only=True),
        tool_from_function(drop_hold, destructive=True),
        tool_from_function(tell_hours, read_only=True),
    ]


def call(tool: str, text: str = "", **arguments: Any) -> str:
    spoken = {"text": text} if text else {}
    return json.dumps({**spoken, "tool_calls": [{"id": "s1", "tool": tool, "arguments": arguments}]})


def native(tool: str, **arguments: Any) -> Reply:
    return Reply(text="", tool_calls=(NativeCall(id="c1", name=tool, arguments=arguments),))


def desk_agent(
    model: ScriptedModel, tools: Sequence[Tool], flow: Mapping[str, Any] | None = None, **options: Any
) -> Agent:
    """An agent with one flow, or with none that fits."""
    registry = FlowRegistry(min_examples=0)
    known: list[dict[str, Any]] = []
    if flow is not None:
        found = Flow(desired_effects=["it is known"], examples=[QUESTION], registry=registry, **flow)
        known.append({"flow_id": found.id, "flow_name": found.name})
    selector = FlowSelector(None, registry, ListMemory(known), "library", policy=options.pop("policy", TAKE_FIRST))
    return Agent(selector, tools, model, **options)


def shown_by_us(model: ScriptedModel, first: int = 0) -> str:
    """All that a model was shown but its own words: messages of others, and tools in their native form."""
    texts = [message.content for each in model.calls[first:] for message in each if message.role != "assistant"]
    tools = [[tool.description, tool.name, tool.schema] for each in model.tools[first:] for tool in each]
    return "\n".join((*texts, json.dumps(tools)))


LED = {"name": "look_up", "description": "Say what is lent.", "steps": ["Find the loan."], "tools": ["find_loan"]}


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("narrowing", ["fresh", "growing"])
@pytest.mark.parametrize("is_native", [False, True], ids=["in text", "native"])
@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
async def test_a_led_flow_works_for_who_is_signed_in(narrowing: Any, is_native: bool, declared: bool) -> None:
    log: Log = []
    asks = native("find_loan", **ADA) if is_native else call("find_loan", **ADA)
    model = ScriptedModel(asks, "It is at home until June.", takes_tools=is_native)
    tools = desk_tools(log, declared=declared)
    agent = desk_agent(model, tools, LED, prompt=PromptOptions(narrowing=narrowing))
    result = await agent.turn(QUESTION, context=BEN)
    assert (result.flows, log) == (["look_up"], [("find_loan", "Dune", "ben")])
    assert "title" in shown_by_us(model)
    assert "member" not in shown_by_us(model)
    assert "ben" not in shown_by_us(model)
    assert NOTE in result.notes
    assert [each.arguments for each in result.conversation.calls] == [{"title": "Dune"}]


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("is_native", [False, True], ids=["in text", "native"])
async def test_where_no_flow_fits_it_is_who_is_signed_in(is_native: bool) -> None:
    log: Log = []
    asks = native("find_loan", **ADA) if is_native else call("find_loan", **ADA)
    model = ScriptedModel("[]", asks, "It is.", takes_tools=is_native)
    flow = {"name": "opening", "description": "Hours.", "tools": ["tell_hours"], "steps": ["Say them."]}
    agent = desk_agent(model, desk_tools(log), flow, policy=Policy(max_error=0))
    result = await agent.turn("so, does ada have Dune?", context=BEN)
    assert (result.flows, log) == ([], [("find_loan", "Dune", "ben")])
    assert "member" not in shown_by_us(model)
    assert NOTE in result.notes


@pytest.mark.spec("017.1")
async def test_the_model_is_told_that_a_value_was_not_used() -> None:
    model = ScriptedModel(call("find_loan", **ADA), "It is.")
    await desk_agent(model, desk_tools([]), LED).turn(QUESTION, context=BEN)
    assert "were not used" in model.calls[1][-1].content


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("name", ["member", "Member", "MEMBER", "mem\u200bber", "\uff4d\uff45\uff4d\uff42\uff45\uff52"])
async def test_spellings_of_a_name_are_one(name: str) -> None:
    log: Log = []
    model = ScriptedModel(call("find_loan", **{"title": "Dune", name: "ada"}), "It is.")
    result = await desk_agent(model, desk_tools(log), LED).turn(QUESTION, context=BEN)
    assert log == [("find_loan", "Dune", "ben")]
    assert [note for note in result.notes if "was dropped" in note]


@pytest.mark.spec("017.1")
async def test_an_input_that_a_tool_takes_undeclared_is_not_let_through() -> None:
    taken: list[Any] = []

    def find_loan(**given: Any) -> None:
        taken.append(given)

    loose = Tool(name="find_loan", input_schema={"type": "object"}, function=find_loan, read_only=True)
    model = ScriptedModel(call("find_loan", **ADA), "It is.")
    await desk_agent(model, [loose], LED).turn(QUESTION, context=BEN)
    assert taken == [{"title": "Dune"}]


@pytest.mark.spec("017.1")
async def test_a_turn_without_the_name_leaves_it_to_the_model() -> None:
    log: Log = []
    model = ScriptedModel(call("find_loan", **ADA), "It is.")
    result = await desk_agent(model, desk_tools(log), LED).turn(QUESTION, context={"member": None})
    assert (log, result.notes) == ([("find_loan", "Dune", "ada")], ())
    assert "member" in shown_by_us(model)


@pytest.mark.spec("017.1")
async def test_a_declared_name_that_the_context_lacks_fails_the_call_and_names_it() -> None:
    log: Log = []
    model = ScriptedModel(call("find_loan", **ADA), "I cannot say.")
    result = await desk_agent(model, desk_tools(log, declared=True), LED).turn(QUESTION, context={"name": "ben"})
    assert log == []
    assert result.chain is not None
    assert "it needs 'member' from the context" in next(
        each.error for each in result.chain.entries if each.kind == "result"
    )


@pytest.mark.spec("017.1")
async def test_a_chain_without_a_declared_name_runs_nothing_and_asks_nobody() -> None:
    log: Log = []
    flow = {"name": "look_up", "description": "Say.", "tools": ["tell_hours", "find_loan"]}
    chain = ("tell_hours", "find_loan")
    agent = desk_agent(ScriptedModel(), desk_tools(log, declared=True), {**flow, "chain": chain})
    result = await agent.turn(QUESTION, context={"title": "Dune"})
    assert (result.status, log, result.runs[0].records) == ("failed", [], ())
    assert "it needs 'member' from the context" in result.runs[0].problem


@pytest.mark.spec("017.1")
async def test_a_declared_name_is_never_asked_of_the_user() -> None:
    log: Log = []
    inputs = [Input(name="member", question="Who are you?"), Input(name="title", question="Which book?")]
    flow = {"name": "look_up", "description": "Say.", "tools": ["find_loan"], "chain": ("find_loan",), "inputs": inputs}
    agent = desk_agent(ScriptedModel(repeat=False), desk_tools(log, declared=True), flow)
    model_free = Agent(agent.selector, desk_tools(log, declared=True))
    first = await model_free.turn(QUESTION, context=BEN)
    assert first.text == "Which book?"
    second = await model_free.turn("Dune", first.conversation, context=BEN)
    assert (second.status, log) == ("done", [("find_loan", "Dune", "ben")])


@pytest.mark.spec("017.1")
async def test_a_declared_value_that_a_tool_refuses_is_not_asked_for() -> None:
    def find_loan(title: str, who: Annotated[str, FromContext("member")]) -> None:
        """Find a loan."""
        raise WrongValue("who", "Nobody is called so.")

    flow = {"name": "look_up", "description": "Say.", "tools": ["find_loan"], "chain": ("find_loan",)}
    agent = desk_agent(ScriptedModel(), [tool_from_function(find_loan, read_only=True)], flow)
    result = await Agent(agent.selector, [tool_from_function(find_loan, read_only=True)]).turn(
        QUESTION, context={**BEN, "title": "Dune"}
    )
    assert (result.status, result.runs[0].asks) == ("failed", ())


@pytest.mark.spec("017.1")
async def test_a_guided_point_shows_neither_name_nor_value() -> None:
    log: Log = []
    point = GuidedDecisionPoint(after_step="tell_hours", candidate_tools=["find_loan", "drop_hold"])
    tools = ["tell_hours", "find_loan", "drop_hold"]
    flow = {"name": "look_up", "description": "Say.", "tools": tools, "chain": ("tell_hours", point)}
    model = ScriptedModel("find_loan", repeat=True)
    agent = desk_agent(model, desk_tools(log), flow)
    result = await agent.turn(QUESTION, context={**BEN, "title": "Dune"})
    assert (result.status, log) == ("done", [("find_loan", "Dune", "ben")])
    assert "Choose the next action" in shown_by_us(model)
    assert "member" not in shown_by_us(model)
    assert "ben" not in shown_by_us(model)


@pytest.mark.spec("017.1")
@pytest.mark.spec("012.1")
async def test_a_yes_covers_what_the_context_fills() -> None:
    log: Log = []
    flow = {**LED, "tools": ["drop_hold"]}
    model = ScriptedModel(call("drop_hold", **ADA), "Done.")
    agent = desk_agent(model, desk_tools(log), flow)
    asked = await agent.turn(QUESTION, context=BEN)
    assert (asked.status, log) == ("confirming", [])
    assert "member: ben" in asked.text
    assert "ada" not in asked.text
    other = await agent.turn("yes", asked.conversation, context={"member": "eve"})
    assert (other.status, log) == ("confirming", [])
    same = await desk_agent(ScriptedModel("Done."), desk_tools(log), flow).turn("yes", asked.conversation, context=BEN)
    assert log == [("drop_hold", "Dune", "ben")]
    assert same.conversation.calls[-1].arguments == {"title": "Dune"}


@pytest.mark.spec("017.1")
async def test_the_same_destructive_call_is_known_again_with_what_was_filled() -> None:
    log: Log = []
    flow = {**LED, "tools": ["drop_hold"]}
    model = ScriptedModel(call("drop_hold", title="Dune"), "More?", call("drop_hold", title="Dune"), "Well.")
    agent = desk_agent(model, desk_tools(log), flow)
    first = await agent.turn(QUESTION, context=BEN)
    second = await agent.turn("yes", first.conversation, context=BEN)
    third = await agent.turn("and once more", second.conversation, context=BEN)
    assert len(log) == 1
    assert third.status == "confirming"
    assert third.conversation.pending is not None
    assert third.conversation.pending.before == "done"


@pytest.mark.spec("017.1")
async def test_a_question_that_waits_is_shown_to_models_without_the_name() -> None:
    flow = {**LED, "tools": ["drop_hold", "find_loan"]}
    model = ScriptedModel(call("drop_hold", **ADA), "{}", "It is a list.", repeat=True)
    agent = desk_agent(model, desk_tools([]), flow)
    asked = await agent.turn(QUESTION, context=BEN)
    pending = asked.conversation.pending
    assert pending is not None
    assert "member: ben" in pending.question()
    assert "member" not in pending.question_for_models()


CHAINS: list[Any] = [pytest.param(run_chain, id="run_chain"), pytest.param(respond, id="respond")]


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("run", CHAINS)
@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
@pytest.mark.parametrize("is_native", [False, True], ids=["in text", "native"])
async def test_a_chain_works_for_who_is_signed_in(run: Any, declared: bool, is_native: bool) -> None:
    log: Log = []
    asks = native("find_loan", **ADA) if is_native else call("find_loan", **ADA)
    model = ScriptedModel(asks, "It is.", takes_tools=is_native)
    ended = await run(model, QUESTION, desk_tools(log, declared=declared), context=BEN)
    chain = ended if run is run_chain else ended.chain
    assert (log, chain.answer) == ([("find_loan", "Dune", "ben")], "It is.")
    assert chain.notes == (NOTE,)
    assert "member" not in shown_by_us(model)
    assert [each.arguments for each in chain.entries if each.kind == "call"] == [{"title": "Dune"}]


@pytest.mark.spec("017.1")
async def test_an_approved_call_of_a_chain_keeps_what_was_filled() -> None:
    log: Log = []
    model = ScriptedModel(call("drop_hold", **ADA), "Done.")
    chain = await run_chain(model, QUESTION, desk_tools(log), context=BEN, until_asked=True)
    assert (chain.status, log) == ("asked", [])
    await run_chain(model, QUESTION, desk_tools(log), after=chain, answer=Allow(), context=BEN)
    assert log == [("drop_hold", "Dune", "ben")]
    log.clear()
    model = ScriptedModel("It waits.")
    await run_chain(model, QUESTION, desk_tools(log), after=chain, answer=Allow(), context={"member": "eve"})
    assert log == []


@pytest.mark.spec("017.1")
async def test_a_chain_without_the_declared_name_names_it() -> None:
    log: Log = []
    chain = await run_chain(ScriptedModel(call("find_loan", **ADA), "No."), QUESTION, desk_tools(log, declared=True))
    assert log == []
    assert [each.error for each in chain.entries if each.kind == "result"] == [
        "find_loan was not run: it needs 'member' from the context, which has none; give it with context="
    ]


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("run", CHAINS)
async def test_a_context_must_be_a_mapping(run: Any) -> None:
    with pytest.raises(ConfigError, match="context must be a mapping of names to values, got"):
        await run(ScriptedModel(), QUESTION, desk_tools([]), context=[("member", "ben")])


@pytest.mark.spec("017.1")
async def test_a_value_of_the_context_that_does_not_fit_is_named_by_its_key() -> None:
    log: Log = []
    result = await run_chain(
        ScriptedModel(call("find_loan", title="Dune"), "No."), QUESTION, desk_tools(log), context={"Member": 7}
    )
    assert log == []
    errors = [each.error for each in result.entries if each.kind == "result"]
    assert "'Member' of the context does not fit its input 'member'" in errors[0]


class Query(BaseModel):
    title: str
    member: str


def query_tools(log: Log) -> list[Tool]:
    """A tool for reading and one for an effect, each of which takes one object."""

    def find_loan(query: Query) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append(("find_loan", query.title, query.member))
        return {"due": "2026-06-01"}

    def drop_hold(query: Query) -> None:
        """Take somebody off the waiting list for a book."""
        log.append(("drop_hold", query.title, query.member))

    return [tool_from_function(find_loan, read_only=True), tool_from_function(drop_hold, destructive=True)]


NOTE_OF_FIELD = NOTE.replace("'member'", "'query.member'")


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("run", CHAINS)
@pytest.mark.parametrize("is_native", [False, True], ids=["in text", "native"])
async def test_a_chain_fills_a_field_of_the_single_object(run: Any, is_native: bool) -> None:
    log: Log = []
    asks = native("find_loan", query=ADA) if is_native else call("find_loan", query=ADA)
    model = ScriptedModel(asks, "It is.", takes_tools=is_native)
    ended = await run(model, QUESTION, query_tools(log), context=BEN)
    chain = ended if run is run_chain else ended.chain
    assert (log, chain.notes) == ([("find_loan", "Dune", "ben")], (NOTE_OF_FIELD,))
    assert "title" in shown_by_us(model)
    assert "member" not in shown_by_us(model)
    assert [each.arguments for each in chain.entries if each.kind == "call"] == [{"query": {"title": "Dune"}}]


@pytest.mark.spec("017.1")
@pytest.mark.parametrize("is_native", [False, True], ids=["in text", "native"])
async def test_a_led_flow_fills_a_field_of_the_single_object(is_native: bool) -> None:
    log: Log = []
    asks = native("find_loan", query=ADA) if is_native else call("find_loan", query=ADA)
    model = ScriptedModel(asks, "It is.", takes_tools=is_native)
    result = await desk_agent(model, query_tools(log), LED).turn(QUESTION, context=BEN)
    assert log == [("find_loan", "Dune", "ben")]
    assert "member" not in shown_by_us(model)
    assert "ben" not in shown_by_us(model)
    assert NOTE_OF_FIELD in result.notes
    assert [each.arguments for each in result.conversation.calls] == [{"query": {"title": "Dune"}}]


@pytest.mark.spec("017.1")
async def test_a_yes_covers_a_filled_field_of_the_single_object() -> None:
    log: Log = []
    flow = {**LED, "tools": ["drop_hold"]}
    asks = call("drop_hold", query=ADA)
    asked = await desk_agent(ScriptedModel(asks), query_tools(log), flow).turn(QUESTION, context=BEN)
    assert (asked.status, log) == ("confirming", [])
    assert "ben" in asked.text
    assert asked.conversation.pending is not None
    assert "ben" not in asked.conversation.pending.question_for_models()
    later = desk_agent(ScriptedModel("Done."), query_tools(log), flow)
    same = await later.turn("yes", asked.conversation, context=BEN)
    assert log == [("drop_hold", "Dune", "ben")]
    assert same.conversation.calls[-1].arguments == {"query": {"title": "Dune"}}
