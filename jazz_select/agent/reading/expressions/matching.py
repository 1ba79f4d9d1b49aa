"""Match tokens against patterns of senses, so that every token is in the pattern or says nothing."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from jazz_select.agent.reading.expressions.tokens import Token

Pattern = tuple[str, ...]
Values = tuple[Any, ...]
"""What the tokens of a pattern say, in order."""
_BESIDE: Final = "beside"


def assign(pattern: Pattern, tokens: Sequence[Token], beside: Collection[str]) -> Values | None:
    """Return what each token of a pattern says, or None if a token is neither in it nor one that says nothing.

    Args:
        pattern: Senses in order.
        tokens: All tokens of the text.
        beside: The senses of tokens that say nothing here, such as "beside_day".
    """
    return _assign(pattern, tokens, beside, 0, 0)


def _assign(
    pattern: Pattern, tokens: Sequence[Token], beside: Collection[str], place: int, start: int
) -> Values | None:
    if start == len(tokens):
        return () if place == len(pattern) else None
    senses = tokens[start].senses
    if place < len(pattern) and pattern[place] in senses:
        rest = _assign(pattern, tokens, beside, place + 1, start + 1)
        if rest is not None:
            return (senses[pattern[place]], *rest)
    if is_beside(tokens[start], beside):
        return _assign(pattern, tokens, beside, place, start + 1)
    return None


def is_beside(token: Token, beside: Collection[str]) -> bool:
    """Whether a token says nothing here."""
    return _BESIDE in token.senses or any(each in token.senses for each in beside)


def senses_of(tokens: Sequence[Token]) -> set[str]:
    """Return all that these tokens may mean: a pattern of another sense cannot match, and is not tried."""
    known: set[str] = set()
    for token in tokens:
        known.update(token.senses)
    return known


def first_match(
    patterns: Sequence[tuple[Pattern, Callable[[Values], Values]]], tokens: Sequence[Token], beside: Collection[str]
) -> Values:
    """Return the readings of tokens by the first pattern that has any; () if none has."""
    known = senses_of(tokens)
    length = len(tokens)
    for pattern, read in patterns:
        if len(pattern) > length or not known.issuperset(pattern):
            continue
        values = assign(pattern, tokens, beside)
        if values is None:
            continue
        readings = read(values)
        if readings:
            return readings
    return ()
