"""What a flow takes from its user: asked in the author's words, checked as soon as it is said, corrected, said back."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from jazz_select import (
    Agent,
    BaseFlow,
    Flow,
    FlowRegistry,
    FlowSelector,
    Input,
    ProceduralMemory,
    SequentialFlow,
    load_flows,
    sync_registry,
)
from jazz_select.agent import Conversation, TurnResult
from jazz_select.errors import ConfigError, FlowValidationError, WrongValue
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.turns import obj
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("011.6")
ACCOUNTS = {"ada@example.org", "ben@example.org"}
EMAIL = Input(
    "email",
    "What is the email address of your account?",
    example="ada@example.org",
    check=lambda value: "@" in value,
    problem="{value} is no address.",
)
DAY = Input("day", "On which day?", choices=("Monday", "Tuesday"))


class Desk:
    """Tools of a booking desk, which note what they are called with."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def find(self, email: str) -> dict[str, Any]:
        self.log.append(f"find {email}")
        if email not in ACCOUNTS:
            raise WrongValue("email", f"No account has {email}.")
        return {"customer": email.partition("@")[0]}

    def book(self, customer: str, day: str) -> dict[str, Any]:
        self.log.append(f"book {customer} {day}")
        return {"booking": "B-1"}

    def send(self, address: str) -> dict[str, Any]:
        self.log.append(f"send {address}")
        if "Street" not in address:
            raise WrongValue("address", "That is no street.")
        return {}

    def cancel(self, booking: str) -> dict[str, Any]:
        self.log.append(f"cancel {booking}")
        return {}

    def tools(self) -> list[Tool]:
        return [
            Tool(name="find_customer", input_schema=obj(email="string"), function=self.find, read_only=True),
            Tool(name="book_visit", input_schema=obj(customer="string", day="string"), function=self.book),
            Tool(name="send_card", input_schema=obj(address="string"), function=self.send),
            Tool(name="cancel_visit", input_schema=obj(booking="string"), function=self.cancel, undoes="book_visit"),
        ]


def agent(desk: Desk, *, model: Any = None, more: Sequence[Tool] = (), options: Any = None, **fields: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)
    given: dict[str, Any] = {
        "inputs": [EMAIL, DAY],
        "tools": ["find_customer", "book_visit", "send_card"],
        "chain": ["find_customer", "book_visit"],
        "title": "Booking a visit",
    }
    Flow(name="book", condition="The user wants a visit.", registry=registry, **{**given, **fields})
    selector = FlowSelector(model, registry, ListMemory(metadata("book")), "desk", policy=TAKE_FIRST)
    given: dict[str, Any] = {"approval": "never", **(options or {})}
    return make_agent(selector, [*desk.tools(), *more], **given)


async def talk(made: Agent, *messages: str) -> list[TurnResult]:
    kept: Conversation | None = None
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


def texts(results: Sequence[TurnResult]) -> list[str]:
    return [each.text for each in results]


async def test_inputs_are_asked_for_one_at_a_time_in_the_authors_words() -> None:
    desk = Desk()
    first, second, done = await talk(agent(desk), "book", "ada@example.org", "tuesday")
    assert texts([first, second, done]) == [
        "What is the email address of your account? (for example ada@example.org)",
        "On which day? (Monday or Tuesday)",
        "Booking a visit is done.",
    ]
    assert (first.conversation.flows[-1].asks, desk.log) == (
        ("email", "day"),
        ["find ada@example.org", "book ada Tuesday"],
    )


async def test_or_together() -> None:
    (first, *_) = await talk(agent(Desk(), ask="together"), "book")
    assert first.text == (
        "What is the email address of your account? (for example ada@example.org) On which day? (Monday or Tuesday)"
    )


async def test_a_value_is_checked_as_soon_as_it_is_said_and_the_rest_is_kept() -> None:
    desk = Desk()
    registered: list[str] = []

    def known(value: str) -> bool | str:
        registered.append(value)
        return value in ACCOUNTS or f"No account has {value}."

    made = agent(desk, inputs=[Input("email", "Your email?", check=known), DAY])
    results = await talk(made, "book", "adda@example.org", "ada@example.org", "Monday")
    assert texts(results)[1:] == [
        "No account has adda@example.org. Your email?",
        "On which day? (Monday or Tuesday)",
        "Booking a visit is done.",
    ]
    assert (registered, desk.log) == (
        ["adda@example.org", "ada@example.org"],
        ["find ada@example.org", "book ada Monday"],
    )


async def test_a_tool_that_only_reads_may_check() -> None:
    async def has_account(value: str) -> bool:
        return value in ACCOUNTS

    tool = Tool(name="has_account", input_schema=obj(value="string"), function=has_account, read_only=True)
    made = agent(Desk(), inputs=[Input("email", check="has_account", problem="{value}?"), DAY], more=[tool])
    results = await talk(made, "book", "cy@example.org", "ada@example.org")
    assert texts(results)[1:] == [
        "cy@example.org? To go on, I need: email.",
        "On which day? (Monday or Tuesday)",
    ]
    for more, problem in (([], "not connected"), ([Tool(name="has_account", input_schema=obj(a="string"))], "change")):
        with pytest.raises(ConfigError, match=problem):
            agent(Desk(), inputs=[Input("email", check="has_account")], more=more)


def raises(value: str) -> bool:
    raise ZeroDivisionError(value)


async def hangs(value: str) -> bool:
    await asyncio.sleep(3_600)
    return True


@pytest.mark.parametrize(
    ("check", "note"),
    [
        (raises, "the check of email failed: ZeroDivisionError"),
        (len, "the check of email said int, which is neither True nor False nor a text"),
    ],
)
async def test_a_check_that_fails_is_noted_and_the_value_asked_for_again_and_then_handed_over(
    check: Any, note: str
) -> None:
    made = agent(Desk(), inputs=[Input("email", "Your email?", check=check), DAY], options={"handover_after": 2})
    _, again, over = await talk(made, "book", "ada@example.org", "ada@example.org")
    assert again.text == "email could not be checked: ada@example.org. Your email?"
    assert any(each.startswith(note) for each in again.notes)
    assert (over.status, over.text) == ("handed_over", "I hand this over to a person: Booking a visit.")
    assert over.reason == "2 questions for email, day led nowhere"


async def test_a_value_that_a_tool_refuses_is_asked_for_again_in_its_words_with_the_rest_kept() -> None:
    desk = Desk()
    made = agent(desk, inputs=[Input("email", "Your email?"), DAY])
    results = await talk(made, "book", "adda@example.org", "Monday", "ada@example.org")
    assert texts(results)[2:] == ["No account has adda@example.org. Your email?", "Booking a visit is done."]
    assert desk.log == ["find adda@example.org", "find ada@example.org", "book ada Monday"]


async def test_what_had_effects_is_not_run_again_for_a_value_that_a_later_tool_refuses() -> None:
    desk = Desk()

    registry = FlowRegistry(min_examples=0)
    chain = ["find_customer", "book_visit", "send_card"]
    Flow(name="book", inputs=[EMAIL, DAY, Input("address")], tools=chain, chain=chain, registry=registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("book")), "desk", policy=TAKE_FIRST)
    made = Agent(selector, desk.tools(), approval="never")
    results = await talk(made, "book", "ada@example.org", "Monday", "Xy-55", "Street-5")
    assert texts(results)[3:] == ["That is no street. To go on, I need: address.", "Book is done."]
    assert desk.log == ["find ada@example.org", "book ada Monday", "send Xy-55", "send Street-5"]


def reads(**said: Any) -> str:
    return json.dumps({"flows": ["book"], **said})


async def test_a_correction_is_said_back_and_what_was_found_is_found_anew() -> None:
    desk = Desk()
    model = ScriptedModel(
        reads(values={"email": "ada@example.org"}), reads(values={"email": "ben@example.org", "day": "Monday"})
    )
    made = agent(desk, model=model)
    first, done = await talk(made, "book it for ada@example.org", "no, for ben@example.org, and on Monday please")
    assert first.text == "On which day? (Monday or Tuesday)"
    assert done.text == "email: ben@example.org instead of ada@example.org.\n\nBooking a visit is done."
    assert desk.log == ["find ben@example.org", "book ben Monday"]


async def test_what_is_taken_back_is_asked_for_again() -> None:
    model = ScriptedModel(reads(values={"email": "ada@example.org"}), reads(values={"email": None}))
    first, again = await talk(
        agent(Desk(), model=model), "book it for ada@example.org", "I didn't mean ada@example.org"
    )
    assert first.text == "On which day? (Monday or Tuesday)"
    assert again.text == (
        "All right, without email: ada@example.org.\n\n"
        "What is the email address of your account? (for example ada@example.org)"
    )


async def test_before_what_had_effects_is_done_anew_it_is_told_and_asked_about() -> None:
    desk = Desk()
    known = {"email": "ada@example.org", "day": "Monday", "address": "X5"}
    model = ScriptedModel(reads(values=known), reads(values={"day": "Tuesday"}), reads(values={"address": "Street 5"}))
    chain = ["find_customer", "book_visit", "send_card"]
    made = agent(desk, model=model, chain=chain)
    first = "book ada@example.org for Monday, and a card to X5"
    asks, changed, again, done = await talk(made, first, "Tuesday rather", "yes", "to Street 5")
    assert asks.text == "That is no street. To go on, I need: address."
    assert changed.text == (
        "day: Tuesday instead of Monday.\n\n"
        "Already done: Book visit. It can be undone: Cancel visit. Shall I go on with: Booking a visit?"
    )
    assert (changed.status, again.text) == ("waiting", asks.text)
    assert (done.status, desk.log[-1]) == ("done", "send Street 5")
    assert [each for each in desk.log if each.startswith("book")] == ["book ada Monday", "book ada Tuesday"]


@pytest.mark.spec("011.8")
async def test_what_was_done_is_told_when_it_is_called_off_with_what_undoes_it() -> None:
    desk = Desk()
    registry = FlowRegistry(min_examples=0)
    part = ["find_customer", "book_visit"]
    Flow(name="visit", tools=part, chain=part, registry=registry)
    Flow(name="card", tools=["send_card"], chain=["send_card"], registry=registry)
    SequentialFlow(name="book", title="Booking a visit", flows=["visit", "card"], registry=registry)
    made = Agent(
        FlowSelector(None, registry, ListMemory(metadata("book")), "desk", policy=TAKE_FIRST),
        desk.tools(),
        approval="never",
    )
    kept = (await made.turn("book", context={"email": "ada@example.org", "day": "Monday"})).conversation
    off = await made.turn("no", kept)
    assert off.text == (
        "All right, nothing more will be done about: Booking a visit. Already done: Book visit. "
        "It can be undone: Cancel visit."
    )


# --- without a model ----------------------------------------------------------------


KIND = Input("kind", "What kind of bike?")
DAYS = Input("days", "For how many days?")
RENTAL = Input("rental", "Which rental?", example="R-100")


class Bikes:
    """Tools of a place that hires bikes, which note what they are called with."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.tools = [
            Tool(name="hire_bike", input_schema=obj(kind="string", days="integer"), function=self.hire),
            Tool(name="end_rental", input_schema=obj(rental="string"), function=self.end, destructive=True),
        ]

    def hire(self, kind: str, days: int) -> None:
        self.log.append((kind, days))

    def end(self, rental: str) -> None:
        self.log.append(rental)

    def agent(self, name: str, **fields: Any) -> Agent:
        registry = FlowRegistry(min_examples=0)
        own: dict[str, Any] = {
            "hire": {"inputs": [KIND, DAYS], "chain": ["hire_bike"]},
            "end": {"inputs": [RENTAL], "chain": ["end_rental"]},
        }
        Flow(name=name, tools=["hire_bike", "end_rental"], registry=registry, **{**own[name], **fields})
        selector = FlowSelector(None, registry, ListMemory(metadata(name)), "bikes", policy=TAKE_FIRST)
        return Agent(selector, self.tools)


@pytest.mark.spec("011.5")
@pytest.mark.parametrize(
    ("said", "log"),
    [
        (("cargo bike", "3"), ("cargo bike", 3)),
        (("a red one with gears", "for 3 days please"), ("a red one with gears", 3)),
        (("ein Lastenrad", "3 Tage"), ("ein Lastenrad", 3)),
        (("city", "I do not know", "three"), ("city", 3)),
        (("what is there?", "no idea, sorry", "city", "2 or 3", "3"), ("city", 3)),
    ],
)
async def test_the_answer_to_the_authors_question_is_what_was_said(said: Sequence[str], log: Any) -> None:
    bikes = Bikes()
    (*_, done) = await talk(bikes.agent("hire"), "hire", "yes", *said)
    assert (done.status, bikes.log) == ("done", [log])


@pytest.mark.spec("011.5")
async def test_in_a_small_catalogue_what_lies_near_a_request_is_begun_and_nothing_else() -> None:
    bikes, registry = Bikes(), FlowRegistry(min_examples=0)
    own = {
        "hire": ["I want to hire a bike", "rent a cargo bike for two days"],
        "end": ["End my rental", "I do not need the bike any more"],
        "log_in": ["log me in"],
    }
    for name, examples in own.items():
        Flow(name=name, condition=examples[0], examples=examples, registry=registry)
    async with await ProceduralMemory.open(":memory:") as memory:
        await sync_registry(memory, agent_id="bikes", registry=registry)
        made = Agent(FlowSelector(None, registry, memory, "bikes"), bikes.tools)
        begun = {text: (await made.turn(text)).flows for text in ("please end my rental R-7", "sign in please")}
        for text in ("what's the weather?", "hello", "my bike has a flat tyre"):
            result = await made.turn(text)
            assert (result.status, result.flows) == ("open", []), text
            assert "I can help with: Hire, End, Log in." in result.text
    assert begun == {"please end my rental R-7": ["end"], "sign in please": ["log_in"]}


@pytest.mark.spec("011.5")
@pytest.mark.parametrize("answer", ["cargo bike, 3 days", "cargo bike; three", "cargo bike\n3 Tage"])
async def test_inputs_asked_for_together_are_answered_together(answer: str) -> None:
    bikes = Bikes()
    asks, done = (await talk(bikes.agent("hire", ask="together"), "hire", "yes", answer))[1:]
    assert (asks.text, done.status) == ("What kind of bike? For how many days?", "done")
    assert bikes.log == [("cargo bike", 3)]


@pytest.mark.parametrize(
    "correction", ["yes, but R-200", "no, R-200", "actually R-200 please", "R-200 instead of R-100"]
)
async def test_what_is_corrected_before_a_yes_is_said_back_and_asked_about_anew(correction: str) -> None:
    bikes = Bikes()
    _, asks, again, done = await talk(bikes.agent("end"), "end", "R-100", correction, "yes")
    assert "(rental: R-100)" in asks.text
    assert again.text.startswith("rental: R-200 instead of R-100.")
    assert ("(rental: R-200)" in again.text, done.status, bikes.log) == (True, "done", ["R-200"])


async def test_a_number_with_the_name_of_its_input_corrects_it() -> None:
    bikes = Bikes()
    inputs = [DAYS, KIND]
    (*_, corrected, done) = await talk(bikes.agent("hire", inputs=inputs), "hire", "yes", "3", "5 days", "city")
    assert corrected.text == "days: 5 instead of 3.\n\nWhat kind of bike?"
    assert (done.status, bikes.log) == ("done", [("city", 5)])


async def test_the_one_thing_that_a_wish_names_is_taken_where_the_example_is_alike() -> None:
    bikes = Bikes()
    asks, done = await talk(bikes.agent("end", examples=["please end R-7"]), "please end R-7", "yes")
    assert ("(rental: R-7)" in asks.text, done.status, bikes.log) == (True, "done", ["R-7"])


# --- flows that others call, and people -----------------------------------------


def called(desk: Desk, **options: Any) -> Agent:
    registry = FlowRegistry(min_examples=0)

    def check(code: str) -> dict[str, Any]:
        desk.log.append(f"code {code}")
        if code != "1717":
            raise PermissionError
        return {"customer": "ada"}

    tool = Tool(name="check_code", input_schema=obj(code="string"), function=check)
    Flow(
        name="log_in",
        inputs=[Input("code", "Your code?")],
        tools=["check_code"],
        chain=["check_code"],
        registry=registry,
    )
    for name in ("book", "move"):
        Flow(name=name, calls=["log_in"], inputs=[DAY], tools=["book_visit"], chain=["book_visit"], registry=registry)
    tools = [*desk.tools(), tool]
    if options.pop("person", False):
        tools.append(Tool(name="call_person", function=lambda: desk.log.append("person")))
        Flow(
            name="person",
            handover=True,
            tools=["call_person"],
            chain=["call_person"],
            reply="Mira comes.",
            registry=registry,
        )
    memory = ListMemory(metadata(*options.pop("found", ("book", "move"))))
    selector = FlowSelector(options.pop("model", None), registry, memory, "desk", policy=TAKE_FIRST)
    given: dict[str, Any] = {"approval": "never", **options}
    return make_agent(selector, tools, **given)


@pytest.mark.spec("011.9")
async def test_a_flow_that_others_call_is_run_first_and_once_a_conversation() -> None:
    desk = Desk()
    first, logged_in, done, again = await talk(called(desk), "book", "1717", "Monday", "move")
    assert texts([first, logged_in, done]) == [
        "Your code?",
        "Log in is done.\n\nOn which day? (Monday or Tuesday)",
        "Book is done.",
    ]
    assert (again.text, desk.log) == ("On which day? (Monday or Tuesday)", ["code 1717", "book ada Monday"])


async def test_who_logs_in_anew_is_known_to_the_flow_that_waits() -> None:
    desk = Desk()
    made = called(desk, found=("book",))
    _, asks = await talk(made, "book", "1717")
    kept = asks.conversation.model_copy(update={"called": {"log_in": {"customer": "ben"}}})
    done = await made.turn("Monday", kept)
    assert (done.status, desk.log) == ("done", ["code 1717", "book ben Monday"])


async def test_what_a_called_flow_found_is_nobodys_to_give_and_what_it_takes_is_given_with_its_caller() -> None:
    desk = Desk()

    def read(**values: str) -> str:
        return json.dumps({"flows": ["book"], "values": values})

    model = ScriptedModel(read(code="1717", customer="eve"), read(customer="eve", day="Monday"))
    asks, done = await talk(called(desk, model=model), "book with code 1717 for eve", "I am eve, on Monday")
    assert asks.text == "Log in is done.\n\nOn which day? (Monday or Tuesday)"
    assert (done.status, "eve" in done.text, desk.log) == ("done", False, ["code 1717", "book ada Monday"])


async def test_where_it_fails_or_is_called_off_those_that_call_it_are_not_begun() -> None:
    desk = Desk()
    _, failed, later = await talk(called(desk), "book", "1818", "Monday")
    assert failed.text == "Log in could not be done.\n\nBook could not be done."
    assert (failed.status, failed.conversation.flows, desk.log) == ("failed", (), ["code 1818"])
    assert (later.status, later.flows) != ("done", ["book"])
    _, off = await talk(called(Desk()), "book", "no")
    assert (off.text, off.conversation.flows) == (
        "All right, nothing more will be done about: Book.",
        (),
    )


@pytest.mark.spec("018.8")
async def test_what_was_answered_for_a_flow_is_kept_where_the_one_that_it_calls_failed() -> None:
    desk = Desk()
    read = [{"code": "1818", "day": "Monday"}, {"code": "1717"}]
    model = ScriptedModel(*(json.dumps({"flows": ["book"], "values": each}) for each in read))
    failed, done = await talk(called(desk, model=model), "book for Monday with code 1818", "book it, code 1717")
    assert (failed.status, [each.name for each in failed.conversation.failed]) == ("failed", ["book"])
    assert (done.status, desk.log) == ("done", ["code 1818", "code 1717", "book ada Monday"])
    assert (done.conversation.flows, done.conversation.failed) == ((), ())


def test_a_flow_that_calls_itself_is_refused_with_the_circle() -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="a", calls=["b"], registry=registry)
    Flow(name="b", calls=["a"], registry=registry)
    selector = FlowSelector(None, registry, ListMemory(), "desk")
    with pytest.raises(FlowValidationError, match="a → b → a is a circle"):
        Agent(selector)
    lone = FlowRegistry(min_examples=0)
    Flow(name="a", calls=["gone"], registry=lone)
    with pytest.raises(FlowValidationError, match="'gone' is not in the same registry"):
        Agent(FlowSelector(None, lone, ListMemory(), "desk"))


@pytest.mark.spec("011.9")
async def test_questions_that_lead_nowhere_and_failures_are_handed_over() -> None:
    desk = Desk()
    made = called(desk, person=True, handover_after=2)
    *_, over = await talk(made, "book", "hm", "what?")
    assert (over.status, over.text, over.reason) == ("handed_over", "Mira comes.", "2 questions for code led nowhere")
    assert (desk.log, [each.name for each in over.conversation.flows]) == (["person"], ["book", "log_in"])
    failing = Desk()
    _, failed = await talk(called(failing, person=True, handover_after=2), "book", "1818")
    assert (failed.status, failing.log) == ("handed_over", ["code 1818", "person"])
    assert failed.text.endswith("Mira comes.")
    wished = Desk()
    (own,) = await talk(called(wished, person=True, found=("person",)), "person")
    assert (own.status, own.text) == ("handed_over", "Mira comes.")
    (plain, *_, same) = await talk(called(Desk()), "book", "hm", "what?", "hm")
    assert (plain.status, same.status) == ("waiting", "waiting")


@pytest.mark.spec("011.9")
async def test_a_manual_flow_says_its_reply() -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="fire", manual=True, reply="Please call 112 first.", registry=registry)
    made = Agent(FlowSelector(None, registry, ListMemory(metadata("fire")), "desk", policy=TAKE_FIRST))
    assert (await made.turn("fire")).text == "Please call 112 first."


# --- declared on a class, as data, and in a file ---------------------------------

FIELDS: dict[str, Any] = {
    "tools": ["find_customer", "book_visit"],
    "chain": ["find_customer", "book_visit"],
    "reply": "Booked as {booking}.",
    "ask": "together",
    "calls": [],
    "handover": False,
    "inputs": [{"name": "day", "question": "On which day?", "choices": ["Monday", "Tuesday"]}],
}


def test_all_that_a_class_can_say_works_as_data_and_in_a_file(tmp_path: Any) -> None:
    inputs = [Input(**each) for each in FIELDS["inputs"]]
    registry = FlowRegistry(min_examples=0)
    made: Any = type("Book", (BaseFlow,), {"name": "book", **FIELDS, "inputs": inputs}, registry=registry)
    given: dict[str, Any] = {**FIELDS, "inputs": inputs}
    as_data = Flow(name="book", registry=FlowRegistry(min_examples=0), **given)
    (tmp_path / "flows.yaml").write_text(yaml.safe_dump({"name": "book", **FIELDS}), "utf-8")
    (in_a_file,) = load_flows(tmp_path, FlowRegistry(min_examples=0))
    for flow in (made.declared(), as_data, in_a_file):
        told = {name: getattr(flow, name) for name in FIELDS}
        assert {name: [*value] if isinstance(value, list | tuple) else value for name, value in told.items()} == {
            **FIELDS,
            "inputs": inputs,
        }


NO_INPUTS: list[tuple[Any, str]] = [
    ({"name": " "}, "needs the name"),
    ({"name": "day", "choices": "Monday"}, "choices of the input 'day' must be a list"),
    ({"name": "day", "choices": [{}]}, "must be texts and numbers"),
    ({"name": "day", "check": 5}, "check of the input 'day' must be a function"),
    ({"name": "day", "question": 5}, "question must be a text"),
    ({"name": "day", "choices": ["Monday"], "example": "Tuesday"}, "must be one of its choices, got 'Tuesday'"),
    ({"name": "day", "problem": "{day} is no day"}, "may name {value} alone, got ['day']"),
    ({"name": "day", "problem": "{value is no day"}, "write {{ and }} for braces of its own"),
]


@pytest.mark.parametrize(("given", "problem"), NO_INPUTS)
def test_an_input_that_cannot_be_is_refused(given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        Input(**given)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"inputs": ["day"]}, "inputs: must be a list of Input"),
        ({"inputs": [DAY, DAY]}, "has 'day' twice"),
        ({"ask": "both"}, "must be 'one' or 'together'"),
        ({"handover": 1}, "handover: must be True or False"),
        ({"calls": "log_in"}, "must be a list of texts"),
    ],
)
def test_a_flow_that_asks_for_what_cannot_be_is_refused(fields: Any, problem: str) -> None:
    with pytest.raises(FlowValidationError, match=re.escape(problem)):
        Flow(name="x", registry=FlowRegistry(min_examples=0), **fields)


def test_a_field_that_there_is_not_is_named_with_the_one_that_is_meant() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'replies'; did you mean 'reply'"):
        Flow(name="x", replies="y", registry=FlowRegistry(min_examples=0))  # pyright: ignore[reportCallIssue]


# --- what a model reads and the user did not say ----------------------------------


@pytest.mark.spec("011.2")
@pytest.mark.parametrize(
    ("message", "value"),
    [
        ("book it for no.60143", "60143"),
        ("nr 60143 please", "60143"),
        ("it is 60 143", "60143"),
        ("6-0-1-4-3 it is", "60143"),
        ("six oh one four three", "60143"),
        ("sechs null eins vier drei", "60143"),
        ("kim at example dot org", "kim@example.org"),
    ],
)
async def test_a_number_or_an_address_is_said_in_many_ways(message: str, value: str) -> None:
    model = ScriptedModel(reads(values={"email": value, "day": "Monday"}))
    made = agent(Desk(), model=model, inputs=[Input("email"), DAY])
    (result,) = await talk(made, message)
    assert "No account has" in result.text, result.text
    assert f"has {value}." in result.text


@pytest.mark.spec("011.2")
async def test_what_names_one_thing_and_was_not_said_is_asked_about_and_never_left_to_a_default() -> None:
    desk = Desk()
    model = ScriptedModel(reads(values={"email": "ada@example.org", "day": "Monday"}), repeat=True)
    made = agent(desk, model=model)
    asked, done = await talk(made, "book it for my usual address", "yes")
    assert asked.text == "What is the email address of your account? (ada@example.org)"
    assert (done.status, desk.log) == ("done", ["find ada@example.org", "book ada Monday"])
    _, other = await talk(agent(Desk(), model=model), "book it for my usual address", "no")
    assert other.text == "What is the email address of your account? (for example ada@example.org)"
    assert other.conversation.flows[-1].answers == {"day": "Monday"}
