"""Settings from the environment (`JAZZ_*`), frozen. The only reader of the environment in this library."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from jazz_select.errors import ConfigError
from jazz_select.values import COVERAGE, LEAST_COVERAGE, MOST_COVERAGE

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")

_TO_WRITE: Final[Mapping[str, str]] = {
    "grpc_port": "a port from 1 to 65535, or 0 for REST alone",
    "top_k": "a whole number from 1 to 100, or auto",
    "coverage": f"a share from {LEAST_COVERAGE:g} to {MOST_COVERAGE:g}, such as {COVERAGE:g}",
    "rrf_k": "a whole number from 1 on, such as 10",
    "timeout_s": "seconds, more than 0, such as 20",
    "skip_llm_above": "a probability from 0 to 1, such as 0.95",
    "abstain_below": "a probability from 0 to 1, such as 0.2",
    "max_error": "a share from 0 to 1, such as 0.01 for one in a hundred",
    "ask_user": "true or false",
    "on_empty": "top1 or none",
}


class Settings(BaseSettings):
    """What a deployment may set. Every field is also `JAZZ_<NAME>` in the environment; arguments win."""

    model_config = SettingsConfigDict(env_prefix="JAZZ_", frozen=True, extra="ignore")

    agent_id: str = Field(default="support", min_length=1)
    """Whose flows: each agent sees its own alone."""
    flows: str = "flows"
    """A package, a folder of .py files, or a YAML/JSON file of flows; the default is a folder to the command line."""
    learned: Path | None = None
    """What `jazz-select learn` learned from corrections; a sync indexes the live version of it beside the flows."""
    index: Path = Path(".jazz/index")
    """Folder of the embedded index."""
    url: str | None = None
    """A Qdrant server instead of the embedded index."""
    api_key: SecretStr | None = None
    """Key for that server."""
    grpc_port: int | None = Field(default=None, ge=0, le=65_535)
    """Where it speaks gRPC; 0 for REST alone, none for the port after that of the url."""
    embedder: str = "auto"
    """`auto` (the best that is installed), `minilm`, `static`, `cascade` (`static`, where it is not sure `minilm`),
    `multilingual`, `fastembed:<model>` or `fastembed:<name>@<folder>`."""
    language: str = "english"
    """Stop words and stemming of the lexical arm: `english`, `german`, …, or `none`."""
    llm: str | None = None
    """A model string such as `openai:gpt-5-mini`; none means semantic choice only."""
    decider: str | None = None
    """A decision model such as `system-one:clm-latest`: which of the candidates fits, it is asked before the model, and
    decides as far as `max_error` allows; an agent that is served asks it in conversations too."""
    top_k: Annotated[int, Field(ge=1, le=100)] | Literal["auto"] = "auto"
    """How many candidates; `auto`: as few, up to 10, as hold the right one with probability `coverage`."""
    coverage: float = Field(default=COVERAGE, ge=LEAST_COVERAGE, le=MOST_COVERAGE)
    """What `auto` promises."""
    rrf_k: int = Field(default=10, ge=1)
    timeout_s: float = Field(default=20.0, gt=0)
    """How long the model may take, in seconds."""
    skip_llm_above: float | None = Field(default=None, ge=0, le=1)
    """Do without the model where recall is at least this sure of its top candidate."""
    abstain_below: float | None = Field(default=None, ge=0, le=1)
    """Choose nothing where P(some flow is right) is below this."""
    max_error: float | None = Field(default=None, ge=0, le=1)
    """The share of answers without the model that may be wrong; takes the place of `skip_llm_above`. Where neither is
    set and there is a model, one in a hundred; 0 has it asked all the same."""
    ask_user: bool = False
    """Ask which flow is meant where two or three are left and nobody else may decide."""
    on_empty: Literal["top1", "none"] = "none"
    """What "nothing fits" from the model leads to: nothing, or the top candidate."""
    serve_key: SecretStr | None = None
    """The key that `jazz-select serve` asks for; at least 16 characters."""
    serve_secret: SecretStr | None = None
    """What it signs conversations with, where several processes are to go on with each other's."""
    serve_state: Path | None = None
    """Folder of what it keeps beside the index: that secret where none is given, and the claims of calls."""

    @property
    def learned_by_now(self) -> Path | None:
        """The file of what was learned, where one is named and is there: `learn` makes it with the first example."""
        return self.learned if self.learned is not None and self.learned.exists() else None


def setting_problem(name: str, where: str, wrong: Sequence[str], given: object) -> str:
    """Why a setting cannot work, as whoever wrote it reads it: where it stands, what came, and what to write."""
    told = f"{where}: {', or '.join(wrong)}"
    return f"{told}, not {given!r:.60}; write {_TO_WRITE[name]}" if name in _TO_WRITE else told


def expanded(text: str) -> str:
    """`text` with each `${NAME}` as it is in the environment, and each `${NAME:-other}` so, or else `other`.

    Raises:
        ConfigError: One that has no other is not set.
    """

    def value(found: re.Match[str]) -> str:
        other: str | None = found[2]
        given = os.environ.get(found[1], other)  # noqa: TID251 - here, and nowhere else
        if given is None:
            msg = f"the environment has no variable {found[1]}: set it, or write ${{{found[1]}:-…}} with a default"
            raise ConfigError(msg)
        return given

    return _VARIABLE.sub(value, text)
