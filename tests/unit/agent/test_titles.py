"""Users are told of flows and tools by their titles: no name by which code knows them shows in a text of an agent."""

import asyncio
from collections.abc import Sequence
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from jazz_select.agent import Agent, Conversation, TurnResult
from jazz_select.errors import SnapshotError, ToolError
from jazz_select.routing import CHOOSE, Tool, tool_from_function, tools_from_mcp
from jazz_select.testing import MemoryClaims
from tests.unit.agent.turns import agent_of, obj, shop_of

REFUND, PAY = "Refund of an order", "Pay the money back"
TITLED = {"flow": REFUND, "tool": PAY}
TITLES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "titles": (TITLED, TITLED),
    "none": ({}, {"flow": "Refund order", "tool": "Pay back"}),
}


def looks(**_: Any) -> dict[str, int]:
    return {"amount_cents": 5}


def pays(**_: Any) -> dict[str, bool]:
    return {"paid_back": True}


async def hangs_up(**_: Any) -> None:
    raise asyncio.CancelledError


def raises(**_: Any) -> None:
    msg = "the backend says 503"
    raise RuntimeError(msg)


def agent_with(titles: dict[str, str], function: Any = pays, **options: Any) -> Agent:
    """An agent of a flow that looks an order up and pays it back."""
    registry = shop_of(("refund_order", ("look_up", "pay_back")))
    flow = registry.by_name("refund_order")
    assert flow is not None
    vars(flow)["title"] = titles.get("flow", "")
    tools = [
        Tool(name="look_up", input_schema=obj(order_id="string"), function=looks),
        Tool(
            name="pay_back",
            title=titles.get("tool", ""),
            input_schema=obj(amount_cents="integer"),
            function=function,
            destructive=True,
        ),
    ]
    return agent_of(registry, tools, "refund_order", **({"approval": "destructive"} | options))


async def talk(agent: Agent, messages: Sequence[str]) -> list[TurnResult]:
    """Each turn goes on from the JSON of the one before."""
    results: list[TurnResult] = []
    conversation = Conversation()
    for message in messages:
        results.append(await agent.turn(message, conversation))
        conversation = Conversation.from_json(results[-1].conversation.to_json())
    return results


NUMBERED = ["refund_order", "N-17"]
AGREED = [*NUMBERED, "yes"]
ASKED = "This would be done next: {tool} (amount cents: 5). Shall I go on, yes or no?"
UNHEARD = "{tool} was started, and its outcome is unknown: it may have been done."
SAID: list[Any] = [
    pytest.param(pays, ["refund_order"], "To go on, I need: order id.", id="what it needs"),
    pytest.param(pays, NUMBERED, ASKED, id="what it asks"),
    pytest.param(pays, AGREED, "{flow} is done.", id="that it is done"),
    pytest.param(
        pays, [*NUMBERED, "no"], "All right, nothing more will be done about: {flow} (N-17).", id="that it is off"
    ),
    pytest.param(raises, AGREED, "{flow} could not be done.", id="that it failed"),
    pytest.param(hangs_up, AGREED, UNHEARD, id="that nobody knows"),
]


@pytest.mark.spec("010.8")
@pytest.mark.parametrize(("given", "told"), TITLES.values(), ids=TITLES)
@pytest.mark.parametrize(("function", "messages", "text"), SAID)
async def test_texts_have_titles_and_no_names(
    given: dict[str, str], told: dict[str, str], function: Any, messages: list[str], text: str
) -> None:
    results = await talk(agent_with(given, function), messages)
    assert results[-1].text == text.format(**told)
    assert not [name for each in results for name in ("refund_order", "look_up", "pay_back") if name in each.text]


YES: list[Any] = [
    pytest.param("yes, pay the money back", id="the title"),
    pytest.param("yes, pay back", id="the name"),
    pytest.param("yes", id="yes"),
]


@pytest.mark.spec("010.8")
@pytest.mark.parametrize("message", YES)
async def test_a_yes_may_repeat_the_title_that_was_asked_about(message: str) -> None:
    results = await talk(agent_with(TITLED), ["refund_order", "N-17", message])
    assert results[-1].status == "done"


@pytest.mark.spec("010.8")
async def test_a_call_keeps_its_title_in_what_is_signed() -> None:
    agent = agent_with(TITLED)
    _, asked = await talk(agent, ["refund_order", "N-17"])
    kept = asked.conversation.to_json(secret="s" * 32)
    pending = Conversation.from_json(kept, secret="s" * 32).pending
    assert pending is not None
    assert (pending.title, pending.display_name) == ("Pay the money back", "Pay the money back")
    with pytest.raises(SnapshotError):
        Conversation.from_json(kept.replace("Pay the money back", "Look at the money"), secret="s" * 32)
    earlier = asked.conversation.to_json().replace(',"title":"Pay the money back"', "")
    again = await agent.turn("hm?", Conversation.from_json(earlier))
    assert "This would be done next: Pay back (" in again.text, "one that was kept before there were titles"


@pytest.mark.spec("010.8")
async def test_a_no_that_comes_too_late_is_told_in_titles() -> None:
    agent = agent_with(TITLED, claims=MemoryClaims())
    _, asked = await talk(agent, ["refund_order", "N-17"])
    await agent.turn("yes", asked.conversation)
    late = await agent.turn("no", asked.conversation)
    assert late.text == "It is too late for that: Pay the money back has already been done. Nothing more will be done."


@pytest.mark.spec("010.8")
async def test_what_comes_back_and_a_choice_to_come_are_told_in_titles() -> None:
    agent = agent_with(TITLED)
    first = await agent.turn("refund_order")
    flow = first.conversation.flows[0]
    changed = flow.model_copy(update={"asks": (), "changed": ("one of pay_back, look_up", "nothing more")})
    conversation = first.conversation.model_copy(update={"flows": (changed,)})
    again = await agent.turn("what is the capital of Peru", conversation)
    assert "To come: one of Pay the money back, Look up, nothing more." in again.text
    below = first.conversation.model_copy(update={"flows": (flow, flow.model_copy(update={"nth": 1}))})
    off = await agent.turn("never mind", below)
    assert "Back to: Refund of an order." in off.text


def greet() -> str:
    """Say hello."""
    return "hello"


TRUSTED = {"trusted": True}
LISTED: list[Any] = [
    pytest.param({"title": "Say hello"}, TRUSTED, "Say hello", id="a title"),
    pytest.param({"annotations": {"title": "Say hello"}}, TRUSTED, "Say hello", id="one among the annotations"),
    pytest.param({"title": "Say hello", "annotations": {"title": "No"}}, TRUSTED, "Say hello", id="both"),
    pytest.param({"annotations": SimpleNamespace(title="Say hello")}, TRUSTED, "Say hello", id="objects"),
    pytest.param({"title": "Say\n\u202ehello"}, TRUSTED, "Say \\u202ehello", id="in one line"),
    pytest.param({"title": "x" * 1000}, TRUSTED, "x" * 120 + "…", id="a long one"),
    pytest.param({"title": 5}, TRUSTED, "Greet them", id="none that is a text"),
    pytest.param({"title": "Harmless"}, {}, "Greet them", id="of a server that is not trusted"),
]


@pytest.mark.spec("010.8")
@pytest.mark.parametrize(("said", "options", "title"), LISTED)
def test_a_servers_title_is_taken_where_it_is_trusted(said: Any, options: Any, title: str) -> None:
    (tool,) = tools_from_mcp([{"name": "greet_them", "inputSchema": {"type": "object"}, **said}], **options)
    assert tool.display_name == title


@pytest.mark.spec("010.8")
def test_a_function_may_be_given_a_title() -> None:
    assert tool_from_function(greet).display_name == "Greet"
    assert tool_from_function(greet, title=" Say  hello ").display_name == "Say hello"


async def test_a_flow_that_is_open_shows_no_name() -> None:
    registry = shop_of(("refund_order", ("look_up",)))
    flow = registry.by_name("refund_order")
    assert flow is not None
    vars(flow).update(chain=("look_up", CHOOSE))
    agent = agent_of(registry, [Tool(name="look_up", function=greet)], "refund_order")
    first = await agent.turn("refund_order")
    off = await agent.turn("never mind", first.conversation)
    assert first.text == "This is about: Refund order."
    assert off.text == "All right, nothing more will be done about: Refund order."


def book(day: date, people: int = 2) -> str:
    """Book the reading room."""
    return f"{day:%d %B} for {people}"


def in_words(day: date, people: int = 2) -> str:
    return f"the room on {day:%d %B} for {people}"


async def in_words_later(day: date, **others: int) -> str:
    return in_words(day, **others)


CONFIRMS: list[Any] = [
    pytest.param(in_words, "Book: the room on 04 May for 3 (day", id="typed as the function is"),
    pytest.param(in_words_later, "Book: the room on 04 May for 3 (day", id="async"),
    pytest.param(None, "Book (day", id="none"),
]


@pytest.mark.spec("010.8")
@pytest.mark.parametrize(("confirm", "asked"), CONFIRMS)
async def test_what_a_call_would_do_is_said_from_what_the_function_would_get(confirm: Any, asked: str) -> None:
    tool = tool_from_function(book, destructive=True, confirm=confirm)
    agent = agent_of(shop_of(("book_it", ("book",))), [tool], "book_it", approval="destructive")
    result = await agent.turn("book_it", context={"day": "2026-05-04", "people": 3})
    told = f"This would be done next: {asked}: Monday, May 4, 2026, people: 3). Shall I go on, yes or no?"
    assert (result.status, result.text) == ("confirming", told)


def of_the_day(day: date) -> str:
    return str(day)


def of_both(day: date, people: int) -> str:
    return f"{day} for {people}"


MISFITS: list[Any] = [
    pytest.param(of_the_day, "with day, people", id="takes too little"),
    pytest.param(of_both, "with day (", id="wants what may be left out"),
    pytest.param("the room", "not a callable", id="no function"),
]


@pytest.mark.parametrize(("confirm", "told"), MISFITS)
def test_what_could_not_be_asked_what_a_call_would_do_is_refused_when_the_tool_is_made(confirm: Any, told: str) -> None:
    with pytest.raises(ToolError, match="confirm cannot be called") as refused:
        tool_from_function(book, destructive=True, confirm=confirm)
    assert told in str(refused.value)
    assert "give it the function's parameters" in str(refused.value)
