"""The log of outcomes: what is kept, for how long, by how many at once, and what it says of a file it cannot use."""

import asyncio
import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select.errors import ConfigError, OutcomeLogError
from jazz_select.outcomes import Feedback, Logged, OutcomeLog, Source, labels
from jazz_select.outcomes.callers import Caller, calling_as, in_conversation
from jazz_select.outcomes.log import Redact
from jazz_select.stages import Move, StageRecord
from jazz_select.values import Candidate, Decision, Latency, Reason, SourceKind, Tier, Usage

making: Callable[..., OutcomeLog] = OutcomeLog
"""With options that a type checker need not know."""
DECIDED = Decision(
    tier=Tier.GUIDED,
    reason=Reason.LLM,
    candidates=(
        Candidate(flow_id="1", flow_name="refund", confidence=0.75),
        Candidate(flow_id="2", flow_name="track", confidence=None),
    ),
    raw_reply='["refund"]',
    p_none=0.012,
    latency=Latency(total_s=0.25),
    usage=Usage(input_tokens=70, output_tokens=5),
    model="m",
    attempts=1,
)


USER = Source(kind="user")


def nothing_of(_: str) -> str:
    return ""


def no_digits(text: str) -> str:
    return text.replace("15", "##")


def fails(text: str) -> str:
    return text[99]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "outcomes.db"


def test_an_entry_comes_back_as_it_was_recorded(path: Path) -> None:
    with OutcomeLog(path) as log:
        entry = log.record("my money back", DECIDED, agent_id="shop", chosen=["refund"], alone=False)
        (kept,) = log.read()
    assert kept == Logged(
        id=entry,
        at=kept.at,
        agent_id="shop",
        request="my money back",
        alone=False,
        chosen=("refund",),
        candidates=("refund", "track"),
        confidences=(0.75, None),
        p_none=0.012,
        reason="llm",
        tier="guided",
        asked=True,
        model="m",
        tokens_in=70,
        tokens_out=5,
        took_s=0.25,
        chosen_by=Source(kind="model", name="m"),
    )
    assert (kept.first, kept.confidence) == ("refund", 0.75)
    assert kept.to_dict()["candidates"] == ["refund", "track"]


@pytest.mark.spec("009.2")
@pytest.mark.parametrize(
    ("stages", "asked"),
    [
        ((), False),
        ((StageRecord(name="recall", outcome="decided"), StageRecord(name="decider", outcome="skipped")), False),
        ((StageRecord(name="recall", outcome="handed_on"), StageRecord(name="decider", outcome="handed_on")), False),
        ((StageRecord(name="decider", outcome="decided", calls=1),), True),
        (
            (StageRecord(name="decider", outcome="handed_on", calls=1), StageRecord(name="user", outcome="handed_on")),
            True,
        ),
        ((StageRecord(name="decider", outcome="failed"),), True),
    ],
    ids=["no cascade", "recall decided", "nobody was asked", "a decider decided", "it passed", "it failed"],
)
def test_a_decision_model_is_a_model_that_was_asked(
    path: Path, stages: tuple[StageRecord, ...], *, asked: bool
) -> None:
    with OutcomeLog(path) as log:
        log.record("x", Decision(tier=Tier.GUIDED, reason=Reason.DECIDER, stages=stages))
        (kept,) = log.read()
    assert kept.asked is asked


@pytest.mark.spec("007.5")
@pytest.mark.parametrize(
    ("said", "right", "kind"),
    [
        pytest.param([], None, None, id="nobody said anything"),
        pytest.param([("user", "track")], ("track",), "user", id="a correction"),
        pytest.param([("user", "")], (), "user", id="nothing fits"),
        pytest.param([("user", "track"), ("user", "refund track")], ("refund", "track"), "user", id="the last"),
        pytest.param([("agent", "track")], ("track",), "agent", id="gathered"),
        pytest.param([("user", "track"), ("agent", "refund")], ("track",), "user", id="a user before an agent"),
        pytest.param([("person", "track"), ("user", "refund")], ("track",), "person", id="a reviewer before a user"),
        pytest.param([("user", "refund"), ("person", "track")], ("track",), "person", id="a reviewer after a user"),
        pytest.param([("agent", "track"), ("user", "refund")], ("refund",), "user", id="and after one"),
    ],
)
def test_corrections_join_what_they_correct(
    path: Path, said: list[tuple[SourceKind, str]], right: tuple[str, ...] | None, kind: SourceKind | None
) -> None:
    with OutcomeLog(path) as log:
        entry = log.record("my parcel", DECIDED)
        other = log.record("something else", DECIDED)
        for who, names in said:
            if who == "agent":
                log.hint(entry, names.split())
            else:
                log.correct(entry, names.split(), note="said so", source=Source(kind=who))
        found = {each.id: each for each in log.read()}
        assert (found[entry].right, found[entry].corrected_by) == (right, kind and Source(kind=kind))
        assert found[other].right is None
        assert [each.id for each in log.read(corrected=True)] == ([entry] if said else [])
        assert other in [each.id for each in log.read(corrected=False)]
        assert log.has(entry)
        assert not log.has("another")


@pytest.mark.parametrize(
    ("redact", "request_", "kept"),
    [
        pytest.param(None, "call 0151 23", "call 0151 23", id="as it is"),
        pytest.param(no_digits, "a 15", "a ##", id="redacted"),
        pytest.param(fails, "a secret", "", id="a redaction that fails keeps nothing"),
        pytest.param(nothing_of, "a secret", "", id="no texts"),
        pytest.param(None, "half \ud800 a pair", "half \ufffd a pair", id="what no file takes"),
        pytest.param(None, "x" * 9_000, "x" * 8_000, id="endless"),
    ],
)  # fmt: skip
def test_what_is_kept_of_a_text(path: Path, redact: Redact | None, request_: str, kept: str) -> None:
    with OutcomeLog(path, redact=redact) as log:
        log.correct(log.record(request_, DECIDED), ["track"], note=request_)
        (found,) = log.read()
    assert (found.request, found.note) == (kept, kept)
    assert kept == request_ or b"secret" not in path.read_bytes()


def test_the_oldest_and_what_is_too_old_is_let_go_of(path: Path) -> None:
    with OutcomeLog(path) as log:
        for number in range(50):
            log.correct(log.record(f"request {number}", DECIDED), ["track"])
    with sqlite3.connect(path) as database:
        database.execute("UPDATE entries SET at = at - 40 * 86400 WHERE n <= 30")
        database.execute("UPDATE feedback SET at = at - 40 * 86400 WHERE n <= 30")
    database.close()
    with OutcomeLog(path, keep_days=30, max_entries=10) as log:
        log.record("the newest", DECIDED)
        left = [each.request for each in log.read()]
    assert left == [*(f"request {number}" for number in range(41, 50)), "the newest"]
    with sqlite3.connect(path) as database:
        kept = database.execute("SELECT count(*) FROM feedback").fetchone()[0]
    database.close()
    assert kept == 20, "what was said within the hour may be of an entry that is still on its way"


def test_reading_is_narrowed(path: Path) -> None:
    with OutcomeLog(path) as log:
        for agent in ("a", "b", "a"):
            log.record("x", DECIDED, agent_id=agent)
        assert len(list(log.read(agent_id="a"))) == 2
        assert list(log.read(agent_id="c")) == []
        first, second = (each.at for each in log.read(agent_id="a"))
        assert [each.at for each in log.read(agent_id="a", last=1)] == [second]
        assert [each.at for each in log.read(agent_id="a", since=first)] == [first, second]
        assert [each.at for each in log.read(agent_id="a", since=second + 1e-3)] == []


def test_a_reader_is_not_disturbed_by_who_writes(path: Path) -> None:
    with OutcomeLog(path) as log, OutcomeLog(path) as beside:
        for number in range(10):
            (log if number % 2 else beside).record(f"{number}", DECIDED)
        beside.flush()
        reader = log.read()
        first = next(reader)
        log.record("later", DECIDED)
        log.flush()
        assert len([first, *reader]) == 10
        assert len(list(beside.read())) == 11


def test_many_threads_and_loops_record_at_once(path: Path) -> None:
    with OutcomeLog(path) as log:

        async def some(name: str) -> None:
            for number in range(100):
                log.record(f"{name} {number}", DECIDED)
                await asyncio.sleep(0)

        threads = [threading.Thread(target=asyncio.run, args=[some(f"t{number}")]) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = [each.id for each in log.read()]
    assert len(found) == len(set(found)) == 500


def test_what_cannot_be_written_costs_nothing_but_itself(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = OutcomeLog(path)
    log.record("kept", DECIDED)
    log.flush()
    path.write_bytes(b"not a database any more, and long enough to be taken for one" * 100)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert log.record("lost", DECIDED)
            log.flush()
        log.close()
        assert log.record("after the end", DECIDED) == ""
    assert 1 <= log.dropped <= 4
    assert sum("are not kept" in each.message for each in caplog.records) == 1


def test_a_correction_that_is_not_written_is_an_error(path: Path) -> None:
    log = OutcomeLog(path)
    log.close()
    with pytest.raises(OutcomeLogError, match="could not be written"):
        log.correct("x", ["refund"])


@pytest.mark.parametrize("number", ["0", "nan"], ids=["none", "no number"])
def test_a_decision_without_numbers_is_kept(path: Path, number: str) -> None:
    confidence = float(number)
    decided = Decision(tier=Tier.OPEN, reason=Reason.NONE, candidates=(Candidate(flow_id="1", confidence=confidence),))
    with OutcomeLog(path) as log:
        log.record("", decided)
        (found,) = log.read()
    assert found.candidates == ("1",)
    assert found.confidence in {0.0, None}
    assert not found.asked


def another_program(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE songs (name TEXT)")
    database.close()


def of_the_future(path: Path) -> None:
    OutcomeLog(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()


def a_diary(path: Path) -> None:
    path.write_text("dear diary " * 50)


def damaged(path: Path) -> None:
    with OutcomeLog(path) as log:
        for _ in range(200):
            log.record("x" * 500, DECIDED)
    whole = bytearray(path.read_bytes())
    whole[0:100] = b"\xff" * 100
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param(another_program, "a database of something else", id="another program's"),
        pytest.param(of_the_future, "version 99, and this jazz-select reads version 5", id="of another version"),
        pytest.param(damaged, "It was left as it is", id="damaged"),
        pytest.param(Path.mkdir, "in a folder that can be written", id="a folder"),
        pytest.param(a_diary, "It was left as it is", id="a text"),
    ],
)
def test_a_file_that_is_no_log_of_this_version_is_refused_and_left(
    tmp_path: Path, spoil: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "outcomes.db"
    spoil(path)
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(OutcomeLogError, match=said):
        OutcomeLog(path)
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("name", ["", ":memory:", "a\0b", "\ud800.db", b"a.db", 5, None], ids=repr)
def test_what_names_no_file_is_refused(name: str) -> None:
    for open_it in (OutcomeLog, OutcomeLog.existing):
        with pytest.raises(ConfigError, match=r"a file.*such as outcomes\.db"):
            open_it(name)


def test_a_log_to_read_has_to_be_there(path: Path) -> None:
    with pytest.raises(OutcomeLogError, match="it is not there"):
        OutcomeLog.existing(path)
    assert not path.exists()


@pytest.mark.parametrize("option", [{"keep_days": 0}, {"max_entries": -1}, {"max_entries": True}], ids=str)
def test_limits_that_make_no_sense_are_refused(path: Path, option: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(option))):
        making(path, **option)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_writes_its_own_lines_and_no_others(path: Path) -> None:
    with OutcomeLog(path) as log:
        log.record("of the parent", DECIDED)
        child = os.fork()
        if not child:
            log.record("of the child", DECIDED)
            os._exit(0 if log.flush() else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        assert sorted(each.request for each in log.read()) == ["of the child", "of the parent"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(st.tuples(st.integers(0, 3), st.lists(st.sampled_from("abc"), max_size=2, unique=True)), max_size=8)
)
def test_whatever_is_said_the_last_word_counts(
    tmp_path_factory: pytest.TempPathFactory, said: list[tuple[int, list[str]]]
) -> None:
    with OutcomeLog(tmp_path_factory.mktemp("log") / "outcomes.db") as log:
        ids = [log.record(f"{number}", DECIDED) for number in range(4)]
        for number, names in said:
            log.hint(ids[number], names)
        expected = {ids[number]: tuple(names) for number, names in said}
        assert {each.id: each.right for each in log.read(corrected=True)} == expected


def test_labels_for_whoever_looks_for_examples() -> None:
    base = Logged(id="1", at=0.0, request="q", chosen=("a",), candidates=("a", "b"), confidences=(0.5, 0.1))
    entries = [
        base,
        Logged(id="2", at=0.0, request="corrected", right=("b",), corrected_by=USER, chosen=("a",)),
        Logged(id="3", at=0.0, request="two", right=("a", "b"), corrected_by=USER),
        Logged(id="4", at=0.0, request="none", right=(), corrected_by=USER),
        Logged(id="5", at=0.0, request="gathered", right=("b",), corrected_by=Source(kind="agent"), chosen=("a",)),
        Logged(id="6", at=0.0, request="unknown", chosen=("a",), candidates=("a",), confidences=(None,)),
        Logged(id="7", at=0.0, request="and that", alone=False, chosen=("a",), candidates=("a",), confidences=(0.9,)),
    ]
    assert list(labels(entries)) == [(base, "a", 0.5), (entries[1], "b", 1.0)]


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(
    ("decision", "source"),
    [
        pytest.param(DECIDED, Source(kind="model", name="m", key="web"), id="a chat model"),
        pytest.param(
            Decision(tier=Tier.GUIDED, reason=Reason.DECIDER, model="d"),
            Source(kind="model", name="d", key="web"),
            id="a decision model",
        ),
        pytest.param(
            Decision(tier=Tier.GUIDED, reason=Reason.NONE, raw_reply="[]", model="m"),
            Source(kind="model", name="m", key="web"),
            id="a model that says that nothing fits",
        ),
        pytest.param(
            Decision(tier=Tier.GUIDED, reason=Reason.USER),
            Source(kind="user", name="c-1", key="web"),
            id="a user who was asked",
        ),
        *(
            pytest.param(Decision(tier=Tier.GUIDED, reason=each), Source(kind="recall", key="web"), id=each.value)
            for each in (Reason.CONFIDENT, Reason.SINGLE, Reason.SEMANTIC, Reason.ASK, Reason.NONE)
        ),
        pytest.param(
            Decision(tier=Tier.GUIDED, reason=Reason.FALLBACK_ERROR, error="down", model="m"),
            Source(kind="recall", key="web"),
            id="a model that failed",
        ),
    ],
)
def test_an_entry_keeps_who_chose(path: Path, decision: Decision, source: Source) -> None:
    with OutcomeLog(path) as log, calling_as(Caller(key="web", may_teach=False)), in_conversation("c-1"):
        entry = log.record("x", decision)
        kept = log.get(entry)
    assert kept is not None
    assert kept.chosen_by == source
    assert Logged.from_dict(kept.to_dict()) == kept


@pytest.mark.spec("016.3")
def test_the_last_word_of_each_source_is_kept(path: Path) -> None:
    ada, bob = Source(kind="person", name="ada"), Source(kind="person", name="bob")
    said = [(ada, "a"), (bob, "b"), (USER, "c"), (USER, "d"), (ada, "b"), (ada, "b"), (Source(kind="agent"), "a")]
    with OutcomeLog(path) as log:
        entry = log.record("x", DECIDED)
        for source, name in said:
            log.correct(entry, [name], source=source)
        kept = log.feedback(entry)
        assert [(each.source, each.right) for each in kept] == [
            (bob, ("b",)),
            (USER, ("d",)),
            (ada, ("b",)),
            (Source(kind="agent"), ("a",)),
        ]
        assert [Feedback.from_dict(each.to_dict()) for each in kept] == [*kept]
        (found,) = log.read()
        assert (found.right, found.corrected_by) == (("b",), ada)
        log.correct(entry, ["a"], source=bob)
        log.correct(entry, ["b"], source=ada)
        log.correct(entry, ["a"], source=bob)
        (found,) = log.read()
        assert (found.right, found.corrected_by) == (("a",), bob), "of two reviewers the last one counts"


NOTHING: list[str] = []
ADA, BOB = Source(kind="person", name="ada"), Source(kind="person", name="bob")


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(
    ("said", "right", "by"),
    [
        pytest.param([(USER, ["a"]), (USER, None)], None, USER, id="a user's own word"),
        pytest.param([(USER, ["a"]), (ADA, None)], None, ADA, id="a user's, by a reviewer"),
        pytest.param([(ADA, ["a"]), (BOB, None)], None, BOB, id="a reviewer's, by another one"),
        pytest.param([(ADA, ["a"]), (USER, None)], ("a",), ADA, id="not a reviewer's, by a user"),
        pytest.param([(ADA, None), (USER, ["a"])], None, ADA, id="a user does not say it again"),
        pytest.param([(ADA, None), (BOB, ["a"])], ("a",), BOB, id="a reviewer does"),
        pytest.param([(ADA, None), (BOB, NOTHING)], (), BOB, id="nothing fits is a word, too"),
    ],
)
def test_what_was_said_can_be_taken_back(
    path: Path, said: list[tuple[Source, list[str] | None]], right: tuple[str, ...] | None, by: Source
) -> None:
    with OutcomeLog(path) as log:
        entry = log.record("x", DECIDED)
        for source, names in said:
            log.correct(entry, names, source=source)
        (found,) = log.read()
        last = max(log.feedback(entry), key=lambda each: (each.source.weight, each.at))
    assert (found.right, found.corrected_by) == (right, by)
    assert (found.is_taken_back, found.is_corrected_by_human) == (right is None, right is not None)
    assert found.corrected_at == last.at
    assert Feedback.from_dict(last.to_dict()) == last


@pytest.mark.spec("013.3")
def test_feedback_that_is_repeated_does_not_grow_the_file(path: Path) -> None:
    with OutcomeLog(path) as log:
        entry = log.record("x", DECIDED)
        for number in range(300):
            log.hint(entry, ["a" * 200] * 90, note=f"{number % 2}" * 8_000, source=USER)
            log.hint(entry, ["a"], note="the same")
        log.flush()
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT count(*) FROM feedback").fetchone() == (2,)
    database.close()
    assert path.stat().st_size < 500_000, "300 times 26 kB were said"


def test_ids_say_nothing_of_other_ids(path: Path) -> None:
    with OutcomeLog(path) as log:
        ids = [log.record("x", DECIDED) for _ in range(200)]
    assert {len(each) for each in ids} == {32}
    assert len({each[:8] for each in ids}) == 200, "no common beginning"


def test_a_correction_names_no_more_flows_than_are_kept(path: Path) -> None:
    with OutcomeLog(path) as log:
        entry = log.record("x", DECIDED)
        with pytest.raises(ConfigError, match="at most 100 names of flows, got 101"):
            log.correct(entry, ["a"] * 101)
        assert log.feedback(entry) == ()


# --- files of others ---------------------------------------------------------------

_ENDLESS = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c)"
_ROW = "'x' || i AS id, 1.0 AS at, 'shop' AS agent, 'r' AS request, 1 AS alone, '[]' AS chosen, '[]' AS candidates, \
'[]' AS confidences, NULL AS p_none, '' AS reason, '' AS tier, 0 AS asked, 0 AS sure, '' AS model, 0 AS tokens_in, \
0 AS tokens_out, 0.0 AS took_s, 'recall' AS source_kind, '' AS source_name, '' AS key"
_SAID = "'x' AS entry, 1.0 AS at, '[]' AS \"right\", '' AS note, 'user' AS source_kind, '' AS source_name, '' AS key"
_OF_FEEDBACK = 'n, entry, at, "right", note, source_kind, source_name, key'
_ENTRIES = f"{_ENDLESS} SELECT i AS n, {_ROW} FROM c;"  # noqa: S608 - our own text
_FEEDBACK = f"{_ENDLESS} SELECT i AS n, {_SAID} FROM c;"  # noqa: S608 - likewise
_COMPUTED = "ALTER TABLE entries ADD COLUMN reason TEXT AS (hex(zeroblob(500000000)));"
GIVEN = {
    "a view of entries without end": (
        f"DROP TABLE entries; CREATE VIEW entries AS {_ENTRIES}",
        "its entries must be a table, got a view",
    ),
    "a view of feedback without end": (
        f"DROP TABLE feedback; CREATE VIEW feedback AS {_FEEDBACK}",
        "its feedback must be a table, got a view",
    ),
    "a virtual table": (
        f"DROP TABLE feedback; CREATE VIRTUAL TABLE feedback USING fts5({_OF_FEEDBACK});",
        "its feedback must be a table, got a virtual table",
    ),
    "no table": ("DROP TABLE feedback;", "its feedback must be a table, got nothing"),
    "a missing column": ("ALTER TABLE entries RENAME COLUMN took_s TO took;", "has no column took_s"),
    "a computed column": (
        f"ALTER TABLE entries RENAME COLUMN reason TO before; {_COMPUTED}",
        "the column reason of its table entries must be stored",
    ),
    "a trigger": (
        f"CREATE TRIGGER late AFTER INSERT ON entries BEGIN INSERT INTO feedback {_FEEDBACK} END;",
        "its trigger 'late' runs with each row",
    ),
}


def changed(path: Path, sql: str, rows: int = 0) -> Path:
    with OutcomeLog(path) as log:
        for _ in range(rows):
            log.record("r", DECIDED, agent_id="shop", chosen=["refund"])
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.executescript(sql)
    return path


@pytest.mark.spec("013.1")
@pytest.mark.parametrize(("sql", "problem"), GIVEN.values(), ids=GIVEN)
def test_a_log_that_somebody_gives_is_plain_tables(path: Path, sql: str, problem: str) -> None:
    changed(path, sql)
    for opened in (OutcomeLog, OutcomeLog.existing):
        with pytest.raises(OutcomeLogError, match=problem) as raised:
            opened(path)
        assert "name another" in str(raised.value)


@pytest.mark.spec("013.1")
def test_a_view_that_takes_the_place_of_a_table_later_is_refused_too(path: Path) -> None:
    with OutcomeLog(path) as log:
        log.record("r", DECIDED, agent_id="shop")
        assert len(list(log.read())) == 1
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.executescript(GIVEN["a view of entries without end"][0])
        for reads in (lambda: list(log.read()), log.agents, lambda: log.has("x")):
            with pytest.raises(OutcomeLogError, match="must be a table, got a view"):
                reads()


@pytest.mark.spec("013.1")
def test_pages_that_repeat_a_few_rows_are_read_for_so_many_steps(path: Path) -> None:
    """All children of an inner page are one page, at three levels: a small file of a hundred million rows."""
    changed(path, "VACUUM; PRAGMA journal_mode = DELETE;", rows=3_000)
    with closing(sqlite3.connect(path)) as database:
        size: int = database.execute("PRAGMA page_size").fetchone()[0]
        root: int = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'entries'").fetchone()[0]
    content = bytearray(path.read_bytes())

    def children(page: int) -> list[int]:
        """Where the numbers of an inner page's children stand."""
        start = (page - 1) * size
        assert content[start] == 5, "an inner page of a table"
        count = int.from_bytes(content[start + 3 : start + 5], "big")
        cells = (content[start + 12 + 2 * each : start + 14 + 2 * each] for each in range(count))
        return [start + 8, *(start + int.from_bytes(cell, "big") for cell in cells)]

    below = [int.from_bytes(content[place : place + 4], "big") for place in children(root)]
    levels = [root, *below[:3]]
    for inner in levels[1:-1]:
        content[(inner - 1) * size : inner * size] = content[(root - 1) * size : root * size]
    for inner, child in pairwise(levels):
        for place in children(inner):
            content[place : place + 4] = child.to_bytes(4, "big")
    path.write_bytes(content)
    assert len(content) < 2_000_000
    with pytest.raises(OutcomeLogError, match="more steps to read than a log of its size can need"):
        OutcomeLog.existing(path).agents()


@pytest.mark.spec("013.1")
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("request", b"\xff"),
        ("at", "yesterday"),
        ("alone", "yes"),
        ("chosen", "7"),
        ("chosen", "[1]"),
        ("candidates", '[["x"]]'),
        ("confidences", '["x"]'),
        ("tokens_in", 1.5),
        ("source_kind", "somebody"),
        ("chosen", "[" * 100_000),
    ],
)
def test_values_of_other_kinds_are_named(path: Path, column: str, value: object) -> None:
    changed(path, "", rows=1)
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"UPDATE entries SET {column} = ?", (value,))  # noqa: S608 - names of ours
    with pytest.raises(OutcomeLogError, match=r"ValueError|JSONDecodeError"):
        list(OutcomeLog.existing(path).read())


_BAD_ROWS = {
    "no candidates": "UPDATE entries SET sure = 1, candidates = '[]'",
    "no confidences": "UPDATE entries SET sure = 1, confidences = '[]'",
    "choices that are no list": "UPDATE entries SET sure = 1, source_kind = 'model', chosen = '{}'",
    "a kind of move": "UPDATE moves SET kind = 'zzz'",
    "a threshold in words": "UPDATE moves SET threshold = 'high'",
}


@pytest.mark.spec("013.1")
@pytest.mark.parametrize("sql", _BAD_ROWS.values(), ids=_BAD_ROWS)
def test_a_row_that_an_audit_cannot_read_is_an_error_of_the_log(path: Path, sql: str) -> None:
    with OutcomeLog(path) as log:
        log.record("r", DECIDED, agent_id="shop", chosen=["refund"], sure=True)
        log.keep_move("shop", Move(at=1.0, kind="raised", flow="refund", threshold=0.9, promise=0.01))
        reads = log.moves if "UPDATE moves" in sql else partial(log.recall_answers, last=9, least=0.0, among=9)
        assert len(reads("shop")) == 1
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute(sql)
        with pytest.raises(OutcomeLogError, match=r"ValueError|JSONDecodeError"):
            reads("shop")


@pytest.mark.spec("013.1")
def test_a_text_of_megabytes_in_a_log_is_not_read(path: Path) -> None:
    changed(path, "UPDATE entries SET request = hex(zeroblob(3000000));", rows=1)
    with pytest.raises(OutcomeLogError, match="too big"):
        list(OutcomeLog.existing(path).read())


def test_a_large_log_takes_fewer_steps_than_it_may(path: Path) -> None:
    with OutcomeLog(path) as log:
        for number in range(3_000):
            entry = log.record("x", DECIDED, agent_id=f"shop{number % 7}", chosen=["refund"])
            log.hint(entry, ["track"])
        assert len(list(log.read())) == 3_000
        assert len(list(log.read(agent_id="shop1", corrected=True, last=100))) == 100
        assert sum(log.agents(corrected=True).values()) == 3_000
