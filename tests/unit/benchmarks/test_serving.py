"""What a service costs: its tables, and what is compared of an answer."""

from typing import Any

from benchmarks import report
from benchmarks.report_serving import serving_killed_table, serving_load_table, serving_table
from benchmarks.serving import told
from jazz_select.selector.result import FlowSelectionResult

TIMES = {"p50": 60, "p99": 90}
ROWS: list[dict[str, Any]] = [
    {"question": "in process", "selects": 2000, "ms": {"p50": 1.0, "p99": 2.0}},
    {"question": "over HTTP", "selects": 2000, "ms": {"p50": 1.5, "p99": 3.0}},
    {
        "question": "many clients",
        "selects": 9000,
        "clients": 64,
        "per_s": 900,
        "errors": 0,
        "ms": TIMES,
    },
    {"question": "many workers", "selects": 9, "processes": 4, "clients": 25, "per_s": 8, "errors": 1, "different": 2},
    {
        "question": "for long",
        "selects": 50_000,
        "clients": 64,
        "per_s": 900,
        "errors": 0,
        "ms": TIMES,
        "rss_before_mb": 200.4,
        "rss_after_mb": 201.0,
    },
    {"question": "killed", "clients": 16, "told": {"ServiceUnavailableError": 16}, "restart_s": 1.25, "answers": True},
]


def test_tables() -> None:
    assert serving_table(ROWS).splitlines()[2:] == [
        "| in process | 2,000 | 1.00 | 2.00 | 1.00 × |",
        "| over HTTP | 2,000 | 1.50 | 3.00 | 1.50 × |",
    ]
    assert serving_load_table(ROWS).splitlines()[2:] == [
        "| 64 | 9,000 | 900 | 60 / 90 | 0 | – | – |",
        "| 4 processes × 25 clients | 9 | 8 | – | 1 | 2 | – |",
        "| 64 | 50,000 | 900 | 60 / 90 | 0 | – | 200 → 201 |",
    ]
    assert serving_killed_table(ROWS).splitlines()[2:] == ["| 16 | ServiceUnavailableError × 16 | 1.25 |"]
    assert {marker for marker, (asked, _) in report.TABLES.items() if asked == "serving"} == {
        "serving",
        "serving-load",
        "serving-killed",
        "serving-provenance",
    }


def test_an_answer_is_compared_without_what_differs_from_call_to_call() -> None:
    assert told(FlowSelectionResult(logged="1")) == told(FlowSelectionResult(logged="2"))
    assert told(FlowSelectionResult(combined_prompt="a")) != told(FlowSelectionResult(combined_prompt="b"))
