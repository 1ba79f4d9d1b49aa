"""Tools from functions, models and listings."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from jazz_select.errors import ConfigError, ToolError
from jazz_select.routing import FlowExecutor, ToolAsker, Toolbox
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.routing.tools.sources import tools_from_mcp, tools_from_openai
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel


class Order(BaseModel):
    """An order."""

    order_id: str
    amount: int = 0


async def refund(order: Order, reason: Literal["broken", "late"], note: str | None = None) -> Order:
    """Give money back."""
    return order


def test_from_a_function() -> None:
    tool = tool_from_function(refund, provider="shop", capabilities=["Order:refund"], destructive=True)
    assert (tool.name, tool.id, tool.description) == ("refund", "shop.refund", "Give money back.")
    assert tool.input_schema["required"] == ["order", "reason"]
    assert tool.input_schema["properties"]["reason"]["enum"] == ["broken", "late"]
    assert tool.output_schema is not None
    assert set(tool.output_schema["properties"]) == {"order_id", "amount"}
    assert (tool.capabilities, tool.destructive) == (("order.refund",), True)


@pytest.mark.parametrize("given", [Tool, "refund"], ids=["the class", "a name"])
@pytest.mark.parametrize("door", [Toolbox, NameIndex, FlowExecutor, partial(ToolAsker, ScriptedModel())])
def test_what_is_no_tool_is_refused_where_tools_are_wanted(door: Callable[[Any], object], given: object) -> None:
    with pytest.raises(ConfigError, match="tools must be Tools"):
        door([given])


def test_a_toolbox_itself_takes_tools_alone() -> None:
    with pytest.raises(ConfigError, match="tools must be Tools"):
        Toolbox([refund])  # pyright: ignore[reportArgumentType]


def test_what_is_not_annotated_may_be_anything() -> None:
    def loose(a, b=1):  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType]
        """Do."""

    tool = tool_from_function(loose)  # pyright: ignore[reportUnknownArgumentType]
    assert (tool.input_schema["required"], tool.output_schema) == (["a"], None)


def _positional(*values: int) -> None: ...


class _Odd:
    """No schema can be made of it."""


def _odd(value: _Odd) -> None: ...


@pytest.mark.parametrize("function", [_positional, _odd], ids=["positional", "no schema"])
def test_a_signature_that_cannot_be_told_is_refused_by_name(function: Any) -> None:
    with pytest.raises(ToolError, match=f"tool '{function.__name__}'"):
        tool_from_function(function)


LISTING: dict[str, Any] = {
    "tools": [
        {
            "name": "delete_file",
            "description": "Delete.",
            "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
            "outputSchema": {"type": "object"},
            "annotations": {"destructiveHint": True},
        },
        {"name": "read_file", "title": "Read a file", "inputSchema": {}, "annotations": {"readOnlyHint": True}},
        {"name": "plain", "inputSchema": {}},
    ]
}


async def test_from_a_server() -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    async def call(name: str, arguments: dict[str, Any]) -> str:
        seen.append((name, arguments))
        return "done"

    delete, read, plain = tools_from_mcp(LISTING, provider="files", call=call, trusted=True)
    assert (delete.destructive, read.destructive, plain.destructive) == (True, False, True)
    assert (delete.id, read.description, plain.output_schema) == ("files.delete_file", "Read a file", None)
    assert delete.function is not None
    pending: Any = delete.function(path="x")
    assert (await pending, seen) == ("done", [("delete_file", {"path": "x"})])


def test_from_declarations_of_functions() -> None:
    inner = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
    wrapped, flat = tools_from_openai([{"type": "function", "function": inner}, {**inner, "name": "sub"}])
    assert (wrapped.name, flat.name, wrapped.description) == ("add", "sub", "Add.")


UNREADABLE: list[tuple[Any, str]] = [
    (5, "a listing must be a list of tools"),
    ({"other": []}, "a listing must be a list of tools"),
    (["x"], "an entry of a listing must be a mapping"),
    ([{}], "it has no name"),
    ([{"name": "a", "inputSchema": 5, "parameters": 5}], "must be a JSON Schema as a mapping"),
]


@pytest.mark.parametrize(("listing", "told"), UNREADABLE, ids=str)
@pytest.mark.parametrize("read", [tools_from_mcp, tools_from_openai], ids=["mcp", "openai"])
def test_a_listing_that_cannot_be_read_says_why(read: Any, listing: object, told: str) -> None:
    with pytest.raises(ToolError, match=told):
        read(listing)


@pytest.mark.spec("004.1")
@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("Calendar:listEvents", "calendar.list.events"),
        ("cal/list-events", "calendar.list.events"),
        ("E-Mail.Send", "email.send"),
    ],
)
def test_capabilities_have_one_form(given: str, form: str) -> None:
    assert Tool(name="a", capabilities=(given, given)).capabilities == (form,)


@pytest.mark.parametrize("fields", [{"name": " "}, {"name": 5}, {"name": "a", "input_schema": []}], ids=str)
def test_a_tool_checks_itself(fields: Any) -> None:
    with pytest.raises(ToolError):
        Tool(**fields)
