"""`diff`: compare two versions of a catalogue, each judged in a process of its own."""

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from jazz_select.errors import ConfigError
from jazz_select.evaluation.cases import Case, read_cases
from jazz_select.evaluation.changes.difference import Difference, GateFailure, Gates, RouteChange
from jazz_select.evaluation.changes.git_tree import is_tracked
from jazz_select.evaluation.changes.reasons import reasons
from jazz_select.evaluation.changes.route_book import RouteBook
from jazz_select.evaluation.changes.side_run import Job, SideRun
from jazz_select.evaluation.changes.sides import side_of
from jazz_select.evaluation.changes.snapshots import Probe, SideState, Source, dumps, questions
from jazz_select.evaluation.index import CACHE
from jazz_select.evaluation.overlay import Overlay, load_overlay
from jazz_select.evaluation.route import Query, RouteOptions
from jazz_select.evaluation.whole_files import keep_untracked

MOST_COUNTED = 200
"""Requests whose prompts are counted: each takes about a millisecond on either side."""


async def diff(  # noqa: PLR0913 - options with a name
    base: str = "HEAD",
    head: str = ".",
    *,
    flows: str = "flows",
    base_flows: str | None = None,
    cases: Iterable[Case | Path | str] | Path | str = (),
    requests: Iterable[str | Query] = (),
    routing: RouteOptions | None = None,
    embedder: str = "auto",
    language: str = "english",
    agent_id: str = "support",
    gates: Gates | None = None,
    learned: Overlay | Path | None = None,
    cache: Path | None = CACHE,
    here: Path | None = None,
) -> Difference:
    """Return which requests a change of the flows leads elsewhere, among all cases, logged requests and examples.

    No model is asked. Both sides are loaded and judged at once, each in a process of its own. Earlier results are taken
    from the cache.

    Args:
        base: The version before: a commit (`main`, `HEAD~3`, `v1.2`, or `main...HEAD` for the merge base), a folder, a
            file, or `index:FOLDER` for a deployed index.
        head: The version after, likewise; `.` is the working tree with uncommitted changes.
        flows: The path of the flows, relative to the folder of either side.
        base_flows: The path of the flows of `base`, if different.
        cases: Labelled requests, files of them, or one file. Labels may name flows of one side only.
        requests: Requests of users.
        routing: How the deployment selects; None uses the defaults.
        embedder: As for `ProceduralMemory.open`.
        language: As for `ProceduralMemory.open`.
        agent_id: The owner of the flows in an index.
        gates: Limits on the change.
        learned: What was learned, or its file. Both sides are judged with its live version, as after a sync; an index
            is judged as it is.
        cache: A folder for results; None uses and keeps none.
        here: The working directory, if another.

    Raises:
        ConfigError: A side does not exist, a file of cases or learned examples is unreadable, a setting is invalid, or
            the flows of a side cannot be loaded. The result of the other side is cached even then.
    """
    began = perf_counter()
    place = (here or Path.cwd()).absolute()
    labelled, left_out = _load_cases(cases)
    sides = await asyncio.gather(
        asyncio.to_thread(side_of, base, flows=base_flows or flows, here=place),
        asyncio.to_thread(side_of, head, flows=flows, here=place),
    )
    routing = routing or RouteOptions()
    kept, notes = await asyncio.to_thread(_cache_at, None if cache is None else place / cache)
    book = RouteBook(kept, routing=routing, embedder=embedder, language=language)
    job = partial(Job, routing=routing, embedder=embedder, language=language, agent_id=agent_id)
    job = partial(job, learned=_live_version(place, learned))
    async with AsyncExitStack() as stack:
        runs = [SideRun(job(side=side), book, stack) for side in sides]
        older, newer, asked = await _snapshots(runs, labelled, list(requests))
        found = Difference.between(older, newer, asked, gates)
        if found.moved and all(run.side.index is None for run in runs):
            found = await _explain_moves(found, (older, newer), runs[1], book)
    notes += left_out
    if left_out:
        found = replace(found, failures=(_wrong_cases(left_out), *found.failures))
    if not found.after.labelled and not found.before.labelled:
        notes += (_NO_CASES,)
    return replace(found, notes=(*found.notes, *notes), took_s=perf_counter() - began)


async def _explain_moves(
    found: Difference, sides: tuple[SideState, SideState], run: SideRun, book: RouteBook
) -> Difference:
    """Return the difference with the reason for each move, from the book if the same requests moved before."""
    before, after = sides
    moved = [(each.key, each.before.first, each.after.first) for each in found.changes]
    key = hashlib.sha256(dumps([before.flows, after.flows, run.catalogue.digest, moved])).hexdigest()
    whys = book.load("reasons", key, dict[str, str])
    if whys is None:
        by_place = await reasons(found, before.flows, after.flows, run.undone)
        whys = {str(place): why for place, why in by_place.items()}  # keys of JSON are texts
        book.keep("reasons", key, whys)
    changes: list[RouteChange] = []
    for place, change in enumerate(found.changes):
        changes.append(replace(change, why=whys.get(str(place), change.why)))
    return replace(found, changes=tuple(changes))


def _wrong_cases(left_out: Sequence[str]) -> GateFailure:
    count = len(left_out)
    message = f"cases: {count} {'line says' if count == 1 else 'lines say'} what is wrong with them: {left_out[0]}"
    return GateFailure(gate="cases", allowed="0", found=str(count), message=message)


def _cache_at(folder: Path | None) -> tuple[Path | None, tuple[str, ...]]:
    """Return the cache unless git tracks it, since a committed cache could hold forged results."""
    if folder is None:
        return None, ()
    if is_tracked(folder):
        note = (
            f"the cache {folder} is not read: it is committed, so it may say anything; git rm -r --cached takes it out"
        )
        return None, (note,)
    keep_untracked(folder)
    return folder, ()


def _live_version(place: Path, learned: Overlay | Path | None) -> dict[str, Any] | None:
    """Return the live version of what was learned, as the process of a side reads it."""
    if isinstance(learned, Path):
        learned = load_overlay(place / learned, must_exist=True)
    live = None if learned is None else learned.version("live")
    return None if live is None else live.model_dump(mode="json")


def _load_cases(cases: Iterable[Case | Path | str] | Path | str) -> tuple[list[Case], tuple[str, ...]]:
    """Return the cases, those of files included, and the problems of invalid entries."""
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
        if more > 0:
            notes.append(f"left out: {more} more of {each}")
    return found, tuple(notes)


_PROBLEMS = 5
_NO_CASES = (
    "there are no labelled cases, so nobody knows which changes are for the worse: "
    "name them with --cases; docs/cases.md says how to write them"
)


async def _snapshots(
    runs: Sequence[SideRun], cases: Sequence[Case], logged: Sequence[str | Query]
) -> tuple[SideState, SideState, tuple[Probe, ...]]:
    opened = await asyncio.gather(*(run.open() for run in runs), return_exceptions=True)
    failures = [each for each in opened if isinstance(each, BaseException)]
    if failures:
        # Keep the side that could be judged, so that the next run needs only the other one.
        for run, failure in zip(runs, opened, strict=True):
            if failure is None:
                asked = questions(cases, logged, run.catalogue.flows)
                await run.route(asked, _sample_counted(asked))
        raise failures[0]
    if not any(run.catalogue.flows for run in runs):
        places = " and ".join(dict.fromkeys(f"{run.side.flows} of {run.side.label}" for run in runs))
        raise ConfigError(f"there are no flows at {places}: name them with --flows")
    asked = questions(cases, logged, *(run.catalogue.flows for run in runs))
    counted = _sample_counted(asked)
    digest = runs[0].catalogue.digest
    if digest and digest == runs[1].catalogue.digest:  # one catalogue, which is judged once
        older = await runs[0].route(asked, counted)
        return older, replace(older, label=runs[1].side.label, notes=()), asked
    older, newer = await asyncio.gather(*(run.route(asked, counted) for run in runs))
    return older, newer, asked


def _sample_counted(asked: Sequence[Probe]) -> list[Probe]:
    """Return a fixed sample of the cases and logged requests, so that both sides and later runs count the same."""
    users = [each for each in asked if each.source is not Source.EXAMPLE]
    return sorted(users, key=lambda each: each.key)[:MOST_COUNTED]
