"""Loading flows: from a package, a folder of .py, .yaml and .json files, or one file. All of a source, or nothing."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from jazz_select.errors import FlowLoadError
from jazz_select.flow.base import BaseFlow, FlowRegistry, current_scope
from jazz_select.flow.data import SUFFIXES, read_flows
from jazz_select.flow.imports import data_folders, import_file, import_folder, import_name, is_package
from jazz_select.flow.origin import defined_in, short_path
from jazz_select.text import beginning

_MOST_FOLDERS = 1_000
"""A folder may hold a link to anywhere, the root of all files included."""
_LONGEST = 200


def load_flows(source: str | Path, registry: FlowRegistry | None = None) -> list[BaseFlow]:
    """Load flows and register them.

    A package, or a folder with an `__init__.py`, is imported under its own name, all its modules; the .py files of
    another folder are each run as a module of their own. YAML and JSON files are read wherever they lie in it.
    Modules that were imported before are not run again, and their flows are registered all the same. Loading the
    same file again replaces the flows it defined. Parts that composites name have to be there once all is loaded.

    Args:
        source: The name of an importable package or module, a folder, or one file.
        registry: Where to register; by default where each flow says, which is the default scope unless it names one.

    Returns:
        The flows in the order of their definition, file by file in alphabetical order.

    Raises:
        FlowLoadError: The source is missing, holds no flow, or a file of it cannot be read or run.
        FlowValidationError: A field of a flow is missing or wrong.
        DuplicateFlowError: Two different flows have one name; the message names both places.
    """
    scope = registry if registry is not None else current_scope()
    bars = BaseFlow.registry if scope is None else scope
    staging = FlowRegistry(min_examples=bars.min_examples)
    found: list[BaseFlow] = []
    try:
        with staging.scope():
            found.extend(_found(source))
    finally:
        _send_home(staging, found)
    if not found:
        raise FlowLoadError(str(source), "there are no flows in it; define one, or point to another place")
    return _settle(found, registry)


def _found(source: str | Path) -> Iterator[BaseFlow]:
    if not str(source).strip():
        raise FlowLoadError(repr(source), "the source is empty; name a package, a folder or a file")
    try:
        path = Path(source)
    except TypeError as error:
        given, problem = f"{source!r:.80}", "a source is one name or path; load each of several by itself"
        raise FlowLoadError(given, problem) from error
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name that is too long for any file
        raise FlowLoadError(beginning(str(source), _LONGEST), error.strerror or str(error)) from error
    if is_folder:
        yield from _in_folder(path.resolve())
    elif is_file:
        yield from _in_file(path.resolve())
    elif isinstance(source, str) and all(part.isidentifier() for part in source.split(".")):
        yield from _in_modules(import_name(source))
    else:
        problem = f"there is no such file or folder, seen from {Path.cwd()}"
        raise FlowLoadError(str(source), problem)


def _in_folder(folder: Path, seen: set[Path] | None = None) -> Iterator[BaseFlow]:
    seen = set() if seen is None else seen
    real = folder.resolve()
    if real in seen:  # by links, a folder may lie in itself, or in many places
        return
    seen.add(real)
    if len(seen) > _MOST_FOLDERS:
        problem = f"there are more than {_MOST_FOLDERS} folders in it, by links perhaps; name the one with the flows"
        raise FlowLoadError(short_path(str(folder)), problem)
    if is_package(folder):
        yield from _in_modules(import_folder(folder))
        return
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise FlowLoadError(short_path(str(folder)), error.strerror or str(error)) from error
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_dir():
            yield from _in_folder(entry, seen)
        elif entry.suffix.lower() in {".py", *SUFFIXES}:
            yield from _in_file(entry)


def _in_file(file: Path) -> Iterator[BaseFlow]:
    suffix = file.suffix.lower()
    if file.exists() and not file.is_file():
        raise FlowLoadError(short_path(str(file)), "it is no plain file, so reading it might never end")
    if suffix == ".py":
        yield from defined_in(sys.modules[import_file(file)], BaseFlow)
    elif suffix in SUFFIXES:
        yield from read_flows(file)
    else:
        problem = f"flows are read from .py, {', '.join(SUFFIXES)} files, and this is {suffix or 'without a suffix'}"
        raise FlowLoadError(short_path(str(file)), problem)


def _in_modules(names: list[str]) -> Iterator[BaseFlow]:
    for name in names:
        yield from defined_in(sys.modules[name], BaseFlow)
    for folder in data_folders(names[0]):
        for file in sorted(folder.rglob("*")):
            hidden = any(part.startswith((".", "__")) for part in file.relative_to(folder).parts)
            if not hidden and file.is_file() and file.suffix.lower() in SUFFIXES:
                yield from read_flows(file)


def _send_home(staging: FlowRegistry, found: list[BaseFlow]) -> None:
    # A module that the source imported from elsewhere is loaded for good, so its flows go where an import puts them.
    ours = {id(flow) for flow in found}
    for flow in staging.values():
        if id(flow) not in ours and not flow.origin.entry and flow.origin.module in sys.modules:
            flow.home.register(flow)


def _settle(found: list[BaseFlow], registry: FlowRegistry | None) -> list[BaseFlow]:
    places = [(flow, flow.home if registry is None else registry) for flow in found]
    ours = {id(flow) for flow in found}
    with ExitStack() as stack:
        for place in {id(place): place for _, place in places}.values():
            stack.enter_context(place.atomic())
        for flow, place in places:
            earlier = place.get(flow.id)
            edited = earlier is not None and id(earlier) not in ours and earlier.origin.file == flow.origin.file
            place.register(flow, replace=edited)
        for flow in found:
            if flow.composite:
                flow.definition()  # raises where a part is missing
    return [flow for flow, place in places if place.get(flow.id) is flow]
