"""Intent catalogues: CLINC150, BANKING77 and NLU++. A flow is an intent, its examples are training requests."""

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from benchmarks.datasets.base import Dataset, Entry, Files, Request, shuffled


def clinc150(data: Path, *, examples: int, seed: int) -> Dataset:
    """150 intents of ten domains; `outside` holds the published out-of-scope test requests."""
    files = Files(data, "clinc150")
    splits: dict[str, list[tuple[str, str]]] = files.json("data_full.json")
    return Dataset(
        name=f"clinc150-{examples}",
        flows=_label_catalogue(splits["train"], examples, seed),
        requests=tuple(Request(text=text, gold=frozenset({humanised(label)})) for text, label in splits["test"]),
        outside=tuple(text for text, _ in splits["oos_test"]),
        seed=seed,
        sha256=files.sha256,
    )


def clinc150_pieces(data: Path, *, flows: int, examples: int, seed: int) -> Dataset:
    """CLINC150 cut into many small flows, to measure time at sizes that no published catalogue has.

    Each intent's training requests are dealt out to flows of `examples` each, so that any flow
    of an intent answers its requests. For times only: near-identical flows make no fair quality.
    """
    files = Files(data, "clinc150")
    splits: dict[str, list[tuple[str, str]]] = files.json("data_full.json")
    shots = _draw(splits["train"], len(splits["train"]), seed)
    pieces: dict[str, list[Entry]] = {
        label: [
            Entry(
                name=f"{humanised(label)} {number}",
                description=humanised(label),
                examples=texts[number * examples : (number + 1) * examples],
            )
            for number in range(len(texts) // examples)
        ]
        for label, texts in shots.items()
    }
    taken = shuffled([entry for entries in pieces.values() for entry in entries], seed)[:flows]
    names = {entry.name for entry in taken}
    gold = {label: frozenset(each.name for each in entries if each.name in names) for label, entries in pieces.items()}
    return Dataset(
        name=f"clinc150-{flows}-flows",
        flows=taken,
        requests=tuple(Request(text=text, gold=gold[label]) for text, label in splits["test"] if gold[label]),
        seed=seed,
        sha256=files.sha256,
    )


def uneven(dataset: Dataset) -> Dataset:
    """The same flows, each with the first one to ten of its examples: as many as chance says, by seed and flow."""

    def cut(flow: Entry) -> Entry:
        count = random.Random(f"{dataset.seed} {flow.name}").randint(1, len(flow.examples))
        return replace(flow, examples=flow.examples[:count])

    name = dataset.name.removesuffix("-10") + "-1-to-10"
    return replace(dataset, name=name, flows=tuple(map(cut, dataset.flows)))


def banking77(data: Path, *, examples: int, seed: int) -> Dataset:
    """77 near-by intents of one bank; some published labels are disputed and are used as they are."""
    files = Files(data, "banking77")
    train = [(row["text"], row["category"]) for row in files.csv("train.csv")]
    test = [(row["text"], row["category"]) for row in files.csv("test.csv")]
    return Dataset(
        name=f"banking77-{examples}",
        flows=_label_catalogue(train, examples, seed),
        requests=tuple(Request(text=text, gold=frozenset({humanised(label)})) for text, label in test),
        seed=seed,
        sha256=files.sha256,
    )


def nlupp(data: Path, *, domain: Literal["banking", "hotels"], examples: int, seed: int) -> Dataset:
    """Intents with published descriptions, several of them in one request.

    Examples come from the fold that the seed names, requests from all other folds: the
    low-data setting of the data's authors. An intent that the fold does not show has no
    example. A request without an intent is `outside`.
    """
    files = Files(data, "nlupp")
    ontology = files.json("ontology.json")["intents"]
    described = {
        label: about["description"]
        for label, about in ontology.items()
        if {"general", domain}.intersection(about["domain"])
    }
    folds = [
        [(row["text"], row.get("intents", [])) for row in files.json(name)]
        for name in files.names(f"{domain}/fold*.json")
    ]
    train = folds.pop(seed % len(folds))
    shots = _draw(((text, label) for text, labels in train for label in labels), examples, seed)
    said = [(text, frozenset(humanised(label) for label in labels)) for fold in folds for text, labels in fold]
    return Dataset(
        name=f"nlupp-{domain}-{examples}",
        flows=shuffled(
            (
                Entry(name=humanised(label), description=text, examples=shots.get(label, ()))
                for label, text in described.items()
            ),
            seed,
        ),
        requests=tuple(Request(text=text, gold=gold) for text, gold in said if gold),
        outside=tuple(text for text, gold in said if not gold),
        seed=seed,
        sha256=files.sha256,
    )


def humanised(label: str) -> str:
    """The label's words: "Refund_not_showing_up" becomes "refund not showing up"."""
    return label.replace("_", " ").strip().lower()


def _label_catalogue(train: Iterable[tuple[str, str]], examples: int, seed: int) -> tuple[Entry, ...]:
    """One entry per label of the train split; the label's words are all that describes it."""
    shots = _draw(train, examples, seed)
    return shuffled(
        (Entry(name=humanised(label), description=humanised(label), examples=drawn) for label, drawn in shots.items()),
        seed,
    )


def _draw(train: Iterable[tuple[str, str]], examples: int, seed: int) -> dict[str, tuple[str, ...]]:
    """At most `examples` different requests per label, drawn with the seed."""
    by_label: dict[str, dict[str, None]] = defaultdict(dict)
    for text, label in train:
        by_label[label].setdefault(text.strip())
    rng = random.Random(seed)
    return {
        label: tuple(rng.sample(list(texts), min(examples, len(texts)))) for label, texts in sorted(by_label.items())
    }
