"""Calibration: how sure the stages are, learned from labelled requests."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.chat.decisions import DecisionClient
from jazz_select.errors import ConfigError, ModelError
from jazz_select.questions import ChoiceQuestion, Question
from jazz_select.selector.calibration import Calibration, Line, fit_line
from jazz_select.selector.prompt import ConversationContext
from jazz_select.testing import ScriptedDecider, ScriptedModel
from jazz_select.testing import likely as likely_option
from jazz_select.values import Reason
from tests.unit.selector.shop import shop
from tests.unit.selector.test_cascade import FIRST, Sure, says, selector

pytestmark = pytest.mark.spec("009.2")


def test_a_line_follows_what_is_right() -> None:
    assert fit_line([]) == Line()
    overconfident = fit_line([(0.95, number % 3 > 0) for number in range(300)])
    assert 0.6 < overconfident(0.95) < 0.75
    assert overconfident(0.95) < overconfident(0.99)
    assert fit_line([(0.95, False)])(0.95) > 0.8, "one case says little"


async def test_calibrating_makes_a_stage_less_sure_that_is_often_wrong() -> None:
    memory = Sure(0.985, 0.01)
    made = selector(
        memory, ScriptedModel(FIRST, repeat=True), decider=ScriptedDecider("1", repeat=True), max_error=0.01
    )
    before = await made.select("x")
    assert before.decision.reason is Reason.DECIDER
    cases = [(f"request {number}", "refund_order" if number % 2 else "cancel_order") for number in range(100)]
    learned = await made.calibrate(cases)
    assert learned.recall.cases == learned.decider.cases == 100
    assert (await made.select("x")).decision.reason is Reason.LLM
    again = selector(
        memory,
        ScriptedModel(FIRST),
        max_error=0.02,
        calibration=Calibration.from_dict(learned.to_dict()),
    )
    assert (await again.select("x")).decision.reason is Reason.LLM


async def test_calibrating_refuses_flows_that_there_are_not() -> None:
    with pytest.raises(ConfigError, match="no_such_flow"):
        await selector(Sure(0.9)).calibrate([("x", "no_such_flow")])


# --- requests for no flow --------------------------------------------------------

HALF_FOR_NOTHING = [
    *((f"talk {number}", None) for number in range(60)),
    *((f"refund {number}", "refund_order") for number in range(60)),
]


async def test_what_is_for_no_flow_lowers_the_confidence() -> None:
    memory = Sure(0.985, 0.01, p_none=0.0058)
    made = selector(memory, ScriptedModel("[]", repeat=True), max_error=0.03)
    before = await made.select("talk 1", situation=ConversationContext())
    assert before.decision.reason is Reason.CONFIDENT
    learned = await made.calibrate(HALF_FOR_NOTHING)
    assert learned.recall.cases == 120
    assert learned.recall(0.98) < 0.97
    after = (await made.select("talk 1", situation=ConversationContext())).decision
    assert after.reason is Reason.NONE
    assert after.confidence == after.stages[0].confidence == pytest.approx(learned.recall(0.985 * (1 - 0.0058)))
    assert after.p_none is not None
    assert after.p_none > 0.0058, "the others and none share what the first leaves"
    assert sum(each.confidence or 0.0 for each in after.candidates) + after.p_none <= 1
    again = selector(
        memory,
        ScriptedModel("[]"),
        max_error=0.03,
        calibration=Calibration.from_dict(learned.to_dict()),
    )
    assert (await again.select("talk 1", situation=ConversationContext())).decision.reason is Reason.NONE


async def test_a_decision_model_is_learned_of_by_one_call_a_case() -> None:
    decider = says("refund_order", 0.9)
    made = selector(Sure(0.9, 0.05, p_none=0.012), decider=decider, max_error=0.01)
    learned = await made.calibrate(HALF_FOR_NOTHING)
    assert (learned.decider.cases, len(decider.calls)) == (120, 120)
    assert learned.decider(0.9) < 0.9


# --- whom it asks --------------------------------------------------------------


async def test_the_time_for_a_case_counts_from_when_its_turn_comes() -> None:
    """Thirty calls one after the other take longer than one may; no case is lost, and the model is not given up on."""
    slow = ScriptedDecider("1", repeat=True, delay_s=0.03)
    made = selector(Sure(0.985, 0.01), decider=DecisionClient(slow, max_concurrency=1), max_error=0.01, timeout_s=2.0)
    learned = await made.calibrate([(f"request {number}", "refund_order") for number in range(30)])
    assert (learned.decider.cases, learned.lost, len(slow.calls)) == (30, 0, 30)
    assert (await made.select("x")).decision.stages[1].outcome != "failed"


async def test_cases_that_a_decision_model_does_not_answer_are_counted() -> None:
    def answer(state: str, questions: Mapping[str, Question]) -> Any:
        if state.endswith("0"):
            raise ModelError("d", "declined", retryable=False)
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        return {asked: likely_option(question, "1")}

    made = selector(Sure(0.9, 0.05), decider=ScriptedDecider(answer, repeat=True), max_error=0.01)
    learned = await made.calibrate([(f"request {number}", "refund_order") for number in range(20)])
    assert (learned.recall.cases, learned.decider.cases, learned.lost) == (20, 18, 2)
    assert Calibration.from_dict(learned.to_dict()) == learned


async def test_a_decision_model_that_answers_nothing_teaches_nothing() -> None:
    refuses = ScriptedDecider(ModelError("d", "declined", retryable=False), repeat=True)
    kept = Calibration(decider=Line(shift=-1.0, cases=100))
    made = selector(Sure(0.97, 0.02), decider=refuses, max_error=0.01, calibration=kept)
    with pytest.raises(ModelError, match=r"none of 3 cases.*declined"):
        await made.calibrate([(f"request {number}", "refund_order") for number in range(3)])


# --- what is no case -----------------------------------------------------------


async def test_cases_may_be_read_once() -> None:
    learned = await selector(Sure(0.9)).calibrate(each for each in [("x", "refund_order")])  # pyright: ignore[reportArgumentType]
    assert learned.recall.cases == 1


@pytest.mark.parametrize(
    "cases",
    [[], [("x",)], [("x", 5)], [(5, "refund_order")], ["ab"], [("x", "refund_order", "y")]],
    ids=["none", "a request alone", "a number", "no text", "a text", "too much"],
)
async def test_what_is_no_case_is_refused(cases: Any) -> None:
    with pytest.raises(ConfigError, match="case"):
        await selector(Sure(0.9)).calibrate(cases)


async def test_where_nothing_is_recalled_nothing_can_be_learned() -> None:
    for made in (FlowSelector(None, shop()), selector(Sure())):
        with pytest.raises(ConfigError, match="nothing is recalled"):
            await made.calibrate([("x", "refund_order")])
