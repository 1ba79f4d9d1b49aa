"""The first stage: candidates, given or recalled, without those whose guards say no."""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jazz_select.errors import EmbeddingError, StoreError
from jazz_select.ports import FlowMemory
from jazz_select.selector.guards import Closed, Guards
from jazz_select.selector.narrow import Narrowed, Request, narrow
from jazz_select.selector.tracing import note_recall
from jazz_select.telemetry import span

_log = logging.getLogger(__name__)
_Found = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrower:
    """Finds what there is to choose from.

    Attributes:
        memory: Where candidates are recalled from, if anywhere.
        agent_id: Whose flows.
        top_k: How many.
        rrf_k: The constant of the rank fusion.
        fallback: Metadata dicts to choose from while the memory cannot answer.
        guards: Which flows may not be offered in a context.
    """

    memory: FlowMemory | None
    agent_id: str
    top_k: int
    rrf_k: int
    fallback: tuple[Mapping[str, Any], ...]
    guards: Guards

    def given(self, candidates: _Found, context: Mapping[str, Any]) -> Narrowed:
        """What is left of candidates that the caller has."""
        closed = self.guards.closed(context)
        return narrow(candidates, closed=closed.ids, notes=closed.notes)

    async def recalled(
        self, requests: Sequence[Request], context: Mapping[str, Any], *, only: Collection[str] | None = None
    ) -> list[Narrowed]:
        """What is recalled for requests that share a context, in their order; `only` among flows of these ids.

        Raises:
            StoreError: The memory failed, and there are no fallback candidates.
            EmbeddingError: Likewise.
        """
        closed = self.guards.closed(context, only=only)
        if self.memory is None or not self.agent_id:
            missing = "no candidates were given, and without a memory and an agent_id none are recalled"
            return [Narrowed(notes=(*closed.notes, missing)) for _ in requests]
        try:
            with span("recall", "recall") as traced:
                found = await self._ask(self.memory, requests, closed)
                if traced is not None and len(found) == 1:
                    note_recall(traced, list(found[0]))
        except (StoreError, EmbeddingError) as error:
            if not self.fallback:
                raise
            _log.warning(
                "agent_id=<%s>, error=<%s> | recall failed, using the fallback candidates", self.agent_id, error
            )
            note = f"recall failed, so the choice is among the fallback candidates: {error}"
            return [narrow(self.fallback, closed=closed.ids, notes=(*closed.notes, note)) for _ in requests]
        return [narrow(each, closed=closed.ids, notes=(*closed.notes, *getattr(each, "notes", ()))) for each in found]

    async def _ask(self, memory: Any, requests: Sequence[Request], closed: Closed) -> Sequence[_Found]:
        """Options are passed only where they say something: a memory without them serves all other requests as well."""
        options: dict[str, Any] = {"top_k": self.top_k, "rrf_k": self.rrf_k}
        if closed.ids:
            options["exclude"] = closed.ids
        weighs = getattr(memory, "weighs_context", False)
        focuses = [request.query if weighs and request.summaries else "" for request in requests]
        if len(requests) > 1 and hasattr(memory, "recall_many"):
            if any(focuses):
                options["focuses"] = focuses
            return await memory.recall_many([request.text for request in requests], self.agent_id, **options)

        async def one(request: Request, focus: str) -> _Found:
            own = {"focus": focus} if focus else {}
            return await memory.recall(request.text, self.agent_id, **options, **own)

        if len(requests) == 1:
            return [await one(requests[0], focuses[0])]
        return await asyncio.gather(*(one(*each) for each in zip(requests, focuses, strict=True)))
