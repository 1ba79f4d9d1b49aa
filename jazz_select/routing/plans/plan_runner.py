"""Running a plan: independent steps side by side, dependants when their turn comes, failures where they happened.

Errors of steps are data; only a cancellation passes, and takes the running steps with it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final, cast

from jazz_select.arguments import Positive, checked
from jazz_select.errors import ConfigError
from jazz_select.json_values import is_object
from jazz_select.routing.approval import (
    Answer,
    ApprovalPolicy,
    Approve,
    Verdict,
    answered_approver,
    engine_approver,
    verdict_of,
)
from jazz_select.routing.names.resolution import NameIndex, Resolution
from jazz_select.routing.plans.plan import Plan, PlanStep, dangling_references, with_outputs
from jazz_select.routing.plans.replies import read_tool_reply
from jazz_select.routing.records import Fault, PlanResult, StepError, StepOutcome, ToolCall, note_plan
from jazz_select.routing.schemas.compatibility import FOLDED, Slot, field_score, schema_of
from jazz_select.routing.schemas.fields import RESULT, fields
from jazz_select.routing.tool_call import call_tool, copy_arguments, left_out
from jazz_select.routing.tools.context_inputs import (
    bind_context,
    check_context,
    describe_dropped,
    filled_arguments,
)
from jazz_select.routing.tools.sources import ToolsLike
from jazz_select.routing.tools.tool import Tool
from jazz_select.selector.selector_options import TimeLimit
from jazz_select.telemetry import span
from jazz_select.text import describe_error
from jazz_select.threads import self_bounded

TIMEOUT_S: Final = 30.0
AT_ONCE: Final = 8
FillMissing = Callable[[Tool, tuple[str, ...], Mapping[str, Any]], Mapping[str, Any]]
"""A tool, its required inputs that the plan leaves out, and the outputs of earlier steps: values for those inputs."""


def fill_from_outputs(tool: Tool, missing: tuple[str, ...], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """Take each missing input from the latest earlier field that fits by name and schema; a `fill` for `run_plan`.

    Names may differ in case and separators, if only one does. An input that no step gives stays missing, and the step
    says so.
    """
    values: dict[str, Any] = {}
    for output in outputs.values():
        values.update(output if is_object(output) else {RESULT: output})
    available = [Slot(name, schema_of(value)) for name, value in values.items()]
    wanted = fields(tool.input_schema)
    filled: dict[str, Any] = {}
    for name in missing:
        part, _ = wanted.get(name, (True, True))
        slot = Slot(name, part, tool.input_schema)
        fitting = [each.name for each in available if field_score([each], slot) >= FOLDED]
        if name in fitting:
            filled[name] = values[name]
        elif len(fitting) == 1:
            filled[name] = values[fitting[0]]
    return filled


@checked
async def run_plan(  # noqa: PLR0913 - options with a name
    plan: Plan | Mapping[str, Any] | Sequence[Any],
    tools: ToolsLike | NameIndex,
    *,
    fill: FillMissing | None = None,
    timeout_s: TimeLimit = TIMEOUT_S,
    parallel: bool = False,
    at_once: Positive = AT_ONCE,
    approval: ApprovalPolicy = "destructive",
    approve: Approve | None = None,
    after: PlanResult | None = None,
    answer: Answer | None = None,
    context: Mapping[str, Any] | None = None,
) -> PlanResult:
    """Run every step that can run, and return the outcome of each.

    Steps run in planned order, so that a read after a write sees it. With `parallel=True` steps of tools that only look
    (`Tool.looks`) start once their dependencies have ended; one that may change something still runs alone, after all
    steps before it and before all after it. Whether a step may run is asked one at a time, in planned order. A step
    without references gets missing required inputs from `fill`, which sees the earlier outputs.

    Args:
        plan: The calls, or the JSON value that models write: `{"tool_calls": [{"tool": …, "arguments": …}]}`. Nothing
            runs if the plan has problems, or if a reference leads nowhere according to the output schemas.
        tools: The connected tools, or the result of `load_tools`; a `NameIndex` if many plans run on the same tools.
        fill: Source of missing inputs; by default a missing input fails the step.
        timeout_s: Time limit of each step; None for no limit.
        parallel: Whether independent steps that change nothing may run concurrently.
        at_once: Most concurrent steps.
        approval: Which calls need approval if there is no `approve`: "always", "never", or "destructive": destructive
            tools in a plan that a model made.
        approve: Asked before each call, whatever the policy.
        after: The earlier outcome of this plan. Outputs and failures stay; steps that needed approval or were skipped
            run.
        answer: `Allow()` or `Deny(reason)` to all calls that needed approval, each once and unchanged.
        context: What only the caller knows, such as who the user is. It fills inputs of tools by name, and those marked
            with `FromContext`. A value that the plan gives for one is dropped, with a note in the step's outcome.

    Raises:
        ConfigError: The plan or an option is invalid, or `after` belongs to another plan.
        CancelledError: The caller was cancelled; so were the running steps.
    """
    plan = as_plan(plan)
    approve = engine_approver(approval, approve, by_model=plan.by_model)
    if answer is not None:
        approve = answered_approver(after.asked if after is not None else (), answer, approve)
    started = perf_counter()
    sound = plan
    if not plan.problems:
        sound = Plan.from_steps(plan.steps)  # one that was not built by `from_steps` has not been checked
    if sound.problems:
        return PlanResult(problems=sound.problems)
    check_context(context)
    index = tools if isinstance(tools, NameIndex) else NameIndex(tools)
    problems = dangling_references(sound, index)
    if problems:
        return PlanResult(problems=problems)
    running = _Running(
        needs=sound.needs,
        index=index,
        fill=fill,
        timeout_s=timeout_s,
        approve=approve,
        before=_kept_outcomes(sound, after),
        turn=asyncio.Semaphore(at_once),
        parallel=parallel,
        context=context,
    )
    with span("run_plan", "node") as traced:
        async with asyncio.TaskGroup() as group:
            for step in execution_order(sound):
                running.begin(step, group)
        steps = tuple(running.outcomes[step.id] for step in sound.steps)
        result = PlanResult(steps=steps, duration_s=perf_counter() - started)
        if traced is not None:
            note_plan(traced, result)
        return result


def _kept_outcomes(plan: Plan, after: PlanResult | None) -> dict[str, StepOutcome]:
    if after is None or not after.steps:
        return {}
    # Compare ids and tools only: arguments may have been filled, and then differ from the plan.
    if {(step.id, step.requested) for step in after.steps}.issuperset((step.id, step.tool) for step in plan.steps):
        return {step.id: step for step in after.steps}
    raise ConfigError("`after` must be the result of this plan, got one with other steps")


@dataclass(slots=True, kw_only=True)
class _Running:
    needs: Mapping[str, tuple[str, ...]]
    index: NameIndex
    fill: FillMissing | None
    timeout_s: float | None
    approve: Approve | None
    before: Mapping[str, StepOutcome]
    turn: asyncio.Semaphore
    parallel: bool
    context: Mapping[str, Any] | None
    outcomes: dict[str, StepOutcome] = field(default_factory=dict[str, StepOutcome])
    tasks: "dict[str, asyncio.Task[None]]" = field(default_factory=dict[str, "asyncio.Task[None]"])
    barrier: str | None = None
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is asked whether a step may run."""

    def begin(self, step: PlanStep, group: asyncio.TaskGroup) -> None:
        """Let the step run when what comes before it has ended. Called in the order of running."""
        found = self.index.resolve(step.tool)
        if found.tool is not None:
            found = replace(found, tool=bind_context(found.tool, self.context))
        tool = found.tool
        before = list(self.needs.get(step.id, ()))
        missing: tuple[str, ...] = ()
        if tool is not None and self.fill is not None and not step.problem and not before:
            missing = left_out(tool, step.arguments)
        may_change = tool is not None and not tool.looks
        if missing or not self.parallel or may_change:
            # It may be filled from any earlier output, or change what an earlier step reads.
            before = list(self.tasks)
        elif self.barrier:
            before.append(self.barrier)
        waits_for = {self.tasks[each] for each in before}
        self.tasks[step.id] = group.create_task(self._run(step, found, missing, waits_for, tuple(self.tasks)))
        if may_change:
            self.barrier = step.id

    async def _run(
        self,
        step: PlanStep,
        found: Resolution,
        missing: tuple[str, ...],
        before: set[asyncio.Task[None]],
        earlier: tuple[str, ...],
    ) -> None:
        tool = found.tool
        name = tool.name if tool else ""
        began = StepOutcome(id=step.id, requested=found.requested, tool=name, stage=found.stage, status="failed")
        if before:
            await asyncio.wait(before)
        known = self.before.get(step.id)
        if known is not None and known.status != "skipped" and known.asked is None:
            self.outcomes[step.id] = known
        elif step.problem:
            self.outcomes[step.id] = _failed_outcome(began, "arguments", f"{name or 'a call'}: {step.problem}")
        elif tool is None:
            problem = f"{found.requested!r:.80}: {found.reason}"
            self.outcomes[step.id] = _failed_outcome(began, "name", problem, details=found.error())
        elif (blocked := self._skip_if_blocked(began)) is not None:
            self.outcomes[step.id] = blocked
        else:
            self.outcomes[step.id] = began
            async with self.turn:
                start = perf_counter()
                outcome = await self._output(began, step, tool, missing, earlier)
                self.outcomes[step.id] = replace(outcome, duration_s=perf_counter() - start)

    @self_bounded
    async def _ask_approval(self, call: ToolCall) -> Verdict:
        async with self.asking:
            return await verdict_of(self.approve, call)

    def _skip_if_blocked(self, began: StepOutcome) -> StepOutcome | None:
        for need in self.needs.get(began.id, ()):
            status = self.outcomes[need].status
            if status != "ok":
                end = {"failed": "failed", "refused": "cannot be done"}.get(status, "was skipped")
                problem = f"{began.tool} was not run: it uses the output of {need}, which {end}"
                return _failed_outcome(replace(began, status="skipped"), "dependency", problem)
        return None

    async def _output(
        self, began: StepOutcome, step: PlanStep, tool: Tool, missing: tuple[str, ...], earlier: tuple[str, ...]
    ) -> StepOutcome:
        lost: list[str] = []
        arguments: dict[str, Any] = with_outputs(step.arguments, lambda each: self.outcomes[each].output, lost)
        if lost:
            return _failed_outcome(began, "reference", f"{tool.name}: {'; '.join(lost)}")
        if missing and self.fill is not None:
            outputs = {each: self.outcomes[each].output for each in earlier if self.outcomes[each].status == "ok"}
            try:
                found = self.fill(tool, missing, copy_arguments(outputs))
                arguments |= copy_arguments({name: found[name] for name in missing if name in found})
            except Exception as error:  # noqa: BLE001 - a hook of the caller's must not take the other steps with it
                message = f"{tool.name}: the missing inputs could not be filled: {describe_error(error)}"
                return _failed_outcome(began, "arguments", message, cause=error)
        filled = filled_arguments(tool, arguments)
        note = describe_dropped(tool.name, filled.dropped)
        began = replace(began, arguments=filled.arguments, notes=(note,) if note else ())
        known = self.before.get(began.id)
        made = await call_tool(
            tool,
            filled.arguments,
            door="plan",
            timeout_s=self.timeout_s,
            approve=self._ask_approval if self.approve is not None else None,
            call_id=known.asked.id if known and known.asked else "",
        )
        if made.missing:
            return _failed_outcome(began, "arguments", f"{tool.name} needs {' and '.join(map(repr, made.missing))}")
        if made.status == "refused":
            return replace(began, status="refused", error=made.error)
        if made.error is not None:
            asked = made.call if made.status == "asked" else None
            return replace(began, error=made.error, asked=asked)
        return replace(began, status="ok", output=made.output)


def as_plan(given: object) -> Plan:
    """Convert a plan, its steps or its calls to a `Plan`."""
    if isinstance(given, Plan):
        return given
    calls: object = None
    if isinstance(given, list | tuple):
        calls = list(cast("Sequence[object]", given))
        if calls and all(isinstance(each, PlanStep) for each in calls):
            return Plan.from_steps(cast("list[PlanStep]", calls))
    elif is_object(given):
        calls = given
    reply = read_tool_reply(calls)
    if reply.calls:
        return reply.plan
    advice = "; read_tool_reply(text).plan reads what a model said" if isinstance(given, str) else ""
    shape = '{"tool_calls": [{"tool": …, "arguments": …}]}'
    raise ConfigError(f"plan must be a Plan, or calls such as {shape}, got {given!r:.80}{advice}")


def execution_order(plan: Plan) -> tuple[PlanStep, ...]:
    """Order the steps as planned, except that what a step needs goes before it."""
    waiting = list(plan.steps)
    done: set[str] = set()
    order: list[PlanStep] = []
    while waiting:
        step = next(each for each in waiting if done.issuperset(plan.needs.get(each.id, ())))
        waiting.remove(step)
        done.add(step.id)
        order.append(step)
    return tuple(order)


def _failed_outcome(
    began: StepOutcome,
    fault: Fault,
    message: str,
    *,
    details: Mapping[str, Any] | None = None,
    cause: BaseException | None = None,
) -> StepOutcome:
    return replace(began, error=StepError(fault=fault, message=message, details=details or {}, cause=cause))
