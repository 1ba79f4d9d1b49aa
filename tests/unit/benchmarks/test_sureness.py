import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import sureness


def test_ece_is_the_gap_between_claim_and_truth() -> None:
    assert sureness.ece([0.9] * 10, [True] * 9 + [False]) == pytest.approx(0.0)
    assert sureness.ece([0.9] * 10, [True] * 5 + [False] * 5) == pytest.approx(0.4)
    assert sureness.ece([0.95, 0.05], [True, True]) == pytest.approx(0.5 * 0.05 + 0.5 * 0.95)


@pytest.mark.parametrize(
    ("positive", "negative", "expected"),
    [([2, 3], [0, 1], 1.0), ([0, 1], [2, 3], 0.0), ([1], [1], 0.5), ([1, 3], [2], 0.5)],
)
def test_auroc(positive: list[float], negative: list[float], expected: float) -> None:
    assert sureness.auroc(positive, negative) == expected


def test_coverage_is_the_largest_sure_part_that_is_right_enough() -> None:
    chances = [0.9, 0.8, 0.7, 0.6]
    assert sureness.coverage_at(chances, [True, True, False, True], 0.99) == 0.5
    assert sureness.coverage_at(chances, [True, True, False, True], 0.75) == 1.0
    assert sureness.coverage_at(chances, [False, True, True, True], 0.99) == 0.0


def test_false_positives_at_a_threshold_that_most_pass() -> None:
    assert sureness.fpr_at([1.0] * 19 + [0.0], [0.5, 1.5]) == pytest.approx(0.5, abs=0.5)
    assert sureness.fpr_at([1.0] * 100, [0.5, 0.9]) == 0.0


def test_a_frozen_threshold() -> None:
    assert sureness.frozen([0.99, 0.5], [True, False], 0.95) == {"coverage": 0.5, "accuracy": 1.0}


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1))
def test_shares_of_the_bins_add_up(pairs: list[tuple[float, bool]]) -> None:
    chances, right = [chance for chance, _ in pairs], [is_right for _, is_right in pairs]
    assert sum(share for _, _, share in sureness.reliability(chances, right)) == pytest.approx(1.0)
    assert 0 <= sureness.ece(chances, right) <= 1
