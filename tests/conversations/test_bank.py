"""The six procedures of the example bank run by their chains, without a model."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from examples.bank.tools import tools
from jazz_select import Agent, FlowRegistry, FlowSelector, ProceduralMemory, load_flows, sync_registry
from jazz_select.evaluation import ConversationCase, check, load_conversations, play
from jazz_select.ports import ChatModel
from jazz_select.selector.policy import Policy
from tests.vectors import EMBEDDER, NEEDS_STATIC

BANK = Path(__file__).parents[2] / "examples" / "bank"
CASES = load_conversations(BANK / "conversations.yaml")

pytestmark = [NEEDS_STATIC, pytest.mark.spec("019.6", "019.7")]


def flows() -> FlowRegistry:
    registry = FlowRegistry()
    with registry.scope():
        load_flows(BANK / "flows.yaml")
    return registry


@asynccontextmanager
async def make_agent(model: ChatModel | None) -> AsyncGenerator[Agent]:
    registry = flows()
    async with await ProceduralMemory.open(":memory:", embedder=EMBEDDER) as memory:
        await sync_registry(memory, "bank", registry)
        selector = FlowSelector(None, registry, memory, "bank", policy=Policy(on_empty="top1"))
        yield Agent(selector, tools(), model)


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
async def test_a_procedure_runs_without_a_model(case: ConversationCase) -> None:
    result = await play(case, make_agent)
    assert result.passed, str(result)


def test_all_six_are_chains_and_played() -> None:
    chains = {flow.name for flow in flows().values() if flow.chain and not flow.only_called}
    assert len(chains) == 6
    assert {case.scripted for case in CASES} == {False}


def test_check_finds_nothing_wrong_with_them() -> None:
    found = check(BANK / "flows.yaml", tools=tools()).found
    codes = {"invalid-flow", "broken-input", "broken-call", "uncalled-flow", "unknown-tool", "unfit-chain"}
    assert [each for each in found if each.code in codes] == []
