"""Whether to act on what was found for a message: how sure it is, and what the words of the message speak for."""

from typing import Final

from jazz_select.agent.flows.said import is_named
from jazz_select.agent.flows.slots import is_value
from jazz_select.agent.flows.tentative import LONGEST_READ, is_tentative, is_told
from jazz_select.agent.reading.consent import is_courtesy
from jazz_select.flow.base import BaseFlow
from jazz_select.routing.names.words import stems
from jazz_select.selector.result import FlowSelectionResult
from jazz_select.text import word_list
from jazz_select.values import Decision, Reason

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


def is_sure(result: FlowSelectionResult, message: str, *, above: float, writes: bool, unasked: bool) -> bool:
    """Whether to act on a selection that nobody made who has read the message: it names no flow word for word.

    Without a chat model the nearest flow is taken for whatever is said, "yes" and "thanks" among it. Where a catalogue
    is too small for recall to know how sure it is, only what a decision model is sure of is sure, and a request for the
    only flow that there is, where its own words and its similarity speak for it.

    Args:
        result: What was selected, a flow at least.
        message: What the user said.
        above: How sure recall has to be, both that some flow is right and that this one is; 0 for the nearest flow.
        writes: Whether what was selected may change something.
        unasked: Whether it would destroy something and nobody be asked: then words that speak for it are not enough.
    """
    decision, first = result.decision, result.chosen_flows[0]
    known = (_confidence_in(decision, first), decision.in_scope)
    if _was_sure(decision) or None not in known:
        return may_begin(first, message, *known, above=above, writes=writes)
    if writes and asks_for_nothing(message, first):
        return False
    lone = len(decision.candidates) == 1 and not unasked
    return above <= 0 or (
        above <= 1 and lone and speaks_for(first, message, near=decision.candidates[0].scores.get("dense"))
    )


def may_begin(
    flow: BaseFlow, message: str, confidence: float | None, in_scope: float | None, *, above: float, writes: bool
) -> bool:
    """Whether a flow may be begun that recall or a decision model is sure of.

    Its name, alias or example, word for word, always may. What a request denies, supposes or only asks about is never
    sure where something may be changed, nor is a value alone, such as a number: it answers a question, and what it
    shares with an example is chance. Nor are thanks, nor what tells of it: "I've already cancelled my order".
    """
    if is_named(flow, message):
        return True
    if writes and asks_for_nothing(message, flow):
        return False
    return all(each >= above for each in (confidence, in_scope) if each is not None)


def asks_for_nothing(message: str, flow: BaseFlow) -> bool:
    """Whether a message only seems to want done what a flow does, or wants nothing."""
    return is_tentative(message) or is_value(message) or is_courtesy(message) or only_tells(message, flow)


def only_tells(message: str, flow: BaseFlow) -> bool:
    """Whether a message tells of what a flow does, or would have it stopped, and does not ask for it."""
    return is_told(message, (flow.name, *flow.aliases))


def _was_sure(decision: Decision) -> bool:
    """Whether the stage that chose was sure enough, and did not only take what is likeliest."""
    if decision.reason is Reason.DECIDER:
        return any(each.name == "decider" and each.outcome == "decided" for each in decision.stages)
    return decision.reason is Reason.CONFIDENT


def _confidence_in(decision: Decision, flow: BaseFlow) -> float | None:
    """P(this flow is right), as recall knows it; a decision model that is sure knows better."""
    if decision.reason is Reason.DECIDER and _was_sure(decision):
        return None
    return next((each.confidence for each in decision.candidates if each.flow_id == flow.id), None)


def speaks_for(flow: BaseFlow, message: str, *, near: float | None) -> bool:
    """Whether a request is for the only flow there is, and not about something else, or nothing.

    A word of it has to be one of the flow's, whatever recall finds. How near that has to be besides goes by the words:
    least where half of them are the flow's, one of these out of its name, description or condition, or where nearly
    all of several are out of its examples.
    """
    asked = _telling(message[:LONGEST_READ])
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
