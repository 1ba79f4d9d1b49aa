"""What of a flow is embedded and indexed, and what of a request. Pure."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from jazz_select.values import FlowCard

MAX_QUERY_CHARS = 8_000
"""A longer request is cut: what it asks for stands in the first pages, and embedding time grows with length."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def clean(text: str) -> str:
    """The text without control characters and lone surrogates, which no engine takes; white space stays apart."""
    return _CONTROL.sub(" ", text).strip()


def spoken_name(name: str) -> str:
    """The name as words: `refund_order` and `refundOrder` are both "refund order"."""
    return " ".join(re.split(r"[\W_]+", _CAMEL.sub(" ", name))).strip()


def dense_texts(card: FlowCard) -> tuple[str, ...]:
    """The texts whose mean vector stands for the flow.

    With examples: "name: description. condition" and each example, so that the
    prototype lies where requests lie. Without: everything there is as one text,
    since name and description alone lose 5–10 points of recall on tool sets.
    """
    if not card.examples:
        return (clean(card.text) or spoken_name(card.name),)
    header = f"{spoken_name(card.name)}: {card.description} {card.condition}"
    return tuple(clean(text) for text in (header, *card.examples))


def lexical_text(card: FlowCard) -> str:
    """The text whose words the lexical arm indexes."""
    return clean(card.text) or " ".join(dense_texts(card))


def payload(card: FlowCard) -> dict[str, Any]:
    """What is stored beside the vectors and comes back with a hit."""
    return {
        "flow_id": card.id,
        "flow_name": clean(card.name),
        "flow_type": card.type,
        "description": clean(card.description),
        "condition": clean(card.condition),
        "desired_effects": [clean(effect) for effect in card.desired_effects],
        "priority": list(card.priority),
    }


def fingerprint(card: FlowCard, layout: str) -> str:
    """Changes when the flow, the text that is embedded, or the way it is embedded changes."""
    parts: Sequence[str] = (layout, card.checksum, lexical_text(card), *dense_texts(card), repr(payload(card)))
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:32]
