"""Prompts of a conversation that only grow, so that a provider's cache of prompt prefixes applies.

The rules are the same in every turn. The conversation follows, with each flow's card before the message for which it
was first a candidate; the card stays there when it no longer is, and choosing it is refused. What concerns only this
turn comes last: the flows that may be chosen, their state, and the request.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Final, Literal, NamedTuple
from xml.etree import ElementTree as ET

from jazz_select.flow.base import BaseFlow
from jazz_select.selector.candidates_stage import candidate_of
from jazz_select.selector.prompt import (
    SHORT_LIMIT,
    CandidateCard,
    FirstShown,
    Growing,
    Prompt,
    Situation,
    add_text,
    asked_last,
    flow_element,
    goes_by_number,
    numbered,
    reading_rules,
    state_fields,
    trim_cards,
)
from jazz_select.text import at_word, estimate_tokens
from jazz_select.values import PROMPT_TOKENS, Candidate, flow_id

TIMES: Final = 4
"""Limit of all cards, as a multiple of one turn's token limit. Beyond it, only the current flows are shown again."""
MOST_SHOWN: Final = 200
"""Maximum number of flows, procedures and tools stored with a conversation."""
_MOST_EACH: Final = MOST_SHOWN // 2
"""Limit for flows, and for procedures and tools. Beyond it, only the current ones are shown again."""
_EXAMPLES: Final = 1
_BLOCK: Final = 4
"""Old turns are left out in blocks of this size: one by one, each prompt would begin differently."""
_GIVEN: Final = (
    "You are given XML: <conversation>, what was said earlier and, where each was first looked at, the flows; "
    "<offered>, the flows of these that may be chosen now, with what holds of them now, such as a state or the "
    "inputs that they take; <confirm>, if a question of yours waits for a yes or a no; and <request>, the message."
)


def shown_with(
    before: Sequence[FirstShown], now: Iterable[tuple[Literal["flow", "procedure", "tool"], str]], turn: int
) -> tuple[FirstShown, ...]:
    """Return what was shown, with new entries of `now` at the end."""
    known = {(each.what, each.name) for each in before}
    new = dict.fromkeys(each for each in now if each not in known)
    return (*before, *(FirstShown(what, name, turn) for what, name in new))


def steady_start(sizes: Sequence[tuple[int, int]], room: int, *, whole_from: int = 1) -> int:
    """Return the first turn to include, so that the conversation fits into `room`.

    Turns are left out four at a time, so that several prompts begin the same.
    """
    last = max((turn for turn, _ in sizes), default=1)
    first = 1 + _BLOCK * max(0, -(-(whole_from - 1) // _BLOCK))
    for start in range(first, last + 1, _BLOCK):
        if sum(size for turn, size in sizes if turn >= start) <= room:
            return start
    start = last
    while start > first and sum(size for turn, size in sizes if turn >= start - 1) <= room:
        start -= 1
    return start


class Ledger:
    """What models were shown in a conversation, and what the current turn adds; `notes` say what is shown afresh.

    `flows` are those to choose among, `rest` are procedures and tools.
    """

    def __init__(self, turn: int, shown: Sequence[FirstShown] = ()) -> None:
        """Take what was shown before, unless earlier turns cannot have stored it like this."""
        self.turn = turn
        self.notes: list[str] = []
        turns = [each.turn for each in shown]
        keys = {(each.what, each.name) for each in shown}
        flows = [each for each in shown if each.what == "flow"]
        rest = [each for each in shown if each.what != "flow"]
        in_turn = all(0 < each < turn for each in turns)
        in_turn = in_turn and all(first.turn <= then.turn for part in (flows, rest) for first, then in pairwise(part))
        if len(keys) < len(shown) or not in_turn:
            self.notes.append("what was kept of what models were shown cannot be, so it is shown afresh")
            flows = rest = []
        self.flows: tuple[FirstShown, ...] = tuple(flows)
        self.rest: tuple[FirstShown, ...] = tuple(rest)

    @property
    def named(self) -> frozenset[str]:
        """Names of the flows and procedures shown."""
        return frozenset(each.name for each in (*self.flows, *self.rest) if each.what != "tool")

    def forget(self) -> None:
        """Show everything afresh, since a flow that was shown is not available now."""
        self.flows = self.rest = ()
        self.notes.append("a flow that was shown is not available now, so all is shown afresh")

    def keep_flows(self, shown: tuple[FirstShown, ...]) -> None:
        """Record the flows shown as candidates."""
        self.flows = shown

    @property
    def shown(self) -> tuple[FirstShown, ...]:
        """All entries, as stored with the conversation."""
        return (*self.flows[:_MOST_EACH], *self.rest[:_MOST_EACH])


class _View(NamedTuple):
    """What is shown: the entries, and the live flow and card of each."""

    shown: tuple[FirstShown, ...]
    flows: tuple[BaseFlow, ...]
    cards: tuple[CandidateCard, ...]

    @property
    def by_id(self) -> dict[str, CandidateCard]:
        return {flow.id: card for flow, card in zip(self.flows, self.cards, strict=True)}


def growing_prompt(
    request: str,
    candidates: Sequence[Candidate],
    situation: Situation,
    *,
    flows: Mapping[str, BaseFlow],
    examples: Mapping[str, Sequence[str]] | None = None,
    tokens: int = PROMPT_TOKENS,
) -> Prompt:
    """Build the prompt that asks which of `candidates` fit, after all that was shown and said before. Pure.

    `tokens` limits the cards first shown in one turn; all cards may take four times that. Flows that are not live are
    not shown. `examples` of a flow are the most similar ones first.
    """
    notes: list[str] = []
    growing = situation.growing or Growing(turn=1, said_in=(0,) * len(situation.said))
    view = _view(candidates, growing, flows, tokens, notes)
    called = {each: card.id for each, card in view.by_id.items()}
    root = ET.Element("selection")
    add_text(root, "facts", situation.facts)
    root.append(_conversation(view, situation, growing))
    root.append(_offered(candidates, view, situation, examples or {}))
    rules = reading_rules(given=_GIVEN, offered="<offered>", speaks=situation.speaks)
    messages = asked_last(rules, root, situation.confirms, request, notes)
    ids = [called[each.flow_id] for each in candidates if each.flow_id in called]
    order = tuple(map(candidate_of, view.flows))
    return Prompt(messages, tuple(ids), tuple(notes), order, view.shown, reads=True)


def _view(
    candidates: Sequence[Candidate], growing: Growing, flows: Mapping[str, BaseFlow], tokens: int, notes: list[str]
) -> _View:
    """Return what to show: the earlier entries and the candidates; only these, with a note, if that is too much."""
    now: list[tuple[Literal["flow"], str]]
    now = [("flow", flows[each.flow_id].name) for each in candidates if each.flow_id in flows]
    gone = [each.name for each in growing.shown if flow_id(each.name) not in flows]
    taken = any(goes_by_number(flow.name) for flow in flows.values())

    def view_after(before: Sequence[FirstShown]) -> tuple[_View, list[str]]:
        shown, cut = shown_with(before, now, growing.turn), list[str]()
        live = tuple(flows[flow_id(each.name)] for each in shown)
        return _View(shown, live, tuple(_cards(shown, live, growing.turn, cut, tokens=tokens, taken=taken))), cut

    view, cut = view_after(() if gone else growing.shown)
    took = sum(card.tokens(estimate_tokens) for card in view.cards)
    most = TIMES * tokens
    if gone:
        notes.append(f"a flow that was shown is gone, so the flows are shown afresh: {', '.join(gone[:3])}")
    elif len(view.shown) > len(now) and (took > most or len(view.shown) > _MOST_EACH):
        view, cut = view_after(())
        notes.append(f"the flows are shown afresh, since all that were would take more than {most} tokens")
    notes += cut
    return view


def _cards(
    shown: Sequence[FirstShown], live: Sequence[BaseFlow], turn: int, notes: list[str], *, tokens: int, taken: bool
) -> Iterator[CandidateCard]:
    """Yield the cards as first shown: each is fitted with those of its own turn alone."""
    number = 0
    for first, group in groupby(zip(shown, live, strict=True), key=lambda pair: pair[0].turn):
        cut = notes if first == turn else list[str]()
        cards = [CandidateCard.of(candidate_of(flow), flow.examples[:_EXAMPLES], cut) for _, flow in group]
        for card in trim_cards(cards, tokens, cut):
            number += 1
            yield replace(card, id=numbered(number, taken=taken))


def _offered(
    candidates: Sequence[Candidate], view: _View, situation: Situation, examples: Mapping[str, Sequence[str]]
) -> ET.Element:
    """Return the flows that may be chosen now, with their state, inputs, and an example like the request."""
    offered = ET.Element("offered")
    begun, cards = {each.flow_id: each for each in situation.under_way}, view.by_id
    for each in candidates:
        if (card := cards.get(each.flow_id)) is not None:
            like = next((at_word(text, SHORT_LIMIT) for text in examples.get(each.flow_id, ())), "")
            state = state_fields(begun[each.flow_id]) if each.flow_id in begun else {}
            takes = "" if situation.inputs is None else "; ".join(situation.inputs(each.flow_id))
            now = {"id": card.id, "example": "" if like in card.examples else like, "inputs": takes}
            offered.append(flow_element(now | state))
    return offered


def _conversation(view: _View, situation: Situation, growing: Growing) -> ET.Element:
    """Return the conversation: messages and cards, in turn order."""
    conversation = ET.Element("conversation")
    if growing.left_out:
        conversation.set("left_out", f"{growing.left_out} earlier turns")
    cards = [(each.turn, card) for each, card in zip(view.shown, view.cards, strict=True)]
    for message, turn in zip(situation.said, growing.said_in, strict=True):
        while cards and cards[0][0] <= turn:
            conversation.append(cards.pop(0)[1].element())
        add_text(conversation, "user" if message.role == "user" else "assistant", message.content)
    conversation.extend(card.element() for _, card in cards)
    return conversation
