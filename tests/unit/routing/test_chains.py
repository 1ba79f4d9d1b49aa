"""The chains of flows, and those of the support pack, run to their end on its shop."""

import gc
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.shop import RefusedError, Shop
from flows.tools import ReturnPolicy, shop_tools
from jazz_select import Flow, FlowRegistry
from jazz_select.errors import FlowValidationError
from jazz_select.flow.base import chain_of
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing import CHOOSE, FlowExecutor, GuidedDecisionPoint, Toolbox
from jazz_select.values import Tier

PACK = Path(__file__).parents[3] / "flows"


@pytest.fixture(scope="module")
def pack() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(PACK, registry)
    return registry


def flow_with(chain: object) -> Flow:
    flow = Flow(
        name="x", tools=["a", "b", "freeze"], description="d", condition="c", registry=FlowRegistry(min_examples=0)
    )
    if chain is not None:
        vars(flow)["chain"] = chain
    return flow


POINT = GuidedDecisionPoint(after_step="a", candidate_tools=["b"])


@pytest.mark.parametrize(
    ("chain", "steps"),
    [(None, ()), (["a", "b"], ("a", "b")), (("a", POINT, CHOOSE), ("a", POINT, CHOOSE))],
    ids=["none", "names", "all kinds"],
)
def test_a_chain_is_what_the_author_wrote(chain: object, steps: tuple[object, ...]) -> None:
    assert chain_of(flow_with(chain)) == steps


@pytest.mark.parametrize(
    ("chain", "problem"),
    [
        ("ab", "a list of steps"),
        (3, "a list of steps"),
        ([3], "a step must be a tool's name"),
        (["a", "c"], "'c' is not among .*; add"),
        (["freez"], r"chain\[0\]: 'freez' is not among .*; did you mean 'freeze'"),
        ([GuidedDecisionPoint(after_step="y", candidate_tools=["b"])], "'y' is not among"),
        ([GuidedDecisionPoint(after_step="Freeze", candidate_tools=["b"])], "did you mean 'freeze'"),
        ([GuidedDecisionPoint(after_step="a", candidate_tools=["z"])], "'z' is not among"),
        ([GuidedDecisionPoint(after_step="a", candidate_tools=["b"], fallback_tool="z")], "'z' is not among"),
    ],
)
def test_a_chain_that_cannot_run_is_refused(chain: object, problem: str) -> None:
    with pytest.raises(FlowValidationError, match=problem):
        chain_of(flow_with(chain))


def test_every_chain_of_the_pack_names_connected_tools(pack: FlowRegistry) -> None:
    tools = Toolbox(shop_tools(Shop()))
    chains = {flow.name: chain_of(flow) for flow in pack.values()}
    named = {
        name
        for chain in chains.values()
        for step in chain
        for name in ([step] if isinstance(step, str) else getattr(step, "candidate_tools", []))
    }
    assert sum(map(bool, chains.values())) >= 3
    assert named <= set(tools)


RUNS: list[tuple[str, dict[str, Any], str, list[tuple[str, Tier]]]] = [
    (
        "refund_order",
        {"email": "ada@example.org"},
        "ok",
        [
            ("lookup_order", Tier.DETERMINISTIC),
            ("check_return_window", Tier.DETERMINISTIC),
            ("create_return", Tier.DETERMINISTIC),
            ("issue_refund", Tier.GUIDED),
        ],
    ),
    (
        "refund_order",
        {"email": "ben@example.org", "order_number": "60127"},
        "open",
        [
            ("lookup_order", Tier.DETERMINISTIC),
            ("check_return_window", Tier.DETERMINISTIC),
            ("offer_store_credit", Tier.GUIDED),
            ("", Tier.OPEN),
        ],
    ),
    (
        "refund_order",
        {"email": "ben@example.org"},
        "open",
        [("lookup_order", Tier.DETERMINISTIC), ("check_return_window", Tier.DETERMINISTIC), ("", Tier.OPEN)],
    ),
    (
        "cancel_order",
        {"email": "cleo@example.org"},
        "ok",
        [(name, Tier.DETERMINISTIC) for name in ("lookup_order", "cancel_order", "release_payment")],
    ),
    (
        "cancel_order",
        {"email": "ada@example.org"},
        "refused",
        [("lookup_order", Tier.DETERMINISTIC), ("cancel_order", Tier.DETERMINISTIC)],
    ),
    (
        "track_order",
        {"email": "ben@example.org"},
        "ok",
        [("lookup_order", Tier.DETERMINISTIC), ("get_tracking", Tier.DETERMINISTIC)],
    ),
]


@pytest.mark.parametrize(("name", "inputs", "status", "steps"), RUNS)
async def test_the_pack_runs_to_its_end(
    pack: FlowRegistry, name: str, inputs: dict[str, Any], status: str, steps: list[tuple[str, Tier]]
) -> None:
    flow = pack.by_name(name)
    assert flow is not None
    result = await FlowExecutor(shop_tools(Shop()), ReturnPolicy()).run(chain_of(flow), inputs)
    assert (result.status, [(record.tool, record.tier) for record in result.records]) == (status, steps)


async def test_the_refund_is_what_the_article_cost(pack: FlowRegistry) -> None:
    flow = pack.by_name("refund_order")
    assert flow is not None
    result = await FlowExecutor(shop_tools(Shop()), ReturnPolicy()).run(chain_of(flow), {"email": "ada@example.org"})
    assert result.context["refunded_cents"] == 12_900
    assert result.context["account"] == "Visa ending in 4242"
    assert result.context["refund_expected_on"] == "2025-06-16"


REFUSALS: list[tuple[Callable[[Shop], object], str]] = [
    (lambda shop: shop.lookup_order("nobody@example.org"), "nobody@example.org has no order"),
    (lambda shop: shop.create_return("60127"), "cannot go back: too_late"),
    (lambda shop: shop.offer_store_credit("60112"), "was used"),
    (lambda shop: shop.create_exchange("60131", "JU-L"), "sold out"),
    (lambda shop: shop.create_return("60112") and shop.create_return("60112"), "has a return already"),
    (lambda shop: shop.issue_refund("R-40001"), "R-40001 was refunded already"),
    (
        lambda shop: shop.offer_store_credit("60127") and shop.offer_store_credit("60127"),
        "has store credit already",
    ),
    (lambda shop: shop.create_exchange("60131", "JU-M") and shop.create_exchange("60131", "JU-M"), "has an exchange"),
    (lambda shop: shop.create_exchange("60140", "JU-M"), "has not been delivered"),
    (lambda shop: shop.create_exchange("60105", "JU-M"), "60105 has a return already"),
    (lambda shop: shop.create_exchange("60131", "JU-M") and shop.create_return("60131"), "has an exchange already"),
    (lambda shop: shop.get_tracking(None), "not been handed to a carrier"),
    (lambda shop: shop.lookup_refund("R-1"), "nothing was refunded"),
    (lambda shop: shop.lookup_return("60112"), "has no return"),
]


@pytest.mark.parametrize(("call", "problem"), REFUSALS)
def test_the_shop_says_what_its_rules_forbid(call: Callable[[Shop], object], problem: str) -> None:
    with pytest.raises((LookupError, ValueError), match=problem):
        call(Shop())


def test_what_was_refused_changed_nothing() -> None:
    shop = Shop()
    before = shop.check_stock("JU-M").in_stock
    shop.create_exchange("60131", "JU-M")
    with pytest.raises(RefusedError):
        shop.create_exchange("60131", "JU-M")
    assert shop.check_stock("JU-M").in_stock == before - 1


def test_every_shop_starts_anew() -> None:
    with Shop() as first, Shop() as second:
        first.cancel_order("60144")
        assert first.lookup_order("cleo@example.org", "60144").status == "cancelled"
        assert second.lookup_order("cleo@example.org", "60144").status == "placed"


def test_a_shop_that_is_closed_lets_go_of_its_database() -> None:
    with Shop() as shop:
        pass
    shop.close()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        shop.check_stock("JU-M")


def test_a_shop_that_nobody_holds_any_more_closes_itself() -> None:
    shop = Shop()
    closing = shop._closing  # pyright: ignore[reportPrivateUsage] - nothing else is left of it
    tools = shop_tools(shop)
    del shop
    gc.collect()
    assert closing.alive
    del tools
    gc.collect()
    assert not closing.alive
