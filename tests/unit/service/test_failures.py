"""What clients of a replica see while index, database or a network fails: nothing twice or lost, ready again soon.

Each failure runs against a replica over HTTP, its index and a real PostgreSQL, all behind networks of their own.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import pytest

from benchmarks.local_cluster import QdrantProcess, qdrant_program
from jazz_select.errors import DatabaseUnavailableError
from jazz_select.service.service_options import ServeOptions
from jazz_select.threads import in_thread
from tests.postgres_server import PostgresServer, why_not
from tests.qdrant_server import LoopbackQdrant
from tests.tcp_proxy import TcpProxy
from tests.unit.service.served import Service, Shop, service
from tests.unit.service.test_replicas import House, Replica

pytestmark = [pytest.mark.programs, pytest.mark.timeout(240)]
_OPTIONS = ServeOptions(stop_s=2, panel=False, mcp=False)
_ASKED = {"message": "cancel my order", "context": {"order_id": "A-1"}}
_log = logging.getLogger(__name__)
_SELECT = {"request": "cancel my order"}


@dataclass
class Place:
    """A replica, what its tools did, and the networks around it."""

    up: Service
    replica: Replica
    shop: Shop
    to_index: "Networks"
    to_database: TcpProxy
    server: PostgresServer

    async def status(self) -> str:
        """What `/readyz` says once a look of a moment ago holds no longer."""
        await asyncio.sleep(1.1)
        return (await self.up.client.get("/readyz")).json()["status"]

    async def ready_within(self) -> float:
        """Seconds until the replica says that it is ready."""
        begun = monotonic()
        while (await self.up.client.get("/readyz")).status_code != 200:
            assert monotonic() - begun < 2, "ready again within two seconds"
            await asyncio.sleep(0.05)
        return monotonic() - begun


class Networks:
    """Both ways to an index: REST and gRPC."""

    def __init__(self, qdrant: LoopbackQdrant) -> None:
        rest = urlsplit(qdrant.url).port
        assert rest is not None
        self._each = (TcpProxy(rest), TcpProxy(qdrant.grpc_port))
        self.url = f"http://127.0.0.1:{self._each[0].port}"
        self.grpc_port = self._each[1].port

    @contextmanager
    def up(self) -> Generator["Networks"]:
        with self._each[0], self._each[1]:
            yield self

    def cut(self) -> None:
        for each in self._each:
            each.cut()

    def stall(self) -> None:
        for each in self._each:
            each.stall()

    def restore(self) -> None:
        for each in self._each:
            each.restore()


@asynccontextmanager
async def place() -> AsyncGenerator[Place]:
    """One replica, with an index and a database server of its own."""
    if reason := why_not():
        pytest.skip(reason)
    shop = Shop()
    with (
        LoopbackQdrant() as qdrant,
        PostgresServer() as server,
        TcpProxy(server.port) as to_database,
        Networks(qdrant).up() as to_index,
    ):
        house = House(to_index, to_database.through(server.new_database()))
        async with house.replica(shop.sources) as replica:
            replica.running.log = replica.shared.log("shop")
            try:
                async with service(replica.running, options=_OPTIONS, shared=replica.shared) as up:
                    yield Place(up, replica, shop, to_index, to_database, server)
            finally:
                await in_thread(replica.running.log.close)


def cut_index(at: Place) -> None:
    at.to_index.cut()


def stall_index(at: Place) -> None:
    at.to_index.stall()


def cut_database(at: Place) -> None:
    at.to_database.cut()


def stall_database(at: Place) -> None:
    at.to_database.stall()


def stop_database(at: Place) -> None:
    at.server.stop()


def restore(at: Place) -> None:
    at.to_index.restore()
    # Whoever waited while packets were lost has a connection that is of no use.
    at.to_database.cut()
    at.to_database.restore()


def start_database(at: Place) -> None:
    at.server.start()


@dataclass(frozen=True)
class Failure:
    """What fails, for how long, and what is seen meanwhile."""

    begin: Callable[[Place], None]
    end: Callable[[Place], None]
    lasts_s: float
    readyz: str
    select: int
    """The status of a select."""
    is_done: bool
    """Whether a turn still makes a call that must not be repeated: it was chosen before, and can be claimed."""
    slowest_s: float


FAILURES = {
    "the network to the index is cut": Failure(cut_index, restore, 3, "no_index", 503, is_done=True, slowest_s=12),
    "the network to the index loses everything": Failure(
        stall_index, restore, 5, "no_index", 503, is_done=True, slowest_s=6
    ),
    "the network to the database is cut": Failure(
        cut_database, restore, 3, "no_database", 200, is_done=False, slowest_s=12
    ),
    "the network to the database loses everything": Failure(
        stall_database, restore, 5, "no_database", 200, is_done=False, slowest_s=16
    ),
    "the database is down for long": Failure(
        stop_database, start_database, 15, "no_database", 200, is_done=False, slowest_s=12
    ),
}


@pytest.mark.spec("021.3")
@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
async def test_a_failure_is_said_does_nothing_twice_and_is_over_within_two_seconds(failure: Failure) -> None:
    async with place() as at:
        assert await at.status() == "ready"
        begun_turn = (await at.up.post("/v1/turn", _ASKED)).json()
        assert begun_turn["status"] == "confirming"
        said = {**_ASKED, "message": "yes", "history": begun_turn["conversation"]}
        await in_thread(failure.begin, at)
        began = monotonic()
        assert await at.status() == failure.readyz
        began = monotonic()
        selecting = at.up.client.post("/v1/select", json=_SELECT, timeout=60)
        turning = at.up.client.post("/v1/turn", json=said, timeout=60)
        selected, turned = await asyncio.gather(selecting, turning)
        took_s = monotonic() - began
        assert took_s < failure.slowest_s
        assert selected.status_code == failure.select, selected.text
        answer = turned.json()
        assert turned.status_code == 200, answer
        assert at.shop.cancelled == (["A-1"] if failure.is_done else []), "what cannot be claimed is not done"
        assert (answer["status"] == "done") == failure.is_done, answer
        assert ("could not be claimed" in str(answer)) != failure.is_done, answer
        if selected.status_code == 503:
            assert "Retry-After" in selected.headers
        await asyncio.sleep(max(0.0, failure.lasts_s - (monotonic() - began)))
        await in_thread(failure.end, at)
        ready_s = await at.ready_within()
        again = (await at.up.post("/v1/turn", said)).json()
        assert again["status"] == "done", again
        assert at.shop.cancelled == ["A-1"]
        repeated = await asyncio.gather(*(at.up.post("/v1/turn", said) for _ in range(3)))
        assert at.shop.cancelled == ["A-1"], "nothing twice"
        assert {each.status_code for each in repeated} == {200}
        log = at.replica.running.log
        assert log is not None
        assert await in_thread(log.flush, 20.0)
        kept = sum((await in_thread(log.agents)).values())
        assert log.dropped == 0
        assert kept >= (selected.status_code == 200), "what was selected meanwhile is in the log"
        _log.info("answered in %.1f s, ready again in %.2f s", took_s, ready_s)


@pytest.mark.spec("021.3")
async def test_a_start_while_the_database_answers_nothing_ends_soon() -> None:
    """No port answers: the start neither hangs nor looks ready."""
    if reason := why_not():
        pytest.skip(reason)
    with LoopbackQdrant() as qdrant, PostgresServer() as server, TcpProxy(server.port) as network:
        url = network.through(server.new_database())
        network.stall()
        begun = monotonic()
        with pytest.raises(DatabaseUnavailableError):
            async with House(qdrant, url).replica(Shop().sources):
                pass
        assert monotonic() - begun < 10


@pytest.mark.spec("021.3")
async def test_the_loss_of_a_qdrant_server_is_said_and_its_return_is_seen(tmp_path: Path) -> None:
    """An installed server, which is killed and started again on its own files."""
    if not qdrant_program():
        pytest.skip("QDRANT_BIN names no Qdrant server: only the stand-in on loopback was tried")
    shop, begun = Shop(), QdrantProcess(qdrant_program(), tmp_path / "qdrant")
    with PostgresServer() as database, begun as server:
        house = House(server, database.new_database())
        async with house.replica(shop.sources) as one, service(one.running, options=_OPTIONS, shared=one.shared) as up:
            assert (await up.post("/v1/select", _SELECT)).json()["chosen"]
            begun.kill()
            assert (await up.client.post("/v1/select", json=_SELECT, timeout=60)).status_code == 503
            assert (await up.client.get("/readyz")).json()["status"] == "no_index"
            await in_thread(begun.start)
            began = monotonic()
            while (await up.client.get("/readyz")).status_code != 200:
                assert monotonic() - began < 2
                await asyncio.sleep(0.05)
            assert (await up.post("/v1/select", _SELECT)).json()["chosen"]
