"""Who is served: agents and their keys, several of them as `agents.yaml` lists them, none of which opens another."""

import hmac
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from jazz_select.build import load_registry
from jazz_select.data_files import read_text
from jazz_select.errors import ConfigError, DataFileError
from jazz_select.evaluation.cases import read_entries
from jazz_select.flow.base import FlowRegistry
from jazz_select.outcomes.callers import LOCAL, Caller
from jazz_select.routing.tools.skill_tools import with_skill_tools
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.routing.tools.tool_loading import load_policy, load_tools
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.settings import Settings, setting_problem

if TYPE_CHECKING:
    from jazz_select.service.shared_state import SharedState

LEAST_KEY: Final = 16
"""Characters of a key."""
_LARGEST: Final = 1 << 20
_MOST_NAMED: Final = 20
_OWN: Final = {"tools", "factory", "log", "mcp_servers", "tool_examples", "cases"}
"""What an entry and a source call alike."""
_AS_SET: Final = {"llm", "decider", "policy", "max_error", "on_empty", "on_error", "ask_user"}
"""What an entry may say otherwise than the settings."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def hash_key(key: str) -> str:
    """Return the SHA-256 of a key in hexadecimal; the key itself is not stored."""
    return sha256(key.encode(errors="surrogatepass")).hexdigest()


def unnamed_key(digest: str) -> str:
    """Name a key that has no file, after its SHA-256."""
    return f"key-{digest[:8]}"


class ServedAgents(dict[str, RunningCatalogue]):
    """Agent id to what is served of it. Keys are kept as digests alone."""

    def __init__(
        self,
        catalogues: Mapping[str, RunningCatalogue],
        keys: Mapping[str, str] | None = None,
        *,
        is_open: bool = False,
        names: Mapping[str, str] | None = None,
        teachers: Collection[str] = (),
    ) -> None:
        """Take who is served.

        Args:
            catalogues: Agent id to catalogue.
            keys: SHA-256 of a key, in hexadecimal, to the id of the agent that it opens.
            names: SHA-256 of a key to what it is called in logs; by default `key-` and the first eight digits.
            teachers: SHA-256 of the keys that may teach and correct what was asked with others. The only key of an
                agent always may.
            is_open: Whether the only agent is there for whoever asks, without a key: on loopback, or behind a socket.

        Raises:
            ConfigError: A key opens an agent that is not there, or several agents are to be open.
        """
        super().__init__(catalogues)
        self._keys = dict(keys or {})
        keys_of = Counter(self._keys.values())
        self._callers = {
            digest: Caller(
                key=(names or {}).get(digest) or unnamed_key(digest),
                may_teach=digest in teachers or keys_of[agent_id] == 1,
            )
            for digest, agent_id in self._keys.items()
        }
        unknown = sorted(set(self._keys.values()) - self.keys())
        if unknown:
            raise ConfigError(f"there are keys of agents that are not served: {', '.join(unknown[:5])}")
        if is_open and len(self) != 1:
            msg = "several agents are served: each needs a key, since without one nobody can tell whom a request is for"
            raise ConfigError(msg)
        self.is_open = is_open
        self.shared: SharedState | None = None
        """What it shares with other replicas; None where it is one process."""

    @property
    def keys_known(self) -> int:
        """How many keys there are; an agent without one counts as one."""
        return max(1, len(self._keys))

    def keys_of(self, agent_id: str) -> int:
        """Count the keys that open an agent; an agent without keys counts as having one."""
        return max(1, sum(each == agent_id for each in self._keys.values()))

    def caller(self, digest: str) -> Caller:
        """Return the caller whose key has this SHA-256; where no key is needed, the program itself."""
        return LOCAL if self.is_open else self._callers[digest]

    def of_key(self, key: str | None) -> RunningCatalogue | None:
        """Return the agent that a key opens, or None; the time it takes does not depend on the key."""
        if self.is_open:
            return next(iter(self.values()))
        digest = hash_key(key or "")
        found = None
        for known, agent_id in self._keys.items():
            if hmac.compare_digest(known, digest) and key:
                found = self[agent_id]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSource:
    """One agent that is to be served.

    Attributes:
        settings: Whose flows, where they are, and how one is chosen.
        tools: Where its tools are; beside the flows where None, if there are any.
        log: Its log of outcomes, if any.
        keys: SHA-256 of each key that opens it, in hexadecimal.
        key_names: SHA-256 of a key to its name, which is that of its file.
        teachers: SHA-256 of those of its keys that may teach.
        mcp_servers: The file of the MCP servers whose tools its clients can call over MCP, if any.
        tool_examples: The file of examples of its connected tools, if any.
        cases: Files of labelled requests that its panel judges by.
        factory: What makes the agent, as `package.module:factory`; one of the tools where None.
        agents_file: The file of agents that it is an entry of, if any.
        has_flows: Whether it has flows; one without serves tools alone.
    """

    settings: Settings
    tools: str | None = None
    log: Path | None = None
    keys: tuple[str, ...] = ()
    key_names: Mapping[str, str] = field(default_factory=dict[str, str])
    teachers: frozenset[str] = frozenset()
    mcp_servers: Path | None = None
    tool_examples: Path | None = None
    cases: tuple[Path, ...] = ()
    factory: str | None = None
    agents_file: Path | None = None
    has_flows: bool = True

    @property
    def places(self) -> tuple[str | Path, ...]:
        """Where it is read from."""
        found = (self.settings.flows if self.has_flows else None, self.tools, self.settings.learned)
        return tuple(each for each in found if each is not None)

    def read(self) -> Sources:
        """Read the flows and tools from their files."""
        if not self.has_flows:
            tools = Toolbox() if self.tools is None else load_tools(self.tools)
            return Sources(registry=FlowRegistry(min_examples=0), tools=tools)
        registry = load_registry(self.settings.flows)
        source = self.settings.flows if self.tools is None else self.tools
        tools = load_tools(source, may_be_none=self.tools is None, allow_modules=self.settings.allowed_modules)
        tools = with_skill_tools(tools, registry.values(), scripts=self.settings.skill_scripts)
        return Sources(registry=registry, tools=tools, policy=load_policy(source) if tools else None)


# --- agents.yaml ------------------------------------------------------------


_T = TypeVar("_T")


def _as_list(given: object) -> object:
    return cast("object", given) if isinstance(given, list) else [given]


def _resolve_path(path: Path, info: ValidationInfo) -> Path:
    return cast("Path", info.context) / path


def _place(source: str, info: ValidationInfo) -> str:
    """Return a path as seen from the file, or the name of a package if there is no such path."""
    path = _resolve_path(Path(source), info)
    return str(path) if path.exists() or "/" in source else source


_Several: TypeAlias = Annotated[tuple[_T, ...], BeforeValidator(_as_list)]
_Path: TypeAlias = Annotated[Path, AfterValidator(_resolve_path)]
_Place: TypeAlias = Annotated[str, AfterValidator(_place)]


class _Agent(BaseModel):
    """An entry of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    flows: _Place | None = None
    tools: _Place | None = None
    factory: str | None = None
    learned: _Path | None = None
    evidence: _Path | None = None
    log: _Path | None = None
    llm: str | None = None
    key_file: _Several[_Path] = ()
    key_sha256: _Several[str] = ()
    teach_key_file: _Several[_Path] = ()
    teach_key_sha256: _Several[str] = ()
    mcp_servers: _Path | None = None
    tool_examples: _Path | None = None
    cases: _Several[_Path] = ()
    decider: str | None = None
    policy: Literal["default", "recommended", "cautious"] | None = None
    max_error: float | None = Field(default=None, ge=0, le=1)
    on_empty: Literal["top1", "none"] | None = None
    on_error: Literal["top1", "likely", "none", "ask"] | None = None
    ask_user: bool | None = None

    @model_validator(mode="after")
    def _serves_something(self) -> Self:
        if self.flows is None and self.tools is None and self.mcp_servers is None:
            raise ValueError("needs flows, or tools or mcp_servers without them")
        return self


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    agents: Annotated[dict[str, _Agent], Field(min_length=1)]


def load_agents(file: Path, base: Settings) -> list[AgentSource]:
    """Load the agents of a file; an entry takes the settings that it omits from `base`."""
    return [_source(agent_id, each, base, file) for agent_id, each in _read_agents_file(file).agents.items()]


def key_digest(key: str, where: str) -> str:
    """Check the form of a key, and return its SHA-256."""
    if len(key) < LEAST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        msg = f"{where}: a key has at least {LEAST_KEY} characters, of ASCII, without blanks: openssl rand -hex 32"
        raise ConfigError(msg)
    return hash_key(key)


def key_of_file(file: Path) -> str:
    """Read the key in a file, without surrounding white space, and return its SHA-256."""
    try:
        text = read_text(file, _LARGEST)
    except DataFileError as error:
        raise ConfigError(f"the file of a key {file} cannot be read: {error.problem}") from error
    return key_digest(text.strip(), str(file))


def keys_of_files(files: Sequence[Path]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the SHA-256 of each file's key, and a name for each: that of its file, made unique by digits."""
    digests = tuple(map(key_of_file, files))
    names = {digest: file.stem for digest, file in zip(digests, files, strict=True)}
    alike = {name for name, count in Counter(names.values()).items() if count > 1}
    for digest, name in names.items():
        if name in alike:
            names[digest] = f"{name}-{digest[:8]}"
    return digests, names


def _read_agents_file(file: Path) -> _File:
    value = read_entries(file, "agents")
    try:
        return _File.model_validate(value, context=file.absolute().parent)
    except ValidationError as error:
        every = error.errors(include_url=False, include_context=False)
        more = f"; and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
        what = "; ".join(map(_problem, every[:_MOST_NAMED]))
        raise ConfigError(f"{file}: {what}{more}; an entry is `agents: {{NAME: {{flows: …, key_file: …}}}}`") from error


def _problem(error: ErrorDetails) -> str:
    """Return what is wrong with one setting of one agent, and where."""
    where = ".".join(map(str, error["loc"])) or "the file"
    known = _Agent if len(error["loc"]) > 1 else _File
    known_keys = f"; there are {', '.join(known.model_fields)}" if error["type"] == "extra_forbidden" else ""
    setting = "".join(map(str, error["loc"][2:3]))  # of agents, NAME, setting; empty where it is in none
    return f"{setting_problem(setting, where, [error['msg']], error['input'])}{known_keys}"


def _source(agent_id: str, entry: _Agent, base: Settings, file: Path) -> AgentSource:
    given: dict[str, Any] = {
        "agent_id": agent_id,
        **({} if entry.flows is None else {"flows": entry.flows}),
        "learned": entry.learned,
        "evidence": entry.evidence,
        **entry.model_dump(include=_AS_SET, exclude_none=True),
    }
    given |= {name: None for name in ("llm", "decider") if given.get(name) in {"", "none"}}
    for each in (*entry.key_sha256, *entry.teach_key_sha256):
        if not _SHA256.fullmatch(each):
            msg = f"agent {agent_id!r}: key_sha256 is 64 hexadecimal digits: tr -d '\\n' < FILE_OF_THE_KEY | sha256sum"
            raise ConfigError(msg)
    keys, names = keys_of_files(entry.key_file)
    teachers, teacher_names = keys_of_files(entry.teach_key_file)
    own = entry.model_dump(include=_OWN)
    return AgentSource(
        settings=base.model_copy(update=given),
        keys=tuple(dict.fromkeys((*entry.key_sha256, *entry.teach_key_sha256, *keys, *teachers))),
        key_names={**names, **teacher_names},
        teachers=frozenset((*entry.teach_key_sha256, *teachers)),
        agents_file=file,
        has_flows=entry.flows is not None,
        **own,
    )
