"""What a look-up found stands in later prompts: whole, once, as JSON; and what is left out says so."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.agent import Agent, Conversation
from jazz_select.agent.agent_options import Approval, Narrowing, PromptOptions
from jazz_select.agent.conversation import LONGEST_STORED, MOST_CALLS
from jazz_select.routing import Tool
from jazz_select.routing.approval import ApprovalPolicy
from jazz_select.testing import ListMemory
from jazz_select.text import estimate_tokens
from jazz_select.values import Message
from tests.unit.agent.talks import Mind, takes, talk

NARROWINGS: tuple[Narrowing, ...] = ("fresh", "growing")


def product(number: int, variants: int) -> dict[str, Any]:
    """A product as shops have them: many variants, some of them without a price."""
    return {
        "product_id": f"P-{number}",
        "title": f"Lamp {number}",
        "variants": [
            {
                "item_id": f"{number}{place:04}",
                "options": {"colour": f"colour {place}", "size": place, "note": None},
                "price": 10.5 + place,
            }
            for place in range(variants)
        ],
    }


def looking(
    mind: Mind,
    found: Callable[[str], Any],
    narrowing: Narrowing = "fresh",
    *,
    policy: ApprovalPolicy = "destructive",
    destructive: bool = False,
) -> Agent:
    """An agent without flows and with one tool, `look_up`, that finds this for a number."""

    def look_up(number: str) -> Any:
        return found(number)

    tool = Tool(
        name="look_up",
        function=look_up,
        input_schema=takes("number"),
        description="Find it.",
        read_only=not destructive,
        destructive=destructive,
    )
    selector = FlowSelector(mind, FlowRegistry(min_examples=0), ListMemory([]), "support")
    prompt = PromptOptions(narrowing=narrowing, open_tools="all")
    return Agent(selector, [tool], mind, prompt=prompt, approval=Approval(policy=policy))


def looks(*numbers: str) -> str:
    """A model's look-ups, several at once."""
    return json.dumps({"tool_calls": [{"tool": "look_up", "arguments": {"number": each}} for each in numbers]})


def told(mind: Mind) -> list[dict[str, Any]]:
    """The earlier calls that the last prompt shows, each read from its line."""
    return [json.loads(line) for line in text_of(mind.asked[-1][1]).splitlines() if line.startswith('{"turn"')]


def text_of(messages: tuple[Message, ...]) -> str:
    return "\n".join(each.content for each in messages)


@pytest.mark.spec("018.11")
@pytest.mark.parametrize("narrowing", NARROWINGS)
@pytest.mark.parametrize("as_text", [False, True], ids=["an object", "an object that a tool returns as text"])
async def test_what_was_found_stands_whole_in_the_next_turn(narrowing: Narrowing, as_text: bool) -> None:
    lamp = product(1, variants=40)
    mind = Mind(call=[looks("1"), "Which one?"])
    agent = looking(mind, lambda _: json.dumps(lamp) if as_text else lamp, narrowing)
    await talk(agent, "which lamps are there?", "the one in colour 39")
    (call,) = told(mind)
    for each in lamp["variants"]:
        del each["options"]["note"]  # it holds nothing
    assert (call["turn"], call["arguments"], call["returned"]) == (1, {"number": "1"}, lamp)


@pytest.mark.spec("018.11")
async def test_of_equal_look_ups_the_newest_stands() -> None:
    mind = Mind(call=[looks("1"), "Well.", looks("2"), "Well.", looks("1"), "Well."])
    agent = looking(mind, lambda number: product(int(number), variants=3))
    await talk(agent, "the first?", "the second?", "the first again?", "so?")
    assert [(each["turn"], each["arguments"]["number"]) for each in told(mind)] == [(2, "2"), (3, "1")]


@pytest.mark.spec("018.11")
async def test_an_object_that_stands_above_is_named_and_not_told_again() -> None:
    orders = [{"order_number": str(number), "status": "shipped", "address": "Lindenweg 41, " * 9} for number in (1, 2)]
    mind = Mind(call=[looks("all"), "Well.", looks("2"), "Well.", looks("other"), "Well."])
    found = {"all": orders, "2": orders[1], "other": orders[1] | {"status": "delivered"}}
    await talk(looking(mind, found.__getitem__), "all of them?", "the second?", "and now?", "so?")
    listed, named, changed = (each["returned"] for each in told(mind))
    assert listed == orders
    assert named == {"order_number": "2", "status": "shipped", "…": "the rest as above"}
    assert changed == found["other"], "what has changed is told whole"


@pytest.mark.spec("018.11")
async def test_two_objects_of_one_name_are_both_told() -> None:
    items = [{"sku": "L", "title": "Lamp", "note": f"{note} " * 40} for note in ("red", "blue")]
    mind = Mind(call=[looks("both"), "Well.", looks("blue"), "Well."])
    await talk(looking(mind, {"both": items, "blue": items[1]}.__getitem__), "both?", "the blue one?", "so?")
    assert [each["returned"] for each in told(mind)] == [items, items[1]]


@pytest.mark.spec("018.11")
@pytest.mark.parametrize("narrowing", NARROWINGS)
async def test_all_results_share_one_budget_and_what_has_to_go_says_so(narrowing: Narrowing) -> None:
    turns = 12
    mind = Mind(call=[text for number in range(turns) for text in (looks(str(number)), "Well.")])
    agent = looking(mind, lambda number: product(int(number), variants=60), narrowing)
    await talk(agent, *(f"lamp {number}?" for number in range(turns)), "and the last?")
    prompt = text_of(mind.asked[-1][1])
    shown = told(mind)
    assert shown[-1]["returned"]["variants"][-1]["item_id"] == f"{turns - 1}0059"
    assert sum(estimate_tokens(json.dumps(each, ensure_ascii=False)) for each in shown) < 8_000
    gone = [each for each in shown if each["returned"] == "left out for want of room; it may be looked up again"]
    assert gone or "earlier calls are left out; what was looked up may be looked up again" in prompt
    assert "Look up again only with other arguments" not in prompt


@pytest.mark.spec("018.11")
async def test_what_destroys_is_not_said_to_be_looked_up_again() -> None:
    mind = Mind(call=[text for number in range(6) for text in (looks(str(number)), "Well.")])
    agent = looking(mind, lambda number: product(int(number), variants=60), policy="never", destructive=True)
    await talk(agent, *(f"lamp {number}" for number in range(6)), "so?")
    gone = [each["returned"] for each in told(mind) if isinstance(each["returned"], str)]
    assert {*gone} == {"left out for want of room; the call is not to be repeated"}


LONG: list[Any] = [
    pytest.param([product(number, variants=20) for number in range(30)], "returned in part", id="a list"),
    pytest.param("word " * 20_000, "returned in part", id="a text"),
    pytest.param({f"field {number}": "x" * 20 for number in range(4_000)}, "returned", id="an object with many fields"),
]


@pytest.mark.spec("018.11")
@pytest.mark.parametrize("narrowing", NARROWINGS)
@pytest.mark.parametrize(("found", "key"), LONG)
async def test_what_is_too_long_for_a_prompt_says_that_it_is_not_whole(
    found: Any, key: str, narrowing: Narrowing
) -> None:
    mind = Mind(call=[looks("1"), "Well."])
    await talk(looking(mind, lambda _: found, narrowing), "all of it?", "so?")
    (call,) = told(mind)
    assert "may be looked up again" in call.get("note", call[key])
    assert estimate_tokens(json.dumps(call)) < 8_000


@pytest.mark.spec("018.11")
async def test_prompts_that_grow_keep_what_they_told_of_calls() -> None:
    mind = Mind(call=[text for _ in range(4) for text in (looks("1"), "Well.")])
    agent = looking(mind, lambda _: product(1, variants=5), "growing")
    await talk(agent, *["the lamp?"] * 4)
    prompts = [messages for kind, messages in mind.asked if kind == "call"]
    firsts = [messages for messages in prompts if "TOOL RESULTS" not in messages[-1].content]
    for before, after in pairwise(firsts):
        assert after[: len(before) - 1] == before[:-1]


@pytest.mark.spec("018.11")
async def test_a_conversation_with_the_longest_results_can_be_stored_and_read() -> None:
    turns = MOST_CALLS // 4 + 2
    mind = Mind(call=[text for _ in range(turns) for text in (looks("1", "2", "3", "4"), "Well.")])
    agent = looking(mind, lambda number: f"{number} " + "lantern " * 2_500)
    results = await talk(agent, *(f"turn {number}" for number in range(turns)))
    kept = results[-1].conversation
    assert len(kept.calls) == MOST_CALLS
    assert len(kept.to_json()) < LONGEST_STORED // 4
    assert Conversation.from_json(kept.to_json()) == kept
    assert [kept.calls[0].left_out, kept.calls[-1].left_out] == ["all", ""]


@pytest.mark.spec("018.11")
@pytest.mark.parametrize(
    ("output", "shown"),
    [
        pytest.param('{"state":"shipped"}', {"state": "shipped"}, id="whole"),
        pytest.param(
            '{"items":[{"sku":"L"},"… 2 more"]}', {"items": [{"sku": "L"}, "… 2 more"]}, id="a shortened list"
        ),
        pytest.param('{"items":[{"sku":"L…', '{"items":[{"sku":"L…', id="cut in the middle"),
        pytest.param("", "", id="nothing"),
    ],
)
async def test_what_an_earlier_version_kept_of_calls_is_shown(output: str, shown: Any) -> None:
    saved = Conversation(turns=1).model_dump(mode="json")
    saved["messages"] = [{"role": "user", "content": "hello"}]
    saved["calls"] = [
        {"tool": "look_up", "output": output, "final": False, "failed": False, "call": "", "arguments": {}, "turn": 1}
    ]
    mind = Mind(call=["Well."])
    await looking(mind, lambda _: None).turn("so?", Conversation.from_json(json.dumps(saved)))
    assert [each["returned"] for each in told(mind)] == [shown]
