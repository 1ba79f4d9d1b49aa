"""Guided decisions as values: where a choice is made, among what, and who makes it."""

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jazz_select.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCandidate:
    """A tool that may come next.

    Attributes:
        name: The tool.
        description: What it does.
        input_schema_summary: Argument to its type in words.
        compatibility_score: How well what is there fits what it wants, from 0 to 1.
    """

    name: str
    description: str = ""
    input_schema_summary: Mapping[str, str] = field(default_factory=dict[str, str])
    compatibility_score: float = 0.0

    def __post_init__(self) -> None:
        """Check that the score is one."""
        if not 0 <= self.compatibility_score <= 1:
            raise ToolError(self.name, f"compatibility_score lies from 0 to 1, not at {self.compatibility_score!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GuidedDecisionPoint:
    """A place in a flow where the next tool is a choice among few.

    Attributes:
        after_step: The step, or tool, after which the choice is made.
        candidate_tools: Names of those that may come next, best first.
        decision_prompt: What the one who chooses is told, byte for byte; a prompt is made from metadata where None.
        context_fields: The only fields of the context that are shown; the last step's outputs where empty.
        fallback_tool: What runs where the choice fails; it may be one that is no candidate.
    """

    after_step: str
    candidate_tools: Sequence[str]
    decision_prompt: str | None = None
    context_fields: Sequence[str] = ()
    fallback_tool: str | None = None

    def __post_init__(self) -> None:
        """Check what can be checked without the tools."""
        if not self.after_step.strip():
            raise ToolError(self.after_step, "a decision point names the step after which it stands: after_step")
        for name, given in (("candidate_tools", self.candidate_tools), ("context_fields", self.context_fields)):
            if isinstance(given, str) or not all(isinstance(each, str) and each for each in given):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
                raise ToolError(self.after_step, f"{name} is a list of names, not {given!r:.80}")
            if len(set(given)) != len(given):
                raise ToolError(self.after_step, f"{name} names something twice: {', '.join(given)}")
        if self.after_step in self.candidate_tools:
            raise ToolError(self.after_step, "a tool never follows itself: take it out of candidate_tools")
        object.__setattr__(self, "candidate_tools", list(self.candidate_tools))
        object.__setattr__(self, "context_fields", list(self.context_fields))


class DecisionCallback(Protocol):
    """Chooses the next tool, sync or async."""

    def decide(
        self, context: dict[str, Any], candidates: list[ToolCandidate], prompt: str
    ) -> "Awaitable[str | None] | str | None":
        """The name of one of the candidates; None, "" or "none" where none of them should come next."""
        ...
