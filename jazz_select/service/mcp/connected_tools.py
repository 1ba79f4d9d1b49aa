"""What can be called over MCP: an agent's own tools and those behind a gateway, found by what they do or by name."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from jazz_select.errors import ConfigError, JazzSelectError, OutcomeLogError
from jazz_select.evaluation.tool_examples import (
    ToolExamples,
    examples_in_log,
    keep_examples,
    load_tool_examples,
    write_tool_examples,
)
from jazz_select.outcomes.evidence import same_request
from jazz_select.outcomes.log import OutcomeLog
from jazz_select.routing.names.resolution import NameIndex, Resolution
from jazz_select.routing.tools.tool import Tool
from jazz_select.routing.tools.tool_memory import RecalledTools, ToolRecall, sync_tools
from jazz_select.service.mcp.gateway import Gateway
from jazz_select.service.running import RunningCatalogue
from jazz_select.text import beginning, in_log
from jazz_select.threads import in_thread
from jazz_select.words import stems

_STARTING_S: Final = 5.0
"""How long requests wait for servers that have only just been started, all of them together."""
_SETTLED_S: Final = 0.2
"""Seconds without a change after which what changed is indexed."""
_LONGEST_NOTE: Final = 300
_WRITTEN_AT_ONCE: Final = 40
"""Tools that a model is asked about before what it wrote is kept, and what is listed meanwhile is indexed."""
_MOST_WRITTEN: Final = 1_000
"""Tools that a model is asked to write examples for while one process runs: a server may invent tools without end."""
_log = logging.getLogger(__name__)


class ConnectedTools:
    """The tools of one agent, as they are now. The index is brought to them whenever they are others.

    Attributes:
        stirred: Set where something may be other than it was: then the index is looked at.
    """

    def __init__(self, running: RunningCatalogue, gateway: Gateway | None = None) -> None:
        self._running, self._gateway = running, gateway
        self._known: tuple[int, int] | None = None
        self._examples, self._examples_problem = ToolExamples(), ""
        self._may_write = _MOST_WRITTEN
        self._tools: Mapping[str, Tool] = {}
        self._names: NameIndex = NameIndex(())
        self._indexed: tuple[int, int, int] | None = None
        self._indexing = asyncio.Lock()
        self.stirred = asyncio.Event()
        self.stirred.set()
        self._patience_ends: float | None = None
        if gateway is not None:
            gateway.changed = self.stirred.set

    @property
    def tools(self) -> Mapping[str, Tool]:
        """By name: the agent's own first. Where one of a server has the name of an own one, the own one has it."""
        self._refresh()
        return self._tools

    def resolve(self, name: object) -> Resolution:
        """Resolve a name to a tool; a near miss of a destructive tool is only suggested."""
        self._refresh()
        return self._names.resolve(name)

    def is_foreign(self, tool: Tool) -> bool:
        """Tell whether a tool belongs to a server behind the gateway, or may do: it is not one of the agent's own."""
        return self._gateway is not None and self._running.live.tools.get(tool.name) is not tool

    async def ready(self) -> None:
        """Wait until each server was tried once, for a while at most: afterwards none is waited for."""
        if self._gateway is None:
            return
        if self._patience_ends is None:
            self._patience_ends = monotonic() + _STARTING_S
        await self._gateway.wait_until_tried(max(self._patience_ends - monotonic(), 0.0))

    async def search(self, request: str, limit: int) -> RecalledTools:
        """Find at most `limit` tools for a request, possibly none; see `ToolRecall.search`."""
        await self.ready()
        running = self._running
        tools, notes = self.tools, self._connection_notes()
        if len(tools) <= limit and running.decider is None:  # recall knows too little of so few
            return RecalledTools(sorted(tools.values(), key=lambda each: each.name), notes=notes)
        try:
            await self._index()
            recall = ToolRecall(running.memory, running.agent_id, decider=running.decider)
            found = await recall.search(request, tools, limit)
        except JazzSelectError as error:
            self._not_indexed(error)
            why = f"the index failed, so these were found by their words: {beginning(str(error), _LONGEST_NOTE)}"
        else:
            if found or found.p_none is not None:
                more = (beginning(each, _LONGEST_NOTE) for each in (*self._of_examples(), *found.notes))
                found.notes = (*notes, *more)
                return found
            why = "the index found nothing, so these were found by their words"
        return RecalledTools(_by_words(request, tools, limit), notes=(*notes, why))

    def _not_indexed(self, error: JazzSelectError) -> None:
        agent_id = self._running.agent_id
        _log.warning("agent_id=<%s>, error=<%s> | tools could not be indexed", agent_id, in_log(error))

    async def keep_indexed(self) -> None:
        """Index what servers list anew, as it comes, until this is cancelled: a search then need not wait for it."""
        while True:
            await self.stirred.wait()
            await asyncio.sleep(_SETTLED_S)
            self.stirred.clear()
            if not self._running.is_ready:  # stirred again once there is anything to index
                continue
            try:
                await self._index()
                await self._write_examples()
            except JazzSelectError as error:  # the next search tries it again, and says so
                self._not_indexed(error)

    # --- inside --------------------------------------------------------------------

    def _version(self) -> tuple[int, int]:
        return self._running.live.number, self._gateway.version if self._gateway is not None else 0

    def _refresh(self) -> None:
        version = self._version()
        if version == self._known:
            return
        own = self._running.live.tools
        foreign: Mapping[str, Tool] = {}
        if self._gateway is not None:
            self._gateway.names.reserve(own)
            taken = {name.casefold() for name in own}
            foreign = {name: tool for name, tool in self._gateway.tools.items() if name.casefold() not in taken}
        self._tools = {**own, **foreign}
        self._names = NameIndex(self._tools.values())
        self._known = version

    async def _index(self) -> None:
        async with self._indexing:
            file = self._running.tool_examples
            version = (*self._version(), 0 if file is None else await in_thread(_changed_at, file))
            if self._indexed == version:
                return
            tools = self.tools
            if not tools:
                return
            if file is not None:
                await self._read_examples(file)
            running, listed = self._running, list(tools.values())
            examples = await self._with_logged(self._examples.examples_for(listed), listed)
            report = await sync_tools(running.memory, running.agent_id, listed, examples=examples, allow_delete=True)
            self._indexed = version
            written = len(report.created) + len(report.updated)
            message = "agent_id=<%s>, tools=<%d>, written=<%d> | the connected tools are indexed"
            _log.info(message, running.agent_id, len(tools), written)

    async def _with_logged(
        self, examples: Mapping[str, Sequence[str]], tools: Sequence[Tool]
    ) -> Mapping[str, Sequence[str]]:
        """Return the examples with the requests that a log is evidence for, but for tools that are to have none."""
        evidence = self._running.evidence
        if evidence is None:
            return examples

        def read() -> Mapping[str, Sequence[str]]:
            if isinstance(evidence, OutcomeLog):
                return examples_in_log(evidence, self._running.agent_id, tools)
            with OutcomeLog.existing(evidence) as log:
                return examples_in_log(log, self._running.agent_id, tools)

        try:
            logged = await in_thread(read)
        except OutcomeLogError as error:
            _log.warning("log=<%s>, error=<%s> | no examples of tools are read from it", evidence, in_log(error))
            return examples
        merged = dict(examples)
        for name, texts in logged.items():
            given = examples.get(name)
            if given is None or given:
                known = {same_request(text) for text in given or ()}
                merged[name] = (*(given or ()), *(text for text in texts if same_request(text) not in known))
        return merged

    async def _read_examples(self, file: Path) -> None:
        """Read what is in the file now; one that cannot be read changes nothing, and searches say so."""
        try:
            self._examples, self._examples_problem = await in_thread(load_tool_examples, file), ""
        except ConfigError as error:
            self._examples_problem = str(error)
            _log.warning("file=<%s>, error=<%s> | examples of tools cannot be read", file, in_log(error))

    async def _write_examples(self) -> None:
        """Have the model write examples for tools that have none for what they are now, and index these again."""
        file, model = self._running.tool_examples, self._running.model
        tools = list(self.tools.values())
        if file is None or model is None or self._examples_problem or not self._may_write:
            return
        encoder = self._running.memory.encoder
        most = min(self._may_write, _WRITTEN_AT_ONCE)
        written = await write_tool_examples(tools, self._examples, model, encoder=encoder, most_tools=most)
        self._may_write -= written.asked
        for note in written.notes:
            _log.warning("note=<%s> | examples of tools", in_log(note))
        if written.texts:
            self._examples = await in_thread(keep_examples, file, written)
            self.stirred.set()
            count = sum(len(texts) for _, texts in written.texts)
            _log.info("file=<%s>, tools=<%d>, examples=<%d> | examples were written", file, len(written.texts), count)

    def _of_examples(self) -> tuple[str, ...]:
        if not self._examples_problem:
            return ()
        return (f"the examples of tools are those of before: {self._examples_problem}",)

    def _connection_notes(self) -> tuple[str, ...]:
        if self._gateway is None:
            return ()
        notes = list(self._gateway.notes)
        for upstream in self._gateway.upstreams:
            if upstream.state == "up":
                continue
            effect = "its tools fail until it is back" if upstream.tools else "its tools are not known yet"
            problem = f" ({upstream.problem})" if upstream.problem else ""
            notes.append(f"the MCP server {upstream.spec.name} is not connected: {effect}{problem}")
        for upstream in self._gateway.upstreams:
            for name, why in upstream.withheld.items():
                shown = f"{upstream.spec.prefix}{name}"
                notes.append(f"{shown} is withheld: its server has changed its {why}; start anew to allow it")
        return tuple(notes)


def _changed_at(file: Path) -> int:
    """Return when a file was last changed, in nanoseconds since 1970; 0 where there is none."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _by_words(request: str, tools: Mapping[str, Tool], limit: int) -> tuple[Tool, ...]:
    """Return the tools that share most words with the request, if the index is unavailable."""
    wanted = set(stems(request))

    def shared(tool: Tool) -> int:
        return len(wanted & set(stems(f"{tool.name} {beginning(tool.description, _LONGEST_NOTE)}")))

    best = sorted(tools.values(), key=lambda tool: (-shared(tool), tool.name))[:limit]
    return tuple(sorted(best, key=lambda tool: tool.name))
