"""In which order a model sees the candidates. Pure."""

import hashlib
from collections.abc import Sequence
from typing import Literal

from jazz_select.values import Candidate

CandidateOrder = Literal["rank", "stable", "shuffled"]


def ordered(candidates: Sequence[Candidate], order: CandidateOrder, request: str) -> tuple[Candidate, ...]:
    """The candidates as a model is to see them.

    - `rank`: as recall ranked them. A model that favours the first then errs towards recall's own choice.
    - `stable`: by id, so that the same candidates make the same text whatever their ranks, for providers that
      cache what prompts begin with.
    - `shuffled`: by a hash of the request, so that no flow stands first more often than others.
    """
    match order:
        case "rank":
            return tuple(candidates)
        case "stable":
            return tuple(sorted(candidates, key=lambda each: each.flow_id))
        case "shuffled":
            return tuple(sorted(candidates, key=lambda each: _mixed(request, each.flow_id)))


def _mixed(request: str, flow_id: str) -> bytes:
    return hashlib.sha256(f"{request}\x1f{flow_id}".encode(errors="replace")).digest()
