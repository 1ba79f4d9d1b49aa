"""The table of how long hostile texts hold the event loop, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown


def bounds_table(found: Sequence[rows.Row]) -> str:
    """One line per door, the one that was held longest first."""
    header = ("door", "what is read", "texts", "held at worst, ms", "by")
    body = [
        (row["door"], row["bound"], f"{row['inputs']:,}", f"{row['held_ms']:,.1f}", row["worst"])
        for row in sorted(found, key=lambda row: -row["held_ms"])
    ]
    return markdown(header, body, words=(0, 1, 4))
