"""Which MCP servers are connected: the file that MCP clients share, `{"mcpServers": {"name": {…}}}`."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final, Self, cast
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from jazz_select.arguments import read_as
from jazz_select.data_files import documents_of
from jazz_select.errors import ConfigError, DataFileError
from jazz_select.json_values import is_object, with_texts
from jazz_select.routing.tools.tool import checked_keys
from jazz_select.service.mcp.measured import MessageLimits
from jazz_select.settings import expanded

LARGEST: Final = 1 << 20
"""Bytes of such a file."""
_MOST_SERVERS: Final = 200
_SHORTEST_SECRET: Final = 8
"""Characters below which hiding a value everywhere would make texts unreadable, and hide nothing."""
_PLAIN = re.compile(r"[A-Za-z]+|[0-9.,:+-]+")
"""A word or a number: none is hidden unless its name says what it is, since they stand in texts for what they mean."""
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_APART = re.compile(r"[^A-Za-z0-9_-]+")


class ServerSpec(BaseModel):
    """One server: a command to be started, or an address. Its texts never show what may be secret.

    It is read from files as it is; keys of other clients are passed over.

    Attributes:
        name: What it is called here: letters, digits, `_` and `-`, other than any other's.
        command: The program of a server on stdio.
        args: Its arguments.
        env: What it finds in its environment beside `PATH`, `HOME` and the like.
        cwd: The folder that it runs in.
        url: Where a server on streamable HTTP is.
        headers: Sent with each request to it.
        timeout_s: The most that one call may take, in seconds.
        max_message: Bytes of one message of it, decompressed; a larger one is not read.
        max_values: Values of JSON and names of fields in one message; one with more is not read.
        disabled: Whether it is left out.
        trusted: Whether its hints are believed that a tool is harmless.
        destructive: Whether its tools without hints destroy something.
        prefix: What stands before the names of its tools: by default its own name and a dot.
        from_context: Inputs of its tools that only the caller's context fills: their names, or by name the key there.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, hide_input_in_errors=True)

    name: str
    command: str = ""
    args: list[str] = Field(default=[], max_length=1_000, repr=False)
    env: dict[str, str] = Field(default={}, repr=False)
    cwd: str | None = None
    url: str = Field(default="", repr=False)
    headers: dict[str, str] = Field(default={}, repr=False)
    timeout_s: float = Field(default=300.0, gt=0, le=86_400)
    max_message: int = Field(default=16 << 20, gt=0)
    max_values: int = Field(default=50_000, gt=0)
    disabled: bool = False
    trusted: bool = False
    destructive: bool = True
    prefix: str = Field(default_factory=lambda data: f"{data['name']}.", max_length=64, pattern=r"^[A-Za-z0-9_.-]*$")
    from_context: Annotated[list[str] | dict[str, str], BeforeValidator(checked_keys)] = []

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("needs either a command to start or a url to connect to")
        try:
            scheme = urlsplit(self.url).scheme
        except ValueError:
            raise ValueError("its url is no URL") from None  # the reason quotes it, and it may hold a key
        if self.url and scheme not in {"http", "https"}:
            raise ValueError("its url must begin with http:// or https://")
        return self

    @property
    def limits(self) -> MessageLimits:
        """Of its messages."""
        return MessageLimits(self.max_message, self.max_values)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that may be one, longest first, of at least 8 characters.

        It is each value of `headers`, what stands in the address, and what follows an option such as `--token`; and
        values of `env` and `--name=value`, but a single word or a number only where its name says that it is one.
        """
        address = urlsplit(self.url)
        values = [*self.headers.values(), address.username or "", address.password or ""]
        values += [value for _, value in parse_qsl(address.query)]
        values += [value.rpartition(" ")[2] for value in self.headers.values()]  # "Bearer …"
        named = list(self.env.items())
        for argument in self.args:
            name, _, value = argument.rpartition("=")
            named.append((name, value))
        values += [value for name, value in named if name and (_tells(name) or not _PLAIN.fullmatch(value))]
        for before, after in pairwise(self.args):
            if before.startswith("-") and _tells(before):
                values.append(after)
        return tuple(sorted({each for each in values if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True))

    def without_secrets(self, text: str) -> str:
        """Hide the secrets of the server in a text."""
        for secret in self.secrets:
            text = text.replace(secret, "[hidden]")
        return text


def _tells(name: str) -> bool:
    """Tell whether a name suggests that its value is a secret."""
    return re.search(r"key|token|secret|pass|auth|cred|pwd", name, re.IGNORECASE) is not None


def load_servers(path: str | Path) -> tuple[ServerSpec, ...]:
    """Load the servers of a file in its order, without `disabled` ones; `${NAME}` is read from the environment.

    Raises:
        ConfigError: It cannot be read, or one of them cannot be used; no value of the file stands in the message.
    """
    source = Path(path)
    try:
        found = documents_of(source, suffix=".json", largest=LARGEST)
    except DataFileError as error:
        msg = f"the MCP servers of {source} cannot be read: {error.problem}"
        if error.is_syntax:
            msg = f"{source} is no JSON: {error.problem}; it looks like {_EXAMPLE}"
        raise ConfigError(msg) from None  # the text of an error of JSON holds the file
    return servers_of(found[0].value if found else None)


_EXAMPLE: Final = '{"mcpServers": {"files": {"command": "npx", "args": ["…"]}, "web": {"url": "https://…/mcp"}}}'


def servers_of(value: object) -> tuple[ServerSpec, ...]:
    """Read the servers from the content of such a file."""
    listed: object = None
    if is_object(value):
        given = value
        listed = given.get("mcpServers", given.get("servers"))  # the latter is what VS Code calls it
    if not is_object(listed) or not listed:
        raise ConfigError(f"there are no MCP servers: the file looks like {_EXAMPLE}")
    servers = listed
    if len(servers) > _MOST_SERVERS:
        raise ConfigError(f"there are {len(servers)} MCP servers, and no more than {_MOST_SERVERS} are connected")
    found = tuple(_specs(servers))
    if not found:
        raise ConfigError("all MCP servers of the file are disabled: enable one, or leave the file out")
    return found


def _specs(servers: Mapping[str, object]) -> Iterator[ServerSpec]:
    taken: set[str] = set()
    for key, value in servers.items():
        place = f"the MCP server {str(key)[:80]!r}"
        name = safe_name(key, taken)
        try:
            filled = with_texts(value, expanded)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error}") from None
        if isinstance(filled, dict):
            filled = {**cast("dict[str, object]", filled), "name": name}
        spec = read_as(ServerSpec, filled, place)
        if not spec.disabled:
            taken.add(name.lower())
            yield spec


def safe_name(name: str, taken: set[str]) -> str:
    """Make a name of safe characters that differs from all `taken` names, ignoring case."""
    plain = _APART.sub("_", name).strip("_-")[:48] or "server"
    plain = plain if _SAFE.fullmatch(plain) else f"s_{plain}"
    number, found = 1, plain
    while found.lower() in taken:
        number += 1
        found = f"{plain}_{number}"
    return found
