"""What counts as a yes, as a no, and as neither; and which requests only seem to want something done."""

from typing import Any

import pytest

from jazz_select import FlowRegistry
from jazz_select.agent.flows.consent import AGREED, CALLED_OFF, POLITE, consent, is_courtesy, is_plain_yes
from jazz_select.agent.flows.tentative import is_tentative
from jazz_select.agent.gate import may_agree
from jazz_select.agent.pending_call import PendingCall
from jazz_select.routing import Tool
from jazz_select.routing.tools.sources import tools_from_mcp
from tests.unit.agent.turns import Made, agent_of, destroyer, shop_of

YES = {
    "en": [
        "yes",
        "Yes, please.",
        "OK",
        "sure!",
        "Go ahead",
        "yes, please do it!",
        "of course",
        "y",
        "Y.",
        "👍",
        "👍🏽",
        "✅️",
    ],
    "de": ["Ja", "Ja, bitte.", "einverstanden", "Mach das"],
    "es": ["Sí", "si, por favor", "¡Claro que sí!", "adelante"],
    "fr": ["Oui", "oui, s’il vous plaît", "D'accord.", "vas-y"],
    "it": ["Sì", "va bene", "sì, grazie", "Procedi"],
    "ru": ["Да", "да, пожалуйста", "Хорошо", "согласен"],
    "ja": ["はい", "はい、お願いします。", "もちろんです", "続けてください"],
}
NO = {
    "en": ["no", "No, thanks.", "don't", "never mind", "stop!", "please don't do it", "cancel", "n", "👎", "❌"],
    "de": ["Nein", "nein, danke", "lieber nicht", "Abbrechen"],
    "es": ["no, gracias", "mejor no", "Cancelar", "olvídalo"],
    "fr": ["Non", "non merci", "annulez", "laisse tomber"],
    "it": ["no grazie", "annulla", "lascia perdere"],
    "ru": ["Нет", "не надо", "отмена"],
    "ja": ["いいえ", "やめてください。", "キャンセルしてください"],
}
NEITHER = [
    *("", " ", "?", "yes?", "ok？", "yes but wait", "no, go ahead", "ok, stop", "yes, but the other one", "no problem"),
    *("yes yes no", "thanks", "please hold my calls", "yesterday", "okra", "not yes", "I said yes to my sister"),
    *("maybe", "what would yes do", "da", "yes " * 60, "y no", "ja aber", "はい？", "はい、でも待って"),
]


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("message", [each for said in YES.values() for each in said])
def test_a_yes_in_seven_languages(message: str) -> None:
    assert consent(message) == "yes"


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("message", [each for said in NO.values() for each in said])
def test_a_no_in_seven_languages(message: str) -> None:
    assert consent(message) == "no"


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("message", NEITHER)
def test_whatever_else_is_said_is_no_yes(message: str) -> None:
    assert consent(message) == ""


CANCEL: Any = ("cancel_appointment", {"number": "A-17", "email": "ada@example.org", "fee": 5})
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
    ("yes, A-17, A-17, A-17, A-17", ""),
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
    assert consent(message, *CANCEL) == said


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
    assert consent(message, "troubleshoot_product Help with a product that does not work") == said


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
    assert consent(message, "cancel_order Cancel order", arguments) == ""
    assert not is_plain_yes(message, "cancel_order Cancel order", arguments)
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
@pytest.mark.parametrize("message", ["да ладно", "Да ладно!", "да, ладно", "да ладно, спасибо", "ага, конечно"])
def test_what_may_as_well_say_as_if_is_neither(message: str) -> None:
    assert consent(message) == consent(message, *CANCEL) == ""
    assert not is_plain_yes(message, *CANCEL)


MAY_AGREE = {
    "yes, do that": True,
    "d'accord, go on with it": True,
    "sí, para mí adelante": True,
    "yes, cancel it": True,
    "d'accord, laisse tomber": False,
    "vale, déjalo": False,
    "ja, lass": False,
    "ok lassen wir das": False,
    "yes, and stop": False,
    "yes /s": False,
    "🙄 yes": False,
    "yes 🙄": False,
    "yes " + "ﷺ" * 200_000: False,
}


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("message", "may"), MAY_AGREE.items(), ids=[each[:30] for each in MAY_AGREE])
def test_a_yes_that_a_model_reads_has_nothing_that_calls_off(message: str, *, may: bool) -> None:
    pending = PendingCall(
        id="1", flow="cancel_it", tool="cancel_order", title="Cancel order", arguments={"order": "A1"}
    )
    assert may_agree(message, pending) == may


def test_a_message_of_any_length_is_read_at_once() -> None:
    for message in ("ﷺ" * 200_000, "yes" + " " * 5_000 + "no"):
        assert consent(message, *CANCEL) == consent(message) == ""
        assert not is_courtesy(message)
        assert not is_plain_yes(message, *CANCEL)


@pytest.mark.spec("005.2")
@pytest.mark.parametrize("message", ["yes, cancel it", "yes, ada@example.org", "yes, 5"])
def test_what_nobody_asked_about_is_no_part_of_a_yes(message: str) -> None:
    assert consent(message) == consent(message, "close_shop", {"at": "8 pm"}) == ""


def test_no_word_is_both_and_each_phrase_of_the_lists_is_read_as_what_it_is() -> None:
    assert not AGREED & CALLED_OFF
    assert not CALLED_OFF & POLITE
    assert {consent(each) for each in AGREED} == {"yes"}
    assert {consent(each) for each in CALLED_OFF} == {"no"}


TENTATIVE = [
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
MEANT = [
    "cancel my appointment",
    "Please cancel my appointment.",
    "Could you please cancel my appointment?",
    "Would you cancel it?",
    "I would like to return the headphones and get my money back.",
    "I'd like a refund for my last order",
    "I want my money back",
    "Bitte stornieren Sie meinen Termin",
    "Könnten Sie meinen Termin absagen?",
    "cancela mi cita por favor",
    "annulez mon rendez-vous s'il vous plaît",
    "annulla il mio appuntamento",
    "отмените мою запись",
    "予約をキャンセルしてください",
]


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("message", TENTATIVE)
async def test_what_is_denied_supposed_or_asked_about_is_never_sure_where_it_would_destroy(message: str) -> None:
    assert is_tentative(message)
    log: list[str] = []
    prepares, destroys = destroyer("look", log), destroyer("cancel", log)
    agent = agent_of(
        shop_of(("cancel_it", ("look", "cancel"))), [prepares, destroys], "cancel_it", shift_above=0, approval="never"
    )
    result = await agent.turn(message)
    assert (result.status, result.flows, result.conversation.flows, log) == ("open", [], (), [])
    assert result.reason == "the request denies, supposes or only asks about what cancel_it does"


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("message", MEANT)
async def test_a_plain_request_and_a_wish_are_meant(message: str) -> None:
    assert not is_tentative(message)
    log: list[str] = []
    agent = agent_of(shop_of(("cancel_it", ("cancel",))), [destroyer("cancel", log)], "cancel_it", shift_above=0)
    assert ((await agent.turn(message)).status, log) == ("done", ["cancel"])


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("message", ["M-1001", "it is M-1001", "60112", "ada@example.org"])
async def test_a_value_alone_begins_no_flow_that_may_change_something(message: str) -> None:
    log: list[str] = []
    tools = [destroyer("cancel", log), Tool(name="look", function=lambda: log.append("look"))]
    for name, ran in (("cancel", []), ("look", ["look"])):
        agent = agent_of(shop_of(("an_order", (name,))), tools, "an_order", shift_above=0)
        result = await agent.turn(message)
        assert (result.status, log) == (("done", ran) if ran else ("open", []))
        assert ran or result.reason == (
            "the message is a value alone, which asks for nothing; an_order is the nearest flow"
        )
        log.clear()


WRITES = ["renew_prescription", "book_or_find", "check_in_guest", "prescription", "generate_invoice"]
READS = ["get_prescription", "prescription_lookup", "look", "list_bookings", "track_order"]


@pytest.mark.spec("005.3")
@pytest.mark.parametrize("message", ["don't renew it", "what happens if I renew it?", "can I renew it?"])
@pytest.mark.parametrize(("name", "reads"), [*((each, False) for each in WRITES), *((each, True) for each in READS)])
async def test_what_may_change_something_is_not_run_for_a_request_that_may_not_be_meant(
    name: str, message: str, reads: bool
) -> None:
    log: list[str] = []
    for said, runs in ((None, reads), (True, True), (False, False)):
        tool = Tool(name=name, function=lambda: log.append("run"), read_only=said)
        result = await agent_of(shop_of(("look_it_up", (name,))), [tool], "look_it_up", shift_above=0).turn(message)
        assert (result.status, log) == (("done", ["run"]) if runs else ("open", []))
        log.clear()


def test_whoever_destroys_does_not_read_and_a_server_may_say_who_does() -> None:
    assert not Tool(name="get_rid", destructive=True, read_only=True).reads
    hints: list[dict[str, Any]] = [{"readOnlyHint": True}, {"readOnlyHint": False}, {}]
    listed = [{"name": "list_it", "annotations": each} for each in hints]
    assert [each.read_only for each in tools_from_mcp(listed)] == [True, False, None]
    assert [each.reads for each in tools_from_mcp(listed)] == [True, False, False], "without hints it destroys"


async def test_a_flows_own_examples_are_sure_whatever_words_they_have(made: Made, pack: FlowRegistry) -> None:
    """Every example of the catalogue that says no, if or why still reaches its flow."""
    asked = [each for flow in pack.values() for each in flow.examples if is_tentative(each)]
    agent = made()
    missed = [each for each in asked if (await agent.turn(each)).reason.startswith("the request denies")]
    assert (len(asked) > 100, missed) == (True, [])


async def test_where_nothing_is_destroyed_a_question_is_a_request_like_others() -> None:
    def look() -> None: ...

    agent = agent_of(shop_of(("look_it_up", ("look",))), [look], "look_it_up", shift_above=0)
    assert (await agent.turn("what happens if I cancel?")).status == "done"
