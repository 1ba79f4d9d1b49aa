"""A flow and a registry can be copied, deeply copied and pickled; what was copied stays as it was."""

import pickle
from collections.abc import Callable
from copy import copy, deepcopy
from threading import Lock
from typing import Any

import pytest

from jazz_select import BaseFlow, Flow, FlowRegistry, SequentialFlow
from jazz_select.flow.inputs import Input

SHELF = FlowRegistry(min_examples=0)


class Renew(BaseFlow, registry=SHELF):
    """Extend the loan of a book."""

    name = "renew"
    condition = "The member wants to keep a book."
    desired_effects = ("a later date",)
    tools = ("find_loan",)
    inputs = (Input("title", "Which book?"),)


def shelf() -> FlowRegistry:
    """A registry with a flow of its own scope, one of a class, and a composite of names."""
    registry = FlowRegistry(min_examples=0)
    Flow(name="return", description="Take a book back.", examples=["here it is"], aliases=["bring"], registry=registry)
    registry.register(Renew.declared() or pytest.fail("it declares a flow"))
    SequentialFlow(name="both", description="Return and renew.", flows=["return", "renew"], registry=registry)
    return registry


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - our own


COPIES: dict[str, Callable[[Any], Any]] = {"copy": copy, "deepcopy": deepcopy, "pickle": pickled}


@pytest.mark.parametrize("made", COPIES.values(), ids=COPIES)
def test_a_registry_is_copied_with_its_flows(made: Callable[[Any], Any]) -> None:
    registry = shelf()
    other = made(registry)
    assert list(other) == list(registry)
    assert [flow.compute_checksum() for flow in other.values()] == [f.compute_checksum() for f in registry.values()]
    Flow(name="pay", description="Pay a fee.", registry=other)
    assert registry.by_name("pay") is None
    assert [part.name for part in other.by_name("both").subflows] == ["return", "renew"]
    if made is not copy:
        assert other.by_name("both").subflows[0] is other.by_name("return")


@pytest.mark.parametrize("name", ["return", "renew", "both"])
@pytest.mark.parametrize("made", [copy, deepcopy], ids=["copy", "deepcopy"])
def test_a_flow_is_copied_and_registered_nowhere(made: Callable[[Any], Any], name: str) -> None:
    registry = shelf()
    flow: Any = registry.by_name(name)
    other = made(flow)
    assert (other.id, other.place, other.compute_checksum()) == (flow.id, flow.place, flow.compute_checksum())
    assert registry.by_name(name) is flow
    other.examples = ("another",)
    assert flow.examples != ("another",)
    FlowRegistry(min_examples=0).register(other)


def test_a_deep_copy_shares_no_list_with_the_flow() -> None:
    flow = Flow(name="x", description="x", registry=FlowRegistry(min_examples=0))
    flow.seen = {"a": [1]}  # pyright: ignore[reportAttributeAccessIssue] - an author's own
    other: Any = deepcopy(flow)
    other.seen["a"].append(2)
    assert flow.seen == {"a": [1]}  # pyright: ignore[reportAttributeAccessIssue]


def test_what_cannot_be_copied_is_shared() -> None:
    flow = Flow(name="x", description="x", registry=FlowRegistry(min_examples=0))
    lock = Lock()
    vars(flow)["lock"] = lock
    assert vars(deepcopy(flow))["lock"] is lock


def test_a_flow_that_was_pickled_is_in_no_registry_and_says_the_same() -> None:
    flow: Any = shelf().by_name("return")
    other = pickled(flow)
    assert other.compute_checksum() == flow.compute_checksum()
    assert other.build_prompt() == flow.build_prompt()
