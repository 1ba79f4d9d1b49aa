"""What people answer to a question that wants a yes, in seven languages: by the table, by a reader, and by an agent."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest

from jazz_select import Agent, FlowSelector
from jazz_select.agent import TurnResult
from jazz_select.consent import asks_to_wait, read_consent, why_no_yes
from jazz_select.phrases import Asked
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Message
from tests.agents import make_agent
from tests.tables import read_table
from tests.unit.agent.turns import destroyer, shop_of
from tests.unit.selector.shop import metadata

ROWS: Final = read_table(Path(__file__).with_name("yeses.yaml"))
UNSEEN: Final = read_table(Path(__file__).with_name("unseen_yeses.yaml"))
SEEN: Final = ("condition", "denial", "object", "amount", "time", "person", "quoted")
"""What a rule can see, so that it makes a yes none whatever a reader says."""
MOST_LOST: Final = 0.05


def question_of(table: dict[str, Any], call: str) -> Asked:
    """The question about a call of a table."""
    shown = table["calls"][call]
    return Asked(words=f"{shown['tool']} {shown['title']} {shown['words']}", arguments=shown["arguments"])


def asked(call: str) -> Asked:
    """The question about a call of the first table."""
    return question_of(ROWS, call)


def parts(message: str) -> Iterator[str]:
    """Each run of words of a message, and of its letters where a script has no spaces."""
    words = list(re.finditer(r"\S+", message))
    for place, first in enumerate(words):
        for last in words[place:]:
            yield message[first.start() : last.end()]
    if re.search("[\u3040-\u30ff]", message):
        for start in range(len(message)):
            for end in range(start + 1, len(message) + 1):
                yield message[start:end]


def test_the_table_is_wide() -> None:
    assert len(ROWS["agreeing"]) >= 60
    assert len(ROWS["other"]) >= 100
    kinds = Counter(kind for _, _, kind, _ in ROWS["other"])
    assert set(SEEN) < set(kinds)
    assert min(kinds.values()) >= 5
    assert len(UNSEEN["agreeing"]) >= 200
    assert len(UNSEEN["other"]) >= 150
    assert set(SEEN) < {kind for _, kind, _ in UNSEEN["other"]}


@pytest.mark.spec("018.4")
def test_a_natural_yes_counts_where_a_reader_quotes_it() -> None:
    rows = [(question_of(ROWS, call), message, quote) for _, call, message, quote, _ in ROWS["agreeing"]]
    rows += [(question_of(UNSEEN, call), message, quote) for call, message, quote in UNSEEN["agreeing"]]
    lost = [message for shown, message, quote in rows if read_consent(message, shown, quote=quote).answer != "yes"]
    assert len(lost) <= MOST_LOST * len(rows), lost


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("call", "message", "alone"),
    [pytest.param(call, message, alone, id=name) for name, call, message, _, alone in ROWS["agreeing"]],
)
def test_the_table_alone_takes_a_natural_yes_or_asks_again(call: str, message: str, *, alone: bool) -> None:
    assert read_consent(message, asked(call)).answer == ("yes" if alone else "neither")


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("call", "message"), [pytest.param(call, message, id=name) for name, call, _, message in ROWS["other"]]
)
def test_no_reader_makes_a_yes_of_what_is_none(call: str, message: str) -> None:
    shown = asked(call)
    assert read_consent(message, shown).answer != "yes"
    assert read_consent(message, shown, quote="").answer != "yes", "a decision model agrees"
    assert [each for each in parts(message) if read_consent(message, shown, quote=each).answer == "yes"] == []


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("call", "kind", "message"), [pytest.param(*row, id=f"{row[0]}: {row[2]}") for row in UNSEEN["other"]]
)
def test_what_no_rule_was_written_for_is_seen_as_well(call: str, kind: str, message: str) -> None:
    shown = question_of(UNSEEN, call)
    assert read_consent(message, shown).answer != "yes"
    assert read_consent(message, shown, quote="").answer != "yes", "a decision model agrees"
    if kind in SEEN:
        assert [each for each in parts(message) if read_consent(message, shown, quote=each).answer == "yes"] == []


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("message", "quote"),
    [
        ("Yes, I left it in the taxi", "Yes"),
        ("Yes please, my brother-in-law brought the same one back from Turin", "Yes please"),
        ("Ja bitte, ich warte seit drei Wochen", "Ja bitte"),
        ("Oui, j'attends depuis 3 semaines", "Oui"),
        ("Sí, llevo esperando desde el lunes", "Sí"),
        ("Да, я жду уже две недели", "Да"),
    ],
)
def test_what_a_statement_beside_a_yes_names_is_no_other_thing(message: str, quote: str) -> None:
    assert read_consent(message, asked("close"), quote=quote).answer == "yes"
    assert read_consent(message, asked("close")).answer == "neither", "the table alone knows not all of it"


VISIT: Final = Asked(
    words="move_visit Move a visit",
    arguments={"from": "2025-05-06 09:30", "to": "2025-05-08 14:15", "colour": "grey", "number": "+44 7700 900418"},
)
ASIDES: Final = [
    pytest.param("Yes, my knee really hurts", id="a part of the body"),
    pytest.param("Yes please, the kids are waiting outside", id="who waits"),
    pytest.param("Yes. I can't even walk to the corner.", id="a denial of something else"),
    pytest.param("Yes. We were snowed in until Easter.", id="a word of time in a story"),
    pytest.param("Yes. My husband turned 60 years last week.", id="a number of something else"),
    pytest.param("Breaks my heart but yes", id="but yes"),
    pytest.param("Yes. The roads are icy but the sun is shining.", id="but between two stories"),
    pytest.param("Yes, I told your colleague about the stairs", id="what the writer said"),
    pytest.param("Yes, quarter past two", id="a time in words"),
    pytest.param("Yes, the one ending 418", id="the end of a long number"),
    pytest.param("Ja, meine Kinder schlafen schon", id="de"),
    pytest.param("Ja bitte, viertel nach zwei", id="de: a time in words"),
    pytest.param("Sí, que no puedo ni subir las escaleras", id="es"),
    pytest.param("Oui. Il fait 14 degrés dans le salon.", id="fr"),
    pytest.param("Sì, perché la caldaia gocciolava", id="it"),
    pytest.param("Ja graag, mijn moeder ligt in het ziekenhuis", id="nl"),
    pytest.param("Sim, o meu filho está doente", id="pt"),
]
CUES: Final = [
    pytest.param("Yes, my knee brace", id="a thing without a verb"),
    pytest.param("Yes, my husband prefers mornings", id="a wish"),
    pytest.param("Yes. I work until three.", id="another time"),
    pytest.param("Yes. We are five of us.", id="another number"),
    pytest.param("Yes, she likes the blue model", id="a word of the sort of a value"),
    pytest.param("Yes. My wife is against it.", id="against"),
    pytest.param("Yes. My wife is not sure.", id="a doubt"),
    pytest.param("Yes, I'm afraid not", id="a denial of nothing else"),
    pytest.param("Yes. I can't do Thursday.", id="a denial of a value"),
    pytest.param("Yes, and my inhaler", id="a further thing"),
    pytest.param("Yes, the number is Elm", id="another value"),
    pytest.param("Yes, half past three", id="another time in words"),
    pytest.param("Ja, mijn fiets ook", id="nl: a further thing"),
    pytest.param("Ja, mits het gratis is", id="nl: a condition"),
    pytest.param("Sim, mas sem o meu irmão", id="pt: a change"),
    pytest.param("Sim, desde que seja grátis", id="pt: a condition"),
]


@pytest.mark.spec("018.4")
@pytest.mark.parametrize("message", ASIDES)
def test_a_clause_that_stands_on_its_own_changes_nothing(message: str) -> None:
    quote = "yes" if "yes" in message else message.split(maxsplit=1)[0].strip(",.")
    assert why_no_yes(message, VISIT, quote=quote) == ""
    assert read_consent(message, VISIT, quote=quote).answer == "yes"


@pytest.mark.spec("018.4")
@pytest.mark.parametrize("message", CUES)
def test_a_cue_in_a_clause_that_stands_on_its_own_makes_a_yes_none(message: str) -> None:
    assert [each for each in parts(message) if read_consent(message, VISIT, quote=each).answer == "yes"] == []


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    "message",
    [
        "Yes, the toaster is fine",
        "Yes, the Bellevue is fine",
        "Yes, Tuesday is better",
        "Yes, it should go to my office",
        "Yes, I want the toaster",
        "Yes, Kim is the one",
        "Ja, die Überweisung ist für Peter",
        "Sì, duecentocinquanta",
        "Ja, fünfundsechzig",
    ],
)
def test_a_statement_that_names_another_thing_time_or_person_is_no_yes(message: str) -> None:
    for call in ("transfer", "refund", "überweisen", "bonifico"):
        assert [each for each in parts(message) if read_consent(message, asked(call), quote=each).answer == "yes"] == []


FOR_BEN: Final = Asked(words="close_account Close account", arguments={"name": "Ben Miller"})
FOR_NOBODY: Final = Asked(words="book_hotel Book hotel", arguments={"order": "A-7"})
BESIDE_BEN: Final = [
    pytest.param("Yes, we have Anna's account", "Anna's", id="whose"),
    pytest.param("Yes. We have the account of Anna.", "Anna", id="whose, behind a word"),
    pytest.param("Yes, it is for my mother", "mother", id="for whom"),
    pytest.param("Ja, das Zimmer ist für meine Mutter", "Mutter", id="de"),
    pytest.param("Oui, nous avons le compte d'Anne", "Anne", id="fr"),
    pytest.param("Sí, tenemos la cuenta de Lucía", "Lucía", id="es"),
    pytest.param("Sì, abbiamo il conto di Marta", "Marta", id="it"),
]


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(("message", "who"), BESIDE_BEN)
def test_a_statement_of_somebody_else_beside_a_yes_is_none_where_the_call_names_a_person(
    message: str, who: str
) -> None:
    quote = re.split("[,.]", message)[0]
    assert why_no_yes(message, FOR_BEN, quote=quote) == f"it names something else, {who!r}"
    assert [each for each in parts(message) if read_consent(message, FOR_BEN, quote=each).answer == "yes"] == []


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("shown", "message"),
    [
        pytest.param(FOR_BEN, "Yes, it is Ben's", id="the same person"),
        pytest.param(FOR_BEN, "Yes.\n\nBest regards,\nAnna Smith", id="a signature"),
        pytest.param(FOR_BEN, "Yes, thank you Tom", id="thanks"),
        pytest.param(FOR_BEN, "Yes, for God's sake!", id="anger"),
        pytest.param(FOR_BEN, "Yes, it is for the rent", id="a thing"),
        pytest.param(FOR_NOBODY, "Yes, we have Anna's account", id="a call that names nobody"),
    ],
)
def test_what_names_nobody_else_beside_a_yes_changes_nothing(shown: Asked, message: str) -> None:
    assert read_consent(message, shown, quote="Yes").answer == "yes"


@pytest.mark.spec("018.4")
def test_irony_is_the_reader_s_to_hear() -> None:
    for _, call, message in ROWS["heard"]:
        assert read_consent(message, asked(call)).answer == "neither", message
        assert read_consent(message, asked(call), quote="").answer == "neither", message
        assert read_consent(message, asked(call), quote=message).answer == "yes", message


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("call", "message", "why"),
    [
        ("transfer", "Yes, 60", "it names another number, 60"),
        ("refund", "Yes, refund €70", "it names another amount, €70"),
        ("transfer", "Yes, 50 dollars", "it names another amount, dollars"),
        ("book", "yes, on Thursday", "it names another time, Thursday"),
        ("transfer", "Yes, to Bob", "it names something else, 'Bob'"),
        ("refund", "Yes, if it's free", "it makes a condition or a change, 'if'"),
        ("transfer", "Yes I understand, but do not send it", "it makes a condition or a change, 'but'"),
        ("cancel", "Yes. Not that one.", "it denies something, 'Not'"),
        ("cancel", "Yes. For my brother.", "it names something else, 'brother'"),
        ("transfer", "My boss said yes", "it tells what somebody says"),
        ("transfer", 'He wrote "yes"', "it quotes somebody"),
        ("refund", "yes?", "it asks"),
        ("transfer", "Yes, hold on", "it asks to wait"),
        ("refund", "How nice", "its words do not agree"),
    ],
    ids=lambda value: value[:24],
)
def test_why_a_yes_does_not_count_is_told(call: str, message: str, why: str) -> None:
    assert why_no_yes(message, asked(call), quote=message) == why


def test_a_quote_has_to_be_of_the_message() -> None:
    assert why_no_yes("maybe", quote="yes") == "the words that are quoted for it are not in the message"
    assert (why_no_yes("yes", quote="Yes!"), why_no_yes("thanks"), why_no_yes("yes")) == ("", "", "")


@pytest.mark.spec("018.4")
@pytest.mark.parametrize("message", [message for _, _, kind, message in ROWS["other"] if kind == "wait"])
def test_what_asks_for_time_is_heard(message: str) -> None:
    assert asks_to_wait(message)
    assert read_consent(message).answer == "neither"


def test_what_says_more_asks_for_no_time() -> None:
    messages = [message for _, _, kind, message in ROWS["other"] if kind != "wait"]
    messages += [message for _, _, message, _, _ in ROWS["agreeing"]]
    messages += ["no wait", "wait, what does it cost?", "wait, make it 60", "", "wait " * 1_000]
    assert [each for each in messages if asks_to_wait(each)] == []


# --- through an agent ------------------------------------------------------------


def reads(messages: Sequence[Message]) -> str:
    """Whoever reads begins the one flow first, and then finds a yes in all that is said."""
    prompt = ET.fromstring(messages[-1].content)  # noqa: S314 - our own prompt
    if prompt.find("confirm") is None:
        return '{"flows": ["1"]}'
    return json.dumps({"flows": ["1"], "confirm": {"is": "yes", "quote": prompt.findtext("request")}})


class Talk:
    """A conversation with an agent whose one flow drops a thing, if the user agrees."""

    def __init__(self, **options: Any) -> None:
        self.log: list[str] = []
        registry, tool = shop_of(("both", ("drop",))), destroyer("drop", self.log, number="string")
        self.agent: Agent
        if "model" in options:
            selector = FlowSelector(options["model"], registry, ListMemory(metadata("both")), "support")
            self.agent = make_agent(selector, [tool], approval="destructive", **options)
        else:
            selector = FlowSelector(None, registry, ListMemory(metadata("both")), "support")
            self.agent = make_agent(selector, [tool], approval="destructive", **options)

    async def say(self, *messages: str) -> list[TurnResult]:
        """Begin the flow, and say these."""
        results = [await self.agent.turn("both", context={"number": "A-1"})]
        assert results[0].status == "confirming"
        for message in messages:
            results.append(await self.agent.turn(message, results[-1].conversation, context={"number": "A-1"}))
        return results


TAKEN: Final = [
    pytest.param("Yes.\n\nBest regards,\nAnna", id="a signature"),
    pytest.param("Ja. Endlich.", id="relief"),
    pytest.param("yes pls, thx", id="thanks"),
    pytest.param("Yes, for heaven's sake!", id="anger"),
    pytest.param("Yes, I would like you to drop A-1.", id="the call in other words"),
]


@pytest.mark.spec("018.4")
@pytest.mark.parametrize("message", TAKEN)
async def test_a_yes_that_is_quoted_makes_the_call(message: str) -> None:
    talk = Talk(model=ScriptedModel(reads, repeat=True))
    result = (await talk.say(message))[-1]
    assert talk.log == ["drop A-1"]
    assert not any("does not count" in note for note in result.notes)


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("yes, but drop A-2", "it makes a condition or a change, 'but'"),
        ("yes, drop A-2", "it names another thing, A-2"),
        ("yes, drop it for Bob", "it names something else, 'Bob'"),
        ("My boss said yes", "it tells what somebody says"),
    ],
)
async def test_a_yes_that_is_not_taken_is_told_to_the_model_and_in_the_notes(message: str, why: str) -> None:
    model = ScriptedModel(reads, "Which one do you mean?")
    talk = Talk(model=model)
    result = (await talk.say(message))[-1]
    assert talk.log == []
    assert result.status == "confirming"
    assert f"the yes does not count: {why}" in result.notes
    prompt = "\n".join(each.content for each in model.calls[-1])
    assert f"THE USER'S YES DOES NOT COUNT, so that you may ask about it: {why}" in prompt
    assert result.text.startswith("Which one do you mean?")


@pytest.mark.spec("018.4")
@pytest.mark.parametrize(
    "options", [{}, {"decider": ScriptedDecider("yes", sure=1.0, repeat=True)}], ids=["alone", "decider"]
)
async def test_without_a_reader_the_notes_say_why_a_yes_does_not_count(options: dict[str, Any]) -> None:
    talk = Talk(**options)
    result = (await talk.say("Yes. Not that one."))[-1]
    assert (result.status, talk.log) == ("confirming", [])
    assert "the yes does not count: it denies something, 'Not'" in result.notes


@pytest.mark.spec("018.4")
@pytest.mark.parametrize("message", ["wait", "Moment bitte", "hold on, let me check", "un instant", "ちょっと待って"])
@pytest.mark.parametrize("with_model", [False, True], ids=["alone", "a model"])
async def test_wait_keeps_the_call_waiting(message: str, *, with_model: bool) -> None:
    model = ScriptedModel(reads, repeat=True)
    talk = Talk(model=model) if with_model else Talk()
    first, second, third = await talk.say(message, "yes")
    assert (second.status, second.conversation.pending) == ("confirming", first.conversation.pending)
    assert "A-1" not in second.text, "the question is not repeated"
    assert second.reason == "the user asked for time"
    assert (third.status, talk.log) == ("done", ["drop A-1"])
    assert model.calls == []


@pytest.mark.spec("018.4")
async def test_wait_is_no_refusal_where_a_reader_takes_it_for_one() -> None:
    def refuses(messages: Sequence[Message]) -> str:
        found = json.loads(reads(messages))
        return json.dumps({"confirm": {"is": "no", "quote": "Wait"}} if "confirm" in found else found)

    model = ScriptedModel(refuses, "It drops A-1.")
    talk = Talk(model=model)
    first, second = await talk.say("Wait, what is that?")
    assert (second.status, second.conversation.pending, talk.log) == ("confirming", first.conversation.pending, [])
