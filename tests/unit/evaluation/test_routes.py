"""Routes: where requests lead before a model is asked, as a selector leads them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import Flow, FlowRegistry, FlowSelector
from jazz_select.evaluation import Outcome, Query, indexed, routes
from jazz_select.evaluation.changes.snapshots import dumps
from jazz_select.evaluation.index import AGENT
from jazz_select.evaluation.route import Routed, RouteOptions
from jazz_select.ports import Vectors
from jazz_select.selector.policy import Policy
from jazz_select.serialization import value_of
from jazz_select.testing import HashEmbedder, ScriptedModel
from jazz_select.values import Reason
from tests.unit.evaluation.small_shop import REQUESTS, add

MORE = (
    "address",
    "coupon",
    "allergy",
    "warranty",
    "gift",
    "password",
    "newsletter",
    "membership",
    "pickup",
    "exchange",
)


@pytest.fixture
def registry() -> FlowRegistry:
    made = FlowRegistry()
    for name, examples in REQUESTS.items():
        add(made, name, examples)
    return made


async def test_a_route_is_what_the_selector_sees_before_it_asks(registry: FlowRegistry) -> None:
    asked = [Query(request=request) for request in ("refund my order now", "where is the parcel", " ", "a bill")]
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        found = await routes(registry, memory, AGENT, asked, RouteOptions(top_k=2))
        model = ScriptedModel("[]", "[]", "[]")
        selector = FlowSelector(model, registry, memory, AGENT, top_k=2, policy=Policy(on_empty="none"))
        for each, route in zip(asked, found, strict=True):
            decision = (await selector.select(each.request)).decision
            assert route.candidates == tuple(candidate.flow_name for candidate in decision.candidates)
            assert route.p_none == decision.p_none
    assert [route.outcome for route in found] == [Outcome.ASKED, Outcome.ASKED, Outcome.NONE, Outcome.ASKED]
    assert len(model.calls) == 3
    assert [len(route.ranking) for route in found] == [3, 3, 0, 3], "the ranking goes further down than candidates do"


@pytest.fixture
def larger(registry: FlowRegistry) -> FlowRegistry:
    """Large enough for recall to know how sure it is."""
    for name in MORE:
        add(registry, name)
    return registry


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        pytest.param(RouteOptions(), Outcome.ASKED, id="a model chooses"),
        pytest.param(RouteOptions(policy=Policy(max_error=1.0)), Outcome.TAKEN, id="sure enough"),
        pytest.param(RouteOptions(policy=Policy(max_error=0.0)), Outcome.ASKED, id="never sure enough"),
        pytest.param(RouteOptions(top_k=1, policy=Policy()), Outcome.TAKEN, id="one candidate"),
        pytest.param(
            RouteOptions(top_k=1), Outcome.ASKED, id="one candidate that the recommended budget does not allow"
        ),
        pytest.param(
            RouteOptions(top_k=1, policy=Policy(max_error=1.0)), Outcome.TAKEN, id="one candidate, sure enough"
        ),
    ],
)
async def test_the_policy_decides_who_is_asked(larger: FlowRegistry, options: RouteOptions, outcome: Outcome) -> None:
    async with indexed(larger, embedder=HashEmbedder()) as memory:
        (route,) = await routes(larger, memory, AGENT, [Query(request="tell me about my order")], options)
    assert route.outcome is outcome


async def test_what_is_known_word_for_word_is_taken_at_any_budget(larger: FlowRegistry) -> None:
    async with indexed(larger, embedder=HashEmbedder()) as memory:
        asked = [Query(request="Lost coupon, please!"), Query(request="a lost coupon is what I have")]
        known, unknown = await routes(larger, memory, AGENT, asked, RouteOptions(policy=Policy(max_error=0.0)))
    assert (known.outcome, known.first, known.least_error) == (Outcome.TAKEN, "coupon", 0.0)
    assert unknown.outcome is Outcome.ASKED


async def test_nothing_is_asked_and_nothing_chosen_ahead_of_a_selection(registry: FlowRegistry) -> None:
    model = ScriptedModel()
    async with indexed(registry, embedder=HashEmbedder()) as memory:
        selector = FlowSelector(model, registry, memory, AGENT)
        (result,) = await selector.select_many(["my order"], ask=False)
    assert (result.decision.reason, result.names, model.calls) == (Reason.UNASKED, [], [])
    assert "was not to be asked" in result.explain()


async def test_an_index_is_kept_by_what_the_catalogue_says(registry: FlowRegistry, tmp_path: Path) -> None:
    for _ in range(2):
        async with indexed(registry, embedder=HashEmbedder(), cache=tmp_path) as memory:
            assert len(await memory.list_flows(AGENT)) == 3
            async with indexed(registry, embedder=HashEmbedder(), cache=tmp_path) as beside:
                assert len(await beside.list_flows(AGENT)) == 3
    assert len(list((tmp_path / "indexes").iterdir())) == 1
    assert (tmp_path / ".gitignore").is_file(), "it is never committed by chance"
    registry.unregister(next(iter(registry)))
    async with indexed(registry, embedder=HashEmbedder(), cache=tmp_path):
        pass
    assert len(list((tmp_path / "indexes").iterdir())) == 2


class Counting(HashEmbedder):
    """Knows how many texts it has embedded."""

    texts = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += len(texts)
        return super().embed(texts)


async def test_what_is_kept_needs_nothing_made_anew(registry: FlowRegistry, tmp_path: Path) -> None:
    asked = [Query(request=each) for each in ("money back", "parcel tracking please", "the bill, and my refund")]
    found: list[list[Routed]] = []
    for embedder in (first := Counting(), second := Counting()):
        async with indexed(registry, embedder=embedder, cache=tmp_path) as memory:
            found.append(await routes(registry, memory, AGENT, asked))
    assert found[0] == found[1]
    assert second.texts < first.texts / 2, "the flows were embedded again"
    files = [each.stat() for each in tmp_path.rglob("*") if each.is_file()]
    assert sum(each.st_blocks for each in files) * 512 < sum(each.st_size for each in files) / 2, "holes were filled"
    for file in [each for each in tmp_path.rglob("*") if each.is_file()]:
        file.write_bytes(b"\x00nothing")
    for _ in range(2):
        async with indexed(registry, embedder=HashEmbedder(), cache=tmp_path) as memory:
            assert await routes(registry, memory, AGENT, asked) == found[0], "a spoilt one is made anew"


async def test_where_no_memory_is_at_hand_an_index_lies_elsewhere(registry: FlowRegistry, tmp_path: Path) -> None:
    place = tmp_path / "beside"
    place.mkdir()
    async with indexed(registry, embedder=HashEmbedder(), beside=place) as memory:
        assert len(await memory.list_flows(AGENT)) == 3
        assert len(list(place.iterdir())) == 1
    assert list(place.iterdir()) == []


async def test_guards_see_the_context_of_their_own_request(registry: FlowRegistry) -> None:
    class Invoice(Flow):
        def available(self, context: object) -> bool:
            return isinstance(context, dict) and "customer" in context

    guarded = FlowRegistry()
    for flow in registry.values():
        kind = Invoice if flow.name == "invoice" else Flow
        kind(
            name=flow.name,
            description=flow.description,
            condition=flow.condition,
            desired_effects=flow.desired_effects,
            examples=flow.examples,
            registry=guarded,
        )
    asked = [Query(request="send the invoice", context={"customer": 7}), Query(request="send the invoice")]
    async with indexed(guarded, embedder=HashEmbedder()) as memory:
        known, unknown = await routes(guarded, memory, AGENT, asked)
    assert known.first == "invoice"
    assert "invoice" not in unknown.ranking


NAMES = st.text(max_size=8)
ROUTES = st.builds(
    Routed,
    request=NAMES,
    ranking=st.lists(NAMES, max_size=4).map(tuple),
    offered=st.integers(0, 4),
    confidences=st.lists(st.none() | st.floats(0, 1), max_size=4).map(tuple),
    p_none=st.none() | st.floats(0, 1),
    outcome=st.sampled_from(Outcome),
    notes=st.lists(NAMES, max_size=2).map(tuple),
    took_s=st.floats(0, 9),
    least_error=st.none() | st.floats(0, 1),
)


@given(route=ROUTES)
def test_a_route_that_was_kept_is_the_same_route(route: Routed) -> None:
    again = value_of(Routed, json.loads(dumps(route)))
    assert again == route
    assert again.took_s == route.took_s
    for budget in (0.0, 0.01, 0.5, 1.0):
        assert again.outcome_at(budget) is route.outcome_at(budget)
