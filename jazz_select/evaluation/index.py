"""An index of a catalogue of its own, made to judge it by: what is deployed is neither needed nor touched."""

import asyncio
import errno
import hashlib
import logging
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

import jazz_select
from jazz_select.errors import IndexLockedError, IndexUnusableError
from jazz_select.flow.base import BaseFlow, flows_digest
from jazz_select.ports import Embedder

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory

AGENT = "judged"
"""Whose flows they are in such an index."""
CACHE = Path(".jazz/cache")
"""Where such indexes are kept, seen from the working directory, unless another folder is named."""
_KEPT = 8
"""Indexes that a cache holds, those that were used last: each is some megabytes."""
PREFIX = "jazz-judged-"
"""How the name begins of a folder that is gone afterwards."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - what is made in it has a name that nobody knows, for its maker alone
_ROOM, _MOST_IN_MEMORY = 1 << 30, 5_000
"""Bytes that have to be free there, and flows of a catalogue that goes there: some 40 MB."""
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
    """A memory of these flows, under the agent id `AGENT`, synced and fitted as a deployment's would be.

    Args:
        registry: The flows.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        cache: A folder where the index is kept for the next time, by what the catalogue says; where None, or where
            another process is at it, it is gone afterwards.
        beside: A folder of the caller's, such as `in_memory` gives, for an index that is gone afterwards; one of its
            own where None. One in the cache is copied there, so that several processes may read the same.

    Raises:
        EmbeddingError: The embedder failed.
        MissingExtraError: The embedder needs an optional dependency.
        ConfigError: There is no such embedder or language.
    """
    folder = None if cache is None else _folder(cache, registry, embedder, language)
    memory = None if folder is None or not folder.is_dir() else await _kept(folder, embedder, language, beside)
    if memory is None:
        quick = (beside or in_memory()) if len(registry) <= _MOST_IN_MEMORY else None
        with TemporaryDirectory(prefix=PREFIX, dir=quick, ignore_cleanup_errors=True) as passing:
            place = Path(passing) / "index"
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
    """Where this catalogue's index is, with room made for it."""
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
    """The one in the cache, or a copy of it; None where it cannot be had, which is no reason not to judge."""
    try:
        await asyncio.to_thread(folder.touch)
        if beside is None:
            return await _opened(folder, embedder, language)
        place = beside / f"{PREFIX}{uuid4().hex[:8]}"
        await asyncio.to_thread(shutil.copytree, folder, place, copy_function=_copied)
        return await _opened(place, embedder, language)
    except IndexLockedError:
        return None
    except (IndexUnusableError, OSError) as error:
        _log.warning("folder=<%s>, error=<%s> | the cached index is made anew", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def in_memory() -> Path | None:
    """A folder that is memory, where there is plenty: an engine sees each write to the disk, which takes long there."""
    try:
        roomy = shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM
        return _SHARED_MEMORY if roomy and os.access(_SHARED_MEMORY, os.W_OK) else None
    except OSError:  # of Linux alone
        return None


def _keep(place: Path, folder: Path) -> None:
    """A copy of an index that nobody writes to, whole or not at all; where it cannot be kept it is not."""
    aside = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}")
    try:
        shutil.copytree(place, aside, copy_function=_copied)
        aside.rename(folder)
    except OSError as error:  # another process has kept the same by now, or there is no room
        _log.info("folder=<%s>, error=<%s> | the index is not kept", folder, error)
        shutil.rmtree(aside, ignore_errors=True)


def _copied(source: str, target: str) -> None:
    """A file with its holes: an engine's are nearly nothing else."""
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
