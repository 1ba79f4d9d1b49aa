"""A decision model at guided points: its choice counts where it is sure; elsewhere the chat model is asked."""

from typing import Any

import pytest

from jazz_select.chat.decisions import Decider, DecisionClient, decider_of
from jazz_select.errors import ConfigError, DecisionCallbackError, ModelError
from jazz_select.questions import ChoiceQuestion
from jazz_select.routing.decisions.decision_points import GuidedDecisionPoint, ToolChoice
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.records import RunResult
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import Trace
from jazz_select.testing import LIES, ScriptedDecider, ScriptedModel
from jazz_select.values import Tier
from tests.unit.routing.shop import obj, tools

pytestmark = pytest.mark.spec("009.1")

ORDER = {"order_id": "A1"}
POINT = GuidedDecisionPoint(after_step="find_order", candidate_tools=["send_mail", "check_refund"])
DOWN = ModelError("d", "it is down", retryable=False)


async def run(callback: Any, point: GuidedDecisionPoint = POINT) -> RunResult:
    return await FlowExecutor(tools(), callback).run(["find_order", point], ORDER)


async def test_a_sure_choice_is_taken_and_the_chat_model_is_not_asked() -> None:
    decider, model = ScriptedDecider("check_refund", sure=0.98), ScriptedModel()
    result = await run(ModelDecision(model, decider=decider))
    record = result.records[1]
    assert (record.tool, record.tier, record.reason) == ("check_refund", Tier.GUIDED, "callback")
    assert (record.probability, record.notes) == (pytest.approx(0.98), ())
    assert model.calls == []


async def test_it_is_asked_what_comes_next_with_what_is_there() -> None:
    decider = ScriptedDecider("check_refund")
    await run(ModelDecision(decider=decider))
    ((state, questions),) = decider.calls
    assert '"amount":20' in state
    (question,) = questions.values()
    assert isinstance(question, ChoiceQuestion)
    assert question.options == {
        "send_mail": "What send_mail does.",
        "check_refund": "What check_refund does.",
        "none": "none of them should come next",
    }
    assert "Tool 'find_order' returned" in question.asked


async def test_none_of_them_is_an_answer_too() -> None:
    result = await run(ModelDecision(decider=ScriptedDecider("none")))
    assert (result.status, result.records[1].reason) == ("open", "none")
    assert result.records[1].probability == pytest.approx(0.97)


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        pytest.param(DOWN, "the decider was passed over: ModelError: the model", id="down"),
        pytest.param("unsure", "is not sure: send_mail at 0.34, where 0.95 is wanted", id="not sure"),
        *(pytest.param(LIES[lie], "the decider was passed over: DecisionReplyError", id=lie) for lie in sorted(LIES)),
    ],
)
async def test_where_it_does_not_count_the_chat_model_is_asked(answer: Any, note: str) -> None:
    model = ScriptedModel("check_refund")
    result = await run(ModelDecision(model, decider=ScriptedDecider(answer)))
    record = result.records[1]
    assert (record.tool, record.status, len(model.calls)) == ("check_refund", "ok", 1)
    assert record.probability is None
    assert note in record.notes[0]


async def test_a_slow_one_is_passed_over() -> None:
    decider = Decider(DecisionClient(ScriptedDecider("send_mail", delay_s=30)), timeout_s=0.02)
    result = await run(ModelDecision(ScriptedModel("check_refund"), decider=decider))
    assert result.records[1].tool == "check_refund"
    assert "ModelTimeoutError" in result.records[1].notes[0]


async def test_without_a_chat_model_a_choice_that_does_not_count_falls_back() -> None:
    unsure = ScriptedDecider({"question": {"send_mail": 0.5, "check_refund": 0.3, "none": 0.2}}, repeat=True)
    point = GuidedDecisionPoint(
        after_step="find_order", candidate_tools=["send_mail", "check_refund"], fallback_tool="check_refund"
    )
    result = await run(ModelDecision(decider=unsure), point)
    assert (result.records[1].tool, result.records[1].reason) == ("check_refund", "fallback")
    failed = await run(ModelDecision(decider=unsure))
    assert failed.status == "failed"
    assert isinstance(failed.records[1].cause, DecisionCallbackError)
    assert "send_mail at 0.50" in failed.records[1].error


async def test_nothing_is_destroyed_on_its_word_alone() -> None:
    log: list[str] = []

    def run_it(order_id: str) -> None:
        log.append(order_id)

    wanted = obj({"order_id": {"type": "string"}})
    drop = Tool(name="drop", input_schema=wanted, function=run_it, destructive=True)
    executor = FlowExecutor([*tools(), drop], ModelDecision(decider=ScriptedDecider("drop")))
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["drop", "check_refund"])
    result = await executor.run(["find_order", point], ORDER)
    assert (result.status, log) == ("failed", [])
    assert result.asked is not None
    assert result.asked.tool == "drop"


async def test_a_tool_named_none_is_no_way_out() -> None:
    odd = [Tool(name="none", input_schema=obj({"amount": {"type": "integer"}}), function=dict[str, Any]), *tools()]
    decider = ScriptedDecider("none_")
    point = GuidedDecisionPoint(after_step="find_order", candidate_tools=["none", "check_refund"])
    result = await FlowExecutor(odd, ModelDecision(decider=decider)).run(["find_order", point], ORDER)
    assert result.status == "open"
    (question,) = decider.calls[0][1].values()
    assert isinstance(question, ChoiceQuestion)
    assert list(question.options) == ["none", "check_refund", "none_"]


async def test_the_probability_is_in_the_trace() -> None:
    with Trace() as trace:
        await run(ModelDecision(decider=ScriptedDecider("check_refund")))
    kinds = [each.kind for each in trace]
    assert "decide" in kinds
    steps = [each for each in trace if each.attributes.get("tier") == "guided"]
    assert [each.attributes["probability"] for each in steps] == [pytest.approx(0.97)]


async def test_anybodys_callback_may_say_how_sure_it_is() -> None:
    class Rule:
        def decide(self, context: object, candidates: object, prompt: object) -> ToolChoice:
            return ToolChoice(tool="send_mail", probability=0.7, notes=("by a rule",))

    record = (await run(Rule())).records[1]
    assert (record.tool, record.probability, record.notes) == ("send_mail", 0.7, ("by a rule",))


def test_a_decision_needs_somebody_who_decides() -> None:
    with pytest.raises(ConfigError, match="a decision by a model needs one"):
        ModelDecision()


@pytest.mark.parametrize("above", [0.5, 0, 1.1, float("nan"), "0.9"])
def test_how_sure_it_has_to_be_is_a_probability_beyond_even_odds(above: Any) -> None:
    with pytest.raises(ConfigError, match="decider_above must be a probability above"):
        decider_of(ScriptedDecider(), above=above)


def test_a_decider_is_itself() -> None:
    own = decider_of(ScriptedDecider(), above=0.8)
    assert own is not None
    assert decider_of(own) is own
    assert own.above == 0.8
    assert decider_of(None) is None
