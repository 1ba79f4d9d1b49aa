"""What a router refuses when it is built."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from jazz_select.agent import Action, Guard, Route, Router, guard
from jazz_select.errors import RouterError
from tests.unit.agent.counting import Count, finishing, router, unchanged, work


@guard("ask")
def asks(_: Count) -> Route | None:
    return None


@guard("continue")
def goes_on(_: Count) -> Route | None:
    return None


def to(then: str | Mapping[str, str]) -> Action[Count]:
    return Action(run=work, then=then)


async def never(*_: Any) -> Any:
    return None


waits: Any = never


REFUSED: list[Any] = [
    pytest.param(
        {"guards": [asks]},
        "the tag 'ask' of guard asks has no edge",
        id="a tag without an edge",
        marks=pytest.mark.spec("002.18"),
    ),
    pytest.param(
        {"guards": [asks], "routes": {"ask": "nobody"}},
        "the edge 'ask' of pre_check leads to 'nobody'",
        id="an edge to nowhere",
        marks=pytest.mark.spec("002.18"),
    ),
    pytest.param({"routes": {"ask": "finish"}}, "no guard answers 'ask'", id="an edge that nothing takes"),
    pytest.param(
        {"guards": [goes_on], "routes": {"continue": "finish"}},
        "'continue' of guard goes_on has a meaning",
        id="a tag that is taken",
    ),
    pytest.param(
        {"actions": {"work": to("rest")}},
        r"the edge '\(always\)' of work leads to 'rest'",
        id="an action that leads nowhere",
    ),
    pytest.param(
        {"actions": {"work": to({"well": "finish", "ill": "rest"})}},
        "the edge 'ill' of work leads to 'rest'",
        id="a way that leads nowhere",
    ),
    pytest.param({"actions": {"work": to({})}}, "work has no way out", id="no way out"),
    pytest.param(
        {"actions": {"work": to({"failed": "finish"})}},
        "the tag 'failed' of work has a meaning",
        id="a way that is taken",
    ),
    pytest.param(
        {"actions": {"work": to("work")}},
        "work → work is a loop that no guard sees",
        id="a loop of one",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"work": to("acquire_or_plan")}},
        "loop that no guard sees; lead it back to pre_check",
        id="a loop to the plan",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"a": to("b"), "b": to({"x": "pre_check", "y": "a"})}},
        "loop that no guard sees",
        id="a loop of two",
        marks=pytest.mark.spec("002.19"),
    ),
    pytest.param(
        {"actions": {"pre_check": Action(run=work)}}, "two nodes have one name: pre_check", id="the guards' name"
    ),
    pytest.param({"actions": {"finish": Action(run=work)}}, "two nodes have one name: finish", id="the end's name"),
    pytest.param({"validators": {"work": unchanged}}, "two nodes have one name: work", id="a validator like an action"),
    pytest.param(
        {"actions": {"work": Action(run=work), "rest": Action(run=work, planned=False)}},
        "nothing leads to rest",
        id="out of reach",
    ),
    pytest.param({"actions": {"": Action(run=work)}}, "'' is no name of a node", id="no name"),
    pytest.param(
        {"actions": {"after pre_check": Action(run=work)}}, "'after pre_check' is no name", id="a name with a space"
    ),
    pytest.param(
        {"actions": {"work": to({'a"|b': "finish"})}}, "is no name of a node or tag", id="a tag that breaks a picture"
    ),
    pytest.param({"actions": {"__end__": Action(run=work)}}, "'__end__' is no name", id="a name that is kept"),
    pytest.param({"guards": [Guard("keeper", waits, ())]}, "guard keeper is async", id="a guard that waits"),
    pytest.param({"acquire": waits}, "acquire is async", id="an acquisition that waits"),
    pytest.param({"rewrites": [waits]}, "rewrite never is async", id="a rewrite that waits"),
    pytest.param({"validators": {"check": waits}}, "validator check is async", id="a validator that waits"),
    pytest.param({"max_iterations": 0}, "max_iterations must be at least 1", id="no round"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_what_cannot_work_is_refused_when_it_is_built(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RouterError, match=message):
        router(**changes)


@pytest.mark.parametrize("kind", [int, BaseModel, "Count"], ids=str)
def test_a_state_is_a_turn_state(kind: Any) -> None:
    with pytest.raises(RouterError, match="derive it from TurnState"):
        Router(kind, guards=(), routes={}, actions={}, plan=finishing)


def test_many_ways_are_checked_in_no_time() -> None:
    layers = {
        f"{side}{number}": to({"a": f"a{number + 1}", "b": f"b{number + 1}"}) for number in range(60) for side in "ab"
    }
    assert len(router(actions={**layers, "a60": to("finish"), "b60": to("pre_check")}).nodes) == 125
