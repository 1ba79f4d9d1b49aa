"""One call of one tool, the same at every door: prepared, approved, called within a time limit, recorded.

Whatever goes wrong is data; only a cancellation of the caller passes. Nobody else calls a tool's function.
The policy of approval has one name and the same three values at every door.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, cast
from uuid import uuid4

from jazz_select.arguments import takes
from jazz_select.errors import (
    CannotDo,
    HungError,
    ToolAnswerError,
    ToolArgumentsError,
    ToolError,
    ToolOutcomeUnknownError,
)
from jazz_select.json_values import as_json, canonical_bytes, has_fields, is_array, too_much
from jazz_select.ports import ClaimStore
from jazz_select.routing.approval import Allow, Approve, Deny, verdict_of
from jazz_select.routing.records import CallSource, Fault, StepError, ToolCall
from jazz_select.routing.schemas.fields import fields, mapping
from jazz_select.routing.schemas.nulls import without_nulls
from jazz_select.routing.schemas.places import part_at
from jazz_select.routing.schemas.validity import invalid
from jazz_select.routing.tools.context_inputs import describe_dropped, filled_arguments, without_filled
from jazz_select.routing.tools.tool import CALL_ID, Tool
from jazz_select.telemetry import span
from jazz_select.text import as_text, beginning, describe_error, whole_characters
from jazz_select.threads import (
    MOST_RUNNING,
    Threaded,
    in_daemon_thread,
    is_async,
    run_unbounded,
    run_with_timeout,
    set_in,
    spent_budget,
    wait_or_abandon,
)
from jazz_select.values import Claim

_CONFIRM_S: Final = 5.0
"""How long a tool's `confirm` may take."""
_ELSEWHERE: Final = frozenset(("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if"))
_SHARED: Final = frozenset(("$defs", "definitions", "$schema", "$id", "id"))
"""What one input's schema may need of the whole."""
_LARGE: Final = 20_000
"""Characters of a schema from which on reading it takes longer than a loop should wait."""
_log = logging.getLogger(__name__)
CallStatus = Literal["ok", "failed", "refused", "denied", "asked", "unknown"]
"""What became of a call. `denied` and `asked` were not made; one that is `refused` cannot be done (`CannotDo`), and
changed nothing; of one that is `unknown` nobody knows whether it was made."""
_LONGEST_REFUSAL: Final = 2_000
"""The most characters of a refusal's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The outcome of a call.

    Attributes:
        call: The call.
        status: `ok`, `failed`, `refused` if it cannot be done (`CannotDo`), `denied`, `asked`, or `unknown` if it began
            and its end is unknown.
        output: The result, as JSON values.
        error: Why there is no output.
        reason: Why it was denied or needs approval.
        missing: The required inputs that were not given.
        called: Whether the tool was called, now or before.
        replayed: Whether this is the outcome of an earlier call with this id, which was not repeated.
        dropped: The arguments that were given and not taken, since only the caller's context may give them.
    """

    call: ToolCall
    status: CallStatus
    output: Any = None
    error: StepError | None = None
    reason: str = ""
    missing: tuple[str, ...] = ()
    called: bool = False
    replayed: bool = False
    dropped: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done otherwise than it was asked for."""
        if not self.dropped:
            return ()
        return (describe_dropped(self.call.tool, self.dropped),)


async def call_tool(  # noqa: PLR0913 - options with a name
    tool: Tool,
    arguments: Mapping[str, Any],
    *,
    door: CallSource,
    timeout_s: float | None,
    approve: Approve | None = None,
    call_id: str = "",
    claims: ClaimStore | None = None,
    earlier: CallOutcome | None = None,
    vouched: bool = False,
) -> CallOutcome:
    """Call a tool once, if that is allowed.

    A plain function runs in a thread and blocks nobody. It cannot be stopped: after the time limit its result is
    discarded. Once several of its calls hang like that, no further one is started.

    A destructive call is claimed by its id before it is made, if there is a store of claims: a second caller, in any
    process, gets the outcome of the first, or learns that it is unknown.

    Args:
        tool: The tool, bound to the caller's context (`bind_context`), which fills what no model may give.
        arguments: By name, with references replaced. The tool gets copies, except of what cannot be copied.
        door: The caller.
        timeout_s: Time limit of the tool; None for no limit.
        approve: Asked before the call; without it every call is allowed.
        call_id: Id of the call, the same whenever it is repeated; by default a new id.
        claims: Store of claims. If it fails, nothing is called.
        earlier: Outcome of an earlier attempt. The call keeps its id and its approval; if it may not be repeated (see
            `may_repeat`), `earlier` is returned.
        vouched: Whether the caller says that a tool that is not destructive may be called twice.

    Raises:
        CancelledError: The caller was cancelled; so was the tool.
    """
    if earlier is not None:
        if not may_repeat(tool, earlier, vouched=vouched):
            return earlier
        made = _refuse_without_time(earlier.call) or await _run_tool(tool, earlier.call, timeout_s, claims)
        return replace(made, dropped=earlier.dropped)
    filled = filled_arguments(tool, arguments)
    call, refusal = await _call_with(tool, filled.arguments, door=door, call_id=call_id, known=bool(approve or claims))
    own = copy_arguments(call.arguments)  # whoever is asked may keep and change what it is shown
    # The order matters: nobody is asked about a call that cannot be made, and nothing is claimed without a yes.
    outcome = _refuse_without_time(call) or await _refuse_unprepared(tool, call)
    if outcome is None and refusal is not None:
        outcome = _refused_outcome(call, refusal)
    if outcome is None:
        outcome = await _refuse_unapproved(approve, call) or _refuse_without_time(call)
    if approve is not None:
        call = replace(call, arguments=own)
    if outcome is None:
        outcome = await _claim_call(claims, tool, call) or await _run_tool(tool, call, timeout_s, claims)
    return replace(outcome, dropped=filled.dropped) if filled.dropped else outcome


async def call_of(
    tool: Tool, arguments: Mapping[str, Any], *, door: CallSource, call_id: str = "", known: bool = True
) -> ToolCall:
    """Return a call with its own copies of the arguments, which are what runs and what is recorded.

    A null for an optional input that takes none is left out: models write it for "not given". What the tool's context
    fills is added.

    With `known`, it gets an identity, for approval or a claim.
    """
    filled = filled_arguments(tool, arguments)
    call, refusal = await _call_with(tool, filled.arguments, door=door, call_id=call_id, known=known)
    # It is not made yet, and may become possible until then; as long as it is refused, nobody can say yes to it.
    return call if refusal is None else replace(call, unshown=_cannot_text(refusal))


async def _call_with(
    tool: Tool, arguments: Mapping[str, Any], *, door: CallSource, call_id: str, known: bool
) -> tuple[ToolCall, CannotDo | None]:
    """Return a call whose arguments have what the context fills, and why the tool's `confirm` refuses it, if so."""
    inputs = tool.context_inputs
    call = ToolCall(
        id=call_id or uuid4().hex,
        tool=tool.name,
        arguments=without_nulls(tool.call_schema, copy_arguments(arguments)),
        filled=() if inputs is None else tuple(inputs.values),
        destructive=tool.destructive,
        door=door,
        title=tool.display_name,
    )
    if not known:
        return call, None
    refusal: CannotDo | None = None
    words = unshown = ""
    try:
        words, unshown = await _confirmed_in_words(tool, call)
    except CannotDo as error:
        refusal = error
    identity = identity_of(tool.digest, call.arguments, words)
    return replace(call, words=words, unshown=unshown, identity=identity), refusal


def identity_of(digest: str, arguments: Mapping[str, Any], words: str) -> str:
    """Return the identity of a call: of the tool with this digest, with these arguments, as its `confirm` words it."""
    return sha256(canonical_bytes([digest, arguments, words])).hexdigest()


async def _confirmed_in_words(tool: Tool, call: ToolCall) -> tuple[str, str]:
    """Return what a tool's `confirm` says of a call, and why it cannot be shown; a refusal passes."""
    if tool.confirm is None:
        return "", ""
    try:
        confirm = partial(tool.confirm, **copy_arguments(call.arguments))
        words = await run_with_timeout(confirm, limit_s=_CONFIRM_S, name="jazz-select-confirm")
    except CannotDo:
        raise
    except Exception as error:  # noqa: BLE001 - an author's own, which may fail with whatever arguments a model made up
        _log.warning("tool=<%s>, error=<%s> | its confirm failed", call.tool, describe_error(error))
        return "", f"the `confirm` of {call.tool} failed: {describe_error(error)}"
    if words is None or isinstance(words, str):
        return " ".join(as_text(words or "").split()), ""
    return "", f"the `confirm` of {call.tool} must return a text, got {type(words).__name__}"


async def made_once(tool: Tool, call: ToolCall, make: Callable[[], Awaitable[Any]], claims: ClaimStore) -> CallOutcome:
    """Make a call by `make` unless it was made before, and return its outcome; an error is kept, and raised."""
    earlier = await _claim_call(claims, tool, call)
    if earlier is not None:
        return earlier
    try:
        output = await make()
    except Exception as error:
        await _store_outcome(claims, _outcome_of_error(call, error))
        raise
    await _store_outcome(claims, _outcome_of_result(call, output))
    return CallOutcome(call=call, status="ok", output=output, called=True)


def may_repeat(tool: Tool, earlier: CallOutcome, *, vouched: bool = False) -> bool:
    """Tell whether a call without a result may be repeated.

    A call that raised may. One that had, or may have had, its effect may only if the tool is `idempotent`, or not
    destructive and vouched for by the caller. One that was refused would be refused again.
    """
    if earlier.error is None or not earlier.called or earlier.status == "refused":
        return False
    if earlier.status != "unknown" and earlier.error.fault != "output":
        return True
    return tool.idempotent or (vouched and not tool.destructive)


# --- prepare -------------------------------------------------------------------


def left_out(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the required inputs that the arguments lack, but for those that the context fills."""
    schema = tool.input_schema
    if schema.keys() & _ELSEWHERE:  # what is required may stand behind a reference
        names: list[object] = [name for name, (_, needed) in fields(schema).items() if needed]
    else:
        required = schema.get("required")
        names = required if is_array(required) else []
    return tuple(name for name in names if isinstance(name, str) and name not in arguments)


def copy_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return copies of the arguments, so that a tool changes nothing that is kept.

    Values that cannot be copied, such as a lock, stay as they are; so do objects that are no data, such as a client.
    Lone surrogates in texts become U+FFFD.
    """
    return {name: _copy(value, {}) if _is_data(value) else value for name, value in arguments.items()}


def _is_data(value: object) -> bool:
    return isinstance(value, str | dict | list | tuple | set | bytearray) or has_fields(value)


def _copy(value: Any, known: dict[int, Any]) -> Any:
    """Return a copy in which values that cannot be copied stay. `known` are the parts so far, for cycles."""
    if type(value) is str:
        return whole_characters(value)
    own = id(value)
    if own in known:
        return known[own]
    kind = cast("type[object]", type(value))
    try:
        if kind is dict:
            known[own] = {}
            known[own].update((key, _copy(each, known)) for key, each in value.items())
        elif kind is list:
            known[own] = []
            known[own].extend(_copy(each, known) for each in value)
        else:
            known[own] = deepcopy(value)
    except Exception:  # noqa: BLE001 - a lock, or nested too deep
        known[own] = value
    return known[own]


def _refuse_without_time(call: ToolCall) -> CallOutcome | None:
    budget = spent_budget()
    if budget is None:
        return None
    budget.stopped(f"before {call.tool} was started")
    problem = f"{call.tool} was not run: of {budget.limit} for the whole turn none were left"
    return _failed_outcome(call, "timeout", problem)


async def _refuse_unprepared(tool: Tool, call: ToolCall) -> CallOutcome | None:
    if tool.function is None:
        return _failed_outcome(call, "tool", f"{tool.name} is only described; connect it with a function that runs it")
    if tool.context_inputs is not None and tool.context_inputs.problem:
        return _failed_outcome(call, "arguments", f"{tool.name} was not run: {tool.context_inputs.problem}")
    hanging = Threaded.refused(tool.function, MOST_RUNNING)
    if hanging and not is_async(tool.function):
        return _failed_outcome(call, "tool", f"{tool.name} was not run: {hanging}")
    try:
        missing, problem = await _wrong_with(tool, call.arguments)
    except Exception as error:  # noqa: BLE001 - of schemas and arguments that others wrote, anything may be expected
        return _failed_outcome(call, "arguments", f"{tool.name}: {describe_error(error)}")
    if missing and not problem:
        problem = f"it needs {' and '.join(map(repr, missing))}"
    if not problem:
        return None
    return replace(_failed_outcome(call, "arguments", f"{tool.name}: {problem}"), missing=missing)


async def _wrong_with(tool: Tool, arguments: Mapping[str, Any]) -> tuple[tuple[str, ...], str]:
    """Return the missing arguments and what is wrong with the others; a large schema is read in a thread."""

    def find_problem() -> tuple[tuple[str, ...], str]:
        formats = not tool.converts
        of_context = _context_problem(tool)
        if of_context:
            return left_out(tool, arguments), of_context
        problem = invalid(tool.call_schema, arguments, formats=formats)
        inputs = tool.context_inputs
        if problem and inputs is not None and any(len(path) > 1 for path in inputs.paths.values()):
            # A problem may quote a whole object, and a model must not read there what the context filled.
            shown = without_filled(arguments, inputs.values)
            problem = invalid(inputs.shown, shown, formats=formats) or problem
        return left_out(tool, arguments), problem

    if too_much(tool.call_schema, _LARGE):
        return await in_daemon_thread(find_problem, name="jazz-select-schemas")
    return find_problem()


def _context_problem(tool: Tool) -> str:
    """Return why a value of the context does not fit its input, or ""; the caller can mend that, and no model."""
    inputs = tool.context_inputs
    if inputs is None:
        return ""
    for name, value in inputs.values.items():
        described = part_at(inputs.schema, inputs.paths[name])
        if described is not None:
            part = {key: each for key, each in inputs.schema.items() if key in _SHARED}
            part |= {"type": "object", "properties": {name: described}}
            problem = invalid(part, {name: value}, formats=not tool.converts)
            if problem:
                return f"{inputs.keys[name]!r} of the context does not fit its input {name!r}: {problem}"
    return ""


# --- approve -------------------------------------------------------------------


async def _refuse_unapproved(approve: Approve | None, call: ToolCall) -> CallOutcome | None:
    try:
        verdict = await verdict_of(approve, call)
    except CannotDo as error:
        return _refused_outcome(call, error)
    if isinstance(verdict, Allow):
        return None
    status: Literal["denied", "asked"] = "denied" if isinstance(verdict, Deny) else "asked"
    reason = as_text(verdict.reason or "")  # whoever is asked may give anything
    if not reason.strip():
        reason = "it was denied" if status == "denied" else "it has to be approved first"
    return replace(_failed_outcome(call, status, f"{call.tool} was not run: {reason}"), status=status, reason=reason)


# --- claim ---------------------------------------------------------------------


def fingerprint(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a digest of tool and arguments, whatever the order of the arguments."""
    return sha256(canonical_bytes([tool, arguments])).hexdigest()


def fingerprint_once(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return the fingerprint of a call that must not be repeated without approval, or an empty text."""
    once = tool.destructive and not tool.idempotent
    return fingerprint(tool.name, arguments) if once else ""


_CLAIM_S: Final = 15.0
"""Seconds that a store of claims may take."""
_CLAIMS: Final = "jazz-select-claims"


async def _claim(claims: ClaimStore, call: ToolCall) -> Claim | None:
    """Claim a call; return None if it is this caller's to make, else the earlier claim. The store's errors pass."""
    claiming = run_with_timeout(claims.claim, call.id, call.identity, limit_s=_CLAIM_S, name=_CLAIMS)
    return cast("Claim | None", await claiming)


async def _claim_call(claims: ClaimStore | None, tool: Tool, call: ToolCall) -> CallOutcome | None:
    """Return the outcome of a call that was claimed before, or None if it is this caller's to make."""
    if claims is None or not call.destructive:
        return None
    try:
        claim = await _claim(claims, call)
    except Exception as error:  # noqa: BLE001 - a full disk, a file that is locked, whatever a store fails with
        problem = f"{call.tool} was not run: it could not be claimed: {describe_error(error)}"
        return _failed_outcome(call, "claim", problem)
    if claim is None:
        return None
    if claim.fingerprint != call.identity:
        problem = f"{call.tool} was not run: in its place another call was made before, in another process"
        return _failed_outcome(call, "claim", problem)
    if claim.outcome is None and tool.idempotent:  # made twice, it has the effect of once
        return None
    return _replay_outcome(call, claim)


async def withdraw_claim(claims: ClaimStore, call: ToolCall) -> Literal["", "done", "unknown"]:
    """Claim a cancelled call, so that nobody makes it; return what became of it if it was started before.

    If the store fails, nobody else can claim the call either, so a failure is only logged.
    """
    try:
        claim = await _claim(claims, call)
    except Exception as error:  # noqa: BLE001 - whatever a store fails with
        _log.warning("tool=<%s>, error=<%s> | a call could not be withdrawn", call.tool, type(error).__name__)
        return ""
    if claim is None:
        await _store_outcome(claims, _failed_outcome(call, "denied", f"{call.tool} was not run: it was called off"))
        return ""
    became = _replay_outcome(call, claim)
    if became.error is not None and became.error.fault == "denied":
        return ""
    return "done" if became.status == "ok" else "unknown"


def _replay_outcome(call: ToolCall, claim: Claim) -> CallOutcome:
    problem = f"{call.tool} was started before, and its outcome is unknown: it may have been done"
    unknown = replace(_failed_outcome(call, "claim", problem, unknown=True), replayed=True)
    try:
        kept = json.loads(claim.outcome or "")
        if kept["ok"]:
            return CallOutcome(call=call, status="ok", output=kept["output"], called=True, replayed=True)
        if kept["fault"] == "cannot":
            return replace(_refused_outcome(call, CannotDo(str(kept["error"]))), called=True, replayed=True)
        # One that was called off in another process was not called: nothing of it is in doubt.
        called_before = kept["fault"] != "denied"
        return replace(_failed_outcome(call, kept["fault"], str(kept["error"])), called=called_before, replayed=True)
    except Exception:  # noqa: BLE001 - whatever stands there, it was settled
        return unknown


async def _store_outcome(claims: ClaimStore | None, outcome: CallOutcome) -> None:
    """Store the outcome of a claimed call; one with an unknown outcome stays claimed."""
    if claims is None or not outcome.call.destructive or outcome.status == "unknown":
        return
    kept: dict[str, Any] = {"ok": True, "output": outcome.output, "fault": "", "error": ""}
    error = outcome.error
    if error is not None:
        # Of a refusal its own words, which `_refused_outcome` wraps again when they are read.
        message = error.cause.message if isinstance(error.cause, CannotDo) else error.message
        kept |= {"ok": False, "fault": error.fault, "error": message}
    try:
        text = json.dumps(kept)
        await run_with_timeout(claims.settle, outcome.call.id, text, limit_s=_CLAIM_S, name=_CLAIMS)
    except Exception as failure:  # noqa: BLE001 - what was done is done, and is told
        kind = type(failure).__name__
        _log.warning("tool=<%s>, error=<%s> | what became of a call could not be kept", outcome.call.tool, kind)


# --- call and record -----------------------------------------------------------

_stubs: ContextVar[Mapping[str, Callable[..., object]]] = ContextVar("jazz_select_stubs", default={})  # noqa: B039 - nobody writes it


def stub_tools(functions: Mapping[str, Callable[..., object]]) -> AbstractContextManager[None]:
    """Call these functions in place of the tools of these names, within the block; for tests."""
    return set_in(_stubs, functions)


async def _run_tool(
    tool: Tool,
    call: ToolCall,
    timeout_s: float | None,
    claims: ClaimStore | None,
) -> CallOutcome:
    function = _stubs.get().get(tool.name) or cast("Callable[..., object]", tool.function)
    arguments = copy_arguments(call.arguments)
    if _wants_id(tool, function):
        arguments[CALL_ID] = call.id
    with span(tool.name, "tool") as traced:
        if traced is not None:
            traced.note({CALL_ID: call.id, "door": call.door, "status": "unknown"})
            traced.hold({"arguments": dict(call.arguments)})
        outcome = _of_context(tool, await _run_in_time(call, partial(function, **arguments), timeout_s))
        await _store_outcome(claims, outcome)
        if traced is not None:
            traced.note({"status": outcome.status})
            if outcome.error is None:
                traced.hold({"output": outcome.output})
            else:
                traced.hold({"error": outcome.error.message})
                if outcome.status != "refused":  # a refusal is an answer, and counts as no error
                    traced.error = outcome.error.fault
        return outcome


def _of_context(tool: Tool, outcome: CallOutcome) -> CallOutcome:
    """Name the keys of the context whose values a tool's own types refused."""
    error, inputs = outcome.error, tool.context_inputs
    if error is None or inputs is None or not isinstance(error.cause, ToolArgumentsError):
        return outcome
    refused: list[str] = []
    for name, key in inputs.keys.items():
        place = ".".join(inputs.paths[name])
        if name in error.cause.names or f"{place}:" in error.cause.problem:
            refused.append(key)
    if not refused:
        return outcome
    named = " and ".join(map(repr, refused))
    message = f"{error.message}; {named} of the context must be what the tool takes"
    return replace(outcome, error=replace(error, message=message))


def _wants_id(tool: Tool, function: Callable[..., object]) -> bool:
    return CALL_ID not in mapping(tool.call_schema.get("properties")) and takes(function, CALL_ID)


async def _run_in_time(call: ToolCall, function: Callable[[], object], timeout_s: float | None) -> CallOutcome:
    task = asyncio.ensure_future(_run_function(function))
    if not await wait_or_abandon(task, timeout_s, what=call.tool):
        return _failed_outcome(call, "timeout", _timeout_message(call, timeout_s), unknown=True)
    if task.cancelled():
        return _failed_outcome(call, "tool", f"{call.tool} was cancelled from within", unknown=True)
    error = task.exception()
    if error is not None:
        return _outcome_of_error(call, error)
    return _outcome_of_result(call, task.result())


def _outcome_of_error(call: ToolCall, error: BaseException) -> CallOutcome:
    if isinstance(error, CannotDo):
        return replace(_refused_outcome(call, error), called=True)
    if isinstance(error, HungError):
        return _failed_outcome(call, "tool", f"{call.tool} was not run: {error.problem}", cause=error)
    if isinstance(error, ToolArgumentsError):
        return _failed_outcome(call, "arguments", f"{call.tool}: {error.problem}", cause=error)
    if isinstance(error, ToolOutcomeUnknownError):
        return _failed_outcome(call, "tool", f"{call.tool}: {error.problem}", cause=error, unknown=True)
    problem = describe_error(error)
    if isinstance(error, ToolAnswerError):
        problem = error.answer
    elif type(error) is ToolError:  # raised by whoever calls for the tool, before it did
        problem = error.problem
    return replace(_failed_outcome(call, "tool", f"{call.tool} failed: {problem}", cause=error), called=True)


def _outcome_of_result(call: ToolCall, result: object) -> CallOutcome:
    try:
        large = too_much(result)
        if large:
            problem = f"{call.tool}: it ran, but returned {large}; let it return fewer, or page by page"
            return replace(_failed_outcome(call, "output", problem), called=True)
        return CallOutcome(call=call, status="ok", output=as_json(result), called=True)
    except Exception as problem:  # noqa: BLE001 - whatever a value trips over, it is no JSON
        message = f"{call.tool}: it ran, but returned what is no JSON: {describe_error(problem)}"
        return replace(_failed_outcome(call, "output", message, cause=problem), called=True)


def _timeout_message(call: ToolCall, timeout_s: float | None) -> str:
    budget = spent_budget()
    limit = f"{timeout_s or 0.0:g} s" if budget is None else budget.limit
    return f"{call.tool} was started but did not end within {limit}: it may have been done"


async def _run_function(function: Callable[[], object]) -> object:
    try:
        return await run_unbounded(function, name="jazz-select-tool", most_running=MOST_RUNNING)
    except SystemExit as left:  # it would end the event loop, and everything else that runs in it
        raise RuntimeError(describe_error(left)) from left


def _refused_outcome(call: ToolCall, refusal: CannotDo) -> CallOutcome:
    """Return the outcome of a call that was refused; its cause has the words for the user."""
    words = CannotDo(as_text(beginning(refusal.message.strip(), _LONGEST_REFUSAL)))
    error = StepError(fault="cannot", message=_cannot_text(words), cause=words)
    return CallOutcome(call=call, status="refused", error=error)


def _cannot_text(refusal: CannotDo) -> str:
    """Return a refusal as text for a model."""
    return f"cannot be done: {refusal.message or 'a precondition does not hold'}"


def _failed_outcome(
    call: ToolCall, fault: Fault, message: str, *, cause: BaseException | None = None, unknown: bool = False
) -> CallOutcome:
    error = StepError(fault=fault, message=message, cause=cause, unknown=unknown)
    return CallOutcome(call=call, status="unknown" if unknown else "failed", error=error, called=unknown)
