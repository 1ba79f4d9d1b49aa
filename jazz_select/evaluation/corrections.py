"""Corrections of users in a log: which can be learned, and which say something new."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from threadpoolctl import threadpool_limits

from jazz_select.evaluation.checks.safety import injection, seen
from jazz_select.evaluation.checks.wording import is_broad
from jazz_select.evaluation.overlay import Version, spelled, taught, yaml_text
from jazz_select.evaluation.route import Query, Routed, RouteOptions, led
from jazz_select.flow.base import BaseFlow, FlowRegistry
from jazz_select.memory.embedders.known_embedders import stages_of
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import Encoder, Lexical, indexable
from jazz_select.memory.fit.fitting import chances
from jazz_select.memory.text_vectors import embedded
from jazz_select.outcomes.log import Logged
from jazz_select.ports import Embedder, Vectors
from jazz_select.text import nfkc
from jazz_select.threads import compute
from jazz_select.values import Source

LONGEST: Final = 500
"""Most characters of a request that can become an example."""
_SHARES: Final = 1 << 32
KEPT_APART: Final = 0.1
"""The share of corrections that is held out for the gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The right flows of a request according to a person (none if nothing fits), whether or not they were chosen.

    `first` is the flow that recall had first at the time. `sources` are those who said so. `why` is the reason for
    leaving it out; empty if it is used.
    """

    request: str
    right: tuple[str, ...]
    first: str = ""
    ids: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
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

    @property
    def weight(self) -> int:
        """The weight of the source that weighs most."""
        return max((each.weight for each in self.sources), default=0)

    def confirmed_by(self, other: "Correction") -> "Correction":
        """Return it with the ids and sources of another one that says the same."""
        sources = tuple(dict.fromkeys((*self.sources, *other.sources)))
        return replace(self, ids=(*self.ids, *other.ids), sources=sources)

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
        one = Correction(
            request=yaml_text(entry.request),
            right=entry.right,
            first=entry.first,
            ids=(entry.id,),
            sources=() if entry.corrected_by is None else (entry.corrected_by,),
        )
        if why := _why_not(entry, known):
            refused.append(one.refused(why))
            continue
        text = spelled(one.request)
        kept = found if entry.is_corrected_by_human else hints
        earlier = kept.get(text)
        if earlier is not None and set(earlier.right) == set(one.right):
            kept[text] = earlier.confirmed_by(one)
            continue
        if earlier is not None and earlier.weight > one.weight:
            refused.append(one.refused(f"a reviewer says {' and '.join(earlier.right) or 'that nothing fits'}"))
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
    return why_unfit(entry.request)


def why_unfit(text: str) -> str:
    """Why no flow may learn a text, whoever says that it is right; empty if nothing is against it."""
    found = injection(nfkc(seen(text)))
    return f"it tells a model what to do: “{found}”" if found else ""


_NEAR_COPY: Final = 0.95
"""Cosine from which a text adds nothing to another one of its flow."""
_SAID_TWICE: Final = 2
"""Number of log entries that make a correction trusted."""
_LIKELY: Final = 0.4
"""Least P(the corrected flow is right), by all else that is known."""
_ROUNDS: Final = 2
"""Rounds of doubt: first all corrections speak for each other, then the trusted ones alone."""
DOUBT: Final = "all else that is known does not make its flow likely: a person should look"


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


def nearest_of(
    texts: Sequence[tuple[str, str]], learned: Sequence[Correction], embedder: Embedder, *, farthest: bool = False
) -> list[int | None]:
    """Return for each (text, flow) the position of the nearest, or farthest, correction for this flow, if any."""
    rows = unit_vectors([each.request for each in learned], embedder)
    asked = unit_vectors([text for text, _ in texts], embedder)
    found: list[int | None] = []
    for row, (_, flow) in zip(asked, texts, strict=True):
        own = [place for place, each in enumerate(learned) if each.flow == flow]
        cosines = rows[own] @ row
        found.append(own[int((-cosines if farthest else cosines).argmax())] if own else None)
    return found


def with_examples(registry: Mapping[str, BaseFlow], learned: Iterable[Correction]) -> FlowRegistry:
    """Return copies of the flows with corrected requests as further examples."""
    texts: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for each in learned:
        texts[each.flow][each.request] = ""
    return taught(registry, Version(number=1, at="", examples=texts)).registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Where corrected requests lead now, and the positions of the corrections that a person should check first."""

    led: Sequence[Routed]
    doubted: frozenset[int] = frozenset()


async def examined(
    registry: Mapping[str, BaseFlow],
    corrections: Sequence[Correction],
    *,
    routing: RouteOptions | None = None,
    embedder: Embedder,
    language: str,
) -> Examined:
    """Examine corrections for one flow each, by the catalogue and by each other.

    A correction is trusted if recall leads to its flow already, if two log entries have it, or if its flow is likely by
    all else that is known: the catalogue and the other corrections, learned without this one; or the catalogue and the
    trusted ones alone. What fits any flow is likely for none.
    """
    asked = [Query(request=each.request) for each in corrections]
    now = await led(registry, asked, routing, embedder=embedder, language=language)
    places = range(len(corrections))
    doubted = [place for place in places if not _is_known(corrections[place], now[place])]
    known = corrections
    for _ in range(_ROUNDS):
        open_ones = [corrections[place] for place in doubted]
        found = await compute(_chances, registry, known, open_ones, embedder, language)
        doubted = [
            place
            for place, each, chance in zip(doubted, open_ones, found, strict=True)
            if chance < _LIKELY or is_broad(each.request)
        ]
        known = [corrections[place] for place in sorted({*places} - {*doubted})]
    return Examined(led=now, doubted=frozenset(doubted))


def _is_known(one: Correction, now: Routed) -> bool:
    return now.first == one.flow or len(one.ids) >= _SAID_TWICE


def _chances(
    registry: Mapping[str, BaseFlow],
    known: Sequence[Correction],
    corrections: Sequence[Correction],
    embedder: Embedder,
    language: str,
) -> list[float]:
    """Return P(its flow is right) of each correction, as the flows have learned the `known` ones without it.

    The last stage of an embedder decides.
    """
    if not corrections:
        return []
    encoder = Encoder(stages_of(embedder)[-1], Lexical(language))
    cards = [flow.card() for flow in with_examples(registry, known).values()]
    flows = {card.name: place for place, card in enumerate(cards)}
    learned = [{spelled(text): place for place, text in enumerate(card.examples)} for card in cards]
    vectors = encoder.embed([indexable(each.request) for each in corrections])
    asked = [
        (flow := flows[each.flow], learned[flow].get(spelled(each.request)), each.request, vector)
        for each, vector in zip(corrections, vectors, strict=True)
    ]
    rows = encoder.rows(cards)
    with threadpool_limits(1, user_api="blas"):
        return chances(cards, rows, encoder.lexical, asked)


def chosen(  # noqa: PLR0913 - bounds with a name
    registry: Mapping[str, BaseFlow],
    corrections: Sequence[Correction],
    found: Examined,
    embedder: Embedder,
    *,
    taken: Mapping[str, int],
    most: int,
    most_confirmed: int,
) -> tuple[list[Correction], list[Correction]]:
    """Return the corrections to learn, the most informative first, and the refused ones.

    Refused are doubted ones, near copies of a text of their flow, and more than `most` texts for a flow, with those
    `taken` before. Wrongly routed requests come first, then those with the lowest confidence. At most `most_confirmed`
    may lead to their flow already.
    """
    rows = unit_vectors([each.request for each in corrections], embedder)
    order = sorted(
        (place for place in range(len(corrections)) if place not in found.doubted),
        key=lambda place: (
            found.led[place].first == corrections[place].flow,
            found.led[place].confidence or 0.0,
            place,
        ),
    )
    own = {flow.name: list(unit_vectors(flow.examples, embedder)) for flow in registry.values()}
    counts, confirmed = defaultdict[str, int](int, taken), defaultdict[str, int](int)
    kept: list[Correction] = []
    refused = [corrections[place].refused(DOUBT) for place in sorted(found.doubted)]
    for place in order:
        each = corrections[place]
        name, is_led = each.flow, found.led[place].first == each.flow
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
