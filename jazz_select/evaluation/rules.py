"""A team's rules: the tables of `[tool.jazz-select]` in the `pyproject.toml` of the working directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from jazz_select.arguments import Constraint, check_argument, checked
from jazz_select.data_files import documents_of
from jazz_select.errors import ConfigError, DataFileError
from jazz_select.text import beginning, unknown_field

if TYPE_CHECKING:
    from jazz_select.settings import Settings

FILE = Path("pyproject.toml")
NAME = "jazz-select"
_TABLE: Final = Annotated[Mapping[str, Any], Constraint("a table, [tool.jazz-select.…]")]
Level: TypeAlias = Annotated[Literal["error", "warning", "note", "never"], Constraint("error, warning, note or never")]
T = TypeVar("T")
_LONGEST: Final = 80


def rules(kind: type[T], section: Literal["check", "gates"], *, file: Path = FILE) -> T:
    """Return the table `[tool.jazz-select.<section>]` as a dataclass; without the file or the table, its defaults.

    Dashes in names count as underscores.

    Raises:
        ConfigError: The file is unreadable, a table is none, a name is unknown, or a value is invalid.
    """
    table: Mapping[str, Any] = {}
    if file.is_file():
        try:
            (document,) = documents_of(file, suffix=".toml")
        except DataFileError as error:
            raise ConfigError(f"cannot read [tool.{NAME}] in {file}: {error.problem}") from error
        ours = _table(_table(document.value, "tool", file), NAME, file)
        _check_names(ours, ("check", "gates"), f"{file}, [tool.{NAME}]")
        table = _table(ours, section, file)
    where = f"{file}, [tool.{NAME}.{section}]"
    given = {name.replace("-", "_"): value for name, value in table.items()}
    _check_names(given, [each.name for each in fields(kind)], where)  # pyright: ignore[reportArgumentType]
    try:
        return kind(**given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _table(within: Mapping[str, Any], name: str, file: Path) -> Mapping[str, Any]:
    found = within.get(name, {})
    check_argument(f"{name} of {file}", found, _TABLE)
    return found


def _check_names(table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for name in table:
        if name not in known:
            raise ConfigError(f"{where}: {beginning(name, _LONGEST)!r} {unknown_field(name, known, of='table')}")


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a team judges its catalogue; an option or the environment overrides the embedder."""

    ignore: Sequence[str] = ()
    fail_on: Level = "error"
    embedder: Annotated[str, Constraint("a name such as static")] = ""


def judging(settings: "Settings") -> Judging:
    """Return the rules of `[tool.jazz-select.check]` combined with the settings."""
    table = rules(Judging, "check")
    is_set = "embedder" in settings.model_fields_set
    if table.embedder and not is_set:
        return table
    return replace(table, embedder=settings.embedder)
