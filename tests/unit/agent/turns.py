"""What the tests of whole turns share: what is said, and agents of a few flows with chains."""

from collections.abc import Callable, Iterable
from typing import Any

from jazz_select import FlowRegistry, FlowSelector, ParallelFlow, Policy, SequentialFlow
from jazz_select.agent.agent import Agent
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory
from tests.agents import make_agent
from tests.unit.selector.shop import metadata, shop

ADA, BEN = {"email": "ada@example.org"}, {"email": "ben@example.org"}
REFUND = "Process a refund for my last order"
Made = Callable[..., Agent]


def tools_for(*names: str, log: list[str], wants: str = "") -> list[Tool]:
    def tool(name: str) -> Tool:
        def run(**given: Any) -> dict[str, Any]:
            log.append(name)
            return {f"{name}_done": True, **given}

        wanted = {"properties": {wants: {"type": "string"}}, "required": [wants]} if wants and name == names[-1] else {}
        return Tool(name=name, input_schema={"type": "object", **wanted}, function=run)

    return [tool(name) for name in names]


def all_named(registry: FlowRegistry, tools: Iterable[Tool]) -> list[Tool]:
    """These tools, and as ones that are only described, and cannot be run, those that flows name beside."""
    there = list(tools)
    named = dict.fromkeys(name for flow in registry.values() for name in flow.tools)
    return [*there, *(Tool(name=name) for name in named if name not in {tool.name for tool in there})]


def composed(kind: type[SequentialFlow | ParallelFlow]) -> tuple[FlowSelector, FlowRegistry]:
    registry = shop("first", "second")
    for name in ("first", "second"):
        part = registry.by_name(name)
        assert part is not None
        vars(part).update(tools=(f"do_{name}",), chain=(f"do_{name}",))
    kind(name="both", description="d", condition="c", flows=["first", "second"], examples=[], registry=registry)
    return FlowSelector(None, registry, ListMemory(metadata("both")), "support"), registry


def shop_of(*flows: tuple[str, tuple[str, ...]]) -> FlowRegistry:
    """A registry of flows with these chains."""
    registry = shop(*(name for name, _ in flows))
    for name, chain in flows:
        found = registry.by_name(name)
        assert found is not None
        vars(found).update(tools=chain, chain=chain)
    return registry


def selector_of(registry: FlowRegistry, *names: str, policy: Policy = Policy()) -> FlowSelector:  # noqa: B008
    """Recalls these flows, whatever is said."""
    return FlowSelector(None, registry, ListMemory(metadata(*names)), "support", policy=policy)


def agent_of(registry: FlowRegistry, tools: list[Any], *names: str, model: Any = None, **options: Any) -> Agent:
    """An agent that asks nobody: what it asks for is what `test_approval` is about."""
    selector = selector_of(registry, *(names or ("both",)), policy=options.pop("policy", Policy()))
    given: dict[str, Any] = {"approval": "never", "open_tools": "all"} | options
    return make_agent(selector, tools, model, **given)


def obj(**wanted: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in wanted.items()},
        "required": list(wanted),
    }


def destroyer(name: str, log: list[str], **wanted: str) -> Tool:
    """A tool that destroys, and says of what it was called with."""

    def run(**given: Any) -> None:
        log.append(" ".join([name, *map(str, given.values())]))

    return Tool(name=name, input_schema=obj(**wanted), function=run, destructive=True)
