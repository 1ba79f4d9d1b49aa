"""With what an API is asked: the credentials of its security schemes, which no model, log or error is shown."""

import inspect
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import chain
from typing import Any, Final, Literal
from urllib.parse import quote

from jazz_select.errors import ConfigError, ToolArgumentsError
from jazz_select.json_values import with_texts
from jazz_select.routing.schemas.fields import mapping
from jazz_select.routing.tools.context_inputs import FromContext
from jazz_select.routing.tools.openapi.document import ApiDocument
from jazz_select.routing.tools.openapi.operations import models_of
from jazz_select.text import some_of

Credential = str | tuple[str, str]
"""A token or a key; a user and a password for HTTP Basic."""
Auth = Credential | FromContext | Callable[[], Credential | Awaitable[Credential]]
"""A credential, a function that gives one for each call, or where the caller's context holds it."""
HIDDEN: Final = "[hidden]"
_SHORTEST_HIDDEN: Final = 4
"""Characters below which hiding a secret everywhere would make texts unreadable, and hide nothing."""
_DEEPEST: Final = 200
"""Levels of an answer in which secrets are looked for; what lies deeper is left out."""
_MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityScheme:
    """How a credential is sent.

    Attributes:
        kind: As a bearer token, by HTTP Basic, or as a key.
        place: Where a key is sent.
        name: The name of a key there.
    """

    kind: Literal["bearer", "basic", "key"]
    place: Literal["header", "query", "cookie"] = "header"
    name: str = "Authorization"


@dataclass(slots=True, kw_only=True)
class Signature:
    """What credentials add to a request, and the secrets in it."""

    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    query: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    cookies: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    secrets: list[str] = field(default_factory=list[str], repr=False)

    def hide(self, text: str) -> str:
        """Return a text in which none of the secrets stands, however it is written there."""
        spellings: set[str] = set()
        for secret in self.secrets:
            spellings.update(_spellings(secret))
        for secret in sorted(spellings, key=len, reverse=True):  # one may be a part of another
            if len(secret) >= _SHORTEST_HIDDEN:
                text = text.replace(secret, HIDDEN)
        return text

    def hide_in(self, value: object) -> object:
        """Return a JSON value in whose texts none of the secrets stands."""
        return with_texts(value, self.hide, deepest=_DEEPEST) if self.secrets else value


def _spellings(secret: str) -> tuple[str, ...]:
    """Return how a secret may stand in a text: as it is, in a URL, in JSON and in HTML."""
    in_json = json.dumps(secret)[1:-1]
    return secret, quote(secret, safe=""), in_json, in_json.replace("/", "\\/"), escape(secret)


class Credentials:
    """The security schemes of a document, and what the program gave for them."""

    def __init__(
        self, schemes: Mapping[str, SecurityScheme], given: Mapping[str, Auth], headers: Mapping[str, str]
    ) -> None:
        """Take the schemes by name, credentials by the scheme's name, and headers that are sent with each request.

        Raises:
            ConfigError: A credential is for no scheme of the document, or a header cannot be sent.
        """
        unknown = [name for name in given if name not in schemes]
        if unknown:
            known = some_of(list(schemes), _MOST_NAMED) or "none"
            raise ConfigError(
                f"auth names {unknown[0]!r:.80}, which is no security scheme of the document (its schemes: {known}); "
                "what the document does not declare can be given as headers="
            )
        for name, value in headers.items():
            _check_header(name, value)
        self._schemes, self._given, self._headers = dict(schemes), dict(given), dict(headers)

    def context_keys(self, alternatives: Iterable[tuple[str, ...]]) -> dict[str, str]:
        """Return the key in the context of each scheme that the program gave nothing else for."""
        keys: dict[str, str] = {}
        for name in dict.fromkeys(chain.from_iterable(alternatives)):
            given = self._given.get(name)
            if name in self._schemes and (given is None or isinstance(given, FromContext)):
                keys[name] = given.key if given is not None and given.key else name
        return keys

    async def sign(
        self, tool: str, alternatives: tuple[tuple[str, ...], ...], from_context: Mapping[str, Any]
    ) -> Signature:
        """Return what the first alternative adds to a request for which every credential is there.

        Raises:
            ToolArgumentsError: There is none, or a credential cannot be sent; it is never quoted.
        """
        signature = Signature(headers=dict(self._headers), secrets=list(self._headers.values()))
        wanted = [each for each in alternatives if each]
        for alternative in wanted:
            if all(name in from_context or self._is_given(name) for name in alternative):
                for name in alternative:
                    await self._add(tool, signature, name, from_context.get(name))
                return signature
        if not wanted or () in alternatives:
            return signature
        raise ToolArgumentsError(tool, self._missing_credentials(wanted))

    def _is_given(self, name: str) -> bool:
        return name in self._given and not isinstance(self._given[name], FromContext)

    def _missing_credentials(self, alternatives: list[tuple[str, ...]]) -> str:
        keys = self.context_keys(alternatives)
        if not keys:
            unsupported = next(name for name in chain.from_iterable(alternatives) if name not in self._schemes)
            return f"it needs the security scheme {unsupported!r:.80}, which is not supported; give headers= instead"
        ways: list[str] = []
        for alternative in alternatives:
            if all(name in self._schemes for name in alternative):
                ways.append(" and ".join(repr(keys.get(name, name)) for name in alternative))
        named = " or ".join(ways)
        return f"it needs {named} from the context, which has none; give it with context=, or to the tools with auth="

    async def _add(self, tool: str, signature: Signature, name: str, from_context: object) -> None:
        value = from_context if from_context is not None else await _credential_of(tool, name, self._given[name])
        scheme = self._schemes[name]
        if scheme.kind == "basic":
            user, password = _user_and_password(tool, name, value)
            encoded = b64encode(f"{user}:{password}".encode()).decode()
            signature.secrets += [password, encoded]
            signature.headers["Authorization"] = f"Basic {encoded}"
            return
        if not isinstance(value, str) or not value:
            raise ToolArgumentsError(tool, f"the credential of {name!r:.80} must be a text, got {type(value).__name__}")
        signature.secrets.append(value)
        if scheme.place == "header":
            sent = f"Bearer {value}" if scheme.kind == "bearer" else value
            if not _is_sendable(sent):
                raise ToolArgumentsError(tool, f"the credential of {name!r:.80} must be ASCII in one line")
            signature.headers[scheme.name] = sent
        elif scheme.place == "query":
            signature.query[scheme.name] = value
        else:
            signature.cookies[scheme.name] = value


def read_schemes(document: ApiDocument) -> dict[str, SecurityScheme]:
    """Return the security schemes of a document that are supported; what needs another one cannot be signed by it."""
    listed = mapping(mapping(document.content.get("components")).get("securitySchemes"))
    found: dict[str, SecurityScheme] = {}
    for name, given in listed.items():
        try:
            raw: Any = document.resolve(given)
            parsed = models_of(document.version).SecurityScheme.model_validate({**raw, "flows": None})
        except (ValueError, TypeError):
            continue
        scheme = _scheme(parsed)
        if scheme is not None:
            found[name] = scheme
    return found


def _scheme(parsed: Any) -> SecurityScheme | None:
    kind, how = parsed.type, (parsed.scheme or "").lower()
    if kind in {"oauth2", "openIdConnect"} or (kind == "http" and how == "bearer"):
        return SecurityScheme(kind="bearer")
    if kind == "http" and how == "basic":
        return SecurityScheme(kind="basic")
    place = parsed.security_scheme_in
    name = parsed.name or ""
    if kind == "apiKey" and place in {"header", "query", "cookie"} and name.isascii() and name.isprintable() and name:
        return SecurityScheme(kind="key", place=place, name=name)
    return None


async def _credential_of(tool: str, name: str, given: object) -> object:
    if not callable(given):
        return given
    try:
        value: object = given()
        return await value if inspect.isawaitable(value) else value
    except Exception as error:  # noqa: BLE001 - a function of the program, which may fail with anything
        kind = type(error).__name__  # its text may hold what it was to give
        problem = f"the function that gives the credential of {name!r:.80} failed: {kind}"
        raise ToolArgumentsError(tool, problem) from None


def _user_and_password(tool: str, name: str, value: object) -> tuple[str, str]:
    if isinstance(value, str) and ":" in value:
        user, _, password = value.partition(":")
        return user, password
    match value:
        case (str(user), str(password)):
            return user, password
        case _:
            pass
    raise ToolArgumentsError(tool, f"the credential of {name!r:.80} must be a user and a password, or 'user:password'")


def _check_header(name: str, value: object) -> None:
    is_name = name.isascii() and name.isprintable() and name and not set(name) & set(" :,;")
    if not is_name or not isinstance(value, str) or not _is_sendable(value):
        raise ConfigError(f"headers: {name!r:.80} cannot be sent; a header is a name, and a text of ASCII in one line")


def _is_sendable(value: str) -> bool:
    return value.isascii() and value.isprintable()
