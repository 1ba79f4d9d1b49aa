"""Whatever is connected, asked for and answered: nothing is destroyed that was not allowed."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select import FlowSelector
from jazz_select.agent import Conversation, run_chain
from jazz_select.agent.conversation import PendingCall
from jazz_select.consent import read_consent
from jazz_select.routing import (
    CHOOSE,
    Allow,
    Ask,
    Deny,
    FlowExecutor,
    GuidedDecisionPoint,
    Plan,
    PlanStep,
    Tool,
    ToolCall,
    run_plan,
)
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST, make_agent
from tests.depth import examples
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

NAMES = ("look", "pay", "drop", "cancel_order")
VERDICTS = st.sampled_from([Allow(), Deny("no"), Ask(), None])
CASES = settings(max_examples=examples(150), deadline=None)
names = st.sampled_from(NAMES)
arguments = st.dictionaries(st.sampled_from(["key", "amount"]), st.integers(0, 3) | st.text(max_size=3), max_size=2)


def single(tool: str, given: dict[str, Any]) -> str:
    return json.dumps({"tool_call": {"tool": tool, "arguments": given}})


def several(tools: list[str], given: dict[str, Any]) -> str:
    return json.dumps({"tool_calls": [{"tool": tool, "arguments": given} for tool in tools]})


replies = st.lists(
    st.builds(single, names, arguments)
    | st.builds(several, st.lists(names, max_size=3), arguments)
    | st.text(max_size=20),
    min_size=1,
    max_size=6,
)
points = st.lists(names, min_size=1, max_size=3, unique=True).map(
    lambda some: GuidedDecisionPoint(after_step="input", candidate_tools=some)
)
messages = st.lists(
    st.sampled_from(["runs", "yes", "no", "ok, thanks", "yes?", "what if not?", "ja bitte", "never mind", "17"])
    | st.text(max_size=10),
    min_size=1,
    max_size=6,
)


class Shop:
    """Some tools, of which some destroy; who approves; and what was run of those that destroy."""

    def __init__(self, destructive: set[str], verdicts: dict[str, Any]) -> None:
        self.ran: list[tuple[str, str]] = []
        self.allowed: list[tuple[str, str]] = []
        self.verdicts = verdicts
        self.tools = [self._tool(name, destructive=name in destructive) for name in NAMES]

    def _tool(self, name: str, *, destructive: bool) -> Tool:
        def run(**given: Any) -> dict[str, Any]:
            if destructive:
                self.ran.append((name, json.dumps(given, sort_keys=True)))
            return {"key": name}

        schema: dict[str, Any] = {"type": "object", "properties": {"key": {}, "amount": {}}}
        return Tool(name=name, input_schema=schema, function=run, destructive=destructive)

    def approve(self, call: ToolCall) -> Any:
        verdict = self.verdicts.get(call.tool)
        if isinstance(verdict, Allow) and call.destructive:
            self.allowed.append((call.tool, json.dumps(call.arguments, sort_keys=True)))
        return verdict


shops = st.builds(Shop, st.sets(names), st.dictionaries(names, VERDICTS))


@CASES
@given(shop=shops, steps=st.lists(names | points | st.just(CHOOSE), max_size=4), known=arguments)
def test_an_executor_destroys_what_was_allowed(shop: Shop, steps: list[Any], known: dict[str, Any]) -> None:
    class Takes:
        def decide(self, context: Any, candidates: list[Any], prompt: str) -> str:
            return candidates[-1].name

    asyncio.run(FlowExecutor(shop.tools, Takes(), approve=shop.approve).run(steps, known))
    assert shop.ran == shop.allowed


@CASES
@given(shop=shops, steps=st.lists(st.builds(PlanStep, tool=names, arguments=arguments), max_size=4))
def test_a_plan_destroys_what_was_allowed(shop: Shop, steps: list[PlanStep]) -> None:
    asyncio.run(run_plan(Plan.from_steps(steps), shop.tools, approve=shop.approve))
    assert shop.ran == shop.allowed


@CASES
@given(shop=shops, said=replies)
def test_a_chain_destroys_what_was_allowed(shop: Shop, said: list[str]) -> None:
    model = ScriptedModel(*said, "done", repeat=True)
    asyncio.run(run_chain(model, [Message(role="user", content="go")], shop.tools, approve=shop.approve))
    assert shop.ran == shop.allowed


def shown_of(waits: PendingCall) -> list[tuple[str, str]]:
    """The calls that a question shows whole: as they were, together with others, or "After that: …"."""
    calls = [*waits.calls, *waits.then]
    return [(each.tool, json.dumps(dict(each.arguments), sort_keys=True)) for each in calls if each.identity]


@CASES
@given(shop=shops, steps=st.lists(names, max_size=3), said=replies, talked=messages, hooked=st.booleans())
def test_an_agent_destroys_what_its_hook_allowed_or_its_user_said_yes_to(
    shop: Shop, steps: list[str], said: list[str], talked: list[str], *, hooked: bool
) -> None:
    registry = shop_of(("runs", tuple(steps)))
    flow = registry.by_name("runs")
    assert flow is not None
    vars(flow).update(tools=NAMES)
    selector = FlowSelector(None, registry, ListMemory(metadata("runs")), "support", policy=TAKE_FIRST)
    model = ScriptedModel(*said, "done", repeat=True)
    agent = make_agent(selector, shop.tools, model, approve=shop.approve if hooked else None)

    async def talk() -> None:
        kept = Conversation()
        for message in talked:
            before, waits = len(shop.ran), kept.pending
            result = await agent.turn(message, kept)
            kept = Conversation.from_json(result.conversation.to_json())
            assert (result.status == "confirming") == (kept.pending is not None)
            ran = shop.ran[before:]
            agreed = waits is not None and read_consent(message).answer == "yes"
            shown = shown_of(waits) if agreed and waits is not None else []
            left = list(ran)
            for each in [*(shop.allowed if hooked else []), *shown]:
                if each in left:
                    left.remove(each)
            assert not left

    asyncio.run(talk())
