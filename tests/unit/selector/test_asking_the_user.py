"""Asking the user: where two or three flows are left and no model may decide, a question as data, and its answer."""

from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.selector.cascade.asking import named_in, question_of
from jazz_select.stages import UserOption
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Candidate, Decision, Reason, Tier
from tests.unit.selector.shop import Guarded, flow, metadata, shop
from tests.unit.selector.test_cascade import Sure, selector

pytestmark = pytest.mark.spec("009.2")


async def asked(*confidence: float, **options: Any) -> tuple[FlowSelector, Decision]:
    made = selector(Sure(*confidence), options.pop("model", None), ask_user=True, max_error=0.01, **options)
    return made, (await made.select("something with my order")).decision


async def test_two_that_are_left_are_asked_about() -> None:
    _, decision = await asked(0.5, 0.45, 0.01)
    assert (decision.tier, decision.reason, decision.chosen_ids) == (Tier.GUIDED, Reason.ASK, ())
    assert decision.question is not None
    assert decision.question.text.splitlines() == [
        "Which of these do you mean?",
        "1. Refund order: refund_order is done",
        "2. Exchange order: exchange_order is done",
    ]
    assert [each.flow_name for each in decision.question.options] == ["refund_order", "exchange_order"]
    assert decision.stages[-1].name == "user"


async def test_where_one_is_sure_or_likeliest_by_far_nobody_is_asked() -> None:
    for confidence, reason in (((0.995, 0.2), Reason.CONFIDENT), ((0.95, 0.02), Reason.SEMANTIC)):
        _, decision = await asked(*confidence)
        assert (decision.reason, decision.question) == (reason, None)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        pytest.param('["1"]', Reason.LLM, id="the model chose one"),
        pytest.param('["1", "2"]', Reason.ASK, id="the model chose several"),
        pytest.param("[]", Reason.ASK, id="the model found none"),
        pytest.param("I cannot say", Reason.ASK, id="the model said nothing of use"),
    ],
)
async def test_a_model_that_does_not_decide_leaves_it_to_the_user(reply: str, reason: Reason) -> None:
    _, decision = await asked(0.5, 0.45, model=ScriptedModel(reply, repeat=True))
    assert decision.reason is reason


async def test_several_wishes_are_no_question() -> None:
    made = selector(Sure(0.5, 0.45), ScriptedModel('["1", "2"]'), ask_user=True)
    result = await made.select("refund my last order and exchange the one before")
    assert result.names == ["refund_order", "exchange_order"]


async def test_what_is_for_no_flow_is_no_question() -> None:
    made = selector(Sure(0.5, 0.45, in_scope=0.01), ScriptedModel("[]"), ask_user=True, on_empty="none")
    assert (await made.select("what a nice day")).decision.reason is Reason.NONE


# --- the answer ----------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        "2",
        "2.",
        "the second one",
        "Number 2, please",
        "last",
        "Exchange order",
        "exchange_order",
        "I want to exchange it",
    ],
)
async def test_an_answer_that_names_one_decides(answer: str) -> None:
    made, decision = await asked(0.5, 0.45)
    result = await made.select(answer, asked=decision)
    assert (result.names, result.decision.reason, result.decision.tier) == (
        ["exchange_order"],
        Reason.USER,
        Tier.DETERMINISTIC,
    )
    assert [(each.name, each.outcome) for each in result.decision.stages] == [("user", "decided")]
    assert "score" not in result.explain()  # nothing was recalled


@pytest.mark.parametrize("answer", ["none", "Neither!", "no", "none of these"])
async def test_none_of_them_is_an_answer(answer: str) -> None:
    made, decision = await asked(0.5, 0.45)
    result = await made.select(answer, asked=decision.question)
    assert (result.names, result.decision.reason) == ([], Reason.NONE)


@pytest.mark.parametrize(
    "answer", ["3", "refund or exchange", "not the refund", "x" * 500, "the one with the blue ribbon on it"]
)
async def test_any_other_answer_is_a_request_read_with_the_one_before(answer: str) -> None:
    memory = Sure(0.5, 0.45)
    made = selector(memory, None, ask_user=True)
    decision = (await made.select("something with my order")).decision
    again = await made.select(answer, asked=decision)
    assert len(memory.calls) == 2
    assert again.decision.reason is Reason.ASK


@pytest.mark.parametrize(
    ("answer", "meant"),
    [
        ("", None),
        ("0", None),
        ("99", None),
        ("ｒｅｆｕｎｄ", "a"),
        ("Refund, don't exchange", None),
        ("exchange the item", "b"),
    ],
)
def test_only_what_is_plain_is_read(answer: str, meant: str | None) -> None:
    options = (
        UserOption(flow_id="a", flow_name="refund", title="Money back", says="refund is paid"),
        UserOption(flow_id="b", flow_name="exchange", title="Another item"),
    )
    found = named_in(answer, options)
    assert (found.flow_id if found else found) == meant


async def test_a_flow_that_is_no_longer_open_is_not_chosen() -> None:
    flows = FlowRegistry(min_examples=0)
    for name in ("refund_order", "exchange_order"):
        Guarded(name=name, registry=flows)
    made = FlowSelector(None, flows, ListMemory(metadata("refund_order", "exchange_order")), "a", ask_user=True)
    decision = (await made.select("x", context={"member": True})).decision
    assert decision.reason is Reason.ASK
    assert (await made.select("1", asked=decision, context={"member": False})).names == []
    assert (await made.select("1", asked=decision, context={"member": True})).names == ["refund_order"]


async def test_a_flow_that_is_gone_is_not_chosen() -> None:
    made, decision = await asked(0.5, 0.45)
    other = FlowSelector(None, shop("cancel_order"), ListMemory(), "support")
    result = await other.select("1", asked=decision)
    assert (result.names, len(result.unresolved_ids)) == ([], 1)
    with pytest.raises(ConfigError, match="asked"):
        await made.select("1", asked="which?")  # pyright: ignore[reportArgumentType]


# --- the text ------------------------------------------------------------------


def test_what_all_share_tells_nothing_apart() -> None:
    flows = FlowRegistry(min_examples=0)
    same = {"desired_effects": ["the money is back"]}
    flow("refund_order", flows, condition="The order has arrived.", title="Money back", **same)
    flow("cancel_order", flows, condition="The order is on its way.", title="Call it\toff"[:7], **same)
    found = question_of([Candidate(flow_id=each.id) for each in flows.values()], flows, "x" * 10_000)
    assert found is not None
    assert [each.says for each in found.options] == ["The order has arrived", "The order is on its way"]
    assert len(found.request) < 3_000


@pytest.mark.parametrize("names", [("refund_order",), ("a", "b", "c", "d")], ids=["one", "four"])
def test_one_or_four_are_no_question(names: tuple[str, ...]) -> None:
    flows = shop(*names)
    assert question_of([Candidate(flow_id=each.id) for each in flows.values()], flows, "x") is None
