"""Guards that take something out: no part after them, and no model, sees it; and guards that cannot work."""

import functools
import re
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Conversation, Guard, Route, TurnInput, guard
from jazz_select.agent.agent import Agent
from jazz_select.errors import ConfigError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.unit.agent.turns import agent_of, obj, shop_of
from tests.unit.selector.shop import metadata, shop

CARD = "4111 1111 1111 1111"
_CARD = re.compile(r"(\d{4} ){3}\d{4}")
pytestmark = pytest.mark.spec("005.15")


@guard("never")
def redacts(state: TurnInput) -> Route:
    conversation = Conversation.from_json(_CARD.sub("[card]", state.conversation.to_json()))
    context = {name: _CARD.sub("[card]", value) for name, value in state.context.items()}
    return Route(
        updates={"message": _CARD.sub("[card]", state.message), "conversation": conversation, "context": context}
    )


@guard("stop")
def stops(state: TurnInput) -> Route:
    return Route("stop")


@guard("never")
def fails(state: TurnInput) -> Route:
    raise ValueError


def everything(*values: Any) -> str:
    return "\n".join(map(repr, values))


async def test_no_prompt_and_nothing_kept_has_what_a_guard_took_out() -> None:
    log: list[dict[str, Any]] = []

    def note(**given: Any) -> None:
        log.append(given)

    tool = Tool(name="note", input_schema=obj(text="string", card="string"), function=note)
    registry = shop_of(("both", ("note",)))
    chooser, model = ScriptedModel('{"flows": ["both"], "values": {"text": "card"}}'), ScriptedModel('{"order": "A1"}')
    memory = ListMemory(metadata("both", "first"))
    agent = Agent(FlowSelector(chooser, registry, memory, "support"), [tool], model, [redacts])
    history = [Message(role="user", content=f"Earlier: {CARD}"), Message(role="assistant", content="Yes.")]
    result = await agent.turn(f"Do both with {CARD}", history, context={"card": CARD}, schema=obj(order="string"))
    assert (result.status, result.value, log) == ("done", {"order": "A1"}, [{"text": "card", "card": "[card]"}])
    told = everything(chooser.calls, model.calls, result.conversation, result.runs, result.selection, result.chain)
    assert model.calls
    assert "[card]" in told
    assert CARD not in told
    assert CARD not in everything(*(span.attributes for span in result.trace))


@pytest.mark.parametrize(
    ("guards", "kept"),
    [([redacts, stops], "pay with [card]"), ([redacts, fails], "(withheld, since a guard failed)")],
    ids=["blocked", "failed"],
)
async def test_a_turn_that_a_guard_ends_keeps_nothing_of_it_either(guards: list[Any], kept: str) -> None:
    result = await agent_of(shop("both"), [], guards=guards).turn(f"pay with {CARD}")
    assert result.status == "blocked"
    assert result.conversation.messages[0].content == kept
    assert CARD not in result.conversation.to_json()


async def test_what_a_guard_changes_selects_the_flow() -> None:
    @guard("never")
    def translates(state: TurnInput) -> Route:
        return Route(updates={"message": "both"})

    agent = agent_of(shop_of(("both", ("note",))), [Tool(name="note", function=lambda: None)], guards=[translates])
    result = await agent.turn("beides")
    assert (result.flows, result.conversation.messages[0].content) == (["both"], "both")


async def waits(state: TurnInput) -> None: ...


class Waits:
    async def __call__(self, state: TurnInput) -> None: ...


@pytest.mark.parametrize("check", [waits, Waits(), functools.partial(waits)], ids=["function", "object", "partial"])
def test_a_guard_that_is_a_coroutine_is_refused_when_the_agent_is_made(check: Any) -> None:
    with pytest.raises(ConfigError, match="guard keeper is async"):
        agent_of(shop("both"), [], guards=[Guard("keeper", check, ())])


async def test_a_guard_that_turns_out_to_be_one_ends_the_turn() -> None:
    def check(state: TurnInput) -> Any:
        return waits(state)

    result = await agent_of(shop("both"), [], guards=[Guard("keeper", check, ())]).turn("both")
    assert (result.status, result.runs) == ("blocked", ())
