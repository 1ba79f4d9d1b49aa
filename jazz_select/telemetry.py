"""Traces: each recall, decision and call is a span that hooks receive.

Tracing is on while a `Trace` is open, and costs next to nothing otherwise:

```python
with Trace() as trace:
    await selector.select("refund my order")
print(trace)
```

A span has `attributes` (names, counts, tiers, scores; never what a user or a tool said) and `content` (what they said,
and the texts of errors, which may quote it). A `redact` hook may remove content before anyone gets it.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any, Final, Literal, Protocol, Self

from jazz_select.errors import ConfigError
from jazz_select.json_values import json_text, plain
from jazz_select.serialization import unreadable, value_of
from jazz_select.text import describe_error, one_line

_DEEPEST: Final = 1_000
"""The most nested spans that are read: each level indents the output."""
_log = logging.getLogger("jazz_select.trace")
Kind = Literal["turn", "node", "recall", "decision", "chat", "decide", "tool"]
"""A turn, a node of its graph, a recall, a decision, or a call of a chat model, decision model (`decide`) or tool."""
_LONGEST_LINE = 20_000


@dataclass(slots=True, kw_only=True, eq=False)
class Span:
    """A timed operation.

    Attributes:
        name: `select`, `recall`, or the name of a model, tool or node.
        kind: The kind of operation.
        depth: The number of enclosing spans.
        parent: The enclosing span, if any.
        started_s: Seconds since the trace began.
        duration_s: In seconds; None until it ends.
        attributes: JSON values that reveal nothing of what anyone said.
        content: Requests, replies, arguments, outputs, and as `error` the text of an error.
        error: An exception's type or a short code, if it failed. The text is in `content`, as it may quote anyone.
    """

    name: str
    kind: Kind
    depth: int = 0
    parent: "Span | None" = None
    started_s: float = 0.0
    duration_s: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    content: dict[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""

    def note(self, attributes: Mapping[str, Any]) -> None:
        """Add attributes."""
        self.attributes.update(attributes)

    def hold(self, content: Mapping[str, Any]) -> None:
        """Add content."""
        self.content.update(content)

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON values, without the parent."""
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "parent"}
        return {**known, "attributes": plain(self.attributes), "content": plain(self.content)}


class TraceHook(Protocol):
    """Receives spans. Its errors are logged and ignored."""

    def on_start(self, span: Span) -> None:
        """A span began; attributes may be added later."""
        ...

    def on_end(self, span: Span) -> None:
        """A span ended and is complete."""
        ...


Redact = Callable[[str, dict[str, Any]], Mapping[str, Any]]
"""Takes a span's name and content, and returns the content to keep. If it fails, none is kept."""


class Trace:
    """All spans while it is open, in order of their start, each logged at level DEBUG. It may be opened once.

    A nested trace also passes its spans to the outer one, redacted by both.
    """

    def __init__(self, hooks: Iterable[TraceHook] = (), *, redact: Redact | None = None) -> None:
        """Create a trace.

        Args:
            hooks: Receive its spans, beside the log.
            redact: Applied to each span's content when it ends, before anyone gets it.
        """
        self.spans: list[Span] = []
        self.closed = False
        self._hooks: tuple[TraceHook, ...] = tuple(hooks)
        self._outer = _NOWHERE
        self._passed_on: dict[Span, Span] = {}
        self._opened = False
        self._redact = redact
        self._began = perf_counter()
        self._token: Token[_Place] | None = None

    def __enter__(self) -> Self:
        if self._opened:
            raise ConfigError("a Trace is opened once; make another one for what comes next")
        here = _place.get()
        if here.trace is not None and not here.trace.closed:
            self._outer = here
        self._opened = True
        self._began = perf_counter()
        self._token = _place.set(_Place(self, None))
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _place.reset(self._token)
            self._token = None
        self.closed = True

    def on_start(self, span: Span) -> None:
        """Record a span that begins."""
        span.started_s = perf_counter() - self._began
        self.spans.append(span)
        self._tell("on_start", span)
        outer = self._outer
        if outer.trace is not None:
            above = outer.span if span.parent is None else self._passed_on.get(span.parent, outer.span)
            depth = 0 if above is None else above.depth + 1
            self._passed_on[span] = passed_on = Span(name=span.name, kind=span.kind, depth=depth, parent=above)
            outer.trace.on_start(passed_on)

    def on_end(self, span: Span) -> None:
        """Record the end of a span."""
        span.duration_s = perf_counter() - self._began - span.started_s
        if self._redact is not None and span.content:
            try:
                span.content = dict(self._redact(span.name, span.content))
            except Exception:  # noqa: BLE001 - after any error nothing unredacted may get out
                span.content = {}
                _log.warning("span=<%s> | redact failed, so its content is left out", span.name)
        self._tell("on_end", span)
        if self._outer.trace is not None:
            passed_on = self._passed_on[span]
            passed_on.attributes, passed_on.content = dict(span.attributes), dict(span.content)
            passed_on.error = span.error
            self._outer.trace.on_end(passed_on)
        elif _log.isEnabledFor(logging.DEBUG):  # only the outermost trace logs, since all have redacted its content
            _log.debug("%s | %s", line_of(span), json_text(span.as_json())[:_LONGEST_LINE])

    def as_json(self) -> list[dict[str, Any]]:
        """Return all spans as plain JSON values; `parent` is the index of the enclosing span, if any."""
        places = {span: place for place, span in enumerate(self.spans)}
        spans: list[dict[str, Any]] = []
        for span in self.spans:
            parent = None if span.parent is None else places.get(span.parent)
            spans.append({**span.as_json(), "parent": parent})
        return spans

    @classmethod
    def from_json(cls, spans: Iterable[Mapping[str, Any]]) -> "Trace":
        """Read the output of `as_json` as a closed trace without hooks.

        Raises:
            ConfigError: The data is not valid.
        """
        found = cls()
        found.closed = found._opened = True
        for known in value_of(list[dict[str, Any]], spans, cls.__name__):
            place = known.pop("parent", None)
            made = value_of(Span, known)
            if not 0 <= made.depth <= _DEEPEST:
                raise unreadable("span", f"its depth must be from 0 to {_DEEPEST}, got {made.depth}")
            if place is not None:
                if not isinstance(place, int) or not 0 <= place < len(found.spans):
                    raise unreadable("span", f"its parent must be a span before it, got {place!r:.80}")
                made.parent = found.spans[place]
            found.spans.append(made)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the recorded spans without hooks."""
        return Trace.from_json, (self.as_json(),)

    def __str__(self) -> str:
        return "\n".join(line_of(span) for span in self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def _tell(self, what: Literal["on_start", "on_end"], span: Span) -> None:
        for hook in self._hooks:
            try:
                getattr(hook, what)(span)
            except Exception:  # noqa: BLE001 - any error of a hook
                _log.exception("hook=<%s> | it failed, and is passed over", type(hook).__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """The current trace and span."""

    trace: Trace | None = None
    span: Span | None = None


_NOWHERE = _Place()
_place: ContextVar[_Place] = ContextVar("jazz_select_trace", default=_NOWHERE)


@contextmanager
def _open(trace: Trace, span: Span) -> Generator[Span]:
    token = _place.set(_Place(trace, span))
    try:
        trace.on_start(span)
        yield span
    except BaseException as error:
        if not span.error:
            span.error = type(error).__name__
            span.hold({"error": describe_error(error)})
        raise
    finally:
        trace.on_end(span)
        _place.reset(token)


_NOBODY = nullcontext()


def span(name: str, kind: Kind) -> AbstractContextManager[Span | None]:
    """Return a span around the block; None if no trace is open, so that the block can skip collecting data."""
    here = _place.get()
    trace = here.trace
    if trace is None:
        if not _log.isEnabledFor(logging.DEBUG):
            return _NOBODY
        trace = Trace()
    depth = 0 if here.span is None else here.span.depth + 1
    return _open(trace, Span(name=name, kind=kind, depth=depth, parent=here.span))


def line_of(span: Span) -> str:
    """Return a span as one line, indented by depth: name, kind, time, attributes. No content."""
    took = "…" if span.duration_s is None else f"{1000 * span.duration_s:.2f} ms"
    parts = [span.kind, one_line(span.name), took]
    for name, value in span.attributes.items():
        if value not in ("", None, [], {}):
            parts.append(f"{name}={one_line(value)}")
    if span.error:
        parts.append(f"error={one_line(span.error)}")
    return "  " * span.depth + " ".join(parts)
