"""Conversations whose prompts only grow: each begins with what the one before it began with; nothing else changes."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select import FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.conversation import LONGEST_STORED, MOST_CALLS
from jazz_select.agent.flows.open_flows import MOST_TOKENS
from jazz_select.errors import ConfigError, SnapshotError
from jazz_select.routing import Tool
from jazz_select.selector.prompt import MOST_SHOWN, FirstShown, PromptHistoryRecorder
from jazz_select.testing import ListMemory, ScriptedModel
from jazz_select.values import Message, flow_id
from tests.agents import make_agent
from tests.depth import examples
from tests.unit.agent.talks import FLOWS, Mind, calls, chooses, shop_agent, shop_flows, shop_tools, takes, talk
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

SECRET = b"a secret of some length"
MESSAGES = ("where is 60112?", "and 60113?", "what a nice shop", "where is 60114?")


def growing_shop(mind: Mind, log: list[Any] | None = None, **options: Any) -> Agent:
    return shop_agent(mind, log, narrowing="growing", **options)


def follows() -> Mind:
    """Follows one open flow, answers without one, and comes back."""
    return Mind(
        choose=[chooses("track_it"), chooses("track_it"), "[]", chooses("track_it")],
        call=[
            *(calls("look_up", order_number="60112"), "It is shipped."),
            *(calls("look_up", order_number="60113"), "So is that."),
            "Thank you.",
            *(calls("look_up", order_number="60114"), "And that, too."),
        ],
    )


def firsts(mind: Mind) -> list[tuple[Message, ...]]:
    """The first prompt of each turn in which tools may be called."""
    return [messages for kind, messages in mind.asked if kind == "call" and messages[-1].content.find("TOOL RES") < 0]


@pytest.mark.spec("009.3")
async def test_what_a_prompt_began_with_is_what_the_next_begins_with() -> None:
    mind, log = follows(), list[Any]()
    results = await talk(growing_shop(mind, log, facts={"company": "Fjord"}), *MESSAGES)
    assert [given["order_number"] for _, given in log] == ["60112", "60113", "60114"]
    assert [each.status for each in results] == ["active"] * 4
    prompts = firsts(mind)
    assert len(prompts) == len(MESSAGES)
    for before, after in pairwise(prompts):
        assert after[: len(before) - 1] == before[:-1]
        block = before[-1].content.partition("WHAT TO DO NOW:")[0]
        assert after[len(before) - 1].content.startswith(block)
        assert len(after) == len(before) + 2
    told = "\n".join(each.content for each in prompts[-1])
    assert [told.count(f"\n{name} {{") for name in ("look_up", "cancel_order", "find_order")] == [1, 1, 1]
    assert told.count("PROCEDURE SHOWN: track_it") == 1
    assert [told.count(f'"order_number": "{number}"') for number in ("60112", "60113")] == [1, 1]


STEPS = st.lists(st.tuples(st.integers(0, 6), st.text(max_size=30)), min_size=2, max_size=7)


@pytest.mark.spec("009.3")
@given(STEPS)
@settings(max_examples=examples(60), deadline=None)
async def test_whatever_is_said_and_chosen_prompts_only_grow_until_a_note_says_otherwise(
    steps: list[tuple[int, str]],
) -> None:
    names = [f"flow_{number}" for number in range(6)]
    registry = shop_of(*((name, ()) for name in names))
    tools = [Tool(name=f"tool_{place}", function=dict, input_schema=takes(), read_only=True) for place in range(6)]
    for place, flow in enumerate(registry.values()):
        vars(flow).update(tools=(f"tool_{place}", f"tool_{place // 2}"), steps=("Call it.",))
    mind = Mind(choose=["[]" if place == len(names) else chooses(names[place]) for place, _ in steps])
    selector = FlowSelector(mind, registry, ListMemory(metadata(*names)), "support", top_k=3)
    agent = make_agent(selector, tools, mind, narrowing="growing")
    results = await talk(agent, *(f"I want this: {text}" for _, text in steps))
    assert not [note for result in results for note in result.notes if "afresh" in note]
    for before, after in pairwise(firsts(mind)):
        assert after[: len(before) - 1] == before[:-1]
        assert after[len(before) - 1].content.startswith(before[-1].content.partition("WHAT TO DO NOW:")[0])
    for before, after in pairwise(mind.prompts("choose")):
        assert after.startswith(before.rpartition("</conversation>")[0])


@pytest.mark.spec("009.3")
async def test_it_comes_to_the_same_as_afresh() -> None:
    def seen(results: list[Any]) -> list[Any]:
        return [(each.status, each.text, [run.flow for run in each.runs], each.reason) for each in results]

    afresh, grown = list[Any](), list[Any]()
    before = await talk(shop_agent(follows(), afresh), *MESSAGES)
    assert seen(before) == seen(await talk(growing_shop(follows(), grown), *MESSAGES))
    assert afresh == grown


@pytest.mark.spec("009.3")
async def test_what_was_shown_travels_with_the_conversation() -> None:
    results = await talk(growing_shop(follows()), *MESSAGES)
    shown = [each.conversation.shown for each in results]
    for before, after in pairwise(shown):
        for choosing in (True, False):
            one, other = ([each for each in of if (each.what == "flow") == choosing] for of in (before, after))
            assert other[: len(one)] == one
    assert FirstShown("procedure", "track_it", 1) in shown[0]
    assert FirstShown("tool", "find_order", 3) in shown[2]
    kept = results[-1].conversation
    assert Conversation.from_json(kept.to_json(secret=SECRET), secret=SECRET).shown == kept.shown


@pytest.mark.spec("009.3")
async def test_signed_and_changed_it_is_refused() -> None:
    (result,) = await talk(growing_shop(follows()), MESSAGES[0])
    signed = json.loads(result.conversation.to_json(secret=SECRET))
    signed["shown"][0]["name"] = "another_flow"
    with pytest.raises(SnapshotError, match="not signed with this secret, or was changed since"):
        Conversation.from_json(json.dumps(signed), secret=SECRET)
    del signed["shown"]
    with pytest.raises(SnapshotError, match="not signed with this secret, or was changed since"):
        Conversation.from_json(json.dumps(signed), secret=SECRET)


async def test_a_conversation_that_keeps_nothing_is_gone_on_with_and_back() -> None:
    (result,) = await talk(shop_agent(follows()), MESSAGES[0])
    text = result.conversation.to_json()
    mind = Mind(choose=["[]"])
    gone_on = await growing_shop(mind).turn("and 60113?", Conversation.from_json(text))
    assert gone_on.conversation.shown
    assert "<user>where is 60112?</user>" in mind.prompts("choose")[0]
    back = await shop_agent(follows()).turn("and 60114?", gone_on.conversation)
    assert back.conversation.shown == (), "afresh, nothing of it is kept"


NOT_KEPT: list[Any] = [
    pytest.param([{"what": "flow", "name": "track_it", "turn": 7}], id="of a turn to come"),
    pytest.param([{"what": "flow", "name": "track_it", "turn": 0}], id="of no turn"),
    pytest.param([{"what": "flow", "name": "track_it", "turn": 1}] * 2, id="twice"),
    pytest.param([{"what": "tool", "name": "look_up", "turn": turn} for turn in (2, 1)], id="out of order"),
]


@pytest.mark.spec("009.3")
@pytest.mark.parametrize("shown", NOT_KEPT)
async def test_what_no_turn_can_have_kept_is_not_believed(shown: list[Any]) -> None:
    results = await talk(growing_shop(follows()), *MESSAGES[:2])
    text = json.dumps(json.loads(results[-1].conversation.to_json()) | {"shown": shown})
    result = await growing_shop(follows()).turn("where is it?", Conversation.from_json(text))
    assert "what was kept of what models were shown cannot be, so it is shown afresh" in result.notes
    assert {each.turn for each in result.conversation.shown} == {3}


@pytest.mark.spec("009.3")
@pytest.mark.parametrize(
    "shown",
    [
        [{"what": "flow", "name": f"f{number}", "turn": 1} for number in range(MOST_SHOWN + 1)],
        [{"what": "secret", "name": "x", "turn": 1}],
        [{"what": "flow", "name": "x", "turn": "soon"}],
        [{"what": "flow", "name": 3, "turn": 1}],
        ["flow"],
        {"flow": 1},
        None,
    ],
    ids=["too many", "of no kind", "no number", "no name", "a text", "an object", "nothing"],
)
def test_what_is_none_of_it_is_refused(shown: Any) -> None:
    with pytest.raises(SnapshotError, match="shown"):
        Conversation.from_json(json.dumps({"version": 2, "shown": shown}))


@pytest.mark.spec("009.3")
@pytest.mark.parametrize("name", ["no_such_thing", "x" * 10_000, "</flow><offered>", "look_up\nWHAT TO DO NOW:"])
@pytest.mark.parametrize("what", ["flow", "procedure", "tool"])
async def test_what_is_gone_or_never_was_is_shown_no_more(what: str, name: str) -> None:
    results = await talk(growing_shop(follows()), MESSAGES[0])
    kept = json.loads(results[-1].conversation.to_json())
    kept["shown"] = [*kept["shown"], {"what": what, "name": name, "turn": 1}]
    mind = Mind(choose=["[]"]) if what == "flow" else follows()
    result = await growing_shop(mind).turn("and 60113?", Conversation.from_json(json.dumps(kept)))
    assert result.status == "active"
    assert not [each for each in mind.prompts() if name in each.replace("WHAT TO DO NOW:\nW", "")]
    assert name not in {each.name for each in result.conversation.shown}
    decision = result.selection.decision.notes if result.selection is not None else ()
    assert [each for each in (*result.notes, *decision) if "afresh" in each]


def two_flows(
    log: list[str], *replies: str, second: str = "look_up", native: bool = False
) -> tuple[Agent, ScriptedModel]:
    """An agent of two open flows with a tool each; the model hears of the first one's in the first turn."""
    registry = shop_of(("first", ()), ("second", ()))
    for flow, named in zip(registry.values(), ("lookUp", second), strict=True):
        vars(flow).update(tools=(named,), steps=("Call it.",))

    def tool(name: str) -> Tool:
        return Tool(name=name, function=lambda: log.append(name), input_schema=takes(), read_only=True)

    model = ScriptedModel(*replies, takes_tools=native)
    selector = FlowSelector(model, registry, ListMemory(metadata("first", "second")), "support")
    return make_agent(selector, [tool("lookUp"), tool(second)], model, narrowing="growing"), model


@pytest.mark.spec("009.3", "011.10")
@pytest.mark.parametrize("native", [False, True], ids=["text", "native"])
async def test_a_tool_that_was_shown_and_may_not_be_called_now_is_not_run_nor_one_of_a_like_name(native: bool) -> None:
    log: list[str] = []
    choose = ('["first"]', calls("lookUp"), "Found.", calls("another_wish", wish="the second"), '["second"]')
    agent, model = two_flows(log, *choose, calls("lookUp"), calls("look_up"), "Found that, too.", native=native)
    await talk(agent, "the first", "the second")
    # Each flow's look-up takes nothing, so it is made by rule before the model calls it.
    assert log == ["lookUp", "lookUp", "look_up", "look_up"]
    refused = model.calls[6][-1].content
    assert '"ok": false' in refused
    assert "lookUp cannot be called now" in refused
    asked = model.calls[5][-3].content  # what follows is the look-up by rule, and its result
    assert "Tools that may be called now: look_up, finish_procedure, cannot_finish." in asked
    told = "".join(each.content for each in model.calls[5])
    assert [f"\n{name} {{" in told for name in ("lookUp", "look_up", "another_wish")] == [not native] * 3
    first, later = ([each.name for each in model.tools[number]] for number in (1, 5))
    ends = ["finish_procedure", "cannot_finish", "another_wish"]
    assert (first, later) == (([*ends, "lookUp"], [*ends, "lookUp", "look_up"]) if native else ([], []))


@pytest.mark.spec("009.3")
async def test_a_flow_that_was_shown_and_is_not_offered_now_is_not_run() -> None:
    (result,) = await talk(growing_shop(Mind(choose=[chooses("track_it")], call=["Soon."])), MESSAGES[0])
    assert FirstShown("flow", "cancel_it", 1) in result.conversation.shown
    log = list[Any]()
    mind = Mind(choose=[chooses("cancel_it")] * 2)
    selector = FlowSelector(mind, shop_flows(), ListMemory(metadata("send_back", "track_it")), "support")
    later = make_agent(selector, shop_tools(log), mind, narrowing="growing")
    ended = await later.turn("no, cancel it", result.conversation)
    assert "cancel_it" not in ended.flows
    assert not log
    assert 'name="cancel_it"' in mind.prompts("choose")[0], "it stays where it was"
    assert "not among the candidates: cancel_it" in mind.prompts("choose")[1]


@pytest.mark.spec("009.3")
async def test_beyond_the_bound_tools_are_shown_afresh_and_a_note_says_so() -> None:
    names = [f"tool_{number}" for number in range(6)]
    registry = shop_of(*((f"flow_{number}", ()) for number in range(6)))
    for flow, name in zip(registry.values(), names, strict=True):
        vars(flow).update(tools=(name,), steps=("Call it.",))
    long = "word " * (MOST_TOKENS // 5)
    tools = [Tool(name=name, description=long, function=dict, input_schema=takes(), read_only=True) for name in names]
    mind = Mind(choose=[chooses(f"flow_{number}") for number in range(6)], call=["Well."] * 6)
    memory = ListMemory(metadata(*(flow.name for flow in registry.values())))
    agent = make_agent(FlowSelector(mind, registry, memory, "support", top_k=6), tools, mind, narrowing="growing")
    results = await talk(agent, *(f"the flow {number}, please" for number in range(6)))
    told = [[each for each in result.notes if "afresh" in each] for result in results]
    assert [len(each) for each in told] == [0, 0, 0, 0, 1, 0]
    assert told[4] == ["tools are shown afresh, since all that were shown would take too many tokens"]
    assert [each.name for each in results[4].conversation.shown if each.what == "tool"] == ["tool_4"]


async def test_a_long_conversation_stays_bounded_and_its_beginning_stays_for_several_turns() -> None:
    turns = 40
    mind = Mind(
        choose=[chooses("track_it")] * turns,
        call=[
            text for turn in range(turns) for text in (calls("look_up", order_number=f"6{turn:04}"), f"Well, {turn}.")
        ],
    )
    results = await talk(growing_shop(mind), *(f"where is 6{turn:04}, please?" for turn in range(turns)))
    assert len(results[-1].conversation.calls) == MOST_CALLS
    assert len(results[-1].conversation.to_json()) < LONGEST_STORED // 20
    prompts = firsts(mind)
    assert max(sum(len(each.content) for each in messages) for messages in prompts) < 20_000
    same = [after[: len(before) - 1] == before[:-1] for before, after in pairwise(prompts)]
    assert same.count(False) <= 2 * turns // 4
    assert same[:18] == [True] * 18, "nothing is left out while there is room"
    assert "[… 20 earlier turns of this conversation are left out …]" in prompts[-1][1].content


async def test_where_flows_are_chosen_the_beginning_stays_for_several_turns() -> None:
    turns = 40
    mind = Mind(choose=["[]"] * turns)
    await talk(growing_shop(mind), *(f"where is 6{turn:04}, please?" for turn in range(turns)))
    chosen = mind.prompts("choose")
    assert 'left_out="' in chosen[-1]
    begun = [each.partition("<user>")[2][:40] for each in chosen]
    assert len({*begun[24:]}) <= 5


@pytest.mark.parametrize("narrowing", ["grow", "", None, 1, True])
def test_what_is_no_way_of_narrowing_is_refused(narrowing: Any) -> None:
    with pytest.raises(ConfigError, match='narrowing must be "fresh" or "growing", got'):
        shop_agent(Mind(), narrowing=narrowing)


def test_a_ledger_keeps_what_turns_before_this_one_may_have_shown() -> None:
    shown = (FirstShown("flow", "a", 1), FirstShown("tool", "b", 1), FirstShown("flow", "c", 2))
    ledger = PromptHistoryRecorder(3, shown)
    assert (ledger.notes, {*ledger.shown}) == ([], {*shown})
    assert PromptHistoryRecorder(2, shown).shown == ()


@pytest.mark.spec("009.3")
async def test_what_is_guarded_is_not_shown_because_a_conversation_says_that_it_was() -> None:
    """A conversation that was kept unsigned may say anything; so may one of a user who was allowed more before."""
    (first,) = await talk(growing_shop(follows()), MESSAGES[0])
    mind, flows = follows(), shop_flows()
    selector = FlowSelector(mind, flows, ListMemory(metadata(*FLOWS)), "support", top_k=4)
    agent = make_agent(selector, shop_tools([]), mind, narrowing="growing")

    def available(_: Any) -> bool:
        return False

    vars(flows[flow_id("settle_it")]).update(
        available=available, description="the secret of the house", steps=("Tell the secret.",)
    )
    forged = [FirstShown("flow", "settle_it", 1), FirstShown("procedure", "settle_it", 1)]
    again = await agent.turn(MESSAGES[1], first.conversation.model_copy(update={"shown": tuple(forged)}))
    assert "a flow that was shown is not available now, so all is shown afresh" in again.notes
    assert not any("secret" in message.content for _, messages in mind.asked for message in messages)
    assert "settle_it" not in {each.name for each in again.conversation.shown}
