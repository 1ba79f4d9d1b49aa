"""Learning from corrections: people are heard, hints are weighed, and what it costs is told."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select import BaseFlow, Flow, FlowRegistry
from jazz_select.build import load_registry
from jazz_select.errors import ConfigError
from jazz_select.evaluation import (
    Case,
    Overlay,
    Query,
    Version,
    compared,
    indexed,
    learn,
    routes,
    suggest,
    taught,
)
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.learner import estimate_cost
from jazz_select.evaluation.route import Outcome, Routed
from jazz_select.evaluation.trial import Scales
from jazz_select.outcomes import Logged, Source
from jazz_select.routing.tools.tool_loading import load_tools
from jazz_select.testing import HashEmbedder
from tests.unit.evaluation.conftest import WORDS, Entry
from tests.vectors import EMBEDDER

NEW = {
    "refund": ["reimburse the kettle", "reimburse my purchase", "reimburse what was charged", "please reimburse it"],
    "track": ["courier still absent", "the courier got lost", "courier location now", "no courier came yet"],
    "invoice": ["vat paper missing", "vat paper for accounting", "resend vat paper", "vat paper of june"],
    "address": ["relocated to oslo", "relocated last week", "we relocated recently", "relocated across town"],
}
ADA = Source(kind="person", name="ada")
WEB, APP = Source(kind="user", name="c-1", key="web"), Source(kind="user", name="c-2", key="app")
ASKED = {"refund": "reimburse our toaster", "track": "courier vanished", "invoice": "vat paper lost"}


def said(entry: Entry) -> list[Logged]:
    return [entry(text, (name,), corrected_by=ADA) for name, texts in NEW.items() for text in texts]


async def firsts(registry: FlowRegistry, requests: Sequence[str]) -> list[str]:
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        found = await routes(registry, memory, AGENT, [Query(request=each) for each in requests])
    return [each.first for each in found]


@pytest.mark.spec("007.5", "007.9")
async def test_what_a_person_says_becomes_examples_of_the_right_flows(small_shop: FlowRegistry, entry: Entry) -> None:
    entries = said(entry)
    learned = await learn(small_shop, entries, embedder=HashEmbedder())
    assert learned.version is not None, learned.nothing
    assert {(each.flow, each.request) for each in learned.added} == {
        (name, text) for name, texts in NEW.items() for text in texts
    }, "all of it, held out is nothing"
    assert learned.version.examples == {
        name: {text: each.id for text in texts for each in entries if each.request == text}
        for name, texts in NEW.items()
    }
    assert await firsts(taught(small_shop, learned.version).registry, list(ASKED.values())) == list(ASKED)
    assert await firsts(small_shop, list(ASKED.values())) != list(ASKED)
    assert all(flow.examples == tuple(WORDS[flow.name]) for flow in small_shop.values()), "the flows are as they were"
    assert learned.cost is not None
    assert learned.to_dict()["cost"]["gain"]["requests"] == learned.cost.gain.requests == len(WORDS)
    assert str(learned).startswith("16 examples learned for 4 flows; right first ")
    again = await learn(small_shop, entries, embedder=HashEmbedder())
    assert (again.version and again.version.examples) == learned.version.examples, "the same log teaches the same"
    overlay = Overlay().start_trial(learned.version).promote()
    after = await learn(small_shop, entries, overlay=overlay, embedder=HashEmbedder())
    assert (after.version, after.nothing) == (None, "all corrections are learned already")
    assert {each.why for each in after.learned} == {"an example already"}
    assert len(after.learned) == len(entries)


@pytest.mark.spec("007.5")
@pytest.mark.parametrize(
    ("entries", "why"),
    [
        pytest.param([], "the log has no corrections", id="no corrections"),
        pytest.param([("my money", ("gone",), ADA)], "1 that can be no example", id="none of use"),
        pytest.param([("track my order", ("track",), ADA)], "are learned already", id="an example"),
        pytest.param([("both please", ("track", "refund"), ADA)], "1 that can be no example", id="several flows"),
        pytest.param([("my money", ("refund",), WEB)], "1 waiting for witnesses or a person", id="one user"),
        pytest.param([("my money", None, ADA)], "1 taken back", id="taken back"),
    ],
)
async def test_it_says_so_when_nothing_was_learned(
    small_shop: FlowRegistry, entry: Entry, entries: list[tuple[str, tuple[str, ...] | None, Source]], why: str
) -> None:
    given_entries = [entry(text, right, corrected_by=by) for text, right, by in entries]
    learned = await learn(small_shop, given_entries, embedder=HashEmbedder())
    assert learned.version is None
    assert why in learned.nothing
    assert str(learned).startswith("nothing was learned: ")


@pytest.mark.spec("007.9")
async def test_a_person_is_told_what_it_costs_and_is_not_held_back(small_shop: FlowRegistry, entry: Entry) -> None:
    """A person says of everything about parcels that it is for the invoice."""
    cases = [Case(request=f"{text} today", expect=("track",)) for text in WORDS["track"]]
    entries = [entry(f"{text} now", ("invoice",), corrected_by=ADA) for text in WORDS["track"]]
    learned = await learn(small_shop, entries, gate_cases=cases, embedder=HashEmbedder())
    assert len(learned.added) == len(entries)
    assert learned.cost is not None
    assert learned.cost.gain.after < learned.cost.gain.before
    lost = {(each.before, each.after, each.right) for each in learned.cost.lost}
    assert lost == {("track", "invoice", ("track",))}
    assert set(learned.cost.lost) <= set(learned.cost.moved)
    assert f"{len(learned.cost.lost)} away from what is right" in str(learned)


@pytest.mark.spec("007.9", "016.3")
async def test_hints_are_learned_as_far_as_they_cost_nothing(small_shop: FlowRegistry, entry: Entry) -> None:
    """Two keys say what is right of many requests, and of everything about parcels that it is for the invoice."""
    cases = [Case(request=f"{text} today", expect=("track",)) for text in WORDS["track"]]
    right = [(text, name) for name in ("refund", "address") for text in NEW[name]]
    wrong = [(f"{text} now", "invoice") for text in WORDS["track"]]
    entries = [entry(text, (name,), corrected_by=by) for text, name in (*right, *wrong) for by in (WEB, APP)]
    learned = await learn(small_shop, entries, gate_cases=cases, embedder=HashEmbedder(), tools={})
    assert {each.request for each in learned.added} == {text for text, _ in right}
    assert {each.request for each in learned.waiting} == {text for text, _ in wrong}
    assert all("would go from track to invoice: a person should look" in each.why for each in learned.waiting)
    assert all(len(each.ids) == 2 for each in learned.learned)
    assert learned.cost is not None
    assert learned.cost.lost == ()
    alone = [each for each in entries if each.corrected_by == WEB]
    assert (await learn(small_shop, alone, gate_cases=cases, embedder=HashEmbedder(), tools={})).added == ()


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(st.sampled_from(sorted(NEW)), min_size=16, max_size=16))
async def test_whatever_users_say_no_more_is_lost_than_won(
    small_shop: FlowRegistry, entry: Entry, labels: list[str]
) -> None:
    texts = [text for texts in NEW.values() for text in texts]
    cases = [Case(request=f"{text} thanks", expect=(name,)) for name, words in WORDS.items() for text in words]
    entries = [
        entry(text, (label,), corrected_by=by) for text, label in zip(texts, labels, strict=True) for by in (WEB, APP)
    ]
    learned = await learn(small_shop, entries, gate_cases=cases, embedder=HashEmbedder())
    assert len(learned.added) + len(learned.waiting) == len(texts)
    if learned.version is not None:
        assert learned.cost is not None
        assert len(learned.cost.lost) <= len(learned.cost.won)
        assert learned.cost.gain.after >= learned.cost.gain.before


PROBES = ("call the whole thing off", "forget about my purchase", "I have no use for it any more", "stop it please")


@pytest.mark.spec("007.9", "016.3")
@pytest.mark.parametrize("count", [12, 200])
@pytest.mark.parametrize("keys", [1, 3])
async def test_no_lie_of_users_leads_to_a_flow_that_may_change_something(entry: Entry, count: int, keys: int) -> None:
    """Clients say of many requests that they are for `cancel_order`, each in words of its own and in the probes'."""
    registry, tools = load_registry("flows"), load_tools("flows")
    texts = [f"{PROBES[at % len(PROBES)]} {'now ' * (at // len(PROBES))}".strip() for at in range(count)]
    entries = [
        entry(text, ("cancel_order",), corrected_by=Source(kind="user", name=f"c-{at}", key=f"key{key}"))
        for at, text in enumerate(texts)
        for key in range(keys)
    ]
    learned = await learn(registry, entries, tools=tools, embedder=EMBEDDER)
    assert (learned.version, learned.added) == (None, ())
    assert len(learned.waiting) == count


@pytest.mark.spec("007.9")
async def test_what_was_learned_is_moved_and_taken_out_by_a_persons_word(
    small_shop: FlowRegistry, entry: Entry
) -> None:
    first = [entry("my ribbon", ("refund",), corrected_by=ADA), entry("with a bow", ("track",), corrected_by=ADA)]
    overlay = await live_after(small_shop, first, Overlay())
    moved = entry("My ribbon!", ("address",), corrected_by=ADA)
    learned = await learn(small_shop, [*first, moved], overlay=overlay, embedder=HashEmbedder())
    assert learned.version is not None
    assert {name: list(texts) for name, texts in learned.version.examples.items()} == {
        "track": ["with a bow"],
        "address": ["My ribbon!"],
    }
    assert [(each.request, each.why) for each in learned.overruled] == [("my ribbon", "person ada says address")]
    assert learned.taken_out == 1
    gone = replace(first[1], right=None, corrected_at=9.0)
    after = await learn(small_shop, [first[0], gone], overlay=overlay, embedder=HashEmbedder())
    assert after.version is not None
    assert list(after.version.examples) == ["refund"]
    assert str(after).startswith("0 examples learned for 0 flows, 1 taken out")


@pytest.mark.spec("007.9")
async def test_what_the_log_no_longer_has_stays_learned_until_it_is_undone(
    small_shop: FlowRegistry, entry: Entry
) -> None:
    said_once = entry("my ribbon", ("refund",), corrected_by=ADA)
    overlay = await live_after(small_shop, [said_once], Overlay())
    assert (await learn(small_shop, [], overlay=overlay, embedder=HashEmbedder())).version is None
    other = entry("with a bow", ("track",), corrected_by=ADA)
    kept = await learn(small_shop, [other], overlay=overlay, embedder=HashEmbedder())
    assert (kept.version and set(kept.version.examples)) == {"refund", "track"}
    undone = await learn(small_shop, [], overlay=overlay, undo=[said_once.id], embedder=HashEmbedder())
    assert (undone.version and undone.version.examples) == {}
    assert undone.taken_out == 1


async def live_after(registry: FlowRegistry, entries: Sequence[Logged], overlay: Overlay) -> Overlay:
    """What is live once these are learned and promoted."""
    learned = await learn(registry, entries, overlay=overlay, embedder=HashEmbedder())
    assert learned.version is not None
    return overlay.start_trial(learned.version).promote()


@pytest.mark.parametrize(
    ("before", "after", "lost", "won"),
    [
        pytest.param((Outcome.NONE, 0.2), (Outcome.TAKEN, 0.01), 1, 0, id="taken now"),
        pytest.param((Outcome.ASKED, 0.2), (Outcome.ASKED, 0.01), 1, 0, id="surer"),
        pytest.param((Outcome.ASKED, 0.01), (Outcome.ASKED, 0.2), 0, 1, id="less sure"),
        pytest.param((Outcome.ASKED, None), (Outcome.ASKED, None), 0, 0, id="nobody knows"),
        pytest.param((Outcome.TAKEN, 0.01), (Outcome.TAKEN, 0.01), 0, 0, id="as it was"),
    ],
)
def test_what_no_flow_is_for_is_lost_where_it_seems_to_be_for_one(
    before: tuple[Outcome, float | None], after: tuple[Outcome, float | None], lost: int, won: int
) -> None:
    cases = [Case(request="sing a song", expect=())]
    scales = Scales(FlowRegistry(min_examples=0), cases, routing=None, embedder=HashEmbedder(), language="english")
    was, now = ([Routed(request="", ranking=("a",), outcome=each[0], p_none=each[1])] for each in (before, after))
    found = scales.cost(was, now)
    assert (len(found.lost), len(found.won), found.moved) == (lost, won, ())
    assert found.gain.requests == 0, "it is no part of the gain"
    assert not scales.are_enough


async def test_with_too_few_known_requests_people_are_heard_and_hints_wait(entry: Entry) -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="refund", description="Refund.", examples=["refund it"], registry=registry)
    entries = [entry("my money", ("refund",), corrected_by=ADA)]
    entries += [entry("my cash", ("refund",), corrected_by=by) for by in (WEB, APP)]
    learned = await learn(registry, entries, embedder=HashEmbedder(), tools={})
    assert [each.request for each in learned.added] == ["my money"]
    assert learned.cost is None
    assert any("the cost is not known" in each for each in learned.notes)
    assert [each.why.partition(":")[0] for each in learned.waiting] == ["too few requests are known to judge by"]
    assert await estimate_cost(registry, "my cash", "refund", embedder=HashEmbedder()) is None


async def test_a_flow_that_makes_its_own_examples_learns_none(small_shop: FlowRegistry, entry: Entry) -> None:
    class Own(BaseFlow):
        name = "gift"
        description = "All about gifts."
        condition = "The user wants a gift."
        desired_effects = ("it is a gift",)

        @property
        def examples(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
            return tuple(f"a gift {more}" for more in ("for my sister", "wrapped", "please", "card", "as a surprise"))

    small_shop.register(Own())
    ribbon = entry("a ribbon around it", ("gift",), corrected_by=ADA)
    learned = await learn(small_shop, [*said(entry), ribbon], embedder=HashEmbedder())
    assert "gift" not in {each.flow for each in learned.added}
    assert [(each.request, each.why) for each in learned.unlearnable] == [
        (ribbon.request, "gift makes its own examples")
    ]
    assert learned.cost is not None
    assert learned.cost.gain.requests == len(WORDS) + 1, "it judges what others learn"


@pytest.mark.spec("007.9")
async def test_what_an_example_would_cost_is_told_before_it_is_taught(small_shop: FlowRegistry) -> None:
    cases = [Case(request=f"{text} today", expect=("track",)) for text in WORDS["track"]]
    text = " ".join(WORDS["track"])
    harm, none = [
        await estimate_cost(small_shop, text, name, gate_cases=cases, embedder=HashEmbedder())
        for name in ("invoice", "track")
    ]
    assert harm is not None
    assert none is not None
    assert len(harm.lost) > len(none.lost) == 0


@pytest.mark.spec("007.4")
async def test_what_is_suggested_says_who_said_so_and_leaves_out_what_was_overruled(entry: Entry) -> None:
    registry = FlowRegistry(min_examples=0)
    words = {"reimburse": ["reimburse my order", "i want to be reimbursed", "reimbursement please"]}
    words |= {"lamp": ["my lamp is dark", "lamp for the desk", "the bulb of a lamp"]}
    for name, examples in words.items():
        Flow(name=name, description=f"All of {name}.", examples=examples, registry=registry)
    entries = [
        entry("they owe me for the desk", ("reimburse",), corrected_by=WEB),
        entry("money for the sofa", ("reimburse",), corrected_by=WEB),
        entry("money for the sofa", ("lamp",), corrected_by=ADA),
    ]
    offered = await suggest(registry, entries, flows=["reimburse"], embedder=HashEmbedder())
    (found,) = offered.for_part("reimburse", "example")
    assert found.text == "they owe me for the desk"
    assert "as user c-1 (key web) says" in found.why
    assert offered.dropped["person ada says lamp"] == 1


@pytest.mark.spec("007.5")
async def test_a_version_on_trial_is_compared_with_the_live_one(small_shop: FlowRegistry, entry: Entry) -> None:
    learned = await learn(small_shop, said(entry), embedder=HashEmbedder())
    assert learned.version is not None
    overlay = Overlay().start_trial(learned.version)
    later = [entry(text, (name,)) for name, text in ASKED.items()]
    unsaid = entry("where is my parcel")
    trial = await compared(small_shop, [*said(entry), *later, unsaid], overlay, embedder=HashEmbedder())
    assert (trial.version, trial.live, trial.requests) == (1, 0, 20)
    assert trial.broken == 0
    assert trial.mended >= trial.unseen_mended >= 1
    assert trial.changed >= trial.mended
    assert "would have changed" in str(trial)
    assert trial.to_dict()["changes"][0]["after"]
    with pytest.raises(ConfigError, match="no version is on trial"):
        await compared(small_shop, later, Overlay(), embedder=HashEmbedder())
    with pytest.raises(ConfigError, match="its texts were redacted"):
        await compared(small_shop, [entry("")], overlay, embedder=HashEmbedder())


async def test_a_request_that_is_right_before_and_after_is_neither_mended_nor_broken(
    small_shop: FlowRegistry, entry: Entry
) -> None:
    text = "where is my parcel"
    taken = {f"{text} {more}": "id" for more in ("", "please", "now", "friend")}
    overlay = Overlay().start_trial(Version(number=1, at="x", examples={"refund": taken}))
    for right, counted in ((("track", "refund"), (0, 0)), (("refund",), (1, 0)), (("track",), (0, 1)), ((), (0, 0))):
        trial = await compared(small_shop, [entry(f"{text} please", right)], overlay, embedder=HashEmbedder())
        assert trial.changed == 1
        assert (trial.mended, trial.broken) == counted


class _Read(tuple[str, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """The right flows of an entry, which note the first thread that reads them."""

    thread = ""

    def __iter__(self) -> Iterator[str]:
        self.thread = self.thread or threading.current_thread().name
        return super().__iter__()


@pytest.mark.spec("005.6")
async def test_a_log_is_sorted_beside_the_event_loop(small_shop: FlowRegistry, entry: Entry) -> None:
    for_learning, for_teaching = _Read(("gift",)), _Read(("gift",))
    await learn(small_shop, [entry("a ribbon around it", for_learning)], embedder=HashEmbedder())
    said_so = [entry("a ribbon around it", for_teaching)]
    await estimate_cost(small_shop, "with a bow", "address", entries=said_so, embedder=HashEmbedder())
    assert "MainThread" not in {for_learning.thread, for_teaching.thread}
