"""Keys of the index: no agent, flow or note can take the place of another, whatever they are called."""

import random

import pytest

from jazz_select import ProceduralMemory
from jazz_select.errors import ConfigError
from jazz_select.memory.engines.stored_points import note_key, point_key
from jazz_select.routing import Tool, ToolRecall, sync_tools
from jazz_select.routing.tools.tool_memory import tools_scope
from jazz_select.testing import HashEmbedder
from jazz_select.values import FlowCard

ODD = (
    "note",
    "flow",
    "support",
    "support#tools",
    "note\x1fsupport",
    "support\x1ftools",
    "\x1f",
    "#",
    "",
    " ",
    "é",
    "e\u0301",
)
PIECES = (*ODD, "e\u0301", "a", "b", "0", "\x00", "\n", "𐍈", "\ud800", "/", ":", "|")


def _names(dice: random.Random) -> list[str]:
    return ["".join(dice.choices(PIECES, k=dice.randint(1, 6))) for _ in range(110)] + list(ODD)


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("seed", range(5))
def test_no_two_agents_and_flows_and_notes_share_a_key(seed: int) -> None:
    dice = random.Random(seed)
    agents, flows = dict.fromkeys(_names(dice)), dict.fromkeys(_names(dice))
    keys = {("flow", agent, flow): point_key(agent, flow) for agent in agents for flow in flows}
    keys |= {("note", agent, ""): note_key(agent) for agent in agents}
    assert len(keys) > 9_000
    assert len(set(keys.values())) == len(keys)
    assert all(0 <= key < 1 << 63 for key in keys.values())


def _card(flow_id: str, name: str) -> FlowCard:
    return FlowCard(id=flow_id, name=name, description=name, text=name, checksum=name)


@pytest.mark.spec("005.17")
async def test_an_agent_of_an_odd_name_reads_and_deletes_nothing_of_another() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        await memory.sync("support", [_card("refund", "refund order"), _card("track", "track parcel")])
        await sync_tools(memory, "support", [Tool(name="lookup order"), Tool(name="look at parcels")])
        known = await memory.recall("refund order", "support")
        for name in ("note", "flow", "support#tools", "tools", "support ", "#tools"):
            assert await memory.list_flows(name) == []
            await memory.sync(name, [_card("support", f"flow of {name}")])
            assert [each["flow_name"] for each in await memory.recall("refund order", name)] == [
                f"flow of {name.strip()}"
            ]
            await memory.sync(name, [])
        assert await memory.recall("refund order", "support") == known
        assert (await memory.recall("refund order", "support"))[0]["confidence"] == 1.0, (
            "its note is there: it is named"
        )
        tools = [Tool(name="lookup order"), Tool(name="look at parcels")]
        found = await ToolRecall(memory, "support", top_k=1).recall("look at parcels", tools)
        assert [tool.name for tool in found] == ["look at parcels"]
        assert found.notes == ()


@pytest.mark.spec("005.17")
async def test_the_scope_of_tools_is_no_name_of_an_agent() -> None:
    async with await ProceduralMemory.open(":memory:", embedder=HashEmbedder()) as memory:
        await sync_tools(memory, "support", [Tool(name="lookup")])
        scope = tools_scope("support")
        assert [each["flow_name"] for each in await memory.list_flows(scope)] == ["lookup"]
        with pytest.raises(ConfigError, match="agent_id must be a name"):
            await memory.list_flows(str(scope))
        with pytest.raises(ConfigError, match="agent_id must be a name"):
            tools_scope(scope)
