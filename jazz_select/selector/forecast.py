"""What a policy lets recall decide alone, as expected of requests like the catalogue's own examples."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.policy import Policy
from jazz_select.stages import OwnAnswers
from jazz_select.text import some_of
from jazz_select.travel import JsonData

_WIDER: Final = (0.02, 0.05, 0.1, 0.2)
"""Error budgets that are compared with the one in force."""
_WORTH_TELLING: Final = 0.1
"""The least gain in share for which a wider budget is named."""
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(JsonData):
    """What recall is expected to decide without a chat model.

    Attributes:
        max_error: The error budget; None if none is set.
        share_alone: The expected share of requests that are decided alone, from 0 to 1; None if it is not known.
        wider_budget: An error budget with a clearly larger share, and that share; None if there is none up to .2.
        wider_share: The share within `wider_budget`.
        thin_flows: The flows with the fewest examples, first.
        caveat: Why nothing is known; empty if it is known.
    """

    max_error: float | None = None
    share_alone: float | None = None
    wider_budget: float | None = None
    wider_share: float | None = None
    thin_flows: tuple[str, ...] = ()
    caveat: str = ""

    def __str__(self) -> str:
        known = "Examples, titles and aliases are decided without a model, word for word"
        if self.max_error is None:
            return f"{known}; all else is for the chat model, as no error budget is set (max_error)."
        if self.share_alone is None:
            return f"{known}; all else is for the chat model: {self.caveat or 'confidence is not known'}."
        budget = f"an error budget of {self.max_error:.1%}"
        more = self._what_raises_it()
        if self.share_alone == 0:
            return f"{known}; within {budget} recall decides nothing else alone.{more}"
        return f"{known}; of other requests recall is expected to decide {self.share_alone:.0%} within {budget}.{more}"

    def _what_raises_it(self) -> str:
        ways: list[str] = []
        if self.thin_flows:
            ways.append(f"more examples, first of {some_of(self.thin_flows, _MOST_NAMED)}")
        if self.wider_budget is not None and self.wider_share is not None:
            ways.append(f"a budget of {self.wider_budget:.0%}, which gives {self.wider_share:.0%}")
        return f" What would raise it: {'; or '.join(ways)}." if ways else ""


def forecast(answers: OwnAnswers | None, policy: Policy, flows: Collection[BaseFlow], *, caveat: str = "") -> Forecast:
    """Return what a policy lets recall decide alone.

    Args:
        answers: Recall's confidence in its answers to the examples of the catalogue; None if it is not known.
        policy: The policy.
        flows: The flows of the catalogue.
        caveat: Why `answers` are not known.
    """
    budget = policy.max_error
    if budget is None or answers is None or not answers.confidences:
        return Forecast(max_error=budget, caveat=caveat)
    share = answers.share_alone(budget)
    wider: tuple[float, float] | None = None
    for other in _WIDER:
        reached = answers.share_alone(other)
        if other > budget and reached >= share + _WORTH_TELLING:
            wider = other, reached
            break
    return Forecast(
        max_error=budget,
        share_alone=share,
        wider_budget=None if wider is None else wider[0],
        wider_share=None if wider is None else wider[1],
        thin_flows=_thin(flows),
    )


def _thin(flows: Collection[BaseFlow]) -> tuple[str, ...]:
    """Return the names of flows with fewer examples than the median flow, the fewest first."""
    with_counts: Sequence[tuple[int, str]] = sorted((len(flow.examples), flow.name) for flow in flows)
    if not with_counts:
        return ()
    median = with_counts[len(with_counts) // 2][0]
    return tuple(name for count, name in with_counts if count < median) or tuple(
        name for _, name in with_counts[:_MOST_NAMED]
    )
