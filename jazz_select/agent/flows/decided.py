"""Read yes or no by a decision model, for approvals and boolean inputs, where the table of phrases is undecided."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jazz_select.agent.pending_call import PendingCall
from jazz_select.agent.reading.grounding import Wanted
from jazz_select.chat.decisions import Decided, Decider
from jazz_select.consent import NEITHER, Consent, read_consent
from jazz_select.questions import ChoiceQuestion
from jazz_select.routing.schemas.fields import alternatives
from jazz_select.telemetry import span
from jazz_select.text import beginning, cut, in_one_line, in_words

_YES, _NO, _NEITHER = "yes", "no", "neither"
_LONGEST: Final = 4_000
_LONGEST_MEANING: Final = 300
_APPROVAL: Final = ChoiceQuestion(
    {
        _YES: "agrees to exactly this, without a condition, a change or a question",
        _NO: "refuses it, or calls it off",
        _NEITHER: "anything else: a question, another wish, a condition, a change, or nothing of the kind",
    },
    asked="The user was asked to approve a call. What does the user's message say to that?",
)


async def approval_heard(
    decider: Decider | None, pending: PendingCall, message: str
) -> tuple[Consent, tuple[str, ...]]:
    """Read whether a message approves or refuses the pending call. Return the consent, and notes.

    The table of phrases decides if it can. A model's yes counts only if a sentence of the message is a yes by the
    table, because such models are overconfident and miss irony.
    """
    said = read_consent(message, pending.asked)
    if said.answer != "neither" or decider is None:
        return said, ()
    (found,) = await _decided(decider, pending.question(), message, [_APPROVAL], name="consent")
    if found.label == _NO:
        return Consent("no"), (_read(decider, "the message", found),)
    if found.label == _YES:
        said = read_consent(message, pending.asked, quote="")
        why = "" if said.answer == "yes" else ", and its words are none"
        return said if said.answer == "yes" else NEITHER, (f"{_read(decider, 'the message', found)}{why}",)
    return NEITHER, (found.note,) if found.note else ()


async def flags_heard(
    decider: Decider | None, wanted: Mapping[str, Wanted], asked_for: Iterable[str], *, asked: str, message: str
) -> tuple[dict[str, bool], tuple[str, ...]]:
    """Read the boolean inputs that the user was asked for. Return the values found in the message, and notes."""
    flags = {name: _flag(name, wanted[name]) for name in asked_for if name in wanted and _is_flag(wanted[name])}
    if decider is None or not asked or not flags:
        return {}, ()
    values: dict[str, bool] = {}
    notes: list[str] = []
    answers = await _decided(decider, asked, message, list(flags.values()), name="fill")
    for name, found in zip(flags, answers, strict=True):
        if found.label in {_YES, _NO}:
            values[name] = found.label == _YES
            notes.append(_read(decider, name, found))
        elif found.note:
            notes.append(found.note)
    return values, tuple(dict.fromkeys(notes))


def _read(decider: Decider, what: str, found: Decided) -> str:
    return f"the decider {decider.name} read {what} as {found.label}, at {found.probability or 0.0:.2f}"


async def _decided(
    decider: Decider, asked: str, message: str, questions: Sequence[ChoiceQuestion], *, name: str
) -> list[Decided]:
    state = f"The user was asked:\n{in_one_line(cut(asked, _LONGEST))}\n\nThe user says:\n{cut(message, _LONGEST)}"
    with span(name, "decision") as traced:
        found = await decider.decide_each(state, questions)
        if traced is not None:
            sure = [each.probability for each in found if each.probability is not None]
            chosen = ", ".join(each.label for each in found)
            traced.note({"chosen": chosen, "probability": min(sure, default=None), "tier": "guided"})
            if notes := list(dict.fromkeys(each.note for each in found if each.note)):
                traced.hold({"notes": notes})
    return found


def _is_flag(wanted: Wanted) -> bool:
    return [each.type for each in alternatives(wanted.part, wanted.root) if each.type != "null"] == ["boolean"]


def _flag(name: str, wanted: Wanted) -> ChoiceQuestion:
    descriptions = [str(each.schema.get("description") or "") for each in alternatives(wanted.part, wanted.root)]
    meant = beginning(" ".join(" ".join(descriptions).split()), _LONGEST_MEANING)
    return ChoiceQuestion(
        {
            _YES: "the user says that it is so, or wants it",
            _NO: "the user says that it is not so, or does not want it",
            _NEITHER: "the user says neither, puts a condition on it, or speaks of something else",
        },
        asked=f"What does the user's message say of {in_words(name)!r}{f' ({meant})' if meant else ''}?",
    )
