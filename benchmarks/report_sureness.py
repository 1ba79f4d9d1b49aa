"""Tables of the questions about sureness, several intents and context."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.metrics import mean
from benchmarks.tables import by, markdown, mean_of, percent


def confidence_table(found: Sequence[rows.Row]) -> str:
    """Calibration, and what confidence is good for."""
    header = (
        "data set",
        "embedder",
        "seeds",
        "R@1",
        "ECE",
        "worst ECE of one catalogue",
        "AUROC",
        "saved at 98 %",
        "saved at 99 %",
        "p ≥ .95: share, accuracy",
        "p ≥ .98: share, accuracy",
    )
    body = [
        (
            dataset,
            embedder,
            str(len(runs)),
            percent(mean_of(runs, "numbers", "accuracy")),
            f"{mean_of(runs, 'numbers', 'ECE'):.3f}",
            f"{max(run['numbers'].get('worst ECE', run['numbers']['ECE']) for run in runs):.3f}",
            f"{mean_of(runs, 'numbers', 'AUROC'):.3f}",
            percent(mean_of(runs, "numbers", "saved@98")),
            percent(mean_of(runs, "numbers", "saved@99")),
            *(
                f"{percent(mean_of(runs, 'numbers', f'coverage p>={level}'))}, "
                f"{percent(mean_of(runs, 'numbers', f'accuracy p>={level}'))}"
                for level in ("0.95", "0.98")
            ),
        )
        for (dataset, embedder), runs in by(found, "dataset", "embedder")
    ]
    return markdown(header, body, words=(0, 1))


def cascade_table(found: Sequence[rows.Row]) -> str:
    """Static vectors, the transformer, and both as a cascade; what it loses, and what it saves."""
    ways = ("static", "minilm", "cascade")
    header = (
        "data set",
        "seeds",
        "enough",
        "answered by static",
        *(f"{measure}: {', '.join(ways)}" for measure in ("R@1", "R@5", "mean ms", "p50 ms", "p99 ms")),
    )
    body = [
        (
            dataset,
            str(len(runs)),
            " ".join("–" if run["sure"] is None else f"{run['sure']:.2f}" for run in runs),
            percent(mean([run["by_static"] for run in runs])),
            *(", ".join(percent(mean_of(runs, way, f"R@{k}")) for way in ways) for k in (1, 5)),
            *(", ".join(f"{mean_of(runs, way, f'{part}_ms'):.2f}" for way in ways) for part in ("mean", "p50", "p99")),
        )
        for (dataset,), runs in by(found, "dataset")
    ]
    return markdown(header, body, words=(0,))


def scope_table(found: Sequence[rows.Row]) -> str:
    """Requests that nothing answers."""
    header = (
        "data set",
        "embedder",
        "seeds",
        "signal",
        "AUROC",
        "best single signal",
        "FPR@95",
        "in-scope accuracy at ½",
        "out-of-scope recall at ½",
    )
    body = [
        (
            dataset,
            embedder,
            str(len(runs)),
            signal,
            f"{mean_of(runs, 'numbers', 'AUROC'):.3f}",
            _best_single(runs),
            percent(mean_of(runs, "numbers", "FPR@95")),
            *(
                percent(mean_of(runs, "numbers", name)) if name in runs[0]["numbers"] else ""
                for name in ("in-scope accuracy", "OOS recall")
            ),
        )
        for (dataset, embedder, signal), runs in by(found, "dataset", "embedder", "signal")
    ]
    return markdown(header, body, words=(0, 1, 3))


def bare_tools_table(found: Sequence[rows.Row]) -> str:
    """Tools without examples, or with some that a model wrote: is it known that none fits?"""
    header = (
        "data set",
        "embedder",
        "decision model",
        "seeds",
        "tools",
        "AUROC of none",
        "FPR@95",
        "right one among 5",
        "of these, left out",
        "nothing shown where none fits",
        "mean P(none): one fits / none does",
        "ECE",
    )
    body = [
        (
            dataset,
            embedder,
            decider or "none",
            str(len(runs)),
            str(runs[0]["tools"]),
            f"{mean_of(runs, 'numbers', 'AUROC'):.3f}",
            *(percent(mean_of(runs, "numbers", name)) for name in ("FPR@95", "recalled", "lost", "nothing shown")),
            " / ".join(f"{mean_of(runs, 'numbers', f'P(none) {where}'):.2f}" for where in ("inside", "outside")),
            f"{mean_of(runs, 'numbers', 'ECE'):.3f}",
        )
        for (dataset, embedder, decider), runs in by(found, "dataset", "embedder", "decider")
    ]
    return markdown(header, body, words=(0, 1, 2))


def _best_single(runs: Sequence[rows.Row]) -> str:
    """Which of the signals tells best by itself, and how well; empty in rows that do not say."""
    if not all("singles" in run for run in runs):
        return ""
    means = {name: mean_of(runs, "singles", name) for name in runs[0]["singles"]}
    best = max(means, key=means.__getitem__)
    return f"{means[best]:.3f} ({best})"


def sets_table(found: Sequence[rows.Row]) -> str:
    """How many candidates hold the right one."""
    wished = sorted({row["wished"] for row in found})
    header = ("data set", "embedder", "seeds", *(f"{100 * each:g} %: held, mean size, of one" for each in wished))
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), runs in by(found, "dataset", "embedder"):
        cells: list[str] = []
        for each in wished:
            its = [row for row in runs if row["wished"] == each]
            held, one = (percent(mean_of(its, "numbers", name)) for name in ("coverage", "share of one"))
            cells.append(f"{held}, {mean_of(its, 'numbers', 'mean size'):.1f}, {one}")
        seeds = {row["seed"] for row in runs}
        body.append((dataset, embedder, str(len(seeds)), *cells))
    return markdown(header, body, words=(0, 1))


def scale_table(found: Sequence[rows.Row]) -> str:
    """What size costs."""
    header = (
        "flows",
        "embedder",
        "sync cold",
        "unchanged",
        "one flow changed, next process",
        "recall p50 / p99",
        "bare embedding + engine p50",
        "ratio",
        "memory",
        "disk",
    )
    body = [
        (
            f"{row['flows']:,}",
            row["embedder"],
            f"{row['cold_s']:.2f} s",
            f"{row['unchanged_s']:.2f} s",
            f"{row['changed_s']:.2f} s" if "changed_s" in row else "–",
            f"{row['recall_ms']['p50']:.3f} / {row['recall_ms']['p99']:.3f} ms",
            f"{row['bare_ms']['p50']:.3f} ms" if row["bare_ms"] else "–",
            f"{row['recall_ms']['p50'] / row['bare_ms']['p50']:.2f}" if row["bare_ms"] else "–",
            f"{row['memory_mb']} MB",
            f"{row['disk_mb']} MB",
        )
        for row in sorted(found, key=lambda row: (row["flows"], row["embedder"]))
    ]
    return markdown(header, body, words=(1,))


def intents_table(found: Sequence[rows.Row]) -> str:
    """A request as a whole, and with its clauses."""
    names = ("R@1", "R@5", "COMP@5", "COMP@8")
    header = ("data set", "embedder", "seeds", *(f"{name}: whole → clauses" for name in names))
    body = [
        (
            dataset,
            embedder,
            str(len(runs)),
            *(
                f"{percent(mean_of(runs, 'whole', name))} → {percent(mean_of(runs, 'clauses', name))}"
                if name in runs[0]["whole"]
                else ""
                for name in names
            ),
        )
        for (dataset, embedder), runs in by(found, "dataset", "embedder")
    ]
    return markdown(header, body, words=(0, 1))


def episodes_table(found: Sequence[rows.Row]) -> str:
    """R@1 of vague and clear requests by how the summary is used."""
    kinds = [f"{kind}, {way}" for kind in ("vague", "clear") for way in ("none", "concatenated", "weighed")]
    header = ("data set", "embedder", "seeds", *kinds)
    body = [
        (dataset, embedder, str(len(runs)), *(percent(mean_of(runs, "numbers", kind)) for kind in kinds))
        for (dataset, embedder), runs in by(found, "dataset", "embedder")
    ]
    return markdown(header, body, words=(0, 1))


def peer_confidence_table(found: Sequence[rows.Row]) -> str:
    """One line per data set, embedder, system and number of labels, averaged over seeds."""
    header = ("data set", "embedder", "system", "labels", "seeds", "R@1", "ECE", "AUROC", "alone at 99 %")
    body: list[tuple[str, ...]] = []
    for (dataset, embedder, labels, system), runs in by(found, "dataset", "embedder", "labels", "system"):
        right, alone = (percent(mean_of(runs, "numbers", name)) for name in ("accuracy", "alone@99"))
        ece, auroc = (f"{mean_of(runs, 'numbers', name):.3f}" for name in ("ECE", "AUROC"))
        body.append((dataset, embedder, system, labels, str(len(runs)), right, ece, auroc, alone))
    return markdown(header, body, words=(0, 1, 2))
