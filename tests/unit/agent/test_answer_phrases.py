"""What is taken for an answer, for a go-ahead and for a refusal, and what is not."""

from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Conversation
from jazz_select.agent.agent import Agent
from jazz_select.routing import Tool
from jazz_select.selector.policy import Policy
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import flow_id
from tests.agents import TAKE_FIRST
from tests.unit.agent.turns import ADA, REFUND, Made, agent_of, destroyer, obj, shop_of
from tests.unit.selector.shop import metadata


@pytest.mark.spec("010.3")
async def test_a_refund_of_one_order_is_no_refund_of_another(made: Made) -> None:
    """Where no model finds the order in what was said, the question shows for which one it would be."""
    named = "Process a refund for my order 60105"
    begun = await made(approval="destructive").turn(named, context=ADA)
    assert (begun.status, begun.text) == ("waiting", "Shall I go on with: Refund of an order?")
    without = await made(approval="destructive").turn("yes", begun.conversation, context=ADA)
    assert without.status == "confirming"
    assert without.conversation.pending is not None
    assert "60105" not in without.text
    assert "(return number: " in without.text
    thanks = await made(approval="destructive").turn("thanks", without.conversation, context=ADA)
    assert (thanks.status, thanks.flows) == ("confirming", [])
    found = await made(ScriptedModel('{"flows": ["refund_order"], "values": {"order_number": "60105"}}')).turn(
        named, context=ADA
    )
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
    assert (second.status, second.flows, second.text) == ("waiting", [], "Shall I go on with: Refund of an order?")
    third = await agent.turn("yes please", second.conversation, context=ADA)
    assert (third.status, third.flows) == ("done", ["refund_order"])


@pytest.mark.parametrize("message", ["never mind", "Cancel.", "no"])
async def test_what_waits_can_be_called_off(made: Made, message: str) -> None:
    agent = made()
    first = await agent.turn(REFUND)
    second = await agent.turn(message, first.conversation)
    assert (second.flows, second.conversation.flows) == ([], ())
    assert second.text == "All right, nothing more will be done about: Refund of an order."


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


@pytest.mark.parametrize(
    ("found", "declared", "status", "text"),
    [
        ({"class_id": None}, None, "failed", "Both could not be done: class id could not be found."),
        ({}, obj(class_id="string"), "failed", "Both could not be done: class id could not be found."),
        ({}, None, "waiting", "To go on, I need: class id."),
        ({"class_id": "C1"}, None, "done", "Both is done."),
        ({"title": None}, obj(title="string"), "waiting", "To go on, I need: class id."),
        ({"day": None}, None, "waiting", "To go on, I need: class id."),
    ],
    ids=["null", "declared and not given", "not its own", "given", "another is null", "another, undeclared"],
)
async def test_what_a_look_up_did_not_find_is_not_asked_of_the_user(
    found: dict[str, Any], declared: Any, status: str, text: str
) -> None:
    registry = shop_of(("both", ("find", "book")))

    def book(class_id: str) -> None: ...

    find = Tool(name="find", function=lambda: found, output_schema=declared)
    result = await agent_of(registry, [find, book]).turn("both")
    assert (result.status, result.text) == (status, text)


async def test_what_the_look_up_takes_itself_is_asked_of_the_user() -> None:
    registry = shop_of(("both", ("find", "book")))

    def find(class_id: str = "") -> dict[str, Any]:
        return {"class_id": None}

    def book(class_id: str) -> None: ...

    result = await agent_of(registry, [find, book]).turn("both")
    assert (result.status, result.runs[0].asks) == ("waiting", ("class_id",))


async def test_what_was_found_in_the_first_message_is_known_in_the_second(made: Made) -> None:
    model = ScriptedModel('{"flows": ["refund_order"], "values": {"order_number": "60105"}}')
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
        ScriptedModel(chosen, "[]", repeat=True),
        registry,
        ListMemory(metadata("look", "pay")),
        "s",
        policy=Policy(on_empty="none"),
    )
    agent = Agent(selector, [look, destroyer("pay", log)], approval="never")
    first = await agent.turn("look it up and pay")
    off = await agent.turn("never mind", first.conversation)
    assert (off.resumed, log) == ("pay", [])
    after = await agent.turn(message, off.conversation)
    assert log == []
    if message == "thanks":
        await agent.turn("yes", after.conversation)
        assert log == ["pay"]


@pytest.mark.spec("011.2")
@pytest.mark.parametrize(
    "message", ["both for order 601055", "both for bob@example.org", "both, it is 129.00", "both since 2025-06-02"]
)
async def test_what_no_input_takes_holds_nothing_up(message: str) -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log)], policy=TAKE_FIRST, approval="destructive")
    begun = await agent.turn(message)
    assert (begun.status, begun.text) == ("waiting", "Shall I go on with: Both?")
    first = await agent.turn("yes", begun.conversation)
    assert (first.status, log) == ("confirming", [])
    second = await agent.turn("yes", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", ["drop"])


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
        ("I would say 5", -5, False),
        ("-5", -5, True),
    ],
)
async def test_numbers_are_compared_as_numbers(said: str, value: float, *, taken: bool) -> None:
    log: list[str] = []
    model = ScriptedModel('["both"]', f'{{"flows": ["both"], "values": {{"amount": {value}}}}}')
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


@pytest.mark.parametrize(
    "message",
    [
        *("don’t do it for A-17", "I changed my mind about A-17", "cancelled? A-17?", "keep A-17"),
        "no, stop, do not do it for A-17!",
    ],
)
async def test_whatever_takes_back_is_no_go_ahead(message: str) -> None:
    log: list[str] = []
    model = ScriptedModel('["both"]', '{"flows": ["both"], "values": {"number": "A-17"}}')
    tool = destroyer("drop", log, number="string")
    agent = agent_of(shop_of(("both", ("drop",))), [tool], model=model, approval="destructive")
    first = await agent.turn("both")
    second = await agent.turn(message, first.conversation)
    assert (second.status, log) == ("confirming", [])
    assert "(number: A-17)" in second.text


async def test_names_in_other_forms_of_the_same_letters_are_the_same() -> None:
    log: list[str] = []
    model = ScriptedModel('["both"]', '{"flows": ["both"], "values": {"customer": "M\\u00fcller7"}}')
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, customer="string")], model=model)
    first = await agent.turn("both")
    second = await agent.turn("it is Mu\u0308ller7", first.conversation)
    assert (second.status, log) == ("done", ["drop M\u00fcller7"])


@pytest.mark.parametrize(
    "reply",
    [
        '{"flows": ["both"], "values": {"amount": 100000000000000000000}}',
        '{"flows": ["both"], "values": {"amount": ' + "[" * 400 + "]" * 400 + "}}",
        "\ud800",
        '{"flows": ["both"], "values": {"amount": "\ud800"}}',
    ],
)
async def test_what_a_model_makes_of_a_question_stays_in_bounds(reply: str) -> None:
    registry = shop_of(("both", ("count",)))
    tool = Tool(name="count", input_schema=obj(amount="integer"), function=print)
    result = await agent_of(registry, [tool], model=ScriptedModel(reply)).turn("both")
    assert result.status == "waiting"
