"""When a person takes over: after turns in which nothing was understood, and with nothing of what was answered lost."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, Input, Policy
from jazz_select.agent import Conversation, TurnResult
from jazz_select.agent.handover import is_question
from jazz_select.errors import ModelError, StoreError, WrongValue
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import flow_id
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("018.9")
EMAIL = Input("email", "What is your address?", example="ada@example.org", check=lambda value: "@" in value)
DAY = Input("day", "On which day?", choices=("Monday", "Tuesday"))
OVER = "I hand this over to a person."
NO_ANSWER = "I cannot answer right now because something that I need does not answer. Please ask again in a moment."
LIMIT = 3


def find(email: str) -> dict[str, Any]:
    if email.startswith("eve"):
        raise WrongValue("email", f"No account has {email}.")
    return {"customer": email.partition("@")[0]}


def fails(**_: Any) -> None:
    raise RuntimeError("it broke")


def tools(log: list[str]) -> list[Tool]:
    def book(**_: Any) -> None:
        log.append("book")

    return [
        Tool(name="find", input_schema=obj(email="string"), function=find, read_only=True),
        Tool(name="book", input_schema=obj(customer="string", day="string"), function=book),
        Tool(name="drop", function=lambda: log.append("drop"), destructive=True),
        Tool(name="break_down", input_schema=obj(day="string"), function=fails),
        Tool(name="call_person", function=lambda: log.append("person")),
    ]


def flows(*, person: bool) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    chain = ["find", "book"]
    Flow(name="visit", title="Booking a visit", inputs=[EMAIL, DAY], tools=chain, chain=chain, registry=registry)
    Flow(name="closing", title="Closing", tools=["drop"], chain=["drop"], registry=registry)
    Flow(name="broken", title="Repair", inputs=[DAY], tools=["break_down"], chain=["break_down"], registry=registry)
    if person:
        chain = ["call_person"]
        Flow(name="person", handover=True, tools=chain, chain=chain, reply="Mira comes.", registry=registry)
    return registry


def agent(
    *found: str, model: Any = None, person: bool = False, log: list[str] | None = None, memory: Any = None
) -> Agent:
    policy = Policy() if model is not None else TAKE_FIRST
    memory = memory or ListMemory(metadata(*found) if found else [])
    selector = FlowSelector(model, flows(person=person), memory, "desk", policy=policy)
    return make_agent(selector, tools([] if log is None else log), model, handover_after=LIMIT)


async def talk(made: Agent, *messages: str, kept: Conversation | None = None) -> list[TurnResult]:
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


def counts(results: Sequence[TurnResult]) -> list[int]:
    return [each.conversation.not_understood for each in results]


def reads(*names: str, **more: Any) -> str:
    return json.dumps({"flows": [flow_id(name) for name in names], **more})


# --- what counts, with and without a flow -------------------------------------------

ROWS: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[int], str]] = {
    # what is recalled, what is said, how many turns in a row were not understood by then, as what the last one ends
    "nobody is understood, without a flow": ((), ("abc", "def", "ghi"), [1, 2, 0], "handed_over"),
    "fewer than that": ((), ("abc", "def"), [1, 2], "open"),
    "a greeting says nothing either way": (
        (),
        ("abc", "hello", "def", "thanks", "ghi"),
        [1, 1, 2, 2, 0],
        "handed_over",
    ),
    "nor does a blank message": ((), ("abc", " ", "def"), [1, 1, 2], "open"),
    "the same is asked again": (("visit",), ("visit", "hm", "what?", "er"), [0, 1, 2, 0], "handed_over"),
    "a value is refused by its check": (
        ("visit",),
        ("visit", "ada-1", "ada-2", "ada-3"),
        [0, 1, 2, 0],
        "handed_over",
    ),
    "a value is refused by a tool": (
        ("visit",),
        ("visit", "eve1@example.org", "Monday", "eve2@example.org", "eve3@example.org"),
        [0, 0, 0, 1, 2],
        "waiting",
    ),
    "an answer begins anew": (
        ("visit",),
        ("visit", "hm", "what?", "ada@example.org", "hm", "er", "Monday"),
        [0, 1, 2, 0, 1, 2, 0],
        "done",
    ),
    "nobody says yes or no": (("closing",), ("closing", "hm", "er", "hmm"), [0, 1, 2, 0], "handed_over"),
    "a yes": (("closing",), ("closing", "hm", "er", "yes"), [0, 1, 2, 0], "done"),
    "it is called off": (("visit",), ("visit", "hm", "er", "no"), [0, 1, 2, 0], "done"),
}


@pytest.mark.parametrize(("found", "said", "counted", "status"), list(ROWS.values()), ids=list(ROWS))
async def test_turns_count_in_which_nothing_was_understood_or_a_value_was_refused(
    found: tuple[str, ...], said: tuple[str, ...], counted: list[int], status: str
) -> None:
    results = await talk(agent(*found), *said)
    assert (counts(results), results[-1].status) == (counted, status)
    assert [each.status for each in results[:-1] if each.status == "handed_over"] == []


async def test_they_count_over_the_conversation() -> None:
    model = ScriptedModel(
        "[]", "What do you mean?", reads("visit"), "[]", "Which address is that?", "[]", "I do not follow you?"
    )
    made = agent("visit", model=model)
    first, begun, *_, last = await talk(made, "the thing", "book a visit", "the usual one", "you know it")
    assert (first.conversation.not_understood, begun.conversation.not_understood) == (1, 0)
    assert last.conversation.not_understood == 2


async def test_without_a_flow_a_model_that_only_asks_back_did_not_understand() -> None:
    model = ScriptedModel(*["[]", "What is it about?"] * LIMIT)
    *_, over = await talk(agent("visit", model=model), "the thing", "that one", "you know")
    assert (over.status, over.reason) == ("handed_over", "3 messages in a row were not understood")
    assert over.text.endswith(OVER)


async def test_a_model_that_knows_what_to_say_did() -> None:
    model = ScriptedModel(*["[]", "That is good to know."] * 5)
    results = await talk(agent("visit", model=model), *["I live in Leipzig."] * 5)
    assert (counts(results), results[-1].status) == ([0] * 5, "done")


async def test_an_answered_question_does_not_count_and_no_answer_is_thrown_away() -> None:
    asked = ["what does it cost", "Do you open on Sundays?", "and where is it?", "how long does it take?"]
    told = ["It is free.", "No, we do not.", "In Leipzig.", "An hour."]
    replies = [each for answer in told for each in (reads("visit"), answer)]
    model = ScriptedModel(reads("visit"), *replies)
    _, *answered = await talk(agent("visit", model=model, person=True), "book a visit", *asked)
    assert [each.status for each in answered] == ["waiting"] * 4
    assert [each.text.split("\n\n")[0] for each in answered] == told
    assert counts(answered) == [0] * 4


async def test_a_model_or_a_memory_that_is_down_is_not_the_users_fault() -> None:
    down = ScriptedModel(*[ModelError("m", "gone", retryable=False)] * 20)
    made = agent(model=down)
    results = await talk(made, "abc", "def", "ghi", "jkl")
    assert (counts(results), {each.status for each in results}) == ([0] * 4, {"failed"})
    lost = await talk(agent(memory=ListMemory(error=StoreError("gone"))), "abc", "def", "ghi")
    assert (counts(lost), {each.status for each in lost}) == ([0] * 3, {"open"})


@pytest.mark.spec("018.8")
@pytest.mark.parametrize(
    ("begun", "question"),
    [
        (reads("visit"), "What is your address? (for example ada@example.org)"),
        (reads("closing"), "This would be done next: Drop. Shall I go on, yes or no?"),
    ],
    ids=["a value waits", "a call waits"],
)
async def test_a_message_that_nobody_could_read_is_asked_for_again_and_nothing_is_lost(
    begun: str, question: str
) -> None:
    log: list[str] = []
    down = ModelError("m", "gone", retryable=False)
    made = agent("visit", "closing", model=ScriptedModel(begun, *[down] * 9), log=log)
    first, unread, again = await talk(made, "please", "the one on my bill, I think", "the one on my bill, I think")
    assert first.text == question
    assert (unread.status, unread.text) == (first.status, f"{NO_ANSWER}\n\n{question}")
    assert again.text == unread.text
    assert (again.conversation.flows, counts([unread, again]), log) == (first.conversation.flows, [0, 0], [])


# --- what a person takes over ---------------------------------------------------------


async def test_what_was_answered_stays_with_the_flow_that_is_parked() -> None:
    log: list[str] = []
    *_, over = await talk(agent("visit", person=True, log=log), "visit", "ada@example.org", "hm", "er", "hmm")
    assert (over.status, over.text, log) == ("handed_over", "Mira comes.", ["person"])
    assert over.reason == "3 questions for day led nowhere"
    (parked,) = over.conversation.flows
    assert (parked.name, parked.answers) == ("visit", {"email": "ada@example.org"})


async def test_what_was_answered_in_the_turn_that_failed_stays_too() -> None:
    log: list[str] = []
    _, over = await talk(agent("broken", person=True, log=log), "broken", "Monday")
    assert (over.status, log) == ("handed_over", ["person"])
    assert over.text == "Repair could not be done.\n\nMira comes."
    (parked,) = over.conversation.failed
    assert (parked.name, parked.answers) == ("broken", {"day": "Monday"})


async def test_a_call_that_waits_is_parked_and_a_yes_to_the_person_is_none_to_it() -> None:
    log: list[str] = []
    *_, over = await talk(agent("closing", person=True, log=log), "closing", "hm", "er", "hmm")
    assert (over.status, over.conversation.pending, log) == ("handed_over", None, ["person"])
    parked = over.conversation.flows[-1]
    assert (parked.name, parked.pending and parked.pending.tool) == ("closing", "drop")
    (after,) = await talk(agent("closing", person=True, log=log), "yes", kept=over.conversation)
    assert (after.status, log) == ("confirming", ["person"])


async def test_who_talks_to_the_person_already_is_not_handed_over_again() -> None:
    registry = FlowRegistry(min_examples=0)
    chain = ["find", "call_person"]
    Flow(name="person", title="A person", handover=True, inputs=[EMAIL], tools=chain, chain=chain, registry=registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("person")), "desk", policy=TAKE_FIRST)
    made = make_agent(selector, tools([]), handover_after=LIMIT)
    *_, over = await talk(made, "person", "hm", "er", "hmm")
    assert (over.status, over.text) == ("handed_over", "I hand this over to a person: A person.")
    assert [flow.name for flow in over.conversation.flows] == ["person"]


PERSONAL: dict[str, tuple[dict[str, Any], str]] = {
    "a manual flow says its reply": ({"manual": True, "reply": "Call 112 first."}, "Call 112 first."),
    "a manual flow without a reply": ({"manual": True}, "I hand this over to a person: A person."),
    "a manual flow whose reply lacks a fact": (
        {"manual": True, "reply": "Call {phone}."},
        "I hand this over to a person: A person.",
    ),
}


def agent_of_person(found: Sequence[str], **fields: Any) -> Agent:
    registry = flows(person=False)
    Flow(name="person", title="A person", handover=True, registry=registry, **fields)
    selector = FlowSelector(None, registry, ListMemory(metadata(*found) if found else []), "desk", policy=TAKE_FIRST)
    return make_agent(selector, tools([]), handover_after=LIMIT)


@pytest.mark.parametrize(("fields", "text"), PERSONAL.values(), ids=list(PERSONAL))
async def test_a_manual_flow_that_hands_over_is_done_by_the_person(fields: dict[str, Any], text: str) -> None:
    (over,) = await talk(agent_of_person(["person"], **fields), "a human please")
    assert (over.status, over.text) == ("handed_over", text)


@pytest.mark.parametrize("fields", [{"manual": True}, {"steps": ["Ring the desk."]}], ids=["manual", "without a chain"])
async def test_a_person_takes_over_though_the_flow_for_that_cannot_run_here(fields: dict[str, Any]) -> None:
    *_, over = await talk(agent_of_person([], **fields), "abc", "def", "ghi")
    assert (over.status, over.reason) == ("handed_over", "3 messages in a row were not understood")
    assert over.text == "I hand this over to a person: A person."


async def test_a_conversation_that_was_saved_before_is_read() -> None:
    (begun,) = await talk(agent("visit"), "visit")
    saved: dict[str, Any] = json.loads(begun.conversation.to_json())
    del saved["not_understood"]
    saved["flows"][0]["nowhere"] = 2
    names = {
        "doubt": "uncertain_tools",
        "unheard": "calls_of_unknown_outcome",
        "taken": "approved_changes",
    }
    for earlier, name in names.items():
        saved["flows"][0][earlier] = saved["flows"][0].pop(name)
    saved["flows"][0] |= {"doubt": ["pay"], "unheard": {"0 pay": "id"}, "taken": ["book"]}
    kept = Conversation.from_json(json.dumps(saved))
    flow = kept.flows[0]
    assert flow.uncertain_tools == ("pay",)
    assert flow.calls_of_unknown_outcome == {"0 pay": "id"}
    assert flow.approved_changes == ("book",)
    assert (kept.not_understood, kept.flows[0].asks) == (0, ("email", "day"))
    (again,) = await talk(agent("visit"), "hm", kept=kept)
    assert (again.status, again.conversation.not_understood) == ("waiting", 1)


QUESTIONS: Mapping[str, bool] = {
    "what does it cost": True,
    "hi, how do I get there": True,
    "is that so?": True,
    "wie lange dauert das": True,
    "¿cuánto cuesta?": True,
    "pourquoi pas": True,
    "quanto costa": True,
    "сколько это стоит": True,
    "営業時間は何時ですか": True,
    "the usual one, like always": False,
    "you should have that!": False,
    "hm": False,
    "": False,
}


@pytest.mark.parametrize(("message", "asks"), QUESTIONS.items(), ids=list(QUESTIONS))
def test_what_asks_something_is_known_by_its_mark_or_its_first_word(message: str, asks: bool) -> None:
    assert is_question(message) is asks
