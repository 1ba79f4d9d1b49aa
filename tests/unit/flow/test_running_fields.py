"""`chain` and `reply` are for whoever runs a flow: declared, and no part of what tells it from others."""

from typing import Any

from jazz_select import BaseFlow, FlowRegistry
from jazz_select.flow.base import Flow


def declared(**attributes: Any) -> BaseFlow:
    registry = FlowRegistry(min_examples=0)
    type("Refund", (BaseFlow,), {"name": "refund", "tools": ["a"], **attributes}, registry=registry)
    (flow,) = registry.values()
    return flow


def test_a_flow_has_none_unless_its_author_says_so() -> None:
    flow = Flow(name="x", registry=FlowRegistry(min_examples=0))
    assert (flow.chain, flow.reply) == ((), "")


def test_neither_is_indexed_or_changes_the_checksum() -> None:
    plain, running = declared(), declared(chain=["a"], reply="Done: {a}.")
    assert (running.chain, running.reply) == (["a"], "Done: {a}.")
    assert running.card() == plain.card()
    assert running.compute_checksum() == plain.compute_checksum()
    assert running.build_prompt(verbose=False) == plain.build_prompt(verbose=False)
