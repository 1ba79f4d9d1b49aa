"""The one carrier of a turn: what a part that was handed back keeps of it, and what its result gets."""

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest

from jazz_select.agent.agenda import Agenda
from jazz_select.agent.chain.transcript import Chain
from jazz_select.agent.conversation import Conversation, OpenFlow, PastCall, PendingCall
from jazz_select.agent.turn import FlowRun, TurnOutcome, TurnRequest, TurnState, Way
from jazz_select.errors import ConfigError
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.telemetry import Trace
from jazz_select.values import Decision, Reason, Tier

pytestmark = pytest.mark.spec("018.1")
REQUEST = TurnRequest(message="cancel it, and where is my parcel?", conversation=Conversation(), context={})
PENDING = PendingCall(id="1", tool="cancel", flow="cancel_order")
OPTIONS = tuple(UserOption(flow_id=each, flow_name=each, title=each) for each in ("one", "two"))
DONE: dict[str, Any] = {
    "agenda": Agenda((OpenFlow(name="cancel_order", status="waiting"),)),
    "runs": (FlowRun(flow="cancel_order", status="active"),),
    "chain": Chain(answer="Which order?"),
    "calls": (PastCall(tool="look", output="1"),),
    "called": {"log_in": {"member": "ada"}},
    "returned": {"log_in": ("member",)},
    "notes": ("a value did not count",),
    "text": "Which order?",
    "error": ConfigError("it failed"),
    "value": {"order": 1},
    "not_understood": 2,
}
"""What a turn has done so far."""
DECIDED: dict[str, Any] = {
    "status": "waiting",
    "selection": FlowSelectionResult(decision=Decision(tier=Tier.OPEN, reason=Reason.NONE)),
    "way": Way("run", is_first=True),
    "granted": PENDING,
    "pending": PENDING,
    "question": UserQuestion(text="Which one?", options=OPTIONS, request="it"),
    "resumed": "cancel_order",
    "rest": "where is it?",
    "no_yes": "it has a condition",
    "reason": "no flow fits",
    "incomplete": True,
    "look_ups": ("look",),
    "handed_back": "where is my parcel?",
    "hands_over": True,
}
"""What was decided about the whole message."""


def test_a_part_keeps_what_was_done_and_nothing_of_what_was_decided() -> None:
    names = {each.name for each in fields(TurnState)}
    assert names == {*DONE, *DECIDED, "request"}, "say of the new field whether a part of a message keeps it"
    whole = TurnState(request=REQUEST, **DONE, **DECIDED)
    part, fresh = whole.for_part(), TurnState(request=REQUEST)
    assert {name: getattr(part, name) for name in DONE} == DONE
    expected = {name: getattr(fresh, name) for name in DECIDED} | {"hands_over": False}
    assert {name: getattr(part, name) for name in DECIDED} == expected
    assert part.request == replace(REQUEST, message="where is my parcel?")


def test_a_result_has_all_that_the_state_came_to() -> None:
    state = TurnState(request=REQUEST, **DONE, **DECIDED)
    result = state.result(prompt="", trace=Trace())
    shared = [each.name for each in fields(TurnOutcome)]
    assert [getattr(result, name) for name in shared] == [getattr(state, name) for name in shared]


def test_a_conversation_that_was_saved_before_it_counted_runs_is_read() -> None:
    saved = orjson.loads(Conversation(episodes=("The user said: hi",)).to_json())
    del saved["ran"]
    before = Conversation.from_json(orjson.dumps(saved))
    state = TurnState(request=replace(REQUEST, conversation=before), runs=(FlowRun(flow="look"), FlowRun(flow="see")))
    after = state.result(prompt="", trace=Trace()).conversation
    assert (before.ran, after.ran) == ((), (("look", "see"),))


def test_a_flow_that_is_gone_leaves_the_state_with_the_call_that_waited_for_it() -> None:
    waits = OpenFlow(name="cancel_order", status="waiting")
    conversation = Conversation(flows=(OpenFlow(name="track_it"), waits), pending=PENDING)
    state = TurnState.from_request(replace(REQUEST, conversation=conversation))
    assert state.with_live_flows(lambda _: True).pending == PENDING
    left = state.with_live_flows(lambda name: name == "track_it")
    assert ([each.name for each in left.agenda.flows], left.pending) == (["track_it"], None)
    assert left.reason == "there is no flow cancel_order any more"
