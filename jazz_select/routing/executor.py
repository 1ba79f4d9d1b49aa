"""Running a flow of tools: what is certain runs, what is a choice is asked, what is open is handed back."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from time import perf_counter
from typing import Any, Protocol, cast

from tenacity import AsyncRetrying

from jazz_select.errors import ConfigError, DecisionCallbackError, FlowValidationError, ToolError
from jazz_select.json_values import plain, storable
from jazz_select.ports import ClaimStore
from jazz_select.routing.decisions.analyzer import MIN_COMPATIBILITY, ChainAnalyzer
from jazz_select.routing.decisions.points import DecisionCallback, GuidedDecisionPoint, ToolCandidate, decision_prompt
from jazz_select.routing.records import RunResult, StepRecord, note_step
from jazz_select.routing.run_context import RunContext, arguments_of
from jazz_select.routing.schemas.compatibility import inputs, outputs
from jazz_select.routing.tool_call import (
    Answer,
    ApprovalPolicy,
    Approve,
    CallOutcome,
    answered,
    call_tool,
    engine_approver,
    may_repeat,
)
from jazz_select.routing.tools.sources import ToolsLike
from jazz_select.routing.tools.tool import Tool
from jazz_select.telemetry import span
from jazz_select.text import describe_error
from jazz_select.threads import called_within
from jazz_select.values import Tier

OpenRouter = Callable[[dict[str, Any], list[ToolCandidate]], "Awaitable[str | None] | str | None"]
"""Chooses among all tools where nothing narrows them; None leaves it to the caller of the run."""


class Choose:
    """A step that is left open on purpose: whatever fits what is there then."""


CHOOSE = Choose()
Step = str | GuidedDecisionPoint | Choose


@dataclass(frozen=True, slots=True)
class _Doorkeeper:
    """Who lets the calls of one run pass, and names them."""

    approve: Approve | None
    call_id: Callable[[str], str]


def _unnamed(_: str) -> str:
    return ""


class FlowExecutor:
    """Runs flows of tools. One executor may run many at once."""

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
    ) -> None:
        """Put an executor together.

        Args:
            tools: What there is: tools and functions, or what `load_tools` returns.
            decision_callback: Who chooses at guided points; without one they are open.
            open_router: Who chooses among all tools where nothing narrows them; without one the run is handed back.
            decision_timeout_s: How long a choice may take.
            step_timeout_s: How long a tool may take, each time.
            retry: When a tool that failed is called again, as a tenacity policy; never by default, since only its
                author knows whether calling it twice does it twice. A call that may have had its effect is not made
                again where the tool destroys something and does not say that it is `idempotent`.
            approval: What needs a yes where there is no `approve`: "destructive" lets steps that are named by their
                caller pass, and no tool that schemas alone leave; "always" lets nothing pass, "never" all of it.
            approve: Asked before each call of a tool is made, once however often it is tried, whatever the policy.
            claims: Where calls that destroy something are claimed before they are made, for runs that name their calls.
            max_candidates: The most that one who chooses is shown.
            min_compatibility: How well a tool must fit what is there to be shown.

        Raises:
            ConfigError: There is no such policy.
            DuplicateToolError: Two tools have one name.
        """
        self._approve = engine_approver(approval, approve)
        self._analyzer = ChainAnalyzer(tools)
        self._tools = self._analyzer.toolbox
        self._callback = decision_callback
        self._open_router = open_router
        self._decision_timeout_s = decision_timeout_s
        self._step_timeout_s = step_timeout_s
        self._retry = retry
        self._claims = claims
        self._max_candidates = max_candidates
        self._min_compatibility = min_compatibility

    @property
    def tools(self) -> Mapping[str, Tool]:
        """What there is, by name."""
        return self._tools

    async def run(  # noqa: PLR0913 - options with a name
        self,
        steps: Sequence[Step],
        inputs: Mapping[str, Any] | None = None,
        *,
        after: str = "",
        fixed: Collection[str] | None = None,
        lost: Sequence[str] = (),
        approve: Approve | None = None,
        call_id: Callable[[str], str] | None = None,
    ) -> RunResult:
        """Run the steps in order.

        Args:
            steps: Names of tools, decision points, and `CHOOSE` where the executor is to find out what fits.
            inputs: What is there at the beginning.
            after: The tool that ran before them, where they are the rest of a flow: it does not follow itself.
            fixed: Names of inputs that no output takes the place of; all of them where None.
            lost: What was there before them and could not be kept, by name: a tool that destroys something and takes
                one of these fails rather than run without it.
            approve: Who is asked in this run, instead of who else would be.
            call_id: Names the next call of this tool, the same in every run that may be this one once more; else each
                call is new.

        Returns:
            How it ended. Errors of tools and of those who choose are data.

        Raises:
            ToolError: A decision point shows a field of the context that nothing before it gives.
        """
        self._check(steps, inputs or {})
        run = RunContext(dict(inputs or {}), last_tool=after, fixed=fixed, lost=lost)
        return await self._passed(run, steps, _Doorkeeper(approve or self._approve, call_id or _unnamed))

    async def resume(self, result: RunResult, answer: Answer) -> RunResult:
        """Go on with a run that ended since a call has to be approved first.

        Args:
            result: The run as it ended.
            answer: `Allow()`, and the call is made, once and just as it was asked about, by the id that it was asked
                about with; or `Deny(reason)`, and the run fails there.

        Returns:
            The whole run, with the records of what was done before.

        Raises:
            ConfigError: The run does not wait for an answer, or this is none.
        """
        asked = result.asked
        if asked is None:
            msg = "this run does not wait for an answer: its `asked` is None"
            raise ConfigError(msg)
        ids = [asked.id]
        keeper = _Doorkeeper(
            answered([asked], answer, self._approve), lambda tool: ids.pop() if ids and tool == asked.tool else ""
        )
        done = result.records[:-1]
        run = RunContext(dict(result.context), last_tool=done[-1].tool if done else "", fixed=result.fixed)
        run.records += done
        return await self._passed(run, result.rest, keeper)

    async def _passed(self, run: RunContext, steps: Sequence[Step], keeper: "_Doorkeeper") -> RunResult:
        """Pass these steps, as far as that goes."""
        for place, step in enumerate(steps):
            with span("step", "decision") as traced:
                ended = await self._step(run, step, keeper)
                if traced is not None:
                    note_step(traced, run.records[-1])
            if ended is not None and run.asked is not None:
                return replace(
                    ended, asked=run.asked, rest=(run.asked.tool, *steps[place + 1 :]), fixed=frozenset(run.fixed)
                )
            if ended is not None:
                return ended
        return run.ended("ok")

    async def _step(self, run: RunContext, step: Step, keeper: "_Doorkeeper") -> RunResult | None:
        """One step; a result where the run ends with it."""
        began = perf_counter()
        chosen = await self._chosen(run, step)
        if chosen.status == "open":
            chosen = await self._opened(run, chosen)
        if chosen.status != "ok":
            run.records.append(replace(chosen, duration_s=perf_counter() - began))
            pending = self._all() if chosen.status == "open" else ()
            return run.ended(chosen.status, pending=tuple(pending))
        record = await self._called(run, chosen, keeper)
        run.records.append(replace(record, duration_s=perf_counter() - began))
        return None if record.status == "ok" else run.ended("failed")

    async def _chosen(self, run: RunContext, step: Step) -> StepRecord:
        """Which tool comes now, and how free that was."""
        number = len(run.records) + 1
        if isinstance(step, str):
            known = step in self._tools
            return StepRecord(
                step=number,
                tool=step if known else "",
                tier=Tier.DETERMINISTIC if known else Tier.OPEN,
                reason="planned" if known else "unknown",
                status="ok" if known else "open",
                error="" if known else f"there is no tool {step!r}",
            )
        point = step if isinstance(step, GuidedDecisionPoint) else None
        candidates = self._candidates(run, point)
        if not candidates:
            return StepRecord(step=number, tool="", tier=Tier.OPEN, reason="none", status="open")
        # That only one fits is a finding of schemas, nobody's word: it is not enough to destroy something.
        destroys = any(self._tools[each.name].destructive for each in candidates)
        if len(candidates) == 1 and not destroys:
            return StepRecord(
                step=number,
                tool=candidates[0].name,
                tier=Tier.DETERMINISTIC,
                reason="single",
                candidates=tuple(candidates),
            )
        return await self._guided(run, point, candidates, number)

    async def _guided(
        self, run: RunContext, point: GuidedDecisionPoint | None, candidates: list[ToolCandidate], number: int
    ) -> StepRecord:
        record = StepRecord(
            step=number, tool="", tier=Tier.GUIDED, reason="callback", candidates=tuple(candidates), status="ok"
        )
        if self._callback is None:
            return replace(record, tier=Tier.OPEN, reason="no_callback", status="open")
        prompt = point.decision_prompt if point else None
        if prompt is None:
            prompt = decision_prompt(run.last_tool, run.last_fields(self._tools), candidates)
        try:
            asked = (self._callback.decide, run.shown(point), candidates, prompt)
            choice = await called_within(*asked, limit_s=self._decision_timeout_s, name="jazz-select-decision")
            if choice is None or (isinstance(choice, str) and choice.strip().casefold() in ("", "none")):
                return replace(record, tier=Tier.OPEN, reason="none", status="open")
            if choice not in {each.name for each in candidates}:
                return self._fallen(record, point, run, LookupError(f"{choice!r:.80} was not among the candidates"))
        except Exception as error:  # noqa: BLE001 - whatever one who chooses fails with
            return self._fallen(record, point, run, error)
        return replace(record, tool=choice)

    def _fallen(
        self, record: StepRecord, point: GuidedDecisionPoint | None, run: RunContext, error: Exception
    ) -> StepRecord:
        """The choice failed: the fallback, or a failed step."""
        failure = DecisionCallbackError(run.last_tool or "the input", describe_error(error))
        failure.__cause__ = error
        fallback = point.fallback_tool if point else None
        if fallback is not None and fallback in self._tools:
            return replace(record, tool=fallback, reason="fallback", error=str(failure), cause=failure)
        return replace(record, status="failed", error=str(failure), cause=failure)

    async def _opened(self, run: RunContext, record: StepRecord) -> StepRecord:
        """Nothing narrows the choice: whoever routes among all tools may go on."""
        if self._open_router is None:
            return record
        try:
            asked = (self._open_router, dict(run.context), self._all())
            choice = await called_within(*asked, limit_s=self._decision_timeout_s, name="jazz-select-decision")
        except Exception as error:  # noqa: BLE001 - whatever a router fails with
            return replace(record, error=f"open_router failed: {describe_error(error)}", cause=error)
        if not isinstance(choice, str) or choice not in self._tools:
            return record
        return replace(record, tool=choice, reason="open_router", status="ok")

    def _candidates(self, run: RunContext, point: GuidedDecisionPoint | None) -> list[ToolCandidate]:
        """Those that fit what is there: among the named ones, or among all."""
        found = self._analyzer.candidates(
            run.fields,
            without=run.last_tool,
            max_candidates=len(self._tools),
            min_compatibility=0.0 if point else self._min_compatibility,
        )
        if point is None:
            return found[: self._max_candidates]
        fitting = {each.name: each for each in found}
        for name in point.candidate_tools:
            if name in self._tools and name != run.last_tool and not inputs(self._tools[name]):
                fitting.setdefault(name, ToolCandidate(name=name, description=self._tools[name].description))
        return [fitting[name] for name in point.candidate_tools if name in fitting][: self._max_candidates]

    def _all(self) -> list[ToolCandidate]:
        return [ToolCandidate(name=name, description=tool.description) for name, tool in self._tools.items()]

    async def _called(self, run: RunContext, record: StepRecord, keeper: "_Doorkeeper") -> StepRecord:
        tool = self._tools[record.tool]
        arguments, missing = arguments_of(tool, run.context)
        if missing:
            told = f"{tool.name} wants {', '.join(missing)}, and nothing before it gave that"
            return replace(
                record, status="failed", error=_joined(record.error, told), fault="arguments", missing=tuple(missing)
            )
        lost = run.lost_inputs(tool, arguments) if tool.destructive else []
        if lost:
            told = f"{tool.name} is not run without {', '.join(lost)}, which was there and could not be kept"
            return replace(record, status="failed", error=_joined(record.error, told), fault="arguments")
        if tool.function is None:
            told = _joined(record.error, f"{tool.name} is only described")
            return replace(record, status="failed", error=told, fault="tool")
        record = replace(record, arguments={name: storable(plain(each)) for name, each in arguments.items()})
        made, attempts = await self._tried(tool, arguments, keeper)
        if made.status == "asked":
            run.asked = made.call
        if made.error is not None:
            return replace(
                record,
                status="failed",
                error=_joined(record.error, made.error.message),
                cause=record.cause or made.error.cause,
                attempts=attempts,
                fault=made.error.fault,
                unknown=made.error.unknown,
            )
        run.keep(tool, made.output)
        return replace(record, output=made.output, attempts=attempts)

    async def _tried(self, tool: Tool, arguments: Mapping[str, Any], keeper: "_Doorkeeper") -> tuple[CallOutcome, int]:
        """Call it, again as the policy says; what became of the last call, and how many there were."""
        if self._retry is None:
            made = await self._once(tool, arguments, keeper)
            return made, int(made.called)
        tried: list[CallOutcome] = []
        cancelled: asyncio.CancelledError | None = None
        try:
            async for attempt in self._retry.copy():
                with attempt:
                    cancelled = await self._tried_once(tool, arguments, keeper, tried)
                if cancelled is not None:
                    break
        except Exception:  # a policy may raise the last error; it is in the outcome already
            if not tried:
                raise
        if cancelled is not None:
            raise cancelled
        return tried[-1], sum(each.called for each in tried)

    async def _tried_once(
        self, tool: Tool, arguments: Mapping[str, Any], keeper: "_Doorkeeper", tried: list[CallOutcome]
    ) -> asyncio.CancelledError | None:
        """One more call, whose failure is raised where it may be made again: a policy goes by exceptions.

        A cancellation is a value here, since a policy might take it for a failure, and call again.
        """
        earlier = tried[-1] if tried else None
        try:
            made = await self._once(tool, arguments, keeper, earlier)
        except asyncio.CancelledError as error:
            return error
        if made is not earlier:
            tried.append(made)
        if made.error is not None and may_repeat(tool, made, vouched=True):
            raise made.error.cause or TimeoutError(made.error.message)
        return None

    async def _once(
        self, tool: Tool, arguments: Mapping[str, Any], keeper: "_Doorkeeper", earlier: CallOutcome | None = None
    ) -> CallOutcome:
        return await call_tool(
            tool,
            arguments,
            door="executor",
            timeout_s=self._step_timeout_s,
            approve=keeper.approve,
            call_id="" if earlier else keeper.call_id(tool.name),
            claims=self._claims,
            earlier=earlier,
            vouched=True,  # by whoever gave a policy
        )

    def _check(self, steps: Sequence[Step], given: Mapping[str, Any]) -> None:
        """A decision point may only show what is there by then, as far as that can be known."""
        there, certain = set(given), True
        for step in steps:
            if isinstance(step, GuidedDecisionPoint):
                missing = [each for each in step.context_fields if each not in there]
                if missing and certain:
                    problem = f"context_fields names {', '.join(missing)}, which nothing before it gives"
                    raise ToolError(step.after_step, problem)
            tool = self._tools.get(step) if isinstance(step, str) else None
            if tool is None or tool.output_schema is None:
                certain = False
            else:
                there |= {each.name for each in outputs(tool)}


def _joined(*texts: str) -> str:
    return "; ".join(text for text in texts if text)


class HasTools(Protocol):
    """A flow, as far as a chain needs it."""

    @property
    def label(self) -> str:
        """Its name, for messages."""
        ...

    @property
    def place(self) -> str:
        """Where it was defined, for messages."""
        ...

    @property
    def tools(self) -> Sequence[str]:
        """Names of the tools that its steps may call."""
        ...

    @property
    def chain(self) -> object:
        """What its author wrote, steps if it is right; none where the flow is open."""
        ...


def chain_of(flow: HasTools) -> tuple[Step, ...]:
    """The steps of a flow for an executor: its attribute `chain`, or none where its author gave it none.

    ```python
    class CancelOrder(BaseFlow):
        tools = ["lookup_order", "cancel_order", "release_payment"]
        chain = ("lookup_order", GuidedDecisionPoint(after_step="lookup_order", candidate_tools=[...]), ...)
    ```

    A step is the name of a tool, a `GuidedDecisionPoint` or a mapping of its fields, `CHOOSE` or that word, as a file
    has it. The tools after which points stand are among the flow's as well.

    Raises:
        FlowValidationError: An entry is no step, or names a tool that is not among the flow's `tools`.
    """
    given = flow.chain
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise _wrong(flow, f"it is a list of steps, not {given!r:.80}")
    steps = [_as_step(flow, step) for step in cast("Sequence[Any]", given)]
    for step in steps:
        names = [step] if isinstance(step, str) else _names(step)
        if names is None:
            raise _wrong(flow, f"a step is a tool's name, a GuidedDecisionPoint or CHOOSE, not {step!r:.80}")
        strange = [_meant(name, flow.tools) for name in dict.fromkeys(names) if name not in flow.tools]
        if strange:
            raise _wrong(flow, f"it names {', '.join(strange)}; add that to the flow's tools, or take it out")
    return tuple(steps)


def _as_step(flow: HasTools, step: Any) -> Any:
    """What a file can say of a step, as a step; a tool of that name goes before the word CHOOSE."""
    if isinstance(step, Mapping):
        try:
            return GuidedDecisionPoint(**cast("Mapping[str, Any]", step))
        except (TypeError, AttributeError, ToolError) as error:
            raise _wrong(flow, f"{describe_error(error)}, in {dict(cast('Mapping[str, Any]', step))!r:.200}") from error
    return CHOOSE if step == "CHOOSE" and step not in flow.tools else step


def _names(step: object) -> list[str] | None:
    if isinstance(step, GuidedDecisionPoint):
        return [step.after_step, *step.candidate_tools, *([step.fallback_tool] if step.fallback_tool else [])]
    return [] if isinstance(step, Choose) else None


def _meant(name: str, tools: Sequence[str]) -> str:
    near = get_close_matches(name, tools, n=1)
    return f"{name} (did you mean {near[0]!r}?)" if near else name


def _wrong(flow: HasTools, problem: str) -> FlowValidationError:
    return FlowValidationError(flow.label, "chain", problem, place=flow.place)
