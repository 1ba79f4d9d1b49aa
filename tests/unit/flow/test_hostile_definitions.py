"""Definitions that are meant to break something."""

from pathlib import Path
from typing import Any

import pytest

from jazz_select import Flow, FlowRegistry, load_flows
from jazz_select.errors import DuplicateFlowError, FlowLoadError, FlowValidationError

FIELDS: dict[str, Any] = {
    "name": "refund",
    "description": "Refund.",
    "condition": "They want money.",
    "desired_effects": ["refunded"],
    "examples": ["a", "b", "c", "d", "e"],
}


@pytest.mark.parametrize("text", ["[" * 30_000, "{a: " * 30_000, "- " * 30_000], ids=["lists", "mappings", "dashes"])
def test_a_bottomless_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "flows.yaml"
    file.write_text(text)
    with pytest.raises(FlowLoadError, match="nests"):
        load_flows(file, FlowRegistry())


@pytest.mark.parametrize("priority", [(2**70, 0), (0, -(2**70))])
def test_a_priority_has_bounds(priority: tuple[int, int]) -> None:
    with pytest.raises(FlowValidationError, match="priority"):
        Flow(**FIELDS, priority=priority, registry=FlowRegistry())


def test_a_guard_set_on_the_flow_itself_is_not_lost_by_defining_it_again() -> None:
    registry = FlowRegistry()
    closed = Flow(**FIELDS, registry=registry)
    closed.available = lambda context: False  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(DuplicateFlowError):
        Flow(**FIELDS, registry=registry)
    assert registry[closed.id] is closed


def test_who_goes_through_a_registry_is_not_disturbed_by_changes() -> None:
    registry = FlowRegistry()
    for number in range(3):
        fields: dict[str, Any] = {**FIELDS, "name": f"flow {number}"}
        Flow(**fields, registry=registry)
    seen = 0
    for flow in registry.values():
        registry.unregister(flow)
        seen += 1
    assert seen == 3
    assert list(registry.items()) == []
