"""The table of what a gateway in front of MCP servers spares, and what it finds."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import by, markdown, percent

SHOWN = ("3", "5", "10")


def gateway_table(found: Sequence[rows.Row]) -> str:
    """Tokens of the list before and after, with one search; and how often the right tools are among those found."""
    header = (
        "data set",
        "tools",
        "requests",
        "embedder",
        "tokens of all tools",
        "of the four",
        "with one search of 5",
        "left of them",
        *(f"recall@{shown}" for shown in SHOWN),
        "a search, p50 / p99 ms",
    )
    body: list[tuple[str, ...]] = []
    for (dataset, embedder), (row, *_) in by(found, "dataset", "embedder"):
        five = row["searches"]["5"]
        with_search = row["after"] + five["tokens"]
        body.append(
            (
                dataset,
                f"{row['tools']:,}",
                f"{row['requests']:,}",
                embedder,
                f"{row['before']:,}",
                f"{row['after']:,}",
                f"{with_search:,.0f}",
                f"{percent(with_search / row['before'])} %",
                *(percent(row["searches"][shown]["recall"]) for shown in SHOWN),
                f"{five['p50']:.1f} / {five['p99']:.1f}",
            )
        )
    return markdown(header, body, words=(0, 3))
