"""Flows made of flows."""

from collections.abc import Mapping
from typing import Any

import pytest

from jazz_select import BaseFlow, ConditionalFlow, Flow, FlowRegistry, ParallelFlow, SequentialFlow
from jazz_select.errors import FlowValidationError

FIVE = ("one", "two", "three", "four", "five")


@pytest.fixture
def registry() -> FlowRegistry:
    return FlowRegistry()


def leaf(registry: FlowRegistry, name: str, says: str = "d") -> Flow:
    return Flow(
        name=name,
        description=says,
        condition=f"when {name}",
        desired_effects=["e"],
        examples=FIVE,
        registry=registry,
        replace=True,
    )


def sequence(registry: FlowRegistry, name: str, *flows: Any) -> SequentialFlow:
    return SequentialFlow(name=name, description="d", examples=FIVE, flows=flows, registry=registry, replace=True)


def conditional(registry: FlowRegistry, **given: Any) -> ConditionalFlow:
    return ConditionalFlow(name="c", description="d", examples=FIVE, registry=registry, **given)


class SignedIn(BaseFlow):
    """For those who are signed in."""

    condition = "c"
    desired_effects = ("e",)
    examples = FIVE

    def available(self, context: Mapping[str, Any]) -> bool:
        return bool(context.get("signed_in"))


def test_parts_are_flows_classes_or_names_and_names_may_be_defined_later(registry: FlowRegistry) -> None:
    class Declared(BaseFlow, registry=registry):
        """Declared."""

        name = "declared"
        condition = "c"
        desired_effects = ("e",)
        examples = FIVE

    made = leaf(registry, "made")
    whole = sequence(registry, "s", made, Declared, "later")
    with pytest.raises(FlowValidationError, match="the part 'later' is not in the same registry") as caught:
        whole.build_prompt()
    assert caught.value.flow == "s"
    assert "test_composite.py" in caught.value.place
    later = leaf(registry, "later")
    assert whole.subflows == (made, registry.by_name("declared"), later)


def test_composites_are_declared_like_other_flows(registry: FlowRegistry) -> None:
    first, second = leaf(registry, "first"), leaf(registry, "second")

    class Both(ParallelFlow, registry=registry):
        """Both at once."""

        name = "both"
        examples = FIVE
        flows = ("first", second)

    class Either(ConditionalFlow, registry=registry):
        """One of them."""

        name = "either"
        examples = FIVE
        branches = (("it is early", "first"),)
        otherwise = second

    both, either = registry.by_name("both"), registry.by_name("either")
    assert both is not None
    assert either is not None
    assert (type(both), type(either)) == (Both, Either)
    assert (both.type, both.subflows) == ("parallel", (first, second))
    assert (either.type, either.subflows) == ("conditional", (first, second))


def test_names_are_looked_up_in_the_registry_of_the_composite(registry: FlowRegistry) -> None:
    other = FlowRegistry()
    leaf(other, "part", "other")
    mine = leaf(registry, "part", "mine")
    assert sequence(registry, "s", "part").subflows == (mine,)


PARTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("a text for the list", {"flows": "part"}, "flows", "must be a list"),
    ("a number", {"flows": [1]}, "flows[0]", "got int 1"),
    ("an empty name", {"flows": ["part", ""]}, "flows[1]", "name, got"),
    ("half a surrogate pair", {"flows": ["\ud800"]}, "flows[0]", "surrogate"),
    ("a class that is no flow", {"flows": [dict]}, "flows[0]", "class of flow"),
    ("a class that declares none", {"flows": [SignedIn]}, "flows", "SignedIn declares no flow"),
]
BRANCHES: list[tuple[str, dict[str, Any], str, str]] = [
    ("no branch", {}, "branches", "is empty"),
    ("branches in a mapping", {"branches": {"when": "part"}}, "branches", "must be a list"),
    ("a branch without its flow", {"branches": [("when",)]}, "branches[0]", "a pair"),
    ("a branch of two letters", {"branches": ["ab"]}, "branches[0]", "a pair"),
    ("a branch without a text", {"branches": [(" ", "part")]}, "branches[0]", "must say when"),
    ("a branch to a number", {"branches": [("when", 3)]}, "branches[0]", "got int 3"),
    ("otherwise a number", {"branches": [("when", "part")], "otherwise": 3}, "otherwise", "got int 3"),
]


@pytest.mark.parametrize(
    ("kind", "given", "field", "words"),
    [
        pytest.param(kind, *case[1:], id=case[0].replace(" ", "-"))
        for kind, cases in ((SequentialFlow, PARTS), (ConditionalFlow, BRANCHES))
        for case in cases
    ],
)
def test_parts_that_cannot_work_are_refused(
    registry: FlowRegistry, kind: Any, given: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(FlowValidationError, match=words) as caught:
        kind(name="c", description="d", examples=FIVE, registry=registry, **given)
    assert caught.value.field == field
    assert not registry


def test_a_conditional_has_branches_and_no_other_parts(registry: FlowRegistry) -> None:
    with pytest.raises(TypeError, match="'flows'"):
        conditional(registry, flows=["a"])
    with pytest.raises(FlowValidationError, match=r"flows: .*a conditional has branches"):
        type("Either", (ConditionalFlow,), {"name": "e", "flows": ["a"], "branches": [("x", "a")]}, registry=registry)


def test_a_class_that_declares_no_flow_stays_an_error_in_lists(registry: FlowRegistry) -> None:
    with pytest.raises(FlowValidationError, match="pass an instance"):
        sequence(registry, "s", SignedIn)


@pytest.mark.parametrize("use", ["build_prompt", "compute_checksum", "card", "definition"])
def test_a_circle_is_an_error_that_draws_it(registry: FlowRegistry, use: str) -> None:
    first = sequence(registry, "a", "b")
    sequence(registry, "b", "c")
    sequence(registry, "c", "a")
    with pytest.raises(FlowValidationError, match="a → b → c → a is a circle"):
        getattr(first, use)()
    with pytest.raises(FlowValidationError, match="circle"):
        first.available({})


def test_one_part_may_be_used_twice(registry: FlowRegistry) -> None:
    part = leaf(registry, "part")
    inner = sequence(registry, "inner", part)
    assert len(sequence(registry, "outer", inner, part, "inner").definition().parts) == 3


@pytest.mark.spec("003.14")
def test_a_change_deep_in_a_part_changes_the_checksum_of_the_whole(registry: FlowRegistry) -> None:
    leaf(registry, "part", "old")
    sequence(registry, "inner", "part")
    outer = sequence(registry, "outer", "inner")
    before = outer.compute_checksum()
    leaf(registry, "part", "new")
    after = outer.compute_checksum()
    assert after != before
    leaf(registry, "part", "old")
    assert outer.compute_checksum() == before


def test_kind_order_and_conditions_are_part_of_the_checksum() -> None:
    def checksum(make: type[SequentialFlow | ParallelFlow], *parts: str) -> str:
        registry = FlowRegistry()
        leaf(registry, "a")
        leaf(registry, "b")
        return make(name="s", description="d", examples=FIVE, flows=parts, registry=registry).compute_checksum()

    def branching(when: str, otherwise: str | None) -> str:
        registry = FlowRegistry()
        leaf(registry, "a")
        return conditional(registry, branches=[(when, "a")], otherwise=otherwise).compute_checksum()

    seen = [
        checksum(SequentialFlow, "a", "b"),
        checksum(SequentialFlow, "b", "a"),
        checksum(ParallelFlow, "a", "b"),
        branching("x", None),
        branching("y", None),
        branching("x", "a"),
    ]
    assert len(set(seen)) == len(seen)


def test_a_composite_is_no_way_around_the_guard_of_a_part(registry: FlowRegistry) -> None:
    SignedIn(name="guarded", registry=registry)
    free = leaf(registry, "free")
    for whole in (
        sequence(registry, "s", sequence(registry, "inner", "guarded"), free),
        conditional(registry, branches=[("x", free)], otherwise="guarded"),
    ):
        assert whole.has_guard
        assert not whole.available({})
        assert whole.available({"signed_in": True})
    unguarded = sequence(registry, "u", free)
    assert not unguarded.has_guard
    assert unguarded.available({})


def test_a_composite_may_have_a_guard_of_its_own_and_one_that_misses_a_part_counts_as_guarded(
    registry: FlowRegistry,
) -> None:
    class Mine(SequentialFlow):
        def available(self, context: Mapping[str, Any]) -> bool:
            return "mine" in context

    leaf(registry, "free")
    mine = Mine(name="mine", description="d", examples=FIVE, flows=["free"], registry=registry)
    assert (mine.has_guard, mine.available({}), mine.available({"mine": 1})) == (True, False, True)
    assert sequence(registry, "s", "missing").has_guard


def test_a_composite_may_be_defined_again_before_its_parts_are_there(registry: FlowRegistry) -> None:
    for _ in range(2):
        SequentialFlow(name="s", description="d", examples=FIVE, flows=["later"], registry=registry)
    assert len(registry) == 1
