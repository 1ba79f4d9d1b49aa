"""What a model finds in the user's words counts only where the user said it, and what a bare answer is read as."""

from typing import Any

import pytest

from jazz_select.agent import Conversation
from jazz_select.agent.reading.bare_answer import bare_answer, corrections, plain_answer
from jazz_select.agent.reading.grounding import Wanted, fits, ground, is_named, refined, shown_inputs, was_said
from jazz_select.flow.inputs import Input
from jazz_select.routing import Tool
from jazz_select.testing import ScriptedModel
from jazz_select.texts import Texts
from tests.unit.agent.turns import agent_of, obj, shop_of
from tests.unit.test_bounds import steps

TEXT, WHOLE, NUMBER, YES_OR_NO = ({"type": each} for each in ("string", "integer", "number", "boolean"))
DATE = {"type": "string", "format": "date"}
SPEED = {"type": "string", "enum": ["next_day", "standard"]}
BOTH = '{"flows": ["both"]}'
PETS = {"type": "array", "items": TEXT}
OWNER = {"type": "object", "properties": {"name": TEXT, "age": WHOLE, "phone": {"type": ["string", "null"]}}}


def wanted(**parts: Any) -> dict[str, Wanted]:
    root = {"type": "object", "properties": parts}
    return {name: Wanted(part, root) for name, part in parts.items()}


def heard(value: Any, part: Any, *said: str) -> Any:
    return ground({"fact": value}, {}, wanted(fact=part), said).values.get("fact")


SAID: list[Any] = [
    (TEXT, "ada@example.org", "it is Ada@Example.org."),
    (TEXT, "Ada Lovelace", "my name: ADA\n  lovelace, thanks"),
    (TEXT, "Rex", "It’s Rex's birthday"),
    (TEXT, "M\u00fcller7", "it is Mu\u0308ller7"),
    (TEXT, "A-17", "予約番号はA-17です"),
    (TEXT, "A-17.", "(A-17)"),
    (TEXT, "+491701234567", "call +49 170 1234567 please"),
    (TEXT, "d'Ada", "c'est d’Ada"),
    (TEXT, "3", "three, please"),
    (SPEED, "next_day", "Next day delivery, please"),
    (SPEED, "standard", "the standard one"),
    (WHOLE, 3, "three cats"),
    (WHOLE, 21, "twenty-one"),
    (WHOLE, 17, "dix-sept, merci"),
    (WHOLE, 12, "zwölf Stück"),
    (WHOLE, 15, "quince"),
    (WHOLE, 8, "otto"),
    (WHOLE, 20, "10-20 people"),
    (WHOLE, 3, "3つください"),
    (NUMBER, 12.9, "12,90 €"),
    (NUMBER, 1500, "about $1,500"),
    (DATE, "2026-03-05", "on 2026-03-05"),
    (DATE, "2026-03-05", "on March 5th, 2026"),
    (DATE, "2026-03-05", "am 5. März 2026"),
    (DATE, "2026-03-05", "el 5 de marzo de 2026"),
    (DATE, "2026-03-05", "am 5.3.2026"),
    (DATE, "2026-03-25", "on 25/3/2026"),
    (DATE, "2026-03-05", "2026年3月5日に"),
    (YES_OR_NO, True, "express, please"),
    (YES_OR_NO, False, "no hurry"),
    (SPEED, "next_day", "as fast as you can"),
    (WHOLE, 500, "five hundred"),
    (WHOLE, 2500, "two thousand five hundred euros"),
    (WHOLE, 200, "deux cents"),
    (NUMBER, 500.0, "500 euros"),
    (NUMBER, 500.0, "five hundred, please"),
    (WHOLE, 1000, "one thousand"),
    (WHOLE, 100, "a hundred"),
    (WHOLE, 3, "half of it is mine, and you may take three"),
    (WHOLE, 2, "the second one"),
    (WHOLE, 3, "die dritte"),
    (PETS, ["Rex", "Tom"], "Tom and Rex"),
    (OWNER, {"name": "Ada", "age": 30}, "Ada, thirty"),
]
NOT_SAID: list[Any] = [
    (TEXT, "ada@evil.com", "ada@example.org, not bob@evil.com"),
    (TEXT, "x-1", "x, and 1"),
    (TEXT, "evil.com", "bob@evil.com"),
    (TEXT, "A-1", "A-12"),
    (TEXT, "A-1", "A-1-B"),
    (TEXT, "ad", "Ada"),
    (TEXT, "don", "I don't know"),
    (TEXT, "cafe_1", "caf\u00e9_1"),
    (TEXT, "ก", "กี"),
    (TEXT, "...", "..."),
    (TEXT, "12", "12:30"),
    (TEXT, "Rex Tom", "Rex"),
    (WHOLE, 3, "thirteen"),
    (WHOLE, 2, "two and a half"),
    (WHOLE, 2, "two hundred"),
    (WHOLE, 20, "twenty-one"),
    (WHOLE, 20, "twenty-odd"),
    (WHOLE, 20, "twenty zero"),
    (WHOLE, 30, "twenty ten"),
    (WHOLE, 123456, "1,23,456 of them"),
    ({"anyOf": [{"enum": ["gift"]}, TEXT]}, "gift", "it is for my sister"),
    (WHOLE, 11, "only once"),
    (WHOLE, 17, "A-17"),
    (WHOLE, -17, "A-17"),
    (WHOLE, 2026, "2026-03-05"),
    (WHOLE, 9007199254740992, "9007199254740993"),
    (DATE, "2026-03-05", "tomorrow"),
    (DATE, "2026-03-05", "next Thursday, March 5th"),
    (DATE, "2026-03-05", "5/3/2026"),
    (DATE, "2026-03-05", "12026-03-05"),
    (PETS, ["Rex", "Kim"], "Tom and Rex"),
    (PETS, [], "none"),
    (OWNER, {"name": "Ada", "phone": "1"}, "Ada"),
    (OWNER, {"name": "Ada", "hidden": "Ada"}, "Ada"),
    ({}, [[]], "nothing"),
]


@pytest.mark.spec("005.3")
@pytest.mark.parametrize(("part", "value", "message"), SAID)
def test_what_stands_in_a_message_was_said(part: Any, value: Any, message: str) -> None:
    assert heard(value, part, "hello", message) == value


@pytest.mark.spec("005.3")
@pytest.mark.parametrize(("part", "value", "message"), NOT_SAID)
def test_what_does_not_stand_there_whole_was_not_said(part: Any, value: Any, message: str) -> None:
    assert heard(value, part, "hello", message) is None


def test_a_value_is_not_put_together_out_of_two_messages() -> None:
    assert heard("Ada Lovelace", TEXT, "I am Ada", "Lovelace") is None


def test_what_a_model_says_is_null_is_left_out() -> None:
    assert heard({"name": "Ada", "phone": None}, OWNER, "Ada") == {"name": "Ada"}
    assert heard(None, TEXT, "null") is None


def test_what_an_author_asks_describes_an_input_that_its_tool_does_not() -> None:
    def told(part: Any) -> tuple[str, ...]:
        return shown_inputs({"size": refined(Wanted(part, {}), Input("size", question="Which size?"))})

    assert told(TEXT) == ("size: string (Which size?)",)
    assert told({**TEXT, "description": "In inches"}) == ("size: string (In inches)",)


def test_a_flow_is_named_by_its_name_and_by_nothing_that_is_gone_or_too_long() -> None:
    flow = shop_of(("both", ("look",))).by_name("both")
    assert is_named(flow, "Both!")
    assert not is_named(flow, "both " * 2_000)
    assert not is_named(None, "both")


@pytest.mark.parametrize("value", ["", None, "x"])
def test_what_is_empty_fits_nothing_and_nothing_fits_a_schema_that_is_none(value: Any) -> None:
    assert fits("fact", value, wanted(fact={})["fact"]) is (value == "x")
    assert fits("fact", value, wanted(fact={"type": "nonsense"})["fact"]) is False


def test_an_endless_list_is_not_held_against_all_that_was_said() -> None:
    assert heard(["a"] * 100_000, PETS, "a") is None


BARE = [
    (WHOLE, "three", 3),
    (WHOLE, "Drei.", 3),
    (WHOLE, "1,500", 1500),
    (WHOLE, "due", 2),
    (WHOLE, "x50", None),
    (WHOLE, "three cats", None),
    (WHOLE, "infinity", None),
    (WHOLE, "1e9", None),
    (NUMBER, "snan", None),
    (NUMBER, "1,5", 1.5),
    (NUMBER, "1,500", None),
    (DATE, "2026-03-05", "2026-03-05"),
    (DATE, "March 5, 2026", "2026-03-05"),
    (DATE, "5.3.2026", "2026-03-05"),
    (DATE, "5/3/2026", None),
    (DATE, "A-17", None),
    (DATE, "tomorrow", None),
    (SPEED, "Next day!", "next_day"),
    (SPEED, "next", None),
    (YES_OR_NO, "yes please", True),
    (YES_OR_NO, "no thanks", False),
    (YES_OR_NO, "ja", True),
    (YES_OR_NO, "cancel", None),
    (YES_OR_NO, "never mind", None),
    (YES_OR_NO, "maybe", None),
    (TEXT, "A-17", "A-17"),
    (TEXT, "ada@example.org", "ada@example.org"),
    ({"type": "string", "format": "email"}, "A-17", None),
    ({"type": "string", "pattern": "^B"}, "A-17", None),
    ({"anyOf": [NUMBER, TEXT]}, "117", 117.0),
    (TEXT, "Rex", None),
    (TEXT, "A-17 please", "A-17"),
    (TEXT, "it's A-17, thanks", "A-17"),
    (TEXT, "my fact is: A-17.", "A-17"),
    (TEXT, "it is not A-17", None),
    (TEXT, "the order is A-17", None),
    (TEXT, "A-17 or A-18", None),
]


@pytest.mark.parametrize(("part", "message", "value"), BARE)
def test_a_message_that_is_only_a_value_answers(part: Any, message: str, value: Any) -> None:
    assert bare_answer(wanted(fact=part), message) == ({} if value is None else {"fact": value})


def test_a_yes_answers_for_nothing_where_more_was_asked() -> None:
    assert bare_answer(wanted(sure=YES_OR_NO, number=TEXT), "yes") == {}


@pytest.mark.parametrize(
    ("parts", "message", "found"),
    [
        pytest.param({"days": WHOLE}, "7 days", {"days": 7}, id="with its name"),
        pytest.param({"number_of_days": WHOLE}, "two days", {"number_of_days": 2}, id="with a word of its name"),
        pytest.param({"days": WHOLE}, "7 weeks", {}, id="with another word"),
        pytest.param({"days": WHOLE}, "not 7 days", {}, id="with more"),
        pytest.param({"days": WHOLE}, "days", {}, id="its name alone"),
        pytest.param({"city": TEXT, "speed": SPEED}, "next day", {"speed": "next_day"}, id="only the second can"),
        pytest.param({"speed": SPEED, "days": WHOLE}, "3", {"days": 3}, id="the first cannot"),
        pytest.param({"days": WHOLE, "cars": WHOLE}, "3", {"days": 3}, id="both can"),
        pytest.param({"speed": SPEED, "days": WHOLE, "cars": WHOLE}, "3", {}, id="two others can"),
        pytest.param({"city": TEXT, "speed": SPEED}, "Hamburg", {}, id="none surely is"),
    ],
)
def test_a_message_that_is_only_a_value_answers_what_it_can_be(parts: Any, message: str, found: Any) -> None:
    assert bare_answer(wanted(**parts), message) == found


@pytest.mark.spec("019.4")
@pytest.mark.parametrize(
    "name",
    ["May", "Mia", "Will", "Nice", "Plus", "Mark", "Grace", "Do", "Ja Rule", "Los Angeles", "Once", "Go Ahead Tours"],
)
def test_after_a_question_every_word_may_be_a_value(name: str) -> None:
    asked = {"who": refined(Wanted(TEXT, {}), Input("who", question="Who is it for?"))}
    assert plain_answer(asked, name) == {"who": name}


@pytest.mark.spec("019.4")
@pytest.mark.parametrize(
    "message",
    [
        "no",
        "cancel",
        "stop",
        "never mind",
        "why",
        "why?",
        "hm",
        "thanks",
        "yes please",
        "I don't know",
        "wait",
        "nein",
        "やめて",
    ],
)
def test_after_a_question_a_whole_phrase_of_refusal_question_or_sigh_is_none(message: str) -> None:
    asked = {"who": refined(Wanted(TEXT, {}), Input("who", question="Who is it for?"))}
    assert plain_answer(asked, message) == {}


PLAIN = ["Rex", "rex!", "Ada Lovelace", "Mark", "José María Aznar", "Рекс", "レックス", "O'Brien", "Noah", "Chang"]
NOT_PLAIN = [
    *("yes", "Yes please", "no", "n", "cancel", "stop", "why", "why?", "Rex?", "hm", "ok then, wait", "thanks", "help"),
    *("what is that", "track my order", "book a table", "I don't know", "not Rex", "keep it", "never mind"),
    *("Ada the great of York", "Rex, cancel it", "17", "👍", "", "...", "later", "nein", "abbrechen", "отмена"),
    *("キャンセル", "annulla", "cancelar", "por qué", "a" * 200, "no Rex", "Rex instead", "human please", "maybe Rex"),
]


@pytest.mark.parametrize("message", PLAIN)
def test_plain_words_answer_for_the_one_text_that_was_asked_for(message: str) -> None:
    assert plain_answer(wanted(pet_name=TEXT), message) == {"pet_name": message.strip("!")}


@pytest.mark.parametrize("message", NOT_PLAIN)
def test_whatever_may_be_more_than_an_answer_is_none(message: str) -> None:
    assert plain_answer(wanted(pet_name=TEXT), message) == {}


@pytest.mark.parametrize(
    "parts",
    [
        {"pet_name": TEXT, "breed": TEXT},
        {"order_number": TEXT},
        {"email": TEXT},
        {"born": DATE},
        {"speed": SPEED},
        {"pet_name": {"type": "string", "pattern": "^[0-9]+$"}},
        {"pet_name": WHOLE},
        {"pet_name": {}},
    ],
    ids=["two", "a number", "an address", "a date", "one of a list", "a pattern", "no text", "who knows"],
)
def test_plain_words_answer_for_nothing_else(parts: Any) -> None:
    assert plain_answer(wanted(**parts), "Rex") == {}


@pytest.mark.parametrize(
    ("part", "message", "found"),
    [
        pytest.param({"type": ["string", "null"]}, "large, with a rim", "large, with a rim", id="a text"),
        pytest.param({"type": ["integer", "null"]}, "about 7 of them", None, id="a number with more"),
        pytest.param({"anyOf": [{"enum": ["small"]}, TEXT]}, "quite large", None, id="perhaps one of a list"),
        pytest.param({"type": "string", "format": "password"}, "quite large", None, id="a text of a format"),
        pytest.param({"anyOf": [WHOLE, TEXT]}, "quite large", None, id="a number or a text"),
        pytest.param(TEXT, "how large can it be?", None, id="a question"),
        pytest.param(TEXT, "どれが大きいですか？", None, id="a question with a wide mark"),
    ],
)
def test_what_an_author_asks_is_answered_by_the_whole_message(part: Any, message: str, found: Any) -> None:
    asked = {"size": refined(Wanted(part, {}), Input("size", question="Which size?"))}
    assert plain_answer(asked, message) == ({} if found is None else {"size": found})


@pytest.mark.parametrize(
    ("answers", "message", "found"),
    [
        pytest.param({"days": 4}, "5 days", {"days": 5}, id="by its name"),
        pytest.param({"days": 5}, "5 days", {}, id="as it was"),
        pytest.param({"days": 4, "city": "Rome"}, "no, 50", {"days": 50}, id="what alone it can be"),
        pytest.param({"days": 50, "city": "Rome"}, "no, 50", {}, id="what it is already"),
        pytest.param({"days": 4, "cars": 2}, "no, 50", {}, id="either"),
        pytest.param({"days": 4, "city": "Rome"}, "50", {}, id="without a no"),
        pytest.param({"city": "A-17"}, "it is B-18", {"city": "B-18"}, id="the one thing"),
        pytest.param({"city": "A-17"}, "it is a-17", {}, id="the one thing in other letters"),
    ],
)
def test_what_was_answered_is_corrected(answers: dict[str, Any], message: str, found: dict[str, Any]) -> None:
    assert corrections(wanted(days=WHOLE, cars=WHOLE, city=TEXT), answers, message) == found


# --- in a turn -----------------------------------------------------------------


def vet(log: list[Any], **wants: Any) -> Tool:
    def register(**given: Any) -> None:
        log.append(given)

    return Tool(
        name="register", input_schema={"type": "object", "properties": wants, "required": [*wants]}, function=register
    )


@pytest.mark.parametrize(
    ("message", "log"),
    [
        ("Rex", [{"pet_name": "Rex"}]),
        ("what is a pet name", []),
        ("thanks", []),
        ("both please", []),
        ("another both", []),
    ],
)
async def test_a_name_is_an_answer_without_a_model(message: str, log: list[Any]) -> None:
    done: list[Any] = []
    agent = agent_of(shop_of(("both", ("register",))), [vet(done, pet_name=TEXT)])
    first = await agent.turn("both")
    assert (first.status, first.text) == ("waiting", "To go on, I need: pet name.")
    second = await agent.turn(message, Conversation.from_json(first.conversation.to_json()))
    assert (done, second.status) == (log, "done" if log else "waiting")


@pytest.mark.spec("005.3")
async def test_a_question_about_what_would_be_done_is_no_answer() -> None:
    done: list[Any] = []
    registry = shop_of(("both", ("wipe",)))

    def wipe(**given: Any) -> None:
        done.append(given)

    tool = Tool(name="wipe", input_schema=obj(email="string"), function=wipe, destructive=True)
    for model in (None, ScriptedModel(BOTH, '{"flows": ["both"], "values": {"email": "ada@example.org"}}')):
        agent = agent_of(registry, [tool], model=model, approval="destructive")
        first = await agent.turn("both")
        second = await agent.turn("ada@example.org — what exactly would be deleted?", first.conversation)
        assert (second.status, done) == ("waiting" if model is None else "confirming", [])


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    "message", ["cancelar", "annulla", "отмена", "キャンセル", "abbrechen", "annuler", "Stop.", "n"]
)
@pytest.mark.parametrize("with_model", [True, False], ids=["a model", "no model"])
async def test_what_waits_for_a_fact_is_called_off_in_each_language(message: str, with_model: bool) -> None:
    done: list[Any] = []
    model = ScriptedModel(BOTH) if with_model else None
    agent = agent_of(shop_of(("both", ("register",))), [vet(done, pet_name=TEXT)], model=model)
    first = await agent.turn("both")
    off = await agent.turn(message, first.conversation)
    told = Texts().in_language_of([message])["called_off"].format(title="Both")
    assert (off.text, off.conversation.flows, done) == (told, (), [])


@pytest.mark.spec("011.2")
async def test_a_boolean_is_given_by_the_answer_to_its_own_question_or_by_who_reads_the_message() -> None:
    for reply, message in (('["both"]', "yes"), ('{"flows": ["both"], "values": {"sure": true}}', "of course I am")):
        done: list[Any] = []
        agent = agent_of(
            shop_of(("both", ("register",))), [vet(done, sure=YES_OR_NO)], model=ScriptedModel('["both"]', reply)
        )
        first = await agent.turn("both")
        assert (first.status, first.text) == ("waiting", "To go on, I need: sure.")
        second = await agent.turn(message, first.conversation)
        assert (second.status, done) == ("done", [{"sure": True}])


@pytest.mark.spec("013.1")
@pytest.mark.parametrize(
    "value", ["a", "a" * 50, ["a" * count for count in range(1, 200)]], ids=["one", "long", "many"]
)
def test_a_value_that_stands_in_a_message_without_end_is_looked_for_so_often(value: Any) -> None:
    messages = [" ".join(["a" * 8_000, *("a" * count for count in range(1, 200))])] * 2
    many = {"type": "array", "items": {"type": "string"}}
    part = {"type": "string"} if isinstance(value, str) else many
    with steps() as called:
        assert not was_said(value, part, {}, messages)
    assert called["match"] < 20_000
