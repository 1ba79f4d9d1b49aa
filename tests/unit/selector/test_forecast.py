"""What a policy lets recall decide alone, told in one sentence."""

import pytest

from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.selector.forecast import forecast
from jazz_select.selector.policy import PRESETS, Policy
from jazz_select.stages import own_answers
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
    answers = own_answers(SURE)
    assert forecast(answers, Policy(max_error=0.01), []).share_alone == 0.6
    assert forecast(answers, Policy(max_error=0.5), []).share_alone == 1.0
    assert forecast(own_answers([(0.4, 0.4)] * 9), Policy(max_error=0.01), []).share_alone == 0.0


def test_a_catalogue_that_always_asks_is_told_so_and_what_would_raise_it() -> None:
    answers = own_answers([(0.93, 0.93)] * 5 + [(0.4, 0.4)] * 5)
    told = forecast(answers, PRESETS["recommended"], flows(refund=5, cancel=2, track=5))
    assert (told.share_alone, told.thin_flows) == (0.0, ("cancel",))
    assert (told.wider_budget, told.wider_share) == (0.1, 0.5)
    assert "recall decides nothing else alone" in str(told)
    assert "more examples, first of cancel; or a budget of 10%, which gives 50%" in str(told)


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
        assert await memory.own_answers("a") == (None, "the catalogue has not been synced, so confidence is not known")
        await sync_registry(memory, "a", registry)
        answers, caveat = await memory.own_answers("a")
        assert answers is not None
        assert caveat == ""
        told = forecast(answers, Policy(max_error=0.2), list(registry.values()))
        assert 0 < (told.share_alone or 0) <= 1
