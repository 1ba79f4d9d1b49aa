"""Whether a request is for the only flow that there is: by its words, and by how near recall finds it."""

from typing import Final

from jazz_select.agent.flows.said import word_list
from jazz_select.flow.base import BaseFlow
from jazz_select.routing.names.words import stems

_RELATED, _NEAR, _NEARER = 0.26, 0.36, 0.45
"""How near recall has to find a request to the only flow: the less, the more of its words are the flow's."""
_NEARLY_ALL, _SEVERAL = 0.8, 3
_SHORTEST_WORD, _SHORTEST_STEM, _LONGEST_ENDING = 3, 4, 3
_COMMON: Final = word_list("""
    able about after again all also and any anybody anyone anything are ask been before being but can could did does
    doing done each else ever every everything for from get getting give going good got great had has have hello
    help her here hers hey him his how its just kind know last let like look made make many may maybe mean mine more
    most much must need new nice nobody not nothing now off old once one only other our out over own perhaps please
    put say see shall she should show some somebody someone something soon still such sure take tell thank thanks
    that the their them then there these they thing think this those time today too tried try two under until use
    very via want wanted was way well were what when where which while who whom whose why will with won would yes
    yet you your yours aber alle als also auch auf aus bei bin bis bitte danke das dass dein dem den der des dich
    die dies diese dir doch ein eine einen einem einer gibt guten haben habe hat hast ich ihr ihre immer ist jetzt
    kann kannst kein keine mein meine meinen meiner mich mir mit möchte nach nicht noch nur oder schon sehr sein
    sich sie sind tag über und uns unser vom von vor war warum was weil wenn wer werden wie will wir wird wo zum zur
    como con cuando del donde ella ellos esta este esto estoy gracias hacer hay hola las los mas más muy para pero
    por porque puede puedes puedo que qué quiero quién ser sin sobre son soy sus también tengo tiene una uno unos
    usted aux avec avez bonjour cela ces cette comment dans des elle est être fait faire ils les leur mais mes merci
    mon nos notre nous par pas peut peux plus pour pouvez puis quand quel quelle qui quoi sans ses son sont sur tes
    tout très une veux vos votre vous voudrais alla anche ancora che chi ciao come cosa della delle devo dove era
    fare grazie gli hai hanno loro mia mio molto nel nella non per perché posso può puoi quale quando questa questo
    sei sono suo tua tuo una voglio vorrei без был вам вас все всё где для его если есть как когда кто меня мне
    можно мой моя надо нас нет они она оно привет при спасибо так там тебя тоже только тут уже хочу что чтобы это
    этот
""")
"""Words that stand in requests for anything."""


def speaks_for(flow: BaseFlow, message: str, *, near: float | None) -> bool:
    """Whether a request is for the only flow there is, and not about something else, or nothing.

    A word of it has to be one of the flow's, whatever recall finds. How near that has to be besides goes by the words:
    least where half of them are the flow's, one of these out of its name, description or condition, or where nearly
    all of several are out of its examples.
    """
    asked = _telling(message)
    core = _telling(" ".join((flow.name, *flow.aliases, flow.description, flow.condition, *flow.desired_effects)))
    shown = _telling(" ".join(flow.examples))
    named = [word for word in asked if _is_among(word, core)]
    heard = len(named) + sum(_is_among(word, shown) for word in asked if word not in named)
    if not heard:
        return False
    told = heard * 2 >= len(asked) if named else heard >= max(len(asked) * _NEARLY_ALL, _SEVERAL)
    if near is None:
        return told
    return near >= (_RELATED if told else _NEAR if named else _NEARER) or heard == len(asked) >= _SEVERAL


def _telling(text: str) -> frozenset[str]:
    """The words that may tell what a text is about."""
    return frozenset(word for word in stems(text) if len(word) >= _SHORTEST_WORD and word not in _COMMON)


def _is_among(word: str, words: frozenset[str]) -> bool:
    """Whether it is one of these, or one in another form: `reimburse` and `reimbursed`."""
    return word in words or any(
        min(len(word), len(each)) >= _SHORTEST_STEM
        and abs(len(word) - len(each)) <= _LONGEST_ENDING
        and (word.startswith(each) or each.startswith(word))
        for each in words
    )
