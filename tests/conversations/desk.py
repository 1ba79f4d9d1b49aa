"""The agent under test, at its desk: the example shop, its flows and tools, as new for each conversation.

This is the one place that says how the agent is put together; all else only talks to it.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from flows.shop import TODAY, Shop
from flows.tools import shop_tools
from jazz_select import Agent, FlowRegistry, FlowSelector, ProceduralMemory, sync_registry
from jazz_select.agent.agent_options import Narrowing
from jazz_select.flow.flow_loading import load_flows
from jazz_select.routing import Tool
from jazz_select.selector.selector_options import ModelOptions
from tests.agents import make_agent
from tests.conversations.effects import Tables
from tests.conversations.script import Script
from tests.conversations.tape import Tape
from tests.vectors import EMBEDDER

FLOWS: Final = Path(__file__).parents[2] / "flows"
AGENT_ID: Final = "support"
TOP_K: Final = 8
PROMPT_TOKENS: Final = 520
SYSTEM: Final = "You work at the support desk of a shop. Answer in the customer's language, in a few plain sentences."


@dataclass(frozen=True, slots=True)
class Desk:
    """An agent and the shop that it works on."""

    agent: Agent
    shop: Shop
    names: frozenset[str]
    """What flows and tools are called inside: no customer should read it."""
    leave: Callable[[], None] | None = None
    """What becomes of the shop afterwards; it is closed where nothing is said."""
    again: Callable[[], Agent] | None = None
    """Makes the agent anew, as another process would; where nothing is said, it stays."""

    def tables(self) -> Tables:
        """The shop's tables as they are now."""
        return tables_of(self.shop)

    def close(self) -> None:
        """Nobody comes any more."""
        (self.leave or self.shop.close)()


_FREE: Final[defaultdict[date, list[tuple[Shop, list[Tool]]]]] = defaultdict(list)
"""Shops where nobody is any more, by their day: to make the tools of one takes longer than most conversations."""


@cache
def registry() -> FlowRegistry:
    """The example catalogue, loaded once."""
    loaded = FlowRegistry()
    load_flows(FLOWS, loaded)
    return loaded


@asynccontextmanager
async def index() -> AsyncGenerator[ProceduralMemory]:
    """The catalogue's index, for as many conversations as there are."""
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, AGENT_ID, registry())
        yield memory


@asynccontextmanager
async def desk_of(script: Script, tape: Tape) -> AsyncGenerator[Desk]:
    """A desk for one conversation alone."""
    async with index() as memory:
        yield desk_for(script, tape, memory)


def desk_for(script: Script, tape: Tape, memory: ProceduralMemory, *, narrowing: Narrowing = "fresh") -> Desk:
    """A desk where nobody has been yet, with the facts of this conversation; the tape is the model and listens."""
    shop, tools, leave = borrow_shop(day_of(script.facts))
    flows = registry()
    selector = FlowSelector(
        tape, flows, memory, AGENT_ID, top_k=TOP_K, model_options=ModelOptions(prompt_tokens=PROMPT_TOKENS)
    )
    facts = {**script.facts, "today": day_of(script.facts).isoformat()}
    if email := script.context.get("email"):
        facts.setdefault("customer", f"signed in as {email}")

    def make() -> Agent:
        return make_agent(
            selector, tools, tape, system=SYSTEM, facts=facts, hooks=[tape], narrowing=narrowing, handover_after=3
        )

    return Desk(make(), shop, inside(tools, flows), leave, again=make)


def borrow_shop(today: date) -> tuple[Shop, list[Tool], Callable[[], None]]:
    """A shop as the data has it, its tools, and what gives them back."""
    if free := _FREE[today]:
        shop, tools = free.pop()
        shop.reload()
    else:
        shop = Shop(today=today)
        tools = shop_tools(shop)
    return shop, tools, lambda: _FREE[today].append((shop, tools))


def inside(tools: Iterable[Tool], flows: FlowRegistry) -> frozenset[str]:
    """The names of tools and flows that nobody would say: those of several words."""
    names = {*(tool.name for tool in tools), *(flow.name for flow in flows.values())}
    return frozenset(name for name in names if "_" in name)


def day_of(facts: Mapping[str, Any]) -> date:
    """The day of a conversation; by default that of the shop's data."""
    today = facts.get("today", TODAY)
    return today if isinstance(today, date) else date.fromisoformat(str(today))


def tables_of(shop: Shop) -> Tables:
    """All tables of a shop, as lists of rows."""
    return cast("Tables", shop.rows())
