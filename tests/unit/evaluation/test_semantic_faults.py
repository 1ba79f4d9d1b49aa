"""What meaning shows: faults planted into the shop and the clinic are found, and what is in order is left alone."""

from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.faults import PLANTS, Clean, alarms, catalogues, found_in, is_found, planted
from jazz_select import FlowRegistry, load_flows
from jazz_select.evaluation import check
from tests.vectors import EMBEDDER, NEEDS_STATIC

ROOT = Path(__file__).parents[3]
CATALOGUES = {clean.name: clean for clean, _ in catalogues(None, [1])}
HARD = {"example in another flow"}
"""Where the examples of one flow have little in common, as in both, one that is another's hardly shows."""
pytestmark = NEEDS_STATIC


@pytest.mark.spec("007.1")
@pytest.mark.parametrize("clean", CATALOGUES.values(), ids=CATALOGUES)
@pytest.mark.parametrize("kind", [kind for kind in PLANTS if kind not in HARD])
def test_a_planted_fault_is_found(tmp_path: Path, clean: Clean, kind: str) -> None:
    fault = planted(clean, kind, 1)
    tools = kind == "unknown tool"
    found = found_in(clean, fault.flows, fault.cases, tmp_path, tools=tools, embedder=EMBEDDER, only=fault.codes)
    assert is_found(fault, found), (fault.flow, [(each.code, each.flows) for each in found])


@pytest.mark.spec("007.1")
@pytest.mark.parametrize("seed", [2, 3, 4])
@pytest.mark.parametrize("clean", CATALOGUES.values(), ids=CATALOGUES)
def test_a_flow_whose_examples_all_lie_with_others_is_told_by_all_of_them_together(
    tmp_path: Path, clean: Clean, seed: int
) -> None:
    """Each of them alone is near enough to its flow to be one of its own, where those of a flow vary as here."""
    fault = planted(clean, "thief", seed)
    only = {"greedy-flow", "unreachable-flow"}
    found = found_in(clean, fault.flows, fault.cases, tmp_path, tools=False, embedder=EMBEDDER, only=only)
    assert only & {each.code for each in found if fault.flow in each.flows}


@pytest.mark.spec("007.1")
@pytest.mark.parametrize("clean", CATALOGUES.values(), ids=CATALOGUES)
def test_catalogues_that_are_in_order_raise_no_alarm(tmp_path: Path, clean: Clean) -> None:
    assert alarms(clean, tmp_path, EMBEDDER) == ([], [])


@pytest.mark.spec("007.1")
def test_an_example_of_another_flow_is_found_where_flows_hold_together(tmp_path: Path) -> None:
    subjects = {
        "weather": "rain snow sun wind cloud storm fog hail",
        "banking": "loan account interest transfer deposit mortgage cheque credit",
        "cooking": "recipe oven flour butter soup boil bake onion",
        "travel": "flight hotel airport luggage visa passport train tourist",
        "health": "doctor fever cough medicine pain hospital nurse headache",
        "music": "song guitar album concert melody drums piano singer",
        "sports": "football goal tennis match league referee coach team",
        "gardening": "plant soil seeds tulip lawn watering compost roses",
    }
    registry = FlowRegistry(min_examples=0)
    lines: list[str] = []
    for name, words in subjects.items():
        said = words.split()
        examples = [f"tell me about {one} and {other}" for one, other in pairwise(said)]
        if name == "music":
            examples[3] = "which flour and butter for this soup recipe"
        lines.append(f"- {{name: {name}, description: {name}, examples: {examples!r}}}")
    file = tmp_path / "flows.yaml"
    file.write_text("\n".join(lines), encoding="utf-8")
    load_flows(str(file), registry)
    only = ["misplaced-example", "near-twins", "unreachable-flow"]
    (found,) = check(file, embedder=EMBEDDER, min_examples=0, only=only).found
    assert (found.code, found.flows) == ("misplaced-example", ("music", "cooking"))
    (evidence,) = found.evidence
    assert evidence.text == "which flour and butter for this soup recipe"
    assert evidence.cosine is not None
    assert evidence.own_cosine is not None
    assert evidence.cosine > evidence.own_cosine
    assert check(registry, embedder=EMBEDDER, min_examples=0, only=only).found[0].key == found.key


def test_near_twins_come_with_the_examples_that_collide(tmp_path: Path) -> None:
    clean = CATALOGUES["flows"]
    fault = planted(clean, "near-twins", 1)
    (twins,) = (
        each
        for each in found_in(clean, fault.flows, (), tmp_path, tools=False, embedder=EMBEDDER)
        if each.code == "near-twins"
    )
    assert fault.flow in twins.flows
    assert 2 <= len(twins.evidence) <= 4
    assert {each.flow for each in twins.evidence} <= set(twins.flows)
    assert all(each.cosine is not None and each.other in twins.flows for each in twins.evidence)
