"""What a policy lets recall decide alone: as expected, as measured on labelled requests, and as logged."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.calibration import fit_line
from jazz_select.selector.policy import Policy
from jazz_select.serialization import JsonData
from jazz_select.stages import SHARED, LeaveOneOutConfidence, Thresholds
from jazz_select.text import count_of, some_of
from jazz_select.values import Reason

if TYPE_CHECKING:
    from jazz_select.outcomes import OutcomeLog

_WIDER: Final = (0.01, 0.02, 0.05, 0.1, 0.2)
"""Error budgets that are compared with the one in force."""
_WORTH_TELLING: Final = 0.1
"""The least gain in share for which a wider budget is named."""
_GAIN: Final = 0.02
"""The least gain in share for which a calibration is named."""
_MOST_NAMED: Final = 3
_ENOUGH_LABELLED: Final = 100
"""Labelled requests from which a calibration says something: `FlowSelector.calibrate` asks for as many."""
_CHOSEN_ALONE: Final = frozenset({Reason.EXAMPLE, Reason.SINGLE, Reason.CONFIDENT})
"""Reasons of a flow that recall chose, and not for want of a model."""


AnsweredCase: TypeAlias = tuple[float, bool]
"""Recall's confidence in its first candidate for a labelled request, and whether that is right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedAlone(JsonData):
    """How many of some requests were decided without a model, as counted.

    Attributes:
        requests: Number of requests.
        alone: Number of those for which recall chose a flow, and no model was asked.
        known: Number of those that are an example, a title or an alias, word for word.
        judged: Number of those decided alone whose right answer is known.
        wrong: Number of those judged that are wrong.
        days: The age of the oldest request, in days, if older ones were left out.
    """

    requests: int
    alone: int
    known: int
    judged: int
    wrong: int
    days: int | None = None

    def __str__(self) -> str:
        noun = "request" if self.requests == 1 else "requests"
        sentence = f"{self.alone:,} of {self.requests:,} {noun}"
        if self.requests:
            sentence += f" ({self.alone / self.requests:.1%})"
        sentence += " decided alone"
        if self.known:
            sentence += f", {self.known:,} of them known word for word"
        if not self.judged:
            return sentence
        wrong = f"{self.wrong:,} were wrong"
        if self.wrong <= 1:
            wrong = "1 was wrong" if self.wrong else "none was wrong"
        of_judged = "" if self.judged == self.alone else f"of {self.judged:,} that were judged "
        return f"{sentence}; {of_judged}{wrong}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedAlone:
    """What a log of outcomes says: how many requests were decided alone, and what people said of its entries."""

    counts: DecidedAlone | None = None
    evidence: tuple[AnsweredCase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast(JsonData):
    """What recall is expected to decide without a chat model, beside what it did decide.

    Shares are of requests like the catalogue's examples that are not an example, a title or an alias word for word.

    Attributes:
        max_error: The error budget; None if none is set.
        share_alone: The expected share of requests that are decided alone, from 0 to 1; None if it is not known.
        expected_error: The expected share of wrong ones among those, from 0 to 1; None without any.
        wider_budget: An error budget with a clearly larger share, and that share; None if there is none up to .2.
        wider_share: The share within `wider_budget`.
        thin_flows: The flows with the fewest examples, first.
        labelled: Number of requests whose right answer is known, from the cases and the log.
        calibrated_share: The share after a calibration to these; None if it would not be larger.
        measured: What was decided alone of labelled requests; None if none were asked.
        logged: What was decided alone in the log of outcomes; None without one.
        learned_from: Number of logged requests that a sync learned from; 0 if it knows the examples alone.
        caveat: Why nothing is known; empty if it is known.
    """

    max_error: float | None = None
    share_alone: float | None = None
    expected_error: float | None = None
    wider_budget: float | None = None
    wider_share: float | None = None
    thin_flows: tuple[str, ...] = ()
    labelled: int = 0
    calibrated_share: float | None = None
    measured: DecidedAlone | None = None
    logged: DecidedAlone | None = None
    learned_from: int = 0
    caveat: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return plain JSON types, with the sentence as `says`."""
        return {**self.to_dict(), "says": str(self)}

    def __str__(self) -> str:
        counts = ""
        if self.measured is not None:
            counts += f" On these cases: {self.measured}."
        if self.logged is not None:
            since = "" if self.logged.days is None else f" of the last {self.logged.days} days"
            counts += f" In the log{since}: {self.logged}."
        return f"{self._expectation()}.{counts}{self._what_raises_it()}"

    def _expectation(self) -> str:
        known = "Examples, titles and aliases are decided without a model, word for word"
        if self.max_error is None:
            return f"{known}; all else is for the chat model, as no error budget is set (max_error)"
        if self.share_alone is None:
            return f"{known}; all else is for the chat model: {self.caveat or 'confidence is not known'}"
        budget = f"an error budget of {self.max_error:.1%}"
        if not self.share_alone:
            return f"{known}; all else is for a model: within {budget} recall decides nothing alone"
        error = ""
        if self.expected_error is not None:
            error = f", {self.expected_error:.1%} of them wrongly,"
        by = f", by {count_of(self.learned_from, 'logged request')}" if self.learned_from else ""
        share = f"{self.share_alone:.1%} alone{error} within {budget}{by}"
        return f"{known}; of other requests recall is expected to decide {share}"

    def _what_raises_it(self) -> str:
        ways: list[str] = []
        if self.share_alone is not None and self.share_alone >= 1:
            return ""
        if self.thin_flows:
            ways.append(f"more examples, first of {some_of(self.thin_flows, _MOST_NAMED)}")
        if self.calibrated_share is not None:
            these = count_of(self.labelled, "labelled request")
            ways.append(f"the {these} given to calibrate, which gives {self.calibrated_share:.1%}")
        elif self.share_alone is not None and self.labelled < _ENOUGH_LABELLED:
            more = " more" if self.labelled else ""
            ways.append(f"{_ENOUGH_LABELLED - self.labelled}{more} labelled requests or judged decisions of the log")
        if self.wider_budget is not None and self.wider_share is not None:
            ways.append(f"a budget of {self.wider_budget:.0%}, which gives {self.wider_share:.1%}")
        return f" What may raise it: {'; or '.join(ways)}." if ways else ""


def forecast(  # noqa: PLR0913 - what is known, by name
    answers: LeaveOneOutConfidence | None,
    policy: Policy,
    flows: Collection[BaseFlow],
    *,
    caveat: str = "",
    shares_budget: bool = False,
    evidence: Sequence[AnsweredCase] = (),
    measured: DecidedAlone | None = None,
    logged: LoggedAlone | None = None,
    thresholds: Thresholds | None = None,
) -> Forecast:
    """Return what a policy lets recall decide alone.

    Args:
        answers: Recall's confidence in its answers to the examples of the catalogue; None if it is not known.
        policy: The policy.
        flows: The flows of the catalogue.
        caveat: Why `answers` are not known.
        shares_budget: Whether a decision model follows, which takes a part of the error budget.
        evidence: Labelled requests, as recall answered them.
        measured: What was decided alone of labelled requests.
        logged: What `logged_alone` found in the log.
        thresholds: What a sync learned from a log, which stands before what examples say; None without one.
    """
    log = logged or LoggedAlone()
    known = (*evidence, *log.evidence)
    found = Forecast(
        max_error=policy.max_error, labelled=len(known), measured=measured, logged=log.counts, caveat=caveat
    )
    in_force = thresholds
    if in_force is None and answers is not None:
        in_force = answers.thresholds()
    if in_force is None or not in_force.confidences:
        return found if policy.max_error is None else replace(found, thin_flows=_thin(flows))
    part = SHARED if shares_budget else 1.0
    budget = (policy.max_error or 0.0) * part
    share = in_force.share_alone(budget)
    for wider in _WIDER:
        reached = in_force.share_alone(wider * part)
        if wider * part > budget and reached >= share + _WORTH_TELLING:
            found = replace(found, wider_budget=wider, wider_share=reached)
            break
    if policy.max_error is None:
        return found
    calibrated = 0.0
    if thresholds is None and answers is not None:  # what was learned from a log is calibrated already
        calibrated = _calibrated_share(answers, budget, known)
    expected_error: float | None = None
    if share:
        expected_error = in_force.expected_error(in_force.threshold(budget))
    return replace(
        found,
        share_alone=share,
        expected_error=expected_error,
        learned_from=0 if thresholds is None else thresholds.requests,
        thin_flows=_thin(flows),
        calibrated_share=calibrated if calibrated >= share + _GAIN else None,
    )


def _calibrated_share(answers: LeaveOneOutConfidence, budget: float, evidence: Sequence[AnsweredCase]) -> float:
    """Return the share that is decided alone once confidence is calibrated to labelled requests; 0 without any."""
    if not evidence:
        return 0.0
    line = fit_line(evidence)
    return answers.thresholds(line).share_alone(budget)


def chosen_alone(reason: Reason | str, *, asked: bool) -> bool:
    """Whether recall chose a flow by itself: no model was asked, and not for want of one."""
    return not asked and reason in _CHOSEN_ALONE


def logged_alone(
    log: "OutcomeLog", agent_id: str, *, since: float | None = None, days: int | None = None
) -> LoggedAlone:
    """Count what a log of outcomes says was decided alone, and take what people said of its entries as evidence.

    Args:
        log: The log.
        agent_id: The agent whose entries count.
        since: The earliest time, in seconds since 1970.
        days: What `since` is, in days before now.

    Raises:
        OutcomeLogError: The log cannot be read.
    """
    counts = log.count(agent_id=agent_id, since=since)
    if not counts:
        return LoggedAlone()
    corrected = log.read(agent_id=agent_id, corrected=True, since=since)
    judged = [entry for entry in corrected if entry.is_corrected_by_human]
    alone = [entry for entry in judged if chosen_alone(entry.reason, asked=entry.asked)]
    found = DecidedAlone(
        requests=counts.total(),
        alone=sum(count for (reason, asked), count in counts.items() if chosen_alone(reason, asked=asked)),
        known=counts[Reason.EXAMPLE.value, False],
        judged=len(alone),
        wrong=sum({*entry.chosen} != {*(entry.right or ())} for entry in alone),
        days=days,
    )
    evidence: list[AnsweredCase] = []
    for entry in judged:
        # A threshold is for requests that open a conversation and that recall has to rank, not for known ones.
        if entry.confidence is None or not entry.alone or entry.reason == Reason.EXAMPLE:
            continue
        if entry.right is not None and len(entry.right) <= 1:
            evidence.append((entry.confidence, entry.right == (entry.first,)))
    return LoggedAlone(counts=found, evidence=tuple(evidence))


def _thin(flows: Collection[BaseFlow]) -> tuple[str, ...]:
    """Return the names of flows with fewer examples than the median flow, the fewest first."""
    with_counts: Sequence[tuple[int, str]] = sorted((len(flow.examples), flow.name) for flow in flows)
    if not with_counts:
        return ()
    median = with_counts[len(with_counts) // 2][0]
    below = [name for count, name in with_counts if count < median]
    if below:
        return tuple(below)
    return tuple(name for _, name in with_counts[:_MOST_NAMED])  # all have about as many
