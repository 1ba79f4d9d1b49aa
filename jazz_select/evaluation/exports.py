"""Export of labelled requests to pydantic-evals: a data set with an evaluator, or its YAML file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import yaml

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.conversations import slug
from jazz_select.json_values import plain

_MODULE: Final = "pydantic_evals"


def to_pydantic_evals(cases: Sequence[Case], *, name: str = "jazz-select") -> Any:
    """Return a `pydantic_evals.Dataset` of labelled requests.

    The input of a case is a mapping with `request`, `episodes` and `context`; its expected output is the list of right
    flow names. The task takes this input and returns flow names. The data set's evaluator, `ChosenFlows`, asserts that
    they are the expected ones in any order, and scores the share of the expected ones that was chosen.

    ```python
    data = to_pydantic_evals(load_cases(file, registry, flows="flows"))


    async def choose(inputs):
        return (await selector.select(inputs["request"], context=inputs["context"])).names


    report = await data.evaluate(choose)
    ```

    Args:
        cases: The labelled requests.
        name: The name of the data set.

    Raises:
        ConfigError: pydantic-evals is not installed.
    """
    evals = _package()
    evaluator: Any = flow_evaluator()
    entries = [evals.Case(**entry) for entry in _entries(cases)]
    # With its types: without them the package warns whenever the data set is written or read.
    kind: Any = evals.Dataset[dict[str, Any], list[str], dict[str, Any]]
    return kind(name=name, cases=entries, evaluators=[evaluator()])


def write_pydantic_evals(cases: Sequence[Case], file: Path, *, name: str = "jazz-select") -> None:
    """Write labelled requests as YAML for `pydantic_evals.Dataset.from_file`; the package is not needed.

    The file's evaluator is the built-in `EqualsExpected`, which compares names and their order. To read it with the
    evaluator of `to_pydantic_evals`, too, pass `custom_evaluator_types=[flow_evaluator()]`. An existing file is
    overwritten.

    Raises:
        ConfigError: The file cannot be written.
    """
    content = {"name": name, "cases": list(_entries(cases)), "evaluators": ["EqualsExpected"]}
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120)
    try:
        file.write_text(text, "utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"cannot write the data set to {file}: {error.strerror or error}") from error


def names_of(cases: Sequence[Case]) -> list[str]:
    """Return a unique name for each case, made of its request, and numbered where needed."""
    names = [slug(case.request) for case in cases]
    several = Counter(names)
    return [f"{name}-{number}" if several[name] > 1 else name for number, name in enumerate(names, 1)]


def _entries(cases: Sequence[Case]) -> Iterable[dict[str, Any]]:
    for name, case in zip(names_of(cases), cases, strict=True):
        yield {
            "name": name,
            "inputs": {
                "request": case.request,
                "episodes": list(case.episodes),
                "context": plain(case.context),
            },
            "metadata": {"why": case.why, "tools": list(case.tools)},
            "expected_output": list(case.expect),
        }


@cache
def flow_evaluator() -> type[Any]:
    """Return the class `ChosenFlows`, an evaluator of pydantic-evals that compares chosen flows with expected ones."""
    base: Any = _package("evaluators").Evaluator

    def evaluate(_: object, ctx: Any) -> Mapping[str, Any]:
        return compare_choices(ctx.expected_output or (), ctx.output or ())

    about = "Whether the chosen flows are the expected ones, and which share of those was chosen."
    # Made at run time, because its base class needs the package.
    made = type(base)("ChosenFlows", (base,), {"evaluate": evaluate, "__doc__": about, "__module__": __name__})
    return dataclass(made)


def compare_choices(expected: Iterable[str], chosen: Iterable[str]) -> dict[str, bool | float]:
    """Return the scores of `ChosenFlows`: `right_flows` and `found`.

    If no flow is expected, `found` is 1 if none was chosen, else 0.
    """
    wanted, got = set(expected), set(chosen)
    found = len(wanted & got) / len(wanted) if wanted else float(not got)
    return {"right_flows": wanted == got, "found": found}


def _package(part: str = "") -> Any:
    try:
        return import_module(f"{_MODULE}.{part}" if part else _MODULE)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != _MODULE:
            raise
        # No extra of this package: each release of it goes with one release of pydantic-ai alone.
        raise ConfigError("a data set of pydantic-evals needs that package: pip install pydantic-evals") from error
