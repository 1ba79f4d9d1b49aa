"""Make a `ChatModel` or `DecisionModel` of an object, a function or a model string."""

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from jazz_select.chat.pydantic_ai_model import (
    PydanticAIDecisions,
    PydanticAIModel,
    decision_model_in,
    is_pydantic_ai_model,
    not_for_chat,
    refuse_chat_model,
    refuse_decision_model,
)
from jazz_select.errors import ConfigError, ModelError
from jazz_select.ports import ChatModel, DecisionModel
from jazz_select.values import Message, Reply

if TYPE_CHECKING:
    from pydantic_ai.models import Model
else:
    Model = Any  # importing it takes a second, and annotations need a known name

ChatCallable = Callable[[Sequence[Message]], Awaitable[str | Reply]]
ModelLike: TypeAlias = ChatModel | ChatCallable | Model | str
"""An object, an async function, a pydantic-ai `Model`, or a model string."""
DecisionModelLike: TypeAlias = DecisionModel | Model | str
"""An object, a pydantic-ai `DecisionModel`, or a model string."""


class CallableModel:
    """A `ChatModel` that calls an async function `(messages) -> str` or `-> Reply`.

    The function's exceptions pass unchanged. Raise `ModelError` in it to say whether the same call may succeed later.

    A blocking function is refused: it would stop the event loop, and no timeout could end it. Wrap one as `lambda
    messages: asyncio.to_thread(ask, messages)`.
    """

    def __init__(self, function: ChatCallable) -> None:
        """Store the function; its first call is at `complete`."""
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self._function = function
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some C functions have no signature
            return
        try:
            signature.bind(())
        except TypeError as error:
            raise ConfigError(
                f"the model function {self.name}{signature} cannot be called with the messages alone ({error}): it has "
                "to be `async def name(messages)`; functools.partial fills in other arguments"
            ) from error

    async def complete(self, messages: Sequence[Message]) -> Reply:
        """Call the function."""
        # Check what it returns: a lambda or partial around an async function is not a coroutine function.
        pending: object = self._function(messages)
        if not inspect.isawaitable(pending):
            raise ConfigError(
                f"the model function {self.name!r} returned {type(pending).__name__} not an awaitable: declare it "
                "with `async def`, or wrap a blocking one as `lambda messages: asyncio.to_thread(function, messages)`"
            )
        answer: Any = await pending
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, str):
            return Reply(text=answer, model=self.name)
        raise ModelError(self.name, f"it returned {type(answer).__name__}, not a str or a Reply", retryable=False)


def as_chat_model(llm: ModelLike | None, *, argument: str = "llm") -> ChatModel | None:
    """Make a `ChatModel` of `llm`.

    Args:
        llm: One of

            - `None`: stays None, which means choosing without a model;
            - an object with `async complete(messages) -> Reply`: itself;
            - an async function `(messages) -> str` or `-> Reply`;
            - a model string such as `"openai:gpt-5-mini"`, or a pydantic-ai `Model`.
        argument: Its name in error messages.

    Raises:
        ConfigError: `llm` is none of these, a function of other arguments, or a decision model; or its provider is
            unknown or lacks a key or a package.
    """
    if llm is None:
        return None
    if isinstance(llm, str) or is_pydantic_ai_model(llm):
        refuse_decision_model(llm, argument=argument)
        return PydanticAIModel(llm)
    given: object = llm  # callers without a type checker pass anything
    if isinstance(given, type):
        got = f"the class {given.__name__} itself (pass an instance)"
    elif isinstance(given, ChatModel) and callable(given.complete):
        return given
    elif hasattr(given, "most_options"):  # a `DecisionModel`, or a client of one
        raise ConfigError(not_for_chat(type(given).__name__, argument))
    elif callable(given):
        return CallableModel(given)
    else:
        got = f"{given!r:.80}"
    raise ConfigError(
        f"{argument} cannot be {got}. It may be None, an object with `async complete(messages) -> Reply`, "
        'an async function `(messages) -> str`, a model string such as "openai:gpt-5-mini", or a pydantic-ai Model.'
    )


def as_decision_model(decider: DecisionModelLike | None, *, argument: str = "decider") -> DecisionModel | None:
    """Make a `DecisionModel` of `decider`.

    Args:
        decider: One of

            - `None`: stays None, which means without one;
            - an object with `async decide(state, questions) -> DecisionReply` and `most_options`: itself;
            - a model string such as `"system-one:clm-latest"`, or a pydantic-ai `DecisionModel`.
        argument: Its name in error messages.

    Raises:
        ConfigError: `decider` is none of these, or a chat model; or its provider is unknown or lacks a key or a
            package.
    """
    if decider is None:
        return None
    if isinstance(decider, str) or is_pydantic_ai_model(decider):
        refuse_chat_model(decider, argument=argument)
        return PydanticAIDecisions(decision_model_in(decider) or decider)
    given: object = decider
    if isinstance(given, type):
        got = f"the class {given.__name__} itself (pass an instance)"
    elif isinstance(given, DecisionModel) and callable(given.decide):
        return given
    elif isinstance(given, ChatModel) or callable(given):
        got = f"{given!r:.80}: it is a chat model, which writes text. Give it as llm="
    else:
        got = f"{given!r:.80}"
    raise ConfigError(
        f"{argument} cannot be {got}. It may be None, an object with `async decide(state, questions) -> DecisionReply` "
        'and `most_options`, a model string such as "system-one:clm-latest", or a pydantic-ai DecisionModel.'
    )
