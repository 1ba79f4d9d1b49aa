"""The gate before what cannot be undone."""

from dataclasses import replace
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, SequentialFlow
from jazz_select.agent.conversation import OpenFlow, Part
from jazz_select.agent.gate import DestructionGate
from jazz_select.agent.known_flows import KnownFlows
from jazz_select.agent.turn import FlowRun
from jazz_select.flow.base import GuidedDecisionPoint
from jazz_select.routing import CHOOSE, Tool
from jazz_select.routing.records import StepRecord
from jazz_select.values import Tier

TOOLS = {
    "look": Tool(name="look", function=dict),
    "note": Tool(name="note", function=dict),
    "read": Tool(name="read", function=dict),
    "pay": Tool(name="pay", function=dict, destructive=True),
}
FLOWS = KnownFlows({}, TOOLS)
GATE = DestructionGate(FLOWS)
POINT = GuidedDecisionPoint(after_step="look", candidate_tools=["note"])
CHAINS: dict[str, tuple[Any, ...]] = {
    "looks": ("look",),
    "pays": ("look", "pay"),
    "chooses": (CHOOSE,),
    "falls back": ("look", replace(POINT, fallback_tool="pay")),
    "falls back on what destroys nothing": ("look", replace(POINT, fallback_tool="read")),
    "talks": (),
    "broken": ("x",),
}
DESTROYS = ["pays", "chooses", "falls back", "broken"]
READS = ["looks", "talks"]
WAITING = OpenFlow(name="pays", status="waiting")
SPENT = WAITING.model_copy(update={"parts": {"0": Part(status="failed", final=True)}})


def flow(name: str, registry: FlowRegistry | None = None) -> Flow:
    made = Flow(
        name=name,
        description="d",
        condition="c",
        desired_effects=["e"],
        tools=list(TOOLS),
        registry=FlowRegistry(min_examples=0) if registry is None else registry,
    )
    vars(made).update(chain=CHAINS[name])
    return made


@pytest.mark.parametrize("name", CHAINS)
def test_a_flow_destroys_where_its_chain_may_or_cannot_be_told(name: str) -> None:
    assert FLOWS.destroys(flow(name)) is (name in DESTROYS)
    assert not FLOWS.destroys(None)


def test_a_yes_to_changed_steps_leaves_a_doubt_as_it_is() -> None:
    agreed = GATE.release(WAITING.model_copy(update={"uncertain_tools": ("pay",), "changed": ("look", "pay")}))
    assert (agreed.uncertain_tools, agreed.changed, agreed.approved_changes) == (("pay",), (), ("look", "pay"))


@pytest.mark.parametrize(
    ("begun", "status"),
    [
        ({}, "queued"),
        ({"parts": {"0": Part(status="failed", final=True)}}, "waiting"),
        ({"asks": ("amount",)}, "waiting"),
        ({"parts": {"0": Part(status="failed", final=True)}, "asks": ("amount",)}, "waiting"),
    ],
    ids=["nothing was done", "a part was", "something was asked for", "both"],
)
def test_a_flow_that_is_agreed_to_is_begun_where_it_was_not(begun: dict[str, Any], status: str) -> None:
    assert GATE.release(WAITING.model_copy(update=begun)).status == status


def test_steps_that_changed_in_a_part_hold_the_whole() -> None:
    registry = FlowRegistry(min_examples=0)
    for name in ("looks", "pays"):
        vars(flow(name, registry)).update(chain=CHAINS[name])
    whole = SequentialFlow(
        name="whole", description="d", condition="c", flows=["looks", "pays"], examples=[], registry=registry
    )
    part = Part(status="active", done=("look",), left=("pay",))
    waiting = OpenFlow(name="whole", status="waiting", parts={"0": Part(status="active"), "0/pays": part})
    assert GATE.held_by_change(waiting, whole) == ()
    vars(registry.by_name("pays")).update(chain=("look", "note", "pay"))
    assert GATE.held_by_change(waiting, whole) == ("note", "pay")


def test_a_yes_to_begin_anew_leaves_nothing_of_what_was_done() -> None:
    begun = WAITING.model_copy(update={"parts": {"0": Part(status="active", done=("look",))}, "asks": ("amount",)})
    assert GATE.release(begun.model_copy(update={"anew": True})) == OpenFlow(name="pays", status="queued")


def test_steps_that_changed_hold_nothing_that_destroys_nothing() -> None:
    parts = {"0": Part(status="active", done=("look",), left=("note",))}
    waiting = OpenFlow(name="looks", status="waiting", parts=parts)
    assert GATE.held_by_change(waiting, flow("looks")) == ()
    assert GATE.held_by_change(waiting, flow("pays")) == ("pay",)


@pytest.mark.parametrize("name", CHAINS)
def test_a_flow_may_write_where_its_chain_does_not_only_read_or_cannot_be_told(name: str) -> None:
    assert FLOWS.may_write(flow(name)) is (name not in READS)
    assert not FLOWS.may_write(None)


@pytest.mark.parametrize(
    ("tool", "fault", "attempts", "doubt"),
    [("pay", "tool", 1, ("pay",)), ("pay", "output", 1, ()), ("pay", "tool", 0, ()), ("look", "tool", 1, ())],
    ids=["it failed", "it ran and gave nonsense", "it was not called", "it destroys nothing"],
)
def test_what_is_kept_says_what_may_have_been_done(
    tool: str, fault: Any, attempts: int, doubt: tuple[str, ...]
) -> None:
    how: dict[str, Any] = {"step": 1, "tier": Tier.DETERMINISTIC, "reason": "planned", "status": "failed"}
    record = StepRecord(tool=tool, fault=fault, attempts=attempts, **how)
    (kept,) = GATE.flow_to_keep(SPENT, FlowRun(flow="pays", status="failed", records=(record,)))
    assert (kept.status, kept.uncertain_tools) == ("failed", doubt)


@pytest.mark.parametrize(
    ("tool", "status", "doubt"),
    [("pay", "ok", ()), ("look", "ok", ("pay",)), ("pay", "skipped", ("pay",)), ("pay", "failed", ("pay",))],
    ids=["it ran", "another ran", "its turn did not come", "it failed again"],
)
def test_a_doubt_stays_until_that_tool_has_run(tool: str, status: Any, doubt: tuple[str, ...]) -> None:
    record = StepRecord(tool=tool, step=1, tier=Tier.DETERMINISTIC, reason="planned", status=status)
    doubted = SPENT.model_copy(update={"uncertain_tools": ("pay",)})
    (kept,) = GATE.flow_to_keep(doubted, FlowRun(flow="pays", status="failed", records=(record,)))
    assert kept.uncertain_tools == doubt


def test_nothing_is_kept_of_a_flow_that_destroyed_nothing() -> None:
    assert GATE.flow_to_keep(WAITING, FlowRun(flow="pays", status="failed")) == ()
    assert GATE.flow_to_keep(SPENT) == (SPENT.model_copy(update={"status": "failed"}),)
