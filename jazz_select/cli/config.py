"""What `--config` sets: files of settings and single ones as `KEY=VALUE`, under the names that the options have.

An option wins over them, they win over the environment, and of several the last one counts.
"""

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast, get_args

import orjson
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import read_document
from jazz_select.json_values import is_array
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import IN_DATABASE, Settings, expanded, has_variable, value_problem
from jazz_select.text import did_you_mean

_Config = TypeVar("_Config", bound="CommandConfig")
_T = TypeVar("_T")
_LIMITS: Final = frozenset(each.name for each in fields(ServeOptions)) - {"mcp"}
_BOOLEANS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_PLACES: Final = frozenset({"flows", "tools"})
"""Settings that are a path, or the name of a package."""
_FILES: Final = frozenset(
    {
        *("agents", "cases", "evidence", "index", "key_file", "learned", "log", "mcp_servers", "output"),
        *("serve_state", "teach_key_file", "tool_examples", "uds"),
    }
)
"""Settings that are paths. In a file they are as seen from its folder."""
_LOGS: Final = frozenset({"evidence", "log"})
"""Settings that may also be `IN_DATABASE`."""
_MAY_BE_EMPTY: Final = frozenset({"allow_modules", "decider", "llm"})
_TEXT: Final[frozenset[Any]] = frozenset({str, SecretStr, NoneType, ...})
"""What the type of a setting consists of that is a text, or several."""
_INSTEAD_OF: Final[Mapping[str, frozenset[str]]] = {
    "index": frozenset({"url"}),
    "url": frozenset({"index"}),
    "host": frozenset({"uds"}),
    "port": frozenset({"uds"}),
    "uds": frozenset({"host", "port"}),
}
"""By setting, those that it takes the place of where they were set before."""


def _as_list(given: object) -> object:
    if given is None or isinstance(given, list | tuple):
        return cast("object", given)
    return [given]


_Several: TypeAlias = Annotated[tuple[_T, ...], BeforeValidator(_as_list)]


class CommandConfig(BaseModel):
    """What a command takes beside `Settings`, by option and by `--config`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )
    command: ClassVar[str]

    @classmethod
    def file_names(cls) -> list[str]:
        """Return the names that its files may use, without those of `Settings`."""
        return [each.alias or name for name, each in cls.model_fields.items()]


class ServeConfig(CommandConfig):
    """What `serve` takes."""

    command: ClassVar[str] = "serve"
    tools: str | None = Field(default=None, description="Its tools; without it those beside the flows.")
    factory: str | None = Field(default=None, alias="agent", description="MODULE:FACTORY that makes the agent.")
    agents: Path | None = Field(default=None, description="The file of several agents.")
    log: Path | None = Field(default=None, description="The log of outcomes.")
    cases: _Several[Path] = Field(default=(), description="Labelled requests that the panel judges by.")
    host: str = Field(default="127.0.0.1", description="Another than this machine's own needs a key.")
    port: int = Field(default=8420, ge=0, le=65_535, description="0: one that is free; it is printed.")
    uds: Path | None = Field(default=None, description="A Unix socket instead, for its owner and group.")
    key_file: _Several[Path] = Field(default=(), description="Files with the keys that callers send.")
    teach_key_file: _Several[Path] = Field(
        default=(), description="Likewise, of callers who may teach, and correct what was asked with other keys."
    )
    mcp: Literal["http", "stdio", "none"] = Field(default="http", description="How MCP is served.")
    mcp_servers: Path | None = Field(default=None, description="The MCP servers to be a gateway for.")
    tool_examples: Path | None = Field(default=None, description="Requests that each connected tool is for.")
    mcp_listed: Literal["none", "found", "all"] = Field(
        default="none", description="Tools listed beside the four: none, those that a search has found, or all."
    )
    reload: bool = Field(default=True, description="Whether changed files are live at once.")
    reload_every: float | None = Field(default=None, ge=0.05, description="Seconds between two looks at the files.")
    access_log: bool = Field(default=True, description="Whether each request is a line of JSON on stderr.")
    yes: bool = Field(default=False, description="Delete from the index also where that is most of an agent's flows.")
    options: ServeOptions = Field(default=ServeOptions(), exclude=True)

    @classmethod
    def file_names(cls) -> list[str]:
        """Return the names that its files may use: the limits of a service stand among the rest."""
        own = [name for name in super().file_names() if name != "options"]
        return [*own, *sorted(_LIMITS)]


class EvalConfig(CommandConfig):
    """What `eval` takes beside the options that name what is judged."""

    command: ClassVar[str] = "eval"
    factory: str = Field(default="", alias="agent", description="MODULE:FACTORY that makes the agent.")
    log: Path | None = Field(default=None, description="A log of outcomes.")
    tag: _Several[str] = Field(default=(), description="Only cases with one of these tags.")
    at: float = Field(
        default=0.99, ge=0, le=1, description="The share that is to be right of what is decided without a model."
    )
    k: _Several[Annotated[int, Field(ge=1, le=10)]] = Field(default=(), description="Show R@N for these as well.")
    fail_under: _Several[str] = Field(default=(), description="MEASURE=VALUE, below which the exit code is 1.")
    by_flow: bool = Field(default=False, description="Show every flow, not the worst alone.")
    format: Literal["table", "json", "junit", "markdown"] | None = Field(
        default=None, description="How it is told; without it by the suffix of the output."
    )
    output: Path | None = Field(default=None, description="A file to write it to.")


@dataclass(frozen=True, slots=True)
class ConfigEntries:
    """What was set by `--config`.

    Attributes:
        values: By name.
        places: By name, where it was set, for messages.
        shown: By name, what messages show in place of a value that variables of the environment are part of.
    """

    values: Mapping[str, Any]
    places: Mapping[str, str]
    shown: Mapping[str, str]

    def without_overridden(self, options: Iterable[str]) -> dict[str, Any]:
        """Return the values but for those that an option takes the place of, such as a `url` beside `--index`."""
        return _without_replaced(self.values, options)


def read_config(given: Sequence[str], kind: type[CommandConfig]) -> ConfigEntries:
    """Read files and `KEY=VALUE` pairs, in their order.

    Raises:
        ConfigError: A file cannot be read or holds no mapping, a name is unknown, or a value is empty. A value of null
            is none: the default holds.
    """
    known = _names_of(kind)
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    shown: dict[str, str] = {}
    for each in given:
        found: dict[str, Any] = {}
        for entry in _entries_of(each, kind):
            if entry.key not in known:
                raise ConfigError(f"{entry.place}: there is no such setting; {_what_there_is(entry.key, kind)}")
            if entry.value == "" and entry.key not in _MAY_BE_EMPTY:
                raise ConfigError(f"{entry.place}: must not be empty; leave it out for the default")
            found[entry.key] = entry.value
            places[entry.key] = entry.place
            shown[entry.key] = entry.shown
        _check_place_of_index(found, places)
        values = {**_without_replaced(values, found), **found}
    return ConfigEntries(
        values={key: value for key, value in values.items() if value is not None},
        places=places,
        shown={key: text for key, text in shown.items() if text},
    )


def config_of(kind: type[_Config], entries: ConfigEntries, options: Mapping[str, Any]) -> _Config:
    """Return what a command takes: its options, and in their absence what `--config` says.

    Args:
        kind: What the command takes.
        entries: What `--config` says.
        options: All that the command was given, by the names of its options; None where one was not.

    Raises:
        ConfigError: A value is invalid.
    """
    names = {name: each.alias or name for name, each in kind.model_fields.items()}
    passed = {key: options[name] for name, key in names.items() if options.get(name) is not None}
    values = entries.without_overridden(passed)
    own = {key: values[key] for key in names.values() if key in values}
    try:
        made = kind.model_validate({**own, **passed})
    except ValidationError as error:
        raise ConfigError("; ".join(_problems(error, entries))) from error
    if not isinstance(made, ServeConfig):
        return made
    return made.model_copy(update={"options": _serve_options(entries, mcp=made.mcp == "http")})


def config_schema(kind: type[CommandConfig]) -> dict[str, Any]:
    """Return the JSON Schema of a file for `--config`, for editors."""
    schema = kind.model_json_schema(by_alias=True)
    own = {name: _one_or_several(each) for name, each in schema["properties"].items()}
    settings = _with_words(Settings.model_json_schema()["properties"], _docstrings_of_fields(Settings))
    schema["properties"] = {**settings, **own}
    if kind is ServeConfig:
        limits = _with_words(TypeAdapter(ServeOptions).json_schema()["properties"], _attributes_of(ServeOptions))
        schema["properties"] = {**limits, **schema["properties"]}
        del schema["properties"]["options"], schema["$defs"]
    return schema


def _one_or_several(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a field; where several values may be given, one may stand for itself."""
    if field.get("type") != "array":
        return field
    about = {key: value for key, value in field.items() if key not in {"type", "items"}}
    return {"anyOf": [field["items"], {"type": "array", "items": field["items"]}], **about}


def _with_words(fields: Mapping[str, dict[str, Any]], words: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    return {name: {"description": words.get(name, ""), **each} for name, each in fields.items()}


def _docstrings_of_fields(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstring below each field of a class. Pydantic could, but would at each import."""
    (made,) = ast.parse(inspect.getsource(model)).body
    found: dict[str, str] = {}
    for field, below in pairwise(cast("ast.ClassDef", made).body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


def _attributes_of(options: type[ServeOptions]) -> Mapping[str, str]:
    """Return what the docstring of a class says of its attributes."""
    from jazz_select.routing.tools.tool import split_docstring

    return split_docstring((inspect.getdoc(options) or "").replace("Attributes:", "Args:"))[1]


def value_of(text: str) -> Any:
    """Return the value of a `KEY=VALUE` pair: a boolean as people write it, then JSON (3, ["a"]), else text."""
    known = text.strip().lower()
    if known in _BOOLEANS:
        return _BOOLEANS[known]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _names_of(kind: type[CommandConfig]) -> set[str]:
    return {*Settings.model_fields, *kind.file_names()}


def _texts_of(kind: type[CommandConfig]) -> set[str]:
    """Return the names of the settings that are a text, or several."""
    own = {each.alias or name: each for name, each in kind.model_fields.items()}
    every = {**Settings.model_fields, **own}
    types = {name: each.annotation for name, each in every.items()}
    return {name for name, each in types.items() if _TEXT.issuperset(get_args(each) or (each,))}


def _what_there_is(key: str, kind: type[CommandConfig]) -> str:
    """Return what to write instead of an unknown setting."""
    near = did_you_mean(key.strip("-").lower().replace("-", "_").removeprefix("jazz_"), sorted(_names_of(kind)))
    others = [each.command for each in CommandConfig.__subclasses__() if key in each.file_names()]
    if others:
        return f"it is one of {others[0]}"
    return near or f"`jazz-select schema {kind.command}` lists all"


def _without_replaced(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    replaced = frozenset[str]().union(*(_INSTEAD_OF.get(each, ()) for each in names))
    return {key: value for key, value in values.items() if key not in replaced}


def _check_place_of_index(found: Mapping[str, Any], places: Mapping[str, str]) -> None:
    if found.get("index") is not None and found.get("url") is not None:
        raise ConfigError(f"{places['url']}: the flows are indexed at one place; keep index or url, got both")


class _Entry(NamedTuple):
    """One setting: its value, where it was set, and what messages show in place of a value that may be a secret."""

    key: str
    value: Any
    place: str
    shown: str = ""


def _entries_of(given: str, kind: type[CommandConfig]) -> Iterator[_Entry]:
    key, equals, value = given.partition("=")
    key = key.strip()
    is_name = key.replace("-", "_").isidentifier()
    if equals and is_name and (key in _names_of(kind) or not Path(given).is_file()):
        yield _Entry(key, _as_seen_from(Path(), key, _value_of_pair(key, value, kind)), f"--config {key}")
        return
    if not given or given.startswith("=") or "://" in given:
        # What was given is not shown: a URL may have a password in it.
        raise ConfigError("--config must be a FILE or KEY=VALUE, such as serve.yaml or port=8420")
    yield from _entries_of_file(Path(given))


def _value_of_pair(key: str, text: str, kind: type[CommandConfig]) -> Any:
    found: object = value_of(text)
    is_text = found is not None and not isinstance(found, str | list) and key in _texts_of(kind)
    return text if is_text else cast("Any", found)


def _entries_of_file(file: Path) -> Iterator[_Entry]:
    held, node = read_document(file, "settings")
    if not isinstance(held, dict):
        # Its text is not shown: it may be a key.
        what = "nothing" if held is None else f"a {type(held).__name__}"
        raise ConfigError(f"{file} must hold settings, such as `port: 8420`, got {what}")
    for key, written in cast("dict[object, Any]", held).items():
        name = _as_written(key, node)
        value = _as_seen_from(file.absolute().parent, name, _expand_values(written))
        shown = f"the value of {written}" if _has_variable(written) else ""
        yield _Entry(name, value, f"{file}: {name}", shown)


def _as_written(key: object, node: yaml.Node | None) -> str:
    """Return the name of a setting. `yes` is one, and a boolean to YAML."""
    if isinstance(key, bool) and isinstance(node, yaml.MappingNode):
        for name, _ in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if isinstance(name, yaml.ScalarNode) and _BOOLEANS.get(str(name.value).lower()) is key:
                return str(name.value)
    return str(key)


def _expand_values(value: Any) -> Any:
    if is_array(value):
        return [_expand_values(each) for each in value]
    if isinstance(value, str):
        return expanded(value)
    return value


def _has_variable(value: Any) -> bool:
    if is_array(value):
        return any(map(_has_variable, value))
    return isinstance(value, str) and has_variable(value)


def _as_seen_from(folder: Path, key: str, value: Any) -> Any:
    if is_array(value):
        return [_as_seen_from(folder, key, each) for each in value]
    if not isinstance(value, str) or not value:
        return value
    path = folder / _without_tilde(value)
    if key in _PLACES:  # else it is the name of a package
        is_path = path.exists() or "/" in value
    elif key in _LOGS and Path(value) == IN_DATABASE:
        is_path = False
    else:
        is_path = key in _FILES
    return str(path) if is_path else value


def _without_tilde(path: str) -> Path:
    with suppress(RuntimeError):  # there is no such user
        return Path(path).expanduser()
    return Path(path)


def _serve_options(entries: ConfigEntries, *, mcp: bool) -> ServeOptions:
    limits = {key: _limit_of(value) for key, value in entries.values.items() if key in _LIMITS}
    for key, value in limits.items():
        try:
            ServeOptions(**{key: value})
        except ConfigError as error:
            problem = str(error).removeprefix(f"{key} ")
            if key in entries.shown:
                requirement, _, _ = problem.rpartition(", got ")
                problem = f"{requirement}, got {entries.shown[key]}"
            raise ConfigError(f"{entries.places[key]}: {problem}") from None  # its cause shows the value
    return ServeOptions(**limits, mcp=mcp)


def _limit_of(value: Any) -> Any:
    """Return a limit; one that came from the environment is a text."""
    return value_of(value) if isinstance(value, str) else value


def _problems(error: ValidationError, entries: ConfigEntries) -> Iterator[str]:
    for each in error.errors(include_url=False, include_context=False):
        key = str(each["loc"][0])
        place = entries.places.get(key) or f"--{key.replace('_', '-')}"
        if each["type"] == "path_type":
            problem = "must be a path"
        else:
            problem = value_problem(each["msg"], each["input"])
        value = entries.shown.get(key) or repr(each["input"])[:60]
        yield f"{place}: {problem.replace('Input should be', 'must be')}, got {value}"
