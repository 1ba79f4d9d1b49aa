"""One door for whatever a caller has as a language model."""

from typing import TYPE_CHECKING

from jazz_select.errors import ConfigError
from jazz_select.llm.callable import CallableModel, ChatCallable
from jazz_select.llm.pydantic_ai import PydanticAIModel, is_pydantic_ai_model
from jazz_select.ports import ChatModel

if TYPE_CHECKING:
    from pydantic_ai.models import Model


def as_chat_model(llm: "ChatModel | ChatCallable | Model | str | None") -> ChatModel | None:
    """Make a `ChatModel` of `llm`.

    Args:
        llm: One of

            - `None`: stays None, which means choosing without a model;
            - an object with `async complete(messages) -> Reply`: itself;
            - an async function `(messages) -> str` or `-> Reply`;
            - a model string such as `"openai:gpt-5-mini"`, or a pydantic-ai `Model`.

    Raises:
        ConfigError: `llm` is none of these, or a function of other arguments; or its provider is unknown, lacks a
            key or a package.
    """
    if llm is None:
        return None
    if isinstance(llm, str) or is_pydantic_ai_model(llm):
        return PydanticAIModel(llm)
    given: object = llm  # callers without a type checker pass anything
    if isinstance(given, type):
        got = f"the class {given.__name__} itself (pass an instance)"
    elif isinstance(given, ChatModel) and callable(given.complete):
        return given
    elif callable(given):
        return CallableModel(given)
    else:
        got = f"{given!r:.80}"
    msg = (
        f"llm cannot be {got}. It may be None, an object with `async complete(messages) -> Reply`, "
        'an async function `(messages) -> str`, a model string such as "openai:gpt-5-mini", or a pydantic-ai Model.'
    )
    raise ConfigError(msg)
