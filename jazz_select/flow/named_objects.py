"""Objects that a data file names as `module:name`: which modules they may come from, and how they are found.

A data file is read more lightly than code: it comes from a form, a repository of others, a model. So it may name what
the project itself wrote beside it, and not what Python or any installed package happens to have, such as
`subprocess:getoutput`.
"""

import sys
import sysconfig
from collections.abc import Collection
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from inspect import isclass, isroutine
from pathlib import Path
from types import ModuleType
from typing import Final

from jazz_select.errors import ConfigError
from jazz_select.flow.imports import import_file
from jazz_select.text import did_you_mean

_OURS: Final = "jazz_select"
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})


def named_object(named: str, *, file: Path, allow_modules: Collection[str] = ()) -> object:
    """Return the object that a data file names.

    Its module is looked for beside the file first, then where Python looks. Allowed are modules in the file's folder
    and below it, the package that the file lies in, whatever else Python finds outside of its own library and of
    installed packages, and the modules that the caller lists.

    Args:
        named: The object as `module:name`, or `module:name.attribute`.
        file: The data file.
        allow_modules: Names of further modules or packages, installed ones or of Python's own.

    Raises:
        ConfigError: The module may not be named there, or the name is no such path.
        ImportError: There is no such module, or it cannot be imported.
        AttributeError: The module has no such object.
        FlowLoadError: The module beside the file cannot be imported.
    """
    name, colon, path = named.partition(":")
    parts = (*name.split("."), *path.split("."))
    if not colon or not path or not all(map(str.isidentifier, parts)):
        raise ConfigError("it is told as `module:name`, such as shop.orders:lookup_order")
    found: object = _module(name, file, allow_modules)
    for part in path.split("."):
        # By attributes such as `__globals__`, any function would lead to everything.
        if part.startswith("__"):
            raise ConfigError(f"{part} is Python's own: name what the module defines")
        found = _attribute(found, part, of=name)
        if isinstance(found, ModuleType):
            raise ConfigError(f"{part} is another module: name what {name} itself defines")
    _check_home(found, name, file, allow_modules)
    return found


def _attribute(owner: object, name: str, *, of: str) -> object:
    """Return an attribute; a missing one is an error that names the file's own module and the nearest public name."""
    try:
        return getattr(owner, name)
    except AttributeError as error:
        known = dir(owner)
        if name in known:  # it is there, and its own code failed
            raise
        problem = f"{of} has no attribute {name!r}"
        hint = did_you_mean(name, [each for each in known if not each.startswith("_")])
        raise AttributeError(f"{problem}; {hint}" if hint else problem) from error


def _module(name: str, file: Path, allow_modules: Collection[str]) -> ModuleType:
    beside = _file_beside(name, file)
    spec = _spec(name.partition(".")[0])
    if beside is not None and not _is_same(name, beside):
        return sys.modules[import_file(beside)]
    _check(name, spec, file, allow_modules)
    return import_module(name)


def _file_beside(name: str, file: Path) -> Path | None:
    place = file.resolve().parent.joinpath(*name.split("."))
    for module in (place.with_suffix(".py"), place / "__init__.py"):
        if module.is_file():
            return module
    return None


def _is_same(name: str, beside: Path) -> bool:
    """Whether Python finds the file beside by this name itself: then it is imported once, under its own name."""
    known = sys.modules.get(name)
    if known is not None:
        origin = getattr(known, "__file__", None)
        return origin is not None and Path(origin).resolve() == beside
    top = _spec(name.partition(".")[0])
    origins = _origins(top)
    depth = len(name.split("."))
    home = beside.parent if beside.name == "__init__.py" else beside
    root = home.parents[depth - 1] if depth <= len(home.parents) else home
    return any(origin.is_relative_to(root) for origin in origins)


def _spec(top: str) -> ModuleSpec | None:
    try:
        return find_spec(top)
    except (ImportError, ValueError):
        return None


def _origins(spec: ModuleSpec | None) -> list[Path]:
    if spec is None:
        return []
    places = list(spec.submodule_search_locations or ())
    if spec.has_location and spec.origin:
        places.append(spec.origin)
    return [Path(each).resolve() for each in places]


def _check(name: str, spec: ModuleSpec | None, file: Path, allow_modules: Collection[str]) -> None:
    if _is_listed(name, allow_modules):
        return
    if spec is None:
        return  # importing it says that there is none
    origins = _origins(spec)
    if origins and all(_is_the_projects(each, file) for each in origins) and name.partition(".")[0] != _OURS:
        return
    raise _refusal(name)


def _refusal(name: str) -> ConfigError:
    return ConfigError(
        f"the module {name!r:.80} is not the project's own, and a data file may name no other: write the function in "
        f"a module beside the file, or allow this one (load_tools(…, allow_modules=[{name!r:.80}]), JAZZ_ALLOW_MODULES)"
    )


def _is_listed(name: str, allow_modules: Collection[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in allow_modules)


def _is_the_projects(origin: Path, file: Path) -> bool:
    folder = file.resolve().parent
    if origin.is_relative_to(folder):
        return True
    root = folder
    while (root / "__init__.py").is_file():
        root = root.parent
    # The package that the file lies in, installed or not.
    if root != folder and origin.is_relative_to(root / folder.relative_to(root).parts[0]):
        return True
    if _INSTALLED.intersection(origin.parts):
        return False
    return not any(origin.is_relative_to(each) for each in _python_folders())


def _python_folders() -> list[Path]:
    paths = sysconfig.get_paths()
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    return [Path(paths[kind]).resolve() for kind in kinds if kind in paths]


def _check_home(found: object, name: str, file: Path, allow_modules: Collection[str]) -> None:
    """Refuse a function or class that its module only imported from where a data file may not reach."""
    if not isroutine(found) and not isclass(found):
        return  # an object that the module made, such as a Tool
    home: object = getattr(found, "__module__", None)
    if not isinstance(home, str):
        raise _refusal(name)
    module = sys.modules.get(home)
    origin = getattr(module, "__file__", None)
    if _is_listed(home, allow_modules):
        return
    is_ours = home.partition(".")[0] == _OURS
    if origin is None or is_ours or not _is_the_projects(Path(origin).resolve(), file):
        raise _refusal(home)
