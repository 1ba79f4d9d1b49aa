"""What is left out where no browser is asked for is said in one line."""

import pytest


def test_the_panel_was_looked_at_in_a_browser(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--browser", default=False):
        pytest.skip("the panel was not looked at in a browser: `make browser` installs what that needs, and does it")
