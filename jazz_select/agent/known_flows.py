"""The flows that an agent knows: by name, the tools that they run, what those change, and what users give for them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jazz_select.agent.conversation import OpenFlow, asked_now
from jazz_select.agent.reading.grounding import Wanted, refined, wanted_of
from jazz_select.errors import FlowError
from jazz_select.flow.base import BaseFlow, GuidedDecisionPoint, Step, chain_of
from jazz_select.routing.schemas.compatibility import outputs
from jazz_select.routing.schemas.fields import fields
from jazz_select.routing.tools.context_inputs import declared_inputs
from jazz_select.routing.tools.tool import Tool
from jazz_select.values import flow_id
from jazz_select.words import folded_name


def walk_flow(flow: BaseFlow) -> Iterator[BaseFlow]:
    """Yield a flow and its parts, in order."""
    yield flow
    for part in flow.subflows:
        yield from walk_flow(part)


def tools_named(flow: BaseFlow) -> Iterator[str]:
    """Yield the names of the tools of a flow and its parts, in order."""
    return (name for part in walk_flow(flow) for name in part.own_tools)


@dataclass(frozen=True, slots=True)
class KnownFlows:
    """The live flows of an agent, and its connected tools by name."""

    registry: Mapping[str, BaseFlow]
    tools: Mapping[str, Tool]

    def find(self, name: str) -> BaseFlow | None:
        """Return the live flow of this name, or None."""
        return self.registry.get(flow_id(name))

    def callers(self, name: str) -> set[str]:
        """Return the names of the flows that call a flow."""
        return {each.name for each in self.registry.values() if name in each.calls}

    # --- the tools of a flow -------------------------------------------------

    def tools_of(self, flow: BaseFlow) -> list[Tool]:
        """Return the connected tools that a flow and its parts name, in order.

        Raises:
            FlowError: A part of the flow has left its registry.
        """
        return [self.tools[name] for name in tools_named(flow) if name in self.tools]

    def chained(self, flow: BaseFlow) -> list[Tool]:
        """Return the connected tools that the chains of a flow and its parts may run, in order.

        Raises:
            FlowError: A chain cannot be read, or a part of the flow has left its registry.
        """
        tools: list[Tool] = []
        for part in walk_flow(flow):
            for step in chain_of(part):
                tools += [self.tools[name] for name in self._runnable(step) if name in self.tools]
        return tools

    def _runnable(self, step: Step) -> list[str]:
        if isinstance(step, str):
            return [step]
        if not isinstance(step, GuidedDecisionPoint):
            # An open decision may take any tool.
            return list(self.tools)
        return list(step.possible_tools)

    def is_chained(self, part: BaseFlow) -> bool:
        """Whether a flow, or a part of one, runs by steps alone: connected tools in a fixed order, or its parts."""
        chain = chain_of(part)
        is_fixed = all(isinstance(step, str) and step in self.tools for step in chain)
        return is_fixed and bool(chain or part.composite) and part.type != "conditional"

    def destroys(self, flow: BaseFlow | None) -> bool:
        """Whether a flow is destructive: its chain, or that of a part, may run such a tool, or cannot be read."""
        return self._any_tool(flow, lambda tool: tool.destructive)

    def may_write(self, flow: BaseFlow | None) -> bool:
        """Whether a flow may change something: one of its tools is not read-only, or its chain cannot be read."""
        return self._any_tool(flow, lambda tool: not tool.reads)

    def _any_tool(self, flow: BaseFlow | None, does: Callable[[Tool], bool]) -> bool:
        if flow is None:
            return False
        try:
            return any(map(does, self.chained(flow)))
        except FlowError:
            # Nobody knows what it does, so it counts as doing it.
            return True

    # --- what users give for a flow ------------------------------------------

    def asked_inputs(self, open_flow: OpenFlow) -> dict[str, Wanted]:
        """Return the schemas of the inputs that a flow waits for, in the order of asking."""
        flow = self.find(open_flow.name)
        declared = flow.all_inputs() if flow is not None else {}
        tools = self._readable_tools(flow) if flow is not None else []
        asks = [name for name in open_flow.asks if name not in open_flow.answers]
        # The flow's own tools come first: of two with one input, theirs gives its type.
        found = wanted_of([*tools, *self.tools.values()], asks)
        wanted: dict[str, Wanted] = {}
        for name in asks:
            if name in found or name in declared:
                wanted[name] = refined(found.get(name), declared.get(name), open_flow.options.get(name))
        names = asked_now(flow, [*wanted], open_flow.wrong)
        return {name: wanted[name] for name in wanted if name in names}

    def inputs(
        self,
        name: str,
        context: Mapping[str, Any],
        waiting: OpenFlow | None = None,
        called: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> dict[str, Wanted]:
        """Return the inputs that the user may give for a flow: those no tool provides, and those it asks for.

        They include the inputs of flows that it calls, but not the results of those that already ran.

        Args:
            name: Name of the flow.
            context: The caller's context. The user cannot give a value that it has under any spelling of the name.
            waiting: The flow while it waits. After a final call, only the inputs that it asks for are accepted.
            called: Results of called flows, by flow.
        """
        flow = self.find(name)
        found: dict[str, Wanted] = {}
        if flow is not None and not flow.manual and (waiting is None or not waiting.is_final):
            declared = flow.all_inputs()
            chained = _unset_inputs(self._readable_chain(flow), context)
            # The types of declared inputs are those of all the flow's tools, from the first message on.
            taken = {**wanted_of(self._readable_tools(flow), [*declared]), **chained}
            for each in (*declared, *chained):
                found[each] = refined(taken.get(each), declared.get(each))
        fixed = set(map(folded_name, context))
        if flow is not None:
            fixed |= declared_inputs(self._readable_chain(flow))
            for callee in flow.calls:
                if called and callee in called:
                    fixed |= set(map(folded_name, called[callee]))
                else:
                    found = {**self.inputs(callee, context, called=called), **found}
        if waiting is not None:
            found |= self.asked_inputs(waiting)
        return {each: wanted for each, wanted in found.items() if folded_name(each) not in fixed}

    def lacks(self, flow: BaseFlow, context: Mapping[str, Any], *, optional: bool) -> bool:
        """Whether its chains have inputs that nothing provides; `optional` says whether optional inputs count."""
        if flow.manual:
            return False
        alike = set(map(folded_name, context)) | declared_inputs(self._readable_chain(flow))
        declared = any(folded_name(name) not in alike for name in flow.all_inputs())
        return declared or bool(_unset_inputs(self._readable_chain(flow), context, optional=optional))

    def _readable_tools(self, flow: BaseFlow) -> list[Tool]:
        """Return the tools of a flow; none if one of its parts is gone."""
        try:
            return self.tools_of(flow)
        except FlowError:
            return []

    def _readable_chain(self, flow: BaseFlow) -> list[Tool]:
        """Return the tools of a flow's chains; none if a chain cannot be read."""
        try:
            return self.chained(flow)
        except FlowError:
            return []


def _unset_inputs(tools: Sequence[Tool], known: Mapping[str, Any], *, optional: bool = True) -> dict[str, Wanted]:
    """Return the inputs of a chain that no earlier tool returns; `optional` says whether optional inputs count."""
    found: dict[str, Wanted] = {}
    provided = set(map(folded_name, known))
    for tool in tools:
        missing: list[str] = []
        for name, (_, needed) in fields(tool.input_schema).items():
            if (needed or optional) and folded_name(name) not in provided:
                missing.append(name)
        found |= wanted_of([tool], missing)
        provided.update(map(folded_name, found))
        provided.update(folded_name(output.name) for output in outputs(tool))
    return found
