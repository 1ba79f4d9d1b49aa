"""How a model is asked: order, examples, a second reading."""

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.errors import ConfigError
from jazz_select.selector.selector_options import ModelOptions
from jazz_select.testing import ScriptedModel
from jazz_select.text import estimate_tokens
from jazz_select.values import Message
from tests.unit.selector.shop import NAMES, REFUND, flow, metadata, shop


def shown(messages: Sequence[Message]) -> list[ET.Element]:
    """The flows in a prompt, in order."""
    return list(ET.fromstring(messages[1].content).iter("flow"))  # noqa: S314 - our own text


async def test_a_position_in_a_reply_means_the_position_that_was_shown() -> None:
    model = ScriptedModel("[1]")
    result = await FlowSelector(model, shop()).select("x", metadata())
    assert [node.get("name") for node in shown(model.calls[0])] == list(NAMES)
    assert [node.get("id") for node in shown(model.calls[0])] == ["1", "2", "3"]
    assert result.names == list(NAMES[:1])


async def test_the_examples_most_like_the_request_are_shown() -> None:
    registry = FlowRegistry(min_examples=0)
    examples = ["send my money back", "I want a refund for the broken kettle", "the shoes do not fit"]
    flow("refund_order", registry, examples=examples)
    flow("cancel_order", registry)
    model = ScriptedModel(f'["{REFUND}"]')
    selector = FlowSelector(model, registry)
    await selector.select("a refund for my kettle please", metadata("refund_order", "cancel_order"))
    refund, cancel = shown(model.calls[0])
    assert (refund.get("examples") or "").split(" | ")[0] == examples[1]
    assert cancel.get("examples") is None


async def test_up_to_three_examples_are_shown() -> None:
    registry = FlowRegistry(min_examples=0)
    examples = ["send my money back", "a refund please", "money back for the mug", "take it and pay me back"]
    flow("refund_order", registry, examples=examples)
    flow("cancel_order", registry)
    model = ScriptedModel("[]")
    result = await FlowSelector(model, registry).select("x", metadata("refund_order", "cancel_order"))
    assert sum(each in model.calls[0][1].content for each in examples) == 3
    assert result.decision.notes == ()


async def test_an_example_without_a_word_is_like_no_request() -> None:
    registry = FlowRegistry(min_examples=0)
    flow("refund_order", registry, examples=["a refund please", "pay me back", "take it back", "\U0001f4b8"])
    flow("cancel_order", registry)
    model = ScriptedModel("[]")
    await FlowSelector(model, registry).select("x", metadata("refund_order", "cancel_order"))
    assert shown(model.calls[0])[0].get("examples") == "a refund please | pay me back | take it back"


async def test_examples_that_find_no_room_are_left_out_without_a_note() -> None:
    registry = FlowRegistry(min_examples=0)
    flow("refund_order", registry, examples=["send my money back", "a refund please", "money back for the mug"])
    flow("cancel_order", registry)
    selector = FlowSelector(ScriptedModel("[]"), registry, model_options=ModelOptions(prompt_tokens=90))
    result = await selector.select("x", metadata("refund_order", "cancel_order"))
    assert result.decision.notes == ()


# --- a second reading ----------------------------------------------------------


# --- arguments and estimates ---------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens must be a whole number from 1"),
        ({"max_reasks": -1}, "max_reasks must be a whole number from 0"),
        ({"max_retries": 1.5}, "max_retries must be a whole number from 0"),
        ({"max_concurrency": True}, "max_concurrency must be a whole number from 1"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ModelOptions(**options)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("one two three", 3), ("internationalization", 4), ("2026", 2), ("退款", 2), ("a.b", 3), ("…", 1)],
)
def test_an_estimate_of_tokens(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
