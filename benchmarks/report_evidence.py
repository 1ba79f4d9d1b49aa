"""Tables of what a log of decisions is worth."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent


def evidence_table(found: Sequence[rows.Row]) -> str:
    """What is right first and what is decided alone, by how much was learned from; averaged over seeds."""
    header = (
        "data set",
        "flows",
        "embedder",
        "model right",
        "log",
        "R@1",
        "decided alone",
        "of these wrong, mean and each seed",
        "other than the model, asked again, says",
        "the best threshold",
        "model asked so far",
    )
    body: list[tuple[str, ...]] = []
    fields = ("dataset", "flows", "embedder", "teacher", "after")
    for (dataset, flows, embedder, teacher, after), runs in by(_of(found, "learned"), *fields):
        ordered = sorted(runs, key=lambda row: row["seed"])
        each = " ".join(percent(row["numbers"]["wrong"]) for row in ordered)
        body.append(
            (
                dataset,
                flows,
                embedder,
                f"{float(teacher):.0%}",
                f"{int(after):,}",
                percent(mean_of(runs, "numbers", "R@1")),
                percent(mean_of(runs, "numbers", "alone")),
                f"{percent(mean_of(runs, 'numbers', 'wrong'))} ({each})",
                *(percent(mean_of(runs, "numbers", name)) for name in ("differs", "best", "asked")),
            )
        )
    return markdown(header, body, words=(0, 2))


def poisoned_table(found: Sequence[rows.Row]) -> str:
    """Where probes for one flow lead after lies in concert, by how far a client's word is trusted; all seeds."""
    header = ("data set", "flows", "embedder", "trust of a lie", "lies", "probes", "led to the lie", "alone", "right")
    body = [
        (
            dataset,
            flows,
            embedder,
            "no lies" if trust == "0" else f"{int(trust) / 100:.2f}",
            *(f"{sum(row['numbers'][name] for row in runs):.0f}" for name in _COUNTED),
            percent(mean_of(runs, "numbers", "right")),
        )
        for (dataset, flows, embedder, trust), runs in by(
            _of(found, "poisoned"), "dataset", "flows", "embedder", "after"
        )
    ]
    return markdown(header, body, words=(0, 2, 3))


_COUNTED = ("lies", "probes", "moved", "moved alone")


def drifted_table(found: Sequence[rows.Row]) -> str:
    """Wrong answers given alone after a flow began to mean another one; averaged over seeds."""
    header = ("data set", "flows", "embedder", "requests since", "wrong alone so far, mean and each seed")
    body: list[tuple[str, ...]] = []
    for (dataset, flows, embedder, after), runs in by(_of(found, "drifted"), "dataset", "flows", "embedder", "after"):
        wrong = [row["numbers"]["wrong alone, in all"] for row in sorted(runs, key=lambda row: row["seed"])]
        each = " ".join(f"{count:.0f}" for count in wrong)
        body.append((dataset, flows, embedder, f"{int(after):,}", f"{mean(wrong):.1f} ({each})"))
    return markdown(header, body, words=(0, 2))


def _of(found: Sequence[rows.Row], question: str) -> list[rows.Row]:
    return [row for row in found if row["question"] == question]
