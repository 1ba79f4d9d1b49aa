"""What a message says to a question that wants a yes or a no: by lists of words in seven languages, and by no model."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, Literal
from unicodedata import normalize

from jazz_select.agent.flows.tentative import DENYING, LONGEST_READ
from jazz_select.routing.names.words import stem, stems
from jazz_select.text import nfkc, word_list

Consent = Literal["yes", "no", ""]
"""Agreed, called off, or neither: then it is never taken as a yes."""

_CALLED_OFF: Final = """
    no, nope, nah, no no, no thanks, no thank you, cancel, stop, wait, never mind, nevermind, forget it,
    forget about it, leave it, abort, not now, quit, exit, don't, do not, dont, don't do it, do not do it, please don't,
    please don't do it, please do not,
    i don't want that, i changed my mind, hold on, call it off, absolutely not, of course not, keep it, keep that,
    keep them, leave it as it is, leave it alone, 👎, ❌
    nein, nö, nee, ne, nein danke, nein bitte nicht, bitte nicht, lieber nicht, doch nicht, nicht jetzt, abbrechen,
    abbruch, brich ab, stopp, halt, lass es, lassen sie es, lass das, vergiss es, vergessen sie es, auf keinen fall,
    behalte es, behalten sie es, lass, lass mal, lass gut sein, lassen wir das, lassen wir es
    no gracias, cancelar, cancela, cancele, cancélalo, detente, detener, para, alto, olvídalo, olvidalo, déjalo, dejalo,
    mejor no, ahora no, no lo hagas, no lo haga, de ninguna manera
    non, non merci, annuler, annule, annulez, arrête, arrete, arrêtez, laisse tomber, laissez tomber, oublie, oubliez,
    pas maintenant, surtout pas, ne le fais pas, ne le faites pas, stop
    no grazie, annulla, annullare, ferma, fermati, fermo, lascia perdere, lasci perdere, lascia stare, meglio di no,
    non ora, non farlo, non lo faccia, assolutamente no
    нет, не, нет спасибо, не надо, не нужно, отмена, отмени, отмените, отменить, стоп, стой, остановись, забудь,
    не сейчас, не делай, не делайте, ни в коем случае
    いいえ, いや, いえ, やめて, やめてください, やめる, やめます, やめておきます, キャンセル, キャンセルして,
    キャンセルしてください, 中止, 中止して, 中止してください, 止めて, 止めてください, 結構です, いりません, だめ, 駄目,
    待って, 待ってください, しないで, しないでください
"""
_AGREED: Final = """
    yes, yes please, yep, yeah, yup, ok, okay, sure, please, please do, please do it, please do so,
    go on, go ahead, continue, do it, do that,
    yes do it, proceed, confirm, confirmed, agreed, of course, absolutely, i agree, i confirm, that's right,
    that is right, that's correct, that is correct, correct, 👍, ✅
    ja, jawohl, ja bitte, ja gerne, ja gern, gerne, einverstanden, in ordnung, mach das, machen sie das, mach es,
    bestätigt, ich bestätige, weiter, natürlich, na klar, klar, genau
    sí, si, sí por favor, si por favor, claro, claro que sí, de acuerdo, vale, adelante, hazlo, hágalo, confirmo,
    confirmado, por supuesto
    oui, oui s'il te plaît, oui s'il vous plaît, ouais, d'accord, bien sûr, vas-y, allez-y, fais-le, faites-le,
    je confirme, confirmé, volontiers
    sì, sì per favore, certo, d'accordo, va bene, procedi, proceda, fallo, lo faccia, confermo, confermato, certamente
    да, ага, да пожалуйста, хорошо, конечно, давай, давайте, продолжай, продолжайте, согласен, согласна, подтверждаю,
    сделай это, сделайте это, ладно
    はい, ええ, うん, はいお願いします, お願いします, おねがいします, もちろん, もちろんです, 了解,
    了解です, 承知しました,
    確認しました, 続けて, 続けてください, どうぞ, そうです, そうしてください
"""
_POLITE: Final = """
    please, thanks, thank you, many thanks, hi, hello, well, then, bitte, danke, vielen dank, por favor, gracias,
    muchas gracias, s'il te plaît, s'il vous plaît, merci, per favore, grazie, спасибо, пожалуйста, ありがとう,
    ありがとうございます
"""
"""Words beside a yes or a no that change nothing."""
_PLAIN: Final = """
    works, that works, this works, it works, works for me, that works for me, this works for me, sounds good,
    sounds good to me, looks good, looks good to me, looks right, fine, that's fine, that is fine, it's fine,
    it is fine, fine by me, fine with me, that's fine by me, that's fine with me, i'm fine with that,
    i'm fine with it, i'm ok with that, i'm okay with that, i'm happy with that, good, that's good, that is good,
    perfect, alright, go for it, let's do it, let's do this, let's do that, let's go, let us do it, you can go on,
    you may go on, you can go ahead, you may go ahead, i'm sure, i am sure, quite sure, i'm certain, i want that,
    i want it, i'd like that, i would like that, i'd like it, i'd love that, i want you to, i'd like you to,
    i agree to that, i agree to this, make it so, with pleasure, gladly, thank you very much, thanks a lot, do so,
    do this
    gut, das ist gut, das ist in ordnung, klingt gut, das klingt gut, geht klar, machen wir, machen wir so,
    so machen wir das, von mir aus, ich bin sicher, ich bin mir sicher, ich will das, das will ich, so ist es,
    richtig, das stimmt
    bien, está bien, me parece bien, perfecto, suena bien, dale, así es, correcto, es correcto, quiero eso,
    estoy seguro, estoy segura, me va bien
    ça me va, c'est bon, parfait, c'est parfait, ça marche, très bien, je suis sûr, je suis sûre, je veux bien,
    tout à fait, exactement
    mi va bene, per me va bene, perfetto, benissimo, procedi pure, fai pure, esatto, giusto, sono sicuro,
    sono sicura
    подходит, мне подходит, верно, это верно, именно, пойдёт, я уверен, я уверена, я хочу этого
    それでお願いします, それで大丈夫です, それでいいです
"""
"""What people say beside a yes, and mean no more by it. None of it is a yes alone."""


def _phrases(listed: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in re.split(r"[,\n]", normalize("NFKC", listed)) if phrase.strip())


CALLED_OFF: Final = _phrases(_CALLED_OFF)
"""Messages that call off what was asked for."""
AGREED: Final = _phrases(_AGREED)
"""Messages that let it go on."""
POLITE: Final = _phrases(_POLITE)
_BESIDE: Final = _phrases(_PLAIN)
_REFUSED: Final = """
    no, n, nope, nah, no thanks, no thank you, nein, nein danke, nö, nee, no gracias, non, non merci, no grazie,
    нет, нет спасибо, いいえ, いえ, 👎, ❌
"""
REFUSED: Final = _phrases(_REFUSED)
"""Messages that say no to a question, and do not call off what it was asked for."""
CONSENTING: Final = frozenset(word for phrase in AGREED | CALLED_OFF | POLITE for word in phrase.split())
"""Every word of them."""
_BY_LETTER: Final[Mapping[str, Consent]] = {"y": "yes", "n": "no"}
_WEAK: Final = frozenset({"ok", "okay"})
"""Before a word that calls off, these say that it was heard as well as that it may go on."""
_TAKING: Final = frozenset(
    {"confirm", "i confirm", "ich bestätige", "confirmo", "je confirme", "confermo", "подтверждаю"}
)
"""These say yes alone, and before a thing that it is to be confirmed, which may be its opposite: "confirm my order"."""
_CHANGING: Final = frozenset({"correct", "continue", "продолжай", "продолжайте"})
"""These say yes alone, and before anything ask for something else: "correct it"."""
_DENIED: Final = frozenset({"don't", "do not", "dont", "please don't", "please do not"})
AGREEING: Final = frozenset(phrase for phrase in AGREED if " " not in phrase) - POLITE - _TAKING - _CHANGING
"""Words that agree beside others, too: "please" and "correct" do so only alone."""
_POINTING: Final = word_list(
    """
    it that this them those these him her es ihn sie das den die dem lo la los las le les eso esto ça cela il это его её
    их
    """
)
_BETWEEN: Final = word_list("and then the my our und mein meine meinen y el mi et ma mon e il mio mia и мой мою")
"""Words between a yes and what it is said of that add nothing."""
_IRONIC: Final = ("да ладно", "ага конечно")
"""Words that agree each, and together may as well say "as if"."""
_COMMON_BESIDE: Final = frozenset({"para", "halt", "alto"})
"""These call off alone, and beside other words mean something else: "para mí", "mach es halt"."""
_PIECES: Final = re.compile(r"[.,;:!¡…。、()\[\]\"\n]+")
_ASKING: Final = frozenset("?؟¿")
_QUOTING: Final = frozenset('"“”„«»')
_TONES: Final = re.compile("[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]")
"""How an emoji is drawn."""
_SPOKEN: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*|[👎❌]")
_TAKEN_BACK: Final = frozenset(tuple(_SPOKEN.findall(phrase)) for phrase in CALLED_OFF | REFUSED)
"""What calls off or refuses, word for word."""
_GIVEN: Final = "\ue000"
"""Stands for an argument of the call."""
_LONGEST: Final = 200
_MOST_WORDS: Final = 5


def consent(message: str, tool: str = "", arguments: Mapping[str, Any] | None = None) -> Consent:
    """Whether a message agrees, calls off, or does neither.

    Every word of it has to be one of the lists', and all have to say the same: whatever else it says, and whatever it
    asks, is no answer to the question. After a yes, and after "don't", it may repeat what it was asked about: the words
    of the tool, its arguments as they were shown, and words that point to them, as in "yes, cancel it".

    Args:
        message: What the user says.
        tool: The tool that was asked about, or whatever name the question has; a title may stand beside it.
        arguments: What it would get.
    """
    text = _folded(message) if len(message) <= LONGEST_READ else _GIVEN
    if len(text) > _LONGEST or _ASKING.intersection(text) or _GIVEN in text or _is_ironic(text):
        return ""
    if text.strip(".!") in _BY_LETTER:
        return _BY_LETTER[text.strip(".!")]
    pieces = [" ".join(piece.split()) for piece in _PIECES.split(text)]
    whole = " ".join(filter(None, pieces))
    if whole in AGREED or whole in CALLED_OFF:
        return "yes" if whole in AGREED else "no"
    found = {kind for piece in pieces for kind, _ in _kinds(piece.split())} - {"polite"}
    if len(found) == 1 and (said := found & {"yes", "no"}):
        return "yes" if "yes" in said else "no"
    return _repeated(text, tool, arguments or {}) if tool else ""


def is_plain_yes(message: str, tool: str, arguments: Mapping[str, Any]) -> bool:
    """Whether a message is a yes in some words, and has none that may mean anything else.

    What a decision model reads as one counts only then: "yep, that works for me" is, and neither "yeah, right" nor
    "sure, and pigs fly". What it may repeat of the question is as with `consent`.
    """
    text = _folded(message) if len(message) <= LONGEST_READ else _GIVEN
    if len(text) > _LONGEST or (_ASKING | _QUOTING).intersection(text) or _GIVEN in text or _is_ironic(text):
        return False
    return _repeated(text, tool, arguments, _BESIDE) == "yes"


def is_courtesy(message: str) -> bool:
    """Whether a message is nothing but thanks or a greeting."""
    if len(message) > LONGEST_READ:
        return False
    text = nfkc(message).replace("’", "'").casefold()
    pieces = [piece.split() for piece in _PIECES.split(text)]
    found = {kind for piece in pieces for kind, _ in _kinds(piece)} if len(text) <= _LONGEST else {"else"}
    return found == {"polite"}


def calls_off(text: str, tool: str) -> bool:
    """Whether somewhere in a text that is folded something denies, or calls off and is no word of the tool asked about.

    Whatever agrees beside it, such a text is no yes.
    """
    return _takes_back(text, frozenset(stems(tool)) - DENYING, but=_COMMON_BESIDE)


def _is_ironic(text: str) -> bool:
    said = f" {' '.join(_SPOKEN.findall(text))} "
    return any(f" {phrase} " in said for phrase in _IRONIC)


def _takes_back(text: str, own: frozenset[str], *, but: frozenset[str] = frozenset()) -> bool:
    """Whether a word of a text denies, or a phrase calls off, other than by words of its `own` or those in `but`."""
    words = _SPOKEN.findall(text)
    if any(word in DENYING or word.endswith("n't") or word.startswith("n'") for word in words):
        return True
    return any(
        tuple(words[start : start + length]) in _TAKEN_BACK
        and not (length == 1 and words[start] in but)
        and any(word not in own and stem(word) not in own for word in words[start : start + length])
        for start in range(len(words))
        for length in range(1, _MOST_WORDS + 1)
    )


def _folded(message: str) -> str:
    return _TONES.sub("", nfkc(message).replace("’", "'").casefold()).strip(" '\t\n")


def _repeated(text: str, tool: str, arguments: Mapping[str, Any], beside: frozenset[str] = frozenset()) -> Consent:
    """A yes or a "don't" that repeats what it was asked about, and says nothing more, but for phrases `beside` it.

    An argument may itself be a "no" or a "stop": then nobody can tell a refusal from its repetition, and it is no yes.
    """
    whole = text
    for phrase in sorted(_shown(arguments), key=len, reverse=True):
        text = re.sub(rf"(?<![\w@.+-]){re.escape(phrase)}(?![\w@+-]|\.\w)", f" {_GIVEN} ", text)
    own = frozenset(stems(tool)) - DENYING  # a title may have a "not" in it, and so may what somebody takes back
    pieces = [_kinds(piece.split(), own, beside) for piece in _PIECES.split(text)]
    said = [each for piece in pieces for each in piece if each[0] not in {"polite", "beside"}]
    kinds = [kind for kind, _ in said]
    if not said or "else" in kinds or kinds.count("given") > len(arguments):
        return ""
    if kinds[0] == "no":
        return "no" if "yes" not in kinds and _DENIED & {phrase for kind, phrase in said if kind == "no"} else ""
    if kinds[0] != "yes" or "no" in kinds or any(_asks_else(each, stems(tool)) for each in pieces):
        return ""
    # "ok, cancel" may say either, and so may "yes, cancel": a word that calls off has to have an object
    doubtful = any(
        kind == "own" and phrase in CALLED_OFF and (said[0][1] in _WEAK or after not in {"own", "given", "pointing"})
        for (kind, phrase), (after, _) in pairwise([*said, ("", "")])
    )
    return "" if doubtful or _takes_back(whole, own) else "yes"


def _asks_else(piece: list[tuple[str, str]], tool: Sequence[str]) -> bool:
    """Whether a word that agrees has an object, so that it may ask for something else than the call."""
    verb = tool[0] if tool else ""
    for place, (_, agreed) in enumerate(piece):
        rest = [each for each in piece[place + 1 :] if each[0] != "polite"]
        if rest and agreed in _CHANGING:
            return True
        objects = {kind for kind, _ in rest} & {"own", "given"}
        if objects and agreed in _TAKING and all(stem(phrase) != verb for _, phrase in rest):
            return True
    return False


def _shown(arguments: Mapping[str, Any]) -> list[str]:
    """The arguments as people name them: the value, or its name before it."""
    found: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = " ".join(nfkc(str(value)).casefold().split())
            found += [text, f"{name.replace('_', ' ').casefold()} {text}"] if 0 < len(text) <= _LONGEST else []
    return found


def _kinds(
    words: list[str], own: frozenset[str] = frozenset(), beside: frozenset[str] = frozenset()
) -> list[tuple[str, str]]:
    """What the words of one piece say, each with its phrase, the longest first; "else" for what is in no list."""
    found: list[tuple[str, str]] = []
    while words:
        for length in range(min(_MOST_WORDS, len(words)), 0, -1):
            phrase = " ".join(words[:length])
            kind = "beside" if phrase in beside else _kind(phrase, own if length == 1 else frozenset())
            if kind:
                if kind != "between":
                    found.append((kind, phrase))
                words = words[length:]
                break
        else:
            return [("else", words[0])]
    return found


def _kind(phrase: str, own: frozenset[str]) -> str:
    """What one phrase says."""
    if own and (phrase in own or stem(phrase) in own):
        return "own"
    if own and phrase == _GIVEN:
        return "given"
    listed = (("polite", POLITE), ("no", CALLED_OFF), ("yes", AGREED))
    kind = next((name for name, phrases in listed if phrase in phrases), "")
    if kind or not own:
        return kind
    return "pointing" if phrase in _POINTING else "between" if phrase in _BETWEEN else ""
