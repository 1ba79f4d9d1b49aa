"""Settings from the environment (`JAZZ_*`), frozen. Only this module reads the environment."""

import os
import re
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from jazz_select.errors import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_TO_WRITE: Final[Mapping[str, str]] = {
    "grpc_port": "a port from 1 to 65535, or 0 for REST alone",
    "top_k": "a whole number from 1 to 100, or auto",
    "rrf_k": "a whole number from 1 on, such as 10",
    "timeout_s": "seconds, more than 0, such as 20",
    "policy": "default, recommended or cautious",
    "max_error": "a share from 0 to 1, such as 0.01 for one in a hundred",
    "on_empty": "top1 or none",
    "on_error": "top1, likely, none or ask",
    "ask_user": "true or false",
}

IN_DATABASE: Final = Path("database")
"""What stands in the place of a log's file where the log is that of an agent in the database."""


class Settings(BaseSettings):
    """The settings of a deployment. Every field is also `JAZZ_<NAME>` in the environment; arguments take precedence."""

    model_config = SettingsConfigDict(env_prefix="JAZZ_", frozen=True, extra="ignore", hide_input_in_errors=True)

    agent_id: str = Field(default="support", min_length=1)
    """The owner of the flows: each agent sees only its own."""
    flows: str = "flows"
    """A package, a folder of .py files, or a YAML/JSON file; the command line takes the default as a folder."""
    learned: Path | None = None
    """The file of `jazz-select learn`; a sync indexes its live version beside the flows."""
    evidence: Path | None = None
    """The log of outcomes that a sync learns from; None: nothing is learned from one."""
    index: Path = Path(".jazz/index")
    """The folder of the embedded index."""
    url: str | None = None
    """A Qdrant server instead of the embedded index."""
    database: SecretStr | None = None
    """A PostgreSQL database, for the claims, the log and what was learned of a service in several replicas."""
    api_key: SecretStr | None = None
    """The server's key."""
    grpc_port: int | None = Field(default=None, ge=0, le=65_535)
    """The server's gRPC port; 0 for REST only, None for the port after that of the url."""
    index_shards: int | None = Field(default=None, ge=1)
    """Shards of a new collection on the server; None for the server's default."""
    index_replicas: int | None = Field(default=None, ge=1)
    """Copies of each shard of a new collection, on as many nodes; None for the server's default."""
    embedder: str = "auto"
    """`auto` (the best installed), `minilm`, `static`, `cascade` (`static`, then `minilm` if it is not confident),
    `multilingual`, `fastembed:<model>` or `fastembed:<name>@<folder>`."""
    language: str = "english"
    """Stop words and stemming of the lexical arm: `english`, `german`, …, or `none`."""
    llm: str | None = None
    """A model string such as `openai:gpt-5-mini`; None for semantic choice only."""
    decider: str | None = None
    """A decision model such as `system-one:clm-latest`. It chooses before the chat model does, as far as `max_error`
    allows; a served agent also uses it in conversations."""
    top_k: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"
    """The number of candidates; `auto`: as few, up to 10, as hold the right one in 98 of 100 requests."""
    rrf_k: int = Field(default=10, ge=1)
    """Lower: the top ranks of each arm weigh more."""
    timeout_s: float = Field(default=20.0, gt=0)
    """The model's time limit, in seconds."""
    policy: Literal["default", "recommended", "cautious"] = "recommended"
    """How sure an answer must be to be given without the chat model, and what follows if none is. The next four fields
    set single parts of it otherwise."""
    max_error: float | None = Field(default=None, ge=0, le=1)
    """The largest share of wrong answers among those given without the chat model."""
    on_empty: Literal["top1", "none"] | None = None
    """The result if a model finds that nothing fits: the first candidate, or nothing."""
    on_error: Literal["top1", "likely", "none", "ask"] | None = None
    """The result if the chat model fails: the first candidate, the likeliest one unless none is likely, nothing, or a
    question to the user."""
    ask_user: bool | None = None
    """Ask the user if two or three flows are left and no stage may decide."""
    allow_modules: str = ""
    """Modules and packages, separated by commas, that files of tools may name though they are not the project's own."""
    serve_key: SecretStr | None = None
    """The key that `jazz-select serve` requires; at least 16 characters."""
    serve_secret: SecretStr | None = None
    """The key to sign conversations with, so that several processes can continue each other's."""
    serve_state: Path | None = None
    """The folder of the service's own data: the secret if none is given, and claims of calls."""
    skill_scripts: bool = False
    """Whether the scripts of Agent Skills are tools of a served agent. Each call of one waits for a yes."""

    @property
    def allowed_modules(self) -> tuple[str, ...]:
        """The names in `allow_modules`."""
        return tuple(each.strip() for each in self.allow_modules.split(",") if each.strip())

    @property
    def learned_by_now(self) -> Path | None:
        """The file of what was learned, if set and present: `learn` creates it with the first example."""
        return self.learned if self.learned is not None and self.learned.exists() else None


def setting_problem(name: str, where: str, wrong: Sequence[str], given: object, *, shown: str = "") -> str:
    """Return why a setting cannot work: where it stands, its value, and what to write.

    Args:
        name: The setting.
        where: The place of its value.
        wrong: Pydantic's messages about it.
        given: The value.
        shown: Shown in place of a value that may be a secret.
    """
    problems = [value_problem(each, given) for each in wrong]
    message = f"{where}: {', or '.join(problems)}"
    if shown or name in _TO_WRITE:
        message += f", got {shown or repr(given)[:60]}"
    if name in _TO_WRITE:
        message += f"; write {_TO_WRITE[name]}"
    return message


def value_problem(message: str, given: object) -> str:
    """Return why a value cannot work, from pydantic's message; a number where a text must be wants quotes."""
    if isinstance(given, int | float | date) and message == "Input should be a valid string":
        return f"{message}; put it in quotes"
    return message


def expanded(text: str) -> str:
    """Return `text` with each `${NAME}` and `${NAME:-default}` replaced from the environment.

    Raises:
        ConfigError: A variable without a default is not set.
    """

    def value_of(match: re.Match[str]) -> str:
        name: str = match[1]
        default: str | None = match[2]
        value = os.environ.get(name, default)  # noqa: TID251 - here, and nowhere else
        if value is None:
            raise ConfigError(f"the environment has no variable {name}: set it, or write ${{{name}:-…}} with a default")
        return value

    return _VARIABLE.sub(value_of, text)


def has_variable(text: str) -> bool:
    """Tell whether a text names a variable of the environment, so that its expanded form may be a secret."""
    return _VARIABLE.search(text) is not None


_PLAIN: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "PATHEXT")


def plain_environment() -> dict[str, str]:
    """Return what a program of others finds in its environment: where programs and files are, and no secret."""
    return {name: os.environ[name] for name in _PLAIN if name in os.environ}  # noqa: TID251 - here, and nowhere else
