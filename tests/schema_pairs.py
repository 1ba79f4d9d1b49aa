"""Pairs of schemas, and values: is `assignable` ever sure, and wrong? `python -m tests.schema_pairs --pairs 5000`."""

import argparse
import copy
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, TypeGuard

from jsonschema import Draft202012Validator

from jazz_select.routing.schemas.assignability import NEVER, SURELY, assignable

NAMES = ["a", "b", "c", "d"]
TYPES = ["string", "integer", "number", "boolean", "null"]
SCALARS: list[Any] = ["", "a", "b", "zz", "abcd", 0, 1, 2, 3, 5, 7, -1, 1.0, 0.5, 2.5, True, False, None]
IN_TURN = {"dict": "object", "float": "number", "tuple": "array"}
"""What public catalogues of functions call these types."""
DEEPEST = 3
MOST_EXPANDED = 32


def valid(value: Any, schema: Any) -> bool:
    """By the reference."""
    return Draft202012Validator(schema).is_valid(value)  # pyright: ignore[reportUnknownMemberType] - its stubs are partial


def is_dict(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


# --- schemas -------------------------------------------------------------------


def schema_of(random: Random, depth: int = 0) -> Any:
    """Any schema, of any keywords that the reference decides."""
    makers = [_scalar, _scalar, _listed, _object, _object, _array, _either, _both, _conditional, _negated, _odd]
    made = random.choice(makers[:3] if depth >= DEEPEST else makers)(random, depth)
    if depth == 0 and random.random() < 0.15 and is_dict(made):
        return {"$defs": {"it": made}, "$ref": "#/$defs/it"}
    return made


def _scalar(random: Random, _: int) -> Any:
    kind = random.choice(TYPES)
    made: dict[str, Any] = {"type": kind}
    if kind in ("integer", "number") and random.random() < 0.5:
        for bound in random.sample(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], 2):
            made[bound] = random.choice([1, 2, 3, 5])
    if kind == "string" and random.random() < 0.4:
        made |= {
            random.choice(["minLength", "maxLength"]): random.choice([0, 1, 2]),
            **random.choice([{}, {"pattern": "a"}]),
        }
    if random.random() < 0.15:
        made["type"] = [kind, random.choice([each for each in TYPES if each != kind])]
    return made


def _listed(random: Random, _: int) -> Any:
    values = random.sample([*SCALARS, [], [1], {}, {"a": 1}], random.choice([1, 1, 2, 3]))
    return {"const": values[0]} if random.random() < 0.4 else {"enum": values}


def _odd(random: Random, depth: int) -> Any:
    return random.choice(
        [True, False, {}, {"minimum": 2}, {"maxLength": 1}, {"required": ["a"]}, {"uniqueItems": True}]
    )


def _object(random: Random, depth: int) -> Any:
    names = random.sample(NAMES, random.choice([0, 1, 2, 3]))
    made: dict[str, Any] = {"type": "object"}
    if names or random.random() < 0.5:
        made["properties"] = {name: schema_of(random, depth + 1) for name in names}
    if random.random() < 0.7:
        made["required"] = [name for name in NAMES if random.random() < (0.6 if name in names else 0.1)]
    if random.random() < 0.35:
        made["additionalProperties"] = random.choice([True, False, False, schema_of(random, DEEPEST)])
    for keyword, value in (
        ("minProperties", 1),
        ("maxProperties", random.choice([0, 1, 2])),
        ("propertyNames", {"enum": ["a", "b"]}),
        ("patternProperties", {"^a": schema_of(random, DEEPEST)}),
        ("dependentRequired", {"a": ["b"]}),
        ("dependentSchemas", {"b": schema_of(random, depth + 1)}),
        ("unevaluatedProperties", False),
    ):
        made |= {keyword: value} if random.random() < 0.06 else {}
    if random.random() < 0.1:
        made.pop("type")
    return made


def _array(random: Random, depth: int) -> Any:
    made: dict[str, Any] = {"type": "array"}
    if random.random() < 0.3:
        made["prefixItems"] = [schema_of(random, depth + 1) for _ in range(random.choice([1, 2]))]
    if random.random() < 0.8:
        made["items"] = schema_of(random, depth + 1) if random.random() < 0.75 else False
    for keyword, value in (
        ("minItems", random.choice([1, 2])),
        ("maxItems", random.choice([0, 1, 2])),
        ("uniqueItems", True),
        ("contains", schema_of(random, DEEPEST)),
    ):
        made |= {keyword: value} if random.random() < 0.15 else {}
    return made


def _either(random: Random, depth: int) -> Any:
    base: Any = _object(random, depth + 1) if random.random() < 0.3 else {}
    if base and random.random() < 0.5:
        options: list[Any] = [{"required": [name]} for name in random.sample(NAMES, 2)]
    else:
        options = [schema_of(random, depth + 1) for _ in range(random.choice([1, 2, 3]))]
    return {**base, random.choice(["anyOf", "anyOf", "oneOf"]): options}


def _both(random: Random, depth: int) -> Any:
    maker = random.choice([_object, _scalar, _array, schema_of])
    parts = [maker(random, depth + 1) for _ in range(2)]
    if random.random() < 0.3:
        closed = {
            "type": "object",
            "properties": {name: schema_of(random, DEEPEST) for name in random.sample(NAMES, 2)},
        }
        parts = [
            closed | {"additionalProperties": random.choice([False, {"type": "integer"}])},
            _object(random, depth + 1),
        ]
    elif random.random() < 0.3:
        parts = [{"type": kind, random.choice(["minimum", "maximum"]): 2} for kind in ("number", "integer")]
    return {"allOf": parts} if random.random() < 0.7 else {**_object(random, depth + 1), "allOf": parts[:1]}


def _conditional(random: Random, depth: int) -> Any:
    test = {"properties": {"a": _listed(random, depth)}, "required": ["a"]}
    made = {**_object(random, depth + 1), "if": test}
    for keyword in ("then", "else"):
        if random.random() < 0.7:
            made[keyword] = random.choice([{"required": ["b"]}, {"properties": {"c": _scalar(random, depth)}}])
    return made


def _negated(random: Random, depth: int) -> Any:
    return {**schema_or_none(_scalar(random, depth)), "not": schema_of(random, DEEPEST)}


def schema_or_none(made: Any) -> dict[str, Any]:
    return made if is_dict(made) else {}


def mutated(schema: Any, random: Random) -> Any:
    """A schema that is nearly the same."""
    made = copy.deepcopy(schema)
    nodes = [each for each in _nodes(made) if is_dict(each)]
    if not nodes:
        return made
    for _ in range(random.choice([1, 1, 2])):
        node = random.choice(nodes)
        change = random.random()
        if change < 0.35 and node.keys() - {"$defs"}:
            node.pop(random.choice(sorted(node.keys() - {"$defs"})))
        elif change < 0.7:
            node.update(schema_or_none(schema_of(random, DEEPEST - 1)))
        elif is_dict(node.get("properties")) and node["properties"]:
            names = sorted(node["properties"])
            node["required"] = random.sample(names, random.randint(0, len(names)))
        else:
            node["type"] = random.choice([*TYPES, "object", "array"])
    return made


def _nodes(schema: Any) -> Iterator[Any]:
    """The schemas in a schema."""
    yield schema
    if is_dict(schema):
        for keyword, value in schema.items():
            if keyword in ("properties", "$defs", "patternProperties", "dependentSchemas"):
                for each in value.values():
                    yield from _nodes(each)
            elif keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
                for each in value:
                    yield from _nodes(each)
            elif keyword in ("items", "additionalProperties", "not", "if", "then", "else", "contains"):
                yield from _nodes(value)


def in_old_words(schema: Any, random: Random) -> Any:
    """The same schema in forms of drafts 3 to 7 and of OpenAPI 3.0, here and there."""
    made = copy.deepcopy(schema)
    for node in [each for each in _nodes(made) if is_dict(each)]:
        types = node.get("type")
        if is_list(types) and len(types) == 2 and "null" in types and "enum" not in node and "const" not in node:
            node |= {"type": next(each for each in types if each != "null"), "nullable": True}
        for bound, excluded in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            if excluded in node and bound not in node and random.random() < 0.8:
                node |= {bound: node[excluded], excluded: True}
        if "prefixItems" in node and random.random() < 0.8:
            if "items" in node:
                node["additionalItems"] = node.pop("items")
            node["items"] = node.pop("prefixItems")
        if "dependentRequired" in node and "dependentSchemas" not in node:
            node["dependencies"] = node.pop("dependentRequired")
        if "$defs" in node and "$ref" in node:
            node["definitions"] = node.pop("$defs")
            node["$ref"] = node["$ref"].replace("$defs", "definitions")
    return made


# --- values --------------------------------------------------------------------


def value_for(schema: Any, root: Any, random: Random, depth: int = 0) -> Any:  # noqa: C901, PLR0911 - a case for each keyword
    """A value that may be one of this schema's; whether it is, the reference decides."""
    if not is_dict(schema) or depth > DEEPEST + 1 or random.random() < 0.04:
        return random.choice(SCALARS)
    if "$ref" in schema:
        here: Any = root
        for part in schema["$ref"].split("/")[1:]:
            here = here[part]
        return value_for(here, root, random, depth + 1)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if schema.get(keyword):
            several = [value_for(each, root, random, depth) for each in (*schema[keyword], {**schema, keyword: None})]
            objects = [each for each in several if is_dict(each)]
            if objects and random.random() < 0.6:
                return {name: value for each in objects for name, value in each.items()}
            return random.choice(several)
    if "if" in schema and random.random() < 0.8:
        rest = {key: value for key, value in schema.items() if key not in ("if", "then", "else")}
        return value_for({"allOf": [rest, schema["if"], schema.get("then", {})]}, root, random, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return random.choice(schema["enum"] or [None])
    kind = schema.get("type")
    if is_list(kind):
        kind = random.choice(kind)
    if kind == "object" or (kind is None and "properties" in schema):
        return _some_object(schema, root, random, depth)
    if kind == "array" or (kind is None and ("items" in schema or "prefixItems" in schema)):
        first = schema.get("prefixItems", [])
        count = random.choice([0, 1, 1, 2, 3, schema.get("minItems", 1)])
        parts = [first[n] if n < len(first) else schema.get("items", True) for n in range(count)]
        return [value_for(each, root, random, depth + 1) for each in parts if each is not False]
    kinds: dict[Any, Any] = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    bounds = [schema[key] for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum") if key in schema]
    near = [bound + more for bound in bounds for more in (-1, 0, 1)]
    fitting = [each for each in SCALARS + near if isinstance(each, kinds.get(kind, object))]
    return random.choice([each for each in fitting if kind == "boolean" or not isinstance(each, bool)] or [None])


def _some_object(schema: Any, root: Any, random: Random, depth: int) -> Any:
    parts = schema.get("properties", {})
    needed = schema.get("required", [])
    share = random.choice([0.0, 0.5, 1.0])
    names = [name for name in {**parts, **dict.fromkeys(needed)} if name in needed or random.random() < share]
    if random.random() < 0.2:
        names.append(random.choice(NAMES))
    more = schema.get("additionalProperties", True)
    return {name: value_for(parts.get(name, more), root, random, depth + 1) for name in names}


def at_its_word(schema: Any) -> Any:
    """A schema that admits what another one does, but no property that its objects do not declare."""
    return {"$defs": schema.get("$defs", {}), **_position(schema, schema, 0)} if is_dict(schema) else schema


def _position(schema: Any, root: Any, depth: int) -> Any:
    if not is_dict(schema) or depth > DEEPEST:
        return schema
    ways = [_inside(each, root, depth) for each in _ways(schema, root, 0)]
    closed = [{**each, "unevaluatedProperties": False} if _declares(each) else each for each in ways]
    return {"anyOf": closed} if closed else False


def _ways(schema: Any, root: Any, hops: int) -> list[Any]:
    """What a schema admits, one for each way to be one of several: a value is taken for one, not for a mixture."""
    if not is_dict(schema) or hops > 4:
        return [schema]
    rest = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "$defs")}
    parts: list[list[Any]] = [[rest]]
    if "$ref" in schema:
        here: Any = root
        for part in schema["$ref"].split("/")[1:]:
            here = here[part]
        parts.append(_ways(here, root, hops + 1))
    parts += [_ways(each, root, hops + 1) for each in schema.get("allOf", [])]
    if "anyOf" in schema:
        parts.append([way for each in schema["anyOf"] for way in _ways(each, root, hops + 1)])
    found = [{"allOf": list(each)} for each in product(*parts)]
    return found if len(found) <= MOST_EXPANDED else [schema]


def _inside(schema: Any, root: Any, depth: int) -> Any:
    """The same in what it holds."""
    if not is_dict(schema):
        return schema
    made: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in ("properties", "patternProperties"):
            made[keyword] = {name: _position(each, root, depth + 1) for name, each in value.items()}
        elif keyword in ("items", "additionalProperties"):
            made[keyword] = _position(value, root, depth + 1)
        elif keyword == "prefixItems":
            made[keyword] = [_position(each, root, depth + 1) for each in value]
        elif keyword in ("allOf", "oneOf"):
            made[keyword] = [_inside(each, root, depth) for each in value]
        elif keyword in ("then", "else"):
            made[keyword] = _inside(value, root, depth)
        else:
            made[keyword] = value
    return made


def _declares(schema: Any) -> bool:
    """Whether an object that is one of this schema's has properties that are told."""
    if not is_dict(schema):
        return False
    below = [each for keyword in ("allOf", "anyOf", "oneOf") for each in schema.get(keyword, [])]
    below += schema.get("dependentSchemas", {}).values()
    below += [schema[each] for each in ("if", "then", "else") if each in schema]
    return bool(schema.get("properties")) or any(map(_declares, below))


def holds_nothing(value: Any) -> bool:
    """Whether there is an empty array in it."""
    if is_dict(value):
        return any(map(holds_nothing, value.values()))
    return is_list(value) and (not value or any(map(holds_nothing, value)))


# --- the question --------------------------------------------------------------


def counterexample(out: Any, wanted: Any, random: Random, *, old: bool, tries: int = 25) -> tuple[float, Any] | None:
    """What `assignable` is sure of and wrong about, with the value that shows it; else its score and nothing."""
    said_out, said_in = (in_old_words(out, random), in_old_words(wanted, random)) if old else (out, wanted)
    score = assignable(said_out, said_in)
    if score not in (SURELY, NEVER):
        return score, None
    word = at_its_word(out)
    for _ in range(tries):
        source = random.choice([out, out, wanted])
        value = value_for(source, source, random)
        # What a tool's own schema refuses when it is read strictly, the tool never returns.
        if not valid(value, word) or not valid(value, out):
            continue
        fits = valid(value, wanted)
        if fits != (score == SURELY) and not (score == NEVER and holds_nothing(value)):
            return score, (said_out, said_in, value)
    return score, None


def pairs(random: Random, real: list[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs without end: made up, nearly the same, and of real catalogues where there are any."""
    while True:
        if real and random.random() < 0.5:
            out = random.choice(real)
            wanted = random.choice([mutated(out, random), random.choice(real), out])
        else:
            out = schema_of(random)
            wanted = random.choice([schema_of(random), mutated(out, random), mutated(out, random), out])
        if random.random() < 0.3:
            out, wanted = wanted, out
        yield out, wanted


def real_schemas(files: Iterable[Path]) -> list[Any]:
    """The inputs of functions of public catalogues, whole and field by field."""
    found: dict[str, Any] = {}
    for file in files:
        for line in file.read_text().splitlines():
            for function in json.loads(line)["function"]:
                for each in _nodes(_renamed(function["parameters"])):
                    found[json.dumps(each, sort_keys=True)] = each
    return list(found.values())


def _renamed(schema: Any) -> Any:
    if is_list(schema):
        return [_renamed(each) for each in schema]
    if not is_dict(schema):
        return schema
    made = {key: _renamed(value) for key, value in schema.items() if key not in ("description", "default", "optional")}
    kind = made.get("type")
    if isinstance(kind, str):
        made["type"] = IN_TURN.get(kind, kind)
        if kind in ("any", "None"):
            del made["type"]
    return made


def usable(schema: Any) -> bool:
    """Whether the reference takes it for a schema."""
    try:
        Draft202012Validator.check_schema(schema)
    except Exception:  # noqa: BLE001 - whatever it trips over
        return False
    return True


def searched(seed: int, count: int, real: list[Any]) -> tuple[Counter[float], list[Any]]:
    """The scores of so many pairs, and the counterexamples among them."""
    random = Random(seed)
    scores: Counter[float] = Counter()
    wrong: list[Any] = []
    for out, wanted in pairs(random, real):
        if scores.total() == count:
            break
        if not usable(out) or not usable(wanted):
            continue
        score, shown = counterexample(out, wanted, random, old=random.random() < 0.3) or (0.0, None)
        scores[score] += 1
        if shown is not None:
            wrong.append((score, *shown))
    return scores, wrong


def main() -> int:
    """Search, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, help="a folder with bfcl/*.json, as for the benchmarks")
    options = parser.parse_args()
    files = sorted((options.data / "bfcl").glob("*.json")) if options.data else []
    real = [each for each in real_schemas(files) if usable(each)]
    scores, wrong = searched(options.seed, options.pairs, real)
    shares = dict(sorted(scores.items()))
    print(f"{scores.total()} pairs, {len(real)} real schemas: {shares}, {len(wrong)} counterexamples")  # noqa: T201 - a command
    for score, out, wanted, value in sorted(wrong, key=lambda each: len(json.dumps(each[1:])))[:10]:
        print(f"{score}: {json.dumps(out)} -> {json.dumps(wanted)}: {json.dumps(value)}")  # noqa: T201
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
