"""A separate index of a catalogue for judging it; a deployed index is neither needed nor touched."""

import hashlib
import logging
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import jazz_select
from jazz_select.errors import DiskFullError, IndexLockedError, IndexUnusableError
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
        beside: The parent folder of temporary indexes; None uses one of its own.

    Raises:
        EmbeddingError: The embedder failed.
        MissingExtraError: The embedder needs an optional dependency.
        ConfigError: The embedder or language is unknown.
    """
    async with AsyncExitStack() as stack:
        memory = None if cache is None else await _open_cached(cache, registry, embedder, language)
        if memory is None:
            parent: Path | None = None
            if len(registry) <= _MOST_IN_MEMORY:
                parent = beside or shared_memory()
            place = stack.enter_context(TemporaryFolder(parent))
            memory = await stack.enter_async_context(await _open(place / "index", embedder, language))
            await memory.sync(AGENT, registry.values(), allow_delete=True)
        else:
            await stack.enter_async_context(memory)
        yield memory


async def _open_cached(
    cache: Path, registry: Mapping[str, BaseFlow], embedder: str | Embedder, language: str
) -> "ProceduralMemory | None":
    """Open the cached index of this catalogue, or make it; None if that fails, since a temporary one does as well."""
    name = embedder if isinstance(embedder, str) else embedder.identity
    key = f"{jazz_select.__version__} {name} {language} {flows_digest(registry.values())}"
    folder = cache / "indexes" / hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        keep_untracked(cache)
        folder.touch()  # the time of its last use, by which the others are removed
        indexes = sorted(folder.parent.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True)
        for old in indexes[_KEPT:]:
            shutil.rmtree(old, ignore_errors=True)
        memory = await _open(folder, embedder, language)
        try:
            await memory.sync(AGENT, registry.values(), allow_delete=True)
        except BaseException:
            await memory.close()
            raise
    except IndexLockedError:  # another process uses it: leave it there
        return None
    except (IndexUnusableError, DiskFullError, OSError) as error:
        _log.warning("folder=<%s>, error=<%s> | the cached index is made anew", folder, error)
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return memory


async def _open(folder: Path, embedder: str | Embedder, language: str) -> "ProceduralMemory":
    from jazz_select.memory.procedural import ProceduralMemory  # not before it is needed: numpy takes long to load

    return await ProceduralMemory.open(folder, embedder=embedder, language=language)
