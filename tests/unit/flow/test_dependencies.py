"""What inputs depend on is checked as flows are loaded, with file and line, and by `check`."""

from pathlib import Path
from typing import Any

import pytest

from jazz_select import ConditionalFlow, Flow, FlowRegistry, Input, ToolChoices, load_flows
from jazz_select.errors import ConfigError, FlowValidationError
from jazz_select.evaluation import check
from jazz_select.flow.base import check_calls
from jazz_select.flow.inputs import InputState, is_same_value
from jazz_select.routing import Tool

pytestmark = pytest.mark.spec("019.6")

HEAD = """- name: pay
  description: Pay.
  tools: [look_up, send]
  chain: [look_up, send]
  inputs:
"""


def load(tmp_path: Path, text: str) -> FlowRegistry:
    file = tmp_path / "flows.yaml"
    file.write_text(text)
    registry = FlowRegistry(min_examples=0)
    with registry.scope():
        load_flows(file)
    return registry


WRONG: list[Any] = [
    pytest.param(
        ["- {name: how, choices: [card, cash]}", "- {name: number, when: {how: crad}}"],
        7,
        "inputs[1].when: how is never 'crad'; did you mean 'card'?",
        id="a value that the other never has",
    ),
    pytest.param(
        ["- {name: how}", "- {name: number, when: {hwo: card}}"],
        7,
        "inputs[1].when: 'hwo' is no input of the flow, and no result of a step; did you mean 'how'?",
        id="no such input",
    ),
    pytest.param(
        ["- {name: number, when: {lok_up.state: paid}}"],
        6,
        "inputs[0].when: 'lok_up.state' is no input of the flow, and no result of a step",
        id="no such step",
    ),
    pytest.param(
        ["- {name: one, when: {two: x}}", "- {name: two, when: {three: x}}", "- {name: three, propose: {from: one}}"],
        6,
        "inputs[0].when: one → two → three → one is a circle; take one of these out",
        id="a circle",
    ),
    pytest.param(["- {name: one, when: {one: x}}"], 6, "one → one is a circle", id="itself"),
    pytest.param(["- {name: one, when: [x]}"], 6, "inputs[0].when", id="no mapping"),
    pytest.param(["- {name: one}", "- {name: two, when: {one: {x: 1}}}"], 7, "when of the input 'two'", id="no value"),
    pytest.param(["- {name: one}", "- {name: two, when: {one: []}}"], 7, "when of the input 'two'", id="an empty list"),
    pytest.param(
        ["- {name: one, choices: {tool: list, vlaue: id}}"],
        6,
        "inputs[0].choices.vlaue: is no field of a list of choices by a tool; did you mean 'value'?",
        id="a misspelt field of choices",
    ),
    pytest.param(
        ["- {name: one, choices: {tool: list, label: id}}"], 6, "have a label and need a value, too", id="a label alone"
    ),
    pytest.param(
        ["- {name: one, choices: {tool: list, arguments: {seats: party}}}"],
        6,
        "inputs[0].choices: 'party' is no input of the flow",
        id="an argument that nothing gives",
    ),
    pytest.param(["- {name: one, propose: {of: x}}"], 6, "propose of the input 'one'", id="another proposal"),
    pytest.param(["- {name: one, propose: [1]}"], 6, "propose of the input 'one'", id="a list proposed"),
    pytest.param(
        ["- {name: one, choices: [a, b], propose: c}"],
        6,
        "must be one of its choices, got 'c'",
        id="no choice proposed",
    ),
]


@pytest.mark.parametrize(("inputs", "line", "problem"), WRONG)
def test_what_is_wrong_is_refused_with_file_and_line(
    tmp_path: Path, inputs: list[str], line: int, problem: str
) -> None:
    with pytest.raises(FlowValidationError) as refused:
        load(tmp_path, HEAD + "".join(f"    {each}\n" for each in inputs))
    assert problem in str(refused.value)
    assert f"flows.yaml:{line}:" in str(refused.value)


@pytest.mark.parametrize(("inputs", "line", "problem"), WRONG)
def test_and_found_by_check_at_that_line(tmp_path: Path, inputs: list[str], line: int, problem: str) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(HEAD + "".join(f"    {each}\n" for each in inputs))
    found = check(file, min_examples=0, only=["invalid-flow"]).found
    assert [(each.code, each.at.line) for each in found] == [("invalid-flow", line)], problem


def test_a_class_is_checked_likewise() -> None:
    with pytest.raises(FlowValidationError, match="is no input of the flow"):
        Flow(name="pay", inputs=[Input("one", when={"two": True})], registry=FlowRegistry(min_examples=0))


def test_all_that_is_right_loads(tmp_path: Path) -> None:
    inputs = """    - {name: how, choices: [card, cash]}
    - {name: party}
    - {name: gift}
    - {name: number, when: {how: [card, cash], gift: true, "look_up.open": false}}
    - {name: room, choices: {tool: list_rooms, value: id, label: name, arguments: {seats: party}}}
    - {name: euros, choices: ["5", "10"], propose: 5}
    - {name: mail, propose: {from: look_up.mail}}
"""
    found = load(tmp_path, HEAD + inputs).by_name("pay")
    assert found is not None
    assert found.inputs[3].when == {"how": ["card", "cash"], "gift": True, "look_up.open": False}
    assert found.inputs[4].choices == ToolChoices("list_rooms", "id", "name", {"seats": "party"})
    assert (found.inputs[5].propose, found.inputs[6].proposes_from) == (5, "look_up.mail")


def tools() -> list[Tool]:
    return [
        Tool(name="look_up", function=dict, read_only=True),
        Tool(
            name="send",
            input_schema={
                "type": "object",
                "properties": {"euros": {"type": "integer"}, "note": {"type": "string"}},
                "required": ["note"],
            },
            function=dict,
        ),
    ]


FOUND: list[Any] = [
    pytest.param(
        "    - {name: euros, choices: [five, 10]}\n",
        ("broken-input", 6, "pay: choices of the input euros: send takes euros as integer, which 'five' is not."),
        id="choices of another type",
    ),
    pytest.param(
        "    - {name: euros}\n    - {name: note, when: {euros: true}}\n",
        ("broken-input", 7, "pay: when of the input note: leaves note out at times, and send cannot do without it."),
        id="a condition on what is needed",
    ),
    pytest.param(
        "    - {name: euros, choices: {tool: send}}\n",
        ("broken-input", 6, "pay: choices of the input euros: the tool 'send' may change something."),
        id="a tool that acts",
    ),
]


@pytest.mark.parametrize(("inputs", "finding"), FOUND)
def test_check_finds_what_does_not_fit_the_tools(tmp_path: Path, inputs: str, finding: tuple[str, int, str]) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(HEAD + inputs)
    found = check(file, tools=tools(), min_examples=0, only=["broken-input"]).found
    assert [(each.code, each.at.line, each.what) for each in found] == [finding]


CALLED = """- {name: log_in, only_called: true}
- name: pay
  description: Pay.
  calls: [log_in]
- {name: forgotten, only_called: true}
"""


@pytest.mark.spec("019.7")
def test_check_warns_of_a_flow_that_nobody_calls(tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(CALLED)
    found = check(file, min_examples=0, only=["uncalled-flow"]).found
    assert [(each.flows, each.at.line) for each in found] == [(("forgotten",), 5)]


def test_check_finds_a_call_that_leads_nowhere(tmp_path: Path) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text("- {name: pay, description: Pay., calls: [log_inn]}\n- {name: log_in, description: Log in.}\n")
    found = check(file, min_examples=0, only=["broken-call"]).found
    assert [(each.code, each.flows, each.at.line) for each in found] == [("broken-call", ("pay",), 1)]


@pytest.mark.spec("019.7")
def test_a_flow_that_is_only_called_needs_no_examples_and_is_no_branch() -> None:
    registry = FlowRegistry()
    Flow(name="log_in", only_called=True, registry=registry)
    with pytest.raises(FlowValidationError, match="only_called: must be True or False"):
        Flow(name="other", only_called="yes", registry=registry)  # pyright: ignore[reportArgumentType]
    with pytest.raises(FlowValidationError, match="no flow calls the one that hands over"):
        Flow(name="other", only_called=True, handover=True, registry=registry)
    loose = FlowRegistry(min_examples=0)
    Flow(name="log_in", only_called=True, registry=loose)
    made = ConditionalFlow(name="act", branches=[("the user is unknown", "log_in")], registry=loose)
    with pytest.raises(FlowValidationError, match="runs only when it is called, and a branch is selected"):
        check_calls(made)


def test_results_of_called_flows_are_known_as_soon_as_these_are() -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="log_in", only_called=True, tools=["sign_in"], chain=["sign_in"], registry=registry)
    right = Flow(name="a", calls=["log_in"], inputs=[Input("x", when={"sign_in.level": 1})], registry=registry)
    wrong = Flow(name="b", calls=["log_in"], inputs=[Input("x", when={"sing_in.level": 1})], registry=registry)
    check_calls(right)
    with pytest.raises(FlowValidationError, match="did you mean 'sign_in"):
        check_calls(wrong)


SAME: list[Any] = [
    (5, "5", True),
    (5.0, 5, True),
    ("Card", " card ", True),
    (True, "true", True),
    (True, 1, False),
    (False, 0, False),
    ("5", "05", False),
]


@pytest.mark.parametrize(("one", "other", "is_same"), SAME)
def test_values_are_the_same_however_they_are_written(one: Any, other: Any, is_same: bool) -> None:
    assert is_same_value(one, other) is is_same
    assert is_same_value(other, one) is is_same


def test_an_input_is_undecided_until_what_it_depends_on_is_known() -> None:
    inputs = [Input("a"), Input("b", when={"a": "x"}), Input("c", when={"b": True}), Input("d", required=False)]
    state = InputState(inputs=[*inputs, Input("e", when={"d": False})], facts={})
    assert [state.is_wanted(each) for each in state.inputs] == [True, None, None, True, True]
    known = InputState(inputs=inputs, facts={"A": "y", "b": "said before"})
    assert [known.is_wanted(each) for each in inputs] == [True, False, False, True]
    assert known.unwanted() == {"b", "c"}


def test_wrong_kinds_are_named() -> None:
    with pytest.raises(ConfigError, match="choices from a tool need the tool's name"):
        ToolChoices(" ")
    with pytest.raises(ConfigError, match="arguments of the tool 'list' must be a mapping"):
        ToolChoices("list", arguments={"a": 1})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="when must be a Mapping"):
        Input("a", when=[1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="when of the input 'a' must be a mapping of at most 10 names"):
        Input("a", when={f"n{number}": True for number in range(11)})
