"""A candidate as a model sees it, and how several are made to fit a budget of tokens. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from xml.etree import ElementTree as ET

from jazz_select.text import at_most, at_word, clean, cut, estimate_tokens, shortened
from jazz_select.values import Candidate

DESCRIPTION_LIMIT: Final = 1_500
EFFECTS_LIMIT: Final = 20
SHORT_LIMIT: Final = 200
_SHORTEST: Final = 40
"""Characters below which a description or an effect says too little to be worth its tokens."""
_TAGS, _MARK = 22, 3
"""Tokens of a flow's tag with its attributes' names, and of the mark where a text was cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is shown of one candidate."""

    id: str
    """What it is called: its id, or its position as text."""
    name: str
    description: str
    condition: str
    effects: tuple[str, ...]
    examples: tuple[str, ...]

    @classmethod
    def of(cls, candidate: Candidate, examples: Sequence[str], notes: list[str]) -> "Shown":
        """All of it, but for texts that nobody would want whole."""
        label = f"flow {cut(candidate.flow_name or candidate.flow_id, SHORT_LIMIT)!r}"
        effects = at_most(candidate.desired_effects, EFFECTS_LIMIT, f"the desired effects of {label}", notes)
        return cls(
            id=clean(candidate.flow_id),
            name=shortened(candidate.flow_name, SHORT_LIMIT, f"the name of {label}", notes),
            description=shortened(candidate.description, DESCRIPTION_LIMIT, f"the description of {label}", notes),
            condition=candidate.condition,
            effects=tuple(shortened(effect, SHORT_LIMIT, f"a desired effect of {label}", notes) for effect in effects),
            examples=tuple(at_word(example, SHORT_LIMIT) for example in examples),
        )

    def element(self) -> ET.Element:
        """As XML: attributes, since closing tags are tokens that say nothing."""
        fields = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "condition": self.condition,
            "desired_effects": "; ".join(self.effects),
            "examples": " | ".join(self.examples),
        }
        return ET.Element("flow", {name: clean(text) for name, text in fields.items() if text or name == "id"})

    @property
    def tokens(self) -> int:
        """About how many it takes."""
        texts = (self.id, self.name, self.description, self.condition, *self.effects, *self.examples)
        return _TAGS + sum(map(estimate_tokens, texts))


def fitted(cards: Sequence[Shown], tokens: int, notes: list[str]) -> list[Shown]:
    """The candidates within so many tokens together, as far as that can be done without losing what decides."""
    kept = list(cards)
    for note, step in _STEPS:
        if _total(kept) <= tokens:
            break
        before, kept = kept, step(kept, tokens)
        if note and kept != before:
            notes.append(f"{note}, so that the candidates take about {tokens} tokens in the prompt")
    return kept


def _total(cards: Sequence[Shown]) -> int:
    return sum(card.tokens for card in cards)


def _numbered(cards: list[Shown]) -> list[Shown]:
    """Positions instead of ids, which are long and mean nothing to a model; a reply may use either.

    Not where some flow goes by a number itself, since a reply could then mean two.
    """
    if any(text.strip().isdecimal() for card in cards for text in (card.id, card.name)):
        return cards
    return [replace(card, id=str(number)) for number, card in enumerate(cards, start=1)]


def _trimmed(
    cards: list[Shown], tokens: int, text_of: Callable[[Shown], str], with_text: Callable[[Shown, str], Shown]
) -> list[Shown]:
    """The long texts trimmed to one length, so that all fits; the short ones stay."""
    taken = [estimate_tokens(text_of(card)) for card in cards]
    room = tokens - (_total(cards) - sum(taken))
    most = _level(taken, room)
    return [
        with_text(card, at_word(text_of(card), max(_SHORTEST, (most - _MARK) * len(text_of(card)) // took)))
        if took > most
        else card
        for card, took in zip(cards, taken, strict=True)
    ]


def _level(taken: Sequence[int], room: int) -> int:
    """The height to which water rises in vessels of these sizes: the most that each may take, so that all fit."""
    left, most = room, 0
    for number, took in enumerate(sorted(taken)):
        most = left // (len(taken) - number)
        if took > most:
            return max(most, 0)
        left -= took
    return max(taken, default=0)


def _described(card: Shown, text: str) -> Shown:
    return replace(card, description=text)


def _with_effects(card: Shown, text: str) -> Shown:
    return replace(card, effects=(text,))


_STEPS: tuple[tuple[str, Callable[[list[Shown], int], list[Shown]]], ...] = (
    ("", lambda cards, _: _numbered(cards)),
    ("examples were left out", lambda cards, _: [replace(card, examples=()) for card in cards]),
    (
        "descriptions were shortened",
        lambda cards, tokens: _trimmed(cards, tokens, lambda card: card.description, _described),
    ),
    (
        "desired effects were shortened",
        lambda cards, tokens: _trimmed(cards, tokens, lambda card: "; ".join(card.effects), _with_effects),
    ),
)
"""What gives way, in this order. Ids say nothing, examples are a help, and conditions never give way."""
