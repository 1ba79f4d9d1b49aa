"""What only meaning shows: near-twins, examples that lie with another flow, flows that are first for nobody.

Every example is asked as a request while its flow does without it, as a sync does that fits recall (`memory.fit`).
What counts as near is never a cosine as such, since embedders and catalogues differ in what is usual: each score is
taken by how far it stands out among all flows for the same request, and each margin by how far it stands out among the
margins of this very catalogue, in units of its own scatter (median absolute deviation, scaled to a normal one). Where
examples of one flow have little in common, that scatter is wide, and only the clearest cases are told. New
requests are placed by the same measures: which flow is nearest to each, and which of them say something new.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, lgamma, log, sqrt
from typing import Self

import numpy as np
import numpy.typing as npt

from jazz_select.evaluation.checks.findings import Evidence, Finding, Places
from jazz_select.evaluation.checks.wording import EMPTY_WORDS, Sames, is_broad, related, request_key, words_of
from jazz_select.evaluation.corrections import to_the_nearest
from jazz_select.flow.base import BaseFlow
from jazz_select.memory.embedders.static import unit_rows
from jazz_select.memory.encoder import Encoder, indexable, spoken_name
from jazz_select.memory.fit.leave_one_out import LeaveOneOut
from jazz_select.ports import Vectors
from jazz_select.text import beginning

MOST_ASKED = 5_000
"""Examples that are asked; of a larger catalogue, the first ones of every flow."""
_WORDS = 0.3
"""What the words count beside the meaning, both in units of how they scatter among flows."""
_FEWEST_FLOWS, _FEWEST_ASKED = 6, 20
"""Below these nothing is usual in a catalogue."""
_BY_SCATTER, _BY_PLACE, _ASTRAY = 0.2, 0.5, 1.95
"""What a misplaced example's margin counts, in scatters beyond the median one, and the share of flows before its own,
beside how much nearer it lies to the other flow; and the sum from which on it is told. Of 96 examples that were moved
to other flows of public intents, with ten examples each, 56 reach it, and 3 of 13,620 that were not."""
_FAR, _NEARER_CASE = 3.0, 0.25
"""Scatters by which a labelled request lies with another flow, and how much nearer a text of that flow is."""
_FEWEST_WORDS = 4
"""Of an example that says enough to tell where it belongs."""
_BEHIND, _LEAST_BEHIND = 0.06, 3
"""The share of flows that have to come before its own, and how many at least: a neighbour before it is no mistake."""
_TWIN, _MOST_TWIN, _WRONG_SIDE = 3.0, 0.15, 0.25
"""Scatters by which two flows are told apart worse than others from their nearest, the most that this may be, and the
share of the examples of each that lie on the wrong side."""
_ALIKE = 4.0
"""Scatters by which two flows say more alike than others and their nearest."""
_ALIKE_TOLD = 1.0
_BY_CHANCE = 0.05
"""How many flows of a whole catalogue may be first for so many examples of others by chance."""
_LOST = 2.7
"""Scatters by which the examples of a flow that is first for none lie with others, all together (Stouffer's sum)."""
_FEWEST_ROBBED, _HELD = 4, 0.5
"""Flows that a greedy one takes examples from, and the most of its own that it holds."""
_SPEAKS, _AGAINST = 0.8, 1.2
"""Standard deviations by which a text about a flow stands out for that flow at least, and by which another one may."""
_SHORT_WORD, _MOST_SAID = 3, 2_000
_SHOWN = 80
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Every example asked of every flow."""

    flows: Sequence[BaseFlow]
    whose: npt.NDArray[np.int_]
    """The flow of each example, by place."""
    numbers: Sequence[int]
    """Its number there."""
    cosines: Floats
    """Of each example with each flow, with its own as if it did not have it; shape (examples, flows)."""
    scores: Floats
    """How far each flow stands out for each example, meaning and words together; same shape."""
    texts: Vectors
    """A unit vector for each example."""
    prototypes: Vectors
    described: Floats
    """How far each flow stands out, by its examples alone, for what each says of itself; shape (flows, flows)."""
    related: npt.NDArray[np.bool_]
    """Which flows are parts of which; shape (flows, flows)."""

    def of(self, example: int) -> tuple[BaseFlow, str]:
        """The flow of an example, and its text."""
        flow = self.flows[int(self.whose[example])]
        return flow, flow.examples[self.numbers[example]]

    def evidence(self, example: int, other: int) -> Evidence:
        """What this example says of another flow."""
        own = int(self.whose[example])
        flow, text = self.of(example)
        return Evidence(
            text=text,
            flow=flow.name,
            other=self.flows[other].name,
            cosine=round(float(self.cosines[example, other]), 4),
            own_cosine=round(float(self.cosines[example, own]), 4),
        )


def ask(flows: Sequence[BaseFlow], encoder: Encoder) -> Neighbours | None:
    """Ask the examples; None where there are too few to tell what is usual."""
    judged = [flow for flow in flows if flow.examples]
    if len(judged) < _FEWEST_FLOWS or sum(len(flow.examples) > 1 for flow in judged) < _FEWEST_FLOWS:
        return None
    examples, catalogue = _embedded(judged, encoder)
    heard = list(catalogue.ask_examples([None] * 5, MOST_ASKED))
    if len(heard) < _FEWEST_ASKED:
        return None
    dense = np.stack([each.dense for each in heard])
    words = np.stack([each.bm25 for each in heard])
    links = np.zeros((len(judged), len(judged)), dtype=bool)
    whole = [number for number, flow in enumerate(judged) if flow.composite]
    for number in whole:
        for other, flow in enumerate(judged):
            links[number, other] = links[other, number] = links[number, other] or related(judged[number], flow)
    seen: dict[int, int] = {}
    numbers: list[int] = []
    for each in heard:
        numbers.append(seen.get(each.flow, 0))
        seen[each.flow] = numbers[-1] + 1
    return Neighbours(
        flows=judged,
        whose=np.array([each.flow for each in heard]),
        numbers=numbers,
        cosines=dense,
        scores=together(standing_out(dense), standing_out(words)),
        texts=unit_rows(
            np.stack([examples[judged[each.flow].name][at] for each, at in zip(heard, numbers, strict=True)])
        ),
        prototypes=catalogue.prototypes,
        described=_described(judged, examples, encoder),
        related=links,
    )


def _embedded(flows: Sequence[BaseFlow], encoder: Encoder) -> tuple[dict[str, Vectors], LeaveOneOut]:
    """The examples of each flow by its name, and all flows as they are asked without one of them."""
    cards = [flow.card() for flow in flows]
    rows = encoder.rows(cards)
    own = {card.id: encoder.of_stage(0, rows[card.id]) for card in cards}
    examples = {card.name: own[card.id][len(own[card.id]) - len(card.examples) :] for card in cards}
    return examples, LeaveOneOut(cards, own, encoder.lexical)


def _described(flows: Sequence[BaseFlow], examples: Mapping[str, Vectors], encoder: Encoder) -> Floats:
    means = unit_rows(np.stack([examples[flow.name].mean(axis=0) for flow in flows]))
    said = [indexable(flow.description or flow.condition or flow.name) for flow in flows]
    rows = encoder.of_stage(0, encoder.embed([text[:_MOST_SAID] for text in said]))
    return standing_out(rows @ means.T)


def nearness(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """What lies where it should not."""
    twins = list(_twins(asked))
    for one, other in twins:
        yield _of_twins(asked, one, other, places)
    paired = {flow for pair in twins for flow in pair}
    yield from _unreachable(asked, paired, places)
    yield from _misplaced(asked, {frozenset(pair) for pair in twins}, places)
    yield from _broad(asked, places)
    yield from _contradicting(asked, places)


def together(meaning: Floats, words: Floats) -> Floats:
    """Both arms in one, each as `standing_out` gives it."""
    return (meaning + np.float32(_WORDS) * words).astype(np.float32)


def standing_out(scores: Floats) -> Floats:
    """How far each flow stands out among all for the same request, in standard deviations."""
    spread = scores.std(axis=1, keepdims=True)
    return ((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _scatter(values: npt.NDArray[np.floating]) -> tuple[float, float]:
    """Median, and what a standard deviation would be were it normal: 1.4826 median absolute deviations."""
    middle = float(np.median(values))
    return middle, max(1.4826 * float(np.median(np.abs(values - middle))), 1e-6)


def _others(asked: Neighbours) -> Floats:
    """How far each flow stands out for each example; an example's own flow, its parts and its wholes are left out."""
    others = np.where(asked.related[asked.whose], -np.inf, asked.scores)
    others[np.arange(len(asked.whose)), asked.whose] = -np.inf
    return others


def _margins(asked: Neighbours) -> tuple[Floats, Floats]:
    """By how much another flow stands out more for each example than its own, as it is and in scatters from usual."""
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
        flow, text = asked.of(example)
        if frozenset((int(asked.whose[example]), best)) in twins or len(words_of(text)) < _FEWEST_WORDS:
            continue
        other = asked.flows[best]
        yield Finding(
            code="misplaced-example",
            flows=(flow.name, other.name),
            at=places.of(flow, "examples", asked.numbers[example]),
            what=f"“{beginning(text, _SHOWN)}” is an example of {flow.name}, which comes in place "
            f"{int(behind[example])} for it without the example; {other.name} is first.",
            remedy=f"Move it to {other.name}, or have it say what makes it one of {flow.name}.",
            evidence=(asked.evidence(example, best),),
        )


def _lead(asked: Neighbours, example: int, other: int) -> float:
    """How much nearer another flow is to an example than its own: its nearest text, and the mean of its texts."""
    cosines, own = asked.texts @ asked.texts[example], int(asked.whose[example])
    cosines[example] = -1.0
    theirs, mine = (cosines[asked.whose == flow].max() + asked.cosines[example, flow] for flow in (other, own))
    return float(theirs - mine)


def _first(asked: Neighbours) -> npt.NDArray[np.int_]:
    """The flow that each example leads to without itself, but for parts and wholes of its own."""
    others = np.where(asked.related[asked.whose], -np.inf, asked.scores)
    return others.argmax(axis=1)


def _broad(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """What would do for any flow, unless its flow is for that alone: then it has more of the kind."""
    of_help = {number for number, flow in enumerate(asked.flows) if sum(map(is_broad, flow.examples)) > 1}
    first = _first(asked)
    for example, own in enumerate(map(int, asked.whose)):
        flow, text = asked.of(example)
        if own not in of_help and is_broad(text) and not _held(asked, example, int(first[example])):
            yield Finding(
                code="broad-example",
                flows=(flow.name,),
                at=places.of(flow, "examples", asked.numbers[example]),
                what=f"“{beginning(text, _SHOWN)}” is an example of {flow.name} and would do for any flow: with it, "
                "what says nothing leads there.",
                remedy="Take it out: what could mean anything is better asked about.",
                evidence=(asked.evidence(example, int(first[example])),),
            )


def _held(asked: Neighbours, example: int, first: int) -> bool:
    """Whether its own flow comes first for an example, which lies in it as the others of the flow do."""
    own = int(asked.whose[example])
    others = np.flatnonzero(asked.whose == own)
    least = min((float(asked.cosines[each, own]) for each in others if each != example), default=1.0)
    return first == own and float(asked.cosines[example, own]) >= least


def _at_least(count: int, usual: float) -> float:
    """How probable so many or more are where so many are usual (Poisson)."""
    less = sum(exp(each * log(usual) - usual - lgamma(each + 1)) for each in range(count))
    return max(0.0, 1.0 - less)


def _contradicting(asked: Neighbours, places: Places) -> Iterator[Finding]:
    """Texts about a flow that lie with the examples of another, and share more words with these than with its own."""
    own = asked.described.diagonal()
    for number, flow in enumerate(asked.flows):
        others = np.where(asked.related[number], -np.inf, asked.described[number])
        best = int(others.argmax())
        behind = int((others > own[number]).sum())
        far = own[number] < _SPEAKS and others[best] - own[number] > _AGAINST
        if not far or behind < max(2, _BEHIND * len(asked.flows)) or not flow.description:
            continue
        said, whose = _stems_of(flow.description), (flow, asked.flows[best])
        mine, theirs = (_stems_of(" ".join((spoken_name(each.name), *each.examples, *each.aliases))) for each in whose)
        if said & mine and len(said & mine) >= len(said & theirs):
            continue
        yield Finding(
            code="contradicting-text",
            flows=(flow.name, asked.flows[best].name),
            at=places.of(flow, "description"),
            what=f"The description of {flow.name}, “{beginning(flow.description.strip(), _SHOWN)}”, says nothing of "
            f"what its examples ask; it lies with those of {asked.flows[best].name}.",
            remedy="Describe what the examples ask for, or give the flow examples of what it does.",
            evidence=(Evidence(text=flow.description, flow=flow.name, other=asked.flows[best].name),),
        )


def _stems_of(text: str) -> set[str]:
    return {word[:5] for word in set(words_of(text)) - EMPTY_WORDS if len(word) > _SHORT_WORD}


def _unreachable(asked: Neighbours, paired: set[int], places: Places) -> Iterator[Finding]:
    """First for none, or for others rather, where that is no chance."""
    first, count = _first(asked), len(asked.flows)
    own = first == asked.whose
    usual = max(float((~own).sum()) / count, 1e-6)
    _, beyond = _margins(asked)
    for number, flow in enumerate(asked.flows):
        mine = np.flatnonzero(asked.whose == number)
        won = np.flatnonzero(~own & (first == number))
        robbed = len({int(asked.whose[each]) for each in won})
        held = int(own[mine].sum())
        is_lost = len(mine) > 1 and not held and float(beyond[mine].mean()) * sqrt(len(mine)) > _LOST
        takes = held <= _HELD * len(mine) and count * _at_least(len(won), usual) <= _BY_CHANCE
        if robbed >= _FEWEST_ROBBED and (is_lost or takes):
            yield Finding(
                code="greedy-flow",
                flows=(flow.name,),
                at=places.of(flow, "examples"),
                what=f"{flow.name} comes first for {len(won)} examples of {robbed} other flows, and for {held} of its "
                f"own {len(mine)}.",
                remedy="Take what other flows are for out of its examples and description; say what it alone does.",
                evidence=tuple(asked.evidence(int(each), number) for each in won[:4]),
            )
        elif is_lost and number not in paired:
            best = int(np.bincount(first[mine], minlength=count).argmax())
            yield Finding(
                code="unreachable-flow",
                flows=(flow.name,),
                at=places.of(flow, "examples"),
                what=f"{flow.name} is first for none of its {len(mine)} examples, each asked without itself; "
                f"{asked.flows[best].name} comes before it most often.",
                remedy="Give it examples that only it answers, or make it part of the other flow.",
                evidence=tuple(asked.evidence(int(each), int(first[each])) for each in mine[:3]),
            )


def _twins(asked: Neighbours) -> Iterator[tuple[int, int]]:
    """Pairs that their own examples hardly tell apart, and pairs that say the same in so many words."""
    count = len(asked.flows)
    told, wrong, sizes = _told_apart(asked)
    alike = asked.prototypes @ asked.prototypes.T
    apart = ~(np.eye(count, dtype=bool) | asked.related | (sizes < 2)[:, None] | (sizes < 2)[None, :])  # noqa: PLR2004
    judged = apart.any(axis=1)
    if not judged.any():
        return
    middle, scatter = _scatter(np.where(apart, told, np.inf)[judged].min(axis=1))
    usual, spread = _scatter(np.where(apart, alike, -np.inf)[judged].max(axis=1))
    found = apart & (told < min(middle - _TWIN * scatter, _MOST_TWIN)) & (wrong >= _WRONG_SIDE)
    found |= apart & (alike > usual + _ALIKE * spread) & (told < middle + _ALIKE_TOLD * scatter)
    for one, other in combinations(range(count), 2):
        if found[one, other]:
            yield one, other


def _told_apart(asked: Neighbours) -> tuple[Floats, Floats, Floats]:
    """How far the examples of each two flows tell them apart: the mean lead of their own flow over its scatter.

    Returns:
        That; the lesser of the two shares of examples that lie on the wrong side; how many examples each flow has.
    """
    rows = np.arange(len(asked.whose))
    lead = asked.scores[rows, asked.whose][:, None] - asked.scores
    member = np.zeros((len(asked.flows), len(asked.whose)), dtype=np.float32)
    member[asked.whose, rows] = 1
    sizes = member.sum(axis=1)
    both = np.maximum(sizes[:, None] + sizes[None, :], 1)
    total, squares = member @ lead, member @ lead**2
    mean = (total + total.T) / both
    told = mean / np.sqrt(np.maximum((squares + squares.T) / both - mean**2, 1e-6))
    wrong = (member @ (lead < 0).astype(np.float32)) / np.maximum(sizes, 1)[:, None]
    return told, np.minimum(wrong, wrong.T), sizes


def _of_twins(asked: Neighbours, one: int, other: int, places: Places) -> Finding:
    mine, theirs = asked.flows[one], asked.flows[other]
    leads = {
        int(example): float(asked.scores[example, own] - asked.scores[example, rival])
        for own, rival in ((one, other), (other, one))
        for example in np.flatnonzero(asked.whose == own)
    }
    colliding = sorted(leads, key=lambda each: leads[each])[:4]
    wrong = sum(lead < 0 for lead in leads.values())
    return Finding(
        code="near-twins",
        flows=(mine.name, theirs.name),
        at=places.of(theirs),
        what=f"{mine.name} and {theirs.name} can hardly be told apart: {wrong} of their {len(leads)} examples lie "
        "nearer to the other one.",
        remedy=_apart(mine, theirs),
        evidence=tuple(
            asked.evidence(example, other if int(asked.whose[example]) == one else one) for example in colliding
        ),
    )


def _apart(one: BaseFlow, other: BaseFlow) -> str:
    """What to do about two flows that lie too near, with the words that only one of them has."""
    mine, theirs = (set(request_key(f"{flow.description} {flow.condition}").split()) for flow in (one, other))
    only = (mine - theirs - EMPTY_WORDS, theirs - mine - EMPTY_WORDS)
    told = [", ".join(sorted(words, key=lambda word: (-len(word), word))[:3]) for words in only]
    if all(told):
        said = f"Only {one.name} says {told[0]}; only {other.name} says {told[1]}"
        return indexable(f"{said}: have their examples show it, or make the two one flow.")
    return indexable("Say in both conditions what decides, and have the examples show it; or make the two one flow.")


_USUAL = 0.95
"""Of all examples, the share whose likeness to the nearest of their flow counts as usual: a new one may be as like as
halfway from there to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A catalogue's flows where they lie, ready to place requests in it."""

    known: Sames
    _flows: Sequence[BaseFlow]
    _encoder: Encoder
    _catalogue: LeaveOneOut
    _examples: dict[str, Vectors]
    _usual: float

    @classmethod
    def of(cls, flows: Sequence[BaseFlow], encoder: Encoder) -> Self | None:
        """Embed the catalogue; None where no flow has an example."""
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
        """Whether it has a flow of this name."""
        return flow in self._examples

    def first(self, texts: Sequence[str]) -> list[str]:
        """The name of the flow that lies nearest to each request, by meaning and words as `check` weighs them."""
        if not texts:
            return []
        return [self._flows[int(place)].name for place in self._scores(texts, self._vectors(texts)).argmax(axis=1)]

    def against(self, texts: Sequence[str], labels: Sequence[Sequence[str]]) -> dict[int, str]:
        """Places of the requests whose label recall contradicts strongly, and the flow that it has first instead.

        That is what lies far with another flow, behind several before its own, and nearer to a text of the other one.

        Args:
            texts: The requests.
            labels: For each, the names of the flows that are said to be right: one at least, all in the catalogue.

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
        """How far each flow stands out for each request; shape (requests, flows)."""
        heard = [self._catalogue.ask(text, vector, 0, None) for text, vector in zip(texts, vectors, strict=True)]
        dense, words = (np.stack([getattr(each, arm) for each in heard]) for arm in ("dense", "bm25"))
        return together(standing_out(dense), standing_out(words))

    def diverse(self, flow: str, texts: Sequence[str], taken: Sequence[str], most: int) -> list[str]:
        """At most so many of these that are unlike the flow's examples, those taken, and each other; newest first."""
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
        """The flows that lie nearest to this one."""
        mine = next(place for place, each in enumerate(self._flows) if each is flow)
        near = np.argsort(-(self._catalogue.prototypes @ self._catalogue.prototypes[mine]), kind="stable")
        return [self._flows[int(place)] for place in near if int(place) != mine][:count]

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        return self._encoder.of_stage(0, self._encoder.embed([indexable(text) for text in texts]))
