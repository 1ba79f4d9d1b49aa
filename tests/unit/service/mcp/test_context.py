"""Who the user is, over MCP: the application at the client says it in `_meta`, and its model cannot."""

from typing import Annotated, Any

import pytest
from mcp import MCPError

from jazz_select import FromContext, Tool, tool_from_function
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.mcp.request_meta import CONTEXT
from tests.unit.service.mcp.desk import catalogue, data, said, served

pytestmark = pytest.mark.spec("017.1")
ADA = {"title": "Dune", "member": "ada"}
BEN: Any = {CONTEXT: {"member": "ben"}}
Log = list[tuple[str, str]]


def loan_tools(log: Log, *, declared: bool) -> list[Tool]:
    def find_loan(title: str, member: str) -> dict[str, str]:
        """Find a loan by the book's title."""
        log.append((title, member))
        return {"due": "2026-06-01"}

    if declared:
        find_loan.__annotations__["member"] = Annotated[str, FromContext]
    return [tool_from_function(find_loan, read_only=True)]


@pytest.mark.parametrize("declared", [False, True], ids=["by name", "declared"])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_works_for_who_is_signed_in(mode: str, declared: bool) -> None:
    log: Log = []
    async with (
        catalogue(loan_tools(log, declared=declared)) as running,
        served(AgentServer(running, listed="all"), mode=mode) as client,
    ):
        found = data(await client.call_tool("search_tools", {"request": "a loan"}, meta=BEN))
        assert "title" in str(found)
        assert "member" not in str(found)
        called = await client.call_tool("call_tool", {"name": "find_loan", "arguments": ADA}, meta=BEN)
        by_name = await client.call_tool("find_loan", ADA, meta=BEN)
        assert log == [("Dune", "ben"), ("Dune", "ben")]
        for each in (called, by_name):
            assert "were not used" in str(each.content[-1])
            assert each.structured_content == {"due": "2026-06-01"}


async def test_a_declared_name_is_in_no_list_and_a_call_without_it_names_it() -> None:
    log: Log = []
    async with (
        catalogue(loan_tools(log, declared=True)) as running,
        served(AgentServer(running, listed="all")) as client,
    ):
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools["find_loan"].input_schema["properties"]) == ["title"]
        refused = await client.call_tool("find_loan", ADA)
        assert (refused.is_error, log) == (True, [])
        assert "it needs 'member' from the context" in said(refused)


async def test_a_context_must_be_an_object() -> None:
    async with catalogue(loan_tools([], declared=True)) as running, served(AgentServer(running)) as client:
        with pytest.raises(MCPError, match="must be an object of names and values, got"):
            await client.call_tool("call_tool", {"name": "find_loan", "arguments": ADA}, meta={CONTEXT: ["ben"]})
