"""A server of HTTP on loopback that ends as soon as it is told to: uvicorn's looks around ten times a second."""

import asyncio
import contextlib
import socket
from collections.abc import Generator

import uvicorn

_TICK_S = 0.005


class LoopbackServer(uvicorn.Server):
    """Takes no signals: they are the test's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Capture none."""
        yield

    async def main_loop(self) -> None:
        """Wait for the end."""
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(_TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let what is under way come to its end, for as long as the configuration has it."""
        for each in (*self.servers, *(sockets or ())):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(_TICK_S)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()
