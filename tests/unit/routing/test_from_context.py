"""What only the caller's context fills: schemas without it, calls with it, at the doors of tools and plans."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from jazz_select import FromContext, Tool, load_tools, tool_from_function
from jazz_select.errors import ConfigError, ToolError
from jazz_select.flow.base import CHOOSE, GuidedDecisionPoint
from jazz_select.routing import Allow, ChainAnalyzer, FlowExecutor, run_plan, tools_from_mcp, tools_from_openai
from jazz_select.routing.decisions.model_decision import ModelDecision
from jazz_select.routing.plans.tool_asker import ToolAsker
from jazz_select.routing.schemas.places import input_names
from jazz_select.routing.schemas.reduction import without_inputs
from jazz_select.routing.tool_call import call_tool
from jazz_select.routing.tools.context_inputs import bind_context, filled_arguments
from jazz_select.testing import ScriptedModel

pytestmark = pytest.mark.spec("017.1")
ADA = {"title": "Dune", "member": "ada"}
BEN = {"member": "ben"}
NOTE = "find_loan: the value given for 'member' was dropped, since only the context may give it"
MEMBER: Any = {"type": "string"}
INNER = {"type": "object", "properties": {"member": MEMBER}}
QUERY: Any = {"type": "object", "properties": {"title": {}, "member": MEMBER}, "required": ["title", "member"]}
SHOWN: Any = {"type": "object", "properties": {"title": {}}, "required": ["title"]}
Log = list[tuple[str, ...]]


def loan_tools(log: Log, *, declared: bool = False, hint: Any = str) -> list[Tool]:
    def find_loan(title: str, member: str) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append(("find_loan", title, str(member)))
        return {"due": "2026-06-01"}

    def drop_hold(title: str, member: str) -> None:
        """Take somebody off the list."""
        log.append(("drop_hold", title, str(member)))

    def tell_hours() -> dict[str, str]:
        """Say when the library is open."""
        return {"hours": "9 to 5"}

    for function in (find_loan, drop_hold):
        function.__annotations__["member"] = Annotated[hint, FromContext] if declared else hint
    found = tool_from_function(find_loan, read_only=True)
    return [found, tool_from_function(drop_hold, destructive=True), tool_from_function(tell_hours, read_only=True)]


def prompts(model: ScriptedModel) -> str:
    return "\n".join(message.content for each in model.calls for message in each)


# --- doors -------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
async def test_a_plan_works_for_who_is_signed_in(declared: bool) -> None:
    log: Log = []
    tools = loan_tools(log, declared=declared)
    model = ScriptedModel(json.dumps({"tool_calls": [{"tool": "find_loan", "arguments": ADA}]}))
    record = await ToolAsker(model, tools).ask("Does ada have Dune?", context=BEN)
    assert "title" in prompts(model)
    assert "member" not in prompts(model)
    result = await run_plan(record.plan, tools, context=BEN)
    assert (result.ok, log) == (True, [("find_loan", "Dune", "ben")])
    assert result.steps[0].notes == (NOTE,)
    assert result.steps[0].arguments == {"title": "Dune", "member": "ben"}


async def test_a_plan_without_a_declared_name_fails_its_step_and_names_it() -> None:
    log: Log = []
    result = await run_plan([{"tool": "find_loan", "arguments": ADA}], loan_tools(log, declared=True))
    assert log == []
    assert result.steps[0].error is not None
    assert "it needs 'member' from the context" in result.steps[0].error.message


async def test_an_approved_step_of_a_plan_is_for_who_it_was_shown_for() -> None:
    log: Log = []
    plan = [{"tool": "drop_hold", "arguments": ADA}]
    asked = await run_plan(plan, loan_tools(log), context=BEN, approval="always")
    assert [each.arguments["member"] for each in asked.asked] == ["ben"]
    options: Any = {"after": asked, "answer": Allow(), "approval": "always"}
    other = await run_plan(plan, loan_tools(log), **options, context={"member": "eve"})
    assert ([each.arguments["member"] for each in other.asked], log) == (["eve"], [])
    await run_plan(plan, loan_tools(log), **options, context=BEN)
    assert log == [("drop_hold", "Dune", "ben")]


POINT = GuidedDecisionPoint(after_step="tell_hours", candidate_tools=["find_loan", "drop_hold"])
POINTS: list[Any] = [
    pytest.param(["tell_hours", POINT], id="guided point"),
    pytest.param([CHOOSE], id="decision point"),
]


@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
@pytest.mark.parametrize("steps", POINTS)
async def test_who_chooses_the_next_tool_is_shown_neither_name_nor_value(steps: Any, declared: bool) -> None:
    log: Log = []
    model = ScriptedModel("find_loan")
    executor = FlowExecutor(loan_tools(log, declared=declared), ModelDecision(model))
    result = await executor.run(steps, {"title": "Dune"}, context=BEN)
    assert (result.status, log) == ("ok", [("find_loan", "Dune", "ben")])
    assert "title" in prompts(model)
    assert "member" not in prompts(model)
    assert "ben" not in prompts(model)


@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
@pytest.mark.parametrize("given", ["context", "inputs"])
async def test_no_output_replaces_who_the_user_is(given: str, declared: bool) -> None:
    log: Log = []

    def look_up() -> dict[str, str]:
        """Look up a title; the result names somebody else."""
        return ADA

    tools = [tool_from_function(look_up), *loan_tools(log, declared=declared)]
    options: Any = {given: BEN}
    result = await FlowExecutor(tools).run(["look_up", "find_loan"], **options)
    assert (result.status, log) == ("ok", [("find_loan", "Dune", "ben")])
    assert result.records[1].arguments == {"title": "Dune", "member": "ben"}


async def test_a_run_that_is_resumed_keeps_who_the_user_is() -> None:
    log: Log = []
    executor = FlowExecutor(loan_tools(log, declared=True), approval="always")
    asked = await executor.run(["drop_hold"], {"title": "Dune"}, context=BEN)
    assert asked.asked is not None
    assert asked.asked.arguments == {"title": "Dune", "member": "ben"}
    done = await executor.resume(asked, Allow())
    assert (done.status, log) == ("ok", [("drop_hold", "Dune", "ben")])


async def test_a_run_without_a_declared_name_names_it() -> None:
    result = await FlowExecutor(loan_tools([], declared=True)).run(["find_loan"], {"title": "Dune"})
    assert result.records[0].error == (
        "find_loan was not run: it needs 'member' from the context, which has none; give it with context="
    )


async def test_a_context_must_be_a_mapping() -> None:
    wrong: Any = ["ben"]
    with pytest.raises(ConfigError, match="context must be a Mapping, or None, got"):
        await run_plan([{"tool": "find_loan"}], loan_tools([]), context=wrong)
    with pytest.raises(ConfigError, match="context must be a mapping of names to values, got"):
        await FlowExecutor(loan_tools([])).run(["find_loan"], context=wrong)


def test_what_may_follow_does_not_need_a_source_for_what_the_context_fills() -> None:
    first = Tool(
        name="first",
        output_schema={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
    )
    by_name = ChainAnalyzer([first, *loan_tools([])]).successors("first", min_compatibility=0.0)
    declared = ChainAnalyzer([first, *loan_tools([], declared=True)]).successors("first", min_compatibility=0.0)
    scores = [{each.name: each.compatibility_score for each in found}["find_loan"] for found in (by_name, declared)]
    assert scores == [0.5, 1.0]


# --- declaring ---------------------------------------------------------------------


def by_mark(title: str, who: Annotated[str, FromContext("member"), "The member."]) -> str:
    """Find."""
    return who


def by_default(title: str, who: str = FromContext("member")) -> str:  # type: ignore[assignment]
    """Find."""
    return who


def plain(title: str, who: str) -> str:
    """Find."""
    return who


SCHEMA = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "who": {"type": "string"}},
    "required": ["title", "who"],
}
LISTING = [{"name": "find", "inputSchema": SCHEMA}]
KEYS = {"who": "member"}
FORMS: list[Any] = [
    pytest.param(lambda: tool_from_function(by_mark, name="find"), id="annotation"),
    pytest.param(lambda: tool_from_function(by_default, name="find"), id="default"),
    pytest.param(lambda: tool_from_function(plain, name="find", from_context=KEYS), id="option of a function"),
    pytest.param(lambda: tool_from_function(partial(by_mark), name="find"), id="partial"),
    pytest.param(lambda: Tool(name="find", input_schema=SCHEMA, function=plain, from_context=KEYS), id="tool"),
    pytest.param(
        lambda: tools_from_mcp(LISTING, call=lambda _, given: given["who"], destructive=False, from_context=KEYS)[0],
        id="MCP",
    ),
    pytest.param(
        lambda: tools_from_openai(
            [{"name": "find", "parameters": SCHEMA}], functions={"find": plain}, from_context=KEYS
        )[0],
        id="OpenAI",
    ),
]


@pytest.mark.parametrize("make", FORMS)
async def test_each_way_to_declare_an_input_does_the_same(make: Callable[[], Tool]) -> None:
    tool = make()
    assert list(tool.input_schema["properties"]) == ["title"]
    assert list(tool.call_schema["properties"]) == ["title", "who"]
    options: Any = {"door": "executor", "timeout_s": 1.0}
    made = await call_tool(bind_context(tool, BEN), {"title": "Dune", "who": "ada"}, **options)
    assert (made.status, made.output, made.dropped) == ("ok", "ben", ("who",))
    refused = await call_tool(tool, {"title": "Dune", "who": "ada"}, **options)
    assert (refused.status, refused.called) == ("failed", False)
    assert refused.error is not None
    assert "it needs 'member' from the context" in refused.error.message


YAML = """\
tools:
  - function: yaml_desk:find
    from_context: [who]
  - name: find_with_key
    function: yaml_desk:find
    from_context: {who: member}
  - name: only_described
    input_schema: {type: object, properties: {who: {type: string}}, required: [who]}
    from_context: [who]
  - function: yaml_desk:marked
    from_context: [title]
"""
MODULE = """\
from typing import Annotated

from jazz_select import FromContext


def find(title: str, who: str) -> str:
    return who


def marked(title: str, who: Annotated[str, FromContext("member")]) -> str:
    return who
"""


@pytest.fixture
def yaml_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "yaml_desk.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)  # pyright: ignore[reportUnknownMemberType]
    return tmp_path / "tools.yaml"


def test_a_file_declares_what_comes_from_the_context(yaml_desk: Path) -> None:
    yaml_desk.write_text(YAML, "utf-8")
    tools = load_tools(yaml_desk)
    shown = {name: list(tool.input_schema.get("properties", {})) for name, tool in tools.items()}
    assert shown == {"find": ["title"], "find_with_key": ["title"], "only_described": [], "marked": []}
    assert tools["find_with_key"].from_context == {"who": "member"}
    assert tools["marked"].from_context == {"who": "member", "title": "title"}


WRONG: list[Any] = [
    pytest.param(
        {"from_context": ["whom"]},
        "from_context names whom, which is no input of it; its inputs are title, who",
        id="no input",
    ),
    pytest.param({"from_context": "who"}, "from_context must be a list of inputs, or a mapping", id="a text"),
    pytest.param({"from_context": [7]}, "from_context must be a list of inputs, or a mapping", id="no name"),
    pytest.param({"from_context": {"who": ""}}, "the value of 'who' must be its key in the context", id="no key"),
    pytest.param({"from_context": {"who": None}}, "the value of 'who' must be its key in the context", id="null"),
    pytest.param({"from_context": ["who.name"]}, "from_context names who.name, which is no", id="no object"),
]


@pytest.mark.parametrize(("options", "problem"), WRONG)
def test_a_declaration_that_cannot_work_is_refused(options: Any, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        Tool(name="find", input_schema=SCHEMA, **options)


def test_an_empty_key_in_a_file_is_named(yaml_desk: Path) -> None:
    yaml_desk.write_text("tools:\n  - function: yaml_desk:find\n    from_context: {who: }\n", "utf-8")
    with pytest.raises(ToolError, match=r":3:\d+: from_context: .*'who' must be its key in the context, got an empty"):
        load_tools(yaml_desk)


def test_a_listing_in_which_no_tool_has_the_input_is_refused() -> None:
    with pytest.raises(ToolError, match="from_context names whom, which is an input of no tool in the listing"):
        tools_from_mcp(LISTING, from_context=["whom"])


def test_a_mark_inside_a_type_is_refused() -> None:
    def find(title: Annotated[str, FromContext] | None) -> None: ...

    with pytest.raises(ToolError, match="FromContext marks a parameter as a whole"):
        tool_from_function(find)
    with pytest.raises(TypeError, match=r'from_context=\["query.member"\]'):

        class Query(BaseModel):  # pyright: ignore[reportUnusedClass] - making it is enough
            member: Annotated[str, FromContext]


async def test_a_declared_parameter_with_a_default_may_be_missing() -> None:
    def find(who: Annotated[str | None, FromContext] = None) -> str:
        """Find."""
        return who or "nobody"

    tool = tool_from_function(find)
    made = await call_tool(tool, {"who": "ada"}, door="executor", timeout_s=1.0)
    assert (made.output, made.dropped) == ("nobody", ("who",))


# --- fields of objects -------------------------------------------------------------


class Query(BaseModel):
    title: str
    member: str


@dataclass
class QueryData:
    title: str
    member: str


class QueryDict(TypedDict):
    title: str
    member: str


class Filter(BaseModel):
    title: str = "all"
    member: str = "anybody"


class Who(BaseModel):
    member: str


def object_tool(hint: Any, *default: Any, **options: Any) -> Tool:
    def find(query: Any) -> Any:
        """Find."""
        return query

    find.__annotations__["query"] = hint
    find.__defaults__ = default
    return tool_from_function(find, **options)


def mcp_tool(**options: Any) -> Tool:
    schema: Any = {"type": "object", "properties": {"query": QUERY}, "required": ["query"]}
    return tools_from_mcp(
        [{"name": "find", "inputSchema": schema}],
        call=lambda _, given: given["query"],
        destructive=False,
        **options,
    )[0]


GIVEN = {"query": ADA}
DUNE_OF_BEN = {"title": "Dune", "member": "ben"}
OBJECTS: list[Any] = [
    pytest.param(object_tool(Query), GIVEN, DUNE_OF_BEN, id="a model"),
    pytest.param(object_tool(QueryData), GIVEN, DUNE_OF_BEN, id="a dataclass"),
    pytest.param(object_tool(QueryDict), GIVEN, DUNE_OF_BEN, id="a typed dict"),
    pytest.param(object_tool(Query | None, None), GIVEN, DUNE_OF_BEN, id="optional"),
    pytest.param(object_tool(Query), {"query": Query(**ADA)}, DUNE_OF_BEN, id="given as an object"),
    pytest.param(object_tool(Query), {"query": {"title": "Dune", "Member": "ada"}}, DUNE_OF_BEN, id="spelling"),
    pytest.param(mcp_tool(), GIVEN, DUNE_OF_BEN, id="MCP"),
    pytest.param(mcp_tool(from_context=["member"]), GIVEN, DUNE_OF_BEN, id="declared by its name"),
    pytest.param(mcp_tool(from_context=["query.member"]), GIVEN, DUNE_OF_BEN, id="declared by its place"),
    pytest.param(object_tool(Query, from_context=["query.member"]), GIVEN, DUNE_OF_BEN, id="a function's place"),
    pytest.param(object_tool(dict[str, str]), GIVEN, {"title": "Dune"}, id="an open object"),
    pytest.param(object_tool(Filter), {"query": {"member": "ada"}}, {"title": "all", "member": "ben"}, id="defaults"),
    pytest.param(object_tool(Who), {"query": {"member": "ada"}}, {"member": "ben"}, id="no other field"),
]


@pytest.mark.parametrize(("tool", "given", "output"), OBJECTS)
async def test_the_fields_of_a_single_object_are_inputs(tool: Tool, given: Any, output: Any) -> None:
    bound = bind_context(tool, BEN)
    assert "member" not in json.dumps(bound.input_schema).lower()
    made = await call_tool(bound, given, door="chain", timeout_s=1.0)
    assert (made.status, made.output) == ("ok", output)
    assert [name.lower() for name in made.dropped] == ["query.member"]


LEFT_OUT: list[Any] = [
    pytest.param(object_tool(Filter), ("ok", {"title": "all", "member": "ben"}), id="all has defaults"),
    pytest.param(object_tool(Filter | None, None), ("ok", {"title": "all", "member": "ben"}), id="optional"),
    pytest.param(object_tool(Query, Query(**ADA)), ("ok", DUNE_OF_BEN), id="a default object"),
    pytest.param(object_tool(Who), ("ok", {"member": "ben"}), id="no other field"),
    pytest.param(object_tool(Query | None, None), ("ok", None), id="optional, of which a field is missing"),
    pytest.param(object_tool(Query), ("failed", None), id="required, of which a field is missing"),
]


@pytest.mark.parametrize(("tool", "end"), LEFT_OUT)
async def test_an_object_that_is_left_out_is_made_if_nothing_is_missing(tool: Tool, end: Any) -> None:
    made = await call_tool(bind_context(tool, BEN), {}, door="chain", timeout_s=1.0)
    assert (made.status, made.output, made.dropped) == (*end, ())


class Recipient(BaseModel):
    name: str
    member: str


def order(title: str, recipient: Recipient) -> str:
    """Order a book for somebody."""
    return recipient.member


ORDER = {"title": "Dune", "recipient": {"name": "Ada", "member": "ada"}}
PLACE = {"recipient.member": "user_id"}


async def test_an_object_beside_other_inputs_keeps_its_own_fields() -> None:
    made = await call_tool(bind_context(tool_from_function(order), BEN), ORDER, door="chain", timeout_s=1.0)
    assert (made.output, made.dropped) == ("ada", ())


async def test_a_declared_place_fills_an_object_beside_other_inputs() -> None:
    tool = tool_from_function(order, from_context=PLACE)
    assert "member" not in json.dumps(tool.input_schema)
    made = await call_tool(bind_context(tool, {"user_id": "ben"}), ORDER, door="chain", timeout_s=1.0)
    assert (made.output, made.dropped) == ("ben", ("recipient.member",))
    refused = await call_tool(tool, ORDER, door="chain", timeout_s=1.0)
    assert refused.error is not None
    assert "it needs 'user_id' from the context" in refused.error.message


def test_a_place_that_is_none_is_refused_with_the_fields() -> None:
    with pytest.raises(ToolError, match=r"recipient.whom, .*; the fields of recipient are name, member"):
        tool_from_function(order, from_context=["recipient.whom"])


def test_a_file_declares_a_place(yaml_desk: Path) -> None:
    listed = {"name": "order", "input_schema": tool_from_function(order).input_schema, "from_context": PLACE}
    yaml_desk.write_text(json.dumps({"tools": [listed]}), "utf-8")
    tool = load_tools(yaml_desk)["order"]
    assert tool.from_context == PLACE
    assert filled_arguments(bind_context(tool, {"user_id": "ben"}), ORDER).arguments["recipient"]["member"] == "ben"


async def test_a_field_that_does_not_fit_is_named_by_its_key() -> None:
    tool = bind_context(object_tool(Query), {"member": 7})
    made = await call_tool(tool, {"query": {"title": "Dune"}}, door="chain", timeout_s=1.0)
    assert made.error is not None
    assert "'member' of the context does not fit its input 'query.member'" in made.error.message


async def test_an_error_does_not_show_what_was_filled() -> None:
    tool = bind_context(object_tool(Query | None, None), BEN)
    made = await call_tool(tool, {"query": {"isbn": "1"}}, door="chain", timeout_s=1.0)
    assert made.error is not None
    assert "isbn" in made.error.message
    assert "ben" not in made.error.message


async def test_a_plan_and_a_run_fill_a_field_of_the_single_object() -> None:
    tool = object_tool(Query, read_only=True)
    planned = await run_plan([{"tool": "find", "arguments": GIVEN}], [tool], context=BEN)
    assert planned.steps[0].output == DUNE_OF_BEN
    assert planned.steps[0].notes == (NOTE.replace("find_loan", "find").replace("'member'", "'query.member'"),)
    run = await FlowExecutor([tool]).run(["find"], GIVEN, context=BEN)
    assert (run.status, run.records[0].output) == ("ok", DUNE_OF_BEN)
    model = ScriptedModel("find")
    chosen = await FlowExecutor([tool], ModelDecision(model)).run([CHOOSE], GIVEN, context=BEN)
    assert chosen.records[0].output == DUNE_OF_BEN
    assert "ben" not in prompts(model)


# --- values ------------------------------------------------------------------------


UNFIT: list[Any] = [
    pytest.param(str, {"Member": 7}, "'Member' of the context does not fit its input 'member'", id="by the schema"),
    pytest.param(UUID, {"member": "ben"}, "'member' of the context must be what the tool takes", id="by the type"),
    pytest.param(
        str,
        {"Member": "ben", "MEMBER": "eve"},
        "the context holds 'Member' and 'MEMBER', and either may be meant by its input 'member'",
        id="two that are alike",
    ),
]


@pytest.mark.parametrize(("hint", "context", "problem"), UNFIT)
async def test_a_value_that_does_not_fit_is_named_by_its_key(hint: Any, context: Any, problem: str) -> None:
    log: Log = []
    tool = bind_context(loan_tools(log, hint=hint)[0], context)
    made = await call_tool(tool, {"title": "Dune"}, door="executor", timeout_s=1.0)
    assert (made.status, log) == ("failed", [])
    assert made.error is not None
    assert problem in made.error.message


def test_of_two_that_are_alike_the_exact_one_counts() -> None:
    tool = bind_context(loan_tools([])[0], {"Member": "eve", "member": "ben"})
    assert filled_arguments(tool, {"title": "Dune"}).arguments == {"title": "Dune", "member": "ben"}


@pytest.mark.parametrize("closed", [True, False], ids=["closed schema", "open schema"])
async def test_a_context_of_too_many_names_runs_nothing(closed: bool) -> None:
    """Its names are not compared in all spellings then: a model could give another user's under one of them."""
    log: Log = []
    schema = {"type": "object", "properties": {"member_id": {"type": "string"}}, "additionalProperties": not closed}

    def find(member_id: str) -> None:
        log.append((member_id,))

    tool = Tool(name="find", input_schema=schema, function=find)
    context = {f"fact_{number:0100}": number for number in range(600)} | {"memberId": "ben"}
    bound = bind_context(tool, context)
    made = await call_tool(bound, {"member_id": "ada"}, door="executor", timeout_s=1.0)
    assert (made.status, log) == ("failed", [])
    assert made.error is not None
    assert "holds names of more than 50000 characters together" in made.error.message


def test_binding_again_is_binding_anew() -> None:
    tool = loan_tools([])[0]
    bound = bind_context(bind_context(tool, BEN), {"title": "Atlas"})
    assert list(bound.input_schema["properties"]) == ["member"]
    assert bound.digest == tool.digest


# --- schemas -----------------------------------------------------------------------


def reduced_case(schema: dict[str, Any], reduced: dict[str, Any], *, name: str) -> Any:
    return pytest.param(schema, reduced, id=name)


SCHEMAS: list[Any] = [
    reduced_case(
        {
            "type": "object",
            "properties": {"title": {}, "member": MEMBER},
            "required": ["title", "member"],
            "additionalProperties": False,
        },
        {"type": "object", "properties": {"title": {}}, "required": ["title"], "additionalProperties": False},
        name="plain",
    ),
    reduced_case({"required": ["member"]}, {}, name="only required"),
    reduced_case(
        {
            "$ref": "#/$defs/args",
            "$defs": {"args": {"properties": {"title": {}, "member": MEMBER}, "required": ["member"]}},
        },
        {"properties": {"title": {}}},
        name="behind a reference",
    ),
    reduced_case(
        {"properties": {"of": {"$ref": "#/$defs/inner"}, "member": MEMBER}, "$defs": {"inner": INNER}},
        {"properties": {"of": {"$ref": "#/$defs/inner"}}, "$defs": {"inner": INNER}},
        name="an object beside another input keeps its own",
    ),
    reduced_case(
        {"properties": {"of": {"$ref": "#/$defs/a%20b~1c"}, "member": MEMBER}, "$defs": {"a b/c": INNER, "d": {}}},
        {"properties": {"of": {"$ref": "#/$defs/a%20b~1c"}}, "$defs": {"a b/c": INNER}},
        name="a definition whose name is written otherwise in a reference",
    ),
    reduced_case(
        {"properties": {"of": {"$ref": "#/$defs/inner"}}, "required": ["of"], "$defs": {"inner": QUERY}},
        {"properties": {"of": SHOWN}, "required": ["of"]},
        name="the single object, behind a reference",
    ),
    reduced_case({"properties": {"of": QUERY}}, {"properties": {"of": SHOWN}}, name="the single object, optional"),
    reduced_case(
        {
            "properties": {
                "of": {
                    "anyOf": [{"$ref": "#/$defs/inner"}, {"type": "null"}],
                    "default": {"title": "Dune", "member": "ada"},
                }
            },
            "$defs": {"inner": QUERY},
        },
        {"properties": {"of": {"anyOf": [SHOWN, {"type": "null"}], "default": {"title": "Dune"}}}},
        name="the single object, or null",
    ),
    reduced_case(
        {"properties": {"of": {"oneOf": [QUERY, {"properties": {"isbn": {}, "member": MEMBER}}]}}},
        {"properties": {"of": {"oneOf": [SHOWN, {"properties": {"isbn": {}}}]}}},
        name="the single object, one of several",
    ),
    reduced_case(
        {"properties": {"of": {"properties": {"query": QUERY}}}},
        {"properties": {"of": {"properties": {"query": SHOWN}}}},
        name="the single object of a single object",
    ),
    reduced_case(
        {"$ref": "#/$defs/args", "$defs": {"args": {"allOf": [{"properties": {"of": QUERY}}]}}},
        {"allOf": [{"properties": {"of": SHOWN}}]},
        name="the single object, behind a reference and a branch",
    ),
    reduced_case(
        {"properties": {"of": QUERY}, "examples": [{"of": {"title": "Dune", "member": "ada"}}]},
        {"properties": {"of": SHOWN}, "examples": [{"of": {"title": "Dune"}}]},
        name="the single object in examples",
    ),
    reduced_case(
        {"properties": {"of": INNER}, "required": ["of"]},
        {"properties": {}},
        name="the single object, with no other field",
    ),
    reduced_case(
        {"properties": {"of": {"type": "array", "items": QUERY}}},
        {"properties": {"of": {"type": "array", "items": QUERY}}},
        name="objects in a list keep their own",
    ),
    reduced_case(
        {
            "oneOf": [
                {"properties": {"title": {}, "member": MEMBER}, "required": ["title", "member"]},
                {"properties": {"isbn": {}, "member": MEMBER}},
            ]
        },
        {"oneOf": [{"properties": {"title": {}}, "required": ["title"]}, {"properties": {"isbn": {}}}]},
        name="oneOf at the top",
    ),
    reduced_case(
        {
            "anyOf": [
                {"properties": {"member": MEMBER}, "additionalProperties": False},
                {"properties": {"mail": {}}, "additionalProperties": False},
            ]
        },
        {"anyOf": [{"properties": {}, "additionalProperties": False}]},
        name="a branch that forbids it",
    ),
    reduced_case(
        {"allOf": [{"required": ["member"]}, {"properties": {"title": {}}}]},
        {"allOf": [{}, {"properties": {"title": {}}}]},
        name="allOf",
    ),
    reduced_case(
        {"properties": {"member": MEMBER, "card": {}}, "dependentRequired": {"member": ["card"], "card": ["member"]}},
        {"properties": {"card": {}}, "required": ["card"], "dependentRequired": {"card": []}},
        name="what depends on it",
    ),
    reduced_case(
        {
            "properties": {"title": {}},
            "if": {"properties": {"member": {"const": "x"}}},
            "then": {"required": ["title"]},
        },
        {"properties": {"title": {}}},
        name="a condition on it",
    ),
    reduced_case({"not": {"required": ["member"]}}, {}, name="not"),
    reduced_case(
        {
            "properties": {"title": {}, "member": MEMBER},
            "examples": [{"title": "Dune", "member": "ada"}],
            "default": {"member": "ada"},
        },
        {"properties": {"title": {}}, "examples": [{"title": "Dune"}], "default": {}},
        name="examples",
    ),
    reduced_case(
        {"propertyNames": {"enum": ["title", "member"]}, "minProperties": 2, "properties": {"member": MEMBER}},
        {"propertyNames": {"enum": ["title"]}, "minProperties": 1, "properties": {}},
        name="names and numbers",
    ),
]


@pytest.mark.parametrize(("schema", "reduced"), SCHEMAS)
def test_a_schema_loses_an_input_wherever_it_is(schema: Any, reduced: Any) -> None:
    whole = json.dumps(schema)
    assert without_inputs(schema, {"member"}) == reduced
    assert json.dumps(schema) == whole


HOSTILE: list[Any] = [
    pytest.param({"$ref": "#", "properties": {"member": MEMBER}}, id="itself"),
    pytest.param(
        {"anyOf": [{"$ref": "#"}, {"$ref": "#"}, {"properties": {"member": MEMBER}}]}, id="branches of itself"
    ),
    pytest.param(
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]},
                "b": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"required": ["member"]}]},
            },
        },
        id="circles",
    ),
    pytest.param(
        {"properties": ["member"], "required": "member", "anyOf": {"a": 1}, "$ref": 7, "enum": "member"}, id="no schema"
    ),
]


@pytest.mark.parametrize("schema", HOSTILE)
def test_a_schema_without_end_is_reduced_all_the_same(schema: Any) -> None:
    assert "member" not in input_names(without_inputs(schema, {"member"}))
