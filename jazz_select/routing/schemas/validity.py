"""Whether a value is valid by a JSON Schema that somebody else wrote: what is wrong with it, in words. Bounded."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final, cast

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError

from jazz_select.errors import ConfigError
from jazz_select.json_values import as_bytes, as_json, json_bytes, json_or_same
from jazz_select.routing.schemas.fields import (
    UNEVALUATED,
    Cursor,
    Schema,
    inner,
    mapping,
    node_in_todays_words,
    prefix,
    referred,
    refers,
    written,
)
from jazz_select.text import LONGEST_PROBLEM, beginning, problem_of

_MOST_NODES: Final = 13_000
"""Parts of a schema that are put in today's words; of a larger one nothing is said. An engine takes 2 µs for each."""
_PARTS_OF_A_STEP: Final = 4
_PARTS: Final = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_TURNING: Final = ("not", "oneOf", "if")
_PATTERNS: Final = ("pattern", "patternProperties")
_THE_PART: Final = "#/$defs/jazz-select:part"
"""Where a part of a schema stands in the document that is made of both, however deep its references point."""
_DEEPEST_LED: Final = 100
"""Levels of schemas in schemas: far fewer than fill the stack of a thread, which ends a process."""
_LEADING: Final = ("$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id")
_PARTS_OF_A_NAME: Final = 10
_PARTS_OF_A_PATTERN: Final = 200
"""What takes as long as so many parts to be made ready."""
_SAID_TO_PEOPLE: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs", "example"),
    )
)
_PLAIN: Final = _SAID_TO_PEOPLE | {"type"}
MOST_PROBLEMS: Final = 5
MOST_VISITS: Final = 500_000
"""Keywords that are held against parts of a value for one question, at most: some hundredths of a second."""
_MOST_WORDED: Final = 1_500
"""Those beyond which only the first fault is told, since words take longer; where branches are tried, none is."""
_LARGEST_WORDED_VALUE: Final = 20_000
_DEEPEST: Final = 100
_LARGEST_KEPT: Final = 20_000
"""Bytes of a schema of which many are kept ready."""
_TEXTS: Final = frozenset(("format", *_PATTERNS))
"""Keywords about texts: what they say counts, and is not decided where nobody calls anything."""
_TOO_MUCH: Final = "there is too much to look at in it; send less, or take a simpler schema"
_CIRCLE: Final = "its schema refers to itself in a circle; correct the schema"
_LINEAR: Final = RegexOptions(size_limit=20_000, dfa_size_limit=100_000)
"""An engine that takes time in proportion to the text, whatever the pattern; larger patterns are none for it."""

_LINEAR_OF_AUTHORS: Final = RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)


# --- in today's words, without what is not read -----------------------------------


@dataclass(slots=True, kw_only=True)
class _Rewriting:
    """A schema being rewritten in the keywords of draft 2020-12, without annotations and ignored keywords.

    Attributes:
        dialect: The declared dialect, or "".
        unread: Ignored keywords about texts; what depends on them is valid.
        sure: Whether what depends on ignored keywords is invalid instead.
        base: Position of the schema in the resulting document.
        is_doubtful: Whether anything in the schema is ignored: then references may lead there.
        doubts: Number of ignored keywords so far, and of references that may lead to some.
    """

    dialect: str
    unread: frozenset[str]
    sure: bool
    base: str
    left: int = _MOST_NODES
    depth: int = 0
    is_doubtful: bool = False
    doubts: int = 0

    @classmethod
    def made(cls, schema: object, unread: frozenset[str], *, sure: bool, base: str) -> Any:
        said = mapping(schema).get("$schema")
        made = cls(dialect=said if isinstance(said, str) else "", unread=unread, sure=sure, base=base)
        found = made.of(schema)
        if not made.doubts:
            return found
        made.left, made.is_doubtful = _MOST_NODES, True
        return made.of(schema)

    def of(self, schema: object) -> Any:
        self._spend(1)
        if not isinstance(schema, Mapping):
            return schema
        given = cast("Schema", schema)
        if given.keys() <= _PLAIN and isinstance(given.get("type"), str) and given["type"] != "any":
            return {"type": given["type"]}
        doubts = self.doubts
        known = node_in_todays_words(given, self.dialect)
        own = {key: value for key, value in known.items() if key not in _SAID_TO_PEOPLE}
        _named(own, self.dialect)
        self._refer(own)
        may_be_null = own.pop("nullable", False)
        self._leave_out(own)
        turning = self._parts(own)
        if own.get("type") == "any":
            del own["type"]
        if turning and self.sure:
            return False
        for keyword in turning:  # the doubtful ones: `oneOf` becomes `anyOf`, and the others any value
            said = own.pop(keyword)
            if keyword == "oneOf":
                own["allOf"] = [*own.get("allOf", []), {"anyOf": said}]
        if self.doubts > doubts and not self.sure:
            own = {key: value for key, value in own.items() if key not in UNEVALUATED}
        return {"anyOf": [own, {"type": "null"}]} if may_be_null and own.keys() - {"$defs", "definitions"} else own

    def _parts(self, own: dict[str, Any]) -> list[str]:
        """Rewrite the parts of a schema; return the keywords that fail if a doubtful part holds."""
        self.depth += 1
        if self.depth > _DEEPEST_LED:
            raise ValueError(f"its parts lead more than {_DEEPEST_LED} levels deep")
        turning: list[str] = []
        for key, value in own.items():
            doubts = self.doubts
            if key in _PARTS:
                own[key] = self.of(value)
            elif key in _LISTS and isinstance(value, list):
                own[key] = [self.of(each) for each in cast("list[object]", value)]
            elif key in _MAPS and isinstance(value, Mapping):
                own[key] = {name: self.of(each) for name, each in cast("Schema", value).items()}
            elif key in ("enum", "const"):
                self._spend(size_of(value))
            if self.doubts > doubts and (key in _TURNING or (key == "contains" and "maxContains" in own)):
                turning.append(key)
        self.depth -= 1
        return turning

    def _refer(self, own: dict[str, Any]) -> None:
        reference = own.get("$ref")
        if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")) and reference != _THE_PART:
            own["$ref"] = self.base + reference[1:]
        if not own.keys().isdisjoint(_LEADING):
            self._spend(_PARTS_OF_A_NAME)
            self.doubts += self.is_doubtful

    def _leave_out(self, own: dict[str, Any]) -> None:
        for keyword in ("format", "pattern"):
            if keyword in own and self._is_unread(keyword, [own[keyword]]):
                del own[keyword]
                if self.sure:
                    own["allOf"] = [*own.get("allOf", []), {"not": {"type": "string"}}]
        named = own.get("patternProperties")
        if isinstance(named, Mapping) and self._is_unread("patternProperties", cast("Schema", named)):
            own["patternProperties"] = {"": not self.sure}

    def _is_unread(self, keyword: str, said: Iterable[object]) -> bool:
        if keyword not in self.unread:
            patterns = [each for each in said if isinstance(each, str) and keyword in _PATTERNS]
            self._spend(_PARTS_OF_A_PATTERN * len(patterns))
            if all(map(_is_linear, patterns)):
                return False
        self.doubts += 1
        return True

    def _spend(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            raise ValueError(f"it has more than {_MOST_NODES} parts")


def _named(own: dict[str, Any], dialect: str) -> None:
    """Rename `$id` used as an anchor (until draft 7) and `id` (until draft 4)."""
    if isinstance(own.get("id"), str) and ("draft-03" in dialect or "draft-04" in dialect):
        own["$id"] = own.pop("id")
    name = own.get("$id")
    if isinstance(name, str) and name.startswith("#"):
        del own["$id"]
        if name[1:].isidentifier():
            own["$anchor"] = name[1:]
    if own.get("$recursiveRef") == "#":
        own.setdefault("$ref", own.pop("$recursiveRef"))


def size_of(value: object) -> int:
    """How much there is to compare in a value, in steps: a few parts of it are one."""
    parts: object = cast("Schema", value).values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list):
        return 1
    return 1 + sum(map(size_of, cast("Iterable[object]", parts))) // _PARTS_OF_A_STEP


# --- the engine ----------------------------------------------------------------


class _Engine:
    """A compiled schema, with an estimate of its work: the engine itself cannot be stopped."""

    def __init__(self, schema: object, unread: frozenset[str], *, sure: bool = False, base: str = "#") -> None:
        """Compile a schema of any dialect.

        With `sure`, a value that may fail by an `unread` keyword is invalid; else it is valid. References are relative
        to `base` in the document.
        """
        self._schema: Any = _Rewriting.made(schema, unread, sure=sure, base=base)
        self._root = mapping(self._schema)
        self._references: dict[str, object] = {}
        self._weights: dict[int, int] = {}
        self._anchors: dict[str, list[Schema]] = {}
        self._text = text = written(self._schema)
        self._branches = any(each in text for each in (b'"anyOf"', b'"oneOf"'))
        documents = text.count(b'"$id"') - ("$id" in self._root)
        self._is_followed = not documents and b'"$dynamicRef"' not in text
        for each in inner(self._schema) if b'"$anchor"' in text else ():
            self._anchors.setdefault(f"#{each.get('$anchor')}", []).append(each)
        self._matching = any(each in text for each in (b'"pattern', b'"propertyNames"'))
        try:
            self._each = self._expanded(self._schema, {})
        except (AttributeError, TypeError):  # it is no schema: the engine says why
            self._each = None
        self._engine = _built(self._schema)

    def is_valid(self, value: object) -> bool:
        if self._visits(value) > MOST_VISITS:
            raise OverflowError(_TOO_MUCH)
        return self._engine.is_valid(value)

    def problems(self, value: object) -> str:
        if self.is_valid(value):
            return ""
        if self._visits(value) <= _MOST_WORDED and len(json_bytes(value)) <= _LARGEST_WORDED_VALUE:
            errors = islice(self._engine.iter_errors(value), MOST_PROBLEMS)
            return "; ".join(f"{at_path(each.instance_path)}{_in_words(each, value)}" for each in errors)
        if self._branches:
            return f"something in it is wrong, and {_TOO_MUCH}"
        try:
            self._engine.validate(value)
        except ValidationError as error:
            return f"{at_path(error.instance_path)}{error.kind.name} does not hold"
        return ""

    def _visits(self, value: object) -> int:
        """Return the greatest number of checks of a keyword against a part of the value."""
        parts, letters, depth = _measured(value, letters=self._matching)
        if depth > _DEEPEST:
            raise ValueError(_TOO_MUCH)
        if not self._is_followed:
            ways = 1 + self._text.count(b'"$ref"') + self._text.count(b'"$dynamicRef"')
            return (parts + letters) * size_of(self._schema) * ways ** (depth + 1)
        if self._each is not None and (parts + letters) * self._each <= MOST_VISITS:
            return (parts + letters) * self._each
        if parts > _MOST_COUNTED:
            raise OverflowError(_TOO_MUCH)
        return self._counted(self._schema, value, {})

    def _expanded(self, schema: object, known: dict[int, int | None], depth: int = 0) -> int | None:
        """Return the number of keywords with all references expanded; None if that never ends."""
        if not isinstance(schema, Mapping):
            return 1
        own = cast("Schema", schema)
        if id(own) in known or [*own] == ["type"]:
            return known.get(id(own), 1)
        if depth > _DEEPEST_LED:
            raise ValueError(f"its references lead more than {_DEEPEST_LED} levels deep")
        known[id(own)] = None
        total: int | None = _weight(own)
        self._weights[id(own)] = total
        for each in (*self._beside(own), *_within(own)):
            found = self._expanded(each, known, depth + 1)
            total = None if total is None or found is None else total + found
        known[id(own)] = total
        return total

    def _beside(self, own: Schema) -> list[object]:
        """Return the schemas that apply to the same value."""
        found = [each for keyword in ("allOf", "anyOf", "oneOf") for each in own.get(keyword, ())]
        found += [own[keyword] for keyword in ("not", "if", "then", "else") if keyword in own]
        found += mapping(own.get("dependentSchemas")).values()
        if "$ref" in own:
            found.append(self._referred(own["$ref"]))
        # These look again at what the others looked at.
        return found if own.keys().isdisjoint(UNEVALUATED) else found * 2

    def _referred(self, reference: str) -> object:
        """Return the target of a reference; embedded documents are not entered."""
        if reference not in self._references:
            named = self._anchors.get(reference, [])
            is_place = reference == "#" or reference.startswith("#/")
            self._references[reference] = referred(reference, self._root) if is_place else [*named, None][0]
            self._is_followed &= is_place or len(named) == 1
        return self._references[reference]

    def _counted(self, schema: object, value: object, known: dict[tuple[int, int], int]) -> int:
        if not isinstance(schema, Mapping):
            return 1
        own = cast("Schema", schema)
        at = (id(own), id(value))
        if at in known:
            if known[at] < 0:
                raise OverflowError(_CIRCLE)
            return known[at]
        known[at] = -1
        if len(known) > _MOST_COUNTED:
            raise OverflowError(_TOO_MUCH)
        total = (
            self._weights.get(id(own), 1)
            + _weight_of(value, own)
            + sum(self._counted(each, value, known) for each in self._beside(own))
        )
        total += sum(self._counted(each, held, known) for each, held in _inside(own, value))
        known[at] = total
        return total


_MOST_COUNTED: Final = 22_000
_LARGEST: Final = 10**1_000
"""Larger numbers than this are as large, for whoever looks at them."""


def _built(schema: Any, patterns: RegexOptions = _LINEAR) -> Draft202012Validator:
    return Draft202012Validator(schema, pattern_options=patterns, validate_formats=False, retriever=_refuse)


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri:.300} is not fetched")


@lru_cache(1_024)
def _is_linear(pattern: str) -> bool:
    try:
        _built({"pattern": pattern})
    except ValueError:
        return False
    return True


@lru_cache(1_024)
def finder(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches texts for a pattern, ignoring case, in linear time.

    Raises:
        ValueError: It is no pattern, is too large, or needs lookahead or backreferences.
    """
    return _built({"pattern": f"(?i){pattern}"}, _LINEAR_OF_AUTHORS).is_valid


def _weight(own: Schema) -> int:
    return len(own) + sum(size_of(own[keyword]) for keyword in ("enum", "const") if keyword in own)


def _weight_of(value: object, own: Schema) -> int:
    if isinstance(value, str):
        return len(value) if "pattern" in own else 0
    if isinstance(value, dict) and "patternProperties" in own:
        return sum(map(len, cast("dict[str, object]", value))) * len(own["patternProperties"])
    return size_of(cast("object", value)) if "uniqueItems" in own else 0


def _within(own: Schema) -> Iterator[object]:
    """Yield the schemas of the parts of a value."""
    yield from (own[keyword] for keyword in _OF_PARTS if keyword in own)
    yield from prefix(own)
    for keyword in ("properties", "patternProperties"):
        yield from mapping(own.get(keyword)).values()


_OF_PARTS: Final = (
    *("items", "contains", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)


def _inside(own: Schema, value: object) -> Iterator[tuple[object, object]]:
    """Yield each part of a value with a schema that may apply to it."""
    if isinstance(value, dict):
        named = mapping(own.get("properties"))
        more = [own[keyword] for keyword in ("additionalProperties", "unevaluatedProperties") if keyword in own]
        more += mapping(own.get("patternProperties")).values()
        for name, each in cast("dict[str, object]", value).items():
            yield from ((part, each) for part in ([named[name]] if name in named else []) + more)
            if "propertyNames" in own:
                yield own["propertyNames"], name
    elif isinstance(value, list):
        first = prefix(own)
        more = [own[keyword] for keyword in ("items", "contains", "unevaluatedItems") if keyword in own]
        for at, each in enumerate(cast("list[object]", value)):
            yield from ((part, each) for part in [*first[at : at + 1], *more])


def _measured(value: object, *, letters: bool) -> tuple[int, int, int]:
    parts = read = depth = 0
    level: list[Any] = [value]
    while level and depth <= _DEEPEST and parts <= MOST_VISITS:
        parts += len(level)
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += cast("dict[str, object]", each).values()
                read += sum(map(len, cast("dict[str, object]", each))) if letters else 0
            elif isinstance(each, list):
                inner += cast("list[object]", each)
            elif letters and isinstance(each, str):
                read += len(each)
        level, depth = inner, depth + 1
    return parts, read, depth


def _as_json(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Replace what is no JSON, and cycles, by null: the engine accepts nothing else."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if not isinstance(value, Mapping | list | tuple):
        if type(value) is int:
            return max(-_LARGEST, min(value, _LARGEST))
        return value if type(value) in {float, bool} else None
    known = {} if known is None else known
    if id(cast("object", value)) not in known:
        known[id(cast("object", value))] = None
        if isinstance(value, Mapping):
            given = cast("Mapping[object, object]", value)
            made: Any = {_as_json(str(name)): _as_json(each, known) for name, each in given.items()}
        else:
            made = [_as_json(each, known) for each in cast("Sequence[object]", value)]
        known[id(cast("object", value))] = made
    return known[id(cast("object", value))]


def _in_words(error: ValidationError, value: Any) -> str:
    for step in error.instance_path:
        value = value[step]
    said: Any = error.kind
    if said.name == "type":
        return f"{beginning(repr(value), LONGEST_PROBLEM)} is not of type {', '.join(map(repr, said.types))}"
    if said.name == "required":
        return f"{said.property!r} is a required property"
    return beginning(error.message, LONGEST_PROBLEM)


def at_path(path: Iterable[object]) -> str:
    """Where in a value, as the beginning of a sentence."""
    where = "/".join(str(part)[:40] for part in islice(path, 8))
    return f"{where}: " if where else ""


# --- questions -----------------------------------------------------------------


class Checker:
    """Holds values against a JSON Schema, and never fetches one that it refers to."""

    def __init__(self, schema: Mapping[str, Any], *, unread: frozenset[str] = frozenset()) -> None:
        """Take a schema of any draft, or of OpenAPI.

        Patterns that no linear engine can match are ignored.

        Args:
            schema: A JSON Schema.
            unread: Further ignored keywords.

        Raises:
            ConfigError: It is no JSON Schema, or has a dangling reference.
        """
        try:
            self.schema: dict[str, Any] = as_json(dict(schema))
            self._engine = _Engine(self.schema, unread)
        except BaseException as error:
            if not _is_fault(error):
                raise
            msg = f"the schema is no JSON Schema that can be used: {beginning(problem_of(error), LONGEST_PROBLEM)}"
            raise ConfigError(msg) from error

    def problems(self, value: object) -> str:
        """What is wrong with a value, in words; empty where nothing is."""
        try:
            try:
                return self._engine.problems(value)
            except ValueError:
                return self._engine.problems(_as_json(value))
        except RecursionError:
            return f"it could not be checked: {_TOO_MUCH}"
        except (OverflowError, ValueError) as error:
            return f"it could not be checked: {error}"
        except BaseException as error:
            if not _is_fault(error):
                raise
            return f"it could not be checked: {problem_of(error)}"


def _is_fault(error: BaseException) -> bool:
    """Whether an error is a failure and not a request to exit: Rust libraries raise panics that are no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def invalid(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """Return what is wrong with the arguments of a tool with this input schema, or "".

    Patterns, and what depends on them, are left to the tool.
    """
    if not schema:
        return ""
    try:
        text = as_bytes(dict(schema))
    except (TypeError, ValueError) as error:
        return f"its input_schema cannot be used: {problem_of(error)}"
    checker = (_kept_checker if len(text) <= _LARGEST_KEPT else _large_checker)(text)
    if isinstance(checker, str):
        return f"its input_schema cannot be used: {checker}"
    problems = checker.problems({name: json_or_same(value) for name, value in arguments.items()})
    return f"the arguments are not valid: {problems}" if problems else ""


def unusable(schema: Mapping[str, Any]) -> str:
    """Return why no arguments can be held against an input schema, or ""."""
    try:
        problem = Checker(schema).problems({})
    except (ConfigError, RecursionError) as error:
        return problem_of(error)
    return problem if problem.endswith(_CIRCLE) else ""


def _checker(schema: bytes) -> Checker | str:
    try:
        return Checker(json.loads(schema), unread=frozenset(_PATTERNS))
    except (ConfigError, RecursionError) as error:
        return problem_of(error)


_kept_checker: Final = lru_cache(256)(_checker)
"""By the schema's text, since the same tools are called again and again."""
_large_checker: Final = lru_cache(4)(_checker)


def verdicts(values: Sequence[object], schema: object, reading: Cursor) -> list[bool | None]:
    """Whether each value is valid by a schema, as its standard means it; None where that is not decided here."""
    own = written(schema)
    dialect = reading.root.get("$schema", "") if own not in _ANYTHING else ""
    root = written(reading.root) if refers(own) else json.dumps({"$schema": dialect}).encode() if dialect else b""
    reading.left -= 1 + len(values) + (len(own) + len(root)) // _BYTES_OF_A_STEP
    if reading.left < 0 or not own or len(root) > _LARGEST_KEPT:
        return [None] * len(values)
    engines = _engines(own, root)
    return [None if engines is None else _verdict(*engines, each) for each in values]


_ANYTHING: Final = (b"true", b"false", b"{}")
_BYTES_OF_A_STEP: Final = 100


def _verdict(perhaps: _Engine, surely: _Engine, value: object) -> bool | None:
    try:
        if not perhaps.is_valid(value):
            return False
        return (surely is perhaps or surely.is_valid(value)) or None
    except BaseException as error:
        if not _is_fault(error):
            raise
        return None


@lru_cache(1_024)
def _engines(schema: bytes, root: bytes) -> tuple[_Engine, _Engine] | None:
    """Return two engines for a part of a schema: one is certain when it says no, the other when it says yes."""
    try:
        given: Any = json.loads(schema)
        base = "#"
        if root and root != schema:
            whole = json.loads(root)
            base = "#/$defs/root"
            given = {"$ref": _THE_PART, "$defs": {"root": whole, _THE_PART.removeprefix("#/$defs/"): given}}
            given |= {"$schema": whole["$schema"]} if "$schema" in whole else {}
            whole.pop("$id", None)
        perhaps = _Engine(given, _TEXTS, base=base)
        unread = any(each in schema or each in root for each in (b'"pattern', b'"format"'))
        return perhaps, _Engine(given, _TEXTS, sure=True, base=base) if unread else perhaps
    except BaseException as error:
        if not _is_fault(error):
            raise
        return None
