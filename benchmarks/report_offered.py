"""Tables of what a model is offered to choose from, and of recall from a server."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import by, markdown, mean_of, percent


def offered_table(found: Sequence[rows.Row]) -> str:
    """What holds the right flow, how many candidates that takes, and what the model is sent; one row per options."""
    header = (
        "data set",
        "flows",
        "embedder",
        "options",
        "seeds",
        "right one first",
        "right ones offered",
        "candidates",
        "model asked",
        "right of those answered without",
        "the best threshold answers without",
        "prompt tokens, p50 / p90",
    )
    body = [
        (
            dataset,
            str(runs[0]["flows"]),
            embedder,
            options,
            str(len(runs)),
            *(percent(mean_of(runs, "numbers", name)) for name in ("first", "offered")),
            f"{mean_of(runs, 'numbers', 'candidates'):.1f}",
            percent(mean_of(runs, "numbers", "asked")),
            *(
                percent(mean_of(runs, "numbers", name)) if all(name in each["numbers"] for each in runs) else "–"
                for name in ("decided right", "best")
            ),
            " / ".join(f"{mean_of(runs, 'numbers', f'tokens {share}'):.0f}" for share in ("p50", "p90")),
        )
        for (dataset, embedder, options), runs in by(found, "dataset", "embedder", "options")
    ]
    return markdown(header, body, words=(0, 2, 3))


def wire_table(found: Sequence[rows.Row]) -> str:
    """Recall from a server in either protocol, beside the bare embedder and batch query; one row per run."""
    header = (
        "server",
        "flows",
        "requests",
        "recall over gRPC, p50 / p99 ms",
        "recall over REST, p50 / p99 ms",
        "bare embedding + batch query, p50 / p99 ms",
        "gRPC ÷ bare",
        "answers a second, 32 at once: gRPC / REST / bare",
        "bare ÷ gRPC",
    )
    body = [
        (
            row["server"],
            f"{row['flows']:,}",
            f"{row['requests']:,}",
            *(f"{row[way]['p50']:.2f} / {row[way]['p99']:.2f}" for way in ("grpc_ms", "rest_ms", "bare_ms")),
            f"{row['ratio']:.2f}",
            " / ".join(f"{row['per_s_at_once'][way]:,}" for way in ("grpc", "rest", "bare")),
            f"{row['ratio_at_once']:.2f}",
        )
        for row in sorted(found, key=lambda row: (row["server"], row["flows"]))
    ]
    return markdown(header, body, words=(0,))
