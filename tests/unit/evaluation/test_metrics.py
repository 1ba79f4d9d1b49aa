"""Measures: by hand where the answer is known, and laws that hold for any input."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.evaluation import metrics
from jazz_select.evaluation.judged import Measure

RANKINGS = st.permutations("abcdef").map(lambda names: names[:5])
RIGHT = st.sets(st.sampled_from("abcdef"), min_size=1, max_size=4)


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("right", "ranking", "at_1", "at_3", "mrr", "depth"),
    [
        pytest.param("a", "abc", 1, 1, 1, 1, id="first"),
        pytest.param("a", "bca", 0, 1, 1 / 3, 3, id="third"),
        pytest.param("a", "bcda", 0, 0, 1 / 4, 4, id="fourth"),
        pytest.param("a", "bcd", 0, 0, 0, None, id="not found"),
        pytest.param("a", "", 0, 0, 0, None, id="nothing recalled"),
        pytest.param("ab", "bac", 1, 1, 1, 2, id="two intents, the first two places"),
        pytest.param("ab", "acb", 1 / 2, 1, 1, 3, id="two intents, one of them first"),
        pytest.param("ab", "cbd", 1 / 2, 1 / 2, 1 / 2, None, id="one of two"),
        pytest.param("abcd", "dcba", 1, 1, 1, 4, id="more intents than places"),
    ],
)
def test_ranking(right: str, ranking: str, at_1: float, at_3: float, mrr: float, depth: int | None) -> None:
    assert metrics.recall_at(ranking, right, 1) == at_1
    assert metrics.recall_at(ranking, right, 3) == at_3
    assert metrics.reciprocal_rank(ranking, right) == mrr
    assert metrics.depth_of(ranking, right) == depth


@given(RANKINGS, RIGHT)
def test_the_further_down_the_more_is_found(ranking: list[str], right: set[str]) -> None:
    found = [metrics.recall_at(ranking, right, k) for k in range(1, 7)]
    assert found == sorted(found)
    assert all(0 <= each <= 1 for each in found)
    assert (metrics.recall_at(ranking, right, 5) == 1) == (metrics.depth_of(ranking, right) is not None)
    best = [*right, *(name for name in "abcdef" if name not in right)]
    assert metrics.recall_at(best, right, 1) == 1


@pytest.mark.spec("007.2")
@pytest.mark.parametrize(
    ("pairs", "precision", "recall", "f1"),
    [
        pytest.param([(True, True), (True, False), (False, True), (False, False)], 1 / 2, 1 / 2, 1 / 2, id="one each"),
        pytest.param([(True, True), (False, False)], 1, 1, 1, id="all right"),
        pytest.param([(False, True)], 0, None, None, id="nobody expects none"),
        pytest.param([(True, False)], None, 0, 0, id="none is never said"),
        pytest.param([], None, None, None, id="no case"),
    ],
)
def test_none_with_precision_and_recall(
    pairs: list[tuple[bool, bool]], precision: float | None, recall: float | None, f1: float | None
) -> None:
    found = metrics.Detection.from_pairs(pairs)
    shares = (Measure.share(found.right, of).value for of in (found.answered, found.cases))
    assert (*shares, found.f1) == (precision, recall, f1)


@pytest.mark.parametrize(
    ("right", "cases", "low", "high"),
    [
        pytest.param(0, 0, 0, 1, id="nothing is known of no cases"),
        pytest.param(10, 10, 0.7225, 1, id="ten of ten"),
        pytest.param(0, 10, 0, 0.2775, id="none of ten"),
        pytest.param(81, 263, 0.2553, 0.3662, id="the example of Newcombe, 1998"),
        pytest.param(15, 148, 0.0624, 0.1605, id="another of his"),
    ],
)
def test_intervals(right: int, cases: int, low: float, high: float) -> None:
    assert metrics.interval(right, cases) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_what_was_seen(seen: tuple[int, int]) -> None:
    low, high = metrics.interval(*seen)
    assert 0 <= low <= seen[0] / seen[1] <= high <= 1
    assert low < high


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.5, 0.9]), st.booleans()), max_size=30))
def test_separation_is_the_share_of_pairs_in_the_right_order(given_: list[tuple[float, bool]]) -> None:
    scores = [score for score, _ in given_]
    positive = [is_positive for _, is_positive in given_]
    high = [score for score, is_positive in given_ if is_positive]
    low = [score for score, is_positive in given_ if not is_positive]
    pairs = list(product(high, low))
    wanted = None
    if pairs:
        right = sum((a > b) + (a == b) / 2 for a, b in pairs)  # equal scores are right by half
        wanted = pytest.approx(right / len(pairs))
    assert metrics.separation(scores, positive) == wanted


@pytest.mark.parametrize(
    ("sureness", "right", "error"),
    [
        pytest.param([], [], None, id="nothing"),
        pytest.param([1.0, 1.0, 0.0], [True, True, False], 0, id="as sure as right"),
        pytest.param([0.9] * 4, [True, False, True, False], 0.4, id="too sure"),
        pytest.param([0.2, 0.2, 0.8, 0.8], [True, True, True, True], 0.5, id="not sure enough"),
    ],
)
def test_calibration(sureness: list[float], right: list[bool], error: float | None) -> None:
    assert metrics.calibration_error(sureness, right) == (None if error is None else pytest.approx(error))
