"""What a service may be told of its limits, and what none can be."""

import math
from typing import Any

import pytest

from jazz_select.errors import ConfigError
from jazz_select.service.service_options import ServeOptions

pytestmark = pytest.mark.spec("008.2")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_body": 0}, "max_body must be a whole number from 1, got 0"),
        ({"max_streams": True}, "max_streams must be a whole number from 1, got True"),
        ({"max_sessions": 2.5}, "max_sessions must be a whole number from 1, got 2.5"),
        ({"burst": 0}, "burst must be a whole number from 1, or None, got 0"),
        ({"rate": 0}, "rate must be a number of requests a second, above 0, or None, got 0"),
        ({"rate": math.inf}, "got inf"),
        ({"stop_s": 0}, "stop_s must be a number of seconds above 0, got 0"),
        ({"head_timeout_s": math.nan}, "head_timeout_s must be a number of seconds above 0, got nan"),
        ({"drain_s": -1}, "drain_s must be a number of seconds from 0, got -1"),
    ],
    ids=str,
)
def test_a_limit_that_nothing_could_pass_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        ServeOptions(**given)


def test_limits_are_what_was_given() -> None:
    options = ServeOptions(rate=2, burst=1, drain_s=0, stop_s=1)
    assert (options.rate, options.burst, options.drain_s, options.stop_s) == (2, 1, 0, 1)
