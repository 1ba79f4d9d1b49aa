"""A team's own rules: what `[tool.jazz-select]` of the `pyproject.toml` in the working directory says of judging."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from jazz_select.errors import ConfigError, FlowLoadError
from jazz_select.flow.data import read_text

if TYPE_CHECKING:
    from jazz_select.settings import Settings

FILE = Path("pyproject.toml")
NAME = "jazz-select"
_CHECK: Final = "check"
_OF_A_CHECK: Final = ("ignore", "fail-on", "embedder")
SECTIONS = (_CHECK, "gates")
"""The tables that there are; one of another name would be a rule that nobody keeps."""


def rules(section: str, *, file: Path = FILE) -> Mapping[str, Any]:
    """What `[tool.jazz-select.<section>]` says; empty where there is no such file or section.

    Args:
        section: `check`, `gates` or another.
        file: Seen from the working directory.

    Raises:
        ConfigError: The file cannot be read, or the section is no table.
    """
    if not file.is_file():
        return {}
    try:
        said: object = tomllib.loads(read_text(file))
    except (FlowLoadError, tomllib.TOMLDecodeError, RecursionError) as error:
        told = error.problem if isinstance(error, FlowLoadError) else str(error)
        msg = f"cannot read [tool.{NAME}] in {file}: {told}"
        raise ConfigError(msg) from error
    path = ("tool", NAME, section)
    for depth, name in enumerate(path, start=1):
        if name == section:
            known_only(cast("Mapping[str, Any]", said), SECTIONS, section="", file=file)
        said = cast("Mapping[str, object]", said).get(name, {})
        if not isinstance(said, dict):
            msg = f"{file}: {'.'.join(path[:depth])} has to be a table, [{'.'.join(path[:depth])}], not {said!r:.80}"
            raise ConfigError(msg)
    return cast("Mapping[str, Any]", said)


def texts(said: Mapping[str, Any], name: str, *, section: str, file: Path = FILE) -> tuple[str, ...]:
    """A list of texts in such a section; empty where it has none of this name.

    Raises:
        ConfigError: It is no list of texts.
    """
    given: object = said.get(name, [])
    entries = cast("list[object]", given) if isinstance(given, list) else []
    if not isinstance(given, list) or not all(isinstance(each, str) for each in entries):
        msg = f"{file}: {name} of [tool.{NAME}.{section}] has to be a list of texts, not {given!r:.120}"
        raise ConfigError(msg)
    return tuple(cast("list[str]", entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a team judges its catalogue, from the command line and from the panel alike.

    Attributes:
        embedder: An option or the environment wins over the project's file, which wins over the default.
        language: As the settings say.
        ignore: Findings that are accepted, as for `check`.
        learned: What was learned, where the settings name a file of it and it has been made by now.
        fail_on: From which severity on a check fails, as it is written; None where the file does not say.
    """

    embedder: str
    language: str
    ignore: tuple[str, ...] = ()
    learned: Path | None = None
    fail_on: object = None


def judging(settings: "Settings") -> Judging:
    """What the settings and the project's file say of judging a catalogue.

    Raises:
        ConfigError: The file cannot be read, or says what is not known or cannot work.
    """
    said = rules(_CHECK)
    known_only(said, _OF_A_CHECK, section=_CHECK)
    named: object = said.get("embedder", settings.embedder)
    if not isinstance(named, str):
        msg = f"{FILE}: embedder is a name such as static, not {named!r:.40}"
        raise ConfigError(msg)
    return Judging(
        embedder=settings.embedder if "embedder" in settings.model_fields_set else named,
        language=settings.language,
        ignore=texts(said, "ignore", section=_CHECK),
        learned=learned_file(settings),
        fail_on=said.get("fail-on"),
    )


def learned_file(settings: "Settings") -> Path | None:
    """What was learned, where the settings name a file of it and `learn` has made it by now."""
    return settings.learned if settings.learned is not None and settings.learned.exists() else None


def known_only(said: Mapping[str, Any], names: tuple[str, ...], *, section: str, file: Path = FILE) -> None:
    """See that a section has no other names than these, which a slip of the pen would be.

    Raises:
        ConfigError: It has.
    """
    strange = sorted(set(said) - set(names))
    if strange:
        table = f"tool.{NAME}.{section}".removesuffix(".")
        msg = f"{file}: [{table}] has {strange[0]!r:.80}, which is not known; there is {', '.join(names)}"
        raise ConfigError(msg)
