"""One deadline for a whole turn: whatever hangs, and however, the turn ends with what was done, and goes on later."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jazz_select import ConditionalFlow, FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.flows.open_flows import FINISHED
from jazz_select.agent.graph.guards import Guard
from jazz_select.errors import ConfigError
from jazz_select.routing import CHOOSE, GuidedDecisionPoint, Tool
from jazz_select.routing.approval import Allow
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST
from tests.unit.agent.hanging import Hang, timed
from tests.unit.agent.support import call
from tests.unit.agent.turns import agent_of, shop_of, tools_for
from tests.unit.selector.shop import metadata, shop

# From 3.12 on a loop gives its threads 300 s to end, which pass at once on a clock that jumps.
pytestmark = pytest.mark.filterwarnings("ignore:The executor did not finish")

LIMIT_S, MOST_S = 10.0, 10.1
Way = Callable[..., Any]
Building = Callable[[Way, list[str]], Agent]
ASYNC = ("hangs", "ignores")
ANY = (*ASYNC, "blocks")


def both(log: list[str], **options: Any) -> Agent:
    return agent_of(shop_of(("both", ("first", "second"))), tools_for("first", "second", log=log), **options)


def chained(log: list[str], *chain: Any, **options: Any) -> Agent:
    registry = shop_of(("both", ("first", "second", "third")))
    flow = registry.by_name("both")
    assert flow is not None
    vars(flow).update(chain=chain)
    return agent_of(registry, tools_for("first", "second", "third", log=log), **options)


def slow_tool(way: Way, log: list[str]) -> Agent:
    registry = shop_of(("both", ("first", "slow", "second")))
    return agent_of(registry, [*tools_for("first", "second", log=log), Tool(name="slow", function=way)])


def guarded(way: Way, log: list[str]) -> Agent:
    return both(log, guards=[Guard("slow", way, ())])


def deciding(way: Way, log: list[str]) -> Agent:
    class Callback:
        decide = staticmethod(way)

    point = GuidedDecisionPoint(after_step="first", candidate_tools=["second", "third"])
    return chained(log, "first", point, decision_callback=Callback())


def routed(way: Way, log: list[str]) -> Agent:
    registry = shop_of(("both", ("first", "second")))
    flow = registry.by_name("both")
    assert flow is not None
    vars(flow).update(chain=("first", CHOOSE))
    wanting = tools_for("second", log=log, wants="what_nobody_has")
    return agent_of(registry, [*tools_for("first", log=log), *wanting], open_router=way)


def open_flow(way: Way, log: list[str]) -> Agent:
    return agent_of(shop("both"), tools_for("first", log=log), model=way)


def works(messages: Sequence[Message]) -> str:
    """What a model says that calls `first` if that has not run, then ends the procedure."""
    last = messages[-1].content
    if last.startswith("TOOL RESULTS:") and FINISHED in last:
        return "All is done."
    return call(FINISHED if last.startswith("TOOL RESULTS:") or "CALLS MADE" in messages[0].content else "first")


def hooked(hook: str) -> Building:
    def build(way: Way, log: list[str]) -> Agent:
        options: dict[str, Any] = {hook: way}
        return agent_of(shop("both"), tools_for("first", log=log), model=ScriptedModel(works, repeat=True), **options)

    return build


def approving(way: Way, log: list[str]) -> Agent:
    return both(log, approve=way)


def remembering(way: Way, log: list[str]) -> Agent:
    class Memory(ListMemory):
        async def recall(self, *given: Any, **named: Any) -> Any:
            await way()
            return await super().recall(*given, **named)

    registry = shop_of(("both", ("first", "second")))
    selector = FlowSelector(None, registry, Memory(metadata("both")), "support", policy=TAKE_FIRST)
    return Agent(selector, tools_for("first", "second", log=log))


def chosen_by_a_model(way: Way, log: list[str]) -> Agent:
    registry = shop_of(("both", ("first", "second")), ("other", ("second",)))
    selector = FlowSelector(way, registry, ListMemory(metadata("both", "other")), "support")
    return Agent(selector, tools_for("first", "second", log=log))


def branching(way: Way, log: list[str]) -> Agent:
    registry = shop_of(("either", ("first",)), ("or_else", ("second",)))
    ConditionalFlow(
        name="both",
        description="d",
        condition="c",
        branches=[("it rains", "either"), ("it snows", "or_else")],
        examples=[],
        registry=registry,
    )
    sure = [{**each, "confidence": 0.99} for each in metadata("both")]
    selector = FlowSelector(way, registry, ListMemory(sure), "support")
    return Agent(selector, tools_for("first", "second", log=log))


def filling(way: Way, log: list[str]) -> Agent:
    return agent_of(shop_of(("both", ("first",))), tools_for("first", log=log, wants="order_id"), model=way)


def of_author(method: str) -> Building:
    """A flow whose author wrote this method."""

    def build(way: Way, log: list[str]) -> Agent:
        registry = shop_of(("both", ("first", "second")))
        flow = registry.by_name("both")
        assert flow is not None
        vars(flow)[method] = way
        return agent_of(registry, tools_for("first", "second", log=log))

    return build


CHOSEN = '["both"]'
DONE, BEGUN, NOTHING = ["first", "second"], ["first"], list[str]()
Row = tuple[Building, Any, tuple[str, ...], str, str, list[str], list[str]]
PLACES: dict[str, Row] = {
    # who hangs, what it gives when it is mended, how, what the turn waited for, as what it ends, what ran, and later
    "a tool": (slow_tool, None, ANY, "slow", "failed", BEGUN, DONE),
    "a guard": (guarded, None, ("blocks",), "guards", "blocked", NOTHING, DONE),
    "approve": (approving, Allow(), ANY, "approve", "failed", NOTHING, DONE),
    "a decision": (deciding, "second", ANY, "decision_callback", "failed", BEGUN, DONE),
    "a router": (routed, None, ANY, "open_router", "open", BEGUN, BEGUN),
    "a model": (open_flow, works, ASYNC, "the model", "failed", NOTHING, BEGUN),
    "before_call": (hooked("before_call"), None, ANY, "before_call", "failed", NOTHING, BEGUN),
    "after_call": (hooked("after_call"), None, ANY, "after_call", "failed", BEGUN, BEGUN),
    "a memory": (remembering, None, (*ASYNC, "blocks_a_thread"), "recall", "failed", NOTHING, DONE),
    "a selector's model": (chosen_by_a_model, CHOSEN, ASYNC, "the model", "failed", NOTHING, DONE),
    "a branch": (branching, '["either"]', ASYNC, "the model", "failed", NOTHING, BEGUN),
    "a slot": (filling, "{}", ASYNC, "the model", "waiting", NOTHING, BEGUN),
    "available": (of_author("available"), True, ("blocks",), "available", "failed", NOTHING, DONE),
    "build_prompt": (of_author("build_prompt"), "p", ("blocks",), "build_prompt", "failed", NOTHING, DONE),
}
ROWS = [pytest.param(row, how, id=f"{name} {how}") for name, row in PLACES.items() for how in row[2]]


def message_for(build: Any) -> str:
    """A message for both flows; their name is known without a model."""
    return "run them" if build is chosen_by_a_model else "both"


@pytest.mark.spec("005.5", "005.6")
@pytest.mark.parametrize(("row", "how"), ROWS)
def test_a_turn_ends_in_time_with_what_was_done_and_goes_on_later(row: Row, how: str) -> None:
    (build, gives, _), (waited_for, status, ran, later) = row[:3], row[3:]
    log: list[str] = []
    hang = Hang(gives)
    agent = build(getattr(hang, how), log)
    first, took_s = timed(hang, lambda: agent.turn(message_for(build), timeout_s=LIMIT_S))
    assert (first.status, log, hang.begun) == (status, ran, 1)
    assert LIMIT_S <= took_s < MOST_S
    assert re.match(f"the 10 s of the turn were over while it waited for {waited_for}", first.reason)
    assert "The time for this ran out before all of it was done." in first.text

    saved = Conversation.from_json(first.conversation.to_json())
    answer = "yes" if saved.flows and not saved.flows[-1].asks else "both"
    agent = build(getattr(hang, how), log)
    second, took_s = timed(hang, lambda: agent.turn(answer, saved, context={"order_id": "A1"}))
    assert (second.status, log, took_s) == ("open" if status == "open" else "done", later, 0)
    assert "ran out" not in second.text


async def test_the_time_of_a_turn_holds_for_its_schema_too() -> None:
    some = {"anyOf": [{"type": "string"}] * 50}
    large = {"type": "object", "properties": {f"k{number}": some for number in range(240)}}
    with pytest.raises(ConfigError, match="within the turn's timeout_s"):
        await both([]).turn("hello", schema=large, timeout_s=0.001)
