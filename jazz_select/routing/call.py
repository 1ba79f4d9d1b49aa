"""One call of one tool: sync or async, within a time limit, to a JSON value or to an error as data.

Only a cancellation of the caller passes.
"""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import partial
from typing import Any, Final, cast

import orjson

from jazz_select.routing.outcomes import StepError
from jazz_select.telemetry import span

GRACE_S: Final = 0.2
"""How long a tool that was cancelled has to end; one that does not is left behind."""
_LONGEST_MESSAGE = 500
_MOST_DIGITS = 18


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
        return StepError(fault="tool", message=f"{name} failed: {described(error)}", cause=error)
    try:
        return _output(task.result())
    except Exception as problem:  # noqa: BLE001 - whatever a value trips over, it is no JSON
        message = f"{name}: it ran, but returned what is no JSON: {described(problem)}"
        return StepError(fault="output", message=message, cause=problem)


def as_json(value: object) -> Any:
    """A value as plain JSON values, a copy. Dataclasses, pydantic models, decimals, dates and the like are understood.

    Raises:
        TypeError: It is none.
    """
    return orjson.loads(orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS))


def described(error: BaseException) -> str:
    """An exception in one line, even where its own text cannot be had."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error's own text may fail, too
        text = ""
    text = text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _output(value: object) -> Any:
    """What a tool returned, as JSON. Halves of surrogate pairs, which no JSON can hold, become question marks."""
    try:
        return as_json(value)
    except TypeError as error:
        if "surrogates" not in str(error):
            raise
        return as_json(_in_unicode(value))


def _plain(value: object) -> object:
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if isinstance(value, Decimal):
        return _number(value)
    raise TypeError(type(value).__name__)


def _number(value: Decimal) -> float | None:
    """A whole one as an int where that has no more than 64 bits, else the nearest float; None where it is no number."""
    if not value.is_finite():
        return None
    return int(value) if value.adjusted() < _MOST_DIGITS and value == value.to_integral_value() else float(value)


def _in_unicode(value: object) -> object:
    """A value without halves of surrogate pairs, wherever they are in it."""
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {_in_unicode(key): _in_unicode(each) for key, each in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_in_unicode(each) for each in cast("list[object]", value)]
    if is_dataclass(value):
        return {each.name: _in_unicode(getattr(value, each.name)) for each in fields(value) if each.name[:1] != "_"}
    dump = getattr(value, "model_dump", None)
    return _in_unicode(dump()) if callable(dump) else value


async def _called(function: "partial[Any]") -> object:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function.func).__call__)
    result = function() if is_async else await _in_thread(function)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: "partial[Any]") -> object:
    """What `function` returns in a thread that does not keep the process alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: object, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except Exception as raised:  # noqa: BLE001 - told to the caller
            error = RuntimeError(described(raised)) if isinstance(raised, StopIteration) else raised
        except BaseException as raised:  # noqa: BLE001 - a tool that exits ends itself, not its caller
            error = RuntimeError(described(raised))
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits
            return

    threading.Thread(target=work, name="jazz-select-tool", daemon=True).start()
    return await future


async def _end(task: "asyncio.Task[object]") -> None:
    """Cancel, and wait a moment for it; an error that comes later is nobody's."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE_S)
