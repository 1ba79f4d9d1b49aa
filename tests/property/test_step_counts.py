"""Some two hundred texts that are meant to take long, at every reader: each ends, in steps that are counted.

How long each takes is measured by `python -m benchmarks.bounds`, at ten times the length; no test is timed.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.hostile import REPEATED, WRAPPED, nested, repeated, texts
from jazz_select.agent import Conversation
from jazz_select.agent.chain.output_schema import OutputSchema
from jazz_select.agent.conversation import normalized_message
from jazz_select.agent.graph.planner import read_decision
from jazz_select.chat.json_reader import find_embedded, repair_value, unquote_reply, values_in
from jazz_select.chat.reasoning import without_reasoning
from jazz_select.consent import read_consent
from jazz_select.errors import JazzSelectError
from jazz_select.memory.encoder import folded_alias, indexable
from jazz_select.memory.requests import clauses
from jazz_select.routing import Tool, resolve
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.selector.prompt import build_prompt
from jazz_select.selector.reply import read_reply
from jazz_select.text import at_word, clean, cut, estimate_tokens, in_one_line, nfkc
from tests.depth import examples
from tests.unit.selector.shop import candidates

pytestmark = pytest.mark.spec("005.18")
LENGTH = 2_000
MOST_STEPS = 60 * LENGTH
"""Calls of functions, those in C among them. What goes by the square takes two thousand for each letter."""
SCHEMA = OutputSchema({"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]})
OFFERED = candidates()
TOOLS = [Tool(name="find_order"), Tool(name="cancel_order", destructive=True)]


def _asked(text: str) -> object:
    return build_prompt(text, [text], OFFERED)


def _decided(text: str) -> object:
    return read_decision(text, ["search", "finish"])


READERS: dict[str, Callable[[str], object]] = {
    "clauses": clauses,
    "printable": indexable,
    "a name or alias": folded_alias,
    "a request in a prompt": _asked,
    "what is heard": normalized_message,
    "nfkc": nfkc,
    "consent": read_consent,
    "clean": clean,
    "one line": in_one_line,
    "tokens": estimate_tokens,
    "cut": lambda text: (cut(text, 100), at_word(text, 100)),
    "a choice": lambda text: read_reply(text, OFFERED),
    "calls": read_tool_reply,
    "values": values_in,
    "embedded": find_embedded,
    "reasoning": without_reasoning,
    "repair_value": repair_value,
    "unquote_reply": unquote_reply,
    "an answer": SCHEMA.read,
    "a decision": _decided,
    "a name": lambda text: resolve(text, TOOLS),
    "a conversation": Conversation.from_json,
}


def counted(read: Callable[[str], object], text: str) -> int:
    """How many functions are called until it has read the text, or refused it with an error of ours."""
    steps = 0

    def count(_: FrameType, event: str, __: Any) -> None:
        nonlocal steps
        steps += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        read(text)
    except JazzSelectError:
        pass
    finally:
        sys.setprofile(before)
    return steps


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS.keys())
def test_each_text_is_read_in_so_many_steps(reader: Callable[[str], object]) -> None:
    by_name = dict(texts(LENGTH))
    assert len(by_name) > 150
    slow = [name for name in by_name if counted(reader, by_name[name]) > MOST_STEPS]
    # A table that is loaded once, for a language or for all, is none of a text's steps: what is slow is read again.
    assert {name: steps for name in slow if (steps := counted(reader, by_name[name])) > MOST_STEPS} == {}


def _between(begin: str, unit: str, end: str) -> str:
    return begin + repeated(unit, LENGTH) + end


units = st.sampled_from([*REPEATED.values(), *(unit for _, unit, _ in WRAPPED.values())])
hostile = st.one_of(
    st.builds(repeated, st.lists(units, min_size=1, max_size=4).map("".join), st.just(LENGTH)),
    st.builds(nested, units, units, st.just(LENGTH)),
    st.builds(_between, units, units, units),
)


@given(text=hostile)
@settings(max_examples=examples(300), deadline=None)
def test_relatives_of_them_are_too(text: str) -> None:
    took = {name: counted(read, text) for name, read in READERS.items()}
    assert {name: steps for name, steps in took.items() if steps > MOST_STEPS} == {}
