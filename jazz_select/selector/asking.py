"""Asking the user: a question made of what tells the flows apart that are left, and which of them an answer names."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, Literal, cast

from jazz_select.errors import ConfigError
from jazz_select.flow.base import BaseFlow
from jazz_select.stages import UserOption, UserQuestion
from jazz_select.text import beginning, in_one_line, in_words, nfkc, word_list
from jazz_select.values import Candidate, Decision


def _phrases(listed: str) -> frozenset[str]:
    return frozenset(" ".join(each.split()) for each in listed.split(","))


FEWEST, MOST = 2, 3
"""So many flows are asked about: one is no question, and of four nobody reads the last."""
_IN_QUESTION = 0.1
"""How likely a flow is, beside the likeliest one, that is still in question."""
_LONGEST, _LONGEST_REQUEST = 200, 2_000
_LONGEST_ANSWER, _MOST_WORDS = 200, 12
"""Of an answer that only names one of several; what is longer says more than that."""
_LONGEST_OPTION = 1_000
"""Characters of an option that are read: a question that comes back may say anything."""
_MOST_OPTIONS, _MOST_LETTERS = 100, 100_000
"""Of a question that comes back: reading more would keep others waiting."""
_ASKS = re.compile("[?\u061f]")
_AFTER_ONE: Final = re.compile(r"\s*(?:[,;:.!?\u061f]+|\s[-\u2013\u2014])(?:\s+|$)")
"""What stands between an option's number and what else is said: "3, it says error 55", and not "3.5"."""
_ASKED_BACK = re.compile("[^?\u061f,;:.!]{1,60}[?\u061f]")
"""What is asked before anything is said: "number 3? what is that"."""
_WORD = re.compile(r"[^\W_]+")
_OPENING: Final = "(?:i want |i mean |i meant |i choose |i d like |i would like |i ll take |i ll have |take )?(?:the )?"
_NUMBER: Final = re.compile(rf"{_OPENING}(?:option|number|no|nr)? ?(\d{{1,2}})(?:st|nd|rd|th)?(?: one| option)?")
_PLACE: Final = re.compile(rf"{_OPENING}(first|second|third|last)(?: one| option)?")
_IN_WORDS: Final = re.compile(rf"(?:{_OPENING}(?:option|number) )?(one|two|three)")
"""Without "option" before it only alone: who would like two may want both."""
_ONE_AND_MORE: Final = re.compile(
    rf"{_OPENING}(?:(?:option|number) (\d{{1,2}}|one|two|three)|(first|second|third|last) (?:one|option))(?: (.*))?"
)
"""A number or place that can be nothing else, whatever comes after it: "number three for card L 9"."""
_PLACES: Final = {"first": 1, "second": 2, "third": 3, "one": 1, "two": 2, "three": 3}
_NONE: Final = _phrases("""
    no, nope, nah, no no, none, neither, none of these, none of those, none of them, neither of these, neither of
    them, neither one, not any of these, no one of these, nein, nee, nö, keine, keins, keines, keiner, keine davon,
    keins davon, keines davon, keiner davon, non, aucun, aucune, aucun des deux, aucune des deux, ninguno, ninguna,
    ninguno de estos, ninguna de estas, nessuno, nessuna, nessuno di questi, nessuna di queste, нет, ни один, ни
    одна, никакой, никакая, いいえ, どれでもない, どちらでもない, something else, etwas anderes, otra cosa,
    autre chose, qualcos altro, что то другое
""")
_ENDING: Final = _phrases("""
    cancel, stop, abort, quit, exit, never mind, nevermind, forget it, forget about it, call it off, leave it,
    abbrechen, abbruch, brich ab, stopp, halt, lass es, lassen sie es, vergiss es, vergessen sie es,
    cancelar, cancela, cancele, detente, detener, para, alto, olvídalo, olvidalo, déjalo, dejalo,
    annuler, annule, annulez, arrête, arrete, arrêtez, laisse tomber, laissez tomber, oublie, oubliez,
    annulla, annullare, ferma, fermati, fermo, lascia perdere, lasci perdere,
    отмена, отмени, отмените, отменить, стоп, стой, остановись, забудь,
    キャンセル, キャンセルして, キャンセルしてください, 中止, 中止して, やめて, やめてください, やめる, 止めて
""")
"""Answers that call the question off, though an option may have their words: "cancel" is not "cancel order"."""
_UNSURE: Final = _phrases("""
    what, which, which one, which ones, which is which, what do you mean, what does that mean, what does this mean,
    what is the difference, what s the difference, huh, pardon, i don t understand, i do not understand, i don t know,
    i do not know, don t know, not sure, i m not sure, i am not sure, no idea, was meinst du, was meinen sie, wie bitte,
    ich verstehe nicht, weiß nicht, ich weiß nicht, ich weiß es nicht, keine ahnung, qué quieres decir, no entiendo,
    no sé, que veux tu dire, que voulez vous dire, je ne comprends pas, je ne sais pas, cosa intendi, non capisco,
    non so, не понимаю, не знаю, что вы имеете в виду
""")
"""Answers that ask back, or leave it open."""
_POLITE: Final = word_list("""
    please thanks thank you ok okay just bitte danke einfach por favor gracias s il te vous plaît merci per favore
    grazie пожалуйста спасибо
""")
_GREETING: Final = word_list("""
    hi hello hey thanks thank morning afternoon evening cheers hallo danke dank morgen guten servus moin gracias buenos
    buenas hola merci bonjour bonsoir salut grazie buongiorno buonasera ciao спасибо привет здравствуйте добрый
    ありがとう ありがとうございます こんにちは
""")
_BESIDE_IT: Final = word_list("""
    there all many much very a lot so good day guter gute tag abend vielen schönen muchas días dias tardes noches
    beaucoup tante mille день большое
""")
"""Words that greet or thank, and what may stand beside them and wants nothing either."""
_PAST: Final = word_list("""
    got had did was were been already received
    hatte habe bekam bekommen erhalten war waren schon bereits
    tuve recibí fue fueron ya reçu reçue eu étais était déjà ricevuto avuto ero era stato già
    получил получила получили был была было были уже
""")
"""Words of who tells what has been, and names no option by it: "I got my money back"."""
_STATING: Final = word_list("""
    i we he she it they is are has have ich wir er sie es ist sind hat haben yo es está están je nous il elle est sont
    io noi è sono я мы он она они
""")
"""Words of who tells what is so: said of an option beside, its own title or name has to be in it."""
_WISHING: Final = word_list("""
    want wanted need like d ll prefer choose pick take mean meant would could can let please
    möchte will hätte brauche nehme wähle meine meinte bitte quiero quisiera necesito prefiero veux voudrais prends
    préfère voglio vorrei prendo preferisco хочу хотел хотела нужно нужен нужна возьму
""")
_TURNING: Final = word_list("""
    no not t don dont didnt doesnt isnt wont cant cannot never neither nor none without except besides apart instead
    but rather other than else both either all any if unless
    nein nicht kein keine keinen keiner nie ohne statt außer sondern beide wenn falls
    non pas ni sans sauf sinon mais autre nunca pero otro otra senza ma altro altra нет не без кроме
""")
"""Words after which an answer may name what is not meant, or more than one; "t" is what is left of "didn't"."""
_HALTING: Final = word_list("""
    stop cancel abort avoid undo skip hold halt block reverse revert prevent refuse withdraw revoke failed fails late
    missing wrong broken
    stopp stoppe stoppen storniere stornieren verhindern rückgängig fehlgeschlagen falsch kaputt
    detén detener cancela cancelar evita evitar falló arrête arrêter annule annuler évite éviter échoué
    ferma fermare annulla annullare evita evitare fallito отмени отменить останови остановить избежать
""")
"""Words of who wants none of it, or has trouble with what was done, unless an option itself has them."""
_WRONG: Final = word_list("wrong falsch faux incorrecto sbagliato неверно")
_JOINING: Final = word_list("or and option number nr oder und ou et o y e или и")
"""Before a number in the middle of an answer, which then is one of an option."""
_ADDS_NOTHING: Final = word_list("""
    hi hello hey yes yeah yep no nope sure alright right great good fine perfect cool nice super much very so a lot that
    is all it cheers hallo ja nein toll gut vielen dank hola sí muchas bonjour oui merci beaucoup ciao sì mille привет
    да нет большое
""")
"""Beside words of courtesy: what names no flow, whatever was asked."""
_COMMON: Final = word_list("""
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


BESIDE: Final = "Or something else?"
"""How a question ends where more may be meant than it names."""
NO_QUESTION: Final = "asked= has a decision that carries no question, so this is read as a request of its own"


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
    told = [each for each in texts if isinstance(each, str)]
    bounded = len(question.options) <= _MOST_OPTIONS and sum(map(len, told)) <= _MOST_LETTERS
    return bounded and len(told) == len(texts) and isinstance(cast("object", question.again), bool)


def in_question(candidates: Sequence[Candidate], chances: Mapping[str, float], *, at_least: int = 0) -> list[Candidate]:
    """Those that may be meant, the likeliest first: all, where nobody knows how likely they are.

    Args:
        candidates: What there is.
        chances: P(each is right), by flow id.
        at_least: How many are in question in any case, as far as there are so many.
    """
    if not chances:
        return [*candidates]
    order = sorted(candidates, key=lambda each: -chances.get(each.flow_id, 0.0))
    most = chances.get(order[0].flow_id, 0.0) if order else 0.0
    near = [each for each in order if chances.get(each.flow_id, 0.0) >= _IN_QUESTION * most]
    return order[: max(len(near), at_least)]


def question_of(
    candidates: Sequence[Candidate], flows: Mapping[str, BaseFlow], request: str, *, more: bool = False
) -> UserQuestion | None:
    """What to ask about these flows; None where they are not two or three that can run.

    Where `more` than these may be meant, the question says so.
    """
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
    text = "\n".join(("Which of these do you mean?", *lines, *((BESIDE,) if more else ())))
    return UserQuestion(text=text, options=options, request=beginning(request, _LONGEST_REQUEST))


def open_question(question: UserQuestion | None, candidates: Sequence[Candidate]) -> UserQuestion | None:
    """The question, as long as all that it offers is among these: who may not have a flow is not told of it."""
    offered = {each.flow_id for each in candidates}
    return question if question and all(each.flow_id in offered for each in question.options) else None


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

    Behind a number or place more may be said, which neither denies it nor names another option.

    Returns:
        The option; False where it says that none is meant, or calls the question off; None where it names none of
        them, or more than one.
    """
    if len(answer) > _LONGEST_ANSWER:
        return None
    words = _words(answer)
    said = " ".join(words)
    if _plain(words) in _NONE or ends(answer, options):
        return False
    if (placed := _placed(answer, options)) is not None:
        place, alone = placed
        return options[place - 1] if alone and 0 < place <= len(options) else None
    named = [
        each for each in options if said and said in {" ".join(_words(each.title)), " ".join(_words(each.flow_name))}
    ]
    if named:
        return named[0] if len(named) == 1 else None
    telling = frozenset[str]() if _WISHING & {*words} else (_PAST | _STATING) & {*words}
    if len(words) > _MOST_WORDS or (_TURNING & {*words}) or (_PAST & telling) or _ASKS.search(nfkc(answer)):
        return None
    return _told_by(frozenset(words) - _COMMON, options, named=bool(telling))


def is_courtesy(request: str) -> bool:
    """Whether a request is nothing but thanks or a greeting: no flow is meant by it."""
    words = _words(request[:_LONGEST_ANSWER])
    known = _POLITE | _GREETING | _BESIDE_IT
    return len(request) <= _LONGEST_ANSWER and bool(_GREETING & {*words}) and known.issuperset(words)


def ends(answer: str, options: Sequence[UserOption]) -> bool:
    """Whether an answer calls the question off: "cancel", "stop, please", where no option is called just that."""
    if len(answer) > _LONGEST_ANSWER:
        return False
    words = _words(answer)
    if _plain(words) not in _ENDING:
        return False
    called = (frozenset(_words(name)) for each in options for name in (each.title, each.flow_name))
    return not any(name and name.issubset(words) for name in called)


def again(question: UserQuestion, answer: str) -> UserQuestion | None:
    """The question once more, with the same numbers, where an answer is to it and names no one of its options.

    Where it gives a number that none has, it is told which there are; once. Where it names two, denies one, or asks
    back ("what do you mean?"), it is asked to name one.
    """
    count = len(question.options)
    if not count or len(answer) > _LONGEST_ANSWER or named_in(answer, question.options) is not None:
        return None
    placed = _placed(answer, question.options)
    place = None if placed is None else placed[0]
    numbers = " or ".join(map(str, range(1, count + 1))) if count <= FEWEST else f"1 to {count}"
    if place is not None and not 0 < place <= count:
        why = "" if question.again else f"There is no number {place} here: please say {numbers}."
    else:
        why = f"Please name one of them: {numbers}." if placed or _is_unclear(answer, question.options) else ""
    return replace(question, text=f"{why}\n{question.text}", again=True) if why else None


def adds_nothing(message: str) -> bool:
    """Whether a message names no flow at all: courtesy, a plain yes or no, or a value alone, such as "card L-9"."""
    if len(message) > _LONGEST_ANSWER:
        return False
    said = [each for each in nfkc(message).casefold().split() if not {*_words(each)} <= _POLITE | _ADDS_NOTHING]
    values = [each for each in said if "@" in each or any(map(str.isdigit, each))]
    return not said or (bool(values) and len(said) - len(values) <= 1 and len(said) <= FEWEST + 1)


def _placed(answer: str, options: Sequence[UserOption]) -> tuple[int, bool] | None:
    """The number or place that an answer is or begins with, and whether what is behind it leaves it at that."""
    if (place := _place(" ".join(_words(answer)), options)) is not None:
        return place, True
    if (led := _led_by(answer, options)) is None:
        return None
    place, rest = led
    return place, not (_denied(rest) or _ASKED_BACK.match(nfkc(answer)) or _referred(rest, options) - {place})


def _led_by(answer: str, options: Sequence[UserOption]) -> tuple[int, list[str]] | None:
    """The number or place that an answer begins with, and the words behind it; None where it says no more, or less.

    A bare "first" or "two" may be another thing: "first, where is my parcel?"
    """
    if found := _ONE_AND_MORE.fullmatch(" ".join(_words(answer))):
        named = found[1] or found[2]
        place = int(named) if named.isdecimal() else _PLACES.get(named, len(options))
        return place, (found[3] or "").split()
    head, *rest = _AFTER_ONE.split(nfkc(answer).strip(), maxsplit=1)
    behind = _words(" ".join(rest))
    said = _words(head)
    place = _place(" ".join(said), options)
    bare = len(said) == 1 and not said[0].isdecimal()
    return None if place is None or bare or not _plain(behind) else (place, behind)


def _denied(words: Sequence[str]) -> bool:
    return not (_TURNING | _WRONG).isdisjoint(words)


def _referred(words: Sequence[str], options: Sequence[UserOption]) -> set[int]:
    """The places of the options that these words name: by place, by number, or by words of one title or name alone."""
    places = {_PLACES.get(each, len(options)) for each in words if each in {"first", "second", "third", "last"}}
    for before, each in zip(("or", *words), words, strict=False):
        if each.isdecimal() and before in _JOINING and 0 < int(each[:3]) <= len(options):
            places.add(int(each))
    titled = [{*_words(beginning(_called(each), _LONGEST_OPTION))} - _COMMON for each in options]
    having = Counter(word for own in titled for word in own)
    return places | {
        place for place, own in enumerate(titled, start=1) if any(having[word] == 1 for word in own & {*words})
    }


def _is_unclear(answer: str, options: Sequence[UserOption]) -> bool:
    """Whether an answer is to the question, and says no one option: it names several, denies one, or asks back."""
    words = _words(answer)
    if " ".join(words) in _UNSURE or _plain(words) in _UNSURE:
        return True
    referred = _referred(words, options)
    if len(words) > _MOST_WORDS or not (len(referred) > 1 or (referred and _denied(words))):
        return False
    known = _COMMON | _POLITE | _TURNING | _WRONG | _STATING | _WISHING | _JOINING | _PLACES.keys() | {"last"}
    titles = {word for each in options for word in _words(beginning(_called(each), _LONGEST_OPTION))}
    return sum(not (each in known or each in titles or each.isdecimal()) for each in words) <= 1


def _called(option: UserOption) -> str:
    return f"{option.title} {in_words(option.flow_name)}"


def _place(said: str, options: Sequence[UserOption]) -> int | None:
    """The number that an answer is, of an option or of none; None where it is more than that, or less."""
    said = _plain(said.split())
    if not (found := _NUMBER.fullmatch(said) or _PLACE.fullmatch(said) or _IN_WORDS.fullmatch(said)):
        return None
    return int(found[1]) if found[1].isdecimal() else _PLACES.get(found[1], len(options))


def _told_by(said: AbstractSet[str], options: Sequence[UserOption], *, named: bool = False) -> UserOption | None:
    """The only option with words of its own among these; None where as many of them are no option's at all.

    "Cancel the refund" has a word of the refund, and is no wish for one. Where it has to be `named`, one of its own
    words is of its title or name, and nothing else is said.
    """
    every = [{*_words(beginning(f"{_called(each)} {each.says}", _LONGEST_OPTION))} for each in options]
    strange = frozenset(said).difference(*every)
    if _HALTING & strange or (named and strange):
        return None
    having = Counter(word for words in every for word in words if word in said)
    told = [place for place, words in enumerate(every) if any(having[word] == 1 for word in words & said)]
    if len(told) != 1:
        return None
    option = options[told[0]]
    own = {word for word in every[told[0]] & said if having[word] == 1}
    if named and not own & {*_words(_called(option))}:
        return None
    return option if len(said - having.keys()) < len(own) else None


def _plain(words: Sequence[str]) -> str:
    """Without words of courtesy."""
    return " ".join(word for word in words if word not in _POLITE)


def _words(text: str) -> list[str]:
    return _WORD.findall(nfkc(text).casefold())
