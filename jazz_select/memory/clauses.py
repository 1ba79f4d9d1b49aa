"""A request that asks for several things, taken apart. Pure."""

import re

_JOINT = re.compile(
    r"(?<=[.!?;。！？；])\s*(?=\S)"
    r"|,?\s+(?:and then|and also|and|then|also|as well as|plus|additionally|after that)\s+"
    r"|(?:，|、)?(?:然后|并且|而且|另外|还有)",
    re.IGNORECASE,
)
_MIN_WORDS = 3
_MIN_LETTERS = 4
"""Where no spaces stand between words, letters are counted instead."""
MAX_CLAUSES = 6


def clauses(text: str) -> tuple[str, ...]:
    """The parts of a request that may each ask for something of its own; none where it is all of one piece.

    Cut at the ends of sentences and at words such as "and" or "then". A part that is too short to ask for anything
    joins the next.
    """
    parts: list[str] = []
    pending = ""
    for piece in _JOINT.split(text):
        pending = f"{pending} {piece.strip()}".strip()
        if _says_something(pending):
            parts.append(pending)
            pending = ""
    if pending and parts:
        parts[-1] = f"{parts[-1]} {pending}"
    return tuple(parts) if 1 < len(parts) <= MAX_CLAUSES else ()


def _says_something(text: str) -> bool:
    words = text.split()
    return len(words) >= _MIN_WORDS or (not text.isascii() and len(text) >= _MIN_LETTERS)
