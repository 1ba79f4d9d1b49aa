"""Where there is too much: what is kept in a prompt and in a conversation, and what is said of the rest."""

import json
from dataclasses import replace
from typing import Any

import pytest

from jazz_select import FlowRegistry
from jazz_select.agent import Conversation
from jazz_select.agent.agent import Agent
from jazz_select.agent.chain.formatting import formatting_messages
from jazz_select.agent.chain.transcript import AssistantText, Chain, ToolRequest, ToolResult
from jazz_select.agent.conversation_view import EARLIER_CHARS
from jazz_select.json_values import storable_fields
from jazz_select.routing import CHOOSE, FlowExecutor, Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message
from tests.unit.agent.turns import agent_of, obj, shop_of

SCHEMA = obj(amount="integer")
ANSWER = AssistantText(text="It was 20.")


def chain_of(old: int, length: int, *, result: int = 20, answer: str = "It was 20.", results: int = 1) -> Chain:
    """A chain after so many old messages, with results of a length."""
    said = [Message(role=("user", "assistant")[n % 2], content=f"old {n} " + "x" * length) for n in range(old)]
    entries = [
        entry
        for n in range(results)
        for entry in (
            ToolRequest(id=f"s{n}", round=1, tool="find", requested="find"),
            ToolResult(id=f"s{n}", round=1, tool="find", ok=True, output={"amount": n, "text": "r" * result}),
        )
    ]
    return Chain(
        messages=(*said, Message(role="user", content="What did it cost?")), entries=tuple(entries), answer=answer
    )


def shown(chain: Chain, **options: Any) -> str:
    return formatting_messages(chain, SCHEMA, **options)[0].content


KEPT = [
    pytest.param(chain_of(200, 300), ["[… ", "old 199 "], ["old 0 "], id="200 old messages"),
    pytest.param(chain_of(40, 8_000), ["[… 38 messages, ", "old 38 "], ["old 37 "], id="40 long ones"),
    pytest.param(chain_of(200, 300, result=15_000), ["[… ", "old 199 "], ["old 0 "], id="a long result"),
    pytest.param(
        chain_of(40, 300, answer="a" * 30_000, result=9_000), ["a[… ", "old 39 "], ["old 0 "], id="a long answer"
    ),
    pytest.param(chain_of(2, 10, answer="a" * 30_000), ["a[… ", "old 0 "], [], id="nothing but a long answer"),
]


@pytest.mark.spec("005.14")
@pytest.mark.parametrize(("chain", "there", "gone"), KEPT)
def test_results_of_this_chain_outlast_what_was_said_before(chain: Chain, there: list[str], gone: list[str]) -> None:
    content = shown(chain)
    whole = next(line for line in shown(chain, max_chars=10**7).splitlines() if line.startswith("[tool result"))
    assert whole in content.splitlines(), "the only result, whole"
    assert '[user] "What did it cost?"' in content
    assert [each in content for each in there] == [True] * len(there)
    assert [each in content for each in gone] == [False] * len(gone)
    assert len(content) <= 24_000 + len(shown(Chain()))


@pytest.mark.spec("005.14")
def test_results_that_do_not_fit_are_cut_before_any_is_left_out_and_the_answer_stays() -> None:
    content = shown(chain_of(40, 300, result=9_000, results=5))
    results = [line for line in content.splitlines() if line.startswith("[tool result")]
    assert len(results) == 5
    assert all("chars elided]" in line and f'{{"amount": {n}, ' in line for n, line in enumerate(results))
    assert '"It was 20."' in content
    assert "old" not in content


@pytest.mark.spec("005.14")
def test_short_results_leave_their_room_to_long_ones() -> None:
    chain = chain_of(0, 0, result=50, results=5)
    long = ToolResult(id="l", round=1, tool="find", ok=True, output="z" * 100_000)
    content = shown(replace(chain, entries=(*chain.entries, long)))
    assert content.count("r" * 50) == 5
    assert content.count("z") > 20_000


@pytest.mark.spec("005.14")
async def test_a_model_that_goes_on_is_shown_the_end_of_a_long_conversation() -> None:
    model = ScriptedModel("Good day.")
    history = [Message(role=("user", "assistant")[n % 2], content=f"old {n} " + "x" * 8_000) for n in range(40)]
    await agent_of(shop_of(("both", ())), [], model=model).turn("both", history)
    system, *said, asked = model.calls[0]
    assert asked.content == "both"
    assert [each.content.split(" x")[0] for each in said] == ["old 38", "old 39"]
    assert sum(len(each.content) for each in said) <= EARLIER_CHARS
    assert "38 earlier messages of this conversation are left out" in system.content


# --- facts that are too large to keep -----------------------------------------------

LARGE = ["x" * 100] * 1_000


def erasing(
    log: list[str], wants: str = "order_ids", *, destructive: bool = True, **options: Any
) -> tuple[Agent, FlowRegistry]:
    """Finds orders, waits for a number, and erases those, or all where none are given."""

    def find() -> dict[str, Any]:
        return {"order_ids": LARGE, "shop": "s"}

    def erase(**given: Any) -> None:
        log.append("all" if given.get(wants) is None else "some")

    schema = {
        "type": "object",
        "properties": {"pin": {"type": "string"}, wants: {"type": "array"}},
        "required": ["pin"],
    }
    tools = [
        Tool(name="find", function=find),
        Tool(name="erase", input_schema=schema, function=erase, destructive=destructive),
    ]
    registry = shop_of(("both", ("find", "erase")))
    return agent_of(registry, tools, **options), registry


@pytest.mark.spec("005.14")
@pytest.mark.parametrize("wants", ["order_ids", "orderIds"])
async def test_a_destructive_step_does_not_run_without_what_was_dropped(wants: str) -> None:
    log: list[str] = []
    agent, _ = erasing(log, wants)
    first = await agent.turn("both")
    assert (first.status, first.conversation.flows[0].lost_outputs) == ("waiting", ("order_ids",))
    assert first.notes == ("both: not kept in the conversation, since it is too large or no JSON: order_ids",)
    second = await agent.turn("P-1", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("failed", [])
    assert f"erase is not run without {wants}" in second.reason


@pytest.mark.spec("005.14")
async def test_what_was_dropped_and_is_given_again_is_used() -> None:
    log: list[str] = []
    agent, _ = erasing(log)
    first = await agent.turn("both")
    second = await agent.turn("P-1", first.conversation, context={"order_ids": ["A1"]})
    assert (second.status, log, second.notes) == ("done", ["some"], ())


@pytest.mark.spec("005.14")
async def test_a_step_that_destroys_nothing_runs_without_it() -> None:
    log: list[str] = []
    agent, _ = erasing(log, destructive=False)
    first = await agent.turn("both")
    second = await agent.turn("P-1", first.conversation)
    assert (second.status, log) == ("done", ["all"])


@pytest.mark.spec("005.14")
@pytest.mark.parametrize(
    ("arguments", "erased"), [({"pin": "P-1"}, []), ({"pin": "P-1", "order_ids": ["A1"]}, ["some"])], ids=["out", "in"]
)
async def test_a_model_that_goes_on_cannot_leave_out_what_was_dropped(
    arguments: dict[str, Any], erased: list[str]
) -> None:
    log: list[str] = []
    asked: list[str] = []
    call = json.dumps({"tool_call": {"tool": "erase", "arguments": arguments}})
    model = ScriptedModel("none", "Shall I?", call, "Well.")

    def hears(call: ToolRequest) -> None:
        asked.append(call.tool)

    agent, registry = erasing(log, model=model, before_call=hears)
    both = registry.by_name("both")
    assert both is not None
    vars(both).update(chain=("find", CHOOSE))
    first = await agent.turn("both", context={"pin": "P-0"})
    assert first.status == "active"
    assert first.notes
    second = await agent.turn("yes, erase", first.conversation)
    assert (second.chain is not None, log) == (True, erased)
    assert asked == ["erase"] * len(erased)
    assert "Returned before and no longer known: order_ids." in model.calls[2][0].content


@pytest.mark.spec("005.14")
async def test_an_executor_is_told_what_was_lost() -> None:
    tool = Tool(name="erase", input_schema=obj(), function=lambda: None, destructive=True)
    wants = replace(tool, input_schema={"type": "object", "properties": {"ids": {"type": "array"}}})
    assert (await FlowExecutor([tool]).run(["erase"], lost=["ids"])).status == "ok"
    ran = await FlowExecutor([wants]).run(["erase"], lost=["ids"])
    assert (ran.status, ran.records[0].fault, ran.records[0].attempts) == ("failed", "arguments", 0)


@pytest.mark.spec("005.14")
@pytest.mark.parametrize(
    ("facts", "lost"),
    [
        ({"a": 1, "b": "x" * 100_001}, ("b",)),
        ({str(n): "x" * 40_000 for n in range(5)}, ("3", "4")),
        ({str(n): n for n in range(102)}, ("0", "1")),
        ({"a": object(), "b": 1}, ("a",)),
    ],
    ids=["one is too large", "too much together", "too many", "no JSON"],
)
def test_what_cannot_be_kept_is_named(facts: dict[str, Any], lost: tuple[str, ...]) -> None:
    kept, named = storable_fields(facts)
    assert named == lost
    assert {*kept, *named} == {*facts}


@pytest.mark.spec("011.7")
async def test_a_result_of_thirty_thousand_bytes_is_there_after_a_pause() -> None:
    log: list[Any] = []

    def find() -> dict[str, Any]:
        return {"order_ids": ["x" * 100] * 300}

    def erase(order_ids: list[str], pin: str) -> None:
        log.append((len(order_ids), pin))

    agent = agent_of(shop_of(("both", ("find", "erase"))), [find, erase])
    first = await agent.turn("both")
    assert (first.status, first.runs[0].asks) == ("waiting", ("pin",))
    second = await agent.turn("A-17", Conversation.from_json(first.conversation.to_json()))
    assert (second.status, log) == ("done", [(300, "A-17")])
