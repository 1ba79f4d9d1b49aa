"""What is asked of a connection before there is a request: a head, in time and not too large."""

import asyncio
from importlib.util import find_spec
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl

from jazz_select.service.problems import problem

TRANSPORT: Final = "transport"
"""Where a request's state has its connection."""
LARGEST_HEAD: Final = 64 << 10
"""Bytes, of all lines and headers before a body; and of all that comes after it, until it is answered."""
_MOST_AHEAD: Final = 8
"""Requests that may be sent before an earlier one is answered."""


class _Protocol(asyncio.Protocol):
    """What both protocols of uvicorn's have."""

    app_state: dict[str, Any]
    cycle: Any
    flow: FlowControl
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
        """Read on; stop waiting where the head is whole. What is neither head nor body is bounded, too."""
        cycle, was_ahead = self.cycle, self._is_ahead()
        size = 0 if cycle is None else len(cycle.body)
        super().data_received(data)
        if self.transport.is_closing():
            return
        now: Any = self.cycle
        is_asked = now is not None and not now.response_complete
        if is_asked and now is not None:
            self._forget()
            if self._is_ahead() or not now.more_body:
                self.flow.resume_reading()  # who does not read never hears that the client has left
            if not was_ahead and (cycle is None or now is not cycle or len(cycle.body) > size):
                self._read = 0
                return
        self._read += len(data)
        if self._read > LARGEST_HEAD:
            self.send_400_response(f"the head of a request, or what follows its body, has over {LARGEST_HEAD} bytes")
        elif self._late is None and not is_asked:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody is waited for any more."""
        self._forget()
        super().connection_lost(exc)
        for each in self._unanswered():  # the server itself tells only the last of them
            each.disconnected = True
            each.message_event.set()

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
        """Say that it is no request, as all that goes wrong here is said; but never within or before an answer."""
        waiting = self._unanswered()
        if len(waiting) > 1 or any(each.response_started for each in waiting):
            self.transport.close()
            return
        body = bytes(problem(400, msg, code="not_http").body)
        head = (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_timeout_s, self._hang_up)

    def _is_ahead(self) -> bool:
        """Whether a request has come before an earlier one was answered, and is kept."""
        return False

    def _unanswered(self) -> list[Any]:
        """What was asked and not answered yet, in its order."""
        return [] if self.cycle is None or self.cycle.response_complete else [self.cycle]

    def _forget(self) -> None:
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
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

    class PatientHttpTools(_Patient, HttpToolsProtocol):
        """It reads on while a request is worked on, and keeps what was asked meanwhile."""

        _begun: RequestResponseCycle | None = None

        def on_headers_complete(self) -> None:
            """Take a request.

            Raises:
                ValueError: There are too many before it that are not answered; to the parser, it is none.
            """
            if len(self.pipeline) >= _MOST_AHEAD:
                msg = f"more than {_MOST_AHEAD} requests were sent before the first was answered"
                raise ValueError(msg)
            super().on_headers_complete()

        def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
            self._begun = cycle
            self._read = 0
            super()._start_asgi_task(cycle, app)

        def _is_ahead(self) -> bool:
            return bool(self.pipeline)

        def _unanswered(self) -> list[Any]:
            begun = [] if self._begun is None or self._begun.response_complete else [self._begun]
            return [*begun, *(cycle for cycle, _ in reversed(self.pipeline))]

    PatientHttpTools.head_timeout_s = head_timeout_s
    return PatientHttpTools
