"""What became of calls, steps, runs and plans: frozen values, and what a trace says of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from uuid import uuid4

from jazz_select.routing.decisions.decision_points import ToolCandidate
from jazz_select.routing.names.resolution import Stage
from jazz_select.serialization import Read, error_of
from jazz_select.telemetry import Span
from jazz_select.text import titled
from jazz_select.values import Tier

OutcomeStatus = Literal["ok", "failed", "refused", "skipped"]
Fault = Literal[
    "name",
    "arguments",
    "reference",
    "tool",
    "timeout",
    "output",
    "dependency",
    "denied",
    "asked",
    "claim",
    "repeated",
    "cannot",
]
StepStatus = Literal["ok", "failed", "refused", "open"]
CallSource = Literal["executor", "plan", "chain", "mcp", "framework"]
"""Who calls: a flow's steps, a plan, the chain of a model, a client over MCP, or the loop of another framework."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that is about to be made, for whoever approves it.

    Attributes:
        id: Unique, and the same for each attempt.
        tool: The tool's name.
        arguments: Copies of the arguments; changing them has no effect.
        destructive: Whether the tool destroys something.
        door: The caller.
        title: The tool's name for users, or "".
        words: What the call would do, in the tool's words for the user (`Tool.confirm`).
        unshown: Why the call cannot be shown and hence not be approved.
        identity: A digest of the connected tool, the arguments and the words. Calls with the same identity are one call
            for approval and for claims. Empty if nobody is asked.
        filled: The names of the arguments that the caller's context filled; no model is shown these.
        found: What tools of the flows that an agent's flow calls returned in this conversation, such as who is signed
            in.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    destructive: bool = False
    door: CallSource
    title: str = field(default="", compare=False)
    words: str = field(default="", compare=False)
    unshown: str = field(default="", compare=False)
    identity: str = field(default="", compare=False)
    filled: tuple[str, ...] = field(default=(), compare=False)
    found: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @property
    def display_name(self) -> str:
        """What users are told that it is called."""
        return self.title or titled(self.tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """Why a step has no output.

    Attributes:
        fault: What is at fault: the `name`, the `arguments`, a `reference` to nowhere, the `tool`, its `timeout`, its
            `output`, or a step it depends on (`dependency`); or the call was `denied`, needs approval (`asked`), could
            not be claimed or was started by another process (`claim`), or is `repeated` word for word. With `cannot`,
            nothing is at fault: a precondition does not hold (`CannotDo`, which is the cause).
        message: The problem, with the tool's name.
        details: The structured error of a name, for the model; else empty.
        cause: The tool's exception, if it raised one.
        unknown: Whether the call began and its end is unknown: it may have had its effect.
    """

    fault: Fault
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cause: BaseException | None = field(default=None, compare=False, repr=False)
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """The outcome of one step.

    Attributes:
        id: The step.
        requested: The name in the plan.
        tool: The name of the resolved tool, or "".
        stage: How the name was resolved.
        status: `ok`, `failed`, `refused` because it cannot be done (`CannotDo`), or `skipped` because a step it depends
            on has no output.
        arguments: The arguments, with references replaced.
        output: The result, as JSON values.
        error: Why there is no output.
        asked: The call, if it needs approval.
        notes: Values that the plan gave and that were dropped, since only the caller's context may give them.
        duration_s: Duration in seconds.
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
    notes: tuple[str, ...] = ()
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """The outcome of a plan.

    Attributes:
        steps: One outcome per step, in planned order; none if the plan could not run.
        problems: Why nothing of the plan could run.
        duration_s: Duration in seconds.
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
    """One step of a flow: how its tool was chosen, and the outcome.

    Attributes:
        step: Its number, from 1.
        tool: The tool that ran, or "".
        tier: deterministic, guided or open.
        reason: Why it was chosen: planned, single, field, callback, fallback, none, no_callback, unknown, open_router.
        candidates: The scored candidates; none for a planned step.
        dropped: Number of further fitting tools beyond the limit.
        arguments: A copy of the arguments, also of a refused call, as storable JSON; other values as text.
        output: The result.
        status: ok, failed, refused because it cannot be done (`CannotDo`), or open.
        error: The problem; kept also if a fallback ran.
        fault: As in `StepError`; after `output` and `timeout` the tool may have run.
        unknown: Whether the call began and its end is unknown: it may have had its effect.
        missing: The required inputs that nothing gave; then the tool was not called.
        cause: The exception.
        attempts: Number of calls of the tool.
        duration_s: Seconds of choice and call.
        probability: P(the choice is right) by its maker; None if unknown.
        notes: Degradations of the choice, such as an unsure decider.
        filled: The names of the arguments that the caller's context filled; no model is shown these.
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
    filled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The outcome of a run of a flow.

    Attributes:
        status: `ok` at the end, `failed` if a step failed, `refused` if a step cannot be done (`CannotDo`), `open` if
            the caller has to choose the next tool.
        records: One per step.
        context: The inputs and all outputs; later ones win.
        pending: If open: all tools to choose from.
        asked: The call that needs approval before `FlowExecutor.resume` continues.
        rest: The steps from that one on.
        fixed: Names that no output may replace.
        withheld: Names of the caller's context, which no model is shown.
    """

    status: StepStatus
    records: tuple[StepRecord, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    pending: tuple[ToolCandidate, ...] = ()
    asked: ToolCall | None = None
    rest: tuple[Any, ...] = ()
    fixed: frozenset[str] = frozenset()
    withheld: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A hint, and no more: after this tool the same one was nearly always chosen, so it might be planned."""

    after: str
    tool: str
    share: float
    runs: int


def promotions(runs: Iterable[RunResult], *, min_runs: int = 20, min_share: float = 0.95) -> list[Promotion]:
    """Return the choices that were so regular that they could be planned. Fallbacks do not count.

    Args:
        runs: The records of runs.
        min_runs: Least number of choices after a tool.
        min_share: Least share of these for one tool.
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
    """Note on a span the candidates, the choice, how free it was, and the outcome of a step."""
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
        span.hold({"error": record.error})
    if record.error and record.status != "refused":  # a refusal is an answer, and counts as no error
        # A step that fell back or was handed back has a text, too, and nobody's exception.
        code = record.reason if record.status == "ok" else record.status
        span.error = code if record.cause is None else type(record.cause).__name__


def note_plan(span: Span, result: PlanResult) -> None:
    """Note on a span the tools in planned order, and their outcomes."""
    span.note(
        {
            "steps": {step.id: step.tool for step in result.steps},
            "status": {step.id: step.status for step in result.steps},
            "problems": len(result.problems),
        }
    )
    unknown = {step.id: step.requested for step in result.steps if not step.tool}
    if unknown:
        span.hold({"unknown": unknown})
