"""`python -m examples.demo` on the flows and requests of the repository."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from examples.demo import app
from tests.unit.chat.loopback import Provider
from tests.unit.cli.conftest import MODEL_STRING, Jazz
from tests.unit.cli.shop import REFUND, TRACK, write_flows

ROOT = Path(__file__).parents[3]
SUMMARY = re.compile(r"(\d+) of (\d+) as expected, sync [\d.,]+ ms, p50 of a selection [\d.,]+ ms")


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Jazz:
    monkeypatch.chdir(ROOT)
    return Jazz(tmp_path, {"JAZZ_FLOWS": "flows"}, app)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """An index that the demo has made, and what it printed."""
    folder = tmp_path_factory.mktemp("shown")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        index = str(folder / "demo")
        return index, Jazz(folder, {"JAZZ_FLOWS": "flows"}, app)("--index", index).stdout


@pytest.mark.programs
def test_the_demo_routes_every_request_and_is_idempotent(clone: Jazz, shown: tuple[str, str]) -> None:
    index, first = shown
    second = clone("--index", index).stdout
    requests = yaml.safe_load((ROOT / "examples" / "requests.yaml").read_text("utf-8"))
    summary = SUMMARY.search(first)
    assert summary is not None
    assert int(summary[2]) == len(requests)
    assert len(re.findall(r"^ {4}[✓✗] (?:semantic|single|example|confident|none)", first, re.MULTILINE)) == len(
        requests
    )
    assert first.count("    ✓ ") == int(summary[1])
    assert "0 created, 0 updated, 0 deleted" in second
    assert max(map(len, first.splitlines())) <= 80
    assert [line for line in first.splitlines() if ">" in line] == [line for line in second.splitlines() if ">" in line]


@pytest.mark.programs
def test_the_demo_runs_flows_in_all_three_tiers_and_lets_an_agent_answer(shown: tuple[str, str]) -> None:
    _, text = shown
    steps = re.findall(r"^ +\d+  (deterministic|guided|open) +(\S+)", text, re.MULTILINE)
    assert {tier for tier, _ in steps} == {"deterministic", "guided", "open"}
    assert ("guided", "offer_store_credit") in steps
    assert "3 of 3 flows ran as expected." in text
    statuses = re.findall(r"^ +(\w+): (\w+)(?: flow)?, (\d) calls? of the model", text, re.MULTILINE)
    assert statuses == [
        ("waiting", "refund_order", "1"),
        ("confirming", "refund_order", "1"),
        ("confirming", "no", "2"),
        ("done", "refund_order", "0"),
        ("done", "track_order", "1"),
        ("active", "damaged_item_claim", "3"),
        ("active", "no", "4"),
    ]
    assert " ".join(text.split()).count("(return number: R-40002). Shall I go on, yes or no?") == 2
    assert '{"refunded": "129.00 EUR"' in text


@pytest.fixture
def demo(jazz: Jazz) -> Jazz:
    return replace(jazz, program=app)


@pytest.fixture
def small(jazz: Jazz) -> list[str]:
    write_flows(jazz.flows, REFUND, TRACK)
    cases: list[dict[str, Any]] = [
        {"request": "money back", "expect": ["refund_order"], "episodes": ["It was [broken]."], "context": {"a": True}},
        {"request": "money back for the lost parcel, and where is it", "expect": ["refund_order", "track_order"]},
        {"request": "what is the capital of Peru", "expect": []},
        {"request": "money back", "expect": ["track_order"], "context": {"authenticated": True}},
    ]
    file = jazz.folder / "requests.yaml"
    file.write_text(yaml.safe_dump(cases), encoding="utf-8")
    return ["--top-k", "2", "--requests", str(file), "--index", str(jazz.folder / "demo")]


def test_without_a_model_it_says_what_one_would_add(demo: Jazz, small: list[str]) -> None:
    text = demo(*small).stdout
    words = " ".join(text.split())
    assert "No model is configured" in words
    assert "earlier: It was [broken]." in words
    assert "context: a=true" in words
    assert "1 of 4 as expected" in words
    assert "one intent of 2 was served" in words
    assert "nothing fits, and one was taken all the same" in words
    assert "1 where nothing fits (it can say so); 1 with two intents (it can choose both)." in words
    assert "1 it cannot correct, as the right flow is not offered" in words


def test_with_a_model_it_chooses_and_may_say_that_nothing_fits(
    demo: Jazz, small: list[str], provider: Provider
) -> None:
    provider.says("[]")
    words = " ".join(demo(*small, "--llm", MODEL_STRING).stdout.split())
    assert f"{MODEL_STRING} chooses among the 2 nearest flows." in words
    assert "1 of 4 as expected" in words
    assert "✓ none, open" in words
    assert "No model is configured" not in words
    assert "Try: " not in words
    assert len(provider.requests) == 4


def test_a_model_that_fails_breaks_nothing(demo: Jazz, small: list[str], provider: Provider) -> None:
    provider.fails(500)
    assert "fallback_error" in demo(*small, "--llm", MODEL_STRING).stdout


def test_the_demo_touches_no_index_but_its_own(demo: Jazz, small: list[str]) -> None:
    demo(*small, JAZZ_URL="http://127.0.0.1:9", JAZZ_AGENT_ID="support")
    assert not demo.index.exists()


def test_without_requests_it_says_where_it_is_run(demo: Jazz) -> None:
    told = demo("--requests", str(demo.folder / "none.yaml"), code=2).stderr
    assert told.startswith("Error: ")
    assert told.count("\n") == 1
    assert "in a clone of the repository" in told
