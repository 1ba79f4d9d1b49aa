"""What became of a plan and of each of its steps: frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jazz_select.routing.resolution import Stage

Status = Literal["ok", "failed", "skipped"]
Fault = Literal["name", "arguments", "reference", "tool", "timeout", "output", "dependency"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepError:
    """Why a step has no output.

    Attributes:
        fault: What is at fault: the `name` that was asked for, the `arguments`, a `reference` that leads nowhere,
            the `tool`, its `timeout`, its `output`, or a step that this one depends on (`dependency`).
        message: In words, with the tool's name.
        details: The structured error of a name, for the model; else empty.
        cause: The exception that the tool raised, if it did.
    """

    fault: Fault
    message: str
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cause: BaseException | None = field(default=None, compare=False, repr=False)


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
        started_s: When it began, in seconds after the plan did.
        duration_s: How long it took.
    """

    id: str
    requested: str
    tool: str = ""
    stage: Stage | None = None
    status: Status
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output: Any = None
    error: StepError | None = None
    started_s: float = 0.0
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
    def outputs(self) -> dict[str, Any]:
        """Step to output, for those that have one."""
        return {step.id: step.output for step in self.steps if step.status == "ok"}

    @property
    def errors(self) -> dict[str, StepError]:
        """Step to error, for those that have one."""
        return {step.id: step.error for step in self.steps if step.error is not None}
