"""Export of labelled requests to pydantic-evals."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jazz_select.evaluation.cases import Case
from jazz_select.evaluation.conversations import slug
from jazz_select.json_values import plain


def to_pydantic_evals(cases: Sequence[Case], *, name: str = "jazz-select") -> dict[str, Any]:
    """Return labelled requests as plain values for `pydantic_evals.Dataset.from_dict`, or for a file of them.

    The input of a case is a mapping with `request`, `episodes` and `context`; its expected output is the list of right
    flow names. The evaluator is the package's own `EqualsExpected`, which compares names and their order.

    Args:
        cases: The labelled requests.
        name: The name of the data set.
    """
    names = [slug(case.request) for case in cases]
    several = Counter(names)
    entries = [
        {
            "name": f"{name}-{number}" if several[name] > 1 else name,
            "inputs": {"request": case.request, "episodes": list(case.episodes), "context": plain(case.context)},
            "metadata": {"why": case.why, "tools": list(case.tools)},
            "expected_output": list(case.expect),
        }
        for number, (name, case) in enumerate(zip(names, cases, strict=True), 1)
    ]
    return {"name": name, "cases": entries, "evaluators": ["EqualsExpected"]}
