"""What each stage of a cascade did for labelled requests: how many it decided, how many of them right, its cost."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from jazz_select.evaluation.measures.judged import Judged
from jazz_select.stages import StageName

_ORDER: Final[tuple[StageName, ...]] = ("recall", "transformer", "decider", "chat", "user")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMeasures:
    """One stage, over all cases that were put to a cascade.

    Attributes:
        name: Which one.
        cases: How many cases there are.
        asked: How many came to it.
        decided: How many it decided, "none fits" among them.
        right: How many of those were exactly right.
        failed: How often it could not answer, and was passed over.
        input_tokens: Of all its calls.
        output_tokens: Likewise.
        took_s: How long it took in all, in seconds.
    """

    name: StageName
    cases: int
    asked: int
    decided: int
    right: int
    failed: int
    input_tokens: int
    output_tokens: int
    took_s: float

    @property
    def share(self) -> float:
        """The share of all cases that it decided."""
        return self.decided / self.cases

    @property
    def accuracy(self) -> float | None:
        """The share of what it decided that is exactly right; None where it decided nothing."""
        return self.right / self.decided if self.decided else None

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types."""
        return {**asdict(self), "share": self.share, "accuracy": self.accuracy}


def stage_measures(judged: Iterable[Judged]) -> list[StageMeasures]:
    """Of each stage that was there, in the order in which they are asked; none without a cascade."""
    cases = [each for each in judged if each.chosen is not None and each.chosen.stages]
    return [found for name in _ORDER if (found := _of(name, cases)).asked]


def _of(name: StageName, cases: Sequence[Judged]) -> StageMeasures:
    records = [
        (record, case.exact)
        for case in cases
        if case.chosen is not None
        for record in case.chosen.stages
        if record.name == name and record.outcome != "spared"
    ]
    decided = [exact for record, exact in records if record.outcome in {"decided", "none"}]
    usages = [record.usage for record, _ in records if record.usage is not None]
    return StageMeasures(
        name=name,
        cases=len(cases),
        asked=len(records),
        decided=len(decided),
        right=sum(decided),
        failed=sum(record.outcome == "failed" for record, _ in records),
        input_tokens=sum(each.input_tokens for each in usages),
        output_tokens=sum(each.output_tokens for each in usages),
        took_s=sum(record.took_s for record, _ in records),
    )
