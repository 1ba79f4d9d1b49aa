"""The benchmark of the error budget: the best threshold in hindsight, models that err as often as said, the picture."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.budget import best_share
from benchmarks.budget_plot import drawn
from benchmarks.report_budget import budget_table, budgets_table, simulated_table
from benchmarks.simulated import SURE_RIGHT, SURE_SHARE, Now, SimulatedDecider
from jazz_select.questions import ChoiceQuestion

NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("sure", "right", "share"),
    [
        pytest.param([0.9, 0.8, 0.7, 0.6], [True, True, True, False], 0.75, id="all but the last"),
        pytest.param([0.9, 0.8, 0.8, 0.7], [True, True, False, True], 0.25, id="equal ones stand or fall together"),
        pytest.param([0.9], [False], 0.0, id="nothing"),
    ],
)
def test_the_best_share_is_that_of_one_threshold(sure: list[float], right: list[bool], share: float) -> None:
    assert best_share(sure, right, 0.1) == share


async def test_a_simulated_decider_is_as_right_and_as_sure_as_it_is_to_be() -> None:
    now, count = Now(), 4_000
    model = SimulatedDecider(now, accuracy=0.79, recall_right=0.8, seed=1)
    question = ChoiceQuestion(
        {**{str(at): f"{name}. It is {name}." for at, name in enumerate(NAMES)}, "none": "no"}, "?"
    )
    right: list[bool] = []
    sure: list[bool] = []
    for number in range(count):
        now.text, now.right, now.first = f"request {number}", "a", "a" if number % 5 else "b"
        reply = await model.decide("x", {"flow": question})
        label, chance = reply.best("flow")
        right.append(label == "0")
        sure.append(chance >= 0.95)
        assert sum(reply.probabilities["flow"].values()) == pytest.approx(1)
    assert sum(right) / count == pytest.approx(0.79, abs=0.02)
    assert sum(sure) / count == pytest.approx(SURE_SHARE, abs=0.02)
    both = sum(one and other for one, other in zip(right, sure, strict=True))
    assert both / sum(sure) == pytest.approx(SURE_RIGHT, abs=0.02)


def test_the_tables_and_the_picture_show_the_rows(tmp_path: Path) -> None:
    shares = {f"{what} {budget}": 0.01 for what in ("share", "error", "best") for budget in (0.005, 0.01, 0.02, 0.05)}
    way = {"accuracy": 0.9, "dollars": 0.1, "ms": 90.0, "without chat": 0.5, "error without chat": 0.01}
    own = {"dataset": "banking77-5", "embedder": "static", "seed": 1}
    found = [
        {**own, "question": "budget", "numbers": shares},
        {**own, "question": "simulated", "ways": {"recall alone": way | {"dollars": 0.0}, "cascade": way}},
    ]
    assert "banking77-5 | static | 1.0 | 1.0 | 1.0" in budget_table(found)
    assert "1.0, 1.0, 1.0" in budgets_table(found)
    assert "| cascade | 90.0 | 0.100 | 90 | 50.0 | 1.0 |" in simulated_table(found)
    drawn(tmp_path / "plots" / "budget.svg", found)
    root = ET.fromstring((tmp_path / "plots" / "budget.svg").read_text("utf-8"))  # noqa: S314 - it was just written here
    assert "cascade" in "".join(root.itertext())
    drawn(tmp_path / "none.svg", [])
    assert not (tmp_path / "none.svg").exists()
