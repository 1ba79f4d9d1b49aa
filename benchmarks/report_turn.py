"""The table of what a turn costs, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown


def turn_table(found: Sequence[rows.Row]) -> str:
    """One line per way, the cheapest first."""
    header = ("way", "nodes", "turns", "p50 µs", "p99 µs", "µs a node, p50")
    body = [
        (
            row["way"],
            str(row["nodes"]),
            f"{row['turns']:,}",
            f"{row['us']['p50']:,.1f}",
            f"{row['us']['p99']:,.1f}",
            f"{row['us']['p50'] / row['nodes']:.1f}",
        )
        for row in sorted(found, key=lambda row: row["us"]["p50"])
    ]
    return markdown(header, body, words=(0,))
