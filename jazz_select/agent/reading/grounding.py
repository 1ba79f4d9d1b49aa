"""What counts of the values that a model reads in a message: those that an input takes and that the user said. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from jazz_select.agent.reading.said import decimals, folded, in_words, was_said
from jazz_select.errors import ConfigError
from jazz_select.routing.schemas.fields import Schema, alternatives, fields
from jazz_select.routing.schemas.validity import Checker
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import at_word, in_one_line

_MOST_MEANT: Final = 5
_MOST_SHOWN: Final = 12
_MOST_MEMBERS: Final = 10
_LONGEST_SHOWN: Final = 80


class Wanted(NamedTuple):
    """An input: its schema, and where that one's references point."""

    part: object
    root: Schema


class Grounded(NamedTuple):
    """What counts of what a model read for the inputs of a flow.

    Attributes:
        values: By input.
        unclear: Several values for one input, of which nothing tells which is meant.
        taken_back: Inputs that the user takes back.
        refused: What does not count, and why.
    """

    values: Mapping[str, Any] = {}
    unclear: Mapping[str, tuple[Any, ...]] = {}
    taken_back: tuple[str, ...] = ()
    refused: Mapping[str, str] = {}


NOTHING_SAID: Final = Grounded()


def wanted_of(tools: Iterable[Tool], names: Sequence[str]) -> dict[str, Wanted]:
    """The schemas of these inputs, each of the first tool that has it."""
    found: dict[str, Wanted] = {}
    for tool in tools:
        for name, (part, _) in fields(tool.input_schema).items():
            if name in names:
                found.setdefault(name, Wanted(part, tool.input_schema))
    return found


def shown_inputs(wanted: Mapping[str, Wanted]) -> tuple[str, ...]:
    """Inputs as a model is shown them: name, type or members, and a few words."""
    return tuple(in_one_line(_shown(name, each)) for name, each in [*wanted.items()][:_MOST_SHOWN])


def _shown(name: str, want: Wanted) -> str:
    found = alternatives(want.part, want.root)
    kinds = dict.fromkeys(str(each.schema.get("format") or each.type or "any") for each in found)
    listed = [*(_members(each.schema) for each in found)]
    members = [str(member) for each in listed for member in each]
    kind = " or ".join(each for each in kinds if each != "null")
    if members:
        kind = f"one of {', '.join(members[:_MOST_MEMBERS])}{', …' if len(members) > _MOST_MEMBERS else ''}"
    about = next((str(each.schema["description"]) for each in found if each.schema.get("description")), "")
    return f"{name}: {kind}{f' ({at_word(about, _LONGEST_SHOWN)})' if about else ''}"


def _members(schema: Schema) -> list[object]:
    listed = schema.get("enum")
    return cast("list[object]", listed) if isinstance(listed, list) else []


def ground(
    values: Mapping[str, Any], unclear: Mapping[str, Any], wanted: Mapping[str, Wanted], said: Sequence[str]
) -> Grounded:
    """What counts of the values that a model read in what a user said.

    A value counts where an input takes it and the user said it: a text as it was said, a number or a date as a value.
    Of an input that is true or false, or one of a list, any that it takes counts: nobody says those word for word, and
    the next question shows it. What no input takes is nobody's, and no fault.

    Args:
        values: By input; None for one that is taken back.
        unclear: Several values, by input.
        wanted: The inputs.
        said: The user's own words, in turn.
    """
    found: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for name, want in wanted.items():
        if values.get(name) is None:
            continue
        counted, why = _counted(name, values[name], want, said)
        if why:
            refused[name] = why
        else:
            found[name] = counted
    meant: dict[str, tuple[Any, ...]] = {}
    for name, want in wanted.items():
        several = unclear.get(name)
        if name in found or not isinstance(several, list):
            continue
        each = [_counted(name, one, want, said) for one in cast("list[Any]", several)[:_MOST_MEANT]]
        counting = [value for value, why in each if not why]
        if len(counting) > 1:
            meant[name] = tuple(counting)
    back = tuple(name for name in wanted if name in values and values[name] is None)
    return Grounded(found, meant, back, refused)


def _counted(name: str, value: Any, want: Wanted, said: Sequence[str]) -> tuple[Any, str]:
    """The value as the input takes it, and why it does not count; empty where it does."""
    taken = [each for each in _forms(_without_nulls(value)) if fits(name, each, want)]
    if not taken:
        return None, "the input does not take it"
    for each in taken:
        if _is_listed(each, want) or was_said(each, want.part, want.root, said):
            return each, ""
    return None, "the user did not say it"


def _is_listed(value: object, want: Wanted) -> bool:
    """Whether an input takes one of a list, or true and false, and this is one of them."""
    kinds = [each for each in alternatives(want.part, want.root) if each.type != "null"]
    if isinstance(value, bool):
        return [each.type for each in kinds] == ["boolean"]
    return bool(kinds) and all(value in _members(each.schema) for each in kinds)


def _forms(value: Any) -> list[Any]:
    """The value as it is, and a number as a text or a text as a number: a model may write either."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return [value]
    if not isinstance(value, str):
        return [value, str(value)]
    numbers = [*decimals(folded(value))]
    whole = [int(each) for each in numbers if each == each.to_integral_value()]
    return [value, in_words(value), *whole, *map(float, numbers)]


def _without_nulls(value: object) -> object:
    """Without the members that are null: that is how a model says that they were not said."""
    if isinstance(value, Mapping):
        inside = cast("Mapping[str, object]", value).items()
        return {name: _without_nulls(inner) for name, inner in inside if inner is not None}
    return value


def fits(name: str, value: object, want: Wanted) -> bool:
    """Whether an input takes a value."""
    if value in ("", None):
        return False
    schema = {**want.root, "type": "object", "properties": {name: want.part}, "required": [name]}
    try:
        return not Checker(schema).problems({name: value})
    except ConfigError:
        return False
