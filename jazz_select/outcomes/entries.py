"""What a log of outcomes holds, as values: a request, what was selected for it, and what was right."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Source = Literal["user", "agent"]
"""Who says what was right: a person, or an agent that gathers it from how a conversation goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A request, what was selected for it, and what was right.

    Attributes:
        id: Of the entry.
        at: When, in seconds since 1970.
        agent_id: Whose flows were selected.
        request: The text, redacted; empty where texts are not kept.
        digest: Where texts are not kept, what is equal for equal requests; else empty. Who can guess a request can
            find it out by this.
        chars: How long the request was.
        alone: Whether nothing was said before it: then the text is all that was asked.
        chosen: Names of the flows that were chosen.
        candidates: Names of the first ten that were offered, best first.
        confidences: P(each of them is right), None where that was not known.
        in_scope: P(some flow is right), likewise.
        reason: As of `Decision`.
        tier: Likewise.
        asked: Whether a model was asked, a decision model included.
        model: Which one answered.
        tokens_in: What it read.
        tokens_out: What it wrote.
        took_s: How long the selection took, in seconds.
        catalogue: Equal where the flows said the same; empty where that was not known.
        right: Names of the flows that were right, as somebody said last; None where nobody did.
        source: Who said so; empty where nobody did.
        note: What was said beside, redacted.
    """

    id: str
    at: float
    agent_id: str = ""
    request: str = ""
    digest: str = ""
    chars: int = 0
    alone: bool = True
    chosen: tuple[str, ...] = ()
    candidates: tuple[str, ...] = ()
    confidences: tuple[float | None, ...] = ()
    in_scope: float | None = None
    reason: str = ""
    tier: str = ""
    asked: bool = False
    model: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    took_s: float = 0.0
    catalogue: str = ""
    right: tuple[str, ...] | None = None
    source: str = ""
    note: str = ""

    @property
    def first(self) -> str:
        """The first candidate; empty where there was none."""
        return self.candidates[0] if self.candidates else ""

    @property
    def confidence(self) -> float | None:
        """P(the first candidate is right), where that was known."""
        return self.confidences[0] if self.confidences else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def labels(entries: Iterable[Logged]) -> Iterator[tuple[str, str, float]]:
    """Each request with a flow that it is for, and how sure that is: 1 where a person said so, else P(it is right).

    What recall alone took to be right is labelled with its confidence, and left out where that was not known; so are
    requests without a text, those that need what was said before, and those that are for no flow or for several.
    """
    for entry in entries:
        if not entry.request or not entry.alone:
            continue
        if entry.right is not None and entry.source == "user":
            if len(entry.right) == 1:
                yield entry.request, entry.right[0], 1.0
        elif entry.right is None and len(entry.chosen) == 1:
            known = dict(zip(entry.candidates, entry.confidences, strict=False))
            sure = known.get(entry.chosen[0])
            if sure is not None:
                yield entry.request, entry.chosen[0], sure
