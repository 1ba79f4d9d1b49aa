"""How tools are put to a model. Pure, and bounded: a schema may be of any size."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

import orjson

from jazz_select.routing.points import ToolCandidate
from jazz_select.routing.schema import Schema, described, fields

_LONGEST: Final = 300
_MOST_FIELDS: Final = 30
_LONGEST_SCHEMA: Final = 4_000


def decision_prompt(previous: str, fields_given: Sequence[str], candidates: Sequence[ToolCandidate]) -> str:
    """The previous tool, what it gave by name (no values), and the numbered candidates with a way out."""
    begun = (
        f"Tool {previous!r} returned a result with the fields {{{_listed(fields_given)}}}."
        if previous
        else (f"The input has the fields {{{_listed(fields_given)}}}.")
    )
    lines = [begun, "Choose the next action from these compatible tools:"]
    for number, each in enumerate(candidates, start=1):
        wanted = _listed(f"{name}: {kind}" for name, kind in each.input_schema_summary.items())
        text = " ".join(each.description.split())
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        lines.append(f"{number}. {each.name} — {text or 'no description'} ({wanted or 'no arguments'})")
    lines.append('Answer with the name of one of them, or with "none" if none should come next.')
    return "\n".join(lines)


def schema_shown(schema: Schema) -> dict[str, Any]:
    """A schema as it is; a long one as its first fields with their types in words, and how many are left out."""
    if len(orjson.dumps(schema, default=str, option=orjson.OPT_NON_STR_KEYS)) <= _LONGEST_SCHEMA:
        return dict(schema)
    wanted = fields(schema)
    first = dict(islice(sorted(wanted.items(), key=lambda item: not item[1][1]), _MOST_FIELDS))
    return {
        "type": "object",
        "properties": {name[:_LONGEST]: described(part, schema) for name, (part, _) in first.items()},
        "required": [name[:_LONGEST] for name, (_, required) in first.items() if required],
        "left_out": len(wanted) - len(first),
    }


def _listed(texts: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    every = list(texts)
    more = [f"… {len(every) - _MOST_FIELDS} more"] if len(every) > _MOST_FIELDS else []
    return ", ".join([*(text[:_LONGEST] for text in every[:_MOST_FIELDS]), *more])
