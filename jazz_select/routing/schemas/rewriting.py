"""A schema of any draft in the keywords of draft 2020-12, for the engine: without annotations, patterns made linear."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from jsonschema_rs import Draft202012Validator, RegexOptions

from jazz_select.json_values import is_array, is_object
from jazz_select.routing.schemas.fields import (
    UNEVALUATED,
    Schema,
    canonical_json,
    dialect_of,
    inner,
    mapping,
    normalize_node,
    pointer_names,
)
from jazz_select.routing.schemas.patterns import LinearPattern, linear_pattern

DEEPEST_LED: Final = 100
"""Levels of schemas in schemas: far fewer than fill the stack of a thread, which ends a process."""
PATTERNS: Final = ("pattern", "patternProperties")
PART: Final = "#/$defs/jazz-select:part"
"""Where a part of a schema stands in the document that is made of both, however deep its references point."""
WHOLE_NUMBER: Final = "jazz-select:whole-number"
"""The keyword of an integer that is written without a fraction; until draft 4, 1.0 is none."""
LINEAR: Final = RegexOptions(size_limit=1_000_000, dfa_size_limit=1_000_000)
"""An engine that takes time in proportion to the text, whatever the pattern; larger patterns are none for it."""
_MOST_NODES: Final = 13_000
"""Parts of a schema that are rewritten; what is beyond admits anything. An engine takes 2 µs for each."""
_MOST_PATTERN_PARTS: Final = 15_000
"""What all patterns of a schema take to compile, in the same parts; those beyond are not read."""
_PARTS_OF_A_PATTERN, _STATES_OF_A_PART = 60, 2
_STATES_OF_A_VISIT: Final = 4
"""States that an engine follows at a letter, at worst, in the time of one visit."""
_SURE_OF: Final = 2_000
"""States up to which the engine surely takes a pattern that names no property of Unicode."""
_PARTS_OF_A_STEP: Final = 4
_PARTS_OF_A_NAME: Final = 10
_LONGEST_PLACE: Final = 6
_PARTS: Final = frozenset(
    (
        *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
        *("unevaluatedItems", "unevaluatedProperties"),
    )
)
_LISTS: Final = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS: Final = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_OLD_MAPS: Final = _MAPS | {"dependencies"}
_TURNING: Final = ("not", "oneOf", "if")
_LEADING: Final = ("$ref", "$dynamicRef", "$anchor", "$dynamicAnchor", "$id")
_FOR_PEOPLE: Final = frozenset(
    (
        *("title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"),
        *("contentEncoding", "contentMediaType", "contentSchema", "discriminator", "xml", "externalDocs", "example"),
    )
)
_PLAIN: Final = _FOR_PEOPLE | {"type"}
_RECURSIVE: Final = "jazz-select-recursive"
_ANCHOR: Final = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")
_METASCHEMA: Final = re.compile(r"https?://json-schema\.org/(draft-0[3467]/|draft/2019-09/)?schema(#.*)?")
_FORMATS_OF_DRAFT_3: Final = {"host-name": "hostname", "ip-address": "ipv4", "time": "time without an offset"}
"""Names of formats as draft 2020-12 has them; it knows no time without an offset."""
_MOVED: Final = ("items", "additionalItems", "dependencies")
"""Keywords under which a reference of an older draft finds what stands elsewhere today."""
_is_reference: Final = Draft202012Validator({"format": "uri-reference"}, validate_formats=True).is_valid


@dataclass(slots=True, kw_only=True)
class Rewriting:
    """A schema being rewritten in the keywords of draft 2020-12, without annotations and ignored keywords.

    Attributes:
        dialect: The declared dialect, or "".
        unread: Ignored keywords about texts; what depends on them is valid.
        sure: Whether what depends on ignored keywords is invalid instead.
        base: Position of the schema in the resulting document.
        is_careful: Whether each pattern is tried by itself, and embedded documents that nothing refers to are parts.
        is_doubtful: Whether anything in the schema is ignored: then references may lead there.
        is_cut: Whether it is so large that parts of it are left out.
        doubts: Number of ignored keywords so far, and of references that may lead to some.
        weights: What each pattern, as the engine gets it, takes for a letter, in visits.
        originals: Each pattern as it was written, by what the engine gets.
        refused: Patterns that are left out, and why.
    """

    dialect: str
    unread: frozenset[str]
    sure: bool
    base: str
    is_careful: bool
    root: object = None
    left: int = _MOST_NODES
    pattern_parts: int = _MOST_PATTERN_PARTS
    depth: int = 0
    is_doubtful: bool = False
    is_cut: bool = False
    doubts: int = 0
    is_recursive: bool = False
    document: str = ""
    mentioned: str = ""
    weights: dict[str, int] = field(default_factory=dict[str, int])
    originals: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    places: dict[str, None] = field(default_factory=dict[str, None])
    made: dict[int, object] = field(default_factory=dict[int, object])

    @classmethod
    def of_schema(
        cls, schema: object, unread: frozenset[str], *, sure: bool = False, base: str = "#", is_careful: bool = False
    ) -> tuple[Any, "Rewriting"]:
        """Return the rewritten schema, and what is known of its patterns.

        Raises:
            ValueError: It is too deep.
        """
        dialect = dialect_of(mapping(schema))
        made = cls(dialect=dialect, unread=unread, sure=sure, base=base, is_careful=is_careful)
        found = made._document(schema)
        if made.doubts:
            # Only now is it known that something is ignored; each reference may lead there, so all are read again.
            made = cls(dialect=dialect, unread=unread, sure=sure, base=base, is_careful=is_careful, is_doubtful=True)
            found = made._document(schema)
        return found, made

    def _document(self, schema: object) -> Any:
        steps = pointer_names(self.base)
        self.root = _follow_steps(schema, steps)
        own = mapping(self.root)
        name = own.get("$id", own.get("id"))
        self.document = name.partition("#")[0] if isinstance(name, str) else ""
        if self.is_careful:
            references = [each.get("$ref") for each in inner(schema)]
            outside = [each for each in references if isinstance(each, str) and not each.startswith("#")]
            self.mentioned = " ".join(outside)
        self.is_recursive = own.get("$recursiveAnchor") is True
        found = self.rewrite(schema)
        # A place may hold further references, so this ends only when none is new.
        done: set[str] = set()
        while todo := self.places.keys() - done:
            for place in sorted(todo):
                done.add(place)
                self._rewrite_elsewhere(found, [*steps, *pointer_names(place)])
        return found

    def rewrite(self, schema: object) -> Any:
        """Return a part of the schema, rewritten; of what is too much, anything is admitted."""
        self.left -= 1
        if not is_object(schema):
            return schema
        if self.left < 0:
            self.doubts += 1
            self.is_cut = True
            return not self.sure
        found = self._rewrite_keywords(schema)
        self.made[id(found)] = found
        return found

    def _rewrite_keywords(self, given: Schema) -> Any:
        kind: object = given.get("type")
        if given.keys() <= _PLAIN and isinstance(kind, str) and kind != "any":  # as most parts are
            return {"type": kind, WHOLE_NUMBER: True} if self._is_strict(kind) else {"type": kind}
        doubts, was_recursive = self.doubts, self.is_recursive
        known = normalize_node(given, self.dialect)
        own = {key: value for key, value in known.items() if key not in _FOR_PEOPLE}
        # Names before references: a recursive reference depends on the document that the part begins.
        self._name(own, is_root=given is self.root)
        self._refer(own)
        may_be_null = own.pop("nullable", False)
        turning = self._parts(own)
        if self.left < 0:
            self._cut(own)
        self.is_recursive = was_recursive
        self._read_texts(own)
        if own.get("type") == "any":
            del own["type"]
        elif self._is_strict(own.get("type")):
            own[WHOLE_NUMBER] = True
        if turning and self.sure:
            return False
        for keyword in turning:  # the doubtful ones: `oneOf` becomes `anyOf`, and the others any value
            doubtful = own.pop(keyword)
            if keyword == "oneOf":
                own["allOf"] = [*own.get("allOf", []), {"anyOf": doubtful}]
        if self.doubts > doubts and not self.sure:
            own = {key: value for key, value in own.items() if key not in UNEVALUATED}
        if may_be_null and own.keys() - {"$defs", "definitions"}:
            return {"anyOf": [own, {"type": "null"}]}
        return own

    def _is_strict(self, kinds: object) -> bool:
        """Tell whether a type is an integer of a draft in which 1.0 is not an integer."""
        if "draft-03" not in self.dialect and "draft-04" not in self.dialect:
            return False
        return kinds == "integer" or (is_array(kinds) and "integer" in kinds and "number" not in kinds)

    def _parts(self, own: dict[str, Any]) -> list[str]:
        """Rewrite the parts of a schema; return the keywords that fail if a doubtful part holds."""
        self.depth += 1
        if self.depth > DEEPEST_LED:
            raise ValueError(f"its parts lead more than {DEEPEST_LED} levels deep")
        turning: list[str] = []
        for key, value in own.items():
            doubts = self.doubts
            if key in _PARTS:
                own[key] = self.rewrite(value)
            elif key in _LISTS and is_array(value):
                own[key] = [self.rewrite(each) for each in value]
            elif key in _MAPS and is_object(value):
                own[key] = {name: self.rewrite(each) for name, each in value.items()}
            elif key in ("enum", "const"):
                self.left -= size_of(value)
            if self.doubts > doubts and (key in _TURNING or (key == "contains" and "maxContains" in own)):
                turning.append(key)
        self.depth -= 1
        return turning

    def _cut(self, own: dict[str, Any]) -> None:
        """Leave out what is listed behind all that is read."""
        for keyword in own.keys() & {"enum", "const"}:
            self.doubts += 1
            self.is_cut = True
            del own[keyword]
            if self.sure:
                own["not"] = {}

    # --- names and references ------------------------------------------------------

    def _name(self, own: dict[str, Any], *, is_root: bool) -> None:
        """Rename `id` (until draft 4), `$id` used as an anchor (until draft 7) and the recursive ones of 2019-09."""
        if isinstance(own.get("id"), str) and ("draft-03" in self.dialect or "draft-04" in self.dialect):
            own["$id"] = own.pop("id")
        name = own.get("$id")
        if isinstance(name, str):
            del own["$id"]
            document, _, fragment = name.partition("#")
            if _ANCHOR.fullmatch(fragment):
                own["$anchor"] = fragment
            is_part = not is_root and (document == self.document or not self._may_be_meant(document))
            if document and not is_part and _is_reference(document):
                own["$id"] = document
                # Within it, recursive references lead to its own root.
                self.is_recursive = own.get("$recursiveAnchor") is True
        if own.pop("$recursiveAnchor", False) is True and ("$id" in own or is_root):
            own["$dynamicAnchor"] = _RECURSIVE
        if own.pop("$recursiveRef", None) == "#":
            reference = {"$dynamicRef": f"#{_RECURSIVE}"} if self.is_recursive else {"$ref": "#"}
            own["allOf"] = [*own.get("allOf", []), reference]

    def _may_be_meant(self, document: str) -> bool:
        return not self.is_careful or document.rstrip("/").rpartition("/")[2] in self.mentioned

    def _refer(self, own: dict[str, Any]) -> None:
        reference = own.get("$ref")
        if isinstance(reference, str) and reference != PART:
            if reference == "#" or reference.startswith("#/"):
                place = self._move_reference(reference)
                self.places[place] = None
                own["$ref"] = self.base + place[1:]
            elif _METASCHEMA.fullmatch(reference):  # the engine has that of the newest draft alone
                self.doubts += 1
                del own["$ref"]
                admitted: object = True
                if self.sure:
                    admitted = False
                elif reference.rstrip("#").endswith("schema"):  # the whole of it: any schema
                    admitted = {"type": ["object", "boolean"]}
                own["allOf"] = [*own.get("allOf", []), admitted]
        if not own.keys().isdisjoint(_LEADING):
            self.left -= _PARTS_OF_A_NAME
            self.doubts += self.is_doubtful

    def _move_reference(self, reference: str) -> str:
        """Return where in the rewritten document a reference finds what it means."""
        steps = pointer_names(reference)
        if not any(each in steps for each in _MOVED):
            return reference
        here, found, is_map = self.root, ["#"], False
        for step in steps:
            name = step
            if not is_object(here):
                here = _follow_steps(here, [step])
            else:
                if not is_map:  # in a map, a step is the name of a field and no keyword
                    name = _moved_keyword(step, here)
                here = here.get(step)
            is_map = not is_map and step in _OLD_MAPS
            found.append(_as_step(name))
        return "/".join(found)

    def _rewrite_elsewhere(self, document: Any, steps: list[str]) -> None:
        """Rewrite what a reference finds under a keyword that no draft knows."""
        here: Any = document
        last = len(steps) - 1
        for number, step in enumerate(steps):
            key: Any = _key(here, step)
            if key is None:
                return
            part: object = here[key]
            is_rewritten = id(part) in self.made or (id(here) in self.made and step in _MAPS | _LISTS)
            if not is_rewritten and is_object(part):
                # On the way there, a copy: the caller's own schema stays as it is.
                here[key] = self.rewrite(part) if number == last else dict(part)
            elif not is_rewritten and is_array(part):
                here[key] = part.copy()
            here = here[key]

    # --- texts -------------------------------------------------------------------

    def _read_texts(self, own: dict[str, Any]) -> None:
        if "draft-03" in self.dialect and own.get("format") in _FORMATS_OF_DRAFT_3:
            own["format"] = _FORMATS_OF_DRAFT_3[own["format"]]
        if "format" in own and "format" in self.unread:
            self._leave_out(own, "format")
        pattern = own.get("pattern")
        if isinstance(pattern, str):
            found = self._linear(pattern, "pattern")
            if found is None:
                self._leave_out(own, "pattern")
            elif found.is_plain:
                own["pattern"] = found.text
            else:
                del own["pattern"]
                own["allOf"] = [*own.get("allOf", []), *_pattern_schemas(found)]
        named = own.get("patternProperties")
        if is_object(named):
            own["patternProperties"] = self._names(named)

    def _leave_out(self, own: dict[str, Any], keyword: str) -> None:
        self.doubts += 1
        del own[keyword]
        if self.sure:
            own["allOf"] = [*own.get("allOf", []), {"not": {"type": "string"}}]

    def _names(self, named: Schema) -> dict[str, Any]:
        """Return schemas by patterns of names; where one is not read, any name may be meant by it."""
        found: dict[str, Any] = {}
        is_whole = True
        for pattern, part in named.items():
            linear = self._linear(pattern, "patternProperties")
            if linear is None:
                is_whole = False
            elif linear.text in found:  # two ways to write one pattern
                found[linear.text] = {"allOf": [found[linear.text], part]}
            else:
                found[linear.text] = part
        if not is_whole:
            self.doubts += 1
            found[""] = False if self.sure else found.get("", True)
        return found

    def _linear(self, pattern: str, keyword: str) -> LinearPattern | None:
        if keyword in self.unread:
            return None
        try:
            found = linear_pattern(pattern, is_name=keyword == "patternProperties")
            texts = [found.text, *(text for text, _ in found.beside)]
            if found.text not in self.weights:
                self.pattern_parts -= _PARTS_OF_A_PATTERN * len(texts) + found.states // _STATES_OF_A_PART
            if self.pattern_parts < 0:
                raise ValueError("stands behind so many others that it is not read")  # noqa: TRY301 - one way out
            # Each try is a compilation, so it is left out for patterns that the engine surely takes.
            must_be_tried = self.is_careful or found.states > _SURE_OF or r"\p" in pattern.lower()
            if must_be_tried and not all(map(is_linear, texts)):
                raise ValueError("is none that can be matched in time that grows with the text alone")  # noqa: TRY301
        except ValueError as error:
            self.refused[pattern] = str(error)
            return None
        for text in texts:
            self.weights[text] = 1 + found.states // _STATES_OF_A_VISIT
            self.originals[text] = pattern
        return found


def unread_patterns(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the patterns of a schema that are not matched, each with the reason, to follow "the pattern"."""
    if b'"pattern' not in canonical_json(schema):
        return {}
    try:
        _, made = Rewriting.of_schema(schema, frozenset(), is_careful=True)
    except (ValueError, TypeError, AttributeError, RecursionError):  # it is no schema, which its use says
        return {}
    return made.refused


def is_linear(pattern: str) -> bool:
    """Tell whether the engine of linear patterns accepts a pattern."""
    try:
        Draft202012Validator({"pattern": pattern}, pattern_options=LINEAR)
    except ValueError:
        return False
    return True


def size_of(value: object) -> int:
    """Estimate the steps that comparing a value takes; a few parts of it count as one."""
    if isinstance(value, dict):
        parts: Iterable[object] = cast("dict[str, object]", value).values()
    elif is_array(value):
        parts = value
    else:
        return 1
    return 1 + sum(map(size_of, parts)) // _PARTS_OF_A_STEP


def _pattern_schemas(found: LinearPattern) -> list[Schema]:
    """Return what a pattern asks, as schemas that are all to hold."""
    own: dict[str, Any] = {"pattern": found.text}
    if found.least:
        own["minLength"] = found.least
    if found.most is not None:
        own["maxLength"] = found.most
    wanted: list[Schema] = []
    refused: list[Schema] = []
    for text, is_wanted in found.beside:
        if is_wanted:
            wanted.append({"pattern": text})
        else:
            refused.append({"not": {"type": "string", "pattern": text}})
    return [own, *wanted, *refused]


def _moved_keyword(keyword: str, schema: Schema) -> str:
    """Return the keyword of draft 2020-12 under which an older draft's keyword stands."""
    if keyword == "dependencies":
        return "dependentSchemas"
    has_tuple = is_array(schema.get("items"))
    if has_tuple and keyword == "items":
        return "prefixItems"
    if has_tuple and keyword == "additionalItems":
        return "items"
    return keyword


def _as_step(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


def _follow_steps(schema: object, steps: Iterable[str]) -> object:
    here: Any = schema
    for step in steps:
        key: Any = _key(here, step)
        here = None if key is None else here[key]
    return here


def _key(container: object, step: str) -> str | int | None:
    """Return under what a step of a reference leads on from a container; None if it leads nowhere."""
    if is_array(container):
        is_place = step.isascii() and step.isdecimal() and len(step) <= _LONGEST_PLACE
        return int(step) if is_place and int(step) < len(container) else None
    return step if step in mapping(container) else None
