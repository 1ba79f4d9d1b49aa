"""Read a yes or a no, and the rest of the message, by one table of phrases (`phrases.toml`)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple

from jazz_select.phrases import (
    AMBIGUOUS_WORDS,
    LONGEST_READ,
    NOTHING_ASKED,
    NUMBER_WORDS,
    ORDINAL_WORDS,
    POINT,
    QUESTION_MARKS,
    TOKEN,
    UNPARTED,
    WORD,
    Asked,
    Shown,
    beginnings_in,
    describe_other,
    folded,
    has_any,
    is_figure,
    is_run,
    kinds_in,
    language_of,
    phrases,
    phrases_in,
    plain,
    with_whole_words,
)
from jazz_select.words import ACTING, stems

Answer = Literal["yes", "no", "neither"]
_AGREEING: Final = frozenset({"yes", "beside"})
_ADVERBS: Final = ("ly", "ment", "mente")
"""What adverbs end with: they name no thing, unless an article stands before them."""
_UNREAD: Final = {
    "scope": "it names something else",
    "stops": "it makes a condition or a change",
    "denies": "it denies something",
    "unneeded": "it denies something",
}
"""What may be said of something else, which no rule can tell: where no model has read it, it makes a yes none."""
_NEUTRAL: Final = frozenset({"courtesy", "asides", "harmless", "signs", "between"})
"""The kinds of words that change nothing."""
_HARMFUL: Final = frozenset({"no", "denies", "stops", "waits", "scope", "times"})
_LONGEST_SENTENCE: Final = 200
_MOST_WORDS: Final = 8
"""The most words of a phrase of the table."""
_MOST_SIGNED: Final = 4
"""The most words of a name at the end of a letter."""
_LONGEST_RUN: Final = 24
"""The most letters of a phrase in a script without spaces, and of a name."""
_SHORTEST_PHONE: Final = 6
"""The least digits of a line at the end of a letter, such as a phone number."""
_ENDS: Final = " \t\n.!"
_EARLIER_MAIL: Final = re.compile(r"-{3,} ?\w.*\w ?-{3,}")
"""A line that parts a mail from an earlier one: "-----Original Message-----"."""
_BLOCKS: Final = re.compile(r"\n[ \t\r]*\n")
_SENTENCES: Final = re.compile(r"[^.!?;…。！？؟\n]+[.!?;…。！？؟\n]*")
_PARTS: Final = re.compile(r"(?<!\d)[,:]|[,:](?!\d)|[;¡¿…、()\[\]\"\n–—]+|\s-\s")
_QUOTED: Final = re.compile(r"[\"“”„«「『]([^\"“”„«»」』]*)[\"“”»」』]")
_ELIDED: Final = re.compile(r"([^\W\d_]{1,5})'([^\W\d_]{3,})")
"""An article or a pronoun before a vowel: "l'ordine"."""
_DRAWN_OUT: Final = re.compile(r"(\w)\1{2,}")
"""A letter that is drawn out: "pleaseee"."""
_DASHES: Final = ("-", "–", "—")
_SHORTEST_FORM: Final = 5
"""The least letters of a verb whose other forms are told by its beginning ("cancel": "cancellation")."""
_CLAUSES: Final = re.compile(r"[.,;:!?…。！？؟()\n–—]+|\s-\s")
_NUMBERED: Final = re.compile(r"\bno\b[.:]?\s*(?=#?\d)")
"""An abbreviated "number", which denies nothing: "order no 60112"."""


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
    kinds = {label.kind for each in _ReadMessage(message, NOTHING_ASKED).sentences for label in each.labels}
    return "waits" in kinds and kinds <= {"waits", "yes", "beside", "fills", *_NEUTRAL}


def is_courtesy(message: str) -> bool:
    """Whether a message is only thanks or a greeting."""
    if len(message) > LONGEST_READ:
        return False
    labels = [label for each in _ReadMessage(message, NOTHING_ASKED).sentences for label in each.labels]
    if " ".join(label.phrase for label in labels) in phrases()["yes"]:
        return False  # "please" alone agrees
    return bool(labels) and all(label.kind == "courtesy" for label in labels)


def is_refusal(message: str) -> bool:
    """Whether a message answers no, without cancelling the request itself."""
    words = TOKEN.findall(folded(message))
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
    counted = {NUMBER_WORDS[each] for each in words if NUMBER_WORDS.get(each, 0) > 1}
    counted |= {2 for each in words if each in table["pair"]}
    return " ".join(words) in table["every"] and counted <= {count}


def names_a_number(message: str, count: int) -> bool:
    """Whether a message about `count` things names a number in words: "the first", "just one", "both" of three."""
    words = {*WORD.findall(folded(message))} - AMBIGUOUS_WORDS
    if count != 2 and not words.isdisjoint(phrases()["pair"]):  # noqa: PLR2004 - a pair
        return True
    return not words.isdisjoint({*NUMBER_WORDS, *ORDINAL_WORDS}) and words.isdisjoint(phrases()["every"])


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
    clauses = [clause for each in _CLAUSES.split(text) for clause in _without_additions(each) if clause]
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
    return not any(verbs.intersection(stems(" ".join(clause))) and not _denies(" ".join(clause)) for clause in clauses)


def _verbs_in(names: Sequence[str]) -> frozenset[str]:
    """Return the verbs in names of something to do; all their words if none is known to be a verb.

    The last of several words is an object, even if it is spelt like a verb: the order in "cancel_order".
    """
    named = [stems(name) for name in names]
    verbs = frozenset(word for each in named for word in (each[:-1] if len(each) > 1 else each))
    return verbs & ACTING or frozenset(word for each in named for word in each)


def _asks_for(clause: Sequence[str], verbs: frozenset[str]) -> bool:
    """Whether a clause begins with one of these verbs, and is no denial and no phrase that calls something off."""
    said = " ".join(clause)
    return not verbs.isdisjoint(stems(clause[0])) and said not in phrases()["no"] and not _denies(said)


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


def has_denial(text: str) -> bool:
    """Whether a text denies anything, such as "it could not be done", by the words of the table."""
    return _denies(folded(text))


# --- a message as sentences, clauses and phrases ---


class _Label(NamedTuple):
    """A phrase of a message and its kind: one of the table, `own` for the question's words, `figure`, or ""."""

    kind: str
    phrase: str
    written: str

    @property
    def is_unknown(self) -> bool:
        """Whether it is a word that neither the table nor the question has."""
        return not self.kind and self.written[:1].isalnum()


def _told(labels: Sequence[_Label]) -> list[_Label]:
    """Return the phrases that may change something."""
    return [each for each in labels if each.kind not in _NEUTRAL]


def _thanks(labels: Sequence[_Label]) -> bool:
    """Whether words thank somebody for something."""
    return bool(labels) and labels[0].phrase in phrases()["courtesy"] & phrases()["signs"]


@dataclass(frozen=True, slots=True, eq=False)
class _Clause:
    """A part of a sentence between marks, with its words and phrases."""

    text: str
    words: tuple[str, ...]
    labels: tuple[_Label, ...]

    @property
    def adds(self) -> bool:
        """Whether it says something besides: "and where is my lamp"."""
        return bool(self.labels) and self.labels[0].phrase in phrases()["adds"]

    @property
    def figures(self) -> str:
        """Its text without the phrases that change nothing, for the numbers and dates in it."""
        return " ".join(each.written for each in self.labels if each.kind not in _NEUTRAL)

    @property
    def tells(self) -> bool:
        """Whether it is a statement about others: "he paid for dinner"."""
        return bool(self.labels) and self.labels[0].phrase in phrases()["subjects"]

    @property
    def inquires(self) -> bool:
        """Whether it begins as questions do."""
        return bool(self.labels) and self.labels[0].phrase in phrases()["inquires"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sentence:
    """A sentence of a message.

    Attributes:
        text: The sentence as written.
        clauses: Its parts.
        asks: Whether it is a question.
        kind: "yes" or "no" if all of it is one by the table, "beside" if it only approves, "aside" if it changes
            nothing, else "".
        begins_with: "yes" or "no" if its beginning is one, and it then asks something besides.
        addition: What it then asks.
    """

    text: str
    clauses: tuple[_Clause, ...]
    asks: bool
    kind: str = ""
    begins_with: str = ""
    addition: str = ""

    @property
    def labels(self) -> list[_Label]:
        """The phrases of all clauses."""
        return [label for each in self.clauses for label in each.labels]

    @property
    def is_weak(self) -> bool:
        """Whether it agrees only by a word that may as well mean "I see"."""
        said = _told(self.labels)
        return len(said) == 1 and said[0].phrase in phrases()["weak"]


class _ReadMessage:
    """A message that may answer a question.

    Attributes:
        language: Its language, if its words tell.
        shown: What the question shows.
        text: The message without the greetings of a letter.
        sentences: Its sentences.
    """

    def __init__(self, message: str, asked: Asked) -> None:
        self._asked = asked
        self.language = language_of(message)
        self._known = kinds_in(self.language)
        self._begins = beginnings_in(self.language)
        self.shown = Shown.by(asked)
        self.text = self._without_greetings(with_whole_words(plain(_said_now(message))))
        said = (each.strip() for each in _SENTENCES.findall(self.text))
        self.sentences = [self._sentence(each) for each in said if each.strip(_ENDS)]

    def labels(self, words: Sequence[str]) -> list[_Label]:
        """Find the phrases in words, the longest first."""
        found: list[_Label] = []
        small = [each.casefold() for each in words]
        place = 0
        while place < len(words):
            label, length = self._longest_at(words, small, place)
            parts = [] if label.kind else self._parts(label.written)
            found += parts or [label]
            place += length
        return found

    def _longest_at(self, words: Sequence[str], small: Sequence[str], place: int) -> tuple[_Label, int]:
        """Return the longest phrase of the table that begins here, or the word; and its number of words."""
        most = min(_MOST_WORDS, len(words) - place) if small[place] in self._begins else 1
        for length in range(most, 1, -1):
            phrase = " ".join(small[place : place + length])
            if phrase in self._known:
                return _Label(self._known[phrase], phrase, " ".join(words[place : place + length])), length
        return _Label(self._kind(small[place], is_first=place == 0), small[place], words[place]), 1

    def _kind(self, word: str, *, is_first: bool) -> str:
        """Return the kind of a word."""
        if word.endswith("n't"):
            return "no" if word in phrases()["no"] else "denies"
        if self.shown.has(word):
            return "own"
        kind = self._known.get(word, "") or self._known.get(_DRAWN_OUT.sub(r"\1", word), "")
        if word == "si" and not is_first:
            return "stops"  # "if", where it does not begin
        return kind or ("figure" if is_figure(word) else "")

    def _parts(self, written: str) -> list[_Label]:
        """Find the words in one that is written together: after an elision, or in a script without spaces."""
        elided = _ELIDED.fullmatch(written)
        if elided:
            before = elided[1].casefold()
            kind = "denies" if before == "n" else self._kind(before, is_first=False) or "names"
            return [_Label(kind, before, elided[1]), *self.labels([elided[2]])]
        found: list[_Label] = []
        rest = written if UNPARTED.search(written) else ""
        while rest:
            piece = self._longest_piece(rest)
            if piece:
                found.append(_Label(self._kind(piece, is_first=not found), piece, piece))
                rest = rest[len(piece) :]
                continue
            unknown, rest = rest[0], rest[1:]
            if found and not found[-1].kind:
                unknown = found.pop().written + unknown
            found.append(_Label("", unknown, unknown))
        return found

    def _longest_piece(self, text: str) -> str:
        """Return the longest phrase with which a text in a script without spaces begins, or ""."""
        for run in self.shown.runs:
            if text.startswith(run):
                return run
        lengths = range(min(len(text), _LONGEST_RUN), 0, -1)
        return next((text[:length] for length in lengths if text[:length] in self._known), "")

    def _sentence(self, text: str) -> _Sentence:
        written = text.replace(POINT, ".")
        clauses = tuple(self._clauses(text))
        asks = not QUESTION_MARKS.isdisjoint(text)
        if not asks:
            is_short = len(text) <= _LONGEST_SENTENCE and not _QUOTED.search(text)
            return _Sentence(text=written, clauses=clauses, asks=False, kind=self._kind_of(clauses) if is_short else "")
        for place, clause in enumerate(clauses):
            if place and (clause.adds or clause.inquires):
                kind = self._kind_of(clauses[:place])
                if kind in {"yes", "no"}:
                    addition = text[text.rindex(clause.text) :].replace(POINT, ".").strip()
                    return _Sentence(text=written, clauses=clauses, asks=True, begins_with=kind, addition=addition)
                break
        return _Sentence(text=written, clauses=clauses, asks=True)

    def _clauses(self, text: str) -> Iterator[_Clause]:
        for part in _PARTS.split(text):
            words = tuple(TOKEN.findall(part))
            labels = tuple(self.labels(words))
            if self._is_led(labels):  # "yes and where is it": what is added is a clause of its own
                first = labels[0]
                yield _Clause(first.written, words[:1], labels[:1])
                rest = part[part.index(first.written) + len(first.written) :]
                yield _Clause(rest.strip(), words[1:], labels[1:])
            elif words:
                yield _Clause(part.strip(), words, labels)

    @staticmethod
    def _is_led(labels: Sequence[_Label]) -> bool:
        """Whether a yes of one word stands right before something besides."""
        if not labels or labels[0].kind != "yes" or " " in labels[0].phrase or labels[0].phrase in phrases()["alone"]:
            return False
        after = next((each for each in labels[1:] if each.kind != "courtesy"), None)
        return after is not None and after.phrase in phrases()["adds"]

    def _kind_of(self, clauses: Sequence[_Clause]) -> str:
        """Return "yes", "no", "beside" or "aside" if clauses are only one by the table, else ""."""
        labels = [label for each in clauses for label in each.labels]
        said = _told(labels)
        if len(clauses) == 1 and _thanks(labels) and _HARMFUL.isdisjoint(each.kind for each in said):
            return "" if self.shown.other(clauses[0].text, spelt=True) else "aside"
        if not said:
            whole = " ".join(each.phrase for each in labels)
            if whole in phrases()["yes"]:
                return "yes"
            return "aside" if labels else ""
        if len(said) == 1 and said[0].phrase in phrases()["no"]:
            return "no"  # though it is a word of the question
        if said[0].kind != "yes" and said[0].phrase in phrases()["adds"]:
            said = said[1:]
        answers = [each.kind for each in said if each.kind != "beside"]
        if not answers:
            return "beside"
        return answers[0] if self._is_answer(clauses, said) else ""

    def _is_answer(self, clauses: Sequence[_Clause], said: Sequence[_Label]) -> bool:
        """Whether what clauses say is only a yes or only a no, perhaps to words of the question."""
        kinds = {each.kind for each in said} - {"beside"}
        first = next(each for each in said if each.kind != "beside")
        if kinds <= {"no", "waits"} and first.kind == "no":
            return all(each.kind != "beside" for each in said)
        allowed = {"yes", "no", "own", "points", "figure", "names", "adds"} if self._asked.words else {"yes"}
        if not kinds <= allowed or any(self.shown.other(each.figures, spelt=True) for each in clauses):
            return False
        if first.kind == "no":
            return "yes" not in kinds and any(each.phrase.endswith(("don't", "do not", "dont")) for each in said)
        if first.kind != "yes" or "no" in kinds:
            return False
        is_weak = said[0].phrase in phrases()["weak"]
        return not any(_is_doubtful(_told(each.labels), is_weak=is_weak) for each in clauses)

    def _without_greetings(self, text: str) -> str:
        """Drop the ends of a letter: a greeting with a name, and a name in a line of its own."""
        lines = [each for each in text.split("\n") if each.strip()]
        if not lines:
            return ""
        opening = WORD.findall(lines[0]) if len(lines) > 1 else []
        if 0 < len(opening) <= _MOST_WORDS and self._opens(self.labels(opening)):
            lines = lines[1:]
        for place in range(1, len(lines)):
            is_last = place + 1 == len(lines)
            if self._ends_letter(lines[place], alone=is_last) and all(map(self._follows, lines[place + 1 :])):
                lines = lines[:place]
                break
        return "\n".join([*lines[:-1], self._without_name(lines[-1])])

    @staticmethod
    def _opens(labels: Sequence[_Label]) -> bool:
        """Whether words begin a letter: "Dear team"."""
        return labels[0].phrase in phrases()["opens"] and _says_nothing(labels)

    def _ends_letter(self, line: str, *, alone: bool) -> bool:
        """Whether a line begins the end of a letter: "Best regards", "- Tom", or `alone` a name."""
        words = WORD.findall(line.strip().lstrip("".join(_DASHES)))
        if len(words) > _MOST_WORDS + _MOST_SIGNED:
            return False
        labels = self.labels(words)
        if not labels:
            return line.strip().startswith(_DASHES)
        if labels[0].phrase in phrases()["signs"]:
            *_, last = labels[0].phrase.split()
            rest = words[len(labels[0].phrase.split()) :]
            is_by_program = last in phrases()["names"] and _says_nothing(labels)  # "sent from my …"
            return not rest or self._is_name(rest) or is_by_program
        return (alone or line.strip().startswith(_DASHES)) and self._is_name(words)

    def _follows(self, line: str) -> bool:
        """Whether a line stands below the end of a letter: a name, a number, or what a program adds."""
        words = TOKEN.findall(line)
        labels = self.labels(words)
        digits = sum(map(str.isdigit, line))
        is_signed = bool(labels) and labels[0].phrase in phrases()["signs"]
        return self._is_name(words) or (_says_nothing(labels) and (is_signed or digits >= _SHORTEST_PHONE))

    def _without_name(self, line: str) -> str:
        """Drop a greeting with a name at the end of a line."""
        found = list(WORD.finditer(line))
        words = [each.group() for each in found]
        small = [each.casefold() for each in words]
        first = max(len(words) - _MOST_WORDS - _MOST_SIGNED, 1)
        for place in range(first, len(words)):
            label, length = self._longest_at(words, small, place)
            if label.phrase in phrases()["signs"] and self._is_name(words[place + length :]):
                return line[: found[place].start()]
        return line

    def _is_name(self, words: Sequence[str]) -> bool:
        return 0 < len(words) <= _MOST_SIGNED and all(self._may_be_name(word) for word in words)

    def _may_be_name(self, word: str) -> bool:
        is_known = word.casefold() in self._known or is_figure(word.casefold())
        is_written_so = word[0].isupper() or UNPARTED.match(word) is not None or not word[0].isalnum()
        return is_written_so and not is_known and len(word) <= _LONGEST_RUN


def _said_now(message: str) -> str:
    """Drop what a mail holds and its writer does not say in it: earlier mail, and notices at its end of whom it is for.

    Of an earlier mail the lines are marked, or a line of dashes and words parts it from what is new.
    """
    lines = message.split("\n")
    parted = next((place for place, line in enumerate(lines) if _EARLIER_MAIL.fullmatch(line.strip())), len(lines))
    lines = lines[:parted]
    quoted = [place for place, line in enumerate(lines) if line.lstrip().startswith(">")]
    introduced = {place - 1 for place in quoted if place and lines[place - 1].rstrip().endswith(":")}
    own = [line for place, line in enumerate(lines) if place not in introduced.union(quoted)]
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
    return (_HARMFUL | {"yes", "own", "reports"}).isdisjoint(label.kind for label in labels)


def _is_doubtful(said: Sequence[_Label], *, is_weak: bool) -> bool:
    """Whether words of the table may ask for something else, or call off.

    "Confirm" with an object asks for another thing. "Yes, cancel" may say either, so a word that calls off needs an
    object, and so does a word like "with".
    """
    table = phrases()
    for place, label in enumerate(said):
        is_last = place + 1 == len(said)
        has_object = not is_last and said[place + 1].kind in {"own", "figure", "points", "names"}
        if label.phrase in table["alone"] and not is_last and not (place and " " in label.phrase):
            return True
        if label.kind == "own" and label.phrase in table["no"] and (is_weak or not has_object):
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
    said = [each for each in read.sentences if each.kind not in {"aside", "beside"}]
    if quote:
        why = _why_not_quoted(read, quote)
        return (NEITHER, why) if why else (Consent("yes", " ".join(each.text for each in said if not each.kind)), "")
    own = said[0] if said else None
    if quote is not None:
        own = next((each for each in said if each.kind == "yes"), own)
    answer = "" if own is None else own.kind or own.begins_with
    if own is None or not answer:
        return NEITHER, _why_not_begun(read)
    if any(each.kind not in {"", answer} for each in said):
        return NEITHER, "it says yes and no"
    rest = " ".join(filter(None, (own.addition, *(each.text for each in said if each is not own and not each.kind))))
    if answer == "no":
        return Consent("no", rest), ""
    why = "it may only say that this was heard" if rest and own.is_weak else ""
    why = why or _why_not_by_table(read, own, unread=quote is None)
    return (NEITHER, why) if why else (Consent("yes", rest), "")


def _why_not_begun(read: _ReadMessage) -> str:
    """Return what makes a sentence that begins with a yes none, or ""."""
    for sentence in read.sentences:
        if not sentence.asks and [each.kind for each in _told(sentence.labels)][:1] == ["yes"]:
            return _why_not(read, [sentence])
    return ""


def _why_not_by_table(read: _ReadMessage, own: _Sentence, *, unread: bool) -> str:
    """Return what makes a sentence that is a yes by the table none, or "".

    `unread` says that no model has read the message.
    """
    labels = [label for each in read.sentences for label in each.labels]
    is_odd = any(not each.kind and not each.is_unknown for each in labels)
    if is_odd or has_any(read.text.casefold(), phrases()["ironic"]):
        return "it may not be meant"
    reasons: Mapping[str, str] = _UNREAD if unread else {"scope": _UNREAD["scope"]}
    for label in labels:
        if label.kind in reasons:
            return f"{reasons[label.kind]}, {label.written!r}"
    other = read.shown.other(read.text, spelt=False) if unread else ""
    return f"it names another {describe_other(other)}, {other}" if other else _why_not(read, [own])


class _Word(NamedTuple):
    """A word of a message and where it stands."""

    word: str
    sentence: _Sentence
    clause: _Clause


def _why_not_quoted(read: _ReadMessage, quote: str) -> str:
    """Return why the words that a model quotes are no yes, or ""."""
    parts = _PARTS.split(with_whole_words(plain(quote)))
    wanted = [each.casefold() for part in parts for each in TOKEN.findall(part)]
    words: list[_Word] = []
    for sentence in read.sentences:
        for clause in sentence.clauses:
            words += (_Word(word.casefold(), sentence, clause) for word in clause.words)
    why = "the words that are quoted for it are not in the message"
    for start in range(len(words) - len(wanted) + 1):
        found = words[start : start + len(wanted)]
        if wanted and all(_is_quoted(one, other.word) for one, other in zip(wanted, found, strict=True)):
            why = _why_not_at(read, found)
            if not why:
                return ""
    return why


def _is_quoted(wanted: str, word: str) -> bool:
    """Whether a word of a quote is one of the message; in scripts without spaces, a part of one."""
    return wanted == word or (UNPARTED.search(wanted) is not None and wanted in word)


def _why_not_at(read: _ReadMessage, quoted: Sequence[_Word]) -> str:
    """Return why words of a message are no yes, or ""."""
    agrees = False
    for clause, group in groupby(quoted, key=lambda each: each.clause):
        words = list(group)
        is_besides = clause.adds and clause is not words[0].sentence.clauses[0]
        agrees = agrees or (not is_besides and _agrees(read.labels([each.word for each in words])))
    if not agrees:
        return "its words do not agree"
    own = [each for each in read.sentences if any(each is other.sentence for other in quoted)]
    kinds = [label.kind for each in own for label in each.labels]
    is_heard = "heard" in kinds and sum(each in _AGREEING for each in kinds) == 1
    return _why_not(read, own) or ("it may only say that this was heard" if is_heard else "")


def _agrees(labels: Sequence[_Label]) -> bool:
    """Whether words agree: by a phrase of the table, or by what would be done ("refund it")."""
    said = _told(labels)
    for place, label in enumerate(said):
        asks_else = label.phrase in phrases()["alone"] and place + 1 < len(said) and " " not in label.phrase
        if label.kind in _AGREEING and not asks_else:
            return True
    is_request = bool(said) and said[0].phrase in ACTING and said[0].phrase not in phrases()["no"]
    return is_request and all(each.kind in {"own", "points", "figure", "names"} for each in said)


def _why_not(read: _ReadMessage, own: Sequence[_Sentence]) -> str:
    """Return what makes a yes in sentences none, or ""."""
    for quoted in _QUOTED.findall(read.text):
        if any(label.kind in {"yes", "no", "beside"} for label in read.labels(TOKEN.findall(quoted))):
            return "it quotes somebody"
    for sentence in read.sentences:
        why = _why_not_by(read, sentence, is_own=any(sentence is each for each in own))
        if why:
            return why
    return ""


def _why_not_by(read: _ReadMessage, sentence: _Sentence, *, is_own: bool) -> str:
    """Return what in a sentence makes a yes none, or ""; `is_own` if it is the yes."""
    kinds = {label.kind for label in sentence.labels}
    first = sentence.clauses[0] if sentence.clauses else None
    begins_so = first is not None and first.inquires and not first.adds and first.labels[0].kind not in _AGREEING
    if is_own and (sentence.asks or begins_so) and not sentence.begins_with:
        return "it asks"
    reports = "reports" in kinds and (is_own or not kinds.isdisjoint(_AGREEING | {"no", "denies"}))
    if reports or (is_own and any(map(_is_told_of, sentence.clauses))):
        return "it tells what somebody says"
    is_besides = False
    for place, clause in enumerate(sentence.clauses):
        if _waits(clause):
            return "it asks to wait"
        if sentence.asks and (clause.adds or clause.inquires):
            return ""  # the rest is a question
        is_besides = is_besides or (clause.adds and (place > 0 or not is_own))
        is_yes = is_own and not (place > 0 and clause.tells)
        why = _why_not_besides(clause) if is_besides else _why_not_in(read, clause, is_own=is_yes, is_first=place == 0)
        if why:
            return why
    return ""


def _why_not_besides(clause: _Clause) -> str:
    """Return what in a further wish makes a yes none, or "". What is wished besides may name anything."""
    said = _told(clause.labels)
    is_wish = any(each.is_unknown for each in said)
    for label in clause.labels:
        why = _why_not_word(label, said)
        if not why and label.kind in {"scope", "times"} and not is_wish:
            why = f"it names something else, {label.written!r}"
        if why:
            return why
    is_about = any(each.kind == "points" for each in said)
    other = _recipient(clause.labels) if is_about else ""
    return f"it names somebody else, {other!r}" if other else ""


def _why_not_in(read: _ReadMessage, clause: _Clause, *, is_own: bool, is_first: bool) -> str:
    """Return what in a clause makes a yes none, or ""; `is_own` if it is of the sentence that agrees."""
    labels, said = clause.labels, _told(clause.labels)
    points = any(each.kind == "points" for each in said)
    is_close = is_own or _names_only(said) or any(each.kind == "own" for each in said)
    begins = labels[0].phrase if labels and labels[0].kind not in _NEUTRAL else ""
    for label in labels:
        why = "it refuses" if is_own and label.kind == "no" else _why_not_word(label, said)
        is_other = (is_close or label.phrase == begins) and not _thanks(labels)
        if not why and is_other and label.kind in {"scope", "times"}:
            why = "it names something else" if label.kind == "scope" else "it names another time"
        if why:
            return f"{why}, {label.written!r}"
    if any(each.kind == "unneeded" for each in labels):
        return ""  # it is of something else, whatever it names
    other = read.shown.other(clause.figures, spelt=is_close or points)
    if other:
        return f"it names another {describe_other(other)}, {other}"
    if not is_own and begins in phrases()["continues"]:
        return f"it adds to what was asked, {clause.text!r}"
    if _thanks(labels):
        return ""
    if is_close:
        other = _other_thing(read, clause, is_own=is_own, is_first=is_first)
    elif points:
        other = _recipient(labels)
    return f"it names something else, {other!r}" if other else ""


def _why_not_word(label: _Label, said: Sequence[_Label]) -> str:
    """Return why a phrase makes a yes none wherever it stands, or ""."""
    is_about = any(each.kind in {"own", "points"} for each in said)
    if label.kind == "stops":
        return "it makes a condition or a change"
    if label.kind == "denies" or (label.kind == "unneeded" and is_about):
        return "it denies something"
    # "Stop the newsletter" beside a yes is a wish of its own.
    is_wish = not is_about and any(each.is_unknown for each in said)
    if label.kind == "no" and (label.phrase in phrases()["refuses"] or not is_wish):
        return "it refuses"
    return ""


def _other_thing(read: _ReadMessage, clause: _Clause, *, is_own: bool, is_first: bool) -> str:
    """Return a word that names what is not of the call: after a word that stands before things, or by itself."""
    labels = clause.labels
    names = phrases_in(read.language, "names")
    has_names = read.language != "de" and not read.text.isupper()
    for place, label in enumerate(labels):
        if not label.is_unknown:
            continue
        before = labels[place - 1] if place else None
        if before is not None and before.phrase in phrases()["articles"] and place > 1:
            before = labels[place - 2]
        has_article = before is not None and before.phrase in names
        if label.phrase.endswith(_ADVERBS) and not has_article:
            continue
        is_named = has_article or (before is not None and before.kind in {"own", "figure", "adds"})
        is_name = label.written[:1].isupper() and has_names and not (place == 0 and is_first)
        if is_named or is_name or is_run(label.written):
            return label.written
    said = [each for each in _told(labels) if not (is_own and each.kind in _AGREEING)]
    said = [each for each in said if not each.phrase.endswith(_ADVERBS)]
    if not _names_only(said) or (is_own and _is_deed(said)):
        return ""
    return next((each.written for each in said if each.is_unknown), "")


def _recipient(labels: Sequence[_Label]) -> str:
    """Return whom something goes to or is for, in words about what was asked, or ""."""
    for place, (label, after) in enumerate(pairwise(labels)):
        if label.phrase not in phrases()["towards"]:
            continue
        owned = labels[place + 2] if place + 2 < len(labels) and after.phrase in phrases()["between"] else after
        if owned.is_unknown and (owned is not after or after.written[:1].isupper()):
            return owned.written
    return ""


def _waits(clause: _Clause) -> bool:
    """Whether a clause asks for time."""
    for label in clause.labels:
        if label.kind == "waits":
            return True
        if label.kind not in {"yes", "beside", "fills", "inquires", "no", *_NEUTRAL}:
            return False
    return False


def _is_told_of(clause: _Clause) -> bool:
    """Whether a clause has somebody agree: "they promised me yes"."""
    kinds = ["" if each.is_unknown else each.kind for each in clause.labels]
    return "" in kinds and "yes" in kinds[kinds.index("") :] and "yes" not in kinds[: kinds.index("")]


def _is_deed(said: Sequence[_Label]) -> bool:
    """Whether words begin with a verb that is not known to do anything else: "use the card"."""
    is_verb = len(said) > 1 and said[0].written.islower() and said[0].phrase not in ACTING
    return is_verb and said[1].kind in {"points", "names"} and said[1].phrase not in phrases()["choices"]


def _names_only(said: Sequence[_Label]) -> bool:
    """Whether words only name something, as in "The blue lamp."."""
    return all(each.kind in {"", "names", "figure", "points", "own", "scope", "times"} for each in said)
