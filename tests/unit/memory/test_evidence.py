"""Evidence: what a log of decisions adds to recall, and from which confidence on recall may decide alone."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.memory.fit.evidence import LEAST, MOST, NONE, EvidenceModel, Observations, fit_evidence

DIM, FLOWS = 12, ("cancel", "refund", "track", "pay")
Vectors = npt.NDArray[np.float64]
_DICE = np.random.default_rng(7)
_CENTRES: Vectors = np.linalg.qr(_DICE.normal(size=(DIM, DIM)))[0][: len(FLOWS)]


def asked(flow: str, dice: np.random.Generator, spread: float = 0.15) -> Vectors:
    """A request for a flow: a direction near to that of its others."""
    vector: Vectors = _CENTRES[FLOWS.index(flow)] + spread * dice.normal(size=DIM)
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float64)


def recalled(vector: Vectors, sharpness: float = 5.0) -> dict[str, float]:
    """What a recall says that only knows the centres, and is less sure than it might be."""
    chances = np.exp(sharpness * (_CENTRES @ vector))
    chances *= 0.9 / chances.sum()
    return dict(zip(FLOWS, chances.tolist(), strict=True))


def examples() -> tuple[Vectors, list[str]]:
    """Three examples a flow."""
    dice = np.random.default_rng(1)
    labels = [flow for flow in FLOWS for _ in range(3)]
    return np.stack([asked(flow, dice) for flow in labels]), labels


def log_of(
    count: int, *, label: Callable[[str], str] = str, trust: float = 0.95, flows: Sequence[str] = FLOWS, seed: int = 2
) -> tuple[Observations, list[dict[str, float]]]:
    """A log of so many requests, each labelled by its true flow or what `label` makes of it."""
    dice = np.random.default_rng(seed)
    true = [flows[int(dice.integers(len(flows)))] for _ in range(count)]
    vectors = np.stack([asked(flow, dice) for flow in true])
    found = [recalled(vector) for vector in vectors]
    seen = Observations(
        vectors=vectors,
        labels=[label(flow) for flow in true],
        trust=np.full(count, trust),
        by_person=[trust == 1] * count,
        recall_first=[max(each, key=each.__getitem__) for each in found],
    )
    return seen, found


def fitted(seen: Observations, found: Sequence[dict[str, float]]) -> EvidenceModel:
    """The model of a log that is long enough for one."""
    model = fit_evidence(*examples(), seen, recalled=found)
    assert model is not None
    return model


@pytest.fixture(scope="module")
def model() -> EvidenceModel:
    """What four hundred right choices teach."""
    return fitted(*log_of(400))


def joined(one: Observations, other: Observations) -> Observations:
    """One log after the other."""
    return Observations(
        vectors=np.vstack([one.vectors, other.vectors]).astype(np.float64),
        labels=[*one.labels, *other.labels],
        trust=np.concatenate([one.trust, other.trust]),
        by_person=[*one.by_person, *other.by_person],
        recall_first=[*one.recall_first, *other.recall_first],
    )


def reordered(seen: Observations, order: Sequence[int]) -> Observations:
    """The same log in another order."""
    places = list(order)
    return Observations(
        vectors=seen.vectors[places],
        labels=[seen.labels[place] for place in places],
        trust=seen.trust[places],
        by_person=[seen.by_person[place] for place in places],
        recall_first=[seen.recall_first[place] for place in places],
    )


def shuffled(seen: Observations, found: Sequence[dict[str, float]]) -> tuple[Observations, list[dict[str, float]]]:
    """The same log, as if all had asked at the same time."""
    order = np.random.default_rng(0).permutation(len(found)).tolist()
    return reordered(seen, order), [found[place] for place in order]


@pytest.mark.parametrize("count", [0, 1, LEAST - 1])
def test_few_labels_teach_nothing(count: int) -> None:
    seen, found = log_of(LEAST)
    unlabelled = replace(seen, trust=np.where(np.arange(LEAST) < count, seen.trust, 0.0))
    assert fit_evidence(*examples(), unlabelled, recalled=found) is None


def test_fifty_labels_are_enough() -> None:
    assert fitted(*log_of(LEAST)).agreement.requests == LEAST


def test_labels_of_flows_that_left_the_catalogue_do_not_count() -> None:
    seen, found = log_of(LEAST, label=lambda flow: "gone" if flow == "pay" else flow)
    assert fit_evidence(*examples(), seen, recalled=found) is None


@pytest.mark.spec("016.3")
def test_a_log_makes_recall_surer_and_says_from_where_on_it_may_decide(model: EvidenceModel) -> None:
    dice = np.random.default_rng(99)
    limit = model.thresholds.threshold(0.05)
    alone = wrong = gained = 0
    for flow in [flow for flow in FLOWS for _ in range(50)]:
        vector = asked(flow, dice)
        before = recalled(vector)
        after, _ = model.chances(vector, before)
        first, sure = next(iter(after.items()))
        alone, wrong = alone + (sure >= limit), wrong + (sure >= limit and first != flow)
        gained += sure > max(before.values())
    assert alone > 150
    assert wrong <= 0.05 * alone
    assert gained > 150


def test_what_nobody_expected_is_learned() -> None:
    seen, found = log_of(400, label=lambda flow: {"pay": "track"}.get(flow, flow), trust=1.0)
    dice = np.random.default_rng(5)
    vector = asked("pay", dice)
    after, _ = fitted(seen, found).chances(vector, recalled(vector))
    assert next(iter(after)) == "track"


@pytest.mark.parametrize("trust", [0.0, 0.3, 0.5])
def test_what_is_trusted_no_more_than_a_toss_says_nothing_however_many_say_it(trust: float) -> None:
    honest, found = log_of(200)
    lies, more = log_of(2_000, label=lambda _: "cancel", trust=trust, flows=("track",), seed=3)
    silent = replace(lies, trust=np.zeros(2_000), labels=[NONE] * 2_000)
    lied, plain = (fitted(joined(honest, each), [*found, *more]) for each in (lies, silent))
    assert orjson.dumps(lied.as_note()) == orjson.dumps(plain.as_note())


def test_a_few_who_lie_in_concert_move_nothing_that_others_say_of_the_same_requests() -> None:
    honest, found = log_of(800)
    lies, more = log_of(60, label=lambda _: "cancel", trust=0.7, flows=("track",), seed=3)
    model = fitted(*shuffled(joined(honest, lies), [*found, *more]))
    dice = np.random.default_rng(11)
    for _ in range(50):
        vector = asked("track", dice)
        after, _ = model.chances(vector, recalled(vector))
        assert next(iter(after)) == "track"


def test_what_is_trusted_outweighs_what_recall_says() -> None:
    honest, found = log_of(200)
    said, more = log_of(200, label=lambda _: "cancel", trust=1.0, flows=("track",), seed=3)
    model = fitted(*shuffled(joined(honest, said), [*found, *more]))
    vector = asked("track", np.random.default_rng(11))
    assert next(iter(model.chances(vector, recalled(vector))[0])) == "cancel"


def test_requests_that_no_flow_is_for_are_learned_as_none() -> None:
    seen, found = log_of(400, label=lambda flow: NONE if flow == "pay" else flow)
    model = fitted(seen, found)
    vector = asked("pay", np.random.default_rng(5))
    after, none = model.chances(vector, recalled(vector))
    assert none > 0.5 > max(after.values())
    assert NONE not in after


def test_a_model_that_contradicts_a_sure_recall_takes_its_word_back() -> None:
    right, found = log_of(300)
    dice = np.random.default_rng(4)
    labels = [flow if dice.random() < 0.8 else FLOWS[(FLOWS.index(flow) + 1) % len(FLOWS)] for flow in right.labels]
    assert fitted(replace(right, labels=labels), found).thresholds.threshold(0.05) > fitted(
        right, found
    ).thresholds.threshold(0.05)


def test_requests_that_nobody_was_asked_about_change_no_probability(model: EvidenceModel) -> None:
    seen, found = log_of(400)
    more, others = log_of(100, trust=0.0, seed=8)
    assert fitted(joined(seen, more), [*found, *others]).head.flows == model.head.flows
    vector = asked("pay", np.random.default_rng(5))
    ours, _ = fitted(joined(seen, more), [*found, *others]).chances(vector, recalled(vector))
    assert ours == pytest.approx(model.chances(vector, recalled(vector))[0], abs=0.02)


def test_only_the_end_of_a_long_log_is_learned_from() -> None:
    old, before = log_of(100, label=lambda _: "cancel", trust=0.95, seed=6)
    seen, found = log_of(MOST)
    whole = fitted(joined(old, seen), [*before, *found])
    assert orjson.dumps(whole.as_note()) == orjson.dumps(fitted(seen, found).as_note())


@pytest.mark.spec("016.3")
def test_what_persons_said_stays_however_old() -> None:
    *others, last = FLOWS
    old, before = log_of(100, label=lambda _: others[0], trust=1.0, flows=[last], seed=6)
    seen, found = log_of(MOST, flows=others)
    vector = old.vectors[0]
    without, _ = fitted(seen, found).chances(vector, recalled(vector))
    likeliest = next(iter(without))
    assert likeliest != others[0]
    told, _ = fitted(joined(old, seen), [*before, *found]).chances(vector, recalled(vector))
    assert without[likeliest] > 0.9
    assert told[likeliest] < 0.5, "which persons contradicted, before three thousand other labels"


def test_the_same_log_gives_the_same_model() -> None:
    assert orjson.dumps(fitted(*log_of(200)).as_note()) == orjson.dumps(fitted(*log_of(200)).as_note())


@settings(deadline=None, max_examples=10)
@given(st.permutations(range(50)), st.permutations(range(50, 100)))
def test_the_order_within_a_block_does_not_matter(first: list[int], second: list[int]) -> None:
    seen, found = log_of(100)
    order = [*first, *second]
    mixed = fitted(reordered(seen, order), [found[place] for place in order])
    plain = fitted(seen, found)
    vector = asked("refund", np.random.default_rng(3))
    ours, theirs = (each.chances(vector, recalled(vector))[0] for each in (mixed, plain))
    assert ours == pytest.approx(theirs, abs=2e-3)
    assert mixed.agreement.requests == plain.agreement.requests


@settings(deadline=None)
@given(
    st.lists(st.floats(-1, 1), min_size=DIM, max_size=DIM),
    st.dictionaries(
        st.sampled_from((*FLOWS, "unheard of")), st.floats(0, 1) | st.just(math.nan) | st.just(math.inf), max_size=5
    ),
)
def test_probabilities_are_some_and_in_order(
    model: EvidenceModel, vector: list[float], before: dict[str, float]
) -> None:
    after, none = model.chances(np.array(vector), before)
    told = [*after.values()]
    assert told == sorted(told, reverse=True)
    assert all(0 <= each <= 1 for each in (*told, none))
    assert sum(told) + none <= 1 + 1e-9
    assert {*after} <= {*FLOWS, *before}


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_a_wider_budget_asks_for_no_more_confidence(model: EvidenceModel, one: float, other: float) -> None:
    narrow, wide = sorted((one, other))
    assert model.thresholds.threshold(narrow) >= model.thresholds.threshold(wide)
    assert model.thresholds.expected_error(narrow) >= model.thresholds.expected_error(wide)
    limit = model.thresholds.threshold(wide)
    assert limit == 1 or model.thresholds.expected_error(limit) <= wide


def test_a_note_is_read_as_it_was_written(model: EvidenceModel) -> None:
    read = EvidenceModel.from_note(orjson.loads(orjson.dumps(model.as_note())), dim=DIM)
    assert read is not None
    vector = asked("pay", np.random.default_rng(5))
    assert read.chances(vector, recalled(vector)) == model.chances(vector, recalled(vector))
    assert read.thresholds == model.thresholds


def spoilt(note: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """The note with one thing in it replaced; `del` removes it."""
    copy = orjson.loads(orjson.dumps(note))
    *above, last = path.split(".")
    place = copy
    for each in above:
        place = place[each]
    if value == "del":
        del place[last]
    else:
        place[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("version", 99),
        ("version", "del"),
        ("head", None),
        ("head.flows", []),
        ("head.flows", ["a", "a", "b", "c"]),
        ("head.flows", ["a", "b", "c"]),
        ("head.weights", "AAAA"),
        ("head.weights", "no base64"),
        ("mix.recall", "1"),
        ("mix.recall", 1e300),
        ("line.slope", 0),
        ("line.slope", -1),
        ("line.flows", {"pay": None}),
        ("sure", [0.1, 0.9]),
        ("sure", [0.9]),
        ("errors", [2.0]),
        ("agreement.requests", -1),
    ],
)
def test_a_note_that_cannot_be_read_is_none(model: EvidenceModel, path: str, value: object) -> None:
    assert EvidenceModel.from_note(spoilt(model.as_note(), path, value)) is None


@pytest.mark.parametrize("note", [None, 3, [], "x", {}, {"version": 1}])
def test_no_note_is_no_model(note: object) -> None:
    assert EvidenceModel.from_note(note) is None


def test_a_note_of_another_embedder_is_none(model: EvidenceModel) -> None:
    assert EvidenceModel.from_note(model.as_note(), dim=DIM + 1) is None


@pytest.mark.parametrize("part", ["labels", "trust", "by_person", "recall_first"])
def test_parts_of_another_length_are_refused(part: str) -> None:
    seen, found = log_of(LEAST)
    short: Any = {part: getattr(seen, part)[:-1]}
    with pytest.raises(ValueError, match=f"{LEAST} observations need as many"):
        fit_evidence(*examples(), replace(seen, **short), recalled=found)
    with pytest.raises(ValueError, match="examples have"):
        fit_evidence(examples()[0], examples()[1][:-1], seen, recalled=found)
