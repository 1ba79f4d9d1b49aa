"""The measurement itself, on a catalogue small enough to know the answers."""

from pathlib import Path

import pytest
import typer
from rich.progress import Progress

from benchmarks import options, recall
from benchmarks.datasets.base import Dataset, Entry, Request
from benchmarks.engine import BareEngine
from benchmarks.index import AGENT, RememberingEmbedder, described, indexed, registry_of
from jazz_select.ports import HybridQuery
from jazz_select.testing import HashEmbedder

PETS = Dataset(
    name="pets",
    flows=(
        Entry(name="feed cat", description="feed cat", examples=("give the cat its dinner", "the cat is hungry")),
        Entry(name="walk dog", description="walk dog", examples=("take the dog out", "the dog needs a walk")),
        Entry(name="clean_tank", description="Clean the fish tank.", parameters=(("size", "in litres"),)),
    ),
    requests=(
        Request(text="the dog wants to go for a walk", gold=frozenset({"walk dog"})),
        Request(text="qwfpgj litres", gold=frozenset({"clean_tank"})),
    ),
    seed=7,
    sha256="f00",
)


async def test_legs_are_measured_on_their_own() -> None:
    async with indexed(PETS.flows, "static") as index:
        measured = await recall.measure(index, PETS, Progress(disable=True))
        assert await index.leg("zzz", "bm25", 10) == []
    assert measured.ranked["fused"][0][0] == "walk dog"
    assert [found[0] for found in measured.ranked["bm25"]] == ["walk dog", "clean_tank"]
    assert len(measured.ranked["bm25"][1]) == 1, "a flow that shares no word has no rank"
    assert len(measured.ranked["dense"][0]) == 3
    assert len(measured.seconds) == 2

    row = recall.row_of(measured, PETS, "fastembed:x@/somewhere")
    assert row["bm25"]["R@1"] == 1.0
    assert (row["embedder"], row["seed"], row["data"], row["flows"], row["requests"]) == ("fastembed:x", 7, "f00", 3, 2)
    assert row["recall_ms"]["p99"] >= row["recall_ms"]["p50"] > 0


async def test_the_bare_engine_scores_words_as_that_of_recall_does(tmp_path: Path) -> None:
    async with indexed(PETS.flows, "static") as index:
        cards = [flow.card() for flow in registry_of(PETS.flows).values()]
        points = index.encoder.points(AGENT, cards, index.encoder.rows(cards))
        engine = BareEngine(tmp_path / "bare", points, depth=3)
        words = index.encoder.lexical.query("the dog wants to go for a walk")
        assert words is not None
        _, found = engine.ask_words(list(points[0].dense or ()), words)
        query = HybridQuery(agent_id=AGENT, dense=None, sparse=words, depth=3)
        (legs,) = await index.store.search([query])
        assert sorted(hit.score for hit in found) == pytest.approx(sorted(legs.bm25.values()))
        engine.close()


def test_only_a_replay_comes_from_memory() -> None:
    inner = HashEmbedder()
    embedder = RememberingEmbedder(inner)
    first = embedder.embed_query("walk the dog")
    assert embedder.embed_query("walk the dog") is not first
    second = embedder.embed_query("walk the dog")
    embedder.replaying = True
    assert embedder.embed_query("walk the dog") is second
    assert embedder.embed_query("feed the cat").shape == (inner.dim,)


def test_parameters_belong_to_a_tools_description() -> None:
    assert described(PETS.flows[2]) == "Clean the fish tank. Parameters: size: in litres"
    assert described(PETS.flows[0]) == "feed cat"


def test_embedders_are_those_of_the_library_and_every_model_folder(tmp_path: Path) -> None:
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini/model.onnx").touch()
    (tmp_path / "notes").mkdir()
    assert options.embedder_specs(None, tmp_path) == ["static", "minilm", f"fastembed:mini@{tmp_path / 'mini'}"]
    assert options.embedder_specs(None, None) == ["static", "minilm"]
    assert options.embedder_specs(["fastembed:x"], tmp_path) == ["fastembed:x"]


def test_seeds() -> None:
    assert options.parsed_seeds("1,2, 3") == [1, 2, 3]
    with pytest.raises(typer.BadParameter, match="no list of numbers"):
        options.parsed_seeds("one")


def test_without_data_one_message_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        options.data_folder(None)
    assert "JAZZ_BENCH_DATA" in capsys.readouterr().err
