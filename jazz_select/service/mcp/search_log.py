"""What clients searched for and which tool each then called, kept in the log of outcomes."""

import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from jazz_select.outcomes.callers import current_caller
from jazz_select.routing.tools.tool import Tool
from jazz_select.routing.tools.tool_memory import RecalledTools, tool_id, tools_scope
from jazz_select.service.running import RunningCatalogue
from jazz_select.values import Candidate, Decision, Reason, Source, Tier

_MOST_SESSIONS: Final = 1_000
"""Sessions whose last search is known; those that searched last."""


@dataclass(slots=True)
class _Search:
    """The entry of a session's last search, the tools that it showed, and the one that was then called."""

    entry: str
    shown: frozenset[str]
    called: str = ""


@dataclass(slots=True)
class SearchLog:
    """The searches of one agent's tools. Without a log of outcomes it keeps nothing.

    An entry says what was searched for and what was found. A call that went well of one of the tools shown says that
    this tool was right: a hint of whoever called, which needs witnesses as all hints do. One that failed, was denied or
    is asked about says nothing, and neither does a search after which several tools were called.
    """

    running: RunningCatalogue
    _last: "OrderedDict[str, _Search]" = field(default_factory=OrderedDict[str, _Search])
    _process: str = field(default_factory=lambda: secrets.token_hex(4))

    def record_search(self, session: str, request: str, found: RecalledTools) -> None:
        """Keep a search of a session; one without a session is not kept, as its calls cannot be told."""
        log = self.running.log
        if log is None or not session:
            return
        ranked = sorted(found, key=lambda tool: -found.confidences.get(tool.name, 0.0))
        decision = Decision(
            tier=Tier.GUIDED,
            reason=Reason.SEMANTIC if found else Reason.NONE,
            candidates=tuple(_candidate(tool, found.confidences) for tool in ranked),
            p_none=found.p_none,
        )
        scope = tools_scope(self.running.agent_id)
        source = Source(kind="recall", key=current_caller().key)
        entry = log.record(request, decision, agent_id=scope, source=source)
        self._last[session] = _Search(entry, frozenset(tool.name for tool in found))
        self._last.move_to_end(session)
        while len(self._last) > _MOST_SESSIONS:
            self._last.popitem(last=False)

    def record_call(self, session: str, tool: Tool) -> None:
        """Keep that a tool was called, and did what it was called for."""
        log, search = self.running.log, self._last.get(session)
        if log is None or search is None or tool.name not in search.shown or search.called == tool.name:
            return
        is_first, search.called = not search.called, tool.name
        # Without keys a session is a conversation, and a pipe has one session for each process.
        source = Source(kind="agent", name=f"{session} {self._process}", key=current_caller().key)
        log.hint(search.entry, [tool.name] if is_first else None, source=source)
        if not is_first:
            del self._last[session]


def _candidate(tool: Tool, confidences: Mapping[str, float]) -> Candidate:
    return Candidate(flow_id=tool_id(tool.name), flow_name=tool.name, confidence=confidences.get(tool.name))
