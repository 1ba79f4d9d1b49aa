"""The table of phrases (`phrases.toml`), the language that words tell, and what a question shows, however spelt."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from jazz_select.lexicon import (
    homonyms,
    month_words,
    ordinal_words,
    spelled_number,
    spelled_numbers,
    spoken_time,
    weekday_words,
)
from jazz_select.text import nfkc
from jazz_select.words import ACTING, stem, stems
from jazz_select.words import words as split_name

LONGEST_READ: Final = 4_000
"""The most characters of a message that are read; Unicode folding may turn one into eighteen."""
QUESTION_MARKS: Final = frozenset("?¿？؟")
POINT: Final = "\ue001"
"""Placeholder for a point inside a number or a name."""
KINDS: Final = (
    *("waits", "courtesy", "no", "yes", "beside", "harmless", "unneeded", "heard", "asides", "signs", "reports"),
    *("stops", "extends", "scope", "times", "denies", "points", "names", "between", "adds", "desires", "fills"),
    *("inquires", "complains", "states", "particles"),
)
"""The kinds that words of a message are sorted by; the first one counts where a phrase is of several."""
_TELLING_NO_LANGUAGE: Final = frozenset(
    {
        *("alike", "money", "sorts", "persons", "questions", "doubles", "corrects"),
        *("adverbs", "no_adverbs", "past"),
    }
)
"""Kinds whose rows hold words of any language, or no words but their endings."""
_ONLY_AGREED_IN: Final = frozenset({"nl", "pt"})
"""Languages in which only a yes is read."""
_ABBREVIATED: Final = re.compile(r"(?<=\d)[.](?=\d)|(?<=[\w-])\.(?=\w)")
"""A point inside a number or a name does not end a sentence."""
_GROUPED: Final = re.compile(r"(?<![\w.,])\d{1,3}(?: \d{3})+(?!\w)")
"""A number whose thousands are parted by blanks."""
_TONES: Final = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
"""Skin tones and variation selectors of emoji."""
_APOSTROPHES: Final = re.compile(r"(?<=\w)[\u2018\u2019\u201b\u02bc\u00b4\u0060\u2032\uff07](?=\w)|\u2019")
"""What is typed for an apostrophe inside a word; some of them would be folded into a space and an accent."""
_SPLIT: Final = re.compile(
    r"\b(do|does|did|is|are|was|wo|would|should|could|ca|must|has|have|had)(?:n[ \u0300\u0301]+t| n't)\b", re.IGNORECASE
)
"""A negation whose apostrophe became a space, or an accent over one: "don t"."""
WORD: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|/s|[^\w\s.,;:!?¡¿…。、！؟]")
SENTENCES: Final = re.compile(r"(?:[^.!?;…。！？؟\n]|\.(?=\w))+[.!?;…。！？؟\n]*")
"""A sentence with the marks at its end. A point inside a number or a name ends none."""
_APART: Final = r"\s()\[\]\"\u3040-\u30ff\u4e00-\u9fff"
FIGURE: Final = re.compile(rf"[^,{_APART}]*[\d@](?:[^{_APART}]*[^,.;:!?{_APART}])?")
"""A word with a digit or an @: a number, an amount, an identifier or an address."""
_TOKEN: Final = re.compile(f"{FIGURE.pattern}|{WORD.pattern}")
_OF_A_FIGURE: Final = re.compile(r"[\d@]")
UNPARTED: Final = re.compile("[\u3040-\u9fff\u2600-\u27bf\U0001f000-\U0001faff]")
"""A character of a script without spaces, or a picture."""
_ANSWERING: Final = ("yes", "no", "stops", "waits", "courtesy")
_HIRAGANA: Final = re.compile("[\u3041-\u309f]")
_LEAST_HIRAGANA: Final = 4
"""The letters between words by which a Japanese sentence is told from a name."""
_LEAST_WORDS, _LEAST_TELLING = 3, 2
"""The least words of a sentence, and those of them that tell its language."""
_SCRIPTS: Final = {"ja": re.compile("[\u3040-\u30ff\u4e00-\u9fff]"), "ru": re.compile("[\u0400-\u04ff]")}


@cache
def _tables() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))


@cache
def _languages() -> Mapping[str, Mapping[str, list[str]]]:
    """Return the tables of the languages in which everything is read."""
    return {language: kinds for language, kinds in _tables().items() if language not in _ONLY_AGREED_IN}


@cache
def phrases() -> Mapping[str, frozenset[str]]:
    """Return the phrases of all languages by kind, as `phrases.toml` explains them."""
    found: dict[str, set[str]] = {}
    for kinds in _languages().values():
        for kind, listed in kinds.items():
            found.setdefault(kind, set()).update(map(folded, listed))
    return {kind: frozenset(each) for kind, each in found.items()}


@cache
def phrases_in(language: str, kind: str) -> frozenset[str]:
    """Return the phrases of a kind in a language, or in all if it is unknown."""
    known = _tables().get(language)
    if known is None:
        return phrases()[kind]
    return frozenset(map(folded, known.get(kind, ())))


@cache
def phrases_for(language: str, kind: str) -> frozenset[str]:
    """Return the phrases of a kind that a message in a language may use.

    A phrase that the language has itself, of whatever kind, is none of another language.
    """
    if language not in _tables():
        return phrases()[kind]
    own = phrases_in(language, kind)
    return own | (phrases()[kind] - _all_phrases(language))


@cache
def endings_in(language: str, kind: str) -> tuple[str, ...]:
    """Return the endings of a kind of words in a language; none if the language is not known."""
    return tuple(phrases_in(language, kind)) if language in _tables() else ()


@cache
def _all_phrases(language: str) -> frozenset[str]:
    found: set[str] = set()
    for kind, listed in _tables()[language].items():
        if kind in KINDS:
            found.update(map(folded, listed))
    return frozenset(found)


@cache
def kinds_in(language: str) -> Mapping[str, str]:
    """Return the kind of each phrase. What a phrase is in this language counts before what it is in others."""
    found: dict[str, str] = {}
    for known in (language, "") if language in _tables() else ("",):
        for kind in KINDS:
            for phrase in phrases_in(known, kind):
                found.setdefault(" ".join(tokens(phrase)), kind)
    return found


@cache
def beginnings_in(language: str) -> Mapping[str, int]:
    """Return how many words the longest phrase has that begins with a word, by that word."""
    longest: dict[str, int] = {}
    for phrase in kinds_in(language):
        words = phrase.split(" ")
        longest[words[0]] = max(longest.get(words[0], 1), len(words))
    return longest


@cache
def _words_by_language(*, is_yes: bool = False) -> Mapping[str, frozenset[str]]:
    words: dict[str, set[str]] = {}
    for language, kinds in (_tables() if is_yes else _languages()).items():
        own = words.setdefault(language, set())
        for kind, listed in kinds.items():
            if kind not in _TELLING_NO_LANGUAGE:
                own.update(chain.from_iterable(map(WORD.findall, listed)))
    count = Counter(chain.from_iterable(words.values()))
    # A word of two languages tells neither.
    return {language: frozenset(word for word in own if count[word] == 1) for language, own in words.items()}


def language_of(message: str) -> str:
    """Return the language of a message, such as "de", if the table has it; empty if its words do not tell.

    A script used by one language of the table tells it at once, if most of the letters are of it.
    """
    text = folded(message[:LONGEST_READ])
    # A letter alone is short for a word of some language ("x", "d'"), but whoever types one may mean anything.
    if len(text.strip()) == 1 and text.isascii():
        return ""
    return _most_told(_telling_words(text, _words_by_language()))


def language_of_yes(message: str) -> str:
    """Return `language_of` an answer, among these also the languages in which only a yes is read."""
    return _most_told(_telling_words(folded(message[:LONGEST_READ]), _words_by_language(is_yes=True)))


def _most_told(counts: Mapping[str, int]) -> str:
    first, second = sorted(counts.values(), reverse=True)[:2]
    if first == second:
        return ""
    return max(counts, key=counts.__getitem__)


def sentence_language(message: str) -> str | None:
    """Return the language of a sentence, or of a whole phrase of the table such as "cancel"; None for anything else.

    A sentence has at least three words, two of which tell its language. So a name or an address is none.
    """
    text = folded(message[:LONGEST_READ])
    language = language_of(message)
    if not language:
        return None
    words = [word for word in WORD.findall(text) if any(map(str.isalpha, word))]
    if words and all(word in _answering_words(language) for word in words) and not any(map(str.isdecimal, text)):
        return language
    if language == "ja":
        return language if len(_HIRAGANA.findall(text)) >= _LEAST_HIRAGANA else None
    own = sum(word in _own_words(language) and not _is_of_value(word) for word in words)
    return language if len(words) >= _LEAST_WORDS and own >= _LEAST_TELLING else None


def _is_of_value(word: str) -> bool:
    """Whether a word is part of a day or a number, which tells no language: "le premier mai" is not Italian."""
    return any(word in each for each in (month_words(), weekday_words(), ordinal_words()))


def _telling_words(text: str, telling: Mapping[str, frozenset[str]]) -> Mapping[str, int]:
    """Return how many words of a folded text tell each language."""
    words = WORD.findall(text)
    counts = {language: sum(word in own for word in words) for language, own in telling.items()}
    letters = sum(map(str.isalpha, text))
    for language, script in _SCRIPTS.items():
        in_script = len(script.findall(text))
        if in_script * 2 > letters:
            counts[language] += len(words) + 1
    return counts


@cache
def _answering_words(language: str) -> frozenset[str]:
    """Return the words of phrases that agree, refuse, thank or ask to wait, which are no values."""
    found: set[str] = set()
    for kind in _ANSWERING:
        found.update(chain.from_iterable(map(WORD.findall, phrases_in(language, kind))))
    return frozenset(found)


@cache
def _own_words(language: str) -> frozenset[str]:
    """Return all words of a language in the table, those of other languages too."""
    found: set[str] = set()
    for kind, listed in _languages().get(language, {}).items():
        if kind not in _TELLING_NO_LANGUAGE:
            for phrase in listed:
                found.update(WORD.findall(folded(phrase)))
    return frozenset(found)


def plain(message: str) -> str:
    """Remove invisible characters, keeping the user's letters; points inside numbers and names become `POINT`."""
    seen = "".join(each for each in message if unicodedata.category(each) != "Cf")
    text = _TONES.sub("", nfkc(_APOSTROPHES.sub("'", seen))).strip()
    return _ABBREVIATED.sub(POINT, text)


def folded(message: str) -> str:
    """Return `plain` without capitals."""
    return plain(message).casefold()


def with_whole_words(text: str) -> str:
    """Return a plain text with its numbers and negations each in one word."""
    joined = _GROUPED.sub(lambda found: found.group().replace(" ", ""), text)
    return _SPLIT.sub(r"\1n't", joined)


def tokens(text: str) -> list[str]:
    """Return the words, the figures and the single signs of a text, in order."""
    if not _OF_A_FIGURE.search(text):
        return WORD.findall(text)
    # To look for a figure in a part without a digit takes time by the square of its length.
    found: list[str] = []
    for part in text.split():
        pattern = _TOKEN if _OF_A_FIGURE.search(part) else WORD
        found += pattern.findall(part)
    return found


def has_any(text: str, listed: Iterable[str]) -> bool:
    """Whether a text contains one of these phrases; in scripts without spaces, anywhere."""
    words = f" {' '.join(WORD.findall(text))} "
    return any(f" {each} " in words or (each in text and UNPARTED.search(each) is not None) for each in listed)


# The readers of values say what a text says as a whole. A yes is none for each figure that its question does not show,
# wherever it stands and whatever is around it; so figures are looked for one by one, by the patterns below.
_HOURS: Final = frozenset({"pm", "uhr"})
"""Marks of a time of the day that mean nothing else."""
_CLOCK: Final = re.compile(
    r"(?<![\w:])(?P<hour>\d{1,2})(?:[:.](?P<minute>\d\d))?\s*(?P<half>am|pm|a\.m\.?|p\.m\.?|uhr|uur|h)(?!\w)"
    r"|(?<![\w:])(?P<whole>\d{1,2})[:h](?P<part>\d\d)(?!\d)"
)
_DAY: Final = re.compile(r"(?<!\w)\d{1,4}([-./])\d{1,2}\1\d{1,4}(?!\w)|(?<!\w)\d{1,2}/\d{1,2}(?!\w)")
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d")
_OFFSET: Final = re.compile(
    r"(?P<clock>t\d\d:\d\d|:\d\d:\d\d(?:\.\d+)?) ?(?:utc|gmt)?-\d\d:\d\d"
    r"|(?P<any>:\d\d(?:\.\d+)?) ?(?:utc|gmt)?\+\d\d:\d\d"
)
"""A time in ISO 8601 with its offset, which is no time of the day. "10:00-12:00" are two."""
_BETWEEN: Final = re.compile(r"(?<=\d-\d\d)t(?=\d\d:\d\d)")
"""What stands between a day and a time in ISO 8601."""
_DIGITS: Final = re.compile(r"\d+")
_AMOUNT: Final = re.compile(
    r"(?:us)?[€$£¥₹₽]?(?P<digits>\d[\d.,']*?)[.,]?(?:st|nd|rd|th|er|ème|º|ª|s)?(?:[€$£¥₹₽円]|eur|usd|gbp|chf)?"
)
_ENDING: Final = frozenset({"cancel", "close", "delete", "remove", "block", "terminate"})
"""Verbs of what is no longer needed."""
_EDGES: Final = ".,;:!?#"
_RUN: Final = re.compile("[\u4e00-\u9fff]+|[\u30a0-\u30ff]+")
"""A word in a script without spaces."""
_CYRILLIC: Final = re.compile("[\u0400-\u04ff]")
_SHORTEST_ENDING: Final = 4
"""The least digits or letters by which the end of a number or a word names it: "the card ending in 4242"."""
_ENDINGS: Final = ("e", "en", "er", "es", "em")
_SHORTEST_OF_LONG: Final = 3
"""Likewise of a number that is twice as long: "the one ending 418"."""
_MOST_NAMED: Final = 3
"""The most words of a name."""
_SHORTEST_FORM: Final = 5
"""The least letters by which two forms of a Russian word are told to be of one."""
_PRONOUNS: Final = ("lo", "la", "le", "los", "las", "les")
"""What Spanish and Italian verbs end with."""
_HALF_A_DAY: Final = 12
_HALF_A_CLOCK: Final = 720
"""The minutes of half a day."""
_GROUP: Final = 3
"""The digits of a group of thousands."""
_REFUSING: Final = frozenset({"no", "denies", "stops", "waits", "scope", "times"})
_OF_ANY_SENTENCE: Final = frozenset(
    {"names", "fills", "between", "points", "adds", "inquires", "courtesy", "asides", "yes"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The question that a message may answer.

    Attributes:
        words: The words of the question that an answer may repeat: the tool's name, title and effect.
        arguments: The call's arguments, as shown.
    """

    words: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])


NOTHING_ASKED: Final = Asked()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a question shows.

    Attributes:
        words: Its words, and those that say the same.
        deeds: Those of them that say what would be done.
        runs: Its words in scripts without spaces, the longest first.
        figures: Its words with a digit or an @.
        numbers: Its numbers.
        days: Its dates.
        times: Its times of the day, such as "18:00".
        money: Its currencies.
        has_names: Whether one of its values is a name, such as a person's, by the capitals of all its words.
        sorts: The words of each sort of which a value is one, such as all colours.
    """

    words: frozenset[str]
    deeds: frozenset[str]
    runs: tuple[str, ...]
    figures: frozenset[str]
    numbers: frozenset[Decimal]
    days: frozenset[date]
    times: frozenset[str]
    money: frozenset[str]
    has_names: bool
    sorts: tuple[frozenset[str], ...]

    @classmethod
    def by(cls, asked: Asked) -> "Shown":
        """Return what a question shows."""
        values = " ".join(_texts(asked.arguments))
        text = nfkc(f"{asked.words} {values}").casefold()
        words = _words(asked.words, but=frozenset({"denies"}) | _OF_ANY_SENTENCE)
        # A value may be a "no" or a "stop": a refusal is then no repetition of it.
        words |= _words(values, but=_REFUSING | _OF_ANY_SENTENCE)
        words = words.union(*(_synonyms().get(each, ()) for each in words))
        figures: set[str] = set()
        for figure in FIGURE.findall(text):
            figures.add(figure)
            figures.update(part.strip(_EDGES) for part in (figure, *figure.split("/")))
        numbers: set[Decimal] = set()
        for figure in figures:
            number = _number(figure)
            if number is not None:
                numbers.add(number)
        days: set[date] = set()
        for written in _ISO.findall(text):
            day = _day(written)
            if day is not None:
                days.add(day)
                numbers.update((Decimal(day.day), Decimal(day.year)))
        known = kinds_in("")
        runs: set[str] = set()
        for each in (text, *words):
            runs.update(run for run in _RUN.findall(each) if known.get(run, "no") == "no")
        return cls(
            words=frozenset(words),
            deeds=_deeds(asked.words),
            runs=tuple(sorted(runs, key=len, reverse=True)),
            figures=frozenset(figures),
            numbers=frozenset(numbers),
            days=frozenset(days),
            times=frozenset(map(_time, _CLOCK.finditer(_without_offsets(text)))),
            money=frozenset(_currencies()[each] for each in _moneys(text)),
            has_names=any(_is_name(name, value) for name, value in asked.arguments.items()),
            sorts=tuple(sort for sort in _sorts() if not sort.isdisjoint(WORD.findall(values.casefold()))),
        )

    @property
    def ends(self) -> bool:
        """Whether what would be done ends something, so that "I no longer need it" agrees."""
        return not _ENDING.isdisjoint(self.deeds)

    def has(self, word: str) -> bool:
        """Whether a word is one of the question's, or a form or the end of one."""
        if _has_form(self.words, word):
            return True
        is_part = len(word) >= _SHORTEST_ENDING and not _CYRILLIC.match(word) and word not in kinds_in("")
        return is_part and any(each.endswith(word) for each in self.words)

    def has_inflected(self, word: str) -> bool:
        """Whether a German or Dutch word is one of the question's with the ending of an adjective: "witte" of "wit"."""
        for ending in _ENDINGS:
            bare = word.removesuffix(ending)
            if bare == word or len(bare) <= 2:  # noqa: PLR2004 - too short to tell
                continue
            single = bare[:-1] if bare[-1] == bare[-2] else bare  # "wit" doubles its last letter in "witte"
            if bare in self.words or single in self.words:
                return True
        return False

    def does(self, word: str) -> bool:
        """Whether a word says what would be done."""
        return _has_form(self.deeds, word)

    def other(self, text: str, *, spelt: bool) -> str:
        """Return the first number, date, time or currency in a text that the question does not show, or "".

        Args:
            text: The text.
            spelt: Whether numbers, months and weekdays in words count.
        """
        text = text.replace(POINT, ".")
        other = self._unshown_part(text.casefold(), spelt=spelt)
        written = re.search(re.escape(other), text, re.IGNORECASE)
        return written.group() if written else other

    def spoken_time(self, words: Sequence[str], start: int) -> tuple[int, str] | None:
        """Return where a time of the day in words ends, and the shown time that it is; None if none begins."""
        found = spoken_time(words, start) if self.times else None
        if found is None:
            return None
        for each in self.times:
            hours, minutes = map(int, each.split(":"))
            if (hours * 60 + minutes) % _HALF_A_CLOCK == found[1]:
                return found[0], each
        return None

    def _unshown_part(self, text: str, *, spelt: bool) -> str:
        for found in _CLOCK.finditer(text):
            if _time(found) not in self.times:
                return found.group()
        text = _CLOCK.sub(" ", text)
        for found in _DAY.finditer(text):
            if not self._has_day(found.group()):
                return found.group()
        text = _DAY.sub(" ", text)
        for figure in FIGURE.findall(text):
            if not self._has_figure(figure):
                return figure
        for written in _moneys(text):
            if self.money and _currencies()[written] not in self.money:
                return written
        if not spelt:
            return ""
        return self._other_word(WORD.findall(text))

    def _has_day(self, written: str) -> bool:
        parts = {int(each) for each in _DIGITS.findall(written)}
        return any(parts <= {each.day, each.month, each.year, each.year % 100} for each in self.days)

    def _has_figure(self, figure: str) -> bool:
        bare = figure.strip(_EDGES)
        if {figure, bare} & self.figures or _number(bare) in self.numbers:
            return True
        if not bare.isdecimal() or len(bare) < _SHORTEST_OF_LONG:
            return False
        least = 0 if len(bare) >= _SHORTEST_ENDING else len(bare) * 2
        return any(each.endswith(bare) and len(each) >= least for each in self.figures)

    def _other_word(self, words: Sequence[str]) -> str:
        """Return the first number, month or weekday in words that the question does not show, or ""."""
        for start, end, value in spelled_numbers(words):
            if words[start] not in homonyms() and value > 1 and value not in self.numbers:
                return " ".join(words[start:end])
        for place, word in enumerate(words):
            if word in self.words or word in homonyms():
                continue
            beside = words[max(place - 1, 0) : place + 2]
            is_day = word not in kinds_in("") or any(each.isdecimal() for each in beside)  # "mon" is French as well
            if (is_day and self._is_other_day(word)) or self._is_other_ordinal(word):
                return word
        return ""

    def _is_other_day(self, word: str) -> bool:
        """Whether a word is a month or a weekday of no day that the question shows."""
        weekday, month = weekday_words().get(word), month_words().get(word)
        is_other_weekday = weekday is not None and weekday not in {each.weekday() for each in self.days}
        return is_other_weekday or (month is not None and month not in {each.month for each in self.days})

    def _is_other_ordinal(self, word: str) -> bool:
        ordinal = ordinal_words().get(word)
        return ordinal is not None and ordinal not in {each.day for each in self.days}


def describe_other(written: str) -> str:
    """Return what something is that a question does not show: an amount, a number, a time or a thing."""
    word = written.casefold()
    parts = word.split()
    if _moneys(word):
        return "amount"
    is_day = any(each in month_words() or each in weekday_words() for each in parts)
    if is_day or _CLOCK.fullmatch(word) or _DAY.fullmatch(word):
        return "time"
    is_number = _number(word) is not None or any(spelled_number((each,)) is not None for each in parts)
    return "number" if is_number else "thing"


def is_figure(word: str) -> bool:
    """Whether a word is a number, in digits or in words, an address, a currency, or a day."""
    if any(each.isdigit() for each in word) or "@" in word or word in _currencies() or word in _HOURS:
        return True
    if word in homonyms():
        return False
    is_named = any(word in each for each in (ordinal_words(), month_words(), weekday_words()))
    return is_named or spelled_number((word,)) is not None


def is_run(word: str) -> bool:
    """Whether a word is one of a script without spaces, such as a noun in Japanese."""
    return _RUN.fullmatch(word) is not None


def _words(text: str, *, but: frozenset[str]) -> set[str]:
    """Return the words of a text that are not of these kinds."""
    known = kinds_in("")
    found = {*WORD.findall(text.casefold()), *stems(text)}
    return {each for each in found if known.get(each) not in but and any(map(str.isalpha, each))}


def _deeds(asked: str) -> frozenset[str]:
    """Return the verbs of what would be done, and the words that say the same; `asked` begins with a tool's name.

    The last of several words of a name is an object, even if it is spelt like a verb: the order in "cancel_order".
    """
    names = [split_name(each) for each in asked.split()]
    parts = [word for name in names if len(name) > 1 for word in name[:-1]]
    # From the surest on: a verb before an object, the verb that is the whole name, any verb in the words.
    verbs = ACTING.intersection(parts)
    if not verbs and names:
        verbs = ACTING.intersection(names[0])
    if not verbs:
        verbs = ACTING.intersection(chain.from_iterable(names))
    if not verbs:
        verbs = frozenset(parts[:1])  # no verb is known: names begin with one
    return verbs.union(*(_synonyms().get(each, ()) for each in verbs))


def _has_form(words: frozenset[str], word: str) -> bool:
    """Whether words have a word, or a form of it."""
    if not words.isdisjoint((word, stem(word), _without_pronoun(word))):
        return True
    if word.isascii() and word in kinds_in(""):
        return False
    bare = _without_accents(word)
    return len(bare) >= _SHORTEST_ENDING and any(_is_form(bare, each) for each in words)


def _is_form(word: str, of: str) -> bool:
    """Whether a word may be another form of one: "anúlalo" of "anular", "Анне" of "Анна"."""
    if _CYRILLIC.match(word):
        is_long = min(len(word), len(of)) >= _SHORTEST_FORM and word[:_SHORTEST_FORM] == of[:_SHORTEST_FORM]
        return is_long or (len(word) == len(of) and word[:-1] == of[:-1])
    begins = max(len(of) - 2, _SHORTEST_ENDING)
    return len(of) > _SHORTEST_FORM and of not in ACTING and word.startswith(_without_accents(of)[:begins])


def _is_name(argument: str, value: object) -> bool:
    """Whether a value is a name: a few words, each of letters alone and with a capital; one word only of a person."""
    words = value.split() if isinstance(value, str) else []
    if not 0 < len(words) <= _MOST_NAMED or not all(each.isalpha() and each.istitle() for each in words):
        return False
    return len(words) > 1 or not phrases()["persons"].isdisjoint(WORD.findall(argument.casefold().replace("_", " ")))


def _texts(value: object) -> Iterator[str]:
    """Yield the names and values within arguments as texts."""
    if isinstance(value, Mapping):
        for name, each in cast("Mapping[object, object]", value).items():
            yield str(name).replace("_", " ")
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in cast("Sequence[object]", value):
            yield from _texts(each)
    elif isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        yield str(value)


@cache
def _currencies() -> Mapping[str, str]:
    """Return the currency of each of its names and signs."""
    found: dict[str, str] = {}
    for row in phrases()["money"]:
        words = row.split()
        found |= dict.fromkeys(words, words[0])
    return found


@cache
def _sorts() -> tuple[frozenset[str], ...]:
    """Return the words of each sort of values, in all languages."""
    return tuple(frozenset(row.split()) for row in phrases()["sorts"])


@cache
def _synonyms() -> Mapping[str, frozenset[str]]:
    """Return the words that say the same as a word."""
    found: dict[str, frozenset[str]] = {}
    for row in phrases()["alike"]:
        words = frozenset(row.split())
        for word in words:
            found[word] = found.get(word, frozenset()) | words
    return found


def _moneys(text: str) -> list[str]:
    """Return the names and signs of currencies in a text."""
    known = _currencies()
    signs_and_names = [*text, *re.findall(r"[^\W\d_]{2,}", text)]
    return [each for each in signs_and_names if each in known]


def _without_accents(word: str) -> str:
    return "".join(each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))


def _without_pronoun(word: str) -> str:
    """Return a verb of Spanish, Italian or French without the pronoun at its end: "págala"."""
    if not word.endswith(_PRONOUNS):
        return word
    plain = _without_accents(word)
    return (plain[:-3] if plain.endswith("s") else plain[:-2]).rstrip("-")


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _without_offsets(text: str) -> str:
    """Return a text with its days and times in ISO 8601 apart, and without their offsets."""
    bare = _OFFSET.sub(lambda found: f"{found['clock'] or found['any']} ", text)
    return _BETWEEN.sub(" ", bare)


def _time(found: re.Match[str]) -> str:
    """Return a time of the day as "18:00"."""
    hour, minute = int(found["hour"] or found["whole"]), found["minute"] or found["part"] or "00"
    half = (found["half"] or "").replace(".", "")
    if half in {"am", "pm"}:
        hour = hour % _HALF_A_DAY + (_HALF_A_DAY if half == "pm" else 0)
    return f"{hour:02}:{minute}"


def _number(written: str) -> Decimal | None:
    """Return the number that a word in digits is. A single mark before three digits parts thousands."""
    found = _AMOUNT.fullmatch(written)
    if found is None:
        return None
    digits = found["digits"].rstrip(".,'").replace("'", "")
    marks = [each for each in digits if each in ".,"]
    if not marks:
        return Decimal(digits)
    last = re.split("[.,]", digits)[-1]
    if len(marks) > 1:
        has_fraction = len(set(marks)) > 1  # "1.234,5": the last one differs from those of thousands
    else:
        has_fraction = len(last) != _GROUP or digits.startswith("0")
    if not has_fraction:
        return Decimal(re.sub("[.,]", "", digits))
    whole = re.sub("[.,]", "", digits[: -len(last) - 1])
    return Decimal(f"{whole}.{last}")
