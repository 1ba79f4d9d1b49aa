"""Running flows as what they are: parts one after the other, side by side, or the one that fits.

A chain runs once. What an earlier turn has done is told by a `Part` for each place in the flow,
and not done again. What became of a flow is a value, a `FlowRun`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple, cast

from jazz_select.agent.conversation import Part, Ran
from jazz_select.errors import WrongValue
from jazz_select.flow.base import BaseFlow
from jazz_select.flow.composite import ConditionalFlow
from jazz_select.json_values import shorter_text, storable_fields, storable_text
from jazz_select.routing.approval import Approve
from jazz_select.routing.decisions.decision_points import DecisionCallback, GuidedDecisionPoint
from jazz_select.routing.executor import Deciding, FlowExecutor, Step, arguments_of, chain_of
from jazz_select.routing.records import StepRecord
from jazz_select.routing.schemas.compatibility import outputs
from jazz_select.routing.schemas.fields import RESULT, fields
from jazz_select.routing.tool_call import fingerprint_once
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import span
from jazz_select.text import beginning, describe_error, in_one_line
from jazz_select.words import folded_name

FlowStatus = Literal["done", "active", "open", "waiting", "failed", "blocked"]
_WORST: Final = {"done": 0, "blocked": 1, "active": 2, "open": 3, "waiting": 4, "failed": 5}
"""One that is blocked stands back for those that can go on: it is told once they are done."""
ONE_OF: Final = "one of "
"""How the name of a step begins that is a choice between tools, which it lists."""
_MOST_RAN: Final = 10
LONGEST_RAN: Final = 1_200
_LONGEST_GIVEN: Final = 300
_MANUAL: Final = "it is a person's to do"
_OPEN: Final = "which tool comes next is open"
HIDDEN: Final = "(hidden)"
"""What is told and kept of an argument that the caller's context gave."""
ChooseBranch = Callable[[ConditionalFlow], Awaitable[int | None]]
"""Which branch of a conditional flow is to be run, by its place; None where none fits."""
GoOn = Callable[[BaseFlow, "FlowRun"], Awaitable["FlowRun"]]
"""Goes on where a flow is open: a model with the flow's prompt and tools."""


class CallToCome(NamedTuple):
    """A call that a chain makes later: its tool and, where they are known already, its arguments."""

    tool: Tool
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowRun:
    """What became of one flow.

    Attributes:
        flow: Its name.
        type: Its type.
        path: Its place: "0", or "0.1" for the second part of that.
        status: `done`; `active` where a model goes on with it in the turns to come; `open` where somebody else has to;
            `waiting` for facts that a tool of it wants, or for a yes; `failed` where a step did; `blocked` where it
            cannot be done here, since a tool of it that is `optional` is not connected, or it is a person's to do.
        records: One for each step of its own chain, of this turn.
        facts: What is known after it: what was known before, and what its tools returned.
        own: What its own tools returned, in this turn and before.
        lost: Names of what was known before and could not be kept until this turn.
        ran: The tools that were run, as a model is told of them.
        parts: Those of a composite.
        done: The steps of its own chain that are done, by name.
        left: Those that are still to come.
        branch: Which branch a conditional flow took.
        tool: The tool that a choice fell on and that waits.
        last: The tool that ran last.
        asks: What it waits for.
        choices: Of that, the values that were said and of which one is meant.
        wrong: Of that, why what the user gave is not right, in a tool's words.
        unfound: What a tool was to give and did not, where it failed since another wants it.
        text: What a model said, where one went on.
        problem: What is open, or went wrong, in words.
        final: Whether a tool of its own was run that destroys something.
        changed: The steps to come, where it waits for a yes since they are not those of when it was begun.
        begun: False where it was not even begun: nothing of it is to be kept.
    """

    flow: str
    type: str = "flow"
    path: str = "0"
    status: FlowStatus = "done"
    records: tuple[StepRecord, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    own: Mapping[str, Any] = field(default_factory=dict[str, Any])
    lost: tuple[str, ...] = ()
    ran: tuple[Ran, ...] = ()
    parts: tuple["FlowRun", ...] = ()
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    branch: int | None = None
    tool: str = ""
    last: str = ""
    asks: tuple[str, ...] = ()
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    wrong: Mapping[str, str] = field(default_factory=dict[str, str])
    unfound: tuple[str, ...] = ()
    text: str = ""
    problem: str = ""
    final: bool = False
    changed: tuple[str, ...] = ()
    begun: bool = True

    @property
    def all(self) -> Iterator["FlowRun"]:
        """It and all in it."""
        yield self
        for part in self.parts:
            yield from part.all

    @property
    def steps(self) -> tuple[StepRecord, ...]:
        """The records of all of it, in order of the parts."""
        return tuple(record for run in self.all for record in run.records)

    @property
    def known(self) -> dict[str, Any]:
        """What tools returned anywhere in it, the later ones over the earlier."""
        return {name: value for run in self.all for name, value in run.own.items()}


def progress_of(run: FlowRun, before: Mapping[str, Part]) -> dict[str, Part]:
    """How far each part has come, to go on with."""
    found = dict(before)
    for each in run.all:
        facts, lost = storable_fields(each.own)
        earlier = before[each.path].lost if each.path in before else ()
        found[each.path] = Part(
            status=each.status,
            done=each.done,
            left=each.left,
            branch=each.branch,
            tool=each.tool,
            last=each.last,
            facts=facts,
            lost=tuple(dict.fromkeys((*(name for name in earlier if name not in facts), *lost))),
            ran=tuple(ran for place, ran in enumerate(each.ran) if len(each.ran) - place <= _MOST_RAN or ran.final),
            final=each.final,
            flow=each.flow,
        )
    return found


def steps_left(chain: Sequence[Step], done: Sequence[str]) -> list[tuple[str, Step]]:
    """The steps of a chain that are still to come, each with its name, whatever was put between them since."""
    gone = Counter(done)
    left: list[tuple[str, Step]] = []
    for step in chain:
        name = _step_name(step)
        if gone[name]:
            gone[name] -= 1
        else:
            left.append((name, step))
    return left


def _step_name(step: Step) -> str:
    if isinstance(step, str):
        return step
    return f"{ONE_OF}{', '.join(step.candidate_tools)}" if isinstance(step, GuidedDecisionPoint) else "whatever fits"


def ran_of(tool: Tool, arguments: Mapping[str, Any], told: str, *, failed: bool) -> Ran:
    """A call that was made, as it is kept: with its fingerprint, where it is not to be made again unasked."""
    call = fingerprint_once(tool, arguments)
    given = {name: _short_value(value) for name, value in storable_fields(arguments)[0].items()}
    return Ran(tool=tool.name, output=told, final=tool.destructive, failed=failed, call=call, arguments=given)


def _short_value(value: Any) -> Any:
    """A value as it is where it is short; else the beginning of its text."""
    text = storable_text(value)
    return value if len(text) <= _LONGEST_GIVEN else beginning(text, _LONGEST_GIVEN)


def tools_named(flow: BaseFlow) -> Iterator[str]:
    """The tools that a flow and its parts name, in their order."""
    yield from flow.own_tools
    for part in flow.subflows:
        yield from tools_named(part)


def joined(begun: FlowRun, parts: tuple[FlowRun, ...]) -> FlowRun:
    """A composite from its parts: as far as the least of them came."""
    if not parts:
        return begun
    facts = dict(begun.facts)
    for part in parts:
        facts.update(part.facts)
    lost = _still([name for part in (begun, *parts) for name in part.lost], facts)
    worst = max(parts, key=lambda part: _WORST[part.status])
    return replace(
        begun,
        status=worst.status,
        parts=parts,
        facts=facts,
        lost=lost,
        asks=tuple(dict.fromkeys(ask for part in parts for ask in part.asks)),
        wrong={name: text for part in parts for name, text in part.wrong.items()},
        text="\n\n".join(part.text for part in parts if part.text),
        problem=f"{worst.flow}: {worst.problem}" if worst.problem else "",
    )


class FlowRunner:
    """Runs flows for one turn."""

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        executor: FlowExecutor,
        before: Mapping[str, Part],
        *,
        choose: ChooseBranch,
        go_on: GoOn | None = None,
        fixed: Mapping[str, Any] | None = None,
        approve: Callable[[str, Sequence[CallToCome]], Approve] | None = None,
        call_id: Callable[[str], Callable[[str, Mapping[str, Any]], str]] | None = None,
        made: Callable[[Ran], None] | None = None,
        deciding: Callable[[BaseFlow, Sequence[Ran]], DecisionCallback] | None = None,
    ) -> None:
        """Take who runs chains, what is done, and who chooses branches, goes on, approves and names calls.

        Who approves is told the place of a part and, of a step that may change something, those that come after it.
        Each call that a chain has made is told to `made`, for whoever comes later in the same turn. What is `fixed`,
        the caller's own context, is what it is: nothing that tools returned takes its place.
        """
        self._fixed = dict(fixed or {})
        self._executor = executor
        self._before = before
        self._choose = choose
        self._go_on = go_on
        self._approve = approve
        self._call_id = call_id
        self._made = made
        self._deciding = deciding

    async def run(
        self, flow: BaseFlow, facts: Mapping[str, Any], path: str = "0", *, lost: Sequence[str] = ()
    ) -> FlowRun:
        """Run a flow on what is known, without what is done. Whatever fails in it is told in it."""
        before = self._before.get(path)
        begun = FlowRun(flow=flow.name, type=flow.type, path=path, facts=dict(facts), lost=_still(lost, facts))
        if before is not None:
            known = {**facts, **before.facts, **self._fixed}
            begun = replace(begun, facts=known, own=before.facts, ran=before.ran, final=before.final)
            begun = replace(begun, lost=_still((*lost, *before.lost), known))
            begun = replace(begun, done=before.done, left=before.left, branch=before.branch)
            begun = replace(begun, tool=before.tool, last=before.last)
            if before.status == "done" and (not _has_parts(flow, before) or self._is_whole(flow, path)):
                return begun
        with span(flow.name, "node") as traced:
            run = await _as_far(begun, self._run(flow, begun, before))
            if traced is not None:
                traced.note({"type": flow.type, "status": run.status, "asks": list(run.asks)})
                traced.hold({"problem": run.problem})
        return run

    async def _run(self, flow: BaseFlow, begun: FlowRun, before: Part | None) -> FlowRun:
        chain, is_whole = chain_of(flow), self._is_whole(flow, begun.path)
        if flow.manual:
            run = replace(begun, status="open", problem=_MANUAL)
        elif not chain and (lacking := self._asking(flow, begun, ())).status == "waiting":
            run = lacking
        elif is_whole or (before is not None and before.status in {"open", "active"} and not flow.composite):
            run = replace(begun, status="open", problem=_OPEN)  # its chain has ended and must not run again
        elif left := steps_left(chain, begun.done):
            run = await self._chained(flow, begun, left)
        elif chain or flow.composite:
            run = begun
        else:
            run = replace(begun, status="open", problem="its author gave it no chain of tools")
        if run.status == "done" and flow.composite:
            run = await _as_far(run, self._composite(flow, run))
        mine = flow.manual or is_whole or not flow.composite or _lacks_branch(flow, run)
        if run.status == "open" and self._go_on is not None and mine:
            run = await _as_far(run, self._go_on(flow, run))
        return self._blocked(flow, run) if run.status == "open" else run

    def _is_whole(self, flow: BaseFlow, path: str) -> bool:
        """Whether a model goes on with a composite as one: its author wrote steps for it, and no part has a chain.

        The steps say what is done before the parts, between them and after; whoever is told of one part alone knows
        nothing of that. A part that is a person's to do stays that: its tools are not the model's.
        """
        begun = any(each.startswith(f"{path}.") for each in self._before)
        own = flow.composite and bool(flow.steps) and not _has_chain(flow) and not _has_manual(flow)
        return self._go_on is not None and own and not begun

    def _blocked(self, flow: BaseFlow, run: FlowRun) -> FlowRun:
        """A flow that is open and that nobody goes on with: where it is a person's to do, or lacks the next tool."""
        if flow.manual:
            return replace(run, status="blocked")
        step = next((step for _, step in steps_left(chain_of(flow), run.done)), None)
        point = step if isinstance(step, GuidedDecisionPoint) else None
        names = [step] if isinstance(step, str) else [*point.candidate_tools] if point else []
        if not names or any(name in self._executor.tools or name not in flow.optional_tools for name in names):
            return run
        return replace(run, status="blocked", problem=f"not connected: {', '.join(names)}")

    async def _chained(self, flow: BaseFlow, begun: FlowRun, left: Sequence[tuple[str, Step]]) -> FlowRun:
        """The flow's own chain, from where it stands."""
        names, chain = [name for name, _ in left], [step for _, step in left]
        has_stayed = begun.left[:1] == tuple(names[:1])
        if begun.tool and has_stayed and self._may_be(begun.tool, chain[0]):
            chain = [begun.tool, *chain[1:]]  # a choice was made, and what it fell on has waited since
        begun = replace(begun, left=tuple(names))
        begun = self._asking(flow, begun, chain)
        if begun.status != "done":
            return begun
        size, later = self._until_effect(chain, begun.facts)
        approve = self._approve(begun.path, later) if self._approve else None
        ran = await self._executor.run(
            chain[:size],
            begun.facts,
            after=begun.last,
            fixed=self._fixed,
            lost=begun.lost,
            approve=approve,
            call_id=self._call_id(begun.path) if self._call_id else None,
            deciding=self._decides(flow),
        )
        good = [record for record in ran.records if record.status == "ok"]
        tried = [record for record in ran.records if record.attempts]
        called = [record for record in tried if record.status == "ok" or record.fault == "output"]
        own = {**begun.own, **{name: value for record in good for name, value in _fields(record.output).items()}}
        refused = [each for each in tried[-1:] if self._may_go_on(each)]
        told = [self._told(each) for each in (*called, *refused)]
        if self._made is not None:
            for each in told:
                self._made(each)
        run = replace(
            begun,
            records=(*begun.records, *ran.records),
            facts=dict(ran.context),
            lost=_still(begun.lost, ran.context),
            own=own,
            ran=(*begun.ran, *told),
            done=(*begun.done, *names[: len(called)]),
            left=tuple(names[len(called) :]),
            tool="",
            last=good[-1].tool if good else begun.last,
            final=begun.final or any(self._executor.tools[each.tool].destructive for each in tried),
        )
        if ran.status == "ok":
            return run if size == len(chain) else await self._chained(flow, run, left[size:])
        good = [*begun.records, *good]
        return self._stopped(run, ran.records[-1], tuple(good), went_on="open" if refused else ran.status)

    def _until_effect(self, chain: Sequence[Step], facts: Mapping[str, Any]) -> tuple[int, list[CallToCome]]:
        """How many steps are run before more is known of those that change something; of such a one, those after it.

        Where several steps change something, each is run alone: what comes after it is asked about with it.
        """
        tools = [self._executor.tools.get(step) if isinstance(step, str) else None for step in chain]
        effects = [place for place, tool in enumerate(tools) if tool is not None and not tool.reads]
        if self._approve is None or len(effects) <= 1:
            return len(chain), []
        if effects[0]:
            return effects[0], []
        later: list[CallToCome] = []
        for tool in takewhile(lambda each: each is not None, tools[1:]):
            if tool is not None and not tool.reads:
                arguments, missing = arguments_of(tool, facts, self._fixed)
                later.append(CallToCome(tool, None if missing else arguments))
        return 1, later

    def _stopped(
        self, run: FlowRun, last: StepRecord, good: tuple[StepRecord, ...], *, went_on: Literal["ok", "open", "failed"]
    ) -> FlowRun:
        """A chain that did not come to its end, as what its last step says of it."""
        if isinstance(last.cause, WrongValue) and self._may_give(last.cause.name, run):
            return self._asked_again(run, last.cause, last.error, good)
        if unfound := self._unfound(run, last.missing):
            return replace(run, status="failed", unfound=unfound, problem=last.error)
        if last.missing:
            waits = replace(run, status="waiting", records=good, tool=last.tool)
            return replace(waits, asks=last.missing, problem=last.error)
        if last.fault == "asked":
            return replace(run, status="waiting", records=good, tool=last.tool, problem=last.error)
        return replace(run, status="failed" if went_on == "failed" else "open", problem=last.error or _OPEN)

    def _may_give(self, name: str, run: FlowRun) -> bool:
        """Whether a value is the user's to give: neither the caller's nor what a tool returned."""
        alike = {folded_name(each) for each in (*self._fixed, *run.own)}
        return folded_name(name) not in alike

    def _asked_again(self, run: FlowRun, wrong: WrongValue, problem: str, good: tuple[StepRecord, ...]) -> FlowRun:
        """It waits for a value that a tool says is not right. What only read is run anew; what had effects is not."""
        facts = {name: value for name, value in run.facts.items() if name != wrong.name}
        told = {wrong.name: beginning(in_one_line(wrong.message), _LONGEST_GIVEN)}
        run = replace(run, status="waiting", records=good, asks=(wrong.name,), wrong=told, problem=problem, facts=facts)
        called = {each.tool for each in run.ran if not each.failed}
        if any(not self._executor.tools[name].reads for name in called if name in self._executor.tools):
            return run
        known = {name: value for name, value in facts.items() if name not in run.own}
        return replace(run, facts=known, own={}, done=(), left=(), last="")

    def _may_go_on(self, record: StepRecord) -> bool:
        """Whether a model may go on after a step that failed: its tool refused, and destroys nothing."""
        refused = record.status == "failed" and record.fault == "tool" and not record.unknown
        return self._go_on is not None and refused and not self._executor.tools[record.tool].destructive

    def _decides(self, flow: BaseFlow) -> Deciding | None:
        """Who chooses in the chain of a flow, where it is to be told what was done in it so far."""
        deciding = self._deciding
        if deciding is None:
            return None
        return lambda records: deciding(flow, [self._told(each) for each in records if each.status == "ok"])

    def _unfound(self, run: FlowRun, missing: Sequence[str]) -> tuple[str, ...]:
        """What a tool of this chain was to give and did not, and no user can: one that takes it is given it instead."""
        tools = [self._executor.tools[each.tool] for each in run.ran if each.tool in self._executor.tools]
        named = [*(each.name for tool in tools for each in outputs(tool)), *run.own]
        taken = {folded_name(name) for tool in tools for name in fields(tool.input_schema)}
        given = {folded_name(name) for name in named} - taken
        return tuple(name for name in missing if folded_name(name) in given)

    def _may_be(self, tool: str, step: Step) -> bool:
        """Whether a choice at this step can have fallen on this tool: what was saved may have been changed."""
        if isinstance(step, GuidedDecisionPoint):
            return tool in step.candidate_tools or tool == step.fallback_tool
        return tool == step if isinstance(step, str) else tool in self._executor.tools

    def _told(self, record: StepRecord) -> Ran:
        unread = "it ran: " if record.fault == "output" else ""
        told = shorter_text(record.output, LONGEST_RAN) if record.status == "ok" else f"{unread}{record.error}"
        tool = self._executor.tools[record.tool]
        ran = ran_of(tool, record.arguments, told, failed=record.status != "ok")
        fixed = set(map(folded_name, self._fixed))  # what the caller knows is for one turn: it is not kept
        own = {name: HIDDEN if folded_name(name) in fixed else value for name, value in ran.arguments.items()}
        return ran.model_copy(update={"arguments": own})

    def _asking(self, flow: BaseFlow, begun: FlowRun, chain: Sequence[Step]) -> FlowRun:
        """It waits where its author or the chain wants what nobody gave and no tool of it gives.

        What can be known is asked for before anything runs: half a chain may be worse than none.
        """
        given = set(begun.facts)
        alike = set(map(folded_name, given))
        required = [each.name for each in flow.inputs if each.required and folded_name(each.name) not in alike]
        asks: dict[str, str] = dict.fromkeys(required, flow.name)
        for step in chain:
            tool = self._executor.tools.get(step) if isinstance(step, str) else None
            if tool is None:
                break
            later = dict.fromkeys(given - begun.facts.keys(), "something")
            for name in arguments_of(tool, {**later, **begun.facts})[1]:
                asks.setdefault(name, tool.name)
            returned = {each.name for each in outputs(tool)}
            if not returned:
                break  # what it returns is not told, so what comes after it may well be there
            given |= returned
        if not asks:
            return begun
        wanting = "; ".join(f"{tool} wants {name}" for name, tool in asks.items())
        return replace(begun, status="waiting", asks=tuple(asks), problem=wanting)

    async def _composite(self, flow: BaseFlow, begun: FlowRun) -> FlowRun:
        parts = flow.subflows
        if isinstance(flow, ConditionalFlow):
            before = self._before.get(begun.path)
            if before is not None and before.status in {"open", "active"} and begun.branch is None:
                return replace(begun, status="open", problem="no branch fits")
            branch = begun.branch if begun.branch is not None else await self._choose(flow)
            if branch is None or branch >= len(parts):
                return replace(begun, status="open", problem="no branch fits")
            run = await self.run(parts[branch], begun.facts, f"{begun.path}.{branch}", lost=begun.lost)
            return joined(replace(begun, branch=branch), (run,))
        if flow.type == "parallel":
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.run(part, begun.facts, f"{begun.path}.{place}", lost=begun.lost))
                    for place, part in enumerate(parts)
                ]
            return joined(begun, tuple(task.result() for task in tasks))
        runs: list[FlowRun] = []
        facts, lost = begun.facts, begun.lost
        for place, part in enumerate(parts):
            runs.append(await self.run(part, facts, f"{begun.path}.{place}", lost=lost))
            facts, lost = runs[-1].facts, runs[-1].lost
            if runs[-1].status != "done":
                break
        return joined(begun, tuple(runs))


async def _as_far(run: FlowRun, rest: Awaitable[FlowRun]) -> FlowRun:
    """What comes of the rest of a flow. Where that fails, it is as far as it was: what its own chain did stays done."""
    try:
        return await rest
    except asyncio.CancelledError as error:
        if _is_cancelled():
            raise
        return replace(run, status="failed", problem=describe_error(error))  # some part's own, and nobody's wish
    except Exception as error:  # noqa: BLE001 - whatever an author's part fails with; the others go on
        return replace(run, status="failed", problem=describe_error(error))


def _still(lost: Sequence[str], facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Those that nothing has given again."""
    return tuple(name for name in dict.fromkeys(lost) if name not in facts)


def _has_chain(flow: BaseFlow) -> bool:
    """Whether it, or a part of it, has a chain of tools."""
    return bool(chain_of(flow)) or any(map(_has_chain, flow.subflows))


def _has_manual(flow: BaseFlow) -> bool:
    """Whether a part of it is a person's to do."""
    return any(part.manual or _has_manual(part) for part in flow.subflows)


def _has_parts(flow: BaseFlow, before: Part) -> bool:
    """Whether what it found lies in its parts."""
    return flow.composite and not (isinstance(flow, ConditionalFlow) and before.branch is None)


def _lacks_branch(flow: BaseFlow, run: FlowRun) -> bool:
    return isinstance(flow, ConditionalFlow) and run.branch is None


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _fields(output: object) -> dict[str, Any]:
    return dict(cast("Mapping[str, Any]", output)) if isinstance(output, Mapping) else {RESULT: output}
