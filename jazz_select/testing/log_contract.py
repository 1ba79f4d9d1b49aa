"""The contract of a store of logs, for an adapter's own tests: what is written comes back, and nothing counts twice."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jazz_select.outcomes.entries import Feedback
from jazz_select.outcomes.store import EntryFilter, LogLine, LogStore, Retention
from jazz_select.stages import Move
from jazz_select.testing.contracts import require
from jazz_select.values import Source

_DAY_S: Final = 86_400.0
_HOSTILE: Final = "'; DROP TABLE entries; -- %s {} ? 你好 🎷 \\ \u2028 \x00"
_MOVE: Final = Move(
    at=5.0, kind="raised", flow="refund", threshold=0.9, promise=0.01, measured=None, requests=7, why="2 of 7 differed"
)


def check_log_store(store: LogStore, other: LogStore) -> None:
    """Check that an empty store keeps one log as the port says, and that another log has nothing of it.

    Raises:
        AssertionError: It does not; the message says in what.
    """
    require(bool(store.name), "a store must have a name, which messages call it")
    _check_entries(store)
    _check_feedback(store)
    _check_moves(store)
    _check_answers(store)
    _check_lines(store)
    _check_retention(store)
    require(list(other.entries(EntryFilter())) == [], "another log has entries of this one")
    require(other.entry("one") is None, "another log knows an entry of this one")
    require(other.feedback("one") == (), "another log has feedback of this one")
    require(other.moves("shop") == (), "another log has moves of this one")
    require(dict(other.agents(corrected=False)) == {}, "another log counts entries of this one")
    store.close()
    store.close()


def entry_line(  # noqa: PLR0913 - columns with a name
    entry: str,
    at: float,
    *,
    agent: str = "shop",
    request: str = "my money back",
    chosen: str = '["refund"]',
    confidence: str = "[0.75,null]",
    asked: bool = True,
    sure: bool = False,
    key: str = "key-1",
    kind: str = "model",
) -> LogLine:
    """Return the line of an entry."""
    candidates = '["refund","track"]'
    what = (request, True, chosen, candidates, confidence, 0.25, "llm", "guided", asked, sure, "m", 70, 5, 0.5)
    return LogLine("entry", (entry, at, agent, *what, kind, "m", key))


def feedback_line(
    entry: str, right: str, *, kind: str = "user", name: str = "c", key: str = "", at: float = 2.0
) -> LogLine:
    """Return the line of feedback."""
    return LogLine("feedback", (entry, at, right, "a note", kind, name, key))


def move_line(move: Move, following: int | None, agent: str = "shop") -> LogLine:
    """Return the line of a move."""
    values = (move.at, move.kind, move.flow, move.threshold, move.promise, move.measured, move.requests, move.why)
    return LogLine("move", (agent, following, *values))


def _ids(store: LogStore, which: EntryFilter) -> list[str]:
    return [each.id for each in store.entries(which)]


def _write(store: LogStore, *lines: LogLine) -> None:
    problems = store.write(lines, None)
    require(not problems, f"lines that can be written were not: {list(problems)}")


def _check_entries(store: LogStore) -> None:
    _write(store, entry_line("one", 100.0), entry_line("two", 200.0, agent="clinic", key="key-2", asked=False))
    _write(store, entry_line("one", 100.0))  # the same line again, as after a connection that broke
    require(_ids(store, EntryFilter()) == ["one", "two"], "entries must come back once each, the oldest first")
    found = store.entry("one")
    require(found is not None, "an entry that was written is not found by its id")
    assert found is not None
    require(
        (found.request, found.chosen, found.candidates) == ("my money back", ("refund",), ("refund", "track")),
        "texts and lists came back otherwise",
    )
    require(
        (found.confidences, found.p_none, found.asked, found.sure) == ((0.75, None), 0.25, True, False),
        "numbers came back otherwise",
    )
    require(found.chosen_by == Source(kind="model", name="m", key="key-1"), "the source came back otherwise")
    require(store.entry("three") is None, "an entry that was never written is found")
    filters: dict[str, tuple[EntryFilter, list[str]]] = {
        "agent_id": (EntryFilter(agent_id="clinic"), ["two"]),
        "since": (EntryFilter(since=150.0), ["two"]),
        "key": (EntryFilter(key="key-1"), ["one"]),
        "last": (EntryFilter(last=1), ["two"]),
        "last of an agent": (EntryFilter(last=1, agent_id="shop"), ["one"]),
        "corrected": (EntryFilter(corrected=True), []),
        "not corrected": (EntryFilter(corrected=False), ["one", "two"]),
    }
    for name, (which, expected) in filters.items():
        require(_ids(store, which) == expected, f"a filter by {name} must leave {expected}, got {_ids(store, which)}")
    require(dict(store.agents(corrected=False)) == {"shop": 1, "clinic": 1}, "agents are counted otherwise")
    require(store.count("shop", 0.0) == Counter({("llm", True): 1}), "reasons are counted otherwise")
    require(store.count("shop", 150.0) == Counter(), "entries before a time are counted")
    require(store.chosen("shop", 0.0) == Counter({"refund": 1}), "chosen flows are counted otherwise")


def _check_feedback(store: LogStore) -> None:
    user, person = Source(kind="user", name="c"), Source(kind="person", name="ada")
    _write(store, feedback_line("one", '["track"]'))
    _write(store, feedback_line("one", '["refund"]', at=3.0), feedback_line("one", '["refund"]', at=4.0))
    said = store.feedback("one")
    require(
        said == (Feedback(at=3.0, source=user, right=("refund",), note="a note"),),
        "of one source the last word must be kept, and the same word again must change nothing",
    )
    _write(store, feedback_line("one", "[]", kind="person", name="ada"), feedback_line("one", '["refund"]', at=5.0))
    found = store.entry("one")
    require(
        found is not None and found.right == () and found.corrected_by == person,
        "the word of a person must outweigh that of a user",
    )
    _write(store, feedback_line("one", '["track"]', kind="person", name="bob"))
    require(len(store.feedback("one")) == 3, "two persons are two sources")
    _write(store, feedback_line("one", "null", kind="person", name="bob", at=6.0))
    found = store.entry("one")
    require(
        found is not None and found.right is None and found.is_taken_back,
        "what was taken back must count as no correction",
    )
    require(_ids(store, EntryFilter(corrected=True)) == ["one"], "an entry with feedback is not found as corrected")
    require(dict(store.agents(corrected=True)) == {"shop": 1}, "corrected entries are counted otherwise")
    _write(store, feedback_line("later", '["track"]'), entry_line("later", 300.0, agent="late"))
    later = store.entry("later")
    require(later is not None and later.right == ("track",), "feedback that is written before its entry is lost")


def _check_moves(store: LogStore) -> None:
    _write(store, move_line(_MOVE, 0), move_line(replace(_MOVE, at=6.0), 0))
    moves = store.moves("shop")
    require(len(moves) == 1, "of two that measured the same, both wrote a move")
    require(replace(moves[0], after=0) == _MOVE, "a move came back otherwise")
    require(moves[0].after > 0, "a move must be after the entries so far")
    _write(store, move_line(replace(_MOVE, at=7.0, kind="fitted", flow=""), None))
    require(
        [each.kind for each in store.moves("shop")] == ["raised", "fitted"],
        "a move that follows from nothing must be written",
    )
    require(store.moves("clinic") == (), "another agent has moves of this one")


def _check_answers(store: LogStore) -> None:
    sure = entry_line("sure", 400.0, agent="audited", sure=True, confidence="[0.99]")
    alone = entry_line("alone", 401.0, agent="audited", sure=True, asked=False, kind="recall", confidence="[0.98]")
    nearly = entry_line("nearly", 402.0, agent="audited", chosen='["track"]', confidence="[0.9]")
    far = entry_line("far", 403.0, agent="audited", confidence="[0.2]")
    _write(store, sure, alone, nearly, far, feedback_line("alone", '["track"]', kind="person", name="ada"))
    answers = store.recall_answers("audited", last=10, least=0.5, among=100)
    found = [(each.confidence, each.sure, each.asked, each.differs) for each in answers]
    expected = [(0.99, True, True, False), (0.98, True, False, True), (0.9, False, True, True)]
    require(found == expected, f"what became of recall's answers must be {expected}, got {found}")
    require(
        [each.n for each in answers] == sorted(each.n for each in answers), "answers must be in the order of the log"
    )
    newest = store.recall_answers("audited", last=1, least=0.5, among=1)
    require(
        [each.confidence for each in newest] == [0.98],
        "of sure answers the newest count, and others among the newest entries",
    )


def _check_lines(store: LogStore) -> None:
    broken = LogLine("entry", ("broken", None, *entry_line("broken", 1.0).values[2:]))
    problems = store.write([entry_line("before", 500.0), broken, entry_line("after", 501.0, request=_HOSTILE)], None)
    require(len(problems) == 1, f"one line cannot be written, and {len(problems)} were not")
    after = store.entry("after")
    require(store.entry("before") is not None and after is not None, "a line that cannot be written cost another one")
    assert after is not None
    require(after.request.startswith(_HOSTILE[:-1]), "a text came back otherwise")
    require(store.entry("broken") is None, "a line that cannot be written was written in part")


def _check_retention(store: LogStore) -> None:
    ids: Sequence[str] = _ids(store, EntryFilter())
    _write(store, entry_line("last", 600.0))
    store.write([], Retention(max_entries=2))
    kept = _ids(store, EntryFilter())
    require(kept == [ids[-1], "last"], f"of more entries than {2} the oldest must go, got {kept}")
    store.write([], Retention(keep_s=_DAY_S))
    require(_ids(store, EntryFilter()) == [], "entries that are too old must go")
    require(store.feedback("one") == (), "feedback must go with its entry")
