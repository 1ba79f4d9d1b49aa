"""Checks of a flow's fields: types, minimum content, and misspelt field names."""

import re
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from inspect import get_annotations
from string import Formatter
from typing import Any, cast
from unicodedata import category

from jazz_select.errors import FlowValidationError, raise_all
from jazz_select.flow.inputs import Input, dependency_problem
from jazz_select.flow.origin import locate
from jazz_select.text import beginning, count_of, describe_value, did_you_mean, near, template_fields
from jazz_select.values import is_number

_TEXTS = ("desired_effects", "examples", "tools", "steps", "aliases", "optional_tools", "calls")
_PRIORITY = 2
_PRIORITY_LIMIT = 1_000_000
_BREAKS = {"Cc", "Zl", "Zp"}
_SHOWN, _MOST_NAMED = 80, 10
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that change the text direction of what follows them."""
_BEHIND_A_FIELD = re.compile(r"[.\[].*", re.DOTALL)
_UNSEEN = {"Cf", "Mn", "Me", "Zs"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The flow being checked, for error messages."""

    name: str
    place: str

    def error(self, field: str, problem: str) -> FlowValidationError:
        """Return the error to raise about this flow."""
        return FlowValidationError(self.name, field, problem, place=self.place)


def field_faults(subject: Subject, fields: Mapping[str, object]) -> list[FlowValidationError]:
    """Return an error for each field of a wrong type, whatever the registry's minimum."""
    faults: list[FlowValidationError] = []

    def check(check_one: Callable[..., None], *given: object) -> None:
        try:
            check_one(subject, *given)
        except FlowValidationError as error:
            faults.append(error)

    for field in ("name", "type", "description", "condition"):
        check(check_text, field, fields[field])
    if isinstance(fields["name"], str):
        check(_check_name, fields["name"])
    for field in _TEXTS:
        check(_check_texts, field, fields[field])
    check(_check_priority, fields["priority"])
    for field in ("title", "owner"):
        check(_check_line, field, fields[field])
    for field in ("manual", "handover", "only_called"):
        check(_check_flag, field, fields[field])
    check(_check_ask, fields["ask"])
    check(_check_inputs, fields["inputs"])
    if fields["only_called"] is True and fields["handover"] is True:
        problem = "cannot be set beside handover: no flow calls the one that hands over"
        faults.append(subject.error("only_called", problem))
    check(_check_share, fields["max_error"])
    if not {"tools", "optional_tools"} & {top_field(each.field) for each in faults}:
        check(_check_optional, fields["optional_tools"], fields["tools"])
    return faults


def top_field(field: str) -> str:
    """Return the field of a flow that a part of it, such as `examples[0]` or `inputs[1].name`, belongs to."""
    return _BEHIND_A_FIELD.sub("", field)


def _check_name(subject: Subject, name: str) -> None:
    if not name:
        raise subject.error("name", "is missing; give the flow a name of its own")
    if _TURNING.search(name):
        raise subject.error("name", "has characters in it that turn the direction of text; take them out")
    if not name.isascii() and all(category(character) in _UNSEEN for character in name):
        raise subject.error("name", "has nothing in it that can be seen; give the flow a name of its own")
    if name != name.strip() or any(category(character) in _BREAKS for character in name):
        raise subject.error("name", "has blanks around it, or line breaks or control characters in it; take them out")


def _check_line(subject: Subject, field: str, value: object) -> None:
    check_text(subject, field, value)
    if any(category(character) in _BREAKS for character in str(value)):
        raise subject.error(field, "has line breaks or control characters in it; take them out")


def _check_share(subject: Subject, share: object) -> None:
    if share is not None and not (is_number(share) and 0 <= share <= 1):
        problem = f"must be a share from 0 to 1, such as .001, or None, got {describe_value(share)}"
        raise subject.error("max_error", problem)


def _check_flag(subject: Subject, field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise subject.error(field, f"must be True or False, got {describe_value(value)}")


def _check_ask(subject: Subject, ask: object) -> None:
    if ask not in ("one", "together"):
        raise subject.error("ask", f"must be 'one' or 'together', got {describe_value(ask)}")


def _check_inputs(subject: Subject, value: object) -> None:
    listed = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [None]
    names: set[str] = set()
    for each in listed:
        if not isinstance(each, Input):
            raise subject.error("inputs", f"must be a list of Input(…), got {describe_value(cast('object', value))}")
        if each.name in names:
            raise subject.error("inputs", f"has {each.name!r} twice; one input says all of one argument")
        names.add(each.name)


def dependency_fault(subject: Subject, inputs: Sequence[Input], tools: Collection[str]) -> FlowValidationError | None:
    """Return the error of an input that depends on what is not there, or on itself; None if there is none.

    Args:
        subject: The flow.
        inputs: Its inputs, and behind them those of the flows that it calls.
        tools: The steps of its chain and of the flows that it calls.
    """
    found = dependency_problem(inputs, tools)
    if found is None:
        return None
    return subject.error(f"inputs[{found.place}].{found.field}", found.problem)


def bar_faults(
    subject: Subject, fields: Mapping[str, Any], *, composite: bool, min_examples: int, wrong: Collection[str] = ()
) -> list[FlowValidationError]:
    """Return an error for each field with too little content for the flow to be found and chosen.

    `wrong` are fields, or parts of some, that `field_faults` has named: nothing more is said of them. A flow that is
    only called is never looked for, and needs none of it.
    """
    known = {top_field(each) for each in wrong}
    faults: list[FlowValidationError] = []
    if not min_examples or fields["only_called"] is True:
        return faults
    required = ("description",) if composite else ("description", "condition")
    for field in required:
        if field not in known and not fields[field].strip():
            faults.append(subject.error(field, f"is empty; {_PURPOSE[field]}"))
    if not composite and "desired_effects" not in known and not fields["desired_effects"]:
        faults.append(subject.error("desired_effects", "needs at least one: what is true once the flow has run?"))
    if "examples" not in known:
        try:
            _check_examples(subject, fields["examples"], min_examples)
        except FlowValidationError as error:
            faults.append(error)
    return faults


_PURPOSE = {
    "description": "say in a sentence what the flow does (a class's docstring counts)",
    "condition": "say when this flow is the right one",
}


def _check_examples(subject: Subject, examples: Sequence[str], least: int) -> None:
    places: dict[str, list[int]] = {}
    for number, example in enumerate(examples, start=1):
        places.setdefault(example.strip().casefold(), []).append(number)
    repeated = [numbers for numbers in places.values() if len(numbers) > 1]
    if repeated:
        listed: list[str] = []
        for numbers in repeated[:_MOST_NAMED]:
            text = beginning(examples[numbers[0] - 1], _SHOWN)
            listed.append(f"{text!r} (number {' and '.join(map(str, numbers[:_MOST_NAMED]))})")
        raise subject.error("examples", f"repeats {'; '.join(listed)}; each example must be a different request")
    if len(places) < least:
        missing = count_of(least - len(places), "more request")
        problem = f"has {len(places)}, and at least {least} different ones are needed"
        raise subject.error("examples", f"{problem}; add {missing} in a user's words")


def check_text(subject: Subject, field: str, value: object) -> None:
    """Refuse a value that is not text, or text that cannot be encoded."""
    if not isinstance(value, str):
        raise subject.error(field, f"must be a text, got {describe_value(value)}")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise subject.error(field, "holds half of a surrogate pair, which is no valid Unicode; take it out")


def _check_texts(subject: Subject, field: str, value: object) -> None:
    if isinstance(value, str):
        raise subject.error(field, f"must be a list of texts, got one text; write [{reprlib.repr(value)}]")
    shown = value
    if not isinstance(value, Sequence) or isinstance(value, bytes | bytearray):
        raise subject.error(field, f"must be a list of texts, got {describe_value(shown)}")
    for number, item in enumerate(cast("Sequence[object]", value), start=1):
        if isinstance(item, str) and not item.strip():
            raise subject.error(field, f"number {number} is empty; write it or take it out")
        check_text(subject, f"{field}[{number - 1}]", item)


def _check_optional(subject: Subject, optional: Sequence[str], tools: Sequence[str]) -> None:
    for number, name in enumerate(optional, start=1):
        if name not in tools:
            advice = did_you_mean(name, tools) or "add it to the flow's `tools`, or take it out here"
            raise subject.error("optional_tools", f"number {number}, {name!r}, is not among the flow's tools; {advice}")


def _check_priority(subject: Subject, value: object) -> None:
    shown = value
    listed = cast("Sequence[object]", value) if isinstance(value, Sequence) and not isinstance(value, str) else ()
    numbers = [each for each in listed if isinstance(each, int) and not isinstance(each, bool)]
    if not len(listed) == len(numbers) == _PRIORITY:
        raise subject.error("priority", f"must be two whole numbers such as (0, 0), got {describe_value(shown)}")
    if max(map(abs, numbers)) >= _PRIORITY_LIMIT:
        raise subject.error("priority", f"must be numbers between -{_PRIORITY_LIMIT} and {_PRIORITY_LIMIT}")


def fault_in_reply(reply: str) -> str:
    """Return why no facts (texts by name) can fill this template, or ""."""
    try:
        list(Formatter().parse(reply))
    except ValueError as error:
        return f"is no template ({error}); a fact stands in braces, {{order_id}}, and a brace alone is written twice"
    try:
        template_fields(reply, of="fact")
    except ValueError as error:
        return str(error)
    return ""


FIELDS = ("name", "description", "condition", "desired_effects", "examples", "tools", "steps", "priority", "aliases")
"""The content of a flow."""
OPERATIONAL = (
    *("title", "owner", "optional_tools", "manual", "max_error"),
    *("inputs", "ask", "calls", "handover", "only_called"),
)
"""Fields for whoever runs the flow and for users. Like `_RUNNING` they are not embedded and not in the checksum: a new
title would otherwise re-embed every flow, though neither recall nor prompts change."""
_RUNNING = ("chain", "reply")
"""Fields for whoever runs the flow: they say nothing about when the flow is the right one."""
_PARTS = ("flows", "branches", "otherwise")
_NEAR = 0.8


def check_spelling(kind: type) -> None:
    """Refuse each plain public attribute, new in `kind`, that looks like a misspelt field it does not set.

    Annotated attributes, and values other than text, list or tuple, are the author's own.
    """
    own = vars(kind)
    faults: list[FlowValidationError] = []
    for name, value in own.items():
        new = not any(name in vars(base) for base in kind.__mro__[1:])
        if name.startswith("_") or not new or not isinstance(value, str | list | tuple):
            continue
        unset: list[str] = []
        for field in (*FIELDS, *OPERATIONAL, *_RUNNING, *_PARTS):
            if hasattr(kind, field) and field not in own and f"_own_{field}" not in own:
                unset.append(field)
        found = near(name, unset, cutoff=_NEAR)
        if found and not _is_annotated(kind, name):
            flow = own.get("name")
            place = locate().describe(f"{kind.__module__}.{kind.__qualname__}")
            subject = Subject(name=flow if isinstance(flow, str) and flow else kind.__qualname__, place=place)
            problem = f"is no field of a flow; did you mean {found[0]!r}? (An attribute of your own: annotate it)"
            faults.append(subject.error(name, problem))
    raise_all(faults)


def _is_annotated(kind: type, name: str) -> bool:
    try:
        return name in get_annotations(kind)
    except NameError:  # evaluated here since Python 3.14; some names exist only for type checkers
        return True
