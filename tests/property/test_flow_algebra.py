"""What holds for any flow: the XML parses, the checksum tells definitions apart, the registry is a mapping."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jazz_select import ConditionalFlow, Flow, FlowRegistry, ParallelFlow, SequentialFlow
from jazz_select.errors import FlowValidationError
from jazz_select.text import clean, nfc
from jazz_select.values import flow_id

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
filled = text.filter(lambda value: bool(value.strip()))
names = st.sampled_from(["refund", "exchange", "cancel"])
tricky = st.one_of(text, st.text("-<>&\"'\r\n\t\x00 ]", max_size=12))


@st.composite
def definitions(draw: st.DrawFn) -> dict[str, Any]:
    lists = st.lists(st.one_of(filled, tricky.filter(lambda value: bool(value.strip()))), max_size=3)
    return {
        "name": draw(names),
        "description": draw(tricky),
        "condition": draw(tricky),
        "desired_effects": draw(lists),
        "examples": draw(lists),
        "tools": draw(lists),
        "steps": draw(lists),
        "aliases": draw(lists),
        "priority": draw(st.tuples(st.integers(-9, 9), st.integers(-9, 9))),
    }


def build(definition: dict[str, Any], registry: FlowRegistry | None = None) -> Flow:
    return Flow(**definition, registry=FlowRegistry(min_examples=0) if registry is None else registry, replace=True)


@given(definitions(), st.booleans())
def test_the_prompt_is_xml_and_gives_back_every_text(definition: dict[str, Any], verbose: bool) -> None:
    root = ET.fromstring(build(definition).build_prompt(verbose=verbose))  # noqa: S314
    assert root.get("name") == definition["name"]
    for field in ("description", "condition"):
        assert (root.findtext(field) or "") == clean(definition[field])
    for field in ("desired_effects", "tools", "steps"):
        section = root.find(field)
        found = [] if section is None else [node.text or "" for node in section]
        read = nfc if field == "tools" else str  # names of tools are compared by their composed letters
        assert found == [clean(read(item)) for item in definition[field]]


@given(tricky.filter(lambda value: bool(value.strip())), st.booleans())
def test_the_condition_of_a_branch_comes_back(when: str, verbose: bool) -> None:
    registry = FlowRegistry(min_examples=0)
    part = Flow(name="part", registry=registry)
    whole = ConditionalFlow(name="whole", branches=[(when, part)], registry=registry)
    branch = ET.fromstring(whole.build_prompt(verbose=verbose)).find("subflows/branch")  # noqa: S314
    assert branch is not None
    assert branch.get("when") == clean(when)


@given(definitions(), definitions())
def test_checksums_are_equal_where_definitions_are_and_only_there(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert build(left).compute_checksum() == build(dict(left)).compute_checksum()
    assert (build(left).compute_checksum() == build(right).compute_checksum()) == (left == right)


@pytest.mark.spec("003.14")
@given(definitions(), definitions())
def test_a_composite_changes_with_its_part_and_only_with_it(left: dict[str, Any], right: dict[str, Any]) -> None:
    registry = FlowRegistry(min_examples=0)
    build({**left, "name": "part"}, registry)
    SequentialFlow(name="inner", flows=["part"], registry=registry)
    outer = ParallelFlow(name="outer", flows=["inner"], registry=registry)
    before = outer.compute_checksum()
    build({**right, "name": "part"}, registry)
    assert (outer.compute_checksum() == before) == ({**left, "name": ""} == {**right, "name": ""})


actions = st.lists(st.tuples(st.sampled_from(["register", "unregister"]), names, st.integers(0, 2)), max_size=12)


@given(actions)
def test_the_registry_is_a_mapping_and_agrees_with_a_dict(steps: list[tuple[str, str, int]]) -> None:
    registry, model = FlowRegistry(min_examples=0), dict[str, Flow]()
    for action, name, priority in steps:
        version, key = registry.version, flow_id(name)
        if action == "register":
            model[key] = build({"name": name, "priority": (priority, 0)}, registry)
            assert registry.version > version
        elif key in model:
            registry.unregister(model.pop(key))
            assert registry.version > version
        assert registry == model
        assert list(registry) == list(model)
        assert len(registry) == len(model)
        assert all(registry[key] is flow and key in registry for key, flow in model.items())
        assert registry.by_name(name) is model.get(key)
    assert isinstance(registry, Mapping)


@given(st.lists(st.one_of(filled, st.sampled_from(["one", "One ", "two"])), max_size=6))
def test_the_bar_counts_different_examples(examples: list[str]) -> None:
    registry = FlowRegistry(min_examples=3)
    folded = [example.strip().casefold() for example in examples]
    fits = len(set(folded)) == len(folded) and len(folded) >= 3
    with nullcontext() if fits else pytest.raises(FlowValidationError, match="examples"):
        Flow(name="x", description="d", condition="c", desired_effects=["e"], examples=examples, registry=registry)
    assert len(registry) == fits
