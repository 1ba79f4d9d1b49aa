"""What leaves for other programs: labelled requests for pydantic-evals, and checks as a table."""

from dataclasses import asdict
from importlib.util import find_spec
from typing import Any

import pytest

from jazz_select.errors import ConfigError
from jazz_select.evaluation import (
    Case,
    Check,
    ConversationReport,
    ConversationResult,
    Seen,
    TurnPlayed,
    to_pydantic_evals,
)

CASES = [
    Case(request="Where is it?", expect=("track",), why="short", context={"known": True}),
    Case(request="where is IT", expect=("track", "refund"), episodes=("The user bought a lamp.",), tools=("look_up",)),
    Case(request="日本語\x1b", expect=()),
]


@pytest.mark.spec("007.2")
def test_a_data_set_holds_inputs_expected_flows_and_why() -> None:
    assert to_pydantic_evals(CASES, name="shop") == {
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


async def test_the_package_reads_and_evaluates_the_data_set() -> None:
    evals = pytest.importorskip("pydantic_evals")
    data = evals.Dataset[dict[str, Any], list[str], dict[str, Any]].from_dict(to_pydantic_evals(CASES, name="shop"))

    async def choose(inputs: dict[str, Any]) -> list[str]:
        return ["track"] if inputs["context"] else ["track", "refund"] if inputs["episodes"] else []

    report = await data.evaluate(choose, progress=False)
    assert [assertion.value for case in report.cases for assertion in case.assertions.values()] == [True, True, True]


def test_checks_as_a_table_need_pandas() -> None:
    seen = Check(name="flows", passed=True, expected="track", seen="track")
    turn = TurnPlayed(number=1, say="hi", seen=Seen(flows=("track",)), checks=(seen,))
    report = ConversationReport(results=(ConversationResult(id="a", title="A", turns=(turn,)),))
    if find_spec("pandas") is None:
        with pytest.raises(ConfigError, match="pip install pandas"):
            report.to_dataframe()
        return
    assert report.to_dataframe().to_dict("records") == [{"conversation": "a", "turn": 1, **asdict(seen)}]
