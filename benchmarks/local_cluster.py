"""A whole cluster as processes of this machine: `make cluster`. PostgreSQL, an index, three replicas and a proxy.

PostgreSQL is that of the system's package. The index is the Qdrant server that `QDRANT_BIN` names, else the server on
loopback of `benchmarks.edge_server`. All data is in a temporary folder, and gone at the end.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import Final

import httpx
import typer

from benchmarks import edge_server
from benchmarks.edge_server import Server
from tests.postgres_server import why_not
from tests.replicas import Cluster

_START_S: Final = 30.0
_PIECE: Final = 65_536


class QdrantProcess:
    """An installed Qdrant server, in a folder of its own."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder

    def __enter__(self) -> Server:
        self._folder.mkdir(parents=True)
        self._port, self._grpc_port = _free_port(), _free_port()
        return self.start()

    def start(self) -> Server:
        """Start the program on its folder, and wait until it answers."""
        variables = {
            **os.environ,  # noqa: TID251 - of a program that is started
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(self._port),
            "QDRANT__SERVICE__GRPC_PORT": str(self._grpc_port),
            "QDRANT__STORAGE__STORAGE_PATH": str(self._folder / "storage"),
            "QDRANT__TELEMETRY_DISABLED": "true",
        }
        with (self._folder / "log").open("w") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the one that whoever runs this has named
                [self._program], cwd=self._folder, env=variables, stdout=log, stderr=log
            )
        server = Server(url=f"http://127.0.0.1:{self._port}", grpc_port=self._grpc_port, pid=self._process.pid)
        for _ in range(int(_START_S / 0.1)):
            with suppress(httpx.TransportError):
                if httpx.get(f"{server.url}/readyz").is_success:
                    return server
            sleep(0.1)
        raise RuntimeError(f"{self._program} did not answer: {(self._folder / 'log').read_text()}")

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def qdrant_program() -> str:
    """Return the installed Qdrant server that is named; empty where none is."""
    return os.environ.get("QDRANT_BIN", "")  # noqa: TID251 - as the Makefile passes it on


def index_server(folder: Path) -> AbstractContextManager[Server]:
    """Return the index, in a process of its own: an installed Qdrant server where one is named, else a stand-in."""
    program = qdrant_program()
    return QdrantProcess(program, folder / "qdrant") if program else edge_server.loopback()


async def balance(ports: Sequence[int], port: int) -> None:
    """Lead each connection to the next replica that takes it, until cancelled."""
    turn = 0

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal turn
        for _ in ports:
            turn += 1
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", ports[turn % len(ports)])
            except OSError:
                continue
            await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))
            return
        writer.close()

    server = await asyncio.start_server(lead, "127.0.0.1", port)
    async with server:
        await server.serve_forever()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
    with suppress(ConnectionError):
        writer.close()


def main(*, replicas: int = 3, port: int = 8420) -> None:
    """Start a cluster, say where it is, and end it with this process."""
    if reason := why_not():
        typer.echo(f"No cluster can be started: {reason}", err=True)
        raise typer.Exit(1)
    # Whoever ends this process by its id leaves no server behind, as whoever presses Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt), TemporaryDirectory() as name:
        folder = Path(name)
        with Cluster(folder, qdrant=index_server(folder)) as cluster:
            typer.echo(f"Starting {replicas} replicas; their files are in {folder}.")
            started = cluster.start(replicas)
            for each in started:
                typer.echo(f"  replica {each.root}  process {each.popen.pid}")
            typer.echo(f"  proxy   http://127.0.0.1:{port}")
            typer.echo(f"  flows   {folder / 'flows'}: a change is live in all replicas")
            sys.stdout.flush()
            ports = [int(each.root.rpartition(":")[2]) for each in started]
            asyncio.run(balance(ports, port))


if __name__ == "__main__":
    typer.run(main)
