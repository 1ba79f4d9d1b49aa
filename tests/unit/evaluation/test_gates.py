"""Gates: what a change may move, as pyproject.toml says it."""

from pathlib import Path
from typing import Any

import pytest

from jazz_select.errors import ConfigError
from jazz_select.evaluation import Difference, Gates, Probe, Routed, SideState, Source
from jazz_select.evaluation.route import Outcome, Query

FLOWS = {name: {"name": name, "description": name} for name in "abc"}


def change() -> Difference:
    """Four cases, of which one breaks, and four logged requests, of which one asks a model from now on."""
    asked = [
        *(Probe(asked=Query(request=f"case {n}"), source=Source.CASE, expect=("a",)) for n in range(4)),
        *(Probe(asked=Query(request=f"logged {n}"), source=Source.LOGGED) for n in range(4)),
    ]
    taken = Routed(request="", ranking=("a", "b"), offered=2, outcome=Outcome.TAKEN)
    older = {each.key: taken for each in asked}
    newer = older | {
        asked[0].key: Routed(request="", ranking=("b", "a"), offered=2, outcome=Outcome.TAKEN),
        asked[4].key: Routed(request="", ranking=("a", "b"), offered=2, outcome=Outcome.ASKED),
    }
    tokens = dict.fromkeys(older, 0)
    base = SideState(label="base", flows=FLOWS, routes=older, tokens=tokens | {asked[1].key: 100})
    gone = {name: fields for name, fields in FLOWS.items() if name != "c"}
    head = SideState(label="head", flows=gone, routes=newer, tokens=tokens | {asked[1].key: 100, asked[4].key: 50})
    return Difference.between(base, head, asked, GATES)


GATES = Gates()


def failing(told: dict[str, Any]) -> list[str]:
    return [each.message for each in Gates(**told).failures(change())]


@pytest.mark.spec("007.3")
@pytest.mark.parametrize(
    ("gate", "passes", "fails", "said"),
    [
        ("max_broken_cases", 1, 0, "max_broken_cases: broken cases must be at most 0, got 1: case 0"),
        ("max_broken_cases", "25%", "24%", "max_broken_cases: broken cases must be at most 24% of 4, got 1: case 0"),
        ("min_recall_at_1", 0.75, 0.8, "min_recall_at_1: R@1 must be at least 80.0%, got 75.0%"),
        (
            "max_changed_first",
            1,
            0,
            "max_changed_first: requests with another first candidate must be at most 0, got 1: case 0",
        ),
        ("max_changed_first", "12.5%", "12%", "at most 12% of 8, got"),
        (
            "max_new_confusions",
            1,
            0,
            "max_new_confusions: pairs of flows that are confused more often must be at most 0, got 1: a → b",
        ),
        (
            "max_extra_model_calls",
            1,
            0,
            "max_extra_model_calls: additional requests that ask a model must be at most 0, got 1",
        ),
        (
            "max_extra_tokens",
            50,
            49,
            "max_extra_tokens: additional tokens in the prompts of 8 requests must be at most 49, got 50",
        ),
        ("max_extra_tokens", "50%", "49%", "at most 49% of 100, got"),
        ("allow_removed_flows", True, False, "allow_removed_flows: no flow may be removed, got c"),
    ],
)
def test_each_gate_lets_through_what_it_says_and_no_more(gate: str, passes: Any, fails: Any, said: str) -> None:
    assert failing({gate: passes}) == []
    (message,) = failing({gate: fails})
    assert said in message


def test_without_gates_everything_passes() -> None:
    assert change().passed
    assert not Gates().any
    assert failing(dict.fromkeys(("max_broken_cases", "max_changed_first", "max_extra_tokens"), 0)) != []


def test_recall_of_no_cases_is_not_good_enough() -> None:
    empty = SideState(label="x", flows=FLOWS)
    found = Difference.between(empty, empty, [], Gates(min_recall_at_1=0.5))
    assert [each.message for each in found.failures] == [
        "min_recall_at_1: R@1 must be at least 50.0%, got no labelled cases to measure it by"
    ]


@pytest.mark.parametrize(
    ("counted", "passes"),
    [
        pytest.param((True, True), False, id="of both"),
        pytest.param((True, False), True, id="of one side alone"),
        pytest.param((False, True), True, id="of the other side alone"),
    ],
)
def test_tokens_are_compared_only_where_they_are_counted_on_both_sides(
    counted: tuple[bool, bool], passes: bool
) -> None:
    asked = [Probe(asked=Query(request="x"), source=Source.LOGGED)]
    route = Routed(request="", ranking=("a", "b"), offered=2, outcome=Outcome.TAKEN)
    base, head = (
        SideState(
            label="x",
            flows=FLOWS,
            routes={asked[0].key: route},
            tokens={asked[0].key: tokens} if is_counted else {},
        )
        for is_counted, tokens in zip(counted, (100, 200), strict=True)
    )
    assert Difference.between(base, head, asked, Gates(max_extra_tokens=0)).passed == passes


def test_tokens_of_the_first_flows_are_all_more_than_before() -> None:
    asked = [Probe(asked=Query(request="x"), source=Source.LOGGED)]
    route = Routed(request="", ranking=("a", "b"), offered=2, outcome=Outcome.ASKED)
    head = SideState(label="x", flows=FLOWS, routes={asked[0].key: route}, tokens={asked[0].key: 200})
    first = Difference.between(SideState(label="none", flows={}), head, asked, Gates(max_extra_tokens=199))
    assert [each.gate for each in first.failures] == ["max_extra_tokens"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "max_broken_case = 0",
            "'max_broken_case' is no field of a table; did you mean 'max_broken_cases'?",
            id="misspelt",
        ),
        pytest.param("min_recall_at_1 = 80", "must be a number from 0 to 1, such as 0.8, got 80", id="no share"),
        pytest.param('max_changed_first = "2"', "must be a count, such as 10, or a share", id="text"),
        pytest.param('max_changed_first = "two"', "must be a count, such as 10, or a share", id="a word"),
        pytest.param('max_changed_first = "-2%"', "must be a count, such as 10, or a share", id="negative"),
        pytest.param("max_changed_first = true", "must be a count, such as 10, or a share", id="a boolean"),
        pytest.param("max_new_confusions = 1.5", "must be a count, such as 0", id="a half"),
        pytest.param("allow_removed_flows = 1", "must be true or false", id="no boolean"),
        pytest.param("max_broken_cases = ", "cannot read [tool.jazz-select]", id="no TOML"),
    ],
)
def test_a_gate_that_cannot_work_says_what_can(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.jazz-select.gates]\n{text}\n", "utf-8")
    with pytest.raises(ConfigError) as caught:
        Gates.load(tmp_path)
    assert said in str(caught.value)
    assert "pyproject.toml" in str(caught.value)


def test_gates_come_from_the_projects_file(tmp_path: Path) -> None:
    assert Gates.load(tmp_path) == Gates()
    file = tmp_path / "pyproject.toml"
    file.write_text('[project]\nname = "x"\n', "utf-8")
    assert Gates.load(tmp_path) == Gates()
    file.write_text('[tool.jazz-select.gates]\nmax_broken_cases = 0\nmax_changed_first = "2%"\n', "utf-8")
    assert Gates.load(tmp_path) == Gates(max_broken_cases=0, max_changed_first="2%")
    file.write_text("[tool]\njazz-select = 3\n", "utf-8")
    with pytest.raises(ConfigError, match=r"jazz-select of .*pyproject.toml must be a table"):
        Gates.load(tmp_path)
