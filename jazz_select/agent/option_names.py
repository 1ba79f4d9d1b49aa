"""Show the choices that a tool listed for an input, and find the one that an answer names. Pure."""

from typing import Any, Final

from jazz_select.agent.conversation import InputOptions
from jazz_select.text import nfkc, number_text

_MOST_SHOWN: Final = 20
_EDGES: Final = ".,;:!?()[]\"'…¡¿«»“”„。、"


def shown_labels(options: InputOptions) -> tuple[str, ...]:
    """Return the labels to show with the question; the last one is "…" where there are more."""
    if len(options.entries) <= _MOST_SHOWN:
        return options.labels
    return (*options.labels[:_MOST_SHOWN], "…")


def option_named(options: InputOptions, answer: object) -> Any:
    """Return the value that an answer names: itself, its label, or words of one label alone; else None."""
    wanted = _fold_text(answer)
    for value, label in options.entries:
        if wanted in {_fold_text(value), _fold_text(label)}:
            return value
    # Of a list that goes on, an entry that is not stored may have the same words.
    words = set(wanted.split())
    if not words or not options.is_whole:
        return None
    near = [value for value, label in options.entries if words.issubset(_fold_text(label).split())]
    return near[0] if len(near) == 1 else None


def _fold_text(text: object) -> str:
    words = (word.strip(_EDGES) for word in nfkc(number_text(text)).casefold().split())
    return " ".join(filter(None, words))
