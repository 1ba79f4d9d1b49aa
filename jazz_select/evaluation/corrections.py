"""Corrections of users in a log: which can be learned, and which say something new."""

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
from jazz_select.memory.text_vectors import embedded
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder, Vectors, stages_of

LONGEST: Final = 500
"""Most characters of a request that can become an example."""
_SHARES: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The right flows of a request according to a person (none if nothing fits), whether or not they were chosen.

    `first` is the flow that recall had first at the time. `why` is the reason for leaving it out; empty if it is used.
    """

    request: str
    right: tuple[str, ...]
    first: str = ""
    ids: tuple[str, ...] = ()
    why: str = ""

    @property
    def is_held(self) -> bool:
        """Whether it cannot become an example, because it has several flows or none, or is too long."""
        has_words = any(letter.isalpha() for letter in self.request)
        return len(self.right) != 1 or len(self.request) > LONGEST or not has_words

    @property
    def flow(self) -> str:
        """The right flow, if there is exactly one."""
        return self.right[0] if len(self.right) == 1 else ""

    def refused(self, why: str) -> "Correction":
        """Return it with the reason for leaving it out."""
        return replace(self, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The latest correction for each text, and the refused ones: unusable, or contradicted later.

    Suggested are labels that an agent inferred for requests that no person corrected, for a person to look at.
    """

    corrections: tuple[Correction, ...] = ()
    refused: tuple[Correction, ...] = ()
    suggested: tuple[Correction, ...] = ()


def gathered(entries: Iterable[Logged], names: Collection[str]) -> Gathered:
    """Sort the corrections of a log (oldest entry first) that name existing flows."""
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
    """Whether a request is held out for the gate; always the same for the same words."""
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
"""Cosine from which a text adds nothing to another one of its flow."""
_LEAD, _SAID_TWICE = 0.1, 2
"""Largest accepted lead of another flow over the corrected one (sum of the cosines to its nearest text and to the mean
of its texts), and number of log entries that make a correction trusted anyway. Of 3,720 corrections in small
catalogues, a sixth of them wrong, these hold back 98 % of the wrong ones and 21 % of the right ones.
"""


def unit_vectors(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Return a row of length 1 for each text, from the first stage of an embedder."""
    first = stages_of(embedder)[0]
    return unit_rows(embedded(first, first.embed, [indexable(text) for text in texts]))


def to_the_nearest(groups: Iterable[Vectors]) -> list[float]:
    """Return the cosine of each row with the nearest other row of its group; groups of one are skipped."""
    found: list[float] = []
    for rows in groups:
        if len(rows) > 1:
            cosines = rows @ rows.T
            np.fill_diagonal(cosines, -1.0)
            found += cosines.max(axis=1).tolist()
    return found


class Neighbourhood:
    """The embedded examples of flows, with which corrections are compared."""

    def __init__(self, registry: Mapping[str, BaseFlow], embedder: Embedder) -> None:
        self._embedder = embedder
        self._flows = [flow.name for flow in registry.values() for _ in flow.examples]
        self._rows = unit_vectors([text for flow in registry.values() for text in flow.examples], self._embedder)
        self._names = {flow.name: spoken_name(flow.name) for flow in registry.values()}

    def chosen(
        self,
        corrections: Sequence[Correction],
        led: Sequence[Routed],
        *,
        taken: Mapping[str, int],
        most: int,
        most_confirmed: int,
    ) -> tuple[list[Correction], list[Correction]]:
        """Return the corrections to learn, the most informative first, and the refused ones.

        Refused are doubted ones (see `doubted`), near copies of a text of their flow, and more than `most` texts for a
        flow, with those `taken` before. Wrongly routed requests come first, then those with the lowest confidence. At
        most `most_confirmed` may lead to their flow already.
        """
        rows = unit_vectors([each.request for each in corrections], self._embedder)
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
        """Return the positions of learned examples that took requests; a lost one has the flow that is now first."""
        rows, asked = (
            unit_vectors([each.request for each in learned], self._embedder),
            unit_vectors([text for text, _ in lost], self._embedder),
        )
        blame: set[int] = set()
        for row, (_, flow) in zip(asked, lost, strict=True):
            own = [place for place, each in enumerate(learned) if each.flow == flow]
            if own:
                blame.add(own[int((rows[own] @ row).argmax())])
        return tuple(sorted(blame))

    def doubted(self, corrections: Sequence[Correction], led: Sequence[Routed]) -> set[int]:
        """Return the positions of corrections that a person should check first.

        Each flow is represented by its name, its examples and the other corrections for it. A correction is doubted if
        another flow is far nearer, or if its text fits any flow. It is trusted if two log entries have it, or recall
        agrees.
        """
        return self._doubted(corrections, unit_vectors([each.request for each in corrections], self._embedder), led)

    def _doubted(self, corrections: Sequence[Correction], rows: Vectors, led: Sequence[Routed]) -> set[int]:
        names = {name: place for place, name in enumerate(self._names)}
        owners = [*self._names, *self._flows, *(each.flow for each in corrections)]
        texts = np.concatenate([unit_vectors(list(self._names.values()), self._embedder), self._rows, rows])
        member = np.zeros((len(names), len(owners)), np.float32)
        member[[names[name] for name in owners], range(len(owners))] = 1
        sums, doubted = member @ texts, set[int]()
        for place, (each, row) in enumerate(zip(corrections, rows, strict=True)):
            if led[place].first == each.flow or len(each.ids) >= _SAID_TWICE:
                continue
            mine, near = names[each.flow], texts @ row
            near[len(owners) - len(corrections) + place] = -1.0  # no text speaks for itself
            without = sums.copy()
            without[mine] -= row
            kinship = np.where(member > 0, near, -1.0).max(axis=1) + unit_rows(without) @ row
            if is_broad(each.request) or float(np.delete(kinship, mine).max(initial=-2.0) - kinship[mine]) > _LEAD:
                doubted.add(place)
        return doubted


DOUBT: Final = "it lies far nearer to what another flow is asked for: a person should look"
