"""Texts made shorter so that one can see it. Pure."""

from collections.abc import Sequence


def cut(text: str, limit: int) -> str:
    """`text`, or `limit` characters of its beginning and end around a mark that says how many were left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]} [… {len(text) - limit} characters cut …] {text[len(text) - tail :]}"


def at_word(text: str, limit: int) -> str:
    """`text`, or its first words within `limit` characters and a mark; a single long word is cut where it must be."""
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    words, space, _ = head.rpartition(" ")
    return f"{(words if space else head[:limit]).rstrip(' ,;:.')} […]"


def shortened(text: str, limit: int, what: str, notes: list[str]) -> str:
    """`cut`, with a note where something was."""
    if len(text) > limit:
        notes.append(f"{what} was cut from {len(text)} to {limit} characters in the prompt")
    return cut(text, limit)


def at_most(texts: Sequence[str], limit: int, what: str, notes: list[str]) -> Sequence[str]:
    """The first `limit` texts and a mark for the others, with a note where there are any."""
    if len(texts) <= limit:
        return texts
    notes.append(f"{what}: {len(texts) - limit} of {len(texts)} entries were left out of the prompt")
    return [*texts[:limit], f"[… {len(texts) - limit} more …]"]
