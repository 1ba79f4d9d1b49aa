"""The flows of a turn, one after the other, until one waits or all are done."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from jazz_select.agent.conversation import OpenFlow
from jazz_select.agent.flows import FlowRun, FlowRunner
from jazz_select.agent.loops import Loops
from jazz_select.agent.slots import from_words
from jazz_select.agent.turn import Work
from jazz_select.errors import JazzSelectError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.ports import ChatModel
from jazz_select.routing.call import as_json
from jazz_select.routing.execute import FlowExecutor
from jazz_select.routing.tool import Tool
from jazz_select.selector.select import FlowSelector
from jazz_select.telemetry import described
from jazz_select.values import Reason, flow_id

_SURE = 0.5


class Running:
    """Runs the flows of turns."""

    def __init__(
        self, selector: FlowSelector, executor: FlowExecutor, model: ChatModel | None, loops: Loops | None
    ) -> None:
        """Take who finds branches, who runs chains, and who goes on where a flow is open, if anyone does."""
        self._selector = selector
        self._executor = executor
        self._model = model
        self._loops = loops

    def flow(self, name: str) -> BaseFlow | None:
        """The live flow of this name."""
        return self._selector.flow_registry.get(flow_id(name))

    def prompts(self, work: Work) -> str:
        """The prompts of the flows under way, the active one first."""
        found = [self.flow(each.name) for each in reversed(work.flows)]
        return "\n\n".join(flow.build_prompt(verbose=False) for flow in found if flow is not None)

    async def run(self, work: Work) -> None:
        """Run what is on top, and what was queued below it once that is done."""
        while work.flows:
            top, below = work.flows[-1], work.flows[:-1]
            flow = self.flow(top.name)
            if flow is None:
                work.flows, work.reason = below, f"there is no flow {top.name!r} any more"
                continue
            run = await self._one(work, top, flow)
            work.runs.append(run)
            work.status = run.status
            if run.status in {"done", "failed"}:
                work.flows = below
                if run.status == "done" and below and below[-1].status == "queued":
                    continue
                work.resumed = below[-1].name if below else ""
            else:
                work.flows = (*below, _kept(top, run))
            return

    async def converse(self, work: Work) -> None:
        """No flow fits: a model with every tool, or nobody."""
        if self._loops is None:
            work.status = "open"
            work.reason = work.reason or "no flow fits"
            return
        chain, problem, error = await self._loops.talk(work, None, FlowRun(flow="", facts=work.facts))
        work.chain, work.text, work.error = chain, chain.text, error or work.error
        work.status, work.reason = ("failed", problem) if error else ("done", work.reason)
        work.incomplete = chain.incomplete

    async def _one(self, work: Work, top: OpenFlow, flow: BaseFlow) -> FlowRun:
        facts = {**work.facts, **top.facts, **work.given}
        work.given = {}

        async def go_on(part: BaseFlow, run: FlowRun) -> FlowRun:
            return await self._gone_on(work, part, run)

        async def choose(conditional: ConditionalFlow) -> BaseFlow | None:
            return await self._branch(work, conditional)

        async def fill(tool: Tool, missing: tuple[str, ...], known: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG001
            said = [each.content for each in work.conversation.messages if each.role == "user"]
            return await from_words(self._model, tool, missing, [*said[-5:], work.message]) if self._model else {}

        if top.status == "active":  # its chain has ended and must not run again
            begun = FlowRun(
                flow=flow.name, type=flow.type, status="open", facts=facts, problem="which tool comes next is open"
            )
            return await go_on(flow, begun) if self._loops else begun
        runner = FlowRunner(
            self._executor,
            choose=choose,
            go_on=go_on if self._loops else None,
            fill=fill if self._model else None,
        )
        try:
            return await runner.run(flow, facts, done=top.done)
        except JazzSelectError as error:
            work.error = error
            return FlowRun(flow=flow.name, type=flow.type, status="failed", facts=facts, problem=described(error))

    async def _gone_on(self, work: Work, flow: BaseFlow, run: FlowRun) -> FlowRun:
        """A model goes on where a flow is open; the flow stays under way."""
        if self._loops is None:
            return run
        chain, problem, error = await self._loops.talk(work, flow, run)
        work.chain, work.error = chain, error or work.error
        work.incomplete = work.incomplete or chain.incomplete
        if error is not None:
            return replace(run, status="failed", problem=problem)
        return replace(run, status="active", text=chain.text, problem="")

    async def _branch(self, work: Work, flow: ConditionalFlow) -> BaseFlow | None:
        """The branch whose text holds, as a model reads it; without one, the branch that recall is sure of."""
        links = [(when, flow.resolve(part)) for when, part in flow.links()]
        branches = [(when, part) for when, part in links if when != ""]
        otherwise = next((part for when, part in links if when == ""), None)
        offered = [
            {
                "flow_id": part.id,
                "flow_name": part.name,
                "flow_type": part.type,
                "description": part.description,
                "condition": when or part.condition,
                "desired_effects": list(part.desired_effects),
            }
            for when, part in branches
        ]
        episodes = work.conversation.episodes
        if len(branches) == 1 and otherwise is None:
            return branches[0][1]
        chosen = await self._selector.select(work.message, offered, episodes)
        if chosen.decision.reason is Reason.LLM:
            return chosen.chosen_flows[0]
        if chosen.decision.reason in {Reason.NONE, Reason.FALLBACK_EMPTY}:
            return otherwise
        ids = _ids(part for _, part in branches)
        found = (await self._selector.select(work.message, None, episodes, only=ids)).decision
        sure = found.confidence is not None and found.confidence >= _SURE and found.candidates
        by_id = {part.id: part for _, part in branches}
        return by_id.get(found.candidates[0].flow_id, otherwise) if sure else otherwise


def _kept(top: OpenFlow, run: FlowRun) -> OpenFlow:
    """A flow that goes on in a later turn, with what it knows."""
    status = "waiting" if run.status == "waiting" else "active"
    facts = {name: as_json(value) for name, value in run.facts.items()}
    return top.model_copy(update={"status": status, "asks": run.asks, "done": run.done, "facts": facts})


def _ids(flows: Any) -> Collection[str]:
    return [flow.id for flow in flows]
