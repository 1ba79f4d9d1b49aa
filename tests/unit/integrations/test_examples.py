"""The examples run as a reader runs them: each shows two tools of three, asks before it pays back, and pays once."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.programs, pytest.mark.spec("009.4")]
ROOT = Path(__file__).parents[3]
EXAMPLES = ["own_loop", "with_langgraph", "with_openai_agents", "with_pydantic_ai"]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_asks_before_it_pays_back(example: str) -> None:
    command = [sys.executable, "-W", "error", "-m", f"examples.elsewhere.{example}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("selected")]
    sees = "the model sees ['look_up_order', 'pay_back']"
    assert [line for line in lines if line.startswith("the model")] == [sees] * 3
    (asked,) = [line for line in lines if line.startswith("asked:")]
    assert "129" in asked
    assert asked.endswith("| order is delivered")
    assert lines[-1] == "129 are on their way back to you. | order is refunded"


def test_every_example_is_run() -> None:
    there = {path.stem for path in (ROOT / "examples" / "elsewhere").glob("*.py")}
    assert there == {"__init__", "desk", *EXAMPLES}
