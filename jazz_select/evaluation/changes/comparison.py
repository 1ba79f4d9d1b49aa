"""`diff`: two versions of a catalogue, each judged in a process of its own, and what lies between them."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, read_cases
from jazz_select.evaluation.changes.difference import (
    BROKEN,
    ChangeKind,
    Compared,
    Effect,
    RouteChange,
    Totals,
    compared,
)
from jazz_select.evaluation.changes.gates import GateFailure, Gates
from jazz_select.evaluation.changes.git_tree import is_tracked
from jazz_select.evaluation.changes.route_book import RouteBook, keep_untracked
from jazz_select.evaluation.changes.side_run import Job, SideRun
from jazz_select.evaluation.changes.sides import side_of
from jazz_select.evaluation.changes.snapshots import Question, Snapshot, Source, questions
from jazz_select.evaluation.index import CACHE
from jazz_select.evaluation.overlay import load_overlay
from jazz_select.evaluation.route import Asked, Policy
from jazz_select.evaluation.tables import dataframe, html_table

MOST_COUNTED = 200
"""Requests whose prompts are counted: each takes about a millisecond on either side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(Compared):
    """What a change of a catalogue moves, and how that was found out.

    Attributes:
        base: The version before, in words.
        head: The version after.
        failures: The gates that the change does not pass.
        took_s: How long it took, in seconds.
    """

    base: str
    head: str
    failures: tuple[GateFailure, ...] = ()
    took_s: float = 0.0

    @classmethod
    def between(
        cls, base: Snapshot, head: Snapshot, asked: Sequence[Question], gates: Gates | None = None
    ) -> "Difference":
        """From two snapshots that were asked the same."""
        found = compared(base, head, asked)
        return _difference(base.label, head.label, found, gates or Gates())

    @property
    def moved(self) -> tuple[RouteChange, ...]:
        """The requests whose first candidate is another flow."""
        return tuple(each for each in self.changes if ChangeKind.FIRST in each.kinds)

    @property
    def broken(self) -> tuple[RouteChange, ...]:
        """The cases whose right flow was first, or offered, and is not any more, or is gone altogether."""
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in BROKEN)

    @property
    def fixed(self) -> tuple[RouteChange, ...]:
        """The cases whose right flow is first now, or offered, and was not before."""
        better = {Effect.FIXED, Effect.FOUND}
        return tuple(each for each in self.changes if each.source is Source.CASE and each.effect in better)

    @property
    def passed(self) -> bool:
        """Whether every gate was passed."""
        return not self.failures

    @property
    def summary(self) -> str:
        """It all in one sentence."""
        asked = f"{self.after.requests:,} requests"
        if not self.changes:
            return f"No request is led elsewhere ({asked})."
        moved, others = len(self.moved), len(self.changes) - len(self.moved)
        told = [f"{moved:,} of {asked} {'has' if moved == 1 else 'have'} another first candidate"]
        if others:
            told.append(
                f"{others:,} more {'changes' if others == 1 else 'change'} in candidates, outcome or confidence"
            )
        if self.after.labelled:
            gone = sum(each.effect is Effect.GONE for each in self.broken)
            lost = f" ({gone:,} lost {'its' if gone == 1 else 'their'} flow)" if gone else ""
            told.append(f"{_cases(len(self.broken))} broken{lost}, {len(self.fixed) or 'none'} fixed")
        return f"{'; '.join(told)}."

    def __str__(self) -> str:
        """It all in one sentence."""
        return self.summary

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON types; times in seconds, `None` for what is not known."""
        return {
            "base": self.base,
            "head": self.head,
            "summary": self.summary,
            "passed": self.passed,
            "failures": [asdict(each) for each in self.failures],
            "flows": asdict(self.flows),
            "before": _totals_to_dict(self.before),
            "after": _totals_to_dict(self.after),
            "changes": [asdict(each) for each in self.changes],
            "confusions": [asdict(each) for each in self.confusions],
            "notes": list(self.notes),
            "took_s": self.took_s,
        }

    def to_dataframe(self) -> Any:
        """The requests that are led elsewhere as a `pandas.DataFrame`, one a row.

        Raises:
            ConfigError: pandas is not installed.
        """
        rows = [
            {
                "request": each.request,
                "source": each.source.value,
                "expect": None if each.expect is None else list(each.expect),
                "kinds": [kind.value for kind in each.kinds],
                "effect": each.effect.value,
                "first_before": each.before.first,
                "first_after": each.after.first,
                "outcome_before": each.before.outcome.value,
                "outcome_after": each.after.outcome.value,
                "confidence_before": each.before.confidence,
                "confidence_after": each.after.confidence,
                "entered": list(each.entered),
                "left": list(each.left),
                "why": each.why,
            }
            for each in self.changes
        ]
        return dataframe(rows, _COLUMNS)

    def _repr_html_(self) -> str:
        """For a notebook."""
        rows = [
            (each.effect.value, each.request, each.source.value, each.before.first, each.after.first, each.why)
            for each in self.changes
        ]
        caption = f"{self.base} → {self.head}: {self.summary}"
        return html_table(("", "request", "from", "first before", "first after", "why"), rows, caption)


_COLUMNS = (
    "request",
    "source",
    "expect",
    "kinds",
    "effect",
    "first_before",
    "first_after",
    "outcome_before",
    "outcome_after",
    "confidence_before",
    "confidence_after",
    "entered",
    "left",
    "why",
)


async def diff(  # noqa: PLR0913 - options with a name
    base: str = "HEAD",
    head: str = ".",
    *,
    flows: str = "flows",
    base_flows: str | None = None,
    cases: Iterable[Case | Path | str] | Path | str = (),
    requests: Iterable[str | Asked] = (),
    policy: Policy | None = None,
    embedder: str = "auto",
    language: str = "english",
    agent_id: str = "support",
    gates: Gates | None = None,
    learned: Path | None = None,
    cache: Path | None = CACHE,
    here: Path | None = None,
) -> Difference:
    """Which requests are led elsewhere by a change of the flows: every case, every logged request, every example.

    No model is asked. Each side is loaded and judged in a process of its own, both at once; what was judged before is
    taken from the cache.

    Args:
        base: The version before: a commit (`main`, `HEAD~3`, `v1.2`, `main...HEAD` for what both have in common),
            `COMMIT:FLOWS`, a folder, a file, or `index:FOLDER` for what a deployment has in its index.
        head: The version after, likewise; `.` is the working tree as it is.
        flows: Where the flows are, seen from either side's folder.
        base_flows: Where they are on the side of `base`, if elsewhere.
        cases: Labelled requests, or files of them, or one file; they may name flows that one side alone has.
        requests: What users asked.
        policy: How the deployment selects; the recommended way where None.
        embedder: As for `ProceduralMemory.open`.
        language: Likewise.
        agent_id: Whose flows of an index.
        gates: What the change may do.
        learned: What was learned from corrections, as `learn` writes it: both sides are judged with the live version
            of it, as a sync would index them; but for an index, which has what was synced into it.
        cache: A folder for what was judged; None to judge all anew and keep nothing.
        here: The working directory, where it is another.

    Raises:
        ConfigError: A side is not there, a file of cases or of what was learned cannot be read, a setting cannot work,
            or the flows of a side cannot be loaded. The other side is in the cache by then.
    """
    began = perf_counter()
    place = (here or Path.cwd()).absolute()
    labelled, left_out = _labelled(cases)
    sides = await asyncio.gather(
        asyncio.to_thread(side_of, base, flows=base_flows or flows, here=place),
        asyncio.to_thread(side_of, head, flows=flows, here=place),
    )
    policy = policy or Policy()
    kept, notes = await asyncio.to_thread(_cache_at, None if cache is None else place / cache)
    book = RouteBook(kept, policy=policy, embedder=embedder, language=language)
    job = Job(
        policy=policy,
        embedder=embedder,
        language=language,
        cache=None if kept is None else str(kept),
        agent_id=agent_id,
        learned=_lesson(place, learned),
    )
    async with AsyncExitStack() as stack:
        runs = [await stack.enter_async_context(SideRun(side, book, job)) for side in sides]
        older, newer, asked = await _snapshots(runs, labelled, list(requests))
    found = compared(older, newer, asked)
    notes += left_out if found.after.labelled or found.before.labelled else (*left_out, _NO_CASES)
    return _difference(older.label, newer.label, found, gates or Gates(), notes=notes, took_s=perf_counter() - began)


def _cache_at(folder: Path | None) -> tuple[Path | None, tuple[str, ...]]:
    """The cache, where it can be believed: one that came with a commit says whatever its author wants."""
    if folder is None:
        return None, ()
    if is_tracked(folder):
        note = (
            f"the cache {folder} is not read: it is committed, so it may say anything; git rm -r --cached takes it out"
        )
        return None, (note,)
    keep_untracked(folder)
    return folder, ()


def _lesson(place: Path, learned: Path | None) -> dict[str, Any] | None:
    live = None if learned is None else load_overlay(place / learned, must_exist=True).version("live")
    return None if live is None else live.model_dump(mode="json")


def _labelled(cases: Iterable[Case | Path | str] | Path | str) -> tuple[list[Case], tuple[str, ...]]:
    """The cases, those of files among them whatever flows they name, and what is wrong with others of these files."""
    found: list[Case] = []
    notes: list[str] = []
    for each in (cases,) if isinstance(cases, Path | str) else cases:
        if isinstance(each, Case):
            found.append(each)
            continue
        read = read_cases(Path(each), None)
        found += read.cases
        notes += [f"left out: {problem}" for problem in read.errors[:_PROBLEMS]]
        more = len(read.errors) - _PROBLEMS
        notes += [f"left out: {more} more of {each}"] if more > 0 else []
    return found, tuple(notes)


_PROBLEMS = 5
_NO_CASES = (
    "there are no labelled cases, so nobody knows which changes are for the worse: "
    "name them with --cases; docs/cases.md says how to write them"
)


async def _snapshots(
    runs: Sequence[SideRun], cases: Sequence[Case], logged: Sequence[str | Asked]
) -> tuple[Snapshot, Snapshot, tuple[Question, ...]]:
    opened = await asyncio.gather(*(run.open() for run in runs), return_exceptions=True)
    failed = next((each for each in opened if isinstance(each, BaseException)), None)
    if failed is not None:
        well = [run for run, each in zip(runs, opened, strict=True) if each is None]
        for run in well:  # what can be judged is judged, for the next time
            asked = questions(cases, logged, run.flows)
            await run.asked(asked, _counted(asked))
        raise failed
    if not any(run.flows for run in runs):
        places = " and ".join(dict.fromkeys(f"{run.side.flows} of {run.side.label}" for run in runs))
        msg = f"there are no flows at {places}: name them with --flows"
        raise ConfigError(msg)
    asked = questions(cases, logged, *(run.flows for run in runs))
    counted = _counted(asked)
    if runs[0].digest and runs[0].digest == runs[1].digest:  # the same catalogue: once is enough
        older = await runs[0].asked(asked, counted)
        return (
            older,
            Snapshot(label=runs[1].side.label, flows=runs[1].flows, routes=older.routes, tokens=older.tokens),
            asked,
        )
    older, newer = await asyncio.gather(*(run.asked(asked, counted) for run in runs))
    return older, newer, asked


def _counted(asked: Sequence[Question]) -> list[Question]:
    """The cases and logged requests whose prompts are counted: the same ones on both sides, and the next time."""
    users = [each for each in asked if each.source is not Source.EXAMPLE]
    return sorted(users, key=lambda each: each.key)[:MOST_COUNTED]


def _difference(
    base: str, head: str, found: Compared, gates: Gates, *, notes: tuple[str, ...] = (), took_s: float = 0.0
) -> Difference:
    return Difference(
        base=base,
        head=head,
        flows=found.flows,
        changes=found.changes,
        confusions=found.confusions,
        before=found.before,
        after=found.after,
        failures=gates.failures(found),
        notes=(*found.notes, *notes),
        took_s=took_s,
    )


def _totals_to_dict(totals: Totals) -> dict[str, Any]:
    return asdict(totals) | {"recall_at_1": totals.recall_at_1, "asked_share": totals.asked_share}


def _cases(count: int) -> str:
    return "no case is" if not count else "1 case is" if count == 1 else f"{count} cases are"
