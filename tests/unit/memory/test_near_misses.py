"""Requests of this domain that no flow serves, and small catalogues: how true the probabilities are there."""

import random
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import sureness
from jazz_select import ProceduralMemory
from jazz_select.build import load_registry
from jazz_select.memory.fit.sureness import fit_logistic
from jazz_select.values import FlowCard
from tests.tables import read_table
from tests.vectors import EMBEDDER

ROOT = Path(__file__).parents[3]
CARDS = {flow.name: flow.card() for flow in load_registry(ROOT / "flows").values()}
ASKED: list[tuple[str, str]] = [
    (each["request"], each["expect"][0])
    for each in read_table(ROOT / "examples" / "eval.yaml")
    if len(each["expect"]) == 1
]
"""Requests that another author wrote, and the flow for each."""


def drawn(count: int, seed: int) -> list[FlowCard]:
    """So many flows of the repository's own."""
    return [CARDS[name] for name in random.Random(seed).sample(sorted(CARDS), count)]


async def told(cards: Sequence[FlowCard], cases: Sequence[tuple[str, str]] = ()) -> list[dict[str, float | str]]:
    """What each signal says of every request to this catalogue, and the first flow."""
    rows: list[dict[str, float | str]] = []
    with TemporaryDirectory() as folder:  # the engine on disk reads twice as fast as the one in memory
        async with await ProceduralMemory.open(folder, embedder=EMBEDDER) as memory:
            await memory.sync("a", cards, cases=[(text, CARDS[flow].id) for text, flow in cases])
            for found in await memory.recall_many([text for text, _ in ASKED], "a", top_k=10):
                scores = [*(each["score"] for each in found), 0.0]
                rows.append(
                    {
                        "some": 1 - (found.p_none or 0.0),
                        "cosine": max(each["scores"].get("dense", 0.0) for each in found),
                        "lead": scores[0] - scores[1],
                        "confidence": found[0]["confidence"],
                        "first": found[0]["flow_name"],
                    }
                )
    return rows


@pytest.mark.spec("006.5")
async def test_near_misses_are_told_apart_better_than_by_any_one_signal() -> None:
    signals = ("some", "cosine", "lead", "confidence")
    found = dict.fromkeys(signals, 0.0)
    for seed in (1, 2, 3):
        cards = drawn(2 * len(CARDS) // 3, seed)
        names = {card.name for card in cards}
        rows = await told(cards)
        for signal in signals:
            inside, outside = (
                [float(row[signal]) for row, (_, flow) in zip(rows, ASKED, strict=True) if (flow in names) is within]
                for within in (True, False)
            )
            found[signal] += sureness.auroc(inside, outside) / 3
    assert found["some"] == max(found.values())
    assert found["some"] > 0.75


@pytest.mark.spec("006.6")
async def test_confidence_is_true_of_small_catalogues() -> None:
    chances: list[float] = []
    right: list[bool] = []
    for seed in range(4):
        cards = drawn(8, seed)
        names = {card.name for card in cards}
        for row, (_, flow) in zip(await told(cards), ASKED, strict=True):
            if flow in names:
                chances.append(float(row["confidence"]))
                right.append(row["first"] == flow)
    assert sureness.ece(chances, right, bins=8) <= 0.08


@pytest.mark.spec("006.6")
async def test_labelled_requests_move_confidence_towards_what_is_true() -> None:
    cards, shuffled = list(CARDS.values()), random.Random(1).sample(ASKED, len(ASKED))
    cases = shuffled[:32]

    async def gap(given: Sequence[tuple[str, str]]) -> float:
        rest = [
            (row, flow)
            for row, (text, flow) in zip(await told(cards, given), ASKED, strict=True)
            if (text, flow) not in cases
        ]
        claimed = sum(float(row["confidence"]) for row, _ in rest)
        return abs(claimed - sum(row["first"] == flow for row, flow in rest)) / len(rest)

    assert await gap(cases) < await gap(())


@pytest.mark.spec("006.6")
async def test_labelled_requests_that_recall_gets_wrong_lower_confidence() -> None:
    cards = drawn(10, 5)
    other = {card.name: cards[number - 1].name for number, card in enumerate(cards)}
    wrong = [(text, other[flow]) for text, flow in ASKED if flow in other][:16]
    before, after = [sum(float(row["confidence"]) for row in await told(cards, given)) for given in ((), wrong)]
    assert after < before


NUMBERS = st.floats(-1e3, 1e3, allow_subnormal=False)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=2, max_size=30),
    st.tuples(st.floats(0, 5), st.floats(0, 5)),
)
def test_what_is_learned_is_finite_and_never_falls(
    rows: list[tuple[float, float, bool]], prior: tuple[float, float]
) -> None:
    features = np.array([row[:2] for row in rows])
    labels = np.array([float(row[2]) for row in rows])
    learned = fit_logistic(features, labels, counts=np.ones(len(rows)), prior=prior)
    assert all(0 <= weight < np.inf for weight in learned.weights)
    assert np.isfinite(learned.bias)
    if 0 < labels.sum() < len(rows):
        claimed = sum(learned(row[:2]) for row in rows)
        assert claimed == pytest.approx(labels.sum(), abs=0.01 * len(rows)), "the bias is free"
