"""Whether a value is valid by a JSON Schema that somebody else wrote: what is wrong with it, in words. Bounded."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, cast

from jsonschema_rs import Draft202012Validator, ValidationError

from jazz_select.errors import ConfigError
from jazz_select.json_values import as_bytes, as_json, is_array, is_object, json_bytes, json_or_same
from jazz_select.routing.schemas.fields import (
    UNEVALUATED,
    Cursor,
    Schema,
    canonical_json,
    inner,
    mapping,
    prefix,
    refers,
    resolve_reference,
)
from jazz_select.routing.schemas.rewriting import (
    DEEPEST_LED,
    LINEAR,
    PART,
    PATTERNS,
    WHOLE_NUMBER,
    Rewriting,
    size_of,
)
from jazz_select.text import LONGEST_PROBLEM, beginning, problem_of, whole_characters

MOST_PROBLEMS: Final = 5
MOST_VISITS: Final = 500_000
"""Keywords that are held against parts of a value for one question, at most: some hundredths of a second."""
_MOST_WORDED: Final = 1_500
"""Those beyond which only the first fault is told, since words take longer; where branches are tried, none is."""
_LARGEST_WORDED_VALUE: Final = 20_000
_DEEPEST: Final = 100
_LARGEST_KEPT: Final = 20_000
"""Bytes of a schema of which many are kept ready."""
_FORMAT: Final = frozenset(("format",))
_TEXTS: Final = frozenset(("format", *PATTERNS))
"""Keywords about texts: what they say counts, and is not decided where nobody calls anything."""
_FORMS: Final = ("pattern", "format")
"""Faults of a text that are told in words whatever the size of the whole."""
_VISITS_OF_A_FORMAT: Final = 3
"""What a letter takes at worst, that of a name in many scripts."""
_TOO_MUCH: Final = "there is too much to look at in it; send less, or take a simpler schema"
_CIRCLE: Final = "its schema refers to itself in a circle; correct the schema"
_EXAMPLES: Final = {
    "date": "2026-03-01",
    "date-time": "2026-03-01T14:30:00Z",
    "time": "14:30:00Z",
    "duration": "PT1H30M",
    "uri": "https://example.org/a",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
}
"""How values of formats look that are often written in another way."""


# --- the engine ----------------------------------------------------------------


class _Engine:
    """A compiled schema, with an estimate of its work: the engine itself cannot be stopped."""

    def __init__(self, schema: object, unread: frozenset[str], *, sure: bool = False, base: str = "#") -> None:
        """Compile a schema of any dialect.

        With `sure`, a value that may fail by an `unread` keyword is invalid; else it is valid. References are relative
        to `base` in the document.
        """
        try:
            self._compile(schema, unread, sure=sure, base=base, is_careful=False)
        except ValidationError:
            self._compile(schema, unread, sure=sure, base=base, is_careful=True)
        self._root = mapping(self._schema)
        self._references: dict[str, object] = {}
        self._weights: dict[int, int] = {}
        self._anchors: dict[str, list[Schema]] = {}
        self._text = text = canonical_json(self._schema)
        self._branches = any(each in text for each in (b'"anyOf"', b'"oneOf"'))
        documents = text.count(b'"$id"') - ("$id" in self._root)
        self._is_followed = not documents and b'"$dynamicRef"' not in text
        if b'"$anchor"' in text:
            for each in inner(self._schema):
                self._anchors.setdefault(f"#{each.get('$anchor')}", []).append(each)
        self.reads_texts = any(each in text for each in (b'"pattern', b'"propertyNames"', b'"format"'))
        """Whether it looks at each letter of a text."""
        try:
            self._each = self._each_but_texts = self._count_expanded(self._schema, {})
            if self.reads_texts:
                self._each_but_texts = self._count_expanded(self._schema, {}, texts=False)
        except (AttributeError, TypeError):  # it is no schema: the engine says why
            self._each = self._each_but_texts = None

    def _compile(self, schema: object, unread: frozenset[str], *, sure: bool, base: str, is_careful: bool) -> None:
        """Rewrite the schema and compile it; carefully where the engine refuses the whole for one of its parts."""
        self._schema: Any
        self._schema, made = Rewriting.of_schema(schema, unread, sure=sure, base=base, is_careful=is_careful)
        self._originals, self._weights_of_patterns = made.originals, made.weights
        self.refused, self.is_cut = made.refused, made.is_cut
        self._engine = _build_validator(self._schema)

    def is_valid(self, value: object) -> bool:
        if self._visits(value) > MOST_VISITS:
            raise OverflowError(_TOO_MUCH)
        return self._engine.is_valid(value)

    def problems(self, value: object) -> str:
        if self.is_valid(value):
            return ""
        if self._is_worded(value):
            problems: list[str] = []
            for error in islice(self._engine.iter_errors(value), MOST_PROBLEMS):
                problems.append(f"{at_path(error.instance_path)}{self._in_words(error, value)}")
            return "; ".join(problems)
        if self._branches:
            return f"something in it is wrong, and {_TOO_MUCH}"
        try:
            self._engine.validate(value)
        except ValidationError as error:
            problem = f"{error.kind.name} does not hold"
            if error.kind.name in _FORMS:
                problem = self._in_words(error, value)
            return f"{at_path(error.instance_path)}{problem}"
        return ""

    def _is_worded(self, value: object) -> bool:
        """Tell whether listing all faults of a value is quick; matching texts is slow, and listing faults skips it."""
        if len(json_bytes(value)) > _LARGEST_WORDED_VALUE:
            return False
        if self._each_but_texts is None:
            return self._visits(value) <= _MOST_WORDED
        visits = _measure_value(value, letters=False).parts * self._each_but_texts
        return visits <= _MOST_WORDED or self._visits(value) <= _MOST_WORDED

    def _visits(self, value: object) -> int:
        """Return the greatest number of checks of a keyword against a part of the value."""
        parts, letters, depth = _measure_value(value, letters=self.reads_texts)
        if depth > _DEEPEST:
            raise ValueError(_TOO_MUCH)
        if not self._is_followed:
            # Where a reference may lead is not known, so at each level each of them may lead through the whole schema.
            ways = 1 + self._text.count(b'"$ref"') + self._text.count(b'"$dynamicRef"')
            heaviest = max(self._weights_of_patterns.values(), default=1)
            return (parts + letters * heaviest) * size_of(self._schema) * ways ** (depth + 1)
        if self._each is not None and (parts + letters) * self._each <= MOST_VISITS:
            return (parts + letters) * self._each
        if parts > _MOST_COUNTED:
            raise OverflowError(_TOO_MUCH)
        return self._count_checks(self._schema, value, {})

    def _count_expanded(
        self, schema: object, known: dict[int, int | None], depth: int = 0, *, texts: bool = True
    ) -> int | None:
        """Return the number of keywords with all references expanded; None if that never ends.

        With `texts`, a pattern or format counts as often as a letter takes.
        """
        if not is_object(schema):
            return 1
        own = schema
        if id(own) in known or [*own] == ["type"]:
            return known.get(id(own), 1)
        if depth > DEEPEST_LED:
            raise ValueError(f"its references lead more than {DEEPEST_LED} levels deep")
        known[id(own)] = None  # while it is open: a reference back to it never ends
        weight = self._weights[id(own)] = self._weight(own)
        total: int | None = weight if texts else weight - self._weight_of_texts(own)
        for each in (*self._adjacent_schemas(own), *_part_schemas(own)):
            count = self._count_expanded(each, known, depth + 1, texts=texts)
            if count is None:
                total = None
            elif total is not None:
                total += count
        known[id(own)] = total
        return total

    def _adjacent_schemas(self, own: Schema) -> list[object]:
        """Return the schemas that apply to the same value."""
        found: list[object] = []
        for keyword in ("allOf", "anyOf", "oneOf"):
            found += own.get(keyword, ())
        for keyword in ("not", "if", "then", "else"):
            if keyword in own:
                found.append(own[keyword])
        found += mapping(own.get("dependentSchemas")).values()
        if "$ref" in own:
            found.append(self._resolve_reference(own["$ref"]))
        if not own.keys().isdisjoint(UNEVALUATED):
            return found * 2  # the engine looks at all of them again for these
        return found

    def _resolve_reference(self, reference: str) -> object:
        """Return the target of a reference; embedded documents are not entered."""
        if reference not in self._references:
            if reference == "#" or reference.startswith("#/"):
                self._references[reference] = resolve_reference(reference, self._root)
            else:
                named = self._anchors.get(reference, [])
                self._references[reference] = named[0] if named else None
                self._is_followed &= len(named) == 1
        return self._references[reference]

    def _count_checks(self, schema: object, value: object, known: dict[tuple[int, int], int]) -> int:
        if not is_object(schema):
            return 1
        pair = (id(schema), id(value))
        if pair in known:
            if known[pair] < 0:
                raise ValueError(_CIRCLE)
            return known[pair]
        known[pair] = -1  # while it is open
        if len(known) > _MOST_COUNTED:
            raise OverflowError(_TOO_MUCH)
        total = self._weights.get(id(schema), 1) + self._weight_of(value, schema)
        total += sum(self._count_checks(each, value, known) for each in self._adjacent_schemas(schema))
        total += sum(self._count_checks(each, part, known) for each, part in _parts_with_schemas(schema, value))
        known[pair] = total
        return total

    def _weight(self, own: Schema) -> int:
        listed = sum(size_of(own[keyword]) for keyword in ("enum", "const") if keyword in own)
        return len(own) + listed + self._weight_of_texts(own)

    def _weight_of_texts(self, own: Schema) -> int:
        """Return the visits that a letter takes: of a text, or of the names of an object."""
        weights = self._weights_of_patterns
        names = sum(weights.get(each, 1) for each in mapping(own.get("patternProperties")))
        own_pattern = weights.get(own["pattern"], 1) if "pattern" in own else 0
        return names + own_pattern + (_VISITS_OF_A_FORMAT if "format" in own else 0)

    def _weight_of(self, value: object, own: Schema) -> int:
        if isinstance(value, str):
            return len(value) * self._weight_of_texts(own)
        if "patternProperties" in own and is_object(value):
            return sum(map(len, value)) * self._weight_of_texts(own)
        return size_of(value) if "uniqueItems" in own else 0

    def _in_words(self, error: ValidationError, value: Any) -> str:
        for step in error.instance_path:
            value = value[step]
        kind: Any = error.kind
        shown = beginning(repr(value), LONGEST_PROBLEM)
        if kind.name == "type":
            return f"{shown} is not of type {', '.join(map(repr, kind.types))}"
        if kind.name == WHOLE_NUMBER:
            return f"{shown} is not of type 'integer'; write it without a fraction"
        if kind.name == "required":
            return f"{kind.property!r} is a required property"
        if kind.name == "pattern":
            # As its author wrote it: the engine's own form says nothing to whoever reads this.
            pattern = self._originals.get(kind.pattern) or str(kind.pattern)
            return f"{shown} does not match the pattern {beginning(pattern, LONGEST_PROBLEM)}"
        if kind.name == "format":
            example = f", such as {_EXAMPLES[kind.format]}" if kind.format in _EXAMPLES else ""
            return f"{shown} is no {kind.format}{example}"
        return beginning(error.message, LONGEST_PROBLEM)


class _WholeNumber:
    """The keyword of a number that is written without a fraction."""

    def __init__(self, parent_schema: dict[str, Any], value: Any, schema_path: list[str | int]) -> None:
        """Take what the engine gives; a number has a fraction wherever it stands."""

    def validate(self, instance: Any) -> None:
        """Refuse 1.0.

        Raises:
            TypeError: It has a fraction.
        """
        if isinstance(instance, float):
            raise TypeError(str(instance))


_MOST_COUNTED: Final = 22_000
_LARGEST: Final = 10**1_000
"""Larger numbers than this are as large, for whoever looks at them."""


def _build_validator(schema: Any) -> Draft202012Validator:
    return Draft202012Validator(
        schema,
        pattern_options=LINEAR,
        validate_formats=True,
        retriever=_refuse,
        keywords={WHOLE_NUMBER: _WholeNumber},
    )


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri:.300} is not fetched")


@lru_cache(1_024)
def finder(pattern: str) -> Callable[[str], bool]:
    """Return a function that searches texts for a pattern, ignoring case, in linear time.

    Raises:
        ValueError: It is no pattern, is too large, or needs lookahead or backreferences.
    """
    return _build_validator({"pattern": f"(?i){pattern}"}).is_valid


def _part_schemas(own: Schema) -> Iterator[object]:
    """Yield the schemas of the parts of a value."""
    for keyword in _OF_PARTS:
        if keyword in own:
            yield own[keyword]
    yield from prefix(own)
    for keyword in ("properties", "patternProperties"):
        yield from mapping(own.get(keyword)).values()


_OF_PARTS: Final = (
    *("items", "contains", "unevaluatedItems"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
)


def _parts_with_schemas(own: Schema, value: object) -> Iterator[tuple[object, object]]:
    """Yield each part of a value with a schema that may apply to it."""
    if isinstance(value, dict):
        yield from _fields_with_schemas(own, cast("dict[str, object]", value))
    elif is_array(value):
        first = prefix(own)
        of_all = [own[keyword] for keyword in ("items", "contains", "unevaluatedItems") if keyword in own]
        for place, part in enumerate(value):
            if place < len(first):
                yield first[place], part
            for schema in of_all:
                yield schema, part


class _Size(NamedTuple):
    """How large a value is: its parts, the letters of its texts and names, and its levels."""

    parts: int
    letters: int
    depth: int


def _fields_with_schemas(own: Schema, fields: Mapping[str, object]) -> Iterator[tuple[object, object]]:
    named = mapping(own.get("properties"))
    of_all = [own[keyword] for keyword in ("additionalProperties", "unevaluatedProperties") if keyword in own]
    of_all += mapping(own.get("patternProperties")).values()
    for name, part in fields.items():
        if name in named:
            yield named[name], part
        for schema in of_all:
            yield schema, part
        if "propertyNames" in own:
            yield own["propertyNames"], name


def _measure_value(value: object, *, letters: bool) -> _Size:
    """Measure a value level by level, which no depth of nesting can end; its letters only where they are asked for."""
    parts = count = depth = 0
    level: list[Any] = [value]
    while level and depth <= _DEEPEST and parts <= MOST_VISITS:
        parts += len(level)
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                fields = cast("dict[str, object]", each)
                inner += fields.values()
                if letters:
                    count += sum(map(len, fields))
            elif is_array(each):
                inner += each
            elif letters and isinstance(each, str):
                count += len(each)
        level, depth = inner, depth + 1
    return _Size(parts, count, depth)


def _as_json(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Replace what is no JSON, and cycles, by null: the engine accepts nothing else."""
    if isinstance(value, str):
        return whole_characters(value)
    if not isinstance(value, Mapping | list | tuple):
        if type(value) is int:
            return max(-_LARGEST, min(value, _LARGEST))
        return value if type(value) in {float, bool} else None
    known = {} if known is None else known
    own = id(cast("object", value))
    if own in known:
        return known[own]
    known[own] = None  # while it is open: a value that holds itself becomes null there
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        known[own] = {_as_json(str(name)): _as_json(each, known) for name, each in fields.items()}
    else:
        known[own] = [_as_json(each, known) for each in cast("Sequence[object]", value)]
    return known[own]


def at_path(path: Iterable[object]) -> str:
    """Write a path into a value as the beginning of a sentence."""
    where = "/".join(str(part)[:40] for part in islice(path, 8))
    return f"{where}: " if where else ""


# --- questions -----------------------------------------------------------------


class Checker:
    """Holds values against a JSON Schema, and never fetches one that it refers to."""

    def __init__(self, schema: Mapping[str, Any], *, unread: frozenset[str] = frozenset()) -> None:
        """Take a schema of any draft, or of OpenAPI.

        Patterns that no linear engine can match are ignored, and all of them where a text is too long for them. Formats
        are assertions; unknown ones are ignored.

        Args:
            schema: A JSON Schema.
            unread: Further ignored keywords.

        Raises:
            ConfigError: It is no JSON Schema, or has a dangling reference.
        """
        try:
            self.schema: dict[str, Any] = as_json(dict(schema))
            self._engine = _Engine(self.schema, unread)
            self._without_texts: _Engine | None = None
            self.refused: Mapping[str, str] = self._engine.refused
            """Patterns that are not read, each with what is wrong with it, to follow "it"."""
            self.is_cut = self._engine.is_cut
            """Whether the schema is so large that parts of it are not read."""
        except BaseException as error:
            if not _is_fault(error):
                raise
            msg = f"the schema is no JSON Schema that can be used: {beginning(problem_of(error), LONGEST_PROBLEM)}"
            raise ConfigError(msg) from error

    def problems(self, value: object) -> str:
        """Say what is wrong with a value; empty if nothing is."""
        try:
            return self._problems(value)
        except RecursionError:
            return f"it could not be checked: {_TOO_MUCH}"
        except (OverflowError, ValueError) as error:
            return f"it could not be checked: {error}"
        except BaseException as error:
            if not _is_fault(error):
                raise
            return f"it could not be checked: {problem_of(error)}"

    def _problems(self, value: object) -> str:
        try:
            return _problems(self._engine, value)
        except OverflowError:
            if not self._engine.reads_texts:
                raise
        # What is too much with its texts may be little without them.
        if self._without_texts is None:
            self._without_texts = _Engine(self.schema, _TEXTS)
        return _problems(self._without_texts, value)


def _problems(engine: _Engine, value: object) -> str:
    try:
        return engine.problems(value)
    except OverflowError:
        raise
    except ValueError:
        return engine.problems(_as_json(value))


def _is_fault(error: BaseException) -> bool:
    """Tell whether an error is a failure and not a request to exit: panics of Rust are no `Exception`."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def invalid(schema: Mapping[str, Any], arguments: Mapping[str, Any], *, formats: bool = True) -> str:
    """Return what is wrong with the arguments of a tool with this input schema, or "".

    Patterns that no linear engine takes, and what depends on them, are left to the tool.

    Args:
        schema: A JSON Schema.
        arguments: The arguments by name.
        formats: Whether formats are checked; not where the tool converts its arguments itself.
    """
    if not schema:
        return ""
    try:
        text = as_bytes(dict(schema))
    except (TypeError, ValueError) as error:
        return f"its input_schema cannot be used: {problem_of(error)}"
    checker_of = _kept_checker if len(text) <= _LARGEST_KEPT else _large_checker
    checker = checker_of(text, formats=formats)
    if isinstance(checker, str):
        return f"its input_schema cannot be used: {checker}"
    problems = checker.problems({name: json_or_same(value) for name, value in arguments.items()})
    if not problems:
        return ""
    return f"the arguments are not valid: {problems}"


def schema_problem(schema: Mapping[str, Any]) -> str:
    """Return why no arguments can be held against an input schema, or ""."""
    try:
        problem = Checker(schema).problems({})
    except (ConfigError, RecursionError) as error:
        return problem_of(error)
    return problem if problem.endswith(_CIRCLE) else ""


def _checker(schema: bytes, *, formats: bool) -> Checker | str:
    try:
        return Checker(json.loads(schema), unread=frozenset() if formats else _FORMAT)
    except (ConfigError, RecursionError) as error:
        return problem_of(error)


_kept_checker: Final = lru_cache(256)(_checker)
"""By the schema's text, since the same tools are called again and again."""
_large_checker: Final = lru_cache(4)(_checker)
"""Likewise for large schemas, few of which fill the memory that many small ones do."""


def verdicts(values: Sequence[object], schema: object, reading: Cursor) -> list[bool | None]:
    """Validate each value by a schema as its standard means it; None where that is not decided here."""
    own = canonical_json(schema)
    root = b""
    if refers(own):
        root = canonical_json(reading.root)
    elif own not in _ANYTHING:
        # Without references nothing of the root matters but the draft that it is written in.
        dialect = reading.root.get("$schema", "")
        root = json.dumps({"$schema": dialect}).encode() if dialect else b""
    reading.left -= 1 + len(values) + (len(own) + len(root)) // _BYTES_OF_A_STEP
    if reading.left < 0 or not own or len(root) > _LARGEST_KEPT:
        return [None] * len(values)
    engines = _engines(own, root)
    if engines is None:
        return [None] * len(values)
    return [_verdict(*engines, value) for value in values]


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
            given = {"$ref": PART, "$defs": {"root": whole, PART.removeprefix("#/$defs/"): given}}
            if "$schema" in whole:
                given["$schema"] = whole["$schema"]
            whole.pop("$id", None)  # it would begin a document of its own, and the part's references end at it
        perhaps = _Engine(given, _TEXTS, base=base)
        if not any(each in schema or each in root for each in (b'"pattern', b'"format"')):
            return perhaps, perhaps  # nothing is left unread, so one engine is certain of both
        return perhaps, _Engine(given, _TEXTS, sure=True, base=base)
    except BaseException as error:
        if not _is_fault(error):
            raise
        return None
