"""What the models of a cascade cost so far, on average: what a request spares that needs none of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jazz_select.stages import StageName, StageRecord, Usage


@dataclass(slots=True)
class _Spent:
    """By one stage, in all calls that were answered."""

    calls: int = 0
    took_s: float = 0.0
    tokens: tuple[int, int, int] = (0, 0, 0)
    counted: int = 0

    def add(self, record: StageRecord) -> None:
        self.calls += 1
        self.took_s += record.took_s
        if record.usage is not None:
            own = (record.usage.input_tokens, record.usage.output_tokens, record.usage.cached_tokens)
            self.tokens = (self.tokens[0] + own[0], self.tokens[1] + own[1], self.tokens[2] + own[2])
            self.counted += 1

    def spared(self, name: StageName) -> StageRecord:
        if not self.calls:
            return StageRecord(name=name, outcome="spared")
        usage = None
        if self.counted:
            usage = Usage(
                input_tokens=round(self.tokens[0] / self.counted),
                output_tokens=round(self.tokens[1] / self.counted),
                cached_tokens=round(self.tokens[2] / self.counted),
            )
        return StageRecord(name=name, outcome="spared", took_s=self.took_s / self.calls, usage=usage)


class Costs:
    """What each stage of one selector took."""

    def __init__(self) -> None:
        self._spent: dict[StageName, _Spent] = {}

    def recorded(self, records: Sequence[StageRecord], *, spared: Iterable[StageName]) -> tuple[StageRecord, ...]:
        """The records, with one more for each stage that was not needed: what it took other requests, on average."""
        for each in records:
            if each.calls:
                self._spent.setdefault(each.name, _Spent()).add(each)
        return (*records, *(self._spent.get(name, _Spent()).spared(name) for name in spared))
