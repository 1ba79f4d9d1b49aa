"""Whatever flows are made of, whoever chooses and whatever is said: what destroys waits for an Allow or a yes to it."""

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jazz_select import ConditionalFlow, FlowRegistry, FlowSelector, ParallelFlow, SequentialFlow
from jazz_select.agent import Conversation, respond, run_chain
from jazz_select.agent.chain.prompts import Strategy
from jazz_select.agent.chain.transcript import ToolRequest, ToolResult
from jazz_select.consent import read_consent
from jazz_select.errors import FormatError
from jazz_select.routing import CHOOSE, Allow, FlowExecutor, ToolAsker, run_plan
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST, make_agent
from tests.depth import examples
from tests.property.test_approval import NAMES, VERDICTS, Shop, arguments, messages, names, points, replies, shown_of
from tests.unit.selector.shop import flow, metadata

pytestmark = pytest.mark.spec("005.1")
CASES = settings(max_examples=examples(150), deadline=None)
KINDS: tuple[Any, ...] = (SequentialFlow, ParallelFlow, ConditionalFlow)
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"key": {"type": "string"}}}
chains = st.lists(names | points | st.just(CHOOSE), max_size=3)
catalogues = st.lists(chains.filter(bool), min_size=2, max_size=3)
"""The chains of flows, of which the last two are parts of one more."""
shops = st.builds(
    Shop, st.sets(names, min_size=1), st.fixed_dictionaries(dict.fromkeys(NAMES, st.just(Allow()) | VERDICTS))
)
answers = st.lists(st.sampled_from(["yes", "yes", "ja bitte", "no", "ok?", "go on", "17"]), min_size=1, max_size=5)
talks = answers.map(lambda said: ["go", *said]) | messages


class Chooses:
    """Chooses whatever chance has it choose, of what it is offered and of what it is not."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.chosen: list[str] = []

    def decide(self, context: Any, candidates: list[Any], prompt: str) -> str | None:
        name = self.chance.choice([*(each.name for each in candidates), *NAMES, None])
        self.chosen.append(str(name))
        return name

    def route(self, context: Any, candidates: list[Any]) -> str | None:
        return self.decide(context, candidates, "")


def registry_of(catalogue: list[list[Any]], kind: Any) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for number, chain in enumerate(catalogue):
        vars(flow(f"part{number}", registry)).update(tools=NAMES, chain=tuple(chain))
    last = [f"part{number}" for number in range(len(catalogue))][-2:]
    parts: Any = {"branches": [(name, name) for name in last]} if kind is ConditionalFlow else {"flows": last}
    kind(name="whole", description="d", condition="c", examples=[], registry=registry, **parts)
    return registry


@settings(CASES, max_examples=examples(400))
@example(
    shop=Shop({"look"}, dict.fromkeys(NAMES, Allow())),
    catalogue=[["look"], ["look", "look"]],
    kind=SequentialFlow,
    said=[""],
    talked=["go", "yes", "yes", "yes"],
    by_model=False,
    hooked=False,
    chance=random.Random(0),
)
@given(
    shop=shops,
    catalogue=catalogues,
    kind=st.sampled_from(KINDS),
    said=replies,
    talked=talks,
    by_model=st.booleans(),
    hooked=st.booleans(),
    chance=st.randoms(use_true_random=False),
)
def test_no_flow_and_no_part_of_one_destroys_unasked(
    shop: Shop,
    catalogue: list[list[Any]],
    kind: Any,
    said: list[str],
    talked: list[str],
    *,
    by_model: bool,
    hooked: bool,
    chance: random.Random,
) -> None:
    registry = registry_of(catalogue, kind)
    selector = FlowSelector(None, registry, ListMemory(metadata("whole", "part0")), "support", policy=TAKE_FIRST)
    chooses = Chooses(chance)
    model = ScriptedModel(*said, "done", repeat=True) if by_model else None
    agent = make_agent(
        selector,
        shop.tools,
        model,
        decision_callback=chooses,
        open_router=chooses.route,
        approve=shop.approve if hooked else None,
    )

    async def talk() -> None:
        kept = Conversation()
        for message in talked:
            ran, allowed, waits = len(shop.ran), len(shop.allowed), kept.pending
            result = await agent.turn(message, kept)
            kept = Conversation.from_json(result.conversation.to_json())
            may = Counter(shop.allowed[allowed:])
            if waits is not None and read_consent(message).answer == "yes":
                may.update(shown_of(waits))
            assert not Counter(shop.ran[ran:]) - may

    asyncio.run(talk())


@CASES
@given(shop=shops, said=replies, strategy=st.sampled_from(["deferred", "tool", "native"]))
def test_an_answer_in_a_schema_destroys_what_was_allowed(shop: Shop, said: list[str], strategy: Strategy) -> None:
    model = ScriptedModel(*said, "done", "{}", repeat=True, takes_schema=strategy == "native")
    asked = [Message(role="user", content="go")]
    with suppress(FormatError):
        asyncio.run(respond(model, asked, shop.tools, SCHEMA, strategy=strategy, approve=shop.approve))
    assert shop.ran == shop.allowed


@CASES
@given(shop=shops, said=replies)
def test_a_models_own_plan_destroys_what_was_allowed(shop: Shop, said: list[str]) -> None:
    async def planned() -> None:
        choice = await ToolAsker(ScriptedModel(said[0]), shop.tools).ask("go")
        await run_plan(choice.plan, shop.tools, approve=shop.approve)

    asyncio.run(planned())
    assert shop.ran == shop.allowed


@CASES
@given(shop=shops, steps=chains, known=arguments, chance=st.randoms(use_true_random=False))
def test_what_no_caller_named_and_nobody_chose_is_not_destroyed(
    shop: Shop, steps: list[Any], known: dict[str, Any], chance: random.Random
) -> None:
    chooses = Chooses(chance)
    asyncio.run(FlowExecutor(shop.tools, chooses, chooses.route).run(steps, known))
    named = Counter(step for step in steps if isinstance(step, str))
    assert not Counter(name for name, _ in shop.ran) - named - Counter(chooses.chosen)


@CASES
@given(shop=shops, steps=st.lists(points | st.just(CHOOSE), max_size=4), known=arguments)
def test_schemas_alone_destroy_nothing(shop: Shop, steps: list[Any], known: dict[str, Any]) -> None:
    asyncio.run(FlowExecutor(shop.tools).run(steps, known))
    assert shop.ran == []


# --- nothing twice --------------------------------------------------------------


def test_of_many_replies_that_repeat_themselves_none_destroys_twice() -> None:
    """Everything is allowed; each reply asks for the same few calls again and again."""
    chance = random.Random(16)

    def reply(_: Any) -> str:
        call = {"tool": chance.choice(NAMES), "arguments": {"amount": chance.randrange(2)}}
        calls = [call, *chance.choices([call, {"tool": "pay", "arguments": {"amount": 1}}], k=chance.randrange(4))]
        text = json.dumps({"tool_calls": chance.sample(calls, len(calls))})
        return chance.choice([text, text, f"Now:\n{text}", f"```json\n{text}\n```"])

    async def many() -> None:
        for _ in range(100):
            shop = Shop({"pay", "drop"}, dict.fromkeys(NAMES, Allow()))
            asked = [Message(role="user", content="go")]
            chain = await run_chain(
                ScriptedModel(reply, repeat=True), asked, shop.tools, chain_limit=16, approve=shop.approve
            )
            made = {(each.round, each.id) for each in chain.entries if isinstance(each, ToolResult) and each.ok}
            calls = Counter(
                (each.round, each.tool, json.dumps(dict(each.arguments), sort_keys=True))
                for each in chain.entries
                if isinstance(each, ToolRequest) and (each.round, each.id) in made and each.tool in {"pay", "drop"}
            )
            assert set(calls.values()) <= {1}
            assert shop.ran == shop.allowed
            assert len(shop.ran) == len(calls)

    asyncio.run(many())
