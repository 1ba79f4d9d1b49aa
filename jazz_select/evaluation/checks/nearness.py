"""Checks by embedding: near-twins, misplaced texts, unreachable flows, and placement of new requests.

Every example is asked as a request against a catalogue without it (leave-one-out), as in a sync that fits recall
(`memory.fit`). A description is asked of a catalogue without descriptions, and a case of the catalogue as it is. No
threshold is a plain cosine, since usual cosines differ by embedder and catalogue. A score is the z-score of a flow
among all flows for one request. A margin is normalized by the median and the robust standard deviation (scaled median
absolute deviation) of the margins of all examples of the catalogue. In a catalogue with diverse examples that deviation
is large, so only the clearest cases are reported.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from math import exp, lgamma, log, sqrt

import numpy as np
import numpy.typing as npt

from jazz_select.consent import is_courtesy
from jazz_select.evaluation.checks.findings import Evidence, Finding, Places, Spot
from jazz_select.evaluation.checks.wording import DuplicateIndex, content, is_broad, related, words_of
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.known_embedders import stages_of
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import Encoder, indexable, spoken_name
from jazz_select.memory.fit.leave_one_out import FOLDS, HeldOut, LeaveOneOut
from jazz_select.memory.text_vectors import embed_with_cache
from jazz_select.ports import Embedder, Vectors
from jazz_select.values import FlowCard

MOST_ASKED = 5_000
"""Most examples that are asked; of a larger catalogue, the first ones of every flow."""
_WORDS = 0.3
"""Weight of the z-score by words (BM25), beside 1 for the z-score by meaning."""
_FEWEST_FLOWS, _FEWEST_ASKED = 6, 20
"""Least flows and examples for these statistics."""
_BY_SCATTER, _BY_PLACE, _LEAST_PLACE = 0.2, 0.5, 3
"""Weights of the normalized margin of a misplaced text and of its own flow's place as a share of the catalogue, beside
1 for its lead (`Neighbours.astray`), and the least place: one neighbour before it is no mistake."""
_ASTRAY_EXAMPLE, _ASTRAY_CASE, _ASTRAY_DESCRIPTION = 1.95, 1.7, 1.0
"""The sum above which a text is reported. Of 240 examples that were moved to other flows of public intents, with ten
examples each, 63 % exceed the first with static vectors and 68 % with minilm, and 3 of 7,285 that were not moved: all
three are mislabelled as published. A case has its own flow whole; a description should say what all examples ask."""
_FEWEST_WORDS = 4
"""Least words of an example that is reported as misplaced."""
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
"""Least flows that a greedy flow takes examples from, and the highest share of its own for which it is first, beside
the share that is usual in the catalogue."""
_LONGEST_DESCRIPTION = 2_000
_USUAL = 0.95
"""Quantile of the examples' cosine to the nearest of their flow. A new example may be as similar as halfway from there
to 1."""
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Texts that were asked as requests, in rows, with what every flow, in columns, scored for them."""

    texts: Vectors
    """Unit vectors of the texts."""
    cosines: Floats
    """Cosine of each text with each flow."""
    scores: Floats
    """Combined z-scores by meaning and words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours(Asked):
    """Every example of a catalogue, asked of its flow without it."""

    flows: Sequence[BaseFlow]
    whose: npt.NDArray[np.int_]
    """Index of each example's flow."""
    numbers: Sequence[int]
    """Index of each example within its flow."""
    prototypes: Vectors
    """Mean vectors of the flows."""
    related: npt.NDArray[np.bool_]
    """Whether two flows are the same, or part and whole; shape (flows, flows)."""

    @property
    def beyond(self) -> Floats:
        """The lead of the best unrelated flow over the own one for each example, normalized."""
        middle, scatter = self._usual
        return (self._leads - middle) / scatter

    @property
    def _leads(self) -> Floats:
        return self.others.max(axis=1) - self.scores[np.arange(len(self.whose)), self.whose]

    @property
    def _usual(self) -> tuple[float, float]:
        return _scatter(self._leads)

    @property
    def others(self) -> Floats:
        """The scores with -inf for each example's own flow and the flows related to it."""
        return np.where(self.related[self.whose], -np.inf, self.scores)

    @property
    def first(self) -> npt.NDArray[np.int_]:
        """The first flow for each example, leaving out flows related to its own."""
        own = np.arange(len(self.flows)) == self.whose[:, None]
        return np.where(own, self.scores, self.others).argmax(axis=1)

    def spot(self, example: int) -> Spot:
        """Return the position of an example in its flow."""
        return Spot(self.flows[int(self.whose[example])], "examples", self.numbers[example])

    def evidence(self, example: int, other: int) -> Evidence:
        """Return this example as evidence for another flow."""
        cosine = round(float(self.cosines[example, other]), 4)
        own_cosine = round(float(self.cosines[example, int(self.whose[example])]), 4)
        evidence = self.spot(example).evidence(other=self.flows[other].name)
        return replace(evidence, cosine=cosine, own_cosine=own_cosine)

    def astray(self, asked: Asked, labels: Sequence[Sequence[int]], above: float) -> Iterator[tuple[int, int, int]]:
        """Yield each text that lies with another flow than its own ones, with that flow and its own ones' best place.

        What is summed is the lead of the other flow in its score, normalized by the leads that are usual for examples,
        the place of the own one, and the lead in cosines: of the nearest example, other than the text itself, and of
        the flow.
        """
        middle, scatter = self._usual
        for at, own in enumerate(map(list, labels)):
            others = np.where(self.related[own].any(axis=0), -np.inf, asked.scores[at])
            best, mine = int(others.argmax()), float(asked.scores[at, own].max())
            margin, place = float(others[best]) - mine, int((others > mine).sum()) + 1
            if place < _LEAST_PLACE:
                continue
            near = self.texts @ asked.texts[at]
            if asked is self:  # an example is no neighbour of itself
                near[at] = -1.0
            cosines = [near[self.whose == flow].max(initial=-1.0) + asked.cosines[at, flow] for flow in (best, *own)]
            far = _BY_SCATTER * (margin - middle) / scatter + _BY_PLACE * place / len(self.flows)
            if far + cosines[0] - max(cosines[1:]) > above:
                yield at, best, place


class Field:
    """An embedded catalogue in which requests are placed.

    Attributes:
        rows: The vectors of each flow's texts by flow id, shape (texts, dim), of the first embedder.
    """

    def __init__(self, flows: Sequence[BaseFlow], encoder: Encoder) -> None:
        """Embed the catalogue."""
        self._flows, self._encoder = flows, encoder
        cards = [flow.card() for flow in flows]
        self._catalogue, self.rows = self._index_rows(cards)
        self._examples: dict[str, Vectors] = {}
        for card in cards:
            rows = self.rows[card.id]
            self._examples[card.name] = rows[len(rows) - len(card.examples) :]  # a card's last rows are its examples

    def _index_rows(self, cards: Sequence[FlowCard]) -> tuple[LeaveOneOut, dict[str, Vectors]]:
        rows = {name: self._encoder.of_stage(0, each) for name, each in self._encoder.rows(cards).items()}
        return LeaveOneOut(cards, rows, self._encoder.lexical), rows

    @cached_property
    def neighbours(self) -> Neighbours | None:
        """Every example, asked; None if there are too few flows or examples for what is usual."""
        results = list(self._catalogue.ask_examples([None] * FOLDS, MOST_ASKED))
        if sum(len(flow.examples) > 1 for flow in self._flows) < _FEWEST_FLOWS or len(results) < _FEWEST_ASKED:
            return None
        counts = Counter[int]()
        numbers: list[int] = []
        texts: list[Vectors] = []
        for each in results:  # those of one flow come in the order of its examples
            number = counts[each.flow]
            counts[each.flow] += 1
            numbers.append(number)
            texts.append(self._examples[self._flows[each.flow].name][number])
        links = np.eye(len(self._flows), dtype=bool)
        for (one, flow), (other, part) in combinations(enumerate(self._flows), 2):
            links[one, other] = links[other, one] = (flow.composite or part.composite) and related(flow, part)
        asked = _scores_of(results, np.stack(texts))
        return Neighbours(
            texts=asked.texts,
            cosines=asked.cosines,
            scores=asked.scores,
            flows=self._flows,
            whose=np.array([each.flow for each in results]),
            numbers=numbers,
            prototypes=self.prototypes,
            related=links,
        )

    def ask(self, texts: Sequence[str]) -> Asked:
        """Ask some texts, at least one, of the catalogue.

        Raises:
            EmbeddingError: The embedder failed.
        """
        return self._ask(self._catalogue, texts)

    def ask_descriptions(self) -> Asked:
        """Ask the description of each flow of the catalogue without descriptions."""
        bare, _ = self._index_rows([replace(flow.card(), description="") for flow in self._flows])
        return self._ask(bare, [(flow.description or flow.name)[:_LONGEST_DESCRIPTION] for flow in self._flows])

    def _ask(self, catalogue: LeaveOneOut, texts: Sequence[str]) -> Asked:
        vectors = self._vectors(texts)
        results = [catalogue.ask(text, vector, 0, None) for text, vector in zip(texts, vectors, strict=True)]
        return _scores_of(results, vectors)

    @property
    def prototypes(self) -> Vectors:
        """The expected place of each flow's requests."""
        return self._catalogue.prototypes

    def holds(self, flow: str) -> bool:
        """Whether the catalogue has a flow of this name."""
        return flow in self._examples

    def first(self, texts: Sequence[str]) -> list[str]:
        """Return the name of the nearest flow for each request, with the weights of `check`."""
        if not texts:
            return []
        firsts = self.ask(texts).scores.argmax(axis=1)
        return [self._flows[int(place)].name for place in firsts]

    @cached_property
    def known(self) -> DuplicateIndex:
        """The examples by their words."""
        return DuplicateIndex(chain.from_iterable(flow.examples for flow in self._flows), numbers=True)

    @cached_property
    def _usual(self) -> float:
        found = to_the_nearest(self._examples.values())
        if not found:
            return 1.0
        return (1 + max(float(np.quantile(found, _USUAL)), 0.0)) / 2

    def diverse(self, flow: str, texts: Sequence[str], taken: Sequence[str], most: int) -> list[str]:
        """Return at most `most` texts unlike the flow's examples, `taken` and each other, the most different first."""
        if not texts:
            return []
        vectors, have = self._vectors(texts), self._examples[flow]
        if taken:
            have = np.vstack([have, self._vectors(taken)])
        kept: list[int] = []
        sames = [DuplicateIndex([text], numbers=True) for text in texts]
        nearest = (vectors @ have.T).max(axis=1) if len(have) else np.full(len(texts), -1.0)
        while len(kept) < most:
            candidates: list[int] = []
            for place, text in enumerate(texts):
                if place in kept or nearest[place] > self._usual:
                    continue
                if not any(sames[other].find(text) for other in kept):
                    candidates.append(place)
            if not candidates:
                break
            newest = min(candidates, key=lambda place: float(nearest[place]))
            kept.append(newest)
            nearest = np.maximum(nearest, vectors @ vectors[newest])
        return [texts[place] for place in kept]

    def nearest(self, flow: BaseFlow, count: int) -> list[BaseFlow]:
        """Return the flows nearest to this one."""
        mine = next(place for place, each in enumerate(self._flows) if each is flow)
        order = np.argsort(-(self.prototypes @ self.prototypes[mine]), kind="stable")
        others = [self._flows[int(place)] for place in order if place != mine]
        return others[:count]

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.of_stage(0, self._encoder.embed([indexable(text) for text in texts]))


def unit_vectors(texts: Sequence[str], embedder: Embedder) -> Vectors:
    """Return a row of length 1 for each text, from the first stage of an embedder."""
    first = stages_of(embedder)[0]
    return unit_rows(embed_with_cache(first, first.embed, [indexable(text) for text in texts]))


def to_the_nearest(groups: Iterable[Vectors]) -> list[float]:
    """Return the cosine of each row with the nearest other row of its group; groups of one are skipped."""
    found: list[float] = []
    for rows in groups:
        if len(rows) > 1:
            cosines = rows @ rows.T
            np.fill_diagonal(cosines, -1.0)  # a row is not its own neighbour
            found += cosines.max(axis=1).tolist()
    return found


def _scores_of(results: Sequence[HeldOut], texts: Vectors) -> Asked:
    dense, words = np.stack([each.dense for each in results]), np.stack([each.bm25 for each in results])
    scores = (_standing_out(dense) + np.float32(_WORDS) * _standing_out(words)).astype(np.float32)
    return Asked(texts=unit_rows(texts), cosines=dense, scores=scores)


def _standing_out(scores: Floats) -> Floats:
    """Return the z-score of each flow among all flows for the same request."""
    spread = scores.std(axis=1, keepdims=True)
    return ((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _scatter(values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Return the median and the robust standard deviation (1.4826 times the median absolute deviation)."""
    middle = float(np.median(values))
    return middle, max(1.4826 * float(np.median(np.abs(values - middle))), 1e-6)


def nearness(field: Field, asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield the findings by embedding."""
    twins = list(_twins(asked))
    paired: set[int] = set()  # a twin is reported as that, and not again as a flow that is never first
    for one, other in twins:
        paired |= {one, other}
        yield _of_twins(asked, one, other, places)
    yield from _find_unreachable(asked, paired, places)
    yield from _find_misplaced(asked, {frozenset(pair) for pair in twins}, places)
    yield from _broad(asked, places)
    yield from _find_contradicting(field, asked, places)


def _find_misplaced(asked: Neighbours, twins: set[frozenset[int]], places: Places) -> Iterator[Finding]:
    for example, best, place in asked.astray(asked, asked.whose[:, None].tolist(), _ASTRAY_EXAMPLE):
        spot, other = asked.spot(example), asked.flows[best].name
        if frozenset((int(asked.whose[example]), best)) in twins or len(words_of(spot.text)) < _FEWEST_WORDS:
            continue
        what = f"{spot.quoted} is an example of {spot.flow.name}, which comes in place {place} for it without the"
        what += f" example; {other} is first."
        remedy = f"Move it to {other}, or have it say what makes it one of {spot.flow.name}."
        evidence = asked.evidence(example, best)
        yield places.finding("misplaced-example", spot, what, remedy, evidence, flows=(spot.flow.name, other))


def _find_contradicting(field: Field, asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield descriptions of flows with examples that say more than the name, and lie with another flow."""
    described = field.ask_descriptions()
    for own, best, _ in asked.astray(described, [[own] for own in range(len(asked.flows))], _ASTRAY_DESCRIPTION):
        flow, other = asked.flows[own], asked.flows[best].name
        if flow.examples and set(words_of(flow.description)) - set(words_of(spoken_name(flow.name))):
            spot = Spot(flow, "description")
            what = f"The description of {flow.name}, {spot.quoted}, says nothing of what its examples ask"
            what += f"; it lies with those of {other}."
            remedy = "Describe what the examples ask for, or give the flow examples of what it does."
            evidence = spot.evidence(other=other)
            yield places.finding("contradicting-text", spot, what, remedy, evidence, flows=(flow.name, other))


def against_recall(
    field: Field, asked: Neighbours, requests: Sequence[str], labels: Sequence[Sequence[str]]
) -> Iterator[tuple[int, str]]:
    """Yield the positions of requests that lie with another flow than their labels, each with that flow.

    Each request has at least one label, and all are in the catalogue.
    """
    if not requests:
        return
    places = {flow.name: place for place, flow in enumerate(asked.flows)}
    owns = [[places[name] for name in names] for names in labels]
    for at, best, _ in asked.astray(field.ask(requests), owns, _ASTRAY_CASE):
        yield at, asked.flows[best].name


def _broad(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Yield examples that fit any flow. A flow with several of them is meant for such requests, and is left out."""
    for example, first in enumerate(asked.first.tolist()):
        spot = asked.spot(example)
        if not is_broad(spot.text) or _is_held(asked, example, first) or _is_for_any(spot.flow):
            continue
        what = f"{spot.quoted} is an example of {spot.flow.name} and would do for any flow"
        what += ": with it, requests that say nothing lead there."
        remedy = "Take it out: what could mean anything is better asked about."
        yield places.finding("broad-example", spot, what, remedy, asked.evidence(example, first))


def _is_for_any(flow: BaseFlow) -> bool:
    """Whether several examples of a flow fit any flow, or greet or thank beside what they ask."""
    count = 0
    for text in flow.examples:
        if is_broad(text) or any(map(is_courtesy, words_of(text))):
            count += 1
    return count > 1


def _is_held(asked: Neighbours, example: int, first: int) -> bool:
    """Whether an example's own flow is first, and the example is as near to it as the flow's other examples."""
    own = int(asked.whose[example])
    if first != own:
        return False
    others = [each for each in np.flatnonzero(asked.whose == own) if each != example]
    least = min((float(asked.cosines[each, own]) for each in others), default=1.0)
    return float(asked.cosines[example, own]) >= least


def _at_least(count: int, usual: float) -> float:
    """Return the probability of at least `count` events, where `usual` are expected (Poisson)."""
    less = sum(exp(each * log(usual) - usual - lgamma(each + 1)) for each in range(count))
    return max(0.0, 1.0 - less)


def _find_unreachable(asked: Neighbours, paired: set[int], places: Places) -> Iterator[Finding]:
    """Yield flows that are first for none of their examples, or mostly for those of others, beyond chance."""
    first, count = asked.first, len(asked.flows)
    own = first == asked.whose
    usual, beyond = max(float((~own).sum()) / count, 1e-6), asked.beyond
    for number, flow in enumerate(asked.flows):
        mine = np.flatnonzero(asked.whose == number)
        won = np.flatnonzero(~own & (first == number))
        robbed, held = len({int(asked.whose[each]) for each in won}), int(own[mine].sum())
        is_lost = len(mine) > 1 and not held and float(beyond[mine].mean()) * sqrt(len(mine)) > _LOST
        takes = held <= _HELD * own.mean() * len(mine) and count * _at_least(len(won), usual) <= _BY_CHANCE
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
    # Multiplying by this matrix sums over the examples of each flow.
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
    # By how much each example of the two lies nearer to its own flow.
    leads: dict[int, float] = {}
    for own, rival in ((one, other), (other, one)):
        for example in np.flatnonzero(asked.whose == own).tolist():
            leads[example] = float(asked.scores[example, own] - asked.scores[example, rival])
    colliding = sorted(leads, key=leads.__getitem__)[:4]
    wrong = sum(lead < 0 for lead in leads.values())
    what = f"{mine.name} and {theirs.name} are hard to tell apart: {wrong} of their {len(leads)} examples are nearer"
    what += " to the other one."
    evidence: list[Evidence] = []
    for example in colliding:
        rival = other if int(asked.whose[example]) == one else one
        evidence.append(asked.evidence(example, rival))
    names = (mine.name, theirs.name)
    return places.finding("near-twins", Spot(theirs), what, _remedy_apart(mine, theirs), *evidence, flows=names)


def _remedy_apart(one: BaseFlow, other: BaseFlow) -> str:
    """Return the remedy for two flows that are too similar, with the words that only one of them has."""
    mine = content(f"{one.description} {one.condition}")
    theirs = content(f"{other.description} {other.condition}")
    if mine <= theirs or theirs <= mine:
        return "Say in both conditions what decides, and have the examples show it; or make the two one flow."
    words = f"Only {one.name} says {_longest(mine - theirs)}; only {other.name} says {_longest(theirs - mine)}"
    return indexable(f"{words}: have their examples show it, or make the two one flow.")


def _longest(words: set[str]) -> str:
    """Return the three longest words."""
    return ", ".join(sorted(words, key=lambda word: (-len(word), word))[:3])
