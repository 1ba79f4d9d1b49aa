"""What stands before the app: who is let in, how much at once and of whom, how large a body, and how long one waits."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from time import monotonic
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jazz_select.json_values import json_object, with_whole_characters
from jazz_select.outcomes.callers import Caller, calling_as
from jazz_select.serialization import MAY_NOT_TEACH, NO_ROOM
from jazz_select.service.agents import ServedAgents, hash_key
from jazz_select.service.http.shares import Connection, Places, Shares
from jazz_select.service.problems import Rest, problem_response, refusal
from jazz_select.service.running import RunningCatalogue
from jazz_select.service.service_options import ServeOptions
from jazz_select.threads import is_cancelled, sharing_threads


class Lifecycle:
    """Shared by all that is asked whether it still takes requests.

    Attributes:
        is_stopping: Whether it will stop soon, and takes no new streams.
        is_over: Whether it stops now: nothing new is taken, and what is in flight is finished.
        by_key: How many requests are answered for each key.
        streams: What is held open until somebody hangs up.
    """

    def __init__(self) -> None:
        self.is_stopping = self.is_over = False
        self.by_key: Counter[str] = Counter()
        self.streams: set[asyncio.Task[Any]] = set()

    @property
    def in_flight(self) -> int:
        """Requests that are answered."""
        return self.by_key.total()

    def stop(self) -> None:
        """Say that it is about to stop: whoever holds a stream open is to come again, elsewhere."""
        self.is_stopping = True
        for stream in list(self.streams):
            stream.cancel()

    def end(self) -> None:
        """Stop now."""
        self.stop()
        self.is_over = True


_SKIPPED: Final = 16 << 20
"""Bytes of a refused body that are still read: whoever sends it hears why, and not that the connection broke."""
_QUICKLY_READ: Final = 32 << 10
"""Bytes of a body that are read as they come: of a larger one, when it is its key's turn."""
_SKIPPED_OF_ANONYMOUS: Final = 1 << 20
_PATIENCE_S: Final = 2.0


async def refuse(error: HTTPException, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer what is refused before its body was read."""
    response = problem_response(error, scope)
    rest: Rest = "none"
    if has_body(scope):
        rest = getattr(error, "rest", "skip")
    if rest == "skip" and "expect" in Headers(scope=scope):
        rest = "close"  # it waits to be told to go on
    is_known = _WHOSE in scope.get("state", {})
    most = _SKIPPED if is_known else _SKIPPED_OF_ANONYMOUS
    if rest == "close" or (rest == "skip" and not await _skip_body(receive, most)):
        response.headers["Connection"] = "close"
    await response(scope, receive, send)


async def _skip_body(receive: Receive, most: int) -> bool:
    """Read and discard the rest of a body; tell whether that was quick enough."""
    size = 0
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while size <= most:
                message = await receive()
                size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    return message["type"] != "http.disconnect"
    return False


def has_body(scope: Scope) -> bool:
    """Tell whether a body was announced."""
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


_MOST_BUCKETS: Final = 10_000
_ANONYMOUS_A_SECOND, _ANONYMOUS_AT_ONCE = 100.0, 100.0
"""Requests without a key of one address that are answered at once; more are answered later."""
_LONGEST_WAIT_S: Final = 5.0
"""How much later; more than that are refused at once, so that who waits takes a bounded room."""
_METRICS: Final = "/metrics"
"""What is asked to find out how it is has to be answered when all is taken, too."""


class TokenBucket:
    """So many requests a second, and some at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst = rate, burst
        self._clock = clock
        self._tokens, self._at = burst, clock()

    def wait_s(self, *, ahead_s: float = 0.0) -> float:
        """Take one, and return 0; where there is none, the seconds until there is.

        Args:
            ahead_s: Within how many seconds one is taken all the same: nobody else has it then, once they are over.
        """
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        wait_s = max(0.0, (1 - self._tokens) / self._rate)
        if wait_s <= ahead_s:
            self._tokens -= 1
        return wait_s


class AdmissionMiddleware:
    """Lets in who may ask, within limits, and reads each body before the app is asked.

    What is too much is refused at once: who is refused may come again, who waits in a queue waits for nothing.
    """

    def __init__(self, app: ASGIApp, *, served: ServedAgents, options: ServeOptions, life: Lifecycle) -> None:
        self._app, self._served, self._life = app, served, life
        self._options, self._shares = options, Shares(options, served.keys_known)
        life.by_key = self._shares.places.by_key
        self._streams = Places(
            options.max_streams, served.keys_known, "streams", "held open", most_of_one=options.max_streams_of_one
        )
        rate = options.rate or 0.0
        burst = options.burst or max(1.0, 2 * rate)

        @lru_cache(_MOST_BUCKETS)
        def bucket_of(_whose: str) -> TokenBucket:
            return TokenBucket(rate, burst)

        @lru_cache(_MOST_BUCKETS)
        def anonymous_bucket_of(_address: str) -> TokenBucket:
            return TokenBucket(_ANONYMOUS_A_SECOND, _ANONYMOUS_AT_ONCE, lambda: asyncio.get_running_loop().time())

        self._bucket_of, self._anonymous_bucket_of = bucket_of, anonymous_bucket_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body, or refuse it."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            await self._answer_request(scope, receive, send)
        except HTTPException as error:  # of what is checked here: the app answers its own
            await refuse(error, scope, receive, send)

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            enter(scope, self._served)
        except HTTPException as error:
            if await self._delay_anonymous(scope, receive):
                vars(error).update(rest="close")
            raise
        if reads_no_body(scope["path"]):
            await self._delay_anonymous(scope, receive)
            await self._app(scope, _replay_body(b"", receive), send)
        else:
            await self._answer_within_limits(scope, receive, send)

    async def _delay_anonymous(self, scope: Scope, receive: Receive) -> bool:
        """Delay a request without a key whose address sends too many; tell whether it had to wait.

        What it sends meanwhile is discarded, and the wait ends when it disconnects.
        """
        state = scope.get("state", {})
        if _WHOSE in state or CONNECTION not in state:
            return False
        connection: Connection = state[CONNECTION]
        wait_s = self._anonymous_bucket_of(connection.address).wait_s(ahead_s=_LONGEST_WAIT_S)
        if wait_s > _LONGEST_WAIT_S:
            detail = f"more than {_ANONYMOUS_A_SECOND:g} requests a second without a key: come again in {wait_s:.0f} s"
            raise refusal(429, detail, headers={"Retry-After": str(round(wait_s))}, rest="close")
        if wait_s:
            connection.is_held = True
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    while (await receive())["type"] != "http.disconnect":
                        pass
            connection.is_held = False
        return bool(wait_s)

    async def _answer_within_limits(self, scope: Scope, receive: Receive, send: Send) -> None:
        whose: str = scope["state"][_WHOSE]  # not what was sent: one key can be written in many ways
        rate = self._options.rate
        if rate is not None and (wait_s := self._bucket_of(whose).wait_s()):
            detail = f"more than {rate:g} requests a second with this key: come again in {wait_s:.1f} s"
            raise refusal(429, detail, headers={"Retry-After": str(max(1, round(wait_s)))})
        path: str = scope["path"]
        is_mcp = path == "/mcp" or path.startswith("/mcp/")
        if scope["method"] == "GET" and is_mcp:  # one that listens, by MCP
            await self._hold_open(scope, _replay_body(b"", receive), send)
            return
        with self._shares.places.place(whose):
            # Reading a large body is work too, so it waits for its key's turn.
            reading = self._shares.at_work(whose) if _is_large(scope) else nullcontext()
            async with reading:
                body = await self._read_body(scope, receive) if has_body(scope) else b""
            if body is None:
                return  # whoever asked is gone
            listens = is_mcp and _is_subscription(body)
            if not listens:
                lane = _BACKGROUND if path.startswith(_PANEL_DATA) else ""
                async with self._shares.at_work(whose, lane) as share:
                    scope["state"][_SHARE] = share
                    with calling_as(scope["state"][_CALLER]):
                        await self._app(scope, _replay_body(body, receive), send)

        if listens:  # it takes no place of those that are answered soon
            await self._hold_open(scope, _replay_body(body, receive), send)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        most, timeout_s = self._options.max_body, self._options.body_timeout_s
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdigit() and int(declared[:20]) > most:
            raise _too_large(most)
        body = bytearray()
        more = True
        try:
            async with asyncio.timeout(timeout_s):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    more = message.get("more_body", False)
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise _too_large(most, "skip" if more else "none")
        except TimeoutError as error:
            detail = f"the body was not there within {timeout_s:g} s: send it at once"
            raise refusal(408, detail, rest="close") from error
        return with_whole_characters(bytes(body))

    async def _hold_open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a stream until its client leaves or the service stops; refuse it if there are too many."""
        life = self._life
        if life.is_stopping:
            detail = "no more streams are held open here now: come again in a moment"
            raise refusal(503, detail, code=NO_ROOM, headers={"Retry-After": "1"})
        with self._streams.place(scope["state"][_WHOSE]):
            held: asyncio.Task[Any] = asyncio.ensure_future(self._app(scope, receive, send))
            life.streams.add(held)
            try:
                await held
            except asyncio.CancelledError:
                if is_cancelled():
                    held.cancel()
                    raise
            finally:
                life.streams.discard(held)


def _is_subscription(body: bytes) -> bool:
    """Tell whether an MCP message subscribes to changes: it is answered for as long as its sender listens."""
    if b"/listen" not in body:  # spares most bodies the parser
        return False
    message = json_object(body)
    return message is not None and message.get("method") == "subscriptions/listen"


def _is_large(scope: Scope) -> bool:
    size = Headers(scope=scope).get("content-length", "")
    # A body of unknown length counts as large. The slice bounds the number that is parsed.
    is_small = size.isdigit() and int(size[:20]) <= _QUICKLY_READ
    return has_body(scope) and not is_small


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the whole body first, and then the client's further messages."""
    unread: Message | None = {"type": "http.request", "body": body}

    async def receive_next() -> Message:
        nonlocal unread
        if unread is None:
            return await receive()
        message, unread = unread, None
        return message

    return receive_next


def _too_large(most: int, rest: Rest = "skip") -> HTTPException:
    return refusal(413, f"the body is larger than {most} bytes: send less, or in several requests", rest=rest)


# --- who asks --------------------------------------------------------------------


_PUBLIC: Final = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/favicon.ico"})
_PUBLIC_BELOW: Final = ("/panel/", "/docs/")
"""Pages, the same for everybody: what they show is asked for below `/v1`, with a key."""
_PANEL_DATA, _BACKGROUND = "/v1/panel/", "panel"
"""What the panel computes takes no threads from the other requests of its key."""
_CATALOGUE, _WHOSE, CONNECTION, _CALLER, _SHARE = "catalogue", "whose", "connection", "caller", "share"
"""Where the state of a request has its agent; who was let in, the same for one key, however it was written; how; and
what that key is called, with what it may do."""


def catalogue_of(connection: HTTPConnection) -> RunningCatalogue:
    """Return the agent that the request is for."""
    found: RunningCatalogue = connection.scope["state"][_CATALOGUE]
    return found


def caller_of(connection: HTTPConnection) -> Caller:
    """Return the caller of a request: the name of the key, and whether it may teach."""
    found: Caller = connection.scope["state"][_CALLER]
    return found


@contextmanager
def as_caller(connection: HTTPConnection) -> Generator[None]:
    """Do what a request asked for as its caller, in whatever task."""
    with calling_as(caller_of(connection)), sharing_threads(connection.scope["state"].get(_SHARE)):
        yield


def whose_request(connection: HTTPConnection) -> str:
    """Return what stands for the key of a request: the same for one key, however it was written."""
    found: str = connection.scope["state"][_WHOSE]
    return found


def check_may_teach(connection: HTTPConnection) -> None:
    """Raise a 403 unless the key may teach, and correct what was asked with others."""
    caller = caller_of(connection)
    if not caller.may_teach:
        detail = (
            f"the key {caller.key!r} may not teach: use one that the service was started with as teach_key_file "
            "(teach_key_file in agents.yaml)"
        )
        raise refusal(403, detail, code=MAY_NOT_TEACH)


def is_public(path: str) -> bool:
    """Tell whether a path shows nothing of any agent."""
    return path in _PUBLIC or path == "/panel" or path.startswith(_PUBLIC_BELOW)


def reads_no_body(path: str) -> bool:
    """Tell whether requests to a path are answered at once and without reading their body."""
    return is_public(path) or path == _METRICS


def enter(scope: Scope, served: ServedAgents) -> None:
    """See who it is: let in who has a key, and to what that opens; without a key, whoever is on this machine."""
    headers = Headers(scope=scope)
    if len(headers.getlist("authorization")) > 1:
        detail = "there are several Authorization headers, and no telling which of them counts: send one"
        raise refusal(400, detail, code="several_keys")
    path: str = scope["path"]
    if served.is_open:
        _check_neighbour(scope, headers, public=is_public(path))
    elif is_public(path):
        return
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    key = credentials.strip() if scheme.lower() == "bearer" else ""
    found = served.of_key(key)
    if found is None:
        what = "this key opens nothing here" if "authorization" in headers else "a key is needed"
        detail = f"{what}: send it as `Authorization: Bearer KEY`"
        raise refusal(401, detail, headers={"WWW-Authenticate": "Bearer"})
    # An open agent is one caller, whatever is sent as a key: nothing that is made up gives anybody more.
    whose = "" if served.is_open else hash_key(key)
    state = scope.setdefault("state", {})
    state.update({_CATALOGUE: found, _WHOSE: whose, _CALLER: served.caller(whose)})
    if CONNECTION in state:
        state[CONNECTION].let_in(whose)


def _check_neighbour(scope: Scope, headers: Headers, *, public: bool) -> None:
    """Refuse requests of foreign pages where no key is needed: a local browser would let them in.

    Such a page can send requests here, and by a name of its own that leads here (DNS rebinding) read the answers too.
    """
    host = headers.get("host", "")
    has_port = (scope.get("server") or ("", None))[1] is not None  # else a socket's file, which no page reaches
    if has_port and not _is_loopback(host):
        detail = "without a key this service answers to localhost alone, and this request is for another host"
        raise refusal(421, detail, code="wrong_host")
    origin = headers.get("origin")
    is_elsewhere = not public and headers.get("sec-fetch-site", "") in {"cross-site", "same-site"}
    if is_elsewhere or (origin is not None and origin.partition("://")[2] != host):
        raise refusal(403, "requests of pages from elsewhere are not answered without a key", code="wrong_origin")


def _is_loopback(host: str) -> bool:
    if host.startswith("["):  # an IPv6 address, which has colons of its own
        name = host.rpartition("]")[0].removeprefix("[")
    else:
        name = host.partition(":")[0]
    if name.lower() == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return False
