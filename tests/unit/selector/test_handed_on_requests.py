"""What a stage passes on although it might have answered, and what it is not asked, since it could not decide."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import FlowSelector
from jazz_select.selector.calibration import Calibration, Line
from jazz_select.selector.decision_stage import NONE, posterior_bounds, posteriors
from jazz_select.selector.policy import Policy
from jazz_select.testing import ScriptedModel
from jazz_select.values import Candidate, Reason
from tests.unit.selector.shop import EXCHANGE, REFUND, metadata, shop, with_policy
from tests.unit.selector.test_cascade import FIRST, Sure, says, selector

pytestmark = pytest.mark.spec("009.2")


# --- several wishes ------------------------------------------------------------

SEVERAL = "Please refund my last order A-1, and then change my address to Main Street 5"
MAIL = " ".join(f"This is my sentence number {number}." for number in range(9))


@pytest.mark.parametrize("recalled", [(0.995, 0.002), (0.97, 0.02)], ids=["recall would decide", "the decider would"])
@pytest.mark.parametrize("said", [SEVERAL, MAIL], ids=["two wishes", "a mail of many sentences"])
async def test_several_wishes_are_the_chat_models_to_hear(recalled: tuple[float, float], said: str) -> None:
    decider = says("refund_order", 0.999)
    made = selector(Sure(*recalled), ScriptedModel(f'["{REFUND}", "{EXCHANGE}"]'), decider=decider, max_error=0.01)
    result = await made.select(said)
    assert (result.names, result.decision.reason) == (["refund_order", "exchange_order"], Reason.LLM)
    recall, decided, _ = result.decision.stages
    assert (recall.outcome, decided.outcome, decider.calls) == ("handed_on", "handed_on", [])
    assert "several wishes" in recall.why
    assert "several wishes" in decided.why


@pytest.mark.parametrize("said", [SEVERAL, MAIL], ids=["two wishes", "a mail of many sentences"])
async def test_what_a_chat_model_chose_for_several_wishes_is_no_question(said: str) -> None:
    made = selector(Sure(0.5, 0.45), ScriptedModel(f'["{REFUND}", "{EXCHANGE}"]'), ask_user=True)
    result = await made.select(said)
    assert (result.names, result.decision.question) == (["refund_order", "exchange_order"], None)


async def test_without_a_chat_model_one_of_several_wishes_is_better_than_none() -> None:
    result = await selector(Sure(0.995, 0.002), None, max_error=0.01).select(SEVERAL)
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.CONFIDENT)
    result = await selector(Sure(0.97, 0.02), None, decider=says("refund_order"), max_error=0.01).select(SEVERAL)
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.DECIDER)


async def test_a_flow_that_is_left_alone_is_not_several() -> None:
    model = ScriptedModel("[]")
    result = await selector(Sure(0.995), model, max_error=0.01).select(SEVERAL)
    assert (result.names, result.decision.reason, model.calls) == (["refund_order"], Reason.CONFIDENT, [])


# --- an answer that could not be enough ----------------------------------------

OFTEN_WRONG = Calibration(decider=Line(shift=-2.0))


@pytest.mark.parametrize(
    ("recalled", "options"),
    [
        pytest.param((0.5, 0.45), {"max_error": 0.01}, id="recall is not sure"),
        pytest.param((0.9, 0.05), {"max_error": 0.01}, id="nor as sure as is wanted of both"),
        pytest.param((0.5, 0.45), {}, id="nobody set a budget"),
        pytest.param((None, None), {"max_error": 0.05}, id="nobody knows how sure it is"),
        pytest.param((0.97, 0.02), {"max_error": 0.01, "calibration": OFTEN_WRONG}, id="often wrong"),
    ],
)
async def test_a_decider_that_could_not_decide_is_not_asked(recalled: Any, options: dict[str, Any]) -> None:
    decider = says("refund_order", 0.999)
    result = await selector(Sure(*recalled), ScriptedModel(FIRST), decider=decider, **options).select("money back")
    assert (result.decision.reason, decider.calls) == (Reason.LLM, [])
    assert [(each.name, each.outcome) for each in result.decision.stages] == [
        ("recall", "handed_on"),
        ("decider", "handed_on"),
        ("chat", "decided"),
    ]
    assert "even a sure answer" in result.decision.stages[1].why


@pytest.mark.parametrize(
    ("recalled", "options"),
    [
        pytest.param((0.97, 0.02), {}, id="it might decide"),
        pytest.param((0.5, 0.45), {"llm": False}, id="nobody comes after it"),
        pytest.param((0.5, 0.45), {"ask_user": True}, id="the question is about what it leaves"),
        pytest.param((0.5, 0.45), {"own": 0.2}, id="the flow may be wrong more often"),
        pytest.param((0.3, 0.2, 0.98), {"on_empty": "none"}, id="it might say none"),
    ],
)
async def test_a_decider_that_may_be_of_use_is_asked(recalled: Any, options: dict[str, Any]) -> None:
    flows, decider = shop(), says("refund_order", 0.6)
    flows[EXCHANGE].max_error = options.pop("own", None)
    model = ScriptedModel(FIRST, repeat=True) if options.pop("llm", True) else None
    memory = Sure(*recalled[:2], p_none=(*recalled, None)[2])
    await selector(memory, model, decider=decider, flows=flows, **({"max_error": 0.01} | options)).select("x")
    assert len(decider.calls) == 1


@given(
    st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=8),
    st.lists(st.floats(0, 1), min_size=9, max_size=9),
)
def test_no_answer_makes_an_option_likelier_than_one_that_is_wholly_sure_of_it(
    confidence: list[float | None], said: list[float]
) -> None:
    """What is never asked could not have been decided: the answers that are given stay as they are."""
    found = [
        Candidate.from_metadata({"flow_name": f"flow {place}", "confidence": own})
        for place, own in enumerate(confidence)
    ]
    ids = [*(each.flow_id for each in found), NONE]
    most = posterior_bounds(found)
    given_chances = posteriors(found, dict(zip(ids, said, strict=False)))
    for each in ids:
        wholly = {other: float(other == each) for other in ids}
        assert most[each] == pytest.approx(posteriors(found, wholly)[each])
        assert given_chances[each] <= most[each] + 1e-9


# --- one candidate -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        pytest.param({"max_error": 0.01}, 1, id="a budget, and nobody knows how sure it is"),
        pytest.param({"ask_user": True}, 0, id="no budget"),
        pytest.param({"decider": "exchange_order"}, 0, id="no budget, and a decision model"),
    ],
)
async def test_one_candidate_of_unknown_confidence_is_not_within_a_budget(options: dict[str, Any], asked: int) -> None:
    if "decider" in options:
        options = {"decider": says(options["decider"])}
    model = ScriptedModel("[]", repeat=True)
    made = FlowSelector(model, shop(), None, "support", **with_policy({"on_empty": "none", **options}))
    result = await made.select("hello", metadata("refund_order"))
    assert len(model.calls) == asked
    assert result.decision.reason is (Reason.NONE if asked else Reason.SINGLE)


async def test_one_candidate_is_taken_where_nobody_comes_after_recall() -> None:
    result = await FlowSelector(None, shop(), None, "support", policy=Policy(max_error=0.01)).select(
        "x", metadata("refund_order")
    )
    assert (result.names, result.decision.reason, result.decision.notes) == (["refund_order"], Reason.SINGLE, ())
