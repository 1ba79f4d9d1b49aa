"""`search_tools`: how sure each tool is, none where none fits, and examples that are written as tools connect."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import httpx2
import orjson
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from jazz_select import ProceduralMemory
from jazz_select.chat.decisions import decision_client_for
from jazz_select.errors import ModelError
from jazz_select.evaluation.tool_examples import examples_in_log, load_tool_examples
from jazz_select.outcomes import OutcomeLog
from jazz_select.routing import Allow, Deny, Tool
from jazz_select.routing.tools.tool_memory import tools_scope
from jazz_select.service.agents import ServedAgents
from jazz_select.service.mcp.agent_server import AgentServer
from jazz_select.service.running import RunningCatalogue
from jazz_select.testing import ScriptedDecider, ScriptedModel
from jazz_select.values import Message, RecallResult
from tests.clock import until
from tests.unit.service.mcp.desk import catalogue, data, over_http, served

VERBS = {
    "share": "Let somebody else use a {0}.",
    "delete": "Remove a {0} for good.",
    "list": "Show every {0} there is.",
    "rename": "Give a {0} another name.",
}
THINGS = ("folder", "playlist", "invoice", "meeting")
TOOLS = [
    Tool(name=f"{verb}_{thing}", description=text.format(thing), function=lambda: "done")
    for verb, text in VERBS.items()
    for thing in THINGS
]


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("request_", "right", "told"),
    [
        ("rename the playlist", "rename_playlist", ""),
        ("paint a bathroom purple", "", "so none is shown. Search again in other words"),
        ("does list_folder paint a bathroom purple?", "list_folder", "only what the request names is shown"),
    ],
    ids=["one fits", "none fits", "none fits and one is named"],
)
async def test_a_search_shows_what_fits_or_says_that_nothing_does(
    monkeypatch: pytest.MonkeyPatch, request_: str, right: str, told: str
) -> None:
    if told and right:  # a name of a tool matches its own words, so doubt is put there

        async def recall(*_: object, **__: object) -> RecallResult:
            return RecallResult(p_none=0.9)

        monkeypatch.setattr(ProceduralMemory, "recall", recall)
    async with catalogue(TOOLS) as running, served(AgentServer(running)) as client:
        found = data(await client.call_tool("search_tools", {"request": request_}))
    shown = {tool["name"]: tool.get("confidence") for tool in found["tools"]}
    if told:
        assert [*shown] == ([right] if right else [])
        assert (found["p_none"] > 0.6, len(found["notes"])) == (True, 1)
        assert told in found["notes"][0]
        assert f"P(none) {found['p_none']:.2f}" in found["notes"][0]
    else:
        assert (len(shown), found["notes"]) == (5, [])
        assert max(shown, key=lambda name: shown[name] or 0.0) == right
        assert found["p_none"] + sum(filter(None, shown.values())) <= 1.001


async def test_few_tools_are_all_shown_and_nothing_is_claimed_of_them() -> None:
    async with catalogue(TOOLS[:3]) as running, served(AgentServer(running)) as client:
        found = data(await client.call_tool("search_tools", {"request": "paint a bathroom purple"}))
    assert ([tool["name"] for tool in found["tools"]], found["p_none"], found["notes"]) == (
        sorted(tool.name for tool in TOOLS[:3]),
        None,
        [],
    )


@pytest.mark.spec("016.11")
@pytest.mark.parametrize("count", [3, len(TOOLS)], ids=["few", "many"])
async def test_a_decision_model_says_that_none_of_few_or_many_tools_fits(count: int) -> None:
    async with catalogue(TOOLS[:count]) as running:
        decider = ScriptedDecider("none", repeat=True, sure=0.99)
        running.decider = decision_client_for(decider)
        async with served(AgentServer(running)) as client:
            found = data(await client.call_tool("search_tools", {"request": "paint a bathroom purple"}))
    assert found["tools"] == []
    assert found["p_none"] > 0.6
    assert "so none is shown" in found["notes"][0]
    assert len(decider.calls) == 1


def writing(*, failing: bool = False) -> ScriptedModel:
    """A model that writes one request for each tool: what would be shouted about its thing."""

    def reply(messages: Sequence[Message]) -> str:
        if failing:
            raise ModelError("m", "it is down", retryable=False)
        name: str = orjson.loads(messages[-1].content)["procedure"]["name"]
        verb, thing = name.split("_")
        return orjson.dumps({"examples": [f"{verb} that {thing} hurrah"]}).decode()

    return ScriptedModel(reply, repeat=True)


def said_of(running: RunningCatalogue) -> dict[str, tuple[str, ...]]:
    assert running.tool_examples is not None
    return load_tool_examples(running.tool_examples).examples_for(TOOLS)


@pytest.mark.spec("016.11")
async def test_examples_are_written_as_tools_connect_and_used_without_a_model_afterwards(tmp_path: Path) -> None:
    file = tmp_path / "examples.yaml"
    model = writing()
    async with catalogue(TOOLS) as running:
        running.tool_examples, running.model = file, model
        async with served(AgentServer(running)):
            await until(file.exists)
        assert len(model.calls) == len(TOOLS)
        assert said_of(running)["rename_playlist"] == ("rename that playlist hurrah",)
    edited = file.read_text("utf-8").replace("delete that meeting hurrah", "call off what we said for noon")
    file.write_text(edited, "utf-8")
    changed = [replace(TOOLS[0], description="Hand it on."), *TOOLS[1:]]
    async with catalogue(changed) as running:
        running.tool_examples = file
        async with served(AgentServer(running)) as client:
            found = data(await client.call_tool("search_tools", {"request": "what we said for noon is off"}))
        assert "delete_meeting" in [tool["name"] for tool in found["tools"]]
        assert "share_folder" not in load_tool_examples(file).examples_for(changed)
    assert file.read_text("utf-8") == edited


@pytest.mark.spec("016.11")
async def test_only_what_is_lacking_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "examples.yaml"
    async with catalogue(TOOLS) as running:
        running.tool_examples, running.model = file, writing()
        async with served(AgentServer(running)):
            await until(file.exists)
    changed = [replace(TOOLS[0], description="Hand it on."), *TOOLS[1:]]
    model = writing()
    before = file.read_bytes()
    async with catalogue(changed) as running:
        running.tool_examples, running.model = file, model
        async with served(AgentServer(running)):
            await until(lambda: file.read_bytes() != before)
    assert [orjson.loads(call[-1].content)["procedure"]["name"] for call in model.calls] == ["share_folder"]


async def test_a_model_that_is_down_is_not_asked_without_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, model = tmp_path / "examples.yaml", writing(failing=True)
    with caplog.at_level(logging.WARNING, "jazz_select.service.mcp.connected_tools"):
        async with catalogue(TOOLS) as running:
            running.tool_examples, running.model = file, model
            server = AgentServer(running)
            async with served(server) as client:
                await until(lambda: "no examples were written for share_folder" in caplog.text)
                await asyncio.sleep(0)
                found = data(await client.call_tool("search_tools", {"request": "rename the playlist"}))
    assert "rename_playlist" in [tool["name"] for tool in found["tools"]]
    assert (file.exists(), len(model.calls)) == (False, len(TOOLS))


async def test_a_file_that_was_spoilt_changes_nothing_and_is_told(tmp_path: Path) -> None:
    file = tmp_path / "examples.yaml"
    file.write_text("tools: {share_folder: {examples: [7]}}", "utf-8")
    model = writing()
    async with catalogue(TOOLS) as running:
        running.tool_examples, running.model = file, model
        async with served(AgentServer(running)) as client:
            found = data(await client.call_tool("search_tools", {"request": "rename the playlist"}))
    assert "rename_playlist" in [tool["name"] for tool in found["tools"]]
    assert ["the examples of tools are those of before" in note for note in found["notes"]] == [True]
    assert (model.calls, file.read_text("utf-8")) == ([], "tools: {share_folder: {examples: [7]}}")


OWED = "whom do we owe how much"
NO_CALLS: list[list[str]] = [[], []]


async def first_found(running: RunningCatalogue) -> str:
    """The tool that a search of a new client finds first; empty if it finds none."""
    async with served(AgentServer(running)) as client:
        found = data(await client.call_tool("search_tools", {"request": OWED}))
    return max(found["tools"], key=lambda tool: tool["confidence"], default={"name": ""})["name"]


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("calls", "learned"),
    [
        ([["list_invoice"], ["list_invoice"]], True),
        ([["list_invoice", "list_invoice"], ["list_invoice"]], True),
        ([["list_invoice", "list_invoice"]], False),
        ([["list_invoice", "list_meeting"], ["list_invoice"]], False),
        ([["delete_invoice"], ["delete_invoice"]], False),
        (NO_CALLS, False),
    ],
    ids=["two clients", "one of them twice", "one client", "one of them for two", "what destroys", "no call"],
)
async def test_what_clients_searched_for_and_called_places_a_tool(
    tmp_path: Path, calls: Sequence[Sequence[str]], learned: bool
) -> None:
    path = tmp_path / "outcomes.db"
    tools = [replace(tool, read_only=tool.name.startswith("list_")) for tool in TOOLS]
    with OutcomeLog(path) as log:
        async with catalogue(tools, evidence=path) as running:
            running.log = log
            assert await first_found(running) != "list_invoice", "by its words alone it is not found"
            for names in calls:
                async with served(AgentServer(running, approval="never")) as client:
                    await client.call_tool("search_tools", {"request": OWED, "limit": 50})
                    for name in names:
                        await client.call_tool("call_tool", {"name": name, "arguments": {}})
            log.flush()
            assert (await first_found(running) == "list_invoice") is learned
            assert {each.agent_id for each in log.read()} == {tools_scope("support")}


@pytest.mark.spec("016.11")
@pytest.mark.parametrize(
    ("keys", "mode", "hints"),
    [(["ada", "bo"], "legacy", 2), (["ada", "ada"], "legacy", 2), (["ada", "bo"], "auto", 0)],
    ids=["two keys", "two sessions of one key", "no sessions"],
)
async def test_over_http_one_key_is_one_witness(tmp_path: Path, keys: Sequence[str], mode: str, hints: int) -> None:
    tools = [replace(tool, read_only=tool.name.startswith("list_")) for tool in TOOLS]
    names = {sha256(key.encode()).hexdigest(): key for key in ("ada", "bo")}
    with OutcomeLog(tmp_path / "outcomes.db") as log:
        async with catalogue(tools) as running:
            running.log = log
            agents = ServedAgents({"support": running}, dict.fromkeys(names, "support"), names=names)
            async with over_http(agents) as url:
                for key in keys:
                    async with (
                        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
                        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
                    ):
                        await client.call_tool("search_tools", {"request": OWED, "limit": 50})
                        await client.call_tool("call_tool", {"name": "list_invoice", "arguments": {}})
        entries = list(log.read())
        assert [each.corrected_by.key for each in entries if each.corrected_by is not None] == keys[:hints]
        counted = len(set(keys[:hints])) == 2
        assert examples_in_log(log, "support", tools) == ({"list_invoice": (OWED,)} if counted else {})


@pytest.mark.spec("016.11")
async def test_a_call_that_fails_or_is_denied_says_nothing_of_a_search(tmp_path: Path) -> None:
    def fails() -> str:
        raise ValueError("no")

    tools = [*TOOLS[:-1], Tool(name="fail_always", description="Fail.", function=fails, read_only=True)]
    with OutcomeLog(tmp_path / "outcomes.db") as log:
        async with catalogue(tools) as running:
            running.log = log
            async with served(
                AgentServer(running, approve=lambda call: Deny("no") if call.tool == "list_folder" else Allow())
            ) as client:
                await client.call_tool("search_tools", {"request": OWED, "limit": 50})
                for name in ("fail_always", "list_folder", "no_such_tool"):
                    await client.call_tool("call_tool", {"name": name, "arguments": {}})
        (entry,) = log.read()
        assert (entry.request, entry.chosen, entry.right, entry.chosen_by.kind) == (OWED, (), None, "recall")


async def test_without_a_log_nothing_is_kept_of_searches(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.db"
    with OutcomeLog(path) as log:
        async with catalogue(TOOLS, evidence=path) as running, served(AgentServer(running)) as client:
            await client.call_tool("search_tools", {"request": OWED})
            await client.call_tool("call_tool", {"name": "list_folder", "arguments": {}})
        assert list(log.read()) == []
