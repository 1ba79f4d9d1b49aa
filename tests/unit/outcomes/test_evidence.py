"""What a log is evidence for: trust by the source, one witness a key, and nothing of what was contradicted."""

from dataclasses import dataclass, replace

import pytest

from jazz_select.outcomes import Logged, Source
from jazz_select.outcomes.evidence import (
    TRUST,
    Evidence,
    LogEvidence,
    is_contradicted,
    read_evidence,
    same_request,
    witness_of,
    witnessed_hints,
)

FLOWS = ("refund", "track", "cancel")
MODEL = Source(kind="model", name="m", key="app")
RECALL = Source(kind="recall", key="app")
ADA = Source(kind="person", name="ada")
BOB = Source(kind="person", name="bob")


def user(key: str = "", conversation: str = "") -> Source:
    return Source(kind="user", name=conversation, key=key)


def entry(
    request: str = "where is it",
    chosen: str = "track",
    *,
    by: Source = MODEL,
    right: tuple[str, ...] | None = None,
    current_source: Source | None = None,
    at: float = 0.0,
    said_at: float | None = None,
) -> Logged:
    own = (chosen,) if chosen else ()
    return Logged(
        id=f"{request}|{by}|{current_source}|{at}",
        at=at,
        request=request,
        chosen=own,
        candidates=("track", "refund"),
        chosen_by=by,
        right=right,
        corrected_by=current_source,
        corrected_at=said_at,
    )


def read(*entries: Logged) -> LogEvidence:
    return read_evidence(entries, flows=FLOWS)


def told(found: LogEvidence) -> list[tuple[str, str, float]]:
    return [(each.request, each.right, each.trust) for each in found.certain]


@dataclass(frozen=True)
class Said:
    """What an entry says, and what it is evidence for: (flow, trust), "hint", or why it is none."""

    entry: Logged
    expected: tuple[str, float] | str


CASES = {
    "a model's choice": Said(entry(), ("track", TRUST["model"])),
    "a model's none": Said(entry(chosen=""), ("", TRUST["model"])),
    "a model's choice that the user confirms": Said(
        entry(right=("track",), current_source=user("app")), ("track", TRUST["model"])
    ),
    "a model's choice that a user contradicts": Said(entry(right=("refund",), current_source=user("app")), "hint"),
    "a model's choice that an agent saw called off": Said(
        entry(right=(), current_source=Source(kind="agent")), "it was called off"
    ),
    "a model's choice that an agent saw changed": Said(
        entry(right=("refund",), current_source=Source(kind="agent")), "hint"
    ),
    "a person's correction": Said(entry(right=("refund",), current_source=ADA), ("refund", 1.0)),
    "a person who agrees": Said(entry(right=("track",), current_source=ADA), ("track", 1.0)),
    "a person who says none": Said(entry(right=(), current_source=ADA), ("", 1.0)),
    "a person who names two": Said(
        entry(right=("track", "refund"), current_source=ADA), "several flows are right for it"
    ),
    "recall's own choice": Said(entry(by=RECALL), "nobody was asked"),
    "a user's pick": Said(entry(by=user("app")), "hint"),
    "a user's word about recall's choice": Said(entry(by=RECALL, right=("track",), current_source=user("app")), "hint"),
    "a text that was not kept": Said(entry(" "), "its text was not kept"),
    "a turn within a conversation": Said(replace(entry(), alone=False), "it needs what was said before"),
    "a flow that is gone": Said(entry(chosen="old"), "its flow is not in the catalogue"),
    "two flows": Said(replace(entry(), chosen=("track", "refund")), "several flows were chosen for it"),
}


@pytest.mark.spec("016.3")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_weight_follows_the_source(case: Said) -> None:
    found = read(case.entry)
    if case.expected == "hint":
        assert (len(found.hints), found.certain, found.left_out) == (1, (), {})
    elif isinstance(case.expected, str):
        assert (found.hints, found.certain, found.left_out) == ((), (), {case.expected: 1})
    else:
        assert [(each.right, each.trust) for each in found.certain] == [case.expected]
        assert found.certain[0].recall_first == "track"


@pytest.mark.spec("016.3")
def test_a_persons_word_stands_against_all_others_and_the_last_of_two_counts() -> None:
    models = [entry(at=at) for at in range(20)]
    hint = entry("Where is it?", by=user("other"), chosen="track")
    by_ada = entry("where is it", right=("refund",), current_source=ADA, at=30)
    found = read(*models, hint, by_ada)
    assert told(found) == [("where is it", "refund", 1.0)]
    assert found.hints == ()
    assert found.certain[0].by_person
    later = entry("WHERE  is it?!", right=("cancel",), current_source=BOB, at=40)
    assert [each.right for each in read(*models, by_ada, later).certain] == ["cancel"]
    assert [each.right for each in read(*models).certain] == ["track"], "taken back, it is as if it was never said"


def model(key: str = "") -> Source:
    return Source(kind="model", name="m", key=key)


def test_a_request_counts_once_by_what_most_models_say() -> None:
    unkeyed = [entry(by=model(), at=1), entry("Where is it?", by=model(), at=2)]
    found = read(*unkeyed, entry(chosen="refund", at=3))
    assert told(found) == [("where is it", "track", pytest.approx(TRUST["model"] * 2 / 3))]
    assert len(found.certain[0].ids) == 2
    one_each = [entry(by=model("a"), at=1), entry(by=model("b"), chosen="refund", at=2)]
    assert [each.right for each in read(*one_each).certain] == ["refund"], "the later"


@pytest.mark.spec("016.3")
def test_no_key_outvotes_others_by_repetition() -> None:
    others = [entry(by=model(f"key{at}"), at=at) for at in range(20)]
    repeated = [entry(by=model("loud"), chosen="refund", at=at) for at in range(20, 41)]
    for said in ([*others, *repeated], [*repeated, *others]):
        (found,) = read(*said).certain
        assert (found.right, found.witnesses) == ("track", 20)
        assert found.trust == pytest.approx(TRUST["model"] * 20 / 21)


def test_of_a_keys_choices_the_last_counts() -> None:
    changed = [entry(at=1), entry(at=2), entry(chosen="refund", at=3)]
    assert told(read(*changed)) == [("where is it", "refund", TRUST["model"])]


WITNESSES = {
    "one key, once": ([user("a")], False),
    "one key, a thousand times": ([user("a", str(number)) for number in range(1_000)], False),
    "two keys": ([user("a"), user("b")], True),
    "one conversation without a key": ([user("", "1")] * 2, False),
    "two conversations without a key": ([user("", "1"), user("", "2")], True),
    "no conversation and no key": ([user()] * 50, False),
    "an agent and a user with one key": ([user("a"), Source(kind="agent", key="a", name="9")], False),
}


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(("sources", "counts"), WITNESSES.values(), ids=WITNESSES.keys())
def test_a_hint_needs_independent_witnesses_and_one_key_is_one(sources: list[Source], *, counts: bool) -> None:
    said = [entry(by=RECALL, right=("track",), current_source=each, at=at) for at, each in enumerate(sources)]
    found = read(*said)
    assert found.certain == ()
    assert len(found.hints) == len(sources)
    kept = witnessed_hints(found.hints, may_change=["cancel"])
    assert [(each.right, each.witnesses) for each in kept] == ([("track", len(set(map(witness_of, sources))))] * counts)


@pytest.mark.spec("016.3")
def test_what_recall_says_of_itself_is_no_hint() -> None:
    found = read(*(entry(by=RECALL, right=("track",), current_source=RECALL, at=at) for at in range(5)))
    assert (found.certain, found.hints) == ((), ())


@pytest.mark.spec("016.3")
def test_no_number_of_hints_leads_to_a_flow_that_may_change_something() -> None:
    said = [entry(by=RECALL, right=("cancel",), current_source=user(f"key{number}")) for number in range(100)]
    hints = read(*said).hints
    assert witnessed_hints(hints, may_change=["cancel"]) == ()
    assert [each.right for each in witnessed_hints(hints, may_change=[])] == ["cancel"]


def test_requests_that_mean_the_same_are_witnesses_of_each_other() -> None:
    hints = read(
        entry("where is my parcel", by=user("a")),
        entry("where's the parcel", by=user("b")),
        entry("hello", by=user("c")),
    ).hints
    assert witnessed_hints(hints, may_change=[]) == ()
    kept = witnessed_hints(hints, may_change=[], alike=[(0, 1), (0, 1), (2,)])
    assert [each.request for each in kept] == ["where is my parcel", "where's the parcel"]


def hinted(*said: tuple[str, str, float]) -> list[tuple[str, str]]:
    """What counts of hints: each a key, a flow, and when it was said; all were asked at the same time."""
    entries = [entry(by=RECALL, right=(flow,), current_source=user(key), said_at=at) for key, flow, at in said]
    return [(each.request, each.right) for each in witnessed_hints(read(*entries).hints, may_change=[])]


@pytest.mark.spec("016.3")
def test_of_one_witness_the_last_hint_counts() -> None:
    counts = [("where is it", "refund")]
    assert hinted(("a", "track", 1), ("a", "refund", 2), ("b", "refund", 3)) == counts
    assert hinted(("a", "refund", 2), ("a", "track", 1), ("b", "refund", 3)) == counts, "said last, though read first"
    assert hinted(("a", "track", 1), ("b", "track", 2), ("a", "refund", 3)) == []


@pytest.mark.spec("016.3")
def test_hints_that_disagree_do_not_count() -> None:
    agree = [("a", "track", 1.0), ("b", "track", 2.0)]
    assert hinted(*agree) == [("where is it", "track")]
    assert hinted(*agree, ("c", "refund", 3)) == []
    assert hinted(*agree, ("c", "refund", 3), ("d", "refund", 4)) == []


def test_contradiction_is_of_what_was_chosen() -> None:
    assert not is_contradicted(entry())
    assert not is_contradicted(entry(right=("track",), current_source=ADA))
    assert is_contradicted(entry(right=(), current_source=ADA))


@pytest.mark.parametrize("text", ["Where is it?", "where  IS it", "\uff37here is it!", "where-is it"])
def test_the_same_request_in_other_spelling(text: str) -> None:
    assert same_request(text) == "where is it"


@pytest.mark.spec("016.3")
def test_of_persons_words_the_last_said_counts_not_the_last_asked() -> None:
    first = entry(right=("refund",), current_source=ADA, at=1, said_at=9)
    second = entry(right=("cancel",), current_source=BOB, at=2, said_at=5)
    assert [each.right for each in read(first, second).certain] == ["refund"]


@pytest.mark.spec("016.3")
def test_a_persons_word_that_is_taken_back_later_is_no_truth() -> None:
    word = entry(right=("refund",), current_source=ADA, at=1, said_at=5)
    back = entry(by=RECALL, current_source=BOB, at=2, said_at=9)
    assert read(word, back).certain == ()
    again = replace(back, corrected_at=4.0)
    assert [each.right for each in read(word, again).certain] == ["refund"], "said again after that"


SPOKEN = {
    "several flows": ("track", "refund"),
    "a flow that is gone": ("old",),
    "no flow": (),
    "one": ("refund",),
}


@pytest.mark.spec("016.3")
@pytest.mark.parametrize("right", SPOKEN.values(), ids=SPOKEN.keys())
def test_what_a_person_spoke_of_is_learned_from_nobody_else(right: tuple[str, ...]) -> None:
    alone = replace(entry("Where is it?", by=RECALL, at=3), reason="confident")
    others = [entry(at=1), entry(by=user("a"), at=2), entry(by=user("b"), at=2), alone]
    word = entry("WHERE is it", right=right, current_source=ADA, at=4)
    for said in ([*others, word], [word, *others]):
        found = read(*said)
        assert (found.hints, found.alone) == ((), ())
        assert all(each.by_person for each in found.certain)


@pytest.mark.spec("016.3")
def test_several_flows_said_later_stand_against_one() -> None:
    one = entry(right=("refund",), current_source=ADA, at=1)
    several = entry(right=("refund", "track"), current_source=BOB, at=2)
    assert read(one, several).certain == ()


@pytest.mark.spec("016.3")
def test_a_hint_that_a_person_took_back_is_none() -> None:
    picks = [entry(by=user("a"), current_source=ADA, at=1), entry(by=user("b"), at=2), entry(by=user("c"), at=3)]
    assert read(*picks).hints == ()
    assert [each.right for each in read(entry(at=1), *picks).certain] == ["track"], "a model's choice stands"


OTHERS = {
    "vowels that are marks": ("मेरा खाता खाली", "मेरा खाता खोलें"),
    "marks of Tamil": ("கடை", "கடி"),
    "a sharp": ("write C", "write C#"),
    "pluses": ("write C", "write C++"),
    "a sign": ("transfer -5", "transfer 5"),
    "a point in a number": ("10.5", "10 5"),
    "a comma in a number": ("1,5 kg", "1 5 kg"),
    "a currency": ("pay $5", "pay €5"),
    "a comparison": ("x < 3", "x > 3"),
    "a picture": ("send 🎷", "send 🎺"),
    "a modifier": ("2^3", "2 3"),
}


@pytest.mark.spec("016.3")
@pytest.mark.parametrize(("one", "other"), OTHERS.values(), ids=OTHERS.keys())
def test_what_tells_requests_apart_stays(one: str, other: str) -> None:
    assert same_request(one) != same_request(other)
    found = read(entry(one, right=("refund",), current_source=ADA), entry(other, at=1))
    assert [(each.request, each.right) for each in found.certain] == [(one, "refund"), (other, "track")]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Where is it # ?", "where is it"),
        ("well - where, is it.", "well where is it"),
        ("it costs 5.", "it costs 5"),
        ("5, or 6", "5 or 6"),
        ("e-mail", "e mail"),
        ("Cafe\u0301", "caf\u00e9"),
    ],
)
def test_punctuation_elsewhere_tells_nothing(text: str, same: str) -> None:
    assert same_request(text) == same


def test_evidence_travels_as_data() -> None:
    (found,) = read(entry(at=3.0)).certain
    assert Evidence.from_dict(found.to_dict()) == found
