"""Every number here was worked out by hand."""

import math

import pytest

from benchmarks import metrics

RANKED = ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("gold", "k", "expected"),
    [
        pytest.param({"a"}, 1, 1.0, id="first"),
        pytest.param({"b"}, 1, 0.0, id="second is not in the first one"),
        pytest.param({"c"}, 3, 1.0, id="bound inclusive"),
        pytest.param({"z"}, 5, 0.0, id="not listed"),
        pytest.param({"a", "d"}, 3, 0.5, id="one of two"),
        pytest.param({"a", "b", "z"}, 10, 2 / 3, id="two of three, k beyond the list"),
    ],
)
def test_recall_at(gold: set[str], k: int, expected: float) -> None:
    assert metrics.recall_at(RANKED, gold, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "k", "expected"),
    [
        pytest.param({"a", "c"}, 3, 1.0, id="all"),
        pytest.param({"a", "d"}, 3, 0.0, id="one misses"),
        pytest.param({"b"}, 1, 0.0, id="single"),
    ],
)
def test_complete_at(gold: set[str], k: int, expected: float) -> None:
    assert metrics.complete_at(RANKED, gold, k) == expected


@pytest.mark.parametrize(
    ("gold", "expected"),
    [
        pytest.param({"a"}, 1.0, id="first"),
        pytest.param({"d", "c"}, 1 / 3, id="the first right one counts"),
        pytest.param({"z"}, 0.0, id="none"),
    ],
)
def test_reciprocal_rank(gold: set[str], expected: float) -> None:
    assert metrics.reciprocal_rank(RANKED, gold) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gold", "k", "expected"),
    [
        pytest.param({"a"}, 10, 1.0, id="first"),
        pytest.param({"c"}, 10, 0.5, id="third: 1 / log2(4)"),
        pytest.param({"c"}, 2, 0.0, id="cut before it"),
        pytest.param({"a", "b"}, 10, 1.0, id="two in ideal order"),
        pytest.param({"a", "c"}, 10, 1.5 / (1 + 1 / math.log2(3)), id="ranks one and three"),
        pytest.param({"a", "b", "c"}, 1, 1.0, id="the ideal is cut at k too"),
    ],
)
def test_ndcg_at(gold: set[str], k: int, expected: float) -> None:
    assert metrics.ndcg_at(RANKED, gold, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        pytest.param([3.0, 1.0, 2.0], 0.5, 2.0, id="median of odd"),
        pytest.param([4.0, 1.0, 2.0, 3.0], 0.5, 2.5, id="median of even"),
        pytest.param([0.0, 10.0], 0.99, 9.9, id="interpolated"),
        pytest.param([5.0], 0.99, 5.0, id="one value"),
        pytest.param([1.0, 2.0], 1.0, 2.0, id="maximum"),
    ],
)
def test_percentile(values: list[float], share: float, expected: float) -> None:
    assert metrics.percentile(values, share) == pytest.approx(expected)


def test_percentile_of_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no values"):
        metrics.percentile([], 0.5)


def test_summary_averages_over_requests() -> None:
    table = metrics.summary([["a", "b"], ["b", "a"], []], [{"a"}, {"a"}, {"a"}])
    assert table["R@1"] == pytest.approx(1 / 3)
    assert table["R@3"] == pytest.approx(2 / 3)
    assert table["MRR"] == pytest.approx(0.5)
    assert "COMP@5" not in table


def test_summary_of_several_answers_has_completeness() -> None:
    table = metrics.summary([["a", "b", "c"], ["c", "d", "e"]], [{"a", "c"}, {"a", "c"}])
    assert table["COMP@3"] == pytest.approx(0.5)
    assert table["R@1"] == pytest.approx(0.5)


def test_summary_wants_one_list_per_request() -> None:
    with pytest.raises(ValueError, match="zip"):
        metrics.summary([["a"]], [])
