"""What a model is offered: the measurement on a small catalogue, and the tables of it and of recall from a server."""

import tomllib
from typing import Any

import pytest

from benchmarks import __main__ as everything
from benchmarks import languages, offered, report
from benchmarks.options import embedder_specs
from benchmarks.report_offered import offered_table, wire_table
from jazz_select import Flow, FlowRegistry

NUMBERS = {"first": 0.5, "offered": 1.0, "candidates": 3.0, "asked": 1.0, "tokens p50": 300.0, "tokens p90": 399.6}


def row(options: str, seed: int = 1, **numbers: float) -> dict[str, Any]:
    told = {"dataset": "one", "flows": 8, "embedder": "static", "options": options, "seed": seed}
    return told | {"numbers": NUMBERS | numbers}


def test_offered_table_has_a_row_for_each_way_and_averages_seeds() -> None:
    without: dict[str, Any] = {"decided right": 0.992, "best": 0.367}
    told = offered_table([row("recommended", asked=0.25, **without), row("bare"), row("bare", seed=2, first=1.0)])
    assert told.splitlines()[2:] == [
        "| one | 8 | static | bare | 2 | 75.0 | 100.0 | 3.0 | 100.0 | – | – | 300 / 400 |",
        "| one | 8 | static | recommended | 1 | 50.0 | 100.0 | 3.0 | 25.0 | 99.2 | 36.7 | 300 / 400 |",
    ]


def test_wire_table_has_both_protocols_beside_the_bare_parts() -> None:
    times = {f"{way}_ms": {"p50": half, "p99": 4.0} for way, half in (("grpc", 1.5), ("rest", 2.25), ("bare", 1.0))}
    at_once = {"per_s_at_once": {"grpc": 1_200, "rest": 400, "bare": 1_500}, "ratio_at_once": 1.25}
    told = {"server": "loopback", "requests": 900, "ratio": 1.5, **times, **at_once}
    runs = [{"flows": flows, **told} for flows in (1_000, 100)]
    assert wire_table(runs).splitlines()[2:] == [
        "| loopback | 100 | 900 | 1.50 / 4.00 | 2.25 / 4.00 | 1.00 / 4.00 | 1.50 | 1,200 / 400 / 1,500 | 1.25 |",
        "| loopback | 1,000 | 900 | 1.50 / 4.00 | 2.25 / 4.00 | 1.00 / 4.00 | 1.50 | 1,200 / 400 / 1,500 | 1.25 |",
    ]


@pytest.mark.parametrize("question", ["sets", "scope", "cascade", "followups", "languages", "offered", "wire"])
def test_every_question_is_asked_by_all_and_has_a_table(question: str) -> None:
    assert hasattr(everything, question)
    assert {marker for marker, (asked, _) in report.TABLES.items() if asked == question} >= {
        question,
        f"{question}-provenance",
    }


async def test_what_is_offered_is_counted_over_requests_that_have_a_right_flow() -> None:
    flows = FlowRegistry(min_examples=0)
    for name, said in (("feed_cat", "give the cat its dinner"), ("walk_dog", "take the dog out")):
        Flow(name=name, description=said, examples=(said,), registry=flows)
    asked = [
        offered.Asked(text="please take my dog out", gold=frozenset({"walk_dog"})),
        offered.Asked(text="the cat wants its dinner", gold=frozenset()),
    ]
    told = (await offered.measured(flows, asked, "static"))["bare"]
    assert {name: told[name] for name in ("first", "offered", "candidates", "asked")} == {
        "first": 1.0,
        "offered": 1.0,
        "candidates": 2.0,
        "asked": 1.0,
    }
    assert told["tokens p90"] >= told["tokens p50"] > 0


async def test_what_is_answered_without_a_model_is_judged() -> None:
    flows = FlowRegistry(min_examples=0)
    for name, said in (("feed_cat", "give the cat its dinner"), ("walk_dog", "take the dog out")):
        Flow(name=name, description=said, examples=(said,), registry=flows)
    texts = {"walk_dog": ("walk_dog", "feed_cat"), "the cat wants its dinner": ("feed_cat", "walk_dog")}
    asked = [offered.Asked(text=text, gold=frozenset({right})) for text, both in texts.items() for right in both]
    told = (await offered.measured(flows, asked, "static"))["recommended"]
    assert (told["asked"], told["decided right"]) == (0.5, 0.5)


def test_the_extra_brings_every_embedder_that_is_measured_by_default() -> None:
    project = tomllib.loads((offered.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = next(each for each in project["optional-dependencies"]["bench"] if each.startswith("jazz-select["))
    brought = {"static", *ours.partition("[")[2].rstrip("]").split(",")}
    assert brought | {"auto"} >= {*languages.EMBEDDERS, *embedder_specs(None, None)}, "auto is one or two of the others"
