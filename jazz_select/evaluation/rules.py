"""A team's rules: the tables of `[tool.jazz-select]` in the `pyproject.toml` of the working directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
Table = Annotated[Mapping[str, Any], Constraint("a table, [tool.jazz-select.…]")]
Level: TypeAlias = Annotated[Literal["error", "warning", "note", "never"], Constraint("error, warning, note or never")]
T = TypeVar("T")
_LONGEST: Final = 80


def rules(section: str, *, file: Path = FILE) -> Mapping[str, Any]:
    """Return the table `[tool.jazz-select.<section>]` (check or gates); empty without the file or the section.

    Raises:
        ConfigError: The file is unreadable, the section is no table, or there is a section of another name.
    """
    if not file.is_file():
        return {}
    try:
        (document,) = documents_of(file, suffix=".toml")
    except DataFileError as error:
        raise ConfigError(f"cannot read [tool.{NAME}] in {file}: {error.problem}") from error
    table: Any = document.value
    for name in ("tool", NAME):
        table = table.get(name, {})
        check_argument(f"{name} of {file}", table, Table)
    return getattr(table_as(_Sections, table, f"{file}, [tool.{NAME}]"), section)


def table_as(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return a table as a dataclass with checked fields; dashes in names count as underscores.

    Raises:
        ConfigError: A name is unknown or a value is invalid.
    """
    known = [each.name for each in fields(kind)]  # pyright: ignore[reportArgumentType]
    given = {name.replace("-", "_"): value for name, value in table.items()}
    for name in given:
        if name not in known:
            raise ConfigError(f"{where}: {beginning(name, _LONGEST)!r} {unknown_field(name, known, of='table')}")
    try:
        return kind(**given)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class _Sections:
    """The known tables; another name is a mistake."""

    check: Table = field(default_factory=dict[str, Any])
    gates: Table = field(default_factory=dict[str, Any])


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a team judges its catalogue; an option or the environment overrides the embedder."""

    ignore: Sequence[str] = ()
    fail_on: Level = "error"
    embedder: Annotated[str, Constraint("a name such as static")] = ""


def judging(settings: "Settings") -> Judging:
    """Return the rules of `[tool.jazz-select.check]` combined with the settings."""
    table = table_as(Judging, rules("check"), f"{FILE}, [tool.{NAME}.check]")
    is_set = "embedder" in settings.model_fields_set
    return replace(table, embedder=settings.embedder if is_set or not table.embedder else table.embedder)
