"""Import the Python files that define flows; a failed import can be tried again."""

import sys
from collections.abc import Generator, Iterable
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import iter_modules
from traceback import extract_tb
from types import CodeType
from typing import Final

from jazz_select.errors import FlowError, FlowLoadError
from jazz_select.flow.origin import PRIVATE, short_path
from jazz_select.threads import set_in

NOT_THERE: Final = "there is no package, module, folder or file of that name"
_ran: ContextVar[set[str] | None] = ContextVar("jazz_select_files_run", default=None)


class AsWritten(SourceFileLoader):
    """A loader that always compiles: bytecode caches compare second and size, which an edit may not change."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the current file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def run_once(kept: Iterable[str] = ()) -> AbstractContextManager[None]:
    """Run each file at most once in the block; modules of the given names not at all."""
    return set_in(_ran, set(kept))


def is_package(folder: Path) -> bool:
    """Whether a folder is importable under its own name."""
    return (folder / "__init__.py").is_file()


def import_name(name: str) -> list[str]:
    """Import a module, and all below it if it is a package.

    Raises:
        FlowLoadError: One cannot be imported; those imported by this call are removed again.
    """
    invalidate_caches()
    before = set(sys.modules)
    try:
        with _translate_errors(name, wanted=name):
            import_module(name)
        return [name, *_modules_below(name)]
    except BaseException:
        for module in set(sys.modules) - before:
            if module == name or module.startswith(f"{name}."):
                del sys.modules[module]
        raise


def import_folder(folder: Path) -> list[str]:
    """Import a folder with an `__init__.py` under its own name, and all modules below it."""
    with _importable(folder / "__init__.py") as name:
        return import_name(name)


def import_file(file: Path) -> str:
    """Import a file: as its module if its folder is a package, else under a private name, anew each time.

    Within `run_once` it runs once.
    """
    if is_package(file.parent):
        with _importable(file) as name, _translate_errors(short_path(str(file))):
            invalidate_caches()
            import_module(name)
        return name
    name = f"{PRIVATE}{sha256(str(file).encode()).hexdigest()[:12]}_{file.stem}"
    ran = _ran.get()
    if ran is not None and name in ran and name in sys.modules:
        return name
    spec = spec_from_file_location(name, file, loader=AsWritten(name, str(file)))
    if spec is None or spec.loader is None:  # pragma: no cover - a .py file always has a loader
        raise FlowLoadError(short_path(str(file)), "Python cannot import it")
    earlier = sys.modules.pop(name, None)
    sys.modules[name] = module = module_from_spec(spec)
    try:
        with _translate_errors(short_path(str(file))):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if earlier is not None:
            sys.modules[name] = earlier
        raise
    if ran is not None:
        ran.add(name)
    return name


def _modules_below(package: str) -> Generator[str, None, None]:
    for found in iter_modules(getattr(sys.modules[package], "__path__", ())):
        # `__main__` is a program and defines no flows.
        if found.name == "__main__":
            continue
        name = f"{package}.{found.name}"
        with _translate_errors(name):
            import_module(name)
        yield name
        if found.ispkg:
            yield from _modules_below(name)


@contextmanager
def _importable(file: Path) -> Generator[str, None, None]:
    """Make a package's file importable in the block, and yield its module name."""
    folder = file.parent
    parts = [] if file.stem == "__init__" else [file.stem]
    expected: list[Path] = []
    while is_package(folder):
        parts.insert(0, folder.name)
        expected.insert(0, folder / "__init__.py")
        folder = folder.parent
    if any("." in part for part in parts):
        raise FlowLoadError(short_path(str(file)), "a name with a dot in it cannot be imported; rename it")
    homes = {".".join(parts[: depth + 1]): home for depth, home in enumerate(expected)} | {".".join(parts): file}
    _check_homes(homes)
    sys.path.insert(0, str(folder))
    try:
        yield ".".join(parts)
        _check_homes(homes)
    finally:
        sys.path.remove(str(folder))


def _check_homes(homes: dict[str, Path]) -> None:
    for name, home in homes.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        file = getattr(module, "__file__", None)
        if file is None or Path(file).resolve() != home.resolve():
            problem = f"another module named {name!r} is already imported, from {file or 'elsewhere'}; rename one"
            raise FlowLoadError(short_path(str(home)), problem)


@contextmanager
def _translate_errors(subject: str, *, wanted: str = "") -> Generator[None, None, None]:
    try:
        yield
    except FlowError:
        raise
    except ModuleNotFoundError as error:
        if error.name and f"{wanted}.".startswith(f"{error.name}."):
            raise FlowLoadError(subject, NOT_THERE) from error
        problem = f"it needs the module {error.name!r}, which is not there{_source_line(error)}"
        hint = "install it; a neighbouring file can only be imported if the folder has an __init__.py"
        raise FlowLoadError(subject, f"{problem}; {hint}") from error
    except (Exception, SystemExit) as error:
        problem = f"running it raised {type(error).__name__}: {error}{_source_line(error)}"
        # A file that ends the program or starts an event loop is one that was meant to be run.
        if isinstance(error, SystemExit) or "asyncio.run()" in str(error):
            problem += '; put what it does as a program under `if __name__ == "__main__":`'
        raise FlowLoadError(subject, problem) from error


def _source_line(error: BaseException) -> str:
    for frame in reversed(extract_tb(error.__traceback__)):
        # Frames of the import machinery and of this module say nothing about the author's file.
        if not frame.filename.startswith("<frozen") and frame.filename != __file__:
            return f" ({short_path(frame.filename)}:{frame.lineno})"
    return ""
