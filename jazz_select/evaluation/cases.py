"""Cases, which are labelled requests, and their files, such as `examples/requests.yaml` and `examples/eval.yaml`."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from jazz_select.arguments import problem_in
from jazz_select.data_files import Document, documents_of, json_value, read_text
from jazz_select.errors import ConfigError, DataFileError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import canonical_bytes, is_array
from jazz_select.text import beginning, count_of, describe_value, did_you_mean, nfc, nfkc, problem_of, unknown_field
from jazz_select.values import flow_id

LARGEST = 32 << 20
"""Most bytes of a file in JSON, JSON Lines, CSV or TSV. YAML is slower to read: it has the limits of files of flows."""
MOST_CASES = 100_000
"""Most entries of one file."""
_MOST_VALUES = 3_000_000
"""Most JSON values of a file of the largest size."""
_LONGEST_NAME = 80
"""Most characters of a quoted name in a message."""
_LONGEST_REQUEST = 8_000
_PLAIN = ("id", "request", "why")
_NAMES = ("expect", "tags", "tools")
_OBJECTS = ("context", "inputs")
_REQUIRED = ("request", "expect")
COLUMNS = (*_PLAIN, *_NAMES, "episodes", *_OBJECTS)
"""Columns of a CSV, in any order; `request` and `expect` are required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file, and what is wrong with it as a whole."""

    number: int
    line: int | None = None
    given: object = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """All entries of a file, and the problems of the file itself."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()


def read_document(file: Path, what: str, *, suffix: str = ".yaml") -> Document:
    """Read a YAML file within the limits of files of flows, or a JSON file; the value is None for an empty file."""
    try:
        if suffix == ".json":
            documents = documents_of(file, suffix=suffix, largest=LARGEST, most_values=_MOST_VALUES)
        else:
            documents = documents_of(file, suffix=suffix)
    except DataFileError as error:
        failure = f"cannot read the {what} in {file}"
        if error.is_syntax:
            failure = f"{file} is no {suffix.removeprefix('.').upper()}"
        raise ConfigError(f"{failure}: {error.problem}") from error
    if len(documents) > 1:
        msg = f"cannot read the {what} in {file}: it holds {len(documents)} documents; take the lines of --- out"
        raise ConfigError(msg)
    return documents[0] if documents else Document(None)


def read_entries(file: Path, what: str) -> object:
    """Read the value of `read_document` alone."""
    return read_document(file, what).value


def entries_of(file: Path) -> Entries:
    """Return the entries of a file of cases in the format of its suffix (.json, .jsonl, .ndjson, .csv, .tsv, or YAML).

    Raises:
        ConfigError: The file cannot be read, is invalid in its format, is too large, or holds no list of entries.
    """
    suffix = file.suffix.lower()
    if suffix in {".csv", ".tsv"}:
        found = _rows(file)
    elif suffix in {".jsonl", ".ndjson"}:
        found = _lines(file)
    elif suffix == ".json":
        found = _items(file, ".json")
    else:
        found = _items(file, ".yaml")
    if len(found.entries) > MOST_CASES:
        raise ConfigError(f"{file} holds more than {MOST_CASES:,} cases; split it into several files")
    return found


def _items(file: Path, suffix: str) -> Entries:
    try:
        given, node = read_document(file, "requests", suffix=suffix)
    except ConfigError as error:
        # YAML has lower limits, so a file that is too large for YAML may fit in another format.
        if suffix != ".json" and ("values" in str(error) or "MiB" in str(error)):
            msg = f"{error}, or write it as .json or .csv, which may hold {MOST_CASES:,} cases in {LARGEST >> 20} MiB"
            raise ConfigError(msg) from error
        raise
    if given is None:
        raise ConfigError(f"{file} holds no requests")
    if not is_array(given):
        what = "one mapping"
        if not isinstance(given, dict):
            what = beginning(describe_value(given), _LONGEST_NAME)
        raise ConfigError(f"{file} must hold a list of cases, each with request: and expect:, got {what}")
    nodes: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        nodes = node.value
    entries: list[Entry] = []
    # A JSON file has no nodes, so its entries have no lines.
    for number, (each, place) in enumerate(zip_longest(given, nodes), 1):
        line = None if place is None else place.start_mark.line + 1
        entries.append(Entry(number=number, line=line, given=each))
    return Entries(entries=tuple(entries))


def _lines(file: Path) -> Entries:
    """Return the entries of a file with one JSON value a line; blank lines are none."""
    found: list[Entry] = []
    for line, text in enumerate(_text(file).split("\n"), 1):
        if not text.strip():
            continue
        try:
            given = json_value(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{file} is no JSON Lines, line {line}: {problem_of(error)}") from error
        found.append(Entry(number=len(found) + 1, line=line, given=given))
        if len(found) > MOST_CASES:  # `entries_of` rejects the file, so the rest need not be read
            break
    if not found:
        raise ConfigError(f"{file} holds no requests")
    return Entries(entries=tuple(found))


def _text(file: Path) -> str:
    try:
        return read_text(file, LARGEST)
    except DataFileError as error:
        raise ConfigError(f"cannot read the requests in {file}: {error.problem}") from error


def read_requests(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the requests of text files with one request a line, cut to the length that recall reads."""
    requests: list[str] = []
    for file in files:
        for line in _text(file).splitlines():
            request = line.strip()
            if request:
                requests.append(request[:_LONGEST_REQUEST])
    return tuple(requests)


# --- CSV ------------------------------------------------------------------------


def _rows(file: Path) -> Entries:
    text = _text(file)
    delimiter = max(",;\t", key=text.partition("\n")[0].count)  # spreadsheets use the delimiter of their locale
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    entries: list[Entry] = []
    try:
        header = [each.strip().casefold() for each in next(reader, list[str]())]
        problems = _header_problems(file, header)
        # A quoted cell may span lines, and the reader counts those it has read: a row begins on the one after the last.
        first_line = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                entries.append(_row(len(entries) + 1, first_line, header, cells))
            first_line = reader.line_num + 1
            if len(entries) > MOST_CASES:
                break
    except csv.Error as error:
        msg = f"{file} is no CSV, line {reader.line_num}: {beginning(str(error), _LONGEST_NAME)}"
        raise ConfigError(msg) from error
    return Entries(entries=tuple(entries), problems=problems)


def _header_problems(file: Path, header: Sequence[str]) -> tuple[str, ...]:
    if not any(header):
        raise ConfigError(f"{file} holds no requests: its first line has to name the columns, such as request,expect")
    for name in COLUMNS:
        if name in _REQUIRED and name not in header:
            given = ", ".join(beginning(each, _LONGEST_NAME) for each in header[:10])
            msg = f"{file} has no column {name!r}: its first line names {given}; there are {', '.join(COLUMNS)}"
            raise ConfigError(msg)
        if header.count(name) > 1:
            raise ConfigError(f"{file} has two columns {name!r}; take one out")
    problems: list[str] = []
    for name in header:
        if name and name not in COLUMNS:
            shown = beginning(name, _LONGEST_NAME)
            problems.append(f"column {shown!r}: {unknown_field(name, sorted(COLUMNS), of='case')}")
    return tuple(problems)


def _row(number: int, line: int, header: Sequence[str], cells: Sequence[str]) -> Entry:
    if any(cell.strip() for cell in cells[len(header) :]):
        problem = (
            f"row: has {len(cells)} cells under {len(header)} columns; put quotes around a text with a comma in it"
        )
        return Entry(number=number, line=line, problem=problem)
    given: dict[str, object] = {}
    for name, cell in zip(header, cells, strict=False):  # trailing empty cells may be missing
        text = cell.strip()
        # An empty cell of a required column stays, so that the case is reported as one without it.
        if name in COLUMNS and (text or name in _REQUIRED):
            given[name] = _cell(name, text)
    return Entry(number=number, line=line, given=given)


def _cell(name: str, text: str) -> object:
    if name in _PLAIN:
        return text
    if name in _OBJECTS or text.startswith("["):
        with suppress(ValueError, RecursionError):  # a text where a mapping belongs is wrong by itself
            return json_value(text)
    # An episode may contain a semicolon.
    separated = text if name == "episodes" else text.replace(";", "|")
    parts = separated.split("|")
    if len(parts) == 1:
        return text
    return [part.strip() for part in parts if part.strip()]


NONE = "none"
"""The value of `expect` where no flow fits; an empty list means the same."""
_NONE = {NONE, "-", "[]"}
_LONGEST, _MOST_SHOWN = 120, 3


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _labels(value: object) -> object:
    """Return a name as a list of one, `none` as an empty list, and a list without repeated names."""
    if value is None or value == "":
        raise ValueError("is empty; write the name of a flow, or none where no flow fits")
    if isinstance(value, str):
        name = value.strip()
        if name.casefold() in _NONE:
            return ()
        return (nfc(name),)
    if isinstance(value, list | tuple):
        given = cast("Sequence[object]", value)
        if not all(isinstance(each, str) for each in given):
            return given
        return tuple(dict.fromkeys(nfc(each) for each in cast("Sequence[str]", given)))
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; write what a user would say")
    return text


_Name = Annotated[str, Field(min_length=1)]
_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple, json_schema_input_type=str | tuple[str, ...])]
_Expected = Annotated[tuple[_Name, ...], BeforeValidator(_labels, json_schema_input_type=_Name | tuple[_Name, ...])]


class Case(BaseModel):
    """A request with the flows that are right for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
    """The user's message."""
    expect: _Expected
    """Names of the right flows, in order if it matters; none where no flow fits."""
    episodes: _Texts = ()
    """Summaries of earlier turns."""
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """The context for guards."""
    inputs: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """Initial inputs of the flow's tools."""
    tools: tuple[Annotated[str, AfterValidator(nfc)], ...] = ()
    """The tools expected to run, in order."""
    why: str = ""
    """What the case shows."""
    id: Annotated[str, Field(coerce_numbers_to_str=True)] = ""
    """Its name in reports; by default its position."""
    tags: _Texts = ()
    """Groups for reports and for selection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseProblem:
    """A problem of an entry in a file of cases, or of the file as entry 0. Entries and lines count from 1.

    An entry with a note alone is used.
    """

    file: str
    entry: int
    line: int | None
    problem: str
    is_note: bool = False

    def __str__(self) -> str:
        entry = f", entry {self.entry}" if self.entry else ""
        line = f" (line {self.line})" if self.line else ""
        return f"{self.file}{entry}{line}: {self.problem}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        return {
            "file": self.file,
            "entry": self.entry or None,
            "line": self.line,
            "problem": self.problem,
            "left_out": not self.is_note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The valid cases of a file, and the problems of the others."""

    cases: tuple[Case, ...]
    problems: tuple[CaseProblem, ...] = ()
    file: str = ""

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def errors(self) -> tuple[CaseProblem, ...]:
        """The problems that excluded an entry or a column."""
        return tuple(each for each in self.problems if not each.is_note)


def load_cases(
    file: str | Path, registry: Mapping[str, BaseFlow] | None, *, flows: str = "the flows"
) -> tuple[Case, ...]:
    """Load the cases of a file; a single invalid entry is an error.

    Args:
        file: A file in YAML, JSON, CSV or TSV.
        registry: The flows that labels may name; None allows any name.
        flows: Where the flows were loaded from, for messages.

    Raises:
        ConfigError: The file cannot be read, holds no case, or an entry is invalid (`read_cases` returns the others).
    """
    found = read_cases(file, registry, flows=flows)
    if found.errors:
        first, *others = found.errors
        more = f" (and {count_of(len(others), 'more problem')})" if others else ""
        raise ConfigError(f"{first}{more}")
    return found.cases


def read_cases(file: str | Path, registry: Mapping[str, BaseFlow] | None, *, flows: str = "the flows") -> Cases:
    """Read the valid cases of a file, and the problems of the others. The arguments are those of `load_cases`.

    Excluded are invalid entries, entries that name unknown flows, and all entries of a request with contradictory
    labels. A repeated case or id is noted.

    Raises:
        ConfigError: The file cannot be read, or has no valid entry.
    """
    entries = entries_of(Path(file))
    name = str(file)
    problems = [CaseProblem(file=name, entry=0, line=None, problem=each) for each in entries.problems]
    read: list[tuple[Entry, Case]] = []
    for entry, outcome in each_case(entries, registry, flows=flows):
        if isinstance(outcome, Case):
            read.append((entry, outcome))
        else:
            problems += [CaseProblem(file=name, entry=entry.number, line=entry.line, problem=each) for each in outcome]
    valid, conflicts = _without_conflicts(name, read)
    problems = sorted((*problems, *conflicts), key=lambda each: (each.entry, each.is_note))
    found = Cases(cases=tuple(valid), problems=tuple(problems), file=name)
    if not found.cases:
        if not found.errors:
            raise ConfigError(f"{file} holds no requests")
        first, *others = found.errors
        of = f" (the first of {len(found.errors)} problems)" if others else ""
        raise ConfigError(f"{first}{of}")
    return found


def case_schema() -> dict[str, Any]:
    """Return the JSON Schema of a file of cases in YAML or JSON, for completion and checks in editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cases for jazz-select eval",
        "type": "array",
        "items": Case.model_json_schema(),
    }


def each_case(
    entries: Entries, registry: Mapping[str, BaseFlow] | None = None, *, flows: str = "the flows"
) -> Iterator[tuple[Entry, Case | list[str]]]:
    """Yield each entry with its case, or with its problems; the arguments are those of `load_cases`."""
    known = () if registry is None else registry.values()
    names = [flow.name for flow in known]
    aliases: dict[str, str] = {}
    for flow in known:
        aliases.update(dict.fromkeys(flow.aliases, flow.name))
    for entry in entries.entries:
        given = entry.given
        if entry.problem:
            yield entry, [entry.problem]
            continue
        if isinstance(given, dict) and "turns" in given and "request" not in given:
            yield entry, ["turns: this is a conversation, which jazz-select converse judges; a case has a request"]
            continue
        try:
            case = Case.model_validate(given)
        except ValidationError as error:
            yield entry, [_problem(each) for each in error.errors(include_url=False)[:3]]
            continue
        problems: list[str] = []
        for label in case.expect:
            if registry is not None and flow_id(label) not in registry:
                problems.append(f"expect: there is no flow named {_unknown_label(label, names, aliases, flows)}")
        yield entry, problems or case


def _unknown_label(label: str, names: Sequence[str], aliases: Mapping[str, str], flows: str) -> str:
    if label in aliases:
        hint = f"it is an alias of {aliases[label]!r}: write that"
    else:
        hint = did_you_mean(label, names)
    if not hint and not set(label).isdisjoint(",;| "):
        hint = "several names are written as a list"
    advice = f"; {hint}" if hint else ""
    return f"{beginning(label, _LONGEST)!r} in {flows} (--flows loads others){advice}"


def _problem(error: ErrorDetails) -> str:
    where = ".".join(beginning(str(each), _LONGEST) for each in error["loc"][:3])
    given = beginning(describe_value(error["input"]), _LONGEST)
    match error["type"]:
        case "missing":
            what = "is missing" if where != "expect" else "is missing; write none where no flow fits"
        case "extra_forbidden":
            what = unknown_field(where, sorted(Case.model_fields), of="case")
        case "model_type" | "model_attributes_type":
            return f"a case must be a mapping with request: and expect:, got {given}"
        case "string_too_short":
            what = "is empty"
        case "tuple_type":
            what = f"must be a list of texts, got {given}"
        case "mapping_type" | "dict_type":
            what = f"must be a mapping, such as {{authenticated: true}}, got {given}"
        case _:
            what = problem_in(error)
    return f"{where}: {what}"


def _without_conflicts(file: str, read: Sequence[tuple[Entry, Case]]) -> tuple[list[Case], list[CaseProblem]]:
    """Return the cases without contradictory labels, and the problems and notes about repeated ones."""
    contradictory: set[tuple[object, ...]] = set()
    problems: list[CaseProblem] = []
    for at, before, part in repeats([case for _, case in read]):
        (entry, case), (earlier, other) = read[at], read[before]
        match part:
            case "expect":
                contradictory.add(what_is_asked(case))
                line = f" (line {earlier.line})" if earlier.line else ""
                where = f"entry {earlier.number}{line}"
                what = f"the same request expects {_label(other)} in {where}, and {_label(case)} here"
                problem = f"{what}; neither is judged until one of them is taken out"
            case "request":
                problem = f"it is that of entry {earlier.number}, and counts twice"
            case "id":
                problem = f"{beginning(case.id, _LONGEST)!r} is that of entry {earlier.number}"
        text, is_note = f"{part}: {problem}", part != "expect"
        problems.append(CaseProblem(file=file, entry=entry.number, line=entry.line, problem=text, is_note=is_note))
    return [case for _, case in read if what_is_asked(case) not in contradictory], problems


def repeats(cases: Sequence[Case]) -> Iterator[tuple[int, int, Literal["expect", "request", "id"]]]:
    """Yield the positions of a case and an earlier one, and what it repeats; "expect" where the labels differ."""
    asked: dict[tuple[object, ...], int] = {}
    ids: dict[str, int] = {}
    for at, case in enumerate(cases):
        first = asked.setdefault(what_is_asked(case), at)
        if first != at:
            same_labels = set(cases[first].expect) == set(case.expect)
            yield at, first, "request" if same_labels else "expect"
        if case.id:
            first = ids.setdefault(case.id, at)
            if first != at:
                yield at, first, "id"


def _label(case: Case) -> str:
    return beginning(", ".join(case.expect[:_MOST_SHOWN]) or NONE, _LONGEST)


def what_is_asked(case: Case) -> tuple[object, ...]:
    """Return a key of the request with its episodes and context, ignoring case and white space."""
    texts = tuple(" ".join(nfkc(each).casefold().split()) for each in (case.request, *case.episodes))
    return (texts, canonical_bytes(case.context))
