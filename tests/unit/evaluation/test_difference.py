"""What lies between two versions of a catalogue, against brute force and as values."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.evaluation import (
    Case,
    Difference,
    Effect,
    Gates,
    Outcome,
    Probe,
    Routed,
    SideState,
    Source,
    indexed,
    questions,
)
from jazz_select.evaluation.changes.difference import ChangeKind, confidence_class
from jazz_select.evaluation.changes.markdown_comment import comment
from jazz_select.evaluation.changes.snapshots import describe_flows, query_key
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.route import Query, route_with_temp_index
from jazz_select.selector.policy import Policy
from jazz_select.testing import HashEmbedder, ScriptedModel

BASE = {
    "refund": ["money back please", "refund my order", "i want a refund", "return and refund", "give the money back"],
    "track": ["where is my parcel", "track my order", "has it shipped", "parcel tracking", "when does it arrive"],
    "invoice": ["send the invoice", "i need a bill", "invoice copy", "receipt for taxes", "bill for my order"],
    "address": ["change my address", "i have moved", "new street", "deliver it elsewhere", "wrong house number"],
}
REQUESTS = ("my parcel", "a bill please", "order", "money for taxes", "i moved, where is it", "refund the parcel")


def catalogue(flows: Mapping[str, Sequence[str]], *, backwards: bool = False) -> FlowRegistry:
    made = FlowRegistry()
    for name in sorted(flows, reverse=backwards):
        Flow(
            name=name,
            description=f"All about {name}.",
            condition=f"The user asks for {name}.",
            desired_effects=[f"{name} is done"],
            examples=list(flows[name]),
            registry=made,
        )
    return made


def difference(base: FlowRegistry, head: FlowRegistry, cases: Sequence[Case] = ()) -> Difference:
    async def found() -> Difference:
        asked = questions(cases, REQUESTS, describe_flows(base), describe_flows(head))
        return Difference.between(await state(base, asked), await state(head, asked), asked)

    return asyncio.run(found())


async def state(registry: FlowRegistry, asked: Sequence[Probe]) -> SideState:
    led_to = await route_with_temp_index(registry, [each.asked for each in asked], embedder=HashEmbedder())
    by_key = {each.key: route for each, route in zip(asked, led_to, strict=True)}
    return SideState(label="side", flows=describe_flows(registry), routes=by_key)


Selected = dict[str, tuple[str, set[str]]]


async def selected(registry: FlowRegistry, requests: Sequence[str]) -> Selected:
    """First and candidates of each, asked by itself, as a user's request comes."""
    found: Selected = {}
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        selector = FlowSelector(
            ScriptedModel(*["[]"] * len(requests)),
            registry,
            memory,
            AGENT,
            top_k="auto",
            policy=Policy(on_empty="none"),
        )
        for request in requests:
            names = [each.flow_name for each in (await selector.select(request)).decision.candidates]
            found[request] = (names[0] if names else "", set(names))
    return found


@pytest.mark.spec("007.3")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("refund", "parcel bill", id="among others"),
        pytest.param("address", "my order moved", id="nearer to another"),
        pytest.param("track", "tax refund soon", id="far from its own"),
    ],
)
def test_one_more_example_moves_exactly_what_asking_both_versions_moves(name: str, words: str) -> None:
    head = BASE | {name: [*BASE[name], words]}
    found = difference(catalogue(BASE), catalogue(head))
    told = {each.request: each for each in found.changes}
    requests = [*REQUESTS, words, *(example for examples in BASE.values() for example in examples)]
    before = asyncio.run(selected(catalogue(BASE), requests))
    after = asyncio.run(selected(catalogue(head), requests))
    for request in requests:
        kinds = told[request].kinds if request in told else ()
        assert (before[request][0] != after[request][0]) == (ChangeKind.FIRST in kinds), request
        assert (before[request][1] != after[request][1]) == (ChangeKind.CANDIDATES in kinds), request
    assert told.keys() <= set(requests)
    assert found.flows.changed == {name: ("examples",)}
    assert found.after.requests == found.before.requests == len(requests)


@pytest.mark.spec("007.3")
@pytest.mark.parametrize("backwards", [False, True], ids=["as it is", "in another order"])
def test_a_catalogue_and_itself_have_nothing_between_them(backwards: bool) -> None:
    cases = [Case(request="my parcel", expect=("track",)), Case(request="the weather", expect=())]
    found = difference(catalogue(BASE), catalogue(BASE, backwards=backwards), cases)
    assert (found.changes, found.confusions, found.flows.any, found.passed) == ((), (), False, True)
    assert found.before == found.after
    assert found.summary.startswith("No request is led elsewhere")


def made_route(names: list[str], offered: int, outcome: Outcome, confidence: float | None) -> Routed:
    count = min(offered, len(names))
    return Routed(request="", ranking=tuple(names), offered=count, confidences=(confidence,) * count, outcome=outcome)


ROUTES = st.builds(
    made_route,
    st.lists(st.sampled_from("abcd"), unique=True, max_size=4),
    st.integers(0, 4),
    st.sampled_from(Outcome),
    st.none() | st.floats(0, 1),
)
FLOWS = {name: {"name": name, "description": name, "examples": [f"about {name}"]} for name in "abcd"}
ASKED = [
    Probe(asked=Query(request="one"), source=Source.CASE, expect=("a",)),
    Probe(asked=Query(request="two"), source=Source.CASE, expect=("b", "c")),
    Probe(asked=Query(request="three"), source=Source.CASE, expect=()),
    Probe(asked=Query(request="four"), source=Source.LOGGED),
    Probe(asked=Query(request="five"), source=Source.EXAMPLE, expect=("d",)),
]
SIDES = st.tuples(
    st.lists(ROUTES, min_size=len(ASKED), max_size=len(ASKED)), st.sets(st.sampled_from("abcd"), min_size=1)
)
MIRRORED = {
    Effect.BROKEN: Effect.FIXED,
    Effect.LOST: Effect.FOUND,
    Effect.FIXED: Effect.BROKEN,
    Effect.FOUND: Effect.LOST,
    Effect.NONE: Effect.NONE,
    Effect.GONE: Effect.NONE,
    Effect.SURER: Effect.NONE,
}


def side(label: str, made: tuple[list[Routed], set[str]]) -> SideState:
    found = {each.key: replace(route, request=each.asked.request) for each, route in zip(ASKED, made[0], strict=True)}
    return SideState(label=label, flows={name: FLOWS[name] for name in made[1]}, routes=found)


@pytest.mark.spec("007.3")
@given(one=SIDES, other=SIDES)
def test_backwards_it_is_its_own_mirror(one: Any, other: Any) -> None:
    there = Difference.between(side("one", one), side("other", other), ASKED)
    back = Difference.between(side("other", other), side("one", one), ASKED)
    for one_way, other_way in ((there.before, back.after), (there.after, back.before)):
        known = replace(one_way, labelled=0), replace(other_way, labelled=0)
        assert known[0] == known[1], "but for the cases that lost their flow"
    assert (there.flows.added, there.flows.removed) == (back.flows.removed, back.flows.added)
    mirrored = {
        each.request: (
            each.after,
            each.before,
            set(each.kinds),
            MIRRORED[each.effect],
            set(each.left),
            set(each.entered),
        )
        for each in back.changes
        if each.kinds
    }
    assert mirrored == {
        each.request: (
            each.before,
            each.after,
            set(each.kinds),
            each.effect if each.effect not in {Effect.GONE, Effect.SURER} else Effect.NONE,
            set(each.entered),
            set(each.left),
        )
        for each in there.changes
        if each.kinds
    }
    assert [each.effect for each in there.changes if each.effect is Effect.BROKEN] == [
        each.effect for each in there.broken if each.effect is Effect.BROKEN
    ] + [each.effect for each in there.changes if each.effect is Effect.BROKEN and each.source is Source.EXAMPLE]


@given(one=SIDES)
def test_nothing_lies_between_a_version_and_itself(one: Any) -> None:
    assert Difference.between(side("one", one), side("one", one), ASKED).changes == ()


def route(*names: str, outcome: Outcome = Outcome.ASKED, sure: float | None = 0.9) -> Routed:
    return Routed(request="r", ranking=names, offered=len(names), confidences=(sure,) * len(names), outcome=outcome)


def between(before: Routed, after: Routed, expect: tuple[str, ...] | None, source: Source = Source.CASE) -> Difference:
    asked = Probe(asked=Query(request="r"), source=source, expect=expect)
    older = SideState(label="a", flows=FLOWS, routes={asked.key: before})
    newer = SideState(label="b", flows=FLOWS, routes={asked.key: after})
    return Difference.between(older, newer, [asked])


@pytest.mark.parametrize(
    ("before", "after", "expect", "kinds", "effect"),
    [
        pytest.param(route("a", "b"), route("b", "a"), ("a",), "first", Effect.BROKEN, id="broken"),
        pytest.param(route("b", "a"), route("a", "b"), ("a",), "first", Effect.FIXED, id="fixed"),
        pytest.param(route("b", "a"), route("b", "c"), ("a",), "candidates", Effect.LOST, id="lost"),
        pytest.param(route("b", "c"), route("b", "a"), ("a",), "candidates", Effect.FOUND, id="found"),
        pytest.param(route("a", "b"), route("b", "a"), ("a", "b"), "first", Effect.NONE, id="either is right"),
        pytest.param(route("a"), route("a", outcome=Outcome.TAKEN), ("a",), "outcome", Effect.NONE, id="asks no more"),
        pytest.param(
            route(outcome=Outcome.NONE),
            route("a", outcome=Outcome.TAKEN),
            (),
            "first candidates outcome confidence",
            Effect.BROKEN,
            id="none was right",
        ),
        pytest.param(route("a"), route("a", outcome=Outcome.TAKEN), (), "outcome", Effect.LOST, id="none is right"),
        pytest.param(route("a", sure=0.9), route("a", sure=0.7), ("a",), "confidence", Effect.NONE, id="less sure"),
        pytest.param(route("a", sure=0.801), route("a", sure=0.799), ("a",), "", Effect.NONE, id="drift over a border"),
        pytest.param(route("a", sure=0.81), route("a", sure=0.97), ("a",), "", Effect.NONE, id="surer in its class"),
        pytest.param(
            route("b", "a", sure=0.81),
            route("b", "a", sure=0.97, outcome=Outcome.TAKEN),
            ("a",),
            "outcome",
            Effect.NONE,
            id="wrong, and surer in its class",
        ),
        pytest.param(
            route("a", "b", "c"), route("a", "c", "b"), ("a",), "", Effect.NONE, id="other order further down"
        ),
    ],
)
def test_what_counts_as_a_change(
    before: Routed, after: Routed, expect: tuple[str, ...], kinds: str, effect: Effect
) -> None:
    found = between(before, after, expect)
    assert [(" ".join(each.kinds), each.effect) for each in found.changes] == ([(kinds, effect)] if kinds else [])
    assert bool(found.shuffled) is (kinds == "candidates" and effect is Effect.NONE)


@pytest.mark.parametrize(
    ("sure", "name"),
    [
        (None, "unknown"),
        (1.0, "sure"),
        (0.98, "sure"),
        (0.97, "likely"),
        (0.5, "open"),
        (0.1, "unlikely"),
        (0.0, "unlikely"),
    ],
)
def test_confidence_in_words(sure: float | None, name: str) -> None:
    assert confidence_class(sure) == name


def test_a_flow_under_a_new_name_has_not_moved_anything() -> None:
    head = {("order_tracking" if name == "track" else name): examples for name, examples in BASE.items()}
    cases = [Case(request="parcel tracking now", expect=("track",)), Case(request="tax", expect=("gone_long_ago",))]
    found = difference(catalogue(BASE), catalogue(head), cases)
    assert found.flows.renamed == {"track": "order_tracking"}
    assert (found.flows.added, found.flows.removed) == ((), ())
    assert found.flows.describe("order_tracking") == "order_tracking has a new name"
    assert "condition" in found.flows.changed["order_tracking"]
    assert found.moved == () or all("track" not in each.before.first for each in found.moved)
    assert found.before.labelled == found.after.labelled == 1, "the label of the old name is read as the new one"
    assert any("gone_long_ago" in note for note in found.notes)
    assert found.broken == (), "nothing is lost by a new name"


def test_a_case_whose_flow_is_gone_counts_wherever_it_led() -> None:
    asked = [Probe(asked=Query(request="case"), source=Source.CASE, expect=("c",))]
    routes = {asked[0].key: route("a", "b")}
    older = SideState(label="a", flows=FLOWS, routes=routes)
    newer = SideState(label="b", flows={name: FLOWS[name] for name in "abd"}, routes=routes)
    found = Difference.between(older, newer, asked)
    assert [(each.effect, each.kinds) for each in found.broken] == [(Effect.GONE, ())]
    assert (found.after.labelled, found.after.recall_at_1) == (1, 0.0)


def test_a_removed_flow_is_told_as_the_reason() -> None:
    head = {name: examples for name, examples in BASE.items() if name != "track"}
    found = difference(catalogue(BASE), catalogue(head), [Case(request="parcel tracking", expect=("track",))])
    assert found.flows.removed == ("track",)
    moved = {each.request: each for each in found.moved}
    assert moved["parcel tracking"].why == "perhaps track was removed", "until taking it back has shown it"
    assert "lost its flow: track" in moved["parcel tracking"].details
    assert moved["parcel tracking"].effect is Effect.GONE
    assert [each.request for each in found.broken] == ["parcel tracking"]
    assert "1 case is broken (1 lost its flow)" in found.summary
    assert (found.before.labelled, found.after.labelled) == (1, 1)
    assert (found.before.recall_at_1, found.after.recall_at_1) == (1.0, 0.0)
    stopped = Gates(max_broken_cases=0, min_recall_at_1=0.8).failures(found)
    assert [each.gate for each in stopped] == ["max_broken_cases", "min_recall_at_1"]
    assert any("the earlier version alone has" in note and "track" in note for note in found.notes)


def test_worst_first_and_confusions_that_grew() -> None:
    asked = [
        Probe(asked=Query(request=request), source=source, expect=expect)
        for request, source, expect in [
            ("example", Source.EXAMPLE, ("a",)),
            ("logged", Source.LOGGED, None),
            ("case", Source.CASE, ("a",)),
            ("better", Source.CASE, ("b",)),
        ]
    ]
    older = SideState(label="a", flows=FLOWS, routes={each.key: route("a", "b") for each in asked})
    newer = SideState(label="b", flows=FLOWS, routes={each.key: route("b", "a") for each in asked})
    found = Difference.between(older, newer, asked)
    assert [each.request for each in found.changes] == ["case", "logged", "example", "better"]
    assert [(each.expected, each.first, each.before, each.after) for each in found.confusions] == [("a", "b", 0, 2)]
    assert (found.before.recall_at_1, found.after.recall_at_1) == (0.5, 0.5)
    assert [each.request for each in found.broken] == ["case"]
    assert [each.request for each in found.fixed] == ["better"]


def sure_of(name: str, confidence: float) -> Routed:
    return made_route([name, "a"], 2, Outcome.ASKED, confidence)


def test_a_wrong_case_that_becomes_surer_comes_right_after_what_is_lost() -> None:
    expect = {"surer": ("a",), "less sure": ("a",), "right": ("b",), "lost": ("d",), "nothing fits": ()}
    asked = [Probe(asked=Query(request=name), source=Source.CASE, expect=each) for name, each in expect.items()]
    asked.append(Probe(asked=Query(request="moved"), source=Source.LOGGED))
    before, after = (dict.fromkeys((each.key for each in asked), sure_of("b", sure)) for sure in (0.37, 0.86))
    before[asked[1].key], after[asked[1].key] = sure_of("b", 0.86), sure_of("b", 0.37)
    before[asked[3].key] = made_route(["b", "d"], 2, Outcome.ASKED, 0.86)
    before[asked[5].key] = sure_of("c", 0.86)
    older, newer = (SideState(label="x", flows=FLOWS, routes=routes) for routes in (before, after))
    found = Difference.between(older, newer, asked)
    assert [(each.request, each.effect.value) for each in found.changes] == [
        ("lost", "lost"),
        ("nothing fits", "surer"),
        ("surer", "surer"),
        ("moved", ""),
        ("less sure", ""),
        ("right", ""),
    ]
    assert [each.request for each in found.broken] == ["lost"]
    assert "right is a" in comment(found)
    assert str(found) == found.summary


def test_a_difference_as_plain_json_and_in_words() -> None:
    asked = Probe(asked=Query(request="r"), source=Source.CASE, expect=("a",))
    told = {**FLOWS, "b": {**FLOWS["b"], "condition": "now"}, "e": {"name": "e"}}
    older = SideState(
        label="old", flows={**FLOWS, "b": {**FLOWS["b"], "condition": ""}}, routes={asked.key: route("a")}
    )
    newer = SideState(
        label="new", flows={name: told[name] for name in "abce"}, routes={asked.key: route("b", sure=0.6)}
    )
    found = Difference.between(older, newer, [asked])
    assert found.flows.in_words == {"added": ("e",), "removed": ("d",), "renamed": (), "changed": ("b (condition)",)}
    (change,) = found.changes
    assert change.details == ["candidates +b -a", "likely (0.90) → open (0.60)", "perhaps b changed (condition)"]
    assert replace(change, why="").details == change.details[:-1]
    assert found.summary == "1 of 1 requests has another first candidate; 1 case is broken, none fixed."
    data = found.to_dict()
    led = {"outcome": Outcome.ASKED}
    assert (data["changes"][0]["before"], data["changes"][0]["after"]) == (
        {**led, "first": "a", "candidates": ("a",), "confidence": 0.9, "confidence_class": "likely"},
        {**led, "first": "b", "candidates": ("b",), "confidence": 0.6, "confidence_class": "open"},
    )
    assert (data["summary"], data["passed"]) == (found.summary, True)
    totals = {"requests": 1, "labelled": 1, "asked": 1, "taken": 0, "none": 0, "counted": 0, "prompt_tokens": 0}
    assert data["before"] == {**totals, "flows": 4, "right": 1.0, "recall_at_1": 1.0, "asked_share": 1.0}
    told_of = {"requests": "1", "would ask a model": "1 of 1 (100.0%)", "decided without": "0", "lead nowhere": "0"}
    assert found.before.figures == {"flows": "4", "R@1": "100.0% of 1", **told_of, "tokens of prompts": "–"}
    assert replace(found.after, asked=1, taken=2, none=4).users == 7
    counted = replace(found.after, labelled=0, counted=2, prompt_tokens=1_500).figures
    assert counted == {"flows": "4", "R@1": "–", **told_of, "tokens of prompts": "1,500 in 2"}
    assert data["after"] == {**totals, "flows": 4, "right": 0.0, "recall_at_1": 0.0, "asked_share": 1.0}


def test_what_was_confused_before_is_no_new_confusion() -> None:
    assert between(route("b", "a"), route("b", "c"), ("a",)).confusions == ()
    assert len(between(route("a", "b"), route("b", "a"), ("a",)).confusions) == 1


def test_where_nothing_is_found_nothing_is_confused_with_the_right_flow() -> None:
    found = between(route("a"), route(outcome=Outcome.NONE), ("a",))
    assert (found.confusions, [each.effect for each in found.changes]) == ((), [Effect.BROKEN])


def test_a_request_is_asked_once_and_as_what_says_most_of_it() -> None:
    cases = [Case(request="hi", expect=("a",)), Case(request="hi", expect=("a",), episodes=("before",))]
    asked = questions(
        cases, ["hi", "log", " ", "log"], {"a": {"examples": ["hi", "own"]}}, {"b": {"examples": ["own"]}}
    )
    assert [(each.asked.request, each.source.value, each.expect) for each in asked] == [
        ("hi", "case", ("a",)),
        ("hi", "case", ("a",)),
        ("log", "logged", None),
        ("own", "example", ("a", "b")),
    ]
    assert query_key(Query(request="hi", context={"b": 1, "a": 2})) == query_key(
        Query(request="hi", context={"a": 2, "b": 1})
    )


def test_the_order_of_harm() -> None:
    """Their names go the other way, wherever anything else tells them apart."""
    made: list[tuple[str, Source, tuple[str, ...] | None, Routed, Routed]] = [
        ("z broken", Source.CASE, ("a",), route("a", "b"), route("b", "a")),
        ("y lost", Source.CASE, ("d",), route("b", "d"), route("b", "c")),
        ("x surer", Source.CASE, ("a",), route("b", "a", sure=0.6), route("b", "a", sure=0.9)),
        ("w logged, moved", Source.LOGGED, None, route("a"), route("b")),
        ("u example, broken", Source.EXAMPLE, ("a",), route("a"), route("b")),
        ("v example, moved", Source.EXAMPLE, ("d",), route("a"), route("b")),
        ("v example, moved and lost", Source.EXAMPLE, ("d",), route("b", "d"), route("c", "b")),
        ("t example, lost", Source.EXAMPLE, ("d",), route("b", "d"), route("b", "c")),
        ("s found", Source.CASE, ("d",), route("b", "c"), route("b", "d")),
        ("r example, fixed", Source.EXAMPLE, ("b",), route("a", "b"), route("b", "a")),
        ("q surer, unlabelled", Source.LOGGED, None, route("b", sure=0.6), route("b", sure=0.9)),
        ("p asks no more", Source.EXAMPLE, ("a",), route("a"), route("a", outcome=Outcome.TAKEN)),
        ("o case, candidates", Source.CASE, ("a",), route("a", "b"), route("a", "c")),
        ("n logged, candidates", Source.LOGGED, None, route("a", "b"), route("a", "c")),
    ]
    asked = [Probe(asked=Query(request=request), source=source, expect=expect) for request, source, expect, *_ in made]
    before = {question.key: each[3] for question, each in zip(asked, made, strict=True)}
    after = {question.key: each[4] for question, each in zip(asked, made, strict=True)}
    older, newer = (SideState(label="x", flows=FLOWS, routes=routes) for routes in (before, after))
    found = Difference.between(older, newer, asked[::-1])
    assert [each.request for each in found.changes] == [request for request, *_ in made]
    assert found.summary.split("; ") == [
        "6 of 14 requests have another first candidate",
        "6 more change in candidates, outcome or confidence",
        "2 have other candidates behind the same first",
        "3 examples lie with another flow now",
        "2 cases are broken, 1 fixed.",
    ]


def test_a_request_that_is_no_case_counts_as_none_whatever_is_right() -> None:
    sources = {"case": Source.CASE, "logged": Source.LOGGED, "example": Source.EXAMPLE}
    asked = [Probe(asked=Query(request=name), source=each, expect=("a",)) for name, each in sources.items()]
    left = [
        Probe(asked=Query(request=f"{each.asked.request}, gone"), source=each.source, expect=("d",)) for each in asked
    ]
    older = SideState(label="a", flows=FLOWS, routes={each.key: route("a", "b") for each in (*asked, *left)})
    less = {name: told for name, told in FLOWS.items() if name != "d"}
    newer = SideState(label="b", flows=less, routes={each.key: route("b", "a") for each in (*asked, *left)})
    worse = Difference.between(older, newer, [*asked, *left])
    assert [each.request for each in worse.broken] == ["case", "case, gone"]
    assert (worse.before.labelled, worse.before.right, worse.after.labelled, worse.after.right) == (2, 1.0, 2, 0.0)
    assert [each.request for each in worse.changes if each.effect is Effect.GONE] == ["case, gone"]
    assert worse.notes == ("a label of a case names flows that the earlier version alone has: d",)
    assert worse.summary.endswith("2 cases are broken (1 lost its flow), none fixed.")
    better = Difference.between(newer, older, asked)
    assert [each.request for each in better.fixed] == ["case"]
    assert (better.before.recall_at_1, better.after.recall_at_1) == (0.0, 1.0)
