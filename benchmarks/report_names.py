"""The table of tool names, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import by, markdown, percent

_KINDS = ("opposite", "destructive", "ambiguous", "hopeless")


def names_table(found: Sequence[rows.Row]) -> str:
    """One line per method: what it finds in either half, and what it would have run by mistake, the safest first."""
    header = ("method", "meant", "found, tuned / other half", "names", "wrong", *_KINDS, "µs a name")
    body: list[tuple[str, ...]] = []
    for (method,), runs in by(found, "method"):
        halves = {run["half"]: run for run in runs}
        shares = [
            percent(halves[half]["found"] / halves[half]["meant"]) if half in halves else ""
            for half in ("tuned", "held out")
        ]
        wrong = {kind: sum(run["wrong_by_kind"].get(kind, 0) for run in runs) for kind in _KINDS}
        body.append(
            (
                method,
                str(sum(run["meant"] for run in runs)),
                " / ".join(shares),
                str(sum(run["names"] for run in runs)),
                str(sum(run["wrong"] for run in runs)),
                *(str(wrong[kind]) for kind in _KINDS),
                f"{max(run['us'] for run in runs):.0f}",
            )
        )
    return markdown(header, sorted(body, key=lambda cells: int(cells[4])), words=(0,))
