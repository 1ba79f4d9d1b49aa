"""Inputs that depend on one another: asked only if, chosen from a tool's list, proposed, refused together."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jazz_select import Agent, Flow, FlowRegistry, FlowSelector, Input, SequentialFlow, ToolChoices
from jazz_select.agent import Approval, Conversation, TurnResult
from jazz_select.errors import CannotDo, FlowValidationError, WrongValue
from jazz_select.routing import Allow, Ask, Deny, Tool, ToolCall
from jazz_select.testing import ListMemory, ScriptedModel
from tests.agents import TAKE_FIRST, make_agent
from tests.unit.agent.talks import chooses
from tests.unit.selector.shop import metadata

pytestmark = pytest.mark.spec("019.6")


def schema(*required: str, **optional: str) -> dict[str, Any]:
    types = {name: {"type": "string"} for name in required}
    types |= {name: {"type": kind} for name, kind in optional.items()}
    return {"type": "object", "properties": types, "required": list(required)}


class House:
    """Tools that note what they are called with."""

    def __init__(self, **answers: Any) -> None:
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.answers = answers

    def tool(self, name: str, takes: Mapping[str, Any], **marks: Any) -> Tool:
        def run(**given: Any) -> Any:
            self.log.append((name, given))
            answer = self.answers.get(name, {})
            if callable(answer):
                answer = answer(**given)
            return answer

        return Tool(name=name, input_schema=dict(takes), function=run, **marks)

    def called(self, name: str) -> list[dict[str, Any]]:
        return [given for tool, given in self.log if tool == name]


def flow_agent(
    house: House, inputs: Sequence[Input], tools: Sequence[Tool], *, chain: Sequence[str] = (), **options: Any
) -> Agent:
    registry = FlowRegistry(min_examples=0)
    fields = {name: options.pop(name) for name in ("ask", "calls", "reply") if name in options}
    names = [each.name for each in tools]
    Flow(
        name="act",
        title="The act",
        condition="c",
        inputs=inputs,
        tools=names,
        chain=chain or names[-1:],
        registry=registry,
        **fields,
    )
    selector = FlowSelector(None, registry, ListMemory(metadata("act")), "house", policy=TAKE_FIRST)
    return make_agent(selector, tools, **{"approval": "never", **options})


async def talk(made: Agent, *messages: str, context: Any = None) -> list[TurnResult]:
    kept: Conversation | None = None
    results: list[TurnResult] = []
    for message in messages:
        results.append(await made.turn(message, kept, context=context))
        kept = Conversation.from_json(results[-1].conversation.to_json())
    return results


def paying(house: House, when: Mapping[str, Any], **options: Any) -> Agent:
    inputs = [
        Input("payment", "How?", choices=("card", "bill", "cash")),
        Input("note", "Which note?", when=when),
    ]
    return flow_agent(house, inputs, [house.tool("pay", schema("payment", note="string"))], **options)


WHEN: list[Any] = [
    pytest.param({"payment": "card"}, "card", True, id="the value"),
    pytest.param({"payment": "CARD"}, "card", True, id="in another case"),
    pytest.param({"payment": "card"}, "cash", False, id="another value"),
    pytest.param({"payment": ["card", "bill"]}, "bill", True, id="one of a list"),
    pytest.param({"payment": ["card", "bill"]}, "cash", False, id="none of a list"),
    pytest.param({"payment": True}, "cash", True, id="given at all"),
    pytest.param({"payment": False}, "cash", False, id="not given"),
]


@pytest.mark.parametrize(("when", "said", "asks"), WHEN)
async def test_an_input_is_asked_for_only_if_another_one_has_a_value(
    when: dict[str, Any], said: str, asks: bool
) -> None:
    house = House()
    first, second = await talk(paying(house, when), "act", said)
    assert first.text == "How? (card, bill or cash)"
    assert (second.text == "Which note?") is asks
    assert house.called("pay") == ([] if asks else [{"payment": said}])


async def test_what_depends_on_another_answer_is_asked_for_behind_it_where_all_are_asked_together() -> None:
    first, second, _ = await talk(paying(House(), {"payment": "card"}, ask="together"), "act", "card", "a note")
    assert (first.text, second.text) == ("How? (card, bill or cash)", "Which note?")


async def test_a_correction_leaves_out_what_was_said_and_takes_it_back_in() -> None:
    house = House()
    inputs = [
        Input("payment", "How?", choices=("card", "cash")),
        Input("note", "Which note?", when={"payment": "card"}),
        Input("day", "When?"),
    ]
    tool = house.tool("pay", schema("payment", "day", note="string"))
    made = flow_agent(house, inputs, [tool])
    await talk(made, "act", "card", "mine", "no, cash", "Monday")
    assert house.called("pay") == [{"payment": "cash", "day": "Monday"}]


FLAG: list[Any] = [
    pytest.param(True, "yes", True, id="yes"),
    pytest.param(True, "no", False, id="no"),
    pytest.param(False, "no", True, id="asked if not"),
]


@pytest.mark.parametrize(("wanted", "said", "asks"), FLAG)
async def test_a_condition_on_a_yes_or_no(wanted: bool, said: str, asks: bool) -> None:
    house = House()
    inputs = [Input("gift", "Is it a gift?"), Input("card", "Which card?", when={"gift": wanted})]
    made = flow_agent(house, inputs, [house.tool("send", schema(gift="boolean", card="string"))])
    _, second = await talk(made, "act", said)
    assert (second.text == "Which card?") is asks


RESULTS: list[Any] = [
    pytest.param({"refundable": False}, {"look_up.refundable": False}, True, id="false"),
    pytest.param({"refundable": True}, {"look_up.refundable": False}, False, id="true"),
    pytest.param({}, {"look_up.refundable": False}, True, id="not there is false"),
    pytest.param({"state": "paid"}, {"look_up.state": ["paid", "sent"]}, True, id="a text"),
    pytest.param({"room": {"kind": "hall"}}, {"look_up.room.kind": "hall"}, True, id="within an object"),
    pytest.param({"room": "hall"}, {"look_up.room.kind": "hall"}, False, id="no object"),
]


@pytest.mark.parametrize(("found", "when", "asks"), RESULTS)
async def test_an_input_is_asked_for_only_if_a_tool_returned_something(
    found: dict[str, Any], when: dict[str, Any], asks: bool
) -> None:
    house = House(look_up=found)
    inputs = [Input("number", "Which number?"), Input("reason", "Why?", when=when)]
    tools = [
        house.tool("look_up", schema("number"), read_only=True),
        house.tool("cancel", schema("number", reason="string")),
    ]
    made = flow_agent(house, inputs, tools, chain=["look_up", "cancel"])
    first, second, *_ = await talk(made, "act", "A-1")
    assert first.text == "Which number?"
    assert (second.text == "Why?") is asks
    assert house.called("cancel") == ([] if asks else [{"number": "A-1"}])
    if asks:
        *_, third = await talk(made, "act", "A-1", "too late")
        assert (third.status, house.called("cancel")) == ("done", [{"number": "A-1", "reason": "too late"}])
        assert len(house.called("look_up")) == 2, "once in each conversation"


async def test_and_if_a_flow_that_it_calls_found_something() -> None:
    house = House(sign_in={"member": "ada", "level": "gold"})
    registry = FlowRegistry(min_examples=0)
    sign_in = house.tool("sign_in", schema("code"), read_only=True)
    act = house.tool("act", schema("wish", present="string"))
    Flow(name="log_in", only_called=True, tools=["sign_in"], chain=["sign_in"], registry=registry)
    inputs = [Input("wish", "What?"), Input("present", "Which present?", when={"sign_in.level": "gold"})]
    Flow(name="act", condition="c", inputs=inputs, calls=["log_in"], tools=["act"], chain=["act"], registry=registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("act")), "house", policy=TAKE_FIRST)
    made = make_agent(selector, [sign_in, act], approval="never")
    results = await talk(made, "act", "1234", "a bike", "a bell")
    assert [each.text for each in results[1:3]] == ["What?", "Which present?"]
    assert house.called("act") == [{"wish": "a bike", "present": "a bell"}]


# --- choices from a tool -------------------------------------------------------

ROOMS = [{"id": "R-1", "name": "Oak"}, {"id": "R-2", "name": "Elm"}, {"id": "R-3", "name": "Great hall"}]


def rooms(house: House, choices: ToolChoices | None = None, **options: Any) -> Agent:
    listed = choices or ToolChoices("list_rooms", value="id", label="name")
    inputs = [Input("room", "Which room?", choices=listed)]
    tools = [
        house.tool("list_rooms", schema(seats="integer", city="string"), read_only=True),
        house.tool("book", schema("room")),
    ]
    return flow_agent(house, [*options.pop("before", ()), *inputs], tools, chain=["book"], **options)


ANSWERS: list[Any] = [
    pytest.param("R-2", "R-2", id="the value"),
    pytest.param("elm", "R-2", id="the label"),
    pytest.param("Elm, please", "R-2", id="with a courtesy"),
    pytest.param("great", "R-3", id="a word of one label"),
    pytest.param("the second one", "R-2", id="a place"),
    pytest.param("in the great hall", "R-3", id="around the label"),
]


@pytest.mark.parametrize(("said", "booked"), ANSWERS)
async def test_an_answer_is_a_value_or_a_label_of_the_list(said: str, booked: str) -> None:
    house = House(list_rooms=ROOMS)
    first, second = await talk(rooms(house), "act", said)
    assert first.text == "Which room? (Oak, Elm or Great hall)"
    assert (second.status, house.called("book")) == ("done", [{"room": booked}])
    assert len(house.called("list_rooms")) == 1, "the list is kept with the question"


@pytest.mark.parametrize("said", ["Ash", "R-9", "4"])
async def test_what_is_not_in_the_list_is_refused_with_it(said: str) -> None:
    house = House(list_rooms=ROOMS)
    _, second = await talk(rooms(house), "act", said)
    assert second.text == f"{said} cannot be used for room. Which room? (Oak, Elm or Great hall)"
    assert (second.status, house.called("book")) == ("waiting", [])


@pytest.mark.parametrize("said", ["not the elm", "which has windows?", "oak or elm", "none of these"])
async def test_what_names_no_single_entry_is_asked_again(said: str) -> None:
    house = House(list_rooms=ROOMS)
    _, second = await talk(rooms(house), "act", said)
    assert (second.status, house.called("book")) == ("waiting", [])
    assert second.text.endswith("Which room? (Oak, Elm or Great hall)")


async def test_a_value_of_the_first_message_is_looked_up_in_the_list() -> None:
    house = House(list_rooms=ROOMS)
    model = ScriptedModel(chooses("act", values={"room": "R-9"}), repeat=True)
    made = rooms(house, model=model)
    (first,) = await talk(made, "book room R-9")
    assert first.text == "R-9 cannot be used for room. Which room? (Oak, Elm or Great hall)"


SHAPES: list[Any] = [
    pytest.param({"rooms": ROOMS}, ToolChoices("list_rooms", value="id", label="name"), "Oak, Elm or Great hall"),
    pytest.param({"rooms": ROOMS}, ToolChoices("list_rooms", value="id"), "R-1, R-2 or R-3"),
    pytest.param(["Oak", "Elm"], ToolChoices("list_rooms"), "Oak or Elm"),
    pytest.param([1, 2], ToolChoices("list_rooms"), "1 or 2"),
    pytest.param(
        [{"id": 1, "name": "Oak"}, {"id": 2, "name": "Oak"}],
        ToolChoices("list_rooms", value="id", label="name"),
        "Oak (1) or Oak (2)",
    ),
    pytest.param(
        [{"id": "A\n\u202eB"}, {"no": 1}, {"id": None}, {"id": ["x"]}, {"id": "x" * 500}, {"id": "C"}],
        ToolChoices("list_rooms", value="id"),
        "A \\u202eB or C",
    ),
]


@pytest.mark.parametrize(
    ("listed", "choices", "shown"),
    SHAPES,
    ids=["in an object", "without a label", "texts", "numbers", "the same label twice", "what is no value is left out"],
)
async def test_forms_of_a_list(listed: Any, choices: ToolChoices, shown: str) -> None:
    (first,) = await talk(rooms(House(list_rooms=listed), choices), "act")
    assert first.text == f"Which room? ({shown})"


async def test_a_long_list_is_cut_and_any_entry_of_it_is_taken() -> None:
    house = House(list_rooms=[f"Room {number}" for number in range(300)])
    first, second = await talk(rooms(house, ToolChoices("list_rooms")), "act", "room 250")
    assert first.text.endswith("Room 18, Room 19, …)")
    assert len(first.conversation.flows[-1].options["room"].entries) == 100
    assert house.called("book") == [{"room": "Room 250"}], second.text


def fails(**_: Any) -> Any:
    msg = "the plan is locked"
    raise OSError(msg)


DOWN: list[Any] = [
    pytest.param(fails, "the plan is locked", id="it fails"),
    pytest.param({"state": "closed"}, "returned no list", id="no list"),
    pytest.param([{"name": "Oak"}], "returned no entry with a value", id="no values"),
    pytest.param({"one": [], "other": []}, "returned no list", id="two lists"),
]


@pytest.mark.parametrize(("listed", "why"), DOWN)
async def test_without_a_list_any_value_is_taken_with_a_note(listed: Any, why: str) -> None:
    house = House(list_rooms=listed)
    first, second = await talk(rooms(house), "act", "the cellar")
    assert (first.text, house.called("book")) == ("Which room?", [{"room": "the cellar"}])
    assert [note for note in first.notes if "choices of room" in note and why in note], first.notes
    assert second.status == "done"


async def test_the_list_is_narrowed_by_an_earlier_answer_and_by_the_context() -> None:
    house = House(list_rooms=ROOMS)
    choices = ToolChoices("list_rooms", value="id", label="name", arguments={"seats": "party"})
    made = rooms(house, choices, before=[Input("party", "How many?")])
    await talk(made, "act", "6", "elm", context={"city": "Rome"})
    assert house.called("list_rooms") == [{"seats": 6, "city": "Rome"}]
    assert house.called("book") == [{"room": "R-2"}]


def of_ten_seats(seats: int = 0) -> list[dict[str, str]]:
    return [] if seats > 10 else ROOMS


async def test_an_empty_list_asks_again_for_what_narrowed_it() -> None:
    house = House(list_rooms=of_ten_seats)
    choices = ToolChoices("list_rooms", value="id", label="name", arguments={"seats": "party"})
    made = rooms(house, choices, before=[Input("party", "How many?")])
    _, second, third = await talk(made, "act", "12", "8")
    assert second.text == "There is nothing to choose from for room. How many?"
    assert third.text == "Which room? (Oak, Elm or Great hall)"


async def test_and_ends_the_flow_where_nothing_did() -> None:
    (first,) = await talk(rooms(House(list_rooms=[])), "act")
    assert (first.status, first.text) == ("blocked", "There is nothing to choose from for room.")


def refuses(**_: Any) -> Any:
    raise CannotDo("The house is closed.")


def finds_wrong(**_: Any) -> Any:
    raise WrongValue("party", "So many do not fit in.")


async def test_the_tool_that_lists_may_refuse() -> None:
    (first,) = await talk(rooms(House(list_rooms=refuses)), "act")
    assert (first.status, first.text) == ("blocked", "The house is closed.")
    made = rooms(House(list_rooms=finds_wrong), before=[Input("party", "How many?")])
    _, second = await talk(made, "act", "12")
    assert second.text == "So many do not fit in. How many?"


VERDICTS: list[Any] = [
    pytest.param(Deny("not for guests"), False, id="denied"),
    pytest.param(Ask(), False, id="to be asked about"),
    pytest.param(Allow(), True, id="allowed"),
]


@pytest.mark.parametrize(("verdict", "is_listed"), VERDICTS)
async def test_the_approval_hook_is_asked_about_the_list(verdict: Any, is_listed: bool) -> None:
    def approve(call: ToolCall) -> Any:
        return verdict if call.tool == "list_rooms" else Allow()

    house = House(list_rooms=ROOMS)
    (first,) = await talk(rooms(house, approval=Approval(approve=approve)), "act")
    assert bool(house.called("list_rooms")) is is_listed
    assert ("Oak" in first.text) is is_listed
    assert first.conversation.pending is None


# --- types of choices, and what is refused where flows and tools meet ---------------


def made_with(declared: Sequence[Input], **types: str) -> Agent:
    house = House()
    tools = [
        house.tool("list_rooms", schema(seats="integer"), read_only=True),
        house.tool("move_out", schema()),
        house.tool("pay", schema(**types)),
    ]
    return flow_agent(house, declared, tools, chain=["pay"])


@pytest.mark.parametrize(
    ("choices", "kind", "said", "paid"),
    [
        (("5", "10"), "integer", "10", 10),
        (("5", "10.5"), "number", "10.5", 10.5),
        ((5, 10), "string", "5", "5"),
        ((5, 10), "integer", "5", 5),
    ],
)
async def test_choices_have_the_type_of_the_parameter(choices: Any, kind: str, said: str, paid: Any) -> None:
    house = House()
    tool = house.tool("pay", schema(euros=kind))
    made = flow_agent(house, [Input("euros", "How much?", choices=choices)], [tool])
    await talk(made, "act", said)
    assert house.called("pay") == [{"euros": paid}]
    assert type(house.called("pay")[0]["euros"]) is type(paid)


REFUSED: list[Any] = [
    pytest.param(
        [Input("euros", choices=("five", "10"))],
        "inputs[0].choices: pay takes euros as integer, which 'five' is not",
        id="a choice of another type",
    ),
    pytest.param(
        [Input("euros", propose="many")], "inputs[0].propose: pay takes euros as integer", id="a proposal likewise"
    ),
    pytest.param(
        [Input("euros"), Input("note", when={"euros": "few"})],
        "inputs[1].when: pay takes euros as integer, which 'few' is not",
        id="a condition likewise",
    ),
    pytest.param(
        [Input("note", choices=ToolChoices("list_romos"))],
        "inputs[0].choices: the tool 'list_romos' is not connected; did you mean 'list_rooms'?",
        id="no such tool",
    ),
    pytest.param(
        [Input("note", choices=ToolChoices("move_out"))],
        "the tool 'move_out' may change something; declare it `read_only=True`",
        id="a tool that acts",
    ),
    pytest.param(
        [Input("euros"), Input("note", choices=ToolChoices("list_rooms", arguments={"sets": "euros"}))],
        "the tool 'list_rooms' has no argument 'sets'; did you mean 'seats'?",
        id="no such argument",
    ),
]


@pytest.mark.parametrize(("declared", "problem"), REFUSED)
def test_what_does_not_fit_the_tools_is_refused_as_the_agent_is_made(declared: list[Input], problem: str) -> None:
    with pytest.raises(FlowValidationError) as refused:
        made_with(declared, euros="integer", note="string")
    assert problem in str(refused.value)


def test_a_condition_may_not_leave_out_what_a_step_cannot_do_without() -> None:
    house = House()
    with pytest.raises(FlowValidationError) as refused:
        flow_agent(
            house,
            [Input("payment"), Input("note", when={"payment": "card"})],
            [house.tool("pay", schema("payment", "note"))],
        )
    assert "leaves note out at times, and pay cannot do without it; make the parameter optional" in str(refused.value)


# --- a yes before a value ---------------------------------------------------------


def proposing(house: House, propose: Any = 50, **fields: Any) -> Agent:
    inputs = [Input("euros", "How much?", propose=propose, **fields), Input("day", "When?")]
    return flow_agent(house, inputs, [house.tool("pay", schema("day", euros="integer"))])


PROPOSED: list[Any] = [
    pytest.param(["yes"], 50, id="a yes takes it"),
    pytest.param(["60"], 60, id="another value replaces it"),
    pytest.param(["no", "70"], 70, id="a no asks for it"),
    pytest.param(["no, 80"], 80, id="a no with a value"),
]


@pytest.mark.parametrize(("answers", "paid"), PROPOSED)
async def test_a_value_is_proposed(answers: list[str], paid: int) -> None:
    house = House()
    first, *rest = await talk(proposing(house), "act", *answers, "Monday")
    assert first.text == "How much? (50?)"
    assert house.called("pay") == [{"euros": paid, "day": "Monday"}], [each.text for each in rest]


async def test_what_was_rejected_is_not_proposed_again() -> None:
    _, second, third = await talk(proposing(House()), "act", "no", "hmm")
    assert second.text == "How much?"
    assert "50" not in third.text


async def test_a_yes_with_more_takes_nothing_unsaid() -> None:
    house = House()
    _, second = await talk(proposing(house), "act", "yes, but only if it is free")
    assert (second.status, house.called("pay")) == ("waiting", [])
    assert second.conversation.flows[-1].answers == {}


async def test_a_proposal_is_taken_from_an_answer_or_a_result() -> None:
    house = House(look_up={"last": 30})
    inputs = [Input("number", "Which number?"), Input("euros", "How much?", propose={"from": "look_up.last"})]
    tools = [
        house.tool("look_up", schema("number"), read_only=True),
        house.tool("pay", schema("number", euros="integer")),
    ]
    made = flow_agent(house, inputs, tools, chain=["look_up", "pay"])
    _, second, _ = await talk(made, "act", "A-1", "yes")
    assert second.text == "How much? (30?)"
    assert house.called("pay") == [{"number": "A-1", "euros": 30}]


# --- values that are wrong together, and what cannot be done ------------------------


def stay(house: House, **options: Any) -> Agent:
    inputs = [Input("first", "From when?"), Input("last", "To when?"), Input("who", "For whom?")]
    return flow_agent(house, inputs, [house.tool("book", schema("first", "last", "who"))], **options)


def is_backwards(first: str, last: str, who: str) -> Any:
    if last < first:
        raise WrongValue(["first", "last"], "It ends before it begins.")
    if who == "nobody":
        raise WrongValue({"who": "Nobody is no guest.", "last": "Name another day."})
    return {}


async def test_several_values_are_asked_for_again_together_and_the_others_stay() -> None:
    house = House(book=is_backwards)
    *_, refused, done = await talk(stay(house), "act", "D9", "D2", "Ada", "D2, D9")
    assert refused.text == "It ends before it begins. From when? To when?"
    assert refused.conversation.flows[-1].answers == {"who": "Ada"}
    assert (done.status, house.called("book")[-1]) == ("done", {"first": "D2", "last": "D9", "who": "Ada"})


async def test_each_with_its_own_reason() -> None:
    house = House(book=is_backwards)
    *_, refused = await talk(stay(house), "act", "D2", "D9", "nobody")
    assert refused.text == "Nobody is no guest. Name another day. For whom? To when?"


async def test_a_check_may_refuse_another_value_beside_its_own() -> None:
    def check(value: str) -> bool:
        if value == "D2":
            raise WrongValue({"last": "It ends too early.", "first": "Or it begins too late."})
        return True

    house = House()
    inputs = [Input("first", "From when?"), Input("last", "To when?", check=check), Input("who", "For whom?")]
    made = flow_agent(house, inputs, [house.tool("book", schema("first", "last", "who"))])
    *_, refused, asked, _ = await talk(made, "act", "D9", "D2", "D5, D1", "Ada")
    assert refused.text == "It ends too early. Or it begins too late. To when? From when?"
    assert (asked.text, house.called("book")) == ("For whom?", [{"first": "D1", "last": "D5", "who": "Ada"}])


def test_one_wrong_value_is_as_before() -> None:
    one = WrongValue("email", "No account has this address.")
    assert (one.name, one.message, one.reasons) == ("email", str(one), {"email": "No account has this address."})
    several = WrongValue(("a", "b"), "No.")
    assert (several.name, several.message, several.reasons) == ("a", "No.", {"a": "No.", "b": "No."})


# --- in the parts of a composite -----------------------------------------------------


async def test_parts_of_a_sequence_ask_likewise() -> None:
    house = House(list_rooms=ROOMS)
    registry = FlowRegistry(min_examples=0)
    tools = [
        house.tool("list_rooms", schema(), read_only=True),
        house.tool("book", schema("room")),
        house.tool("bill", schema(note="string")),
    ]
    listed = ToolChoices("list_rooms", value="id", label="name")
    inputs = [Input("room", "Which room?", choices=listed)]
    Flow(name="one", inputs=inputs, tools=["book"], chain=["book"], only_called=True, registry=registry)
    paying = [Input("bill", "A bill?", choices=("yes", "no")), Input("note", "Which note?", when={"bill": "yes"})]
    Flow(name="two", inputs=paying, tools=["bill"], chain=["bill"], only_called=True, registry=registry)
    SequentialFlow(name="act", condition="c", flows=["one", "two"], registry=registry)
    selector = FlowSelector(None, registry, ListMemory(metadata("act")), "house", policy=TAKE_FIRST)
    made = make_agent(selector, tools, approval="never")
    first, second, third, _ = await talk(made, "act", "elm", "yes", "K-7")
    assert first.text == "Which room? (Oak, Elm or Great hall)"
    assert (second.text, third.text) == ("A bill? (yes or no)", "Which note?")
    assert (house.called("book"), house.called("bill")) == ([{"room": "R-2"}], [{"note": "K-7"}])
