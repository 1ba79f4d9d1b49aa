"""A process that is killed in the middle of a turn, and the next: a few trials here, hundreds by `make kills`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.soak
@pytest.mark.spec("005.4")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
@pytest.mark.parametrize("claims", [True, False], ids=["with claims", "without claims, so that it can be seen to fail"])
def test_nothing_is_destroyed_twice_by_processes_that_are_killed(*, claims: bool) -> None:
    command = [sys.executable, "-m", "tests.kills", "--trials", "6", "--seed", "3"]
    if not claims:
        command.append("--without-claims")
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == (0 if claims else 1), ended.stdout + ended.stderr
    assert ("0 wrong" in ended.stdout) is claims
    assert ("called twice" in ended.stdout) is not claims
