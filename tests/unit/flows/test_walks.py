"""Every flow of the support pack goes to its end on the shop: its tools are there, and do what its steps say."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from flows.shop import Shop, changes
from flows.tools import ReturnPolicy, shop_tools
from jazz_select import BaseFlow, FlowRegistry
from jazz_select.flow.base import chain_of
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing import FlowExecutor, Tool, Toolbox
from tests.unit.flows.walks import ADA, DINA, ORDERS, RETURNS, Walk
from tests.unit.flows.walks_of_accounts import ACCOUNTS, CODE, DESK, MONEY, SUBSCRIPTIONS

WALKS = [*ORDERS, *RETURNS, *ACCOUNTS, *MONEY, *SUBSCRIPTIONS, *DESK]


@pytest.fixture(scope="module")
def pack() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(Path(__file__).parents[3] / "flows", registry)
    return registry


@pytest.fixture(scope="module")
def equipped() -> Iterator[tuple[Shop, list[Tool]]]:
    """A shop and its tools, which take longer to make than most walks."""
    with Shop() as shop:
        yield shop, shop_tools(shop)


@pytest.fixture
def fresh(equipped: tuple[Shop, list[Tool]]) -> tuple[Shop, list[Tool]]:
    """As nobody has been to it yet."""
    equipped[0].reload()
    return equipped


def all_tools(flow: BaseFlow) -> list[str]:
    """Those of a flow and of its parts."""
    return [*flow.tools, *(tool for part in flow.definition().parts if part.flow for tool in part.flow.tools)]


def called(shop: Shop, tools: Toolbox, calls: tuple[tuple[str, dict[str, Any]], ...]) -> Mapping[str, Any]:
    """Make the calls as an executor makes them, and give what the last one gave."""
    output = {}
    for name, arguments in calls:
        given = {key: shop.rows()["codes"][-1]["code"] if value is CODE else value for key, value in arguments.items()}
        function = tools[name].function
        assert function is not None
        before = shop.rows()
        output: Any = function(**given)
        assert not tools[name].read_only or shop.rows() == before, f"{name} says that it only reads"
    return output


def test_every_tool_that_a_flow_names_is_connected_and_every_tool_is_named(pack: FlowRegistry) -> None:
    named = {tool for flow in pack.values() for tool in flow.tools}
    assert len(pack) == 40
    assert named == set(Toolbox(shop_tools(Shop())))


def test_every_flow_is_walked_with_all_its_tools(pack: FlowRegistry) -> None:
    walked: dict[str, set[str]] = {}
    for walk in WALKS:
        walked.setdefault(walk.flow, set()).update(name for name, _ in walk.calls)
    assert set(walked) == {flow.name for flow in pack.values()}
    for flow in pack.values():
        assert set(flow.own_tools) <= walked[flow.name], flow.name


@pytest.mark.parametrize("walk", WALKS, ids=[f"{walk.flow}-{number}" for number, walk in enumerate(WALKS)])
def test_a_flow_goes_to_its_end_and_changes_these_rows_alone(
    pack: FlowRegistry, fresh: tuple[Shop, list[Tool]], walk: Walk
) -> None:
    flow = pack.by_name(walk.flow)
    assert flow is not None
    names = list(dict.fromkeys(name for name, _ in walk.calls))
    assert set(names) <= set(all_tools(flow))
    if not flow.composite:
        steps = " ".join(flow.steps)
        assert names == sorted(names, key=steps.find), "in the order of the steps"
    shop, tools = fresh
    before = shop.rows()
    output = called(shop, Toolbox(tools), walk.calls)
    found = changes(before, shop.rows())
    shop.reload()
    assert shop.rows() == before, "and all of it can be taken back"
    assert output == {**output, **walk.said}
    assert set(found) == set(walk.effects)
    for table, expected in walk.effects.items():
        assert set(found[table]) == set(expected), table
        assert found[table].get("changed") == expected.get("changed"), table
        for kind in ("added", "removed"):
            rows, parts = found[table].get(kind, []), expected.get(kind, [])
            assert len(rows) == len(parts), (table, kind, rows)
            assert [{**row, **part} for row, part in zip(rows, parts, strict=True)] == rows, (table, kind)


CHAINS: list[tuple[str, str, dict[str, Any], str, dict[str, list[dict[str, Any]]]]] = [
    (
        "an article of an older order",
        "refund_order",
        {"email": ADA, "item": "wool jumper"},
        "ok",
        {
            "returns": [{"order_number": "60098", "sku": "JU-M", "refundable": 6900}],
            "refunds": [{"order_number": "60098", "amount": 6900}],
        },
    ),
    ("an item of two orders", "refund_order", {"email": DINA, "item": "lamp"}, "failed", {}),
    (
        "number and item contradict",
        "refund_order",
        {"email": ADA, "order_number": "60112", "item": "lamp"},
        "failed",
        {},
    ),
    ("several articles, none named", "refund_order", {"email": ADA, "order_number": "60098"}, "failed", {}),
    ("another customer's order", "cancel_order", {"email": ADA, "order_number": "60144"}, "failed", {}),
    ("what is not in any order", "cancel_order", {"email": DINA, "item": "piano"}, "failed", {}),
]


@pytest.mark.parametrize(
    ("name", "inputs", "status", "rows"), [each[1:] for each in CHAINS], ids=[each[0] for each in CHAINS]
)
async def test_a_chain_settles_what_was_meant_or_nothing(
    pack: FlowRegistry,
    fresh: tuple[Shop, list[Tool]],
    name: str,
    inputs: dict[str, Any],
    status: str,
    rows: dict[str, list[dict[str, Any]]],
) -> None:
    flow = pack.by_name(name)
    assert flow is not None
    shop, tools = fresh
    before = shop.rows()
    run = await FlowExecutor(tools, ReturnPolicy()).run(chain_of(flow), inputs)
    found = changes(before, shop.rows())
    assert run.status == status
    assert bool(found) is bool(rows), "a chain that failed has changed nothing"
    for table, parts in rows.items():
        added = found[table].get("added", [])
        assert [{**row, **part} for row, part in zip(added, parts, strict=True)] == added
