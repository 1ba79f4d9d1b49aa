"""Running flows as what they are: parts one after the other, side by side, or the one that fits."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.routing.chains import chain_of
from jazz_select.routing.execute import FlowExecutor
from jazz_select.routing.progress import arguments_of
from jazz_select.routing.steps import StepRecord
from jazz_select.routing.tool import Tool
from jazz_select.telemetry import span

Status = Literal["done", "active", "open", "waiting", "failed"]
_WORST: Final = {"done": 0, "active": 1, "open": 2, "waiting": 3, "failed": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """What became of one flow.

    Attributes:
        flow: Its name.
        type: Its type.
        status: `done`; `active` where a model goes on with it in the turns to come; `open` where somebody else has to;
            `waiting` for facts that its first tool wants; `failed` where a step did.
        records: One for each step of its own chain.
        facts: What is known after it: what was known before, and what tools returned.
        parts: Those of a composite that were run.
        asks: What it waits for.
        text: What a model said, where one went on.
        problem: What is open, or went wrong, in words.
    """

    flow: str
    type: str = "flow"
    status: Status = "done"
    records: tuple[StepRecord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parts: tuple["FlowRun", ...] = ()
    asks: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """The records of all of it, in order of the parts."""
        return (*self.records, *(step for part in self.parts for step in part.steps))

    @property
    def done(self) -> tuple[str, ...]:
        """The names of all in it that are done."""
        own = (self.flow,) if self.status == "done" else ()
        return (*own, *(name for part in self.parts for name in part.done))


Choose = Callable[[ConditionalFlow], Awaitable[BaseFlow | None]]
"""Which branch of a conditional flow is to be run; None where none fits."""
GoOn = Callable[[BaseFlow, FlowRun], Awaitable[FlowRun]]
"""Goes on where a flow is open: a model with the flow's prompt and tools."""
Fill = Callable[[Tool, tuple[str, ...], Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Finds inputs of a tool that nothing gives yet."""


class FlowRunner:
    """Runs flows for one turn."""

    def __init__(self, executor: FlowExecutor, *, choose: Choose, go_on: GoOn | None, fill: Fill | None) -> None:
        """Take who runs chains, who chooses branches, who goes on where a flow is open, and who finds what it lacks."""
        self._executor = executor
        self._choose = choose
        self._go_on = go_on
        self._fill = fill

    async def run(self, flow: BaseFlow, facts: Mapping[str, Any], *, done: Collection[str] = ()) -> FlowRun:
        """Run a flow on what is known, without the parts that are done."""
        with span(flow.name, "node") as traced:
            run = await self._own(flow, facts)
            if run.status == "done" and flow.composite:
                run = await self._composite(flow, run, done)
            if run.status == "open" and self._go_on is not None and not flow.composite:
                run = await self._go_on(flow, run)
            if traced is not None:
                traced.note({"type": flow.type, "status": run.status, "asks": list(run.asks), "problem": run.problem})
        return run

    async def _own(self, flow: BaseFlow, facts: Mapping[str, Any]) -> FlowRun:
        """The flow's own chain; a composite needs none."""
        begun = FlowRun(flow=flow.name, type=flow.type, facts=dict(facts))
        chain = chain_of(flow)
        if not chain:
            told = "its author gave it no chain of tools"
            return begun if flow.composite else replace(begun, status="open", problem=told)
        first = self._executor.tools.get(chain[0]) if isinstance(chain[0], str) else None
        if first is not None:
            missing = tuple(arguments_of(first, facts)[1])
            if missing and self._fill is not None:
                facts = {**facts, **await self._fill(first, missing, facts)}
                missing = tuple(arguments_of(first, facts)[1])
            if missing:
                told = f"{first.name} wants {', '.join(missing)}"
                return replace(begun, status="waiting", asks=missing, facts=facts, problem=told)
        ran = await self._executor.run(chain, facts)
        status: Status = "done" if ran.status == "ok" else ran.status
        problem = ran.records[-1].error if ran.records and status != "done" else ""
        if status == "open" and not problem:
            problem = "which tool comes next is open"
        return replace(begun, status=status, records=ran.records, facts=dict(ran.context), problem=problem)

    async def _composite(self, flow: BaseFlow, begun: FlowRun, done: Collection[str]) -> FlowRun:
        left = [part for part in flow.subflows if part.name not in done]
        if isinstance(flow, ConditionalFlow):
            chosen = await self._choose(flow)
            if chosen is None:
                return replace(begun, status="open", problem="no branch fits")
            return _joined(begun, (await self.run(chosen, begun.facts, done=done),))
        if flow.type == "parallel":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self.run(part, begun.facts, done=done)) for part in left]
            return _joined(begun, tuple(task.result() for task in tasks))
        parts: list[FlowRun] = []
        facts = begun.facts
        for part in left:
            parts.append(await self.run(part, facts, done=done))
            facts = parts[-1].facts
            if parts[-1].status != "done":
                break
        return _joined(begun, tuple(parts))


def _joined(begun: FlowRun, parts: tuple[FlowRun, ...]) -> FlowRun:
    """A composite from its parts: as far as the least of them came."""
    facts = dict(begun.facts)
    for part in parts:
        facts.update(part.facts)
    if not parts:
        return begun
    worst = max(parts, key=lambda part: _WORST[part.status])
    return replace(
        begun,
        status=worst.status,
        parts=parts,
        facts=facts,
        asks=tuple(dict.fromkeys(ask for part in parts for ask in part.asks)),
        text="\n\n".join(part.text for part in parts if part.text),
        problem=f"{worst.flow}: {worst.problem}" if worst.problem else "",
    )
