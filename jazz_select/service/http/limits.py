"""How much is taken at once, and of whom."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jazz_select.service.http.bodies import refuse
from jazz_select.service.http.life import Life
from jazz_select.service.options import ServeOptions
from jazz_select.service.problems import refused
from jazz_select.travel import NO_ROOM

_MOST_BUCKETS: Final = 10_000
_SHARE: Final = 0.75
"""Of the places that one agent among several may have for itself."""
_UNLIMITED: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""What is asked to find out how it is has to be answered when all is taken, too."""


class TokenBucket:
    """So many requests a second, and some at once."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = monotonic) -> None:
        """Begin full."""
        self._rate, self._burst = rate, burst
        self._clock = clock
        self._tokens, self._at = burst, clock()

    def wait_s(self) -> float:
        """Take one, and return 0; where there is none, the seconds until there is."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens >= 1:
            self._tokens -= 1
            return 0.0
        return (1 - self._tokens) / self._rate


class Limits:
    """Refuses what is too much, at once: who is refused may come again, who waits in a queue waits for nothing."""

    def __init__(self, app: ASGIApp, *, options: ServeOptions, life: Life, agents: int) -> None:
        """Stand before an app.

        Args:
            app: What is behind.
            options: The limits.
            life: Counts what is worked on.
            agents: How many agents share them.
        """
        self._app, self._life = app, life
        self._options = options
        self._most_of_one = options.max_in_flight if agents == 1 else max(1, int(options.max_in_flight * _SHARE))
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http" or scope["path"] in _UNLIMITED:
            await self._app(scope, receive, send)
            return
        caller = scope.get("state", {}).get("catalogue")
        agent_id = "" if caller is None else caller.agent_id
        try:
            if caller is not None:
                self._check_rate(scope)
            if is_stream(scope):
                await self._held_open(scope, receive, send)
                return
            self._check_room(agent_id)
        except HTTPException as error:
            await refuse(error, scope, receive, send)
            return
        self._life.began(agent_id)
        try:
            await self._app(scope, receive, send)
        finally:
            self._life.ended(agent_id)

    def _check_rate(self, scope: Scope) -> None:
        rate = self._options.rate
        if rate is None:
            return
        whose: str = scope["state"].get("whose", "")  # not what was sent: one key can be written in many ways
        bucket = self._buckets.get(whose)
        if bucket is None:
            burst = self._options.burst or max(1.0, 2 * rate)
            bucket = self._buckets[whose] = TokenBucket(rate, burst)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        wait_s = bucket.wait_s()
        if wait_s:
            detail = f"more than {rate:g} requests a second with this key: come again in {wait_s:.1f} s"
            raise refused(429, detail, headers={"Retry-After": str(max(1, round(wait_s)))})

    def _check_room(self, agent_id: str) -> None:
        life, most = self._life, self._options.max_in_flight
        if life.in_flight >= most:
            detail = f"{most} requests are being answered already: come again in a moment"
            raise refused(503, detail, code=NO_ROOM, headers={"Retry-After": "1"})
        if agent_id and life.by_agent.get(agent_id, 0) >= self._most_of_one:
            detail = f"{self._most_of_one} requests of this agent are being answered already: come again in a moment"
            raise refused(429, detail, headers={"Retry-After": "1"})

    async def _held_open(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A stream that ends when its client leaves, or the service stops."""
        life, task = self._life, asyncio.current_task()
        if life.is_stopping or len(life.streams) >= self._options.max_streams:
            detail = "no more streams are held open here now: come again in a moment"
            raise refused(503, detail, code=NO_ROOM, headers={"Retry-After": "1"})
        held: asyncio.Task[Any] = asyncio.ensure_future(self._passed(scope, receive, send))
        life.streams.add(held)
        try:
            await held
        except asyncio.CancelledError:
            if task is not None and task.cancelling():
                held.cancel()
                raise
        finally:
            life.streams.discard(held)

    async def _passed(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def is_stream(scope: Scope) -> bool:
    """Whether it stays open until its client leaves: one that listens, by MCP."""
    path: str = scope["path"]
    return scope["method"] == "GET" and (path == "/mcp" or path.startswith("/mcp/"))
