"""Tables of what corrections are worth, and what a log costs."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent

_SAID = {"all": "corrected or confirmed", "wrong": "corrected alone"}


def learning_table(found: Sequence[rows.Row]) -> str:
    """R@1 before and after, by how much was said; averaged over seeds."""
    header = (
        "data set",
        "corrections a flow",
        "said of requests",
        "of corrections wrong",
        "seeds",
        "corrections",
        "confirmations",
        "learned",
        "R@1 before",
        "after",
        "points",
        "known before",
        "after",
        "s",
    )
    body: list[tuple[str, ...]] = []
    for (dataset, a_flow, said_of, wrong), runs in by(found, "dataset", "a_flow", "said_of", "wrong"):
        before, after = (mean_of(runs, "numbers", f"R@1 {when}") for when in ("before", "after"))
        body.append(
            (
                dataset,
                a_flow,
                _SAID[said_of],
                f"{float(wrong):.0%}",
                str(len(runs)),
                *(f"{mean([run[name] for run in runs]):.0f}" for name in ("corrections", "confirmations", "examples")),
                percent(before),
                percent(after),
                f"{100 * (after - before):+.1f}",
                *(percent(mean_of(runs, "numbers", f"gate {when}")) for when in ("before", "after")),
                f"{mean([run['took_s'] for run in runs]):.0f}",
            )
        )
    return markdown(header, body, words=(0, 2))


def topics_table(found: Sequence[rows.Row]) -> str:
    """R@1 before and after in each part, and what became an example of fifty right and ten wrong corrections."""
    parts = {"held": "held out", "gate": "cases given", "apart": "cases apart", "all": "all test requests"}
    header = ("data set", "embedder", "seed", *parts.values(), "right learned", "wrong learned", "s")
    body = [
        (
            row["dataset"].removesuffix("-5"),
            row["embedder"],
            str(row["seed"]),
            *(" → ".join(percent(row["numbers"][f"{part} {when}"]) for when in ("before", "after")) for part in parts),
            *(str(row[name]) for name in ("right learned", "wrong learned")),
            f"{row['took_s']:.0f}",
        )
        for row in found
    ]
    return markdown(header, body, words=(0, 1))


def log_table(found: Sequence[rows.Row]) -> str:
    """What a log adds to a selection without a model."""
    header = ("selections", "µs without a log, p50", "added, p50", "added, p99", "lines lost", "µs to read an entry")
    names = ("select p50 us", "added p50 us", "added p99 us")
    body = [
        (
            f"{row['calls']:,}",
            *(f"{row['numbers'][name]:.0f}" for name in names),
            str(row["dropped"]),
            f"{row['numbers']['read us an entry']:.0f}",
        )
        for row in found
    ]
    return markdown(header, body, words=())
