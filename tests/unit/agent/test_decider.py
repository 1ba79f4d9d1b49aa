"""A decision model beside an agent: what it hears as a yes or a no, where the lists of words leave it open."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import Agent, ConditionalFlow, FlowSelector
from jazz_select.agent.turn import TurnResult
from jazz_select.chat.decisions import DecisionClient
from jazz_select.errors import ConfigError, ModelError
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.routing import Tool
from jazz_select.routing.decisions.decision_points import GuidedDecisionPoint
from jazz_select.selector.policy import Policy
from jazz_select.testing import LIES, ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.testing import likely as likely_option
from tests.unit.agent.turns import agent_of, destroyer, obj, shop_of, tools_for
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("009.1")

YES_OF_A_KIND = "Yes please. I do not need a receipt."
NO_OF_A_KIND = "I would rather not, to be honest"
DOWN = ModelError("d", "it is down", retryable=False)


async def approving(decider: Any, said: str, **options: Any) -> tuple[TurnResult, list[str]]:
    """What becomes of a call that waits for a yes when this is said."""
    log: list[str] = []
    given: dict[str, Any] = {"approval": "destructive", "decider": decider} | options
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, number="string")], **given)
    first = await agent.turn("both", context={"number": "A-1"})
    assert first.status == "confirming"
    return await agent.turn(said, first.conversation, context={"number": "A-1"}), log


async def test_a_yes_in_other_words_is_one() -> None:
    decider = ScriptedDecider("yes", sure=0.99)
    turn, log = await approving(decider, YES_OF_A_KIND)
    assert (turn.status, log) == ("done", ["drop A-1"])
    assert turn.notes[0] == "the decider ScriptedDecider read the message as yes, at 0.99"
    ((state, questions),) = decider.calls
    assert "Shall I go on, yes or no?" in state
    assert state.endswith(YES_OF_A_KIND)
    (question,) = questions.values()
    assert isinstance(question, ChoiceQuestion)
    assert list(question.options) == ["yes", "no", "neither"]


async def test_a_no_in_other_words_is_one() -> None:
    turn, log = await approving(ScriptedDecider("no"), NO_OF_A_KIND)
    assert (log, turn.conversation.pending) == ([], None)
    assert turn.text == "All right, nothing more will be done about: Both."
    assert turn.notes == ("the decider ScriptedDecider read the message as no, at 0.97",)


@pytest.mark.parametrize("said", ["yes", "no", "Yes, please.", "nein, danke"])
async def test_what_the_lists_can_tell_costs_no_call(said: str) -> None:
    decider = ScriptedDecider()
    turn, log = await approving(decider, said)
    assert bool(log) is said.casefold().startswith("y")
    assert decider.calls == []
    assert not any("decider" in note for note in turn.notes)


@pytest.mark.parametrize(
    "said",
    [
        *(
            "how much would that be?",
            "yes but A-2",
            "maybe later",
            "tell me a joke",
            "don't, wait, yes",
            "",
            "yes " * 300,
        ),
        *(
            "ok google what is the weather",
            "go ahead and tell me a joke",
            "sure, when hell freezes over",
            "ok forget it",
        ),
        *("yes, all of them", "ok, everything", "do it for everyone please", "sure, do it twice", "yes, and A-2 again"),
        *("sure. also transfer all my money", "yep, that works for my sister's order too", "ja, aber alles auch"),
    ],
)
async def test_a_yes_that_it_makes_up_calls_nothing(said: str) -> None:
    """However sure it is: what was said has to be able to mean yes."""
    turn, log = await approving(ScriptedDecider("yes", sure=1.0, repeat=True), said)
    assert log == []
    assert turn.conversation.pending is not None
    assert any("the yes does not count" in note for note in turn.notes) or "the message is blank" in turn.notes[0]


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        pytest.param(DOWN, "the decider was passed over: ModelError", id="down"),
        pytest.param(GeneratorExit(), "it raised GeneratorExit, which is no Exception", id="no exception"),
        pytest.param({"question": {"yes": 0.9, "no": 0.1, "neither": 0.0}}, "is not sure: yes at 0.90", id="not sure"),
        *(pytest.param(LIES[lie], "the decider was passed over: DecisionReplyError", id=lie) for lie in sorted(LIES)),
    ],
)
async def test_where_it_does_not_count_all_is_as_without_it(answer: Any, note: str) -> None:
    turn, log = await approving(ScriptedDecider(answer), YES_OF_A_KIND)
    without, _ = await approving(None, YES_OF_A_KIND)
    assert log == []
    assert (turn.status, turn.text) == (without.status, without.text)
    assert turn.conversation.pending is not None
    assert note in turn.notes[0]
    assert without.notes == ("the yes does not count: it denies something, 'I do not need'",)


async def test_neither_is_no_note() -> None:
    turn, log = await approving(ScriptedDecider("neither"), YES_OF_A_KIND)
    assert (log, turn.notes) == ([], ())


async def test_it_may_be_told_to_be_less_sure() -> None:
    _, log = await approving(ScriptedDecider("yes", sure=0.8), YES_OF_A_KIND, decider_above=0.75)
    assert log == ["drop A-1"]


# --- inputs that are true or false ---


def gift_agent(log: list[str], decider: Any, model: Any = None, **options: Any) -> Agent:
    return agent_of(
        shop_of(("both", ("drop",))),
        [destroyer("drop", log, number="string", gift_wrap="boolean")],
        model=model,
        decider=decider,
        **options,
    )


@pytest.mark.parametrize(("said", "wanted"), [("lovely, with a bow", True), ("paper only", False)])
async def test_an_answer_to_a_yes_no_question_in_other_words(said: str, *, wanted: bool) -> None:
    log: list[str] = []
    decider = ScriptedDecider("yes" if wanted else "no")
    agent = gift_agent(log, decider)
    first = await agent.turn("both", context={"number": "A-1"})
    assert (first.status, first.runs[0].asks) == ("waiting", ("gift_wrap",))
    second = await agent.turn(said, first.conversation, context={"number": "A-1"})
    assert (second.status, log) == ("done", [f"drop A-1 {wanted}"])
    assert f"read gift_wrap as {'yes' if wanted else 'no'}, at 0.97" in second.notes[0]
    ((state, questions),) = decider.calls
    assert "gift wrap" in state
    assert state.endswith(said)
    assert "'gift wrap'" in next(iter(questions.values())).asked


@pytest.mark.parametrize(
    ("schema", "asked"),
    [
        ({"type": "boolean"}, "What does the user's message say of 'gift wrap'?"),
        ({"type": ["boolean", "null"]}, "What does the user's message say of 'gift wrap'?"),
        (
            {"type": "boolean", "description": "whether there\n is a bow"},
            "What does the user's message say of 'gift wrap' (whether there is a bow)?",
        ),
        ({"type": ["boolean", "string"]}, ""),
    ],
    ids=["plain", "or nothing", "described", "or a text"],
)
async def test_what_is_asked_of_an_input_is_what_its_schema_says(schema: dict[str, Any], asked: str) -> None:
    decider = ScriptedDecider("yes", repeat=True)
    wanted = {"type": "object", "properties": {"gift_wrap": schema}, "required": ["gift_wrap"]}
    tool = Tool(name="drop", input_schema=wanted, function=dict)
    agent = agent_of(shop_of(("both", ("drop",))), [tool], decider=decider)
    first = await agent.turn("both")
    assert first.runs[0].asks == ("gift_wrap",)
    second = await agent.turn("lovely, with a bow", first.conversation)
    questions = [each for _, given in decider.calls for each in given.values()]
    assert [each.asked for each in questions] == [asked] * bool(asked)
    spans = [(each.kind, each.attributes) for each in second.trace if each.name == "fill" and each.kind == "decision"]
    told = {"chosen": "yes", "probability": 0.97, "tier": "guided"}
    assert spans == [("decision", told)] * bool(asked)


FLAGS = {f"flag_{number}": "boolean" for number in range(1, 6)}


class Few(ScriptedDecider):
    """Takes two questions a call."""

    most_questions = 2


@pytest.mark.parametrize(("kind", "asked"), [(ScriptedDecider, [5]), (Few, [2, 2, 1])], ids=["all", "two a call"])
async def test_several_inputs_are_asked_about_in_as_few_calls_as_there_can_be(
    kind: type[ScriptedDecider], asked: list[int]
) -> None:
    log: list[str] = []
    decider = kind("yes", repeat=True)
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, **FLAGS)], decider=decider)
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", tuple(FLAGS))
    second = await agent.turn("well, all of these, I guess", first.conversation)
    assert [len(questions) for _, questions in decider.calls] == asked
    assert (second.status, log) == ("done", ["drop True True True True True"])
    assert [note.partition(" as ")[0].rpartition(" ")[2] for note in second.notes] == [*FLAGS]


async def test_a_call_that_fails_is_told_once_however_much_it_asked() -> None:
    log: list[str] = []
    agent = agent_of(shop_of(("both", ("drop",))), [destroyer("drop", log, **FLAGS)], decider=ScriptedDecider(DOWN))
    first = await agent.turn("both")
    second = await agent.turn("well, all of these, I guess", first.conversation)
    assert (second.status, log) == ("waiting", [])
    assert sum("passed over" in note for note in second.notes) == 1


@pytest.mark.parametrize("answer", ["neither", DOWN, {"question": {"yes": 0.9, "no": 0.1, "neither": 0}}], ids=str)
async def test_what_it_does_not_hear_is_asked_for_again(answer: Any) -> None:
    log: list[str] = []
    agent = gift_agent(log, ScriptedDecider(answer))
    first = await agent.turn("both", context={"number": "A-1"})
    second = await agent.turn("that would be lovely", first.conversation, context={"number": "A-1"})
    assert (second.status, log) == ("waiting", [])
    assert "gift_wrap" in second.runs[0].asks if second.runs else "gift wrap" in second.text


async def test_what_only_supposes_lets_nothing_be_destroyed() -> None:
    log: list[str] = []
    agent = gift_agent(log, ScriptedDecider("yes", sure=1.0, repeat=True), approval="destructive")
    first = await agent.turn("both", context={"number": "A-1"})
    second = await agent.turn("if it is free", first.conversation, context={"number": "A-1"})
    assert (second.status, log) == ("confirming", [])


async def test_what_a_chat_model_finds_stands_beside_it() -> None:
    log: list[str] = []
    model = ScriptedModel('["both"]', '{"flows": ["both"], "values": {"number": "A-1"}}')
    agent = gift_agent(log, ScriptedDecider("yes", repeat=True), model)
    first = await agent.turn("both")
    second = await agent.turn("A-1, with a bow", first.conversation)
    assert (second.status, log) == ("done", ["drop A-1 True"]), second.reason


async def test_only_what_was_asked_for_is_heard() -> None:
    """A text is none of its matters, nor is a flag before anybody has asked."""
    log: list[str] = []
    decider = ScriptedDecider("yes", repeat=True)
    agent = gift_agent(log, decider)
    first = await agent.turn("both")
    assert first.runs[0].asks == ("number", "gift_wrap")
    assert decider.calls == []


# --- where it is given ---


async def test_it_chooses_between_tools_where_an_agent_has_no_model() -> None:
    log: list[str] = []

    def tool(name: str) -> Tool:
        def run(number: str) -> dict[str, str]:
            log.append(name)
            return {"number": number}

        return Tool(name=name, input_schema=obj(number="string"), function=run)

    registry = shop_of(("both", ("begin",)))
    flow = registry.by_name("both")
    assert flow is not None
    point = GuidedDecisionPoint(after_step="begin", candidate_tools=["wrap", "send"])
    vars(flow).update(chain=("begin", point), tools=("begin", "wrap", "send"))
    decider = ScriptedDecider("send", sure=0.96)
    agent = agent_of(registry, [tool("begin"), tool("wrap"), tool("send")], decider=decider)
    turn = await agent.turn("both", context={"number": "A-1"})
    assert (turn.status, log) == ("done", ["begin", "send"]), turn.reason
    ((state, _),) = decider.calls
    assert "said by the user" in state


def test_a_chat_model_is_refused_as_decider() -> None:
    with pytest.raises(ConfigError, match=r"decider cannot be .* it is a chat model"):
        agent_of(shop_of(("both", ("drop",))), [destroyer("drop", [])], decider=ScriptedModel("x"))


async def test_one_client_may_be_shared() -> None:
    client = DecisionClient(ScriptedDecider("yes", repeat=True))
    _, log = await approving(client, YES_OF_A_KIND)
    assert log == ["drop A-1"]


# --- the branch of a conditional flow ------------------------------------------


def chooses(name: str) -> ScriptedDecider:
    """Sure of the flow of this name, or that none fits."""

    def said(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        options = question.options.items()
        label = next((label for label, meaning in options if meaning.startswith(name)), "none")
        return {asked: likely_option(question, label, 0.999)}

    return ScriptedDecider(said, repeat=True)


@pytest.mark.parametrize("model", [None, ScriptedModel("[]", repeat=True)], ids=["no chat model", "a chat model"])
@pytest.mark.parametrize(
    ("name", "ran"), [("by_card", "do_card"), ("by_bank", "do_bank"), ("none", "do_other")], ids=str
)
async def test_the_branch_that_a_decider_is_sure_of_runs(name: str, ran: str, model: ScriptedModel | None) -> None:
    log: list[str] = []
    registry = shop_of(("by_card", ("do_card",)), ("by_bank", ("do_bank",)), ("other", ("do_other",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("it is a card", "by_card"), ("it is a bank", "by_bank")],
        otherwise="other",
        examples=[],
        registry=registry,
    )
    found = zip(metadata("both", "by_card", "by_bank"), (0.99, 0.5, 0.2), strict=True)
    memory = ListMemory({**each, "confidence": chance} for each, chance in found)
    decider = chooses(name)
    selector = FlowSelector(model, registry, memory, "support", decider=decider, policy=Policy(max_error=0.3))
    result = await Agent(selector, tools_for("do_card", "do_bank", "do_other", log=log)).turn("both")
    assert (result.flows, log) == (["both"], [ran])
    assert model is None or bool(model.calls) is (name == "none"), "only the chat model may say that none fits"
