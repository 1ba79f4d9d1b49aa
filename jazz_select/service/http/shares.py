"""Whose request is worked on next, and whose connection is kept: the shares of keys, and the bounds of strangers."""

import asyncio
import ipaddress
import os
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any, Final, cast

from jazz_select.serialization import NO_ROOM
from jazz_select.service.problems import refusal
from jazz_select.service.service_options import ServeOptions
from jazz_select.threads import ThreadShare, sharing_threads

_SHARE: Final = 0.75
"""Of the places that one key among several may have for itself."""
_AT_WORK: Final = 2
"""Keys whose requests are worked on at once where several ask, one of each."""
_REMEMBERED_S: Final = 0.5
"""Seconds for which a key that asked counts as one that asks."""
_MOST_THREADS: Final = 4
"""Threads at work at once, beside one of each key: with Python's lock more get no more done."""
_TICK_S: Final = 0.01
_LATE_S: Final = 0.003
"""A tick that comes no later than this finds a loop that has time."""
_AWAY_S: Final = 0.02
"""Seconds after which a request that keeps no loop busy waits for somebody else, such as a model."""
_LONGEST_TURN_S: Final = 0.25
"""Seconds after which a turn is over, however busy the loop is."""


class Shares:
    """Places for requests, turns at work on them, and threads, shared by keys.

    Where one key asks alone, its requests are begun as they come. Where several do, one of each of two keys is at work
    at most: next is the key on whose requests the least time was spent, and none beside one on whose less was. A
    request that waits for somebody else is not at work; one that computes in a thread is, and takes a new turn when it
    goes on after its turn was over. So who asks much waits for what it asked itself, and who asks little waits for one
    request of another.
    """

    def __init__(self, options: ServeOptions, keys: int) -> None:
        self.places = Places(options.max_in_flight, keys, "requests", "being answered")
        self.threads = None if keys <= 1 else Threads()
        self._at_work: defaultdict[str, set[_Work]] = defaultdict(set)
        self._waiting: defaultdict[str, deque[asyncio.Future[_Work]]] = defaultdict(deque)
        self._asked_at: dict[str, float] = {}
        self._spent: defaultdict[str, float] = defaultdict(float)
        self._tick: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def at_work(self, whose: str, lane: str = "") -> AsyncGenerator["RequestShare"]:
        """Wait for a turn of this key, and work on its request meanwhile.

        Args:
            whose: The key.
            lane: What kind of work it is, where that must not take threads from other requests of the key.
        """
        share = RequestShare(self, whose, lane)
        try:
            await share.take_turn()
            with sharing_threads(share if self.threads is not None else None):
                yield share
        finally:
            share.close()

    async def turn(self, whose: str) -> "_Work":
        """Wait for a turn of this key; whoever gets it ends it."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._asked_at.pop(whose, -_REMEMBERED_S) >= _REMEMBERED_S:
            # Who comes anew has spent what the others have: nothing is saved up.
            others = self._other_keys(whose, loop.time())
            self._spent[whose] = min((self._spent[each] for each in others), default=0.0)
        self._asked_at[whose] = loop.time()
        turn: asyncio.Future[_Work] = loop.create_future()
        self._waiting[whose].append(turn)
        self._go_on(loop)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end_turn(turn.result())
            turn.cancel()  # where it never came
            raise

    def end_turn(self, work: "_Work") -> None:
        """Count the time of a turn that is over; nothing happens where it was over already."""
        self._end_turn(work, asyncio.get_running_loop())

    def gives_way(self, work: "_Work") -> bool:
        """Tell whether a request must wait for a new turn: its own is over, or another key has spent less and asks."""
        if work not in self._at_work.get(work.whose, ()):
            return True
        spent = self._spent[work.whose] + asyncio.get_running_loop().time() - work.began
        others = {*self._at_work, *self._waiting} - {work.whose}
        return any(self._spent[other] < spent for other in others)

    def _other_keys(self, whose: str, now: float) -> list[str]:
        """Return the other keys with requests, the most recent last."""
        lately = takewhile(lambda key: now - self._asked_at[key] <= _REMEMBERED_S, reversed(self._asked_at))
        return [*{*lately, *self._at_work, *self._waiting} - {whose}]

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for key in sorted(self._waiting, key=self._spent.__getitem__):
            is_alone = not self._other_keys(key, now)
            turns = self._waiting[key]
            while turns and (is_alone or self._has_room(key)):
                turn = turns.popleft()
                if not turn.done():
                    work = _Work(key, now)
                    self._at_work[key].add(work)
                    turn.set_result(work)
            if not turns:
                del self._waiting[key]
        if self._tick is None and self._waiting:
            self._tick = loop.call_at(now + _TICK_S, self._check_turns, loop, now + _TICK_S)

    def _has_room(self, key: str) -> bool:
        if key in self._at_work or len(self._at_work) >= _AT_WORK:
            return False
        return all(self._spent[key] <= self._spent[other] for other in self._at_work)

    def _check_turns(self, loop: asyncio.AbstractEventLoop, planned: float) -> None:
        """Stop counting requests that ran long enough with the loop free, and start others."""
        self._tick = None
        now = loop.time()
        # If the tick is late, the loop was busy, perhaps with these requests: none of them is known to wait.
        away_s = _AWAY_S if now - planned <= _LATE_S else _LONGEST_TURN_S
        for works in list(self._at_work.values()):
            for work in list(works):
                limit_s = _LONGEST_TURN_S if work.computing else away_s
                if now - work.began > limit_s:
                    self._end_turn(work, loop)
        self._go_on(loop)

    def _end_turn(self, work: "_Work", loop: asyncio.AbstractEventLoop) -> None:
        works = self._at_work.get(work.whose, set())
        if work in works:
            works.remove(work)
            if not works:
                del self._at_work[work.whose]
            self._spent[work.whose] += loop.time() - work.began
            self._go_on(loop)


@dataclass(slots=True, eq=False)
class _Work:
    """A turn; `computing` counts the threads in which it is worked on, or waits to be."""

    whose: str
    began: float
    computing: int = 0


class RequestShare:
    """What one request takes of its key's share: a turn at work, and threads."""

    def __init__(self, shares: Shares, whose: str, lane: str = "") -> None:
        self._shares, self._key = shares, whose
        self.whose = f"{whose} {lane}"
        self._work: _Work | None = None
        self._resuming = asyncio.Lock()
        self._is_over = False

    async def take_turn(self) -> None:
        """Wait for a turn."""
        self._work = await self._shares.turn(self._key)

    async def acquire(self) -> None:
        """Wait for a thread; meanwhile the request is at work."""
        threads = self._shares.threads
        if threads is None:
            return
        self._count(1)
        try:
            await threads.acquire(self.whose)
        except BaseException:
            self._count(-1)
            raise

    def release(self) -> None:
        """Give back a thread."""
        threads = self._shares.threads
        if threads is None:
            return
        self._count(-1)
        threads.release(self.whose)

    def _count(self, more: int) -> None:
        """Count the threads of the present turn; a new turn takes over the count of the one before."""
        if self._work is not None:
            self._work.computing = max(0, self._work.computing + more)

    async def resume(self) -> None:
        """Go on between two pieces of work: at once, or with a new turn where another key's request is next."""
        async with self._resuming:
            work = self._work
            if not self._is_over and work is not None and self._shares.gives_way(work):
                self._shares.end_turn(work)
                turn = await self._shares.turn(self._key)
                turn.computing = work.computing
                self._work = turn
                if self._is_over:  # the request ended meanwhile
                    self._shares.end_turn(turn)

    def detach(self) -> "ThreadShare":
        """Return the share of the key's threads alone."""
        return _KeyThreads(self._shares, self.whose)

    def close(self) -> None:
        """End the turn: the request was answered."""
        self._is_over = True
        if self._work is not None:
            self._shares.end_turn(self._work)


@dataclass(frozen=True, slots=True)
class _KeyThreads:
    shares: Shares
    whose: str

    async def acquire(self) -> None:
        if self.shares.threads is not None:
            await self.shares.threads.acquire(self.whose)

    def release(self) -> None:
        if self.shares.threads is not None:
            self.shares.threads.release(self.whose)

    async def resume(self) -> None:
        """Go on at once: there is no turn to wait for."""

    def detach(self) -> "ThreadShare":
        return self


class Threads:
    """Threads in which work is done, shared by keys: each key always has one, and no key takes the last.

    Python runs one thread at a time, so a key with one thread at work takes at most half of another's time.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = max(2, min(os.cpu_count() or 2, _MOST_THREADS)) if most is None else most
        self._running: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)

    async def acquire(self, whose: str) -> None:
        """Wait until this key may use one more thread."""
        if whose not in self._waiting and self._may_start(whose):
            self._running[whose] += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[whose].append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(whose)
            raise

    def release(self, whose: str) -> None:
        """Give one back; the waiting key with the fewest threads is next."""
        self._running[whose] -= 1
        if not self._running[whose]:
            del self._running[whose]
        for key in sorted(self._waiting, key=self._running.__getitem__):
            turns = self._waiting[key]
            while turns and (turns[0].done() or self._may_start(key)):
                turn = turns.popleft()
                if not turn.done():
                    self._running[key] += 1
                    turn.set_result(None)
            if not turns:
                del self._waiting[key]

    def _may_start(self, key: str) -> bool:
        return key not in self._running or self._running.total() < self._most - 1


class Places:
    """Places that keys share: each always has its part, and none of several takes more than three quarters."""

    def __init__(self, most: int, keys: int, what: str, doing: str, *, most_of_one: int | None = None) -> None:
        """Take how many places there are, for how many keys, and words for what takes one and what it is doing."""
        share = most if keys <= 1 else max(1, int(most * _SHARE))
        self._most = most
        self._most_of_one = share if most_of_one is None else min(most, most_of_one)
        self._own = min(max(1, most // max(1, keys)), self._most_of_one)
        self._what, self._doing = what, doing
        self.by_key: Counter[str] = Counter()

    def take(self, whose: str) -> None:
        """Take a place for a key, until it is given back.

        Raises:
            HTTPException: There is none for it: 429 where it has its share, 503 where all have theirs.
        """
        mine = self.by_key[whose]
        again = {"Retry-After": "1"}
        if self.by_key.total() >= self._most and mine >= self._own:
            detail = f"{self._most} {self._what} are {self._doing} already: come again in a moment"
            raise refusal(503, detail, code=NO_ROOM, headers=again)
        if mine >= self._most_of_one:
            detail = f"{self._most_of_one} {self._what} with this key are {self._doing} already: come again in a moment"
            raise refusal(429, detail, headers=again)
        self.by_key[whose] += 1

    def give_back(self, whose: str) -> None:
        """Give back a place."""
        self.by_key[whose] -= 1
        if self.by_key[whose] <= 0:
            del self.by_key[whose]

    @contextmanager
    def place(self, whose: str) -> Generator[None]:
        """Hold a place for as long as the block lasts."""
        self.take(whose)
        try:
            yield
        finally:
            self.give_back(whose)


# --- connections -------------------------------------------------------------------


_USES: Final = count(1)


@dataclass(slots=True, eq=False)
class Connection:
    """One that is open; while it `is_held`, no body that comes is kept.

    `whose` is the key that came by it last, and `used` counts up with each request of anybody; `is_idle` says whether
    nobody waits for an answer there.
    """

    transport: asyncio.Transport
    address: str
    is_known: bool = False
    is_held: bool = False
    whose: str = ""
    used: int = 0
    is_idle: Callable[[], bool] = lambda: False

    def let_in(self, whose: str) -> None:
        """Note that somebody who was let in asks by it."""
        self.is_known, self.whose, self.used = True, whose, next(_USES)

    @classmethod
    def from_transport(cls, transport: asyncio.Transport) -> "Connection":
        """Wrap a new connection; all addresses of an IPv6 network (/64) count as one."""
        peer: Any = transport.get_extra_info("peername")
        address = ""
        if isinstance(peer, tuple):  # not so at the file of a socket
            address = str(cast("tuple[object, ...]", peer)[0])
        # The owner of an IPv6 address usually owns its whole network.
        if ":" in address:
            address = str(ipaddress.ip_network((address.partition("%")[0], 64), strict=False))
        return cls(transport, address)


class Connections:
    """Those that are open: so many of one address, and in all."""

    def __init__(self, options: ServeOptions) -> None:
        self._most, self._most_of_one = options.max_connections, options.max_connections_of_one
        self._of: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def take(self, made: Connection) -> bool:
        """Add a connection, and tell whether there was room for it.

        If there is none, a connection of the address that is at its limit, or else has the most, is closed: the oldest
        without a known key, or the least used idle one of the key that has the most. Its client opens another.
        """
        same = self._of[made.address]
        crowd = same if len(same) >= self._most_of_one else None
        if crowd is None and sum(map(len, self._of.values())) >= self._most:
            crowd = max(self._of.values(), key=len)
        if crowd is not None:
            unknown = (each for each in crowd if not each.is_known)
            closing = next(unknown, None) or _least_used(crowd)
            if closing is None:
                return False
            self.drop(closing)
            closing.transport.abort()
        self._of[made.address][made] = None
        return True

    def drop(self, closed: Connection) -> None:
        """Forget a connection that was closed."""
        same = self._of.get(closed.address, {})
        same.pop(closed, None)
        if not same:
            self._of.pop(closed.address, None)


def _least_used(crowd: Collection[Connection]) -> Connection | None:
    """Return the idle connection that was used longest ago, of the key that holds the most; None where none is idle."""
    counts = Counter(each.whose for each in crowd)
    idle = [each for each in crowd if each.is_idle()]
    return min(idle, key=lambda each: (-counts[each.whose], each.used), default=None)
