"""What a message says to a question that wants a yes or a no: by lists of words in seven languages, and by no model."""

import re
from typing import Final, Literal
from unicodedata import normalize

Consent = Literal["yes", "no", ""]
"""Agreed, called off, or neither: then it is never taken as a yes."""

_CALLED_OFF: Final = """
    no, nope, nah, no no, no thanks, no thank you, cancel, stop, wait, never mind, nevermind, forget it,
    forget about it, leave it, abort, not now, quit, exit, don't, do not, dont, don't do it, do not do it, please don't,
    please don't do it, please do not,
    i don't want that, i changed my mind, hold on, call it off, absolutely not, of course not
    nein, nö, nee, ne, nein danke, nein bitte nicht, bitte nicht, lieber nicht, doch nicht, nicht jetzt, abbrechen,
    abbruch, brich ab, stopp, halt, lass es, lassen sie es, lass das, vergiss es, vergessen sie es, auf keinen fall
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
    that is right, that's correct, that is correct, correct
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


def _phrases(listed: str) -> frozenset[str]:
    return frozenset(phrase.strip() for phrase in re.split(r"[,\n]", normalize("NFKC", listed)) if phrase.strip())


CALLED_OFF: Final = _phrases(_CALLED_OFF)
"""Messages that call off what was asked for."""
AGREED: Final = _phrases(_AGREED)
"""Messages that let it go on."""
POLITE: Final = _phrases(_POLITE)
_PIECES: Final = re.compile(r"[.,;:!¡…。、()\[\]\"\n]+")
_ASKING: Final = frozenset("?؟¿")
_LONGEST: Final = 100
_MOST_WORDS: Final = 5


def consent(message: str) -> Consent:
    """Whether a message agrees, calls off, or does neither.

    Every word of it has to be one of the lists', and all have to say the same: whatever else it says, and whatever it
    asks, is no answer to the question.
    """
    text = normalize("NFKC", message).replace("’", "'").casefold().strip(" '\t\n")
    if len(text) > _LONGEST or _ASKING.intersection(text):
        return ""
    pieces = [" ".join(piece.split()) for piece in _PIECES.split(text)]
    whole = " ".join(filter(None, pieces))
    if whole in AGREED or whole in CALLED_OFF:
        return "yes" if whole in AGREED else "no"
    said = [kind for piece in pieces for kind in _kinds(piece.split())]
    found = set(said) - {"polite"}
    return "yes" if found == {"yes"} else "no" if found == {"no"} else ""


def _kinds(words: list[str]) -> list[str]:
    """What the words of one piece say, the longest phrases first; "else" for what is in no list."""
    found: list[str] = []
    while words:
        for length in range(min(_MOST_WORDS, len(words)), 0, -1):
            phrase = " ".join(words[:length])
            kinds = (("polite", POLITE), ("no", CALLED_OFF), ("yes", AGREED))
            kind = next((name for name, phrases in kinds if phrase in phrases), "")
            if kind:
                found.append(kind)
                words = words[length:]
                break
        else:
            return ["else"]
    return found
