"""What became of each step of a run, and what repeated choices suggest."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jazz_select.routing.points import ToolCandidate
from jazz_select.values import Tier

Status = Literal["ok", "failed", "open"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: how free its choice was, among what, and what came of it.

    Attributes:
        step: Its number, from 1.
        tool: What ran; empty where nothing was chosen.
        tier: deterministic, guided or open.
        reason: Why it came out so: planned, single, callback, fallback, none, no_callback, unknown, open_router.
        candidates: Among what, with scores; empty where the step was planned.
        output: What the tool returned.
        status: ok, failed or open.
        error: What went wrong, in words; kept beside a fallback that ran in its stead.
        fault: What was at fault where it failed, as of `StepError`; after `output` and `timeout` it may have run.
        missing: What the tool wants and nothing gave, where that is why it failed; then it was not called.
        cause: The exception itself.
        attempts: Calls of the tool.
        duration_s: Seconds for the choice and the call.
    """

    step: int
    tool: str
    tier: Tier
    reason: str
    candidates: tuple[ToolCandidate, ...] = ()
    output: Any = None
    status: Status = "ok"
    error: str = ""
    fault: str = ""
    missing: tuple[str, ...] = ()
    cause: BaseException | None = None
    attempts: int = 0
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run of a flow.

    Attributes:
        status: `ok` where it came to its end, `failed` where a step did, `open` where the next tool is the caller's.
        records: One for each step.
        context: All that is there: the input and every output, the later ones over the earlier.
        pending: Where open: the tools to choose from, which are all of them.
    """

    status: Status
    records: tuple[StepRecord, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: tuple[ToolCandidate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A hint, and no more: after this tool the same one was nearly always chosen, so it might be planned."""

    after: str
    tool: str
    share: float
    runs: int


def promotions(runs: Iterable[RunResult], *, min_runs: int = 20, min_share: float = 0.95) -> list[Promotion]:
    """Choices that were so often the same that they might be planned.

    Args:
        runs: What happened.
        min_runs: How often a choice after a tool must have been made.
        min_share: The share of them that must have gone to one tool.
    """
    chosen: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        before = ""
        for record in run.records:
            if record.tier is Tier.GUIDED and record.status == "ok" and before:
                chosen[before][record.tool] += 1
            before = record.tool or before
    found: list[Promotion] = []
    for after, counts in chosen.items():
        tool, count = counts.most_common(1)[0]
        total = counts.total()
        if total >= min_runs and count / total >= min_share:
            found.append(Promotion(after=after, tool=tool, share=count / total, runs=total))
    return found
