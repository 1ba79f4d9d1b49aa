"""Several selections at once: recalled together, chosen side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from jazz_select.selector.result import FlowSelectionResult
from jazz_select.selector.retrieval import CandidateSet, CandidateSource, Request

ChooseOne = Callable[[Request, CandidateSet, Mapping[str, Any], float], Awaitable[FlowSelectionResult]]


@dataclass(frozen=True, slots=True)
class SelectRequest:
    """One request among many: what `FlowSelector.select` takes for one."""

    enhanced_query: str
    candidates: Sequence[Mapping[str, Any]] | None = None
    episode_summaries: Sequence[str] | None = None


async def candidate_sets(
    asked: Sequence[SelectRequest], requests: Sequence[Request], narrower: CandidateSource, context: Mapping[str, Any]
) -> list[CandidateSet | None]:
    """The candidates of each request, recalled in one go where they are not given; None where nothing is asked."""
    found: dict[int, CandidateSet] = {}
    recalled: list[int] = []
    for number, (each, request) in enumerate(zip(asked, requests, strict=True)):
        if each.candidates is not None:
            found[number] = await narrower.given(each.candidates, context)
        elif not request.blank:
            recalled.append(number)
    if recalled:
        results = await narrower.recalled([requests[number] for number in recalled], context)
        found.update(zip(recalled, results, strict=True))
    return [found.get(number) for number in range(len(asked))]


async def choose_all(
    requests: Sequence[Request],
    narrowed: Sequence[CandidateSet | None],
    chosen: ChooseOne,
    context: Mapping[str, Any],
    *,
    at_once: int,
) -> list[FlowSelectionResult | None]:
    """The second stage of each, so many side by side; one that raises ends all, and raises as it did."""
    places = asyncio.Semaphore(at_once)

    async def one(request: Request, left: CandidateSet | None) -> FlowSelectionResult | None:
        if left is None:
            return None
        async with places:
            return await chosen(request, left, context, perf_counter())

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(*each)) for each in zip(requests, narrowed, strict=True)]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
