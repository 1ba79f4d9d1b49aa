"""What each part of a turn is shown of the conversation: facts, choices between tools, calls, and without a flow."""

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import pytest

from jazz_select import FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.errors import ConfigError
from jazz_select.routing import Tool
from jazz_select.testing import ListMemory
from tests.unit.agent.talks import Mind, calls, chooses, shop_agent, shop_tools, talk
from tests.unit.agent.test_hanging_model import timed
from tests.unit.agent.turns import shop_of
from tests.unit.selector.shop import metadata

A_MAIL = '{"email": "a@b.org"}'
BOTH = '{"order_number": "60112", "email": "a@b.org"}'
EFFECTS = ("open_return", "cancel_order", "tell_why")


# --- what is read ----------------------------------------------------------------


@pytest.mark.spec("011.1")
@pytest.mark.spec("010.3")
async def test_who_reads_sees_the_inputs_the_question_and_all_that_was_said() -> None:
    mind = Mind(choose=[chooses("send_back")] * 2, values=['{"order_number": "60112"}', A_MAIL])
    await talk(shop_agent(mind), "send 60112 back", "I wrote you from a@b.org, and please hurry")
    first, second = mind.prompts("choose")
    assert 'inputs="email: string; order_number: string; order_id: string; reason: string"' in first
    assert "<conversation>\n" not in first
    assert 'state="under way" asked_for_with="send 60112 back" waits_for="email"' in second
    assert "<user>send 60112 back</user>\n<assistant>To go on, I need: email.</assistant>" in second
    assert "<request>I wrote you from a@b.org, and please hurry</request>" in second


@pytest.mark.spec("011.1")
@pytest.mark.spec("010.3")
async def test_a_fact_said_once_is_used_in_a_later_flow() -> None:
    log: list[Any] = []
    mind = Mind(choose=["[]", chooses("send_back")], values=[BOTH])
    await talk(shop_agent(mind, log), "hello, this is a@b.org about 60112", "please send that back")
    assert "hello, this is a@b.org about 60112" in mind.prompts("choose")[1]
    assert log == [("find_order", {"email": "a@b.org", "order_number": "60112"})]


@pytest.mark.spec("011.1")
@pytest.mark.spec("010.3")
async def test_a_message_is_read_once_in_a_turn() -> None:
    mind = Mind(choose=[chooses("send_back")] * 3, values=["{}", '{"order_id": "60112"}', '{"reason": "it broke"}'])
    registry = shop_of(("send_back", ("open_return",)))
    selector = FlowSelector(mind, registry, ListMemory(metadata("send_back")), "support")
    log: list[Any] = []
    messages = ("send it back", "I think it was 60112, was it?", "well, because it broke")
    results = await talk(Agent(selector, shop_tools(log), mind), *messages)
    assert [kind for kind, _ in mind.asked] == ["choose"] * 3
    assert results[1].text == "To go on, I need: reason."
    assert log == [("open_return", {"order_id": "60112", "reason": "it broke"})]


@pytest.mark.spec("010.3")
async def test_what_was_named_binds_before_a_default() -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("send_back")], values=[BOTH])
    await talk(shop_agent(mind, log), "send 60112 back, a@b.org")
    assert log == [("find_order", {"email": "a@b.org", "order_number": "60112"})]


@pytest.mark.spec("010.3")
@pytest.mark.parametrize("made_up", ["60113", "12", ""])
async def test_what_a_model_makes_up_is_not_used(made_up: str) -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("send_back")], values=[BOTH.replace("60112", made_up)])
    await talk(shop_agent(mind, log), "send 60112 back, a@b.org")
    assert [given for name, given in log if name == "find_order"] in ([], [{"email": "a@b.org"}])


CORRECTED: list[Any] = [
    pytest.param(
        "send_back",
        "send 60112 back, a@b.org",
        [{"email": "a@b.org", "order_number": "60112"}, {"email": "a@b.org", "order_number": "60105"}],
        id="the chain begins anew",
    ),
    pytest.param(
        "cancel_it", "cancel 60112", [{"order_number": "60112"}], id="what destroyed something is not done again"
    ),
]


@pytest.mark.spec("010.3")
@pytest.mark.parametrize(("flow", "message", "given"), CORRECTED)
async def test_a_later_correction_wins_where_nothing_was_destroyed(flow: str, message: str, given: list[Any]) -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses(flow)] * 3, values=[BOTH, '{"order_number": "60105", "email": "a@b.org"}'])
    results = await talk(shop_agent(mind, log, approval="never"), message, "no sorry, it is 60105")
    assert [each for _, each in log] == given
    assert [each.text.endswith("To go on, I need: reason.") for each in results] == [True, True]


UNCLEAR = '{"order_number": {"unclear": ["60112", "60105"]}, "email": "a@b.org"}'
BEFORE: list[Any] = [
    pytest.param("send_back", [UNCLEAR], ["60112 or 60105, a@b.org"], id="before the chain"),
    pytest.param("cancel_it", ["{}", UNCLEAR], ["cancel it", "well, 60112 or was it 60105"], id="in an answer"),
    pytest.param("send_back", [BOTH, UNCLEAR], ["60112, a@b.org", "hm, or 60105, or 60112"], id="in a correction"),
]


@pytest.mark.spec("010.3")
@pytest.mark.parametrize(("flow", "found", "messages"), BEFORE)
async def test_what_is_not_clear_is_asked_about_with_all_that_was_said(
    flow: str, found: Sequence[str], messages: Sequence[str]
) -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses(flow)] * 3, values=found)
    agent = shop_agent(mind, log, approval="never")
    asked = (await talk(agent, *messages))[-1]
    assert (asked.status, asked.text.partition(",")[0]) == ("waiting", asked.text.partition(",")[0])
    assert "order number (60112 or 60105?)" in asked.text
    assert "which is meant is not clear: order_number" in asked.reason
    log.clear()
    kept = Conversation.from_json(asked.conversation.to_json())
    answered = await agent.turn("60105", kept)
    assert [given["order_number"] for _, given in log] == ["60105"]
    assert "?)" not in answered.text


@pytest.mark.spec("010.3")
async def test_what_was_cleared_up_is_not_asked_again() -> None:
    mind = Mind(choose=[chooses("send_back")] * 3, values=[UNCLEAR, UNCLEAR])
    messages = ("60112 or 60105, a@b.org", "60105", "I do not like the colour of it at all")
    _, second, third = await talk(shop_agent(mind), *messages)
    assert second.text == "To go on, I need: reason."
    assert third.text.endswith("\n\nTo go on, I need: reason.")


TAKEN_BACK: list[Any] = [
    pytest.param([BOTH, '{"order_number": "60105"}'], "no sorry, it is 60105", "60105", id="corrected"),
    pytest.param([BOTH, '{"order_number": "60105"}'], "60105, not 60112", "60105", id="but said once more"),
    pytest.param([UNCLEAR], "60105", "60105", id="one of two that were not clear"),
]


@pytest.mark.spec("010.3")
@pytest.mark.parametrize(("found", "message", "meant"), TAKEN_BACK)
async def test_what_was_taken_back_holds_up_nothing(found: list[str], message: str, meant: str) -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("cancel_it")] * 2, values=found)
    agent = shop_agent(mind, log)
    _, second = await talk(agent, "cancel 60112, or was it 60105" if found == [UNCLEAR] else "cancel 60112", message)
    assert second.status == "confirming"
    assert f"(order number: {meant})" in second.text
    assert log == []


# --- choosing between tools ------------------------------------------------------

FIND = '{"tool": "find_order", "arguments": {"email": "a@b.org", "order_number": "60112"}'
RETURNED = '"returned": {"order_id": "60112"}}'


@pytest.mark.spec("010.4")
async def test_a_choice_between_tools_sees_what_it_is_for() -> None:
    mind = Mind(choose=["[]", chooses("settle_it")], values=[BOTH], decide=["none"])
    agent = shop_agent(mind, facts={"today": "2026-03-05"})
    await talk(agent, "hello, a@b.org here", "60112 is too small, settle it")
    (prompt,) = mind.prompts("decide")
    situation = prompt.partition("<situation>said")[2].partition("</situation>")[0]
    assert situation.splitlines() == [
        " by the user, in turn:",
        '- "hello, a@b.org here"',
        '- "60112 is too small, settle it"',
        "procedure:",
        "Settle it: What settle_it does.",
        "its steps:",
        "- Find it.",
        "- Send it back, or cancel it.",
        "calls made so far:",
        f"{FIND}, {RETURNED}",
        "known:",
        'today: "2026-03-05"',
        "effects:",
        "open_return changes something",
        "cancel_order cannot be undone",
    ]


# --- calls -----------------------------------------------------------------------


def shown_calls(prompt: str) -> list[str]:
    """The lines of calls in a prompt."""
    return [line for line in prompt.splitlines() if line.startswith('{"turn"')]


LOOKED = '{"turn": 1, "tool": "look_up", "arguments": {"order_number": "60112"}, "returned": {"state": "shipped", '
FOUND = '{"turn": 1, "tool": "find_order", "arguments": {"email": "a@b.org", "order_number": "60112"}, "returned": '
LATER: list[Any] = [
    pytest.param("track_it", "[]", LOOKED, id="of a model, later without a flow"),
    pytest.param("track_it", chooses("track_it"), LOOKED, id="of a model, later in the same flow"),
    pytest.param("send_back", "[]", FOUND, id="of a chain, later without a flow"),
    pytest.param("send_back", chooses("track_it"), FOUND, id="of a chain, later in another flow"),
]


@pytest.mark.spec("010.5")
@pytest.mark.spec("010.1")
@pytest.mark.parametrize(("flow", "later", "shown"), LATER)
async def test_calls_are_shown_with_arguments_and_results_in_later_turns(flow: str, later: str, shown: str) -> None:
    looks = [calls("look_up", order_number="60112"), "Shipped."] if flow == "track_it" else []
    mind = Mind(choose=[chooses(flow), later], values=[BOTH], call=[*looks, "As I said."])
    await talk(shop_agent(mind), "60112, a@b.org", "what was it?")
    assert [line.startswith(shown) for line in shown_calls(mind.asked[-1][1][0].content)] == [True]


@pytest.mark.spec("010.5")
async def test_a_look_up_may_be_made_again_and_what_destroys_is_not_repeated() -> None:
    log: list[Any] = []
    looks = [calls("look_up", order_number=number) for number in ("60112", "60105")]
    cancels = [calls("cancel_order", order_number="60112")] * 2
    mind = Mind(choose=[chooses("track_it")], call=[*looks, *cancels, "Cancelled."])
    await talk(shop_agent(mind, log, approval="never"), "look at 60112 and 60105, and cancel the first")
    assert [(name, given["order_number"]) for name, given in log] == [
        ("look_up", "60112"),
        ("look_up", "60105"),
        ("cancel_order", "60112"),
    ]
    assert "not run again: cancel_order was run just now with these arguments" in mind.prompts("call")[-1]


@pytest.mark.spec("010.5")
async def test_what_destroys_is_asked_about_before_it_is_done_again_in_a_later_turn() -> None:
    log: list[Any] = []
    cancels = calls("cancel_order", order_number="60112")
    mind = Mind(choose=[chooses("track_it")] * 2, call=[cancels, "Cancelled.", cancels])
    results = await talk(shop_agent(mind, log, approval="never"), "cancel 60112", "and again")
    assert (len(log), results[-1].status) == (1, "confirming")
    assert "This has already been done and would be done again: Cancel order" in results[-1].text


# --- where no flow fits ----------------------------------------------------------


OPEN_TOOLS: list[Any] = [
    pytest.param({}, ["find_order", "look_up"], id="by default"),
    pytest.param({"open_tools": "read"}, ["find_order", "look_up"], id="those that change nothing"),
    pytest.param({"open_tools": "all"}, ["find_order", "look_up", *EFFECTS], id="all"),
    pytest.param({"open_tools": "none"}, [], id="none"),
]


@pytest.mark.spec("010.7")
@pytest.mark.parametrize(("options", "offered"), OPEN_TOOLS)
async def test_where_no_flow_fits_these_tools_are_there(options: dict[str, Any], offered: list[str]) -> None:
    log: list[Any] = []
    told = calls("tell_why", reason="so")
    mind = Mind(choose=["[]"], call=[told, "Well."])
    await talk(shop_agent(mind, log, approval="never", **options), "tell them why")
    prompt = mind.prompts("call")[0]
    assert sorted(re.findall(r"^(\w+) \{", prompt, re.MULTILINE)) == sorted(offered)
    assert [name for name, _ in log] == (["tell_why"] if "tell_why" in offered else [])


@pytest.mark.spec("011.7")
async def test_look_ups_that_were_offered_stay_offered() -> None:
    """Of many that only read, those of the flows that were recalled are offered; in the next turn others may be."""
    registry = shop_of(*((f"flow_{number}", ()) for number in range(3)))
    for number, flow in enumerate(registry.values()):
        vars(flow).update(tools=tuple(f"look_{number}_{each}" for each in range(5)), steps=("Look.",))
    tools = [Tool(name=name, function=dict, read_only=True) for flow in registry.values() for name in flow.tools]
    mind, memory = Mind(choose=["[]"] * 3), ListMemory(metadata("flow_0"))
    agent = Agent(FlowSelector(mind, registry, memory, "support", top_k=1), tools, mind)
    first = await agent.turn("the first?")
    memory.candidates = metadata("flow_1")
    second = await agent.turn("the second?", Conversation.from_json(first.conversation.to_json()))
    offered = [re.findall(r"^look_(\d)", prompt, re.MULTILINE) for prompt in mind.prompts("call")]
    assert offered == [["0"] * 5, ["1"] * 5 + ["0"] * 5]
    assert len(second.conversation.look_ups) == 10


@pytest.mark.parametrize("wrong", ["reads", "", None, True])
def test_any_other_word_for_them_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match='open_tools must be "read", "all" or "none"'):
        shop_agent(Mind(), open_tools=wrong)


# --- what holds anyway -----------------------------------------------------------


def fails() -> str:
    msg = "the clock is broken: secret"
    raise RuntimeError(msg)


async def comes_late() -> str:
    await asyncio.sleep(0)
    return "2026-03-05"


async def hangs() -> str:
    await asyncio.sleep(1_000_000)
    return "never"


FACTS: list[Any] = [
    pytest.param({"today": "2026-03-05"}, None, ['today: "2026-03-05"'], id="a value"),
    pytest.param({"today": lambda: "2026-03-05"}, None, ['today: "2026-03-05"'], id="a function"),
    pytest.param({"today": comes_late}, None, ['today: "2026-03-05"'], id="an async function"),
    pytest.param({"today": fails}, None, ['today: "not known (RuntimeError)"'], id="a function that fails"),
    pytest.param({"a": "1"}, {"b": "2"}, ['a: "1"', 'b: "2"'], id="of agent and turn"),
    pytest.param({"a": "1"}, {"a": "2"}, ['a: "2"'], id="the turn's over the agent's"),
    pytest.param({"a": fails}, {"a": "2"}, ['a: "2"'], id="even where that fails"),
    pytest.param({"open": {"mon": 9}}, None, ['open: "{\\"mon\\":9}"'], id="data"),
    pytest.param({}, {}, [], id="none"),
]


@pytest.mark.spec("010.1")
@pytest.mark.parametrize(("own", "of_turn", "lines"), FACTS)
async def test_what_holds_anyway_is_shown_to_who_chooses_and_who_answers(
    own: dict[str, Any], of_turn: Any, lines: list[str]
) -> None:
    mind = Mind(choose=["[]"])
    await talk(shop_agent(mind, facts=own), "which day is it?", facts=of_turn)
    choose, answer = mind.asked[0][1][1].content, mind.asked[-1][1][0].content
    assert all(f"\n{line}\n" in f"\n{answer}\n" for line in lines)
    assert ("KNOWN:" in answer, "<facts>" in choose) == (bool(lines), bool(lines))
    assert "secret" not in answer + choose


@pytest.mark.spec("005.5")
@pytest.mark.spec("005.6")
@pytest.mark.parametrize(("limit_s", "took_s", "status"), [(60, 5, "done"), (2, 2, "failed")])
def test_a_fact_that_hangs_is_not_known_and_holds_up_no_turn(limit_s: float, took_s: float, status: str) -> None:
    mind = Mind(choose=["[]"])
    agent = shop_agent(mind, facts={"today": hangs, "support": "help"}, timeout_s=limit_s)
    (result,), took = timed(talk(agent, "hello"))
    assert (round(took), result.status) == (took_s, status)
    assert not mind.asked or 'today: "not known (TimeoutError)"\nsupport: "help"' in mind.prompts("call")[0]


@pytest.mark.parametrize("wrong", ["today", ["today"], {1: 2}, 0])
def test_facts_of_another_kind_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigError, match="facts must be a mapping of names"):
        shop_agent(Mind(), facts=wrong)


# --- what stays out --------------------------------------------------------------

WISHES = ("send 60112 back", "and where is it?", "hm", "settle 60112 then", "what about it?")
SPELLED: list[Any] = [
    pytest.param({"email": "SECRET@x.org"}, id="as the tool has it"),
    pytest.param({"E-Mail": "SECRET@x.org"}, id="in another way"),
    pytest.param({"email": "SECRET@x.org", "nobody_wants_it": "SECRET"}, id="with what no tool takes"),
]


@pytest.mark.spec("010.1")
@pytest.mark.spec("010.5")
@pytest.mark.parametrize("context", SPELLED)
async def test_the_context_is_for_tools_and_in_no_prompt_or_kept_call(context: dict[str, Any]) -> None:
    log: list[Any] = []
    chosen = [chooses("send_back"), chooses("track_it"), "[]", chooses("settle_it"), "[]"]
    mind = Mind(choose=chosen, decide=["open_return"], values=['{"order_number": "60112"}'] * 9)
    results = await talk(shop_agent(mind, log), *WISHES, context=context)
    assert [given["email"] for name, given in log if name == "find_order"] == ["SECRET@x.org"] * 2
    assert {kind for kind, _ in mind.asked} == {"choose", "back", "call", "decide"}
    assert not [prompt for prompt in mind.prompts() if "SECRET" in prompt]
    calls_kept = results[-1].conversation.calls
    assert [each.tool for each in calls_kept][:1] == ["find_order"]
    assert not [each for each in calls_kept if "SECRET" in each.model_dump_json()]


@pytest.mark.spec("010.3")
@pytest.mark.parametrize("name", ["order_number", "orderNumber", "Order-Number"])
async def test_nothing_that_is_said_takes_the_place_of_the_context(name: str) -> None:
    log: list[Any] = []
    mind = Mind(choose=[chooses("cancel_it")] * 2, values=['{"order_number": "60112", "reason": "late"}'])
    agent = shop_agent(mind, log, approval="never")
    await talk(agent, "cancel 60112, it is late", context={name: "60105"})
    assert not any('inputs="order_number' in each for each in mind.prompts("choose"))
    assert [given for tool, given in log if tool == "cancel_order"] in ([], [{"order_number": "60105"}])


@pytest.mark.spec("010.9")
async def test_no_prompt_of_a_conversation_has_an_id_of_a_flow() -> None:
    chosen = [chooses("send_back"), chooses("track_it"), "[]", chooses("settle_it"), "[]", "[]"]
    mind = Mind(choose=chosen, decide=["open_return"], values=[A_MAIL] * 6)
    agent = shop_agent(mind)
    results = await talk(agent, *WISHES, "a@b.org")
    told = "\n".join(mind.prompts())
    assert not re.findall(r"[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", told)
    assert results[-1].conversation.id not in told
