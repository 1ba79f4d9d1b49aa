"""What a policy lets recall decide alone, told in one sentence."""

from dataclasses import replace

import pytest

from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.selector.forecast import DecidedAlone, LoggedAlone, forecast
from jazz_select.selector.policy import PRESETS, Policy
from jazz_select.stages import MARGIN, leave_one_out_confidence
from jazz_select.testing import HashEmbedder

pytestmark = pytest.mark.spec("016.5")
SURE = [(0.999, 0.999)] * 6 + [(0.9, 0.9)] * 2 + [(0.5, 0.5)] * 2


def flows(**examples: int) -> list[Flow]:
    registry = FlowRegistry(min_examples=0)
    return [
        Flow(
            name=name,
            description="d",
            condition="c",
            desired_effects=["e"],
            examples=[f"{name} {number}" for number in range(count)],
            registry=registry,
        )
        for name, count in examples.items()
    ]


def test_the_share_is_that_of_answers_within_the_budget() -> None:
    answers = leave_one_out_confidence(SURE)
    assert forecast(answers, Policy(max_error=0.01), []).share_alone == 0.6
    assert forecast(answers, Policy(max_error=0.5), []).share_alone == 1.0
    assert forecast(leave_one_out_confidence([(0.4, 0.4)] * 9), Policy(max_error=0.01), []).share_alone == 0.0


def test_a_catalogue_that_always_asks_is_told_so_and_what_would_raise_it() -> None:
    answers = leave_one_out_confidence([(0.93, 0.93)] * 5 + [(0.4, 0.4)] * 5)
    told = forecast(answers, PRESETS["recommended"], flows(refund=5, cancel=2, track=5))
    assert (told.share_alone, told.thin_flows) == (0.0, ("cancel",))
    assert (told.wider_budget, told.wider_share) == (0.1, 0.5)
    assert "all else is for a model: within an error budget of 1.0% recall decides nothing alone." in str(told)
    assert "What may raise it: more examples, first of cancel; or 100 labelled requests or judged decisions" in str(
        told
    )
    assert str(told).endswith("of the log; or a budget of 10%, which gives 50.0%.")


@pytest.mark.parametrize(
    ("policy", "caveat", "says"),
    [
        (Policy(), "", "no error budget is set (max_error)"),
        (Policy(max_error=0.01), "too few examples", "too few examples"),
        (Policy(max_error=0.01), "", "confidence is not known"),
    ],
)
def test_what_is_not_known_is_said(policy: Policy, caveat: str, says: str) -> None:
    told = forecast(None, policy, [], caveat=caveat)
    assert told.share_alone is None
    assert says in str(told)


async def test_a_memory_tells_how_its_own_examples_were_answered() -> None:
    registry = FlowRegistry(min_examples=0)
    topics = (
        *(
            "invoice",
            "parcel",
            "password",
            "address",
            "voucher",
            "newsletter",
            "warranty",
            "complaint",
            "shelf",
            "lamp",
        ),
        *("sofa", "table"),
    )
    for topic in topics:
        texts = [f"{deed} my {topic} now" for deed in ("show", "send", "change", "delete", "find", "copy")]
        Flow(name=topic, description=topic, condition=topic, desired_effects=["e"], examples=texts, registry=registry)
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        assert await memory.leave_one_out_confidence("a") == (
            None,
            "the catalogue has not been synced, so confidence is not known",
        )
        await sync_registry(memory, "a", registry)
        answers, caveat = await memory.leave_one_out_confidence("a")
        assert answers is not None
        assert caveat == ""
        told = forecast(answers, Policy(max_error=0.2), list(registry.values()))
        assert 0 < (told.share_alone or 0) <= 1


def test_the_expected_error_is_that_of_the_answers_within_the_budget() -> None:
    told = forecast(leave_one_out_confidence(SURE), Policy(max_error=0.01), [])
    assert told.expected_error == pytest.approx(0.001 / MARGIN)
    assert "decide 60.0% alone, 0.1% of them wrongly, within an error budget of 1.0%." in str(told)
    assert forecast(leave_one_out_confidence([(0.4, 0.4)] * 9), Policy(max_error=0.01), []).expected_error is None


def test_a_decision_model_takes_its_part_of_the_budget() -> None:
    answers = leave_one_out_confidence([(0.999, 0.999)] * 5 + [(0.97, 0.97)])
    assert forecast(answers, Policy(max_error=0.01), []).share_alone == 1.0
    assert forecast(answers, Policy(max_error=0.01), [], shares_budget=True).share_alone == 5 / 6


def test_without_a_budget_a_budget_is_what_would_raise_it() -> None:
    told = forecast(leave_one_out_confidence(SURE), Policy(), flows(refund=5, cancel=2))
    assert (told.share_alone, told.thin_flows) == (None, ())
    assert str(told).endswith("What may raise it: a budget of 1%, which gives 60.0%.")


def test_nothing_would_raise_what_is_all() -> None:
    told = forecast(leave_one_out_confidence([(0.9999, 0.9999)] * 9), Policy(max_error=0.01), flows(refund=5, cancel=2))
    assert told.share_alone == 1.0
    assert "raise it" not in str(told)


JUDGED = {
    "all were right": ([True] * 120, True, "the 120 labelled requests given to calibrate, which gives "),
    "half were wrong": ([True, False] * 60, False, "more examples"),
    "there are few": ([True, False], False, "98 more labelled requests or judged decisions of the log"),
}


@pytest.mark.parametrize(("right", "raises", "says"), JUDGED.values(), ids=JUDGED)
def test_labelled_requests_are_named_where_a_calibration_to_them_raises_it(
    right: list[bool], raises: bool, says: str
) -> None:
    answers = leave_one_out_confidence([(0.985, 0.985)] * 10 + [(0.3, 0.3)] * 10)
    judged = [(0.95, each) for each in right]
    told = forecast(answers, Policy(max_error=0.01), flows(refund=5, cancel=2), evidence=judged)
    assert (told.share_alone, told.labelled) == (0.0, len(right))
    assert (told.calibrated_share == 0.5) is raises
    assert says in str(told)


COUNTS = {
    "nothing": (DecidedAlone(requests=0, alone=0, known=0, judged=0, wrong=0), "0 of 0 requests decided alone"),
    "all judged": (
        DecidedAlone(requests=8, alone=4, known=0, judged=4, wrong=0),
        "4 of 8 requests (50.0%) decided alone; none was wrong",
    ),
    "some judged": (
        DecidedAlone(requests=9_000, alone=250, known=9, judged=5, wrong=2),
        "250 of 9,000 requests (2.8%) decided alone, 9 of them known word for word; of 5 that were judged 2 were wrong",
    ),
}


@pytest.mark.parametrize(("counts", "says"), COUNTS.values(), ids=COUNTS)
def test_counts_are_told_in_words(counts: DecidedAlone, says: str) -> None:
    assert str(counts) == says
    told = forecast(None, Policy(), [], measured=counts, logged=LoggedAlone(counts=replace(counts, days=30)))
    assert f". On these cases: {says}. In the log of the last 30 days: {says}." in str(told)
    assert told.as_data()["measured"]["alone"] == counts.alone
