"""What a turn keeps is what it was given: in snapshots, and through guards that take something back."""

from datetime import date
from typing import Any

import pytest
from pydantic import Field

from jazz_select.agent import Action, ActionDecision, Guard, Route, Router, TurnState
from jazz_select.errors import SnapshotError


class Notes(TurnState):
    anything: Any = None
    due: date | None = None
    tags: frozenset[str] = frozenset()
    by_number: dict[int, str] = Field(default_factory=dict[int, str])
    card: str = ""


async def plan(_: Notes) -> ActionDecision:
    return ActionDecision(action="work")


def router(*guards: Guard[Notes]) -> Router[Notes]:
    return Router(Notes, guards=guards, routes={}, actions={"work": Action(run=lambda _: {})}, plan=plan)


@pytest.mark.spec("005.16")
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(date(2025, 6, 11), id="a date"),
        pytest.param({"a", "b"}, id="a set"),
        pytest.param({1: "one"}, id="numbers as keys"),
        pytest.param((1, 2), id="a tuple"),
        pytest.param([{"on": date(2025, 6, 11)}], id="a date inside"),
    ],
)
async def test_what_json_would_make_something_else_is_refused_by_its_field(value: Any) -> None:
    run = await router().run(Notes(anything=value), most_nodes=1)
    with pytest.raises(SnapshotError, match="the field anything comes back from JSON as something else"):
        run.snapshot()


@pytest.mark.spec("005.16")
async def test_a_field_whose_type_says_what_it_is_comes_back_as_it_was() -> None:
    given = Notes(
        due=date(2025, 6, 11), tags=frozenset("ab"), by_number={1: "one"}, anything={"a": [1, 2.5, None, True]}
    )
    run = await router().run(given, most_nodes=1)
    state = (await router().resume(run.snapshot(), most_nodes=0)).state
    for name in ("due", "tags", "by_number", "anything"):
        assert getattr(state, name) == getattr(given, name)


def test_a_guard_may_take_back_what_another_changed() -> None:
    hide: Guard[Notes] = Guard("hide", lambda _: Route(updates={"card": "***"}), ())
    show: Guard[Notes] = Guard("show", lambda _: Route(updates={"card": "4242"}), ())
    assert router(hide).pre_check(Notes(card="4242")).updates["card"] == "***"
    assert "card" not in router(hide, show).pre_check(Notes(card="4242")).updates
