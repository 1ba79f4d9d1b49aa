"""Loading all of a source that can be loaded, with what is wrong with the rest: for judging, never for running."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from sys import modules

from jazz_select.errors import FlowError, FlowLoadError, FlowValidationError
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.flow.checks import Subject, check_bars
from jazz_select.flow.data import SUFFIXES, read_each
from jazz_select.flow.imports import import_file, import_name, is_package
from jazz_select.flow.origin import defined_in, short_path

_MOST_FILES = 10_000
"""A folder may hold a link to anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What there is of a source.

    Attributes:
        registry: The flows that could be built, those among them that say too little to be found included.
        faults: Everything that `load_flows` would refuse, in the order in which it was met.
    """

    registry: FlowRegistry
    faults: tuple[FlowError, ...]


def survey(source: str | Path, *, min_examples: int = 5) -> Survey:
    """Load what can be loaded: a broken entry, class or file never hides the others.

    A Python file whose code raises is one fault; the flows that it defined before that are there.

    Args:
        source: As for `load_flows`.
        min_examples: As for `FlowRegistry`.

    Raises:
        FlowLoadError: There is no such source.
    """
    registry = _Lenient(min_examples)
    found: list[BaseFlow] = []
    with registry.scope():
        for each in _found(source):
            if isinstance(each, FlowError):
                registry.faults.append(each)
            else:
                found.append(each)
    ours = {id(flow) for flow in found}
    for flow in registry.values():
        if id(flow) not in ours:  # of a module that the source imports: it goes where an import puts it
            registry.unregister(flow)
            _send_home(flow)
    for flow in found:
        if registry.get(flow.id) is not flow:
            registry.register(flow)
    unlike = {(type(fault), str(fault)): fault for fault in registry.faults}
    return Survey(registry=registry, faults=tuple(unlike.values()))


class _Lenient(FlowRegistry):
    """Notes what is wrong with a flow instead of raising it, so that the module which defines it runs on."""

    def __init__(self, bar: int) -> None:
        super().__init__(min_examples=0)
        self.bar = bar
        self.faults: list[FlowError] = []

    def register(self, flow: BaseFlow, *, replace: bool = False) -> None:
        """Take the flow in where that is possible at all."""
        try:
            super().register(flow, replace=replace)
            subject = Subject(name=flow.label, place=flow.place)
            check_bars(subject, flow.fields(), composite=flow.composite, min_examples=self.bar)
        except FlowError as error:
            self.faults.append(error)


def _send_home(flow: BaseFlow) -> None:
    if not flow.origin.entry and flow.origin.module in modules:
        try:
            flow.home.register(flow)
        except FlowError:  # it is nobody's here, and whoever loads it is told
            return


def _found(source: str | Path) -> Iterator[BaseFlow | FlowError]:
    path = Path(source)
    try:
        there = path.resolve() if str(source).strip() and path.exists() else None
    except OSError:
        there = None
    if there is not None:
        yield from _each(_files(there))
        return
    name = str(source)
    if not (isinstance(source, str) and name and all(part.isidentifier() for part in name.split("."))):
        raise FlowLoadError(repr(name), f"there is no such file, folder or package, seen from {Path.cwd()}")
    yield from _in_package(name)


def _in_package(name: str) -> Iterator[BaseFlow | FlowError]:
    """By its files, so that one which cannot be imported hides no other."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if len(folders) == 1 and is_package(Path(folders[0])):
        yield from _each(_files(Path(folders[0]).resolve()))
        return
    import_name(name)
    yield from defined_in(modules[name], BaseFlow)


def _files(path: Path) -> list[Path | FlowLoadError]:
    """The files that `load_flows` would read, by folder and name, and the folders that cannot be read."""
    if not path.is_dir():
        return [path]
    found: list[Path] = []
    wrong: list[Path | FlowLoadError] = []
    waiting, seen = [path], set[Path]()
    while waiting:
        folder = waiting.pop()
        if folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        if len(found) > _MOST_FILES or len(seen) > _MOST_FILES:
            problem = (
                f"there are more than {_MOST_FILES} files or folders in it, by links perhaps; the rest was not read"
            )
            return [FlowLoadError(short_path(str(path)), problem), *wrong, *sorted(found)]
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            wrong.append(FlowLoadError(short_path(str(folder)), error.strerror or str(error)))
            continue
        # Of a package, only what is imported with it: a folder in it without `__init__.py` holds data at most.
        runs = is_package(folder) or not is_package(folder.parent) or folder == path
        for entry in entries:
            if entry.name.startswith(".") or entry.name in {"__pycache__", "__main__.py"}:
                continue
            if entry.is_dir():
                waiting.append(entry)
            elif entry.suffix.lower() in SUFFIXES or (entry.suffix.lower() == ".py" and runs):
                found.append(entry)
    return [*wrong, *sorted(found)]


def _each(files: Iterable[Path | FlowLoadError]) -> Iterator[BaseFlow | FlowError]:
    for file in files:
        if isinstance(file, FlowLoadError):
            yield file
        else:
            yield from _caught(lambda file=file: list(_of_file(file)))


def _of_file(file: Path) -> Iterator[BaseFlow | FlowError]:
    suffix = file.suffix.lower()
    if not file.is_file():
        raise FlowLoadError(short_path(str(file)), "it is no plain file, so reading it might never end")
    if suffix == ".py":
        yield from defined_in(modules[import_file(file)], BaseFlow)
    elif suffix in SUFFIXES:
        yield from read_each(file)
    else:
        problem = f"flows are read from .py, {', '.join(SUFFIXES)} files, and this is {suffix or 'without a suffix'}"
        raise FlowLoadError(short_path(str(file)), problem)


def _caught(read: Callable[[], list[BaseFlow | FlowError]]) -> list[BaseFlow | FlowError]:
    try:
        return read()
    except (FlowLoadError, FlowValidationError) as error:
        return [error]
