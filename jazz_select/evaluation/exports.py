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
    counts = Counter(slug(case.request) for case in cases)
    entries: list[dict[str, Any]] = []
    for number, case in enumerate(cases, 1):
        title = slug(case.request)
        if counts[title] > 1:
            title = f"{title}-{number}"
        entry = {
            "name": title,
            "inputs": {"request": case.request, "episodes": list(case.episodes), "context": plain(case.context)},
            "metadata": {"why": case.why, "tools": list(case.tools)},
            "expected_output": list(case.expect),
        }
        entries.append(entry)
    return {"name": name, "cases": entries, "evaluators": ["EqualsExpected"]}
