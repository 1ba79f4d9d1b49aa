"""Run flows by type: the parts of a sequence in order, of a parallel flow together, of a conditional flow the match.

A chain runs once. A saved `Part` for each path records what earlier turns did, and those steps are not repeated.
The outcome of a flow is a `FlowRun`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as fields_of
from typing import Any, Final, NamedTuple

from jazz_select.agent.conversation import ONE_OF, InputOptions, Part, PastCall, asked_now, kept_result, part_paths
from jazz_select.agent.flows.input_options import OptionLister
from jazz_select.agent.known_flows import walk_flow
from jazz_select.agent.option_names import option_named
from jazz_select.agent.turn import FlowRun
from jazz_select.errors import (
    CannotDo,
    DecisionAskError,
    DecisionCallbackError,
    DecisionReplyError,
    ModelError,
    WrongValue,
)
from jazz_select.flow.base import BaseFlow, GuidedDecisionPoint, Step, chain_of, steps_named
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.flow.inputs import Input, InputState
from jazz_select.json_values import is_object, storable_fields, storable_text
from jazz_select.routing.approval import Approve
from jazz_select.routing.decisions.decision_points import DecisionCallback
from jazz_select.routing.executor import Deciding, FlowExecutor, arguments_of
from jazz_select.routing.flow_inputs import in_type_of, parameters_of
from jazz_select.routing.records import RunResult, StepRecord
from jazz_select.routing.schemas.compatibility import outputs
from jazz_select.routing.schemas.fields import RESULT, fields
from jazz_select.routing.tool_call import fingerprint_once
from jazz_select.routing.tools.context_inputs import bind_context, declared_inputs, without_filled
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import span
from jazz_select.text import beginning, describe_error, in_one_line, number_text
from jazz_select.texts import say
from jazz_select.threads import is_cancelled, spent_budget
from jazz_select.words import folded_name

_WORST: Final = {"done": 0, "blocked": 1, "active": 2, "open": 3, "waiting": 4, "failed": 5}
"""Severity of each status. A blocked part ranks low: it is reported once the parts that can proceed are done."""
_MOST_RAN: Final = 10
_LONGEST_RAN: Final = 1_200
"""Characters of a result in a flow's progress, which no prompt shows: the conversation has the calls for that."""
_LONGEST_GIVEN: Final = 300
_MANUAL: Final = "it is a person's to do"
_EVERY: Final = "it is wanted for all that there are"
_OPEN: Final = "which tool comes next is open"


class CallToCome(NamedTuple):
    """A call that changes something later in a chain.

    Attributes:
        tool: The tool.
        arguments: The arguments that are known.
        missing: The required inputs that are not known yet.
        sources: Places of the calls whose outputs give what is missing: 0 is the next call, 1 the first of those to
            come. Empty if nothing is missing, or if something comes from elsewhere.
    """

    tool: Tool
    arguments: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()


def progress_of(run: FlowRun, before: Mapping[str, Part]) -> dict[str, Part]:
    """Return the progress of each part by path, from which a later turn continues."""
    progress = dict(before)
    for part in run.all:
        own, lost = storable_fields(part.own)
        earlier = before[part.path].lost if part.path in before else ()
        progress[part.path] = replace(
            Part(**_part_fields(part)),
            own=own,
            lost=tuple(dict.fromkeys((*_still(earlier, own), *lost))),
            ran=_stored_calls(part.ran),
        )
    return progress


def _stored_calls(ran: Sequence[PastCall]) -> tuple[PastCall, ...]:
    """Return the last calls and all destructive ones, of their results the beginning."""
    older = [call for call in ran[:-_MOST_RAN] if call.final]
    stored: list[PastCall] = []
    for call in (*older, *ran[-_MOST_RAN:]):
        stored.append(call.model_copy(update={"output": beginning(call.output, _LONGEST_RAN)}))
    return tuple(stored)


def _part_fields(part: Part) -> dict[str, Any]:
    return {each.name: getattr(part, each.name) for each in fields_of(Part)}


def steps_left(chain: Sequence[Step], done: Sequence[str]) -> list[tuple[str, Step]]:
    """Return the unfinished steps of a chain with their names, even if its author inserted steps meanwhile."""
    # By name and number, and not by place: a chain may run one tool twice, and its author may move steps.
    finished = Counter(done)
    remaining: list[tuple[str, Step]] = []
    for step in chain:
        name = _step_name(step)
        if finished[name]:
            finished[name] -= 1
        else:
            remaining.append((name, step))
    return remaining


def _step_name(step: Step) -> str:
    if isinstance(step, str):
        return step
    if isinstance(step, GuidedDecisionPoint):
        return f"{ONE_OF}{', '.join(step.candidate_tools)}"
    return "whatever fits"


def past_call_of(
    tool: Tool,
    arguments: Mapping[str, Any],
    output: object,
    *,
    failed: bool,
    refused: bool = False,
    filled: Collection[str] = (),
) -> PastCall:
    """Return the stored form of a call, with a fingerprint if it must not be repeated without an approval.

    `output` is what the tool returned, or the reason of the failure as text.
    The arguments that the caller's context `filled` are left out: that is for one turn, and no model sees it. A call
    that was `refused` changed nothing, and may be made again.
    """
    stored: dict[str, Any] = {}
    for name, value in without_filled(storable_fields(arguments)[0], filled).items():
        text = storable_text(value)
        stored[name] = value if len(text) <= _LONGEST_GIVEN else beginning(text, _LONGEST_GIVEN)
    text, left_out = (str(output), "") if failed else kept_result(output)
    return PastCall(
        tool=tool.name,
        output=text,
        left_out=left_out,
        final=tool.destructive and not refused,
        failed=failed,
        call="" if refused else fingerprint_once(tool, arguments),
        arguments=stored,
    )


def merge_runs(so_far: FlowRun, parts: tuple[FlowRun, ...]) -> FlowRun:
    """Merge the runs of its parts into a composite's run, with the most severe status among them."""
    if not parts:
        return so_far
    facts = dict(so_far.facts)
    lost = list(so_far.lost)
    asks: list[str] = []
    wrong: dict[str, str] = {}
    choices: dict[str, tuple[Any, ...]] = {}
    options: dict[str, InputOptions] = {}
    for part in parts:
        facts.update(part.facts)
        lost.extend(part.lost)
        asks.extend(part.asks)
        wrong.update(part.wrong)
        choices.update(part.choices)
        options.update(part.options)
    worst = max(parts, key=lambda part: _WORST[part.status])
    texts = [part.text for part in parts if part.text]
    refusals = [part.refusal for part in parts if part.refusal]
    return replace(
        so_far,
        status=worst.status,
        parts=parts,
        facts=facts,
        lost=_still(lost, facts),
        asks=tuple(dict.fromkeys(asks)),
        wrong=wrong,
        choices=choices,
        options=options,
        text="\n\n".join(texts),
        problem=f"{worst.flow}: {worst.problem}" if worst.problem else "",
        refusal=refusals[0] if refusals else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRunner:
    """Runs flows for one turn, with the stored progress by path in `before`.

    `choose` returns the index of the branch to run, or None if none fits; `go_on` continues an open flow by a model.
    `approve` receives the path of a part and the effectful calls that follow; `returned` receives what a call with this
    id returned. `made` receives each call that a chain has made. Values in `fixed`, the caller's context, are never
    replaced by what tools return. With `every` a model runs the flow, since its chain is for one object.
    `options` lists the choices that tools give; values of inputs in `rejected` were proposed in vain. Inputs may depend
    on results of `called`, the tools of flows that this one calls.
    """

    executor: FlowExecutor
    before: Mapping[str, Part]
    choose: Callable[[ConditionalFlow], Awaitable[int | None]]
    go_on: Callable[[BaseFlow, FlowRun], Awaitable[FlowRun]] | None
    fixed: Mapping[str, Any]
    approve: Callable[[str, Sequence[CallToCome]], Approve]
    call_id: Callable[[str], Callable[[str, Mapping[str, Any]], str]]
    returned: Callable[[str, Any], None]
    made: Callable[[PastCall], None]
    deciding: Callable[[BaseFlow, Sequence[PastCall]], DecisionCallback] | None
    every: bool = False
    options: OptionLister
    rejected: Collection[str] = ()
    called: Collection[str] = ()

    async def run(
        self, flow: BaseFlow, facts: Mapping[str, Any], path: str = "0", *, lost: Sequence[str] = ()
    ) -> FlowRun:
        """Run the unfinished steps of a flow on the known facts. A failure is reported in the result, not raised."""
        before = self.before.get(path)
        so_far = FlowRun(flow=flow.name, type=flow.type, path=path, facts=dict(facts), lost=_still(lost, facts))
        if before is not None:
            known = {**facts, **before.own, **self.fixed}
            now = {"status": "done", "lost": _still((*lost, *before.lost), known), "facts": known}
            so_far = replace(so_far, **{**_part_fields(before), **now})
            if before.refusal and path != "0":
                # It is over, and the user was told why, while other parts still wait for an answer.
                return replace(so_far, status="blocked", problem=f"it was refused before: {before.refusal}")
            has_run_parts = flow.composite and not _lacks_branch(flow, so_far)
            if before.status == "done" and (not has_run_parts or self._is_whole(flow, path)):
                return so_far
        with span(flow.name, "node") as traced:
            run = await _as_far(so_far, self._run(flow, so_far, before))
            if traced is not None:
                traced.note({"type": flow.type, "status": run.status, "asks": list(run.asks)})
                traced.hold({"problem": run.problem})
        return run

    async def _run(self, flow: BaseFlow, so_far: FlowRun, before: Part | None) -> FlowRun:
        chain, is_whole = chain_of(flow), self._is_whole(flow, so_far.path)
        is_for_every = self.every and so_far.path == "0" and self.go_on is not None and not flow.composite
        if not flow.manual and not is_for_every and not chain:
            so_far = await self._ask_inputs(flow, so_far, ())
        if flow.manual:
            run = replace(so_far, status="open", problem=_MANUAL)
        elif is_for_every:
            run = replace(so_far, status="open", problem=_EVERY)
        elif so_far.status != "done":
            run = so_far
        elif is_whole or (before is not None and before.status in {"open", "active"} and not flow.composite):
            # Its chain has ended and must not run again.
            run = replace(so_far, status="open", problem=_OPEN)
        elif remaining := steps_left(chain, so_far.done):
            run = await self._run_chain(flow, so_far, remaining)
        elif chain or flow.composite:
            run = so_far
        else:
            run = replace(so_far, status="open", problem="it has no chain of tools")
        if run.status == "done" and flow.composite:
            run = await _as_far(run, self._composite(flow, run))
        # An open part of a composite has been continued by itself.
        is_own = flow.manual or is_whole or not flow.composite or _lacks_branch(flow, run)
        if run.status == "open" and self.go_on is not None and is_own:
            run = await _as_far(run, self.go_on(flow, run))
        return self._block(flow, run) if run.status == "open" else run

    def _is_whole(self, flow: BaseFlow, path: str) -> bool:
        """Whether a model runs a composite as a whole: it has written steps, and no part has a chain or is manual.

        The steps describe work before, between and after the parts, which the prompt of a single part does not show.
        The tools of a manual part are not the model's to call.
        """
        if self.go_on is None or not flow.composite or not flow.steps:
            return False
        # Parts that have begun go on by themselves.
        if any(each.startswith(f"{path}/") for each in self.before):
            return False
        has_manual_part = any(part.manual for part in walk_flow(flow) if part is not flow)
        return not has_manual_part and not any(map(chain_of, walk_flow(flow)))

    def _block(self, flow: BaseFlow, run: FlowRun) -> FlowRun:
        if flow.manual:
            return replace(run, status="blocked")
        remaining = steps_left(chain_of(flow), run.done)
        names: list[str] = []
        if remaining:
            _, step = remaining[0]
            if isinstance(step, str):
                names = [step]
            elif isinstance(step, GuidedDecisionPoint):
                names = list(step.candidate_tools)
        if not names:
            return run
        for name in names:
            # One tool that is connected is enough; one that the flow requires was checked when the agent was created.
            if name in self.executor.tools or name not in flow.optional_tools:
                return run
        return replace(run, status="blocked", problem=f"not connected: {', '.join(names)}")

    async def _run_chain(self, flow: BaseFlow, so_far: FlowRun, left: Sequence[tuple[str, Step]]) -> FlowRun:
        names = [name for name, _ in left]
        chain = [step for _, step in left]
        has_stayed = so_far.left[:1] == tuple(names[:1])
        if so_far.tool and has_stayed and self._may_be(so_far.tool, chain[0]):
            # The tool was chosen in an earlier turn and has waited since.
            chain = [so_far.tool, *chain[1:]]
        so_far = replace(so_far, left=tuple(names))
        problem = self._lacks_context(chain)
        if problem:
            return replace(so_far, status="failed", problem=problem)
        so_far = await self._ask_inputs(flow, so_far, chain)
        if so_far.status != "done":
            return so_far
        size, later = self._until_effect(chain, so_far.facts)
        size = min(size, self._until_input(flow, so_far, chain))
        ran = await self._execute_steps(flow, so_far, chain[:size], later)
        run = self._run_after(so_far, ran)
        if ran.status == "ok":
            if size == len(chain):
                return run
            return await self._run_chain(flow, run, left[size:])
        tried = [record for record in ran.records if record.attempts]
        is_open = ran.status == "open" or (bool(tried) and self._may_go_on(tried[-1]))
        good = (*so_far.records, *_succeeded(ran.records))
        return self._stopped_run(run, ran.records[-1], good, is_open=is_open)

    def _run_after(self, so_far: FlowRun, ran: RunResult) -> FlowRun:
        """Return the run after these steps, and report the calls they made."""
        good = _succeeded(ran.records)
        own = dict(so_far.own)
        for record in good:
            own.update(output_fields(record.output))
        tried = [record for record in ran.records if record.attempts]
        # An output that breaks its schema fails the step, but its call has been made and is never repeated.
        called = [record for record in tried if record.status == "ok" or record.fault == "output"]
        stored = list(called)
        # The model that goes on has to see what failed.
        if tried and (tried[-1].status == "refused" or self._may_go_on(tried[-1])):
            stored.append(tried[-1])
        calls = [self._stored_call(record) for record in stored]
        for call in calls:
            self.made(call)
        return replace(
            so_far,
            records=(*so_far.records, *ran.records),
            facts=dict(ran.context),
            lost=_still(so_far.lost, ran.context),
            own=own,
            ran=(*so_far.ran, *calls),
            done=(*so_far.done, *so_far.left[: len(called)]),
            left=so_far.left[len(called) :],
            tool="",
            last=good[-1].tool if good else so_far.last,
            final=so_far.final or any(self._destroys(record) for record in tried),
        )

    def _destroys(self, record: StepRecord) -> bool:
        return record.status != "refused" and self.executor.tools[record.tool].destructive

    async def _execute_steps(
        self, flow: BaseFlow, so_far: FlowRun, steps: Sequence[Step], later: Sequence[CallToCome]
    ) -> RunResult:
        """Run steps on the facts of a run, and say what a call returned that others follow."""
        name_call, ids = self.call_id(so_far.path), list[str]()

        def name_and_record(tool: str, arguments: Mapping[str, Any]) -> str:
            ids.append(name_call(tool, arguments))
            return ids[-1]

        ran = await self.executor.run(
            steps,
            so_far.facts,
            context=self.fixed,
            after=so_far.last,
            fixed=(),
            lost=so_far.lost,
            approve=self.approve(so_far.path, later),
            call_id=name_and_record,
            deciding=self._decides(flow),
        )
        if later and ids and ran.status == "ok":
            self.returned(ids[-1], ran.records[-1].output)
        return ran

    def _lacks_context(self, chain: Sequence[Step]) -> str:
        """Return why a tool of a chain cannot be called with the caller's context, before anything runs; or ""."""
        for name in chain:
            tool = self.executor.tools.get(name) if isinstance(name, str) else None
            if tool is None:
                continue
            inputs = bind_context(tool, self.fixed).context_inputs
            if inputs is not None and inputs.problem:
                return f"{name} was not run: {inputs.problem}"
        return ""

    def _until_effect(self, chain: Sequence[Step], facts: Mapping[str, Any]) -> tuple[int, list[CallToCome]]:
        """Return how many steps to run next, and the effectful calls that follow.

        If several steps have effects, each runs alone, and its approval shows those that follow.
        """
        tools = [self.executor.tools.get(step) if isinstance(step, str) else None for step in chain]
        effects = [place for place, tool in enumerate(tools) if tool is not None and not tool.reads]
        if len(effects) <= 1:
            return len(chain), []
        if effects[0]:
            return effects[0], []
        known: list[Tool] = []
        later: list[CallToCome] = []
        for tool in tools:
            if tool is None:
                # A decision point: what follows it is not known yet.
                break
            if known and not tool.reads:
                bound = bind_context(tool, self.fixed)
                arguments, missing = arguments_of(bound, facts, self.fixed)
                sources = _sources_of(missing, known)
                later.append(CallToCome(bound, arguments, tuple(missing), sources))
            known.append(tool)
        return 1, later

    def _stopped_run(self, run: FlowRun, last: StepRecord, good: tuple[StepRecord, ...], *, is_open: bool) -> FlowRun:
        """Return the run of a chain that stopped early, with the status that its last step implies."""
        if isinstance(last.cause, CannotDo):
            return refused_run(run, last.cause, f"{last.tool}: {last.error}")
        if self._is_model_down(last.cause):
            return put_off(run, last.error)
        if isinstance(last.cause, WrongValue):
            wrong = {name: why for name, why in last.cause.reasons.items() if self._may_give(name, run, last.tool)}
            if wrong:
                return self._ask_again(run, wrong, last.error, good)
        if last.missing:
            return self._wait_for_inputs(run, last, good)
        if last.fault == "asked":
            return replace(run, status="waiting", records=good, tool=last.tool, problem=last.error)
        return replace(run, status="open" if is_open else "failed", problem=last.error or _OPEN)

    def _wait_for_inputs(self, run: FlowRun, last: StepRecord, good: tuple[StepRecord, ...]) -> FlowRun:
        unfound = self._unfound_values(run, last.missing)
        if unfound:
            return replace(run, status="failed", unfound=unfound, problem=last.error)
        return replace(run, status="waiting", records=good, tool=last.tool, asks=last.missing, problem=last.error)

    def _is_model_down(self, error: BaseException | None) -> bool:
        """Whether a choice failed because its model could not be reached, and not because of what it answered.

        Once the time of the whole turn is over, the turn says so itself.
        """
        if not isinstance(error, DecisionCallbackError) or spent_budget() is not None:
            return False
        cause = error.__cause__
        if isinstance(cause, DecisionAskError | DecisionReplyError | LookupError):
            return False
        if self.deciding is not None:
            # A model decides, whose provider may fail in any way.
            return True
        return isinstance(cause, ModelError | TimeoutError)

    def _may_give(self, name: str, run: FlowRun, tool: str) -> bool:
        """Whether the user may give a value that this tool refused: neither the caller nor another tool gives it."""
        alike = {folded_name(each) for each in (*self.fixed, *run.own)}
        alike |= declared_inputs([self.executor.tools[tool]])
        return folded_name(name) not in alike

    def _ask_again(self, run: FlowRun, wrong: Mapping[str, str], problem: str, good: tuple[StepRecord, ...]) -> FlowRun:
        """Ask again for values that a tool refused. The chain restarts if it has only read so far."""
        facts = {name: value for name, value in run.facts.items() if name not in wrong}
        reasons = {name: beginning(in_one_line(text), _LONGEST_GIVEN) for name, text in wrong.items()}
        run = replace(
            run, status="waiting", records=good, asks=(*reasons,), wrong=reasons, problem=problem, facts=facts
        )
        for call in run.ran:
            tool = self.executor.tools.get(call.tool)
            if not call.failed and tool is not None and not tool.reads:
                return run
        # What was looked up with the refused value is looked up anew.
        known = {name: value for name, value in facts.items() if name not in run.own}
        return replace(run, facts=known, own={}, done=(), left=(), last="")

    def _may_go_on(self, record: StepRecord) -> bool:
        refused = record.status == "failed" and record.fault == "tool" and not record.unknown
        return self.go_on is not None and refused and not self.executor.tools[record.tool].destructive

    def _decides(self, flow: BaseFlow) -> Deciding | None:
        deciding = self.deciding
        if deciding is None:
            return None
        return lambda records: deciding(flow, [self._stored_call(record) for record in _succeeded(records)])

    def _unfound_values(self, run: FlowRun, missing: Sequence[str]) -> tuple[str, ...]:
        """Return the missing values that a tool of this chain should have returned.

        A value that is also an input of such a tool is left out: the user can give it.
        """
        returned = set(map(folded_name, run.own))
        taken: set[str] = set()
        for call in run.ran:
            tool = self.executor.tools.get(call.tool)
            if tool is None:
                continue
            returned.update(folded_name(output.name) for output in outputs(tool))
            taken.update(map(folded_name, fields(tool.input_schema)))
        expected = returned - taken
        return tuple(name for name in missing if folded_name(name) in expected)

    def _may_be(self, tool: str, step: Step) -> bool:
        """Whether this step still allows the stored tool: the stored state may have been edited."""
        if isinstance(step, GuidedDecisionPoint):
            return tool in step.possible_tools
        if isinstance(step, str):
            return tool == step
        return tool in self.executor.tools

    def _stored_call(self, record: StepRecord) -> PastCall:
        output: object = record.error
        if record.status == "ok":
            output = record.output
        elif record.fault == "output":
            output = f"it ran: {record.error}"
        return past_call_of(
            self.executor.tools[record.tool],
            record.arguments,
            output,
            failed=record.status != "ok",
            refused=record.status == "refused",
            filled=record.filled,
        )

    async def _ask_inputs(self, flow: BaseFlow, so_far: FlowRun, chain: Sequence[Step]) -> FlowRun:
        """Wait if a required input is missing that no tool of the chain returns, or if a value is none of the choices.

        Inputs are asked for before anything runs, because half a chain may be worse than none. Only those that depend
        on a tool's result are asked for once that tool has run.
        """
        if flow.inputs:
            unwanted = self._state_of(flow, so_far, chain).unwanted()
            # An answer of the user to an input that is no longer wanted; what the caller gives stays.
            dropped = {name for name in unwanted if name not in self.fixed}
            facts = {name: value for name, value in so_far.facts.items() if name not in dropped}
            so_far = replace(so_far, facts=facts)
        try:
            so_far = await self._chosen_of_options(flow, so_far, chain)
            asks = self._missing(flow, so_far, chain)
            names = tuple(dict.fromkeys((*so_far.wrong, *asks)))
            if not names:
                return so_far
            problems = list(so_far.wrong.values())
            problems += [f"{tool} wants {name}" for name, tool in asks.items()]
            waits = replace(so_far, status="waiting", asks=names, problem="; ".join(problems))
            return await self._with_choices(flow, waits, chain)
        except CannotDo as refusal:
            return refused_run(so_far, refusal, f"the choices of an input: cannot be done: {refusal.message}")
        except WrongValue as error:
            own = self._user_inputs(flow, so_far)
            wrong = {name: why for name, why in error.reasons.items() if name in own}
            if not wrong:
                return refused_run(so_far, CannotDo(error.message), f"the choices of an input: {error.message}")
            return self._ask_again(so_far, wrong, error.message, so_far.records)

    def _state_of(self, flow: BaseFlow, so_far: FlowRun, chain: Sequence[Step]) -> InputState:
        """Return what is known of a flow's inputs before these steps."""
        to_come: set[str] = set()
        for step in chain:
            to_come.update(_tools_at(step))
        tools = (*steps_named(flow), *self.called)
        return InputState(inputs=flow.inputs, facts=so_far.facts, tools=tools, to_come=to_come)

    def _user_inputs(self, flow: BaseFlow, so_far: FlowRun) -> list[str]:
        """Return the inputs whose values are the user's: neither the caller nor a tool gave them."""
        of_others = {folded_name(name) for name in (*self.fixed, *so_far.own)}
        known = [declared.name for declared in flow.inputs if declared.name in so_far.facts]
        return [name for name in known if folded_name(name) not in of_others]

    async def _chosen_of_options(self, flow: BaseFlow, so_far: FlowRun, chain: Sequence[Step]) -> FlowRun:
        """Replace what was said of inputs with listed choices by the value that it means, and refuse what means none.

        Raises:
            CannotDo: A tool that lists them refuses.
            WrongValue: It refuses what it is called with.
        """
        own = self._user_inputs(flow, so_far)
        for declared in flow.inputs:
            if declared.by_tool is None or declared.name not in own:
                continue
            # One choice may change the next: each state holds the values that were taken before.
            state = self._state_of(flow, so_far, chain)
            if not state.is_ready(declared):
                continue
            options = await self.options.list_options(declared, state)
            if options is None:
                continue
            answer = so_far.facts[declared.name]
            value = option_named(options, answer)
            facts = {name: each for name, each in so_far.facts.items() if name != declared.name}
            if value is not None:
                so_far = replace(so_far, facts={**facts, declared.name: value})
                continue
            shown = beginning(in_one_line(number_text(answer)), _LONGEST_GIVEN)
            why = say("wrong_value", value=shown, input=declared.words)
            so_far = replace(so_far, facts=facts, wrong={**so_far.wrong, declared.name: why})
        return so_far

    async def _with_choices(self, flow: BaseFlow, waits: FlowRun, chain: Sequence[Step]) -> FlowRun:
        """Add the choices and proposals of the inputs that are asked for now.

        Raises:
            CannotDo: There is nothing to choose from, or the tool that lists it refuses.
            WrongValue: The tool refuses what it is called with, or lists nothing for it.
        """
        declared = {each.name: each for each in flow.inputs}
        state = self._state_of(flow, waits, chain)
        options = dict(waits.options)
        choices = dict(waits.choices)
        for name in asked_now(flow, waits.asks, waits.wrong):
            if name not in declared:
                continue
            listed = await self.options.list_options(declared[name], state)
            if listed is not None:
                options[name] = listed
            if listed is not None and not listed.entries:
                self._refuse_empty(flow, waits, declared[name])
            proposed = self._proposed_value(flow, declared[name], state)
            if proposed is not None and name not in self.rejected and name not in waits.wrong:
                choices[name] = (proposed,)
        return replace(waits, options=options, choices=choices)

    def _proposed_value(self, flow: BaseFlow, declared: Input, state: InputState) -> Any:
        """Return the value to propose for an input, in the type of the parameter; or None."""
        proposed = state.value(declared.proposes_from) if declared.proposes_from else declared.propose
        if not isinstance(proposed, str | int | float):
            return None
        part, tool = parameters_of(flow, self.executor.tools).get(declared.name, (True, None))
        value, is_taken = in_type_of(proposed, declared.name, part, {} if tool is None else tool.input_schema)
        return value if is_taken else None

    def _refuse_empty(self, flow: BaseFlow, waits: FlowRun, declared: Input) -> None:
        """Ask again for what left nothing to choose, or end the flow if nothing did that the user can change.

        Raises:
            CannotDo: It ends.
            WrongValue: It is asked for again.
        """
        text = say("no_choices", input=declared.words)
        taken: set[str] = set()
        choices = declared.by_tool
        if choices is not None:
            taken.update(choices.arguments.values())
            tool = self.executor.tools.get(choices.tool)
            if tool is not None:
                taken.update(fields(tool.input_schema))
        narrowing = [name for name in self._user_inputs(flow, waits) if name in taken]
        if narrowing:
            raise WrongValue(narrowing[-1], text)
        raise CannotDo(text)

    def _until_input(self, flow: BaseFlow, so_far: FlowRun, chain: Sequence[Step]) -> int:
        """Return how many steps to run before an input may be asked for that depends on their results."""
        if flow.inputs:
            awaited = self._state_of(flow, so_far, chain).awaited_tools()
            for place, step in enumerate(chain, 1):
                if not awaited.isdisjoint(_tools_at(step)):
                    return place
        return len(chain)

    def _missing(self, flow: BaseFlow, so_far: FlowRun, chain: Sequence[Step]) -> dict[str, str]:
        """Return the inputs to ask for before these steps, each with the flow or the tool that wants it."""
        state = self._state_of(flow, so_far, chain)
        provided = set(map(folded_name, so_far.facts)) | declared_inputs(self._tools_named_in(chain))
        asks: dict[str, str] = {}
        asked_later: set[str] = set()
        for declared in flow.inputs:
            if state.is_wanted(declared) is None or not state.is_ready(declared):
                asked_later.add(declared.name)
            elif declared.required and state.is_wanted(declared) and folded_name(declared.name) not in provided:
                asks[declared.name] = flow.name
        returned: set[str] = set()
        for step in chain:
            tool = self.executor.tools.get(step) if isinstance(step, str) else None
            if tool is None:
                break
            # What an earlier step returns counts as known, whatever it will be.
            to_come = dict.fromkeys(returned, "something")
            _, missing = arguments_of(tool, {**to_come, **so_far.facts})
            for name in missing:
                if name not in asked_later:
                    asks.setdefault(name, tool.name)
            names = {output.name for output in outputs(tool)}
            if not names:
                # Its outputs are undeclared and may include what later steps need.
                break
            returned |= names
        return asks

    def _tools_named_in(self, chain: Sequence[Step]) -> list[Tool]:
        names = [step for step in chain if isinstance(step, str)]
        return [self.executor.tools[name] for name in names if name in self.executor.tools]

    async def _composite(self, flow: BaseFlow, so_far: FlowRun) -> FlowRun:
        parts, paths = flow.subflows, part_paths(flow, so_far.path)
        if isinstance(flow, ConditionalFlow):
            before = self.before.get(so_far.path)
            place = paths.index(so_far.branch) if so_far.branch in paths else None
            if place is None and (before is None or before.status not in {"open", "active"}):
                try:
                    place = await self.choose(flow)
                except ModelError as error:
                    return put_off(so_far, describe_error(error))
            if place is None:
                return replace(so_far, status="open", problem="no branch fits")
            run = await self.run(parts[place], so_far.facts, paths[place], lost=so_far.lost)
            return merge_runs(replace(so_far, branch=paths[place]), (run,))
        if flow.type == "parallel":
            tasks: list[asyncio.Task[FlowRun]] = []
            async with asyncio.TaskGroup() as group:
                for part, path in zip(parts, paths, strict=True):
                    tasks.append(group.create_task(self.run(part, so_far.facts, path, lost=so_far.lost)))
            return merge_runs(so_far, tuple(task.result() for task in tasks))
        runs: list[FlowRun] = []
        facts, lost = so_far.facts, so_far.lost
        for part, path in zip(parts, paths, strict=True):
            runs.append(await self.run(part, facts, path, lost=lost))
            facts, lost = runs[-1].facts, runs[-1].lost
            if runs[-1].status != "done":
                break
        return merge_runs(so_far, tuple(runs))


def _tools_at(step: Step) -> tuple[str, ...]:
    """Return the tools that a step may call, as far as they are named."""
    if isinstance(step, str):
        return (step,)
    return step.possible_tools if isinstance(step, GuidedDecisionPoint) else ()


def _sources_of(missing: Sequence[str], before: Sequence[Tool]) -> tuple[int, ...]:
    """Return the places, among those with effects, of the tools whose outputs give all that is missing.

    The last tool that declares a value gives it. Where none does, each with an undeclared output may. Empty if a tool
    that only reads may give something: it is not known before it has run.
    """
    places: set[int] = set()
    for name in map(folded_name, missing):
        giving: list[Tool] = []
        for tool in reversed(before):
            declared = {folded_name(each.name) for each in outputs(tool)}
            if name in declared:
                giving = [tool]
                break
            if not declared:
                giving.append(tool)
        if not giving or any(tool.reads for tool in giving):
            return ()
        effects = [tool for tool in before if not tool.reads]
        for place, tool in enumerate(effects):
            if tool in giving:
                places.add(place)
    return tuple(sorted(places))


def refused_run(run: FlowRun, refusal: CannotDo, problem: str) -> FlowRun:
    """Return the run of a flow that a tool or a check refused: it ends in their words, and nothing of it failed."""
    return replace(run, status="blocked", refusal=refusal.message, text=refusal.message, problem=problem)


def put_off(run: FlowRun, problem: str) -> FlowRun:
    """Return the run of a flow whose next step a model was to choose that is down: it waits to be tried again."""
    return replace(run, status="waiting", text=say("try_again"), problem=problem)


async def _as_far(run: FlowRun, rest: Awaitable[FlowRun]) -> FlowRun:
    """Await the rest of a flow. If it fails, keep the progress in `run` and mark it as failed."""
    try:
        return await rest
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        # A part cancelled itself, nobody the turn.
        return replace(run, status="failed", problem=describe_error(error))
    except Exception as error:  # noqa: BLE001 - an author's part may raise anything; the others continue
        return replace(run, status="failed", problem=describe_error(error))


def _succeeded(records: Sequence[StepRecord]) -> list[StepRecord]:
    return [record for record in records if record.status == "ok"]


def _still(lost: Sequence[str], facts: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(lost) if name not in facts)


def _lacks_branch(flow: BaseFlow, run: FlowRun) -> bool:
    return isinstance(flow, ConditionalFlow) and run.branch not in part_paths(flow, run.path)


def output_fields(output: object) -> dict[str, Any]:
    """Return the values of a tool's output by name."""
    return dict(output) if is_object(output) else {RESULT: output}
