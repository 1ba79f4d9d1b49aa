"""Which line of the specification does which test prove? `pytest --spec-report` answers.

A test claims a line with `@pytest.mark.spec("003.7")`. A claim of a line that
does not exist stops the run, so that a slip of the pen proves nothing.
"""

from collections.abc import Iterable, Mapping

import pytest

LINES_PER_PART: Mapping[str, int] = {
    "000": 18,
    "001": 16,
    "002": 23,
    "003": 18,
    "004": 13,
    "005": 18,
    "006": 9,
    "007": 10,
    "008": 6,
    "009": 4,
    "010": 10,
    "011": 11,
    "012": 5,
    "013": 5,
    "014": 4,
    "015": 3,
    "016": 12,
    "017": 5,
    "018": 12,
    "019": 8,
    "020": 8,
    "021": 4,
    "022": 7,
}
"""How many numbered lines each part of the specification has."""


def all_lines() -> list[str]:
    """Every line there is, in order."""
    return [f"{part}.{number}" for part, count in LINES_PER_PART.items() for number in range(1, count + 1)]


def marked(item: pytest.Item) -> tuple[str, list[str]]:
    """A test, without the case of its table, and the lines it claims."""
    test = item.nodeid.split("[", maxsplit=1)[0]
    return test, [str(line) for marker in item.iter_markers("spec") for line in marker.args]


def claims(tests: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Line to the tests that claim it; the cases of a table count as one test.

    Raises:
        pytest.UsageError: A claimed line does not exist.
    """
    known = set(all_lines())
    found: dict[str, list[str]] = {}
    for test, lines in tests:
        for line in lines:
            if line not in known:
                msg = f"{test} claims {line!r}, which is no line of the specification"
                raise pytest.UsageError(msg)
            if test not in (proofs := found.setdefault(line, [])):
                proofs.append(test)
    return found


def report(found: Mapping[str, list[str]]) -> list[str]:
    """The report, line by line; a part that nobody claims is one line."""
    rows: list[str] = []
    for part, count in LINES_PER_PART.items():
        lines = [f"{part}.{number}" for number in range(1, count + 1)]
        proven = [line for line in lines if line in found]
        rows.append(f"{part}: {len(proven)} of {count} lines proven")
        if proven:
            rows += [f"  {line:7} {test}" for line in lines for test in found.get(line, ["- nothing proves this line"])]
    return rows
