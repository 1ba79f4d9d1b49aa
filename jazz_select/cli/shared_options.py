"""The options that commands share, and how they and the environment become settings: options win."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jazz_select.cli.config import CommandConfig, ConfigEntries
    from jazz_select.settings import Settings

_INDEX = "Where the flows are indexed"
CHOICE = "How a flow is chosen"


def option(
    about: str,
    metavar: str | None = None,
    *names: str,
    panel: str | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare an option with a value; its name is that of its field unless `names` are given."""
    return typer.Option(*names, metavar=metavar, help=about, rich_help_panel=panel, min=least, max=most)


def flag(name: str, about: str, *names: str, panel: str | None = None) -> Any:
    """Declare an option without a value."""
    return typer.Option(name, *names, help=about, rich_help_panel=panel)


FlowsOption = Annotated[
    str | None, option("The flows: a folder, a file or a package. (JAZZ_FLOWS, default: flows)", "PATH|PACKAGE")
]
EmbedderOption = Annotated[
    str | None,
    option(
        "auto (the best that is installed), minilm, static, cascade, multilingual, fastembed:MODEL or "
        "fastembed:NAME@FOLDER. (JAZZ_EMBEDDER, default: auto)",
        "NAME",
        panel=_INDEX,
    ),
]
PolicyOption = Annotated[
    str | None,
    option(
        "How sure an answer must be without the chat model. (JAZZ_POLICY, default: recommended)",
        "default|recommended|cautious",
        panel=CHOICE,
    ),
]
TopKOption = Annotated[
    str | None,
    option(
        "How many candidates to recall; auto: as few, up to 10, as hold the right one in 98 of 100 requests like "
        "the examples. (JAZZ_TOP_K, default: auto)",
        "N|auto",
        panel=CHOICE,
    ),
]
RrfKOption = Annotated[
    int | None,
    option("Lower: the top ranks of each arm weigh more. (JAZZ_RRF_K, default: 10)", "N", panel=CHOICE, least=1),
]
LlmOption = Annotated[
    str | None,
    option(
        'The model that chooses, such as openai:gpt-5-mini; "none": the top candidate. (JAZZ_LLM, default: none)',
        "MODEL",
        panel=CHOICE,
    ),
]
LogOption = Annotated[
    Path | None,
    option("A log of outcomes, as FlowSelector(…, log=PATH) writes it; `database`: that in JAZZ_DATABASE.", "FILE"),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a command was given; each group of options that commands share is one of these."""

    def settings(self) -> "Settings":
        """Return the environment's settings, overridden by the options."""
        return settings_with(vars(self))


@dataclass(frozen=True, kw_only=True)
class JsonOption(Options):
    """How it is told."""

    json: Annotated[bool, flag("--json", "Print JSON to stdout, and nothing else.")] = False


@dataclass(frozen=True, kw_only=True)
class FlowOptions(Options):
    """The flows, and what tells how near texts lie."""

    flows: FlowsOption = None
    embedder: EmbedderOption = None


@dataclass(frozen=True, kw_only=True)
class AgentOption(Options):
    """Whose flows."""

    agent_id: Annotated[str | None, option("Whose flows. (JAZZ_AGENT_ID, default: support)", "ID")] = None


@dataclass(frozen=True, kw_only=True)
class IndexOption(AgentOption):
    """Where the flows are indexed on this machine."""

    index: Annotated[
        Path | None, option("Folder of the embedded index. (JAZZ_INDEX, default: .jazz/index)", "DIR", panel=_INDEX)
    ] = None


@dataclass(frozen=True, kw_only=True)
class IndexPlaceOptions(IndexOption):
    """Where the flows are indexed."""

    url: Annotated[
        str | None,
        option(
            "A Qdrant server instead; its key comes from JAZZ_API_KEY, its gRPC port from JAZZ_GRPC_PORT. (JAZZ_URL)",
            "URL",
            panel=_INDEX,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class IndexOptions(IndexPlaceOptions):
    """The index, and what tells how near texts lie."""

    embedder: EmbedderOption = None


@dataclass(frozen=True, kw_only=True)
class DatabaseOption(Options):
    """What replicas share."""

    database: Annotated[
        str | None,
        option(
            "A PostgreSQL database that replicas share, for claims, the log and what was learned. Whoever lists "
            "processes sees an option: write one with a password to JAZZ_DATABASE.",
            "URL",
            panel=_INDEX,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class LearnedOption(Options):
    """What was learned."""

    learned: Annotated[
        Path | None,
        option(
            "What was learned from corrections, as `learn` writes it; the flows themselves stay as they are. "
            "(JAZZ_LEARNED)",
            "FILE",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EvidenceOption(Options):
    """What recall learns from."""

    evidence: Annotated[
        Path | None,
        option(
            "Learn recall from a log of outcomes: from what models chose and persons corrected. Its texts stay there. "
            "(JAZZ_EVIDENCE)",
            "FILE",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RecallOptions(Options):
    """How candidates are recalled."""

    top_k: TopKOption = None
    rrf_k: RrfKOption = None


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(RecallOptions):
    """How one of them is chosen."""

    llm: LlmOption = None
    policy: PolicyOption = None
    max_error: Annotated[
        float | None,
        option("The share of answers without the chat model that may be wrong. (JAZZ_MAX_ERROR)", "P", panel=CHOICE),
    ] = None
    on_empty: Annotated[
        str | None,
        option('What "none of them fits" from a model leads to. (JAZZ_ON_EMPTY)', "top1|none", panel=CHOICE),
    ] = None
    on_error: Annotated[
        str | None,
        option("What a chat model that fails leads to. (JAZZ_ON_ERROR)", "top1|likely|none|ask", panel=CHOICE),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ConfigOption(Options, ABC):
    """All that is set less often than the options beside it."""

    config: Annotated[
        list[str] | None,
        option(
            "A YAML file of settings, or a single one, such as top_k=5; repeatable, the last one counts. "
            "`jazz-select schema serve` (or eval) lists all that there are.",
            "FILE|KEY=VALUE",
        ),
    ] = None

    @property
    @abstractmethod
    def config_kind(self) -> "type[CommandConfig]":
        """What the files may hold beside `Settings`."""

    @cached_property
    def entries(self) -> "ConfigEntries":
        """What `--config` says."""
        from jazz_select.cli.config import read_config

        return read_config(self.config or (), self.config_kind)

    def settings(self) -> "Settings":
        """Return the settings: options first, then `--config`, then the environment."""
        passed = {key: value for key, value in vars(self).items() if value is not None}
        return settings_with({**self.entries.without_overridden(passed), **passed}, entries=self.entries)


def encodable(text: str) -> str:
    """Replace what UTF-8 cannot encode, such as bytes of the command line in no known encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")


def settings_with(options: Mapping[str, Any], *, entries: "ConfigEntries | None" = None) -> "Settings":
    """Return the environment's settings, overridden by the options that are not None.

    Args:
        options: All that a command takes, by name; what is no setting is passed over.
        entries: What `--config` says, for messages.
    """
    from pydantic import ValidationError

    from jazz_select.errors import ConfigError
    from jazz_select.settings import Settings, setting_problem

    given = {name: options[name] for name in Settings.model_fields if options.get(name) is not None}
    if isinstance(given.get("agent_id"), str):
        given["agent_id"] = encodable(given["agent_id"])
    if {"index", "url"} <= given.keys():
        raise ConfigError("pass either --index or --url, so that it is clear where the flows are kept")
    if "index" in given:
        given["url"] = None  # the option says where; a JAZZ_URL must not overrule it
    try:
        settings = Settings(**given)
    except ValidationError as error:
        wrong: dict[str, list[str]] = {}  # by field: a value that may be of two types is wrong twice
        came: dict[str, object] = {}
        for each in error.errors():
            name = str(each["loc"][0])
            wrong.setdefault(name, []).append(each["msg"])
            came[name] = each["input"]
        problems: list[str] = []
        for name, messages in wrong.items():
            place = entries.places.get(name) if entries else None
            shown = entries.shown.get(name, "") if entries else ""
            problems.append(setting_problem(name, place or _source(name, given), messages, came[name], shown=shown))
        raise ConfigError("; ".join(problems)) from error
    # An empty text, or "none", turns off a model that the environment names.
    off = [name for name in ("llm", "decider") if getattr(settings, name) in {"", "none"}]
    if not off:
        return settings
    return settings.model_copy(update=dict.fromkeys(off))


def context_of(pairs: list[str]) -> dict[str, Any]:
    """Parse `KEY=VALUE` pairs into a context: booleans as people write them, then JSON (3, ["a"]), else text."""
    from jazz_select.cli.config import value_of
    from jazz_select.errors import ConfigError

    context: dict[str, Any] = {}
    for pair in map(encodable, pairs):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--context {pair!r} is not KEY=VALUE; write for example --context authenticated=true")
        context[key.strip()] = value_of(value)
    return context


def _source(field: str, given: Mapping[str, Any]) -> str:
    return f"--{field.replace('_', '-')}" if field in given else f"JAZZ_{field.upper()}"
