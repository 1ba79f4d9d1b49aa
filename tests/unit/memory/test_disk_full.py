"""A disk without room: a typed error before the engine writes, and nothing lost. `make disk` tries it on real ones."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from jazz_select import FlowSelector, ProceduralMemory
from jazz_select.errors import DiskFullError
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import CARDS, card
from tests.unit.selector.shop import shop


class Usage(NamedTuple):
    """As `shutil.disk_usage` gives it."""

    total: int
    used: int
    free: int


Disk = Callable[[int], None]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Says how many bytes are free from now on."""

    def free(left: int) -> None:
        def usage(_: Path) -> Usage:
            return Usage(1 << 40, 0, left)

        monkeypatch.setattr(shutil, "disk_usage", usage)

    return free


@pytest.mark.spec("005.17")
async def test_without_room_nothing_is_written_and_what_is_there_is_found(tmp_path: Path, disk: Disk) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        await memory.sync("a", CARDS)
        disk(15_000_000)
        for write in (
            memory.sync("a", [*CARDS, card("one_more")]),
            memory.memorize(card("one_more"), "a"),
            memory.delete_flow(CARDS[0].id, "a"),
        ):
            with pytest.raises(
                DiskFullError, match=r"16\.\d MB have to be free on its disk, and 15\.0 MB are"
            ) as caught:
                await write
            assert (caught.value.path, caught.value.free) == (str(tmp_path / "index"), 15_000_000)
        assert len(await memory.list_flows("a")) == len(CARDS)
        assert (await memory.recall("money back", "a"))[0]["flow_name"] == CARDS[0].name
        disk(1 << 40)
        assert (await memory.sync("a", [*CARDS, card("one_more")])).created == ("one_more",)


@pytest.mark.spec("005.17")
async def test_what_is_written_needs_room_beside_the_reserve(tmp_path: Path, disk: Disk) -> None:
    large = [card(f"flow_{number}", "x" * 50_000) for number in range(20)]
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        await memory.sync("a", CARDS)
        disk(17_000_000)
        await memory.sync("a", [*CARDS, card("small")])
        with pytest.raises(DiskFullError):
            await memory.sync("a", [*CARDS, *large])


@pytest.mark.spec("005.17")
async def test_an_index_is_not_opened_without_room_and_opens_again(tmp_path: Path, disk: Disk) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        await memory.sync("a", CARDS)
    disk(1_000)
    with pytest.raises(DiskFullError, match="Make room"):
        await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder())
    disk(9_000_000)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder()) as memory:
        assert len(await memory.list_flows("a")) == len(CARDS)


async def test_a_disk_that_takes_nothing_at_all_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(DiskFullError):
        await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder())


async def test_a_selection_tells_that_there_is_no_room(tmp_path: Path, disk: Disk) -> None:
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(64)) as memory:
        await memory.sync("a", CARDS)
    async with await ProceduralMemory.open(tmp_path / "index", embedder=HashEmbedder(32)) as memory:
        disk(1_000)  # where the flows of the other embedder lie cannot be looked at
        with pytest.raises(DiskFullError, match="there is no room"):
            await FlowSelector(None, shop(), memory, "a").select("money back")
