"""Records a selector's selections and feedback on them in a log of outcomes."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Annotated

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.outcomes.callers import current_caller
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.selector.candidates_stage import Request
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.text import as_text, near, nfc
from jazz_select.threads import in_thread
from jazz_select.values import Source

_LONGEST = 80


class Outcomes:
    """The log of outcomes of one selector."""

    @checked
    def __init__(
        self,
        log: Annotated[OutcomeLog | str | PathLike[str], Constraint("an OutcomeLog, the path of its file, or None")],
        agent_id: str,
        registry: Mapping[str, BaseFlow],
    ) -> None:
        """Take a log, or open the file at a path; the selector closes a log that it opened."""
        self._owned = not isinstance(log, OutcomeLog)
        self.log = log if isinstance(log, OutcomeLog) else OutcomeLog(log)
        self._agent_id = agent_id
        self._registry = registry

    async def close(self) -> None:
        """Close the log if the selector opened it."""
        if self._owned:
            await in_thread(self.log.close)

    def noted(self, request: Request, result: FlowSelectionResult) -> FlowSelectionResult:
        """Record a result, and return it with the id of its entry."""
        entry = self.log.record(
            request.query,
            result.decision,
            agent_id=self._agent_id,
            chosen=result.names,
            alone=not request.summaries and request.situation is None,
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
        names = self._checked(right)
        if not entry:
            raise ConfigError("this selection has no entry in the log: nothing was asked, or it could not be written")
        if not await in_thread(self._may_correct, entry):
            raise ConfigError(
                f"the log {self.log.path.name} has no entry {entry!r:.80}: pass a result of this selector, or its "
                "`logged`; of what another one selected, tell that one"
            )
        await in_thread(partial(self.log.correct, entry, names, note=note, source=source))

    def _may_correct(self, entry: str) -> bool:
        found, caller = self.log.get(entry), current_caller()
        if found is None or found.agent_id != self._agent_id:
            return False
        return caller.may_teach or found.chosen_by.key == caller.key

    def _checked(self, right: Collection[str]) -> tuple[str, ...]:
        given: tuple[object, ...] = (right,) if isinstance(right, str) else tuple(right)
        names = [nfc(each) if isinstance(each, str) else each for each in given]  # pyright: ignore[reportUnnecessaryIsInstance]
        known = {flow.name for flow in self._registry.values()}
        for name in names:
            if not isinstance(name, str) or name not in known:  # pyright: ignore[reportUnnecessaryIsInstance]
                said = as_text(name)[:_LONGEST]
                found = near(said, known, most=3)
                more = f" (did you mean {', '.join(map(repr, found))}?)" if found else ""
                raise ConfigError(f"right: there is no flow {said!r}{more}; right=[] says that nothing fits")
        return tuple(dict.fromkeys(names))
