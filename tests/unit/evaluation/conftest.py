"""What tests of learning and drift share: a small shop, and entries of a log."""

from collections.abc import Callable

import pytest

from jazz_select import FlowRegistry
from jazz_select.outcomes import Logged, Source
from tests.unit.evaluation.small_shop import REQUESTS, add

WORDS = {
    **REQUESTS,
    "address": ["change my address", "i have moved", "new delivery address", "wrong street", "address is wrong"],
}
Entry = Callable[..., Logged]
build: Entry = Logged


@pytest.fixture
def small_shop() -> FlowRegistry:
    made = FlowRegistry()
    for name, examples in WORDS.items():
        add(made, name, examples)
    return made


@pytest.fixture
def entry() -> Entry:
    """Makes entries, each with an id of its own."""
    made: list[Logged] = []

    def make(request: str, right: tuple[str, ...] | None = None, **known: object) -> Logged:
        by = None if right is None else Source(kind="user")
        kept: dict[str, object] = {"corrected_by": by, "at": float(len(made))} | known
        made.append(build(id=f"e{len(made)}", request=request, right=right, **kept))
        return made[-1]

    return make
