"""Traces: every narrowing, decision and call as a span, told to hooks.

Work is traced while a `Trace` is open, and costs next to nothing while none is:

```python
with Trace() as trace:
    await selector.select("refund my order")
print(trace)
```

A span holds `attributes` (names, counts, tiers, scores: nothing that a user or a tool said) and `content` (what they
said, and the texts of errors, which may quote it; a `redact` hook may take any of it out before anyone gets it).
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar, Token
from dataclasses import dataclass, field, fields
from time import perf_counter
from typing import Any, Final, Literal, Protocol, Self

import orjson

from jazz_select.errors import ConfigError
from jazz_select.json_values import plain
from jazz_select.text import describe_error, one_line
from jazz_select.travel import unreadable, value_of

_DEEPEST: Final = 1_000
"""How many spans may lie in one another, where they are read: each is shown so far from the left."""
_log = logging.getLogger("jazz_select.trace")
Kind = Literal["turn", "node", "recall", "decision", "chat", "decide", "tool"]
"""What a span is: a turn, a node of its graph, a narrowing, a decision, a call of a chat model, of a decision model
(`decide`), of a tool."""
_LONGEST_LINE = 20_000


@dataclass(slots=True, kw_only=True, eq=False)
class Span:
    """Something that took time.

    Attributes:
        name: What it is called: `select`, `recall`, a model's, tool's or node's name.
        kind: What it is.
        depth: How many spans it lies in.
        parent: The one it lies in, if any.
        started_s: Seconds from the beginning of the trace.
        duration_s: Seconds it took; None while it has not ended.
        attributes: What is known of it and says nothing of what anyone said; JSON values.
        content: What was said: requests, replies, arguments, outputs, and as `error` the text of what went wrong.
        error: What it failed with, if it did: an exception's type or a short code. Its text may quote anyone, so that
            is in `content`.
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
        """As plain JSON values, without its parent."""
        known = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "parent"}
        return {**known, "attributes": plain(self.attributes), "content": plain(self.content)}


class TraceHook(Protocol):
    """Hears of spans. One that fails is logged, and disturbs nothing."""

    def started(self, span: Span) -> None:
        """A span began; its attributes may not be there yet."""
        ...

    def ended(self, span: Span) -> None:
        """A span ended, with all that is to be known of it."""
        ...


Redact = Callable[[str, dict[str, Any]], Mapping[str, Any]]
"""A span's name and content, to the content that may be kept. Where it fails, none is."""


class Trace:
    """All spans of what happens while it is open, in order of their beginning. It may be opened once.

    One that is opened while another is passes its spans on to that one as well, redacted by both.
    """

    def __init__(self, hooks: Iterable[TraceHook] = (), *, redact: Redact | None = None) -> None:
        """Take who listens, beside the log.

        Args:
            hooks: Who else hears of spans.
            redact: Applied to each span's content when it ends, before anyone gets it.
        """
        self.spans: list[Span] = []
        self.closed = False
        self._hooks: tuple[TraceHook, ...] = (*hooks, LoggingHook())
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
            self._hooks = self._hooks[:-1]  # the outermost one logs, since it has what all have redacted
        self._opened = True
        self._began = perf_counter()
        self._token = _place.set(_Place(self, None))
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _place.reset(self._token)
            self._token = None
        self.closed = True

    def started(self, span: Span) -> None:
        """Keep a span that begins."""
        span.started_s = perf_counter() - self._began
        self.spans.append(span)
        self._tell("started", span)
        outer = self._outer
        if outer.trace is not None:
            above = outer.span if span.parent is None else self._passed_on.get(span.parent, outer.span)
            depth = 0 if above is None else above.depth + 1
            self._passed_on[span] = passed_on = Span(name=span.name, kind=span.kind, depth=depth, parent=above)
            outer.trace.started(passed_on)

    def ended(self, span: Span) -> None:
        """A span ended."""
        span.duration_s = perf_counter() - self._began - span.started_s
        if self._redact is not None and span.content:
            try:
                span.content = dict(self._redact(span.name, span.content))
            except Exception:  # noqa: BLE001 - whatever it trips over, nothing may get out that it should have taken out
                span.content = {}
                _log.warning("span=<%s> | redact failed, so its content is left out", span.name)
        self._tell("ended", span)
        if self._outer.trace is not None:
            passed_on = self._passed_on[span]
            passed_on.attributes, passed_on.content = dict(span.attributes), dict(span.content)
            passed_on.error = span.error
            self._outer.trace.ended(passed_on)

    def as_json(self) -> list[dict[str, Any]]:
        """All spans as plain JSON values; `parent` is the place in the list of the one that each lies in, if any."""
        places = {span: place for place, span in enumerate(self.spans)}
        return [
            {**span.as_json(), "parent": None if span.parent is None else places.get(span.parent)}
            for span in self.spans
        ]

    @classmethod
    def from_json(cls, spans: Iterable[Mapping[str, Any]]) -> "Trace":
        """The trace that `as_json` wrote: closed, and heard by nobody.

        Raises:
            ConfigError: It is none.
        """
        found = cls()
        found.closed = found._opened = True
        for known in value_of(list[dict[str, Any]], spans, cls.__name__):
            place = known.pop("parent", None)
            made = value_of(Span, known)
            if not 0 <= made.depth <= _DEEPEST:
                raise unreadable("span", f"its depth is none from 0 to {_DEEPEST}")
            if place is not None:
                if not isinstance(place, int) or not 0 <= place < len(found.spans):
                    raise unreadable("span", f"its parent is {place!r:.80}, and not one that began before it")
                made.parent = found.spans[place]
            found.spans.append(made)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled it is what was noted: who listens stays behind."""
        return Trace.from_json, (self.as_json(),)

    def __str__(self) -> str:
        return "\n".join(line_of(span) for span in self.spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self.spans)

    def _tell(self, what: Literal["started", "ended"], span: Span) -> None:
        for hook in self._hooks:
            try:
                getattr(hook, what)(span)
            except Exception:  # noqa: BLE001 - whatever a hook fails with
                _log.exception("hook=<%s> | it failed, and is passed over", type(hook).__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in which trace the running code is."""

    trace: Trace | None = None
    span: Span | None = None


_NOWHERE = _Place()
_place: ContextVar[_Place] = ContextVar("jazz_select_trace", default=_NOWHERE)


@contextmanager
def _open(trace: Trace, span: Span) -> Generator[Span]:
    """A span that is the current one as long as the block lasts."""
    token = _place.set(_Place(trace, span))
    try:
        trace.started(span)
        yield span
    except BaseException as error:
        if not span.error:
            span.error = type(error).__name__
            span.hold({"error": describe_error(error)})
        raise
    finally:
        trace.ended(span)
        _place.reset(token)


_NOBODY = nullcontext()


def span(name: str, kind: Kind) -> AbstractContextManager[Span | None]:
    """A span around the block; None is what the block gets where nobody listens, so that nothing is put together."""
    here = _place.get()
    trace = here.trace
    if trace is None:
        if not _log.isEnabledFor(logging.DEBUG):
            return _NOBODY
        trace = Trace()
    depth = 0 if here.span is None else here.span.depth + 1
    return _open(trace, Span(name=name, kind=kind, depth=depth, parent=here.span))


class LoggingHook:
    """Every span that ends as a line of the logger `jazz_select.trace`, at level DEBUG, with its JSON."""

    def started(self, span: Span) -> None:
        """Nothing yet."""

    def ended(self, span: Span) -> None:
        """One line."""
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s | %s", line_of(span), orjson.dumps(span.as_json()).decode()[:_LONGEST_LINE])


def line_of(span: Span) -> str:
    """A span in one line, indented by its depth: name, kind, time, attributes. No content."""
    took = "…" if span.duration_s is None else f"{1000 * span.duration_s:.2f} ms"
    known = " ".join(
        f"{name}={one_line(value)}" for name, value in span.attributes.items() if value not in ("", None, [], {})
    )
    failed = f" error={one_line(span.error)}" if span.error else ""
    return f"{'  ' * span.depth}{span.kind} {one_line(span.name)} {took} {known}".rstrip() + failed
