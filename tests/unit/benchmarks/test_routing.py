"""What can follow what, on a few tools."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import narrowing, report_routing, routing, rows
from benchmarks.datasets import schemas
from benchmarks.datasets.schemas import Catalogue, GoldCall, Link
from jazz_select.routing.decisions.decision_points import ChainAnalyzer
from jazz_select.routing.schemas.compatibility import Slot, outputs
from jazz_select.routing.tools.tool import Tool


def lines(*entries: object) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)


def api(name: str, takes: dict[str, str], gives: dict[str, str], required: list[str] | None = None) -> dict[str, Any]:
    spelt = [{key: {"type": kind, "description": ""} for key, kind in part.items()} for part in (takes, gives)]
    told = {"parameters": spelt[0], "responses": spelt[1], "required": list(takes) if required is None else required}
    return {"api_name": name, "api_description": f"does {name}", **told}


def called(name: str, arguments: dict[str, Any], *responses: int) -> dict[str, Any]:
    return {"api": name, "parameters": arguments, "responses": [f"API_call_{number}" for number in responses]}


def function(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"does {name}",
        "parameters": {"type": "dict", "properties": properties, "required": required},
    }


APIS = (
    api("find_order", {"customer": "str"}, {"order_id": "int", "total": "float"}),
    api("refund", {"order_id": "int", "reason": "str"}, {"success": "bool"}),
    api("ship", {"order_id": "str"}, {"status": "str"}),
    api("track", {"orderId": "float"}, {"status": "str"}),
    api("ping", {}, {"success": "bool"}),
    api("note", {"text": "str", "total": "float"}, {"success": "bool"}, required=[]),
)
ANSWER = [
    called("find_order", {"customer": "Ann"}, 0, 1),
    called("refund", {"order_id": "API_call_0", "reason": "broken"}, 2),
    called("note", {"text": "API_call_1 and API_call_2"}, 3),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    ride = function("ride", {"to": {"type": "string"}, "seats": {"type": "integer"}}, ["to"])
    other = function("ride", {"to": {"type": "float"}}, ["to"])
    eat = function("eat", {"dish": {"type": "dict", "properties": {"price": {"type": "float"}}}}, ["dish"])
    files = {
        "bfcl/BFCL_v4_live_multiple.json": lines({"function": [other, eat]}, {"function": [ride]}),
        "bfcl/BFCL_v4_live_irrelevance.json": lines(
            {"function": [ride, function("any", {"x": {"type": "any"}}, ["x"])]}
        ),
        "bfcl/possible_answer/BFCL_v4_live_multiple.json": lines(
            {"ground_truth": [{"eat": {"dish": [{"price": [3.5]}]}}]},
            {"ground_truth": [{"ride": {"to": ["Rome", "rome"], "seats": [1, ""]}}]},
        ),
        "sealtools/tool.jsonl": lines(*APIS),
        "sealtools/dev.jsonl": lines({"calling": ANSWER}),
        "sealtools/test_in_domain.jsonl": lines({"calling": ANSWER[:1]}),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    return tmp_path


@pytest.fixture
def seal(data: Path) -> Catalogue:
    return schemas.sealtools(data, seed=1)


def test_bfcl_functions_get_json_schemas_and_the_values_that_a_call_must_have(data: Path) -> None:
    read = schemas.bfcl(data, seed=1)
    assert set(read.by_name) == {"ride", "eat", "any"}
    assert set(read.by_name["ride"].input_schema["properties"]) == {"to", "seats"}
    assert read.by_name["eat"].input_schema["properties"]["dish"] == {
        "type": "object",
        "properties": {"price": {"type": "number"}},
    }
    assert read.by_name["any"].input_schema["properties"] == {"x": {}}
    assert read.answers == (
        (GoldCall(tool="eat", arguments={"dish": {"price": [3.5]}}),),
        (GoldCall(tool="ride", arguments={"to": "Rome"}),),
    )


def test_sealtools_outputs_are_numbered_over_all_calls(seal: Catalogue) -> None:
    assert {each.name: each.certain for each in outputs(seal.by_name["find_order"])} == {
        "order_id": True,
        "total": True,
    }
    assert seal.answers == (
        (
            GoldCall(tool="find_order", arguments={"customer": "Ann"}),
            GoldCall(
                tool="refund",
                arguments={"reason": "broken"},
                links=(Link(argument="order_id", producer="find_order", output="order_id"),),
            ),
            GoldCall(
                tool="note",
                arguments={},
                links=(
                    Link(argument="text", producer="find_order", output="total"),
                    Link(argument="text", producer="refund", output="success"),
                ),
            ),
        ),
    )
    assert narrowing.links(seal) == {"links": 3, "one_name": 1, "alike": 1, "fit": 1}


def names_after(seal: Catalogue, method: str, tool: str, least: float = 0.5) -> set[str]:
    scorer = narrowing.METHODS[method](seal.tools)
    names = [each.name for each in seal.tools]
    return set(narrowing.narrowed(scorer(outputs(seal.by_name[tool])), names, tool, least))


@pytest.mark.parametrize(
    ("method", "least", "left"),
    [
        pytest.param("names and types", 0.5, {"refund", "track", "note"}, id="by the formula"),
        pytest.param("names, no types", 0.5, {"refund", "ship", "track", "note"}, id="a string takes a number"),
        pytest.param("equal names", 0.5, {"ship"}, id="all by exactly their names"),
        pytest.param("names and types", 1.0, set[str](), id="nothing surely"),
        pytest.param("names, no types", 1.0, {"ship"}, id="surely, without types"),
    ],
)
def test_what_can_follow(seal: Catalogue, method: str, least: float, left: set[str]) -> None:
    assert names_after(seal, method, "find_order", least) == left


def test_the_index_says_what_the_formula_says_pair_by_pair(data: Path, seal: Catalogue) -> None:
    bfcl = schemas.bfcl(data, seed=1)
    tools = (*seal.tools, *bfcl.tools)
    points = [*narrowing.after_each(seal), *narrowing.so_far(seal), *narrowing.from_request(bfcl)]
    assert routing.differing(tools, points) == {"pairs": 9 * len(points), "differing": 0}


def test_narrowing_is_what_the_analyzer_does(seal: Catalogue) -> None:
    analyzer = ChainAnalyzer(seal.tools)
    scorer = narrowing.formula(seal.tools)
    names = [each.name for each in seal.tools]
    for point in (*narrowing.after_each(seal), *narrowing.all_given(seal)):
        for least in (0.0, 0.5, 1.0):
            found = analyzer.candidates(point.fields, without=point.last, min_compatibility=least)
            assert narrowing.narrowed(scorer(point.fields), names, point.last, least) == [each.name for each in found]


def test_points_know_what_came_before_and_no_more(seal: Catalogue) -> None:
    first, second = narrowing.so_far(seal)
    assert ({each.name for each in first.fields}, first.last, first.gold, first.linked) == (
        {"customer", "order_id", "total"},
        "find_order",
        "refund",
        True,
    )
    assert {each.name for each in second.fields} == {"customer", "order_id", "total", "reason", "success"}
    assert "reason" in {each.name for each in next(narrowing.all_given(seal)).fields}


def test_counting() -> None:
    tools = [
        Tool(name=name, input_schema={"type": "object", "properties": {wants: {"type": "string"}}, "required": [wants]})
        for name, wants in (("a", "x"), ("b", "x"), ("c", "y"))
    ]
    tools.append(Tool(name="d"))
    x, y = (Slot(name, {"type": "string"}) for name in "xy")
    points = [
        narrowing.Point(fields=(x,), gold="b"),
        narrowing.Point(fields=(x,), last="a", gold="b"),
        narrowing.Point(fields=(y,), gold="a"),
        narrowing.Point(fields=(), gold="d"),
        narrowing.Point(fields=()),
    ]
    found = narrowing.counted(points, tools, narrowing.formula(tools))
    assert (found["points"], found["with_gold"], found["none"], found["most"]) == (5, 4, 2, 2)
    assert (found["gold"], found["first_10"], found["first"], found["gold_sure"]) == (2, 2, 1, 2)
    assert (found["single"], found["single_right"]) == (2, 1)
    assert found["lost_free"] == 1
    assert found["share"] == pytest.approx(4 / 20)


def test_tokens_are_counted_only_where_somebody_is_asked(seal: Catalogue) -> None:
    points = [point for point in narrowing.after_each(seal) if point.last in ("find_order", "ship")]
    found = routing.tokens(seal, points, len)
    assert (found["points"], found["asked"]) == (2, 1)
    assert 0 < found["prompt"]["p50"] < found["whole"]
    assert found["mean"] == round((found["prompt"]["p50"] + found["whole"]) / 2)


def test_all_rows_and_tables(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "REPEATS", 1)
    found = list(routing.measured(data, len))
    rows.store("routing", found, routing.KEY, data)
    assert len(rows.read("routing", data)) == len(found)
    bfcl, *_ = report_routing.narrowing_table(found).splitlines()[2:]
    assert bfcl.startswith("| bfcl | arguments of the call | names and types | 2 |")
    assert report_routing.links_table(found).splitlines()[2:] == ["| sealtools | 3 | 1 | 1 | 1 |"]
    assert len(report_routing.time_table(found).splitlines()) == 2 + 4
    assert len(report_routing.tokens_table(found).splitlines()) == 2 + 6
