"""What of a flow is embedded and indexed, and what of a request. Pure."""

import hashlib
import re
from typing import Any

from jazz_select.values import FlowCard

MAX_QUERY_CHARS = 8_000
"""A longer request is cut: what it asks for stands in the first pages, and embedding time grows with length."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"(?<=[.!?;。！？])\s*(?=\S)")
_NAME_WEIGHT = 3


def printable(text: str) -> str:
    """The text without control characters and lone surrogates, which no engine takes; white space stays apart."""
    return text.strip() if text.isprintable() else _CONTROL.sub(" ", text).strip()


def spoken_name(name: str) -> str:
    """The name as words: `refund_order` and `refundOrder` are both "refund order"."""
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", name))).strip()


def folded_alias(text: str) -> str:
    """What two spellings of a name have in common: its words, in lower case."""
    return spoken_name(printable(text)).casefold()


def dense_texts(card: FlowCard) -> tuple[str, ...]:
    """The texts whose mean vector stands for the flow.

    With examples: "name: description. condition" and each example, so that the
    prototype lies where requests lie. Without, as for bare tools: everything there is,
    name and description, the first sentence, and the name. Details such as parameters
    are kept, and do not drown what the tool is.
    """
    name = spoken_name(card.name)
    if card.examples:
        return tuple(printable(text) for text in (f"{name}: {card.description} {card.condition}", *card.examples))
    first = _SENTENCE_END.split(printable(card.description), maxsplit=1)[0]
    texts = (lexical_text(card), f"{name}: {printable(card.description)}", first, name)
    return tuple(text for text in texts if text) or (card.name,)


def lexical_parts(card: FlowCard) -> tuple[str, ...]:
    """The texts whose words the lexical arm indexes; word pairs do not reach from one into the next.

    The name of a flow without examples counts more than its other words: there is little else
    that a request would share with it.
    """
    name = spoken_name(card.name)
    if card.examples:
        parts = (name, card.description, card.condition, *card.desired_effects, *card.aliases, *card.examples)
    else:
        parts = (*[name] * (_NAME_WEIGHT - 1), lexical_text(card))
    return tuple(printable(part) for part in parts)


def lexical_text(card: FlowCard) -> str:
    """All of the flow's own text."""
    return printable(card.text) or f"{spoken_name(card.name)} {printable(card.description)}".strip()


def payload(card: FlowCard) -> dict[str, Any]:
    """What is stored beside the vectors and comes back with a hit."""
    return {
        "flow_id": card.id,
        "flow_name": printable(card.name),
        "flow_type": card.type,
        "description": printable(card.description),
        "condition": printable(card.condition),
        "desired_effects": [printable(effect) for effect in card.desired_effects],
        "priority": list(card.priority),
    }


def fingerprint(card: FlowCard, layout: str) -> str:
    """Changes when the flow, the text that is embedded, or the way it is embedded changes."""
    parts = (layout, card.checksum, *lexical_parts(card), *dense_texts(card), repr(payload(card)))
    return hashlib.sha256("\x1f".join(parts).encode(errors="replace")).hexdigest()[:32]
