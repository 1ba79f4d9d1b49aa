"""Where a Qdrant server is, what proves to it who asks, and how both are named without giving a secret away."""

import ipaddress
import logging
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from jazz_select.errors import ConfigError
from jazz_select.text import beginning

REST_PORT = 6333
"""Where a server is asked whose url names no port, with and without TLS."""
_log = logging.getLogger(__name__)
_CREDENTIALS = re.compile(r"//[^/?#]*@")
_CUT_CREDENTIALS = re.compile(r"//[^/?#]*[/?#].*@", re.DOTALL)
"""A user and password that hold a character which ends the place of a server in a url."""
_NO_URL, _NO_HEADER = re.compile(r"[^\x21-\x7e]"), re.compile(r"[^\x20-\x7e]")
"""What no address and no header may hold."""
_LONGEST_URL = 200
_LIKE = "a url looks like http://127.0.0.1:6333 or https://qdrant.example.com:6333"
_UNENCRYPTED = (
    "the api_key goes to %s without encryption: whoever sees the connection can read it, and use it. Give the server a "
    "certificate, and begin the url with https://"
)
_warned = set[str]()


def hide_credentials(text: str) -> str:
    """Return a text without the user and password of the urls in it."""
    return _CREDENTIALS.sub("//", text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """An address that can be asked, and shown: `url` holds no user and no password."""

    url: str
    host: str
    """Without the brackets of an IPv6 address."""
    port: int
    headers: Mapping[str, str] = field(repr=False)
    """What goes along with each call: names in small letters, as gRPC takes them."""
    secrets: tuple[str, ...] = field(repr=False)
    """What no error text may hold."""

    @classmethod
    def parse(cls, url: str, api_key: str | None = None) -> "ServerAddress":
        """Return the address of a url and a key as people write them; spaces and newlines around them are dropped.

        Without a scheme it is http on this machine, and elsewhere as long as no secret goes along. A user and password
        in the url go along as Basic authentication, as a proxy before the server asks for it.

        Raises:
            ConfigError: They cannot be used. The text names no secret.
        """
        key = _checked_key(api_key)
        given = url.strip()
        whole = given if "://" in given else f"//{given}"
        shown = hide_credentials(_CUT_CREDENTIALS.sub("//", whole)).removeprefix("//")
        parts = _split(whole, shown)
        host = parts.hostname or ""
        has_secret = bool(key or parts.username or parts.password)
        if not parts.scheme and has_secret and not is_loopback(host):
            msg = (
                f"url must begin with https:// where an api_key or a password goes along (http:// sends it without "
                f"encryption), got {_quote_url(shown)}"
            )
            raise ConfigError(msg)
        headers = {"api-key": key} if key else {}
        secrets = [key] if key else []
        if parts.username or parts.password:
            pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
            secrets += [
                each for each in (unquote(parts.password or ""), parts.password, headers["authorization"]) if each
            ]
        named = f"[{host}]" if ":" in host else host
        place = named if parts.port is None else f"{named}:{parts.port}"
        return cls(
            url=f"{parts.scheme or 'http'}://{place}{parts.path.rstrip('/')}",
            host=host,
            port=parts.port or REST_PORT,
            headers=headers,
            secrets=tuple(secrets),
        )

    @property
    def is_encrypted(self) -> bool:
        """Whether it is asked over TLS."""
        return self.url.startswith("https://")

    @property
    def caveat(self) -> str:
        """What users should know of the connection; empty if nothing."""
        return _UNENCRYPTED % self.url if self.secrets and not (self.is_encrypted or is_loopback(self.host)) else ""

    def warn_once(self) -> None:
        """Log the caveat, if there is one, once in this process."""
        if self.caveat and self.url not in _warned:
            _warned.add(self.url)
            _log.warning("%s", self.caveat)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_certificates() -> bytes | None:
    """Return the certificates (PEM) that SSL_CERT_FILE or SSL_CERT_DIR names; None without them.

    httpx reads both by itself, gRPC neither: an own authority would serve REST alone.

    Raises:
        ConfigError: They cannot be read.
    """
    paths = ssl.get_default_verify_paths()  # reads the two variables
    try:
        if paths.cafile and paths.cafile != paths.openssl_cafile:
            return Path(paths.cafile).read_bytes()
        if paths.capath and paths.capath != paths.openssl_capath:
            files = sorted(each for each in Path(paths.capath).iterdir() if each.is_file())
            return b"\n".join(dict.fromkeys(each.read_bytes() for each in files))
    except OSError as error:
        msg = f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({error.strerror}): {error.filename}"
        raise ConfigError(msg) from error
    return None


def _quote_url(url: str) -> str:
    return repr(beginning(url, _LONGEST_URL))


def _split(url: str, shown: str) -> SplitResult:
    """Split a url with at least `//`; `shown` is the one that was given, without secrets."""
    if _CUT_CREDENTIALS.search(url):
        problem = "what stands before its @ holds /, ? or #: write them as %2F, %3F and %23 in a user and password"
        raise ConfigError(f"url={_quote_url(shown)} cannot be used ({problem}); {_LIKE}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"url={_quote_url(shown)} cannot be used ({hide_credentials(str(error))}); {_LIKE}") from None
    problem = ""
    if _NO_URL.search(url):
        problem = "it holds spaces, line breaks or letters that no url has"
    elif parts.scheme not in ("http", "https", ""):
        problem = f"{parts.scheme}:// is not asked"
    elif not parts.hostname:
        problem = "it names no host"
    elif port == 0:
        problem = "no server listens at port 0"
    elif parts.query or parts.fragment:
        problem = "it has a query or a fragment, which would not be sent; give the key as api_key"
        shown = shown.partition("?")[0].partition("#")[0]
    if problem:
        raise ConfigError(f"url={_quote_url(shown)} cannot be used ({problem}); {_LIKE}")
    return parts


def _checked_key(api_key: str | None) -> str:
    key = (api_key or "").strip()
    if found := _NO_HEADER.search(key):
        where = f"character {found.start() + 1} of {len(key)}"
        msg = (
            f"api_key must be one line of printable ASCII characters, got one with {found[0]!a} as {where}: was a "
            "whole file taken for it? The key is not shown here"
        )
        raise ConfigError(msg)
    return key
