"""What schemas alone say about which tool can follow: `python -m benchmarks.routing --data DIR`."""

import random
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from math import isclose
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import typer
from rich.console import Console

from benchmarks import narrowing, rows
from benchmarks.datasets import schemas
from benchmarks.datasets.base import DataMissingError, sampled
from benchmarks.datasets.schemas import Catalogue
from benchmarks.metrics import mean, percentile
from benchmarks.narrowing import LIMIT, Point
from benchmarks.options import DataFolder, Unclean, data_folder, no_data, opened_book
from jazz_select.routing.decisions.decision_points import ChainAnalyzer, ToolCandidate, decision_prompt
from jazz_select.routing.plans.tool_asker import tool_messages
from jazz_select.routing.schemas.compatibility import CompatibilityIndex, compatibility_score
from jazz_select.routing.schemas.fields import fields, type_text
from jazz_select.routing.tools.tool import Tool

KEY = ("part", "dataset", "points_of", "method")
SEED = 1
THOUSAND = 1_000
REPEATS = 7
FRESH = 50
"""Points that are timed on an index of their own."""
CHECKED = 20
"""Points whose scores with every tool are compared with the formula, pair by pair."""

Count = Callable[[str], int]
"""Tokens of a text."""


def timed(tools: Sequence[Tool], points: Sequence[Point]) -> dict[str, Any]:
    """Milliseconds for an index, for one point on a fresh and on a used one, and for all pairs."""
    asked = sampled(points, THOUSAND, SEED)
    return {
        "index_ms": _p50([_seconds(lambda: ChainAnalyzer(tools)) for _ in range(REPEATS)]),
        "first_ms": _spread([_one(ChainAnalyzer(tools), point) for point in sampled(asked, FRESH, SEED)]),
        "again_ms": _spread(_used(ChainAnalyzer(tools), asked)),
        "graph_ms": (
            _p50([_seconds(CompatibilityIndex(tools).graph) for _ in range(REPEATS)])
            if any(tool.output_schema is not None for tool in tools)
            else None
        ),
    }


def _used(analyzer: ChainAnalyzer, points: Sequence[Point]) -> list[float]:
    for point in points:
        _one(analyzer, point)
    return [_one(analyzer, point) for point in points]


def _one(analyzer: ChainAnalyzer, point: Point) -> float:
    return _seconds(lambda: analyzer.candidates(point.fields, without=point.last, max_candidates=LIMIT))


def _seconds(what: Callable[[], object]) -> float:
    start = perf_counter()
    what()
    return perf_counter() - start


def _p50(seconds: Sequence[float]) -> float:
    return round(1e3 * median(seconds), 3)


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    return rows.rounded({f"p{p}": 1e3 * percentile(seconds, p / 100) for p in (50, 99)}, 3)


def differing(tools: Sequence[Tool], points: Sequence[Point]) -> dict[str, int]:
    """Pairs where the index and the formula, tool by tool, do not say the same but for the last digits."""
    index = CompatibilityIndex(tools)
    found = {"pairs": 0, "differing": 0}
    for point in points:
        for tool, score in zip(tools, index.scores(point.fields).tolist(), strict=True):
            found["pairs"] += 1
            found["differing"] += not isclose(score, compatibility_score(point.fields, tool), abs_tol=1e-9)
    return found


def tokens(catalogue: Catalogue, points: Sequence[Point], count: Count) -> dict[str, Any]:
    """The prompts for what remains, beside those for everything.

    `mean` takes a point as a run does: nothing is asked where one tool remains, and everything is shown where none
    does.
    """
    scorer = narrowing.formula(catalogue.tools)
    names = [tool.name for tool in catalogue.tools]
    whole = count(decision_prompt("", (), [candidate(tool) for tool in catalogue.tools]))
    listed, asked, in_full = list[int](), list[int](), list[int]()
    for point in points:
        left = narrowing.narrowed(scorer(point.fields), names, point.last, 0.5)[:LIMIT]
        if len(left) > 1:
            tools = [catalogue.by_name[name] for name in left]
            last = catalogue.by_name.get(point.last)
            shown = fields(last.output_schema) if last else {each.name: each for each in point.fields}
            asked.append(count(decision_prompt(point.last, list(shown), [candidate(tool) for tool in tools])))
            in_full.append(_message_tokens(tools, count))
        listed.append(asked[-1] if len(left) > 1 else 0 if left else whole)
    return {
        "points": len(points),
        "asked": len(asked),
        "whole": whole,
        "whole_in_full": _message_tokens(catalogue.tools, count),
        "prompt": {f"p{p}": percentile(asked or [0], p / 100) for p in (50, 90)},
        "prompt_in_full": {f"p{p}": percentile(in_full or [0], p / 100) for p in (50, 90)},
        "mean": round(mean(listed)),
    }


def candidate(tool: Tool) -> ToolCandidate:
    """A tool as the analyzer shows it."""
    summary = {name: type_text(part, tool.input_schema) for name, (part, _) in fields(tool.input_schema).items()}
    return ToolCandidate(name=tool.name, description=tool.description, input_schema_summary=summary)


def _message_tokens(tools: Sequence[Tool], count: Count) -> int:
    return sum(count(message.content) for message in tool_messages("", tools))


def wordllama_tokens() -> Count:
    """By the tokenizer that comes with wordllama; those of current models split English less finely."""
    wordllama: Any = import_module("wordllama")  # not every platform has it
    from tokenizers import Tokenizer

    files = Path(wordllama.__file__).parent.rglob("*tokenizer_config.json")
    tokenizer = Tokenizer.from_file(str(next(files)))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def mixed(first: Catalogue, second: Catalogue, size: int) -> tuple[Tool, ...]:
    """Half of each, as far as there are so many."""
    chosen = {tool.name: tool for tool in sampled(first.tools, size // 2, SEED)}
    more = [tool for tool in second.tools if tool.name not in chosen]
    found = [*chosen.values(), *sampled(more, size - len(chosen), SEED)]
    random.Random(SEED).shuffle(found)
    return tuple(found)


def measured(data: Path, count: Count) -> Iterator[rows.Row]:
    """All rows."""
    bfcl, seal = schemas.bfcl(data, seed=SEED), schemas.sealtools(data, seed=SEED)
    both = bfcl.sha256 + seal.sha256
    catalogues = [
        (bfcl, list(narrowing.from_request(bfcl))),
        *(
            (each, list(narrowing.after_each(each)))
            for each in (
                Catalogue(name="sealtools-1000", tools=sampled(seal.tools, THOUSAND, SEED), sha256=seal.sha256),
                Catalogue(name="bfcl-and-sealtools-1000", tools=mixed(bfcl, seal, THOUSAND), sha256=both),
                seal,
            )
        ),
    ]
    for catalogue, points in catalogues:
        giving = [point for point in points if point.fields]
        checked = differing(catalogue.tools, sampled(giving, CHECKED, SEED))
        yield _row("time", catalogue, "", "") | timed(catalogue.tools, giving) | {"checked": checked}
    questions: list[tuple[Catalogue, str, list[Point]]] = [
        (bfcl, "arguments of the call", list(narrowing.from_request(bfcl))),
        (seal, "after every tool", list(narrowing.after_each(seal))),
    ]
    for told, points in (
        ("calls so far", list(narrowing.so_far(seal))),
        ("calls so far, all arguments", list(narrowing.all_given(seal))),
    ):
        linked = [point for point in points if point.linked]
        questions += [(seal, told, points), (seal, f"{told}; takes an output", linked)]
    for catalogue, told, points in questions:
        tools = catalogue.tools
        for method, make in narrowing.METHODS.items():
            yield _row("narrowing", catalogue, told, method) | narrowing.counted(points, tools, make(tools))
        yield _row("tokens", catalogue, told, "") | tokens(catalogue, points, count)
    yield _row("links", seal, "", "") | narrowing.links(seal)


def _row(part: str, catalogue: Catalogue, told: str, method: str) -> rows.Row:
    where = {"dataset": catalogue.name, "data": catalogue.sha256, "tools": len(catalogue.tools), "seed": SEED}
    return {"part": part, "points_of": told, "method": method, **where}


def main(data: DataFolder = None, *, unclean: Unclean = False) -> None:
    """Measure and store the rows."""
    console, book = Console(), opened_book("routing", KEY, look=unclean)
    try:
        for row in measured(data_folder(data), wordllama_tokens()):
            book.store(row)
            console.print(row)
    except DataMissingError as error:
        raise no_data(error) from None


if __name__ == "__main__":
    typer.run(main)
