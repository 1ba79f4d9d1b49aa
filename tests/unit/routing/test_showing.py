"""The tools of what was selected, and tools in the forms of providers."""

from typing import Any

import orjson
import pytest
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from jazz_select import Flow, FlowRegistry, SequentialFlow, Tool
from jazz_select.errors import ConfigError, DuplicateToolError, FlowValidationError, ToolError
from jazz_select.routing.tools.showing import selected_tools, shown_names, tool_schemas
from jazz_select.routing.tools.sources import tools_from_openai

pytestmark = pytest.mark.spec("009.4")
TAKES: dict[str, Any] = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
TOOLS = [
    Tool(name="look_up", description="An order.", input_schema=TAKES, read_only=True),
    Tool(name="refund", description="Money back.", input_schema=TAKES, destructive=True),
    Tool(name="send_mail"),
]


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry(min_examples=0)


def flow(registry: FlowRegistry, name: str, *tools: str, **given: Any) -> Flow:
    return Flow(name=name, tools=tools, registry=registry, **given)


def names(flows: list[Any], **options: Any) -> list[str]:
    return [tool.name for tool in selected_tools(flows, TOOLS, **options)]


def test_the_tools_of_flows_come_each_once_in_the_flows_order(registry: FlowRegistry) -> None:
    first, second = flow(registry, "a", "refund", "look_up"), flow(registry, "b", "look_up", "send_mail")
    assert names([first, second]) == ["refund", "look_up", "send_mail"]
    assert names([second]) == ["look_up", "send_mail"]


def test_what_is_not_connected_is_left_out(registry: FlowRegistry) -> None:
    assert names([flow(registry, "a", "look_up", "print", optional_tools=["print"])]) == ["look_up"]


def test_what_is_a_persons_to_do_gives_a_model_no_tools(registry: FlowRegistry) -> None:
    manual = flow(registry, "by_hand", "refund", manual=True)
    whole = SequentialFlow(
        name="whole", flows=[flow(registry, "a", "look_up"), manual], tools=["send_mail"], registry=registry
    )
    assert whole.tools == ("send_mail", "look_up", "refund")
    assert names([whole]) == ["send_mail", "look_up"]
    assert names([manual]) == []


@pytest.mark.parametrize("given", [None, 7, "refund", ["refund"], [None], {"a": 1}, ...], ids=repr)
def test_what_is_no_flow_and_no_tool_is_refused_with_what_to_pass(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"flows must be those that were selected, as result\.chosen_flows has them"):
        selected_tools(given, TOOLS)
    with pytest.raises(ConfigError, match="tools must be a list of Tools, or what shown_names"):
        tool_schemas(given)


def test_a_tool_alone_is_no_list_of_tools() -> None:
    with pytest.raises(ConfigError, match="tools must be a list of Tools"):
        tool_schemas(TOOLS[0])  # pyright: ignore[reportArgumentType]


def test_a_part_that_is_not_there_is_an_error(registry: FlowRegistry) -> None:
    with pytest.raises(FlowValidationError, match="'gone' is not in the same registry"):
        names([SequentialFlow(name="whole", flows=["gone"], registry=registry)])


OPEN = {"read": ["look_up"], "all": ["look_up", "refund", "send_mail"], "none": []}


@pytest.mark.parametrize(("open_tools", "expected"), OPEN.items(), ids=OPEN)
@pytest.mark.spec("010.7")
def test_where_no_flow_fits(open_tools: Any, expected: list[str]) -> None:
    assert names([], open_tools=open_tools) == expected


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ConfigError, match='open_tools must be "read", "all" or "none"'):
        names([], open_tools="some")
    with pytest.raises(ConfigError, match="tools must be a list"):
        selected_tools([], "tools.py")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DuplicateToolError):
        selected_tools([], [*TOOLS, *TOOLS])
    with pytest.raises(ConfigError, match='form must be "openai", "openai-responses" or "anthropic"'):
        tool_schemas(TOOLS, "gemini")  # pyright: ignore[reportArgumentType]


FORMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "openai": (
        ChatCompletionFunctionToolParam,
        {"type": "function", "function": {"name": "look_up", "description": "An order.", "parameters": TAKES}},
    ),
    "openai-responses": (
        FunctionToolParam,
        {"type": "function", "name": "look_up", "description": "An order.", "parameters": TAKES},
    ),
    "anthropic": (ToolParam, {"name": "look_up", "description": "An order.", "input_schema": TAKES}),
}


@pytest.mark.parametrize(("form", "kind", "expected"), [(form, *each) for form, each in FORMS.items()], ids=FORMS)
def test_tools_in_the_form_of_a_provider(form: Any, kind: Any, expected: dict[str, Any]) -> None:
    made = tool_schemas(TOOLS, form)
    assert made[0] == expected
    assert len(made) == len(TOOLS)
    assert orjson.loads(orjson.dumps(made)) == made
    for each in made:  # as the vendor's own client types it; `strict` is ours to leave out
        TypeAdapter(kind).validate_python({"strict": False, **each})


def test_what_was_written_is_read_again() -> None:
    again = tools_from_openai(tool_schemas(TOOLS))
    assert [(tool.name, tool.description) for tool in again] == [(tool.name, tool.description) for tool in TOOLS]
    assert again[0].input_schema == TAKES


SCHEMAS: dict[str, tuple[Any, Any]] = {
    "nothing": ({}, {"type": "object", "properties": {}}),
    "no type": ({"properties": {"a": {}}}, {"type": "object", "properties": {"a": {}}}),
    "one of several": ({"type": ["object", "null"]}, {"type": "object", "properties": {}}),
    "what is no JSON": (
        {"properties": {"a": {"enum": (1, 2)}}},
        {"type": "object", "properties": {"a": {"enum": [1, 2]}}},
    ),
}


@pytest.mark.parametrize(("given", "expected"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_is_always_that_of_an_object(given: Any, expected: Any) -> None:
    (made,) = tool_schemas([Tool(name="a", input_schema=given)], "anthropic")
    assert made["input_schema"] == expected


def test_a_schema_that_cannot_be_written_is_an_error() -> None:
    endless: dict[str, Any] = {}
    endless["properties"] = endless
    with pytest.raises(ToolError, match="cannot be written as JSON"):
        tool_schemas([Tool(name="a", input_schema=endless)])


NAMES = {
    "dots": (["shop.refund"], ["shop_refund"]),
    "other scripts": (["bestellung_für", "返金"], ["bestellung_f_r", "__"]),
    "long": (["a" * 70, "a" * 71], ["a" * 64, "a" * 62 + "_2"]),
    "the same": (["a.b", "a_b", "a b"], ["a_b", "a_b_2", "a_b_3"]),
    "the same as a number": (["a.b", "a_b", "a_b_2"], ["a_b", "a_b_2", "a_b_2_2"]),
    "a line": (["a\nb"], ["a_b"]),
}


@pytest.mark.parametrize(("given", "expected"), NAMES.values(), ids=NAMES)
def test_names_that_every_provider_takes(given: list[str], expected: list[str]) -> None:
    tools = [Tool(name=name) for name in given]
    shown = shown_names(tools)
    assert list(shown) == expected
    assert list(shown.values()) == tools
    assert [each["function"]["name"] for each in tool_schemas(shown)] == expected
    assert [each["function"]["name"] for each in tool_schemas(tools)] == expected
