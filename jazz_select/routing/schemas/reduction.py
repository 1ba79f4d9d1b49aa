"""A schema of arguments without some of its inputs: what remains is what a model is shown. Pure and bounded."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from jazz_select.routing.schemas.fields import ANNOTATIONS, Schema, mapping, referred

_BRANCHES: Final = ("allOf", "anyOf", "oneOf", "extends")
_CONDITION: Final = ("if", "then", "else")
_DEPENDENT: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_EXAMPLES: Final = ("examples", "enum")
_EXAMPLE: Final = ("default", "const", "example")
_DEFINITIONS: Final = ("$defs", "definitions")
_OPENING: Final = frozenset(("patternProperties", "$ref", *_BRANCHES))
_MOST_READ: Final = 2_000
_MOST_FOLLOWED: Final = 500


def input_names(schema: object) -> tuple[str, ...]:
    """Return the names of all inputs that a schema of arguments mentions, in any of its branches, in order."""
    schemas = _schemas_of_the_object(schema, mapping(schema))
    return tuple(dict.fromkeys(name for each in schemas for name in _names_in(each)))


def without_inputs(schema: Schema, names: Collection[str]) -> dict[str, Any]:
    """Return a schema of arguments without these inputs, on the assumption that they are given.

    The inputs are gone from properties, requirements and examples, in every branch that applies to the arguments
    themselves; an object inside an argument may have a field of the same name. A condition that depends on such an
    input is dropped, and so is a branch that forbids one, so the result may admit more than the whole schema does.
    Definitions that nothing refers to any more are dropped, too.
    """
    if not names:
        return dict(schema)
    reduced = _Reduction(frozenset(names), schema).reduced(schema)
    return _without_unused_definitions(cast("dict[str, Any]", reduced))


def _schemas_of_the_object(schema: object, root: Schema) -> Iterator[Schema]:
    """Yield the schemas that apply to the arguments themselves, each once: the schema, its branches and references."""
    seen: set[int] = set()  # references may go round in circles
    waiting = [schema]
    while waiting and len(seen) < _MOST_READ:
        here = waiting.pop(0)
        if not isinstance(here, Mapping) or id(cast("object", here)) in seen:
            continue
        known = cast("Schema", here)
        seen.add(id(known))
        yield known
        waiting += [known.get(each) for each in (*_CONDITION, "not")]
        for keyword in _BRANCHES:
            branches: object = known.get(keyword)
            waiting += cast("list[object]", branches) if isinstance(branches, list) else [branches]
        for keyword in ("dependentSchemas", "dependencies"):
            waiting += mapping(known.get(keyword)).values()
        if "$ref" in known:
            waiting.append(referred(known["$ref"], root))


def _names_in(schema: Schema) -> Iterator[str]:
    """Yield the names of inputs that one schema, without its branches, mentions."""
    yield from map(str, mapping(schema.get("properties")))
    yield from _texts(schema.get("required"))
    for keyword in _DEPENDENT:
        for name, wanted in mapping(schema.get(keyword)).items():
            yield from (str(name), *_texts(wanted))


def _names_in_values(schema: Schema) -> Iterator[str]:
    """Yield the names of the fields of whole arguments that a schema gives as examples, or lists."""
    values: list[object] = [schema.get(keyword) for keyword in _EXAMPLE]
    for keyword in _EXAMPLES:
        listed: object = schema.get(keyword)
        values += cast("list[object]", listed) if isinstance(listed, list) else []
    for value in values:
        yield from map(str, mapping(value))


def _mentions(schema: object, names: frozenset[str], root: Schema) -> bool:
    for each in _schemas_of_the_object(schema, root):
        if not names.isdisjoint((*_names_in(each), *_names_in_values(each))):
            return True
    return False


class _Reduction:
    """One reduction. It follows so many branches and references and no more; what lies beyond is left open."""

    def __init__(self, names: frozenset[str], root: Schema) -> None:
        self._names, self._root = names, root
        self._left = _MOST_FOLLOWED
        self._followed: list[str] = []

    def reduced(self, schema: object) -> Any:
        if not isinstance(schema, Mapping):
            return schema
        self._left -= 1
        if self._left < 0:
            return {}
        own: dict[str, Any] = dict(cast("Schema", schema))
        if "properties" in own:
            own["properties"] = self._without_keys(own["properties"])
        if isinstance(own.get("required"), list):
            own["required"] = self._others(own["required"])
            if not own["required"]:
                del own["required"]
        self._reduce_dependents(own)
        self._reduce_conditions(own)
        for keyword in _BRANCHES:
            if isinstance(own.get(keyword), list):
                own[keyword] = self._branches(own[keyword])
            elif keyword in own:
                own[keyword] = self.reduced(own[keyword])
        self._reduce_values(own)
        return self._reference(own)

    def _branches(self, branches: Sequence[object]) -> list[object]:
        possible = [each for each in branches if not self._forbids(each)]
        return [self.reduced(each) for each in possible or branches]

    def _forbids(self, schema: object) -> bool:
        known = mapping(schema)
        closed = known.get("additionalProperties") is False and not known.keys() & _OPENING
        return closed and not self._names <= mapping(known.get("properties")).keys()

    def _reduce_dependents(self, own: dict[str, Any]) -> None:
        """Take what depends on these inputs as required, since they are given, and let nothing else require them."""
        for keyword in _DEPENDENT:
            if keyword not in own:
                continue
            kept: dict[str, Any] = {}
            for name, wanted in mapping(own.pop(keyword)).items():
                if name not in self._names:
                    kept[name] = (
                        self._others(cast("object", wanted)) if isinstance(wanted, list) else self.reduced(wanted)
                    )
                elif isinstance(wanted, list):
                    own["required"] = [
                        *dict.fromkeys((*own.get("required", ()), *self._others(cast("object", wanted))))
                    ]
                else:
                    own["allOf"] = [*own.get("allOf", ()), wanted]
            if kept:
                own[keyword] = kept

    def _reduce_conditions(self, own: dict[str, Any]) -> None:
        if "not" in own and _mentions(own["not"], self._names, self._root):
            del own["not"]
        if "if" in own and _mentions(own["if"], self._names, self._root):
            for keyword in _CONDITION:
                own.pop(keyword, None)
        for keyword in ("then", "else"):
            if keyword in own:
                own[keyword] = self.reduced(own[keyword])

    def _reduce_values(self, own: dict[str, Any]) -> None:
        for keyword in _EXAMPLE:
            if keyword in own:
                own[keyword] = self._without_keys(own[keyword])
        for keyword in _EXAMPLES:
            if isinstance(own.get(keyword), list):
                own[keyword] = [self._without_keys(each) for each in own[keyword]]
        for keyword in ("minProperties", "maxProperties"):
            if isinstance(own.get(keyword), int):
                own[keyword] = max(own[keyword] - len(self._names), 0)
        allowed = mapping(own.get("propertyNames")).get("enum")
        if isinstance(allowed, list):
            own["propertyNames"] = {**own["propertyNames"], "enum": self._others(cast("list[object]", allowed))}

    def _reference(self, own: dict[str, Any]) -> dict[str, Any]:
        """Replace a reference to a schema with these inputs by that schema without them.

        The definition itself stays as it is: it may describe an object inside an argument as well.
        """
        reference = own.get("$ref")
        target = referred(reference, self._root)
        if not isinstance(reference, str) or not _mentions(target, self._names, self._root):
            return own
        beside = {keyword: value for keyword, value in own.items() if keyword != "$ref"}
        if reference in self._followed:  # a circle admits what the schema itself admits
            return beside
        self._followed.append(reference)
        reduced = cast("dict[str, Any]", self.reduced(target))
        self._followed.pop()
        if beside.keys() <= ANNOTATIONS:
            return {**reduced, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), reduced]}

    def _others(self, listed: object) -> list[object]:
        return [each for each in cast("list[object]", listed) if each not in self._names]

    def _without_keys(self, value: object) -> object:
        if not isinstance(value, Mapping):
            return value
        return {name: each for name, each in cast("Mapping[str, object]", value).items() if name not in self._names}


def _without_unused_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = {keyword: schema[keyword] for keyword in _DEFINITIONS if isinstance(schema.get(keyword), Mapping)}
    if not definitions:
        return schema
    rest = {keyword: value for keyword, value in schema.items() if keyword not in definitions}
    used: set[tuple[str, str]] = set()
    waiting: list[object] = [rest]
    while waiting:
        for reference in _references(waiting.pop()):
            if not reference.startswith("#/"):  # an anchor, or the whole: nothing is certain to be unused
                return schema
            keyword, _, name = reference[2:].partition("/")
            name = name.partition("/")[0].replace("~1", "/").replace("~0", "~")
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
        if isinstance(here, Mapping):
            known = cast("Mapping[str, object]", here)
            yield from (each for key in ("$ref", "$dynamicRef") if isinstance(each := known.get(key), str))
            waiting += known.values()
        elif isinstance(here, list):
            waiting += cast("list[object]", here)


def _texts(value: object) -> list[str]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return [each for each in listed if isinstance(each, str)]
