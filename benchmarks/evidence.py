"""What a log of decisions is worth: `python -m benchmarks.evidence --data DIR`.

A catalogue with five examples a flow is asked the training requests that no flow has as an example, one after the
other. A simulated model chooses, and errs where recall's margin is small; what recall is sure enough of is decided
without it, but for the audit, which is the package's own. The log is learned from again and again, and after so many
requests the test requests, which nobody learned from, are asked: how many would be decided alone, and how many of those
wrongly.

`--only poisoned`: clients who lie in concert. `--only drifted`: a flow whose requests mean another one from the
thousandth on; `--only by-chance`: the same with an audit that takes its share by chance alone.
"""

import asyncio
import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console

from benchmarks import rows
from benchmarks.budget import best_share
from benchmarks.datasets import catalogue
from benchmarks.datasets.base import Dataset
from benchmarks.index import AGENT, RememberingEmbedder, indexed
from benchmarks.learning import training
from benchmarks.metrics import mean
from benchmarks.options import (
    DataFolder,
    Embedders,
    Seeds,
    Unclean,
    data_folder,
    embedder_label,
    opened_book,
    parsed_seeds,
)
from jazz_select.memory.embedders.known_embedders import open_embedder
from jazz_select.memory.encoder import indexable
from jazz_select.memory.fit.evidence import EvidenceModel, Observations, fit_evidence
from jazz_select.outcomes.audit import Audit, chance_share, is_overdue, measure_promise
from jazz_select.outcomes.entries import RecallAnswer
from jazz_select.outcomes.evidence import ASK_AGAIN
from jazz_select.ports import Embedder
from jazz_select.stages import Move
from jazz_select.values import RecallResult

DATASETS = ("clinc150-5", "banking77-5")
KEY = ("dataset", "flows", "embedder", "seed", "teacher", "question", "after")
FEW = 40
LEARNED_AFTER = (50, 125, 250, 375, 500, 750, 1_000, 1_500, 2_000, 3_000, 4_000)
"""Requests after which the log is learned from; the same for every question, but for what follows a drift."""
TOLD_AFTER = (250, 500, 1_000, 2_000, 4_000)
MAX_ERROR, AUDIT = 0.01, 0.02
TEACHERS = (0.95, 0.9)
MARGIN, MOST_WRONG = 0.2, 0.6
"""A teacher errs e times as often where recall's margin is so much smaller, up to a highest probability."""
SAME_AGAIN = 0.5
"""Asked once more, it says the same with this probability, and else anew."""
LIARS, HINT = 0.05, 0.3
"""The share of clients who lie in concert, and the trust of a client's word by itself."""
DRIFT = 1_000
_TOP_K = 10
_AT_ONCE = 64
_AMONG = (0.6, 0.25, 0.15)
"""A teacher's mistakes, by the place among recall's first that are wrong."""

Vectors = npt.NDArray[np.float32]
Margins = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Requests with their vectors, right flows, and what recall gives them."""

    texts: Sequence[str]
    right: Sequence[str]
    vectors: Vectors
    recalled: Sequence[Mapping[str, float]]

    def part(self, places: Sequence[int]) -> "Asked":
        """Some of them, in this order."""
        return Asked(
            texts=[self.texts[place] for place in places],
            right=[self.right[place] for place in places],
            vectors=self.vectors[list(places)],
            recalled=[self.recalled[place] for place in places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A catalogue's texts, a stream of requests, and requests to judge by."""

    examples: Vectors
    labels: Sequence[str]
    stream: Asked
    test: Asked

    @property
    def flows(self) -> list[str]:
        """The names of the flows."""
        return sorted({*self.labels})


def few(dataset: Dataset, count: int) -> Dataset:
    """The same with so many of its flows, drawn with the seed."""
    kept = {*random.Random(dataset.seed).sample(sorted(flow.name for flow in dataset.flows), count)}
    return replace(
        dataset,
        flows=tuple(flow for flow in dataset.flows if flow.name in kept),
        requests=tuple(each for each in dataset.requests if min(each.gold) in kept),
        outside=(),
    )


def joint(result: RecallResult) -> dict[str, float]:
    """The confidence of what recall found."""
    return {each["flow_name"]: each["confidence"] or 0.0 for each in result}


async def scene(dataset: Dataset, data: Path, embedder: Embedder, most: int) -> Scene:
    """Ask recall about the first `most` requests of the stream, and about the test requests."""
    known = {text for flow in dataset.flows for text in flow.examples}
    names = {flow.name for flow in dataset.flows}
    stream = [
        (text, label)
        for text, label in dict(training(dataset.name, data)).items()
        if text not in known and label in names
    ]
    random.Random(dataset.seed).shuffle(stream)
    test = [(each.text, min(each.gold)) for each in dataset.requests]
    async with indexed(dataset.flows, embedder) as index:

        async def asked(pairs: Sequence[tuple[str, str]]) -> Asked:
            texts, found = [text for text, _ in pairs], list[dict[str, float]]()
            for start in range(0, len(texts), _AT_ONCE):
                results = await index.memory.recall_many(texts[start : start + _AT_ONCE], AGENT, top_k=_TOP_K)
                found += map(joint, results)
            vectors = np.stack([embedder.embed_query(indexable(text)) for text in texts]).astype(np.float32)
            return Asked(texts=texts, right=[label for _, label in pairs], vectors=vectors, recalled=found)

        own = [(text, flow.name) for flow in dataset.flows for text in (flow.name, *flow.examples)]
        return Scene(
            examples=np.asarray(embedder.embed([indexable(text) for text, _ in own]), dtype=np.float32),
            labels=[label for _, label in own],
            stream=await asked(stream[:most]),
            test=await asked(test),
        )


def first_of(chances: Mapping[str, float]) -> tuple[str, float]:
    """The likeliest flow and its probability."""
    return max(chances.items(), key=lambda each: each[1], default=("", 0.0))


@dataclass(slots=True)
class Teacher:
    """A model that is right in so many of these requests, asked once or again."""

    first: list[str]
    again: list[str]

    @classmethod
    def of(cls, asked: Asked, flows: Sequence[str], accuracy: float, seed: int) -> "Teacher":
        """Draw its answers."""
        dice = np.random.default_rng(seed)
        ranked = [sorted(each, key=each.__getitem__, reverse=True) for each in asked.recalled]
        leads: list[float] = []
        for each in asked.recalled:
            best, second = [*sorted(each.values(), reverse=True), 0.0, 0.0][:2]
            leads.append(best - second)
        errs: Margins = np.exp(np.array(leads, dtype=np.float64) / -MARGIN)
        for _ in range(20):  # until the mean is right, whatever is cut at the highest
            errs = np.minimum(errs * (1 - accuracy) / errs.mean(), MOST_WRONG)

        def answers() -> list[str]:
            drawn, mistakes = dice.random(len(errs)), dice.random(len(errs))
            told: list[str] = []
            for right, own, err, draw, mistake in zip(asked.right, ranked, errs, drawn, mistakes, strict=True):
                wrong = [flow for flow in own or flows if flow != right][: len(_AMONG)] or [right]
                shares = [*accumulate(_AMONG[: len(wrong)])]
                told.append(wrong[bisect(shares, mistake * shares[-1])] if draw < err else right)
            return told

        first, other = answers(), answers()
        is_same = dice.random(len(first)) < SAME_AGAIN
        again = [one if same else two for one, two, same in zip(first, other, is_same, strict=True)]
        return cls(first, again)


@dataclass(slots=True)
class Log:
    """What was said of the requests so far."""

    scene: Scene
    labels: list[str] = field(default_factory=list[str])
    trust: list[float] = field(default_factory=list[float])
    led: list[str] = field(default_factory=list[str])
    sure: list[bool] = field(default_factory=list[bool])
    alone: list[bool] = field(default_factory=list[bool])
    model: EvidenceModel | None = None
    limit: float = 1.0
    took_s: float = 0.0
    answers: list[RecallAnswer] = field(default_factory=list[RecallAnswer])
    moves: list[Move] = field(default_factory=list[Move])
    audit: Audit = field(default_factory=Audit)
    silent: Counter[str] = field(default_factory=Counter[str])
    by_chance: bool = False
    """Whether the audit takes its share by chance alone, and suspects no flow."""

    def led_by(self, asked: Asked, place: int) -> tuple[str, float]:
        """Where recall leads a request now, and how surely."""
        recalled = asked.recalled[place]
        return first_of(recalled if self.model is None else self.model.chances(asked.vectors[place], recalled)[0])

    def go_on(self, until: int, teacher: Teacher, accuracy: float, dice: random.Random) -> None:
        """Answer the requests up to this one."""
        stream = self.scene.stream
        for place in range(len(self.labels), until):
            led, sure = self.led_by(stream, place)
            draw = dice.random()
            is_audited = draw < AUDIT if self.by_chance else self._is_audited(led, draw)
            is_audited = is_audited or sure < self.audit.threshold(led)
            is_sure = self.model is not None and sure >= self.limit
            label, trust = teacher.first[place], accuracy
            if label != led and sure >= ASK_AGAIN:
                label, trust = teacher.again[place], (1 + accuracy) / 2
            alone = is_sure and not is_audited
            self.labels.append(label)
            self.trust.append(0.0 if alone else trust)
            self.led.append(led)
            self.sure.append(is_sure)
            self.alone.append(alone)
            if self.model is not None and (is_sure or sure >= ASK_AGAIN):
                self._keep_answer(led, sure, is_sure=is_sure, differs=None if alone else label != led)

    def _is_audited(self, flow: str, draw: float) -> bool:
        """Whether a sure answer with this flow is asked all the same."""
        is_due = is_overdue(self.silent[flow], AUDIT)
        return is_due or flow in self.audit.suspected or draw < chance_share(AUDIT)

    def _keep_answer(self, led: str, confidence: float, *, is_sure: bool, differs: bool | None) -> None:
        """Keep what became of recall's answer, and measure the promise where a selector does."""
        answer = RecallAnswer(
            n=len(self.labels),
            flow=led,
            confidence=confidence,
            sure=is_sure,
            asked=differs is not None,
            differs=differs,
        )
        self.answers.append(answer)
        self.silent[led] = self.silent[led] + 1 if differs is None else 0
        if differs is None or not (is_sure or differs):
            return
        self.audit, due = measure_promise(self.answers, self.moves, lambda _: MAX_ERROR)
        self.moves += [replace(move, after=len(self.labels)) for move in due]

    def learn(self) -> None:
        """Fit what was said."""
        count, stream = len(self.labels), self.scene.stream
        seen = Observations(
            vectors=stream.vectors[:count],
            labels=self.labels,
            trust=np.array(self.trust),
            by_person=[False] * count,
            recall_first=self.led,
        )
        began = process_time()
        self.model = fit_evidence(self.scene.examples, self.scene.labels, seen, recalled=stream.recalled[:count])
        self.took_s = process_time() - began
        self.limit = 1.0 if self.model is None else self.model.thresholds.threshold(MAX_ERROR)
        fitted = Move(
            at=0.0, kind="fitted", threshold=self.limit, promise=MAX_ERROR, requests=count, why="a sync", after=count
        )
        self.moves.append(fitted)

    def judged(self, teacher: Teacher) -> dict[str, float]:
        """What recall does with the test requests."""
        test = self.scene.test
        led = [self.led_by(test, place) for place in range(len(test.texts))]
        right = [flow == own for (flow, _), own in zip(led, test.right, strict=True)]
        sure = [each for _, each in led]
        alone = [
            place
            for place, (flow, each) in enumerate(led)
            if self.model is not None and each >= max(self.limit, self.audit.threshold(flow))
        ]
        differs = [led[place][0] not in {teacher.first[place], teacher.again[place]} for place in alone]
        return {
            "R@1": mean([float(each) for each in right]),
            "alone": len(alone) / len(led),
            "wrong": mean([float(not right[place]) for place in alone]) if alone else 0.0,
            "differs": mean([float(each) for each in differs]) if alone else 0.0,
            "best": best_share(sure, right, MAX_ERROR),
            "asked": 1 - mean([float(each) for each in self.alone]) if self.alone else 1.0,
            "audited": 1 - sum(self.alone) / sum(self.sure) if any(self.sure) else 0.0,
            "threshold": self.limit,
            "fit s": self.took_s,
        }


Numbers = dict[int, dict[str, float]]


def learned(drawn: Scene, accuracy: float, seed: int, most: int) -> Numbers:
    """Numbers by how many requests were in the log."""
    teacher = Teacher.of(drawn.stream, drawn.flows, accuracy, seed)
    examiner = Teacher.of(drawn.test, drawn.flows, accuracy, seed + 100)
    dice, log = random.Random(seed), Log(drawn)
    found: Numbers = {0: log.judged(examiner)}
    for until in (each for each in LEARNED_AFTER if each <= min(most, len(drawn.stream.texts))):
        log.go_on(until, teacher, accuracy, dice)
        log.learn()
        if until in TOLD_AFTER:
            found[until] = log.judged(examiner)
    return found


def poisoned(drawn: Scene, accuracy: float, seed: int, most: int) -> Numbers:
    """Liars ask for one flow alone, and say that another was right; numbers are of the probes for the first one."""
    dice = random.Random(seed)
    victim, target = dice.sample(drawn.flows, 2)
    mine = [place for place, flow in enumerate(drawn.stream.right) if flow == victim]
    probes = [place for place, flow in enumerate(drawn.test.right) if flow == victim]
    teacher = Teacher.of(drawn.stream, drawn.flows, accuracy, seed)
    found: Numbers = {}
    count = min(most, 2_000, len(drawn.stream.texts))
    for lies, trust in ((0, 0.0), (round(LIARS * count), HINT), (round(LIARS * count), accuracy)):
        order = [*range(count), *dice.choices(mine, k=lies)]
        random.Random(seed).shuffle(order)
        seen_lies = dice.sample([at for at, place in enumerate(order) if place in {*mine}], lies)
        stream = drawn.stream.part(order)
        log = Log(replace(drawn, stream=stream))
        for at, place in enumerate(order):
            is_lie = at in seen_lies
            log.labels.append(target if is_lie else teacher.first[place])
            log.trust.append(trust if is_lie else accuracy)
            log.led.append(first_of(stream.recalled[at])[0])
        log.learn()
        led = [log.led_by(drawn.test, place) for place in probes]
        found[round(100 * trust)] = {
            "lies": float(lies),
            "probes": float(len(led)),
            "moved": float(sum(flow == target for flow, _ in led)),
            "moved alone": float(sum(flow == target and sure >= log.limit for flow, sure in led)),
            "right": mean([float(flow == victim) for flow, _ in led]),
        }
    return found


def drifted(drawn: Scene, accuracy: float, seed: int, most: int, *, by_chance: bool = False) -> Numbers:
    """From the thousandth request on the most frequent flow means another; numbers are by how many came after that."""
    stream = drawn.stream
    count = min(most, 2_000, len(stream.texts))
    changed = max(drawn.flows, key=stream.right[:DRIFT].count)
    other = random.Random(seed).choice([flow for flow in drawn.flows if flow != changed])
    right = [other if flow == changed and at >= DRIFT else flow for at, flow in enumerate(stream.right)]
    drawn = replace(drawn, stream=replace(stream, right=right))
    teacher, dice = Teacher.of(drawn.stream, drawn.flows, accuracy, seed), random.Random(seed)
    log = Log(drawn, by_chance=by_chance)
    found: Numbers = {}
    asked_for = wrong = 0
    for until in sorted({*(each for each in LEARNED_AFTER if each < DRIFT), *range(DRIFT, count + 1, 125)}):
        start = len(log.labels)
        log.go_on(until, teacher, accuracy, dice)
        log.learn()
        block = range(max(start, DRIFT), until)
        own = [at for at in block if stream.right[at] == changed]
        wrong += sum(log.alone[at] and log.led[at] != right[at] for at in own)
        asked_for += len(own)
        if until > DRIFT:
            found[until - DRIFT] = {
                "of it, in all": float(asked_for),
                "wrong alone, in all": float(wrong),
                "raised": float(log.audit.threshold(changed) > 0),
                "audited": 1 - sum(log.alone) / sum(log.sure) if any(log.sure) else 0.0,
            }
    return found


def drifted_by_chance(drawn: Scene, accuracy: float, seed: int, most: int) -> Numbers:
    """The same where answers are audited by chance alone."""
    return drifted(drawn, accuracy, seed, most, by_chance=True)


QUESTIONS: Mapping[str, Callable[[Scene, float, int, int], Numbers]] = {
    "learned": learned,
    "poisoned": poisoned,
    "drifted": drifted,
    "by-chance": drifted_by_chance,
}


def measured(dataset: Dataset, drawn: Scene, embedder: str, questions: Sequence[str], most: int) -> Iterator[rows.Row]:
    """The rows of these questions: one for each teacher and each length of the log."""
    for question in questions:
        for teacher in TEACHERS if question == "learned" else TEACHERS[:1]:
            for after, numbers in QUESTIONS[question](drawn, teacher, dataset.seed, most).items():
                yield {
                    "dataset": dataset.name,
                    "flows": len(dataset.flows),
                    "embedder": embedder,
                    "seed": dataset.seed,
                    "teacher": teacher,
                    "question": question,
                    "after": after,
                    "data": dataset.sha256,
                    "requests": len(drawn.test.texts),
                    "numbers": rows.rounded(numbers),
                }


def main(  # noqa: PLR0913 - options of a command line
    data: DataFolder = None,
    embedder: Embedders = None,
    seeds: Seeds = "1,2,3",
    *,
    only: Annotated[str, typer.Option(help=f"One question alone: {', '.join(QUESTIONS)}.")] = "",
    dataset: Annotated[str, typer.Option(help="One data set alone.")] = "",
    few_alone: Annotated[bool, typer.Option("--few", help=f"Catalogues of {FEW} flows alone.")] = False,
    most: Annotated[int, typer.Option(help="Requests of the longest log.")] = TOLD_AFTER[-1],
    unclean: Unclean = False,
) -> None:
    """Measure, and store the rows: every question by each embedder."""
    if only and only not in QUESTIONS:
        raise typer.BadParameter(f"{only!r} is no question; there are {', '.join(QUESTIONS)}")
    folder, console, book = data_folder(data), Console(), opened_book("evidence", KEY, look=unclean)
    for spec in embedder or ["static", "minilm"]:
        opened = RememberingEmbedder(open_embedder(spec))
        opened.replaying = True
        for whole in catalogue.each([dataset] if dataset else DATASETS, folder, parsed_seeds(seeds)):
            for asked in (few(whole, FEW), *(() if few_alone else (whole,))):
                drawn = asyncio.run(scene(asked, folder, opened, most))
                for row in measured(asked, drawn, embedder_label(spec), [only] if only else [*QUESTIONS], most):
                    book.store(row)
                    console.print({name: row[name] for name in (*KEY, "numbers")})


if __name__ == "__main__":
    typer.run(main)
