"""Traces as OpenTelemetry spans, by the semantic conventions for generative AI. Needs the extra `otel`.

A turn is `invoke_agent`, a call of a model `chat`, of a tool `execute_tool`, a recall `retrieval`. Nodes and decisions
have no convention: they keep their names and have no `gen_ai.operation.name`. A call of a decision model is `decide`,
as in pydantic-ai. Other attributes are under `jazz_select.`.

The conventions are still in development. A test compares the names used here with their registry.

Source: https://github.com/open-telemetry/semantic-conventions-genai, `model/gen-ai/` at 002c8a6
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from jazz_select.errors import MissingExtraError
from jazz_select.json_values import is_array, is_object, json_text
from jazz_select.telemetry import Span
from jazz_select.text import as_text

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import TracerProvider

OPERATIONS: Final[Mapping[str, str]] = {
    "turn": "invoke_agent",
    "chat": "chat",
    "decide": "decide",
    "tool": "execute_tool",
    "recall": "retrieval",
}
"""The operation by kind of span."""
PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "google": "gcp.gemini",
    "google-decisions": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "grok": "x_ai",
    "groq": "groq",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "openai": "openai",
    "openai-chat": "openai",
    "openai-decisions": "openai",
    "openai-responses": "openai",
    "xai": "x_ai",
}
"""The conventions' provider by prefix of a model's name; unset for other models."""
_CALL: Final = {
    "model": "gen_ai.response.model",
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
}
KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "turn": {"conversation_id": "gen_ai.conversation.id"},
    "chat": _CALL,
    "decide": _CALL,
    "tool": {"call_id": "gen_ai.tool.call.id"},
    "recall": {"data_source": "gen_ai.data_source.id", "top_k": "gen_ai.request.top_k"},
}
"""Attributes named by the conventions, by kind of span. Only calls have tokens: those of decisions would be counted
twice."""
CONTENT: Final[Mapping[str, str]] = {
    "messages": "gen_ai.input.messages",
    "reply": "gen_ai.output.messages",
    "arguments": "gen_ai.tool.call.arguments",
    "output": "gen_ai.tool.call.result",
}
"""Content named by the conventions."""
TURN_CONTENT: Final[Mapping[str, str]] = {"message": "gen_ai.input.messages", "text": "gen_ai.output.messages"}
"""Likewise, of a turn."""
_ROLES: Final = {"message": "user", "text": "assistant", "reply": "assistant"}
_CLIENTS: Final = frozenset({"chat", "decide", "recall"})
_NAMESPACE: Final = "jazz_select"


class OpenTelemetryHook:
    """A `TraceHook` that mirrors each span, with its nesting, as an OpenTelemetry span.

    It is the current span while it lasts, so spans of other libraries nest in it.
    """

    def __init__(self, tracer_provider: "TracerProvider | None" = None, *, with_content: bool = False) -> None:
        """Create a hook.

        Args:
            tracer_provider: Receives the spans; None for the global one.
            with_content: Whether to include what users, models and tools say; off by default in the conventions.

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

    def on_start(self, span: Span) -> None:
        """Begin a span and make it the current one."""
        from opentelemetry import context, trace

        operation = OPERATIONS.get(span.kind)
        name, attributes = f"{span.kind} {span.name}", dict[str, str]()
        if operation:
            attributes = {"gen_ai.operation.name": operation, **_model_attributes(span)}
            name = f"{operation} {attributes.get('gen_ai.request.model', span.name)}"
        if span.kind == "recall":
            name = "retrieval"  # its source, which belongs to the name, is known at the end
        kind = trace.SpanKind.CLIENT if span.kind in _CLIENTS else trace.SpanKind.INTERNAL
        own = self._tracer.start_span(name, kind=kind, attributes=attributes)
        self._open[id(span)] = (own, context.attach(trace.set_span_in_context(own)))

    def on_end(self, span: Span) -> None:
        """End the span with its final attributes."""
        from opentelemetry import context

        own, token = self._open.pop(id(span))
        try:
            context.detach(token)
            self._describe(own, span)
        finally:
            own.end()

    def _describe(self, own: "OtelSpan", span: Span) -> None:
        from opentelemetry.trace import StatusCode

        keys = KEYS.get(span.kind, {})
        contents = {**CONTENT, **TURN_CONTENT} if span.kind == "turn" else CONTENT
        for name, value in span.attributes.items():
            if name == "finish_reason":
                own.set_attribute("gen_ai.response.finish_reasons", [as_text(value)] if value else [])
            elif value is not None and value != "":
                own.set_attribute(keys.get(name, f"{_NAMESPACE}.{name}"), _value(value))
        source, scores = span.attributes.get("data_source"), span.attributes.get("candidates")
        if span.kind == "recall" and source:
            own.update_name(f"retrieval {as_text(source)}")
        if self._with_content:
            for name, value in span.content.items():
                key = contents.get(name, f"{_NAMESPACE}.{name}")
                own.set_attribute(key, _value(_by_convention(name, value, contents)))
            if span.kind == "recall" and is_object(scores):
                documents = [{"id": name, "score": score} for name, score in scores.items()]
                own.set_attribute("gen_ai.retrieval.documents", _value(documents))
        if span.error:
            own.set_attribute("error.type", span.error)
            # The text may quote anyone, and so is content.
            message = as_text(span.content.get("error", "")) if self._with_content else None
            own.set_status(StatusCode.ERROR, message)


def _model_attributes(span: Span) -> dict[str, str]:
    if span.kind in {"chat", "decide"}:
        prefix, _, model = span.name.partition(":")
        provider = PROVIDERS.get(prefix) if model else None
        if provider is None:
            return {"gen_ai.request.model": span.name}
        return {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
    if span.kind == "tool":
        return {"gen_ai.tool.name": span.name, "gen_ai.tool.type": "function"}
    if span.kind == "turn":
        return {"gen_ai.agent.name": span.name}
    return {}


def _by_convention(name: str, value: object, contents: Mapping[str, str]) -> object:
    """Return content in the conventions' form: messages as roles and parts."""
    if not contents.get(name, "").endswith(".messages"):
        return value
    messages = value if is_array(value) else [{"role": _ROLES.get(name), "content": value}]
    return [_message(each) if is_object(each) else each for each in messages]


def _message(message: Mapping[str, object]) -> Mapping[str, object]:
    return {"role": message.get("role"), "parts": [{"type": "text", "content": as_text(message.get("content"))}]}


def _value(value: object) -> Any:
    """Return a scalar, or JSON; a number of more than 64 bits as text."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, str | int):
        return as_text(value)
    return json_text(value)
