"""What may follow what: the graph of a catalogue of tools."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from jazz_select.errors import ToolError
from jazz_select.routing.decisions.points import GuidedDecisionPoint, ToolCandidate
from jazz_select.routing.schemas.compatibility import CompatibilityIndex, Field, outputs
from jazz_select.routing.schemas.fields import MOST_PARTS, Reading, fields, type_text
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.words import folded_name

MIN_COMPATIBILITY = 0.5
_SLACK = 1e-9
"""Scores are rounded sums: a bound of 1/3 includes a score of a third."""


class ChainAnalyzer:
    """Reads chains of tools out of their schemas.

    Attributes:
        toolbox: The tools.
        callable: Those that a valid call can be made of: there are no arguments for the others.
    """

    def __init__(self, tools: ToolsLike) -> None:
        """Index these tools.

        Raises:
            DuplicateToolError: Two have one name.
        """
        self.toolbox = toolbox_of(tools)
        self._index = CompatibilityIndex(self.toolbox.values())
        self._names = tuple(self.toolbox)
        self.callable = frozenset(self._names[number] for number in self._index.callable)
        self._summaries: dict[str, dict[str, str]] = {}

    def candidates(
        self,
        available: Iterable[Field],
        *,
        without: str = "",
        max_candidates: int = 10,
        min_compatibility: float = MIN_COMPATIBILITY,
    ) -> list[ToolCandidate]:
        """The tools that can run on what is there, best first, those of equal score in order of registration."""
        found = self.fitting(available, without=without, min_compatibility=min_compatibility)
        return [self.candidate(name, score) for name, score in list(found.items())[:max_candidates]]

    def fitting(
        self, available: Iterable[Field], *, without: str = "", min_compatibility: float = MIN_COMPATIBILITY
    ) -> dict[str, float]:
        """All of them, however many, by name with their scores."""
        scores = self._index.scores(available)
        least = _least(min_compatibility)
        order = sorted(
            (number for number in range(len(self._names)) if scores[number] >= least),
            key=lambda number: -scores[number],
        )
        return {self._names[each]: float(scores[each]) for each in order if self._names[each] != without}

    def successors(
        self, after_tool: str, *, max_candidates: int = 10, min_compatibility: float = MIN_COMPATIBILITY
    ) -> list[ToolCandidate]:
        """The tools that can run on what this one gives.

        Raises:
            ToolError: There is no such tool.
        """
        return self.candidates(
            outputs(self._tool(after_tool)),
            without=after_tool,
            max_candidates=max_candidates,
            min_compatibility=min_compatibility,
        )

    def guided_decision_points(
        self, after_tool: str, *, max_candidates: int = 10, min_compatibility: float = MIN_COMPATIBILITY
    ) -> GuidedDecisionPoint:
        """The choice that comes after a tool.

        Raises:
            ToolError: There is no such tool.
        """
        found = self.successors(after_tool, max_candidates=max_candidates, min_compatibility=min_compatibility)
        return GuidedDecisionPoint(after_step=after_tool, candidate_tools=[each.name for each in found])

    def edges(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> Iterator[tuple[str, str, float]]:
        """Producer, consumer and score of every pair that fits."""
        table = self._index.graph()
        for producer, consumer in zip(*(table >= _least(min_compatibility)).nonzero(), strict=True):
            yield self._names[producer], self._names[consumer], float(table[producer, consumer])

    def unreachable(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> list[str]:
        """Tools that want something which no other tool gives."""
        reached = {consumer for _, consumer, _ in self.edges(min_compatibility=min_compatibility)}
        return [name for name, tool in self.toolbox.items() if name not in reached and fields(tool.input_schema)]

    def collisions(self) -> list[tuple[str, ...]]:
        """Names that differ in case and separators alone."""
        groups: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            groups[folded_name(name)].append(name)
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def mermaid(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> str:
        """The graph as a mermaid flowchart; sure edges are solid, others dotted and marked with their score."""
        ids = {name: f"t{number}" for number, name in enumerate(self._names)}
        lines = ["flowchart LR"]
        lines += [f'    {ids[name]}["{_label(name)}"]' for name in self._names]
        for producer, consumer, score in self.edges(min_compatibility=min_compatibility):
            arrow = "-->" if score >= 1 else f"-. {score:.2f} .->"
            lines.append(f"    {ids[producer]} {arrow} {ids[consumer]}")
        return "\n".join(lines) + "\n"

    def _tool(self, name: str) -> Tool:
        if name not in self.toolbox:
            raise ToolError(name, f"there is no such tool; there are {', '.join(self._names[:10]) or 'none'}")
        return self.toolbox[name]

    def candidate(self, name: str, score: float = 0.0) -> ToolCandidate:
        """A tool as one who chooses is shown it."""
        tool = self.toolbox[name]
        summary = self._summaries.get(name)
        if summary is None:
            root, wanted = tool.input_schema, fields(tool.input_schema)
            reading = Reading(root, MOST_PARTS + len(wanted))
            summary = {each: type_text(part, root, reading) for each, (part, _) in wanted.items()}
            self._summaries[name] = summary
        return ToolCandidate(
            name=name, description=tool.description, input_schema_summary=summary, compatibility_score=min(score, 1.0)
        )


def _least(min_compatibility: float) -> float:
    """The score from which on something fits: by the bound, or any at all."""
    return max(min_compatibility - _SLACK, 1e-12)


def _label(name: str) -> str:
    return "".join(each if each.isalnum() or each in "_-. /" else "_" for each in name)[:60]
