"""A choice between tools: the candidates, who may be asked for it, and which points a chain has."""

from collections import defaultdict
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Protocol, TypeAlias

from jazz_select.arguments import Methods
from jazz_select.errors import ToolError
from jazz_select.flow.base import GuidedDecisionPoint
from jazz_select.json_values import json_bytes
from jazz_select.routing.schemas.compatibility import CompatibilityIndex, Slot, outputs
from jazz_select.routing.schemas.fields import MOST_PARTS, Cursor, Schema, fields, type_text
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.text import beginning, in_one_line, name_shown, some_of
from jazz_select.words import folded_name


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCandidate:
    """A tool that may come next.

    Attributes:
        name: The tool.
        description: What it does.
        input_schema_summary: Type in words, by argument.
        compatibility_score: How well the context fits its inputs, from 0 to 1.
    """

    name: str
    description: str = ""
    input_schema_summary: Mapping[str, str] = field(default_factory=dict[str, str])
    compatibility_score: float = 0.0

    def __post_init__(self) -> None:
        """Check that the score is one."""
        if not 0 <= self.compatibility_score <= 1:
            raise ToolError(self.name, f"compatibility_score must be from 0 to 1, got {self.compatibility_score!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """A choice with its provenance; a bare name is enough if there is none.

    Attributes:
        tool: The chosen candidate, or "" for none of them.
        probability: P(the choice is right) by its maker; None if unknown.
        notes: Degradations, such as an earlier decider that did not count.
    """

    tool: str = ""
    probability: float | None = None
    notes: tuple[str, ...] = ()


Chosen: TypeAlias = str | ToolChoice | None
"""A tool by its name, with how it came about or without; None, "" or "none" where none of them should come next."""


class DecisionCallback(Protocol):
    """Chooses the next tool, sync or async."""

    def decide(
        self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str
    ) -> "Awaitable[Chosen] | Chosen":
        """Choose one of the candidates, or none of them."""
        ...


Chooser: TypeAlias = Annotated[
    DecisionCallback, Methods("an object with `decide(context, candidates, prompt)`", "decide")
]
"""One who chooses, as it is checked where it is given."""
_LONGEST: Final = 300
_MOST_FIELDS: Final = 30
_LONGEST_SCHEMA: Final = 4_000


def decision_prompt(previous: str, fields_given: Sequence[str], candidates: Sequence[ToolCandidate]) -> str:
    """Write the previous tool, the names of its fields (no values), and the numbered candidates with a way out."""
    names = _list_texts(name_shown(name[:_LONGEST]) for name in fields_given)
    opening = f"The input has the fields {{{names}}}."
    if previous:
        opening = f"Tool {previous!r} returned a result with the fields {{{names}}}."
    lines = [opening, "Choose the next action from these compatible tools:"]
    for number, each in enumerate(candidates, start=1):
        summary = each.input_schema_summary.items()
        wanted = _list_texts(f"{name_shown(name[:_LONGEST])}: {in_one_line(kind)}" for name, kind in summary)
        text = in_one_line(beginning(" ".join(each.description.split()), _LONGEST))
        lines.append(f"{number}. {name_shown(each.name)} — {text or 'no description'} ({wanted or 'no arguments'})")
    lines.append('Answer with the name of one of them, or with "none" if none should come next.')
    return "\n".join(lines)


def schema_shown(schema: Schema) -> dict[str, Any]:
    """Return a short schema as it is, and of a long one the first fields with their types in words."""
    try:
        if len(json_bytes(schema)) <= _LONGEST_SCHEMA:
            return dict(schema)
    except (TypeError, ValueError, RecursionError):  # nested beyond all bounds, or in itself
        pass
    properties: dict[str, str] = {}
    required: list[str] = []
    every = fields(schema)
    # The required ones first: a call without an optional one can still be made.
    for name, (part, is_required) in sorted(every.items(), key=lambda item: not item[1][1])[:_MOST_FIELDS]:
        properties[name[:_LONGEST]] = type_text(part, schema)
        if is_required:
            required.append(name[:_LONGEST])
    left_out = max(len(every) - _MOST_FIELDS, 0)
    return {"type": "object", "properties": properties, "required": required, "left_out": left_out}


def _list_texts(texts: Iterable[str]) -> str:
    return some_of(list(texts), _MOST_FIELDS, lambda text: text[: 2 * _LONGEST])


MIN_COMPATIBILITY = 0.5
_SLACK = 1e-9
"""Scores are rounded sums: a bound of 1/3 includes a score of a third."""


class ChainAnalyzer:
    """Finds chains of tools by their schemas.

    Attributes:
        toolbox: The tools.
        callable: The tools with at least one valid call.
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
        available: Iterable[Slot],
        *,
        without: str = "",
        max_candidates: int = 10,
        min_compatibility: float = MIN_COMPATIBILITY,
    ) -> list[ToolCandidate]:
        """List the tools that can run on `available`, best first, those of equal score in order of registration."""
        found = self.fitting(available, without=without, min_compatibility=min_compatibility)
        return [self.candidate(name, score) for name, score in list(found.items())[:max_candidates]]

    def fitting(
        self, available: Iterable[Slot], *, without: str = "", min_compatibility: float = MIN_COMPATIBILITY
    ) -> dict[str, float]:
        """Return the score of every tool that fits, by name, best first."""
        scores = self._index.scores(available)
        least = _least(min_compatibility)
        found: dict[str, float] = {}
        for name, score in zip(self._names, scores.tolist(), strict=True):
            if score >= least and name != without:
                found[name] = score
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def successors(
        self, after_tool: str, *, max_candidates: int = 10, min_compatibility: float = MIN_COMPATIBILITY
    ) -> list[ToolCandidate]:
        """Return the tools that can run on the output of this one.

        Raises:
            ToolError: There is no such tool.
        """
        if after_tool not in self.toolbox:
            problem = f"there is no such tool; there are {', '.join(self._names[:10]) or 'none'}"
            raise ToolError(after_tool, problem)
        return self.candidates(
            outputs(self.toolbox[after_tool]),
            without=after_tool,
            max_candidates=max_candidates,
            min_compatibility=min_compatibility,
        )

    def guided_decision_points(
        self, after_tool: str, *, max_candidates: int = 10, min_compatibility: float = MIN_COMPATIBILITY
    ) -> GuidedDecisionPoint:
        """Return the decision point after a tool.

        Raises:
            ToolError: There is no such tool.
        """
        found = self.successors(after_tool, max_candidates=max_candidates, min_compatibility=min_compatibility)
        return GuidedDecisionPoint(after_step=after_tool, candidate_tools=[each.name for each in found])

    def edges(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> Iterator[tuple[str, str, float]]:
        """Yield producer, consumer and score of every pair that fits."""
        table = self._index.graph()
        for producer, consumer in zip(*(table >= _least(min_compatibility)).nonzero(), strict=True):
            yield self._names[producer], self._names[consumer], float(table[producer, consumer])

    def unreachable(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> list[str]:
        """List the tools that have inputs which no other tool gives."""
        reached = {consumer for _, consumer, _ in self.edges(min_compatibility=min_compatibility)}
        return [name for name, tool in self.toolbox.items() if name not in reached and fields(tool.input_schema)]

    def collisions(self) -> list[tuple[str, ...]]:
        """Group the names that differ only in case and separators."""
        groups: dict[str, list[str]] = defaultdict(list)
        for name in self._names:
            groups[folded_name(name)].append(name)
        return [tuple(group) for group in groups.values() if len(group) > 1]

    def mermaid(self, *, min_compatibility: float = MIN_COMPATIBILITY) -> str:
        """Draw the graph as a mermaid flowchart; sure edges are solid, others dotted and marked with their score."""
        ids = {name: f"t{number}" for number, name in enumerate(self._names)}
        lines = ["flowchart LR"]
        lines += [f'    {ids[name]}["{_label(name)}"]' for name in self._names]
        for producer, consumer, score in self.edges(min_compatibility=min_compatibility):
            arrow = "-->" if score >= 1 else f"-. {score:.2f} .->"
            lines.append(f"    {ids[producer]} {arrow} {ids[consumer]}")
        return "\n".join(lines) + "\n"

    def candidate(self, name: str, score: float = 0.0) -> ToolCandidate:
        """Describe a tool for the one who chooses."""
        tool = self.toolbox[name]
        summary = self._summaries.get(name)
        if summary is None:
            root, inputs = tool.input_schema, fields(tool.input_schema)
            reading = Cursor(root, MOST_PARTS + len(inputs))  # shared: all of them together are bounded
            summary = {each: type_text(part, root, reading) for each, (part, _) in inputs.items()}
            self._summaries[name] = summary
        return ToolCandidate(
            name=name,
            description=tool.description,
            input_schema_summary=dict(summary),
            compatibility_score=min(score, 1.0),
        )


def _least(min_compatibility: float) -> float:
    return max(min_compatibility - _SLACK, 1e-12)


def _label(name: str) -> str:
    return "".join(each if each.isalnum() or each in "_-. /" else "_" for each in name)[:60]
