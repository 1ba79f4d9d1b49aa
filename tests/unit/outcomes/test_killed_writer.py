"""A process that is killed while it writes to a log of outcomes, and what is left."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from jazz_select.outcomes import OutcomeLog

WRITE = """
import sys
from jazz_select.outcomes import OutcomeLog
from jazz_select.values import Decision, Reason, Tier

log = OutcomeLog(sys.argv[1])
decided = Decision(tier=Tier.OPEN, reason=Reason.NONE)
written = 0
while True:
    ids = [log.record(f"request {written + number}", decided) for number in range(500)]
    log.hint(ids[0], [])
    log.flush()
    written += len(ids)
    print(written, flush=True)
"""


def lives(path: Path, batches: list[int]) -> list[int]:
    """Processes that write side by side, each killed after it said so often what is written; what each said last."""
    killed = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE, text=True) for _ in batches
    ]
    last: list[int] = []
    for process, count in zip(killed, batches, strict=True):
        assert process.stdout is not None
        last.append([int(process.stdout.readline()) for _ in range(count)][-1])
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        last[-1] = max([last[-1], *(int(line) for line in rest.split("\n")[:-1])])
        assert process.returncode == -signal.SIGKILL
    return last


@pytest.mark.programs
@pytest.mark.spec("007.5")
@pytest.mark.skipif(os.name == "nt", reason="this system has no SIGKILL")
@pytest.mark.parametrize("batches", [[1], [3, 2]], ids=["one", "two at once"])
def test_what_was_written_is_there_after_kill_9(tmp_path: Path, batches: list[int]) -> None:
    path = tmp_path / "outcomes.db"
    acknowledged = sum(lives(path, batches)) + sum(lives(path, batches))
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    with OutcomeLog.existing(path) as log:
        left = list(log.read())
        assert len(left) >= acknowledged
        assert len({each.id for each in left}) == len(left)
        assert sum(each.right == () for each in left) >= acknowledged // 500


def test_a_process_that_ends_writes_what_it_recorded(tmp_path: Path) -> None:
    path = tmp_path / "outcomes.db"
    once = WRITE.replace("while True:", "for _ in range(1):").replace("    log.flush()\n", "")
    subprocess.run([sys.executable, "-c", once, str(path)], check=True, stdout=subprocess.PIPE)
    assert len(list(OutcomeLog.existing(path).read())) == 500
