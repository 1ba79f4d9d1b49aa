"""Tables of the error budget, and of the cascade with simulated models."""

from collections.abc import Sequence
from statistics import fmean

from benchmarks import rows
from benchmarks.tables import by, markdown, mean_of, percent


def budget_table(found: Sequence[rows.Row]) -> str:
    """What recall decides within .01, each seed by itself: share and errors, beside the best threshold."""
    header = (
        "data set",
        "embedder",
        "answered, each seed",
        "of these wrong, each seed",
        "the best threshold, each seed",
        'where "none" is an answer: answered',
        "of these wrong, with requests from outside",
    )
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), runs in by(_of(found, "budget"), "dataset", "embedder"):
        ordered = sorted(runs, key=lambda row: row["seed"])
        each = [" ".join(percent(row["numbers"][f"{what} 0.01"]) for row in ordered) for what in _COLUMNS]
        scoped = "scoped share" in ordered[0]["numbers"]
        more = [percent(mean_of(runs, "numbers", f"scoped {what}")) if scoped else "" for what in ("share", "error")]
        body.append((dataset, embedder, *each, *more))
    return markdown(header, body, words=(0, 1))


_COLUMNS = ("share", "error", "best")


def budgets_table(found: Sequence[rows.Row]) -> str:
    """The same for other budgets, over all seeds: mean share, mean and worst error."""
    budgets = ("0.005", "0.01", "0.02", "0.05")
    header = ("data set", "embedder", *(f"{each}: answered, wrong, at worst" for each in budgets))
    body = [
        (
            dataset,
            embedder,
            *(
                f"{percent(mean_of(runs, 'numbers', f'share {budget}'))}, "
                f"{percent(mean_of(runs, 'numbers', f'error {budget}'))}, "
                f"{percent(max(row['numbers'][f'error {budget}'] for row in runs))}"
                for budget in budgets
            ),
        )
        for (dataset, embedder), runs in by(_of(found, "budget"), "dataset", "embedder")
    ]
    return markdown(header, body, words=(0, 1))


def simulated_table(found: Sequence[rows.Row]) -> str:
    """Each way of choosing: how often it is right, what it costs, and how long it takes."""
    header = (
        "data set",
        "embedder",
        "way",
        "right",
        "dollars a thousand",
        "ms a request",
        "without the chat model",
        "of these wrong, worst seed",
        "the best threshold",
    )
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), runs in by(_of(found, "simulated"), "dataset", "embedder"):
        for way in runs[0]["ways"]:
            own = [row["ways"][way] for row in runs]
            cascade = way.startswith("cascade")
            body.append(
                (
                    dataset,
                    embedder,
                    way,
                    percent(fmean(each["accuracy"] for each in own)),
                    f"{fmean(each['dollars'] for each in own):.3f}",
                    f"{fmean(each['ms'] for each in own):.0f}",
                    percent(fmean(each["without chat"] for each in own)),
                    percent(max(each["error without chat"] for each in own)) if cascade else "",
                    percent(fmean(each["best"] for each in own)) if "best" in own[0] else "",
                )
            )
    return markdown(header, body, words=(0, 1, 2))


def _of(found: Sequence[rows.Row], question: str) -> list[rows.Row]:
    return [row for row in found if row["question"] == question]
