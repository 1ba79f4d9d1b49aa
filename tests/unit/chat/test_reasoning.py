"""Reasoning in text is removed, in many spellings; what merely mentions a tag stays."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select.chat.reasoning import ReasoningFilter, without_reasoning

CASES = {
    "none": ("  At five. \n", "  At five. \n"),
    "at the beginning": ("<think>\nhide\n</think>\n\nAt five.\n", "At five.\n"),
    "an empty one": ("<think></think>\n\nAt five.", "At five."),
    "with attributes": ("<think time='3'>hide</think>At five.", "At five."),
    "in capitals": ("<THINKING>hide</Thinking>At five.", "At five."),
    "after a sentence": ("Sure. <think>hide</think> At five.", "Sure. At five."),
    "within a sentence": ("Sure <think>hide</think>at five.", "Sure at five."),
    "two": ("<think>hide</think>One.<think>hide</think>Two.", "One.Two."),
    "no beginning": ("hide</think>At five.", "At five."),
    "no end": ("<think>hide", ""),
    "no end after a sentence": ("Sure. <think>hide", "Sure. "),
    "nested": ("<think>a<think>b</think>hide</think>At five.", "At five."),
    "the opening tag quoted": ("<think>a <think> tag, hide</think>At five.", "At five."),
    "the closing tag quoted": ("<think>write `</think>`, hide</think>At five.", "At five."),
    "behind a lone backtick": ("It is 5` long <think>hide</think>now", "It is 5` long now"),
    "before JSON": ("<think>or [2]?</think>[1]", "[1]"),
    "behind JSON": ('{"a": "<think>b</think>"} <think>hide</think>', '{"a": "<think>b</think>"} '),
    "square": ("[THINK]hide[/THINK]At five.", "At five."),
    "triangles": ("◁think▷hide◁/think▷At five.", "At five."),
    "seed": ("<seed:think>hide</seed:think>At five.", "At five."),
    "special tokens": ("<|begin_of_thought|>hide<|end_of_thought|>At five.", "At five."),
    "thought, first": ("<thought>hide</thought>At five.", "At five."),
    "thought, later": ("A <thought>b</thought>.", "A <thought>b</thought>."),
    "channels": (
        "<|channel|>analysis<|message|>hide<|end|><|start|>assistant<|channel|>final<|message|>At five.<|return|>",
        "At five.",
    ),
    "channels without their beginning": (
        "hide<|end|><|start|>assistant<|channel|>final<|message|>At five.",
        "At five.",
    ),
    "a call in a channel": ("<|channel|>commentary to=functions.x <|constrain|>json<|message|>{}<|call|>", ""),
    "in a span of code": ("Use `<think>` and ``</think>``.", "Use `<think>` and ``</think>``."),
    "in a block of code": ("```xml\n<think>x</think>\n```\nDone.", "```xml\n<think>x</think>\n```\nDone."),
    "after a block of code": ("```\nx\n```\n<think>hide</think>At five.", "```\nx\n```\nAt five."),
    "in a string of JSON": ('{"a": "\\"<think>x</think>"}', '{"a": "\\"<think>x</think>"}'),
    "in a list of JSON": ('["</think>"]', '["</think>"]'),
    "a mention": ("The <think> tag begins it.", "The <think> tag begins it."),
    "almost tags": ("a < b, <thi <thinker> [1] {x} ~ <", "a < b, <thi <thinker> [1] {x} ~ <"),
}


def in_pieces(*pieces: str) -> str:
    reading = ReasoningFilter()
    shown = [*map(reading.feed, pieces), reading.finish()]
    begin = max((number for number, each in enumerate(shown) if each.restarts), default=0)
    return "".join(each.text for each in shown[begin:])


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_what_is_visible_does_not_depend_on_the_pieces(text: str, expected: str) -> None:
    assert without_reasoning(text) == expected
    assert in_pieces(*text) == expected
    assert {in_pieces(text[:place], text[place:]) for place in range(len(text) + 1)} == {expected}


@pytest.mark.parametrize(
    ("text", "expected"),
    [("A <think>b", "A "), ("<think>b", ""), ("A. <think>b", "A. ")],
    ids=["in a sentence", "first", "after a sentence"],
)
def test_of_a_text_that_was_cut_off_an_open_tag_is_reasoning(text: str, expected: str) -> None:
    assert without_reasoning(text, cut_off=True) == expected


TAGS = ("<think>", "</think>", "<thi", "nk>", "<thought>", "</thought>", "<|channel|>", "final<|message|>", "<|end|>")
MARKS = st.sampled_from([*TAGS, "`", "```", "\n", '{"', '"}', "\\", "[", "]", " ", "a", "."])


@given(st.lists(MARKS, max_size=30), st.lists(st.integers(0, 100), max_size=8))
def test_any_pieces_give_the_same(marks: list[str], cuts: list[int]) -> None:
    text = "".join(marks)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert in_pieces(*(text[begin:end] for begin, end in pairwise(places))) == without_reasoning(text)


@given(st.text(alphabet='ab <>/`{}[]"\n\\~thinkTHINK', max_size=80))
def test_a_text_without_a_tag_is_left_alone(text: str) -> None:
    if not any(tag in text.casefold() for tag in ("think>", "think ", "think]", "think\n")):
        assert in_pieces(*text) == text
