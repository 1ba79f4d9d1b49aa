"""The tables of what a service costs beside the same selector in process."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown

_ALONE = ("in process", "over HTTP", "over a Unix socket", "by the client")
_MANY = ("many clients", "many workers", "for long")


def serving_table(found: Sequence[rows.Row]) -> str:
    """One request at a time, by each way."""
    of = {row["question"]: row for row in found}
    ways = [way for way in _ALONE if way in of]
    body = [
        (
            way,
            f"{of[way]['selects']:,}",
            f"{of[way]['ms']['p50']:.2f}",
            f"{of[way]['ms']['p99']:.2f}",
            f"{of[way]['ms']['p50'] / of['in process']['ms']['p50']:.2f} ×",
        )
        for way in ways
    ]
    return markdown(("one at a time", "selects", "p50 ms", "p99 ms", "p50 beside in process"), body, words=[0])


def serving_load_table(found: Sequence[rows.Row]) -> str:
    """Many at once: how many a second, what went wrong, and what the service holds of memory."""
    of = {row["question"]: row for row in found}
    body: list[tuple[str, ...]] = []
    for way in _MANY:
        if (row := of.get(way)) is None:
            continue
        who = f"{row['processes']} processes × {row['clients']} clients" if "processes" in row else f"{row['clients']}"
        times = f"{row['ms']['p50']:.0f} / {row['ms']['p99']:.0f}" if "ms" in row else "–"
        memory = f"{row['rss_before_mb']:.0f} → {row['rss_after_mb']:.0f}" if "rss_before_mb" in row else "–"
        different = f"{row['different']}" if "different" in row else "–"
        body.append((who, f"{row['selects']:,}", f"{row['per_s']:,}", times, f"{row['errors']}", different, memory))
    header = ("clients", "selects", "a second", "p50 / p99 ms", "errors", "other answers than in process", "RSS MB")
    return markdown(header, body, words=[0])


def serving_killed_table(found: Sequence[rows.Row]) -> str:
    """What a service that is killed under load leaves behind."""
    body = [
        (
            f"{row['clients']}",
            ", ".join(f"{name} × {count}" for name, count in sorted(row["told"].items())),
            f"{row['restart_s']:.2f}",
        )
        for row in found
        if row["question"] == "killed"
    ]
    return markdown(("clients when it was killed", "what they got", "until the next one answered, s"), body, words=[1])
