"""The registry: bars, duplicates, scopes."""

import gc
from collections.abc import Mapping
from threading import Thread
from typing import Any

import pytest

from jazz_select import BaseFlow, Flow, FlowRegistry, SequentialFlow
from jazz_select.errors import ConfigError, DuplicateFlowError, FlowValidationError

FIVE = ("one", "two", "three", "four", "five")


def fields(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "description": "d", "condition": "c", "desired_effects": ["e"], "examples": FIVE, **changes}


BAD: list[tuple[str, dict[str, Any], str, str]] = [
    ("no name", {"name": ""}, "name", "missing"),
    ("name of blanks", {"name": "  "}, "name", "blanks"),
    ("name with a line break", {"name": "a\nb"}, "name", "line breaks"),
    ("name that is a number", {"name": 3}, "name", "int 3"),
    ("name with half a surrogate pair", {"name": "a\ud800"}, "name", "surrogate"),
    ("no description", {"description": " "}, "description", "empty"),
    ("no condition", {"condition": ""}, "condition", "empty"),
    ("no effect", {"desired_effects": []}, "desired_effects", "at least one"),
    ("four examples", {"examples": FIVE[:4]}, "examples", "has 4"),
    ("repeated example", {"examples": (*FIVE, " ONE ")}, "examples", r"'one' \(number 1 and 6\)"),
    ("blank example", {"examples": (*FIVE, " ")}, "examples", "number 6 is empty"),
    ("a text for a list", {"examples": "one"}, "examples", r"\['one'\]"),
    ("a set for a list", {"tools": {"x"}}, "tools", "got set"),
    ("a mapping for a list", {"tools": {"x": 1}}, "tools", "got dict"),
    ("bytes for a list", {"tools": b"x"}, "tools", "got bytes"),
    ("a number in a list", {"aliases": ["x", 2]}, "aliases[1]", "int 2"),
    ("half a surrogate pair", {"steps": ["\udc00"]}, "steps[0]", "surrogate"),
    ("priority that is a number", {"priority": 1}, "priority", "two whole numbers"),
    ("priority of three", {"priority": (1, 2, 3)}, "priority", "two whole numbers"),
    ("priority of truths", {"priority": (True, False)}, "priority", "two whole numbers"),
]


@pytest.mark.spec("003.18")
@pytest.mark.parametrize(
    ("changes", "field", "words"), [case[1:] for case in BAD], ids=[case[0].replace(" ", "-") for case in BAD]
)
def test_a_flow_below_the_bars_is_refused_and_nothing_changes(changes: dict[str, Any], field: str, words: str) -> None:
    registry = FlowRegistry()
    Flow(**fields(name="before"), registry=registry)
    before, version = dict(registry), registry.version
    with pytest.raises(FlowValidationError, match=words) as caught:
        Flow(**fields(**changes), registry=registry)
    assert caught.value.field == field
    assert (dict(registry), registry.version) == (before, version)


@pytest.mark.spec("003.18")
def test_composites_need_examples_and_a_part_but_no_effects() -> None:
    registry = FlowRegistry()
    Flow(**fields(), registry=registry)
    SequentialFlow(name="s", description="d", examples=FIVE, flows=["a"], registry=registry)
    with pytest.raises(FlowValidationError, match="examples: has 4"):
        SequentialFlow(name="t", description="d", examples=FIVE[:4], flows=["a"], registry=registry)
    with pytest.raises(FlowValidationError, match="flows: is empty"):
        SequentialFlow(name="t", description="d", examples=FIVE, registry=registry)


@pytest.mark.spec("003.18")
def test_with_a_bar_of_nought_bare_tools_get_in_but_types_are_still_checked() -> None:
    registry = FlowRegistry(min_examples=0)
    Flow(name="get_weather", registry=registry)
    Flow(name="get_time", examples=["time", "time"], registry=registry)
    assert [flow.name for flow in registry.values()] == ["get_weather", "get_time"]
    with pytest.raises(FlowValidationError, match="list of texts"):
        Flow(name="x", examples=3, registry=registry)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("bar", [-1, True])
def test_a_bar_below_nought_is_refused(bar: int) -> None:
    with pytest.raises(ConfigError, match="min_examples"):
        FlowRegistry(min_examples=bar)


@pytest.mark.spec("003.17")
def test_two_different_flows_of_one_name_are_an_error_that_names_both_places() -> None:
    registry = FlowRegistry()

    class First(BaseFlow, registry=registry):
        """First."""

        name = "a"
        condition = "c"
        desired_effects = ("e",)
        examples = FIVE

    with pytest.raises(DuplicateFlowError) as caught:
        Flow(**fields(), registry=registry)
    assert First.__qualname__ in caught.value.first
    assert "Flow(…)" in caught.value.second
    assert caught.value.first in str(caught.value)
    assert caught.value.second in str(caught.value)
    assert type(registry.by_name("a")) is First


def declare(registry: FlowRegistry, says: str) -> type[BaseFlow]:
    class Same(BaseFlow, registry=registry):
        name = "a"
        description = says
        condition = "c"
        desired_effects = ("e",)
        examples = FIVE

    return Same


@pytest.mark.spec("003.17")
def test_the_class_of_the_same_qualified_name_again_replaces_quietly() -> None:
    registry = FlowRegistry()
    declare(registry, "old")
    second = declare(registry, "new")
    (flow,) = registry.values()
    assert type(flow) is second
    assert flow.description == "new"


@pytest.mark.spec("003.17")
def test_equal_content_replaces_quietly_and_other_content_does_not() -> None:
    registry = FlowRegistry()
    first = Flow(**fields(), registry=registry)
    second = Flow(**fields(), registry=registry)
    assert registry[first.id] is second
    with pytest.raises(DuplicateFlowError):
        Flow(**fields(description="other"), registry=registry)
    assert registry[first.id] is second
    third = Flow(**fields(description="other"), registry=registry, replace=True)
    assert registry[first.id] is third


def test_equal_content_does_not_replace_a_guard() -> None:
    class Guarded(BaseFlow):
        def available(self, context: Mapping[str, Any]) -> bool:
            return "user" in context

    registry = FlowRegistry()
    guarded = Guarded(**fields(), registry=registry)
    with pytest.raises(DuplicateFlowError):
        Flow(**fields(), registry=registry)
    assert registry.by_name("a") is guarded


def test_two_instances_of_one_class_that_differ_are_two_flows() -> None:
    registry = FlowRegistry()

    class Lookup(BaseFlow):
        def __init__(self, says: str) -> None:
            super().__init__(**fields(description=says), registry=registry)

    Lookup("x")
    Lookup("x")
    with pytest.raises(DuplicateFlowError):
        Lookup("y")


def test_what_is_no_flow_is_refused() -> None:
    registry = FlowRegistry()
    for thing in (BaseFlow, "a", None):
        with pytest.raises(TypeError, match="instance of BaseFlow"):
            registry.register(thing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_unregister_takes_the_flow_or_its_id() -> None:
    registry = FlowRegistry()
    first, second = Flow(**fields(), registry=registry), Flow(**fields(name="b"), registry=registry)
    version = registry.version
    registry.unregister(first)
    registry.unregister(second.id)
    assert not registry
    assert registry.version > version
    with pytest.raises(KeyError):
        registry.unregister(first)


def test_flows_inside_a_scope_register_there_unless_they_say_otherwise() -> None:
    scope, elsewhere, default = FlowRegistry(), FlowRegistry(), len(BaseFlow.registry)
    with scope.scope() as entered:
        assert entered is scope
        Flow(**fields(name="here"))
        Flow(**fields(name="there"), registry=elsewhere)

        class Declared(BaseFlow):
            """Here too."""

            name = "declared"
            condition = "c"
            desired_effects = ("e",)
            examples = FIVE

        with elsewhere.scope():
            Flow(**fields(name="inner"))
        Flow(**fields(name="here_again"))
    assert [flow.name for flow in scope.values()] == ["here", "declared", "here_again"]
    assert [flow.name for flow in elsewhere.values()] == ["there", "inner"]
    assert len(BaseFlow.registry) == default
    assert Declared.registry is BaseFlow.registry


def test_the_default_scope_is_the_registry_of_the_class() -> None:
    made = Flow(**fields(name="in_the_default_scope"))
    try:
        assert BaseFlow.registry[made.id] is made
    finally:
        BaseFlow.registry.unregister(made)


def test_the_registry_holds_its_flows_strongly() -> None:
    registry = FlowRegistry()
    Flow(**fields(), registry=registry)
    gc.collect()
    assert registry.by_name("a") is not None


def test_an_atomic_block_that_fails_changes_nothing() -> None:
    registry = FlowRegistry()
    kept = Flow(**fields(), registry=registry)

    def rewrite() -> None:
        with registry.atomic():
            Flow(**fields(name="b"), registry=registry)
            registry.unregister(kept)
            Flow(**fields(name="c", examples=()), registry=registry)

    with pytest.raises(FlowValidationError):
        rewrite()
    assert dict(registry) == {kept.id: kept}


def test_many_threads_may_register_at_once() -> None:
    registry = FlowRegistry()

    def work(thread: int) -> None:
        for number in range(20):
            Flow(**fields(name=f"{thread}_{number}"), registry=registry)

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(registry) == registry.version == 160


def test_iterating_while_flows_are_added_sees_what_was_there() -> None:
    registry = FlowRegistry()
    first = Flow(**fields(), registry=registry)
    seen = [Flow(**fields(name=f"after_{key}"), registry=registry) and key for key in registry]
    assert seen == [first.id]
    assert repr(registry) == "<FlowRegistry of 2 flows>"
