"""What counts as a yes, as a no, and as neither; and which requests only seem to want something done."""

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from jazz_select import Agent, FlowSelector
from jazz_select.consent import is_courtesy, read_consent
from jazz_select.phrases import Asked, language_of, phrases
from jazz_select.routing import Tool
from jazz_select.routing.tools.sources import tools_from_mcp
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.consents import HEARD, NEITHER, NO, READ_BY_A_MODEL, WITH_MORE, YES
from tests.unit.agent.turns import agent_of, destroyer, shop_of
from tests.unit.selector.shop import metadata

ASKED = Asked(words="drop", arguments={"number": "A-1"})
NEITHER_SAID = ("neither", "")
ROWS = [*((each, "yes") for each in YES), *((each, "no") for each in NO), *((each, "neither") for each in NEITHER)]


@pytest.mark.spec("005.2")
@pytest.mark.spec("011.4")
def test_a_yes_a_no_and_neither_in_seven_languages() -> None:
    assert len(ROWS) >= 200
    assert [each for each in HEARD if read_consent(each, ASKED).answer == "yes"] == []
    assert [each for each in HEARD if read_consent(each, ASKED, quote="").answer == "yes"] == []
    assert {each: said for each, said in ROWS if read_consent(each, ASKED) != (said, "")} == {}
    assert {
        each for each in ("", " ", "yes " * 300, "no " * 300) if read_consent(each, ASKED).answer != "neither"
    } == set()


@pytest.mark.spec("011.4")
def test_what_a_yes_has_besides_is_kept_to_be_read() -> None:
    assert {each: read_consent(each, ASKED) for each in WITH_MORE} == {
        each: ("yes", rest) for each, rest in WITH_MORE.items()
    }


@pytest.mark.spec("011.4")
def test_a_model_s_yes_counts_by_a_sentence_that_is_one_and_by_no_other() -> None:
    for message in READ_BY_A_MODEL:
        assert read_consent(message, ASKED).answer == "neither"
        assert read_consent(message, ASKED, quote="").answer == "yes", message
    assert [each for each in NEITHER if read_consent(each, ASKED, quote="").answer == "yes"] == []
    assert [each for each in NEITHER if read_consent(each, ASKED, quote=each).answer == "yes"] == []


@pytest.mark.spec("011.4")
@pytest.mark.parametrize(
    ("message", "quote", "said"),
    [
        ("No fee please. Yes.", "yes", "neither"),
        ("No fee please. Yes.", "no fee please", "neither"),
        ("That one. Yes.", "yes", "yes"),
        ("Yes please, and drop A-2 as well while you're at it", "Yes please", "yes"),
        ("Ja bitte, und A-2 auch, wenn Sie schon dabei sind", "Ja bitte", "yes"),
        ("Yes please, and drop it while I am away", "Yes please", "neither"),
        ("No, no fee please. Yes.", "yes", "neither"),
        ("No, that one. Yes.", "yes", "neither"),
        ("Yes please. Tell me about another order then.", "yes please", "yes"),
        ("Yes please. Tell me about another order then.", "", "neither"),
    ],
)
def test_beside_a_model_s_yes_nothing_may_take_it_back(message: str, quote: str, said: str) -> None:
    assert read_consent(message, ASKED, quote=quote).answer == said


def agrees(messages: Sequence[Message]) -> str:
    """A yes to whatever is said, all of it quoted."""
    said = ET.fromstring(messages[-1].content).findtext("request") or ""  # noqa: S314 - our own prompt
    return json.dumps({"confirm": {"is": "yes", "quote": said}})


async def through(door: str, message: str) -> tuple[str, list[str]]:
    """What becomes of a call that waits for a yes, where whoever reads the message says yes whatever it is."""
    log: list[str] = []
    lies: dict[str, Any] = {
        "alone": {},
        "decider": {"decider": ScriptedDecider("yes", sure=1.0, repeat=True)},
        "model": {"model": ScriptedModel(agrees, repeat=True)},
    }
    options: dict[str, Any] = {"approval": "destructive"} | lies[door]
    registry, tool = shop_of(("both", ("drop",))), destroyer("drop", log, number="string")
    if door == "model":
        selector = FlowSelector(options["model"], registry, ListMemory(metadata("both")), "support")
        agent = make_agent(selector, [tool], **options)
    else:
        agent = agent_of(registry, [tool], **options)
    asked = await agent.turn("both", context={"number": "A-1"})
    assert asked.status == "confirming"
    return (await agent.turn(message, asked.conversation, context={"number": "A-1"})).status, log


@pytest.mark.spec("011.4")
@pytest.mark.parametrize("door", ["alone", "decider", "model"])
async def test_at_each_door_of_an_agent_the_table_decides_whoever_lies(door: str) -> None:
    """A model and a decider that say yes to all: nothing is destroyed but by a yes, and each yes is done."""
    wrong: list[tuple[str, str, list[str]]] = []
    for message, said in ROWS:
        status, log = await through(door, message)
        if log != (["drop A-1"] if said == "yes" else []):
            wrong.append((message, status, log))
    assert wrong == []


CANCEL = Asked(words="cancel_appointment", arguments={"number": "A-17", "email": "ada@example.org", "fee": 5})
REPEATED = [
    ("yes, cancel it", "yes"),
    ("Go ahead and cancel it!", "yes"),
    ("yes please, cancel my appointment", "yes"),
    ("yes, cancel A-17.", "yes"),
    ("yes, cancel appointment number A-17", "yes"),
    ("yes, ada@example.org", "yes"),
    ("yes, that", "yes"),
    ("ja, den", "yes"),
    ("yes, 5", "yes"),
    ("no, keep it", "no"),
    ("no, don't", "no"),
    ("no wait", "no"),
    ("no, don't cancel it", "no"),
    ("don't cancel my appointment", "no"),
    ("cancel", "no"),
    ("yes, cancel A-18", ""),
    ("yes, cancel A-17 and A-18", ""),
    ("yes, cancel A-17-B", ""),
    ("yes, fee 6", ""),
    ("yes, 5.50", ""),
    ("yes, cancel", ""),
    ("ok, cancel", ""),
    ("ok, cancel it", ""),
    ("cancel it", ""),
    ("no, cancel it", ""),
    ("yes, cancel it?", ""),
    ("yes, but cancel it tomorrow", ""),
    ("yes, cancel it and book another", ""),
    ("yes, cancel it, no", ""),
    ("yes, cancel all of them", ""),
    ("yes, A-17, A-17", "yes"),
    ("yes \ue000", ""),
    ("correct, cancel it", "yes"),
    ("confirm, cancel my appointment", "yes"),
    ("I confirm it", "yes"),
    ("correct it", ""),
    ("please correct it", ""),
    ("yes, correct it", ""),
    ("correct appointment A-17", ""),
    ("continue my appointment", ""),
    ("confirm my appointment", ""),
    ("I confirm A-17", ""),
    ("confirmo A-17", ""),
]


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("message", "said"), REPEATED)
def test_a_yes_may_repeat_what_was_asked_about_and_say_nothing_more(message: str, said: str) -> None:
    assert read_consent(message, CANCEL).answer == (said or "neither")


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("yes, help with it", "yes"),
        ("yes, troubleshoot that", "yes"),
        ("yes, not", ""),
        ("yes, that does not work", ""),
        ("yes, not this product", ""),
    ],
)
def test_what_a_title_denies_is_no_part_of_a_yes(message: str, said: str) -> None:
    asked = Asked(words="troubleshoot_product Help with a product that does not work")
    assert read_consent(message, asked).answer == (said or "neither")


GIVEN_AS_A_NO: list[tuple[str, dict[str, Any]]] = [
    ("ok, no", {"restock": "no"}),
    ("Okay no.", {"restock": "No"}),
    ("yes no", {"restock": "no.", "order": "A1"}),
    ("ok, n", {"restock": "n"}),
    ("ok, stop", {"action": "stop"}),
    ("ok wait", {"mode": "wait"}),
    ("yes, not now", {"when": "not now"}),
    ("ok, don't", {"note": "don't"}),
    ("ok, can't", {"note": "can't"}),
    ("ok. never mind", {"note": "never mind"}),
    ("ok, never mind that", {"note": "never mind that"}),
    ("ok, leave it", {"kind": "leave"}),
    ("ok, keep it", {"note": "it", "do": "keep"}),
    ("ok, no 5", {"no": 5}),
    ("👍👎", {"mark": "👎"}),
    ("ja, nein", {"zurück": "nein"}),
    ("はい、いいえ", {"restock": "いいえ"}),
]


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("message", "arguments"), GIVEN_AS_A_NO, ids=[message for message, _ in GIVEN_AS_A_NO])
async def test_a_refusal_that_is_an_argument_as_well_is_no_yes(message: str, arguments: dict[str, Any]) -> None:
    asked_for = Asked(words="cancel_order Cancel order", arguments=arguments)
    assert read_consent(message, asked_for).answer == read_consent(message, asked_for, quote="").answer == "neither"
    log: list[str] = []
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: {} for name in arguments},
        "required": [*arguments],
    }
    run = destroyer("cancel_order", log).function
    tool = Tool(name="cancel_order", input_schema=schema, function=run, destructive=True)
    agent = agent_of(shop_of(("cancel_it", ("cancel_order",))), [tool], "cancel_it", approval="destructive")
    asked = await agent.turn("cancel_it", context=arguments)
    said = await agent.turn(message, asked.conversation, context=arguments)
    assert (asked.status, said.status, log) == ("confirming", "confirming", [])
    done = await agent.turn("yes, cancel my order", said.conversation, context=arguments)
    assert (done.status, len(log)) == ("done", 1)


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(
    ("message", "asked", "said"),
    [
        ("no, and are there fees?", Asked(), ("no", "and are there fees?")),
        ("No. Where is my parcel 5? Yes.", Asked(), NEITHER_SAID),
        ("Yes. For him.", Asked(), NEITHER_SAID),
        ("yes. and my sister wouldn't know anything of it", Asked(), NEITHER_SAID),
        ("yes, call it off", Asked(words="Call it off"), NEITHER_SAID),
        ("yes, true", Asked(words="Mark the order", arguments={"urgent": True}), NEITHER_SAID),
        ("yes, true", Asked(words="Mark the order", arguments={"urgent": "true"}), ("yes", "")),
        (f"yes, {'a' * 195}", Asked(words="Write", arguments={"text": "a" * 195}), ("yes", "")),
        (f"yes, {'a' * 196}", Asked(words="Write", arguments={"text": "a" * 196}), NEITHER_SAID),
    ],
)
def test_what_is_said_besides_may_take_a_yes_back(message: str, asked: Asked, said: tuple[str, str]) -> None:
    assert read_consent(message, asked) == said


@pytest.mark.parametrize(
    ("message", "language"),
    [
        ("si es", ""),
        ("non lo so", ""),
        ("no thanks", "en"),
        ("no", ""),
        ("42", ""),
        ("x", ""),
        ("カメラ", "ja"),
        ("Камера", "ru"),
    ],
)
def test_a_word_of_several_languages_or_a_letter_tells_none(message: str, language: str) -> None:
    assert language_of(message) == language


def test_a_message_of_any_length_is_read_at_once() -> None:
    for message in ("ﷺ" * 200_000, "yes" + " " * 5_000 + "no"):
        assert read_consent(message, CANCEL) == read_consent(message, quote="") == ("neither", "")
        assert not is_courtesy(message)


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("message", ["yes, cancel it", "yes, ada@example.org", "yes, 5"])
def test_what_nobody_asked_about_is_no_part_of_a_yes(message: str) -> None:
    other = Asked(words="close_shop", arguments={"at": "8 pm"})
    assert read_consent(message).answer == read_consent(message, other).answer == "neither"


def test_no_word_is_both_and_each_phrase_of_the_lists_is_read_as_what_it_is() -> None:
    table = phrases()
    assert not table["yes"] & table["no"]
    assert not (table["yes"] | table["beside"]) & table["ironic"]
    assert table["refuses"] <= table["no"]
    assert table["alone"] | table["weak"] <= table["yes"]
    assert {each for each in table["yes"] if read_consent(each) != ("yes", "")} == set()
    assert {each for each in table["no"] if read_consent(each) != ("no", "")} == set()


NOT_MEANT = [
    "Has my appointment been cancelled",
    "Where do I cancel my appointment",
    "Which appointments were cancelled",
    "Please refrain from cancelling my appointment",
    "Cancel my appointment unless it is tomorrow",
    "Wann wurde mein Termin storniert",
    "don't cancel my appointment",
    "do not cancel it",
    "I would never cancel my appointment",
    "what happens if I cancel my appointment?",
    "What happens if I cancel",
    "is it possible to cancel my appointment?",
    "I don't want a refund for my last order",
    "I dont want a refund",
    "I’m not asking you to cancel",
    "if I cancelled, would I get my money back?",
    "can I cancel my appointment?",
    "how do I cancel an order",
    "should I cancel it?",
    "suppose I cancel it",
    "I wonder whether to cancel",
    "I might cancel my appointment",
    "I would cancel it",
    "Hi! So, what does cancelling cost",
    "Please keep it. I never said to cancel it.",
    "cancel my appointment?",
    "Storniere meinen Termin nicht",
    "Was passiert, wenn ich storniere?",
    "Kann ich meinen Termin absagen?",
    "no canceles mi cita",
    "¿Es posible cancelar mi cita?",
    "n'annulez pas mon rendez-vous",
    "que se passe-t-il si j'annule ?",
    "non cancellare il mio appuntamento",
    "è possibile annullare?",
    "не отменяйте мою запись",
    "что будет, если я отменю запись?",
    "予約をキャンセルしないでください",
    "キャンセルしたらどうなりますか",
]


@pytest.mark.spec("005.3")
@pytest.mark.spec("011.5")
@pytest.mark.parametrize("with_model", [False, True], ids=["no model", "a model that lies"])
async def test_what_is_denied_supposed_or_asked_about_destroys_nothing_by_default(*, with_model: bool) -> None:
    for message in NOT_MEANT:
        log: list[str] = []
        registry = shop_of(("cancel_it", ("look", "cancel")), ("keep_it", ()))
        model = ScriptedModel('["1"]', repeat=True) if with_model else None
        selector = FlowSelector(
            model, registry, ListMemory(metadata("cancel_it", "keep_it")), "support", policy=TAKE_FIRST
        )
        look = Tool(name="look", function=lambda: None, read_only=True)
        result = await Agent(selector, [look, destroyer("cancel", log)]).turn(message)
        assert (result.status, log) == ("confirming" if with_model else "waiting", []), message


def test_whoever_destroys_does_not_read_and_a_server_may_say_who_does() -> None:
    assert not Tool(name="get_rid", destructive=True, read_only=True).reads
    hints: list[dict[str, Any]] = [{"readOnlyHint": True}, {"readOnlyHint": False}, {}]
    listed = [{"name": f"list_{number}", "annotations": each} for number, each in enumerate(hints)]
    assert [each.read_only for each in tools_from_mcp(listed, trusted=True)] == [True, False, None]
    assert [each.reads for each in tools_from_mcp(listed, trusted=True)] == [True, False, False], "else it destroys"
    assert [each.reads for each in tools_from_mcp(listed)] == [False, False, False], "whom nobody trusts says nothing"
