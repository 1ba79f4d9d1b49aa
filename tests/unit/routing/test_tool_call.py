"""One call of one tool: whatever happens, it comes out the same at each of the three doors."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import pytest
from tenacity import AsyncRetrying, retry_if_not_exception_type, stop_after_attempt, wait_none

from jazz_select.agent.chain.prompts import ChainOptions
from jazz_select.agent.chain.tool_calls import ToolRunner
from jazz_select.agent.chain.transcript import Chain, Event, ToolCalled, ToolReturned
from jazz_select.errors import ToolOutcomeUnknownError
from jazz_select.routing import Allow, Ask, Deny, FlowExecutor, Plan, PlanStep, Tool, ToolCall, run_plan
from jazz_select.routing.approval import Approve
from jazz_select.routing.names.resolution import NameIndex
from jazz_select.routing.tool_call import CallOutcome, call_of, call_tool, made_once, may_repeat, stub_tools
from jazz_select.routing.tools.functions import tool_from_function
from jazz_select.telemetry import Trace
from jazz_select.testing import MemoryClaims
from jazz_select.threads import MOST_HUNG, Deadline, time_budget
from jazz_select.values import Claim

TWICE = AsyncRetrying(stop=stop_after_attempt(2), wait=wait_none())
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"value": {}}, "required": ["value"]}
Arguments = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What became of a call, as far as all doors tell it."""

    ok: bool
    output: Any = None
    fault: str = ""
    unknown: bool = False
    error: str = ""


async def by_executor(
    tool: Tool, arguments: Arguments, approve: Approve | None = None, timeout_s: float | None = 5
) -> Seen:
    executor = FlowExecutor([tool], step_timeout_s=timeout_s, approve=approve, retry=TWICE)
    record = (await executor.run([tool.name], arguments)).records[0]
    return Seen(
        ok=record.status == "ok",
        output=record.output,
        fault=record.fault,
        unknown=record.unknown,
        error=record.error.replace(f"{tool.name} was not run", "not run"),
    )


async def by_plan(
    tool: Tool, arguments: Arguments, approve: Approve | None = None, timeout_s: float | None = 5
) -> Seen:
    steps = Plan.from_steps([PlanStep(tool=tool.name, arguments=arguments)])
    (step,) = (await run_plan(steps, [tool], timeout_s=timeout_s, approve=approve)).steps
    if step.error is None:
        return Seen(ok=step.status == "ok", output=step.output)
    error = step.error.message.replace(f"{tool.name} was not run", "not run")
    return Seen(ok=False, fault=step.error.fault, unknown=step.error.unknown, error=error)


async def by_chain(
    tool: Tool, arguments: Arguments, approve: Approve | None = None, timeout_s: float | None = 5
) -> Seen:
    runner = ToolRunner(index=NameIndex([tool]), options=ChainOptions(tool_timeout_s=timeout_s, approve=approve))
    ((request, result),) = await runner.run([PlanStep(tool=tool.name, arguments=arguments)], 1)
    chain = Chain(entries=(request, result))
    assert Chain.from_dict(chain.to_dict()) == chain
    return Seen(ok=result.ok, output=result.output, fault=result.fault, unknown=result.unknown, error=result.error)


Call = Callable[..., Awaitable[Seen]]
DOORS = {"executor": by_executor, "plan": by_plan, "chain": by_chain}
at_every_door = pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)


def made(function: Callable[..., object], *, destructive: bool = True, idempotent: bool = False) -> Tool:
    return Tool(name="t", input_schema=SCHEMA, function=function, destructive=destructive, idempotent=idempotent)


class Recorder:
    """A tool that remembers what it was called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, value: Any) -> str:
        self.calls.append(value)
        return "done"


# --- prepare -------------------------------------------------------------------


@at_every_door
@pytest.mark.parametrize("destructive", [False, True])
async def test_where_arguments_cannot_be_checked_nothing_is_called(
    door: Call, monkeypatch: pytest.MonkeyPatch, *, destructive: bool
) -> None:
    def invalid(*_: object, formats: bool) -> str:
        raise RecursionError

    monkeypatch.setattr("jazz_select.routing.tool_call.invalid", invalid)
    recorder = Recorder()
    tool = made(recorder, destructive=destructive)
    seen = await door(tool, {"value": 1})
    assert (seen.ok, seen.fault, recorder.calls) == (False, "arguments", [])
    assert "RecursionError" in seen.error


@at_every_door
async def test_what_cannot_be_copied_is_given_as_it_is_and_what_is_around_it_as_a_copy(door: Call) -> None:
    lock, kept = threading.Lock(), [1]
    given: dict[str, Any] = {"lock": lock, "items": kept}
    seen: list[dict[str, Any]] = []

    def spoil(value: dict[str, Any]) -> str:
        seen.append(dict(value))
        value["items"].append(2)
        value.clear()
        return "done"

    assert await door(made(spoil), {"value": given}) == Seen(ok=True, output="done")
    assert seen[0]["lock"] is lock
    assert (given, kept) == ({"lock": lock, "items": [1]}, [1])


async def test_a_value_that_holds_itself_and_what_cannot_be_copied_is_copied_around_it() -> None:
    given: dict[str, Any] = {"lock": threading.Lock()}
    given["itself"] = [given]
    tool = Recorder()
    assert (await by_executor(made(tool), {"value": given})).ok
    (copy,) = tool.calls
    assert copy is not given
    assert copy["itself"][0] is copy
    assert copy["lock"] is given["lock"]


@at_every_door
async def test_an_object_by_itself_is_given_as_it_is(door: Call) -> None:
    tool, client = Recorder(), threading.Lock()
    assert await door(made(tool), {"value": client}) == Seen(ok=True, output="done")
    assert tool.calls[0] is client


@pytest.mark.spec("004.13")
@at_every_door
async def test_arguments_that_are_not_valid_call_and_ask_nobody(door: Call) -> None:
    tool, asked = Recorder(), list[ToolCall]()

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        return Allow()

    schema = {**SCHEMA, "properties": {"value": {"type": "integer"}}}
    seen = await door(Tool(name="t", input_schema=schema, function=tool), {"value": "x"}, approve)
    error = "t: the arguments are not valid: value: 'x' is not of type 'integer'"
    assert seen == Seen(ok=False, fault="arguments", error=error)
    assert (tool.calls, asked) == ([], [])


@at_every_door
async def test_what_is_missing_or_only_described_is_told(door: Call) -> None:
    missing = await door(made(Recorder()), {})
    described = await door(Tool(name="t", input_schema=SCHEMA), {"value": 1})
    assert [(each.ok, each.fault, each.unknown) for each in (missing, described)] == [
        (False, "arguments", False),
        (False, "tool", False),
    ]


# --- approve -------------------------------------------------------------------


def crash(_: ToolCall) -> Allow:
    msg = "hook down"
    raise RuntimeError(msg)


async def later(_: ToolCall) -> Deny:
    await asyncio.sleep(0)
    return Deny("not on Sundays")


async def too_late(_: ToolCall) -> Allow:
    async with asyncio.timeout(0.01):
        await asyncio.Event().wait()
    return Allow()


def nonsense(_: ToolCall) -> Any:
    return True


HOOKS: list[tuple[Approve, str, str]] = [
    (lambda call: Deny("never"), "denied", "not run: never"),
    (lambda call: Deny(" "), "denied", "not run: it was denied"),
    (lambda call: Deny(cast("Any", None)), "denied", "not run: it was denied"),
    (lambda call: Ask(cast("Any", 3)), "asked", "not run: 3"),
    (later, "denied", "not run: not on Sundays"),
    (lambda call: Ask("it costs money"), "asked", "not run: it costs money"),
    (lambda call: Ask(), "asked", "not run: it has to be approved first"),
    (crash, "denied", "not run: approve failed: RuntimeError: hook down"),
    (too_late, "denied", "not run: approve failed: TimeoutError"),
    (nonsense, "denied", "not run: approve must return Allow, Deny or Ask, got bool"),
]


@at_every_door
@pytest.mark.parametrize(
    ("hook", "fault", "error"),
    HOOKS,
    ids=["denies", "blank", "no reason", "a number", "later", "asks", "asks plainly", "raises", "gives up", "nonsense"],
)
async def test_what_is_not_allowed_is_not_called(door: Call, hook: Approve, fault: str, error: str) -> None:
    tool = Recorder()
    seen = await door(made(tool), {"value": 1}, hook)
    assert (seen.ok, seen.fault, seen.unknown) == (False, fault, False)
    assert seen.error.startswith(error)
    assert tool.calls == []


@pytest.mark.parametrize(("name", "door"), DOORS.items(), ids=DOORS)
async def test_what_is_allowed_is_called_with_what_was_asked_for(name: str, door: Call) -> None:
    tool, asked = Recorder(), list[ToolCall]()

    def approve(call: ToolCall) -> Allow:
        asked.append(call)
        call.arguments["value"].clear()
        return Allow()

    with Trace() as trace:
        assert (await door(made(tool), {"value": [1]}, approve)).ok
    (told,) = [span.content["arguments"] for span in trace if span.kind == "tool"]
    assert told == {"value": [1]}
    (call,) = asked
    assert (call.tool, call.door, call.destructive, len(call.id)) == ("t", name, True, 32)
    assert tool.calls == [[1]]


@at_every_door
async def test_a_hook_that_hangs_is_ended_by_its_caller_and_nothing_is_called(door: Call) -> None:
    tool, asked = Recorder(), asyncio.Event()

    async def hang(_: ToolCall) -> Allow:
        asked.set()
        await asyncio.Event().wait()
        return Allow()

    run = asyncio.ensure_future(door(made(tool), {"value": 1}, hang))
    await asked.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert tool.calls == []


@pytest.mark.parametrize("spent", ["before it", "while the hook thinks"])
async def test_once_no_time_is_left_nobody_is_asked_and_nothing_is_claimed_or_called(spent: str) -> None:
    tool, claims, asked = Recorder(), MemoryClaims(), list[str]()
    with time_budget(60.0) as budget:

        async def hook(call: ToolCall) -> Allow:
            asked.append(call.id)
            budget.deadline = Deadline.after(0.0)
            return Allow()

        if spent == "before it":
            budget.deadline = Deadline.after(0.0)
        called = {"value": 1}
        found = await call_tool(
            made(tool), called, door="plan", timeout_s=5, approve=hook, call_id="one", claims=claims
        )
    assert found.error is not None
    assert (found.error.fault, found.called, tool.calls) == ("timeout", False, [])
    assert asked == ([] if spent == "before it" else ["one"])
    assert await claims.claim("one", "mine") is None, "nobody has claimed it"


async def test_in_a_chain_the_older_hook_goes_first_and_only_what_both_allow_is_told_as_called() -> None:
    heard: list[Event] = []
    verdicts = {1: Allow(), 2: Deny("no"), 3: Allow()}
    tool = Recorder()
    options = ChainOptions(
        before_call=lambda request: request.arguments["value"] != 3,
        approve=lambda call: verdicts[call.arguments["value"]],
        on_event=heard.append,
    )
    runner = ToolRunner(index=NameIndex([made(tool)]), options=options)
    results = await runner.run([PlanStep(tool="t", arguments={"value": each}) for each in (1, 2, 3)], 1)
    assert [(each.ok, each.error) for _, each in results] == [
        (True, ""),
        (False, "not run: no"),
        (False, "not run: the call was cancelled"),
    ]
    assert [type(each) for each in heard] == [ToolCalled, ToolReturned, ToolReturned, ToolReturned]
    assert tool.calls == [1]


# --- call ----------------------------------------------------------------------


def sleeps(value: float) -> str:
    threading.Event().wait(value)
    return "late"


async def hangs(value: object) -> None:
    await asyncio.Event().wait()


async def stubborn(value: object) -> str:
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()
    return "late"


@at_every_door
@pytest.mark.parametrize("function", [sleeps, hangs, stubborn], ids=["plain", "async", "answers late"])
async def test_a_tool_that_hangs_is_left_and_what_became_of_it_is_unknown(
    door: Call, function: Callable[..., object]
) -> None:
    seen = await door(made(function), {"value": 0.5}, None, 0.02)
    told = "t was started but did not end within 0.02 s: it may have been done"
    assert seen == Seen(ok=False, fault="timeout", unknown=True, error=told)


def leaves(value: int) -> None:
    raise SystemExit(value)


async def leaves_async(value: int) -> None:
    raise SystemExit(value)


async def cancels_itself(value: int) -> None:
    raise asyncio.CancelledError


@at_every_door
@pytest.mark.parametrize("function", [leaves, leaves_async], ids=["plain", "async"])
async def test_a_tool_that_exits_ends_itself_and_nobody_else(door: Call, function: Callable[..., object]) -> None:
    seen = await door(made(function), {"value": 3})
    assert seen == Seen(ok=False, fault="tool", error="t failed: RuntimeError: SystemExit: 3")


@at_every_door
async def test_a_tool_that_cancels_itself_may_have_had_its_effect(door: Call) -> None:
    seen = await door(made(cancels_itself), {"value": 3})
    assert (seen.fault, seen.unknown) == ("tool", True)


@at_every_door
async def test_a_cancelled_call_is_traced_as_unknown(door: Call) -> None:
    began = asyncio.Event()

    async def wait(value: int) -> None:
        began.set()
        await asyncio.Event().wait()

    with Trace() as trace:
        run = asyncio.ensure_future(door(made(wait), {"value": 1}))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    (span,) = [each for each in trace if each.kind == "tool"]
    assert (span.name, span.attributes["status"], span.error) == ("t", "unknown", "CancelledError")


# --- the id of a call ----------------------------------------------------------


@at_every_door
async def test_a_tool_gets_the_id_that_was_approved_and_no_model_is_told_of_it(door: Call) -> None:
    approved: list[str] = []

    def pay(value: int, call_id: str) -> str:
        return call_id

    def approve(call: ToolCall) -> Allow:
        approved.append(call.id)
        return Allow()

    tool = tool_from_function(pay)
    assert list(tool.input_schema["properties"]) == ["value"]
    first, second = [await door(tool, {"value": 1}, approve) for _ in range(2)]
    assert [first.output, second.output] == approved
    assert first.output != second.output


@at_every_door
async def test_an_input_of_that_name_is_the_tools_own(door: Call) -> None:
    def hang_up(value: int, call_id: str) -> str:
        return call_id

    schema = {"type": "object", "properties": {"value": {}, "call_id": {"type": "string"}}}
    tool = Tool(name="hang_up", input_schema=schema, function=hang_up)
    assert (await door(tool, {"value": 1, "call_id": "line 2"})).output == "line 2"


@pytest.mark.parametrize("idempotent", [False, True])
def test_a_tool_says_whether_it_may_be_called_twice(idempotent: bool) -> None:
    def pay(amount: int) -> None:
        """Pay."""

    assert tool_from_function(pay, idempotent=idempotent).idempotent == idempotent


async def test_an_id_may_be_given_and_stays_the_same_for_each_try() -> None:
    seen: list[str] = []

    def pay(value: int, *, call_id: str) -> None:
        seen.append(call_id)
        raise ConnectionError

    asked: list[str] = []

    def approve(call: ToolCall) -> Allow:
        asked.append(call.id)
        return Allow()

    tool = made(pay)
    given = await call_tool(tool, {"value": 1}, door="plan", timeout_s=5, call_id="order 7", approve=approve)
    again = await call_tool(tool, {"value": 1}, door="plan", timeout_s=5, earlier=given, approve=approve)
    assert (seen, again.call) == (["order 7"] * 2, given.call)
    await FlowExecutor([tool], retry=TWICE, approve=approve).run(["t"], {"value": 1})
    assert seen[2] == seen[3] != "order 7"
    assert asked == ["order 7", seen[2]]


# --- trying again --------------------------------------------------------------


async def raises(value: object) -> None:
    raise ConnectionError


def no_json(value: object) -> object:
    return object()


RETRIES = [
    pytest.param(raises, True, False, 2, id="a failure"),
    pytest.param(hangs, False, False, 2, id="unknown, destroys nothing"),
    pytest.param(hangs, True, False, 1, id="unknown, destroys"),
    pytest.param(hangs, True, True, 2, id="unknown, destroys and idempotent"),
    pytest.param(cancels_itself, True, False, 1, id="cancelled from within"),
    pytest.param(no_json, True, False, 1, id="done, destroys, returned what is no JSON"),
    pytest.param(no_json, False, False, 2, id="done, destroys nothing, returned what is no JSON"),
]


@pytest.mark.parametrize(("function", "destructive", "idempotent", "calls"), RETRIES)
async def test_a_policy_repeats_no_call_that_may_have_destroyed_something(
    function: Callable[..., object], destructive: bool, idempotent: bool, calls: int
) -> None:
    tool = made(function, destructive=destructive, idempotent=idempotent)
    (record,) = (await FlowExecutor([tool], step_timeout_s=0.02, retry=TWICE).run(["t"], {"value": 1})).records
    assert (record.status, record.attempts) == ("failed", calls)


@pytest.mark.parametrize("name", ["plan", "chain"])
async def test_nobody_else_tries_again(name: str) -> None:
    calls: list[int] = []

    async def wait(value: int) -> None:
        calls.append(value)
        await asyncio.Event().wait()

    await DOORS[name](made(wait, idempotent=True), {"value": 1}, None, 0.02)
    assert calls == [1]


@pytest.mark.parametrize(
    ("destructive", "idempotent", "vouched", "again"),
    [
        (False, False, False, False),
        (False, False, True, True),
        (True, False, True, False),
        (True, True, False, True),
    ],
    ids=["nobody vouches", "vouched for", "destroys", "idempotent"],
)
async def test_the_core_itself_refuses_to_repeat_what_is_unknown(
    destructive: bool, idempotent: bool, vouched: bool, again: bool
) -> None:
    calls: list[int] = []

    async def wait(value: int) -> None:
        calls.append(value)
        await asyncio.Event().wait()

    tool = made(wait, destructive=destructive, idempotent=idempotent)
    first = await call_tool(tool, {"value": 1}, door="plan", timeout_s=0.02)
    assert (first.status, may_repeat(tool, first, vouched=vouched)) == ("unknown", again)
    second = await call_tool(tool, {"value": 1}, door="plan", timeout_s=0.02, earlier=first, vouched=vouched)
    assert (second is not first, len(calls)) == (again, 1 + again)


async def test_what_is_done_or_was_not_called_is_not_tried_again() -> None:
    tool = made(Recorder(), idempotent=True)
    done = await call_tool(tool, {"value": 1}, door="plan", timeout_s=5)
    denied = await call_tool(tool, {"value": 1}, door="plan", timeout_s=5, approve=lambda call: Deny("no"))
    asked = await call_tool(tool, {"value": 1}, door="plan", timeout_s=5, approve=lambda call: Ask())
    wrong = await call_tool(tool, {}, door="plan", timeout_s=5)
    every: list[CallOutcome] = [done, denied, asked, wrong]
    assert [each.status for each in every] == ["ok", "denied", "asked", "failed"]
    assert [may_repeat(tool, each, vouched=True) for each in every] == [False] * 4
    assert wrong.missing == ("value",)


async def test_a_cancelled_call_is_not_tried_again_whatever_the_policy_takes_for_a_failure() -> None:
    calls: list[int] = []
    began = asyncio.Event()

    async def wait(value: int) -> None:
        calls.append(value)
        began.set()
        await asyncio.Event().wait()

    policy = AsyncRetrying(stop=stop_after_attempt(3), wait=wait_none(), retry=retry_if_not_exception_type(ValueError))
    run = asyncio.ensure_future(FlowExecutor([made(wait)], retry=policy).run(["t"], {"value": 1}))
    await began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert calls == [1]


# --- a call that somebody else makes, once -----------------------------------------


async def once(claims: MemoryClaims, make: Callable[[], Awaitable[Any]]) -> CallOutcome:
    """What becomes of the one call of a tool that destroys, when this is how it is made."""
    tool = made(hangs)
    return await made_once(tool, await call_of(tool, {"value": 1}, door="chain", call_id="c-1"), make, claims)


async def test_who_comes_second_hears_what_the_first_one_heard() -> None:
    async def gives() -> str:
        return "paid"

    claims = MemoryClaims()
    first, second = await once(claims, gives), await once(claims, raises_too_late)
    assert (first.status, first.output, first.called, first.replayed) == ("ok", "paid", True, False)
    assert (second.status, second.output, second.called, second.replayed) == ("ok", "paid", True, True)


async def raises_too_late() -> None:
    raise AssertionError("it was called twice")


async def test_what_was_raised_is_raised_and_kept() -> None:
    async def fails() -> None:
        raise LookupError("no such order")

    claims = MemoryClaims()
    with pytest.raises(LookupError):
        await once(claims, fails)
    second = await once(claims, raises_too_late)
    assert second.error is not None
    assert (second.error.fault, second.error.message) == ("tool", "t failed: LookupError: no such order")
    assert (second.called, second.replayed, second.error.unknown) == (True, True, False)


@pytest.mark.parametrize("settled", [None, "no JSON", "{}", '{"ok": false}'])
async def test_what_nobody_can_read_may_have_been_done(settled: str | None) -> None:
    claims = MemoryClaims()
    call = await call_of(made(hangs), {"value": 1}, door="chain", call_id="c-1")
    claims.claims["c-1"] = Claim(fingerprint=call.identity, outcome=settled)
    outcome = await once(claims, raises_too_late)
    assert outcome.error is not None
    assert (outcome.error.fault, outcome.error.unknown, outcome.replayed) == ("claim", True, True)


async def test_an_error_has_its_kind_and_its_cause() -> None:
    cause = ToolOutcomeUnknownError("pay", "the line is dead")

    async def unheard(value: object) -> None:
        raise cause

    outcome = await call_tool(made(unheard), {"value": 1}, door="chain", timeout_s=5)
    assert outcome.error is not None
    assert (outcome.error.fault, outcome.error.unknown, outcome.error.cause) == ("tool", True, cause)


async def test_who_is_asked_sees_the_title_of_the_tool() -> None:
    asked: list[str] = []

    def deny(call: ToolCall) -> Deny:
        asked.append(call.title)
        return Deny("no")

    tool = Tool(name="t", title="Pay it back", input_schema=SCHEMA, function=hangs, destructive=True)
    await call_tool(tool, {"value": 1}, door="chain", timeout_s=5, approve=deny)
    assert asked == ["Pay it back"]


async def test_a_store_of_claims_that_fails_leaves_the_tool_alone() -> None:
    class Broken(MemoryClaims):
        async def claim(self, call_id: str, fingerprint: str) -> Claim | None:
            raise OSError(call_id + " cannot be written")

    outcome = await call_tool(made(hangs), {"value": 1}, door="chain", timeout_s=5, call_id="c-1", claims=Broken())
    assert outcome.error is not None
    assert (outcome.error.fault, outcome.called) == ("claim", False)
    assert "OSError: c-1 cannot be written" in outcome.error.message


async def test_whoever_makes_a_failed_call_again_hears_how_it_failed() -> None:
    def fails(value: int) -> None:
        raise LookupError("no such order")

    claims, outcomes = MemoryClaims(), list[CallOutcome]()
    for _ in range(2):
        outcomes.append(
            await call_tool(made(fails), {"value": 1}, door="chain", timeout_s=5, call_id="c-1", claims=claims)
        )
    first, second = ((each.error.fault, each.error.message) if each.error else None for each in outcomes)
    assert first == second == ("tool", "t failed: LookupError: no such order")
    assert [each.replayed for each in outcomes] == [False, True]


async def test_a_call_that_failed_is_traced_with_its_fault_and_what_was_said() -> None:
    def fails(value: int) -> None:
        raise LookupError("no such order")

    with Trace(redact=lambda name, content: content) as trace:
        await call_tool(made(fails), {"value": 1}, door="chain", timeout_s=5)
    (span,) = [each for each in trace if each.kind == "tool"]
    assert (span.attributes["status"], span.error) == ("failed", "tool")
    assert "no such order" in str(span.content["error"])


async def test_a_tool_that_hangs_too_often_is_not_called() -> None:
    release = threading.Event()

    def stuck(value: int) -> None:
        release.wait()

    tool = made(stuck)
    try:
        for _ in range(MOST_HUNG):
            left = await call_tool(tool, {"value": 1}, door="chain", timeout_s=0.01)
            assert left.status == "unknown"
        refused = await call_tool(tool, {"value": 1}, door="chain", timeout_s=5)
    finally:
        release.set()
    assert refused.error is not None
    assert (refused.status, refused.called, refused.error.fault) == ("failed", False, "tool")
    assert refused.error.message.startswith(f"t was not run: {MOST_HUNG} earlier calls of it hang")


async def test_what_returned_too_much_was_called() -> None:
    def much(value: int) -> list[int]:
        return [value] * 3_000_000

    outcome = await call_tool(made(much), {"value": 1}, door="chain", timeout_s=60)
    assert outcome.error is not None
    assert (outcome.error.fault, outcome.called) == ("output", True)


async def test_a_stub_stands_for_a_tool_inside_and_only_there() -> None:
    def real(value: int) -> str:
        return f"real {value}"

    def stub(value: int) -> str:
        return f"stub {value}"

    with stub_tools({"t": stub}):
        inside = await call_tool(made(real), {"value": 1}, door="chain", timeout_s=5)
    outside = await call_tool(made(real), {"value": 1}, door="chain", timeout_s=5)
    assert (inside.output, outside.output) == ("stub 1", "real 1")
