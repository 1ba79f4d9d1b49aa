"""Traces as OpenTelemetry spans, by the semantic conventions for generative AI. Needs the extra `otel`.

A turn is `invoke_agent`, a call of a model `chat`, a call of a tool `execute_tool`; narrowing and decisions, which have
no convention, keep their names. What those say beside is under `jazz_select.`.

Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import orjson

from jazz_select.errors import MissingExtraError
from jazz_select.json_values import plain
from jazz_select.telemetry import Span
from jazz_select.text import as_text

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import TracerProvider

_OPERATIONS: Final[Mapping[str, str]] = {"turn": "invoke_agent", "chat": "chat", "tool": "execute_tool"}
_NAMED: Final[Mapping[str, str]] = {
    "turn": "gen_ai.agent.name",
    "chat": "gen_ai.request.model",
    "tool": "gen_ai.tool.name",
}
_KEYS: Final[Mapping[str, str]] = {
    "model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "conversation_id": "gen_ai.conversation.id",
}
_CONTENT: Final[Mapping[str, str]] = {
    "messages": "gen_ai.input.messages",
    "reply": "gen_ai.output.messages",
    "arguments": "gen_ai.tool.call.arguments",
    "output": "gen_ai.tool.call.result",
}
_NAMESPACE: Final = "jazz_select"


class OpenTelemetryHook:
    """A `TraceHook` that makes an OpenTelemetry span of each span, nested like them, while it lasts.

    Spans of other libraries that begin within one lie in it, since it is the current one.
    """

    def __init__(self, tracer_provider: "TracerProvider | None" = None, *, with_content: bool = False) -> None:
        """Take where spans go.

        Args:
            tracer_provider: The global one where None.
            with_content: Whether what users, models and tools say goes along; the conventions leave it out by default.

        Raises:
            MissingExtraError: OpenTelemetry is not installed.
        """
        try:
            from opentelemetry import trace
        except ImportError as error:
            raise MissingExtraError("opentelemetry", extra="otel", purpose="OpenTelemetryHook") from error
        self._tracer = trace.get_tracer(_NAMESPACE, tracer_provider=tracer_provider)
        self._with_content = with_content
        self._open: dict[int, tuple[OtelSpan, Token[Context]]] = {}

    def started(self, span: Span) -> None:
        """Begin a span, and make it the current one."""
        from opentelemetry import context, trace

        operation = _OPERATIONS.get(span.kind)
        own = self._tracer.start_span(
            f"{operation} {span.name}" if operation else f"{span.kind} {span.name}",
            kind=trace.SpanKind.CLIENT if span.kind in {"chat", "decide"} else trace.SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": operation, _NAMED[span.kind]: span.name} if operation else None,
        )
        self._open[id(span)] = (own, context.attach(trace.set_span_in_context(own)))

    def ended(self, span: Span) -> None:
        """End it, with what is known by now."""
        from opentelemetry import context

        own, token = self._open.pop(id(span))
        try:
            context.detach(token)
            self._describe(own, span)
        finally:
            own.end()

    def _describe(self, own: "OtelSpan", span: Span) -> None:
        """Say on it what is known."""
        from opentelemetry.trace import StatusCode

        for name, value in span.attributes.items():
            if name == "finish_reason":
                own.set_attribute("gen_ai.response.finish_reasons", [as_text(value)] if value else [])
            elif value is not None and value != "":
                own.set_attribute(_KEYS.get(name, f"{_NAMESPACE}.{name}"), _value(value))
        if self._with_content:
            for name, value in span.content.items():
                own.set_attribute(_CONTENT.get(name, f"{_NAMESPACE}.{name}"), _value(value))
        if span.error:
            own.set_attribute("error.type", span.error)
            said = as_text(span.content.get("error", "")) if self._with_content else None
            own.set_status(StatusCode.ERROR, said)


def _value(value: object) -> Any:
    """As OpenTelemetry takes attributes: a scalar, or else JSON; a number of more than 64 bits as text."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str | int):
        return as_text(value)
    return orjson.dumps(plain(value)).decode()
