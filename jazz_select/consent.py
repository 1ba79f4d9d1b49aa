"""Read a yes or a no, and the rest of the message, by one table of phrases (`phrases.toml`)."""

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from jazz_select.text import nfkc
from jazz_select.words import ACTING, stem, stems

Answer = Literal["yes", "no", "neither"]
LONGEST_READ: Final = 4_000
"""The most characters of a message that are read; Unicode folding may turn one into eighteen."""
_LONGEST_SENTENCE: Final = 200
_MOST_WORDS: Final = 5
_SENTENCES: Final = re.compile(r"[^.!?;…。！？؟\n]+[.!?;…。！？؟\n]*")
_ABBREVIATED: Final = re.compile(r"(?<=\d)[.](?=\d)|(?<=[\w-])\.(?=\w)")
"""A point inside a number or a name does not end a sentence."""
_PIECES: Final = re.compile(r"[.,;:!¡…。、！()\[\]\"\n]+")
_ASKING: Final = frozenset("?؟¿？")
_QUOTING: Final = frozenset('"“”„«»')
_TONES: Final = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
"""Skin tones and variation selectors of emoji."""
_SPOKEN: Final = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|/s|[^\w\s.,;:!?]")
_APOSTROPHES: Final = re.compile(r"(?<=\w)[\u2018\u2019\u201b\u02bc\u00b4\u0060\u2032\uff07](?=\w)|\u2019")
"""What is typed for an apostrophe inside a word; some of them would be folded into a space and an accent."""
_SPLIT: Final = re.compile(
    r"\b(do|does|did|is|are|was|wo|would|should|could|ca|must|has|have|had)(?:n[ \u0300\u0301]+t| n't)\b"
)
"""A negation whose apostrophe became a space, or an accent over one: "don t"."""
_UNPARTED: Final = re.compile("[\u3040-\u9fff\u2600-\u27bf\U0001f000-\U0001faff]")
_SCRIPTS: Final = {"ja": re.compile("[\u3040-\u30ff]"), "ru": re.compile("[\u0400-\u04ff]")}
_ADDING: Final = re.compile(r"\s*[,–—-]\s+")
_ENDS: Final = " \t\n.!"
_SHORTEST_FORM: Final = 5
"""The least letters of a verb whose other forms are told by its beginning ("cancel": "cancellation")."""
_SHORTEST_WISH: Final = 4
"""The least words of an independent sentence beside a yes; shorter ones ("to Bob", "tomorrow") correct the request."""
_LETTERS_OF_A_WORD: Final = 3
"""Letters that count as one word in scripts without spaces."""
_CLAUSES: Final = re.compile(r"[.,;:!?…。、！？؟()\n–—]+|\s-\s")
_NUMBERED: Final = re.compile(r"\bno\b[.:]?\s*(?=#?\d)")
"""An abbreviated "number", which denies nothing: "order no 60112"."""
_OWN: Final = frozenset({""})
"""Replaces the words of a question where there is none, so that only pointing and joining words are known."""
_POINT: Final = "\ue001"
"""Placeholder for a point inside a number or a name."""
_GIVEN: Final = "\ue000"
"""Placeholder for an argument of the call in question."""


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


class Consent(NamedTuple):
    """The answer in a message.

    Attributes:
        answer: `yes`, `no`, or `neither`, which never counts as a yes.
        rest: The rest of the message, to be read like any other.
    """

    answer: Answer
    rest: str = ""


NEITHER: Final = Consent("neither")


@cache
def _languages() -> Mapping[str, Mapping[str, list[str]]]:
    return tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))


@cache
def phrases() -> Mapping[str, frozenset[str]]:
    """Return the phrases of all languages by kind, as `phrases.toml` explains them."""
    every = [*_languages().values()]
    return {kind: frozenset(nfkc(phrase) for each in every for phrase in each[kind]) for kind in every[0]}


@cache
def _words_by_language() -> Mapping[str, frozenset[str]]:
    words = {
        language: {word for phrases_of in kinds.values() for phrase in phrases_of for word in _SPOKEN.findall(phrase)}
        for language, kinds in _languages().items()
    }
    count = Counter(word for each in words.values() for word in each)
    return {language: frozenset(word for word in each if count[word] == 1) for language, each in words.items()}


def language_of(message: str) -> str:
    """Return the language of a message, such as "de", if the table has it; empty if its words do not tell.

    A script used by one language of the table tells it at once.
    """
    text = _folded(message[:LONGEST_READ])
    for language, letters in _SCRIPTS.items():
        if letters.search(text):
            return language
    said = _SPOKEN.findall(text)
    counts = {language: sum(word in words for word in said) for language, words in _words_by_language().items()}
    first, second = sorted(counts.values(), reverse=True)[:2]
    return max(counts, key=counts.__getitem__) if first > second else ""


def read_consent(message: str, asked: Asked = NOTHING_ASKED, *, quote: str | None = None) -> Consent:
    """Return whether a message agrees, refuses or does neither, and what else it says.

    A yes is a sentence made only of phrases and courtesies of the table, or of these and words of the question. Only
    courtesies may precede it. Nothing after it may call off, deny, add a condition, or name a thing that was not asked
    about. A no is read likewise. A question ("yes?") answers nothing.

    Args:
        message: What the user says.
        asked: The question.
        quote: The sentence in which a model that read the message finds a yes; "" if it names none. It may stand
            anywhere, and beside it denials and other names are allowed, since the model read them. A condition or a
            cancellation still makes it no yes.
    """
    if len(message) > LONGEST_READ or {_GIVEN, _POINT} & set(message):
        return NEITHER
    text = _plain(message)
    if _has(text.casefold(), phrases()["ironic"]):
        return NEITHER
    said = [each.strip() for each in _SENTENCES.findall(text) if each.strip(_ENDS)]
    kinds = [_kind_of(each.casefold(), asked) for each in said]
    telling = [place for place, kind in enumerate(kinds) if kind != "courtesy"]
    if not telling:
        return NEITHER
    place, wanted = telling[0], None if quote is None else _folded(quote).strip(_ENDS)
    if wanted is not None:
        sure = [each for each in telling if kinds[each] == "yes"]
        place = next((each for each in sure if wanted in {"", said[each].casefold().strip(_ENDS)}), place)
    rest = [said[each] for each in telling if each != place and (not kinds[each] or kinds[each] != kinds[place])]
    if kinds[place] == "yes" and any(
        _corrects(said[each].casefold()) for each in telling if each > place and not kinds[each]
    ):
        return NEITHER
    if kinds[place] in {"yes", "no"}:
        return _with_rest(kinds[place], said[place], rest, asked, wanted)
    return _begun(said[place], rest, asked, wanted)


def is_courtesy(message: str) -> bool:
    """Whether a message is only thanks or a greeting."""
    if len(message) > LONGEST_READ:
        return False
    said = [each for each in _SENTENCES.findall(_folded(message)) if each.strip(_ENDS)]
    return bool(said) and all(_kind_of(each, NOTHING_ASKED) == "courtesy" for each in said)


def is_every(message: str) -> bool:
    """Whether a message says that all of several things are meant: "both of them, please"."""
    if len(message) > LONGEST_READ:
        return False
    table = phrases()
    words = _SPOKEN.findall(_folded(message))
    polite = table["courtesy"] | table["yes"]
    while words and words[0] in polite:
        words.pop(0)
    while words and words[-1] in polite:
        words.pop()
    return " ".join(words) in table["every"]


def is_denied(message: str, names: Sequence[str]) -> bool:
    """Whether a message says that something is not to be done, for a reader that cannot understand it.

    True if a clause begins with a denial ("don't cancel it", "no refund") or calls the wish off ("stop the refund"),
    or if no clause without a denial has a verb of the `names` of what would be done: "I don't want it any more, cancel
    it" asks for "cancel order". A denial of something else stands beside a clear wish: "cancel it, and don't charge
    me". In doubt it is True, so that somebody is asked.
    """
    if len(message) > LONGEST_READ:
        return True
    text = _SPLIT.sub(r"\1n't", _NUMBERED.sub(" ", _folded(message)))
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
    ends = phrases()["stops"] | phrases()["no"]
    return clause[0] in ends and _mentions(clause[1:], verbs)


def _mentions(clause: Sequence[str], verbs: frozenset[str]) -> bool:
    """Whether a clause has one of these verbs, in any form: "cancel" as "cancelled", or as "cancellation"."""
    forms = tuple(verb.removesuffix("e") for verb in verbs if len(verb) >= _SHORTEST_FORM)
    return not verbs.isdisjoint(stems(" ".join(clause))) or any(word.startswith(forms) for word in clause)


def _without_additions(text: str) -> list[list[str]]:
    """Split a clause before words that add something, and drop the courtesies around the words of each part."""
    parts: list[list[str]] = [[]]
    for word in _SPOKEN.findall(text):
        if word in phrases()["adds"]:
            parts.append([])
        elif parts[-1] or word not in phrases()["courtesy"]:
            parts[-1].append(word)
    return parts


def _denies(text: str) -> bool:
    return _has(text, phrases()["denies"]) or any(each.endswith("n't") for each in _SPOKEN.findall(text))


def has_denial(text: str) -> bool:
    """Whether a text denies anything, such as "it could not be done", by the words of the table."""
    return _denies(_folded(text))


def is_refusal(message: str) -> bool:
    """Whether a message answers no, without cancelling the request itself."""
    return " ".join(filter(None, (each.strip() for each in _PIECES.split(_folded(message))))) in phrases()["refuses"]


def _begun(sentence: str, rest: Sequence[str], asked: Asked, wanted: str | None) -> Consent:
    """Read a question that begins with a yes or a no: "yes, and are there fees?".

    Such an addition that is not a question may be irony ("sure, and pigs fly"), unless a model quotes just the yes.
    """
    for found in _ADDING.finditer(sentence):
        if found.start() > _LONGEST_SENTENCE:  # what is so long is no yes
            break
        begun, added = sentence[: found.start()].casefold(), sentence[found.end() :]
        if wanted != begun.strip(_ENDS) and not _ASKING.intersection(sentence):
            continue
        if any(added.casefold().startswith(f"{each} ") for each in phrases()["adds"]):
            kind = "" if any(_corrects(each.casefold()) for each in rest) else _kind_of(begun, asked)
            return _with_rest(kind, begun, [added, *rest], asked, wanted) if kind in {"yes", "no"} else NEITHER
    return NEITHER


def _with_rest(kind: str, sentence: str, rest: Sequence[str], asked: Asked, wanted: str | None) -> Consent:
    """Return a yes or a no, unless the rest of the message contradicts it."""
    read = "" if wanted is None else "quoted" if wanted == sentence.casefold().strip(_ENDS) else "read"
    if not rest:
        return Consent("yes" if kind == "yes" else "no")
    weak = {" ".join(each.split()) for each in _PIECES.split(sentence.casefold())} <= {
        *phrases()["weak"],
        *phrases()["courtesy"],
        "",
    }
    if any(_kind_of(each.casefold(), asked) in {"yes", "no"} for each in rest) or (weak and kind == "yes"):
        return NEITHER
    if kind == "yes" and any(_stops(each.casefold(), asked, read=read) for each in rest):
        return NEITHER
    return Consent("yes" if kind == "yes" else "no", " ".join(each.replace(_POINT, ".").strip() for each in rest))


def _stops(sentence: str, asked: Asked, *, read: str) -> bool:
    """Whether a sentence beside a yes may revoke it: by a condition, a change, a denial or another value."""
    table, said = phrases(), [kind for piece in _PIECES.split(sentence) for kind, _ in _kinds(piece.split(), _OWN)]
    if _has(sentence, table["stops"]) or ("no" in said and "" not in said):
        return True
    if read != "quoted" and _has(sentence, table["scope"]):
        return True
    others = _named(sentence) - _named(" ".join((asked.words, *_shown(asked.arguments))))
    return not read and (_denies(sentence) or bool(others))


def _corrects(sentence: str) -> bool:
    """Whether a statement is too short to be independent, or continues the yes before it."""
    if _ASKING.intersection(sentence):
        return False
    words = [word for word in _SPOKEN.findall(sentence.replace(_POINT, "")) if word[0].isalnum()]
    if words and words[0] in phrases()["adds"]:
        return False
    unparted = sum(1 for letter in sentence if letter.isalnum() and _UNPARTED.match(letter))
    length = unparted // _LETTERS_OF_A_WORD if unparted else len(words)
    return length < _SHORTEST_WISH or words[0] in phrases()["continues"]


def _named(text: str) -> frozenset[str]:
    """Return the words that name a particular thing: those with a digit or an @."""
    words = (word.strip(_ENDS + ",;:?()") for word in text.replace(_POINT, ".").casefold().split())
    return frozenset(word for word in words if "@" in word or any(map(str.isdigit, word)))


def _has(text: str, listed: Iterable[str]) -> bool:
    """Whether a text contains one of these phrases; in scripts without spaces, anywhere."""
    said = f" {' '.join(_SPOKEN.findall(text))} "
    return any(f" {each} " in said or (_UNPARTED.search(each) is not None and each in text) for each in listed)


def _plain(message: str) -> str:
    """Remove invisible characters, keeping the user's letters."""
    seen = "".join(each for each in message if unicodedata.category(each) != "Cf")
    text = _TONES.sub("", nfkc(_APOSTROPHES.sub("'", seen))).strip()
    return _ABBREVIATED.sub(_POINT, text)


def _folded(message: str) -> str:
    return _plain(message).casefold()


def _kind_of(sentence: str, asked: Asked) -> str:
    """Return "yes", "no" or "courtesy" if a sentence is one, else ""."""
    if len(sentence) > _LONGEST_SENTENCE or (_ASKING | _QUOTING).intersection(sentence):
        return ""
    text = sentence.replace(_POINT, ".")
    pieces = [" ".join(piece.split()) for piece in _PIECES.split(text)]
    table, whole = phrases(), " ".join(filter(None, pieces))
    if whole in table["yes"] or whole in table["no"]:
        return "yes" if whole in table["yes"] else "no"
    found = {kind for piece in pieces for kind, _ in _kinds(piece.split(), frozenset())}
    if found == {"courtesy"}:
        return "courtesy"
    if len(answers := found - {"courtesy", "beside"}) == 1 and answers <= {"yes", "no"}:
        return answers.pop() if "beside" not in found or "yes" in found else ""
    return _repeated(text, asked) if asked.words else ""


def _repeated(text: str, asked: Asked) -> str:
    """Return "yes" or "no" for an answer that repeats the question and says nothing more.

    If an argument is itself a "no" or a "stop", a refusal looks like its repetition, so it is not a yes.
    """
    table, whole = phrases(), text
    for phrase in sorted(_shown(asked.arguments), key=len, reverse=True):
        text = re.sub(rf"(?<![\w@.+-]){re.escape(phrase)}(?![\w@+-]|\.\w)", f" {_GIVEN} ", text)
    own = frozenset(stems(asked.words)) - table["denies"]  # a title may contain a "not"
    pieces = [_kinds(piece.split(), own) for piece in _PIECES.split(text)]
    said = [each for piece in pieces for each in piece if each[0] not in {"courtesy", "beside"}]
    kinds = [kind for kind, _ in said]
    if not said or "" in kinds or kinds.count("given") > len(asked.arguments):
        return ""
    if kinds[0] == "no":
        denied = any(phrase.endswith(("don't", "do not", "dont")) for _, phrase in said)
        return "no" if "yes" not in kinds and denied else ""
    if kinds[0] != "yes" or "no" in kinds or any(_asks_else(each) for each in pieces):
        return ""
    # "ok, cancel" may say either, and so may "yes, cancel": a word that calls off has to have an object.
    doubtful = any(
        kind == "own"
        and phrase in table["no"]
        and (said[0][1] in table["weak"] or after not in {"own", "given", "points"})
        for (kind, phrase), (after, _) in pairwise([*said, ("", "")])
    )
    return "" if doubtful or _takes_back(whole, own) else "yes"


def _asks_else(piece: Sequence[tuple[str, str]]) -> bool:
    """Whether an agreeing word has an object, so that it asks for something other than the call."""
    return any(
        phrase in phrases()["alone"] and any(kind != "courtesy" for kind, _ in piece[place + 1 :])
        for place, (_, phrase) in enumerate(piece)
    )


def _takes_back(text: str, own: frozenset[str]) -> bool:
    """Whether a text denies or calls off, other than by words of its `own`."""
    table, words = phrases(), _SPOKEN.findall(text)
    if any(word in table["denies"] or word.endswith("n't") for word in words):
        return True
    return any(
        " ".join(words[start : start + length]) in table["no"]
        and any(word not in own and stem(word) not in own for word in words[start : start + length])
        for start in range(len(words))
        for length in range(1, _MOST_WORDS + 1)
    )


def _shown(arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments as people name them: the value, or its name before it."""
    found: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = " ".join(nfkc(str(value)).casefold().split())
            found += [text, f"{name.replace('_', ' ').casefold()} {text}"] if 0 < len(text) <= _LONGEST_SENTENCE else []
    return found


def _kinds(words: list[str], own: frozenset[str]) -> list[tuple[str, str]]:
    """Split words into phrases, longest first, each with its kind; "" for unknown words."""
    found: list[tuple[str, str]] = []
    while words:
        for length in range(min(_MOST_WORDS, len(words)), 0, -1):
            phrase = " ".join(words[:length])
            kind = _kind(phrase, own if length == 1 else frozenset())
            if kind:
                if kind != "between":
                    found.append((kind, phrase))
                words = words[length:]
                break
        else:
            return [("", words[0])]
    return found


def _kind(phrase: str, own: frozenset[str]) -> str:
    if own and (phrase in own or stem(phrase) in own):
        return "own"
    if own and phrase == _GIVEN:
        return "given"
    table = phrases()
    listed = (("courtesy", table["courtesy"]), ("no", table["no"]), ("yes", table["yes"]), ("beside", table["beside"]))
    kind = next((name for name, listing in listed if phrase in listing), "")
    if kind or not own:
        return kind
    return "points" if phrase in table["points"] else "between" if phrase in table["between"] else ""
