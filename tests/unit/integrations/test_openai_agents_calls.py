"""Of the parts for the OpenAI Agents SDK: which calls are one and the same, where a model numbers them as it likes."""

from dataclasses import dataclass
from typing import Any

import pytest
from agents import Agent
from agents.run import RunState

from tests.unit.integrations.desk import REFUND, Desk
from tests.unit.integrations.test_openai_agents import Script, agent_of, call, run, said

pytestmark = pytest.mark.spec("009.4")
LAST = ("shop_pay_back", {"order_id": "last"}, "call_0")
BEGUN = "shop.pay_back was not run: a call with this id was started before, and this one may have been done"


async def refunded(agent: Agent[Any], script: Script, context: Any, read: Any = None) -> list[Any]:
    """What a user hears who asks for the last order's money, and says yes: at once, or after the state was kept."""
    script.replies[:] = [[call(*LAST)], [said("Refunded.")]]
    state = (await run(agent, "Refund my last order", context=context)).to_state()
    if read:
        state = await RunState.from_string(agent, state.to_string(), context_deserializer=read)
    state.approve(state.get_interruptions()[0])
    await run(agent, state)
    return script.answers()


def read_as(kind: Any) -> Any:
    def read(kept: dict[str, Any]) -> Any:
        return kind(**kept)

    return read


@dataclass
class Placed:
    """A context with a place for what tells runs apart."""

    who: str
    flow_run: str = ""


@pytest.mark.parametrize("kept", [False, True], ids=["at once", "kept"])
@pytest.mark.parametrize("kind", [dict, Placed])
async def test_two_users_who_say_the_same_to_a_model_that_numbers_its_calls_are_two(kind: Any, kept: bool) -> None:
    desk, script = Desk(REFUND), Script()
    agent = agent_of(desk, script)
    for who in ("ada", "bob"):
        assert await refunded(agent, script, kind(who=who), read_as(kind) if kept else None) == ['{"refunded":20}']
    assert desk.done == ["pay_back last", "pay_back last"]


@dataclass(frozen=True)
class Frozen:
    """A context that cannot be written to."""

    flow_run: str = ""


@pytest.mark.parametrize("context", [None, "ada", Frozen()], ids=["none", "a text", "frozen"])
async def test_where_users_cannot_be_told_apart_nobody_hears_what_anothers_call_came_to(context: Any) -> None:
    desk, script = Desk(REFUND), Script()
    agent = agent_of(desk, script)
    assert await refunded(agent, script, context) == ['{"refunded":20}']
    assert await refunded(agent, script, context) == [BEGUN]
    assert desk.done == ["pay_back last"]


async def test_a_state_that_is_taken_up_with_another_context_twice_makes_its_call_once() -> None:
    desk, script = Desk(REFUND), Script([call(*LAST)])
    agent = agent_of(desk, script)
    kept = (await run(agent, context={})).to_state().to_string()
    for answer in ('{"refunded":20}', BEGUN):
        state = await RunState.from_string(agent, kept, context_override={"who": "ada"})
        state.approve(state.get_interruptions()[0])
        await run(agent, state)
        assert script.answers() == [answer]
    assert desk.done == ["pay_back last"]
