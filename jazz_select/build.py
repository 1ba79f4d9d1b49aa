"""The composition root: where flows, memory, models and settings meet."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jazz_select.flow.base import BaseFlow
from jazz_select.flow.registry import FlowRegistry

if TYPE_CHECKING:
    from jazz_select.memory.procedural import ProceduralMemory
    from jazz_select.memory.sync import SyncReport
    from jazz_select.selector.select import FlowSelector
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


def load_registry(source: str | Path) -> FlowRegistry:
    """The flows of a package, folder or file, in a registry of their own.

    Raises:
        FlowLoadError: They cannot be read, or there are none.
        FlowValidationError: A field of one is missing or wrong.
        DuplicateFlowError: Two have one name.
    """
    from jazz_select.flow.loading import load_flows

    registry = FlowRegistry()
    load_flows(source, registry)
    return registry


@asynccontextmanager
async def open_selector(
    settings: "Settings", memory: "ProceduralMemory", registry: Mapping[str, BaseFlow]
) -> AsyncGenerator["FlowSelector"]:
    """The selector that the settings describe; the connections of its model are closed at the end.

    Raises:
        ConfigError: The model that the settings name cannot be used.
    """
    from jazz_select.llm.adapt import as_chat_model
    from jazz_select.selector.select import FlowSelector

    model = as_chat_model(settings.llm)
    try:
        yield FlowSelector(
            model,
            registry,
            memory,
            settings.agent_id,
            settings.top_k,
            settings.rrf_k,
            on_empty=settings.on_empty,
            timeout_s=settings.timeout_s,
        )
    finally:
        close = getattr(model, "aclose", None)
        if close is not None:
            await close()
