"""Tables of what a log of decisions is worth."""

from collections.abc import Mapping, Sequence

from benchmarks import rows
from benchmarks.evidence import MAX_ERROR
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent

BEST_SHARES: Mapping[tuple[str, int, str], Mapping[int, float]] = {
    ("clinc150-5", 40, "static"): {0: 0.36, 500: 0.59, 1_000: 0.86, 2_000: 0.86},
    ("clinc150-5", 40, "minilm"): {0: 0.75, 500: 0.89, 1_000: 0.93, 2_000: 0.96},
    ("banking77-5", 40, "static"): {0: 0.13, 500: 0.38, 1_000: 0.57, 2_000: 0.54},
    ("banking77-5", 40, "minilm"): {0: 0.44, 500: 0.63, 1_000: 0.58, 2_000: 0.77},
    ("clinc150-5", 150, "minilm"): {0: 0.49, 500: 0.51, 1_000: 0.58, 2_000: 0.66},
    ("banking77-5", 77, "minilm"): {0: 0.22, 500: 0.37, 1_000: 0.44, 2_000: 0.46},
}
"""The share that the best threshold decides alone, chosen with all labels known, by data set, flows and embedder and by
decisions in the log. It is no measurement of this code but the aim it was built to: a simulation of one draw, with a
linear head on frozen vectors and a teacher that is right in 95 %, made before there was any of it."""
AIM = 0.8
"""The part of that share that is to be decided alone."""
_AIMED_AT = 0.95
"""How often the teacher of that simulation is right."""


def aims_table(found: Sequence[rows.Row]) -> str:
    """What is decided alone beside the best threshold of a simulation; averaged over seeds."""
    header = (
        "data set",
        "flows",
        "embedder",
        "log",
        "decided alone, mean and each seed",
        "of these wrong, mean and each seed",
        "the best threshold of a simulation",
        "part of it",
        f"{AIM:.0%} of it, at most 1 % wrong",
    )
    body: list[tuple[str, ...]] = []
    fields = ("dataset", "flows", "embedder", "after")
    aimed = [row for row in _of(found, "learned") if row["teacher"] == _AIMED_AT and row["after"]]
    for (dataset, flows, embedder, after), runs in by(aimed, *fields):
        best = BEST_SHARES.get((dataset, int(flows), embedder), {}).get(int(after))
        if best is None:
            continue
        alone, wrong = (mean_of(runs, "numbers", name) for name in ("alone", "wrong"))
        is_met = alone >= AIM * best and wrong <= MAX_ERROR
        body.append(
            (
                dataset,
                flows,
                embedder,
                f"{int(after):,}",
                *(_mean_and_each(runs, name) for name in ("alone", "wrong")),
                f"{best:.0%}",
                f"{alone / best:.0%}",
                "yes" if is_met else "no",
            )
        )
    return markdown(header, body, words=(0, 2))


def _mean_and_each(runs: Sequence[rows.Row], name: str) -> str:
    ordered = sorted(runs, key=lambda row: row["seed"])
    each = " ".join(percent(row["numbers"][name]) for row in ordered)
    return f"{percent(mean_of(runs, 'numbers', name))} ({each})"


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
        body.append(
            (
                dataset,
                flows,
                embedder,
                f"{float(teacher):.0%}",
                f"{int(after):,}",
                percent(mean_of(runs, "numbers", "R@1")),
                percent(mean_of(runs, "numbers", "alone")),
                _mean_and_each(runs, "wrong"),
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
    header = (
        "data set",
        "flows",
        "embedder",
        "audit",
        "requests since",
        "for the flow",
        "of these wrong alone, mean and each seed",
        "of all sure answers asked",
        "threshold raised for the flow",
    )
    body: list[tuple[str, ...]] = []
    fields = ("dataset", "flows", "embedder", "question", "after")
    drifted = [row for row in found if row["question"] in _AUDITS and row["after"] in _DRIFTED_SINCE]
    for (dataset, flows, embedder, question, after), runs in by(drifted, *fields):
        wrong = [row["numbers"]["wrong alone, in all"] for row in sorted(runs, key=lambda row: row["seed"])]
        each = " ".join(f"{count:.0f}" for count in wrong)
        raised = sum(row["numbers"]["raised"] for row in runs)
        body.append(
            (
                dataset,
                flows,
                embedder,
                _AUDITS[question],
                f"{int(after):,}",
                f"{mean_of(runs, 'numbers', 'of it, in all'):.1f}",
                f"{mean(wrong):.1f} ({each})",
                percent(mean_of(runs, "numbers", "audited")),
                f"{raised:.0f} of {len(runs)}",
            )
        )
    return markdown(header, body, words=(0, 2, 3))


_AUDITS: Mapping[str, str] = {"by-chance": "by chance alone", "drifted": "by flow, with suspicion"}
_DRIFTED_SINCE = (125, 250, 500, 1_000)


def _of(found: Sequence[rows.Row], question: str) -> list[rows.Row]:
    return [row for row in found if row["question"] == question]
