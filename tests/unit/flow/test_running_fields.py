"""What is for whoever runs a flow, or for users, is declared, and no part of what tells the flow from others."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jazz_select import BaseFlow, ConditionalFlow, FlowRegistry, ParallelFlow, SequentialFlow
from jazz_select.errors import FlowValidationError
from jazz_select.flow.base import Flow
from jazz_select.flow.flow_loading import load_flows


def declared(**attributes: Any) -> BaseFlow:
    registry = FlowRegistry(min_examples=0)
    type("Refund", (BaseFlow,), {"name": "refund", "tools": ["a"], **attributes}, registry=registry)
    (flow,) = registry.values()
    return flow


def test_a_flow_has_none_unless_its_author_says_so() -> None:
    flow = Flow(name="x", registry=FlowRegistry(min_examples=0))
    assert (flow.chain, flow.reply) == ((), "")


def test_neither_is_indexed_or_changes_the_checksum() -> None:
    plain, running = declared(), declared(chain=["a"], reply="Done: {a}.")
    assert (running.chain, running.reply) == (["a"], "Done: {a}.")
    assert running.card() == plain.card()
    assert running.compute_checksum() == plain.compute_checksum()
    assert running.build_prompt(verbose=False) == plain.build_prompt(verbose=False)


TOLD: dict[str, Any] = {"title": "Money back", "owner": "returns desk", "optional_tools": ["b"], "manual": True}
TOOLS = ["a", "b"]


def as_a_class(tmp_path: Path, **fields: Any) -> BaseFlow:
    return declared(**{"tools": TOOLS} | fields)


def as_data(tmp_path: Path, **fields: Any) -> BaseFlow:
    return Flow(name="refund", tools=TOOLS, registry=FlowRegistry(min_examples=0), **fields)


def in_a_file(tmp_path: Path, **fields: Any) -> BaseFlow:
    (tmp_path / "flow.json").write_text(json.dumps({"name": "refund", "tools": TOOLS, **fields}), encoding="utf-8")
    (flow,) = load_flows(tmp_path, FlowRegistry(min_examples=0))
    return flow


def of_parts(kind: type[SequentialFlow | ParallelFlow | ConditionalFlow]) -> Callable[..., BaseFlow]:
    def make(tmp_path: Path, **fields: Any) -> BaseFlow:
        registry = FlowRegistry(min_examples=0)
        part = Flow(name="part", registry=registry)
        parts: Any = {"branches": [("x", part)]} if kind is ConditionalFlow else {"flows": [part]}
        return kind(name="refund", tools=TOOLS, registry=registry, **parts, **fields)

    return make


MADE = [
    pytest.param(as_a_class, id="a class"),
    pytest.param(as_data, id="Flow"),
    pytest.param(in_a_file, id="a file"),
    *(pytest.param(of_parts(kind), id=kind.__name__) for kind in (SequentialFlow, ParallelFlow, ConditionalFlow)),
]


@pytest.mark.spec("010.6")
@pytest.mark.spec("010.8")
@pytest.mark.parametrize("made", MADE)
def test_a_flow_says_what_users_call_it_and_what_it_can_do_without(
    made: Callable[..., BaseFlow], tmp_path: Path
) -> None:
    plain, told = made(tmp_path), made(tmp_path, **TOLD)
    assert (plain.display_name, plain.lacks(["a"]), plain.manual) == ("Refund", ("b",), False)
    assert (told.display_name, list(told.optional_tools), told.manual) == ("Money back", ["b"], True)
    assert told.lacks(()) == (), "a person does it"
    assert made(tmp_path, optional_tools=["b"]).lacks(()) == ("a",)
    assert replace(told.card(), title="") == plain.card(), "no title is embedded, or changes the checksum"
    assert told.build_prompt(verbose=False) == plain.build_prompt(verbose=False)


WRONG: list[Any] = [
    pytest.param({"title": 5}, "title: must be a text, got int 5", id="a title that is a number"),
    pytest.param({"title": "a\nb"}, "title: has line breaks or control characters in it", id="a title of two lines"),
    pytest.param({"owner": 5}, "owner: must be a text, got int 5", id="an owner that is a number"),
    pytest.param(
        {"optional_tools": "b"}, r"optional_tools: must be a list of texts, got one text; write \['b'\]", id="a text"
    ),
    pytest.param(
        {"optional_tools": ["bb"]}, "number 1, 'bb', is not among the flow's tools; did you mean 'b'?", id="a slip"
    ),
    pytest.param(
        {"optional_tools": ["b", "zzz"]}, "number 2, 'zzz', .* add it to the flow's `tools`", id="another tool"
    ),
    pytest.param({"manual": "yes"}, "manual: must be True or False, got str 'yes'", id="manual in words"),
    pytest.param({"manual": 1}, "manual: must be True or False, got int 1", id="manual as a number"),
    pytest.param({"max_error": "1%"}, "max_error: must be a share from 0 to 1, .* got str '1%'", id="a share in words"),
    pytest.param({"max_error": 2}, "max_error: must be a share from 0 to 1, .* got int 2", id="more than all"),
]


@pytest.mark.spec("009.2")
@pytest.mark.parametrize("made", MADE)
def test_a_flow_may_have_an_error_budget_of_its_own(made: Callable[..., BaseFlow], tmp_path: Path) -> None:
    plain, strict = made(tmp_path), made(tmp_path, max_error=0.001)
    assert (plain.max_error, strict.max_error) == (None, 0.001)
    assert [made(tmp_path, max_error=share).max_error for share in (0, 1)] == [0, 1]
    assert plain.compute_checksum() == strict.compute_checksum(), "what is embedded does not change"


@pytest.mark.spec("010.6")
@pytest.mark.parametrize("made", MADE[:2])
@pytest.mark.parametrize(("fields", "problem"), WRONG)
def test_what_is_wrong_with_them_is_told(
    made: Callable[..., BaseFlow], fields: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(FlowValidationError, match=problem):
        made(tmp_path, **fields)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param({"titel": "x"}, "titel: is no field of a flow; did you mean 'title'?", id="a slip"),
        pytest.param({"manual": "yes"}, "manual: .*bool.*, got str 'yes'", id="no boolean"),
        pytest.param(
            {"optional_tools": ["bb"]}, "'bb', is not among the flow's tools; did you mean 'b'?", id="no tool"
        ),
    ],
)
def test_a_file_is_told_as_much(fields: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(FlowValidationError, match=problem):
        in_a_file(tmp_path, **fields)


@pytest.mark.parametrize(
    ("name", "title"), [("refund_order", "Refund order"), ("x-y", "X y"), ("Geld", "Geld"), ("_", "_")]
)
def test_a_title_is_the_name_in_words_where_there_is_none(name: str, title: str) -> None:
    assert Flow(name=name, registry=FlowRegistry(min_examples=0)).display_name == title
