"""What may follow what: scores, candidates, chains and the picture of them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jazz_select.errors import ConfigError, DuplicateToolError, ToolError
from jazz_select.routing.decisions.decision_points import (
    ChainAnalyzer,
    GuidedDecisionPoint,
    ToolCandidate,
    schema_shown,
)
from jazz_select.routing.executor import FlowExecutor
from jazz_select.routing.schemas.assignability import Effort
from jazz_select.routing.schemas.compatibility import CompatibilityIndex, Slot, compatibility_score, outputs
from jazz_select.routing.schemas.fields import fields, prompt_schema
from jazz_select.routing.tools.tool import Tool, Toolbox
from tests.depth import examples
from tests.unit.routing.shop import INTEGER, STRING, obj, tools


def tool(name: str, takes: dict[str, Any] | None = None, gives: dict[str, Any] | None = None) -> Tool:
    return Tool(name=name, input_schema=takes or {}, output_schema=gives)


GIVES = obj({"order_id": STRING, "amount": INTEGER}, note=STRING)
SCORES: dict[str, tuple[dict[str, Any], float]] = {
    "same name, same type": (obj({"order_id": STRING}), 1.0),
    "another case": (obj({"orderId": STRING}), 0.9),
    "another type": (obj({"order_id": INTEGER}), 0.0),
    "may be missing": (obj({"note": STRING}), 0.5),
    "half of it": (obj({"order_id": STRING, "weight": INTEGER}), 0.5),
    "optional fields do not count beside required ones": (obj({"order_id": STRING}, weight=INTEGER), 1.0),
    "optional fields alone": (obj({}, order_id=STRING, weight=INTEGER), 0.5),
    "no fields": (obj({}), 0.0),
    "a field that it does not describe": ({"type": "object", "required": ["order_id"]}, 0.0),
}


@pytest.mark.spec("000.5")
@pytest.mark.parametrize(("takes", "score"), SCORES.values(), ids=SCORES)
def test_score(takes: dict[str, Any], score: float) -> None:
    assert compatibility_score(outputs(tool("a", gives=GIVES)), tool("b", takes)) == pytest.approx(score)


def test_a_name_that_could_mean_two_fields_means_none() -> None:
    gives = obj({"order_id": STRING, "orderId": STRING})
    assert compatibility_score(outputs(tool("a", gives=gives)), tool("b", obj({"ORDER-ID": STRING}))) == 0


names = st.sampled_from(["id", "Id", "order_id", "orderId", "x"])
kinds: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [STRING, INTEGER, {"type": ["string", "null"]}, {}, {"enum": ["a"]}]
)


def _object(fields: dict[str, Any], needed: set[str]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": [name for name in fields if name in needed]}


objects = st.builds(_object, st.dictionaries(names, kinds, max_size=4), st.sets(names))
catalogues = st.lists(st.tuples(objects, objects), min_size=1, max_size=8)


@given(catalogue=catalogues)
@settings(max_examples=examples(200), deadline=None)
def test_the_index_is_equal_to_brute_force(catalogue: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    made = [tool(f"t{n}", takes, gives) for n, (takes, gives) in enumerate(catalogue)]
    table = CompatibilityIndex(made).graph()
    brute = np.zeros((len(made), len(made)))
    for row, giving in enumerate(made):
        for column, taking in enumerate(made):
            if giving is not taking:
                brute[row, column] = compatibility_score(outputs(giving), taking)
    assert np.allclose(table, brute)
    assert ((table >= 0) & (table <= 1)).all()


@pytest.mark.spec("000.7")
@pytest.mark.spec("000.9")
def test_only_what_fits_may_follow_and_nothing_follows_itself() -> None:
    point = ChainAnalyzer(tools()).guided_decision_points("find_order")
    assert point == GuidedDecisionPoint(after_step="find_order", candidate_tools=["check_refund", "send_mail"])


@pytest.mark.spec("000.8")
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["b", "c", "a"]),
        ({"max_candidates": 2}, ["b", "c"]),
        ({"min_compatibility": 0.51}, ["b", "c"]),
        ({"min_compatibility": 0.0}, ["b", "c", "a"]),
    ],
    ids=str,
)
def test_best_first_ties_in_order_and_bounds_included(options: dict[str, Any], found: list[str]) -> None:
    half, whole = obj({"order_id": STRING, "weight": INTEGER}), obj({"order_id": STRING})
    made = [
        tool("a", half),
        tool("start", gives=GIVES),
        tool("b", whole),
        tool("c", whole),
        tool("d", obj({"z": STRING})),
    ]
    assert ChainAnalyzer(made).guided_decision_points("start", **options).candidate_tools == found


@pytest.mark.spec("000.5")
def test_a_candidate_says_what_it_wants() -> None:
    (first, *_) = ChainAnalyzer(tools()).successors("find_order")
    assert first == ToolCandidate(
        name="check_refund",
        description="What check_refund does.",
        input_schema_summary={"order_id": "string", "amount": "integer"},
        compatibility_score=1.0,
    )


def test_chains_unreachable_ones_and_collisions() -> None:
    analyzer = ChainAnalyzer([*tools(), tool("Send-Mail", obj({"zip": STRING}))])
    assert analyzer.unreachable() == ["find_order", "weigh_parcel", "Send-Mail"]
    assert analyzer.unreachable(min_compatibility=0.6) == ["find_order", "send_mail", "weigh_parcel", "Send-Mail"]
    assert analyzer.collisions() == [("send_mail", "Send-Mail")]


def test_the_picture() -> None:
    analyzer = ChainAnalyzer([*tools(), tool('bad"]; click', obj({"q": STRING}))])
    picture = analyzer.mermaid()
    assert picture.startswith("flowchart LR\n")
    assert "    t0 --> t1\n" in picture
    assert "    t0 -. 0.50 .-> t2\n" in picture
    assert '    t4["bad___ click"]\n' in picture, "no name closes its quotes, or begins a command"
    assert analyzer.mermaid(min_compatibility=0.6) == picture.replace("    t0 -. 0.50 .-> t2\n", "")


def test_an_unknown_tool_is_told_with_those_there_are() -> None:
    with pytest.raises(ToolError, match="there are find_order"):
        ChainAnalyzer(tools()).successors("nowhere")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(DuplicateToolError, match="two tools have this name"):
        Toolbox([*tools(), *tools()])


def test_a_thousand_tools_are_analysed_at_once() -> None:
    made = [
        tool(f"t{n}", obj({f"f{n % 97}": STRING, "id": INTEGER}), obj({f"f{(n + 1) % 97}": STRING, "id": INTEGER}))
        for n in range(1_000)
    ]
    analyzer = ChainAnalyzer(made)
    assert len(list(analyzer.edges(min_compatibility=0.9))) == pytest.approx(10_310, abs=500)


@pytest.mark.spec("000.4")
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"after_step": " "}, "must name the step"),
        ({"candidate_tools": "send_mail"}, "candidate_tools must be a list of names"),
        ({"candidate_tools": 5}, "candidate_tools must be a list of names, got 5"),
        ({"context_fields": None}, "context_fields must be a list of names, got None"),
        ({"candidate_tools": ["a", "a"]}, "names something twice"),
        ({"candidate_tools": ["find_order"]}, "never follows itself"),
        ({"context_fields": [1]}, "context_fields must be a list of names"),
    ],
    ids=str,
)
def test_a_decision_point_checks_itself(changes: dict[str, Any], told: str) -> None:
    fields: dict[str, Any] = {"after_step": "find_order", "candidate_tools": ["send_mail"]}
    assert GuidedDecisionPoint(**fields).context_fields == []
    with pytest.raises(ToolError, match=told):
        GuidedDecisionPoint(**(fields | changes))


@pytest.mark.parametrize("score", [-0.1, 1.1])
def test_a_score_lies_from_0_to_1(score: float) -> None:
    with pytest.raises(ToolError, match="compatibility_score must be from 0 to 1"):
        ToolCandidate(name="a", compatibility_score=score)


def test_what_may_be_no_object_may_be_given_whole() -> None:
    given = {"anyOf": [obj({"a": INTEGER}), STRING, {"type": "null"}]}
    assert [(each.name, each.certain) for each in outputs(tool("a", gives=given))] == [("a", False), ("result", False)]
    assert [(each.name, each.certain) for each in outputs(tool("a", gives=obj({"a": INTEGER})))] == [("a", True)]
    wants = [tool("b", obj({"result": each})) for each in (STRING, INTEGER)]
    assert [compatibility_score(outputs(tool("a", gives=given)), each) for each in wants] == [0.5, 0]


def referring(to: dict[str, Any]) -> dict[str, Any]:
    """An object whose field is described where its reference points."""
    return {**obj({"a": {"$ref": "#/$defs/it"}}), "$defs": {"it": to}}


def test_fields_are_compared_where_their_references_point() -> None:
    takes = [tool("whole", referring(INTEGER)), tool("text", referring(STRING)), tool("plain", obj({"a": INTEGER}))]
    index = CompatibilityIndex(takes)
    for gives in (referring(INTEGER), referring(STRING), obj({"a": STRING})):
        there = outputs(tool("giver", gives=gives))
        assert list(index.scores(there)) == [compatibility_score(there, each) for each in takes]
    exact = {**STRING, "pattern": "^a"}
    there = outputs(tool("giver", gives=referring(dict(exact))))
    takes_exact = [tool("same", referring(exact)), tool("other", referring({**STRING, "pattern": "^b"}))]
    assert [compatibility_score(there, each) for each in takes_exact] == [1.0, 0.5]
    there = outputs(tool("giver", gives=referring(INTEGER)))
    assert [compatibility_score(there, each) for each in takes] == [1.0, 0.0, 1.0]


def test_what_could_not_be_compared_in_time_is_compared_the_next_time() -> None:
    index = CompatibilityIndex([tool("b", obj({"a": INTEGER}))])
    there = [Slot("a", INTEGER)]
    assert list(index.scores(there, Effort(0))) == [0.5]
    assert list(index.scores(there)) == [1.0]


def test_nothing_to_compare_and_what_says_nothing() -> None:
    assert list(CompatibilityIndex([]).scores([Slot("a", INTEGER)])) == []
    assert list(CompatibilityIndex([tool("b", obj({"a": INTEGER}))]).scores([Slot("a", schema=True)])) == [0.5]


def test_a_long_schema_is_shown_by_its_first_fields() -> None:
    takes = obj({"needed": {**INTEGER, "description": "x" * 9_000}}, **{f"f{number}": STRING for number in range(99)})
    assert schema_shown(obj({"a": INTEGER})) == obj({"a": INTEGER})
    shown = schema_shown(takes)
    assert (shown["type"], shown["required"], shown["properties"]["needed"]) == ("object", ["needed"], "integer")
    assert len(shown["properties"]) + shown["left_out"] == 100


def test_what_says_nothing_to_a_caller_is_left_out_wherever_it_is_that() -> None:
    whole = {"title": "T", "anyOf": [{"title": "A", "type": "string"}], **obj({"title": {"title": "U", **STRING}})}
    assert prompt_schema(whole) == {"anyOf": [{"type": "string"}], **obj({"title": STRING})}
    defaults = {"a": {"default": "", **STRING}, "default": {"default": "b", **STRING}, "c": {"const": {"title": "C"}}}
    told = {"a": STRING, "default": {"default": "b", **STRING}, "c": {"const": {"title": "C"}}}
    assert prompt_schema({**obj(defaults), "additionalProperties": False}) == obj(told)
    assert prompt_schema({"additionalProperties": {"title": "D", **STRING}}) == {"additionalProperties": STRING}
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep]
    assert isinstance(prompt_schema(deep), list)


def test_a_class_is_nobody_who_chooses() -> None:
    class Three:
        def decide(self, context: object, candidates: object, prompt: object) -> None: ...

    with pytest.raises(ConfigError, match="decision_callback must be an object with"):
        FlowExecutor([], Three)  # pyright: ignore[reportArgumentType]


def test_the_graph_as_mermaid_draws_it() -> None:
    made = [tool("a", gives=obj({"x": INTEGER})), tool("b", obj({"x": INTEGER}))]
    assert ChainAnalyzer(made).mermaid() == 'flowchart LR\n    t0["a"]\n    t1["b"]\n    t0 --> t1\n'


def test_a_schema_that_was_changed_in_place_is_read_again() -> None:
    schema = obj({"a": {"type": "string"}})
    before = fields(schema)
    schema["properties"]["a"]["type"] = "integer"
    schema["properties"]["b"] = {"type": "string"}
    assert before["a"] == ({"type": "string"}, True)
    assert fields(schema) == {"a": ({"type": "integer"}, True), "b": ({"type": "string"}, False)}
