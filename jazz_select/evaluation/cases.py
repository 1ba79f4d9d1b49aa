"""Cases: labelled requests, as `examples/requests.yaml` and `examples/eval.yaml` hold them, and files of them."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from jazz_select.arguments import problem_in
from jazz_select.data_files import Document, documents_of, json_value, read_text
from jazz_select.errors import ConfigError, DataFileError
from jazz_select.flow.base import BaseFlow
from jazz_select.json_values import plain_bytes
from jazz_select.text import beginning, describe_value, did_you_mean, nfkc, unknown_field
from jazz_select.values import flow_id

LARGEST = 32 << 20
"""Bytes of a file in JSON, JSON Lines, CSV or TSV; one in YAML, which takes longer to read, is bounded as flows are."""
MOST_CASES = 100_000
"""Entries of one file."""
_MOST_VALUES = 3_000_000
"""Of JSON in a file as large as it may be."""
_LONGEST_NAME = 80
"""Characters of a foreign name in a message."""
_LONGEST_REQUEST = 8_000
_PLAIN = ("id", "request", "why")
_NAMES = ("expect", "tags", "tools")
_OBJECTS = ("context", "inputs")
COLUMNS = (*_PLAIN, *_NAMES, "episodes", *_OBJECTS)
"""What a CSV may have, in any order; `request` and `expect` it has to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a file."""

    number: int
    line: int | None = None
    given: object = None
    wrong: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Entries:
    """All entries of a file, and what is wrong with the file beside them."""

    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()


def read_document(file: Path, what: str) -> Document:
    """What a file of the command's own holds, read within the bounds of a file of flows; None where it is empty."""
    return _document(file, what) or Document(None)


def read_entries(file: Path, what: str) -> object:
    """As `read_document`, without the places in the file."""
    return read_document(file, what).value


def entries_of(file: Path) -> Entries:
    """The entries of a file of cases, by its suffix: .json, .jsonl, .ndjson, .csv, .tsv, anything else as YAML.

    Raises:
        ConfigError: It cannot be read, is not of that format, is too large, or holds no list of entries.
    """
    match file.suffix.lower():
        case ".csv" | ".tsv":
            found = _rows(file)
        case ".json":
            found = Entries(entries=_numbered((None, each) for each in _list(file, _parsed(file, _text(file)))))
        case ".jsonl" | ".ndjson":
            lines = ((line, text) for line, text in enumerate(_text(file).split("\n"), 1) if text.strip())
            found = Entries(entries=_numbered((line, _parsed(file, text, line=line)) for line, text in lines))
        case _:
            found = _nodes(file)
    if len(found.entries) > MOST_CASES:
        raise ConfigError(f"{file} holds more than {MOST_CASES:,} cases; split it into several files")
    return found


def _numbered(given: Iterable[tuple[int | None, object]]) -> tuple[Entry, ...]:
    """Each with its line, and no more of them than are refused."""
    some = enumerate(islice(given, MOST_CASES + 1), 1)
    return tuple(Entry(number=number, line=line, given=each) for number, (line, each) in some)


def _list(file: Path, given: object) -> list[object]:
    if isinstance(given, list):
        return cast("list[object]", given)
    if given is None:
        raise ConfigError(f"{file} holds no requests")
    what = "one mapping" if isinstance(given, dict) else beginning(describe_value(given), _LONGEST_NAME)
    raise ConfigError(f"{file} has to hold a list of cases, each with request: and expect:, and holds {what}")


# --- YAML -----------------------------------------------------------------------


def _document(file: Path, what: str) -> Document | None:
    try:
        documents = documents_of(file, suffix=".yaml")
    except DataFileError as error:
        told = f"{file} is no YAML" if error.is_syntax else f"cannot read the {what} in {file}"
        raise ConfigError(f"{told}: {error.problem}") from error
    if len(documents) > 1:
        msg = f"cannot read the {what} in {file}: it holds {len(documents)} documents; take the lines of --- out"
        raise ConfigError(msg)
    return documents[0] if documents else None


def _nodes(file: Path) -> Entries:
    try:
        document = _document(file, "requests")
    except ConfigError as error:
        if "values" in str(error) or "MiB" in str(error):
            msg = f"{error}, or write it as .jsonl or .csv, which may hold {MOST_CASES:,} cases in {LARGEST >> 20} MiB"
            raise ConfigError(msg) from error
        raise
    given, node = document or Document(None)
    nodes: list[yaml.Node] = node.value if isinstance(node, yaml.SequenceNode) else []
    lines = [each.start_mark.line + 1 for each in nodes]
    return Entries(entries=_numbered(zip(lines, _list(file, given), strict=True)))


# --- JSON -----------------------------------------------------------------------


def _text(file: Path, what: str = "requests", largest: int = LARGEST) -> str:
    try:
        return read_text(file, largest)
    except DataFileError as error:
        raise ConfigError(f"cannot read the {what} in {file}: {error.problem}") from error


def _parsed(file: Path, text: str, *, line: int | None = None) -> object:
    if not text.strip():
        return None
    try:
        return json_value(text, _MOST_VALUES)
    except (ValueError, RecursionError) as error:
        at = error.lineno + (line or 1) - 1 if isinstance(error, json.JSONDecodeError) else line
        said = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        what = "it is nested too deeply" if isinstance(error, RecursionError) else beginning(said, 4 * _LONGEST_NAME)
        msg = f"{file} is no {'JSON Lines' if line else 'JSON'}{f', line {at}' if at else ''}: {what}"
        raise ConfigError(msg) from error


def read_requests(files: Sequence[Path]) -> tuple[str, ...]:
    """The requests of these files, one a line, as far as recall reads each; empty lines say nothing."""
    lines = [line.strip() for file in files for line in _text(file).splitlines()]
    return tuple(line[:_LONGEST_REQUEST] for line in lines if line)


# --- CSV ------------------------------------------------------------------------


def _rows(file: Path) -> Entries:
    text = _text(file)
    head = text.partition("\n")[0]
    marks = {mark: head.count(mark) for mark in ",;\t"}
    delimiter = max(marks, key=lambda mark: marks[mark])  # a spreadsheet takes the one of its country
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    entries: list[Entry] = []
    try:
        header = [each.strip().casefold() for each in next(reader, list[str]())]
        problems = _header_problems(file, header)
        begins = reader.line_num + 1
        for cells in reader:
            if any(cell.strip() for cell in cells):
                entries.append(_row(len(entries) + 1, begins, header, cells))
            begins = reader.line_num + 1
            if len(entries) > MOST_CASES:
                break
    except csv.Error as error:
        msg = f"{file} is no CSV, line {reader.line_num}: {beginning(str(error), _LONGEST_NAME)}"
        raise ConfigError(msg) from error
    return Entries(entries=tuple(entries), problems=problems)


def _header_problems(file: Path, header: Sequence[str]) -> tuple[str, ...]:
    """Columns that say nothing to anybody."""
    if not any(header):
        raise ConfigError(f"{file} holds no requests: its first line has to name the columns, such as request,expect")
    for name in COLUMNS:
        if name in ("request", "expect") and name not in header:
            given = ", ".join(beginning(each, _LONGEST_NAME) for each in header[:10])
            msg = f"{file} has no column {name!r}: its first line names {given}; there are {', '.join(COLUMNS)}"
            raise ConfigError(msg)
        if header.count(name) > 1:
            raise ConfigError(f"{file} has two columns {name!r}; take one out")
    odd = [each for each in header if each and each not in COLUMNS]
    return tuple(
        f"column {beginning(each, _LONGEST_NAME)!r}: {unknown_field(each, sorted(COLUMNS), of='case')}" for each in odd
    )


def _row(number: int, line: int, header: Sequence[str], cells: Sequence[str]) -> Entry:
    given: dict[str, object] = {}
    wrong: dict[str, str] = {}
    if any(cell.strip() for cell in cells[len(header) :]):
        wrong["row"] = (
            f"has {len(cells)} cells under {len(header)} columns; put quotes around a text with a comma in it"
        )
    for name, cell in zip(header, cells, strict=False):
        text = cell.strip()
        if name not in COLUMNS or (not text and name not in ("request", "expect")):
            continue
        try:
            given[name] = _cell(name, text)
        except (ValueError, RecursionError):
            wrong[name] = f'is not JSON: {beginning(text, _LONGEST_NAME)}; write for example {{"authenticated": true}}'
    return Entry(number=number, line=line, given=given, wrong=wrong)


def _cell(name: str, text: str) -> object:
    if name in _PLAIN:
        return text
    if name in _OBJECTS or text.startswith("["):
        return json_value(text)
    marks = "|" if name == "episodes" else ";|"  # what was said may well hold a semicolon
    parts = text.replace(marks[0], marks[-1]).split(marks[-1])
    return [part.strip() for part in parts if part.strip()] if len(parts) > 1 else text


NONE = "none"
"""What `expect` says, instead of a list, where no flow fits; so does an empty list."""
_NONE = {NONE, "-", "[]"}
_LONGEST, _MOST_SHOWN = 120, 3


def _several(value: object) -> object:
    """One text stands for a list of one."""
    return (value,) if isinstance(value, str) else value


def _labels(value: object) -> object:
    """A name stands for a list of one, `none` for an empty list; a name that is repeated is meant once."""
    if value is None or value == "":
        raise ValueError("is empty; write the name of a flow, or none where no flow fits")
    if isinstance(value, str):
        return () if value.strip().casefold() in _NONE else (value.strip(),)
    if isinstance(value, list | tuple):
        given = cast("Sequence[object]", value)
        return tuple(dict.fromkeys(given)) if all(isinstance(each, str) for each in given) else given
    return value


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; write what a user would say")
    return text


_Name = Annotated[str, Field(min_length=1)]
_Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_several),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
_Expected = Annotated[
    tuple[_Name, ...],
    BeforeValidator(_labels),
    WithJsonSchema(
        {
            "description": "The name of the flow, a list of names, or none where no flow fits.",
            "anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True},
            ],
        }
    ),
]


class Case(BaseModel):
    """A request, and the flows that a careful person would choose for it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    request: Annotated[str, Field(min_length=1), AfterValidator(_said)]
    """What a user says."""
    expect: _Expected
    """Names of flows, in order where that matters; none where nothing fits."""
    episodes: _Texts = ()
    """Summaries of earlier turns."""
    context: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """What guards look at."""
    inputs: Mapping[str, Any] = Field(default_factory=dict[str, Any])
    """What the flow's tools are given to begin with, where it is run."""
    tools: tuple[str, ...] = ()
    """The tools that are to run, in order."""
    why: str = ""
    """What the case shows."""
    id: Annotated[str, Field(coerce_numbers_to_str=True)] = ""
    """What reports call it; else its place."""
    tags: _Texts = ()
    """Groups that it is reported in, and can be picked by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseProblem:
    """What is wrong with an entry of a file of cases.

    Attributes:
        file: The file.
        entry: The place of the entry, from 1; 0 where it is the file's.
        line: Where the entry begins, from 1, where that is known.
        problem: The field and what is wrong with it.
        is_note: The entry is judged all the same.
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
        """As plain JSON types."""
        return {
            "file": self.file,
            "entry": self.entry or None,
            "line": self.line,
            "problem": self.problem,
            "left_out": not self.is_note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The cases of a file that can be judged, and what is wrong with the others."""

    cases: tuple[Case, ...]
    problems: tuple[CaseProblem, ...] = ()
    file: str = ""

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def errors(self) -> tuple[CaseProblem, ...]:
        """The problems for which something was left out."""
        return tuple(each for each in self.problems if not each.is_note)


def load_cases(
    file: str | Path, registry: Mapping[str, BaseFlow] | None, *, flows: str = "the flows"
) -> tuple[Case, ...]:
    """The cases of a file, all of them, whose labels name flows of this registry.

    Args:
        file: In YAML, JSON, JSON Lines, CSV or TSV.
        registry: The flows; where None, labels may name any.
        flows: Where they were loaded from, for messages.

    Raises:
        ConfigError: It cannot be read, holds no case, or an entry is wrong; `read_cases` gives the others then.
    """
    found = read_cases(file, registry, flows=flows)
    if found.errors:
        more = len(found.errors) - 1
        others = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
        raise ConfigError(f"{found.errors[0]}{others}")
    return found.cases


def read_cases(file: str | Path, registry: Mapping[str, BaseFlow] | None, *, flows: str = "the flows") -> Cases:
    """The cases of a file that can be judged, and a line for each thing that is wrong with the others.

    Left out are entries that are no cases, that name flows which are not there, and requests that are labelled twice
    and differently, both times: nobody can tell which is meant. A case that is given twice, or an id, is noted.

    Args:
        file: As for `load_cases`.
        registry: Likewise.
        flows: Likewise.

    Raises:
        ConfigError: The file cannot be read, or none of its entries can be judged.
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
    kept, told = _told_apart(name, read)
    problems = sorted((*problems, *told), key=lambda each: (each.entry, each.is_note))
    found = Cases(cases=tuple(kept), problems=tuple(problems), file=name)
    if not found.cases:
        of = f" (the first of {len(found.errors)} problems)" if len(found.errors) > 1 else ""
        raise ConfigError(f"{found.errors[0]}{of}" if found.errors else f"{file} holds no requests")
    return found


def case_schema() -> dict[str, Any]:
    """The JSON Schema of a file of cases, in YAML or JSON, for editors that complete and check while one writes."""
    case = Case.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Cases for jazz-select eval",
        "type": "array",
        "items": case,
    }


def each_case(
    entries: Entries, registry: Mapping[str, BaseFlow] | None = None, *, flows: str = "the flows"
) -> Iterator[tuple[Entry, Case | list[str]]]:
    """Each entry of a file with its case, or with all that is wrong with it; the arguments as for `load_cases`."""
    known = () if registry is None else registry.values()
    names = [flow.name for flow in known]
    aliases = {alias: flow.name for flow in known for alias in flow.aliases}
    for entry in entries.entries:
        wrong = [f"{field}: {problem}" for field, problem in entry.wrong.items()]
        given = entry.given
        if isinstance(given, dict) and "turns" in given and "request" not in given:
            yield entry, ["turns: this is a conversation, which jazz-select converse judges; a case has a request"]
            continue
        try:
            case = Case.model_validate(given)
        except ValidationError as error:
            yield entry, [*wrong, *(_problem(each, entry.wrong) for each in error.errors(include_url=False)[:3])]
            continue
        gone = [label for label in case.expect if registry is not None and flow_id(label) not in registry]
        wrong += [f"expect: there is no flow named {_gone(label, names, aliases, flows)}" for label in gone]
        yield entry, wrong or case


def _gone(label: str, names: Sequence[str], aliases: Mapping[str, str], flows: str) -> str:
    hint = f"it is an alias of {aliases[label]!r}: write that" if label in aliases else did_you_mean(label, names)
    hint = f"; {hint}" if hint else ""
    listed = "; several names are written as a list" if not hint and any(mark in label for mark in ",;| ") else ""
    return f"{beginning(label, _LONGEST)!r} in {flows} (--flows loads others){hint or listed}"


def _problem(error: ErrorDetails, wrong: Mapping[str, str]) -> str:
    where = ".".join(beginning(str(each), _LONGEST) for each in error["loc"][:3])
    given = beginning(describe_value(error["input"]), _LONGEST)
    match error["type"]:
        case "missing":
            seen = " (see above)" if where in wrong else ""
            what = f"is missing{seen}" if where != "expect" else "is missing; write none where no flow fits"
        case "extra_forbidden":
            what = unknown_field(where, sorted(Case.model_fields), of="case")
        case "model_type" | "model_attributes_type":
            return f"a case is a mapping with request: and expect:, not {given}"
        case "string_too_short":
            what = "is empty"
        case "tuple_type":
            what = f"has to be a list of texts, not {given}"
        case "mapping_type" | "dict_type":
            what = f"has to be a mapping, such as {{authenticated: true}}, not {given}"
        case _:
            what = problem_in(error)
    return f"{where}: {what}"


def _told_apart(file: str, read: Sequence[tuple[Entry, Case]]) -> tuple[list[Case], list[CaseProblem]]:
    """Without the requests that are labelled in two ways; with notes on what is there twice."""
    first: dict[tuple[object, ...], tuple[Entry, Case]] = {}
    ids: dict[str, Entry] = {}
    torn: set[tuple[object, ...]] = set()
    told: list[CaseProblem] = []
    keys = [what_is_asked(case) for _, case in read]

    def tell(entry: Entry, problem: str, *, is_note: bool) -> None:
        told.append(CaseProblem(file=file, entry=entry.number, line=entry.line, problem=problem, is_note=is_note))

    for key, (entry, case) in zip(keys, read, strict=True):
        earlier, other = first.setdefault(key, (entry, case))
        if other is not case and set(other.expect) != set(case.expect):
            torn.add(key)
            where = f"entry {earlier.number}{f' (line {earlier.line})' if earlier.line else ''}"
            what = f"the same request expects {_label(other)} in {where}, and {_label(case)} here"
            tell(entry, f"expect: {what}; neither is judged until one of them is taken out", is_note=False)
        elif other is not case:
            tell(entry, f"request: it is that of entry {earlier.number}, and counts twice", is_note=True)
        if case.id and ids.setdefault(case.id, entry) is not entry:
            tell(entry, f"id: {beginning(case.id, _LONGEST)!r} is that of entry {ids[case.id].number}", is_note=True)
    return [case for key, (_, case) in zip(keys, read, strict=True) if key not in torn], told


def _label(case: Case) -> str:
    return beginning(", ".join(case.expect[:_MOST_SHOWN]) or NONE, _LONGEST)


def what_is_asked(case: Case) -> tuple[object, ...]:
    """Equal where the same is asked in the same situation, whatever the case of letters and the number of blanks."""
    texts = tuple(" ".join(nfkc(each).casefold().split()) for each in (case.request, *case.episodes))
    return (texts, plain_bytes(case.context))
