"""Checks by embedding: near-twins, misplaced examples, unreachable flows, and placement of new requests.

Every example is asked as a request against a catalogue without it (leave-one-out), as in a sync that fits recall
(`memory.fit`). No threshold is a plain cosine, since usual cosines differ by embedder and catalogue. A score is the
z-score of a flow among all flows for one request. A margin is normalized by the median and the robust standard
deviation (scaled median absolute deviation) of all margins of the catalogue. In a catalogue with diverse examples that
deviation is large, so only the clearest cases are reported. New requests are placed by the same measures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import exp, lgamma, log, sqrt
from typing import Self

import numpy as np
import numpy.typing as npt

from jazz_select.evaluation.checks.findings import Evidence, Finding, Places, Spot
from jazz_select.evaluation.checks.wording import EMPTY_WORDS, Sames, is_broad, related, request_key, words_of
from jazz_select.evaluation.corrections import to_the_nearest
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import Encoder, indexable, spoken_name
from jazz_select.memory.fit.leave_one_out import LeaveOneOut
from jazz_select.ports import Vectors

MOST_ASKED = 5_000
"""Most examples that are asked; of a larger catalogue, the first ones of every flow."""
_WORDS = 0.3
"""Weight of the z-score by words (BM25), beside 1 for the z-score by meaning."""
_FEWEST_FLOWS, _FEWEST_ASKED = 6, 20
"""Least flows and examples for these statistics."""
_BY_SCATTER, _BY_PLACE, _ASTRAY = 0.2, 0.5, 1.95
"""Weights of the misplacement score: its margin (in robust standard deviations) and the share of flows ranked before
its own flow, added to its lead (`_lead`). A finding is reported above `_ASTRAY`. Of 96 examples that were moved to
other flows of public intents, with ten examples each, 56 exceed it, and 3 of 13,620 that were not moved."""
_FAR, _NEARER_CASE = 3.0, 0.25
"""Least margins of another flow for a doubted label: in z-scores, and in cosine of the nearest text."""
_FEWEST_WORDS = 4
"""Least words of an example that is reported as misplaced."""
_BEHIND, _LEAST_BEHIND = 0.06, 3
"""Least share and least number of flows ranked before the own flow: one neighbour before it is no mistake."""
_TWIN, _MOST_TWIN, _WRONG_SIDE = 3.0, 0.15, 0.25
"""Twins by separation: robust standard deviations below the usual separation from the nearest flow, the highest
separation of twins, and the least share of examples of each flow on the wrong side."""
_ALIKE, _ALIKE_SEPARATION = 4.0, 1.0
"""Twins by prototype: robust standard deviations above the usual similarity to the nearest flow, and the most above the
usual separation."""
_BY_CHANCE = 0.05
"""Expected number of flows in the catalogue that are first for so many examples of others by chance."""
_LOST = 2.7
"""Threshold of Stouffer's sum over the normalized margins of a flow that is first for none of its examples."""
_FEWEST_ROBBED, _HELD = 4, 0.5
"""Least flows that a greedy flow takes examples from, and the highest share of its own for which it is first."""
_SPEAKS, _AGAINST = 0.8, 1.2
"""A description contradicts below this z-score for its own flow, with another flow ahead by more than the second."""
_SHORT_WORD, _LONGEST_DESCRIPTION = 3, 2_000
_SHOWN = 80
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The scores of every flow for every example, leave-one-out."""

    flows: Sequence[BaseFlow]
    whose: npt.NDArray[np.int_]
    """Index of each example's flow."""
    numbers: Sequence[int]
    """Index of each example within its flow."""
    cosines: Floats
    """Cosine of each example with each flow, its own flow without it; shape (examples, flows)."""
    scores: Floats
    """Combined z-scores by meaning and words; shape (examples, flows)."""
    texts: Vectors
    """Unit vectors of the examples."""
    prototypes: Vectors
    """Mean vectors of the flows."""
    described: Floats
    """Z-scores of each flow's examples (columns) for each flow's description (rows); shape (flows, flows)."""
    related: npt.NDArray[np.bool_]
    """Whether two flows are part and whole; shape (flows, flows)."""

    def spot(self, example: int) -> Spot:
        """Return the position of an example in its flow."""
        return Spot(self.flows[int(self.whose[example])], "examples", self.numbers[example])

    def evidence(self, example: int, other: int) -> Evidence:
        """Return this example as evidence for another flow."""
        cosine, own = (round(float(self.cosines[example, flow]), 4) for flow in (other, int(self.whose[example])))
        return replace(self.spot(example).evidence(other=self.flows[other].name), cosine=cosine, own_cosine=own)


def ask(flows: Sequence[BaseFlow], encoder: Encoder) -> Neighbours | None:
    """Score the examples; None if there are too few flows or examples."""
    judged = [flow for flow in flows if flow.examples]
    if len(judged) < _FEWEST_FLOWS or sum(len(flow.examples) > 1 for flow in judged) < _FEWEST_FLOWS:
        return None
    examples, catalogue = _embedded(judged, encoder)
    results = list(catalogue.ask_examples([None] * 5, MOST_ASKED))
    if len(results) < _FEWEST_ASKED:
        return None
    dense = np.stack([each.dense for each in results])
    words = np.stack([each.bm25 for each in results])
    links = np.zeros((len(judged), len(judged)), dtype=bool)
    whole = [number for number, flow in enumerate(judged) if flow.composite]
    for number in whole:
        for other, flow in enumerate(judged):
            links[number, other] = links[other, number] = links[number, other] or related(judged[number], flow)
    seen: dict[int, int] = {}
    numbers: list[int] = []
    for each in results:
        numbers.append(seen.get(each.flow, 0))
        seen[each.flow] = numbers[-1] + 1
    return Neighbours(
        flows=judged,
        whose=np.array([each.flow for each in results]),
        numbers=numbers,
        cosines=dense,
        scores=together(standing_out(dense), standing_out(words)),
        texts=unit_rows(
            np.stack([examples[judged[each.flow].name][at] for each, at in zip(results, numbers, strict=True)])
        ),
        prototypes=catalogue.prototypes,
        described=_described(judged, examples, encoder),
        related=links,
    )


def _embedded(flows: Sequence[BaseFlow], encoder: Encoder) -> tuple[dict[str, Vectors], LeaveOneOut]:
    """Return the example vectors of each flow by name, and the leave-one-out catalogue."""
    cards = [flow.card() for flow in flows]
    rows = encoder.rows(cards)
    own = {card.id: encoder.of_stage(0, rows[card.id]) for card in cards}
    examples = {card.name: own[card.id][len(own[card.id]) - len(card.examples) :] for card in cards}
    return examples, LeaveOneOut(cards, own, encoder.lexical)


def _described(flows: Sequence[BaseFlow], examples: Mapping[str, Vectors], encoder: Encoder) -> Floats:
    means = unit_rows(np.stack([examples[flow.name].mean(axis=0) for flow in flows]))
    descriptions = [indexable(flow.description or flow.condition or flow.name) for flow in flows]
    rows = encoder.of_stage(0, encoder.embed([text[:_LONGEST_DESCRIPTION] for text in descriptions]))
    return standing_out(rows @ means.T)


def nearness(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield the findings by embedding."""
    twins = list(_twins(asked))
    for one, other in twins:
        yield _of_twins(asked, one, other, places)
    paired = {flow for pair in twins for flow in pair}
    yield from _unreachable(asked, paired, places)
    yield from _misplaced(asked, {frozenset(pair) for pair in twins}, places)
    yield from _broad(asked, places)
    yield from _contradicting(asked, places)


def together(meaning: Floats, words: Floats) -> Floats:
    """Combine the z-scores (`standing_out`) by meaning and by words."""
    return (meaning + np.float32(_WORDS) * words).astype(np.float32)


def standing_out(scores: Floats) -> Floats:
    """Return the z-score of each flow among all flows for the same request."""
    spread = scores.std(axis=1, keepdims=True)
    return ((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _scatter(values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the median and the robust standard deviation (1.4826 times the median absolute deviation)."""
    middle = float(np.median(values))
    return middle, max(1.4826 * float(np.median(np.abs(values - middle))), 1e-6)


def _others(asked: Neighbours) -> Floats:
    """Return the scores with -inf for each example's own flow and the flows related to it."""
    others = np.where(asked.related[asked.whose], -np.inf, asked.scores)
    others[np.arange(len(asked.whose)), asked.whose] = -np.inf
    return others


def _margins(asked: Neighbours) -> tuple[Floats, Floats]:
    """Return the lead of the best other flow over the own one for each example: raw, and normalized robustly."""
    margins = _others(asked).max(axis=1) - asked.scores[np.arange(len(asked.whose)), asked.whose]
    middle, scatter = _scatter(margins)
    return margins, (margins - middle) / scatter


def _misplaced(asked: Neighbours, twins: set[frozenset[int]], places: Places) -> Iterator[Finding]:
    others, (margins, beyond) = _others(asked), _margins(asked)
    behind = (others > asked.scores[np.arange(len(asked.whose)), asked.whose][:, None]).sum(axis=1) + 1
    far = _BY_SCATTER * beyond + _BY_PLACE * behind / len(asked.flows)
    for example in map(int, np.flatnonzero((margins > 0) & (behind >= _LEAST_BEHIND))):
        best = int(others[example].argmax())
        if far[example] + _lead(asked, example, best) <= _ASTRAY:
            continue
        spot = asked.spot(example)
        if frozenset((int(asked.whose[example]), best)) in twins or len(words_of(spot.text)) < _FEWEST_WORDS:
            continue
        own, other, rank = spot.flow.name, asked.flows[best].name, int(behind[example])
        what = f"{spot.quoted} is an example of {own}, which comes in place {rank} for it without the example"
        what += f"; {other} is first."
        evidence = asked.evidence(example, best)
        remedy = f"Move it to {other}, or have it say what makes it one of {own}."
        yield places.finding("misplaced-example", spot, what, remedy, evidence, flows=(own, other))


def _lead(asked: Neighbours, example: int, other: int) -> float:
    """Return the lead of another flow over the own one: cosine of the nearest text plus cosine of the mean."""
    cosines, own = asked.texts @ asked.texts[example], int(asked.whose[example])
    cosines[example] = -1.0
    theirs, mine = (cosines[asked.whose == flow].max() + asked.cosines[example, flow] for flow in (other, own))
    return float(theirs - mine)


def _first(asked: Neighbours) -> npt.NDArray[np.int_]:
    """Return the first flow for each example, leaving out flows related to its own."""
    others = np.where(asked.related[asked.whose], -np.inf, asked.scores)
    return others.argmax(axis=1)


def _broad(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield examples that fit any flow. A flow with several of them is meant for such requests, and is left out."""
    of_help = {number for number, flow in enumerate(asked.flows) if sum(map(is_broad, flow.examples)) > 1}
    first = _first(asked)
    for example, own in enumerate(map(int, asked.whose)):
        spot = asked.spot(example)
        if own not in of_help and is_broad(spot.text) and not _held(asked, example, int(first[example])):
            what = f"{spot.quoted} is an example of {spot.flow.name} and would do for any flow"
            what += ": with it, what says nothing leads there."
            evidence = asked.evidence(example, int(first[example]))
            remedy = "Take it out: what could mean anything is better asked about."
            yield places.finding("broad-example", spot, what, remedy, evidence)


def _held(asked: Neighbours, example: int, first: int) -> bool:
    """Whether an example's own flow is first, and the example is as near to it as the flow's other examples."""
    own = int(asked.whose[example])
    others = np.flatnonzero(asked.whose == own)
    least = min((float(asked.cosines[each, own]) for each in others if each != example), default=1.0)
    return first == own and float(asked.cosines[example, own]) >= least


def _at_least(count: int, usual: float) -> float:
    """Return the probability of at least `count` events, where `usual` are expected (Poisson)."""
    less = sum(exp(each * log(usual) - usual - lgamma(each + 1)) for each in range(count))
    return max(0.0, 1.0 - less)


def _contradicting(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield descriptions that are nearer to another flow's examples, and share more words with them."""
    own = asked.described.diagonal()
    for number, flow in enumerate(asked.flows):
        others = np.where(asked.related[number], -np.inf, asked.described[number])
        best = int(others.argmax())
        behind = int((others > own[number]).sum())
        far = own[number] < _SPEAKS and others[best] - own[number] > _AGAINST
        if not far or behind < max(2, _BEHIND * len(asked.flows)) or not flow.description:
            continue
        stems, pair = _stems_of(flow.description), (flow, asked.flows[best])
        mine, theirs = (_stems_of(" ".join((spoken_name(each.name), *each.examples, *each.aliases))) for each in pair)
        if stems & mine and len(stems & mine) >= len(stems & theirs):
            continue
        spot, other = Spot(flow, "description"), asked.flows[best].name
        what = f"The description of {flow.name}, {spot.quoted}, says nothing of what its examples ask"
        what += f"; it lies with those of {other}."
        evidence = spot.evidence(other=other)
        remedy = "Describe what the examples ask for, or give the flow examples of what it does."
        yield places.finding("contradicting-text", spot, what, remedy, evidence, flows=(flow.name, other))


def _stems_of(text: str) -> set[str]:
    return {word[:5] for word in set(words_of(text)) - EMPTY_WORDS if len(word) > _SHORT_WORD}


def _unreachable(asked: Neighbours, paired: set[int], places: Places) -> Iterator[Finding]:
    """Yield flows that are first for none of their examples, or mostly for those of others, beyond chance."""
    first, count = _first(asked), len(asked.flows)
    own = first == asked.whose
    usual, beyond = max(float((~own).sum()) / count, 1e-6), _margins(asked)[1]
    for number, flow in enumerate(asked.flows):
        mine = np.flatnonzero(asked.whose == number)
        won = np.flatnonzero(~own & (first == number))
        robbed, held = len({int(asked.whose[each]) for each in won}), int(own[mine].sum())
        is_lost = len(mine) > 1 and not held and float(beyond[mine].mean()) * sqrt(len(mine)) > _LOST
        takes = held <= _HELD * len(mine) and count * _at_least(len(won), usual) <= _BY_CHANCE
        if robbed >= _FEWEST_ROBBED and (is_lost or takes):
            what = f"{flow.name} comes first for {len(won)} examples of {robbed} other flows"
            what += f", and for {held} of its own {len(mine)}."
            remedy = "Take what other flows are for out of its examples and description; say what it alone does."
            evidence = (asked.evidence(int(each), number) for each in won[:4])
            yield places.finding("greedy-flow", Spot(flow, "examples"), what, remedy, *evidence)
        elif is_lost and number not in paired:
            best = int(np.bincount(first[mine], minlength=count).argmax())
            what = f"{flow.name} is first for none of its {len(mine)} examples, each asked without itself"
            what += f"; {asked.flows[best].name} comes before it most often."
            remedy = "Give it examples that only it answers, or make it part of the other flow."
            evidence = (asked.evidence(int(each), int(first[each])) for each in mine[:3])
            yield places.finding("unreachable-flow", Spot(flow, "examples"), what, remedy, *evidence)


def _twins(asked: Neighbours) -> Iterator[tuple[int, int]]:
    """Yield pairs of flows with hardly separated examples, or with nearly equal prototypes."""
    count = len(asked.flows)
    separation, wrong, sizes = _separation(asked)
    alike = asked.prototypes @ asked.prototypes.T
    apart = ~(np.eye(count, dtype=bool) | asked.related | (sizes < 2)[:, None] | (sizes < 2)[None, :])  # noqa: PLR2004
    judged = apart.any(axis=1)
    if not judged.any():
        return
    middle, scatter = _scatter(np.where(apart, separation, np.inf)[judged].min(axis=1))
    usual, spread = _scatter(np.where(apart, alike, -np.inf)[judged].max(axis=1))
    found = apart & (separation < min(middle - _TWIN * scatter, _MOST_TWIN)) & (wrong >= _WRONG_SIDE)
    found |= apart & (alike > usual + _ALIKE * spread) & (separation < middle + _ALIKE_SEPARATION * scatter)
    for one, other in combinations(range(count), 2):
        if found[one, other]:
            yield one, other


def _separation(asked: Neighbours) -> tuple[Floats, Floats, Floats]:
    """Return how well the examples of each two flows separate them.

    Returns:
        The mean lead of the own flow over its standard deviation; the lesser of the two flows' shares of examples on
        the wrong side; the number of examples of each flow. The first two have the shape (flows, flows).
    """
    rows = np.arange(len(asked.whose))
    lead = asked.scores[rows, asked.whose][:, None] - asked.scores
    member = np.zeros((len(asked.flows), len(asked.whose)), dtype=np.float32)
    member[asked.whose, rows] = 1
    sizes = member.sum(axis=1)
    both = np.maximum(sizes[:, None] + sizes[None, :], 1)
    total, squares = member @ lead, member @ lead**2
    mean = (total + total.T) / both
    separation = mean / np.sqrt(np.maximum((squares + squares.T) / both - mean**2, 1e-6))
    wrong = (member @ (lead < 0).astype(np.float32)) / np.maximum(sizes, 1)[:, None]
    return separation, np.minimum(wrong, wrong.T), sizes


def _of_twins(asked: Neighbours, one: int, other: int, places: Places) -> Finding:
    mine, theirs = asked.flows[one], asked.flows[other]
    leads = {
        int(example): float(asked.scores[example, own] - asked.scores[example, rival])
        for own, rival in ((one, other), (other, one))
        for example in np.flatnonzero(asked.whose == own)
    }
    colliding = sorted(leads, key=lambda each: leads[each])[:4]
    wrong = sum(lead < 0 for lead in leads.values())
    what = f"{mine.name} and {theirs.name} can hardly be told apart: {wrong} of their {len(leads)} examples lie nearer"
    what += " to the other one."
    names = (mine.name, theirs.name)
    evidence = (asked.evidence(each, other if int(asked.whose[each]) == one else one) for each in colliding)
    return places.finding("near-twins", Spot(theirs), what, _apart(mine, theirs), *evidence, flows=names)


def _apart(one: BaseFlow, other: BaseFlow) -> str:
    """Return the remedy for two flows that are too similar, with the words that only one of them has."""
    mine, theirs = (set(request_key(f"{flow.description} {flow.condition}").split()) for flow in (one, other))
    only = (mine - theirs - EMPTY_WORDS, theirs - mine - EMPTY_WORDS)
    longest = [", ".join(sorted(words, key=lambda word: (-len(word), word))[:3]) for words in only]
    if all(longest):
        words = f"Only {one.name} says {longest[0]}; only {other.name} says {longest[1]}"
        return indexable(f"{words}: have their examples show it, or make the two one flow.")
    return indexable("Say in both conditions what decides, and have the examples show it; or make the two one flow.")


_USUAL = 0.95
"""Quantile of the examples' cosine to the nearest of their flow. A new example may be as similar as halfway from there
to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """An embedded catalogue in which requests are placed."""

    known: Sames
    _flows: Sequence[BaseFlow]
    _encoder: Encoder
    _catalogue: LeaveOneOut
    _examples: dict[str, Vectors]
    _usual: float

    @classmethod
    def of(cls, flows: Sequence[BaseFlow], encoder: Encoder) -> Self | None:
        """Embed the catalogue; None if no flow has an example."""
        if not any(flow.examples for flow in flows):
            return None
        examples, catalogue = _embedded(flows, encoder)
        found = to_the_nearest(examples.values())
        return cls(
            known=Sames((text for flow in flows for text in flow.examples), numbers=True),
            _flows=flows,
            _encoder=encoder,
            _catalogue=catalogue,
            _examples=examples,
            _usual=(1 + max(float(np.quantile(found, _USUAL)), 0.0)) / 2 if found else 1.0,
        )

    def holds(self, flow: str) -> bool:
        """Whether the catalogue has a flow of this name."""
        return flow in self._examples

    def first(self, texts: Sequence[str]) -> list[str]:
        """Return the name of the nearest flow for each request, with the weights of `check`."""
        if not texts:
            return []
        return [self._flows[int(place)].name for place in self._scores(texts, self._vectors(texts)).argmax(axis=1)]

    def against(self, texts: Sequence[str], labels: Sequence[Sequence[str]]) -> dict[int, str]:
        """Return the positions of requests with doubtful labels, each with the flow that recall has first.

        A label is doubtful if another flow leads by far, several flows rank before the labelled one, and a text of the
        other flow is nearer. Each request has at least one label, and all are in the catalogue.

        Raises:
            EmbeddingError: The embedder failed.
        """
        if not texts or len(self._flows) < _FEWEST_FLOWS:
            return {}
        vectors, found = self._vectors(texts), dict[int, str]()
        scores, places = self._scores(texts, vectors), {flow.name: place for place, flow in enumerate(self._flows)}
        least = max(_LEAST_BEHIND, _BEHIND * len(self._flows))
        for place, (row, vector) in enumerate(zip(scores, unit_rows(vectors), strict=True)):
            own = float(row[[places[name] for name in labels[place]]].max())
            best = self._flows[int(row.argmax())].name
            if row.max() - own <= _FAR or (row > own).sum() < least or not self.holds(best):
                continue
            nearest = {name: (rows @ vector).max(initial=-1.0) for name, rows in self._examples.items()}
            if nearest[best] - max(nearest.get(name, -1.0) for name in labels[place]) > _NEARER_CASE:
                found[place] = best
        return found

    def _scores(self, texts: Sequence[str], vectors: Vectors) -> Floats:
        """Return the combined z-scores; shape (requests, flows)."""
        results = [self._catalogue.ask(text, vector, 0, None) for text, vector in zip(texts, vectors, strict=True)]
        dense, words = (np.stack([getattr(each, arm) for each in results]) for arm in ("dense", "bm25"))
        return together(standing_out(dense), standing_out(words))

    def diverse(self, flow: str, texts: Sequence[str], taken: Sequence[str], most: int) -> list[str]:
        """Return at most `most` texts unlike the flow's examples, `taken` and each other, the most different first."""
        if not texts:
            return []
        vectors, have = self._vectors(texts), self._examples[flow]
        if taken:
            have = np.vstack([have, self._vectors(taken)])
        kept: list[int] = []
        sames = [Sames([text], numbers=True) for text in texts]
        nearest = (vectors @ have.T).max(axis=1) if len(have) else np.full(len(texts), -1.0)
        while len(kept) < most:
            left = [
                place
                for place in range(len(texts))
                if place not in kept
                and nearest[place] <= self._usual
                and not any(sames[other].of(texts[place]) for other in kept)
            ]
            if not left:
                break
            newest = min(left, key=lambda place: float(nearest[place]))
            kept.append(newest)
            nearest = np.maximum(nearest, vectors @ vectors[newest])
        return [texts[place] for place in kept]

    def neighbours(self, flow: BaseFlow, count: int) -> list[BaseFlow]:
        """Return the flows nearest to this one."""
        mine = next(place for place, each in enumerate(self._flows) if each is flow)
        near = np.argsort(-(self._catalogue.prototypes @ self._catalogue.prototypes[mine]), kind="stable")
        return [self._flows[int(place)] for place in near if int(place) != mine][:count]

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.of_stage(0, self._encoder.embed([indexable(text) for text in texts]))
