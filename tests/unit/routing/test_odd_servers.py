"""Servers as they are: one odd tool is left out and named, and an answer is given back whatever was declared."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jazz_select.agent.chain.loop import run_chain
from jazz_select.errors import ToolError
from jazz_select.routing import Tool, run_plan, tools_from_mcp, tools_from_openai, tools_from_session
from jazz_select.routing.records import StepOutcome
from jazz_select.routing.tools.sources import ListedTools
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.testing import ScriptedModel
from tests.unit.routing.raw_mcp import RawServer

pytest.importorskip("mcp", reason="the extra mcp is not installed")

NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
FINE: dict[str, Any] = {"name": "list_shelves", "inputSchema": NOTHING}
LAST: dict[str, Any] = {"name": "list_rooms", "inputSchema": NOTHING}


def circular() -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object"}
    found["properties"] = {"again": found}
    return found


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"a": found}}
    return found


ODD: list[tuple[str, Any, str]] = [
    ("a text for a schema", {"name": "odd", "inputSchema": "object"}, "inputSchema must be a JSON Schema as a mapping"),
    ("a list for a schema", {"name": "odd", "inputSchema": [1]}, "inputSchema must be a JSON Schema as a mapping"),
    ("no type at all", {"name": "odd", "inputSchema": {"type": 5}}, "inputSchema: "),
    ("no properties", {"name": "odd", "inputSchema": {"type": "object", "properties": ["a"]}}, "inputSchema: "),
    ("a text for arguments", {"name": "odd", "inputSchema": {"type": "string"}}, "inputSchema takes no object"),
    ("a circle", {"name": "odd", "inputSchema": {"$ref": "#"}}, "refers to itself in a circle"),
    ("a circle of two", {"name": "odd", "inputSchema": {"$ref": "#/$defs/a", "$defs": {
        "a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}}, "refers to itself in a circle"),
    ("leads nowhere", {"name": "odd", "inputSchema": {"$ref": "#/$defs/gone"}}, "inputSchema: "),
    ("leads to a page", {"name": "odd", "inputSchema": {"$ref": "https://example.org/s.json"}}, "inputSchema: "),
    ("huge", {"name": "odd", "inputSchema": {**NOTHING, "description": "x" * 600_000}}, "at most 500000 bytes"),
    ("deep", {"name": "odd", "inputSchema": deep(150)}, "inputSchema"),
    ("an output that is none", {"name": "odd", "inputSchema": NOTHING, "outputSchema": 5}, "outputSchema must be"),
    ("no name", {"inputSchema": NOTHING}, "it has no name"),
    ("a blank name", {"name": " ", "inputSchema": NOTHING}, "it has no name"),
    ("a number for a name", {"name": 7, "inputSchema": NOTHING}, "it has no name"),
    ("a long name", {"name": "x" * 501, "inputSchema": NOTHING}, "its name must have at most 500 characters, got 501"),
    ("the name of another", {"name": "list_shelves", "inputSchema": NOTHING}, "it is listed twice"),
]  # fmt: skip
IN_PROCESS: list[tuple[str, Any, str]] = [
    ("half a character in a name", {"name": "a\ud800", "inputSchema": NOTHING}, "half a character"),
    ("half a character in a schema", {"name": "odd", "inputSchema": {"title": "\ud800"}}, "inputSchema is no JSON"),
    ("a schema of objects", {"name": "odd", "inputSchema": {"default": object()}}, "inputSchema is no JSON"),
    ("a schema in itself", {"name": "odd", "inputSchema": circular()}, "inputSchema is no JSON"),
    ("nothing", None, "an entry of a listing must be a mapping"),
    ("a text", "odd", "an entry of a listing must be a mapping"),
]
FINE_ALL_THE_SAME: dict[str, Any] = {
    "a union": {"anyOf": [{"type": "object", "required": ["a"]}, {"type": "object", "required": ["b"]}]},
    "null": None,
    "true": True,
    "an empty list, as PHP writes an object": [],
    "nothing": {},
    "unset keywords as null": {"type": "object", "properties": None, "required": None, "$defs": None, "anyOf": None},
    "unset keywords within": {"type": "object", "properties": {"a": {"type": "string", "enum": None, "items": None}}},
    "a property of which nothing is said": {"type": "object", "properties": {"a": None}},
    "no properties, as PHP writes an object": {"type": "object", "properties": []},
    "a type or null": {"type": ["object", "null"]},
    "a tree": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}},
    "a pattern no engine takes": {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=a)b"}}},
}

Listing = Callable[[list[Any]], Awaitable[ListedTools]]


async def without_session(entries: list[Any]) -> ListedTools:
    return tools_from_mcp({"tools": entries})


async def by_session(entries: list[Any], page: int = 1_000) -> ListedTools:
    async with RawServer(entries, page=page).session() as session:
        (found,) = await asyncio.gather(tools_from_session(session, provider="raw"), return_exceptions=True)
    if isinstance(found, BaseException):  # not in the session, which puts errors into groups
        raise found
    return found


async def page_by_page(entries: list[Any]) -> ListedTools:
    return await by_session(entries, page=1)


LISTINGS: dict[str, Listing] = {"listing": without_session, "session": by_session, "pages": page_by_page}
everywhere = pytest.mark.parametrize("listed", LISTINGS.values(), ids=LISTINGS)


@everywhere
@pytest.mark.parametrize(("entry", "told"), [pytest.param(*row[1:], id=row[0]) for row in ODD])
async def test_one_odd_tool_is_left_out_and_named_and_the_others_stay(
    listed: Listing, entry: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = await listed([FINE, entry, LAST])
    assert [tool.name for tool in tools] == ["list_shelves", "list_rooms"]
    (odd,) = tools.left_out
    name = entry.get("name")
    assert odd.tool == (name if isinstance(name, str) and 0 < len(name.strip()) <= 500 else "#1")
    assert told in odd.problem
    assert len(odd.problem) < 700
    assert odd.tool in caplog.text


@pytest.mark.parametrize(("entry", "told"), [pytest.param(*row[1:], id=row[0]) for row in IN_PROCESS])
def test_what_no_server_can_send_is_left_out_of_a_listing_too(entry: Any, told: str) -> None:
    tools = tools_from_mcp([FINE, entry, LAST])
    assert [tool.name for tool in tools] == ["list_shelves", "list_rooms"]
    assert told in tools.left_out[0].problem


@everywhere
@pytest.mark.parametrize("schema", FINE_ALL_THE_SAME.values(), ids=FINE_ALL_THE_SAME)
async def test_what_the_sdk_refuses_and_can_be_called_stays(listed: Listing, schema: Any) -> None:
    tools = await listed([FINE, {"name": "find_book", "inputSchema": schema}, LAST])
    assert [tool.name for tool in tools] == ["list_shelves", "find_book", "list_rooms"]
    assert tools.left_out == ()


def test_nulls_that_a_schema_gives_as_values_stay() -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", None], "default": None, "const": None}}}
    (tool,) = tools_from_mcp([{"name": "find_book", "inputSchema": {**schema, "required": None}}])
    assert tool.input_schema == schema


@everywhere
async def test_a_listing_of_odd_tools_alone_is_an_error_that_names_one(listed: Listing) -> None:
    with pytest.raises(ToolError, match="tool 'odd': inputSchema must be a JSON Schema"):
        await listed([{"name": "odd", "inputSchema": "object"}])


def test_of_many_odd_tools_each_is_named_and_not_each_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    tools = tools_from_mcp([FINE, *({"name": f"odd_{number}", "inputSchema": 5} for number in range(500))])
    assert len(tools.left_out) == 500
    assert len(caplog.records) == 20


def test_an_odd_declaration_is_left_out_likewise() -> None:
    fine = {"type": "function", "function": {"name": "fine", "parameters": NOTHING}}
    tools = tools_from_openai([fine, {"name": "odd", "parameters": {"type": "string"}}, {"name": "fine"}, 5])
    assert [tool.name for tool in tools] == ["fine"]
    assert [each.tool for each in tools.left_out] == ["odd", "fine", "#3"]


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_in_a_file_of_tools_it_is_left_out_and_named(tmp_path: Any, suffix: str, caplog: Any) -> None:
    file = tmp_path / f"tools{suffix}"
    file.write_text(json.dumps({"tools": [FINE, {"name": "odd", "inputSchema": {"type": "string"}}, LAST]}), "utf-8")
    assert list(load_tools(file)) == ["list_shelves", "list_rooms"]
    assert "tool=<odd>, problem=<inputSchema takes no object" in caplog.text


# --- answers --------------------------------------------------------------------

COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


def text(said: object) -> dict[str, Any]:
    return {"type": "text", "text": said}


PICTURE = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
ANSWERS: list[tuple[str, Any, Any, object]] = [
    ("what is declared", COUNT, {"content": [], "structuredContent": {"count": 7}}, {"count": 7}),
    ("text of it", COUNT, {"content": [text('{"count": 7}')]}, {"count": 7}),
    ("text", COUNT, {"content": [text("seven")]}, "seven"),
    ("text of something else", COUNT, {"content": [text('{"n": 7}')]}, '{"n": 7}'),
    ("text of a list", {"type": "array"}, {"content": [text("[7]")]}, [7]),
    ("text of a number", {"type": "integer"}, {"content": [text("7")]}, 7),
    ("text for a text", {"type": "string"}, {"content": [text("7")]}, "7"),
    ("a part outside of a list", None, {"content": text("seven")}, "seven"),
    ("two texts", COUNT, {"content": [text("one"), text("two")]}, "one\ntwo"),
    ("something else", COUNT, {"content": [], "structuredContent": {"count": "x"}}, {"count": "x"}),
    ("a list for an object", COUNT, {"content": [], "structuredContent": [7]}, [7]),
    ("null for an object", COUNT, {"content": [text("none")], "structuredContent": None}, "none"),
    ("nothing", COUNT, {"content": []}, None),
    ("no content", COUNT, {}, None),
    ("a picture", COUNT, {"content": [PICTURE]}, {"type": "image", "mimeType": "image/png", "bytes": 3}),
    ("a part of another time", None, {"content": [{"type": "hologram", "name": "h"}]},
     {"type": "hologram", "name": "h"}),
    ("a picture without its kind", None, {"content": [{"type": "image", "data": "QUJD"}]},
     {"type": "image", "bytes": 3}),
    ("a page", COUNT, {"content": [{"type": "resource", "resource": {"uri": "u:p", "text": "hello"}}]},
     {"type": "resource", "uri": "u:p", "text": "hello"}),
    ("a number for a text", None, {"content": [text(5)]}, ""),
    ("a schema of no use", {"type": "object", "$ref": "#/$defs/gone"}, {"content": [text("seven")]}, "seven"),
]  # fmt: skip


async def once(answer: Any, schema: Any) -> tuple[StepOutcome, RawServer]:
    entry = {"name": "count_books", "inputSchema": NOTHING, **({} if schema is None else {"outputSchema": schema})}
    server = RawServer([entry], {"count_books": answer})
    async with server.session() as session:
        tools = await tools_from_session(session, trusted=True, destructive=False)
        (step,) = (await run_plan({"tool_calls": [{"tool": "count_books", "arguments": {}}]}, tools)).steps
    return step, server


@pytest.mark.spec("005.10")
@pytest.mark.parametrize(("schema", "answer", "output"), [pytest.param(*row[1:], id=row[0]) for row in ANSWERS])
async def test_what_a_server_answers_is_given_back_whatever_it_declares(
    schema: Any, answer: Any, output: object
) -> None:
    step, server = await once(answer, schema)
    assert (step.error, step.output) == (None, output)
    assert server.called == [("count_books", {})]


async def test_that_it_is_not_what_was_declared_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await once({"content": [text("seven")]}, COUNT)
    assert "tool=<count_books>" in caplog.text
    assert "answered otherwise than its tool declares" in caplog.text


FAILURES: list[tuple[str, Any, str]] = [
    ("with text", {"content": [text("closed")], "isError": True}, "count_books failed: closed"),
    ("beside a structure", {"content": [text("no")], "structuredContent": {"count": 7}, "isError": True}, "failed: no"),
    ("in a structure", {"content": [], "structuredContent": {"code": 4}, "isError": True}, 'not why: {"code":4}'),
    ("in an odd part", {"content": [{"type": "hologram"}], "isError": True}, "it said that it failed, and not why"),
]


@pytest.mark.parametrize(("answer", "told"), [pytest.param(*row[1:], id=row[0]) for row in FAILURES])
async def test_a_failure_is_one_whatever_is_declared(answer: Any, told: str) -> None:
    step, server = await once(answer, COUNT)
    assert step.error is not None
    assert (step.status, step.error.unknown) == ("failed", False)
    assert told in step.error.message
    assert len(server.called) == 1


async def test_a_model_reads_the_text() -> None:
    entry = {"name": "count_books", "inputSchema": NOTHING, "outputSchema": COUNT}
    async with RawServer([entry], {"count_books": {"content": [text("Seven, I think.")]}}).session() as session:
        tools = await tools_from_session(session, trusted=True, destructive=False)
        model = ScriptedModel('{"tool_call": {"tool": "count_books", "arguments": {}}}', "Seven.")
        chain = await run_chain(model, "How many?", tools)
    assert chain.answer == "Seven."
    assert "Seven, I think." in model.calls[1][-1].content


async def test_a_server_in_this_process_is_called_once_as_any_other() -> None:
    mcp: Any = pytest.importorskip("mcp.server")
    client: Any = pytest.importorskip("mcp")
    made: list[int] = []
    server = mcp.MCPServer("here")

    @server.tool()
    def double(number: int) -> int:
        made.append(number)
        return 2 * number

    for mode in ("legacy", "auto"):
        async with client.Client(server, mode=mode) as session:
            (tool,) = await tools_from_session(session, trusted=True, destructive=False)
            plan = {"tool_calls": [{"tool": "double", "arguments": {"number": 4}}]}
            (step,) = (await run_plan(plan, [tool])).steps
            assert (step.error, step.output) == (None, {"result": 8})
    assert made == [4, 4]


# --- what is in a group ------------------------------------------------------------


class Falls:
    """A session whose tasks fail together, as those of the SDK do."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def list_tools(self) -> Any:
        raise self.error

    async def call_tool(self, name: str, arguments: Any) -> Any:
        raise self.error


NESTED = ExceptionGroup("unhandled errors in a TaskGroup", [ExceptionGroup("more", [ConnectionError("refused: 8420")])])
MANY = ExceptionGroup("many", [OSError(f"disk {number}") for number in range(10)])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NESTED, "ConnectionError: refused: 8420"),
        (MANY, "OSError: disk 0; OSError: disk 1; OSError: disk 2; and 7 more"),
        (BaseExceptionGroup("left", [asyncio.CancelledError(), ValueError("x")]), "CancelledError; ValueError: x"),
    ],
    ids=["nested", "many", "cancelled"],
)
async def test_the_cause_in_a_group_is_told(error: BaseException, told: str) -> None:
    with pytest.raises(ToolError) as caught:
        await tools_from_session(Falls(error), provider="shop")
    assert told in str(caught.value)
    assert "sub-exception" not in str(caught.value)
    with pytest.raises(ToolError, match="could not list"):
        await tools_from_session(Falls(error))
    tool = Tool(name="get_it", function=Falls(error).list_tools)
    (step,) = (await run_plan({"tool_calls": [{"tool": "get_it", "arguments": {}}]}, [tool])).steps
    assert step.error is not None
    assert told in step.error.message
