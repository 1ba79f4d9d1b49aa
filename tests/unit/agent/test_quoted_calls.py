"""What a model quotes, asks about or writes twice is not run where it destroys something."""

import json
from typing import Any

import pytest

from jazz_select.agent import run_chain
from jazz_select.routing import Allow, Tool, ToolAsker, run_plan, tool_from_function
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message

CALL = json.dumps({"tool_call": {"tool": "wipe", "arguments": {"disk": "a"}}})
LOOK = json.dumps({"tool_call": {"tool": "look", "arguments": {"disk": "a"}}})
ASKED = [Message(role="user", content="Have a look at disk a.")]


class Disks:
    """Counts what is done to them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def wipe(self, disk: str) -> str:
        """Wipe a disk."""
        self.done.append(f"wipe {disk}")
        return "wiped"

    def look(self, disk: str) -> str:
        """Look at a disk."""
        self.done.append(f"look {disk}")
        return "fine"

    @property
    def tools(self) -> list[Tool]:
        return [tool_from_function(self.wipe, destructive=True), tool_from_function(self.look)]


REPLIES = [
    pytest.param(CALL, True, id="the call alone"),
    pytest.param(f"```json\n{CALL}\n```", True, id="in a fence"),
    pytest.param(f"<think>They want it wiped.</think>\n{CALL}", True, id="after a thought"),
    pytest.param(f"The ticket asks to run {CALL}, which I should ignore.", False, id="a quote"),
    pytest.param(f"Should I call {CALL}?", False, id="a question"),
    pytest.param(f"{CALL}\nis what the attacker wants.", False, id="explained afterwards"),
    pytest.param(f"I will wipe it now: {CALL}", False, id="announced"),
    pytest.param(f"Perhaps {CALL[:-1]}", False, id="a quote that has to be repaired"),
]


@pytest.mark.parametrize(("reply", "runs"), REPLIES)
async def test_a_destructive_call_counts_only_where_it_is_the_whole_reply(reply: str, runs: bool) -> None:
    disks = Disks()
    chain = await run_chain(ScriptedModel(reply, "Done."), ASKED, disks.tools, approval="never")
    assert disks.done == (["wipe a"] if runs else [])
    assert (
        runs
        or "answer with the call alone" in json.dumps(chain.to_dict())
        or "unreadable" in str(chain.notes)
        or ("could not be read" in str(chain.notes))
    )


@pytest.mark.parametrize(("reply", "runs"), REPLIES)
async def test_a_plan_that_a_model_only_mentions_is_not_run(reply: str, runs: bool) -> None:
    disks = Disks()
    choice = await ToolAsker(ScriptedModel(reply), disks.tools).ask("have a look at disk a")
    asked = await run_plan(choice.plan, disks.tools)
    assert ([call.tool for call in asked.asked], disks.done) == (["wipe"] if runs else [], []), "a model made the plan"
    if runs:
        await run_plan(choice.plan, disks.tools, after=asked, answer=Allow())
    assert disks.done == (["wipe a"] if runs else [])


async def test_what_destroys_nothing_is_called_amid_prose_as_ever() -> None:
    disks = Disks()
    await run_chain(ScriptedModel(f"Let me see. {LOOK}", "Fine."), ASKED, disks.tools, approval="never")
    assert disks.done == ["look a"]


@pytest.mark.parametrize(
    ("calls", "done"),
    [
        ([("wipe", {"disk": "a"}), ("wipe", {"disk": "a"})], ["wipe a"]),
        ([("wipe", {"disk": "a"}), ("wipe", {"disk": "b"})], ["wipe a", "wipe b"]),
        ([("look", {"disk": "a"}), ("look", {"disk": "a"})], ["look a", "look a"]),
    ],
    ids=["one and the same", "two that differ", "two that only look"],
)
async def test_the_same_destructive_call_in_one_reply_runs_once(calls: list[tuple[str, Any]], done: list[str]) -> None:
    disks = Disks()
    reply = json.dumps({"tool_calls": [{"tool": tool, "arguments": arguments} for tool, arguments in calls]})
    await run_chain(ScriptedModel(reply, "Done."), ASKED, disks.tools, approval="never")
    assert disks.done == done


ANSWERS = {
    "a number": "42",
    "a negative number": "-0.5",
    "nought": "0",
    "a boolean": "false",
    "a list": '["disk a", "disk b"]',
    "a list of objects": '[{"disk": "a", "free": 3}, {"disk": "b", "free": 0}]',
    "an object": '{"disk": "a", "name": "system", "free": {"bytes": 3}}',
    "in quotes": '"42"',
}


@pytest.mark.parametrize("reply", ANSWERS.values(), ids=ANSWERS)
async def test_a_closing_answer_may_be_json(reply: str) -> None:
    chain = await run_chain(ScriptedModel(LOOK, reply), ASKED, Disks().tools)
    assert (chain.status, chain.answer, chain.notes) == ("answered", reply.strip('"'), ())


BROKEN_CALLS = {
    "a tool as a key": '{"look": {"disk": "a"}}',
    "a tool as a value": '{"action": "look", "disk": "a"}',
    "in a list": '[{"op": "look"}]',
    "another shape": '{"function_call": {"disk": "a"}}',
    "arguments alone": '{"arguments": {"disk": "a"}}',
    "within something else": '{"answer": {"tool_call": {"tool": "look", "arguments": {"disk": "a"}}}}',
    "a description": '{"name": "x", "description": "d", "parameters": {"type": "object"}}',
    "nothing": "null",
    "an empty list": "[]",
    "an empty object": "{}",
}


@pytest.mark.parametrize("reply", BROKEN_CALLS.values(), ids=BROKEN_CALLS)
async def test_json_that_may_be_a_broken_call_is_told_once(reply: str) -> None:
    disks = Disks()
    model = ScriptedModel(reply, "Fine.")
    chain = await run_chain(model, ASKED, disks.tools)
    assert (chain.answer, disks.done, len(chain.notes)) == ("Fine.", [], 1)
    assert "could not be read" in chain.notes[0]


async def test_a_plan_asks_for_nothing_where_the_answer_is_json() -> None:
    choice = await ToolAsker(ScriptedModel("[1, 2]"), Disks().tools).ask("which disks are there?")
    assert (choice.text, choice.plan.steps) == ("[1, 2]", ())
