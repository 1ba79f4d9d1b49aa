"""The findings of a check: kinds in order of harm, positions in the files of flows, and the result of a check."""

import ast
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from jazz_select.data_files import read_text
from jazz_select.errors import (
    DataFileError,
    DuplicateFlowError,
    FlowError,
    FlowLoadError,
    FlowValidationError,
    SkillError,
)
from jazz_select.evaluation.tables import Frame, Framed
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.data import entry_nodes
from jazz_select.json_values import plain
from jazz_select.selector.forecast import Forecast
from jazz_select.text import beginning, count_of

_ENTRY = re.compile(r"^(?P<file>.+?)(?::\d+){0,2} \(flow (?P<entry>\d+)\)$", re.DOTALL)
_LINE = re.compile(r"\((?P<file>[^()\n]+\.py):(?P<line>\d+)\)")
_SYNTAX = re.compile(r"^line (\d+): ")
_INDEX = re.compile(r"^\w+\[(\d+)\]")


class Place(NamedTuple):
    """A file, relative to the working directory, and a line; empty and 0 if unknown."""

    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


NOWHERE = Place()
_QUOTED = 80


class Spot(NamedTuple):
    """A flow, a field of it, or an entry of that field, numbered from 0."""

    flow: BaseFlow
    field: str = ""
    number: int | None = None

    @property
    def text(self) -> str:
        """The text there."""
        value = getattr(self.flow, self.field)
        return value if self.number is None else value[self.number]

    @property
    def quoted(self) -> str:
        """The beginning of the text, in quotes."""
        return f"“{beginning(self.text.strip(), _QUOTED)}”"

    def evidence(self, beside: str = "", other: str = "") -> "Evidence":
        """Return the text as evidence, with the text and the flow that it conflicts with."""
        return Evidence(text=self.text, flow=self.flow.name, beside=beside, other=other)


class Places:
    """Looks up source positions, reading each file once. A file that cannot be read has positions without lines."""

    def __init__(self) -> None:
        self._entries, self._definitions = cache(entry_nodes), cache(_definitions)

    def locate(self, flow: BaseFlow, field: str = "", number: int | None = None) -> Place:
        """Return where a flow is defined, or a field of it, or an entry of that field, numbered from 0.

        A field or entry that is not found has the line of the flow.
        """
        origin = flow.origin
        if not origin.file or origin.file.startswith("<"):
            return NOWHERE
        return self.entry(origin.file, origin.entry or origin.line, field, number, data=bool(origin.entry))

    def finding(
        self, code: str, spot: Spot, what: str, remedy: str, *evidence: "Evidence", flows: tuple[str, ...] = ()
    ) -> "Finding":
        """Return a finding at this spot, about its flow or about `flows`."""
        names = flows or (spot.flow.name,)
        return Finding(code=code, flows=names, at=self.locate(*spot), what=what, remedy=remedy, evidence=evidence)

    def entry(self, file: str, at: int, field: str = "", number: int | None = None, *, data: bool = True) -> Place:
        """Return the place of an entry of a data file, numbered from 1, or of a definition at a line of Python."""
        find_line = self._line_of_entry if data else self._line_of
        return Place(relative_path(file), find_line(file, at, field, number))

    def _line_of_entry(self, file: str, entry: int, field: str, number: int | None) -> int:
        nodes = self._entries(file)
        if not 0 < entry <= len(nodes):
            return 0
        node: Any = nodes[entry - 1]
        pairs: list[Any] = []
        if field and isinstance(node, yaml.MappingNode):
            pairs = node.value
        for key, value in pairs:
            if key.value != field:
                continue
            items: list[Any] = []
            if isinstance(value, yaml.SequenceNode):
                items = value.value
            found = items[number] if number is not None and number < len(items) else key
            return found.start_mark.line + 1
        return node.start_mark.line + 1

    def _line_of(self, file: str, line: int, field: str, number: int | None) -> int:
        if not field:
            return line
        for node in self._definitions(file).get(line, ()):
            for name, value in _assignments(node):
                if name != field:
                    continue
                items = value.elts if isinstance(value, ast.List | ast.Tuple) else []
                found = items[number] if number is not None and number < len(items) else value
                return found.lineno
        return line

    def of_fault(self, fault: FlowError) -> Place:
        """Return the place of a flow that could not be loaded."""
        if isinstance(fault, SkillError):
            return Place(relative_path(fault.place))
        if isinstance(fault, FlowLoadError):
            inside = list(_LINE.finditer(fault.problem))
            if inside:
                return Place(relative_path(inside[-1]["file"]), int(inside[-1]["line"]))
            line = _SYNTAX.match(fault.problem)
            source = relative_path(fault.source) if Path(fault.source).exists() else fault.source
            return Place(source, int(line[1]) if line else 0)
        if isinstance(fault, DuplicateFlowError):
            where = fault.second
        else:
            where = getattr(fault, "place", "")
        field, number = field_of(fault)
        entry = _ENTRY.match(where)
        if entry is not None:
            return self.entry(str(Path(entry["file"])), int(entry["entry"]), field, number)
        line = _LINE.search(where)
        if line is not None:
            return self.entry(line["file"], int(line["line"]), field, number, data=False)
        return NOWHERE


def relative_path(file: str) -> str:
    """Return the path relative to the working directory, with slashes; never an absolute one."""
    try:
        return Path(os.path.relpath(file)).as_posix()
    except ValueError:  # another drive
        return Path(file).name


def field_of(fault: FlowError) -> tuple[str, int | None]:
    """Return the field that a fault is about, and the place of an entry in it, from 0."""
    if not isinstance(fault, FlowValidationError):
        return "", None
    name = fault.field.partition("[")[0].partition(".")[0]
    number = _INDEX.search(fault.field)
    return name, None if number is None else int(number[1])


def _definitions(file: str) -> dict[int, list[ast.ClassDef | ast.Call]]:
    found: dict[int, list[ast.ClassDef | ast.Call]] = {}
    try:
        tree = ast.parse(read_text(Path(file)))
    except (DataFileError, SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.Call):
            found.setdefault(node.lineno, []).append(node)
    return found


def _assignments(node: ast.ClassDef | ast.Call) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call):
        return [(each.arg, each.value) for each in node.keywords if each.arg]
    found: list[tuple[str, ast.expr]] = []
    for statement in node.body:
        targets: list[ast.expr] = []
        value: ast.expr | None = None
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, ast.AnnAssign):
            targets, value = [statement.target], statement.value
        if value is None:  # an annotation alone assigns nothing
            continue
        found += [(target.id, value) for target in targets if isinstance(target, ast.Name)]
    return found


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    """Something does not load or run, or two things contradict each other."""
    WARNING = "warning"
    """It works, and some requests will lead to the wrong flow."""
    NOTE = "note"
    """Worth a look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of finding: its severity, and a description in a sentence."""

    severity: Severity
    about: str


_ABOUT: Mapping[Severity, Mapping[str, str]] = {
    Severity.ERROR: {
        "unreadable-file": "A file of flows, tools or cases cannot be read, or its code fails.",
        "invalid-flow": "A field of a flow is missing or wrong, so that it does not load.",
        "duplicate-name": "Two different flows have one name.",
        "missing-part": "A composite names a part that does not exist, or contains itself.",
        "broken-chain": "A chain has an invalid step, or a tool that is not one of the flow.",
        "unknown-tool": "A flow cannot do without a tool that does not exist.",
        "invalid-case": "A labelled request is wrong, or expects a flow that does not exist.",
        "contradicting-cases": "The same request occurs twice among the cases, with different flows.",
        "shared-example": "The same request is an example of two flows, and leads to one at most.",
        "prompt-injection": "A text instructs a model, or imitates the frame of a prompt.",
        "contradicting-effect": "A tool is declared read-only, and its name says that it acts.",
        "broken-guard": "A guard raises, so that its flow is withheld.",
        "dead-guard": "A guard never agrees, whatever the context says.",
        "unfit-chain": "A step of a chain gives a value that the next one cannot take.",
        "broken-call": "A flow calls a flow that does not exist, or flows call each other in a circle.",
        "broken-input": "An input has choices, a condition or a proposal that its flow's tools do not take or give.",
    },
    Severity.WARNING: {
        "near-copies": "Two flows have examples that ask the same in other words or another order.",
        "personal-data": "A text contains personal data: an address, a number or a date.",
        "hidden-characters": "A text contains invisible characters.",
        "contradicting-text": "A description or condition says something different from the examples.",
        "greedy-flow": "A flow comes first for examples of many others, and hardly for its own.",
        "broad-example": "An example would do for any flow, and leads to another one.",
        "mixed-languages": "A text is in another language than the catalogue.",
        "long-text": "A text is far longer than what it is for.",
        "undeclared-effect": "A tool whose name says that it cannot be undone does not declare it.",
        "misspelt-tool": "A tool is named almost like another one.",
        "unknown-fact": "A reply asks for a fact that none of the flow's tools gives or takes.",
        "ambiguous-name": "A name or alias stands for two flows, so that it finds neither.",
        "uncalled-flow": "A flow runs only when it is called, and no flow calls it.",
        "dead-branch": "A branch can never be taken, since one before it holds in the same case.",
        "leaked-case": "A case is an example as well, so that it measures nothing.",
        "near-leak": "A case asks the same as an example, in other words, so that it measures next to nothing.",
        "contradicted-label": "A case expects a flow, and recall has another one first by far.",
        "duplicate-id": "Two cases have one id.",
        "unreachable-flow": "A flow is first for none of its own examples.",
        "near-twins": "Two flows are too similar for their examples to separate them.",
        "misplaced-example": "An example is far from its own flow, and near another one.",
        "placeholder": "A text was never written: TODO, lorem ipsum, three dots.",
        "same-description": "Two flows have one description, so that recall mixes them up.",
        "same-condition": "Two flows have one condition, so that nothing tells a model which.",
        "vague-condition": "A condition says no more than the name and the description do.",
        "vague-description": "A description would do for any flow.",
        "thin-examples": "A flow has too few different examples, or all are of one wording.",
        "copied-examples": "Two examples of a flow are the same but for case, marks or a word.",
    },
    Severity.NOTE: {
        "bare-skill": "A skill has no examples, so that it is found by its description and first section alone.",
        "repeated-effects": "The desired effects repeat the description.",
        "unread-pattern": "A pattern in a tool's schema is not checked before a call.",
        "unused-ignore": "An entry of `ignore` accepts a finding that does not exist any more.",
    },
}
KINDS = {code: Kind(severity=each, about=about) for each, kinds in _ABOUT.items() for code, about in kinds.items()}
"""Every kind by its code, in order of harm. Codes are never renamed without a major version."""
_ORDER = {code: place for place, code in enumerate(KINDS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The evidence of a finding: a text, its flow, and the text or flow that it conflicts with.

    Attributes:
        flow: The text's flow; empty for a case.
        other: The conflicting flow, or the flow of `beside`.
        cosine: Cosine of the text and the other flow, as comparable as recall makes it; None if not computed.
        own_cosine: Cosine of the text and its own flow without it.
    """

    text: str
    flow: str = ""
    beside: str = ""
    other: str = ""
    cosine: float | None = None
    own_cosine: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a catalogue: its kind in `KINDS`, what to do about it, and its evidence, the clearest first."""

    code: str
    flows: tuple[str, ...] = ()
    at: Place = NOWHERE
    what: str
    remedy: str
    evidence: tuple[Evidence, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity of its kind."""
        return KINDS[self.code].severity

    @property
    def place(self) -> str:
        """`file:line`, which terminals show as a link."""
        return str(self.at)

    @property
    def key(self) -> str:
        """The entry of `ignore` that accepts it: `near-twins:exchange_item,refund_order`."""
        return f"{self.code}:{','.join(sorted(self.flows))}" if self.flows else self.code

    @property
    def fingerprint(self) -> str:
        """A digest of kind, flows and evidence, which does not change when lines move."""
        parts = [self.key]
        if self.evidence:
            first = self.evidence[0]
            parts.append(f"{first.text}\x1f{first.beside}")
        elif not self.flows:  # a file: of two of one kind, only what is said of them differs
            parts += [self.at.file, self.what]
        return hashlib.sha256("\x1e".join(parts).encode(errors="surrogatepass")).hexdigest()[:32]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types."""
        values = {
            "code": self.code,
            "severity": self.severity,
            "flows": self.flows,
            "file": self.at.file,
            "line": self.at.line or None,
            "what": self.what,
            "remedy": self.remedy,
            "key": self.key,
            "fingerprint": self.fingerprint,
            "evidence": self.evidence,
        }
        return plain(values)


@dataclass(frozen=True, kw_only=True)
class Findings(Framed):
    """The findings in order of harm, those that `ignore` accepts, and notes on skipped checks.

    `forecast` is what recall is expected to decide without a chat model; None if nothing was embedded.
    """

    found: tuple[Finding, ...] = ()
    accepted: tuple[Finding, ...] = ()
    flows: int = 0
    cases: int = 0
    embedder: str = ""
    notes: tuple[str, ...] = ()
    forecast: Forecast | None = None
    took_s: float = field(default=0.0, compare=False)

    def at_least(self, severity: Severity | str) -> tuple[Finding, ...]:
        """Return the findings of this severity or a worse one."""
        severities = list(Severity)  # the worst first
        harmful = severities[: severities.index(Severity(severity)) + 1]
        return tuple(each for each in self.found if each.severity in harmful)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of findings by severity."""
        counts = {severity.value: 0 for severity in Severity}
        for finding in self.found:
            counts[finding.severity.value] += 1
        return counts

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON types; times in seconds."""
        return {
            "flows": self.flows,
            "cases": self.cases,
            "embedder": self.embedder,
            "counts": self.counts,
            "findings": [each.to_dict() for each in self.found],
            "accepted": [each.to_dict() for each in self.accepted],
            "notes": plain(self.notes),
            "forecast": None if self.forecast is None else self.forecast.as_data(),
            "took_s": self.took_s,
        }

    def _frame(self) -> Frame:
        rows = [{**each.to_dict(), "flows": ", ".join(each.flows)} for each in self.found]
        columns = ["severity", "code", "flows", "file", "line", "what", "remedy", "key"]
        return rows, columns

    def __str__(self) -> str:
        counts = ", ".join(count_of(count, name) for name, count in self.counts.items() if count)
        return f"{counts or 'nothing'} in {count_of(self.flows, 'flow')}"


def worst_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the distinct findings, the worst kinds first, those of one kind by place."""
    return tuple(sorted(dict.fromkeys(found), key=lambda each: (_ORDER[each.code], each.at, each.flows)))
