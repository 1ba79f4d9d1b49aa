"""Where a flow was defined: for error messages, and to find a module's flows again."""

import re
import sys
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from inspect import currentframe
from pathlib import Path
from types import FrameType

from jazz_select.threads import set_in

_PART = __name__.rpartition(".")[0]
PRIVATE = "_jazz_flows_"
"""The module name prefix of files outside packages; a digest of the path follows."""
_PRIVATE_NAME = re.compile(rf"{PRIVATE}[0-9a-f]+_")


def is_ours(defined: object) -> bool:
    """Whether a class or function belongs to the flow package, rather than to an author."""
    return defined.__module__.startswith(_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place of a definition."""

    module: str = ""
    """The module whose execution defined the flow; empty if none was being executed."""
    file: str = ""
    line: int = 0
    entry: int = 0
    """Position in a data file, from 1; 0 for flows written in Python."""

    def describe(self, subject: str) -> str:
        """Return `module.QualName (file.py:12)` for Python, `flows.yaml (flow 2)` for data."""
        if self.entry:
            return f"{short_path(self.file)} (flow {self.entry})"
        subject = _PRIVATE_NAME.sub("", subject, count=1)
        return f"{subject} ({short_path(self.file)}:{self.line})" if self.file else subject


_data: ContextVar[tuple[str, int] | None] = ContextVar("jazz_select_data_file", default=None)


def read_from(file: Path, entry: int) -> AbstractContextManager[None]:
    """Attribute flows made in the block to this entry of this data file."""
    return set_in(_data, (str(file), entry))


_received: ContextVar[bool] = ContextVar("jazz_select_received", default=False)


def without_origin() -> AbstractContextManager[None]:
    """Attribute flows made in the block to no module: they come from another process."""
    return set_in(_received, value=True)


def locate() -> Origin:
    """Return the place outside this package that is defining a flow now."""
    if _received.get():
        return Origin()
    frame = currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:  # pragma: no cover - called by an embedding program, without a Python frame around
        return Origin()
    module = _executing_module(frame)
    # Skip an author's own `__init__`, which calls ours: the flow is made where that one is called.
    while frame.f_code.co_name == "__init__" and frame.f_back is not None:
        frame = frame.f_back
    if (data := _data.get()) is not None:
        return Origin(module=module, file=data[0], entry=data[1])
    return Origin(module=module, file=frame.f_code.co_filename, line=frame.f_lineno)


def short_path(file: str) -> str:
    """Return `file` relative to the working directory if it is below it."""
    path = Path(file)
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith(_PART) or name == "contextlib"


def _executing_module(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    name: str = frame.f_globals.get("__name__", "") if frame is not None else ""
    return name if name in sys.modules else ""
