"""A cascade under attack: answers that deny, forged questions, deciders and memories that say what cannot be."""

from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.questions import ChoiceQuestion, DecisionReply, Question, labels_of
from jazz_select.selector.asking import named_in
from jazz_select.selector.calibration import Calibration, Line
from jazz_select.selector.policy import Policy
from jazz_select.stages import Usage, UserOption, UserQuestion
from jazz_select.testing import ListMemory, ScriptedDecider, ScriptedModel
from jazz_select.values import Reason
from tests.unit.selector.shop import REFUND, Guarded, metadata, shop
from tests.unit.selector.test_cascade import FIRST, Sure, says, selector

pytestmark = pytest.mark.spec("009.2")
OPTIONS = (
    UserOption(flow_id="a", flow_name="refund_order", title="Refund", says="the money is back on your account"),
    UserOption(flow_id="b", flow_name="track_parcel", title="Track", says="where a parcel is, and when it comes"),
)


# --- what a user answers -------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "what is the weather in Paris",
        "how do I get a pizza",
        "I didn't mean the refund",
        "it doesn’t concern my parcel",
        "not the first one",
        "both refunds",
        "1 or 2",
        "anything other than a refund",
        "the other one",
        "what is the refund?",
        "is it the refund？",
        "cancel the refund",
        "the refund is wrong",
        "forget it, delete all parcels",
        "ja, aber keinen refund",
        "a refund if the parcel is lost",
        "last",
    ],
)
def test_an_answer_that_only_has_a_word_of_an_option_names_none(answer: str) -> None:
    assert named_in(answer, OPTIONS if answer != "last" else ()) is None


@pytest.mark.parametrize(
    ("answer", "meant"),
    [("option 1", "a"), ("Option ٢", "b"), ("money back, please", "a"), ("the refund", "a"), ("my parcel", "b")],
)
def test_an_answer_that_names_one_still_does(answer: str, meant: str) -> None:
    found = named_in(answer, OPTIONS)
    assert found
    assert found.flow_id == meant


def _cards(question: UserQuestion, **changes: Any) -> UserQuestion:
    return replace(question, options=(replace(question.options[0], **changes), *question.options[1:]))


FORGED: Mapping[str, Callable[[UserQuestion], UserQuestion]] = {
    "an id that is a list": lambda given: _cards(given, flow_id=["x"]),
    "a title that is a number": lambda given: _cards(given, title=5),
    "a meaning that is none": lambda given: _cards(given, says=None),
    "no options": lambda given: replace(given, options=None),  # pyright: ignore[reportArgumentType]
    "options as data": lambda given: replace(given, options=({"flow_id": REFUND},)),  # pyright: ignore[reportArgumentType]
    "a request that is a number": lambda given: replace(given, request=5),  # pyright: ignore[reportArgumentType]
    "asked again, in words": lambda given: replace(given, again="yes"),  # pyright: ignore[reportArgumentType]
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("answer", ["1", "refund", "something else"])
async def test_a_question_that_is_none_is_refused_in_words(
    forge: Callable[[UserQuestion], UserQuestion], answer: str
) -> None:
    made = selector(Sure(0.5, 0.45), ask_user=True)
    question = (await made.select("something with my order")).decision.question
    assert question is not None
    with pytest.raises(ConfigError, match="asked is"):
        await made.select(answer, asked=forge(question))


def test_of_a_forged_question_only_so_much_is_read() -> None:
    padding = "word " * 1_000
    options = tuple(
        UserOption(flow_id=str(place), flow_name="", title=f"flow {place}", says=f"{padding} ribbon{place}")
        for place in range(100)
    )
    assert named_in("ribbon7", options) is None, "what stands behind a thousand characters"


@pytest.mark.spec("003.7")
async def test_a_forged_question_tells_nothing_of_flows_that_are_guarded() -> None:
    flows = FlowRegistry(min_examples=0)
    Guarded(name="refund_order", description="secret", registry=flows)
    made = FlowSelector(None, flows, ListMemory(metadata()), "support", policy=Policy(ask_user=True))
    forged = UserQuestion(text="", options=(UserOption(flow_id=REFUND, flow_name="", title=""),))
    result = await made.select("1", asked=forged, context={"member": False})
    assert (result.names, result.candidates, result.decision.candidates) == ([], [], ())


async def test_an_answer_stays_among_the_flows_that_were_allowed() -> None:
    made = selector(Sure(0.5, 0.45), ask_user=True)
    decision = (await made.select("something with my order")).decision
    assert (await made.select("1", asked=decision, only=[])).names == []
    assert (await made.select("1", asked=decision, only=[REFUND])).names == ["refund_order"]


# --- what a memory says --------------------------------------------------------


@pytest.mark.parametrize("chance", [nan, inf, -inf, 7.0, -1.0, "1", [1.0]], ids=str)
async def test_what_is_no_probability_is_never_sure_enough(chance: Any) -> None:
    for memory in (Sure(0.5, 0.45, p_none=chance), Sure(chance, chance)):
        made = selector(memory, max_error=0.01, on_empty="none", ask_user=True)
        assert (await made.select("x")).decision.reason is Reason.ASK


async def test_probabilities_that_are_next_to_nothing_are_weighed_all_the_same() -> None:
    made = selector(Sure(1e-320, 1e-320), decider=says("exchange_order"), max_error=0.05, ask_user=True)
    decision = (await made.select("x")).decision
    sure = decision.stages[1].confidence
    assert decision.reason is Reason.ASK
    assert sure is not None
    assert 0 <= sure <= 1


# --- what a decider says -------------------------------------------------------


class Changing(Mapping[str, float]):
    """Probabilities that are others from the second look on."""

    def __init__(self, given: Mapping[str, float]) -> None:
        self._given = given
        self._looks = Counter[str]()

    def __getitem__(self, label: str) -> float:
        self._looks[label] += 1
        return nan if self._looks[label] > 1 else self._given[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)


class Odd(BaseException):
    """What no `except Exception` catches."""


ODD = (GeneratorExit(), Odd("no"), BaseExceptionGroup("several", [Odd("no"), ValueError("x")]))


@pytest.mark.parametrize("raised", ODD, ids=lambda raised: type(raised).__name__)
async def test_whatever_a_decider_raises_it_is_passed_over(raised: BaseException) -> None:
    made = selector(Sure(0.97, 0.02), ScriptedModel(FIRST), decider=ScriptedDecider(raised), max_error=0.01)
    result = await made.select("x")
    assert (result.names, result.decision.reason) == (["refund_order"], Reason.LLM)
    assert [(each.name, each.outcome) for each in result.decision.stages[1:]] == [
        ("decider", "failed"),
        ("chat", "decided"),
    ]
    assert type(raised).__name__ in result.decision.stages[1].why


@pytest.mark.parametrize("raised", [CancelledError(), BaseExceptionGroup("both", [CancelledError(), Odd()])], ids=repr)
async def test_what_ends_a_task_passes(raised: BaseException) -> None:
    made = selector(Sure(0.97, 0.02), ScriptedModel(FIRST), decider=ScriptedDecider(raised), max_error=0.01)
    with pytest.raises((CancelledError, BaseExceptionGroup)):
        await made.select("x")


async def test_what_was_checked_is_what_counts() -> None:
    def answer(_: str, questions: Mapping[str, Question]) -> DecisionReply:
        labels = labels_of(questions["flow"])
        return DecisionReply({"flow": Changing({**dict.fromkeys(labels, 0.0), labels[0]: 1.0})})

    made = selector(Sure(0.5, 0.45), decider=ScriptedDecider(answer, repeat=True), max_error=0.2, ask_user=True)
    decision = (await made.select("x")).decision
    assert (decision.reason, decision.stages[1].outcome) == (Reason.DECIDER, "decided")
    assert (decision.stages[1].confidence or 0) > 0.8


async def test_next_to_nothing_for_each_of_many_options_is_no_answer() -> None:
    names = [f"flow_{place}" for place in range(254)]

    def answer(_: str, questions: Mapping[str, Question]) -> DecisionReply:
        labels = labels_of(questions["flow"])
        return DecisionReply({"flow": {**dict.fromkeys(labels, 0.0), labels[0]: 0.001}})

    memory, decider = ListMemory(metadata(*names)), ScriptedDecider(answer, repeat=True)
    made = FlowSelector(None, shop(*names), memory, "support", top_k=254, decider=decider, policy=Policy(max_error=0.9))
    assert (await made.select("x")).decision.stages[1].outcome == "failed"


async def test_a_flow_that_goes_while_a_decider_thinks_is_not_chosen() -> None:
    flows = dict(shop())

    def answer(_: str, questions: Mapping[str, Question]) -> Any:
        flows.clear()
        ((asked, question),) = questions.items()
        assert isinstance(question, ChoiceQuestion)
        sure = [float(meaning.startswith("refund_order")) for meaning in question.options.values()]
        return {asked: dict(zip(question.options, sure, strict=True))}

    decider = ScriptedDecider(answer, repeat=True)
    result = await selector(Sure(0.7, 0.1), decider=decider, flows=flows, max_error=0.2).select("x")
    assert (result.names, result.decision.reason) == ([], Reason.NONE)


@pytest.mark.parametrize("tokens", ["many", None, nan, -5, 10**400], ids=str)
async def test_tokens_that_are_no_count_are_not_counted(tokens: Any) -> None:
    decider = says("refund_order", 0.6)
    decider._usage = Usage(input_tokens=tokens)  # pyright: ignore[reportPrivateUsage]
    memory = Sure(0.97, 0.02)
    made = selector(memory, ScriptedModel(FIRST, repeat=True), decider=decider, max_error=0.01)
    assert (await made.select("x")).decision.stages[1].usage is None
    memory.candidates = Sure(0.999, 0.1).candidates
    spared = (await made.select("y")).decision.stages[1]
    assert (spared.name, spared.outcome, spared.usage) == ("decider", "skipped", None)


@pytest.mark.parametrize("line", [Line(shift=-999.0), Line(shift=999.0), Line(slope=999.0)], ids=str)
async def test_a_line_as_steep_as_it_may_be_is_a_line(line: Line) -> None:
    flows = shop()
    for calibration in (Calibration(recall=line), Calibration(decider=line)):
        made = selector(
            Sure(0.9, 0.1),
            decider=says("refund_order"),
            calibration=calibration,
            flows=flows,
            max_error=0.0,
            ask_user=True,
        )
        decision = (await made.select("x")).decision
        assert all(each.confidence is None or each.confidence < 1 for each in decision.stages)
        assert all(each.outcome == "handed_on" for each in decision.stages), (
            "nothing estimated is within a budget of none"
        )
