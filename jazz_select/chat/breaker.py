"""A circuit breaker: a provider that is gone costs one deadline, not one for each request."""

from collections.abc import Callable
from time import monotonic

from jazz_select.errors import ModelUnavailableError

FAILURES = 3
"""Requests in a row that may fail before the model is left alone; one is enough where it cost a whole deadline."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""How long it is left alone: twice as long after each probe that fails."""


class Breaker:
    """Counts requests that failed for the provider's sake, and stops asking for a while.

    After the pause one request goes through as a probe; the others are still refused until it has an answer.
    Used from one thread; a selector on several event loops may let one more request through, no harm done.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Start closed; `clock` gives seconds."""
        self._clock = clock
        self._failures = 0
        self._pause_s = 0.0
        self._closed_until = 0.0
        self._probing = False

    def check(self, model: str) -> None:
        """Refuse a request that would be refused anyway, before it waits for its turn.

        Raises:
            ModelUnavailableError: The model has failed, and its pause is not over.
        """
        wait = self._closed_until - self._clock()
        if self._pause_s and (wait > 0 or self._probing):
            raise ModelUnavailableError(model, failures=self._failures, wait_s=max(wait, 0.0))

    def admit(self, model: str) -> None:
        """Let a request through, as a probe where the pause has just ended; or refuse it.

        Raises:
            ModelUnavailableError: As `check`.
        """
        self.check(model)
        self._probing = bool(self._pause_s)

    def succeeded(self) -> None:
        """An answer came, whatever it said."""
        self._failures = 0
        self._pause_s = 0.0
        self._probing = False

    def failed(self, *, lost_deadline: bool) -> None:
        """No answer came, and the provider is to blame: after all retries, or after the whole time there was."""
        self._failures += 1
        was_probe, self._probing = self._probing, False
        if was_probe or lost_deadline or self._failures >= FAILURES:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._closed_until = self._clock() + self._pause_s

    def gave_up(self) -> None:
        """The request ended without telling anything of the provider: cancelled, or refused for what it asked."""
        self._probing = False
