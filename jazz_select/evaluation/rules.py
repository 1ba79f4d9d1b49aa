"""A team's own rules: what `[tool.jazz-select]` of the `pyproject.toml` in the working directory says of judging."""

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
    """What `[tool.jazz-select.<section>]` says; empty where there is no such file or section.

    Args:
        section: `check` or `gates`.
        file: Seen from the working directory.

    Raises:
        ConfigError: The file cannot be read, the section is no table, or there is one that nobody would keep to.
    """
    if not file.is_file():
        return {}
    try:
        (document,) = documents_of(file, suffix=".toml")
    except DataFileError as error:
        raise ConfigError(f"cannot read [tool.{NAME}] in {file}: {error.problem}") from error
    said: Any = document.value
    for name in ("tool", NAME):
        said = said.get(name, {})
        check_argument(f"{name} of {file}", said, Table)
    return getattr(table_as(_Sections, said, f"{file}, [tool.{NAME}]"), section)


def table_as(kind: type[T], said: Mapping[str, Any], where: str) -> T:
    """A table as a dataclass whose fields are checked; a dash in a name is as good as an underscore.

    Raises:
        ConfigError: It has a name that is not known, which a slip of the pen would be, or a value that cannot work.
    """
    known = [each.name for each in fields(kind)]  # pyright: ignore[reportArgumentType]
    given = {name.replace("-", "_"): value for name, value in said.items()}
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
    """The tables that there are; one of another name would be a rule that nobody keeps."""

    check: Table = field(default_factory=dict[str, Any])
    gates: Table = field(default_factory=dict[str, Any])


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a team judges its catalogue, from the command line and from the panel alike.

    Attributes:
        ignore: Findings that are accepted, as for `check`.
        fail_on: From which severity on a check fails.
        embedder: An option or the environment wins over the project's file, which wins over the default.
    """

    ignore: Sequence[str] = ()
    fail_on: Level = "error"
    embedder: Annotated[str, Constraint("a name such as static")] = ""


def judging(settings: "Settings") -> Judging:
    """What the settings and the project's file say of judging a catalogue."""
    said = table_as(Judging, rules("check"), f"{FILE}, [tool.{NAME}.check]")
    told = "embedder" in settings.model_fields_set
    return replace(said, embedder=settings.embedder if told or not said.embedder else said.embedder)
