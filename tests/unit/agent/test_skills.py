"""An agent follows a skill: it is shown the body, reads what that refers to, and runs a script after a yes alone."""

from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector, load_skills
from jazz_select.agent import Agent
from jazz_select.agent.agent_options import Narrowing, PromptOptions
from jazz_select.routing import Tool, selected_tools
from jazz_select.testing import ListMemory
from tests.skills import POLICY, write_refunds, write_skill
from tests.unit.agent.talks import Mind, calls, chooses, talk
from tests.unit.selector.shop import metadata


def tools_of(log: list[str]) -> list[Tool]:
    def tool(name: str, **marks: Any) -> Tool:
        def run() -> str:
            log.append(name)
            return f"{name} ran"

        return Tool(name=name, description=f"What {name} does.", function=run, **marks)

    return [tool("look_up", read_only=True), tool("pay_out", destructive=True)]


def desk(
    tmp_path: Path, mind: Mind, log: list[str], fields: str = "", narrowing: Narrowing = "fresh"
) -> tuple[Agent, FlowRegistry]:
    write_refunds(tmp_path, fields)
    write_skill(tmp_path, "other-skill")
    registry = FlowRegistry()
    skills = load_skills(tmp_path, registry, scripts=True)
    memory = ListMemory(metadata(*(flow.name for flow in registry.values())))
    agent = Agent(
        FlowSelector(mind, registry, memory, "support"),
        [*tools_of(log), *skills.tools],
        mind,
        prompt=PromptOptions(narrowing=narrowing),
    )
    return agent, registry


@pytest.mark.spec("020.1")
@pytest.mark.parametrize("narrowing", ["fresh", "growing"])
async def test_the_body_is_followed_and_a_reference_read_on_demand(tmp_path: Path, narrowing: Narrowing) -> None:
    read = calls("read_skill_file", skill="process-refunds", path="references/policy.md")
    mind = Mind(choose=[chooses("process-refunds")], call=[read, "Refunds are open for 30 days."])
    agent, _ = desk(tmp_path, mind, [], narrowing=narrowing)
    result = (await talk(agent, "refund my vase"))[-1]
    assert "30 days" in result.text
    first, second = mind.prompts("call")
    assert "1. Read references/policy.md." in first
    assert POLICY not in first, "read on demand"
    assert POLICY in second


@pytest.mark.spec("020.1")
async def test_a_script_waits_for_a_yes(tmp_path: Path) -> None:
    run = calls("process-refunds_total", arguments=["1.5", "2"])
    mind = Mind(choose=[chooses("process-refunds")], call=[run, "It comes to 3.5."])
    agent, _ = desk(tmp_path, mind, [])
    asked, done = await talk(agent, "refund my vase", "yes")
    assert asked.conversation.pending is not None, asked
    assert "Run scripts/total.py of process-refunds" in asked.text
    assert '["1.5", "2"]' in asked.text
    assert "3.5" in done.text
    assert [(call.tool, call.output) for call in done.conversation.calls] == [
        ("process-refunds_total", '{"output":"3.5\\n"}')
    ]


ALLOWED = [
    pytest.param("", ["look_up"], id="none named: what is there where no flow fits"),
    pytest.param("allowed-tools: pay_out", ["pay_out"], id="one that may change something"),
    pytest.param("allowed-tools: Bash(git:*) Read", [], id="tools of another product"),
    pytest.param("allowed-tools: [look_up, pay_out]", ["look_up", "pay_out"], id="a list"),
    pytest.param("allowed-tools: ''", [], id="no tool at all"),
]


@pytest.mark.spec("020.1")
@pytest.mark.parametrize(("fields", "names"), ALLOWED)
async def test_allowed_tools_narrow_the_connected_ones(tmp_path: Path, fields: str, names: list[str]) -> None:
    mind = Mind(choose=[chooses("process-refunds")], call=["Well."])
    agent, registry = desk(tmp_path, mind, [], fields)
    await talk(agent, "refund my vase")
    (prompt,) = mind.prompts("call")
    flow = registry.by_name("process-refunds")
    assert flow is not None
    shown = {tool.name for tool in selected_tools([flow], agent.tools)}
    own = {"read_skill_file", "process-refunds_total"}
    assert shown == {*own, *names}
    for name in ("look_up", "pay_out"):
        assert (f"What {name} does." in prompt) == (name in names), name


@pytest.mark.spec("020.1")
async def test_a_skill_without_files_that_allows_no_tool_gets_none(tmp_path: Path) -> None:
    write_skill(tmp_path, "plain", "allowed-tools: []")
    mind = Mind(choose=[chooses("plain")], call=["Well."])
    agent, _ = desk(tmp_path, mind, [])
    await talk(agent, "do it")
    assert "What look_up does." not in mind.prompts("call")[0]
