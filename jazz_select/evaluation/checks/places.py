"""Where in a file a flow, a field of it or one of its examples stands: for whoever is to mend it."""

import ast
import os
import re
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import yaml

from jazz_select.errors import DuplicateFlowError, FlowError, FlowLoadError, FlowValidationError
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.data import SYNTAX_ERRORS, read_text, yaml_documents

_ENTRY = re.compile(r"^(?P<file>.+) \(flow (?P<entry>\d+)\)$", re.DOTALL)
_LINE = re.compile(r"\((?P<file>[^()\n]+\.py):(?P<line>\d+)\)")
_SYNTAX = re.compile(r"^line (\d+): ")
_INDEX = re.compile(r"\[(\d+)\]$")


class Place(NamedTuple):
    """A file, seen from the working directory, and a line of it; empty and 0 where they are not known."""

    file: str = ""
    line: int = 0


class Places:
    """Looks places up, each file read once. What cannot be read has places without lines."""

    def __init__(self) -> None:
        self._files: dict[str, _Lines] = {}

    def of(self, flow: BaseFlow, field: str = "", number: int | None = None) -> Place:
        """Where a flow is defined; with a field, where that stands; with a number from 0, where that entry of it does.

        What cannot be found more closely is at the line of the flow.
        """
        origin = flow.origin
        if not origin.file or origin.file.startswith("<"):
            return Place()
        return self.entry(origin.file, origin.entry or origin.line, field, number, data=bool(origin.entry))

    def entry(self, file: str, at: int, field: str = "", number: int | None = None, *, data: bool = True) -> Place:
        """The same of an entry of a data file, from 1, or of what a line of a Python file defines."""
        lines = self._files.setdefault(file, _Lines(file))
        return Place(shown(file), lines.of_entry(at, field, number) if data else lines.of_line(at, field, number))

    def of_fault(self, fault: FlowError) -> Place:
        """Where what could not be loaded stands."""
        if isinstance(fault, FlowLoadError):
            return _of_unreadable(fault)
        where = fault.second if isinstance(fault, DuplicateFlowError) else getattr(fault, "place", "")
        if entry := _ENTRY.match(where):
            field, number = _field(fault)
            return self.entry(str(Path(entry["file"])), int(entry["entry"]), field, number)
        if line := _LINE.search(where):
            field, number = _field(fault)
            return self.entry(line["file"], int(line["line"]), field, number, data=False)
        return Place()


def shown(file: str) -> str:
    """The path from the working directory on, with slashes: never an absolute one."""
    try:
        return Path(os.path.relpath(file)).as_posix()
    except ValueError:  # another drive
        return Path(file).name


def _of_unreadable(fault: FlowLoadError) -> Place:
    inside = list(_LINE.finditer(fault.problem))
    if inside:
        return Place(shown(inside[-1]["file"]), int(inside[-1]["line"]))
    line = _SYNTAX.match(fault.problem)
    source = shown(fault.source) if Path(fault.source).exists() else fault.source
    return Place(source, int(line[1]) if line else 0)


def _field(fault: FlowError) -> tuple[str, int | None]:
    field = fault.field if isinstance(fault, FlowValidationError) else ""
    number = _INDEX.search(field)
    return _INDEX.sub("", field).partition("[")[0].partition(".")[0], int(number[1]) if number else None


class _Lines:
    """The lines of one file."""

    def __init__(self, file: str) -> None:
        self._file = Path(file)

    def of_entry(self, entry: int, field: str, number: int | None) -> int:
        nodes = self._entries
        if not 0 < entry <= len(nodes):
            return 0
        node: Any = nodes[entry - 1]
        pairs: list[Any] = node.value if isinstance(node, yaml.MappingNode) else []
        value = next((value for key, value in pairs if key.value == field), None) if field else None
        key = next((key for key, _ in pairs if key.value == field), None)
        if value is None or key is None:
            return node.start_mark.line + 1
        items: list[Any] = value.value if isinstance(value, yaml.SequenceNode) else []
        found = items[number] if number is not None and number < len(items) else key
        return found.start_mark.line + 1

    def of_line(self, line: int, field: str, number: int | None) -> int:
        if not field:
            return line
        for node in self._definitions.get(line, ()):
            for name, value in _assigned(node):
                if name == field:
                    items = value.elts if isinstance(value, ast.List | ast.Tuple) else []
                    return (items[number] if number is not None and number < len(items) else value).lineno
        return line

    @cached_property
    def _entries(self) -> list[yaml.Node]:
        try:
            documents = yaml_documents(read_text(self._file))  # JSON is YAML as well, as far as flows go
        except (FlowError, *SYNTAX_ERRORS):
            return []
        found: list[yaml.Node] = []
        for content, root in documents:
            if content is None:
                continue
            node: Any = root
            if isinstance(content, dict) and "flows" in content and "name" not in content:
                node = next(value for key, value in cast("Any", root).value if key.value == "flows")
            found.extend(node.value if isinstance(node, yaml.SequenceNode) else [node])
        return found

    @cached_property
    def _definitions(self) -> dict[int, list[ast.ClassDef | ast.Call]]:
        found: dict[int, list[ast.ClassDef | ast.Call]] = {}
        try:
            tree = ast.parse(read_text(self._file))
        except (FlowError, SyntaxError, ValueError, RecursionError):
            return found
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.Call):
                found.setdefault(node.lineno, []).append(node)
        return found


def _assigned(node: ast.ClassDef | ast.Call) -> list[tuple[str, ast.expr]]:
    """Fields and what they are set to."""
    if isinstance(node, ast.Call):
        return [(each.arg, each.value) for each in node.keywords if each.arg]
    plain = [(target, each.value) for each in node.body if isinstance(each, ast.Assign) for target in each.targets]
    typed = [(each.target, each.value) for each in node.body if isinstance(each, ast.AnnAssign) and each.value]
    return [(target.id, value) for target, value in (*plain, *typed) if isinstance(target, ast.Name)]
