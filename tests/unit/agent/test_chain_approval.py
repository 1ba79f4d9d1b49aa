"""A chain that ended since a call has to be approved: somebody answers, and the model hears what came of it."""

import json
from typing import Any

import pytest

from jazz_select.agent import run_chain
from jazz_select.agent.chain.transcript import Chain, ToolResult
from jazz_select.errors import ConfigError
from jazz_select.routing import Allow, Deny, Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message
from tests.unit.agent.turns import obj

ASK = (Message(role="system", content="You wipe disks."), Message(role="user", content="look, then wipe a and b"))


def tools(log: list[str]) -> list[Tool]:
    def named(name: str) -> Any:
        def run(disk: str) -> dict[str, str]:
            log.append(f"{name} {disk}")
            return {"did": f"{name} {disk}"}

        return run

    return [
        Tool(name="look", input_schema=obj(disk="string"), function=named("look")),
        Tool(name="wipe", input_schema=obj(disk="string"), function=named("wipe"), destructive=True),
    ]


def calls(*wanted: str) -> str:
    split = [each.split() for each in wanted]
    return json.dumps({"tool_calls": [{"tool": tool, "arguments": {"disk": disk}} for tool, disk in split]})


async def asked(log: list[str], *replies: str) -> Chain:
    chain = await run_chain(ScriptedModel(*replies), ASK, tools(log), until_asked=True)
    assert chain.status == "asked"
    return chain


@pytest.mark.spec("005.2")
async def test_a_yes_makes_the_calls_that_were_asked_about_and_the_model_hears_of_all() -> None:
    log: list[str] = []
    chain = await asked(log, calls("look a"), calls("look b", "wipe a"))
    assert [(each.tool, each.arguments) for each in chain.asked] == [("wipe", {"disk": "a"})]
    assert log == ["look a", "look b"]
    model = ScriptedModel(calls("wipe b"))
    second = await run_chain(model, ASK, tools(log), until_asked=True, after=chain, answer=Allow())
    assert ([each.arguments for each in second.asked], log) == ([{"disk": "b"}], ["look a", "look b", "wipe a"])
    heard = [each.content for each in model.calls[0]]
    assert [each.role for each in model.calls[0]] == ["system", "user", *(["assistant", "user"] * 3)]
    assert all(told in said for told, said in zip(("look a", "look b", "wipe a"), heard[3::2], strict=True))
    last = await run_chain(ScriptedModel("All wiped."), ASK, tools(log), after=second, answer=Allow())
    assert (last.status, last.answer, log[-1]) == ("answered", "All wiped.", "wipe b")
    results = [each for each in last.entries if isinstance(each, ToolResult)]
    assert [(each.tool, each.ok) for each in results] == [
        ("look", True),
        ("look", True),
        ("wipe", True),
        ("wipe", True),
    ]
    assert len({(each.round, each.id) for each in results}) == 4
    assert last.model_calls == 4


@pytest.mark.spec("005.2")
async def test_a_no_is_told_to_the_model() -> None:
    log: list[str] = []
    chain = await asked(log, calls("wipe a"))
    model = ScriptedModel("Then not.")
    last = await run_chain(model, ASK, tools(log), after=chain, answer=Deny("it is mine"))
    assert (last.status, last.answer, log) == ("answered", "Then not.", [])
    assert "not run: it is mine" in model.calls[0][-1].content


async def test_without_an_answer_it_asks_again_and_another_word_is_none() -> None:
    log: list[str] = []
    chain = await asked(log, calls("wipe a"))
    again = await run_chain(ScriptedModel(), ASK, tools(log), until_asked=True, after=chain)
    assert ([each.arguments for each in again.asked], log) == ([{"disk": "a"}], [])
    yes: Any = "yes"
    with pytest.raises(ConfigError, match=r"the answer must be Allow\(\) or Deny\(reason\)"):
        await run_chain(ScriptedModel(), ASK, tools(log), after=chain, answer=yes)


async def test_the_limit_counts_anew() -> None:
    log: list[str] = []
    chain = await asked(log, calls("look a"), calls("look b"), calls("wipe a"))
    replies = (calls("look c"), calls("look d"))
    last = await run_chain(ScriptedModel(*replies), ASK, tools(log), after=chain, answer=Allow(), chain_limit=2)
    assert (last.status, log) == ("limit", ["look a", "look b", "wipe a", "look c"])
