"""About how many tokens a text takes. Pure; no provider's tokenizer is at hand before a request is sent."""

import re

_TOKEN = re.compile(
    r"[A-Za-z]{1,7}(?![A-Za-z])|[A-Za-z]{5}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[^\sA-Za-z0-9!-/:-@\[-`{-~]"
)
"""A short word, five letters of a long one, three digits, two punctuation marks, or a character of another script."""


def estimate(text: str) -> int:
    """About how many tokens, rather a few too many than too few."""
    return len(_TOKEN.findall(text))
