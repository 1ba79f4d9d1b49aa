"""What users are shown of flows, tools and values: their titles, never the names that code uses."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jazz_select.agent.conversation import ONE_OF, PastCall
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import storable_text
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import beginning, number_text, titled
from jazz_select.texts import say

_LONGEST_VALUE: Final = 300
_MOST_TITLES: Final = 40


@dataclass(frozen=True, slots=True)
class Titles:
    """Display names of the flows and tools that an agent knows, for users; never those that code uses."""

    known: KnownFlows

    def find(self, name: str) -> BaseFlow | None:
        """Return the live flow of this name, or None."""
        return self.known.find(name)

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The connected tools, by name."""
        return self.known.tools

    def flow(self, name: str) -> str:
        """Return a flow's title, or its name in words if the flow is gone."""
        flow = self.find(name)
        return flow.display_name if flow is not None else titled(name)

    def tool(self, name: str) -> str:
        """Return a tool's title, or its name in words if the tool is not connected."""
        return getattr(self.tools.get(name), "display_name", "") or titled(name)

    def effects(self, ran: Iterable[PastCall]) -> list[str]:
        """Return the tools of these calls that changed something, without duplicates."""
        names: dict[str, None] = {}
        for call in ran:
            # A tool that is no longer connected may have changed something.
            tool = self.tools.get(call.tool)
            if not call.failed and (tool is None or not tool.reads):
                names[call.tool] = None
        return list(names)

    def done_already(self, tools: Sequence[str]) -> str:
        """Say that these tools have run, and which connected tools undo them."""
        if not tools:
            return ""
        undo = [tool.name for tool in self.tools.values() if tool.undoes in tools]
        done = say("done_already", tools=self.list_titles(tools))
        if not undo:
            return done
        return f"{done} {say('can_be_undone', tools=self.list_titles(undo))}"

    def list_titles(self, names: Iterable[str]) -> str:
        """Return the titles of several tools, without duplicates."""
        return ", ".join(dict.fromkeys(map(self.tool, names)))

    def step(self, name: str) -> str:
        """Return the title of a pending step: one tool, or a choice of several."""
        one_of, marked, between = name.partition(ONE_OF)
        if marked and not one_of:
            return f"{ONE_OF}{self.list_titles(between.split(', '))}"
        if " " in name and name not in self.tools:
            return name
        return self.tool(name)


def titles_of(flows: Iterable[BaseFlow]) -> list[str]:
    """Return titles of flows that no guard withholds, parts and those only called left out; at most `_MOST_TITLES`."""
    flows = list(flows)
    parts = {part.name for flow in flows for part in flow.subflows}
    left_out = parts | {flow.name for flow in flows if flow.only_called}
    titles: list[str] = []
    for flow in flows:
        # A flow with a guard of its own may be withheld from this user.
        has_no_guard = type(flow).available is BaseFlow.available
        if has_no_guard and flow.name not in left_out:
            titles.append(flow.display_name)
    return titles[:_MOST_TITLES]


def shown_value(value: object) -> str:
    """Return a value as text for users, cut if it is long."""
    if value is None or isinstance(value, str | int | float | bool):
        return beginning(number_text(value), _LONGEST_VALUE)
    return beginning(storable_text(value), _LONGEST_VALUE)
