"""An index that has lost something says so: a typed error, or a note. `make index` damages each of its files."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import IndexUnusableError
from jazz_select.memory.engines.stored_points import note_key
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import CARDS, card

FLOWS = [*CARDS, *(card(f"flow_{number}") for number in range(20))]
LINKS = "mutable_id_tracker.mappings"
Damage = Callable[[bytes], bytes]


async def _synced(folder: Path) -> None:
    async with await ProceduralMemory.open(folder, embedder=HashEmbedder(32)) as memory:
        await memory.sync("a", FLOWS)


def _damage(folder: Path, damage: Damage) -> None:
    (file,) = folder.rglob(LINKS)
    file.write_bytes(damage(file.read_bytes()))


FAR: dict[str, Damage] = {
    "the place of the first flow": lambda data: data[:9] + b"\xff\xff\xff\x7f" + data[13:],
    "the place of the last flow": lambda data: data[:-4] + b"\xff\xff\xff\x7f",
    "a kind of entry, so that others are read from within": lambda data: b"\x03" + data[1:9] + b"\x01" + data[9:],
    "one more flow": lambda data: data + b"\x01" + b"\x07" * 8 + b"\xf0\xff\xff\xff",
}


@pytest.mark.spec("005.18")
@pytest.mark.parametrize("damage", FAR.values(), ids=FAR)
async def test_a_place_far_away_is_an_error_and_takes_no_memory(tmp_path: Path, damage: Damage) -> None:
    """The engine would ask for as much memory as lies between, and end the process where it does not get it."""
    await _synced(tmp_path)
    _damage(tmp_path, damage)
    with pytest.raises(IndexUnusableError, match=r"[Dd]elete the folder"):
        await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32))


@pytest.mark.parametrize("seed", range(12))
async def test_entries_at_random_are_read_as_the_engine_reads_them(tmp_path: Path, seed: int) -> None:
    """Whatever stands there: an error, or flows, all of them the agent's and as many as it is said."""
    await _synced(tmp_path)
    dice = random.Random(seed)

    def garble(data: bytes) -> bytes:
        at = dice.randrange(len(data))
        return data[:at] + dice.randbytes(dice.choice([1, 2, 20])) + data[at + dice.choice([1, 2, 20]) :]

    _damage(tmp_path, garble)
    try:
        async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
            names = {each["flow_name"] for each in await memory.list_flows("a")}
            found = await memory.recall("please give money back for a delivered order", "a")
    except IndexUnusableError:
        return
    assert names <= {each.name for each in FLOWS}
    assert found.notes or names == {each.name for each in FLOWS}


@pytest.mark.spec("005.17")
async def test_a_note_that_is_lost_is_missed(memory: ProceduralMemory) -> None:
    await memory.sync("a", FLOWS)
    await memory.memorize(card("one_more"), "a")
    for agent in ("b", "c"):
        await memory.memorize(CARDS[0], agent)
    store = memory._store  # pyright: ignore[reportPrivateUsage]
    await store.delete("a", [note_key("a")])
    await store.delete("a", [store.key("a", each.id) for each in FLOWS[3:]])
    memory._agents.forget("a")  # pyright: ignore[reportPrivateUsage]
    (note,) = (await memory.recall("money back", "a")).notes
    assert "there may be more of them; run sync_registry" in note
    await memory.sync("a", FLOWS)
    assert (await memory.recall("money back", "a")).notes == ()
    assert (await memory.recall("money back", "b")).notes == (), "where there was no sync there is nothing to miss"


@pytest.mark.spec("005.17")
async def test_a_note_that_names_other_flows_is_fitted_anew(memory: ProceduralMemory) -> None:
    await memory.sync("a", FLOWS)
    store = memory._store  # pyright: ignore[reportPrivateUsage]
    noted = dict(await store.read_note("a") or {})
    for flows in (None, [FLOWS[0].id]):
        await store.write_note("a", {**noted, "flows": flows})
        await memory.sync("a", FLOWS)
        assert await store.read_note("a") == noted
