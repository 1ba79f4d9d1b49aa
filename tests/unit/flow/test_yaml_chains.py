"""What a class says of how it is run, YAML says as well; a step that names no tool of the flow does not load."""

import json
from pathlib import Path
from typing import Any

import pytest

from jazz_select import FlowRegistry, load_flows
from jazz_select.errors import FlowValidationError
from jazz_select.flow.base import BaseFlow, chain_of
from jazz_select.routing import CHOOSE, GuidedDecisionPoint

FLOW = """
name: return_order
description: Take an order back.
condition: The customer sends an order back.
desired_effects: [The order is on its way back]
examples: [send it back, return my order, I want to return this, how do returns work, take it back]
tools: [lookup_order, issue_refund, send_label, tell_warehouse]
"""
POINT: dict[str, Any] = {"after_step": "lookup_order", "candidate_tools": ["issue_refund", "send_label"]}


def loaded(tmp_path: Path, more: str) -> BaseFlow:
    (tmp_path / "flow.yaml").write_text(f"{FLOW}{more}\n", encoding="utf-8")
    (flow,) = load_flows(tmp_path, FlowRegistry())
    return flow


CHAINS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "names": ("chain: [lookup_order, issue_refund]", ("lookup_order", "issue_refund")),
    "a choice left open": ("chain: [lookup_order, CHOOSE]", ("lookup_order", CHOOSE)),
    "a guided point": (
        """
chain:
  - lookup_order
  - after_step: lookup_order
    candidate_tools: [issue_refund, send_label]
""",
        ("lookup_order", GuidedDecisionPoint(**POINT)),
    ),
    "all of a guided point": (
        """
chain:
  - lookup_order
  - after_step: lookup_order
    candidate_tools: [issue_refund]
    decision_prompt: "Refund, or not?"
    context_fields: [state]
    fallback_tool: tell_warehouse
  - tell_warehouse
""",
        (
            "lookup_order",
            GuidedDecisionPoint(
                after_step="lookup_order",
                candidate_tools=["issue_refund"],
                decision_prompt="Refund, or not?",
                context_fields=["state"],
                fallback_tool="tell_warehouse",
            ),
            "tell_warehouse",
        ),
    ),
    "none": ("", ()),
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("written", "steps"), CHAINS.values(), ids=CHAINS)
def test_a_chain_in_yaml_is_the_chain_of_a_class(tmp_path: Path, written: str, steps: tuple[Any, ...]) -> None:
    assert chain_of(loaded(tmp_path, written)) == steps


@pytest.mark.spec("005.17")
def test_a_reply_and_a_chain_are_in_json_too_and_change_no_checksum(tmp_path: Path) -> None:
    plain = loaded(tmp_path, "")
    fields: dict[str, Any] = {name: getattr(plain, name) for name in ("name", "description", "condition")}
    fields |= {name: list(getattr(plain, name)) for name in ("desired_effects", "examples", "tools")}
    file = tmp_path / "json" / "flow.json"
    file.parent.mkdir()
    file.write_text(json.dumps({**fields, "chain": ["lookup_order", POINT], "reply": "It is {state}."}))
    (flow,) = load_flows(file, FlowRegistry())
    assert chain_of(flow)[1] == GuidedDecisionPoint(**POINT)
    assert flow.reply == "It is {state}."
    assert flow.compute_checksum() == plain.compute_checksum()


def test_a_tool_that_is_called_like_the_word_goes_before_it(tmp_path: Path) -> None:
    text = FLOW.replace("tell_warehouse]", "tell_warehouse, CHOOSE]")
    (tmp_path / "flow.yaml").write_text(f"{text}chain: [CHOOSE]\n", encoding="utf-8")
    (flow,) = load_flows(tmp_path, FlowRegistry())
    assert chain_of(flow) == ("CHOOSE",)


WRONG: dict[str, tuple[str, str]] = {
    "a tool that is not the flow's": (
        "chain: [lookup_order, issue_refnd]",
        r"chain\[1\]: 'issue_refnd'.*'issue_refund'",
    ),
    "another one": ("chain: [delete_everything]", r"chain\[0\]: 'delete_everything' is not among .*add it"),
    "a point after none": (
        "chain: [{after_step: lookup, candidate_tools: [send_label]}]",
        r"chain\[0\]: 'lookup' is not among",
    ),
    "a point to none": (
        "chain: [{after_step: lookup_order, candidate_tools: [label]}]",
        r"chain\[0\]: 'label' is not among",
    ),
    "a fallback that is none": (
        "chain: [{after_step: lookup_order, candidate_tools: [send_label], fallback_tool: x}]",
        r"chain\[0\]: 'x' is not among",
    ),
    "a tool after itself": (
        "chain: [{after_step: send_label, candidate_tools: [send_label]}]",
        r"chain\[0\]: a tool never follows itself",
    ),
    "no candidates": ("chain: [{after_step: lookup_order}]", r"chain\[0\].candidate_tools: is missing"),
    "a field of a point that is none": (
        "chain: [{after_step: lookup_order, candidates: []}]",
        r"chain\[0\].candidates: is no field of a choice between tools; did you mean 'candidate_tools'",
    ),
    "a tool with its arguments": (
        "chain: [{lookup_order: {email: a}}]",
        r"chain\[0\].lookup_order: is no field of a choice between tools; there are after_step, candidate_tools",
    ),
    "a number": ("chain: [12]", r"chain\[0\]: a step must be a tool's name, .*, got 12"),
    "a text for a chain": ("chain: lookup_order", r"chain: must be a list"),
    "a list for a reply": ("reply: [a]", r"reply: must be a text, got list \['a'\]$"),
    "a reply that YAML reads as a mapping": ("reply: {day}", r"reply: must be a text, .*; if it is one, put quotes"),
    "a step with a colon": ("steps: [Find: it]", r"steps\[0\]: must be a text, .*; if it is one, put quotes"),
    "one number": ("priority: 1", r"priority: must be a list of two whole numbers such as \[1, 0\], got int 1"),
    "three numbers": (
        "priority: [1, 2, 3]",
        r"priority: must be a list of two whole .*, got list \[1, 2, 3\]",
    ),
    "a reply with half a brace": (
        'reply: "{imo"',
        r"reply: is no template \(expected '}' before .*\); a fact",
    ),
    "a reply with the other half": ('reply: "imo}"', r"reply: is no template \(Single '}'"),
    "a reply with a fact of no name": ('reply: "It is {}."', r"reply: has braces without the name of a fact"),
    "a reply with a number": ('reply: "It is {0}."', r"reply: has braces without the name of a fact"),
    "a reply with an attribute": ('reply: "{order.id}"', r"reply: asks for a part of a fact, \{order.id\}"),
    "a reply with an attribute behind braces": ('reply: "{{x}} {order.id}"', r"reply: asks for a part of a fact"),
    "a reply with an item": ('reply: "{order[id]}"', r"reply: asks for a part of a fact"),
    "a reply that formats a number": ('reply: "{price:.2f}"', r"reply: formats \{price\} in a way that texts do not"),
    "a reply of a million blanks": ('reply: "{price:1000000}"', r"reply: formats \{price\}"),
    "a reply with a width from elsewhere": ('reply: "{price:{width}}"', r"reply: formats \{price\}"),
    "a reply that converts to nothing": ('reply: "{price!x}"', r"reply: formats \{price\}"),
}


@pytest.mark.spec("005.17")
@pytest.mark.parametrize(("written", "problem"), WRONG.values(), ids=WRONG)
def test_what_cannot_run_does_not_load(tmp_path: Path, written: str, problem: str) -> None:
    with pytest.raises(FlowValidationError, match=problem) as caught:
        loaded(tmp_path, written)
    assert "flow.yaml" in str(caught.value)


REPLIES = ["It is {state}.", "{{}} {state}", "{state!r:>10}", "{a b}", "100 %", "{état:_^20.5s}"]


@pytest.mark.spec("005.17")
@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_that_facts_can_fill_loads(tmp_path: Path, reply: str) -> None:
    assert loaded(tmp_path, f"reply: {json.dumps(reply)}").reply == reply


STEPS: dict[str, tuple[dict[str, Any], str]] = {
    "a field that is none": ({**POINT, "next": 1}, "next"),
    "no text": ({**POINT, "after_step": 3}, "chain"),
    "nothing": ({}, "after_step"),
    "a tool after itself": ({**POINT, "after_step": "send_label"}, "never follows itself"),
}


@pytest.mark.parametrize(("step", "problem"), STEPS.values(), ids=STEPS)
def test_a_mapping_that_is_no_point_is_a_typed_error_of_a_class_too(
    tmp_path: Path, step: dict[str, Any], problem: str
) -> None:
    flow = loaded(tmp_path, "")
    flow.chain = [step]
    with pytest.raises(FlowValidationError, match=problem):
        chain_of(flow)
