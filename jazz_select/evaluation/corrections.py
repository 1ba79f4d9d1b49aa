"""What users corrected, as a log has it: which of it can be learned from, and which says something new."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from jazz_select.evaluation.checks.wording import is_broad
from jazz_select.evaluation.overlay import spelled, yaml_text
from jazz_select.evaluation.route import Routed
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import indexable, spoken_name
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder, Vectors, stages_of

LONGEST: Final = 500
"""Characters of a request that can be an example: a longer one says many things."""
_SHARES: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What a person said was right for a request; it may be what was chosen.

    Attributes:
        request: The text.
        right: Names of flows, in their order; none where nothing fits.
        first: The flow that recall put first at the time; empty where there was none.
        ids: Of the log's entries that say so.
        why: Why it was left out, or a part of what would have been learned; empty where it was not.
    """

    request: str
    right: tuple[str, ...]
    first: str = ""
    ids: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_held(self) -> bool:
        """Whether no example can be made of it: it is for several flows, for none, or too long."""
        has_words = any(letter.isalpha() for letter in self.request)
        return len(self.right) != 1 or len(self.request) > LONGEST or not has_words

    @property
    def flow(self) -> str:
        """The flow that was right, where it is one."""
        return self.right[0] if len(self.right) == 1 else ""

    def refused(self, why: str) -> "Correction":
        """It is left out."""
        return replace(self, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The corrections of a log.

    Attributes:
        corrections: One for each text: what was said last.
        refused: Those that cannot be used, and earlier ones that a later one contradicts.
        suggested: What an agent gathered of requests that no person corrected: for a person to look at.
    """

    corrections: tuple[Correction, ...] = ()
    refused: tuple[Correction, ...] = ()
    suggested: tuple[Correction, ...] = ()


def gathered(entries: Iterable[Logged], names: Collection[str]) -> Gathered:
    """Sort out what a log says was right.

    Args:
        entries: As `OutcomeLog.read` gives them, the oldest first.
        names: Of the flows that there are.
    """
    found: dict[str, Correction] = {}
    hints: dict[str, Correction] = {}
    refused: list[Correction] = []
    known = frozenset(names)
    for entry in entries:
        if entry.right is None:
            continue
        one = Correction(request=yaml_text(entry.request), right=entry.right, first=entry.first, ids=(entry.id,))
        if why := _why_not(entry, known):
            refused.append(one.refused(why))
            continue
        text = spelled(one.request)
        kept = found if entry.source == "user" else hints
        earlier = kept.get(text)
        if earlier is not None and set(earlier.right) == set(one.right):
            kept[text] = replace(earlier, ids=(*earlier.ids, entry.id))
            continue
        if earlier is not None and kept is found:
            refused.append(earlier.refused(f"a later one says {' and '.join(one.right) or 'that nothing fits'}"))
        kept[text] = one
    suggested = tuple(each for text, each in hints.items() if text not in found)
    return Gathered(corrections=tuple(found.values()), refused=tuple(refused), suggested=suggested)


def is_kept_apart(text: str, share: float) -> bool:
    """Whether a request is judged by and not learned from: the same answer for the same words, always."""
    digest = hashlib.sha256(spelled(text).encode(errors="replace")).digest()
    return int.from_bytes(digest[:4], "big") < share * _SHARES


def _why_not(entry: Logged, known: Collection[str]) -> str:
    gone = [name for name in entry.right or () if name not in known]
    if gone:
        return f"there is no flow {gone[0]!r}"
    if not entry.request.strip():
        return "its text was not kept"
    if not entry.alone:
        return "it needs what was said before"
    return ""


_NEAR_COPY: Final = 0.95
"""Cosine from which on a text says what another one of its flow says already."""
_LEAD, _SAID_TWICE = 0.1, 2
"""How much nearer, in cosines together, another flow's nearest text and the mean of its texts may lie to a correction
than those of the flow that it is for; and entries of a log that are believed all the same. Of 3,720 corrections of
small catalogues, a sixth of them wrong, this holds back 98 % of the wrong ones and 21 % of the right ones."""


def unit_vectors(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """A row of length 1 for each text, as the first stage of an embedder sees it."""
    first = stages_of(embedder)[0]
    if not texts:
        return np.zeros((0, first.dim), np.float32)
    return unit_rows(np.asarray(first.embed([indexable(text) for text in texts]), np.float32))


def to_the_nearest(groups: Iterable[Vectors]) -> list[float]:
    """The cosine of each row of a group of several with the nearest other one of its group."""
    found: list[float] = []
    for rows in groups:
        if len(rows) > 1:
            cosines = rows @ rows.T
            np.fill_diagonal(cosines, -1.0)
            found += cosines.max(axis=1).tolist()
    return found


class Neighbourhood:
    """The texts that stand for flows, as vectors: their examples, and the corrections beside them."""

    def __init__(self, registry: Mapping[str, BaseFlow], embedder: Embedder) -> None:
        """Embed the examples of these flows."""
        self._embedder = embedder
        self._flows = [flow.name for flow in registry.values() for _ in flow.examples]
        self._rows = self.vectors([text for flow in registry.values() for text in flow.examples])
        self._names = {flow.name: spoken_name(flow.name) for flow in registry.values()}

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        return unit_vectors(texts, self._embedder)

    def chosen(
        self,
        corrections: Sequence[Correction],
        led: Sequence[Routed],
        *,
        taken: Mapping[str, int],
        most: int,
        most_confirmed: int,
    ) -> tuple[list[Correction], list[Correction]]:
        """The corrections to learn from, the most telling first, and those that cannot be.

        Held back is what is doubted, see `doubted`. Left out is what a text of the
        flow says already, and what is more than `most` texts for one flow. First come requests that are led wrongly,
        then those that recall is least sure of.

        Args:
            corrections: Each for one flow.
            led: Where each of them leads before anything is learned.
            taken: How many texts each flow has learned before, by its name.
            most: Texts that one flow learns at most, with those.
            most_confirmed: Of these, requests that lead to their flow already.
        """
        rows = self.vectors([each.request for each in corrections])
        doubted = self._doubted(corrections, rows, led)
        order = sorted(
            (place for place in range(len(corrections)) if place not in doubted),
            key=lambda place: (led[place].first == corrections[place].flow, led[place].confidence or 0.0, place),
        )
        own: defaultdict[str, list[Vectors]] = defaultdict(list)
        for name, row in zip(self._flows, self._rows, strict=True):
            own[name].append(row)
        counts, confirmed = defaultdict[str, int](int, taken), defaultdict[str, int](int)
        kept: list[Correction] = []
        refused = [corrections[place].refused(DOUBT) for place in sorted(doubted)]
        for place in order:
            each = corrections[place]
            name, is_led = each.flow, led[place].first == each.flow
            if own[name] and float((np.stack(own[name]) @ rows[place]).max()) >= _NEAR_COPY:
                refused.append(each.refused("an example of the flow says it already"))
            elif counts[name] >= most or (is_led and confirmed[name] >= most_confirmed):
                refused.append(each.refused("it leads there already" if is_led else f"the flow learns {most} others"))
            else:
                kept.append(each)
                own[name].append(rows[place])
                counts[name] += 1
                confirmed[name] += is_led
        return kept, refused

    def blamed(self, lost: Sequence[tuple[str, str]], learned: Sequence[Correction]) -> tuple[int, ...]:
        """Places of the learned examples that took requests away from their flows.

        Args:
            lost: Each request that was led rightly, and the flow that it is led to now.
            learned: The examples that were added.
        """
        rows, asked = self.vectors([each.request for each in learned]), self.vectors([text for text, _ in lost])
        blame: set[int] = set()
        for row, (_, flow) in zip(asked, lost, strict=True):
            own = [place for place, each in enumerate(learned) if each.flow == flow]
            if own:
                blame.add(own[int((rows[own] @ row).argmax())])
        return tuple(sorted(blame))

    def doubted(self, corrections: Sequence[Correction], led: Sequence[Routed]) -> dict[int, str]:
        """Places of corrections that a person should look at before anything is learned from them, and why.

        Every flow is known by its name, its examples and the other corrections for it. Doubted is what another flow
        lies far nearer to, and what would do for any flow. What two entries of a log say is believed, and so is what
        recall says too.

        Args:
            corrections: Each for one flow.
            led: Where each of them leads before anything is learned.
        """
        return dict.fromkeys(
            sorted(self._doubted(corrections, self.vectors([each.request for each in corrections]), led)), DOUBT
        )

    def _doubted(self, corrections: Sequence[Correction], rows: Vectors, led: Sequence[Routed]) -> set[int]:
        names = {name: place for place, name in enumerate(self._names)}
        told = [*self._names, *self._flows, *(each.flow for each in corrections)]
        texts = np.concatenate([self.vectors(list(self._names.values())), self._rows, rows])
        member = np.zeros((len(names), len(told)), np.float32)
        member[[names[name] for name in told], range(len(told))] = 1
        sums, doubted = member @ texts, set[int]()
        for place, (each, row) in enumerate(zip(corrections, rows, strict=True)):
            if led[place].first == each.flow or len(each.ids) >= _SAID_TWICE:
                continue
            mine, near = names[each.flow], texts @ row
            near[len(told) - len(corrections) + place] = -1.0  # no text speaks for itself
            without = sums.copy()
            without[mine] -= row
            kinship = np.where(member > 0, near, -1.0).max(axis=1) + unit_rows(without) @ row
            if is_broad(each.request) or float(np.delete(kinship, mine).max(initial=-2.0) - kinship[mine]) > _LEAD:
                doubted.add(place)
        return doubted


DOUBT: Final = "it lies far nearer to what another flow is asked for: a person should look"
