"""The MCP server that the conformance suite asks for, as far as it is about tools: it stands behind the gateway."""

import asyncio
import base64
from typing import Any

from mcp import types
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = base64.b64encode(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0data\0\0\0\0"
).decode()
READS = types.ToolAnnotations(read_only_hint=True)
DESTROYS = types.ToolAnnotations(destructive_hint=True)
ADDRESS: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def resource(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    """A resource within an answer."""
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def text(said: str) -> types.TextContent:
    """A text within an answer."""
    return types.TextContent(text=said)


ANSWERS: dict[str, list[types.ContentBlock]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [types.ImageContent(data=PIXEL, mime_type="image/png")],
    "test_audio_content": [types.AudioContent(data=SOUND, mime_type="audio/wav")],
    "test_embedded_resource": [
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ],
    "test_tool_with_progress": [text("done")],
    "json_schema_2020_12_tool": [text("fits")],
}
APPROVED = (
    "test_input_required_result_elicitation",
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_input_required_result_capabilities",
)
"""Tools that say that they destroy something: the gateway itself asks for them."""


async def list_tools(
    _: ServerRequestContext[Any, Any], __: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """Every tool; only one takes arguments."""
    tools = [
        types.Tool(
            name=name,
            description=f"For the suite: {name}.",
            input_schema=ADDRESS if name.startswith("json_schema") else {"type": "object"},
            annotations=READS,
        )
        for name in (*ANSWERS, "test_error_handling")
    ]
    tools += [
        types.Tool(name=name, description="Asked for.", input_schema={"type": "object"}, annotations=DESTROYS)
        for name in APPROVED
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(
    context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """What the suite expects of each."""
    if params.name == "test_error_handling":
        said = "This tool intentionally returns an error for testing"
        return types.CallToolResult(content=[text(said)], is_error=True)
    if params.name == "test_tool_with_progress":
        for share in (0, 50, 100):
            await context.session.report_progress(share, 100)
            await asyncio.sleep(0.05)
    return types.CallToolResult(content=ANSWERS.get(params.name, [text("approved: state-ok")]))


async def main() -> None:
    """Serve over standard in- and output."""
    server: Server[Any] = Server("everything", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
