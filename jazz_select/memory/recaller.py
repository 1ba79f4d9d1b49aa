"""Recall, from requests to results: what is asked is embedded, looked up in one round trip, and read."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jazz_select.errors import ConfigError, EmbeddingError
from jazz_select.memory.encode import Encoder
from jazz_select.memory.model import RecallModel
from jazz_select.memory.recall import DEPTH, Asked, read
from jazz_select.ports import FlowStore, HybridQuery, Vectors
from jazz_select.values import RecallResult

_log = logging.getLogger(__name__)
_SLACK = 5
"""More payloads are asked for than returned: fused here, another flow may come out on top than in the engine."""
_MAX_COUNT = 1 << 31
_TOGETHER = 64
"""Requests that one round trip holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose flows, and how many."""

    agent_id: str
    top_k: int
    rrf_k: int
    exclude: tuple[str, ...]

    @classmethod
    def of(cls, agent_id: str, top_k: int, rrf_k: int, exclude: Collection[str]) -> "Scope":
        """These, where they can work.

        Raises:
            ConfigError: A count is no whole number of at least 1.
        """
        for name, value in (("top_k", top_k), ("rrf_k", rrf_k)):
            if not 1 <= value < _MAX_COUNT or value != int(value):
                msg = f"{name} must be a whole number of at least 1, not {value!r}"
                raise ConfigError(msg)
        return cls(agent_id=agent_id, top_k=top_k, rrf_k=rrf_k, exclude=tuple(exclude))


class Recaller:
    """Looks requests up in a store, as its encoder puts them."""

    def __init__(self, store: FlowStore, encoder: Encoder) -> None:
        """Join them."""
        self._store = store
        self._encoder = encoder

    async def recall(
        self, queries: Sequence[str], focuses: Sequence[str], scope: Scope, model: RecallModel
    ) -> list[RecallResult]:
        """One result per query; `focuses` are the parts of them that were said last, or empty."""
        asked = [
            Asked.of(query, focus, lexical=self._encoder.lexical) for query, focus in zip(queries, focuses, strict=True)
        ]
        if len(asked) == 1:
            return [await self._one(asked[0], scope, model)]
        found: list[RecallResult] = []
        for start in range(0, len(asked), _TOGETHER):
            found += await self._some(asked[start : start + _TOGETHER], scope, model)
        return found

    async def _one(self, asked: Asked, scope: Scope, model: RecallModel) -> RecallResult:
        return (await self._some([asked], scope, model))[0]

    async def _some(self, asked: Sequence[Asked], scope: Scope, model: RecallModel) -> list[RecallResult]:
        """All texts of all requests in one call to the embedder's thread, and one to the store."""
        vectors, degraded = await self._dense([text for each in asked for text in each.texts])
        pending = iter(vectors)
        queries = [[self._query(text, next(pending), scope, model) for text in each.texts] for each in asked]
        flat = [query for group in queries for query in group if any(each.arms for each in group)]
        legs = iter(await self._store.search(flat) if flat else ())
        results: list[RecallResult] = []
        for each, group in zip(asked, queries, strict=True):
            notes = (*each.notes, *degraded)
            if not any(query.arms for query in group):
                results.append(RecallResult(notes=notes, caveat=model.caveat))
                continue
            found = await read(self._store, model, group, [next(legs) for _ in group], asked=each, top_k=scope.top_k)
            if not found.candidates and not scope.exclude:
                advice = (
                    f"agent {scope.agent_id!r} has no flows in this index: run sync_registry (jazz-select sync) first"
                )
                notes = (*notes, advice)
            results.append(
                RecallResult(
                    (candidate.as_metadata() for candidate in found.candidates),
                    notes=notes,
                    in_scope=found.in_scope,
                    caveat=model.caveat,
                )
            )
        return results

    def _query(self, text: str, vector: Vectors | None, scope: Scope, model: RecallModel) -> HybridQuery:
        return HybridQuery(
            agent_id=scope.agent_id,
            dense=None if vector is None else model.aim(vector),
            sparse=self._encoder.lexical.query(text),
            limit=scope.top_k + _SLACK,
            depth=max(DEPTH, 2 * scope.top_k),
            rrf_k=scope.rrf_k,
            exclude=scope.exclude,
        )

    async def _dense(self, texts: Sequence[str]) -> tuple[list[Vectors | None], tuple[str, ...]]:
        """The vectors, and a note where the embedder failed."""
        try:
            if self._encoder.embedder.offload and texts:
                return await asyncio.to_thread(lambda: [self._encoder.request(text) for text in texts]), ()
            return [self._encoder.request(text) for text in texts], ()
        except EmbeddingError as error:
            _log.warning("embedder=<%s>, error=<%s> | recall goes on by BM25 alone", error.embedder, error.problem)
            return [None for _ in texts], (f"recall by BM25 alone: {error}",)
