"""What follows from a message: every state of a conversation with every reading of a message, as one table."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazz_select.agent.actions import Action, Answer, AskAgain, Begin, Fill, Grant, Refuse
from jazz_select.agent.conversation import Conversation, OpenFlow, PendingCall
from jazz_select.agent.decide import decide
from jazz_select.agent.reading.grounding import Grounded
from jazz_select.agent.reading.reading import Able, Reading, Wish
from jazz_select.agent.turn import TurnRequest, TurnState
from jazz_select.stages import UserOption, UserQuestion

pytestmark = pytest.mark.spec("018.1")
OWN, OTHER = "cancel_order", "track_order"
SAID = Grounded(values={"order": "60143"})
QUESTION = UserQuestion(
    text="Which one?",
    options=tuple(UserOption(flow_id=each, flow_name=each, title=each) for each in (OTHER, "third")),
    request="my order",
)
PENDING = PendingCall(id="1", tool="cancel", flow=OWN, arguments={"order": "60142"})


def state_of(flow: OpenFlow | None = None, pending: PendingCall | None = None) -> TurnState:
    flows = () if flow is None else (flow,)
    conversation = Conversation(flows=flows, pending=pending)
    request = TurnRequest(message="…", conversation=conversation, context={})
    return replace(TurnState.from_request(request), pending=pending)


WAITS = OpenFlow(name=OWN, status="waiting", asks=("order",))
STATES = {
    "idle": state_of(),
    "asks for an input": state_of(WAITS),
    "asks whether to go on": state_of(OpenFlow(name=OWN, status="waiting")),
    "proposes a value": state_of(WAITS.model_copy(update={"choices": {"order": ("60143",)}})),
    "a call of a flow waits": state_of(WAITS.model_copy(update={"asks": ()}), PENDING),
    "a call of a model waits": state_of(
        OpenFlow(name=OWN, status="waiting"), PENDING.model_copy(update={"door": "chain"})
    ),
    "a call of no flow waits": state_of(None, PENDING.model_copy(update={"flow": ""})),
    "a model is at work": state_of(OpenFlow(name=OWN, status="active")),
}
MODEL = Reading(source="model")
RECALL = Reading(source="recall")
READINGS = {
    "fails": Reading(source="recall", problem="it is down"),
    "rule: yes": Reading(answer="yes"),
    "rule: yes, and more": Reading(answer="yes", rest="and my parcel?", wishes=(Wish(OTHER),)),
    "rule: yes, and what is for no flow": Reading(answer="yes", rest="what a day"),
    "rule: no": Reading(answer="no"),
    "rule: no, and more": Reading(answer="no", rest="where is it?", wishes=(Wish(OTHER),)),
    "rule: off": Reading(called_off=((OWN, 0, 0),)),
    "rule: not this one": Reading(proposal="no"),
    "rule: a value": Reading(grounded=SAID),
    "rule: two objects": Reading(grounded=SAID, wishes=(Wish(OWN, SAID), Wish(OWN, SAID))),
    "rule: for the model": Reading(for_model=True, is_first=True),
    "rule: none of these": Reading(picked="off"),
    "recall: nothing": RECALL,
    "recall: unsure": replace(RECALL, wishes=(Wish(OTHER),)),
    "recall: sure": replace(RECALL, wishes=(Wish(OTHER),), is_sure=True),
    "recall: sure, unread": replace(RECALL, wishes=(Wish(OTHER), Wish("third")), is_sure=True, is_held=True),
    "recall: which": replace(RECALL, question=QUESTION, is_elsewhere=True),
    "recall: which, again": replace(RECALL, question=QUESTION, not_asked="it was asked before"),
    "model: nothing": MODEL,
    "model: yes": replace(MODEL, answer="yes"),
    "model: yes, and more": replace(MODEL, answer="yes", wishes=(Wish(OTHER),)),
    "model: a yes that does not count": replace(MODEL, answer="unclear"),
    "model: no": replace(MODEL, answer="no"),
    "model: no, but this": replace(MODEL, answer="no", wishes=(Wish(OWN),), grounded=SAID),
    "model: a value": replace(MODEL, wishes=(Wish(OWN),), grounded=SAID),
    "model: about it": replace(MODEL, wishes=(Wish(OWN),)),
    "model: another": replace(MODEL, wishes=(Wish(OTHER),)),
    "model: this and another": replace(MODEL, wishes=(Wish(OWN), Wish(OTHER)), grounded=SAID),
    "model: off": replace(MODEL, called_off=((OWN, 0, 0),)),
    "model: another instead": replace(MODEL, called_off=((OWN, 0, 0),), wishes=(Wish(OTHER),)),
}


def written(actions: tuple[Action, ...]) -> str:
    return ", ".join(_one(each) for each in actions)


def _one(action: Any) -> str:
    name = type(action).__name__
    flags = ("is_for_model", "is_held", "is_first", "about", "goes_on")
    marks = [flag for flag in flags if getattr(action, flag, False)]
    flows = [each.flow for each in getattr(action, "wishes", ())]
    after = getattr(action, "after", "")
    told = [*([f"after {after}"] if after else []), *flows, *marks]
    return f"{name}({' '.join(told)})" if told else name


def _table(able: Able) -> list[str]:
    rows: list[str] = []
    for state_name, state in STATES.items():
        rows.append(f"{state_name}:")
        rows += [f"  {name}: {written(decide(state, reading, able))}" for name, reading in READINGS.items()]
    return rows


def whole_table() -> str:
    with_model = _table(Able(reads=True, answers=True))
    return "\n".join(["# with a model", *with_model, "", "# without a model", *_table(Able()), ""])


EVERY = [
    pytest.param(state, reading, id=f"{state_name} - {reading_name}")
    for state_name, state in STATES.items()
    for reading_name, reading in READINGS.items()
]


def test_every_state_with_every_reading() -> None:
    pinned = Path(__file__).with_name("decisions.txt").read_text("utf-8")
    assert whole_table() == pinned, "run python -m tests.unit.agent.test_decide, and read what has changed"


@pytest.mark.parametrize(("state", "reading"), EVERY)
def test_a_call_is_granted_by_a_yes_alone_and_only_where_one_waits(state: TurnState, reading: Reading) -> None:
    actions = decide(state, reading, Able(reads=True, answers=True))
    if any(isinstance(each, Grant) for each in actions):
        assert reading.answer == "yes"
        assert state.pending is not None
        assert not any(isinstance(each, Refuse) for each in actions)


@pytest.mark.parametrize(("state", "reading"), EVERY)
@pytest.mark.parametrize("able", [Able(), Able(reads=True, answers=True)], ids=["no model", "a model"])
def test_no_wish_that_was_read_is_dropped(state: TurnState, reading: Reading, able: Able) -> None:
    """Of wishes that are sure, each begins, is gone on with, or is held; what is left over is said."""
    actions = decide(state, reading, able)
    handled = {each.flow for action in actions if isinstance(action, Begin) for each in action.wishes}
    top = state.agenda.top
    if top is not None and any(isinstance(each, Fill | Answer | AskAgain | Refuse) for each in actions):
        handled.add(top.name)
    wished = set(reading.names)
    is_certain = reading.source != "recall" or reading.is_sure
    if is_certain and not reading.is_held and not reading.problem and reading.answer != "unclear":
        answered = reading.source == "rule" and not reading.answer and not reading.says_values
        assert answered or wished <= handled | ({top.name} if top is not None else set())


@pytest.mark.parametrize(("state", "reading"), EVERY)
def test_something_always_follows(state: TurnState, reading: Reading) -> None:
    assert decide(state, reading, Able())


if __name__ == "__main__":
    Path(__file__).with_name("decisions.txt").write_text(whole_table(), "utf-8")
