"""The measures of the second stage, on few requests."""

import pytest

from benchmarks import load, report
from benchmarks.datasets.base import Dataset, Entry, Request
from jazz_select.build import load_registry
from jazz_select.testing import ScriptedModel

PETS = Dataset(
    name="pets",
    flows=(
        Entry(name="feed_cat", description="Feed the cat.", examples=("give the cat its dinner",)),
        Entry(name="walk_dog", description="Walk the dog.", examples=("take the dog out",)),
    ),
    requests=(
        Request(text="the dog wants out", gold=frozenset({"walk_dog"})),
        Request(text="take the dog to the cat", gold=frozenset({"feed_cat"})),
    ),
)


async def test_a_model_on_loopback_is_asked_as_a_real_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SELECTS", 20)
    registry = load_registry(load.FLOWS)
    async with load.loopback() as port:
        raw = load.RawModel(port)
        row = await load.under_load(raw, registry, 4)
        await raw.aclose()
    assert (row["in_flight"], row["errors"]) == (4, 0)
    assert row["call_ms"]["p50"] >= 1e3 * load.LATENCY_S


async def test_errors_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SELECTS", 10)
    row = await load.under_load(ScriptedModel("[]", repeat=True), load_registry(load.FLOWS), 2)
    assert row["errors"] == 10


def test_tables() -> None:
    alone = {"question": "alone", "client": "none", "in_flight": 1, "select_ms": {"p50": 0.5, "p99": 1.0}}
    assert report.stage_table([alone]).splitlines()[2] == "| 0.50 | 1.00 |"
    loaded = {"question": "load", "client": "c", "in_flight": 4, "per_s": 9, "errors": 0, "latency_ms": 50.0}
    loaded |= {"call_ms": {"p50": 51.0, "p99": 75.0}, "memory_mb": 1.0}
    assert report.load_table([alone, loaded]).splitlines()[2:] == ["| c | 4 | 9 | 51 / 75 | 1.5 | 0 | 1 |"]
