"""`jazz_select.testing` loads its names on first use and no others."""

import subprocess
import sys

import pytest

import jazz_select.testing as public


@pytest.mark.parametrize("name", public.__all__)
def test_each_name_is_there_and_documented(name: str) -> None:
    assert getattr(public, name).__doc__
    assert name in dir(public)
    assert f"`{name}`" in (public.__doc__ or "")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="MockModel"):
        getattr(public, "MockModel")  # noqa: B009


def test_a_scripted_model_costs_no_numpy() -> None:
    program = "import sys; from jazz_select.testing import ScriptedModel; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "False"
