"""From an engine's hits to candidates. Pure."""

from collections.abc import Iterable

from jazz_select.ports import Hit
from jazz_select.values import Candidate


def to_candidates(hits: Iterable[Hit]) -> list[Candidate]:
    """Best first; equal scores by the author's priority, then the dense rank, then the name: order never wavers."""
    return [_candidate(hit) for hit in sorted(hits, key=_order)]


def _order(hit: Hit) -> tuple[float, tuple[int, ...], float, str]:
    priority = tuple(-part for part in hit.payload.get("priority", ()))
    return (-round(hit.score, 9), priority, hit.ranks.get("dense", float("inf")), hit.payload.get("flow_name", ""))


def _candidate(hit: Hit) -> Candidate:
    return Candidate(
        flow_id=hit.flow_id,
        flow_name=hit.payload.get("flow_name", ""),
        flow_type=hit.payload.get("flow_type", ""),
        description=hit.payload.get("description", ""),
        condition=hit.payload.get("condition", ""),
        desired_effects=tuple(hit.payload.get("desired_effects", ())),
        score=hit.score,
        ranks=hit.ranks,
        scores=hit.scores,
    )
