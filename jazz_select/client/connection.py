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
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from itertools import count
from random import random
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import orjson

from jazz_select.arguments import Constraint, checked
from jazz_select.chat.pydantic_ai_errors import seconds_to_wait
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
from jazz_select.json_values import is_object, json_object, with_whole_characters
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.serialization import MAY_NOT_TEACH, NO_ROOM, error_of
from jazz_select.text import beginning, describe_error

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
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
_CREDENTIALS: Final = re.compile(r"(?<=//).*@|^(?!.*//).*@", re.DOTALL)
"""A user and password, which no error text may hold."""
_OK: Final = 200
_Retries: TypeAlias = Annotated[int, Constraint("how often to ask again, from 0", ge=0)]
_JSON, _EVENTS = "application/json", "text/event-stream"
EventHandler: TypeAlias = Callable[[str, Any], Awaitable[bool]]
"""Takes an event's name and data; returns whether it was the last."""


class ServiceLink:
    """A service at an address, asked with a key.

    Attributes:
        url: Its address, as messages show it.
    """

    @checked
    def __init__(
        self,
        url: "str | None",
        *,
        key: "str | None" = None,
        agent_id: str = "",
        timeout_s: TimeLimit,
        max_retries: _Retries = 2,
        uds: "str | None" = None,
    ) -> None:
        """Take where it is; nothing is opened before it is asked.

        Raises:
            ConfigError: An argument cannot work.
        """
        key = key.strip() if isinstance(key, str) else key  # a file that holds one ends with a line end
        if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):  # pyright: ignore[reportUnnecessaryIsInstance] - callers without a type checker
            raise ConfigError("key is the one that the service was given for your agent: one word, without blanks")
        self.url = _check_url(_AT_A_SOCKET if url is None and uds is not None else url)
        self.timeout_s = timeout_s
        self.agent_id = agent_id
        self._has_key = bool(key)
        self._uds, self._max_retries = uds, max_retries
        # Ask for no compression: an answer is read in pieces within a limit in bytes, and never unpacked.
        self._headers = {"User-Agent": _NAME, "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._transports: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncHTTPTransport] = WeakKeyDictionary()
        self._lock = Lock()
        self._is_agent_checked = not agent_id

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

        Raises:
            ServiceError: There was no answer.
            JazzSelectError: What the service was asked for cannot be done; as of the same call in this process.
        """
        async with self._limit_time(timeout_s) as limit_s:
            return await self._request_json(method, path, body, twice=twice, limit_s=limit_s)

    async def stream_events(self, path: str, body: object, handle: EventHandler, *, timeout_s: float | None) -> None:
        """Ask for events, and pass on each.

        Raises:
            ServiceError: There was no answer, or it broke off.
            JazzSelectError: What the service was asked for cannot be done; as of the same call in this process.
        """
        async with self._limit_time(timeout_s) as limit_s, AsyncExitStack() as stack:
            opened = partial(self._open_response, "POST", path, body, accept=_EVENTS)
            # Retry only until the stream opens: events that were passed on cannot be taken back.
            answered = await self._with_retries(
                lambda: stack.enter_async_context(opened()), twice=False, limit_s=limit_s
            )
            if answered.headers.get("content-type", "").partition(";")[0].strip() != _EVENTS:
                await self._read_body(answered)  # which may have broken off
                raise ServiceReplyError(self.url, "what it answered are no events")
            async for name, data in _frames(answered, self.url):
                if name == "problem":
                    problem: Mapping[str, Any] = data if is_object(data) else {}
                    status = problem.get("status")
                    if not isinstance(status, int):
                        status = HTTPStatus.INTERNAL_SERVER_ERROR
                    raise self._refusal(status, {}, problem)
                if await handle(name, data):
                    return
        raise ServiceUnavailableError(self.url, "the events broke off before the last one")

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

    async def _check_agent(self) -> None:
        """See, before the first request, that the service's agent is the one that is meant."""
        if self._is_agent_checked:
            return
        body = await self._request_json("GET", "/v1/agent", None, twice=True, limit_s=self.timeout_s)
        found = body.get("agent_id")
        if found != self.agent_id:
            if self._has_key:
                what, remedy = "this key opens", "give its own key"
            else:
                what, remedy = f"the service at {self.url} serves", "give its own address, or another agent_id"
            raise ConfigError(f"{what} the agent {one_line_of(found)!r}, not {self.agent_id!r}: {remedy}")
        self._is_agent_checked = True

    async def _request_json(
        self, method: str, path: str, body: object, *, twice: bool, limit_s: float | None
    ) -> dict[str, Any]:
        async def request_once() -> dict[str, Any]:
            async with self._open_response(method, path, body, accept=_JSON) as answered:
                found = json_object(await self._read_body(answered))
            if found is None:
                raise ServiceReplyError(self.url, "what it answered is no JSON object")
            return found

        return await self._with_retries(request_once, twice=twice, limit_s=limit_s)

    async def _with_retries(self, once: Callable[[], Awaitable[T]], *, twice: bool, limit_s: float | None) -> T:
        """Send a request, again where a retry is harmless and may succeed."""
        import httpx

        for attempt in count():
            try:
                return await once()
            except (ServiceBusyError, ServiceUnavailableError) as error:
                wait_s = error.retry_after
                if wait_s is None:
                    # Add jitter, so that clients do not all retry at once.
                    wait_s = _FIRST_WAIT_S * 2**attempt * (0.5 + random())  # noqa: S311
                # It is safe to retry: the service was full or unreachable, so nothing was done.
                is_unconnected = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
                is_undone = isinstance(error, ServiceBusyError) or is_unconnected
                is_late = limit_s is not None and wait_s >= limit_s
                if not (twice or is_undone) or attempt >= self._max_retries or is_late:
                    raise
            await asyncio.sleep(wait_s)
        raise AssertionError

    @asynccontextmanager
    async def _open_response(
        self, method: str, path: str, body: object, *, accept: str
    ) -> "AsyncGenerator[httpx.Response]":
        import httpx

        headers = {**self._headers, "Accept": accept}
        content = None
        if body is not None:
            try:
                headers["Content-Type"], content = _JSON, orjson.dumps(body)
            except TypeError as error:
                raise ConfigError(f"only JSON can be sent to a service: {describe_error(error)}") from error
        # No client of httpx: cookies, redirects and logins, which there are none of here, cost as much as the rest.
        request = httpx.Request(method, self.url + path, headers=headers, content=content, extensions=_LIMITS)
        try:
            answered = await self._transport().handle_async_request(request)
            try:
                if answered.status_code != _OK:
                    problem = json_object(await self._read_body(answered))
                    raise self._refusal(answered.status_code, answered.headers, problem or {})
                yield answered
            finally:
                await answered.aclose()
        except httpx.TransportError as error:
            advice = "is it running, and is this its address?"
            raise ServiceUnavailableError(self.url, f"{describe_error(error)}; {advice}") from error

    async def _read_body(self, answered: "httpx.Response") -> bytes:
        encoding = answered.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ServiceReplyError(self.url, f"it answered in the encoding {one_line_of(encoding)!r:.80}")
        found = bytearray()
        async for piece in answered.aiter_raw():
            found += piece
            if len(found) > LARGEST_ANSWER:
                raise ServiceReplyError(self.url, f"it answered more than {LARGEST_ANSWER} bytes")
        return bytes(found)

    @asynccontextmanager
    async def _limit_time(self, timeout_s: float | None) -> AsyncGenerator[float | None]:
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        timer = asyncio.timeout(limit_s)
        try:
            async with timer:
                await self._check_agent()
                yield limit_s
        except TimeoutError as error:
            if timer.expired() and limit_s is not None:
                raise ServiceTimeoutError(self.url, timeout_s=limit_s) from error
            raise

    def _transport(self) -> "httpx.AsyncHTTPTransport":
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

    def _refusal(self, status: int, headers: Mapping[str, str], body: Mapping[str, Any]) -> JazzSelectError:
        """Return the error that an answer means, with its problem details (RFC 9457)."""
        if status in _KEY_WANTED and body.get("code") != MAY_NOT_TEACH:
            return ServiceKeyError(self.url, given=self._has_key)
        wait_s = seconds_to_wait(headers)
        if wait_s is not None:
            wait_s = min(wait_s, _LONGEST_WAIT_S)
        # A proxy answers in a format of its own; its error must not pass for the service's.
        is_ours = isinstance(body.get("detail"), str) and isinstance(body.get("code"), str)
        problem: Mapping[str, Any] = body if is_ours else {}
        detail = one_line_of(problem.get("detail"))
        code = one_line_of(problem.get("code"))
        request_id = one_line_of(problem.get("request_id"))
        if status == HTTPStatus.TOO_MANY_REQUESTS or (is_ours and code == NO_ROOM):
            return ServiceBusyError(self.url, retry_after=wait_s)
        if is_ours and status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return self._error_from(code, detail)
        text = detail
        if is_ours:
            reference = ", ".join(filter(None, (code, request_id and f"request {request_id}")))
            text = f"{detail} ({reference})" if reference else detail
        text = text or f"HTTP {status}, from something that stands before it"
        if status in _PASSING:
            return ServiceUnavailableError(self.url, text, retry_after=wait_s)
        if is_ours:
            return ServiceError(self.url, text)
        return ServiceReplyError(self.url, f"HTTP {status}, without a word of why")

    def _error_from(self, code: str, detail: str) -> JazzSelectError:
        if code in _OF_A_BODY:
            return ConfigError(detail)
        if code not in _SAME:
            return ServiceError(self.url, detail)
        # `error_of` makes one of the classes in `_SAME`, all of which are ours.
        same = error_of({"code": code, "message": detail, "details": {"problem": detail, "missing": []}})
        return cast("JazzSelectError", same)


def _check_url(url: object) -> str:
    import httpx

    found = None
    if isinstance(url, str):
        with suppress(httpx.InvalidURL):
            found = httpx.URL(url)
    if found is None or found.scheme not in {"http", "https"} or not found.host:
        shown = _CREDENTIALS.sub("", url) if isinstance(url, str) else url
        raise ConfigError(
            f"url must be the address of jazz-select serve, such as http://127.0.0.1:8420, got {shown!r:.80}"
        )
    if found.userinfo or found.query or found.fragment:
        raise ConfigError("url must be an address alone: the key is given as key=, and nothing follows the path")
    return str(found).rstrip("/")


async def _frames(answered: "httpx.Response", url: str) -> AsyncGenerator[tuple[str, Any]]:
    """Yield the server-sent events: name, and data as JSON."""
    unread = bytearray()
    async for piece in answered.aiter_raw():
        # Search only what is new, and one byte before it: the end of an event may be cut in two.
        searched = max(len(unread) - 1, 0)
        unread += piece.replace(b"\r", b"")  # which no JSON holds
        while (end := unread.find(b"\n\n", searched)) >= 0:
            lines = bytes(unread[:end]).split(b"\n")
            fields = dict(line.split(b": ", 1) for line in lines if b": " in line)
            if b"data" in fields:
                try:
                    event = fields.get(b"event", b"message").decode(errors="replace")
                    yield event, orjson.loads(with_whole_characters(fields[b"data"]))
                except ValueError as error:
                    raise ServiceReplyError(url, "the data of an event are no JSON") from error
            del unread[: end + 2]
            searched = 0
        if len(unread) > LARGEST_ANSWER:
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
_PASSING: Final = frozenset({HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT})


def one_line_of(value: object) -> str:
    """Foreign text in one line, and not all of it; empty where it is none."""
    if not isinstance(value, str):
        return ""
    return beginning(" ".join(value.split()), _LONGEST)
