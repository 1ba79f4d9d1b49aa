"""Chat models of every provider that pydantic-ai knows: two translators and one thin call of its `direct` API.

pydantic-ai takes about a second to import, so it is imported when a model is made,
never with this module.
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

from jazz_select.errors import ConfigError, MissingExtraError, ModelError, ModelTimeoutError
from jazz_select.values import Message, Reply, Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.settings import ModelSettings

_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
_FINAL_ERRORS = ("ModelRequestRejectedError", "ModelQuotaExceededError")
_TIMEOUT_ERRORS = ("ModelTimeoutError", "ModelRequestTimeout")
_LONGEST_PROBLEM = 500
_UNSET = re.compile(r"Set the ((?:`\w+`(?:,? or )?)+) environment variable")
_FORM = 'a model string is "provider:model", such as "openai:gpt-5-mini"'


class PydanticAIModel:
    """A `ChatModel` on a model string such as `"openai:gpt-5-mini"`, or on a ready pydantic-ai `Model`.

    What cannot work is told at construction: a missing package, an unknown provider,
    a key that is not set. What fails later is a `ModelError` with the vendor's own
    error as its cause; a refused key (401) shows only then, since only the provider knows.

    One `complete` is one request: the vendor's client repeats nothing by itself unless
    `max_retries` says so, because its waits would hide in the caller's timeout. This
    holds for model strings, with providers whose client has such a switch (OpenAI and
    all that speak its protocol, Anthropic, Groq); a ready `Model` keeps the client it has.

    A model string may be used on several event loops, one after the other or in threads;
    each gets its own connections. A ready `Model` is as good at that as its client.
    """

    def __init__(self, model: "str | Model", *, settings: "ModelSettings | None" = None, max_retries: int = 0) -> None:
        """Find the provider and make its client; nothing is sent.

        A provider that is unknown, or lacks its key or package, is a `ConfigError` that holds the fix.

        Args:
            model: `"provider:model"`, as pydantic-ai names them, or a `Model`.
            settings: What pydantic-ai may pass on: `{"temperature": 0.0, "timeout": 10.0}`.
            max_retries: How often the vendor's client may repeat a failed request (model strings only).

        Raises:
            MissingExtraError: pydantic-ai is not installed.
        """
        if isinstance(model, str) and ":" not in model and model != "test":  # pydantic-ai's own double
            msg = f"the model {model!r} cannot be used: it names no provider ({_FORM})"
            raise ConfigError(msg)
        if find_spec("pydantic_ai") is None:
            raise MissingExtraError("pydantic_ai", extra="llm", purpose=f"the model {model!r}")
        self._source = model
        self._settings = settings
        self._max_retries = max_retries
        self._spare: Model | None = _build(model, max_retries) if isinstance(model, str) else model
        self._models: dict[asyncio.AbstractEventLoop, Model] = {}
        self.name = model if isinstance(model, str) else model.model_name

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Ask the model, once.

        What fails is a `ModelError`, and a `ConfigError` where pydantic-ai says that it cannot work as configured.
        """
        from pydantic_ai.direct import model_request
        from pydantic_ai.exceptions import UserError

        model = self._model()
        theirs = to_model_messages(messages)
        try:
            response = await model_request(model, theirs, model_settings=self._settings)
        except UserError as error:
            raise _unusable(self.name, error) from error
        except Exception as error:  # every provider has its own; all that is raised in there is the call's failure
            raise to_model_error(error, model=self.name, timeout_s=self._timeout_s()) from error
        return to_reply(response, model=self.name)

    async def aclose(self) -> None:
        """Close the connections of this event loop, where the client is ours; a later call opens new ones."""
        if isinstance(self._source, str):
            model = self._models.pop(asyncio.get_running_loop(), None)
            if model is not None:
                async with model:
                    pass  # leaving it closes the client that pydantic-ai made

    def _model(self) -> "Model":
        """The model for this event loop, since connections live and die with the loop that opened them."""
        if not isinstance(self._source, str):
            return self._source
        loop = asyncio.get_running_loop()
        model = self._models.get(loop)
        if model is None:
            spare, self._spare = self._spare, None
            model = spare or _build(self._source, self._max_retries)
            alive = {other: its for other, its in self._models.items() if not other.is_closed()}
            self._models = {**alive, loop: model}
        return model

    def _timeout_s(self) -> float | None:
        settings: dict[str, Any] = {**(self._settings or {})}
        value = settings.get("request_timeout") or settings.get("timeout")
        return float(value) if isinstance(value, int | float) else None


def is_pydantic_ai_model(value: object) -> "TypeGuard[Model]":
    """Whether this is a pydantic-ai `Model`, without importing pydantic-ai: whoever made one has done so."""
    models = sys.modules.get("pydantic_ai.models")
    return models is not None and isinstance(value, models.Model)


def to_model_messages(messages: Sequence[Message]) -> "list[ModelMessage]":
    """Ours to theirs: what is said between two answers is one request. Pure."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    theirs: list[ModelMessage] = []
    pending: list[ModelRequestPart] = []
    for message in messages:
        if message.role == "assistant":
            if pending:
                theirs.append(ModelRequest(parts=pending))
                pending = []
            theirs.append(ModelResponse(parts=[TextPart(message.content)]))
        else:
            part = SystemPromptPart if message.role == "system" else UserPromptPart
            pending.append(part(message.content))
    if pending:
        theirs.append(ModelRequest(parts=pending))
    return theirs


def to_reply(response: "ModelResponse", *, model: str) -> Reply:
    """Theirs to ours; a provider that counts no tokens leaves no usage. Pure."""
    counted = Usage(input_tokens=response.usage.input_tokens, output_tokens=response.usage.output_tokens)
    return Reply(
        text=response.text or "",
        usage=counted if counted != Usage() else None,
        model=response.model_name or model,
    )


def to_model_error(error: Exception, *, model: str, timeout_s: float | None = None) -> ModelError:
    """Theirs to ours; the caller raises it `from error`. Pure."""
    if timeout_s is not None and _is_a(error, *_TIMEOUT_ERRORS):
        return ModelTimeoutError(model, timeout_s=timeout_s)
    said = " ".join(str(error).split()) or "no message"
    return ModelError(model, f"{type(error).__name__}: {said}"[:_LONGEST_PROBLEM], retryable=_retryable(error))


def _retryable(error: BaseException) -> bool:
    from pydantic_ai.exceptions import FallbackExceptionGroup, ModelAPIError, ModelHTTPError

    if isinstance(error, FallbackExceptionGroup):
        return any(_retryable(inner) for inner in error.exceptions)
    if _is_a(error, *_FINAL_ERRORS):  # an exhausted quota is a 429 too
        return False
    if isinstance(error, ModelHTTPError):
        return error.status_code in _TRANSIENT_STATUS or error.status_code >= 500  # noqa: PLR2004  (HTTP's own number)
    # Without a status, their API errors are about the transport; TransportError is httpx, where it is passed on.
    return isinstance(error, ModelAPIError | OSError | TimeoutError) or _is_a(error, "TransportError")


def _is_a(error: BaseException, *names: str) -> bool:
    """Whether one of its classes has such a name; not every pydantic-ai 2 has them all to import."""
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _build(name: str, max_retries: int) -> "Model":
    from pydantic_ai.models import infer_model

    try:
        model = infer_model(name)
    except Exception as error:  # the provider's package, key or credentials: each vendor has its own error for it
        raise _unusable(name, error) from error
    client: Any = getattr(model.provider, "client", None)
    if hasattr(client, "max_retries"):
        client.max_retries = max_retries
    return model


def _unusable(name: str, error: Exception) -> ConfigError:
    said = " ".join(str(error).split())
    if unset := _UNSET.match(said):  # what follows are arguments, which a model string has no place for
        said = f"set the environment variable {unset[1].replace('`', '')}"
    elif said.startswith("Unknown model"):
        said += f" ({_FORM})"
    return ConfigError(f"the model {name!r} cannot be used: {said}")
