"""The thread that writes the log of outcomes: no line ends it, and what an id was given for is written."""

import logging
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from jazz_select.outcomes import OutcomeLog
from jazz_select.values import Decision, Latency, Reason, Tier, Usage

DECIDED = Decision(tier=Tier.GUIDED, reason=Reason.UNASKED)
HUGE = replace(DECIDED, usage=Usage(input_tokens=1 << 70, output_tokens=-(1 << 70)))
TIMELESS = replace(DECIDED, latency=Latency(total_s=float("nan")), p_none=float("inf"))


def unknown(value: object) -> Any:
    """A value as a caller without a type checker passes it."""
    return cast("Any", value)


LINES: dict[str, tuple[Callable[[OutcomeLog], object], int]] = {
    "half a pair as an id": (lambda log: log.hint("\ud800", ["a"]), 0),
    "None as an id": (lambda log: log.hint(unknown(None), ["a"]), 0),
    "a list as an id": (lambda log: log.hint(unknown(["x"]), ["a"]), 0),
    "a number as names": (lambda log: log.hint("x", unknown(5)), 0),
    "None as a request": (lambda log: log.record(unknown(None), DECIDED), 0),
    "more tokens than a column holds": (lambda log: log.record("x", HUGE), 1),
    "no number as a time": (lambda log: log.record("x", TIMELESS), 1),
    "half a pair as an agent": (lambda log: log.record("x", DECIDED, agent_id="\udc80"), 1),
    "None as an agent": (lambda log: log.record("x", DECIDED, agent_id=unknown(None)), 1),
    "what no column takes": (lambda log: log.record("x", DECIDED, alone=unknown(None)), 0),
}


@pytest.mark.spec("007.5")
@pytest.mark.parametrize(("say", "kept"), LINES.values(), ids=LINES.keys())
def test_no_line_costs_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, say: Callable[[OutcomeLog], object], kept: int
) -> None:
    with OutcomeLog(tmp_path / "outcomes.db") as log, caplog.at_level(logging.WARNING):
        for number in range(20):
            log.record(f"before {number}", DECIDED)
        say(log)
        for number in range(20):
            log.record(f"beside {number}", DECIDED)
        assert log.flush()
        log.record("afterwards", DECIDED)
        assert log.flush()
        assert len(list(log.read())) == 41 + kept
        assert log.dropped == 1 - kept
    assert len([each for each in caplog.records if "are not kept" in each.message]) == 1 - kept, "told once"


def test_whatever_happens_to_the_file_the_thread_lives(tmp_path: Path) -> None:
    """A trigger of somebody else's asks for a function that there is not, then the table is gone, then all is well."""
    path = tmp_path / "outcomes.db"
    with OutcomeLog(path) as log:
        for change in (
            "CREATE TRIGGER t AFTER INSERT ON entries BEGIN SELECT no_such_function(1); END",
            "DROP TRIGGER t",
        ):
            database = sqlite3.connect(path)
            database.execute(change)
            database.close()
            log.record(change, DECIDED)
            assert log.flush()
        assert [each.request for each in log.read()] == ["DROP TRIGGER t"]
        assert log.dropped == 1


def test_a_handler_that_fails_does_not_end_it(tmp_path: Path) -> None:
    class Failing(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.message)

    failing, logger = Failing(), logging.getLogger("jazz_select.outcomes.log")
    logger.addFilter(failing)
    try:
        with OutcomeLog(tmp_path / "outcomes.db") as log:
            log.record("x", DECIDED, alone=unknown(None))
            assert log.flush()
            log.record("y", DECIDED)
            assert [each.request for each in log.read()] == ["y"]
    finally:
        logger.removeFilter(failing)


class Door:
    """A lock that counts who has come to it."""

    def __init__(self) -> None:
        self.lock, self.came = threading.Lock(), threading.Semaphore(0)

    def __enter__(self) -> None:
        self.came.release()
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


def test_an_id_that_was_given_is_written_though_the_log_is_closed_meanwhile(tmp_path: Path) -> None:
    log, given, door = OutcomeLog(tmp_path / "outcomes.db"), list[str](), Door()
    given.append(log.record("the first", DECIDED))
    assert log.flush(), "its thread runs"
    vars(log)["_writer"]._lock = door  # who records waits here, with all looked at that it looks at
    recording = threading.Thread(target=lambda: given.append(log.record("the second", DECIDED)))
    closing = threading.Thread(target=log.close)
    with door.lock:
        for each in (recording, closing):
            each.start()
            assert door.came.acquire(timeout=30), "who closes waits as who records does"
    recording.join()
    closing.join()
    kept = [each.id for each in OutcomeLog.existing(log.path).read()]
    assert kept == [each for each in given if each]
    assert log.dropped == given.count("")
