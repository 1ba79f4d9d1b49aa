"""Attributes of a flow class that were meant to be fields: told, since nothing else would notice them."""

from difflib import get_close_matches
from inspect import get_annotations

from jazz_select.flow.checks import Subject
from jazz_select.flow.origin import locate

FIELDS = ("name", "description", "condition", "desired_effects", "examples", "tools", "steps", "priority", "aliases")
"""What every flow says of itself."""
_RUNNING = ("chain", "reply")
"""What whoever runs a flow reads: it says nothing about when the flow is the right one, so it is no part of it."""
_PARTS = ("flows", "branches", "otherwise")
_NEAR = 0.8


def check_spelling(kind: type) -> None:
    """Refuse a plain, public attribute that is new in `kind` and spelt almost like a field which it does not set.

    Whatever is annotated, or no plain text, list or tuple, is the author's own.

    Raises:
        FlowValidationError: There is one.
    """
    own = vars(kind)
    for name, value in own.items():
        new = not any(name in vars(base) for base in kind.__mro__[1:])
        if name.startswith("_") or not new or not isinstance(value, str | list | tuple):
            continue
        unset = [field for field in (*FIELDS, *_RUNNING, *_PARTS) if field not in own and hasattr(kind, field)]
        near = get_close_matches(name, unset, n=1, cutoff=_NEAR)
        if near and not _is_annotated(kind, name):
            flow = own.get("name")
            place = locate().describe(f"{kind.__module__}.{kind.__qualname__}")
            subject = Subject(name=flow if isinstance(flow, str) and flow else kind.__qualname__, place=place)
            problem = f"is no field of a flow; did you mean {near[0]!r}? (An attribute of your own: annotate it)"
            raise subject.error(name, problem)


def _is_annotated(kind: type, name: str) -> bool:
    try:
        return name in get_annotations(kind)
    except NameError:  # Python 3.14 evaluates them here, and one may name what only a type checker sees
        return True
