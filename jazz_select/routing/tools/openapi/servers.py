"""Where an API is: the base URLs that the program named, or those of its document where they can be trusted."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from jazz_select.errors import ConfigError, ToolError
from jazz_select.json_values import is_array
from jazz_select.routing.schemas.fields import mapping
from jazz_select.routing.tools.openapi.document import ApiDocument, without_credentials

_PORTS: Final = {"http": 80, "https": 443}
_LOOPBACK: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_VARIABLE: Final = re.compile(r"\{([^{}]+)\}")
_MOST: Final = 100


class Origin(NamedTuple):
    """A scheme, a host and a port: all that a request may be sent to."""

    scheme: str
    host: str
    port: int

    @property
    def has_usual_port(self) -> bool:
        """Whether its port is that of its scheme."""
        return self.port == _PORTS.get(self.scheme)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServers:
    """The base URLs of an API; the first one is asked.

    Attributes:
        bases: The base URLs, without a slash at the end.
    """

    bases: tuple[str, ...]

    @property
    def origins(self) -> frozenset[Origin]:
        """All hosts that may be asked."""
        return frozenset(_origin(base) for base in self.bases)

    def base_for(self, document: ApiDocument, own: Iterable[Mapping[str, Any]]) -> str:
        """Return the base URL of an operation: of its own servers the first that may be asked.

        Raises:
            ValueError: It has its own servers, and none of their hosts may be asked.
        """
        named: list[str] = []
        for server in own:
            try:
                base = _base(document, server)
            except ValueError:
                continue
            if _origin(base) in self.origins:
                return base
            named.append(without_credentials(base))
        if named:
            raise ValueError(f"it has a server of its own, {named[0]}, on another host; name that in servers=")
        return self.bases[0]


def servers_for(document: ApiDocument, given: str | Iterable[str]) -> ApiServers:
    """Return where an API is: as the program says, else as its document does.

    A document that was fetched names no other host than its own: whoever writes it would otherwise choose where the
    credentials are sent, and what is asked inside of this network.

    Raises:
        ConfigError: A URL of the program's is no base URL.
        ToolError: The document names no server that may be asked.
    """
    named = [given] if isinstance(given, str) and given else list(given)
    if named:
        try:
            return ApiServers(bases=tuple(check_base_url(url) for url in named))
        except ValueError as error:
            raise ConfigError(f"servers: {error}") from error
    listed: object = document.content.get("servers") or [{"url": "/"}]
    bases: list[str] = []
    problem = "it names no servers"
    for server in listed[:_MOST] if is_array(listed) else ():
        try:
            base = _base(document, server)
            _check_own(document, base)
        except ValueError as error:
            problem = str(error)
        else:
            bases.append(base)
    if not bases:
        raise ToolError(document.name, f"{problem}; name the base URL in servers=")
    return ApiServers(bases=tuple(bases))


def _check_own(document: ApiDocument, base: str) -> None:
    where = without_credentials(base)
    if document.url:
        own, target = _origin(document.url), _origin(base)
        if own.host != target.host:
            raise ValueError(f"it was fetched from {own.host} and names a server on another host, {where}")
        # On one machine another port is another program, and may be somebody else's.
        if own.port != target.port and not (own.has_usual_port and target.has_usual_port):
            raise ValueError(f"it was fetched from port {own.port} and names a server on another one, {where}")
        if own.scheme == "https" and target.scheme == "http":
            raise ValueError(f"it was fetched over https and names a server without it, {where}")
    elif _origin(base).scheme == "http" and _origin(base).host not in _LOOPBACK:
        raise ValueError(f"it names a server without https, {where}")


def _base(document: ApiDocument, server: object) -> str:
    url, variables = mapping(server).get("url"), mapping(mapping(server).get("variables"))
    if not isinstance(url, str):
        raise ValueError("a server must be a mapping with url:")  # noqa: TRY004 - the document's fault

    def value(found: re.Match[str]) -> str:
        default = mapping(variables.get(found[1])).get("default")
        if not isinstance(default, str):
            raise ValueError(f"its server has the variable {found[1]!r:.60} without a default")  # noqa: TRY004 - likewise
        return default

    filled = _VARIABLE.sub(value, url)
    if not urlsplit(filled).netloc:
        if not document.url:
            raise ValueError(
                f"its server {filled!r:.80} is relative to where the document was fetched, and it is a file"
            )
        filled = urljoin(document.url, filled)
    return check_base_url(filled)


def check_base_url(url: str) -> str:
    """Check a base URL, and return it without its last slash.

    Raises:
        ValueError: It is none; the message quotes it without credentials.
    """
    try:
        parts = urlsplit(url)
        is_base = parts.scheme in _PORTS and bool(parts.hostname) and url.isascii() and url.isprintable()
        port = parts.port
    except (ValueError, AttributeError):
        is_base, port, parts = False, None, SplitResult("", "", "", "", "")
    if not is_base or "@" in parts.netloc or parts.query or parts.fragment or port == 0 or "\\" in url or " " in url:
        raise ValueError(
            "a base URL must be like https://api.example.com/v1, without user, query and fragment; "
            f"got {without_credentials(url)!r}"
        )
    if any(segment in {".", ".."} for segment in parts.path.split("/")):
        raise ValueError(f"a base URL must not have '.' or '..' in its path; got {url[:100]!r}")
    return url.rstrip("/")


def _origin(url: str) -> Origin:
    parts = urlsplit(url)
    return Origin(parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0))
