"""Asking the user: a question made of what tells the flows apart that are left, and which of them an answer names."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, cast

from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import beginning, in_one_line, in_words, nfkc
from jazz_select.values import Candidate, Decision


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


FEWEST, MOST = 2, 3
"""So many flows are asked about: one is no question, and of four nobody reads the last."""
_IN_QUESTION = 0.1
"""How likely a flow is, beside the likeliest one, that is still in question."""
_LONGEST, _LONGEST_REQUEST = 200, 2_000
_LONGEST_ANSWER, _MOST_WORDS = 200, 12
"""Of an answer that only names one of several; what is longer says more than that."""
_LONGEST_OPTION = 1_000
"""Characters of an option that are read: a question that comes back may say anything."""
_ASKS = re.compile("[?\u061f]")
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"(?:option|number|no|nr|the)? ?#? ?(\d{1,2})(?:st|nd|rd|th)?(?: one| option)?(?: please)?")
_PLACE = re.compile(
    r"(?:i want |i mean |i meant |take )?(?:the )?(first|second|third|last)(?: one| option)?(?: please)?"
)
_PLACES: Final = {"first": 1, "second": 2, "third": 3}
_NONE: Final = frozenset(
    ("no", "none", "neither", "none of these", "none of those", "none of them", "neither of these", "neither of them")
)
_TURNING: Final = _listed("""
    no not t don dont didnt doesnt isnt wont cant cannot never neither nor none without except besides apart instead
    but rather other than else both either all any if unless
    nein nicht kein keine keinen keiner nie ohne statt außer sondern beide wenn falls
    non pas ni sans sauf sinon mais autre nunca pero otro otra senza ma altro altra нет не без кроме
""")
"""Words after which an answer may name what is not meant, or more than one; "t" is what is left of "didn't"."""
_COMMON: Final = _listed("""
    a about again an and are as ask at be been can could d did do does for from get give go had has have he her here
    him his how i in is it its just like ll m may me mean meant my need now of on once one only option or our out over
    please re s same shall she should so some take that the their them then there these they thing this those to too
    up us ve very want wanted was we were what when where which who why will with would yes you your
    aber am an auf aus bei bin bis bitte da das dass dein dem den der des die dies diese du ein eine einen einem einer
    er es hat ich ihr im ist ja mein meine mich mir mit möchte nach oder sein sich sie sind um und uns von vor war
    wer wie wir wo zu zum zur au aux avec ce ces cette dans de du elle en est et il je la le les leur mes mon nous ou
    par pour que qui sa se ses son sur tu un une vous al con cuando del el esta este las lo los mi o para por su una
    y yo che chi ci di e gli ho il io mio nel per si sono su uno и в на я что это
""")
"""Words that stand in answers to anything: that one option alone has them says nothing."""


def question_in(asked: object) -> UserQuestion | None:
    """The question of a decision, or the one that was given; None where there is none.

    Raises:
        ConfigError: It is neither, or no question that can be read: it may have been kept where anyone can write.
    """
    question = asked.question if isinstance(asked, Decision) else asked
    if question is None:
        return None
    if not isinstance(question, UserQuestion):
        msg = f"asked is the decision that a question came with, or the question, not {asked!r:.80}"
        raise ConfigError(msg)
    if not _is_readable(question):
        msg = "asked is a question whose text, request and options are not what a decision came with: give it as it was"
        raise ConfigError(msg)
    return question


def _is_readable(question: UserQuestion) -> bool:
    options = cast("object", question.options)
    if not isinstance(options, tuple | list):
        return False
    texts: list[object] = [question.text, question.request]
    for each in cast("Sequence[object]", options):
        if not isinstance(each, UserOption):
            return False
        texts += (each.flow_id, each.flow_name, each.title, each.says)
    return all(isinstance(each, str) for each in texts)


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
        return options[place - 1] if 0 < place <= len(options) else None
    named = [each for each in options if said in {" ".join(_words(each.title)), " ".join(_words(each.flow_name))}]
    if named:
        return named[0] if len(named) == 1 else None
    if len(words) > _MOST_WORDS or _TURNING & {*words} or _ASKS.search(nfkc(answer)):
        return None
    return _told_by(frozenset(words) - _COMMON, options)


def _told_by(said: AbstractSet[str], options: Sequence[UserOption]) -> UserOption | None:
    """The only option with words of its own among these; None where as many of them are no option's at all.

    "Cancel the refund" has a word of the refund, and is no wish for one.
    """
    every = [
        {*_words(beginning(f"{each.title} {in_words(each.flow_name)} {each.says}", _LONGEST_OPTION))}
        for each in options
    ]
    having = Counter(word for words in every for word in words if word in said)
    told = [place for place, words in enumerate(every) if any(having[word] == 1 for word in words & said)]
    if len(told) != 1:
        return None
    own = sum(having[word] == 1 for word in every[told[0]] & said)
    return options[told[0]] if len(said - having.keys()) < own else None


def _words(text: str) -> list[str]:
    return _WORD.findall(nfkc(text).casefold())
