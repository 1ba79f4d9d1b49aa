"""Guided decision points: a choice between tools, the prompt that asks for it, and who may be asked."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import islice
from types import SimpleNamespace
from typing import Any, Final, Protocol, TypeAlias, cast

from jazz_select.errors import ConfigError, ToolError
from jazz_select.json_values import json_bytes
from jazz_select.routing.schemas.fields import Schema, fields, type_text
from jazz_select.text import beginning, in_one_line, name_shown


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """A choice with how it came about, where whoever chooses knows that; a name alone does as well.

    Attributes:
        tool: The name of one of the candidates; empty where none of them should come next.
        probability: How likely it is to be right, by whoever chose; None where that is not known.
        notes: What was made do with: who was asked first, and why that did not count.
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
        """One of the candidates, or none of them."""
        ...


Decide = Callable[[dict[str, Any], list[ToolCandidate], str], "Awaitable[Chosen] | Chosen"]
"""What a `DecisionCallback` does, as a function by itself, sync or async."""


def as_callback(given: DecisionCallback | Decide | None) -> DecisionCallback | None:
    """Who chooses, of whatever a caller has as that: an object with a `decide`, or a function that does what it does.

    Raises:
        ConfigError: It is neither.
    """
    if given is None:
        return None
    if not isinstance(given, type) and callable(getattr(given, "decide", None)):
        return cast("DecisionCallback", given)
    if callable(given) and not isinstance(given, type) and _takes_three(given):
        return cast("DecisionCallback", SimpleNamespace(decide=given))
    raise ConfigError(
        "decision_callback is an object with `decide(context, candidates, prompt)`, "
        f"or a function of these three, not {given!r:.80}"
    )


def _takes_three(function: Callable[..., object]) -> bool:
    try:
        signature(function).bind({}, [], "")
    except TypeError:
        return False
    except ValueError:  # of what is built in nothing may be known
        return True
    return True


_LONGEST: Final = 300
_MOST_FIELDS: Final = 30
_DEEPEST: Final = 20
_NAMED: Final = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords whose values are schemas by name: there "title" may be a name."""
_LONGEST_SCHEMA: Final = 4_000


def decision_prompt(previous: str, fields_given: Sequence[str], candidates: Sequence[ToolCandidate]) -> str:
    """The previous tool, what it gave by name (no values), and the numbered candidates with a way out."""
    given = _listed(name_shown(name[:_LONGEST]) for name in fields_given)
    begun = (
        f"Tool {previous!r} returned a result with the fields {{{given}}}."
        if previous
        else (f"The input has the fields {{{given}}}.")
    )
    lines = [begun, "Choose the next action from these compatible tools:"]
    for number, each in enumerate(candidates, start=1):
        summary = each.input_schema_summary.items()
        wanted = _listed(f"{name_shown(name[:_LONGEST])}: {in_one_line(kind)}" for name, kind in summary)
        text = in_one_line(beginning(" ".join(each.description.split()), _LONGEST))
        lines.append(f"{number}. {name_shown(each.name)} — {text or 'no description'} ({wanted or 'no arguments'})")
    lines.append('Answer with the name of one of them, or with "none" if none should come next.')
    return "\n".join(lines)


def schema_shown(schema: Schema) -> dict[str, Any]:
    """A schema as it is; a long one as its first fields with their types in words, and how many are left out."""
    try:
        if len(json_bytes(schema)) <= _LONGEST_SCHEMA:
            return dict(schema)
    except (TypeError, ValueError, RecursionError):  # nested beyond all bounds, or in itself
        pass
    wanted = fields(schema)
    first = dict(islice(sorted(wanted.items(), key=lambda item: not item[1][1]), _MOST_FIELDS))
    return {
        "type": "object",
        "properties": {name[:_LONGEST]: type_text(part, schema) for name, (part, _) in first.items()},
        "required": [name[:_LONGEST] for name, (_, required) in first.items() if required],
        "left_out": len(wanted) - len(first),
    }


def untitled(schema: object, depth: int = 0) -> Any:
    """A schema without the titles that generators put into it: they say nothing that names do not."""
    if depth > _DEEPEST:
        return schema
    if isinstance(schema, Mapping):
        parts = cast("Mapping[str, object]", schema)
        return {
            name: {each: untitled(part, depth + 1) for each, part in cast("Mapping[str, object]", inner).items()}
            if name in _NAMED and isinstance(inner, Mapping)
            else untitled(inner, depth + 1)
            for name, inner in parts.items()
            if name != "title" or not isinstance(inner, str)
        }
    if isinstance(schema, list):
        return [untitled(each, depth + 1) for each in cast("list[object]", schema)]
    return schema


def _listed(texts: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    every = list(texts)
    more = [f"… {len(every) - _MOST_FIELDS} more"] if len(every) > _MOST_FIELDS else []
    return ", ".join([*(text[: 2 * _LONGEST] for text in every[:_MOST_FIELDS]), *more])
