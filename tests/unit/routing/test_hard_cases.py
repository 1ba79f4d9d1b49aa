"""Hard cases of guided decisions, plans and replies, each as a user would come across it."""

from typing import Any

import pytest

from jazz_select.agent import run_chain
from jazz_select.errors import ToolError
from jazz_select.routing import FlowExecutor, GuidedDecisionPoint, Tool, run_plan
from jazz_select.testing import ScriptedModel

TEXTS = {"type": "array", "items": {"type": "string"}}


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def finds() -> Tool:
    def find(number: str) -> dict[str, Any]:
        return {"items": ["a"]}

    given = obj(number={"type": "string"})
    return Tool(name="find", input_schema=given, output_schema=obj(items=TEXTS), function=find)


def takes(name: str, log: list[Any], schema: dict[str, Any] | None = None) -> Tool:
    def take(items: list[str]) -> None:
        log.append((name, items))

    return Tool(name=name, input_schema=schema or obj(items=TEXTS), function=take)


@pytest.mark.spec("000.6")
async def test_who_chooses_changes_nothing_of_what_the_next_tool_gets() -> None:
    log: list[Any] = []

    class Spoils:
        def decide(self, context: dict[str, Any], candidates: Any, prompt: str) -> str:
            context["items"].append("another")
            context["items"] = ["others"]
            candidates[0].input_schema_summary.clear()
            candidates.clear()
            return "first"

    point = GuidedDecisionPoint(after_step="find", candidate_tools=["first", "second"])
    run = await FlowExecutor([finds(), takes("first", log), takes("second", log)], Spoils()).run(
        ["find", point], {"number": "1"}
    )
    assert (run.status, log) == ("ok", [("first", ["a"])])
    assert [each.input_schema_summary for each in run.records[-1].candidates][1:] == [{"items": "array of string"}]


@pytest.mark.spec("000.3")
async def test_an_open_router_changes_nothing_of_what_the_next_tool_gets() -> None:
    log: list[Any] = []

    def route(context: dict[str, Any], candidates: Any) -> str:
        context["items"].append("another")
        return "first"

    run = await FlowExecutor([takes("first", log)], open_router=route).run(["nowhere"], {"items": ["a"]})
    assert (run.status, log, run.context["items"]) == ("ok", [("first", ["a"])], ["a"])


@pytest.mark.spec("004.8")
async def test_who_fills_an_input_changes_nothing_of_what_another_step_gets() -> None:
    log: list[Any] = []

    def fill(tool: Tool, missing: Any, outputs: Any) -> dict[str, Any]:
        outputs["s1"]["items"].append("another")
        return {"items": ["b"]}

    steps: list[dict[str, Any]] = [
        {"tool": "find", "arguments": {"number": "1"}},
        {"tool": "use", "arguments": {}},
        {"tool": "use", "arguments": {"items": {"$ref": "s1#/items"}}},
    ]
    assert (await run_plan(steps, [finds(), takes("use", log)], fill=fill)).ok
    assert log == [("use", ["b"]), ("use", ["a"])]


@pytest.mark.parametrize("field", ["after_step", "fallback_tool", "decision_prompt"])
def test_a_point_takes_texts(field: str) -> None:
    given: dict[str, Any] = {"after_step": "find", "candidate_tools": ["first", "second"], field: 5}
    with pytest.raises(ToolError, match=f"{field} must be a text, got 5"):
        GuidedDecisionPoint(**given)


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"Wanted": obj(items=TEXTS)}, "$ref": "#/$defs/Wanted"},
        {"allOf": [obj(items=TEXTS)]},
    ],
    ids=["$ref", "allOf"],
)
async def test_an_input_behind_a_reference_is_filled_in_a_flow_and_in_a_plan(schema: dict[str, Any]) -> None:
    log: list[Any] = []
    tools = [finds(), takes("use", log, schema)]
    assert (await FlowExecutor(tools).run(["find", "use"], {"number": "1"})).status == "ok"
    steps: list[dict[str, Any]] = [{"tool": "find", "arguments": {"number": "1"}}, {"tool": "use", "arguments": {}}]

    def fill(tool: Tool, missing: Any, outputs: Any) -> dict[str, Any]:
        return {name: output[name] for name in missing for output in outputs.values() if name in output}

    await run_plan(steps, tools, fill=fill)
    assert log == [("use", ["a"])] * 2


@pytest.mark.spec("004.13")
async def test_a_pointer_into_an_open_object_is_for_the_run_to_find() -> None:
    log: list[Any] = []
    looks = Tool(
        name="look", output_schema={"type": "object", "properties": {"known": {}}}, function=lambda: {"n": ["x"]}
    )
    steps: list[dict[str, Any]] = [
        {"id": "s1", "tool": "look", "arguments": {}},
        {"id": "s2", "tool": "use", "arguments": {"items": {"$ref": "s1#/n"}}},
        {"id": "s3", "tool": "use", "arguments": {"items": {"$ref": "s1#/gone"}}},
    ]
    result = await run_plan(steps, [looks, takes("use", log)])
    assert ([step.status for step in result.steps], log) == (["ok", "ok", "failed"], [("use", ["x"])])


@pytest.mark.parametrize(
    ("reply", "is_answer"),
    [
        ('```json\n{"answer": {"tool": "a hammer"}}\n```', True),
        ('You need this: {"answer": {"tool": "a hammer"}}', True),
        ('You need this: {"tool": "a hammer"}', False),
        ('You need this: {"answer": {"tool": "a hammer"}} {"tool": "use", "argu', False),
        ('{"answer": {"tool": "a hammer"}}', True),
        ('{"needed": [{"tool": "a hammer"}, {"tool": "a saw"}]}', True),
        ('{"answer": {"tool": "use", "arguments": {"items": []}}}', False),
        ('{"result": {"tool_calls": []}}', False),
        ('{"tool": "a hammer"}', False),
    ],
)
async def test_an_answer_that_is_json_and_speaks_of_tools_is_no_call(reply: str, *, is_answer: bool) -> None:
    log: list[Any] = []
    chain = await run_chain(ScriptedModel(reply, "Fine."), "What do I need?", [takes("use", log)])
    assert (chain.answer, log) == (reply if is_answer else "Fine.", [])
