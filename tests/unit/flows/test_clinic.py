"""The hospital's desk in examples/clinic/: flows in one file, and requests that none of them has seen."""

import re
from collections import Counter
from pathlib import Path

import pytest

from jazz_select import FlowRegistry
from jazz_select.evaluation.cases import Case, load_cases
from jazz_select.flow.flow_loading import load_flows

CLINIC = Path(__file__).parents[3] / "examples" / "clinic"
NEAR_TWINS = [
    {"book_first_visit", "book_follow_up", "move_appointment", "cancel_appointment"},
    {"fasting_before_operation", "medicines_before_operation", "hospital_admission", "medicine_interaction"},
    {"wound_or_fever", "pain_after_operation", "stitches_out", "medicine_side_effects"},
    {"back_to_activity", "sick_note"},
    {"call_ambulance", "come_to_emergency", "transport_home"},
    {"ask_for_results", "explain_results", "copy_of_records", "send_records"},
    {"invoice_wrong", "pay_in_instalments", "insurance_approval", "cost_estimate", "correct_personal_data"},
    {"visiting_rules", "room_wishes", "relatives_access"},
    {"make_complaint", "give_praise"},
]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


@pytest.fixture(scope="module")
def clinic() -> FlowRegistry:
    registry = FlowRegistry()
    load_flows(str(CLINIC / "flows.yaml"), registry)
    return registry


@pytest.fixture(scope="module")
def cases(clinic: FlowRegistry) -> tuple[Case, ...]:
    return load_cases(CLINIC / "cases.yaml", clinic, flows="flows.yaml")


def test_the_catalogue_loads_whole_with_its_near_twins(clinic: FlowRegistry) -> None:
    names = {flow.name for flow in clinic.values()}
    assert len(names) == 36
    assert [group - names for group in NEAR_TWINS if group - names] == []


def test_every_flow_is_written_out(clinic: FlowRegistry) -> None:
    for flow in clinic.values():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", flow.name)
        assert len(flow.examples) == 5, flow.name
        assert 2 <= len(flow.steps) <= 5, flow.name
        assert flow.desired_effects, flow.name
        assert len(flow.condition.split()) >= 10, flow.name
        assert flow.title[:1].isupper(), flow.name
        for text in (flow.description, flow.condition, *flow.desired_effects, *flow.steps, *flow.examples):
            assert text, flow.name
            assert text == text.strip(), flow.name


def test_examples_come_in_many_voices(clinic: FlowRegistry) -> None:
    """Short ones, long ones, and someone who does not type with care, in every flow."""
    for flow in clinic.values():
        lengths = sorted(len(example.split()) for example in flow.examples)
        assert lengths[0] <= 9, flow.name
        assert lengths[-1] >= 11, flow.name
        assert any(example[0].islower() for example in flow.examples), flow.name


@pytest.mark.parametrize("field", ["title", "description", "condition", "examples"])
def test_nothing_is_said_twice(clinic: FlowRegistry, field: str) -> None:
    texts: list[str] = []
    for flow in clinic.values():
        given = getattr(flow, field)
        texts.extend([given] if isinstance(given, str) else given)
    counts = Counter(" ".join(words(text)) for text in texts)
    assert [text for text, count in counts.items() if count > 1] == []


def test_no_flow_needs_a_tool_and_each_says_when_its_own_are_called(clinic: FlowRegistry) -> None:
    tools = {tool for flow in clinic.values() for tool in flow.tools}
    names = {flow.name for flow in clinic.values()}
    for flow in clinic.values():
        assert list(flow.lacks(())) == [], flow.name
        named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", " ".join(flow.steps)))
        assert named & tools == set(flow.tools), flow.name
        assert named - tools <= names, flow.name


def test_there_are_requests_of_each_kind(cases: tuple[Case, ...]) -> None:
    assert len(cases) == 150
    assert sum(len(case.expect) > 1 for case in cases) == 12
    assert sum(bool(case.episodes) for case in cases) == 10
    assert sum(not case.expect for case in cases) == 14


def test_each_flow_has_three_requests_of_its_own(clinic: FlowRegistry, cases: tuple[Case, ...]) -> None:
    single = Counter(case.expect[0] for case in cases if len(case.expect) == 1 and not case.episodes)
    assert {flow.name: single[flow.name] for flow in clinic.values() if single[flow.name] < 3} == {}


def test_no_request_is_asked_twice_or_is_an_example_in_other_clothes(
    clinic: FlowRegistry, cases: tuple[Case, ...]
) -> None:
    """A held-out request that shares half of its words with an example would measure memory, not recall."""
    assert len({" ".join(words(case.request)) for case in cases}) == len(cases)
    examples = [set(words(example)) for flow in clinic.values() for example in flow.examples]
    for case in cases:
        asked = set(words(case.request))
        assert max(len(asked & example) / len(asked | example) for example in examples) < 0.5, case.request
