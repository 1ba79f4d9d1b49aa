"""Tools are called in one place: nobody else takes a tool's function, or calls one by another way."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import jazz_select
from tests.source import tree

LIBRARY = Path(str(jazz_select.__file__)).parent
CORE = "routing/tool_call.py"
BINDS = "routing/tools/context_inputs.py"  # gives a function its secrets, and leaves the call to the core
CALLERS = {
    "agent/flows/input_options.py",
    "agent/chain/tool_calls.py",
    "agent/reading/value_checks.py",
    "integrations/toolkit.py",
    "integrations/pydantic_ai_capability.py",  # the framework's own method of that name, of tools that are not ours
    "routing/executor.py",
    "routing/plans/plan_runner.py",
    "service/mcp/agent_server.py",
    "service/mcp/guard.py",
    "routing/tools/mcp_session.py",  # the protocol's own call, of a session that tools are made of
}


@pytest.fixture(scope="module")
def modules() -> dict[str, ast.Module]:
    return {path.relative_to(LIBRARY).as_posix(): tree(path) for path in LIBRARY.rglob("*.py")}


def used_functions(module: ast.Module) -> list[int]:
    """The lines that take a tool's function, other than to see whether there is one."""
    compared = {
        id(node.left)
        for node in ast.walk(module)
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
    }
    return [
        node.lineno
        for node in ast.walk(module)
        if isinstance(node, ast.Attribute)
        and node.attr == "function"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in compared
    ]


def test_nobody_but_the_core_takes_the_function_of_a_tool(modules: dict[str, ast.Module]) -> None:
    found = {path: lines for path, module in modules.items() if (lines := used_functions(module))}
    assert set(found) == {CORE, BINDS}
    assert len(found[BINDS]) == 1


def test_each_door_calls_the_core_in_one_place_and_nobody_else_does(modules: dict[str, ast.Module]) -> None:
    calls = Counter(
        path
        for path, module in modules.items()
        for node in ast.walk(module)
        if "call_tool" in (getattr(node, "id", ""), getattr(node, "attr", ""))
    )
    assert calls == dict.fromkeys(CALLERS, 1)
