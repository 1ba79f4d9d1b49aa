"""The flows of a turn, one after the other, until one waits or all are done."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.flows.branches import branch_of
from jazz_select.agent.flows.flow_run import FlowRun, doubtful, progress_of
from jazz_select.agent.flows.open_flows import OpenFlows
from jazz_select.agent.flows.runner import FlowRunner
from jazz_select.agent.flows.slots import Wanted, from_words, unused, wanted_of
from jazz_select.agent.turn import Work
from jazz_select.errors import FlowError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.json_values import storable_fields
from jazz_select.ports import ChatModel
from jazz_select.routing.executor import FlowExecutor, chain_of
from jazz_select.routing.schemas.compatibility import outputs
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.availability import Availability
from jazz_select.selector.select import FlowSelector
from jazz_select.text import describe_error
from jazz_select.values import flow_id

_MOST_NAMED = 5


class TurnFlows:
    """Runs the flows of turns."""

    def __init__(
        self, selector: FlowSelector, executor: FlowExecutor, model: ChatModel | None, loops: OpenFlows | None
    ) -> None:
        """Take who finds branches, who runs chains, and who goes on where a flow is open, if anyone does."""
        self._selector = selector
        self._executor = executor
        self._model = model
        self._loops = loops

    def flow(self, name: str) -> BaseFlow | None:
        """The live flow of this name."""
        return self._selector.flow_registry.get(flow_id(name))

    def prompts(self, flows: tuple[OpenFlow, ...]) -> str:
        """The prompts of the flows under way, the active one first; of one that cannot be told, none."""
        return "\n\n".join(filter(None, (_prompt(self.flow(each.name)) for each in reversed(flows))))

    def wanted(self, open_flow: OpenFlow) -> dict[str, Wanted]:
        """The schemas of what a flow waits for, in the order of asking."""
        flow = self.flow(open_flow.name)
        try:
            tools = [] if flow is None else list(self._tools_of(flow))
        except FlowError:
            tools = []
        found = wanted_of([*tools, *self._executor.tools.values()], open_flow.asks)
        return {name: found[name] for name in open_flow.asks if name in found}

    async def found(self, work: Work, open_flow: OpenFlow) -> dict[str, Any]:
        """What a model finds in the message of what a flow waits for; nothing without one."""
        return await from_words(self._model, self.wanted(open_flow), [work.message]) if self._model else {}

    def destroys(self, name: str) -> bool:
        """Whether a tool of this flow destroys something."""
        flow = self.flow(name)
        try:
            return flow is not None and any(tool.destructive for tool in self._chained(flow))
        except FlowError:
            return True

    async def run(self, work: Work) -> None:
        """Run what is on top, and what was queued below it once that is done."""
        while work.flows:
            top, below = work.flows[-1], work.flows[:-1]
            answers: dict[str, Any] = {}
            try:
                run = await self._one(work, top, answers)
            except Exception as error:  # noqa: BLE001 - whatever an author's part fails with, the turn goes on
                run = FlowRun(flow=top.name, status="failed", problem=describe_error(error), begun=False)
            work.runs.append(run)
            work.status = run.status
            kept = {"answers": {**top.answers, **storable_fields(answers)}, "asks": run.asks, "named": run.named}
            progress = top.model_copy(update=kept)
            if run.begun:
                progress = progress.model_copy(update={"parts": progress_of(run, top.parts)})
            work.failed = tuple(each for each in work.failed if each.name != top.name)
            if run.status in {"done", "failed"}:
                work.flows = below
                if run.status == "failed" and progress.is_final:
                    doubt = doubtful(run, self._executor.tools)
                    work.failed = (*work.failed, progress.model_copy(update={"status": "failed", "doubt": doubt}))
                if run.status == "done" and below and below[-1].status == "queued":
                    continue
                work.resumed = below[-1].name if below else ""
            else:
                status = "waiting" if run.status == "waiting" else "active"
                work.flows = (*below, progress.model_copy(update={"status": status}))
            return

    async def converse(self, work: Work) -> None:
        """No flow fits: a model with every tool, or nobody."""
        if self._loops is None:
            work.status = "open"
            work.reason = work.reason or "no flow fits"
            return
        talked = await self._loops.talk(work, None, FlowRun(flow=""))
        work.chain, work.text, work.error = talked.chain, talked.chain.text, talked.error or work.error
        work.status = "failed" if talked.error else "done"
        work.reason = str(talked.error) if talked.error else work.reason
        work.incomplete = talked.chain.incomplete

    async def _one(self, work: Work, top: OpenFlow, answers: dict[str, Any]) -> FlowRun:
        """Run one flow; what is found in the user's words on the way goes into `answers`."""
        flow = self.flow(top.name)
        begun = FlowRun(flow=top.name, status="failed", begun=False)
        if flow is None:
            return replace(begun, problem=f"there is no flow {top.name!r} any more")
        begun = replace(begun, type=flow.type)
        closed = Availability.closed_among([flow], work.context)
        if closed.ids:
            return replace(begun, problem="; ".join(closed.notes))
        _check_chains(flow)
        facts = {**top.answers, **work.context}
        if top.doubt:
            return replace(begun, status="waiting", problem=f"{top.doubt} failed, and may have been done all the same")
        if named := await self._unheard(work, top, flow, facts, answers):
            told = f"{', '.join(named)} was named, and nothing takes it"
            return replace(begun, status="waiting", problem=told, named=tuple(named))

        async def go_on(part: BaseFlow, run: FlowRun) -> FlowRun:
            return await self._gone_on(work, part, run)

        async def choose(conditional: ConditionalFlow) -> int | None:
            return await branch_of(self._selector, conditional, work, top.request)

        async def fill(tool: Tool, missing: tuple[str, ...], known: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001
            found = await self._filled(work, top, wanted_of([tool], missing))
            answers.update(found)
            return found

        runner = FlowRunner(
            self._executor,
            top.parts,
            choose=choose,
            go_on=go_on if self._loops else None,
            fill=fill if self._model else None,
        )
        return await runner.run(flow, {**facts, **answers})

    async def _unheard(
        self, work: Work, top: OpenFlow, flow: BaseFlow, facts: Mapping[str, Any], answers: dict[str, Any]
    ) -> list[str]:
        """What the user named in particular and nothing holds, where the flow destroys something.

        A message that names order 60105 must not end in a refund of another one because a tool's `order_number` may be
        left out. A model finds out which input is meant, among those that no tool before gives.
        """
        known = {**facts, **{name: value for part in top.parts.values() for name, value in part.facts.items()}}
        said = [top.request, work.message]
        agreed = {word.casefold() for word in top.agreed}
        tools = list(self._chained(flow))  # where a model calls the tools, it reads the message itself
        if not any(tool.destructive for tool in tools) or not unused(said, known):
            return []
        if self._model is not None and not top.parts:
            answers.update(await self._filled(work, top, _unset(tools, known)))
        left = dict.fromkeys(unused(said, {**known, **answers}))
        return [word for word in left if word.casefold() not in agreed][:_MOST_NAMED]

    async def _filled(self, work: Work, top: OpenFlow, wanted: Mapping[str, Wanted]) -> dict[str, Any]:
        """Inputs of tools out of what the user has said since asking for this flow."""
        if self._model is None:
            return {}
        return await from_words(self._model, wanted, [*work.conversation.since(top.turn), work.message])

    async def _gone_on(self, work: Work, flow: BaseFlow, run: FlowRun) -> FlowRun:
        """A model goes on where a flow is open. If it fails, the flow stays as it is: nothing of it is run again."""
        if self._loops is None:
            return run
        talked = await self._loops.talk(work, flow, run)
        work.chain, work.error = talked.chain, talked.error or work.error
        work.incomplete = work.incomplete or talked.chain.incomplete
        run = replace(run, final=run.final or talked.final)
        ran = (*run.ran, *talked.ran)
        if talked.error is not None:
            return replace(run, status="active", ran=ran, problem=str(talked.error))
        return replace(run, status="done" if talked.finished else "active", ran=ran, text=talked.chain.text, problem="")

    def _tools_of(self, flow: BaseFlow) -> Iterator[Tool]:
        """The connected tools that a flow and its parts name, in their order."""
        for name in flow.tools:
            if name in self._executor.tools:
                yield self._executor.tools[name]
        for part in flow.subflows:
            yield from self._tools_of(part)

    def _chained(self, flow: BaseFlow) -> Iterator[Tool]:
        """The connected tools that its chain and those of its parts may run, in their order."""
        for step in chain_of(flow):
            names = [step] if isinstance(step, str) else getattr(step, "candidate_tools", list(self._executor.tools))
            yield from (self._executor.tools[name] for name in names if name in self._executor.tools)
        for part in flow.subflows:
            yield from self._chained(part)


def _check_chains(flow: BaseFlow) -> None:
    """See that every chain in it can be run, before any is.

    Raises:
        FlowError: One cannot.
    """
    chain_of(flow)
    for part in flow.subflows:
        _check_chains(part)


def _unset(tools: Sequence[Tool], known: Mapping[str, Any]) -> dict[str, Wanted]:
    """The inputs, left out or lacking, that no tool before theirs gives."""
    found: dict[str, Wanted] = {}
    given: set[str] = set(known)
    for tool in tools:
        found |= wanted_of([tool], [name for name in fields(tool.input_schema) if name not in given | found.keys()])
        given |= {each.name for each in outputs(tool)}
    return found


def _prompt(flow: BaseFlow | None) -> str:
    try:
        return flow.build_prompt(verbose=False) if flow is not None else ""
    except FlowError:
        return ""
