"""Load flows of a package, a folder or a file: all or nothing, or all that can be read with the errors."""

import logging
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from jazz_select.errors import FlowError, FlowLoadError, FlowValidationError, SkillError
from jazz_select.flow.base import BaseFlow, FlowRegistry, check_calls, current_scope, defined_in
from jazz_select.flow.data import SUFFIXES, read_each
from jazz_select.flow.field_checks import Subject, bar_faults
from jazz_select.flow.imports import import_file, import_name, is_package
from jazz_select.flow.origin import locate, short_path
from jazz_select.flow.skill_files import SKILL_FILE, is_skill_folder
from jazz_select.flow.skill_flows import skill_flow
from jazz_select.text import beginning

_MOST_FOLDERS = 1_000
"""The most folders to scan; a folder may link to anywhere, the root of the file system included."""
_LONGEST = 200
_log = logging.getLogger(__name__)


def load_flows(source: str | Path, registry: FlowRegistry | None = None) -> list[BaseFlow]:
    """Load flows and register them.

    A package, or a folder with an `__init__.py`, is imported with all its modules under its own name. In any other
    folder each .py file runs as its own module. YAML and JSON files are read wherever they lie in it. Modules imported
    before are not run again, but their flows are registered. Loading a file again replaces its flows. Parts that
    composites name must exist once all is loaded.

    A folder with a `SKILL.md` is an Agent Skill, and is loaded as a flow; no Python in or beside it is run. A skill
    that breaks a published rule is left out, with a warning, and stops no other one.

    Args:
        source: The name of an importable package or module, a folder, or one file.
        registry: Where to register; by default where each flow says, which is the default scope unless it names one.

    Returns:
        The flows in the order of their definition, file by file in alphabetical order.

    Raises:
        FlowLoadError: The source is missing or has no flows, or a file cannot be read or run.
        FlowValidationError: A field of a flow is missing or wrong.
        DuplicateFlowError: Two different flows have one name; the message names both places.
    """
    scope = registry if registry is not None else current_scope()
    bars = BaseFlow.registry if scope is None else scope
    staging = FlowRegistry(min_examples=bars.min_examples)
    found: list[BaseFlow] = []
    left_out: list[SkillError] = []
    try:
        with staging.scope():
            for each in _find_flows(source):
                if isinstance(each, SkillError):
                    left_out.append(each)
                    _log.warning("%s | it is left out", each)
                    continue
                if isinstance(each, FlowError):
                    raise each
                found.append(each)
    finally:
        ours = {id(flow) for flow in found}
        _send_home(flow for flow in staging.values() if id(flow) not in ours)
    if not found and left_out:
        raise left_out[0]
    if not found:
        raise FlowLoadError(str(source), "there are no flows in it; define one, or point to another place")
    return _settle(found, registry)


def _find_flows(source: str | Path) -> Iterator[BaseFlow | FlowError]:
    place = _place(source)
    if isinstance(place, str):
        yield from _in_package(place)
    else:
        yield from _flows_of_files(_files(place))


def _place(source: str | Path) -> Path | str:
    if not str(source).strip():
        raise FlowLoadError(repr(source), "the source is empty; name a package, a folder or a file")
    try:
        path = Path(source)
        if path.exists():
            return path.resolve()
    except TypeError as error:
        given, problem = f"{source!r:.80}", "a source is one name or path; load each of several by itself"
        raise FlowLoadError(given, problem) from error
    except OSError as error:  # a name that is too long for any file
        raise FlowLoadError(beginning(str(source), _LONGEST), error.strerror or str(error)) from error
    if isinstance(source, str) and all(part.isidentifier() for part in source.split(".")):
        return source
    raise FlowLoadError(str(source), f"there is no such file or folder, seen from {Path.cwd()}")


def _files(top: Path) -> Iterator[Path | FlowLoadError]:
    """Yield the files with flows, by folder and name, and errors of folders; in a package, modules come before data."""
    waiting, seen, beside_skills = [top], set[Path](), set[Path]()
    while waiting:
        place = waiting.pop()
        if not place.is_dir():
            yield place
            continue
        if is_skill_folder(place) and not is_package(place):
            yield place / SKILL_FILE
            continue
        if place.resolve() in seen:  # links may form cycles or duplicates
            continue
        seen.add(place.resolve())
        if len(seen) > _MOST_FOLDERS:
            advice = "name the one with the flows"
            problem = f"there are more than {_MOST_FOLDERS} folders in it, by links perhaps; {advice}"
            yield FlowLoadError(short_path(str(top)), problem)
            return
        packaged = is_package(place)
        try:
            # Reverse the order, since the stack pops the last one first.
            entries = sorted(place.iterdir(), key=lambda each: (packaged and _is_data(each), each), reverse=True)
        except OSError as error:
            yield FlowLoadError(short_path(str(place)), error.strerror or str(error))
            continue
        # In a package, a folder without `__init__.py` has only data, and `__main__` is a program.
        runs = packaged or not any(is_package(each) for each in place.parents if each.is_relative_to(top))
        skipped = {"__pycache__", "__main__.py"} if packaged else {"__pycache__"}
        shown = [each for each in entries if not each.name.startswith(".") and each.name not in skipped]
        # A folder among skills that lacks its SKILL.md holds scripts, and not flows: it is not run.
        runs = runs and place not in beside_skills
        if place in beside_skills or any(map(is_skill_folder, shown)):
            beside_skills.update(each for each in shown if each.is_dir())
        for each in shown:
            is_module = runs and each.suffix.lower() == ".py"
            if is_module or _is_data(each) or each.is_dir():
                waiting.append(each)


def _is_data(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES


def _in_file(file: Path) -> Iterator[BaseFlow | FlowError]:
    suffix = file.suffix.lower()
    if file.exists() and not file.is_file():
        raise FlowLoadError(short_path(str(file)), "it is no plain file, so reading it might never end")
    if file.name == SKILL_FILE:
        yield skill_flow(file.parent)
    elif suffix == ".py":
        yield from defined_in(sys.modules[import_file(file)])
    elif _is_data(file):
        yield from read_each(file)
    else:
        problem = f"flows are read from .py, {', '.join(SUFFIXES)} files, and this is {suffix or 'without a suffix'}"
        raise FlowLoadError(short_path(str(file)), problem)


def _send_home(others: Iterable[BaseFlow]) -> None:
    # A module that the source imports from elsewhere stays loaded, so its flows go where an import puts them.
    for flow in others:
        if not flow.origin.entry and flow.origin.module in sys.modules:
            flow.home.register(flow)


def _settle(found: list[BaseFlow], registry: FlowRegistry | None) -> list[BaseFlow]:
    places = [(flow, flow.home if registry is None else registry) for flow in found]
    ours = {id(flow) for flow in found}
    registries = {id(place): place for _, place in places}
    with ExitStack() as stack:
        # All or nothing: an error below undoes what was registered, in every registry.
        for place in registries.values():
            stack.enter_context(place.atomic())
        for flow, place in places:
            earlier = place.get(flow.id)
            # A flow of the same file is one that was edited there; another file's is a second flow of one name.
            edited = earlier is not None and id(earlier) not in ours and earlier.origin.file == flow.origin.file
            place.register(flow, replace=edited)
        for flow in found:
            if flow.composite:
                flow.definition()  # raises if a part is missing
            check_calls(flow)
    return [flow for flow, place in places if place.get(flow.id) is flow]


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What could be loaded of a source, and what could not.

    Attributes:
        registry: The flows that could be built, including those with too little content to be found.
        faults: Every error that `load_flows` would raise, in order.
    """

    registry: FlowRegistry
    faults: tuple[FlowError, ...]


def survey(source: str | Path, *, min_examples: int = 5) -> Survey:
    """Load what can be loaded: a broken entry, class or file does not hide the others.

    A Python file that raises is one fault; the flows it defined before are kept.

    Raises:
        FlowLoadError: There is no such source.
    """
    registry = _Lenient(min_examples)
    found: list[BaseFlow] = []
    with registry.scope():
        for each in _find_flows(source):
            if isinstance(each, FlowError):
                registry.refuse(each)
            else:
                found.append(each)
    ours = {id(flow) for flow in found}
    for flow in registry.values():
        if id(flow) not in ours:
            registry.unregister(flow)
            with suppress(FlowError):  # the faults of its own source report it
                _send_home([flow])
    known = {id(flow) for flow in registry.values()}
    for flow in found:
        if id(flow) not in known:
            registry.register(flow)
    # A flow that was registered twice reports its faults twice.
    distinct = {(type(fault), str(fault)): fault for fault in registry.faults}
    return Survey(registry=registry, faults=tuple(distinct.values()))


class _Lenient(FlowRegistry):
    """A registry that records a flow's error instead of raising it, so that the module continues."""

    def __init__(self, bar: int) -> None:
        super().__init__(min_examples=0)
        self.bar = bar
        self.faults: list[FlowError] = []

    @property
    def examples_needed(self) -> int:
        return self.bar

    def refuse(self, error: Exception) -> None:
        if isinstance(error, TypeError):  # an argument that no flow takes
            self.faults.append(FlowLoadError(locate().describe("a flow"), str(error)))
            return
        if not isinstance(error, FlowError):
            raise error
        self.faults.append(error)
        self.faults += [each for each in error.others if isinstance(each, FlowError)]

    def register(self, flow: BaseFlow, *, replace: bool = False) -> None:
        before = len(self.faults)
        try:
            super().register(flow, replace=replace)
        except FlowError as error:
            self.refuse(error)
        wrong = [each.field for each in self.faults[before:] if isinstance(each, FlowValidationError)]
        subject = Subject(name=flow.label, place=flow.place)
        least = self.bar if flow.examples_wanted else 0
        self.faults += bar_faults(subject, flow.fields(), composite=flow.composite, min_examples=least, wrong=wrong)


def _in_package(name: str) -> Iterator[BaseFlow | FlowError]:
    """Load a package file by file, so that one that cannot be imported does not hide the others."""
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        spec = None
    places = () if spec is None else spec.submodule_search_locations or ()
    folders = [Path(each).resolve() for each in places]
    if len(folders) == 1 and is_package(folders[0]):
        yield from _flows_of_files(_files(folders[0]))
        return
    for module in import_name(name):
        yield from defined_in(sys.modules[module])
    # The modules are imported by now; what else lies in the folders is data.
    files = chain.from_iterable(map(_files, folders))
    yield from _flows_of_files(file for file in files if isinstance(file, FlowLoadError) or _is_data(file))


def _flows_of_files(files: Iterable[Path | FlowLoadError]) -> Iterator[BaseFlow | FlowError]:
    for file in files:
        try:
            if isinstance(file, FlowLoadError):
                yield file
            else:
                yield from list(_in_file(file))  # whole: what a file defined before it failed is not loaded
        except (FlowLoadError, FlowValidationError) as error:
            yield error
