"""How a choice between tools is put to a model. Pure."""

from collections.abc import Sequence

from jazz_select.routing.points import ToolCandidate

_LONGEST = 300


def decision_prompt(previous: str, fields: Sequence[str], candidates: Sequence[ToolCandidate]) -> str:
    """The previous tool, what it gave by name (no values), and the numbered candidates with a way out."""
    begun = (
        f"Tool {previous!r} returned a result with the fields {{{', '.join(fields)}}}."
        if previous
        else (f"The input has the fields {{{', '.join(fields)}}}.")
    )
    lines = [begun, "Choose the next action from these compatible tools:"]
    for number, each in enumerate(candidates, start=1):
        wanted = ", ".join(f"{name}: {kind}" for name, kind in each.input_schema_summary.items())
        text = " ".join(each.description.split())
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        lines.append(f"{number}. {each.name} — {text or 'no description'} ({wanted or 'no arguments'})")
    lines.append('Answer with the name of one of them, or with "none" if none should come next.')
    return "\n".join(lines)
