"""Doubles for tests: models and memories that do what they are told."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jazz_select.values import Claim, Message, RecallResult, Reply

ScriptedReply = str | Reply | BaseException | Callable[[Sequence[Message]], str | Reply]


class ScriptedModel:
    """A `ChatModel` that gives these replies, one per call, and records what it was asked.

    Each reply is a text, a `Reply`, an exception to raise, or a function of the
    messages. `calls` holds the messages of each call, also of those that failed, and
    `schemas` the JSON schema that came with it, or None.

    ```python
    model = ScriptedModel(ModelError("m", "busy", retryable=True), '["refund_order"]')
    ```
    """

    def __init__(
        self, *replies: ScriptedReply, repeat: bool = False, delay_s: float = 0.0, takes_schema: bool = False
    ) -> None:
        """Write the script.

        Args:
            replies: What to answer, in order.
            repeat: Give the last reply again when the script has ended, instead of failing.
            delay_s: How long each call takes, in seconds, for tests of timeouts and cancellation.
            takes_schema: Be a model that wants to be sent schemas; the replies are those of the script all the same.

        Raises:
            TypeError: A reply is of another kind.
            ValueError: There is none to repeat.
        """
        for number, reply in enumerate(replies, 1):
            _check(number, reply)
        if repeat and not replies:
            msg = "ScriptedModel(repeat=True) needs a reply to repeat"
            raise ValueError(msg)
        self.calls: list[tuple[Message, ...]] = []
        self.schemas: list[Mapping[str, Any] | None] = []
        self.takes_schema = takes_schema
        self._replies = replies
        self._repeat = repeat
        self._delay_s = delay_s

    async def complete(self, messages: Sequence[Message], *, schema: Mapping[str, Any] | None = None) -> Reply:
        """Give the next reply.

        Raises:
            AssertionError: The script has ended.
        """
        self.calls.append(tuple(messages))
        self.schemas.append(schema)
        asked = len(self.calls)
        if asked > len(self._replies) and not self._repeat:
            has = f"{len(self._replies)} replies"
            msg = f"ScriptedModel was asked {asked} times and has {has}; add one or pass repeat=True"
            raise AssertionError(msg)
        reply = self._replies[min(asked, len(self._replies)) - 1]
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            reply = reply(messages)
        return reply if isinstance(reply, Reply) else Reply(text=reply, model="scripted")


def _check(number: int, reply: object) -> None:
    """A script that cannot be played is told where it is written, rather than by whoever asks."""
    if isinstance(reply, type):
        msg = f"reply {number} is the class {reply.__qualname__}; make it an instance, {reply.__qualname__}(…)"
        raise TypeError(msg)
    if not isinstance(reply, str | Reply | BaseException) and not callable(reply):
        hint = f"; as text it would be json.dumps({reply!r:.60})" if isinstance(reply, dict | list) else ""
        msg = f"reply {number} is a text, a Reply, an exception or a function of the messages, not {reply!r:.80}{hint}"
        raise TypeError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallCall:
    """What a memory was asked."""

    query: str
    agent_id: str
    top_k: int
    rrf_k: int
    exclude: frozenset[str]


class ListMemory:
    """A `FlowMemory` of these candidates, in this order, whatever the request; `calls` records each recall."""

    def __init__(
        self,
        candidates: Iterable[Mapping[str, Any]] = (),
        *,
        notes: tuple[str, ...] = (),
        error: Exception | None = None,
    ) -> None:
        """Fill the memory.

        Args:
            candidates: Metadata dicts with the keys flow_id, flow_name, …; best first.
            notes: What each recall says was degraded on the way.
            error: Raised by each recall, instead of an answer.
        """
        self.candidates = [dict(candidate) for candidate in candidates]
        self.calls: list[RecallCall] = []
        self._notes = notes
        self._error = error

    async def recall(
        self, query: str, agent_id: str, top_k: int = 3, rrf_k: int = 10, *, exclude: Collection[str] = ()
    ) -> RecallResult:
        """The first `top_k` candidates that are not excluded."""
        call = RecallCall(query=query, agent_id=agent_id, top_k=top_k, rrf_k=rrf_k, exclude=frozenset(exclude))
        self.calls.append(call)
        if self._error is not None:
            raise self._error
        left = [dict(candidate) for candidate in self.candidates if candidate.get("flow_id") not in call.exclude]
        return RecallResult(left[:top_k], notes=self._notes)


class MemoryClaims:
    """A `ClaimStore` for the tests of one process. Its claims go with it, so it protects nothing in production.

    Attributes:
        claims: What was claimed, by the id of the call.
    """

    def __init__(self) -> None:
        """Begin without claims."""
        self.claims: dict[str, Claim] = {}

    async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
        """None for the first who asks."""
        known = self.claims.get(call_id)
        self.claims.setdefault(call_id, Claim(fingerprint=fingerprint))
        return known

    async def settle(self, call_id: str, outcome: str) -> None:
        """The first outcome stays."""
        known = self.claims.get(call_id)
        if known is not None and known.outcome is None:
            self.claims[call_id] = replace(known, outcome=outcome)
