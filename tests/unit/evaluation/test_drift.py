"""Drift: the last days of a log against the days before, and what is worth an alarm."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import FlowRegistry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import drift
from jazz_select.evaluation.drifting import DAY_S, Share
from jazz_select.outcomes import Logged
from jazz_select.outcomes.audit import Audit, Measured
from jazz_select.stages import Move
from jazz_select.testing import HashEmbedder
from tests.unit.evaluation.conftest import Entry

NOW = 100 * DAY_S
JOKES = [
    "tell me a joke",
    "tell me a joke please",
    "a joke please",
    "tell a joke",
    "one more joke please",
    "a joke now",
]


def some(
    entry: Entry, count: int, day: float, flow: str = "refund", sure: float | None = 0.8, **known: object
) -> list[Logged]:
    dice = random.Random(f"{count} {day} {flow}")
    return [
        entry(
            f"{flow} {number}",
            known.get("right"),
            at=NOW - day * DAY_S - number,
            candidates=(flow, "track"),
            chosen=known.get("chosen", (flow,)),
            confidences=(None if sure is None else min(1.0, sure + dice.uniform(-0.05, 0.05)), 0.1),
            p_none=known.get("p_none", 0.012),
            asked=known.get("asked", False),
            reason=known.get("reason", "semantic"),
        )
        for number in range(count)
    ]


@pytest.mark.spec("007.6")
async def test_windows_count_what_happened(small_shop: FlowRegistry, entry: Entry) -> None:
    entries = [
        *some(entry, 100, 30),
        *some(entry, 40, 10, asked=True),
        *some(entry, 30, 2),
        *some(entry, 10, 2, asked=True),
        *some(entry, 5, 1, flow="track", chosen=()),
        *some(entry, 4, 1, right=("refund",)),
        *some(entry, 1, 1, right=("track",)),
    ]
    found = await drift(entries, small_shop, days=7, until=NOW, embedder=HashEmbedder())
    assert (found.now.requests, found.before.requests) == (50, 40)
    assert (found.now.asked.count, found.before.asked.count) == (10, 40)
    assert found.now.none.count == 5
    assert found.now.accuracy.observed.count == 4
    assert found.now.accuracy.observed.of == 5
    assert found.now.accuracy.expected == pytest.approx(0.8, abs=0.03)
    by_name = {each.flow: each for each in found.flows}
    assert by_name["refund"].now.requests == 45
    assert found.silent == ("address", "invoice")
    assert found.alarms == ()
    assert found.to_dict()["now"]["asked"]["share"] == 0.2


@pytest.mark.spec("007.6")
@pytest.mark.parametrize(
    ("before", "now", "kind", "subject"),
    [
        pytest.param({}, {"asked": True}, "asked", "", id="a model is asked more often"),
        pytest.param({}, {"chosen": ()}, "none", "", id="nothing is chosen more often"),
        pytest.param({"sure": 0.9}, {"sure": 0.6}, "accuracy", "refund", id="a flow is less sure"),
        pytest.param({"flow": "invoice"}, {}, "silent", "invoice", id="a flow that nobody gets any more"),
        pytest.param({}, {"right": ("track",)}, "corrected", "refund", id="people say otherwise"),
        pytest.param({"asked": True}, {}, None, "", id="asked less often"),
        pytest.param({"sure": 0.6}, {"sure": 0.9}, None, "", id="surer than before"),
    ],
)
async def test_alarms(
    small_shop: FlowRegistry,
    entry: Entry,
    before: dict[str, object],
    now: dict[str, object],
    kind: str | None,
    subject: str,
) -> None:
    make = some
    entries = [*make(entry, 60, 9, **before), *make(entry, 60, 2, **now)]  # pyright: ignore[reportArgumentType]
    found = await drift(entries, small_shop, until=NOW, embedder=HashEmbedder())
    told = {(each.kind, each.subject) for each in found.alarms}
    assert told == set() if kind is None else (kind, subject) in told
    assert all(each.message for each in found.alarms)


@pytest.mark.spec("007.6")
async def test_requests_without_a_flow_are_put_into_groups(small_shop: FlowRegistry, entry: Entry) -> None:
    jokes = [
        entry(text, at=NOW - DAY_S, candidates=("track",), confidences=(0.2,), p_none=0.5, chosen=("track",))
        for text in JOKES
    ]
    lone = entry("what is the capital of peru", at=NOW - DAY_S, p_none=0.5)
    said = entry("sing a song", (), at=NOW - DAY_S, chosen=("track",), p_none=0.012)
    entries = [*some(entry, 50, 10), *some(entry, 50, 2), *jokes, lone, said]
    found = await drift(entries, small_shop, until=NOW, embedder=HashEmbedder())
    (group,) = found.clusters
    assert 3 <= group.size <= len(JOKES)
    assert set(group.texts) <= set(JOKES)
    assert (group.before, group.nearest) == (0, "track")
    again = await drift(entries, small_shop, until=NOW, embedder=HashEmbedder())
    assert again == found, "the same log gives the same groups"
    earlier = [
        entry(each.request, at=NOW - 9 * DAY_S, p_none=0.5, chosen=("track",), candidates=("track",)) for each in jokes
    ]
    known = await drift([*entries, *earlier], small_shop, until=NOW, embedder=HashEmbedder())
    assert known.clusters[0].before >= 3


@pytest.mark.spec("009.2")
async def test_a_question_to_the_user_is_no_missing_flow(small_shop: FlowRegistry, entry: Entry) -> None:
    before = some(entry, 100, 10)
    questions = some(entry, 60, 2, chosen=(), p_none=None, asked=True, reason="ask")
    answers = some(entry, 60, 2, p_none=None, reason="user")
    found = await drift([*before, *questions, *answers], small_shop, until=NOW, embedder=HashEmbedder())
    assert (found.now.requests, found.now.none.count, found.now.asked.count) == (120, 0, 0)
    assert (found.now.none.of, found.now.asked.of) == (60, 60)
    assert (found.clusters, found.alarms) == ((), ())
    dropped = some(entry, 60, 2, chosen=(), p_none=None, reason="none")
    lacking = await drift([*before, *questions, *dropped], small_shop, until=NOW, embedder=HashEmbedder())
    assert (lacking.now.none.count, [each.kind for each in lacking.alarms][:1]) == (60, ["none"])


@pytest.mark.parametrize(
    ("known", "note"),
    [
        pytest.param({"sure": None}, "the catalogue is too small", id="no confidences"),
        pytest.param({"text": ""}, "texts were not kept", id="no texts"),
        pytest.param({}, "no requests in the 7 days before", id="no days before"),
    ],
)
async def test_what_cannot_be_told_is_said(
    small_shop: FlowRegistry, entry: Entry, known: dict[str, object], note: str
) -> None:
    entries = some(entry, 20, 1, sure=None if "sure" in known else 0.5)
    if "text" in known:
        entries = [entry("", at=each.at, candidates=each.candidates, confidences=each.confidences) for each in entries]
    found = await drift(entries, small_shop, embedder=HashEmbedder())
    assert any(note in each for each in found.notes)
    assert found.now.requests == 20, "without until, it is up to the last entry"


@pytest.mark.parametrize("days", [0, -1, float("nan"), 1e9], ids=str)
async def test_days_that_make_no_sense_are_refused(small_shop: FlowRegistry, entry: Entry, days: float) -> None:
    with pytest.raises(ConfigError, match="days must be a number above 0"):
        await drift(some(entry, 1, 1), small_shop, days=days, embedder=HashEmbedder())


async def test_an_empty_log_is_said_to_be_one(small_shop: FlowRegistry) -> None:
    with pytest.raises(ConfigError, match="no entries for this agent"):
        await drift([], small_shop, embedder=HashEmbedder())


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_interval_of_a_share_holds_it(count: int, more: int) -> None:
    share = Share.of_all(count, count + more)
    if not count + more:
        assert share.share is None
        return
    assert share.share is not None
    assert share.low is not None
    assert share.high is not None
    assert -1e-9 <= share.low <= share.share + 1e-9
    assert share.share - 1e-9 <= share.high <= 1 + 1e-9
    assert math.isclose(share.share, count / (count + more))


async def test_it_is_told_in_one_sentence(small_shop: FlowRegistry, entry: Entry) -> None:
    calm = await drift(some(entry, 30, 1), small_shop, embedder=HashEmbedder())
    assert str(calm) == "30 requests in the last 7 days, 0 in those before: nothing to look at."
    found = await drift(
        [*some(entry, 50, 9), *some(entry, 50, 1, sure=0.2)], small_shop, until=NOW, embedder=HashEmbedder()
    )
    assert found.alarms
    assert str(found).startswith("50 requests in the last 7 days, 50 in those before: ")
    assert found.alarms[0].message in str(found)


@pytest.mark.spec("016.4")
async def test_a_broken_promise_is_an_alarm_while_its_threshold_is_raised(
    small_shop: FlowRegistry, entry: Entry
) -> None:
    entries = some(entry, 30, 1)
    why = "2 of 9 answers that were asked all the same came out otherwise"
    move = Move(at=NOW, kind="raised", flow="refund", threshold=0.9, promise=0.01, measured=2 / 9, requests=9, why=why)
    closed = Measured(flow="refund", audited=9, differed=2, threshold=0.9)
    broken = Audit(promise=0.01, whole=Measured(audited=9, differed=2), flows=(closed,), moves=(move,))
    found = await drift(entries, small_shop, embedder=HashEmbedder(), audit=broken)
    (alarm,) = (each for each in found.alarms if each.kind == "promise")
    assert alarm.subject == "refund"
    assert alarm.message.startswith(why)
    assert found.to_dict()["audit"]["whole"]["differed"] == 2
    kept = Audit(promise=0.01, moves=(move, replace(move, kind="lowered", threshold=0.0)))
    found = await drift(entries, small_shop, embedder=HashEmbedder(), audit=kept)
    assert [each for each in found.alarms if each.kind == "promise"] == []
