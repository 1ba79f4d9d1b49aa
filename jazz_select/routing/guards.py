"""What keeps a guess from running the wrong tool. Pure.

A guess may overlook how something is said, never what: not a word that undoes another,
not one that the tool does not know, not an action that nobody asked for.
"""

from collections.abc import Sequence

from jazz_select.routing.likeness import Fit, known_words, name_words
from jazz_select.routing.names import NamedTool, stems
from jazz_select.routing.vocabulary import (
    ACTING,
    BEHIND,
    CONNECTING,
    DIRECTION,
    LOOKING,
    NEGATION,
    are_opposites,
)


def objection(fit: Fit, tool: NamedTool) -> str:
    """Why `tool` may not be run for what was asked; empty where it may."""
    checks = (_destroys, _undone, _strange, _idle, _turned_round, _overdone)
    return next((told for check in checks if (told := check(fit, tool))), "")


def _destroys(_: Fit, tool: NamedTool) -> str:
    return f"{tool.name} destroys something, so it is never run on a guess" if tool.destructive else ""


def _undone(fit: Fit, tool: NamedTool) -> str:
    denied = [word for word in fit.unmatched if word in NEGATION]
    if denied:
        return f"{denied[0]!r} is no part of {tool.name}"
    own = (*fit.unasked, *(word for word in name_words(tool) if word not in fit.matched.values()))
    for asked in fit.unmatched:
        for word in own:
            if are_opposites(asked, word):
                return f"{tool.name} says {word!r} where {asked!r} was asked for"
    return ""


def _strange(fit: Fit, tool: NamedTool) -> str:
    strange = [word for word in fit.unmatched if word not in CONNECTING and word not in known_words(tool)]
    return f"{tool.name} knows nothing of {_quoted(strange)}" if strange else ""


def _idle(fit: Fit, tool: NamedTool) -> str:
    """`refund` asks for an act, and check_refund_eligibility only looks."""
    acts = set(fit.asked) <= ACTING - LOOKING
    return f"{tool.name} does not {' and '.join(fit.asked)}" if acts and _verb(tool) not in fit.matched.values() else ""


def _turned_round(fit: Fit, tool: NamedTool) -> str:
    """`word_to_pdf` for `pdf_to_word`: with a direction in it, a name means what its order says."""
    order = [fit.form.words.index(fit.matched[word]) for word in fit.asked if word in fit.matched]
    has_direction = bool(DIRECTION & {*fit.asked, *fit.form.words})
    return f"{tool.name} goes the other way" if has_direction and order != sorted(order) else ""


def _overdone(fit: Fit, tool: NamedTool) -> str:
    """What the tool does beyond the words that were asked for.

    A name of a tool that only looks may say more closely what it looks at; a capability is asked for as a whole.
    """
    provider = stems(tool.provider)
    own = [word for word in fit.unasked if word not in provider and _counts(word)]
    if fit.form.is_name and _verb(tool) in LOOKING:
        own = [word for word in own if word in ACTING - LOOKING]
    return f"{tool.name} would do more than was asked: {_quoted(own)}" if own else ""


def _counts(word: str) -> bool:
    return word not in CONNECTING and word not in BEHIND


def _quoted(words: Sequence[str]) -> str:
    return " and ".join(map(repr, words))


def _verb(tool: NamedTool) -> str:
    """The first verb in a tool's name: `check` in check_refund_eligibility, where `refund` is none."""
    return next((word for word in name_words(tool) if word in LOOKING | ACTING), "")
