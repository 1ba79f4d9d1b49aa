"""Tables of requests as people write them, and of other languages."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent

_CUTS = ("R@1", "R@3", "R@8")
_WAYS = ("none", "concatenated", "weighed")


def followups_table(found: Sequence[rows.Row]) -> str:
    """R@1, R@3 and R@8 by kind; where something was said before, by each way of using it."""
    header = ("data set", "kind", "embedder", "seeds", *(f"{way}: R@1 / R@3 / R@8" for way in _WAYS), "p50 ms")
    body: list[tuple[str, ...]] = []
    for (dataset, kind, embedder), runs in by(found, "dataset", "kind", "embedder"):
        cells = [
            " / ".join(percent(mean_of([run["numbers"] for run in runs], way, cut)) for cut in _CUTS)
            if way in runs[0]["numbers"]
            else ""
            for way in _WAYS
        ]
        body.append((dataset, kind, embedder, str(len(runs)), *cells, f"{mean([run['ms'] for run in runs]):.2f}"))
    return markdown(header, body, words=(0, 1, 2))


def languages_table(found: Sequence[rows.Row]) -> str:
    """R@1, R@3 and R@8 by language and embedder."""
    header = ("language", "requests", "embedder", *_CUTS, "p50 ms")
    body = [
        (
            language,
            str(runs[0]["requests"]),
            embedder,
            *(percent(mean_of(runs, "numbers", cut)) for cut in _CUTS),
            f"{mean([run['ms'] for run in runs]):.2f}",
        )
        for (language, embedder), runs in by(found, "language", "embedder")
    ]
    return markdown(header, body, words=(0, 2))
