"""A service is the team's agent: what its factory puts together answers at every door, guards and all."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from jazz_select import Agent, FlowSelector
from jazz_select.agent import ActionDecision, Route
from jazz_select.agent.graph.guards import guard
from jazz_select.agent.turn import TurnInput
from jazz_select.errors import ConfigError
from jazz_select.service.agents import load_agents
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.panel.routes import panel_part
from jazz_select.service.panel.runs import files_of
from jazz_select.service.running import RunningCatalogue
from jazz_select.service.service_options import ServeOptions
from jazz_select.settings import Settings
from tests.unit.service import served
from tests.unit.service.mcp.desk import said
from tests.unit.service.mcp.desk import served as mcp_client
from tests.unit.service.served import Shop, memory, service

pytestmark = pytest.mark.spec("014.1")
HERE = "tests.unit.service.test_factory"
BANNED = "eve@example.org"
SHOP = Shop()


@guard("banned")
def not_banned(state: TurnInput) -> Route | None:
    is_banned = BANNED in {*map(str, state.context.values())} or BANNED in state.message
    refusal = ActionDecision(action="text", arguments={"text": "Please call us."}, reason="banned")
    return Route("banned", decision=refusal) if is_banned else None


async def make_shop(selector: FlowSelector) -> Agent:
    """The team's own: with a guard, and texts of its own."""
    return Agent(
        selector,
        SHOP.sources().tools,
        guards=[not_banned],
        texts={"called_off": "Fine: {title}."},
        approval="never",
    )


def make_nothing(selector: FlowSelector) -> Any:
    return selector.agent_id


def make_trouble(selector: FlowSelector) -> Agent:
    raise RuntimeError("the vault is closed")


async def hang(selector: FlowSelector) -> Agent:
    await asyncio.Event().wait()
    raise AssertionError


def catalogue(index: Any, factory: str, *, agent_id: str = "shop", **options: Any) -> RunningCatalogue:
    told = Settings(agent_id=agent_id, top_k=3, on_empty="top1")
    return RunningCatalogue(told, index, SHOP.sources, factory=f"{HERE}:{factory}", secret=b"s" * 32, **options)


@pytest.fixture(name="up")
async def _up(tmp_path: Path) -> AsyncGenerator[served.Service]:
    options = ServeOptions(stop_s=2, panel=True, mcp=False)
    async with (
        memory() as index,
        service(
            catalogue(index, "make_shop"),
            options=options,
            parts=[panel_part({"shop": files_of("shop", tmp_path, ())})],
        ) as running,
    ):
        yield running


async def test_a_guard_refuses_over_http_and_in_the_panel(up: served.Service) -> None:
    for path in ("/v1/turn", "/v1/panel/turn"):
        body = {"message": "I want my money back", "context": {"email": BANNED}}
        refused = (await up.post(path, body)).text
        assert "Please call us." in refused, path
        assert "order of" not in refused
        helped = (await up.post(path, {**body, "context": {"email": "ada@example.org"}})).text
        assert "Please call us." not in helped, path
        assert '"done"' in helped


async def test_a_guard_refuses_over_mcp() -> None:
    SHOP.cancelled.clear()
    async with memory() as index:
        running = catalogue(index, "make_shop")
        await running.reload()
        async with mcp_client(AgentServer(running)) as client:

            async def call(name: str, **arguments: str) -> str:
                return said(await client.call_tool("call_tool", {"name": name, "arguments": arguments}))

            assert "order of ada@example.org" in await call("find_order", email="ada@example.org")
            refused = await call("find_order", email=BANNED)
            assert "order of" not in refused
            assert "banned" in refused
            assert "is cancelled" in await call("cancel_order", order_id="A1"), "its policy asks nobody"
    assert SHOP.cancelled == ["A1"]


async def test_claims_of_the_service_are_the_agents_where_it_has_none() -> None:
    from jazz_select.routing import SqliteClaims

    async with memory() as index:
        claims = SqliteClaims(":memory:")
        running = catalogue(index, "make_shop", claims=claims)
        made = await running.reload()
        assert (made.agent.tools.keys(), made.tools.keys()) == ({"find_order", "cancel_order"},) * 2
        asked = await made.agent.turn("cancel my order", context={"order_id": "A2"})
        assert not [note for note in asked.notes if "give the agent a store of claims" in note]


@pytest.mark.parametrize(
    ("factory", "problem"),
    [
        ("make_nothing", "must give an Agent, got 'shop'"),
        ("make_trouble", "failed: RuntimeError: the vault is closed"),
        ("not_there", "has no attribute 'not_there'"),
        ("make_shopp", "has no attribute 'make_shopp'; did you mean 'make_shop'?"),
        ("hang", "failed: TimeoutError: it gave no answer within 0.2 s"),
    ],
)
async def test_a_factory_that_gives_no_agent_is_said(factory: str, problem: str) -> None:
    async with memory() as index:
        broken = catalogue(index, factory, patience_s=0.2)
        with pytest.raises(ConfigError, match="factory"):
            await broken.reload()
        assert problem in broken.problem
        assert not broken.is_ready


def test_an_entry_of_agents_yaml_names_it(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text("agents: {shop: {flows: flows, factory: shop.agents:make}}", "utf-8")
    (source,) = load_agents(tmp_path / "agents.yaml", Settings())
    assert source.factory == "shop.agents:make"


async def test_a_blank_message_says_so() -> None:
    async with memory() as index:
        made = await catalogue(index, "make_shop").reload()
        assert (await made.agent.turn("  ")).notes[0] == "nothing was asked: the message is blank"
        assert not [each for each in (await made.agent.turn("hello")).notes if "blank" in each]


async def test_one_broken_factory_keeps_nobody_else_from_being_served() -> None:
    """Its own agent answers 503 until it is mended."""
    keys = ("sound" * 5, "broken" * 5)
    async with memory() as index:
        sound, broken = catalogue(index, "make_shop"), catalogue(index, "make_trouble", agent_id="broken")
        async with service(sound, broken, keys=keys, broken=["broken"]) as up:
            for key, status in zip(keys, (200, 503), strict=True):
                for path, body in (("/v1/turn", {"message": "I want my money back"}), ("/v1/select", {"request": "x"})):
                    answer = await up.post(path, body, authorization=f"Bearer {key}")
                    assert answer.status_code == status, (path, answer.text)
                    assert "Traceback" not in answer.text
