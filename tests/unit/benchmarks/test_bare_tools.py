"""The benchmark of bare tools: what it counts, on a small catalogue, and how it is shown."""

import pytest

from benchmarks import bare_tools, report_sureness
from benchmarks.datasets.base import Dataset, Entry, Request
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
    outside = ("why is the sea salty?", "hello", " ")
    row = await bare_tools.measured(Dataset(name="d", flows=flows, requests=inside, outside=outside), EMBEDDER, 10)
    numbers = row["numbers"]
    assert (row["tools"], row["requests"], row["examples"]) == (10, 7, 0)
    assert (numbers["AUROC"], numbers["recalled"], numbers["lost"]) == (1.0, 1.0, 0.0)
    assert numbers["nothing shown"] == 1.0
    assert numbers["P(none) inside"] < 0.5 < numbers["P(none) outside"]
    shown = report_sureness.bare_tools_table([row]).splitlines()[-1]
    assert [cell.strip() for cell in shown.strip("|").split("|")][:5] == ["d", EMBEDDER, "1", "10", "1.000"]


def test_near_misses_are_asked_of_every_set_and_requests_from_outside_where_there_are_any() -> None:
    flows = tuple(Entry(name=f"tool{number}", description="x") for number in range(6))
    requests = tuple(Request(text=f"ask {each.name}", gold=frozenset({each.name})) for each in flows)
    whole = Dataset(name="d", flows=flows, requests=requests)
    assert [each.name for each in bare_tools.asked(whole)] == ["d near"]
    (near,) = bare_tools.asked(whole)
    assert (len(near.flows), len(near.requests), len(near.outside)) == (4, 4, 2)
    outside = Dataset(name="d", flows=flows, requests=requests, outside=("hello",))
    assert [each.name for each in bare_tools.asked(outside)] == ["d", "d near"]
