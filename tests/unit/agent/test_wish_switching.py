"""Several wishes in one conversation: going on, another wish, coming back, calling off, and none of them."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, Input, tool_from_function
from jazz_select.agent import TurnResult
from jazz_select.errors import ModelError
from jazz_select.testing import ListMemory
from jazz_select.values import RecallResult
from tests.agents import TAKE_FIRST
from tests.unit.agent.talks import FLOWS, Mind, calls, chooses, shop_agent, shop_flows, shop_tools, talk
from tests.unit.agent.turns import agent_of, destroyer, shop_of
from tests.unit.selector.shop import metadata

SENDING = '{"order_number": "60112"}'
"""What was said of sending back: the mail is still wanted."""
BEGUN = ("I want to send back 60112", "and where is 60105?")
"""Sending back waits for a mail, and is parked when somebody asks where an order is."""


async def after(reply: str, message: str = "so?", **options: Any) -> tuple[TurnResult, list[Any], Mind]:
    """What an answer to who chooses comes to, with one flow under way and another parked; and what was called."""
    log: list[Any] = []
    chosen = [chooses("send_back"), chooses("track_it"), reply]
    mind = Mind(choose=chosen, values=[SENDING], call=["On its way.", "Well."])
    agent = shop_agent(mind, log, **options)
    return (await talk(agent, *BEGUN, message))[-1], log, mind


def stood(result: TurnResult) -> list[tuple[str, str]]:
    """The flows that are open, the one under way first, and how they stand."""
    return [(each.name, each.status) for each in reversed(result.conversation.flows)]


SEND, TRACK = ("send_back", "waiting"), ("track_it", "active")
TURNS: list[Any] = [
    pytest.param(chooses("track_it"), "active", [TRACK, SEND], id="go on"),
    pytest.param(chooses("send_back"), "waiting", [SEND, TRACK], id="resume"),
    pytest.param(chooses("cancel_it"), "waiting", [("cancel_it", "waiting"), TRACK, SEND], id="switch"),
    pytest.param('{"off": ["1"]}', "waiting", [SEND], id="call off what is under way"),
    pytest.param('{"off": ["2"]}', "done", [TRACK], id="call off what is parked"),
    pytest.param('{"off": ["1", "2"]}', "done", [], id="call off both"),
    pytest.param(
        '{"flows": ["cancel_it"], "off": ["1"]}', "waiting", [("cancel_it", "waiting"), SEND], id="a new wish beside"
    ),
    pytest.param(
        '{"flows": ["cancel_it"], "off": ["2"]}', "waiting", [("cancel_it", "waiting"), TRACK], id="and of a parked one"
    ),
    pytest.param("[]", "active", [TRACK, SEND], id="none"),
    pytest.param(
        '{"flows": ["track_it"], "off": ["1"]}', "active", [TRACK, SEND], id="neither, where it contradicts itself"
    ),
]


@pytest.mark.spec("010.2")
@pytest.mark.parametrize(("reply", "status", "flows"), TURNS)
async def test_each_answer_leaves_flows_of_its_own(reply: str, status: str, flows: list[tuple[str, str]]) -> None:
    result, _, _ = await after(reply)
    assert (result.status, stood(result)) == (status, flows)


TOLD: list[Any] = [
    pytest.param(
        '{"off": ["1"]}', ["nothing more will be done about: Track it", "Back to: Send back", "email"], id="under way"
    ),
    pytest.param('{"off": ["2"]}', ["nothing more will be done about: Send back", "Back to: Track it"], id="parked"),
    pytest.param('{"off": ["1", "2"]}', ["about: Track it", "about: Send back"], id="both"),
]


@pytest.mark.spec("010.8")
@pytest.mark.parametrize(("reply", "told"), TOLD)
async def test_what_is_called_off_is_told_and_what_comes_back(reply: str, told: list[str]) -> None:
    result, log, _ = await after(reply)
    assert all(each in result.text for each in told)
    assert log == []


@pytest.mark.spec("010.8")
@pytest.mark.parametrize("reply", ['{"off": ["1"]}', '{"off": ["1", "2"]}'])
async def test_a_wish_called_off_is_gone(reply: str) -> None:
    chosen = [chooses("send_back"), chooses("track_it"), reply, "[]"]
    mind = Mind(choose=chosen, values=[SENDING])
    results = await talk(shop_agent(mind), *BEGUN, "forget it", "what else is there?")
    assert "track_it" not in [each.name for each in results[-1].conversation.flows]
    assert 'state="' not in mind.prompts("choose")[-1].partition('name="track_it"')[2].partition("/>")[0]
    prompt = mind.asked[-1][1][0].content
    assert '- "Track it"' not in prompt
    assert prompt.count("Track it") == 1, "among what can be done, and nowhere else"


@pytest.mark.spec("011.7")
async def test_where_no_flow_fits_the_model_is_told_by_title_what_can_be_done_for_anybody() -> None:
    class Members(Flow):
        def available(self, context: Mapping[str, Any]) -> bool:
            return "member" in context

    mind = Mind(choose=["[]"], call=["I can track an order."])
    registry = shop_flows()
    withheld = registry.by_name("cancel_it")
    assert withheld is not None
    withheld.__class__ = Members
    selector = FlowSelector(mind, registry, ListMemory(metadata(*FLOWS)), "support", top_k=4)
    await talk(Agent(selector, shop_tools([]), mind), "what can you do?", context={"member": True})
    (prompt,) = mind.prompts("call")
    assert 'by title: "Send back"; "Track it"; "Settle it".' in prompt


@pytest.mark.spec("010.2")
@pytest.mark.spec("010.8")
async def test_none_answers_keeps_what_waits_and_asks_once_more() -> None:
    mind = Mind(choose=[chooses("send_back"), "[]"], values=[SENDING], call=["You are welcome."])
    first, second = await talk(shop_agent(mind), "send back 60112", "thanks a lot!")
    assert first.text == "To go on, I need: email."
    assert second.text == "You are welcome.\n\nTo go on, I need: email."
    assert (second.status, stood(second)) == ("waiting", [SEND])
    (kept,) = second.conversation.flows
    assert (kept.model_copy(update={"nowhere": 0}),) == first.conversation.flows


@pytest.mark.spec("010.8")
async def test_a_wish_that_is_not_solved_stays_and_others_are_told_of_it() -> None:
    _, _, mind = await after("[]")
    told = mind.prompts("call")[-1].partition("OTHER WISHES")[2]
    assert '- "Track it" (under way), asked for with: "and where is 60105?"' in told
    assert '- "Send back" (parked), asked for with: "I want to send back 60112"; it waits for: "email"' in told


AGREED: list[Any] = [
    pytest.param("Go ahead then. I have no time today.", True, id="a yes, and something else that denies"),
    pytest.param("alright then let us do it that way", False, id="an agreement in words of one's own"),
    pytest.param("tell me a joke", False, id="about something else"),
    pytest.param("yes but the other one", False, id="to something else"),
    pytest.param("ja aber die andere", False, id="and in another language"),
    pytest.param("yes for 60113", False, id="to another order"),
    pytest.param("what happens if I say yes?", False, id="a question"),
    pytest.param("yes, wait, rather not", False, id="taken back"),
    pytest.param("yes, refund 50 EUR of it", False, id="to another amount"),
    pytest.param("yes, two of them", False, id="to another number, in words"),
    pytest.param("Yes, 60112. I do not need a receipt.", True, id="and says what is not needed"),
    pytest.param("sure, after the parcel has come", False, id="put off"),
    pytest.param("ok, I understand what you say", False, id="heard, and no more"),
    pytest.param("please call me about it", False, id="another wish, politely"),
    pytest.param("correct the address", False, id="a word that agrees alone"),
    pytest.param("please redo it", False, id="a part of another word"),
]


@pytest.mark.spec("010.2")
@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("message", "may"), AGREED)
async def test_a_yes_that_a_model_reads_counts_only_where_the_words_may_mean_one(message: str, may: bool) -> None:
    log: list[Any] = []
    known = '{"order_number": "60112", "reason": "late"}'
    agrees = chooses(confirm={"is": "yes", "quote": message.partition(".")[0]})
    mind = Mind(choose=[chooses("cancel_it"), agrees], values=[known])
    first, second = await talk(shop_agent(mind, log), "cancel 60112, it is late", message)
    question = "Das geschähe als Nächstes" if message.startswith("ja ") else "This would be done next"
    assert f"<confirm>{question}: Cancel order" in mind.prompts("choose")[-1]
    assert (first.status, second.status) == ("confirming", "done" if may else "confirming")
    assert [name for name, _ in log] == (["cancel_order", "tell_why"] if may else [])


BESIDE: list[Any] = [
    pytest.param(
        '{"off": ["1"], "confirm": {"is": "yes", "quote": "Go ahead then."}}',
        ["cancel_it"],
        "confirming",
        False,
        id="done and called off contradict",
    ),
    pytest.param(
        '{"flows": ["track_it"], "off": ["1"], "confirm": {"is": "yes", "quote": "Go ahead then."}}',
        ["cancel_it"],
        "confirming",
        False,
        id="with a new wish, too",
    ),
    pytest.param(
        '{"flows": ["track_it"], "confirm": {"is": "yes", "quote": "Go ahead then."}}',
        ["track_it"],
        "active",
        True,
        id="a yes, with a new wish beside",
    ),
    pytest.param(
        '{"flows": ["cancel_it"], "confirm": {"is": "yes", "quote": "Go ahead then."}}',
        [],
        "done",
        True,
        id="a yes, and go on",
    ),
    pytest.param(
        '{"flows": ["track_it"], "confirm": {"is": "no", "quote": "Go ahead then."}}',
        ["track_it"],
        "active",
        False,
        id="a no, with a new wish beside",
    ),
    pytest.param(
        '{"flows": ["cancel_it"], "confirm": {"is": "no", "quote": "Go ahead then."}}',
        [],
        "done",
        False,
        id="a no, and nothing else",
    ),
]


@pytest.mark.spec("010.2")
@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("reply", "flows", "status", "done"), BESIDE)
async def test_what_stands_beside_a_yes_or_a_no_is_heard(reply: str, flows: list[str], status: str, done: bool) -> None:
    log: list[Any] = []
    known = '{"order_number": "60112", "reason": "late"}'
    mind = Mind(choose=[chooses("cancel_it"), reply], values=[known])
    _, second = await talk(shop_agent(mind, log), "cancel 60112, it is late", "Go ahead then. I have no time today.")
    assert ([each.name for each in second.conversation.flows], second.status) == (flows, status)
    assert ("cancel_order" in [name for name, _ in log]) is done


@pytest.mark.spec("010.2")
@pytest.mark.spec("010.8")
async def test_a_yes_is_done_where_a_parked_flow_is_called_off_beside() -> None:
    log: list[Any] = []
    chosen = [
        chooses("send_back"),
        chooses("cancel_it"),
        '{"off": ["2"], "confirm": {"is": "yes", "quote": "Go ahead then."}}',
    ]
    mind = Mind(choose=chosen, values=[SENDING, '{"order_number": "60105", "reason": "late"}'])
    agreed = "Go ahead then. I no longer want to send back 60112."
    result = (await talk(shop_agent(mind, log), "send back 60112", "no, cancel 60105, it is late", agreed))[-1]
    assert [name for name, _ in log] == ["cancel_order", "tell_why"]
    assert (result.status, stood(result)) == ("done", [])
    assert "nothing more will be done about: Send back" in result.text


KNOWN = '{"order_number": "60112", "reason": "late"}'


@pytest.mark.spec("011.4")
async def test_a_question_beside_a_yes_is_answered() -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("cancel_it"), "[]"], values=[KNOWN], call=["It comes on Monday."])
    said = "Yes please. And when do I get the money?"
    _, second = await talk(shop_agent(mind, log), "cancel 60112, it is late", said)
    assert [name for name, _ in log] == ["cancel_order", "tell_why"]
    assert (second.status, second.text.split("\n\n")[0]) == ("done", "It comes on Monday.")
    assert "Cancel it is done." in second.text
    assert "<request>And when do I get the money?</request>" in mind.prompts("choose")[-1]
    assert "<confirm>" not in mind.prompts("choose")[-1]
    assert [each.content for each in second.conversation.messages if each.role == "user"][-1] == said


@pytest.mark.spec("011.4")
async def test_a_wish_beside_a_yes_is_served() -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("cancel_it"), chooses("track_it")], values=[KNOWN], call=["It is in Hannover."])
    _, second = await talk(shop_agent(mind, log), "cancel 60112, it is late", "yes, thanks. Where is my lamp?")
    assert [name for name, _ in log] == ["cancel_order", "tell_why"]
    assert [(run.flow, run.status) for run in second.runs] == [("cancel_it", "done"), ("track_it", "active")]
    assert second.conversation.flows[-1].request == "Where is my lamp?"


@pytest.mark.spec("011.4")
async def test_what_nobody_reads_beside_a_yes_is_said_to_be_left_open() -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log)], approval="destructive")
    asked = await agent.turn("both")
    done = await agent.turn("Yes. Are there fees?", asked.conversation)
    assert (done.status, log) == ("done", ["drop"])
    assert done.text == 'This part is left open: "Are there fees?"\n\nBoth is done.'


WITHOUT_A_FLOW: list[Any] = [
    pytest.param("yes", [("cancel_order", {"order_number": "60105"})], "Well.", id="yes"),
    pytest.param("no", [], "All right, this will not be done: Cancel order.", id="no"),
]


@pytest.mark.spec("005.2")
@pytest.mark.parametrize(("message", "done", "text"), WITHOUT_A_FLOW)
@pytest.mark.parametrize(("first", "found"), [("send back 60112", SENDING), ("cancel ABC-999", '{"reason": "late"}')])
async def test_a_question_that_no_flow_asked_is_answered_while_one_waits(
    message: str, done: list[Any], text: str, first: str, found: str
) -> None:
    log: list[Any] = []
    flow = chooses("send_back" if "send" in first else "cancel_it")
    call = calls("cancel_order", order_number="60105")
    mind = Mind(choose=[flow, "[]"], values=[found], call=[call, "Well."])
    waits, asked, last = await talk(shop_agent(mind, log, open_tools="all"), first, "please cancel 60105", message)
    assert (waits.status, asked.status, last.status) == ("waiting", "confirming", "waiting")
    assert (log, last.text.partition("\n\n")[0]) == (done, text)
    assert stood(last) == stood(waits)


@pytest.mark.spec("005.2")
async def test_a_look_up_for_an_answer_about_a_flow_is_made_after_a_yes() -> None:
    log: list[Any] = []
    mind = Mind(
        choose=[chooses("send_back")] * 2, values=[SENDING], call=[calls("find_order", email="a@b.org"), "Well."]
    )
    agent = shop_agent(mind, log, approval="always")
    _, asked, last = await talk(agent, "send back 60112", "what is the state of it, then", "yes")
    assert (asked.status, last.status, stood(last)) == ("confirming", "waiting", [SEND])
    assert (log, last.text) == ([("find_order", {"email": "a@b.org"})], "Well.\n\nTo go on, I need: email.")


@pytest.mark.spec("005.2")
async def test_a_question_that_stands_is_confirming_though_the_model_fails() -> None:
    known = '{"order_number": "60112", "reason": "late"}'
    gone = ModelError("m", "gone", retryable=False)
    mind = Mind(choose=[chooses("cancel_it"), "[]"], values=[known], call=[gone])
    _, second = await talk(shop_agent(mind), "cancel 60112, it is late", "how is the weather?")
    assert (second.status, type(second.error).__name__) == ("confirming", "ChainError")
    assert second.conversation.pending is not None
    assert second.text == second.conversation.pending.question()


@pytest.mark.spec("010.2")
async def test_a_no_that_a_model_reads_calls_the_flow_off() -> None:
    log: list[Any] = []
    known = '{"order_number": "60112", "reason": "late"}'
    mind = Mind(
        choose=[chooses("cancel_it"), chooses(confirm={"is": "no", "quote": "I would rather keep these shoes"})],
        values=[known],
    )
    _, second = await talk(shop_agent(mind, log), "cancel 60112, it is late", "I would rather keep these shoes")
    assert (second.status, stood(second), log) == ("done", [], [])
    assert "nothing more will be done about: Cancel it" in second.text


ENDS: list[Any] = [
    pytest.param(calls("finish_procedure"), "done", "", id="done"),
    pytest.param(calls("cannot_finish", reason="the carrier is on strike"), "blocked", "the carrier", id="blocked"),
    pytest.param(calls("cannot_finish", reason=" "), "blocked", "no reason was given", id="blocked without a reason"),
]


@pytest.mark.spec("010.6")
@pytest.mark.parametrize(("ending", "status", "reason"), ENDS)
async def test_a_model_ends_a_flow_with_what_it_has_to_say(ending: str, status: str, reason: str) -> None:
    mind = Mind(choose=[chooses("track_it")], call=[ending, "Turn to help@shop.example."])
    (result,) = await talk(shop_agent(mind, facts={"support": "help@shop.example"}), "where is it?")
    assert (result.status, stood(result), result.text) == (status, [], "Turn to help@shop.example.")
    assert reason in result.reason
    assert 'support: "help@shop.example"' in mind.prompts("call")[0]


class Odd:
    """Is neither true nor a text."""

    def __bool__(self) -> bool:
        raise ValueError

    def __str__(self) -> str:
        raise ValueError


@pytest.mark.spec("010.6")
@pytest.mark.parametrize("support", [Odd(), Odd, None], ids=["odd", "given", "nobody"])
async def test_whatever_support_is_a_turn_ends(support: Any) -> None:
    mind = Mind(choose=[chooses("track_it")], call=[calls("cannot_finish", reason="no"), ""])
    (result,) = await talk(shop_agent(mind, facts={"support": support}), "where is it?")
    assert (result.status, "None" in result.text) == ("blocked", False)


@pytest.mark.spec("010.6")
async def test_what_ends_a_flow_is_no_step_that_users_are_told_of() -> None:
    gone = ModelError("m", "gone", retryable=False)
    looked = calls("look_up", order_number="60112")
    mind = Mind(choose=[chooses("track_it")], call=[looked, calls("cannot_finish", reason="no"), gone])
    (result,) = await talk(shop_agent(mind), "where is it?")
    assert (result.status, result.text) == (
        "failed",
        "This could not be finished. Done so far: Look up.",
    )


class LikelyOther(ListMemory):
    """Recall that finds the second flow likely for all but the first request, though no more than that."""

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        found = list(await super().recall(query, agent_id, top_k, rrf_k, exclude=exclude))
        if query != "shots please":
            found.reverse()
        confidences = (0.6, 0.1)
        ranked = [{**each, "confidence": sure} for each, sure in zip(found, confidences, strict=True)]
        return RecallResult(ranked, p_none=0.05)


@pytest.mark.parametrize(
    ("message", "name", "text"),
    [
        pytest.param("Mimi", "see_shots", "Mimi: 1 March.", id="a word that an example has"),
        pytest.param("lost", "find_lost", "It is noted.", id="a word of the other flow's name"),
        pytest.param("gone", "find_lost", "It is noted.", id="an example of the other flow"),
        pytest.param("my Mimi ran away", "find_lost", "It is noted.", id="more than one word"),
    ],
)
async def test_one_word_after_an_author_s_question_is_its_answer_unless_it_names_a_flow(
    message: str, name: str, text: str
) -> None:
    def look_up_shots(pet: str) -> dict[str, str]:
        return {"due": "1 March"}

    def look_up_lost() -> dict[str, str]:
        return {}

    registry = FlowRegistry(min_examples=0)
    Flow(
        name="see_shots",
        inputs=[Input("pet", "What is your pet called?")],
        tools=["look_up_shots"],
        chain=["look_up_shots"],
        reply="{pet}: {due}.",
        registry=registry,
    )
    Flow(
        name="find_lost",
        examples=["Mimi has run away", "gone"],
        tools=["look_up_lost"],
        chain=["look_up_lost"],
        reply="It is noted.",
        registry=registry,
    )
    selector = FlowSelector(None, registry, LikelyOther(metadata("see_shots", "find_lost")), "clinic")
    agent = Agent(selector, [tool_from_function(each, read_only=True) for each in (look_up_shots, look_up_lost)])
    asked = await agent.turn("shots please")
    assert asked.text == "What is your pet called?"
    result = await agent.turn(message, asked.conversation)
    assert result.runs[0].flow == name
    assert text in result.text


@pytest.mark.parametrize(
    ("message", "status", "known"),
    [
        pytest.param("yes, A-17", "done", {"number": "A-17"}, id="a yes and the value"),
        pytest.param("it's A-17", "done", {"number": "A-17"}, id="the value"),
        pytest.param("yes", "waiting", {}, id="a yes"),
        pytest.param("A-17?", "waiting", {}, id="a question"),
        pytest.param("no, A-17", "waiting", {}, id="a no"),
        pytest.param("not A-17", "waiting", {}, id="a denial"),
    ],
)
async def test_a_yes_to_begin_may_give_what_would_be_asked_for_next(
    message: str, status: str, known: dict[str, str]
) -> None:
    def move_visit(number: str) -> dict[str, str]:
        return {}

    registry = FlowRegistry(min_examples=0)
    chain = ["move_visit"]
    number = Input("number", "Which visit?", example="A-1")
    Flow(name="move_visit", inputs=[number], tools=chain, chain=chain, registry=registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("move_visit")), "clinic", policy=TAKE_FIRST)
    agent = Agent(selector, [tool_from_function(move_visit, read_only=False)])
    asked = await agent.turn("another time please")
    assert asked.text == "Shall I go on with: Move visit?"
    result = await agent.turn(message, asked.conversation)
    assert result.status == status
    made = [step.arguments for run in result.runs for step in run.steps]
    assert made == ([known] if known else [])
