"""`check` names every wrong field of every flow in one run, however the flows are written."""

from pathlib import Path
from textwrap import dedent

import pytest

from jazz_select import FlowRegistry
from jazz_select.errors import FlowValidationError
from jazz_select.evaluation.checks.checking import check
from jazz_select.flow.flow_loading import load_flows
from tests.vectors import EMBEDDER

DATA = """
flows:
  - name: country
    description: Tell about a country.
    condition: yes
    desired_effects: [no]
    examples: [no, on, 5]
    tools: [7]
    priority: high
  - name: thin
    description: ""
    examples: [one]
    optional_tools: [nowhere]
    max_error: 3
    title: "a\\nb"
  - name: asks
    description: Ask.
    condition: c
    desired_effects: [e]
    examples: [a b, c d, e f, g h, i j]
    inputs: [{name: ""}, {name: x, choices: [1], example: "2"}, {nmae: y}]
    reply: "{a.b}"
    ask: never
"""
WRITTEN = """
from jazz_select import BaseFlow, Flow

class Many(BaseFlow):
    name = "many"
    description = 3
    desired_effects = "one"
    examples = ["a", "a"]
    priority = 5
    manual = "yes"

class Misspelt(BaseFlow):
    name = "class"
    description = "d"
    exmaples = ["b"]
    conditoin = "c"

Flow(name="misspelt", descripton="x")

class Last(BaseFlow):
    name = "last"
    description = "d"
"""
NAMED: dict[str, set[str]] = {
    "country": {"condition", "desired_effects", "examples", "tools", "priority"},
    "thin": {"description", "condition", "desired_effects", "examples", "optional_tools", "max_error", "title"},
    "asks": {"inputs entry 1", "inputs entry 2", "inputs entry 3", "reply", "ask"},
    "many": {"description", "condition", "desired_effects", "examples", "priority", "manual"},
    "class": {"exmaples", "conditoin", "desired_effects"},
    "misspelt": {"description", "condition", "desired_effects", "examples"},
    "last": {"condition", "desired_effects", "examples"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data.yaml").write_text(DATA, "utf-8")
    (tmp_path / "written.py").write_text(dedent(WRITTEN), "utf-8")
    return tmp_path


@pytest.mark.parametrize("flow", NAMED)
def test_each_wrong_field_is_named(folder: Path, flow: str) -> None:
    found = check(folder, embedder=EMBEDDER).found
    said = [each.what for each in found if each.flows == (flow,) and each.code == "invalid-flow"]
    missing = {field for field in NAMED[flow] if not any(f" {field}" in what for what in said)}
    assert not missing, said
    assert len(said) == len(set(said))


def test_an_argument_that_no_flow_takes_is_named_and_hides_nothing_after_it(folder: Path) -> None:
    found = check(folder, embedder=EMBEDDER).found
    assert any("'descripton'; did you mean 'description'?" in each.what for each in found)


def test_loading_raises_the_first_with_the_others_beside_it(folder: Path) -> None:
    with pytest.raises(FlowValidationError) as caught:
        load_flows(folder / "data.yaml", FlowRegistry())
    assert caught.value.field == "condition"
    others = {each.field for each in caught.value.others if isinstance(each, FlowValidationError)}
    assert others >= {"desired_effects[0]", "examples[0]", "examples[1]", "examples[2]", "tools[0]", "priority"}
