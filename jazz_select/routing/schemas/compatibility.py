"""How well what is there fits what a tool wants: one pair by the formula, a whole catalogue by an inverted index."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from math import isfinite
from statistics import fmean
from typing import Any, Final
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from jazz_select.json_values import as_json, is_object
from jazz_select.routing.schemas.assignability import NOT_FINITE, Effort, assignable, is_possible
from jazz_select.routing.schemas.fields import RESULT, Schema, Shape, canonical_json, fields, refers, shape
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import describe_error, whole_characters
from jazz_select.words import folded_name

FOLDED: Final = 0.9
"""What a name is worth that is the same but for case and separators."""
OPTIONAL: Final = 0.5
"""What a field is worth that may be missing."""
_DIGITS: Final = 12
_PLAIN: Final = frozenset(("type", "title", "description", "default", "format", "examples"))
MOST_AT_ONCE: Final = 3_000
_MOST_AT_LEISURE: Final = 200_000
"""Steps of comparing that are made for one set of fields: while a loop waits, and when a catalogue is analysed."""
_MOST_CELLS: Final = 500_000
_MOST_FITS: Final = 10_000
_MOST_KEYS: Final = 2_000
_LONGEST_KEY, _LONGEST_TEXT = 200, 40
"""What is kept to be found again: scores, pairs of fields, schemas, and characters of one and of a text in it."""
_REFERS: Final = "#/"
_SMALLEST, _LARGEST = -(2**63), 2**64
"""The range of the integers that the encoder writes."""

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Slot:
    """One field that is there, or that is wanted."""

    name: str
    schema: object
    root: Schema = field(default_factory=dict[str, Any])
    certain: bool = True
    """Whether it is always there; of a field that is wanted, whether it is required."""

    @property
    def folded(self) -> str:
        """Its name without case and separators."""
        return folded_name(self.name)


def outputs(tool: Tool) -> tuple[Slot, ...]:
    """List the declared outputs of a tool; none if it may give fields that it does not name."""
    schema = tool.output_schema
    if schema is None:
        return ()
    found = shape(schema)
    if found is None:  # no object: its only field is the result
        return tuple(Slot(name, part, schema, certain) for name, (part, certain) in fields(schema).items())
    if not found.complete:
        return ()
    slots: list[Slot] = []
    for name, (part, certain) in found.fields.items():
        slots.append(Slot(name, part, schema, certain and not found.others))
    others = [{**each.schema, "type": each.type} for each in found.others if each.type != "null"]
    if others:
        slots.append(Slot(RESULT, {"anyOf": others}, schema, certain=False))
    return tuple(slots)


def ways(tool: Tool) -> tuple[tuple[Slot, ...], ...]:
    """Return each way to call a tool: its required fields, or all if none is required.

    None if no arguments are valid.
    """
    found = shape(tool.input_schema)
    if found is None:
        return ()
    if not _are_plain(found) and not is_possible(tool.input_schema, kind="object"):
        return ()
    every = {name: Slot(name, part, tool.input_schema, certain) for name, (part, certain) in found.fields.items()}
    sets: list[tuple[Slot, ...]] = []
    for needed in found.needed:
        slots = [replace(slot, certain=True) for name, slot in every.items() if name in needed]
        if slots:
            sets.append(tuple(slots))
    return tuple(sets) or (tuple(every.values()),)


def _are_plain(found: Shape) -> bool:
    """Whether all required fields are texts and numbers, as with most tools: such values there are."""
    for needed in found.needed:
        for name in needed:
            part, _ = found.fields.get(name, (False, True))
            if not is_object(part) or not _PLAIN.issuperset(part):
                return False
    return True


def compatibility_score(available: Iterable[Slot], consumer: Tool) -> float:
    """Return how well `consumer` can run on the given fields, from 0 to 1.

    The mean over its required fields (over the optional ones if none is required; 0 if it has none) of name × type ×
    availability: 1 for the same name, .9 for a unique one that differs in case and separators; `assignable`; .5 for a
    field that may be missing. Of several ways to call it, the best counts.
    """
    slots = list(available)
    best = 0.0
    for way in ways(consumer):
        if way:
            best = max(best, fmean(field_score(slots, wanted) for wanted in way))
    return best


def _fit(output: Slot, wanted: Slot) -> float:
    return assignable(output.schema, wanted.schema, out_root=output.root, in_root=wanted.root)


def field_score(available: Sequence[Slot], wanted: Slot, fit: Callable[[Slot, Slot], float] = _fit) -> float:
    """Score from 0 to 1 how well the available fields give one wanted field; `fit` compares the schemas."""
    same = [each for each in available if each.name == wanted.name]
    if same:
        output, of_name = same[-1], 1.0
    else:
        alike = [each for each in available if each.folded == wanted.folded]
        if len(alike) != 1:  # of several, none is meant more than the others
            return 0.0
        output, of_name = alike[0], FOLDED
    of_availability = 1.0 if output.certain else OPTIONAL
    return of_name * fit(output, wanted) * of_availability


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A field, and its share of the score of each tool that wants it."""

    what: Slot
    consumers: list[int] = field(default_factory=list[int])
    shares: list[float] = field(default_factory=list[float])


class CompatibilityIndex:
    """Scores the given fields against every tool of a catalogue at once.

    Fields are looked up by folded name; equal schemas are compared once.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Index what these tools want."""
        self.tools = tuple(tools)
        self._keys = _Keys()
        groups: dict[str, dict[tuple[str, str], _Wanted]] = defaultdict(dict)
        owners: list[int] = []
        for number, tool in enumerate(self.tools):
            for wanted in ways(tool):
                for each in wanted:
                    kept = groups[each.folded].setdefault((each.name, self._keys.key_of(each)), _Wanted(each))
                    kept.consumers.append(len(owners))
                    kept.shares.append(1.0 / len(wanted))
                owners.append(number)
        self.callable = frozenset(owners)
        """Those that some call can be made of, by their places: the others never fit."""
        self._owners = np.array(owners, dtype=np.intp)
        self._wanted: dict[str, list[tuple[Slot, npt.NDArray[np.intp], Scores]]] = {}
        for name, group in groups.items():
            self._wanted[name] = [
                (each.what, np.array(each.consumers), np.array(each.shares)) for each in group.values()
            ]
        self._fits: dict[tuple[str, str], float] = {}
        self._rows: dict[tuple[tuple[str, str, bool], ...], Scores] = {}
        self._most_rows = max(_MOST_CELLS // max(len(owners), 1), 1)

    def scores(self, available: Iterable[Slot], effort: Effort | None = None) -> Scores:
        """Compute `compatibility_score` with each tool, in the order in which they were given; shape (tools,).

        What is compared anew is limited by `effort`, by default to what takes some hundredths of a second: beyond that,
        whether something fits shows at run time.
        """
        effort = effort or Effort(MOST_AT_ONCE)
        groups: dict[str, list[Slot]] = defaultdict(list)
        for each in available:
            groups[each.folded].append(each)
        total = np.zeros(len(self._owners))
        for name, group in groups.items():
            if name in self._wanted:
                total += self._row(name, group, effort)
        best = np.zeros(len(self.tools))
        np.maximum.at(best, self._owners, total)
        # A sum of shares may miss a round number by a last digit, and with it a bound that includes it.
        return np.minimum(np.round(best, _DIGITS), 1.0)

    def _row(self, name: str, group: Sequence[Slot], effort: Effort) -> Scores:
        """Return the scores of fields with one folded name for each way to call each tool."""
        key = tuple((each.name, self._keys.key_of(each), each.certain) for each in group)
        row = self._rows.get(key)
        if row is None:
            row = np.zeros(len(self._owners))
            for wanted, consumers, shares in self._wanted[name]:
                score = field_score(group, wanted, partial(self._fit, effort))
                if score:
                    row[consumers] += score * shares  # no way to call a tool wants two fields of one name
            # Where the effort has run out, a score is too low: another question may have more to spend.
            if effort.left > 0 and all(_may_come_again(each.schema) for each in group):
                if len(self._rows) >= self._most_rows:
                    self._rows.clear()
                self._rows[key] = row
        return row

    def _fit(self, effort: Effort, there: Slot, wanted: Slot) -> float:
        pair = (self._keys.key_of(there), self._keys.key_of(wanted))
        found = self._fits.get(pair)
        if found is None:
            found = assignable(there.schema, wanted.schema, out_root=there.root, in_root=wanted.root, effort=effort)
            if effort.left > 0 and _may_come_again(there.schema):
                if len(self._fits) >= _MOST_FITS:
                    self._fits.clear()
                self._fits[pair] = found
        return found

    def graph(self) -> Scores:
        """Score every tool's outputs against every tool; shape (producers, consumers), a tool with itself scores 0."""
        rows = [self.scores(outputs(tool), Effort(_MOST_AT_LEISURE)) for tool in self.tools]
        table = np.stack(rows) if rows else np.zeros((0, 0))
        np.fill_diagonal(table, 0.0)
        return table


def _may_come_again(schema: object) -> bool:
    """Tell whether a schema is likely to be seen again; that of a single long text is not."""
    value: object = schema.get("const") if is_object(schema) else None
    return not isinstance(value, str) or len(value) <= _LONGEST_TEXT


class _Keys:
    """Keys of fields: equal where their schemas are equal; a schema with references counts with its whole root."""

    def __init__(self) -> None:
        # Each schema is kept beside its text: once it is gone, another one may get its identity.
        self._known: dict[int, tuple[object, str]] = {}

    def key_of(self, each: Slot) -> str:
        own = self._text(each.schema)
        if own.endswith(_REFERS):
            return f"{own}{self._text(each.root)}"
        dialect = each.root.get("$schema", "")
        return f"{own}#{dialect}" if dialect else own

    def _text(self, schema: object) -> str:
        """Return a short text of a schema, and whether it refers to the root."""
        kept = self._known.get(id(schema))
        if kept is not None:
            return kept[1]
        text = canonical_json(schema)
        if not text:  # no JSON: equal to nothing else
            found = uuid4().hex
        elif len(text) <= _LONGEST_KEY:
            found = text.decode()
        else:
            found = blake2b(text, digest_size=20).hexdigest()
        if refers(text):
            found += _REFERS
        if _may_come_again(schema):
            if len(self._known) >= _MOST_KEYS:
                self._known.clear()
            self._known[id(schema)] = (schema, found)
        return found


def schema_of(value: object) -> object:
    """Return what a value is, as a schema that admits it alone where that is short."""
    return described_value(value)[0]


def described_value(value: object) -> tuple[object, str]:
    """Return what is known of a value, as a schema, and what is not, in words; "" where all of it is.

    A value without a JSON form fits nothing: no call could give it.
    """
    if isinstance(value, str):
        return {"const": whole_characters(value)}, ""
    if value is None or isinstance(value, bool | int | float):
        return _described_scalar(value)
    if isinstance(value, Mapping):
        return {"type": "object"}, ""
    if isinstance(value, list | tuple):
        return {"type": "array"}, ""
    try:
        known: object = as_json(value)
    except Exception as error:  # noqa: BLE001 - any error of an object's own JSON
        kind = type(value).__name__
        return False, f"is {kind}, which has no JSON form ({describe_error(error)}), so no tool takes it"
    return described_value(known)


def _described_scalar(value: float | None) -> tuple[object, str]:
    if isinstance(value, int) and not _SMALLEST <= value < _LARGEST:
        return {"type": "integer"}, "is an integer of more than 64 bits, so its size was not compared"
    if isinstance(value, float) and not isfinite(value):
        return NOT_FINITE, "is a number that is not finite, so its size was not compared"
    return {"const": value}, ""
