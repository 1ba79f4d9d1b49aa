"""How far a service is in its life: what it works on, and whether it is about to stop."""

import asyncio
from typing import Any


class Life:
    """Shared by all that is asked whether it still takes requests.

    Attributes:
        is_stopping: Whether it will stop soon, and takes no new streams.
        is_over: Whether it stops now: nothing new is taken, and what is in flight is finished.
        in_flight: Requests that are worked on.
        by_agent: How many of them are for each agent.
        streams: What is held open until somebody hangs up.
    """

    def __init__(self) -> None:
        self.is_stopping = self.is_over = False
        self.in_flight = 0
        self.by_agent: dict[str, int] = {}
        self.streams: set[asyncio.Task[Any]] = set()

    def began(self, agent_id: str) -> None:
        """A request is worked on."""
        self.in_flight += 1
        self.by_agent[agent_id] = self.by_agent.get(agent_id, 0) + 1

    def ended(self, agent_id: str) -> None:
        """It is answered, or nobody waits for it any more."""
        self.in_flight -= 1
        self.by_agent[agent_id] -= 1
        if not self.by_agent[agent_id]:
            del self.by_agent[agent_id]

    def stop(self) -> None:
        """Say that it is about to stop: whoever holds a stream open is to come again, elsewhere."""
        self.is_stopping = True
        for stream in list(self.streams):
            stream.cancel()

    def end(self) -> None:
        """Stop now."""
        self.stop()
        self.is_over = True
