"""A real PostgreSQL server on loopback, for tests and trials: started, stopped and killed where a test wants that.

Its data lies in a temporary folder. It refuses to run as root: there it runs as the user `postgres`, or as `nobody`.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, Self
from urllib.parse import quote
from uuid import uuid4

import psycopg

PASSWORD: Final = "p@ss/w:rd"  # noqa: S105 - of a server on loopback
_USERS: Final = ("postgres", "nobody")
_START_S: Final = 30.0
_SETTINGS: Final = (
    "listen_addresses=127.0.0.1",
    "fsync=off",  # a test kills the server, never the machine
    "synchronous_commit=on",
    "shared_buffers=16MB",
    "max_connections=100",
    "autovacuum=off",
)


def program(name: str) -> str | None:
    """The path of one of PostgreSQL's programs: on PATH, or where Debian keeps them."""
    found = shutil.which(name)
    if found is not None:
        return found
    return max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default=None)


def why_not() -> str:
    """Why no server can be started here, in plain words; empty where one can."""
    for name in ("postgres", "initdb"):
        if program(name) is None:
            return f"PostgreSQL is not installed here: there is no program {name} (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return f"PostgreSQL refuses to run as root, and there is no user {' or '.join(_USERS)}"
    return ""


def _account() -> pwd.struct_passwd | None:
    for name in _USERS:
        with suppress(KeyError):
            return pwd.getpwnam(name)
    return None


class PostgresServer:
    """One server; a context manager that starts it, and removes it with its data."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = _account()
            assert account is not None
            self._options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[Any] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="jazz-postgres-"))
        if self._options:
            os.chown(self._folder, self._options["user"], self._options["group"])
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        initdb = program("initdb")
        assert initdb is not None
        options = ["--no-sync", "--auth=scram-sha-256", "--username=jazz", f"--pwfile={password}", "--encoding=UTF8"]
        subprocess.run(
            [initdb, *options, "--locale=C", "-D", str(self._folder / "data")],
            check=True,
            capture_output=True,
            cwd=self._folder,
            env=self._environment(),
            **self._options,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _environment(self) -> Mapping[str, str]:
        return {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}

    def start(self) -> None:
        """Start, and wait until it answers."""
        postgres = program("postgres")
        assert postgres is not None
        settings = [word for each in (*_SETTINGS, f"port={self.port}") for word in ("-c", each)]
        settings += ["-c", f"unix_socket_directories={self._folder}"]
        self._process = subprocess.Popen(
            [postgres, "-D", str(self._folder / "data"), *settings],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=self._environment(),
            **self._options,
        )
        until = monotonic() + _START_S
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                assert monotonic() < until, "PostgreSQL did not start"
                sleep(0.05)
            else:
                return

    def stop(self, by: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends all connections, SIGQUIT ends it as a crash would."""
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(_START_S)
            self._process = None

    def url(self, name: str) -> str:
        """The address of a database."""
        return f"postgresql://jazz:{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/{name}"

    def new_database(self) -> str:
        """Make an empty database, and give its address."""
        name = f"jazz_{uuid4().hex[:12]}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)
