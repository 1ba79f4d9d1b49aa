"""Other routers beside this one: the recipe, the worker's answers, and what happens where they cannot be had."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks import peer_confidence, peer_systems, peers, report_sureness
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.peer_recipe import text_of
from benchmarks.report import peers_table

PETS = Dataset(
    name="pets",
    flows=(
        Entry(name="feed_cat", description="Feed the cat.", examples=("give the cat its dinner", "the cat is hungry")),
        Entry(name="walk dog", description="Walk the dog.", examples=("take the dog out", "the dog needs a walk")),
    ),
    requests=(Request(text="the dog wants to go for a walk", gold=frozenset({"walk dog"})),),
    seed=7,
    sha256="f00",
)


def test_the_recipe_has_one_text_per_flow() -> None:
    assert text_of(PETS.flows[0]) == "feed cat: Feed the cat. give the cat its dinner the cat is hungry"


@pytest.mark.parametrize("ask", [peers.asked_ours, peers.asked_recipe], ids=["ours", "recipe"])
async def test_each_system_ranks_and_is_timed(ask: Any) -> None:
    answer = await ask(PETS, "static")
    assert answer["ranked"] == [["walk dog", "feed_cat"]]
    row = peers.row_of(answer, PETS, "static", "a system")
    assert (row["shares"], row["requests"], row["flows"]) == ({"R@1": 1.0, "R@3": 1.0, "R@5": 1.0}, 1, 2)
    assert row["ms"]["p50"] > 0 < row["build_s"]


def test_a_peer_that_is_not_installed_is_an_answer_not_a_crash() -> None:
    answer = peers.asked_peer(Path(sys.executable), "ratel-ai, BM25", PETS, "static")
    assert "ratel_ai" in answer["error"]


def test_a_server_of_embeddings_answers_as_openai_s_does() -> None:
    class Lengths:
        def embed(self, texts: list[str]) -> Any:
            return np.array([[float(len(text)), 1.0] for text in texts])

    url = peer_systems.served_embeddings(Lengths())
    answer = httpx.post(url, json={"model": "same", "input": ["ab", "c"]}).json()
    assert [each["embedding"] for each in answer["data"]] == [[2.0, 1.0], [1.0, 1.0]]


def test_a_fitted_confidence_is_shown_beside_ours() -> None:
    dataset = replace(PETS, requests=PETS.requests * 2)
    row = peer_confidence.row_of(dataset, "static", peer_confidence.FITTED, 100, [0.9, 0.4], [True, False])
    assert row["numbers"] == {"accuracy": 0.5, "ECE": 0.25, "AUROC": 1.0, "alone@99": 0.5}
    line = report_sureness.peer_confidence_table([row]).splitlines()[-1]
    assert line == "| pets | static | semantic-router, hybrid, fitted | 100 | 1 | 50.0 | 0.250 | 1.000 | 50.0 |"


def test_without_an_environment_the_others_go_on() -> None:
    assert [name for name, _ in peers.answers(None, PETS, "static")] == [peers.OURS, peers.RECIPE]
    assert len(peers.answers(Path("python"), PETS, "static")) == 2 + len(peers.SYSTEMS)


def test_the_best_of_each_column_stands_out() -> None:
    def row(system: str, first: float) -> dict[str, Any]:
        shares = {"R@1": first, "R@3": 0.9, "R@5": 0.95}
        times = {"p50": 1.0, "p99": 2.0}
        return {
            "dataset": "d", "embedder": "e", "seed": 1, "system": system, "shares": shares, "ms": times, "build_s": 1.0
        }  # fmt: skip

    lines = peers_table([row("a", 0.5), row("b", 0.8)]).splitlines()[2:]
    assert lines[0].startswith("| d | e | b | **80.0** | **90.0** |")
    assert "| a | 50.0 |" in lines[1]
