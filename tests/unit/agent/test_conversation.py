"""A conversation: as JSON and back, bounded, and without what was for one turn alone."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.agent import Conversation
from jazz_select.agent.agenda import Agenda
from jazz_select.agent.agent import Agent
from jazz_select.agent.conversation import MOST_FLOWS, OpenFlow, Part, PastCall
from jazz_select.agent.reading.reading import Wish
from jazz_select.agent.turn import FlowRun, TurnRequest, TurnState
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.telemetry import Trace
from jazz_select.values import Message, flow_id
from tests.unit.agent.turns import ADA, Made, agent_of, shop_of
from tests.unit.selector.shop import shop


async def test_what_the_caller_knows_is_for_one_turn(made: Made) -> None:
    agent = made()
    first = await agent.turn("Process a refund for my last order", context={"authenticated": True, **ADA})
    assert "authenticated" not in first.conversation.to_json()
    assert "ada@example.org" not in first.conversation.to_json()


async def test_a_flow_that_is_withheld_meanwhile_does_not_go_on() -> None:
    registry = shop()
    flow = Members(
        name="members_only", tools=["drop"], registry=registry, description="d", condition="c", desired_effects=["e"]
    )
    ran: list[str] = []

    def drop(number: str) -> None:
        ran.append(number)

    agent = agent_of(registry, [drop], flow.name)
    first = await agent.turn("members only", context={"member": True})
    assert first.status == "waiting"
    second = await agent.turn("A-1", first.conversation, context={"member": False})
    assert (second.status, ran, second.conversation.flows) == ("failed", [], ())
    assert "not available in this context" in second.reason


class Members(Flow):
    """For members."""

    chain = ("drop",)

    def available(self, context: Mapping[str, Any]) -> bool:
        return context.get("member") is True


async def test_half_a_character_is_no_end_of_a_conversation(made: Made) -> None:
    result = await made().turn("hello \ud800", [Message(role="user", content="x\ud800")])
    assert Conversation.from_json(result.conversation.to_json()) == result.conversation


async def test_a_large_output_and_a_long_message_do_not_stay() -> None:
    registry = shop_of(("both", ("look", "ask")))

    def look() -> dict[str, str]:
        return {"book": "x" * 3_000_000, "title": "y"}

    def ask(number: str) -> None: ...

    result = await agent_of(registry, [look, ask]).turn("both")
    assert result.status == "waiting"
    conversation = (await agent_of(registry, [look, ask]).turn("z" * 1_000_000, result.conversation)).conversation
    assert len(conversation.to_json()) < 40_000


def after(
    before: Conversation, message: str, text: str, *, flows: tuple[OpenFlow, ...] = (), **work: Any
) -> Conversation:
    """The conversation after one more turn, with what was done in it."""
    request = TurnRequest(message=message, conversation=before, context={})
    done = TurnState(request=request, agenda=Agenda(flows), text=text, **work)
    return done.result(prompt="", trace=Trace()).conversation


def test_a_conversation_goes_to_json_and_back() -> None:
    history = [
        Message(role="user", content="hi"),
        Message(role="assistant", content="hello"),
        Message(role="system", content="x"),
    ]
    conversation = Conversation.from_history(history)
    assert [each.role for each in conversation.messages] == ["user", "assistant"]
    assert conversation.episodes == ("The user said: hi",)
    assert Conversation.from_json(conversation.to_json()) == conversation


def test_what_is_signed_stays_so_where_its_secret_is_not_known() -> None:
    text = after(Conversation(), "hi", "hello").to_json(secret="s" * 32)
    for given in (text, text.encode()):
        kept = Conversation.from_json(given)
        assert kept.signed_text == kept.to_json() == text
    assert after(kept, "more", "").signed_text == ""


def test_of_many_open_flows_the_lowest_go_and_none_that_destroyed_something() -> None:
    ran = {"0": Part(status="active", final=True)}
    flows = tuple(OpenFlow(name=str(each), parts=ran if not each else {}) for each in range(2 * MOST_FLOWS + 3))
    kept = after(Conversation(), "hi", "hello", flows=flows).flows
    assert kept == (flows[0], *flows[-2 * MOST_FLOWS :])


def test_a_list_of_messages_has_no_name_of_its_own() -> None:
    with pytest.raises(ConfigError, match="a list of messages may be cut anywhere"):
        Conversation.from_history([Message(role="user", content="hi")]).with_id("x")
    assert Conversation().with_id("x").id == "x"


def test_a_turn_is_kept_with_its_number_and_what_was_run() -> None:
    calls = [PastCall(tool="look", output="")]
    first = after(Conversation(), "hi", "hello")
    runs = (FlowRun(flow="look"), FlowRun(flow="see"))
    second = after(first, "look", "done", runs=runs, calls=calls)
    assert second.episodes == ("The user said: hi", "The user said: look The agent ran look, see.")
    assert [each.turn for each in second.calls] == [2]
    assert [first.message_turns, second.message_turns] == [(1, 1), (1, 1, 2, 2)]


def test_a_question_is_kept_as_it_was_asked() -> None:
    options = tuple(UserOption(flow_id=flow_id(name), flow_name=name, title=name, says="it is done") for name in "ab")
    for again in (True, False):
        question = UserQuestion(text="Which?", options=options, request="x", again=again, more=not again)
        kept = after(Conversation(), "x", question.text, question=question)
        assert Conversation.from_json(kept.to_json()).question == question


def test_only_what_destroys_counts_as_final() -> None:
    ran = tuple(PastCall(tool=name, output="", final=name == "pay") for name in ("look", "pay", "pay"))
    assert OpenFlow(name="a", parts={"0": Part(status="active", ran=ran)}).final == ("pay",)


def test_a_flow_that_is_begun_knows_its_turn_and_one_that_comes_back_keeps_its_own() -> None:
    (first,) = Agenda().with_wishes([Wish("a")], request="x", turn=3).flows
    assert (first.name, first.request, first.turn, first.status) == ("a", "x", 3, "queued")
    is_open, has_failed = Agenda((first,)), Agenda((), (first,))
    assert [each.turn for each in is_open.with_wishes([Wish("b")], request="y", turn=4).flows] == [3, 4]
    assert has_failed.with_wishes([Wish("a")], request="y", turn=5) == is_open
    assert is_open.with_wishes([], request="y", turn=6) == is_open
    both = is_open.with_wishes([Wish("b"), Wish("a")], request="y", turn=7)
    assert [each.name for each in both.flows] == ["b", "a"]


def test_an_open_flow_finds_room_where_called_flows_have_taken_it() -> None:
    full = Agenda(tuple(OpenFlow(name=f"flow {number}") for number in range(MOST_FLOWS + 1)))
    again, other = Wish("flow 3"), Wish("another")
    assert full.split_by_room([other, again]) == ((again,), (other,))


def asking(*names: str) -> str:
    """A conversation that asks which of these flows is meant."""
    options = tuple(UserOption(flow_id=flow_id(name), flow_name=name, title=name, says="") for name in names)
    question = UserQuestion(text="Which?", options=options, request="x")
    return after(Conversation(), "x", question.text, question=question).to_json()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "the text"),
        ('{"version": 9, "new": 1}', "it is of version 9, and this is version 2"),
        ('{"version": 1}', "it is of version 1, and this is version 2"),
        ("{}", "version: Field required"),
        ('{"flows": [{}], "version": 2}', "flows.0.name"),
        ("[]", "the text"),
        ('{"turns": -5, "version": 2}', "turns"),
        (asking("a", ""), "it is no question about 2 to 3 flows"),
        (asking("a"), "it is no question about 2 to 3 flows"),
    ],
)
def test_what_is_no_conversation_is_said(text: str, problem: str) -> None:
    with pytest.raises(SnapshotError, match=problem):
        Conversation.from_json(text)


async def test_a_conversation_stays_bounded(pack: FlowRegistry) -> None:
    agent = Agent(FlowSelector(None, pack))
    conversation = Conversation()
    for number in range(30):
        conversation = (await agent.turn(f"message {number} " + "x" * 500, conversation)).conversation
    assert (len(conversation.messages), len(conversation.episodes), conversation.turns) == (40, 5, 30)
    assert max(map(len, conversation.episodes)) < 400


async def test_a_flow_that_is_gone_is_passed_over(made: Made) -> None:
    history = Conversation.model_validate({"flows": [{"name": "no_such_flow", "status": "waiting", "asks": ["a b"]}]})
    result = await made().turn("thanks", history)
    assert (result.flows, result.conversation.flows) == ([], ())
    assert "no_such_flow" in result.reason
