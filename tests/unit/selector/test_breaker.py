"""When a model is left alone, and when it is asked again."""

import pytest

from jazz_select.chat.calls import FAILURES, FIRST_PAUSE_S, LONGEST_PAUSE_S, Breaker
from jazz_select.errors import ModelUnavailableError


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """At some time."""
    return Clock()


def test_a_few_failures_do_not_matter(clock: Clock) -> None:
    breaker = Breaker(clock)
    for _ in range(5 * FAILURES):
        for _ in range(FAILURES - 1):
            breaker.admit("m")
            breaker.failed(lost_deadline=False)
        breaker.admit("m")
        breaker.succeeded()


@pytest.mark.parametrize(("lost", "times"), [(True, 1), (False, FAILURES)])
def test_it_opens(clock: Clock, *, lost: bool, times: int) -> None:
    breaker = Breaker(clock)
    for _ in range(times):
        breaker.admit("m")
        breaker.failed(lost_deadline=lost)
    with pytest.raises(ModelUnavailableError) as caught:
        breaker.admit("m")
    assert (caught.value.failures, caught.value.wait_s) == (times, FIRST_PAUSE_S)
    assert caught.value.retryable


def test_one_probe_after_the_pause_and_no_second_beside_it(clock: Clock) -> None:
    breaker = Breaker(clock)
    breaker.failed(lost_deadline=True)
    clock.now += FIRST_PAUSE_S
    breaker.admit("m")
    with pytest.raises(ModelUnavailableError):
        breaker.admit("m")
    breaker.succeeded()
    breaker.admit("m")
    breaker.admit("m")


def test_a_probe_that_fails_doubles_the_pause_up_to_a_limit(clock: Clock) -> None:
    breaker = Breaker(clock)
    breaker.failed(lost_deadline=True)
    pauses: list[float] = []
    for _ in range(9):
        with pytest.raises(ModelUnavailableError) as caught:
            breaker.admit("m")
        pauses.append(caught.value.wait_s)
        clock.now += caught.value.wait_s
        breaker.admit("m")
        breaker.failed(lost_deadline=False)
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE_S, LONGEST_PAUSE_S, LONGEST_PAUSE_S]


def test_a_probe_that_ends_without_an_answer_leaves_the_way_free_for_the_next(clock: Clock) -> None:
    breaker = Breaker(clock)
    breaker.failed(lost_deadline=True)
    clock.now += FIRST_PAUSE_S
    breaker.admit("m")
    breaker.gave_up()
    breaker.admit("m")


def test_after_it_has_recovered_it_begins_anew(clock: Clock) -> None:
    breaker = Breaker(clock)
    for _ in range(2):
        breaker.failed(lost_deadline=True)
        clock.now += 10
        breaker.admit("m")
        breaker.succeeded()
    breaker.failed(lost_deadline=True)
    with pytest.raises(ModelUnavailableError) as caught:
        breaker.admit("m")
    assert caught.value.wait_s == FIRST_PAUSE_S
