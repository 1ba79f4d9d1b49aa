"""The audit: which answers are asked all the same, when a promise is broken, and when a threshold comes down again."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from jazz_select.outcomes import OutcomeLog, Source
from jazz_select.outcomes.audit import Audit, audit_of, chance_share, is_audited, is_overdue
from jazz_select.stages import Move
from jazz_select.values import Candidate, Decision, Reason, Tier

ADA = Source(kind="person", name="ada")
PROMISE = 0.01


@pytest.fixture
def log(tmp_path: Path) -> OutcomeLog:
    return OutcomeLog(tmp_path / "outcomes.db")


def kept(
    log: OutcomeLog,
    flow: str = "track",
    chosen: str = "",
    *,
    alone: bool = False,
    sure: float = 0.9,
    is_sure: bool = True,
    opens: bool = True,
) -> str:
    """Keep an entry with a first flow of recall; a model chose another one, the same, or was not asked."""
    decision = Decision(
        tier=Tier.DETERMINISTIC if alone else Tier.GUIDED,
        reason=Reason.CONFIDENT if alone else Reason.LLM,
        candidates=(Candidate(flow_id=flow, flow_name=flow, confidence=sure),),
        attempts=0 if alone else 1,
    )
    chosen_names = (chosen or flow).split()
    return log.record("text", decision, agent_id="shop", chosen=chosen_names, alone=opens, sure=is_sure)


def measured(log: OutcomeLog, promise: float | None = PROMISE) -> tuple[Audit, tuple[Move, ...]]:
    return audit_of(log, "shop", lambda _: promise, keeps=True)


@pytest.mark.spec("016.4")
def test_the_share_is_exact_and_decided_by_request_and_entry() -> None:
    entries = [f"{number:032x}" for number in range(10_000)]
    taken = {share: {each for each in entries if is_audited("where is it", each, share)} for share in (0.01, 0.02, 1.0)}
    assert [len(each) for each in taken.values()] == [93, 190, 10_000]
    assert taken[0.01] < taken[0.02]
    assert {each for each in entries if is_audited("where is it", each, 0.02)} == taken[0.02], "the same again"
    assert {each for each in entries if is_audited("refund me", each, 0.02)} != taken[0.02], "the request matters"


@pytest.mark.spec("016.4")
@pytest.mark.parametrize(
    ("share", "by_chance", "in_a_row"),
    [(1.0, 0.5, 1), (0.1, 0.05, 5), (0.02, 0.01, 25), (0.01, 0.01, 50)],
    ids=["all", "one in ten", "the usual share", "the least"],
)
def test_half_of_the_share_is_by_chance_and_half_by_flow(share: float, by_chance: float, in_a_row: int) -> None:
    assert chance_share(share) == by_chance
    assert next(count for count in range(1, 100) if is_overdue(count - 1, share)) == in_a_row


@pytest.mark.spec("016.4")
def test_answers_without_a_model_are_counted_by_flow_until_one_is_asked(log: OutcomeLog) -> None:
    for flow, count in (("track", 3), ("pay", 5), ("refund", 2)):
        for _ in range(count):
            kept(log, flow, alone=True)
    kept(log, "pay")
    kept(log, "refund", sure=0.8, is_sure=False)
    kept(log, "track", sure=0.6, is_sure=False)
    kept(log, "pay", alone=True)
    audit, _ = measured(log)
    assert audit.silent == {"track": 3, "pay": 1}
    assert Audit.from_dict(audit.to_dict()) == audit


@dataclass(frozen=True)
class Counted:
    """Audited answers with flow `track` by whether they differ, answers alone by whether they were corrected."""

    agreed: int = 0
    differed: int = 0
    alone: int = 0
    corrected: int = 0
    others: int = 0
    raised: Sequence[str] = field(default_factory=list[str])


CASES = {
    "nothing": Counted(),
    "all agree": Counted(agreed=40),
    "one differs, which may be chance": Counted(agreed=9, differed=1),
    "two of ten differ": Counted(agreed=8, differed=2, raised=["track"]),
    "two of thirty differ, too few to say it of one flow among many": Counted(agreed=28, differed=2, raised=[""]),
    "two of two hundred differ, as promised": Counted(agreed=198, differed=2),
    "two differ among many others that agree": Counted(agreed=20, differed=2, others=300),
    "two corrections of ten alone": Counted(alone=8, corrected=2, raised=["track"]),
    "two corrections of four hundred alone": Counted(alone=398, corrected=2),
}


@pytest.mark.spec("016.4")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_promise_is_broken_by_more_than_chance(log: OutcomeLog, case: Counted) -> None:
    for flow, chosen, count in (
        ("track", "", case.agreed),
        ("track", "refund", case.differed),
        ("pay", "", case.others),
    ):
        for _ in range(count):
            kept(log, flow, chosen)
    for _ in range(case.alone):
        kept(log, alone=True)
    for _ in range(case.corrected):
        log.correct(kept(log, alone=True), ["refund"], source=ADA)
    audit, due = measured(log)
    assert [each.flow for each in due] == case.raised
    assert all(each.kind == "raised" and each.threshold == pytest.approx(0.9001) for each in due)
    whole = audit.whole
    assert (whole.audited, whole.differed) == (case.agreed + case.differed + case.others, case.differed)
    assert (whole.alone, whole.corrected) == (case.alone + case.corrected, case.corrected)
    assert measured(log)[1] == (), "what was told once is not told again"
    assert log.moves("shop") == audit.moves or [each.kind for each in log.moves("shop")] == ["raised"] * len(due)


@pytest.mark.spec("016.4")
def test_a_persons_word_counts_before_the_models(log: OutcomeLog) -> None:
    for _ in range(3):
        log.correct(kept(log, chosen="refund"), ["track"], source=ADA)
    audit, due = measured(log)
    assert (audit.whole.audited, audit.whole.differed, due) == (3, 0, ())
    users = [kept(log, alone=True) for _ in range(5)]
    for entry in users:
        log.correct(entry, ["refund"], source=Source(kind="user", key="mallory"))
    audit, due = measured(log)
    assert (audit.whole.corrected, due) == (0, ()), "a user's word is a hint, and no measure"


@pytest.mark.spec("016.4")
def test_a_threshold_rises_for_all_processes_and_comes_down_only_on_evidence(log: OutcomeLog) -> None:
    for _ in range(2):
        kept(log, chosen="refund", sure=0.97)
    audit, (rise,) = measured(log)
    assert audit.threshold("track") == pytest.approx(0.9701)
    assert (rise.promise, rise.measured, rise.requests) == (PROMISE, 1.0, 2)
    assert "2 of 2 answers" in rise.why
    other = OutcomeLog(log.path)
    assert measured(other)[0].threshold("track") == pytest.approx(0.9701), "another process reads it there"
    assert measured(other)[0].threshold("pay") == 0.0, "of the others nothing was wrong"
    for _ in range(99):
        kept(log)
    assert measured(log)[0].threshold("track") == pytest.approx(0.9701), "99 are no evidence for one in a hundred"
    kept(log)
    audit, (fall,) = measured(log)
    assert (audit.threshold("track"), fall.kind, fall.requests, fall.measured) == (0.0, "lowered", 100, 0.0)
    assert [each.kind for each in log.moves("shop")] == ["raised", "lowered"]
    assert "was raised" not in str(audit)


class MeasuredBetween(OutcomeLog):
    """A log in which another process measures after this one has read it, and before it writes."""

    audits: Sequence[Audit] = ()

    def moves(self, agent_id: str) -> tuple[Move, ...]:
        found = super().moves(agent_id)
        if not self.audits:
            self.audits = (measured(OutcomeLog(self.path))[0],)
        return found


@pytest.mark.spec("016.4")
def test_a_threshold_moves_once_however_many_measure_at_once(log: OutcomeLog) -> None:
    for _ in range(2):
        kept(log, chosen="refund", sure=0.97)
    log.flush()
    audit, due = measured(MeasuredBetween(log.path))
    assert due == (), "the other one has told of it"
    assert [(each.kind, each.flow) for each in log.moves("shop")] == [("raised", "track")]
    assert audit.threshold("track") == pytest.approx(0.9701)
    for _ in range(100):
        kept(log)
    log.flush()
    audit, due = measured(MeasuredBetween(log.path))
    assert (due, audit.threshold("track")) == ((), 0.0)
    assert [each.kind for each in log.moves("shop")] == ["raised", "lowered"]


def test_a_move_by_what_was_before_a_fit_is_not_kept(log: OutcomeLog) -> None:
    before = log.moves("shop")
    log.keep_move("shop", FIT)
    rise = Move(at=2.0, kind="raised", flow="track", threshold=0.9, promise=PROMISE)
    log.keep_move("shop", rise, following=before)
    assert [each.kind for each in log.moves("shop")] == ["fitted"]
    log.keep_move("shop", rise, following=log.moves("shop"))
    log.keep_move("shop", replace(rise, flow="pay"), following=log.moves("shop"))
    assert [each.flow for each in log.moves("shop")] == ["", "track", "pay"]


class Full(OutcomeLog):
    """A log on a full disk, as far as moves are concerned."""

    def keep_move(self, agent_id: str, move: Move, *, following: Sequence[Move] | None = None) -> None:
        del agent_id, move, following


def test_a_move_that_cannot_be_written_counts_in_this_process(log: OutcomeLog) -> None:
    for _ in range(2):
        kept(log, chosen="refund", sure=0.97)
    log.flush()
    audit, due = measured(Full(log.path))
    assert [each.kind for each in due] == ["raised"]
    assert audit.threshold("track") == pytest.approx(0.9701)
    assert log.moves("shop") == ()


def test_a_threshold_stays_where_it_is_while_models_differ(log: OutcomeLog) -> None:
    for _ in range(2):
        kept(log, chosen="refund", sure=0.97)
    measured(log)
    for _ in range(100):
        kept(log)
    for _ in range(2):
        kept(log, chosen="refund")
    assert measured(log)[1] == ()


def test_a_fit_begins_a_new_measure_and_lowers_nothing(log: OutcomeLog) -> None:
    for _ in range(2):
        kept(log, chosen="refund")
    measured(log)
    log.keep_move("shop", Move(at=1.0, kind="fitted", threshold=0.8, promise=PROMISE, requests=500, why="a sync"))
    audit, due = measured(log)
    assert (audit.whole.audited, due) == (0, ())
    assert audit.threshold("track") > 0.9
    assert [each.kind for each in audit.moves] == ["raised", "fitted"]


FIT = Move(at=1.0, kind="fitted", threshold=0.8, promise=PROMISE, requests=500, why="a sync")


@pytest.mark.spec("016.4")
@pytest.mark.parametrize("every", [50, 99, 399])
def test_fits_do_not_restart_the_count_that_lowers_a_threshold(log: OutcomeLog, every: int) -> None:
    for _ in range(2):
        kept(log, chosen="refund", sure=0.97)
    measured(log)
    for number in range(399):
        kept(log)
        if number % every == every - 1:
            log.keep_move("shop", FIT)
    audit, (fall,) = measured(log)
    assert (fall.kind, fall.flow, fall.requests) == ("lowered", "track", 399)
    assert audit.threshold("track") == 0.0
    assert measured(log)[1] == (), "it begins anew"


def test_without_a_budget_nothing_is_promised(log: OutcomeLog) -> None:
    for _ in range(9):
        kept(log, chosen="refund")
    audit, due = measured(log, None)
    assert (audit.promise, due) == (None, ())
    assert "nothing is promised" in str(audit)
    assert "no answer was audited yet" in str(Audit(promise=PROMISE))


Answers = Sequence[tuple[float, bool]]
"""Confidence of recall, and whether the model that was asked differs."""


SUSPECTED: dict[str, tuple[Answers, Answers, bool]] = {
    "nobody differs": ([(0.8, False)] * 9, [(0.95, False)], False),
    "one differs where recall was less sure": ([(0.94, True)], [], False),
    "one differs where recall was nearly sure": ([(0.96, True)], [], True),
    "two differ where it was less sure": ([(0.8, True), (0.8, True)], [], True),
    "one differs below what counts": ([(0.69, True)] * 9, [], False),
    "one differs in an audit": ([], [(0.99, True)], True),
    "one differs, two audits agree": ([(0.96, True)], [(0.99, False)] * 2, False),
    "many differ, one audit agrees": ([(0.85, True)] * 20, [(0.99, False)], True),
    "many differ, three audits agree": ([(0.85, True)] * 20, [(0.99, False)] * 3, False),
    "many agreed before one differs": ([(0.85, False)] * 50, [(0.99, True)], True),
}


@pytest.mark.spec("016.4")
@pytest.mark.parametrize(("unsure", "audited", "expected"), SUSPECTED.values(), ids=SUSPECTED.keys())
def test_a_flow_is_suspected_while_models_differ_more_than_confidence_explains(
    log: OutcomeLog, unsure: Answers, audited: Answers, *, expected: bool
) -> None:
    kept(log, "pay")
    for confidence, differs in unsure:
        kept(log, chosen="refund" if differs else "", sure=confidence, is_sure=False)
    for confidence, differs in audited:
        kept(log, chosen="refund" if differs else "", sure=confidence)
    audit, due = measured(log)
    assert audit.suspected == (("track",) if expected else ())
    assert ("models differ about track" in str(audit)) is expected
    assert due == (), "a suspicion has answers asked, and moves no threshold"
    assert measured(OutcomeLog(log.path))[0].suspected == audit.suspected, "another process reads it there"


NO_SUSPICION = {
    "the model names the flow among several": {"chosen": "track refund"},
    "it goes on a conversation": {"chosen": "refund", "opens": False},
    "nobody was asked": {"chosen": "refund", "alone": True},
}


@pytest.mark.parametrize("options", NO_SUSPICION.values(), ids=NO_SUSPICION.keys())
def test_what_says_nothing_of_a_flow_raises_no_suspicion(log: OutcomeLog, options: dict[str, Any]) -> None:
    kept(log, "pay")
    for _ in range(5):
        kept(log, sure=0.9, is_sure=False, **options)
    assert measured(log)[0].suspected == ()


def test_what_came_before_recall_learned_raises_no_suspicion(log: OutcomeLog) -> None:
    for _ in range(5):
        kept(log, chosen="refund", sure=0.9, is_sure=False)
    assert measured(log)[0].suspected == ()
    kept(log, "pay")
    assert measured(log)[0].suspected == ()
    kept(log, chosen="refund", sure=0.97, is_sure=False)
    assert measured(log)[0].suspected == ("track",)


def test_a_person_who_corrects_what_was_decided_alone_raises_suspicion(log: OutcomeLog) -> None:
    log.correct(kept(log, alone=True, sure=0.99), ["refund"], source=ADA)
    assert measured(log)[0].suspected == ("track",)


def test_an_audit_travels_as_data(log: OutcomeLog) -> None:
    kept(log, chosen="refund")
    audit, _ = measured(log)
    assert Audit.from_dict(audit.to_dict()) == audit
