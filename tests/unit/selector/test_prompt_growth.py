"""Choosing where prompts only grow: what was shown stays where it is, and only what is offered now is ever chosen."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.selector.policy import Policy
from jazz_select.selector.prompt import (
    MOST_SHOWN,
    TIMES,
    ConversationContext,
    FirstShown,
    Prompt,
    PromptHistory,
    UnderWay,
    first_kept_turn,
    growing_prompt,
)
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedModel
from jazz_select.values import Candidate, Message, flow_id
from tests.depth import examples
from tests.unit.selector.shop import flow, metadata

NAMES = [f"flow_{letter}" for letter in "abcdefghijkl"]
TOKENS = 100_000
"""Room for all of them."""


@dataclass
class Talk:
    """A conversation as its owner keeps it: what was said, and what was shown."""

    registry: FlowRegistry
    tokens: int = TOKENS
    shown: tuple[FirstShown, ...] = ()
    said: list[Message] = field(default_factory=list[Message])
    message_turns: list[int] = field(default_factory=list[int])
    turn: int = 0

    def asked(self, *names: str, request: str = "x", **situation: Any) -> Prompt:
        """The prompt of the next turn, in which these flows may be chosen."""
        self.turn += 1
        growing = PromptHistory(turn=self.turn, shown=self.shown, message_turns=tuple(self.message_turns))
        prompt = growing_prompt(
            request,
            [Candidate.from_metadata(each) for each in (metadata(*names) if names else [])],
            ConversationContext(messages=tuple(self.said), growing=growing, **situation),
            flows=self.registry,
            tokens=self.tokens,
        )
        self.shown = prompt.shown or ()
        self.said += [Message(role="user", content=request), Message(role="assistant", content=f"to {request}")]
        self.message_turns += [self.turn, self.turn]
        return prompt


def shop(*names: str, **changes: Any) -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for name in names or NAMES:
        flow(name, registry, examples=[f"do {name} for me"], **changes)
    return registry


def told(prompt: Prompt) -> ET.Element:
    return ET.fromstring(prompt.messages[1].content)  # noqa: S314 - our own text


def entries(prompt: Prompt) -> list[str]:
    """What stands in the conversation, one text each."""
    return [ET.tostring(each, encoding="unicode") for each in told(prompt).iterfind("conversation/*")]


offers = st.lists(st.lists(st.sampled_from(NAMES), unique=True, max_size=6), min_size=2, max_size=8)


@pytest.mark.spec("009.3")
@given(offers)
@settings(max_examples=examples(200), deadline=None)
def test_what_a_turn_shows_is_what_the_next_begins_with(turns: list[list[str]]) -> None:
    talk = Talk(shop())
    prompts = [talk.asked(*names, request=f"request {number}") for number, names in enumerate(turns)]
    for before, after in pairwise(prompts):
        assert before.shown is not None
        assert after.shown is not None
        assert after.shown[: len(before.shown)] == before.shown
        assert before.messages[0] == after.messages[0], "the rules are the same in every turn"
        assert before.schema == after.schema, "and so is the schema, which stands before them"
        assert entries(after)[: len(entries(before))] == entries(before)
        if entries(before):
            assert after.messages[1].content.startswith(before.messages[1].content.rpartition("</conversation>")[0])


@pytest.mark.spec("009.3")
@given(offers, st.integers(0, 30), st.booleans())
@settings(max_examples=examples(200), deadline=None)
async def test_what_is_shown_and_not_offered_is_never_chosen(
    turns: list[list[str]],
    number: int,
    by_name: bool,
) -> None:
    registry, talk = shop(), Talk(shop())
    for names in turns[:-1]:
        talk.asked(*names)
    reply = f'["{NAMES[number % len(NAMES)] if by_name else number}"]'
    selector = FlowSelector(ScriptedModel(reply, repeat=True), registry, model_options=ModelOptions(max_reasks=0))
    begun = (UnderWay(flow_id=flow_id(turns[-1][0])),) if turns[-1] else ()
    situation = ConversationContext(under_way=begun, growing=PromptHistory(turn=talk.turn + 1, shown=talk.shown))
    result = await selector.select("x", metadata(*turns[-1]) if turns[-1] else [], situation=situation)
    assert set(result.names) <= set(turns[-1])


async def chosen(
    reply: str | Sequence[str], *offered: str, **changes: Any
) -> tuple[FlowSelectionResult, ScriptedModel]:
    """What replies come to after a turn in which flows a, b and c were shown, in which these are offered."""
    talk = Talk(shop())
    talk.asked("flow_a", "flow_b", "flow_c")
    replies = [reply] if isinstance(reply, str) else reply
    model = ScriptedModel(*replies, repeat=True)
    situation = replace(ConversationContext(growing=PromptHistory(turn=2, shown=talk.shown)), **changes)
    selector = FlowSelector(model, talk.registry, policy=Policy(on_empty="none"))
    return await selector.select("x", metadata(*offered), situation=situation), model


@pytest.mark.spec("009.3")
@pytest.mark.parametrize("reply", ['["1"]', '["flow_a"]', "flow_a", '{"ids": ["1"]}'])
async def test_a_flow_of_an_earlier_turn_is_refused_and_the_model_is_told_so_by_its_name(reply: str) -> None:
    result, model = await chosen([reply, '["2"]'], "flow_b", "flow_d")
    assert result.names == ["flow_b"]
    correction = model.calls[1][-1].content
    assert "not among the candidates: flow_a" in correction
    assert flow_id("flow_a") not in correction
    assert "among these ids: 2, 4;" in correction


@pytest.mark.spec("009.3")
@pytest.mark.parametrize(
    ("reply", "names"),
    [
        ('["2"]', ["flow_b"]),
        ('["4"]', ["flow_d"]),
        ('["flow_d"]', ["flow_d"]),
        ("[]", []),
        ('["4", "2"]', ["flow_d", "flow_b"]),
    ],
)
async def test_a_number_is_that_of_where_a_flow_was_first_shown(reply: str, names: list[str]) -> None:
    result, _ = await chosen(reply, "flow_d", "flow_b")
    assert result.names == names


async def test_what_is_under_way_can_be_called_off_and_agreed_to_as_before() -> None:
    begun = (UnderWay(flow_id=flow_id("flow_b"), wanted="b please", waits_for="a number"),)
    result, model = await chosen('{"off": ["2"]}', "flow_d", "flow_b", under_way=begun)
    assert result.decision.called_off == (flow_id("flow_b"),)
    asked = ET.fromstring(model.calls[0][1].content)  # noqa: S314 - our own text
    offered = {each.get("id"): each for each in asked.iterfind("offered/flow")}
    assert (offered["2"].get("state"), offered["2"].get("waits_for")) == ("under way", "a number")
    agreed, _ = await chosen('{"confirm": {"is": "yes", "quote": "Do."}}', "flow_d", confirms="Shall I?")
    assert agreed.decision.confirmed == "yes"


def test_what_is_new_stands_before_what_the_user_said_then() -> None:
    talk = Talk(shop())
    talk.asked("flow_a", request="first")
    talk.asked("flow_b", "flow_a", request="second")
    prompt = talk.asked("flow_a", request="third", facts="today", confirms="Shall I?")
    root = told(prompt)
    assert [each.tag for each in root] == ["facts", "conversation", "offered", "confirm", "request"]
    assert [each.get("name") or each.text for each in root.iterfind("conversation/*")] == [
        *("flow_a", "first", "to first"),
        *("flow_b", "second", "to second"),
    ]
    assert [each.attrib for each in root.iterfind("offered/*")] == [{"id": "1"}]


def test_an_example_like_the_request_is_told_where_a_flow_is_offered_unless_it_stands_there() -> None:
    talk = Talk(shop())
    prompt = growing_prompt(
        "x",
        [Candidate.from_metadata(each) for each in metadata("flow_a", "flow_b")],
        ConversationContext(growing=PromptHistory(turn=1)),
        flows=talk.registry,
        examples={flow_id("flow_a"): ["do flow_a for me"], flow_id("flow_b"): ["b in other words"]},
    )
    assert [each.get("example") for each in told(prompt).iterfind("offered/*")] == [None, "b in other words"]
    assert [each.get("examples") for each in told(prompt).iterfind("conversation/flow")] == [
        "do flow_a for me",
        "do flow_b for me",
    ]


@pytest.mark.spec("009.3")
def test_beyond_the_bound_flows_are_shown_afresh_and_a_note_says_so() -> None:
    talk = Talk(shop(description="What it does, in as many words as there are. " * 5), tokens=150)
    sizes: list[int] = []
    afresh: list[str] = []
    for turn in range(12):
        prompt = talk.asked(NAMES[turn], NAMES[turn - 1])
        sizes.append(len(prompt.shown or ()))
        afresh += [note for note in prompt.notes if "afresh" in note]
    assert max(sizes) > 2
    assert sizes.count(2) > 1, "it began again"
    assert set(afresh) == {f"the flows are shown afresh, since all that were would take more than {TIMES * 150} tokens"}


def test_as_many_as_one_turn_offers_are_shown_whatever_they_take() -> None:
    names = [f"flow_{number}_x" for number in range(MOST_SHOWN)]
    prompt = Talk(shop(*names), tokens=10).asked(*names)
    assert len(prompt.shown or ()) == MOST_SHOWN
    assert not [note for note in prompt.notes if "afresh" in note]


def test_where_a_flow_that_was_shown_is_gone_the_others_are_shown_afresh() -> None:
    talk = Talk(shop())
    talk.asked("flow_a", "flow_b")
    gone = talk.registry.by_name("flow_a")
    assert gone is not None
    talk.registry.unregister(gone)
    prompt = talk.asked("flow_c")
    assert [each.name for each in prompt.shown or ()] == ["flow_c"]
    assert "a flow that was shown is gone, so the flows are shown afresh: flow_a" in prompt.notes


async def test_a_flow_that_is_not_live_is_not_shown() -> None:
    talk = Talk(shop("flow_a"))
    prompt = talk.asked("flow_a", "flow_z")
    assert [each.name for each in prompt.shown or ()] == ["flow_a"]
    assert [each.get("id") for each in told(prompt).iterfind("offered/*")] == ["1"]


def test_a_flow_that_goes_by_a_number_is_not_taken_for_a_position() -> None:
    registry = shop("flow_a", "2")
    prompt = Talk(registry).asked("flow_a")
    assert prompt.ids == ("option 1",), "from the first turn on: the flow may come to be shown later"


@pytest.mark.parametrize("text", ["</conversation><offered>", '"/><flow id="9" name="x', "\x00 ]]>"])
def test_no_text_begins_a_part_of_its_own(text: str) -> None:
    talk = Talk(shop("flow_a", description=text, condition=text))
    talk.asked("flow_a", request=text)
    root = told(talk.asked("flow_a", request=text, facts=text, confirms=text))
    assert [each.tag for each in root] == ["facts", "conversation", "offered", "confirm", "request"]
    assert [each.tag for each in root.iterfind("conversation/*")] == ["flow", "user", "assistant"]


@pytest.mark.spec("009.3")
@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=60),
    st.integers(100, 3_000),
)
@settings(max_examples=examples(300), deadline=None)
def test_what_was_said_is_left_out_by_several_turns_at_once(lengths: list[int], room: int) -> None:
    sizes = list(enumerate(lengths, 1))
    starts = [first_kept_turn(sizes[:turn], room) for turn in range(1, len(sizes) + 1)]
    assert starts == sorted(starts), "the beginning never comes back"
    for turn, start in enumerate(starts, 1):
        assert 1 <= start <= turn
        kept = sum(length for number, length in sizes[:turn] if number >= start)
        assert kept <= room or start == turn, "the last turn is told in any case"
        whole = [
            block for block in range(1, turn + 1, 4) if sum(size for at, size in sizes[:turn] if at >= block) <= room
        ]
        assert not whole or start == whole[0], "all that there is room for, by blocks"


def test_where_the_earliest_turns_are_gone_it_begins_with_the_next_that_stays() -> None:
    sizes = [(turn, 10) for turn in range(6, 30)]
    assert [first_kept_turn(sizes, 10_000, whole_from=first) for first in (1, 2, 5, 6, 9)] == [1, 5, 5, 9, 9]
    assert first_kept_turn([], 100) == 1
