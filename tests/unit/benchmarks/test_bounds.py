"""How long texts hold the loop is measured at each door, and told."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest

from benchmarks import bounds, report_bounds
from benchmarks.hostile import documents, texts

HARMLESS = {
    "composites": "1 1",
    "candidates handed in": "2",
    "tools of a new executor": "2",
    "a schema of five million characters": "a description",
    "a planner's decision": '{"action": "finish"}',
    "a stored conversation": '{"version": 2}',
    "an answer in a schema": '{"answer": "x"}',
}


def test_texts_are_of_the_length_asked_for_and_each_has_a_name() -> None:
    found = list(texts(1_000))
    assert len({name for name, _ in found}) == len(found) > 150
    assert all(500 < len(text) <= 1_200 for _, text in found)
    assert len(dict(documents())) > 10


async def test_the_worst_of_a_door_is_named_and_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {"a": [0.001], "aa": [0.5, 0.03, 0.04], "aaa": [0.025, 0.021, 0.02]}
    read: list[str] = []

    async def handed(text: str) -> None:
        read.append(text)

    async def held(work: Awaitable[object]) -> float:
        await work
        return seconds[read[-1]].pop(0)

    monkeypatch.setattr(bounds, "held_s", held)
    row = await bounds.worst(bounds.Door("3 letters", lambda: [("one", "a"), ("two", "aa"), ("three", "aaa")], handed))
    assert row == {"bound": "3 letters", "inputs": 3, "held_ms": 30.0, "worst": "two"}
    assert seconds == {"a": [], "aa": [], "aaa": []}


async def test_who_waits_holds_nobody_up() -> None:
    assert await bounds.held_s(asyncio.sleep(0)) >= 0


async def test_every_door_takes_a_harmless_text(tmp_path: Path) -> None:
    async with bounds.doors(tmp_path) as every:
        for name, door in every.items():
            if name != "a file of flows":  # what is no flow is refused there
                await door.handed(HARMLESS.get(name, "x"))


def test_the_slowest_door_stands_first_in_the_table() -> None:
    rows = [
        {"door": "a", "bound": "8 letters", "inputs": 1_000, "held_ms": 1.0, "worst": "dots"},
        {"door": "b", "bound": "9 letters", "inputs": 2, "held_ms": 30.25, "worst": "blanks"},
    ]
    first, second = report_bounds.bounds_table(rows).splitlines()[2:]
    assert first == "| b | 9 letters | 2 | 30.2 | blanks |"
    assert second == "| a | 8 letters | 1,000 | 1.0 | dots |"
