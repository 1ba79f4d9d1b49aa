"""What is sent to a service: arguments as JSON values, or an error that says which of them is none.

Nothing is sent as its text that is no JSON: a guard or a tool at the other end would get something else than it was
given here.
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from jazz_select.agent.conversation import Conversation
from jazz_select.errors import ConfigError
from jazz_select.json_values import as_json
from jazz_select.text import describe_error
from jazz_select.values import Message


def sent_json(given: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """A mapping as JSON values, without those that are None, which count as not known.

    Raises:
        ConfigError: A value of it is none.
    """
    if given is None:
        return None
    wrong = next((key for key in cast("Mapping[object, object]", given) if not isinstance(key, str)), None)
    if wrong is not None:
        msg = f"{name} is a mapping of names to values, and {wrong!r:.80} is no name"
        raise ConfigError(msg)
    return {key: _json(value, f"{name}[{key!r:.80}]") for key, value in given.items() if value is not None}


def sent_objects(given: Sequence[Mapping[str, Any]] | None, name: str) -> list[Any] | None:
    """Mappings as JSON values.

    Raises:
        ConfigError: One of them is none.
    """
    if given is None:
        return None
    return [_json({**each}, f"{name}[{place}]") for place, each in enumerate(given)]


def _json(value: object, name: str) -> Any:
    try:
        return as_json(value)
    except Exception as error:  # whatever a value trips over
        msg = f"{name} is no JSON, so that it cannot be sent to a service: {describe_error(error)}"
        raise ConfigError(msg) from error


def sent_history(
    history: Conversation | Sequence[Message] | None, conversation_id: str
) -> tuple[str | list[dict[str, str]] | None, str]:
    """A history as a service takes it, and the id that a new conversation is to be known by.

    A conversation that the service has signed goes back as the text that came. One that was begun here, which it has
    not, goes as messages: the service would not believe anything else of it.

    Raises:
        ConfigError: The history is neither a conversation nor messages.
    """
    if history is None:
        return None, conversation_id
    conversation = Conversation.of(history)
    if conversation.signed_text:
        return conversation.signed_text, conversation_id
    if conversation.flows or conversation.failed or conversation.pending or conversation.calls:
        return conversation.to_json(), conversation_id
    said = [{"role": each.role, "content": each.content} for each in conversation.messages]
    return said or None, conversation_id or ("" if said else conversation.id)
