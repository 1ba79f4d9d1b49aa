"""A schema of arguments without some of its inputs: what remains is what a model is shown. Pure and bounded."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from jazz_select.json_values import is_array, is_object
from jazz_select.routing.schemas.fields import ANNOTATIONS, Schema, mapping, pointer_names, resolve_reference
from jazz_select.routing.schemas.places import (
    BRANCHES,
    CONDITION,
    DEPENDENT,
    Path,
    names_in,
    names_of_object,
    parts_at,
    path_of,
    paths_around,
    schemas_of_object,
)

_EXAMPLES: Final = ("examples", "enum")
_EXAMPLE: Final = ("default", "const", "example")
_DEFINITIONS: Final = ("$defs", "definitions")
_OPENING: Final = frozenset(("patternProperties", "$ref", *BRANCHES))
_MOST_FOLLOWED: Final = 500


def without_inputs(schema: Schema, names: Collection[str]) -> dict[str, Any]:
    """Return a schema of arguments without these inputs; see `without_fields`.

    A name is that of an input, of a field of the single object that the tool takes, or a place with dots.
    """
    return without_fields(schema, [path_of(schema, name) for name in names])


def without_fields(schema: Schema, paths: Collection[Path]) -> dict[str, Any]:
    """Return a schema of arguments without the inputs at these paths, on the assumption that they are given.

    The inputs are gone from properties, requirements and examples, in every branch that applies to the arguments
    themselves, or to the object at the path; any other object may have a field of the same name. An object of which
    nothing is left is gone, too. A condition that depends on such an input is dropped, and so is a branch that forbids
    one, so the result may admit more than the whole schema does. Definitions that nothing refers to any more are
    dropped, too.
    """
    if not paths:
        return dict(schema)
    reduced: dict[str, Any] = _Reduction(_without_emptied(paths, schema), schema).reduce_schema(schema)
    return _without_unused_definitions(reduced)


def _without_emptied(paths: Collection[Path], schema: Schema) -> frozenset[Path]:
    """Return the paths, with that of an object in place of those of all its fields."""
    removed = set(paths)
    for path in paths_around(paths):
        fields: set[Path] = set()
        is_open = False
        for part in parts_at(path, schema):
            fields.update((*path, name) for name in names_of_object(part, schema))
            is_open |= any(each.get("additionalProperties") for each in schemas_of_object(part, schema))
        if fields and removed >= fields and not is_open:
            removed.add(path)
    return frozenset(removed)


def _names_in_values(schema: Schema) -> Iterator[str]:
    """Yield the names of the fields of whole arguments that a schema gives as examples, or lists."""
    values: list[object] = [schema.get(keyword) for keyword in _EXAMPLE]
    for keyword in _EXAMPLES:
        listed: object = schema.get(keyword)
        values += listed if is_array(listed) else []
    for value in values:
        yield from map(str, mapping(value))


def _mentions(schema: object, names: frozenset[str], root: Schema) -> bool:
    for each in schemas_of_object(schema, root):
        if not names.isdisjoint((*names_in(each), *_names_in_values(each))):
            return True
    return False


class _Reduction:
    """One reduction. It follows so many branches and references and no more; what lies beyond is left open."""

    def __init__(self, paths: frozenset[Path], root: Schema) -> None:
        self._root = root
        self._names = frozenset(path[0] for path in paths if len(path) == 1)
        inside: dict[str, set[Path]] = {}
        for name, *rest in paths:
            if rest and name not in self._names:  # nothing is left inside of a field that goes as a whole
                inside.setdefault(name, set()).add(tuple(rest))
        self._inside = {name: _Reduction(frozenset(own), root) for name, own in inside.items()}
        self._touched = self._names.union(self._inside)
        self._left = _MOST_FOLLOWED
        self._followed: list[str] = []

    def reduce_schema(self, schema: object) -> Any:
        if not is_object(schema):
            return schema
        self._left -= 1
        if self._left < 0:
            return {}
        own: dict[str, Any] = dict(schema)
        if "properties" in own:
            own["properties"] = self._properties(own["properties"])
        if isinstance(own.get("required"), list):
            own["required"] = self._without_names(own["required"])
            if not own["required"]:
                del own["required"]
        self._reduce_dependents(own)
        self._reduce_conditions(own)
        for keyword in BRANCHES:
            if isinstance(own.get(keyword), list):
                own[keyword] = self._branches(own[keyword])
            elif keyword in own:
                own[keyword] = self.reduce_schema(own[keyword])
        self._reduce_values(own)
        return self._reference(own)

    def _properties(self, properties: object) -> object:
        if not is_object(properties):
            return properties
        kept = self._others_of(properties)
        for name in kept.keys() & self._inside.keys():
            kept[name] = self._inside[name].reduce_schema(kept[name])
        return kept

    def _branches(self, branches: Sequence[object]) -> list[object]:
        possible = [each for each in branches if not self._forbids(each)]
        # Where all of them forbid an input, all stay: no value is valid by a list without branches.
        return [self.reduce_schema(each) for each in possible or branches]

    def _forbids(self, schema: object) -> bool:
        known = mapping(schema)
        closed = known.get("additionalProperties") is False and not known.keys() & _OPENING
        return closed and not self._names <= mapping(known.get("properties")).keys()

    def _reduce_dependents(self, own: dict[str, Any]) -> None:
        """Take what depends on these inputs as required, since they are given, and let nothing else require them."""
        for keyword in DEPENDENT:
            if keyword not in own:
                continue
            kept: dict[str, Any] = {}
            for name, dependent in mapping(own.pop(keyword)).items():
                if is_array(dependent):
                    others = self._without_names(dependent)
                    if name in self._names:
                        own["required"] = list(dict.fromkeys((*own.get("required", ()), *others)))
                    else:
                        kept[name] = others
                elif name in self._names:
                    own["allOf"] = [*own.get("allOf", ()), dependent]  # reduced below, with the other branches
                else:
                    kept[name] = self.reduce_schema(dependent)
            if kept:
                own[keyword] = kept

    def _reduce_conditions(self, own: dict[str, Any]) -> None:
        if "not" in own and _mentions(own["not"], self._touched, self._root):
            del own["not"]
        if "if" in own and _mentions(own["if"], self._touched, self._root):
            for keyword in CONDITION:
                own.pop(keyword, None)
        for keyword in ("then", "else"):
            if keyword in own:
                own[keyword] = self.reduce_schema(own[keyword])

    def _reduce_values(self, own: dict[str, Any]) -> None:
        for keyword in _EXAMPLE:
            if keyword in own:
                own[keyword] = self.without_keys(own[keyword])
        for keyword in _EXAMPLES:
            if isinstance(own.get(keyword), list):
                own[keyword] = [self.without_keys(each) for each in own[keyword]]
        for keyword in ("minProperties", "maxProperties"):
            if isinstance(own.get(keyword), int):
                own[keyword] = max(own[keyword] - len(self._names), 0)
        allowed = mapping(own.get("propertyNames")).get("enum")
        if is_array(allowed):
            own["propertyNames"] = {**own["propertyNames"], "enum": self._without_names(allowed)}

    def _reference(self, own: dict[str, Any]) -> dict[str, Any]:
        """Replace a reference to a schema with these inputs by that schema without them.

        The definition itself stays as it is: it may describe an object inside an argument as well.
        """
        reference = own.get("$ref")
        target = resolve_reference(reference, self._root)
        if not isinstance(reference, str) or not _mentions(target, self._touched, self._root):
            return own
        beside = {keyword: value for keyword, value in own.items() if keyword != "$ref"}
        if reference in self._followed:  # a circle admits what the schema itself admits
            return beside
        self._followed.append(reference)
        reduced: dict[str, Any] = self.reduce_schema(target)
        self._followed.pop()
        if beside.keys() <= ANNOTATIONS:
            return {**reduced, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), reduced]}

    def _without_names(self, names: Sequence[object]) -> list[object]:
        return [each for each in names if each not in self._names]

    def _others_of(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {name: each for name, each in fields.items() if name not in self._names}

    def without_keys(self, value: object) -> object:
        """Return an example of an object without these inputs."""
        if not is_object(value):
            return value
        kept = self._others_of(value)
        for name in kept.keys() & self._inside.keys():
            kept[name] = self._inside[name].without_keys(kept[name])
        return kept


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = {keyword: schema[keyword] for keyword in _DEFINITIONS if is_object(schema.get(keyword))}
    if not definitions:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in definitions}
    used: set[tuple[str, str]] = set()
    waiting: list[object] = [rest]
    while waiting:
        for reference in _references(waiting.pop()):
            if not reference.startswith("#/"):  # an anchor, or the whole: nothing is certain to be unused
                return schema
            keyword, name, *_ = (*pointer_names(reference), "")
            if keyword in definitions and name in definitions[keyword] and (keyword, name) not in used:
                used.add((keyword, name))
                waiting.append(definitions[keyword][name])
    for keyword, named in definitions.items():
        kept = {name: each for name, each in named.items() if (keyword, name) in used}
        if kept:
            rest[keyword] = kept
    return rest


def _references(schema: object) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        here = waiting.pop()
        if is_object(here):
            for keyword in ("$ref", "$dynamicRef"):
                reference: object = here.get(keyword)
                if isinstance(reference, str):
                    yield reference
            waiting += here.values()
        elif is_array(here):
            waiting += here
