"""Where an input is in a schema of arguments: a name at the top, or a field of an object, as in `params.member`."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from jazz_select.json_values import is_array, is_object
from jazz_select.routing.schemas.fields import Schema, mapping, resolve_reference

Path = tuple[str, ...]
"""The names that lead to an input, from the top."""
BRANCHES: Final = ("allOf", "anyOf", "oneOf", "extends")
CONDITION: Final = ("if", "then", "else")
DEPENDENT: Final = ("dependentRequired", "dependentSchemas", "dependencies")
_DEEPEST_WRAPPER: Final = 3
_MOST_READ: Final = 2_000


def input_names(schema: object) -> tuple[str, ...]:
    """Return the names of all inputs that a schema of arguments mentions, in any of its branches, in order."""
    return names_of_object(schema, mapping(schema))


def names_of_object(part: object, root: Schema) -> tuple[str, ...]:
    """Return the names of all fields that the schema of an object mentions, in order; `root` holds the definitions."""
    names: dict[str, None] = {}
    for schema in schemas_of_object(part, root):
        names.update(dict.fromkeys(names_in(schema)))
    return tuple(names)


def required_of_object(part: object, root: Schema) -> set[str]:
    """Return the names of the fields that the schema of an object requires in any of its branches."""
    required: set[str] = set()
    for schema in schemas_of_object(part, root):
        required.update(texts(schema.get("required")))
    return required


def schemas_of_object(schema: object, root: Schema) -> Iterator[Schema]:
    """Yield the schemas that apply to an object, such as the arguments themselves, each once.

    They are the schema, its branches and what it refers to.
    """
    seen: set[int] = set()  # references may go round in circles
    waiting = [schema]
    while waiting and len(seen) < _MOST_READ:
        here = waiting.pop(0)
        if not is_object(here) or id(here) in seen:
            continue
        seen.add(id(here))
        yield here
        waiting += [here.get(each) for each in (*CONDITION, "not")]
        for keyword in BRANCHES:
            branches: object = here.get(keyword)
            waiting += branches if is_array(branches) else [branches]
        for keyword in ("dependentSchemas", "dependencies"):
            waiting += mapping(here.get(keyword)).values()
        if "$ref" in here:
            waiting.append(resolve_reference(here["$ref"], root))


def names_in(schema: Schema) -> Iterator[str]:
    """Yield the names of inputs that one schema, without its branches, mentions."""
    yield from map(str, mapping(schema.get("properties")))
    yield from texts(schema.get("required"))
    for keyword in DEPENDENT:
        for name, wanted in mapping(schema.get(keyword)).items():
            yield from (str(name), *texts(wanted))


def parts_at(path: Path, root: Schema) -> list[object]:
    """Return all schemas that describe what is at a path."""
    parts: list[object] = [root]
    for name in path:
        found: dict[int, object] = {}  # by identity: several parts may refer to the same definition
        for part in parts:
            for schema in schemas_of_object(part, root):
                properties = mapping(schema.get("properties"))
                if name in properties:
                    found[id(properties[name])] = properties[name]
        parts = list(found.values())
    return parts


def wrapper_paths(schema: Schema) -> list[Path]:
    """Return the path of the single object that a tool takes, as `query` of `def find(query: Query)`; else nothing.

    If its only field is an object again, that one follows.
    """
    found: list[Path] = []
    path: Path = ()
    part: object = schema
    while len(found) < _DEEPEST_WRAPPER:
        names = names_of_object(part, schema)
        if len(names) != 1:
            break
        path = (*path, names[0])
        part = part_at(schema, path)
        if not _is_object(part, schema):
            break
        found.append(path)
    return found


def input_paths(schema: Schema) -> list[Path]:
    """Return the paths of all inputs: the names at the top, and the fields of the single object that a tool takes."""
    found: list[Path] = [(name,) for name in names_of_object(schema, schema)]
    for wrapper in wrapper_paths(schema):
        found += [(*wrapper, name) for name in names_of_object(part_at(schema, wrapper), schema)]
    return found


def path_of(schema: Schema, place: str) -> Path:
    """Return the path of a place: of an input, of a field of the single object, or of names joined by dots."""
    for path in input_paths(schema):
        if path[-1] == place:
            return path
    return tuple(place.split("."))


def has_place(schema: Schema, place: str) -> bool:
    """Tell whether a schema of arguments names this input, or this field of an object."""
    path = path_of(schema, place)
    return path[-1] in names_of_object(part_at(schema, path[:-1]), schema)


def part_at(schema: Schema, path: Path) -> object:
    """Return the first schema that describes what is at a path; None if none does."""
    here: object = schema
    for name in path:
        here = _property(name, here, schema)
    return here


def _property(name: str, part: object, root: Schema) -> object:
    for schema in schemas_of_object(part, root):
        properties = mapping(schema.get("properties"))
        if name in properties:
            return properties[name]
    return None


def objects_to_make(schema: Schema, paths: Iterable[Path]) -> dict[Path, Mapping[str, Any]]:
    """Return the objects around inputs that can be made where a call leaves them out, and their default fields.

    An object can be made if nothing is required in it but what is filled, or has a default.
    """
    filled = set(paths)
    made: dict[Path, Mapping[str, Any]] = {}
    for path in paths_around(filled):
        part = part_at(schema, path)
        default = mapping(mapping(part).get("default"))
        available = {inner[-1] for inner in (*filled, *made) if inner[:-1] == path}
        if available.union(default).issuperset(required_of_object(part, schema)):
            made[path] = default
    return made


def paths_around(paths: Iterable[Path]) -> list[Path]:
    """Return the paths of all objects that these paths lead through, the innermost first."""
    around: set[Path] = set()
    for path in paths:
        around.update(path[:length] for length in range(1, len(path)))
    return sorted(around, key=len, reverse=True)


def without_paths(arguments: Mapping[str, Any], paths: Collection[Path]) -> dict[str, Any]:
    """Return arguments without what is at these paths, nor an object of which nothing is left then."""
    kept: dict[str, Any] = {}
    for name, value in arguments.items():
        if (name,) in paths:
            continue
        inside = {path[1:] for path in paths if path[0] == name}
        if inside and is_object(value):
            rest = without_paths(value, inside)
            if rest or not value:
                kept[name] = rest
        else:
            kept[name] = value
    return kept


def _is_object(part: object, root: Schema) -> bool:
    if names_of_object(part, root):
        return True
    for schema in schemas_of_object(part, root):
        types: object = schema.get("type")
        if types == "object" or (is_array(types) and "object" in types):
            return True
    return False


def texts(value: object) -> list[str]:
    """Return the texts of a list; none of what is no list."""
    if not is_array(value):
        return []
    return [each for each in value if isinstance(each, str)]
