"""A network between two programs, for tests: it is cut, loses what is sent, or breaks just after a message passed."""

import socket
import threading
from contextlib import suppress
from time import sleep
from typing import Self
from urllib.parse import urlsplit, urlunsplit

_PIECE = 65_536
_CARRIED_OUT_S = 0.2
"""How long whoever was sent the last message has to carry it out, before the connection goes."""


class TcpProxy:
    """Forwards connections from a port of its own to another one on loopback; a context manager.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._is_cut = False
        self._may_pass = threading.Event()
        self._may_pass.set()
        self._marker = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self._may_pass.set()
        self.cut()

    def through(self, url: str) -> str:
        """The address of a URL by way of this network."""
        parts = urlsplit(url)
        credentials, _, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{credentials}@127.0.0.1:{self.port}"))

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""
        with self._lock:
            self._is_cut = True
            pairs, self._pairs = self._pairs, set()
        for each in (end for pair in pairs for end in pair):
            _close(each)

    def stall(self) -> None:
        """Lose whatever is sent from now on: connections stay open, and nobody hears a thing."""
        self._may_pass.clear()

    def restore(self) -> None:
        """Be a network again."""
        self._is_cut = False
        self._may_pass.set()

    def cut_after(self, marker: bytes) -> None:
        """Once: pass a message with this in it on, and cut its connection before the answer."""
        self._marker = marker

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self._is_cut:
                _close(client)
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                _close(client)
                continue
            server.settimeout(None)
            with self._lock:
                self._pairs.add((client, server))
            threading.Thread(
                target=self._forward, args=(client, server), kwargs={"is_asked": True}, daemon=True
            ).start()
            threading.Thread(target=self._forward, args=(server, client), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket, *, is_asked: bool = False) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._may_pass.wait()
                is_last = is_asked and bool(self._marker) and self._marker in piece
                if is_last:
                    self._marker = b""
                    # The answer is not passed on: what reads it is closed first.
                    with suppress(OSError):
                        source.shutdown(socket.SHUT_RDWR)
                target.sendall(piece)
                if is_last:
                    sleep(_CARRIED_OUT_S)
                    break
        except OSError:
            pass
        finally:
            _close(source)
            _close(target)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        end.close()
