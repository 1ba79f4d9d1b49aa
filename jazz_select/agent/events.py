"""What happens while an answer is made, told as it happens. Text of the chain and text of the output never mix."""

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jazz_select.agent.transcript import Purpose, ToolRequest, ToolResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCalled:
    """The model is asked; `number` counts from 1, for each purpose anew."""

    purpose: Purpose
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainText:
    """What the model said in the loop; `closing` where it is the chain's own answer."""

    text: str
    closing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalled:
    """A tool is about to be run."""

    call: ToolRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReturned:
    """What became of a call, also of one that was not run."""

    result: ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatStarted:
    """A finished chain is put into the schema."""

    incomplete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputText:
    """A piece of what was asked for: all of them joined are the answer's text. Nothing else is."""

    delta: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRestarted:
    """The output text so far is void, since it was not valid; what follows replaces it."""

    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end: an `Answer`, as `respond` returns it."""

    answer: Any = field(repr=False)


Event = ModelCalled | ChainText | ToolCalled | ToolReturned | FormatStarted | OutputText | FormatRestarted | Finished
OnEvent = Callable[[Event], object]
"""Hears of events, sync or async. One that fails is logged, and disturbs nothing."""


async def tell(listener: OnEvent | None, event: Event) -> None:
    """Tell of an event, if anyone listens."""
    if listener is None:
        return
    try:
        heard = listener(event)
        if inspect.isawaitable(heard):
            await heard
    except Exception:  # noqa: BLE001 - whatever a listener fails with
        _log.exception("event=<%s> | the listener failed, and is passed over", type(event).__name__)
