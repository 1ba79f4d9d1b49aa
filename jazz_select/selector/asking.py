"""Asks the user which flow is meant: builds the question from what distinguishes the flows, and reads the answer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, replace
from functools import cache
from typing import Final, Literal

from jazz_select.consent import is_every, read_consent
from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.phrases import phrases
from jazz_select.serialization import value_of
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import beginning, in_one_line, in_words, nfkc
from jazz_select.texts import say
from jazz_select.values import Candidate, Decision

FEWEST, MOST = 2, 3
"""How many flows a question may offer: one is no question, and nobody reads the fourth."""
_IN_QUESTION = 0.1
"""Smallest probability of an offered flow, relative to the likeliest."""
_LONGEST, _LONGEST_REQUEST = 200, 2_000
_LONGEST_ANSWER = 200
"""Maximum length of an answer that only names an option; a longer one says more."""
_MOST_WORDS: Final = 5
_LONGEST_OPTION = 1_000
"""Maximum length of an option's text that is read: a question that comes back is not trusted."""
_MOST_OPTIONS, _MOST_LETTERS = 100, 100_000
"""Limits of a question that comes back: reading more would block other requests."""
_ASKS = re.compile("[?\u061f]")
_AFTER_ONE: Final = re.compile(r"\s*(?:[,;:.!?\u061f]+|\s[-\u2013\u2014])(?:\s+|$)")
"""What separates an option's number from the rest of an answer: "3, it says error 55", but not "3.5"."""
_ASKED_BACK = re.compile("[^?\u061f,;:.!]{1,60}[?\u061f]")
"""A question at the start of an answer: "number 3? what is that"."""
_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_OPENING: Final = "(?:i want |i mean |i meant |i choose |i'd like |i would like |i'll take |i'll have |take )?(?:the )?"
_NUMBER: Final = re.compile(rf"{_OPENING}(?:option|number|no|nr)? ?(\d{{1,2}})(?:st|nd|rd|th)?(?: one| option)?")
_PLACE: Final = re.compile(rf"{_OPENING}(first|second|third|last)(?: one| option)?")
_IN_WORDS: Final = re.compile(rf"(?:{_OPENING}(?:option|number) )?(one|two|three)")
"""A number word counts without "option" only if it is the whole answer: "I would like two" may mean both."""
_ONE_AND_MORE: Final = re.compile(
    rf"{_OPENING}(?:(?:option|number) (\d{{1,2}}|one|two|three)|(first|second|third|last) (?:one|option))(?: (.*))?"
)
"""An unmistakable number or place, whatever follows: "number three for card L 9"."""
_PLACES: Final = {"first": 1, "second": 2, "third": 3, "one": 1, "two": 2, "three": 3}
_ADDING_NOTHING: Final = frozenset({"courtesy", "yes", "no", "beside", "none"})
_ABOUT_IT: Final = frozenset({"place", "own", "shared", "chooses", "unsure", "denies", *_ADDING_NOTHING})
"""Kinds of words that only answer the question: a message of these alone is no new request."""


_NOT_AS_IT_WAS: Final = (
    "asked is a question whose text, request and options are not what a decision came with: give it as it was"
)
NO_QUESTION: Final = "asked= has a decision that carries no question, so this is read as a request of its own"


def question_in(asked: object) -> UserQuestion | None:
    """Return the question of a decision, or the given one; None if there is none.

    Raises:
        ConfigError: It is neither, or a malformed question: it may have been stored where anyone can write.
    """
    question = asked.question if isinstance(asked, Decision) else asked
    if question is None:
        return None
    if not isinstance(question, UserQuestion):
        raise ConfigError(f"asked must be the decision that a question came with, or the question, got {asked!r:.80}")
    try:
        known = value_of(UserQuestion, asdict(question))
    except (ConfigError, TypeError, RecursionError) as error:
        raise ConfigError(_NOT_AS_IT_WAS) from error
    texts = [known.text, known.request]
    for option in known.options:
        texts += astuple(option)
    is_as_given = known == replace(question, options=tuple(question.options))
    if not is_as_given or len(known.options) > _MOST_OPTIONS or sum(map(len, texts)) > _MOST_LETTERS:
        raise ConfigError(_NOT_AS_IT_WAS)
    return known


def in_question(candidates: Sequence[Candidate], chances: Mapping[str, float], *, at_least: int = 0) -> list[Candidate]:
    """Return the candidates that may be meant, likeliest first: all of them where no probability is known."""
    order = sorted(candidates, key=lambda each: -chances.get(each.flow_id, 0.0))
    most = chances.get(order[0].flow_id, 0.0) if order else 0.0
    near = [each for each in order if chances.get(each.flow_id, 0.0) >= _IN_QUESTION * most]
    return order[: max(len(near), at_least)]


def flow_question(
    candidates: Sequence[Candidate], flows: Mapping[str, BaseFlow], request: str, *, more: bool = False
) -> UserQuestion | None:
    """Return the question about two or three live flows; None for another number of them.

    With `more`, it says that the user may mean something else.
    """
    live = [flows[each.flow_id] for each in candidates if each.flow_id in flows]
    if not FEWEST <= len(live) <= MOST:
        return None
    options: list[UserOption] = []
    lines = [say("which")]
    for flow, says in zip(live, _distinct_descriptions(live), strict=True):
        options.append(UserOption(flow_id=flow.id, flow_name=flow.name, title=flow.display_name, says=says))
        line = f"{len(options)}. {in_one_line(flow.display_name)}"
        lines.append(f"{line}: {says}" if says else line)
    if more:
        lines.append(say("something_else"))
    return UserQuestion(
        text="\n".join(lines), options=tuple(options), request=beginning(request, _LONGEST_REQUEST), more=more
    )


def open_question(question: UserQuestion | None, candidates: Sequence[Candidate]) -> UserQuestion | None:
    """Return the question if all its options are among `candidates`: it must not reveal a flow to whom it is closed."""
    if question is None:
        return None
    offered = {each.flow_id for each in candidates}
    return question if all(each.flow_id in offered for each in question.options) else None


def _distinct_descriptions(flows: Sequence[BaseFlow]) -> list[str]:
    """Return distinct descriptions: effects that are not shared; else conditions, or what the flows do."""
    effects = [list(map(_without_end, flow.desired_effects)) for flow in flows]
    shared = set(effects[0]).intersection(*effects[1:])
    texts: list[str] = []
    for own in effects:
        texts.append("; ".join(effect for effect in own if effect and effect not in shared))
    for other in ("condition", "description"):
        if all(texts) and len(set(texts)) == len(texts):
            break
        texts = [_without_end(str(getattr(flow, other))) for flow in flows]
    return [beginning(text, _LONGEST) for text in texts]


def _without_end(text: str) -> str:
    return in_one_line(text).strip(" .")


def named_in(answer: str, options: Sequence[UserOption]) -> UserOption | Literal[False] | None:
    """Return the option that an answer names by number, place, title, name, or words that only it has.

    Other words make it a new request, except words of choosing. More text may follow a number or place, unless it
    denies it or names another option.

    Returns:
        The option; False where the answer declines all or cancels the question; None where it names none, or several.
    """
    if len(answer) > _LONGEST_ANSWER:
        return None
    plain = _plain(answer)
    named = [each for each in options if plain and plain in {_plain(each.title), _plain(each.flow_name)}]
    if named:
        return named[0] if len(named) == 1 else None
    if plain in phrases()["none"] or read_consent(answer) == ("no", ""):
        return False
    placed = _option_number(answer, options)
    if placed is not None:
        place, alone = placed
        return options[place - 1] if alone and 0 < place <= len(options) else None
    words = _words_with_options(answer, options)
    numbers: set[int] = set()
    for kind, places in words:
        if kind == "own":
            numbers |= places
    only_chooses = {kind for kind, _ in words} <= {"own", "shared", "chooses", "courtesy"}
    if not only_chooses or len(numbers) != 1 or _ASKS.search(nfkc(answer)):
        return None
    return options[min(numbers) - 1]


def ends(answer: str, options: Sequence[UserOption]) -> bool:
    """Whether an answer cancels the question, as "cancel" or "stop, please" does, unless an option has that name."""
    return named_in(answer, options) is False and read_consent(answer).answer == "no"


def repeat_question(question: UserQuestion, answer: str) -> UserQuestion | None:
    """Return the question once more, with the same numbers, where an answer addresses it but names no single option.

    After a number out of range it states the range, once. After two options ("both"), a denial, or a counter-question
    ("what do you mean?"), it asks to name one.
    """
    count = len(question.options)
    if not count or len(answer) > _LONGEST_ANSWER or named_in(answer, question.options) is not None:
        return None
    placed = _option_number(answer, question.options)
    place = None if placed is None else placed[0]
    if count <= FEWEST:
        numbers = f" {say('or')} ".join(map(str, range(1, count + 1)))
    else:
        numbers = say("from_to", first=1, last=count)
    if place is not None and not 0 < place <= count:
        if question.again:  # the range was stated once
            return None
        why = say("no_such_number", number=place, numbers=numbers)
    else:
        kinds = {kind for kind, _ in _words_with_options(answer, question.options)}
        is_about_it = bool(kinds) and kinds <= _ABOUT_IT and kinds != {"courtesy"}
        if placed is None and not is_about_it and not is_every(answer, count):
            return None
        why = say("name_one", numbers=numbers)
    return replace(question, text=f"{why}\n{question.text}", again=True)


def adds_nothing(message: str) -> bool:
    """Whether a message names no flow: courtesy, a plain yes or no, or only a value, such as "card L-9"."""
    if len(message) > _LONGEST_ANSWER:
        return False
    values: list[str] = []
    rest: list[str] = []
    for part in nfkc(message).split():
        is_value = "@" in part or any(map(str.isdigit, part))
        (values if is_value else rest).append(part)
    words = _words_with_options(" ".join(rest), ())
    telling = sum(kind not in _ADDING_NOTHING for kind, _ in words)
    if not values:
        return not telling
    # One word may say what the value is, such as "card" in "card L-9".
    return telling <= 1 and len(values) + telling <= MOST


def _option_number(answer: str, options: Sequence[UserOption]) -> tuple[int, bool] | None:
    """Return the number or place that an answer is or begins with, and whether the rest leaves it unchanged."""
    place = _place(answer, options)
    if place is not None:
        return place, True
    leading = _leading_place(answer, options)
    if leading is None:
        return None
    place, rest = leading
    is_denied = any(kind in {"denies", "no"} for kind, _ in rest)
    names_another = any(places - {place} for _, places in rest)
    asks_back = _ASKED_BACK.match(nfkc(answer)) is not None
    return place, not (is_denied or names_another or asks_back)


def _leading_place(answer: str, options: Sequence[UserOption]) -> tuple[int, list[tuple[str, frozenset[int]]]] | None:
    """Return the number or place that an answer begins with, and the words read after it; None without both.

    A bare "first" or "two" does not count: "first, where is my parcel?"
    """
    found = _ONE_AND_MORE.fullmatch(" ".join(_words(answer)))
    if found is not None:
        return _number_of(found[1] or found[2], options), _words_with_options(found[3] or "", options)
    head, *rest = _AFTER_ONE.split(nfkc(answer).strip(), maxsplit=1)
    place = _place(head, options)
    words = _words(head)
    is_bare = len(words) == 1 and not words[0].isdecimal()
    if place is None or is_bare:
        return None
    behind = _words_with_options(" ".join(rest), options)
    if {kind for kind, _ in behind} <= {"courtesy"}:
        return None
    return place, behind


def _place(text: str, options: Sequence[UserOption]) -> int | None:
    """Return the number or place that the whole answer is, even out of range; else None."""
    plain = _plain(text)
    found = _NUMBER.fullmatch(plain) or _PLACE.fullmatch(plain) or _IN_WORDS.fullmatch(plain)
    return None if found is None else _number_of(found[1], options)


def _number_of(word: str, options: Sequence[UserOption]) -> int:
    """Return the number that a word or digits stand for; "last" is that of the last option."""
    if word.isdecimal():
        return int(word)
    return _PLACES.get(word, len(options))


def _words_with_options(text: str, options: Sequence[UserOption]) -> list[tuple[str, frozenset[int]]]:
    """Return the kind of each word or phrase, with the options that it means, if any.

    "own" is a word of one option, "shared" a word of several, and "" any other word.
    """
    having: dict[str, set[int]] = {}
    for number, option in enumerate(options, start=1):
        shown = f"{option.title} {in_words(option.flow_name)} {option.says}"
        for word in _words(beginning(shown, _LONGEST_OPTION)):
            having.setdefault(word, set()).add(number)
    kinds = _kinds()
    nothing = frozenset[int]()
    found: list[tuple[str, frozenset[int]]] = []
    words = _words(text)
    while words:
        phrase, length = words[0], 1
        for size in range(min(_MOST_WORDS, len(words)), 1, -1):
            if " ".join(words[:size]) in kinds:
                phrase, length = " ".join(words[:size]), size
                break
        kind = kinds.get(phrase, "")
        after = found[-1][0] if found else "chooses"
        place = _place_in(phrase, options, after=after) if length == 1 else 0
        if length == 1 and phrase in having and kind not in {"chooses", "common", "courtesy"}:
            numbers = having[phrase]
            found.append(("own", frozenset(numbers)) if len(numbers) == 1 else ("shared", nothing))
        elif place:
            found.append(("place", frozenset({place})))
        else:
            found.append((kind, nothing))
        words = words[length:]
    return found


def _place_in(word: str, options: Sequence[UserOption], *, after: str) -> int:
    """Return the option that a word inside an answer means, or 0: "error 2" is another number."""
    if word in {"first", "second", "third", "last"}:
        return _PLACES.get(word, len(options))
    if not word.isdecimal() or after in {"", "common"}:
        return 0
    return int(word) if 0 < int(word) <= len(options) else 0


@cache
def _kinds() -> dict[str, str]:
    """Return the kind of each phrase of the table that may answer a question."""
    listed = ("denies", "common", "beside", "yes", "no", "courtesy", "chooses", "unsure", "none")
    kinds: dict[str, str] = {}
    for kind in listed:  # of a phrase with several kinds, the last one counts
        kinds.update(dict.fromkeys(phrases()[kind], kind))
    return kinds


def _plain(text: str) -> str:
    """Return the words of a text without courtesy."""
    plain = " ".join(_words(text))
    for courtesy in sorted(phrases()["courtesy"], key=len, reverse=True):  # "thank you very much" before "thank you"
        plain = f" {plain} ".replace(f" {courtesy} ", " ").strip()
    return plain


def _words(text: str) -> list[str]:
    return _WORD.findall(nfkc(text).replace("\u2019", "'").casefold())
