"""How well what is there fits what a tool wants: one pair by the formula, a whole catalogue by an inverted index."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Final, TypeVar, cast

import numpy as np
import numpy.typing as npt
import orjson

from jazz_select.routing.names.words import folded_name
from jazz_select.routing.schemas.assignability import assignable
from jazz_select.routing.schemas.fields import Schema, fields
from jazz_select.routing.tools.tool import Tool

FOLDED: Final = 0.9
"""What a name is worth that is the same but for case and separators."""
OPTIONAL: Final = 0.5
"""What a field is worth that may be missing."""
_DIGITS: Final = 12
_MOST_KEPT, _LONGEST_KEPT = 32_768, 40
"""Comparisons of two schemas that are remembered, and the longest text that is part of one."""
_MOST_NUMBERS, _FEWEST_ROWS = 4_000_000, 64
"""Scores that are remembered: a row has one for each tool."""
K = TypeVar("K")
V = TypeVar("V")

Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Field:
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


def outputs(tool: Tool) -> tuple[Field, ...]:
    """What a tool gives, as far as it says."""
    return () if tool.output_schema is None else _fields(tool.output_schema)


def inputs(tool: Tool) -> tuple[Field, ...]:
    """What decides whether a tool can run: its required arguments, or all of them where none is required."""
    wanted = _fields(tool.input_schema)
    return tuple(each for each in wanted if each.certain) or wanted


def _fields(schema: Schema) -> tuple[Field, ...]:
    return tuple(Field(name, part, schema, certain) for name, (part, certain) in fields(schema).items())


def compatibility_score(available: Iterable[Field], consumer: Tool) -> float:
    """How well `consumer` can run on what is there, from 0 to 1.

    The mean over its required fields (over the optional ones where none is required; 0 where it has none) of
    name × type × availability: 1 for the same name and .9 for one that differs in case and separators alone, if only
    one does; `assignable`; and .5 for a field that may be missing.
    """
    wanted = inputs(consumer)
    if not wanted:
        return 0.0
    there = list(available)
    return fmean(field_score(there, each) for each in wanted)


def _fit(there: Field, wanted: Field) -> float:
    return assignable(there.schema, wanted.schema, out_root=there.root, in_root=wanted.root)


def field_score(available: Sequence[Field], wanted: Field, fit: Callable[[Field, Field], float] = _fit) -> float:
    """How well what is there gives one wanted field, from 0 to 1; `fit` compares the schemas."""
    exact = [each for each in available if each.name == wanted.name]
    alike = exact or [each for each in available if each.folded == wanted.folded]
    if not exact and len(alike) != 1:
        return 0.0
    there = alike[-1]
    return (1.0 if exact else FOLDED) * fit(there, wanted) * (1.0 if there.certain else OPTIONAL)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A field, and the tools that want it: how much of their score it is."""

    what: Field
    consumers: list[int] = field(default_factory=list[int])
    shares: list[float] = field(default_factory=list[float])


class CompatibilityIndex:
    """Scores what is there against every tool of a catalogue at once.

    Wanted fields are looked up by their folded name, and alike ones are compared once, whoever wants them.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Index what these tools want."""
        self.tools = tuple(tools)
        groups: dict[str, dict[tuple[str, str], _Wanted]] = defaultdict(dict)
        for number, tool in enumerate(self.tools):
            wanted = inputs(tool)
            for each in wanted:
                asked = groups[each.folded].setdefault((each.name, _key(each)), _Wanted(each))
                asked.consumers.append(number)
                asked.shares.append(1.0 / len(wanted))
        self._wanted = {
            name: [(each.what, np.array(each.consumers), np.array(each.shares)) for each in group.values()]
            for name, group in groups.items()
        }
        self._fits: dict[tuple[str, str], float] = {}
        self._rows: dict[tuple[tuple[str, str, bool], ...], Scores] = {}
        self._most_rows = max(_FEWEST_ROWS, min(_MOST_KEPT, _MOST_NUMBERS // max(len(self.tools), 1)))

    def scores(self, available: Iterable[Field]) -> Scores:
        """`compatibility_score` with each tool, in the order in which they were given; shape (tools,)."""
        groups: dict[str, list[Field]] = defaultdict(list)
        for each in available:
            groups[each.folded].append(each)
        total = np.zeros(len(self.tools))
        for name, group in groups.items():
            if name in self._wanted:
                total += self._row(name, group)
        # A sum of shares may miss a round number by a last digit, and with it a bound that includes it.
        return np.minimum(np.round(total, _DIGITS), 1.0)

    def _row(self, name: str, group: Sequence[Field]) -> Scores:
        """What fields of one folded name give to each tool."""
        key = tuple((each.name, _key(each), each.certain) for each in group)
        row = self._rows.get(key)
        if row is None:
            row = np.zeros(len(self.tools))
            for wanted, consumers, shares in self._wanted[name]:
                score = field_score(group, wanted, self._fit)
                if score:
                    row[consumers] += score * shares  # no tool wants two fields of one name
            if all(map(_may_come_again, group)):
                _keep(self._rows, key, row, self._most_rows)
        return row

    def _fit(self, there: Field, wanted: Field) -> float:
        if not _may_come_again(there):
            return _fit(there, wanted)
        pair = (_key(there), _key(wanted))
        if pair not in self._fits:
            _keep(self._fits, pair, _fit(there, wanted), _MOST_KEPT)
        return self._fits[pair]

    def graph(self) -> Scores:
        """Every tool's outputs against every tool, shape (producers, consumers); a tool does not follow itself."""
        table = np.stack([self.scores(outputs(tool)) for tool in self.tools]) if self.tools else np.zeros((0, 0))
        np.fill_diagonal(table, 0.0)
        return table


def _may_come_again(each: Field) -> bool:
    """False for the schema of one text that somebody said: it is long, and hardly ever said again."""
    schema: object = each.schema
    said = cast("Mapping[str, object]", schema).get("const") if isinstance(schema, Mapping) else None
    return not isinstance(said, str) or (len(said) <= _LONGEST_KEPT and not _key(each).startswith("#"))


def _keep(kept: dict[K, V], key: K, value: V, most: int) -> None:
    """Remember it, in the place of the one remembered first where there are too many."""
    while len(kept) >= most:
        del kept[next(iter(kept))]
    kept[key] = value


def _key(each: Field) -> str:
    """The same for fields of the same schema; one with references is alike only within its own root."""
    try:
        own = orjson.dumps(each.schema, option=orjson.OPT_SORT_KEYS).decode()
    except (TypeError, orjson.JSONEncodeError):
        return f"#{id(each.schema)}"
    return f"{own}#{id(each.root)}" if '"$ref"' in own else own


def available_fields(values: Mapping[str, object], known: Mapping[str, Field] | None = None) -> tuple[Field, ...]:
    """The fields of a context: as a tool declared them, else by the values they hold."""
    return tuple((known or {}).get(name) or Field(name, schema_of(value)) for name, value in values.items())


def schema_of(value: object) -> dict[str, Any]:
    """What a value is, as a schema that admits it alone where that is short."""
    if value is None or isinstance(value, bool | int | float | str):
        return {"const": value}
    return {"type": "array"} if isinstance(value, list | tuple) else {"type": "object"}
