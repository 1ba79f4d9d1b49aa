"""One call of one tool: sync or async, within a time limit, to a JSON value or to an error as data.

Only a cancellation of the caller passes.
"""

import asyncio
import inspect
from functools import partial
from typing import Any, Final

from jazz_select.json_values import output_json
from jazz_select.routing.records import StepError
from jazz_select.telemetry import span
from jazz_select.text import describe_error
from jazz_select.threads import in_daemon_thread

GRACE_S: Final = 0.2
"""How long a tool that was cancelled has to end; one that does not is left behind."""


async def call_tool(name: str, function: "partial[Any]", *, timeout_s: float | None) -> Any:
    """What `function` returns, as JSON values, or a StepError that says why there is nothing.

    A plain function runs in a thread of its own and so holds up nobody. Nothing can end it: after the time limit it
    goes on unheard.

    Raises:
        CancelledError: The caller was cancelled; the tool was, too.
    """
    with span(name, "tool") as traced:
        output = await _within(name, function, timeout_s)
        if traced is not None:
            traced.hold({"arguments": dict(function.keywords)})
            if isinstance(output, StepError):
                traced.error = output.fault
                traced.hold({"error": output.message})
            else:
                traced.hold({"output": output})
        return output


async def _within(name: str, function: "partial[Any]", timeout_s: float | None) -> Any:
    task = asyncio.ensure_future(_called(function))
    try:
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        await _end(task)
        raise
    if not done:
        await _end(task)
        return StepError(fault="timeout", message=f"{name} gave no answer within {timeout_s:g} s")
    if task.cancelled():
        return StepError(fault="tool", message=f"{name} was cancelled from within")
    error = task.exception()
    if error is not None:
        return StepError(fault="tool", message=f"{name} failed: {describe_error(error)}", cause=error)
    try:
        return output_json(task.result())
    except Exception as problem:  # noqa: BLE001 - whatever a value trips over, it is no JSON
        message = f"{name}: it ran, but returned what is no JSON: {describe_error(problem)}"
        return StepError(fault="output", message=message, cause=problem)


async def _called(function: "partial[Any]") -> object:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function.func).__call__)
    result = function() if is_async else await in_daemon_thread(function, name="jazz-select-tool")
    return await result if inspect.isawaitable(result) else result


async def _end(task: "asyncio.Task[object]") -> None:
    """Cancel, and wait a moment for it; an error that comes later is nobody's."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_S)
