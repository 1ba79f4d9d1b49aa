"""`jazz-select eval` and `jazz-select list`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from jazz_select import FlowSelectionResult
from jazz_select.cli import wire
from jazz_select.cli.evaluation import measure
from jazz_select.evaluation.cases import Case
from jazz_select.values import Candidate, Decision, Latency, Reason, Tier
from tests.unit.chat.loopback import Provider
from tests.unit.cli.conftest import MODEL_STRING, Jazz


def recalled(*names: str, total_s: float = 0.002) -> FlowSelectionResult:
    candidates = tuple(Candidate(flow_id=name, flow_name=name) for name in names)
    latency = Latency(total_s=total_s)
    return FlowSelectionResult(
        decision=Decision(tier=Tier.OPEN, reason=Reason.NONE, candidates=candidates, latency=latency)
    )


@pytest.mark.parametrize(
    ("expect", "names", "numbers", "rank"),
    [
        pytest.param(["a"], "abc", (1, 1, 1), 1, id="first"),
        pytest.param(["a"], "bca", (0, 1, 1 / 3), 3, id="third"),
        pytest.param(["a"], "bcda", (0, 0, 1 / 4), 4, id="fourth"),
        pytest.param(["a"], "bcd", (0, 0, 0), None, id="not found"),
        pytest.param(["a"], "", (0, 0, 0), None, id="nothing recalled"),
        pytest.param(["a", "b"], "acb", (1 / 2, 1, 1), 1, id="two right ones"),
        pytest.param(["a", "b"], "cbd", (0, 1 / 2, 1 / 2), 2, id="one of two"),
    ],
)
def test_the_measures(expect: list[str], names: str, numbers: tuple[float, ...], rank: int | None) -> None:
    found = measure("support", "static:1", [Case(request="hi", expect=tuple(expect))], [recalled(*names)], None)
    assert (found.recall_at_1, found.recall_at_3, found.mrr) == pytest.approx(numbers)
    if rank == 1:
        assert found.misses == ()
    else:
        miss = wire.Miss(request="hi", expect=tuple(expect), first=names[:1], rank=rank)
        assert found.misses == (miss,)


def test_requests_that_expect_no_flow_count_for_no_measure() -> None:
    cases = [Case(request="x", expect=("a",)), Case(request="y", expect=()), Case(request="z", expect=("c",))]
    found = measure(
        "support",
        "static:1",
        cases,
        [recalled("a", total_s=1), recalled("b", total_s=2), recalled("b", total_s=9)],
        None,
    )
    assert (found.requests, found.unlabelled, found.recall_at_1, found.p50_s) == (3, 1, 0.5, 2)
    assert [miss.request for miss in found.misses] == ["z"]
    assert measure("support", "static:1", cases[1:2], [recalled("b")], None).mrr == 0


def test_the_worst_miss_comes_first() -> None:
    cases = [Case(request=name, expect=("a",)) for name in ("second", "never", "third")]
    found = measure("support", "static:1", cases, [recalled("b", "a"), recalled("b"), recalled("b", "c", "a")], None)
    assert [miss.request for miss in found.misses] == ["never", "third", "second"]


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    cases: list[dict[str, Any]] = [
        {"request": "give me my money back", "expect": ["refund_order"]},
        {"request": "close my account", "expect": ["close_account"]},
        {"request": "close my account", "expect": ["close_account"], "context": {"authenticated": True}},
        {"request": "what is the capital of Peru", "expect": []},
    ]
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump(cases), encoding="utf-8")
    return str(file)


def test_eval_measures_what_select_would_recall(shared: Jazz, labelled: str) -> None:
    found = shared.json(wire.Evaluation, "eval", labelled)
    assert (found["requests"], found["unlabelled"], found["choices"]) == (4, 1, None)
    assert found["recall_at_1"] == pytest.approx(2 / 3)
    assert [(miss["expect"], miss["rank"]) for miss in found["misses"]] == [(["close_account"], None)]
    text = shared("eval", labelled).stdout
    assert max(len(line) for line in text.splitlines() if str(shared.folder) not in line) <= 80
    assert "66.7%" in text
    assert text.count(" miss ") == 1
    assert f"flows {shared.flows}, agent support" in text


def test_eval_counts_the_choices_of_a_model(shared: Jazz, labelled: str, provider: Provider) -> None:
    provider.says("[]")
    found = shared.json(wire.Evaluation, "eval", labelled, "--llm", MODEL_STRING)
    assert found["recall_at_1"] == pytest.approx(2 / 3)
    assert found["choices"] == {"model": MODEL_STRING, "exact": 1, "failed": 0}
    provider.fails(500)
    words = " ".join(shared("eval", labelled, "--llm", MODEL_STRING).stdout.split())
    assert "chose exactly the expected flows for 2 of 4, 4 calls failed" in words


def test_list_shows_what_is_in_the_index(shared: Jazz) -> None:
    listing = shared.json(wire.Listing, "list")
    assert [flow["flow_name"] for flow in listing["flows"]] == ["close_account", "refund_order", "track_order"]
    text = shared("list").stdout
    assert "Refund a delivered order." in text
    assert "3 flows: agent support" in text


def test_an_agent_without_flows_has_an_empty_list(shared: Jazz) -> None:
    result = shared("list", "--agent", "nobody", "--json")
    assert '"flows": []' in result.stdout
    assert "run jazz-select sync --flows" in result.stderr
