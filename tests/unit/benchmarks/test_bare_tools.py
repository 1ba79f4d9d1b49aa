"""The benchmark of bare tools: what it counts, on a small catalogue, and how it is shown."""

import pytest

from benchmarks import bare_tools, report_sureness
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.simulated import Now, SimulatedDecider
from jazz_select.questions import ChoiceQuestion
from jazz_select.selector.decision_stage import NONE
from tests.vectors import EMBEDDER, NEEDS_STATIC

THINGS = ("folder", "playlist", "invoice", "meeting", "contact")
VERBS = {"share": "Let somebody else use a {0}.", "list": "Show every {0} there is."}


@NEEDS_STATIC
@pytest.mark.spec("016.11")
async def test_what_is_asked_and_counted() -> None:
    flows = tuple(
        Entry(name=f"{verb}_{thing}", description=text.format(thing), parameters=(("who", "Who may use it"),))
        for verb, text in VERBS.items()
        for thing in THINGS
    )
    inside = tuple(Request(text=f"share my {thing} with Bo", gold=frozenset({f"share_{thing}"})) for thing in THINGS)
    outside = ("why is the sea salty?", "hello", "\x16", " ")
    row = await bare_tools.measured(Dataset(name="d", flows=flows, requests=inside, outside=outside), EMBEDDER, 10)
    numbers = row["numbers"]
    assert (row["tools"], row["requests"], row["examples"]) == (10, 8, 0)
    assert (numbers["AUROC"], numbers["recalled"], numbers["lost"]) == (1.0, 1.0, 0.0)
    assert numbers["nothing shown"] == 1.0
    assert numbers["P(none) inside"] < 0.5 < numbers["P(none) outside"]
    shown = report_sureness.bare_tools_table([row]).splitlines()[-1]
    assert [cell.strip() for cell in shown.strip("|").split("|")][:6] == ["d", EMBEDDER, "none", "1", "10", "1.000"]


@NEEDS_STATIC
async def test_a_simulated_decision_model_is_named_as_one() -> None:
    flows = tuple(Entry(name=f"{verb}_{thing}", description="Do it.") for verb in ("a", "b") for thing in THINGS)
    inside = (Request(text="a folder", gold=frozenset({"a_folder"})),)
    dataset = Dataset(name="d", flows=flows, requests=inside, outside=("hello",))
    row = await bare_tools.measured(dataset, EMBEDDER, 10, bare_tools.SIMULATED)
    assert row["decider"] == "simulated"
    assert "| simulated" in report_sureness.bare_tools_table([row])


@pytest.mark.parametrize("right", [NONE, "share_folder"])
async def test_a_simulated_decision_model_is_right_as_often_as_it_is_said_to_be(right: str) -> None:
    now = Now(right=right, first=right)
    model = SimulatedDecider(now, accuracy=0.8, recall_right=1.0, seed=1, knows_none=True)
    question = ChoiceQuestion({"1": "share_folder. Do it.", "2": "list_folder. Do it.", NONE: "None."}, asked="Which?")
    said: list[str] = []
    for number in range(1_000):
        now.text = f"request {number}"
        said.append((await model.decide(now.text, {"tool": question})).best("tool")[0])
    assert said.count("1" if right != NONE else NONE) / 1_000 == pytest.approx(0.8, abs=0.04)


def test_near_misses_are_asked_of_every_set_and_requests_from_outside_where_there_are_any() -> None:
    flows = tuple(Entry(name=f"tool{number}", description="x") for number in range(6))
    requests = tuple(Request(text=f"ask {each.name}", gold=frozenset({each.name})) for each in flows)
    whole = Dataset(name="d", flows=flows, requests=requests)
    assert [each.name for each in bare_tools.asked(whole)] == ["d near"]
    (near,) = bare_tools.asked(whole)
    assert (len(near.flows), len(near.requests), len(near.outside)) == (4, 4, 2)
    outside = Dataset(name="d", flows=flows, requests=requests, outside=("hello",))
    assert [each.name for each in bare_tools.asked(outside)] == ["d", "d near"]
