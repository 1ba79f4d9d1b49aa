"""Which tool a wrong name meant, and what is run by mistake: `python -m benchmarks.names`. Asks for no data."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Annotated, cast

import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.options import Unclean, opened_book
from jazz_select.data_files import documents_of
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.tools.tool import Tool

DATA = Path(__file__).parent / "data" / "tool_names.yaml"
KEY = ("method", "half")
CUTOFF = 80
SCORERS = ("ratio", "partial_ratio", "token_sort_ratio", "token_set_ratio", "WRatio")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A name that was asked for, and what was meant."""

    ask: str
    want: tuple[str, ...]
    """One name: that tool. None, or several: nothing may run."""
    kind: str
    held: bool
    without: frozenset[str] = field(default_factory=frozenset[str])
    suggest: str = ""

    @property
    def meant(self) -> str | None:
        """The tool that is to run."""
        return self.want[0] if len(self.want) == 1 else None


Finder = Callable[[str], str | None]
"""A name that was asked for to the name of the tool that would run."""


def read(path: Path = DATA) -> tuple[list[Tool], list[Case]]:
    """The catalogue and the cases."""
    listed = documents_of(path)[0].value
    tools = [
        Tool(
            id=f"node-{number}",
            name=tool["name"],
            provider=tool["provider"],
            operation=tool["operation"],
            capabilities=tuple(tool["capabilities"]),
            input_schema={"type": "object", "properties": {name: {} for name in tool["inputs"]}},
            destructive=tool.get("destructive", False),
        )
        for number, tool in enumerate(listed["tools"])
    ]
    cases = [
        Case(
            ask=case["ask"],
            want=(case["want"],) if isinstance(case["want"], str) else tuple(case["want"]),
            kind=case["kind"],
            held=case.get("held", False),
            without=frozenset(case.get("without", ())),
            suggest=case.get("suggest", ""),
        )
        for case in listed["cases"]
    ]
    return tools, cases


def ours(tools: Sequence[Tool]) -> Finder:
    """`jazz_select.routing.resolve`."""
    index = NameIndex(tools)

    def find(ask: str) -> str | None:
        tool = index.resolve(ask).tool
        return tool.name if tool else None

    return find


def by_scorer(name: str) -> Callable[[Sequence[Tool]], Finder]:
    """One of rapidfuzz's scorers over names and capabilities: the best from the cutoff on, where only one is best."""
    from rapidfuzz import fuzz, process, utils

    scorer = getattr(fuzz, name)

    def method(tools: Sequence[Tool]) -> Finder:
        owners = [tool.name for tool in tools for _ in (tool.name, *tool.capabilities)]
        texts = [utils.default_process(_spaced(text)) for tool in tools for text in (tool.name, *tool.capabilities)]

        def find(ask: str) -> str | None:
            asked = utils.default_process(_spaced(ask))
            scored = cast(
                "list[tuple[str, float, int]]",
                process.extract(asked, texts, scorer=scorer, score_cutoff=CUTOFF, limit=None),
            )
            best = {owners[place] for _, score, place in scored if score == scored[0][1]}
            return best.pop() if len(best) == 1 else None

        return find

    return method


def by_difflib(tools: Sequence[Tool]) -> Finder:
    """`difflib.get_close_matches` as it comes, over names and capabilities."""
    owners: dict[str, str] = {}
    for tool in tools:
        for text in (tool.name, *tool.capabilities):
            owners.setdefault(_spaced(text).lower(), tool.name)

    def find(ask: str) -> str | None:
        found = get_close_matches(_spaced(ask).lower(), owners, n=1)
        return owners[found[0]] if found else None

    return find


def _spaced(text: str) -> str:
    return "".join(char if char.isalnum() else " " for char in text)


METHODS: dict[str, Callable[[Sequence[Tool]], Finder]] = {
    "jazz_select.routing.resolve": ours,
    **{f"rapidfuzz {name}": by_scorer(name) for name in SCORERS},
    "difflib.get_close_matches": by_difflib,
}


def row_of(method: str, tools: Sequence[Tool], cases: Sequence[Case], *, held: bool) -> rows.Row:
    """What one method does with one half of the cases."""
    finders: dict[frozenset[str], Finder] = {}
    found, missed, took = 0, list[str](), list[float]()
    wrong: list[tuple[str, str, str]] = []
    chosen = [case for case in cases if case.held is held]
    for case in chosen:
        if case.without not in finders:
            finders[case.without] = METHODS[method]([tool for tool in tools if tool.name not in case.without])
            finders[case.without]("warm up")
        start = perf_counter()
        got = finders[case.without](case.ask)
        took.append(perf_counter() - start)
        if got is not None and got != case.meant:
            wrong.append((case.kind, case.ask, got))
        elif got is not None:
            found += 1
        elif case.meant:
            missed.append(case.ask)
    return {
        "method": method,
        "half": "held out" if held else "tuned",
        "dataset": "tool_names",
        "data": hashlib.sha256(DATA.read_bytes()).hexdigest()[:16],
        "tools": len(tools),
        "names": len(chosen),
        "meant": sum(case.meant is not None for case in chosen),
        "found": found,
        "wrong": len(wrong),
        "wrong_by_kind": dict(Counter(kind for kind, _, _ in wrong)),
        "missed": missed,
        "ran": [f"{ask} -> {got}" for _, ask, got in wrong],
        "us": round(1e6 * median(took), 1),
    }


def main(
    *,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="The tuned half alone, with what went wrong; not stored.")
    ] = False,
    unclean: Unclean = False,
) -> None:
    """Measure every method on both halves, and store the rows."""
    tools, cases = read()
    console, book = Console(), opened_book("names", KEY, look=tuned or unclean)
    for method in METHODS:
        for held in (False,) if tuned else (False, True):
            row = row_of(method, tools, cases, held=held)
            book.store(row)
            console.print(f"{method}, {row['half']}: {row['found']} of {row['meant']} found, {row['wrong']} wrong")
            if tuned and method == next(iter(METHODS)):
                console.print("missed:", row["missed"], "\nran:", row["ran"])


if __name__ == "__main__":
    typer.run(main)
