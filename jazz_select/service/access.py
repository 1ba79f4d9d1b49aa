"""Who asks: the agent that a key opens, and no request from where a page of somebody else's may have sent it."""

import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Scope

from jazz_select.service.agents import ServedAgents, digest_of
from jazz_select.service.problems import refused
from jazz_select.service.running import RunningCatalogue

_PUBLIC: Final = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/favicon.ico"})
_PUBLIC_BELOW: Final = ("/panel/", "/docs/")
"""Pages, the same for everybody: what they show is asked for below `/v1`, with a key."""
_BEARER: Final = "bearer "
_CATALOGUE, _WHOSE = "catalogue", "whose"
"""Where the state of a request has its agent, and who was let in: the same for one key, however it was written."""


def catalogue_of(connection: HTTPConnection) -> RunningCatalogue:
    """The agent that the request is for.

    Raises:
        HTTPException: Its key opens none.
    """
    found: RunningCatalogue | None = connection.scope.get("state", {}).get(_CATALOGUE)
    if found is None:
        raise _no_key(given=bool(connection.headers.get("authorization")))
    return found


def is_public(path: str) -> bool:
    """Whether there is nothing of any agent to be seen there."""
    return path in _PUBLIC or path == "/panel" or path.startswith(_PUBLIC_BELOW)


def enter(scope: Scope, served: ServedAgents) -> None:
    """See who it is: let in who has a key, and to what that opens; where there is no key, whoever is on this machine.

    Raises:
        HTTPException: It is nobody.
    """
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if sum(name == b"authorization" for name, _ in scope["headers"]) > 1:
        detail = "there are several Authorization headers, and no telling which of them counts: send one"
        raise refused(400, detail, code="several_keys")
    path: str = scope["path"]
    if served.is_open:
        _check_neighbour(scope, headers, public=is_public(path))
    elif is_public(path):
        return
    kind, _, key = headers.get(b"authorization", "").partition(" ")
    given = key.strip() if f"{kind.lower()} " == _BEARER else ""
    found = served.of_key(given)
    if found is None:
        raise _no_key(given=b"authorization" in headers)
    # An open agent is one caller, whatever is sent as a key: nothing that is made up gives anybody more.
    whose = "" if served.is_open else digest_of(given)
    scope.setdefault("state", {}).update({_CATALOGUE: found, _WHOSE: whose})


def _no_key(*, given: bool) -> HTTPException:
    what = "this key opens nothing here" if given else "a key is needed"
    detail = f"{what}: send it as `Authorization: Bearer KEY`"
    return refused(401, detail, headers={"WWW-Authenticate": "Bearer"})


def _check_neighbour(scope: Scope, headers: Mapping[bytes, str], *, public: bool) -> None:
    """Without a key, a page from elsewhere must not get in by the browser of whoever is on this machine.

    Such a page can send requests here, and by a name of its own that leads here (DNS rebinding) read the answers too.

    Raises:
        HTTPException: It may be one.
    """
    host = headers.get(b"host", "")
    has_port = (scope.get("server") or ("", None))[1] is not None  # else a socket's file, which no page reaches
    if has_port and not _is_loopback(host):
        detail = "without a key this service answers to localhost alone, and this request is for another host"
        raise refused(421, detail, code="wrong_host")
    origin = headers.get(b"origin")
    is_elsewhere = not public and headers.get(b"sec-fetch-site", "") in {"cross-site", "same-site"}
    if is_elsewhere or (origin is not None and origin.partition("://")[2] != host):
        raise refused(403, "requests of pages from elsewhere are not answered without a key", code="wrong_origin")


def _is_loopback(host: str) -> bool:
    name = host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False
