"""What became of calls, steps, runs and plans: frozen values, and what a trace says of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from uuid import uuid4

from jazz_select.routing.decisions.decision_points import ToolCandidate
from jazz_select.routing.names.resolution import Stage
from jazz_select.telemetry import Span
from jazz_select.text import titled
from jazz_select.travel import Read, error_of
from jazz_select.values import Tier

OutcomeStatus = Literal["ok", "failed", "skipped"]
Fault = Literal[
    "name", "arguments", "reference", "tool", "timeout", "output", "dependency", "denied", "asked", "claim", "repeated"
]
StepStatus = Literal["ok", "failed", "open"]
Door = Literal["executor", "plan", "chain", "mcp", "framework"]
"""Who calls: a flow's steps, a plan, the chain of a model, a client over MCP, or the loop of another framework."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that is about to be made, as whoever approves it sees it.

    Attributes:
        id: Unique, and the same whenever this call is tried again.
        tool: The tool's name.
        arguments: What it gets, as copies: what is changed in them changes nothing.
        destructive: True where the tool destroys something.
        door: Who calls.
        title: What users are told that the tool is called; empty where it does not say.
        words: What the call would do, as the tool says for whoever is asked (`Tool.confirm`).
        unshown: Why it cannot be asked about, where what it would do cannot be told.
        identity: A digest of the tool as it is connected, of the arguments and of the words. Two calls with the same
            one are one call, to a person who agrees to it and to claims. Empty where nobody is asked.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    destructive: bool = False
    door: Door
    title: str = field(default="", compare=False)
    words: str = field(default="", compare=False)
    unshown: str = field(default="", compare=False)
    identity: str = field(default="", compare=False)

    @property
    def display_name(self) -> str:
        """What users are told that it is called."""
        return self.title or titled(self.tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """Why a step has no output.

    Attributes:
        fault: What is at fault: the `name` that was asked for, the `arguments`, a `reference` that leads nowhere,
            the `tool`, its `timeout`, its `output`, or a step that this one depends on (`dependency`); or nothing
            but that whoever approves calls `denied` this one, or wants it to be `asked` for first; that it was begun
            before by somebody else, or could not be claimed (`claim`); or that it is `repeated` word for word.
        message: In words, with the tool's name.
        details: The structured error of a name, for the model; else empty.
        cause: The exception that the tool raised, if it did.
        unknown: True where the call began and nobody heard of its end: it may have had its effect.
    """

    fault: Fault
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What became of one step.

    Attributes:
        id: The step.
        requested: The name that the plan gave.
        tool: The name of the tool that it stands for; empty where there is none.
        stage: How that was found.
        status: `ok`, `failed`, or `skipped` since a step it depends on has no output.
        arguments: What the tool was called with, references replaced.
        output: What it returned, as JSON values.
        error: Why there is no output.
        asked: The call, where it has to be approved first.
        duration_s: How long it took.
    """

    id: str
    requested: str
    tool: str = ""
    stage: Stage | None = None
    status: OutcomeStatus
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output: Any = None
    error: StepError | None = None
    asked: ToolCall | None = None
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of a plan.

    Attributes:
        steps: One outcome per step, in planned order; none where the plan could not be run.
        problems: Why the plan could not be run; then nothing of it was.
        duration_s: How long it took.
    """

    steps: tuple[StepOutcome, ...] = ()
    problems: tuple[str, ...] = ()
    duration_s: float = 0.0

    @property
    def ok(self) -> bool:
        """True where every step has its output."""
        return not self.problems and all(step.status == "ok" for step in self.steps)

    @property
    def asked(self) -> tuple[ToolCall, ...]:
        """The calls that have to be approved first: `run_plan(…, after=this, answer=Allow())` makes them."""
        return tuple(step.asked for step in self.steps if step.asked is not None)

    @property
    def outputs(self) -> dict[str, Any]:
        """Step to output, for those that have one."""
        return {step.id: step.output for step in self.steps if step.status == "ok"}

    @property
    def errors(self) -> dict[str, StepError]:
        """Step to error, for those that have one."""
        return {step.id: step.error for step in self.steps if step.error is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step: how free its choice was, among what, and what came of it.

    Attributes:
        step: Its number, from 1.
        tool: What ran; empty where nothing was chosen.
        tier: deterministic, guided or open.
        reason: Why it came out so: planned, single, callback, fallback, none, no_callback, unknown, open_router.
        candidates: Among what, with scores; empty where the step was planned.
        dropped: How many more would have fitted, and were left out since there may be no more candidates than that.
        arguments: What the tool was called with, or would have been where the call was refused: a copy, as JSON values
            that can be stored anywhere; of what is none, its text.
        output: What the tool returned.
        status: ok, failed or open.
        error: What went wrong, in words; kept beside a fallback that ran in its stead.
        fault: What was at fault where its call failed, as of `StepError`; after `output` and `timeout` it may have run.
        unknown: True where the call began and nobody heard of its end: it may have had its effect.
        missing: What the tool wants and nothing gave, where that is why it failed; then it was not called.
        cause: The exception itself.
        attempts: Calls of the tool.
        duration_s: Seconds for the choice and the call.
        probability: How likely the choice is to be right, by whoever made it; None where that is not known.
        notes: What the choice made do with, such as a decider that was not sure.
    """

    step: int
    tool: str
    tier: Tier
    reason: str
    candidates: tuple[ToolCandidate, ...] = ()
    dropped: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output: Any = None
    status: StepStatus = "ok"
    error: str = ""
    fault: str = ""
    unknown: bool = False
    missing: tuple[str, ...] = ()
    cause: Annotated[BaseException | None, Read(error_of)] = None
    attempts: int = 0
    duration_s: float = 0.0
    probability: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run of a flow.

    Attributes:
        status: `ok` where it came to its end, `failed` where a step did, `open` where the next tool is the caller's.
        records: One for each step.
        context: All that is there: the input and every output, the later ones over the earlier.
        pending: Where open: the tools to choose from, which are all of them.
        asked: The call that has to be approved first, where that is why it ended: `FlowExecutor.resume` goes on.
        rest: The steps from that one on.
        fixed: The names that no output takes the place of.
    """

    status: StepStatus
    records: tuple[StepRecord, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: tuple[ToolCandidate, ...] = ()
    asked: ToolCall | None = None
    rest: tuple[Any, ...] = ()
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A hint, and no more: after this tool the same one was nearly always chosen, so it might be planned."""

    after: str
    tool: str
    share: float
    runs: int


def promotions(runs: Iterable[RunResult], *, min_runs: int = 20, min_share: float = 0.95) -> list[Promotion]:
    """Choices that were so often the same that they might be planned. A fallback is nobody's choice.

    Args:
        runs: What happened.
        min_runs: How often a choice after a tool must have been made.
        min_share: The share of them that must have gone to one tool.
    """
    chosen: dict[str, Counter[str]] = defaultdict(Counter)
    for run in runs:
        before = ""
        for record in run.records:
            if record.reason == "callback" and record.status == "ok" and before:
                chosen[before][record.tool] += 1
            before = record.tool or before
    found: list[Promotion] = []
    for after, counts in chosen.items():
        tool, count = counts.most_common(1)[0]
        total = counts.total()
        if total >= min_runs and count / total >= min_share:
            found.append(Promotion(after=after, tool=tool, share=count / total, runs=total))
    return found


def note_step(span: Span, record: StepRecord) -> None:
    """Among what, what was chosen, how freely, and what came of it."""
    span.note(
        {
            "step": record.step,
            "tool": record.tool,
            "tier": record.tier.value,
            "reason": record.reason,
            "status": record.status,
            "candidates": {each.name: round(each.compatibility_score, 4) for each in record.candidates},
            "attempts": record.attempts,
        }
    )
    beside = {each: getattr(record, each) for each in ("dropped", "fault", "missing", "probability")}
    span.note({name: value for name, value in beside.items() if value not in (0, "", (), None)})
    if record.notes:
        span.hold({"notes": list(record.notes)})
    if record.error:
        # A step that fell back or was handed back has a text, too, and nobody's exception.
        code = record.reason if record.status == "ok" else record.status
        span.error = code if record.cause is None else type(record.cause).__name__
        span.hold({"error": record.error})


def note_plan(span: Span, result: PlanResult) -> None:
    """The tools in planned order, and what became of them."""
    span.note(
        {
            "steps": {step.id: step.tool for step in result.steps},
            "status": {step.id: step.status for step in result.steps},
            "problems": len(result.problems),
        }
    )
    if unknown := {step.id: step.requested for step in result.steps if not step.tool}:
        span.hold({"unknown": unknown})
