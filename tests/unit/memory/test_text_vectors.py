"""A text of a catalogue is embedded once: by other agents, later syncs and the next process it is read again."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import EmbeddingError
from jazz_select.memory.text_vectors import FILE_NAME
from jazz_select.ports import Vectors
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard
from tests.unit.memory.cards import card

ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c)"
CATALOGUE = [card(f"flow {number}") for number in range(40)]


class SlowEmbedder(HashEmbedder):
    """An embedder that takes long, and counts the texts that it was asked for."""

    def __init__(self, identity: str = "slow:1") -> None:
        super().__init__(32)
        self.identity, self.offload, self.texts = identity, True, 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed(texts)


async def synced(folder: Path, cards: Sequence[FlowCard], agent: str = "a", identity: str = "slow:1") -> int:
    """How many texts were embedded by a sync of a process that begins with it."""
    embedder = SlowEmbedder(identity)
    async with await ProceduralMemory.open(folder, embedder=embedder) as memory:
        await memory.sync(agent, cards)
    return embedder.texts


async def vectors(folder: Path | str) -> Vectors:
    """Of all texts of the catalogue, as a process that begins with it reads or makes them."""
    async with await ProceduralMemory.open(folder, embedder=SlowEmbedder()) as memory:
        return np.concatenate(list(memory.encoder.rows(CATALOGUE).values()))


@pytest.mark.spec("006.1")
async def test_a_later_sync_embeds_what_is_new_alone(tmp_path: Path) -> None:
    assert await synced(tmp_path, CATALOGUE) > len(CATALOGUE)
    assert await synced(tmp_path, CATALOGUE, agent="b") == 0
    assert 0 < await synced(tmp_path, [card("flow 0", "something new"), *CATALOGUE[1:]]) < 10, "those of one flow"
    assert await synced(tmp_path, CATALOGUE, identity="slow:2") > len(CATALOGUE), "another embedder has its own"


async def test_one_process_embeds_no_text_twice() -> None:
    embedder = SlowEmbedder()
    async with await ProceduralMemory.open(":memory:", embedder=embedder) as memory:
        await memory.sync("a", CATALOGUE)
        first = embedder.texts
        await memory.sync("b", CATALOGUE)
        assert embedder.texts == first


@pytest.mark.parametrize("seed", range(8))
async def test_a_damaged_file_costs_time_and_nothing_else(tmp_path: Path, seed: int) -> None:
    await synced(tmp_path, CATALOGUE)
    file = tmp_path / FILE_NAME
    held = bytearray(file.read_bytes())
    lot = random.Random(seed)
    for _ in range(len(held) // 100):
        held[lot.randrange(100 if seed % 2 else 0, len(held))] = lot.randrange(256)
    file.write_bytes(held)
    np.testing.assert_array_equal(await vectors(tmp_path), await vectors(":memory:"))
    assert await synced(tmp_path, CATALOGUE, agent="b") == 0, "what was damaged is written anew"


async def test_a_file_that_others_hold_is_not_waited_for(tmp_path: Path) -> None:
    await synced(tmp_path, CATALOGUE[:1])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert await synced(tmp_path, CATALOGUE) > len(CATALOGUE)


async def test_what_was_embedded_belongs_to_whoever_asked(tmp_path: Path) -> None:
    """Whoever changes a row that was returned changes no other."""
    embedder = SlowEmbedder()
    async with await ProceduralMemory.open(tmp_path, embedder=embedder) as memory:
        first = memory.encoder.embed(["one", "two"])
        kept = first.copy()
        first[:] = 0
        np.testing.assert_array_equal(memory.encoder.embed(["one", "two"]), kept)


@pytest.mark.spec("013.1")
@pytest.mark.parametrize(
    "sql",
    [
        f"CREATE VIEW vectors AS {ENDLESS} SELECT i AS key, i AS row FROM c",  # noqa: S608 - our own text
        "CREATE TABLE vectors (key BLOB, row BLOB AS (zeroblob(500000000)))",
        "CREATE TABLE other (key BLOB)",
    ],
    ids=["a view without end", "a computed column", "a table of something else"],
)
async def test_a_file_of_somebody_else_is_made_again(tmp_path: Path, sql: str) -> None:
    await synced(tmp_path, CATALOGUE)
    (tmp_path / FILE_NAME).unlink()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as file:
        file.execute(sql)
    more = [*CATALOGUE, card("flow of another agent")]
    assert await synced(tmp_path, more, "b") > len(CATALOGUE)
    assert await synced(tmp_path, more, "c") == 0


DAMAGES = {
    "not a number": np.full(32, np.nan),
    "infinite": np.array([np.inf, *[0.1] * 31]),
    "zero": np.zeros(32),
    "of another length": np.full(16, 0.1),
    "empty": np.zeros(0),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_vector_that_no_text_can_have_is_made_again_and_said_to_be(
    tmp_path: Path, damage: Vectors, caplog: pytest.LogCaptureFixture
) -> None:
    await synced(tmp_path, CATALOGUE)
    row = damage.astype("<f4").tobytes()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("UPDATE vectors SET row = ?", (crc32(row).to_bytes(4, "little") + row,))
        other.commit()
    np.testing.assert_array_equal(await vectors(tmp_path), await vectors(":memory:"))
    assert "are damaged (not finite, zero, or of another length), and made again" in caplog.text
    assert await synced(tmp_path, CATALOGUE, agent="b") == 0, "what was damaged is written anew"


class Faulty(SlowEmbedder):
    """An embedder that gives one text the same value in all places."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = super().embed(texts)
        rows[["something" in text for text in texts]] = self.value
        return rows

    def embed_query(self, text: str) -> Vectors:
        return self.embed([text])[0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf], ids=str)
async def test_an_embedder_that_returns_no_numbers_is_an_error_that_names_the_text(
    tmp_path: Path, value: float
) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=Faulty(value)) as memory:
        for embed in (memory.encoder.embed, memory.encoder.requests):
            with pytest.raises(EmbeddingError, match="not finite, for 'something odd'"):
                embed(["one", "something odd"])
    assert not (tmp_path / FILE_NAME).exists()


async def test_a_vector_of_nothing_is_not_stored(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=Faulty(0.0)) as memory:
        await memory.sync("a", [card("flow", "something odd")])
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as file:
        rows = [np.frombuffer(row, "<f4", offset=4) for (row,) in file.execute("SELECT row FROM vectors")]
    assert rows
    assert all(row.any() for row in rows)
