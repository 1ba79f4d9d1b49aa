"""What leaves for other programs: labelled requests for pydantic-evals, and checks as a table."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazz_select.errors import ConfigError
from jazz_select.evaluation import (
    Case,
    Check,
    ConversationReport,
    ConversationResult,
    Seen,
    TurnPlayed,
    to_pydantic_evals,
    write_pydantic_evals,
)
from jazz_select.evaluation.exports import compare_choices, flow_evaluator, names_of

CASES = [
    Case(request="Where is it?", expect=("track",), why="short", context={"known": True}),
    Case(request="where is IT", expect=("track", "refund"), episodes=("The user bought a lamp.",), tools=("look_up",)),
    Case(request="日本語\x1b", expect=()),
]


def test_each_case_has_a_name_of_its_own() -> None:
    assert names_of(CASES) == ["where-is-it-1", "where-is-it-2", "日本語"]


@pytest.mark.spec("007.2")
def test_a_file_holds_inputs_expected_flows_and_why(tmp_path: Path) -> None:
    write_pydantic_evals(CASES, tmp_path / "evals.yaml", name="shop")
    told = yaml.safe_load((tmp_path / "evals.yaml").read_text("utf-8"))
    assert told == {
        "name": "shop",
        "cases": [
            {
                "name": "where-is-it-1",
                "inputs": {"request": "Where is it?", "episodes": [], "context": {"known": True}},
                "metadata": {"why": "short", "tools": []},
                "expected_output": ["track"],
            },
            {
                "name": "where-is-it-2",
                "inputs": {"request": "where is IT", "episodes": ["The user bought a lamp."], "context": {}},
                "metadata": {"why": "", "tools": ["look_up"]},
                "expected_output": ["track", "refund"],
            },
            {
                "name": "日本語",
                "inputs": {"request": "日本語\x1b", "episodes": [], "context": {}},
                "metadata": {"why": "", "tools": []},
                "expected_output": [],
            },
        ],
        "evaluators": ["EqualsExpected"],
    }


def test_a_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write the data set to"):
        write_pydantic_evals(CASES, tmp_path / "nowhere" / "evals.yaml")


@pytest.mark.parametrize(
    ("expected", "chosen", "right", "found"),
    [
        pytest.param(["a", "b"], ["b", "a"], True, 1.0, id="in whatever order"),
        pytest.param(["a", "b"], ["a"], False, 0.5, id="half of them"),
        pytest.param(["a"], ["a", "b"], False, 1.0, id="one too many"),
        pytest.param([], [], True, 1.0, id="none"),
        pytest.param([], ["a"], False, 0.0, id="one where none fits"),
    ],
)
def test_flows_are_compared(expected: list[str], chosen: list[str], right: bool, found: float) -> None:
    assert compare_choices(expected, chosen) == {"right_flows": right, "found": found}


def has_package() -> bool:
    try:
        flow_evaluator()
    except ConfigError:
        return False
    return True


@pytest.mark.skipif(has_package(), reason="pydantic-evals is installed")
def test_without_the_package_the_error_says_what_to_install() -> None:
    with pytest.raises(ConfigError, match="pip install pydantic-evals"):
        to_pydantic_evals(CASES)


async def test_the_package_evaluates_the_data_set_and_reads_the_file(tmp_path: Path) -> None:
    evals = pytest.importorskip("pydantic_evals")
    data = to_pydantic_evals(CASES, name="shop")

    async def choose(inputs: dict[str, Any]) -> list[str]:
        return ["track"] if inputs["context"] else ["refund", "track"] if inputs["episodes"] else []

    report = await data.evaluate(choose, progress=False)
    assert all(case.assertions["right_flows"].value for case in report.cases)
    assert [case.scores["found"].value for case in report.cases] == [1.0, 1.0, 1.0]
    write_pydantic_evals(CASES, tmp_path / "evals.yaml", name="shop")
    read = evals.Dataset[dict[str, Any], list[str], dict[str, Any]].from_file(
        tmp_path / "evals.yaml", custom_evaluator_types=[flow_evaluator()]
    )
    assert [each.inputs for each in read.cases] == [each.inputs for each in data.cases]
    data.to_file(tmp_path / "own.yaml", custom_evaluator_types=[flow_evaluator()])


def test_checks_as_a_table_need_pandas() -> None:
    seen = Check(name="flows", passed=True, expected="track", seen="track")
    turn = TurnPlayed(number=1, say="hi", seen=Seen(flows=("track",)), checks=(seen,))
    report = ConversationReport(results=(ConversationResult(id="a", title="A", turns=(turn,)),))
    if find_spec("pandas") is None:
        with pytest.raises(ConfigError, match="pip install pandas"):
            report.to_dataframe()
        return
    assert report.to_dataframe().to_dict("records") == [{"conversation": "a", "turn": 1, **seen.to_dict()}]
