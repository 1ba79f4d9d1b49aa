"""A separate index of a catalogue for judging it; a deployed index is neither needed nor touched."""

import asyncio
import errno
import hashlib
import logging
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import jazz_select
from jazz_select.errors import IndexLockedError, IndexUnusableError
from jazz_select.evaluation.whole_files import keep_untracked
from jazz_select.flow.base import BaseFlow, flows_digest
from jazz_select.memory.engines.temporary import TemporaryFolder, shared_memory
from jazz_select.ports import Embedder

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory

AGENT = "judged"
"""The owner of the flows in such an index."""
CACHE = Path(".jazz/cache")
"""The default folder of such indexes, relative to the working directory."""
_KEPT = 8
"""Most indexes in a cache, of some megabytes each; the most recently used remain."""
_MOST_IN_MEMORY = 5_000
"""Most flows of a catalogue whose index is made in memory (about 40 MB)."""
_PIECE = 1 << 20
_HOLES = hasattr(os, "SEEK_HOLE")
_log = logging.getLogger(__name__)


@asynccontextmanager
async def indexed(
    registry: Mapping[str, BaseFlow],
    *,
    embedder: str | Embedder = "auto",
    language: str = "english",
    cache: Path | None = None,
    beside: Path | None = None,
) -> AsyncGenerator["ProceduralMemory"]:
    """Provide a memory of these flows under the agent id `AGENT`, synced and fitted as in a deployment.

    Args:
        registry: The flows.
        embedder: As for `ProceduralMemory.open`.
        language: As for `ProceduralMemory.open`.
        cache: A folder where the index is kept by its content. Without one, or while another process uses the index, it
            is temporary.
        beside: The parent folder of temporary indexes; None uses one of its own. A cached index
            is copied there, so that several processes can use it.

    Raises:
        EmbeddingError: The embedder failed.
        MissingExtraError: The embedder needs an optional dependency.
        ConfigError: The embedder or language is unknown.
    """
    folder = None if cache is None else _folder(cache, registry, embedder, language)
    memory = None if folder is None or not folder.is_dir() else await _kept(folder, embedder, language, beside)
    if memory is None:
        parent = (beside or shared_memory()) if len(registry) <= _MOST_IN_MEMORY else None
        with TemporaryFolder(parent) as passing:
            place = passing / "index"
            async with await _opened(place, embedder, language) as own:
                await own.sync(AGENT, registry.values(), allow_delete=True)
                if folder is not None:
                    await asyncio.to_thread(_keep, place, folder)
                yield own
        return
    async with memory:
        await memory.sync(AGENT, registry.values(), allow_delete=True)
        yield memory


def _folder(cache: Path, registry: Mapping[str, BaseFlow], embedder: str | Embedder, language: str) -> Path:
    """Return the folder of this catalogue's index, after removing the oldest ones."""
    name = embedder if isinstance(embedder, str) else embedder.identity
    key = f"{jazz_select.__version__} {name} {language} {flows_digest(registry.values())}"
    folder = cache / "indexes" / hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    if not folder.exists() and folder.parent.is_dir():
        others = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for other in others[_KEPT - 1 :]:
            shutil.rmtree(other, ignore_errors=True)
    return folder


async def _kept(
    folder: Path, embedder: str | Embedder, language: str, beside: Path | None
) -> "ProceduralMemory | None":
    """Open the cached index or a copy of it; None if that fails, since a new one can be made."""
    try:
        await asyncio.to_thread(folder.touch)
        if beside is None:
            return await _opened(folder, embedder, language)
        place = beside / uuid4().hex[:8]
        await asyncio.to_thread(shutil.copytree, folder, place, copy_function=_copied)
        return await _opened(place, embedder, language)
    except IndexLockedError:
        return None
    except (IndexUnusableError, OSError) as error:
        _log.warning("folder=<%s>, error=<%s> | the cached index is made anew", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _keep(place: Path, folder: Path) -> None:
    """Copy an index into the cache atomically; a failure is ignored."""
    aside = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}")
    try:
        keep_untracked(folder.parent.parent)
        shutil.copytree(place, aside, copy_function=_copied)
        aside.rename(folder)
    except OSError as error:  # another process has kept the same by now, or there is no room
        _log.info("folder=<%s>, error=<%s> | the index is not kept", folder, error)
        shutil.rmtree(aside, ignore_errors=True)


def _copied(source: str, target: str) -> None:
    """Copy a sparse file with its holes, which make up most of an engine's files."""
    with Path(source).open("rb") as old, Path(target).open("xb") as new:
        size = os.fstat(old.fileno()).st_size
        new.truncate(size)
        at = 0
        while at < size:
            try:
                at = os.lseek(old.fileno(), at, os.SEEK_DATA) if _HOLES else at
            except OSError as error:
                if error.errno != errno.ENXIO:  # nothing but a hole is left
                    raise
                return
            end = os.lseek(old.fileno(), at, os.SEEK_HOLE) if _HOLES else size
            old.seek(at)
            new.seek(at)
            while at < end and (content := old.read(min(_PIECE, end - at))):
                new.write(content)
                at += len(content)
            at = end


async def _opened(folder: Path, embedder: str | Embedder, language: str) -> "ProceduralMemory":
    from jazz_select.memory.procedural import ProceduralMemory  # not before it is needed: numpy takes long to load

    return await ProceduralMemory.open(folder, embedder=embedder, language=language)
