"""Turns are values that travel: their runs, chain, trace and error with them, and the events that told of them."""

import copy
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from jazz_select import FlowRegistry
from jazz_select.agent import Conversation
from jazz_select.agent.chain import transcript
from jazz_select.agent.chain.transcript import Chain, Event, Finished, ToolRequest, ToolResult
from jazz_select.agent.turn import TurnResult
from jazz_select.agent.turn_events import event_data, event_name, event_of
from jazz_select.errors import ConfigError, FormatError, JazzSelectError, RemoteError, SnapshotError
from jazz_select.routing import Tool
from jazz_select.telemetry import Trace
from jazz_select.testing import ScriptedModel
from tests.unit.agent.turns import ADA, agent_of, destroyer, obj, shop_of, tools_for
from tests.unit.selector.test_results_as_data import json_values, places, texts

SECRET = b"the secret of these tests"
CALL = '{"tool_calls": [{"id": "1", "tool": "refund", "arguments": {"email": "ada@example.org"}}]}'


def pickled(value: Any) -> Any:
    """There and back."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


def shop() -> FlowRegistry:
    return shop_of(("refund_order", ("refund",)))


def failing(**_: object) -> None:
    raise LookupError("no such order")


async def done() -> TurnResult:
    """A flow that was run."""
    return await agent_of(shop(), tools_for("refund", log=[]), "refund_order").turn("refund order", context=ADA)


async def failed() -> TurnResult:
    """A flow whose tool failed."""
    tool = Tool(name="refund", input_schema=obj(), function=failing)
    return await agent_of(shop(), [tool], "refund_order").turn("refund order", context=ADA)


async def confirming() -> TurnResult:
    """A call that waits for a yes."""
    tools = [destroyer("refund", [], email="string")]
    agent = agent_of(shop(), tools, "refund_order", approval="destructive")
    return await agent.turn("refund order", context=ADA)


async def chained() -> TurnResult:
    """A model that calls tools."""
    model = ScriptedModel(CALL, "It is done.", "It is done.", repeat=True)
    agent = agent_of(shop_of(("other", ())), tools_for("refund", log=[]), "nothing_here", model=model)
    return await agent.turn("refund order", context=ADA)


async def unformatted() -> TurnResult:
    """An answer that is not of the schema."""
    model = ScriptedModel("no JSON", repeat=True)
    agent = agent_of(shop(), tools_for("refund", log=[]), "refund_order", model=model)
    return await agent.turn("refund order", context=ADA, schema=obj(order="string"))


TURNS = [done, failed, confirming, chained, unformatted]
Made = Callable[[], Any]


@pytest.mark.spec("008.6")
@pytest.mark.parametrize("made", TURNS, ids=lambda made: made.__name__)
async def test_a_turn_comes_back_as_it_was(made: Made) -> None:
    result: TurnResult = await made()
    told = result.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    for back in (
        TurnResult.from_dict(told),
        TurnResult.from_json(result.to_json()),
        pickled(result),
        copy.copy(result),
        copy.deepcopy(result),
    ):
        assert back.to_dict() == told
        assert back.conversation == result.conversation
        assert (back.flows, back.model_calls, back.usage) == (result.flows, result.model_calls, result.usage)
        assert type(back.error) is type(result.error)
        assert str(back.error) == str(result.error)
        assert str(back.trace) == str(result.trace)
    back = TurnResult.from_dict(told)
    assert back.chain == result.chain
    assert [run.steps for run in back.runs if run.status == "done"] == [
        run.steps for run in result.runs if run.status == "done"
    ]


async def test_each_way_of_ending_was_one() -> None:
    ended = [await made() for made in TURNS]
    assert [each.status for each in ended[:3]] == ["done", "failed", "confirming"]
    assert ended[1].runs[0].records[0].cause is not None
    assert ended[2].conversation.pending is not None
    assert ended[3].chain is not None
    assert isinstance(ended[4].error, FormatError)


async def test_what_went_wrong_comes_as_what_it_was() -> None:
    back = TurnResult.from_dict((await unformatted()).to_dict())
    error = back.error
    assert isinstance(error, FormatError)
    assert (error.phase, error.attempts) == ("reply", error.attempts)
    cause = TurnResult.from_dict((await failed()).to_dict()).runs[0].records[0].cause
    assert isinstance(cause, RemoteError)
    assert (cause.code, cause.text) == ("LookupError", "no such order")


class Order(BaseModel):
    """What a caller's own class may be."""

    number: int


async def test_a_value_of_a_class_is_data_as_json_and_itself_pickled() -> None:
    result = replace(await done(), value=Order(number=7))
    assert TurnResult.from_dict(result.to_dict()).value == {"number": 7}
    assert pickled(result).value == Order(number=7)


async def test_what_is_no_json_is_told_as_its_text() -> None:
    agent = agent_of(shop(), tools_for("refund", log=[]), "refund_order")
    result = await agent.turn("refund order", context={**ADA, "db": object(), "half": "\ud800"})
    told = result.to_dict()
    assert told["runs"][0]["facts"]["db"] == "[a object]"
    assert TurnResult.from_dict(told).to_dict() == told


async def test_a_trace_keeps_what_lies_in_what() -> None:
    result = await done()
    back = TurnResult.from_dict(result.to_dict()).trace
    names = [(span.name, span.parent.name if span.parent else "") for span in result.trace]
    assert [(span.name, span.parent.name if span.parent else "") for span in back] == names
    assert back.closed
    with pytest.raises(ConfigError), back:
        pass


@pytest.mark.parametrize(
    "spans", [7, [7], [{}], [{"name": "x", "kind": "tool", "parent": 0}], [{"name": "x", "kind": "y"}]]
)
def test_what_is_no_trace_is_refused(spans: Any) -> None:
    with pytest.raises(ConfigError, match="that to_dict told"):
        Trace.from_json(spans)


# --- conversations that another signs ------------------------------------------


@pytest.mark.spec("008.6")
async def test_a_conversation_that_another_signed_goes_on_as_it_came() -> None:
    result = await confirming()
    told = result.to_dict(secret=SECRET)
    back = TurnResult.from_dict(told)
    assert back.conversation == result.conversation
    assert back.conversation.signed_text == back.conversation.to_json() == told["conversation"]
    assert back.to_dict() == told
    kept = Conversation.from_json(back.conversation.to_json())
    assert Conversation.from_json(kept.to_json(), secret=SECRET) == result.conversation
    assert pickled(back).conversation.signed_text == told["conversation"]
    assert not TurnResult.from_dict(told, secret=SECRET).conversation.signed_text, "here it can be signed anew"


async def test_one_that_was_changed_is_signed_by_nobody() -> None:
    back = TurnResult.from_dict((await confirming()).to_dict(secret=SECRET)).conversation
    changed = back.model_copy(update={"pending": None})
    assert not changed.signed_text
    assert back.model_copy().signed_text == back.signed_text
    with pytest.raises(SnapshotError, match="not signed"):
        Conversation.from_json(changed.to_json(), secret=SECRET)
    told = {**(await confirming()).to_dict(), "conversation": changed.to_json()}
    with pytest.raises(SnapshotError, match="not signed"):
        TurnResult.from_dict(told, secret=SECRET)
    assert TurnResult.from_dict(told).conversation == changed


# --- what anyone may send ------------------------------------------------------


@given(json_values)
def test_whatever_is_sent_is_read_or_refused(data: Any) -> None:
    reads: list[Callable[[Any], object]] = [TurnResult.from_dict, Chain.from_dict, partial(event_of, "finished")]
    for read in reads:
        with suppress(ConfigError):
            read(data)


async def test_a_turn_with_anything_at_any_place_is_read_or_refused() -> None:
    all_of_them = [json.dumps((await made()).to_dict()) for made in TURNS]

    @given(st.data())
    def changed(data: st.DataObject) -> None:
        told: Any = json.loads(data.draw(st.sampled_from(all_of_them)))
        at = told
        for _ in range(data.draw(st.integers(1, 6))):
            keys = places(at)
            if not keys:
                break
            key = data.draw(st.sampled_from(keys))
            if data.draw(st.booleans()):
                at[key] = data.draw(json_values)
                break
            at = at[key]
        with suppress(ConfigError):
            TurnResult.from_dict(told)

    changed()


WRONG: list[dict[str, Any]] = [
    {"status": "gone"},
    {"conversation": {}},
    {"conversation": "[]"},
    {"conversation": "x" * 3_000_000},
    {"runs": [{}]},
    {"runs": [{"flow": "x", "records": [{"step": 1, "tool": "t", "tier": "?", "reason": ""}]}]},
    {"error": {"code": "ConfigError"}},
    {"error": []},
    {"trace": [1]},
    {"selection": {}},
    {"chain": {"entries": [{"kind": "x"}]}},
    {"text": None},
    {"notes": "x"},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(change)[:40])
async def test_what_is_no_turn_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="that to_dict told"):
        TurnResult.from_dict({**(await done()).to_dict(), **change})


# --- events --------------------------------------------------------------------

calls = st.builds(ToolRequest, id=texts, round=st.integers(0, 9), tool=texts, requested=texts)
results = st.builds(ToolResult, id=texts, round=st.integers(0, 9), tool=texts, ok=st.booleans(), error=texts)
events = st.one_of(
    st.builds(transcript.ModelCalled, purpose=st.sampled_from(["chain", "answer", "format"]), number=st.integers(1, 9)),
    st.builds(transcript.ChainText, text=texts, closing=st.booleans()),
    st.builds(transcript.ToolCalled, call=calls),
    st.builds(transcript.ToolReturned, result=results),
    st.builds(transcript.FormatStarted, incomplete=st.booleans()),
    st.builds(transcript.OutputText, delta=texts),
    st.builds(transcript.FormatRestarted, problem=texts),
    st.builds(transcript.FlowChosen, flow=texts),
)


@given(events)
def test_any_event_comes_back(event: Event) -> None:
    told = event_data(event)
    assert event_of(event_name(event), json.loads(json.dumps(told))) == event


async def test_the_last_event_is_the_turn() -> None:
    result = await done()
    told = event_data(Finished(answer=result), secret=SECRET)
    back = event_of("finished", told, secret=SECRET)
    assert isinstance(back, Finished)
    assert back.answer.to_dict(secret=SECRET) == told
    with pytest.raises(ConfigError, match="end of something else"):
        event_data(Finished(answer="text"))


def test_what_a_newer_version_tells_of_is_passed_over() -> None:
    assert event_of("tool_dreamt_of", {"x": 1}) is None


async def test_of_a_run_what_only_a_newer_version_tells_is_passed_over() -> None:
    run = {"flow": "refund_order", "status": "done", "facts": {"order": 7}}
    (back,) = TurnResult.from_dict({**(await done()).to_dict(), "runs": [run | {"dreamt_of": 1}]}).runs
    assert (back.flow, back.own, back.facts) == ("refund_order", {}, {"order": 7})


@pytest.mark.parametrize(
    ("name", "data"), [("tool_called", {}), ("tool_called", 7), ("flow_chosen", {"flow": 1}), ("finished", {})]
)
def test_what_is_no_event_is_refused(name: str, data: Any) -> None:
    with pytest.raises(ConfigError):
        event_of(name, data)


async def test_an_error_in_a_turn_may_be_any_of_ours() -> None:
    class OfAnAuthorError(JazzSelectError):
        """Not one of the library's."""

    result = replace(await done(), error=OfAnAuthorError("theirs"))
    back = TurnResult.from_dict(result.to_dict()).error
    assert isinstance(back, RemoteError)
    assert str(back) == "OfAnAuthorError: theirs"
