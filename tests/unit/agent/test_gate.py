"""The gate before what cannot be undone."""

from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry
from jazz_select.agent.conversation import OpenFlow, Part
from jazz_select.agent.flows.runner import FlowRun
from jazz_select.agent.gate import DestructionGate, Hold
from jazz_select.routing import CHOOSE, Tool
from jazz_select.routing.records import StepRecord
from jazz_select.values import Tier

TOOLS = {
    "look": Tool(name="look", function=dict),
    "pay": Tool(name="pay", function=dict, destructive=True),
}
GATE = DestructionGate(TOOLS)
CHAINS: dict[str, tuple[Any, ...]] = {
    "looks": ("look",),
    "pays": ("look", "pay"),
    "chooses": (CHOOSE,),
    "talks": (),
    "broken": ("x",),
}
DESTROYS = ["pays", "chooses", "broken"]
WAITING = OpenFlow(name="pays", status="waiting")
SPENT = WAITING.model_copy(update={"parts": {"0": Part(status="failed", final=True)}})


def flow(name: str) -> Flow:
    made = Flow(
        name=name,
        description="d",
        condition="c",
        desired_effects=["e"],
        tools=list(TOOLS),
        registry=FlowRegistry(min_examples=0),
    )
    vars(made).update(chain=CHAINS[name])
    return made


@pytest.mark.parametrize("name", CHAINS)
def test_a_flow_destroys_where_its_chain_may_or_cannot_be_told(name: str) -> None:
    assert GATE.destroys(flow(name)) is (name in DESTROYS)
    assert not GATE.destroys(None)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize(
    ("message", "plain"), [("A-17", True), ("A-17, but wait", False), ("what happens if it is A-17?", False)]
)
def test_an_answer_that_may_take_itself_back_lets_nothing_through_that_destroys(
    name: str, message: str, *, plain: bool
) -> None:
    assert GATE.lets_through(flow(name), message) is (plain or name not in DESTROYS)


@pytest.mark.parametrize(
    ("name", "agreed", "known", "named"),
    [
        pytest.param("pays", (), {}, ("A-17",), id="nothing takes it"),
        pytest.param("pays", (), {"order": "a-17"}, None, id="it is known"),
        pytest.param("pays", ("a-17",), {}, None, id="it was agreed to leave it out"),
        pytest.param("looks", (), {}, None, id="nothing is destroyed"),
    ],
)
def test_what_was_named_and_nothing_takes_holds(name: str, agreed: Any, known: Any, named: Any) -> None:
    hold = GATE.held_by_name(WAITING.model_copy(update={"agreed": agreed}), flow(name), ["pay A-17", "A-17"], known)
    expected = None if named is None else Hold(problem="A-17 was named, and nothing takes it", named=named)
    assert hold == expected


@pytest.mark.parametrize(
    ("said", "named"),
    [
        pytest.param("March 5th, 2026", None, id="the year of a date in words"),
        pytest.param("on the 5th of March 2026, please", None, id="a date in a sentence"),
        pytest.param("2026年3月5日", None, id="a date that is one word"),
        pytest.param("order 2026, by March 5th, 2026", ("2026",), id="a number beside a date that has it too"),
        pytest.param("March 35th, 2026", ("2026",), id="no date"),
    ],
)
def test_a_date_names_nothing_in_particular_however_it_is_written(said: str, named: Any) -> None:
    hold = GATE.held_by_name(WAITING, flow("pays"), [said], {"day": "2026-03-05"})
    assert (None if hold is None else hold.named) == named


def test_a_yes_is_for_what_was_named_and_leaves_a_doubt_as_it_is() -> None:
    agreed = GATE.agreed(WAITING.model_copy(update={"doubt": ("pay",), "named": ("A-17",)}))
    assert (agreed.doubt, agreed.named, agreed.agreed) == (("pay",), (), ("A-17",))


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
    (kept,) = GATE.kept(SPENT, FlowRun(flow="pays", status="failed", records=(record,)))
    assert (kept.status, kept.doubt) == ("failed", doubt)


def test_nothing_is_kept_of_a_flow_that_destroyed_nothing() -> None:
    assert GATE.kept(WAITING, FlowRun(flow="pays", status="failed")) == ()
    assert GATE.kept(SPENT) == (SPENT.model_copy(update={"status": "failed"}),)
