"""The table of what it gives to say whose a tool is, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown, percent


def live_table(found: Sequence[rows.Row]) -> str:
    """One line per data set and embedder."""
    header = ("requests", "a tool says", "embedder", "first is right", "R@1", "R@5", "R@10", "nDCG@10")
    body: list[tuple[str, ...]] = []
    for row in sorted(found, key=_order):
        asked = "steps" if "steps" in row["dataset"] else "tasks"
        says = "what it does" if _is_alone(row) else "and whose it is"
        shares = [percent(row["shares"][name]) for name in ("first is right", "R@1", "R@5", "R@10", "nDCG@10")]
        body.append((f"{row['requests']} {asked}", says, row["embedder"], *shares))
    return markdown(header, body, words=(0, 1, 2))


def _is_alone(row: rows.Row) -> bool:
    return row["dataset"].endswith("-alone")


def _order(row: rows.Row) -> tuple[bool, str, bool]:
    return "steps" in row["dataset"], row["embedder"], not _is_alone(row)
