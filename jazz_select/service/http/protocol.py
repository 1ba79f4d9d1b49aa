"""What is asked of a connection before there is a request: a head, in time and not too large."""

import asyncio
from importlib.util import find_spec
from typing import Any, Final

from jazz_select.service.problems import problem

TRANSPORT: Final = "transport"
"""Where a request's state has its connection."""
LARGEST_HEAD: Final = 64 << 10
"""Bytes, of all lines and headers before a body."""


class _Protocol(asyncio.Protocol):
    """What both protocols of uvicorn's have."""

    app_state: dict[str, Any]
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport


class _Patient(_Protocol):
    """Mixed into a protocol of uvicorn's, which waits for a head for ever, and reads one of any size."""

    head_timeout_s = 10.0
    _late: asyncio.TimerHandle | None = None
    _read = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for a head."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, TRANSPORT: transport}
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Read on; stop waiting where the head is whole."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget()
            return
        self._read += len(data)
        if self._read > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response(f"the head of a request has more than {LARGEST_HEAD} bytes")
        elif self._late is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._forget()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Nobody has asked for a while: what is still not read by then never is."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Whatever it wanted to talk instead: this is answered, and then there is nothing more to be read."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        """Say that it is no request, as all that goes wrong here is said."""
        body = bytes(problem(400, msg, code="not_http").body)
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_timeout_s, self._hang_up)

    def _forget(self) -> None:
        self._read = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _hang_up(self) -> None:
        self._late = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def protocol(head_timeout_s: float) -> type[asyncio.Protocol]:
    """The protocol that connections are read with: in C where httptools is there."""
    if find_spec("httptools") is None:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return type("PatientH11", (_Patient, H11Protocol), {"head_timeout_s": head_timeout_s})
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    return type("PatientHttpTools", (_Patient, HttpToolsProtocol), {"head_timeout_s": head_timeout_s})
