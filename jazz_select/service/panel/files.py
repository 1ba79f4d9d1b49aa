"""An agent's files: cases that its panel judges by, cases that it collects, and runs that it keeps."""

import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Final

from jazz_select.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFiles:
    """The files of one agent. Whoever serves several agents gives each its own.

    Attributes:
        cases: Files of labelled requests that the catalogue can be judged by; they are only read.
        collected: Where a correction becomes a case: YAML, JSON or JSON Lines, made when the first one is saved.
        runs: A folder of results of `eval` and `diff`, as JSON; what is judged in the panel is kept there.
    """

    cases: tuple[Path, ...] = ()
    collected: Path = field(default=Path(".jazz/cases.yaml"))
    runs: Path = field(default=Path(".jazz/runs"))

    @property
    def known(self) -> dict[str, Path]:
        """All files of cases that are there, by the names that the panel calls them."""
        return {each.as_posix(): each for each in dict.fromkeys((*self.cases, self.collected)) if each.is_file()}

    def case_file(self, name: str) -> Path:
        """The file of that name.

        Raises:
            ConfigError: The panel knows none.
        """
        known = self.known
        if name not in known:
            msg = f"there is no file of cases {name!r:.80} here; there are {', '.join(known) or 'none'}"
            raise ConfigError(msg)
        return known[name]


def files_of(agent_id: str, *, alone_here: bool) -> PanelFiles:
    """The files of an agent for which nobody named any: below `.jazz`, apart from those of other agents."""
    if alone_here:
        return PanelFiles()
    name = agent_id if is_file_name(agent_id) else sha256(agent_id.encode(errors="surrogatepass")).hexdigest()[:32]
    return PanelFiles(collected=Path(f".jazz/cases/{name}.yaml"), runs=Path(f".jazz/runs/{name}"))


def is_file_name(name: str) -> bool:
    """Whether it is the plain name of a file, which leads nowhere else."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def replaced(file: Path, write: Callable[[Path], object]) -> None:
    """Write a file whole or not at all: `write` gets the path of a draft, which then takes the file's place.

    Raises:
        ConfigError: It cannot be written; and whatever `write` raises.
    """
    draft = file.with_name(f".{os.getpid()}.{file.name}")  # of the same suffix: it is read back before it counts
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(draft)
        draft.replace(file)
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror or error}"
        raise ConfigError(msg) from error
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def alone(file: Path) -> Generator[None]:
    """While nobody else changes the file, in this process or another; a hidden lock stays beside it.

    Raises:
        ConfigError: Another one does not let go of it within ten seconds, or its folder cannot be written.
    """
    import portalocker

    flags = portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = portalocker.Lock(file.with_name(f".{file.name}.lock"), mode="a+", timeout=_PATIENCE_S, flags=flags)
        lock.acquire()
    except portalocker.exceptions.LockException as error:
        msg = f"another process is changing {file}: try again when it is done"
        raise ConfigError(msg) from error
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror or error}"
        raise ConfigError(msg) from error
    try:
        yield
    finally:
        lock.release()
