"""A fuse against the network: a test that is not marked `live` reaches this machine and nothing else.

It sits in `socket`, where whatever connects through Python passes, and where gRPC, which does not, makes a channel.
"""

import ipaddress
import socket
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio


class NetworkUsedError(RuntimeError):
    """A test that is not marked `live` tried to leave this machine.

    Not an `OSError` on purpose: nothing that retries connections may swallow it.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(f"this test reached for {host!r}; mark it live, or use a double")


def is_local(host: str | bytes | None) -> bool:
    """Is it this machine?"""
    name = host.decode() if isinstance(host, bytes) else host
    if name in {None, "", "localhost"}:
        return True
    try:
        return ipaddress.ip_address(str(name).split("%", maxsplit=1)[0]).is_loopback
    except ValueError:
        return False


class Fuse:
    """Installed once per process; armed except while a live test runs."""

    def __init__(self) -> None:
        self.armed = True
        self._connect = socket.socket.connect
        self._connect_ex = socket.socket.connect_ex
        self._getaddrinfo = socket.getaddrinfo
        self._channels: dict[tuple[Any, str], Callable[..., Any]] = {
            (module, name): getattr(module, name)
            for module in (grpc, grpc.aio)
            for name in ("insecure_channel", "secure_channel")
        }

    def install(self) -> None:
        """Put the fuse between Python and the network."""
        fuse = self

        def connect(self: socket.socket, address: Any) -> None:
            fuse.check_address(self, address)
            return fuse._connect(self, address)

        def connect_ex(self: socket.socket, address: Any) -> int:
            fuse.check_address(self, address)
            return fuse._connect_ex(self, address)

        def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
            fuse.check_host(host)
            return fuse._getaddrinfo(host, *args, **kwargs)

        socket.socket.connect = connect
        socket.socket.connect_ex = connect_ex
        socket.getaddrinfo = getaddrinfo
        for (module, name), make in self._channels.items():
            setattr(module, name, self._guarded(make))

    def _guarded(self, make: Callable[..., Any]) -> Callable[..., Any]:
        def channel(target: str, *args: Any, **kwargs: Any) -> Any:
            self.check_host(target.rpartition(":")[0].strip("[]"))
            return make(target, *args, **kwargs)

        return channel

    def remove(self) -> None:
        """Take it out again."""
        socket.socket.connect = self._connect
        socket.socket.connect_ex = self._connect_ex
        socket.getaddrinfo = self._getaddrinfo
        for (module, name), make in self._channels.items():
            setattr(module, name, make)

    def check_address(self, sock: socket.socket, address: Any) -> None:
        """Internet sockets may connect to this machine; others may do what they like."""
        if sock.family in {socket.AF_INET, socket.AF_INET6}:
            self.check_host(address[0])

    def check_host(self, host: str | bytes | None) -> None:
        """Raise if the host is not this machine and the fuse is armed."""
        if self.armed and not is_local(host):
            raise NetworkUsedError(str(host))
