"""The composition root: where flows, memory, models and settings meet."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from jazz_select.flow.base import BaseFlow

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.memory.sync import SyncReport
    from jazz_select.settings import Settings

_log = logging.getLogger(__name__)


async def sync_registry(
    memory: "ProceduralMemory",
    agent_id: str,
    registry: Mapping[str, BaseFlow] | None = None,
    dry_run: bool = False,  # noqa: FBT001, FBT002 - a published signature
    progress: Callable[[int, int], None] | None = None,
) -> "SyncReport":
    """Bring the index to the flows of a registry: create, update, delete or skip each, by checksum.

    Idempotent, and safe to interrupt at any point: run it again. It never touches
    another agent's flows.

    Args:
        memory: The index.
        agent_id: Whose flows these are.
        registry: The flows; the default scope, `BaseFlow.registry`, where None.
        dry_run: Only say what would happen.
        progress: Called with (flows written, flows to write) after each batch.

    Raises:
        EmbeddingError: The embedder failed; what was written before stays.
        StoreUnavailableError: The server did not answer.
    """
    flows = BaseFlow.registry if registry is None else registry
    if not flows:
        _log.warning("agent_id=<%s> | syncing an empty registry: were the flow modules imported?", agent_id)
    return await memory.sync(agent_id, flows.values(), dry_run=dry_run, progress=progress)


async def open_memory(settings: "Settings") -> "ProceduralMemory":
    """The memory that the settings name: a server where `url` is set, the embedded index otherwise."""
    from jazz_select.memory.procedural import ProceduralMemory

    key = settings.api_key.get_secret_value() if settings.api_key else None
    return await ProceduralMemory.open(
        None if settings.url else settings.index,
        url=settings.url,
        api_key=key,
        embedder=settings.embedder,
        language=settings.language,
    )
