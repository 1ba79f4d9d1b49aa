"""Running a flow of tools: what is certain runs, what is a choice is asked, what is open is handed back."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from time import perf_counter
from typing import Annotated, Any, ParamSpec, TypeAlias, TypeVar, cast

from tenacity import AsyncRetrying

from jazz_select.arguments import Methods, check_argument
from jazz_select.errors import ConfigError, DecisionCallbackError, ToolError
from jazz_select.flow.base import GuidedDecisionPoint, Step
from jazz_select.json_values import is_object, plain, storable, too_much
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import Answer, ApprovalPolicy, Approve, Claims, answered_approver, engine_approver
from jazz_select.routing.decisions.decision_points import (
    MIN_COMPATIBILITY,
    ChainAnalyzer,
    Chooser,
    DecisionCallback,
    ToolCandidate,
    ToolChoice,
    decision_prompt,
)
from jazz_select.routing.records import RunResult, StepRecord, ToolCall, note_step
from jazz_select.routing.schemas.compatibility import Slot, described_value, outputs, schema_of
from jazz_select.routing.schemas.fields import RESULT, Cursor, alternatives, fields, shape
from jazz_select.routing.schemas.validity import verdicts
from jazz_select.routing.tool_call import CallOutcome, call_tool, copy_arguments, may_repeat
from jazz_select.routing.tools.context_inputs import bind_context, check_context, filled_arguments
from jazz_select.routing.tools.sources import ToolsLike, toolbox_of
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import span
from jazz_select.text import describe_error, misspelt, name_shown
from jazz_select.threads import in_daemon_thread, run_with_timeout
from jazz_select.values import Tier
from jazz_select.words import by_spelling, folded_name


def check_run(steps: object, inputs: object) -> None:
    """Refuse what are no steps, or no inputs."""
    wrong: list[object] = [steps]
    if isinstance(steps, Sequence) and not isinstance(steps, str | bytes):
        wrong = [each for each in cast("Sequence[object]", steps) if not isinstance(each, Step)]
    if wrong:
        msg = f"steps must be a list of names of tools, GuidedDecisionPoints and CHOOSE, got {wrong[0]!r:.80}"
        raise ConfigError(msg)
    if inputs is not None and not isinstance(inputs, Mapping):
        raise ConfigError(f"inputs must be a mapping of names to values, got {inputs!r:.80}")


NameCall = Callable[[str, Mapping[str, Any]], str]
"""Names the next call of this tool with these arguments; empty where it has no name."""
Deciding = Callable[[Sequence[StepRecord]], DecisionCallback]
"""Who chooses in one run, after these steps of it."""


class RunContext:
    """What is there so far."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        last_tool: str = "",
        fixed: Collection[str] | None = None,
        lost: Iterable[str] = (),
        deciding: Deciding | None = None,
        withheld: Collection[str] = (),
    ) -> None:
        self.context = given
        self.deciding = deciding
        self.approve: Approve | None = None
        self.approve_chosen: Approve | None = None
        """Who lets calls pass that one who chooses chose."""
        self.call_id: NameCall | None = None
        self.fixed = frozenset(given if fixed is None else fixed) | frozenset(withheld)
        self.withheld = frozenset(withheld)
        self._withheld_alike = frozenset(map(folded_name, withheld))
        self.lost = tuple(lost)
        self.records: list[StepRecord] = []
        self.last_tool = last_tool
        self.asked: ToolCall | None = None
        self._last = {name: value for name, value in given.items() if name not in self.withheld}
        self._declared: dict[str, Slot] = {}

    def keep(self, tool: Tool, output: Any, declared: Mapping[str, Slot]) -> None:
        """Store the output of a tool; `declared` are the fields that its schema declares, by name.

        The caller's values are never replaced, and undeclared fields of a declared output are ignored: an output must
        not exchange the caller's account for another.
        """
        values = dict(output) if is_object(output) else {RESULT: output}
        for name, value in values.items():
            if name in self.fixed or (declared and name not in declared):
                continue
            self.context[name] = value
            self._declared.pop(name, None)
            if name in declared and value is not None:  # a null feeds nothing, whatever was declared
                self._declared[name] = replace(declared[name], certain=True)
        self.last_tool, self._last = tool.name, values

    def bind_tool(self, tool: Tool) -> Tool:
        """Return a tool bound to the caller's context; inputs that the caller gave fill what the tool declares."""
        names = self.fixed if tool.from_context else self.withheld
        return bind_context(tool, {name: self.context[name] for name in names if name in self.context})

    def shown_candidate(self, candidate: ToolCandidate) -> ToolCandidate:
        """Return a candidate as one who chooses is shown it: without the inputs that the caller's context fills."""
        summary = candidate.input_schema_summary
        if not self.withheld:
            return candidate
        shown = {name: text for name, text in summary.items() if folded_name(name) not in self._withheld_alike}
        return replace(candidate, input_schema_summary=shown)

    @property
    def fields(self) -> tuple[Slot, ...]:
        """All that is there, by what was declared or else by the values."""
        slots: list[Slot] = []
        for name, value in self.context.items():
            slots.append(self._declared.get(name) or Slot(name, schema_of(value)))
        return tuple(slots)

    @property
    def unclear(self) -> tuple[str, ...]:
        """What could not be known of the values that are there, when tools were compared with them."""
        notes: list[str] = []
        for name, value in self.context.items():
            if name in self._declared:
                continue
            _, problem = described_value(value)
            if problem:
                notes.append(f"{name_shown(name)} {problem}")
        return tuple(notes[:_MOST_NOTES])

    def last_fields(self, tools: Mapping[str, Tool]) -> list[str]:
        """Return the names of the fields that the last step gave."""
        tool = tools.get(self.last_tool)
        if tool is None or not tool.output_schema:
            return list(self._last)
        return list(fields(tool.output_schema))

    def shown_values(self, point: GuidedDecisionPoint | None) -> dict[str, Any]:
        """Copy the values for the one who chooses: the named fields, or the last step's; never the whole context."""
        if point and point.context_fields:
            return copy_arguments({name: self.context[name] for name in point.context_fields if name in self.context})
        return copy_arguments(self._last)

    def make_result(self, status: Any, *, pending: tuple[ToolCandidate, ...] = ()) -> RunResult:
        """Build the result of the run so far."""
        return RunResult(status=status, records=tuple(self.records), context=self.context, pending=pending)


def inputs_lost(tool: Tool, lost: Iterable[str], arguments: Mapping[str, Any]) -> str:
    """Say why a destructive call must not run without inputs that were `lost`; empty if it may run."""
    if not tool.destructive:
        return ""
    lost_names = {folded_name(name) for name in lost}
    absent = [name for name in fields(tool.input_schema) if name not in arguments and folded_name(name) in lost_names]
    if not absent:
        return ""
    return f"{tool.name} is not run without {', '.join(absent)}, which was there and could not be kept"


def arguments_of(
    tool: Tool, context: Mapping[str, Any], fixed: Collection[str] = ()
) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments known from the context, and the missing required ones, of the way to call that lacks least.

    An earlier output that is invalid for an optional input is left out. The caller's `fixed` values are not, and a
    destructive tool gets every known value or fails.
    """
    alike = by_spelling(context)
    found = shape(tool.input_schema)
    needed = found.needed if found else (frozenset[str](),)
    wanted: dict[str, object] = {name: part for name, (part, _) in fields(tool.input_schema).items()}
    for names in needed:
        for name in sorted(names):
            wanted.setdefault(name, True)
    arguments: dict[str, Any] = {}
    for name, part in wanted.items():
        source = name
        if name not in context:
            same = alike.get(folded_name(name), [])
            if len(same) != 1:  # none, or several of which nobody knows which one is meant
                continue
            source = same[0]
        elif context[name] is None and not _takes_null(part, tool):
            continue
        value = context[source]
        is_required = all(name in names for names in needed)
        may_be_left_out = not tool.destructive and source not in fixed and not is_required
        if may_be_left_out and verdicts([value], part, Cursor(tool.input_schema)) == [False]:
            continue
        arguments[name] = value
    least = min(needed, key=lambda names: len(names - arguments.keys()))
    return arguments, [name for name in wanted if name in least and name not in arguments]


def _takes_null(part: object, tool: Tool) -> bool:
    return any(each.type in {"null", ""} for each in alternatives(part, tool.input_schema))


_MOST_NOTES = 10
_MANY, _LARGE = 500, 50_000
"""Tools, and characters of one schema, from which on they are read beside a loop, not in it."""
P = ParamSpec("P")
T = TypeVar("T")
OpenRouter: TypeAlias = Annotated[
    Callable[[dict[str, Any], list[ToolCandidate]], "Awaitable[str | None] | str | None"],
    Methods("a function of (context, candidates), sync or async", "__call__"),
]
"""Chooses among all tools where nothing narrows them; None leaves it to the caller of the run."""
_Call = Callable[..., Awaitable[CallOutcome]]
"""Makes one call, by an id, or once more after what became of it earlier."""
OnCall = Callable[[StepRecord, StepRecord | None], Awaitable[None]]
"""Called with the record of a call before it is made, and again with its outcome. It must not raise."""


class FlowExecutor:
    """Runs flows of tools. One executor may run many at once.

    Attributes:
        tools: What there is, by name.
    """

    def __init__(  # noqa: PLR0913 - options with a name
        self,
        tools: ToolsLike,
        decision_callback: DecisionCallback | None = None,
        open_router: OpenRouter | None = None,
        *,
        decision_timeout_s: float | None = 20.0,
        step_timeout_s: float | None = 30.0,
        retry: AsyncRetrying | None = None,
        approval: ApprovalPolicy = "destructive",
        approve: Approve | None = None,
        claims: ClaimStore | None = None,
        max_candidates: int = 10,
        min_compatibility: float = MIN_COMPATIBILITY,
        on_call: OnCall | None = None,
    ) -> None:
        """Create an executor.

        Args:
            tools: The connected tools: tools and functions, or the result of `load_tools`.
            decision_callback: Chooses at guided points; without one they stay open.
            open_router: Chooses among all tools if nothing narrows the choice; without one the run ends as open.
            decision_timeout_s: Time limit of a choice.
            step_timeout_s: Time limit of each call of a tool.
            retry: A tenacity policy for failed tools. None by default: only the author of a tool knows whether it may
                be called twice. A call that may have had its effect is not repeated if the tool is destructive and not
                `idempotent`.
            approval: Which calls need approval if there is no `approve`. "destructive": those of destructive tools that
                only schemas or a `ModelDecision` chose; steps that the caller names pass. "always" or "never".
            approve: Asked once before each call of a tool, whatever the policy and the number of attempts.
            claims: Where destructive calls with an id are claimed before they are made.
            max_candidates: Most tools shown for a choice without named candidates; named ones are all shown.
            min_compatibility: Lowest compatibility of a tool that is shown.
            on_call: Called before and after each call of a tool.

        Raises:
            ConfigError: The policy is unknown, or an argument has the wrong type.
            DuplicateToolError: Two tools have one name.
        """
        self._approve = engine_approver(approval, approve)
        by_model = getattr(decision_callback, "by_model", False) is True
        self._approve_chosen = engine_approver(approval, approve, by_model=by_model)
        check_argument("decision_callback", decision_callback, Chooser | None)
        check_argument("open_router", open_router, OpenRouter | None)
        check_argument("claims", claims, Claims | None)
        self.tools: Mapping[str, Tool] = toolbox_of(tools)
        self._outputs = cache(_outputs_by_name)
        self._callback = decision_callback
        self._open_router = open_router
        self._decision_timeout_s = decision_timeout_s
        self._step_timeout_s = step_timeout_s
        self._retry = retry
        self.claims = claims
        self._max_candidates = max_candidates
        self._min_compatibility = min_compatibility
        self._on_call = on_call

    async def run(  # noqa: PLR0913 - options with a name
        self,
        steps: Sequence[Step],
        inputs: Mapping[str, Any] | None = None,
        *,
        after: str = "",
        fixed: Collection[str] | None = None,
        lost: Sequence[str] = (),
        approve: Approve | None = None,
        call_id: NameCall | None = None,
        deciding: Deciding | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> RunResult:
        """Run the steps in order.

        Args:
            steps: Names of tools, decision points, and `CHOOSE` where the executor finds what fits.
            inputs: The initial values. One who chooses is shown them if nothing ran before.
            after: The tool that ran before, if the steps are the rest of a flow: it does not follow itself.
            fixed: Names of inputs that no output may replace; None for all.
            lost: Names of earlier values that could not be kept. A destructive tool that takes one of them fails.
            approve: Replaces the executor's own approval in this run.
            call_id: Returns the id of the next call, which is the same when the run is repeated; by default a new id.
            deciding: Returns the decision callback of this run from the steps so far, in place of the executor's own.
            context: What only the caller knows, such as who the user is. It fills inputs by name and those marked with
                `FromContext`; no output replaces it, and one who chooses is shown neither its names nor its values.

        Returns:
            How the run ended. Errors of tools and of choices are data.

        Raises:
            ConfigError: A step is invalid.
            ToolError: A decision point shows a field that nothing before it gives.
        """
        check_run(steps, inputs)
        check_context(context)
        values = {**(inputs or {}), **(context or {})}  # the context wins: no input may stand in for it
        await self._read_schemas(self._check, steps, values)
        run = RunContext(
            values, last_tool=after, fixed=fixed, lost=lost, deciding=deciding, withheld=frozenset(context or ())
        )
        run.call_id = call_id
        run.approve, run.approve_chosen = approve or self._approve, approve or self._approve_chosen
        return await self._run_steps(run, steps)

    async def resume(self, result: RunResult, answer: Answer) -> RunResult:
        """Continue a run that ended because a call needs approval.

        Args:
            result: The run as it ended.
            answer: `Allow()` makes the call once, unchanged and by its id; `Deny(reason)` fails the run.

        Returns:
            The whole run, with the earlier records.

        Raises:
            ConfigError: The run waits for no answer, or `answer` is none.
        """
        asked = result.asked
        if asked is None:
            raise ConfigError("this run does not wait for an answer: its `asked` is None")
        ids = [asked.id]  # for the first call of the tool alone: a later one is another call
        done = result.records[:-1]
        last = done[-1].tool if done else ""
        run = RunContext(dict(result.context), last_tool=last, fixed=result.fixed, withheld=result.withheld)
        run.records += done
        run.call_id = lambda tool, _: ids.pop() if ids and tool == asked.tool else ""
        run.approve, run.approve_chosen = answered_approver([asked], answer, self._approve), self._approve_chosen
        return await self._run_steps(run, result.rest)

    async def _run_steps(self, run: RunContext, steps: Sequence[Step]) -> RunResult:
        for place, step in enumerate(steps):
            with span("step", "decision") as traced:
                ended = await self._step(run, step)
                if traced is not None:
                    note_step(traced, run.records[-1])
            if ended is None:
                continue
            if run.asked is None:
                return ended
            # The tool by its name: whoever chose it is not asked again once the call has its yes.
            rest = (run.asked.tool, *steps[place + 1 :])
            return replace(ended, asked=run.asked, rest=rest, fixed=run.fixed, withheld=run.withheld)
        return run.make_result("ok")

    async def _step(self, run: RunContext, step: Step) -> RunResult | None:
        """Run one step; return a result if it ends the run."""
        began = perf_counter()
        chosen = await self._choose_tool(run, step)
        if chosen.status == "open":
            chosen = await self._ask_open_router(run, chosen)
        if chosen.status != "ok":
            run.records.append(replace(chosen, duration_s=perf_counter() - began))
            pending: list[ToolCandidate] = []
            if chosen.status == "open":
                pending = await self._read_schemas(self._all_candidates)
            return run.make_result(chosen.status, pending=tuple(pending))
        record = await self._call_step(run, chosen)
        run.records.append(replace(record, duration_s=perf_counter() - began))
        return None if record.status == "ok" else run.make_result(record.status)

    async def _choose_tool(self, run: RunContext, step: Step) -> StepRecord:
        number = len(run.records) + 1
        if isinstance(step, str):
            if step in self.tools:
                return StepRecord(step=number, tool=step, tier=Tier.DETERMINISTIC, reason="planned")
            suggestion = misspelt(step, [*self.tools]).removeprefix(step)
            problem = f"there is no tool {step!r}{suggestion}"
            return StepRecord(step=number, tool="", tier=Tier.OPEN, reason="unknown", status="open", error=problem)
        point = step if isinstance(step, GuidedDecisionPoint) else None
        candidates, dropped = await self._read_schemas(self._candidates, run, point)
        record = StepRecord(
            step=number,
            tool="",
            tier=Tier.GUIDED,
            reason="callback",
            candidates=tuple(candidates),
            dropped=dropped,
            notes=run.unclear,
        )
        if not candidates:
            problem = "none of the tools that may come next fits what is there"
            return replace(record, tier=Tier.OPEN, reason="none", dropped=0, status="open", error=problem)
        # That only one fits is a finding of schemas, nobody's word: it is not enough to destroy something.
        destroys = any(self.tools[each.name].destructive for each in candidates)
        if len(candidates) == 1 and not destroys:
            return replace(record, tool=candidates[0].name, tier=Tier.DETERMINISTIC, reason="single")
        decided = ""
        if point is not None:
            decided = point.decided_by(run.context, [each.name for each in candidates])
        if decided:
            return replace(record, tool=decided, tier=Tier.DETERMINISTIC, reason="field")
        return await self._ask_callback(run, point, record)

    async def _ask_callback(self, run: RunContext, point: GuidedDecisionPoint | None, record: StepRecord) -> StepRecord:
        candidates = record.candidates
        callback = self._callback if run.deciding is None else run.deciding(tuple(run.records))
        if callback is None:
            what = "chooses between" if len(candidates) > 1 else "decides on"
            problem = f"nobody {what} {_list_names(candidates)}: there is no decision_callback"
            return replace(record, tier=Tier.OPEN, reason="no_callback", status="open", error=problem)
        prompt = point.decision_prompt if point else None
        if prompt is None:
            last = await self._read_schemas(run.last_fields, self.tools)
            prompt = decision_prompt(run.last_tool, last, candidates)
        try:
            choice = await run_with_timeout(
                callback.decide,
                run.shown_values(point),
                list(candidates),
                prompt,
                limit_s=self._decision_timeout_s,
                name="jazz-select-decision_callback",
            )
            if isinstance(choice, ToolChoice):
                record = replace(record, probability=choice.probability, notes=(*record.notes, *choice.notes))
                choice = choice.tool
            if choice is None or (isinstance(choice, str) and choice.strip().casefold() in ("", "none")):
                problem = f"none of {_list_names(candidates)} was chosen"
                return replace(record, tier=Tier.OPEN, reason="none", status="open", error=problem)
            if choice not in {each.name for each in candidates}:
                return self._fall_back(record, point, run, LookupError(f"{choice!r:.80} was not among the candidates"))
        except Exception as error:  # noqa: BLE001 - whatever one who chooses fails with
            return self._fall_back(record, point, run, error)
        return replace(record, tool=choice)

    def _fall_back(
        self, record: StepRecord, point: GuidedDecisionPoint | None, run: RunContext, error: Exception
    ) -> StepRecord:
        failure = DecisionCallbackError(run.last_tool or "the input", describe_error(error))
        failure.__cause__ = error
        fallback = point.fallback_tool if point else None
        if fallback is not None and fallback in self.tools:
            return replace(record, tool=fallback, reason="fallback", error=str(failure), cause=failure)
        return replace(record, status="failed", error=str(failure), cause=failure)

    async def _ask_open_router(self, run: RunContext, record: StepRecord) -> StepRecord:
        if self._open_router is None:
            return record
        try:
            choice = await run_with_timeout(
                self._open_router,
                copy_arguments(run.context),
                await self._read_schemas(self._all_candidates),
                limit_s=self._decision_timeout_s,
                name="jazz-select-open_router",
            )
        except Exception as error:  # noqa: BLE001 - whatever a router fails with
            return replace(record, error=f"open_router failed: {describe_error(error)}", cause=error)
        if not isinstance(choice, str) or choice not in self.tools:
            return record
        return replace(record, tool=choice, reason="open_router", status="ok", error="")

    def _candidates(self, run: RunContext, point: GuidedDecisionPoint | None) -> tuple[list[ToolCandidate], int]:
        """Return the fitting tools (all named ones, or the best), and how many were left out."""
        least = 0.0 if point else self._min_compatibility
        fitting = self._analyzer.fitting(run.fields, without=run.last_tool, min_compatibility=least)
        if point is None:
            names = list(fitting)[: self._max_candidates]
        else:
            others = [name for name in point.candidate_tools if name != run.last_tool]
            names = [name for name in others if self._may_follow(name, fitting)]
        found: list[ToolCandidate] = []
        for name in names:
            candidate = self._analyzer.candidate(name, fitting.get(name, 0.0))
            found.append(run.shown_candidate(candidate))
        dropped = len(fitting) - len(names) if point is None else 0
        return found, dropped

    def _may_follow(self, name: str, fitting: Collection[str]) -> bool:
        """Tell whether a named tool can be called: with what is there, or with nothing."""
        if name in fitting:
            return True
        return name in self._analyzer.callable and not fields(self.tools[name].input_schema)

    def _all_candidates(self) -> list[ToolCandidate]:
        found: list[ToolCandidate] = []
        for name, tool in self.tools.items():
            if name in self._analyzer.callable:
                found.append(ToolCandidate(name=name, description=tool.description))
        return found

    async def _read_schemas(self, reading: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Read schemas; in a thread if they are large."""
        if not self._is_large:
            return reading(*args, **kwargs)
        return await in_daemon_thread(partial(reading, *args, **kwargs), name="jazz-select-schemas")

    @cached_property
    def _is_large(self) -> bool:
        if len(self.tools) > _MANY:
            return True
        for tool in self.tools.values():
            if too_much(tool.input_schema, _LARGE) or too_much(tool.output_schema, _LARGE):
                return True
        return False

    @cached_property
    def _analyzer(self) -> ChainAnalyzer:
        """The analyzer, created on first use: many executors never need one."""
        return ChainAnalyzer(self.tools)

    async def _call_step(self, run: RunContext, record: StepRecord) -> StepRecord:
        tool = await self._read_schemas(run.bind_tool, self.tools[record.tool])
        arguments, missing = await self._read_schemas(arguments_of, tool, run.context, run.fixed)
        arguments = filled_arguments(tool, arguments).arguments
        lost = await self._read_schemas(inputs_lost, tool, run.lost, arguments)
        if missing or lost:
            problem = f"{tool.name} wants {', '.join(missing)}, and nothing before it gave that" if missing else lost
            problem = _join_texts(record.error, problem)
            return replace(record, status="failed", error=problem, fault="arguments", missing=tuple(missing))
        # Its outputs are read before the call, so that what it returns is kept without waiting.
        await self._read_schemas(self._outputs, self.tools[tool.name])
        record = replace(record, arguments={name: storable(plain(value)) for name, value in arguments.items()})
        if tool.context_inputs is not None:
            record = replace(record, filled=tuple(tool.context_inputs.values))
        if self._on_call is None:
            return await self._make_call(run, record, tool, arguments)
        await self._on_call(record, None)
        ended = await self._make_call(run, record, tool, arguments)
        await self._on_call(record, ended)
        return ended

    async def _make_call(
        self, run: RunContext, record: StepRecord, tool: Tool, arguments: Mapping[str, Any]
    ) -> StepRecord:
        call = partial(
            call_tool,
            tool,
            arguments,
            door="executor",
            timeout_s=self._step_timeout_s,
            approve=run.approve if record.tier is Tier.DETERMINISTIC else run.approve_chosen,
            claims=self.claims,
            vouched=True,  # by whoever gave a policy
        )
        call_id = run.call_id(tool.name, arguments) if run.call_id else ""
        made, attempts = await self._call_with_retries(tool, call, call_id)
        if made.status == "asked":
            run.asked = made.call
        if made.error is not None:
            record = replace(
                record,
                status="failed",
                error=_join_texts(record.error, made.error.message),
                cause=record.cause or made.error.cause,
                attempts=attempts,
                fault=made.error.fault,
                unknown=made.error.unknown,
            )
            if made.status == "refused":
                # Report the reason of the refusal, and not the one for the fallback.
                return replace(record, status="refused", cause=made.error.cause)
            return record
        run.keep(tool, made.output, self._outputs(self.tools[tool.name]))
        return replace(record, output=made.output, attempts=attempts)

    async def _call_with_retries(self, tool: Tool, call: _Call, call_id: str) -> tuple[CallOutcome, int]:
        """Call a tool under the retry policy; return the last outcome and the number of attempts."""
        if self._retry is None:
            made = await call(call_id=call_id)
            return made, int(made.called)
        tried: list[CallOutcome] = []
        cancelled: asyncio.CancelledError | None = None
        try:
            async for attempt in self._retry.copy():
                with attempt:
                    cancelled = await self._tried_once(tool, call, call_id, tried)
                if cancelled is not None:
                    break
        except Exception:  # a policy may raise the last error; it is in the outcome already
            if not tried:
                raise
        if cancelled is not None:
            raise cancelled
        return tried[-1], sum(each.called for each in tried)

    @staticmethod
    async def _tried_once(
        tool: Tool, call: _Call, call_id: str, tried: list[CallOutcome]
    ) -> asyncio.CancelledError | None:
        """Make one more call, and raise its failure if it may be repeated, since a policy acts on exceptions.

        A cancellation is returned, since a policy might take it for a failure and call again.
        """
        earlier = tried[-1] if tried else None
        try:
            made = await call(call_id=call_id, earlier=earlier)
        except asyncio.CancelledError as error:
            return error
        if made is not earlier:
            tried.append(made)
        if made.error is not None and may_repeat(tool, made, vouched=True):
            raise made.error.cause or TimeoutError(made.error.message)
        return None

    def _check(self, steps: Sequence[Step], given: Mapping[str, Any]) -> None:
        """Refuse decision points that show fields that cannot exist by then."""
        names = set(given)
        is_complete = True
        for step in steps:
            if isinstance(step, GuidedDecisionPoint):
                missing = [each for each in step.context_fields if each not in names]
                if missing and is_complete:
                    problem = f"context_fields names {', '.join(missing)}, which nothing before it gives"
                    raise ToolError(step.after_step, problem)
            tool = self.tools.get(step) if isinstance(step, str) else None
            outputs_of_tool: Mapping[str, Slot] = self._outputs(tool) if tool else {}
            is_complete = is_complete and bool(outputs_of_tool)  # one that does not tell its fields may give any
            names.update(outputs_of_tool)


def _outputs_by_name(tool: Tool) -> Mapping[str, Slot]:
    return {each.name: each for each in outputs(tool)}


def _list_names(candidates: Sequence[ToolCandidate]) -> str:
    return ", ".join(each.name for each in candidates)


def _join_texts(*texts: str) -> str:
    return "; ".join(text for text in texts if text)
