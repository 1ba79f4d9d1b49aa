"""What is taken where no stage is sure enough: the likeliest by all that is known, with all tokens that it took."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.selector.policy import Policy
from jazz_select.stages import Usage
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel, likely
from jazz_select.values import Decision, Reason, Reply, Tier
from tests.unit.selector.shop import REFUND, metadata, shop
from tests.unit.selector.test_cascade import Sure, says, selector, stages

pytestmark = pytest.mark.spec("009.2")


def mostly_none(then: str) -> ScriptedDecider:
    """Says that nothing fits, and if anything does, the flow of this name."""

    def answer(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        chances = dict.fromkeys(question.options, 0.001) | {"none": 0.9}
        (second,) = (label for label, meaning in question.options.items() if meaning.startswith(then))
        chances[second] = 1 - sum(chances.values()) + 0.001
        return {asked: chances}

    return ScriptedDecider(answer, repeat=True, usage=Usage(input_tokens=70))


async def test_where_none_is_no_answer_the_likeliest_flow_is_taken() -> None:
    made = selector(Sure(0.3, 0.29), decider=mostly_none("exchange_order"), max_error=0.01)
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["exchange_order"], Reason.DECIDER)
    assert "outside of the error budget" in " ".join(result.decision.notes)
    assert result.decision.usage == Usage(input_tokens=70)
    assert result.decision.model == "scripted"


async def test_where_none_is_an_answer_it_is_still_the_likeliest() -> None:
    made = selector(Sure(0.3, 0.29), decider=mostly_none("exchange_order"), max_error=0.01, on_empty="none")
    result = await made.select("x")
    assert (result.names, result.decision.reason) == ([], Reason.NONE)


async def test_the_tokens_of_all_stages_are_counted_whatever_comes_of_them() -> None:
    """Also of a decision model whose choice has left the registry, and where the chat model failed."""
    flows = dict(shop())

    def gone(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        flows.pop(REFUND, None)
        assert isinstance(question, ChoiceQuestion)
        (first,) = (label for label, meaning in question.options.items() if meaning.startswith("refund_order"))
        return {asked: likely(question, first)}

    decider = ScriptedDecider(gone, repeat=True, usage=Usage(input_tokens=70))
    left = await selector(Sure(0.97, 0.02), decider=decider, flows=flows, max_error=0.01).select("x")
    assert (left.names, left.decision.usage) == (["exchange_order"], Usage(input_tokens=70))
    failed = selector(
        Sure(0.97, 0.02), ScriptedModel(RuntimeError("down")), decider=says("refund_order", 0.6), max_error=0.01
    )
    assert (await failed.select("x")).decision.usage == Usage(input_tokens=70)
    reply = Reply(text='["1"]', usage=Usage(input_tokens=30))
    both = selector(Sure(0.97, 0.02), ScriptedModel(reply), decider=says("refund_order", 0.6), max_error=0.01)
    assert (await both.select("x")).decision.usage == Usage(input_tokens=100)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param(RuntimeError("down"), Reason.FALLBACK_ERROR, id="it is down"),
        pytest.param("garble garble", Reason.FALLBACK_INVALID, id="it says nothing of use"),
        pytest.param('["ghost"]', Reason.FALLBACK_INVALID, id="it names what nobody offered"),
        pytest.param("[]", Reason.FALLBACK_EMPTY, id="it says none, which is no answer"),
    ],
)
async def test_a_chat_model_that_does_not_answer_makes_nothing_worse(reply: str | Exception, reason: Reason) -> None:
    """What was known before it was asked is known afterwards."""
    options: dict[str, Any] = {"decider": says("exchange_order", 0.998), "max_error": 0.05}
    alone = await selector(Sure(0.8, 0.18), **options).select("x")
    model = ScriptedModel(reply, repeat=True)
    result = await selector(Sure(0.8, 0.18), model, **options).select("x")
    assert result.names == alone.names == ["exchange_order"]
    assert (result.decision.reason, result.decision.tier) == (reason, Tier.DETERMINISTIC)
    assert ("ghost" in result.unresolved_ids) is (reply == '["ghost"]')
    assert [each.outcome for each in result.decision.stages[:2]] == ["handed_on", "handed_on"]
    assert "likeliest" in result.decision.stages[-1].why


async def test_a_chat_model_that_fails_after_a_decider_that_did_too_leaves_what_recall_put_first() -> None:
    made = selector(
        Sure(0.97, 0.02), ScriptedModel(RuntimeError("down")), decider=ScriptedDecider(OSError("down")), max_error=0.01
    )
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.FALLBACK_ERROR)
    assert "likeliest" not in result.decision.stages[-1].why


@pytest.mark.parametrize(
    ("reply", "asked", "name"),
    [
        pytest.param(RuntimeError("down"), 1, "exchange_order", id="it is down"),
        pytest.param("garble garble", 1, "exchange_order", id="it says nothing of use"),
        pytest.param("[]", 0, "refund_order", id="it answers, and none is no answer"),
        pytest.param('["1"]', 0, "refund_order", id="it answers"),
    ],
)
async def test_a_decider_that_could_not_decide_is_asked_once_the_chat_model_failed(
    reply: str | Exception, asked: int, name: str
) -> None:
    decider = says("exchange_order", 0.998)
    made = selector(Sure(0.5, 0.45), ScriptedModel(reply, repeat=True), decider=decider, max_error=0.01)
    result = await made.select("x")
    assert (result.names, len(decider.calls)) == ([name], asked)
    assert [each.name for each in result.decision.stages] == ["recall", "decider", "chat"]
    assert result.decision.stages[1].calls == asked
    assert ("once the chat model had failed" in result.decision.stages[1].why) is bool(asked)


async def test_a_question_after_a_failure_is_in_the_order_of_a_decider_that_was_asked_late() -> None:
    made = selector(
        Sure(0.5, 0.45),
        ScriptedModel(RuntimeError("down")),
        decider=says("exchange_order", 0.998),
        max_error=0.01,
        on_error="ask",
    )
    decision = (await made.select("x")).decision
    assert decision.question is not None
    assert [each.title for each in decision.question.options] == ["Exchange order", "Refund order"]


async def test_what_fails_late_is_told_and_changes_nothing() -> None:
    down = ScriptedDecider(OSError("no route"))
    made = selector(Sure(0.5, 0.45), ScriptedModel(RuntimeError("down")), decider=down, max_error=0.01)
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.FALLBACK_ERROR)
    assert result.decision.stages[1].outcome == "failed"
    assert "no route" in result.decision.stages[1].why


async def test_a_chat_model_that_takes_all_the_time_leaves_none_for_a_decider() -> None:
    decider = says("exchange_order", 0.998)
    slow = ScriptedModel('["1"]', delay_s=60)
    result = await selector(Sure(0.5, 0.45), slow, decider=decider, max_error=0.01, timeout_s=0.2).select("x")
    assert (result.names, decider.calls) == (["refund_order"], [])


# --- what is said of it --------------------------------------------------------


async def test_what_is_only_likeliest_is_not_said_to_be_chosen_by_the_decision_model() -> None:
    """It named another flow, and what recall knows spoke against that."""
    made = selector(Sure(0.9, 0.02), decider=says("exchange_order", 0.9), max_error=0.01)
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.DECIDER)
    first = result.explain().splitlines()[0]
    assert "likeliest by recall and the decision model together" in first
    assert "chosen by" not in first
    why = result.decision.stages[1].why
    assert why.startswith("it names exchange_order with probability 0.900; with recall ")
    assert "in refund_order is below the threshold 0.988" in why
    alone = await selector(Sure(0.9, 0.02), max_error=0.01).select("x")
    assert alone.explain().startswith("refund_order: the likeliest by recall, as no stage was sure enough")


async def test_what_both_are_sure_of_is_said_as_it_was() -> None:
    result = await selector(Sure(0.97, 0.03), decider=says("refund_order", 0.99), max_error=0.01).select("x")
    assert result.explain().startswith("refund_order: chosen by the decision model, with what recall knew")
    assert "by itself" not in result.decision.stages[1].why


async def test_a_decision_model_that_names_a_flow_which_recall_doubts_is_told_and_nothing_is_said_to_be_taken() -> None:
    memory = Sure(0.6, 0.1, p_none=0.84)
    made = selector(memory, decider=says("exchange_order", 0.99), max_error=0.05, on_empty="none")
    result = await made.select("it keeps crashing")
    assert (result.names, result.decision.reason) == ([], Reason.NONE)
    assert "it names exchange_order with probability 0.990" in result.decision.stages[1].why
    assert "that none fits is below" in result.decision.stages[1].why
    (note,) = result.decision.notes
    assert "nothing is taken" in note


async def test_the_likeliest_is_what_recall_is_surest_of_and_not_its_first() -> None:
    result = await selector(Sure(0.22, 0.46, 0.1), max_error=0.01).select("coffee all over it")
    assert (result.names, result.decision.reason) == (["exchange_order"], Reason.SEMANTIC)
    assert result.decision.candidates[0].flow_name == "refund_order"
    unknown = await selector(Sure(None, None), max_error=0.01).select("coffee all over it")
    assert unknown.names == ["refund_order"]


# --- whether the user is asked -------------------------------------------------


async def asked(*confidence: float, request: str = "it keeps crashing", **options: Any) -> Decision:
    given: dict[str, Any] = {"max_error": 0.05, "ask_user": True, "on_empty": "none"} | options
    memory = Sure(*confidence, p_none=given.pop("p_none", None))
    return (await selector(memory, given.pop("model", None), **given).select(request)).decision


@pytest.mark.parametrize("p_none", [0.68, 0.84])
async def test_a_flow_that_a_decision_model_names_and_recall_doubts_is_asked_about(p_none: float) -> None:
    decision = await asked(0.6, 0.1, p_none=p_none, decider=says("exchange_order", 0.99))
    assert decision.reason is Reason.ASK
    assert decision.question is not None
    assert "exchange_order" in {each.flow_name for each in decision.question.options}
    assert decision.question.text.endswith("Or something else?")
    assert decision.notes == ()


@pytest.mark.parametrize("on_empty", ["none", "top1"])
@pytest.mark.parametrize(
    ("request_text", "options"),
    [
        pytest.param("Who painted the Mona Lisa?", {"p_none": 0.97}, id="for no flow"),
        pytest.param("Who painted it?", {"p_none": 0.53, "decider": says("none", 0.7)}, id="as a model says too"),
        pytest.param("hello there", {}, id="a greeting"),
        pytest.param("Thanks a lot!", {}, id="thanks"),
        pytest.param("Vielen Dank", {"p_none": 0.1}, id="thanks in German"),
        pytest.param("merci beaucoup", {"decider": says("exchange_order", 0.9)}, id="thanks that a model read wrongly"),
    ],
)
async def test_what_is_for_no_flow_is_neither_asked_about_nor_taken(
    request_text: str, options: dict[str, Any], on_empty: str
) -> None:
    decision = await asked(0.5, 0.45, request=request_text, **options, on_empty=on_empty)
    assert (decision.reason, decision.question, decision.chosen_ids) == (Reason.NONE, None, ())
    assert "nothing is taken" in decision.notes[-1]
    assert "likeliest" not in " ".join(decision.notes)
    assert stages(decision)[-1] == ("user", "handed_on")


async def test_where_it_is_doubtful_that_a_flow_is_meant_it_is_asked() -> None:
    assert (await asked(0.5, 0.45, p_none=0.41)).reason is Reason.ASK
    assert (await asked(0.5, 0.45, request="good morning, refund it")).reason is Reason.ASK


async def test_of_more_than_three_the_likeliest_three_are_asked_about() -> None:
    names = ("refund_order", "exchange_order", "cancel_order", "track_parcel")
    found = zip(metadata(*names), (0.2, 0.3, 0.22, 0.21), strict=True)
    memory = ListMemory({**each, "confidence": chance} for each, chance in found)
    made = FlowSelector(None, shop(*names), memory, "support", top_k=4, policy=Policy(max_error=0.05, ask_user=True))
    decision = (await made.select("something with my order")).decision
    assert decision.question is not None
    assert [each.flow_name for each in decision.question.options] == ["exchange_order", "cancel_order", "track_parcel"]
    assert decision.question.text.splitlines()[-1] == "Or something else?"
    other = await made.select("something else", asked=decision)
    assert (other.names, other.decision.reason) == ([], Reason.NONE)
    assert (await made.select("2", asked=decision)).names == ["cancel_order"]


# --- several wishes ------------------------------------------------------------


@pytest.mark.parametrize("options", [{"max_error": 0.05}, {"max_error": 0.05, "ask_user": True}, {"ask_user": True}])
async def test_several_wishes_that_nobody_hears_are_noted_where_one_is_answered(options: dict[str, Any]) -> None:
    made = selector(Sure(0.99, 0.01), None, **options)
    both = await made.select("refund my last order, and then exchange the one before")
    assert both.names == ["refund_order"]
    assert "several wishes" in both.decision.notes[-1]
    one = await made.select("refund my last order")
    assert not any("several wishes" in each for each in one.decision.notes)


async def test_several_wishes_that_a_chat_model_hears_are_no_note() -> None:
    made = selector(Sure(0.99, 0.01), ScriptedModel('["1"]'), max_error=0.05)
    both = await made.select("refund my last order, and then exchange the one before")
    assert (both.names, both.decision.notes) == (["refund_order"], ())
