"""Replies and plans: whatever a model answers becomes an outcome, and what a plan says is kept."""

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select.routing.plans.plan import Missing, Plan, PlanStep, look_up, pointer_problem
from jazz_select.routing.plans.plan_runner import run_plan
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.routing.tools.tool import Tool
from tests.depth import examples

keys = st.sampled_from(
    ["tool_call", "tool_calls", "natural_language_response", "tool", "name", "arguments", "id", "function", "$ref"]
)
leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["echo", "s1", "s1#/a"])
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | st.text(), inner, max_size=4),
    max_leaves=16,
)
crumbs = st.lists(
    values.map(json.dumps)
    | st.sampled_from([*"[]{}\",':` \n", "```json\n", "<think>", "</think>", "not ", '{"tool_call": ', "\ud800"])
).map("".join)


async def echo(value: Any = None) -> Any:
    return value


ECHO = Tool(name="echo", function=echo)


@given(reply=crumbs | values | st.text() | st.binary())
@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_answered_runs_or_is_an_error(reply: object) -> None:
    found = read_tool_reply(reply)
    assert (found.kind in {"calls", "mixed"}) == bool(found.calls)
    assert (found.kind in {"text", "mixed"}) == bool(found.text)
    plan = found.plan
    result = asyncio.run(run_plan(plan, [ECHO]))
    assert result.problems == plan.problems
    assert result.problems or [step.id for step in result.steps] == [step.id for step in plan.steps]
    assert all((step.error is None) == (step.status == "ok") for step in result.steps)


@given(value=values, text=st.text(max_size=20))
def test_every_part_of_a_value_has_a_pointer(value: Any, text: str) -> None:
    def walk(part: Any, pointer: str) -> None:
        assert not pointer_problem(pointer)
        assert look_up(value, pointer) is part
        if isinstance(part, dict):
            for key, inner in part.items():  # pyright: ignore[reportUnknownVariableType] - JSON, as drawn
                walk(inner, f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}")  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(part, list):
            for place, inner in enumerate(part):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                walk(inner, f"{pointer}/{place}")

    walk(value, "")
    if not pointer_problem(text):
        assert isinstance(look_up(value, text), Missing | object)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each step, the steps it refers to: any, so that there may be circles."""
    size = draw(st.integers(1, 8))
    return [draw(st.lists(st.integers(0, size - 1), max_size=3)) for _ in range(size)]


def refers_to_itself(graph: list[list[int]]) -> bool:
    """True where following references from some step leads back to it; the slow way."""
    reach = [set(each) for each in graph]
    for _ in graph:
        reach = [each.union(*(reach[other] for other in each)) for each in reach]
    return any(place in each for place, each in enumerate(reach))


@given(graph=graphs())
@settings(deadline=None)
def test_a_plan_runs_whole_unless_it_has_a_circle(graph: list[list[int]]) -> None:
    plan = Plan.from_steps(
        PlanStep(
            id=f"n{place}", tool="echo", arguments={"value": [place, *({"$ref": f"n{other}"} for other in others)]}
        )
        for place, others in enumerate(graph)
    )
    assert bool(plan.problems) == refers_to_itself(graph)
    result = asyncio.run(run_plan(plan, [ECHO]))
    if plan.problems:
        assert result.steps == ()
        return

    def expected(place: int) -> list[Any]:
        return [place, *(expected(other) for other in graph[place])]

    assert [step.output for step in result.steps] == [expected(place) for place in range(len(graph))]
