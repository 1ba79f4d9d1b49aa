"""An API among the tools of a file: `- openapi: FILE_OR_URL` with the options of `tools_from_openapi`."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from jazz_select.arguments import read_as
from jazz_select.errors import ConfigError
from jazz_select.routing.tools.openapi.loading import tools_from_openapi
from jazz_select.routing.tools.openapi.servers import check_base_url
from jazz_select.routing.tools.sources import ListedTools
from jazz_select.routing.tools.tool import checked_keys
from jazz_select.settings import expanded, has_variable

Keys = Annotated[list[str] | dict[str, str], BeforeValidator(checked_keys)]


class OpenApiEntry(BaseModel):
    """One API; `${NAME}` in credentials, headers and servers is read from the environment. No text shows them."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)

    openapi: str
    auth: dict[str, str] = Field(default={}, repr=False)
    headers: dict[str, str] = Field(default={}, repr=False)
    servers: str | list[str] = []
    include: str | list[str] = []
    exclude: str | list[str] = []
    read_only: str | list[str] = []
    changes: str | list[str] = []
    provider: str = ""
    prefix: str = ""
    from_context: Keys = []
    timeout_s: float = Field(default=30.0, gt=0, le=86_400)


def is_entry(given: object) -> bool:
    """Tell whether an entry of a list of tools names an API."""
    return isinstance(given, Mapping) and "openapi" in given and "paths" not in given


def tools_of_entry(given: object, *, file: Path) -> ListedTools:
    """Return the tools of an API that a file names; a path is one beside that file.

    Raises:
        ConfigError: An option cannot work, or the environment lacks a variable.
        ToolError: The document cannot be used.
    """
    entry = read_as(OpenApiEntry, given, "an entry of openapi:")
    is_url = urlsplit(entry.openapi).scheme.lower() in {"http", "https"}
    options: dict[str, Any] = entry.model_dump(exclude={"openapi", "auth", "headers", "servers"})
    return tools_from_openapi(
        entry.openapi if is_url else file.parent / entry.openapi,
        auth=_map_values(expanded, entry.auth),
        headers=_map_values(expanded, entry.headers),
        servers=list(_base_urls(entry)),
        **options,
    )


def _base_urls(entry: OpenApiEntry) -> Iterator[str]:
    written = [entry.servers] if isinstance(entry.servers, str) else entry.servers
    for each in written:
        url = expanded(each)
        if has_variable(each):
            try:
                check_base_url(url)
            except ValueError:
                # The reason quotes the URL, and the variable may hold a secret.
                msg = f"servers: {each!r:.80} must expand to a base URL such as https://api.example.com/v1"
                raise ConfigError(msg) from None
        yield url


def _map_values(change: Callable[[str], str], texts: Mapping[str, str]) -> dict[str, str]:
    return {name: change(text) for name, text in texts.items()}
