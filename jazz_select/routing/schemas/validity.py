"""Whether a value is valid by a JSON Schema that somebody else wrote: what is wrong with it, in words. Bounded."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache, partial
from itertools import count, islice
from typing import Any, Final, cast

from jazz_select.errors import ConfigError
from jazz_select.json_values import as_bytes, as_json, json_bytes, json_or_same
from jazz_select.routing.schemas.fields import TYPES, Reading, Schema, is_a, mapping
from jazz_select.routing.schemas.keywords import (
    SIMPLE,
    Looked,
    check_references,
    in_todays_words,
    known_by,
    prefix,
    referred,
    size_of,
)
from jazz_select.text import LONGEST_PROBLEM, beginning, problem_of

MOST_PROBLEMS, LATER = 5, "later"
MOST_STEPS: Final = 22_000
"""Keywords and parts of a value that are looked at for one question."""
_MOST_WORDED: Final = 1_500
"""Those that are looked at to say in words what is wrong, which takes longer."""
_DEEPEST_WORDED: Final = 80
"""Keywords in keywords: far fewer than make Python stop, in the middle of whatever it is in."""
_LARGEST_CHECKED: Final = 4_000
_LARGEST_WORDED: Final = 100_000
"""Bytes of a schema by which it is said in words."""
_LARGEST_WORDED_VALUE: Final = 20_000
_DEEPEST: Final = 100
TEXTS: Final = frozenset(("pattern", "format"))
_MATCHING: Final = ("pattern", "patternProperties", "unevaluatedProperties")
"""The keywords that match regular expressions, beside `additionalProperties` where there are `patternProperties`."""


# --- a verdict -----------------------------------------------------------------


def is_valid(
    value: object,
    schema: object,
    root: Schema,
    *,
    unread: frozenset[str] = TEXTS,
    reading: Reading | None = None,
) -> bool | None:
    """Whether a value is valid by a schema, as its standard means it; None where that is not decided here.

    Args:
        value: JSON values.
        schema: A schema, or a part of one.
        root: The whole schema, where references point.
        unread: Those of the keywords about texts that count, and are not decided here.
        reading: How much may still be looked at.
    """
    return _judged(value, schema, reading or Reading(root, MOST_STEPS), unread)[0]


def _judged(value: object, schema: object, reading: Reading, unread: frozenset[str]) -> tuple[bool | None, str]:
    """Whether it is valid, and where and by which keyword it is not."""
    judge = _Judge(reading, unread)
    try:
        return judge.judge(value, schema, 0), judge.fault
    except Exception:  # noqa: BLE001 - a schema may be any JSON at all, and a value may be none
        return None, ""


_Read = tuple[object, Schema, list[tuple[str, Callable[..., bool | None], Any]]]


def _undecided(*_: object) -> None:
    return None


def _of_all(verdicts: Iterable[bool | None]) -> bool | None:
    """No from the first that says no on; yes where all do."""
    found: bool | None = True
    for verdict in verdicts:
        if verdict is False:
            return False
        found = found and verdict
    return found


class _Judge:
    """One question about a value."""

    def __init__(self, reading: Reading, unread: frozenset[str]) -> None:
        self._reading = reading
        self._undecided = _UNDECIDED | unread
        self._place: list[str] = []
        self._read: dict[int, _Read] = {}
        self._referred: dict[tuple[int, str], bool | None] = {}
        self.fault = ""
        """Where in the value it failed, and by which keyword: of the first one, from the outside in."""

    def judge(self, value: object, schema: object, depth: int) -> bool | None:
        self.spend(1)
        if isinstance(schema, bool):
            return schema
        _, own, steps = self._read.get(id(schema)) or self._compiled(schema)
        if (not own and schema != {}) or depth > _DEEPEST or type(value) not in _JSON:
            return None
        found: bool | None = True
        for keyword, decide, said in steps:
            held = decide(self, said, value, own, depth + 1)
            if held is False:
                if keyword not in _THROUGH or not self.fault:
                    self.fault = f"{place(self._place)}{keyword} does not hold"
                return False
            found = found and held
        return found

    def _compiled(self, schema: object) -> _Read:
        """A schema, in today's words, and what decides about it; kept with it, so that its identity stays its own."""
        steps: list[tuple[str, Callable[..., bool | None], Any]] = []
        own: Schema = {}
        if isinstance(schema, Mapping):
            schema = cast("Schema", schema)
            own = self._reading.node(schema)
            steps += [(each, _DECIDING[each], said) for each, said in own.items() if each in _DECIDING]
            steps += [(each, _undecided, None) for each in own if each in self._undecided]
            if self._reading.is_elsewhere(schema):
                steps = [("$id", _undecided, None)]
        read = self._read[id(schema)] = (schema, own, steps)
        return read

    def spend(self, steps: int) -> None:
        self._reading.left -= steps
        if self._reading.left < 0:
            raise OverflowError(_TOO_MUCH)

    def all_of(self, values: Iterable[tuple[object, object, object]], depth: int) -> bool | None:
        """Whether each value is valid by its schema; the first of three says where it is."""
        self.fault = ""
        return _of_all(self._at(*each, depth) for each in values)

    def _at(self, where: object, value: object, schema: object, depth: int) -> bool | None:
        self._place.append(str(where))
        held = self.judge(value, schema, depth)
        self._place.pop()
        return held

    def _type(self, said: Any, value: object, _: Schema, __: int) -> bool | None:
        kinds = [said] if isinstance(said, str) else said
        if any(each in TYPES and is_a(value, each) for each in kinds):
            return True
        return False if TYPES.issuperset(kinds) else None

    def _enum(self, said: Any, value: object, _: Schema, __: int) -> bool:
        if isinstance(value, str):
            return value in said
        self.spend(len(said) + size_of(value))
        own = known_by(value)
        return any(known_by(each) == own for each in said)

    def _const(self, said: Any, value: object, _: Schema, __: int) -> bool:
        self.spend(size_of(value))
        return known_by(said) == known_by(value)

    def _ref(self, said: Any, value: object, _: Schema, depth: int) -> bool | None:
        asked = (id(value), said)
        if asked not in self._referred:  # else each of two ways to one schema would double what is to do
            self._referred[asked] = self.judge(value, referred(said, self._reading.root), depth)
        return self._referred[asked]

    def _every(self, said: Any, value: object, _: Schema, depth: int) -> bool | None:
        return _of_all(self.judge(value, each, depth) for each in said)

    def _any(self, said: Any, value: object, _: Schema, depth: int) -> bool | None:
        found: bool | None = False
        for each in said:
            held = self.judge(value, each, depth)
            if held is True:
                return True
            found = None if held is None else found
        return found

    def _one(self, said: Any, value: object, _: Schema, depth: int) -> bool | None:
        held = [self.judge(value, each, depth) for each in said]
        if held.count(True) > 1:
            return False
        return None if None in held else True in held

    def _not(self, said: Any, value: object, _: Schema, depth: int) -> bool | None:
        held = self.judge(value, said, depth)
        return None if held is None else not held

    def _if(self, said: Any, value: object, own: Schema, depth: int) -> bool | None:
        held = self.judge(value, said, depth)
        if held is not None:
            return self.judge(value, own.get("then" if held else "else", True), depth)
        both = [self.judge(value, own.get(each, True), depth) for each in ("then", "else")]
        return both[0] if both[0] is both[1] else None

    def _items(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        if not isinstance(value, list):
            return True
        first = len(prefix(own))
        rest = cast("list[object]", value)[first:]
        return self.all_of(((place, each, said) for place, each in enumerate(rest, first)), depth)

    def _prefix(self, said: Any, value: Any, _: Schema, depth: int) -> bool | None:
        if not isinstance(value, list):
            return True
        return self.all_of(zip(count(), cast("list[object]", value), said, strict=False), depth)

    def _unique(self, said: Any, value: Any, _: Schema, __: int) -> bool:
        if said is not True or not isinstance(value, list):
            return True
        several = cast("list[object]", value)
        self.spend(size_of(several))
        return len(set(map(known_by, several))) == len(several)

    def _contains(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        if not isinstance(value, list):
            return True
        held = [self.judge(each, said, depth) for each in cast("list[object]", value)]
        least, most = own.get("minContains", 1), own.get("maxContains", len(held))
        surely, perhaps = held.count(True), held.count(True) + held.count(None)
        if perhaps < least or surely > most:
            return False
        return True if surely >= least and perhaps <= most else None

    def _properties(self, said: Any, value: Any, _: Schema, depth: int) -> bool | None:
        if not isinstance(value, dict):
            return True
        given = cast("dict[str, object]", value)
        names = [name for name in (given if len(given) < len(said) else said) if name in given and name in said]
        return self.all_of(((name, given[name], said[name]) for name in names), depth)

    def _more(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        if not isinstance(value, dict) or said is True:
            return True
        if "patternProperties" in own:
            return None
        known = mapping(own.get("properties"))
        given = cast("dict[str, object]", value)
        return self.all_of(((name, each, said) for name, each in given.items() if name not in known), depth)

    def _required(self, said: Any, value: Any, _: Schema, __: int) -> bool:
        return not isinstance(value, dict) or all(name in value for name in said)

    def _names(self, said: Any, value: Any, _: Schema, depth: int) -> bool | None:
        if not isinstance(value, dict):
            return True
        return self.all_of(((name, name, said) for name in cast("Schema", value)), depth)

    def _bringing(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        if not isinstance(value, dict):
            return True
        return self._every([each for name, each in said.items() if name in value], cast("object", value), own, depth)

    def _other_names(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        return self._unlooked(cast("Schema", value).items(), said, own, depth) if isinstance(value, dict) else True

    def _other_items(self, said: Any, value: Any, own: Schema, depth: int) -> bool | None:
        return self._unlooked(enumerate(cast("list[object]", value)), said, own, depth) if type(value) is list else True

    def _unlooked(self, given: Iterable[tuple[object, object]], said: Any, own: Schema, depth: int) -> bool | None:
        """What no keyword beside it looks at, whichever branches hold, and what one may look at."""
        surely, perhaps = (Looked(own, self._reading.root, surely=each) for each in (True, False))
        self.spend(surely.steps + perhaps.steps)
        found: bool | None = True
        for where, each in given:
            held = surely(where) or self._at(where, each, said, depth)
            if held is False and not perhaps(where):
                self.fault = self.fault if said else f"{place(self._place)}{where!r:.80} is not allowed there"
                return False
            found = found and (held or None)
        return found

    DECIDING: Final = {
        "$ref": _ref,
        "type": _type,
        "enum": _enum,
        "const": _const,
        "allOf": _every,
        "anyOf": _any,
        "oneOf": _one,
        "not": _not,
        "if": _if,
        "items": _items,
        "prefixItems": _prefix,
        "uniqueItems": _unique,
        "contains": _contains,
        "properties": _properties,
        "additionalProperties": _more,
        "required": _required,
        "propertyNames": _names,
        "dependentSchemas": _bringing,
        "unevaluatedProperties": _other_names,
        "unevaluatedItems": _other_items,
    }


def _nullable(_: _Judge, said: Any, value: Any, __: Schema, ___: int) -> bool | None:
    return None if said is True and value is None else True


def _simply(decide: Callable[[Any, Any], bool], _: _Judge, said: Any, value: Any, *__: Any) -> bool:
    return decide(said, value)


_DECIDING: Final[Mapping[str, Callable[..., bool | None]]] = {
    "nullable": _nullable,  # before what may say no to null
    **_Judge.DECIDING,
    **{keyword: partial(_simply, decide) for keyword, decide in SIMPLE.items()},
}
_THROUGH: Final = frozenset(
    (
        *("$ref", "allOf", "items", "prefixItems", "properties", "additionalProperties", "dependentSchemas"),
        *("unevaluatedProperties", "unevaluatedItems"),
    )
)
"""Keywords that hold where something further in does: that is what failed."""
_JSON: Final = frozenset((str, int, float, bool, type(None), list, dict))
_UNDECIDED: Final = frozenset(("patternProperties", "$dynamicRef", "$recursiveRef"))


# --- in words ------------------------------------------------------------------


class Checker:
    """Holds values against a JSON Schema, and never fetches one that it refers to."""

    def __init__(self, schema: Mapping[str, Any], *, patterns: bool = True, checked: bool = True) -> None:
        """Take a schema of any draft, or of OpenAPI.

        Args:
            schema: A JSON Schema.
            patterns: Whether to check regular expressions. One that somebody else wrote can be made to take hours on
                what a model says, so those of tools are left to the tools.
            checked: Whether to look first if it is a schema at all, which takes long for a large one.

        Raises:
            ConfigError: It is no JSON Schema, or refers to what is not there.
        """
        from jsonschema import Draft202012Validator
        from jsonschema_specifications import REGISTRY

        self._unread: frozenset[str] = frozenset(("pattern",)) if patterns else frozenset()
        try:
            self.schema: dict[str, Any] = as_json(dict(schema))
            todays: dict[str, Any] = in_todays_words(self.schema)
            if checked:
                Draft202012Validator.check_schema(todays)
            kind: Any = _validator(patterns=patterns)
            # A registry of its own: the default one would fetch what a schema refers to.
            self._validator: Any = kind(todays, registry=REGISTRY)
            if checked:
                check_references(todays)
        except BaseException as error:
            if not _is_fault(error):
                raise
            msg = f"the schema is no JSON Schema that can be used: {problem_of(error)}"
            raise ConfigError(msg) from error

    def problems(self, value: object) -> str:
        """What is wrong with a value, in words; empty where nothing is."""
        held, fault = _judged(value, self.schema, Reading(self.schema, MOST_STEPS), self._unread)
        return "" if held else self.worded(value, fault if held is False else "")

    def worded(self, value: object, fault: str) -> str:
        """What is wrong with a value, in words, where there is not too much to look at; else the fault."""
        left = _LEFT.set([_MOST_WORDED, _DEEPEST_WORDED])
        try:
            errors: list[Any] = list(islice(self._validator.iter_errors(value), MOST_PROBLEMS))
        except OverflowError:
            return fault or f"it could not be checked: {_TOO_MUCH}"
        except BaseException as error:  # too deep, or a part of the schema that cannot be used
            if not _is_fault(error):
                raise
            return fault or f"it could not be checked: {problem_of(error)}"
        finally:
            _LEFT.reset(left)
        return (
            "; ".join(f"{place(error.absolute_path)}{beginning(error.message, LONGEST_PROBLEM)}" for error in errors)
            or fault
        )


def invalid(schema: Mapping[str, Any], arguments: Mapping[str, Any], *, at_once: bool = False) -> str:
    """What is wrong with the arguments of a tool that has this input schema; empty where nothing is.

    `LATER` where something may be, it is to be told `at_once`, and what tells it in words is not loaded yet.
    """
    if not schema:
        return ""
    sent = {name: json_or_same(value) for name, value in arguments.items()}
    held, fault = _judged(sent, schema, Reading(schema, MOST_STEPS), frozenset())
    if held is False:
        held = _judged(sent, schema, Reading(schema, MOST_STEPS), frozenset(("pattern",)))[0]
    if held is None:
        fault = ""  # of a branch that may fail: what is not decided is not wrong
    try:
        text = as_bytes(dict(schema))
        if held or (held is None and all(any(each in text for each in some) for some in _TURNED)):
            return ""
        if at_once and not words_are_loaded():
            return LATER
        if len(text) > _LARGEST_WORDED or len(json_bytes(sent)) > _LARGEST_WORDED_VALUE:
            problems = fault or f"they could not be checked: {_TOO_MUCH}"
        else:
            checker = _kept_checker if len(text) <= _LARGEST_CHECKED else _checker
            problems = checker(text).worded(sent, fault)
    except (ConfigError, TypeError, ValueError) as error:
        return f"its input_schema cannot be used: {problem_of(error)}"
    return f"the arguments are not valid: {problems}" if problems else ""


_TURNED: Final = ((b'"pattern', b'"unevaluated'), (b'"not"', b'"oneOf"', b'"if"', b'"contains"', b'"disallow"'))
"""What counts as holding unread, and what may fail because something in it holds."""
_TOO_MUCH: Final = "there is too much to look at in it; send less, or take a simpler schema"


def _checker(schema: bytes) -> Checker:
    return Checker(json.loads(schema), patterns=False, checked=len(schema) <= _LARGEST_CHECKED)


_kept_checker: Final = lru_cache(256)(_checker)
"""By the schema's text, since the same tools are called again and again; a large one is not kept, there may be many."""


def words_are_loaded() -> bool:
    """Whether what says in words what is wrong is loaded: the first `Checker` does that, which takes .1 s."""
    return bool(_validator.cache_info().currsize)


def _is_fault(error: BaseException) -> bool:
    """Whether something failed, and nobody wants to end: a library in Rust fails with what is no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


_LEFT: ContextVar[list[int]] = ContextVar("_LEFT")
"""How many keywords may still be looked at, and how deep, in one place for all the validators that a question makes."""


@cache
def _validator(*, patterns: bool) -> Any:
    """A validator that counts what it looks at, and decides in reasonable time whether items are unique.

    Without patterns it matches no regular expression, and says nothing where one would decide.
    """
    from jsonschema import Draft202012Validator, validators

    known: Mapping[str, Any] = cast("Any", Draft202012Validator).VALIDATORS

    def unchecked(*_: object) -> Iterator[Any]:
        yield from ()

    def plain(validator: Any, said: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        if "patternProperties" not in schema:
            yield from known["additionalProperties"](validator, said, instance, schema) or ()

    def counted(function: Any) -> Any:
        def count_one(validator: Any, said: Any, instance: Any, schema: Any) -> Iterator[Any]:
            left = _LEFT.get()
            left[0] -= 1
            left[1] -= 1
            if min(left) < 0:
                raise OverflowError(_TOO_MUCH)
            try:
                yield from function(validator, said, instance, schema) or ()
            finally:
                left[1] += 1

        return count_one

    mine: dict[str, Any] = {**known, **{keyword: _own(keyword) for keyword in _FAILED}}
    if not patterns:
        mine |= {**dict.fromkeys(_MATCHING, unchecked), "additionalProperties": plain}
    untyped: Any = validators
    return untyped.extend(Draft202012Validator, {keyword: counted(each) for keyword, each in mine.items()})


def _own(keyword: str) -> Callable[..., Iterator[Any]]:
    """A keyword as it is decided here, which is sooner, or by how numbers are written."""
    from jsonschema import ValidationError

    def decide(_: Any, said: Any, instance: Any, __: Any) -> Iterator[Any]:
        if not is_valid(instance, {keyword: said}, {}):
            yield ValidationError(f"{beginning(repr(instance), 100)} {_FAILED[keyword]}{said}")

    return decide


_FAILED: Final = {"uniqueItems": "has non-unique elements: uniqueItems is ", "multipleOf": "is not a multiple of "}


def place(path: Any) -> str:
    """Where in a value, as the beginning of a sentence."""
    where = "/".join(str(part)[:40] for part in islice(path, 8))
    return f"{where}: " if where else ""
