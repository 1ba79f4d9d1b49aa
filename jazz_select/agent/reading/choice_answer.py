"""Read an answer to a question with choices: one that is named by some of its words, or one that there is not. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from jazz_select.agent.conversation import InputOptions, OpenFlow
from jazz_select.agent.option_names import option_named
from jazz_select.agent.reading.grounding import EDGES, Wanted, is_choice, normalized
from jazz_select.agent.titles import shown_value
from jazz_select.consent import has_denial, is_courtesy, read_consent
from jazz_select.lexicon import ordinal_words
from jazz_select.phrases import QUESTION_MARKS, phrases
from jazz_select.selector.asking import named_in
from jazz_select.stages import UserOption
from jazz_select.text import in_words
from jazz_select.texts import say

_MOST_WORDS: Final = 2
_LONGEST: Final = 60
_MOST_AROUND: Final = 6


def named_choice(waiting: OpenFlow, wanted: Mapping[str, Wanted], message: str) -> dict[str, Any]:
    """Return the choice of a tool's list that a message names, if the input of that list is asked for alone."""
    if len(wanted) != 1:
        return {}
    (name,) = wanted
    options = waiting.options.get(name)
    if options is None or QUESTION_MARKS & set(message):
        return {}
    value = option_named(options, _without_courtesies(message))
    if value is None:
        value = _label_within(options, message)
    # A number may be meant as a value, and not as a place in the list.
    if value is None and options.is_whole and not any(map(str.isdigit, message)):
        listed = [UserOption(flow_id=label, flow_name=label, title=label) for label in options.labels]
        option = named_in(message, listed)
        if option:
            value = option_named(options, option.title)
    if value is None:
        return {}
    return {name: value}


def named_reading(waiting: OpenFlow, wanted: Mapping[str, Wanted], message: str) -> dict[str, Any]:
    """Return the reading that an answer names by its place, of those that were asked about: "the second"."""
    name = next(iter(wanted), "")
    readings = waiting.choices.get(name, ())
    if len(readings) < 2 or any(map(str.isdecimal, message)) or QUESTION_MARKS & set(message):  # noqa: PLR2004
        return {}
    place = _place_named(message)
    if 0 < place <= len(readings):
        return {name: readings[place - 1]}
    listed = [UserOption(flow_id=str(place), flow_name="", title=str(each)) for place, each in enumerate(readings)]
    option = named_in(_without_courtesies(message), listed)
    if not option:
        return {}
    return {name: readings[int(option.flow_id)]}


def _place_named(message: str) -> int:
    """Return the place that a message names by an ordinal, from 1, and nothing beside it but an article; else 0."""
    places: list[int] = []
    others: list[str] = []
    words = normalized(_without_courtesies(message)).split()
    for word in [each.strip(EDGES) for each in words]:
        if word in ordinal_words():
            places.append(ordinal_words()[word])
        else:
            others.append(word)
    if len(places) != 1 or len(others) > 1:
        return 0
    table = phrases()
    if others and others[0] not in table["articles"] and others[0] not in table["names"]:
        return 0
    return places[0]


def _label_within(options: InputOptions, message: str) -> Any:
    """Return the only value whose label a short message holds whole, and does not deny: "in the lobby"; else None."""
    words = [word.strip(EDGES) for word in normalized(message).split()]
    if len(words) > _MOST_AROUND or has_denial(message) or not options.is_whole:
        return None
    text = f" {' '.join(words)} "
    values = [value for value, label in options.entries if f" {normalized(label)} " in text]
    return values[0] if len(values) == 1 else None


def unknown_choice(wanted: Mapping[str, Wanted], message: str) -> dict[str, str]:
    """Return what to tell the user of an answer in one or two words that is none of the choices, by input.

    The caller has ruled out that the message is an answer, or that it means another flow.
    """
    answer = _without_courtesies(message)
    if len(wanted) != 1 or not answer or len(answer) > _LONGEST or len(answer.split()) > _MOST_WORDS:
        return {}
    ((name, want),) = wanted.items()
    if not is_choice(want) or QUESTION_MARKS & set(message):
        return {}
    if is_courtesy(message) or read_consent(message).answer != "neither":
        return {}
    return {name: say("wrong_value", value=shown_value(answer), input=in_words(name))}


def _without_courtesies(message: str) -> str:
    courtesies = phrases()["courtesy"]
    words = message.split()
    while len(words) > 1 and normalized(words[-1].strip(EDGES)) in courtesies:
        words.pop()
    while len(words) > 1 and normalized(words[0].strip(EDGES)) in courtesies:
        words.pop(0)
    return " ".join(words).strip(EDGES + " ")
