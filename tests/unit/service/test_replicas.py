"""Replicas that share an index and a database: what one keeps others have; a catalogue changes in all or in none."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol

import pytest

from jazz_select import FlowRegistry, ProceduralMemory
from jazz_select.errors import DatabaseUnavailableError, OtherFilesError
from jazz_select.evaluation.overlay import Overlay, Version, now
from jazz_select.postgres.connection import Database
from jazz_select.routing.tools.tool import Toolbox
from jazz_select.service.running import RunningCatalogue, Sources
from jazz_select.service.service_options import ServeOptions
from jazz_select.service.shared_state import SharedState
from jazz_select.settings import Settings
from jazz_select.testing import HashEmbedder
from jazz_select.threads import beside, in_thread
from tests.postgres_server import PostgresServer
from tests.qdrant_server import LoopbackQdrant
from tests.tcp_proxy import TcpProxy
from tests.unit.service.served import Service, Shop, flow, service

pytestmark = [pytest.mark.programs, pytest.mark.timeout(120)]
_OPTIONS = ServeOptions(stop_s=2, panel=False, mcp=False)


@pytest.fixture
def qdrant() -> Iterator[LoopbackQdrant]:
    """An index for all replicas."""
    with LoopbackQdrant() as server:
        yield server


@dataclass
class Files:
    """What lies where a replica reads its flows."""

    names: list[str] = field(default_factory=lambda: ["refund_order", "track_order"])

    def read(self) -> Sources:
        """Flows of these names."""
        registry = FlowRegistry(min_examples=0)
        for name in self.names:
            flow(name, f"What {name} does", [f"please {name.replace('_', ' ')}", f"do {name}"], registry)
        return Sources(registry=registry, tools=Toolbox())


@dataclass
class Replica:
    """One replica, in this process."""

    running: RunningCatalogue
    shared: SharedState

    @property
    def flows(self) -> set[str]:
        """The names of those that answer."""
        return {each.name for each in self.running.live.registry.values()}


class Index(Protocol):
    """Where an index is asked."""

    @property
    def url(self) -> str:
        """Its address."""
        ...

    @property
    def grpc_port(self) -> int:
        """Its port for gRPC."""
        ...


class House:
    """Makes replicas of one agent."""

    def __init__(self, qdrant: Index, url: str) -> None:
        self._qdrant, self.url = qdrant, url

    @asynccontextmanager
    async def replica(self, read: Callable[[], Sources], agent_id: str = "shop") -> AsyncGenerator[Replica]:
        """One that has loaded its catalogue, and follows the others."""
        async with AsyncExitStack() as stack:
            yield await self.enter(stack, read, agent_id)

    async def enter(self, stack: AsyncExitStack, read: Callable[[], Sources], agent_id: str = "shop") -> Replica:
        """Likewise, until the stack is closed."""
        qdrant = self._qdrant
        opening = ProceduralMemory.open(url=qdrant.url, grpc_port=qdrant.grpc_port, embedder=HashEmbedder())
        memory = await stack.enter_async_context(await opening)
        shared = SharedState(await stack.enter_async_context(Database(self.url)))
        settings = Settings(agent_id=agent_id, top_k=3, on_empty="top1")
        running = RunningCatalogue(settings, memory, read, claims=shared.claims(agent_id))
        running.learned = shared.learned_examples(agent_id)
        running.secret = await shared.secret()
        running.agreement = agreement = shared.agreement(agent_id, None)
        stack.push_async_callback(agreement.leave)
        await running.reload()
        await stack.enter_async_context(beside(shared.listen(), agreement.follow(running)))
        return Replica(running, shared)


@pytest.fixture
def house(qdrant: LoopbackQdrant, database_url: str) -> House:
    return House(qdrant, database_url)


async def until(holds: Callable[[], bool], *, within_s: float) -> float:
    """Wait for it, and return how long that took."""
    begun = monotonic()
    while not holds():
        assert monotonic() - begun < within_s, f"it did not hold within {within_s} s"
        await asyncio.sleep(0.01)
    return monotonic() - begun


@asynccontextmanager
async def up(replica: Replica, options: ServeOptions = _OPTIONS) -> AsyncGenerator[Service]:
    """A replica over HTTP."""
    async with service(replica.running, options=options) as served:
        yield served


# --- one catalogue -------------------------------------------------------------------


@pytest.mark.spec("021.2")
async def test_of_replicas_that_start_at_once_one_syncs(house: House, qdrant: LoopbackQdrant) -> None:
    async with AsyncExitStack() as stack:
        made = await asyncio.gather(*(house.enter(stack, Files().read) for _ in range(3)))
        reports = [each.running.live.report for each in made]
        assert sorted(len(each.created) for each in reports) == [0, 0, 2]
        current = await made[0].shared.catalogue("shop").current()
        assert current is not None
        assert (current.number, current.flows) == (1, 2)


@pytest.mark.spec("021.2")
async def test_a_change_is_live_in_all_within_a_second_once_all_have_it(house: House) -> None:
    files = [Files(), Files(), Files()]
    async with AsyncExitStack() as stack:
        made = [await house.enter(stack, each.read) for each in files]
        for each in files:
            each.names.append("book_visit")
        late = asyncio.gather(*(each.running.reload() for each in made[:2]))
        await asyncio.sleep(1.0)
        assert not late.done(), "one of three has other files"
        assert all("book_visit" not in each.flows for each in made), "so it is live in none"
        await made[2].running.reload()
        await until(lambda: all("book_visit" in each.flows for each in made), within_s=1.0)
        reports = [each.report for each in await late] + [made[2].running.live.report]
        assert sorted(len(each.created) for each in reports) == [0, 0, 1], "one sync"
        current = await made[0].shared.catalogue("shop").current()
        assert current is not None
        assert (current.number, current.flows) == (2, 3)
        for each in made:
            found = await each.running.live.selector.select("please book visit")
            assert found.names == ["book_visit"]


@pytest.mark.spec("021.2")
async def test_a_change_that_one_of_two_lacks_is_live_in_none_and_says_where(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jazz_select.service.agreement._AGREE_S", 1.0)
    files = Files()
    async with house.replica(files.read) as one, house.replica(Files().read) as other:
        files.names.remove("track_order")
        with pytest.raises(OtherFilesError, match="have changed here, and not at") as caught:
            await one.running.reload()
        assert caught.value.replicas == (other.shared.replica,)
        assert one.flows == other.flows == {"refund_order", "track_order"}
        assert await one.running.memory.count_flows("shop") == 2
        assert "stays in all replicas" in one.running.problem


@pytest.mark.spec("021.2")
@pytest.mark.parametrize("others_live", [True, False], ids=["others live", "all others are gone"])
async def test_a_replica_that_starts_with_other_files_writes_nothing(house: House, others_live: bool) -> None:
    stale = Files(["refund_order"])
    async with AsyncExitStack() as stack:
        first = AsyncExitStack()
        one = await house.enter(first, Files().read)
        if others_live:
            await stack.enter_async_context(first)
        else:
            await first.aclose()
        with pytest.raises(OtherFilesError, match=r"other flows of agent 'shop' than version 1") as caught:
            await house.enter(stack, stale.read)
        assert caught.value.synced_by == one.shared.replica
        async with house.replica(Files().read) as again:
            assert await again.running.memory.count_flows("shop") == 2


@pytest.mark.spec("021.3")
async def test_a_replica_that_was_killed_keeps_a_change_waiting_for_seconds_alone(house: House) -> None:
    files = Files()
    async with house.replica(files.read) as one:
        database = one.shared.database
        await one.shared.catalogue("shop").report(
            one.running.agreement.live if one.running.agreement else "", is_news=False
        )
        dead = SharedState(database)
        await dead.catalogue("shop").report("of a replica that is killed now", is_news=True)
        files.names.append("book_visit")
        begun = monotonic()
        await one.running.reload()
        assert monotonic() - begun < 6
        assert "book_visit" in one.flows


@pytest.mark.spec("021.2")
async def test_what_one_learns_all_have(house: House) -> None:
    def taught(overlay: Overlay) -> Overlay:
        examples = {"refund_order": {"gimme the dough": "1"}}
        return overlay.start_trial(Version(number=1, at=now(), examples=examples)).promote()

    async with house.replica(Files().read) as one, house.replica(Files().read) as other:
        assert one.running.learned is not None
        await in_thread(one.running.learned.change, taught)
        await one.running.reload()
        await until(lambda: other.running.number == 2, within_s=3.0)
        for each in (one, other):
            (refund,) = [item for item in each.running.live.registry.values() if item.name == "refund_order"]
            assert each.running.agreement is not None
            assert (await each.running.live.selector.select("gimme the dough")).names == ["refund_order"], refund


@pytest.mark.spec("021.3")
async def test_flows_that_are_gone_from_the_index_are_written_again_by_one(
    house: House, qdrant: LoopbackQdrant
) -> None:
    async with house.replica(Files().read) as one, house.replica(Files().read) as other:
        for each in qdrant.client.get_collections().collections:
            qdrant.client.delete_collection(each.name)
        await asyncio.gather(one.running.restore(), other.running.restore())
        assert await other.running.memory.count_flows("shop") == 2


# --- one state -----------------------------------------------------------------------


@pytest.mark.spec("021.1")
async def test_a_conversation_goes_on_at_another_replica_and_nothing_is_done_twice(house: House) -> None:
    shop = Shop()
    asked = {"message": "cancel my order", "context": {"order_id": "A-1"}}
    async with (
        house.replica(shop.sources) as one,
        house.replica(shop.sources) as other,
        up(one) as first,
        up(other) as second,
    ):
        begun = (await first.post("/v1/turn", asked)).json()
        assert begun["status"] == "confirming"
        said = {**asked, "message": "yes", "history": begun["conversation"]}
        answers = await asyncio.gather(*(each.post("/v1/turn", said) for each in (first, second) * 3))
        assert shop.cancelled == ["A-1"]
        assert "done" in {each.json()["status"] for each in answers}


@pytest.mark.spec("021.1")
async def test_a_conversation_is_kept_by_its_id_for_the_key_that_began_it(house: House) -> None:
    shop, keeping = Shop(), ServeOptions(stop_s=2, panel=False, mcp=False, conversations=60.0)
    asked = {"message": "cancel my order", "context": {"order_id": "A-1"}, "conversation_id": "c-1"}
    async with house.replica(shop.sources) as one, house.replica(shop.sources) as other:
        async with up(one, keeping) as first, up(other, keeping) as second:
            first.agents.shared, second.agents.shared = one.shared, other.shared
            assert (await first.post("/v1/turn", asked)).json()["status"] == "confirming"
            answer = (await second.post("/v1/turn", {**asked, "message": "yes"})).json()
            assert answer["status"] == "done"
            assert shop.cancelled == ["A-1"]
            foreign = {**asked, "message": "yes", "conversation_id": "c-2"}
            assert (await second.post("/v1/turn", foreign)).json()["status"] != "done"
        kept = one.shared.conversations("shop", "another key", kept_s=60)
        assert await kept.read("c-1") is None


@pytest.mark.spec("021.1")
async def test_a_kept_conversation_ends_with_its_time(database_url: str) -> None:
    async with Database(database_url) as database:
        short = SharedState(database).conversations("shop", "key", kept_s=0.3)
        assert await short.keep("c", "first", after=None)
        kept = await short.read("c")
        assert kept is not None
        assert await short.keep("c", "second", after=kept)
        assert not await short.keep("c", "third", after=kept), "another turn was kept meanwhile"
        await asyncio.sleep(0.5)
        assert await short.read("c") is None
        assert await short.keep("c", "begun anew", after=None)


@pytest.mark.spec("021.1")
async def test_tenants_have_claims_and_logs_apart(database_url: str) -> None:
    async with Database(database_url) as database:
        shared = SharedState(database)
        assert await shared.claims("shop").claim("c", "x") is None
        assert await shared.claims("clinic").claim("c", "x") is None
        assert await shared.claims("shop").forget(0) == 1
        assert await shared.claims("clinic").claim("c", "x") is not None
        secrets = {await SharedState(database).secret() for _ in range(3)}
        assert secrets == {await shared.secret()}


# --- a database that is away ---------------------------------------------------------


@pytest.mark.spec("021.3")
async def test_without_its_database_a_replica_is_not_ready_and_with_it_it_is_again(
    qdrant: LoopbackQdrant, postgres: PostgresServer, database_url: str
) -> None:
    shop = Shop()
    asked = {"message": "cancel my order", "context": {"order_id": "A-1"}}
    with TcpProxy(postgres.port) as network:
        house = House(qdrant, network.through(database_url))
        async with house.replica(shop.sources) as one:
            async with service(one.running, options=_OPTIONS, shared=one.shared) as up_one:
                assert (await up_one.client.get("/readyz")).json() == {"status": "ready"}
                network.cut()
                await asyncio.sleep(0.6)
                told = await up_one.client.get("/readyz")
                assert (told.status_code, told.json()["status"]) == (503, "no_database")
                network.restore()
                begun = monotonic()
                while (await up_one.client.get("/readyz")).status_code != 200:
                    assert monotonic() - begun < 2, "ready again within two seconds"
                    await asyncio.sleep(0.05)
            async with up(one) as first:
                begun_turn = (await first.post("/v1/turn", asked)).json()
                said = {**asked, "message": "yes", "history": begun_turn["conversation"]}
                network.cut()
                lost = (await first.post("/v1/turn", said)).json()
                assert shop.cancelled == [], "what cannot be claimed is not done"
                assert "could not be claimed" in str(lost)
                network.restore()
                again = (await first.post("/v1/turn", said)).json()
                assert again["status"] == "done"
                assert shop.cancelled == ["A-1"]


@pytest.mark.spec("021.3")
async def test_an_outcome_that_cannot_be_kept_is_unknown_to_another_and_never_done_twice(
    qdrant: LoopbackQdrant, postgres: PostgresServer, database_url: str
) -> None:
    """The effect is made, the database goes, the replica too: another one says that it may have been done."""
    with TcpProxy(postgres.port) as network:
        far, near = House(qdrant, network.through(database_url)), House(qdrant, database_url)
        shop = Shop()
        asked = {"message": "cancel my order", "context": {"order_id": "A-1"}}

        class Cutting(Shop):
            def cancel_order(self, order_id: str) -> str:
                """Cancel an order for good."""
                network.cut()
                return shop.cancel_order(order_id)

        async with (
            far.replica(Cutting().sources) as one,
            near.replica(shop.sources) as other,
            up(one) as first,
            up(other) as second,
        ):
            begun = (await first.post("/v1/turn", asked)).json()
            said = {**asked, "message": "yes", "history": begun["conversation"]}
            told = (await first.post("/v1/turn", said)).json()
            assert told["status"] == "done", "who made it says so"
            later = (await second.post("/v1/turn", said)).json()
            assert shop.cancelled == ["A-1"]
            assert later["status"] == "failed"
            assert "may have been done" in str(later)


@pytest.mark.spec("021.1")
async def test_a_service_whose_database_is_away_does_not_start(qdrant: LoopbackQdrant) -> None:
    with pytest.raises(DatabaseUnavailableError, match="Is it running"):
        async with House(qdrant, "postgresql://jazz:secret@127.0.0.1:1/x").replica(Files().read):
            pass
