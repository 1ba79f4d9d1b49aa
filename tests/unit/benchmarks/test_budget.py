"""The benchmark of the error budget: the best threshold in hindsight, models that err as often as said, the picture."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks import rows
from benchmarks.budget import Recalled, best_share, simulated
from benchmarks.budget_plot import drawn
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.index import registry_of
from benchmarks.report_budget import budget_table, budgets_table, simulated_table
from benchmarks.simulated import SURE_RIGHT, SURE_SHARE, Now, SimulatedDecider
from jazz_select.questions import ChoiceQuestion
from jazz_select.values import RecallResult

NAMES = ("a", "b", "c", "d")
CASCADES = ("cascade", "cascade without a decision model")


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


async def test_the_best_threshold_of_the_cascade_is_on_what_both_know_together() -> None:
    flows = tuple(Entry(name=name, description=name) for name in NAMES)
    requests = tuple(Request(text=f"request {number}", gold=frozenset({"a"})) for number in range(300))
    ids = {flow.name: flow.id for flow in registry_of(flows).values()}

    def found(number: int) -> RecallResult:
        order = NAMES if number % 50 else NAMES[::-1]
        chances = (0.9, 0.06, 0.02, 0.01)
        return RecallResult(
            {"flow_id": ids[name], "flow_name": name, "confidence": chance}
            for name, chance in zip(order, chances, strict=True)
        )

    memory = Recalled(found={each.text: found(number) for number, each in enumerate(requests)})
    row = await simulated(Dataset(name="clinc150-x", flows=flows, requests=requests), "static", memory)
    ways = row["ways"]
    assert ways["cascade without a decision model"]["best"] == 0, "recall is as sure where it is wrong"
    assert 0.3 < ways["cascade"]["best"] < 1, "and both together are not"
    assert ways["cascade"]["error without chat"] < 0.05
    assert f"| {100 * ways['cascade']['best']:.1f} |" in simulated_table([row])


@pytest.mark.spec("009.2")
def test_no_stored_run_has_more_errors_than_the_papers_say() -> None:
    """`docs/pipeline.md`: no more than 1.5 of 100 answers without a chat model are wrong where one may be."""
    errors: dict[tuple[object, ...], float] = {}
    for each in rows.read("budget"):
        numbers, ways = each.get("numbers", {}), each.get("ways", {})
        found = {kind: numbers.get(kind) for kind in ("error 0.01", "scoped error")}
        for way in CASCADES:
            found[way] = ways.get(way, {}).get("error without chat")
        for kind, error in found.items():
            if error is not None:
                errors[each["dataset"], each["embedder"], each["seed"], kind] = error
    assert {kind for *_, kind in errors} == {"error 0.01", "scoped error", *CASCADES}
    assert {where: error for where, error in errors.items() if error > 0.015} == {}


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
