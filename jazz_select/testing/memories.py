"""A procedural memory that recalls what it was given."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from jazz_select.values import RecallResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCall:
    """What a memory was asked."""

    query: str
    agent_id: str
    top_k: int
    rrf_k: int
    exclude: frozenset[str]


class ListMemory:
    """A `FlowMemory` of these candidates, in this order, whatever the request; `calls` records each recall."""

    def __init__(
        self,
        candidates: Iterable[Mapping[str, Any]] = (),
        *,
        notes: tuple[str, ...] = (),
        error: Exception | None = None,
    ) -> None:
        """Fill the memory.

        Args:
            candidates: Metadata dicts with the keys flow_id, flow_name, …; best first.
            notes: What each recall says was degraded on the way.
            error: Raised by each recall, instead of an answer.
        """
        self.candidates = [dict(candidate) for candidate in candidates]
        self.calls: list[RecallCall] = []
        self._notes = notes
        self._error = error

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        """The first `top_k` candidates that are not excluded."""
        call = RecallCall(query=query, agent_id=agent_id, top_k=top_k, rrf_k=rrf_k, exclude=frozenset(exclude))
        self.calls.append(call)
        if self._error is not None:
            raise self._error
        left = [dict(candidate) for candidate in self.candidates if candidate.get("flow_id") not in call.exclude]
        return RecallResult(left[:top_k], notes=self._notes)
