"""An index of a catalogue of its own, made to judge it by: what is deployed is neither needed nor touched."""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import jazz_select
from jazz_select.errors import IndexLockedError, IndexUnusableError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.definition import digest_of
from jazz_select.ports import Embedder

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory

AGENT = "judged"
"""Whose flows they are in such an index."""
CACHE = Path(".jazz/cache")
"""Where such indexes are kept, seen from the working directory, unless another folder is named."""
_KEPT = 8
"""Indexes that a cache holds, those that were used last: each is some megabytes."""
_log = logging.getLogger(__name__)


@asynccontextmanager
async def indexed(
    registry: Mapping[str, BaseFlow],
    *,
    embedder: str | Embedder = "auto",
    language: str = "english",
    cache: Path | None = None,
) -> AsyncGenerator["ProceduralMemory"]:
    """A memory of these flows, under the agent id `AGENT`, synced and fitted as a deployment's would be.

    Args:
        registry: The flows.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        cache: A folder where the index is kept for the next time, by what the catalogue says; where None, or where
            another process is at it, it is gone afterwards.

    Raises:
        EmbeddingError: The embedder failed.
        MissingExtraError: The embedder needs an optional dependency.
        ConfigError: There is no such embedder or language.
    """
    folder = None if cache is None else _folder(cache, registry, embedder, language)
    memory = None if folder is None else await _kept(folder, embedder, language)
    if memory is None:
        with TemporaryDirectory(prefix="jazz-judged-", ignore_cleanup_errors=True) as passing:
            async with await _opened(Path(passing) / "index", embedder, language) as own:
                await own.sync(AGENT, registry.values(), allow_delete=True)
                yield own
        return
    async with memory:
        await memory.sync(AGENT, registry.values(), allow_delete=True)
        yield memory


def _folder(cache: Path, registry: Mapping[str, BaseFlow], embedder: str | Embedder, language: str) -> Path:
    """Where this catalogue's index is, with room made for it."""
    name = embedder if isinstance(embedder, str) else embedder.identity
    key = f"{jazz_select.__version__} {name} {language} {digest_of(registry.values())}"
    folder = cache / "indexes" / hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    if not folder.exists() and folder.parent.is_dir():
        others = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for other in others[_KEPT - 1 :]:
            shutil.rmtree(other, ignore_errors=True)
    return folder


async def _kept(folder: Path, embedder: str | Embedder, language: str) -> "ProceduralMemory | None":
    """The one in the cache; None where it cannot be had, which is no reason not to judge."""
    try:
        await asyncio.to_thread(_made, folder)
        return await _opened(folder, embedder, language)
    except IndexLockedError:
        return None
    except (IndexUnusableError, OSError) as error:
        _log.warning("folder=<%s>, error=<%s> | the cached index is made anew", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _made(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()


async def _opened(folder: Path, embedder: str | Embedder, language: str) -> "ProceduralMemory":
    from jazz_select.memory.procedural import ProceduralMemory  # not before it is needed: numpy takes long to load

    return await ProceduralMemory.open(folder, embedder=embedder, language=language)
