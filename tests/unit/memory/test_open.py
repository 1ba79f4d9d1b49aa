"""Opening an index: one writer, clear errors, no silent mix of embedders."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import (
    ConfigError,
    EmbedderMismatchError,
    IndexLockedError,
    IndexUnusableError,
    StoreUnavailableError,
)
from jazz_select.memory.engines import edge
from jazz_select.memory.engines.temporary import TemporaryFolder
from jazz_select.testing import HashEmbedder
from tests.unit.memory.cards import CARDS

HOLD = """
import asyncio, sys
from jazz_select import ProceduralMemory
from jazz_select.testing import HashEmbedder

async def main():
    async with await ProceduralMemory.open(sys.argv[1], embedder=HashEmbedder()):
        print("open", flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


async def _synced(path: Path, embedder: HashEmbedder | None = None) -> None:
    async with await ProceduralMemory.open(path, embedder=embedder or HashEmbedder()) as memory:
        await memory.sync("a", CARDS)


async def test_an_index_outlives_its_memory(tmp_path: Path) -> None:
    await _synced(tmp_path / "deep" / "index")
    async with await ProceduralMemory.open(str(tmp_path / "deep" / "index"), embedder=HashEmbedder()) as memory:
        assert len(await memory.list_flows("a")) == len(CARDS)


async def test_a_second_process_is_told_who_holds_the_index(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert await asyncio.to_thread(process.stdout.readline) == "open\n"
        with pytest.raises(IndexLockedError, match=rf"process {process.pid}.*url=") as caught:
            await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())
        assert caught.value.path == str(tmp_path)
        process.communicate("")
    await _synced(tmp_path)


async def test_a_second_memory_in_this_process_is_refused_too(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder()):
        with pytest.raises(IndexLockedError, match="this process"):
            await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())


async def test_recall_with_another_embedder_is_an_error_until_synced(tmp_path: Path) -> None:
    await _synced(tmp_path, HashEmbedder(64))
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
        with pytest.raises(EmbedderMismatchError, match=r"hash:64.*hash:32.*sync_registry") as caught:
            await memory.recall("money back", "a")
        assert caught.value.agent_id == "a"
        assert await memory.recall("money back", "another agent") == []
        await memory.sync("a", CARDS)
        assert await memory.recall("money back", "a")


async def test_other_lexical_settings_are_another_layout_too(tmp_path: Path) -> None:
    await _synced(tmp_path)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(), language="german") as memory:
        with pytest.raises(EmbedderMismatchError, match=r"german.*JAZZ_LANGUAGE"):
            await memory.recall("money back", "a")


async def test_an_agent_that_moves_leaves_the_others_where_they_are(tmp_path: Path) -> None:
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        await memory.sync("a", CARDS)
        await memory.sync("b", CARDS)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(32)) as memory:
        await memory.sync("a", CARDS)
    async with await ProceduralMemory.open(tmp_path, embedder=HashEmbedder(64)) as memory:
        assert len(await memory.list_flows("b")) == len(CARDS)


async def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(IndexUnusableError, match=r"thesis\.txt"):
        await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


async def test_a_file_is_no_index(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IndexUnusableError, match="Pass another path"):
        await ProceduralMemory.open(tmp_path / "file", embedder=HashEmbedder())


async def test_a_folder_that_cannot_be_written_is_named() -> None:
    with pytest.raises(IndexUnusableError, match="/proc/jazz"):
        await ProceduralMemory.open("/proc/jazz", embedder=HashEmbedder())


@pytest.mark.parametrize("victim", ["jazz_index.json", "edge_config.json", "segment.json", "version.info", "wal"])
async def test_a_corrupt_index_says_how_to_build_it_again(tmp_path: Path, victim: str) -> None:
    await _synced(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and (victim in {path.name, path.parent.name})]
    assert files
    for path in files:
        path.write_bytes(b"not what was here")
    with pytest.raises(IndexUnusableError, match=r"[Dd]elete the folder") as caught:
        await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())
    assert str(tmp_path) in str(caught.value)


async def test_an_index_of_a_later_format_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "jazz_index.json").write_text('{"format": 99}')
    with pytest.raises(IndexUnusableError, match="format is 99"):
        await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())


async def test_a_closed_memory_says_so(tmp_path: Path) -> None:
    await _synced(tmp_path)
    memory = await ProceduralMemory.open(tmp_path, embedder=HashEmbedder())
    await memory.close()
    await memory.close()
    with pytest.raises(IndexUnusableError, match="closed"):
        await memory.recall("money back", "a")


async def test_one_that_was_in_memory_says_so_too() -> None:
    """It is no server that could be asked whether it runs."""
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        pass
    with pytest.raises(IndexUnusableError, match="it is closed") as caught:
        await memory.recall("money back", "a")
    assert "server" not in str(caught.value)


async def test_an_index_in_memory_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "shared_memory", lambda: tmp_path)
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as first:
        await first.memorize(CARDS[0], "a")
        async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as second:
            assert len(list(tmp_path.iterdir())) == 2
            assert await second.list_flows("a") == []
        assert [each["flow_name"] for each in await first.list_flows("a")] == [CARDS[0].name]
    assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_is_gone_with_whoever_made_it(tmp_path: Path) -> None:
    folder = TemporaryFolder(tmp_path)
    (folder.path / "file").touch()
    del folder
    assert list(tmp_path.iterdir()) == []


async def test_an_index_in_memory_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edge, "shared_memory", lambda: tmp_path / "missing")
    with pytest.raises(IndexUnusableError, match="TMPDIR"):
        await ProceduralMemory.open(":memory:", embedder=HashEmbedder())


BAD_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "neither path nor url": ({}, "either a folder"),
    "both path and url": ({"path_or_memory": "x", "url": "http://localhost"}, "either a folder"),
    "unknown embedder": ({"path_or_memory": ":memory:", "embedder": "word2vec"}, "static, fastembed:"),
    "embedder without a model": ({"path_or_memory": ":memory:", "embedder": "fastembed:"}, "fastembed:<model>"),
    "unknown language": ({"path_or_memory": ":memory:", "embedder": HashEmbedder(), "language": "klingon"}, "klingon"),
}


@pytest.mark.parametrize(("arguments", "advice"), BAD_ARGUMENTS.values(), ids=BAD_ARGUMENTS)
async def test_arguments_that_cannot_work_say_what_would(arguments: dict[str, Any], advice: str) -> None:
    with pytest.raises(ConfigError, match=advice):
        await ProceduralMemory.open(**arguments)


async def test_a_server_that_is_not_there_is_a_typed_error() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    async with await ProceduralMemory.open(url=url, embedder=HashEmbedder()) as memory:
        with pytest.raises(StoreUnavailableError, match="Is it running") as caught:
            await memory.recall("money back", "a")
        assert caught.value.url == url
