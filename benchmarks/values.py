"""How many of the values that people write are read, and how many wrongly, before and after readers by libraries?

`python -m benchmarks.values`: the table of `tests/unit/agent/expressions.yaml`, read by the rules of an earlier commit
and by those of this one, each in a process of its own. Asks for no data. A value counts as read if it is the one in the
table; it is false if it is another one, or if the table says that the answer must be asked about.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
import yaml
from rich.console import Console

from benchmarks import rows
from benchmarks.machine import ROOT
from benchmarks.options import Unclean, opened_book

KEY = ("reader", "language")
TABLE: Final = ROOT / "tests" / "unit" / "agent" / "expressions.yaml"
BEFORE: Final = "2f92324e"
"""The last commit whose rules read values by themselves."""
_SCHEMAS: Final = {
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "datetime": {"type": "string", "format": "date-time"},
    "duration": {"type": "string", "format": "duration"},
}
_PROGRAM: Final = """
import json, sys, time
from jazz_select.agent.reading.bare_answer import bare_answer, plain_answer
from jazz_select.agent.reading.grounding import Wanted, refined
from jazz_select.flow.field_checks import Input
try:
    from datetime import date
    from zoneinfo import ZoneInfo
    from jazz_select.agent.reading.bare_answer import understood_answer
    from jazz_select.agent.reading.expressions.reader import ReadingContext
except ImportError:
    ReadingContext = None
cases = json.load(sys.stdin)
def read(case):
    want = {case["input"]: refined(Wanted(case["schema"], {}), Input(case["input"], question="Which one?"))}
    if ReadingContext is None:
        return bare_answer(want, case["text"]) or plain_answer(want, case["text"]), {}
    context = ReadingContext(language=case["language"], today=date(2026, 5, 13), zone=ZoneInfo("Europe/Berlin"))
    found = bare_answer(want, case["text"], context) or plain_answer(want, case["text"], context)
    return found, {} if found else understood_answer(want, case["text"], context, whole=False)
for case in cases:
    read(case)
answers = []
for case in cases:
    start = time.thread_time()
    found, understood = read(case)
    spent = time.thread_time() - start
    about = list(understood.get(case["input"], ()))
    answers.append({"value": found.get(case["input"]), "understood": about, "ms": spent * 1000})
print(json.dumps(answers))
"""


def cases_of(table: Path = TABLE) -> list[dict[str, Any]]:
    """The expressions of the table, each with its language, its input, and what it gives."""
    sections: list[dict[str, Any]] = yaml.safe_load(table.read_text("utf-8"))
    return [
        {
            "language": each["language"],
            "kind": each["kind"],
            "input": each["input"],
            "schema": _SCHEMAS[each["kind"]],
            "text": text,
            "wanted": wanted,
        }
        for each in sections
        for text, wanted in each["cases"].items()
    ]


def answers_of(cases: Sequence[Mapping[str, Any]], package: Path) -> list[dict[str, Any]]:
    """What the package in this folder reads in each expression, what it understood, and its milliseconds."""
    environment = {**os.environ, "PYTHONPATH": str(package)}  # noqa: TID251 - passed on, not read
    ran = subprocess.run(  # noqa: S603 - this Python, and a program of ours
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(cases),
        env=environment,
        cwd=package,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(ran.stdout)


def is_same(value: object, wanted: object) -> bool:
    """Whether a value is that of the table, which writes times without seconds."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, str) and isinstance(wanted, str):
        clock = value.removesuffix(":00") if "T" not in value else value.replace(":00+", "+", 1)
        return wanted in {value, clock}
    return value == wanted


def row_of(reader: str, language: str, judged: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> rows.Row:
    """One row: how many expressions were read, read wrongly, and asked about with what was understood."""
    gives = [(case, answer) for case, answer in judged if not isinstance(case["wanted"], list)]
    asks = [(case, answer) for case, answer in judged if isinstance(case["wanted"], list)]
    read = sum(is_same(answer["value"], case["wanted"]) for case, answer in gives)
    wrong = sum(answer["value"] is not None and not is_same(answer["value"], case["wanted"]) for case, answer in gives)
    false = wrong + sum(answer["value"] is not None for _, answer in asks)
    proposes = [(case, answer) for case, answer in asks if case["wanted"]]
    proposed = sum(
        answer["value"] is None and len(answer["understood"]) == len(case["wanted"]) for case, answer in proposes
    )
    spent = [answer["ms"] for _, answer in judged]
    return {
        "reader": reader,
        "language": language,
        "expressions": len(judged),
        "give": len(gives),
        "read": read,
        "false": false,
        "propose": len(proposes),
        "proposed": proposed,
        "ms_p50": float(np.percentile(spent, 50)),
        "ms_p99": float(np.percentile(spent, 99)),
    }


def rows_of(reader: str, cases: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> list[rows.Row]:
    """The rows of a reader: one for each language, and one for all."""
    judged = list(zip(cases, answers, strict=True))
    languages = dict.fromkeys(case["language"] for case in cases)
    own = [row_of(reader, each, [one for one in judged if one[0]["language"] == each]) for each in languages]
    return [*own, row_of(reader, "all", judged)]


def main(
    before: Annotated[str, typer.Option(help="The commit whose rules are compared.")] = BEFORE,
    *,
    unclean: Unclean = False,
) -> None:
    """Read the table by both, and store the rows."""
    book = opened_book("values", KEY, look=unclean)
    git = shutil.which("git")
    if git is None:
        typer.echo("Skipped: the earlier commit is read from git, which is not there.", err=True)
        return
    cases = cases_of()
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.run([git, "archive", before, "jazz_select"], cwd=ROOT, capture_output=True, check=True)  # noqa: S603
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        found = rows_of("before", cases, answers_of(cases, Path(folder)))
    found += rows_of("after", cases, answers_of(cases, ROOT))
    book.store(*found)
    for row in found:
        Console().print(told(row))


def told(row: rows.Row) -> str:
    """A row in one line."""
    share = row["read"] / row["give"]
    return (
        f"{row['reader']}, {row['language']}: {row['read']} of {row['give']} read ({share:.1%}), {row['false']} false, "
        f"{row['proposed']} of {row['propose']} proposed, {row['ms_p50']:.2f} ms, p99 {row['ms_p99']:.2f} ms"
    )


if __name__ == "__main__":
    typer.run(main)
