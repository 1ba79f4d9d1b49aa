"""The table of tool search beside BM25 and regular expressions."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown, percent

ORDER = ("regex", "BM25", "jazz_select, static", "jazz_select, minilm")


def tool_search_table(found: Sequence[rows.Row]) -> str:
    """Found and lost at five, what is shown for nothing, tokens and times, by way."""
    header = (
        "data set",
        "way",
        "tools",
        "requests",
        "found at 5",
        "lost",
        "for no tool: nothing shown",
        "tokens of all tools",
        "of the search and what it found",
        "p50 / p99 ms",
    )
    body = [
        (
            row["dataset"],
            row["way"],
            f"{row['tools']:,}",
            f"{row['requests']:,}",
            f"{row['found']:,} ({percent(row['numbers']['R@5'])} %)",
            f"{row['lost']:,}",
            f"{row['nothing shown']:,} of {row['outside']:,}" if row["outside"] else "–",
            f"{row['all tokens']:,}",
            f"{row['tokens']:,.0f}",
            f"{row['numbers']['p50']:.1f} / {row['numbers']['p99']:.1f}",
        )
        for row in sorted(found, key=lambda row: (row["dataset"], ORDER.index(row["way"])))
    ]
    return markdown(header, body, words=(0, 1))
