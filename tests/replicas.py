"""Replicas of a service as processes on this machine, with the index and the database that they share.

The index is a Qdrant server in Python, on loopback; the database is a real PostgreSQL.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx

from tests.postgres_server import PostgresServer
from tests.qdrant_server import LoopbackQdrant

_RUN: Final = "from jazz_select.cli import app; app()"
_PATIENCE_S: Final = 60.0
_FLOWS: Final = """\
flows:
  - name: close_account
    description: Closes the account of a customer for good.
    condition: the customer wants to leave
    desired_effects: [the account is closed]
    examples: [close my account, delete my account, I want to leave, end my membership, remove my profile]
    tools: [find_account, close_account]
    chain: [find_account, close_account]
  - name: track_order
    description: Says where a parcel is.
    condition: the customer waits for a parcel
    desired_effects: [the customer knows where it is]
    examples: [where is my parcel, track my order, has it been sent, when does it arrive, my parcel is late]
    tools: [find_parcel]
    chain: [find_parcel]
"""
_TOOLS: Final = '''\
"""The tools of the shop: each call is a line in a file."""

import json
import os
from pathlib import Path

from jazz_select import tool_from_function

EFFECTS = Path({effects!r})


def write(line: object) -> None:
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, json.dumps(line).encode() + b"\\n")
    os.close(descriptor)


def find_account(email: str) -> dict[str, str]:
    """Find the account of a customer."""
    return {{"account_id": f"account of {{email}}"}}


def close_account(account_id: str, call_id: str = "") -> dict[str, str]:
    """Close an account for good."""
    write([account_id, call_id])
    return {{"closed": account_id}}


def find_parcel(email: str) -> dict[str, str]:
    """Say where the parcel of a customer is."""
    return {{"parcel": f"the parcel of {{email}} is on its way"}}


TOOLS = [
    tool_from_function(find_account),
    tool_from_function(close_account, destructive=True),
    tool_from_function(find_parcel),
]
'''


@dataclass
class Replica:
    """One process."""

    popen: "subprocess.Popen[str]"
    root: str
    log: Path

    def post(self, path: str, body: object, timeout_s: float = _PATIENCE_S) -> httpx.Response:
        """Ask once, over a connection of its own."""
        return httpx.post(f"{self.root}{path}", json=body, timeout=timeout_s)

    def get(self, path: str) -> httpx.Response:
        """Look once."""
        return httpx.get(f"{self.root}{path}", timeout=_PATIENCE_S)

    def kill(self) -> None:
        """End it by SIGKILL."""
        self.popen.kill()
        self.popen.wait()
        if self.popen.stdout is not None:
            self.popen.stdout.close()


class Cluster:
    """Index, database and folder of some replicas; a context manager that ends all of them.

    Attributes:
        folder: Its files; the flows of a replica are in `flows`, unless it has a folder of its own.
        qdrant: The index.
        postgres: The database server.
    """

    def __init__(self, folder: Path, *, qdrant: Any = None) -> None:
        self.folder, self._index = folder, qdrant or LoopbackQdrant()
        self.postgres = PostgresServer()
        self.replicas: list[Replica] = []
        self._started = 0
        self._log_of: dict[int, Path] = {}

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        try:
            self.qdrant: Any = self._stack.enter_context(self._index)
            self._stack.enter_context(self.postgres)
            self.database_url = self.postgres.new_database()
        except BaseException:
            self._stack.close()
            raise
        self.write_flows(self.folder / "flows")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in self.replicas:
            each.kill()
        self._stack.close()

    def write_flows(self, folder: Path, flows: str = _FLOWS) -> Path:
        """Write the files of a catalogue, with its tools beside them."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tools.py").write_text(_TOOLS.format(effects=str(self.folder / "effects")))
        (folder / "flows.yaml").write_text(flows)
        return folder

    @property
    def flows(self) -> str:
        """The flows as they are first."""
        return _FLOWS

    def begin(self, *options: str, flows: Path | None = None, **environment: str) -> "subprocess.Popen[str]":
        """Start a replica, and do not wait for it."""
        self._started += 1
        arguments = [
            *("serve", "--flows", str(flows or self.folder / "flows"), "--url", self.qdrant.url),
            *("--port", "0", "--mcp", "none", "--config", "panel=false", "--config", "access_log=false", *options),
        ]
        variables = {
            **os.environ,  # noqa: TID251 - of a program that is started
            "JAZZ_DATABASE": self.database_url,
            "JAZZ_GRPC_PORT": str(self.qdrant.grpc_port),
            "JAZZ_AGENT_ID": "shop",
            "JAZZ_EMBEDDER": "static",
            **environment,
        }
        file = self.folder / f"replica-{self._started}.log"
        with file.open("w") as log:
            popen = subprocess.Popen(
                [sys.executable, "-c", _RUN, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=variables,
                cwd=self.folder,
            )
        self._log_of[popen.pid] = file
        return popen

    def await_address(self, popen: "subprocess.Popen[str]") -> Replica:
        """Wait until a replica has said where it answers."""
        assert popen.stdout is not None
        root = popen.stdout.readline().strip()
        log = self._log_of[popen.pid]
        assert root, log.read_text()
        replica = Replica(popen, root, log)
        self.replicas.append(replica)
        return replica

    def start(self, count: int, *options: str, flows: Path | None = None, **environment: str) -> Sequence[Replica]:
        """Start so many replicas at once, and wait for all."""
        begun = [self.begin(*options, flows=flows, **environment) for _ in range(count)]
        return [self.await_address(each) for each in begun]

    def effects(self) -> list[list[str]]:
        """What the tools did."""
        import json

        file = self.folder / "effects"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
