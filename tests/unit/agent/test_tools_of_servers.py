"""An agent with the tools of an MCP server: what its server says nothing of is asked about, and done on a yes."""

from typing import Any

import pytest

from jazz_select.routing import tools_from_session
from tests.unit.agent.turns import agent_of, shop_of


class Session:
    """A server with two tools: it says of one that it only reads, and nothing of the other."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def list_tools(self) -> object:
        wants = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
        return {
            "tools": [
                {"name": "look", "inputSchema": wants, "annotations": {"readOnlyHint": True}},
                {"name": "cancel", "inputSchema": wants},
            ]
        }

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> object:
        self.asked.append((name, arguments))
        return {"content": [], "structuredContent": {f"{name}_said": "done"}}


@pytest.mark.spec("005.10")
@pytest.mark.parametrize(
    ("trust", "confirming"),
    [({"trusted": True}, True), ({"trusted": True, "destructive": False}, False)],
    ids=["silent", "harmless"],
)
async def test_a_tool_of_which_its_server_says_nothing_is_asked_about(trust: Any, confirming: bool) -> None:
    session = Session()
    tools = await tools_from_session(session, **trust)
    agent = agent_of(shop_of(("cancel_it", ("look", "cancel"))), tools, "cancel_it", approval="destructive")
    turn = await agent.turn("cancel it", context={"order": "A1"})
    looked, cancelled = [("look", {"order": "A1"})], [("cancel", {"order": "A1"})]
    assert session.asked == (looked if confirming else looked + cancelled)
    assert (turn.status == "confirming") is confirming
    if confirming:
        assert "Cancel (" in turn.text
        done = await agent.turn("yes", turn.conversation, context={"order": "A1"})
        assert session.asked == looked + cancelled
        assert done.status != "confirming"
