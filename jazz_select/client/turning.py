"""`RemoteAgent`: what an `Agent` does, asked of a service."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

from jazz_select.agent.chain.output_schema import OutputSchema, SchemaLike, output_schema
from jazz_select.agent.chain.responder import OwnLoop, in_events, in_own_loop
from jazz_select.agent.chain.transcript import Finished, OnEvent, tell
from jazz_select.agent.checks import Facts, checked_facts, told_facts
from jazz_select.agent.conversation import Conversation
from jazz_select.agent.events import event_of
from jazz_select.agent.turn import checked_input
from jazz_select.agent.turn_result import TurnResult
from jazz_select.arguments import check_argument
from jazz_select.client.connection import Connection
from jazz_select.client.selecting import sent_history, sent_json
from jazz_select.errors import ConfigError, ServiceReplyError
from jazz_select.flow.base import BaseFlow
from jazz_select.selector.options import TimeLimit
from jazz_select.values import Message

_TIMEOUT_S: Final = 90.0
_LATER_S: Final = 5.0
"""How much longer than a turn may take it is waited for: it says itself that its time ran out."""


class RemoteAgent:
    """Answers messages as the agent of a service does. It keeps nothing between turns: the conversation is a value.

    ```python
    agent = RemoteAgent("http://127.0.0.1:8420", key="…")
    result = await agent.turn("I want my money back")
    result = await agent.turn("yes", result.conversation)
    ```

    A turn is not begun twice: it is asked for again only where the connection was refused or the service had no room.
    """

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        agent_id: str = "",
        registry: Mapping[str, BaseFlow] | None = None,
        timeout_s: float | None = _TIMEOUT_S,
        max_retries: int = 2,
        uds: str | None = None,
    ) -> None:
        """Take where the service is; arguments are those of `RemoteSelector`.

        Args:
            url: Its address. None with `uds`.
            key: Opens the agent.
            agent_id: Which agent is meant, to be sure.
            registry: The flows that live here.
            timeout_s: The most that one turn is waited for; the service's agent has a limit of its own.
            max_retries: How often a turn is asked for again that was not begun.
            uds: The file of the service's socket.

        Raises:
            ConfigError: An argument cannot work.
        """
        self.own_loop = OwnLoop()  # where `turn_sync` runs
        self._live = registry
        self._service = Connection(
            url, key=key, agent_id=agent_id, timeout_s=timeout_s, max_retries=max_retries, uds=uds
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        await self._service.aclose()

    async def turn(  # noqa: PLR0913 - options with a name
        self,
        message: str,
        history: Conversation | Sequence[Message] | None = None,
        *,
        context: Mapping[str, Any] | None = None,
        facts: Facts | None = None,
        schema: SchemaLike | None = None,
        conversation_id: str = "",
        timeout_s: float | Literal["agent"] | None = "agent",
        on_event: OnEvent | None = None,
    ) -> TurnResult:
        """Answer one message; arguments and result are those of `Agent.turn`.

        What is sent is JSON: `context` and `facts` too; facts that are functions are called here. A turn without any
        limit is not to be had from a service.

        Raises:
            ConfigError: An argument is of the wrong kind, or cannot be sent.
            SnapshotError: The conversation is none that this service has signed.
            ServiceError: There was no answer; the turn may have been begun, unless the error says otherwise.
        """
        check = await output_schema(schema) if schema is not None else None
        limit_s = _limit(timeout_s)
        said, known_by = sent_history(history, conversation_id)
        told = await told_facts(checked_facts(facts)) if facts is not None else None
        body = {
            "message": message,
            "history": said,
            "context": sent_json(checked_input(message, context), "context"),
            "facts": sent_json(told, "facts"),
            "schema": None if check is None else check.json,
            "conversation_id": known_by,
            "timeout_s": limit_s,
        }
        waits_s = None if limit_s is None else limit_s + _LATER_S
        if on_event is None:
            data = await self._service.ask("POST", "/v1/turn", body, twice=False, timeout_s=waits_s)
            return self._read(data, check)
        result = await self._heard(body, on_event, check, waits_s)
        await tell(on_event, Finished(answer=result))
        return result

    turn_sync = in_own_loop(turn, lambda agent: agent.own_loop)
    """`turn`, without async: in a loop that the agent keeps, and that ends with it."""
    stream = in_events(turn, "stream")
    """What `turn` does, event by event; the last one, `Finished`, holds the `TurnResult`: as `Agent.stream`."""

    async def _heard(
        self, body: Mapping[str, Any], on_event: OnEvent, check: OutputSchema | None, waits_s: float | None
    ) -> TurnResult:
        found: list[TurnResult] = []

        async def hear(name: str, data: Any) -> bool:
            if name == "finished":
                found.append(self._read(data, check))
                return True
            with self._service.reading():
                event = event_of(name, data, registry=self._live)
            if event is not None:
                await tell(on_event, event)
            return False

        await self._service.hear("/v1/turn", body, hear, timeout_s=waits_s)
        return found[0]

    def _read(self, data: Any, check: OutputSchema | None) -> TurnResult:
        """The result; with a class as schema its value is one of that class, as it would be in the other process."""
        with self._service.reading():
            result = TurnResult.from_dict(data, registry=self._live)
        if check is None or check.model is None or result.value is None:
            return result
        read = check.check(result.value)
        if read.problem:
            raise ServiceReplyError(self._service.url, f"the value is not of the schema: {read.problem}")
        return replace(result, value=read.value)


def _limit(timeout_s: float | Literal["agent"] | None) -> float | None:
    """What the service is asked for: None for the time that its agent has.

    Raises:
        ConfigError: It is none that can be asked for.
    """
    if timeout_s == "agent":
        return None
    if timeout_s is None:
        msg = "a service lets no turn take for ever: give timeout_s in seconds, or leave it out"
        raise ConfigError(msg)
    check_argument("timeout_s", timeout_s, TimeLimit)
    return timeout_s
