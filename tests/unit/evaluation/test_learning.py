"""Learning from corrections: what lands, what does not, and that nothing is lowered."""

import random
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jazz_select import BaseFlow, Flow, FlowRegistry
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
from jazz_select.evaluation.corrections import KEPT_APART, is_kept_apart
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.learner import Learned, rehearsed
from jazz_select.evaluation.route import Outcome, Routed
from jazz_select.evaluation.trial import gate_cases, verdict
from jazz_select.outcomes import Logged
from jazz_select.ports import Embedder
from jazz_select.testing import HashEmbedder
from tests.unit.evaluation.conftest import WORDS, Entry
from tests.vectors import EMBEDDER

NEW = {
    "refund": ["reimburse the kettle", "reimburse my purchase", "reimburse what was charged", "please reimburse it"],
    "track": ["courier still absent", "the courier got lost", "courier location now", "no courier came yet"],
    "invoice": ["vat paper missing", "vat paper for accounting", "resend vat paper", "vat paper of june"],
    "address": ["relocated to oslo", "relocated last week", "we relocated recently", "relocated across town"],
}
THINGS = ["kettle", "lamp", "carpet", "sofa", "bicycle", "guitar", "umbrella", "telescope", "freezer", "violin"]
MIXED = """refund order parcel track invoice bill address change cancel subscription plan password login reset voucher
gift size return exchange delivery late damaged broken missing payment card bank iban email phone newsletter stop start
pause price discount stock available colour"""
ASKED = {"refund": "reimburse our toaster", "track": "courier vanished", "invoice": "vat paper lost"}


def said(entry: Entry, wanted: dict[str, list[str]] = NEW) -> list[Logged]:
    return [entry(text, (name,)) for name, texts in wanted.items() for text in texts]


async def firsts(registry: FlowRegistry, requests: Sequence[str]) -> list[str]:
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        found = await routes(registry, memory, AGENT, [Query(request=each) for each in requests])
    return [each.first for each in found]


async def right_first(registry: FlowRegistry, cases: Sequence[Case], embedder: str | Embedder | None = None) -> int:
    async with indexed(registry, embedder=embedder or HashEmbedder()) as memory:
        found = await routes(registry, memory, AGENT, [Query(request=each.request) for each in cases])
    return sum(route.first in case.expect for route, case in zip(found, cases, strict=True))


@pytest.mark.spec("007.5")
async def test_corrections_become_examples_of_the_right_flows(small_shop: FlowRegistry, entry: Entry) -> None:
    entries = said(entry)
    learned = await learn(small_shop, entries, embedder=HashEmbedder())
    assert learned.version is not None, learned.nothing
    assert learned.gain is not None
    assert learned.gain.after >= learned.gain.before
    assert {(each.flow, each.text) for each in learned.added} <= {
        (name, text) for name, texts in NEW.items() for text in texts if not is_kept_apart(text, KEPT_APART)
    }
    assert len(learned.added) >= 10
    assert {each.request for each in learned.version.cases} >= {
        text for texts in NEW.values() for text in texts if is_kept_apart(text, KEPT_APART)
    }
    assert await firsts(taught(small_shop, learned.version).registry, list(ASKED.values())) == list(ASKED)
    assert await firsts(small_shop, list(ASKED.values())) != list(ASKED)
    assert all(flow.examples == tuple(WORDS[flow.name]) for flow in small_shop.values()), "the flows are as they were"
    assert learned.to_dict()["gain"]["requests"] == learned.gain.requests
    assert "examples learned for" in str(learned)
    again = await learn(small_shop, entries, embedder=HashEmbedder())
    assert (again.version and again.version.examples) == learned.version.examples, "the same log teaches the same"


@pytest.mark.spec("007.5")
@pytest.mark.parametrize(
    ("entries", "why"),
    [
        pytest.param([], "the log has no corrections", id="no corrections"),
        pytest.param([("my money", ("gone",))], "of 1 corrections none can be used", id="none of use"),
        pytest.param([("track my order", ("track",))], "are learned, or are among the labelled", id="an example"),
        pytest.param([("both please", ("track", "refund"))], "kept to judge by", id="several flows"),
        pytest.param([("tell a joke", ())], "kept to judge by", id="no flow"),
    ],
)
async def test_it_says_so_when_nothing_was_learned(
    small_shop: FlowRegistry, entry: Entry, entries: list[tuple[str, tuple[str, ...]]], why: str
) -> None:
    learned = await learn(small_shop, [entry(*each) for each in entries], embedder=HashEmbedder())
    assert learned.version is None
    assert why in learned.nothing
    assert str(learned).startswith("nothing was learned: ")


@pytest.mark.spec("007.5")
async def test_what_would_lower_the_labelled_requests_does_not_land(small_shop: FlowRegistry, entry: Entry) -> None:
    """Two people say of everything about parcels that it is for the invoice."""
    cases = [Case(request=f"{text} today", expect=("track",)) for text in WORDS["track"]]
    wrong = [f"{text} now" for text in WORDS["track"]]
    twice = [entry(text, ("invoice",)) for text in (*wrong, *wrong)]
    learned = await learn(small_shop, twice, gate_cases=cases, embedder=HashEmbedder())
    version = learned.version
    assert learned.gain is not None
    if version is not None:
        assert learned.gain.after >= learned.gain.before
    flows = taught(small_shop, version).registry
    assert await firsts(flows, [case.request for case in cases]) == ["track"] * len(cases)
    assert any("from other flows" in each.why for each in learned.refused)


@pytest.mark.spec("007.5")
@pytest.mark.parametrize("seed", [3, 8, 9])
async def test_what_takes_requests_does_not_use_up_what_others_won(
    small_shop: FlowRegistry, entry: Entry, seed: int
) -> None:
    """Three flows' requests are said to be for another flow, beside corrections that win requests."""
    rng = random.Random(seed)
    right = [(text, name) for name, texts in NEW.items() for text in texts[:2]]
    for name in rng.sample(list(WORDS), 3):
        other = rng.choice([each for each in WORDS if each != name])
        right += [
            (f"{text} {more}", other) for text in WORDS[name] for more in rng.sample(("now", "please", "friend"), 2)
        ]
    cases = [Case(request=f"{text} thanks", expect=(name,)) for name, texts in NEW.items() for text in texts[2:]]
    cases += [Case(request=f"{text} today", expect=(name,)) for name, texts in WORDS.items() for text in texts]
    entries = [entry(text, (name,)) for text, name in right for _ in range(2)]
    learned = await learn(small_shop, entries, gate_cases=cases, embedder=HashEmbedder(), refits=20)
    assert learned.gain is not None
    assert learned.gain.after > learned.gain.before


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(st.sampled_from(sorted(NEW)), min_size=16, max_size=16))
async def test_whatever_is_said_the_gate_is_never_lowered(
    small_shop: FlowRegistry, entry: Entry, labels: list[str]
) -> None:
    texts = [text for texts in NEW.values() for text in texts]
    cases = [Case(request=f"{text} thanks", expect=(name,)) for name, words in WORDS.items() for text in words]
    entries = [entry(text, (label,)) for text, label in zip(texts, labels, strict=True)]
    learned = await learn(small_shop, entries, gate_cases=cases, embedder=HashEmbedder(), refits=4)
    assert learned.refits <= 2 * 4
    if learned.version is not None:
        assert learned.gain is not None
        assert learned.gain.after >= learned.gain.before
        assert await right_first(taught(small_shop, learned.version).registry, cases) >= await right_first(
            small_shop, cases
        )


@pytest.mark.spec("007.5")
@pytest.mark.parametrize("seed", [5, 6])
async def test_what_is_indexed_lowers_none_of_the_given_cases(entry: Entry, seed: int) -> None:
    """Catalogues, cases and corrections by chance, some of them wrong."""
    mixed = MIXED.split()
    chance = random.Random(seed)
    registry, topics = FlowRegistry(), dict[str, list[str]]()
    for number in range(chance.randint(4, 8)):
        words = topics[f"f{number}"] = chance.sample(mixed, 4)
        examples = [" ".join(chance.choices(words, k=2) + chance.choices(mixed, k=2)) for _ in range(7)]
        Flow(
            name=f"f{number}",
            description="About " + " ".join(words),
            condition="The user asks about " + words[0],
            examples=list(dict.fromkeys(examples)),
            desired_effects=["done"],
            registry=registry,
        )
    names = list(topics)

    def asked(name: str) -> str:
        return " ".join(chance.sample(topics[name], 2) + chance.choices(mixed, k=3))

    cases = [Case(request=asked(name), expect=(name,)) for name in chance.choices(names, k=chance.randint(8, 25))]
    none = [Case(request=" ".join(chance.choices(mixed, k=4)), expect=()) for _ in range(5)]
    entries: list[Logged] = []
    for _ in range(chance.randint(20, 80)):
        name = chance.choice(names)
        right = name if chance.random() < 0.7 else chance.choice(names)
        entries.append(entry(asked(name), (right,)))
    learned = await learn(registry, entries, gate_cases=[*cases, *none], embedder=EMBEDDER)
    after = await right_first(taught(registry, learned.version).registry, cases, EMBEDDER)
    assert after >= await right_first(registry, cases, EMBEDDER)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        pytest.param((Outcome.NONE, 0.2), (Outcome.TAKEN, 0.01), "would seem to be for one", id="taken now"),
        pytest.param((Outcome.ASKED, 0.2), (Outcome.ASKED, 0.01), "would seem to be for one", id="surer"),
        pytest.param((Outcome.ASKED, 0.01), (Outcome.ASKED, 0.2), "", id="less sure"),
        pytest.param((Outcome.ASKED, None), (Outcome.ASKED, None), "", id="nobody knows"),
        pytest.param((Outcome.TAKEN, 0.01), (Outcome.TAKEN, 0.01), "", id="as it was"),
    ],
)
def test_what_no_flow_is_for_must_not_seem_to_be_for_one(
    before: tuple[Outcome, float | None], after: tuple[Outcome, float | None], why: str
) -> None:
    judged = gate_cases([Case(request="sing a song", expect=())], "case")
    was, now = ([Routed(request="", ranking=("a",), outcome=each[0], p_none=each[1])] for each in (before, after))
    found = verdict(judged, was, now)
    assert (why in found.why) if why else not found.why
    assert found.gain.requests == 0


async def test_a_flow_learns_so_much_and_no_more(small_shop: FlowRegistry, entry: Entry) -> None:
    entries = said(entry)
    first = await learn(small_shop, entries, embedder=HashEmbedder(), most=1)
    assert first.version is not None
    assert {len(texts) for texts in first.version.examples.values()} == {1}
    overlay = Overlay().tried(first.version).promoted()
    second = await learn(small_shop, entries, overlay=overlay, embedder=HashEmbedder(), most=2)
    assert second.version is not None
    assert second.version.after == 1
    assert {len(texts) for texts in second.version.examples.values()} == {2}
    for name, texts in first.version.examples.items():
        assert texts.items() <= second.version.examples[name].items(), "what was good stays"


def things() -> FlowRegistry:
    registry = FlowRegistry(min_examples=0)
    for thing in THINGS:
        words = [f"{thing} {more}" for more in ("is broken", "was lost", "came late", "in red", "for a friend")]
        Flow(name=thing, description=f"All of a {thing}.", examples=words, registry=registry)
    return registry


def doubted(learned: Learned) -> set[str]:
    return {each.request for each in learned.refused if "a person should look" in each.why}


async def test_what_nothing_speaks_for_is_held_back(entry: Entry) -> None:
    """Of many flows, one is named for requests that are plainly for others."""
    right = [entry(f"{more} {thing}", (thing,)) for thing in THINGS for more in ("my poor", "about that")]
    wrong = [entry(f"oh my {thing} {thing}", ("violin",)) for thing in THINGS[:4]]
    learned = await learn(things(), [*right, *wrong], embedder=HashEmbedder())
    assert doubted(learned)
    assert doubted(learned) <= {each.request for each in wrong}
    assert not {each.text for each in learned.added} & {each.request for each in wrong}


async def test_a_doubted_correction_does_not_speak_against_others(entry: Entry) -> None:
    """Beside the one for the lamp, "torn couch wobbles" is not likely for the sofa."""
    right = ["cushions creaks couch", "torn couch wobbles", "cushions loveseat wobbles"]
    wrong = "couch wobbles sagging"
    assert not any(is_kept_apart(each, KEPT_APART) for each in (*right, wrong))
    entries = [*(entry(each, ("sofa",)) for each in right), entry(wrong, ("lamp",))]
    learned = await learn(things(), entries, embedder=HashEmbedder())
    assert doubted(learned) == {wrong}


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
    learned = await learn(small_shop, [*said(entry), entry("a ribbon around it", ("gift",))], embedder=HashEmbedder())
    assert learned.version is not None
    assert "gift" not in {each.flow for each in learned.added}
    assert "a ribbon around it" in {each.request for each in learned.version.cases}, "they judge what others learn"
    for name in ("gift", "no such flow"):
        found = await rehearsed(small_shop, "a ribbon around it", name, entries=said(entry), embedder=HashEmbedder())
        assert found.why == f"there is no flow {name!r} that takes examples"


@pytest.mark.spec("007.5")
async def test_a_version_on_trial_is_compared_with_the_live_one(small_shop: FlowRegistry, entry: Entry) -> None:
    learned = await learn(small_shop, said(entry), embedder=HashEmbedder())
    assert learned.version is not None
    overlay = Overlay().tried(learned.version)
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
    overlay = Overlay().tried(Version(number=1, at="x", examples={"refund": taken}))
    for right, counted in ((("track", "refund"), (0, 0)), (("refund",), (1, 0)), (("track",), (0, 1)), ((), (0, 0))):
        trial = await compared(small_shop, [entry(f"{text} please", right)], overlay, embedder=HashEmbedder())
        assert trial.changed == 1
        assert (trial.mended, trial.broken) == counted


@pytest.mark.parametrize(("most", "refits"), [(0, 5), (5, 1)], ids=["no examples", "one index"])
async def test_options_that_make_no_sense_are_refused(small_shop: FlowRegistry, most: int, refits: int) -> None:
    with pytest.raises(ConfigError, match="a whole number from"):
        await learn(small_shop, [], embedder=HashEmbedder(), most=most, refits=refits)


async def test_a_case_is_not_learned_in_other_words(small_shop: FlowRegistry, entry: Entry) -> None:
    """But for politeness, numbers and a slip of the pen it is the request that is judged by."""
    cases = [Case(request="reimburse the kettle number 7", expect=("refund",))]
    said_so = ["Please reimburse the kettle, number 12!", "reimburse the kettel number 7", "reimburse the lamp"]
    learned = await learn(
        small_shop, [entry(text, ("refund",)) for text in said_so], gate_cases=cases, embedder=HashEmbedder()
    )
    held = () if learned.version is None else learned.version.cases
    assert {each.text for each in learned.added} | {each.request for each in held} <= {"reimburse the lamp"}


@pytest.mark.spec("007.9")
@pytest.mark.parametrize(
    ("asked", "others", "passes"),
    [
        pytest.param("they owe me for the desk", (), False, id="nobody else says so"),
        pytest.param(
            "they owe me for the desk",
            ("they owe me for the lamp", "they owe me for the sofa"),
            True,
            id="others agree",
        ),
        pytest.param("thank you very much", (), False, id="thanks are for no flow"),
    ],
)
async def test_one_filter_of_doubt_for_learning_suggestions_and_teaching(
    entry: Entry, asked: str, others: tuple[str, ...], passes: bool
) -> None:
    right = "reimburse"
    registry = FlowRegistry(min_examples=0)
    words = {"reimburse": ["reimburse my order", "i want to be reimbursed", "reimbursement please"]}
    words |= {"lamp": ["my lamp is dark", "lamp for the desk", "the bulb of a lamp"]}
    words |= {"desk": ["a desk of oak", "desk with drawers", "raise my desk"]}
    for name, examples in words.items():
        Flow(name=name, description=f"All of {name}.", examples=examples, registry=registry)
    said_so = [entry(text, (right,)) for text in (*others, asked)]
    learned = await learn(registry, said_so, embedder=HashEmbedder())
    found = await rehearsed(registry, asked, right, entries=said_so, embedder=HashEmbedder())
    offered = await suggest(registry, said_so, flows=[right], embedder=HashEmbedder())
    is_held = any(each.request == asked and "a person should look" in each.why for each in learned.refused)
    assert [not found.doubt, not is_held, asked in {each.text for each in offered.suggested}] == [passes] * 3


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
    await rehearsed(small_shop, "with a bow", "address", entries=said_so, embedder=HashEmbedder())
    assert "MainThread" not in {for_learning.thread, for_teaching.thread}
