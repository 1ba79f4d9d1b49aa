"""An agent's files: cases that its panel judges by, cases that it collects, and runs that it keeps."""

import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from jazz_select.errors import ConfigError
from jazz_select.evaluation.whole_files import write_whole

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelFiles:
    """The files of one agent. Whoever serves several agents gives each its own.

    Attributes:
        cases: Files of labelled requests that the catalogue can be judged by; they are only read.
        collected: Where a correction becomes a case: YAML or JSON Lines, made when the first one is saved.
        runs: A folder of results of `eval` and `diff`, as JSON; what is judged in the panel is kept there.
    """

    collected: Path
    runs: Path
    cases: tuple[Path, ...] = ()

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


def files_of(agent_id: str, home: Path, cases: tuple[Path, ...] = ()) -> PanelFiles:
    """The files of an agent below a folder that the service may write, apart from those of other agents.

    Args:
        agent_id: Whose they are.
        home: The service's folder of what is kept, as of `state_folder`.
        cases: Files of labelled requests, to be read.
    """
    name = agent_id if is_file_name(agent_id) else sha256(agent_id.encode(errors="surrogatepass")).hexdigest()[:32]
    own = home / "panel" / name
    return PanelFiles(collected=own / "cases.yaml", runs=own / "runs", cases=cases)


def is_file_name(name: str) -> bool:
    """Whether it is the plain name of a file, which leads nowhere else."""
    return bool(_NAME.fullmatch(name)) and ".." not in name


def replaced(file: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        write_whole(file, content)
    except OSError as error:
        msg = f"cannot write {file}: {error.strerror or error}"
        raise ConfigError(msg) from error
