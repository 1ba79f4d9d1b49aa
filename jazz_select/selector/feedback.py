"""Records a selector's selections and feedback on them in a log of outcomes."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import PurePath
from typing import Annotated

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError, OutcomeLogError
from jazz_select.flow.base import BaseFlow
from jazz_select.outcomes.audit import Audit, audit_of, chance_share, is_audited, is_overdue
from jazz_select.outcomes.callers import current_caller
from jazz_select.outcomes.evidence import ASK_AGAIN
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.selector.candidates_stage import CandidateSet, Request
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.stage import AuditedEntry
from jazz_select.stages import Move
from jazz_select.text import as_text, in_log, near, nfc
from jazz_select.threads import in_thread
from jazz_select.values import Candidate, Decision, Reason, Source

_LONGEST = 80
_MOST_UNMEASURED = 10
"""Answers that agree with recall, where a raised threshold has all asked, until the promise is measured again."""
_log = logging.getLogger(__name__)


class Outcomes:
    """The log of outcomes of one selector."""

    @checked
    def __init__(
        self,
        log: Annotated[OutcomeLog | str | PathLike[str], Constraint("an OutcomeLog, the path of its file, or None")],
        agent_id: str,
        registry: Mapping[str, BaseFlow],
        *,
        promise: Callable[[BaseFlow | None], float | None],
        audit_share: float,
    ) -> None:
        """Take a log, or open the file at a path; the selector closes a log that it opened.

        `promise` is the error budget of a flow, or of all where it is None; `audit_share` that of `ModelOptions`.
        """
        self._owned = not isinstance(log, OutcomeLog)
        self.log = log if isinstance(log, OutcomeLog) else OutcomeLog(log)
        self._agent_id = agent_id
        self._registry = registry
        self._promise, self._audit_share = promise, audit_share
        self._unmeasured = 0
        self._silent = Counter[str]()
        """Answers with a flow since one was last asked: those in the log when it was measured, and its own since."""
        self._measuring = threading.Lock()
        self._asked = self._measured = 0
        self.audit: Audit | None = None
        """What was measured of the promise; None before recall was first taught by a log."""

    async def close(self) -> None:
        """Close the log if the selector opened it."""
        if self._owned:
            await in_thread(self.log.close)

    async def begin(self, request: Request, narrowed: CandidateSet) -> AuditedEntry:
        """Return the entry that a request will have, and what the audit demands of it."""
        entry, first = self.log.new_id(), next(iter(narrowed.candidates), None)
        if narrowed.thresholds is None or first is None:
            return AuditedEntry(id=entry)
        if self.audit is None:
            await self.measure()
        audit = Audit() if self.audit is None else self.audit
        is_due = _is_nearly_sure(first) and is_overdue(self._silent[first.flow_name], self._audit_share)
        if is_due:
            self._silent[first.flow_name] = 0  # at once: of requests that come together, one is enough
        return AuditedEntry(
            id=entry,
            is_sampled=is_due or is_audited(request.query, entry, chance_share(self._audit_share)),
            is_suspected=first.flow_name in audit.suspected,
            raised=audit.threshold(first.flow_name),
        )

    async def end(self, result: FlowSelectionResult, *, is_sure: bool) -> None:
        """Measure the promise again after each audit, and where a model differs from what recall was nearly sure of.

        Where a raised threshold has all asked, and models agree, it is measured less often.
        """
        decision = result.decision
        first = next(iter(decision.candidates), None)
        if first is not None and _is_nearly_sure(first):
            is_alone = is_sure and decision.reason is Reason.CONFIDENT
            self._silent[first.flow_name] = self._silent[first.flow_name] + 1 if is_alone else 0
        if not is_sure:
            if self.audit is not None and first is not None and _is_surprise(decision, first):
                await self.measure()
            return
        if decision.reason is Reason.CONFIDENT:
            return
        self._unmeasured += 1
        is_agreed = first is not None and decision.chosen_ids == (first.flow_id,)
        is_closed = first is not None and self.audit is not None and self.audit.threshold(first.flow_name) > 0
        if not (is_agreed and is_closed) or self._unmeasured >= _MOST_UNMEASURED:
            await self.measure()

    async def measure(self) -> None:
        """Measure the promise in the log, and keep the moves of thresholds that follow. A log that fails is told of."""
        flows = {flow.name: flow for flow in self._registry.values()}
        self._unmeasured = 0
        self._asked += 1
        try:
            due = await in_thread(self._measure, self._asked, partial(self._promise_of, flows))
        except OutcomeLogError as error:
            _log.warning("error=<%s> | the promise could not be measured", in_log(error))
            return
        for each in due:
            of = f"for {each.flow}" if each.flow else "for all flows"
            _log.warning("agent=<%s> | threshold %s %s: %s", self._agent_id, each.kind, in_log(of), in_log(each.why))

    def _measure(self, number: int, promise: Callable[[str], float | None]) -> tuple[Move, ...]:
        """Measure one after the other, so that none puts a threshold back to what it was before another one ran.

        Requests to measure that came before one began are answered by it.
        """
        with self._measuring:
            if number <= self._measured:
                return ()
            answered = self._asked
            self.audit, due = audit_of(self.log, self._agent_id, promise, keeps=True)
            self._silent = Counter(self.audit.silent)
            self._measured = answered
            return due

    def _promise_of(self, flows: Mapping[str, BaseFlow], name: str) -> float | None:
        return self._promise(flows.get(name))

    def record(
        self, request: Request, result: FlowSelectionResult, *, alone: bool, is_sure: bool = False, entry: str = ""
    ) -> FlowSelectionResult:
        """Record a result, and return it with the id of its entry.

        `alone` says whether the text of the request is all that the choice was made by.
        """
        entry = self.log.record(
            request.query,
            result.decision,
            agent_id=self._agent_id,
            chosen=result.names,
            alone=alone,
            sure=is_sure,
            entry=entry,
        )
        return replace(result, logged=entry)

    @checked
    async def keep_right(
        self,
        result: Annotated[FlowSelectionResult | str, Constraint("what was selected, or its `logged`")],
        right: Annotated[Collection[str], Constraint("names of flows, or [] where nothing fits")],
        note: str,
        source: Source | None = None,
    ) -> None:
        """Record which flows were right for a selection of this agent, made with the caller's own key or a teacher's.

        Whatever else the caller may not correct is told like what is not there.
        """
        entry = result if isinstance(result, str) else result.logged
        names = self._check_right(right)
        if not entry:
            raise ConfigError("this selection has no entry in the log: nothing was asked, or it could not be written")
        if not await in_thread(self._may_correct, entry):
            raise ConfigError(
                f"the log {PurePath(self.log.name).name} has no entry {entry!r:.80}: pass a result of this selector, "
                "or its `logged`; feedback on another selector's result goes to that selector"
            )
        await in_thread(partial(self.log.correct, entry, names, note=note, source=source))
        if self.audit is not None and source is not None and source.kind == "person":
            await self.measure()

    def _may_correct(self, entry: str) -> bool:
        found, caller = self.log.get(entry), current_caller()
        if found is None or found.agent_id != self._agent_id:
            return False
        return caller.may_teach or found.chosen_by.key == caller.key

    def _check_right(self, right: Collection[str]) -> tuple[str, ...]:
        given: tuple[object, ...] = (right,) if isinstance(right, str) else tuple(right)
        names = [nfc(each) if isinstance(each, str) else each for each in given]  # pyright: ignore[reportUnnecessaryIsInstance]
        known = {flow.name for flow in self._registry.values()}
        for name in names:
            if not isinstance(name, str) or name not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
                shown = as_text(name)[:_LONGEST]
                found = near(shown, known, most=3)
                more = f" (did you mean {', '.join(map(repr, found))}?)" if found else ""
                raise ConfigError(f"right: there is no flow {shown!r}{more}; right=[] says that nothing fits")
        return tuple(dict.fromkeys(names))


def _is_surprise(decision: Decision, first: Candidate) -> bool:
    """Whether something else was chosen than what recall was nearly sure of."""
    return _is_nearly_sure(first) and first.flow_id not in decision.chosen_ids


def _is_nearly_sure(first: Candidate) -> bool:
    return first.confidence is not None and first.confidence >= ASK_AGAIN
