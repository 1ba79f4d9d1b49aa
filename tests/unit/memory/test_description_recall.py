"""A flow's own text beside its examples: examples raise recall, and never cost what the description says."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from jazz_select import Flow, FlowRegistry, ProceduralMemory, sync_registry
from jazz_select.build import load_registry
from tests.unit.memory.conftest import opened
from tests.vectors import EMBEDDER

TOOLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Voyagr": (
        "Plans journeys: compares trains and flights, books hotel rooms, and sells insurance for luggage.",
        (
            "which train gets me to Lyon before my birthday",
            "cheapest flight to Oslo for two employees",
            "is there a night train to Rome",
        ),
    ),
    "Larder": (
        "Helps in the kitchen: suggests recipes, writes shopping lists, and tells how many calories a dish has.",
        (
            "what can I cook with leeks and seeds",
            "a recipe for the soup on this photograph",
            "something quick for dinner before my calendar is full",
        ),
    ),
    "Ledgerly": (
        "Keeps the books of small firms: sends invoices, files tax returns, and pays the wages of employees.",
        (
            "send an invoice to the hotel for ten hours",
            "has the invoice of the plant nursery been paid",
            "write a bill for the logo that I drew",
        ),
    ),
    "Fitwise": (
        "A coach for sport: plans workouts, counts steps and sleep, and warns of injuries.",
        (
            "a workout that I can do in a hotel room",
            "plan my training, I want to burn calories",
            "exercises without weights that I can do with my luggage",
        ),
    ),
    "Greenkeep": (
        "Looks after plants: says when to water, names pests from a photo, and sells seeds.",
        (
            "how often does a cactus in the database room need water",
            "when do I water the tomatoes for the shopping season",
            "my fern is dry after the journey, what now",
        ),
    ),
    "Codex Lab": (
        "For programmers: explains compiler errors, reviews pull requests, and measures how fast database queries are.",
        (
            "what does this error in the tax module mean",
            "explain the type error in the logo component",
            "why does the build of the calendar fail",
        ),
    ),
    "Palette": (
        "Draws and edits pictures: removes backgrounds, restores old photographs, and designs logos.",
        (
            "cut the background of the slow car out",
            "make the sky behind the house white",
            "remove the people behind the pizza",
        ),
    ),
    "Minder": (
        "Remembers things: sets alarms, keeps birthdays, and reads the calendar of the day aloud.",
        (
            "wake me when the flight leaves",
            "set an alarm for the pasta in nine minutes",
            "an alarm every weekday to pay the wages",
        ),
    ),
}
"""Each does three things. Its examples ask for the first alone, in words of what others do."""
SHOWN = {
    "Voyagr": "is there a direct flight to Porto",
    "Larder": "a recipe with chickpeas please",
    "Ledgerly": "the invoice for Baker is still missing",
    "Fitwise": "a short workout for the legs",
    "Greenkeep": "how much water does an orchid need",
    "Codex Lab": "the build fails with a null pointer",
    "Palette": "take the background away behind the dog",
    "Minder": "wake me half an hour later tomorrow",
}
TOLD = {
    "insurance for my luggage": "Voyagr",
    "a hotel room near the station": "Voyagr",
    "how many calories has a slice of pizza": "Larder",
    "write my shopping list": "Larder",
    "file our tax return": "Ledgerly",
    "pay the employees their wages": "Ledgerly",
    "how well did I sleep": "Fitwise",
    "is this knee pain an injury": "Fitwise",
    "what pest is on this leaf": "Greenkeep",
    "buy seeds of basil": "Greenkeep",
    "review my pull request": "Codex Lab",
    "which database queries are slow": "Codex Lab",
    "restore this old photograph of grandpa": "Palette",
    "design a logo for my bakery": "Palette",
    "whose birthday is next week": "Minder",
    "read me my calendar": "Minder",
}


def registry(examples: int) -> FlowRegistry:
    made = FlowRegistry(min_examples=0)
    for name, (about, asked) in TOOLS.items():
        Flow(name=name, description=about, examples=asked[:examples], registry=made)
    return made


async def found(place: Path, examples: int, requests: Sequence[str]) -> list[list[str]]:
    """The names that recall gives each request, best first, where each flow has so many examples."""
    async with await opened(place, embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", registry(examples))
        results = await memory.recall_many(list(requests), "a", top_k=3)
    return [[each["flow_name"] for each in result] for result in results]


@pytest.mark.spec("006.7")
@pytest.mark.parametrize("examples", [1, 2, 3], ids=lambda count: f"{count} examples")
@pytest.mark.parametrize("among", [1, 3], ids=lambda count: f"first {count}")
async def test_examples_cost_nothing_of_what_a_description_says(tmp_path: Path, examples: int, among: int) -> None:
    without = await found(tmp_path / "bare", 0, list(TOLD))
    with_them = await found(tmp_path / "shown", examples, list(TOLD))
    right = list(TOLD.values())
    before = sum(name in names[:among] for name, names in zip(right, without, strict=True))
    after = sum(name in names[:among] for name, names in zip(right, with_them, strict=True))
    assert after >= before >= len(TOLD) / 2


@pytest.mark.spec("006.7")
async def test_examples_raise_recall_of_what_they_ask_for(tmp_path: Path) -> None:
    without = await found(tmp_path / "bare", 0, list(SHOWN.values()))
    with_them = await found(tmp_path / "shown", 3, list(SHOWN.values()))
    before = sum(names[0] == name for name, names in zip(SHOWN, without, strict=True))
    after = sum(names[0] == name for name, names in zip(SHOWN, with_them, strict=True))
    assert after > before
    assert after == len(SHOWN)


async def test_an_example_that_two_flows_share_is_held_against_neither(tmp_path: Path) -> None:
    flows = load_registry(Path(__file__).parents[3] / "flows")
    twin = next(flow for flow in flows.values() if flow.name == "refund_order")
    Flow(
        name="money_back_form",
        description="The form for money back.",
        condition="The customer wants the form.",
        desired_effects=("The form is sent",),
        examples=twin.examples,
        registry=flows,
    )
    async with await ProceduralMemory.open(tmp_path / "index", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "a", flows)
        results = await memory.recall_many(list(twin.examples), "a", top_k=2)
    assert [{each["flow_name"] for each in result} for result in results] == [
        {"refund_order", "money_back_form"} for _ in twin.examples
    ]
