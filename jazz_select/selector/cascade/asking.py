"""Asking the user: a question made of what tells the flows apart that are left, and which of them an answer names."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import beginning, in_one_line, in_words, nfkc
from jazz_select.values import Candidate, Decision

FEWEST, MOST = 2, 3
"""So many flows are asked about: one is no question, and of four nobody reads the last."""
_IN_QUESTION = 0.1
"""How likely a flow is, beside the likeliest one, that is still in question."""
_LONGEST, _LONGEST_REQUEST = 200, 2_000
_LONGEST_ANSWER, _MOST_WORDS = 200, 12
"""Of an answer that only names one of several; what is longer says more than that."""
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?:option|number|no|nr|the)? ?#? ?(\d{1,2})(?:st|nd|rd|th)?(?: one| option)?(?: please)?")
_PLACE = re.compile(
    r"(?:i want |i mean |i meant |take )?(?:the )?(first|second|third|last)(?: one| option)?(?: please)?"
)
_PLACES: Final = {"first": 1, "second": 2, "third": 3}
_NONE: Final = frozenset(
    ("no", "none", "neither", "none of these", "none of those", "none of them", "neither of these", "neither of them")
)
_TURNING: Final = frozenset(
    (
        *("no", "not", "don", "dont", "isn", "never", "neither", "nor", "none", "without", "except", "instead"),
        *("but", "rather", "nicht", "kein", "keine"),
    )
)
"""Words after which an answer may name what is not meant."""


def question_in(asked: object) -> UserQuestion | None:
    """The question of a decision, or the one that was given; None where there is none.

    Raises:
        ConfigError: It is neither.
    """
    question = asked.question if isinstance(asked, Decision) else asked
    if question is not None and not isinstance(question, UserQuestion):
        msg = f"asked is the decision that a question came with, or the question, not {asked!r:.80}"
        raise ConfigError(msg)
    return question


def in_question(candidates: Sequence[Candidate], chances: Mapping[str, float]) -> list[Candidate]:
    """Those that may be meant, the likeliest first: all, where nobody knows how likely they are."""
    if not chances:
        return [*candidates]
    order = sorted(candidates, key=lambda each: -chances.get(each.flow_id, 0.0))
    most = chances.get(order[0].flow_id, 0.0) if order else 0.0
    return [each for each in order if chances.get(each.flow_id, 0.0) >= _IN_QUESTION * most]


def question_of(candidates: Sequence[Candidate], flows: Mapping[str, BaseFlow], request: str) -> UserQuestion | None:
    """What to ask about these flows; None where they are not two or three that can run."""
    live = [(each, flows[each.flow_id]) for each in candidates if each.flow_id in flows]
    if not FEWEST <= len(live) <= MOST:
        return None
    options = tuple(
        UserOption(flow_id=flow.id, flow_name=flow.name, title=flow.display_name, says=says)
        for (_, flow), says in zip(live, _apart([flow for _, flow in live]), strict=True)
    )
    lines = (
        f"{number}. {in_one_line(each.title)}{f': {each.says}' if each.says else ''}"
        for number, each in enumerate(options, start=1)
    )
    text = "\n".join(("Which of these do you mean?", *lines))
    return UserQuestion(text=text, options=options, request=beginning(request, _LONGEST_REQUEST))


def _apart(flows: Sequence[BaseFlow]) -> list[str]:
    """What is said of each: what it leads to, where that tells them apart; else when it is right, or what it does."""
    effects = [[in_one_line(each).strip(" .") for each in flow.desired_effects] for flow in flows]
    shared = set(effects[0]).intersection(*effects[1:])
    said = ["; ".join(each for each in own if each and each not in shared) for own in effects]
    for other in ("condition", "description"):
        if all(said) and len({*said}) == len(said):
            break
        said = [in_one_line(str(getattr(flow, other))).strip(" .") for flow in flows]
    return [beginning(each, _LONGEST) for each in said]


def named_in(answer: str, options: Sequence[UserOption]) -> UserOption | Literal[False] | None:
    """Which option an answer names: by number, place, title, name, or by words that it alone has.

    Returns:
        The option; False where it says that none is meant; None where it names none of them, or more than one.
    """
    if len(answer) > _LONGEST_ANSWER:
        return None
    words = _words(answer)
    said = " ".join(words)
    if said in _NONE:
        return False
    if found := _NUMBER.fullmatch(said) or _PLACE.fullmatch(said):
        place = _PLACES.get(found[1], len(options)) if not found[1].isdecimal() else int(found[1]) or len(options) + 1
        return options[place - 1] if place <= len(options) else None
    named = [each for each in options if said in {" ".join(_words(each.title)), " ".join(_words(each.flow_name))}]
    if named:
        return named[0] if len(named) == 1 else None
    if len(words) > _MOST_WORDS or _TURNING & {*words}:
        return None
    told = [option for option, own in zip(options, _own_words(options), strict=True) if own & {*words}]
    return told[0] if len(told) == 1 else None


def _own_words(options: Sequence[UserOption]) -> list[set[str]]:
    """The words of each option that no other one has."""
    every = [{*_words(f"{each.title} {in_words(each.flow_name)} {each.says}")} for each in options]
    return [own - _union(every[:place] + every[place + 1 :]) for place, own in enumerate(every)]


def _union(sets: Collection[set[str]]) -> set[str]:
    return {word for each in sets for word in each}


def _words(text: str) -> list[str]:
    return _WORD.findall(nfkc(text).casefold())
