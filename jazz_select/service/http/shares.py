"""Whose request is worked on next, and whose connection is kept: the shares of keys, and the bounds of strangers."""

import asyncio
import ipaddress
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, cast

from jazz_select.service.problems import refused
from jazz_select.service.service_options import ServeOptions
from jazz_select.travel import NO_ROOM

_SHARE: Final = 0.75
"""Of the places that one key among several may have for itself."""
_AT_WORK: Final = 2
"""Keys whose requests are worked on at once where several ask, one of each."""
_REMEMBERED_S: Final = 0.5
"""Seconds for which a key that asked counts as one that asks."""
_TICK_S: Final = 0.01
_LATE_S: Final = 0.003
"""A tick that comes no later than this finds a loop that has time."""
_AWAY_S: Final = 0.02
"""Seconds after which a request that keeps no loop busy waits for somebody else, such as a model."""
_LONGEST_TURN_S: Final = 0.25
"""Seconds after which a turn is over, however busy the loop is."""


class Shares:
    """Places for requests, and turns at work on them, shared by keys.

    Where one key asks alone, its requests are begun as they come. Where several do, one of each of two keys is at work
    at most: next is the key on whose requests the least time was spent, and none beside one on whose less was. A
    request that waits for somebody else is not at work. So who asks much waits for what it asked itself, and who asks
    little waits for one request of another.
    """

    def __init__(self, options: ServeOptions, keys: int) -> None:
        self._most = options.max_in_flight
        self._most_of_one = self._most if keys <= 1 else max(1, int(self._most * _SHARE))
        self._own = max(1, self._most // max(1, keys))
        self.by_key: Counter[str] = Counter()
        self._at_work: defaultdict[str, set[_Work]] = defaultdict(set)
        self._waiting: defaultdict[str, deque[asyncio.Future[_Work]]] = defaultdict(deque)
        self._asked_at: dict[str, float] = {}
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tick: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(self, whose: str) -> AsyncGenerator[None]:
        """A place for one request of a key, as long as it is answered."""
        mine, again = self.by_key[whose], {"Retry-After": "1"}
        if self.by_key.total() >= self._most and mine >= self._own:
            detail = f"{self._most} requests are being answered already: come again in a moment"
            raise refused(503, detail, code=NO_ROOM, headers=again)
        if mine >= self._most_of_one:
            detail = f"{self._most_of_one} requests with this key are being answered already: come again in a moment"
            raise refused(429, detail, headers=again)
        self.by_key[whose] += 1
        try:
            yield
        finally:
            self.by_key[whose] -= 1

    @asynccontextmanager
    async def at_work(self, whose: str) -> AsyncGenerator[None]:
        """Wait for a turn of this key, and work on its request meanwhile."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._asked_at.pop(whose, -_REMEMBERED_S) >= _REMEMBERED_S:
            # Who comes anew has spent what the others have: nothing is saved up.
            spent = [self._spent[each] for each in self._others(whose, loop.time())]
            self._spent[whose] = min(spent, default=0.0)
        self._asked_at[whose] = loop.time()
        turn: asyncio.Future[_Work] = loop.create_future()
        self._waiting[whose].append(turn)
        self._go_on(loop)
        try:
            await turn
            yield
        finally:
            if turn.done() and not turn.cancelled():
                self._ended(turn.result(), loop)
            turn.cancel()  # where it never came

    def _others(self, whose: str, now: float) -> list[str]:
        """Return the other keys with requests, the most recent last."""
        lately = takewhile(lambda key: now - self._asked_at[key] <= _REMEMBERED_S, reversed(self._asked_at))
        return [*{*lately, *self._at_work, *self._waiting} - {whose}]

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for key in sorted(self._waiting, key=self._spent.__getitem__):
            is_alone, turns = not self._others(key, now), self._waiting[key]
            while turns and (is_alone or self._has_room(key)):
                turn = turns.popleft()
                if not turn.done():
                    work = _Work(key, now)
                    self._at_work[key].add(work)
                    turn.set_result(work)
            if not turns:
                del self._waiting[key]
        if self._tick is None and self._waiting:
            self._tick = loop.call_at(now + _TICK_S, self._looked, loop, now + _TICK_S)

    def _has_room(self, key: str) -> bool:
        if key in self._at_work or len(self._at_work) >= _AT_WORK:
            return False
        return all(self._spent[key] <= self._spent[other] for other in self._at_work)

    def _looked(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        """Stop counting requests that ran long enough with the loop free, and start others."""
        self._tick = None
        now = loop.time()
        least = _AWAY_S if now - planned <= _LATE_S else _LONGEST_TURN_S
        for work in [each for works in self._at_work.values() for each in works if now - each.began > least]:
            self._ended(work, loop)
        self._go_on(loop)

    def _ended(self, work: "_Work", loop: asyncio.AbstractEventLoop) -> None:
        works = self._at_work.get(work.whose, set())
        if work in works:
            works.remove(work)
            if not works:
                del self._at_work[work.whose]
            self._spent[work.whose] += loop.time() - work.began
            self._go_on(loop)


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    whose: str
    began: float


# --- connections -------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Connection:
    """One that is open; while it `is_held`, no body that comes is kept."""

    transport: asyncio.Transport
    address: str
    is_known: bool = False
    is_held: bool = False

    @classmethod
    def of(cls, transport: asyncio.Transport) -> "Connection":
        """One that was just made. Whoever has an IPv6 address has a network of them, which counts as one."""
        peer: Any = transport.get_extra_info("peername")
        address = str(cast("tuple[object, ...]", peer)[0]) if isinstance(peer, tuple) else ""
        if ":" in address:
            address = str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
        return cls(transport, address)


class Connections:
    """Those that are open: so many of one address, and in all."""

    def __init__(self, options: ServeOptions) -> None:
        self._most, self._most_of_one = options.max_connections, options.max_connections_of_one
        self._of: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def take(self, made: Connection) -> bool:
        """Whether there is room for one more; the oldest of a stranger's, by which nobody was let in, makes room."""
        same = self._of[made.address]
        crowd = same if len(same) >= self._most_of_one else None
        if crowd is None and sum(map(len, self._of.values())) >= self._most:
            crowd = max(self._of.values(), key=len)
        if crowd is not None:
            stranger = next((each for each in crowd if not each.is_known), None)
            if stranger is None:
                return False
            self.drop(stranger)
            stranger.transport.abort()
        self._of[made.address][made] = None
        return True

    def drop(self, closed: Connection) -> None:
        """It is open no more."""
        same = self._of.get(closed.address, {})
        same.pop(closed, None)
        if not same:
            self._of.pop(closed.address, None)
