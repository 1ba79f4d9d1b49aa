"""Judging two catalogues, command by command: `python -m examples.judge`, or `make judge`.

The shop of `flows/` and the patients' desk of `examples/clinic` are checked and measured, a change of the desk is
compared with what was there before, and what its users corrected in a week is learned. All that is written lies in a
folder that is gone afterwards. Every line that begins with $ can be typed as it stands, but for that folder's name.
"""

import asyncio
import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from jazz_select import FlowRegistry, FlowSelector
from jazz_select.build import load_registry
from jazz_select.evaluation import Case, indexed, load_cases
from jazz_select.evaluation.index import AGENT
from jazz_select.outcomes import Source

HERE = Path(__file__).parent
CLINIC, CASES = "examples/clinic/flows.yaml", "examples/clinic/cases.yaml"
EDIT = (
    "      - Our GP cannot find a reason for my rash. Which department do I turn to?\n"
    "      - my own doctor sent me, who has a look at my knee\n"
    "      - The practice here has closed, and I need somebody for my blood pressure.\n"
)
"""Three examples that somebody means well with, for `book_first_visit`: they read like half of what the desk hears."""
BEFORE = "      - How long is the wait for someone new at the allergy clinic?\n"


def edited(folder: Path) -> Path:
    """A second version of the desk: three more examples of one flow."""
    text = (HERE / "clinic" / "flows.yaml").read_text("utf-8")
    if BEFORE not in text:
        msg = f"the example that the edit stands after is no longer in {CLINIC}: {BEFORE.strip()}"
        raise SystemExit(msg)
    made = folder / "flows.yaml"
    made.write_text(text.replace(BEFORE, BEFORE + EDIT), "utf-8")
    return made


def cases_of(registry: FlowRegistry) -> tuple[Case, ...]:
    """The labelled requests of the desk."""
    return load_cases(HERE / "clinic" / "cases.yaml", registry, flows=CLINIC)


async def week(log: Path) -> str:
    """A week at the desk: every other case is asked, and a colleague says what would have been right.

    Returns:
        What happened, in a line.
    """
    registry = load_registry(CLINIC)
    cases = cases_of(registry)
    asked = [case for case in cases[::2] if len(case.expect) == 1 and not case.episodes]
    corrected = 0
    async with indexed(registry) as memory, FlowSelector(None, registry, memory, AGENT, log=log) as selector:
        for case in asked:
            result = await selector.select(case.request)
            if tuple(result.names) != case.expect:
                await selector.feedback(result, right=case.expect, source=Source(kind="person", name="desk"))
                corrected += 1
    return f"{len(asked)} requests were asked, and {corrected} of them corrected"


def run(*arguments: str, expect: Sequence[int] = (0,)) -> None:
    """One command, as it would be typed, and what it prints.

    Raises:
        SystemExit: It ended in another way than was expected.
    """
    print(f"\n$ {shlex.join(('jazz-select', *arguments))}", flush=True)
    code = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", "from jazz_select.cli import app; app()", *arguments], check=False
    ).returncode
    if code not in expect:
        msg = f"jazz-select {arguments[0]} left with {code}"
        raise SystemExit(msg)


def main() -> None:
    """All commands on both catalogues."""
    began = perf_counter()
    print("The shop: is anything wrong with it, and how well is it found?")
    run("check", "flows", "--tools", "flows", "--cases", "examples/eval.yaml")
    run("eval", "examples/eval.yaml", "--flows", "flows", "--fail-under", "R@1=.6")
    print("\nThe patients' desk, near-twins on purpose, asked as people ask.")
    run("check", CLINIC, "--cases", CASES)
    run("eval", CASES, "--flows", CLINIC, "--fail-under", "coverage=.8")
    with TemporaryDirectory(prefix="jazz-judge-") as made:
        folder = Path(made)
        print("\nThree examples are added to one flow. Which requests does that lead elsewhere?")
        run("diff", CLINIC, str(edited(folder)), "--cases", CASES, expect=(0, 1))
        log, unseen, learned = folder / "week.sqlite", folder / "unseen.json", folder / "learned.yaml"
        kept = [
            each.model_dump(include={"request", "expect", "episodes"}) for each in cases_of(load_registry(CLINIC))[1::2]
        ]
        unseen.write_text(json.dumps(kept), "utf-8")
        print("\nA week at the desk:", asyncio.run(week(log)))
        common = ("--flows", CLINIC, "--agent-id", AGENT, "--learned", str(learned))
        run("learn", str(log), *common)
        run("learn", str(log), *common, "--shadow")
        run("learn", *common, "--promote")
        print("\nRequests of that week that nothing was learned from, before and after:")
        run("eval", str(unseen), "--flows", CLINIC)
        run("eval", str(unseen), "--flows", CLINIC, "--learned", str(learned))
        run("drift", str(log), "--flows", CLINIC, "--agent-id", AGENT)
    print(f"\nAll of it in {perf_counter() - began:.0f} s.")


if __name__ == "__main__":
    main()
