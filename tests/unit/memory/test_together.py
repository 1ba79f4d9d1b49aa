"""Many requests read together: to the bit what each says alone, in whatever company."""

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from jazz_select import ProceduralMemory
from jazz_select.memory.fit.model import Logistic, Reading, RecallModel, Usual
from jazz_select.memory.fusion import ArmScale
from jazz_select.memory.together import LegTable, readings
from jazz_select.ports import Legs
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import card

KEYS = st.integers(0, 12)
WEIGHTS = st.floats(0.0, 5.0)


def arm(least: float, most: float) -> st.SearchStrategy[dict[int, float]]:
    """What an engine gives: best first."""
    found = st.dictionaries(KEYS, st.floats(least, most, width=32), max_size=8)
    return found.map(lambda each: dict(sorted(each.items(), key=lambda pair: -pair[1])))


LEGS = st.builds(Legs, dense=arm(-1.0, 1.0), bm25=arm(0.0, 40.0), payloads=st.just({}))
MODELS = st.builds(
    RecallModel,
    scales=st.fixed_dictionaries(
        {each: st.builds(ArmScale, width=st.floats(1e-4, 1.0), weight=WEIGHTS) for each in ("dense", "bm25")}
    ),
    confidence=st.none() | st.builds(Logistic, weights=st.tuples(*[WEIGHTS] * 7), bias=st.floats(-9.0, 9.0)),
    usual=st.builds(Usual, mean=WEIGHTS, low=WEIGHTS, keyed=st.dictionaries(KEYS, st.floats(-1.0, 1.0))),
)


def told(model: RecallModel, reading: Reading) -> tuple[object, ...]:
    """All that anybody asks of it."""
    evidence, every = reading.evidence, range(14)
    sure = model.confidence
    return (
        list(reading.scores.items()),
        list(evidence.best(10)),
        evidence.scope(),
        [evidence.candidate(key) for key in every],
        None if sure is None else [evidence.chance(sure, key) for key in every],
    )


@given(found=st.lists(LEGS, min_size=1, max_size=6), model=MODELS, rrf_k=st.sampled_from([1, 10, 60]))
def test_each_is_read_as_it_is_alone(found: Sequence[Legs], model: RecallModel, rrf_k: int) -> None:
    terms = list(range(len(found)))
    alone = [Reading.of(model, rrf_k, legs, count) for legs, count in zip(found, terms, strict=True)]
    together = readings(model, rrf_k, found, terms)
    assert [told(model, each) for each in together] == [told(model, each) for each in alone]


@given(found=st.lists(LEGS, min_size=1, max_size=6), model=MODELS, wanted=KEYS)
def test_ranks_are_those_among_the_fused_scores(found: Sequence[Legs], model: RecallModel, wanted: int) -> None:
    def rank(scores: Mapping[int, float]) -> float:
        return 1 / (1 + sum(each > scores[wanted] for each in scores.values())) if wanted in scores else 0.0

    ranks = LegTable.of(found).reciprocal_ranks(model.scales, 10, [wanted] * len(found))
    assert ranks == [rank(Reading.of(model, 10, legs, 1).scores) for legs in found]


async def test_many_are_recalled_as_one_is() -> None:
    topics = ("invoice", "parcel", "password", "address", "voucher", "newsletter", "warranty", "complaint")
    cards = [card(f"{deed} {topic}", f"{deed} the {topic}") for topic in topics for deed in ("show", "send", "delete")]
    asked = ["show me the invoice", "the parcel, and then delete the address", "", "not the voucher but a newsletter"]
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder(256)) as memory:
        await memory.sync("a", cards)
        many = await memory.recall_many(asked, "a", "auto")
        for request, found in zip(asked, many, strict=True):
            alone = await memory.recall(request, "a", "auto")
            assert (list(found), found.in_scope, found.sized) == (list(alone), alone.in_scope, alone.sized)
