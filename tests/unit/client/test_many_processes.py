"""`jazz-select serve` beside many processes: the answers are those in process; its death is an error with a name."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from jazz_select.build import load_registry, open_memory, open_selector
from jazz_select.client import RemoteSelector, ServiceError, ServiceUnavailableError
from jazz_select.settings import Settings
from tests.clock import until
from tests.unit.cli.shop import INVOICE, REFUND, TRACK, write_flows
from tests.unit.client.serving import KEY
from tests.unit.client.worker import said
from tests.vectors import EMBEDDER

ROOT = Path(__file__).parents[3]
REQUESTS = [
    "I want my money back",
    "where is my parcel",
    "a receipt please",
    "what is the weather like",
    "refund & track",
]
WORKERS, CLIENTS, TIMES = 4, 25, 2

pytestmark = [pytest.mark.soak, pytest.mark.timeout(240)]


@pytest.fixture
def folder() -> Generator[Path]:
    """A short path, as that of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="jazz-") as made:
        path = Path(made)
        write_flows(path / "flows", REFUND, TRACK, INVOICE)
        (path / "key").write_text(f"{KEY}\n", "utf-8")
        (path / "key").chmod(0o600)
        yield path


def settings(folder: Path) -> Settings:
    return Settings(flows=str(folder / "flows"), index=folder / "index", embedder=EMBEDDER, agent_id="shop")


@asynccontextmanager
async def served(folder: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A service of these flows, once it answers."""
    options = ["--flows", str(folder / "flows"), "--index", str(folder / "index"), "--agent-id", "shop"]
    options += ["--key-file", str(folder / "key")]
    settings = (f"embedder={EMBEDDER}", f"uds={folder / 's'}", "panel=false")
    options += [part for each in settings for part in ("--config", each)]
    program = "from jazz_select.cli import app; app()"
    command = [sys.executable, "-c", program, "serve", *options]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        said_first = await process.stdout.readline()
        assert said_first.startswith(b"unix:"), said_first
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.communicate()


async def worked(folder: Path) -> dict[str, Any]:
    """What one worker process found."""
    arguments = [str(folder / "s"), KEY, str(CLIENTS), str(TIMES), *REQUESTS]
    command = [sys.executable, "-m", "tests.unit.client.worker", *arguments]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.spec("008.1")
@pytest.mark.spec("008.2")
async def test_four_processes_of_25_clients_get_the_answers_of_one_process(folder: Path) -> None:
    async with served(folder):
        found = await asyncio.gather(*(worked(folder) for _ in range(WORKERS)))
    assert [each["errors"] for each in found] == [{}] * WORKERS
    own = settings(folder)
    registry = load_registry(own.flows)
    async with await open_memory(own) as memory, open_selector(own, memory, registry) as selector:
        expected = {request: [said(await selector.select(request))] for request in REQUESTS}
    for each in found:
        assert each["found"] == json.loads(json.dumps(expected))


@pytest.mark.skipif(sys.platform == "win32", reason="nothing is killed so there")
@pytest.mark.spec("008.2")
async def test_a_service_that_is_killed_under_load_is_an_error_with_a_name_and_comes_back(folder: Path) -> None:
    killed = asyncio.Event()
    ended: list[BaseException | str] = []
    clients = [
        RemoteSelector("http://localhost", key=KEY, uds=str(folder / "s"), max_retries=0) for _ in range(CLIENTS)
    ]
    answered = 0

    async def one(remote: RemoteSelector) -> None:
        nonlocal answered
        try:
            while True:
                assert (await remote.select(REQUESTS[0])).names == ["refund_order"]
                answered += 1
        except Exception as error:  # noqa: BLE001 - what it is, is looked at
            ended.append(error if killed.is_set() else f"before the service was killed: {error!r}")

    async with served(folder) as process:
        load = [asyncio.create_task(one(each)) for each in clients]
        await until(lambda: answered >= CLIENTS)
        killed.set()
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.gather(*load)
    assert [type(each) for each in ended] == [ServiceUnavailableError] * CLIENTS, ended
    assert all(isinstance(each, ServiceError) and each.retryable for each in ended)
    async with served(folder):
        for each in clients:
            assert (await each.select(REQUESTS[0])).names == ["refund_order"], "by the connections of before"
    await asyncio.gather(*(each.aclose() for each in clients))
