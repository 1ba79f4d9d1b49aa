"""A model that asks for the same destroying call again: in one reply, in one chain, in a later turn."""

import json
from typing import Any

import pytest

from jazz_select import ParallelFlow
from jazz_select.agent import Conversation, run_chain
from jazz_select.agent.chain.transcript import Chain, ToolResult
from jazz_select.routing import GuidedDecisionPoint, Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message
from tests.agents import TAKE_FIRST
from tests.unit.agent.turns import agent_of, destroyer, obj, shop_of

ASK = (Message(role="user", content="wipe a"),)


def wipe(log: list[str], *, fails: int = 0, idempotent: bool = False, destructive: bool = True) -> Tool:
    def run(disk: str) -> dict[str, str]:
        log.append(disk)
        if len(log) <= fails:
            msg = "no line"
            raise ConnectionError(msg)
        return {"wiped": disk}

    return Tool(
        name="wipe", input_schema=obj(disk="string"), function=run, destructive=destructive, idempotent=idempotent
    )


def calls(*disks: str) -> str:
    return json.dumps({"tool_calls": [{"tool": "wipe", "arguments": {"disk": disk}} for disk in disks]})


def open_flow(tool: Tool, *replies: str, approval: str = "never", **options: Any) -> Any:
    registry = shop_of(("both", ()))
    flow = registry.by_name("both")
    assert flow is not None
    vars(flow).update(tools=("wipe",))
    return agent_of(registry, [tool], model=ScriptedModel(*replies), approval=approval, **options)


def results(chain: Chain | None) -> list[ToolResult]:
    assert chain is not None
    return [each for each in chain.entries if isinstance(each, ToolResult)]


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("replies", "tool", "ran"),
    [
        pytest.param((calls("a", "a"),), {}, ["a"], id="twice in one reply"),
        pytest.param((calls("a"), calls("a"), calls("a")), {}, ["a"], id="in each reply"),
        pytest.param((calls("a"), calls("a"), calls("a")), {"fails": 1}, ["a"], id="after it failed"),
        pytest.param((calls("a", "b"), calls("b", "c")), {}, ["a", "b", "c"], id="with other arguments"),
        pytest.param((calls("a"), calls("a")), {"fails": 1, "idempotent": True}, ["a", "a"], id="it may be"),
        pytest.param((calls("a"), calls("a")), {"destructive": False}, ["a", "a"], id="it destroys nothing"),
    ],
)
@pytest.mark.parametrize("door", ["a chain", "an agent"])
async def test_the_same_call_is_made_once_in_a_chain(
    door: str, replies: tuple[str, ...], tool: dict[str, Any], ran: list[str]
) -> None:
    log: list[str] = []
    made = wipe(log, **tool)
    if door == "a chain":
        chain: Chain | None = await run_chain(ScriptedModel(*replies, "Done."), ASK, [made], approval="never")
    else:
        chain = (await open_flow(made, *replies, "Done.").turn("both")).chain
    assert log == ran
    refused = [each for each in results(chain) if each.fault in {"repeated", "arguments"}]
    assert len(refused) == len(results(chain)) - len(ran)
    told = [each.error for each in refused if each.fault == "repeated"]
    became = "came to this, and may have been done all the same: wipe failed: ConnectionError: no line"
    expected = became if tool.get("fails") else 'returned {"wiped"'
    assert all(f"not run again: wipe was run just now with these arguments, and {expected}" in each for each in told)


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("fails", "before"),
    [
        (0, "This has already been done and would be done again:"),
        (1, "This failed before, may have been done all the same, and would be tried again:"),
    ],
    ids=["it was done", "it failed"],
)
@pytest.mark.parametrize("approval", ["never", "destructive"])
async def test_in_a_later_turn_of_the_flow_it_is_asked_about_whatever_the_policy(
    approval: str, fails: int, before: str
) -> None:
    log: list[str] = []
    agent = open_flow(wipe(log, fails=fails), calls("a"), "Hm.", calls("a"), "Done.", approval=approval)
    first = await agent.turn("both")
    if approval == "destructive":
        first = await agent.turn("yes", first.conversation)
    assert (first.status, log) == ("active", ["a"])
    asked = await agent.turn("well?", Conversation.from_json(first.conversation.to_json()))
    assert (asked.status, log) == ("confirming", ["a"])
    assert asked.text == f"{before} Wipe (disk: a). Shall I go on, yes or no?"
    done = await agent.turn("yes", Conversation.from_json(asked.conversation.to_json()))
    assert (done.text, log) == ("Done.", ["a", "a"])


@pytest.mark.spec("005.4")
async def test_in_a_later_turn_of_the_flow_another_call_is_not_asked_about() -> None:
    log: list[str] = []
    agent = open_flow(wipe(log), calls("a"), "Hm.", calls("b"), "Done.")
    first = await agent.turn("both")
    done = await agent.turn("well?", Conversation.from_json(first.conversation.to_json()))
    assert (done.text, log) == ("Done.", ["a", "b"])


class FailsOnce:
    """A store of claims."""

    def __init__(self) -> None:
        self.fails = True

    async def claim(self, call_id: str, fingerprint: str) -> None:
        assert call_id
        assert fingerprint
        if self.fails:
            self.fails = False
            raise OSError

    async def settle(self, call_id: str, outcome: str) -> None: ...


@pytest.mark.spec("005.4")
@pytest.mark.parametrize(
    ("options", "first"),
    [
        pytest.param({"chain_limit": 2}, (calls(), calls("a")), id="at the limit of the chain"),
        pytest.param({"claims": FailsOnce()}, (calls("a"), "Hm."), id="it could not be claimed"),
    ],
)
async def test_a_call_that_was_refused_is_neither_told_as_done_nor_doubted(
    options: dict[str, Any], first: tuple[str, ...]
) -> None:
    log: list[str] = []
    agent = open_flow(wipe(log), *first, calls("a"), "Done.", **options)
    refused = await agent.turn("both")
    assert (refused.status, log) == ("active", [])
    assert refused.conversation.active.final == ()
    made = await agent.turn("well?", refused.conversation)
    assert (made.text, log) == ("Done.", ["a"])
    assert made.conversation.active.final == ("wipe",)


@pytest.mark.spec("005.4")
async def test_a_yes_does_again_what_the_question_named_and_no_more() -> None:
    log: list[str] = []
    registry = shop_of(("one", ("wipe_a",)), ("other", ("wipe_b",)))
    ParallelFlow(name="both", description="d", condition="c", flows=["one", "other"], examples=[], registry=registry)
    failing = [True, True]

    def tool(name: str) -> Tool:
        def run() -> None:
            log.append(name)
            if failing:
                failing.pop()
                raise ConnectionError

        return Tool(name=name, function=run, destructive=True)

    agent = agent_of(registry, [tool("wipe_a"), tool("wipe_b")])
    first = await agent.turn("both")
    assert (first.status, sorted(log)) == ("failed", ["wipe_a", "wipe_b"])
    log.clear()
    second = await agent.turn("both", first.conversation)
    third = await agent.turn("yes", second.conversation)
    assert [second.status, third.status, *log] == ["confirming", "confirming", "wipe_a"]
    assert ["Wipe a" in second.text, "Wipe b" in second.text, "Wipe b" in third.text] == [True, False, True]
    last = await agent.turn("yes", third.conversation)
    assert (last.status, log) == ("done", ["wipe_a", "wipe_b"])


@pytest.mark.spec("005.3")
async def test_what_a_point_falls_back_to_counts_as_destroying() -> None:
    """Its candidates are harmless; what runs where the choice fails is not."""
    log: list[str] = []
    registry = shop_of(("both", ("look",)))
    flow = registry.by_name("both")
    assert flow is not None
    point = GuidedDecisionPoint(after_step="look", candidate_tools=["note", "mail"], fallback_tool="wipe")
    vars(flow).update(tools=("look", "note", "mail", "wipe"), chain=("look", point))

    class Fails:
        def decide(self, context: Any, candidates: Any, prompt: Any) -> str:
            raise ConnectionError

    def plain(name: str) -> Tool:
        return Tool(name=name, input_schema=obj(), function=lambda: {"seen": name})

    tools = [plain("look"), plain("note"), plain("mail"), destroyer("wipe", log)]
    agent = agent_of(registry, tools, decision_callback=Fails(), approval="destructive", policy=TAKE_FIRST)
    denied = await agent.turn("I don't want both")
    asked = await agent.turn("both")
    assert (denied.flows, asked.status, log) == ([], "confirming", [])
    assert (await agent.turn("yes", asked.conversation)).status == "done"
    assert log == ["wipe"]
