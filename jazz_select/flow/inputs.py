"""Inputs of a flow: what its author says of each, and which are asked for, by what they depend on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from string import Formatter
from typing import Annotated, Any, Final, NamedTuple, TypeAlias, cast

from jazz_select.arguments import Constraint, checked
from jazz_select.errors import ConfigError
from jazz_select.json_values import is_object
from jazz_select.text import did_you_mean, in_words, nfc, template_fields
from jazz_select.words import by_spelling, folded_name

_MOST_CHOICES: Final = 100
_MOST_CONDITIONS: Final = 10
_FROM: Final = "from"
_Text: TypeAlias = Annotated[str, Constraint("a text of at most 1,000 characters", max_length=1_000)]


@checked
@dataclass(frozen=True, slots=True)
class ToolChoices:
    """The choices of an input, as a tool returns them when the input is asked for.

    Attributes:
        tool: A connected tool that changes nothing. It returns a list, or an object with one list in it.
        value: The field of an entry that is the value; empty if each entry is the value itself.
        label: The field of an entry that users are shown, and may answer; by default the value.
        arguments: Names of what the tool gets for its arguments, by argument: inputs of the flow, or results of tools
            ("find_customer.id"). An argument that is not named here gets what is known under its own name, from the
            caller's context too.
    """

    tool: _Text
    value: _Text = ""
    label: _Text = ""
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        if not self.tool.strip():
            raise ConfigError("choices from a tool need the tool's name")
        if self.label and not self.value:
            raise ConfigError(f"choices from the tool {self.tool!r:.80} have a label and need a value, too")
        given = cast("object", self.arguments)
        names = chain.from_iterable(given.items()) if is_object(given) else [given]
        if not all(isinstance(each, str) and each.strip() for each in names):
            what = "must be a mapping of arguments to names"
            raise ConfigError(f"arguments of the tool {self.tool!r:.80} {what}, got {given!r:.80}")
        object.__setattr__(self, "tool", nfc(self.tool))
        object.__setattr__(self, "arguments", dict(self.arguments))


@checked
@dataclass(frozen=True, slots=True)
class Input:
    """One input of a flow, by the name of the tool argument.

    Attributes:
        name: The argument. If no tool takes it, the flow's `reply` and a model that continues the flow still get it.
        question: The question to the user, such as "What is the email address of your account?".
        choices: The allowed values, shown with the question: a list, or `ToolChoices` for a tool that lists them.
        example: An allowed value, shown with the question.
        check: Called as soon as a value is given: a function of the value, `async` or not, or the name of a connected
            read-only tool that takes just the value. True or None accepts the value. False refuses it with `problem`; a
            returned text or a raised `WrongValue` refuses it in its own words.
        problem: The message for a value refused without one; `{value}` stands for the value.
        required: Whether to ask even if the tool could do without it; in a flow without a chain, before a model
            continues.
        when: Asked for only if all of this holds: values by the name of another input, or of a tool's result
            ("get_booking.refundable"). A list holds several allowed values. True means given at all, and for a yes/no
            input "yes"; False means the opposite.
        propose: A value that is proposed with the question, which a plain yes takes; or `{"from": name}` for what is
            known under the name of an input or a tool's result.
    """

    name: _Text
    question: _Text = ""
    choices: "Sequence[Any] | ToolChoices" = ()
    example: _Text = ""
    check: "Callable[[Any], object] | str | None" = None
    problem: _Text = ""
    required: bool = True
    when: Mapping[str, Any] = field(default_factory=dict[str, Any])
    propose: "str | float | Mapping[str, str] | None" = None

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigError("an input needs the name of the argument that it is for")
        self._check_choices()
        if self.check is not None and not isinstance(self.check, str) and not callable(self.check):
            what = "a function of the value, or the name of a tool"
            raise ConfigError(f"check of the input {self.name!r:.80} must be {what}, got {self.check!r:.80}")
        self._check_problem()
        self._check_when()
        self._check_proposal()

    def _check_choices(self) -> None:
        listed = cast("object", self.choices)
        if isinstance(listed, ToolChoices):
            return
        values = cast("Sequence[object]", listed)
        if not isinstance(listed, list | tuple) or len(values) > _MOST_CHOICES:
            what = f"a list of at most {_MOST_CHOICES} values"
            raise ConfigError(f"choices of the input {self.name!r:.80} must be {what}, got {listed!r:.80}")
        wrong = [each for each in values if not isinstance(each, str | int | float)]
        if wrong:
            what = "texts and numbers"
            raise ConfigError(f"choices of the input {self.name!r:.80} must be {what}, got {wrong[0]!r:.80}")
        if values and self.example and self.example not in map(str, values):
            what = f"one of its choices, got {self.example!r:.80}"
            raise ConfigError(f"example of the input {self.name!r:.80} must be {what}")
        object.__setattr__(self, "choices", tuple(values))

    def _check_problem(self) -> None:
        try:
            list(Formatter().parse(self.problem))
        except ValueError as error:
            advice = "write {{ and }} for braces of its own"
            raise ConfigError(f"problem of the input {self.name!r:.80}: {error}; {advice}") from error
        try:
            named = {*template_fields(self.problem)} - {"value"}
        except ValueError as error:
            raise ConfigError(f"problem of the input {self.name!r:.80} {error}") from error
        if named:
            others = sorted(map(str, named))
            raise ConfigError(f"problem of the input {self.name!r:.80} may name {{value}} alone, got {others}")

    def _check_when(self) -> None:
        given = cast("object", self.when)
        if not is_object(given) or len(given) > _MOST_CONDITIONS:
            what = f"a mapping of at most {_MOST_CONDITIONS} names to values, such as {{'payment': 'card'}}"
            raise ConfigError(f"when of the input {self.name!r:.80} must be {what}, got {given!r:.80}")
        for name, wanted in given.items():
            if not isinstance(cast("object", name), str) or not name.strip():
                what = "names of inputs or results"
                raise ConfigError(f"when of the input {self.name!r:.80} must have {what}, got {name!r:.80}")
            values = allowed_values(wanted)
            if not values or not all(isinstance(each, str | int | float) for each in values):
                what = "a text, a number, true, false, or a list of such values"
                problem = f"{name!r:.80} must be {what}, got {wanted!r:.80}"
                raise ConfigError(f"when of the input {self.name!r:.80}: {problem}")
        object.__setattr__(self, "when", dict(self.when))

    def _check_proposal(self) -> None:
        given = cast("object", self.propose)
        if isinstance(given, Mapping):
            named = [*cast("Mapping[object, object]", given).items()]
            if len(named) != 1 or named[0][0] != _FROM or not isinstance(named[0][1], str) or not named[0][1].strip():
                what = "a value, or {'from': NAME} for what is known under a name"
                raise ConfigError(f"propose of the input {self.name!r:.80} must be {what}, got {given!r:.80}")
            object.__setattr__(self, "propose", dict(self.propose))  # pyright: ignore[reportCallIssue, reportArgumentType]
            return
        if given is not None and not isinstance(given, str | int | float):
            raise ConfigError(f"propose of the input {self.name!r:.80} must be a text or a number, got {given!r:.80}")
        listed = self.listed
        if given is not None and listed and str(given) not in map(str, listed):
            raise ConfigError(f"propose of the input {self.name!r:.80} must be one of its choices, got {given!r:.80}")

    @property
    def words(self) -> str:
        """The name in words."""
        return in_words(self.name)

    @property
    def listed(self) -> tuple[Any, ...]:
        """The choices that its author lists; empty if a tool lists them, or there are none."""
        return () if isinstance(self.choices, ToolChoices) else tuple(self.choices)

    @property
    def by_tool(self) -> ToolChoices | None:
        """The choices that a tool lists; None if none does."""
        return self.choices if isinstance(self.choices, ToolChoices) else None

    @property
    def proposes_from(self) -> str:
        """The name under which the proposed value is known; empty if the author gives it, or there is none."""
        return self.propose[_FROM] if isinstance(self.propose, Mapping) else ""

    @property
    def needs(self) -> dict[str, str]:
        """The names of inputs and results that it depends on, each with the field that names it."""
        found = dict.fromkeys(self.when, "when")
        if self.by_tool is not None:
            found |= dict.fromkeys(self.by_tool.arguments.values(), "choices")
        if self.proposes_from:
            found[self.proposes_from] = "propose"
        return found


class ToolResult(NamedTuple):
    """The name of a tool's result: "get_booking.refundable" is the field `refundable` of what `get_booking` returned.

    Attributes:
        tool: The tool.
        path: The names of the fields, from the outside in.
    """

    tool: str
    path: tuple[str, ...]


def result_named(name: str, tools: Collection[str]) -> ToolResult | None:
    """Return the result of one of these tools that a name means, or None."""
    dots = [place for place, letter in enumerate(name) if letter == "."]
    for place in reversed(dots):
        path = tuple(name[place + 1 :].split("."))
        if name[:place] in tools and all(path):
            return ToolResult(name[:place], path)
    return None


class DependencyProblem(NamedTuple):
    """What is wrong with what an input depends on.

    Attributes:
        place: The place of the input in the list, from 0.
        field: Its field.
        problem: What is wrong.
    """

    place: int
    field: str
    problem: str


def dependency_problem(inputs: Sequence[Input], tools: Collection[str]) -> DependencyProblem | None:
    """Return what is wrong with what inputs depend on; None if nothing is.

    Args:
        inputs: The inputs of a flow, and of those that it calls behind them.
        tools: The tools whose results are known before an input is asked for, at the latest.
    """
    by_name = {each.name: each for each in inputs}
    known = [*by_name, *(f"{tool}." for tool in tools)]
    for place, each in enumerate(inputs):
        for name, needing_field in each.needs.items():
            if name not in by_name and result_named(name, tools) is None:
                advice = did_you_mean(name, known) or "name an input of the flow, or a step of its chain and a field"
                problem = f"{name!r:.80} is no input of the flow, and no result of a step; {advice}"
                return DependencyProblem(place, needing_field, problem)
        for name, wanted in each.when.items():
            problem = _condition_problem(name, wanted, by_name.get(name))
            if problem:
                return DependencyProblem(place, "when", problem)
    return _find_circle(inputs, by_name)


def _condition_problem(name: str, wanted: Any, other: Input | None) -> str:
    """Return why the condition on an input can never hold, or ""."""
    if other is None or not other.listed:
        return ""
    allowed = [str(each) for each in other.listed]
    for value in allowed_values(wanted):
        if not isinstance(value, bool) and not any(is_same_value(value, each) for each in other.listed):
            advice = did_you_mean(str(value), allowed) or f"it is one of {', '.join(allowed[:10])}"
            return f"{name} is never {value!r:.80}; {advice}"
    return ""


def _find_circle(inputs: Sequence[Input], by_name: Mapping[str, Input]) -> DependencyProblem | None:
    for place, each in enumerate(inputs):
        path = _way_back(each.name, by_name)
        if path:
            needing_field = by_name[each.name].needs[path[1]]
            problem = f"{' → '.join(path)} is a circle; take one of these out"
            return DependencyProblem(place, needing_field, problem)
    return None


def _way_back(name: str, by_name: Mapping[str, Input]) -> tuple[str, ...]:
    """Return the way from an input through what it depends on back to itself; empty if there is none."""
    ways: list[tuple[str, ...]] = [(name,)]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for following in by_name[way[-1]].needs:
            if following == name:
                return (*way, name)
            if following in by_name and following not in seen:
                seen.add(following)
                ways.append((*way, following))
    return ()


def allowed_values(wanted: object) -> tuple[Any, ...]:
    """Return the values of which a condition wants one."""
    if isinstance(wanted, list | tuple):
        return tuple(cast("Sequence[Any]", wanted))
    return (wanted,)


def is_same_value(one: object, other: object) -> bool:
    """Whether two values are the same, however they are written: a number or a text of it, upper or lower case."""
    if isinstance(one, bool) or isinstance(other, bool):  # before numbers: Python takes True for 1
        return one is other or str(one).casefold() == str(other).casefold()
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    return str(one).strip().casefold() == str(other).strip().casefold()


_NOTHING: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputState:
    """What is known of the inputs of a flow at one point of its run.

    Attributes:
        inputs: The inputs, in the order of asking.
        facts: What is known, by name.
        tools: The tools whose results inputs may depend on.
        to_come: Those of them that have not run yet, and may still.
    """

    inputs: Sequence[Input]
    facts: Mapping[str, Any]
    tools: Collection[str] = ()
    to_come: Collection[str] = ()

    def is_wanted(self, declared: Input) -> bool | None:
        """Whether an input is asked for; None if that is not known before something else is."""
        return self._is_wanted(declared, frozenset((declared.name,)))

    def is_ready(self, declared: Input) -> bool:
        """Whether all is known, or will never be, that the question for an input needs."""
        return all(self._value(name, frozenset((declared.name,))) is not None for name in declared.needs)

    def value(self, name: str) -> Any:
        """Return what is known under the name of an input or a tool's result, or None."""
        found = self._value(name, frozenset())
        return None if found is _NOTHING else found

    def unwanted(self) -> set[str]:
        """Return the names of inputs that are not asked for, so that what was said of them does not count."""
        return {each.name for each in self.inputs if each.when and self.is_wanted(each) is False}

    def awaited_tools(self) -> set[str]:
        """Return the tools to come that an input waits for which has no value yet."""
        found: set[str] = set()
        for each in self.inputs:
            if self._fact(each.name) is not _NOTHING:
                continue
            results = (result_named(name, self.tools) for name in each.needs)
            found |= {result.tool for result in results if result is not None and result.tool in self.to_come}
        return found

    def _is_wanted(self, declared: Input, path: frozenset[str]) -> bool | None:
        is_open = False
        for name, wanted in declared.when.items():
            value = self._value(name, path)
            if value is None:
                is_open = True
            elif not _meets(value, wanted):
                return False
        return None if is_open else True

    def _value(self, name: str, path: frozenset[str]) -> Any:
        """Return what is known under a name, `_NOTHING` if nothing will be, or None if it is still to come."""
        declared = next((each for each in self.inputs if each.name == name), None)
        if declared is None:
            result = result_named(name, self.tools)
            return self._fact(name) if result is None else self._result(result)
        if declared.when and name not in path and self._is_wanted(declared, path | {name}) is False:
            return _NOTHING
        found = self._fact(name)
        if found is not _NOTHING or not declared.required:
            return found
        return None  # it is asked for, or will be

    def _result(self, result: ToolResult) -> Any:
        if result.tool in self.to_come:
            return None
        found = self._fact(result.path[0])
        for part in result.path[1:]:
            found = found.get(part, _NOTHING) if is_object(found) else _NOTHING
        return _NOTHING if found is None else found

    def _fact(self, name: str) -> Any:
        if self.facts.get(name) is not None:
            return self.facts[name]
        alike = by_spelling(self.facts).get(folded_name(name), [])
        found = self.facts[alike[0]] if len(alike) == 1 else None
        return _NOTHING if found is None else found


def _meets(value: object, wanted: object) -> bool:
    """Whether a value, or that there is none, is what a condition wants."""
    return any(_is_meant(value, each) for each in allowed_values(wanted))


def _is_meant(value: object, wanted: object) -> bool:
    if isinstance(wanted, bool):
        is_given = value is not _NOTHING and value is not False
        return is_given is wanted
    return value is not _NOTHING and is_same_value(value, wanted)
