"""The way to a service: connections that are kept, time limits, what is asked again, and refusals as errors.

A connection belongs to the event loop that it was opened in, so that each loop has its own. What was asked is asked
again where nothing can have been done: the connection was refused, or the service had no room; and beyond that only
where doing it twice does no harm.

An error that the same call would raise in this process is raised as itself; all others are `ServiceError`s. Nothing
that a service says is believed to be more than a text.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite
from random import random
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

import orjson

from jazz_select.arguments import check_argument
from jazz_select.errors import (
    ConfigError,
    JazzSelectError,
    OutcomeLogError,
    ServiceBusyError,
    ServiceError,
    ServiceKeyError,
    ServiceReplyError,
    ServiceTimeoutError,
    ServiceUnavailableError,
    SnapshotError,
    UnknownFlowError,
)
from jazz_select.selector.options import TimeLimit
from jazz_select.text import beginning, describe_error
from jazz_select.travel import NO_ROOM, error_of
from jazz_select.values import is_count

if TYPE_CHECKING:
    import httpx

LARGEST_ANSWER: Final = 64_000_000
"""Bytes of an answer, or of one event, that are read."""
_NAME: Final = "jazz-select"
_AT_A_SOCKET: Final = "http://localhost"
"""The address of a service at a socket, where nobody named one."""
_LIMITS: Final = {"timeout": {"connect": 5.0, "read": None, "write": None, "pool": None}}
"""Seconds for a connection to be made; there is one limit around all else."""
_FIRST_WAIT_S: Final = 0.1
_MOST_CONNECTIONS: Final = 100
_KEPT_S: Final = 30.0
"""How long a connection that nobody uses is kept: less than a service keeps it, so that it is closed here."""
_KEY: Final = re.compile(r"[\x21-\x7e]+")
_OK: Final = 200
_JSON, _EVENTS = "application/json", "text/event-stream"
Hear = Callable[[str, Any], Awaitable[bool]]
"""Hears of an event: its name and data; says whether it was the last."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no answer.

    Attributes:
        error: As it is raised.
        undone: Whether nothing was done, so that even what is not to be done twice may be asked again.
    """

    error: JazzSelectError
    undone: bool = False

    @property
    def passing(self) -> bool:
        """Whether the same may go through in a moment."""
        return isinstance(self.error, ServiceBusyError | ServiceUnavailableError)


class Connection:
    """A service at an address, asked with a key.

    Attributes:
        url: Its address, as messages show it.
    """

    def __init__(
        self,
        url: str | None,
        *,
        key: str | None = None,
        agent_id: str = "",
        timeout_s: float | None,
        max_retries: int = 2,
        uds: str | None = None,
    ) -> None:
        """Take where it is; nothing is opened before it is asked.

        Raises:
            ConfigError: An argument cannot work.
        """
        check_argument("timeout_s", timeout_s, TimeLimit)
        if not is_count(max_retries) or max_retries < 0:
            msg = f"max_retries is how often to ask again, from 0, not {max_retries!r:.80}"
            raise ConfigError(msg)
        key = key.strip() if isinstance(key, str) else key  # a file that holds one ends with a line end
        if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            msg = "key is the one that the service was given for your agent: one word, without blanks"
            raise ConfigError(msg)
        if not isinstance(agent_id, str):  # pyright: ignore[reportUnnecessaryIsInstance] - likewise
            msg = f"agent_id is a string, not {agent_id!r:.80}"
            raise ConfigError(msg)
        self.url = _checked(_AT_A_SOCKET if url is None and uds is not None else url)
        self.timeout_s = timeout_s
        self.agent_id = agent_id
        self._has_key = bool(key)
        self._uds, self._max_retries = uds, max_retries
        self._headers = {
            "User-Agent": _NAME,
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {key}"} if key else {}),
        }
        self._urls: dict[str, httpx.URL] = {}
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = WeakKeyDictionary()
        self._lock = Lock()
        self._is_agreed = not agent_id

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of loops that have ended are gone with them."""
        with self._lock:
            transport = self._transports.pop(asyncio.get_running_loop(), None)
        if transport is not None:
            await transport.aclose()

    async def ask(
        self, method: str, path: str, body: object = None, *, twice: bool = True, timeout_s: float | None = None
    ) -> dict[str, Any]:
        """The JSON object that it answers.

        Args:
            method: GET or POST.
            path: Below the address.
            body: JSON values.
            twice: Whether it does no harm to do it twice.
            timeout_s: The most that it may take, asking again included; by default that of the connection.

        Raises:
            ServiceError: There was no answer.
            JazzSelectError: What the service was asked for cannot be done; as of the same call in this process.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        async with self._within(limit_s):
            await self._agree()
            return await self._asked(method, path, body, twice=twice, limit_s=limit_s)

    async def hear(self, path: str, body: object, hear: Hear, *, timeout_s: float | None) -> None:
        """Ask for events, and tell of each.

        Raises:
            ServiceError: There was no answer, or it broke off.
            JazzSelectError: What the service was asked for cannot be done; as of the same call in this process.
        """
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        async with self._within(limit_s):
            await self._agree()
            for attempt in range(self._max_retries + 1):
                refused = await self._heard(path, body, hear)
                if refused is None:
                    return
                await self._wait(refused, attempt, twice=False, limit_s=limit_s)

    @contextmanager
    def reading(self) -> Generator[None]:
        """Values are made of what it answered in this block.

        Raises:
            ServiceReplyError: It is nothing that such a value could be made of: no fault of the caller's.
        """
        try:
            yield
        except (ConfigError, SnapshotError) as error:
            raise ServiceReplyError(self.url, str(error)) from error

    async def _agree(self) -> None:
        """See that the key opens the agent that is meant, once."""
        if not self._is_agreed:
            found = (await self._asked("GET", "/v1/agent", None, twice=True, limit_s=self.timeout_s)).get("agent_id")
            if found != self.agent_id:
                what = "this key opens" if self._has_key else f"the service at {self.url} serves"
                remedy = "give its own key" if self._has_key else "give its own address, or another agent_id"
                msg = f"{what} the agent {one_line_of(found)!r}, not {self.agent_id!r}: {remedy}"
                raise ConfigError(msg)
            self._is_agreed = True

    async def _asked(
        self, method: str, path: str, body: object, *, twice: bool, limit_s: float | None
    ) -> dict[str, Any]:
        attempt = 0
        while True:
            found = await self._once(method, path, body)
            if not isinstance(found, Refusal):
                return found
            await self._wait(found, attempt, twice=twice, limit_s=limit_s)
            attempt += 1

    async def _wait(self, refused: Refusal, attempt: int, *, twice: bool, limit_s: float | None) -> None:
        """Wait until it can be asked again.

        Raises:
            JazzSelectError: It cannot.
        """
        error = refused.error
        if not refused.passing or not (twice or refused.undone) or attempt >= self._max_retries:
            raise error
        asked_s: float | None = getattr(error, "retry_after", None)
        # By chance, so that not all come back at once.
        wait_s = _FIRST_WAIT_S * 2**attempt * (0.5 + random()) if asked_s is None else asked_s  # noqa: S311
        if limit_s is not None and wait_s >= limit_s:
            raise error
        await asyncio.sleep(wait_s)

    async def _once(self, method: str, path: str, body: object) -> "dict[str, Any] | Refusal":
        """One request: what it is answered, or why not."""
        async with self._sent(method, path, body, accept=_JSON) as answered:
            if isinstance(answered, Refusal):
                return answered
            content = await self._read(answered)
            if isinstance(content, Refusal):
                return content
            if answered.status_code != _OK:
                return refusal(self.url, answered.status_code, answered.headers, content, has_key=self._has_key)
            found = _object(content)
            return (
                Refusal(ServiceReplyError(self.url, "what it answered is no JSON object")) if found is None else found
            )

    async def _heard(self, path: str, body: object, hear: Hear) -> Refusal | None:
        """One request for events; once the first came, there is no second one."""
        async with self._sent("POST", path, body, accept=_EVENTS) as answered:
            if isinstance(answered, Refusal):
                return answered
            media = answered.headers.get("content-type", "").partition(";")[0].strip()
            if answered.status_code != _OK or media != _EVENTS:
                content = await self._read(answered)
                if isinstance(content, Refusal):
                    return content
                if answered.status_code != _OK:
                    return refusal(self.url, answered.status_code, answered.headers, content, has_key=self._has_key)
                raise ServiceReplyError(self.url, "what it answered are no events")
            try:
                async for name, data in _frames(answered, self.url):
                    if name == "problem":
                        raise problem_error(self.url, data, has_key=self._has_key)
                    if await hear(name, data):
                        return None
            except _transport_error() as error:
                raise self._gone(error) from error
        raise ServiceUnavailableError(self.url, "the events broke off before the last one")

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, body: object, *, accept: str
    ) -> "AsyncGenerator[httpx.Response | Refusal]":
        """A request that was sent, with the head of its answer; or why there is none."""
        import httpx

        headers = {**self._headers, "Accept": accept}
        content = None
        if body is not None:
            headers["Content-Type"], content = _JSON, _as_bytes(body)
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = httpx.URL(self.url + path)
        # No client of httpx: cookies, redirects and logins, which there are none of here, cost as much as the rest.
        request = httpx.Request(method, url, headers=headers, content=content, extensions=_LIMITS)
        try:
            response = await self._transport().handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            yield Refusal(self._gone(error), undone=True)
            return
        except httpx.TransportError as error:
            yield Refusal(self._gone(error))
            return
        try:
            yield response
        finally:
            await response.aclose()

    async def _read(self, response: "httpx.Response") -> "bytes | Refusal":
        """The body of an answer, as long as it is none that would fill this process."""
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            return Refusal(ServiceReplyError(self.url, f"it answered in the encoding {one_line_of(encoding)!r:.80}"))
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in response.aiter_raw():
                size += len(piece)
                if size > LARGEST_ANSWER:
                    return Refusal(ServiceReplyError(self.url, f"it answered more than {LARGEST_ANSWER} bytes"))
                pieces.append(piece)
        except _transport_error() as error:
            return Refusal(self._gone(error))
        return b"".join(pieces)

    def _gone(self, error: Exception) -> ServiceUnavailableError:
        problem = f"{describe_error(error)}; is it running, and is this its address?"
        found = ServiceUnavailableError(self.url, problem)
        found.__cause__ = error
        return found

    @asynccontextmanager
    async def _within(self, limit_s: float | None) -> AsyncGenerator[None]:
        """A time limit around all that is waited for."""
        timer = asyncio.timeout(limit_s)
        try:
            async with timer:
                yield
        except TimeoutError as error:
            if timer.expired() and limit_s is not None:
                raise ServiceTimeoutError(self.url, timeout_s=limit_s) from error
            raise

    def _transport(self) -> "httpx.AsyncHTTPTransport":
        """That of this event loop."""
        import httpx

        loop = asyncio.get_running_loop()
        with self._lock:
            transport = self._transports.get(loop)
            if transport is None:
                limits = httpx.Limits(
                    max_connections=_MOST_CONNECTIONS,
                    max_keepalive_connections=_MOST_CONNECTIONS,
                    keepalive_expiry=_KEPT_S,
                )
                transport = httpx.AsyncHTTPTransport(uds=self._uds, limits=limits, trust_env=False)
                self._transports[loop] = transport
            return transport


def _checked(url: object) -> str:
    import httpx

    try:
        found = httpx.URL(url) if isinstance(url, str) else None
    except httpx.InvalidURL:
        found = None
    if found is None or found.scheme not in {"http", "https"} or not found.host:
        msg = f"url is the address of jazz-select serve, such as http://127.0.0.1:8420, not {url!r:.80}"
        raise ConfigError(msg)
    if found.userinfo or found.query or found.fragment:
        msg = "url is an address alone: the key is given as key=, and nothing follows the path"
        raise ConfigError(msg)
    return str(found).rstrip("/")


def _object(content: bytes) -> dict[str, Any] | None:
    """The object of JSON that it is; None where it is none."""
    try:
        found = orjson.loads(content)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _as_bytes(body: object) -> bytes:
    """A body as JSON.

    Raises:
        ConfigError: It is none.
    """
    try:
        return orjson.dumps(body)
    except TypeError as error:
        msg = f"only JSON can be sent to a service, and this is none: {describe_error(error)}"
        raise ConfigError(msg) from error


def _transport_error() -> "type[httpx.TransportError]":
    import httpx

    return httpx.TransportError


async def _frames(response: "httpx.Response", url: str) -> AsyncGenerator[tuple[str, Any]]:
    """The events of a stream, as a browser would read them: names, and data as JSON.

    Raises:
        ServiceReplyError: Their data are no JSON, or there is no end to one.
    """
    name, data, size = b"message", list[bytes](), 0
    async for line in _lines(response, url):
        size += len(line)
        if size > LARGEST_ANSWER:
            raise ServiceReplyError(url, f"one event is longer than {LARGEST_ANSWER} bytes")
        if line:
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"event":
                name = value
            elif field == b"data":
                data.append(value)
            continue
        if data:
            try:
                found: Any = orjson.loads(b"\n".join(data))
            except ValueError as error:
                raise ServiceReplyError(url, "the data of an event are no JSON") from error
            yield name.decode(errors="replace"), found
        name, data, size = b"message", [], 0


async def _lines(response: "httpx.Response", url: str) -> AsyncGenerator[bytes]:
    """The lines of a stream: ended by LF or CR LF, which no text within JSON is."""
    left: list[bytes] = []
    size = 0
    async for piece in response.aiter_raw():
        *ended, rest = piece.split(b"\n")
        for end in ended:
            yield b"".join((*left, end)).removesuffix(b"\r")
            left, size = [], 0
        left.append(rest)
        size += len(rest)
        if size > LARGEST_ANSWER:
            raise ServiceReplyError(url, f"one event is longer than {LARGEST_ANSWER} bytes")


_SAME: Final = frozenset(
    kind.__name__ for kind in (ConfigError, JazzSelectError, OutcomeLogError, SnapshotError, UnknownFlowError)
)
"""Errors of a call that mean the same wherever it is answered."""
_OF_A_BODY: Final = frozenset({"invalid_body", "not_json"})
"""What was sent is nothing that is taken: here it is an argument that cannot work."""
_LONGEST: Final = 1_000
_LONGEST_WAIT_S: Final = 86_400.0
_KEY_WANTED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def refusal(url: str, status: int, headers: Mapping[str, str], body: bytes, *, has_key: bool = True) -> Refusal:
    """What an answer means that is no success; `has_key` says whether a key was sent."""
    problem = _problem(body)
    if status in _KEY_WANTED:
        return Refusal(ServiceKeyError(url, given=has_key), undone=True)
    wait_s = retry_after(headers.get("retry-after", ""))
    if status == HTTPStatus.TOO_MANY_REQUESTS or problem.get("code") == NO_ROOM:
        return Refusal(ServiceBusyError(url, retry_after=wait_s), undone=True)
    if not problem:
        if status in {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}:
            said = f"HTTP {status}, from something that stands before it"
            return Refusal(ServiceUnavailableError(url, said, retry_after=wait_s))
        return Refusal(ServiceReplyError(url, f"HTTP {status}, without a word of why"))
    return Refusal(_told(url, status, problem, wait_s))


def problem_error(url: str, problem: object, *, has_key: bool = True) -> JazzSelectError:
    """The error of problem details that came as the last event of a stream."""
    known = cast("dict[str, Any]", problem if isinstance(problem, dict) else {})
    status = known.get("status")
    return refusal(url, status if isinstance(status, int) else 500, {}, orjson.dumps(problem), has_key=has_key).error


def _told(url: str, status: int, problem: Mapping[str, Any], wait_s: float | None) -> JazzSelectError:
    """The error of problem details as this library writes them."""
    detail, code, request = (one_line_of(problem.get(name)) for name in ("detail", "code", "request_id"))
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        if code in _OF_A_BODY:
            return ConfigError(detail)
        if code in _SAME:
            same = error_of({"code": code, "message": detail, "details": {"problem": detail, "missing": []}})
            return cast("JazzSelectError", same)
        return ServiceError(url, detail)
    known = ", ".join(each for each in (code, f"request {request}" if request else "") if each)
    said = f"{detail} ({known})" if known else detail
    passing = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
    if status in passing:
        return ServiceUnavailableError(url, said, retry_after=wait_s)
    return ServiceError(url, said)


def _problem(body: bytes) -> dict[str, Any]:
    """Problem details (RFC 9457) with a `detail` and a `code`; empty where it is something else."""
    try:
        found = orjson.loads(body)
    except ValueError:
        return {}
    known = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return known if isinstance(known.get("detail"), str) and isinstance(known.get("code"), str) else {}


def one_line_of(value: object) -> str:
    """Foreign text in one line, and not all of it; empty where it is none."""
    return beginning(" ".join(value.split()), _LONGEST) if isinstance(value, str) else ""


def retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header, which may be a date; None where it says nothing that can be obeyed."""
    try:
        wait_s = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, TypeError, OverflowError):
            return None
        wait_s = ((at if at.tzinfo else at.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds()
    return min(max(wait_s, 0.0), _LONGEST_WAIT_S) if isfinite(wait_s) else None
