"""Chains: whatever a model says and a tool returns, only documented errors are raised, and state survives a restart."""

import asyncio
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.agent.chain.finalizer import finalize
from jazz_select.agent.chain.formatting import formatting_messages
from jazz_select.agent.chain.loop import run_chain
from jazz_select.agent.chain.transcript import AssistantText, Chain, Entry, ToolRequest, ToolResult
from jazz_select.errors import FormatError
from jazz_select.json_values import storable
from jazz_select.routing.tools.tool import Tool
from jazz_select.testing import ScriptedModel
from jazz_select.values import Message
from tests.depth import examples

ASK = (Message(role="user", content="go"),)
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

texts = st.text(st.characters(), max_size=20)  # halves of surrogate pairs, too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["look", "Look", "wipe_all", "wipe", "lok", "final_answer", ""]) | texts
calls = st.fixed_dictionaries(
    {"tool": names},
    optional={
        "id": texts | st.sampled_from(["a", "b"]),
        "arguments": values | st.dictionaries(st.sampled_from(["x", "self", "$ref"]), values | st.just({"$ref": "a#"})),
    },
)
shapes = st.one_of(
    calls.map(lambda call: {"tool_call": call}),
    st.lists(calls | values, max_size=4).map(lambda each: {"tool_calls": each}),
    values.map(lambda value: {"natural_language_response": value}),
    values.map(lambda value: {"final_answer": value}),
    values,
)
replies = st.one_of(
    texts,
    shapes.map(json.dumps),
    st.tuples(texts, shapes.map(json.dumps), texts).map("".join),
    st.tuples(shapes.map(json.dumps), st.integers(0, 30)).map(lambda cut: cut[0][: cut[1]]),
)
returns = values | st.binary() | st.just(object()) | st.sets(st.integers())


@given(
    said=st.lists(replies, min_size=1, max_size=4),
    gives=returns,
    limit=st.integers(1, 4),
    strategy=st.sampled_from(["deferred", "native", "tool"]),
    takes=st.booleans(),
)
@settings(max_examples=examples(150), deadline=None)
def test_whatever_is_said_and_returned_nothing_else_is_raised(
    said: list[str], gives: Any, limit: int, strategy: Any, takes: bool
) -> None:
    async def look(**_: Any) -> Any:
        await asyncio.sleep(0)
        return gives

    wiped: list[object] = []

    def wipe(**_: Any) -> None:
        wiped.append(1)

    tools = [
        Tool(name="look", function=look),
        Tool(name="wipe_all", function=wipe, destructive=True),
    ]
    chain = asyncio.run(
        run_chain(
            ScriptedModel(*said, repeat=True, takes_schema=takes),
            ASK,
            tools,
            chain_limit=limit,
            schema=SCHEMA,
            strategy=strategy,
        )
    )
    assert 1 <= chain.model_calls <= limit
    assert chain.incomplete == (chain.status == "limit")
    asked = [entry for entry in chain.entries if isinstance(entry, ToolRequest)]
    told = [entry for entry in chain.entries if isinstance(entry, ToolResult)]
    assert [(each.id, each.round) for each in asked] == [(each.id, each.round) for each in told]
    assert len(wiped) == sum(each.ok and each.tool == "wipe_all" for each in told)
    wipes = [each.requested for each in asked if each.tool == "wipe_all"]
    assert all("".join(filter(str.isalpha, each)).lower() == "wipeall" for each in wipes)
    assert Chain.from_dict(json.loads(json.dumps(chain.to_dict()))) == chain
    error: FormatError | None = None
    try:
        formatted = asyncio.run(finalize(ScriptedModel(*said, repeat=True), chain, SCHEMA, strategy=strategy))
        assert isinstance(formatted.value["n"], int | float)
    except FormatError as raised:
        error = raised
    if error is not None:
        assert (error.phase, error.attempts, error.chain.entries) == ("reply", 2, chain.entries)


stored = values.map(storable)
plain = texts.map(lambda text: text.encode(errors="replace").decode())
entries: st.SearchStrategy[Entry] = st.one_of(
    plain.map(lambda text: AssistantText(text=text)),
    st.builds(ToolRequest, id=plain, round=st.integers(1, 9), tool=plain, arguments=st.dictionaries(plain, stored)),
    st.builds(ToolResult, id=plain, round=st.integers(1, 9), tool=plain, ok=st.booleans(), output=stored, error=plain),
)
chains = st.builds(
    Chain,
    messages=st.lists(st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=plain)).map(
        tuple
    ),
    entries=st.lists(entries, max_size=12).map(tuple),
    answer=plain,
    status=st.sampled_from(["answered", "limit", "failed"]),
)


@given(chain=chains, max_chars=st.integers(500, 900))
@settings(max_examples=examples(100), deadline=None)
def test_the_bound_holds_and_a_chain_survives_a_restart(chain: Chain, max_chars: int) -> None:
    [message] = formatting_messages(chain, SCHEMA, prompt="{schema}\0{transcript}\0{answer}", max_chars=max_chars)
    _, transcript, shown = message.content.split("\0")
    assert len(transcript) + (len(shown) if chain.answer else 0) <= max_chars
    assert Chain.from_dict(json.loads(json.dumps(chain.to_dict()))) == chain
