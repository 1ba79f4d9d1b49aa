"""What has to come of a turn of an agent, what came of it, and whether the two agree: a check for each thing."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from jazz_select.agent.turn import TurnStatus
from jazz_select.json_values import json_or_same
from jazz_select.text import beginning, json_line

_SHOWN: Final = 400
_LEAST_PATTERN: Final = 3
_NONE: Final = "none"


class Strict(BaseModel):
    """A slip of the pen in a file is an error, and not a check that is never made."""

    model_config = ConfigDict(frozen=True, extra="forbid", coerce_numbers_to_str=True)


def _several(given: object) -> object:
    """A list, of one where one stands alone; the word none is a list of nothing."""
    if given == _NONE:
        return []
    return [cast("object", given)] if isinstance(given, str | int | float | dict) else given


def _words(given: object) -> object:
    several: object = _several(given)
    if isinstance(several, list):
        for text in cast("list[object]", several):
            _check_pattern(text)
        return cast("list[object]", several)
    return several


def _check_pattern(text: object) -> None:
    if (pattern := pattern_of(text)) is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            msg = f"{beginning(str(text), _SHOWN)} is no pattern ({error}); take the slashes away, or mend it"
            raise ValueError(msg) from error


def _as_call(given: object) -> object:
    """A name alone, or `name: {argument: value}`."""
    if isinstance(given, str):
        return {"tool": given}
    if isinstance(given, Mapping) and len(pair := cast("Mapping[object, object]", given)) == 1 and "tool" not in pair:
        ((name, arguments),) = pair.items()
        return {"tool": name, "arguments": {} if arguments is None else arguments}
    return cast("object", given)


Names = Annotated[tuple[str, ...], BeforeValidator(_several)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class ExpectedCall(Strict):
    """A call of a tool; of its arguments only those that are named have to agree.

    Attributes:
        tool: The tool's name.
        arguments: Values that the call's arguments have to have; mappings in them again only as far as they are told,
            lists entry by entry. A text between slashes is a pattern that is looked for in the argument's text.
    """

    tool: str = Field(min_length=1)
    arguments: Mapping[str, Any] = Field(default_factory=dict[str, Any])

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: object) -> object:
        return _as_call(given)

    def __str__(self) -> str:
        return called(self.tool, self.arguments)


class Expected(Strict):
    """What has to come of a turn, or of a whole conversation; what is not said is not looked at.

    Attributes:
        flows: The flows that ran, exactly these, in order; none where no flow may have run.
        under_way: The flows that are open afterwards, exactly these, the active one last.
        waits_for: What the active flow waits for: names of facts; or, of a call that waits for a yes, the tool's name.
        status: How it ended, as of `TurnResult`.
        tools: The calls that were made, exactly these, in order.
        never_tools: Tools that may not have been called.
        says: What the text has to hold: words, whatever their case and the breaks of lines; a pattern between slashes.
        never_says: What it may not hold, likewise.
        reason: Words of why it came out so (`TurnResult.reason`), such as why a flow was handed over.
        value: What the answer in the turn's schema has to hold, compared as arguments are.
        model_calls: How often a model may be asked, at most.
    """

    flows: Names | None = None
    under_way: Names | None = None
    waits_for: Names | None = None
    status: TurnStatus | None = None
    tools: Annotated[tuple[ExpectedCall, ...], BeforeValidator(_several)] | None = None
    never_tools: Names = ()
    says: Words = ()
    never_says: Words = ()
    reason: Words = ()
    value: Any = None
    model_calls: int | None = Field(default=None, ge=0)

    @property
    def flow_names(self) -> Iterator[tuple[str, str]]:
        """The flows that are named, each with the field that names it."""
        for field in ("flows", "under_way"):
            yield from ((field, name) for name in getattr(self, field) or ())

    @property
    def tool_names(self) -> Iterator[tuple[str, str]]:
        """The tools that are named, likewise."""
        yield from (("tools", call.tool) for call in self.tools or ())
        yield from (("never_tools", name) for name in self.never_tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """A call that was made, with its arguments as plain JSON values; its status is `ok`, `failed` or `unknown`."""

    tool: str
    arguments: Mapping[str, Any]
    status: str = "ok"

    def __str__(self) -> str:
        return called(self.tool, self.arguments) + ("" if self.status == "ok" else f" ({self.status})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of a turn, or of a whole conversation; the fields are those of `Expected`."""

    flows: tuple[str, ...] = ()
    under_way: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    status: str = ""
    tools: tuple[Called, ...] = ()
    text: str = ""
    reason: str = ""
    value: Any = None
    model_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was expected.

    Attributes:
        name: Which, as the file calls it.
        passed: Whether it came out so.
        expected: What was expected, as text.
        seen: What came, as text.
    """

    name: str
    passed: bool
    expected: str
    seen: str

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.name}: {'as expected' if self.passed else f'expected {self.expected}, and it was {self.seen}'}"


def judged(wanted: Expected, seen: Seen) -> tuple[Check, ...]:
    """A check for each thing that is expected, in the order of its fields. Pure."""
    return tuple(_judged(wanted, seen))


def _judged(wanted: Expected, seen: Seen) -> Iterator[Check]:
    yield from _of_flows(wanted, seen)
    yield from _of_calls(wanted, seen)
    yield from _of_words(wanted, seen)
    if wanted.value is not None:
        passed = agrees(wanted.value, seen.value)
        yield Check(name="value", passed=passed, expected=_json(wanted.value), seen=_json(seen.value))
    if wanted.model_calls is not None:
        passed = seen.model_calls <= wanted.model_calls
        most = f"at most {wanted.model_calls}"
        yield Check(name="model_calls", passed=passed, expected=most, seen=str(seen.model_calls))


def _of_flows(wanted: Expected, seen: Seen) -> Iterator[Check]:
    if wanted.flows is not None:
        yield _listed("flows", wanted.flows, seen.flows, passed=wanted.flows == seen.flows)
    if wanted.under_way is not None:
        yield _listed("under_way", wanted.under_way, seen.under_way, passed=wanted.under_way == seen.under_way)
    if wanted.waits_for is not None:
        same = sorted(wanted.waits_for) == sorted(seen.waits_for)
        yield _listed("waits_for", wanted.waits_for, seen.waits_for, passed=same)
    if wanted.status is not None:
        why = f" ({beginning(seen.reason, _SHOWN)})" if seen.reason and seen.status != wanted.status else ""
        passed = seen.status == wanted.status
        yield Check(name="status", passed=passed, expected=wanted.status, seen=f"{seen.status}{why}")


def _of_calls(wanted: Expected, seen: Seen) -> Iterator[Check]:
    if wanted.tools is not None:
        yield _listed("tools", wanted.tools, seen.tools, passed=agree_calls(wanted.tools, seen.tools))
    for name in wanted.never_tools:
        made = [call for call in seen.tools if call.tool == name]
        yield _listed("never_tools", [f"no {name}"], made, passed=not made)


def _of_words(wanted: Expected, seen: Seen) -> Iterator[Check]:
    for field, words, text in (("says", wanted.says, seen.text), ("reason", wanted.reason, seen.reason)):
        for each in words:
            passed = is_said(each, text)
            yield Check(name=field, passed=passed, expected=json_line(each), seen=_quoted(text))
    for each in wanted.never_says:
        passed = not is_said(each, seen.text)
        yield Check(name="never_says", passed=passed, expected=f"no {json_line(each)}", seen=_quoted(seen.text))


def is_said(words: str, text: str) -> bool:
    """Whether words are in a text, whatever the case and the breaks of lines; between slashes they are a pattern."""
    if (pattern := pattern_of(words)) is not None:
        return re.search(pattern, text, re.IGNORECASE) is not None
    return " ".join(words.split()).casefold() in " ".join(text.split()).casefold()


def pattern_of(words: Any) -> str | None:
    """The pattern between the slashes of a text; None where it is none."""
    if isinstance(words, str) and len(words) >= _LEAST_PATTERN and words[0] == words[-1] == "/":
        return words[1:-1]
    return None


def agree_calls(wanted: Sequence[ExpectedCall], made: Sequence[Called]) -> bool:
    """Whether exactly these calls were made, in order, each with the arguments that are named."""
    return len(wanted) == len(made) and all(
        want.tool == call.tool and agrees(want.arguments, call.arguments)
        for want, call in zip(wanted, made, strict=True)
    )


def agrees(wanted: object, given: object) -> bool:
    """Whether a value is as expected: mappings as far as they are told, lists entry by entry, texts also by a pattern.

    Dates and the like are compared as JSON tells them; a number and a text that tells it are two things.
    """
    wanted, given = json_or_same(wanted), json_or_same(given)
    if isinstance(wanted, dict) and isinstance(given, dict):
        told, got = cast("dict[str, object]", wanted), cast("dict[str, object]", given)
        return all(name in got and agrees(value, got[name]) for name, value in told.items())
    if isinstance(wanted, list) and isinstance(given, list):
        entries, has = cast("list[object]", wanted), cast("list[object]", given)
        return len(entries) == len(has) and all(map(agrees, entries, has))
    if isinstance(given, str) and (pattern := pattern_of(cast("object", wanted))) is not None:
        return re.search(pattern, given, re.IGNORECASE) is not None
    return isinstance(wanted, bool) == isinstance(given, bool) and wanted == given


def called(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in one line."""
    return f"{tool}({', '.join(f'{name}={_json(value)}' for name, value in arguments.items())})"


def _listed(name: str, wanted: Sequence[object], seen: Sequence[object], *, passed: bool) -> Check:
    told, got = (", ".join(map(str, each)) or _NONE for each in (wanted, seen))
    return Check(name=name, passed=passed, expected=beginning(told, _SHOWN), seen=beginning(got, _SHOWN))


def _quoted(text: str) -> str:
    return json_line(beginning(text, _SHOWN))


def _json(value: object) -> str:
    return beginning(json_line(json_or_same(value)), _SHOWN)
