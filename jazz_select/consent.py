"""Read a yes or a no, and the rest of the message, by one table of phrases (`phrases.toml`).

A message is read as sentences, clauses and phrases of the table. By the table alone a yes is a sentence of which every
word is known. Where a model quotes the words that agree, an unknown word changes nothing: a rule has to see what makes
the yes none, and names it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import chain, pairwise, product
from typing import Final, Literal, NamedTuple

from jazz_select.lexicon import LANGUAGES, homonyms, lexicon_of, month_words, ordinal_words, spelled_number, unit_words
from jazz_select.phrases import (
    LONGEST_READ,
    NOTHING_ASKED,
    POINT,
    QUESTION_MARKS,
    SENTENCES,
    UNPARTED,
    WORD,
    Asked,
    Shown,
    beginnings_in,
    describe_other,
    endings_in,
    folded,
    has_any,
    is_figure,
    is_run,
    kinds_in,
    language_of,
    language_of_yes,
    phrases,
    phrases_for,
    phrases_in,
    plain,
    tokens,
    with_whole_words,
)
from jazz_select.words import ACTING, stems

Answer = Literal["yes", "no", "neither"]
_AGREEING: Final = frozenset({"yes", "beside"})
_ANSWERING: Final = _AGREEING | {"no", "denies"}
_NEUTRAL: Final = frozenset({"courtesy", "asides", "harmless", "signs", "between"})
"""The kinds of words that change nothing."""
_CHANGING: Final = frozenset({"scope", "times"})
"""The kinds of words that name another thing or another time, where they are said of the call."""
_HARMFUL: Final = frozenset({"no", "denies", "stops", "waits"}) | _CHANGING
_NAMING: Final = frozenset({"names", "points", "own", "figure", "adds"}) | _CHANGING
"""The kinds of words that name a thing."""
_UNREAD: Final = {
    "scope": "it names something else",
    "stops": "it makes a condition or a change",
    "denies": "it denies something",
    "unneeded": "it denies something",
}
"""What may be said of something else, which no rule can tell: where no model has read it, it makes a yes none."""
_LONGEST_SENTENCE: Final = 200
_MOST_WORDS: Final = 8
"""The most words of a phrase of the table."""
_MOST_SIGNED: Final = 4
"""The most words of a name at the end of a letter."""
_BEARING: Final = _AGREEING | {"figure"}
"""The kinds of words that make a denial one of the call: "Thursday is no good"."""
_SOFTENED: Final = frozenset({"own", "points", "fills", "states"})
_MOST_LINKING: Final = 3
"""The most words before a reason: "es que"."""
_MOST_BARE: Final = 2
"""The most words that nobody knows of which an answer only names a thing: "store credit"."""
_SHORTEST_VERB: Final = 5
_SHORTEST_STATEMENT: Final = 4
"""The least words of a statement that begins with a verb: "found it cheaper elsewhere"."""
_MOST_COUNTED: Final = 2
"""The most digits of a number of weeks or times that somebody complains of."""
_VERB_SECOND: Final = frozenset({"de", "nl"})
"""Languages in which a subject may stand behind its verb."""
_DENYING_FIRST: Final = frozenset({"es", "pt"})
"""Languages in which a verb is denied by the word that refuses: "no tengo tiempo"."""
_WITH_ARTICLES: Final = frozenset({"es", "fr", "it"})
"""Languages in which an article stands before things."""
_LONGEST_RUN: Final = 24
"""The most letters of a phrase in a script without spaces, and of a name."""
_SHORTEST_PHONE: Final = 6
"""The least digits of a line at the end of a letter, such as a phone number."""
_SHORTEST_FORM: Final = 5
"""The least letters of a verb whose other forms are told by its beginning ("cancel": "cancellation")."""
_ENDS: Final = " \t\n.!"
_EARLIER_MAIL: Final = re.compile(r"-{3,} ?\w.*\w ?-{3,}")
"""A line that parts a mail from an earlier one: "-----Original Message-----"."""
_BLOCKS: Final = re.compile(r"\n[ \t\r]*\n")
_PARTS: Final = re.compile(r"(?<!\d)[,:]|[,:](?!\d)|[;¡¿…、()\[\]\"\n–—]+|\s-\s")
_QUOTED: Final = re.compile(r"[\"“”„«「『]([^\"“”„«»」』]*)[\"“”»」』]")
_ELIDED: Final = re.compile(r"([^\W\d_]{1,5})'([^\W\d_]{3,})")
"""An article or a pronoun before a vowel: "l'ordine"."""
_CONTRACTED: Final = re.compile(
    r"\b(i(?=m\b|ve\b)|you(?=re\b|ve\b|ll\b)|they(?=re\b|ve\b|ll\b)|we(?=ve\b)"
    r"|(?:that|there|what|here|it|let)(?=s\b)|that(?=ll\b)"
    r"|(?:do|ca|wo|did|does|is|was|are|were|have|has|had|could|would|should)n(?=t\b))(m|ve|re|ll|s|t)\b",
    re.IGNORECASE,
)
"""An English contraction without its apostrophe: "thats"."""
_DRAWN_OUT: Final = re.compile(r"(\w)\1{2,}")
"""A letter that is drawn out: "pleaseee"."""
_SHORTEST_ADVERB: Final = 5
_DASHES: Final = ("-", "–", "—")
_CLAUSES: Final = re.compile(r"[.,;:!?…。！？؟()\n–—]+|\s-\s")
_NUMBERED: Final = re.compile(r"\bno\b[.:]?\s*(?=#?\d)")
"""An abbreviated "number", which denies nothing: "order no 60112"."""

_DAY_BEFORE: Final = re.compile(r"(?<=\d)\.(?=\s+([^\W\d_]+))")
"""The point of a day before its month: "15. Mai"."""


class Consent(NamedTuple):
    """The answer in a message.

    Attributes:
        answer: `yes`, `no`, or `neither`, which never counts as a yes.
        rest: The rest of the message, to be read like any other.
    """

    answer: Answer
    rest: str = ""


NEITHER: Final = Consent("neither")


def read_consent(message: str, asked: Asked = NOTHING_ASKED, *, quote: str | None = None) -> Consent:
    """Return whether a message agrees, refuses or does neither, and what else it says.

    By the table alone a yes is a sentence made only of phrases of the table, or of these and words of the question, and
    no other statement stands before it. A no is read likewise. A question ("yes?") answers nothing. A model that read
    the message may find the yes anywhere, by the words that it quotes. `why_no_yes` says what makes it none.

    Args:
        message: What the user says.
        asked: The question.
        quote: The words in which a model that read the message finds a yes; "" if it names none, so that they have to
            be a sentence that is a yes by the table.
    """
    return read_with_reason(message, asked, quote=quote)[0]


def why_no_yes(message: str, asked: Asked = NOTHING_ASKED, *, quote: str | None = None) -> str:
    """Return why a yes in a message does not count, such as "it names another amount, 50".

    Whoever finds the yes: a condition, a denial, another object, amount, time or person, and somebody else's words make
    it none. A signature, thanks, anger or relief beside it changes nothing. Return "" if it counts, or if there is none
    by the table and no model quotes one.
    """
    return read_with_reason(message, asked, quote=quote)[1]


def asks_to_wait(message: str) -> bool:
    """Whether a message only asks for time, which neither agrees nor refuses."""
    if len(message) > LONGEST_READ:
        return False
    kinds = {each.kind for each in _ReadMessage(message, NOTHING_ASKED).labels}
    return "waits" in kinds and kinds <= {"waits", "yes", "beside", "fills", *_NEUTRAL}


def is_courtesy(message: str) -> bool:
    """Whether a message is only thanks or a greeting."""
    if len(message) > LONGEST_READ:
        return False
    labels = _ReadMessage(message, NOTHING_ASKED).labels
    if " ".join(label.phrase for label in labels) in phrases()["yes"]:
        return False  # "please" alone agrees
    return bool(labels) and all(label.kind == "courtesy" for label in labels)


def is_refusal(message: str) -> bool:
    """Whether a message answers no, without cancelling the request itself."""
    words = tokens(folded(message))
    return " ".join(each for each in words if each[0].isalnum() or UNPARTED.match(each)) in phrases()["refuses"]


def is_every(message: str, count: int) -> bool:
    """Whether a message says that all of `count` things are meant: "both of them, please". A question says nothing."""
    if len(message) > LONGEST_READ or not QUESTION_MARKS.isdisjoint(message):
        return False
    table = phrases()
    words = WORD.findall(folded(message))
    polite = table["courtesy"] | table["yes"]
    while words and words[0] in polite:
        words.pop(0)
    while words and words[-1] in polite:
        words.pop()
    counted: set[Decimal] = set()
    for word in words:
        number = spelled_number((word,))
        if number is not None and number > 1:
            counted.add(number)
        if word in table["pair"]:
            counted.add(Decimal(2))
    return " ".join(words) in table["every"] and counted <= {count}


def names_all(message: str) -> bool:
    """Whether a message says that all of several things are meant, beside anything else: "forget both"."""
    return len(message) <= LONGEST_READ and has_any(folded(message), phrases_in(language_of(message), "every"))


def says_only(message: str) -> bool:
    """Whether a message says that nothing but what it names is meant: "only 50 to Sam"."""
    return len(message) <= LONGEST_READ and has_any(folded(message), phrases_in(language_of(message), "only"))


def says_twice(message: str) -> bool:
    """Whether a message says that something is wanted several times, and does not complain how often it was said."""
    if len(message) > LONGEST_READ:
        return False
    text, language = folded(message), language_of(message)
    often = phrases_in(language, "often")
    complaints = phrases_in(language, "complains") | phrases_in(language, "reports")
    for phrase in often:
        complaints -= set(phrase.split())  # "twice" is in both lists, and here it says how often
    return has_any(text, often) and not has_any(text, complaints)


def says_also(message: str, values: Iterable[str]) -> bool:
    """Whether a message says that these values are of one more thing ("and also 30 to Lee"), and changes nothing.

    Some of the words mean this at the end of a clause alone: "30 to Lee too", but "that is too much". In Japanese a
    particle says so behind the value itself.
    """
    if len(message) > LONGEST_READ:
        return False
    text = with_whole_words(folded(message))
    language = language_of(message)
    changes = phrases_in(language, "stops") - phrases_in(language, "also")
    if has_any(text, changes):
        return False
    if has_any(text, phrases_in(language, "also") - phrases_in(language, "last")):
        return True
    last = tuple(f" {word}" for word in phrases_in(language, "last"))
    for clause in _CLAUSES.split(text):
        words = " ".join(WORD.findall(clause))
        if f" {words}".endswith(last):
            return True
    particles = phrases_in(language, "behind")
    return any(f"{folded(value)}{particle}" in text for value, particle in product(values, particles))


def names_some(message: str, count: int) -> bool:
    """Whether a message names some of `count` things alone: "the first", "just one", "both" of three, "for her"."""
    if has_any(folded(message), phrases()["single"]):
        return True
    words = {*WORD.findall(folded(message))} - homonyms()
    if count != 2 and not words.isdisjoint(phrases()["pair"]):  # noqa: PLR2004 - a pair
        return True
    if not words.isdisjoint(phrases()["every"]):
        return False
    return any(each in ordinal_words() or spelled_number((each,)) is not None for each in words)


def is_denied(message: str, names: Sequence[str]) -> bool:
    """Whether a message says that something is not to be done, for a reader that cannot understand it.

    True if a clause begins with a denial ("don't cancel it", "no refund") or calls the wish off ("stop the refund"),
    or if no clause without a denial has a verb of the `names` of what would be done: "I don't want it any more, cancel
    it" asks for "cancel order". A denial of something else stands beside a clear wish: "cancel it, and don't charge
    me". In doubt it is True, so that somebody is asked.
    """
    if len(message) > LONGEST_READ:
        return True
    text = with_whole_words(_NUMBERED.sub(" ", folded(message)))
    clauses: list[list[str]] = []
    for part in _CLAUSES.split(text):
        clauses += filter(None, _without_additions(part))
    verbs = _verbs_in(names)
    is_asked = any(_asks_for(clause, verbs) for clause in clauses)
    is_one = False
    for clause in clauses:
        if not _denies(" ".join(clause)):
            continue
        bare = len(clause) == 1 or " ".join(clause) in phrases()["no"]
        if bare and len(clauses) > 1:
            continue  # "no, cancel it" answers something else first
        is_one = True
        begins_so = clause[0] in phrases()["denies"] or clause[0].endswith("n't") or clause[:2] == ["do", "not"]
        if begins_so and (not is_asked or _mentions(clause, verbs)):
            return True
    if not is_one:
        return any(_calls_off(clause, verbs) for clause in clauses)
    for clause in clauses:
        text = " ".join(clause)
        if verbs.intersection(stems(text)) and not _denies(text):
            return False
    return True


def _verbs_in(names: Sequence[str]) -> frozenset[str]:
    """Return the verbs in names of something to do; all their words if none is known to be a verb.

    The last of several words is an object, even if it is spelt like a verb: the order in "cancel_order".
    """
    every: set[str] = set()
    verbs: set[str] = set()
    for name in names:
        own = stems(name)
        every.update(own)
        verbs.update(own[:-1] if len(own) > 1 else own)
    return frozenset(verbs & ACTING or every)


def _asks_for(clause: Sequence[str], verbs: frozenset[str]) -> bool:
    """Whether a clause begins with one of these verbs, and is no denial and no phrase that calls something off."""
    text = " ".join(clause)
    return not verbs.isdisjoint(stems(clause[0])) and text not in phrases()["no"] and not _denies(text)


def _calls_off(clause: Sequence[str], verbs: frozenset[str]) -> bool:
    """Whether a clause begins with a word that ends something, and then names one of these verbs."""
    ends = phrases()["stops"] | phrases()["no"] | phrases()["waits"]
    return clause[0] in ends and _mentions(clause[1:], verbs)


def _mentions(clause: Sequence[str], verbs: frozenset[str]) -> bool:
    """Whether a clause has one of these verbs, in any form: "cancel" as "cancelled", or as "cancellation"."""
    forms = tuple(verb.removesuffix("e") for verb in verbs if len(verb) >= _SHORTEST_FORM)
    return not verbs.isdisjoint(stems(" ".join(clause))) or any(word.startswith(forms) for word in clause)


def _without_additions(text: str) -> list[list[str]]:
    """Split a clause before words that add something, and drop the courtesies around the words of each part."""
    parts: list[list[str]] = [[]]
    for word in WORD.findall(text):
        if word in phrases()["adds"]:
            parts.append([])
        elif parts[-1] or word not in phrases()["courtesy"]:
            parts[-1].append(word)
    return parts


def _denies(text: str) -> bool:
    return has_any(text, phrases()["denies"]) or any(each.endswith("n't") for each in WORD.findall(text))


def _without_points_of_days(text: str) -> str:
    """Return a text without the points that end no sentence: those of a day before its month."""
    return _DAY_BEFORE.sub(lambda found: "" if found[1].casefold() in month_words() else ".", text)


def has_denial(text: str) -> bool:
    """Whether a text denies anything, such as "it could not be done", by the words of the table."""
    return _denies(folded(text))


# --- a message as sentences, clauses and phrases ---


class _Label(NamedTuple):
    """A phrase of a message and its kind: one of the table, `own` for the question's words, `figure`, or ""."""

    kind: str
    phrase: str
    written: str
    language: str

    @property
    def is_unknown(self) -> bool:
        """Whether it is a word that neither the table nor the question has."""
        return not self.kind and self.written[:1].isalnum()

    @property
    def complains(self) -> bool:
        """Whether it says how long or how often somebody waits or asks."""
        return not phrases_for(self.language, "complains").isdisjoint((self.phrase, *self.phrase.split()))

    @property
    def first(self) -> str:
        """Its first word."""
        return self.phrase.partition(" ")[0]

    def is_any(self, kind: str) -> bool:
        """Whether it is listed as this kind, whatever else it is."""
        return self.phrase in phrases_for(self.language, kind)


@dataclass(frozen=True, slots=True, eq=False)
class _Clause:
    """A part of a sentence between marks."""

    text: str
    words: tuple[str, ...]
    labels: tuple[_Label, ...]

    @property
    def phrases_of_change(self) -> list[_Label]:
        """Its phrases that may change something."""
        return [each for each in self.labels if each.kind not in _NEUTRAL]

    @property
    def changing_text(self) -> str:
        """Its text without the phrases that change nothing, for the numbers and dates in it."""
        return " ".join(each.written for each in self.phrases_of_change)

    def begins(self, kind: str) -> bool:
        """Whether it begins with a phrase that is listed as this kind."""
        return bool(self.labels) and self.labels[0].is_any(kind)


@dataclass(frozen=True, slots=True, eq=False)
class _Sentence:
    """A sentence of a message.

    Attributes:
        text: The sentence as written.
        clauses: Its parts.
        asks: Whether it is a question.
        kind: "yes" or "no" if all of it is one by the table, "beside" if it only approves, "aside" if it changes
            nothing, else "".
        place: Its place among the sentences of the message.
    """

    text: str
    clauses: tuple[_Clause, ...]
    asks: bool
    kind: str
    place: int

    @property
    def labels(self) -> list[_Label]:
        """The phrases of all clauses."""
        return list(chain.from_iterable(each.labels for each in self.clauses))

    @property
    def phrases_of_change(self) -> list[_Label]:
        """The phrases of all clauses that may change something."""
        return list(chain.from_iterable(each.phrases_of_change for each in self.clauses))

    @property
    def is_weak(self) -> bool:
        """Whether it agrees only by a word that may as well mean "I see"."""
        return len(self.phrases_of_change) == 1 and self.phrases_of_change[0].is_any("weak")


class _ReadMessage:
    """A message that may answer a question.

    Attributes:
        language: Its language, if its words tell.
        shown: What the question shows.
        text: The message without the ends of a letter.
        sentences: Its sentences.
        quotes_answer: Whether it has an answer in quotation marks.
        own_whys: What makes a yes in a sentence none, by the place of the sentence, where it was looked for.
        whys: What makes a yes in another sentence none, with the place of the sentence; None until it is looked for.
    """

    def __init__(self, message: str, asked: Asked) -> None:
        self._asked = asked
        self.language = language_of_yes(message)
        self._known = kinds_in(self.language)
        self._begins = beginnings_in(self.language)
        self.shown = Shown.by(asked)
        self._kinds: dict[tuple[str, bool], str] = {}
        self._count = 0
        self.text = self._without_greetings(self.normal(_own_words(message)))
        self.sentences: list[_Sentence] = []
        for part in SENTENCES.findall(self.text):
            if part.strip(_ENDS):
                self.sentences += self._sentences(part.strip())
        if self._is_signed():
            self.sentences.pop()
        quoted = chain.from_iterable(self.labels_of(tokens(each)) for each in _QUOTED.findall(self.text))
        self.quotes_answer = any(label.kind in {"yes", "no", "beside"} for label in quoted)
        self.own_whys: dict[int, str] = {}
        self.whys: list[tuple[int, str]] | None = None

    def normal(self, text: str) -> str:
        """Return a text as it is read: numbers and negations in one word, and contractions with their apostrophe."""
        text = with_whole_words(_without_points_of_days(plain(text)))
        if self.language not in {"en", ""}:
            return text
        return _CONTRACTED.sub(lambda found: found[0] if self._is_german(found) else f"{found[1]}'{found[2]}", text)

    def _is_german(self, found: re.Match[str]) -> bool:
        """Whether what looks like an English contraction may be the German "im"."""
        return not self.language and found[0].casefold() == "im"

    def does(self, label: _Label) -> bool:
        """Whether a word is what the call does."""
        return label.kind == "own" and self.shown.does(label.phrase)

    @property
    def labels(self) -> list[_Label]:
        """The phrases of all sentences."""
        return list(chain.from_iterable(each.labels for each in self.sentences))

    def _is_signed(self) -> bool:
        """Whether the last sentence is only a name, in a message that thanks: "Thanks, go ahead. Tom"."""
        if len(self.sentences) == 1 or self.shown.has_names or not self.sentences:
            return False
        last = self.sentences[-1].labels
        is_name = len(last) == 1 and last[0].is_unknown and last[0].written.istitle() and self.language != "de"
        return is_name and any(each.kind == "courtesy" for each in self.labels)

    def labels_of(self, words: Sequence[str]) -> list[_Label]:
        """Find the phrases in words, the longest first."""
        found: list[_Label] = []
        place = 0
        plain_words = [each.casefold() for each in words]
        while place < len(words):
            time = self.shown.spoken_time(plain_words, place)
            if time:
                found.append(self._label("figure", time[1]))
                place = time[0]
                continue
            label, length = self._longest_at(words, place)
            if label.kind:
                found.append(label)
            else:
                found += self._parts(label.written) or [label]
            place += length
        return found

    def _longest_at(self, words: Sequence[str], place: int) -> tuple[_Label, int]:
        """Return the longest phrase of the table that begins here, or the word; and its number of words."""
        first = words[place].casefold()
        if self._is_month(words, place):
            return self._label("figure", words[place]), 1
        most = min(self._begins.get(first, 1), len(words) - place)
        for length in range(most, 1, -1):
            written = " ".join(words[place : place + length])
            phrase = written.casefold()
            if phrase in self._known:
                return self._label(self._known[phrase], written), length
        key = first, place == 0
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = self._kind(first, is_first=place == 0)
        return self._label(kind, words[place]), 1

    def _label(self, kind: str, written: str) -> _Label:
        return _Label(kind, written.casefold(), written, self.language)

    def _is_month(self, words: Sequence[str], place: int) -> bool:
        """Whether a word beside a number is the month of a day that the question shows: "mai" is a denial as well."""
        month = month_words().get(words[place].casefold())
        if month is None or month not in {each.month for each in self.shown.days}:
            return False
        return any(each[:1].isdigit() for each in words[max(place - 1, 0) : place + 2])

    def _kind(self, word: str, *, is_first: bool) -> str:
        """Return the kind of a word."""
        if word.endswith("n't"):
            return "no" if word in phrases()["no"] else "denies"
        if self.shown.has(word) or (self.language in _VERB_SECOND and self.shown.has_inflected(word)):
            return "own"
        if word == "si" and not is_first:
            return "stops"  # "if", where it does not begin
        if self._known.get(word) == "scope" and spelled_number((word,)) in self.shown.numbers:
            return "figure"
        if word not in self._known and self._is_adverb(word):
            return "fills"
        kind = self._known.get(word) or self._known.get(_DRAWN_OUT.sub(r"\1", word))
        if not kind and is_figure(word.removesuffix("'s")):
            kind = "figure"
        return kind or ""

    def _is_adverb(self, word: str) -> bool:
        """Whether a word is an adverb by its ending, such as "sadly" or "lamentablemente"."""
        if len(word) < _SHORTEST_ADVERB or not word.endswith(endings_in(self.language, "adverbs")):
            return False
        return word not in phrases()["no_adverbs"]

    def _parts(self, written: str) -> list[_Label]:
        """Find the words in one that is written together: after an elision, or in a script without spaces."""
        elided = _ELIDED.fullmatch(written)
        if elided:
            before = elided[1].casefold()
            kind = "denies" if before == "n" else self._kind(before, is_first=False) or "names"
            return [self._label(kind, elided[1]), *self.labels_of([elided[2]])]
        found: list[_Label] = []
        rest = written if UNPARTED.search(written) else ""
        while rest:
            piece = self._longest_piece(rest)
            if piece:
                found.append(self._label(self._kind(piece, is_first=not found), piece))
                rest = rest[len(piece) :]
                continue
            unknown, rest = rest[0], rest[1:]
            if found and not found[-1].kind:
                unknown = found.pop().written + unknown
            found.append(self._label("", unknown))
        return found

    def _longest_piece(self, text: str) -> str:
        """Return the longest phrase with which a text in a script without spaces begins, or ""."""
        for run in self.shown.runs:
            if text.startswith(run):
                return run
        for length in range(min(len(text), _LONGEST_RUN), 0, -1):
            if text[:length] in self._known:
                return text[:length]
        return ""

    def _sentences(self, text: str) -> Iterator[_Sentence]:
        """Read a sentence; a question after a yes or a no ("yes, and is it free?") is one of its own."""
        clauses = tuple(self._clauses(text))
        asks = not QUESTION_MARKS.isdisjoint(text)
        for place, clause in enumerate(clauses):
            if not asks or not place or not (clause.begins("adds") or clause.begins("inquires")):
                continue
            opening = clauses[0].phrases_of_change
            if opening and opening[0].kind in {"yes", "beside", "no"}:
                start = text.rindex(clause.text)
                yield self._sentence(text[:start], clauses[:place], asks=False)
                yield self._sentence(text[start:], clauses[place:], asks=True)
                return
            break
        yield self._sentence(text, clauses, asks=asks)

    def _sentence(self, text: str, clauses: tuple[_Clause, ...], *, asks: bool) -> _Sentence:
        is_readable = not asks and len(text) <= _LONGEST_SENTENCE and not _QUOTED.search(text)
        kind = self._kind_of(clauses) if is_readable else ""
        self._count += 1
        return _Sentence(text.replace(POINT, ".").strip(), clauses, asks, kind, self._count)

    def _clauses(self, text: str) -> Iterator[_Clause]:
        for part in _PARTS.split(text):
            words = tuple(tokens(part))
            labels = tuple(self.labels_of(words))
            if words:
                yield _Clause(part.strip(), words, labels)

    def _kind_of(self, clauses: Sequence[_Clause]) -> str:
        """Return "yes", "no", "beside" or "aside" if clauses are only one by the table, else ""."""
        labels = list(chain.from_iterable(each.labels for each in clauses))
        content = list(chain.from_iterable(each.phrases_of_change for each in clauses))
        if len(clauses) == 1 and _is_greeting(clauses[0]) and _HARMFUL.isdisjoint(each.kind for each in content):
            return "" if self.shown.other(clauses[0].text, spelt=True) else "aside"
        if not content:
            # "Please" is a courtesy, and alone it agrees.
            if " ".join(each.phrase for each in labels) in phrases()["yes"]:
                return "yes"
            return "aside" if labels else ""
        # A lone no counts though it is a word of the question.
        is_lone_no = len(content) == 1 and content[0].is_any("no")
        if is_lone_no or self._hesitates_before_no(content):
            return "no"
        if content[0].kind != "yes" and content[0].is_any("adds"):
            content = content[1:]
        answers = [each.kind for each in content if each.kind != "beside"]
        if not answers:
            return "beside"
        return answers[0] if self._is_answer(clauses, content) else ""

    def _hesitates_before_no(self, content: Sequence[_Label]) -> bool:
        """Whether nothing but a no follows words of second thoughts: "actually, forget it", "wait, no"."""
        corrects = phrases_in(self.language, "corrects")
        first_answer = 0
        for label in content:
            if label.kind != "waits" and label.phrase not in corrects:
                break
            first_answer += 1
        answers = content[first_answer:]
        return bool(first_answer and answers) and all(label.kind == "no" for label in answers)

    def _is_answer(self, clauses: Sequence[_Clause], content: Sequence[_Label]) -> bool:
        """Whether what clauses say is only a yes or only a no, perhaps to words of the question."""
        kinds = {each.kind for each in content} - {"beside"}
        first = next(each for each in content if each.kind != "beside")
        if kinds <= {"no", "waits"} and first.kind == "no":
            return all(each.kind != "beside" for each in content)
        allowed = {"yes", "no", "own", "points", "figure", "names", "adds"} if self._asked.words else {"yes"}
        if not kinds <= allowed or any(self.shown.other(each.changing_text, spelt=True) for each in clauses):
            return False
        if first.kind == "no":
            return "yes" not in kinds and any(each.phrase.endswith(("don't", "do not", "dont")) for each in content)
        if first.kind != "yes" or "no" in kinds:
            return False
        is_weak = content[0].is_any("weak")
        return not any(_is_doubtful(each.phrases_of_change, is_weak=is_weak) for each in clauses)

    # --- the ends of a letter ---

    def _without_greetings(self, text: str) -> str:
        """Drop the ends of a letter: a greeting with a name, and what stands from its last greeting on."""
        lines = [each for each in text.split("\n") if each.strip()]
        if len(lines) > 1:
            opening = self.labels_of(WORD.findall(lines[0]))
            if 0 < len(opening) <= _MOST_WORDS and opening[0].is_any("opens") and _says_nothing(opening):
                lines = lines[1:]
        for place, line in enumerate(lines):
            end = self._signs_off(line, is_first=place == 0)
            if end is not None and all(map(self._is_signature, lines[place + 1 :])):
                return "\n".join([*lines[:place], line[:end]])
        return "\n".join(lines)

    def _signs_off(self, line: str, *, is_first: bool) -> int | None:
        """Return where in a line the end of a letter begins: "Best regards", "- Tom", or a name alone."""
        is_dashed = line.strip().startswith(_DASHES)
        text = line if is_first else line.strip().lstrip("".join(_DASHES))
        found = list(WORD.finditer(text))
        words = [each.group() for each in found]
        if not is_first and ((is_dashed and not words) or self._is_name(words)):
            return 0
        for place in range(max(len(words) - _MOST_WORDS - _MOST_SIGNED, int(is_first)), len(words)):
            label, length = self._longest_at(words, place)
            if not label.is_any("signs"):
                continue
            rest = words[place + length :]
            by_program = label.phrase.split()[-1] in phrases()["names"]  # "sent from my …"
            is_alone = not rest or (by_program and _says_nothing(self.labels_of(rest)))
            if (is_alone and place == 0 and not is_first) or self._is_name(rest):
                return found[place].start() if place else 0
        return None

    def _is_signature(self, line: str) -> bool:
        """Whether a line stands below the end of a letter: a name, a function, a number, or what a program adds."""
        words = tokens(line)
        labels = self.labels_of(words)
        if not labels or self._is_name(words):
            return True
        if not _says_nothing(labels):
            return False
        for label in labels:
            if label.kind == "points" or _is_day(label) or self.does(label):
                return False  # it may be of the call
        is_phone = sum(map(str.isdigit, line)) >= _SHORTEST_PHONE
        is_title = labels[0].is_unknown and self._may_be_name(words[0]) and not any(map(str.isdigit, line))
        return is_phone or is_title or labels[0].is_any("signs")

    def _is_name(self, words: Sequence[str]) -> bool:
        return 0 < len(words) <= _MOST_SIGNED and all(self._may_be_name(word) for word in words)

    def _may_be_name(self, word: str) -> bool:
        is_known = word.casefold() in self._known or is_figure(word.casefold())
        is_written_so = word[0].isupper() or UNPARTED.match(word) is not None or not word[0].isalnum()
        return is_written_so and not is_known and len(word) <= _LONGEST_RUN


def _own_words(message: str) -> str:
    """Drop what a mail holds and its writer does not say in it: earlier mail, and notices at its end of whom it is for.

    Of an earlier mail the lines are marked, or a line of dashes and words parts it from what is new.
    """
    lines = message.split("\n")
    parted = next((place for place, line in enumerate(lines) if _EARLIER_MAIL.fullmatch(line.strip())), len(lines))
    lines = lines[:parted]
    foreign: set[int] = set()
    for place, line in enumerate(lines):
        if line.lstrip().startswith(">"):
            foreign.add(place)
            if place and lines[place - 1].rstrip().endswith(":"):
                foreign.add(place - 1)  # what introduces a quote: "On Monday Ada wrote:"
    own = [line for place, line in enumerate(lines) if place not in foreign]
    blocks = [each for each in _BLOCKS.split("\n".join(own)) if each.strip()]
    while len(blocks) > 1 and _is_notice(blocks[-1]):
        blocks.pop()
    return "\n\n".join(blocks)


def _is_notice(block: str) -> bool:
    """Whether a paragraph says whom a mail is for."""
    text = " ".join(folded(block).split())
    return all(has_any(text, phrases()[kind]) for kind in ("mails", "notices"))


def _says_nothing(labels: Sequence[_Label]) -> bool:
    """Whether words of a greeting hold nothing that could change a yes."""
    return (_HARMFUL | {"yes", "reports"}).isdisjoint(label.kind for label in labels)


def _is_greeting(clause: _Clause) -> bool:
    """Whether a clause thanks or greets somebody."""
    if not clause.labels:
        return False
    first = clause.labels[0]
    return first.is_any("opens") or (first.is_any("courtesy") and first.is_any("signs"))


def _is_day(label: _Label) -> bool:
    """Whether a phrase is a number or a day in words, or a currency."""
    return label.kind == "figure" and not any(map(str.isdigit, label.written))


def _is_doubtful(content: Sequence[_Label], *, is_weak: bool) -> bool:
    """Whether words of the table may ask for something else, or call off.

    "Confirm" with an object asks for another thing. "Yes, cancel" may say either, so a word that calls off needs an
    object, and so does a word like "with".
    """
    for place, label in enumerate(content):
        is_last = place + 1 == len(content)
        has_object = not is_last and content[place + 1].kind in {"own", "figure", "points", "names"}
        if label.is_any("alone") and not is_last and not (place and " " in label.phrase):
            return True
        if label.kind == "own" and label.is_any("no") and (is_weak or not has_object):
            return True
        if label.kind in {"names", "adds"} and not has_object:
            return True
    return False


# --- what makes a yes none ---


def read_with_reason(message: str, asked: Asked = NOTHING_ASKED, *, quote: str | None = None) -> tuple[Consent, str]:
    """Return what a message answers, and why a yes in it does not count."""
    if len(message) > LONGEST_READ or POINT in message:
        return NEITHER, "the message cannot be read"
    read = _ReadMessage(message, asked)
    answering = [each for each in read.sentences if each.kind not in {"aside", "beside"}]
    if quote:
        return _read_quoted(read, answering, quote)
    own = answering[0] if answering else None
    if quote is not None:  # a model has read it, and names no words: the yes may stand behind other sentences
        own = next((each for each in answering if each.kind == "yes"), own)
    if own is None or not own.kind:
        return NEITHER, _why_not_begun(read)
    if any(each.kind not in {"", own.kind} for each in answering):
        return NEITHER, "it says yes and no"
    rest = _texts(each for each in answering if each is not own and not each.kind)
    if own.kind == "no":
        return Consent("no", rest), ""
    why = _why_not_by_table(read, own, unread=quote is None)
    if rest and own.is_weak:
        why = "it may only say that this was heard"
    return (NEITHER, why) if why else (Consent("yes", rest), "")


def _read_quoted(read: _ReadMessage, answering: Sequence[_Sentence], quote: str) -> tuple[Consent, str]:
    why = _why_not_quoted(read, quote)
    if why:
        return NEITHER, why
    return Consent("yes", _texts(each for each in answering if not each.kind)), ""


def _texts(sentences: Iterable[_Sentence]) -> str:
    return " ".join(each.text for each in sentences)


def _why_not_begun(read: _ReadMessage) -> str:
    """Return what makes a sentence that begins with a yes none, or ""."""
    for sentence in read.sentences:
        if not sentence.asks and [each.kind for each in sentence.phrases_of_change][:1] == ["yes"]:
            return _why_not(read, [sentence])
    return ""


def _why_not_by_table(read: _ReadMessage, own: _Sentence, *, unread: bool) -> str:
    """Return what makes a sentence that is a yes by the table none, or "".

    `unread` says that no model has read the message.
    """
    is_odd = any(not each.kind and not each.is_unknown for each in read.labels)
    if is_odd or has_any(read.text.casefold(), phrases()["ironic"]):
        return "it may not be meant"
    for label in read.labels:
        if label.kind in _UNREAD and (unread or label.kind == "scope"):
            return f"{_UNREAD[label.kind]}, {label.written!r}"
    other = read.shown.other(read.text, spelt=False) if unread else ""
    if other:
        return f"it names another {describe_other(other)}, {other}"
    return _why_not(read, [own])


def _why_not_quoted(read: _ReadMessage, quote: str) -> str:
    """Return why the words that a model quotes are no yes, or ""."""
    parts = [tokens(part) for part in _PARTS.split(read.normal(quote))]
    wanted = [word.casefold() for word in chain.from_iterable(parts)]
    words: list[tuple[str, _Sentence]] = []
    for sentence in read.sentences:
        for clause in sentence.clauses:
            words += [(word.casefold(), sentence) for word in clause.words]
    why = "the words that are quoted for it are not in the message"
    if not wanted:
        return why
    agrees: bool | None = None
    for start in range(len(words) - len(wanted) + 1):
        found = words[start : start + len(wanted)]
        if not all(_is_quoted(one, other) for one, (other, _) in zip(wanted, found, strict=True)):
            continue
        if agrees is None:  # the same wherever they stand
            agrees = any(_agrees(read, part) for part in parts)
        if not agrees:
            return "its words do not agree"
        own = {each.place: each for _, each in found}
        why = _why_not(read, list(own.values()))
        if not why:
            return ""
    return why


def _is_quoted(wanted: str, word: str) -> bool:
    """Whether a word of a quote is one of the message; in scripts without spaces, a part of one."""
    return wanted == word or (UNPARTED.search(wanted) is not None and wanted in word)


def _agrees(read: _ReadMessage, words: Sequence[str]) -> bool:
    """Whether quoted words agree: by a phrase of the table, or by what would be done ("refund it")."""
    content = [each for each in read.labels_of(words) if each.kind not in _NEUTRAL]
    if not content or content[0].kind == "adds":
        return False
    for place, label in enumerate(content):
        after = content[place + 1] if place + 1 < len(content) else None
        # "Confirm" with an object asks for another thing.
        asks_else = label.is_any("alone") and after is not None and not read.does(after) and " " not in label.phrase
        if label.kind in _AGREEING and not asks_else:
            return True
    return read.does(content[0]) and (len(content) > 1 or not content[0].is_any("no"))


def _why_not(read: _ReadMessage, own: Sequence[_Sentence]) -> str:
    """Return what makes a yes in sentences none, or ""."""
    if read.quotes_answer:
        return "it quotes somebody"
    mine = {each.place for each in own}
    # What speaks against it in the other sentences is looked for once, however often a quote stands in the message.
    besides = [(place, why) for place, why in _whys_besides(read) if place not in mine]
    found = besides[0] if besides else None
    for sentence in own:
        if found is not None and found[0] < sentence.place:
            break  # whatever comes first is the reason that is told
        if sentence.place not in read.own_whys:
            read.own_whys[sentence.place] = _why_not_by(read, sentence, is_own=True)
        if read.own_whys[sentence.place]:
            return read.own_whys[sentence.place]
    if found is not None:
        return found[1]
    kinds = Counter(label.kind for label in chain.from_iterable(each.labels for each in own))
    if kinds["heard"] and sum(kinds[each] for each in _AGREEING) == 1:
        return "it may only say that this was heard"
    return ""


def _whys_besides(read: _ReadMessage) -> Sequence[tuple[int, str]]:
    """Return what in each sentence makes a yes in another one none, with the place of the sentence."""
    if read.whys is None:
        whys = [(each.place, _why_not_by(read, each, is_own=False)) for each in read.sentences]
        read.whys = [(place, why) for place, why in whys if why]
    return read.whys


def _why_not_by(read: _ReadMessage, sentence: _Sentence, *, is_own: bool) -> str:
    """Return what in a sentence makes a yes none, or ""; `is_own` if it is the yes."""
    if is_own and (sentence.asks or _inquires(sentence)):
        return "it asks"
    is_answer = is_own or any(each.kind in _ANSWERING for each in sentence.labels)
    is_besides = is_told = is_excused = is_agreed = False
    for place, clause in enumerate(sentence.clauses):
        if _waits(clause):
            return "it asks to wait"
        if sentence.asks and (clause.begins("adds") or clause.begins("inquires")):
            return ""  # the rest is a question
        complains = any(each.complains for each in clause.labels)
        for number, part in enumerate(_parts(clause)):
            piece = _Piece(read, part, is_own=is_own, is_first=place == number == 0, is_story=is_told)
            piece.is_excuse = is_excused
            piece.complains = complains
            piece.is_agreed = is_agreed
            is_agreed = is_agreed or any(each.kind in _AGREEING for each in piece.content)
            if is_answer and piece.reports:
                return "it tells what somebody says"
            begins_wish = part.begins("adds") and (place + number > 0 or not is_own)
            is_besides = (is_besides or begins_wish) and not (piece.states and _knows_verb(piece.content))
            why = _why_not_besides(piece) if is_besides else _why_not_in(piece)
            if why:
                return why
            is_told = is_told or piece.is_aside
            is_story = piece.is_aside and any(each.is_unknown for each in piece.content)
            is_excused = is_story or any(each.is_any("opens") for each in part.labels)
    return ""


def _parts(clause: _Clause) -> list[_Clause]:
    """Split a clause where another statement begins in it: at a subject, a reason or a contrast."""
    labels = clause.labels
    starts = [0]
    for place in range(1, len(labels)):
        if not _begins_statement(labels, place):
            continue
        start = place
        while start > starts[-1] and _links(labels[start - 1]):
            start -= 1
        if start > starts[-1]:
            starts.append(start)
    if len(starts) == 1:
        return [clause]
    return [_clause_of(labels[start:end]) for start, end in pairwise([*starts, len(labels)])]


def _clause_of(labels: Sequence[_Label]) -> _Clause:
    return _Clause(" ".join(each.written for each in labels), (), tuple(labels))


def _begins_statement(labels: Sequence[_Label], place: int) -> bool:
    label = labels[place]
    if label.is_any("contrasts"):
        return not _is_particle(labels, place)
    if label.kind in _AGREEING | _NEUTRAL | {"harmless", "heard", "unneeded"} or label.language in _VERB_SECOND:
        return _gives_reason(labels, place)
    return label.first in phrases_for(label.language, "subjects") or _gives_reason(labels, place)


def _is_particle(labels: Sequence[_Label], place: int) -> bool:
    """Whether a word of contrast only softens a request, as "maar" does behind a Dutch verb: "stuur maar"."""
    return labels[place].language == "nl" and place > 0 and labels[place - 1].kind in _SOFTENED


def _gives_reason(labels: Sequence[_Label], place: int) -> bool:
    phrase = " ".join(each.phrase for each in labels[place : place + _MOST_LINKING])
    return f"{phrase} ".startswith(_reasons_in(labels[place].language))


@cache
def _reasons_in(language: str) -> tuple[str, ...]:
    """Return the words that lead to a reason, each with the space that ends it."""
    return tuple(f"{each} " for each in phrases_in(language, "reasons"))


def _links(label: _Label) -> bool:
    """Whether a word may stand before a statement and belong to it."""
    return any(label.is_any(kind) for kind in ("adds", "contrasts", "reasons"))


class _Piece:
    """A clause, and what it does beside a yes.

    Attributes:
        labels: Its phrases.
        content: Those that may change something, without the words that only link it to what stands before it.
        unknown: The places of words in these that neither the table nor the question has.
        mentions: Whether it has a word of the question, or one that may point to the call.
        points: Whether it points to the call.
        is_about: Whether it points to the call or has a word of the question.
        doubts: How many of its phrases make a denial one of the call.
        is_own: Whether its sentence agrees.
        is_first: Whether it begins its sentence.
        states: Whether it says how something is, by its words.
        is_statement: Whether it does, or may, and says neither what is to be done nor to what.
        is_aside: Whether it states something that is not about the call, whatever it denies or counts.
        is_story: Whether it only goes on with what stands before it.
        is_excuse: Whether it follows an excuse ("sorry for the delay, but I was out"), or another aside.
        is_agreed: Whether its sentence agrees before it.
        complains: Whether its clause says how long or how often somebody waits or asks.
    """

    def __init__(self, read: _ReadMessage, clause: _Clause, *, is_own: bool, is_first: bool, is_story: bool) -> None:
        self.read = read
        self.clause = clause
        self.labels = clause.labels
        self.is_own = is_own
        self.is_first = is_first
        self.complains = False
        self.is_excuse = False
        self.is_agreed = False
        content = clause.phrases_of_change
        while content and _links(content[0]):
            content = content[1:]
        self.content = content
        self.unknown = [place for place, each in enumerate(content) if each.is_unknown]
        self.mentions = any(each.kind in {"own", "points"} for each in content)
        self.points = any(_points(content, place) for place in range(len(content)))
        self.is_about = self.points or any(each.kind == "own" for each in content)
        self.states = _is_statement(read, content) or _tells(clause.labels)
        self.doubts = sum(map(_doubts, content))
        self.is_statement = self.states or not (is_own or _is_of_the_call(content))
        is_of_value = bool(content) and content[0].kind == "figure"  # "Tuesday is better"
        self.is_aside = self.states and not self.is_about and not is_of_value and not _wishes(content)
        self.is_story = is_story and not self.is_about and not _wishes(content) and not self._may_name()
        self.is_aside = self.is_aside or (self.is_story and not is_own)

    def _may_name(self) -> bool:
        """Whether it may be what is wished, or to what the call goes, and no more of a story."""
        kinds = {each.kind for each in self.labels}
        if self.is_own and "figure" in kinds:
            return True
        if not kinds.isdisjoint({"courtesy", "yes", "beside"}) or any(each.is_any("choices") for each in self.content):
            return True
        if not self.is_own or not self.content:
            return False
        first = self.content[0]
        return first.kind in _NAMING or first.phrase in ACTING

    @property
    def reports(self) -> bool:
        """Whether it tells what somebody says, and not what the writer has told somebody."""
        kinds = [each.kind for each in self.labels]
        if "reports" not in kinds:
            return False
        place = kinds.index("reports")
        speaks = any(each.first in phrases_for(each.language, "speakers") for each in self.labels[:place])
        return not speaks or self.points or not _ANSWERING.isdisjoint(kinds[place:])


def _tells(labels: Sequence[_Label]) -> bool:
    """Whether words begin with a reason, or with a sentence of those that change nothing: "I already told you"."""
    while labels and labels[0].is_any("adds") and len(labels) > 1:
        labels = labels[1:]
    is_sentence = bool(labels) and labels[0].kind == "asides" and labels[0].phrase.count(" ") > 1
    is_reason = len(labels) > 1 and _gives_reason(labels, 0) and not _wishes(labels)
    return is_sentence or is_reason


def _points(content: Sequence[_Label], place: int) -> bool:
    """Whether a word points to what was asked about, and is no article of what follows it."""
    if content[place].kind != "points":
        return False
    if place + 1 == len(content) or not content[place].is_any("names"):
        return True
    after = content[place + 1]
    is_degree = after.kind == "fills" and not (after.is_any("names") or after.is_any("states"))
    return not (after.is_unknown or is_degree)


def _wishes(content: Sequence[_Label]) -> bool:
    """Whether words say what somebody wants."""
    return any(each.is_any("wishes") or _desires(content, place) for place, each in enumerate(content))


def _desires(content: Sequence[_Label], place: int) -> bool:
    """Whether a phrase wants something otherwise: "I want", and "use" or "give me" where it begins."""
    label = content[place]
    return label.is_any("desires") and (place == 0 or (" " in label.phrase and label.first != "give"))


def _inquires(sentence: _Sentence) -> bool:
    """Whether a sentence begins as questions do, with or without their mark."""
    first = sentence.clauses[0]
    return first.begins("inquires") and not first.begins("adds") and first.labels[0].kind not in _AGREEING


def _why_not_besides(piece: _Piece) -> str:
    """Return what in a further wish makes a yes none, or "". What is wished besides may name anything."""
    content, is_wish = piece.content, bool(piece.unknown)
    for label in piece.labels:
        why = _why_not_word(label, piece)
        if label.kind == "unneeded" and piece.is_about:
            why = "it denies something"
        if not why and label.kind in _CHANGING and not is_wish:
            why = f"it names something else, {label.written!r}"
        if why:
            return why
    other = _recipient(piece.labels) if any(each.kind == "points" for each in content) else ""
    if other:
        return f"it names somebody else, {other!r}"
    thing = _further_thing(piece) if piece.clause.begins("adds") else ""
    if thing:
        return f"it names something else, {thing!r}"
    return ""


def _further_thing(piece: _Piece) -> str:
    """Return a thing that is only named besides ("and my inhaler"), which the call would have to be done to as well.

    With a verb, a value or somebody whom it is done for, it is another wish.
    """
    content = piece.content
    unknown = next((each for each in content if each.is_unknown), None)
    if unknown is None or any(each.kind == "figure" or each.is_any("desires") for each in content):
        return ""
    if any(each.is_any("opens") or each.is_any("closes") for each in piece.labels):
        return ""  # "and sorry for the trouble", "and that is all for today"
    first = next((each for each in content if each.is_any("articles") or each.kind not in {"fills", "adds"}), None)
    if first is None or first.kind == "points" or first.is_any("names") or first.is_any("articles"):
        return unknown.written
    # Where an article stands before each thing, a word that begins is a verb.
    if piece.read.language in _WITH_ARTICLES | {"de", "pt"} or _may_be_done(content):
        return ""
    return unknown.written


def _may_be_done(content: Sequence[_Label]) -> bool:
    """Whether words may say what is to be done: by a known verb, or for the writer ("show me")."""
    if any(each.phrase in ACTING or each.is_any("writer") for each in content):
        return True
    for label, after in pairwise(content):
        if label.is_unknown:
            return after.is_any("names") or after.is_any("articles")  # "mail the receipt"
    return False


def _why_not_in(piece: _Piece) -> str:
    """Return what in a clause makes a yes none, or ""."""
    why = _why_not_by_words(piece)
    if why or any(each.kind == "unneeded" for each in piece.labels):
        return why  # what is not needed is something else, whatever it names
    if piece.is_story:
        return _other_value(piece)
    if not piece.is_own and piece.clause.begins("towards"):
        return f"it adds to what was asked, {piece.clause.text!r}"
    if _is_greeting(piece.clause):
        return _other_value(piece)
    why = _other_scope(piece) or _other_value(piece)
    if why:
        return why
    other = _other_of_sort(piece) or _other_thing(piece)
    return f"it names something else, {other!r}" if other else ""


def _why_not_by_words(piece: _Piece) -> str:
    """Return which condition, contrast or denial in a clause makes a yes none, or ""."""
    if not piece.is_first and _is_if(piece):
        return f"it makes a condition or a change, {piece.labels[0].written!r}"
    for label, after in pairwise(piece.labels):
        if label.is_any("nobody") and after.kind in _AGREEING:
            return f"it denies something, {label.written!r}"
    for place, label in enumerate(piece.labels):
        if _changes_nothing(piece, place):
            continue
        why = "it refuses" if piece.is_own and label.kind == "no" else _why_not_word(label, piece)
        if label.kind == "unneeded" and _is_needed(piece.read, piece.content):
            why = "it denies something"
        if why:
            return f"{why}, {label.written!r}"
    return ""


def _other_of_sort(piece: _Piece) -> str:
    """Return a word of the sort of a shown value that is another one ("red" where "grey" is shown), or ""."""
    shown = piece.read.shown
    for label in piece.content:
        if label.kind != "own" and any(label.phrase in sort for sort in shown.sorts):
            return label.written
    return ""


def _is_if(piece: _Piece) -> bool:
    """Whether a clause begins with "si" that is no yes without its accent: "sí, si llega"."""
    after = piece.labels[1:2]
    is_followed = bool(after) and after[0].kind not in _AGREEING | _NEUTRAL and not piece.read.does(after[0])
    return piece.labels[0].phrase == "si" and is_followed


def _changes_nothing(piece: _Piece, place: int) -> bool:
    """Whether a word of a condition, a contrast or a denial says nothing of the call where it stands."""
    label = piece.labels[place]
    if label.is_any("contrasts"):
        return _is_particle(piece.labels, place) or (place == 0 and _only_contrasts(piece))
    if label.kind == "stops" and label.is_any("loose"):
        return piece.complains or (piece.is_aside and not any(each.kind in _AGREEING for each in piece.content))
    is_denial = label.kind == "denies" or label.is_any("denies") or label.phrase.endswith("n't")
    if not piece.is_aside or not is_denial:
        return False
    is_answer = label.is_any("refuses") and place == 0 and label.language not in _DENYING_FIRST
    is_of_something = bool(piece.unknown) or (place == 0 and any(each.is_any("states") for each in piece.content))
    is_last = label is piece.content[-1]  # "I'm afraid not"
    return is_of_something and not is_answer and not is_last and piece.doubts == _doubts(label)


def _doubts(label: _Label) -> bool:
    """Whether a phrase makes a denial one of the call: "I am not sure"."""
    return label.is_any("doubts") or label.kind in _BEARING


def _only_contrasts(piece: _Piece) -> bool:
    """Whether what follows "but" takes nothing back: it agrees, or it states something beside another statement."""
    if not piece.content:
        return len(piece.labels) > 1
    if piece.content[0].kind in _AGREEING or piece.read.does(piece.content[0]):
        return not piece.is_agreed
    return piece.is_aside and (not piece.is_own or piece.is_excuse)


def _other_scope(piece: _Piece) -> str:
    """Return which word of a clause makes the call another one or moves it ("both", "tomorrow"), or "".

    Within a statement ("I found another one cheaper") it is said of something else, unless it begins the clause.
    """
    if piece.complains:
        return ""
    is_statement, points = piece.is_statement, piece.points
    is_head = True
    for place, label in enumerate(piece.labels):
        is_head = is_head and (not place or piece.labels[place - 1].kind in _NAMING | _AGREEING | _NEUTRAL)
        if label.kind == "times" and (points or is_head or not is_statement):
            return f"it names another time, {label.written!r}"
        if label.kind == "scope" and (is_head or not is_statement):
            return f"it names something else, {label.written!r}"
    return ""


def _other_value(piece: _Piece) -> str:
    """Return which value of a clause the call does not show, or ""; numbers in words only count close to the yes."""
    complains = piece.complains
    is_close = piece.is_about or piece.is_own or not piece.is_statement
    is_spelt = is_close and not piece.is_aside and not complains
    spelled = _other_count(piece) if piece.is_aside and not complains else ""
    if spelled:
        return f"it names another number, {spelled}"
    other = piece.read.shown.other(_values(piece), spelt=is_spelt)
    if not other or (complains and other.isdecimal() and len(other) <= _MOST_COUNTED):
        return ""  # "I have been waiting for 3 weeks"
    return f"it names another {describe_other(other)}, {other}"


def _counts(label: _Label) -> bool:
    """Whether a number before a word may be of that: "four weeks", but no amount."""
    return label.is_unknown or (label.phrase in unit_words() and label.kind != "figure")


def _other_count(piece: _Piece) -> str:
    """Return a number in words of the message's language that counts nothing else in an aside, or ""."""
    spell = lexicon_of(piece.read.language).spell
    for label, after in pairwise([*piece.content, None]):
        word = label.phrase if label is not None and label.kind == "figure" else ""
        value = spell((word,)) if word else None
        is_counted = after is not None and _counts(after)
        if value is not None and value > 1 and not is_counted and value not in piece.read.shown.numbers:
            return word
    return ""


def _values(piece: _Piece) -> str:
    """Return the text of a clause in which values are looked for, without the phrases that change nothing.

    In an aside a number before a word is of that: "my husband turns 50 years".
    """
    content = piece.clause.phrases_of_change
    values: list[str] = []
    for place, label in enumerate(content):
        is_count = label.written.isdecimal() and place + 1 < len(content) and _counts(content[place + 1])
        if not (piece.is_aside and is_count):
            values.append(label.written)
    return " ".join(values)


def _is_needed(read: _ReadMessage, content: Sequence[_Label]) -> bool:
    """Whether what is not needed may be the call: "I don't need it", unless the call ends something."""
    return not read.shown.ends and any(each.kind == "points" or read.does(each) for each in content)


def _why_not_word(label: _Label, piece: _Piece) -> str:
    """Return why a phrase makes a yes none wherever it stands, or ""."""
    if label.kind == "stops" or (label.kind == "extends" and not piece.is_aside):
        return "it makes a condition or a change"
    if label.kind == "denies":
        return "it denies something"
    # "Stop the newsletter" beside a yes is a wish of its own.
    is_wish = not piece.mentions and bool(piece.unknown)
    if label.kind == "no" and (label.is_any("refuses") or not is_wish):
        return "it refuses"
    return ""


def _is_of_the_call(content: Sequence[_Label]) -> bool:
    """Whether another sentence than the yes is of the call: it only names something, or wants it otherwise."""
    is_wanted = any(each.kind in {"own", "desires"} for each in content)
    return is_wanted or all(each.is_unknown or each.kind in _NAMING for each in content)


def _is_statement(read: _ReadMessage, content: Sequence[_Label]) -> bool:
    """Whether words say how something is ("I left it in the taxi"), and not what is to be done or to what."""
    thing = next((place for place, each in enumerate(content) if each.is_unknown), len(content))
    for before, label in pairwise(content[thing:]):
        if label.kind == "beside" and (before.is_unknown or before.is_any("states")):
            return False  # "the toaster is fine" agrees to the toaster
    content = [each for each in content if each.kind not in _AGREEING]
    if not content or any(map(read.does, content)) or content[0].phrase in ACTING or content[0].is_any("adds"):
        return False
    if _wishes(content):
        return False
    return _has_verb(read, content)


def _knows_verb(content: Sequence[_Label]) -> bool:
    """Whether words have a subject or a verb of a statement that the table knows."""
    return any(each.is_any("states") or each.is_any("subjects") or each.complains for each in content)


def _has_verb(read: _ReadMessage, content: Sequence[_Label]) -> bool:
    """Whether words have a subject or a verb that the table knows, or that is told by its form or its place."""
    states = phrases_in(read.language, "states") - phrases_in(read.language, "names")
    if any(each.phrase in states or each.complains for each in content):
        return True
    unknown = [place for place, each in enumerate(content) if each.is_unknown]
    if any(_is_verb(read, content, place) for place in unknown):
        return True
    if unknown and content[0].is_any("kin") and not any(each.is_any("adds") for each in content):
        return len(unknown) > _MOST_BARE  # "my wife loves it there"
    begins = bool(unknown) and (unknown[0] == 0 or content[unknown[0] - 1].kind == "own")
    return begins and content[unknown[0]].written.islower() and len(content) - unknown[0] >= _SHORTEST_STATEMENT


def _equal(content: Sequence[_Label]) -> str:
    """Return a name that is said to be a value of the call ("the city is York"), or ""."""
    for value, verb, name in zip(content, content[1:], content[2:], strict=False):
        if value.kind == "own" and verb.is_any("states") and name.is_unknown and name.written[:1].isupper():
            return name.written
    return ""


def _is_verb(read: _ReadMessage, content: Sequence[_Label], place: int) -> bool:
    """Whether a word has the form of a verb that has a subject, and that no adjective or noun has where it stands."""
    word = content[place].phrase
    before = content[place - 1] if place else None
    if read.language == "de":
        # Nouns are written with capitals, and adjectives stand before them.
        is_after_noun = before is not None and before.is_unknown and before.written.istitle()
        return is_after_noun and content[place].written.islower()
    if before is None or before.is_any("names") or before.is_any("articles"):
        return False
    if read.language == "en" and before.is_unknown and before.phrase.endswith("'s"):
        return word.endswith("ing")
    if read.language in {"fr", "nl"} and before.is_unknown and len(word) >= _SHORTEST_VERB:
        # No adjective stands behind its noun in Dutch; in French none in the plural ends without "s".
        ending = "ent" if read.language == "fr" and before.phrase.endswith("s") else ("de", "te", "den", "ten")
        if word.endswith(ending):
            return True
    word = word.removesuffix("-se").removesuffix("-me")
    return len(word) >= _SHORTEST_VERB and word.endswith(endings_in(read.language, "past"))


def _other_thing(piece: _Piece) -> str:
    """Return a word of a clause that names what is not of the call, or "".

    It is a name by its capitals, stands behind an article, a preposition or what is to be done, or stands alone. A
    word that begins a clause, or follows a subject, is no thing.
    """
    read, content, is_statement = piece.read, piece.content, piece.is_statement
    begins = piece.is_first and bool(content) and content[0].is_unknown
    content = [each for each in content if each.kind not in _AGREEING]
    has_names = read.language != "de" and not read.text.isupper()
    is_named = read.shown.has_names  # then somebody else beside it is another one
    recipient = _recipient(content, owned=has_names or not is_statement) if piece.is_about else ""
    if is_named and not recipient:
        recipient = _recipient(content, led_by="kin")
    unknown = [place for place, each in enumerate(content) if each.is_unknown]
    if recipient or not unknown:
        return recipient
    equal = _equal(content) if is_statement and has_names else ""
    if equal:
        return equal
    if piece.is_aside and not is_named:
        return ""
    for place in unknown:
        is_name = has_names and _is_other_name(content, place, begins=begins, is_statement=is_statement)
        is_name = is_name or (is_named and has_names and _is_owner(read, content, place))
        if is_name or _is_one_of(content, place, is_last=place == unknown[-1]):
            return content[place].written
    first = content[unknown[0]]
    # Of a language without a lexicon no number is known, so that each word behind a preposition may be one.
    is_unread = read.language not in LANGUAGES and bool(read.language) and not is_statement
    for place in unknown if is_unread else unknown[:1]:
        if _is_led_to(read, content[max(place - 2, 0) : place], is_statement=is_statement):
            return content[place].written
    is_other = not is_statement and (first.phrase in ACTING or _is_bare(content, read.language))
    return first.written if is_other else ""


def _is_other_name(content: Sequence[_Label], place: int, *, begins: bool, is_statement: bool) -> bool:
    """Whether a word is a name by its capitals, and not only since it begins a sentence."""
    if not content[place].written[:1].isupper():
        return False
    if place == 0:
        gets_it = any(each.kind == "points" for each in content[2:]) and content[1].kind != "points"
        return not begins or gets_it  # "Kim gets it", but "Kill it"
    return not is_statement or content[place - 1].is_any("towards")


def _is_owner(read: _ReadMessage, content: Sequence[_Label], place: int) -> bool:
    """Whether a word with a capital is somebody to whom something belongs: "Anna's account"."""
    if not content[place].written[:1].isupper():
        return False
    owner = content[place].phrase.removesuffix("'s")
    if owner != content[place].phrase:
        return not read.shown.has(owner)
    return place > 0 and content[place - 1].is_any("owners")


def _is_one_of(content: Sequence[_Label], place: int, *, is_last: bool) -> bool:
    """Whether a word tells which of several things is meant: "red one", or a noun before a particle in Japanese.

    `is_last` says that no word after it is unknown.
    """
    if place + 1 == len(content):
        return False
    is_noun = is_run(content[place].written) and content[place + 1].is_any("particles")
    return content[place + 1].is_any("choices") or (is_noun and is_last)


def _is_led_to(read: _ReadMessage, before: Sequence[_Label], *, is_statement: bool) -> bool:
    """Whether the words before a word make it a thing: an article, a preposition, "and", or what is to be done."""
    if len(before) > 1 and before[-1].is_any("articles"):
        before = before[:-1]
    if not before:
        return False
    last = before[-1]
    if last.phrase in phrases_in(read.language, "adds"):
        return True
    if is_statement:
        return False
    if read.does(last):
        return True
    has_article = last.phrase in phrases_in(read.language, "names") or last.is_any("articles")
    return has_article and read.language != "ja"


def _is_bare(content: Sequence[_Label], language: str) -> bool:
    """Whether words only name a thing, without an article: "store credit".

    Where languages say an article before each thing, or write things with capitals, that is looked at instead.
    """
    words = [each.written for each in content]
    if language in _WITH_ARTICLES or not all(each.is_unknown for each in content):
        return False
    if language == "de":
        return all(each[0].isupper() for each in words)
    if language == "ja":
        return all(map(is_run, words))
    return len(words) <= (1 if language == "ru" else _MOST_BARE)


def _recipient(labels: Sequence[_Label], *, owned: bool = True, led_by: str = "between") -> str:
    """Return whom something in words about what was asked is for, or ""; with `owned`, "to my brother" as well.

    `led_by` is the kind of the words that may stand before somebody without a name.
    """
    for place, (label, after) in enumerate(pairwise(labels)):
        if not label.is_any("towards"):
            continue
        if after.is_unknown and after.written[:1].isupper():
            return after.written
        if owned and after.is_any(led_by) and place + 2 < len(labels) and labels[place + 2].is_unknown:
            return labels[place + 2].written
    return ""


def _waits(clause: _Clause) -> bool:
    """Whether a clause asks for time."""
    for label in clause.labels:
        if label.kind == "waits":
            return True
        if label.kind not in {"yes", "beside", "fills", "inquires", "no", *_NEUTRAL}:
            return False
    return False
