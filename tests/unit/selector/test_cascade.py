"""The cascade: each stage answers what it is sure of within the error budget, and passes on the rest with a reason."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError, ModelError
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question
from jazz_select.selector.decision_stage import shuffle_candidates
from jazz_select.selector.select import FlowSelector as Selector
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.stages import LeaveOneOutConfidence, StageRecord, Usage, leave_one_out_confidence, listed_confidences
from jazz_select.testing import LIES, ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.testing import likely as likely_option
from jazz_select.values import Decision, Reason, RecallResult
from tests.unit.selector.shop import EXCHANGE, NAMES, REFUND, candidates, flow, metadata, shop, with_policy

pytestmark = pytest.mark.spec("009.2")
FIRST = f'["{REFUND}"]'


class Sure(ListMemory):
    """Recalls with these probabilities, if some flow fits, and knows how sure it usually is."""

    def __init__(
        self, *confidence: float | None, p_none: float | None = None, answers: LeaveOneOutConfidence | None = None
    ) -> None:
        some = 1 - p_none if isinstance(p_none, float) and 0 <= p_none <= 1 else 1.0
        chances = (chance if chance is None or some == 1 else some * chance for chance in confidence)
        super().__init__({**each, "confidence": chance} for each, chance in zip(metadata(), chances, strict=False))
        self._p_none, self._answers = p_none, answers
        self.reread = False

    async def recall(self, *args: Any, **options: Any) -> RecallResult:
        found = RecallResult(await super().recall(*args, **options), p_none=self._p_none)
        found.answers = self._answers
        if self.reread:
            found.stage, found.why, found.reread = (
                "minilm",
                "if some flow fits, static's is right with 0.62, below the threshold 0.95",
                True,
            )
        return found


def selector(memory: ListMemory, model: ScriptedModel | None = None, **options: Any) -> Selector:
    return FlowSelector(model, options.pop("flows", shop()), memory, "support", **with_policy(options))


def says(name: str, sure: float = 0.97) -> ScriptedDecider:
    """A decider that chooses the flow of this name, wherever it stands, or none."""

    def answer(_: str, questions: Mapping[str, Question]) -> dict[str, dict[str, float]]:
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        label = next(each for each, meaning in question.options.items() if name in (each, meaning.partition(".")[0]))
        return {asked: likely_option(question, label, sure)}

    return ScriptedDecider(answer, repeat=True, usage=Usage(input_tokens=70))


def stages(decision: Decision) -> list[tuple[str, str]]:
    return [(each.name, each.outcome) for each in decision.stages]


# --- recall --------------------------------------------------------------------


def test_a_threshold_is_the_lowest_at_which_the_expected_errors_keep_to_the_budget() -> None:
    answers = leave_one_out_confidence((chance, chance) for chance in (0.9, 0.999, 0.995, 0.99, 0.5))
    assert answers.confidences == (0.999, 0.995, 0.99, 0.9, 0.5)
    # .8 of .01 may be spent: (.001 + .005 + .01) / 3 = .0053 are, and with .9 it were .029.
    assert answers.thresholds().threshold(0.01) == 0.99
    assert answers.thresholds().threshold(0.0001) == 1.0, "then only a name, word for word"
    assert answers.thresholds().threshold(0.5) == 0.5


def test_what_is_expected_of_answers_is_as_it_was_when_they_were_asked() -> None:
    answers = leave_one_out_confidence([(0.996, 0.98), (0.999, 0.995)])
    assert (answers.confidences, answers.errors) == ((0.999, 0.996), (0.005, 0.02))
    # .8 of .01: (.005 + .02) / 2 is more.
    assert answers.thresholds().threshold(0.01) == 0.999
    assert leave_one_out_confidence([(0.996, 0.996), (0.999, 0.999)]).thresholds().threshold(0.01) == 0.996


@pytest.mark.spec("016.9")
@given(st.lists(st.floats(0, 1), max_size=12), st.none() | st.floats(0, 1))
def test_confidences_descend_and_sum_to_what_none_leaves(chances: list[float], p_none: float | None) -> None:
    listed = listed_confidences(chances, p_none=p_none)
    some = 1 - (p_none or 0.0)
    assert len(listed) == len(chances)
    assert listed == sorted(listed, reverse=True)
    assert sum(listed) <= some + 1e-9
    assert all(own <= some * chance + 1e-12 for own, chance in zip(listed, chances, strict=True))
    assert listed[:1] == [some * chance for chance in chances[:1]], "the first is kept"


@pytest.mark.parametrize(
    ("confidence", "answers", "asked"),
    [
        pytest.param(0.992, None, 0, id="sure enough, by the budget alone"),
        pytest.param(0.988, None, 1, id="not sure enough"),
        pytest.param(
            0.975,
            leave_one_out_confidence([(0.999, 0.999)] * 9 + [(0.97, 0.97)]),
            0,
            id="as sure as its own answers have to be",
        ),
        pytest.param(
            0.975, leave_one_out_confidence([(0.98, 0.98)] * 9), 1, id="its own answers are never sure enough"
        ),
        pytest.param(None, None, 1, id="not known"),
    ],
)
async def test_recall_answers_within_the_budget(
    confidence: float | None, answers: LeaveOneOutConfidence | None, asked: int
) -> None:
    model = ScriptedModel(FIRST, repeat=True)
    result = await selector(Sure(confidence, 0.2, answers=answers), model, max_error=0.01).select("money back")
    assert len(model.calls) == asked
    expected = [("recall", "handed_on"), ("chat", "decided")] if asked else [("recall", "decided"), ("chat", "skipped")]
    assert stages(result.decision) == expected
    assert result.decision.reason is (Reason.LLM if asked else Reason.CONFIDENT)
    assert result.names == ["refund_order"]


async def test_where_none_is_an_answer_it_has_to_be_a_request_for_a_flow_too() -> None:
    model = ScriptedModel("[]", repeat=True)
    for p_none, asked in ((0.0011, 0), (0.069, 1)):
        await selector(Sure(0.999, 0.2, p_none=p_none), model, max_error=0.01, on_empty="none").select("x")
        assert len(model.calls) == asked


async def test_a_flow_has_a_budget_of_its_own() -> None:
    flows = FlowRegistry(min_examples=0)
    flow("refund_order", flows, max_error=0.001)
    flow("exchange_order", flows)
    model = ScriptedModel(FIRST, repeat=True)
    strict = await selector(Sure(0.995, 0.2), model, flows=flows, max_error=0.01).select("x")
    assert (strict.decision.reason, len(model.calls)) == (Reason.LLM, 1)
    alone = await selector(Sure(0.9995, 0.2), model, flows=flows).select("x")
    assert (alone.decision.reason, len(model.calls)) == (Reason.CONFIDENT, 1), "also where the selector has none"


async def test_without_a_budget_recall_hands_on_whatever_its_confidence_is() -> None:
    model = ScriptedModel(FIRST)
    decision = (await selector(Sure(0.999, 0.2), model).select("x")).decision
    assert (decision.reason, decision.question) == (Reason.LLM, None)
    assert stages(decision) == [("recall", "handed_on"), ("chat", "decided")]
    assert decision.stages[0].why == "no error budget is set (max_error)"


async def test_the_second_embedder_is_a_stage_of_its_own() -> None:
    memory = Sure(0.995, 0.2)
    memory.reread = True
    decision = (await selector(memory, ScriptedModel(), max_error=0.01).select("x")).decision
    assert stages(decision) == [("recall", "handed_on"), ("transformer", "decided"), ("chat", "skipped")]
    assert decision.stages[0].why == "if some flow fits, static's is right with 0.62, below the threshold 0.95"


async def test_one_candidate_that_is_not_sure_enough_is_no_answer_where_somebody_may_say_none() -> None:
    model = ScriptedModel("[]")
    result = await selector(Sure(0.9), model, max_error=0.01, on_empty="none").select("x")
    assert (result.names, result.decision.reason, len(model.calls)) == ([], Reason.NONE, 1)


async def test_nobody_left_to_decide_says_that_it_is_outside_of_the_budget() -> None:
    result = await selector(Sure(0.9, 0.2), None, max_error=0.01).select("x")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.SEMANTIC)
    assert "outside of the error budget" in " ".join(result.decision.notes)


@pytest.mark.parametrize(
    ("options", "budget"),
    [
        pytest.param({"ask_user": True}, False, id="nobody set one"),
        pytest.param({"decider": True}, False, id="nobody set one, and a decision model chose"),
        pytest.param({"decider": True, "max_error": 0.01}, True, id="of the selector"),
        pytest.param({"decider": True, "flows": 0.001}, True, id="of the flow"),
    ],
)
async def test_a_budget_is_spoken_of_only_where_there_is_one(options: dict[str, Any], *, budget: bool) -> None:
    if "decider" in options:
        options = {**options, "decider": says("refund_order", 0.6)}
    if "flows" in options:
        flows = shop()
        flows[REFUND].max_error = options["flows"]
        options = {**options, "flows": flows}
    memory = Sure(0.9, 0.05)
    (note,) = (await selector(memory, None, **options).select("x")).decision.notes
    assert ("outside of the error budget" in note) is budget
    assert ("no error budget is set" in note) is not budget


async def test_what_is_seen_ahead_asks_nobody() -> None:
    decider, model = ScriptedDecider(), ScriptedModel()
    made = selector(Sure(0.9, 0.2), model, decider=decider, max_error=0.01)
    (result,) = await made.select_many(["x"], ask=False)
    assert (result.decision.reason, decider.calls, model.calls) == (Reason.UNASKED, [], [])


# --- a decision model ----------------------------------------------------------


@pytest.mark.parametrize(
    ("recall", "said", "sure", "decided"),
    [
        pytest.param(0.97, "refund_order", 0.99, True, id="both agree"),
        pytest.param(0.97, "exchange_order", 0.999, False, id="it is sure of another"),
        pytest.param(0.97, "refund_order", 0.5, False, id="it is not sure"),
    ],
)
async def test_it_answers_what_both_are_sure_of_together(
    recall: float, said: str, sure: float, *, decided: bool
) -> None:
    decider = says(said, sure)
    model = ScriptedModel(FIRST, repeat=True)
    result = await selector(Sure(recall, 1 - recall), model, decider=decider, max_error=0.01).select("money back")
    chat = ("chat", "skipped") if decided else ("chat", "decided")
    assert stages(result.decision) == [
        ("recall", "handed_on"),
        ("decider", "decided" if decided else "handed_on"),
        chat,
    ]
    assert result.decision.reason is (Reason.DECIDER if decided else Reason.LLM)
    assert result.decision.usage is not None
    assert result.decision.usage.input_tokens >= 70
    ((state, questions),) = decider.calls
    (question,) = questions.values()
    assert "money back" in state
    assert list(getattr(question, "options", ())) == ["1", "2", "none"]


async def test_recall_leaves_half_of_its_errors_to_a_decider() -> None:
    # .8 of .01 may be spent: (.002 + .01) / 2 is, and of half of it .002 alone.
    memory = Sure(0.993, 0.006, answers=leave_one_out_confidence([(0.998, 0.998), (0.99, 0.99), (0.5, 0.5)]))
    alone = await selector(memory, ScriptedModel(), max_error=0.01).select("x")
    assert alone.decision.reason is Reason.CONFIDENT
    decider = says("refund_order")
    both = await selector(memory, ScriptedModel(), decider=decider, max_error=0.01).select("x")
    assert stages(both.decision) == [("recall", "handed_on"), ("decider", "decided"), ("chat", "skipped")]
    assert both.decision.stages[0].why == (
        "confidence 0.993; of answers this sure, 0.8% are expected to be wrong, and the budget is 0.5%"
    )


@pytest.mark.parametrize(("recall", "reason"), [(0.963, Reason.DECIDER), (0.955, Reason.LLM)])
async def test_both_together_need_not_be_as_sure_as_the_budget_of_all_their_answers(
    recall: float, reason: Reason
) -> None:
    made = selector(Sure(recall, 1 - recall), ScriptedModel(FIRST), decider=says("refund_order", 0.97), max_error=0.01)
    decision = (await made.select("x")).decision
    assert decision.reason is reason
    assert decision.stages[1].confidence is not None
    assert decision.stages[1].confidence < 0.99


async def test_a_decider_alone_chooses_also_where_it_is_not_sure() -> None:
    result = await selector(Sure(0.4, 0.4), None, decider=says("exchange_order"), max_error=0.01).select("x")
    assert (result.names, result.decision.reason) == (["exchange_order"], Reason.DECIDER)
    assert "outside of the error budget" in " ".join(result.decision.notes)


@pytest.mark.parametrize("model", [None, ScriptedModel(FIRST)], ids=["alone", "before a chat model"])
async def test_where_recall_is_as_sure_as_was_said_it_is_not_asked(model: ScriptedModel | None) -> None:
    decider = says("exchange_order")
    made = selector(Sure(0.97, 0.02), model, decider=decider, max_error=0.06)
    decision = (await made.select("x")).decision
    assert (decision.reason, len(decider.calls)) == (Reason.CONFIDENT, 0)


async def test_it_may_say_none_where_none_is_an_answer() -> None:
    memory = Sure(0.3, 0.2, p_none=0.98)
    decider = says("none", 0.99)
    model = ScriptedModel(FIRST)
    result = await selector(memory, model, decider=decider, max_error=0.01, on_empty="none").select("x")
    assert (result.names, result.decision.reason) == ([], Reason.NONE)
    assert stages(result.decision)[1] == ("decider", "none")
    kept = await selector(memory, model, decider=decider, max_error=0.01).select("x")
    assert kept.decision.reason is Reason.LLM, "with top1 there is no none"


class Refusing:
    """Declines every question."""

    most_options = None

    async def decide(self, state: str, questions: Mapping[str, Question]) -> DecisionReply:
        raise ModelError("d", f"declined: {len(state)} characters, {len(questions)} questions", retryable=False)


@pytest.mark.parametrize(
    "decider",
    [
        *(pytest.param(ScriptedDecider(lie, repeat=True), id=name) for name, lie in LIES.items()),
        pytest.param(ScriptedDecider("1", repeat=True, most_options=2), id="too many candidates"),
        pytest.param(ScriptedDecider(ConnectionError("down"), repeat=True), id="down"),
        pytest.param(ScriptedDecider("1", repeat=True, delay_s=60), id="slow"),
        pytest.param(Refusing(), id="refuses"),
    ],
)
async def test_a_decider_that_is_down_slow_or_lies_is_passed_over_with_a_reason(decider: Any) -> None:
    model = ScriptedModel(f'["{EXCHANGE}"]')
    made = selector(
        Sure(0.97, 0.02), model, decider=decider, max_error=0.01, timeout_s=2, model_options=ModelOptions(max_retries=0)
    )
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["exchange_order"], Reason.LLM)
    _, failed, _ = result.decision.stages
    assert (failed.name, failed.outcome) == ("decider", "failed")
    assert failed.why


async def test_cancelling_passes_through_the_decider() -> None:
    made = selector(Sure(0.97, 0.02), ScriptedModel(), decider=ScriptedDecider("1", delay_s=60), max_error=0.01)
    task = asyncio.ensure_future(made.select("x"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_decider_that_goes_by_position_agrees_with_recall_by_chance_alone() -> None:
    made = selector(Sure(0.9, 0.2), None, decider=ScriptedDecider("1", repeat=True, sure=0.9), max_error=0.01)
    sure = [(await made.select(f"request {number}")).decision.stages[1].confidence for number in range(20)]
    assert len({*sure}) == 2


# --- what it costs, and what it saves ------------------------------------------


async def test_a_stage_that_is_spared_is_told_with_what_it_costs_others() -> None:
    memory, decider = Sure(0.97, 0.02), says("refund_order", 0.5)
    made = selector(memory, ScriptedModel(FIRST, repeat=True), decider=decider, max_error=0.01)
    await made.select("x")
    memory.candidates[0]["confidence"] = 0.999
    result = await made.select("x")
    spared = [each for each in result.decision.stages if each.outcome == "skipped"]
    assert [each.name for each in spared] == ["decider", "chat"]
    assert spared[0].usage == Usage(input_tokens=70)
    assert all(each.took_s > 0 for each in spared)
    assert "stage: decider skipped" in result.explain()


async def test_the_record_travels() -> None:
    result = await selector(Sure(0.4, 0.35), None, max_error=0.01, ask_user=True).select("x")
    assert result.decision.question is not None
    assert Decision.from_dict(result.decision.to_dict()) == result.decision
    assert isinstance(result.decision.stages[0], StageRecord)
    with pytest.raises(ConfigError):
        Decision.from_dict(result.decision.to_dict() | {"stages": [{"name": "oracle", "outcome": "decided"}]})


@pytest.mark.parametrize(
    "options",
    [{"max_error": 2}, {"max_error": "little"}, {"ask_user": 1}, {"calibration": {}}, {"decider": 7}],
    ids=["share", "text", "ask_user", "calibration", "decider"],
)
def test_what_cannot_work_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        selector(Sure(0.9), **options)


def test_what_a_decision_model_is_shown_first_is_anyones_turn_and_the_same_for_the_same_request() -> None:
    firsts = Counter(shuffle_candidates(candidates(), f"request {n}")[0].flow_name for n in range(300))
    assert min(firsts[name] for name in NAMES) > 70
    assert shuffle_candidates(candidates(), "x") == shuffle_candidates(candidates(), "x")
