"""What a model that reads a message is told of each flow: the first ones whole, the others by name and condition."""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from jazz_select.selector.prompt import (
    ConversationContext,
    Prompt,
    PromptHistory,
    UnderWay,
    build_prompt,
    growing_prompt,
)
from jazz_select.values import Candidate, flow_id
from tests.unit.selector.shop import flow, metadata, shop

NAMES = [f"flow_{letter}" for letter in "abcdefgh"]
WHOLE = {"id", "name", "description", "condition", "desired_effects"}
BRIEF = {"id", "name", "condition", "inputs"}


def found(*names: str, **changes: Any) -> list[Candidate]:
    """What recall finds."""
    return [Candidate.from_metadata(each) for each in metadata(*(names or NAMES), **changes)]


def told(prompt: Prompt, path: str = "candidates/flow") -> list[Mapping[str, str]]:
    """What the prompt tells of each flow."""
    root = ET.fromstring(prompt.messages[-1].content)  # noqa: S314 - our own text
    return [each.attrib for each in root.iterfind(path)]


def takes(_: str) -> Sequence[str]:
    return ("order_number: string (Number of the order.)", "day: date")


@pytest.mark.spec("018.10")
def test_three_flows_are_told_whole_and_the_others_by_name_and_condition() -> None:
    prompt = build_prompt("x", (), found(), situation=ConversationContext(inputs=takes))
    first, rest = told(prompt)[:3], told(prompt)[3:]
    assert [{*each} for each in first] == [WHOLE | {"inputs"}] * 3
    assert [{*each} for each in rest] == [BRIEF] * 5
    assert rest[0]["condition"] == "The user wants flow_d."
    assert (first[0]["inputs"], rest[0]["inputs"]) == (
        "order_number: string (Number of the order.); day: date",
        "order_number: string; day: date",
    )
    assert prompt.notes == (), "nothing of it is a degradation"


@pytest.mark.spec("018.10")
def test_a_flow_of_the_conversation_is_told_whole_wherever_it_stands() -> None:
    parked = UnderWay(flow_id=flow_id("flow_h"), state="parked", wanted="h", waits_for="the day")
    (*_, last) = told(build_prompt("x", (), found(), situation=ConversationContext(under_way=(parked,))))
    assert (last["description"], last["state"]) == ("What flow_h does.", "parked")


@pytest.mark.spec("018.10")
def test_no_description_is_cut_to_a_fragment_while_fewer_can_be_told_whole() -> None:
    long = "It does a great many things, one after the other. " * 4
    sizes: list[int] = []
    for tokens in (500, 400, 330, 270):
        prompt = build_prompt("x", (), found(description=long), tokens=tokens, situation=ConversationContext())
        descriptions = [each["description"] for each in told(prompt) if "description" in each]
        assert {*descriptions} == {long}, tokens
        sizes.append(len(descriptions))
    assert sizes == [3, 3, 2, 1]


@pytest.mark.spec("018.10")
def test_who_chooses_without_a_conversation_is_told_all_flows_whole() -> None:
    assert [{*each} for each in told(build_prompt("x", (), found()))] == [WHOLE] * 8


def test_an_example_that_has_no_room_is_not_shown_in_the_place_of_one_that_has() -> None:
    like = {flow_id("flow_a"): ["a long example " * 30, "a short one"]}
    prompt = build_prompt("x", (), found("flow_a"), examples=like, tokens=60)
    (card,) = told(prompt)
    assert "examples" not in card
    assert card["description"] == "What flow_a does."


@pytest.mark.spec("018.10")
def test_where_prompts_grow_a_flow_is_told_whole_once_it_is_among_the_first() -> None:
    registry = shop(*NAMES)
    first = growing_prompt("x", found(), ConversationContext(growing=PromptHistory(turn=1)), flows=registry)
    cards = told(first, "conversation/flow")
    assert [{*each} for each in cards] == [WHOLE] * 3 + [BRIEF - {"inputs"}] * 5
    assert [{*each} for each in told(first, "offered/flow")] == [{"id"}] * 8

    growing = PromptHistory(turn=2, shown=first.shown or ())
    later = growing_prompt("y", found(*reversed(NAMES)), ConversationContext(growing=growing), flows=registry)
    assert told(later, "conversation/flow") == cards, "what was shown stays as it was"
    now = told(later, "offered/flow")
    assert [{*each} for each in now] == [{"id", "description"}] * 3 + [{"id"}] * 5
    assert (now[0]["id"], now[0]["description"]) == ("8", "What flow_h does.")


def test_a_flow_that_is_a_number_is_told_apart_from_a_position() -> None:
    registry = shop(*NAMES)
    flow("7", registry)
    prompt = build_prompt("x", (), found("7", *NAMES), situation=ConversationContext())
    assert [each["id"] for each in told(prompt)][:2] == ["option 1", "option 2"]
