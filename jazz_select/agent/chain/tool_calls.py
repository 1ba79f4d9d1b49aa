"""The calls of one reply: names resolved, arguments checked, hooks called, tools run. A failure becomes a result.

Calls that only read run side by side; one that may change something runs alone, after all before it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from jazz_select.agent.chain.prompts import ChainOptions
from jazz_select.agent.chain.transcript import Event, ToolCalled, ToolRequest, ToolResult, ToolReturned, tell
from jazz_select.json_values import as_json, storable, storable_text
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import Allow, Deny, Verdict, verdict_of
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.plans.plan import (
    Missing,
    NotYet,
    Plan,
    PlanStep,
    dangling_references,
    with_outputs,
    with_steps_named,
)
from jazz_select.routing.plans.plan_runner import execution_order
from jazz_select.routing.records import Fault, ToolCall
from jazz_select.routing.schemas.nulls import without_nulls
from jazz_select.routing.tool_call import CallOutcome, call_tool, fingerprint, fingerprint_once
from jazz_select.routing.tools.context_inputs import filled_arguments, given_arguments
from jazz_select.routing.tools.tool import Tool
from jazz_select.text import as_text, beginning, describe_error
from jazz_select.threads import run_with_timeout, self_bounded

Made = tuple[ToolRequest, ToolResult]
Announce = Callable[[ToolCall, str, Sequence[str]], bool]
"""Takes a call with references to the outputs of calls that wait for approval, the digest of its tool, and the ids of
these calls. Returns whether it waits with them."""
Returned = Callable[[str, Any], None]
"""Takes the id and the output of a call that was made."""
_LONGEST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRunner:
    """Runs the calls of replies on connected tools.

    Attributes:
        index: The tools.
        options: Hooks, approver, listener, timeout and concurrency. Without `approve` every call may be made; hooks may
            take the turn's whole time. They are called one at a time, also where calls run side by side.
        claims: Store in which destructive calls are claimed before they are made.
        call_id: Returns a stable id for the next call of a tool with these arguments; by default each call gets a new
            id.
        announce: Asked about a call that uses the output of one that waits for approval; without it such a call is
            refused, and may be made with the other one.
        returned: Told what each call returned.
        made: Outcomes of the chain's destructive calls, by fingerprint; none of these calls is made again.
        calls_of_unknown_outcome: Ids of idempotent calls with an unknown outcome, by fingerprint; a repeat uses the
            same id.
    """

    index: NameIndex
    options: ChainOptions
    claims: ClaimStore | None = None
    call_id: Callable[[str, Mapping[str, Any]], str] | None = None
    announce: Announce | None = None
    returned: Returned | None = None
    made: dict[str, CallOutcome] = field(default_factory=dict[str, CallOutcome])
    calls_of_unknown_outcome: dict[str, str] = field(default_factory=dict[str, str])
    _ids: dict[tuple[int, str], str] = field(default_factory=dict[tuple[int, str], str], init=False)
    """The id of each call that was prepared, by its round and its id there."""
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Held while it is asked whether a call may be made: in the order of the calls."""
    _telling: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Held while an event is told or a result is reviewed."""

    async def run(self, steps: Iterable[PlanStep], round_: int) -> list[Made]:
        """Run these calls in planned order, those that only read side by side, and return each with its result."""
        plan = Plan.from_steps(steps)
        problems = plan.problems or dangling_references(plan, self.index)
        if problems:
            return await self.refuse(plan.steps, round_, f"not run: {'; '.join(problems)}")
        made: dict[str, Made] = {}
        for group in self._groups(plan):
            if len(group) == 1:
                await self._make(group[0], round_, made)
            else:
                await self._make_together(group, plan, round_, made)
        return [made[step.id] for step in plan.steps]

    def _groups(self, plan: Plan) -> list[list[PlanStep]]:
        """Return the calls in the order of running: those in a row that only read together, each other one alone."""
        groups: list[list[PlanStep]] = []
        joins = False
        for step in execution_order(plan):
            tool = self.index.resolve(step.tool).tool
            # Without a tool nothing is run.
            only_reads = tool is None or tool.reads
            if joins and only_reads:
                groups[-1].append(step)
            else:
                groups.append([step])
            joins = only_reads
        return groups

    async def _make_together(self, group: Sequence[PlanStep], plan: Plan, round_: int, made: dict[str, Made]) -> None:
        """Make calls side by side, as many at once as the options allow, each after those whose outputs it uses."""
        room = asyncio.Semaphore(self.options.at_once)
        tasks: dict[str, asyncio.Task[None]] = {}

        async def make(step: PlanStep, before: set[asyncio.Task[None]]) -> None:
            if before:
                await asyncio.wait(before)
            async with room:
                await self._make(step, round_, made)

        async with asyncio.TaskGroup() as together:
            for step in group:
                # Calls of earlier groups have been made, so only those of this one are waited for.
                before = {tasks[need] for need in plan.needs.get(step.id, ()) if need in tasks}
                tasks[step.id] = together.create_task(make(step, before))

    def is_destructive(self, name: str) -> bool:
        """Whether a name as a model wrote it resolves to a destructive tool."""
        tool = self.index.resolve(name).tool
        return tool is not None and tool.destructive

    async def refuse(self, steps: Iterable[PlanStep], round_: int, problem: str) -> list[Made]:
        """Refuse all these calls for one reason."""
        refused: list[Made] = []
        for step in Plan.from_steps(steps).steps:
            call = _request(step, round_, "")
            refused.append((call, await self._emit(_failure(call, "", problem))))
        return refused

    async def _make(self, step: PlanStep, round_: int, made: dict[str, Made]) -> None:
        found = self.index.resolve(step.tool)
        tool = found.tool
        call = _request(step, round_, tool.name if tool else "")
        if step.problem:
            result = _failure(call, "arguments" if step.tool else "name", step.problem)
        elif tool is None:
            result = _failure(call, "name", f"{found.requested!r:.80}: {found.reason}", details=found.error())
        elif tool.function is None:
            result = _failure(call, "tool", f"{tool.name} was only described; there is nothing to run")
        else:
            call, result = await self._call(call, tool, step, made)
        async with self._telling:
            result = await self._review(call, result)
        if self.returned is not None and result.ok:
            self.returned(self._ids.get((round_, call.id), ""), result.output)
        made[step.id] = (call, await self._emit(result))

    async def _call(self, call: ToolRequest, tool: Tool, step: PlanStep, made: Mapping[str, Made]) -> Made:
        lost: list[str] = []
        waits: dict[str, None] = {}

        def output_of(other: str) -> Any:
            if made[other][1].fault == "asked":
                waits[other] = None
                return NotYet()
            return _output(other, made)

        try:
            replaced = with_outputs(step.arguments, output_of, lost)
            shown, arguments = _shown_and_given(replaced)
        except Exception as error:  # noqa: BLE001 - arguments of a model may fail in any way
            return call, _failure(call, "arguments", f"{tool.name}: {describe_error(error)}")
        if lost:
            return call, _failure(call, "reference", f"{tool.name}: {'; '.join(lost)}")
        if waits:
            return self._announce_call(call, tool, shown, [*waits])
        # Counted, approved and shown as it is made: `call_tool` leaves the same nulls out.
        shown = without_nulls(tool.input_schema, shown)
        arguments = without_nulls(tool.input_schema, arguments)
        call = replace(call, arguments=given_arguments(tool, shown))
        arguments, dropped = filled_arguments(tool, arguments)
        call, result = await self._make_call(call, tool, arguments)
        return call, replace(result, dropped=dropped)

    def _announce_call(self, call: ToolRequest, tool: Tool, arguments: Mapping[str, Any], waits: Sequence[str]) -> Made:
        """Let a call wait for the approval of those whose outputs it uses. What only reads is not kept for later."""
        problem = f"not run: it uses the output of {', '.join(waits)}, which has to be approved first"
        ids = {each: self._ids.get((call.round, each), "") for each in waits}
        filled = filled_arguments(tool, with_steps_named(arguments, ids))
        to_come = ToolCall(
            tool=tool.name,
            arguments=filled.arguments,
            filled=() if tool.context_inputs is None else tuple(tool.context_inputs.values),
            destructive=tool.destructive,
            door="chain",
            title=tool.display_name,
        )
        self._ids[call.round, call.id] = to_come.id
        is_kept = not tool.reads and (self.announce is None or self.announce(to_come, tool.digest, [*ids.values()]))
        call = replace(call, arguments=given_arguments(tool, arguments))
        return call, replace(_failure(call, "asked" if is_kept else "reference", problem), dropped=filled.dropped)

    async def _make_call(self, call: ToolRequest, tool: Tool, arguments: Mapping[str, Any]) -> Made:
        once = fingerprint_once(tool, arguments)
        if once in self.made:
            return call, _failure(call, "repeated", _not_again(self.made[once]))
        own = fingerprint(tool.name, arguments) if tool.idempotent else ""
        # With the id of the call whose outcome is unknown, an idempotent tool knows it for the same one.
        call_id = self.calls_of_unknown_outcome.get(own, "")
        if not call_id and self.call_id is not None:
            call_id = self.call_id(tool.name, arguments)
        outcome = await call_tool(
            tool,
            arguments,
            door="chain",
            timeout_s=self.options.tool_timeout_s,
            approve=partial(self._approve, call),
            call_id=call_id,
            claims=self.claims,
        )
        self._ids[call.round, call.id] = outcome.call.id
        # A refused call changed nothing, so that it may be made once it is allowed.
        if once and outcome.called and outcome.status != "refused":
            self.made[once] = outcome
        if own and outcome.called:
            self.calls_of_unknown_outcome[own] = outcome.call.id if outcome.status == "unknown" else ""
        if outcome.status == "asked":
            call = replace(call, identity=outcome.call.identity)
        if outcome.error is None:
            output = storable(outcome.output)
            return call, ToolResult(id=call.id, round=call.round, tool=call.tool, ok=True, output=output, called=True)
        problem = f"not run: {outcome.reason}" if outcome.reason else outcome.error.message
        failed = _failure(call, outcome.error.fault, problem)
        return call, replace(failed, unknown=outcome.error.unknown, called=outcome.called)

    @self_bounded
    async def _approve(self, call: ToolRequest, made: ToolCall) -> Verdict:
        async with self._asking:
            if made.filled:
                # Hooks and listeners are the caller's: they see the call as it is made.
                call = replace(call, arguments=_shown_and_given(made.arguments)[0])
            refusal = await self._refusal(call)
            verdict = Deny(refusal) if refusal else await verdict_of(self.options.approve, made)
            if isinstance(verdict, Allow):
                await self._tell(ToolCalled(call=call))
            return verdict

    async def _refusal(self, call: ToolRequest) -> str:
        """Return why `before_call` refuses a call; empty if it does not. A hook that fails refuses."""
        if self.options.before_call is None:
            return ""
        try:
            verdict = await run_with_timeout(
                self.options.before_call, call, limit_s=None, name="jazz-select-before_call"
            )
        except Exception as error:  # noqa: BLE001 - the caller's own code
            return f"before_call failed: {describe_error(error)}"
        if isinstance(verdict, str) and verdict.strip():
            return verdict
        if verdict is None or verdict is True:
            return ""
        return "the call was cancelled"

    async def _review(self, call: ToolRequest, result: ToolResult) -> ToolResult:
        if self.options.after_call is None:
            return result
        try:
            reviewed = await run_with_timeout(
                self.options.after_call, call, result, limit_s=None, name="jazz-select-after_call"
            )
            if reviewed is None:
                return result
            if not isinstance(reviewed, ToolResult):
                reviewed = ToolResult(id=call.id, round=call.round, tool=call.tool, ok=True, output=reviewed)
            return replace(
                reviewed,
                output=storable(as_json(reviewed.output)),
                details=storable(as_json(reviewed.details)),
                error=_short(reviewed.error),
                called=result.called,
                dropped=result.dropped,
            )
        except Exception as error:  # noqa: BLE001 - what it should have redacted must not get out
            problem = f"the result is withheld, since after_call failed: {describe_error(error)}"
            withheld = _failure(call, result.fault, problem)
            return replace(withheld, unknown=result.unknown, called=result.called, dropped=result.dropped)

    async def _emit(self, result: ToolResult) -> ToolResult:
        await self._tell(ToolReturned(result=result))
        return result

    async def _tell(self, event: Event) -> None:
        async with self._telling:
            await tell(self.options.on_event, event)


def _request(step: PlanStep, round_: int, tool: str) -> ToolRequest:
    named = as_text(step.tool[:200])
    return ToolRequest(
        id=as_text(step.id), round=round_, tool=tool or named, requested=named, arguments=storable(step.arguments)
    )


def _output(step: str, made: Mapping[str, Made]) -> Any:
    _, result = made[step]
    if not result.ok:
        return Missing(f"not run: it uses the output of {step}, which failed")
    return result.output


def _shown_and_given(arguments: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments as storable JSON, and as the tool gets them: objects that are no JSON unchanged."""
    try:
        shown = storable(as_json(arguments))
    except TypeError:
        shown = storable(arguments)
        return shown, {name: _storable_or_same(value) for name, value in arguments.items()}
    return shown, shown


def _storable_or_same(value: object) -> Any:
    try:
        return storable(as_json(value))
    except TypeError:
        return value


def _failure(
    call: ToolRequest, fault: Fault | Literal[""], problem: str, details: Mapping[str, Any] | None = None
) -> ToolResult:
    return ToolResult(
        id=call.id,
        round=call.round,
        tool=call.tool,
        ok=False,
        error=_short(problem),
        details=storable(details or {}),
        fault=fault,
    )


def _not_again(before: CallOutcome) -> str:
    tool, error = before.call.tool, before.error
    if error is None:
        outcome = f"returned {storable_text(before.output)}"
    else:
        outcome = f"came to this, and may have been done all the same: {error.message}"
    return f"not run again: {tool} was run just now with these arguments, and {outcome}"


def _short(text: str) -> str:
    return as_text(beginning(text, _LONGEST))
