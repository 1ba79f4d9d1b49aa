"""Denials: what a request wants that first says what it does not want."""

import re

DENYING = re.compile(r"\b(?:not|no|never|dont|instead|rather)\b|n['’]t\b", re.IGNORECASE)
"""What every denial has in it; most requests have none, and are not looked at more closely."""
_PART = re.compile(r"[,;] ?(?:but |and )?| but ", re.IGNORECASE)
_STOPPED = re.compile(r"[.!?;] ")
_DENIED = re.compile(
    r"(?:please |so |and |no |well )?(?:"
    r"not |no \w|instead of |rather than |(?:do not|don['’]t|dont|never) \w"
    r"|i (?:do not|don['’]t|dont) (?:want|need|mean) "
    r"|i(?:['’]m| am) not \w+ing\b|i (?:haven['’]t|have not|was not|wasn['’]t) "
    r"|(?:it|this|that|the \w+|the \w+ \w+)(?:['’]s not| (?:is|was|did|has|are|were)(?:n['’]t| not)) )",
    re.IGNORECASE,
)
_MOST_CHARS = 160
_MOST_PARTS = 3
_FEWEST_WORDS = 3
MEANT_WEIGHT = 0.5
"""What the wanted part counts beside the whole: with all of it, requests suffer that only seem to deny something."""


def meant(request: str) -> str:
    """The wanted part of "not a refund, an exchange"; empty where nothing is denied, or nothing is left.

    Only a short sentence is read so, and only where what is wanted comes last: "I paid, but it did not arrive" says
    what is wrong, and denies nothing. Both arms would find a refund in it, since they count what is said and know
    no "not".
    """
    text = " ".join(request[: 2 * _MOST_CHARS].split())
    if len(text) > _MOST_CHARS or _STOPPED.search(text):
        return ""
    parts = [part.strip() for part in _PART.split(text) if part.strip()]
    if not 1 < len(parts) <= _MOST_PARTS:
        return ""
    wanted = [part for part in parts if not _DENIED.match(part)]
    if len(wanted) == len(parts) or not wanted or wanted[-1] is not parts[-1]:
        return ""
    left = ", ".join(wanted)
    return left if len(left.split()) >= _FEWEST_WORDS else ""
