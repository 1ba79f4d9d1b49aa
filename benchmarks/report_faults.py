"""The tables of planted faults that `check` finds, and of the time it takes, from the stored rows."""

from collections.abc import Sequence

from benchmarks import rows
from benchmarks.tables import markdown


def faults_table(found: Sequence[rows.Row]) -> str:
    """One line per catalogue and embedder, and all of them together."""
    header = (
        "catalogue",
        "seed",
        "embedder",
        "flows",
        "planted",
        "found",
        "missed",
        "false alarms",
        "true as published",
    )
    runs = [row for row in found if row["part"] == "faults"]
    body = [
        (
            row["catalogue"],
            str(row["seed"]),
            row["embedder"],
            f"{row['flows']:,}",
            str(row["planted"]),
            str(row["found"]),
            ", ".join(row["missed"]),
            "; ".join(row["false"]) or "0",
            "; ".join(row["true"]) or "0",
        )
        for row in runs
    ]
    planted, right, flows, alarms = (sum(row[key] for row in runs) for key in ("planted", "found", "flows", "alarms"))
    body.append(
        ("all", "", "", f"{flows:,}", str(planted), f"{right} ({100 * right / planted:.1f} %)", "", str(alarms), "")
    )
    return markdown(header, body, words=(0, 2, 6, 7, 8))


def faults_time_table(found: Sequence[rows.Row]) -> str:
    """One line per catalogue."""
    header = ("catalogue", "embedder", "flows", "cases", "best, s", "worst, s")
    body = [
        (
            row["catalogue"],
            row["embedder"],
            f"{row['flows']:,}",
            f"{row['cases']:,}",
            f"{row['best_s']:.2f}",
            f"{row['worst_s']:.2f}",
        )
        for row in found
        if row["part"] == "time"
    ]
    return markdown(header, body, words=(0, 1))


def judging_speed_table(found: Sequence[rows.Row]) -> str:
    """One line per command and state."""
    header = ("command", "state", "flows", "requests", "embedder", "s", "s of CPU")
    order = {"nothing cached": 0, "one side cached": 1, "all cached": 2}
    body = [
        (
            row["command"],
            row["state"],
            f"{row['flows']:,}",
            f"{row['requests']:,}",
            row["embedder"],
            f"{row['numbers']['wall_s']:.1f}",
            f"{row['numbers']['cpu_s']:.1f}",
        )
        for row in sorted(found, key=lambda row: (row["command"], order[row["state"]]))
    ]
    return markdown(header, body, words=(0, 1, 4))
